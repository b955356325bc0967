"""Reads of runs, gates and workers; nothing here changes the log."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from forum import tlog
from forum.app.clock_ids_and_kinds import KINDS, POLL_INTERVAL_S
from forum.app.formatting import explain_run_state
from forum.app.project import ProjectContext
from forum.app.record_figures import LogFigures, measure_log, measure_run
from forum.app.records import (
    MAX_DETAILED_TASKS,
    ExplainedGate,
    GateOrigin,
    LocatedGate,
    RunReader,
    RunView,
    decode_prefix,
    find_origin,
    read_notes,
    read_opinion,
    read_panel_opinion,
    read_run_name,
    view_entries,
)
from forum.app.run_costs import CostAxis, CostTable, add_up_costs
from forum.app.run_list import RunLister, RunPage, RunQuery
from forum.app.upstream_figures import UpstreamFigures, count_upstream_calls
from forum.errors import (
    AmbiguousEntry,
    AmbiguousRun,
    BodyGone,
    Malformed,
    NoSuchEntry,
    NoSuchGate,
    NoSuchRun,
)
from forum.ledger import ports
from forum.ledger.body import StoredBody
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry, leaf_of
from forum.ledger.log import (
    Ledger,
    LocatedEntry,
    is_before,
    locate_run,
    read_body,
    read_strand_entries,
)
from forum.runs import run_fold
from forum.runs.kinds import (
    FINDINGS,
    REASON,
    AcceptedFacts,
    CheckFacts,
    EvalOpenFacts,
    VerdictFacts,
    gate_strand,
    score_strand,
)
from forum.runs.plan import Plan, read_plan
from forum.runs.record_figures import RecordFigures
from forum.runs.report_fold import align_spans
from forum.runs.report_kinds import (
    TRACE_RUN_PREFIX,
    Provenance,
    ReportSourceFacts,
    is_run_id,
    span_strand,
)
from forum.runs.run_comparison import Divergence, align_steps, compare_steps
from forum.runs.run_record import RunRecord, sort_by_index
from forum.runs.scores import RecordedScore, mark_latest
from forum.runs.session_steps import Session
from forum.runs.session_steps import SessionNote as Noted
from forum.runs.shared_tasks import run_of

if TYPE_CHECKING:
    from forum.engine import AnswerReference, RunContext, RunRequest

_MIN_RUN_PREFIX_CHARS = 8
_TIMERS_PAGE = 1000


_MAX_COMPARED = 100
"""Limit of runs that are compared with the prefix of a run id."""


def _parent_run(state: run_fold.Run) -> str:
    return state.accepted.parent_run if state.accepted else ""


def read_session_notes(ledger: Ledger, run: str) -> tuple[Noted, ...]:
    """Return the entries of a panel's session that a ledger holds."""
    strands = sorted(ledger.writer.strands(run))
    entries = [each for name in strands for each in read_strand_entries(ledger, run, name)]
    return read_notes(_make_reader(ledger.store, run, entries), run_fold.fold(entries))


def _make_reader(
    store: ports.LogReader, run: str, entries: Sequence[run_fold.IdentifiedEntry]
) -> RunReader:
    return RunReader(run, entries, partial(read_body, store), store.indexes)


class RunReads:
    """Reads runs, gates and workers, and changes nothing in the log."""

    def __init__(self, project: ProjectContext) -> None:
        self._project = project

    def is_evaluation(self, run: str) -> bool:
        """Return whether a run records an evaluation."""
        entries = read_strand_entries(self._project.ledger, run, MAIN_STRAND, 1)
        _, entry = next(entries, (None, None))
        return entry is not None and isinstance(entry.facts, EvalOpenFacts)

    def find_run(self, what: str) -> str:
        """Return the id of a run that is given by its id, a prefix of it, or one of its entries.

        Whatever fits several runs names none of them.  Raises `NoSuchEntry` or `AmbiguousRun`.
        """
        if self._project.store.strands(what):
            self._check_only_meaning(what)
            return what
        # Read a few digits as an index first: almost every small index is also a prefix of some
        # run.
        is_index = what.isdecimal() and len(what) < _MIN_RUN_PREFIX_CHARS
        if not is_index and (run := self._run_beginning(what)):
            return run
        try:
            return self._project.ledger.find_entry(what).entry.run
        except (Malformed, NoSuchEntry):
            if is_index and (run := self._run_beginning(what)):
                return run
            why = f"{what} is neither a run nor an entry; forum runs lists the runs"
            raise NoSuchEntry(why) from None

    def _check_only_meaning(self, name: str) -> None:
        """Raise `AmbiguousRun` if the name of a run is also a reference to a run of another.

        Programs name the runs that they report.  A key could take what people type for the run of
        somebody else: the beginning of its name, or the beginning of the id of an entry.
        """
        reporter = self._reporter_of(name)
        if not reporter or is_run_id(name) or name.startswith(TRACE_RUN_PREFIX):
            # No key has chosen it: Forum makes up the ids of runs, and the names of traces.
            return
        longer, more = self._list_runs(name)
        others = [run for run in longer if self._reporter_of(run) != reporter]
        with suppress(Malformed, NoSuchEntry, AmbiguousEntry):
            others.append(self._project.ledger.find_entry(name).entry.run)
        others = [run for run in dict.fromkeys(others) if run != name]
        if others or more:
            raise AmbiguousRun(name, [name, *(others or longer)], more=more)

    def _list_runs(self, prefix: str) -> tuple[list[str], bool]:
        """Return the runs that begin with a prefix and are longer, and whether there are more."""
        listed = self._project.store.runs(prefix, _MAX_COMPARED)
        more = len(listed) == _MAX_COMPARED and listed[-1].startswith(prefix)
        return [run for run in listed if run.startswith(prefix)], more

    def _run_beginning(self, prefix: str) -> str | None:
        """Return the only run with this prefix, or None. Raises `AmbiguousRun`."""
        if not prefix:
            return None
        matches, more = self._list_runs(prefix)
        if len(matches) > 1:
            # An inner run's id begins with the same 13 characters as the outer run's: a prefix that
            # fits both means the outer run.
            matches = [run for run in matches if self._parent_of(run) not in matches]
        if len(matches) > 1:
            raise AmbiguousRun(prefix, matches, more=more)
        return matches[0] if matches else None

    def _parent_of(self, run: str) -> str:
        return _parent_run(self.read_run(run))

    def _reporter_of(self, run: str) -> str:
        """Return the key or process that reports a run; empty for a run that Forum drives."""
        for _, entry in read_strand_entries(self._project.ledger, run, MAIN_STRAND, start=1):
            return entry.facts.by if isinstance(entry.facts, ReportSourceFacts) else ""
        return ""

    def read_run(self, run: str, until: int | None = None) -> run_fold.Run:
        """Return a run's current state, or its state as of the entry with index `until`.

        Raises `NoSuchRun`.
        """
        return run_fold.fold(self._read_entries(run, until))

    def _read_entries(self, run: str, until: int | None) -> list[tuple[tlog.Hash, Entry[Any]]]:
        """Return the entries of a run, up to an index.  Raises `NoSuchRun`."""
        # All strands in few queries: a reported run has a strand for each span.
        entries = [
            (leaf_of(data), self._project.ledger.kinds.read(data))
            for _, data in self._project.store.entries_of_run(run)
        ]
        if not entries:
            raise NoSuchRun(run)
        return [t for t in entries if until is None or is_before(self._project.store, t[0], until)]

    def read_run_request(self, run: str) -> "RunRequest":
        """Return the request of a run, as it was accepted."""
        from forum.engine import read_run_request

        return read_run_request(self._project.ledger, run)

    def read_answer_reference(self, what: str) -> "AnswerReference":
        """Return the answer of a run, given as `find_run` takes it, for a panel.

        Raises `NoSuchRun`, `RunNotDriven`, `AnswerNotFinal`, `NoAnswer`, `BodyGone`.
        """
        from forum.engine import read_answer_reference

        return read_answer_reference(self._project.ledger, self.find_run(what))

    def read_run_context(self, run: str) -> "RunContext":
        """Return the request of a run and its plan."""
        from forum.engine import read_run_context

        return read_run_context(self._project.ledger, run)

    def recent_runs(self, before: str | None, limit: int) -> list[tuple[str, run_fold.Run]]:
        """Return the state of the runs that were begun last, the newest first."""
        page = self.list_runs(RunQuery(), before, limit)
        return [(listed.run, self.read_run(listed.run)) for listed in page.runs]

    def list_runs(
        self, query: RunQuery, before: str | None, limit: int, max_scanned: int | None = None
    ) -> RunPage:
        """Return runs that match, the newest first, from before a run or from the last.

        With `max_scanned` the page ends after so many runs, whether they match or not.
        """
        return RunLister(self._project).list_runs(query, before, limit, max_scanned)

    def add_up_costs(
        self, axis: CostAxis, query: RunQuery, before: str | None, split: CostAxis | None = None
    ) -> CostTable:
        """Return what the runs that match have cost, from before a run or from the last."""
        return add_up_costs(self._project, axis, query, before, split=split)

    def add_up_all_costs(self, axis: CostAxis, query: RunQuery) -> CostTable:
        """Return what all runs that match have cost, however long that takes."""
        return add_up_costs(self._project, axis, query, None, is_limited=False)

    def count_upstream_calls(self, since: int, until: int) -> UpstreamFigures:
        """Count the newest reported calls of a period, by provider."""
        return count_upstream_calls(self._project, since, until)

    def measure_run(self, run: str) -> RecordFigures:
        """Return the figures of a run and of the runs within it.  Raises `NoSuchRun`."""
        return measure_run(self._project, run)

    def measure_log(
        self,
        run: str | None = None,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> LogFigures:
        """Return the figures of the whole log, or with a run those of its record only."""
        return measure_log(self._project, run, progress)

    def outer_run(self, run: str) -> str:
        """Return the outermost run that a run is part of, or the run itself."""
        while parent := self._parent_of(run):
            run = parent
        return run

    def view_run(self, run: str, until: LocatedEntry | None = None) -> RunView:
        """Return everything known of a run, or known when the entry `until` was the last.

        Raises `NoSuchRun`.
        """
        entries = self._read_entries(run, until.index if until else None)
        is_accepted = any(isinstance(entry.facts, AcceptedFacts) for _, entry in entries)
        if until is not None and not is_accepted and self.read_run(run).accepted:
            raise NoSuchRun(f"{run} had no request at that time")
        view = view_entries(_make_reader(self._project.store, run, entries))
        # Only the log has the runs within and the scores, which are beside the run.
        return replace(
            view,
            at=until.entry.ts if until else view.at,
            until=until.index if until else None,
            errors={**view.errors, **self._explain_inner_runs(view)},
            gates=tuple(self.open_gates(run, view.state)),
            scores=self.read_scores(run, until.index if until else None),
        )

    def _explain_inner_runs(self, view: RunView) -> dict[str, str]:
        """Return why the inner runs of tasks failed whose calls say nothing of it."""
        return {
            task.id: explain_run_state(self.view_run(task.delegated.run))
            for task in list(view.state.tasks.values())[:MAX_DETAILED_TASKS]
            if task.id not in view.errors and task.delegated is not None
            if run_fold.has_failed_inner_run(task)
        }

    def name_of(self, state: run_fold.Run) -> str:
        """Return the name of a reported run: as it was given, or its label if that was erased."""
        return read_run_name(state, self._body_at)

    def explain_entry(self, located: LocatedEntry) -> str:
        """Return what a judge wrote for a verdict or a check; empty for any other entry."""
        facts, at = located.entry.facts, located.position
        if isinstance(facts, CheckFacts):
            return decode_prefix(self._body_at(at, "detail"))
        if isinstance(facts, VerdictFacts) and facts.judge and at.n:
            # The judge's reply is recorded right before the verdict that follows from it; of a
            # panel, how far it agreed.
            before = at._replace(n=at.n - 1)
            opinion = read_opinion(self._body_at(before, "output")) or read_panel_opinion(
                self._body_at(before, FINDINGS)
            )
            return opinion.feedback if opinion else ""
        return ""

    def read_scores(self, run: str, until: int | None = None) -> tuple[RecordedScore, ...]:
        """Return the scores of a run, its tasks and its answer, the oldest first."""
        scores = []
        for leaf, entry in read_strand_entries(self._project.ledger, LOG_RUN, score_strand(run)):
            if until is None or is_before(self._project.store, leaf, until):
                body = read_body(self._project.store, entry, "comment") if entry.bodies else None
                comment = None if body is None else body.decode(errors="replace")
                scores.append(
                    RecordedScore(
                        leaf.hex(),
                        at=entry.ts,
                        actor=entry.actor,
                        facts=entry.facts,
                        comment=comment,
                    )
                )
        return mark_latest(scores)

    def read_run_record(self, run: str) -> RunRecord:
        """Return the entries of a run in log order, with a function that reads their bodies.

        Raises `NoSuchRun`.
        """
        entries = sort_by_index(locate_run(self._project.store, KINDS, run))
        if not entries:
            raise NoSuchRun(run)
        return self.make_record(run, entries)

    def make_record(self, run: str, entries: Sequence[LocatedEntry]) -> RunRecord:
        """Return the record of a run with these entries, and what reads their bodies."""

        def bodies_at(places: Sequence[tuple[LocatedEntry, str]]) -> list[StoredBody | None]:
            return self._project.store.bodies_at([(at.position, name) for at, name in places])

        return RunRecord(run, tuple(entries), bodies_at)

    def read_session(self, run: str, state: run_fold.Run | None = None) -> Session:
        """Return the session of a panel: its request, policy and start."""
        request = self.read_run_request(run)
        started = (state or self.read_run(run)).begun
        return Session(request.request, request.policy, started)

    def request_of(self, run: str) -> str | None:
        """Return the request text of a run, or None if it was erased."""
        request = self._main_bodies(run, run_fold.Run()).get("request")
        return request.decode(errors="replace") if request is not None else None

    def _main_bodies(self, run: str, state: run_fold.Run) -> dict[str, bytes]:
        """Return the bodies request, policy, plan, answer and claims of a run in this state."""
        bodies: dict[str, bytes] = {}
        for leaf, entry in read_strand_entries(self._project.ledger, run, MAIN_STRAND):
            at = ports.Position(run, MAIN_STRAND, entry.n)
            named = {"request", "policy"} if isinstance(entry.facts, AcceptedFacts) else set()
            named |= {"plan"} if leaf == state.plan else set()
            named |= {"answer", "claims"} if at == state.answer_at else set()
            for name in named & entry.bodies.keys():
                body = read_body(self._project.store, entry, name)
                if body is not None:
                    bodies[name] = body
        return bodies

    def read_text(self, at: ports.Position | None, name: str) -> str | None:
        """Return a body as text; None if it is absent or erased."""
        body = self._body_at(at, name)
        return None if body is None else body.decode(errors="replace")

    def _body_at(self, at: ports.Position | None, name: str) -> bytes | None:
        """Return a body, checked against its entry; None if it is absent or erased."""
        if at is None or self._project.store.body(at, name) is None:
            return None
        _, entry = next(read_strand_entries(self._project.ledger, at.run, at.strand, at.n))
        return read_body(self._project.store, entry, name)

    @property
    def has_workers(self) -> bool:
        """Whether a live worker executes runs of this ledger."""
        return bool(self.live_workers())

    def follow_run(
        self,
        run: str,
        watch: Callable[[run_fold.Run], None] = lambda _: None,
        patience: float | None = None,
        wait: Callable[[float], object] = time.sleep,
    ) -> run_fold.Run:
        """Watch a run until it cannot proceed by itself or `patience` seconds have passed.

        A run stops proceeding when it has ended, was interrupted, or waits for a person. `wait` is
        called with some seconds between two polls; a truthy result ends the watch.
        """
        started, state = time.monotonic(), self.read_run(run)
        while True:
            looked = time.monotonic()
            state = self._fold_new_entries(run, state)
            if state.outcome is not None:
                # Fold once more from the first entry: a strand may have appeared after the strands
                # were listed.
                state = self.read_run(run)
            watch(state)
            late = patience is not None and looked - started > patience
            over = state.outcome is not None or state.interrupted
            if over or late or self._is_waiting(run, state):
                return state
            # A poll takes longer the more entries there are; spend at most a third of the time on
            # polling.
            if wait(max(POLL_INTERVAL_S, 2 * (time.monotonic() - looked))):
                return state

    def _fold_new_entries(self, run: str, state: run_fold.Run) -> run_fold.Run:
        """Fold the entries added to a run; read only strands that have grown."""
        fresh = [
            entry
            for strand, length in self._project.store.strand_lengths(run).items()
            if length > state.lengths.get(strand, 0)
            for entry in read_strand_entries(
                self._project.ledger, run, strand, state.lengths.get(strand, 0)
            )
        ]
        return run_fold.fold(fresh, state) if fresh else state

    def _is_waiting(self, run: str, state: run_fold.Run) -> bool:
        """Tell whether a run can only continue after a human decision."""
        tasks = [state.task(name) for name in state.tasks]
        if any(task.state is run_fold.TaskState.RUNNING for task in tasks):
            return False
        timer = self._project.store.timer(run, MAIN_STRAND)
        # A driver that waits for a person has cleared the run's timer, or set it to the deadline.
        at = None if timer is None else timer.at
        if at is not None and abs(at - (state.deadline or 0)) > 1_000_000:
            return False
        if any(gate.deadline <= self._project.store.now() for gate in state.open_gates):
            return False  # the gate's default answer is about to be recorded
        waiting = [task for task in tasks if task.state is run_fold.TaskState.WAITING]
        within = [task.open_run for task in waiting if task.open_run]
        children = [
            (child, self.read_run(child)) for child in within if self._project.store.strands(child)
        ]
        if len(children) < len(within) or not (state.open_gates or children):
            return False
        return all(self._is_waiting(child, inner) for child, inner in children)

    def open_gates(self, run: str, state: run_fold.Run) -> list[tuple[str, run_fold.Gate]]:
        """Return the open gates of a run and of its inner runs, each with its run."""
        gates = [(run, gate) for gate in state.open_gates]
        for name in state.tasks:
            task = state.task(name)
            child = task.open_run if task.state is run_fold.TaskState.WAITING else None
            if child and self._project.store.strands(child):
                gates += self.open_gates(child, self.read_run(child))
        return gates

    def interrupted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that were interrupted and not resumed."""
        return self._project.store.interrupted_runs("", limit)

    def live_workers(self) -> set[str]:
        """Return the ids of the workers that execute runs of this ledger now."""
        return set(self._project.store.live_workers())

    def accepted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that have a timer, which workers will continue."""
        runs: dict[str, None] = {}
        last: ports.Timer | None = None
        # A run with a large plan has a timer for each task, which must not hide the other runs.
        while len(runs) < limit and (
            page := self._project.store.timers(last, _TIMERS_PAGE, due=False)
        ):
            runs |= dict.fromkeys(run_of(key) for key, strand, *_ in page if strand == MAIN_STRAND)
            last = page[-1]
        return list(runs)[:limit]

    def diff_runs(self, first: str, second: str) -> list[Divergence]:
        """Return the differences between two runs; durations and secrets are not compared."""
        from forum.engine import read_steps

        timings = frozenset({"milliseconds", "micros", "marks"})
        a, b = (
            align_steps(
                read_steps(self._project.ledger, run, ignoring=timings), self._aligned_strands(run)
            )
            for run in (first, second)
        )
        return list(compare_steps(a, b))

    def _aligned_strands(self, run: str) -> dict[str, str]:
        """Return the names under which the spans of a run are compared, by strand."""
        names = align_spans(self.read_run(run).report.spans)
        return {span_strand(span): span_strand(name) for span, name in names.items()}

    def bodies_at(self, run: str, strand: str, step: str) -> dict[str, bytes]:
        """Return the bodies of a step of a comparison that were not erased."""
        named = {name: own for own, name in self._aligned_strands(run).items()}
        for _, entry in read_strand_entries(self._project.ledger, run, named.get(strand, strand)):
            if entry.step == step:
                reader = _make_reader(self._project.store, run, ())
                return {body.name: body.data for body in reader.read_bodies(entry)}
        return {}

    def waiting_gates(self) -> list[tuple[str, run_fold.Gate]]:
        """Return all gates that wait for a decision, each with its run."""
        from forum.engine import find_gate

        gates, after = [], None
        while page := self._project.store.timers(after, 1000, due=False):
            after = page[-1]
            for timer in page:
                if timer.strand.startswith(gate_strand("")):
                    subject = timer.strand.removeprefix(gate_strand(""))
                    gates.append((timer.run, find_gate(self._project.ledger, timer.run, subject)))
        return gates

    def locate_gates(self, gates: Iterable[tuple[str, run_fold.Gate]]) -> list[LocatedGate]:
        """Return gates with the entries and the salts of what they show."""
        store, listed = self._project.store, list(gates)
        places = [(run, (gate.shown_at.strand, gate.shown_at.n)) for run, gate in listed]
        rows = [row for run, place in places for row in store.entries_at(run, [place])]
        indexes = iter(store.indexes([leaf_of(row) for row in rows if row is not None]))
        bodies = [store.body(gate.shown_at, "shown") for _, gate in listed]
        return [
            LocatedGate(
                run=run,
                gate=gate,
                index=None if row is None else next(indexes),
                salt=body.salt if body else None,
                origin=self.find_gate_origin(run),
            )
            for (run, gate), row, body in zip(listed, rows, bodies, strict=True)
        ]

    def find_gate_origin(self, run: str) -> GateOrigin:
        """Return who asks at the gates of a run: who submitted it, or who reports it."""
        for _, entry in read_strand_entries(self._project.ledger, run, MAIN_STRAND):
            if isinstance(entry.facts, AcceptedFacts) and entry.facts.parent_run:
                return self.find_gate_origin(entry.facts.parent_run)
            if isinstance(entry.facts, AcceptedFacts | ReportSourceFacts):
                return find_origin([entry])
        return find_origin([])

    def is_shown_at_gate(self, located: LocatedEntry, name: str) -> bool:
        """Return whether a body of an entry is what a gate shows, so that somebody can decide."""
        from forum.engine import find_gate

        position = located.position
        if name != "shown" or not position.strand.startswith(gate_strand("")):
            return False
        subject = position.strand.removeprefix(gate_strand(""))
        try:
            gate = find_gate(self._project.ledger, position.run, subject)
        except NoSuchGate:
            return False
        return gate.shown_at == position

    def read_gate(self, run: str, subject: str) -> tuple[run_fold.Gate, bytes]:
        """Return a gate and the content that it shows."""
        from forum.engine import find_gate, read_body

        gate = find_gate(self._project.ledger, run, subject)
        return gate, read_body(self._project.ledger, gate.shown_at, "shown")

    def explain_gate(self, run: str, subject: str) -> ExplainedGate:
        """Return a gate with everything that a decision at it is about.  Raises `NoSuchGate`."""
        gate, shown = self.read_gate(run, subject)
        (located,) = self.locate_gates([(run, gate)])
        state = self.read_run(run)
        bodies = self._main_bodies(run, state)
        request, plan = bodies.get("request"), bodies.get("plan")
        asked = self.name_of(state) or None if request is None else request.decode(errors="replace")
        tasks = read_plan(plan) if plan is not None else None
        reason = self._body_at(gate.reason_at, REASON)
        policy = None
        if located.origin.provenance is Provenance.DRIVEN:
            with suppress(BodyGone):
                policy = self.read_run_request(run).policy
        return ExplainedGate(
            located=located,
            shown=shown,
            request=asked,
            results=self._gate_results(subject, tasks, state),
            spent=state.spent,
            cap=state.cap,
            milliseconds=state.accepted.milliseconds if state.accepted else ports.NO_LIMIT,
            plan=tasks,
            policy=policy,
            reason=None if reason is None else reason.decode(errors="replace"),
        )

    def _gate_results(
        self, subject: str, plan: Plan | None, state: run_fold.Run
    ) -> tuple[tuple[str, bytes], ...]:
        """Return the results that a decision is about, by task.

        For a gate before a task: the results of the tasks upstream of it. For a gate before a tool
        use: also the last reply of the agent that requested it.
        """
        tasks = plan.by_id if plan else {}
        _, _, named = subject.partition("/")
        own = named if named in tasks else named.rpartition("/")[0]
        if own not in tasks:
            return ()
        names = [*tasks[own].upstream, *([] if named in tasks else [own])]
        positions = {name: run_fold.last_reply_position(state.task(name)) for name in names}
        replies = {name: self._reply_at(at) for name, at in positions.items() if at is not None}
        return tuple((name, reply) for name, reply in replies.items() if reply)

    def _reply_at(self, at: ports.Position) -> bytes:
        _, entry = next(read_strand_entries(self._project.ledger, at.run, at.strand, at.n))
        return (
            (read_body(self._project.store, entry, "output") or b"")
            if "output" in entry.bodies
            else b""
        )
