"""The composition root: the only module that knows every room, and what every surface calls.

It puts adapters behind ports, makes the clock, the ids and the salts that the core takes as
arguments, and imports backends inside functions, so that a command loads only what it uses.
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

from forum import __version__
from forum.config import Settings, WorkerCapacity
from forum.deliberation import COUNCIL_KINDS, SYMPOSIUM_KINDS, NoteBody, Session
from forum.deliberation import SessionNote as Noted
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
from forum.ledger import (
    ACCESS_STRAND,
    DENIALS_STRAND,
    KEYS_STRAND,
    LEDGER_KINDS,
    LOG_RUN,
    MAIN_STRAND,
    TAGGED_STRANDS,
    WRITE_KEY_MARK,
    AccessDenialFacts,
    AccessRevocationFacts,
    AccessState,
    ApiKey,
    Attachment,
    BudgetUse,
    BundleReader,
    Content,
    Draft,
    Entry,
    EntryWrite,
    EpochKey,
    Grant,
    IdempotencyRecord,
    KeyAddFacts,
    KeyRotationFacts,
    Ledger,
    LocatedEntry,
    LogEpochFacts,
    NoRowCheck,
    NoteFacts,
    Outcome,
    Position,
    Publication,
    Publisher,
    QuarantineDiscardFacts,
    Reader,
    RedactionReason,
    Scope,
    SecretMask,
    Sequencer,
    SignedTree,
    Spend,
    Store,
    TaggedHead,
    WriteKey,
    WriteKeys,
    WriterCheck,
    check_body,
    check_strand_head,
    fold_access,
    gather_bundle,
    is_before,
    is_secret_name,
    leaf_of,
    locate_run,
    read_body,
    read_strand_entries,
    text_content,
)
from forum.metrics import EntryCounters, LedgerGauges, Sample, with_labels
from forum.tlog import (
    ED25519_COSIGNATURE,
    EMPTY_ROOT,
    Checkpoint,
    Hash,
    KnownLog,
    KnownWitness,
    Note,
    SigningKey,
    VerifierKey,
    WitnessPolicy,
    is_witnessed,
    parse_checkpoint,
)
from forum.work import (
    LEDGER,
    TURN_PREFIX,
    WORK_KINDS,
    AcceptedFacts,
    ActionClaim,
    Answer,
    Authority,
    Decider,
    Divergence,
    Gate,
    GateDecisionByFacts,
    GateDecisionFacts,
    GateRule,
    Identity,
    Period,
    Plan,
    Run,
    RunRecord,
    SharedCap,
    TaskRun,
    TaskState,
    compare_steps,
    fold,
    gate_strand,
    last_reply_position,
    read_claims,
    read_gate_rules,
    read_plan,
    read_policy,
    read_shared_caps,
    sort_by_index,
    task_strand,
)

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
    from forum.work import Policy as WorkPolicy
    from forum.work import RunBudget

DELIBERATION_KINDS = COUNCIL_KINDS | SYMPOSIUM_KINDS
KINDS = LEDGER_KINDS | WORK_KINDS | DELIBERATION_KINDS
"""Every kind of entry that this release knows."""

OPERATOR = "operator"


class Approver(Struct, frozen=True):
    """Who decides at a gate, and by what authority."""

    actor: str
    authority: Authority
    identity: Identity | None = None
    """Of a person, whom the token names; it is kept in a body, which can be erased."""


LOCAL_OPERATOR = Approver(OPERATOR, Authority.OPERATOR)
R = TypeVar("R", bound=Reader)
_POLL_INTERVAL_S = 0.1
_MAX_ERROR_CHARS = 2000
_MAX_DETAILED_TASKS = 1000
"""Of how many tasks details are read: on a screen there is room for fewer."""
_RUNS_PAGE_SIZE = 100
"""How many runs are read together where only some of them are wanted."""
_MAX_CLOCK_SKEW_US = 60_000_000
"""By how many microseconds clocks of writers may differ."""
_MIN_RUN_PREFIX_CHARS = 8
_MAX_COMPARED = 100
"""How many runs are looked at for one whose name begins as was said."""
_MIN_PARALLEL_ENTRIES = 100_000
"""From how many entries on it pays to start processes that verify."""
_DATABASE_URL = "FORUM_DATABASE_URL"
_IDEMPOTENCY_VARIABLE = "FORUM_KEY"
"""It is in the record anyway."""


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


def _warn(message: str) -> None:
    """Warn a program that has not said how it wants to be warned."""
    import warnings

    warnings.warn(message, RuntimeWarning, stacklevel=3)


def new_salt() -> bytes:
    """Return a fresh salt for a body."""
    try:
        return _salts.pop()
    except IndexError:
        # Many at once: each time that the system is asked, other threads may come first.
        block = os.urandom(32 * _SALT_BATCH_SIZE)
        _salts.extend(block[at : at + 32] for at in range(32, len(block), 32))
        return block[:32]


_SALT_BATCH_SIZE = 128
_salts: list[bytes] = []
# What a parent has drawn, its child must not use too.
os.register_at_fork(after_in_child=_salts.clear)


def new_run_id() -> str:
    """Return a new run id: a UUID version 7, so that ids sort by time (RFC 9562 section 5.7)."""
    from uuid import UUID

    stamp = (time.time_ns() // 1_000_000) << 80
    random = int.from_bytes(new_salt()[:10], "big")
    version = (random & ~(0xF << 76) & ~(0x3 << 62)) | 0x7 << 76 | 0x2 << 62
    return str(UUID(int=stamp | version))


def key_variables(settings: Settings) -> set[str]:
    """Return the variables that hold the keys of models and servers, as the project file says."""
    sections = [settings.team.get(kind, {}) for kind in ("models", "servers")]
    named = [one.get("key_env", "") for section in sections for one in section.values()]
    told = settings.doors.get("webhooks", {}).values()
    return {str(name) for name in (*named, *(one.get("secret_env", "") for one in told))} - {""}


def build_secret_mask(environ: Mapping[str, str], named: Collection[str] = ()) -> SecretMask:
    """Return what hides the secrets of an environment, told by the names of its variables.

    Those that are named are secrets whatever they are called.  The path of a file is no secret,
    and of the database's address only the password is one.
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
    # Not with pathlib, to which a long text is an error.
    return os.path.isabs(value) and os.path.exists(value)  # noqa: PTH110, PTH117


def read_password(url: str) -> str:
    """Return the password as it stands in an address, or nothing."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).password or ""
    except ValueError:  # whoever opens the database says what is wrong with it
        return ""


@contextmanager
def _import_without_gc(module: str) -> Iterator[None]:
    """Load a large module without looking for garbage in it, now and later, once in a process.

    A quarter of a short command's time went into that: modules live as long as the process.
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
    """What came of the wish to erase a body."""

    entry: str
    erased: int
    publication: Publication


class EpochStart(Struct, frozen=True):
    """The log that goes on where another one was left."""

    origin: str
    key: VerifierKey
    has_new_key: bool
    """Whether the old key was lost, so that readers have to pin another public key."""


class SigningKeyRotation(Struct, frozen=True):
    """A log that is signed by another key from now on."""

    old: VerifierKey
    key: VerifierKey
    publication: Publication


class RunView(Struct, frozen=True):
    """A run with what its entries commit to, as far as nobody has erased it."""

    run: str
    state: Run
    at: int
    """The moment in which it is seen, in microseconds since 1970."""
    request: str | None
    plan: Plan | None
    answer: bytes | None
    errors: Mapping[str, str]
    """What the systems of agents said last of an error, by task."""
    gates: tuple[tuple[str, Gate], ...]
    """What waits for a person, in it and in the runs within it."""
    entries: Mapping[str, int] = {}
    """The index of the last entry of each task."""
    until: int | None = None
    """The last entry that is taken into account, if not all are."""
    claims: tuple[ActionClaim, ...] = ()
    """What the answer says was done."""
    places: Mapping[str, int] = {}
    """The indexes of the route, of effects and of checks, by the ids of their entries."""
    session: Session | None = None
    """What a panel deliberates on, if one does and nobody has erased it."""
    notes: tuple[Noted, ...] = ()
    """What is recorded of that; without the bodies that were erased."""
    replies: Mapping[str, str] = {}
    """The beginning of the last reply of each task that did not pass."""


class BudgetStatus(Struct, frozen=True):
    """A cap over many runs, and what one key, one lane or the ledger has used of it."""

    cap: SharedCap
    use: BudgetUse


class Forum:
    """One ledger with everything that it needs: store, key, guard, policy, witnesses."""

    def __init__(
        self,
        settings: Settings,
        warn: Callable[[str], None] | None = None,
        *,
        register: bool = True,
    ) -> None:
        """Take the ledger that these settings name.

        `warn` is told in one line what is wrong, or to be known, and yet has stopped nothing;
        `register` says whether the state directory may remember that this log belongs to this
        project.
        """
        self.settings = settings
        self._warn, self._registers = warn or _warn, register
        self._notify = warn or (lambda _line: None)
        """Tells a person of what is no fault; a program that did not ask is not told."""
        self._clock_was_named = False
        self._counters = EntryCounters(KINDS)
        self._worker: Worker | None = None

    # What this ledger is

    @cached_property
    def key(self) -> SigningKey:
        """The key that signs the log; its name is the log's origin.

        Raises `LogKeyMissing` or `LogKeyChanged` where this machine remembers another one.
        """
        from forum.backends.state_files import read_key

        key = read_key(self.settings.key_file) if self.settings.key_file.exists() else None
        self._check_key(key.verifier() if key else None)
        if key is None:
            raise NoLedger(str(self.settings.data))
        return key

    def _check_key(self, key: VerifierKey | None) -> None:
        """Compare the key of this project's log, if one was found, with what is remembered."""
        project = self._registry.find(self._place)
        if key is None:
            project = project or self._registry.find_with_lost_key(self._place)
            if project is not None:
                raise LogKeyMissing(project.current.origin, str(self.settings.key_file))
        elif project is not None and not project.has_key(str(key)):
            raise LogKeyChanged(project.current.origin, str(self.settings.key_file), key.name)

    @property
    def verifier(self) -> VerifierKey:
        """The log's public key: of its own key, or, on a machine that only writes, from a file."""
        if "key" in self.__dict__ or self.settings.key_file.exists():
            return self.key.verifier()
        return self._public_key

    @cached_property
    def _public_key(self) -> VerifierKey:
        # A machine that only writes remembers no log; one that does has lost the key to it.
        self._check_key(None)
        path = self.settings.public_key_file
        if not path.exists():
            raise NoLedger(str(self.settings.data))
        try:
            return VerifierKey.parse(path.read_text().strip())
        except (OSError, Malformed) as error:
            raise KeyUnreadable(str(path), str(error)) from None

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.verifier.name

    @cached_property
    def write_keys(self) -> WriteKeys | None:
        """The keys that tag entries; None on a machine that only reads."""
        from forum.backends.state_files import read_write_keys

        path = self.settings.write_key_file
        for candidate in (path, _pending_write_keys_path(path)):
            if candidate.exists():
                keys = read_write_keys(candidate)
                if keys.origin == self.origin:
                    return keys
        if path.exists():
            raise WrongWriteKey(self.origin, "-", f"{path.name} is for {keys.origin}")
        return None

    @cached_property
    def policy(self) -> WitnessPolicy:
        """The logs and witnesses that this reader trusts."""
        path = self.policy_file
        try:
            return WitnessPolicy.parse(path.read_bytes())
        except OSError as error:
            raise KeyUnreadable(str(path), error.strerror or str(error)) from None

    @property
    def policy_file(self) -> Path:
        """Where the policy is."""
        return self.settings.policy or self._state / "policy"

    @cached_property
    def store(self) -> Store:
        """The store, open for writing."""
        self._register()
        if self.settings.database:
            with require_extra("postgres"):
                from forum.backends.postgres import PostgresStore

            return self._checked(PostgresStore(self.settings.database, self.origin))
        from forum.backends.sqlite import SqliteStore

        return self._checked(SqliteStore(self.settings.ledger_file, self.origin))

    def _checked(self, reader: R) -> R:
        """Have a reader believe only what writers of this log wrote."""
        keys = (self.verifier, *self._earlier_keys())
        reader.check = WriterCheck(reader, self.write_keys, keys, self._reload_write_keys)
        return reader

    @cached_property
    def delta_bus(self) -> "DeltaBus":
        """What models are heard by while they speak: by all processes that share the database."""
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

    def _append_without_key(self, records: Sequence[EntryWrite]) -> None:
        """Append to a log of a release before tags; to another one, refuse to.

        What a machine without the write key adds would be acknowledged, and then set aside.
        """
        if self.store.strand_head(WRITE_KEY_MARK) is not None:
            why = f"{self.settings.write_key_file} is not there"
            raise WrongWriteKey(self.origin, "-", why)
        self.store.append(records)

    @property
    def sequencer(self) -> Sequencer:
        """What gives entries their indexes."""
        return Sequencer(self.store, self.write_keys, self._reload_write_keys)

    def _reload_write_keys(self) -> WriteKeys | None:
        """Read the write keys again: another process may have rotated them."""
        from forum.backends.state_files import read_write_keys

        path = self.settings.write_key_file
        keys = read_write_keys(path) if path.exists() else None
        return keys if keys is not None and keys.origin == self.origin else None

    @cached_property
    def mask(self) -> SecretMask:
        """What must not be recorded: the secrets that this process was started with."""
        given = {**os.environ, _DATABASE_URL: self.settings.database or ""}
        return build_secret_mask(given, key_variables(self.settings))

    @contextmanager
    def open_writer(self) -> Iterator[Ledger]:
        """Keep the ledger for many writers: threads with `append`, tasks with `append_async`.

        What they hand in at about the same time is one commit; indexes, signatures and
        cosignatures are given in the background, and to all that was written at the end.
        """
        from forum.backends.group_commit import GroupCommitter

        self.ledger.check_write_key()
        with self._publish_in_background() as check:
            committer = GroupCommitter(self.store)

            def append(records: Sequence[EntryWrite]) -> None:
                check()
                committer.append(records)
                self._counters.count(records)

            async def append_async(records: Sequence[EntryWrite]) -> None:
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
                # Before the keeper ends: what was handed in is to be signed too.
                committer.close()

    @property
    def is_signer(self) -> bool:
        """Whether this machine is the one that signs: it remembers what it signed last."""
        if not self.settings.key_file.exists():
            return False
        return self._guard.latest() is not None or self.store.checkpoint() is None

    @contextmanager
    def _publish_in_background(self) -> Iterator[Callable[[], None]]:
        """Have the log sequenced and signed meanwhile, where this machine is the one that signs.

        Elsewhere entries are only added; the machine that remembers what it signed does the rest.
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
                # Every entry that was acknowledged is durable; what is missing is the signature.
                self._warn_unsigned(error)

    @contextmanager
    def run_worker(
        self,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
        patience: int = 0,
    ) -> "Iterator[Worker]":
        """Carry out runs in this process, beside all others that do, until the end of the block."""
        with _import_without_gc("forum.backends.dbos_worker"):
            from forum.backends.dbos_worker import Worker, prepare_sqlite_queue
            from forum.engine import Engine
            from forum.models import make_model, make_tool
            from forum.models.sandbox import make_sandbox

        # Before anything is taken on: nothing runs free that was to be confined.
        sandbox = make_sandbox(self.settings)
        if sandbox is not None:
            sandbox.check_usable()
        models, tools = partial(make_model, sandbox=sandbox), partial(make_tool, sandbox=sandbox)
        url = self.settings.database or prepare_sqlite_queue(self.settings.engine_file)
        if self.write_keys is None and self.is_signer:
            # A worker may be the first process of this release.  Without the key it would write
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
        """What watches whether the database answers, and has it logged when that changes."""
        from forum.backends.store_monitor import StoreMonitor

        return StoreMonitor(self.store)

    @cached_property
    def _gauges(self) -> LedgerGauges:
        try:
            return LedgerGauges(self.store, self.policy)
        except KeyUnreadable:  # this machine has none: the one that signs tells of witnesses
            return LedgerGauges(self.store, None)

    def metric_samples(self) -> list[Sample]:
        """Return what this process counts and measures of the ledger.  Raises `StoreFailed`."""
        worker = self._worker.samples() if self._worker else ()
        found = [*self._counters.samples(), *self._gauges.samples(), *worker]
        return with_labels(found, ledger=self.origin)

    @contextmanager
    def open_reader(self) -> Iterator[Reader]:
        """Read the ledger as of one moment, without being able to change it."""
        with self._snapshot() as reader:
            yield self._checked(reader)

    def close(self) -> None:
        """Let go of the database."""
        if "delta_bus" in self.__dict__:
            self.delta_bus.close()
        if "store" in self.__dict__:
            if "budgets" in self.__dict__:
                with suppress(StoreFailed):  # others take back what they need of it
                    self.budgets.close()
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Beginning

    def initialise(self) -> bool:
        """Make key, policy, witness and log where they are missing; tell whether any was.

        Raises `LogKeyMissing` where a log was, and its key is gone.
        """
        from forum.backends.state_files import lock_file

        # One process at a time: of two keys, one would be lost, and all that it had signed.
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
            # A row that somebody put at the end of a strand is set aside before it is read there.
            with suppress(ConcurrentUpdate):  # somebody else does
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
        """Put a new log in the place of this project's log, on purpose.

        What the database holds of the old one stays there; that it was replaced is remembered.
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
            key = SigningKey(os.urandom(32), self._unused_origin(names))
            self._make_folder()
            # Remembered first: stopped before the key is there, the next command says that it is
            # missing, and starting over again is what helps.
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
        """Make the write key of a log that has none: on the machine that signs, and nowhere else.

        Two machines with a key of their own each would have their entries set aside by the other.
        """
        from forum.backends.state_files import write_write_keys

        if self.write_keys is not None:
            return
        # Two that found no key would each make one; who comes second takes that of the first.
        made = self._reload_write_keys()
        if made is not None:
            self._use_write_keys(made)
            return
        if not new and self.store.strand_head(WRITE_KEY_MARK) is not None:
            why = "its file is gone; restore it, or make a new key: forum keys rotate-write"
            raise WrongWriteKey(self.origin, "-", why)
        if not new and not self.is_signer:
            return  # a log of the release before, which is still written without tags
        keys = WriteKeys(self.origin, (WriteKey(os.urandom(32)),), 0 if new else None)
        write_write_keys(self.settings.write_key_file, keys)
        self._use_write_keys(keys)

    def _use_write_keys(self, keys: WriteKeys) -> None:
        """Have everything that is open write and read with these keys from now on."""
        self.write_keys = keys
        if "store" in self.__dict__:
            self._checked(self.store)
        self.__dict__.pop("ledger", None)

    def _enforce_tags_when_alone(self) -> None:
        from forum.backends.sqlite import SqliteStore

        if isinstance(self.store, SqliteStore) and self.store.enforce_tags():
            self.enforce_tags()

    def enforce_tags(self) -> bool:
        """Refuse entries without a tag from now on, once the ledger was verified.

        Returns whether they are refused.  For when no process of a release before tags is left:
        the database refuses its entries already.
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
        # The file comes last: stopped before it, all of this is done again and finds itself done.
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
        """Tag what the release before has tied to names: nobody can change it from now on."""
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
            self.store.save_strand_head(TaggedHead(strand, n, leaf, keys.tag_head(strand, n, leaf)))

    def discard_quarantine(self) -> int:
        """Delete the rows that were set aside, having recorded which; return how many."""
        rows = self.store.quarantined_rows()
        if rows:
            leaves = b"".join(leaf_of(found.row.data) for found in rows)
            digest = sha256(leaves).hexdigest()
            facts = QuarantineDiscardFacts(len(rows), digest)
            self.ledger.append_log_entry(Draft(f"quarantine/{digest[:16]}", OPERATOR, facts))
            self.publish()
            self.store.discard_quarantine([found.id for found in rows])
        return len(rows)

    def rotate_write_key(self) -> str:
        """Tag entries with a new key from now on; those of the older ones still hold."""
        from forum.backends.state_files import write_write_keys

        if not self.is_signer:
            raise WrongWriteKey(self.origin, "-", "only the machine that signs makes write keys")
        # After the loss of the file what is signed is believed without a tag; what is not is set
        # aside by the next sequencer.
        old = self.write_keys or WriteKeys(self.origin, (), self.store.head().size)
        # In the file of the machine that signs before it tags anything: whatever is tagged with
        # it, here or on a machine that has got the file, is known to the sequencer.
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
        write_key(self.settings.key_file, SigningKey(os.urandom(32), self._unused_origin(())))

    def _close_log(self) -> None:
        """Let go of everything that was opened for the log in use before."""
        self.close()
        names = ("key", "_public_key", "write_keys", "policy", "store", "ledger", "publisher")
        for name in (*names, "sequencer", "delta_bus"):
            self.__dict__.pop(name, None)

    def _set_key_aside(self) -> SigningKey | None:
        """Keep the key file that is in place under another name, and return what it holds."""
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
        """Leave the log at the last checkpoint that was signed, and begin its next epoch.

        The old key goes on signing if it is there.  Where it was lost or exchanged, a new one is
        made, which readers have to pin again; without a reason that is refused.
        """
        from forum.backends.project_registry import ProjectEpoch
        from forum.backends.state_files import write_key, write_write_keys

        old, origin = self._key_to_leave(reason)
        left, held = self._find_end(origin)
        base, _, number = origin.rpartition("/epoch-")
        following = int(number) + 1 if base and number.isdecimal() else 2
        name = f"{base or origin}/epoch-{following}"
        key = SigningKey(old.seed, name) if old else self._pending_key(name)
        vkey = str(key.verifier())
        facts = LogEpochFacts(
            EpochKey.KEPT if old else EpochKey.NEW, held.size, held.root.hex() if held.size else ""
        )
        bodies = (Attachment("reason", text_content(reason), "text/plain"),) if reason else ()
        self._save_policy(origin)
        self._make_folder()
        self._change_project(ProjectEpoch(name, (vkey,)), origin)
        following_keys = _pending_write_keys_path(self.settings.write_key_file)
        with Forum(self.settings, register=False) as successor:
            successor.key = key
            # Where this was stopped before, the next log has entries with the tags of these keys.
            tags = self._prepared_keys(following_keys, key.name)
            successor.write_keys = tags
            write_write_keys(following_keys, tags)
            successor._trust_locally()
            draft = Draft("log/epoch", OPERATOR, facts, (), bodies)
            successor.ledger.initialize(f"forumd/{__version__}", key.verifier(), left, draft)
            successor.ledger.mark_write_key()
            # The key comes last: stopped before it, the old log is still the one, and all of this
            # is found when it is tried again.  Of two files with write keys, the one of the log
            # that is used counts.
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

    def _key_to_leave(self, reason: str) -> tuple[SigningKey | None, str]:
        """Return the key of the log that is left, unless it was lost, and the log's name."""
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
        self._register()  # which completes an earlier rotation that was stopped near its end
        return key, key.name

    def _pending_key(self, name: str) -> SigningKey:
        """Return the new key of a log, the same one until it is in use.

        Stopped half-way, whoever tries again must find the key that witnesses were told of.
        """
        from forum.backends.state_files import read_key, write_key

        path = self.settings.key_file.with_name(f"{self.settings.key_file.name}.next")
        if path.exists():
            key = read_key(path)
            project = self._registry.find(self._place)
            used = {vkey for epoch in project.epochs for vkey in epoch.vkeys} if project else set()
            if key.name == name and str(key.verifier()) not in used:
                return key
        key = SigningKey(os.urandom(32), name)
        write_key(path, key)
        return key

    def _find_end(self, origin: str) -> tuple[Checkpoint, Checkpoint]:
        """Return the last checkpoint that was signed of a log, and the last that is still here."""
        with self._open_log(origin) as reader:
            stored = reader.checkpoint() if reader is not None else None
        notes = (self._memory(origin, "guard.note").latest(), self._witness_memory(origin).latest())
        nothing = Checkpoint(origin, 0, EMPTY_ROOT)
        held = parse_checkpoint(stored) if stored else nothing
        signed = [parse_checkpoint(note) for note in notes if note]
        # The guard was first to know of whatever was signed; without it, the largest that is known.
        return (signed[0] if notes[0] else max([held, *signed], key=lambda c: c.size)), held

    @contextmanager
    def _open_log(self, origin: str) -> Iterator[Reader | None]:
        """Read another log of the same database; nothing where it is not there."""
        with ExitStack() as opened:
            try:
                reader: Reader | None = opened.enter_context(self._reader_of(origin))
            except NoSuchLog:
                reader = None
            yield reader

    def _reader_of(self, origin: str) -> AbstractContextManager[Reader]:
        if self.settings.database:
            with require_extra("postgres"):
                from forum.backends import postgres

            return postgres.open_reader(self.settings.database, origin)
        from forum.backends import sqlite

        if not self.settings.ledger_file.exists():
            raise NoSuchLog(origin)
        return sqlite.open_reader(self.settings.ledger_file, origin)

    def _save_policy(self, origin: str) -> None:
        """Remember under which policy a log was witnessed: its successor may get another one."""
        from forum.backends.state_files import lock_file, write_durably

        own = self._log_folder(origin) / "policy"
        if self.settings.policy is not None and self.settings.policy.exists() and not own.exists():
            with lock_file(own):
                write_durably(own, self.settings.policy.read_bytes())

    def _warn_of_policy_gaps(self, key: VerifierKey) -> None:
        if self.settings.policy is not None and key not in self.policy.log_keys:
            place = f"in the place of the log's own in {self.settings.policy}"
            self._notify(f"put this line {place}: log {key}")

    # The signing key

    def rotate_key(self) -> SigningKeyRotation:
        """Have the log signed by a new key, to which the old one hands it over.

        Raises `RotationRefused` on a machine that does not sign.
        """
        from forum.backends.project_registry import ProjectEpoch
        from forum.backends.state_files import lock_file, write_key

        self._register()  # which completes an earlier rotation that was stopped near its end
        if not self.is_signer:
            raise RotationRefused(self.origin, "another machine signs it; rotate the key there")
        folder, path = self.settings.state / "witness", self.settings.key_file
        known = self._known_epochs()
        if not known:
            raise RotationRefused(self.origin, f"{self.settings.state} cannot be written")
        with lock_file(path):
            old, new = self.key, self._pending_key(self.origin)
            key, earlier = new.verifier(), known[-1].vkeys
            # Stopped before the new key is in its place: the old one goes on, and the same new key
            # is found when this is tried again.
            self._change_project(ProjectEpoch(self.origin, (*earlier, str(key))), self.origin)
            trust_log(folder, key, follows=old.verifier())
            hand_over = self._record_hand_over(old.verifier(), key)
            # Signed by the old key: only then may the new one sign anything.
            self.publish()
            self._add_to_policy(key)
            aside = path.with_name(f"{path.name}.rotated-{old.verifier().key_id.hex()}")
            write_key(aside, old)
            # Stopped after this: the new key is the log's, and signs the next tree.
            write_key(path, new)
            path.with_name(f"{path.name}.next").unlink(missing_ok=True)
            self._complete_project()
            self._close_log()
            self._write_public_key()
        draft = Draft(f"add/{key.key_id.hex()}", OPERATOR, KeyAddFacts(str(key)), (hand_over,))
        self.ledger.append_log_entry(draft, KEYS_STRAND)
        publication = self.publish()
        # The witness of this machine cosigns nothing more that the old key signs.
        trust_log(folder, key, follows=old.verifier(), alone=True)
        self._warn_of_policy_gaps(key)
        return SigningKeyRotation(old.verifier(), key, publication)

    def _record_hand_over(self, old: VerifierKey, new: VerifierKey) -> Hash:
        """Record that one key hands the log over to another, unless that is recorded."""
        facts = KeyRotationFacts(str(old), str(new))
        for leaf, entry in read_strand_entries(self.ledger, LOG_RUN, KEYS_STRAND):
            if entry.facts == facts:
                return leaf
        draft = Draft(f"rotate/{new.key_id.hex()}", OPERATOR, facts)
        return self.ledger.append_log_entry(draft, KEYS_STRAND).leaf

    def _add_to_policy(self, key: VerifierKey) -> None:
        """Name a further key of this log in the policy that this machine has written itself."""
        from forum.backends.state_files import lock_file, write_durably

        path = self._state / "policy"
        if self.settings.policy is not None or not path.exists():
            return
        with lock_file(path):
            policy = WitnessPolicy.parse(path.read_bytes())
            if key not in policy.log_keys:
                logs = (KnownLog(key), *policy.logs)
                write_durably(path, replace(policy, logs=logs).encode())

    def _earlier_keys(self) -> tuple[VerifierKey, ...]:
        """Return the keys that this log had before the one in use."""
        project = self._registry.find(self._place)
        own, epochs = str(self.verifier), [*self._known_epochs()]
        if project is not None and project.pending is not None:
            epochs.append(project.pending)
        found = [e.vkeys[: e.vkeys.index(own)] for e in epochs if own in e.vkeys]
        return tuple(VerifierKey.parse(vkey) for vkeys in found for vkey in vkeys)

    # The project

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
        """Remember that this log belongs to this project; tell if it was elsewhere before."""
        from forum.backends.project_registry import register_log

        key = self.verifier
        if not self._registers or not self.settings.key_file.exists():
            return
        try:
            line = register_log(self._registry, self._place, str(key), key.name)
        except StoreFailed as error:
            # Nothing that is remembered was lost by this; a full disk must not stop readers.
            line = f"which log belongs to this project could not be remembered: {error}"
        if line:
            self._notify(line)

    def _change_project(self, pending: "ProjectEpoch", origin: str) -> None:
        """Remember what is about to be in use, beside what is."""
        from forum.backends.project_registry import Project, ProjectEpoch

        place, project, lost = self._place, self._registry.find(self._place), None
        if project is None:
            lost = self._registry.find_with_lost_key(place)
            epochs = lost.epochs if lost else (ProjectEpoch(origin, (str(self.key.verifier()),)),)
            project = Project(place.path, place.database, place.key_file, epochs)
        self._registry.save(replace_struct(project, pending=pending))
        if lost is not None:
            self._registry.forget(lost)  # it goes on here

    def _complete_project(self) -> None:
        """Remember that what was pending is in use now."""
        project = self._registry.find(self._place)
        if project is not None:
            self._registry.save(project.complete_pending())

    def _known_epochs(self) -> "tuple[ProjectEpoch, ...]":
        """Return the logs of this project that this machine remembers, the oldest first."""
        project = self._registry.find(self._place)
        return project.epochs if project is not None else ()

    def _prepared_keys(self, path: Path, origin: str) -> WriteKeys:
        """Return the write keys that wait for a log, or new ones."""
        from forum.backends.state_files import read_write_keys

        keys = read_write_keys(path) if path.exists() else None
        if keys is not None and keys.origin == origin:
            return keys
        return WriteKeys(origin, (WriteKey(os.urandom(32)),), 0)

    # Writing

    def publish(self, patience: float = 0.0) -> Publication:
        """Sequence and sign what is there, and ask the witnesses, before a command ends.

        Where another machine signs, its checkpoint is waited for, so many seconds.
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
        """Sign what was recorded before a command ends; where a fault prevents it, only warn.

        The entries are durable already, and the next write signs them: a command that failed here
        would be repeated, and record everything twice.
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
        """Warn that this machine's clock disagrees with others, once."""
        if publication.clock_warnings and not self._clock_was_named:
            self._clock_was_named = True
            for warning in publication.clock_warnings:
                self._warn(warning)

    def _signed_elsewhere(self, size: int, patience: float) -> Publication | None:
        """Wait for a checkpoint of at least this size, and for the witnesses of one."""
        deadline = time.monotonic() + patience
        while True:
            notes = [Note.parse(data) for data in self.store.checkpoints(size)]
            seen = next((note for note in notes if is_witnessed(note, self.policy)), None)
            if seen or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_INTERVAL_S)
        if not notes:
            return None
        note = seen or notes[-1]
        return Publication(note.encode(), Checkpoint.parse(note.text), seen is not None)

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
        """Put a remark on record, in a run of its own; None if it could not be signed yet.

        With the key of an earlier call it is the remark of that call which is returned, or
        `IdempotencyKeyUsed` raised if that had another text.
        """
        run = self._append_note(content, idempotency_key)
        publication = self.publish_or_warn()
        return self.ledger.find_entry(str(Position(run, MAIN_STRAND, 1))), publication

    def _append_note(self, content: Content, key: str | None) -> str:
        """Record a remark in a run of its own, and return the run, which may be an earlier one."""
        run, digest = new_run_id(), sha256(b"".join(content.chunks())).hexdigest()
        body = Attachment("text", content, "text/plain")
        # All of it is one commit, the key too: no crash and no full disk can come in between.
        name = f"{OPERATOR}/note/{key}"
        effects = (IdempotencyRecord(name, run, digest),) if key is not None else ()
        draft = Draft("note", OPERATOR, NoteFacts(), (), (body,), effects)
        try:
            self.ledger.record_run(run, OPERATOR, draft)
        except IdempotencyKeyUsed as asked:
            if asked.digest != digest:
                raise
            self.ledger.check_idempotency_row(name, asked)
            return asked.run
        return run

    def redact(self, entry: str, body: str, reason: RedactionReason) -> RedactionResult:
        """Record a redaction, have it signed, and only then erase.  Raises `RunNotEnded`."""
        target = self.ledger.find_entry(entry)
        run = self.read_run(target.entry.run)
        if run.accepted is not None and run.outcome is None:
            raise RunNotEnded(target.entry.run)
        recorded = self.ledger.request_redaction(target, body, OPERATOR, reason)
        publication = self.publish()
        return RedactionResult(recorded.leaf.hex(), len(self.ledger.erase_redacted()), publication)

    def find_run(self, what: str) -> str:
        """Return the run that is meant: by its name, the beginning of it, or any entry of it."""
        if self.store.strands(what):
            return what
        # A few digits are an index first: every small index is the beginning of some run.
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
        """Return the only run whose name begins so, if there is one.  Raises `AmbiguousRun`."""
        if not prefix:
            return None
        listed = self.store.runs(prefix, _MAX_COMPARED)
        found = [run for run in listed if run.startswith(prefix)]
        if len(found) > 1:
            # Runs within a run are named after it: whoever does not say more means the outer one.
            found = [run for run in found if not self._parent_of(run)] or found
        if len(found) > 1:
            more = len(listed) == _MAX_COMPARED and listed[-1].startswith(prefix)
            raise AmbiguousRun(prefix, found, more=more)
        return found[0] if found else None

    def _parent_of(self, run: str) -> str:
        accepted = self.read_run(run).accepted
        return accepted.parent_run if accepted else ""

    def export(self, run: str, actor: str = OPERATOR, patience: float = 0.0) -> bytes:
        """Return the evidence bundle of a run; that it was exported is an entry, and signed.

        Where another machine signs, that is waited for, so many seconds.
        """
        if not self.store.strands(run):
            raise NoSuchEntry(f"the log has no run {run}")
        # Reading them checks them: an altered run is not exported.
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
        """Take a request on, and return the run that will answer it, whatever happens now.

        What was asked for with the same ticket before is not taken on again: its run is returned,
        or `IdempotencyKeyUsed` raised if it was something else.
        """
        from forum.engine import accept_run

        run, order = new_run_id(), self._with_gate_rules(order)
        return self.budgets.spend(
            self.budgets.limits(actor, order.lanes),
            Spend(runs=1),
            lambda charges: accept_run(
                self.ledger, run, order, actor, origin, ticket, charges=charges
            ),
        )

    async def submit_async(
        self,
        order: "RunRequest",
        actor: str,
        past: Checkpoint | None,
        ticket: "IdempotencyKey | None" = None,
    ) -> str:
        """Do the same on an event loop that must not be held up, after some recent checkpoint."""
        from forum.engine import accept_run_async

        run, order = new_run_id(), self._with_gate_rules(order)
        return await self.budgets.spend_async(
            self.budgets.limits(actor, order.lanes),
            Spend(runs=1),
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
        """What the operator lets keys, lanes and the ledger use in a day or a month."""
        file = str(self.settings.file or self.settings.user_file)
        return read_shared_caps(file, self.settings.team)

    @cached_property
    def gate_rules(self) -> tuple[GateRule, ...]:
        """What the operator wants approved, whatever a submitter asks for."""
        file = str(self.settings.file or self.settings.user_file)
        return read_gate_rules(file, self.settings.team)

    def budget_status(self) -> tuple[BudgetStatus, ...]:
        """Return what was used of each cap in the day or the month that it is now."""
        with self.open_reader() as reader:
            uses, moment = reader.budget_use(), self.store.now()
        found = []
        for cap in self.shared_caps:
            period, until = _period_at(cap.per, moment)
            mine = [use for use in uses if use.period == period and cap.holds_for(use.scope)]
            if not mine and not cap.key and not cap.lane:
                mine = [BudgetUse(LEDGER, period, until, Spend())]
            found += [BudgetStatus(cap, use) for use in mine]
        return tuple(found)

    def _with_gate_rules(self, order: "RunRequest") -> "RunRequest":
        """Return an order under the operator's gates; what it says of them itself is dropped."""
        return replace(order, policy=order.policy.with_gate_rules(self.gate_rules))

    def read_run(self, run: str, until: int | None = None) -> Run:
        """Return a run as it stands, or as it stood when an entry of this index was the last."""
        if not self.store.strands(run):
            raise NoSuchRun(run)
        told = (
            t
            for strand in self.store.strands(run)
            for t in read_strand_entries(self.ledger, run, strand)
        )
        return fold(t for t in told if until is None or is_before(self.store, t[0], until))

    def read_run_request(self, run: str) -> "RunRequest":
        """Return what was asked for in a run, as it was asked."""
        from forum.engine import read_run_request

        return read_run_request(self.ledger, run)

    def read_run_context(self, run: str) -> "RunContext":
        """Return what was asked for in a run, and its plan."""
        from forum.engine import read_run_context

        return read_run_context(self.ledger, run)

    def recent_runs(
        self,
        before: str | None,
        limit: int,
        *,
        within: bool = False,
        since: int = 0,
        matches: Callable[[str, Run], bool] | None = None,
    ) -> list[tuple[str, Run]]:
        """Return the runs that were accepted last, the newest first; on request those within.

        Only those that were begun since some moment (in microseconds since 1970) and match.
        """
        found: list[tuple[str, Run]] = []
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
            # Names of runs are in the order of their beginnings; clocks may differ by a little.
            if last.begun and last.begun < since - _MAX_CLOCK_SKEW_US:
                break
        return found[:limit]

    def lanes_of(self, run: str, state: Run) -> frozenset[str]:
        """Return the lanes that a run was given to: by its route, or by the tasks of its plan."""
        plan = self._main_bodies(run, state).get("plan")
        named = {task.lane for task in read_plan(plan).all_tasks} if plan is not None else set()
        return frozenset({*named, state.routed.lane if state.routed else ""} - {""})

    def outer_run(self, run: str) -> str:
        """Return the run that a run is within, or the run itself."""
        while parent := self._parent_of(run):
            run = parent
        return run

    def view_run(self, run: str, until: LocatedEntry | None = None) -> RunView:
        """Return all that can be told of a run, or could be when an entry was the last."""
        state = self.read_run(run, until.index if until else None)
        if state.accepted is None and until is None:
            raise NoSuchRun(run)  # the log's own strands, or notes: nobody has asked for anything
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
            self._failed_replies(told) if state.outcome not in (None, Outcome.OK) else {},
        )

    def read_run_record(self, run: str) -> RunRecord:
        """Return the entries of a run in the order of the log, and what reads their bodies."""
        entries = sort_by_index(locate_run(self.store, KINDS, run))
        return RunRecord(run, entries, lambda found, name: read_body(self.store, found.entry, name))

    def _failed_replies(self, tasks: Sequence[TaskRun]) -> dict[str, str]:
        """Return how the last replies begin of tasks that did not pass."""
        last = {
            task.id: last_reply_position(task)
            for task in tasks
            if task.state is not TaskState.PASSED
        }
        told = {name: self._body_prefix(at, "output") for name, at in last.items() if at}
        return {name: words for name, words in told.items() if words}

    def _read_session(
        self, run: str, state: Run, until: int | None
    ) -> tuple[Session | None, tuple[Noted, ...]]:
        """Return what a panel deliberates on in a run, and what was noted of it so far."""
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

    def read_session(self, run: str, state: Run | None = None) -> Session:
        """Return what a panel deliberates on in a run, and how."""
        order = self.read_run_request(run)
        begun = (state or self.read_run(run)).begun
        return Session(order.request, order.policy, begun)

    def _bodies_of(self, entry: Entry[Any]) -> tuple[NoteBody, ...]:
        found = {name: read_body(self.store, entry, name) for name in entry.bodies}
        return tuple(NoteBody(name, body) for name, body in found.items() if body is not None)

    def _entry_indexes(self, state: Run) -> dict[str, int]:
        """Return the indexes of what is told beside the tasks."""
        uses = [use for task in state.tasks.values() for use in task.uses][:_MAX_DETAILED_TASKS]
        named = [state.route, *(leaf for leaf, _ in state.checks)]
        named += [use.outcome or use.entry for use in uses]
        return self._indexes({leaf.hex(): leaf for leaf in named if leaf})

    def _indexes(self, named: Mapping[str, Hash | None]) -> dict[str, int]:
        """Return the indexes of entries under their names, all in one look."""
        leaves = {name: leaf for name, leaf in named.items() if leaf}
        found = zip(leaves, self.store.indexes(list(leaves.values())), strict=True)
        return {name: index for name, index in found if index is not None}

    def request_of(self, run: str) -> str | None:
        """Return what was asked for in a run, unless that was erased."""
        request = self._main_bodies(run, Run()).get("request")
        return request.decode(errors="replace") if request is not None else None

    def _main_bodies(self, run: str, state: Run) -> dict[str, bytes]:
        """Return request, plan, answer and claims of a run in this state."""
        found: dict[str, bytes] = {}
        for leaf, entry in read_strand_entries(self.ledger, run, MAIN_STRAND):
            at = Position(run, MAIN_STRAND, entry.n)
            named = {"request"} if isinstance(entry.facts, AcceptedFacts) else set()
            named |= {"plan"} if leaf == state.plan else set()
            named |= {"answer", "claims"} if at == state.answer_at else set()
            for name in named & entry.bodies.keys():
                body = read_body(self.store, entry, name)
                if body is not None:
                    found[name] = body
        return found

    def _error_prefix(self, at: Position | None) -> str:
        return self._body_prefix(at, "error")

    def _body_prefix(self, at: Position | None, name: str) -> str:
        """Return how a body begins, as text."""
        body = self.store.body(at, name) if at else None
        if at is None or body is None:
            return ""
        _, entry = next(read_strand_entries(self.ledger, at.run, at.strand, at.n))
        return _decode_prefix(read_body(self.store, entry, name))

    @property
    def has_workers(self) -> bool:
        """Whether somebody carries out runs of this ledger now."""
        return bool(set(self.store.workers()).difference(self.store.expired_workers()))

    def follow_run(
        self,
        run: str,
        watch: Callable[[Run], None] = lambda _: None,
        patience: float | None = None,
        wait: Callable[[float], object] = time.sleep,
    ) -> Run:
        """Watch a run until nobody goes on with it, or patience is over.

        That is when it has ended, was interrupted, or waits for a person.  `wait` is called with
        some seconds between two looks; whatever it returns but None and 0 ends the watching.
        """
        begun, state = time.monotonic(), self.read_run(run)
        while True:
            looked = time.monotonic()
            state = self._fold_new_entries(run, state)
            if state.outcome is not None:
                # Once more from the beginning: a task may have begun after we asked which have.
                state = self.read_run(run)
            watch(state)
            late = patience is not None and looked - begun > patience
            over = state.outcome is not None or state.interrupted
            if over or late or self._is_waiting(run, state):
                return state
            # To look takes longer the more there is to see; not all of the time goes into it.
            if wait(max(_POLL_INTERVAL_S, 2 * (time.monotonic() - looked))):
                return state

    def _fold_new_entries(self, run: str, state: Run) -> Run:
        """Take in what was added to a run; a task that has ended gets nothing added."""
        ended = {task_strand(task.id) for task in state.tasks.values() if task.state.is_end}
        fresh = [
            told
            for strand in self.store.strands(run)
            if strand not in ended
            for told in read_strand_entries(self.ledger, run, strand, state.lengths.get(strand, 0))
        ]
        return fold(fresh, state) if fresh else state

    def _is_waiting(self, run: str, state: Run) -> bool:
        """Tell whether a run can only be gone on with after a person has decided something."""
        tasks = [state.task(name) for name in state.tasks]
        if any(task.state is TaskState.RUNNING for task in tasks):
            return False
        alarm = self.store.timer(run, MAIN_STRAND)
        # Whoever drove it has put its alarm out, or left it to ring when its time is over.
        at = None if alarm is None else alarm.at
        if at is not None and abs(at - (state.deadline or 0)) > 1_000_000:
            return False
        if any(gate.deadline <= self.store.now() for gate in state.open_gates):
            return False  # its default is about to hold
        within = [t.delegated.run for t in tasks if t.delegated and t.state is TaskState.WAITING]
        children = [(child, self.read_run(child)) for child in within if self.store.strands(child)]
        if len(children) < len(within) or not (state.open_gates or children):
            return False
        return all(self._is_waiting(child, inner) for child, inner in children)

    def open_gates(self, run: str, state: Run) -> list[tuple[str, Gate]]:
        """Return what waits for a person, in a run and in the runs within it."""
        found = [(run, gate) for gate in state.open_gates]
        for name in state.tasks:
            task = state.task(name)
            if task.delegated and task.state is TaskState.WAITING:
                child = task.delegated.run
                if self.store.strands(child):
                    found += self.open_gates(child, self.read_run(child))
        return found

    def cancel(self, run: str, actor: str = OPERATOR) -> None:
        """Ask a run to end."""
        from forum.engine import cancel_run

        cancel_run(self.ledger, run, actor)

    def interrupt(self, run: str, actor: str = OPERATOR) -> bool:
        """Record that nobody is to go on with a run before it is resumed; False if it has ended."""
        from forum.engine import interrupt_run

        return interrupt_run(self.ledger, run, actor)

    def interrupted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that were interrupted and not resumed."""
        return self.store.interrupted_runs("", limit)

    def live_workers(self) -> set[str]:
        """Return those who carry out runs of this ledger now."""
        return set(self.store.workers()) - set(self.store.expired_workers())

    def accepted_runs(self, limit: int) -> list[str]:
        """Return some of the runs that whoever works on this ledger goes on with."""
        timers = self.store.timers(None, limit, due=False)
        return list(dict.fromkeys(timer.run for timer in timers if timer.strand == MAIN_STRAND))

    def resume(self, run: str, actor: str = OPERATOR) -> None:
        """Have a run looked after now, if nobody does; what is done already is not done again.

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
        """Begin a run that takes over another one's replies up to an index, and goes on itself.

        It may use what the other one might, as far as a ceiling allows it.  Raises `BodyGone` where
        something that it would take over was erased.
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
        """Play a run again from its record alone, and return where it then says something else."""
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
        """Return where two runs part; how long something took is no difference."""
        from forum.engine import read_steps

        timings = frozenset({"milliseconds"})
        a, b = (read_steps(self.ledger, run, ignoring=timings) for run in (first, second))
        return list(compare_steps(a, b))

    def bodies_at(self, run: str, strand: str, step: str) -> dict[str, bytes]:
        """Return the bodies that are left of a step."""
        for _, entry in read_strand_entries(self.ledger, run, strand):
            if entry.step == step:
                return {body.name: body.data for body in self._bodies_of(entry)}
        return {}

    # Gates

    def waiting_gates(self) -> list[tuple[str, Gate]]:
        """Return everything that waits for a person."""
        from forum.engine import find_gate

        found, after = [], None
        while page := self.store.timers(after, 1000, due=False):
            after = page[-1]
            for alarm in page:
                if alarm.strand.startswith(gate_strand("")):
                    subject = alarm.strand.removeprefix(gate_strand(""))
                    found.append((alarm.run, find_gate(self.ledger, alarm.run, subject)))
        return found

    def read_gate(self, run: str, subject: str) -> tuple[Gate, bytes]:
        """Return a gate and what it shows."""
        from forum.engine import find_gate, read_body

        gate = find_gate(self.ledger, run, subject)
        return gate, read_body(self.ledger, gate.shown_at, "shown")

    def gate_results(self, run: str, subject: str) -> tuple[tuple[str, bytes], ...]:
        """Return the results that a decision is about, by task.

        Of a task, those of the tasks that it waits for; of an effect, also what was said by the
        agent that wants it.
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
        told = {name: last_reply_position(state.task(name)) for name in names}
        found = {name: self._reply_at(at) for name, at in told.items() if at is not None}
        return tuple((name, said) for name, said in found.items() if said)

    def _reply_at(self, at: Position) -> bytes:
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
        """Approve or reject what has this digest, in somebody's name."""
        from forum.engine import decide_gate

        if self.write_keys is None or not self.write_keys.is_enforced:
            # A worker of release 0.1 may still take the run on, and would wait for a decision for
            # ever: it knows no other kind.
            old = GateDecisionFacts(answer, digest, Decider.PERSON)
            decide_gate(self.ledger, run, subject, old, by.actor)
            return
        decided = GateDecisionByFacts(answer, digest, by.authority)
        if by.identity is None:
            decide_gate(self.ledger, run, subject, decided, by.actor)
            return
        # Who it was stands in the body, which can be erased, and nowhere else.
        actor, identity = by.authority.value, encode_json(by.identity)
        decide_gate(self.ledger, run, subject, decided, actor, identity)

    def edit_gate(
        self, run: str, subject: str, digest: str, shown: bytes, actor: str = OPERATOR
    ) -> str:
        """Replace what waits for approval, and return the digest of what now does."""
        from forum.engine import edit_gate

        try:
            shown.decode()
        except UnicodeDecodeError as error:
            raise Malformed("text", f"not UTF-8 at byte {error.start}") from None
        return edit_gate(self.ledger, run, subject, digest, shown, actor)

    # Access

    def read_access(self, known: AccessState | None = None) -> AccessState:
        """Return who may do what, from what is known and what was added since."""
        known = known or AccessState()
        added = list(self.store.read_strand(LOG_RUN, ACCESS_STRAND, known.length))
        if not added and known.length:
            return known
        # A revocation that was deleted must not open the door again.
        if self.write_keys is None:
            # Without the write key only what is signed can be told from what somebody put there.
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
        self, name: str, scopes: Collection[Scope], seconds: int = 0, actor: str = OPERATOR
    ) -> ApiKey:
        """Make a key.  Its secret is nowhere but in what is returned."""
        key = ApiKey(self.tenant, os.urandom(6).hex(), os.urandom(32).hex())
        expires = now() + 1_000_000 * seconds if seconds else 0
        facts = Grant(key.id, name, tuple(sorted(scopes)), key.digest, expires).to_facts()
        self.ledger.append_log_entry(Draft(f"grant/{key.id}", actor, facts), ACCESS_STRAND)
        return key

    def revoke(self, key: str, actor: str = OPERATOR) -> None:
        """Let a key open nothing from now on."""
        access = self.read_access()
        if key not in access.granted:
            raise NoSuchKey(key)
        if key not in access.revoked:
            self.ledger.append_log_entry(
                Draft(f"revoke/{key}", actor, AccessRevocationFacts(key)), ACCESS_STRAND
            )

    def record_denial(self, denied: AccessDenialFacts, actor: str) -> None:
        """Put on record that somebody was turned away."""
        step = f"deny/{os.urandom(8).hex()}"
        self.ledger.append_log_entry(Draft(step, actor, denied), DENIALS_STRAND)

    @property
    def tenant(self) -> str:
        """How keys name the ledger that they belong to."""
        return _origin_file_name(self.origin)[:8]

    @cached_property
    def _operator_token(self) -> "OperatorToken":
        from forum.backends.operator_token import OperatorToken

        return OperatorToken(self._registry.token_file(self._place))

    def operator_token(self, *, rotate: bool = False) -> str:
        """Return the token of this project's operator: made where there is none, or replaced."""
        return self._operator_token.rotate() if rotate else self._operator_token.get_or_create()

    def check_operator_token(self) -> None:
        """Read the token, if there is one.  Raises `KeyUnreadable` for one that opens nothing."""
        self._operator_token.read()

    def is_operator(self, shown: str) -> bool:
        """Tell whether this is the token of this project's operator."""
        return self._operator_token.matches(shown)

    # Verifying

    def read_trust(self) -> "Trust":
        """Return what this reader trusts and remembers."""
        from forum.verify import Trust

        guard = self._guard.latest()
        return Trust(policy=self.policy, remembered=self.remembered_checkpoints(), guard=guard)

    def remembered_checkpoints(self) -> tuple[bytes, ...]:
        """Return the last checkpoints that this machine has signed, verified or cosigned."""
        memories = (self._guard, self._seen, self._witness_memory(self.origin))
        return tuple(dict.fromkeys(note for note in (m.latest() for m in memories) if note))

    def remember_signed(self, note: bytes) -> None:
        """Let a machine that remembers nothing be the one that signed this checkpoint."""
        self._guard.advance(None, note)

    def verify(
        self,
        trust: "Trust",
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        at: int | None = None,
        jobs: int = 1,
    ) -> "Report":
        """Check the whole ledger, and remember its checkpoint if everything holds.

        With several jobs, segments of a long log are checked in so many processes.
        """
        from forum.verify import verify_epochs, verify_ledger

        self._register()
        kept: list[tuple[Iterable[RunSnapshot], VerifiedCheckpoint]] = []

        def keep(runs: "Iterable[RunSnapshot]", last: "VerifiedCheckpoint") -> None:
            kept.append((runs, last))

        with self._snapshot() as reader, self._segment_runner(reader, jobs) as runner:
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
        """Return how the logs that this one continues are verified."""
        from forum.verify import EarlierLogs

        known = tuple(epoch.origin for epoch in self._known_epochs())
        return EarlierLogs(known, self._open_log, partial(self._trust_of, trust))

    def _trust_of(self, trust: "Trust", origin: str) -> "Trust":
        """Return what a reader trusts and remembers of an earlier log of this project."""
        known = [e for e in self._known_epochs() if e.origin == origin]
        keys = tuple(VerifierKey.parse(vkey) for epoch in known for vkey in epoch.vkeys)
        own = self._log_folder(origin) / "policy"
        policy = trust.policy
        if policy is not None and policy == self.policy and own.exists():
            policy = WitnessPolicy.parse(own.read_bytes())  # under which it was witnessed
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
        """Check what is new since the last verification that held, or everything.

        Return the report, and why everything was checked, if it was.
        """
        found = self._verify_new(trust, progress)
        if isinstance(found, str):
            return self.verify(trust, progress, jobs=jobs), found
        return found, ""

    def _verify_new(self, trust: "Trust", progress: Callable[[int, int], None]) -> "Report | str":
        """Check what is new; say why it cannot be done without the rest."""
        from forum.backends.run_progress import open_run_progress
        from forum.verify import verify_epochs, verify_since

        seen = self._seen.latest()
        if seen is None or not self._run_state_file.exists():
            return "no earlier verification has left its state"
        try:
            with open_run_progress(self._run_state_file) as state, self._snapshot() as reader:
                reader.check = NoRowCheck()
                last = state.last(_trust_digest(trust))
                checkpoint = parse_checkpoint(seen)
                # The state is good for exactly one checkpoint: the one that was seen last.
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
                    # Stopped between the two: they differ, and everything is verified next time.
                    state.commit(newest, _trust_digest(trust))
                    self._remember_seen(note)
                return report
        except StoreFailed as error:
            return str(error)

    def _save_run_state(
        self, runs: "Iterable[RunSnapshot]", last: "VerifiedCheckpoint", trust: "Trust"
    ) -> None:
        """Keep the state of runs for `verify_since_seen`."""
        from forum.backends.run_progress import open_run_progress

        # A reader that may not write there is a reader all the same.
        with suppress(StoreFailed), open_run_progress(self._run_state_file) as state:
            state.replace(runs)
            state.commit(last, _trust_digest(trust))

    def _remember_seen(self, note: bytes) -> None:
        """Remember a checkpoint that this reader has verified, and never a smaller one."""
        try:
            with suppress(ConcurrentUpdate):  # another reader has seen it at the same time
                latest = self._seen.latest()
                if latest is None or parse_checkpoint(latest).size <= parse_checkpoint(note).size:
                    self._seen.advance(latest, note)
        except StoreFailed as error:
            self._warn(f"verified, but what was seen could not be remembered: {error}")

    @contextmanager
    def _segment_runner(self, reader: Reader, jobs: int) -> "Iterator[SegmentRunner | None]":
        """Start processes that check segments, where there is enough for them to do."""
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
        """Let the local witness know this log, and write the policy of a lone machine."""
        from forum.backends.state_files import make_private_folder, write_durably

        trust_log(self.settings.state / "witness", self.verifier)
        if not self.policy_file.exists():
            witness = KnownWitness("local", self.witness.verifier)
            policy = WitnessPolicy((KnownLog(self.verifier),), (witness,), (), "local")
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
        """Ask the witness of this machine; a fault of its files is a witness out of reach."""
        try:
            return self.witness.add_checkpoint(body)
        except (StoreFailed, OSError) as error:
            raise WitnessUnreachable(self.witness.verifier.name, str(error)) from error

    def tamper(self) -> "DatabaseTamperer":
        """Hold the database as a thief would; for demonstrations."""
        from forum.backends.tampering import PostgresTamperer, SqliteTamperer

        if self.settings.database:
            return PostgresTamperer(self.settings.database, self.store)
        return SqliteTamperer(self.settings.ledger_file, self.store)

    # Where things are

    def _log_folder(self, origin: str) -> Path:
        """Where this machine keeps what it knows of a log."""
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

    def _snapshot(self) -> AbstractContextManager[Reader]:
        if self.settings.database or "store" in self.__dict__:
            return self.store.snapshot()
        from forum.backends.sqlite import open_reader

        origin = self.origin  # first: a log that was here and is gone has an error of its own
        if not self.settings.ledger_file.exists():
            raise NoLedger(str(self.settings.data))
        return open_reader(self.settings.ledger_file, origin)


def upgrade_database(settings: Settings, *, post: bool = False) -> list[int]:
    """Bring the schema of the configured Postgres up to date; `post` shuts older releases out."""
    with require_extra("postgres"):
        from forum.backends.postgres import upgrade_schema

    return upgrade_schema(settings.database, post=post) if settings.database else []


def verify_bundle_file(
    path: Path, trust: "Trust", progress: Callable[[int, int], None] = lambda _done, _all: None
) -> "Report":
    """Check the bundle in a file, without reading all of it into memory."""
    from forum.backends.state_files import FileByteSource
    from forum.verify import verify_bundle

    with path.open("rb") as file:
        return verify_bundle(FileByteSource(file.fileno()), KINDS, trust, progress)


@contextmanager
def open_bundle(path: Path) -> Iterator[RunRecord]:
    """Open the run in a bundle as it is, without asking whether it is genuine.

    Bodies are compared with what their entries commit to.  Raises `Malformed`, `TamperDetected`.
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
    """Return what a record tells of its run, without any store."""
    state = fold((one.leaf, one.entry) for one in record.entries)
    if state.accepted is None:
        raise NoSuchRun(record.run)
    places = {one.position: one for one in record.entries}
    indexes = {one.leaf: one.index for one in record.entries if one.index is not None}

    def told(at: Position | None, name: str) -> bytes | None:
        found = places.get(at) if at else None
        return record.read(found, name) if found and name in found.entry.bodies else None

    begun = next(
        one.position for one in record.entries if isinstance(one.entry.facts, AcceptedFacts)
    )
    planned = next((one.position for one in record.entries if one.leaf == state.plan), None)
    request, plan = told(begun, "request"), told(planned, "plan")
    tasks = list(state.tasks.values())[:_MAX_DETAILED_TASKS]
    errors = {t.id: _decode_prefix(told(t.result.reply_at, "error")) for t in tasks if t.result}
    replies = {t.id: _decode_prefix(told(last_reply_position(t), "output")) for t in tasks}
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
    """Return how a body begins, as text."""
    return (body or b"")[:_MAX_ERROR_CHARS].decode(errors="replace").strip()


def open_witness(
    folder: Path, name: str | None = None, auditor: "LogAuditor | None" = None
) -> "Witness":
    """Open the witness that lives in a folder, making its key if there is none.

    With an auditor, it cosigns only what that finds nothing wrong with.
    """
    from forum.backends.state_files import lock_file, read_key, write_key
    from forum.verify import LOCAL_WITNESS
    from forum.witness import Witness

    path = folder / "witness.key"
    if not path.exists():
        with lock_file(path):
            if not path.exists():
                name = name or f"{LOCAL_WITNESS}{os.urandom(4).hex()}"
                write_key(path, SigningKey(os.urandom(32), name, ED25519_COSIGNATURE))
    return Witness(
        read_key(path),
        lambda: trusted_logs(folder),
        lambda o: witness_memory(folder, o),
        now,
        audit_with(auditor) if auditor else None,
    )


def audit_with(auditor: "LogAuditor") -> "AuditCheckpoint":
    """Return what an auditing witness asks before it cosigns."""
    from forum.witness import AuditRefusal

    def audit(checkpoint: Checkpoint) -> AuditRefusal | None:
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
    """Return sockets for a server at an address, not listening yet.  Raises `PortUnusable`."""
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
    """Return what a witness remembers of a log."""
    from forum.backends.state_files import FileCheckpointStore

    return FileCheckpointStore(
        folder / "logs" / f"{_origin_file_name(origin)}.note", "the witness's memory"
    )


def trust_log(
    folder: Path,
    key: VerifierKey,
    follows: VerifierKey | None = None,
    *,
    rotated: bool = False,
    alone: bool = False,
) -> None:
    """Let a witness cosign the log with this key.

    A second key of a log that is known already has to follow one that the witness knows, or its
    operator says that the log was `rotated`.  From then on both are trusted, or the new one alone.
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


def trusted_logs(folder: Path) -> dict[str, tuple[VerifierKey, ...]]:
    """Return the logs that a witness cosigns, with their keys."""
    files = [p.read_text().split() for p in (folder / "logs").glob("*.vkey")]
    keys = [tuple(VerifierKey.parse(line) for line in lines) for lines in files if lines]
    return {known[0].name: known for known in keys}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put files into a folder, for its owner only, in this order; each is there whole or not."""
    from forum.backends.state_files import write_durably

    for name, data in files.items():
        write_durably(folder / name, data)


def _period_at(per: Period, micros: int) -> tuple[str, int]:
    """Return the day or the month of a moment, in UTC, and when it ends."""
    from datetime import UTC, datetime, timedelta

    moment = datetime.fromtimestamp(micros / 1e6, UTC)
    begun = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if per is Period.DAY:
        return f"{begun:%Y-%m-%d}", round((begun + timedelta(days=1)).timestamp() * 1e6)
    following = (begun.replace(day=1) + timedelta(days=31)).replace(day=1)
    return f"{begun:%Y-%m}", round(following.timestamp() * 1e6)


def _origin_of_note(note: bytes) -> str:
    """Return which log a note is of; nothing if it is none."""
    try:
        return parse_checkpoint(note).origin
    except Malformed:
        return ""


def _pending_write_keys_path(path: Path) -> Path:
    """Return where the write keys of the next epoch wait until its log is the one in use."""
    return path.with_name(f"{path.name}.next")


def _trust_digest(trust: "Trust") -> str:
    """Return what tells apart whom readers trust; not what they remember."""
    keys = "".join(f"{key}\n" for key in sorted(map(str, trust.log_keys)))
    policy = trust.policy.encode() if trust.policy else b""
    return sha256(keys.encode() + policy).hexdigest()


def _origin_file_name(origin: str) -> str:
    return sha256(origin.encode()).hexdigest()[:16]
