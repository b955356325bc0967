"""Drive one run: plan it, start tasks as soon as they may start, and record its one answer.

A driver keeps only derived state in memory and can lose it at any time: the next driver folds the
entries and continues from there.  Entries are appended exclusively at a position, so of two drivers
of the same run, one is refused at its next append and stops.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from forum import errors
from forum.engine import context, gates
from forum.engine.accept import cancel_run
from forum.engine.answer_assembly import AnswerAssembler, Conclusion
from forum.engine.local_runner import LocalRunner
from forum.engine.model_calls import Services
from forum.engine.ports import RecordedEnd
from forum.engine.prompt_fit import read_request_source
from forum.engine.session import SessionRunner, TurnRegistry, read_session
from forum.engine.signals import RunListener, RunSignals
from forum.engine.tools import receipts_of
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.entry import MAIN_STRAND, MAX_PARENTS
from forum.ledger.kinds import RunCloseFacts
from forum.ledger.log import StrandEnd, draft_closing
from forum.ledger.ports import Effect, EndedRun, Timer, due_now
from forum.ledger.strand import Attachment, Draft, Strand
from forum.runs import kinds, run_fold, shared_tasks
from forum.runs.asks import is_single_ask
from forum.runs.claims import ActionClaim, ClaimedAction, count_unverified
from forum.runs.judging import MAX_READ_BYTES
from forum.runs.plan import Plan, RolePlan, Task, read_plan, write_plan
from forum.runs.policy import Answer, Role
from forum.runs.role_assignment import plan_listed_asks, plan_single_task
from forum.runs.roles import classifier, coordinator
from forum.runs.roles.prompt_parts import task_of_role
from forum.runs.schedule import is_finished, next_steps
from forum.runs.session_flags import flag_session
from forum.runs.session_steps import TurnStatus
from forum.runs.turn_results import turn_status
from forum.tlog import Hash

_RUN_LIMITS = frozenset({kinds.StopReason.BUDGET, kinds.StopReason.DEADLINE})
"""Limits of the whole run: a task that reaches one stops the run."""

StartTasks = Callable[[tuple[str, ...]], None]
"""Has tasks of the run driven beside its driver, except those that are being driven."""

_MIN_POLL_INTERVAL_S = 1.0
_MAX_POLL_INTERVAL_S = 30.0


class RunDriver:
    """Drives one run: plans it, starts its tasks, waits for them, and closes it."""

    def __init__(
        self,
        services: Services,
        start_tasks: StartTasks,
        here: LocalRunner,
        attention: RunListener,
        run_signals: RunSignals,
        turn_registry: TurnRegistry,
    ) -> None:
        self._ledger, self._listener = services.ledger, attention
        self._start, self._local_runner = start_tasks, here
        self._signals, self._find_reply_source = run_signals, services.find_reply_source
        self._pending_turns = turn_registry
        self._gate_rules, self._open_encoder = services.gate_rules, services.open_encoder
        self._may_share, self._find_in_text = services.shares_tasks, services.find_claims
        self._recorded_end: RecordedEnd | None = None
        self._started: set[str] = set()

    async def drive(self, run: str) -> None:
        """Drive a run until it has ended or waits for a decision, a child run or its deadline."""
        while True:
            timer, run_input = await asyncio.to_thread(self._read_run, run)
            if run_input is None:
                return
            try:
                if await self._advance(run_input):
                    return
            except errors.PositionTaken:
                continue  # the last commit was refused: somebody cancelled the run just now
            if await asyncio.to_thread(self._clear_or_defer_timer, run, timer):
                return

    def _read_run(self, run: str) -> tuple[Timer | None, context.RunInput | None]:
        """Read the timer and the entries of a run; return no input if there is nothing to drive."""
        # Read the timer and the end of `main` before the entries.  A decision made in between sets
        # the timer again, so that `reschedule` leaves it alone; an entry recorded in between takes
        # our position, so that our next append is refused.
        timer = self._ledger.store.timer(run, MAIN_STRAND)
        self._ledger.remember_run(run)
        self._main: Strand = self._ledger.open_strand_at_end(run, MAIN_STRAND)
        last = context.read_last_facts(self._ledger, run)
        if isinstance(last, RunCloseFacts | kinds.InterruptionFacts):
            self._clear_stale_timers(run)
            return timer, None
        self._state = self._fold_run(run)
        if self._state.accepted is None:
            self._leave_reported_run(run)
            return timer, None
        return timer, context.read_run_input(self._ledger, run)

    def _clear_or_defer_timer(self, run: str, timer: Timer | None) -> bool:
        """Clear the timer of a waiting run, or defer it to the deadline, before the driver leaves.

        Return False if the timer was set again meanwhile: then there is news to read first.
        """
        store, micros = self._ledger.store, None
        if self._state.deadline is not None and self._state.stopped is None:
            micros = max(0, self._state.deadline - self._ledger.now())
        before = store.now()
        if timer is not None:
            store.reschedule([timer], None if micros is None else micros / 1e6)
        left = store.timer(run, MAIN_STRAND)
        if left is None or left.at is None or micros is None:
            return left is None
        # The timer is as we left it if it is due when we set it to be.  Any other time was set by a
        # writer with news, or by a worker that claimed the timer of such a writer.
        return before <= left.at - micros <= store.now()

    def _leave_reported_run(self, run: str) -> None:
        """Decide overdue gates of a run that a program makes itself, and do nothing else for it.

        The decision of a gate sets a timer, which would wake a driver of a run that was accepted.
        """
        for gate in self._state.open_gates:
            gates.expire_gate(self._ledger, run, gate)
        timer = self._ledger.store.timer(run, MAIN_STRAND)
        if timer is not None:
            self._ledger.store.reschedule([timer], None)

    def _clear_stale_timers(self, run: str) -> None:
        """Clear timers set by writers that did not know that the run was closed or interrupted."""
        store = self._ledger.store
        self._ledger.writer.forget(run)  # what was remembered may be older than the timers
        strands = (MAIN_STRAND, *self._gate_strands(run))
        alarms = [timer for strand in strands if (timer := store.timer(run, strand))]
        # Check again after reading the timers: a resumption in between has set them, and clearing
        # those would leave a resumed run that nothing wakes.
        if isinstance(
            context.read_last_facts(self._ledger, run), RunCloseFacts | kinds.InterruptionFacts
        ):
            store.reschedule(alarms, None)

    def _fold_run(self, run: str) -> run_fold.Run:
        """Fold the run, after deciding expired gates by their default."""
        state = context.read_run(self._ledger, run)
        return context.fold_new_entries(self._ledger, run, state, self._expire_gates(run, state))

    def _expire_gates(self, run: str, state: run_fold.Run) -> list[str]:
        """Decide expired gates by their default, and return the strands of all open gates."""
        for gate in state.open_gates:
            gates.expire_gate(self._ledger, run, gate)
        return [gate.strand for gate in state.open_gates]

    async def _advance(self, run_input: context.RunInput) -> bool:
        """Drive the run as far as possible, and return whether it was closed."""
        if run_input.policy.panel is not None:
            # Turns of a session are taken in this process: the pending turns are known only here,
            # and a trip through the queue would take longer than many a turn.
            self._start = partial(self._local_runner.enqueue_tasks, run_input.run)
            return await self._finish(_stage_context(run_input, run_input.cause))
        case = await self._make_plan(run_input)
        if not isinstance(case.plan, RolePlan):
            approved = await self._approve_plan(case)
            if approved is None:
                return False
            case = approved
            await self._run_tasks(case)
        if not is_finished(case.plan, self._state):
            return False
        return await self._finish(case)

    async def _make_plan(self, run_input: context.RunInput) -> context.RunContext:
        """Return the run's context with its plan.

        While a role has yet to finish, or after the run was stopped, return a context whose plan is
        that role's task alone.
        """
        while not isinstance(run_input, context.RunContext):
            role = await self._next_role(run_input)
            if role is None:
                await self._plan_by_code(run_input)
            else:
                case = await self._run_role_stage(run_input, run_input.cause, task_of_role(role))
                ending, follows = (
                    self._recorded_end,
                    "route" if role is Role.CLASSIFIER else "plan/made",
                )
                # A replay must stop where the recorded run did: here it was stopped before the
                # result of this role was recorded.
                if ending and ending.stopped and follows not in ending.steps:
                    await self._stop(case, ending.stopped, ending.spent)
                if not is_finished(case.plan, self._state) or self._state.stopped is not None:
                    return case
                await self._record_role_result(role, run_input)
            run_input = await asyncio.to_thread(context.read_run_input, self._ledger, run_input.run)
        return run_input

    async def _next_role(self, run_input: context.RunInput) -> Role | None:
        """Return the next role needed before there is a plan, or None.

        A request that is one ask needs no Coordinator: one task does all of it.
        """
        policy = run_input.policy
        if run_input.routed is None and Role.CLASSIFIER in policy.roles and policy.lanes:
            return Role.CLASSIFIER
        if Role.COORDINATOR not in policy.roles or await self._is_single_ask(run_input):
            return None
        return Role.COORDINATOR

    async def _is_single_ask(self, run_input: context.RunInput) -> bool:
        if not run_input.policy.checks_coverage:  # earlier rules ask the Coordinator in any case
            return False
        request = await asyncio.to_thread(context.read_request, self._ledger, run_input.run)
        return is_single_ask(request.decode(errors="replace"))

    async def _run_role_stage(
        self, run_input: context.RunInput, cause: Hash, task: str
    ) -> context.RunContext:
        """Run the task of one role as if it were the whole plan, and return that context."""
        stage = _stage_context(run_input, cause, task)
        self._find_ending(run_input)
        ending = self._recorded_end
        if ending and ending.stopped and task not in ending.roles:
            # A replay must stop where the recorded run did: here it was stopped before this role
            # began.
            await self._stop(stage, ending.stopped, ending.spent)
        await self._run_tasks(stage)
        await self._check_for_stops(stage)
        return stage

    async def _check_for_stops(self, stage: context.RunContext) -> None:
        """Check for a due stop if a task did not pass: a cancellation may not be folded yet."""
        states = (self._task(task.id).state for task in stage.plan.tasks)
        if any(state is not run_fold.TaskState.PASSED for state in states):
            await self._fold_tasks(stage, ())
            await self._stop_if_due(stage)

    async def _record_role_result(self, role: Role, run_input: context.RunInput) -> None:
        """Record what follows from a role's result: a route, a plan, or the stop of the run."""
        task = task_of_role(role)
        done = self._task(task)
        causes = (done.last or run_input.cause,)
        calls = done.calls if done.state is run_fold.TaskState.PASSED else ()
        if role is Role.CLASSIFIER:
            output = await self._read_output(calls[-1]) if calls else None
            # A classifier that fails chooses no lane; the run continues without one.
            lane = "" if output is None else classifier.parse_choice(output, run_input.policy.lanes)
            facts = kinds.RouteFacts(lane, kinds.Basis.CLASSIFIER)
            await self._main.append_exclusive_async(Draft("route", context.ENGINE, facts, causes))
        elif (plan := await self._last_usable_plan(run_input, calls)) is not None:
            await self._record_plan(plan, causes)
        else:
            stage = _stage_context(run_input, run_input.cause, task)
            await self._stop(stage, kinds.StopFacts(kinds.StopReason.ROLE, by=task))
        await self._fold_main(run_input.run)

    async def _read_output(self, call: run_fold.CallRecord) -> bytes | None:
        """Return the output of a role; None if it was erased meanwhile, as if it had failed."""
        if call.reply_at is None:
            return None
        with suppress(errors.BodyGone):
            return await asyncio.to_thread(
                context.read_body, self._ledger, call.reply_at, "output", MAX_READ_BYTES
            )
        return None

    async def _last_usable_plan(
        self, run_input: context.RunInput, calls: Sequence[run_fold.CallRecord]
    ) -> Plan | None:
        """Return the last plan of the Coordinator that can be used, or None.

        The last reply may be unusable: then it was to revise a plan with holes, which counts.
        """
        source = await asyncio.to_thread(read_request_source, self._ledger, run_input.run)
        request = source.text.decode(errors="replace")
        for call in reversed(calls):
            if call.called.role != Role.COORDINATOR:
                continue
            output = await self._read_output(call)
            if output is None:
                return None
            with suppress(ValueError):
                return coordinator.parse_plan(
                    output, run_input.policy, run_input.ordered_lane, request
                )
        return None

    async def _plan_by_code(self, run_input: context.RunInput) -> None:
        request = await asyncio.to_thread(context.read_request, self._ledger, run_input.run)
        words = request.decode(errors="replace")
        policy = run_input.policy
        plan = plan_single_task(words, run_input.lane, policy.agents)
        step = kinds.SINGLE_ASK_STEP if Role.COORDINATOR in policy.roles else "plan/made"
        if policy.splits_questions:
            listed = plan_listed_asks(words, run_input.lane, policy.agents)
            plan, step = (listed, kinds.LISTED_ASKS_STEP) if listed else (plan, step)
        await self._record_plan(plan, (run_input.cause,), step)
        await self._fold_main(run_input.run)

    async def _record_plan(
        self, plan: Plan, causes: tuple[Hash, ...], step: str = "plan/made"
    ) -> None:
        body = Attachment("plan", BytesContent(write_plan(plan)), "application/json")
        await self._main.append_exclusive_async(
            Draft(
                step=step,
                actor=context.ENGINE,
                facts=kinds.PlanFacts(len(plan.tasks)),
                parents=causes,
                bodies=(body,),
            )
        )

    async def _fold_main(self, run: str) -> None:
        fold = partial(context.fold_new_entries, self._ledger, run, self._state, [MAIN_STRAND])
        self._state = await context.read_remembered(self._ledger, run, fold)

    async def _approve_plan(self, case: context.RunContext) -> context.RunContext | None:
        """Return the context once its plan may be carried out, or None while approval is pending.

        An edited plan is recorded as a plan of its own, caused by the decision.
        """
        run = case.run
        if "plan" not in case.policy.gates:
            return case
        decision = await gates.pass_gate(
            self._ledger, run, "plan", write_plan(case.plan), case.policy, case.plan_entry
        )
        if decision is None:
            # A run that is to end does not wait for approval: its tasks are skipped.
            return case if self._state.cancelled or self._is_past_deadline(case) else None
        if decision.answer is Answer.REJECT:
            await self._stop(case, kinds.StopFacts(kinds.StopReason.REJECTED, by="plan"))
        elif read_plan(decision.shown) != case.plan and self._state.stopped is None:
            plan = read_plan(decision.shown)
            await self._record_plan(plan, (decision.entry,), "plan/approved")
            case = await asyncio.to_thread(context.read_run_context, self._ledger, run)
        return case

    def _find_ending(self, run_input: context.RunInput) -> None:
        reply_source = self._find_reply_source(run_input)
        self._recorded_end = reply_source.recorded_end() if reply_source else None

    async def _run_tasks(self, case: context.RunContext) -> None:
        """Start tasks as they become ready, and return when none is running or ready."""
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
            start = (*steps.start, *await self._returned_children())
            if start:
                self._started.update(start)
                await self._start_tasks(case, start)
            if self._started:
                look = await self._wait_for_progress(case, look)
            elif not await self._replay_stop(case):
                return

    def _shares_tasks(self, case: context.RunContext) -> bool:
        return self._may_share and case.has_shared_tasks

    async def _start_tasks(self, case: context.RunContext, tasks: Sequence[str]) -> None:
        """Have tasks driven in this process, or by whichever worker claims them."""
        if not self._shares_tasks(case):
            self._start(tuple(tasks))
            return
        self._ledger.writer.share_tasks(case.run)
        self._listener.has_shared_tasks = True
        await asyncio.to_thread(self._ledger.store.set_timers, _shared_timers(case, tasks))

    async def _wait_for_progress(self, case: context.RunContext, look: float) -> float:
        """Wait for a signal or the poll interval, fold the news, and return the next interval."""
        wakeup = await self._listener.wait_for_signal(self._poll_timeout_s(case, look))
        self._local_runner.raise_failures()
        if wakeup:
            await self._fold_tasks(
                case, self._started if wakeup.anything else wakeup.tasks, others=wakeup.anything
            )
            # A worker leaves its task at a gate.  If the gate was decided before this fold, the
            # task looks as if it were still running, and only a later poll would start it again.
            left = self._started if self._shares_tasks(case) else wakeup.tasks
            self._started -= {name for name in left if self._has_passed_gate(name)}
            return _MIN_POLL_INTERVAL_S
        await self._fold_tasks(case, self._started)
        # Signals are best effort, and the workers of these tasks may have died.  Enqueue the tasks
        # again: the worker ignores those that are still running.
        started = tuple(sorted(self._started))
        if self._shares_tasks(case):
            await asyncio.to_thread(self._ledger.store.add_timers, _shared_timers(case, started))
        elif started:
            self._start(started)
        return min(2 * look, _MAX_POLL_INTERVAL_S)

    def _poll_timeout_s(self, case: context.RunContext, look: float) -> float:
        if case.deadline is None:
            return look
        left = (case.deadline - self._ledger.now()) / 1e6
        # Wake up just after the deadline, so that the run is stopped then.
        return max(0.05, min(look, left + 0.01)) if left > 0 else look

    async def _fold_tasks(
        self, case: context.RunContext, tasks: Iterable[str], *, others: bool = True
    ) -> None:
        """Fold new entries of these tasks and, with `others`, of `control` and expired gates.

        Tasks that have ended or wait are no longer counted as started.
        """
        names = tuple(tasks)
        policy = gates.with_operator_rules(case.policy, self._gate_rules)
        has_gates = bool(policy.gates or policy.tools or policy.gate_rules)
        fold = partial(self._fold_strands, case.run, names, others=others, has_gates=has_gates)
        if others or has_gates:  # clients append to these strands, so they are never remembered
            self._state = await asyncio.to_thread(fold)
        else:
            self._state = await context.read_remembered(self._ledger, case.run, fold)
        for name in names:
            state = self._task(name).state
            if state.is_end or state is run_fold.TaskState.WAITING:
                self._started.discard(name)

    def _has_passed_gate(self, task: str) -> bool:
        """Return whether a task that stopped at a gate may continue but has not."""
        left = self._task(task)
        if left.state not in (run_fold.TaskState.PENDING, run_fold.TaskState.RUNNING):
            return False
        subjects = [
            kinds.tool_gate_subject(task, len(left.uses) + 1),
            kinds.dissent_gate_subject(task),
        ]
        if left.state is run_fold.TaskState.PENDING:
            subjects.append(kinds.task_strand(task))
        return any(
            self._state.decision(kinds.gate_strand(subject)) is not None for subject in subjects
        )

    def _fold_strands(
        self, run: str, tasks: tuple[str, ...], *, others: bool, has_gates: bool
    ) -> run_fold.Run:
        strands = [kinds.task_strand(name) for name in tasks]
        if others:
            strands.append(kinds.CONTROL)
            self._expire_gates(run, self._state)
        if has_gates:
            strands += self._gate_strands(run)
        return context.fold_new_entries(self._ledger, run, self._state, strands)

    async def _returned_children(self) -> tuple[str, ...]:
        """Return the waiting tasks whose child runs have ended or were never started.

        A worker that died after it recorded the delegation may not have opened the child run.
        """
        waiting = {
            name: task.open_run
            for name, task in self._state.tasks.items()
            if task.open_run is not None and name not in self._started
            if self._task(name).state is run_fold.TaskState.WAITING
        }
        if not waiting:
            return ()
        return await asyncio.to_thread(self._find_returned, waiting)

    def _find_returned(self, waiting: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(
            name
            for name, child in waiting.items()
            if isinstance(context.read_last_facts(self._ledger, child), RunCloseFacts | None)
        )

    def _gate_strands(self, run: str) -> list[str]:
        """Return the strands of the run's gates."""
        return _only_gates(self._ledger.writer.strands(run))

    async def _stop_if_due(self, case: context.RunContext) -> None:
        """Stop the run if it was cancelled, is past its deadline, or a task hit a limit of the run.

        A replay stops as its record did, never by itself.
        """
        if (
            self._state.stopped is not None
            or self._state.answered is not None
            or self._recorded_end
        ):
            return
        if self._state.cancelled:
            self._signals.stop_run(case.run, cut=True)
            await self._stop(case, kinds.StopFacts(kinds.StopReason.CANCELLED))
            return
        for task in self._state.tasks.values():
            if task.stopped is not None and task.stopped.reason in _RUN_LIMITS:
                await self._stop(case, task.stopped)
                return
        if self._is_past_deadline(case) and not is_finished(case.plan, self._state):
            cap = case.accepted.milliseconds
            await self._stop(
                case,
                kinds.StopFacts(
                    reason=kinds.StopReason.DEADLINE,
                    limit="milliseconds",
                    asked=0,
                    used=cap,
                    cap=cap,
                ),
            )

    def _is_past_deadline(self, case: context.RunContext) -> bool:
        return case.deadline is not None and self._ledger.now() >= case.deadline

    async def _replay_stop(self, case: context.RunContext) -> bool:
        """Stop a replay once everything recorded before the stop was replayed.

        Return whether the run was stopped here.
        """
        ending = self._recorded_end
        if ending is None or ending.stopped is None or self._state.stopped is not None:
            return False
        if not ending.over or is_finished(case.plan, self._state):
            return False
        await self._stop(case, ending.stopped, ending.spent)
        return True

    async def _stop(
        self, case: context.RunContext, stopped: kinds.StopFacts, spent: bytes | None = None
    ) -> None:
        """Record the stop of the run, with the amounts spent by each agent, unless it is stopped.

        Running calls are not aborted, but no task starts anything new.
        """
        self._signals.stop_run(case.run, cut=False)
        if self._state.stopped is None:
            table = {
                agent or run_fold.UNNAMED_AGENT: spent
                for agent, spent in self._state.spent_by.items()
            }
            amounts = spent or msgspec.json.encode(table)
            body = Attachment("spent", BytesContent(amounts), "application/json")
            causes = [
                task.last
                for task in self._state.tasks.values()
                if task.last and task.stopped and task.id == stopped.by
            ]
            await self._main.append_exclusive_async(
                Draft(
                    step="stop",
                    actor=context.ENGINE,
                    facts=stopped,
                    parents=tuple(causes),
                    bodies=(body,),
                )
            )
            await self._fold_main(case.run)

    def _cancel_children(self) -> None:
        """Cancel the open child runs; each wakes this run when it has ended."""
        for task in self._state.tasks.values():
            if task.open_run is not None and not task.state.is_end:
                # NoSuchRun: the delegation is recorded, but the child run was never opened.
                with suppress(errors.RunAlreadyEnded, errors.NoSuchRun):
                    cancel_run(self._ledger, task.open_run, context.ENGINE)

    async def _skip(self, case: context.RunContext, task: str, skipped: kinds.SkipFacts) -> None:
        """Record that a task is skipped, with the entry that caused it."""
        skipped = self._recorded_end.skipped.get(task, skipped) if self._recorded_end else skipped
        cause = (
            self._state.tasks[skipped.cause].last if skipped.cause in self._state.tasks else None
        )
        strand = await asyncio.to_thread(
            self._ledger.open_strand, case.run, kinds.task_strand(task)
        )
        draft = Draft("skip", context.ENGINE, skipped, (cause or case.plan_entry,))
        if strand.length == 0:
            with suppress(
                errors.ConcurrentUpdate
            ):  # another driver has recorded something else there
                await self._block_gate(case, task)
                await strand.append_exclusive_async(draft)

    async def _block_gate(self, case: context.RunContext, task: str) -> None:
        """Occupy the first position of a skipped task's gate.

        A worker that was wrongly thought dead could otherwise still open the gate.
        """
        subject, reply_source = f"task/{task}", self._find_reply_source(case)
        policy = gates.with_operator_rules(case.policy, self._gate_rules)
        if policy.is_gated(case.plan.by_id[task]) or (
            reply_source and reply_source.has_gate(subject)
        ):
            gate = await asyncio.to_thread(
                self._ledger.open_strand_at_end, case.run, kinds.gate_strand(subject)
            )
            if gate.length == 0:
                moot = kinds.GateDecisionFacts(Answer.REJECT, "", kinds.Decider.END)
                await gate.append_exclusive_async(
                    Draft("decision", context.ENGINE, moot, (case.plan_entry,))
                )

    async def _finish(self, case: context.RunContext) -> bool:
        """Record the answer and close the run; return False while a role still has to finish."""
        conclusion = await self._assemble_conclusion(case)
        if conclusion is None:
            return False
        # First take the next position of every strand that clients can append to.  The close lists
        # the last positions of all strands, and an entry after it would fail verification.
        strands = await context.read_remembered(
            self._ledger, case.run, lambda: self._ledger.writer.strands(case.run)
        )
        if gate_strands := _only_gates(strands):
            await asyncio.to_thread(self._close_gates, case.run, gate_strands)
        is_open = not self._state.cancelled and kinds.CONTROL not in strands
        if self._state.answered is None and is_open:
            await self._finish_in_one_commit(case, conclusion)
            return True
        control = await asyncio.to_thread(self._ledger.open_strand, case.run, kinds.CONTROL)
        if control.length == 0:
            await control.append_exclusive_async(self._control_draft(case))
        elif not self._state.cancelled:  # the run was cancelled at the last moment: honor it
            await self._fold_tasks(case, ())
            await self._stop_if_due(case)
            conclusion = await self._assemble_conclusion(case) or conclusion
        if self._state.answered is None:
            drafts = await self._answer_drafts(case, conclusion)
            await self._main.append_exclusive_async(*drafts)
        await asyncio.to_thread(
            self._ledger.close_run,
            self._main,
            context.ENGINE,
            conclusion.outcome,
            self._closing_effects(case),
            parent=case.accepted.parent_run,
        )
        return True

    async def _finish_in_one_commit(self, case: context.RunContext, conclusion: Conclusion) -> None:
        """Close `control`, record the answer and close the run: all or nothing.

        Raises `PositionTaken` if the run was cancelled just now.
        """
        drafts = await self._answer_drafts(case, conclusion)
        commit = self._ledger.join_appends()
        control = self._ledger.new_strand(case.run, kinds.CONTROL)
        (closed,) = commit.add(control, self._control_draft(case))
        ends = await asyncio.to_thread(self._ledger.strand_ends, case.run)
        ends.append(StrandEnd(kinds.CONTROL, 0, closed.leaf.hex()))
        ends.sort(key=lambda end: end.strand)
        ended = EndedRun(case.run, case.accepted.parent_run, ends_sums=True)
        effects: tuple[Effect, ...] = (*self._closing_effects(case), ended)
        close = draft_closing(context.ENGINE, conclusion.outcome, ends, effects)
        commit.add(self._main, *drafts, close)
        await commit.commit_async()

    def _closing_effects(self, case: context.RunContext) -> tuple[Timer, ...]:
        """Return the timers to change in the commit of the close.

        So a crash can leave neither an open timer for a closed run nor a parent that is never
        woken.
        """
        alarms = [Timer(case.run, MAIN_STRAND, None)]
        if case.accepted.parent_run:
            alarms.append(due_now(case.accepted.parent_run, MAIN_STRAND, self._ledger.now()))
        if self._shares_tasks(case):
            # A worker that died may have left the timer of a task that it had ended.
            timers = _shared_timers(case, [task.id for task in case.plan.tasks])
            alarms += [timer._replace(at=None) for timer in timers]
        return tuple(alarms)

    async def _assemble_conclusion(self, case: context.RunContext) -> Conclusion | None:
        """Run the roles that contribute to the answer; return None while one of them waits."""
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

    async def _deliberate(self, case: context.RunContext) -> Conclusion:
        """Run the panel's session until it closes, and return its conclusion."""
        reply_source = self._find_reply_source(case)
        runner = SessionRunner(
            ledger=self._ledger,
            run_input=case,
            main=self._main,
            reply_source=reply_source,
            turn_registry=self._pending_turns,
            open_encoder=self._open_encoder,
        )
        closing = await runner.run_to_close(
            lambda names, cause: self._run_turns(case, names, cause)
        )
        await self._stop_as_recorded(case)
        if self._state.stopped:
            closing = msgspec.structs.replace(
                closing, outcome=run_fold.outcome_of_stop(self._state.stopped)
            )
        session = await asyncio.to_thread(read_session, self._ledger, case, reply_source)
        flags = await asyncio.to_thread(flag_session, session, closing)
        answer = text_content(closing.answer)
        return Conclusion(closing.outcome, answer, list(closing.causes), flags)

    async def _run_turns(
        self, case: context.RunContext, names: Sequence[str], cause: Hash
    ) -> run_fold.Run:
        """Run these turns concurrently, and return the state of the run afterwards."""
        stage = _stage_context(case, cause, *names)
        await self._run_tasks(stage)
        await self._check_for_stops(stage)
        if any(turn_status(self._task(name)) is TurnStatus.CUT for name in names):
            await self._stop_as_recorded(stage)
        return self._state

    async def _stop_as_recorded(self, case: context.RunContext) -> None:
        """Stop a replay if its record was stopped."""
        ending = self._recorded_end
        if ending and ending.stopped and self._state.stopped is None:
            await self._stop(case, ending.stopped, ending.spent)

    async def _finish_open_roles(self, case: context.RunContext) -> None:
        """Drive roles that have begun to their end, because their calls may still be open."""
        for name in [name for name in self._state.tasks if name.startswith(kinds.ROLE_PREFIX)]:
            if not self._task(name).state.is_end:
                await self._run_role_stage(case, case.plan_entry, name)

    async def _replay_stop_before_role(self, case: context.RunContext) -> None:
        """Stop a replay whose record was stopped, unless the next role had begun by then."""
        ending = self._recorded_end
        if ending and ending.stopped and self._state.stopped is None:
            step = await asyncio.to_thread(
                AnswerAssembler(self._ledger, case, self._state).next_step
            )
            if not isinstance(step, str) or step not in ending.roles:
                await self._stop_as_recorded(case)

    def _check_drafts(self, conclusion: Conclusion) -> list[Draft]:
        """Return the checks of the answer, except those that an earlier driver recorded."""
        drafts, recorded = [], len(self._state.checks)
        for number, (checked, text) in enumerate(conclusion.checks, 1):
            detail = Attachment("detail", BytesContent(text.encode(errors="replace")))
            causes, bodies = tuple(conclusion.causes[:1]), (detail,) if text else ()
            if number > recorded:
                drafts.append(
                    Draft(
                        step=f"check/{number}",
                        actor=context.ENGINE,
                        facts=checked,
                        parents=causes,
                        bodies=bodies,
                    )
                )
        return drafts

    async def _answer_drafts(self, case: context.RunContext, conclusion: Conclusion) -> list[Draft]:
        """Return the checks and the answer, with its claims and the entries that prove them."""
        claims = await asyncio.to_thread(self._find_claims, case, conclusion.answer)
        bodies = [Attachment("answer", conclusion.answer, "text/plain")]
        if claims:
            listed = BytesContent(msgspec.json.encode(claims))
            bodies.append(Attachment("claims", listed, "application/json"))
        parts = len(conclusion.causes)
        facts = kinds.AnswerFacts(conclusion.outcome, parts, len(claims), count_unverified(claims))
        leaves: dict[str, Hash] = {}
        if parts > MAX_PARENTS:  # a driver that died here may have recorded some of the joins
            leaves = await asyncio.to_thread(
                context.leaves_by_step, self._ledger, self._main.run, MAIN_STRAND
            )
        named = await context.join_causes(self._main, conclusion.causes, recorded=leaves)
        answer = Draft(
            step="answer",
            actor=context.ENGINE,
            facts=facts,
            parents=named,
            bodies=tuple(bodies),
        )
        return [*self._check_drafts(conclusion), answer]

    def _find_claims(self, case: context.RunContext, content: Content) -> tuple[ActionClaim, ...]:
        """Return the actions that the answer claims, with the run's effects that prove them."""
        answer = context.read_prefix(content.chunks(), MAX_READ_BYTES)
        # Receipts are read from the store, so only for an answer that claims something.
        if not self._find_in_text(answer, ()):
            return ()
        claims = self._find_in_text(answer, receipts_of(self._ledger, self._state))
        if case.policy.panel is None:
            return claims
        # A verifier of release 0.1.0 audits the claims of a session, and does not know this action:
        # it would report an honest answer as forged.
        return tuple(claim for claim in claims if claim.deed is not ClaimedAction.CHECKED)

    def _control_draft(self, case: context.RunContext) -> Draft:
        """Return the entry that closes `control` to cancellations, or replays the recorded one."""
        cause = (case.accepted_entry,)
        if self._recorded_end and self._recorded_end.cancelled_by:
            return Draft("cancel", self._recorded_end.cancelled_by, kinds.CancelFacts(), cause)
        return Draft("close", context.ENGINE, kinds.ControlCloseFacts(), cause)

    def _close_gates(self, run: str, strands: Sequence[str]) -> None:
        for gate in context.fold_new_entries(self._ledger, run, run_fold.Run(), strands).open_gates:
            gates.end_gate(self._ledger, run, gate.opened.subject, context.ENGINE)

    def _task(self, name: str) -> run_fold.TaskRun:
        return self._state.task(name)


def _stage_context(run_input: context.RunInput, cause: Hash, *tasks: str) -> context.RunContext:
    """Return a context whose whole plan is these tasks of roles or seats."""
    return run_input.with_plan(RolePlan(tuple(Task(task, task) for task in tasks)), cause)


def _only_gates(strands: Iterable[str]) -> list[str]:
    return [name for name in strands if name.startswith(kinds.gate_strand(""))]


def _shared_timers(case: context.RunContext, tasks: Sequence[str]) -> list[Timer]:
    """Return timers of shared tasks.

    They are due since the run began: its tasks come before runs that were accepted later.
    """
    keys = [shared_tasks.key_of(case.run, task) for task in tasks]
    return [due_now(key, MAIN_STRAND, case.begun) for key in keys]
