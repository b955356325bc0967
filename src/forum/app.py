"""Composition root: connect the packages and give every surface one object to call.

Only this module may import every package. It puts adapters behind ports, and makes the clock, the
ids and the salts that the core takes as arguments. Backends are imported inside functions, so that
a command loads only the modules that it uses.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct
from msgspec.json import encode as encode_json
from msgspec.structs import replace as replace_struct

from forum import __version__, metrics, tlog
from forum.config import Settings, WorkerCapacity
from forum.deliberation.council_kinds import COUNCIL_KINDS
from forum.deliberation.steps import NoteBody, Session
from forum.deliberation.steps import SessionNote as Noted
from forum.deliberation.symposium.kinds import SYMPOSIUM_KINDS
from forum.errors import (
    AmbiguousRun,
    BodyGone,
    ConcurrentUpdate,
    ForumError,
    GuardMissing,
    IdempotencyKeyUsed,
    KeyUnreadable,
    LogKeyChanged,
    LogKeyMissing,
    Malformed,
    NoLedger,
    NoSuchEntry,
    NoSuchKey,
    NoSuchLog,
    NoSuchRun,
    RotationRefused,
    RunNotEnded,
    StoreFailed,
    TamperDetected,
    WitnessRefused,
    WitnessUnreachable,
    WrongWriteKey,
    require_extra,
)
from forum.ledger import kinds, ports
from forum.ledger.access import (
    ACCESS_STRAND,
    DENIALS_STRAND,
    AccessState,
    ApiKey,
    Grant,
    fold_access,
)
from forum.ledger.body import Content, text_content
from forum.ledger.bundle import BundleReader, gather_bundle
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry, leaf_of
from forum.ledger.key_rotation import KEYS_STRAND
from forum.ledger.log import (
    Ledger,
    LocatedEntry,
    check_body,
    check_strand_head,
    is_before,
    locate_run,
    read_body,
    read_strand_entries,
)
from forum.ledger.row_checks import NoRowCheck, SignedTree, WriterCheck
from forum.ledger.secret_mask import SecretMask, is_secret_name
from forum.ledger.sequencer import Publication, Publisher, Sequencer
from forum.ledger.strand import TAGGED_STRANDS, WRITE_KEY_MARK, Attachment, Draft
from forum.ledger.write_tags import WriteKey, WriteKeys
from forum.work import run_fold
from forum.work.claims import ActionClaim, read_claims
from forum.work.gate_rules import GateRule
from forum.work.kinds import (
    TURN_PREFIX,
    WORK_KINDS,
    AcceptedFacts,
    Authority,
    Decider,
    GateDecisionByFacts,
    GateDecisionFacts,
    Identity,
    gate_strand,
    task_strand,
)
from forum.work.plan import Plan, read_plan
from forum.work.policy import Answer, read_policy
from forum.work.run_comparison import Divergence, compare_steps
from forum.work.run_record import RunRecord, sort_by_index
from forum.work.shared_caps import LEDGER, Period, SharedCap
from forum.work.team_settings import read_gate_rules, read_shared_caps

if TYPE_CHECKING:
    from socket import socket

    from forum.backends.dbos_worker import Worker
    from forum.backends.delta_bus import DeltaBus
    from forum.backends.log_auditor import LogAuditor
    from forum.backends.operator_token import OperatorToken
    from forum.backends.project_registry import ProjectEpoch, ProjectLocation, ProjectRegistry
    from forum.backends.state_files import FileCheckpointStore, StrandHeadFile
    from forum.backends.store_monitor import StoreMonitor
    from forum.backends.tampering import DatabaseTamperer
    from forum.engine import IdempotencyKey, RunContext, RunRequest, SharedBudgets
    from forum.verify import (
        AuditReport,
        EarlierLogs,
        Report,
        RunSnapshot,
        SegmentRunner,
        Trust,
        VerifiedCheckpoint,
    )
    from forum.witness import AuditCheckpoint, Witness, WitnessClient, WitnessReply
    from forum.work.plan import RunBudget
    from forum.work.policy import Policy as WorkPolicy

DELIBERATION_KINDS = COUNCIL_KINDS | SYMPOSIUM_KINDS
KINDS = kinds.LEDGER_KINDS | WORK_KINDS | DELIBERATION_KINDS
"""All kinds of entries that this release knows."""

OPERATOR = "operator"


class Approver(Struct, frozen=True):
    """An actor who decides at a gate, and the authority for the decision."""

    actor: str
    authority: Authority
    identity: Identity | None = None
    """The person that the access token names; recorded in a body only, which can be erased."""


LOCAL_OPERATOR = Approver(OPERATOR, Authority.OPERATOR)
R = TypeVar("R", bound=ports.Reader)
_POLL_INTERVAL_S = 0.1
_MAX_ERROR_CHARS = 2000
_MAX_DETAILED_TASKS = 1000
"""Limit of tasks for which a view reads details; no screen shows more."""
_RUNS_PAGE_SIZE = 100
"""Page size for reading runs where a filter may drop some of them."""
_MAX_CLOCK_SKEW_US = 60_000_000
"""Tolerated difference between the clocks of two writers, in microseconds."""
_MIN_RUN_PREFIX_CHARS = 8
_MAX_COMPARED = 100
"""Limit of runs that are compared with the prefix of a run id."""
_MIN_PARALLEL_ENTRIES = 100_000
"""Log size from which starting verification processes takes less time than it saves."""
_DATABASE_URL = "FORUM_DATABASE_URL"
_IDEMPOTENCY_VARIABLE = "FORUM_KEY"
"""Not a secret despite its name: the idempotency key is part of the record."""


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


def _warn(message: str) -> None:
    """Warn through `warnings`, for a program that passed no callback for warnings."""
    import warnings

    warnings.warn(message, RuntimeWarning, stacklevel=3)


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
# A forked child must not use the salts that its parent has already drawn.
os.register_at_fork(after_in_child=_salts.clear)


def new_run_id() -> str:
    """Return a new run id: a UUID version 7, so that ids sort by time (RFC 9562 section 5.7)."""
    from uuid import UUID

    stamp = (time.time_ns() // 1_000_000) << 80
    random = int.from_bytes(new_salt()[:10], "big")
    version = (random & ~(0xF << 76) & ~(0x3 << 62)) | 0x7 << 76 | 0x2 << 62
    return str(UUID(int=stamp | version))


def key_variables(settings: Settings) -> set[str]:
    """Return the environment variables that hold keys and secrets, as named in the project file.

    These are the keys of models and servers, and the secrets of webhooks.
    """
    sections = [settings.team.get(kind, {}) for kind in ("models", "servers")]
    named = [one.get("key_env", "") for section in sections for one in section.values()]
    told = settings.doors.get("webhooks", {}).values()
    return {str(name) for name in (*named, *(one.get("secret_env", "") for one in told))} - {""}


def build_secret_mask(environ: Mapping[str, str], named: Collection[str] = ()) -> SecretMask:
    """Return a mask for the secrets of an environment, recognised by the names of the variables.

    Variables in `named` are secrets regardless of their names. The path of an existing file is not
    a secret. Of the database URL only the password is one.
    """
    from urllib.parse import unquote

    found = {
        name: value.strip()
        for name, value in environ.items()
        if name in named or (is_secret_name(name) and name.upper() != _IDEMPOTENCY_VARIABLE)
    }
    found = {name: value for name, value in found.items() if not _is_path(value)}
    quoted = read_password(environ.get(_DATABASE_URL, ""))
    found |= {_DATABASE_URL: unquote(quoted), f"{_DATABASE_URL}.quoted": quoted}
    return SecretMask.from_secrets({name: os.fsencode(value) for name, value in found.items()})


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


@contextmanager
def _import_without_gc(module: str) -> Iterator[None]:
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


class RedactionResult(Struct, frozen=True):
    """The result of a redaction."""

    entry: str
    erased: int
    publication: Publication


class EpochStart(Struct, frozen=True):
    """The log that continues another one."""

    origin: str
    key: tlog.VerifierKey
    has_new_key: bool
    """Whether the old key was lost, so that readers have to pin another public key."""


class SigningKeyRotation(Struct, frozen=True):
    """The result of replacing a log's signing key."""

    old: tlog.VerifierKey
    key: tlog.VerifierKey
    publication: Publication


class RunView(Struct, frozen=True):
    """A run with the bodies that its entries commit to, except erased ones."""

    run: str
    state: run_fold.Run
    at: int
    """The time of this view, in microseconds since 1970."""
    request: str | None
    plan: Plan | None
    answer: bytes | None
    errors: Mapping[str, str]
    """The beginning of the last error that an agent's system reported, by task."""
    gates: tuple[tuple[str, run_fold.Gate], ...]
    """Open gates of this run and of the runs that it delegated to, each with its run."""
    entries: Mapping[str, int] = {}
    """The index of the last entry of each task."""
    until: int | None = None
    """The index at which the view stops; None if it covers the whole run."""
    claims: tuple[ActionClaim, ...] = ()
    """Actions that the answer claims to have taken."""
    places: Mapping[str, int] = {}
    """The indexes of the route, of tool uses and of checks, by entry id in hex."""
    session: Session | None = None
    """The subject and policy of a panel, if the run is a session and they were not erased."""
    notes: tuple[Noted, ...] = ()
    """The session's entries, without the bodies that were erased."""
    replies: Mapping[str, str] = {}
    """The beginning of the last reply of each task that did not pass."""


class BudgetStatus(Struct, frozen=True):
    """A cap over many runs, and its use by one key, one lane or the whole ledger."""

    cap: SharedCap
    use: ports.BudgetUse


class Forum:
    """One ledger with everything that it needs: store, key, guard, policy and witnesses."""

    def __init__(
        self,
        settings: Settings,
        warn: Callable[[str], None] | None = None,
        *,
        register: bool = True,
    ) -> None:
        """Prepare access to the ledger that the settings name; nothing is opened yet.

        `warn` is called with one line for each problem that stopped nothing, and for each notice.
        `register` tells whether the state directory may record that this log belongs to this
        project.
        """
        self.settings = settings
        self._warn, self._registers = warn or _warn, register
        self._notify = warn or (lambda _line: None)
        """Receives notices that are not faults; dropped unless the caller passed `warn`."""
        self._clock_was_named = False
        self._counters = metrics.EntryCounters(KINDS)
        self._worker: Worker | None = None

    # Keys, store and other parts of the ledger

    @cached_property
    def key(self) -> tlog.SigningKey:
        """The key that signs the log; its name is the log's origin.

        Raises `LogKeyMissing` or `LogKeyChanged` if this machine remembers another key for the log,
        and `NoLedger` if there is neither a key nor a memory of one.
        """
        from forum.backends.state_files import read_key

        key = read_key(self.settings.key_file) if self.settings.key_file.exists() else None
        self._check_key(key.verifier() if key else None)
        if key is None:
            raise NoLedger(str(self.settings.data))
        return key

    def _check_key(self, key: tlog.VerifierKey | None) -> None:
        """Compare the key found for this project's log, if any, with the remembered one."""
        project = self._registry.find(self._place)
        if key is None:
            project = project or self._registry.find_with_lost_key(self._place)
            if project is not None:
                raise LogKeyMissing(project.current.origin, str(self.settings.key_file))
        elif project is not None and not project.has_key(str(key)):
            raise LogKeyChanged(project.current.origin, str(self.settings.key_file), key.name)

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
            raise NoLedger(str(self.settings.data))
        try:
            return tlog.VerifierKey.parse(path.read_text().strip())
        except (OSError, Malformed) as error:
            raise KeyUnreadable(str(path), str(error)) from None

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.verifier.name

    @cached_property
    def write_keys(self) -> WriteKeys | None:
        """The keys that tag entries; None on a machine that only reads.

        Raises `WrongWriteKey` if the key file belongs to another log.
        """
        from forum.backends.state_files import read_write_keys

        path = self.settings.write_key_file
        # The second file exists only while a new epoch begins. After a crash between replacing the
        # signing key and renaming that file, its keys are those of the log in use.
        for candidate in (path, _pending_write_keys_path(path)):
            if candidate.exists():
                keys = read_write_keys(candidate)
                if keys.origin == self.origin:
                    return keys
        if path.exists():
            raise WrongWriteKey(self.origin, "-", f"{path.name} is for {keys.origin}")
        return None

    @cached_property
    def policy(self) -> tlog.WitnessPolicy:
        """The logs and witnesses that this reader trusts."""
        path = self.policy_file
        try:
            return tlog.WitnessPolicy.parse(path.read_bytes())
        except OSError as error:
            raise KeyUnreadable(str(path), error.strerror or str(error)) from None

    @property
    def policy_file(self) -> Path:
        """The path of the witness policy."""
        return self.settings.policy or self._state / "policy"

    @cached_property
    def store(self) -> ports.Store:
        """The store, open for writing."""
        self._register()
        if self.settings.database:
            with require_extra("postgres"):
                from forum.backends.postgres import PostgresStore

            return self._checked(PostgresStore(self.settings.database, self.origin))
        from forum.backends.sqlite import SqliteStore

        return self._checked(SqliteStore(self.settings.ledger_file, self.origin))

    def _checked(self, reader: R) -> R:
        """Make a reader accept only rows that writers of this log wrote, and return the reader."""
        keys = (self.verifier, *self._earlier_keys())
        reader.check = WriterCheck(reader, self.write_keys, keys, self._reload_write_keys)
        return reader

    @cached_property
    def delta_bus(self) -> "DeltaBus":
        """Transport for partial model replies, between all processes that share the database."""
        if self.settings.database:
            with require_extra("postgres"):
                from forum.backends.postgres_delta_bus import PostgresDeltaBus

            return PostgresDeltaBus(self.settings.database, self.origin)
        from forum.backends.delta_bus import LocalDeltaBus

        return LocalDeltaBus()

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, for writing and reading."""
        keys = self.write_keys
        append = None if keys else self._append_without_key
        return Ledger(self.store, KINDS, now, new_salt, append, mask=self.mask, tags=keys)

    def _append_without_key(self, records: Sequence[ports.EntryWrite]) -> None:
        """Append without tags to a log of a release that had none; refuse for any other log.

        Raises `WrongWriteKey`. Otherwise an entry from a machine without the write key would be
        acknowledged, and the sequencer would quarantine it later.
        """
        if self.store.strand_head(WRITE_KEY_MARK) is not None:
            why = f"{self.settings.write_key_file} is not there"
            raise WrongWriteKey(self.origin, "-", why)
        self.store.append(records)

    @property
    def sequencer(self) -> Sequencer:
        """The object that gives entries their indexes."""
        return Sequencer(self.store, self.write_keys, self._reload_write_keys)

    def _reload_write_keys(self) -> WriteKeys | None:
        """Read the write keys again: another process may have rotated them."""
        from forum.backends.state_files import read_write_keys

        path = self.settings.write_key_file
        keys = read_write_keys(path) if path.exists() else None
        return keys if keys is not None and keys.origin == self.origin else None

    @cached_property
    def mask(self) -> SecretMask:
        """The secrets that this process was started with, which must not be recorded."""
        given = {**os.environ, _DATABASE_URL: self.settings.database or ""}
        return build_secret_mask(given, key_variables(self.settings))

    @contextmanager
    def open_writer(self) -> Iterator[Ledger]:
        """Open the ledger for many writers: threads call `append`, tasks `append_async`.

        Entries that arrive at about the same time share one commit. Indexes, signatures and
        cosignatures are added in the background; when the block ends, every entry has been
        published.
        """
        from forum.backends.group_commit import GroupCommitter

        self.ledger.check_write_key()
        with self._publish_in_background() as check:
            committer = GroupCommitter(self.store)

            def append(records: Sequence[ports.EntryWrite]) -> None:
                check()
                committer.append(records)
                self._counters.count(records)

            async def append_async(records: Sequence[ports.EntryWrite]) -> None:
                check()
                await committer.append_async(records)
                self._counters.count(records)

            before = self.ledger
            self.ledger = Ledger(
                self.store,
                KINDS,
                now,
                new_salt,
                append,
                append_async,
                mask=self.mask,
                tags=self.write_keys,
            )
            try:
                yield self.ledger
            finally:
                self.ledger = before
                # Close the committer before the publisher loop, which signs the committer's last
                # entries too.
                committer.close()

    @property
    def is_signer(self) -> bool:
        """Whether this machine signs the log: it remembers the last checkpoint that it signed."""
        if not self.settings.key_file.exists():
            return False
        return self._guard.latest() is not None or self.store.checkpoint() is None

    @contextmanager
    def _publish_in_background(self) -> Iterator[Callable[[], None]]:
        """Sequence and sign the log in a background thread, if this machine signs it.

        Yield a function that raises the failure of that thread. On any other machine entries are
        only appended; the signing machine sequences and signs them.
        """
        from forum.backends.publisher_loop import PublisherLoop

        if not self.is_signer:
            yield lambda: None
            return
        keeper = PublisherLoop(self.store, self.sequencer, self.publisher, self._warn_of_clock)
        try:
            yield keeper.raise_failure
        finally:
            try:
                keeper.close()
            except StoreFailed as error:
                # Every acknowledged entry is durable; only the signature is missing.
                self._warn_unsigned(error)

    @contextmanager
    def run_worker(
        self,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
        patience: int = 0,
    ) -> "Iterator[Worker]":
        """Execute runs in this process, beside other workers, until the block ends."""
        with _import_without_gc("forum.backends.dbos_worker"):
            from forum.backends.dbos_worker import Worker, prepare_sqlite_queue
            from forum.engine import Engine
            from forum.models import make_model, make_tool
            from forum.models.sandbox import make_sandbox

        # Check the sandbox before the first run is claimed: a tool that must be confined must never
        # run outside it.
        sandbox = make_sandbox(self.settings)
        if sandbox is not None:
            sandbox.check_usable()
        models, tools = partial(make_model, sandbox=sandbox), partial(make_tool, sandbox=sandbox)
        url = self.settings.database or prepare_sqlite_queue(self.settings.engine_file)
        if self.write_keys is None and self.is_signer:
            # A worker may be the first process of this release. Without the key it would write
            # entries without tags for as long as it runs, and be refused once tags are enforced.
            self.initialise()
        with self.open_writer() as ledger:
            engine = Engine(
                ledger,
                models,
                tools,
                whispers=self.delta_bus,
                gate_rules=self.gate_rules,
                budgets=self.budgets if self.shared_caps else None,
            )
            worker = Worker(engine, self.store, capacity, report)
            worker.start(url)
            self._worker = worker
            try:
                yield worker
            except BaseException:
                worker.close()
                raise
            finally:
                self._worker = None
            worker.close(patience)

    @cached_property
    def monitor(self) -> "StoreMonitor":
        """The monitor of the database's availability; it logs each change."""
        from forum.backends.store_monitor import StoreMonitor

        return StoreMonitor(self.store)

    @cached_property
    def _gauges(self) -> metrics.LedgerGauges:
        try:
            return metrics.LedgerGauges(self.store, self.policy)
        except KeyUnreadable:  # no policy here: the signing machine reports on witnesses
            return metrics.LedgerGauges(self.store, None)

    def metric_samples(self) -> list[metrics.Sample]:
        """Return the metrics of this process and of the ledger. Raises `StoreFailed`."""
        worker = self._worker.samples() if self._worker else ()
        found = [*self._counters.samples(), *self._gauges.samples(), *worker]
        return metrics.with_labels(found, ledger=self.origin)

    @contextmanager
    def open_reader(self) -> Iterator[ports.Reader]:
        """Open a read-only snapshot of the ledger."""
        with self._snapshot() as reader:
            yield self._checked(reader)

    def close(self) -> None:
        """Close the database connections."""
        if "delta_bus" in self.__dict__:
            self.delta_bus.close()
        if "store" in self.__dict__:
            if "budgets" in self.__dict__:
                # Not returned, the slices are reclaimed by other processes when they need them.
                with suppress(StoreFailed):
                    self.budgets.close()
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Initialisation

    def initialise(self) -> bool:
        """Create the key, policy, witness and log that are missing; return whether the log is new.

        Raises `LogKeyMissing` if this machine remembers a log here whose key is gone.
        """
        from forum.backends.state_files import lock_file

        # One process at a time: of two keys made at once one would be overwritten, and with it the
        # ability to continue what it had signed.
        with lock_file(self.settings.key_file):
            files = (self.settings.key_file, self.settings.public_key_file)
            fresh = not any(path.exists() for path in files)
            if fresh:
                with suppress(NoLedger):
                    self.key  # noqa: B018  raises if this machine remembers a log here
                self._make_key()
            self._write_public_key()
            self._make_write_key(new=fresh)
            self._trust_locally()
        if not fresh:
            # Quarantine a forged row at the end of a strand before anything reads the strand.
            with suppress(ConcurrentUpdate):  # another process is sequencing
                self.sequencer.sequence_batch()
        self.ledger.initialize(f"forumd/{__version__}", self.verifier)
        self.ledger.check_write_key()
        if fresh:
            self.ledger.mark_write_key()
            self.publish_or_warn()
        elif self.write_keys is not None and not self.write_keys.is_enforced and self.is_signer:
            self.ledger.mark_write_key()
        if not self.settings.database:
            self._enforce_tags_when_alone()
        return fresh

    def start_over(self) -> None:
        """Replace this project's log by a new one, at the operator's request.

        The database keeps the entries of the old log, and the registry records that it was
        replaced.
        """
        from forum.backends.project_registry import Project, ProjectEpoch, ReplacedLogs
        from forum.backends.state_files import lock_file, write_key

        place = self._place
        with lock_file(self.settings.key_file):
            project = self._registry.find(place) or self._registry.find_with_lost_key(place)
            found = self._set_key_aside()
            epochs: tuple[ProjectEpoch, ...] = project.epochs if project else ()
            if project is None and found is not None:
                epochs = (ProjectEpoch(found.name, (str(found.verifier()),)),)
            replaced = project.replaced if project else ()
            if epochs:
                replaced = (*replaced, ReplacedLogs(epochs, now()))
            names = {epoch.origin for past in replaced for epoch in past.epochs}
            key = tlog.SigningKey(os.urandom(32), self._unused_origin(names))
            self._make_folder()
            # The registry is written first: after a crash before the key is written, the next
            # command reports a missing key, and starting over again repairs that.
            here = (place.path, place.database, place.key_file)
            epoch = ProjectEpoch(key.name, (str(key.verifier()),))
            self._registry.save(Project(*here, (epoch,), replaced))
            if project is not None and (project.path, project.database) != here[:2]:
                self._registry.forget(project)
            tags = self.settings.write_key_file
            if tags.exists():
                tags.replace(tags.with_name(f"{tags.name}.replaced-{now()}"))
            write_key(self.settings.key_file, key)
            self._close_log()
            self._trust_locally()
            self._warn_of_policy_gaps(key.verifier())

    def _unused_origin(self, used: Collection[str]) -> str:
        """Return a name for a new log that no log of this project has had."""
        named = self.settings.origin
        if named is None:
            return f"forum.local/{os.urandom(4).hex()}"
        number = 2
        while named in used:
            named = f"{self.settings.origin}/log-{number}"
            number += 1
        return named

    def _make_folder(self) -> None:
        from forum.backends.state_files import make_private_folder

        make_private_folder(self.settings.data)
        (self.settings.data / ".gitignore").write_text("*\n")

    def _write_public_key(self) -> None:
        from forum.backends.state_files import make_private_folder, write_durably

        path, line = self.settings.public_key_file, f"{self.verifier}\n"
        if not path.exists() or path.read_text() != line:
            make_private_folder(path.parent)
            write_durably(path, line.encode())

    def _make_write_key(self, *, new: bool) -> None:
        """Create the write key of a log that has none, on the signing machine only.

        If two machines had a key each, each one's entries would be quarantined by the other. Raises
        `WrongWriteKey` if the log already uses a write key and its file is gone.
        """
        from forum.backends.state_files import write_write_keys

        if self.write_keys is not None:
            return
        # Another process may have created the key since this one looked; use its key then.
        made = self._reload_write_keys()
        if made is not None:
            self._use_write_keys(made)
            return
        if not new and self.store.strand_head(WRITE_KEY_MARK) is not None:
            why = "its file is gone; restore it, or make a new key: forum keys rotate-write"
            raise WrongWriteKey(self.origin, "-", why)
        if not new and not self.is_signer:
            return  # a log of an earlier release, which is still written without tags
        keys = WriteKeys(self.origin, (WriteKey(os.urandom(32)),), 0 if new else None)
        write_write_keys(self.settings.write_key_file, keys)
        self._use_write_keys(keys)

    def _use_write_keys(self, keys: WriteKeys) -> None:
        """Make everything that is open write and read with these keys."""
        self.write_keys = keys
        if "store" in self.__dict__:
            self._checked(self.store)
        self.__dict__.pop("ledger", None)

    def _enforce_tags_when_alone(self) -> None:
        from forum.backends.sqlite import SqliteStore

        if isinstance(self.store, SqliteStore) and self.store.enforce_tags():
            self.enforce_tags()

    def enforce_tags(self) -> bool:
        """Refuse entries without a tag from now on, after verifying the ledger.

        Return whether they are refused. Call this when no process of a release before tags is left;
        the database refuses that release's entries already.
        """
        from forum.backends.state_files import write_write_keys

        keys = self.write_keys
        if keys is None or keys.is_enforced:
            return keys is not None
        self.publish()
        if not self._is_verified():
            return False
        self.ledger.enforce_tags(self.store.head().size - 1)
        for strand in TAGGED_STRANDS:
            self._tag_head(strand, keys)
        self._tag_idempotency(keys)
        # The file is written last: after a crash before it, all steps are repeated, and those
        # already done change nothing.
        keys = replace_struct(keys, tagged_from=self.store.head().size)
        write_write_keys(self.settings.write_key_file, keys)
        self._use_write_keys(keys)
        self.publish()
        return True

    def _is_verified(self) -> bool:
        from forum.verify import State

        report = self.verify(self.read_trust())
        return report.intact.state is report.complete.state is State.HOLDS

    def _tag_idempotency(self, keys: WriteKeys) -> None:
        """Tag the idempotency rows of an earlier release, so that a change is detected."""
        last = ""
        while page := self.store.idempotency_rows(last, 1000):
            for row in page:
                if row.digest and row.tag is None:
                    tag = keys.tag_idempotency(row.name, row.run, row.digest)
                    self.store.tag_idempotency(row._replace(tag=tag))
            last = page[-1].name

    def _tag_head(self, strand: str, keys: WriteKeys) -> None:
        last = self.store.last_entry(LOG_RUN, strand)
        if last is not None:
            n, leaf = KINDS.read(last).n, leaf_of(last)
            self.store.save_strand_head(
                ports.TaggedHead(strand, n, leaf, keys.tag_head(strand, n, leaf))
            )

    def discard_quarantine(self) -> int:
        """Delete the quarantined rows and return their number."""
        rows = self.store.quarantined_rows()
        if rows:
            leaves = b"".join(leaf_of(found.row.data) for found in rows)
            digest = sha256(leaves).hexdigest()
            facts = kinds.QuarantineDiscardFacts(len(rows), digest)
            # The digest of the deleted rows is recorded and signed before the rows are deleted.
            # After a crash in between, the rows are still there and can be deleted again.
            self.ledger.append_log_entry(Draft(f"quarantine/{digest[:16]}", OPERATOR, facts))
            self.publish()
            self.store.discard_quarantine([found.id for found in rows])
        return len(rows)

    def rotate_write_key(self) -> str:
        """Tag entries with a new write key from now on, and return its id.

        Tags of the older keys stay valid. Raises `WrongWriteKey` on a machine that does not sign.
        """
        from forum.backends.state_files import write_write_keys

        if not self.is_signer:
            raise WrongWriteKey(self.origin, "-", "only the machine that signs makes write keys")
        # If the key file was lost, entries of the signed tree are accepted without a tag. Unsigned
        # entries are quarantined by the next sequencer.
        old = self.write_keys or WriteKeys(self.origin, (), self.store.head().size)
        # The signing machine's file is written before any tag is made: an entry tagged with the new
        # key, here or on a machine that received the file, must be known to the sequencer.
        keys = replace_struct(old, keys=(WriteKey(os.urandom(32)), *old.keys))
        write_write_keys(self.settings.write_key_file, keys)
        self._use_write_keys(keys)
        self.ledger.mark_write_key()
        for strand in TAGGED_STRANDS:
            self._tag_head(strand, keys)
        self.publish()
        return keys.current.id.hex()

    def _make_key(self) -> None:
        from forum.backends.state_files import write_key

        self._make_folder()
        write_key(self.settings.key_file, tlog.SigningKey(os.urandom(32), self._unused_origin(())))

    def _close_log(self) -> None:
        """Close everything that was opened for the log in use before."""
        self.close()
        names = ("key", "_public_key", "write_keys", "policy", "store", "ledger", "publisher")
        for name in (*names, "sequencer", "delta_bus"):
            self.__dict__.pop(name, None)

    def _set_key_aside(self) -> tlog.SigningKey | None:
        """Copy the key file to another name, and return the key if it can be read."""
        from forum.backends.state_files import read_key, write_durably

        path = self.settings.key_file
        if not path.exists():
            return None
        write_durably(path.with_name(f"{path.name}.replaced-{now()}"), path.read_bytes())
        try:
            return read_key(path)
        except KeyUnreadable:
            return None

    # Epochs

    def new_epoch(self, reason: str = "") -> EpochStart:
        """Leave the log at its last signed checkpoint, and begin its next epoch.

        The old key keeps signing if it is available. If it was lost or exchanged, a new key is
        made, which readers have to pin again; that requires a reason.
        """
        from forum.backends.project_registry import ProjectEpoch
        from forum.backends.state_files import write_key, write_write_keys

        old, origin = self._key_to_leave(reason)
        left, held = self._find_end(origin)
        base, _, number = origin.rpartition("/epoch-")
        following = int(number) + 1 if base and number.isdecimal() else 2
        name = f"{base or origin}/epoch-{following}"
        key = tlog.SigningKey(old.seed, name) if old else self._pending_key(name)
        vkey = str(key.verifier())
        facts = kinds.LogEpochFacts(
            kinds.EpochKey.KEPT if old else kinds.EpochKey.NEW,
            held.size,
            held.root.hex() if held.size else "",
        )
        bodies = (Attachment("reason", text_content(reason), "text/plain"),) if reason else ()
        self._save_policy(origin)
        self._make_folder()
        self._change_project(ProjectEpoch(name, (vkey,)), origin)
        following_keys = _pending_write_keys_path(self.settings.write_key_file)
        with Forum(self.settings, register=False) as successor:
            successor.key = key
            # After an earlier attempt that crashed, the new log already holds entries tagged with
            # these keys, so the same keys must be used again.
            tags = self._prepared_keys(following_keys, key.name)
            successor.write_keys = tags
            write_write_keys(following_keys, tags)
            successor._trust_locally()
            draft = Draft("log/epoch", OPERATOR, facts, (), bodies)
            successor.ledger.initialize(f"forumd/{__version__}", key.verifier(), left, draft)
            successor.ledger.mark_write_key()
            # The signing key is written last. After a crash before it, the old log is still in use,
            # and a second attempt finds everything prepared here. Of the two files with write keys,
            # the one of the log in use is read.
            if old is not None:
                write_key(self.settings.key_file.with_suffix(f".{following - 1}"), old)
            else:
                self._set_key_aside()
            write_key(self.settings.key_file, key)
            following_keys.replace(self.settings.write_key_file)
            successor._write_public_key()
            self._complete_project()
            successor.publish()
        self._warn_of_policy_gaps(key.verifier())
        return EpochStart(name, key.verifier(), has_new_key=old is None)

    def _key_to_leave(self, reason: str) -> tuple[tlog.SigningKey | None, str]:
        """Return the key of the log to leave (None if it was lost) and the log's name."""
        try:
            key = self.key
        except (LogKeyMissing, LogKeyChanged) as error:
            if not reason:
                raise
            return None, error.origin
        except KeyUnreadable:
            project = self._registry.find(self._place)
            if project is None or not reason:
                raise
            return None, project.current.origin
        self._register()  # also completes an earlier rotation that crashed near its end
        return key, key.name

    def _pending_key(self, name: str) -> tlog.SigningKey:
        """Return the new key of a log: the same one until it is in use.

        After a crash, a second attempt must find the key that witnesses already know.
        """
        from forum.backends.state_files import read_key, write_key

        path = self.settings.key_file.with_name(f"{self.settings.key_file.name}.next")
        if path.exists():
            key = read_key(path)
            project = self._registry.find(self._place)
            used = {vkey for epoch in project.epochs for vkey in epoch.vkeys} if project else set()
            if key.name == name and str(key.verifier()) not in used:
                return key
        key = tlog.SigningKey(os.urandom(32), name)
        write_key(path, key)
        return key

    def _find_end(self, origin: str) -> tuple[tlog.Checkpoint, tlog.Checkpoint]:
        """Return the last signed checkpoint of a log, and the last one still in the database."""
        with self._open_log(origin) as reader:
            stored = reader.checkpoint() if reader is not None else None
        notes = (self._memory(origin, "guard.note").latest(), self._witness_memory(origin).latest())
        nothing = tlog.Checkpoint(origin, 0, tlog.EMPTY_ROOT)
        held = tlog.parse_checkpoint(stored) if stored else nothing
        signed = [tlog.parse_checkpoint(note) for note in notes if note]
        # The guard is advanced before a signed checkpoint is stored, so it knows the last one.
        # Without a guard, take the largest checkpoint that this machine knows.
        return (signed[0] if notes[0] else max([held, *signed], key=lambda c: c.size)), held

    @contextmanager
    def _open_log(self, origin: str) -> Iterator[ports.Reader | None]:
        """Open another log of the same database; yield None if it does not exist."""
        with ExitStack() as opened:
            try:
                reader: ports.Reader | None = opened.enter_context(self._reader_of(origin))
            except NoSuchLog:
                reader = None
            yield reader

    def _reader_of(self, origin: str) -> AbstractContextManager[ports.Reader]:
        if self.settings.database:
            with require_extra("postgres"):
                from forum.backends import postgres

            return postgres.open_reader(self.settings.database, origin)
        from forum.backends import sqlite

        if not self.settings.ledger_file.exists():
            raise NoSuchLog(origin)
        return sqlite.open_reader(self.settings.ledger_file, origin)

    def _save_policy(self, origin: str) -> None:
        """Store the policy under which a log was witnessed: its successor may get another one."""
        from forum.backends.state_files import lock_file, write_durably

        own = self._log_folder(origin) / "policy"
        if self.settings.policy is not None and self.settings.policy.exists() and not own.exists():
            with lock_file(own):
                write_durably(own, self.settings.policy.read_bytes())

    def _warn_of_policy_gaps(self, key: tlog.VerifierKey) -> None:
        if self.settings.policy is not None and key not in self.policy.log_keys:
            place = f"in the place of the log's own in {self.settings.policy}"
            self._notify(f"put this line {place}: log {key}")

    # The signing key

    def rotate_key(self) -> SigningKeyRotation:
        """Replace the log's signing key; the old key signs the handover to the new one.

        Raises `RotationRefused` on a machine that does not sign.
        """
        from forum.backends.project_registry import ProjectEpoch
        from forum.backends.state_files import lock_file, write_key

        self._register()  # also completes an earlier rotation that crashed near its end
        if not self.is_signer:
            raise RotationRefused(self.origin, "another machine signs it; rotate the key there")
        folder, path = self.settings.state / "witness", self.settings.key_file
        known = self._known_epochs()
        if not known:
            raise RotationRefused(self.origin, f"{self.settings.state} cannot be written")
        with lock_file(path):
            old, new = self.key, self._pending_key(self.origin)
            key, earlier = new.verifier(), known[-1].vkeys
            # After a crash before the new key is in its place, the old key keeps signing, and a
            # second attempt finds the same new key.
            self._change_project(ProjectEpoch(self.origin, (*earlier, str(key))), self.origin)
            trust_log(folder, key, follows=old.verifier())
            hand_over = self._record_hand_over(old.verifier(), key)
            # The old key signs the handover; before that the new key must not sign anything.
            self.publish()
            self._add_to_policy(key)
            aside = path.with_name(f"{path.name}.rotated-{old.verifier().key_id.hex()}")
            write_key(aside, old)
            # After a crash beyond this point, the new key is the log's key and signs the next tree.
            write_key(path, new)
            path.with_name(f"{path.name}.next").unlink(missing_ok=True)
            self._complete_project()
            self._close_log()
            self._write_public_key()
        draft = Draft(
            f"add/{key.key_id.hex()}", OPERATOR, kinds.KeyAddFacts(str(key)), (hand_over,)
        )
        self.ledger.append_log_entry(draft, KEYS_STRAND)
        publication = self.publish()
        # From here on this machine's witness refuses checkpoints signed by the old key.
        trust_log(folder, key, follows=old.verifier(), alone=True)
        self._warn_of_policy_gaps(key)
        return SigningKeyRotation(old.verifier(), key, publication)

    def _record_hand_over(self, old: tlog.VerifierKey, new: tlog.VerifierKey) -> tlog.Hash:
        """Record the handover between two keys unless it is recorded; return the entry's id."""
        facts = kinds.KeyRotationFacts(str(old), str(new))
        for leaf, entry in read_strand_entries(self.ledger, LOG_RUN, KEYS_STRAND):
            if entry.facts == facts:
                return leaf
        draft = Draft(f"rotate/{new.key_id.hex()}", OPERATOR, facts)
        return self.ledger.append_log_entry(draft, KEYS_STRAND).leaf

    def _add_to_policy(self, key: tlog.VerifierKey) -> None:
        """Add a key of this log to the policy, if this machine wrote the policy itself."""
        from forum.backends.state_files import lock_file, write_durably

        path = self._state / "policy"
        if self.settings.policy is not None or not path.exists():
            return
        with lock_file(path):
            policy = tlog.WitnessPolicy.parse(path.read_bytes())
            if key not in policy.log_keys:
                logs = (tlog.KnownLog(key), *policy.logs)
                write_durably(path, replace(policy, logs=logs).encode())

    def _earlier_keys(self) -> tuple[tlog.VerifierKey, ...]:
        """Return the keys that this log had before the one in use."""
        project = self._registry.find(self._place)
        own, epochs = str(self.verifier), [*self._known_epochs()]
        if project is not None and project.pending is not None:
            epochs.append(project.pending)
        found = [e.vkeys[: e.vkeys.index(own)] for e in epochs if own in e.vkeys]
        return tuple(tlog.VerifierKey.parse(vkey) for vkeys in found for vkey in vkeys)

    # The project registry

    @cached_property
    def _registry(self) -> "ProjectRegistry":
        from forum.backends.project_registry import ProjectRegistry

        return ProjectRegistry(self.settings.state / "projects")

    @cached_property
    def _place(self) -> "ProjectLocation":
        from forum.backends.project_registry import ProjectLocation, public_address

        settings = self.settings
        return ProjectLocation(
            path=str(settings.data.resolve()),
            database=public_address(settings.database) if settings.database else "",
            key_file=str(settings.key_file.resolve()),
            has_file=settings.file is not None,
        )

    def _register(self) -> None:
        """Record that this log belongs to this project; notify if the project has moved."""
        from forum.backends.project_registry import register_log

        key = self.verifier
        if not self._registers or not self.settings.key_file.exists():
            return
        try:
            line = register_log(self._registry, self._place, str(key), key.name)
        except StoreFailed as error:
            # The registry is unchanged, and a full disk must not stop readers.
            line = f"which log belongs to this project could not be remembered: {error}"
        if line:
            self._notify(line)

    def _change_project(self, pending: "ProjectEpoch", origin: str) -> None:
        """Record the epoch or key that is about to be used, beside the one in use."""
        from forum.backends.project_registry import Project, ProjectEpoch

        place, project, lost = self._place, self._registry.find(self._place), None
        if project is None:
            lost = self._registry.find_with_lost_key(place)
            epochs = lost.epochs if lost else (ProjectEpoch(origin, (str(self.key.verifier()),)),)
            project = Project(place.path, place.database, place.key_file, epochs)
        self._registry.save(replace_struct(project, pending=pending))
        if lost is not None:
            self._registry.forget(lost)  # its history continues under the new location

    def _complete_project(self) -> None:
        """Record that the pending epoch or key is now in use."""
        project = self._registry.find(self._place)
        if project is not None:
            self._registry.save(project.complete_pending())

    def _known_epochs(self) -> "tuple[ProjectEpoch, ...]":
        """Return the logs of this project that this machine remembers, the oldest first."""
        project = self._registry.find(self._place)
        return project.epochs if project is not None else ()

    def _prepared_keys(self, path: Path, origin: str) -> WriteKeys:
        """Return the write keys prepared for a log, or new ones."""
        from forum.backends.state_files import read_write_keys

        keys = read_write_keys(path) if path.exists() else None
        if keys is not None and keys.origin == origin:
            return keys
        return WriteKeys(origin, (WriteKey(os.urandom(32)),), 0)

    # Writing

    def publish(self, patience: float = 0.0) -> Publication:
        """Sequence and sign all entries, and ask the witnesses for cosignatures.

        If another machine signs, wait for its checkpoint for at most `patience` seconds, then
        raise.
        """
        self.sequencer.drain()
        try:
            publication = self.publisher.publish()
        except (GuardMissing, KeyUnreadable, NoLedger):
            signed = self._signed_elsewhere(self.store.head().size, patience)
            if signed is None:
                raise
            return signed
        self._warn_of_clock(publication)
        return publication

    def publish_or_warn(self) -> Publication | None:
        """Publish before a command ends; warn instead of raising if a fault prevents it.

        The entries are durable already, and the next write signs them. If the command failed here,
        its user would repeat it and record everything twice.
        """
        try:
            return self.publish()
        except NoLedger:
            self._warn("recorded, not signed yet: the machine that signs does that")
            return None
        except (StoreFailed, KeyUnreadable, GuardMissing, OSError) as error:
            self._warn_unsigned(error)
            return None

    def _warn_unsigned(self, error: Exception) -> None:
        self._warn(f"recorded, not signed yet; the next write signs it: {error}")

    def _warn_of_clock(self, publication: Publication) -> None:
        """Warn once that this machine's clock disagrees with others."""
        if publication.clock_warnings and not self._clock_was_named:
            self._clock_was_named = True
            for warning in publication.clock_warnings:
                self._warn(warning)

    def _signed_elsewhere(self, size: int, patience: float) -> Publication | None:
        """Wait for a witnessed checkpoint of at least this size.

        On timeout accept one that is not witnessed. Return None if there is none.
        """
        deadline = time.monotonic() + patience
        while True:
            notes = [tlog.Note.parse(data) for data in self.store.checkpoints(size)]
            seen = next((note for note in notes if tlog.is_witnessed(note, self.policy)), None)
            if seen or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_INTERVAL_S)
        if not notes:
            return None
        note = seen or notes[-1]
        return Publication(note.encode(), tlog.Checkpoint.parse(note.text), seen is not None)

    @cached_property
    def publisher(self) -> Publisher:
        """The signer of this log."""
        return Publisher(
            self.store,
            self.key,
            self._guard,
            self.policy,
            self._cosigners(),
            follows=self._earlier_keys(),
            clock=now,
        )

    def record_note(
        self, content: Content, idempotency_key: str | None = None
    ) -> tuple[LocatedEntry, Publication | None]:
        """Record a note in a run of its own; the publication is None if it could not be signed yet.

        With the idempotency key of an earlier call, return that call's note, or raise
        `IdempotencyKeyUsed` if its text was different.
        """
        run = self._append_note(content, idempotency_key)
        publication = self.publish_or_warn()
        return self.ledger.find_entry(str(ports.Position(run, MAIN_STRAND, 1))), publication

    def _append_note(self, content: Content, key: str | None) -> str:
        """Append a note in a run of its own, and return the run, or the earlier one of this key."""
        run, digest = new_run_id(), sha256(b"".join(content.chunks())).hexdigest()
        body = Attachment("text", content, "text/plain")
        # The run, the note and the idempotency row are one commit: neither a crash nor a full disk
        # can separate them.
        name = f"{OPERATOR}/note/{key}"
        effects = (ports.IdempotencyRecord(name, run, digest),) if key is not None else ()
        draft = Draft("note", OPERATOR, kinds.NoteFacts(), (), (body,), effects)
        try:
            self.ledger.record_run(run, OPERATOR, draft)
        except IdempotencyKeyUsed as asked:
            if asked.digest != digest:
                raise
            self.ledger.check_idempotency_row(name, asked)
            return asked.run
        return run

    def redact(self, entry: str, body: str, reason: kinds.RedactionReason) -> RedactionResult:
        """Record a redaction, have it signed, and only then erase the body.

        Raises `RunNotEnded`: the driver of a run still reads what the run has recorded.
        """
        target = self.ledger.find_entry(entry)
        run = self.read_run(target.entry.run)
        if run.accepted is not None and run.outcome is None:
            raise RunNotEnded(target.entry.run)
        recorded = self.ledger.request_redaction(target, body, OPERATOR, reason)
        # Signed before erased: after a crash in between, the redaction is on record, and the next
        # call of `erase_redacted` erases the body.
        publication = self.publish()
        return RedactionResult(recorded.leaf.hex(), len(self.ledger.erase_redacted()), publication)

    def find_run(self, what: str) -> str:
        """Return the id of a run that is given by its id, a prefix of it, or one of its entries.

        Raises `NoSuchEntry` or `AmbiguousRun`.
        """
        if self.store.strands(what):
            return what
        # Read a few digits as an index first: almost every small index is also a prefix of some
        # run.
        is_index = what.isdecimal() and len(what) < _MIN_RUN_PREFIX_CHARS
        if not is_index and (begun := self._run_beginning(what)):
            return begun
        try:
            return self.ledger.find_entry(what).entry.run
        except (Malformed, NoSuchEntry):
            if is_index and (begun := self._run_beginning(what)):
                return begun
            why = f"the log has no run {what} either; forum runs lists them"
            raise NoSuchEntry(why) from None

    def _run_beginning(self, prefix: str) -> str | None:
        """Return the only run with this prefix, or None. Raises `AmbiguousRun`."""
        if not prefix:
            return None
        listed = self.store.runs(prefix, _MAX_COMPARED)
        found = [run for run in listed if run.startswith(prefix)]
        if len(found) > 1:
            # An inner run's id begins with the same 13 characters as the outer run's: a prefix that
            # fits both means the outer run.
            found = [run for run in found if not self._parent_of(run)] or found
        if len(found) > 1:
            more = len(listed) == _MAX_COMPARED and listed[-1].startswith(prefix)
            raise AmbiguousRun(prefix, found, more=more)
        return found[0] if found else None

    def _parent_of(self, run: str) -> str:
        accepted = self.read_run(run).accepted
        return accepted.parent_run if accepted else ""

    def export(self, run: str, actor: str = OPERATOR, patience: float = 0.0) -> bytes:
        """Return the evidence bundle of a run, after recording the export in a signed entry.

        If another machine signs, wait for its checkpoint for at most `patience` seconds.
        """
        if not self.store.strands(run):
            raise NoSuchEntry(f"the log has no run {run}")
        # Reading the entries checks them, so that an altered run is not exported.
        entries = sum(1 for _ in self.store.entries_of_run(run))
        self.ledger.record_export(run, entries, self.store.head().size, actor)
        self.publish(patience)
        verifier = (files("forum.verify") / "standalone.py").read_bytes()
        with self.open_reader() as reader:
            return gather_bundle(reader, KINDS, run, self.policy, verifier).encode()

    # Running

    def submit(
        self,
        order: "RunRequest",
        origin: AcceptedFacts | None = None,
        actor: str = OPERATOR,
        ticket: "IdempotencyKey | None" = None,
    ) -> str:
        """Accept a request durably, and return the run that will answer it.

        A request with a known idempotency key is not accepted again: its run is returned, or
        `IdempotencyKeyUsed` raised if that request was different.
        """
        from forum.engine import accept_run

        run, order = new_run_id(), self._with_gate_rules(order)
        return self.budgets.spend(
            self.budgets.limits(actor, order.lanes),
            ports.Spend(runs=1),
            lambda charges: accept_run(
                self.ledger, run, order, actor, origin, ticket, charges=charges
            ),
        )

    async def submit_async(
        self,
        order: "RunRequest",
        actor: str,
        past: tlog.Checkpoint | None,
        ticket: "IdempotencyKey | None" = None,
    ) -> str:
        """Do the same as `submit` without blocking the event loop, given a recent checkpoint."""
        from forum.engine import accept_run_async

        run, order = new_run_id(), self._with_gate_rules(order)
        return await self.budgets.spend_async(
            self.budgets.limits(actor, order.lanes),
            ports.Spend(runs=1),
            lambda charges: accept_run_async(
                self.ledger, run, order, actor, past, ticket, charges=charges
            ),
        )

    @cached_property
    def budgets(self) -> "SharedBudgets":
        """Caps over many runs, as this process spends from them."""
        from forum.engine import SharedBudgets

        return SharedBudgets(self.store, self.shared_caps, os.urandom(8).hex())

    @cached_property
    def shared_caps(self) -> tuple[SharedCap, ...]:
        """The operator's caps for keys, lanes and the ledger, per day or month."""
        file = str(self.settings.file or self.settings.user_file)
        return read_shared_caps(file, self.settings.team)

    @cached_property
    def gate_rules(self) -> tuple[GateRule, ...]:
        """The operator's rules about what needs approval, whatever a submitter asks for."""
        file = str(self.settings.file or self.settings.user_file)
        return read_gate_rules(file, self.settings.team)

    def budget_status(self) -> tuple[BudgetStatus, ...]:
        """Return the use of each cap in the current day or month."""
        with self.open_reader() as reader:
            uses, moment = reader.budget_use(), self.store.now()
        found = []
        for cap in self.shared_caps:
            period, until = _period_at(cap.per, moment)
            mine = [use for use in uses if use.period == period and cap.holds_for(use.scope)]
            if not mine and not cap.key and not cap.lane:
                mine = [ports.BudgetUse(LEDGER, period, until, ports.Spend())]
            found += [BudgetStatus(cap, use) for use in mine]
        return tuple(found)

    def _with_gate_rules(self, order: "RunRequest") -> "RunRequest":
        """Return a request under the operator's gate rules, dropping any of its own."""
        return replace(order, policy=order.policy.with_gate_rules(self.gate_rules))

    def read_run(self, run: str, until: int | None = None) -> run_fold.Run:
        """Return a run's current state, or its state as of the entry with index `until`.

        Raises `NoSuchRun`.
        """
        if not self.store.strands(run):
            raise NoSuchRun(run)
        told = (
            t
            for strand in self.store.strands(run)
            for t in read_strand_entries(self.ledger, run, strand)
        )
        return run_fold.fold(t for t in told if until is None or is_before(self.store, t[0], until))

    def read_run_request(self, run: str) -> "RunRequest":
        """Return the request of a run, as it was accepted."""
        from forum.engine import read_run_request

        return read_run_request(self.ledger, run)

    def read_run_context(self, run: str) -> "RunContext":
        """Return the request of a run and its plan."""
        from forum.engine import read_run_context

        return read_run_context(self.ledger, run)

    def recent_runs(
        self,
        before: str | None,
        limit: int,
        *,
        within: bool = False,
        since: int = 0,
        matches: Callable[[str, run_fold.Run], bool] | None = None,
    ) -> list[tuple[str, run_fold.Run]]:
        """Return the runs that were accepted last, the newest first; with `within` also inner runs.

        Only runs that began since `since` (in microseconds since 1970) and match.
        """
        found: list[tuple[str, run_fold.Run]] = []
        most = limit if matches is None else max(limit, _RUNS_PAGE_SIZE)
        while len(found) < limit and (page := self.store.runs_before(before, most)):
            states = [(run, self.read_run(run)) for run in page]
            found += [
                (run, state)
                for run, state in states
                if state.accepted and (within or not state.accepted.parent_run)
                if state.begun >= since and (matches is None or matches(run, state))
            ]
            before, last = page[-1], states[-1][1]
            # Run ids sort by start time, but the clocks of the machines that made them may differ.
            if last.begun and last.begun < since - _MAX_CLOCK_SKEW_US:
                break
        return found[:limit]

    def lanes_of(self, run: str, state: run_fold.Run) -> frozenset[str]:
        """Return the lanes of a run: of its route and of the tasks of its plan."""
        plan = self._main_bodies(run, state).get("plan")
        named = {task.lane for task in read_plan(plan).all_tasks} if plan is not None else set()
        return frozenset({*named, state.routed.lane if state.routed else ""} - {""})

    def outer_run(self, run: str) -> str:
        """Return the outermost run that a run is part of, or the run itself."""
        while parent := self._parent_of(run):
            run = parent
        return run

    def view_run(self, run: str, until: LocatedEntry | None = None) -> RunView:
        """Return everything known of a run, or known when the entry `until` was the last.

        Raises `NoSuchRun`.
        """
        state = self.read_run(run, until.index if until else None)
        if state.accepted is None and until is None:
            raise NoSuchRun(run)  # the log's own strands or a note: no request was accepted
        bodies = self._main_bodies(run, state)
        request, plan, answer = (bodies.get(name) for name in ("request", "plan", "answer"))
        told = list(state.tasks.values())[:_MAX_DETAILED_TASKS]
        errors = {task.id: self._error_prefix(task.result.reply_at) for task in told if task.result}
        entries = self._indexes({task.id: task.last for task in told})
        return RunView(
            run,
            state,
            until.entry.ts if until else now(),
            request.decode(errors="replace") if request is not None else None,
            read_plan(plan) if plan is not None else None,
            answer,
            {task: error for task, error in errors.items() if error},
            tuple(self.open_gates(run, state)),
            entries,
            until.index if until else None,
            read_claims(bodies.get("claims", b"")),
            self._entry_indexes(state),
            *self._read_session(run, state, until.index if until else None),
            self._failed_replies(told) if state.outcome not in (None, kinds.Outcome.OK) else {},
        )

    def read_run_record(self, run: str) -> RunRecord:
        """Return the entries of a run in log order, with a function that reads their bodies."""
        entries = sort_by_index(locate_run(self.store, KINDS, run))
        return RunRecord(run, entries, lambda found, name: read_body(self.store, found.entry, name))

    def _failed_replies(self, tasks: Sequence[run_fold.TaskRun]) -> dict[str, str]:
        """Return the beginning of the last reply of each task that did not pass."""
        last = {
            task.id: run_fold.last_reply_position(task)
            for task in tasks
            if task.state is not run_fold.TaskState.PASSED
        }
        told = {name: self._body_prefix(at, "output") for name, at in last.items() if at}
        return {name: words for name, words in told.items() if words}

    def _read_session(
        self, run: str, state: run_fold.Run, until: int | None
    ) -> tuple[Session | None, tuple[Noted, ...]]:
        """Return a panel's session in a run, and its entries so far."""
        if state.planned:
            return None, ()
        turns = [task_strand(name) for name in state.tasks if name.startswith(TURN_PREFIX)]
        notes = tuple(
            Noted(entry.step, entry.facts, self._bodies_of(entry))
            for strand in (MAIN_STRAND, *turns)
            for leaf, entry in read_strand_entries(self.ledger, run, strand)
            if entry.kind in DELIBERATION_KINDS
            if until is None or is_before(self.store, leaf, until)
        )
        with suppress(BodyGone):
            return (self.read_session(run, state) if notes else None), notes
        return None, notes

    def read_session(self, run: str, state: run_fold.Run | None = None) -> Session:
        """Return the session of a panel: its request, policy and start."""
        order = self.read_run_request(run)
        begun = (state or self.read_run(run)).begun
        return Session(order.request, order.policy, begun)

    def _bodies_of(self, entry: Entry[Any]) -> tuple[NoteBody, ...]:
        found = {name: read_body(self.store, entry, name) for name in entry.bodies}
        return tuple(NoteBody(name, body) for name, body in found.items() if body is not None)

    def _entry_indexes(self, state: run_fold.Run) -> dict[str, int]:
        """Return the indexes of the route, the checks and the tool uses, by entry id in hex."""
        uses = [use for task in state.tasks.values() for use in task.uses][:_MAX_DETAILED_TASKS]
        named = [state.route, *(leaf for leaf, _ in state.checks)]
        named += [use.outcome or use.entry for use in uses]
        return self._indexes({leaf.hex(): leaf for leaf in named if leaf})

    def _indexes(self, named: Mapping[str, tlog.Hash | None]) -> dict[str, int]:
        """Return the indexes of entries by name, with one query."""
        leaves = {name: leaf for name, leaf in named.items() if leaf}
        found = zip(leaves, self.store.indexes(list(leaves.values())), strict=True)
        return {name: index for name, index in found if index is not None}

    def request_of(self, run: str) -> str | None:
        """Return the request text of a run, or None if it was erased."""
        request = self._main_bodies(run, run_fold.Run()).get("request")
        return request.decode(errors="replace") if request is not None else None

    def _main_bodies(self, run: str, state: run_fold.Run) -> dict[str, bytes]:
        """Return the bodies request, plan, answer and claims of a run in this state."""
        found: dict[str, bytes] = {}
        for leaf, entry in read_strand_entries(self.ledger, run, MAIN_STRAND):
            at = ports.Position(run, MAIN_STRAND, entry.n)
            named = {"request"} if isinstance(entry.facts, AcceptedFacts) else set()
            named |= {"plan"} if leaf == state.plan else set()
            named |= {"answer", "claims"} if at == state.answer_at else set()
            for name in named & entry.bodies.keys():
                body = read_body(self.store, entry, name)
                if body is not None:
                    found[name] = body
        return found

    def _error_prefix(self, at: ports.Position | None) -> str:
        return self._body_prefix(at, "error")

    def _body_prefix(self, at: ports.Position | None, name: str) -> str:
        """Return the beginning of a body as text."""
        body = self.store.body(at, name) if at else None
        if at is None or body is None:
            return ""
        _, entry = next(read_strand_entries(self.ledger, at.run, at.strand, at.n))
        return _decode_prefix(read_body(self.store, entry, name))

    @property
    def has_workers(self) -> bool:
        """Whether a live worker executes runs of this ledger."""
        return bool(set(self.store.workers()).difference(self.store.expired_workers()))

    def follow_run(
        self,
        run: str,
        watch: Callable[[run_fold.Run], None] = lambda _: None,
        patience: float | None = None,
        wait: Callable[[float], object] = time.sleep,
    ) -> run_fold.Run:
        """Watch a run until it cannot proceed by itself or `patience` seconds have passed.

        A run stops proceeding when it has ended, was interrupted, or waits for a person. `wait` is
        called with some seconds between two polls; a truthy result ends the watch.
        """
        begun, state = time.monotonic(), self.read_run(run)
        while True:
            looked = time.monotonic()
            state = self._fold_new_entries(run, state)
            if state.outcome is not None:
                # Fold once more from the first entry: a strand may have appeared after the strands
                # were listed.
                state = self.read_run(run)
            watch(state)
            late = patience is not None and looked - begun > patience
            over = state.outcome is not None or state.interrupted
            if over or late or self._is_waiting(run, state):
                return state
            # A poll takes longer the more entries there are; spend at most a third of the time on
            # polling.
            if wait(max(_POLL_INTERVAL_S, 2 * (time.monotonic() - looked))):
                return state

    def _fold_new_entries(self, run: str, state: run_fold.Run) -> run_fold.Run:
        """Fold the entries added to a run; skip strands of ended tasks, which do not grow."""
        ended = {task_strand(task.id) for task in state.tasks.values() if task.state.is_end}
        fresh = [
            told
            for strand in self.store.strands(run)
            if strand not in ended
            for told in read_strand_entries(self.ledger, run, strand, state.lengths.get(strand, 0))
        ]
        return run_fold.fold(fresh, state) if fresh else state

    def _is_waiting(self, run: str, state: run_fold.Run) -> bool:
        """Tell whether a run can only continue after a human decision."""
        tasks = [state.task(name) for name in state.tasks]
        if any(task.state is run_fold.TaskState.RUNNING for task in tasks):
            return False
        alarm = self.store.timer(run, MAIN_STRAND)
        # A driver that waits for a person has cleared the run's timer, or set it to the deadline.
        at = None if alarm is None else alarm.at
        if at is not None and abs(at - (state.deadline or 0)) > 1_000_000:
            return False
        if any(gate.deadline <= self.store.now() for gate in state.open_gates):
            return False  # the gate's default answer is about to be recorded
        within = [
            t.delegated.run for t in tasks if t.delegated and t.state is run_fold.TaskState.WAITING
        ]
        children = [(child, self.read_run(child)) for child in within if self.store.strands(child)]
        if len(children) < len(within) or not (state.open_gates or children):
            return False
        return all(self._is_waiting(child, inner) for child, inner in children)

    def open_gates(self, run: str, state: run_fold.Run) -> list[tuple[str, run_fold.Gate]]:
        """Return the open gates of a run and of its inner runs, each with its run."""
        found = [(run, gate) for gate in state.open_gates]
        for name in state.tasks:
            task = state.task(name)
            if task.delegated and task.state is run_fold.TaskState.WAITING:
                child = task.delegated.run
                if self.store.strands(child):
                    found += self.open_gates(child, self.read_run(child))
        return found

    def cancel(self, run: str, actor: str = OPERATOR) -> None:
        """Request that a run be cancelled."""
        from forum.engine import cancel_run

        cancel_run(self.ledger, run, actor)

    def interrupt(self, run: str, actor: str = OPERATOR) -> bool:
        """Record that no worker may continue a run before it is resumed; False if it has ended."""
        from forum.engine import interrupt_run

        return interrupt_run(self.ledger, run, actor)

    def interrupted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that were interrupted and not resumed."""
        return self.store.interrupted_runs("", limit)

    def live_workers(self) -> set[str]:
        """Return the ids of the workers that execute runs of this ledger now."""
        return set(self.store.workers()) - set(self.store.expired_workers())

    def accepted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that have a timer, which workers will continue."""
        timers = self.store.timers(None, limit, due=False)
        return list(dict.fromkeys(timer.run for timer in timers if timer.strand == MAIN_STRAND))

    def resume(self, run: str, actor: str = OPERATOR) -> None:
        """Make a run due now; completed steps are not repeated.

        Raises `RunAlreadyEnded`, and `NoSuchRun` for a run that was never accepted.
        """
        from forum.engine import resume_run

        if resume_run(self.ledger, run, actor):
            return
        alarm = self.store.timer(run, MAIN_STRAND)
        if alarm is not None:
            self.store.reschedule([alarm], 0)

    def fork(
        self,
        run: str,
        at: int,
        policy: "WorkPolicy | None" = None,
        actor: str = OPERATOR,
        ticket: "IdempotencyKey | None" = None,
        ceiling: "RunBudget | None" = None,
    ) -> str:
        """Start a run that reuses another one's replies up to an index, then continues on its own.

        Its budget is that of the other run, limited by `ceiling`. Raises `BodyGone` if a body to be
        reused was erased.
        """
        from forum.engine import check_forkable

        order = self.read_run_request(run)
        check_forkable(self.ledger, run, at)
        if policy is not None:
            order = replace(order, policy=policy)
        if ceiling is not None:
            order = replace(order, budget=order.budget.capped_by(ceiling))
        return self.submit(order, AcceptedFacts(fork_run=run, fork_index=at), actor, ticket)

    def replay(self, run: str) -> list[Divergence]:
        """Execute a run again from its record alone, and return the differences."""
        import asyncio
        from tempfile import TemporaryDirectory

        from forum.backends.sqlite import SqliteStore
        from forum.engine import replay_run
        from forum.models import make_model, make_tool

        with TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "replay.db", self.origin)
            try:
                scratch = Ledger(store, KINDS, now, new_salt, mask=self.mask)
                return asyncio.run(replay_run(self.ledger, run, scratch, make_model, make_tool))
            finally:
                store.close()

    def diff_runs(self, first: str, second: str) -> list[Divergence]:
        """Return the differences between two runs; durations are not compared."""
        from forum.engine import read_steps

        timings = frozenset({"milliseconds"})
        a, b = (read_steps(self.ledger, run, ignoring=timings) for run in (first, second))
        return list(compare_steps(a, b))

    def bodies_at(self, run: str, strand: str, step: str) -> dict[str, bytes]:
        """Return the bodies of a step that were not erased."""
        for _, entry in read_strand_entries(self.ledger, run, strand):
            if entry.step == step:
                return {body.name: body.data for body in self._bodies_of(entry)}
        return {}

    # Gates

    def waiting_gates(self) -> list[tuple[str, run_fold.Gate]]:
        """Return all gates that wait for a decision, each with its run."""
        from forum.engine import find_gate

        found, after = [], None
        while page := self.store.timers(after, 1000, due=False):
            after = page[-1]
            for alarm in page:
                if alarm.strand.startswith(gate_strand("")):
                    subject = alarm.strand.removeprefix(gate_strand(""))
                    found.append((alarm.run, find_gate(self.ledger, alarm.run, subject)))
        return found

    def read_gate(self, run: str, subject: str) -> tuple[run_fold.Gate, bytes]:
        """Return a gate and the content that it shows."""
        from forum.engine import find_gate, read_body

        gate = find_gate(self.ledger, run, subject)
        return gate, read_body(self.ledger, gate.shown_at, "shown")

    def gate_results(self, run: str, subject: str) -> tuple[tuple[str, bytes], ...]:
        """Return the results that a decision is about, by task.

        For a gate before a task: the results of the tasks upstream of it. For a gate before a tool
        use: also the last reply of the agent that requested it.
        """
        state = self.read_run(run)
        plan = self._main_bodies(run, state).get("plan")
        if plan is None:
            return ()
        tasks = read_plan(plan).by_id
        _, _, named = subject.partition("/")
        own = named if named in tasks else named.rpartition("/")[0]
        if own not in tasks:
            return ()
        names = [*tasks[own].upstream, *([] if named in tasks else [own])]
        told = {name: run_fold.last_reply_position(state.task(name)) for name in names}
        found = {name: self._reply_at(at) for name, at in told.items() if at is not None}
        return tuple((name, said) for name, said in found.items() if said)

    def _reply_at(self, at: ports.Position) -> bytes:
        _, entry = next(read_strand_entries(self.ledger, at.run, at.strand, at.n))
        return (read_body(self.store, entry, "output") or b"") if "output" in entry.bodies else b""

    def decide_gate(
        self,
        run: str,
        subject: str,
        answer: Answer,
        digest: str,
        by: Approver = LOCAL_OPERATOR,
    ) -> None:
        """Approve or reject the content with this digest, on behalf of an approver."""
        from forum.engine import decide_gate

        if self.write_keys is None or not self.write_keys.is_enforced:
            # A worker of release 0.1 may still claim the run. It knows only the older kind of
            # decision, and would wait for that one forever.
            old = GateDecisionFacts(answer, digest, Decider.PERSON)
            decide_gate(self.ledger, run, subject, old, by.actor)
            return
        decided = GateDecisionByFacts(answer, digest, by.authority)
        if by.identity is None:
            decide_gate(self.ledger, run, subject, decided, by.actor)
            return
        # A person's identity is recorded in the body only, because a body can be erased.
        actor, identity = by.authority.value, encode_json(by.identity)
        decide_gate(self.ledger, run, subject, decided, actor, identity)

    def edit_gate(
        self, run: str, subject: str, digest: str, shown: bytes, actor: str = OPERATOR
    ) -> str:
        """Replace the content that waits for approval, and return the digest of the new content.

        Raises `Malformed` if it is not UTF-8.
        """
        from forum.engine import edit_gate

        try:
            shown.decode()
        except UnicodeDecodeError as error:
            raise Malformed("text", f"not UTF-8 at byte {error.start}") from None
        return edit_gate(self.ledger, run, subject, digest, shown, actor)

    # Access

    def read_access(self, known: AccessState | None = None) -> AccessState:
        """Return the granted and revoked keys, folding new entries into `known`.

        Raises `TamperDetected`.
        """
        known = known or AccessState()
        added = list(self.store.read_strand(LOG_RUN, ACCESS_STRAND, known.length))
        if not added and known.length:
            return known
        # These checks prevent two attacks through the database: adding a grant, and deleting a
        # revocation, which would make a revoked key valid again.
        if self.write_keys is None:
            # Without the write key, an entry is genuine only if the signed tree holds it.
            tree = SignedTree(self.store, (self.verifier, *self._earlier_keys()))
            for data in added:
                if not tree.has_leaf(leaf_of(data)):
                    raise TamperDetected(
                        f"an entry of {LOG_RUN}/{ACCESS_STRAND}", "no signed tree holds it"
                    )
        heads = self._heads
        check_strand_head(self.store, self.write_keys, ACCESS_STRAND, heads.latest(ACCESS_STRAND))
        access = fold_access(map(self.ledger.kinds.read, added), known)
        if added:
            heads.advance(ACCESS_STRAND, access.length - 1, leaf_of(added[-1]).hex())
        return access

    def grant(
        self, name: str, scopes: Collection[kinds.Scope], seconds: int = 0, actor: str = OPERATOR
    ) -> ApiKey:
        """Create an API key and record its digest; the returned object alone holds the secret."""
        key = ApiKey(self.tenant, os.urandom(6).hex(), os.urandom(32).hex())
        expires = now() + 1_000_000 * seconds if seconds else 0
        facts = Grant(key.id, name, tuple(sorted(scopes)), key.digest, expires).to_facts()
        self.ledger.append_log_entry(Draft(f"grant/{key.id}", actor, facts), ACCESS_STRAND)
        return key

    def revoke(self, key: str, actor: str = OPERATOR) -> None:
        """Revoke an API key. Raises `NoSuchKey`."""
        access = self.read_access()
        if key not in access.granted:
            raise NoSuchKey(key)
        if key not in access.revoked:
            self.ledger.append_log_entry(
                Draft(f"revoke/{key}", actor, kinds.AccessRevocationFacts(key)), ACCESS_STRAND
            )

    def record_denial(self, denied: kinds.AccessDenialFacts, actor: str) -> None:
        """Record that a request was denied."""
        step = f"deny/{os.urandom(8).hex()}"
        self.ledger.append_log_entry(Draft(step, actor, denied), DENIALS_STRAND)

    @property
    def tenant(self) -> str:
        """The prefix by which API keys name their ledger."""
        return _origin_file_name(self.origin)[:8]

    @cached_property
    def _operator_token(self) -> "OperatorToken":
        from forum.backends.operator_token import OperatorToken

        return OperatorToken(self._registry.token_file(self._place))

    def operator_token(self, *, rotate: bool = False) -> str:
        """Return the operator token of this project; create it if needed, or `rotate` it."""
        return self._operator_token.rotate() if rotate else self._operator_token.get_or_create()

    def check_operator_token(self) -> None:
        """Read the operator token, if there is one. Raises `KeyUnreadable` for an unusable one."""
        self._operator_token.read()

    def is_operator(self, shown: str) -> bool:
        """Tell whether this is the token of this project's operator."""
        return self._operator_token.matches(shown)

    # Verifying

    def read_trust(self) -> "Trust":
        """Return the policy and the checkpoints that this reader trusts."""
        from forum.verify import Trust

        guard = self._guard.latest()
        return Trust(policy=self.policy, remembered=self.remembered_checkpoints(), guard=guard)

    def remembered_checkpoints(self) -> tuple[bytes, ...]:
        """Return the last checkpoints that this machine has signed, verified or cosigned."""
        memories = (self._guard, self._seen, self._witness_memory(self.origin))
        return tuple(dict.fromkeys(note for note in (m.latest() for m in memories) if note))

    def remember_signed(self, note: bytes) -> None:
        """Make this machine the signer of the log, continuing from this checkpoint.

        Only for a machine without a guard of its own.
        """
        self._guard.advance(None, note)

    def verify(
        self,
        trust: "Trust",
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        at: int | None = None,
        jobs: int = 1,
    ) -> "Report":
        """Verify the whole ledger, and remember its checkpoint if the report is ok.

        With `jobs` above 1, segments of a long log are checked in that many processes.
        """
        from forum.verify import verify_epochs, verify_ledger

        self._register()
        kept: list[tuple[Iterable[RunSnapshot], VerifiedCheckpoint]] = []

        def keep(runs: "Iterable[RunSnapshot]", last: "VerifiedCheckpoint") -> None:
            kept.append((runs, last))

        with self._snapshot() as reader, self._segment_runner(reader, jobs) as runner:
            # The verifier compares the rows itself and reports forged ones; the check would raise
            # instead.
            reader.check = NoRowCheck()
            moment = at or now()
            seen = self._heads.latest(ACCESS_STRAND)
            report = verify_ledger(
                reader,
                KINDS,
                trust,
                moment,
                progress,
                runner=runner,
                keep=keep,
                write_keys=self.write_keys,
                heads={ACCESS_STRAND: seen} if seen else {},
            )
            report = verify_epochs(reader, report, KINDS, moment, self._earlier_logs(trust))
            note = reader.checkpoint()
        if report.ok and note:
            for runs, last in kept:
                self._save_run_state(runs, last, trust)
            self._remember_seen(note)
        return report

    def _earlier_logs(self, trust: "Trust") -> "EarlierLogs":
        """Return how to open and trust the logs that this one continues."""
        from forum.verify import EarlierLogs

        known = tuple(epoch.origin for epoch in self._known_epochs())
        return EarlierLogs(known, self._open_log, partial(self._trust_of, trust))

    def _trust_of(self, trust: "Trust", origin: str) -> "Trust":
        """Return the keys, policy and checkpoints that a reader trusts for an earlier log."""
        known = [e for e in self._known_epochs() if e.origin == origin]
        keys = tuple(tlog.VerifierKey.parse(vkey) for epoch in known for vkey in epoch.vkeys)
        own = self._log_folder(origin) / "policy"
        policy = trust.policy
        if policy is not None and policy == self.policy and own.exists():
            # The policy under which that log was witnessed.
            policy = tlog.WitnessPolicy.parse(own.read_bytes())
        memories = [self._memory(origin, name) for name in ("guard.note", "seen.note")]
        kept = (m.latest() for m in (*memories, self._witness_memory(origin)))
        named = [key for key in (policy.log_keys if policy else ()) if key.name == origin]
        given = [key for key in trust.keys if key.name == origin]
        shown = [note for note in trust.remembered if _origin_of_note(note) == origin]
        return replace_struct(
            trust,
            keys=tuple(dict.fromkeys((*keys, *named, *given))),
            policy=policy,
            remembered=tuple(dict.fromkeys((*(note for note in kept if note), *shown))),
        )

    def verify_since_seen(
        self,
        trust: "Trust",
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        jobs: int = 1,
    ) -> "tuple[Report, str]":
        """Verify only entries newer than the last successful verification, or everything.

        Return the report, and the reason if everything was verified.
        """
        found = self._verify_new(trust, progress)
        if isinstance(found, str):
            return self.verify(trust, progress, jobs=jobs), found
        return found, ""

    def _verify_new(self, trust: "Trust", progress: Callable[[int, int], None]) -> "Report | str":
        """Verify only new entries; return a reason if that is not possible."""
        from forum.backends.run_progress import open_run_progress
        from forum.verify import verify_epochs, verify_since

        seen = self._seen.latest()
        if seen is None or not self._run_state_file.exists():
            return "no earlier verification has left its state"
        try:
            with open_run_progress(self._run_state_file) as state, self._snapshot() as reader:
                reader.check = NoRowCheck()
                last = state.last(_trust_digest(trust))
                checkpoint = tlog.parse_checkpoint(seen)
                # The saved state is valid for exactly one checkpoint: the one that was seen last.
                if last is None or (last.origin, last.size, last.root) != (
                    checkpoint.origin,
                    checkpoint.size,
                    checkpoint.root.hex(),
                ):
                    return "the state is not that of the checkpoint that was seen last"
                done = verify_since(
                    reader,
                    KINDS,
                    trust,
                    now(),
                    last=last,
                    state=state,
                    progress=progress,
                    write_keys=self.write_keys,
                )
                if done is None:
                    return "something is wrong with the new entries, or with what they continue"
                report, newest = done
                earlier = self._earlier_logs(trust)
                report = verify_epochs(reader, report, KINDS, now(), earlier)
                note = reader.checkpoint()
                if report.ok and note:
                    # After a crash between these two writes the state and the checkpoint differ,
                    # and the next verification checks everything.
                    state.commit(newest, _trust_digest(trust))
                    self._remember_seen(note)
                return report
        except StoreFailed as error:
            return str(error)

    def _save_run_state(
        self, runs: "Iterable[RunSnapshot]", last: "VerifiedCheckpoint", trust: "Trust"
    ) -> None:
        """Save the state of runs for `verify_since_seen`."""
        from forum.backends.run_progress import open_run_progress

        # Saving is optional: a reader without write access can still verify.
        with suppress(StoreFailed), open_run_progress(self._run_state_file) as state:
            state.replace(runs)
            state.commit(last, _trust_digest(trust))

    def _remember_seen(self, note: bytes) -> None:
        """Remember a verified checkpoint, and never replace one by a smaller one."""
        try:
            # Another reader may store a checkpoint at the same time.
            with suppress(ConcurrentUpdate):
                latest = self._seen.latest()
                if (
                    latest is None
                    or tlog.parse_checkpoint(latest).size <= tlog.parse_checkpoint(note).size
                ):
                    self._seen.advance(latest, note)
        except StoreFailed as error:
            self._warn(f"verified, but what was seen could not be remembered: {error}")

    @contextmanager
    def _segment_runner(self, reader: ports.Reader, jobs: int) -> "Iterator[SegmentRunner | None]":
        """Start processes that verify segments if the log is long enough; otherwise yield None."""
        if jobs < 2 or reader.head().size < _MIN_PARALLEL_ENTRIES:
            yield None
            return
        from forum.backends.parallel_verify import LedgerAddress, SegmentProcesses

        database = self.settings.database or ""
        file = "" if database else str(self.settings.ledger_file.absolute())
        with SegmentProcesses(LedgerAddress(self.origin, file, database), jobs) as runner:
            yield runner

    # Witnessing

    @cached_property
    def witness(self) -> "Witness":
        """The witness of this machine; its key and memory are outside every ledger."""
        return open_witness(self.settings.state / "witness")

    def _trust_locally(self) -> None:
        """Register this log with the local witness, and write a default policy if there is none."""
        from forum.backends.state_files import make_private_folder, write_durably

        trust_log(self.settings.state / "witness", self.verifier)
        if not self.policy_file.exists():
            witness = tlog.KnownWitness("local", self.witness.verifier)
            policy = tlog.WitnessPolicy((tlog.KnownLog(self.verifier),), (witness,), (), "local")
            make_private_folder(self.policy_file.parent)
            write_durably(self.policy_file, policy.encode())

    def _cosigners(self) -> "list[WitnessClient]":
        from forum.witness import WitnessClient, http_sender

        clients = []
        for known in self.policy.witnesses:
            name = known.key.name
            if known.key == self.witness.verifier:
                clients.append(WitnessClient(name, self._ask_own_witness))
            elif known.url:
                clients.append(WitnessClient(name, http_sender(name, known.url)))
        return clients

    def _ask_own_witness(self, body: bytes) -> "WitnessReply":
        """Ask the witness of this machine; report a fault of its files as `WitnessUnreachable`."""
        try:
            return self.witness.add_checkpoint(body)
        except (StoreFailed, OSError) as error:
            raise WitnessUnreachable(self.witness.verifier.name, str(error)) from error

    def tamper(self) -> "DatabaseTamperer":
        """Return an attacker's access to the database, for demonstrations."""
        from forum.backends.tampering import PostgresTamperer, SqliteTamperer

        if self.settings.database:
            return PostgresTamperer(self.settings.database, self.store)
        return SqliteTamperer(self.settings.ledger_file, self.store)

    # Files of this machine

    def _log_folder(self, origin: str) -> Path:
        """Return the folder in which this machine keeps its state about a log."""
        return self.settings.state / "logs" / _origin_file_name(origin)

    def _memory(self, origin: str, name: str, what: str = "a memory") -> "FileCheckpointStore":
        from forum.backends.state_files import FileCheckpointStore

        return FileCheckpointStore(self._log_folder(origin) / name, what)

    @property
    def _state(self) -> Path:
        return self._log_folder(self.origin)

    @property
    def _guard(self) -> "FileCheckpointStore":
        return self._memory(self.origin, "guard.note", "the signer's guard")

    @property
    def _heads(self) -> "StrandHeadFile":
        from forum.backends.state_files import StrandHeadFile

        return StrandHeadFile(self._state / "heads")

    @property
    def _seen(self) -> "FileCheckpointStore":
        return self._memory(self.origin, "seen.note", "the reader's memory")

    @property
    def _run_state_file(self) -> Path:
        return self._state / "seen.db"

    def _witness_memory(self, origin: str) -> "FileCheckpointStore":
        return witness_memory(self.settings.state / "witness", origin)

    def _snapshot(self) -> AbstractContextManager[ports.Reader]:
        if self.settings.database or "store" in self.__dict__:
            return self.store.snapshot()
        from forum.backends.sqlite import open_reader

        # Evaluated first, because it raises its own error for a log that was here and is gone.
        origin = self.origin
        if not self.settings.ledger_file.exists():
            raise NoLedger(str(self.settings.data))
        return open_reader(self.settings.ledger_file, origin)


def upgrade_database(settings: Settings, *, post: bool = False) -> list[int]:
    """Migrate the schema of the configured Postgres; `post` locks out older releases.

    Return the versions that were applied.
    """
    with require_extra("postgres"):
        from forum.backends.postgres import upgrade_schema

    return upgrade_schema(settings.database, post=post) if settings.database else []


def verify_bundle_file(
    path: Path, trust: "Trust", progress: Callable[[int, int], None] = lambda _done, _all: None
) -> "Report":
    """Verify the bundle in a file, without reading all of it into memory."""
    from forum.backends.state_files import FileByteSource
    from forum.verify import verify_bundle

    with path.open("rb") as file:
        return verify_bundle(FileByteSource(file.fileno()), KINDS, trust, progress)


@contextmanager
def open_bundle(path: Path) -> Iterator[RunRecord]:
    """Open the run in a bundle without verifying signatures or inclusion.

    Bodies are compared with the commitments of their entries. Raises `Malformed`, `TamperDetected`.
    """
    from forum.backends.state_files import FileByteSource

    with path.open("rb") as file:
        bundle = BundleReader(FileByteSource(file.fileno()))
        named = set(bundle.bodies)

        def read(found: LocatedEntry, name: str) -> bytes | None:
            if found.index is None or (found.index, name) not in named:
                return None
            body = bundle.body(found.index, name)
            check_body(found.entry, name, body)
            return b"".join(body.read())

        read_all = ((index, bundle.entry(index)) for index in bundle.indexes)
        entries = [LocatedEntry(index, data, KINDS.read(data)) for index, data in read_all]
        own = sort_by_index(one for one in entries if one.entry.run == bundle.run)
        yield RunRecord(bundle.run, own, read)


def view_record(record: RunRecord) -> RunView:
    """Return the view of a recorded run, without any store. Raises `NoSuchRun`."""
    state = run_fold.fold((one.leaf, one.entry) for one in record.entries)
    if state.accepted is None:
        raise NoSuchRun(record.run)
    places = {one.position: one for one in record.entries}
    indexes = {one.leaf: one.index for one in record.entries if one.index is not None}

    def told(at: ports.Position | None, name: str) -> bytes | None:
        found = places.get(at) if at else None
        return record.read(found, name) if found and name in found.entry.bodies else None

    begun = next(
        one.position for one in record.entries if isinstance(one.entry.facts, AcceptedFacts)
    )
    planned = next((one.position for one in record.entries if one.leaf == state.plan), None)
    request, plan = told(begun, "request"), told(planned, "plan")
    tasks = list(state.tasks.values())[:_MAX_DETAILED_TASKS]
    errors = {t.id: _decode_prefix(told(t.result.reply_at, "error")) for t in tasks if t.result}
    replies = {t.id: _decode_prefix(told(run_fold.last_reply_position(t), "output")) for t in tasks}
    notes = tuple(
        Noted(one.entry.step, one.entry.facts, _bodies_in(record, one))
        for one in record.entries
        if one.entry.kind in DELIBERATION_KINDS
    )
    policy = told(begun, "policy") if notes else None
    session = None
    if request is not None and policy is not None:
        session = Session(request.decode(errors="replace"), read_policy(policy), state.begun)
    return RunView(
        run=record.run,
        state=state,
        at=now(),
        request=request.decode(errors="replace") if request is not None else None,
        plan=read_plan(plan) if plan is not None else None,
        answer=told(state.answer_at, "answer"),
        errors={name: words for name, words in errors.items() if words},
        gates=tuple((record.run, gate) for gate in state.open_gates),
        entries={t.id: indexes[t.last] for t in tasks if t.last in indexes},
        claims=read_claims(told(state.answer_at, "claims") or b""),
        places={leaf.hex(): index for leaf, index in indexes.items()},
        session=session,
        notes=notes,
        replies={name: words for name, words in replies.items() if words},
    )


def _bodies_in(record: RunRecord, located: LocatedEntry) -> tuple[NoteBody, ...]:
    found = {name: record.read(located, name) for name in located.entry.bodies}
    return tuple(NoteBody(name, body) for name, body in found.items() if body is not None)


def _decode_prefix(body: bytes | None) -> str:
    """Return the beginning of a body as text."""
    return (body or b"")[:_MAX_ERROR_CHARS].decode(errors="replace").strip()


def open_witness(
    folder: Path, name: str | None = None, auditor: "LogAuditor | None" = None
) -> "Witness":
    """Open the witness in a folder, creating its key if there is none.

    With an auditor, it cosigns only checkpoints whose audit has no findings.
    """
    from forum.backends.state_files import lock_file, read_key, write_key
    from forum.verify import LOCAL_WITNESS
    from forum.witness import Witness

    path = folder / "witness.key"
    if not path.exists():
        with lock_file(path):
            if not path.exists():
                name = name or f"{LOCAL_WITNESS}{os.urandom(4).hex()}"
                write_key(path, tlog.SigningKey(os.urandom(32), name, tlog.ED25519_COSIGNATURE))
    return Witness(
        read_key(path),
        lambda: trusted_logs(folder),
        lambda o: witness_memory(folder, o),
        now,
        audit_with(auditor) if auditor else None,
    )


def audit_with(auditor: "LogAuditor") -> "AuditCheckpoint":
    """Return the check that an auditing witness makes before it cosigns."""
    from forum.witness import AuditRefusal

    def audit(checkpoint: tlog.Checkpoint) -> AuditRefusal | None:
        try:
            report = auditor.audit(checkpoint)
        except ForumError as error:
            return AuditRefusal(f"the log cannot be read: {error}", passing=True)
        if report.held:
            return None
        return AuditRefusal(f"{report.found} findings, the first: {report.findings[0]}")

    return audit


def open_auditor(
    folder: Path, sources: Sequence[str], report: "Callable[[AuditReport], None]"
) -> "LogAuditor":
    """Return the auditor of a witness, for logs in these projects and databases.

    Raises `NoLedger` for a folder without a ledger.
    """
    from forum.backends.log_auditor import LogAuditor
    from forum.backends.parallel_verify import LedgerAddress

    addresses = []
    for source in sources:
        if "://" in source:
            addresses.append(LedgerAddress("", database=source))
            continue
        files = [Path(source) / name for name in (".forum/ledger.db", "ledger.db")]
        found = next((file for file in files if file.is_file()), None)
        if found is None:
            raise NoLedger(source)
        addresses.append(LedgerAddress("", file=str(found.absolute())))
    return LogAuditor(folder, addresses, now, report)


def bind_sockets(host: str, port: int, option: str = "--port") -> "list[socket]":
    """Return sockets bound to an address, not listening yet. Raises `PortUnusable`."""
    from forum.backends.sockets import bind_sockets

    return bind_sockets(host, port, option)


def serve_witness(
    witness: "Witness", folder: Path, host: str, port: int, auditor: "LogAuditor | None" = None
) -> None:
    """Serve a witness over HTTP until the process is stopped."""
    with require_extra("server"):
        import uvicorn

        from forum.witness.server import build_witness_app

    app = build_witness_app(
        witness, trusted_logs(folder), auditor.latest_report if auditor else None
    )
    sockets = bind_sockets(host, port)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets)


def witness_memory(folder: Path, origin: str) -> "FileCheckpointStore":
    """Return the file in which a witness remembers its last checkpoint of a log."""
    from forum.backends.state_files import FileCheckpointStore

    return FileCheckpointStore(
        folder / "logs" / f"{_origin_file_name(origin)}.note", "the witness's memory"
    )


def trust_log(
    folder: Path,
    key: tlog.VerifierKey,
    follows: tlog.VerifierKey | None = None,
    *,
    rotated: bool = False,
    alone: bool = False,
) -> None:
    """Let a witness cosign the log with this key.

    A further key of a known log must follow a key that the witness knows; otherwise the operator
    confirms with `rotated` that the log's key was rotated. Afterwards the witness trusts the known
    keys and the new one, or with `alone` only the new one. Raises `WitnessRefused`.
    """
    from forum.backends.state_files import lock_file, write_durably

    path = folder / "logs" / f"{_origin_file_name(key.name)}.vkey"
    with lock_file(path):
        known = trusted_logs(folder).get(key.name, ())
        if known and key not in known and follows not in known and not rotated:
            raise WitnessRefused(folder.name, f"it knows {key.name} by another key; see {path}")
        trusted = (key,) if alone else tuple(dict.fromkeys((*known, key)))
        if trusted != known:
            write_durably(path, "".join(f"{one}\n" for one in trusted).encode())


def trusted_logs(folder: Path) -> dict[str, tuple[tlog.VerifierKey, ...]]:
    """Return the logs that a witness cosigns, with their keys."""
    files = [p.read_text().split() for p in (folder / "logs").glob("*.vkey")]
    keys = [tuple(tlog.VerifierKey.parse(line) for line in lines) for lines in files if lines]
    return {known[0].name: known for known in keys}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder in this order, each atomically and readable by its owner only."""
    from forum.backends.state_files import write_durably

    for name, data in files.items():
        write_durably(folder / name, data)


def _period_at(per: Period, micros: int) -> tuple[str, int]:
    """Return the name of the day or month of a time in UTC, and its end in microseconds."""
    from datetime import UTC, datetime, timedelta

    moment = datetime.fromtimestamp(micros / 1e6, UTC)
    begun = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if per is Period.DAY:
        return f"{begun:%Y-%m-%d}", round((begun + timedelta(days=1)).timestamp() * 1e6)
    following = (begun.replace(day=1) + timedelta(days=31)).replace(day=1)
    return f"{begun:%Y-%m}", round(following.timestamp() * 1e6)


def _origin_of_note(note: bytes) -> str:
    """Return the log that a note belongs to, or an empty string for anything but a checkpoint."""
    try:
        return tlog.parse_checkpoint(note).origin
    except Malformed:
        return ""


def _pending_write_keys_path(path: Path) -> Path:
    """Return the path of the next epoch's write keys, until the next log is in use."""
    return path.with_name(f"{path.name}.next")


def _trust_digest(trust: "Trust") -> str:
    """Return a digest of the keys and the policy that a reader trusts, without its checkpoints."""
    keys = "".join(f"{key}\n" for key in sorted(map(str, trust.log_keys)))
    policy = trust.policy.encode() if trust.policy else b""
    return sha256(keys.encode() + policy).hexdigest()


def _origin_file_name(origin: str) -> str:
    return sha256(origin.encode()).hexdigest()[:16]
