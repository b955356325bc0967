"""Read agents, tools, roles, gates and caps from `forum.toml`.

In the file, money is in dollars: per call of a program, and per million tokens of a model. In the
record it is in nano-dollars: per call, and per thousand tokens. A value that is not a whole number
of nano-dollars is refused instead of rounded.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from itertools import cycle, islice
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_args

import msgspec

from forum import section_reader
from forum.ledger.entry import Count
from forum.ledger.kinds import Period
from forum.runs import policy
from forum.runs.cli_agents import CLI_AGENTS, CliAgent
from forum.runs.council_end import Requirement
from forum.runs.gate_rules import GateRule
from forum.runs.panel import COUNCIL_VERSION, MAX_SEATS, MAX_SHARE, Council, Panel, Seat
from forum.runs.plan import RunBudget, read_limits
from forum.runs.role_assignment import agent_for
from forum.runs.roster import Tier
from forum.runs.shared_caps import (
    UNCAPPED,
    GatePeriod,
    SharedCap,
    Team,
    Teams,
    check_teams,
)
from forum.spelling import suggest_or_list
from forum.units import NANO_USD, NANO_USD_PER_MILLION, to_exact_units, to_limit_units

T = TypeVar("T")

RoutingMode = Literal["auto", "lexical", "semantic"]
ROUTING_MODES = get_args(RoutingMode)
"""Routing by words, by words and meaning, or by whichever is installed and fitted."""

TeamChoice = Literal["never", "auto"]
"""Whether `submit` uses the whole team by itself: never, or where a model is configured."""

DEFAULT_AGENT = "default"
"""The section name of the agent without a name."""

# The URL is recorded, so it must not contain a user name and a password.
_URL = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(?::(?P<port>[0-9]{1,5}))?(?:/[^\s?#]*)?"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
# Capitals only: some API keys would be valid variable names except for their lower-case letters
# (`gsk_...`, `hf_...`).
_KEY_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*").fullmatch

PRICE_FORM = "{ input = 0.15, output = 0.60 }, both in dollars for 1M tokens"


class _WrittenPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: section_reader.Dollars
    output: section_reader.Dollars


WrittenPrice = Annotated[_WrittenPrice, msgspec.Meta(description=PRICE_FORM)]
"""The price of a model."""


class ModelSection(section_reader.NamedSection, frozen=True):
    """An agent: a model, a program, a script or an extension."""

    kind: str = ""
    url: str = ""
    url_env: str = ""
    model: str = ""
    api: policy.Api = policy.Api.CHAT
    key_env: section_reader.SecretVariable = ""
    key_file: Annotated[
        section_reader.SecretFile, msgspec.Meta(title="the key of the model {}")
    ] = ""
    max_tokens: Count = 0
    price: WrittenPrice | None = None
    at_once: Count = 0
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    context_tokens: Count = 0
    cmd: str = ""
    argv: tuple[str, ...] = ()
    usd: section_reader.Dollars | None = None
    tokens: Count = 0
    output_bytes: Count = 0
    fallback: tuple[str, ...] = ()
    moves: dict[str, Any] = msgspec.field(default_factory=dict)
    extension: str = ""


class ToolSection(section_reader.NamedSection, frozen=True):
    """A tool: a program, or an extension."""

    cmd: str = ""
    argv: tuple[str, ...] = ()
    extension: str = ""
    seconds: Count = 0
    description: str = ""
    schema: dict[str, Any] = msgspec.field(default_factory=dict)


class McpServerSection(section_reader.NamedSection, frozen=True):
    """An MCP server: a program or an address."""

    cmd: str = ""
    argv: tuple[str, ...] = ()
    url: str = ""
    env: tuple[str, ...] = ()
    key_env: section_reader.SecretVariable = ""


_USUAL = Council()


class PanelSection(section_reader.NamedSection, frozen=True):
    """A council."""

    models: tuple[str, ...] = ()
    seats: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEATS)] | None = None
    options: tuple[str, ...] = ()
    rounds: Count = _USUAL.rounds
    baseline: Count = _USUAL.baseline
    threshold: Decimal = Decimal(_USUAL.threshold) / MAX_SHARE
    judge: str | None = None
    check: str = ""
    require: Requirement = Requirement.MAJORITY


class GateSection(section_reader.NamedSection, frozen=True):
    """A rule about what has to be approved."""

    tool: str = ""
    lane: str = ""
    argument: str = ""
    above: Decimal | None = None
    per: GatePeriod | None = None


class TeamSection(section_reader.NamedSection, frozen=True):
    """Submitters who share the caps of their team."""

    members: tuple[str, ...] = ()
    within: str = ""


class BudgetSection(section_reader.NamedSection, frozen=True):
    """A cap over many runs."""

    per: Period
    key: str = ""
    person: str = ""
    team: str = ""
    lane: str = ""
    agent: str = ""
    usd: section_reader.Dollars | None = None
    tokens: section_reader.WrittenAmount | None = None
    runs: section_reader.WrittenAmount | None = None


class RosterSection(section_reader.Section, frozen=True):
    """The roster, and how requests are routed."""

    file: section_reader.FilePath = ""
    rung: RoutingMode = "auto"


class SubmitSection(section_reader.Section, frozen=True):
    """Whether `submit` uses the whole team by itself."""

    team: TeamChoice = "never"


class ClientsSection(section_reader.Section, frozen=True):
    """The limits of one run that a client of the server submits."""

    usd: section_reader.Dollars | None = None
    tokens: section_reader.WrittenAmount | None = None
    calls: section_reader.WrittenAmount | None = None
    seconds: section_reader.WrittenAmount | None = None
    depth: section_reader.WrittenAmount | None = None


class _WholeTeamSection(section_reader.Section, frozen=True):
    team: bool = False


RolesSection = cast(
    "type[_WholeTeamSection]",
    msgspec.defstruct(
        "RolesSection",
        [(role.value, str | bool | None, None) for role in policy.Role],
        bases=(_WholeTeamSection,),
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    ),
)
"""The agent or panel of each role; `false` leaves the role out."""

TEAM_SECTIONS: Final[section_reader.Sections] = {
    "models": ModelSection,
    "panels": PanelSection,
    "tools": ToolSection,
    "servers": McpServerSection,
    "gates": GateSection,
    "budgets": BudgetSection,
    "teams": TeamSection,
    "roles": RolesSection,
    "roster": RosterSection,
    "submit": SubmitSection,
    "clients": ClientsSection,
}

_AGENT_KINDS: Mapping[str, type[policy.Agent]] = {
    "chat": policy.Chat,
    "pydantic-ai": policy.Library,
    "command": policy.Command,
    "scripted": policy.Scripted,
    "extension": policy.Extension,
}
_WRITTEN_AS = {
    "argv": {"argv", "cmd"}, "entry": {"extension"}, "input_usd": {"price"},
    "output_usd": {"price"}, "report": set(), "fallback": set(),
}  # fmt: skip
"""How members of a policy are written in the file, if not by their own names."""
_CLI_SETTINGS = frozenset({"model", "usd", "tokens", "output_bytes", "context_tokens", "fallback"})


class TeamSettings(msgspec.Struct, frozen=True):
    """The sections of a settings file about agents and tools."""

    agents: dict[str, policy.Agent] = {}
    """By name; if there are any, one of them has an empty name."""
    tools: dict[str, policy.ToolSpec] = {}
    servers: dict[str, policy.McpServer] = {}
    roles: dict[policy.Role, str] = {}
    off: frozenset[policy.Role] = frozenset()
    """The roles that a team does without."""
    team: bool = False
    """Whether requests get the whole team unless the client says otherwise."""
    roster: str = ""
    rung: str = "auto"
    """The routing mode."""
    panels: dict[str, Panel] = {}
    """Councils by name: the ladder can end with them, they can judge, and decide in a plan."""
    ceiling: RunBudget = RunBudget()
    """Budget limit of one run that a client of the server submits."""


def read_team_settings(sections: section_reader.SectionTables) -> TeamSettings:
    """Return the settings of these sections. Raises `BadSettings` with the place and the reason."""
    named = _read_each(sections, "models", ModelSection, _read_agent)
    agents = {"" if name == DEFAULT_AGENT else name: agent for name, agent in named.items()}
    if agents and "" not in agents:
        # Tasks that name no agent need one: the tier `capable` or its nearest, else the first in
        # the file.
        agents[""] = agents.get(agent_for(Tier.CAPABLE, agents)) or next(iter(agents.values()))
    panels: dict[str, Panel] = {
        **_read_each(sections, "panels", PanelSection, lambda panel, _: _read_council(panel, named))
    }
    roles = sections.read("roles", RolesSection)
    with sections.errors("roles"):
        assigned = _assign_roles(roles, (*named, *panels))
    roster = sections.read("roster", RosterSection)
    is_auto = sections.read("submit", SubmitSection).team == "auto"
    limits = sections.read("clients", ClientsSection)
    with sections.errors("clients"):
        ceiling = read_limits(msgspec.structs.asdict(limits))
    return TeamSettings(
        agents=agents,
        tools=_read_each(
            sections,
            "tools",
            ToolSection,
            lambda _, table: _convert_program(table, policy.ToolSpec),
        ),
        servers=_read_each(sections, "servers", McpServerSection, _read_server),
        roles=assigned,
        panels=panels,
        off=frozenset(role for role in policy.Role if _is_switched_off(getattr(roles, role))),
        team=roles.team or (is_auto and _has_model(agents)),
        roster=roster.file,
        rung=roster.rung,
        ceiling=ceiling,
    )


def _read_each(
    sections: section_reader.SectionTables,
    kind: str,
    into: type[section_reader.S],
    build: Callable[[section_reader.S, dict[str, Any]], T],
) -> dict[str, T]:
    """Return what is built from each section `[KIND.NAME]` and its table."""
    built = {}
    for name, section in sections.read_named(kind, into).items():
        with sections.errors(f"{kind}.{name}"):
            built[name] = build(section, dict(sections.raw(kind)[name]))
    return built


def _has_model(agents: Mapping[str, policy.Agent]) -> bool:
    """Tell whether a model is configured; other programs may be anything."""
    return any(isinstance(agent, policy.Chat | policy.Library) for agent in agents.values())


def read_gate_rules(sections: section_reader.SectionTables) -> tuple[GateRule, ...]:
    """Return the rules of the sections [gates.NAME], by name. Raises `BadSettings`."""
    rules = _read_each(sections, "gates", GateSection, _read_gate_rule)
    return tuple(msgspec.structs.replace(rules[name], name=name) for name in sorted(rules))


def read_shared_caps(sections: section_reader.SectionTables) -> tuple[SharedCap, ...]:
    """Return the caps over many runs of the sections [budgets.NAME]. Raises `BadSettings`."""
    caps = _read_each(sections, "budgets", BudgetSection, _read_shared_cap)
    return tuple(msgspec.structs.replace(caps[name], name=name) for name in sorted(caps))


def read_teams(sections: section_reader.SectionTables) -> Teams:
    """Return the teams of the sections [teams.NAME] by name. Raises `BadSettings`."""
    teams = {
        name: Team(name, section.members, section.within)
        for name, section in sections.read_named("teams", TeamSection).items()
    }
    with sections.errors("teams"):
        check_teams(teams)
    return teams


def chat_agent(settings: section_reader.Table) -> policy.Chat:
    """Return a model behind an API, with the API's default URL and key variable if not given.

    The URL may be the base URL or that of the API's operation, which also tells the API. Raises
    `ValueError`.
    """
    settings = _with_base_url(settings)
    spec = _convert(settings, _EndpointSettings)
    where = spec.url or policy.API_ENDPOINTS[spec.api].url
    if not _is_address(where):
        raise ValueError(
            f"url: {where!r} is no address of an API; write http://HOST:PORT/v1, "
            "with the key in key_env or key_file"
        )
    if not spec.model:
        raise ValueError("model: name the model")
    for name in sorted(policy.RESERVED_OPTIONS & spec.options.keys()):
        raise ValueError(f"options: {name!r} is not one; what Forum says itself stays as it is")
    _check_names(spec.key_env)
    key = spec.key_env or (_default_key_variable(where) if not spec.key_file else "")
    return _convert({**settings, "url": where, "key_env": key}, policy.Chat)


def model_agent(settings: section_reader.Table) -> policy.Chat | policy.Library:
    """Return a model from settings whose prices are in dollars. Raises `ValueError`."""
    into = _AGENT_KINDS[settings["kind"]]
    _refuse_others(settings, _list_settings(into))
    table = _in_nano_dollars(dict(settings))
    return chat_agent(table) if into is policy.Chat else _convert(table, policy.Library)


def _with_base_url(settings: section_reader.Table) -> section_reader.Table:
    """Replace the address of an operation, such as `.../v1/chat/completions`, by its base URL."""
    url = settings.get("url")
    if not isinstance(url, str):
        return settings
    plain = url.rstrip("/")
    for api, endpoint in policy.API_ENDPOINTS.items():
        if plain.endswith(endpoint.path):
            named = settings.get("api", api.value)
            if named != api.value:
                raise ValueError(
                    f'api: it is "{named}", but url ends with {endpoint.path}, which is "{api}"; '
                    "correct one of them"
                )
            return {**settings, "url": plain.removesuffix(endpoint.path), "api": api.value}
    return settings


class _EndpointSettings(msgspec.Struct, frozen=True):
    """The settings that locate a model."""

    url: str = ""
    model: str = ""
    api: policy.Api = policy.Api.CHAT
    key_env: str = ""
    key_file: str = ""
    options: dict[str, Any] = {}


def _default_key_variable(url: str) -> str:
    """Return the variable with the key for this host, regardless of the API.

    A default key is sent only to its own provider, and never without TLS.
    """
    endpoints = policy.API_ENDPOINTS.values()
    keys = {authority_of(endpoint.url): endpoint.key_variable for endpoint in endpoints}
    return keys.get(authority_of(url), "") if url.startswith("https:") else ""


def _is_address(url: str) -> bool:
    match = _URL.fullmatch(url)
    return match is not None and int(match["port"] or 0) < 1 << 16


def _check_names(key_env: str, env: tuple[str, ...] = ()) -> None:
    """Refuse invalid variable names, without quoting the value: it may be the key itself.

    Raises `ValueError`.
    """
    if key_env and not _KEY_VARIABLE(key_env):
        raise ValueError("key_env: write the NAME of a variable, in capitals; the key goes into it")
    if not all(map(_VARIABLE, env)):
        raise ValueError("env: write names of variables, without their values")


def authority_of(url: str) -> str:
    """Return the host and port of a URL; an empty string if it is not a valid one."""
    return url.split("/")[2] if _URL.fullmatch(url) else ""


def split_command(command: str) -> tuple[str, ...]:
    """Split a command into words, without a shell. Raises `ValueError`."""
    argv = tuple(shlex.split(command))
    if not argv:
        raise ValueError("no program is named")
    return argv


def _read_agent(section: ModelSection, table: dict[str, Any]) -> policy.Agent:
    kind = section.kind or _infer_kind(table)
    if kind in CLI_AGENTS:
        return _read_cli_agent(CLI_AGENTS[kind], section, table)
    if kind not in _AGENT_KINDS:
        kinds = ", ".join((*_AGENT_KINDS, *CLI_AGENTS))
        raise ValueError(f"kind: {kind!r} is none of {kinds}")
    into = _AGENT_KINDS[kind]
    _refuse_others(table, _list_settings(into))
    table = _in_nano_dollars(_with_entry(_with_argv(table)))
    if into is policy.Chat:
        return chat_agent(table)
    return _convert({**table, "kind": kind}, into)


def _infer_kind(table: section_reader.Table) -> str:
    """Return the kind of an agent for which none is given."""
    if table.keys() & {"cmd", "argv"}:
        return "command"
    if "extension" in table:
        return "extension"
    if table.keys() & {"url", "model"}:
        return "chat"
    raise ValueError("it says neither model nor cmd: name a model, or a program")


def _list_settings(agent: type[policy.Agent]) -> frozenset[str]:
    """Return the settings of an agent of this kind, beside `kind`."""
    members = agent.__struct_fields__
    return frozenset(name for member in members for name in _WRITTEN_AS.get(member, {member}))


def _refuse_others(table: section_reader.Table, names: frozenset[str]) -> None:
    for name in sorted(table.keys() - names - {"kind"}):
        raise ValueError(f"it has no setting {name!r}; {suggest_or_list(name, names)}")


def _read_cli_agent(
    cli_agent: CliAgent, section: ModelSection, table: dict[str, Any]
) -> policy.Command:
    """Return the command of a coding agent, for which only its model and prices are set."""
    _refuse_others(table, _CLI_SETTINGS)
    others = _list_fallbacks(section.fallback, cli_agent)
    shared = {n: value for n, value in table.items() if n not in ("model", "fallback")}
    programs = [
        _convert(
            _in_nano_dollars(
                {
                    "context_tokens": agent.context_tokens,
                    **shared,
                    "kind": "command",
                    "argv": agent.argv(
                        section.model if agent is cli_agent else "", _format_cap(section.usd)
                    ),
                    "report": agent.report.value,
                }
            ),
            policy.Command,
        )
        for agent in (cli_agent, *others)
    ]
    return msgspec.structs.replace(programs[0], fallback=tuple(programs[1:]))


def _list_fallbacks(kinds: tuple[str, ...], first: CliAgent) -> list[CliAgent]:
    """Return the coding agents that are tried after the first one. Raises `ValueError`."""
    if not all(kind in CLI_AGENTS for kind in kinds):
        raise ValueError(f"fallback: write a list of {', '.join(CLI_AGENTS)}")
    agents = [CLI_AGENTS[kind] for kind in kinds]
    if len({agent.program for agent in (first, *agents)}) <= len(agents):
        raise ValueError("fallback: each coding agent is tried once")
    return agents


def _convert_program(table: dict[str, Any], into: type[section_reader.S]) -> section_reader.S:
    return _convert(_with_entry(_with_argv(table)), into)


def _read_server(section: McpServerSection, table: dict[str, Any]) -> policy.McpServer:
    server = _convert_program(table, policy.McpServer)
    if bool(server.argv) == bool(server.url):
        raise ValueError("a server is a program (cmd) or an address (url): say one of them")
    if server.url and not _is_address(server.url):
        raise ValueError(f"url: {server.url!r} is no address; the key belongs in key_env")
    _check_names(section.key_env, section.env)
    return server


def _read_council(section: PanelSection, agents: Collection[str]) -> Council:
    """Return the council of a section [panels.NAME]."""
    for name in section.models:
        if name not in agents:
            names = ", ".join(agents) or "none"
            raise ValueError(f"models: no model is called {name!r}; [models] has: {names}")
    if not section.threshold.is_finite() or section.threshold < 0:
        raise ValueError("threshold: write a share from 0 on, such as 0.66")
    seated = ["" if name == DEFAULT_AGENT else name for name in section.models] or [""]
    usual = len(section.models) if len(section.models) > 1 else len(_USUAL.seats)
    return Council(
        seats=tuple(Seat(name) for name in islice(cycle(seated), section.seats or usual)),
        options=section.options,
        baseline=section.baseline,
        threshold=int(MAX_SHARE * section.threshold),
        rounds=section.rounds,
        judge=section.judge,
        check=section.check,
        version=COUNCIL_VERSION,
        require=section.require,
    )


def _assign_roles(
    section: section_reader.Section, agents: Collection[str]
) -> dict[policy.Role, str]:
    """Return the agent or panel of each role for which one is named."""
    named = {role: getattr(section, role) for role in policy.Role}
    chosen = {
        role: name
        for role, name in named.items()
        if name is not None and not _is_switched_off(name)
    }
    for role, name in chosen.items():
        if name not in agents:
            names = ", ".join(agents) or "none"
            raise ValueError(
                f"{role}: no model is called {name!r}; [models] and [panels] have: {names}. "
                f"{role} = false leaves the role out"
            )
    return {role: "" if name == DEFAULT_AGENT else name for role, name in chosen.items()}


def _read_shared_cap(section: BudgetSection, _: section_reader.Table) -> SharedCap:
    subjects = {
        name: pattern
        for name in ("key", "person", "team", "lane", "agent")
        if (pattern := getattr(section, name))
    }
    if len(subjects) > 1:
        raise ValueError(f"a cap is for one of {', '.join(subjects)}: write two sections")
    caps = {
        name: _to_named_units(name, amount, unit, to_limit_units)
        for name, unit in {"usd": NANO_USD, "tokens": 1, "runs": 1}.items()
        if (amount := getattr(section, name)) is not None
    }
    if not caps:
        raise ValueError("it caps nothing: say usd, tokens or runs")
    return SharedCap(name="", per=section.per, cap=UNCAPPED._replace(**caps), **subjects)


def _read_gate_rule(section: GateSection, _: section_reader.Table) -> GateRule:
    if not section.tool and not section.lane:
        raise ValueError("it says neither tool nor lane: name what has to be approved")
    # A rule that guards nothing is refused, because the operator would rely on it.
    has_limit = section.above is not None
    if bool(section.argument) != has_limit or (section.argument and not section.tool):
        raise ValueError(
            "an amount needs three settings: the tool, the argument that holds it, and above"
        )
    if section.per is not None and not section.argument:
        raise ValueError("per is about an amount: it needs argument and above")
    if section.above is not None and (not section.above.is_finite() or section.above < 0):
        raise ValueError(f"above: {section.above} is out of range")
    rule = GateRule(
        name="",
        tool=section.tool,
        lane=section.lane,
        argument=section.argument,
        above="" if section.above is None else format(section.above, "f"),
        per=section.per or GatePeriod.USE,
    )
    if rule.per is not GatePeriod.USE and not rule.can_add_up:
        raise ValueError(f"above: {rule.above} is too much to be added up")
    return rule


def _is_switched_off(name: object) -> bool:
    return name is False or name == ""


def _with_entry(table: dict[str, Any]) -> dict[str, Any]:
    """Replace `extension`, which is the name of an entry point, by the recorded form."""
    if "extension" not in table:
        return table
    rest = {name: value for name, value in table.items() if name != "extension"}
    return {**rest, "entry": {"name": table["extension"]}}


def _with_argv(table: dict[str, Any]) -> dict[str, Any]:
    """Replace `cmd`, which is one text, by `argv`."""
    if "cmd" not in table:
        return table
    if "argv" in table or not isinstance(table["cmd"], str):
        raise ValueError("cmd: write one text, and no argv beside it")
    try:
        argv = split_command(table["cmd"])
    except ValueError as error:
        raise ValueError(f"cmd: {error}") from None
    return {name: value for name, value in table.items() if name != "cmd"} | {"argv": argv}


def _in_nano_dollars(table: dict[str, Any]) -> dict[str, Any]:
    price = table.pop("price", None)
    if price is not None:
        if not isinstance(price, dict) or price.keys() != {"input", "output"}:
            raise ValueError("price: write { input = 0.15, output = 0.60 }, both for 1M tokens")
        for key in ("input", "output"):
            table[f"{key}_usd"] = _to_named_units(f"price.{key}", price[key], NANO_USD_PER_MILLION)
    return {name: _convert_prices(name, value) for name, value in table.items()}


def _convert_prices(name: str, value: Any) -> Any:  # noqa: ANN401  what a file holds
    """Return a value in which all dollars per call, at any depth, are nano-dollars."""
    if isinstance(value, dict):
        return {key: _convert_prices(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list):
        return [_convert_prices(name, item) for item in value]
    is_price = name == "usd" or name.endswith(".usd")
    return _to_named_units(name, value, NANO_USD) if is_price else value


def _format_cap(usd: object) -> str:
    """Return a price as a plain decimal number; "" if there is none."""
    exact = _to_named_units("usd", usd, NANO_USD) if usd is not None else 0
    return format(Decimal(exact) / NANO_USD, "f") if exact else ""


def _to_named_units(
    name: str, value: object, unit: int, convert: Callable[[object, int], int] = to_exact_units
) -> int:
    try:
        return convert(value, unit)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _convert(table: section_reader.Table, into: type[section_reader.S]) -> section_reader.S:
    """Convert a table to a part of a policy. Raises `ValueError` with the place."""
    return section_reader.convert_table(_to_json_value(table), into)


def _to_json_value(value: Any) -> Any:  # noqa: ANN401  what a file holds
    """Return a value as JSON: the only decimals left here are options of a model."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a number")
        return float(value)
    if isinstance(value, Mapping):
        return {name: _to_json_value(item) for name, item in value.items()}
    return [_to_json_value(item) for item in value] if isinstance(value, list | tuple) else value
