"""The composition root: the only module that knows every room, and what every surface calls.

It puts adapters behind ports, makes the clock, the ids and the salts that the core takes as
arguments, and imports backends inside functions, so that a command loads only what it uses.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from forum import __version__
from forum.config import Capacity, Settings
from forum.deliberation import COUNCIL_KINDS, SYMPOSIUM_KINDS, Body, Session
from forum.deliberation import Note as Noted
from forum.errors import (
    AmbiguousRun,
    BodyGone,
    GuardMissing,
    KeyUnreadable,
    Malformed,
    NoLedger,
    NoSuchEntry,
    NoSuchKey,
    NoSuchRun,
    Overtaken,
    RunGoesOn,
    WitnessRefused,
    extra,
)
from forum.ledger import (
    ACCESS,
    DENIALS,
    LEDGER_KINDS,
    LOG_RUN,
    MAIN,
    Access,
    AccessDenied,
    AccessGranted,
    AccessRevoked,
    ApiKey,
    Attachment,
    Content,
    Draft,
    Entry,
    Ledger,
    Located,
    Mask,
    Outcome,
    Position,
    Publication,
    Publisher,
    Reader,
    Record,
    RedactReason,
    Remark,
    Scope,
    Sequencer,
    Store,
    entries_of,
    fold_access,
    gather_bundle,
    is_before,
    names_a_secret,
)
from forum.tlog import (
    ED25519_COSIGNATURE,
    Checkpoint,
    Hash,
    KnownLog,
    KnownWitness,
    Note,
    Policy,
    SigningKey,
    VerifierKey,
    checkpoint_of,
    is_witnessed,
)
from forum.work import (
    TURN,
    WORK_KINDS,
    Accepted,
    Answer,
    Claim,
    Decider,
    Divergence,
    Gate,
    GateDecided,
    Plan,
    Run,
    TaskState,
    compare,
    fold,
    gate_strand,
    read_claims,
    read_plan,
    task_strand,
)

if TYPE_CHECKING:
    from forum.backends.files import FileMemory
    from forum.backends.tamper import Tamper
    from forum.backends.whispers import Channel
    from forum.backends.worker import Worker
    from forum.engine import Case, Order, Ticket
    from forum.verify import Report, Trust
    from forum.witness import Witness, WitnessClient
    from forum.work import Budget
    from forum.work import Policy as WorkPolicy

DELIBERATION_KINDS = COUNCIL_KINDS | SYMPOSIUM_KINDS
KINDS = LEDGER_KINDS | WORK_KINDS | DELIBERATION_KINDS
"""Every kind of entry that this release knows."""

OPERATOR = "operator"
_LOOK_SECONDS = 0.1
_MOST_OF_AN_ERROR = 2000
_MOST_TOLD = 1000
"""Of how many tasks details are read: on a screen there is room for fewer."""
_SHORTEST_RUN = 8
_DATABASE_URL = "FORUM_DATABASE_URL"
_EFFECT_ID = "FORUM_KEY"
"""It is in the record anyway."""


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


def new_salt() -> bytes:
    """Return a fresh salt for a body."""
    try:
        return _salts.pop()
    except IndexError:
        # Many at once: each time that the system is asked, other threads may come first.
        block = os.urandom(32 * _SALTS)
        _salts.extend(block[at : at + 32] for at in range(32, len(block), 32))
        return block[:32]


_SALTS = 128
_salts: list[bytes] = []
# What a parent has drawn, its child must not use too.
os.register_at_fork(after_in_child=_salts.clear)


def new_run() -> str:
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


def secrets_of(environ: Mapping[str, str], named: Collection[str] = ()) -> Mask:
    """Return what hides the secrets of an environment, told by the names of its variables.

    Those that are named are secrets whatever they are called.  The path of a file is no secret,
    and of the database's address only the password is one.
    """
    from urllib.parse import unquote

    found = {
        name: value.strip()
        for name, value in environ.items()
        if name in named or (names_a_secret(name) and name.upper() != _EFFECT_ID)
    }
    found = {name: value for name, value in found.items() if not _is_path(value)}
    quoted = _password_in(environ.get(_DATABASE_URL, ""))
    found |= {_DATABASE_URL: unquote(quoted), f"{_DATABASE_URL}.quoted": quoted}
    return Mask.of({name: os.fsencode(value) for name, value in found.items()})


def _is_path(value: str) -> bool:
    # Not with pathlib, to which a long text is an error.
    return os.path.isabs(value) and os.path.exists(value)  # noqa: PTH110, PTH117


def _password_in(url: str) -> str:
    """Return the password as it stands in an address, or nothing."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).password or ""
    except ValueError:  # whoever opens the database says what is wrong with it
        return ""


class Redaction(Struct, frozen=True):
    """What came of the wish to erase a body."""

    entry: str
    erased: int
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
    claims: tuple[Claim, ...] = ()
    """What the answer says was done."""
    places: Mapping[str, int] = {}
    """The indexes of the route, of effects and of checks, by the ids of their entries."""
    session: Session | None = None
    """What a panel deliberates on, if one does and nobody has erased it."""
    notes: tuple[Noted, ...] = ()
    """What is recorded of that; without the bodies that were erased."""


class Forum:
    """One ledger with everything that it needs: store, key, guard, policy, witnesses."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    # What this ledger is

    @cached_property
    def key(self) -> SigningKey:
        """The key that signs the log; its name is the log's origin."""
        from forum.backends.files import read_key

        if not self.settings.key_file.exists():
            raise NoLedger(str(self.settings.data))
        return read_key(self.settings.key_file)

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.key.name

    @cached_property
    def policy(self) -> Policy:
        """The logs and witnesses that this reader trusts."""
        path = self.policy_file
        try:
            return Policy.parse(path.read_bytes())
        except OSError as error:
            raise KeyUnreadable(str(path), error.strerror or str(error)) from None

    @property
    def policy_file(self) -> Path:
        """Where the policy is."""
        return self.settings.policy or self._state / "policy"

    @cached_property
    def store(self) -> Store:
        """The store, open for writing."""
        if self.settings.database:
            with extra("postgres"):
                from forum.backends.postgres import PostgresStore

            return PostgresStore(self.settings.database, self.origin)
        from forum.backends.sqlite import SqliteStore

        return SqliteStore(self.settings.ledger_file, self.origin)

    @cached_property
    def whispers(self) -> "Channel":
        """What models are heard by while they speak: by all processes that share the database."""
        if self.settings.database:
            with extra("postgres"):
                from forum.backends.postgres_whispers import PostgresWhispers

            return PostgresWhispers(self.settings.database, self.origin)
        from forum.backends.whispers import LocalWhispers

        return LocalWhispers()

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, for writing and reading."""
        return Ledger(self.store, KINDS, now, new_salt, mask=self.mask)

    @cached_property
    def mask(self) -> Mask:
        """What must not be recorded: the secrets that this process was started with."""
        given = {**os.environ, _DATABASE_URL: self.settings.database or ""}
        return secrets_of(given, key_variables(self.settings))

    @contextmanager
    def writing(self) -> Iterator[Ledger]:
        """Keep the ledger for many writers: threads with `append`, tasks with `append_async`.

        What they hand in at about the same time is one commit; indexes, signatures and
        cosignatures are given in the background, and to all that was written at the end.
        """
        from forum.backends.committer import Committer

        with self._keeping() as check:
            committer = Committer(self.store)

            def append(records: Sequence[Record]) -> None:
                check()
                committer.append(records)

            async def append_async(records: Sequence[Record]) -> None:
                check()
                await committer.append_async(records)

            before = self.ledger
            self.ledger = Ledger(
                self.store, KINDS, now, new_salt, append, append_async, mask=self.mask
            )
            try:
                yield self.ledger
            finally:
                self.ledger = before
                # Before the keeper ends: what was handed in is to be signed too.
                committer.close()

    @property
    def signs(self) -> bool:
        """Whether this machine is the one that signs: it remembers what it signed last."""
        return self._guard.latest() is not None or self.store.checkpoint() is None

    @contextmanager
    def _keeping(self) -> Iterator[Callable[[], None]]:
        """Have the log sequenced and signed meanwhile, where this machine is the one that signs.

        Elsewhere entries are only added; the machine that remembers what it signed does the rest.
        """
        from forum.backends.keeper import Keeper

        if not self.signs:
            yield lambda: None
            return
        keeper = Keeper(self.store, Sequencer(self.store), self.publisher)
        try:
            yield keeper.check
        finally:
            keeper.close()

    @contextmanager
    def working(
        self,
        capacity: Capacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
        patience: int = 0,
    ) -> "Iterator[Worker]":
        """Carry out runs in this process, beside all others that do, until the end of the block."""
        from forum.backends.worker import Worker, sqlite_url
        from forum.engine import Engine
        from forum.models import make_model, make_tool

        url = self.settings.database or sqlite_url(self.settings.engine_file)
        with self.writing() as ledger:
            engine = Engine(ledger, make_model, make_tool, whispers=self.whispers)
            worker = Worker(engine, self.store, capacity, report)
            worker.start(url)
            try:
                yield worker
            except BaseException:
                worker.close()
                raise
            worker.close(patience)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Read the ledger as of one moment, without being able to change it."""
        with self._snapshot() as reader:
            yield reader

    def close(self) -> None:
        """Let go of the database."""
        if "whispers" in self.__dict__:
            self.whispers.close()
        if "store" in self.__dict__:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Beginning

    def initialise(self) -> bool:
        """Make key, policy, witness and log where they are missing; tell whether any was."""
        from forum.backends.files import locked

        # One process at a time: of two keys, one would be lost, and all that it had signed.
        with locked(self.settings.key_file):
            fresh = not self.settings.key_file.exists()
            if fresh:
                self._make_key()
            self._trust_locally()
        self.ledger.begin(f"forumd/{__version__}", self.key.verifier())
        if fresh:
            self.settle()
        return fresh

    def _make_key(self) -> None:
        from forum.backends.files import write_key

        self.settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.settings.data / ".gitignore").write_text("*\n")
        origin = self.settings.origin or f"forum.local/{os.urandom(4).hex()}"
        write_key(self.settings.key_file, SigningKey(os.urandom(32), origin))

    def new_epoch(self) -> str:
        """Leave the log at the last checkpoint that was signed, and begin its next epoch."""
        from forum.backends.files import write_key

        last = self._guard.latest() or self.store.checkpoint()
        left = checkpoint_of(last) if last else None
        base, _, number = self.origin.rpartition("/epoch-")
        following = int(number) + 1 if base and number.isdecimal() else 2
        key = SigningKey(self.key.seed, f"{base or self.origin}/epoch-{following}")
        with Forum(self.settings) as successor:
            successor.key = key
            successor._trust_locally()
            successor.ledger.begin(f"forumd/{__version__}", key.verifier(), left)
            # The key comes last: stopped before it, the old log is still the one, and all of this
            # is found when it is tried again.
            write_key(self.settings.key_file.with_suffix(f".{following - 1}"), self.key)
            write_key(self.settings.key_file, key)
            successor.settle()
        return key.name

    # Writing

    def settle(self, patience: float = 0.0) -> Publication:
        """Sequence and sign what is there, and ask the witnesses, before a command ends.

        Where another machine signs, its checkpoint is waited for, so many seconds.
        """
        Sequencer(self.store).drain()
        try:
            return self.publisher.publish()
        except GuardMissing:
            signed = self._signed_elsewhere(self.store.head().size, patience)
            if signed is None:
                raise
            return signed

    def _signed_elsewhere(self, size: int, patience: float) -> Publication | None:
        """Wait for a checkpoint of at least this size, and for the witnesses of one."""
        deadline = time.monotonic() + patience
        while True:
            notes = [Note.parse(data) for data in self.store.checkpoints(size)]
            seen = next((note for note in notes if is_witnessed(note, self.policy)), None)
            if seen or time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_SECONDS)
        if not notes:
            return None
        note = seen or notes[-1]
        return Publication(note.encode(), Checkpoint.parse(note.text), seen is not None)

    @cached_property
    def publisher(self) -> Publisher:
        """The signer of this log."""
        return Publisher(self.store, self.key, self._guard, self.policy, self._cosigners())

    def remark(self, content: Content) -> tuple[Located, Publication]:
        """Put a remark on record, in a run of its own."""
        run = self.ledger.open_run(new_run(), OPERATOR)
        body = Attachment("text", content, "text/plain")
        parents = (run.head,) if run.head else ()
        (recorded,) = run.append(Draft("note", OPERATOR, Remark(), parents, (body,)))
        self.ledger.close_run(run, OPERATOR, Outcome.OK)
        publication = self.settle()
        return self.ledger.find(recorded.leaf.hex()), publication

    def redact(self, entry: str, body: str, reason: RedactReason) -> Redaction:
        """Record a redaction, have it signed, and only then erase.  Raises `RunGoesOn`."""
        target = self.ledger.find(entry)
        run = self.read_run(target.entry.run)
        if run.accepted is not None and run.outcome is None:
            raise RunGoesOn(target.entry.run)
        recorded = self.ledger.request_redaction(target, body, OPERATOR, reason)
        publication = self.settle()
        return Redaction(recorded.leaf.hex(), len(self.ledger.erase_redacted()), publication)

    def run_of(self, what: str) -> str:
        """Return the run that is meant: by its name, the beginning of it, or any entry of it."""
        if self.store.strands(what):
            return what
        found = self._runs_beginning(what)
        if len(found) > 1:
            # Runs within a run are named after it: whoever does not say more means the outer one.
            found = [run for run in found if not self._parent_of(run)] or found
        if len(found) > 1:
            raise AmbiguousRun(what, len(found))
        if found:
            return found[0]
        try:
            return self.ledger.find(what).entry.run
        except (Malformed, NoSuchEntry):
            why = f"the log has no run {what} either; forum runs lists them"
            raise NoSuchEntry(why) from None

    def _runs_beginning(self, prefix: str) -> list[str]:
        if len(prefix) < _SHORTEST_RUN:  # or every index would be the beginning of some run
            return []
        return [run for run in self.store.runs(prefix, 100) if run.startswith(prefix)]

    def _parent_of(self, run: str) -> str:
        accepted = self.read_run(run).accepted
        return accepted.parent_run if accepted else ""

    def export(self, run: str, actor: str = OPERATOR, patience: float = 0.0) -> bytes:
        """Return the evidence bundle of a run; that it was exported is an entry, and signed.

        Where another machine signs, that is waited for, so many seconds.
        """
        strands = self.store.strands(run)
        if not strands:
            raise NoSuchEntry(f"the log has no run {run}")
        entries = sum(1 for strand in strands for _ in self.store.strand(run, strand))
        self.ledger.record_export(run, entries, self.store.head().size, actor)
        self.settle(patience)
        verifier = (files("forum.verify") / "standalone.py").read_bytes()
        with self.reading() as reader:
            return gather_bundle(reader, KINDS, run, self.policy, verifier).encode()

    # Running

    def submit(
        self,
        order: "Order",
        origin: Accepted | None = None,
        actor: str = OPERATOR,
        ticket: "Ticket | None" = None,
    ) -> str:
        """Take a request on, and return the run that will answer it, whatever happens now.

        What was asked for with the same ticket before is not taken on again: its run is returned,
        or `AlreadyAsked` raised if it was something else.
        """
        from forum.engine import accept

        return accept(self.ledger, new_run(), order, actor, origin, ticket)

    async def submit_async(
        self, order: "Order", actor: str, past: Checkpoint | None, ticket: "Ticket | None" = None
    ) -> str:
        """Do the same on an event loop that must not be held up, after some recent checkpoint."""
        from forum.engine import accept_async

        return await accept_async(self.ledger, new_run(), order, actor, past, ticket)

    def read_run(self, run: str, until: int | None = None) -> Run:
        """Return a run as it stands, or as it stood when an entry of this index was the last."""
        if not self.store.strands(run):
            raise NoSuchRun(run)
        told = (
            t for strand in self.store.strands(run) for t in entries_of(self.ledger, run, strand)
        )
        return fold(t for t in told if until is None or is_before(self.store, t[0], until))

    def order_of(self, run: str) -> "Order":
        """Return what was asked for in a run, as it was asked."""
        from forum.engine import order_of

        return order_of(self.ledger, run)

    def read_case(self, run: str) -> "Case":
        """Return what was asked for in a run, and its plan."""
        from forum.engine import read_case

        return read_case(self.ledger, run)

    def recent_runs(
        self, before: str | None, limit: int, *, within: bool = False
    ) -> list[tuple[str, Run]]:
        """Return the runs that were accepted last, the newest first; on request those within."""
        found: list[tuple[str, Run]] = []
        while len(found) < limit and (page := self.store.runs_before(before, limit)):
            states = [(run, self.read_run(run)) for run in page]
            found += [
                (run, state)
                for run, state in states
                if state.accepted and (within or not state.accepted.parent_run)
            ]
            before = page[-1]
        return found[:limit]

    def outer_run(self, run: str) -> str:
        """Return the run that a run is within, or the run itself."""
        while parent := self._parent_of(run):
            run = parent
        return run

    def view(self, run: str, until: Located | None = None) -> RunView:
        """Return all that can be told of a run, or could be when an entry was the last."""
        state = self.read_run(run, until.index if until else None)
        if state.accepted is None and until is None:
            raise NoSuchRun(run)  # the log's own strands, or notes: nobody has asked for anything
        bodies = self._main_bodies(run, state)
        request, plan, answer = (bodies.get(name) for name in ("request", "plan", "answer"))
        told = list(state.tasks.values())[:_MOST_TOLD]
        errors = {task.id: self._error(task.result.reply_at) for task in told if task.result}
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
            self._places(state),
            *self._sitting(run, state, until.index if until else None),
        )

    def _sitting(
        self, run: str, state: Run, until: int | None
    ) -> tuple[Session | None, tuple[Noted, ...]]:
        """Return what a panel deliberates on in a run, and what was noted of it so far."""
        if state.planned:
            return None, ()
        turns = [task_strand(name) for name in state.tasks if name.startswith(TURN)]
        notes = tuple(
            Noted(entry.step, entry.facts, self._bodies_of(entry))
            for strand in (MAIN, *turns)
            for leaf, entry in entries_of(self.ledger, run, strand)
            if entry.kind in DELIBERATION_KINDS
            if until is None or is_before(self.store, leaf, until)
        )
        with suppress(BodyGone):
            return (self.session_of(run, state) if notes else None), notes
        return None, notes

    def session_of(self, run: str, state: Run | None = None) -> Session:
        """Return what a panel deliberates on in a run, and how."""
        order = self.order_of(run)
        begun = (state or self.read_run(run)).begun
        return Session(order.request, order.policy, begun)

    def _bodies_of(self, entry: Entry[Any]) -> tuple[Body, ...]:
        at = Position(entry.run, entry.strand, entry.n)
        stored = {name: self.store.body(at, name) for name in entry.bodies}
        return tuple(Body(n, b"".join(body.read())) for n, body in stored.items() if body)

    def _places(self, state: Run) -> dict[str, int]:
        """Return the indexes of what is told beside the tasks."""
        uses = [use for task in state.tasks.values() for use in task.uses][:_MOST_TOLD]
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
        for leaf, entry in entries_of(self.ledger, run, MAIN):
            at = Position(run, MAIN, entry.n)
            named = {"request"} if isinstance(entry.facts, Accepted) else set()
            named |= {"plan"} if leaf == state.plan else set()
            named |= {"answer", "claims"} if at == state.answer_at else set()
            for name in named:
                body = self.store.body(at, name)
                if body is not None:
                    found[name] = b"".join(body.read())
        return found

    def _error(self, at: Position | None) -> str:
        body = self.store.body(at, "error") if at else None
        head = next(iter(body.read()), b"") if body else b""
        return head[:_MOST_OF_AN_ERROR].decode(errors="replace").strip()

    def follow(
        self, run: str, watch: Callable[[Run], None] = lambda _: None, patience: float | None = None
    ) -> Run:
        """Watch a run until it has ended or waits for a person, or patience is over."""
        begun, state = time.monotonic(), self.read_run(run)
        while True:
            looked = time.monotonic()
            state = self._read_on(run, state)
            if state.outcome is not None:
                # Once more from the beginning: a task may have begun after we asked which have.
                state = self.read_run(run)
            watch(state)
            late = patience is not None and looked - begun > patience
            if state.outcome is not None or late or self._waits(run, state):
                return state
            # To look takes longer the more there is to see; not all of the time goes into it.
            time.sleep(max(_LOOK_SECONDS, 2 * (time.monotonic() - looked)))

    def _read_on(self, run: str, state: Run) -> Run:
        """Take in what was added to a run; a task that has ended gets nothing added."""
        ended = {task_strand(task.id) for task in state.tasks.values() if task.state.is_end}
        fresh = [
            told
            for strand in self.store.strands(run)
            if strand not in ended
            for told in entries_of(self.ledger, run, strand, state.lengths.get(strand, 0))
        ]
        return fold(fresh, state) if fresh else state

    def _waits(self, run: str, state: Run) -> bool:
        """Tell whether a run can only be gone on with after a person has decided something."""
        tasks = [state.task(name) for name in state.tasks]
        if any(task.state is TaskState.RUNNING for task in tasks):
            return False
        alarm = self.store.alarm(run, MAIN)
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
        return all(self._waits(child, inner) for child, inner in children)

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
        from forum.engine import cancel

        cancel(self.ledger, run, actor)

    def resume(self, run: str) -> None:
        """Have a run looked after now, if nobody does; what is done already is not done again.

        Raises `NoSuchRun` for what nobody has asked for, and nobody could carry out.
        """
        if self.read_run(run).accepted is None:
            raise NoSuchRun(run)
        alarm = self.store.alarm(run, MAIN)
        if alarm is not None:
            self.store.snooze([alarm], 0)

    def fork(
        self,
        run: str,
        at: int,
        policy: "WorkPolicy | None" = None,
        actor: str = OPERATOR,
        ticket: "Ticket | None" = None,
        ceiling: "Budget | None" = None,
    ) -> str:
        """Begin a run that takes over another one's replies up to an index, and goes on itself.

        It may use what the other one might, as far as a ceiling allows it.
        """
        order = self.order_of(run)
        if policy is not None:
            order = replace(order, policy=policy)
        if ceiling is not None:
            order = replace(order, budget=order.budget.under(ceiling))
        return self.submit(order, Accepted(fork_run=run, fork_index=at), actor, ticket)

    def replay(self, run: str) -> list[Divergence]:
        """Play a run again from its record alone, and return where it then says something else."""
        import asyncio
        from tempfile import TemporaryDirectory

        from forum.backends.sqlite import SqliteStore
        from forum.engine import replay
        from forum.models import make_model, make_tool

        with TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "replay.db", self.origin)
            try:
                scratch = Ledger(store, KINDS, now, new_salt, mask=self.mask)
                return asyncio.run(replay(self.ledger, run, scratch, make_model, make_tool))
            finally:
                store.close()

    def diff(self, first: str, second: str) -> list[Divergence]:
        """Return where two runs part; how long something took is no difference."""
        from forum.engine import steps_of

        timings = frozenset({"milliseconds"})
        a, b = (steps_of(self.ledger, run, ignoring=timings) for run in (first, second))
        return list(compare(a, b))

    def bodies_at(self, run: str, strand: str, step: str) -> dict[str, bytes]:
        """Return the bodies that are left of a step."""
        for _, entry in entries_of(self.ledger, run, strand):
            if entry.step == step:
                return {body.name: body.data for body in self._bodies_of(entry)}
        return {}

    # Gates

    def waiting_gates(self) -> list[tuple[str, Gate]]:
        """Return everything that waits for a person."""
        from forum.engine import find_gate

        found, after = [], None
        while page := self.store.alarms(after, 1000, due=False):
            after = page[-1]
            for alarm in page:
                if alarm.strand.startswith(gate_strand("")):
                    subject = alarm.strand.removeprefix(gate_strand(""))
                    found.append((alarm.run, find_gate(self.ledger, alarm.run, subject)))
        return found

    def gate(self, run: str, subject: str) -> tuple[Gate, bytes]:
        """Return a gate and what it shows."""
        from forum.engine import find_gate, read_body

        gate = find_gate(self.ledger, run, subject)
        return gate, read_body(self.ledger, gate.shown_at, "shown")

    def decide(
        self, run: str, subject: str, answer: Answer, digest: str, actor: str = OPERATOR
    ) -> None:
        """Approve or reject what has this digest."""
        from forum.engine import decide

        decided = GateDecided(answer, digest, Decider.PERSON)
        decide(self.ledger, run, subject, decided, actor)

    def edit_gate(
        self, run: str, subject: str, digest: str, shown: bytes, actor: str = OPERATOR
    ) -> str:
        """Replace what waits for approval, and return the digest of what now does."""
        from forum.engine import edit

        if subject == "plan":
            self.read_case(run).policy.check(read_plan(shown))
        try:
            shown.decode()
        except UnicodeDecodeError as error:
            raise Malformed("text", f"not UTF-8 at byte {error.start}") from None
        return edit(self.ledger, run, subject, digest, shown, actor)

    # Access

    def access(self, known: Access | None = None) -> Access:
        """Return who may do what, from what is known and what was added since."""
        known = known or Access()
        added = self.store.strand(LOG_RUN, ACCESS, known.length)
        return fold_access((self.ledger.kinds.read(data) for data in added), known)

    def grant(
        self, name: str, scopes: Collection[Scope], seconds: int = 0, actor: str = OPERATOR
    ) -> ApiKey:
        """Make a key.  Its secret is nowhere but in what is returned."""
        key = ApiKey(self.tenant, os.urandom(6).hex(), os.urandom(32).hex())
        expires = now() + 1_000_000 * seconds if seconds else 0
        facts = AccessGranted(key.id, name, tuple(sorted(scopes)), key.digest, expires)
        self.ledger.log_entry(Draft(f"grant/{key.id}", actor, facts), ACCESS)
        return key

    def revoke(self, key: str, actor: str = OPERATOR) -> None:
        """Let a key open nothing from now on."""
        access = self.access()
        if key not in access.granted:
            raise NoSuchKey(key)
        if key not in access.revoked:
            self.ledger.log_entry(Draft(f"revoke/{key}", actor, AccessRevoked(key)), ACCESS)

    def deny(self, denied: AccessDenied, actor: str) -> None:
        """Put on record that somebody was turned away."""
        step = f"deny/{os.urandom(8).hex()}"
        self.ledger.log_entry(Draft(step, actor, denied), DENIALS)

    @property
    def tenant(self) -> str:
        """How keys name the ledger that they belong to."""
        return _file_name(self.origin)[:8]

    # Verifying

    def trust(self) -> "Trust":
        """Return what this reader trusts and remembers."""
        from forum.verify import Trust

        memories = (self._guard, self._seen, self._witness_memory(self.origin))
        kept = dict.fromkeys(note for note in (m.latest() for m in memories) if note)
        return Trust(policy=self.policy, remembered=tuple(kept))

    def verify(
        self,
        trust: "Trust",
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        at: int | None = None,
    ) -> "Report":
        """Check the whole ledger, and remember its checkpoint if everything holds."""
        from forum.verify import verify_ledger

        with self.reading() as reader:
            report = verify_ledger(reader, KINDS, trust, at or now(), progress)
            note = reader.checkpoint()
        if report.ok and note:
            with suppress(Overtaken):  # another reader has seen it at the same time
                self._seen.advance(self._seen.latest(), note)
        return report

    # Witnessing

    @cached_property
    def witness(self) -> "Witness":
        """The witness of this machine; its key and memory are outside every ledger."""
        return open_witness(self.settings.state / "witness")

    def _trust_locally(self) -> None:
        """Let the local witness know this log, and write the policy of a lone machine."""
        from forum.backends.files import write_durably

        trust_log(self.settings.state / "witness", self.key.verifier())
        if not self.policy_file.exists():
            witness = KnownWitness("local", self.witness.verifier)
            policy = Policy((KnownLog(self.key.verifier()),), (witness,), (), "local")
            self.policy_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_durably(self.policy_file, policy.encode())

    def _cosigners(self) -> "list[WitnessClient]":
        from forum.witness import WitnessClient, over_http

        clients = []
        for known in self.policy.witnesses:
            name = known.key.name
            if known.key == self.witness.verifier:
                clients.append(WitnessClient(name, self.witness.add_checkpoint))
            elif known.url:
                clients.append(WitnessClient(name, over_http(name, known.url)))
        return clients

    def tamper(self) -> "Tamper":
        """Hold the database as a thief would; for demonstrations."""
        from forum.backends.tamper import PostgresTamper, SqliteTamper

        if self.settings.database:
            return PostgresTamper(self.settings.database, self.store)
        return SqliteTamper(self.settings.ledger_file, self.store)

    # Where things are

    @property
    def _state(self) -> Path:
        return self.settings.state / "logs" / _file_name(self.origin)

    @property
    def _guard(self) -> "FileMemory":
        from forum.backends.files import FileMemory

        return FileMemory(self._state / "guard.note")

    @property
    def _seen(self) -> "FileMemory":
        from forum.backends.files import FileMemory

        return FileMemory(self._state / "seen.note")

    def _witness_memory(self, origin: str) -> "FileMemory":
        return witness_memory(self.settings.state / "witness", origin)

    def _snapshot(self) -> AbstractContextManager[Reader]:
        if self.settings.database or "store" in self.__dict__:
            return self.store.snapshot()
        from forum.backends.sqlite import open_reader

        if not self.settings.ledger_file.exists():
            raise NoLedger(str(self.settings.data))
        return open_reader(self.settings.ledger_file, self.origin)


def upgrade_database(settings: Settings) -> list[int]:
    """Bring the schema of the configured Postgres up to date."""
    with extra("postgres"):
        from forum.backends.postgres import upgrade

    return upgrade(settings.database) if settings.database else []


def open_witness(folder: Path, name: str | None = None) -> "Witness":
    """Open the witness that lives in a folder, making its key if there is none."""
    from forum.backends.files import locked, read_key, write_key
    from forum.verify import LOCAL_WITNESS
    from forum.witness import Witness

    path = folder / "witness.key"
    if not path.exists():
        with locked(path):
            if not path.exists():
                name = name or f"{LOCAL_WITNESS}{os.urandom(4).hex()}"
                write_key(path, SigningKey(os.urandom(32), name, ED25519_COSIGNATURE))
    return Witness(
        read_key(path), lambda: trusted_logs(folder), lambda o: witness_memory(folder, o), now
    )


def serve_witness(witness: "Witness", folder: Path, host: str, port: int) -> None:
    """Serve a witness over HTTP until the process is stopped."""
    with extra("server"):
        import uvicorn

        from forum.witness.server import witness_app

    app = witness_app(witness, trusted_logs(folder))
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)


def witness_memory(folder: Path, origin: str) -> "FileMemory":
    """Return what a witness remembers of a log."""
    from forum.backends.files import FileMemory

    return FileMemory(folder / "logs" / f"{_file_name(origin)}.note")


def trust_log(folder: Path, key: VerifierKey) -> None:
    """Let a witness cosign the log with this key."""
    from forum.backends.files import locked, write_durably

    path = folder / "logs" / f"{_file_name(key.name)}.vkey"
    with locked(path):
        known = trusted_logs(folder).get(key.name, (key,))
        if known != (key,):
            raise WitnessRefused(folder.name, f"it knows {key.name} by another key; see {path}")
        if not path.exists():
            write_durably(path, f"{key}\n".encode())


def trusted_logs(folder: Path) -> dict[str, tuple[VerifierKey, ...]]:
    """Return the logs that a witness cosigns, with their keys."""
    keys = [VerifierKey.parse(p.read_text().strip()) for p in (folder / "logs").glob("*.vkey")]
    return {key.name: (key,) for key in keys}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put files into a folder, for its owner only, in this order; each is there whole or not."""
    from forum.backends.files import write_durably

    for name, data in files.items():
        write_durably(folder / name, data)


def _file_name(origin: str) -> str:
    return sha256(origin.encode()).hexdigest()[:16]
