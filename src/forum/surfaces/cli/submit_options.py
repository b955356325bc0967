"""Converts options and plan files into a run request.

In files as on the command line, money is in dollars and time budgets are in seconds.
"""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from forum import errors, units
from forum.app import planner as planning
from forum.config import Settings
from forum.engine import RunRequest
from forum.ledger.body import text_content
from forum.ledger.ports import NO_LIMIT
from forum.runs import team_settings
from forum.runs.panel import Panel, draft_decision
from forum.runs.plan import LIMIT_UNITS, Plan, RunBudget, Task, write_plan
from forum.runs.plan_limits import check_plan_size
from forum.runs.policy import Agent, Answer, Api, Command, Policy, Scripted, write_policy
from forum.runs.role_assignment import agents_in
from forum.runs.roster import Roster
from forum.runs.team_measurements import explain_declined_team
from forum.surfaces.cli import common_options
from forum.surfaces.cli.common_options import option_field
from forum.surfaces.cli.plan_errors import find_plan_errors, format_plan_errors
from forum.surfaces.cli.source_positions import SourcePositions
from forum.surfaces.requests import PanelAsk, panel_from_form, replace_given

T = TypeVar("T")

_COUNT = click.IntRange(min=0)
_MAX_USD = "Stop before more than this is spent."


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options that choose the agents."""

    cmd: str | None = option_field(
        help='Ask this program: "PROGRAM ARGS", prompt in, reply out, no shell.'
    )
    model: str | None = option_field(metavar="NAME", help="Ask this model, as its API calls it.")
    chat_url: str | None = option_field(
        metavar="URL",
        help="Where the API is, such as http://HOST/v1; without it, in the cloud of --api.",
    )
    api: str | None = option_field(
        type=click.Choice([api.value for api in Api]),
        help="What it understands; chat (OpenAI's chat completions) without this.",
    )
    key_env: str | None = option_field(metavar="NAME", help="The variable that holds its key.")
    max_output_tokens: int | None = option_field(
        type=_COUNT, metavar="N", help="Maximum number of output tokens of one call."
    )
    price_in: int | None = option_field(
        type=common_options.PRICE_PER_MILLION,
        metavar="USD",
        help="Price of 1M input tokens in dollars.",
    )
    price_out: int | None = option_field(
        type=common_options.PRICE_PER_MILLION,
        metavar="USD",
        help="Price of 1M output tokens in dollars.",
    )
    agent: tuple[str, ...] = option_field(
        multiple=True, metavar="NAME=CMD", help="A program for tasks that name it."
    )
    script: Path | None = option_field(
        type=common_options.FILE, help="Ask a scripted agent (JSON or TOML)."
    )
    price_usd: int | None = option_field(
        type=common_options.PRICE, help="Price of one call of these programs in dollars."
    )
    tokens: int | None = option_field(
        type=_COUNT, metavar="N", help="Maximum number of tokens of one call of these programs."
    )

    @property
    def names_default(self) -> bool:
        """Whether the options name the default agent, for tasks that name none."""
        return any(value is not None for value in (self.cmd, self.script, *self._chat.values()))

    def apply_to_policy(self, policy: Policy) -> Policy:
        """Return a policy with these agents in place of its own."""
        fresh: dict[str, Agent] = dict(map(parse_named_agent, self.agent))
        default = self._default()
        if default is not None:
            fresh[""] = default
        named = policy.agents | fresh
        prices = {"usd": self.price_usd, "tokens": self.tokens}
        changes = {name: value for name, value in prices.items() if value is not None}
        # A price is meant for the agents that the same options name; if they name none, it can only
        # be meant for the default agent of the policy.
        if changes:
            priced = fresh or {name: named[name] for name in ("",) if name in named}
            named |= {name: _set_prices(agent, changes) for name, agent in priced.items()}
        return msgspec.structs.replace(policy, agents=named)

    def origin_of(self, name: str) -> str:
        """Return the option that names an agent, or ""."""
        if name:
            named = any(choice.partition("=")[0] == name for choice in self.agent)
            return f"--agent {name}" if named else ""
        options = {"--cmd": self.cmd, "--script": self.script, "--model": self.model}
        return next((option for option, value in options.items() if value is not None), "")

    def apply_to_fork(self, policy: Policy) -> Policy:
        """Return the policy of a forked run in which these agents continue in all lanes."""
        policy = self.apply_to_policy(policy)
        if not self.names_default:
            return policy
        # The lanes would otherwise still name the agents of the first run, and the ladder would
        # escalate to them.
        lanes = {
            name: msgspec.structs.replace(lane, agent="") for name, lane in policy.lanes.items()
        }
        return msgspec.structs.replace(policy, lanes=lanes, ladder=())

    @property
    def _chat(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "url": self.chat_url,
            "api": self.api,
            "key_env": self.key_env,
            "max_tokens": self.max_output_tokens,
            "input_usd": self.price_in,
            "output_usd": self.price_out,
        }

    def _default(self) -> Agent | None:
        """Return the default agent named by the options, or None. Raises `click.UsageError`."""
        chat = {name: value for name, value in self._chat.items() if value is not None}
        named = {"--cmd": self.cmd, "--script": self.script, "--model": chat or None}
        options = [option for option, value in named.items() if value is not None]
        if len(options) > 1:
            raise click.UsageError(f"{' and '.join(options)}: one agent cannot be both")
        if self.cmd is not None:
            return _parse_command("--cmd", self.cmd)
        if self.script is not None:
            return _convert(str(self.script), _read_table(self.script), Scripted)
        if not chat:
            return None
        if self.model is None:
            raise click.UsageError("--model is missing: which model is to answer?")
        try:
            return team_settings.chat_agent(chat)
        except ValueError as error:
            raise click.UsageError(f"--chat-url, --model: {error}") from None


agent_options = common_options.collect_options("agents", AgentOptions)


@dataclass(frozen=True, slots=True)
class TeamOptions:
    """Options that choose the lane and the team."""

    lane: str | None = option_field(
        metavar="NAME", help="Carry out the request in this lane of the roster."
    )
    roster: Path | None = option_field(
        type=common_options.FILE, help="A roster of your own (TOML) in place of Forum's."
    )
    team: bool | None = option_field(
        "--team/--solo",
        default=None,
        help="Let a team of agents plan, judge and combine, or use a single agent.",
    )
    route: bool | None = option_field(
        "--route/--no-route",
        default=None,
        help="Route the request to a lane. Default if a model is configured.",
    )

    @property
    def routing_choice(self) -> bool | None:
        """Whether to route the request; None if the options do not decide it."""
        if self.route is False:
            if self.lane or self.roster or self.team:
                raise click.UsageError("--no-route: then no lane is looked for, and no team works")
            return False
        return True if self.route or self.lane or self.roster or self.team else None


team_options = common_options.collect_options("team", TeamOptions)


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """Options that limit a run's budget."""

    max_usd: int | None = option_field(
        "--max-usd", "--budget-usd", type=common_options.USD, help=_MAX_USD
    )
    max_seconds: int | None = option_field(
        type=common_options.SECONDS, help="Stop after this time, whatever is going on."
    )
    max_calls: int | None = option_field(
        type=_COUNT, metavar="N", help="Stop before more calls than this."
    )
    max_tokens: int | None = option_field(
        type=_COUNT, metavar="N", help="Stop before more tokens than this."
    )

    def apply_limits(self, budget: RunBudget) -> RunBudget:
        """Return a budget with these limits in place of its own."""
        return replace_given(
            budget,
            usd=self.max_usd,
            milliseconds=self.max_seconds,
            calls=self.max_calls,
            tokens=self.max_tokens,
        )


limit_options = common_options.collect_options("limits", LimitOptions)


@dataclass(frozen=True, slots=True)
class PolicyOptions(LimitOptions):
    """Options for the budget, parallelism, retries and gates of a run."""

    max_usd: int | None = option_field(type=common_options.USD, help=_MAX_USD)
    max_depth: int | None = option_field(
        type=_COUNT, metavar="N", help="Maximum depth of plans within plans."
    )
    parallel: int | None = option_field(
        type=click.IntRange(min=1), metavar="N", help="Maximum number of tasks at once."
    )
    retries: int | None = option_field(
        type=_COUNT, metavar="N", help="Maximum number of retries of a task."
    )
    gate: tuple[str, ...] = option_field(
        multiple=True,
        metavar="WHAT",
        help="Ask for approval first: of the `plan`, of all `tasks`, of `task:NAME`, or of a "
        "`dissent`: an answer on which a panel is split or blocked.",
    )
    gate_seconds: int | None = option_field(
        type=common_options.SECONDS, help="Time that a person has to decide."
    )
    gate_default: str | None = option_field(
        type=click.Choice([str(answer) for answer in Answer]),
        help="Decision if nobody decides in time (reject).",
    )

    def apply_limits(self, budget: RunBudget) -> RunBudget:
        """Return a budget with these limits in place of its own."""
        return replace_given(LimitOptions.apply_limits(self, budget), depth=self.max_depth)

    def apply_rules(self, policy: Policy) -> Policy:
        """Return a policy with these rules in place of its own."""
        return replace_given(
            policy,
            parallel=self.parallel,
            retries=self.retries,
            gates=self.gate or None,
            gate_milliseconds=self.gate_seconds,
            gate_default=Answer(self.gate_default) if self.gate_default else None,
        )


policy_options = common_options.collect_options("terms", PolicyOptions)


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """All options of a submission."""

    agents: AgentOptions
    terms: PolicyOptions
    team: TeamOptions


def submit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of a submission to a command, passed as one argument `wishes`."""

    @wraps(command)
    def call(
        *arguments: object,
        agents: AgentOptions,
        team: TeamOptions,
        terms: PolicyOptions,
        **options: object,
    ) -> object:
        return command(*arguments, **options, wishes=SubmitOptions(agents, terms, team))

    return agent_options(team_options(policy_options(call)))


def read_run_request(
    request: str | None, file: Path | None, wishes: SubmitOptions, settings: Settings
) -> RunRequest:
    """Return the run request from settings, plan file and options; later ones take precedence.

    Raises `click.UsageError`, which lists all errors of an invalid plan file.
    """
    try:
        return _read_run_request(request, file, wishes, settings)
    except click.UsageError as error:
        faults = _describe_plan_errors(file) if file else ""
        if not faults:
            raise
        raise click.UsageError(f"{file}: {faults}") from error


def _describe_plan_errors(file: Path) -> str:
    """Return all errors of a plan file, line by line, or "" if it has none."""
    try:
        content = file.read_text()
        table = _parse(file, content)
    except (ValueError, RecursionError):
        return ""  # it cannot be parsed, and the parser's error says where
    if not isinstance(table, dict):
        return ""
    try:
        policy = _to_record_units(table).get("policy", {})
    except (ValueError, RecursionError):
        policy = table.get("policy", {})
    faults = find_plan_errors(table, policy)
    return (
        format_plan_errors(faults, SourcePositions(content, is_json=_is_json(file, content)))
        if faults
        else ""
    )


def _read_run_request(
    request: str | None, file: Path | None, wishes: SubmitOptions, settings: Settings
) -> RunRequest:
    table, source = _read_table(file) if file else {}, str(file)
    words = _words(request, table, source)
    planner = planning.Planner(settings, wishes.team.roster)
    raw_policy = table.get("policy", {})
    for member, convert in (("agents", _with_model), ("panels", _as_panel)):
        raw_policy = _convert_named(source, raw_policy, member, convert)
    policy = _convert(f"{source}: policy", raw_policy, Policy)
    budget = _convert(f"{source}: budget", table.get("budget", {}), RunBudget)
    policy = apply_agents(
        wishes.terms.apply_rules(policy),
        planner.team_settings,
        wishes.agents,
        own="agents" in raw_policy,
    )
    run_request = RunRequest(
        words, None, planning.pin_tools(policy, settings), wishes.terms.apply_limits(budget)
    )
    if "tasks" in table:
        raw_tasks = _with_panels(source, table["tasks"])
        tasks = _convert(source, {"tasks": raw_tasks}, _PlanTasks).tasks
        as_usage_error(lambda: check_plan_size(tasks))
        run_request = replace(run_request, plan=as_usage_error(lambda: Plan(tasks)))
        if wishes.team.lane or wishes.team.route:
            raise click.UsageError("--lane, --route: not with a plan, whose tasks name their lanes")
    return _decide(planner, run_request, wishes)


def _decide(planner: planning.Planner, request: RunRequest, wishes: SubmitOptions) -> RunRequest:
    """Return what will be carried out for a request of the operator."""
    team, lane = wishes.team.team, wishes.team.lane or ""
    if team is None and wishes.agents.names_default:
        team = False  # a default agent named by option overrides the setting
    route = wishes.team.routing_choice if request.plan is None else None
    is_routed = planner.is_routed(request.policy, team=team, route=route)
    if request.plan is None and not lane and is_routed and not is_echo_only(request):
        # Loading the router takes a second or two the first time on a machine: say what the user
        # waits for.
        common_options.echo_info("routing: looking for the lane that the request belongs to")
    operator = planning.CallerAuthority.OPERATOR
    try:
        request = as_usage_error(
            lambda: planner.decide(request, operator, lane=lane, team=team, route=route)
        )
    except errors.BadRoster as error:
        raise click.UsageError(f"{planner.roster_file}: {error}") from None
    as_usage_error(lambda: _check_encoding(request))
    if request.policy.declined_team:
        common_options.echo_info(explain_declined_team(request.policy.declined_team))
    return request


def panel_run_request(
    request: str,
    panel: Panel,
    agents: AgentOptions,
    limits: LimitOptions,
    settings: Settings,
    played: dict[str, Agent] | None = None,
) -> RunRequest:
    """Return the run request for a panel; `played` holds agents that are scripted."""
    as_usage_error(lambda: text_content(request))
    planner = planning.Planner(settings)
    policy = apply_agents(Policy(), planner.team_settings, agents, own=False)
    policy = msgspec.structs.replace(policy, agents=policy.agents | (played or {}))
    run_request = RunRequest(
        request, None, planning.pin_tools(policy, settings), limits.apply_limits(RunBudget())
    )
    operator = planning.CallerAuthority.OPERATOR
    run_request = as_usage_error(lambda: planner.decide(run_request, operator, panel=panel))
    as_usage_error(lambda: _check_encoding(run_request))
    return run_request


def _convert_named(
    source: str,
    raw: Any,  # noqa: ANN401  parsed from a file
    member: str,
    convert: Callable[[str, Any], Any],
) -> Any:  # noqa: ANN401
    """Convert each value of a table of the policy; a policy without the table stays as it is."""
    table = raw.get(member) if isinstance(raw, dict) else None
    if not isinstance(table, dict):
        return raw
    where = f"{source}: policy.{member}"
    return raw | {member: {name: convert(f"{where}.{name}", item) for name, item in table.items()}}


def _with_panels(source: str, tasks: Any) -> Any:  # noqa: ANN401  parsed from a file
    """Convert the panels of a plan file, in the form of a request, to their recorded form."""
    if not isinstance(tasks, list):
        return tasks
    return [_with_panel(source, task) if isinstance(task, dict) else task for task in tasks]


def _with_panel(source: str, task: dict[str, Any]) -> dict[str, Any]:
    result = dict(task)
    if "tasks" in result:
        result["tasks"] = _with_panels(source, result["tasks"])
    options = result.pop("decide", None)
    if options is not None:
        where = f"{source}: decide of task {result.get('id')}"
        texts = _convert(where, options, tuple[str, ...])
        council = as_usage_error(lambda: draft_decision(texts))
        result["panel"] = msgspec.to_builtins(council)
    elif "panel" in result:
        where = f"{source}: panel of task {result.get('id')}"
        result["panel"] = _as_panel(where, result["panel"])
    return result


def _as_panel(where: str, panel: Any) -> Any:  # noqa: ANN401  parsed from a file
    """Return the recorded form of a panel, which may have the form of a request."""
    if not isinstance(panel, dict):
        return panel
    if isinstance(panel.get("seats"), list):
        return {"protocol": "council"} | panel
    if "config" in panel:
        return {"protocol": "symposium"} | panel
    ask = _convert(where, _decimals_to_floats(panel), PanelAsk)
    # The session is given the prompt of its task in place of this problem.
    return msgspec.to_builtins(
        as_usage_error(lambda: panel_from_form(ask, problem=where, budget=RunBudget()))
    )


def _decimals_to_floats(panel: dict[str, Any]) -> dict[str, Any]:
    return {n: float(value) if isinstance(value, Decimal) else value for n, value in panel.items()}


def _with_model(source: str, agent: Any) -> Any:  # noqa: ANN401  parsed from a file
    """Parse a model of a plan file with the checks that apply to those in the settings."""
    if not isinstance(agent, dict) or agent.get("kind") not in ("chat", "pydantic-ai"):
        return agent
    try:
        # Back to plain values, because the policy is converted as a whole later.
        return msgspec.to_builtins(team_settings.model_agent(agent))
    except ValueError as error:
        raise click.UsageError(f"{source}: {error}") from None


def _words(request: str | None, table: dict[str, Any], source: str) -> str:
    """Return the text of the request, from the argument or the plan file."""
    for name in table.keys() - {"request", "tasks", "policy", "budget"}:
        raise click.UsageError(
            f"{source}: unknown key {name!r}; known: request, tasks, policy, budget"
        )
    words = request if request is not None else table.get("request")
    if words is None:
        raise click.UsageError(
            "say what is to be done: a REQUEST, - for standard input, or --plan FILE"
        )
    if not isinstance(words, str):
        raise click.UsageError(f"{source}: its request is not a text")
    as_usage_error(lambda: text_content(words))
    return words


def apply_agents(
    policy: Policy, team: team_settings.TeamSettings, agents: AgentOptions, *, own: bool
) -> Policy:
    """Return a policy with the agents of the settings, of the policy and of the options.

    A default agent that is named by the options replaces all agents of the settings.
    """
    policy = msgspec.structs.replace(
        policy, tools=team.tools | policy.tools, servers=team.servers | policy.servers
    )
    if team.agents and not agents.names_default:
        named = team.agents | policy.agents if own else team.agents
        roles = team.roles | policy.roles
        panels = team.panels | policy.panels
        policy = msgspec.structs.replace(policy, agents=named, roles=roles, panels=panels)
    return agents.apply_to_policy(policy)


def served_team_settings(
    settings: Settings, agents: AgentOptions, *, here: bool
) -> team_settings.TeamSettings:
    """Return the team settings of a project with the agents of the options in place of its own.

    `here` tells whether this process makes the calls. Raises `click.UsageError` for an agent that
    cannot be called.
    """
    team = planning.load_team_settings(settings)
    policy = apply_agents(Policy(), team, agents, own=False)
    if policy.agents in (team.agents, Policy().agents):
        return team
    reject_unusable_agents(policy, None, here=here)
    return msgspec.structs.replace(
        team,
        agents=policy.agents,
        roles=policy.roles,
        # As for one submission: a default agent named by option overrides the setting.
        team=team.team and not agents.names_default,
    )


def read_roster_file(file: Path | None, team: team_settings.TeamSettings) -> Roster:
    """Return the roster of the option, of the settings, or the built-in one."""
    named = file or (Path(team.roster) if team.roster else None)
    try:
        return planning.load_roster(named)
    except errors.BadRoster as error:
        raise click.UsageError(f"{named}: {error}") from None


def _check_encoding(request: RunRequest) -> None:
    """Raise for text that is not valid Unicode, before anything is started for the request."""
    text_content(request.request)
    if request.plan is not None:
        write_plan(request.plan)
    write_policy(request.policy)


def reject_unusable_agents(policy: Policy, plan: Plan | None, *, here: bool) -> None:
    """Raise `click.UsageError` for agents that cannot be called, before anything is recorded."""
    as_usage_error(lambda: planning.require_agents(policy, plan, keys=here))


def as_usage_error(make: Callable[[], T]) -> T:
    """Call `make` on user input, turning its errors into `click.UsageError`."""
    try:
        return make()
    except (errors.AgentUnusable, errors.BadPlan, errors.Malformed) as error:
        raise click.UsageError(str(error)) from None


def is_echo_only(request: RunRequest) -> bool:
    """Return whether no real agent is configured: the scripted default echoes its instruction."""
    names = agents_in(request.policy, request.plan)
    return "" in names and request.policy.agents.get("") == Scripted()


def has_ineffective_cap(request: RunRequest) -> bool:
    """Return whether there is a cap in dollars but no agent with a price."""
    return request.budget.usd != NO_LIMIT and not any(
        map(_has_price, request.policy.agents.values())
    )


def _has_price(agent: Agent) -> bool:
    """Return whether a call costs anything; a model on this machine counts as free."""
    prices = planning.inspect_agent(agent)
    return bool(prices.call_usd or prices.read_usd or prices.said_usd)


class _PlanTasks(msgspec.Struct):
    """Wrapper that makes errors say `$.tasks[1]`."""

    tasks: tuple[Task, ...]


def _read_table(file: Path) -> dict[str, Any]:
    """Read a JSON or TOML file, recognized by its suffix or its first character."""
    try:
        table = _to_record_units(_parse(file, file.read_text()))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file}: {error}") from None
    if not isinstance(table, dict):
        raise click.UsageError(f"{file}: it is not an object")
    return table


def _is_json(file: Path, content: str) -> bool:
    return file.suffix == ".json" or (file.suffix != ".toml" and content.lstrip()[:1] == "{")


def _parse(file: Path, content: str) -> Any:  # noqa: ANN401  parsed from a file
    if _is_json(file, content):
        # Decimals, because floats would round amounts of money. The parser of the library accepts
        # NaN and Infinity, which are not JSON.
        return json.loads(content, parse_float=Decimal, parse_constant=_reject_constant)
    return tomllib.loads(content, parse_float=Decimal)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _to_record_units(value: Any) -> Any:  # noqa: ANN401  parsed from a file
    """Return parsed content with money and time in the units of the record."""
    if isinstance(value, list):
        return [_to_record_units(item) for item in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for name, item in value.items():
        if name == "budget" and isinstance(item, dict):
            result[name] = _budget_to_record_units(item)
        elif name == "usd" and isinstance(item, int | str | Decimal):
            result[name] = units.to_exact_units(item, units.NANO_USD)
        else:
            result[name] = _to_record_units(item)
    return result


def _budget_to_record_units(budget: dict[str, Any]) -> dict[str, Any]:
    """Return a budget as it is recorded: people write seconds, the record has milliseconds."""
    return {
        "milliseconds" if name == "seconds" else name: units.to_limit_units(item, LIMIT_UNITS[name])
        if name in ("usd", "seconds")
        else item
        for name, item in budget.items()
    }


def _convert(source: str, value: object, into: type[T]) -> T:
    try:
        return msgspec.convert(value, into)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise click.UsageError(f"{source}: {error}") from None


def parse_named_agent(text: str) -> tuple[str, Agent]:
    """Return the name and the program of an option `NAME=PROGRAM ARGS`."""
    name, separator, command = text.partition("=")
    if not separator or not name:
        raise click.UsageError(f"--agent {text}: write NAME=PROGRAM ARGS")
    return name, _parse_command(f"--agent {name}", command)


def _parse_command(option: str, command: str) -> Command:
    try:
        return Command(team_settings.split_command(command))
    except ValueError as error:
        raise click.UsageError(f"{option}: {error} in {command!r}") from None


def _set_prices(agent: Agent, changes: dict[str, int]) -> Agent:
    if isinstance(agent, Scripted | Command):
        return msgspec.structs.replace(agent, **changes)
    raise click.UsageError(
        "--price-usd and --tokens are of programs; of a model: --price-in, --price-out, "
        "--max-output-tokens"
    )
