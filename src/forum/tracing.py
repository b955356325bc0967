"""Spans of Forum itself: requests, runs and tasks that are driven, and uses of the database.

Nothing is measured until `receive_spans` names a receiver.  A span has a name and attributes of
closed lists, whose values are identifiers and numbers: no content and no secret gets into one.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import NamedTuple, Self

from msgspec import Struct

_is_identifier = re.compile(r"[A-Za-z0-9 ()_.:/-]{1,100}").fullmatch


class SpanName(StrEnum):
    """What a span is about."""

    REQUEST = "forum.request"
    RUN = "forum.run"
    TASK = "forum.task"
    STORE = "forum.store"


class SpanAttribute(StrEnum):
    """What may be said of a span."""

    OPERATION = "forum.operation"
    """The name of an operation of the API, or what is done with the database: words of the code."""
    RUN = "forum.run"
    STATUS = "http.response.status_code"


class FinishedSpan(Struct, frozen=True):
    """A span that has ended; times are in nanoseconds since 1970."""

    name: SpanName
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """Empty for the first span of a trace."""
    begun: int
    ended: int
    attributes: Mapping[str, str]
    error: str
    """The class of the error that ended it; its text could hold content."""


SpanReceiver = Callable[[FinishedSpan], None]


class _Receiver(NamedTuple):
    receive: SpanReceiver
    clock: Callable[[], int]


_receiver: _Receiver | None = None
_parent: ContextVar[tuple[bytes, bytes] | None] = ContextVar("forum_span", default=None)


@contextmanager
def receive_spans(receive: SpanReceiver, clock: Callable[[], int]) -> Iterator[None]:
    """Have the spans of this process given to a receiver, in whichever thread they end.

    `clock` returns microseconds since 1970.
    """
    global _receiver  # noqa: PLW0603  spans end wherever something is done
    before, _receiver = _receiver, _Receiver(receive, clock)
    try:
        yield
    finally:
        _receiver = before


class Span:
    """A span that nobody receives."""

    __slots__ = ()

    def set(self, attribute: SpanAttribute, value: object) -> None:
        """Say something that is known only now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        pass


_NOT_RECEIVED = Span()


class _ReceivedSpan(Span):
    """A span that ends with its block, and is then given to the receiver."""

    __slots__ = (
        *("_attributes", "_begun", "_ids", "_name", "_parent", "_receiver", "_ticks", "_token"),
    )

    def __init__(
        self, name: SpanName, attributes: dict[SpanAttribute, object], receiver: _Receiver
    ) -> None:
        self._name, self._attributes = name, attributes
        self._receiver = receiver

    def set(self, attribute: SpanAttribute, value: object) -> None:
        """Say something that is known only now."""
        self._attributes[attribute] = value

    def __enter__(self) -> Self:
        self._parent = _parent.get()
        trace = self._parent[0] if self._parent else os.urandom(16)
        self._ids = (trace, os.urandom(8))
        self._token = _parent.set(self._ids)
        self._begun, self._ticks = 1000 * self._receiver.clock(), time.monotonic_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _parent.reset(self._token)
        texts = {name: str(value) for name, value in self._attributes.items()}
        self._receiver.receive(
            FinishedSpan(
                name=self._name,
                trace_id=self._ids[0],
                span_id=self._ids[1],
                parent_id=self._parent[1] if self._parent else b"",
                begun=self._begun,
                ended=self._begun + time.monotonic_ns() - self._ticks,
                attributes={n: text if _is_identifier(text) else "-" for n, text in texts.items()},
                error=kind.__name__ if kind else "",
            )
        )


def begin_span(name: SpanName, operation: str = "", run: str = "") -> Span:
    """Return a span for a `with` statement; it costs next to nothing while nobody receives any."""
    if _receiver is None:
        return _NOT_RECEIVED
    attributes: dict[SpanAttribute, object] = {}
    if operation:
        attributes[SpanAttribute.OPERATION] = operation
    if run:
        attributes[SpanAttribute.RUN] = run
    return _ReceivedSpan(name, attributes, _receiver)
