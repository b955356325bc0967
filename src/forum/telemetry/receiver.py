"""Answer the requests of OTLP/HTTP exporters, whatever server they come through.

An answer of 200 means that everything in the request is durable or counted.  An exporter repeats a
request after 429 and 503, and drops it after every other error; repeating is harmless, because
known spans are recognised.
"""

from collections.abc import Iterable
from enum import Enum
from itertools import chain
from typing import Any, Final

import msgspec
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from forum.app.reported_costs import price_reported_call
from forum.errors import ConcurrentUpdate, ForumError, Unavailable
from forum.telemetry.decoding import JSON, PROTOBUF, check_headers, decode_message
from forum.telemetry.intake import MAX_REQUEST_SPANS, IntakeCounts, Report, TelemetryIntake
from forum.telemetry.log_events import read_log_events
from forum.telemetry.refusals import RefusedExport
from forum.telemetry.spans import Cost, TokenUsage, read_spans

RETRY_AFTER_S: Final = 5


class Signal(Enum):
    """What an exporter sends; the value is the path of its endpoint."""

    TRACES = "/v1/traces"
    LOGS = "/v1/logs"


class ExportRequest(msgspec.Struct, frozen=True):
    """A request of an exporter, with its body read."""

    signal: Signal
    content_type: str
    content_encoding: str
    body: bytes


class ExportAnswer(msgspec.Struct, frozen=True):
    """The answer to an exporter."""

    status: int
    media_type: str
    body: bytes
    retry_after: int = 0
    """Seconds until the exporter may repeat its request; 0 if it should not."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers beside that of the media type."""
        return {"Retry-After": str(self.retry_after)} if self.retry_after else {}


def answer_export(intake: TelemetryIntake, request: ExportRequest, by: str) -> ExportAnswer:
    """Record what an exporter sends on behalf of `by`, and return the answer.  It may block."""
    try:
        media_type, encoding = check_headers(request.content_type, request.content_encoding)
        # Of a larger request, only its size is of interest; the server limits what it reads.
        match request.signal:
            case Signal.TRACES:
                traces = ExportTraceServiceRequest()
                malformed = decode_message(request.body, media_type, encoding, traces)
                spans = sum(len(s.spans) for r in traces.resource_spans for s in r.scope_spans)
                size = spans + len(malformed)
                reports = chain(read_spans(traces, price_call), malformed)
                counts = _record(intake, size, reports, by)
                response: Any = ExportTraceServiceResponse()
                if counts.refused:
                    response.partial_success.rejected_spans = counts.refused
            case Signal.LOGS:
                logs = ExportLogsServiceRequest()
                malformed = decode_message(request.body, media_type, encoding, logs)
                records = sum(len(s.log_records) for r in logs.resource_logs for s in r.scope_logs)
                size = records + len(malformed)
                events = chain(read_log_events(logs, price_call), malformed)
                counts = _record(intake, size, events, by)
                response = ExportLogsServiceResponse()
                if counts.refused:
                    response.partial_success.rejected_log_records = counts.refused
    except ForumError as error:
        return refusal_of(error, request.content_type)
    if counts.refused:
        response.partial_success.error_message = (
            f"{counts.refused} have no valid form or no valid id, or the id of another one with "
            "another content"
        )
    if media_type == JSON:
        return ExportAnswer(200, JSON, msgspec.json.encode(MessageToDict(response)))
    return ExportAnswer(200, PROTOBUF, response.SerializeToString())


def refusal_of(error: ForumError, content_type: str) -> ExportAnswer:
    """Return the answer to a request that failed; the text of faults of this server is not told."""
    match error:
        case RefusedExport():
            return refuse_export(error.status, str(error), content_type)
        case Unavailable() | ConcurrentUpdate():
            why = "the ledger cannot record this now; try again"
            return refuse_export(503, why, content_type, RETRY_AFTER_S)
        case _:
            return refuse_export(500, "the server failed", content_type)


def refuse_export(status: int, why: str, content_type: str, retry_after: int = 0) -> ExportAnswer:
    """Return an answer with a `google.rpc.Status`, in the form of the request (OTLP, failures)."""
    if content_type.partition(";")[0].strip().lower() == JSON:
        body, media_type = msgspec.json.encode({"message": why}), JSON
    else:
        body, media_type = encode_status(why), PROTOBUF
    return ExportAnswer(status, media_type, body, retry_after)


def encode_status(message: str) -> bytes:
    """Return a `google.rpc.Status` with a message; its field 2, as protobuf encodes it."""
    text = message.encode()
    length, size = bytearray(), len(text)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"\x12" + bytes(length) + text


def price_call(model: str, provider: str, usage: TokenUsage) -> Cost:
    """Return the cost of a call by Forum's price table."""
    return Cost(*price_reported_call(model, provider, usage))


def _record(intake: TelemetryIntake, size: int, reports: Iterable[Report], by: str) -> IntakeCounts:
    if size > MAX_REQUEST_SPANS:
        why = f"{size} in one request; set a batch size of at most {MAX_REQUEST_SPANS}"
        raise RefusedExport(413, why)
    return intake.record(reports, by)
