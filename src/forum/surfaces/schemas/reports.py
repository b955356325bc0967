"""Reports of verifiers: what was checked, and the findings."""

from typing import Annotated

from msgspec import Meta, Struct

from forum import verify
from forum.surfaces.schemas.fields import Index, fill


class AnswerForm(Struct, frozen=True):
    """Whether a claim holds, and why."""

    state: verify.State
    reason: str


class FindingForm(Struct, frozen=True):
    """A finding: what is wrong, and where."""

    problem: verify.Problem
    detail: str
    index: Index | None
    entry: Annotated[str | None, Meta(description="Where the entry stands: run/strand/n.")]
    claim: Annotated[verify.Claim, Meta(description="The claim that it refutes.")]


ReportedWitnessState = Annotated[
    verify.WitnessState,
    Meta(
        description="Who has seen it: `independent` only if your trust file marks a witness that "
        "cosigned it as another organization's; otherwise `self-witnessed` or `none`."
    ),
]


class ReportForm(Struct, frozen=True):
    """What was checked, what was found, and what was not checked."""

    ok: Annotated[bool, Meta(description="Whether all three claims hold.")]
    origin: str
    size: int
    root: str
    intact: AnswerForm
    complete: AnswerForm
    independent: AnswerForm
    findings: tuple[FindingForm, ...]
    found: Annotated[int, Meta(description="How many findings there are; a thousand are listed.")]
    not_checked: tuple[str, ...]
    entries: int
    runs: int
    open_runs: tuple[str, ...]
    bodies: verify.Bodies
    pending: Annotated[int, Meta(description="Entries that are newer than the checkpoint.")]
    sightings: tuple[verify.Sighting, ...]
    epochs: Annotated[
        tuple[verify.EpochSummary, ...],
        Meta(description="The earlier logs that a ledger continues, the newest first."),
    ]
    notices: Annotated[tuple[str, ...], Meta(description="Remarks that are not findings.")] = ()
    coverage: Annotated[
        verify.Coverage,
        Meta(description="How the runs are known, and which steps are known to be missing."),
    ] = verify.Coverage()
    witnessing: ReportedWitnessState = verify.WitnessState.NONE
    interval: Annotated[
        verify.Interval | None,
        Meta(
            description="When the run of a bundle was written, in seconds since 1970, as witnesses "
            "prove it; null where that was not checked, and for a whole ledger."
        ),
    ] = None


def report_form(report: verify.Report) -> ReportForm:
    """Return a report, in its form."""
    findings = (
        fill(FindingForm, finding, claim=finding.problem.claim) for finding in report.findings
    )
    return fill(ReportForm, report, findings=findings)
