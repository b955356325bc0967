"""Answer the requests of OTLP/HTTP exporters, whatever server they come through.

An answer of 200 means that everything in the request is durable or counted.  An exporter repeats a
request after 429 and 503, and drops it after every other error; repeating is harmless, because
known spans are recognised.
"""

from collections.abc import Iterable
from enum import Enum
from itertools import chain
from typing import Final

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
from forum.features.telemetry import decoding
from forum.features.telemetry.intake import MAX_REQUEST_SPANS, IntakeCounts, Report, TelemetryIntake
from forum.features.telemetry.log_events import SkippedRecord, read_log_events
from forum.features.telemetry.refusals import RefusedExport
from forum.features.telemetry.spans import Cost, MalformedSpan, ReportedSpan, TokenUsage, read_spans
from forum.ledger.body import BytesContent
from forum.ledger.strand import Attachment

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


class ExportForm(msgspec.Struct, frozen=True):
    """How the body of an export is to be read."""

    signal: Signal
    media_type: str


class SentSpan(msgspec.Struct, frozen=True, tag=True):
    """A span without its bodies, and these as plain values: they may pass between processes."""

    span: ReportedSpan
    bodies: tuple[tuple[str, bytes, str], ...]


class ReadExport(msgspec.Struct, frozen=True):
    """What a body holds, or why it is refused."""

    reports: tuple[SentSpan | MalformedSpan | SkippedRecord, ...] = ()
    status: int = 0
    why: str = ""


def answer_export(intake: TelemetryIntake, request: ExportRequest, by: str) -> ExportAnswer:
    """Record what an exporter sends on behalf of `by`, and return the answer.  It may block."""
    try:
        form, body = unpack_export(request)
    except ForumError as error:
        return refusal_of(error, request.content_type)
    return record_export(intake, request, read_export(body, form), by)


def unpack_export(request: ExportRequest) -> tuple[ExportForm, bytes]:
    """Return the body of a request without its encoding.  Raises `RefusedExport`."""
    media_type, encoding = decoding.check_headers(request.content_type, request.content_encoding)
    body = request.body
    if encoding is decoding.ContentEncoding.GZIP:
        body = decoding.unpack_gzip(body, decoding.MAX_BODY_BYTES)
    return ExportForm(request.signal, media_type), body


def read_export(body: bytes, form: ExportForm) -> ReadExport:
    """Return what an unpacked body holds.  Pure: a large one is read in another process."""
    try:
        # Of a larger request, only its size is of interest; the server limits what it reads.
        match form.signal:
            case Signal.TRACES:
                traces = ExportTraceServiceRequest()
                malformed = decoding.decode_message(body, form.media_type, traces)
                size = sum(len(s.spans) for r in traces.resource_spans for s in r.scope_spans)
                reports: Iterable[Report] = chain(read_spans(traces, price_call), malformed)
            case Signal.LOGS:
                logs = ExportLogsServiceRequest()
                malformed = decoding.decode_message(body, form.media_type, logs)
                size = sum(len(s.log_records) for r in logs.resource_logs for s in r.scope_logs)
                reports = chain(read_log_events(logs, price_call), malformed)
        size += len(malformed)
        if size > MAX_REQUEST_SPANS:
            why = f"{size} spans or log records in one request; send at most {MAX_REQUEST_SPANS}"
            return ReadExport(status=413, why=why)
        return ReadExport(tuple(map(_to_sent, reports)))
    except RefusedExport as refusal:
        return ReadExport(status=refusal.status, why=str(refusal))


def record_export(
    intake: TelemetryIntake, request: ExportRequest, export: ReadExport, by: str
) -> ExportAnswer:
    """Record what was read on behalf of `by`, and return the answer.  It may block."""
    if export.status:
        return refuse_export(export.status, export.why, request.content_type)
    try:
        counts = intake.record(map(_from_sent, export.reports), by)
    except ForumError as error:
        return refusal_of(error, request.content_type)
    response = _response(request.signal, counts)
    if decoding.check_headers(request.content_type, request.content_encoding)[0] == decoding.JSON:
        return ExportAnswer(200, decoding.JSON, msgspec.json.encode(MessageToDict(response)))
    return ExportAnswer(200, decoding.PROTOBUF, response.SerializeToString())


def _response(
    signal: Signal, counts: IntakeCounts
) -> ExportTraceServiceResponse | ExportLogsServiceResponse:
    traces, logs = ExportTraceServiceResponse(), ExportLogsServiceResponse()
    response = traces if signal is Signal.TRACES else logs
    if counts.refused:
        traces.partial_success.rejected_spans = counts.refused
        logs.partial_success.rejected_log_records = counts.refused
        response.partial_success.error_message = (
            f"{counts.refused} have no valid form or no valid id, or the id of another one with "
            "another content"
        )
    return response


def _to_sent(report: Report) -> SentSpan | MalformedSpan | SkippedRecord:
    if not isinstance(report, ReportedSpan):
        return report
    bodies = tuple(
        (body.name, b"".join(body.content.chunks()), body.type) for body in report.bodies
    )
    return SentSpan(msgspec.structs.replace(report, bodies=()), bodies)


def _from_sent(sent: SentSpan | MalformedSpan | SkippedRecord) -> Report:
    if not isinstance(sent, SentSpan):
        return sent
    bodies = tuple(Attachment(name, BytesContent(data), kind) for name, data, kind in sent.bodies)
    return msgspec.structs.replace(sent.span, bodies=bodies)


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
    if content_type.partition(";")[0].strip().lower() == decoding.JSON:
        body, media_type = msgspec.json.encode({"message": why}), decoding.JSON
    else:
        body, media_type = encode_status(why), decoding.PROTOBUF
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
