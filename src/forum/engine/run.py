"""Carrying out a run: starting tasks as soon as they may, and bringing it to its one answer.

The driver holds what it needs in memory and can lose it at any time: whoever drives the run next
folds the entries, and goes on from there.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from forum.engine.accepting import cancel
from forum.engine.attention import Attention, Switchboard
from forum.engine.case import ENGINE, Case, Joined, join, read_case, read_run, refresh, stored
from forum.engine.gates import decide, expire, pass_gate
from forum.engine.ports import Ending, Prior, Runner
from forum.errors import BodyGone, GateClosed, GateMoved, NoSuchRun, Overtaken, RunEnded
from forum.ledger import (
    MAIN,
    Alarm,
    Attachment,
    Bytes,
    Content,
    Draft,
    Ledger,
    Outcome,
    RunClose,
    Strand,
    at_once,
    text,
)
from forum.tlog import Hash
from forum.work import (
    CONTROL,
    Answer,
    Answered,
    CancelAsked,
    ControlClosed,
    Decider,
    GateDecided,
    Planned,
    Run,
    Skipped,
    Stopped,
    StopReason,
    TaskRun,
    TaskState,
    gate_strand,
    is_finished,
    next_steps,
    read_plan,
    task_strand,
    write_plan,
)

_LIMITS = frozenset({StopReason.BUDGET, StopReason.DEADLINE})
"""Limits of the whole run: a task that meets one stops all."""

_FIRST_LOOK_SECONDS = 1.0
_LONGEST_LOOK_SECONDS = 30.0

_NEXT_PART = "\n\n"
"""What stands between two results of an answer."""

_OUTCOMES = {
    StopReason.BUDGET: Outcome.DENIED,
    StopReason.DEPTH: Outcome.DENIED,
    StopReason.REJECTED: Outcome.DENIED,
    StopReason.DEADLINE: Outcome.TIMEOUT,
    StopReason.CANCELLED: Outcome.CANCELLED,
}


class RunDriver:
    """Carries out one run."""

    def __init__(
        self,
        ledger: Ledger,
        runner: Runner,
        attention: Attention,
        board: Switchboard,
        prior: Callable[[Case], Prior | None],
    ) -> None:
        self._ledger, self._runner, self._attention = ledger, runner, attention
        self._board, self._find_prior = board, prior
        self._ending: Ending | None = None
        self._started: set[str] = set()

    async def drive(self, run: str) -> None:
        """Go on with a run until it has ended, or waits for somebody."""
        while True:
            # The alarm and the end first, the entries second: what is decided in between changes
            # the alarm, and then it is not put out; what is recorded takes our position.
            alarm = await asyncio.to_thread(self._ledger.store.alarm, run, MAIN)
            self._main: Strand = await asyncio.to_thread(self._ledger.end_of, run, MAIN)
            self._state = await asyncio.to_thread(self._look, run)
            if self._state.outcome is not None:
                await asyncio.to_thread(self._silence, run)
                return
            case = await self._settle_plan(run)
            if case is not None:
                await self._carry_out(case)
                if self._may_end(case):
                    await self._finish(case)
                    return
            if await asyncio.to_thread(self._put_out, run, alarm):
                return

    def _put_out(self, run: str, alarm: Alarm | None) -> bool:
        """Let the run be rows until somebody decides, or its time is over; or find it changed."""
        store, micros = self._ledger.store, None
        if self._state.deadline is not None and self._state.stopped is None:
            micros = max(0, self._state.deadline - self._ledger.now())
        before = store.now()
        if alarm is not None:
            store.snooze([alarm], None if micros is None else micros / 1e6)
        left = store.alarm(run, MAIN)
        if left is None or left.at is None or micros is None:
            return left is None
        # It is as we left it if it rings when we said.  Whoever has set it meanwhile, or snoozed
        # what was set, has something to tell us.
        return before <= left.at - micros <= store.now()

    def _silence(self, run: str) -> None:
        """Put out what a worker has set that did not know that the run had ended."""
        store = self._ledger.store
        strands = (MAIN, *self._state.gates)
        alarms = [alarm for strand in strands if (alarm := store.alarm(run, strand))]
        store.snooze(alarms, None)

    def _look(self, run: str) -> Run:
        """Fold the run, having let the default hold where nobody decided in time."""
        state = read_run(self._ledger, run)
        return refresh(self._ledger, run, state, self._expire(run, state))

    def _expire(self, run: str, state: Run) -> list[str]:
        """Let the default hold where it is time, and return where that may be."""
        for gate in state.open_gates:
            expire(self._ledger, run, gate)
        return [gate.strand for gate in state.open_gates]

    async def _settle_plan(self, run: str) -> Case | None:
        """Return the case once its plan may be carried out."""
        case = await asyncio.to_thread(read_case, self._ledger, run)
        if "plan" not in case.policy.gates:
            return case
        decision = await pass_gate(
            self._ledger, run, "plan", write_plan(case.plan), case.policy, case.plan_entry
        )
        if decision is None:
            return case if self._state.cancelled or self._is_late(case) else None
        if decision.answer is Answer.REJECT:
            await self._stop(case, Stopped(StopReason.REJECTED, by="plan"))
        elif read_plan(decision.shown) != case.plan and self._state.stopped is None:
            plan = read_plan(decision.shown)
            body = Attachment("plan", Bytes(decision.shown), "application/json")
            facts, causes = Planned(len(plan.tasks)), (decision.entry,)
            await self._main.claim_async(Draft("plan/approved", ENGINE, facts, causes, (body,)))
            case = await asyncio.to_thread(read_case, self._ledger, run)
        return case

    async def _carry_out(self, case: Case) -> None:
        """Start what may start, and follow it, until nothing is going on."""
        look = _FIRST_LOOK_SECONDS
        prior = self._find_prior(case)
        self._ending = prior.ending() if prior else None
        while True:
            await self._consider_stopping(case)
            if self._state.stopped is not None:
                await asyncio.to_thread(self._cancel_children)
            steps = next_steps(case.plan, self._state, case.policy, frozenset(self._started))
            for task, skipped in steps.skip:
                await self._skip(case, task, skipped)
            if steps.skip:
                await self._take_in(case, [task for task, _ in steps.skip])
                continue
            start = (*steps.start, *await asyncio.to_thread(self._returned))
            if start:
                self._started.update(start)
                await self._runner.enqueue_tasks(case.run, start)
            if self._started:
                look = await self._follow(case, look)
            elif not await self._stop_again(case):
                return

    async def _follow(self, case: Case, look: float) -> float:
        """Wait for news of what was started, and return how long to wait next time."""
        heard = await self._attention.wait(self._patience(case, look))
        if heard:
            await self._take_in(case, heard.tasks or self._started, others=not heard.tasks)
            return _FIRST_LOOK_SECONDS
        await self._take_in(case, self._started)
        # Their workers may be gone; what is still going on is not started again.
        await self._runner.enqueue_tasks(case.run, tuple(sorted(self._started)))
        return min(2 * look, _LONGEST_LOOK_SECONDS)

    def _patience(self, case: Case, look: float) -> float:
        if case.deadline is None:
            return look
        left = (case.deadline - self._ledger.now()) / 1e6
        return max(0.05, min(look, left + 0.01)) if left > 0 else look

    async def _take_in(self, case: Case, tasks: Iterable[str], *, others: bool = True) -> None:
        """Learn what has become of these tasks, and what others want of the run."""
        names = tuple(tasks)
        self._state = await asyncio.to_thread(self._read_on, case, names, others=others)
        for name in names:
            state = self._task(name).state
            if state.is_end or state is TaskState.WAITING:
                self._started.discard(name)

    def _read_on(self, case: Case, tasks: tuple[str, ...], *, others: bool) -> Run:
        strands = [task_strand(name) for name in tasks]
        if others:
            strands.append(CONTROL)
            self._expire(case.run, self._state)
        if case.policy.gates or case.policy.tools:
            known = self._ledger.store.strands(case.run)
            strands += [name for name in known if name.startswith(gate_strand(""))]
        return refresh(self._ledger, case.run, self._state, strands)

    def _returned(self) -> tuple[str, ...]:
        """Return the tasks whose runs within have ended, or were never begun."""
        waiting = (
            (name, task.delegated.run)
            for name, task in self._state.tasks.items()
            if task.delegated is not None and name not in self._started
        )
        return tuple(
            name
            for name, child in waiting
            if self._task(name).state is TaskState.WAITING and not self._is_open(child)
        )

    def _is_open(self, child: str) -> bool:
        last = self._ledger.store.last(child, MAIN)
        closed = last is not None and isinstance(self._ledger.kinds.read(last).facts, RunClose)
        return last is not None and not closed

    # Stopping

    async def _consider_stopping(self, case: Case) -> None:
        """Stop the run where somebody asked for it, or a task has met a limit of the whole."""
        if self._state.stopped is not None or self._state.answered is not None or self._ending:
            return
        if self._state.cancelled:
            self._board.stop(case.run, cut=True)
            await self._stop(case, Stopped(StopReason.CANCELLED))
            return
        for task in self._state.tasks.values():
            if task.stopped is not None and task.stopped.reason in _LIMITS:
                await self._stop(case, task.stopped)
                return
        if self._is_late(case) and not is_finished(case.plan, self._state):
            cap = case.accepted.milliseconds
            await self._stop(case, Stopped(StopReason.DEADLINE, "milliseconds", 0, cap, cap))

    def _is_late(self, case: Case) -> bool:
        return case.deadline is not None and self._ledger.now() >= case.deadline

    async def _stop_again(self, case: Case) -> bool:
        """Where a record is played, stop when all was played that came before; tell whether so."""
        ending = self._ending
        if ending is None or ending.stopped is None or self._state.stopped is not None:
            return False
        if not ending.over and not is_finished(case.plan, self._state):
            return False
        await self._stop(case, ending.stopped, ending.spent)
        return True

    async def _stop(self, case: Case, stopped: Stopped, spent: bytes | None = None) -> None:
        """Record the stop, with what was spent and by whom."""
        self._board.stop(case.run, cut=False)
        if self._state.stopped is None:
            table = {agent or "agent": spent for agent, spent in self._state.spent_by.items()}
            known = spent or msgspec.json.encode(table)
            body = Attachment("spent", Bytes(known), "application/json")
            causes = [
                task.last
                for task in self._state.tasks.values()
                if task.last and task.stopped and task.id == stopped.by
            ]
            await self._main.claim_async(Draft("stop", ENGINE, stopped, tuple(causes), (body,)))
            self._state = await asyncio.to_thread(
                refresh, self._ledger, case.run, self._state, [MAIN]
            )

    def _cancel_children(self) -> None:
        """Ask the runs within to end; each wakes this one when it has."""
        for task in self._state.tasks.values():
            if task.delegated is not None and not task.state.is_end:
                with suppress(RunEnded, NoSuchRun):
                    cancel(self._ledger, task.delegated.run, ENGINE)

    async def _skip(self, case: Case, task: str, skipped: Skipped) -> None:
        """Record that a task is not run, with what is to blame for it."""
        skipped = self._ending.skipped.get(task, skipped) if self._ending else skipped
        cause = (
            self._state.tasks[skipped.cause].last if skipped.cause in self._state.tasks else None
        )
        strand = await asyncio.to_thread(self._ledger.strand, case.run, task_strand(task))
        draft = Draft("skip", ENGINE, skipped, (cause or case.plan_entry,))
        if strand.length == 0:
            with suppress(Overtaken):  # the one who drives it now has recorded something else
                await self._bar(case, task)
                await strand.claim_async(draft)

    async def _bar(self, case: Case, task: str) -> None:
        """Take the place in which a worker that was thought dead could still open the gate."""
        if case.policy.guards(task):
            gate = await asyncio.to_thread(
                self._ledger.end_of, case.run, gate_strand(f"task/{task}")
            )
            if gate.length == 0:
                moot = GateDecided(Answer.REJECT, "", Decider.END)
                await gate.claim_async(Draft("decision", ENGINE, moot, (case.plan_entry,)))

    # Ending

    def _may_end(self, case: Case) -> bool:
        return is_finished(case.plan, self._state)

    async def _finish(self, case: Case) -> None:
        """Answer, and close the run: first the strands that others could still add to."""
        await asyncio.to_thread(self._close_gates, case.run)
        control = await asyncio.to_thread(self._ledger.strand, case.run, CONTROL)
        if control.length == 0:
            await control.claim_async(self._closing(case))
        elif not self._state.cancelled:  # somebody asked in the last moment, and was heard
            await self._take_in(case, ())
            await self._consider_stopping(case)
        outcome = self._outcome(case)
        answer, causes = await asyncio.to_thread(self._answer, case)
        if self._state.answered is None:
            body = Attachment("answer", answer, "text/plain")
            facts = Answered(outcome, len(causes))
            named = await join(self._main, causes)
            await self._main.claim_async(Draft("answer", ENGINE, facts, named, (body,)))
        alarms = [Alarm(case.run, MAIN, None)]
        if case.accepted.parent_run:
            alarms.append(at_once(case.accepted.parent_run, MAIN, self._ledger.now()))
        await asyncio.to_thread(self._ledger.close_run, self._main, ENGINE, outcome, tuple(alarms))

    def _closing(self, case: Case) -> Draft:
        """Take the place in which somebody could ask for an end; or ask, as was asked before."""
        cause = (case.accepted_entry,)
        if self._ending and self._ending.cancelled_by:
            return Draft("cancel", self._ending.cancelled_by, CancelAsked(), cause)
        return Draft("close", ENGINE, ControlClosed(), cause)

    def _close_gates(self, run: str) -> None:
        for gate in read_run(self._ledger, run).open_gates:
            moot = GateDecided(Answer.REJECT, gate.digest, Decider.END)
            with suppress(GateClosed, GateMoved):
                decide(self._ledger, run, gate.opened.subject, moot, ENGINE)

    def _outcome(self, case: Case) -> Outcome:
        if self._state.stopped is not None:
            return _OUTCOMES.get(self._state.stopped.reason, Outcome.FAILED)
        passed = all(self._task(t.id).state is TaskState.PASSED for t in case.plan.tasks)
        return Outcome.OK if passed else Outcome.FAILED

    def _task(self, name: str) -> TaskRun:
        return self._state.task(name)

    def _answer(self, case: Case) -> tuple[Content, list[Hash]]:
        """Put the results together that nobody has made more of; those of a failed run are kept."""
        passed = {t.id for t in case.plan.tasks if self._task(t.id).state is TaskState.PASSED}
        parts: list[tuple[str, Content]] = []
        causes: list[Hash] = []
        for task in case.plan.tasks:
            used = not passed.isdisjoint(case.plan.dependants[task.id])
            result = self._task(task.id).result if task.id in passed and not used else None
            if result is None or result.reply_at is None:
                continue
            with suppress(BodyGone):  # it was erased meanwhile, which is no reason not to end
                parts.append((task.id, stored(self._ledger, result.reply_at, "output")))
                causes.append(self._task(task.id).last or case.plan_entry)
        if len(parts) == 1:
            return parts[0][1], causes
        heads = [f"{_NEXT_PART if n else ''}## {name}\n\n" for n, (name, _) in enumerate(parts)]
        together = zip(heads, parts, strict=True)
        return Joined(tuple(c for head, (_, said) in together for c in (text(head), said))), causes
