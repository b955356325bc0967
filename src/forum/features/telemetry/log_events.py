"""Make steps of log records that are events: those of Claude Code, and those of the conventions.

A record without the name of an event that is known here is not recorded; the intake counts it.
An event has no id of its own.  A digest of when and where it was takes that place, so that a record
that is sent again is the same step.  What the event says has no part in it: the id stays when the
bodies are erased.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from forum.features.telemetry import dialects
from forum.features.telemetry.attributes import (
    MAX_COUNT,
    AttributeReader,
    Value,
    read_attributes,
    read_value,
)
from forum.features.telemetry.spans import (
    PriceCall,
    ReportedSpan,
    SpanSource,
    StepReader,
    is_sampled_resource,
    is_trace_id,
)
from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import Operation

_ERROR_SEVERITY: Final = 17
"""The lowest severity number of an error."""


class SkippedRecord(msgspec.Struct, frozen=True, tag=True):
    """A log record that is no event of an agent."""

    trace: str
    """Empty if it belongs to no trace."""
    id: str
    source: SpanSource


def read_log_events(
    request: ExportLogsServiceRequest, price: PriceCall
) -> Iterator[ReportedSpan | SkippedRecord]:
    """Yield the steps of a request, and the records that are none."""
    equal = Counter[str]()
    for group in request.resource_logs:
        resource = read_attributes(group.resource.attributes)
        service = str(resource.get("service.name") or "unknown")
        sampled = is_sampled_resource(resource)
        for scope_logs in group.scope_logs:
            source = SpanSource(service, scope_logs.scope.name)
            for record in scope_logs.log_records:
                yield _read_record(record, source, resource, price, equal=equal, sampled=sampled)


def _read_record(
    record: LogRecord,
    source: SpanSource,
    resource: dict[str, Value],
    price: PriceCall,
    equal: Counter[str],
    *,
    sampled: bool,
) -> ReportedSpan | SkippedRecord:
    attributes = AttributeReader(read_attributes(record.attributes))
    trace = record.trace_id.hex() if is_trace_id(record.trace_id) else ""
    event = _full_name(record.event_name or attributes.take_text(("event.name",)), source)
    session = attributes.take_text(dialects.SESSION) or str(resource.get("session.id") or "")
    identity = _identify(
        record,
        (source.service, trace, session, event, str(attributes.rest.get("event.sequence", ""))),
        equal,
    )
    is_known = event in dialects.LOG_EVENTS or (event.startswith("gen_ai.") and bool(trace))
    if not is_known or not (trace or session):
        return SkippedRecord(trace, identity, source)
    if session:
        attributes.rest["session.id"] = session
    facts_of = _read_details if event.startswith("gen_ai.") else _read_plain
    if record.HasField("body"):
        attributes.rest.setdefault("body", read_value(record.body))
    span = facts_of(record, event, identity, attributes, price=price)
    return msgspec.structs.replace(
        span,
        # Where there is no trace, the session is what belongs together.
        trace=trace or sha256(f"{source.service}\n{session}".encode()).hexdigest()[:32],
        has_trace=bool(trace),
        source=source,
        is_sampled=sampled,
    )


def _identify(record: LogRecord, place: tuple[str, ...], equal: Counter[str]) -> str:
    """Return the id of a record; of those that nothing tells apart, a request has an order."""
    times = record.time_unix_nano, record.observed_time_unix_nano
    identity = msgspec.json.encode((place, record.span_id.hex(), times)).decode()
    equal[identity] += 1
    return sha256(f"{identity}{equal[identity]}".encode()).hexdigest()[:16]


def _full_name(event: str, source: SpanSource) -> str:
    """Return the name of an event with its family, which Claude Code may leave out."""
    if event and "." not in event and source.framework.startswith(dialects.PLAIN_SCOPE):
        return f"claude_code.{event}"
    return event


def _read_details(
    record: LogRecord, event: str, identity: str, attributes: AttributeReader, price: PriceCall
) -> ReportedSpan:
    """Return an event of the conventions: a part of the span that it names.

    It repeats the model and the tokens of its span, so it is no call of its own.
    """
    reader = StepReader(attributes, "")
    name = attributes.rest.pop("body", None)
    reader.read_events([(event, name if isinstance(name, dict) else {"body": name})])
    return _finish(
        record, reader, Operation.STEP, event, outcome=Outcome.OK, identity=identity, price=price
    )


def _read_plain(
    record: LogRecord, event: str, identity: str, attributes: AttributeReader, price: PriceCall
) -> ReportedSpan:
    """Return an event of Claude Code."""
    reader = StepReader(attributes, dialects.PLAIN_SCOPE)
    rest = attributes.rest
    refused = str(rest.get("decision", "")).lower() == "reject"
    failed = (
        event.endswith("_error")
        or str(rest.get("success", "true")).lower() == "false"
        or record.severity_number >= _ERROR_SEVERITY
    )
    outcome = Outcome.DENIED if refused else Outcome.FAILED if failed else Outcome.OK
    op = dialects.LOG_EVENTS[event]
    return _finish(record, reader, op, event, outcome=outcome, identity=identity, price=price)


def _finish(  # noqa: PLR0913  each is a part of the event
    record: LogRecord,
    reader: StepReader,
    op: Operation,
    event: str,
    outcome: Outcome,
    *,
    identity: str,
    price: PriceCall,
) -> ReportedSpan:
    milliseconds, code, error = reader.take_plain_end()
    micros = min(1000 * milliseconds, MAX_COUNT)
    ended = (record.time_unix_nano or record.observed_time_unix_nano) // 1000
    facts, bodies = reader.finish(
        op=op,
        name=event,
        outcome=outcome,
        code=code,
        error=error,
        span=identity,
        within=record.span_id.hex(),
        began=min(max(ended - micros, 0), MAX_COUNT),
        micros=micros,
        dropped=record.dropped_attributes_count,
        price=price,
    )
    return ReportedSpan(
        trace="",
        id=identity,
        facts=facts,
        bodies=bodies,
        source=SpanSource("", ""),
        is_meaningful=True,
    )
