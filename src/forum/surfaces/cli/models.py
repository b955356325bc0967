"""`forum models`: print the configured agents, test them, and install the weights of models."""

import os
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from forum.app.formatting import pluralize, strip_control_characters
from forum.app.planner import inspect_weights, load_team_settings, probe_agent, pull_weights
from forum.config import PROJECT_FILE, Settings
from forum.engine import CallReply
from forum.ledger.kinds import Outcome
from forum.runs.agent_inspection import AgentInspection
from forum.runs.model_weights import MODEL_WEIGHTS
from forum.runs.policy import Agent, Policy, Role
from forum.runs.role_assignment import build_team_policy, is_independent
from forum.surfaces.cli import EXIT_FAILED, common_options, output, submit_options
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.environment_models import echo_offer, offered_models
from forum.surfaces.schemas.models import (
    AgentView,
    ModelsCheckForm,
    PulledWeightsForm,
    WeightsForm,
    agent_view,
    error_of,
    list_shown_agents,
    models_form,
    usd_per_million_tokens,
    weights_form,
)
from forum.units import format_usd

_CALL_TIMEOUT_S = 30.0
_JUDGE_NOT_INDEPENDENT = (
    "whoever judges is a model that also works: its verdicts are recorded as not independent; "
    "name another model under [models], and if you like under [roles] validator"
)
_NO_AGENT = "no agent is configured: name one in forum.toml, or with --model or --cmd"


@click.group(cls=common_options.FullHelpGroup)
def models() -> None:
    """List the configured models and programs, test them, and install weights."""


@models.command(
    examples=(
        "forum models check",
        "forum models check --call --json",
        "forum models check --model gpt-5-mini --call",
    ),
)
@submit_options.agent_options
@click.option("--call", is_flag=True, help="Call each agent for one word; this may cost a little.")
@common_options.as_json
def check(agents: submit_options.AgentOptions, *, call: bool, as_json: bool) -> None:
    """Show every configured agent: where it is, its key, its price, and what it is used for.

    Keys are never shown, only whether there is one.  With --call each agent is called for one word,
    with a limit of 30 seconds; nothing of that is recorded.  If OPENAI_API_KEY, OPENAI_BASE_URL or
    ANTHROPIC_API_KEY is set and no agent uses it, the lines for forum.toml are printed.  At the end
    stands which weights of `forum models pull` are installed.

    Exit status: 0 all agents are usable, 1 one of them is not, 2 usage.
    """
    settings = common_options.current_settings()
    configured = load_team_settings(settings)
    policy = submit_options.apply_agents(Policy(), configured, agents, own=False)
    roster = submit_options.read_roster_file(None, configured)
    # With all lanes and roles, to list what each agent would be used for.
    lanes = dict.fromkeys(roster.by_name, 0)
    team = build_team_policy(policy, roster, lanes, roles=True, off=configured.off)
    lines = [_line(team, name, agents, settings) for name in list_shown_agents(policy)]
    if call:
        lines = [_ask_agent(line, policy.agents[line.name], settings) for line in lines]
    apart = is_independent(team, Role.VALIDATOR)
    weights = [weights_form(each) for each in inspect_weights()]
    if as_json:
        members = msgspec.structs.asdict(models_form(lines, independent=apart))
        output.print_json("forum.models/1", ModelsCheckForm(**members, weights=tuple(weights)))
    else:
        for number, line in enumerate(lines):
            echo(*[""] * bool(number), *_block(line))
        echo(*output.with_heading("weights", [_weights_line(each) for each in weights]))
    if not configured.agents and not agents.names_default:
        echo(_NO_AGENT, err=True)
    elif not apart:
        echo(_JUDGE_NOT_INDEPENDENT, err=True)
    for offer in offered_models(os.environ, policy.agents.values()):
        echo_offer(offer, is_written=False)
    raise SystemExit(0 if all(line.is_usable for line in lines) else EXIT_FAILED)


def _line(
    team: Policy, name: str, agents: submit_options.AgentOptions, settings: Settings
) -> AgentView:
    origin = agents.origin_of(name) or _settings_location(settings, name) or "default"
    return agent_view(team, name, origin)


def _settings_location(settings: Settings, name: str) -> str:
    """Return the position of an agent in the project file, or ""."""
    if settings.file is None or (name or "default") not in settings.sections.raw("models"):
        return ""
    # TOML allows spaces and quotes in the header of a table.
    head = re.compile(rf"""\s*\[\s*models\s*\.\s*["']?{re.escape(name or "default")}["']?\s*\]""")
    lines = settings.file.read_text().split("\n")
    number = next((n for n, line in enumerate(lines, 1) if head.match(line)), None)
    return f"{PROJECT_FILE}:{number}" if number else PROJECT_FILE


def _ask_agent(line: AgentView, agent: Agent, settings: Settings) -> AgentView:
    """Call an agent, unless it has a known problem."""
    if line.found.problem:
        return line
    return replace(line, reply=probe_agent(agent, _CALL_TIMEOUT_S, settings))


def _block(line: AgentView) -> list[str]:
    agent, room = line.found, output.terminal_width() - 13
    mark, color = ("✓", "green") if line.is_usable else ("✗", "red")
    facts = [
        ("model", f"{agent.model} ({agent.kind}) at {agent.where}"),
        ("key", f"{agent.key.value}: {agent.key_name}" if agent.key_name else agent.key.value),
        ("price", _describe_price(agent)),
        ("used for", _uses(line)),
        ("problem", agent.problem),
        ("warning", agent.warning),
        ("call", _describe_reply(line.reply) if line.reply else ""),
    ]
    head = style(f"{mark} {line.name or '(default)'}", fg=color, bold=True)
    lines = [f"{head}  {style(line.origin, dim=True)}"]
    for label, words in facts:
        wrapped = textwrap.wrap(strip_control_characters(words), room) if words else []
        heads = [label, *[""] * len(wrapped)]
        lines += [f"  {head:<9} {part}" for head, part in zip(heads, wrapped, strict=False)]
    return lines


def _describe_price(agent: AgentInspection) -> str:
    if agent.call_usd is not None:
        return f"${format_usd(agent.call_usd)} a call, as declared"
    if agent.read_usd is None or agent.said_usd is None:
        return "not known"
    read, written = usd_per_million_tokens(agent.read_usd), usd_per_million_tokens(agent.said_usd)
    return f"${read} in, ${written} out, for a million tokens ({agent.prices})"


def _uses(line: AgentView) -> str:
    others = [tier for tier in line.tiers if tier != line.name]
    parts = [
        "tasks that name nobody" if line.default else "",
        f"tier {line.name}" if line.name in line.tiers else "",
        f"stands in for {', '.join(others)}" if others else "",
        pluralize(len(line.lanes), "lane") if line.lanes else "",
        f"in a team {', '.join(line.roles)}" if line.roles else "",
    ]
    return "; ".join(part for part in parts if part) or "tasks that name it"


def _describe_reply(reply: CallReply) -> str:
    took = f"after {reply.milliseconds} ms"
    if reply.outcome is Outcome.OK:
        spent = f"{pluralize(reply.spent.tokens, 'token')}, ${format_usd(reply.spent.usd)}"
        return f"answered {took}, {spent}"
    why = ": ".join(part for part in (reply.code or reply.why.value, error_of(reply)) if part)
    return f"{reply.outcome.value} {took} ({why})"


def _weights_line(weights: WeightsForm) -> str:
    mark, color, state = (
        ("✓", "green", "installed")
        if weights.installed
        else ("!", "yellow", f"get it with: forum models pull {weights.name}")
    )
    return f"{style(mark, fg=color)} {weights.name:<8} {weights.purpose}: {state}"


def _read_source(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | Path | None:
    """Return the address or the path that --from names."""
    if value is None:
        return None
    if "://" not in value:
        path = Path(value)
        if not path.exists():
            raise click.BadParameter(f"{value} does not exist")
        return path
    try:
        parts = urlsplit(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}") from None
    if parts.scheme != "https" or not parts.hostname:
        raise click.BadParameter("an address begins with https:// and the name of a host")
    return value


@models.command(
    examples=(
        "forum models pull minilm",
        "forum models pull smollm2 --from https://mirror.example.com/smollm2/",
        "forum models pull minilm --from /media/stick/minilm",
    ),
)
@click.argument("name", metavar="MODEL", type=click.Choice(list(MODEL_WEIGHTS)))
@click.option(
    "--from",
    "source",
    metavar="URL|FILE|DIR",
    callback=_read_source,
    help="A mirror (https), a file or a folder with the files, instead of the hub.",
)
@common_options.as_json
def pull(name: str, source: str | Path | None, *, as_json: bool) -> None:
    """Install the weights of a MODEL: minilm for routing by meaning, smollm2 for `forum demo team`.

    The files come from the hub on which they are published, over HTTPS.  Each is installed only if
    its SHA-256 is the one that Forum pins, whatever the source.  A download that was stopped is
    continued.  They are put into the user's cache directory, or into FORUM_MODELS_DIR.

    Exit status: 0 the weights are installed, 1 they could not be fetched, 2 usage, 3 a file is not
    the pinned one.
    """
    model = MODEL_WEIGHTS[name]
    tell, progress = (
        (_ignore, _ignore) if as_json else (common_options.echo_info, _make_pull_progress())
    )
    pulled = pull_weights(model, source or model.hub_url, tell, progress)
    (weights,) = (weights_form(each) for each in inspect_weights() if each.model == model)
    form = PulledWeightsForm(weights, tuple(pulled))
    output.print_result("forum.weights/1", form, _pulled_lines(form), as_json=as_json)


def _ignore(*_arguments: object) -> None:
    """Print nothing."""


def _make_pull_progress() -> Callable[[str, int, int], None]:
    """Return a callback that names each file on stderr, and draws a progress bar for it."""
    bars: dict[str, Callable[[int, int], None]] = {}

    def show(name: str, done: int, size: int) -> None:
        total = -(-size // 1_000_000)
        if name not in bars:
            common_options.echo_info(f"{name}: {total} MB")
            bars[name] = output.make_progress_bar(name, " MB")
        # Rounded down, so that the bar is full only at the end.
        bars[name](total if done == size else done // 1_000_000, total)

    return show


def _pulled_lines(form: PulledWeightsForm) -> Iterator[str]:
    weights = form.weights
    yield f"{weights.title} ({weights.licence}), for {weights.purpose}, in {weights.folder}"
    for file in weights.files:
        state = "installed" if file.name in form.pulled else "was installed already"
        yield f"  {file.name}  sha256:{file.sha256[:16]}  {state}"
