"""Forum's runs as traces, sent to a receiver that is strict about what OTLP allows."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from forum.app import Forum
from forum.config import load_settings
from forum.errors import BadSettings
from forum.features.telemetry.intake import IntakeRules, TelemetryIntake
from forum.features.telemetry.spans import read_spans
from forum.features.telemetry.trace_export import encode_messages, export_run, trace_id_of
from forum.features.telemetry.trace_push import (
    PushTarget,
    TracePusher,
    TracesNotSent,
    make_target,
    open_client,
    read_headers,
)
from forum.ledger.entry import leaf_of
from forum.runs.conversation.decoder import decode_body
from forum.runs.conversation.messages import ChatRole
from forum.runs.report_closing import ReportPatience, close_if_quiet
from tests.e2e.project import eventually
from tests.features.telemetry.batches import TRACE, span, traces
from tests.features.telemetry.desks import free_of_charge, main_kinds
from tests.support import free_port
from tests.surfaces.halls import open_forum
from tests.surfaces.terminal import Terminal

SCRIPT = """[models.default]
kind = "scripted"
"""


@dataclass
class Receiver:
    """An endpoint of OTLP over HTTP that checks what it is sent, as a collector does."""

    port: int = field(default_factory=free_port)
    status: int = 200
    headers: list[str] = field(default_factory=list)
    """The Authorization of each request."""
    batches: list[list[Span]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The address before `/v1/traces`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Span]:
        """All spans that were accepted."""
        return [span for batch in self.batches for span in batch]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Check and keep one request; return the status of the answer."""
        if self.status != 200:
            return self.status
        if path != "/v1/traces" or headers.get("Content-Type") != "application/x-protobuf":
            self.problems.append(f"{path} {headers.get('Content-Type')}")
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.headers.append(headers.get("Authorization", ""))
        request = ExportTraceServiceRequest.FromString(body)
        spans = [s for r in request.resource_spans for p in r.scope_spans for s in p.spans]
        for one in spans:
            self._check(one)
        self.batches.append(spans)
        return 200

    def _check(self, span: Span) -> None:
        if len(span.trace_id) != 16 or len(span.span_id) != 8 or not any(span.span_id):
            self.problems.append(f"{span.name}: an id is not valid")
        if len(span.parent_span_id) not in (0, 8) or span.parent_span_id == span.span_id:
            self.problems.append(f"{span.name}: its parent is not valid")
        if not 0 < span.start_time_unix_nano <= span.end_time_unix_nano:
            self.problems.append(f"{span.name}: its times are not valid")
        if not span.name:
            self.problems.append("a span without a name")
        keys = [pair.key for pair in span.attributes]
        if len(set(keys)) != len(keys):
            self.problems.append(f"{span.name}: an attribute is there twice: {keys}")


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver until the end of the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.take(self.path, dict(self.headers), body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object, **__: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver that runs."""
    with receiving() as running:
        yield running
        assert not running.problems


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a project with one run that Forum drove, and one that was reported to it."""
    terminal = Terminal(tmp_path_factory.mktemp("pushed"))
    (terminal.folder / "forum.toml").write_text(SCRIPT)
    ask(terminal, "init")
    ask(terminal, "submit", "Name three rivers.")
    with _forum(terminal) as forum:
        report(forum)
    return terminal


def ask(terminal: Terminal, *words: str) -> None:
    """Type a command that must succeed."""
    result = terminal.call(*words)
    assert result.exit_code == 0, result.output


def _forum(terminal: Terminal) -> Forum:
    return Forum(load_settings(terminal.folder, terminal.environment))


def report(forum: Forum) -> str:
    """Report a trace to a ledger, and close its run."""
    intake = TelemetryIntake(forum.ledger)
    secret = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "the secret plan"}
    request = traces(
        span(3, "chat", secret, parent=2),
        span(2, "tool", {"gen_ai.tool.name": "find"}, parent=1, error="not found"),
        span(1, "root", {"gen_ai.operation.name": "invoke_agent"}),
    )
    intake.record(read_spans(request, free_of_charge), "key/x")
    close_if_quiet(forum.ledger, f"otel-{TRACE}", ReportPatience(), at_once=True)
    forum.log.publish()
    return f"otel-{TRACE}"


def attributes(span: Span) -> dict[str, object]:
    """Return the attributes of a span."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "")
        for pair in span.attributes
    }


@pytest.mark.slow
def test_runs_are_sent_as_traces_and_each_span_names_its_entry(
    terminal: Terminal, receiver: Receiver
) -> None:
    """Driven and reported runs; the index of a span leads to the entry with that id."""
    ask(terminal, "otel", "push", "--endpoint", receiver.url)
    by_name = {span.name: span for span in receiver.spans}
    with _forum(terminal) as forum:
        for one in receiver.spans:
            named = attributes(one)
            data = next(forum.store.entries(int(str(named["forum.index"])), 10**6))
            assert data is not None
            assert leaf_of(data).hex() == named["forum.entry"]
            assert bytes(leaf_of(data))[:16].find(one.span_id) in (0, 8)
        driven = next(run for run in forum.store.runs("", 9) if len(run) == 36)

    reported = by_name["invoke_workflow shop"], by_name["invoke_agent root"]
    assert reported[1].parent_span_id == reported[0].span_id
    assert by_name["execute_tool find"].status.code == Status.STATUS_CODE_ERROR
    assert by_name["chat chat"].parent_span_id == by_name["execute_tool find"].span_id
    assert {one.trace_id.hex() for one in reported} == {TRACE}
    own = [one for one in receiver.spans if one.trace_id == trace_id_of(driven)]
    operations = [attributes(one)["gen_ai.operation.name"] for one in own]
    assert {"invoke_workflow", "invoke_agent", "chat"} <= set(operations)
    assert sum(not one.parent_span_id for one in own) == 1


@pytest.mark.slow
def test_no_content_is_sent_unless_asked_for(terminal: Terminal, receiver: Receiver) -> None:
    """Names, tokens and outcomes leave the machine; what was said does not."""
    run = f"otel-{TRACE}"
    ask(terminal, "otel", "push", run, "--endpoint", receiver.url)
    plain = str(receiver.spans)
    ask(terminal, "otel", "push", run, "--endpoint", receiver.url, "--content")

    assert "secret plan" not in plain
    assert "secret plan" in str(receiver.spans)


@pytest.mark.slow
def test_a_push_is_repeatable(terminal: Terminal, receiver: Receiver) -> None:
    """The same entries give the same bytes, so that a product that knows ids sees one run."""
    for _ in range(2):
        ask(terminal, "otel", "push", f"otel-{TRACE}", "--endpoint", receiver.url)
    first, second = receiver.batches

    assert [s.SerializeToString(deterministic=True) for s in first] == [
        s.SerializeToString(deterministic=True) for s in second
    ]


def test_a_push_continues_where_the_last_one_ended(tmp_path: Path, receiver: Receiver) -> None:
    """A cursor outlives the process; what the endpoint did not accept is sent again."""
    with open_forum(tmp_path) as forum:
        report(forum)
        target = PushTarget(receiver.url)
        with open_client(target) as client:
            receiver.status = 503
            with pytest.raises(TracesNotSent, match="503"):
                TracePusher(forum, target, client).push_new()
            receiver.status = 200
            sent = TracePusher(forum, target, client).push_new()
            again = TracePusher(forum, target, client).push_new()

    assert (sent.spans, again.spans) == (4, 0)
    assert len({one.span_id for one in receiver.spans}) == len(receiver.spans) == 4


def test_credentials_come_from_a_variable_and_leave_only_in_confidence() -> None:
    """A value in a file would be committed, and one over plain HTTP would be read."""
    environ = {"H": "Authorization=Bearer%20abc, x = 1"}
    target = make_target("https://otlp.example.com", "H", environ, content=False)

    assert target.headers == {"Authorization": "Bearer abc", "x": "1"}
    assert make_target("http://collector:4318", "", {}, content=False).headers == {}
    for endpoint, variable in (
        ("http://collector:4318", "H"),
        ("https://otlp.example.com", "OTHER"),
        ("https://user:password@otlp.example.com", ""),
        ("otlp.example.com", ""),
    ):
        with pytest.raises(BadSettings):
            make_target(endpoint, variable, environ, content=False)
    with pytest.raises(BadSettings) as refused:
        read_headers("abc")
    assert "abc" not in str(refused.value)


@pytest.mark.slow
def test_a_worker_closes_reported_runs(tmp_path: Path) -> None:
    """It claims their timers like those of its own runs, and drives nothing."""
    with open_forum(tmp_path, "[otel]\nquiet_seconds = 1\n") as forum:
        troubles: list[Exception] = []
        with forum.runs.run_worker(report=troubles.append):
            intake = TelemetryIntake(forum.ledger, IntakeRules(patience=ReportPatience(1, 1)))
            intake.record(read_spans(traces(span(1, "root")), free_of_charge), "key/x")
            eventually(lambda: main_kinds(forum.ledger, f"otel-{TRACE}")[-1] == "run.close/1")

        assert not troubles


def test_each_message_of_a_conversation_is_sent_once(tmp_path: Path) -> None:
    """The second call repeats the first, and its span says how much and of which entry."""
    messages = [{"role": "user", "content": f"m{n}"} for n in range(3)]
    calls = [
        span(
            n,
            "chat",
            {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages[:n])},
            parent=1,
        )
        for n in (2, 3)
    ]
    with open_forum(tmp_path) as forum:
        root = span(1, "root", {"gen_ai.operation.name": "invoke_agent"})
        request = traces(*calls, root)
        TelemetryIntake(forum.ledger).record(read_spans(request, free_of_charge), "key/x")
        close_if_quiet(forum.ledger, f"otel-{TRACE}", ReportPatience(), at_once=True)
        forum.log.publish()
        record = forum.reads.read_run_record(f"otel-{TRACE}")
        spans = export_run(record.run, record.entries, record)
    chats = [attributes(s.span) for s in spans if s.span.name.startswith("chat")]
    first, second = sorted(chats, key=lambda named: "forum.follows" in named)
    assert "m1" in str(first["gen_ai.input.messages"])
    assert json.loads(str(second["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "m2"}]}
    ]
    assert second["forum.repeated_messages"] == 2
    assert second["forum.follows"] == first["forum.index"]


def test_messages_are_sent_in_the_form_of_the_conventions_and_read_as_the_same() -> None:
    """Whatever API the program used: backends show messages, not requests and events."""
    call = {"id": "c1", "function": {"name": "find", "arguments": "{}"}}
    delta = {"choices": [{"index": 0, "delta": {"content": "Here: ", "tool_calls": [call]}}]}
    stop = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    stream = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in (delta, stop))
    decoded = decode_body(stream, ChatRole.ASSISTANT)
    sent = encode_messages(decoded)

    assert msgspec.json.decode(sent) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "Here: "},
                {"type": "tool_call", "id": "c1", "name": "find", "arguments": "{}"},
            ],
            "finish_reason": "tool_calls",
        }
    ]
    assert decode_body(sent.encode(), ChatRole.ASSISTANT).messages == decoded.messages
