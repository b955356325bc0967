"""Common parts of the tools: the call context, submitting a request, waiting for a run."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from time import monotonic
from typing import Any, TypeVar

import anyio
from mcp.server import ServerRequestContext
from msgspec import Struct

from forum.app import Forum, formatting
from forum.engine import IdempotencyKey, RunRequest
from forum.ledger.access import has_scope
from forum.ledger.kinds import Scope
from forum.runs.kinds import TURN_PREFIX
from forum.runs.run_fold import Run, TaskState
from forum.surfaces.cpu_limits import run_cpu_bounded
from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.results import ToolReply
from forum.surfaces.schemas.panels import MAX_SPOKEN_CHARS, spoken_turns
from forum.untrusted_text import escape_line, escape_lines

_POLL_INTERVAL_S = 0.1
_MAX_POLL_INTERVAL_S = 1.0
_MAX_NAMED = 5
_WORDS_STEP = 0.001
_BODY_SCOPES = frozenset({Scope.READ, Scope.AUDIT})

A = TypeVar("A", bound=Struct)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class McpCallContext:
    """A tool call over the protocol."""

    caller: McpCaller
    context: ServerRequestContext[Any, Any]
    limiter: anyio.CapacityLimiter

    async def run_in_thread(self, work: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401
        """Run work in a thread.  It is not interrupted when the client disconnects."""
        return await anyio.to_thread.run_sync(partial(work, *arguments), limiter=self.limiter)

    async def report_progress(self, done: float, total: float | None, words: str) -> None:
        """Send a progress notification, if the client asked for it; `done` must increase."""
        await self.context.session.report_progress(done, total, escape_lines(words))


def threaded_tool(
    work: Callable[[McpCaller, A], ToolReply],
) -> Callable[[McpCallContext, A], Awaitable[ToolReply]]:
    """Make a tool from a blocking function, which runs in a thread."""

    @wraps(work)
    async def do(call: McpCallContext, ask: A) -> ToolReply:
        return await call.run_in_thread(work, call.caller, ask)

    return do


async def run_prepared(call: McpCallContext, work: Callable[[], T]) -> T:
    """Run work whose cost depends on a client, in a thread.  Raises `CheckTooExpensive`."""
    # Not in the CPU-bounded pool: a tool server that hangs must not occupy its few threads.
    await call.run_in_thread(call.caller.registry.refresh_server_tools)
    return await run_cpu_bounded(work)


def submit_request(caller: McpCaller, request: RunRequest, form: Struct, key: str | None) -> str:
    """Submit a request, once per idempotency key, and return its run.

    The digest of the form detects a key that is reused for another request.
    """
    idempotency_key = make_idempotency_key(caller, form, key)
    return caller.forum.runs.submit(request, actor=caller.name, idempotency_key=idempotency_key)


def make_idempotency_key(caller: McpCaller, form: Struct, key: str | None) -> IdempotencyKey | None:
    """Return the idempotency key of a form, if the client has named one."""
    return IdempotencyKey.of_form(caller.name, key, form) if key else None


async def wait_for_run(call: McpCallContext, run: str, seconds: float, begin: float = 0.0) -> float:
    """Wait until a run ends or needs a human, and report its progress.

    The words of a panel's turns are part of it, for a caller that may read runs. Progress starts
    above `begin`; the last reported value is returned, for a call with several runs.
    """
    deadline, reported = monotonic() + seconds, begin - 1.0
    pause = _POLL_INTERVAL_S
    listener = _PanelListener(call.caller, run)
    while True:
        state, over = await call.run_in_thread(_poll_run, call.caller.forum, run)
        done = begin + _count_done(state)
        words = await call.run_in_thread(listener.new_words, state)
        if done > reported or words:
            # A note that ends no turn has no step of its own, but progress must increase.
            reported = max(done, reported + _WORDS_STEP)
            await call.report_progress(
                reported,
                begin + state.planned if state.planned else None,
                "\n".join((_describe_progress(state), *words)),
            )
        left = deadline - monotonic()
        if over or left <= 0 or call.caller.leaving:
            return reported
        await anyio.sleep(min(pause, left))
        pause = min(1.2 * pause, _MAX_POLL_INTERVAL_S)


@dataclass(slots=True)
class _PanelListener:
    """Remembers how much a caller has heard of a panel."""

    caller: McpCaller
    run: str
    heard: int = 0
    lengths: dict[str, int] = field(default_factory=dict)

    def new_words(self, state: Run) -> list[str]:
        """Return what was said since the last call, one line for each turn."""
        # Bodies are for those who may read runs; progress goes to everybody who submits one.
        if not has_scope(self.caller.scopes, _BODY_SCOPES) or not formatting.panel_turns(state):
            return []
        if dict(state.lengths) == self.lengths:
            return []
        self.lengths = dict(state.lengths)
        spoken = spoken_turns(self.caller.forum.reads.view_run(self.run))
        fresh, self.heard = spoken[self.heard :], len(spoken)
        return [
            f"{formatting.first_line(turn.speaker, 40)} says: "
            f'"{escape_line(turn.text[:MAX_SPOKEN_CHARS])}"'
            for turn in fresh
        ]


def _poll_run(forum: Forum, run: str) -> tuple[Run, bool]:
    """Return a run, and whether it has ended or waits for a human."""
    state = forum.reads.read_run(run)
    works = any(state.task(name).state is TaskState.RUNNING for name in state.tasks)
    waits = not works and bool(forum.reads.open_gates(run, state))
    is_run = state.accepted is not None or state.is_reported
    return state, not is_run or state.outcome is not None or waits


def _count_done(state: Run) -> float:
    """Return how many tasks or turns are done; a started one counts half."""
    worked = formatting.work_tasks(state)
    tasks = [state.task(name) for name in worked] + formatting.panel_turns(state)
    ended = sum(task.state.is_end for task in tasks)
    return ended + (len(tasks) - ended) / 2


def _describe_progress(state: Run) -> str:
    if turns := formatting.panel_turns(state):
        running = [turn.id for turn in turns if not turn.state.is_end]
        count = formatting.pluralize(formatting.count_taken_turns(turns), "turn")
        return f"{count} taken{_list_running(running)}"
    if state.is_reported:
        return formatting.pluralize(len(state.report.spans), "step")
    if not state.planned:
        return "no plan yet"
    worked = formatting.work_tasks(state)
    running = [name for name in worked if state.task(name).state is TaskState.RUNNING]
    planned = formatting.pluralize(state.planned, "task")
    return f"{formatting.count_passed_tasks(state)} of {planned}{_list_running(running)}"


def _list_running(running: list[str]) -> str:
    names = ", ".join(name.removeprefix(TURN_PREFIX) for name in running[:_MAX_NAMED])
    return f"; now {names}" if names else ""
