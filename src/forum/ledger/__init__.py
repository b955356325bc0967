"""The ledger: entries and their canonical bytes, the kinds of entries, and the log over a store.

This package does no I/O of its own: files, databases, clocks and random numbers are passed in
through the ports (`forum.ledger.ports`).  Import its modules; the package itself exports nothing.
"""
