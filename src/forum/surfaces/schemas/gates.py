"""Gates: what waits for a person, and what was decided."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import ExplainedGate, GateOrigin, LocatedGate
from forum.runs.policy import Answer
from forum.runs.run_fold import Gate
from forum.surfaces.gate_effects import describe_gate_effects
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.fields import AmountForm, CapForm, Index, Moment, RunId
from forum.surfaces.schemas.reported import ProvenanceWord

Subject = Annotated[
    str,
    Meta(
        description="What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or "
        "`dissent/NAME`.",
        examples=["plan", "task/announce"],
    ),
]
Digest = Annotated[
    str,
    Meta(description="The digest of what a gate shows; a decision names it."),
]


MAX_REASON_CHARS = 20_000
DecisionReason = Annotated[
    str,
    Meta(
        max_length=MAX_REASON_CHARS,
        description="Why; recorded with the decision, in a body that can be erased.",
        examples=["Checked against the budget of March."],
    ),
]


class DecidedBy(StrEnum):
    """Who or what decided a gate."""

    PERSON = "person"
    KEY = "key"
    OPERATOR = "operator"
    DEADLINE = "deadline"
    END = "end"


class GateForm(Struct, frozen=True):
    """A gate: something that waits, or has waited, for a decision."""

    run: RunId
    subject: Subject
    digest: Digest
    decided: Answer | None
    by: DecidedBy | None
    default: Annotated[
        Answer, Meta(description="The decision that takes effect if nobody decides in time.")
    ]
    deadline: Moment
    provenance: ProvenanceWord
    asked_by: Annotated[
        str,
        Meta(
            description="Who asks: the actor that submitted the run, or the key or process that "
            "reports it. A gate of a run that is not `driven` shows what its program says."
        ),
    ]


def gate_form(run: str, gate: Gate, origin: GateOrigin) -> GateForm:
    """Return a gate of a run, in its form."""
    return fields.fill(GateForm, origin, **_gate_facts(run, gate))


class LocatedGateForm(GateForm, frozen=True):
    """A gate, with the data that is needed to check its digest."""

    index: Annotated[
        Index | None,
        Meta(description="The entry that commits to what is shown; null until it has an index."),
    ]
    salt: Annotated[
        str | None,
        Meta(
            description="The salt of the body `shown` of that entry, in hexadecimal digits: the "
            "digest is the salted commitment to the body. Null if it was erased."
        ),
    ]


class GateResult(Struct, frozen=True):
    """The output of a task that a decision is about."""

    task: str
    result: str


class ShownGateForm(LocatedGateForm, frozen=True):
    """A gate, with the content that waits at it and the results that the decision is about."""

    shown: str
    request: Annotated[fields.RecordedText | None, Meta(description="Null if it was erased.")]
    results: Annotated[
        tuple[GateResult, ...],
        Meta(description="Of the tasks that it waits for; of an effect, also what its agent said."),
    ]
    if_approved: Annotated[str, Meta(description="What an approval leads to.")]
    if_rejected: Annotated[str, Meta(description="What a rejection leads to.")]
    spent: AmountForm
    cap: CapForm
    reason: Annotated[
        fields.RecordedText | None,
        Meta(description="The reason of the decision, if one was given."),
    ]


def shown_gate_form(question: ExplainedGate) -> ShownGateForm:
    """Return a gate of a run with everything that a decision at it is about."""
    effects = describe_gate_effects(question)
    return fields.fill(
        ShownGateForm,
        question,
        **_located_facts(question.located),
        shown=question.shown.decode(errors="replace"),
        results=tuple(
            GateResult(task, data.decode(errors="replace")) for task, data in question.results
        ),
        if_approved=effects.if_approved,
        if_rejected=effects.if_rejected,
        cap=fields.cap_form(question.cap, question.milliseconds),
    )


def _gate_facts(run: str, gate: Gate) -> dict[str, object]:
    decided, opened = gate.decided, gate.opened
    return {
        "run": run,
        "subject": opened.subject,
        "digest": gate.digest,
        "decided": decided.answer if decided else None,
        "by": DecidedBy(decided.by.value) if decided else None,
        "default": opened.default,
        "deadline": gate.deadline,
    }


def _located_facts(located: LocatedGate) -> dict[str, object]:
    return _gate_facts(located.run, located.gate) | {
        "provenance": located.origin.provenance,
        "asked_by": located.origin.asked_by,
        "index": located.index,
        "salt": None if located.salt is None else located.salt.hex(),
    }


class GatesForm(Struct, frozen=True):
    """Everything that waits for a person."""

    gates: tuple[LocatedGateForm, ...]


def gates_form(gates: Iterable[LocatedGate]) -> GatesForm:
    """Return gates in their form."""
    return GatesForm(
        tuple(fields.fill(LocatedGateForm, gate, **_located_facts(gate)) for gate in gates)
    )


class DecisionForm(Struct, frozen=True):
    """What was decided at a gate."""

    run: RunId
    subject: Subject
    answer: Answer
    digest: Digest


class GateEditForm(Struct, frozen=True):
    """The content that replaced another at a gate. The gate is still open, with this digest."""

    run: RunId
    subject: Subject
    digest: Digest


class WaitForm(Struct, frozen=True):
    """A gate that a run waits for: its own, or one of a run within it."""

    run: RunId
    subject: Subject
