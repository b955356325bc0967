"""All errors that Forum raises on purpose, in one tree.

    ForumError
    ├── Malformed            bytes or text that are not in the canonical form
    ├── ProofRejected        a Merkle proof does not lead to the given root
    ├── SignatureRejected    a note is not signed by a key that the reader trusts
    ├── TokenRejected        a bearer token does not authenticate the caller
    │   └── TokenExpired     a valid bearer token has expired
    ├── IssuerUnreachable    the keys for checking tokens cannot be fetched
    ├── PositionTaken        another writer has recorded this position of the strand
    ├── BudgetExceeded       a reservation would exceed the cap of a run
    ├── BudgetSliceExhausted  a process has spent its part of a cap over many runs
    ├── CapReached           a request would exceed a cap over many runs
    ├── IdempotencyKeyUsed   the idempotency key was used before
    ├── ConcurrentUpdate     another process has made the same update first
    ├── StepMismatch         the record has another step than the requested one
    ├── BacklogFull          too many entries wait for an index
    ├── RollbackDetected     the database does not continue the signed checkpoint
    ├── GuardMissing         there are signed checkpoints, but no guard on this machine
    ├── BackupRejected       a backup is altered, incomplete, or does not fit here
    ├── RestoreRefused       continuing from a backup would fork the log
    ├── NoSuchEntry          the log has no such entry
    ├── NoSuchRun            the log has no such run
    ├── NoSuchKey            no such API key was ever granted
    ├── RunAlreadyEnded      the run is closed and accepts no further requests
    ├── RunNotEnded          a body cannot be erased while its run may still read it
    ├── NoSuchGate           no gate with this subject exists
    ├── GateAlreadyDecided   a person or the deadline has decided already
    ├── GateChanged          the content was edited after the approver read it
    ├── BodyGone             a required body was erased, or is missing
    ├── ReplayMiss           the record has no reply to a call that is replayed
    ├── EntryLost            the database no longer has an acknowledged entry
    ├── TamperDetected       the database differs from what was recorded
    ├── WrongWriteKey        this machine's write key is not one of the log's
    ├── NoSuchLog            the database does not hold this log
    ├── AmbiguousEntry       a shortened id fits several entries
    ├── AmbiguousRun         a prefix of a run id fits several runs
    ├── NotYetSigned         durable, but in no signed checkpoint yet
    ├── StoreFailed          the database failed: full, read-only, locked or gone
    │   ├── StoreConnectionLost  the connection broke: a commit may or may not have happened
    │   └── StateFileFailed  a file beside the database failed: guard, witness, keys
    ├── SchemaTooOld         the database has to be upgraded first
    ├── DurabilityDisabled   the database is configured to lose acknowledged entries
    ├── SchemaTooNew         the database was written by a newer release
    ├── BadPlan              a plan, or its policy, could never be executed
    ├── CheckTooExpensive    a request takes too long to check
    ├── BadRoster            no router can be made from a roster
    ├── BadSettings          a settings file is invalid
    ├── MissingExtra         an optional dependency is not installed
    ├── NotConfined          the sandbox for agents' programs does not work here
    ├── UnknownPrice         the price of a model is not known
    ├── AgentUnusable        an agent of a run cannot be called
    ├── NotServing           a local model did not start
    ├── ServerUnusable       the tools of an MCP server cannot be listed or used
    ├── PortUnusable         a server cannot listen at its address
    ├── NoLedger             there is no ledger here yet
    ├── LogKeyMissing        the signing key of a log that this machine remembers is gone
    ├── LogKeyChanged        the signing key is not that of this project's log
    ├── LogKeyRetired        the log's signing key was replaced after this process started
    ├── RotationRefused      the signing key of a log cannot be rotated here
    ├── KeyUnreadable        a key file is missing, unreadable or damaged
    ├── WitnessRefused       a witness received a checkpoint and did not cosign it
    │   └── CosignatureRefused  the cosignature's time cannot be right
    └── WitnessUnreachable   a witness did not answer

An error is named after its cause, carries facts as attributes, and its text names the remedy if
there is one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class ForumError(Exception):
    """Base class of all errors that Forum raises on purpose."""


class Malformed(ForumError):
    """Bytes or text are not in the one canonical form."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"malformed {self.what}: {self.why}"


class ProofRejected(ForumError):
    """A Merkle proof does not lead to the claimed root."""

    def __init__(self, claim: str) -> None:
        super().__init__(claim)
        self.claim = claim

    def __str__(self) -> str:
        return f"proof rejected: {self.claim}"


class SignatureRejected(ForumError):
    """A note is not signed by a trusted key, or a trusted key's signature is invalid."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(key, why)
        self.key, self.why = key, why

    def __str__(self) -> str:
        return f"signature rejected: {self.key}: {self.why}"


class TokenRejected(ForumError):
    """A bearer token does not authenticate the caller. Its content is never quoted."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"token rejected: {self.why}"


class TokenExpired(TokenRejected):
    """A valid bearer token has expired."""


class IssuerUnreachable(ForumError):
    """The keys of the token issuer cannot be fetched, so no token can be checked."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address, self.why = address, why

    def __str__(self) -> str:
        return f"no keys to check tokens with: {self.address}: {self.why}; see [oidc] in forum.toml"


class PositionTaken(ForumError):
    """Another writer has already recorded this position of the strand."""

    def __init__(self, position: str) -> None:
        super().__init__(position)
        self.position = position

    def __str__(self) -> str:
        return f"position {self.position} is taken: another writer has gone on with this strand"


class BudgetExceeded(ForumError):
    """A reservation would exceed the cap of its run; nothing was recorded."""

    def __init__(self, run: str, limit: str, asked: int, used: int, cap: int) -> None:
        super().__init__(run, limit, asked, used, cap)
        self.run, self.limit, self.asked, self.used, self.cap = run, limit, asked, used, cap

    def __str__(self) -> str:
        return (
            f"run {self.run}: {self.asked} more {self.limit} would pass its cap: "
            f"{self.used} of {self.cap} are spent or reserved"
        )


class BudgetSliceExhausted(ForumError):
    """A process's slice of a shared cap is too small for the amount; nothing was recorded."""

    def __init__(self, scope: str, period: str) -> None:
        super().__init__(scope, period)
        self.scope, self.period = scope, period

    def __str__(self) -> str:
        return f"the slice of {self.scope} for {self.period} is spent: take another one"


class CapReached(ForumError):
    """A request would exceed a cap over many runs; nothing was recorded."""

    def __init__(
        self, scope: str, per: str, limit: str, amounts: tuple[int, int, int], seconds: int
    ) -> None:
        super().__init__(scope, per, limit, amounts, seconds)
        self.scope, self.per, self.limit, self.seconds = scope, per, limit, seconds
        self.asked, self.used, self.cap = amounts

    def __str__(self) -> str:
        return (
            f"the cap of {self._amount(self.cap)} per {self.per} for {self.scope} is reached: "
            f"{self._amount(self.used)} are used or reserved, and {self._amount(self.asked)} more "
            f"would pass it; try again in {self._wait}, or have the operator raise it ([budgets])"
        )

    def _amount(self, number: int) -> str:
        if self.limit != "usd":
            return f"{number} {self.limit}"
        whole, rest = divmod(number, 10**9)
        return f"${whole}.{rest:09}".rstrip("0").rstrip(".")

    @property
    def _wait(self) -> str:
        hours, minutes = divmod(-(-self.seconds // 60), 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min"


class IdempotencyKeyUsed(ForumError):
    """An idempotency key was used before; nothing was recorded."""

    def __init__(self, run: str, digest: str, tag: bytes | None = None) -> None:
        super().__init__(run, digest, tag)
        self.run, self.digest, self.tag = run, digest, tag

    def __str__(self) -> str:
        return f"this was asked for before: run {self.run}"


class ConcurrentUpdate(ForumError):
    """Another process changed a value after this one had read it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"overtaken: {self.what} was changed by somebody else"


class StepMismatch(ForumError):
    """The record has another step at this position than the requested one."""

    def __init__(self, position: str, recorded: str, asked: str) -> None:
        super().__init__(position, recorded, asked)
        self.position, self.recorded, self.asked = position, recorded, asked

    def __str__(self) -> str:
        return (
            f"position {self.position} records step {self.recorded!r}, not {self.asked!r}: "
            "the program does not follow its own record"
        )


class BacklogFull(ForumError):
    """Too many entries wait for an index; nothing was recorded."""

    def __init__(self, waiting: int, limit: int) -> None:
        super().__init__(waiting, limit)
        self.waiting, self.limit = waiting, limit

    def __str__(self) -> str:
        return (
            f"{self.waiting} entries wait to be sequenced (limit {self.limit}); "
            "try again in a second, and check that a sequencer is running"
        )


class RollbackDetected(ForumError):
    """The database does not continue the last signed checkpoint."""

    def __init__(self, origin: str, signed: int, found: int) -> None:
        super().__init__(origin, signed, found)
        self.origin, self.signed, self.found = origin, signed, found

    def __str__(self) -> str:
        return (
            f"{self.origin}: the database (size {self.found}) does not continue the signed "
            f"checkpoint of size {self.signed}; it was restored or altered. Nothing is signed. "
            "Put the newer database back, or begin a new epoch: forum ledger epoch"
        )


class GuardMissing(ForumError):
    """There are signed checkpoints, but this machine does not remember the last one."""

    def __init__(self, origin: str, size: int) -> None:
        super().__init__(origin, size)
        self.origin, self.size = origin, size

    def __str__(self) -> str:
        return (
            f"{self.origin}: a checkpoint of size {self.size} was signed elsewhere, and this "
            "machine does not remember it. Copy the state directory of the machine that signed, "
            "or begin a new epoch: forum ledger epoch"
        )


class BackupRejected(ForumError):
    """A backup cannot be restored here."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"the backup was not restored: {self.why}"


class RestoreRefused(ForumError):
    """Signing on from a backup could create a second history of the same log."""

    def __init__(self, origin: str, size: int, why: str) -> None:
        super().__init__(origin, size, why)
        self.origin, self.size, self.why = origin, size, why

    def __str__(self) -> str:
        return f"{self.origin} was not restored at size {self.size}: {self.why}"


class NoSuchEntry(ForumError):
    """The log has no such entry."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no such entry: {self.what}"


class NoSuchRun(ForumError):
    """The log has no such run."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"no such run: {self.run}; forum runs lists them"


class NoSuchKey(ForumError):
    """No such API key was ever granted."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"no such key: {self.key}; forum keys list shows them"


class RunNotEnded(ForumError):
    """A run has not ended, and its driver still reads what it has recorded."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} goes on, and needs what it has recorded: forum cancel it first"


class RunAlreadyEnded(ForumError):
    """A run is closed."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} has ended; forum show {self.run} tells how"


class NoSuchGate(ForumError):
    """The run has no gate with this subject."""

    def __init__(self, run: str, subject: str) -> None:
        super().__init__(run, subject)
        self.run, self.subject = run, subject

    def __str__(self) -> str:
        return f"run {self.run} has no gate {self.subject}; forum gate list shows what waits"


class GateAlreadyDecided(ForumError):
    """A gate was decided already; there is no second decision."""

    def __init__(self, run: str, subject: str, answer: str, by: str) -> None:
        super().__init__(run, subject, answer, by)
        self.run, self.subject, self.answer, self.by = run, subject, answer, by

    def __str__(self) -> str:
        return f"run {self.run}, gate {self.subject}: decided already ({self.answer}, by {self.by})"


class GateChanged(ForumError):
    """The content of a gate was edited after the approver read it."""

    def __init__(self, run: str, subject: str, digest: str) -> None:
        super().__init__(run, subject, digest)
        self.run, self.subject, self.digest = run, subject, digest

    def __str__(self) -> str:
        return (
            f"run {self.run}, gate {self.subject}: it was edited since, and now has the digest "
            f"{self.digest[:16]}; look again with forum gate show, then decide"
        )


class BodyGone(ForumError):
    """A required body was erased, or is missing."""

    def __init__(self, position: str, name: str) -> None:
        super().__init__(position, name)
        self.position, self.name = position, name

    def __str__(self) -> str:
        return f"entry {self.position}: its body {self.name!r} was erased, and is needed for this"


class ReplayMiss(ForumError):
    """The record has no reply to a call that is replayed."""

    def __init__(self, task: str, step: str) -> None:
        super().__init__(task, step)
        self.task, self.step = task, step

    def __str__(self) -> str:
        return (
            f"the record has no {self.step} of task {self.task}: nothing is made up, nobody asked"
        )


class EntryLost(ForumError):
    """An acknowledged entry is no longer in the database."""

    def __init__(self, origin: str, which: str) -> None:
        super().__init__(origin, which)
        self.origin, self.which = origin, which

    def __str__(self) -> str:
        return f"{self.origin}: {self.which}; nothing is signed. See: forum ledger verify"


class TamperDetected(ForumError):
    """The database differs from what was recorded; the altered data are not used."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return (
            f"{self.what} was altered in the database: {self.why}. It is not used. "
            "See what else was changed: forum ledger verify"
        )


class WrongWriteKey(ForumError):
    """The sequencer would refuse entries that are tagged with this write key."""

    def __init__(self, origin: str, key: str, why: str) -> None:
        super().__init__(origin, key, why)
        self.origin, self.key, self.why = origin, key, why

    def __str__(self) -> str:
        return (
            f"{self.origin}: this machine cannot write with write key {self.key}: {self.why}. "
            "Copy write.key from the machine that signs the log"
        )


class NoSuchLog(ForumError):
    """The database does not hold this log."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin)
        self.origin = origin

    def __str__(self) -> str:
        return f"the database holds no log {self.origin}"


class AmbiguousEntry(ForumError):
    """A shortened id fits more than one entry."""

    def __init__(self, prefix: str, count: int) -> None:
        super().__init__(prefix, count)
        self.prefix, self.count = prefix, count

    def __str__(self) -> str:
        return f"{self.count} entries begin with {self.prefix}; give more digits"


class AmbiguousRun(ForumError):
    """A prefix of a run id fits more than one run."""

    MAX_NAMED = 3

    def __init__(self, prefix: str, runs: Sequence[str], *, more: bool = False) -> None:
        super().__init__(prefix, runs)
        self.prefix, self.runs = prefix, tuple(runs)
        self.more = more
        """Whether further runs fit the prefix."""

    def __str__(self) -> str:
        count = f"{len(self.runs)}{' or more' if self.more else ''}"
        named = ", ".join(self.runs[: self.MAX_NAMED])
        others = ", ..." if len(self.runs) > self.MAX_NAMED else ""
        return f"{count} runs begin with {self.prefix}: {named}{others}; give more of the name"


class NotYetSigned(ForumError):
    """An entry is durable, but no signed checkpoint covers it yet."""

    def __init__(self, entry: str) -> None:
        super().__init__(entry)
        self.entry = entry

    def __str__(self) -> str:
        return f"entry {self.entry} is not in a signed checkpoint yet; try again in a second"


class StoreFailed(ForumError):
    """The database failed: the disk is full, read-only, locked or gone."""

    def __init__(self, doing: str, why: str, remedy: str = "") -> None:
        super().__init__(doing, why, remedy)
        # Drivers explain errors on several lines; messages have one.
        self.doing, self.why, self.remedy = doing, " ".join(why.split()), remedy

    def __str__(self) -> str:
        message = f"the ledger's database failed while {self.doing}: {self.why.rstrip('.')}"
        if not self.remedy:
            return message
        return f"{message}{'' if message.endswith('?') else '.'} {self.remedy}"


class StoreConnectionLost(StoreFailed):
    """The connection broke: it is unknown whether the last commit took place."""


class StateFileFailed(StoreFailed):
    """A small file outside the database failed: a guard, a witness's memory, a key, a policy."""

    def __init__(self, what: str, doing: str, why: str) -> None:
        super().__init__(doing, why)
        self.what = what
        self.args = (what, doing, why)

    def __str__(self) -> str:
        return (
            f"{self.what} failed while {self.doing}: {self.why}. "
            "Make room there, or let this user write there; then try again"
        )


class SchemaTooOld(ForumError):
    """The database lacks tables that this release needs."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found, self.known = found, known

    def __str__(self) -> str:
        return (
            f"the schema is version {self.found}, this release needs {self.known}: "
            "run forum db upgrade"
        )


class DurabilityDisabled(ForumError):
    """The database is configured so that it may lose acknowledged entries."""

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        self.setting = setting

    def __str__(self) -> str:
        return f"the database may lose acknowledged entries: {self.setting}; set it right first"


class SchemaTooNew(ForumError):
    """The database was written by a newer release."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found, self.known = found, known

    def __str__(self) -> str:
        return f"the schema is version {self.found}, this release knows {self.known}: upgrade forum"


class BadPlan(ForumError, ValueError):
    """A plan, or the policy for it, could never be executed."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"this cannot be run: {self.why}"


class CheckTooExpensive(ForumError):
    """A request takes too long to check."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"checking this request takes more than {self.seconds:g} s of CPU time; "
            "send fewer tasks, or fewer and smaller checks"
        )


class BadRoster(ForumError, ValueError):
    """A roster cannot be read, or no router can be made from it."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why

    def __str__(self) -> str:
        return f"this roster cannot be used: {self.where}: {self.why}"


class BadSettings(ForumError):
    """A settings file cannot be read, or has an unknown or invalid setting."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class MissingExtra(ForumError):
    """A command needs an optional dependency that is not installed."""

    def __init__(self, extra: str, why: str) -> None:
        super().__init__(extra, why)
        self.extra, self.why = extra, why

    def __str__(self) -> str:
        return f"{self.why}; install it with: pip install 'forumd[{self.extra}]'"


@contextmanager
def require_extra(name: str) -> Iterator[None]:
    """Raise `MissingExtra`, which names the extra to install, for a failed import in the block."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(name, str(error)) from None


class NotConfined(ForumError):
    """The programs of agents must run in a sandbox, and cannot."""

    def __init__(self, why: str, step: str) -> None:
        super().__init__(why, step)
        self.why, self.step = why, step

    def __str__(self) -> str:
        return f"programs of agents cannot be confined: {self.why}; {self.step}"


class UnknownPrice(ForumError):
    """The price of a model is not known; it is not assumed to be zero."""

    def __init__(self, model: str, why: str) -> None:
        super().__init__(model, why)
        self.model, self.why = model, why

    def __str__(self) -> str:
        return (
            f"the price of {self.model!r} is not known: {self.why}; declare it, in dollars for a "
            "million tokens: price = { input = 0, output = 0 } in forum.toml, "
            "or --price-in and --price-out"
        )


class AgentUnusable(ForumError):
    """An agent cannot be called as it is configured."""

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(agent, why)
        self.agent, self.why = agent, why

    def __str__(self) -> str:
        name = f"agent {self.agent!r}" if self.agent else "the agent"
        return f"{name} cannot be asked: {self.why}"


class NotServing(ForumError):
    """A model served by Forum itself did not start."""

    def __init__(self, model: str, why: str) -> None:
        super().__init__(model, why)
        self.model, self.why = model, why

    def __str__(self) -> str:
        return f"the model {self.model} is not served: {self.why}"


class ServerUnusable(ForumError):
    """An MCP server cannot list its tools, or lists tools that cannot be used."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(server, why)
        self.server, self.why = server, why

    def __str__(self) -> str:
        return f"the MCP server {self.server!r} cannot be used: {self.why}"


class PortUnusable(ForumError):
    """A server cannot listen at its address."""

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(host, port, why)
        self.host, self.port, self.why = host, port, why

    def __str__(self) -> str:
        return f"cannot listen at {self.host} port {self.port}: {self.why}"


class NoLedger(ForumError):
    """There is no ledger here yet."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        return f"there is no ledger in {self.where}; make one with: forum init"


_REMEDIES = (
    "Restore the key and its folder from a backup, or continue under a new key, with a reason "
    "that is recorded: forum ledger epoch --reason TEXT. To start over on purpose: "
    "forum init --new-log"
)


class LogKeyMissing(ForumError):
    """The signing key of this project's log is gone."""

    def __init__(self, origin: str, path: str) -> None:
        super().__init__(origin, path)
        self.origin, self.path = origin, path

    def __str__(self) -> str:
        return f"the signing key of {self.origin} is missing: {self.path}. {_REMEDIES}"


class LogKeyChanged(ForumError):
    """The signing key is not that of this project's log."""

    def __init__(self, origin: str, path: str, found: str) -> None:
        super().__init__(origin, path, found)
        self.origin, self.path, self.found = origin, path, found

    def __str__(self) -> str:
        found = "another key of that name" if self.found == self.origin else f"that of {self.found}"
        return (
            f"this project's log is {self.origin}, and the signing key {self.path} is {found}. "
            f"{_REMEDIES}"
        )


class LogKeyRetired(ForumError):
    """The log has a new signing key; this process holds the old one."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin)
        self.origin = origin

    def __str__(self) -> str:
        return (
            f"{self.origin}: the last checkpoint was signed with another key. Nothing is signed. "
            "If the key was rotated, restart this process; otherwise put the newest key back"
        )


class RotationRefused(ForumError):
    """The signing key of a log cannot be rotated here, or not now."""

    def __init__(self, origin: str, why: str) -> None:
        super().__init__(origin, why)
        self.origin, self.why = origin, why

    def __str__(self) -> str:
        return f"the signing key of {self.origin} was not rotated: {self.why}"


class KeyUnreadable(ForumError):
    """A key file cannot be read."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return f"cannot read the key {self.path}: {self.why}"


class WitnessRefused(ForumError):
    """A witness received a checkpoint and did not cosign it."""

    def __init__(self, witness: str, why: str) -> None:
        super().__init__(witness, why)
        self.witness, self.why = witness, why

    def __str__(self) -> str:
        return f"witness {self.witness} refused the checkpoint: {self.why}"


class CosignatureRefused(WitnessRefused):
    """A witness cosigned, but its cosignature was not accepted."""

    def __str__(self) -> str:
        return f"the cosignature of witness {self.witness} is not accepted: {self.why}"


class WitnessUnreachable(ForumError):
    """A witness did not answer in time, or did not follow the protocol."""

    def __init__(self, witness: str, why: str) -> None:
        super().__init__(witness, why)
        self.witness, self.why = witness, why

    def __str__(self) -> str:
        return f"witness {self.witness} is unreachable: {self.why}"
