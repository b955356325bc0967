"""`forum deliberate validate`, `replay`, `execution-replay` and `metrics`: check sessions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from forum.app import Forum
from forum.deliberation.steps import Session
from forum.deliberation.symposium.artifact import ARTIFACT
from forum.deliberation.symposium.decoders import read_artifact
from forum.deliberation.symposium.invariants import check_artifact
from forum.deliberation.symposium.kinds import ReplayPin
from forum.deliberation.symposium.metrics import compute_metrics
from forum.deliberation.symposium.replay import (
    SessionReplay,
    compute_pins,
    find_unheld_pin,
    replay_execution,
    replay_transcript,
)
from forum.deliberation.symposium.transcript import to_json_object
from forum.deliberation.symposium.violations import Violation
from forum.errors import Malformed, ReplayMiss
from forum.surfaces.cli import EXIT_FAILED, EXIT_MISMATCH, common_options, session_folders
from forum.surfaces.cli.common_options import FILE
from forum.surfaces.cli.output import print_json, print_result
from forum.surfaces.cli.run_control import replay_and_compare
from forum.surfaces.formatting import (
    first_line,
    pluralize,
    short_id,
    strip_control_characters,
)
from forum.surfaces.schemas.council import CouncilForm
from forum.surfaces.schemas.deliberations import deliberation_form
from forum.surfaces.schemas.symposium import ArtifactForm, FaultForm
from forum.work.panel import Symposium
from forum.work.policy import Policy

T = TypeVar("T")

EXIT_UNHELD_PIN = 7
"""Exit status for a session that cannot be executed again because a pin is not fixed."""

_BALLOTS = "the same, ballot by ballot"
_ADVICE = {
    ReplayPin.RUNTIME: (
        "carry it out again with what has written it; its manifest.json says what that is"
    ),
    ReplayPin.ADAPTER: (
        "say what its calls were answered: --script FILE; or ask where its ledger is"
    ),
    ReplayPin.TRANSCRIPT_PREFIX: (
        "something of its record was erased, or its problem is another one"
    ),
}


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
        recorded = session_folders.session_files(forum, source.run) if source.run else None
    replayed = replay_transcript(
        source.artifact, session_folders.read_journal(recorded) if recorded else None
    )
    same = recorded is None or recorded.get(ARTIFACT) == source.artifact
    _print_replay(
        source, replayed, "" if same else "it is not what the ledger says", as_json=as_json
    )


@common_options.command(
    "execution-replay",
    examples=(
        "forum deliberate execution-replay 0199c0de-1234-7abc",
        "forum deliberate execution-replay sessions/demo-001 --script replies.json",
    ),
)
@click.argument("what", metavar="RUN_OR_PATH")
@click.option("--script", type=FILE, help="The replies to its calls, if no ledger has them.")
@click.option("--selector-script", type=FILE, help="The replies to the choice of its panel.")
@common_options.as_json
def execution_replay(
    what: str, script: Path | None, selector_script: Path | None, *, as_json: bool
) -> None:
    """Execute a session again, and compare the result with the recorded one.

    No agent is called: every reply comes from the record of its run, or from the script of the
    session.  Ten pins must be held for that.  If one cannot be held, it is named, and nothing is
    executed.

    Exit status: 0 the same, 1 no artifact, 2 usage, 4 a difference, 7 a pin cannot be held.
    """
    with common_options.open_forum() as forum:
        source = _find_session(what, forum)
        if isinstance(source, str):
            replay_and_compare(forum, source, _BALLOTS, as_json=as_json)
        if script is not None:
            _replay_script(source, script, selector_script, as_json=as_json)
        elif source.run is not None:
            _replay_record(source, source.run, forum, as_json=as_json)
        else:
            _read_or_usage_error(source, read_artifact)
            same_runtime = source.runtime == session_folders.RUNTIME
            _report_unheld_pin(
                source, ReplayPin.ADAPTER if same_runtime else ReplayPin.RUNTIME, as_json=as_json
            )


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

    For a council: the costs of baseline and outcome, the number of changed answers, and how many
    of them had no reason.
    """
    with common_options.open_forum() as forum:
        source = _find_session(what, forum)
        if isinstance(source, str):
            counted = _council_metrics(source, forum)
        else:
            counted = to_json_object(_read_or_usage_error(source, compute_metrics))
    print_result("forum.metrics/1", counted, _metric_lines(counted), as_json=as_json)


def _read_or_usage_error(source: session_folders.FoundSession, read: Callable[[bytes], T]) -> T:
    try:
        return read(source.artifact)
    except Malformed as error:
        raise click.ClickException(f"{source.name}: {error}") from None


def _find_session(what: str, forum: Forum) -> session_folders.FoundSession | str:
    """Return the session at a path or of a run; for a council, return its run id."""
    if Path(what).exists():
        return session_folders.find_session_at_path(what, forum)
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
    source: session_folders.FoundSession, replayed: SessionReplay, parted: str, *, as_json: bool
) -> NoReturn:
    """Print the result of a replay and exit accordingly."""
    holds = replayed.holds and not parted
    form = ArtifactForm(
        session=_session_name(source.artifact),
        holds=holds,
        faults=_fault_forms(replayed.faults),
        digest=replayed.digest,
        stored=replayed.stored,
        messages=replayed.messages,
        parted=replayed.parted or None,
        run=source.run,
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
    source: session_folders.FoundSession, pin: ReplayPin, *, as_json: bool
) -> NoReturn:
    """Report the pin that is not fixed, and exit without executing anything."""
    if as_json:
        form = ArtifactForm(_session_name(source.artifact), holds=False, faults=(), pin=pin)
        print_json("forum.artifact/1", form)
    advice = _ADVICE.get(pin, "what it depended on then is not what is here now")
    common_options.echo_error(f"not carried out: the pin `{pin}` cannot be held; {advice}")
    raise SystemExit(EXIT_UNHELD_PIN)


def _replay_record(
    source: session_folders.FoundSession, run: str, forum: Forum, *, as_json: bool
) -> None:
    """Let the engine execute a run again from its record, and compare the result."""
    session = forum.reads.read_session(run)
    held = _recorded_pins(compute_pins(session, session_folders.RUNTIME))
    # The artifact may differ from the record, so its pins are computed from its own config.
    was = _recorded_pins(compute_pins(_session_in(source, session), source.runtime))
    if pin := find_unheld_pin(was, held):
        _report_unheld_pin(source, pin, as_json=as_json)
    try:
        parted = forum.runs.replay(run)
    except ReplayMiss:
        _report_unheld_pin(source, ReplayPin.TRANSCRIPT_PREFIX, as_json=as_json)
    files = session_folders.session_files(forum, run)
    replayed = replay_transcript(source.artifact, session_folders.read_journal(files))
    why = f"the engine differs from it at {parted[0].strand}, {parted[0].step}" if parted else ""
    if not why and files[ARTIFACT] != source.artifact:
        why = "it is not what the ledger says"
    _print_replay(source, replayed, why, as_json=as_json)


def _recorded_pins(pins: Mapping[ReplayPin, str]) -> dict[ReplayPin, str]:
    """Return pins in which those that no model can fix are fixed by the record."""
    return {pin: value or "recorded" for pin, value in pins.items()}


def _session_in(source: session_folders.FoundSession, session: Session) -> Session:
    """Return a session with the config and the problem of its artifact."""
    artifact = read_artifact(source.artifact)
    panel = session.policy.panel
    assert isinstance(panel, Symposium)  # noqa: S101  `_find_session` checked the type
    stated = msgspec.structs.replace(panel, config=to_json_object(artifact.config))
    policy = msgspec.structs.replace(session.policy, panel=stated)
    return msgspec.structs.replace(
        session, problem=artifact.config.problem_statement, policy=policy
    )


def _replay_script(
    source: session_folders.FoundSession,
    script: Path,
    selector_script: Path | None,
    *,
    as_json: bool,
) -> None:
    """Execute a session again by its script, and compare each message."""
    replies, chosen = session_folders.load_scripts(script, selector_script)
    config = _read_or_usage_error(source, read_artifact).config
    panel, agents = session_folders.build_scripted_panel(
        to_json_object(config), config.problem_statement, replies, chosen
    )
    policy = Policy(agents=agents, panel=panel)
    session = Session(config.problem_statement, policy, 0)
    if pin := find_unheld_pin(
        compute_pins(session, source.runtime), compute_pins(session, session_folders.RUNTIME)
    ):
        _report_unheld_pin(source, pin, as_json=as_json)
    replayed = replay_execution(session, source.artifact, replies, chosen)
    # The script alone was used, so the result says nothing about the ledger.
    _print_replay(replace(source, run=None), replayed, "", as_json=as_json)


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
