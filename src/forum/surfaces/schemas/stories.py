"""A summary of what a bundle proves: request, answer, times, people and cost."""

from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import RunView
from forum.app.formatting import explain_failure, undecided_headline, view_word
from forum.app.reported_runs import describe_gaps, describe_provenance
from forum.ledger.kinds import Outcome, RunOpenFacts
from forum.runs.kinds import AcceptedFacts, GateDecisionByFacts, GateDecisionFacts
from forum.runs.report_kinds import Operation, ReportSourceFacts
from forum.runs.run_record import RunRecord
from forum.runs.run_words import count_cap_refusals, is_cap_refusal
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.reported import ProvenanceWord
from forum.surfaces.schemas.reports import ReportForm
from forum.units import format_rfc3339
from forum.verify import Report


class DecisionLine(Struct, frozen=True):
    """A decision at a gate, with its time and its author."""

    subject: str
    answer: str
    by: str
    actor: str
    at: fields.Moment


class WitnessLine(Struct, frozen=True):
    """A witness that cosigned the log of the bundle, and the time that it states."""

    witness: str
    at: fields.Moment
    same_machine: bool
    independent: bool = False


class StoryForm(Struct, frozen=True):
    """A summary of a run: request, answer, times, people, cost and witnesses."""

    run: fields.RunId
    request: Annotated[fields.RecordedText | None, Meta(description="Null if it was erased.")]
    asked_by: str
    asked_at: Annotated[fields.Moment, Meta(description="By the clock of the writer.")]
    answer: Annotated[
        fields.RecordedText | None, Meta(description="Null if there is none, or it was erased.")
    ]
    outcome: Annotated[Outcome | None, Meta(description="Null if the run had not ended.")]
    ended_at: fields.Moment | None
    why: Annotated[str | None, Meta(description="Why it failed, if it did.")]
    spent: fields.AmountForm
    models: Annotated[dict[str, int], Meta(description="Who answered, and how many calls.")]
    decisions: tuple[DecisionLine, ...]
    witnesses: tuple[WitnessLine, ...]
    provenance: ProvenanceWord
    known: Annotated[
        str, Meta(description="How Forum knows of the run, and what may be missing in it.")
    ]
    name: Annotated[str | None, Meta(description="The name of a run that Forum does not drive.")]
    spans: int
    gaps: Annotated[str | None, Meta(description="Steps that are known to be missing.")]
    title: Annotated[
        str | None,
        Meta(description="The command or name of such a run, and its first message to a model."),
    ] = None
    word: Annotated[str, Meta(description="The one word for its state that all surfaces show.")] = (
        ""
    )
    refused: Annotated[int, Meta(description="How many calls a cap refused.")] = 0


class BundleReport(ReportForm, frozen=True, kw_only=True):
    """The report of a bundle, with the story of what it proves, or of what it claims."""

    story: StoryForm | None


def story_form(record: RunRecord, view: RunView, report: Report) -> StoryForm:
    """Return the story that a bundle tells."""
    state = view.state
    # A run that Forum does not drive has no request; its source or its opening stands for that.
    wanted = (AcceptedFacts,) if state.accepted is not None else (ReportSourceFacts, RunOpenFacts)
    heads = [located.entry for located in record.entries if isinstance(located.entry.facts, wanted)]
    accepted = max(heads, key=lambda entry: entry.n)
    return fields.fill(
        StoryForm,
        view,
        run=record.run,
        asked_by=accepted.actor,
        asked_at=accepted.ts,
        answer=None if view.answer is None else view.answer.decode(errors="replace"),
        outcome=state.outcome,
        ended_at=format_rfc3339(state.ended) if state.outcome is not None else None,
        why=explain_failure(view) or undecided_headline(view),
        spent=state.spent,
        models=_models(view),
        decisions=_decisions(record),
        witnesses=(
            fields.fill(WitnessLine, seen, at=1_000_000 * seen.time) for seen in report.sightings
        ),
        provenance=state.provenance,
        known=describe_provenance(state),
        spans=len(state.report.spans),
        gaps=describe_gaps(state),
        word=view_word(view),
        refused=count_cap_refusals(state),
    )


def _models(view: RunView) -> dict[str, int]:
    """Count the calls of each model, by the name that it gave itself where it gave one.

    Calls that a cap refused were not made.
    """
    own = (task for task in view.state.tasks.values() if task.delegated is None)
    calls = (call for task in own for call in task.calls)
    named = [(call.replied and call.replied.model) or call.called.model for call in calls]
    spans = view.state.report.spans.values()
    named += [
        span.model
        for span in spans
        if span.op is Operation.MODEL and span.model and not is_cap_refusal(span.ended)
    ]
    return dict(sorted(Counter(named).items()))


def _decisions(record: RunRecord) -> list[DecisionLine]:
    decided = [
        located.entry
        for located in record.entries
        if isinstance(located.entry.facts, GateDecisionFacts | GateDecisionByFacts)
    ]
    return [
        DecisionLine(
            subject=entry.strand.partition("/")[2],
            answer=entry.facts.answer.value,
            by=entry.facts.by.value,
            actor=entry.actor,
            at=format_rfc3339(entry.ts),
        )
        for entry in decided
    ]
