"""A preview: the plan of a request, if it were submitted now."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from forum.runs.council_end import Requirement
from forum.runs.panel import Council, Panel, Protocol, Symposium
from forum.runs.plan import Task
from forum.runs.policy import Policy, Role
from forum.runs.role_assignment import plan_single_task
from forum.surfaces.schemas import fields

if TYPE_CHECKING:
    from forum.engine import RunRequest


class PlannedPanelForm(Struct, frozen=True):
    """A planned panel."""

    protocol: Protocol
    agents: Annotated[
        tuple[str, ...],
        Meta(description="The agent of each seat; the default agent has no name."),
    ]
    require: Annotated[Requirement, Meta(description="The agreement that its task needs to pass.")]


class PlannedForm(Struct, frozen=True):
    """A planned task."""

    id: str
    instruction: str
    done_when: str
    needs: fields.Needs
    after: fields.After
    lane: str | None
    agent: Annotated[
        str, Meta(description="The agent that would work on it; empty for the default agent.")
    ]
    tasks: Annotated[tuple["PlannedForm", ...], Meta(description="The plan within it.")]
    panel: Annotated[
        PlannedPanelForm | None,
        Meta(
            description="The panel that would deliberate on it; null if a single agent works on it."
        ),
    ] = None
    decide: Annotated[
        tuple[str, ...],
        Meta(description="The options of its panel; empty if any text may be the answer."),
    ] = ()


def _planned_form(task: Task, policy: Policy) -> PlannedForm:
    return fields.fill(
        PlannedForm,
        task,
        agent=policy.worker_of(task),
        tasks=tuple(_planned_form(child, policy) for child in task.tasks),
        panel=_panel_form(task.panel) if task.panel else None,
        decide=task.panel.options if isinstance(task.panel, Council) else (),
    )


def _panel_form(panel: Panel) -> PlannedPanelForm:
    match panel:
        case Council(seats=seats, require=require):
            agents = tuple(seat.agent for seat in seats)
            return PlannedPanelForm(Protocol.COUNCIL, agents, require)
        case Symposium(agents=speakers, require=require):
            return PlannedPanelForm(Protocol.SYMPOSIUM, tuple(speakers.values()), require)


class PlanForm(Struct, frozen=True):
    """A preview: the plan of a request, if it were submitted now."""

    lane: Annotated[
        str | None, Meta(description="Null if no lane was looked for, or none is certain.")
    ]
    team: Annotated[bool, Meta(description="Whether a team would make the plan: no task is known.")]
    classifier: Annotated[
        str | None,
        Meta(description="The agent that would choose the lane; null if none is asked."),
    ]
    tasks: tuple[PlannedForm, ...]
    gates: Annotated[tuple[str, ...], Meta(description="What a person has to approve first.")]
    cap: fields.CapForm
    judged: Annotated[
        bool, Meta(description="Whether models or verifiers would judge results or the answer.")
    ] = False
    recorded: Annotated[
        fields.RunId | None,
        Meta(description="With `record`: the run whose note holds this reply and the request."),
    ] = None


def plan_form(request: "RunRequest") -> PlanForm:
    """Return what an order would have done, in its form."""
    policy, roles = request.policy, request.policy.roles
    plan = request.plan
    if plan is None and Role.COORDINATOR not in roles and policy.panel is None:
        # The engine plans one task, in the lane that the Classifier chooses.
        plan = plan_single_task(request.request, "", policy.agents)
    is_routed_later = request.plan is None and request.route is None
    return PlanForm(
        lane=request.route.facts.lane or None if request.route else None,
        team=request.plan is None and Role.COORDINATOR in roles,
        classifier=roles.get(Role.CLASSIFIER) if is_routed_later else None,
        tasks=tuple(_planned_form(task, policy) for task in (plan.tasks if plan else ())),
        gates=request.policy.gates,
        cap=fields.cap_form(request.budget.cap, request.budget.milliseconds),
        judged=bool(policy.verifiers or roles.keys() & {Role.VALIDATOR, Role.INTENT}),
    )
