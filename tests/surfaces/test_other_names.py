"""Names of the programs that people come from: each is known, or answered with what is here."""

import re
from pathlib import Path
from typing import Any

import click
import pytest

from forum.errors import Malformed
from forum.surfaces.cli import cli
from forum.surfaces.cli.suggestions import HINTS, OPTION_HINTS, SUBCOMMAND_HINTS, VALUE_HINTS
from forum.surfaces.mcp.arguments import SubmitAsk, parse_arguments
from tests.surfaces.terminal import Terminal

_TIERS = [
    f"--{tier}-{what}"
    for tier in ("cheap", "capable", "frontier")
    for what in ("cmd", "chat-url", "model", "api-key-env")
]
_MODEL = ["--api", "--api-key-env", "--chat-url", "--cmd", "--model", "--runtime-config", *_TIERS]
_CONTEXT = [
    *("--context-token-budget", "--request-context-token-budget", "--task-context-token-budget"),
    *("--upstream-token-budget", "--use-capsule-context"),
]

FORUM_ENGINE: dict[str, list[str]] = {
    "status": ["--json"],
    "doctor": ["--json"],
    "demo": [],
    "clarify": [],
    "humanize": [],
    "route": ["--json", "--router", "--threshold"],
    "import-trace": [],
    "grade": [],
    "export-gradable": [],
    "mine": [],
    "submit": [
        *("--checkpoint-each-wave", "--delivery-profile", "--json", "--judge-intent", "--ledger"),
        *("--max-model-calls", "--max-seconds"),
        *_MODEL,
        *_CONTEXT,
    ],
    "serve": ["--host", "--ledger", "--no-auth", "--port", *_MODEL],
    "mcp": ["--allow-gate-decisions", "--ledger", *_MODEL],
    "context": [],
    "runtime": [],
    "ledger verify": ["--ledger"],
    "ledger show": ["--ledger", "--limit"],
    "ledger replay": [],
    "ledger get": ["--ledger"],
    "ledger summary": ["--json", "--ledger"],
    "ledger capsule": [],
    "ledger room": [],
    "gate list": ["--json", "--ledger"],
    "gate approve": ["--approver", "--ledger", "--note", "--run-seq", "--wave"],
    "gate edit": ["--approver", "--edit", "--ledger", "--run-seq", "--wave"],
    "gate reject": ["--approver", "--ledger", "--reason", "--run-seq", "--wave"],
    "campaign": [],
    "bench": ["--json"],
    "bench-deep-verify": [],
}
SYMPOSIUM: dict[str, list[str]] = {
    "execution-replay": [],
    "metrics": [],
    "validate": [],
    "deliberate execution-replay": ["--script", "--output", "--assume-cache-cleared"],
    "deliberate replay": [],
    "run": ["--config"],
    "watch": ["--runs-dir", "--no-open"],
}
"""The commands of forum-engine 1.17 and of symposium-protocol 1.12, with their options."""

NAMES = [
    f"{command} {option}".strip()
    for program in (FORUM_ENGINE, SYMPOSIUM)
    for command, options in program.items()
    for option in ["", *options]
]


@pytest.mark.parametrize("typed", NAMES)
def test_every_name_of_the_other_programs_leads_somewhere(typed: str) -> None:
    """It is a name here, or the error says what to type instead."""
    words = typed.split()
    try:
        _find(words)
    except click.UsageError as error:
        message = error.format_message()
        assert re.search(
            r"forum [a-z]|--[a-z]|forum\.toml|[Rr]equest|leaves the rest", message[20:]
        )
        assert not message.endswith(("'.", f"{words[-1]}"))


def _find(words: list[str]) -> None:
    """Resolve a command, and look for its option.  Raises `click.UsageError`."""
    context, command = click.Context(cli, info_name="forum"), cli
    found: click.Command = command
    for word in words:
        if word.startswith("-"):
            names = [name for option in found.params for name in option.opts]
            # Parsed for its error only; an option that exists needs no value here.
            if word not in names:
                found.make_context(found.name, [word, "x"], parent=context)
            return
        assert isinstance(found, click.Group)
        _, resolved, _ = found.resolve_command(context, [word])
        assert resolved is not None
        context, found = click.Context(resolved, parent=context, info_name=word), resolved


def test_a_hint_names_options_and_commands_that_exist() -> None:
    """Every one of them, as it would be typed."""
    commands = {*cli.list_commands(click.Context(cli))}
    texts = [*HINTS.values(), *SUBCOMMAND_HINTS.values(), *OPTION_HINTS.values()]
    for text in [*texts, *VALUE_HINTS.values()]:
        for name in re.findall(r"\bforum ([a-z]+)", text):
            assert name in commands, text
    for name in SUBCOMMAND_HINTS:
        group, _, command = name.partition(" ")
        assert command not in getattr(cli.get_command(click.Context(cli), group), "commands", ())


@pytest.mark.parametrize("words", [["--api", "--model", "m"], ["--model", "m", "--api"]])
def test_an_api_without_a_value_is_told_the_values(tmp_path: Path, words: list[str]) -> None:
    """In forum-engine it is a flag."""
    shown = Terminal(tmp_path).call("submit", "x", *words)

    assert shown.exit_code == 2
    assert "Write --api anthropic" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"reqest": "x"}, r"unknown field `reqest`; did you mean request\?"),
        ({"request": "x", "nonsense": 1}, r"unknown field `nonsense`; known: .*request"),
        (
            {"request": "x", "tasks": [{"id": "a", "instrction": "b"}]},
            r"`instrction` - at `\$.tasks.*; did you mean instruction\?",
        ),
    ],
)
def test_an_unknown_field_names_the_nearest(arguments: dict[str, Any], text: str) -> None:
    """A client that knows another name learns ours, at any depth."""
    with pytest.raises(Malformed, match=text):
        parse_arguments(arguments, SubmitAsk)
