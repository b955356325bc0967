"""Selection of the panel: as declared, by keywords, or by a model.

Only the last one makes a call. Each selects from the agents of the config, which speak in the order
of their declaration.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET

from forum.features.symposium import schemas
from forum.features.symposium.budget import usd_to_nano
from forum.features.symposium.prompts import quote_text, role_summary
from forum.ledger.ports import NO_LIMIT, Amount
from forum.runs import reply_schemas
from forum.runs.personas import (
    ADVERSARIAL,
    EVIDENCE,
    FEASIBLE,
    FORMAL,
    LATERAL,
    Persona,
    resolve_persona_ref,
)
from forum.runs.session_steps import AgentTurn, Session

SELECTOR = "selector"
"""Name of the turn in which a model selects the panel."""

SCOPE_KEYWORDS: Mapping[str, tuple[str, ...]] = {
    FORMAL: (
        "axiom", "assum", "consisten", "contradict", "defin", "deduc", "formal", "imply", "implies",
        "infer", "invarian", "logic", "necessar", "paradox", "premise", "proof", "prove", "rigor",
        "sound", "theorem", "valid",
    ),
    LATERAL: (
        "alternativ", "analog", "brainstorm", "concept", "creativ", "design", "dream", "explor",
        "future", "idea", "imagin", "innovat", "invent", "new", "novel", "original", "reframe",
        "reimagin", "rethink", "vision",
    ),
    EVIDENCE: (
        "benchmark", "cite", "citation", "compar", "data", "empiric", "estimat", "evidence",
        "experiment", "fact", "literature", "measur", "observ", "publish", "research", "sample",
        "source", "statistic", "studies", "study", "survey",
    ),
    ADVERSARIAL: (
        "abuse", "adversar", "attack", "bias", "break", "critic", "critiqu", "danger", "doubt",
        "fail", "fault", "flaw", "fragil", "hazard", "object", "risk", "safe", "secur", "threat",
        "vulnerab", "weak", "worst",
    ),
    FEASIBLE: (
        "architect", "budget", "build", "built", "cost", "deliver", "deploy", "develop", "effort",
        "engineer", "feasib", "implement", "integrat", "latenc", "maintain", "migrat", "operat",
        "perform", "practical", "scal", "schedul", "ship", "system", "throughput",
    ),
}  # fmt: skip
"""Keyword prefixes by reasoning scope: a word of the problem that starts with one calls for it."""

_find_words = re.compile(r"[^\W\d_]+").findall
_MAX_LINE_LENGTH = 400


class PanelChoice(msgspec.Struct, frozen=True):
    """A model's reply that selects a panel."""

    selected_agents: tuple[str, ...]
    coordinator_agent: str = ""
    reasoning: str = ""


def select_fixed(config: schemas.SymposiumConfig) -> schemas.SelectorOutput:
    """Return the panel that the config declares."""
    return _build_selection(config, config.selector.default_deliberation_panel)


def select_by_rules(config: schemas.SymposiumConfig) -> schemas.SelectorOutput:
    """Return the agents whose reasoning scope the problem calls for.

    An agent whose scope is not in the table is selected, because the table says nothing about it.
    """
    problem = config.problem_statement.casefold()
    words = _find_words(problem)
    called = {
        scope
        for scope, prefixes in SCOPE_KEYWORDS.items()
        if any(word.startswith(prefixes) for word in words)
    }
    personas = {agent.id: resolve_persona_ref(agent.persona_ref) for agent in config.agents}
    chosen = [name for name, persona in personas.items() if _is_suitable(persona, problem, called)]
    left_out = tuple(
        schemas.ExcludedAgent(name, f"no word of the problem calls for {persona.reasoning_scope}")
        for name, persona in personas.items()
        if name not in chosen
    )
    have = {persona.reasoning_scope for persona in personas.values()}
    missing = tuple(
        schemas.MissingCapability(scope, "the problem calls for it, and no agent has it")
        for scope in SCOPE_KEYWORDS
        if scope in called - have
    )
    why = f"{len(chosen)} of {len(personas)} agents think in a way that the problem calls for"
    return _build_selection(config, chosen, why, left_out, missing=missing)


def _is_suitable(persona: Persona, problem: str, called: set[str]) -> bool:
    if persona.reasoning_scope in called:
        return True
    if persona.domain_scope is UNSET:
        return persona.reasoning_scope not in SCOPE_KEYWORDS
    return any(term.casefold() in problem for term in persona.domain_scope)


def build_selector_turn(session: Session, config: schemas.SymposiumConfig, agent: str) -> AgentTurn:
    """Return the turn that asks a model for a panel, without retries."""
    listed = "\n".join(
        f"- {candidate.id}: {role_summary(candidate)}" for candidate in config.agents
    )
    names = [candidate.id for candidate in config.agents]
    room = session.policy.max_reply_chars(agent)
    return AgentTurn(
        name=SELECTOR,
        agent=agent,
        prompt=reply_schemas.compose_prompt(
            "Choose who should deliberate on the problem below: those whose way of thinking it "
            "needs, and nobody else.",
            f"There are:\n{listed}",
            'Reply with JSON: {"selected_agents": ["NAME", ...], "reasoning": "..."}',
            quoted=[quote_text(session, "the problem", config.problem_statement)],
        ),
        schema=reply_schemas.build_schema(
            {
                "selected_agents": reply_schemas.array_schema({"enum": names}, len(names), 1),
                "reasoning": reply_schemas.text_schema(min(_MAX_LINE_LENGTH, room // 2)),
            }
        ),
        read=lambda reply: parse_panel_choice(reply, config),
        retries=0,
        allowance=selector_allowance(config),
    )


def parse_panel_choice(reply: bytes, config: schemas.SymposiumConfig) -> schemas.SelectorOutput:
    """Parse a model's selection, in the order in which the agents are declared.

    Raises `ValueError` with a message for the model.
    """
    chosen = reply_schemas.parse_structured(reply, _chosen)
    names = [agent.id for agent in config.agents]
    if strangers := [name for name in chosen.selected_agents if name not in names]:
        raise ValueError(f"selected_agents: {strangers[0][:40]!r} is none of those listed")
    if len(set(chosen.selected_agents)) < len(chosen.selected_agents):
        raise ValueError("selected_agents: somebody is listed twice")
    if chosen.coordinator_agent not in ("", config.coordinator.id):
        raise ValueError(f"coordinator_agent: it is {config.coordinator.id}")
    ordered = [name for name in names if name in chosen.selected_agents]
    if not ordered:
        raise ValueError("selected_agents: nobody is listed")
    return _build_selection(config, ordered, chosen.reasoning)


def find_ambiguity(config: schemas.SymposiumConfig) -> str:
    """Return why the speakers of a config are ambiguous, or ""."""
    names = [agent.id for agent in (*config.agents, config.coordinator)]
    if len(set(names)) < len(names):
        return "two agents have the same id"
    if clashes := {schemas.RUNTIME, config.originator}.intersection(names):
        return f"an agent has the name of another one who speaks: {min(clashes)!r}"
    # Ids appear in prompts outside of quotations: an id with a line break could inject
    # instructions.
    if odd := [name for name in names if not name.isprintable()]:
        return f"an id is not one printable line: {odd[0]!r}"
    if config.selector.coordinator_agent != config.coordinator.id:
        return f"the coordinator is {config.coordinator.id}, and the selector names another one"
    return ""


def find_panel_error(config: schemas.SymposiumConfig, panel: schemas.SelectorOutput) -> str:
    """Return why this panel cannot deliberate, or ""."""
    names = {agent.id for agent in config.agents}
    if not panel.selected_agents:
        return "nobody was selected"
    if len(set(panel.selected_agents)) < len(panel.selected_agents):
        return "somebody sits on the panel twice"
    strangers = [name for name in panel.selected_agents if name not in names]
    return f"{strangers[0]} is none of the agents" if strangers else ""


def selector_allowance(config: schemas.SymposiumConfig) -> Amount:
    """Return the budget of the selection."""
    own, common = config.selector.selector_budget, config.budget.selector_budget
    budget = (own if own is not UNSET else common) or schemas.SelectorBudget()
    usd = NO_LIMIT if budget.max_cost_usd is UNSET else usd_to_nano(budget.max_cost_usd)
    tokens = NO_LIMIT if budget.max_tokens is UNSET else budget.max_tokens
    return Amount(usd, tokens, NO_LIMIT)


def _build_selection(
    config: schemas.SymposiumConfig,
    names: Iterable[str],
    reasoning: str = "",
    excluded: tuple[schemas.ExcludedAgent, ...] = (),
    missing: tuple[schemas.MissingCapability, ...] = (),
) -> schemas.SelectorOutput:
    return schemas.SelectorOutput(
        strategy=config.selector.strategy,
        selected_agents=tuple(names),
        coordinator_agent=config.selector.coordinator_agent,
        excluded_agents=excluded,
        missing_capabilities=missing,
        reasoning=reasoning,
    )


# Created once, here: two threads that let msgspec inspect a type concurrently crash the process.
_chosen = msgspec.json.Decoder(PanelChoice)
