"""Files of sessions of the open protocol: configs and scripts to read, folders to write.

Each session has a folder named after its id. Its content is derived from the ledger; a folder that
belongs to another run is never written to.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import yaml

from forum import __version__, errors
from forum.app import Forum, write_files
from forum.deliberation.steps import Session
from forum.deliberation.symposium.artifact import (
    ARTIFACT,
    JOURNAL,
    MANIFEST,
    build_session_files,
    read_recorded_session,
)
from forum.deliberation.symposium.canonical_json import read_json
from forum.deliberation.symposium.decoders import read_config, read_manifest, read_script
from forum.deliberation.symposium.provider_calls import FakeScript
from forum.deliberation.symposium.simulator import simulate_session
from forum.surfaces.formatting import first_line, short_id, strip_control_characters
from forum.work.kinds import TURN_PREFIX
from forum.work.panel import Symposium
from forum.work.policy import Agent, Policy, Scripted

T = TypeVar("T")

LINK_FILE = "forum.json"
SCRIPT_AGENT = "script"
"""The agent of all seats in a scripted session."""
RUNTIME = f"forum {__version__}"


class RunLink(msgspec.Struct, frozen=True):
    """The run and the ledger that a folder belongs to."""

    run: str
    origin: str


_link = msgspec.json.Decoder(RunLink)


class _StrictYamlLoader(yaml.SafeLoader):
    """YAML restricted to what JSON can express.

    Aliases are rejected because a few nested ones expand to gigabytes, and duplicate keys because
    readers disagree on which one counts.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; raise for an alias."""
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
        """Construct a mapping; raise for a duplicate key."""
        names = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                why = f"{key.value[:64]!r} is there twice"
                raise yaml.MarkedYAMLError(problem=why, problem_mark=key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)


def load_config(file: Path) -> dict[str, Any]:
    """Read a config in JSON or YAML. Raises `click.UsageError`."""
    data = file.read_bytes()
    try:
        config = read_json(data, "config")
    # JSON first: YAML rejects JSON's tabs and surrogate pairs.
    except errors.Malformed:
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
    # PyYAML raises a plain ValueError for a text that looks like a date and is none: 2026-99-99.
    except (yaml.YAMLError, ValueError) as error:
        raise click.UsageError(f"--config {file}: {error}") from None


def load_scripts(script: Path, selector: Path | None) -> tuple[FakeScript, FakeScript | None]:
    """Read the scripts of a session and of its selector. Raises `click.UsageError`."""

    def load(option: str, file: Path) -> FakeScript:
        return _read_or_usage_error(f"{option} {file}", lambda: read_script(file.read_bytes()))

    chosen = load("--selector-script", selector) if selector else None
    return load("--script", script), chosen


def _read_or_usage_error(source: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except errors.Malformed as error:
        raise click.UsageError(f"{source}: {error.why}") from None


def build_scripted_panel(
    config: dict[str, Any], problem: str, script: FakeScript, selector: FakeScript | None
) -> tuple[Symposium, dict[str, Agent]]:
    """Return a panel and the single agent that makes its session follow a script."""
    speakers = [*config["agents"], config["coordinator"]]
    panel = Symposium(config, {str(speaker["id"]): SCRIPT_AGENT for speaker in speakers})
    policy = Policy(agents={SCRIPT_AGENT: Scripted()}, panel=panel)
    try:
        moves = simulate_session(Session(problem, policy, 0), script, selector)
    except errors.Malformed as error:
        raise click.UsageError(f"--script: {error}") from None
    agent = Scripted({f"{TURN_PREFIX}{turn}": played for turn, played in moves.items()})
    return panel, {SCRIPT_AGENT: agent}


def check_session_id(config: dict[str, Any]) -> str:
    """Return the id of a session. Raises `click.UsageError` if it cannot name a folder."""
    session = str(config["session_id"])
    named = session == Path(session).name and not session.startswith(".")
    # Control characters in a name could manipulate the terminal of a user who lists the folder.
    if (
        not named
        or not session.strip()
        or strip_control_characters(session) != session
        or "\n" in session
    ):
        raise click.UsageError(f"session_id {session[:64]!r}: it has to be the name of a folder")
    return session


def create_session_folder(output: Path, session: str) -> Path:
    """Create the folder of a new session. Raises `click.UsageError` if it exists."""
    folder = output / session
    try:
        output.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Not `exist_ok`: of two sessions with one id, only one can create the folder.
        folder.mkdir(mode=0o700)
    except FileExistsError:
        link = read_link(folder)
        run = first_line(short_id(link.run), 40) if link else ""
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
    """Write the recorded files of a session; each file is replaced atomically."""
    # A link could redirect the files to a place that --output does not name.
    if folder.is_symlink():
        raise click.UsageError(f"{folder} leads elsewhere; choose another --output")
    link = read_link(folder)
    if link is not None and link.run != run:
        other = first_line(link.run, 40)
        raise click.UsageError(f"{folder} belongs to run {other}; choose another --output")
    # Without a link, the files may be the user's own work, which must not be overwritten.
    if link is None and any(folder.iterdir()):
        raise click.UsageError(
            f"{folder} is not empty, and not of this run; choose another --output"
        )
    files = session_files(forum, run)
    files[LINK_FILE] = msgspec.json.encode(RunLink(run, forum.origin)) + b"\n"
    # The link first, because it marks the owner of the folder. The manifest last: after a crash,
    # one that says `complete` must not precede the files that it lists.
    names = sorted(files, key=lambda name: (name != LINK_FILE, name == MANIFEST))
    try:
        write_files(folder, {name: files[name] for name in names})
    except errors.StoreFailed as error:  # of the user's disk, not of the ledger's database
        raise click.ClickException(f"{error.doing}: {error.why}") from None
    return sorted(files)


def session_files(forum: Forum, run: str) -> dict[str, bytes]:
    """Return the files of a session, derived from the ledger. Raises `BodyGone`."""
    session, notes = forum.reads.read_session(run), forum.reads.view_run(run).notes
    try:
        return dict(build_session_files(read_recorded_session(session, notes), __version__))
    except KeyError as missing:
        raise errors.BodyGone(f"run {run}", str(missing.args[0])) from None


def read_journal(files: Mapping[str, bytes]) -> list[bytes]:
    """Return the messages of a session's journal."""
    return files[JOURNAL].splitlines()


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session to be checked: its artifact, and its run if that is in this ledger."""

    name: str
    artifact: bytes
    run: str | None
    runtime: str
    """Name and version of the software that claims to have run it; empty if unknown."""


def read_link(folder: Path) -> RunLink | None:
    """Return the run that a folder belongs to, or None."""
    try:
        return _link.decode((folder / LINK_FILE).read_bytes())
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def find_artifact_file(what: str) -> Path:
    """Return the path of an artifact, given the file or its folder."""
    path = Path(what)
    if not path.exists():
        raise click.UsageError(
            f"{what}: no such file; name an artifact or its folder; of a run, first: "
            "forum deliberate export RUN --output DIR"
        )
    if path.is_dir() and not (path / ARTIFACT).exists():
        link = read_link(path)
        run = first_line(short_id(link.run), 40) if link else "RUN"
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
    """Return whether the linked run is a symposium in this ledger, which may not exist.

    The link is not trusted: a folder from elsewhere may name any run.
    """
    try:
        present = link.origin == forum.origin and bool(forum.store.strands(link.run))
        return present and isinstance(
            forum.reads.read_run_request(link.run).policy.panel, Symposium
        )
    except errors.BodyGone:
        return True  # the code that needs the erased body reports it
    except (errors.NoLedger, errors.NoSuchEntry):
        return False


def find_session_of_run(run: str, forum: Forum) -> FoundSession:
    """Return a session of this ledger, with the artifact derived from its record."""
    files = session_files(forum, run)
    if ARTIFACT not in files:
        raise click.UsageError(f"run {run} has not ended; go on with: forum resume {short_id(run)}")
    return FoundSession(run, files[ARTIFACT], run, RUNTIME)


def _runtime_of(folder: Path) -> str:
    try:
        producer = read_manifest((folder / MANIFEST).read_bytes()).producer
    except (OSError, errors.Malformed):
        return ""
    return f"{producer.name} {producer.version}"
