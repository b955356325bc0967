"""Taking a request on, and asking a run to end: what anybody may do who can write the ledger."""

from contextlib import suppress
from dataclasses import dataclass, field, replace

from forum.engine.interruption import resume_run
from forum.errors import ConcurrentUpdate, IdempotencyKeyUsed, NoSuchRun, RunAlreadyEnded
from forum.ledger import (
    MAIN_STRAND,
    Attachment,
    BudgetSliceCharge,
    BytesContent,
    Draft,
    Effect,
    IdempotencyRecord,
    Ledger,
    OpenBudgetAccount,
    RunCloseFacts,
    due_now,
    read_strand_entries,
    text_content,
)
from forum.tlog import Checkpoint, Hash
from forum.work import (
    CONTROL,
    AcceptedFacts,
    CancelFacts,
    ControlCloseFacts,
    Plan,
    PlanFacts,
    Policy,
    Role,
    RouteFacts,
    RunBudget,
    read_plan,
    read_policy,
    single_task_plan,
    write_plan,
    write_policy,
)

PLAN_STEP = "plan"
"""The step of a plan that came with the request."""


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """The lane that a request was given when it was taken on, and why."""

    facts: RouteFacts
    evidence: bytes = b""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The name under which a client asks, so that asking again is harmless."""

    name: str
    digest: str
    """Of what is asked for: the same name for something else is a mistake."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What somebody wants done; without a plan, one is made."""

    request: str
    plan: Plan | None = None
    policy: Policy = field(default_factory=Policy)
    budget: RunBudget = field(default_factory=RunBudget)
    route: RouteDecision | None = None

    @property
    def lanes(self) -> frozenset[str]:
        """The lanes that it is known to be for."""
        tasks = self.plan.all_tasks if self.plan else ()
        routed = {self.route.facts.lane} if self.route else set()
        return frozenset({task.lane for task in tasks} | routed)


def accept_run(  # noqa: PLR0913  the last three have a default
    ledger: Ledger,
    run: str,
    order: RunRequest,
    actor: str,
    origin: AcceptedFacts | None = None,
    ticket: IdempotencyKey | None = None,
    *,
    charges: tuple[BudgetSliceCharge, ...] = (),
) -> str:
    """Take a request on: when this returns, the run will be carried out, whatever happens.

    Request, policy, route, plan, account and the alarm that has it begun are one commit.  What was
    asked for with the same ticket before is not taken on again: that run is returned, or
    `IdempotencyKeyUsed` raised if it was something else.  Raises `BudgetSliceExhausted` where a
    charge is refused.
    """
    drafts = _opening_drafts(ledger, run, order, actor, origin or AcceptedFacts(), ticket, charges)
    try:
        ledger.open_run(run, actor, *drafts, new=True)
    except IdempotencyKeyUsed as asked:
        return _existing_run(ledger, asked, ticket)
    return run


async def accept_run_async(  # noqa: PLR0913  the last two have a default
    ledger: Ledger,
    run: str,
    order: RunRequest,
    actor: str,
    past: Checkpoint | None,
    ticket: IdempotencyKey | None = None,
    *,
    charges: tuple[BudgetSliceCharge, ...] = (),
) -> str:
    """Do the same for a task that knows a checkpoint and must not wait for the store to read."""
    drafts = _opening_drafts(ledger, run, order, actor, AcceptedFacts(), ticket, charges)
    try:
        await ledger.open_new_run_async(run, actor, past, *drafts)
    except IdempotencyKeyUsed as asked:
        return _existing_run(ledger, asked, ticket)
    return run


def _existing_run(ledger: Ledger, asked: IdempotencyKeyUsed, ticket: IdempotencyKey | None) -> str:
    if ticket is None or asked.digest != ticket.digest:
        raise asked
    ledger.check_idempotency_row(ticket.name, asked)
    return asked.run


def _opening_drafts(  # noqa: PLR0913, PLR0917  all that the first commit of a run says
    ledger: Ledger,
    run: str,
    order: RunRequest,
    actor: str,
    origin: AcceptedFacts,
    ticket: IdempotencyKey | None,
    charges: tuple[BudgetSliceCharge, ...],
) -> list[Draft]:
    """Return the first steps of a run."""
    order = _mask_request(ledger, order)
    order.policy.check(order.plan or _default_plan(order))
    budget = order.budget
    facts = AcceptedFacts(
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
    request = Attachment("request", text_content(order.request))
    policy = Attachment("policy", BytesContent(write_policy(order.policy)), "application/json")
    effects: tuple[Effect, ...] = (
        OpenBudgetAccount(run, budget.cap),
        due_now(run, MAIN_STRAND, ledger.now()),
        *charges,
    )
    if ticket is not None:
        effects += (IdempotencyRecord(ticket.name, run, ticket.digest),)
    drafts = [Draft("accepted", actor, facts, (), (request, policy), effects)]
    if order.route is not None:
        evidence = Attachment("evidence", BytesContent(order.route.evidence), "application/json")
        bodies = (evidence,) if order.route.evidence else ()
        drafts.append(Draft("route", actor, order.route.facts, (), bodies))
    if order.plan is not None:
        plan = Attachment("plan", BytesContent(write_plan(order.plan)), "application/json")
        drafts.append(Draft(PLAN_STEP, actor, PlanFacts(len(order.plan.tasks)), (), (plan,)))
    return drafts


def _default_plan(order: RunRequest) -> Plan | None:
    """Return the plan that will be made, where nobody is there to divide the request."""
    if Role.COORDINATOR in order.policy.roles or order.policy.panel is not None:
        return None
    return single_task_plan(order.request, order.route.facts.lane if order.route else "")


def _mask_request(ledger: Ledger, order: RunRequest) -> RunRequest:
    """Return an order as it will be read again: a plan may be none once its secrets are masked."""
    if not ledger.mask:
        return order
    plan = order.plan and read_plan(_mask_bytes(ledger, write_plan(order.plan)))
    policy = read_policy(_mask_bytes(ledger, write_policy(order.policy)))
    return replace(order, plan=plan, policy=policy)


def _mask_bytes(ledger: Ledger, data: bytes) -> bytes:
    return b"".join(ledger.mask.mask_content(BytesContent(data)).chunks())


def cancel_run(ledger: Ledger, run: str, actor: str) -> None:
    """Ask a run to end.  Its calls are ended wherever they are made.

    Where somebody has asked already, that holds; where it has ended, `RunAlreadyEnded` is raised.
    """
    control = ledger.open_strand_at_end(run, CONTROL)
    cause = _find_accepted_entry(ledger, run)
    effects = (due_now(run, MAIN_STRAND, ledger.now()),)
    draft = Draft("cancel", actor, CancelFacts(), (cause,), effects=effects)
    if control.length == 0:
        with suppress(ConcurrentUpdate):
            control.append_exclusive(draft)
            # Nobody would bring an interrupted run to its end.
            resume_run(ledger, run, actor)
            return
    ends = (ledger.store.last_entry(run, strand) for strand in (CONTROL, MAIN_STRAND))
    if any(
        isinstance(ledger.kinds.read(end).facts, ControlCloseFacts | RunCloseFacts)
        for end in ends
        if end
    ):
        raise RunAlreadyEnded(run)


def _find_accepted_entry(ledger: Ledger, run: str) -> Hash:
    for leaf, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if isinstance(entry.facts, AcceptedFacts):
            return leaf
    raise NoSuchRun(run)
