"""`forum models`: who would be asked for what, what that costs, and whether it can be done."""

import re
import textwrap
from dataclasses import replace

import click

from forum.config import FILE, Settings
from forum.engine import Reply
from forum.ledger import Outcome
from forum.staff import ask_agent, configured
from forum.surfaces.cli import FAILED, options
from forum.surfaces.cli.orders import Agents, agent_options, read_roster_file, with_agents
from forum.surfaces.cli.output import print_json, width
from forum.surfaces.forms.models import (
    AgentView,
    agent_view,
    error_of,
    models_form,
    per_million,
    shown_agents,
)
from forum.surfaces.telling import dollars, plain, plural
from forum.work import Agent, Inspection, Policy, Role, is_independent, team_policy

_CALL_SECONDS = 30.0
_NOT_APART = (
    "whoever judges is a model that also works: its verdicts are recorded as not independent; "
    "name another model under [models], and if you like under [roles] validator"
)
_NOBODY = "no agent is configured: name one in forum.toml, or with --model or --cmd"


@click.group(cls=options.Spelled)
def models() -> None:
    """See which models and programs would be asked, and try them."""


@models.command(
    cls=options.WithExamples,
    examples=(
        "forum models check",
        "forum models check --call --json",
        "forum models check --model gpt-5-mini --call",
    ),
)
@agent_options
@click.option("--call", is_flag=True, help="Ask each for one word; this may cost a little.")
@options.as_json
def check(agents: Agents, *, call: bool, as_json: bool) -> None:
    """Show every configured agent: where it is, its key, its price, and what it is used for.

    Keys are never shown, only whether there is one.  With --call each agent is asked for one word,
    within 30 seconds; that is no run, and nothing of it is recorded.

    Exit status: 0 all can be asked, 1 one of them cannot, 2 usage.
    """
    settings = options.settings()
    known = configured(settings)
    policy = with_agents(Policy(), known, agents, own=False)
    roster = read_roster_file(None, known)
    team = team_policy(policy, roster, roster.by_name, roles=True)
    lines = [_line(team, name, agents, settings) for name in shown_agents(policy)]
    if call:
        lines = [_asked(line, policy.agents[line.name], settings) for line in lines]
    apart = is_independent(team, Role.VALIDATOR)
    if as_json:
        print_json("forum.models/1", models_form(lines, independent=apart))
    else:
        click.echo("\n\n".join("\n".join(_block(line)) for line in lines))
    if not known.agents and not agents.name_one:
        click.echo(_NOBODY, err=True)
    elif not apart:
        click.echo(_NOT_APART, err=True)
    raise SystemExit(0 if all(line.is_usable for line in lines) else FAILED)


def _line(team: Policy, name: str, agents: Agents, settings: Settings) -> AgentView:
    origin = agents.origin_of(name) or _line_in(settings, name) or "default"
    return agent_view(team, name, origin)


def _line_in(settings: Settings, name: str) -> str:
    """Return where the project file names an agent."""
    if settings.file is None or (name or "default") not in settings.team.get("models", {}):
        return ""
    head = re.compile(rf"""\s*\[\s*models\s*\.\s*["']?{re.escape(name or "default")}["']?\s*\]""")
    lines = settings.file.read_text().split("\n")
    number = next((n for n, line in enumerate(lines, 1) if head.match(line)), None)
    return f"{FILE}:{number}" if number else FILE


def _asked(line: AgentView, agent: Agent, settings: Settings) -> AgentView:
    """Ask an agent, if it can be asked."""
    if line.found.problem:
        return line
    return replace(line, reply=ask_agent(agent, _CALL_SECONDS, settings))


def _block(line: AgentView) -> list[str]:
    found, room = line.found, width() - 13
    mark, color = ("✓", "green") if line.is_usable else ("✗", "red")
    facts = [
        ("model", f"{found.model} ({found.kind}) at {found.where}"),
        ("key", f"{found.key.value}: {found.key_name}" if found.key_name else found.key.value),
        ("price", _price_words(found)),
        ("used for", _uses(line)),
        ("problem", found.problem),
        ("warning", found.warning),
        ("call", _reply_words(line.reply) if line.reply else ""),
    ]
    head = click.style(f"{mark} {line.name or '(default)'}", fg=color, bold=True)
    lines = [f"{head}  {click.style(line.origin, dim=True)}"]
    for label, words in facts:
        wrapped = textwrap.wrap(plain(words), room) if words else []
        heads = [label, *[""] * len(wrapped)]
        lines += [f"  {head:<9} {part}" for head, part in zip(heads, wrapped, strict=False)]
    return lines


def _price_words(found: Inspection) -> str:
    if found.call_usd is not None:
        return f"${dollars(found.call_usd)} a call, as declared"
    if found.read_usd is None or found.said_usd is None:
        return "not known"
    read, said = per_million(found.read_usd), per_million(found.said_usd)
    return f"${read} in, ${said} out, for a million tokens ({found.prices})"


def _uses(line: AgentView) -> str:
    others = [tier for tier in line.tiers if tier != line.name]
    parts = [
        "tasks that name nobody" if line.default else "",
        f"tier {line.name}" if line.name in line.tiers else "",
        f"stands in for {', '.join(others)}" if others else "",
        plural(len(line.lanes), "lane") if line.lanes else "",
        f"in a team {', '.join(line.roles)}" if line.roles else "",
    ]
    return "; ".join(part for part in parts if part) or "tasks that name it"


def _reply_words(reply: Reply) -> str:
    took = f"after {reply.milliseconds} ms"
    if reply.outcome is Outcome.OK:
        return (
            f"answered {took}, {plural(reply.spent.tokens, 'token')}, ${dollars(reply.spent.usd)}"
        )
    why = ": ".join(part for part in (reply.code or reply.why.value, error_of(reply)) if part)
    return f"{reply.outcome.value} {took} ({why})"
