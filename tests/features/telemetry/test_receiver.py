"""The answers to exporters: what is accepted, what is refused, and how much is unpacked."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

from forum.app import Forum
from forum.errors import BacklogFull, ConcurrentUpdate, StoreConnectionLost, StoreFailed
from forum.features.telemetry import decoding
from forum.features.telemetry.decoding import JSON, PROTOBUF, unpack_gzip
from forum.features.telemetry.receiver import ExportAnswer, ExportRequest, Signal, answer_export
from forum.features.telemetry.refusals import RefusedExport
from forum.features.telemetry.routes import make_otlp_routes
from forum.runs.report_kinds import GapReason
from tests.features.telemetry.batches import TRACE, logs, span, traces
from tests.features.telemetry.desks import Desk, gaps, steps
from tests.support import StoreFactory
from tests.surfaces.halls import open_forum

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.prompt": b"\x01\x02"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Return a process that takes reports in."""
    factory = StoreFactory(tmp_path / "ledger.db")
    yield Desk(factory())
    factory.close()


def send(
    desk: Desk,
    body: bytes,
    content_type: str = PROTOBUF,
    encoding: str = "",
    signal: Signal = Signal.TRACES,
) -> ExportAnswer:
    """Send a body as an exporter does."""
    return answer_export(desk.intake, ExportRequest(signal, content_type, encoding, body), "key/x")


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """Return a request in the JSON of OTLP, with ids in hexadecimal."""
    document = MessageToDict(request)
    for group in document["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for one, message in zip(
                scope["spans"], request.resource_spans[0].scope_spans[0].spans, strict=True
            ):
                one["traceId"], one["spanId"] = message.trace_id.hex(), message.span_id.hex()
    return json.dumps(document).encode()


def test_protobuf_and_json_say_the_same(desk: Desk) -> None:
    """The same span in both forms, packed or not, is one span."""
    request = traces(span(1, "chat", CHAT))
    forms = [
        send(desk, request.SerializeToString()),
        send(desk, gzip.compress(request.SerializeToString()), encoding="gzip"),
        send(desk, as_json(request), f"{JSON}; charset=utf-8"),
        send(desk, gzip.compress(as_json(request)), JSON, "gzip"),
    ]

    assert [answer.status for answer in forms] == [200] * 4
    assert [answer.media_type for answer in forms] == [PROTOBUF, PROTOBUF, JSON, JSON]
    assert len(steps(desk.ledger, f"otel-{TRACE}")) == 1
    assert desk.intake.totals.duplicates == 3


def test_what_was_refused_is_told(desk: Desk) -> None:
    """By `partial_success`, in the form of the request; the rest is recorded."""
    broken = span(2)
    broken.span_id = b""
    answer = send(desk, traces(span(1, "chat", CHAT), broken).SerializeToString())
    response = ExportTraceServiceResponse.FromString(answer.body)
    again = send(desk, as_json(traces(span(1, "other", CHAT))), JSON)

    assert answer.status == again.status == 200
    assert response.partial_success.rejected_spans == 1
    assert response.partial_success.error_message
    assert json.loads(again.body)["partialSuccess"]["rejectedSpans"] == "1"


@pytest.mark.parametrize(
    "broken",
    [
        {"traceId": "xyz"},
        {"traceId": TRACE, "spanId": "zz"},
        {"traceId": TRACE, "spanId": f"{9:016x}", "startTimeUnixNano": "soon"},
        {"traceId": TRACE, "spanId": "0" * 16},
        {"traceId": "0" * 32, "spanId": f"{9:016x}"},
        7,
    ],
)
def test_a_broken_span_keeps_out_no_other_one(desk: Desk, broken: object) -> None:
    """It is refused each time; the run of its trace, if it has one, counts it once."""
    document = json.loads(as_json(traces(span(1, "chat", CHAT))))
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].insert(0, broken)
    answers = [send(desk, json.dumps(document).encode(), JSON) for _ in range(2)]

    assert [answer.status for answer in answers] == [200, 200]
    for answer in answers:
        assert json.loads(answer.body)["partialSuccess"]["rejectedSpans"] == "1"
    assert set(steps(desk.ledger, f"otel-{TRACE}")) == {f"{1:016x}"}
    in_trace = isinstance(broken, dict) and broken["traceId"] == TRACE
    assert gaps(desk.ledger, f"otel-{TRACE}") == ({GapReason.REFUSED: 1} if in_trace else {})


def test_a_broken_record_keeps_out_no_other_one(desk: Desk) -> None:
    """Log records are refused like spans."""
    good = MessageToDict(logs({"event.name": "user_prompt", "session.id": "s"}))
    good["resourceLogs"][0]["scopeLogs"][0]["logRecords"].append({"timeUnixNano": "soon"})
    answer = send(desk, json.dumps(good).encode(), JSON, signal=Signal.LOGS)

    assert json.loads(answer.body)["partialSuccess"]["rejectedLogRecords"] == "1"
    assert desk.intake.totals.recorded == 1


def test_logs_are_taken_in(desk: Desk) -> None:
    """Records that are no events are skipped, which is no fault of the exporter."""
    records = logs({"event.name": "user_prompt", "session.id": "s"}, {"text": "a line"})
    answer = send(desk, records.SerializeToString(), signal=Signal.LOGS)

    assert answer.status == 200
    assert ExportLogsServiceResponse.FromString(answer.body) == ExportLogsServiceResponse()
    assert (desk.intake.totals.recorded, desk.intake.totals.filtered) == (1, 1)


@pytest.mark.parametrize(
    ("body", "content_type", "encoding", "status"),
    [
        (b"", "text/plain", "", 415),
        (b"", "", "", 415),
        (b"", PROTOBUF, "zstd", 415),
        (b"\xff\xff", PROTOBUF, "", 400),
        (b"[1]", JSON, "", 400),
        (b'{"resourceSpans":[{"scopeSpans":3}]}', JSON, "", 400),
        (b"[" * 100_000, JSON, "", 400),
        (b"no gzip", PROTOBUF, "gzip", 400),
        (gzip.compress(b"x" * 100)[:-20], PROTOBUF, "gzip", 400),
        (gzip.compress(bytes(decoding.MAX_BODY_BYTES + 1)), PROTOBUF, "gzip", 413),
        (bytes(decoding.MAX_BODY_BYTES + 1), PROTOBUF, "", 413),
        (traces(*(span(n) for n in range(1, 10_002))).SerializeToString(), PROTOBUF, "", 413),
    ],
)
def test_a_bad_request_is_refused(
    desk: Desk, body: bytes, content_type: str, encoding: str, status: int
) -> None:
    """With a status after which an exporter does not repeat it, and the reason."""
    answer = send(desk, body, content_type, encoding)

    assert answer.status == status
    assert not answer.retry_after
    assert answer.body
    assert not desk.intake.totals.recorded


@pytest.mark.parametrize(
    "form",
    [
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[%b]}]}]}',
        b'{"resource_spans":[{"scope_spans":[{"spans":[%b]}]}]}',
        b'{"resourceSpans":[%b]}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"links":[%b]}]}]}]}',
        b'{"unknown":[[%b]]}',
    ],
)
def test_too_many_objects_are_refused_before_they_are_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, form: bytes
) -> None:
    """Each costs microseconds, wherever it is, and a body of JSON has room for millions."""
    monkeypatch.setattr(decoding, "ParseDict", None)
    objects = b",".join([b"{}"] * decoding.MAX_REQUEST_OBJECTS)

    answer = send(desk, form % objects, JSON, "")

    assert answer.status == 413


def test_a_gzip_bomb_is_not_unpacked() -> None:
    """64 MiB in a few hundred bytes: unpacking stops one byte behind the limit."""
    bomb = gzip.compress(gzip.compress(bytes(1 << 26), 1), 1)
    inner = gzip.decompress(bomb)

    with pytest.raises(RefusedExport, match="at most"):
        unpack_gzip(inner, 1 << 20)


@pytest.mark.parametrize(
    "error",
    [
        StoreFailed("appending", "disk full"),
        StoreConnectionLost("appending", "gone"),
        BacklogFull(1, 1),
        ConcurrentUpdate("x"),
    ],
)
def test_what_is_not_durable_is_to_be_sent_again(desk: Desk, error: Exception) -> None:
    """503 with Retry-After; the exporter repeats it, and then it is recorded once."""

    def fail() -> None:
        raise error

    desk.interrupt = fail
    body = traces(span(1, "chat", CHAT)).SerializeToString()
    first = send(desk, body)
    second = send(desk, body)

    assert (first.status, first.headers) == (503, {"Retry-After": "5"})
    assert second.status == 200
    assert len(steps(desk.ledger, f"otel-{TRACE}")) == 1


def test_another_application_can_mount_the_routes(tmp_path: Path) -> None:
    """With an authentication of its own: what it returns is recorded as the reporter."""

    async def authenticate(request: Request) -> str | None:
        return "run/abc" if request.headers.get("authorization") == "Bearer t" else None

    forum: Forum
    with open_forum(tmp_path) as forum, forum.log.open_writer() as ledger:
        app = Starlette(routes=make_otlp_routes(forum, authenticate))
        with TestClient(app) as client:
            body = traces(span(1, "chat", CHAT)).SerializeToString()
            headers = {"Content-Type": PROTOBUF}
            refused = client.post("/v1/traces", content=body, headers=headers)
            headers["Authorization"] = "Bearer t"
            taken = client.post("/v1/traces", content=body, headers=headers)
            large = client.post(
                "/v1/traces", content=bytes(decoding.MAX_BODY_BYTES + 1), headers=headers
            )

        assert (refused.status_code, taken.status_code, large.status_code) == (401, 200, 413)
        assert len(steps(ledger, f"otel-{TRACE}")) == 1
