"""Composition root: connect the packages and give every surface one object to call.

Only this package may import every other. It puts adapters behind ports, and makes the clock, the
ids and the salts that the core takes as arguments. Backends are imported inside functions, so that
a command loads only the modules that it uses.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from forum.app.access import AccessOperations, Approver
from forum.app.archiving import ArchiveResult
from forum.app.clock_ids_and_kinds import (
    KINDS,
    OPERATOR,
    bind_sockets,
    new_run_id,
    new_salt,
    now,
    partition_database,
    upgrade_database,
    write_files,
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
    is_pack_file,
    open_bundle,
    verify_bundle_file,
    view_record,
)
from forum.app.run_costs import CostAxis, CostSum, CostTable
from forum.app.run_list import MAX_SCANNED_RUNS, ListedRun, RunPage, RunQuery
from forum.app.runs import BudgetStatus, QuotaUse, RunOperations
from forum.app.scores import ScoreOperations
from forum.app.upstream_figures import UpstreamFigures
from forum.app.witnesses import Witnesses, find_witnesses

if TYPE_CHECKING:
    from forum.app.budgets import BudgetOperations
    from forum.app.reports import ReportOperations


class Forum(ProjectContext):
    """One ledger, with a part for each kind of operation."""

    @cached_property
    def witnesses(self) -> Witnesses:
        """The witness of this machine, and how the others are reached."""
        return find_witnesses(self)

    @cached_property
    def reads(self) -> RunReads:
        """Reads of runs, gates and workers."""
        return RunReads(self)

    @cached_property
    def log(self) -> LogOperations:
        """Writing, publishing, exporting, redacting and verifying."""
        return LogOperations(self, self.witnesses, self.reads)

    @cached_property
    def keys(self) -> KeyOperations:
        """Making, rotating and replacing the keys of the log."""
        return KeyOperations(self, self.log, self.witnesses)

    @cached_property
    def runs(self) -> RunOperations:
        """Submitting, executing, stopping and forking runs."""
        return RunOperations(self, self.log, self.keys, self.reads)

    @cached_property
    def budgets(self) -> "BudgetOperations":
        """Setting caps over many runs, and freezing all spending."""
        from forum.app.budgets import BudgetOperations

        return BudgetOperations(self, self.runs)

    @cached_property
    def scores(self) -> ScoreOperations:
        """Recording scores of ended runs."""
        return ScoreOperations(self, self.reads)

    @cached_property
    def reports(self) -> "ReportOperations":
        """Recording runs that Forum does not drive."""
        from forum.app.reports import ReportOperations

        return ReportOperations(self, self.reads)

    @cached_property
    def access(self) -> AccessOperations:
        """API keys and the token of the operator."""
        return AccessOperations(self)

    def close(self) -> None:
        """Close the database connections."""
        self.runs.return_budgets()
        super().close()
