"""Runs: what was asked, how far they have come, what they cost, and what was answered."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import RunView
from forum.ledger.kinds import Outcome
from forum.surfaces import formatting
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.deliberations import DeliberationForm, deliberation_form
from forum.surfaces.schemas.gates import GateForm, WaitForm, gate_form
from forum.surfaces.schemas.scores import ScoreForm, score_form
from forum.surfaces.schemas.tasks import EffectForm, TaskForm, effect_form, task_form
from forum.work import kinds
from forum.work.acceptance_criteria import Check
from forum.work.run_fold import Run, RunState, TaskState

_UNCAPPED = fields.CapForm(None, None, None, None)


class RoutedForm(Struct, frozen=True):
    """The lane that a run was given, by what, and how sure that was."""

    lane: str | None
    basis: kinds.Basis
    confidence: float
    runner_up: str | None
    margin: float
    roster: Annotated[
        str | None, Meta(description="The digest of the lanes that there were to choose from.")
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
    """What a role has done in a run."""

    role: str
    who: str
    state: Annotated[
        TaskState | None, Meta(description="Null of a role that is asked within tasks.")
    ]
    spent: fields.AmountForm


class CheckForm(Struct, frozen=True):
    """How the answer was looked at, and what came of it."""

    subject: str
    outcome: Outcome
    check: Check
    reason: str | None
    judge: str | None
    independence: kinds.Independence | None
    entry: fields.Index | None
    detail: Annotated[
        str, Meta(description="What was found: each ask, and the words that meet it.")
    ]


class ClaimForm(Struct, frozen=True):
    """What the answer says was done, and which entry shows it; without one it is unverified."""

    deed: Annotated[str, Meta(examples=["tests", "file", "command", "sent", "checked"])]
    text: str
    entry: fields.Index | None
    receipt: fields.EntryId | None


class RunForm(Struct, frozen=True):
    """A run: what was asked, how far it has come, what it cost, and what was answered."""

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
            description="What it has come to, as an exit status: 0 answered, 1 failed, 5 budget or "
            "time used up, 6 waiting for approval, 8 a council is split, 9 a council is blocked; "
            "null while it goes on."
        ),
    ]
    reason: Annotated[str, Meta(description="Why it did not end well, or what it waits for.")]
    request: Annotated[str | None, Meta(description="Null if it was erased.")]
    answer: Annotated[str | None, Meta(description="Null if there is none, or it was erased.")]
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
    fork_of: Annotated[fields.RunId | None, Meta(description="The run that this one parted from.")]
    within: Annotated[fields.RunId | None, Meta(description="The run that has this one done.")]
    why: Annotated[
        str | None,
        Meta(description="Why it failed, in one sentence with the last reply; null if it did not."),
    ] = None
    scores: Annotated[
        tuple[ScoreForm, ...], Meta(description="Of the run, its tasks and its answer.")
    ] = ()


def run_form(view: RunView) -> RunForm:
    """Return all that is told of a run, in its form."""
    state, accepted = view.state, view.state.accepted
    return RunForm(
        run=view.run,
        until=view.until,
        state=state.state,
        outcome=state.outcome,
        status=formatting.exit_status(view),
        reason=formatting.explain_run_state(view),
        request=view.request,
        answer=None if view.answer is None else view.answer.decode(errors="replace"),
        spent=fields.amount_form(state.spent),
        cap=fields.cap_form(accepted.cap, accepted.milliseconds) if accepted else _UNCAPPED,
        spent_by={agent: fields.amount_form(spent) for agent, spent in state.spent_by.items()},
        route=_routed_form(view),
        roles=tuple(
            fields.fill(PartForm, part, spent=fields.amount_form(part.spent))
            for part in formatting.summarize_roles(state)
        ),
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
        begun=formatting.format_rfc3339(state.begun),
        seconds=round(formatting.run_duration(view) / 1e6, 3),
        tasks=tuple(
            task_form(view, state.task(node.id))
            for node in formatting.build_task_tree(view.plan, state)
        ),
        deliberation=deliberation_form(view),
        gates=tuple(gate_form(view.run, gate) for gate in state.gates.values()),
        waits_for=tuple(WaitForm(run, gate.opened.subject) for run, gate in view.gates),
        fork_of=accepted.fork_run or None if accepted else None,
        within=accepted.parent_run or None if accepted else None,
        why=formatting.explain_failure(view) or None,
        scores=tuple(map(score_form, view.scores)),
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
    request: Annotated[str | None, Meta(description="Null if it was erased.")]


def _run_line(run: str, state: Run, request: str | None) -> RunLine:
    """Return what a list tells of a run."""
    return RunLine(
        run,
        state.state,
        state.outcome,
        state.stopped.reason if state.stopped else None,
        *formatting.count_progress(state),
        fields.amount_form(state.spent),
        formatting.format_rfc3339(state.begun),
        request,
    )


class RunsForm(Struct, frozen=True):
    """Runs, the newest first."""

    runs: tuple[RunLine, ...]


def runs_form(runs: Iterable[tuple[str, Run]], requests: Mapping[str, str | None]) -> RunsForm:
    """Return runs with what was asked of them, in their form."""
    return RunsForm(tuple(_run_line(run, state, requests[run]) for run, state in runs))


class RunsPage(RunsForm, frozen=True):
    """Some runs, the newest first."""

    next: Annotated[str | None, Meta(description="The cursor of the next page.")]


def runs_page(
    runs: Sequence[tuple[str, Run]], requests: Mapping[str, str | None], limit: int
) -> RunsPage:
    """Return a page of at most so many runs, in its form; a full one may have a next."""
    following = runs[-1][0] if len(runs) == limit else None
    return RunsPage(runs_form(runs, requests).runs, following)
