"""Taking a request on, and asking a run to end: what anybody may do who can write the ledger."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

from forum.engine.interrupting import resume
from forum.errors import AlreadyAsked, NoSuchRun, Overtaken, RunEnded
from forum.ledger import (
    MAIN,
    Attachment,
    Bytes,
    Draft,
    Effect,
    Ledger,
    Once,
    OpenAccount,
    RunClose,
    SliceCharge,
    at_once,
    entries_of,
    text,
)
from forum.tlog import Checkpoint, Hash
from forum.work import (
    CONTROL,
    Accepted,
    Budget,
    CancelAsked,
    ControlClosed,
    Plan,
    Planned,
    Policy,
    Role,
    Routed,
    one_task,
    read_plan,
    read_policy,
    write_plan,
    write_policy,
)

PLAN = "plan"
"""The step of a plan that came with the request."""


@dataclass(frozen=True, slots=True)
class RouteTaken:
    """The lane that a request was given when it was taken on, and why."""

    facts: Routed
    evidence: bytes = b""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The name under which a client asks, so that asking again is harmless."""

    name: str
    digest: str
    """Of what is asked for: the same name for something else is a mistake."""


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants done; without a plan, one is made."""

    request: str
    plan: Plan | None = None
    policy: Policy = field(default_factory=Policy)
    budget: Budget = field(default_factory=Budget)
    route: RouteTaken | None = None

    @property
    def lanes(self) -> frozenset[str]:
        """The lanes that it is known to be for."""
        tasks = self.plan.all_tasks if self.plan else ()
        routed = {self.route.facts.lane} if self.route else set()
        return frozenset({task.lane for task in tasks} | routed)


def accept(  # noqa: PLR0913  the last three have a default
    ledger: Ledger,
    run: str,
    order: Order,
    actor: str,
    origin: Accepted | None = None,
    ticket: Ticket | None = None,
    *,
    charges: tuple[SliceCharge, ...] = (),
) -> str:
    """Take a request on: when this returns, the run will be carried out, whatever happens.

    Request, policy, route, plan, account and the alarm that has it begun are one commit.  What was
    asked for with the same ticket before is not taken on again: that run is returned, or
    `AlreadyAsked` raised if it was something else.  Raises `SliceSpent` where a charge is refused.
    """
    drafts = _beginning(ledger, run, order, actor, origin or Accepted(), ticket, charges)
    try:
        ledger.open_run(run, actor, *drafts, new=True)
    except AlreadyAsked as asked:
        return _the_same(ledger, asked, ticket)
    return run


async def accept_async(  # noqa: PLR0913  the last two have a default
    ledger: Ledger,
    run: str,
    order: Order,
    actor: str,
    past: Checkpoint | None,
    ticket: Ticket | None = None,
    *,
    charges: tuple[SliceCharge, ...] = (),
) -> str:
    """Do the same for a task that knows a checkpoint and must not wait for the store to read."""
    drafts = _beginning(ledger, run, order, actor, Accepted(), ticket, charges)
    try:
        await ledger.open_new_run_async(run, actor, past, *drafts)
    except AlreadyAsked as asked:
        return _the_same(ledger, asked, ticket)
    return run


def _the_same(ledger: Ledger, asked: AlreadyAsked, ticket: Ticket | None) -> str:
    if ticket is None or asked.digest != ticket.digest:
        raise asked
    ledger.check_asked(ticket.name, asked)
    return asked.run


def _beginning(  # noqa: PLR0913, PLR0917  all that the first commit of a run says
    ledger: Ledger,
    run: str,
    order: Order,
    actor: str,
    origin: Accepted,
    ticket: Ticket | None,
    charges: tuple[SliceCharge, ...],
) -> list[Draft]:
    """Return the first steps of a run."""
    order = _as_recorded(ledger, order)
    order.policy.check(order.plan or _plain_plan(order))
    budget = order.budget
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
    effects: tuple[Effect, ...] = (
        OpenAccount(run, budget.cap),
        at_once(run, MAIN, ledger.now()),
        *charges,
    )
    if ticket is not None:
        effects += (Once(ticket.name, run, ticket.digest),)
    drafts = [Draft("accepted", actor, facts, (), (request, policy), effects)]
    if order.route is not None:
        evidence = Attachment("evidence", Bytes(order.route.evidence), "application/json")
        bodies = (evidence,) if order.route.evidence else ()
        drafts.append(Draft("route", actor, order.route.facts, (), bodies))
    if order.plan is not None:
        plan = Attachment("plan", Bytes(write_plan(order.plan)), "application/json")
        drafts.append(Draft(PLAN, actor, Planned(len(order.plan.tasks)), (), (plan,)))
    return drafts


def _plain_plan(order: Order) -> Plan | None:
    """Return the plan that will be made, where nobody is there to divide the request."""
    if Role.COORDINATOR in order.policy.roles or order.policy.panel is not None:
        return None
    return one_task(order.request, order.route.facts.lane if order.route else "")


def _as_recorded(ledger: Ledger, order: Order) -> Order:
    """Return an order as it will be read again: a plan may be none once its secrets are masked."""
    if not ledger.mask:
        return order
    plan = order.plan and read_plan(_masked(ledger, write_plan(order.plan)))
    policy = read_policy(_masked(ledger, write_policy(order.policy)))
    return replace(order, plan=plan, policy=policy)


def _masked(ledger: Ledger, data: bytes) -> bytes:
    return b"".join(ledger.mask.content(Bytes(data)).chunks())


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
            # Nobody would bring an interrupted run to its end.
            resume(ledger, run, actor)
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
