"""Inputs that begin with the input of an earlier step: an agent sends its whole conversation anew.

A program that reports over the network sends only what is new.  It refers only to inputs that the
server has acknowledged; so what a kill of the program leaves behind refers to nothing that is lost.
The server puts the input together before it records anything of the batch.  If it cannot, it
refuses the batch, and the program sends it whole.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from threading import Lock
from typing import NamedTuple

import msgspec

from forum import errors
from forum.features.recorder.report_items import EarlierInput, ReportItem, StepBegin, StepReport
from forum.ledger.log import Ledger, read_body, read_strand_entries
from forum.ledger.spans import MIN_SHARED_BYTES, common_prefix
from forum.runs.report_drafts import MAX_BODY_BYTES
from forum.runs.report_kinds import span_strand

MAX_JOINED_BYTES = 16 << 20
"""How much is read and put together for one batch: a small request cannot make a large one."""

_MAX_INPUTS = 8
"""How many inputs of a run are compared: agents of one run take turns."""
_MAX_SENT_BYTES = 16 << 20


class InputJoiner:
    """Puts the inputs of one batch together."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._left = ledger, MAX_JOINED_BYTES
        self._earlier: dict[tuple[str, str], bytes] = {}

    def join(self, item: StepBegin | StepReport) -> ReportItem:
        """Return an item with its whole input.  Raises `EarlierInputRefused`.

        The caller has checked that the run is the reporter's own.
        """
        earlier = item.input_after
        if earlier is None:
            return item
        rest = item.input if isinstance(item.input, msgspec.Raw) else b'""'
        begin = self._read(item.run, earlier.span)[: earlier.size]
        try:
            joined = begin + msgspec.json.decode(rest, type=str).encode()
            self._take(item.run, earlier, len(joined))
            # Also where this server has masked the earlier input: it has other bytes then.
            if len(begin) < earlier.size or sha256(joined).hexdigest() != earlier.sha256:
                raise _refuse(item.run, earlier.span, "it is not what was reported")
            if len(joined) > MAX_BODY_BYTES:
                raise _refuse(item.run, earlier.span, f"both have more than {MAX_BODY_BYTES} bytes")
            whole = msgspec.json.decode(joined, type=msgspec.Raw)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise _refuse(item.run, earlier.span, f"both are no JSON: {error}") from None
        return msgspec.structs.replace(item, input=whole, input_after=None)

    def _read(self, run: str, span: str) -> bytes:
        """Return the recorded input of a span; empty if it is not there, or was erased."""
        if (run, span) not in self._earlier:
            entries = read_strand_entries(self._ledger, run, span_strand(span))
            entry = next((entry for _, entry in entries), None)
            content = None
            if entry is not None and "input" in entry.bodies:
                size = entry.bodies["input"].size
                self._take(run, EarlierInput(span, size, ""), size)
                content = read_body(self._ledger.store, entry, "input")
            self._earlier[run, span] = content or b""
        return self._earlier[run, span]

    def _take(self, run: str, earlier: EarlierInput, size: int) -> None:
        self._left -= size
        if self._left < 0:
            why = f"the inputs of one batch have more than {MAX_JOINED_BYTES} bytes"
            raise _refuse(run, earlier.span, why)


def _refuse(run: str, span: str, why: str) -> errors.EarlierInputRefused:
    return errors.EarlierInputRefused(run, span, why)


class _SentInput(NamedTuple):
    span: str
    content: bytes


class SentInputs:
    """The last inputs that a server has acknowledged, by run; safe to use from many threads."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, list[_SentInput]] = OrderedDict()
        self._size, self._lock = 0, Lock()

    def shorten(self, item: ReportItem) -> ReportItem:
        """Return an item without what the input of an earlier step has at its beginning."""
        content = _input_of(item)
        if not isinstance(item, StepBegin | StepReport) or content is None:
            return item
        with self._lock:
            sent = list(self._runs.get(item.run, ()))
        best, shared = None, 0
        for earlier in sent:
            length = common_prefix(content, earlier.content)
            if length > shared and earlier.span != item.span:
                best, shared = earlier, length
        # What is left is sent as a text: a character is not cut.
        while 0 < shared < len(content) and content[shared] & 0xC0 == 0x80:
            shared -= 1
        if best is None or shared < MIN_SHARED_BYTES:
            return item
        return msgspec.structs.replace(
            item,
            input=msgspec.Raw(msgspec.json.encode(content[shared:].decode())),
            input_after=EarlierInput(best.span, shared, sha256(content).hexdigest()),
        )

    def remember(self, items: Sequence[ReportItem]) -> None:
        """Remember the inputs of items that the server has acknowledged."""
        with self._lock:
            for item in items:
                content = _input_of(item)
                if isinstance(item, StepBegin | StepReport) and content is not None:
                    self._add(item.run, _SentInput(item.span, content))
            while self._size > _MAX_SENT_BYTES:
                self._drop(next(iter(self._runs)))

    def forget(self, runs: Iterable[str]) -> None:
        """Forget the inputs of runs: they have ended, or the server cannot use them."""
        with self._lock:
            for run in runs:
                self._drop(run)

    def _add(self, run: str, new: _SentInput) -> None:
        kept = [
            # One that goes on takes the place of the one that it goes on with.
            sent
            for sent in self._runs.get(run, ())
            if common_prefix(sent.content, new.content) < len(sent.content) - MIN_SHARED_BYTES
        ]
        self._drop(run)
        self._runs[run] = [new, *kept[: _MAX_INPUTS - 1]]
        self._size += sum(len(sent.content) for sent in self._runs[run])

    def _drop(self, run: str) -> None:
        self._size -= sum(len(sent.content) for sent in self._runs.pop(run, ()))


def _input_of(item: ReportItem) -> bytes | None:
    """Return the input of an item as it is recorded, or None: a text is recorded unescaped."""
    if not isinstance(item, StepBegin | StepReport) or not isinstance(item.input, msgspec.Raw):
        return None
    content = bytes(item.input)
    return None if content.startswith(b'"') else content
