"""Gates: what waits for a person, and what was decided."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from forum.surfaces.forms.fields import Moment, RunId
from forum.surfaces.telling import iso
from forum.work import Answer, Decider, Gate

Subject = Annotated[
    str,
    Meta(
        description="What waits at a gate: `plan`, `task/NAME` or `effect/NAME/N`.",
        examples=["plan", "task/announce"],
    ),
]
Digest = Annotated[
    str,
    Meta(description="The digest of what a gate shows; a decision names it."),
]


class GateForm(Struct, frozen=True):
    """Something that waits, or waited, for a decision."""

    run: RunId
    subject: Subject
    digest: Digest
    decided: Answer | None
    by: Decider | None
    default: Annotated[Answer, Meta(description="What holds when nobody decides in time.")]
    deadline: Moment


def gate_form(run: str, gate: Gate) -> GateForm:
    """Return a gate of a run, in its form."""
    return GateForm(run, *_gate_facts(gate))


class ShownGateForm(GateForm, frozen=True):
    """A gate with what waits at it."""

    shown: str


def shown_gate_form(run: str, gate: Gate, shown: bytes) -> ShownGateForm:
    """Return a gate of a run with what it shows; bytes that are no text are replaced."""
    return ShownGateForm(run, *_gate_facts(gate), shown.decode(errors="replace"))


def _gate_facts(gate: Gate) -> tuple[str, str, Answer | None, Decider | None, Answer, str]:
    decided, opened = gate.decided, gate.opened
    return (
        opened.subject,
        gate.digest,
        decided.answer if decided else None,
        decided.by if decided else None,
        opened.default,
        iso(gate.deadline),
    )


class GatesForm(Struct, frozen=True):
    """Everything that waits for a person."""

    gates: tuple[GateForm, ...]


def gates_form(found: Iterable[tuple[str, Gate]]) -> GatesForm:
    """Return gates with their runs, in their form."""
    return GatesForm(tuple(gate_form(run, gate) for run, gate in found))


class DecisionForm(Struct, frozen=True):
    """What was decided at a gate."""

    run: RunId
    subject: Subject
    answer: Answer
    digest: Digest


class GateEditForm(Struct, frozen=True):
    """What was replaced at a gate; it waits still, under this digest."""

    run: RunId
    subject: Subject
    digest: Digest


class WaitForm(Struct, frozen=True):
    """What a run waits for: a gate of its own, or of a run within it."""

    run: RunId
    subject: Subject
