"""`forum gate`: list what waits for approval, and decide it."""

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from forum.app import ExplainedGate, Forum, now
from forum.app.formatting import short_id, strip_control_characters
from forum.errors import GateChanged
from forum.runs.policy import Answer
from forum.runs.report_kinds import Provenance
from forum.runs.run_fold import Gate
from forum.surfaces.cli import common_options, output
from forum.surfaces.cli.console import echo, prompt, style
from forum.surfaces.cli.run_view import format_amount
from forum.surfaces.cli.submit_options import as_usage_error
from forum.surfaces.gate_effects import describe_asker, describe_gate_effects
from forum.surfaces.schemas import gates
from forum.units import format_duration

_MIN_DIGEST_DIGITS = 8

_MAX_LISTED = 5
_PAST = {Answer.APPROVE: "approved", Answer.REJECT: "rejected"}


def gate_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments that name a gate; without them, the only one that waits is meant."""
    subject = click.argument("subject", required=False)
    return click.argument("run", required=False)(subject(command))


reason_option = click.option(
    "--reason", default="", help="Why; recorded with the decision, in a body that can be erased."
)
digest_option = click.option(
    "--digest", help="Decide only if the content still has this digest (8 digits or more)."
)


@click.group(cls=common_options.FullHelpGroup)
def gate() -> None:
    """List what waits for approval, and approve, edit or reject it.

    SUBJECT is `plan`, `task/NAME`, `use/NAME/N` for a tool call that [gates] in forum.toml
    requires approval for, `effect/NAME/N` for an effect whose outcome is unknown (approve it if it
    happened), or `dissent/NAME` for the answer of a panel that is split or blocked.
    A decision records the digest of the content that was approved or rejected.
    """


@gate.command("list", examples=("forum gate list",))
@common_options.as_json
def list_(*, as_json: bool) -> None:
    """List everything that waits for approval."""
    with common_options.open_forum() as forum:
        located = forum.reads.locate_gates(forum.reads.waiting_gates())
        if as_json:
            output.print_json("forum.gates/1", gates.gates_form(located))
            return
    rows = [("run", "subject", "digest", "unless decided", "asked by")]
    at = now()
    for waits in located:
        gate, origin = waits.gate, waits.origin
        left = f"{gate.opened.default.value} in {format_duration(gate.deadline - at)}"
        asker = f"{origin.asked_by} ({origin.provenance})"
        rows.append((short_id(waits.run), gate.opened.subject, gate.digest[:16], left, asker))
    for number, line in enumerate(output.format_table(rows) if located else []):
        echo(style(line, dim=number == 0))
    hint = "look: forum gate show" if located else "nothing waits for approval"
    echo(hint, err=True)


@gate.command(examples=("forum gate show", "forum gate show 0199c0de-1234-7abc plan"))
@gate_arguments
@common_options.as_json
def show(run: str | None, subject: str | None, *, as_json: bool) -> None:
    """Print what waits at a gate of a RUN, unchanged, with everything that a decision is about.

    Without a SUBJECT, the only gate of the RUN that waits; without a RUN, the only one of all.
    Only the waiting content goes to standard output, so that it can be edited; the request, the
    earlier results, the cost, what an answer leads to and the digest go to standard error.
    """
    with common_options.open_forum() as forum:
        question = forum.reads.explain_gate(*_choose_gate(forum, run, subject))
    if as_json:
        output.print_json("forum.gate/1", gates.shown_gate_form(question))
        return
    located = question.located
    name, decided = located.gate.opened.subject, located.gate.decided
    _print_texts(_context_of(question))
    waits = "waits" if decided is None else "waited"
    echo(style(f"{waits} at {name}", bold=True), err=True)
    if sys.stdout.isatty():
        _print_content(question)
    else:
        output.print_bytes(_readable(question))
    if decided is None:
        _print_facts(question)
    echo(f"digest {located.gate.digest}", err=True)
    if decided is not None:
        echo(f"decided: {decided.answer} ({decided.by})", err=True)
        _print_texts([("reason", question.reason)] if question.reason else [])
        return
    for word in ("approve", "reject"):
        command = f"forum gate {word:<7} {short_id(located.run)} {name}"
        echo(f"{command} --digest {located.gate.digest[:16]}", err=True)


def _context_of(question: ExplainedGate) -> list[tuple[str, str | bytes]]:
    """Return the request and the results so far, each with its title."""
    parts: list[tuple[str, str | bytes]] = []
    # A run that Forum does not drive has no request.
    if question.located.origin.provenance is Provenance.DRIVEN:
        parts = [("request", question.request or "(erased)")]
    return parts + [(f"result of {task}", result) for task, result in question.results]


def _print_texts(parts: Iterable[tuple[str, str | bytes]]) -> None:
    """Print texts of agents and users on stderr, each under a title.

    A line of such a text is indented and has no control characters, so it cannot look like a line
    of this command.
    """
    for title, content in parts:
        echo(style(strip_control_characters(title), bold=True), err=True)
        text, rest = "\n".join(output.clean_lines(content)), "forum show RUN --transcript"
        for line in output.wrap_text(text, output.terminal_width(), "  ", rest):
            echo(line, err=True)


def _print_content(question: ExplainedGate, *, err: bool = False) -> None:
    """Print the waiting content for a person: whole, because nobody decides about what was cut.

    Each line is indented and has no control characters, so it cannot look like a line of this
    command.
    """
    for line in output.clean_lines(_readable(question)):
        for part in output.wrap_lines(line, output.terminal_width(), "  ") or [""]:
            echo(part, err=err)


def _print_facts(question: ExplainedGate) -> None:
    """Print on stderr what each answer leads to, the cost so far, and the deadline."""
    gate, effects = question.located.gate, describe_gate_effects(question)
    origin = question.located.origin
    facts = [("asked by", describe_asker(origin.provenance, origin.asked_by))]
    facts += [("if approved", effects.if_approved), ("if rejected", effects.if_rejected)]
    facts.append(("cost so far", format_amount(question.spent, question.cap)))
    left = format_duration(gate.deadline - now())
    facts.append(("no decision", f"{_PAST[gate.opened.default]} automatically in {left}"))
    for title, text in facts:
        first, *more = output.wrap_lines(text, output.terminal_width(), " " * 13) or [""]
        echo(f"{style(f'{title:<11}', bold=True)}  {first.strip()}", err=True)
        for line in more:
            echo(line, err=True)


def _readable(question: ExplainedGate) -> bytes:
    """Return the content of a gate; a plan is indented so that it can be read and edited."""
    if question.located.gate.opened.subject == "plan":
        # A program that reports a gate can call anything a plan.
        with suppress(msgspec.MsgspecError):
            return msgspec.json.format(question.shown, indent=2) + b"\n"
    return question.shown


@gate.command(
    examples=(
        "forum gate approve",
        'forum gate approve 0199c0de-1234-7abc plan --reason "Checked the figures."',
    )
)
@gate_arguments
@digest_option
@reason_option
@common_options.as_json
def approve(
    run: str | None, subject: str | None, digest: str | None, reason: str, *, as_json: bool
) -> None:
    """Approve what waits at a gate of a RUN.

    Without RUN and SUBJECT, at a terminal: show the only gate that waits, and ask.
    """
    _decide(run, subject, Answer.APPROVE, digest, reason=reason, as_json=as_json)


@gate.command(
    examples=(
        "forum gate reject",
        'forum gate reject 0199c0de-1234-7abc plan --reason "Too expensive."',
    )
)
@gate_arguments
@digest_option
@reason_option
@common_options.as_json
def reject(
    run: str | None, subject: str | None, digest: str | None, reason: str, *, as_json: bool
) -> None:
    """Reject what waits at a gate of a RUN.

    Without RUN and SUBJECT, at a terminal: show the only gate that waits, and ask.
    """
    _decide(run, subject, Answer.REJECT, digest, reason=reason, as_json=as_json)


@gate.command(
    examples=(
        "forum gate show 0199c0de-1234-7abc plan > plan.json",
        "forum gate edit 0199c0de-1234-7abc plan --file plan.json",
    ),
)
@click.argument("run")
@click.argument("subject")
@click.option("--file", required=True, type=common_options.FILE, help="The new content.")
@digest_option
@common_options.as_json
def edit(run: str, subject: str, file: Path, digest: str | None, *, as_json: bool) -> None:
    """Replace what waits at a gate of a RUN, and print its new digest.  The gate stays open."""
    with common_options.open_forum() as forum:
        run_id, subject = forum.reads.find_run(run), _parse_subject(subject)
        shown, before = file.read_bytes(), _check_digest(forum, run_id, subject, digest)
        changed = as_usage_error(lambda: forum.runs.edit_gate(run_id, subject, before, shown))
        publication = forum.log.publish_or_warn()
    if as_json:
        output.print_json("forum.gate.edit/1", gates.GateEditForm(run_id, subject, changed))
        return
    echo(changed)
    output.print_publication(publication)
    echo(
        f"then: forum gate approve {short_id(run_id)} {subject} --digest {changed[:16]}",
        err=True,
    )


def _decide(
    run: str | None,
    subject: str | None,
    answer: Answer,
    digest: str | None,
    reason: str,
    *,
    as_json: bool,
) -> None:
    if len(reason) > gates.MAX_REASON_CHARS:
        raise click.UsageError(f"--reason: at most {gates.MAX_REASON_CHARS:,} characters")
    with common_options.open_forum() as forum:
        run_id, name = _choose_gate(forum, run, subject)
        if run is None or subject is None:
            decided, reason = _ask(forum, (run_id, name), answer, digest, reason=reason)
        else:
            decided = _check_digest(forum, run_id, name, digest)
        # The engine compares the digest again when it records the decision, so an edit after the
        # content was shown is not approved by accident.
        forum.runs.decide_gate(run_id, name, answer, decided, reason=reason)
        publication = forum.log.publish_or_warn()
        outer = forum.reads.outer_run(run_id)
        interrupted = forum.reads.read_run(outer).interrupted
    if as_json:
        output.print_json("forum.decision/1", gates.DecisionForm(run_id, name, answer, decided))
        return
    echo(f"{answer.value}  {run_id} {name}  {decided[:16]}")
    output.print_publication(publication)
    state = "is interrupted" if interrupted else "continues where forum worker or forum up runs"
    echo(f"the run {state}; to continue it here: forum resume {short_id(outer)}", err=True)


def _ask(
    forum: Forum, gate: tuple[str, str], answer: Answer, digest: str | None, reason: str
) -> tuple[str, str]:
    """Show what waits at a gate and ask for the decision; return its digest and the reason.

    Raises `UsageError` without a terminal: nobody has seen what would be decided, so the gate must
    be named.
    """
    run, subject = gate
    if not common_options.can_ask():
        raise click.UsageError(
            "there is no terminal to ask at; name the run and the gate, as in: "
            f"forum gate {answer.value} {short_id(run)} {subject} --digest DIGEST "
            f"(look first: forum gate show {short_id(run)} {subject})"
        )
    question = forum.reads.explain_gate(run, subject)
    shown = question.located.gate
    if digest is not None:
        _check_digest(forum, run, subject, digest)
    _print_texts(_context_of(question))
    echo(style(f"waits at {subject} of run {short_id(run)}", bold=True), err=True)
    _print_content(question, err=True)
    _print_facts(question)
    common_options.confirm_or_exit(
        f"{answer.value.capitalize()} {subject}?", "nothing was decided; the gate still waits"
    )
    reason = reason or prompt("Reason (Enter for none)", default="", show_default=False, err=True)
    return shown.digest, reason[: gates.MAX_REASON_CHARS]


def _choose_gate(forum: Forum, run: str | None, subject: str | None) -> tuple[str, str]:
    """Return the run and the subject of the gate that is named, or of the only one that waits."""
    run_id = forum.reads.find_run(run) if run is not None else None
    if run_id is not None and subject is not None:
        return run_id, _parse_subject(subject)
    waiting = [
        (waiting_run, gate.opened.subject)
        for waiting_run, gate in forum.reads.waiting_gates()
        if run_id is None or run_id in (waiting_run, forum.reads.outer_run(waiting_run))
    ]
    if not waiting:
        raise click.UsageError("nothing waits for approval" + (f" in run {run}" if run else ""))
    if len(waiting) > 1:
        raise click.UsageError(
            f"{len(waiting)} gates wait; name the run and the gate: "
            + ", ".join(
                f"{short_id(waiting_run)} {name}" for waiting_run, name in waiting[:_MAX_LISTED]
            )
        )
    return waiting[0]


def _parse_subject(typed: str) -> str:
    """Return the subject; `--gate` spells it task:NAME."""
    return typed.replace("task:", "task/", 1) if typed.startswith("task:") else typed


def _check_digest(forum: Forum, run: str, subject: str, digest: str | None) -> str:
    """Return the digest of the gate's content. Raises `GateChanged` if `digest` does not match.

    So a decision only applies to the content that the user saw.  Without a digest, that is the
    content that the gate was opened with, as `forum submit` and `forum gate list` told it.
    """
    if digest is not None and len(digest) < _MIN_DIGEST_DIGITS:
        raise click.UsageError(f"--digest: give at least {_MIN_DIGEST_DIGITS} digits")
    shown: Gate = forum.reads.read_gate(run, subject)[0]
    if digest is None and shown.is_edited and shown.decided is None:
        raise GateChanged(run, subject, shown.digest)
    if digest is not None and not shown.digest.startswith(digest.lower()):
        raise GateChanged(run, subject, shown.digest)
    return shown.digest
