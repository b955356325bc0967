"""Carrying out a run: starting tasks as soon as they may, and bringing it to its one answer.

The driver holds what it needs in memory and can lose it at any time: whoever drives the run next
folds the entries, and goes on from there.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from forum.deliberation import TurnStatus, turn_status
from forum.engine.accept import cancel_run
from forum.engine.answer_assembly import AnswerAssembler, Conclusion
from forum.engine.context import (
    ENGINE,
    RunContext,
    RunInput,
    fold_new_entries,
    join_causes,
    leaves_by_step,
    read_body,
    read_last_facts,
    read_prefix,
    read_request,
    read_run,
    read_run_context,
    read_run_input,
)
from forum.engine.gates import decide_gate, expire_gate, pass_gate, with_operator_rules
from forum.engine.local_runner import LocalRunner
from forum.engine.model_calls import Services
from forum.engine.ports import RecordedEnd, Runner
from forum.engine.session import SessionRunner, TurnRegistry
from forum.engine.signals import RunListener, RunSignals
from forum.engine.tools import receipts_of
from forum.errors import (
    BodyGone,
    ConcurrentUpdate,
    GateAlreadyDecided,
    GateChanged,
    NoSuchRun,
    RunAlreadyEnded,
)
from forum.ledger import (
    MAIN_STRAND,
    MAX_PARENTS,
    Attachment,
    BytesContent,
    Draft,
    RunCloseFacts,
    Strand,
    Timer,
    due_now,
    text_content,
)
from forum.tlog import Hash
from forum.work import (
    CONTROL,
    MAX_READ_BYTES,
    ROLE_PREFIX,
    UNNAMED_AGENT,
    ActionClaim,
    Answer,
    AnswerFacts,
    Basis,
    CancelFacts,
    ControlCloseFacts,
    Decider,
    GateDecisionFacts,
    InterruptionFacts,
    Plan,
    PlanFacts,
    Role,
    RolePlan,
    RouteFacts,
    Run,
    SkipFacts,
    StopFacts,
    StopReason,
    Task,
    TaskRun,
    TaskState,
    count_unverified,
    find_claims,
    gate_strand,
    is_finished,
    next_steps,
    outcome_of_stop,
    read_drafted_plan,
    read_lane_choice,
    read_plan,
    single_task_plan,
    task_of_role,
    task_strand,
    tool_gate_subject,
    write_plan,
)

_RUN_LIMITS = frozenset({StopReason.BUDGET, StopReason.DEADLINE})
"""Limits of the whole run: a task that meets one stops all."""

_MIN_POLL_INTERVAL_S = 1.0
_MAX_POLL_INTERVAL_S = 30.0


class RunDriver:
    """Carries out one run."""

    def __init__(
        self,
        world: Services,
        runner: Runner,
        here: LocalRunner,
        attention: RunListener,
        board: RunSignals,
        agenda: TurnRegistry,
    ) -> None:
        self._ledger, self._listener = world.ledger, attention
        self._runner, self._local_runner = runner, here
        self._signals, self._find_prior, self._pending_turns = board, world.prior, agenda
        self._gate_rules = world.gate_rules
        self._recorded_end: RecordedEnd | None = None
        self._started: set[str] = set()

    async def drive(self, run: str) -> None:
        """Go on with a run until it has ended, or waits for somebody."""
        while True:
            # The alarm and the end first, the entries second: what is decided in between changes
            # the alarm, and then it is not put out; what is recorded takes our position.
            alarm = await asyncio.to_thread(self._ledger.store.timer, run, MAIN_STRAND)
            self._main: Strand = await asyncio.to_thread(
                self._ledger.open_strand_at_end, run, MAIN_STRAND
            )
            last = await asyncio.to_thread(read_last_facts, self._ledger, run)
            if isinstance(last, RunCloseFacts | InterruptionFacts):
                await asyncio.to_thread(self._clear_stale_timers, run)
                return
            self._state = await asyncio.to_thread(self._fold_run, run)
            if await self._advance(run):
                return
            if await asyncio.to_thread(self._clear_or_defer_timer, run, alarm):
                return

    def _clear_or_defer_timer(self, run: str, alarm: Timer | None) -> bool:
        """Let the run be rows until somebody decides, or its time is over; or find it changed."""
        store, micros = self._ledger.store, None
        if self._state.deadline is not None and self._state.stopped is None:
            micros = max(0, self._state.deadline - self._ledger.now())
        before = store.now()
        if alarm is not None:
            store.reschedule([alarm], None if micros is None else micros / 1e6)
        left = store.timer(run, MAIN_STRAND)
        if left is None or left.at is None or micros is None:
            return left is None
        # It is as we left it if it rings when we said.  Whoever has set it meanwhile, or snoozed
        # what was set, has something to tell us.
        return before <= left.at - micros <= store.now()

    def _clear_stale_timers(self, run: str) -> None:
        """Clear timers that were set by those who did not know that nobody goes on with the run."""
        store = self._ledger.store
        strands = (MAIN_STRAND, *self._gate_strands(run))
        alarms = [alarm for strand in strands if (alarm := store.timer(run, strand))]
        # Looked at once more: the timers may be those of somebody who has resumed it meanwhile.
        if isinstance(read_last_facts(self._ledger, run), RunCloseFacts | InterruptionFacts):
            store.reschedule(alarms, None)

    def _fold_run(self, run: str) -> Run:
        """Fold the run, having let the default hold where nobody decided in time."""
        state = read_run(self._ledger, run)
        return fold_new_entries(self._ledger, run, state, self._expire_gates(run, state))

    def _expire_gates(self, run: str, state: Run) -> list[str]:
        """Let the default hold where it is time, and return where that may be."""
        for gate in state.open_gates:
            expire_gate(self._ledger, run, gate)
        return [gate.strand for gate in state.open_gates]

    async def _advance(self, run: str) -> bool:
        """Go on as far as possible; tell whether the run has come to its end."""
        intake = await asyncio.to_thread(read_run_input, self._ledger, run)
        if intake.policy.panel is not None:
            # What seats say is waited for here: a queue would cost more time than many a turn.
            self._runner = self._local_runner
            return await self._finish(_stage_context(intake, intake.cause))
        case = await self._make_plan(intake)
        if not isinstance(case.plan, RolePlan):
            approved = await self._approve_plan(case)
            if approved is None:
                return False
            case = approved
            await self._run_tasks(case)
        if not is_finished(case.plan, self._state):
            return False
        return await self._finish(case)

    # From the request to the plan

    async def _make_plan(self, intake: RunInput) -> RunContext:
        """Return the case with its plan; or, if that waits or is given up, with a role's part."""
        while not isinstance(intake, RunContext):
            role = self._next_role(intake)
            if role is None:
                await self._plan_one_task(intake)
            else:
                case = await self._run_role_stage(intake, intake.cause, task_of_role(role))
                ending, follows = (
                    self._recorded_end,
                    "route" if role is Role.CLASSIFIER else "plan/made",
                )
                if ending and ending.stopped and follows not in ending.steps:
                    await self._stop(case, ending.stopped, ending.spent)
                if not is_finished(case.plan, self._state) or self._state.stopped is not None:
                    return case
                await self._record_role_result(role, intake)
            intake = await asyncio.to_thread(read_run_input, self._ledger, intake.run)
        return intake

    def _next_role(self, intake: RunInput) -> Role | None:
        """Return who has to do something before there is a plan."""
        roles = intake.policy.roles
        if intake.routed is None and Role.CLASSIFIER in roles and intake.policy.lanes:
            return Role.CLASSIFIER
        return Role.COORDINATOR if Role.COORDINATOR in roles else None

    async def _run_role_stage(self, intake: RunInput, cause: Hash, task: str) -> RunContext:
        """Have a role do its part, as if that were all the plan."""
        stage = _stage_context(intake, cause, task)
        self._find_ending(intake)
        ending = self._recorded_end
        if ending and ending.stopped and task not in ending.roles:
            await self._stop(stage, ending.stopped, ending.spent)  # it did not come to this
        await self._run_tasks(stage)
        await self._check_for_stops(stage)
        return stage

    async def _check_for_stops(self, stage: RunContext) -> None:
        """Look who has cut off what did not end well: a wish may not be heard here yet."""
        states = (self._task(task.id).state for task in stage.plan.tasks)
        if any(state is not TaskState.PASSED for state in states):
            await self._fold_tasks(stage, ())
            await self._stop_if_due(stage)

    async def _record_role_result(self, role: Role, intake: RunInput) -> None:
        """Record what follows from what a role has said."""
        task = task_of_role(role)
        done = self._task(task)
        causes = (done.last or intake.cause,)
        call = done.calls[-1] if done.state is TaskState.PASSED else None
        said = b""
        if call is not None and call.reply_at is not None:
            try:
                said = await asyncio.to_thread(
                    read_body, self._ledger, call.reply_at, "output", MAX_READ_BYTES
                )
            except BodyGone:
                call = None  # erased meanwhile: it has said nothing
        if role is Role.CLASSIFIER:
            # A classifier that fails has not chosen; the work can be done without a lane.
            lane = read_lane_choice(said, intake.policy.lanes) if call else ""
            facts = RouteFacts(lane, Basis.CLASSIFIER)
            await self._main.append_exclusive_async(Draft("route", ENGINE, facts, causes))
        elif call is None:
            stage = _stage_context(intake, intake.cause, task)
            await self._stop(stage, StopFacts(StopReason.ROLE, by=task))
        else:
            await self._record_plan(read_drafted_plan(said, intake.policy), causes)
        await self._fold_main(intake.run)

    async def _plan_one_task(self, intake: RunInput) -> None:
        request = await asyncio.to_thread(read_request, self._ledger, intake.run)
        plan = single_task_plan(request.decode(errors="replace"), intake.lane)
        await self._record_plan(plan, (intake.cause,))
        await self._fold_main(intake.run)

    async def _record_plan(
        self, plan: Plan, causes: tuple[Hash, ...], step: str = "plan/made"
    ) -> None:
        body = Attachment("plan", BytesContent(write_plan(plan)), "application/json")
        await self._main.append_exclusive_async(
            Draft(step, ENGINE, PlanFacts(len(plan.tasks)), causes, (body,))
        )

    async def _fold_main(self, run: str) -> None:
        self._state = await asyncio.to_thread(
            fold_new_entries, self._ledger, run, self._state, [MAIN_STRAND]
        )

    async def _approve_plan(self, case: RunContext) -> RunContext | None:
        """Return the case once its plan may be carried out."""
        run = case.run
        if "plan" not in case.policy.gates:
            return case
        decision = await pass_gate(
            self._ledger, run, "plan", write_plan(case.plan), case.policy, case.plan_entry
        )
        if decision is None:
            return case if self._state.cancelled or self._is_past_deadline(case) else None
        if decision.answer is Answer.REJECT:
            await self._stop(case, StopFacts(StopReason.REJECTED, by="plan"))
        elif read_plan(decision.shown) != case.plan and self._state.stopped is None:
            plan = read_plan(decision.shown)
            await self._record_plan(plan, (decision.entry,), "plan/approved")
            case = await asyncio.to_thread(read_run_context, self._ledger, run)
        return case

    # The work

    def _find_ending(self, intake: RunInput) -> None:
        prior = self._find_prior(intake)
        self._recorded_end = prior.recorded_end() if prior else None

    async def _run_tasks(self, case: RunContext) -> None:
        """Start what may start, and follow it, until nothing is going on."""
        look = _MIN_POLL_INTERVAL_S
        self._find_ending(case)
        while True:
            await self._stop_if_due(case)
            if self._state.stopped is not None:
                await asyncio.to_thread(self._cancel_children)
            steps = next_steps(case.plan, self._state, case.policy, frozenset(self._started))
            for task, skipped in steps.skip:
                await self._skip(case, task, skipped)
            if steps.skip:
                await self._fold_tasks(case, [task for task, _ in steps.skip])
                continue
            start = (*steps.start, *await asyncio.to_thread(self._returned_children))
            if start:
                self._started.update(start)
                await self._runner.enqueue_tasks(case.run, start)
            if self._started:
                look = await self._wait_for_progress(case, look)
            elif not await self._replay_stop(case):
                return

    async def _wait_for_progress(self, case: RunContext, look: float) -> float:
        """Wait for news of what was started, and return how long to wait next time."""
        heard = await self._listener.wait_for_signal(self._poll_timeout_s(case, look))
        self._local_runner.raise_failures()
        if heard:
            await self._fold_tasks(
                case, self._started if heard.anything else heard.tasks, others=heard.anything
            )
            self._started -= {name for name in heard.tasks if self._has_passed_gate(name)}
            return _MIN_POLL_INTERVAL_S
        await self._fold_tasks(case, self._started)
        # Their workers may be gone; what is still going on is not started again.
        await self._runner.enqueue_tasks(case.run, tuple(sorted(self._started)))
        return min(2 * look, _MAX_POLL_INTERVAL_S)

    def _poll_timeout_s(self, case: RunContext, look: float) -> float:
        if case.deadline is None:
            return look
        left = (case.deadline - self._ledger.now()) / 1e6
        return max(0.05, min(look, left + 0.01)) if left > 0 else look

    async def _fold_tasks(
        self, case: RunContext, tasks: Iterable[str], *, others: bool = True
    ) -> None:
        """Learn what has become of these tasks, and what others want of the run."""
        names = tuple(tasks)
        self._state = await asyncio.to_thread(self._fold_strands, case, names, others=others)
        for name in names:
            state = self._task(name).state
            if state.is_end or state is TaskState.WAITING:
                self._started.discard(name)

    def _has_passed_gate(self, task: str) -> bool:
        """Tell whether a task that was left at a gate may go on, and has not."""
        left = self._task(task)
        if left.state not in (TaskState.PENDING, TaskState.RUNNING):
            return False
        subjects = [tool_gate_subject(task, len(left.uses) + 1)]
        if left.state is TaskState.PENDING:
            subjects.append(task_strand(task))
        return any(self._state.decision(gate_strand(subject)) is not None for subject in subjects)

    def _fold_strands(self, case: RunContext, tasks: tuple[str, ...], *, others: bool) -> Run:
        strands = [task_strand(name) for name in tasks]
        if others:
            strands.append(CONTROL)
            self._expire_gates(case.run, self._state)
        policy = with_operator_rules(case.policy, self._gate_rules)
        if policy.gates or policy.tools or policy.gate_rules:
            strands += self._gate_strands(case.run)
        return fold_new_entries(self._ledger, case.run, self._state, strands)

    def _returned_children(self) -> tuple[str, ...]:
        """Return the tasks whose runs within have ended, or were never begun."""
        waiting = (
            (name, task.delegated.run)
            for name, task in self._state.tasks.items()
            if task.delegated is not None and name not in self._started
        )
        return tuple(
            name
            for name, child in waiting
            if self._task(name).state is TaskState.WAITING
            if isinstance(read_last_facts(self._ledger, child), RunCloseFacts | None)
        )

    def _gate_strands(self, run: str) -> list[str]:
        """Return the strands in which a person is asked something."""
        strands = self._ledger.store.strands(run)
        return [name for name in strands if name.startswith(gate_strand(""))]

    # Stopping

    async def _stop_if_due(self, case: RunContext) -> None:
        """Stop the run where somebody asked for it, or a task has met a limit of the whole."""
        if (
            self._state.stopped is not None
            or self._state.answered is not None
            or self._recorded_end
        ):
            return
        if self._state.cancelled:
            self._signals.stop_run(case.run, cut=True)
            await self._stop(case, StopFacts(StopReason.CANCELLED))
            return
        for task in self._state.tasks.values():
            if task.stopped is not None and task.stopped.reason in _RUN_LIMITS:
                await self._stop(case, task.stopped)
                return
        if self._is_past_deadline(case) and not is_finished(case.plan, self._state):
            cap = case.accepted.milliseconds
            await self._stop(case, StopFacts(StopReason.DEADLINE, "milliseconds", 0, cap, cap))

    def _is_past_deadline(self, case: RunContext) -> bool:
        return case.deadline is not None and self._ledger.now() >= case.deadline

    async def _replay_stop(self, case: RunContext) -> bool:
        """Where a record is played, stop when all was played that came before; tell whether so."""
        ending = self._recorded_end
        if ending is None or ending.stopped is None or self._state.stopped is not None:
            return False
        if not ending.over or is_finished(case.plan, self._state):
            return False
        await self._stop(case, ending.stopped, ending.spent)
        return True

    async def _stop(self, case: RunContext, stopped: StopFacts, spent: bytes | None = None) -> None:
        """Record the stop, with what was spent and by whom."""
        self._signals.stop_run(case.run, cut=False)
        if self._state.stopped is None:
            table = {agent or UNNAMED_AGENT: spent for agent, spent in self._state.spent_by.items()}
            known = spent or msgspec.json.encode(table)
            body = Attachment("spent", BytesContent(known), "application/json")
            causes = [
                task.last
                for task in self._state.tasks.values()
                if task.last and task.stopped and task.id == stopped.by
            ]
            await self._main.append_exclusive_async(
                Draft("stop", ENGINE, stopped, tuple(causes), (body,))
            )
            self._state = await asyncio.to_thread(
                fold_new_entries, self._ledger, case.run, self._state, [MAIN_STRAND]
            )

    def _cancel_children(self) -> None:
        """Ask the runs within to end; each wakes this one when it has."""
        for task in self._state.tasks.values():
            if task.delegated is not None and not task.state.is_end:
                with suppress(RunAlreadyEnded, NoSuchRun):
                    cancel_run(self._ledger, task.delegated.run, ENGINE)

    async def _skip(self, case: RunContext, task: str, skipped: SkipFacts) -> None:
        """Record that a task is not run, with what is to blame for it."""
        skipped = self._recorded_end.skipped.get(task, skipped) if self._recorded_end else skipped
        cause = (
            self._state.tasks[skipped.cause].last if skipped.cause in self._state.tasks else None
        )
        strand = await asyncio.to_thread(self._ledger.open_strand, case.run, task_strand(task))
        draft = Draft("skip", ENGINE, skipped, (cause or case.plan_entry,))
        if strand.length == 0:
            with suppress(
                ConcurrentUpdate
            ):  # the one who drives it now has recorded something else
                await self._block_gate(case, task)
                await strand.append_exclusive_async(draft)

    async def _block_gate(self, case: RunContext, task: str) -> None:
        """Take the place in which a worker that was thought dead could still open the gate."""
        subject, prior = f"task/{task}", self._find_prior(case)
        policy = with_operator_rules(case.policy, self._gate_rules)
        if policy.is_gated(case.plan.by_id[task]) or (prior and prior.has_gate(subject)):
            gate = await asyncio.to_thread(
                self._ledger.open_strand_at_end, case.run, gate_strand(subject)
            )
            if gate.length == 0:
                moot = GateDecisionFacts(Answer.REJECT, "", Decider.END)
                await gate.append_exclusive_async(
                    Draft("decision", ENGINE, moot, (case.plan_entry,))
                )

    # Ending

    async def _finish(self, case: RunContext) -> bool:
        """Come to the answer, and close the run; tell whether that is done."""
        conclusion = await self._assemble_conclusion(case)
        if conclusion is None:
            return False
        # First the strands that others could still add to.
        await asyncio.to_thread(self._close_gates, case.run)
        control = await asyncio.to_thread(self._ledger.open_strand, case.run, CONTROL)
        if control.length == 0:
            await control.append_exclusive_async(self._control_draft(case))
        elif not self._state.cancelled:  # somebody asked in the last moment, and was heard
            await self._fold_tasks(case, ())
            await self._stop_if_due(case)
            conclusion = await self._assemble_conclusion(case) or conclusion
        if self._state.answered is None:
            await self._record_checks(conclusion)
            await self._record_answer(conclusion)
        alarms = [Timer(case.run, MAIN_STRAND, None)]
        if case.accepted.parent_run:
            alarms.append(due_now(case.accepted.parent_run, MAIN_STRAND, self._ledger.now()))
        await asyncio.to_thread(
            self._ledger.close_run, self._main, ENGINE, conclusion.outcome, tuple(alarms)
        )
        return True

    async def _assemble_conclusion(self, case: RunContext) -> Conclusion | None:
        """Have all roles do their part that have one in the answer; nothing while one waits."""
        if case.policy.panel is not None:
            return await self._deliberate(case)
        while True:
            await self._replay_stop_before_role(case)
            if self._state.stopped is not None:
                await self._finish_open_roles(case)
            answering = AnswerAssembler(self._ledger, case, self._state)
            step = await asyncio.to_thread(answering.next_step)
            if isinstance(step, str):
                stage = await self._run_role_stage(case, case.plan_entry, step)
                if not is_finished(stage.plan, self._state) and self._state.stopped is None:
                    return None
            elif step.stopped is not None and self._state.stopped is None:
                await self._stop(case, step.stopped)
            else:
                return step

    async def _deliberate(self, case: RunContext) -> Conclusion:
        """Have the panel deliberate until it closes, and return how it does."""
        prior = self._find_prior(case)
        sitting = SessionRunner(self._ledger, case, self._main, prior, self._pending_turns)
        closing = await sitting.run_to_close(
            lambda names, cause: self._run_turns(case, names, cause)
        )
        await self._stop_as_recorded(case)
        outcome = outcome_of_stop(self._state.stopped) if self._state.stopped else closing.outcome
        return Conclusion(outcome, text_content(closing.answer), list(closing.causes))

    async def _run_turns(self, case: RunContext, names: Sequence[str], cause: Hash) -> Run:
        """Have turns taken, at the same time, and return the run as it is then."""
        stage = _stage_context(case, cause, *names)
        await self._run_tasks(stage)
        await self._check_for_stops(stage)
        if any(turn_status(self._task(name)) is TurnStatus.CUT for name in names):
            await self._stop_as_recorded(stage)
        return self._state

    async def _stop_as_recorded(self, case: RunContext) -> None:
        """Where a record is played that was stopped, stop: it has come to that."""
        ending = self._recorded_end
        if ending and ending.stopped and self._state.stopped is None:
            await self._stop(case, ending.stopped, ending.spent)

    async def _finish_open_roles(self, case: RunContext) -> None:
        """Have what roles have begun brought to its end: their calls may be open."""
        for name in [name for name in self._state.tasks if name.startswith(ROLE_PREFIX)]:
            if not self._task(name).state.is_end:
                await self._run_role_stage(case, case.plan_entry, name)

    async def _replay_stop_before_role(self, case: RunContext) -> None:
        """Where a record is played that was stopped, stop once all was played that came before."""
        ending = self._recorded_end
        if ending and ending.stopped and self._state.stopped is None:
            step = await asyncio.to_thread(
                AnswerAssembler(self._ledger, case, self._state).next_step
            )
            if not isinstance(step, str) or step not in ending.roles:
                await self._stop_as_recorded(case)

    async def _record_checks(self, conclusion: Conclusion) -> None:
        """Record how the answer was looked at."""
        known = len(self._state.checks)
        for number, (checked, said) in enumerate(conclusion.checks, 1):
            detail = Attachment("detail", BytesContent(said.encode(errors="replace")))
            causes, bodies = tuple(conclusion.causes[:1]), (detail,) if said else ()
            if number > known:
                draft = Draft(f"check/{number}", ENGINE, checked, causes, bodies)
                await self._main.append_exclusive_async(draft)

    async def _record_answer(self, conclusion: Conclusion) -> None:
        """Record the answer, with what it says was done and the entries that show it."""
        head = await asyncio.to_thread(read_prefix, conclusion.answer.chunks(), MAX_READ_BYTES)
        claims = await asyncio.to_thread(self._find_claims, head)
        bodies = [Attachment("answer", conclusion.answer, "text/plain")]
        if claims:
            listed = BytesContent(msgspec.json.encode(claims))
            bodies.append(Attachment("claims", listed, "application/json"))
        parts = len(conclusion.causes)
        facts = AnswerFacts(conclusion.outcome, parts, len(claims), count_unverified(claims))
        known: dict[str, Hash] = {}
        if parts > MAX_PARENTS:  # one that died in between may have joined some of them
            known = await asyncio.to_thread(
                leaves_by_step, self._ledger, self._main.run, MAIN_STRAND
            )
        named = await join_causes(self._main, conclusion.causes, known=known)
        await self._main.append_exclusive_async(
            Draft("answer", ENGINE, facts, named, tuple(bodies))
        )

    def _find_claims(self, answer: bytes) -> tuple[ActionClaim, ...]:
        """Return what the answer says was done, with the effects of the run that show it."""
        claims = find_claims(answer, ())
        return find_claims(answer, receipts_of(self._ledger, self._state)) if claims else ()

    def _control_draft(self, case: RunContext) -> Draft:
        """Take the place in which somebody could ask for an end; or ask, as was asked before."""
        cause = (case.accepted_entry,)
        if self._recorded_end and self._recorded_end.cancelled_by:
            return Draft("cancel", self._recorded_end.cancelled_by, CancelFacts(), cause)
        return Draft("close", ENGINE, ControlCloseFacts(), cause)

    def _close_gates(self, run: str) -> None:
        for gate in fold_new_entries(self._ledger, run, Run(), self._gate_strands(run)).open_gates:
            moot = GateDecisionFacts(Answer.REJECT, gate.digest, Decider.END)
            with suppress(GateAlreadyDecided, GateChanged):
                decide_gate(self._ledger, run, gate.opened.subject, moot, ENGINE)

    def _task(self, name: str) -> TaskRun:
        return self._state.task(name)


def _stage_context(intake: RunInput, cause: Hash, *tasks: str) -> RunContext:
    """Return a case in which what roles or seats have to do is all the plan."""
    return intake.with_plan(RolePlan(tuple(Task(task, task) for task in tasks)), cause)
