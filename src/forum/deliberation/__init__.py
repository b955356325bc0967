"""Deliberation protocols as pure state machines: turn results go in, the next step comes out.

The package decides which seat speaks, what it may see and when the question is settled, and it
declares the entry kinds that a deliberation records. It may import `forum.work`, `forum.ledger` and
the packages below them; `forum.verify`, `forum.engine` and the packages above them may import it.
It calls no model and reads no clock, so replaying a transcript from the ledger yields the same
turns.

    steps          the types that every protocol is built from
    council        sealed ballots, an anonymous exchange, a vote: the default protocol
    tally          counts the ballots of a council
    council_report the report that a council leaves to its readers
    symposium      the open protocol of that name, with its schemas and invariants
    seating        assigns personas and agents to the seats of a panel
    session_audit  checks that a recorded session follows from its replies
"""
