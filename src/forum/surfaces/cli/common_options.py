"""Options that several commands share, and their conversion to settings and trust."""

import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import Field, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from forum import units
from forum.app import Forum, now
from forum.config import Settings, load_settings
from forum.errors import ForumError, Malformed
from forum.feature import load_part
from forum.features import FEATURES
from forum.ledger.body import BytesContent
from forum.spelling import closest_names
from forum.surfaces.cli import EXIT_FAILED, UNMUTED_STDERR, SuggestingGroup
from forum.surfaces.cli.console import confirm, echo, style
from forum.surfaces.schemas.idempotency import IDEMPOTENCY_KEY_FORM, is_idempotency_key
from forum.tlog import VerifierKey, WitnessPolicy

if TYPE_CHECKING:
    from forum.verify import ExplainedTimes, Trust

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_MAX_LISTED = 8


class ExistingPath(click.Path):
    """A path that must exist: an error names similar files, or those of the folder."""

    def convert(
        self,
        value: Any,  # noqa: ANN401  as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """Return the path."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            path = Path(os.fsdecode(value))
            if path.exists():
                raise
            raise click.BadParameter(f"{error.message} {_nearby(path)}", ctx, param) from None


def _nearby(path: Path) -> str:
    """Return which file may have been meant by a path that does not exist."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"There is no folder {folder}."
    # Of a folder, only others of the same form can be meant: plan.toml by plna.toml.
    names = [each.name for each in folder.glob(f"*{path.suffix}") if each.name[:1] != "."]
    if near := closest_names(path.name, names):
        return f"Did you mean {path.with_name(near[0])}?"
    listed = ", ".join(sorted(names)[:_MAX_LISTED])
    return (
        f"{folder} has: {listed}." if listed else f"{folder} has no {path.suffix or 'such'} file."
    )


FILE = ExistingPath(exists=True, dir_okay=False, path_type=Path)
FOLDER = ExistingPath(exists=True, file_okay=False, path_type=Path)


class Seconds(click.FloatRange):
    """A time in seconds: a number, neither infinite nor NaN, which passes every comparison."""

    def convert(
        self,
        value: Any,  # noqa: ANN401  as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the time."""
        seconds: float = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is no time; write a number of seconds", param, ctx)
        return seconds


class UnitsParam(click.ParamType[int]):
    """An amount or a time, read by one of the parsers that all surfaces share."""

    def __init__(self, name: str, parse: Callable[[str], int]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self,
        value: Any,  # noqa: ANN401  as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Return the amount in the units of the record."""
        if isinstance(value, int):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


USD = UnitsParam("usd", lambda text: units.to_limit_units(text, units.NANO_USD))
SECONDS = UnitsParam("seconds", lambda text: units.to_limit_units(text, units.MILLISECONDS))
PRICE = UnitsParam("usd", lambda text: units.to_exact_units(text, units.NANO_USD))
PRICE_PER_MILLION = UnitsParam(
    "dollars", lambda text: units.to_exact_units(text, units.NANO_USD_PER_MILLION)
)
MOMENT = UnitsParam("time", lambda text: units.parse_moment(text, now()))
POSITIVE = click.IntRange(min=1)
PORT = click.IntRange(0, 65535)
# Longer than any first sentence; click cuts at 45 characters by default.
_WHOLE_SENTENCE = 200
_CONFINE = "forum.confine"
"""Key of `ctx.meta` that marks agent programs to be confined."""


class ExampleCommand(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *settings: Any, examples: tuple[str, ...] = (), **named: Any) -> None:  # noqa: ANN401
        super().__init__(*settings, **named)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for an unknown option, suggest the one that was meant."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # Imported here because start-up time is paid by every command, and mistakes are rare.
            from forum.surfaces.cli.suggestions import explain_option_error

            raise explain_option_error(self, ctx, error) from None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the examples verbatim: commands to paste must not be wrapped."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"  {line}\n")


def command(
    name: str | None = None, *, examples: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], ExampleCommand]:
    """Return a decorator that makes a command outside of a group."""
    return click.command(name, cls=ExampleCommand, examples=examples)


class FullHelpGroup(SuggestingGroup):
    """A group whose help shows the whole first sentence of each command, with examples.

    Features can have commands in it.  They are loaded when one of them may be meant: the others
    need not pay for what these import.
    """

    command_class = ExampleCommand

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, also that of a feature."""
        if cmd_name not in self.commands:
            self._load_feature_commands()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, those of features too."""
        self._load_feature_commands()
        return super().list_commands(ctx)

    def _load_feature_commands(self) -> None:
        for feature in FEATURES:
            for group, command in feature.subcommands:
                if group == self.name:
                    self.add_command(load_part(command))

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


def limit_option(default: int, help: str) -> Decorator:  # noqa: A002  as click has it
    """Return the option for the number of results."""
    return click.option("--limit", default=default, show_default=True, type=POSITIVE, help=help)


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
    """Return the settings for the current directory."""
    return with_confine(load_settings(Path.cwd(), os.environ))


def is_confine_given() -> bool:
    """Return whether the current command has the option --confine.

    Only in the thread of the command: other threads have no context.
    """
    context = click.get_current_context(silent=True)
    return context is not None and _CONFINE in context.meta


def with_confine(settings: Settings) -> Settings:
    """Return settings with what the option --confine says, if the command has it."""
    return confined(settings) if is_confine_given() else settings


def confined(settings: Settings) -> Settings:
    """Return settings by which programs of agents are confined."""
    return replace(settings, agents=replace(settings.agents, confine=True))


def open_forum(settings: Settings | None = None) -> Forum:
    """Open the ledger of the settings, or else of the current directory.

    If a gateway was killed on this machine, record the calls that it lost: also for a command that
    only reads, so that it shows them.
    """
    forum = Forum(settings or current_settings(), echo_warning)
    if forum.settings.write_key_file.exists():
        # What is wrong with the ledger is for the command to say: it may be there to repair it.
        # The calls are then recorded by the next command.
        with suppress(ForumError):
            forum.log.recover_lost_calls()
    return forum


def announce_user_ledger(settings: Settings) -> None:
    """Print, outside of any project, that the user's own ledger is used."""
    if settings.file is None:
        where = "the database" if settings.database else str(settings.ledger_file)
        echo_info(f"no forum.toml here or above; the ledger is {where}")
        echo_info("to keep one in this folder: forum init")


def can_ask() -> bool:
    """Return whether a person can be shown something and asked: stdin and stderr are a terminal.

    Under --quiet stderr is not one, so nobody is asked about what was not shown.
    """
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; a parent process may have closed it."""
    return stream is not None and stream.isatty()


def confirm_or_exit(question: str, declined: str) -> None:
    """Ask at the terminal; after any answer but yes, print `declined` and exit with status 1."""
    if not confirm(question):
        echo_info(declined)
        raise SystemExit(EXIT_FAILED)


def echo_info(*lines: str) -> None:
    """Print an information on stderr, line by line; --quiet suppresses it."""
    echo(*lines, err=True)


def echo_error(*lines: str) -> None:
    """Print an error or a prompt on stderr, line by line, even with --quiet."""
    context = click.get_current_context(silent=True)
    echo(*lines, file=context.meta.get(UNMUTED_STDERR) if context else None, err=True)


def echo_warning(message: str) -> None:
    """Print a warning on stderr, even with --quiet."""
    echo_error(f"{style('warning', fg='yellow')}: {message}")


def read_text(stream: BinaryIO) -> BytesContent:
    """Read UTF-8 text. Raises `Malformed` for other bytes instead of replacing them."""
    data = stream.read()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Malformed("text", f"not UTF-8 at byte {error.start}") from None
    return BytesContent(data)


def option_field(*names: str, **settings: Any) -> Any:  # noqa: ANN401  as `dataclasses.field`
    """Return a field of a data class, and the option that gives its value.

    Without names, the option is called as the field.
    """
    return field(metadata={"names": names, "settings": settings})


def collect_options(name: str, into: type[Any], *declared: Decorator) -> Decorator:
    """Return a decorator that passes several options to a command as one argument.

    The fields of `into` declare them.  If other commands share some, `declared` has all of them:
    each option has the name of the field that takes its value.
    """
    names = [each.name for each in fields(into)]
    options = declared or [_declared_option(each) for each in fields(into)]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(*arguments: object, **given: object) -> object:
            value = into(**{each: given.pop(each) for each in names})
            return command(*arguments, **given, **{name: value})

        decorated: Callable[..., Any] = call
        # Decorators apply from the bottom up: reversed, the help lists them as declared.
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _declared_option(declared: Field[Any]) -> Decorator:
    names = declared.metadata["names"] or (f"--{declared.name.replace('_', '-')}",)
    return click.option(*names, declared.name, **declared.metadata["settings"])


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which keys, trust file and checkpoints to use."""
    seen_help = "A checkpoint that you, or another reader, saw before."
    policy = "Your trust file: the logs and witnesses that you trust (C2SP tlog-policy)."
    for option in (
        click.option("--seen", multiple=True, type=FILE, help=seen_help),
        click.option("--policy", type=FILE, help=policy),
        click.option(
            "--key", "keys", multiple=True, help="A log's public key that you trust (a vkey)."
        ),
    ):
        command = option(command)
    return command


explained_option = click.option(
    "--explained",
    type=FILE,
    help="Your file of entries whose times you know to be wrong, because a clock was off.",
)


def read_explained(path: Path | None) -> "tuple[ExplainedTimes, ...]":
    """Return what a file of the reader explains.  Raises `click.UsageError`."""
    import msgspec

    from forum.verify import ExplainedTimes

    class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        clock: tuple[ExplainedTimes, ...]

    if path is None:
        return ()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=File).clock
    except msgspec.MsgspecError as error:
        form = "[[clock]] with log, first, last and reason"
        raise click.UsageError(f"{path} explains nothing: {error}. Write {form}.") from None


def read_trust(keys: tuple[str, ...], policy: Path | None, remembered: tuple[Path, ...]) -> "Trust":
    """Return the trust that the options describe. Raises `click.UsageError`."""
    from forum.verify import Trust

    try:
        named = tuple(VerifierKey.parse(key) for key in keys)
    except Malformed as error:
        raise click.UsageError(str(error)) from None
    return Trust(
        keys=named,
        policy=_read_trust_file(policy) if policy else None,
        remembered=tuple(path.read_bytes() for path in remembered),
    )


TRUST_FILE_HINT = "Whoever keeps the log writes one with: forum ledger policy > trust"


def _read_trust_file(path: Path) -> WitnessPolicy:
    try:
        return WitnessPolicy.parse(path.read_bytes())
    except Malformed as error:
        raise click.UsageError(f"{path} is no trust file: {error.why}. {TRUST_FILE_HINT}") from None
