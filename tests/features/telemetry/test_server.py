"""The exporter of the OpenTelemetry SDK, against a real `forum serve` without a worker."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from starlette.testclient import TestClient

from forum.app import Forum
from forum.features.telemetry.decoding import PROTOBUF
from forum.features.telemetry.http import OtlpExtension
from forum.ledger.kinds import Scope
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from forum.verify import State
from tests.e2e.project import eventually
from tests.features.telemetry.batches import TRACE, span, traces
from tests.features.telemetry.desks import gaps, main_kinds, steps
from tests.surfaces.halls import open_forum, showing
from tests.surfaces.serving import Served, served

BODY = traces(span(1, "chat", {"gen_ai.operation.name": "chat"})).SerializeToString()
PATHS = ("/v1/traces", "/v1/logs")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a project by `forum serve`; nobody carries out its runs."""
    settings = "[otel]\nquiet_seconds = 1\n"
    with served(tmp_path_factory.mktemp("otlp"), workers=0, settings=settings) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("compression", [Compression.Gzip, Compression.NoCompression])
def test_the_sdk_of_opentelemetry_reports_a_run(server: Served, compression: Compression) -> None:
    """One address and one key: the program is recorded, and the run is closed by the server."""
    forum = server.project.forum
    key = forum.access.grant("agent", {Scope.REPORT})
    forum.log.publish()
    exporter = OTLPSpanExporter(
        endpoint=f"{server.url}/v1/traces", headers=showing(key), compression=compression
    )
    provider = TracerProvider(resource=Resource.create({"service.name": "Stock Keeper"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("test.agent")
    with tracer.start_as_current_span("keeper") as root:
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "keeper"}
        with tracer.start_as_current_span("invoke_agent", attributes=agent):
            for number in range(600):
                call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
                with tracer.start_as_current_span(f"chat {number}", attributes=call):
                    pass
        with tracer.start_as_current_span("GET"):
            pass
    provider.shutdown()
    run = f"otel-{root.get_span_context().trace_id:032x}"
    eventually(lambda: main_kinds(forum.ledger, run)[-1] == "run.close/1")

    assert len(steps(forum.ledger, run)) == 602
    assert gaps(forum.ledger, run) == {"filtered": 1}


@pytest.mark.slow
def test_the_record_of_reports_verifies(server: Served) -> None:
    """Every strand is closed by its run, and every span has a cause."""
    forum = server.project.forum
    server.client.post("/v1/traces", content=BODY, headers={"Content-Type": PROTOBUF})
    eventually(lambda: main_kinds(forum.ledger, f"otel-{TRACE}")[-1] == "run.close/1")
    forum.log.publish()
    report = forum.log.verify(forum.log.read_trust())

    assert report.intact.state is report.complete.state is State.HOLDS, report.findings


@pytest.mark.slow
def test_a_client_of_grpc_is_told_what_to_set(server: Served) -> None:
    """Its call ends with a status after which it does not try again, and with the text."""
    host, port = server.url.removeprefix("http://").split(":")
    settings, acknowledged = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])
    call = bytes([0, 0, 1, 1, 4, 0, 0, 0, 1, 0x83])
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
        greeting = connection.recv(4096)
        connection.sendall(acknowledged + call[:5])
        connection.sendall(call[5:])
        answer = b""
        while part := connection.recv(4096):
            answer += part

    assert greeting == settings + acknowledged
    assert b"grpc-status\x0212" in answer
    assert b"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in answer


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tuple[Forum, TestClient]]:
    """Serve a ledger in this process, with open loopback and few requests a second."""
    with open_forum(tmp_path) as forum:
        config = ServerConfig([Tenant(forum)], open_loopback=True, rate=2)
        app = make_app(config, [OtlpExtension([forum])])
        with TestClient(app, "http://localhost") as visitor:
            yield forum, visitor


@pytest.mark.parametrize("path", PATHS)
def test_only_the_scope_report_may_report(client: tuple[Forum, TestClient], path: str) -> None:
    """Also on loopback and with --open-loopback; and such a key can read nothing."""
    forum, visitor = client
    typed = {"Content-Type": PROTOBUF}
    by_scope = {}
    for scope in Scope:
        key = forum.access.grant(f"with-{scope.value}", {scope})
        answer = visitor.post(path, content=b"", headers={**typed, **showing(key)})
        by_scope[scope] = answer.status_code
        if scope is Scope.REPORT:
            reading = visitor.get("/api/v1/runs", headers=showing(key))
    anonymous = visitor.post(path, content=b"", headers=typed)

    allowed = {Scope.REPORT, Scope.ADMIN}
    assert by_scope == {scope: 200 if scope in allowed else 403 for scope in Scope}
    assert anonymous.status_code == 403
    assert reading.status_code == 403


def test_a_key_adds_nothing_to_the_trace_of_another(tmp_path: Path) -> None:
    """Its spans are a run of their own, and both views name the key that reports."""
    with open_forum(tmp_path) as forum:
        app = make_app(ServerConfig([Tenant(forum)]), [OtlpExtension([forum])])
        keys = [forum.access.grant(name, {Scope.REPORT}) for name in ("mine", "theirs")]
        admin = showing(forum.access.grant("reader", {Scope.READ}))
        with TestClient(app, "http://localhost") as visitor:
            for key, number in zip(keys, (2, 1), strict=True):
                sent = traces(span(number, "chat", {"gen_ai.operation.name": "chat"}, parent=0))
                headers = {"Content-Type": PROTOBUF, **showing(key)}
                answer = visitor.post(
                    "/v1/traces", content=sent.SerializeToString(), headers=headers
                )
                assert answer.status_code == 200
                assert not answer.content
            names = [f"otel-{TRACE}", f"otel-{TRACE}.2"]
            shown = [visitor.get(f"/api/v1/runs/{run}", headers=admin).json() for run in names]

    assert [[int(span["span"], 16) for span in run["spans"]] for run in shown] == [[2], [1]]
    assert [run["source"]["by"].split("/")[1] for run in shown] == ["mine", "theirs"]


def test_a_key_that_is_too_fast_is_told_when_to_come_back(
    client: tuple[Forum, TestClient],
) -> None:
    """429 with Retry-After, after which an exporter repeats its request."""
    forum, visitor = client
    shown = showing(forum.access.grant("agent", {Scope.REPORT}))
    answers = [
        visitor.post("/v1/traces", content=BODY, headers={"Content-Type": PROTOBUF, **shown})
        for _ in range(8)
    ]
    refused = [answer for answer in answers if answer.status_code == 429]

    assert {answer.status_code for answer in answers} == {200, 429}
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in refused)
    assert len(steps(forum.ledger, f"otel-{TRACE}")) == 1


def test_a_request_that_is_too_large_is_not_read(client: tuple[Forum, TestClient]) -> None:
    """Its length is enough to refuse it."""
    forum, visitor = client
    shown = showing(forum.access.grant("agent", {Scope.REPORT}))
    answer = visitor.post(
        "/v1/traces",
        content=b"",
        headers={"Content-Type": PROTOBUF, "Content-Length": str(1 << 30), **shown},
    )

    assert answer.status_code == 413
