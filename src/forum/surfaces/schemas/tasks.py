"""Tasks of a run: their progress, verdicts and effects."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.app import RunView, formatting
from forum.ledger.kinds import Outcome
from forum.runs.acceptance_criteria import Check
from forum.runs.council_end import Accord
from forum.runs.kinds import Independence, Next, VerdictFacts
from forum.runs.run_fold import TaskRun, TaskState, ToolUseRecord
from forum.surfaces.schemas import fields


class OpinionForm(Struct, frozen=True):
    """What a judge wrote about a result."""

    reason: str
    evidence: Annotated[str, Meta(description="The words of the result that decided.")]
    missing: tuple[str, ...]


class VerdictForm(Struct, frozen=True):
    """The verdict on one attempt, who gave it, and what followed."""

    attempt: int
    outcome: Outcome
    check: Check
    next: Next
    reason: str | None
    judge: str | None
    independence: Independence | None
    claims: int
    unverified: int
    opinion: Annotated[
        OpinionForm | None,
        Meta(description="What the judge wrote, or the panel found; null if no model judged."),
    ]
    accord: Annotated[
        Accord | None,
        Meta(description="How far the panel agreed that judged it; null if none did."),
    ] = None
    run: Annotated[
        fields.RunId | None, Meta(description="The run in which that panel deliberated.")
    ] = None


class TaskForm(Struct, frozen=True):
    """A task of a run: its progress, its agent and its cost."""

    id: str
    lane: str | None
    state: TaskState
    reason: Annotated[str, Meta(description="The reason of its state, if there is one to give.")]
    agent: Annotated[
        str, Meta(description="The agent that works on it; empty for the default agent.")
    ]
    model: str | None
    attempts: int
    verdicts: tuple[VerdictForm, ...]
    lost: Annotated[int, Meta(description="Calls whose replies were lost with their workers.")]
    spent: fields.AmountForm
    seconds: fields.Seconds
    needs: fields.Needs
    after: fields.After
    run: Annotated[fields.RunId | None, Meta(description="The run within this one that does it.")]
    entry: Annotated[int | None, Meta(description="The index of its last entry.")]
    accord: Annotated[
        Accord | None,
        Meta(description="How far the panel agreed that worked on it; null without a panel."),
    ] = None


def task_form(view: RunView, task: TaskRun) -> TaskForm:
    """Return a task of a run, in its form."""
    planned = view.plan.by_id.get(task.id) if view.plan else None
    own = formatting.own_calls(task)
    last = own[-1].called if own else None
    return fields.fill(
        TaskForm,
        task,
        lane=planned.lane if planned else None,
        reason=formatting.explain_task_state(view, task),
        agent=last.agent if last else planned.agent if planned else "",
        model=last.model if last else None,
        verdicts=tuple(_verdict_form(view, task, verdict) for verdict in task.verdicts),
        lost=formatting.count_lost_calls(task),
        seconds=round(formatting.task_duration(task, view.at) / 1e6, 3),
        needs=planned.needs if planned else (),
        after=planned.after if planned else (),
        run=task.delegated.run if task.delegated else None,
        entry=view.entries.get(task.id),
        accord=task.accord.accord if task.accord else None,
    )


def _verdict_form(view: RunView, task: TaskRun, verdict: VerdictFacts) -> VerdictForm:
    panels = [each.accord for each in task.judged if each.attempt == verdict.attempt]
    return fields.fill(
        VerdictForm,
        verdict,
        opinion=view.opinions.get((task.id, verdict.attempt)),
        accord=panels[-1].accord if panels else None,
        run=panels[-1].run if panels else None,
    )


class EffectForm(Struct, frozen=True):
    """An effect outside of Forum: what was intended, and its outcome."""

    task: str
    tool: str
    outcome: Annotated[Outcome | None, Meta(description="Null while no outcome is recorded.")]
    entry: fields.Index | None


def effect_form(view: RunView, task: str, use: ToolUseRecord) -> EffectForm:
    """Return what a task did to the world with a tool, in its form."""
    return EffectForm(
        task,
        use.intended.tool,
        use.happened.outcome if use.happened else None,
        view.places.get((use.outcome or use.entry).hex()),
    )
