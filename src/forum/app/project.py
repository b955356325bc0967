"""One project: its settings, keys, store and state files."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from forum import errors, tlog
from forum.app.checked_clock import CheckedClock
from forum.app.clock_ids_and_kinds import (
    KINDS,
    new_salt,
    now,
    origin_file_name,
    pending_write_keys_path,
    read_ticks,
    witness_memory,
)
from forum.config import SECTIONS, Settings
from forum.installation import require_extra
from forum.ledger import ports
from forum.ledger.archive import ArchiveLookup
from forum.ledger.entry import LOG_RUN, MAIN_STRAND
from forum.ledger.log import (
    Ledger,
)
from forum.ledger.own_entries import Composer
from forum.ledger.row_checks import SignedTree, WriterCheck, is_continued
from forum.ledger.run_directory import DirectoryReader, RunDirectory
from forum.ledger.secret_mask import SecretMask, is_secret_name
from forum.ledger.sequencer import ReadableEntries, Sequencer
from forum.ledger.strand import RUNS_STRAND, WRITE_KEY_MARK
from forum.ledger.witness_records import WitnessRecorder
from forum.ledger.write_tags import WriteKeys

if TYPE_CHECKING:
    from forum.stores.archive_stores import ArchiveReader
    from forum.stores.delta_bus import DeltaBus
    from forum.stores.postgres_connections import PostgresConnections
    from forum.stores.project_registry import ProjectEpoch, ProjectLocation, ProjectRegistry
    from forum.stores.state_files import FileCheckpointStore, StrandHeadFile
    from forum.stores.store_monitor import StoreMonitor

R = TypeVar("R", bound=ports.Reader)


_DATABASE_URL = "FORUM_DATABASE_URL"


_IDEMPOTENCY_VARIABLE = "FORUM_KEY"
"""Not a secret despite its name: the idempotency key is part of the record."""


def _warn(message: str) -> None:
    """Warn through `warnings`, for a program that passed no callback for warnings."""
    import warnings

    warnings.warn(message, RuntimeWarning, stacklevel=3)


def key_variables(settings: Settings) -> set[str]:
    """Return the environment variables that hold keys and secrets, as named in the project file.

    These are the keys of models and servers, the secrets of webhooks, and the headers of telemetry.
    """
    secrets = settings.sections.list_secrets(SECTIONS)
    return {variable for variable, title_of_file in secrets if not title_of_file}


def build_secret_mask(environ: Mapping[str, str], named: Collection[str] = ()) -> SecretMask:
    """Return a mask for the secrets of an environment, recognised by the names of the variables.

    Variables in `named` are secrets regardless of their names. The path of an existing file is not
    a secret. Of the database URL only the password is one.
    """
    from urllib.parse import unquote

    secrets = {
        name: value.strip()
        for name, value in environ.items()
        if name in named or (is_secret_name(name) and name.upper() != _IDEMPOTENCY_VARIABLE)
    }
    secrets = {name: value for name, value in secrets.items() if not _is_path(value)}
    quoted = read_password(environ.get(_DATABASE_URL, ""))
    secrets |= {_DATABASE_URL: unquote(quoted), f"{_DATABASE_URL}.quoted": quoted}
    return SecretMask.from_secrets({name: os.fsencode(value) for name, value in secrets.items()})


def _is_path(value: str) -> bool:
    # Not pathlib: `Path.exists` raises an error for a text that is too long for a path.
    return os.path.isabs(value) and os.path.exists(value)  # noqa: PTH110, PTH117


def read_password(url: str) -> str:
    """Return the password of a URL, still percent-encoded, or an empty string."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).password or ""
    except ValueError:  # opening the database reports what is wrong with the URL
        return ""


class ProjectContext:
    """One ledger with everything that it needs: store, key, guard and policy."""

    def __init__(
        self,
        settings: Settings,
        warn: Callable[[str], None] | None = None,
        *,
        register: bool = True,
        connections: "PostgresConnections | None" = None,
    ) -> None:
        """Prepare access to the ledger that the settings name; nothing is opened yet.

        `warn` is called with one line for each problem that stopped nothing, and for each notice.
        `register` tells whether the state directory may record that this log belongs to this
        project. `connections` are those that other projects in the same database use, too.
        """
        self.settings, self._connections = settings, connections
        self.warn, self._registers = warn or _warn, register
        self.notify = warn or (lambda _line: None)
        """Receives notices that are not faults; dropped unless the caller passed `warn`."""

    @cached_property
    def key(self) -> tlog.SigningKey:
        """The key that signs the log; its name is the log's origin.

        Raises `LogKeyMissing` or `LogKeyChanged` if this machine remembers another key for the log,
        and `NoLedger` if there is neither a key nor a memory of one.
        """
        from forum.stores.state_files import read_key

        key = read_key(self.settings.key_file) if self.settings.key_file.exists() else None
        self._check_key(key.verifier() if key else None)
        if key is None:
            raise errors.NoLedger(str(self.settings.data))
        return key

    def _check_key(self, key: tlog.VerifierKey | None) -> None:
        """Compare the key found for this project's log, if any, with the remembered one."""
        project = self.registry.find(self.place)
        if key is None:
            project = project or self.registry.find_with_lost_key(self.place)
            if project is not None:
                raise errors.LogKeyMissing(project.current.origin, str(self.settings.key_file))
        elif project is not None and not project.has_key(str(key)):
            raise errors.LogKeyChanged(
                project.current.origin, str(self.settings.key_file), key.name
            )

    @property
    def verifier(self) -> tlog.VerifierKey:
        """The public key: from the signing key, or on a machine that only writes from a file."""
        if "key" in self.__dict__ or self.settings.key_file.exists():
            return self.key.verifier()
        return self._public_key

    @cached_property
    def _public_key(self) -> tlog.VerifierKey:
        # A machine that only writes remembers no log. If this one remembers a log, it has lost the
        # log's key, and the check raises `LogKeyMissing`.
        self._check_key(None)
        path = self.settings.public_key_file
        if not path.exists():
            raise errors.NoLedger(str(self.settings.data))
        try:
            return tlog.VerifierKey.parse(path.read_text().strip())
        except (OSError, errors.Malformed) as error:
            raise errors.KeyUnreadable(str(path), str(error)) from None

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.verifier.name

    @cached_property
    def write_keys(self) -> WriteKeys | None:
        """The keys that tag entries; None on a machine that only reads.

        Raises `WrongWriteKey` if the key file belongs to another log.
        """
        from forum.stores.state_files import read_write_keys

        path = self.settings.write_key_file
        # The second file exists only while a new epoch begins. After a crash between replacing the
        # signing key and renaming that file, its keys are those of the log in use.
        for candidate in (path, pending_write_keys_path(path)):
            if candidate.exists():
                keys = read_write_keys(candidate)
                if keys.origin == self.origin:
                    return keys
        if path.exists():
            raise errors.WrongWriteKey(self.origin, "-", f"{path.name} is for {keys.origin}")
        return None

    def read_old_write_keys(self, origin: str) -> WriteKeys | None:
        """Return the keys that tagged the entries of a log that is left; None if they are gone."""
        from forum.stores.state_files import read_write_keys

        path = self.settings.write_key_file
        keys = read_write_keys(path) if path.exists() else None
        return keys if keys is not None and keys.origin == origin else None

    @cached_property
    def policy(self) -> tlog.WitnessPolicy:
        """The logs and witnesses that this reader trusts."""
        path = self.policy_file
        try:
            return tlog.WitnessPolicy.parse(path.read_bytes())
        except OSError as error:
            raise errors.KeyUnreadable(str(path), error.strerror or str(error)) from None

    @property
    def policy_file(self) -> Path:
        """The path of the witness policy."""
        return self.settings.policy or self.state / "policy"

    @cached_property
    def store(self) -> ports.Store:
        """The store, open for writing."""
        store = self._open_store()
        # Only now: a database that cannot be reached is not where the ledger has moved to.
        self.register()
        self._checked(store)
        for memory in (self.guard, self.seen, self.met):
            if (note := memory.latest()) is not None:
                checkpoint = tlog.parse_checkpoint(note)
                store.require_history(ports.TreeHead(checkpoint.size, checkpoint.root))
        return store

    def _open_store(self) -> ports.Store:
        if self.settings.database:
            with require_extra("postgres"):
                from forum.stores.postgres import PostgresStore

            return PostgresStore(
                self.settings.database,
                self.origin,
                shared=self._connections,
                after_look=self.remember_met,
                databases=self.settings.databases,
            )
        from forum.stores.sqlite import SqliteStore

        return SqliteStore(self.settings.ledger_file, self.origin)

    def open_signed_tree(self) -> SignedTree:
        """Return the newest tree that a key of this log signed."""
        return SignedTree(self.store, (self.verifier, *self.earlier_keys()))

    def _checked(self, reader: R) -> R:
        """Make a reader accept only rows that writers of this log wrote, and return the reader."""
        keys = (self.verifier, *self.earlier_keys())
        reader.check = WriterCheck(
            reader,
            self.write_keys,
            log_keys=keys,
            reload=self.reload_write_keys,
            control=self.control_keys,
        )
        reader.archive = self.make_archive(reader)
        return reader

    def make_archive(self, reader: ports.EntryReader) -> ArchiveLookup:
        """Return what finds the archived runs of a log."""
        return ArchiveLookup(reader, KINDS, self._archive_reader.fetch)

    @cached_property
    def _archive_reader(self) -> "ArchiveReader":
        from forum.stores.archive_stores import ArchiveReader

        return ArchiveReader()

    @cached_property
    def delta_bus(self) -> "DeltaBus":
        """Transport for partial model replies, between all processes that share the database."""
        # Without a write key there is no secret to find the other processes by.
        if self.settings.database and self.write_keys is not None:
            with require_extra("postgres"):
                from forum.stores.postgres_delta_bus import PostgresDeltaBus

            secret = self.write_keys.current.secret
            return PostgresDeltaBus(self.settings.database, self.origin, secret)
        from forum.stores.delta_bus import LocalDeltaBus

        return LocalDeltaBus()

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, for writing and reading."""
        keys = self.write_keys
        append = None if keys else self._append_without_key
        return Ledger(
            store=self.store,
            kinds=KINDS,
            clock=now,
            salts=new_salt,
            append=append,
            mask=self.mask,
            tags=keys,
            control=self.control_keys,
            may_control=self.may_control,
            dating_clock=self.dating_clock,
            set_aside=self.set_aside_foreign_rows,
        )

    def set_aside_foreign_rows(self) -> None:
        """Move rows that no writer of this log wrote out of the way.

        Reading one raises `TamperDetected`, so a single one at the end of a strand would keep
        others from writing there.
        """
        with suppress(errors.ConcurrentUpdate):  # another process is sequencing
            self.sequencer.sequence_batch()

    @cached_property
    def dating_clock(self) -> CheckedClock | None:
        """The clock that dates entries, beside that of the database; None for a ledger in a file.

        It raises `ClockOff` instead of a time that differs from the database's.
        """
        if not self.settings.database:
            return None
        return CheckedClock(now, read_ticks, self.store.now)

    @cached_property
    def control_keys(self) -> WriteKeys | None:
        """The key for entries about the log itself; only on the machine that signs."""
        from forum.stores.state_files import read_write_keys

        path = self.control_key_file
        return read_write_keys(path) if path.exists() else None

    @property
    def control_key_file(self) -> Path:
        """Where the machine that signs keeps the key for control entries."""
        return self.control_key_file_of(self.origin)

    def control_key_file_of(self, origin: str) -> Path:
        """Return where that key of a log is."""
        return self.log_folder(origin) / "control.key"

    def _append_without_key(self, records: Sequence[ports.EntryWrite]) -> None:
        """Append without tags to a log of a release that had none; refuse for any other log.

        Raises `WrongWriteKey`. Otherwise an entry from a machine without the write key would be
        acknowledged, and the sequencer would quarantine it later.
        """
        if self.store.strand_head(WRITE_KEY_MARK) is not None:
            why = f"{self.settings.write_key_file} is not there"
            raise errors.WrongWriteKey(self.origin, "-", why)
        self.store.append(records)

    @property
    def sequencer(self) -> Sequencer:
        """The object that gives entries their indexes."""
        return Sequencer(
            self.store,
            self.write_keys,
            self.reload_write_keys,
            self.control_keys,
            is_signer=self.may_control,
            writer=self.ledger.writer,
            composers=tuple(self._composers()),
            readable=self.readable,
        )

    @cached_property
    def readable(self) -> ReadableEntries:
        """What sequencer and signer of this process know of entries that can be read."""
        return ReadableEntries(KINDS)

    def _composers(self) -> Iterator[Composer]:
        yield RunDirectory(self.store)
        # Without a policy, as on a worker, the next batch of a machine that has one records them.
        if self.policy_file.exists():
            yield WitnessRecorder(self.store, self.policy.witness_keys, self.cosigned.latest)

    def reload_write_keys(self) -> WriteKeys | None:
        """Read the write keys again: another process may have rotated them."""
        from forum.stores.state_files import read_write_keys

        path = self.settings.write_key_file
        keys = read_write_keys(path) if path.exists() else None
        return keys if keys is not None and keys.origin == self.origin else None

    @cached_property
    def mask(self) -> SecretMask:
        """The secrets that this process was started with, which must not be recorded."""
        environ = {**os.environ, _DATABASE_URL: self.settings.database or ""}
        return build_secret_mask(environ, key_variables(self.settings))

    @property
    def is_signer(self) -> bool:
        """Whether this machine signs the log: it remembers the last checkpoint that it signed."""
        if not self.settings.key_file.exists():
            return False
        return self.guard.latest() is not None or self.store.checkpoint() is None

    @property
    def may_control(self) -> bool:
        """Whether control entries are written here: on the signer's machine, and in a new log."""
        return self.is_signer or self.store.checkpoint() is None

    @cached_property
    def monitor(self) -> "StoreMonitor":
        """The monitor of the database's availability; it logs each change."""
        from forum.stores.store_monitor import StoreMonitor

        return StoreMonitor(self.store, now, self._signed_size)

    def _signed_size(self) -> int:
        """Return the size of the last checkpoint that was signed on this machine."""
        note = self.guard.latest()
        return 0 if note is None else tlog.parse_checkpoint(note).size

    @contextmanager
    def open_reader(self) -> Iterator[ports.Reader]:
        """Open a read-only snapshot of the ledger."""
        with self.snapshot() as reader:
            yield self._checked(reader)

    def close(self) -> None:
        """Close the database connections."""
        if "delta_bus" in self.__dict__:
            self.delta_bus.close()
        if "store" in self.__dict__:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def use_write_keys(self, keys: WriteKeys) -> None:
        """Make everything that is open write and read with these keys."""
        self.write_keys = keys
        if "store" in self.__dict__:
            self._checked(self.store)
        self.__dict__.pop("ledger", None)

    def close_log(self) -> None:
        """Close everything that was opened for the log in use before."""
        self.close()
        names = (
            *("key", "_public_key", "write_keys", "control_keys", "policy", "store", "ledger"),
            *("delta_bus", "dating_clock"),
        )
        for name in names:
            self.__dict__.pop(name, None)

    @contextmanager
    def open_log(self, origin: str) -> Iterator[ports.Reader | None]:
        """Open another log of the same database; yield None if it does not exist."""
        with ExitStack() as opened:
            try:
                reader: ports.Reader | None = opened.enter_context(self._reader_of(origin))
                if reader is not None:
                    reader.archive = self.make_archive(reader)
            except errors.NoSuchLog:
                reader = None
            yield reader

    def stop_appends(self, origin: str) -> None:
        """Let nobody append to a log from now on, in any process; it can still be signed."""
        if self.settings.database:
            from forum.stores import postgres

            postgres.stop_appends(self.settings.database, origin, self.settings.databases)
        elif self.settings.ledger_file.exists():
            from forum.stores import sqlite

            sqlite.stop_appends(self.settings.ledger_file, origin)

    def end_log(self, origin: str) -> None:
        """Let nobody change a log from now on, in any process, if it exists."""
        if self.settings.database:
            from forum.stores import postgres

            postgres.end_log(self.settings.database, origin, self.settings.databases)
        elif self.settings.ledger_file.exists():
            from forum.stores import sqlite

            sqlite.end_log(self.settings.ledger_file, origin)

    def reopen_log(self, origin: str) -> None:
        """Let processes add to a log again that was ended."""
        if self.settings.database:
            from forum.stores import postgres

            postgres.reopen_log(self.settings.database, origin, self.settings.databases)
        elif self.settings.ledger_file.exists():
            from forum.stores import sqlite

            sqlite.reopen_log(self.settings.ledger_file, origin)

    def _reader_of(self, origin: str) -> AbstractContextManager[ports.Reader]:
        if self.settings.database:
            with require_extra("postgres"):
                from forum.stores.postgres_reader import open_reader

            return open_reader(self.settings.database, origin, self.settings.databases)
        from forum.stores import sqlite

        if not self.settings.ledger_file.exists():
            raise errors.NoSuchLog(origin)
        return sqlite.open_reader(self.settings.ledger_file, origin)

    def earlier_keys(self) -> tuple[tlog.VerifierKey, ...]:
        """Return the keys that this log had before the one in use."""
        project = self.registry.find(self.place)
        own, epochs = str(self.verifier), [*self.known_epochs()]
        if project is not None and project.pending is not None:
            epochs.append(project.pending)
        earlier = [e.vkeys[: e.vkeys.index(own)] for e in epochs if own in e.vkeys]
        return tuple(tlog.VerifierKey.parse(vkey) for vkeys in earlier for vkey in vkeys)

    @cached_property
    def registry(self) -> "ProjectRegistry":
        """What this machine remembers of its projects and their logs."""
        from forum.stores.project_registry import ProjectRegistry

        return ProjectRegistry(self.settings.state / "projects")

    @cached_property
    def place(self) -> "ProjectLocation":
        """Where this project is: the key under which the registry remembers it."""
        from forum.stores.project_registry import ProjectLocation, public_address

        settings = self.settings
        return ProjectLocation(
            path=str(settings.data.resolve()),
            database=public_address(settings.database) if settings.database else "",
            key_file=str(settings.key_file.resolve()),
            has_file=settings.file is not None,
        )

    def register(self) -> None:
        """Record that this log belongs to this project; notify if the project has moved."""
        from forum.stores.project_registry import register_log

        key = self.verifier
        if not self._registers or not self.settings.key_file.exists():
            return
        try:
            line = register_log(self.registry, self.place, str(key), key.name)
        except errors.StoreFailed as error:
            # The registry is unchanged, and a full disk must not stop readers.
            line = f"which log belongs to this project could not be remembered: {error}"
        if line:
            self.notify(line)

    def known_epochs(self) -> "tuple[ProjectEpoch, ...]":
        """Return the logs of this project that this machine remembers, the oldest first."""
        project = self.registry.find(self.place)
        return project.epochs if project is not None else ()

    def log_folder(self, origin: str) -> Path:
        """Return the folder in which this machine keeps its state about a log."""
        return self.settings.state / "logs" / origin_file_name(origin)

    def memory(self, origin: str, name: str, what: str = "a memory") -> "FileCheckpointStore":
        """Return a file in which this machine keeps a checkpoint of a log."""
        from forum.stores.state_files import FileCheckpointStore

        return FileCheckpointStore(self.log_folder(origin) / name, what)

    @property
    def state(self) -> Path:
        """The folder in which this machine keeps its state about the log in use."""
        return self.log_folder(self.origin)

    @property
    def guard(self) -> "FileCheckpointStore":
        """The last checkpoint that this machine signed."""
        return self.memory(self.origin, "guard.note", "the signer's guard")

    @property
    def cosigned(self) -> "FileCheckpointStore":
        """The last checkpoint that witnesses cosigned for this machine, with their lines."""
        return self.memory(self.origin, "cosigned.note", "the signer's cosigned note")

    @property
    def heads(self) -> "StrandHeadFile":
        """The last entries of the tagged strands that this machine has seen."""
        return self.heads_of(self.origin)

    def heads_of(self, origin: str) -> "StrandHeadFile":
        """Return the same for another log."""
        from forum.stores.state_files import StrandHeadFile

        return StrandHeadFile(self.log_folder(origin) / "heads")

    def remembered_checkpoints(self) -> tuple[bytes, ...]:
        """Return the last checkpoints that this machine has signed, verified or cosigned."""
        memories = (self.guard, self.seen, self.witness_memory(self.origin))
        return tuple(dict.fromkeys(note for note in (m.latest() for m in memories) if note))

    def remembered_trees(self) -> frozenset[tlog.Checkpoint]:
        """Return the trees that this machine has seen; read them before the database is read."""
        return frozenset(map(tlog.parse_checkpoint, self.remembered_checkpoints()))

    def check_continues(self, reader: ports.TreeReader, seen: Iterable[tlog.Checkpoint]) -> None:
        """Raise `TamperDetected` if the database does not continue trees that were seen before.

        Lists and sums of an old copy, or of an emptied database, would leave out what is newer.
        """
        head = reader.head()
        for tree in seen:
            if not is_continued(reader, tree, head):
                why = (
                    f"it has {head.size} entries, and does not continue the tree of {tree.size} "
                    "that this machine has seen; put the newer database back, or begin a new "
                    "epoch: forum ledger epoch"
                )
                raise errors.TamperDetected(f"the log {self.origin}", why)

    def check_not_lost(self) -> None:
        """Raise `TamperDetected` if the database has no entry, and this machine has seen some.

        A log that began again under the same name would contradict what was signed.
        """
        trees = self.remembered_trees()
        if trees and next(self.store.strand_rows(LOG_RUN, MAIN_STRAND), None) is None:
            self.check_continues(self.store, trees)

    def _is_signed(self, leaf: str) -> bool:
        tree = SignedTree(self.store, (self.verifier, *self.earlier_keys()))
        return tree.has_leaf(tlog.Hash.from_hex(leaf))

    def open_directory(self) -> DirectoryReader:
        """Return a list of all runs, whose end is compared with the one last seen here.

        Raises `TamperDetected` if the database is older than what was seen.
        """
        self.check_continues(self.store, self.remembered_trees())
        heads = self.heads
        remembered = heads.latest(RUNS_STRAND)

        def remember(n: int, leaf: str) -> None:
            # Nothing that a signed tree does not have: a forged end would be missed for ever once
            # it was set aside.
            if (remembered and remembered[0] >= n) or not self._is_signed(leaf):
                return
            # The runs are listed also where this user may not write.
            with suppress(errors.StoreFailed):
                heads.advance({RUNS_STRAND: (n, leaf)})

        return DirectoryReader(
            self.store, kinds=KINDS, keys=self.write_keys, remembered=remembered, remember=remember
        )

    @property
    def seen(self) -> "FileCheckpointStore":
        """The last checkpoint that a reader on this machine has verified."""
        return self.memory(self.origin, "seen.note", "the reader's memory")

    @property
    def met(self) -> "FileCheckpointStore":
        """The last checkpoint that a process of this machine has found in the database."""
        return self.memory(self.origin, "met.note", "the memory of what was met")

    def remember_met(self) -> None:
        """Remember the newest checkpoint, for processes that begin after a failover.

        A machine that signs needs no such memory: its guard knows the last checkpoint.
        """
        note = None if self.is_signer else self.store.checkpoint()
        if note is None:
            return
        keys = (self.verifier, *self.earlier_keys())
        # A note that no key of this log signed, a full disk and another process that was faster
        # leave the memory as it is.
        with suppress(
            errors.Malformed, errors.SignatureRejected, errors.ConcurrentUpdate, errors.StoreFailed
        ):
            checkpoint, last = tlog.open_checkpoint(note, keys)[0], self.met.latest()
            if last is None or tlog.parse_checkpoint(last).size < checkpoint.size:
                self.met.advance(last, note)

    @property
    def run_state_file(self) -> Path:
        """The path of the state that an incremental verification continues from."""
        return self.state / "seen.db"

    def witness_memory(self, origin: str) -> "FileCheckpointStore":
        """Return the last checkpoint of a log that this machine's witness cosigned."""
        return witness_memory(self.settings.state / "witness", origin)

    def snapshot(self) -> AbstractContextManager[ports.Reader]:
        """Return a read-only snapshot whose rows are not checked yet."""
        if self.settings.database or "store" in self.__dict__:
            return self.store.snapshot()
        from forum.stores.sqlite import open_reader

        # Read first: this raises `LogKeyMissing` if this machine remembers a log here whose key is
        # gone, whereas `NoLedger` would advise to make a new log in its place.
        origin = self.origin
        if not self.settings.ledger_file.exists():
            raise errors.NoLedger(str(self.settings.data))
        return open_reader(self.settings.ledger_file, origin)
