"""Composition root: connect the packages and give every surface one object to call.

Only this package may import every other. It puts adapters behind ports, and makes the clock, the
ids and the salts that the core takes as arguments. Backends are imported inside functions, so that
a command loads only the modules that it uses.
"""

from collections.abc import Callable

from forum.app.access import AccessOperations, Approver
from forum.app.environment import (
    KINDS,
    OPERATOR,
    new_run_id,
    new_salt,
    now,
    upgrade_database,
    write_files,
)
from forum.app.keys import KeyOperations
from forum.app.log import LogOperations
from forum.app.project import ProjectContext, build_secret_mask, read_password
from forum.app.reads import RunReads
from forum.app.records import RunView, open_bundle, verify_bundle_file, view_record
from forum.app.runs import BudgetStatus, RunOperations
from forum.app.witness import LocalWitness
from forum.app.witness_server import (
    audit_with,
    bind_sockets,
    open_auditor,
    open_witness,
    serve_witness,
    trust_log,
    trusted_logs,
)
from forum.config import Settings

__all__ = [
    "KINDS",
    "OPERATOR",
    "Approver",
    "BudgetStatus",
    "Forum",
    "RunView",
    "audit_with",
    "bind_sockets",
    "build_secret_mask",
    "new_run_id",
    "new_salt",
    "now",
    "open_auditor",
    "open_bundle",
    "open_witness",
    "read_password",
    "serve_witness",
    "trust_log",
    "trusted_logs",
    "upgrade_database",
    "verify_bundle_file",
    "view_record",
    "write_files",
]


class Forum(ProjectContext):
    """One ledger, with a part for each kind of operation."""

    def __init__(
        self,
        settings: Settings,
        warn: Callable[[str], None] | None = None,
        *,
        register: bool = True,
    ) -> None:
        """Prepare access to the ledger that the settings name; nothing is opened yet.

        `warn` is called with one line for each problem that stopped nothing, and for each notice.
        `register` tells whether the state directory may record that this log belongs to this
        project.
        """
        super().__init__(settings, warn, register=register)
        self.witness = LocalWitness(self)
        self.reads = RunReads(self)
        self.log = LogOperations(self, self.witness, self.reads)
        self.keys = KeyOperations(self, self.log, self.witness)
        self.runs = RunOperations(self, self.log, self.keys, self.reads)
        self.access = AccessOperations(self)

    def close(self) -> None:
        """Close the database connections."""
        self.runs.return_budgets()
        super().close()
