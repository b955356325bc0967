"""Read agents, tools, roles, gates and caps from `forum.toml`.

In the file, money is in dollars: per call of a program, and per million tokens of a model. In the
record it is in nano-dollars: per call, and per thousand tokens. A value that is not a whole number
of nano-dollars is refused instead of rounded.
"""

import re
import shlex
from collections.abc import Collection, Mapping
from decimal import Decimal, InvalidOperation, Overflow
from itertools import cycle, islice
from typing import Any, TypeVar

import msgspec

from forum.errors import BadSettings
from forum.ledger.ports import NO_LIMIT
from forum.spelling import closest_names, suggest_or_list
from forum.work import policy
from forum.work.cli_agents import CLI_AGENTS, CliAgent
from forum.work.gate_rules import GateRule
from forum.work.panel import COUNCIL_VERSION, MAX_SEATS, MAX_SHARE, Council, Panel
from forum.work.plan import RunBudget
from forum.work.role_assignment import agent_for
from forum.work.roster import Tier
from forum.work.shared_caps import UNCAPPED, GatePeriod, Period, SharedCap

T = TypeVar("T")
Table = Mapping[str, Any]

NANO_USD = 1_000_000_000
NANO_USD_PER_MILLION = NANO_USD // 1000
"""One dollar per million tokens, in nano-dollars per thousand."""

ROUTING_MODES = ("auto", "lexical", "semantic")
"""Routing by words, by words and meaning, or by whichever is installed and fitted."""

TEAM_CHOICES = ("never", "auto")
"""Whether `submit` uses the whole team by itself: never, or where a model is configured."""

DEFAULT_AGENT = "default"
"""The section name of the agent without a name."""

_DEFAULT_ENDPOINTS = {
    policy.Api.CHAT: ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    policy.Api.RESPONSES: ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    policy.Api.ANTHROPIC: ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
}
"""The URL and the key variable of an API, if the file names none."""

RESERVED_OPTIONS = frozenset(
    # The prompt sent must be the recorded one, and the reservation must bound the cost. An option
    # with one of these names could change either.
    {
        "model", "messages", "input", "instructions", "system", "prompt", "stream",
        "stream_options", "tools", "tool_choice", "functions", "response_format", "text",
        "output_config", "output_format", "max_tokens", "max_completion_tokens",
        "max_output_tokens", "n", "best_of", "background", "previous_response_id", "conversation",
    }
)  # fmt: skip
"""Names that `options` must not contain."""

# The URL is recorded, so it must not contain a user name and a password.
_URL = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(?::(?P<port>[0-9]{1,5}))?(?:/[^\s?#]*)?"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
# Capitals only: some API keys would be valid variable names except for their lower-case letters
# (`gsk_...`, `hf_...`).
_KEY_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*").fullmatch

_AGENT_KINDS: Mapping[str, tuple[type[policy.Agent], frozenset[str]]] = {
    "chat": (
        policy.Chat,
        frozenset({"url", "model", "api", "key_env", "key_file", "max_tokens", "price"})
        | {"at_once", "options", "context_tokens"},
    ),
    "pydantic-ai": (
        policy.Library,
        frozenset({"model", "max_tokens", "price", "options", "context_tokens"}),
    ),
    "command": (
        policy.Command,
        frozenset({"cmd", "argv", "usd", "tokens", "output_bytes", "context_tokens"}),
    ),
    "scripted": (policy.Scripted, frozenset({"moves", "usd", "tokens"})),
    "extension": (
        policy.Extension,
        frozenset({"extension", "options", "usd", "tokens", "context_tokens"}),
    ),
}
_CLI_SETTINGS = frozenset({"model", "usd", "tokens", "output_bytes", "context_tokens", "fallback"})
_TOOL_SETTINGS = frozenset({"cmd", "argv", "extension", "seconds", "description", "schema"})
_SERVER_SETTINGS = frozenset({"cmd", "argv", "url", "env", "key_env"})
_BUDGET_SETTINGS = frozenset({"per", "key", "lane", "usd", "tokens", "runs"})
_PANEL_SETTINGS = frozenset(
    {"models", "seats", "options", "rounds", "baseline", "threshold", "judge", "check", "require"}
)
_GATE_SETTINGS = frozenset({"tool", "lane", "argument", "above", "per"})


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


def read_team_settings(file: str, tables: Mapping[str, Table]) -> TeamSettings:
    """Return the settings of these sections. Raises `BadSettings` with the place and the reason."""

    def each(kind: str) -> list[tuple[str, "_Section"]]:
        items = tables.get(kind, {}).items()
        return [(name, _Section(file, f"{kind}.{name}", table)) for name, table in items]

    named = {name: section.agent() for name, section in each("models")}
    agents = {"" if name == DEFAULT_AGENT else name: agent for name, agent in named.items()}
    if agents and "" not in agents:
        # Tasks that name no agent need one: the tier `capable` or its nearest, else the first in
        # the file.
        agents[""] = agents.get(agent_for(Tier.CAPABLE, agents)) or next(iter(agents.values()))
    panels: dict[str, Panel] = {name: section.council(named) for name, section in each("panels")}
    roles = _Section(file, "roles", tables.get("roles", {}))
    roster = _Section(file, "roster", tables.get("roster", {}))
    is_auto = _Section(file, "submit", tables.get("submit", {})).is_team_automatic()
    return TeamSettings(
        agents=agents,
        tools={name: section.tool() for name, section in each("tools")},
        servers={name: section.server() for name, section in each("servers")},
        roles=roles.roles((*named, *panels)),
        panels=panels,
        off=roles.roles_off(),
        team=roles.get("team", default=False) or (is_auto and _has_model(agents)),
        roster=roster.get("file", default=""),
        rung=roster.routing_mode(),
        ceiling=_Section(file, "clients", tables.get("clients", {})).budget(),
    )


def _has_model(agents: Mapping[str, policy.Agent]) -> bool:
    """Tell whether a model is configured; other programs may be anything."""
    return any(isinstance(agent, policy.Chat | policy.Library) for agent in agents.values())


def read_gate_rules(file: str, tables: Mapping[str, Table]) -> tuple[GateRule, ...]:
    """Return the rules of the sections [gates.NAME], by name. Raises `BadSettings`."""
    items = sorted(tables.get("gates", {}).items())
    return tuple(_Section(file, f"gates.{name}", table).gate_rule(name) for name, table in items)


def read_shared_caps(file: str, tables: Mapping[str, Table]) -> tuple[SharedCap, ...]:
    """Return the caps over many runs of the sections [budgets.NAME]. Raises `BadSettings`."""
    items = sorted(tables.get("budgets", {}).items())
    return tuple(_Section(file, f"budgets.{name}", table).shared_cap(name) for name, table in items)


def chat_agent(settings: Table) -> policy.Chat:
    """Return a model behind an API, with the API's default URL and key variable if not given.

    The URL may be the base URL or that of the API's operation, which also tells the API. Raises
    `ValueError`.
    """
    settings = _with_base_url(settings)
    spec = _convert(settings, _EndpointSettings)
    where = spec.url or _DEFAULT_ENDPOINTS[spec.api][0]
    if not _is_address(where):
        raise ValueError(
            f"url: {where!r} is no address of an API; write http://HOST:PORT/v1, "
            "with the key in key_env or key_file"
        )
    if not spec.model:
        raise ValueError("model: name the model")
    for name in sorted(RESERVED_OPTIONS & spec.options.keys()):
        raise ValueError(f"options: {name!r} is not one; what Forum says itself stays as it is")
    _check_names(spec.key_env)
    key = spec.key_env or (_default_key_variable(where) if not spec.key_file else "")
    return _convert({**settings, "url": where, "key_env": key}, policy.Chat)


def model_agent(settings: Table) -> policy.Chat | policy.Library:
    """Return a model from settings whose prices are in dollars. Raises `ValueError`."""
    into, names = _AGENT_KINDS[settings["kind"]]
    for key in sorted(settings.keys() - names - {"kind"}):
        raise ValueError(f"it has no setting {key!r}; {suggest_or_list(key, names)}")
    table = _in_nano_dollars(dict(settings))
    return chat_agent(table) if into is policy.Chat else _convert(table, policy.Library)


def _with_base_url(settings: Table) -> Table:
    """Replace the address of an operation, such as `.../v1/chat/completions`, by its base URL."""
    url = settings.get("url")
    if not isinstance(url, str):
        return settings
    plain = url.rstrip("/")
    for api, path in policy.OPERATION_PATHS.items():
        if plain.endswith(path):
            named = settings.get("api", api.value)
            if named != api.value:
                raise ValueError(
                    f'api: it is "{named}", but url ends with {path}, which is "{api}"; '
                    "correct one of them"
                )
            return {**settings, "url": plain.removesuffix(path), "api": api.value}
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
    keys = {authority_of(cloud): key for cloud, key in _DEFAULT_ENDPOINTS.values()}
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


def to_exact_units(value: object, unit: int) -> int:
    """Return a decimal number in a smaller unit. Raises `ValueError` if that is not exact."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004  a user's mistake, not ours
    try:
        number = Decimal(value) * unit
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a number") from None
    except Overflow:
        raise ValueError(f"{value} is out of range") from None
    if not number.is_finite() or number < 0 or number >= NO_LIMIT:
        raise ValueError(f"{value} is out of range")
    if number != int(number):
        raise ValueError(f"{value} is more exact than one {unit:,}th")
    return int(number)


class _Section(msgspec.Struct, frozen=True):
    """One section of a file; its errors name the file and the section."""

    file: str
    name: str
    table: Table

    def agent(self) -> policy.Agent:
        kind = self.get("kind", default="") or self._infer_kind()
        if kind in CLI_AGENTS:
            return self._cli_agent(CLI_AGENTS[kind])
        if kind not in _AGENT_KINDS:
            kinds = ", ".join((*_AGENT_KINDS, *CLI_AGENTS))
            raise self._error(f"kind: {kind!r} is none of {kinds}")
        into, names = _AGENT_KINDS[kind]
        table = self._checked_table(names | {"kind"})
        try:
            table = _in_nano_dollars(_with_entry(_with_argv(table)))
            return (
                chat_agent(table)
                if into is policy.Chat
                else _convert({**table, "kind": kind}, into)
            )
        except ValueError as error:
            raise self._error(str(error)) from None

    def _cli_agent(self, known: CliAgent) -> policy.Command:
        """Return the command of a coding agent, for which only its model and prices are set."""
        given = self._checked_table(_CLI_SETTINGS | {"kind"})
        try:
            others = self._fallback(given.pop("fallback", []), known)
            shared = {
                **{name: value for name, value in given.items() if name != "model"},
                "kind": "command",
            }
            model = self.get("model", default="")
            programs = [
                _convert(
                    _in_nano_dollars(
                        {
                            "context_tokens": agent.context_tokens,
                            **shared,
                            "argv": agent.argv(
                                model if agent is known else "", _format_cap(given.get("usd"))
                            ),
                            "report": agent.report.value,
                        }
                    ),
                    policy.Command,
                )
                for agent in (known, *others)
            ]
        except ValueError as error:
            raise self._error(str(error)) from None
        return msgspec.structs.replace(programs[0], fallback=tuple(programs[1:]))

    def _fallback(self, kinds: object, first: CliAgent) -> list[CliAgent]:
        """Return the coding agents that are tried after the first one. Raises `ValueError`."""
        if not isinstance(kinds, list) or not all(kind in CLI_AGENTS for kind in kinds):
            raise ValueError(f"fallback: write a list of {', '.join(CLI_AGENTS)}")
        agents = [CLI_AGENTS[kind] for kind in kinds]
        if len({agent.program for agent in (first, *agents)}) <= len(agents):
            raise ValueError("fallback: each coding agent is tried once")
        return agents

    def _infer_kind(self) -> str:
        """Return the kind of an agent for which none is given."""
        if self.table.keys() & {"cmd", "argv"}:
            return "command"
        if "extension" in self.table:
            return "extension"
        if self.table.keys() & {"url", "model"}:
            return "chat"
        for key in sorted(self.table):
            for meant in closest_names(key, ("model", "cmd", "argv", "url", "extension")):
                raise self._error(f"it has no setting {key!r}; did you mean {meant}?")
        raise self._error("it says neither model nor cmd: name a model, or a program")

    def tool(self) -> policy.ToolSpec:
        return self._read_struct(policy.ToolSpec, _TOOL_SETTINGS)

    def server(self) -> policy.McpServer:
        server = self._read_struct(policy.McpServer, _SERVER_SETTINGS)
        if bool(server.argv) == bool(server.url):
            raise self._error("a server is a program (cmd) or an address (url): say one of them")
        if server.url and not _is_address(server.url):
            raise self._error(f"url: {server.url!r} is no address; the key belongs in key_env")
        try:
            _check_names(server.key_env, server.env)
        except ValueError as error:
            raise self._error(str(error)) from None
        return server

    def council(self, agents: Collection[str]) -> Council:
        """Return the council of a section [panels.NAME]."""
        table = dict(self._checked_table(_PANEL_SETTINGS))
        models = table.pop("models", [])
        if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
            raise self._error('models: write a list of names, such as ["ash", "birch"]')
        for name in models:
            if name not in agents:
                names = ", ".join(agents) or "none"
                raise self._error(f"models: no model is called {name!r}; [models] has: {names}")
        seated = ["" if name == DEFAULT_AGENT else name for name in models] or [""]
        usual = len(models) if len(models) > 1 else len(Council().seats)
        count = table.pop("seats", usual)
        if not isinstance(count, int) or not 1 <= count <= MAX_SEATS:
            raise self._error(f"seats: a number from 1 to {MAX_SEATS}")
        if "threshold" in table:
            table["threshold"] = int(MAX_SHARE * Decimal(table["threshold"]))
        table |= {"seats": [{"agent": name} for name in islice(cycle(seated), count)]}
        try:
            return _convert({"version": COUNCIL_VERSION, "protocol": "council", **table}, Council)
        except ValueError as error:
            raise self._error(str(error)) from None

    def roles(self, agents: Collection[str]) -> dict[policy.Role, str]:
        """Return the agent or panel of each role for which one is named."""
        role_names = {role.value for role in policy.Role}
        table = self._checked_table(role_names | {"team"})
        chosen = {
            role: name
            for role, name in table.items()
            if role in role_names and not _is_switched_off(name)
        }
        for role, name in chosen.items():
            if name not in agents:
                names = ", ".join(agents) or "none"
                raise self._error(
                    f"{role}: no model is called {name!r}; [models] and [panels] have: {names}. "
                    f"{role} = false leaves the role out"
                )
        return {
            policy.Role(role): "" if name == DEFAULT_AGENT else name
            for role, name in chosen.items()
        }

    def roles_off(self) -> frozenset[policy.Role]:
        """Return the roles that are switched off: by false, or by an empty name."""
        return frozenset(role for role in policy.Role if _is_switched_off(self.table.get(role)))

    def budget(self) -> RunBudget:
        units = {"usd": NANO_USD, "tokens": 1, "calls": 1, "seconds": 1000, "depth": 1}
        try:
            limits = {
                name: _to_named_units(name, value, units[name])
                for name, value in self.table.items()
            }
        except ValueError as error:
            raise self._error(str(error)) from None
        if "seconds" in limits:
            limits["milliseconds"] = limits.pop("seconds")
        return msgspec.structs.replace(RunBudget(), **limits)

    def shared_cap(self, name: str) -> SharedCap:
        table = self._checked_table(_BUDGET_SETTINGS)
        per, periods = self.get("per", default=""), [period.value for period in Period]
        if per not in periods:
            raise self._error(f"per: {per!r} is none of {', '.join(periods)}")
        key, lane = self.get("key", default=""), self.get("lane", default="")
        if key and lane:
            raise self._error("a cap is for keys or for lanes: write two sections")
        units = {"usd": NANO_USD, "tokens": 1, "runs": 1}
        try:
            caps = {
                n: _to_named_units(n, table[n], unit) for n, unit in units.items() if n in table
            }
        except ValueError as error:
            raise self._error(str(error)) from None
        if not caps:
            raise self._error("it caps nothing: say usd, tokens or runs")
        return SharedCap(
            name=name, per=Period(per), key=key, lane=lane, cap=UNCAPPED._replace(**caps)
        )

    def gate_rule(self, name: str) -> GateRule:
        table = self._checked_table(_GATE_SETTINGS)
        tool, lane = self.get("tool", default=""), self.get("lane", default="")
        argument = self.get("argument", default="")
        if not tool and not lane:
            raise self._error("it says neither tool nor lane: name what has to be approved")
        # A rule that guards nothing is refused, because the operator would rely on it.
        if bool(argument) != ("above" in table) or (argument and not tool):
            raise self._error(
                "an amount needs three settings: the tool, the argument that holds it, and above"
            )
        above = self._amount(table["above"]) if argument else ""
        per, periods = self.get("per", default="use"), [period.value for period in GatePeriod]
        if per not in periods:
            raise self._error(f"per: {per!r} is none of {', '.join(periods)}")
        if "per" in table and not argument:
            raise self._error("per is about an amount: it needs argument and above")
        rule = GateRule(
            name=name, tool=tool, lane=lane, argument=argument, above=above, per=GatePeriod(per)
        )
        if rule.per is not GatePeriod.USE and not rule.can_add_up:
            raise self._error(f"above: {above} is too much to be added up")
        return rule

    def _amount(self, value: object) -> str:
        """Return an amount as it is recorded: a decimal number of any unit."""
        try:
            if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
                raise ValueError  # noqa: TRY004, TRY301  a user's mistake, not ours
            amount = Decimal(value)
        except (ValueError, InvalidOperation):
            raise self._error(f"above: {value!r} is not a number") from None
        if not amount.is_finite() or amount < 0:
            raise self._error(f"above: {value} is out of range")
        return format(amount, "f")

    def is_team_automatic(self) -> bool:
        """Whether requests get the whole team where a model is configured."""
        wished = self.get("team", default=TEAM_CHOICES[0])
        if wished not in TEAM_CHOICES:
            raise self._error(f"team: {wished!r} is none of {', '.join(TEAM_CHOICES)}")
        return wished == "auto"

    def routing_mode(self) -> str:
        wished = self.get("rung", default="auto")
        if wished not in ROUTING_MODES:
            raise self._error(f"rung: {wished!r} is none of {', '.join(ROUTING_MODES)}")
        return wished

    def get(self, key: str, *, default: T) -> T:
        """Return one setting, which must have the type of its default."""
        value = self.table.get(key, default)
        if not isinstance(value, type(default)):
            wanted = "true or false" if isinstance(default, bool) else "a text"
            raise self._error(f"{key}: {value!r} is not {wanted}")
        return value

    def _read_struct(self, into: type[T], names: frozenset[str]) -> T:
        try:
            return _convert(_with_entry(_with_argv(self._checked_table(names))), into)
        except ValueError as error:
            raise self._error(str(error)) from None

    def _checked_table(self, names: frozenset[str] | set[str]) -> dict[str, Any]:
        for key in sorted(self.table.keys() - names):
            raise self._error(f"it has no setting {key!r}; {suggest_or_list(key, names)}")
        return dict(self.table)

    def _error(self, why: str) -> BadSettings:
        return BadSettings(self.file, f"[{self.name}] {why}")


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


def _to_named_units(name: str, value: object, unit: int) -> int:
    try:
        return to_exact_units(value, unit)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _convert(table: Table, into: type[T]) -> T:
    """Convert a table to a part of a policy. Raises `ValueError` with the place."""
    try:
        return msgspec.convert(_to_json_value(table), into)
    except (msgspec.ValidationError, RecursionError) as error:
        what, _, where = str(error).partition(" - at ")
        place = where.strip("`").removeprefix("$.")
        raise ValueError(f"{place}: {what}" if place else what) from None


def _to_json_value(value: Any) -> Any:  # noqa: ANN401  what a file holds
    """Return a value as JSON: the only decimals left here are options of a model."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a number")
        return float(value)
    if isinstance(value, Mapping):
        return {name: _to_json_value(item) for name, item in value.items()}
    return [_to_json_value(item) for item in value] if isinstance(value, list | tuple) else value
