"""Whether a session is what it says to be: `forum deliberate validate`, `replay` and so on."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from forum.app import Forum
from forum.deliberation import (
    ARTIFACT,
    Fault,
    Pin,
    Replayed,
    Session,
    check_artifact,
    members,
    metrics_of,
    pins_of,
    read_artifact,
    replay_execution,
    replay_transcript,
    unheld_pin,
)
from forum.errors import Malformed, ReplayMiss
from forum.surfaces.cli import FAILED, MISMATCH, options
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.sessions import (
    RUNTIME,
    Found,
    at_path,
    find_file,
    load_script,
    of_run,
    scripted_agents,
    session_files,
    transcript_of,
)
from forum.surfaces.cli.steering import play_again
from forum.surfaces.forms.council import CouncilForm
from forum.surfaces.forms.deliberations import deliberation_form
from forum.surfaces.forms.symposium import ArtifactForm, FaultForm
from forum.surfaces.telling import SHORT, first_line, plain, plural
from forum.work import Policy, Symposium

T = TypeVar("T")

UNHELD = 7
"""The exit status of a session that cannot be carried out again as it was."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_BALLOTS = "the same, ballot by ballot"
_ADVICE = {
    Pin.RUNTIME: "carry it out again with what has written it; its manifest.json says what that is",
    Pin.ADAPTER: "say what its calls were answered: --script FILE; or ask where its ledger is",
    Pin.TRANSCRIPT_PREFIX: "something of its record was erased, or its problem is another one",
}


@click.command(
    cls=options.WithExamples,
    examples=("forum deliberate validate sessions/demo-001/artifact.json",),
)
@click.argument("path")
@options.as_json
def validate(path: str, *, as_json: bool) -> None:
    """Check the artifact at a PATH: its form, its digests, and every law of the protocol.

    No ledger is needed for that.  Exit status: 0 valid, 1 not, 2 usage.
    """
    data = find_file(path).read_bytes()
    faults = _fault_forms(check_artifact(data))
    form = ArtifactForm(_session_name(data), not faults, faults)
    if as_json:
        print_json("forum.artifact/1", form)
    else:
        click.echo("valid" if form.holds else _fault_lines(form))
    raise SystemExit(0 if form.holds else FAILED)


@click.command(
    cls=options.WithExamples,
    examples=(
        "forum deliberate replay 0199c0de-1234-7abc",
        "forum deliberate replay sessions/demo-001",
    ),
)
@click.argument("what", metavar="RUN_OR_PATH")
@options.as_json
def replay(what: str, *, as_json: bool) -> None:
    """Read the transcript of a session again, and see whether it has the digest that it had.

    Where its run is in this ledger, the artifact is made again from the record and has to be the
    same, byte for byte.  Of a council, all is counted again from what was said.

    Exit status: 0 the same, 1 no artifact, 2 usage, 4 something else.
    """
    with options.forum() as forum:
        found = _find(what, forum)
        if isinstance(found, str):
            play_again(forum, found, _BALLOTS, as_json=as_json)
        recorded = session_files(forum, found.run) if found.run else None
    replayed = replay_transcript(found.artifact, transcript_of(recorded) if recorded else None)
    same = recorded is None or recorded.get(ARTIFACT) == found.artifact
    _tell(found, replayed, "" if same else "it is not what the ledger says", as_json=as_json)


@click.command(
    "execution-replay",
    cls=options.WithExamples,
    examples=(
        "forum deliberate execution-replay 0199c0de-1234-7abc",
        "forum deliberate execution-replay sessions/demo-001 --script replies.json",
    ),
)
@click.argument("what", metavar="RUN_OR_PATH")
@click.option("--script", type=_FILE, help="What its calls were answered, if no ledger says so.")
@click.option("--selector-script", type=_FILE, help="What the choice of its panel was answered.")
@options.as_json
def execution_replay(
    what: str, script: Path | None, selector_script: Path | None, *, as_json: bool
) -> None:
    """Carry a session out again, and see whether it comes to the same.

    Nobody is asked: every reply comes from the record of its run, or from the script that it was
    played by.  Ten pins have to be held for that; the first that cannot be is named, and nothing
    is carried out.

    Exit status: 0 the same, 1 no artifact, 2 usage, 4 something else, 7 a pin cannot be held.
    """
    with options.forum() as forum:
        found = _find(what, forum)
        if isinstance(found, str):
            play_again(forum, found, _BALLOTS, as_json=as_json)
        if script is not None:
            _replay_script(found, script, selector_script, as_json=as_json)
        elif found.run is not None:
            _replay_record(found, found.run, forum, as_json=as_json)
        else:
            _typed(found, read_artifact)
            known = found.runtime == RUNTIME
            _give_up(found, Pin.ADAPTER if known else Pin.RUNTIME, as_json=as_json)


@click.command(
    cls=options.WithExamples,
    examples=(
        "forum deliberate metrics sessions/demo-001",
        "forum deliberate metrics 0199c0de-1234",
    ),
)
@click.argument("what", metavar="RUN_OR_PATH")
@options.as_json
def metrics(what: str, *, as_json: bool) -> None:
    """Count what there is to count in a session: tokens, costs, turns, failures, and how it ended.

    Of a council: what baseline and outcome have cost, who changed, and how many without a reason.
    """
    with options.forum() as forum:
        found = _find(what, forum)
        if isinstance(found, str):
            counted = _council_metrics(found, forum)
        else:
            counted = members(_typed(found, metrics_of))
    if as_json:
        print_json("forum.metrics/1", counted)
    else:
        click.echo("\n".join(_metric_lines(counted)))


def _typed(found: Found, read: Callable[[bytes], T]) -> T:
    try:
        return read(found.artifact)
    except Malformed as error:
        raise click.ClickException(f"{found.name}: {error}") from None


# Finding


def _find(what: str, forum: Forum) -> Found | str:
    """Return the session that is meant; of a council, its run."""
    if Path(what).exists():
        return at_path(what, forum)
    run = forum.run_of(what)
    view = forum.view(run)
    told = deliberation_form(view)
    if told is None and view.state.outcome is None and forum.order_of(run).policy.panel:
        raise click.UsageError(
            f"run {run} has not begun; see it through: forum resume {run[:SHORT]}"
        )
    if told is None:
        raise click.UsageError(f"run {run} is no deliberation; play it again: forum replay {run}")
    return run if isinstance(told, CouncilForm) else of_run(run, forum)


def _session_name(data: bytes) -> str | None:
    try:
        return read_artifact(data).session_id
    except Malformed:
        return None


# Telling


def _tell(found: Found, replayed: Replayed, parted: str, *, as_json: bool) -> NoReturn:
    """Print what came of a replay, and exit accordingly."""
    holds = replayed.holds and not parted
    form = ArtifactForm(
        _session_name(found.artifact),
        holds,
        _fault_forms(replayed.faults),
        replayed.digest,
        replayed.stored,
        replayed.messages,
        replayed.parted or None,
        found.run,
    )
    if as_json:
        print_json("forum.artifact/1", form)
    else:
        click.echo(_told(form, parted))
    raise SystemExit(0 if holds else MISMATCH)


def _told(form: ArtifactForm, parted: str) -> str:
    lines = [f"{plural(form.messages or 0, 'message')}, digest {form.digest}"]
    if form.digest != form.stored:
        lines.append(f"the artifact says {form.stored}")
    if form.parted:
        lines.append(f"the first message that is another one: {plain(form.parted)}")
    if parted:
        lines.append(parted)
    if form.faults:
        lines.append(_fault_lines(form))
    beside = "as in the ledger, byte for byte" if form.run else "compared with no ledger"
    lines.append(f"the same; {beside}" if form.holds else "NOT the same")
    return "\n".join(lines)


def _fault_forms(faults: Iterable[Fault]) -> tuple[FaultForm, ...]:
    return tuple(FaultForm(one.law, one.where, one.why) for one in faults)


def _fault_lines(form: ArtifactForm) -> str:
    return "\n".join(
        f"{one.law}: {plain(one.why)} - at `{plain(one.where)}`" for one in form.faults
    )


def _give_up(found: Found, pin: Pin, *, as_json: bool) -> NoReturn:
    """Say which pin cannot be held, and carry nothing out."""
    if as_json:
        form = ArtifactForm(_session_name(found.artifact), holds=False, faults=(), pin=pin)
        print_json("forum.artifact/1", form)
    advice = _ADVICE.get(pin, "what it depended on then is not what is here now")
    options.complain(f"not carried out: the pin `{pin}` cannot be held; {advice}")
    raise SystemExit(UNHELD)


# Replaying


def _replay_record(found: Found, run: str, forum: Forum, *, as_json: bool) -> None:
    """Have the engine carry out a run again from its record, and compare what comes of it."""
    session = forum.session_of(run)
    held = _recorded_pins(pins_of(session, RUNTIME))
    was = _recorded_pins(pins_of(_session_in(found, session), found.runtime))
    if pin := unheld_pin(was, held):
        _give_up(found, pin, as_json=as_json)
    try:
        parted = forum.replay(run)
    except ReplayMiss:
        _give_up(found, Pin.TRANSCRIPT_PREFIX, as_json=as_json)
    files = session_files(forum, run)
    replayed = replay_transcript(found.artifact, transcript_of(files))
    why = f"the engine parts from it at {parted[0].strand}, {parted[0].step}" if parted else ""
    if not why and files[ARTIFACT] != found.artifact:
        why = "it is not what the ledger says"
    _tell(found, replayed, why, as_json=as_json)


def _recorded_pins(pins: Mapping[Pin, str]) -> dict[Pin, str]:
    """Return pins of which the record holds those that no model could."""
    return {pin: value or "recorded" for pin, value in pins.items()}


def _session_in(found: Found, session: Session) -> Session:
    """Return a session as its artifact has it."""
    artifact = read_artifact(found.artifact)
    panel = session.policy.panel
    assert isinstance(panel, Symposium)  # noqa: S101  `_find` has looked
    stated = msgspec.structs.replace(panel, config=members(artifact.config))
    policy = msgspec.structs.replace(session.policy, panel=stated)
    return msgspec.structs.replace(
        session, problem=artifact.config.problem_statement, policy=policy
    )


def _replay_script(
    found: Found, script: Path, selector_script: Path | None, *, as_json: bool
) -> None:
    """Play a session again by its script, and compare each message."""
    said = load_script("--script", script)
    chosen = load_script("--selector-script", selector_script) if selector_script else None
    config = _typed(found, read_artifact).config
    panel, agents = scripted_agents(members(config), config.problem_statement, said, chosen)
    policy = Policy(agents=agents, panel=panel)
    session = Session(config.problem_statement, policy, 0)
    if pin := unheld_pin(pins_of(session, found.runtime), pins_of(session, RUNTIME)):
        _give_up(found, pin, as_json=as_json)
    replayed = replay_execution(session, found.artifact, said, chosen)
    # By the script alone: what the ledger says was not looked at.
    _tell(replace(found, run=None), replayed, "", as_json=as_json)


# Counting


def _council_metrics(run: str, forum: Forum) -> dict[str, Any]:
    told = deliberation_form(forum.view(run))
    assert isinstance(told, CouncilForm)  # noqa: S101  `_find` has looked
    baseline = told.baseline
    return {
        "run": run,
        "seats": told.seated,
        "ballots": sum(one.sealed for one in told.ballots),
        "rounds": told.rounds,
        "end": told.end,
        "ground": told.ground,
        "accord": told.accord,
        "baseline": msgspec.to_builtins(baseline) if baseline else None,
        "spent": msgspec.to_builtins(told.spent) if told.spent else None,
        "changed": len(told.changes),
        "conformity": round(told.conformity, 3),
        "minority": sum(len(one.seats) for one in told.minority),
        "blockers": len(told.blockers),
    }


def _metric_lines(counted: dict[str, Any], lead: str = "") -> list[str]:
    """Return what was counted, one figure on each line."""
    lines = []
    for said, value in counted.items():
        name = first_line(said, 100)
        if isinstance(value, dict):
            lines += _metric_lines(value, f"{lead}{name}.")
        elif isinstance(value, list | tuple):
            lines += [f"{lead}{name}  {_row(one)}" for one in value] or [f"{lead}{name}  -"]
        else:
            lines.append(f"{lead}{name}  {'-' if value is None else plain(str(value))}")
    return lines


def _row(value: object) -> str:
    words = ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)
    return first_line(words, 200)
