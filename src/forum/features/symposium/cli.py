"""`forum deliberate export`, `validate`, `replay`, `execution-replay` and `metrics`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from forum.app import Forum
from forum.app.formatting import (
    first_line,
    pluralize,
    short_id,
    strip_control_characters,
)
from forum.errors import Malformed, NoSuchEntry, PinningViolation
from forum.features.symposium import session_folders
from forum.features.symposium.artifact import ARTIFACT, format_file
from forum.features.symposium.artifact_forms import ArtifactForm, FaultForm
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.decoders import read_artifact
from forum.features.symposium.kinds import ReplayPin
from forum.features.symposium.metrics import SymposiumMetrics, compute_metrics
from forum.features.symposium.replay import (
    ReplayConditions,
    SessionReplay,
    replay_transcript,
)
from forum.features.symposium.service import FoundSession, SymposiumOperations, read_journal
from forum.features.symposium.transcript import to_json_object
from forum.features.symposium.violations import Violation
from forum.runs.panel import Panel, Symposium
from forum.surfaces.cli import EXIT_FAILED, EXIT_MISMATCH, common_options
from forum.surfaces.cli.common_options import FILE
from forum.surfaces.cli.output import print_json, print_result
from forum.surfaces.cli.run_control import replay_and_compare
from forum.surfaces.schemas.panels import CouncilForm, deliberation_form

T = TypeVar("T")

METRICS = "metrics.json"
_BALLOTS = "the same, ballot by ballot"
_MAX_METRIC_ROWS = 12
"""Limit of rows in each table of a summary, so that it fits one screen."""


@common_options.command(
    examples=("forum deliberate export 0199c0de-1234-7abc --output sessions",),
)
@click.argument("run")
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the folder of the session is, or will be.",
)
@common_options.as_json
def export(run: str, output: Path, *, as_json: bool) -> None:
    """Write the files of a symposium that was held in a RUN into DIR/SESSION_ID.

    They are derived from the ledger, so they can be written again at any time, also during the
    session.  A folder that belongs to another run is not changed.  Exit status: 0 written, 2 usage.
    """
    with common_options.open_forum() as forum:
        run_id = forum.reads.find_run(run)
        panel = _read_panel(forum, run_id)
        if not isinstance(panel, Symposium):
            what = "symposium" if panel else "deliberation"
            raise click.UsageError(
                f"run {run_id} is no {what}; its evidence: forum ledger export {run_id}"
            )
        session = session_folders.check_session_id(panel.config)
        folder = output / session
        if not folder.exists():
            session_folders.create_session_folder(output, session)
        written = session_folders.write_session_folder(forum, run_id, folder)
    facts = {"run": run_id, "folder": str(folder), "files": written}
    print_result("forum.session/1", facts, str(folder), as_json=as_json)


def _read_panel(forum: Forum, run: str) -> Panel | None:
    try:
        return forum.reads.read_run_request(run).policy.panel
    except NoSuchEntry:  # the log's own run has no request
        return None


@common_options.command(
    examples=("forum deliberate validate sessions/demo-001/artifact.json",),
)
@click.argument("path")
@common_options.as_json
def validate(path: str, *, as_json: bool) -> None:
    """Check the artifact at a PATH: its form, its digests, and every invariant of the protocol.

    No ledger is needed.  Exit status: 0 valid, 1 not valid, 2 usage.
    """
    data = session_folders.find_artifact_file(path).read_bytes()
    faults = _fault_forms(check_artifact(data))
    form = ArtifactForm(_session_name(data), not faults, faults)
    text = "valid" if form.holds else _fault_lines(form)
    print_result("forum.artifact/1", form, text, as_json=as_json)
    raise SystemExit(0 if form.holds else EXIT_FAILED)


@common_options.command(
    examples=(
        "forum deliberate replay 0199c0de-1234-7abc",
        "forum deliberate replay sessions/demo-001",
    ),
)
@click.argument("what", metavar="RUN_OR_PATH")
@common_options.as_json
def replay(what: str, *, as_json: bool) -> None:
    """Compute the digest of a session's transcript again, and compare it with the recorded one.

    If its run is in this ledger, the artifact is built again from the record and must be the same,
    byte for byte.  A council is replayed from its recorded replies.

    Exit status: 0 the same, 1 no artifact, 2 usage, 4 a difference.
    """
    with common_options.open_forum() as forum:
        source = _find_session(what, forum)
        if isinstance(source, str):
            replay_and_compare(forum, source, _BALLOTS, as_json=as_json)
        recorded = SymposiumOperations(forum).files(source.run) if source.run else None
    replayed = replay_transcript(source.artifact, read_journal(recorded) if recorded else None)
    same = recorded is None or recorded.get(ARTIFACT) == source.artifact
    why = "" if same else "it is not what the ledger says"
    _print_replay(source, replayed, why, run=source.run, as_json=as_json)


@common_options.command(
    "execution-replay",
    examples=(
        "forum deliberate execution-replay 0199c0de-1234-7abc",
        "forum deliberate execution-replay sessions/demo-001 --script replies.json",
        "forum deliberate execution-replay sessions/demo-001 --output sessions",
    ),
)
@click.argument("what", metavar="RUN_OR_PATH")
@click.option("--script", type=FILE, help="The replies to its calls, if no ledger has them.")
@click.option("--selector-script", type=FILE, help="The replies to the choice of its panel.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the files of the session as it was executed now into DIR/SESSION_ID-replay.",
)
@common_options.as_json
def execution_replay(
    what: str,
    script: Path | None,
    selector_script: Path | None,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Execute a session again, and compare the result with the recorded one.

    No agent is called: every reply comes from the record of its run, or from the script of the
    session.  Ten pins must be held for that.  If one cannot be held, it is named, and nothing is
    executed.  The result says which pins were checked, because they are stated twice, and which
    were assumed.

    Exit status: 0 the same, 1 no artifact, 2 usage, 4 a difference, 7 a pin cannot be held.
    """
    with common_options.open_forum() as forum:
        source = _find_session(what, forum)
        if isinstance(source, str):
            if output is not None:
                raise click.UsageError("--output: only a symposium has files")
            replay_and_compare(forum, source, _BALLOTS, as_json=as_json)
        scripts = session_folders.load_scripts(script, selector_script) if script else (None, None)
        with _replay_folder(source, output) as folder:
            try:
                played = SymposiumOperations(forum).execute_again(source, *scripts)
            except PinningViolation as violation:
                _report_unheld_pin(source, violation, as_json=as_json)
            except Malformed as error:
                raise click.ClickException(f"{source.name}: {error}") from None
            if folder is not None:
                session_folders.write_session_files(folder, played.files)
                common_options.echo_info(f"kept in {folder}")
    # A script says nothing about the ledger.
    compared = None if script else source.run
    _print_replay(
        source, played.replayed, played.difference, played.conditions, run=compared, as_json=as_json
    )


@contextmanager
def _replay_folder(source: FoundSession, output: Path | None) -> Iterator[Path | None]:
    """Create the folder of a replay, if one is wanted; remove it if nothing is written."""
    if output is None:
        yield None
        return
    session = _read_or_usage_error(source, read_artifact).session_id
    named = session_folders.check_session_id({"session_id": session})
    folder = session_folders.create_session_folder(
        output, f"{named}{session_folders.REPLAY_SUFFIX}"
    )
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


@common_options.command(
    examples=(
        "forum deliberate metrics sessions/demo-001",
        "forum deliberate metrics 0199c0de-1234",
    ),
)
@click.argument("what", metavar="RUN_OR_PATH")
@common_options.as_json
def metrics(what: str, *, as_json: bool) -> None:
    """Print the figures of a session: tokens, costs, turns, failures, and how it ended.

    For an artifact, all of them are written into metrics.json beside it, and a summary is printed.
    For a council: the costs of baseline and outcome, the number of changed answers, and how many
    of them had no reason.
    """
    with common_options.open_forum() as forum:
        source = _find_session(what, forum)
        if isinstance(source, str):
            counted = _council_metrics(source, forum)
            print_result("forum.metrics/1", counted, _metric_lines(counted), as_json=as_json)
            return
    figures = _read_or_usage_error(source, compute_metrics)
    if source.folder is not None:
        session_folders.write_session_files(source.folder, {METRICS: format_file(figures)})
    lines = _summary_lines(figures)
    if source.folder is not None:
        lines.append(f"all figures: {source.folder / METRICS}")
    print_result("forum.metrics/1", to_json_object(figures), lines, as_json=as_json)


def _read_or_usage_error(source: FoundSession, read: Callable[[bytes], T]) -> T:
    try:
        return read(source.artifact)
    except Malformed as error:
        raise click.ClickException(f"{source.name}: {error}") from None


def _find_session(what: str, forum: Forum) -> FoundSession | str:
    """Return the session at a path or of a run; for a council, return its run id."""
    if Path(what).exists():
        return SymposiumOperations(forum).find_at(session_folders.find_artifact_file(what), what)
    run = forum.reads.find_run(what)
    view = forum.reads.view_run(run)
    form = deliberation_form(view)
    if (
        form is None
        and view.state.outcome is None
        and forum.reads.read_run_request(run).policy.panel
    ):
        raise click.UsageError(
            f"run {run} has not begun; see it through: forum resume {short_id(run)}"
        )
    if form is None:
        raise click.UsageError(f"run {run} is no deliberation; play it again: forum replay {run}")
    return run if isinstance(form, CouncilForm) else session_folders.find_session_of_run(run, forum)


def _session_name(data: bytes) -> str | None:
    try:
        return read_artifact(data).session_id
    except Malformed:
        return None


def _print_replay(
    source: FoundSession,
    replayed: SessionReplay,
    parted: str,
    conditions: ReplayConditions | None = None,
    run: str | None = None,
    *,
    as_json: bool,
) -> NoReturn:
    """Print the result of a replay and exit accordingly; `run` is what it was compared with."""
    holds = replayed.holds and not parted
    form = ArtifactForm(
        session=_session_name(source.artifact),
        holds=holds,
        faults=_fault_forms(replayed.faults),
        digest=replayed.digest,
        stored=replayed.stored,
        messages=replayed.messages,
        parted=replayed.parted or None,
        run=run,
        conditions_checked=conditions.checked if conditions else None,
        conditions_assumed=conditions.assumed if conditions else None,
    )
    print_result("forum.artifact/1", form, _describe_replay(form, parted), as_json=as_json)
    raise SystemExit(0 if holds else EXIT_MISMATCH)


def _describe_replay(form: ArtifactForm, parted: str) -> str:
    lines = [f"{pluralize(form.messages or 0, 'message')}, digest {form.digest}"]
    if form.digest != form.stored:
        lines.append(f"the artifact says {form.stored}")
    if form.parted:
        lines.append(
            f"the first message that is another one: {strip_control_characters(form.parted)}"
        )
    if parted:
        lines.append(parted)
    if form.faults:
        lines.append(_fault_lines(form))
    if form.conditions_checked is not None:
        lines.append(f"conditions checked: {', '.join(form.conditions_checked)}")
        lines.append(f"conditions assumed: {', '.join(form.conditions_assumed or ())}")
    beside = "as in the ledger, byte for byte" if form.run else "compared with no ledger"
    lines.append(f"the same; {beside}" if form.holds else "NOT the same")
    return "\n".join(lines)


def _fault_forms(faults: Iterable[Violation]) -> tuple[FaultForm, ...]:
    return tuple(FaultForm(fault.law, fault.where, fault.why) for fault in faults)


def _fault_lines(form: ArtifactForm) -> str:
    return "\n".join(
        f"{fault.law}: {strip_control_characters(fault.why)} "
        f"- at `{strip_control_characters(fault.where)}`"
        for fault in form.faults
    )


def _report_unheld_pin(
    source: FoundSession, violation: PinningViolation, *, as_json: bool
) -> NoReturn:
    """Report the pin that is not fixed, and exit without executing anything."""
    if as_json:
        pin = ReplayPin(violation.pin)
        form = ArtifactForm(_session_name(source.artifact), holds=False, faults=(), pin=pin)
        print_json("forum.artifact/1", form)
    common_options.echo_error(str(violation))
    raise SystemExit(violation.exit_code)


def _council_metrics(run: str, forum: Forum) -> dict[str, Any]:
    form = deliberation_form(forum.reads.view_run(run))
    assert isinstance(form, CouncilForm)  # noqa: S101  `_find_session` checked the type
    return {
        "run": run,
        "seats": form.seated,
        "ballots": sum(ballots.sealed for ballots in form.ballots),
        "rounds": form.rounds,
        "end": form.end,
        "ground": form.ground,
        "accord": form.accord,
        "baseline": msgspec.to_builtins(form.baseline),
        "spent": msgspec.to_builtins(form.spent),
        "changed": len(form.changes),
        "conformity": round(form.conformity, 3),
        "minority": sum(len(minority.seats) for minority in form.minority),
        "blockers": len(form.blockers),
    }


def _summary_lines(figures: SymposiumMetrics) -> list[str]:
    """Return the figures of a session on one screen."""
    tokens = figures.tokens_cumulative
    turns: Counter[str] = Counter()
    for row in figures.participation_per_round:
        turns[row.speaker] += row.count
    rounds = max((row.round for row in figures.participation_per_round), default=0)
    read_and_written = f"{tokens.prompt_tokens:,} read, {tokens.completion_tokens:,} written"
    estimated = ", estimated" if figures.usage_estimated else ""
    reason = f" ({figures.termination_reason})" if figures.termination_reason else ""
    lines = [
        f"session  {_clean(figures.session_id)}",
        f"ended    {figures.outcome_kind}{reason} in {pluralize(rounds, 'round')}",
        f"tokens   {tokens.total_tokens:,} ({read_and_written}){estimated}",
        f"cost     ${figures.cost_cumulative.cost_usd:.6f}",
        "",
        *_figure_rows(
            [("speaker", "turns", "tokens", "cost")]
            + [
                (name, f"{turns[name]}", f"{used.total_tokens:,}", _price(figures, name))
                for name, used in figures.tokens_per_agent.items()
            ]
        ),
        "",
    ]
    slowest = max(figures.latency_per_invocation, key=lambda row: row.latency_seconds, default=None)
    if slowest:
        lines.append(
            f"slowest  {_clean(slowest.speaker)}, {slowest.latency_seconds:.1f} s "
            f"({_clean(slowest.message_id)})"
        )
    failures = sum(figures.schema_failure_count_per_agent.values())
    left = ", ".join(_clean(row.agent_id) for row in figures.panel_contraction_count)
    lines.append(
        f"branches to depth {figures.branch_depth_max}, "
        f"at most {figures.deferred_queue_length_max} deferred; "
        f"{pluralize(failures, 'schema failure')}; left the panel: {first_line(left, 60) or '-'}"
    )
    lines.append(f"digest   {_clean(figures.transcript_digest)}")
    return lines


def _price(figures: SymposiumMetrics, name: str) -> str:
    return f"${figures.cost_per_agent[name].cost_usd:.6f}"


def _clean(text: str) -> str:
    return first_line(text, 72)


def _figure_rows(rows: list[tuple[str, str, str, str]]) -> list[str]:
    shown = [(first_line(name, 30), *rest) for name, *rest in rows[: _MAX_METRIC_ROWS + 1]]
    widths = [max(len(row[column]) for row in shown) for column in range(4)]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in shown
    ]
    more = len(rows) - len(shown)
    return lines + ([f"and {more} more"] if more else [])


def _metric_lines(counted: dict[str, Any], lead: str = "") -> list[str]:
    """Return metrics, one figure per line."""
    lines = []
    for key, value in counted.items():
        name = first_line(key, 100)
        if isinstance(value, dict):
            lines += _metric_lines(value, f"{lead}{name}.")
        elif isinstance(value, list | tuple):
            lines += [f"{lead}{name}  {_row(item)}" for item in value] or [f"{lead}{name}  -"]
        else:
            lines.append(
                f"{lead}{name}  {'-' if value is None else strip_control_characters(str(value))}"
            )
    return lines


def _row(value: object) -> str:
    words = ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)
    return first_line(words, 200)
