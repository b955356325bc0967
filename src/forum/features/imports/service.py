"""Recording of ledgers that other programs wrote.

What they say is recorded as *reported*: their chain shows that nothing was changed since it was
written, and not that it happened.
"""

from msgspec import Struct
from msgspec.structs import replace

from forum.app import Forum
from forum.errors import ConcurrentUpdate, ForeignLedgerBroken, NoSuchRun, PositionTaken
from forum.features.imports.rules import FRAMEWORK, EngineLedger
from forum.ledger.entry import MAIN_STRAND
from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts, span_strand
from forum.runs.reported_run import ReportedRunWriter, close_reported_run
from forum.tlog import Hash

_REPORTER = "import"
_MAX_ATTEMPTS = 20
"""How often a run is read anew because another process imports the same ledger."""


class ImportedRun(Struct, frozen=True):
    """A run that holds a part of an imported ledger."""

    run: str
    entries: int
    is_new: bool
    """Whether this import recorded it; otherwise an earlier one did."""


class ImportOperations:
    """Records ledgers of other programs."""

    def __init__(self, forum: Forum) -> None:
        self._project, self._reads = forum, forum.reads

    def import_engine_ledger(self, source: EngineLedger) -> list[ImportedRun]:
        """Record each request of a ledger as one reported run, and return the runs in order.

        A run is named after the hash of its first entry.  So a second import records only what was
        added since the first, and another process may import at the same time.  Each run is one
        commit; a crash leaves whole runs, and the next import goes on after them.

        Raises `ForeignLedgerBroken` if an earlier import recorded other entries.
        """
        runs: list[ImportedRun] = []
        start, attempts = 0, 0
        while start < len(source.entries):
            entries = source.entries[start : source.end_of_run(start)]
            run, spans = entries[0].run, self._recorded_spans(entries[0].run)
            if spans:
                entries = source.entries[start : start + len(spans)]
                if {entry.entry_hash for entry in entries} != spans:
                    where = f"entry {start}"
                    raise ForeignLedgerBroken(
                        where, f"run {run}, which was imported before, continues differently"
                    )
            else:
                # What goes on in the middle of a request continues the run before.
                continues = runs[-1].run if runs and entries[0].kind != "request" else ""
                try:
                    self._record_run(source, start, len(entries), continues)
                except PositionTaken:
                    attempts += 1
                    if attempts == _MAX_ATTEMPTS:
                        raise ConcurrentUpdate(run) from None
                    continue
            # Also one that a crash has left open after its commit.
            close_reported_run(self._project.ledger, run, _REPORTER, source.outcome_of(entries))
            runs.append(ImportedRun(run, len(entries), not spans))
            start += len(entries)
        return runs

    def _recorded_spans(self, run: str) -> frozenset[str]:
        try:
            return frozenset(self._reads.read_run(run).report.spans)
        except NoSuchRun:
            return frozenset()

    def _record_run(self, source: EngineLedger, start: int, count: int, continues: str) -> None:
        """Record entries as the steps of one run, in their order.  Raises `PositionTaken`."""
        ledger = self._project.ledger
        entries = source.entries[start : start + count]
        run = entries[0].run
        append = ledger.join_appends()
        main = ledger.new_strand(run, MAIN_STRAND)
        facts = ReportSourceFacts(
            told=ReportProvenance.REPORTED,
            by=_REPORTER,
            framework=FRAMEWORK,
            continues=continues,
        )
        opening = (ledger.draft_opening(_REPORTER), source_draft(run, FRAMEWORK, facts))
        head = append.add(main, *opening)[-1].leaf
        writer, leaves = ReportedRunWriter(ledger, run, head), dict[int, Hash]()
        for entry in entries:
            step, bodies = source.step(entry)
            strand = ledger.new_strand(run, span_strand(step.span))
            # The cause, so that `forum why` follows the links of the imported ledger.
            cause = leaves.get(entry.causal_parent) if entry.causal_parent is not None else None
            draft = writer.step_draft(step, bodies)
            if cause is not None:
                draft = replace(draft, parents=(head, cause))
            leaves[entry.seq] = append.add(strand, draft)[0].leaf
        append.commit()
