"""Forum: work done by agents, and a ledger of it that a stranger can verify.

A request is routed to a specialist lane, turned into a plan, run across agents, judged result
by result, and answered once.  Every step is an entry in a transparency log before the next one
begins, so that whoever reads the answer can check how it came about without trusting whoever
ran it.

The package is a house of rooms with one direction of imports; ARCHITECTURE.md draws it.
"""

__all__ = ["__version__"]

# The one place that states the version: the build reads it from this line.
__version__ = "0.2.0"
