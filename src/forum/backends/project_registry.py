"""Which log belongs to which project, remembered outside every ledger.

Whoever deletes or exchanges a project's folder takes key, database and policy together; nothing in
the folder can then tell that another log was there.  So the state directory keeps one small file
for each project: its log, the keys that signed it, and the logs that it continues.

The record protects against loss and exchange of the folder.  Whoever can write to the state
directory can change it, and the guard and the local witness with it.
"""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from forum.backends.state_files import lock_file, write_durably
from forum.errors import Malformed


class ProjectEpoch(msgspec.Struct, frozen=True):
    """One log of a project, with the keys that signed it, the newest last."""

    origin: str
    vkeys: tuple[str, ...]


class ReplacedLogs(msgspec.Struct, frozen=True):
    """Logs that the operator has replaced by a new one on purpose, and when."""

    epochs: tuple[ProjectEpoch, ...]
    at: int


class Project(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of one project."""

    path: str
    database: str
    """The address of its Postgres database without user and password; empty for a file."""
    key_file: str
    epochs: tuple[ProjectEpoch, ...]
    """The oldest first; the last one is the log in use."""
    replaced: tuple[ReplacedLogs, ...] = ()
    pending: ProjectEpoch | None = None
    """What is about to be in use: a next epoch, or the same log under its next key."""

    @property
    def current(self) -> ProjectEpoch:
        """The log in use."""
        return self.epochs[-1]

    def has_key(self, vkey: str) -> bool:
        """Tell whether this key may sign now.

        While an epoch or a rotation is under way, the key file holds the old key or the new one:
        a crash at any point of it leaves a key that is known here.
        """
        pending = self.pending or self.current
        return vkey in (self.current.vkeys[-1], pending.vkeys[-1])

    def complete_pending(self) -> "Project":
        """Return the project with its pending epoch or rotation done."""
        if self.pending is None:
            return self
        same = self.pending.origin == self.current.origin
        epochs = (*(self.epochs[:-1] if same else self.epochs), self.pending)
        return msgspec.structs.replace(self, epochs=epochs, pending=None)

    @property
    def location_text(self) -> str:
        """Where the project is, for people."""
        return f"{self.path} ({self.database})" if self.database else self.path


class ProjectLocation(NamedTuple):
    """Where a project is, as its settings say."""

    path: str
    database: str
    key_file: str
    has_file: bool
    """Whether a project file names it: such a folder has one ledger, whatever its database."""


class ProjectRegistry:
    """The projects of one state directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, place: ProjectLocation) -> Project | None:
        """Return what is remembered of the project in a place."""
        path = self._file(place.path, place.database)
        if path.exists():
            return _read(path)
        if not place.has_file:
            return None
        return next((known for known in self._all() if known.path == place.path), None)

    def find_with_lost_key(self, place: ProjectLocation) -> Project | None:
        """Return a project of the same database whose key is gone from where it was.

        A folder that was moved without its key looks like a new project; only its database tells.
        """
        if not place.database:
            return None
        same = (known for known in self._all() if known.database == place.database)
        return next((known for known in same if _is_missing(known.key_file)), None)

    def find_by_log(self, origin: str) -> list[Project]:
        """Return the projects whose log in use this is."""
        return [
            known
            for known in self._all()
            if origin in (known.current.origin, (known.pending or known.current).origin)
        ]

    def save(self, project: Project) -> None:
        """Remember a project durably."""
        path = self._file(project.path, project.database)
        with lock_file(path):
            # Stopped before this: the old record holds, and the same is found and done again.
            write_durably(path, msgspec.json.encode(project))

    def forget(self, project: Project) -> None:
        """Forget a project that is remembered in another place now."""
        path = self._file(project.path, project.database)
        with lock_file(path):
            path.unlink(missing_ok=True)

    def token_file(self, place: ProjectLocation) -> Path:
        """Return where the token of the operator of a project is kept."""
        return self._file(place.path, place.database).with_suffix(".token")

    def _all(self) -> Iterator[Project]:
        for path in sorted(self._folder.glob("*.json")):
            with suppress(FileNotFoundError):  # forgotten by another process at this moment
                yield _read(path)

    def _file(self, path: str, database: str) -> Path:
        name = sha256(f"{path}\0{database}".encode(errors="surrogateescape")).hexdigest()
        return self._folder / f"{name[:16]}.json"


def register_log(registry: ProjectRegistry, place: ProjectLocation, vkey: str, origin: str) -> str:
    """Remember that a log belongs to the project in this place; return what to tell of it.

    The caller has compared the key with what was remembered.  Nothing is told of a project that
    is new, or that is where it was.
    """
    known = registry.find(place)
    here = (place.path, place.database, place.key_file)
    if known is not None and (known.path, known.database, known.key_file) == here:
        if known.pending is not None and known.pending.vkeys[-1] == vkey:
            registry.save(known.complete_pending())  # it was stopped after its key was put in place
        return ""
    others = [known] if known is not None else registry.find_by_log(origin)
    others = [other for other in others if other.has_key(vkey)]
    if not others:
        registry.save(Project(*here, (ProjectEpoch(origin, (vkey,)),)))
        return ""
    # The new record first: stopped in between, the log is remembered in both places.
    moved = [other for other in others if _is_moved_from(other, place)]
    source = (moved or others)[0]
    registry.save(Project(*here, source.epochs, source.replaced, source.pending))
    for other in moved:
        if (other.path, other.database) != here[:2]:
            registry.forget(other)
    where = registry.find(place) or source
    if source.location_text == where.location_text:  # only the key file is elsewhere
        return ""
    if moved:
        move = f"from {source.location_text} to {where.location_text}"
        return f"the ledger {origin} moved {move}; registered again"
    return (
        f"the ledger {origin} is in {source.location_text} too; both are registered, "
        "and as soon as they "
        "differ only one of them is signed"
    )


def public_address(url: str) -> str:
    """Return host, port and name of a database: what stays when a user or a password changes."""
    if "://" in url:
        try:
            parts = urlsplit(url)
        except ValueError:  # whoever opens the database says what is wrong with it
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
    """Tell whether a project is no more where it is remembered."""
    return other.path == place.path or _is_missing(other.key_file)


def _is_missing(path: str) -> bool:
    """Tell whether a file is not there; one in a folder that is closed to us may be."""
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
