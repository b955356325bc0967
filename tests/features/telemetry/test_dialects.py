"""What Forum reads from the batches of several frameworks; the batches are written here."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from forum.features.telemetry.log_events import SkippedRecord, read_log_events
from forum.features.telemetry.receiver import price_call
from forum.features.telemetry.spans import MalformedSpan, ReportedSpan, read_spans
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment
from forum.runs.report_kinds import Operation
from tests.features.telemetry.batches import TRACE, logs, span, traces

QUESTION = [{"role": "user", "parts": [{"type": "text", "content": "Where?"}]}]


def read_one(request: ExportTraceServiceRequest) -> ReportedSpan:
    """Return the only step of a request."""
    (report,) = read_spans(request, price_call)
    assert isinstance(report, ReportedSpan)
    return report


def bodies(report: ReportedSpan) -> dict[str, str]:
    """Return the bodies of a step as texts."""
    return {body.name: _text(body) for body in report.bodies}


def _text(body: Attachment) -> str:
    return b"".join(body.content.chunks()).decode()


CURRENT = traces(
    span(
        2,
        "chat gpt-4o",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 100,
            "gen_ai.usage.cache_read.input_tokens": 400,
            "gen_ai.input.messages": json.dumps(QUESTION),
            "gen_ai.output.messages": '[{"role": "assistant"}]',
            "gen_ai.response.finish_reasons": ["stop"],
        },
        parent=1,
    )
)
OLDER_EVENTS = traces(
    span(
        2,
        "chat gpt-4o",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.prompt_tokens": 1000,
            "gen_ai.usage.completion_tokens": 100,
        },
        parent=1,
        events=(
            ("gen_ai.user.message", {"content": "Where?"}),
            ("gen_ai.choice", {"index": 0, "message": {"content": "There."}}),
        ),
    )
)
OPENINFERENCE = traces(
    span(
        2,
        "ChatCompletion",
        {
            "openinference.span.kind": "LLM",
            "llm.provider": "openai",
            "llm.model_name": "gpt-4o",
            "llm.token_count.prompt": 1000,
            "llm.token_count.completion": 100,
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Where?",
            "llm.output_messages.0.message.content": "There.",
        },
        parent=1,
    ),
    scope="openinference.instrumentation.openai",
)
TRACELOOP = traces(
    span(
        2,
        "openai.chat",
        {
            "llm.request.type": "chat",
            "gen_ai.system": "OpenAI",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.prompt_tokens": 1000,
            "gen_ai.usage.completion_tokens": 100,
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "Where?",
            "gen_ai.completion.0.content": "There.",
        },
        parent=1,
    ),
    scope="opentelemetry.instrumentation.openai.v1",
)
GOOGLE_ADK = traces(
    span(
        2,
        "call_llm",
        {
            "gen_ai.system": "gcp.vertex.agent",
            "gen_ai.request.model": "gemini-2.5-flash",
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 100,
            "gcp.vertex.agent.llm_request": '{"contents": "Where?"}',
            "gcp.vertex.agent.llm_response": '{"content": "There."}',
            "gcp.vertex.agent.session_id": "s1",
        },
        parent=1,
    ),
    scope="gcp.vertex.agent",
)


@pytest.mark.parametrize(
    ("request_", "model", "kept"),
    [
        (CURRENT, "gpt-4o-2024-08-06", "gen_ai.response.finish_reasons"),
        (OLDER_EVENTS, "gpt-4o", None),
        (OPENINFERENCE, "gpt-4o", None),
        (TRACELOOP, "gpt-4o", None),
        (GOOGLE_ADK, "gemini-2.5-flash", "gcp.vertex.agent.session_id"),
    ],
    ids=["current", "older-events", "openinference", "traceloop", "google-adk"],
)
def test_a_call_of_a_model_is_understood(
    request_: ExportTraceServiceRequest, model: str, kept: str | None
) -> None:
    """Whatever the generation: operation, model, tokens, messages and our price."""
    report = read_one(request_)
    facts, contents = report.facts, bodies(report)

    assert facts.op is Operation.MODEL
    assert (facts.model, facts.input_tokens, facts.output_tokens) == (model, 1000, 100)
    assert facts.usd > 0
    assert facts.prices.startswith("genai-prices/")
    assert "Where?" in contents["input"]
    assert ("There." in contents["output"]) is (request_ is not CURRENT)
    assert report.is_meaningful
    assert kept is None or kept in contents["attributes"]


def test_a_cached_token_is_cheaper() -> None:
    """The parts of the input that came from the cache are counted in the cost."""
    cached, plain = read_one(CURRENT).facts, read_one(OLDER_EVENTS).facts

    assert cached.usd < plain.usd == 3_500_000


@pytest.mark.parametrize(
    ("attributes", "scope", "op", "name"),
    [
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}, "", "tool", "find"),
        ({"gen_ai.tool.name": "find"}, "", "tool", "find"),
        ({"openinference.span.kind": "TOOL", "tool.name": "find"}, "", "tool", "find"),
        ({"traceloop.span.kind": "tool", "traceloop.entity.name": "find"}, "", "tool", "find"),
        ({"traceloop.span.kind": "agent", "traceloop.entity.name": "Ann"}, "", "agent", "Ann"),
        ({"gen_ai.operation.name": "invoke_agent"}, "", "agent", "work"),
        ({"openinference.span.kind": "RETRIEVER"}, "", "retrieval", "work"),
        ({"openinference.span.kind": "GUARDRAIL"}, "", "guardrail", "work"),
        ({"openinference.span.kind": "CHAIN"}, "", "step", "work"),
        ({"gen_ai.operation.name": "a new one"}, "", "step", "work"),
    ],
)
def test_an_operation_is_found(attributes: dict[str, str], scope: str, op: str, name: str) -> None:
    """By any of the names; an unknown value is a step, and stays among the attributes."""
    report = read_one(traces(span(1, "work", attributes), scope=scope))

    assert (report.facts.op, report.facts.name) == (op, name)
    assert ("a new one" in bodies(report)["attributes"]) is ("a new one" in attributes.values())


def test_an_agent_does_not_count_the_tokens_of_its_calls() -> None:
    """Frameworks repeat the sum at the agent; counted twice, a budget would be wrong."""
    report = read_one(
        traces(
            span(1, "a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 9})
        )
    )

    assert report.facts.input_tokens == report.facts.usd == 0
    assert "gen_ai.usage.input_tokens" in bodies(report)["attributes"]


def test_errors_losses_and_samples_are_told() -> None:
    """A status, an exception, what the exporter dropped, and a sampling threshold."""
    raised = {"exception.type": "ValueError", "exception.message": "no such part"}
    failed = span(1, "chat", {}, events=(("exception", raised),), error="failed")
    failed.dropped_attributes_count = 3
    failed.trace_state = "vendor=1,ot=th:c;rv:1"
    report = read_one(traces(failed))

    assert (report.facts.outcome, report.facts.code) == (Outcome.FAILED, "ValueError")
    assert "no such part" in bodies(report)["error"]
    assert report.facts.cut == 3
    assert report.is_sampled
    assert read_one(traces(span(1), resource={"sampling.rate": 0.1})).is_sampled
    assert not read_one(traces(span(1))).is_sampled


def test_free_text_stands_in_a_body_and_long_content_is_cut() -> None:
    """Names may be personal, and facts cannot be erased."""
    report = read_one(
        traces(
            span(
                1, "Größe prüfen", {"gen_ai.agent.name": "Ann Lee", "input.value": "x" * (2 << 20)}
            )
        )
    )

    assert (report.facts.name, report.facts.agent) == ("step", "agent")
    assert json.loads(bodies(report)["names"]) == {"name": "Größe prüfen", "agent": "Ann Lee"}
    assert report.facts.cut == len(bodies(report)["input"]) == 1 << 20


def test_tokens_beyond_belief_are_no_cost() -> None:
    """They stay among the attributes, as the program told them."""
    document = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 2**62,
        "gen_ai.usage.output_tokens": 7,
    }
    (report,) = read_spans(traces(span(1, "chat", document)), price_call)

    assert isinstance(report, ReportedSpan)
    assert (report.facts.input_tokens, report.facts.output_tokens) == (0, 7)
    assert str(2**62) in bodies(report)["attributes"]


@pytest.mark.parametrize("raw", [b"123", bytes(8)])
def test_a_span_without_an_id_is_malformed(raw: bytes) -> None:
    """It is counted in the run of its trace, if it has one."""
    broken = span(1)
    broken.span_id = raw
    (report,) = read_spans(traces(broken), price_call)

    assert isinstance(report, MalformedSpan)
    assert report.trace == TRACE


CLAUDE_CODE = logs(
    {"event.name": "user_prompt", "session.id": "s1", "prompt": "Fix the test."},
    {
        "event.name": "claude_code.api_request",
        "session.id": "s1",
        "model": "claude-sonnet-4-5",
        "input_tokens": "200",
        "output_tokens": 50,
        "cache_read_tokens": 800,
        "cost_usd": 0.004,
        "duration_ms": 1500,
    },
    {
        "event.name": "claude_code.tool_result",
        "session.id": "s1",
        "tool_name": "Bash",
        "success": "false",
        "duration_ms": 20,
        "error": "exit 1",
    },
    {
        "event.name": "claude_code.tool_decision",
        "session.id": "s1",
        "tool_name": "Bash",
        "decision": "reject",
    },
    {"message": "a line of a log", "session.id": "s1"},
)


def test_events_of_claude_code_are_steps_of_their_session() -> None:
    """They have no trace: the session is the run.  Other records are counted and skipped."""
    *steps, skipped = read_log_events(CLAUDE_CODE, price_call)
    assert isinstance(skipped, SkippedRecord)
    reports = [step for step in steps if isinstance(step, ReportedSpan)]
    prompt, call, tool, decision = (report.facts for report in reports)

    assert len({report.trace for report in reports}) == 1
    assert not any(report.has_trace for report in reports)
    assert (prompt.op, bodies(reports[0])["input"]) == (Operation.STEP, "Fix the test.")
    assert (call.op, call.model, call.micros) == (Operation.MODEL, "claude-sonnet-4-5", 1_500_000)
    assert (call.input_tokens, call.output_tokens) == (1000, 50)
    assert call.usd > 0
    assert '"cost_usd":0.004' in bodies(reports[1])["attributes"]
    assert (tool.op, tool.name, tool.outcome) == (Operation.TOOL, "Bash", Outcome.FAILED)
    assert (decision.op, decision.outcome) == (Operation.GUARDRAIL, Outcome.DENIED)


def test_an_event_of_a_span_is_a_part_of_it_and_counts_no_tokens() -> None:
    """The details of a call come as an event, too; its span has the tokens."""
    details = {
        "event.name": "gen_ai.client.inference.operation.details",
        "gen_ai.input.messages": "[]",
        "gen_ai.usage.input_tokens": 7,
    }
    (report,) = read_log_events(logs(details, scope="x", trace=TRACE, parent=2), price_call)
    assert isinstance(report, ReportedSpan)

    assert (report.trace, report.facts.within) == (TRACE, f"{2:016x}")
    assert (report.facts.op, report.facts.input_tokens) == (Operation.STEP, 0)
    assert bodies(report)["input"] == "[]"
