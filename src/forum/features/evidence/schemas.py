"""What a verifier has checked of an evidence pack, and what it found."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.features.evidence.audit import PackFinding, PackResult
from forum.surfaces.schemas.fields import fill
from forum.surfaces.schemas.reports import AnswerForm, ReportedWitnessState
from forum.verify import WitnessState


class PackForm(Struct, frozen=True):
    """What was checked of an evidence pack, what was found, and what was not checked."""

    ok: Annotated[bool, Meta(description="Whether all claims hold and nothing was found.")]
    origin: str
    size: int
    root: str
    since: str
    until: str
    intact: AnswerForm
    complete: AnswerForm
    independent: AnswerForm
    figures: AnswerForm
    attested: AnswerForm
    findings: tuple[PackFinding, ...]
    found: Annotated[int, Meta(description="How many findings there are; a hundred are listed.")]
    not_checked: tuple[str, ...]
    witnessing: ReportedWitnessState = WitnessState.NONE
    counted_by: Annotated[
        str,
        Meta(
            description="What decides which entries are in the period: `witnessed` or `writer`; "
            "empty if no figure was computed."
        ),
    ] = ""


def pack_form(result: PackResult) -> PackForm:
    """Return the result of checking a pack, in its form."""
    return fill(PackForm, result)
