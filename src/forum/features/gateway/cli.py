"""`forum run`: run any program with its model calls capped and recorded."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from forum.app import Forum, build_secret_mask, key_variables
from forum.app.formatting import pluralize, short_id
from forum.app.run_extensions import open_run_extensions
from forum.ledger.ports import NO_LIMIT, Amount
from forum.surfaces.cli import common_options
from forum.surfaces.cli.common_options import option_field
from forum.units import NANO_USD, format_usd
from forum.untrusted_text import replace_hidden

if TYPE_CHECKING:
    from forum.features.gateway.program import RemovalReason
    from forum.features.gateway.program_tree import LeftProcesses
    from forum.features.gateway.run_session import CommandSummary, RunOptions

EXIT_NOT_FOUND, EXIT_NOT_EXECUTABLE = 127, 126


@dataclass(frozen=True, slots=True)
class CapOptions:
    """The limits of a run."""

    max_usd: int | None = option_field(
        type=common_options.USD, help="Maximum total cost of its model calls."
    )
    max_calls: int | None = option_field(
        type=common_options.POSITIVE, help="Maximum number of model calls."
    )
    max_tokens: int | None = option_field(
        type=common_options.POSITIVE, help="Maximum number of input and output tokens."
    )
    max_seconds: float | None = option_field(
        type=common_options.Seconds(min=0, min_open=True),
        help="Maximum run time of the command in seconds.",
    )
    max_repeats: int = option_field(
        type=click.IntRange(min=0),
        default=100,
        show_default=True,
        help="Maximum number of identical requests; 0 for no limit.",
    )


@click.command(
    cls=common_options.ExampleCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        "forum run --max-usd 5 -- python agent.py",
        "forum run --max-usd 0.50 --confine -- ./agent.sh",
        "forum run -- claude -p 'Explain this repository'",
    ),
)
@common_options.collect_options("caps", CapOptions)
@click.option(
    "--allow",
    multiple=True,
    metavar="NAME",
    help="Allow what has no bounded price: a model, a tool or a member of requests; or what is not "
    "passed on: header:NAME, query:NAME or path:PATH.",
)
@click.option("--untouched", is_flag=True, help="Change no request, not even an output limit.")
@click.option(
    "--confine",
    is_flag=True,
    help="Run the command under bubblewrap, with no network but the gateway.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary on stderr as JSON.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    caps: CapOptions,
    allow: tuple[str, ...],
    command: tuple[str, ...],
    *,
    untouched: bool,
    confine: bool,
    as_json: bool,
) -> None:
    """Run COMMAND with its model calls capped and recorded.

    A gateway on loopback relays the calls of COMMAND to OpenAI, Anthropic, Gemini and Azure, and to
    servers that speak their APIs.  It reserves the most that a call can cost before it makes it,
    and refuses one that would pass a cap.  COMMAND finds it by OPENAI_BASE_URL, ANTHROPIC_BASE_URL
    and GOOGLE_GEMINI_BASE_URL, and gets a token for this run in place of your keys.  Without
    --confine it can still call others.

    Calls go to the addresses in these variables of your environment, else to those in [gateway] of
    forum.toml, else to the providers.  Where you have no key, the credential of COMMAND is passed
    on.

    The exit status is that of COMMAND; 5 if --max-seconds ended it, or if it is 0 although every
    call was refused; 126 or 127 if it cannot be started.  Standard input, output and error are
    those of COMMAND; the summary is on stderr.
    """
    from forum.features.gateway.program import find_removed
    from forum.features.gateway.relayed_run import RunLimits
    from forum.features.gateway.run_session import RunOptions, run_program
    from forum.features.gateway.settings import read_gateway_settings

    if shutil.which(command[0]) is None:
        if Path(command[0]).exists():
            common_options.echo_error(f"error: {command[0]} is not executable")
            raise SystemExit(EXIT_NOT_EXECUTABLE)
        common_options.echo_error(f"error: {command[0]}: no such program")
        raise SystemExit(EXIT_NOT_FOUND)
    settings = common_options.current_settings()
    gateway = read_gateway_settings(settings, os.environ)
    cap = Amount(*(NO_LIMIT if limit is None else limit for limit in
                   (caps.max_usd, caps.max_tokens, caps.max_calls)))  # fmt: skip
    token = f"forum-run-{os.urandom(24).hex()}"
    with Forum(settings, common_options.echo_warning) as forum:
        # The token is a secret while the run lasts, so the record has its name only.
        named = key_variables(settings)
        forum.mask = build_secret_mask({**os.environ, "FORUM_RUN_TOKEN": token}, named)
        common_options.announce_user_ledger(settings)
        forum.keys.initialise()
        options = RunOptions(
            argv=command,
            limits=RunLimits(
                cap=cap,
                allowed=frozenset(allow) | gateway.allowed,
                untouched=untouched or gateway.untouched,
                max_repeats=caps.max_repeats,
            ),
            seconds=caps.max_seconds,
            confine=confine or settings.agents.confine,
            removed=find_removed(command, sorted(named)),
        )
        if not as_json and (line := _removed_line(options.removed)):
            common_options.echo_info(line)
        with forum.log.open_writer() as ledger:
            extended = replace(options, extensions=open_run_extensions(forum))
            summary = run_program(forum, ledger, gateway, token, options=extended)
            for extension in extended.extensions:
                extension.end(summary.run, summary.root)
    advice = _Advice(
        is_confined=options.confine,
        missing_keys=gateway.missing_keys if gateway.has_no_key else (),
    )
    lines = [_json_line(summary, options)] if as_json else _summary_lines(summary, advice)
    for line in lines:
        common_options.echo_info(line)
    sys.exit(summary.exit_status)


@dataclass(frozen=True, slots=True)
class _Advice:
    """What is known of the ways around the gateway, for a run of which no call came through it."""

    is_confined: bool
    missing_keys: Sequence[str]
    """The variables with the keys of providers, if none of them is set."""

    def lines(self, *, failed: bool) -> Iterator[str]:
        """Yield what to do if no call came through the gateway."""
        yield "no call came through Forum: nothing was capped, and only the command was recorded"
        if not self.is_confined:
            yield (
                "  if it calls a model, it does not use the gateway: let it take its address and "
                "key from OPENAI_BASE_URL and OPENAI_API_KEY (or ANTHROPIC_...), and close the "
                "way around with --confine"
            )
        if failed:
            yield from self.key_lines()

    def key_lines(self) -> Iterator[str]:
        """Yield that there was no key to pass on, if so."""
        if self.missing_keys:
            yield f"  Forum found no key to pass on: set {' or '.join(self.missing_keys)}"


def _removed_line(removed: Mapping[str, "RemovalReason"]) -> str:
    """Return which variables the command does not get, and why; empty if it gets all."""
    from forum.features.gateway.program import RemovalReason

    texts = {
        RemovalReason.NOT_RELAYED: "keys of providers that Forum does not relay to",
        RemovalReason.HOLDS_A_KEY: "a key of a provider is in the value",
        RemovalReason.BYPASS: "would lead it past the gateway",
        RemovalReason.OF_FORUM: "Forum uses them itself",
    }
    parts = []
    for reason, text in texts.items():
        if names := sorted(name for name, why in removed.items() if why is reason):
            parts.append(f"{', '.join(names)} ({text})")
    return f"the command does not get {'; '.join(parts)}" if parts else ""


def _summary_lines(summary: "CommandSummary", advice: _Advice) -> Iterator[str]:
    counters, limits = summary.relayed.counters, summary.relayed.limits
    cap = limits.cap.usd
    cost = f"${format_usd(counters.usd)}"
    if cap < NO_LIMIT:
        cost += f" of ${format_usd(cap)}"
    calls = pluralize(counters.calls, "call")
    if counters.failed:
        calls += f" ({counters.failed} failed)"
    tokens = f"{counters.input_tokens} tokens read, {counters.output_tokens} written"
    yield f"run {summary.run}"
    yield f"{cost}, {calls}, {tokens}, {summary.seconds:.1f} s"
    if summary.arguments:
        yield f"added to its arguments: {shlex.join(summary.arguments)}"
    if counters.tools:
        yield f"tools: {_counted(counters.tools)}"
    yield from _refusal_lines(summary)
    yield from _advice_lines(summary, advice)
    yield from _end_lines(summary)
    yield f"see all of it: forum show {short_id(summary.run)}"
    yield "verify the record: forum ledger verify"


def _refusal_lines(summary: "CommandSummary") -> Iterator[str]:
    counters = summary.relayed.counters
    if counters.refused:
        yield f"{pluralize(counters.refused, 'call')} refused: {_counted(counters.reasons)}"
    if summary.was_refused:
        yield "every call was refused, so the exit status is 5, although that of the command is 0"


def _advice_lines(summary: "CommandSummary", advice: _Advice) -> Iterator[str]:
    """Yield what to do where no call, or only calls that failed, came through the gateway."""
    counters = summary.relayed.counters
    if not counters.calls and not counters.refused:
        yield from advice.lines(failed=summary.status != 0)
    elif counters.calls and counters.calls == counters.failed:
        yield from advice.key_lines()


def _end_lines(summary: "CommandSummary") -> Iterator[str]:
    """Yield what ended the command, and what ended with it."""
    if summary.left.count:
        yield f"ended what it left running: {_list_processes(summary.left)}"
    if summary.relayed.has_overrun:
        yield f"overrun: {summary.relayed.stop_reason}"
    elif summary.timed_out or summary.relayed.is_ended:
        yield f"stopped: {summary.relayed.stop_reason}"


def _list_processes(left: "LeftProcesses") -> str:
    """Return process ids and names, and how many more there were."""
    listed = ", ".join(f"{process} {replace_hidden(name)}" for process, name in left.left)
    more = left.count - len(left.left)
    return f"{listed} and {more} more" if more else listed


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))


def _json_line(summary: "CommandSummary", options: "RunOptions") -> str:
    counters = summary.relayed.counters
    members = {
        "schema": "forum.relayed-run/1",
        "run": summary.run,
        "status": summary.status,
        "seconds": round(summary.seconds, 3),
        "usd": counters.usd / NANO_USD,
        "nano_usd": counters.usd,
        "calls": counters.calls,
        "failed": counters.failed,
        "refused": counters.refused,
        "refusals": dict(counters.reasons),
        "input_tokens": counters.input_tokens,
        "output_tokens": counters.output_tokens,
        "models": dict(counters.models),
        "tools": dict(counters.tools),
        "timed_out": summary.timed_out,
        "left_running": [{"pid": process, "name": name} for process, name in summary.left.left],
        "overrun": summary.relayed.has_overrun,
        "added_arguments": summary.arguments,
        "removed_variables": options.removed,
        "through_gateway": bool(counters.calls or counters.refused),
    }
    return msgspec.json.encode(members).decode()
