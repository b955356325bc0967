"""Request schemas that all server surfaces share, and their conversion to domain objects."""

import json
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from itertools import cycle, islice
from typing import Annotated, TypeVar, assert_never

import msgspec
from msgspec import Meta, Struct

from forum.app import KINDS, Forum, new_run_id
from forum.app.planner import AgentRegistry, CallerAuthority, check_client_rights
from forum.engine import AnswerReference, RunRequest
from forum.errors import BadPlan, Malformed, NoSuchEntry
from forum.ledger.access import has_scope
from forum.ledger.body import text_content
from forum.ledger.kinds import Scope
from forum.runs.council_end import Requirement
from forum.runs.kinds import MAX_SCORE, Scorer, ScoreSubject
from forum.runs.panel import (
    COUNCIL_VERSION,
    MAX_ROUNDS,
    MAX_SEATS,
    Council,
    Panel,
    Protocol,
    Seat,
    Symposium,
    count_seats,
    draft_decision,
)
from forum.runs.panel_protocol import PanelDraft, load_protocol
from forum.runs.personas import DEFAULT_PERSONAS, Persona, build_briefing, resolve_persona
from forum.runs.plan import Plan, RunBudget, Task, read_limits
from forum.runs.plan_limits import MAX_TASKS, check_plan_size
from forum.runs.policy import Answer
from forum.runs.scores import Score

StructT = TypeVar("StructT", bound=Struct)

MAX_AGENT_NAME_LENGTH = 128
"""Maximum length of an agent's name, which is repeated for each of its seats."""
MAX_OPTIONS = 100
MAX_OPTION_LENGTH = 1000
"""Maximum length of one option."""
MAX_PERSONA_BYTES = 10_000
"""Maximum size of a custom persona, which is repeated for each of its seats."""
MAX_PLAN_SEATS = 1000
"""Maximum number of seats in all panels of a plan: a short request can ask for many."""
MAX_KEY_LIFETIME_S = 100 * 366 * 86400
"""Maximum lifetime of a key that expires."""


class BudgetAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be used at most; what is not said has no limit."""

    usd: Annotated[Decimal | None, Meta(description="Dollars.", examples=["0.50"])] = None
    tokens: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    calls: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    seconds: Annotated[Decimal | None, Meta(examples=["600"])] = None
    depth: Annotated[int, Meta(ge=0, le=64)] | None = None


AgentName = Annotated[str, Meta(max_length=MAX_AGENT_NAME_LENGTH)]
Seats = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_SEATS)] | None,
    Meta(
        description="The number of seats. Default: that of the personas, or of the models, or five."
    ),
]
Options = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=MAX_OPTION_LENGTH)], ...],
    Meta(
        max_length=MAX_OPTIONS, description="The possible answers. Default: answers are free text."
    ),
]


class PanelAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who is to deliberate on the request, instead of carrying out a plan."""

    protocol: Annotated[
        Protocol,
        Meta(description="`council`: ballots and a vote; `symposium`: turns and a synthesis."),
    ] = Protocol.COUNCIL
    seats: Seats = None
    models: Annotated[
        tuple[AgentName, ...],
        Meta(
            max_length=MAX_SEATS,
            description="Agents that take the seats in turn. Default: all agents.",
        ),
    ] = ()
    personas: Annotated[
        tuple[str | Persona, ...],
        Meta(max_length=MAX_SEATS, description="The personas of the seats, in turn."),
    ] = ()
    options: Options = ()
    rounds: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_ROUNDS)] | None,
        Meta(description="The maximum number of exchanges of ballots, or of turns of each seat."),
    ] = None
    baseline: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_SEATS,
            description="The number of seats that answer first. With 0, all seats answer.",
        ),
    ] = 3
    threshold: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The share of these seats that must agree for the panel to end early.",
        ),
    ] = 1.0
    judge: Annotated[
        AgentName | None, Meta(description="The agent that compares free-text answers.")
    ] = None
    require: Annotated[
        Requirement,
        Meta(
            description="The agreement that a task with this panel needs to pass: "
            "`majority` or `agreement`. A blocked or split panel never passes."
        ),
    ] = Requirement.MAJORITY


Ladder = Annotated[
    tuple[AgentName, ...],
    Meta(
        max_length=MAX_SEATS,
        description="Who tries next if a result is not accepted: agents, then panels by name.",
    ),
]
NamedPanels = Annotated[
    dict[str, PanelAsk],
    Meta(description="The panels, by name, at which an escalation can end."),
]


About = Annotated[
    Annotated[str, Meta(min_length=1, max_length=128)] | None,
    Meta(
        description="The run on whose answer the panel deliberates; the request is the question "
        "about it. The run has ended. Needs the scope read."
    ),
]


class TaskAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One task of a plan."""

    id: Annotated[str, Meta(min_length=1, max_length=64, examples=["rivers"])]
    instruction: Annotated[str, Meta(min_length=1)]
    done_when: Annotated[str, Meta(description="The criteria that the result must meet.")] = ""
    needs: Annotated[tuple[str, ...], Meta(description="The tasks whose output it receives.")] = ()
    after: Annotated[
        tuple[str, ...],
        Meta(
            description="The tasks that must end before it, and whose output it does not receive."
        ),
    ] = ()
    lane: str = ""
    agent: str = ""
    tasks: tuple["TaskAsk", ...] = ()
    budget: BudgetAsk | None = None
    panel: Annotated[
        PanelAsk | None, Meta(description="The panel that deliberates on the task.")
    ] = None
    decide: Annotated[
        Options,
        Meta(
            description="Options, one of which a configured panel chooses: that which `agent` "
            "names, or else the first."
        ),
    ] = ()


class GateAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person has to approve first."""

    what: Annotated[
        tuple[str, ...],
        Meta(examples=[["plan"]], description="`plan`, `tasks`, `task:NAME`, `dissent`."),
    ]
    seconds: Annotated[int, Meta(ge=1, le=366 * 86400)] | None = None
    default: Answer | None = None


class AskForm(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request, and if wanted its plan, its lane and its limits."""

    request: Annotated[str, Meta(min_length=1, examples=["Name three rivers."])]
    tasks: Annotated[tuple[TaskAsk, ...], Meta(max_length=MAX_TASKS)] = ()
    lane: str = ""
    team: bool | None = None
    route: bool | None = None
    budget: BudgetAsk = BudgetAsk()
    gates: GateAsk | None = None
    parallel: Annotated[int, Meta(ge=1, le=1000)] | None = None
    retries: Annotated[int, Meta(ge=0, le=100)] | None = None
    panel: PanelAsk | None = None
    ladder: Ladder = ()
    panels: NamedPanels = {}
    about: About = None


class PreviewAsk(AskForm, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request whose plan is wanted."""

    record: Annotated[
        bool, Meta(description="Whether to record request and reply; needs the scope submit.")
    ] = False


class RouteAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A request whose lane is wanted."""

    text: Annotated[str, Meta(min_length=1, examples=["Draw the login flow."])]
    record: Annotated[
        bool, Meta(description="Whether to record request and reply; needs the scope submit.")
    ] = False


class KeyAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An API key to create."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[!#-\[\]-~]{1,40}$",
            examples=["ci"],
            description="The name of its owner: visible ASCII without quote and backslash.",
        ),
    ]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=len(Scope))]
    seconds: (
        Annotated[int, Meta(ge=1, le=MAX_KEY_LIFETIME_S, description="The lifetime of the key.")]
        | None
    ) = None


def read_subject(forum: Forum, form: AskForm, scopes: Collection[Scope]) -> AnswerReference | None:
    """Return the answer that a form is about, if it names one.

    Whoever may not read runs learns nothing of them from what a panel says. Raises `BadPlan`, and
    what `read_answer_reference` raises.
    """
    if form.about is None:
        return None
    if form.panel is None:
        raise BadPlan("about: a panel deliberates on the answer of a run; say which with panel")
    if not has_scope(scopes, {Scope.READ}):
        raise BadPlan("about: to deliberate on the answer of a run requires the scope read")
    return forum.reads.read_answer_reference(form.about)


def run_request_from_form(
    form: AskForm,
    registry: AgentRegistry,
    authority: CallerAuthority,
    about: AnswerReference | None = None,
) -> RunRequest:
    """Return what will be carried out for a form; `about` is what `read_subject` returned for it.

    Raises `BadPlan`, `Malformed`, `AgentUnusable`, `ServerUnusable`.
    """
    # First, because everything below takes time in proportion to the plan.
    if form.tasks:
        check_plan_size(form.tasks)
    for name in ("tasks", "lane", "team") if form.panel else ():
        if getattr(form, name):
            raise BadPlan(f"{name}: a panel deliberates, and carries out no plan; leave it out")
    panels = (*(task.panel for task in _walk_tasks(form.tasks)), *form.panels.values())
    if sum(_count_seats(panel) for panel in panels if panel) > MAX_PLAN_SEATS:
        raise BadPlan(f"the panels of a plan have up to {MAX_PLAN_SEATS} seats together")
    budget = budget_from_form(form.budget)
    tasks = tuple(map(_task_from_form, form.tasks))
    request = about.compose_question(form.request) if about else form.request
    panel = panel_from_form(form.panel, request, budget) if form.panel else None
    if isinstance(panel, Symposium) and panel.require is not Requirement.MAJORITY:
        raise BadPlan("panel.require: only a task with a panel passes or fails; leave it out")
    current = registry.current_policy()
    named = {name: panel_from_form(ask, name, RunBudget()) for name, ask in form.panels.items()}
    policy = replace_given(
        current,
        gates=form.gates and form.gates.what,
        gate_milliseconds=form.gates and form.gates.seconds and 1000 * form.gates.seconds,
        gate_default=form.gates and form.gates.default,
        parallel=form.parallel,
        retries=form.retries,
        ladder=form.ladder or None,
        panels=current.panels | named if named else None,
    )
    run_request = RunRequest(request, Plan(tasks) if tasks else None, policy, budget, about=about)
    return registry.decide(
        run_request, authority, lane=form.lane, team=form.team, route=form.route, panel=panel
    )


def replace_given(value: StructT, **wished: object) -> StructT:
    """Return a struct with new values, except those that are None."""
    changes = {name: value for name, value in wished.items() if value is not None}
    return msgspec.structs.replace(value, **changes) if changes else value


def panel_from_form(form: PanelAsk, problem: str, budget: RunBudget) -> Panel:
    """Return the panel of a form.  Raises `BadPlan`."""
    match form.protocol:
        case Protocol.COUNCIL:
            return council_from_form(form)
        case Protocol.SYMPOSIUM:
            return symposium_from_form(form, problem, budget)
        case _:
            assert_never(form.protocol)


def council_from_form(form: PanelAsk) -> Council:
    """Return the council of a form.  Raises `BadPlan`."""
    usual, seats = Council(), _count_seats(form)
    names = islice(cycle(form.models or ("",)), seats)
    texts = [build_briefing(persona) for persona in _resolve_personas(form)[:seats]] or [""]
    briefings = islice(cycle(texts), seats)
    return Council(
        seats=tuple(map(Seat, names, briefings)),
        options=form.options,
        baseline=form.baseline,
        threshold=int(1000 * form.threshold),  # rounded down, so that 2/3 accepts two of three
        rounds=usual.rounds if form.rounds is None else form.rounds,
        judge=form.judge,
        version=COUNCIL_VERSION,
        require=form.require,
    )


def symposium_from_form(form: PanelAsk, problem: str, budget: RunBudget) -> Symposium:
    """Return the symposium of a form.  Raises `BadPlan`."""
    usual = PanelAsk()
    for name in ("options", "baseline", "threshold", "judge"):
        if getattr(form, name) != getattr(usual, name):
            raise BadPlan(f"panel.{name}: only a council counts ballots; leave it out")
    if form.rounds == 0:
        raise BadPlan("panel.rounds: a symposium has at least one round")
    if not problem.strip():
        raise BadPlan("the request is empty")
    personas = _resolve_personas(form) or DEFAULT_PERSONAS
    draft = PanelDraft(
        session=new_run_id(),
        problem=problem,
        personas=list(islice(cycle(personas), _count_seats(form))),
        agents=form.models,
        rounds=form.rounds,
        budget=budget,
    )
    drafted: Symposium = load_protocol(KINDS, Protocol.SYMPOSIUM).draft(draft)
    return replace_given(drafted, require=form.require)


def _resolve_personas(form: PanelAsk) -> list[Persona]:
    personas = [resolve_persona(persona) for persona in form.personas]
    brought = [persona for persona in form.personas if isinstance(persona, Persona)]
    if not all(persona.id.isprintable() for persona in brought):
        raise BadPlan("panel.personas: the id of a persona must be one printable line")
    if any(len(msgspec.json.encode(persona)) > MAX_PERSONA_BYTES for persona in brought):
        raise BadPlan(f"panel.personas: a persona has at most {MAX_PERSONA_BYTES:,} bytes")
    return personas


def _walk_tasks(tasks: Iterable[TaskAsk]) -> Iterator[TaskAsk]:
    for task in tasks:
        yield task
        yield from _walk_tasks(task.tasks)


def _count_seats(form: PanelAsk) -> int:
    return count_seats(form.seats, models=len(form.models), personas=len(form.personas))


def check_gate_authority(gates: GateAsk | None, scopes: Collection[Scope]) -> None:
    """Raise `BadPlan` if a client without the `approve` scope sets a gate's default or deadline.

    These settings apply to every gate of a run, including those where a human is asked whether an
    effect happened: the client could decide them itself by letting the deadline pass.
    """
    if gates and (gates.default or gates.seconds) and not has_scope(scopes, {Scope.APPROVE}):
        raise BadPlan("gates.default and gates.seconds require the scope approve")


def check_record_authority(scopes: Collection[Scope]) -> None:
    """Raise `BadPlan` if a client that may only read asks to record something."""
    if not has_scope(scopes, {Scope.SUBMIT}):
        raise BadPlan("record: recording requires the scope submit")


def record_preview(forum: Forum, schema: str, request: str, form: Struct, actor: str) -> str:
    """Record a route or a plan that was only asked for, and return the run that holds it.

    It is a note in a run of its own: nothing is carried out, and no worker is told. Its text is the
    reply with the request, so that it can be erased like any text. Raises `Malformed` for a request
    that is not valid Unicode.
    """
    reply = {**msgspec.to_builtins(form), "recorded": None}
    text = json.dumps({"schema": schema, "request": request, "reply": reply}, ensure_ascii=False)
    return forum.log.append_note(text_content(text), actor=actor)


def check_fork(
    forum: Forum, run: str, at: int, authority: CallerAuthority, scopes: Collection[Scope]
) -> None:
    """Raise `BadPlan` if a run cannot be forked at an entry, or not by this caller.

    A fork must not give a client more than a request of its own would.
    """
    try:
        is_inside = forum.ledger.find_entry(str(at)).entry.run == run
    except NoSuchEntry:
        is_inside = False
    if not is_inside:
        raise BadPlan(f"entry {at} does not belong to run {run}")
    if authority is CallerAuthority.OPERATOR:
        return
    request = forum.reads.read_run_request(run)
    check_client_rights(request.plan.all_tasks if request.plan else (), request.policy)
    if request.policy.gate_default is Answer.APPROVE and not has_scope(scopes, {Scope.APPROVE}):
        raise BadPlan("its gates approve themselves; forking it requires the scope approve")


def budget_from_form(form: BudgetAsk) -> RunBudget:
    """Return a budget in recorded units.  Raises `BadPlan`."""
    try:
        return read_limits(msgspec.structs.asdict(form))
    except ValueError as error:
        raise BadPlan(f"budget.{error}") from None


def _task_from_form(form: TaskAsk) -> Task:
    task = Task(
        form.id,
        form.instruction,
        form.done_when,
        needs=form.needs,
        after=form.after,
        lane=form.lane,
        agent=form.agent,
        tasks=tuple(map(_task_from_form, form.tasks)),
    )
    budget = form.budget and budget_from_form(form.budget)
    if form.panel and form.decide:
        raise BadPlan(f"task {form.id!r}: a configured panel decides; leave out panel, or decide")
    panel: Panel | None = None
    if form.panel:
        panel = panel_from_form(form.panel, form.instruction, budget or RunBudget())
    elif form.decide:
        panel = draft_decision(form.decide)
    return replace_given(task, budget=budget, panel=panel)


class ScoreAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How good an ended run, a task or an answer is."""

    name: Annotated[
        str,
        Meta(pattern="^[a-z0-9][a-z0-9._-]{0,63}$", examples=["correct", "helpful"]),
    ]
    value: Annotated[
        float, Meta(ge=0, le=1, description="The score, which is stored in thousandths.")
    ]
    subject: ScoreSubject = ScoreSubject.RUN
    task: Annotated[
        str, Meta(max_length=128, description="The name of the task, if the subject is `task`.")
    ] = ""
    by: Annotated[
        Scorer | None,
        Meta(
            description="What kind of judge gave it. `person` needs a credential of a person: the "
            "operator's token, or that of an identity provider. By default it is what the "
            "credential says: `person`, or `program` for an API key."
        ),
    ] = None
    comment: Annotated[str, Meta(max_length=10_000)] = ""


def score_from_form(form: ScoreAsk, *, is_person: bool) -> Score:
    """Return the score that a client asks to record.

    Evidence counts the scores of people, so a program must not call itself one.  Raises
    `Malformed`.
    """
    if form.by is Scorer.PERSON and not is_person:
        raise Malformed("score", "this credential is not a person's: leave `by` out, or `program`")
    by_credential = Scorer.PERSON if is_person else Scorer.PROGRAM
    return Score(
        name=form.name,
        value=round(form.value * MAX_SCORE),
        subject=form.subject,
        task=form.task,
        by=form.by or by_credential,
        comment=form.comment,
    )
