"""Make steps of spans, by the names in `dialects`."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from forum.features.telemetry import dialects
from forum.features.telemetry.attributes import (
    MAX_COUNT,
    MAX_TOKENS,
    AttributeReader,
    Value,
    encode_body,
    read_attributes,
    to_count,
)
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment
from forum.runs import report_kinds
from forum.runs.report_drafts import names_body

_TRACE_BYTES, _SPAN_BYTES = 16, 8
_SAMPLING_THRESHOLD = "th:"
"""In the member `ot` of the trace state; every threshold but 0 means that traces were left out."""


class TokenUsage(NamedTuple):
    """What a program says that a call used."""

    input: int
    output: int
    cache_read: int
    """The part of `input` that came from the provider's cache."""
    cache_write: int
    """The part of `input` that was written to the provider's cache."""


class Cost(NamedTuple):
    """The cost of a call in nano-dollars, and the price table; an empty one if it has no price."""

    usd: int
    prices: str


PriceCall = Callable[[str, str, TokenUsage], Cost]
"""Returns the cost of a call from model, provider and tokens."""


class SpanSource(msgspec.Struct, frozen=True):
    """The program that a span comes from."""

    service: str
    framework: str
    """The instrumentation scope: the library that wrote the span."""


class ReportedSpan(msgspec.Struct, frozen=True):
    """One step that a program reports, ready to be recorded."""

    trace: str
    """What tells runs apart: the trace id, or a digest of the session, in hexadecimal."""
    id: str
    """The id within the trace, in hexadecimal."""
    facts: report_kinds.ReportStepFacts
    bodies: tuple[Attachment, ...]
    source: SpanSource
    is_meaningful: bool
    """Whether it is about the work of an agent."""
    is_root: bool = False
    is_sampled: bool = False
    has_trace: bool = True
    """False if `trace` is not the id of a trace."""


class MalformedSpan(msgspec.Struct, frozen=True, tag=True):
    """A part of a request that cannot be recorded: it has no valid id, or no valid form."""

    trace: str
    """Empty if that of the trace is not valid either."""
    digest: str
    source: SpanSource


def read_spans(
    request: ExportTraceServiceRequest, price: PriceCall
) -> Iterator[ReportedSpan | MalformedSpan]:
    """Yield the steps of a request."""
    for group in request.resource_spans:
        resource = read_attributes(group.resource.attributes)
        service = str(resource.get("service.name") or "unknown")
        sampled = is_sampled_resource(resource)
        for scope_spans in group.scope_spans:
            source = SpanSource(service, scope_spans.scope.name)
            for span in scope_spans.spans:
                if not is_span_id(span.span_id) or not is_trace_id(span.trace_id):
                    yield _malformed(span, source)
                    continue
                yield _read_span(span, source, resource, price, sampled=sampled)


def is_trace_id(raw: bytes) -> bool:
    """Return whether bytes are a valid trace id (W3C Trace Context, section 3.2.2.3)."""
    return len(raw) == _TRACE_BYTES and any(raw)


def is_span_id(raw: bytes) -> bool:
    """Return whether bytes are a valid span id (W3C Trace Context, section 3.2.2.4)."""
    return len(raw) == _SPAN_BYTES and any(raw)


def is_sampled_resource(resource: dict[str, Value]) -> bool:
    """Return whether a program says that it reports a sample of its traces."""
    return any(
        name.startswith(dialects.SAMPLING_PREFIX) and str(value) not in ("1", "1.0", "100", "")
        for name, value in resource.items()
    )


def _malformed(span: Span, source: SpanSource) -> MalformedSpan:
    trace = span.trace_id.hex() if is_trace_id(span.trace_id) else ""
    digest = sha256(span.SerializeToString(deterministic=True)).hexdigest()[:16]
    return MalformedSpan(trace, digest, source)


def _read_span(
    span: Span, source: SpanSource, resource: dict[str, Value], price: PriceCall, *, sampled: bool
) -> ReportedSpan:
    within = span.parent_span_id.hex()
    attributes = AttributeReader(read_attributes(span.attributes))
    events = [(event.name, read_attributes(event.attributes)) for event in span.events]
    meaningful = _is_meaningful(attributes.rest, events, source.framework)
    draft = StepReader(attributes, source.framework)
    draft.read_events(events)
    failed = span.status.code == Status.STATUS_CODE_ERROR
    code = attributes.take_text(dialects.ERROR_TYPE)
    if span.links:
        attributes.rest["otel.links"] = [
            {"trace": link.trace_id.hex(), "span": link.span_id.hex()} for link in span.links
        ]
    if not within:
        # What a program says about itself is kept once for each trace, not with every span.
        attributes.rest["otel.resource"] = resource
    began = span.start_time_unix_nano // 1000
    end = span.end_time_unix_nano // 1000
    facts, bodies = draft.finish(
        op=draft.find_operation(span.name),
        name=span.name,
        outcome=dialects.OUTCOMES.get(code, Outcome.FAILED) if failed else Outcome.OK,
        code=code,
        error=span.status.message if failed else "",
        span=span.span_id.hex(),
        within=within,
        began=min(began, MAX_COUNT),
        micros=min(max(end - began, 0), MAX_COUNT),
        dropped=(
            span.dropped_attributes_count + span.dropped_events_count + span.dropped_links_count
        ),
        price=price,
    )
    return ReportedSpan(
        trace=span.trace_id.hex(),
        id=facts.span,
        facts=facts,
        bodies=bodies,
        source=source,
        is_meaningful=meaningful,
        is_root=not within,
        is_sampled=sampled or _is_sampled_state(span.trace_state),
    )


def _is_meaningful(
    attributes: dict[str, Value], events: Sequence[tuple[str, Value]], scope: str
) -> bool:
    names = (*attributes, *(name for name, _ in events), scope)
    return any(name.startswith(dialects.MEANINGFUL_PREFIXES) for name in names) or any(
        scope.startswith(prefix) for prefix in dialects.SPAN_NAMES
    )


def _is_sampled_state(state: str) -> bool:
    """Return whether the trace state has a sampling threshold that leaves traces out."""
    for member in state.split(","):
        vendor, _, fields = member.strip().partition("=")
        if vendor == "ot":
            for field in fields.split(";"):
                if field.startswith(_SAMPLING_THRESHOLD):
                    return field.removeprefix(_SAMPLING_THRESHOLD).strip("0") != ""
    return False


class StepReader:
    """Collects the facts and bodies of one step from attributes and events."""

    def __init__(self, attributes: AttributeReader, scope: str) -> None:
        self._attributes, self._scope = attributes, scope
        self._is_plain = scope.startswith(dialects.PLAIN_SCOPE)
        """Whether names without a family are understood, too."""
        self._input_events: list[Value] = []
        self._output_events: list[Value] = []
        self._error_event = ""

    def read_events(self, events: Sequence[tuple[str, dict[str, Value]]]) -> None:
        """Take messages and errors from span events; keep the other events as an attribute."""
        others = []
        for name, members in events:
            if name in dialects.INPUT_EVENTS:
                self._input_events.append({"event": name, **members})
            elif name in dialects.OUTPUT_EVENTS:
                self._output_events.append({"event": name, **members})
            elif name == dialects.DETAILS_EVENT:
                # Attributes of the span itself come first.
                self._attributes.rest.update(members | self._attributes.rest)
            elif name == dialects.EXCEPTION_EVENT and not self._error_event:
                self._read_exception(members)
            else:
                others.append({"event": name, **members})
        if others:
            self._attributes.rest["otel.events"] = others

    def _read_exception(self, members: dict[str, Value]) -> None:
        kind = str(members.get("exception.type") or "")
        self._attributes.rest.setdefault("exception.type", kind or None)
        parts = (
            f"{kind}: {members.get('exception.message') or ''}",
            members.get("exception.stacktrace"),
        )
        self._error_event = "\n".join(str(part) for part in parts if part)

    def find_operation(self, span_name: str) -> report_kinds.Operation:
        """Return what the step does, by an attribute or else by the name of its span."""
        for name in dialects.OPERATION_NAMES:
            operation = dialects.OPERATIONS.get(str(self._attributes.rest.get(name, "")).lower())
            if operation is not None:
                # A value that is not in the table stays among the attributes.
                del self._attributes.rest[name]
                return operation
        for prefix, names in dialects.SPAN_NAMES.items():
            if self._scope.startswith(prefix):
                operation = names.get(span_name.partition(" ")[0])
                if operation is not None:
                    return operation
        if any(name in self._attributes.rest for name in dialects.TOOL[:2]):
            return report_kinds.Operation.TOOL
        return report_kinds.Operation.STEP

    def take_plain_end(self) -> tuple[int, str, str]:
        """Return duration in milliseconds, code and error of an event; 0 and "" if it has none."""
        if not self._is_plain:
            return 0, "", ""
        take = self._attributes.take_text
        milliseconds = self._attributes.take_count(dialects.PLAIN_DURATION_MS)
        return milliseconds, take(dialects.PLAIN_CODE), take(dialects.PLAIN_ERROR)

    def finish(  # noqa: PLR0913  each is a fact of the step
        self,
        *,
        op: report_kinds.Operation,
        name: str,
        outcome: Outcome,
        code: str,
        error: str,
        span: str,
        within: str,
        began: int,
        micros: int,
        dropped: int,
        price: PriceCall,
    ) -> tuple[report_kinds.ReportStepFacts, tuple[Attachment, ...]]:
        """Return the facts and the bodies of the step."""
        take = self._attributes.take_text
        entity = take(dialects.ENTITY)
        name = (
            (take(dialects.TOOL) if op is report_kinds.Operation.TOOL else "")
            or entity
            or name
            or op.value
        )
        agent = take(dialects.AGENT) or (entity if op is report_kinds.Operation.AGENT else "")
        model = take(dialects.MODEL, *self._plain(dialects.PLAIN_MODEL))
        provider = take(dialects.PROVIDER) or (dialects.PLAIN_PROVIDER if self._is_plain else "")
        # Agents report the sum of their calls, too: only a call counts, or tokens count twice.
        usage = self._take_usage() if op is report_kinds.Operation.MODEL else TokenUsage(0, 0, 0, 0)
        cost = price(model, provider, usage) if model and any(usage) else Cost(0, "")
        bodies, cut = self._bodies(error)
        names = report_kinds.Names(name, agent, model, provider, code=code)
        facts = report_kinds.ReportStepFacts(
            op=op,
            name=report_kinds.label_name(name, op),
            outcome=outcome,
            span=span,
            within=within,
            began=began,
            micros=micros,
            agent=report_kinds.label_name(agent, report_kinds.AN_AGENT) if agent else "",
            model=report_kinds.derive_name(model, report_kinds.A_MODEL),
            provider=report_kinds.derive_name(provider, report_kinds.A_PROVIDER),
            input_tokens=usage.input,
            output_tokens=usage.output,
            usd=cost.usd,
            prices=cost.prices,
            code=report_kinds.label_name(code, report_kinds.AN_ERROR) if code else "",
            cut=to_count(dropped + cut),
        )
        return facts, (*bodies, *names_body(names))

    def _plain(self, names: Sequence[str]) -> tuple[Sequence[str], ...]:
        return (names,) if self._is_plain else ()

    def _take_usage(self) -> TokenUsage:
        # A number that no call can reach is kept as an attribute, and counts nothing.
        count = partial(self._attributes.take_count, most=MAX_TOKENS)
        read = count(dialects.CACHE_READ_TOKENS, *self._plain(dialects.PLAIN_CACHE_READ))
        write = count(dialects.CACHE_WRITE_TOKENS, *self._plain(dialects.PLAIN_CACHE_WRITE))
        given = count(dialects.INPUT_TOKENS, *self._plain(dialects.PLAIN_INPUT_TOKENS))
        if self._is_plain:
            given += read + write
        output = count(dialects.OUTPUT_TOKENS, *self._plain(dialects.PLAIN_OUTPUT_TOKENS))
        return TokenUsage(min(given, MAX_COUNT), output, read, write)

    def _bodies(self, error: str) -> tuple[list[Attachment], int]:
        attributes = self._attributes
        given = _first(
            attributes.take((*dialects.INPUT, *(dialects.PLAIN_INPUT if self._is_plain else ()))),
            attributes.take_family(dialects.INPUT_FAMILIES),
            self._input_events or None,
        )
        output = _first(
            attributes.take((*dialects.OUTPUT, *(dialects.PLAIN_OUTPUT if self._is_plain else ()))),
            attributes.take_family(dialects.OUTPUT_FAMILIES),
            self._output_events or None,
        )
        rest = {name: value for name, value in attributes.rest.items() if value is not None}
        contents = {
            "input": given,
            "output": output,
            "error": "\n".join(filter(None, (error, self._error_event))) or None,
            "attributes": rest or None,
        }
        bodies, cut = [], 0
        for name, value in contents.items():
            if value is not None:
                body, left_out = encode_body(name, value)
                bodies.append(body)
                cut += left_out
        return bodies, cut


def _first(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)
