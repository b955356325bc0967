"""What somebody wants done: options and plan files become an order.

In files as on the command line, money is in dollars and budgets of time are in seconds.
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

from forum.config import Settings
from forum.engine import Order
from forum.errors import AgentUnusable, BadPlan, BadRoster, Malformed
from forum.ledger import NO_LIMIT, text
from forum.staff import (
    configured,
    inspect_agent,
    load_roster,
    pin_tools,
    require_agents,
    route_order,
    seat_order,
    seat_plan,
)
from forum.surfaces.asking import PanelAsk, council_of
from forum.surfaces.cli import options
from forum.surfaces.cli.plan_faults import plan_faults, told
from forum.surfaces.cli.positions import Positions
from forum.surfaces.cli.units import seconds, usd, usd_per_million
from forum.work import (
    NANO,
    Agent,
    Answer,
    Api,
    Budget,
    Chat,
    Command,
    Configured,
    Library,
    Panel,
    Plan,
    Policy,
    Roster,
    Scripted,
    Task,
    agents_in,
    argv_of,
    chat_agent,
    check_size,
    exactly,
    model_agent,
    one_task,
    team_policy,
    write_plan,
    write_policy,
)

T = TypeVar("T")

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_COUNT = click.IntRange(min=0)


@dataclass(frozen=True, slots=True)
class Agents:
    """Who is to answer, as the options say."""

    cmd: str | None
    model: str | None
    chat_url: str | None
    api: str | None
    key_env: str | None
    max_output_tokens: int | None
    price_in: int | None
    price_out: int | None
    agent: tuple[str, ...]
    script: Path | None
    price_usd: int | None
    tokens: int | None

    @property
    def name_one(self) -> bool:
        """Whether they say who works for tasks that name nobody."""
        return any(value is not None for value in (self.cmd, self.script, *self._chat.values()))

    def apply(self, policy: Policy) -> Policy:
        """Return a policy with these agents in place of its own."""
        fresh: dict[str, Agent] = dict(map(_named, self.agent))
        default = self._default()
        if default is not None:
            fresh[""] = default
        named = policy.agents | fresh
        prices = {"usd": self.price_usd, "tokens": self.tokens}
        given = {name: value for name, value in prices.items() if value is not None}
        if given:
            priced = fresh or {name: named[name] for name in ("",) if name in named}
            named |= {name: _priced(agent, given) for name, agent in priced.items()}
        return msgspec.structs.replace(policy, agents=named)

    def origin_of(self, name: str) -> str:
        """Return the option that names an agent, if one does."""
        if name:
            named = any(wish.partition("=")[0] == name for wish in self.agent)
            return f"--agent {name}" if named else ""
        said = {"--cmd": self.cmd, "--script": self.script, "--model": self.model}
        return next((option for option, value in said.items() if value is not None), "")

    def take_over(self, policy: Policy) -> Policy:
        """Return the policy of a run that these agents go on with, in all of its lanes."""
        policy = self.apply(policy)
        if not self.name_one:
            return policy
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
        """Return who works for tasks that name nobody, if that is said."""
        chat = {name: value for name, value in self._chat.items() if value is not None}
        named = {"--cmd": self.cmd, "--script": self.script, "--model": chat or None}
        given = [option for option, value in named.items() if value is not None]
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(given)}: one agent cannot be both")
        if self.cmd is not None:
            return _command("--cmd", self.cmd)
        if self.script is not None:
            return _convert(str(self.script), _read(self.script), Scripted)
        if not chat:
            return None
        if self.model is None:
            raise click.UsageError("--model is missing: which model is to answer?")
        try:
            return chat_agent(chat)
        except ValueError as error:
            raise click.UsageError(f"--chat-url, --model: {error}") from None


agent_options = options.gathered(
    Agents,
    click.option("--cmd", help='Ask this program: "PROGRAM ARGS", prompt in, reply out, no shell.'),
    click.option("--model", metavar="NAME", help="Ask this model, as its API calls it."),
    click.option(
        "--chat-url",
        metavar="URL",
        help="Where the API is, up to /v1; without it, in the cloud of --api.",
    ),
    click.option(
        "--api",
        type=click.Choice([api.value for api in Api]),
        help="What it understands; chat (OpenAI's chat completions) without this.",
    ),
    click.option("--key-env", metavar="NAME", help="The variable that holds its key."),
    click.option(
        "--max-output-tokens", type=_COUNT, metavar="N", help="The most it may say in one call."
    ),
    click.option(
        "--price-in",
        type=usd_per_million,
        metavar="USD",
        help="Dollars for 1M tokens that it reads.",
    ),
    click.option(
        "--price-out",
        type=usd_per_million,
        metavar="USD",
        help="Dollars for 1M tokens that it says.",
    ),
    click.option(
        "--agent", multiple=True, metavar="NAME=CMD", help="A program for tasks that name it."
    ),
    click.option("--script", type=_FILE, help="Ask a scripted agent (JSON or TOML)."),
    click.option("--price-usd", type=usd, help="What one call of these programs costs."),
    click.option(
        "--tokens", type=_COUNT, metavar="N", help="The most tokens of one call of these programs."
    ),
)


@dataclass(frozen=True, slots=True)
class Team:
    """Who does the work that a request is, as the options say."""

    lane: str | None
    roster: Path | None
    team: bool | None
    route: bool | None

    @property
    def is_wished(self) -> bool | None:
        """Whether the request is to be routed, if that is said."""
        if self.route is False:
            if self.lane or self.roster or self.team:
                raise click.UsageError("--no-route: then no lane is looked for, and no team works")
            return False
        return True if self.route or self.lane or self.roster or self.team else None


team_options = options.gathered(
    Team,
    click.option("--lane", metavar="NAME", help="Have this lane of the roster do it."),
    click.option("--roster", type=_FILE, help="A roster of your own (TOML) in place of Forum's."),
    click.option(
        "--team/--solo",
        default=None,
        help="Have it planned, judged and put together by several, or done by one agent.",
    ),
    click.option(
        "--route/--no-route",
        default=None,
        help="Look for the lane that it belongs to; done by itself where a model is configured.",
    ),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be used, as the options say."""

    max_usd: int | None
    max_seconds: int | None
    max_calls: int | None
    max_tokens: int | None

    def limit(self, budget: Budget) -> Budget:
        """Return a budget with these limits in place of its own."""
        wished = {
            "usd": self.max_usd,
            "milliseconds": self.max_seconds,
            "calls": self.max_calls,
            "tokens": self.max_tokens,
        }
        return _replaced(budget, wished)


_MAX_USD = "Stop before more than this is spent."
_LIMITS = (
    click.option("--max-seconds", type=seconds, help="Stop after this time, whatever is going on."),
    click.option("--max-calls", type=_COUNT, metavar="N", help="Stop before more calls than this."),
    click.option(
        "--max-tokens", type=_COUNT, metavar="N", help="Stop before more tokens than this."
    ),
)
limit_options = options.gathered(
    Limits,
    click.option("--max-usd", "--budget-usd", "max_usd", type=usd, help=_MAX_USD),
    *_LIMITS,
)


@dataclass(frozen=True, slots=True)
class Terms(Limits):
    """How much may be used, and who has to approve what, as the options say."""

    max_depth: int | None
    parallel: int | None
    retries: int | None
    gate: tuple[str, ...]
    gate_seconds: int | None
    gate_default: str | None

    def limit(self, budget: Budget) -> Budget:
        """Return a budget with these limits in place of its own."""
        return _replaced(Limits.limit(self, budget), {"depth": self.max_depth})

    def rule(self, policy: Policy) -> Policy:
        """Return a policy with these rules in place of its own."""
        wished = {
            "parallel": self.parallel,
            "retries": self.retries,
            "gates": self.gate or None,
            "gate_milliseconds": self.gate_seconds,
            "gate_default": Answer(self.gate_default) if self.gate_default else None,
        }
        return _replaced(policy, wished)


term_options = options.gathered(
    Terms,
    click.option("--max-usd", type=usd, help=_MAX_USD),
    *_LIMITS,
    click.option(
        "--max-depth", type=_COUNT, metavar="N", help="At most so many plans within each other."
    ),
    click.option(
        "--parallel", type=click.IntRange(min=1), metavar="N", help="At most so many tasks at once."
    ),
    click.option("--retries", type=_COUNT, metavar="N", help="How often a task is tried again."),
    click.option(
        "--gate",
        multiple=True,
        metavar="WHAT",
        help="Ask for approval first: of the `plan`, of all `tasks`, or of `task:NAME`.",
    ),
    click.option("--gate-seconds", type=seconds, help="How long a person has to decide."),
    click.option(
        "--gate-default",
        type=click.Choice([str(answer) for answer in Answer]),
        help="What holds when nobody decides in time; reject without this.",
    ),
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that the options say."""

    agents: Agents
    terms: Terms
    team: Team


def wish_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of those who want something done, and hand them over as one value."""

    @wraps(command)
    def call(
        *arguments: object, agents: Agents, team: Team, terms: Terms, **given: object
    ) -> object:
        return command(*arguments, **given, wishes=Wishes(agents, terms, team))

    return agent_options(team_options(term_options(call)))


def read_order(request: str | None, file: Path | None, wishes: Wishes, settings: Settings) -> Order:
    """Return what is wanted, by settings, plan file and options; what comes last counts most.

    Of a plan file that cannot be used, everything is told that is wrong with it.
    """
    try:
        return _read_order(request, file, wishes, settings)
    except click.UsageError as error:
        faults = _faults(file) if file else ""
        if not faults:
            raise
        raise click.UsageError(f"{file}: {faults}") from error


def _faults(file: Path) -> str:
    """Say all that is wrong with a plan file, line by line; nothing if that is elsewhere."""
    try:
        content = file.read_text()
        table = _parse(file, content)
    except (ValueError, RecursionError):
        return ""  # it cannot be read at all, and the parser says where
    if not isinstance(table, dict):
        return ""
    try:
        policy = _in_units(table).get("policy", {})
    except (ValueError, RecursionError):
        policy = table.get("policy", {})
    faults = plan_faults(table, policy)
    return told(faults, Positions(content, is_json=_is_json(file, content))) if faults else ""


def _read_order(
    request: str | None, file: Path | None, wishes: Wishes, settings: Settings
) -> Order:
    table, source = _read(file) if file else {}, str(file)
    words = _words(request, table, source)
    known, said = configured(settings), _with_models(source, table.get("policy", {}))
    policy = _convert(f"{source}: policy", said, Policy)
    budget = _convert(f"{source}: budget", table.get("budget", {}), Budget)
    policy = with_agents(wishes.terms.rule(policy), known, wishes.agents, own="agents" in said)
    order = Order(words, None, pin_tools(policy, settings), wishes.terms.limit(budget))
    if "tasks" in table:
        said = _with_panels(source, table["tasks"])
        tasks = _convert(source, {"tasks": said}, _Tasks).tasks
        as_usage(lambda: check_size(tasks))
        order = as_usage(lambda: _planned(replace(order, plan=Plan(tasks)), wishes, known))
    else:
        alone = as_usage(lambda: one_task(words))
        is_routed = _is_routed(wishes.team, policy, known)
        order = _routed(order, wishes, known) if is_routed else replace(order, plan=alone)
    as_usage(lambda: _check(order))
    return order


def panel_order(
    request: str,
    panel: Panel,
    agents: Agents,
    limits: Limits,
    settings: Settings,
    played: dict[str, Agent] | None = None,
) -> Order:
    """Return what is wanted of a panel, by settings and options; some are played by a script."""
    as_usage(lambda: text(request))
    policy = with_agents(Policy(), configured(settings), agents, own=False)
    policy = msgspec.structs.replace(policy, agents=policy.agents | (played or {}))
    order = Order(request, None, pin_tools(policy, settings), limits.limit(Budget()))
    order = as_usage(lambda: seat_order(order, panel))
    as_usage(lambda: _check(order))
    return order


def _with_models(source: str, said: Any) -> Any:  # noqa: ANN401  what a file holds
    """Read the models of a plan file as those of the settings are read, with the same care."""
    agents = said.get("agents") if isinstance(said, dict) else None
    if not isinstance(agents, dict):
        return said
    made = {
        name: _with_model(f"{source}: policy.agents.{name}", one) for name, one in agents.items()
    }
    return said | {"agents": made}


def _with_panels(source: str, said: Any) -> Any:  # noqa: ANN401  what a file holds
    """Read the panels of a plan file as they are asked for elsewhere, or as they are recorded."""
    if not isinstance(said, list):
        return said
    return [_with_panel(source, task) if isinstance(task, dict) else task for task in said]


def _with_panel(source: str, task: dict[str, Any]) -> dict[str, Any]:
    made = dict(task)
    if "tasks" in made:
        made["tasks"] = _with_panels(source, made["tasks"])
    panel = made.get("panel")
    if isinstance(panel, dict) and not isinstance(panel.get("seats"), list):
        asked = _convert(f"{source}: panel of task {made.get('id')}", _floats(panel), PanelAsk)
        made["panel"] = msgspec.to_builtins(as_usage(lambda: council_of(asked)))
    return made


def _floats(panel: dict[str, Any]) -> dict[str, Any]:
    return {n: float(one) if isinstance(one, Decimal) else one for n, one in panel.items()}


def _with_model(source: str, agent: Any) -> Any:  # noqa: ANN401  what a file holds
    if not isinstance(agent, dict) or agent.get("kind") not in ("chat", "pydantic-ai"):
        return agent
    try:
        return msgspec.to_builtins(model_agent(agent))
    except ValueError as error:
        raise click.UsageError(f"{source}: {error}") from None


def _words(request: str | None, table: dict[str, Any], source: str) -> str:
    """Return what is asked for, by argument or plan file."""
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
    as_usage(lambda: text(words))
    return words


def with_agents(policy: Policy, known: Configured, agents: Agents, *, own: bool) -> Policy:
    """Return a policy with who is named for it: in the settings, by itself, by the options.

    Whoever names an agent on the command line means no other.
    """
    policy = msgspec.structs.replace(
        policy, tools=known.tools | policy.tools, servers=known.servers | policy.servers
    )
    if known.agents and not agents.name_one:
        named = known.agents | policy.agents if own else known.agents
        roles = known.roles | policy.roles
        policy = msgspec.structs.replace(policy, agents=named, roles=roles)
    return agents.apply(policy)


def _is_routed(team: Team, policy: Policy, known: Configured) -> bool:
    """Tell whether the lane of a request is looked for.

    It is where that is said, and where a model answers.  A program that is named on the command
    line is given what it was called for, and nothing else.
    """
    if team.is_wished is not None:
        return team.is_wished
    models = any(isinstance(agent, Chat | Library) for agent in policy.agents.values())
    return models or ("" in known.agents and policy.agents[""] == known.agents[""])


def read_roster_file(file: Path | None, known: Configured) -> Roster:
    """Return the roster that is named: by an option, by the settings, or that of Forum."""
    named = file or (Path(known.roster) if known.roster else None)
    try:
        return load_roster(named)
    except BadRoster as error:
        raise click.UsageError(f"{named}: {error}") from None


def _routed(order: Order, wishes: Wishes, known: Configured) -> Order:
    roster = read_roster_file(wishes.team.roster, known)
    whole, lane = _is_for_team(wishes, known), wishes.team.lane or ""
    if not lane:
        # The first time on a machine it takes a second or two.
        options.talk("routing: looking for the lane that the request belongs to")
    return as_usage(lambda: route_order(order, roster, lane=lane, team=whole, rung=known.rung))


def _planned(order: Order, wishes: Wishes, known: Configured) -> Order:
    """Return an order with a plan, and with the lanes of the roster that its tasks name."""
    if wishes.team.lane or wishes.team.route:
        raise click.UsageError("--lane, --route: a plan with tasks says itself who does what")
    if order.plan is not None:
        order = replace(order, plan=seat_plan(order.plan, order.policy))
    tasks = order.plan.all_tasks if order.plan else ()
    lanes = {task.lane for task in tasks} - {"", *order.policy.lanes}
    whole = _is_for_team(wishes, known)
    if not lanes and not whole:
        return order
    roster = read_roster_file(wishes.team.roster, known)
    return replace(order, policy=team_policy(order.policy, roster, sorted(lanes), roles=whole))


def _is_for_team(wishes: Wishes, known: Configured) -> bool:
    """Tell whether all roles are played; whoever has named an agent is not meant by the file."""
    if wishes.team.team is not None:
        return wishes.team.team
    return known.team and not wishes.agents.name_one


def _check(order: Order) -> None:
    """Refuse what could not be taken on, before anything is started for it."""
    order.policy.check(order.plan)
    text(order.request)
    if order.plan is not None:
        write_plan(order.plan)
    write_policy(order.policy)


def refuse_unusable(policy: Policy, plan: Plan | None, *, here: bool) -> None:
    """Refuse agents that could not be asked, before anything is recorded."""
    as_usage(lambda: require_agents(policy, plan, keys=here))


def as_usage(make: Callable[[], T]) -> T:
    """Call something with what the user gave: what is wrong with that is wrong usage."""
    try:
        return make()
    except (AgentUnusable, BadPlan, Malformed) as error:
        raise click.UsageError(str(error)) from None


def repeats_only(order: Order) -> bool:
    """Tell whether nobody was named who could answer."""
    asked = agents_in(order.policy, order.plan)
    return "" in asked and order.policy.agents.get("") == Scripted()


def caps_nothing(order: Order) -> bool:
    """Tell whether there is a cap in dollars, and nobody who would ever come near it."""
    return order.budget.usd != NO_LIMIT and not any(map(_has_price, order.policy.agents.values()))


def _has_price(agent: Agent) -> bool:
    """Tell whether a call costs anything; a model on this machine is taken to be free."""
    found = inspect_agent(agent)
    return bool(found.call_usd or found.read_usd or found.said_usd)


class _Tasks(msgspec.Struct):
    """So that an error says `$.tasks[1]`."""

    tasks: tuple[Task, ...]


def _read(file: Path) -> dict[str, Any]:
    """Read a JSON or TOML file: by its suffix, or by how it begins."""
    try:
        table = _in_units(_parse(file, file.read_text()))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file}: {error}") from None
    if not isinstance(table, dict):
        raise click.UsageError(f"{file}: it is not an object")
    return table


def _is_json(file: Path, content: str) -> bool:
    return file.suffix == ".json" or (file.suffix != ".toml" and content.lstrip()[:1] == "{")


def _parse(file: Path, content: str) -> Any:  # noqa: ANN401  what a file holds
    if _is_json(file, content):
        return json.loads(content, parse_float=Decimal, parse_constant=_no_number)
    return tomllib.loads(content, parse_float=Decimal)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _in_units(value: Any) -> Any:  # noqa: ANN401  what a file holds
    """Return what a file holds, with money and time as the record has them."""
    if isinstance(value, list):
        return [_in_units(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: _in_units(one) for name, one in value.items()}
    budget = made.get("budget")
    if isinstance(budget, dict) and "seconds" in budget:
        rest = {name: one for name, one in budget.items() if name != "seconds"}
        made["budget"] = rest | {"milliseconds": exactly(budget["seconds"], 1000)}
    if isinstance(made.get("usd"), int | str | Decimal):
        made["usd"] = exactly(made["usd"], NANO)
    return made


def _convert(source: str, value: object, into: type[T]) -> T:
    try:
        return msgspec.convert(value, into)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise click.UsageError(f"{source}: {error}") from None


def _named(wish: str) -> tuple[str, Agent]:
    name, found, command = wish.partition("=")
    if not found or not name:
        raise click.UsageError(f"--agent {wish}: write NAME=PROGRAM ARGS")
    return name, _command(f"--agent {name}", command)


def _command(option: str, command: str) -> Command:
    try:
        return Command(argv_of(command))
    except ValueError as error:
        raise click.UsageError(f"{option}: {error} in {command!r}") from None


def _priced(agent: Agent, given: dict[str, int]) -> Agent:
    if isinstance(agent, Scripted | Command):
        return msgspec.structs.replace(agent, **given)
    raise click.UsageError(
        "--price-usd and --tokens are of programs; of a model: --price-in, --price-out, "
        "--max-output-tokens"
    )


def _replaced(value: T, wished: dict[str, Any]) -> T:
    given = {name: wish for name, wish in wished.items() if wish is not None}
    return msgspec.structs.replace(value, **given)  # type: ignore[type-var]
