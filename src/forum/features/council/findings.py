"""What a council found, as a text for those who use its answer.

Tasks that need the answer, the answer of the run and the person at a gate are shown this text. It
follows from the report alone, so a verifier makes it again.
"""

from collections.abc import Iterator

from forum.features.council.kinds import Accord, Ground
from forum.features.council.report import Argument, CouncilReport, MinorityPosition
from forum.runs.finding_lines import MAX_FINDINGS, clip_line, list_section

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
    seats = f" ({held} of {len(report.seats) + len(report.absent)} seats)" if held else ""
    yield f"{_HEADLINES[report.accord]}{seats}."
    if report.answer:
        by = "" if report.ground is not Ground.NONE else ", which nothing supports"
        yield f"Answer{by}: {clip_line(report.answer)}"
    yield from list_section("Why", [_describe_claim(claim) for claim in report.claims])
    yield from list_section("Dissent", [_describe_position(each) for each in report.minority])
    objections = [f"seat {each.seat}: {clip_line(each.text)}" for each in report.blockers]
    yield from list_section("Objections that must be answered first", objections)
    yield from list_section("Cast no ballot", [f"seat {seat}" for seat in report.absent])
    yield from list_section("What would decide", [clip_line(each) for each in report.decisive])


def _describe_claim(claim: Argument) -> str:
    source = f" [{clip_line(claim.evidence)}]" if claim.evidence else ""
    attacks = "".join(
        f"; against it: {clip_line(attack)}" for attack in claim.attacks[:MAX_FINDINGS]
    )
    return f"{clip_line(claim.claim)}{source} ({claim.status.value}){attacks}"


def _describe_position(position: MinorityPosition) -> str:
    noun = "seat" if len(position.seats) == 1 else "seats"
    seats = ", ".join(map(str, position.seats))
    why = f": {_describe_claim(position.argument)}" if position.argument else ""
    return f"{clip_line(position.answer)} ({noun} {seats}){why}"
