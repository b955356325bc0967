"""What a council found, as a text for those who use its answer.

Tasks that need the answer, the answer of the run and the person at a gate are shown this text. It
follows from the report alone, so a verifier makes it again.
"""

from collections.abc import Iterator

from forum.deliberation.council_kinds import Accord, Ground
from forum.deliberation.council_report import Argument, CouncilReport, MinorityPosition

MAX_FINDINGS = 10
"""How many claims, positions, objections and questions of each kind are told."""
MAX_FINDING_CHARS = 500
"""How much of each is told."""

_HEADLINES = {
    Accord.AGREED: "The council agreed",
    Accord.MAJORITY: "The council decided by a majority",
    Accord.SPLIT: "The council is split: no answer has a majority of its seats",
    Accord.BLOCKED: "The council is blocked: a seat has an objection that must be answered first",
}


def describe_findings(report: CouncilReport) -> str:
    """Return the accord, the claims for the answer, the dissent and the objections."""
    return "\n".join(_lines(report))


def _lines(report: CouncilReport) -> Iterator[str]:
    held = len(report.holders)
    seats = f" ({held} of {len(report.seats)} seats)" if held else ""
    yield f"{_HEADLINES[report.accord]}{seats}."
    if report.answer:
        by = "" if report.ground is not Ground.NONE else ", which nothing supports"
        yield f"Answer{by}: {_clip(report.answer)}"
    yield from _section("Why", [_describe_claim(claim) for claim in report.claims])
    yield from _section("Dissent", [_describe_position(each) for each in report.minority])
    objections = [f"seat {each.seat}: {_clip(each.text)}" for each in report.blockers]
    yield from _section("Objections that must be answered first", objections)
    yield from _section("What would decide", [_clip(each) for each in report.decisive])


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"- {line}" for line in lines[:MAX_FINDINGS])
    if len(lines) > MAX_FINDINGS:
        yield f"- and {len(lines) - MAX_FINDINGS} more"


def _describe_claim(claim: Argument) -> str:
    source = f" [{_clip(claim.evidence)}]" if claim.evidence else ""
    attacks = "".join(f"; against it: {_clip(attack)}" for attack in claim.attacks[:MAX_FINDINGS])
    return f"{_clip(claim.claim)}{source} ({claim.status.value}){attacks}"


def _describe_position(position: MinorityPosition) -> str:
    noun = "seat" if len(position.seats) == 1 else "seats"
    seats = ", ".join(map(str, position.seats))
    why = f": {_describe_claim(position.argument)}" if position.argument else ""
    return f"{_clip(position.answer)} ({noun} {seats}){why}"


def _clip(text: str) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text[: 2 * MAX_FINDING_CHARS].split())
    return line if len(line) <= MAX_FINDING_CHARS else f"{line[: MAX_FINDING_CHARS - 1]}…"
