"""The names by which programs describe the work of agents, and what Forum makes of them.

Three families are in use: the conventions of OpenTelemetry (`gen_ai.*`, in several generations,
none of them stable), OpenInference (`llm.*`, `input.value`, `openinference.span.kind`), and
Traceloop (`traceloop.*`, `gen_ai.prompt.N`).  This module is a table and reads no span.  For each
fact, the first name that a span has is used; the others stay among the attributes of the step, so
nothing is lost by what is not understood here.
"""

from typing import Final

from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import Operation

MEANINGFUL_PREFIXES: Final = (
    "gen_ai.",
    "llm.",
    "openinference.",
    "traceloop.",
    "gcp.vertex.agent.",
    "claude_code.",
)
"""A span with an attribute or an event of such a name is about the work of an agent."""

OPERATION_NAMES: Final = (
    "gen_ai.operation.name",
    "openinference.span.kind",
    "traceloop.span.kind",
    "llm.request.type",
)
OPERATIONS: Final = {
    "chat": Operation.MODEL,
    "text_completion": Operation.MODEL,
    "completion": Operation.MODEL,
    "generate_content": Operation.MODEL,
    "embeddings": Operation.MODEL,
    "embedding": Operation.MODEL,
    "llm": Operation.MODEL,
    "execute_tool": Operation.TOOL,
    "tool": Operation.TOOL,
    "invoke_agent": Operation.AGENT,
    "create_agent": Operation.AGENT,
    "agent": Operation.AGENT,
    "invoke_workflow": Operation.AGENT,
    "workflow": Operation.AGENT,
    "plan": Operation.AGENT,
    "retrieval": Operation.RETRIEVAL,
    "retriever": Operation.RETRIEVAL,
    "rerank": Operation.RETRIEVAL,
    "reranker": Operation.RETRIEVAL,
    "guardrail": Operation.GUARDRAIL,
    "handoff": Operation.HANDOFF,
    "chain": Operation.STEP,
    "task": Operation.STEP,
    "prompt": Operation.STEP,
    "evaluator": Operation.STEP,
}
"""By the value of the first of `OPERATION_NAMES`, in lower case."""

SPAN_NAMES: Final = {
    "gcp.vertex.agent": {
        "invocation": Operation.AGENT,
        "agent_run": Operation.AGENT,
        "invoke_agent": Operation.AGENT,
        "call_llm": Operation.MODEL,
        "execute_tool": Operation.TOOL,
    },
    "com.anthropic.claude_code": {
        "claude_code.interaction": Operation.AGENT,
        "claude_code.llm_request": Operation.MODEL,
        "claude_code.tool": Operation.TOOL,
    },
}
"""By the beginning of the scope's name and the first word of the span's.

Google's kit and Claude Code name some operations by the name of the span only.
"""

PROVIDER: Final = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
MODEL: Final = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.response.model",
    "llm.model_name",
    "embedding.model_name",
    "reranker.model_name",
)
INPUT_TOKENS: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.usage.prompt_tokens",
    "llm.token_count.prompt",
)
OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
    "llm.token_count.completion",
)
CACHE_READ_TOKENS: Final = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
CACHE_WRITE_TOKENS: Final = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
AGENT: Final = ("gen_ai.agent.name", "agent.name", "agent_name")
TOOL: Final = ("gen_ai.tool.name", "tool.name", "tool_name")
ENTITY: Final = ("traceloop.entity.name",)
"""The name of an agent, a tool or a step, as the operation says."""
ERROR_TYPE: Final = ("error.type", "exception.type")

INPUT: Final = (
    "gen_ai.input.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.prompt",
    "tool_arguments",
    "input.value",
    "traceloop.entity.input",
    "gcp.vertex.agent.tool_call_args",
    "gcp.vertex.agent.llm_request",
)
OUTPUT: Final = (
    "gen_ai.output.messages",
    "gen_ai.tool.call.result",
    "gen_ai.completion",
    "tool_response",
    "final_result",
    "output.value",
    "traceloop.entity.output",
    "gcp.vertex.agent.tool_response",
    "gcp.vertex.agent.llm_response",
)
INPUT_FAMILIES: Final = ("llm.input_messages.", "gen_ai.prompt.")
OUTPUT_FAMILIES: Final = ("llm.output_messages.", "gen_ai.completion.")
"""Beginnings of names that hold one message in many attributes, such as `gen_ai.prompt.0.role`."""

INPUT_EVENTS: Final = frozenset(
    {
        "gen_ai.content.prompt",
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
    }
)
OUTPUT_EVENTS: Final = frozenset({"gen_ai.choice", "gen_ai.content.completion"})
DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
"""The event that has the messages of a call under the names of attributes."""
EXCEPTION_EVENT: Final = "exception"

OUTCOMES: Final = {
    "timeout": Outcome.TIMEOUT,
    "TimeoutError": Outcome.TIMEOUT,
    "cancelled": Outcome.CANCELLED,
    "CancelledError": Outcome.CANCELLED,
    "asyncio.CancelledError": Outcome.CANCELLED,
}
"""By the type of an error; every other error is a failure."""

LOG_EVENTS: Final = {
    "claude_code.user_prompt": Operation.STEP,
    "claude_code.api_request": Operation.MODEL,
    "claude_code.api_error": Operation.MODEL,
    "claude_code.tool_result": Operation.TOOL,
    "claude_code.tool_decision": Operation.GUARDRAIL,
}
"""By the name of the event.  Events whose name begins with `gen_ai.` belong to a span."""

SESSION: Final = ("session.id", "gen_ai.conversation.id")
"""What tells runs apart where events have no trace."""

PLAIN_SCOPE: Final = "com.anthropic.claude_code"
"""The scope whose attributes have short names without a family, as below."""
PLAIN_MODEL: Final = ("model",)
PLAIN_INPUT_TOKENS: Final = ("input_tokens",)
PLAIN_OUTPUT_TOKENS: Final = ("output_tokens",)
PLAIN_CACHE_READ: Final = ("cache_read_tokens",)
PLAIN_CACHE_WRITE: Final = ("cache_creation_tokens",)
PLAIN_INPUT: Final = ("prompt", "tool_parameters", "tool_input")
PLAIN_OUTPUT: Final = ("tool_output", "response")
PLAIN_ERROR: Final = ("error",)
PLAIN_CODE: Final = ("status_code", "error_type")
PLAIN_DURATION_MS: Final = ("duration_ms",)
PLAIN_PROVIDER: Final = "anthropic"
"""Its input tokens do not count those of the cache, unlike those of the conventions."""

SAMPLING_PREFIX: Final = "sampling"
"""A resource with an attribute of such a name reports a sample of its traces."""
