"""The tool of MCP for reviews."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from forum.app.formatting import format_facts
from forum.features.oversight.schemas import ReviewForm, review_form
from forum.features.oversight.service import OversightOperations
from forum.ledger.kinds import Scope
from forum.surfaces.mcp import results, tool_calls
from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.tools import ToolDeclaration, ToolHints


class ReviewRunAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look at."""

    run: Annotated[str, Meta(max_length=200, description="A run; empty for all.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many items are listed.")] = 100


@tool_calls.threaded_tool
def get_review(caller: McpCaller, ask: ReviewRunAsk) -> results.ToolReply:
    """Tell what is worth a look since the last review, or in one run."""
    forum = caller.forum
    run = forum.reads.find_run(ask.run) if ask.run else ""
    view = OversightOperations(forum).view_review(run, limit=ask.limit)
    lines = [format_facts(item.entry) for item in view.items]
    form = review_form(view, lines)
    return results.ToolReply(form, "\n".join(lines) or "Nothing is worth a look.")


TOOLS: Sequence[ToolDeclaration] = (
    ToolDeclaration(
        "reviews", title="What is worth a look",
        about="Tell what is worth a look since the last review, or in one run: stops, denials, "
            "gaps, "
        "open gates. That somebody has looked is for a person to record.",
        scopes=frozenset({Scope.AUDIT}), takes=ReviewRunAsk, gives=ReviewForm, do=get_review,
        hints=ToolHints(reads_only=True, idempotent=True), after="replay",
    ),
)  # fmt: skip
