"""All errors that Forum raises on purpose, in families.

    ForumError
    ├── NotFound        the log has no such thing, or a short name fits several
    ├── Conflict        the request does not fit the state that the log is in now
    ├── Invalid         the request could never be carried out
    ├── Unavailable     not possible now; the operator has to act, or the caller tries again
    ├── Untrusted       data, a signature or a proof is not what was recorded or signed
    ├── LimitReached    a budget or a cap does not allow it
    └── SetupError      this installation is incomplete or wrongly configured

A family carries what the surfaces need as class data: the problem type for HTTP clients, the exit
code of the command line, and the remedy that `forum doctor` prints. A class may override them.
An error is named after its cause, and its facts are attributes. Its `text` is a template over these
facts, and names the remedy if there is one.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import ClassVar, dataclass_transform

from forum.units import format_usd


class ProblemType(Enum):
    """The closed set of problems of the HTTP API: the name of its type, the status, the title."""

    BAD_REQUEST = ("bad-request", 400, "The request cannot be read")
    NO_KEY = ("no-key", 401, "A valid key or token is required")
    FORBIDDEN = ("forbidden", 403, "This key does not permit this request")
    WRONG_HOST = ("wrong-host", 403, "The request is for another host, or comes from another site")
    NOT_FOUND = ("not-found", 404, "Not found")
    NO_METHOD = ("method-not-allowed", 405, "This address does not support that method")
    CONFLICT = ("conflict", 409, "What the request is about is not in the state that it needs")
    ENDED = ("run-ended", 409, "The run has ended")
    DECIDED = ("gate-decided", 409, "The gate was decided already")
    MOVED = ("gate-moved", 409, "The content of the gate has changed since it was read")
    REUSED_KEY = (
        "idempotency-key-reused",
        409,
        "This Idempotency-Key was used for another request",
    )
    NOT_SIGNED = ("not-signed-yet", 409, "No signed checkpoint covers this yet")
    GONE = ("body-gone", 410, "The body was erased, or is missing")
    TOO_LARGE = ("too-large", 413, "The request is larger than this server accepts")
    WRONG_TYPE = ("unsupported-media-type", 415, "The body is not JSON")
    UNFIT = ("unprocessable", 422, "The request can be read, but could never be carried out")
    TOO_FAST = ("too-many-requests", 429, "Too many requests")
    CAPPED = ("cap-reached", 429, "A cap of the operator over many runs is reached")
    SHARE_IN_USE = ("share-in-use", 429, "This key or ledger has as much in use as it may have")
    BROKEN = ("internal", 500, "Internal error")
    UNAVAILABLE = ("unavailable", 503, "Temporarily unavailable")
    TOO_SLOW = ("timeout", 503, "The request took too long")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.type = f"urn:forum:problem:{slug}"
        self.status, self.title = status, title


@dataclass_transform(eq_default=False)
class ForumError(Exception):
    """Base class of all errors that Forum raises on purpose.

    The annotated attributes of a subclass are its facts, and the arguments of its constructor.
    They are assigned here: real data classes would compile a constructor for each class whenever
    Forum starts.
    """

    problem: ClassVar[ProblemType] = ProblemType.BROKEN
    exit_code: ClassVar[int] = 1
    text: ClassVar[str] = ""
    remedy: ClassVar[str] = "forum config show"
    """What to do next, for `forum doctor`: a template over the facts."""

    def __init__(self, *facts: object) -> None:
        super().__init__(*facts)
        names = (name for kind in reversed(type(self).__mro__) for name in _facts_of(kind))
        for name, fact in zip(names, facts, strict=False):  # the rest has default values
            setattr(self, name, fact)

    def __str__(self) -> str:
        return self.text.format_map(vars(self))

    @property
    def next_step(self) -> str:
        """The remedy, with the facts of this error filled in."""
        return self.remedy.format_map(vars(self))


def _facts_of(kind: type) -> Iterator[str]:
    """Return the names of the facts that a class adds; the class data of `ForumError` are none."""
    return iter(() if kind is ForumError else vars(kind).get("__annotations__", ()))


class NotFound(ForumError):
    """The log has no such thing, or a short name fits several."""

    problem = ProblemType.NOT_FOUND


class Conflict(ForumError):
    """The request does not fit the state that the log is in now."""

    problem = ProblemType.CONFLICT


class Invalid(ForumError):
    """The request could never be carried out."""

    problem = ProblemType.UNFIT


class Unavailable(ForumError):
    """It is not possible now: the operator has to act, or the caller tries again."""

    problem = ProblemType.UNAVAILABLE


class Untrusted(ForumError):
    """Data, a signature or a proof is not what was recorded or signed; it is not used."""


class LimitReached(ForumError):
    """A budget or a cap does not allow it; nothing was recorded."""

    exit_code = 5


class SetupError(ForumError):
    """This installation is incomplete or wrongly configured."""


class Malformed(Invalid):
    """Bytes or text are not in the one canonical form."""

    what: str
    why: str

    text = "malformed {what}: {why}"


class NoTypedAnswer(Invalid):
    """A run has no answer of the type that was asked for."""

    run: str
    why: str

    text = "run {run} has no value: {why}"


class FunctionNameTaken(Invalid):
    """Two functions of a program are agents, or tools, of one name."""

    name: str
    first: str
    second: str

    text = (
        "two functions have the name {name!r}: {first}, and {second}; "
        "give one of them another, as in forum.agent(name=...)"
    )


class EvidenceRefused(Invalid):
    """No evidence pack can be made of what was asked for."""

    why: str

    text = "no evidence pack was made: {why}"


class ProofRejected(Untrusted):
    """A Merkle proof does not lead to the claimed root."""

    claim: str

    text = "proof rejected: {claim}"


class SignatureRejected(Untrusted):
    """A note is not signed by a trusted key, or a trusted key's signature is invalid."""

    key: str
    why: str

    text = "signature rejected: {key}: {why}"


class TokenRejected(Untrusted):
    """A bearer token does not authenticate the caller. Its content is never quoted."""

    why: str

    text = "token rejected: {why}"


class TokenExpired(TokenRejected):
    """A valid bearer token has expired."""


class IssuerUnreachable(Unavailable):
    """The keys of the token issuer cannot be fetched, so no token can be checked."""

    address: str
    why: str

    text = "no keys to check tokens with: {address}: {why}; see [oidc] in forum.toml"


class PositionTaken(ForumError):
    """Another writer has already recorded this position of the strand."""

    position: str

    text = "position {position} is taken: another writer has written to this strand"


def _format_limit(limit: str, number: int) -> str:
    """Return an amount for people: money is counted in nano-dollars."""
    if limit != "usd":
        return f"{number} {limit.removesuffix('s') if number == 1 else limit}"
    return f"${format_usd(number)}"


class BudgetExceeded(LimitReached):
    """A reservation would exceed the cap of its run; nothing was recorded."""

    run: str
    limit: str
    asked: int
    used: int
    cap: int

    def __str__(self) -> str:
        asked, used, cap = self._amounts
        return f"run {self.run}: {asked} more would pass its cap: {used} of {cap} spent or reserved"

    @property
    def _amounts(self) -> tuple[str, str, str]:
        """What was asked for, what is used, and the cap, for people."""
        return (
            _format_limit(self.limit, self.asked),
            _format_limit(self.limit, self.used),
            _format_limit(self.limit, self.cap),
        )


class ReservationOverrun(BudgetExceeded):
    """A step of the run cost more than was reserved for it, so no further step begins."""

    def __str__(self) -> str:
        asked, used, cap = self._amounts
        return (
            f"run {self.run} was stopped: a step used {asked}, more than was reserved for it;"
            f" {used} of {cap} spent or reserved. Begin a new run"
        )


class BudgetSliceExhausted(LimitReached):
    """A process's slice of a shared cap is too small for the amount; nothing was recorded."""

    scope: str
    period: str

    text = "the slice of {scope} for {period} is spent: reserve another one"


class SharedCapExceeded(BudgetExceeded):
    """A reservation would exceed a cap over many runs; nothing was recorded."""

    why: str

    def __str__(self) -> str:
        return f"run {self.run}: {self.why}"


TENANT_SCOPE = "tenant"
"""The scope of a cap that the operator of many ledgers has set for one of them."""


class CapReached(LimitReached):
    """A request would exceed a cap over many runs; nothing was recorded."""

    problem = ProblemType.CAPPED

    def __init__(
        self, scope: str, per: str, limit: str, amounts: tuple[int, int, int], seconds: int
    ) -> None:
        super().__init__(scope, per, limit, amounts, seconds)
        self.scope, self.per = scope, per
        self.limit, self.seconds = limit, seconds
        self.asked, self.used, self.cap = amounts

    def __str__(self) -> str:
        is_final = self.per == "ever"
        span, retry = (
            ("in all", "") if is_final else (f"per {self.per}", f"try again in {self._wait}, or ")
        )
        return (
            f"the cap of {self._amount(self.cap)} {span} for {self.scope} is reached: "
            f"{self._amount(self.used)} are used or reserved, and {self._amount(self.asked)} more "
            f"would pass it; {retry}have the operator raise it "
            f"([{'tenants' if self.scope == TENANT_SCOPE else 'budgets'}])"
        )

    def _amount(self, number: int) -> str:
        return _format_limit(self.limit, number)

    @property
    def _wait(self) -> str:
        hours, minutes = divmod(-(-self.seconds // 60), 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min"


class SpendingFrozen(LimitReached):
    """The operator has frozen all spending; nothing was recorded."""

    problem = ProblemType.CAPPED
    text = "all spending is frozen, until the operator ends that: forum budgets unfreeze"


class NoSuchCap(NotFound):
    """No such cap was set by command."""

    subject: str
    unit: str
    per: str

    text = (
        "no cap of {unit} per {per} for {subject} was set by command; those of forum.toml are there"
    )


class QuotaReached(LimitReached):
    """A tenant has as many runs that have not ended as it may have; nothing was recorded."""

    most: int
    seconds: int

    problem = ProblemType.CAPPED
    text = (
        "this ledger has {most} runs that have not ended, and may have no more; try again when one "
        "has ended, or have the operator raise runs_at_once ([tenants])"
    )


class IdempotencyKeyUsed(Conflict):
    """An idempotency key was used before; nothing was recorded."""

    run: str
    digest: str
    tag: bytes | None = None

    problem = ProblemType.REUSED_KEY
    text = "this request was made before: run {run}"


class ConcurrentUpdate(Conflict):
    """Another process changed a value after this one had read it."""

    what: str

    text = "another process has changed {what} first"


class StepMismatch(ForumError):
    """The record has another step at this position than the requested one."""

    position: str
    recorded: str
    asked: str

    text = (
        "position {position} records step {recorded!r}, not {asked!r}: the program does not "
        "follow its own record"
    )


class BacklogFull(Unavailable):
    """Too many entries wait for an index; nothing was recorded."""

    waiting: int
    limit: int

    text = (
        "{waiting} entries wait to be sequenced (limit {limit}); try again in a second, and check"
        " that a sequencer is running"
    )


class RollbackDetected(Untrusted):
    """The database does not continue the last signed checkpoint."""

    origin: str
    signed: int
    found: int

    text = (
        "{origin}: the database (size {found}) does not continue the signed checkpoint of size "
        "{signed}; it was restored or altered. Nothing is signed. Put the newer database back, or"
        " begin a new epoch: forum ledger epoch"
    )


class CommitsLost(Unavailable):
    """The database lacks commits that were acknowledged: another server took over without them."""

    origin: str
    seen: int
    found: int
    missing: int = 0

    text = (
        "{origin}: the database has lost commits: its tree has {found} entries, and one of {seen} "
        "was seen before ({missing} entries of this process are missing). Nothing is written, "
        "signed or begun. Put the server that has them back, or stop all processes of this log and"
        " go on in a new epoch: forum ledger epoch"
    )
    remedy = "put the server that has them back, or: forum ledger epoch"


class GuardMissing(Unavailable):
    """There are signed checkpoints, but this machine does not remember the last one."""

    origin: str
    size: int

    text = (
        "{origin}: a checkpoint of size {size} was signed elsewhere, and this machine does not "
        "remember it. Copy the state directory of the machine that signed, or begin a new epoch: "
        "forum ledger epoch"
    )


class BackupRejected(Untrusted):
    """A backup cannot be restored here."""

    why: str

    text = "the backup was not restored: {why}"


class RestoreRefused(Untrusted):
    """Signing on from a backup could create a second history of the same log."""

    origin: str
    size: int
    why: str

    text = "{origin} was not restored at size {size}: {why}"


class NoSuchEntry(NotFound):
    """The log has no such entry."""

    what: str

    text = "no such entry: {what}"


class NoSuchRun(NotFound):
    """The log has no such run."""

    run: str

    text = "no such run: {run}; forum runs lists them"


class RunNotDriven(Conflict):
    """Another program records the run, so the engine has nothing to do or to stop."""

    run: str

    text = "Forum does not drive run {run}, it only records it; look at it with: forum show {run}"


class ExtensionMissing(SetupError):
    """The Python code that a policy names is not here, or in another version."""

    name: str
    why: str

    text = "extension {name}: {why}"


class ProtocolMissing(SetupError):
    """The feature is not here whose protocol a panel follows."""

    name: str

    text = "no protocol {name!r} for panels is installed"


class ReportRefused(Conflict):
    """A report cannot be recorded in this run."""

    run: str
    why: str

    text = "run {run}: {why}; report to a run of your own that is open"


class EarlierInputRefused(Conflict):
    """A report refers to the input of an earlier step, and its own cannot be made of that."""

    run: str
    span: str
    why: str

    text = (
        "nothing of the batch was recorded: run {run} has no input of span {span} for it: {why}; "
        "send inputs whole"
    )


class RecorderQueueFull(Unavailable):
    """The recorder cannot keep up, and was opened to say so."""

    limit: int

    text = (
        "{limit} steps wait to be recorded, and the queue is full. Make it longer with most=, or "
        'let steps wait with loss="block"'
    )


class RecorderUnusable(Unavailable):
    """A step that must be recorded before it is made cannot be recorded."""

    why: str

    text = "the step was not made, because it could not be recorded: {why}"


class LedgerElsewhere(Invalid):
    """A program asked to verify a ledger that is on a server."""

    run: str

    text = (
        "the ledger of run {run} is on a server: run `forum ledger verify` there, or export the run"
        " and verify its bundle with `forum verify`"
    )


class RunDeadlinePassed(LimitReached):
    """The time limit of a recorded run has passed; the step was not made."""

    run: str
    seconds: int

    text = "run {run}: its {seconds} seconds have passed. Give it more with seconds="


class ForkedFromCappedRun(LimitReached):
    """A forked process would spend from the budget of its parent's run; the call was not made."""

    run: str

    text = (
        "run {run} is capped and belongs to the process that this one was forked from. Open a run "
        "with a limit of its own in this process"
    )


class NoSuchKey(NotFound):
    """No such API key was ever granted."""

    key: str

    text = "no such key: {key}; forum keys list shows them"


class RunNotEnded(Conflict):
    """A run has not ended, and its driver still reads what it has recorded."""

    run: str

    text = (
        "run {run} has not ended and needs what it has recorded; end it first: forum cancel {run}"
    )


class TextNotFound(Conflict):
    """A body has no text of its own that could be looked for in other bodies."""

    body: str
    why: str

    text = "no text of body {body!r} can be looked for: {why}"


class AnswerNotFinal(Conflict):
    """A run has not ended, so there is no final answer to deliberate on."""

    run: str

    text = (
        "run {run} has not ended, and a panel deliberates on final answers; ask again when it has: "
        "forum watch {run}, or GET /api/v1/runs/{run}"
    )


class NoAnswer(Conflict):
    """A run has ended without an answer, so there is nothing to deliberate on."""

    run: str

    text = (
        "run {run} has ended and has no answer to deliberate on; name a run with an answer. Why it "
        "has none: forum show {run}, or GET /api/v1/runs/{run}"
    )


class AnswerHasSecret(Conflict):
    """A text of a run has a secret in it that is masked since, so that it cannot be quoted."""

    run: str

    text = (
        "run {run} has a text with a secret in it, which is not copied; erase it with forum ledger "
        "redact, and ask again without `about`"
    )


class ScoreTooEarly(Conflict):
    """A run has not ended, so there is nothing final to score."""

    run: str

    text = "run {run} has not ended; score it when it has: forum watch {run}"


class NothingToScore(NotFound):
    """A run has no such task, or no answer."""

    run: str
    subject: str

    text = "run {run} has no {subject}; forum show {run} shows what can be scored"


class NoSuchEvaluation(NotFound):
    """A run records no evaluation, or one that was not finished."""

    run: str

    text = "run {run} has no report of an evaluation; make one: forum eval CASES.jsonl"


class NoSuchIncident(NotFound):
    """No such incident was ever opened."""

    incident: str

    text = "no such incident: {incident}; forum incident list shows them"


class IncidentAlreadyClosed(Conflict):
    """An incident was closed before."""

    incident: str

    text = "incident {incident} is closed; open another one: forum incident open"


class BodyHeld(Conflict):
    """A hold keeps what a run has recorded."""

    run: str

    text = "a hold keeps what run {run} has recorded; see it with: forum hold list"


class NoSuchHold(NotFound):
    """No hold of this name is in force."""

    hold: str

    text = "no hold {hold} is in force; forum hold list shows those that are"


class NoSuchRequest(NotFound):
    """No open request to the machine that signs has this id."""

    request: str

    text = "no request {request} is open; forum ledger requests lists those that are"


class HoldInForce(Conflict):
    """A hold of this name is in force already."""

    hold: str

    text = "the hold {hold} is in force already; choose another name"


class RunAlreadyEnded(Conflict):
    """A run is closed."""

    run: str

    problem = ProblemType.ENDED
    text = "run {run} has ended; see its end with: forum show {run}"


class NoSuchGate(NotFound):
    """The run has no gate with this subject."""

    run: str
    subject: str

    text = "run {run} has no gate {subject}; forum gate list shows what waits"


class GateNameUsed(Conflict):
    """A program asks with another text under the name of a gate that exists."""

    run: str
    subject: str

    text = "run {run}, gate {subject}: it shows another text; ask under another name"


class GateAlreadyDecided(Conflict):
    """A gate was decided already; there is no second decision."""

    run: str
    subject: str
    answer: str
    by: str

    problem = ProblemType.DECIDED
    text = "run {run}, gate {subject}: decided already ({answer}, by {by})"


class GateChanged(Conflict):
    """The content of a gate was edited after the approver read it."""

    run: str
    subject: str
    digest: str

    problem = ProblemType.MOVED
    text = (
        "run {run}, gate {subject}: it was edited, its digest is {digest:.16}; look at it with "
        "forum gate show, then decide with --digest"
    )


class BodyGone(Conflict):
    """A required body was erased, or is missing."""

    position: str
    name: str

    problem = ProblemType.GONE
    text = "entry {position}: its body {name!r} was erased, and is needed for this"


class ReplayMiss(ForumError):
    """The record has no reply to a call that is replayed."""

    task: str
    step: str

    text = "the record has no {step} of task {task}, and a replay calls no model"


class NoSuchSession(NotFound):
    """A path has no artifact of a recorded session."""

    path: str
    why: str
    run: str

    text = (
        "{path}: {why}; name the artifact of a session or its folder. Of a run that has ended, "
        "write them first: forum deliberate export {run} --output DIR"
    )


class PinningViolation(Conflict):
    """A recorded session cannot be executed again, because a pin cannot be held."""

    pin: str
    advice: str

    exit_code = 7
    text = "not carried out: the pin `{pin}` cannot be held; {advice}"


class EntryLost(Untrusted):
    """An acknowledged entry is no longer in the database."""

    origin: str
    which: str

    text = "{origin}: {which}; nothing is signed. See: forum ledger verify"


class TamperDetected(Untrusted):
    """The database differs from what was recorded; the altered data are not used."""

    what: str
    why: str

    exit_code = 3
    text = (
        "{what} was altered in the database: {why}. It is not used. See what else was changed: "
        "forum ledger verify"
    )


class SigningRefused(TamperDetected):
    """An entry has an index and must not be signed: somebody put it into the database."""

    text = (
        "{what} must not be signed: {why}. Nothing is signed until it is gone. See what else was"
        " changed: forum ledger verify. Then restore the database from a backup, or close this log"
        " at its last signed checkpoint: forum ledger epoch"
    )


class ForeignLedgerBroken(Untrusted):
    """A ledger of another program is not what that program wrote; nothing of it is recorded."""

    place: str
    why: str

    exit_code = 3
    text = "the ledger was altered or is incomplete, at {place}: {why}. Nothing was imported"


class WrongWriteKey(Untrusted):
    """The sequencer would refuse entries that are tagged with this write key."""

    origin: str
    key: str
    why: str

    text = (
        "{origin}: this machine cannot write with write key {key}: {why}. Copy write.key from the"
        " machine that signs the log; on that machine: forum keys rotate-write"
    )


class FeatureMissing(SetupError):
    """A feature that is needed is not in the list of features of this copy."""

    what: str
    feature: str

    text = "{what} need the feature {feature}, which this copy of Forum does not have"


class NotSigner(SetupError):
    """Another machine signs the log, and it alone writes what is decided about the log itself."""

    origin: str
    strand: str

    text = (
        "only the machine that signs {origin} may write to its strand {strand}. Type this command"
        " there"
    )


class NoSuchLog(SetupError):
    """The database does not hold this log."""

    origin: str

    text = "the database holds no log {origin}"
    remedy = "forum init"


class AmbiguousEntry(NotFound):
    """A shortened id fits more than one entry."""

    prefix: str
    count: int

    text = "{count} entries begin with {prefix}; give more digits"


class AmbiguousRun(NotFound):
    """What names a run fits more than one: as a name, a prefix, or the id of an entry."""

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
        more = "more of the name, or the index of an entry"
        return f"{self.prefix} fits {count} runs: {named}{others}; give {more}"


class NotYetSigned(Conflict):
    """An entry is durable, but no signed checkpoint covers it yet."""

    entry: str

    problem = ProblemType.NOT_SIGNED
    text = "entry {entry} is not in a signed checkpoint yet; try again in a second"


class StoreFailed(Unavailable):
    """The database failed: the disk is full, read-only, locked or gone."""

    text = "the ledger's database failed while {doing}: {why}"
    remedy = "forum ledger verify"
    default_hint = ""
    """What the operator can do, for a cause that is known."""

    def __init__(self, doing: str, why: str, hint: str = "") -> None:
        super().__init__(doing, why, hint)
        # Database drivers write their errors on several lines, but a message of Forum is one line.
        self.doing, self.why = doing, " ".join(why.split())
        self.hint = hint or self.default_hint

    def __str__(self) -> str:
        message = super().__str__().rstrip(".")
        if not self.hint:
            return message
        return f"{message}{'' if message.endswith('?') else '.'} {self.hint}"


class CapsUnsigned(StoreFailed):
    """A change of caps was recorded, and this machine cannot tell yet by whom."""

    def __init__(self, origin: str) -> None:
        super().__init__(
            "reading caps", f"a change of the caps of {origin} waits for its signature"
        )


class StoreConnectionLost(StoreFailed):
    """The connection broke: it is unknown whether the last commit took place."""

    remedy = "start the database, or correct its address, then: forum doctor"


class ServerReplaced(StoreConnectionLost):
    """A server answers that this process has left for its successor: an old primary came back."""

    remedy = "stop the old primary, and name the new one as the database"

    def __init__(self, timeline: int) -> None:
        why = f"it answers on timeline {timeline}, and another server took over"
        hint = "Stop the old primary, and name the new one as the database"
        super().__init__("using a server", why, hint)


class ClockOff(StoreFailed):
    """This machine's clock differs from the database's: what it wrote would be dated wrongly.

    A failure of the store, so that whoever has something to record tries again: nothing is lost,
    and it is recorded once the clock is right.
    """

    text = (
        "the clock of this machine is {skew} the database's, and nothing is written with a wrong "
        "time"
    )
    remedy = "set the clock of this machine: timedatectl set-ntp true, then: chronyc makestep"

    def __init__(self, skew: str) -> None:
        hint = "Set it right (timedatectl set-ntp true); if the database's is wrong, set that one"
        super().__init__("dating an entry", f"the clock is {skew} the database's", hint)
        self.skew, self.args = skew, (skew,)


class LogPaused(StoreFailed):
    """A log is being moved to another database; nothing was recorded."""

    text = "{origin} is being moved to another database; try again in a second"
    remedy = "forum tenant list"

    def __init__(self, origin: str) -> None:
        super().__init__("writing", "the log is being moved")
        self.origin, self.args = origin, (origin,)


class LogMoved(StoreFailed):
    """A log was moved to a database that this process does not know; nothing was recorded."""

    text = (
        "{origin} was moved to the database {place}, which this process does not know: name it in "
        "forum.toml ([databases.{place}]), or if this is a tenant, take its forum.toml again"
    )
    remedy = "write [databases.{place}] url = ... into forum.toml, and start this process again"

    def __init__(self, origin: str, place: str) -> None:
        super().__init__("writing", "the log was moved")
        self.origin, self.place = origin, place
        self.args = (origin, place)


class LogEnded(StoreFailed):
    """The next epoch of a log begins or has begun; nothing was recorded in this one."""

    text = (
        "{origin} takes nothing more, because the next epoch of the log has begun: restart this "
        "process; on another machine, copy log.pub and write.key there before. If the command that "
        "begins it was stopped, type it again: forum ledger epoch"
    )
    remedy = (
        "restart this process; on another machine, copy log.pub and write.key there before. If no "
        "later epoch is there: forum ledger epoch"
    )

    def __init__(self, origin: str) -> None:
        super().__init__("writing", "the log has ended")
        self.origin, self.args = origin, (origin,)


class MoveRefused(Conflict):
    """A log cannot be moved; it is where it was, and takes writes."""

    origin: str
    why: str

    text = "{origin} was not moved: {why}"


class TooManyConnections(StoreConnectionLost):
    """The database accepts no further connection."""

    remedy = "raise max_connections of the database server, or run fewer processes"
    default_hint = "Raise max_connections of the server, or run fewer processes"


class StoreBlocked(StoreFailed):
    """The database refused a statement for a cause that can pass; nothing was committed."""


class StoreFull(StoreBlocked):
    """The disk of the database is full."""

    remedy = "free some space on the disk of the database"
    default_hint = "Free some space on the disk of the database"


class StoreReadOnly(StoreBlocked):
    """The database takes no changes: it is a standby, or was set read-only."""

    remedy = "name the primary as the database, or let it be written, then: forum doctor"
    default_hint = "This server is read-only: name the primary as the database"


class StoreLocked(StoreBlocked):
    """Another session or process holds a lock for longer than a statement waits."""

    remedy = "end the session that holds the lock, then: forum doctor"
    default_hint = "Another session keeps it locked: end that one, or try again when it is done"


class StoreTimedOut(StoreBlocked):
    """The database ended a statement that took too long."""

    remedy = "see what keeps the database busy, then: forum doctor"
    default_hint = "The database is overloaded, or waits for a disk or a standby"


class TransactionPooler(SetupError):
    """A pooler before the database gives one session to many clients."""

    text = (
        "the database is behind a pooler that gives a session to other clients between "
        "transactions, such as pgbouncer with pool_mode = transaction or statement. Locks and "
        "notifications need sessions of their own: set pool_mode = session and keep "
        "server_reset_query = DISCARD ALL, or give the address of the database server itself"
    )
    remedy = "set pool_mode = session in the pooler, or name the database server itself"


class StateFileFailed(StoreFailed):
    """A small file outside the database failed: a guard, a witness's memory, a key, a policy."""

    text = "{what} failed while {doing}: {why}"

    def __init__(self, what: str, doing: str, why: str) -> None:
        super().__init__(
            doing, why, "Make room there, or let this user write there; then try again"
        )
        self.what = what
        self.args = (what, doing, why)


class SchemaTooOld(SetupError):
    """The database lacks tables that this release needs."""

    found: int
    known: int

    text = "the schema is version {found}, this release needs {known}: run forum db upgrade"
    remedy = "forum db upgrade"


class DatabaseInUse(SetupError):
    """Other processes use the database, and the command needs it alone."""

    sessions: int
    workers: int

    text = "the database is in use: {sessions} other sessions, {workers} workers with a lease"
    remedy = "stop servers and workers, wait until their leases end, then try again"


class UpgradeBlocked(Unavailable):
    """A session of another keeps a table that a change of the schema needs."""

    doing: str
    blocker: str
    step: str

    text = "{doing} has to wait for too long: {blocker}; {step}, then give the command again"
    remedy = "{step}, then give the command again"


class DurabilityDisabled(SetupError):
    """The database is configured so that it may lose acknowledged entries."""

    setting: str

    text = "the database may lose acknowledged entries: {setting}; correct this setting first"
    remedy = "set fsync and synchronous_commit to on in postgresql.conf"


class SchemaTooNew(SetupError):
    """The database was written by a newer release."""

    found: int
    known: int

    text = "the schema is version {found}, this release knows {known}: upgrade forum"
    remedy = "install a newer release of Forum"


class BadPlan(Invalid, ValueError):
    """A plan, or the policy for it, could never be executed."""

    why: str

    text = "this cannot be run: {why}"


class CheckTooExpensive(Invalid):
    """A request takes too long to check."""

    seconds: float

    text = (
        "checking this request takes more than {seconds:g} s of CPU time; send fewer tasks, or "
        "fewer and smaller checks"
    )


class BadRoster(SetupError, ValueError):
    """A roster cannot be read, or no router can be made from it."""

    where: str
    why: str

    text = "this roster cannot be used: {where}: {why}"
    remedy = "correct the roster; which one it is: forum config show"


class BadSettings(SetupError):
    """A settings file cannot be read, or has an unknown or invalid setting."""

    path: str
    why: str

    text = "{path}: {why}"
    remedy = "correct {path}, then: forum doctor"


class MissingExtra(SetupError):
    """A command needs an optional dependency that is not installed."""

    extra: str
    why: str
    command: str

    text = "{why}; install it with: {command}"
    remedy = "{command}"


class RunQueueFailed(Unavailable):
    """The engine that assigns runs to workers does not do what it was asked for."""

    engine: str
    why: str

    text = "{engine}, which assigns runs to workers, failed: {why}"
    remedy = "see that {engine} runs and can be reached from here; it is tried again"


class WeightsMissing(SetupError):
    """The weights of a model are not installed."""

    model: str
    folder: str

    text = "the weights {model} are not in {folder}; get them with: forum models pull {model}"
    remedy = "forum models pull {model}"


class WeightsUnavailable(Unavailable):
    """The weights of a model could not be fetched."""

    model: str
    why: str
    steps: str
    """How to fetch them without this command, on lines of their own."""

    text = "the weights {model} were not installed: {why}.\n{steps}"
    remedy = "forum models pull {model}"


class ToolsChanged(Untrusted):
    """An MCP server lists other tools than when it was first used."""

    server: str
    how: str
    digest: str

    text = (
        "the tools of {server} have changed ({how}), so none is called; look at them with forum "
        "show RUN --transcript, and to accept them start the gateway with --pin {digest}"
    )
    remedy = "forum mcp gateway --pin {digest}"


class WeightsRejected(Untrusted):
    """A file is not the one that is pinned for a model."""

    model: str
    file: str
    why: str
    step: str

    exit_code = 3
    text = "{file} is not the file that is pinned for {model}: {why}. It is not used. {step}"
    remedy = "forum models pull {model}"


class NotConfined(SetupError):
    """The programs of agents must run in a sandbox, and cannot."""

    why: str
    step: str

    text = "programs of agents cannot be confined: {why}; {step}"
    remedy = "{step}, then: forum doctor"


class UnknownPrice(Invalid):
    """The price of a model is not known; it is not assumed to be zero."""

    model: str
    why: str

    text = (
        "the price of {model!r} is not known: {why}; declare it, in dollars for a million tokens:"
        " price = {{ input = 0, output = 0 }} in forum.toml, or --price-in and --price-out"
    )


class UnboundedCall(UnknownPrice):
    """The highest cost of a call is not known, so a run with a limit does not make it."""

    text = "the highest cost of a call of {model!r} is not known: {why}"


class AgentUnusable(Invalid):
    """An agent cannot be called as it is configured."""

    agent: str
    why: str

    def __str__(self) -> str:
        name = f"agent {self.agent!r}" if self.agent else "the agent"
        return f"{name} cannot be called: {self.why}"


class NotServing(SetupError):
    """A model served by Forum itself did not start."""

    model: str
    why: str

    text = "the model {model} did not start: {why}"


class ServerUnusable(Unavailable):
    """An MCP server cannot list its tools, or lists tools that cannot be used."""

    server: str
    why: str

    text = "the MCP server {server!r} cannot be used: {why}"


class PortUnusable(SetupError):
    """A server cannot listen at its address."""

    host: str
    port: int
    why: str

    text = "cannot listen at {host} port {port}: {why}"


class NoLedger(SetupError):
    """There is no ledger here yet."""

    where: str

    text = "there is no ledger in {where}; make one with: forum init"


_KEY_REMEDIES = (
    "Restore the key and its folder from a backup, or continue under a new key, with a reason "
    "that is recorded: forum ledger epoch --reason TEXT. To start over on purpose: "
    "forum init --new-log"
)


class LogKeyMissing(Unavailable):
    """The signing key of this project's log is gone."""

    origin: str
    path: str

    text = f"the signing key of {{origin}} is missing: {{path}}. {_KEY_REMEDIES}"
    remedy = "restore it from a backup, or: forum ledger epoch --reason TEXT"


class LogKeyChanged(Unavailable):
    """The signing key is not that of this project's log."""

    origin: str
    path: str
    found: str

    remedy = "restore it from a backup, or: forum ledger epoch --reason TEXT"

    def __str__(self) -> str:
        key = "another key of that name" if self.found == self.origin else f"that of {self.found}"
        return (
            f"this project's log is {self.origin}, and the signing key {self.path} is {key}. "
            f"{_KEY_REMEDIES}"
        )


class LogKeyRetired(Unavailable):
    """The log has a new signing key; this process holds the old one."""

    origin: str

    text = (
        "{origin}: the last checkpoint was signed with another key. Nothing is signed. If the key"
        " was rotated, restart this process; otherwise put the newest key back"
    )


class RotationRefused(SetupError):
    """The signing key of a log cannot be rotated here, or not now."""

    origin: str
    why: str

    text = "the signing key of {origin} was not rotated: {why}"


class KeyUnreadable(SetupError):
    """A key file cannot be read."""

    path: str
    why: str

    text = "cannot read the key {path}: {why}"
    remedy = "restore the file from a backup, then: forum doctor"


class WitnessRefused(Untrusted):
    """A witness received a checkpoint and did not cosign it."""

    witness: str
    why: str

    text = "witness {witness} refused the checkpoint: {why}"


class CosignatureRefused(WitnessRefused):
    """A witness cosigned, but its cosignature was not accepted."""

    text = "the cosignature of witness {witness} is not accepted: {why}"


class ArchiveUnreachable(Unavailable):
    """The copy of an archived run cannot be read or written."""

    place: str
    why: str

    text = (
        "the archive {place} cannot be reached: {why}. Make it available at this place (mount the "
        "folder, or set the credentials of the object store), then try again"
    )
    remedy = "make the archive {place} available again, then: forum ledger verify"


class WitnessUnreachable(Unavailable):
    """A witness did not answer in time, or did not follow the protocol."""

    witness: str
    why: str

    text = "witness {witness} is unreachable: {why}"


class BodyTooExpensive(Invalid):
    """A body takes too long, or too much memory, to read."""

    seconds: float
    megabytes: int

    text = (
        "reading this body takes more than {seconds:g} s of CPU time or {megabytes} MiB of memory; "
        "send a smaller one, or one with fewer values"
    )


class BodyTooLarge(Invalid):
    """A body has more bytes than its route takes."""

    most: int

    text = "at most {most} bytes"


class BodyTooSlow(Invalid):
    """A body was not received in time."""

    seconds: float

    text = "the body did not come within {seconds:.0f} s"


class ShareExceeded(LimitReached):
    """A key or a ledger has as much of something in use as it may have at once."""

    what: str
    whose: str
    most: int

    problem = ProblemType.SHARE_IN_USE
    text = "this {whose} may have at most {most} {what} at once; wait until others have ended"
    remedy = "send fewer requests at once, or use several keys"


class ProcessFull(Unavailable):
    """A server process has as much of something in use as it may have at once."""

    what: str
    most: int

    text = "this process may have at most {most} {what} at once; try again"
    remedy = "start another server process"


class WorkerLost(Unavailable):
    """A process that reads large bodies did not start, or ended."""

    why: str

    text = "the process that reads large bodies failed ({why}); try again"
    remedy = "look at the log of the server, and at its limits of memory and processes"
