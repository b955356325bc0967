"""What a verifier has checked, and what it found."""

from typing import Annotated

from msgspec import Meta, Struct

from forum import verify
from forum.surfaces.schemas.fields import Index


class AnswerForm(Struct, frozen=True):
    """Whether a claim holds, and why."""

    state: verify.State
    reason: str


class FindingForm(Struct, frozen=True):
    """One thing that is wrong, and where."""

    problem: verify.Problem
    detail: str
    index: Index | None
    entry: Annotated[str | None, Meta(description="Where the entry stands: run/strand/n.")]
    claim: Annotated[verify.Claim, Meta(description="The claim that it refutes.")]


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
    notices: Annotated[
        tuple[str, ...], Meta(description="What is no finding and yet to be known.")
    ] = ()


def report_form(report: verify.Report) -> ReportForm:
    """Return a report, in its form."""
    words = (report.intact, report.complete, report.independent)
    intact, complete, independent = (AnswerForm(word.state, word.reason) for word in words)
    return ReportForm(
        ok=report.ok,
        origin=report.origin,
        size=report.size,
        root=report.root,
        intact=intact,
        complete=complete,
        independent=independent,
        findings=tuple(_finding_form(finding) for finding in report.findings),
        found=report.found,
        not_checked=report.not_checked,
        entries=report.entries,
        runs=report.runs,
        open_runs=report.open_runs,
        bodies=report.bodies,
        pending=report.pending,
        sightings=report.sightings,
        epochs=report.epochs,
        notices=report.notices,
    )


def _finding_form(finding: verify.Finding) -> FindingForm:
    problem = finding.problem
    return FindingForm(problem, finding.detail, finding.index, finding.entry, problem.claim)
