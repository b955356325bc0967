"""Read what a coding agent's program reports of a call: its reply, its tokens and its cost.

Each program prints another form of JSON.  A report may come from anything that is called like the
program, so nothing in it is taken for granted.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, assert_never

import msgspec

from forum.runs.policy import ReportFormat
from forum.units import to_cost

MAX_REPORT_BYTES: Final = 1 << 26
"""Maximum size of a report that is read."""
_NANO_USD: Final = 1_000_000_000
_MAX_AMOUNT: Final = 1 << 53


class ProgramReport(msgspec.Struct, frozen=True):
    """What a program reports of one call."""

    text: str = ""
    error: str = ""
    """Why the call failed; empty if it did not."""
    model: str = ""
    """The model that answered, if the program names it."""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: int | None = None
    """The cost in nano-dollars; None: not reported."""

    @property
    def tokens(self) -> int:
        """All tokens of the call."""
        return self.input_tokens + self.output_tokens


class _ClaudeModelUsage(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class _ClaudeResult(msgspec.Struct):
    is_error: bool = False
    subtype: str = ""
    result: str = ""
    structured_output: msgspec.Raw = msgspec.Raw(b"null")
    total_cost_usd: Decimal | None = None
    # Not `usage`, which counts the last turn only.
    model_usage: dict[str, _ClaudeModelUsage] = msgspec.field(
        default_factory=dict, name="modelUsage"
    )


class _CodexItem(msgspec.Struct):
    type: str = ""
    text: str = ""


class _CodexUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _CodexFailure(msgspec.Struct):
    message: str = ""


class _CodexEvent(msgspec.Struct):
    type: str = ""
    message: str = ""
    item: _CodexItem | None = None
    usage: _CodexUsage | None = None
    error: _CodexFailure | None = None


class _GeminiTokens(msgspec.Struct):
    prompt: int = 0
    total: int = 0


class _GeminiModel(msgspec.Struct):
    tokens: _GeminiTokens = msgspec.field(default_factory=_GeminiTokens)


class _GeminiStats(msgspec.Struct):
    models: dict[str, _GeminiModel] = {}


class _GeminiError(msgspec.Struct):
    message: str = ""


class _GeminiReport(msgspec.Struct):
    response: str | None = None
    stats: _GeminiStats = msgspec.field(default_factory=_GeminiStats)
    error: _GeminiError | None = None


# Created at import time: two threads that make msgspec
# inspect a type at the same time crash the process.
_claude = msgspec.json.Decoder(_ClaudeResult)
_codex = msgspec.json.Decoder(_CodexEvent)
_gemini = msgspec.json.Decoder(_GeminiReport)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


def read_report(report_format: ReportFormat, output: bytes, errors: bytes) -> ProgramReport | None:
    """Return the report in a program's standard output or error; None if there is none."""
    try:
        match report_format:
            case ReportFormat.CLAUDE_CODE:
                return _read_claude(_claude.decode(output))
            case ReportFormat.CODEX:
                return _read_codex([_codex.decode(line) for line in output.splitlines() if line])
            case ReportFormat.GEMINI:
                # A failed call is reported on standard error, after warnings in plain text.
                start = errors.find(b"\n{") + 1 if not errors.startswith(b"{") else 0
                return _read_gemini(_gemini.decode(output.strip() or errors[start:]))
            case _:
                assert_never(report_format)
    except _UNREADABLE:
        return None


def schema_arguments(report_format: ReportFormat, schema: bytes, file: str) -> tuple[str, ...]:
    """Return the arguments by which a program is told the schema of its reply.

    `file` holds the schema, for programs that read it from a file.
    """
    match report_format:
        case ReportFormat.CLAUDE_CODE:
            return ("--json-schema", schema.decode())
        case ReportFormat.CODEX:
            return ("--output-schema", file)
        case ReportFormat.GEMINI:
            return ()  # it has no such option; the prompt describes the schema
        case _:
            assert_never(report_format)


def _read_claude(result: _ClaudeResult) -> ProgramReport:
    structured = bytes(result.structured_output)
    usages = result.model_usage.values()
    return ProgramReport(
        text=structured.decode() if structured != b"null" else result.result,
        error=(result.result or result.subtype or "error") if result.is_error else "",
        # Beside the model that answers there may be a small one for chores.
        model=max(
            result.model_usage, key=lambda name: result.model_usage[name].output_tokens, default=""
        ),
        input_tokens=_count(
            u.input_tokens + u.cache_read_input_tokens + u.cache_creation_input_tokens
            for u in usages
        ),
        output_tokens=_count(u.output_tokens for u in usages),
        usd=_nano_dollars(result.total_cost_usd),
    )


def _read_codex(events: list[_CodexEvent]) -> ProgramReport | None:
    texts = [e.item.text for e in events if e.item and e.item.type == "agent_message"]
    ends = [e for e in events if e.type in ("turn.completed", "turn.failed")]
    if not ends:
        # Without the end of its turn the program was interrupted; its last message says why.
        messages = [e.message for e in events if e.type == "error"]
        return ProgramReport(error=messages[-1]) if messages else None
    last = ends[-1]
    failure = last.error.message if last.error else ""
    return ProgramReport(
        text=texts[-1] if texts else "",
        error=failure or ("the turn failed" if last.type == "turn.failed" else ""),
        input_tokens=_count(e.usage.input_tokens for e in ends if e.usage),
        output_tokens=_count(e.usage.output_tokens for e in ends if e.usage),
    )


def _read_gemini(report: _GeminiReport) -> ProgramReport:
    models = report.stats.models
    read = _count(m.tokens.prompt for m in models.values())
    # The total includes thoughts and tools, which the candidates do not.
    total = _count(m.tokens.total for m in models.values())
    return ProgramReport(
        text=report.response or "",
        error=(report.error.message or "error") if report.error else "",
        model=max(models, key=lambda name: models[name].tokens.total, default=""),
        input_tokens=read,
        output_tokens=max(0, total - read),
    )


def _count(numbers: Iterable[int]) -> int:
    return min(sum(max(0, number) for number in numbers), _MAX_AMOUNT)


def _nano_dollars(usd: Decimal | None) -> int | None:
    """Return a cost in nano-dollars; None if none is stated, or what is stated is no amount."""
    try:
        return None if usd is None else to_cost(usd)
    except ValueError:
        return None
