"""Taking a request on, and asking a run to end: what anybody may do who can write the ledger."""

from contextlib import suppress
from dataclasses import dataclass, field

from forum.engine.case import entries_of
from forum.errors import NoSuchRun, Overtaken, RunEnded
from forum.ledger import (
    MAIN,
    Attachment,
    Bytes,
    Draft,
    Ledger,
    OpenAccount,
    RunClose,
    at_once,
    text,
)
from forum.tlog import Hash
from forum.work import (
    CONTROL,
    Accepted,
    Budget,
    CancelAsked,
    ControlClosed,
    Plan,
    Planned,
    Policy,
    write_plan,
    write_policy,
)


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants done."""

    request: str
    plan: Plan
    policy: Policy = field(default_factory=Policy)
    budget: Budget = field(default_factory=Budget)


def accept(
    ledger: Ledger, run: str, order: Order, actor: str, origin: Accepted | None = None
) -> None:
    """Take a request on: when this returns, the run will be carried out, whatever happens.

    Request, policy, plan, account and the alarm that has it begun are one commit.
    """
    order.policy.check(order.plan)
    budget, origin = order.budget, origin or Accepted()
    facts = Accepted(
        budget.usd,
        budget.tokens,
        budget.calls,
        budget.milliseconds,
        budget.depth,
        origin.parent_run,
        origin.parent_task,
        origin.fork_run,
        origin.fork_index,
    )
    request = Attachment("request", text(order.request))
    policy = Attachment("policy", Bytes(write_policy(order.policy)), "application/json")
    plan = Attachment("plan", Bytes(write_plan(order.plan)), "application/json")
    effects = (OpenAccount(run, budget.cap), at_once(run, MAIN, ledger.now()))
    ledger.open_run(
        run,
        actor,
        Draft("accepted", actor, facts, (), (request, policy), effects),
        Draft("plan", actor, Planned(len(order.plan.tasks)), (), (plan,)),
    )


def cancel(ledger: Ledger, run: str, actor: str) -> None:
    """Ask a run to end.  Its calls are ended wherever they are made.

    Where somebody has asked already, that holds; where it has ended, `RunEnded` is raised.
    """
    control = ledger.end_of(run, CONTROL)
    cause = _accepted(ledger, run)
    effects = (at_once(run, MAIN, ledger.now()),)
    draft = Draft("cancel", actor, CancelAsked(), (cause,), effects=effects)
    if control.length == 0:
        with suppress(Overtaken):
            control.claim(draft)
            return
    ends = (ledger.store.last(run, strand) for strand in (CONTROL, MAIN))
    if any(
        isinstance(ledger.kinds.read(end).facts, ControlClosed | RunClose) for end in ends if end
    ):
        raise RunEnded(run)


def _accepted(ledger: Ledger, run: str) -> Hash:
    for leaf, entry in entries_of(ledger, run, MAIN):
        if isinstance(entry.facts, Accepted):
            return leaf
    raise NoSuchRun(run)
