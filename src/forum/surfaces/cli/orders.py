"""What somebody wants done: options and plan files become an order.

In files as on the command line, money is in dollars and budgets of time are in seconds.
"""

import json
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from forum.engine import Order
from forum.errors import BadPlan, Malformed
from forum.ledger import NO_LIMIT, text
from forum.surfaces.cli import options
from forum.surfaces.cli.units import NANO, exactly, seconds, usd
from forum.work import (
    Agent,
    Answer,
    Budget,
    Command,
    Plan,
    Policy,
    Scripted,
    Task,
    one_task,
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
    agent: tuple[str, ...]
    script: Path | None
    price_usd: int | None
    tokens: int | None

    def apply(self, policy: Policy) -> Policy:
        """Return a policy with these agents in place of its own."""
        named = dict(policy.agents)
        fresh: dict[str, Agent] = dict(map(_named, self.agent))
        if self.cmd is not None and self.script is not None:
            raise click.UsageError("--cmd and --script: one agent cannot be both")
        if self.cmd is not None:
            fresh[""] = _command("--cmd", self.cmd)
        elif self.script is not None:
            fresh[""] = _convert(str(self.script), _read(self.script), Scripted)
        named |= fresh
        prices = {"usd": self.price_usd, "tokens": self.tokens}
        given = {name: value for name, value in prices.items() if value is not None}
        if given:
            priced = fresh or {name: named[name] for name in ("",) if name in named}
            named |= {n: msgspec.structs.replace(a, **given) for n, a in priced.items()}
        return msgspec.structs.replace(policy, agents=named)


agent_options = options.gathered(
    Agents,
    click.option("--cmd", help='Ask this program: "PROGRAM ARGS", prompt in, reply out, no shell.'),
    click.option(
        "--agent", multiple=True, metavar="NAME=CMD", help="A program for tasks that name it."
    ),
    click.option("--script", type=_FILE, help="Ask a scripted agent (JSON or TOML)."),
    click.option("--price-usd", type=usd, help="What one call of these agents costs."),
    click.option(
        "--tokens", type=_COUNT, metavar="N", help="The most tokens of one call of these agents."
    ),
)


@dataclass(frozen=True, slots=True)
class Terms:
    """How much may be used, and who has to approve what, as the options say."""

    max_usd: int | None
    max_seconds: int | None
    max_calls: int | None
    max_tokens: int | None
    max_depth: int | None
    parallel: int | None
    retries: int | None
    gate: tuple[str, ...]
    gate_seconds: int | None
    gate_default: str | None

    def limit(self, budget: Budget) -> Budget:
        """Return a budget with these limits in place of its own."""
        wished = {
            "usd": self.max_usd,
            "milliseconds": self.max_seconds,
            "calls": self.max_calls,
            "tokens": self.max_tokens,
            "depth": self.max_depth,
        }
        return _replaced(budget, wished)

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
    click.option("--max-usd", type=usd, help="Stop before more than this is spent."),
    click.option("--max-seconds", type=seconds, help="Stop after this time, whatever is going on."),
    click.option("--max-calls", type=_COUNT, metavar="N", help="Stop before more calls than this."),
    click.option(
        "--max-tokens", type=_COUNT, metavar="N", help="Stop before more tokens than this."
    ),
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


def read_order(request: str | None, file: Path | None, agents: Agents, terms: Terms) -> Order:
    """Return what is wanted, by plan file and options; options count more."""
    table = _read(file) if file else {}
    for name in table.keys() - {"request", "tasks", "policy", "budget"}:
        raise click.UsageError(
            f"{file}: unknown key {name!r}; known: request, tasks, policy, budget"
        )
    source = str(file)
    words = request if request is not None else table.get("request")
    if not isinstance(words, str):
        raise click.UsageError(
            "say what is to be done: a REQUEST, - for standard input, or --plan FILE"
            if words is None
            else f"{source}: its request is not a text"
        )
    policy = _convert(f"{source}: policy", table.get("policy", {}), Policy)
    budget = _convert(f"{source}: budget", table.get("budget", {}), Budget)
    policy = agents.apply(terms.rule(policy))
    plan = as_usage(lambda: _plan(source, table, words))
    order = Order(words, plan, policy, terms.limit(budget))
    as_usage(lambda: _check(order))
    return order


def _check(order: Order) -> None:
    """Refuse what could not be taken on, before anything is started for it."""
    order.policy.check(order.plan)
    text(order.request)
    write_plan(order.plan)
    write_policy(order.policy)


def as_usage(make: Callable[[], T]) -> T:
    """Call something with what the user gave: what is wrong with that is wrong usage."""
    try:
        return make()
    except (BadPlan, Malformed) as error:
        raise click.UsageError(str(error)) from None


def repeats_only(order: Order) -> bool:
    """Tell whether nobody was named who could answer."""
    return "" in order.plan.agents and order.policy.agents.get("") == Scripted()


def caps_nothing(order: Order) -> bool:
    """Tell whether there is a cap in dollars, and nobody who would ever come near it."""
    return order.budget.usd != NO_LIMIT and not any(a.usd for a in order.policy.agents.values())


def _plan(source: str, table: dict[str, Any], request: str) -> Plan:
    if "tasks" not in table:
        return one_task(request)
    return Plan(_convert(source, {"tasks": table["tasks"]}, _Tasks).tasks)


class _Tasks(msgspec.Struct):
    """So that an error says `$.tasks[1]`."""

    tasks: tuple[Task, ...]


def _read(file: Path) -> dict[str, Any]:
    """Read a JSON or TOML file: by its suffix, or by how it begins."""
    try:
        content = file.read_text()
        if file.suffix == ".json" or (file.suffix != ".toml" and content.lstrip()[:1] == "{"):
            table = json.loads(content, parse_float=Decimal, parse_constant=_no_number)
        else:
            table = tomllib.loads(content, parse_float=Decimal)
        table = _in_units(table)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file}: {error}") from None
    if not isinstance(table, dict):
        raise click.UsageError(f"{file}: it is not an object")
    return table


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
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise click.UsageError(f"{option}: {error} in {command!r}") from None
    if not argv:
        raise click.UsageError(f"{option}: no program is named")
    return Command(argv)


def _replaced(value: T, wished: dict[str, Any]) -> T:
    given = {name: wish for name, wish in wished.items() if wish is not None}
    return msgspec.structs.replace(value, **given)  # type: ignore[type-var]
