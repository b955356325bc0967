"""Call child runs: a task, or a role that a panel plays, asks a run of its own and waits for it.

Such a call is recorded like that of a model: the allotment of the child run is the reservation, its
answer the reply.  What a panel found is recorded in the commit of the reply.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from forum.engine import child_runs, context, model_calls
from forum.engine.interruption import follow_parent
from forum.engine.ports import EMPTY_CONTENT, CallReply, ModelCall, TaskHalted
from forum.errors import BodyGone, StepMismatch
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.log import read_strand_entries
from forum.ledger.ports import Amount, BudgetAccount, BudgetCharge
from forum.ledger.strand import Attachment, Draft, RecordedEntry
from forum.runs import kinds
from forum.runs.judging import Judgement, judge_by_panel
from forum.runs.panel import Panel, as_judge
from forum.runs.plan import Task
from forum.runs.policy import Role
from forum.runs.prompt import Prompt
from forum.runs.run_fold import sum_amounts
from forum.runs.schedule import unfinished_tasks
from forum.tlog import Hash


@dataclass(frozen=True, slots=True)
class ChildCall:
    """What a child run is asked, by whom, and in which role."""

    prompt: Prompt
    panel: Panel | None
    """The panel that deliberates; None: the plan within the task is carried out."""
    causes: tuple[Hash, ...] = ()
    role: str = ""
    """The role that the panel plays; empty for the task's own work."""


@dataclass(frozen=True, slots=True)
class PanelDecision:
    """What a panel decided that judges, why, and the call by which it was asked."""

    judgement: Judgement
    why: str
    call_result: model_calls.CallResult


_MAX_FINDINGS_BYTES = 4000
"""How much of what a judging panel found is told to the author of the result."""


class ChildRunCaller:
    """Calls the child runs of one task or role."""

    def __init__(
        self, caller: model_calls.ModelCaller, case: context.RunContext, task: Task
    ) -> None:
        """Take the task; that of a role has nothing but its name."""
        self._caller, self._case = caller, case
        self._task = task
        self._ledger, self._policy = caller.ledger, caller.policy
        self._reply_source = caller.reply_source

    async def call(
        self, turns: model_calls.StepNames, spec: ChildCall
    ) -> tuple[model_calls.CallResult, child_runs.PanelFindings | None]:
        """Have a child run answer a prompt; return the reply, and what a panel found.

        Raises `TaskSuspended` until the child run has ended.
        """
        strand = self._caller.strand
        call_step, reply_step = turns.next_call()
        own = self._task.is_delegated and turns.attempt == 1 and not spec.role
        step = child_runs.FIRST_STEP if own else f"{call_step}/delegate"
        delegation = child_runs.Delegation(self._task, spec.panel, step, call_step)
        named, call = strand.replay_step(step), None
        if named is None:
            named, _ = await self._reserve_allotment(delegation, turns, spec)
        else:
            call = strand.replay_step(call_step)
        recorded = strand.replay_step(reply_step)
        if recorded is not None and call is not None:
            result = self._caller.read_recorded_call(call, recorded)
            findings = self._read_recorded_findings(f"{call_step}/accord")
        else:
            delegated: kinds.DelegationFacts = named.entry.facts
            amount = child_runs.reservation_of(delegated)
            reply, is_recorded = await asyncio.to_thread(
                self._child_reply, delegation, delegated, spec.prompt.text, reply_step
            )
            result = self._caller.settle_reply(
                reply_step, _call_facts(turns, spec.role, amount), amount, reply
            )
            findings = None
            if reply.outcome is Outcome.OK and spec.panel and self._policy.counts_accord:
                findings = await asyncio.to_thread(
                    self._find_findings, delegation, delegated, spec.role, is_recorded=is_recorded
                )
            if findings is not None:
                # In the commit of the reply: a crash leaves neither without the other.
                result = replace(
                    result, unrecorded=(*result.unrecorded, _accord_draft(call_step, findings))
                )
        self._caller.count_reply(result, spec.role)
        return result, findings

    async def ask_judge(
        self,
        turns: model_calls.StepNames,
        name: str,
        role: Role,
        prompt: Prompt,
        causes: tuple[Hash, ...] = (),
    ) -> "PanelDecision":
        """Have a panel accept or reject the work of others, in a role.

        The caller records the reply. Raises `TaskSuspended` until the panel has closed.
        """
        panel = self._policy.judging_panel(name)
        spec = ChildCall(prompt, as_judge(panel), causes, role.value)
        result, findings = await self.call(turns, spec)
        accord = findings.facts.accord if findings else None
        judgement = judge_by_panel(accord, panel.require, result.replied.outcome, result.output)
        why = f"The panel {name} did not decide: {judgement.reason}."
        if findings is not None:
            text = context.read_prefix(findings.text.chunks(), _MAX_FINDINGS_BYTES)
            why = text.decode(errors="replace") or why
        return PanelDecision(judgement, why, result)

    def _read_recorded_findings(self, step: str) -> child_runs.PanelFindings | None:
        recorded = None
        with suppress(StepMismatch):  # the run within failed, or is older than accords
            recorded = self._caller.strand.replay_step(step)
        if recorded is None:
            return None
        text: Content = EMPTY_CONTENT
        with suppress(BodyGone):
            text = context.open_body(self._ledger, context.position_of(recorded), kinds.FINDINGS)
        return child_runs.PanelFindings(recorded.entry.facts, text)

    def _find_findings(
        self,
        delegation: child_runs.Delegation,
        delegated: kinds.DelegationFacts,
        role: str,
        *,
        is_recorded: bool,
    ) -> child_runs.PanelFindings | None:
        """Return what the panel of a child run found.

        Of a recorded reply it is what the record says: that panel sat in another run.
        """
        recorded = None
        if is_recorded and self._reply_source is not None:
            recorded = self._reply_source.find_accord(
                self._task.id, f"{delegation.call_step}/accord"
            )
        findings = (
            child_runs.PanelFindings(*recorded)
            if recorded is not None
            else child_runs.read_findings(self._ledger, delegated.run)
        )
        if findings is None:
            return None
        return replace(findings, facts=msgspec.structs.replace(findings.facts, role=role))

    async def _reserve_allotment(
        self, delegation: child_runs.Delegation, turns: model_calls.StepNames, spec: ChildCall
    ) -> tuple[RecordedEntry, RecordedEntry]:
        """Reserve the budget of the child run, and record its id in the same commit.

        The id and the allotment are recorded before the child run is opened, so a worker that takes
        over opens the same run.  Raises `TaskHalted` if depth or budget do not allow it.
        """
        source = self._reply_source
        recorded = source.allotment(self._task.id, delegation.step) if source else None
        if recorded is None:
            self._caller.check_limits()
        if self._case.accepted.depth == 0:
            raise TaskHalted(
                kinds.StopFacts(
                    reason=kinds.StopReason.DEPTH,
                    limit="depth",
                    asked=1,
                    used=0,
                    cap=0,
                    by=self._task.id,
                )
            )
        while True:
            remaining = await asyncio.to_thread(self._remaining_budget)
            delegated = recorded or child_runs.allot_budget(self._case.run, delegation, *remaining)
            amount = child_runs.reservation_of(delegated)
            facts = _call_facts(turns, spec.role, amount)
            naming = Draft(delegation.step, context.ENGINE, delegated, spec.causes)
            charge = BudgetCharge(self._case.run, amount, guarded=recorded is None)
            ask = model_calls.CallSpec(kinds.CHILD_RUN, spec.prompt)
            try:
                named, call = await self._caller.reserve_and_record(
                    delegation.call_step, facts, ask, charge, naming
                )
            except TaskHalted:
                # Other tasks spend meanwhile: the remaining budget may have shrunk since we read
                # it.  Try again with the new remainder; give up only if it has not changed.
                if remaining == await asyncio.to_thread(self._remaining_budget):
                    raise
            else:
                return named, call

    def _remaining_budget(self) -> tuple[BudgetAccount | None, int, Amount]:
        """Return what is left to share.

        That is the run's account, the number of tasks that share what is left of it, and what
        earlier child runs of this task have spent.
        """
        state, store = context.read_run(self._ledger, self._case.run), self._ledger.store
        sharers = sum(1 for _ in unfinished_tasks(self._case.plan, state))
        strand = read_strand_entries(self._ledger, self._case.run, kinds.task_strand(self._task.id))
        children = (e.facts.run for _, e in strand if isinstance(e.facts, kinds.DelegationFacts))
        spent = sum_amounts(account.used for run in children if (account := store.account(run)))
        return store.account(self._case.run), sharers, spent

    def _child_reply(
        self,
        delegation: child_runs.Delegation,
        delegated: kinds.DelegationFacts,
        prompt: bytes,
        step: str,
    ) -> tuple[CallReply, bool]:
        """Return the child run's answer as a reply, and whether it is a recorded one.

        Opens the run first if needed. Raises `TaskSuspended` while the child run is open, and
        `ConcurrentUpdate` where the parent was interrupted or this worker shuts down.
        """
        if self._reply_source is not None:
            call = ModelCall(
                run=self._case.run,
                task=self._task.id,
                step=step,
                number=1,
                prompt=BytesContent(prompt),
                seconds=0.0,
            )
            recorded = self._reply_source.find_reply(call)
            if recorded is not None:
                return recorded.reply, True
        self._caller.check_left()
        stopped = self._caller.cancel_token.stop_requested.is_set()
        # A child run that is already open (it has strands) has spent money, which only its end
        # settles; so it is waited for.
        if stopped and not self._ledger.store.strands(delegated.run):
            return CallReply(Outcome.CANCELLED, why=kinds.Why.CANCELLED), False
        request = prompt.decode(errors="replace")  # quoted results may be binary or cut mid-char
        case = replace(self._case, policy=self._policy)
        child_runs.start_child_run(self._ledger, case, delegation, delegated, prompt=request)
        if not child_runs.is_child_of(
            self._ledger, delegated.run, self._case.run, delegation.task.id
        ):
            error = f"run {delegated.run} was not accepted for this task: its id was taken"
            foreign = CallReply(
                Outcome.FAILED, why=kinds.Why.ERROR, code="id-taken", error=text_content(error)
            )
            return foreign, False
        # The parent may have been interrupted while the child run was opened.
        follow_parent(self._ledger, self._case.run, delegated.run)
        reply = child_runs.read_child_reply(self._ledger, delegated)
        if reply is None:
            raise model_calls.TaskSuspended
        return reply, False


def _call_facts(turns: model_calls.StepNames, role: str, amount: Amount) -> kinds.CallFacts:
    return kinds.CallFacts(
        agent=kinds.CHILD_RUN,
        model=kinds.CHILD_RUN,
        attempt=turns.attempt,
        turn=turns.calls,
        usd=amount.usd,
        tokens=amount.tokens,
        role=role,
        calls=amount.calls,
    )


def _accord_draft(call_step: str, findings: child_runs.PanelFindings) -> Draft:
    body = Attachment(kinds.FINDINGS, findings.text, "text/plain")
    bodies = (body,) if findings.text.size else ()
    return Draft(f"{call_step}/accord", context.ENGINE, findings.facts, bodies=bodies)
