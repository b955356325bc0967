"""`forum gate`: list what waits for approval, and decide it."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from forum.app import Forum, now
from forum.errors import GateChanged
from forum.surfaces.cli import common_options, output
from forum.surfaces.cli.submit_options import as_usage_error
from forum.surfaces.cli.units import format_duration
from forum.surfaces.formatting import short_id, strip_control_characters
from forum.surfaces.schemas import gates
from forum.work.policy import Answer
from forum.work.run_fold import Gate

_MIN_DIGEST_DIGITS = 8

digest_option = click.option(
    "--digest", help="Decide only if the content still has this digest (8 digits or more)."
)


@click.group(cls=common_options.FullHelpGroup)
def gate() -> None:
    """List what waits for approval, and approve, edit or reject it.

    SUBJECT is `plan`, `task/NAME`, `use/NAME/N` for a tool call that [gates] in forum.toml
    requires approval for, or `effect/NAME/N` for an effect whose outcome is unknown: approve it
    if it happened.  A decision records the digest of the content that was approved or rejected.
    """


@gate.command("list", examples=("forum gate list",))
@common_options.as_json
def list_(*, as_json: bool) -> None:
    """List everything that waits for approval."""
    with common_options.open_forum() as forum:
        open_gates = forum.reads.waiting_gates()
        if as_json:
            located = forum.reads.locate_gates(open_gates)
            output.print_json("forum.gates/1", gates.gates_form(located))
            return
    rows = [("run", "subject", "digest", "unless decided")]
    at = now()
    for run, waiting in open_gates:
        left = f"{waiting.opened.default.value} in {format_duration(waiting.deadline - at)}"
        rows.append((short_id(run), waiting.opened.subject, waiting.digest[:16], left))
    for number, line in enumerate(output.format_table(rows) if open_gates else []):
        click.echo(click.style(line, dim=number == 0))
    hint = "look: forum gate show RUN SUBJECT" if open_gates else "nothing waits for approval"
    click.echo(hint, err=True)


@gate.command(examples=("forum gate show 0199c0de-1234-7abc plan",))
@click.argument("run")
@click.argument("subject")
@common_options.as_json
def show(run: str, subject: str, *, as_json: bool) -> None:
    """Print what waits at a gate of a RUN, unchanged, with the results that it depends on.

    Only the waiting content goes to standard output, so that it can be edited; the request, the
    earlier results and the digest go to standard error.
    """
    with common_options.open_forum() as forum:
        run_id, subject = forum.reads.find_run(run), _parse_subject(subject)
        waiting, shown = forum.reads.read_gate(run_id, subject)
        results, request = forum.reads.gate_results(run_id, subject), forum.reads.request_of(run_id)
        (located,) = forum.reads.locate_gates([(run_id, waiting)])
    if as_json:
        form = gates.explained_gate_form(located, shown, request, results)
        output.print_json("forum.gate/1", form)
        return
    _print_context(request, results)
    click.echo(click.style(f"waits at {subject}", bold=True), err=True)
    output.print_bytes(_readable(subject, shown))
    click.echo(f"digest {waiting.digest}", err=True)
    if waiting.decided is not None:
        click.echo(f"decided: {waiting.decided.answer} ({waiting.decided.by})", err=True)
        return
    for word in ("approve", "reject"):
        name = f"forum gate {word:<7} {short_id(run_id)} {subject}"
        click.echo(f"{name} --digest {waiting.digest[:16]}", err=True)


def _print_context(request: str | None, results: Sequence[tuple[str, bytes]]) -> None:
    """Print on stderr the request and the results that a decision depends on."""
    parts: list[tuple[str, str | bytes]] = [("request", request or "(erased)")]
    parts += [(f"result of {task}", result) for task, result in results]
    for title, content in parts:
        click.echo(click.style(strip_control_characters(title), bold=True), err=True)
        text, rest = "\n".join(output.clean_lines(content)), "forum show RUN --transcript"
        for line in output.wrap_text(text, output.terminal_width(), "  ", rest):
            click.echo(line, err=True)


def _readable(subject: str, shown: bytes) -> bytes:
    """Return the content of a gate; a plan is indented so that it can be read and edited."""
    return msgspec.json.format(shown, indent=2) + b"\n" if subject == "plan" else shown


@gate.command(examples=("forum gate approve 0199c0de-1234-7abc plan",))
@click.argument("run")
@click.argument("subject")
@digest_option
@common_options.as_json
def approve(run: str, subject: str, digest: str | None, *, as_json: bool) -> None:
    """Approve what waits at a gate of a RUN."""
    _decide(run, subject, Answer.APPROVE, digest, as_json=as_json)


@gate.command(examples=("forum gate reject 0199c0de-1234-7abc plan",))
@click.argument("run")
@click.argument("subject")
@digest_option
@common_options.as_json
def reject(run: str, subject: str, digest: str | None, *, as_json: bool) -> None:
    """Reject what waits at a gate of a RUN."""
    _decide(run, subject, Answer.REJECT, digest, as_json=as_json)


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
    click.echo(changed)
    output.print_publication(publication)
    click.echo(
        f"then: forum gate approve {short_id(run_id)} {subject} --digest {changed[:16]}",
        err=True,
    )


def _decide(run: str, subject: str, answer: Answer, digest: str | None, *, as_json: bool) -> None:
    with common_options.open_forum() as forum:
        run_id, subject = forum.reads.find_run(run), _parse_subject(subject)
        decided = _check_digest(forum, run_id, subject, digest)
        # The engine compares the digest again when it records the decision, so an edit in between
        # is not approved by accident.
        forum.runs.decide_gate(run_id, subject, answer, decided)
        publication = forum.log.publish_or_warn()
        outer = forum.reads.outer_run(run_id)
        interrupted = forum.reads.read_run(outer).interrupted
    if as_json:
        output.print_json("forum.decision/1", gates.DecisionForm(run_id, subject, answer, decided))
        return
    click.echo(f"{answer.value}  {run_id} {subject}  {decided[:16]}")
    output.print_publication(publication)
    state = "the run is interrupted" if interrupted else "a forum worker continues the run"
    click.echo(f"{state}; to continue it here: forum resume {short_id(outer)}", err=True)


def _parse_subject(typed: str) -> str:
    """Return the subject; `--gate` spells it task:NAME."""
    return typed.replace("task:", "task/", 1) if typed.startswith("task:") else typed


def _check_digest(forum: Forum, run: str, subject: str, digest: str | None) -> str:
    """Return the digest of the gate's content. Raises `GateChanged` if `digest` does not match.

    So a decision only applies to the content that the user saw.
    """
    if digest is not None and len(digest) < _MIN_DIGEST_DIGITS:
        raise click.UsageError(f"--digest: give at least {_MIN_DIGEST_DIGITS} digits")
    shown: Gate = forum.reads.read_gate(run, subject)[0]
    if digest is not None and not shown.digest.startswith(digest.lower()):
        raise GateChanged(run, subject, shown.digest)
    return shown.digest
