"""What a symposium came to: how far its panel agreed, and a text for those who use its answer.

Both follow from its last messages alone, so a verifier makes them again.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from forum.features.symposium import schemas
from forum.features.symposium.kinds import NextAction
from forum.features.symposium.transcript import last_verdict
from forum.runs.council_end import Accord
from forum.runs.finding_lines import clip_line, list_section
from forum.runs.panel import normalize_answer
from forum.runs.symposium_end import MessageType

DECISIVE_MESSAGES = frozenset(
    {MessageType.COORDINATION, MessageType.SYNTHESIS, MessageType.CONTRACTION}
)
"""The messages from which the findings follow."""

_HEADLINES = {
    Accord.AGREED: "The symposium agreed",
    Accord.MAJORITY: "The symposium came to an answer, with a dissent",
    Accord.SPLIT: "The symposium did not converge: a limit ended it before its coordinator did",
    Accord.BLOCKED: "The symposium is blocked: an objection must be answered first",
}


class SessionFindings(msgspec.Struct, frozen=True):
    """How far a symposium agreed, and what it found."""

    accord: Accord
    blockers: tuple[schemas.UnresolvedDisagreement, ...]
    """The objections that must be answered first."""
    dissent: tuple[schemas.UnresolvedDisagreement, ...]
    """What else was not settled."""
    text: str


def read_session_findings(messages: Sequence[schemas.Message]) -> SessionFindings | None:
    """Return what the decisive messages of a session come to; None without a synthesis."""
    if not messages or not isinstance(messages[-1], schemas.Synthesis):
        return None
    content, verdict = messages[-1].content, last_verdict(messages)
    removed = [
        message.content for message in messages if isinstance(message, schemas.PanelContraction)
    ]
    blockers, dissent = _find_open(content, verdict)
    if blockers:
        accord = Accord.BLOCKED
    elif verdict is None or verdict.next_action is not NextAction.FINALIZE:
        accord = Accord.SPLIT
    elif dissent or removed:
        accord = Accord.MAJORITY
    else:
        accord = Accord.AGREED
    lines = _lines(accord, content, blockers, dissent, removed=removed)
    return SessionFindings(accord, blockers, dissent, "\n".join(lines))


_Disagreements = tuple[schemas.UnresolvedDisagreement, ...]


def _find_open(
    content: schemas.SynthesisContent, verdict: schemas.CoordinatorVerdict | None
) -> tuple[_Disagreements, _Disagreements]:
    """Return the objections that nobody answered, and what else is left open.

    What the last verdict left open stays open unless the synthesis settles its topic: a coordinator
    that does not mention an objection, or mentions it as a mere dissent, has not answered it.
    """
    own = content.unresolved_disagreements
    settled = _topics(content.resolved_disagreements) - _topics(own)
    earlier = verdict.unresolved_disagreements if verdict else ()
    open_before = [each for each in earlier if _topic(each) not in settled]
    vetoes = [each for each in own if each.blocker]
    vetoes += [each for each in open_before if each.blocker and _topic(each) not in _topics(vetoes)]
    rest = (*own, *(each for each in open_before if _topic(each) not in _topics(own)))
    dissent = tuple(each for each in rest if _topic(each) not in _topics(vetoes))
    return tuple(vetoes), dissent


def _topics(
    disagreements: Iterable[schemas.ResolvedDisagreement | schemas.UnresolvedDisagreement],
) -> set[str]:
    return set(map(_topic, disagreements))


def _topic(each: schemas.ResolvedDisagreement | schemas.UnresolvedDisagreement) -> str:
    return normalize_answer(each.topic)


def _lines(
    accord: Accord,
    content: schemas.SynthesisContent,
    blockers: Sequence[schemas.UnresolvedDisagreement],
    dissent: Sequence[schemas.UnresolvedDisagreement],
    removed: Sequence[schemas.Contraction],
) -> Iterator[str]:
    yield f"{_HEADLINES[accord]}."
    yield f"Answer: {clip_line(content.integrated_answer)}"
    settled = [
        f"{clip_line(each.topic)}: {clip_line(each.resolution)}"
        for each in content.resolved_disagreements
    ]
    yield from list_section("Settled", settled)
    yield from list_section("Dissent", [_describe_disagreement(each) for each in dissent])
    yield from list_section(
        "Objections that must be answered first",
        [_describe_disagreement(each) for each in blockers],
    )
    yield from list_section("Open questions", [clip_line(each) for each in content.open_questions])
    gone = [f"{clip_line(each.agent_id)} ({each.reason})" for each in removed]
    yield from list_section("Left the panel", gone)


def _describe_disagreement(each: schemas.UnresolvedDisagreement) -> str:
    held = "; ".join(
        f"{clip_line(position.agent)}: {clip_line(position.claim)}" for position in each.positions
    )
    return f"{clip_line(each.topic)} ({clip_line(held)})"
