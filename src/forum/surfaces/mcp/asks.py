"""What tools are given: one form for each, of which every client gets the schema."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from forum.errors import Malformed
from forum.surfaces.asking import AskForm, BudgetAsk, GateAsk, TaskAsk
from forum.work import Answer

MOST_SECONDS = 600
"""How long a call may wait for a run; after that it is asked about by its name."""

RunName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="A run: its name, or the first 8 or more characters of it.",
    ),
]
EntryName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=400,
        description="An entry: its index, its id or the first digits of it, or run/strand/n.",
        examples=["57"],
    ),
]
GateName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="What waits: `plan`, `task/NAME` or `effect/NAME/N`.",
        examples=["plan"],
    ),
]
Wait = Annotated[
    float, Meta(ge=0, le=MOST_SECONDS, description="Seconds to wait for the run at most.")
]


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that needs to be told nothing."""


class PlanAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A request, and if wanted who does it, how, and for how much."""

    request: Annotated[
        str, Meta(min_length=1, description="What is wanted.", examples=["Name three rivers."])
    ]
    lane: Annotated[
        str | None, Meta(description="The specialist of the roster that is to do it.")
    ] = None
    team: Annotated[
        bool | None, Meta(description="Whether several agents plan it, judge it, put it together.")
    ] = None
    budget_usd: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Dollars that it may cost at most.")
    ] = None
    max_seconds: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Seconds that it may take at most.")
    ] = None
    gates: Annotated[
        tuple[str, ...],
        Meta(description="What a person approves first: `plan`, `tasks`, `task:NAME`."),
    ] = ()
    tasks: Annotated[
        tuple[TaskAsk, ...], Meta(description="The plan, if there is one already.")
    ] = ()

    @property
    def form(self) -> AskForm:
        """The same as every surface says it."""
        return AskForm(
            self.request,
            self.tasks,
            self.lane or "",
            self.team,
            budget=BudgetAsk(usd=_decimal(self.budget_usd), seconds=_decimal(self.max_seconds)),
            gates=GateAsk(self.gates) if self.gates else None,
        )


class SubmitAsk(PlanAsk, frozen=True, forbid_unknown_fields=True):
    """A request to be carried out."""

    key: Annotated[
        Annotated[str, Meta(pattern="^[!-~]{1,200}$")] | None,
        Meta(
            description="A name of yours for this request: asked again under it, nothing is done "
            "twice, and the same run is returned.",
        ),
    ] = None
    wait: Annotated[bool, Meta(description="Whether to wait for the answer.")] = True
    seconds: Wait = 50.0


class RunAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which run."""

    run: RunName


class CancelAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which run, by all of its name."""

    run: Annotated[
        str, Meta(min_length=1, max_length=200, description="A run: the whole of its name.")
    ]


class StatusAsk(RunAsk, frozen=True, forbid_unknown_fields=True):
    """Which run, and whether to wait for it."""

    seconds: Wait = 0.0


class RunsAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list of runs."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[
        Annotated[str, Meta(max_length=64)] | None, Meta(description="`next` of the page before.")
    ] = None


class WhyAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entry, and how far back."""

    entry: EntryName
    limit: Annotated[int, Meta(ge=1, le=200, description="At most so many causes.")] = 50


class EntryAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entry."""

    entry: EntryName


class RouteAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A request whose lane is looked for."""

    text: Annotated[str, Meta(min_length=1)]


class SubjectAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which gate of which run."""

    run: RunName
    subject: GateName


class DecideAsk(SubjectAsk, frozen=True, forbid_unknown_fields=True):
    """What was decided, about what has this digest."""

    answer: Answer
    digest: Annotated[
        str, Meta(pattern="^[0-9a-f]{64}$", description="Of what was looked at, as `gate` tells.")
    ]


Ask = TypeVar("Ask", bound=Struct)


def read_ask(arguments: Mapping[str, Any] | None, form: type[Ask]) -> Ask:
    """Return what a tool was given.  Raises `Malformed`."""
    try:
        # What one parser of JSON lets through, another does not: NaN, lone surrogates, any depth.
        data = json.dumps(arguments or {}, allow_nan=False, ensure_ascii=False).encode()
        return msgspec.json.decode(data, type=form)
    except (ValueError, RecursionError) as error:
        raise Malformed("arguments", _shortly(error)) from None


def _shortly(error: Exception) -> str:
    return "text that is no Unicode" if isinstance(error, UnicodeError) else str(error)


def _decimal(number: float | None) -> Decimal | None:
    """Return a number as exactly as it was written."""
    return None if number is None else Decimal(repr(number))
