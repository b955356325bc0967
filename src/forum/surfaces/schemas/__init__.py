"""The JSON that Forum speaks: one form for each thing, the same at every surface.

A form has no rules of its own: it is made from a value of the app, and says what that says.
Dollars are texts, so that they stay exact; points in time are RFC 3339 in UTC; what is not known,
not limited or not there is null.

* `fields`: what many forms hold
* `runs`, `tasks`, `gates`: a run, what is done in it, and what waits for a person
* `deliberations`, over `council` and `symposium`: what a panel has come to
* `comparison`: two runs side by side
* `scores`, `evaluations`: how good runs were, and agents that played the same cases
* `ledger`, `reports`: entries and their proofs, and what a verifier found
* `lanes`, `plans`, `models`: who would do what
* `keys`: who is let in
* `idempotency`: the names under which clients ask
"""

__all__: list[str] = []
