"""Agents: their configuration, availability and use; and installed model weights."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from forum.app.formatting import first_line
from forum.app.planner import Planner, inspect_agent
from forum.config import PROJECT_FILE
from forum.ledger.kinds import Outcome
from forum.runs.agent_inspection import AgentInspection
from forum.runs.kinds import Why
from forum.runs.model_weights import WeightsInspection
from forum.runs.policy import Policy, Role
from forum.runs.role_assignment import agent_for, build_team_policy, is_independent
from forum.runs.roster import Tier
from forum.surfaces.schemas.fields import Usd, fill
from forum.units import format_usd

if TYPE_CHECKING:
    from forum.engine import CallReply

_MAX_ERROR_LENGTH = 300


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent, with everything that is known about it."""

    name: str
    origin: str
    found: AgentInspection
    tiers: tuple[Tier, ...]
    roles: tuple[str, ...]
    lanes: tuple[str, ...]
    default: bool
    """Whether it works on tasks that name no agent."""
    reply: "CallReply | None" = None

    @property
    def is_usable(self) -> bool:
        """Whether it can be asked, as far as that was tried."""
        answered = self.reply is None or self.reply.outcome is Outcome.OK
        return answered and not self.found.problem


def agent_view(team: Policy, name: str, origin: str) -> AgentView:
    """Return an agent of a team, configured there, and what it is used for."""
    return AgentView(
        name=name,
        origin=origin,
        found=inspect_agent(team.agents[name]),
        tiers=tuple(tier for tier in Tier if agent_for(tier, team.agents) == name),
        roles=tuple(role.value for role in Role if team.roles[role] == name),
        lanes=tuple(lane for lane, brief in team.lanes.items() if brief.agent == name),
        default=name == (_named_default(team) or [""])[0],
    )


def list_shown_agents(policy: Policy) -> list[str]:
    """Return the agents; not the one without a name, where it is one of the others as well."""
    return [name for name in policy.agents if name or not _named_default(policy)]


def _named_default(policy: Policy) -> list[str]:
    """Return the agents that are who works under no name."""
    return [
        name for name, agent in policy.agents.items() if name and agent == policy.agents.get("")
    ]


class KeyState(StrEnum):
    """Whether there is a key. The key itself is never shown."""

    SET = "set"
    MISSING = "missing"
    NONE = "none"
    PROVIDER = "provider"


class PriceForm(Struct, frozen=True):
    """The known prices of an agent: for a million tokens, or for a call."""

    table: str | None
    input_usd: Usd | None
    output_usd: Usd | None
    call_usd: Usd | None


class CallForm(Struct, frozen=True):
    """The result of a test call that asks an agent for one word."""

    outcome: Outcome
    why: Why | None
    code: str | None
    error: str | None
    milliseconds: int
    model: str | None
    usd: Usd
    tokens: int
    calls: int


def _call_form(reply: "CallReply") -> CallForm:
    spent, error = reply.spent, error_of(reply) or None
    usd = format_usd(spent.usd)
    return fill(CallForm, reply, error=error, usd=usd, tokens=spent.tokens, calls=spent.calls)


def error_of(reply: "CallReply") -> str:
    """Return the beginning of what an agent's system said of an error."""
    text = b"".join(reply.error.chunks()).decode(errors="replace")
    return first_line(text, _MAX_ERROR_LENGTH)


class ModelForm(Struct, frozen=True):
    """An agent: its configuration, availability, prices and use."""

    name: Annotated[str, Meta(description="The default agent has none.")]
    origin: Annotated[str, Meta(description="Where it is configured.")]
    usable: bool
    problem: str | None
    warning: str | None
    kind: str
    model: str
    where: Annotated[str, Meta(description="The host, or the program.")]
    key: KeyState
    key_name: Annotated[
        str | None, Meta(description="The variable or the file that holds the key.")
    ]
    price: PriceForm
    default: Annotated[bool, Meta(description="Whether it works on tasks that name no agent.")]
    tiers: tuple[Tier, ...]
    lanes: tuple[str, ...]
    roles: tuple[str, ...]
    call: Annotated[CallForm | None, Meta(description="Null if it was not tried.")]


def model_form(agent: AgentView) -> ModelForm:
    """Return all that can be told of an agent, in its form."""
    inspection = agent.found
    return fill(
        ModelForm,
        inspection,
        name=agent.name,
        origin=agent.origin,
        usable=agent.is_usable,
        key=KeyState(inspection.key.name.lower()),
        price=PriceForm(
            inspection.prices or None,
            usd_per_million_tokens(inspection.read_usd),
            usd_per_million_tokens(inspection.said_usd),
            None if inspection.call_usd is None else format_usd(inspection.call_usd),
        ),
        default=agent.default,
        tiers=agent.tiers,
        lanes=agent.lanes,
        roles=agent.roles,
        call=_call_form(agent.reply) if agent.reply else None,
    )


def usd_per_million_tokens(usd: int | None) -> str | None:
    """Return the price of a thousand tokens, in nano-dollars, as dollars for a million."""
    return None if usd is None else format_usd(1000 * usd)


class ModelsForm(Struct, frozen=True):
    """Every agent that is configured."""

    agents: tuple[ModelForm, ...]
    independent_judge: Annotated[
        bool, Meta(description="Whether the judge is a model that works on no task itself.")
    ]


def models_form(agents: Iterable[AgentView], *, independent: bool) -> ModelsForm:
    """Return agents, in their form."""
    return ModelsForm(tuple(model_form(agent) for agent in agents), independent)


def planner_models_form(planner: Planner) -> ModelsForm:
    """Return all agents of a project.  Of keys only whether this process has them."""
    lanes = dict.fromkeys(planner.roster.by_name, 0)
    off = planner.team_settings.off
    team = build_team_policy(planner.base_policy, planner.roster, lanes, roles=True, off=off)
    views = [
        agent_view(team, name, PROJECT_FILE if name in planner.team_settings.agents else "default")
        for name in list_shown_agents(team)
    ]
    return models_form(views, independent=is_independent(team, Role.VALIDATOR))


class WeightFileForm(Struct, frozen=True):
    """A file of the weights of a model."""

    name: str
    size: Annotated[int, Meta(description="In bytes.")]
    sha256: str
    url: Annotated[str, Meta(description="Where its publisher offers it.")]
    installed: Annotated[
        bool, Meta(description="By name and size; its digest is checked when it is loaded.")
    ]


class WeightsForm(Struct, frozen=True):
    """The weights of a model that Forum itself uses."""

    name: str
    title: str
    licence: str
    purpose: str
    folder: Annotated[str, Meta(description="Where the files are, or would be.")]
    installed: bool
    files: tuple[WeightFileForm, ...]


def weights_form(weights: WeightsInspection) -> WeightsForm:
    """Return the weights of a model, in their form."""
    model = weights.model
    files = tuple(
        fill(
            WeightFileForm,
            file,
            url=f"{model.hub_url}/{file.name}",
            installed=file.name not in weights.missing,
        )
        for file in model.files
    )
    return fill(
        WeightsForm, model, folder=weights.folder, installed=not weights.missing, files=files
    )


class ModelsCheckForm(ModelsForm, frozen=True):
    """Every agent that is configured, and the weights that Forum itself uses."""

    weights: tuple[WeightsForm, ...] = ()


class PulledWeightsForm(Struct, frozen=True):
    """What `forum models pull` has installed."""

    weights: WeightsForm
    pulled: Annotated[
        tuple[str, ...], Meta(description="The files that were not installed before.")
    ]
