"""What the views of runs show of a session of the open protocol."""

from collections.abc import Sequence

from forum.app import RunView
from forum.app.formatting import note_body, session_end
from forum.features.symposium import kinds, schemas
from forum.features.symposium.decoders import read_message, read_selection, read_termination
from forum.features.symposium.kinds import MessageFacts
from forum.features.symposium.transcript import (
    digest_messages,
    message_text,
    message_type,
    pending_request,
)
from forum.runs.panel import Symposium
from forum.runs.symposium_end import MessageType
from forum.surfaces.schemas.fields import fill, spent_form
from forum.surfaces.schemas.panels import SpokenForm, SpokenTurn, SymposiumForm
from forum.units import NANO_USD

_SILENT = frozenset({MessageType.PROBLEM, MessageType.SYNTHESIS})
"""Messages that a reader has anyway: the question and the answer."""


class SymposiumView:
    """Reads sessions of the protocol from the views of their runs."""

    def read_form(self, view: RunView) -> SymposiumForm | None:
        """Return the result of a session; None before its first message."""
        has_begun = any(isinstance(note.facts, MessageFacts) for note in view.notes)
        return symposium_form(view) if has_begun else None

    def read_words(self, view: RunView) -> list[SpokenTurn]:
        """Return what the panel has said so far."""
        form = self.read_form(view)
        return [
            SpokenTurn(message.speaker, message.text)
            for message in (form.messages if form else ())
            if message.type not in _SILENT
        ]


VIEW = SymposiumView()


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
