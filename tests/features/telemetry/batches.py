"""Requests of exporters, built by hand: spans and events as frameworks write them."""

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND_NS = 1_000_000_000
BEGAN_NS = 1_790_000_000 * SECOND_NS


def any_value(value: object) -> AnyValue:
    """Return a value as OTLP has it."""
    message = AnyValue()
    match value:
        case bool():
            message.bool_value = value
        case int():
            message.int_value = value
        case float():
            message.double_value = value
        case bytes():
            message.bytes_value = value
        case list():
            message.array_value.values.extend(any_value(member) for member in value)
        case dict():
            put(message.kvlist_value.values, value)
        case _:
            message.string_value = str(value)
    return message


def put(pairs: Any, attributes: Mapping[str, Any]) -> None:  # noqa: ANN401  a repeated field
    """Add attributes to a repeated field."""
    for name, value in attributes.items():
        pairs.add(key=name, value=any_value(value))


def span(  # noqa: PLR0913  what a span has
    number: int,
    name: str = "step",
    attributes: Mapping[str, Any] | None = None,
    *,
    parent: int = 0,
    trace: str = TRACE,
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    error: str = "",
) -> Span:
    """Return the span with a number, which lasts one second."""
    made = Span(
        trace_id=bytes.fromhex(trace),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big") if parent else b"",
        name=name,
        start_time_unix_nano=BEGAN_NS + number * SECOND_NS,
        end_time_unix_nano=BEGAN_NS + (number + 1) * SECOND_NS,
    )
    put(made.attributes, attributes or {})
    for event, members in events:
        put(made.events.add(name=event).attributes, members)
    if error:
        made.status.code, made.status.message = Status.STATUS_CODE_ERROR, error
    return made


def traces(
    *spans: Span,
    service: str = "shop",
    scope: str = "opentelemetry.instrumentation.example",
    resource: Mapping[str, Any] | None = None,
) -> ExportTraceServiceRequest:
    """Return one request with spans of one program."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    put(group.resource.attributes, {"service.name": service, **(resource or {})})
    scope_spans = group.scope_spans.add()
    scope_spans.scope.name = scope
    scope_spans.spans.extend(spans)
    return request


def logs(
    *records: Mapping[str, Any],
    scope: str = "com.anthropic.claude_code.events",
    trace: str = "",
    parent: int = 0,
) -> ExportLogsServiceRequest:
    """Return one request with log records of these attributes, a second apart."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    put(group.resource.attributes, {"service.name": "claude-code"})
    scope_logs = group.scope_logs.add()
    scope_logs.scope.name = scope
    for number, attributes in enumerate(records, 1):
        record = LogRecord(
            time_unix_nano=BEGAN_NS + number * SECOND_NS,
            trace_id=bytes.fromhex(trace),
            span_id=parent.to_bytes(8, "big") if parent else b"",
        )
        put(record.attributes, attributes)
        scope_logs.log_records.append(record)
    return request
