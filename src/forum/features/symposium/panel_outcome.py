"""How a session of the open protocol ended, from the view of its run."""

from contextlib import suppress

from forum.app import RunView
from forum.app.formatting import note_body, session_end
from forum.errors import Malformed
from forum.features.symposium.decoders import read_message
from forum.features.symposium.findings import (
    DECISIVE_MESSAGES,
    SessionFindings,
    read_session_findings,
)
from forum.features.symposium.kinds import MessageFacts
from forum.runs.panel_outcome import CouncilOutcome, Dissent


def read_outcome(view: RunView) -> CouncilOutcome | None:
    """Return how far the panel agreed; None without an answer, or if a message was erased."""
    if session_end(view) is None:
        return None
    with suppress(Malformed):
        decisive = (
            note_body(note, "message")
            for note in view.notes
            if isinstance(note.facts, MessageFacts) and note.facts.type in DECISIVE_MESSAGES
        )
        findings = read_session_findings([read_message(body) for body in decisive])
        return _findings_outcome(findings) if findings else None
    return None


def _findings_outcome(findings: SessionFindings) -> CouncilOutcome:
    dissent, blockers = (
        tuple(
            Dissent(
                each.topic,
                tuple(position.agent for position in each.positions),
                "; ".join(f"{position.agent}: {position.claim}" for position in each.positions),
            )
            for each in group
        )
        for group in (findings.dissent, findings.blockers)
    )
    return CouncilOutcome(findings.accord, dissent, blockers)
