"""Arguments of the tools: one struct for each, whose schema every client receives."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from forum.errors import Malformed
from forum.runs.panel import MAX_SEATS
from forum.runs.policy import Answer
from forum.surfaces import requests
from forum.surfaces.field_errors import describe_field_error
from forum.surfaces.schemas.costs import CostsFilter
from forum.surfaces.schemas.gates import DecisionReason
from forum.surfaces.schemas.runs import RunsFilter

MAX_WAIT_S = 600
"""Maximum time that a call may wait for a run; after that, the client asks for its status."""

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
        description="What waits: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or "
        "`dissent/NAME`.",
        examples=["plan"],
    ),
]
Wait = Annotated[
    float, Meta(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the run at most.")
]
Key = Annotated[
    Annotated[str, Meta(pattern="^[!-~]{1,200}$")] | None,
    Meta(
        description="A name of yours for this request: asked again under it, nothing is done "
        "twice, and the same run is returned.",
    ),
]
Usd = Annotated[
    Annotated[float, Meta(ge=0)] | None, Meta(description="Dollars that it may cost at most.")
]
Seconds = Annotated[
    Annotated[float, Meta(ge=0)] | None, Meta(description="Seconds that it may take at most.")
]
Question = Annotated[
    Annotated[str, Meta(min_length=1, pattern=r"\S")] | None,
    Meta(description="The question to answer.", examples=["Should we rewrite it?"]),
]
Problem = Annotated[
    Annotated[str, Meta(min_length=1, pattern=r"\S")] | None,
    Meta(description="The name of `question` in the protocol symposium; give only one of them."),
]
Models = Annotated[
    tuple[requests.AgentName, ...],
    Meta(
        max_length=MAX_SEATS, description="Agents that take the seats in turn. Default: all agents."
    ),
]


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


class PlanAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A request, with options for the agent, the approvals and the limits."""

    request: Annotated[
        str, Meta(min_length=1, description="The request.", examples=["Name three rivers."])
    ]
    lane: Annotated[str | None, Meta(description="The lane of the roster that carries it out.")] = (
        None
    )
    team: Annotated[
        bool | None,
        Meta(description="Whether a team of agents plans, judges and combines."),
    ] = None
    budget_usd: Usd = None
    max_seconds: Seconds = None
    gates: Annotated[
        tuple[str, ...],
        Meta(description="What a person approves first: `plan`, `tasks`, `task:NAME`, `dissent`."),
    ] = ()
    tasks: Annotated[
        tuple[requests.TaskAsk, ...], Meta(description="The plan, if there is one already.")
    ] = ()
    ladder: requests.Ladder = ()
    panels: requests.NamedPanels = {}

    @property
    def form(self) -> requests.AskForm:
        """The request in the form that all surfaces share."""
        return requests.AskForm(
            self.request,
            self.tasks,
            self.lane or "",
            self.team,
            budget=make_budget(self.budget_usd, self.max_seconds),
            gates=requests.GateAsk(self.gates) if self.gates else None,
            ladder=self.ladder,
            panels=self.panels,
        )


class McpPreviewAsk(PlanAsk, frozen=True, forbid_unknown_fields=True):
    """A request to plan without carrying it out."""

    record: Annotated[
        bool, Meta(description="Whether to record request and reply; needs the scope submit.")
    ] = False


class SubmitAsk(PlanAsk, frozen=True, forbid_unknown_fields=True):
    """A request to be carried out."""

    key: Key = None
    wait: Annotated[bool, Meta(description="Whether to wait for the answer.")] = True
    seconds: Wait = 50.0


def asked_question(question: str | None, problem: str | None) -> str:
    """Return what is asked, by whichever name.  Raises `Malformed`."""
    if question is None and problem is None:
        raise Malformed("arguments", "Object missing required field `question` (or `problem`)")
    if question is not None and problem is not None:
        raise Malformed("arguments", "`question` and `problem` mean the same; say one of them")
    return question or problem or ""


def without_wait(ask: Struct) -> Struct:
    """Return the arguments without key and wait time, which do not change the request."""
    return msgspec.structs.replace(ask, key=None, seconds=0.0)


class RunAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which run."""

    run: RunName


class TranscriptPageAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which run, and which part of its transcript."""

    run: RunName
    after: Annotated[
        int, Meta(ge=0, lt=2**53, description="The value of `next` of the previous page.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class CancelAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which run, by all of its name."""

    run: Annotated[
        str, Meta(min_length=1, max_length=200, description="A run: the whole of its name.")
    ]


class McpForkAsk(CancelAsk, frozen=True, forbid_unknown_fields=True):
    """The run to fork, and from which entry."""

    at: Annotated[int, Meta(ge=0, lt=2**53, description="The last entry that the new run copies.")]
    key: Key = None


class McpScoreAsk(requests.ScoreAsk, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How good a run, a task or an answer is."""

    run: Annotated[
        str, Meta(min_length=1, max_length=200, description="A run: the whole of its name.")
    ]


class StatusAsk(RunAsk, frozen=True, forbid_unknown_fields=True):
    """Which run, and whether to wait for it."""

    seconds: Wait = 0.0


class RunsAsk(RunsFilter, frozen=True, forbid_unknown_fields=True):
    """Which runs, and which part of the list of runs."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[
        Annotated[str, Meta(max_length=64)] | None,
        Meta(description="The value of `next` of the previous page."),
    ] = None


class DiffAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which two runs."""

    run: RunName
    other: RunName


class McpCostsAsk(CostsFilter, frozen=True, forbid_unknown_fields=True):
    """The runs to add up, the axis to group their costs by, and the page."""

    cursor: Annotated[
        Annotated[str, Meta(max_length=64)] | None,
        Meta(description="The value of `next` of the previous reply."),
    ] = None


class WhyAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entry, and how far back."""

    entry: EntryName
    limit: Annotated[int, Meta(ge=1, le=200, description="At most so many causes.")] = 50


class EntryAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entry."""

    entry: EntryName


class SubjectAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which gate of which run."""

    run: RunName
    subject: GateName


class DecideAsk(SubjectAsk, frozen=True, forbid_unknown_fields=True):
    """A decision at a gate. It names the digest of the content that was decided on."""

    answer: Answer
    digest: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}$",
            description="The digest of the content, as the tool `gate` shows it.",
        ),
    ]
    reason: DecisionReason = ""


ArgumentsT = TypeVar("ArgumentsT", bound=Struct)


def parse_arguments(
    arguments: Mapping[str, Any] | bytes | None, form: type[ArgumentsT]
) -> ArgumentsT:
    """Decode the arguments of a tool, which may be JSON.  Raises `Malformed`."""
    try:
        if isinstance(arguments, bytes):
            data = arguments
        else:
            # Encoded again so that msgspec checks them: the SDK's
            # parser accepts NaN, lone surrogates and any depth.
            data = json.dumps(arguments or {}, allow_nan=False, ensure_ascii=False).encode()
        return msgspec.json.decode(data, type=form)
    except (ValueError, RecursionError) as error:
        raise Malformed("arguments", _shorten_error(error, form)) from None


def _shorten_error(error: Exception, form: type[Struct]) -> str:
    if isinstance(error, UnicodeError):
        return "text that is no Unicode"
    return describe_field_error(error, form)


def make_budget(usd: float | None, seconds: float | None) -> requests.BudgetAsk:
    """Return the limits of a call in the form that all surfaces share."""
    return requests.BudgetAsk(usd=_to_decimal(usd), seconds=_to_decimal(seconds))


def _to_decimal(number: float | None) -> Decimal | None:
    """Return a number exactly as it was written."""
    return None if number is None else Decimal(repr(number))
