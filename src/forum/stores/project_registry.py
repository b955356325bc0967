"""A registry of the log of each project, stored outside the project folders.

The folder of a project holds its key, database and policy together.  If the folder is deleted or
replaced, nothing in it shows that another log was there.  So the state directory has one small file
for each project: its log, the keys that signed the log, and the logs that it continues.

The record protects against loss and replacement of the folder.  It does not protect against a user
who can write to the state directory: that user can change the record, the guard and the local
witness.
"""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from forum.errors import Malformed
from forum.stores.state_files import lock_file, write_durably


class ProjectEpoch(msgspec.Struct, frozen=True):
    """One log of a project, with the keys that signed it, newest last."""

    origin: str
    vkeys: tuple[str, ...]


class ReplacedLogs(msgspec.Struct, frozen=True):
    """Logs that the operator has deliberately replaced by a new one, and the time."""

    epochs: tuple[ProjectEpoch, ...]
    at: int


class Project(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of one project."""

    path: str
    database: str
    """The address of its Postgres database without user and password; empty for SQLite."""
    key_file: str
    epochs: tuple[ProjectEpoch, ...]
    """The logs of the project, oldest first; the last one is in use."""
    replaced: tuple[ReplacedLogs, ...] = ()
    pending: ProjectEpoch | None = None
    """The epoch or key rotation in progress: the next log, or the same log with its next key."""

    @property
    def current(self) -> ProjectEpoch:
        """The log in use."""
        return self.epochs[-1]

    def has_key(self, vkey: str) -> bool:
        """Return whether this is the current key, or the next key of a change in progress.

        During an epoch change or a key rotation, the key file holds the old or the new key.  Both
        are accepted, so that a crash at any point leaves a known key.
        """
        pending = self.pending or self.current
        return vkey in (self.current.vkeys[-1], pending.vkeys[-1])

    def complete_pending(self) -> "Project":
        """Return the project with its pending epoch or rotation completed."""
        if self.pending is None:
            return self
        same = self.pending.origin == self.current.origin
        epochs = (*(self.epochs[:-1] if same else self.epochs), self.pending)
        return msgspec.structs.replace(self, epochs=epochs, pending=None)

    @property
    def location_text(self) -> str:
        """The location of the project as text for messages."""
        return f"{self.path} ({self.database})" if self.database else self.path


class ProjectLocation(NamedTuple):
    """The location of a project according to its settings."""

    path: str
    database: str
    key_file: str
    has_file: bool
    """Whether the folder has a project file; such a folder has one ledger in any database."""


class ProjectRegistry:
    """The records of projects in one state directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, place: ProjectLocation) -> Project | None:
        """Return the record of the project at a location, or None."""
        path = self._file(place.path, place.database)
        if path.exists():
            return _read(path)
        if not place.has_file:
            return None
        return next((project for project in self._all() if project.path == place.path), None)

    def find_with_lost_key(self, place: ProjectLocation) -> Project | None:
        """Return a project with the same database whose key file no longer exists, or None.

        A folder that was moved without its key looks like a new project, except for its database.
        """
        if not place.database:
            return None
        same = (project for project in self._all() if project.database == place.database)
        return next((project for project in same if _is_missing(project.key_file)), None)

    def find_by_log(self, origin: str) -> list[Project]:
        """Return the projects whose current or pending log this is."""
        return [
            project
            for project in self._all()
            if origin in (project.current.origin, (project.pending or project.current).origin)
        ]

    def save(self, project: Project) -> None:
        """Store the record of a project durably."""
        path = self._file(project.path, project.database)
        with lock_file(path):
            # After a crash before this line the old record is in force, and the caller repeats
            # the same change at the next start.
            write_durably(path, msgspec.json.encode(project))

    def forget(self, project: Project) -> None:
        """Delete the record of a project that is now registered at another location."""
        path = self._file(project.path, project.database)
        with lock_file(path):
            path.unlink(missing_ok=True)

    def token_file(self, place: ProjectLocation) -> Path:
        """Return the path of the operator token of a project."""
        return self._file(place.path, place.database).with_suffix(".token")

    def _all(self) -> Iterator[Project]:
        for path in sorted(self._folder.glob("*.json")):
            with suppress(FileNotFoundError):  # another process has just deleted it
                yield _read(path)

    def _file(self, path: str, database: str) -> Path:
        name = sha256(f"{path}\0{database}".encode(errors="surrogateescape")).hexdigest()
        return self._folder / f"{name[:16]}.json"


def register_log(registry: ProjectRegistry, place: ProjectLocation, vkey: str, origin: str) -> str:
    """Register a log for the project at this location, and return a message for the operator.

    The caller has compared the key with the registered one.  The message is empty if the project is
    new or has not moved.
    """
    project = registry.find(place)
    here = (place.path, place.database, place.key_file)
    if project is not None and (project.path, project.database, project.key_file) == here:
        if project.pending is not None and project.pending.vkeys[-1] == vkey:
            registry.save(project.complete_pending())  # a crash came after the new key was in place
        return ""
    others = [project] if project is not None else registry.find_by_log(origin)
    others = [other for other in others if other.has_key(vkey)]
    if not others:
        registry.save(Project(*here, (ProjectEpoch(origin, (vkey,)),)))
        return ""
    # Write the new record before the old one is deleted: after a crash in between, the log is
    # registered at both locations, and never at none.
    moved = [other for other in others if _is_moved_from(other, place)]
    source = (moved or others)[0]
    registry.save(Project(*here, source.epochs, source.replaced, source.pending))
    for other in moved:
        if (other.path, other.database) != here[:2]:
            registry.forget(other)
    where = registry.find(place) or source
    if source.location_text == where.location_text:  # only the key file has moved
        return ""
    if moved:
        move = f"from {source.location_text} to {where.location_text}"
        return f"the ledger {origin} moved {move}; registered again"
    return (
        f"the ledger {origin} is in {source.location_text} too; both are registered, "
        "and as soon as they differ only one of them is signed"
    )


def public_address(url: str) -> str:
    """Return host, port and name of a database, which do not change with user or password."""
    if "://" in url:
        try:
            parts = urlsplit(url)
        except ValueError:  # opening the database reports what is wrong
            return sha256(url.encode()).hexdigest()[:16]
        named = dict(parse_qsl(parts.query))
        host, _, port = parts.netloc.rpartition("@")[2].partition(":")
        name = parts.path.lstrip("/")
    else:
        named = dict(word.split("=", 1) for word in url.split() if "=" in word)
        host = port = name = ""
    host = host or named.get("host") or named.get("hostaddr") or "local"
    return f"{host}:{port or named.get('port', '5432')}/{name or named.get('dbname', '')}"


def _is_moved_from(other: Project, place: ProjectLocation) -> bool:
    """Return whether a project is no longer at its registered location."""
    return other.path == place.path or _is_missing(other.key_file)


def _is_missing(path: str) -> bool:
    """Return whether a file does not exist; False if its folder cannot be searched."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _read(path: Path) -> Project:
    try:
        project = msgspec.json.decode(path.read_bytes(), type=Project)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed("project record", f"{path}: {error}") from None
    if not project.epochs or not all(epoch.vkeys for epoch in project.epochs):
        raise Malformed("project record", f"{path}: it names no log, or a log without a key")
    return project
