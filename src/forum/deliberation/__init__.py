"""Deliberation as a state machine: the transcript so far goes in, the next turn comes out.

It decides who speaks, what they may see and when the question is settled, and it declares the
kinds of entry that a deliberation leaves behind, with a fold of its own over them.  The room
may import `forum.work`, `forum.ledger` and what lies beneath them; `forum.verify`,
`forum.engine` and the rooms above them may import it.  It is pure: it calls no model, and a
transcript read back from the ledger leads to the same turns.
"""

__all__: list[str] = []
