"""Options that several commands share, and how they become settings and trust."""

import os
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from forum.app import Forum
from forum.config import Settings, load_settings
from forum.errors import Malformed
from forum.ledger import BytesContent
from forum.surfaces.cli import UNMUTED_STDERR, suggest_command
from forum.surfaces.schemas.idempotency import IDEMPOTENCY_KEY_FORM, is_idempotency_key
from forum.tlog import VerifierKey, WitnessPolicy

if TYPE_CHECKING:
    from forum.verify import Trust

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_WHOLE_SENTENCE = 200
_CONFINE = "forum.confine"
"""Under this name a context keeps that programs of agents are to be confined."""


class ExampleCommand(click.Command):
    """A command whose help ends in what one could type."""

    def __init__(self, *settings: Any, examples: tuple[str, ...] = (), **named: Any) -> None:  # noqa: ANN401
        super().__init__(*settings, **named)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the examples as they are: what is to be pasted must not be wrapped."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"  {line}\n")


class FullHelpGroup(click.Group):
    """A group whose help says all of what a command does, on two lines where it takes two."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant; of a typo, say what may have been meant."""
        return suggest_command(super().resolve_command, ctx, args, list(self.commands))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the first sentence of each command."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, self.commands[name].get_short_help_str(_WHOLE_SENTENCE))
                    for name in self.list_commands(ctx)
                ]
            )


as_json: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)


def _read_idempotency_key(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    if value is not None and not is_idempotency_key(value):
        raise click.BadParameter(IDEMPOTENCY_KEY_FORM)
    return value


idempotency_key: Decorator = click.option(
    "--idempotency-key",
    metavar="KEY",
    callback=_read_idempotency_key,
    help="A name for this call: called again with it, nothing is recorded twice.",
)


def _remember_confine(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001  as click has it
    if value:
        context.meta[_CONFINE] = True


confine: Decorator = click.option(
    "--confine",
    is_flag=True,
    expose_value=False,
    callback=_remember_confine,
    help="Run programs of agents under bubblewrap, as [agents] confine = true does.",
)


def current_settings() -> Settings:
    """Return the settings that hold where the command was called."""
    found = load_settings(Path.cwd(), os.environ)
    context = click.get_current_context(silent=True)
    if context is not None and _CONFINE in context.meta:
        return replace(found, agents=replace(found.agents, confine=True))
    return found


def open_forum() -> Forum:
    """Return the ledger of this folder."""
    return Forum(current_settings(), echo_warning)


def announce_user_ledger(settings: Settings) -> None:
    """Say outside of every project which ledger is meant: it is the user's own."""
    if settings.file is None:
        where = "the database" if settings.database else str(settings.ledger_file)
        echo_info(f"no forum.toml here or above; the ledger is {where}")
        echo_info("to keep one in this folder: forum init")


def echo_info(line: str) -> None:
    """Say something on stderr, to those who want to hear it."""
    click.echo(line, err=True)


def echo_error(line: str) -> None:
    """Say on stderr what went wrong or is asked for: to those too who want no talk."""
    context = click.get_current_context(silent=True)
    click.echo(line, file=context.meta.get(UNMUTED_STDERR) if context else None, err=True)


def echo_warning(message: str) -> None:
    """Warn on stderr of what has stopped nothing: to those too who want no talk."""
    echo_error(f"{click.style('warning', fg='yellow')}: {message}")


def read_text(stream: BinaryIO) -> BytesContent:
    """Read text that is UTF-8; anything else is refused rather than replaced."""
    data = stream.read()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Malformed("text", f"not UTF-8 at byte {error.start}") from None
    return BytesContent(data)


def collect_options(name: str, into: type[Any], *declared: Decorator) -> Decorator:
    """Return a decorator that passes several options to a command as one argument of this name.

    An option and the field that takes its value have the same name.
    """
    names = [field.name for field in fields(into)]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(*arguments: object, **given: object) -> object:
            value = into(**{field: given.pop(field) for field in names})
            return command(*arguments, **given, **{name: value})

        decorated: Callable[..., Any] = call
        for option in reversed(declared):
            decorated = option(decorated)
        return decorated

    return decorate


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options by which a reader says whom to trust."""
    for option in (
        click.option(
            "--seen",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A checkpoint that you, or another reader, saw before.",
        ),
        click.option(
            "--policy",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The logs and witnesses that you trust (a C2SP tlog-policy file).",
        ),
        click.option(
            "--key", "keys", multiple=True, help="A log's public key that you trust (a vkey)."
        ),
    ):
        command = option(command)
    return command


def read_trust(keys: tuple[str, ...], policy: Path | None, seen: tuple[Path, ...]) -> "Trust":
    """Return what the reader said to trust."""
    from forum.verify import Trust

    try:
        return Trust(
            keys=tuple(VerifierKey.parse(key) for key in keys),
            policy=WitnessPolicy.parse(policy.read_bytes()) if policy else None,
            remembered=tuple(path.read_bytes() for path in seen),
        )
    except Malformed as error:
        raise click.UsageError(str(error)) from None
