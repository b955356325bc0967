"""The clock, the ids and the salts of this process, which the core takes as arguments."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from hashlib import sha256
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from forum.config import Settings
from forum.feature import load_kinds
from forum.features import FEATURES
from forum.installation import require_extra
from forum.ledger.kinds import LEDGER_KINDS
from forum.runs.kinds import WORK_KINDS
from forum.runs.report_kinds import REPORT_KINDS

if TYPE_CHECKING:
    from socket import socket

    from forum.stores.state_files import FileCheckpointStore


KINDS = reduce(or_, load_kinds(FEATURES), LEDGER_KINDS | WORK_KINDS | REPORT_KINDS)
"""All kinds of entries that this release knows."""

SESSION_KINDS = frozenset(kind.decode() for kind in KINDS.session_kinds)
"""The names of the kinds of entries that sessions of panels write."""


OPERATOR = "operator"


POLL_INTERVAL_S = 0.1


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


def read_ticks() -> int:
    """Return microseconds since some moment: a count that nobody sets back."""
    return time.monotonic_ns() // 1000


def new_salt() -> bytes:
    """Return a fresh salt for a body."""
    try:
        return _salts.pop()
    except IndexError:
        # Draw many salts with one system call: the call releases the interpreter lock, and other
        # threads may run before this one gets it back.
        block = os.urandom(32 * _SALT_BATCH_SIZE)
        _salts.extend(block[at : at + 32] for at in range(32, len(block), 32))
        return block[:32]


_SALT_BATCH_SIZE = 128


_salts: list[bytes] = []


# Otherwise parent and child would use the same salts after a fork. Equal bodies would have equal
# digests, and the content of an erased one could be found in the other.
os.register_at_fork(after_in_child=_salts.clear)


def new_run_id() -> str:
    """Return a new run id: a UUID version 7, so that ids sort by time (RFC 9562 section 5.7)."""
    from uuid import UUID

    stamp = (time.time_ns() // 1_000_000) << 80
    random = int.from_bytes(new_salt()[:10], "big")
    version = (random & ~(0xF << 76) & ~(0x3 << 62)) | 0x7 << 76 | 0x2 << 62
    return str(UUID(int=stamp | version))


@contextmanager
def import_without_gc(module: str) -> Iterator[None]:
    """Import a large module with garbage collection off, then exempt its objects from it.

    Collections took a quarter of a short command's time, although modules live as long as the
    process. Does nothing if the module is loaded already.
    """
    import gc
    import sys

    if module in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def upgrade_database(
    settings: Settings, *, post: bool = False, report: Callable[[str], None] = lambda _: None
) -> list[int]:
    """Migrate the schema of the configured Postgres; `post` locks out older releases.

    Return the versions that were applied, and say to `report` what is done.  Raises
    `UpgradeBlocked`.
    """
    with require_extra("postgres"):
        from forum.stores.postgres_schema import upgrade_schema

    return upgrade_schema(settings.database, post=post, report=report) if settings.database else []


def partition_database(
    settings: Settings, report: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Partition the large tables of the configured Postgres; return the tables that were changed.

    Raises `DatabaseInUse` and `UpgradeBlocked`.
    """
    with require_extra("postgres"):
        from forum.stores import postgres_schema

    if not settings.database:
        return []
    return postgres_schema.partition_database(settings.database, report=report)


def witness_memory(folder: Path, origin: str) -> "FileCheckpointStore":
    """Return the file in which a witness remembers its last checkpoint of a log."""
    from forum.stores.state_files import FileCheckpointStore

    return FileCheckpointStore(
        folder / "logs" / f"{origin_file_name(origin)}.note", "the witness's memory"
    )


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder in this order, each atomically and readable by its owner only."""
    from forum.stores.state_files import write_durably

    for name, data in files.items():
        write_durably(folder / name, data)


def pending_write_keys_path(path: Path) -> Path:
    """Return the path of the next epoch's write keys, until the next log is in use."""
    return path.with_name(f"{path.name}.next")


def origin_file_name(origin: str) -> str:
    """Return the name of the folder for a log; an origin may hold any characters."""
    return sha256(origin.encode()).hexdigest()[:16]


def bind_sockets(host: str, port: int, option: str = "--port") -> "list[socket]":
    """Return sockets bound to an address, not listening yet. Raises `PortUnusable`."""
    from forum.stores.sockets import bind_sockets

    return bind_sockets(host, port, option)
