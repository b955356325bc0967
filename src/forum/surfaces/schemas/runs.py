"""Runs: request, progress, cost and answer."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import ListedRun, RunPage, RunQuery, RunView, formatting
from forum.app.reported_runs import describe_provenance
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT
from forum.runs import kinds
from forum.runs.acceptance_criteria import Check
from forum.runs.report_kinds import Provenance
from forum.runs.run_fold import RunState, TaskState
from forum.runs.run_words import RunOutcome, count_cap_refusals
from forum.surfaces.schemas import fields, reported
from forum.surfaces.schemas.gates import GateForm, WaitForm, gate_form
from forum.surfaces.schemas.panels import DeliberationForm, deliberation_form
from forum.surfaces.schemas.scores import ScoreForm, score_form
from forum.surfaces.schemas.tasks import EffectForm, TaskForm, effect_form, task_form

_Word = Annotated[
    str,
    Meta(
        description="The one word for its state that all surfaces show: `ok`, `failed`, `budget`, "
        "`overrun`, `waiting` and others.",
        examples=["ok"],
    ),
]
_Refused = Annotated[
    int,
    Meta(
        description="The number of calls that a cap refused, for a run that Forum does not drive."
    ),
]


class RoutedForm(Struct, frozen=True):
    """The lane of a run, how it was chosen, and how certain the choice was."""

    lane: str | None
    basis: kinds.Basis
    confidence: float
    runner_up: str | None
    margin: float
    roster: Annotated[
        str | None, Meta(description="The digest of the roster that the lane was chosen from.")
    ]
    entry: fields.Index | None


def _routed_form(view: RunView) -> RoutedForm | None:
    routed, route = view.state.routed, view.state.route
    if routed is None:
        return None
    return fields.fill(
        RoutedForm,
        routed,
        confidence=routed.confidence / 1000,
        margin=routed.margin / 1000,
        entry=view.places.get(route.hex()) if route else None,
    )


class PartForm(Struct, frozen=True):
    """The work of one role in a run."""

    role: str
    who: str
    state: Annotated[
        TaskState | None,
        Meta(
            description="Null for a role that is called within tasks and has no state of its own."
        ),
    ]
    spent: fields.AmountForm


class CheckForm(Struct, frozen=True):
    """A check of the answer, and its outcome."""

    subject: str
    outcome: Outcome
    check: Check
    reason: str | None
    judge: str | None
    independence: kinds.Independence | None
    entry: fields.Index | None
    detail: Annotated[
        str,
        Meta(
            description="The findings: each requirement, and the words of the answer that meet it."
        ),
    ]


class ClaimForm(Struct, frozen=True):
    """A claimed action and the entry that shows it; without an entry it is unverified."""

    deed: Annotated[str, Meta(examples=["tests", "file", "command", "sent", "checked"])]
    text: str
    entry: fields.Index | None
    receipt: fields.EntryId | None


class RunForm(Struct, frozen=True):
    """A run: its request, progress, cost and answer."""

    run: fields.RunId
    until: Annotated[
        int | None,
        Meta(description="The last entry that is taken into account, if not all are."),
    ]
    state: RunState
    outcome: Annotated[Outcome | None, Meta(description="Null while the run goes on.")]
    status: Annotated[
        formatting.Status | None,
        Meta(
            description="The outcome, as an exit status: 0 answered, 1 failed, 5 budget or "
            "time used up, 6 waiting for approval, 8 a council is split, 9 a council is blocked; "
            "null while it goes on."
        ),
    ]
    reason: Annotated[str, Meta(description="Why it failed, or what it waits for.")]
    request: Annotated[fields.RecordedText | None, Meta(description="Null if it was erased.")]
    answer: Annotated[
        fields.RecordedText | None, Meta(description="Null if there is none, or it was erased.")
    ]
    spent: fields.AmountForm
    cap: fields.CapForm
    spent_by: Annotated[dict[str, fields.AmountForm], Meta(description="By the names of agents.")]
    route: RoutedForm | None
    roles: tuple[PartForm, ...]
    checks: tuple[CheckForm, ...]
    claims: tuple[ClaimForm, ...]
    effects: tuple[EffectForm, ...]
    begun: fields.Moment
    seconds: fields.Seconds
    tasks: tuple[TaskForm, ...]
    deliberation: Annotated[
        DeliberationForm | None, Meta(description="Null if no panel deliberates.")
    ]
    gates: tuple[GateForm, ...]
    waits_for: tuple[WaitForm, ...]
    fork_of: Annotated[
        fields.RunId | None, Meta(description="The run that this one was forked from.")
    ]
    within: Annotated[fields.RunId | None, Meta(description="The run that started this one.")]
    about: Annotated[
        fields.RunId | None,
        Meta(description="The run on whose answer the panel of this one deliberates."),
    ] = None
    why: Annotated[
        str | None,
        Meta(description="Why it failed, in one sentence with the last reply; null if it did not."),
    ] = None
    scores: Annotated[
        tuple[ScoreForm, ...], Meta(description="Of the run, its tasks and its answer.")
    ] = ()
    provenance: reported.ProvenanceWord = Provenance.DRIVEN
    coverage: Annotated[
        str, Meta(description="How Forum knows of the run, and what may be missing in it.")
    ] = ""
    name: Annotated[
        str | None, Meta(description="The name of a run that Forum does not drive.")
    ] = None
    source: Annotated[reported.SourceForm | None, Meta(description="Who reports the run.")] = None
    spans: Annotated[
        tuple[reported.SpanForm, ...],
        Meta(description="The steps of a run that Forum does not drive."),
    ] = ()
    gaps: Annotated[
        tuple[reported.GapForm, ...], Meta(description="Steps that are known to be missing.")
    ] = ()
    notes: Annotated[
        tuple[reported.RunNoteForm, ...],
        Meta(description="Notes in a run that Forum does not drive."),
    ] = ()
    planned: Annotated[bool, Meta(description="Whether a model made its plan.")] = False
    judged: Annotated[
        bool, Meta(description="Whether models or verifiers judged its results or its answer.")
    ] = False
    word: _Word = ""
    refused: _Refused = 0
    title: Annotated[
        str | None,
        Meta(
            description="What a run that Forum does not drive is shown as: its command or name, "
            "and the first message to a model. Null for a run with a request."
        ),
    ] = None
    declined_team: Annotated[
        tuple[str, ...],
        Meta(
            description="The models that gain nothing from a team: one was asked for, and a "
            "single agent works."
        ),
    ] = ()
    compacted: Annotated[
        str | None,
        Meta(
            description="Which tasks went on with a compacted conversation, because it passed the "
            "context of the model; null if none did."
        ),
    ] = None


def run_form(view: RunView) -> RunForm:
    """Return all that is told of a run, in its form."""
    state, accepted = view.state, view.state.accepted
    return fields.fill(
        RunForm,
        view,
        state=state.state,
        outcome=state.outcome,
        status=formatting.exit_status(view),
        reason=formatting.explain_run_state(view),
        answer=None if view.answer is None else view.answer.decode(errors="replace"),
        spent=state.spent,
        cap=fields.cap_form(state.cap, accepted.milliseconds if accepted else NO_LIMIT),
        spent_by=state.spent_by,
        planned=formatting.run_care(state).planned,
        judged=formatting.run_care(state).judged,
        route=_routed_form(view),
        roles=formatting.summarize_roles(state),
        checks=tuple(
            fields.fill(
                CheckForm,
                checked,
                entry=view.places.get(leaf.hex()),
                detail=view.check_details.get(leaf.hex(), ""),
            )
            for leaf, checked in state.checks
        ),
        claims=tuple(
            fields.fill(ClaimForm, claim, entry=view.places.get(claim.receipt))
            for claim in view.claims
        ),
        effects=tuple(
            effect_form(view, task.id, use) for task in state.tasks.values() for use in task.uses
        ),
        begun=state.begun,
        seconds=round(formatting.run_duration(view) / 1e6, 3),
        tasks=tuple(
            task_form(view, state.task(node.id))
            for node in formatting.build_task_tree(view.plan, state)
        ),
        deliberation=deliberation_form(view),
        gates=tuple(gate_form(view.run, gate, view.origin) for gate in state.gates.values()),
        waits_for=(WaitForm(run, gate.opened.subject) for run, gate in view.gates),
        fork_of=accepted.fork_run if accepted else None,
        within=accepted.parent_run if accepted else None,
        about=state.about.run if state.about else None,
        why=formatting.explain_failure(view),
        scores=map(score_form, view.scores),
        provenance=state.provenance,
        coverage=describe_provenance(state),
        source=reported.source_form(view),
        spans=reported.span_forms(view),
        gaps=reported.gap_forms(view),
        notes=reported.note_forms(view),
        word=formatting.view_word(view),
        refused=count_cap_refusals(state),
        compacted=formatting.describe_compactions(state) or None,
    )


class RunLine(Struct, frozen=True):
    """A run in a list of runs."""

    run: fields.RunId
    state: RunState
    outcome: Outcome | None
    stopped: kinds.StopReason | None
    passed: Annotated[int, Meta(description="How many tasks, or turns of a panel, have passed.")]
    tasks: Annotated[int, Meta(description="How many its plan has, or its panel has begun.")]
    spent: fields.AmountForm
    begun: fields.Moment
    request: Annotated[
        fields.RecordedText | None,
        Meta(
            description="Its first 200 characters. Null if it was erased, or if Forum does not "
            "drive the run.",
        ),
    ]
    provenance: reported.ProvenanceWord
    name: Annotated[str | None, Meta(description="The name of a run that Forum does not drive.")]
    spans: Annotated[int, Meta(description="How many spans were recorded.")]
    gaps: Annotated[int, Meta(description="How many gaps were recorded.")]
    ended: Annotated[
        fields.Moment | None, Meta(description="When it ended; null while it goes on.")
    ] = None
    lane: Annotated[str | None, Meta(description="The lane that its route has chosen.")] = None
    unpriced: Annotated[
        int, Meta(description="How many of its calls have no known price, and count as free.")
    ] = 0
    altered: Annotated[
        bool,
        Meta(
            description="Whether somebody has changed its summary, or its request, in the "
            "database. All else is then told by its entries; verify the ledger."
        ),
    ] = False
    title: Annotated[
        str | None,
        Meta(
            description="What a run that Forum does not drive is shown as: its command or name, "
            "and the first message to a model. Null for a run with a request.",
            examples=["agent.py: Name three rivers."],
        ),
    ] = None
    models: Annotated[
        tuple[str, ...], Meta(description="The models that were called, the dearest first.")
    ] = ()
    seconds: Annotated[
        fields.Seconds | None, Meta(description="How long it took; null while it goes on.")
    ] = None
    word: _Word = ""
    refused: _Refused = 0
    is_cut: Annotated[
        bool,
        Meta(description="Whether its request, name or title is longer. The run itself has it."),
    ] = False


_MAX_LINE_CHARS = 200
"""Characters of each text in a line: one request must not make a list slow for everybody."""


def _cut_text(text: str | None) -> str | None:
    return text[:_MAX_LINE_CHARS] if text else None


def _run_line(listed: ListedRun) -> RunLine:
    """Return what a list tells of a run."""
    summary = listed.summary
    return fields.fill(
        RunLine,
        summary,
        run=listed.run,
        state=listed.state,
        word=listed.word,
        request=None if listed.request is None else listed.request[:_MAX_LINE_CHARS],
        name=_cut_text(listed.name),
        ended=listed.ended,
        altered=listed.is_altered,
        title=_cut_text(listed.title),
        is_cut=any(
            len(text or "") > _MAX_LINE_CHARS
            for text in (listed.request, listed.name, listed.title)
        ),
        seconds=round((listed.ended - summary.begun) / 1e6, 3) if listed.ended else None,
    )


Since = Annotated[
    fields.TimeBound | None, Meta(description="Only runs that began at or after this time.")
]
Until = Annotated[
    fields.TimeBound | None, Meta(description="Only runs that began before this time.")
]


class RunsFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """A filter for runs; all runs if it is empty."""

    state: Annotated[RunState | None, Meta(description="Only runs in this state.")] = None
    outcome: Annotated[
        RunOutcome | None,
        Meta(description="Only runs that ended so; one whose council decided nothing is not ok."),
    ] = None
    since: Since = None
    until: Until = None
    text: Annotated[
        str,
        Meta(
            max_length=200,
            description="Only runs whose request, name, prompts, replies or tool calls contain "
            "this text.",
        ),
    ] = ""
    lane: Annotated[
        str,
        Meta(max_length=128, description="Only runs whose route or plan names this lane."),
    ] = ""
    provenance: Annotated[
        Provenance | None, Meta(description="Only runs that Forum knows of in this way.")
    ] = None


def run_query(form: RunsFilter) -> RunQuery:
    """Return which runs a form asks for.  Raises `Malformed`."""
    return RunQuery(
        state=form.state,
        outcome=form.outcome,
        since=fields.parse_time_bound(form.since, 0),
        until=fields.parse_time_bound(form.until, RunQuery().until),
        text=form.text,
        lane=form.lane,
        provenance=form.provenance,
    )


class RunsForm(Struct, frozen=True):
    """Runs, the newest first."""

    runs: tuple[RunLine, ...]


def runs_form(runs: Iterable[ListedRun]) -> RunsForm:
    """Return runs in their form."""
    return RunsForm(tuple(map(_run_line, runs)))


class RunsPage(RunsForm, frozen=True):
    """Some runs, the newest first."""

    next: Annotated[
        str | None,
        Meta(
            description="The cursor of the next page; null at the end. A page with filters may "
            "hold fewer runs than asked for, or none, and still have a next one."
        ),
    ]
    unsearched: Annotated[
        int,
        Meta(
            description="How many runs are missing here although not all of their texts were "
            "searched: they are too large, or in an archive that cannot be reached."
        ),
    ] = 0


def runs_page(page: RunPage) -> RunsPage:
    """Return a page of runs in its form."""
    return RunsPage(runs_form(page.runs).runs, page.next, page.unsearched)
