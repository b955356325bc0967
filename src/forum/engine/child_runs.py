"""Child runs: a task with its own plan or panel is carried out by a run of its own.

The parent reserves an allotment for the child run; what the child does not spend is returned when
the reply is settled.  The child wakes its parent when it ends; no process waits for it meanwhile.
"""

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice

import msgspec

from forum.engine.accept import RunRequest, accept_run
from forum.engine.context import RunContext, open_body, position_of, read_body, read_run
from forum.engine.ports import EMPTY_CONTENT, NO_COST, CallReply
from forum.errors import BodyGone, Malformed
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import NO_LIMIT, Amount, BudgetAccount
from forum.runs import kinds
from forum.runs.panel import Panel, Symposium
from forum.runs.panel_protocol import PanelRecord, find_protocol
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import DISSENT_GATE, Policy
from forum.runs.run_fold import Run, inner_stop_reason, stop_reason

_WHYS: dict[kinds.StopReason | None, kinds.Why] = {
    kinds.StopReason.DEADLINE: kinds.Why.DEADLINE,
    kinds.StopReason.CANCELLED: kinds.Why.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Delegation:
    """A call of a task that a run of its own answers."""

    task: Task
    panel: Panel | None
    """The panel that deliberates; None: the plan within the task is carried out."""
    step: str
    """The step of the entry that names the child run."""
    call_step: str


@dataclass(frozen=True, slots=True)
class PanelFindings:
    """How far a panel agreed, and what it found."""

    facts: kinds.AccordFacts
    text: Content


def allot_budget(
    run: str,
    delegation: Delegation,
    account: BudgetAccount | None,
    sharers: int,
    before: Amount = NO_COST,
) -> kinds.DelegationFacts:
    """Return the id and the allotment of a child run.

    A task without a budget of its own gets an equal share of what is left in the parent's account,
    so that the other unfinished tasks keep theirs. `before` is what earlier child runs of the task
    have spent of its budget.
    """
    task = delegation.task
    cap, used = account or BudgetAccount(NO_COST, NO_COST)
    members = (
        limit if whole == NO_LIMIT else _share_of(limit, max(0, whole - spent), sharers)
        for limit, whole, spent in zip(_remainder(task, before), cap, used, strict=True)
    )
    # The first child run of a task has the id that earlier releases gave it.
    name = task.id if delegation.step == FIRST_STEP else f"{task.id}/{delegation.call_step}"
    return kinds.DelegationFacts(_child_run_id(run, name), *members)


FIRST_STEP = "delegate"
"""The step that names the first child run of a task."""


def _remainder(task: Task, before: Amount) -> Amount:
    return Amount(
        *(
            limit if limit == NO_LIMIT else max(0, limit - spent)
            for limit, spent in zip(task.budget.cap, before, strict=True)
        )
    )


def _share_of(limit: int, left: int, sharers: int) -> int:
    return min(limit, left) if limit != NO_LIMIT else left // max(1, sharers)


def reservation_of(delegated: kinds.DelegationFacts) -> Amount:
    """Return the amount that the parent reserves; an unlimited member is charged when settled."""
    return Amount(*(0 if most == NO_LIMIT else most for most in delegated.allotment))


def start_child_run(
    ledger: Ledger,
    case: RunContext,
    delegation: Delegation,
    delegated: kinds.DelegationFacts,
    prompt: str,
) -> None:
    """Accept the child run that carries out a plan or a panel, unless it exists already."""
    if ledger.store.strands(delegated.run):
        return
    task, panel = delegation.task, delegation.panel
    plan = Plan(task.tasks) if panel is None else None
    left = NO_LIMIT
    if case.deadline is not None:
        left = max(0, (case.deadline - ledger.now()) // 1000)
    budget = RunBudget(
        *delegated.allotment, min(left, task.budget.milliseconds), case.accepted.depth - 1
    )
    if isinstance(panel, Symposium):
        # A session of its own: its id names no other run, and its calls reserve from its own caps.
        panel = msgspec.structs.replace(panel, config={**panel.config, "session_id": delegated.run})
        budget = budget.capped_by(find_protocol(ledger.kinds, panel).budget_of(panel))
    origin = kinds.AcceptedFacts(parent_run=case.run, parent_task=task.id)
    request = RunRequest(prompt, plan, _child_policy(case.policy, task, panel, prompt), budget)
    accept_run(ledger, delegated.run, request, kinds.CHILD_RUN, origin=origin)


def is_child_of(ledger: Ledger, child: str, run: str, task: str) -> bool:
    """Return whether a run was accepted for this task of this run.

    The id of a child run can be foreseen.  A run with that id that names no parent, or another one,
    is the work of somebody else, and none of its answers counts.
    """
    return any(
        isinstance(entry.facts, kinds.AcceptedFacts)
        and (entry.facts.parent_run, entry.facts.parent_task) == (run, task)
        for _, entry in islice(ledger.writer.read_entries(child, MAIN_STRAND), 2)
    )


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


def read_findings(ledger: Ledger, run: str) -> PanelFindings | None:
    """Return what the panel of a child run came to, or None if it has no answer.

    An erased message of a symposium leaves its accord unknown, and the task is not accepted.
    """
    session = PanelRecord(
        run,
        ledger.kinds,
        ledger.writer.read_entries(run, MAIN_STRAND),
        lambda recorded, name: read_body(ledger, position_of(recorded), name),
    )
    try:
        facts = session.read_accord()
    except (BodyGone, Malformed):  # a mask of secrets may have broken a message
        return None
    if facts is None:
        return None
    text = EMPTY_CONTENT
    with suppress(BodyGone):
        text = text_content(session.read_text())
    return PanelFindings(facts, text)


def _child_policy(policy: Policy, task: Task, panel: Panel | None, prompt: str) -> Policy:
    if panel is not None:
        return policy.for_child_run(()).for_panel(panel, prompt)
    plan = Plan(task.tasks)
    has_panel = policy.has_panel(plan.all_tasks)
    gates = tuple(
        gate
        for gate in policy.gates
        if gate == "tasks"
        or (gate.startswith("task:") and gate[5:] in plan.names)
        or (gate == DISSENT_GATE and has_panel)
    )
    return policy.for_child_run(gates)


def _child_run_id(run: str, task: str) -> str:
    """Return the id of a child run, which sorts right after its parent's.

    The id depends on parent and task only, so two workers that both open the child open one run.
    """
    # Laid out as a UUID: version 8 (custom) and variant `a` (RFC 9562).
    digest = sha256(f"{run}/{task}".encode()).hexdigest()
    return f"{run[:13]}-8{digest[:3]}-a{digest[3:6]}-{digest[6:18]}"
