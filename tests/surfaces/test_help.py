"""Where a newcomer is led: `forum --help`, `forum` alone, and words that are no commands."""

import re
import shlex
from pathlib import Path

import click
import pytest

import forum.surfaces.cli as cli_module
from forum.feature import Feature, FeatureCommand
from forum.features import FEATURES
from forum.surfaces.cli import cli, command_groups
from forum.surfaces.cli.help_page import DOORS, MAX_SUMMARY, WAYS_TO_BEGIN
from forum.surfaces.cli.suggestions import HINTS
from tests.surfaces.terminal import Terminal

GUESSED = [
    *("help", "version", "list", "status", "log", "logs", "export", "approve", "ui", "dashboard"),
    *("start", "login", "cost", "budget", "policy", "policies", "note", "prove", "audit"),
    *("stop", "delete"),
]


@pytest.fixture
def bare(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder without a ledger."""
    return Terminal(tmp_path)


def parse(words: list[str]) -> None:
    """Parse a command line as `forum` would, and execute nothing; raise if it is wrong."""
    context = click.Context(cli, info_name="forum")
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        assert not found.deprecated
        command = found
        context = click.Context(found, info_name=name, parent=context)
    if isinstance(command, click.Group):
        # Parsing would execute `--version`; a group alone is fine, as it prints its commands.
        assert {*words} <= {"--help", *(name for option in command.params for name in option.opts)}
        return
    with context.scope():
        command.parse_args(context, words)


def commands_in(text: str) -> list[list[str]]:
    """Return the command lines that a sentence names, as lists of words."""
    found = re.findall(r"\bforum ((?:(?!\.  |\.$|, |; |`).)+)", text)
    return [shlex.split(line) for line in found]


def test_the_help_is_one_screen(bare: Terminal) -> None:
    """The ways to begin stand first, each command has one summary, exit statuses are the end."""
    text = bare.call("--help").stdout
    lines = text.rstrip().split("\n")

    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[1] for line in lines[5:10]] == [*WAYS_TO_BEGIN.values()]
    assert "the dashboard" in text
    assert re.findall(r"^(?:Start|Work|Look|Steer|Prove|Serve)\b", text, re.MULTILINE) == [
        *("Start", "Work", "Look", "Steer", "Prove", "Serve")
    ]
    for name in cli.list_commands(click.Context(cli)):
        assert len(re.findall(rf"^(?:\w+ | ).*? {name}  +[A-Z]", text, re.MULTILINE)) == 1, name
    assert lines[-4].startswith("Exit status: 0 success;")
    assert lines[-1].endswith("143 SIGTERM.")


def test_a_summary_fits_its_column() -> None:
    """Two commands share a line, also after the next one is added."""
    context = click.Context(cli)
    items = cli.shell_complete(context, "")

    assert [item.value for item in items if len(item.help or "") > MAX_SUMMARY] == []


def test_forum_alone_leads_to_the_three_doors(bare: Terminal) -> None:
    """It is not an answer, so it is on stderr, with the status of wrong usage."""
    shown = bare.call()

    assert (shown.exit_code, shown.stdout) == (2, "")
    for purpose, command in DOORS.items():
        assert f"{purpose[1:]}:\n      {command}\n" in shown.stderr


@pytest.mark.parametrize("word", GUESSED)
def test_a_guessed_word_leads_somewhere(bare: Terminal, word: str) -> None:
    """It names a command; only `help` is taken as one."""
    shown = bare.call(word)

    if word == "help":
        assert (shown.exit_code, shown.stdout) == (0, bare.call("--help").stdout)
    else:
        assert shown.exit_code == 2
        assert commands_in(shown.stderr.partition("Error: ")[2])
        assert "Did you mean" not in shown.stderr


@pytest.mark.parametrize(
    "text", [*HINTS.values(), *WAYS_TO_BEGIN.values()], ids=[*HINTS, *WAYS_TO_BEGIN]
)
def test_a_hint_names_commands_that_exist_and_parse(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint that fails is worse than none."""
    for file in ("run.zip", "trust", "FILE", "CASES"):
        (tmp_path / file).touch()
    (tmp_path / "DIR").mkdir()
    monkeypatch.chdir(tmp_path)

    named = commands_in(text)

    assert named
    for words in named:
        parse(words)


def test_a_hint_is_for_a_word_that_is_no_command() -> None:
    """A command of that name makes its hint dead."""
    assert HINTS.keys().isdisjoint(cli.list_commands(click.Context(cli)))


def test_help_of_a_command(bare: Terminal) -> None:
    """`forum help X` is `forum X --help`, also for the command of a group."""
    for words in (["runs"], ["ledger", "show"]):
        assert bare.call("help", *words).stdout == bare.call(*words, "--help").stdout


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("submit x --modle y", "Did you mean --model?"),
        ("runs --jsno", "Did you mean --json?"),
        ("run --max-udf 5 -- true", "Did you mean --max-usd?"),
        ("redact 1 text", "Did you mean forum ledger redact?"),
        ("runz", "Did you mean run or runs?"),
    ],
)
def test_a_typo_is_met_with_one_suggestion(bare: Terminal, typed: str, meant: str) -> None:
    """Of options the one that was meant, not every one that shares some letters."""
    shown = bare.call(*typed.split())

    assert shown.exit_code == 2
    assert shown.stderr.endswith(f"{meant}\n")


def test_config_alone_shows_the_settings(bare: Terminal) -> None:
    """There is nothing else that it could do."""
    assert bare.call("config").stdout == bare.call("config", "show").stdout


def test_each_command_of_a_feature_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may follow a command of a feature, also of one that is not there."""
    added = tuple(
        FeatureCommand(
            name, function="webhooks.cli:webhooks", group="Look", after=after, summary=""
        )
        for name, after in (("third", "second"), ("second", "review"), ("last", "no-such"))
    )
    monkeypatch.setattr(cli_module, "FEATURES", (*FEATURES, Feature("added", commands=added)))
    command_groups.cache_clear()
    try:
        groups = command_groups()
    finally:
        command_groups.cache_clear()

    look = list(groups["Look"])
    assert look[look.index("review") :][:3] == ["review", "second", "third"]
    assert look[-1] == "last"
    listed = {name for group in groups.values() for name in group}
    assert {command.name for feature in FEATURES for command in feature.commands} <= listed
