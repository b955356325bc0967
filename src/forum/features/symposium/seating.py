"""Seating of a panel: personas for seats, and agents of the policy for the ids of a config."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, cycle
from typing import Any

import msgspec

from forum.errors import BadPlan
from forum.features.symposium import schemas
from forum.features.symposium.budget import usd_to_nano
from forum.features.symposium.decoders import read_config
from forum.features.symposium.kinds import SelectionStrategy
from forum.features.symposium.schemas import SymposiumBudget as Caps
from forum.features.symposium.transcript import to_json_object
from forum.ledger.ports import NO_LIMIT
from forum.runs.panel import SYMPOSIUM_VERSION, Symposium
from forum.runs.panel_protocol import ENVIRONMENT_PROVIDERS
from forum.runs.personas import COORDINATOR, DEFAULT_PERSONAS, PERSONAS, Persona
from forum.runs.plan import RunBudget
from forum.runs.policy import Agent, Chat, Library
from forum.units import NANO_USD

DEFAULT_ROUNDS = 5
"""Default maximum number of rounds of a symposium."""
DEFAULT_BUDGET = RunBudget(5 * NANO_USD, 500_000, milliseconds=1_800_000)
"""Default budget of a symposium."""
ORIGINATOR = "originator"

_OURS, _ANYBODY = "forum", "any"
_UNNAMED = "default"


def draft_symposium(
    session: str,
    problem: str,
    personas: Sequence[Persona] = (),
    agents: Sequence[str] = (),
    rounds: int = DEFAULT_ROUNDS,
    budget: RunBudget | None = None,
) -> Symposium:
    """Return a session on a problem, with the defaults of the protocol for omitted values.

    Each persona has a seat. Agents take the seats in rotation; without agents, the seats are left
    unassigned until `seat_symposium`.
    """
    sitting = personas or DEFAULT_PERSONAS
    names = list(_unique_names(persona.id for persona in sitting))
    speaking = dict(zip((*names, COORDINATOR), cycle(agents), strict=False)) if agents else {}

    def seat(name: str, persona: Persona) -> schemas.AgentConfig:
        return schemas.AgentConfig(
            name, persona, _OURS, _model(speaking[name]) if agents else _ANYBODY
        )

    config = schemas.SymposiumConfig(
        schema_version=schemas.VERSION,
        session_id=session,
        originator=ORIGINATOR,
        problem_statement=problem,
        selector=schemas.SelectorConfig(SelectionStrategy.FIXED, tuple(names), COORDINATOR),
        agents=tuple(map(seat, names, sitting)),
        coordinator=seat(COORDINATOR, PERSONAS[COORDINATOR]),
        budget=_session_budget(budget or RunBudget(), rounds),
        runtime=schemas.RuntimeConfig(),
    )
    return Symposium(to_json_object(config), speaking)


def _unique_names(names: Iterable[str]) -> Iterator[str]:
    """Yield unique names that also differ from the coordinator, the originator and the runtime."""
    used = {COORDINATOR, ORIGINATOR, schemas.RUNTIME}
    for name in names:
        others = (f"{name}-{number}" for number in count(2))
        free = next(candidate for candidate in chain([name], others) if candidate not in used)
        used.add(free)
        yield free


def _session_budget(budget: RunBudget, rounds: int) -> Caps:
    """Return the caps of a session: the requested ones, else the defaults."""
    usd, tokens, milliseconds = (
        usual if wished == NO_LIMIT else wished
        for wished, usual in (
            (budget.usd, DEFAULT_BUDGET.usd),
            (budget.tokens, DEFAULT_BUDGET.tokens),
            (budget.milliseconds, DEFAULT_BUDGET.milliseconds),
        )
    )
    return Caps(
        max_total_tokens=max(1, tokens),
        max_total_cost_usd=usd / NANO_USD,
        max_rounds=rounds,
        max_wallclock_seconds=max(1, -(-milliseconds // 1000)),
    )


def find_unserved(panel: Symposium, agents: Mapping[str, Agent]) -> tuple[schemas.AgentConfig, ...]:
    """Return the entries of a config whose model no agent serves."""
    config = read_config(panel.config)
    return tuple(
        entry
        for entry in (*config.agents, config.coordinator)
        if entry.id not in panel.agents and not _is_unassigned(entry)
        if _serving_agent(entry, agents) is None
    )


def seat_symposium(panel: Symposium, agents: Mapping[str, Agent]) -> Symposium:
    """Return a panel in which every id of the config has an agent. Raises `BadPlan`."""
    config = read_config(panel.config)
    sitting = (*config.agents, config.coordinator)
    for agent in sitting:
        if agent.tools:
            raise BadPlan(f"{agent.id}: who sits on a panel uses no tools; leave them out")
    anybody = cycle(sorted(name for name in agents if name) or [""])
    speaking = {
        agent.id: panel.agents[agent.id]
        if agent.id in panel.agents
        else (next(anybody) if _is_unassigned(agent) else _find_agent(agent, agents))
        for agent in sitting
    }
    # Readers of the artifact should see which model spoke.
    updated = msgspec.structs.replace(
        config,
        agents=tuple(_assign_model(agent, speaking) for agent in config.agents),
        coordinator=_assign_model(config.coordinator, speaking),
    )
    seated: dict[str, Any] = panel.config if updated == config else to_json_object(updated)
    return msgspec.structs.replace(panel, config=seated, agents=speaking, version=SYMPOSIUM_VERSION)


def _is_unassigned(agent: schemas.AgentConfig) -> bool:
    return (agent.provider, agent.model) == (_OURS, _ANYBODY)


def _assign_model(agent: schemas.AgentConfig, speaking: Mapping[str, str]) -> schemas.AgentConfig:
    if not _is_unassigned(agent):
        return agent
    return msgspec.structs.replace(agent, model=_model(speaking[agent.id]))


def _model(agent: str) -> str:
    return agent or _UNNAMED


def budget_from_panel(panel: Symposium) -> RunBudget:
    """Return the hard caps of a config as a run budget, so that each call reserves from them."""
    caps = read_config(panel.config).budget
    return RunBudget(
        usd_to_nano(caps.max_total_cost_usd),
        caps.max_total_tokens,
        milliseconds=1000 * caps.max_wallclock_seconds,
    )


def _find_agent(wanted: schemas.AgentConfig, agents: Mapping[str, Agent]) -> str:
    """Return the agent for a config entry. Raises `BadPlan` if there is none."""
    if (agent := _serving_agent(wanted, agents)) is not None:
        return agent
    listed = ", ".join(sorted(name for name in agents if name)) or "none"
    raise BadPlan(
        f"no agent serves the model {wanted.model!r} of {wanted.provider!r} ({wanted.id}); add "
        f"[models.{wanted.model}] to forum.toml{_variable_hint(wanted.provider)}; known: {listed}"
    )


def _variable_hint(provider: str) -> str:
    return f", or set {provider.upper()}_API_KEY" if provider in ENVIRONMENT_PROVIDERS else ""


def _serving_agent(wanted: schemas.AgentConfig, agents: Mapping[str, Agent]) -> str | None:
    """Return the agent for a config entry: by its name, by its model, or by its provider."""
    names = (
        wanted.model,
        f"{wanted.provider}/{wanted.model}",
        *_agents_with_model(wanted.model, agents),
        wanted.provider,
    )
    return next((name for name in names if name in agents), None)


def _agents_with_model(model: str, agents: Mapping[str, Agent]) -> Iterable[str]:
    return (
        name
        for name, agent in agents.items()
        if isinstance(agent, Chat | Library) and agent.model == model
    )
