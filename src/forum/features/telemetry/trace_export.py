"""Make OpenTelemetry spans of the entries of a run.

A pure function of the entries: the same entries give the same spans with the same ids, so a run can
be sent any number of times.  The id of a span is the first 8 bytes of the id of its first entry,
which `forum.entry` names in full; a task shares its first entry with its first call, and has the
next 8 bytes.  The id of the trace is the UUID of the run, or the trace that a program reported.
Names are those of the `gen_ai` conventions with `gen_ai.provider.name` and `gen_ai.input.messages`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from forum import __version__
from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome, RunCloseFacts, RunOpenFacts
from forum.ledger.log import LocatedEntry
from forum.runs import kinds, report_kinds
from forum.runs.conversation.decoder import decode_body, describe_attachment
from forum.runs.conversation.messages import ChatRole, DecodedBody, ModelExchange
from forum.runs.conversation.run_exchanges import read_exchanges
from forum.runs.conversation.run_steps import find_steps
from forum.runs.run_record import RunRecord
from forum.runs.spending import CallCost, fold_cost
from forum.units import NANO_USD

_NANOSECONDS: Final = 1000
"""Nanoseconds in a microsecond."""
_ROOT: Final = ""
"""The key of the span of the whole run."""

_OPERATIONS: Final = {
    report_kinds.Operation.MODEL: ("chat", "LLM"),
    report_kinds.Operation.TOOL: ("execute_tool", "TOOL"),
    report_kinds.Operation.AGENT: ("invoke_agent", "AGENT"),
    report_kinds.Operation.RETRIEVAL: ("retrieval", "RETRIEVER"),
    report_kinds.Operation.GUARDRAIL: ("guardrail", "GUARDRAIL"),
    report_kinds.Operation.HANDOFF: ("handoff", "CHAIN"),
    report_kinds.Operation.STEP: ("step", "CHAIN"),
}
"""The operation in the conventions of OpenTelemetry, and the kind in those of OpenInference."""

_EVENTS: Final = (
    kinds.GateOpenFacts,
    kinds.GateEditFacts,
    kinds.GateDecisionFacts,
    kinds.GateDecisionByFacts,
    kinds.StopFacts,
    kinds.SkipFacts,
    kinds.VerdictFacts,
    kinds.CheckFacts,
    kinds.CancelFacts,
    kinds.InterruptionFacts,
    kinds.ResumptionFacts,
)
"""Facts that become events of the span that they belong to."""


class ExportedSpan(msgspec.Struct):
    """A span, and the index of the entry that completes it."""

    span: Span
    index: int


def trace_id_of(run: str) -> bytes:
    """Return the id of the trace of a run."""
    if run.startswith(report_kinds.TRACE_RUN_PREFIX):
        trace = run.removeprefix(report_kinds.TRACE_RUN_PREFIX).partition(".")[0]
        if len(trace) == 32:
            return bytes.fromhex(trace)
    try:
        return UUID(run).bytes
    except ValueError:
        return sha256(run.encode()).digest()[:16]  # the run has a name that a program chose


def export_run(
    run: str, entries: Sequence[LocatedEntry], content: RunRecord | None = None
) -> list[ExportedSpan]:
    """Return the completed spans of a run, from all of its entries that have an index.

    Spans that have not ended are returned once the run is closed.  `content` adds content.
    """
    exporter = _RunExporter(run, content)
    for located in sorted(entries, key=lambda e: e.index or 0):
        exporter.add(located)
    return exporter.finish()


def build_request(origin: str, spans: Iterable[Span]) -> ExportTraceServiceRequest:
    """Return the request that sends spans of a log."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    _put(group.resource, {"service.name": "forum", "forum.log": origin})
    scope_spans = group.scope_spans.add()
    scope_spans.scope.name, scope_spans.scope.version = "forum", __version__
    scope_spans.spans.extend(spans)
    return request


class _RunExporter:
    """Builds the spans of one run, entry by entry in the order of the log."""

    def __init__(self, run: str, content: RunRecord | None) -> None:
        self._run, self._trace = run, trace_id_of(run)
        self._content = content
        self._open: dict[str, Span] = {}
        """Spans that have not ended: the root, tasks by strand, and calls by strand with a mark."""
        self._calls: dict[str, CallCost] = {}
        """The calls without a reply, by strand."""
        self._done: list[ExportedSpan] = []
        self._reported: list[tuple[LocatedEntry, LocatedEntry]] = []
        """First and last entry of each reported span."""
        self._begun: dict[str, LocatedEntry] = {}
        self._closed_at: int | None = None
        self._is_counted_elsewhere = False
        self._root_id = b""
        self._handlers: dict[type, Callable[[LocatedEntry], None]] = {
            RunOpenFacts: self._open_root,
            kinds.AcceptedFacts: self._describe_request,
            report_kinds.ReportSourceFacts: self._describe_source,
            kinds.CallFacts: self._open_call,
            kinds.IntentFacts: self._open_call,
            kinds.ReplyFacts: self._close_call,
            kinds.OutcomeFacts: self._close_call,
            report_kinds.ReportBeginFacts: self._begin_step,
            report_kinds.ReportStepFacts: self._end_step,
            RunCloseFacts: self._close_run,
            **dict.fromkeys(_EVENTS, self._add_event),
        }

    def add(self, located: LocatedEntry) -> None:
        """Add the next entry."""
        handle = self._handlers.get(type(located.entry.facts))
        # Nothing follows the close of a run; an entry that does is not for others to see.
        if handle is not None and self._closed_at is None:
            handle(located)

    def _begin_step(self, located: LocatedEntry) -> None:
        self._begun[located.entry.strand] = located

    def _end_step(self, located: LocatedEntry) -> None:
        first = self._begun.pop(located.entry.strand, located)
        self._reported.append((first, located))

    def finish(self) -> list[ExportedSpan]:
        """Return the spans; those of programs and those without an end once the run is closed."""
        if self._closed_at is not None:
            # The parent of a reported span often comes after it, so all are made at the end.
            self._add_reported(self._closed_at)
            for span in self._open.values():
                self._done.append(ExportedSpan(span, self._closed_at))
        return self._done

    def _open_root(self, located: LocatedEntry) -> None:
        root = self._start(located, f"invoke_workflow {located.entry.actor}", located.leaf[:8])
        _put(
            root,
            {
                "gen_ai.operation.name": "invoke_workflow",
                "openinference.span.kind": "CHAIN",
                "forum.run": self._run,
            },
        )
        self._open[_ROOT] = root

    def _describe_request(self, located: LocatedEntry) -> None:
        facts: kinds.AcceptedFacts = located.entry.facts
        attributes = {
            "forum.provenance": report_kinds.Provenance.DRIVEN.value,
            "forum.parent_run": facts.parent_run,
            "forum.parent_task": facts.parent_task,
            "forum.fork_run": facts.fork_run,
        }
        _put(self._open[_ROOT], attributes)

    def _describe_source(self, located: LocatedEntry) -> None:
        facts: report_kinds.ReportSourceFacts = located.entry.facts
        self._is_counted_elsewhere = facts.is_counted_elsewhere
        # The actor of the opening is who records the run; that of the source is the program.
        self._open[_ROOT].name = f"invoke_workflow {located.entry.actor}"
        attributes = {
            "forum.provenance": facts.told.value,
            "forum.reported_by": facts.by,
            "forum.framework": facts.framework,
            "forum.continues": facts.continues,
        }
        _put(self._open[_ROOT], attributes)

    def _start(self, located: LocatedEntry, name: str, span_id: bytes, parent: bytes = b"") -> Span:
        at = located.entry.ts * _NANOSECONDS
        span = Span(
            trace_id=self._trace,
            span_id=span_id,
            parent_span_id=parent,
            name=name,
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=at,
            end_time_unix_nano=at,
        )
        _put(span, {"forum.entry": located.leaf.hex(), "forum.index": located.index})
        return span

    def _task_of(self, located: LocatedEntry) -> Span:
        """Return the span of the task of a strand, made with its first entry; else the root."""
        strand = located.entry.strand
        task = kinds.task_of_strand(strand)
        if task is None:
            return self._open[_ROOT]
        if strand not in self._open:
            name, root = strand.partition("/")[2], self._open[_ROOT]
            span = self._start(located, f"invoke_agent {name}", located.leaf[8:16], root.span_id)
            _put(
                span,
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "openinference.span.kind": "AGENT",
                    "gen_ai.agent.name": name,
                },
            )
            self._open[strand] = span
        return self._open[strand]

    def _open_call(self, located: LocatedEntry) -> None:
        entry: Entry[Any] = located.entry
        facts, parent = entry.facts, self._task_of(located)
        if isinstance(facts, kinds.CallFacts):
            fold_cost(self._calls, entry.strand, entry.ts, facts)
            name, attributes = (
                f"chat {facts.model or facts.agent}",
                {
                    "gen_ai.operation.name": "chat",
                    "openinference.span.kind": "LLM",
                    "gen_ai.request.model": facts.model,
                    "gen_ai.agent.name": facts.agent,
                    "forum.role": facts.role,
                    "forum.attempt": facts.attempt,
                    **self._request(report_kinds.Operation.MODEL, located, "prompt"),
                },
            )
        else:
            name, attributes = (
                f"execute_tool {facts.tool}",
                {
                    "gen_ai.operation.name": "execute_tool",
                    "openinference.span.kind": "TOOL",
                    "gen_ai.tool.name": facts.tool,
                    **self._text("gen_ai.tool.call.arguments", located, "arguments"),
                },
            )
        span = self._start(located, name, located.leaf[:8], parent.span_id)
        span.kind = Span.SPAN_KIND_CLIENT
        _put(span, attributes)
        self._open[_call_key(entry)] = span

    def _close_call(self, located: LocatedEntry) -> None:
        entry: Entry[Any] = located.entry
        span, facts = self._open.pop(_call_key(entry), None), entry.facts
        if span is None:
            return
        if isinstance(facts, kinds.ReplyFacts):
            call = fold_cost(self._calls, entry.strand, entry.ts, facts)
            # The trace of a run within has its cost: whoever adds up traces must not get it twice.
            is_counted = call is not None and not call.is_inner_run
            output = max(0, facts.tokens - facts.input_tokens)
            _put(
                span,
                {
                    "gen_ai.response.model": facts.model,
                    "gen_ai.usage.input_tokens": facts.input_tokens if is_counted else None,
                    "gen_ai.usage.output_tokens": output if is_counted else None,
                    "forum.cost_usd": facts.usd / NANO_USD if is_counted else None,
                    "forum.prices": facts.prices,
                    **self._message("gen_ai.output.messages", "assistant", located, "output"),
                },
            )
        else:
            _put(span, self._text("gen_ai.tool.call.result", located, "result"))
        self._end(span, located, facts.outcome, facts.code or facts.why.value)

    def _end(self, span: Span, located: LocatedEntry, outcome: Outcome, code: str = "") -> None:
        span.end_time_unix_nano = located.entry.ts * _NANOSECONDS
        _set_status(span, outcome, code)
        _put(span, {"forum.last_entry": located.leaf.hex()})
        self._done.append(ExportedSpan(span, located.index or 0))

    def _add_event(self, located: LocatedEntry) -> None:
        entry: Entry[Any] = located.entry
        span = self._task_of(located)
        event = span.events.add(name=f"forum.{entry.kind}", time_unix_nano=entry.ts * _NANOSECONDS)
        facts = {f"forum.{name}": value for name, value in msgspec.to_builtins(entry.facts).items()}
        place = {"forum.entry": located.leaf.hex(), "forum.index": located.index}
        _put(event, {"forum.strand": entry.strand, "forum.actor": entry.actor, **place, **facts})
        span.end_time_unix_nano = max(span.end_time_unix_nano, entry.ts * _NANOSECONDS)
        outcome = _task_outcome(entry.facts)
        if outcome is not None and entry.strand in self._open:
            self._end(self._open.pop(entry.strand), located, outcome)

    def _close_run(self, located: LocatedEntry) -> None:
        self._closed_at = located.index or 0
        root = self._open.pop(_ROOT, None)
        if root is None:
            return
        # Kept for the spans that are made last; it is done, and is not returned twice.
        self._root_id = root.span_id
        self._end(root, located, located.entry.facts.outcome)

    def _add_reported(self, index: int) -> None:
        ids = {first.entry.facts.span: first.leaf[:8] for first, _ in self._reported}
        for first, last in self._reported:
            facts: report_kinds.ReportStepFacts = last.entry.facts
            parent = ids.get(facts.within, self._root_id)
            self._done.append(ExportedSpan(self._reported_span(first, last, parent), index))

    def _reported_span(self, first: LocatedEntry, last: LocatedEntry, parent: bytes) -> Span:
        facts: report_kinds.ReportStepFacts = last.entry.facts
        operation, kind = _OPERATIONS[facts.op]
        own = {
            report_kinds.Operation.MODEL: facts.model,
            report_kinds.Operation.AGENT: facts.agent,
        }.get(facts.op, "")
        subject = own or facts.name
        span = self._start(first, f"{operation} {subject}", first.leaf[:8], parent)
        if facts.began:
            # The clock of the program; `forum.entry` leads to the time of the record.
            span.start_time_unix_nano = facts.began * _NANOSECONDS
        span.end_time_unix_nano = span.start_time_unix_nano + facts.micros * _NANOSECONDS
        is_tool = facts.op is report_kinds.Operation.TOOL
        # Whoever adds up traces has the tokens and the cost in the trace of the gateway's run.
        counts = not self._is_counted_elsewhere
        _put(
            span,
            {
                "gen_ai.operation.name": operation,
                "openinference.span.kind": kind,
                "gen_ai.request.model": facts.model,
                "gen_ai.provider.name": facts.provider,
                "gen_ai.agent.name": facts.agent,
                "gen_ai.tool.name": facts.name if is_tool else "",
                "gen_ai.usage.input_tokens": (facts.input_tokens or None) if counts else None,
                "gen_ai.usage.output_tokens": (facts.output_tokens or None) if counts else None,
                "forum.cost_usd": facts.usd / NANO_USD if facts.prices and counts else None,
                "forum.prices": facts.prices,
                "forum.span": facts.span,
                **self._request(facts.op, first, "input"),
                **self._reply(facts.op, last),
            },
        )
        _set_status(span, facts.outcome, facts.code)
        return span

    @cached_property
    def _requests(self) -> dict[bytes, ModelExchange]:
        """The calls of models, by their first entries, each message once."""
        if self._content is None:
            return {}
        steps = find_steps(self._content.entries)
        calls = [step for step in steps if step.op is report_kinds.Operation.MODEL]
        return {step.first.leaf: read for step, read in read_exchanges(self._content, calls)}

    def _read_body(self, located: LocatedEntry, body: str) -> bytes | None:
        """Return a body, if content is sent and the body is there."""
        if self._content is None or body not in located.entry.bodies:
            return None
        return self._content.read(located, body)

    def _text(self, name: str, located: LocatedEntry, body: str) -> dict[str, str]:
        """Return a body as an attribute, if content is sent and the body is there."""
        content = self._read_body(located, body)
        return {} if content is None else {name: content.decode(errors="replace")}

    def _request(
        self, operation: report_kinds.Operation, first: LocatedEntry, body: str
    ) -> dict[str, str | int | None]:
        """Return what a step was asked; of a call of a model, what no earlier call has."""
        if operation is report_kinds.Operation.TOOL:
            return dict(self._text("gen_ai.tool.call.arguments", first, body))
        name = "gen_ai.input.messages"
        call = self._requests.get(first.leaf)
        if call is None:
            content = self._read_body(first, body)
            return (
                {}
                if content is None
                else {name: encode_messages(decode_body(content, ChatRole.USER))}
            )
        if not call.request and not call.repeated and not call.repeated_later:
            return {}
        return {
            name: encode_messages(DecodedBody(call.request)),
            "forum.repeated_messages": call.repeated + call.repeated_later or None,
            "forum.dropped_messages": call.dropped or None,
            "forum.follows": call.follows,
        }

    def _reply(self, operation: report_kinds.Operation, last: LocatedEntry) -> dict[str, str]:
        """Return what came back of a step: the result of a tool as it is, else messages.

        The format of the body is whatever the program has recorded.
        """
        if operation is report_kinds.Operation.TOOL:
            return self._text("gen_ai.tool.call.result", last, "output")
        content = self._read_body(last, "output")
        if content is None:
            return {}
        decoded = decode_body(content, ChatRole.ASSISTANT)
        return {"gen_ai.output.messages": encode_messages(decoded)}

    def _message(self, name: str, role: str, located: LocatedEntry, body: str) -> dict[str, str]:
        """Return a body as a list with one message."""
        text = self._text(name, located, body)
        if not text:
            return {}
        part = {"type": "text", "content": text[name]}
        return {name: msgspec.json.encode([{"role": role, "parts": [part]}]).decode()}


def encode_messages(decoded: DecodedBody) -> str:
    """Return messages in the form of the conventions."""
    messages: list[dict[str, Any]] = []
    for message in decoded.messages:
        parts: list[dict[str, Any]] = [
            {"type": "reasoning", "content": message.reasoning},
            {"type": "text", "content": message.text or message.note},
        ]
        parts = [part for part in parts if part["content"]]
        parts += [
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.calls
        ]
        parts += [
            {"type": "tool_call_response", "id": result.id, "response": result.text}
            for result in message.results
        ]
        parts += [
            {"type": "text", "content": f"({describe_attachment(attachment)})"}
            for attachment in message.attachments
        ]
        messages.append({"role": message.role, "parts": parts})
    if messages and decoded.stop_reason:
        messages[-1]["finish_reason"] = decoded.stop_reason
    return msgspec.json.encode(messages).decode()


def _call_key(entry: Entry[Any]) -> str:
    """Return the key of an open call or use: a strand has at most one of each at a time."""
    is_call = isinstance(entry.facts, kinds.CallFacts | kinds.ReplyFacts)
    return f"{'call' if is_call else 'use'} {entry.strand}"


def _task_outcome(facts: object) -> Outcome | None:
    """Return the outcome of a task if this entry ends it."""
    match facts:
        case kinds.VerdictFacts(next=kinds.Next.ACCEPT | kinds.Next.GIVE_UP):
            return facts.outcome
        case kinds.SkipFacts():
            return Outcome.CANCELLED
        case kinds.StopFacts():
            return Outcome.FAILED
        case _:
            return None


def _set_status(span: Span, outcome: Outcome, code: str) -> None:
    _put(span, {"forum.outcome": outcome.value})
    if outcome is Outcome.OK:
        span.status.code = Status.STATUS_CODE_OK
        return
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = code or outcome.value
    _put(span, {"error.type": code or outcome.value})


def _put(target: Any, attributes: Mapping[str, object]) -> None:  # noqa: ANN401  any message with attributes
    """Add attributes to a span, an event or a resource; empty ones are left out."""
    for name, value in attributes.items():
        match value:
            case None | "":
                continue
            case bool():
                target.attributes.add(key=name).value.bool_value = value
            case int():
                target.attributes.add(key=name).value.int_value = value
            case float():
                target.attributes.add(key=name).value.double_value = value
            case _:
                target.attributes.add(key=name).value.string_value = str(value)
