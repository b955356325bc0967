"""Two runs side by side: the cost of each, and where they first differ."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from forum import units
from forum.app import Forum, RunReads, RunView, formatting
from forum.errors import ReplayMiss
from forum.runs.record_figures import RecordFigures
from forum.runs.report_kinds import Provenance
from forum.runs.run_comparison import Divergence, DivergenceKind, RunStep
from forum.surfaces.schemas.fields import RunId, Seconds, Usd, fill
from forum.surfaces.schemas.figures import RecordForm, record_form
from forum.surfaces.schemas.reported import ProvenanceWord

DifferenceCount = Annotated[int, Meta(description="How many steps differ; a thousand are listed.")]
_MAX_DIVERGENCES = 1000
"""How many divergences are listed."""


class MeasureForm(Struct, frozen=True):
    """Measures of a run: its work, cost and duration."""

    run: RunId
    outcome: Annotated[str, Meta(description="The word for its state, as in lists.")]
    passed: int
    tasks: int
    attempts: int
    calls: int
    lost: int
    tokens: int
    usd: Usd
    seconds: Seconds
    slowest_task: str | None
    slowest_seconds: float | None
    provenance: ProvenanceWord
    spans: int
    record: RecordForm


def measure_form(view: RunView, record: RecordFigures) -> MeasureForm:
    """Return a run in numbers."""
    state = view.state
    times = {name: formatting.task_duration(task, view.at) for name, task in state.tasks.items()}
    slowest = max(times, key=lambda name: times[name], default=None)
    passed, tasks = formatting.count_progress(state)
    return MeasureForm(
        run=view.run,
        outcome=formatting.view_word(view),
        passed=passed,
        tasks=tasks,
        attempts=sum(task.attempts for task in state.tasks.values()),
        calls=state.spent.calls,
        lost=sum(formatting.count_lost_calls(task) for task in state.tasks.values()),
        tokens=state.spent.tokens,
        usd=units.format_usd(state.spent.usd),
        seconds=round(formatting.run_duration(view) / 1e6, 3),
        slowest_task=slowest,
        slowest_seconds=round(times[slowest] / 1e6, 3) if slowest else None,
        provenance=state.provenance,
        spans=len(state.report.spans),
        record=record_form(record),
    )


class DifferenceForm(Struct, frozen=True):
    """The measures of the second run minus those of the first."""

    passed: int
    attempts: int
    calls: int
    lost: int
    tokens: int
    usd: Annotated[str, Meta(description="Dollars, as a text.", examples=["-0.012"])]
    seconds: float
    verdicts: int
    checks: int
    escalations: int
    stops: int
    entries: int
    bodies: int
    body_bytes: int


def _difference_form(a: MeasureForm, b: MeasureForm) -> DifferenceForm:
    first, second = _counts_of(a), _counts_of(b)
    return DifferenceForm(
        **{name: count - first[name] for name, count in second.items()},
        usd=str(Decimal(b.usd) - Decimal(a.usd)),
        seconds=round(b.seconds - a.seconds, 3),
    )


def _counts_of(measured: MeasureForm) -> dict[str, int]:
    """Return the members of a measured run and of its record that are subtracted as they are."""
    record = measured.record
    own = ("passed", "attempts", "calls", "lost", "tokens")
    recorded = ("escalations", "entries", "bodies", "body_bytes")
    return {
        **{name: getattr(measured, name) for name in own},
        **{name: getattr(record, name) for name in recorded},
        **{name: sum(getattr(record, name).values()) for name in ("verdicts", "checks", "stops")},
    }


class BenchForm(Struct, frozen=True):
    """Two runs in numbers, side by side."""

    a: MeasureForm
    b: MeasureForm
    difference: DifferenceForm


def bench_runs(reads: RunReads, a: str, b: str) -> BenchForm:
    """Measure two runs by the rules of `forum bench`, and return the form."""
    first, second = (measure_form(reads.view_run(run), reads.measure_run(run)) for run in (a, b))
    return BenchForm(first, second, _difference_form(first, second))


class StepForm(Struct, frozen=True):
    """The content of an entry without its time, position and hashes."""

    kind: str
    facts: dict[str, Any]
    bodies: Annotated[dict[str, str], Meta(description="The digests of bodies by their names.")]


def step_form(step: RunStep) -> StepForm:
    """Return a step of a run, in its form."""
    return StepForm(step.kind, msgspec.json.decode(step.facts), dict(step.bodies))


class DivergenceForm(Struct, frozen=True):
    """A step in which two runs differ."""

    parting: DivergenceKind
    strand: str
    step: str
    first: StepForm | None
    second: StepForm | None


def _divergence_forms(divergences: Sequence[Divergence]) -> tuple[DivergenceForm, ...]:
    """Return where runs part; of very many, the first thousand."""
    return tuple(
        fill(
            DivergenceForm,
            divergence,
            first=divergence.first and step_form(divergence.first),
            second=divergence.second and step_form(divergence.second),
        )
        for divergence in divergences[:_MAX_DIVERGENCES]
    )


class DiffForm(Struct, frozen=True):
    """The steps in which two runs differ."""

    a: RunId
    b: RunId
    equal: bool
    count: DifferenceCount
    divergences: tuple[DivergenceForm, ...]
    answer_a: Annotated[str | None, Meta(description="Null if there is none, or it was erased.")]
    answer_b: str | None
    provenance_a: ProvenanceWord
    provenance_b: ProvenanceWord


def diff_form(
    a: str,
    b: str,
    divergences: Sequence[Divergence],
    answers: tuple[bytes | None, bytes | None],
    provenances: tuple[Provenance, Provenance],
) -> DiffForm:
    """Return where two runs part, in its form."""
    texts = [None if answer is None else answer.decode(errors="replace") for answer in answers]
    return DiffForm(
        a=a,
        b=b,
        equal=not divergences,
        count=len(divergences),
        divergences=_divergence_forms(divergences),
        answer_a=texts[0],
        answer_b=texts[1],
        provenance_a=provenances[0],
        provenance_b=provenances[1],
    )


def compare_runs(reads: RunReads, a: str, b: str) -> DiffForm:
    """Compare two runs by the rules of `forum diff`, and return the form."""
    views = reads.view_run(a), reads.view_run(b)
    answers = views[0].answer, views[1].answer
    provenances = views[0].state.provenance, views[1].state.provenance
    return diff_form(a, b, reads.diff_runs(a, b), answers, provenances=provenances)


class ReplayForm(Struct, frozen=True):
    """Whether a replay of a run from its record gives the same entries."""

    run: RunId
    equal: bool
    count: DifferenceCount
    divergences: tuple[DivergenceForm, ...]
    missing: Annotated[
        str, Meta(description="What is missing in the record, if the replay ended because of it.")
    ]


def replay_form(run: str, divergences: Sequence[Divergence], missing: str) -> ReplayForm:
    """Return what a replay has shown, in its form."""
    equal = not divergences and not missing
    return ReplayForm(
        run=run,
        equal=equal,
        count=len(divergences),
        divergences=_divergence_forms(divergences),
        missing=missing,
    )


def replay_and_compare(forum: Forum, run: str) -> ReplayForm:
    """Replay a run that has ended from its record alone, and return where the two differ."""
    try:
        return replay_form(run, forum.runs.replay(run), "")
    except ReplayMiss as miss:
        return replay_form(run, (), str(miss))
