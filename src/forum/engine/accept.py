"""Accept and cancel runs.

Both only append entries and set timers, so they need a ledger but no engine: a worker that finds
the timer does the rest.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Self

import msgspec

from forum import errors
from forum.engine.context import missing_request_error
from forum.engine.interruption import resume_run
from forum.ledger import ports
from forum.ledger.body import BytesContent, text_content
from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import RunCloseFacts
from forum.ledger.log import Ledger, opening_draft, read_strand_entries, stored_body
from forum.ledger.ports import Position
from forum.ledger.strand import Attachment, Draft
from forum.runs import about, kinds
from forum.runs.plan import Plan, RunBudget, read_plan, single_task_plan, write_plan
from forum.runs.policy import Policy, Role, read_policy, write_policy
from forum.tlog import Checkpoint, Hash

PLAN_STEP = "plan"
"""The step of a plan that was submitted with the request."""


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """The lane chosen for a request at acceptance, and the evidence for the choice."""

    facts: kinds.RouteFacts
    evidence: bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerReference:
    """The answer of a run that has ended, on which a panel deliberates."""

    facts: kinds.AboutFacts
    request: Attachment
    answer: Attachment

    def compose_question(self, question: str) -> str:
        """Return the request of the session: the question with both texts."""
        request, answer = (_read_whole(body) for body in (self.request, self.answer))
        return about.compose_question(question or about.DEFAULT_QUESTION, request, answer)


def _read_whole(body: Attachment) -> bytes:
    return b"".join(body.content.chunks())


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's key for a request, so that sending the request again starts no second run."""

    name: str
    digest: str
    """The digest of the request: the same key with another digest is refused."""
    earlier: str = ""
    """The digest of release 0.2 for Python programs, which left the budget out."""

    @classmethod
    def of_form(cls, owner: str, key: str, form: object, place: str = "") -> Self:
        """Return the key of a request that a client has sent to a place, such as a path."""
        content = (f"{place}\n" if place else "").encode() + msgspec.json.encode(form)
        return cls(f"{owner}/{key}", sha256(content).hexdigest())

    @classmethod
    def of_order(cls, owner: str, key: str, request: "RunRequest") -> Self:
        """Return the key of a request of a program on this machine, which sends no form."""
        plan = write_plan(request.plan) if request.plan is not None else b""
        text = (request.request.encode(), plan, write_policy(request.policy))
        parts = (*text, msgspec.json.encode(request.budget))
        # The lengths keep two requests apart whose parts concatenate to the same bytes.
        lengths = b"".join(len(part).to_bytes(8, "big") for part in parts)
        return cls(
            name=f"{owner}/{key}",
            digest=sha256(lengths + b"".join(parts)).hexdigest(),
            earlier=sha256(b"\0".join(text)).hexdigest(),
        )


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request with its policy and budget; without a plan, the engine makes one."""

    request: str
    plan: Plan | None = None
    policy: Policy = field(default_factory=Policy)
    budget: RunBudget = field(default_factory=RunBudget)
    route: RouteDecision | None = None
    about: AnswerReference | None = None
    """What a panel deliberates on; the request quotes it."""

    @property
    def lanes(self) -> frozenset[str]:
        """The lanes of the plan's tasks and of the route, as far as they are known."""
        tasks = self.plan.all_tasks if self.plan else ()
        routed = {self.route.facts.lane} if self.route else set()
        return frozenset({task.lane for task in tasks} | routed)


def accept_run(  # noqa: PLR0913  the last three have a default
    ledger: Ledger,
    run: str,
    request: RunRequest,
    actor: str,
    origin: kinds.AcceptedFacts | None = None,
    idempotency_key: IdempotencyKey | None = None,
    *,
    charges: tuple[ports.BudgetSliceCharge, ...] = (),
) -> str:
    """Accept a request and return the id of its run, which will be driven even after a crash.

    Request, policy, route, plan, budget account and the timer that starts the run are one commit.
    If the idempotency key was used before, no run is opened: the id of the earlier run is returned,
    or `IdempotencyKeyUsed` raised if that was another request.  Raises `BudgetSliceExhausted` where
    a charge is refused.
    """
    drafts = _opening_drafts(
        ledger,
        run,
        request,
        actor,
        origin=origin or kinds.AcceptedFacts(),
        idempotency_key=idempotency_key,
        charges=charges,
    )
    try:
        ledger.open_run(run, actor, *drafts, new=True)
    except errors.IdempotencyKeyUsed as error:
        return _existing_run(ledger, error, idempotency_key, request.budget)
    return run


async def accept_run_async(  # noqa: PLR0913  the last two have a default
    ledger: Ledger,
    run: str,
    request: RunRequest,
    actor: str,
    past: Checkpoint | None,
    idempotency_key: IdempotencyKey | None = None,
    *,
    charges: tuple[ports.BudgetSliceCharge, ...] = (),
) -> str:
    """Accept a request like `accept_run`, without blocking the event loop.

    The caller passes the checkpoint that the run's opening names, so that the store is not read.
    """
    drafts = _opening_drafts(
        ledger,
        run,
        request,
        actor,
        origin=kinds.AcceptedFacts(),
        idempotency_key=idempotency_key,
        charges=charges,
    )
    try:
        opening = opening_draft(actor, past)
        await ledger.new_strand(run, MAIN_STRAND).append_async(opening, *drafts)
    except errors.IdempotencyKeyUsed as error:
        return _existing_run(ledger, error, idempotency_key, request.budget)
    return run


def _existing_run(
    ledger: Ledger,
    error: errors.IdempotencyKeyUsed,
    idempotency_key: IdempotencyKey | None,
    budget: RunBudget,
) -> str:
    """Return the run that the key was used for; raise `error` if that was another request."""
    if idempotency_key is None or not error.digest:
        raise error
    if error.digest != idempotency_key.digest and not (
        error.digest == idempotency_key.earlier and _read_budget(ledger, error.run) == budget
    ):
        raise error
    # The row is outside the log: whoever can write the database could point the key at any run.
    ledger.check_idempotency_row(idempotency_key.name, error)
    return error.run


def _read_budget(ledger: Ledger, run: str) -> RunBudget | None:
    """Return the budget with which a run was accepted."""
    names = RunBudget.__struct_fields__
    for _, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if isinstance(entry.facts, kinds.AcceptedFacts):
            return RunBudget(**{name: getattr(entry.facts, name) for name in names})
    return None


def _opening_drafts(  # noqa: PLR0913, PLR0917  all that the first commit of a run says
    ledger: Ledger,
    run: str,
    run_request: RunRequest,
    actor: str,
    origin: kinds.AcceptedFacts,
    idempotency_key: IdempotencyKey | None,
    charges: tuple[ports.BudgetSliceCharge, ...],
) -> list[Draft]:
    """Return the drafts of a run's first commit.  Raises `BadPlan`."""
    # The check is of the masked request, because that is what the engine will read.
    run_request = _mask_request(ledger, run_request)
    if run_request.policy.needs_secret:
        run_request = replace(
            run_request, policy=run_request.policy.with_secret(ledger.writer.salts()[:16])
        )
    run_request.policy.check(run_request.plan or _default_plan(run_request))
    budget = run_request.budget
    facts = kinds.AcceptedFacts(
        usd=budget.usd,
        tokens=budget.tokens,
        calls=budget.calls,
        milliseconds=budget.milliseconds,
        depth=budget.depth,
        parent_run=origin.parent_run,
        parent_task=origin.parent_task,
        fork_run=origin.fork_run,
        fork_index=origin.fork_index,
    )
    request = Attachment("request", text_content(run_request.request))
    policy = Attachment(
        "policy", BytesContent(write_policy(run_request.policy)), "application/json"
    )
    # Effects are part of the commit: a crash leaves either no run, or one with an account and a
    # timer by which a worker finds it.
    effects: tuple[ports.Effect, ...] = (
        ports.OpenBudgetAccount(run, budget.cap),
        ports.due_now(run, MAIN_STRAND, ledger.now()),
        *charges,
    )
    if idempotency_key is not None:
        effects += (ports.IdempotencyRecord(idempotency_key.name, run, idempotency_key.digest),)
    drafts = [
        Draft(
            step="accepted",
            actor=actor,
            facts=facts,
            parents=(),
            bodies=(request, policy),
            effects=effects,
        )
    ]
    if run_request.route is not None:
        evidence = Attachment(
            "evidence", BytesContent(run_request.route.evidence), "application/json"
        )
        bodies = (evidence,) if run_request.route.evidence else ()
        drafts.append(
            Draft(
                step="route", actor=actor, facts=run_request.route.facts, parents=(), bodies=bodies
            )
        )
    if run_request.about is not None:
        drafts.append(
            Draft(
                step="about",
                actor=actor,
                facts=run_request.about.facts,
                bodies=(run_request.about.request, run_request.about.answer),
            )
        )
    if run_request.plan is not None:
        plan = Attachment("plan", BytesContent(write_plan(run_request.plan)), "application/json")
        drafts.append(
            Draft(
                step=PLAN_STEP,
                actor=actor,
                facts=kinds.PlanFacts(len(run_request.plan.tasks)),
                parents=(),
                bodies=(plan,),
            )
        )
    return drafts


def _default_plan(request: RunRequest) -> Plan | None:
    """Return the single-task plan that the engine will make, or None if a role or panel plans."""
    if Role.COORDINATOR in request.policy.roles or request.policy.panel is not None:
        return None
    return single_task_plan(request.request, request.route.facts.lane if request.route else "")


def _mask_request(ledger: Ledger, request: RunRequest) -> RunRequest:
    """Return a request with secrets masked, as the engine will read it.

    Raises if the masked plan or policy cannot be read any more.
    """
    if not ledger.mask:
        return request
    written_plan = write_plan(request.plan) if request.plan else b""
    written_policy = write_policy(request.policy)
    if not any(map(ledger.mask.has_secret, (written_plan, written_policy))):
        return request  # as it was written, so reading it again would change nothing
    plan = request.plan and read_plan(_mask_bytes(ledger, written_plan))
    return replace(request, plan=plan, policy=read_policy(_mask_bytes(ledger, written_policy)))


def _mask_bytes(ledger: Ledger, data: bytes) -> bytes:
    return b"".join(ledger.mask.mask_content(BytesContent(data)).chunks())


def read_answer_reference(ledger: Ledger, run: str) -> AnswerReference:
    """Return the answer of a run, so that a panel can deliberate on it.

    Raises `NoSuchRun`, `RunNotDriven`, `AnswerNotFinal`, `NoAnswer`, and `BodyGone` if a text was
    erased.
    """
    main = {
        type(entry.facts): (leaf, entry)
        for leaf, entry in read_strand_entries(ledger, run, MAIN_STRAND)
    }
    if kinds.AcceptedFacts not in main:
        raise missing_request_error(ledger, run)
    if RunCloseFacts not in main:
        raise errors.AnswerNotFinal(run)
    leaf, entry = main.get(kinds.AnswerFacts, (None, None))
    if leaf is None or entry is None or not entry.bodies["answer"].size:
        raise errors.NoAnswer(run)
    _, accepted = main[kinds.AcceptedFacts]
    request, text = copy_body(ledger, accepted, "request"), copy_body(ledger, entry, "answer")
    # A secret that was named after the answer was recorded would be masked in the copy, and the
    # commitments would differ.
    if any(ledger.mask.has_secret(_read_whole(body)) for body in (request, text)):
        raise errors.AnswerHasSecret(run)
    return AnswerReference(kinds.AboutFacts(run, leaf.hex()), request, text)


def copy_body(ledger: Ledger, entry: Entry[Any], name: str) -> Attachment:
    """Return a body of an entry with its salt, for an entry with the same commitment.

    Raises `BodyGone`.
    """
    body = stored_body(ledger.store, entry, name)
    if body is None:
        raise errors.BodyGone(str(Position(entry.run, entry.strand, entry.n)), name)
    return Attachment(name, BytesContent(b"".join(body.read())), entry.bodies[name].type, body.salt)


def cancel_run(ledger: Ledger, run: str, actor: str) -> None:
    """Request the end of a run; its calls are aborted on whichever workers make them.

    Does nothing if the run is cancelled already.  Raises `RunAlreadyEnded` if it has ended.
    """
    control = ledger.open_strand_at_end(run, kinds.CONTROL)
    cause = _find_accepted_entry(ledger, run)
    effects = (ports.due_now(run, MAIN_STRAND, ledger.now()),)
    draft = Draft("cancel", actor, kinds.CancelFacts(), (cause,), effects=effects)
    if control.length == 0:
        with suppress(errors.ConcurrentUpdate):
            control.append_exclusive(draft)
            # An interrupted run has no driver: without the resumption, nothing would carry out
            # the cancellation.
            resume_run(ledger, run, actor)
            return
    # `control` is taken: by an earlier cancellation, or by the close of the run.
    ends = (ledger.store.last_entry(run, strand) for strand in (kinds.CONTROL, MAIN_STRAND))
    if any(
        isinstance(ledger.kinds.read(end).facts, kinds.ControlCloseFacts | RunCloseFacts)
        for end in ends
        if end
    ):
        raise errors.RunAlreadyEnded(run)


def _find_accepted_entry(ledger: Ledger, run: str) -> Hash:
    for leaf, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if isinstance(entry.facts, kinds.AcceptedFacts):
            return leaf
    raise missing_request_error(ledger, run)
