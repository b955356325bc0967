"""What clients of the server say when they want something done, whatever door they come by."""

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from enum import StrEnum
from itertools import cycle, islice
from typing import Annotated, assert_never

import msgspec
from msgspec import Meta, Struct

from forum.app import new_run
from forum.deliberation import (
    PANELISTS,
    ROUNDS,
    Persona,
    briefing_of,
    draft_symposium,
    known_persona,
)
from forum.errors import BadPlan
from forum.ledger import Scope, opens
from forum.staff import Ask
from forum.work import (
    MOST_ROUNDS,
    MOST_SEATS,
    MOST_TASKS,
    NANO,
    Answer,
    Budget,
    Council,
    Panel,
    Seat,
    Symposium,
    Task,
    check_size,
    exactly,
)

MOST_NAME = 128
"""How many letters the name of an agent can have: every seat that it takes repeats it."""
MOST_OPTIONS = 100
MOST_OPTION = 1000
"""How many letters one may have."""
MOST_PERSONA = 10_000
"""How many bytes one may have that is brought along: every seat that it takes repeats it."""
MOST_SEATED = 1000
"""How many seats all panels of a plan may have: a few words of a request can ask for many."""
MOST_SECONDS = 100 * 366 * 86400
"""For how long a key may hold that does not hold for ever."""


class BudgetAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be used at most; what is not said has no limit."""

    usd: Annotated[Decimal | None, Meta(description="Dollars.", examples=["0.50"])] = None
    tokens: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    calls: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    seconds: Annotated[Decimal | None, Meta(examples=["600"])] = None
    depth: Annotated[int, Meta(ge=0, le=64)] | None = None


class Protocol(StrEnum):
    """By which rules a panel sits."""

    COUNCIL = "council"
    SYMPOSIUM = "symposium"


AgentName = Annotated[str, Meta(max_length=MOST_NAME)]
Seats = Annotated[
    Annotated[int, Meta(ge=1, le=MOST_SEATS)] | None,
    Meta(description="How many sit on it; else as many as personas, or as models, or five."),
]
Options = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=MOST_OPTION)], ...],
    Meta(max_length=MOST_OPTIONS, description="The answers there are; else it may be any."),
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
        Meta(max_length=MOST_SEATS, description="Agents that take the seats in turn; else all."),
    ] = ()
    personas: Annotated[
        tuple[str | Persona, ...],
        Meta(max_length=MOST_SEATS, description="Who the seats are told to be, in turn."),
    ] = ()
    options: Options = ()
    rounds: Annotated[
        Annotated[int, Meta(ge=0, le=MOST_ROUNDS)] | None,
        Meta(description="How often a council exchanges its ballots at most, or all have a turn."),
    ] = None
    baseline: Annotated[
        int,
        Meta(ge=0, le=MOST_SEATS, description="How many answer first; 0: all, and no gate."),
    ] = 3
    threshold: Annotated[
        float, Meta(ge=0, le=1, description="The share of them that has to agree to end it.")
    ] = 1.0
    judge: Annotated[AgentName | None, Meta(description="Who compares open answers.")] = None


class TaskAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One task of a plan."""

    id: Annotated[str, Meta(min_length=1, max_length=64, examples=["rivers"])]
    instruction: Annotated[str, Meta(min_length=1)]
    done_when: Annotated[str, Meta(description="What its result must hold to.")] = ""
    needs: Annotated[tuple[str, ...], Meta(description="Tasks whose output it is given.")] = ()
    after: Annotated[tuple[str, ...], Meta(description="Tasks that it only follows.")] = ()
    lane: str = ""
    agent: str = ""
    tasks: tuple["TaskAsk", ...] = ()
    budget: BudgetAsk | None = None
    panel: Annotated[PanelAsk | None, Meta(description="Who deliberates on it.")] = None


class GateAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person has to approve first."""

    what: Annotated[
        tuple[str, ...], Meta(examples=[["plan"]], description="`plan`, `tasks`, `task:NAME`.")
    ]
    seconds: Annotated[int, Meta(ge=1, le=366 * 86400)] | None = None
    default: Answer | None = None


class AskForm(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request, and if wanted its plan, its lane and its limits."""

    request: Annotated[str, Meta(min_length=1, examples=["Name three rivers."])]
    tasks: Annotated[tuple[TaskAsk, ...], Meta(max_length=MOST_TASKS)] = ()
    lane: str = ""
    team: bool | None = None
    route: bool | None = None
    budget: BudgetAsk = BudgetAsk()
    gates: GateAsk | None = None
    parallel: Annotated[int, Meta(ge=1, le=1000)] | None = None
    retries: Annotated[int, Meta(ge=0, le=100)] | None = None
    panel: PanelAsk | None = None


class RouteAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A request whose lane is wanted."""

    text: Annotated[str, Meta(min_length=1, examples=["Draw the login flow."])]


class KeyAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A key that somebody is to get."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[!#-\[\]-~]{1,40}$",
            examples=["ci"],
            description="Whose it is: visible ASCII without quote and backslash.",
        ),
    ]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=len(Scope))]
    seconds: (
        Annotated[int, Meta(ge=1, le=MOST_SECONDS, description="How long it is to hold.")] | None
    ) = None


def ask_of(form: AskForm) -> Ask:
    """Return what a form asks for.  Raises `BadPlan`."""
    check_size(form.tasks)
    for name in ("tasks", "lane", "team") if form.panel else ():
        if getattr(form, name):
            raise BadPlan(f"{name}: a panel deliberates, and carries out no plan; leave it out")
    if sum(_seats(task.panel) for task in _all(form.tasks) if task.panel) > MOST_SEATED:
        raise BadPlan(f"the panels of a plan have up to {MOST_SEATED} seats together")
    gates, budget = form.gates, budget_of(form.budget)
    return Ask(
        form.request,
        tuple(map(_task, form.tasks)),
        form.lane,
        form.team,
        form.route,
        budget,
        gates.what if gates else (),
        1000 * gates.seconds if gates and gates.seconds else None,
        gates.default if gates else None,
        form.parallel,
        form.retries,
        panel_of(form.panel, form.request, budget) if form.panel else None,
    )


def panel_of(form: PanelAsk, problem: str, budget: Budget) -> Panel:
    """Return the panel that a form asks for.  Raises `BadPlan`."""
    match form.protocol:
        case Protocol.COUNCIL:
            return council_of(form)
        case Protocol.SYMPOSIUM:
            return symposium_of(form, problem, budget)
        case never:
            assert_never(never)


def council_of(form: PanelAsk) -> Council:
    """Return the council that a form asks for.  Raises `BadPlan`."""
    if form.protocol is not Protocol.COUNCIL:
        raise BadPlan(f"a {form.protocol} deliberates on whole requests, not on a task of a plan")
    usual, seats = Council(), _seats(form)
    names = islice(cycle(form.models or ("",)), seats)
    told = [briefing_of(one) for one in _personas(form)[:seats]] or [""]
    briefings = islice(cycle(told), seats)
    return Council(
        tuple(map(Seat, names, briefings)),
        form.options,
        form.baseline,
        int(1000 * form.threshold),  # rounded down: two of three are the share that 2/3 asks for
        usual.rounds if form.rounds is None else form.rounds,
        judge=form.judge,
    )


def symposium_of(form: PanelAsk, problem: str, budget: Budget) -> Symposium:
    """Return the session of the open protocol that a form asks for.  Raises `BadPlan`."""
    usual = PanelAsk()
    for name in ("options", "baseline", "threshold", "judge"):
        if getattr(form, name) != getattr(usual, name):
            raise BadPlan(f"panel.{name}: only a council counts ballots; leave it out")
    rounds = ROUNDS if form.rounds is None else form.rounds
    if not rounds:
        raise BadPlan("panel.rounds: a symposium has at least one")
    if not problem.strip():
        raise BadPlan("the request says nothing")
    known = _personas(form) or PANELISTS
    sitting = list(islice(cycle(known), _seats(form)))
    return draft_symposium(new_run(), problem, sitting, form.models, rounds, budget)


def _personas(form: PanelAsk) -> list[Persona]:
    known = [known_persona(one) for one in form.personas]
    brought = [one for one in form.personas if isinstance(one, Persona)]
    if not all(one.id.isprintable() for one in brought):
        raise BadPlan("panel.personas: an id is one printable line")
    if any(len(msgspec.json.encode(one)) > MOST_PERSONA for one in brought):
        raise BadPlan(f"panel.personas: one has up to {MOST_PERSONA:,} bytes")
    return known


def _all(tasks: Iterable[TaskAsk]) -> Iterator[TaskAsk]:
    for task in tasks:
        yield task
        yield from _all(task.tasks)


def _seats(form: PanelAsk) -> int:
    several = len(form.models) if len(form.models) > 1 else 0
    return form.seats or len(form.personas) or several or len(Council().seats)


def check_gates(gates: GateAsk | None, scopes: Collection[Scope]) -> None:
    """Refuse terms that decide in the place of those who may.  Raises `BadPlan`.

    They hold at every gate of a run: also where a person is asked whether an effect happened.
    """
    if gates and (gates.default or gates.seconds) and not opens(scopes, {Scope.APPROVE}):
        raise BadPlan("gates: when a deadline decides, and what, is for those who may approve")


def budget_of(form: BudgetAsk) -> Budget:
    """Return a budget in the units of the record.  Raises `BadPlan`."""
    given = {"tokens": form.tokens, "calls": form.calls, "depth": form.depth}
    given["usd"] = _exactly("usd", form.usd, NANO)
    given["milliseconds"] = _exactly("seconds", form.seconds, 1000)
    said = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(Budget(), **said)


def _exactly(name: str, value: Decimal | None, unit: int) -> int | None:
    try:
        return None if value is None else exactly(value, unit)
    except ValueError as error:
        raise BadPlan(f"budget.{name}: {error}") from None


def _task(form: TaskAsk) -> Task:
    return Task(
        form.id,
        form.instruction,
        form.done_when,
        needs=form.needs,
        after=form.after,
        lane=form.lane,
        agent=form.agent,
        tasks=tuple(map(_task, form.tasks)),
        budget=budget_of(form.budget or BudgetAsk()),
        panel=council_of(form.panel) if form.panel else None,
    )
