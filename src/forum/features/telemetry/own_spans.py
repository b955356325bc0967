"""Send the spans of Forum itself to the endpoint of `[otel]`; off unless `trace_forum` is set."""

import logging
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

import httpx2
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from forum.app import Forum, now
from forum.errors import BadSettings
from forum.features.telemetry import trace_push
from forum.features.telemetry.section import TelemetrySection
from forum.tracing import FinishedSpan, SpanName, receive_spans

LOG = logging.getLogger("forum")
MAX_WAITING_SPANS: Final = 5_000
"""Spans that wait to be sent; the oldest are dropped.  They describe work, and never hold it up."""
SEND_INTERVAL_S: Final = 1.0


@contextmanager
def sending_own_spans(forum: Forum) -> Iterator[None]:
    """Send what this process does, if the settings of a project ask for it.

    Raises `BadSettings` if they name no endpoint for it.
    """
    settings = forum.settings.sections.read("otel", TelemetrySection)
    if not settings.trace_forum:
        yield
        return
    if not settings.endpoint:
        raise BadSettings("forum.toml", "[otel] trace_forum needs an endpoint")
    target = trace_push.make_target(
        settings.endpoint, settings.headers_env, os.environ, content=False
    )
    sender = SpanSender(forum.origin, target)
    with sender.running(), receive_spans(sender.add, now):
        yield


class SpanSender:
    """Sends spans from a thread of its own; if the endpoint is away, spans are lost and no work."""

    def __init__(self, origin: str, target: trace_push.PushTarget) -> None:
        self._origin, self._target = origin, target
        self._waiting: deque[FinishedSpan] = deque(maxlen=MAX_WAITING_SPANS)
        self._stop = Event()
        self._has_failed = False

    def add(self, span: FinishedSpan) -> None:
        """Keep a span until it is sent."""
        self._waiting.append(span)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send until the end of the block, and then what is left."""
        thread = Thread(target=self._run, name="forum-own-spans", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        with trace_push.open_client(self._target) as client:
            while not self._stop.wait(SEND_INTERVAL_S):
                self._send(client)
            self._send(client)

    def _send(self, client: httpx2.Client) -> None:
        spans = [make_span(self._waiting.popleft()) for _ in range(len(self._waiting))]
        if not spans:
            return
        try:
            trace_push.post_spans(client, self._target, self._origin, spans)
            self._has_failed = False
        except trace_push.TracesNotSent as error:
            if not self._has_failed:
                LOG.warning("spans of this process are dropped: %s", error)
            self._has_failed = True


def make_span(span: FinishedSpan) -> Span:
    """Return a span in the form of OTLP."""
    kind = Span.SPAN_KIND_SERVER if span.name is SpanName.REQUEST else Span.SPAN_KIND_INTERNAL
    made = Span(
        name=span.name,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        start_time_unix_nano=span.begun,
        end_time_unix_nano=span.ended,
        kind=kind,
    )
    for name, text in span.attributes.items():
        made.attributes.add(key=name).value.string_value = text
    if span.error:
        made.attributes.add(key="error.type").value.string_value = span.error
        made.status.code = Status.STATUS_CODE_ERROR
    return made
