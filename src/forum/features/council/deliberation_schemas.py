"""The result of a panel, for every protocol."""

import msgspec

from forum.app import RunView
from forum.app.formatting import note_body
from forum.features.council.ballots import Ballot
from forum.features.council.kinds import (
    BallotFacts,
    CouncilCloseFacts,
    CouncilFacts,
    RevealFacts,
    RevealV2Facts,
)
from forum.features.council.schemas import CouncilForm, council_form
from forum.features.symposium.kinds import MessageFacts, MessageType
from forum.features.symposium.schemas_of_forms import SymposiumForm, symposium_form

DeliberationForm = CouncilForm | SymposiumForm


def deliberation_form(view: RunView) -> DeliberationForm | None:
    """Return what is told of a deliberation, if the run is one."""
    facts = [note.facts for note in view.notes]
    if any(isinstance(fact, CouncilFacts) for fact in facts):
        return council_form(view)
    return symposium_form(view) if any(isinstance(fact, MessageFacts) for fact in facts) else None


class SpokenTurn(msgspec.Struct, frozen=True):
    """The words of one turn of a panel."""

    speaker: str
    text: str


MAX_SPOKEN_CHARS = 4000
"""Limit of the words of one turn that are shown while a panel goes on; its record has them all."""
_ballot = msgspec.json.Decoder(Ballot)
_SILENT = frozenset({MessageType.PROBLEM, MessageType.SYNTHESIS})
"""Messages that a reader has anyway: the question and the answer."""


def spoken_turns(view: RunView) -> list[SpokenTurn]:
    """Return the words of the turns of a panel so far, in the order in which they may be read.

    The ballots of a council are sealed: they are there once their round is revealed, or over.
    """
    form = deliberation_form(view)
    if isinstance(form, SymposiumForm):
        return [
            SpokenTurn(message.speaker, message.text)
            for message in form.messages
            if message.type not in _SILENT
        ]
    return [] if form is None else _revealed_ballots(view)


def _revealed_ballots(view: RunView) -> list[SpokenTurn]:
    facts = [note.facts for note in view.notes]
    is_over = any(isinstance(fact, CouncilCloseFacts) for fact in facts)
    revealed = {fact.round for fact in facts if isinstance(fact, RevealFacts | RevealV2Facts)}
    cast = [
        (note.facts.round, note.facts.seat, _ballot.decode(body))
        for note in view.notes
        if isinstance(note.facts, BallotFacts) and (body := note_body(note, "ballot"))
    ]
    return [
        SpokenTurn(f"seat {seat}, round {number}", _ballot_text(ballot))
        for number, seat, ballot in sorted(cast, key=lambda one: one[:2])
        if is_over or number in revealed
    ]


def _ballot_text(ballot: Ballot) -> str:
    claims = "".join(f"; {claim.text}" for claim in ballot.claims)
    blocker = f"; blocks: {ballot.blocker}" if ballot.blocker else ""
    return f"{ballot.answer} ({ballot.confidence} %){claims}{blocker}"
