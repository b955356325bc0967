"""Reads of runs, gates and workers; nothing here changes the log."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from forum import tlog
from forum.app.environment import DELIBERATION_KINDS, KINDS, POLL_INTERVAL_S, now
from forum.app.project import ProjectContext
from forum.app.records import (
    MAX_DETAILED_TASKS,
    RunView,
    decode_prefix,
    read_opinion,
    read_opinions,
)
from forum.deliberation.steps import NoteBody, Session
from forum.deliberation.steps import SessionNote as Noted
from forum.errors import (
    AmbiguousRun,
    BodyGone,
    Malformed,
    NoSuchEntry,
    NoSuchRun,
)
from forum.ledger import kinds, ports
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry
from forum.ledger.log import (
    LocatedEntry,
    is_before,
    locate_run,
    read_body,
    read_strand_entries,
)
from forum.work import run_fold
from forum.work.claims import read_claims
from forum.work.kinds import (
    TURN_PREFIX,
    AcceptedFacts,
    CheckFacts,
    VerdictFacts,
    gate_strand,
    score_strand,
    task_strand,
)
from forum.work.plan import read_plan
from forum.work.run_comparison import Divergence, compare_steps
from forum.work.run_record import RunRecord, sort_by_index
from forum.work.scores import RecordedScore, mark_latest

if TYPE_CHECKING:
    from forum.engine import RunContext, RunRequest

_RUNS_PAGE_SIZE = 100
"""Page size for reading runs where a filter may drop some of them."""


_MAX_CLOCK_SKEW_US = 60_000_000
"""Tolerated difference between the clocks of two writers, in microseconds."""


_MIN_RUN_PREFIX_CHARS = 8


_MAX_COMPARED = 100
"""Limit of runs that are compared with the prefix of a run id."""


class RunReads:
    """Reads runs, gates and workers, and changes nothing in the log."""

    def __init__(self, project: ProjectContext) -> None:
        self._project = project

    def find_run(self, what: str) -> str:
        """Return the id of a run that is given by its id, a prefix of it, or one of its entries.

        Raises `NoSuchEntry` or `AmbiguousRun`.
        """
        if self._project.store.strands(what):
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
            why = f"the log has no run {what} either; forum runs lists them"
            raise NoSuchEntry(why) from None

    def _run_beginning(self, prefix: str) -> str | None:
        """Return the only run with this prefix, or None. Raises `AmbiguousRun`."""
        if not prefix:
            return None
        listed = self._project.store.runs(prefix, _MAX_COMPARED)
        matches = [run for run in listed if run.startswith(prefix)]
        if len(matches) > 1:
            # An inner run's id begins with the same 13 characters as the outer run's: a prefix that
            # fits both means the outer run.
            matches = [run for run in matches if not self._parent_of(run)] or matches
        if len(matches) > 1:
            more = len(listed) == _MAX_COMPARED and listed[-1].startswith(prefix)
            raise AmbiguousRun(prefix, matches, more=more)
        return matches[0] if matches else None

    def _parent_of(self, run: str) -> str:
        accepted = self.read_run(run).accepted
        return accepted.parent_run if accepted else ""

    def read_run(self, run: str, until: int | None = None) -> run_fold.Run:
        """Return a run's current state, or its state as of the entry with index `until`.

        Raises `NoSuchRun`.
        """
        if not self._project.store.strands(run):
            raise NoSuchRun(run)
        entries = (
            t
            for strand in self._project.store.strands(run)
            for t in read_strand_entries(self._project.ledger, run, strand)
        )
        return run_fold.fold(
            t for t in entries if until is None or is_before(self._project.store, t[0], until)
        )

    def read_run_request(self, run: str) -> "RunRequest":
        """Return the request of a run, as it was accepted."""
        from forum.engine import read_run_request

        return read_run_request(self._project.ledger, run)

    def read_run_context(self, run: str) -> "RunContext":
        """Return the request of a run and its plan."""
        from forum.engine import read_run_context

        return read_run_context(self._project.ledger, run)

    def recent_runs(
        self,
        before: str | None,
        limit: int,
        *,
        within: bool = False,
        since: int = 0,
        matches: Callable[[str, run_fold.Run], bool] | None = None,
    ) -> list[tuple[str, run_fold.Run]]:
        """Return the runs that were accepted last, the newest first; with `within` also inner runs.

        Only runs that began since `since` (in microseconds since 1970) and match.
        """
        runs: list[tuple[str, run_fold.Run]] = []
        most = limit if matches is None else max(limit, _RUNS_PAGE_SIZE)
        while len(runs) < limit and (page := self._project.store.runs_before(before, most)):
            states = [(run, self.read_run(run)) for run in page]
            runs += [
                (run, state)
                for run, state in states
                if state.accepted and (within or not state.accepted.parent_run)
                if state.begun >= since and (matches is None or matches(run, state))
            ]
            before, last = page[-1], states[-1][1]
            # Run ids sort by start time, but the clocks of the machines that made them may differ.
            if last.begun and last.begun < since - _MAX_CLOCK_SKEW_US:
                break
        return runs[:limit]

    def lanes_of(self, run: str, state: run_fold.Run) -> frozenset[str]:
        """Return the lanes of a run: of its route and of the tasks of its plan."""
        plan = self._main_bodies(run, state).get("plan")
        named = {task.lane for task in read_plan(plan).all_tasks} if plan is not None else set()
        return frozenset({*named, state.routed.lane if state.routed else ""} - {""})

    def outer_run(self, run: str) -> str:
        """Return the outermost run that a run is part of, or the run itself."""
        while parent := self._parent_of(run):
            run = parent
        return run

    def view_run(self, run: str, until: LocatedEntry | None = None) -> RunView:
        """Return everything known of a run, or known when the entry `until` was the last.

        Raises `NoSuchRun`.
        """
        state = self.read_run(run, until.index if until else None)
        if state.accepted is None and until is None:
            raise NoSuchRun(run)  # the log's own strands or a note: no request was accepted
        bodies = self._main_bodies(run, state)
        request, plan, answer = (bodies.get(name) for name in ("request", "plan", "answer"))
        tasks = list(state.tasks.values())[:MAX_DETAILED_TASKS]
        errors = {
            task.id: self._error_prefix(task.result.reply_at) for task in tasks if task.result
        }
        entries = self._indexes({task.id: task.last for task in tasks})
        session, notes = self._read_session(run, state, until.index if until else None)
        has_failed = state.outcome not in (None, kinds.Outcome.OK)
        return RunView(
            run=run,
            state=state,
            at=until.entry.ts if until else now(),
            request=request.decode(errors="replace") if request is not None else None,
            plan=read_plan(plan) if plan is not None else None,
            answer=answer,
            errors={task: error for task, error in errors.items() if error},
            gates=tuple(self.open_gates(run, state)),
            entries=entries,
            until=until.index if until else None,
            claims=read_claims(bodies.get("claims", b"")),
            places=self._entry_indexes(state),
            session=session,
            notes=notes,
            replies=self._failed_replies(tasks) if has_failed else {},
            opinions=read_opinions(tasks, lambda at: self._body_at(at, "output")),
            check_details=self._check_details(run) if state.checks else {},
            scores=self.read_scores(run, until.index if until else None),
        )

    def explain_entry(self, located: LocatedEntry) -> str:
        """Return what a judge wrote for a verdict or a check; empty for any other entry."""
        facts, at = located.entry.facts, located.position
        if isinstance(facts, CheckFacts):
            return decode_prefix(self._body_at(at, "detail"))
        if isinstance(facts, VerdictFacts) and facts.judge and at.n:
            # The judge's reply is recorded right before the verdict that follows from it.
            opinion = read_opinion(self._body_at(at._replace(n=at.n - 1), "output"))
            return opinion.feedback if opinion else ""
        return ""

    def _check_details(self, run: str) -> dict[str, str]:
        """Return what was found in each check of a run's answer, by entry id in hex."""
        return {
            leaf.hex(): decode_prefix(read_body(self._project.store, entry, "detail"))
            for leaf, entry in read_strand_entries(self._project.ledger, run, MAIN_STRAND)
            if isinstance(entry.facts, CheckFacts) and "detail" in entry.bodies
        }

    def read_scores(self, run: str, until: int | None = None) -> tuple[RecordedScore, ...]:
        """Return the scores of a run, its tasks and its answer, the oldest first."""
        scores = []
        for leaf, entry in read_strand_entries(self._project.ledger, LOG_RUN, score_strand(run)):
            if until is None or is_before(self._project.store, leaf, until):
                body = read_body(self._project.store, entry, "comment") if entry.bodies else None
                comment = None if body is None else body.decode(errors="replace")
                scores.append(
                    RecordedScore(leaf.hex(), entry.ts, entry.actor, entry.facts, comment)
                )
        return mark_latest(scores)

    def read_run_record(self, run: str) -> RunRecord:
        """Return the entries of a run in log order, with a function that reads their bodies."""
        entries = sort_by_index(locate_run(self._project.store, KINDS, run))
        return RunRecord(
            run, entries, lambda located, name: read_body(self._project.store, located.entry, name)
        )

    def _failed_replies(self, tasks: Sequence[run_fold.TaskRun]) -> dict[str, str]:
        """Return the beginning of the last reply of each task that did not pass."""
        last = {
            task.id: run_fold.last_reply_position(task)
            for task in tasks
            if task.state is not run_fold.TaskState.PASSED
        }
        replies = {name: self._body_prefix(at, "output") for name, at in last.items() if at}
        return {name: words for name, words in replies.items() if words}

    def _read_session(
        self, run: str, state: run_fold.Run, until: int | None
    ) -> tuple[Session | None, tuple[Noted, ...]]:
        """Return a panel's session in a run, and its entries so far."""
        if state.planned:
            return None, ()
        turns = [task_strand(name) for name in state.tasks if name.startswith(TURN_PREFIX)]
        notes = tuple(
            Noted(entry.step, entry.facts, self._bodies_of(entry))
            for strand in (MAIN_STRAND, *turns)
            for leaf, entry in read_strand_entries(self._project.ledger, run, strand)
            if entry.kind in DELIBERATION_KINDS
            if until is None or is_before(self._project.store, leaf, until)
        )
        with suppress(BodyGone):
            return (self.read_session(run, state) if notes else None), notes
        return None, notes

    def read_session(self, run: str, state: run_fold.Run | None = None) -> Session:
        """Return the session of a panel: its request, policy and start."""
        order = self.read_run_request(run)
        started = (state or self.read_run(run)).begun
        return Session(order.request, order.policy, started)

    def _bodies_of(self, entry: Entry[Any]) -> tuple[NoteBody, ...]:
        bodies = {name: read_body(self._project.store, entry, name) for name in entry.bodies}
        return tuple(NoteBody(name, body) for name, body in bodies.items() if body is not None)

    def _entry_indexes(self, state: run_fold.Run) -> dict[str, int]:
        """Return the indexes of the route, the checks and the tool uses, by entry id in hex."""
        uses = [use for task in state.tasks.values() for use in task.uses][:MAX_DETAILED_TASKS]
        named = [state.route, *(leaf for leaf, _ in state.checks)]
        named += [use.outcome or use.entry for use in uses]
        return self._indexes({leaf.hex(): leaf for leaf in named if leaf})

    def _indexes(self, named: Mapping[str, tlog.Hash | None]) -> dict[str, int]:
        """Return the indexes of entries by name, with one query."""
        leaves = {name: leaf for name, leaf in named.items() if leaf}
        pairs = zip(leaves, self._project.store.indexes(list(leaves.values())), strict=True)
        return {name: index for name, index in pairs if index is not None}

    def request_of(self, run: str) -> str | None:
        """Return the request text of a run, or None if it was erased."""
        request = self._main_bodies(run, run_fold.Run()).get("request")
        return request.decode(errors="replace") if request is not None else None

    def _main_bodies(self, run: str, state: run_fold.Run) -> dict[str, bytes]:
        """Return the bodies request, plan, answer and claims of a run in this state."""
        bodies: dict[str, bytes] = {}
        for leaf, entry in read_strand_entries(self._project.ledger, run, MAIN_STRAND):
            at = ports.Position(run, MAIN_STRAND, entry.n)
            named = {"request"} if isinstance(entry.facts, AcceptedFacts) else set()
            named |= {"plan"} if leaf == state.plan else set()
            named |= {"answer", "claims"} if at == state.answer_at else set()
            for name in named & entry.bodies.keys():
                body = read_body(self._project.store, entry, name)
                if body is not None:
                    bodies[name] = body
        return bodies

    def _error_prefix(self, at: ports.Position | None) -> str:
        return self._body_prefix(at, "error")

    def _body_prefix(self, at: ports.Position | None, name: str) -> str:
        """Return the beginning of a body as text."""
        return decode_prefix(self._body_at(at, name))

    def _body_at(self, at: ports.Position | None, name: str) -> bytes | None:
        """Return a body, checked against its entry; None if it is absent or erased."""
        if at is None or self._project.store.body(at, name) is None:
            return None
        _, entry = next(read_strand_entries(self._project.ledger, at.run, at.strand, at.n))
        return read_body(self._project.store, entry, name)

    @property
    def has_workers(self) -> bool:
        """Whether a live worker executes runs of this ledger."""
        return bool(
            set(self._project.store.workers()).difference(self._project.store.expired_workers())
        )

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
        """Fold the entries added to a run; skip strands of ended tasks, which do not grow."""
        ended = {task_strand(task.id) for task in state.tasks.values() if task.state.is_end}
        fresh = [
            entry
            for strand in self._project.store.strands(run)
            if strand not in ended
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
        alarm = self._project.store.timer(run, MAIN_STRAND)
        # A driver that waits for a person has cleared the run's timer, or set it to the deadline.
        at = None if alarm is None else alarm.at
        if at is not None and abs(at - (state.deadline or 0)) > 1_000_000:
            return False
        if any(gate.deadline <= self._project.store.now() for gate in state.open_gates):
            return False  # the gate's default answer is about to be recorded
        within = [
            t.delegated.run for t in tasks if t.delegated and t.state is run_fold.TaskState.WAITING
        ]
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
            if task.delegated and task.state is run_fold.TaskState.WAITING:
                child = task.delegated.run
                if self._project.store.strands(child):
                    gates += self.open_gates(child, self.read_run(child))
        return gates

    def interrupted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that were interrupted and not resumed."""
        return self._project.store.interrupted_runs("", limit)

    def live_workers(self) -> set[str]:
        """Return the ids of the workers that execute runs of this ledger now."""
        return set(self._project.store.workers()) - set(self._project.store.expired_workers())

    def accepted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that have a timer, which workers will continue."""
        timers = self._project.store.timers(None, limit, due=False)
        return list(dict.fromkeys(timer.run for timer in timers if timer.strand == MAIN_STRAND))

    def diff_runs(self, first: str, second: str) -> list[Divergence]:
        """Return the differences between two runs; durations are not compared."""
        from forum.engine import read_steps

        timings = frozenset({"milliseconds"})
        a, b = (read_steps(self._project.ledger, run, ignoring=timings) for run in (first, second))
        return list(compare_steps(a, b))

    def bodies_at(self, run: str, strand: str, step: str) -> dict[str, bytes]:
        """Return the bodies of a step that were not erased."""
        for _, entry in read_strand_entries(self._project.ledger, run, strand):
            if entry.step == step:
                return {body.name: body.data for body in self._bodies_of(entry)}
        return {}

    def waiting_gates(self) -> list[tuple[str, run_fold.Gate]]:
        """Return all gates that wait for a decision, each with its run."""
        from forum.engine import find_gate

        gates, after = [], None
        while page := self._project.store.timers(after, 1000, due=False):
            after = page[-1]
            for alarm in page:
                if alarm.strand.startswith(gate_strand("")):
                    subject = alarm.strand.removeprefix(gate_strand(""))
                    gates.append((alarm.run, find_gate(self._project.ledger, alarm.run, subject)))
        return gates

    def read_gate(self, run: str, subject: str) -> tuple[run_fold.Gate, bytes]:
        """Return a gate and the content that it shows."""
        from forum.engine import find_gate, read_body

        gate = find_gate(self._project.ledger, run, subject)
        return gate, read_body(self._project.ledger, gate.shown_at, "shown")

    def gate_results(self, run: str, subject: str) -> tuple[tuple[str, bytes], ...]:
        """Return the results that a decision is about, by task.

        For a gate before a task: the results of the tasks upstream of it. For a gate before a tool
        use: also the last reply of the agent that requested it.
        """
        state = self.read_run(run)
        plan = self._main_bodies(run, state).get("plan")
        if plan is None:
            return ()
        tasks = read_plan(plan).by_id
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
