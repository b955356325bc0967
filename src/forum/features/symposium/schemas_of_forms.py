"""Sessions of the open protocol, and checks of their artifacts."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import RunView
from forum.app.formatting import note_body, session_end
from forum.features.symposium import kinds, schemas
from forum.features.symposium.decoders import read_message, read_selection, read_termination
from forum.features.symposium.transcript import (
    digest_messages,
    message_text,
    message_type,
    pending_request,
)
from forum.runs.panel import Symposium
from forum.surfaces.schemas.fields import RunId, SpentForm, fill, spent_form
from forum.units import NANO_USD


class SpokenForm(Struct, frozen=True):
    """A message of a session."""

    id: str
    round: int
    turn: int
    type: kinds.MessageType
    speaker: str
    text: str
    spent: SpentForm


class SymposiumForm(Struct, frozen=True, tag="symposium", tag_field="protocol"):
    """A session of the open protocol: who said what, and how it ended."""

    session: Annotated[str | None, Meta(description="Its id; null if that was erased.")]
    panel: tuple[str, ...]
    rounds: int
    messages: tuple[SpokenForm, ...]
    outcome: Annotated[kinds.OutcomeKind | None, Meta(description="Null while it goes on.")]
    reason: Annotated[kinds.Reason | None, Meta(description="Why there is no synthesis.")]
    pending: Annotated[str | None, Meta(description="What the panel wants to know.")]
    unresolved: Annotated[tuple[str, ...], Meta(description="What it left open.")]
    digest: Annotated[str | None, Meta(description="SHA-256 of the canonical transcript.")]
    spent: SpentForm | None


def symposium_form(view: RunView) -> SymposiumForm:
    """Return what is told of a session of the open protocol, in its form."""
    closed = session_end(view)
    notes = {type(note.facts): note for note in view.notes}
    panel = note_body(notes[kinds.PanelFacts], "panel") if kinds.PanelFacts in notes else b""
    ended = note_body(notes[type(closed)], "termination") if closed else b""
    ending = read_termination(ended) if ended else None
    messages = [
        read_message(body)
        for note in view.notes
        if isinstance(note.facts, kinds.MessageFacts) and (body := note_body(note, "message"))
    ]
    return SymposiumForm(
        session=_session_id(view),
        panel=read_selection(panel).selected_agents if panel else (),
        rounds=max((message.round for message in messages), default=0),
        messages=tuple(map(_spoken_form, messages)),
        outcome=closed.outcome if closed else None,
        reason=closed.reason or None if closed else None,
        pending=pending_request(ending),
        unresolved=_unresolved(messages, ending),
        digest=_transcript_digest(view, closed),
        spent=spent_form(closed.usd, closed.tokens) if closed else None,
    )


def _transcript_digest(view: RunView, closed: kinds.SymposiumClose | None) -> str | None:
    """Return the recorded digest of a transcript, or that of its messages if none was erased."""
    if isinstance(closed, kinds.SymposiumCloseFacts):
        return closed.digest
    notes = [note for note in view.notes if isinstance(note.facts, kinds.MessageFacts)]
    messages = [note_body(note, "message") for note in notes]
    return digest_messages(map(read_message, messages)) if closed and all(messages) else None


def _session_id(view: RunView) -> str | None:
    panel = view.session.policy.panel if view.session else None
    return str(panel.config.get("session_id")) if isinstance(panel, Symposium) else None


def _spoken_form(message: schemas.Message) -> SpokenForm:
    usage = message.usage
    return fill(
        SpokenForm,
        message,
        turn=message.turn_index,
        type=message_type(message),
        text=message_text(message),
        spent=spent_form(round(usage.cost_usd * NANO_USD), usage.total_tokens),
    )


def _unresolved(
    messages: Sequence[schemas.Message], ending: schemas.TerminationArtifact | None
) -> tuple[str, ...]:
    last = messages[-1] if messages else None
    left = ending or (last.content if isinstance(last, schemas.Synthesis) else None)
    return tuple(item.topic for item in left.unresolved_disagreements) if left else ()


class FaultForm(Struct, frozen=True):
    """An invariant that an artifact violates, and where."""

    law: str
    where: str
    why: str


class ArtifactForm(Struct, frozen=True):
    """The result of a check of the artifact of a session."""

    session: str | None
    holds: bool
    faults: tuple[FaultForm, ...]
    digest: Annotated[str | None, Meta(description="What its transcript comes to now.")] = None
    stored: Annotated[str | None, Meta(description="What the artifact says of it.")] = None
    messages: Annotated[int | None, Meta(description="How many were read again.")] = None
    parted: Annotated[str | None, Meta(description="The first message that is another.")] = None
    run: Annotated[RunId | None, Meta(description="The run that it was compared with.")] = None
    pin: Annotated[
        kinds.ReplayPin | None, Meta(description="The first pin that could not be held.")
    ] = None
    conditions_checked: Annotated[
        tuple[kinds.ReplayPin, ...] | None,
        Meta(description="Pins of an execution replay that are stated twice, and the same."),
    ] = None
    conditions_assumed: Annotated[
        tuple[kinds.ReplayPin, ...] | None,
        Meta(description="Pins of an execution replay that were taken over, not compared."),
    ] = None
