"""The nouns and rules of a run, from its request to its answer.

A noun carries its recorded form (``result/1``), and one fold turns the entries of a run into
the run: resuming, showing, measuring and verifying all read it through that fold.  Routing
lives here too.  The room may import `forum.ledger` and what lies beneath it; everything that
handles runs (`forum.deliberation`, `forum.verify`, `forum.engine`, the adapters, `forum.app`
and the surfaces) may import it.  It is pure: no file, socket, clock or randomness.
"""

__all__: list[str] = []
