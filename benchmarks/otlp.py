"""The CPU time that one reported span costs the server; a part of `benchmarks gateway`.

A request of 500 spans is decoded, mapped and recorded in a SQLite ledger, as `forum serve` does it
after authentication; signing and sequencing go on beside it in a server, and are not part of it.
The time is that of the whole process, user and system.  For comparison: the same request again,
all of whose spans are known, and decoding alone.
"""

import gzip
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from forum.app import KINDS, new_salt, now
from forum.features.telemetry.decoding import MAX_BODY_BYTES, PROTOBUF, unpack_gzip
from forum.features.telemetry.intake import TelemetryIntake
from forum.features.telemetry.receiver import ExportRequest, Signal, answer_export
from forum.ledger.log import Ledger
from forum.stores.sqlite import SqliteStore

SPANS = 500
ROUNDS = 9


def span_figures() -> dict[str, float]:
    """Return `otlp_span_ms` and what it is compared with, each the median of some rounds."""
    with tempfile.TemporaryDirectory() as folder:
        return _measure(Path(folder))


def _measure(folder: Path) -> dict[str, float]:
    store = SqliteStore(folder / "ledger.db", "bench.example/otlp")
    try:
        intake = TelemetryIntake(Ledger(store, KINDS, now, new_salt))
        first, again = [], []
        decoding = []
        for number in range(ROUNDS + 1):
            body = gzip.compress(_request(number, SPANS).SerializeToString())
            request = ExportRequest(Signal.TRACES, PROTOBUF, "gzip", body)
            first.append(_spend(partial(_answer, intake, request)))
            again.append(_spend(partial(_answer, intake, request)))
            decoding.append(_spend(partial(_decode, body)))
    finally:
        store.close()
    # The first round imports the price table and fills caches.
    return {
        name: round(1000 * median(times[1:]) / SPANS, 4)
        for name, times in (
            ("otlp_span_ms", first),
            ("otlp_known_span_ms", again),
            ("otlp_decode_span_ms", decoding),
        )
    }


def _spend(work: Callable[[], None]) -> float:
    start = process_time()
    work()
    return process_time() - start


def _answer(intake: TelemetryIntake, request: ExportRequest) -> None:
    answer = answer_export(intake, request, "key/bench")
    assert answer.status == 200, answer


def _decode(body: bytes) -> None:
    ExportTraceServiceRequest().ParseFromString(unpack_gzip(body, MAX_BODY_BYTES))


def _request(number: int, spans: int) -> ExportTraceServiceRequest:
    """Return one trace: an agent whose calls of models and tools have messages of usual size."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "bench"
    scope = group.scope_spans.add()
    scope.scope.name = "bench.instrumentation"
    trace = (number + 1).to_bytes(16, "big")
    for at in range(spans):
        span = scope.spans.add(
            trace_id=trace,
            span_id=(at + 1).to_bytes(8, "big"),
            parent_span_id=(1).to_bytes(8, "big") if at else b"",
            name="chat gpt-4o" if at % 2 else "execute_tool search",
            start_time_unix_nano=1_790_000_000_000_000_000 + at * 1_000_000,
            end_time_unix_nano=1_790_000_000_500_000_000 + at * 1_000_000,
        )
        _fill(span, is_call=bool(at % 2))
    return request


def _fill(span: Span, *, is_call: bool) -> None:
    texts = {
        "gen_ai.operation.name": "chat" if is_call else "execute_tool",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "clerk",
    }
    if is_call:
        messages = [{"role": "user", "parts": [{"type": "text", "content": "Where is it? " * 20}]}]
        texts |= {
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps(messages),
        }
        for name, tokens in (("input", 412), ("output", 57)):
            span.attributes.add(key=f"gen_ai.usage.{name}_tokens").value.int_value = tokens
    else:
        texts |= {
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": '{"query": "where"}',
            "gen_ai.tool.call.result": "in stock",
        }
    for name, text in texts.items():
        span.attributes.add(key=name).value.string_value = text
