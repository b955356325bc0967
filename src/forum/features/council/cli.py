"""`forum deliberate`: put a question to a panel, and print its answer."""

import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import click
import msgspec

from forum.app import Forum
from forum.app.formatting import short_id
from forum.engine import AnswerReference, RunRequest
from forum.errors import ForumError
from forum.runs.panel import MAX_ROUNDS, MAX_SEATS, Council, Protocol, Symposium
from forum.runs.plan import RunBudget
from forum.runs.policy import Policy
from forum.surfaces import requests
from forum.surfaces.cli import common_options, submit_options
from forum.surfaces.cli.common_options import FILE
from forum.surfaces.cli.os_errors import explain_os_error
from forum.surfaces.cli.run_follower import run_and_follow
from forum.surfaces.cli.session_files import load_session_files

_ASK = "ask"
_WORD = re.compile(r"[a-z]{3,20}(-[a-z]+)?").fullmatch
# No exponents: `Fraction` would expand 1e999999999 to all its digits.
_SHARE = re.compile(r"[0-9./]{1,40}").fullmatch
_SAVE_ERRORS = (OSError, ForumError, click.ClickException)
"""Errors that can occur while the folder of a session is written."""
_COUNCIL_ONLY_OPTIONS = ("option", "baseline", "threshold", "judge", "check")


class DefaultAskGroup(common_options.FullHelpGroup):
    """A group in which arguments that do not start with a command are a question."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the command `ask` if the arguments do not start with a command."""
        if args and args[0] not in (*self.list_commands(ctx), *ctx.help_option_names):
            # Asking costs money, so a single word that looks like a command needs an explicit
            # `ask`.
            if _WORD(args[0]) and not Path(args[0]).exists():
                why = f"no such command: {args[0]}; to ask it: forum deliberate ask {args[0]}"
                raise click.UsageError(why, ctx)
            args = [_ASK, *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultAskGroup)
def deliberate() -> None:
    """Put a question to a panel, and print its answer and dissent.

    `forum deliberate "QUESTION"` asks; its options: `forum deliberate ask --help`.  The other
    commands read recorded sessions: a run of this ledger, an artifact of the open protocol
    symposium, or the folder of an artifact.
    """


@dataclass(frozen=True, slots=True)
class PanelOptions:
    """Options for the seats and the rules of a council."""

    seats: str | None
    models: str | None
    option: tuple[str, ...]
    rounds: int | None
    baseline: int | None
    threshold: float | None
    judge: str | None
    check: str | None
    about: str | None

    def to_panel_ask(self, protocol: Protocol) -> requests.PanelAsk:
        """Return the options as the request form that all surfaces share."""
        number, personas = _parse_seats(self.seats)
        rules = {name: getattr(self, name) for name in ("rounds", "baseline", "threshold", "judge")}
        chosen: dict[str, Any] = {name: rule for name, rule in rules.items() if rule is not None}
        return requests.PanelAsk(
            protocol=protocol,
            seats=number,
            models=_split_names(self.models),
            personas=personas,
            options=self.option,
            **chosen,
        )

    def build_council(self) -> Council:
        """Return the council that the options describe. Raises `click.UsageError`."""
        if len(self.option) == 1:
            raise click.UsageError("--option: name at least two, or there is nothing to choose")
        council = submit_options.as_usage_error(
            lambda: requests.council_from_form(self.to_panel_ask(Protocol.COUNCIL))
        )
        return msgspec.structs.replace(council, check=self.check or "")


def reject_set_options(options: object, names: Collection[str], why: str) -> None:
    """Raise `click.UsageError` if one of these options is set."""
    for name in names:
        if getattr(options, name) not in (None, ()):
            raise click.UsageError(f"--{name.replace('_', '-')}: {why}")


def _split_names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


def _parse_seats(wished: str | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the number of seats and their personas."""
    if wished is None:
        return None, ()
    if not wished.isdecimal():
        personas = _split_names(wished)
        if not personas:
            raise click.UsageError("--seats: say how many, or who they are told to be")
        return len(personas), personas
    if not 1 <= int(wished) <= MAX_SEATS:
        raise click.UsageError(f"--seats {wished}: from 1 to {MAX_SEATS} can deliberate")
    return int(wished), ()


def _share(value: str) -> float:
    """Parse a share such as 0.6, or 2/3, which is less than 0.67."""
    try:
        share = Fraction(value if _SHARE(value) else "")
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"{value!r} is no share; write 0.6 or 2/3") from None
    if not Fraction(1, 1000) <= share <= 1:
        raise click.BadParameter(f"{value} is not between 0.001 and 1")
    return float(share)


panel_options = common_options.collect_options(
    "panel_options",
    PanelOptions,
    click.option(
        "--seats",
        metavar="N|NAMES",
        help="Number of seats (5), or their personas: logician,critic,...",
    ),
    click.option(
        "--models", metavar="NAMES", help="Agents of forum.toml for the seats, in turn (all)."
    ),
    click.option(
        "--option",
        multiple=True,
        metavar="ANSWER",
        help="A possible answer; without any, answers are free text.",
    ),
    click.option(
        "--rounds",
        type=click.IntRange(0, MAX_ROUNDS),
        metavar="N",
        help="Maximum number of exchanges of ballots (2).",
    ),
    click.option(
        "--baseline",
        type=click.IntRange(0, MAX_SEATS),
        metavar="K",
        help="Number of seats that answer first; if they agree, no others are asked (3).  0: none.",
    ),
    click.option(
        "--threshold",
        type=_share,
        metavar="SHARE",
        help="Share of these seats that must agree: 1, 0.6, 2/3 (1).",
    ),
    click.option(
        "--judge", metavar="AGENT", help="Agent that compares free answers without a majority."
    ),
    click.option("--check", metavar="TOOL", help="Tool that checks whether an answer is right."),
    click.option(
        "--about",
        metavar="RUN",
        help="Deliberate on the answer of RUN; the QUESTION is about it, and may be left out.",
    ),
)


@dataclass(frozen=True, slots=True)
class SymposiumFileOptions:
    """Options for the files of a session of the open protocol."""

    protocol: str | None
    config: Path | None
    selector_script: Path | None
    output: Path | None


symposium_file_options = common_options.collect_options(
    "files",
    SymposiumFileOptions,
    click.option(
        "--protocol",
        type=click.Choice([protocol.value for protocol in Protocol]),
        help="The rules: of a council, or of the open protocol symposium.",
    ),
    click.option("--config", type=FILE, help="The config of a symposium: YAML or JSON."),
    click.option(
        "--selector-script",
        type=FILE,
        help="With --script: the replies to the choice of a symposium's panel.",
    ),
    click.option(
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Write a symposium's artifact and journal into DIR/SESSION_ID.",
    ),
)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Whether to wait for the run, and how to print it."""

    detach: bool
    as_json: bool


output_options = common_options.collect_options(
    "how",
    OutputOptions,
    click.option(
        "--detach", is_flag=True, help="Do not wait; a `forum worker` carries out the run."
    ),
    common_options.as_json,
)


@deliberate.command(
    name=_ASK,
    examples=(
        'forum deliberate "Is the migration safe?" --option yes --option no --max-usd 0.50',
        'forum deliberate "Which queue?" --seats logician,critic,engineer --models fast,strong',
        'git diff | forum deliberate - --seats 3 --cmd "./review --ballot"',
        "forum deliberate --about 0199c0de-1234-7abc --option sound --option unsound",
        "forum deliberate --config symposium.yaml --output sessions @problem.md",
        "forum deliberate --config symposium.yaml --script replies.json --output sessions",
    ),
)
@click.argument("question", required=False)
@panel_options
@symposium_file_options
@submit_options.limit_options
@submit_options.agent_options
@output_options
@common_options.confine
def ask(
    question: str | None,
    *,
    panel_options: PanelOptions,
    files: SymposiumFileOptions,
    agents: submit_options.AgentOptions,
    limits: submit_options.LimitOptions,
    how: OutputOptions,
) -> None:
    """Have a panel answer a QUESTION.  `-` reads it from standard input, `@FILE` from a file.

    In a council every seat seals its ballot before any is shown.  Then the ballots are exchanged
    without names, and code counts the votes; a change of answer without a reason does not count.
    The answer goes to standard output; how sure it is, and who disagrees, to standard error.

    With --config, or --protocol symposium, a session of that open protocol is held.  The QUESTION
    takes the place of its problem_statement, and may be the path of a file; each model of the
    config is an agent of forum.toml with that name or that model.  With --script the session is
    played without any model, as the script says.

    With --about the panel deliberates on the answer of a run that has ended.  It is shown that
    answer and the request.  The session records which run and entry it is about, with the
    commitments to both texts, so that a verifier sees that they are those of that run.

    Exit status: 0 answered; 1 failed, or a symposium ended without an answer (the reason and what
    its panel asks are told); 2 usage; 5 budget or time used up; 8 a council is split: no answer
    has a majority of the seats; 9 a council is blocked by an objection.
    """
    if panel_options.models is not None and not _split_names(panel_options.models):
        raise click.UsageError("--models: name agents of forum.toml; without it all are asked")
    if files.config and files.protocol == Protocol.COUNCIL:
        raise click.UsageError("--config: it is that of a symposium; leave out --protocol council")
    if not files.config and files.protocol != Protocol.SYMPOSIUM:
        reject_set_options(
            files, ("selector_script", "output"), "only of a symposium; add --protocol symposium"
        )
        council, subject = panel_options.build_council(), _read_subject(panel_options.about)
        request = submit_options.panel_run_request(
            _ask_about(subject, question, lambda: _read_question(question)),
            council,
            agents,
            limits,
            settings=common_options.current_settings(),
        )
        _run_session(replace(request, about=subject), None, how)
        return
    reject_set_options(panel_options, _COUNCIL_ONLY_OPTIONS, "only a council counts ballots")
    if files.output and how.detach:
        raise click.UsageError(
            "--output: nobody would write it; when the session has ended: "
            "forum deliberate export RUN --output DIR"
        )
    subject = _read_subject(panel_options.about)
    request = _symposium_run_request(
        question, panel_options, files, agents, limits=limits, subject=subject
    )
    request = replace(request, about=subject)
    with _reserved_folder(files.output, request.policy) as folder:
        _run_session(request, folder, how)


@contextmanager
def _reserved_folder(output: Path | None, policy: Policy) -> Iterator[Path | None]:
    """Create the folder of a session, if one is wanted."""
    if output is None:
        yield None
        return
    submit_options.reject_unusable_agents(policy, None, here=True)
    assert isinstance(policy.panel, Symposium)  # noqa: S101  the caller made it for one
    # After the checks, so that a usage error leaves no folder behind.
    folder = load_session_files().create_folder(output, policy.panel)
    try:
        yield folder
    finally:
        # Empty: the session never started. The folder would block the next attempt.
        with suppress(OSError):
            folder.rmdir()


def _symposium_run_request(
    question: str | None,
    panel_options: PanelOptions,
    files: SymposiumFileOptions,
    agents: submit_options.AgentOptions,
    limits: submit_options.LimitOptions,
    subject: AnswerReference | None,
) -> RunRequest:
    if files.selector_script and not (files.config and agents.script):
        raise click.UsageError("--selector-script: only with --config and --script")
    if files.config is None:
        problem = _ask_about(subject, question, lambda: _read_question(question, paths=True))
        ask = panel_options.to_panel_ask(Protocol.SYMPOSIUM)
        budget = limits.apply_limits(RunBudget())
        panel = submit_options.as_usage_error(
            lambda: requests.symposium_from_form(ask, problem, budget)
        )
    else:
        reject_set_options(
            panel_options, ("seats", "models", "rounds"), "the config of a symposium says that"
        )
        panel = load_session_files().read_panel(files.config)
        problem = panel.config["problem_statement"]
        if question is not None or subject is not None:
            problem = _ask_about(subject, question, lambda: _read_question(question, paths=True))
    played = None
    if agents.script is not None:
        panel, played = load_session_files().play_scripts(
            panel, problem, agents.script, files.selector_script
        )
        # The script is in the format of the protocol, and `played` has it: it must not be read as a
        # default agent, too.
        agents = replace(agents, script=None)
    return submit_options.panel_run_request(
        problem, panel, agents, limits, settings=common_options.current_settings(), played=played
    )


def _read_subject(about: str | None) -> AnswerReference | None:
    """Return the answer that the panel deliberates on, if one is named."""
    if about is None:
        return None
    with common_options.open_forum() as forum:
        return forum.reads.read_answer_reference(about)


def _ask_about(
    subject: AnswerReference | None, question: str | None, read: Callable[[], str]
) -> str:
    """Return the request of a session; only one about an answer needs no question."""
    if subject is None:
        return read()
    return subject.compose_question("" if question is None else read())


def _read_question(question: str | None, *, paths: bool = False) -> str:
    """Return the text of a question from the argument, a file or standard input."""
    if question is None:
        raise click.UsageError("say what the question is: QUESTION, @FILE, or - for standard input")
    if question == "-":
        return submit_options.as_usage_error(
            lambda: common_options.read_text(sys.stdin.buffer)
        ).data.decode()
    named = Path(question.removeprefix("@"))
    if not question.startswith("@") and not (paths and _is_file(named)):
        return question
    try:
        return named.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{question}: {error}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a path: it is a text
        return False


def _run_session(request: RunRequest, folder: Path | None, how: OutputOptions) -> None:
    submit_options.reject_unusable_agents(request.policy, None, here=not how.detach)
    with common_options.open_forum() as forum:
        forum.keys.initialise()

        def begin() -> str:
            run = submit_options.as_usage_error(lambda: forum.runs.submit(request))
            if folder is not None:
                _save_at_start(forum, run, folder)
            return run

        run_and_follow(
            forum,
            begin,
            as_json=how.as_json,
            detach=how.detach,
            after=partial(_save_at_end, forum, folder=folder),
            later=partial(_export_hint, folder=folder),
        )


def _save_at_start(forum: Forum, run: str, folder: Path) -> None:
    """Write the folder before any call is paid for, so that an unwritable folder costs nothing."""
    try:
        load_session_files().write_folder(forum, run, folder)
    except _SAVE_ERRORS as error:
        advice = f"nobody was asked yet; go on with: forum resume {short_id(run)}; then: "
        raise click.ClickException(_describe_save_error(error, run, advice)) from None


def _save_at_end(forum: Forum, run: str, folder: Path | None) -> str:
    """Write the folder of a finished session; return an error instead of losing the answer."""
    if folder is None:
        return ""
    try:
        load_session_files().write_folder(forum, run, folder)
    except _SAVE_ERRORS as error:
        return _describe_save_error(error, run, "try again: ")
    common_options.echo_info(f"kept in {folder}")
    return ""


def _export_hint(run: str, folder: Path | None) -> str:
    """Return a hint how to write the folder of a session that continues elsewhere."""
    if folder is None:
        return ""
    output = quote(str(folder.parent))
    return f"; then: forum deliberate export {short_id(run)} --output {output}"


def _describe_save_error(error: Exception, run: str, advice: str) -> str:
    """Return why a session was not saved, and how to save it later."""
    why = str(error)
    if isinstance(error, click.ClickException):
        why = error.message
    elif isinstance(error, OSError):
        why = explain_os_error(error)
    return f"not kept: {why}; {advice}forum deliberate export {short_id(run)} --output DIR"
