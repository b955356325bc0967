"""Where a recorder writes: the ledger of a folder, or a server."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import httpx2
import msgspec

from forum import errors
from forum.app import Forum, build_secret_mask
from forum.config import load_settings
from forum.features.recorder.earlier_inputs import SentInputs
from forum.features.recorder.report_charges import ReportCharges
from forum.features.recorder.report_items import (
    GateQuestion,
    ReportItem,
    ReportResult,
    RunEnd,
    RunStart,
    StepBegin,
    StepReport,
)
from forum.features.recorder.report_writer import ReportWriter
from forum.features.recorder.spool import SpooledRun, recover_spools
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT, UNLIMITED, Amount
from forum.runs.policy import Answer
from forum.runs.report_drafts import MAX_BODY_BYTES
from forum.runs.report_kinds import GapReason, is_run_id

SPOOL_FOLDER = "recorder"
OPERATOR = "operator"
"""Who writes into the ledger of a folder, for the caps of `[budgets]`: as for `forum run`."""
MAX_POST_BYTES = 512 * 1024
"""How much is sent in one request; a single larger item is sent alone."""
_TIMEOUT_S = 30.0


def find_relayed_run() -> str:
    """Return the id of the run whose gateway relays the calls of this program, or ""."""
    run = os.environ.get("FORUM_RUN", "")
    # An agent that the engine starts has a task as well, and no gateway.
    return run if is_run_id(run) and "FORUM_TASK" not in os.environ else ""


class ReportSink(Protocol):
    """Records items.  Every method may be called by many threads."""

    spool: Path
    """The folder of the counters of this machine's processes."""
    missing_why: GapReason
    """Why a step that was handed in, and not dropped here, is missing."""
    full_why: GapReason
    """Why steps are dropped when the queue is full."""
    max_body: int
    """The highest number of bytes of one body."""

    @property
    def has_shared_caps(self) -> bool:
        """Whether caps over many runs apply here; a server applies its own."""
        return False

    def write(self, items: Sequence[ReportItem]) -> ReportResult:
        """Record items durably.  Raises `Unavailable` if they must be handed in again."""
        ...

    def split(self, items: Sequence[ReportItem]) -> list[Sequence[ReportItem]]:
        """Return the parts of a batch that may each be written again if writing it fails."""
        ...

    def ask_gate(self, question: GateQuestion) -> Answer | None:
        """Open a gate unless it is open, and return its decision; None while it waits."""
        result = self.write([question])
        raise_refusal(result)
        return result.gates[0].answer

    def reopen(self) -> None:
        """Go on in a forked child, under its own name and with its own connections."""
        ...

    def close(self) -> None:
        """Publish what was written, and close files and connections."""
        ...


class _ThreadState(threading.local):
    """Whether this thread is writing."""

    is_writing = False


_thread = _ThreadState()


@contextmanager
def _writing() -> Iterator[None]:
    """Refuse to write while this thread is writing: stores are not re-entrant.

    The garbage collector and signal handlers run code of the program at any point.
    """
    if _thread.is_writing:
        raise errors.RecorderUnusable("a signal or the garbage collector came while writing")
    try:
        _thread.is_writing = True
        yield
    finally:
        _thread.is_writing = False


class LedgerSink(ReportSink):
    """Writes into the ledger of a folder, in this process."""

    missing_why = GapReason.REFUSED
    full_why = GapReason.OVERFLOW
    max_body = MAX_BODY_BYTES

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self.forum = self._stack.enter_context(Forum(load_settings(folder, os.environ)))
        self.forum.keys.initialise()
        self.spool = self.forum.settings.data / SPOOL_FOLDER
        self._ledger = self._stack.enter_context(self.forum.log.open_writer())
        self.reopen()
        recover_spools(self.spool, self._recover)

    def reopen(self) -> None:
        """Write under the name of this process; the ledger itself survives a fork."""
        by = f"process-{os.getpid()}"
        # A program that can write to the ledger can decide at its gates, too.
        # A gateway charges the calls of its program itself.
        budgets = self.forum.runs.budgets
        self._charges = None if find_relayed_run() else ReportCharges(budgets, OPERATOR)
        self._writer = ReportWriter(
            self._ledger, by, is_only_writer=True, may_approve=True, charges=self._charges
        )

    @property
    def has_shared_caps(self) -> bool:
        """Whether caps over many runs apply to calls of models."""
        return self._charges is not None and self._charges.may_apply

    def write(self, items: Sequence[ReportItem]) -> ReportResult:
        """Record items in the ledger."""
        with _writing():
            return self._writer.write(items)

    def split(self, items: Sequence[ReportItem]) -> list[Sequence[ReportItem]]:
        """Return steps that share a commit, and each other item alone.

        A part of which nothing is recorded, or all, is written again at little cost.
        """
        parts: list[Sequence[ReportItem]] = []
        for shares, part in groupby(
            items, lambda item: type(item) is StepReport and not item.begun
        ):
            alike = list(part)
            parts.extend([alike] if shares else [[item] for item in alike])
        return parts

    def close(self) -> None:
        """Publish, and close the ledger."""
        self._stack.close()

    def _recover(self, spooled: SpooledRun) -> None:
        """Record what a process that was killed has not recorded."""
        # Its runs name that process as their reporter.
        self._writer.recover_run(lost_run_end(spooled))


class OffSink(ReportSink):
    """Records nothing, for tests of programs (`FORUM_OFF=1`); limits hold, counted in memory."""

    missing_why = GapReason.REFUSED
    full_why = GapReason.OVERFLOW
    max_body = MAX_BODY_BYTES

    def __init__(self) -> None:
        # The counters of the process need a file; it is deleted at the end.
        self._folder = TemporaryDirectory(prefix="forum-off-")
        self.spool = Path(self._folder.name)
        self._lock = threading.Lock()
        self._caps: dict[str, Amount] = {}
        self._used: dict[str, Amount] = {}
        self._reserved: dict[str, Amount] = {}

    def write(self, items: Sequence[ReportItem]) -> ReportResult:
        """Count what calls under a limit cost.  Raises `BudgetExceeded`."""
        with self._lock:
            for item in items:
                if isinstance(item, RunStart):
                    self._caps.setdefault(item.run, Amount(item.usd, item.tokens, item.calls))
                elif isinstance(item, StepBegin):
                    self._reserve(item)
                elif isinstance(item, StepReport) and item.span in self._reserved:
                    spent = Amount(item.usd, item.input_tokens + item.output_tokens, 1)
                    before = self._reserved.pop(item.span)
                    parts = zip(self._used[item.run], before, spent, strict=True)
                    self._used[item.run] = Amount(*(used - b + s for used, b, s in parts))
        return ReportResult(recorded=len(items))

    def _reserve(self, begin: StepBegin) -> None:
        asked = Amount(begin.usd, begin.tokens, begin.calls)
        used = self._used.get(begin.run, Amount())
        caps = self._caps.get(begin.run, UNLIMITED)
        for limit, more, spent, cap in zip(
            ("usd", "tokens", "calls"), asked, used, caps, strict=True
        ):
            if cap != NO_LIMIT and spent + more > cap:
                raise errors.BudgetExceeded(begin.run, limit, more, spent, cap)
        self._used[begin.run] = used.plus(asked)
        if begin.calls:
            self._reserved[begin.span] = asked

    def split(self, items: Sequence[ReportItem]) -> list[Sequence[ReportItem]]:
        """Return the whole batch."""
        return [items]

    def ask_gate(self, question: GateQuestion) -> Answer | None:
        """Return the default of a gate: nobody is asked."""
        return question.default

    def reopen(self) -> None:
        """Do nothing: there are no connections."""

    def close(self) -> None:
        """Delete the counters."""
        self._folder.cleanup()


class ServerSink(ReportSink):
    """Sends items to a server, with a key that has the scope `report`."""

    missing_why = GapReason.SEQUENCE
    full_why = GapReason.UNREACHABLE
    # A step has up to four bodies, escaping can double them, and a server takes 1 MiB by default.
    max_body = 128 * 1024

    def __init__(self, url: str, key: str, folder: Path) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {key}"}
        self.reopen()
        # The key itself is a secret here: whatever is sent might hold it.
        self._mask = build_secret_mask({**os.environ, "FORUM_KEY": key}, {"FORUM_KEY"})
        state = load_settings(folder, os.environ).state
        self.spool = state / SPOOL_FOLDER / sha256(url.encode()).hexdigest()[:16]

    def reopen(self) -> None:
        """Use connections of this process's own."""
        self._client = httpx2.Client(base_url=self._url, timeout=_TIMEOUT_S, headers=self._headers)
        self._sent_inputs, self._sends_new = SentInputs(), True

    def recover(self) -> None:
        """Send what processes of this machine that were killed have not sent."""
        recover_spools(self.spool, lambda spooled: _ignore(self.write([lost_run_end(spooled)])))

    def split(self, items: Sequence[ReportItem]) -> list[Sequence[ReportItem]]:
        """Return the whole batch: a server knows what it has recorded."""
        return [items]

    def write(self, items: Sequence[ReportItem]) -> ReportResult:
        """Send items, in several requests if they are large."""
        masked = [self._mask_input(item) for item in items]
        results: list[tuple[int, ReportResult]] = []
        sent = 0
        while sent < len(items):
            encoded, refers = self._encode_first(masked[sent:])
            whole = masked[sent : sent + len(encoded)]
            reply = self._post(encoded)
            if refers and reply.status_code in (409, 422):
                # Nothing is recorded: the earlier input is gone, or the release of the server does
                # not know that it could be used.
                self._sends_new = reply.status_code == 409
                self._sent_inputs.forget({item.run for item in whole})
                continue
            result = _read_result(reply)
            self._learn(whole, result)
            results.append((sent, result))
            sent += len(encoded)
        return _join_results(results)

    def _encode_first(self, items: Sequence[ReportItem]) -> tuple[list[bytes], bool]:
        """Return as many items as fit into one request, at least one, and whether some refer."""
        encoded: list[bytes] = []
        size, refers = 0, False
        for item in items:
            shown = self._sent_inputs.shorten(item) if self._sends_new else item
            data = msgspec.json.encode(shown)
            size += len(data)
            if encoded and size > MAX_POST_BYTES:
                break
            encoded.append(data)
            refers = refers or shown is not item
        return encoded, refers

    def _mask_input(self, item: ReportItem) -> ReportItem:
        """Return an item with the secrets of its input masked, as the server records it."""
        if not isinstance(item, StepBegin | StepReport) or not isinstance(item.input, msgspec.Raw):
            return item
        content = bytes(item.input)
        masked = b"".join(self._mask.mask_chunks([content])) if self._mask else content
        return msgspec.structs.replace(item, input=msgspec.Raw(masked))

    def _learn(self, items: Sequence[ReportItem], result: ReportResult) -> None:
        """Remember the inputs that are recorded, to send only what is new in the next ones."""
        refused = {refusal.item for refusal in result.refused}
        recorded = [item for number, item in enumerate(items) if number not in refused]
        self._sent_inputs.remember(recorded)
        self._sent_inputs.forget(item.run for item in recorded if isinstance(item, RunEnd))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _post(self, items: Sequence[bytes]) -> httpx2.Response:
        body = b'{"items":[' + b",".join(items) + b"]}"
        # Masked before anything leaves the process.
        masked = b"".join(self._mask.mask_chunks([body])) if self._mask else body
        try:
            with _writing():
                return self._client.post(
                    "/api/v1/reports", content=masked, headers={"Content-Type": "application/json"}
                )
        except httpx2.TransportError as error:
            raise errors.RecorderUnusable(f"the server cannot be reached: {error}") from None


def _read_result(reply: httpx2.Response) -> ReportResult:
    """Return the result of a request.  Raises the error for which it failed."""
    if reply.status_code == 200:
        return _result_decoder.decode(reply.content)
    why = f"the server answers with {reply.status_code}: {reply.text[:500]}"
    if reply.status_code in (413, 422):
        # The same request would be refused again.
        raise errors.Malformed("report", why)
    raise errors.RecorderUnusable(why)


def raise_refusal(result: ReportResult) -> None:
    """Raise the error for which the only item of a batch was refused."""
    for refusal in result.refused:
        kind = getattr(errors, refusal.code, None)
        if isinstance(kind, type) and issubclass(kind, errors.ForumError):
            raise kind(*refusal.facts)
        raise errors.RecorderUnusable(refusal.why)


def lost_run_end(spooled: SpooledRun) -> RunEnd:
    """Return the end of a run whose process was killed."""
    return RunEnd(
        run=spooled.run,
        name=spooled.actor,
        outcome=Outcome.INDETERMINATE,
        handed_in=spooled.handed_in,
        dropped=spooled.dropped,
        missing_why=GapReason.SHUTDOWN,
    )


def _join_results(results: Sequence[tuple[int, ReportResult]]) -> ReportResult:
    """Return one result, with the items numbered as in the whole batch."""
    if len(results) == 1:
        return results[0][1]
    replace = msgspec.structs.replace
    return ReportResult(
        recorded=sum(result.recorded for _, result in results),
        known=sum(result.known for _, result in results),
        refused=tuple(
            replace(refusal, item=refusal.item + first)
            for first, result in results
            for refusal in result.refused
        ),
        gates=tuple(
            replace(gate, item=gate.item + first)
            for first, result in results
            for gate in result.gates
        ),
    )


def _ignore(_: object) -> None:
    """Drop a result: an unknown or closed run needs no recovery."""


_result_decoder = msgspec.json.Decoder(ReportResult)
