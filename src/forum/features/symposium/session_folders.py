"""Files of sessions of the open protocol: configs and scripts to read, folders to write.

Each session has a folder named after its id. Its content is derived from the ledger; a folder that
belongs to another run is never written to.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from forum import errors
from forum.app import Forum, write_files
from forum.app.formatting import first_line, short_id, strip_control_characters
from forum.features.symposium.artifact import ARTIFACT, MANIFEST
from forum.features.symposium.decoders import read_script
from forum.features.symposium.provider_calls import FakeScript
from forum.features.symposium.service import (
    LINK_FILE,
    RUNTIME,
    FoundSession,
    RunLink,
    SymposiumOperations,
    locate_artifact,
    read_config_file,
    read_link,
)
from forum.features.symposium.simulator import build_scripted_panel
from forum.runs.panel import Symposium
from forum.runs.policy import Agent

T = TypeVar("T")

REPLAY_SUFFIX = "-replay"


def load_config(file: Path) -> dict[str, Any]:
    """Read a config in JSON or YAML. Raises `click.UsageError`."""
    config = _read_or_usage_error(f"--config {file}", lambda: read_config_file(file.read_bytes()))
    check_session_id(config)
    return config


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
    files = SymposiumOperations(forum).files(run)
    files[LINK_FILE] = msgspec.json.encode(RunLink(run, forum.origin)) + b"\n"
    write_session_files(folder, files)
    return sorted(files)


def write_session_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into the folder of a session. Raises `click.ClickException`."""
    # The link first, because it marks the owner of the folder. The manifest last: after a crash,
    # one that says `complete` must not precede the files that it lists.
    names = sorted(files, key=lambda name: (name != LINK_FILE, name == MANIFEST))
    try:
        write_files(folder, {name: files[name] for name in names})
    except errors.StoreFailed as error:  # of the user's disk, not of the ledger's database
        raise click.ClickException(f"{error.doing}: {error.why}") from None


def find_artifact_file(what: str) -> Path:
    """Return the path of an artifact, given the file or its folder."""
    try:
        return locate_artifact(Path(what))
    except errors.NoSuchSession as error:
        raise click.UsageError(str(error)) from None


def find_session_of_run(run: str, forum: Forum) -> FoundSession:
    """Return a session of this ledger, with the artifact derived from its record."""
    files = SymposiumOperations(forum).files(run)
    if ARTIFACT not in files:
        raise click.UsageError(f"run {run} has not ended; go on with: forum resume {short_id(run)}")
    return FoundSession(run, files[ARTIFACT], run, RUNTIME)


class SymposiumFiles:
    """The files of sessions, for `forum deliberate`."""

    def read_panel(self, config: Path) -> Symposium:
        """Read a config in JSON or YAML. Raises `click.UsageError`."""
        return Symposium(load_config(config))

    def play_scripts(
        self, panel: Symposium, problem: str, script: Path, selector: Path | None
    ) -> tuple[Symposium, dict[str, Agent]]:
        """Return a panel and the agent that follows these scripts. Raises `click.UsageError`."""
        scripts = load_scripts(script, selector)
        try:
            return build_scripted_panel(panel.config, problem, *scripts)
        except errors.Malformed as error:
            raise click.UsageError(f"--script: {error}") from None

    def create_folder(self, output: Path, panel: Symposium) -> Path:
        """Create the folder of a new session. Raises `click.UsageError` if it exists."""
        return create_session_folder(output, check_session_id(panel.config))

    def write_folder(self, forum: Forum, run: str, folder: Path) -> list[str]:
        """Write the recorded files of a session, and return their names."""
        return write_session_folder(forum, run, folder)


FILES = SymposiumFiles()
