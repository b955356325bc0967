"""Write reported items into a ledger: runs, steps, gaps and gates of agents that run elsewhere.

Every item can be written again: its position tells that it is recorded.  The number of steps that
are recorded and the number in gaps add up to the number that was handed in when a run is closed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Lock
from typing import Any, TypeVar, assert_never

import msgspec

from forum import errors
from forum.engine import SharedBudgets, expire_gate, find_gate, open_gate_draft
from forum.features.recorder import report_items
from forum.features.recorder.earlier_inputs import InputJoiner
from forum.features.recorder.report_charges import ChargedStep, ReportCharges
from forum.features.recorder.values import to_attachment
from forum.ledger.body import BytesContent
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger, StrandEnd, read_strand_entries
from forum.ledger.ports import NO_LIMIT, Amount, BudgetSliceCharge, Spend
from forum.ledger.strand import Attachment, Draft, RecordedEntry, StrandStart
from forum.runs import kinds, report_kinds
from forum.runs.policy import Answer
from forum.runs.report_comparison import holds_same_body, says_same
from forum.runs.report_drafts import (
    OVERRUN,
    find_overrun,
    names_body,
)
from forum.runs.reported_run import ReportedRunWriter, close_reported_run, open_reported_run
from forum.runs.shared_caps import Limit

ResultT = TypeVar("ResultT")
_SYSTEM_ACTOR = "recorder"
_FILTERED = report_kinds.GapReason.FILTERED
_LOSSES = frozenset(
    {
        report_kinds.GapReason.OVERFLOW,
        report_kinds.GapReason.SHUTDOWN,
        report_kinds.GapReason.UNREACHABLE,
        report_kinds.GapReason.REFUSED,
        report_kinds.GapReason.SEQUENCE,
    }
)
"""Why a step that was handed in may be missing; the other reasons are no losses."""
_MODEL = report_kinds.Operation.MODEL
_GATE_PREFIX = kinds.gate_strand("")


class ReportWriter:
    """Writes the reports of one reporter; safe to use from many threads."""

    def __init__(
        self,
        ledger: Ledger,
        by: str,
        *,
        is_only_writer: bool = False,
        may_approve: bool = False,
        reserved: tuple[str, ...] = (),
        charges: ReportCharges | None = None,
    ) -> None:
        """Take a ledger, and the name of the key or the process that reports.

        The only writer of its runs need not read them again: it remembers what it has opened and
        how many steps it has recorded.  It opens no run whose name begins with a reserved prefix.
        Who may not approve opens no gate that its deadline approves.  Calls of models are charged
        to caps over many runs, if these are given.
        """
        self._charges = charges
        self._ledger, self._by = ledger, report_kinds.derive_reporter_label(by)
        self._reserved, self._may_approve = reserved, may_approve
        self._remembers = is_only_writer
        self._remembered_runs: DatabaseMemory[dict[str, ReportedRunWriter]] = DatabaseMemory(
            ledger.store.lineage, dict
        )
        self._recorded: Counter[str] = Counter()
        self._remembered_ends: DatabaseMemory[dict[str, dict[str, StrandEnd]]] = DatabaseMemory(
            ledger.store.lineage, dict
        )
        """By run: the ends of its spans.  A run that is not in it is read when it is closed."""
        self._lock = Lock()

    @property
    def _open(self) -> dict[str, ReportedRunWriter]:
        return self._remembered_runs.value

    @property
    def _ends(self) -> dict[str, dict[str, StrandEnd]]:
        return self._remembered_ends.value

    def open_run(self, start: report_items.RunStart) -> ReportedRunWriter:
        """Open a run unless it is open.

        Raises `ReportRefused` if it is closed, or not ours, and `Malformed` if it claims to be
        relayed: only gateways know that.
        """
        if start.told is report_kinds.ReportProvenance.RELAYED:
            raise errors.Malformed("report", "told is wrapped or reported; gateways write relayed")
        # A process that is the only writer has just made up the run's name.
        run = self._open.get(start.run) if self._remembers else self.find_run(start.run)
        if run is not None:
            return run
        if start.run.startswith(self._reserved):
            # Names that can be foreseen: whoever takes one first keeps its owner out.
            raise errors.ReportRefused(start.run, "names that begin like this are reserved")
        if report_kinds.looks_like_run_id(start.run):
            why = "its name may be taken for the id of another run; take a whole UUID, or words"
            raise errors.ReportRefused(start.run, why)
        if report_kinds.is_derived_run_id(start.run):
            why = "ids like this (UUID version 8) are those of child runs; take another one"
            raise errors.ReportRefused(start.run, why)
        source = report_kinds.copy_fields(report_kinds.ReportSourceFacts, start, by=self._by)
        try:
            opened = open_reported_run(self._ledger, start.run, start.name, source)
        except (errors.StepMismatch, errors.ConcurrentUpdate):
            # Another process has opened it at the same moment.
            return _require(self.find_run(start.run))
        return self._remember_run(opened) if self._remembers else opened

    def _remember_run(self, opened: ReportedRunWriter) -> ReportedRunWriter:
        with self._lock:
            # Two threads may open the same run: what one has remembered since is kept.
            if opened.run not in self._open:
                self._open[opened.run] = opened
                self._ends[opened.run] = {}
            return self._open[opened.run]

    def find_run(self, run: str) -> ReportedRunWriter | None:
        """Return an open run of this reporter, or None if there is no run with this name.

        Raises `ReportRefused` if it is closed, driven by Forum, or reported by another.
        """
        if run in self._open:
            return self._open[run]
        if self._ledger.store.last_entry(run, MAIN_STRAND) is None:
            return None
        if self._ledger.is_closed(run):
            raise errors.ReportRefused(run, "it is closed")
        if own := self._find_own(run):
            return own
        raise errors.ReportRefused(run, "it belongs to another reporter")

    def _find_own(self, run: str) -> ReportedRunWriter | None:
        """Return a run of this reporter, which may be closed, or None if it is not."""
        for leaf, entry in read_strand_entries(self._ledger, run, MAIN_STRAND, start=1):
            facts = entry.facts
            if (
                run != LOG_RUN
                and isinstance(facts, report_kinds.ReportSourceFacts)
                and facts.by == self._by
                # What a gateway has relayed for a key is not the key's to add to.
                and facts.told is not report_kinds.ReportProvenance.RELAYED
            ):
                return ReportedRunWriter(self._ledger, run, leaf, facts.cap, program=entry.actor)
            break
        return None

    def record_steps(
        self, steps: Sequence[tuple[ReportedRunWriter, report_items.StepReport]]
    ) -> list[bool]:
        """Record steps without a `begin` in one commit; return which were not recorded before."""
        starts = [
            StrandStart(
                run.run,
                report_kinds.span_strand(step.span),
                _step_draft(run, step, charges=self._count(run, step)),
            )
            for run, step in steps
        ]
        entries = self._ledger.start_strands(starts)
        for start, entry in zip(starts, entries, strict=True):
            self._remember_end(start.run, start.strand, 0, entry, ends=True)
        return [entry is not None for entry in entries]

    def _count(
        self, run: ReportedRunWriter, step: report_items.StepReport
    ) -> tuple[BudgetSliceCharge, ...]:
        """Return the charges of a call that is recorded only after it was made."""
        spent = _spent(step)
        if self._charges is None or step.op is not _MODEL or spent == Amount():
            return ()
        return self._charges.count(_charged_step(run, step).agent, spent)

    def begin_step(
        self,
        run: ReportedRunWriter,
        begin: report_items.StepBegin,
        charges: tuple[BudgetSliceCharge, ...] = (),
    ) -> None:
        """Record a step before it is made, with charges to caps over many runs.

        Raises `BudgetExceeded` if the run cannot pay the reservation or has passed its cap,
        `ReservationOverrun` if it was stopped, `ReportRefused` if the span is recorded already, and
        `Malformed` if a call of a model does not count as one.
        """
        if run.is_capped:
            if begin.op is report_kinds.Operation.MODEL and not begin.calls:
                why = f"span {begin.span} calls a model, and the run has a cap: set calls to 1"
                raise errors.Malformed("report", why)
            passed = self._find_passed_limit(run)
            if passed is not None:
                # Even what reserves nothing, and so is not guarded by the account.
                asked = getattr(Amount(begin.usd, begin.tokens, begin.calls), passed.limit)
                raise errors.BudgetExceeded(run.run, passed.limit, asked, passed.used, passed.cap)
            stop = self._find_stop(run.run)
            if stop is not None:
                raise errors.ReservationOverrun(
                    run.run, stop.limit, stop.asked, stop.used, stop.cap
                )

        def commit(shared: tuple[BudgetSliceCharge, ...]) -> None:
            strand = run.new_strand(begin.span)
            try:
                # Exclusive: a program that adopted the intent of another would act a second time.
                (entry,) = strand.append_exclusive(_begin_draft(run, begin, (*charges, *shared)))
                self._remember_end(run.run, strand.name, 0, entry)
            except errors.ConcurrentUpdate:
                raise errors.ReportRefused(run.run, f"span {begin.span} has begun before") from None

        if self._charges is None or begin.op is not _MODEL:
            commit(())
        else:
            bound = Amount(begin.usd, begin.tokens)
            charged = _charged_step(run, begin)
            self._charges.reserve(run.run, charged, bound, commit)

    def begin_within(
        self,
        run: ReportedRunWriter,
        begin: report_items.StepBegin,
        amounts: Sequence[tuple[Limit, Spend]],
    ) -> None:
        """Do the same as `begin_step` within limits over many steps.  Raises `CapReached` also."""
        # One owner for all processes that report: each lives for a moment, and leaves no row.
        budgets = SharedBudgets(self._ledger.store, (), _SYSTEM_ACTOR)
        budgets.spend_each(amounts, lambda charges: self.begin_step(run, begin, charges))

    def gates_about(self, run: ReportedRunWriter, shown: str) -> list[str]:
        """Return the subjects of the gates that show a text, in the order of their opening."""
        content, subjects = BytesContent(shown.encode(errors="replace")), []
        for strand in self._ledger.store.strands(run.run):
            if not strand.startswith(_GATE_PREFIX):
                continue
            entries = [e for _, e in read_strand_entries(self._ledger, run.run, strand)]
            if self._shows(entries, content):
                subjects.append((entries[0].ts, strand.removeprefix(_GATE_PREFIX)))
        return [subject for _, subject in sorted(subjects)]

    def _shows(self, gate: Iterable[Entry[Any]], shown: BytesContent) -> bool | None:
        # The last text, which a person may have edited, is what was or will be decided.
        *_, last = (entry for entry in gate if "shown" in entry.bodies)
        return holds_same_body(self._ledger, last, "shown", shown)

    def find_open_step(
        self, run: ReportedRunWriter, op: report_kinds.Operation, name: str, given: msgspec.Raw
    ) -> str | None:
        """Return the span of the first step that has begun with this input and has not ended."""
        content, spans = to_attachment("input", bytes(given)).content, []
        for strand in self._ledger.store.strands(run.run):
            if not strand.startswith(report_kinds.SPAN_PREFIX):
                continue
            begun, *ended = (e for _, e in read_strand_entries(self._ledger, run.run, strand))
            facts = begun.facts
            if (
                not ended
                and isinstance(facts, report_kinds.ReportBeginFacts)
                and (facts.op, facts.name) == (op, report_kinds.label_name(name, op))
                and holds_same_body(self._ledger, begun, "input", content)
            ):
                spans.append((begun.ts, facts.span))
        return min(spans)[1] if spans else None

    def has_begun(self, run: ReportedRunWriter, begin: report_items.StepBegin) -> bool:
        """Return whether this very step has begun before.

        Raises `ReportRefused` if its span has another content.
        """
        entries = read_strand_entries(self._ledger, run.run, report_kinds.span_strand(begin.span))
        first = next((entry for _, entry in entries), None)
        if first is None:
            return False
        if (
            isinstance(first.facts, report_kinds.ReportStepFacts)
            and first.facts.outcome is Outcome.DENIED
        ):
            raise errors.ReportRefused(run.run, f"span {begin.span} was denied before")
        draft = _begin_draft(run, begin)
        if not says_same(self._ledger, first, draft.facts, draft.bodies):
            raise errors.ReportRefused(run.run, f"span {begin.span} has another content on record")
        return True

    def finish_step(self, run: ReportedRunWriter, step: report_items.StepReport) -> bool:
        """Record the end of a step that has begun; return whether it was not recorded before."""
        strand = self._ledger.open_strand(run.run, report_kinds.span_strand(step.span))
        begun = strand.loaded_entries[0].entry.facts if strand.loaded_entries else None
        if not isinstance(begun, report_kinds.ReportBeginFacts):
            raise errors.ReportRefused(run.run, f"span {step.span} has not begun")
        # Release 0.2 made labels of parts of names; a step that it began ends under that label.
        names = (report_kinds.label_name(step.name, step.op), report_kinds.derive_label(step.name))
        if begun.op != step.op or begun.name not in names:
            # A verifier rejects such a span.
            why = f"span {step.span} began as {begun.op} {begun.name}"
            raise errors.ReportRefused(run.run, why)
        strand.replay_step("begin")
        is_new = strand.replay_step("end") is None
        if is_new:
            charges: tuple[BudgetSliceCharge, ...] = ()
            if self._charges is not None and step.op is _MODEL:
                charged = _charged_step(run, step)
                charges = self._charges.settle(run.run, charged, begun.reserved, _spent(step))
            (entry,) = strand.append(_step_draft(run, step, begun, charges=charges))
            self._remember_end(run.run, strand.name, 1, entry, ends=True)
            if self._charges is not None:
                self._charges.forget(run.run, step.span)
        # Also for a known step: a process may have died before it recorded the stop.
        self._stop_if_overrun(run, step, begun)
        return is_new

    def _find_passed_limit(self, run: ReportedRunWriter) -> kinds.StopFacts | None:
        """Return which limit of a capped run is passed; None if none is."""
        account = run.account
        if account is None:
            return None
        for limit, used, cap in zip(Amount._fields, account.used, account.cap, strict=True):
            if used > cap:
                return kinds.StopFacts(
                    reason=kinds.StopReason.BUDGET, limit=limit, used=min(used, NO_LIMIT), cap=cap
                )
        return None

    def _find_stop(self, run: str) -> kinds.StopFacts | None:
        """Return the entry that stopped a run; None if it was not stopped."""
        entries = read_strand_entries(self._ledger, run, MAIN_STRAND)
        return next((e.facts for _, e in entries if isinstance(e.facts, kinds.StopFacts)), None)

    def _stop_if_overrun(
        self,
        run: ReportedRunWriter,
        step: report_items.StepReport,
        begun: report_kinds.ReportBeginFacts,
    ) -> None:
        """Record in the main strand, once, that a step cost more than was reserved for it.

        No run passes its cap in another way, since reservations do not.
        """
        spent = _spent(step)
        unit = find_overrun(begun.reserved, spent, run.limited)
        if not unit:
            return
        account = _require(run.account)
        facts = kinds.StopFacts(
            reason=kinds.StopReason.BUDGET,
            limit=unit,
            asked=min(getattr(spent, unit), NO_LIMIT),
            used=min(getattr(account.used, unit), NO_LIMIT),
            cap=getattr(account.cap, unit),
            by=step.span,
        )
        run.append_to_main(Draft("stop", _SYSTEM_ACTOR, facts))

    def end_run(self, end: report_items.RunEnd) -> bool:
        """Close a run, with a gap for each reason for which steps are missing.

        Returns False if the run of this reporter is closed already; nothing happens then.  Raises
        `ReportRefused` for the run of another, and `Malformed` if the reasons are no losses: steps
        that were handed in were not left out by rule.
        """
        for why in (end.dropped_why, end.missing_why):
            if why not in _LOSSES:
                raise errors.Malformed("report", f"steps that were handed in are not {why}")
        actor = report_kinds.program_label(end.name)
        try:
            run = self.find_run(end.run)
            if run is None:
                # Not even the opening was recorded before the process died.
                run = self.open_run(report_items.RunStart(run=end.run, name=end.name))
        except errors.ReportRefused:
            if self._find_own(end.run) and self._ledger.is_closed(end.run):
                return False
            raise
        is_remembered = end.run in self._ends
        recorded, gaps = (
            (self._recorded[end.run], 0) if is_remembered else self._count_recorded(run)
        )
        missing = _missing_steps(end, recorded + gaps, dropped_known=gaps > 0)
        remembered = self._ends.get(end.run)
        ends = None if remembered is None else [remembered[name] for name in sorted(remembered)]
        # After a kill between the gaps and the close, the next call counts the gaps.
        close_reported_run(self._ledger, end.run, actor, end.outcome, gaps=missing, ends=ends)
        self._open.pop(end.run, None)
        self._ends.pop(end.run, None)
        self._recorded.pop(end.run, None)
        return True

    def _remember_end(
        self, run: str, strand: str, n: int, entry: RecordedEntry | None, *, ends: bool = False
    ) -> None:
        """Remember the last entry of a strand, so that closing a run need not read all of them.

        `ends` tells that the entry is the end of a step, which is counted.
        """
        with self._lock:
            if entry is None:
                # Recorded before: by a commit whose acknowledgement was lost, or by a part of a
                # batch that is written again.  Nobody knows here whether it was counted, so the
                # run is read at its close.
                self._ends.pop(run, None)
            elif run in self._ends:
                self._ends[run][strand] = StrandEnd(strand, n, entry.leaf.hex())
                self._recorded[run] += ends

    def recover_run(self, end: report_items.RunEnd) -> None:
        """Close a run of another process of this machine, which is dead."""
        entries = read_strand_entries(self._ledger, end.run, MAIN_STRAND, start=1)
        source = next((entry.facts for _, entry in entries), None)
        if isinstance(source, report_kinds.ReportSourceFacts):
            ReportWriter(self._ledger, source.by).end_run(end)
        elif end.handed_in:
            self.end_run(end)

    def ask_gate(
        self, run: ReportedRunWriter, question: report_items.GateQuestion
    ) -> Answer | None:
        """Open a gate unless it is open, and return its decision; None while it waits.

        Raises `ReportRefused` for a gate that its deadline approves, if who reports may not, and
        `GateNameUsed` if the gate shows another text: a person decides about a text.
        """
        if question.default is not Answer.REJECT and not self._may_approve:
            why = "a gate that is approved after its deadline requires the scope approve"
            raise errors.ReportRefused(run.run, why)
        name = kinds.gate_strand(question.subject)
        strand = self._ledger.open_strand_at_end(run.run, name)
        shown = BytesContent(question.shown.encode(errors="replace"))
        if strand.length > 0:
            entries = (entry for _, entry in read_strand_entries(self._ledger, run.run, name))
            if not self._shows(entries, shown):
                raise errors.GateNameUsed(run.run, question.subject)
        else:
            facts = kinds.GateOpenFacts(question.subject, question.milliseconds, question.default)
            body = Attachment("shown", shown, "text/plain")
            draft = open_gate_draft(run.run, facts, body, self._ledger.now(), actor=_SYSTEM_ACTOR)
            strand.append(msgspec.structs.replace(draft, parents=run.parents))
        expire_gate(self._ledger, run.run, find_gate(self._ledger, run.run, question.subject))
        gate = find_gate(self._ledger, run.run, question.subject)
        return gate.decided.answer if gate.decided else None

    def write(self, items: Sequence[report_items.ReportItem]) -> report_items.ReportResult:
        """Write a batch in its order, steps that follow each other in one commit.

        An item that is refused does not keep the others from being recorded.  Nothing is recorded
        if an input cannot be put together: raises `EarlierInputRefused`.
        """
        items = self._join_inputs(items)
        result = _ResultBuilder()
        group: list[tuple[int, report_items.StepReport]] = []
        for number, item in enumerate(items):
            if isinstance(item, report_items.StepReport) and not item.begun:
                group.append((number, item))
                continue
            self._write_group(group, result)
            group = []
            changed = (
                _add_refused(item, items, result) if isinstance(item, report_items.RunEnd) else item
            )
            result.run(number, partial(self._write, changed, number, result))
        self._write_group(group, result)
        return result.build()

    def _join_inputs(
        self, items: Sequence[report_items.ReportItem]
    ) -> Sequence[report_items.ReportItem]:
        """Return items with whole inputs."""
        joiner = InputJoiner(self._ledger)
        joined: list[report_items.ReportItem] = []
        for item in items:
            if isinstance(item, report_items.StepBegin | report_items.StepReport):
                earlier = item.input_after
                if earlier is not None and self._find_own(item.run) is None:
                    why = "the run is not one of yours"
                    raise errors.EarlierInputRefused(item.run, earlier.span, why)
                joined.append(joiner.join(item))
            else:
                joined.append(item)
        return joined

    def _write_group(
        self, group: Sequence[tuple[int, report_items.StepReport]], result: "_ResultBuilder"
    ) -> None:
        runs: dict[str, ReportedRunWriter] = {}
        accepted: list[tuple[int, ReportedRunWriter, report_items.StepReport]] = []
        for number, step in group:

            def find(step: report_items.StepReport = step) -> ReportedRunWriter:
                if step.run not in runs:
                    runs[step.run] = _require_open(self.find_run(step.run), step.run)
                return runs[step.run]

            run = result.run(number, find)
            if run is not None:
                accepted.append((number, run, step))
        if accepted:
            self._record_group(accepted, result)

    def _record_group(
        self,
        accepted: Sequence[tuple[int, ReportedRunWriter, report_items.StepReport]],
        result: "_ResultBuilder",
    ) -> None:
        try:
            new = self.record_steps([(run, step) for _, run, step in accepted])
        except (errors.Invalid, errors.Conflict):
            # One of them cannot be recorded: find out which by writing each alone.
            for number, run, step in accepted:
                is_new_step = result.run(number, partial(self._record_or_compare, run, step))
                result.count([] if is_new_step is None else [is_new_step])
            return
        for (number, run, step), is_new in zip(accepted, new, strict=True):
            same = is_new or result.run(number, partial(self._require_same, run, step))
            result.count([] if same is None else [is_new])

    def _record_or_compare(self, run: ReportedRunWriter, step: report_items.StepReport) -> bool:
        (is_new,) = self.record_steps([(run, step)])
        return is_new or not self._require_same(run, step)

    def _require_same(self, run: ReportedRunWriter, step: report_items.StepReport) -> bool:
        """Return True.  Raises `ReportRefused` if a recorded span has another content."""
        name = report_kinds.span_strand(step.span)
        entries = [entry for _, entry in read_strand_entries(self._ledger, run.run, name)]
        begun = entries[0].facts if step.begun else None
        draft = _step_draft(
            run, step, begun if isinstance(begun, report_kinds.ReportBeginFacts) else None
        )
        if not says_same(self._ledger, entries[int(step.begun)], draft.facts, draft.bodies):
            raise errors.ReportRefused(run.run, f"span {step.span} has another content on record")
        return True

    def _write(self, item: report_items.ReportItem, number: int, result: "_ResultBuilder") -> None:
        match item:
            case report_items.RunStart():
                self.open_run(item)
                result.count([True])
            case report_items.StepBegin():
                self.begin_step(_require_open(self.find_run(item.run), item.run), item)
                result.count([True])
            case report_items.StepReport():
                run = _require_open(self.find_run(item.run), item.run)
                is_new = self.finish_step(run, item)
                if not is_new:
                    self._require_same(run, item)
                result.count([is_new])
            case report_items.RunEnd():
                result.count([self.end_run(item)])
            case report_items.GateQuestion():
                run = _require_open(self.find_run(item.run), item.run)
                result.gates.append(report_items.GateState(number, self.ask_gate(run, item)))
            case _:
                assert_never(item)

    def _count_recorded(self, run: ReportedRunWriter) -> tuple[int, int]:
        """Return the number of recorded steps and of steps in gaps.

        A step that has begun and not ended was under way when its process died.  It is recorded as
        lost, and paid for in full.
        """
        run.record_lost()
        steps = gaps = 0
        for _, data in self._ledger.store.entries_of_run(run.run):
            match self._ledger.kinds.read(data).facts:
                case report_kinds.ReportStepFacts():
                    steps += 1
                # Spans that were left out by rule were not handed in.
                case report_kinds.ReportGapFacts(why=why, steps=missing) if why is not _FILTERED:
                    gaps += missing
                case _:
                    pass
        return steps, gaps


class _ResultBuilder:
    """Collects what became of the items of a batch."""

    def __init__(self) -> None:
        self.recorded = self.known = 0
        self.refused: list[report_items.ItemRefusal] = []
        self.gates: list[report_items.GateState] = []

    def count(self, new: Iterable[bool]) -> None:
        for is_new in new:
            self.recorded += is_new
            self.known += not is_new

    def run(self, number: int, write: Callable[[], ResultT]) -> ResultT | None:
        """Write an item, and note why if it is refused for good.

        A store that fails is no refusal: the reporter sends the batch again.
        """
        try:
            return write()
        except (errors.Invalid, errors.Conflict, errors.LimitReached) as error:
            facts = tuple(fact for fact in error.args if isinstance(fact, str | int))
            self.refused.append(
                report_items.ItemRefusal(number, type(error).__name__, str(error), facts)
            )
            return None

    def build(self) -> report_items.ReportResult:
        return report_items.ReportResult(
            self.recorded, self.known, tuple(self.refused), tuple(self.gates)
        )


def _add_refused(
    end: report_items.RunEnd, items: Sequence[report_items.ReportItem], result: "_ResultBuilder"
) -> report_items.RunEnd:
    """Add the steps of the run that were refused in the same batch, which the reporter learns."""
    refused = (items[refusal.item] for refusal in result.refused)
    steps = sum(
        isinstance(item, report_items.StepReport) and item.run == end.run for item in refused
    )
    return msgspec.structs.replace(end, refused=end.refused + steps)


def _missing_steps(
    end: report_items.RunEnd, accounted: int, *, dropped_known: bool
) -> tuple[report_kinds.ReportGapFacts, ...]:
    """Return a gap for each reason; together they hold all steps that are not accounted for."""
    missing = max(0, end.handed_in - accounted)
    dropped = 0 if dropped_known else min(end.dropped, missing)
    refused = min(end.refused, missing - dropped)
    counts = Counter({end.dropped_why: dropped})
    counts[report_kinds.GapReason.REFUSED] += refused
    counts[end.missing_why] += missing - dropped - refused
    counts[_FILTERED] += end.filtered
    return tuple(report_kinds.ReportGapFacts(why, steps) for why, steps in counts.items() if steps)


def _charged_step(
    run: ReportedRunWriter, step: report_items.StepBegin | report_items.StepReport
) -> ChargedStep:
    """Return a step under the agent that caps know it by; free text is no name of one."""
    agent = report_kinds.label_name(step.agent, run.program) if step.agent else run.program
    return ChargedStep(step.span, agent)


def _spent(step: report_items.StepReport) -> Amount:
    return Amount(step.usd, step.input_tokens + step.output_tokens)


def _step_draft(
    run: ReportedRunWriter,
    step: report_items.StepReport,
    begun: report_kinds.ReportBeginFacts | None = None,
    charges: tuple[BudgetSliceCharge, ...] = (),
) -> Draft:
    # Before any other code: a bill above the bound stops the run, however the step ended.
    is_overrun = begun and find_overrun(begun.reserved, _spent(step), run.limited)
    code = report_kinds.label_name(step.code, report_kinds.AN_ERROR) if step.code else ""
    facts = report_kinds.copy_fields(
        report_kinds.ReportStepFacts,
        step,
        name=begun.name if begun else report_kinds.label_name(step.name, step.op),
        agent=report_kinds.label_name(step.agent, report_kinds.AN_AGENT) if step.agent else "",
        model=report_kinds.plain_name(step.model, report_kinds.A_MODEL),
        provider=report_kinds.plain_name(step.provider, report_kinds.A_PROVIDER),
        code=OVERRUN if is_overrun else code,
    )
    raws = {
        "input": step.input,
        "output": step.output,
        "error": step.error,
        "attributes": step.attributes,
    }
    if run.is_capped and begun is None and facts.spent != Amount():
        # Its account would not know of it.
        why = f"span {step.span} has a cost, and the run a cap: report its begin first"
        raise errors.Malformed("report", why)
    names = report_kinds.Names(step.name, step.agent, step.model, step.provider, code=step.code)
    return run.step_draft(facts, _bodies(names, raws), begun, charges)


def _begin_draft(
    run: ReportedRunWriter,
    begin: report_items.StepBegin,
    charges: tuple[BudgetSliceCharge, ...] = (),
) -> Draft:
    facts = report_kinds.copy_fields(
        report_kinds.ReportBeginFacts,
        begin,
        name=report_kinds.label_name(begin.name, begin.op),
        agent=report_kinds.label_name(begin.agent, report_kinds.AN_AGENT) if begin.agent else "",
        model=report_kinds.plain_name(begin.model, report_kinds.A_MODEL),
        provider=report_kinds.plain_name(begin.provider, report_kinds.A_PROVIDER),
    )
    names = report_kinds.Names(begin.name, begin.agent, begin.model, begin.provider)
    return run.begin_draft(facts, _bodies(names, {"input": begin.input}), charges)


def _bodies(
    names: report_kinds.Names, raws: dict[str, report_items.Json]
) -> tuple[Attachment, ...]:
    present = {key: raw for key, raw in raws.items() if isinstance(raw, msgspec.Raw)}
    attached = (to_attachment(key, bytes(raw)) for key, raw in present.items())
    return (*names_body(names), *attached)


def _require(value: ResultT | None) -> ResultT:
    assert value is not None  # noqa: S101  it was recorded just now
    return value


def _require_open(run: ReportedRunWriter | None, name: str) -> ReportedRunWriter:
    if run is None:
        raise errors.ReportRefused(name, "it was not started")
    return run
