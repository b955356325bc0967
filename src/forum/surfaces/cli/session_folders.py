"""Sessions of the open protocol as files: configs and scripts that are read, and what is kept.

A session has a folder of its own under its id.  What stands in it follows from the ledger; a folder
that belongs to another run is never written to.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import yaml

from forum import __version__
from forum.app import Forum, write_files
from forum.deliberation import (
    ARTIFACT,
    JOURNAL,
    MANIFEST,
    FakeScript,
    Session,
    build_session_files,
    read_config,
    read_json,
    read_manifest,
    read_recorded_session,
    read_script,
    simulate_session,
)
from forum.errors import BodyGone, Malformed, NoLedger, NoSuchEntry, StoreFailed
from forum.surfaces.formatting import SHORT_ID_LENGTH, first_line, strip_control_characters
from forum.work import TURN_PREFIX, Agent, Policy, Scripted, Symposium

T = TypeVar("T")

LINK_FILE = "forum.json"
SCRIPT_AGENT = "script"
"""The agent that speaks for everybody in a session that is played by a script."""
RUNTIME = f"forum {__version__}"


class RunLink(msgspec.Struct, frozen=True):
    """Which run of which ledger a folder belongs to."""

    run: str
    origin: str


_link = msgspec.json.Decoder(RunLink)


class _StrictYamlLoader(yaml.SafeLoader):
    """YAML that says no more than JSON could.

    A few aliases of aliases are a file of gigabytes; and what is there twice, two readers read
    differently.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Read a value, unless it is an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"an alias, *{event.anchor}: write out what it stands for",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002  theirs
    ) -> dict[Hashable, Any]:
        """Read an object, unless it has a member twice."""
        names = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                why = f"{key.value[:64]!r} is there twice"
                raise yaml.MarkedYAMLError(problem=why, problem_mark=key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)


# Reading


def load_config(file: Path) -> dict[str, Any]:
    """Read a config that is JSON or YAML."""
    data = file.read_bytes()
    try:
        config = read_json(data, "config")
    # The other way round it does not go: JSON has tabs, and surrogates in pairs.
    except Malformed:
        config = _load_yaml(file, data)
    if not isinstance(config, dict):
        raise click.UsageError(f"--config {file}: it is not an object")
    _read_or_usage_error(f"--config {file}", lambda: read_config(config))
    check_session_id(config)
    return config


def _load_yaml(file: Path, data: bytes) -> object:
    try:
        return yaml.load(data, _StrictYamlLoader)  # noqa: S506  a safe one
    except RecursionError:
        raise click.UsageError(f"--config {file}: nested too deeply") from None
    # The latter: numbers and dates that only look like some.
    except (yaml.YAMLError, ValueError) as error:
        raise click.UsageError(f"--config {file}: {error}") from None


def load_script(option: str, file: Path) -> FakeScript:
    """Read what every call is answered."""
    return _read_or_usage_error(f"{option} {file}", lambda: read_script(file.read_bytes()))


def _read_or_usage_error(source: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except Malformed as error:
        raise click.UsageError(f"{source}: {error.why}") from None


def build_scripted_panel(
    config: dict[str, Any], problem: str, script: FakeScript, selector: FakeScript | None
) -> tuple[Symposium, dict[str, Agent]]:
    """Return a panel, and the one agent with whom its session goes as a script says."""
    speakers = [*config["agents"], config["coordinator"]]
    panel = Symposium(config, {str(one["id"]): SCRIPT_AGENT for one in speakers})
    policy = Policy(agents={SCRIPT_AGENT: Scripted()}, panel=panel)
    try:
        moves = simulate_session(Session(problem, policy, 0), script, selector)
    except Malformed as error:
        raise click.UsageError(f"--script: {error}") from None
    agent = Scripted({f"{TURN_PREFIX}{turn}": played for turn, played in moves.items()})
    return panel, {SCRIPT_AGENT: agent}


# Keeping


def check_session_id(config: dict[str, Any]) -> str:
    """Return the id of a session: it has to be the name of a folder."""
    session = str(config["session_id"])
    named = session == Path(session).name and not session.startswith(".")
    # A name with control characters steers the terminal of whoever lists the folder.
    if (
        not named
        or not session.strip()
        or strip_control_characters(session) != session
        or "\n" in session
    ):
        raise click.UsageError(f"session_id {session[:64]!r}: it has to be the name of a folder")
    return session


def create_session_folder(output: Path, session: str) -> Path:
    """Make the folder of a session that is about to begin; one that is there is left alone."""
    folder = output / session
    try:
        output.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        link = read_link(folder)
        run = first_line(link.run[:SHORT_ID_LENGTH], SHORT_ID_LENGTH) if link else ""
        held = f"it is that of run {run}" if link else "and nobody says by which run"
        advice = f"; see it: forum show {run}" if link else ""
        raise click.UsageError(
            f"{folder} is there already, {held}; nothing was written. "
            f"Give the session another session_id, or another --output{advice}"
        ) from None
    except OSError as error:
        raise click.UsageError(f"--output {output}: {error.strerror}") from None
    return folder


def write_session_folder(forum: Forum, run: str, folder: Path) -> list[str]:
    """Write what is recorded of a session; each file is replaced whole, or not at all."""
    if folder.is_symlink():
        raise click.UsageError(f"{folder} leads elsewhere; choose another --output")
    link = read_link(folder)
    if link is not None and link.run != run:
        other = first_line(link.run, 40)
        raise click.UsageError(f"{folder} belongs to run {other}; choose another --output")
    if link is None and any(folder.iterdir()):
        raise click.UsageError(
            f"{folder} is not empty, and not of this run; choose another --output"
        )
    files = session_files(forum, run)
    files[LINK_FILE] = msgspec.json.encode(RunLink(run, forum.origin)) + b"\n"
    # Whose folder it is, first; a manifest that says `complete`, after all that it speaks of.
    names = sorted(files, key=lambda name: (name != LINK_FILE, name == MANIFEST))
    try:
        write_files(folder, {name: files[name] for name in names})
    except StoreFailed as error:  # of the user's disk, not of the ledger's database
        raise click.ClickException(f"{error.doing}: {error.why}") from None
    return sorted(files)


def session_files(forum: Forum, run: str) -> dict[str, bytes]:
    """Return the files of a session as they follow from the ledger."""
    session, notes = forum.read_session(run), forum.view_run(run).notes
    try:
        return dict(build_session_files(read_recorded_session(session, notes), __version__))
    except KeyError as missing:
        raise BodyGone(f"run {run}", str(missing.args[0])) from None


def read_journal(files: Mapping[str, bytes]) -> list[bytes]:
    """Return the messages of a session's journal."""
    return files[JOURNAL].splitlines()


# Finding


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session that somebody means: its artifact, and its run where that is in this ledger."""

    name: str
    artifact: bytes
    run: str | None
    runtime: str
    """Who says to have carried it out; nothing where nobody says so."""


def read_link(folder: Path) -> RunLink | None:
    """Return which run a folder belongs to, if that is said there."""
    try:
        return _link.decode((folder / LINK_FILE).read_bytes())
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def find_artifact_file(what: str) -> Path:
    """Return the artifact at a path: a file, or a folder that has one."""
    path = Path(what)
    if not path.exists():
        raise click.UsageError(
            f"{what}: no such file; name an artifact or its folder; of a run, first: "
            "forum deliberate export RUN --output DIR"
        )
    if path.is_dir() and not (path / ARTIFACT).exists():
        link = read_link(path)
        run = first_line(link.run[:SHORT_ID_LENGTH], SHORT_ID_LENGTH) if link else "RUN"
        raise click.UsageError(
            f"{what}: it has no {ARTIFACT}; once the session has ended: "
            f"forum deliberate export {run} --output {path.parent}"
        )
    return path / ARTIFACT if path.is_dir() else path


def find_session_at_path(what: str, forum: Forum) -> FoundSession:
    """Return the session whose artifact is at a path."""
    file = find_artifact_file(what)
    link = read_link(file.parent)
    run = link.run if link and _is_in_ledger(link, forum) else None
    return FoundSession(what, file.read_bytes(), run, _runtime_of(file.parent))


def _is_in_ledger(link: RunLink, forum: Forum) -> bool:
    """Tell whether a session is in this ledger; there may be none here.

    Whoever has sent the folder may have named any run in it.
    """
    try:
        known = link.origin == forum.origin and bool(forum.store.strands(link.run))
        return known and isinstance(forum.read_run_request(link.run).policy.panel, Symposium)
    except BodyGone:
        return True  # whoever needs what was erased says so
    except (NoLedger, NoSuchEntry):
        return False


def find_session_of_run(run: str, forum: Forum) -> FoundSession:
    """Return a session of this ledger, with the artifact that follows from it."""
    files = session_files(forum, run)
    if ARTIFACT not in files:
        raise click.UsageError(
            f"run {run} has not ended; go on with: forum resume {run[:SHORT_ID_LENGTH]}"
        )
    return FoundSession(run, files[ARTIFACT], run, RUNTIME)


def _runtime_of(folder: Path) -> str:
    try:
        producer = read_manifest((folder / MANIFEST).read_bytes()).producer
    except (OSError, Malformed):
        return ""
    return f"{producer.name} {producer.version}"
