"""Composition root: connect the packages and give every surface one object to call.

Only this package may import every other. It puts adapters behind ports, and makes the clock, the
ids and the salts that the core takes as arguments. Backends are imported inside functions, so that
a command loads only the modules that it uses.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from forum.app.access import AccessOperations, Approver
from forum.app.archive import ArchiveResult
from forum.app.environment import (
    KINDS,
    OPERATOR,
    new_run_id,
    new_salt,
    now,
    partition_database,
    upgrade_database,
    write_files,
)
from forum.app.evaluation_list import (
    MAX_RECOMPUTED_PLAYS,
    EvaluationPage,
    ListedEvaluation,
    ReportCheck,
)
from forum.app.keys import EpochStart, KeyOperations
from forum.app.log import LogOperations
from forum.app.project import ProjectContext, build_secret_mask, key_variables, read_password
from forum.app.reads import RunReads
from forum.app.record_figures import LogFigures
from forum.app.records import (
    ExplainedGate,
    GateOrigin,
    LocatedGate,
    RunView,
    open_bundle,
    verify_bundle_file,
    view_record,
)
from forum.app.run_costs import CostAxis, CostSum, CostTable
from forum.app.run_list import MAX_SCANNED_RUNS, ListedRun, RunPage, RunQuery
from forum.app.runs import BudgetStatus, QuotaUse, RunOperations
from forum.app.scores import ScoreOperations
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

if TYPE_CHECKING:
    from forum.app.evaluations import EvaluationOperations
    from forum.app.evidence import EvidenceOperations
    from forum.app.imports import ImportOperations
    from forum.app.oversight import OversightOperations
    from forum.app.reports import ReportOperations
    from forum.app.retention import RetentionOperations
    from forum.app.symposium_sessions import SymposiumOperations

__all__ = [
    "KINDS",
    "MAX_RECOMPUTED_PLAYS",
    "MAX_SCANNED_RUNS",
    "OPERATOR",
    "Approver",
    "ArchiveResult",
    "BudgetStatus",
    "CostAxis",
    "CostSum",
    "CostTable",
    "EpochStart",
    "EvaluationPage",
    "ExplainedGate",
    "Forum",
    "GateOrigin",
    "ListedEvaluation",
    "ListedRun",
    "LocatedGate",
    "LogFigures",
    "QuotaUse",
    "ReportCheck",
    "RunPage",
    "RunQuery",
    "RunReads",
    "RunView",
    "audit_with",
    "bind_sockets",
    "build_secret_mask",
    "key_variables",
    "new_run_id",
    "new_salt",
    "now",
    "open_auditor",
    "open_bundle",
    "open_witness",
    "partition_database",
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

    @cached_property
    def witness(self) -> LocalWitness:
        """The witness of this machine, and how the others are reached."""
        return LocalWitness(self)

    @cached_property
    def reads(self) -> RunReads:
        """Reads of runs, gates and workers."""
        return RunReads(self)

    @cached_property
    def log(self) -> LogOperations:
        """Writing, publishing, exporting, redacting and verifying."""
        return LogOperations(self, self.witness, self.reads)

    @cached_property
    def keys(self) -> KeyOperations:
        """Making, rotating and replacing the keys of the log."""
        return KeyOperations(self, self.log, self.witness)

    @cached_property
    def runs(self) -> RunOperations:
        """Submitting, executing, stopping and forking runs."""
        return RunOperations(self, self.log, self.keys, self.reads)

    @cached_property
    def scores(self) -> ScoreOperations:
        """Recording scores of ended runs."""
        return ScoreOperations(self, self.reads)

    @cached_property
    def oversight(self) -> "OversightOperations":
        """Reviews, incidents, and the record of the configuration in use."""
        from forum.app.oversight import OversightOperations

        return OversightOperations(self, self.reads, self.runs)

    @cached_property
    def retention(self) -> "RetentionOperations":
        """Rules of retention, holds, and the erasure of bodies whose period is over."""
        from forum.app.retention import RetentionOperations

        return RetentionOperations(self, self.log)

    @cached_property
    def evaluations(self) -> "EvaluationOperations":
        """Recording evaluations, and reading their reports."""
        from forum.app.evaluations import EvaluationOperations

        return EvaluationOperations(self, self.reads)

    @cached_property
    def imports(self) -> "ImportOperations":
        """Recording of ledgers that other programs wrote."""
        from forum.app.imports import ImportOperations

        return ImportOperations(self, self.reads)

    @cached_property
    def reports(self) -> "ReportOperations":
        """Recording runs that Forum does not drive."""
        from forum.app.reports import ReportOperations

        return ReportOperations(self, self.reads)

    @cached_property
    def evidence(self) -> "EvidenceOperations":
        """Making evidence packs."""
        from forum.app.evidence import EvidenceOperations

        return EvidenceOperations(self, self.log, self.reads)

    @cached_property
    def symposia(self) -> "SymposiumOperations":
        """Files and replays of sessions of the open protocol."""
        from forum.app.symposium_sessions import SymposiumOperations

        return SymposiumOperations(self, self.reads, self.runs)

    @cached_property
    def access(self) -> AccessOperations:
        """API keys and the token of the operator."""
        return AccessOperations(self)

    def close(self) -> None:
        """Close the database connections."""
        self.runs.return_budgets()
        super().close()
