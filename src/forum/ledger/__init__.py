"""The ledger: entries and their canonical bytes, the kinds of entries, and the log over a store.

`forum.ledger(".")` opens the ledger of a project for reading; see `forum.LedgerReader` for what it
can be asked.

This package does no I/O of its own: files, databases, clocks and random numbers are passed in
through the ports (`forum.ledger.ports`).  Import its modules; the package itself exports nothing.
"""

import sys
from types import ModuleType


class _CallablePackage(ModuleType):
    """The class of this package: programs call it by the name that it has in `forum`."""

    def __call__(self, folder: object = ".") -> object:
        """Open the ledger of a project for reading, and return a `forum.LedgerReader`."""
        # By name: the core imports nothing of the SDK.  `forum` loads it when it is asked for.
        return sys.modules["forum"].LedgerReader(folder)


sys.modules[__name__].__class__ = _CallablePackage
