"""Child runs: a task with its own plan or panel is carried out by a run of its own.

The parent reserves an allotment for the child run; what the child does not spend is returned when
the reply is settled.  The child wakes its parent when it ends; no process waits for it meanwhile.
"""

from contextlib import suppress
from hashlib import sha256

import msgspec

from forum.engine.accept import RunRequest, accept_run
from forum.engine.context import RunContext, open_body, read_run
from forum.engine.ports import EMPTY_CONTENT, NO_COST, CallReply
from forum.errors import BodyGone
from forum.ledger.body import BytesContent, Content
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import NO_LIMIT, Amount, BudgetAccount
from forum.work import kinds
from forum.work.plan import Plan, RunBudget, Task
from forum.work.policy import Policy
from forum.work.run_fold import Run, inner_stop_reason, stop_reason

_WHYS: dict[kinds.StopReason | None, kinds.Why] = {
    kinds.StopReason.DEADLINE: kinds.Why.DEADLINE,
    kinds.StopReason.CANCELLED: kinds.Why.CANCELLED,
}


def allot_budget(
    run: str, task: Task, account: BudgetAccount | None, sharers: int
) -> kinds.DelegationFacts:
    """Return the id and the allotment of the child run of a task.

    A task without a budget of its own gets an equal share of what is left in the parent's account,
    so that the other unfinished tasks keep theirs.
    """
    cap, used = account or BudgetAccount(NO_COST, NO_COST)
    members = (
        limit if whole == NO_LIMIT else _share_of(limit, max(0, whole - spent), sharers)
        for limit, whole, spent in zip(task.budget.cap, cap, used, strict=True)
    )
    return kinds.DelegationFacts(_child_run_id(run, task.id), *members)


def _share_of(limit: int, left: int, sharers: int) -> int:
    return min(limit, left) if limit != NO_LIMIT else left // max(1, sharers)


def reservation_of(delegated: kinds.DelegationFacts) -> Amount:
    """Return the amount that the parent reserves; an unlimited member is charged when settled."""
    return Amount(*(0 if most == NO_LIMIT else most for most in delegated.allotment))


def start_child_run(
    ledger: Ledger, case: RunContext, task: Task, delegated: kinds.DelegationFacts, prompt: str
) -> None:
    """Accept the child run that carries out a task's plan or panel, unless it exists already."""
    if ledger.store.strands(delegated.run):
        return
    plan = Plan(task.tasks) if task.tasks else None
    left = NO_LIMIT
    if case.deadline is not None:
        left = max(0, (case.deadline - ledger.now()) // 1000)
    budget = RunBudget(
        *delegated.allotment, min(left, task.budget.milliseconds), case.accepted.depth - 1
    )
    origin = kinds.AcceptedFacts(parent_run=case.run, parent_task=task.id)
    order = RunRequest(prompt, plan, _child_policy(case.policy, task, prompt), budget)
    accept_run(ledger, delegated.run, order, kinds.CHILD_RUN, origin)


def read_child_reply(ledger: Ledger, delegated: kinds.DelegationFacts) -> CallReply | None:
    """Return the answer of a child run as a reply, or None while it has not ended."""
    state = read_run(ledger, delegated.run)
    if state.outcome is None:
        return None
    account = ledger.store.account(delegated.run)
    output = open_body(ledger, state.answer_at, "answer") if state.answer_at else EMPTY_CONTENT
    # The parent's client must learn that a cap was reached, however deeply runs are nested.
    reason = None if state.outcome is Outcome.OK else stop_reason(state)
    why = kinds.Why.NONE if state.outcome is Outcome.OK else _WHYS.get(reason, kinds.Why.ERROR)
    return CallReply(
        state.outcome,
        output,
        account.used if account else NO_COST,
        (state.ended - state.begun) // 1000,
        why=why,
        code=reason.value if reason else "",
        error=_stop_of(ledger, state) if reason else EMPTY_CONTENT,
        model=models_in_run(state),
    )


def _stop_of(ledger: Ledger, state: Run) -> Content:
    """Return the stop facts of a run, or those of the child run that made it fail."""
    if state.stopped is not None:
        return BytesContent(msgspec.json.encode(state.stopped))
    stopped = (task for task in state.tasks.values() if inner_stop_reason(task))
    call = next(stopped).result
    with suppress(BodyGone):
        if call and call.reply_at:
            return open_body(ledger, call.reply_at, "error")
    return EMPTY_CONTENT


def models_in_run(run: Run) -> str:
    """Return the names of all models that produced results in a run, separated by commas.

    The independence check compares them with the judge of the run's answer.
    """
    calls = (call for task in run.tasks.values() for call in task.calls if not call.called.role)
    named = {(call.replied.model if call.replied else "") or call.called.model for call in calls}
    return ",".join(sorted(named))


def _child_policy(policy: Policy, task: Task, prompt: str) -> Policy:
    if task.panel is not None:
        return policy.for_child_run(()).for_panel(task.panel, prompt)
    names = Plan(task.tasks).names
    gates = tuple(
        gate
        for gate in policy.gates
        if gate == "tasks" or (gate.startswith("task:") and gate[5:] in names)
    )
    return policy.for_child_run(gates)


def _child_run_id(run: str, task: str) -> str:
    """Return the id of a child run, which sorts right after its parent's.

    The id depends on parent and task only, so two workers that both open the child open one run.
    """
    # Laid out as a UUID: version 8 (custom) and variant `a` (RFC 9562).
    digest = sha256(f"{run}/{task}".encode()).hexdigest()
    return f"{run[:13]}-8{digest[:3]}-a{digest[3:6]}-{digest[6:18]}"
