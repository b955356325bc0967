"""Start a run for a chat client, and stream its answer.

The text that a client assembles is exactly the recorded answer.  Text is streamed while the model
still generates it only where it will be the answer: one task, no roles, no tools and no verifiers.
Streamed deltas may have gaps, or be superseded by a retry; the record decides.  When a gap is
detected, streaming stops and the rest is sent from the record.  When only the end shows that other
text was streamed, the stream ends with an error that names the run: the client cannot unread the
text, and must not keep text that is not recorded.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from forum.app import Forum, RunView, formatting, now
from forum.engine import MAX_STREAMED_BYTES_PER_S, RunRequest
from forum.errors import BodyGone, ReplayMiss, StoreFailed
from forum.features.chat_api.conversation import Terms
from forum.features.chat_api.errors import NoReply, ParameterError
from forum.features.chat_api.models import PANEL, ModelChoice
from forum.ledger.access import has_scope
from forum.ledger.entry import MAIN_STRAND, peek_kind
from forum.ledger.kinds import Outcome
from forum.runs.kinds import StopReason, gate_strand, task_strand
from forum.runs.run_fold import Run, RunState, stop_reason
from forum.surfaces import requests
from forum.surfaces.http.delta_queue import DeltaQueue
from forum.surfaces.http.endpoints import READERS, RequestContext
from forum.surfaces.http.events import RUN_CLOSE_KIND
from forum.surfaces.http.log_follower import wait_for_news
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.schemas.panels import DeliberationForm, deliberation_form

ANSWER_TIMEOUT_S = 570.0
"""How long to wait for a whole answer: clients give up after 600 s and retry."""
ENDPOINT_TIMEOUT_S = ANSWER_TIMEOUT_S + 25

_ERROR_BY_STOP_REASON = {
    StopReason.BUDGET: (429, "budget_exceeded"),
    StopReason.DEADLINE: (429, "deadline_exceeded"),
    StopReason.CANCELLED: (422, "run_cancelled"),
    StopReason.REJECTED: (422, "run_rejected"),
}
_FAILED = (422, "run_failed")
_REPLAY_SLOTS = asyncio.Semaphore(1)
"""Replays per process at a time, because each keeps a core busy."""


@dataclass(frozen=True, slots=True)
class CompletionUsage:
    """Tokens, as reported by the models."""

    read: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that a client waits for."""

    tenant: Tenant
    run: str
    model: str
    created: int
    """In seconds since 1970."""
    speaker: str = ""
    """The task whose text is the answer; empty if text cannot be streamed live."""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class AnsweredRun:
    """A run that has ended with an answer."""

    answer: str
    usage: CompletionUsage
    deliberation: DeliberationForm | None = None
    """How a panel arrived at the answer."""


async def start_run(
    context: RequestContext, choice: ModelChoice, request: Callable[[], str], terms: Terms
) -> StartedRun:
    """Submit a run, or verify the replay of a recorded one.  Raises `NoReply`."""
    tenant, created = context.tenant, now() // 1_000_000
    if choice.replay is not None:
        await _check_replay(context, choice.replay)
        return StartedRun(tenant, choice.replay, choice.model, created, replayed=True)
    requests.check_gate_authority(terms.gates, context.principal.scopes)
    panel = _panel(choice, terms)

    def build() -> RunRequest:
        form = requests.AskForm(
            request(),
            lane=choice.lane,
            team=choice.team,
            budget=terms.budget,
            gates=terms.gates,
            panel=panel,
        )
        return requests.run_request_from_form(form, tenant.registry, context.principal.authority)

    run_request = await tenant.build_run_request(build)
    run = await tenant.submit(run_request, context.principal.name, lambda: context.idempotency_key)
    return StartedRun(
        tenant=tenant,
        run=run,
        model=choice.model,
        created=created,
        speaker=_find_answering_task(run_request) if terms.live else "",
    )


def _panel(choice: ModelChoice, terms: Terms) -> requests.PanelAsk | None:
    if terms.panel is not None and not choice.panel:
        why = f"forum.panel is only for the model {PANEL!r}, not for {choice.model[:64]!r}"
        raise ParameterError(ProblemType.BAD_REQUEST, why, param="forum.panel")
    return terms.panel or requests.PanelAsk() if choice.panel else None


def _find_answering_task(request: RunRequest) -> str:
    """Return the task whose text is the answer, or "" if it must be checked or combined first."""
    plan, policy = request.plan, request.policy
    if plan is None or len(plan.tasks) > 1 or policy.roles or policy.tools or policy.verifiers:
        return ""
    return plan.tasks[0].id


async def _check_replay(context: RequestContext, run: str) -> None:
    """Replay a run, and raise `NoReply` unless the replay agrees with the record."""
    # A client with only the submit scope must not read the requests of others.
    if not has_scope(context.principal.scopes, READERS):
        raise ProblemError(ProblemType.FORBIDDEN, "replaying a run requires scope read or audit")
    forum = context.tenant.forum
    if (await run_in_threadpool(forum.reads.read_run, run)).outcome is None:
        raise NoReply(run, 409, "run_not_ended", "only a run that has ended can be replayed")
    try:
        async with _REPLAY_SLOTS:
            divergences = await run_in_threadpool(forum.runs.replay, run)
    except (ReplayMiss, BodyGone) as error:
        raise NoReply(run, 409, "replay_diverged", f"it cannot be replayed: {error}") from None
    if divergences:
        where = f"{divergences[0].strand} {divergences[0].step}: {divergences[0].parting}"
        raise NoReply(run, 409, "replay_diverged", f"the replay differs from the record: {where}")


async def wait_for_answer(context: RequestContext, started: StartedRun) -> AnsweredRun:
    """Return the answer once the run has ended.  Raises `NoReply`."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            # Without live text: a response in one piece needs only the recorded answer.
            async with aclosing(stream_answer(replace(started, speaker=""))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, AnsweredRun):
                        return piece
                    if not piece and await context.request.is_disconnected():
                        raise ClientDisconnect  # the run continues
    except TimeoutError:
        pass
    raise still_running_error(started.run, f"not ended after {ANSWER_TIMEOUT_S:.0f} s")


def still_running_error(run: str, why: str) -> NoReply:
    """Return the error for a run that continues without the client."""
    where = f"it continues, and its answer will be at /api/v1/runs/{run}"
    return NoReply(run, 503, "still_running", f"{why}; {where}")


async def stream_answer(started: StartedRun) -> AsyncGenerator[str | AnsweredRun, None]:
    """Yield the answer in pieces, then its end; an empty piece means that a keep-alive is due.

    Raises `NoReply`.
    """
    tenant, ended = started.tenant, None
    with (
        tenant.log_follower.subscribe(started.run) as news,
        tenant.deltas.subscribe(started.run, news) as deltas,
    ):
        # After the subscription, so that every delta of a call that has not begun yet is received.
        words = await asyncio.to_thread(_open_live_text, started)
        while ended is None:
            news.clear()
            for text in words.read_new(deltas):
                yield text
            ended = await _poll_run(started)
            if ended is None and not await wait_for_news(news):
                yield ""
    if isinstance(ended, NoReply):
        raise ended
    if rest := _remaining_text(started.run, ended.answer, words.text):
        yield rest
    yield ended


def _open_live_text(started: StartedRun) -> "LiveText":
    """Return a live text that starts at the beginning of the call, or an inactive one.

    Must be called after the subscription to the deltas.
    """
    # A call is recorded before it is made.  If the task has no strand yet, no delta was missed.
    try:
        has_started = task_strand(started.speaker) in started.tenant.forum.store.strands(
            started.run
        )
    except StoreFailed:
        has_started = True
    return LiveText("" if has_started else started.speaker)


def _remaining_text(run: str, answer: str, streamed: str) -> str:
    """Return the part of the answer that was not streamed.  Raises `NoReply` on a mismatch."""
    if not answer.startswith(streamed):
        why = "the text that was streamed differs from the recorded answer"
        where = f"read it at /api/v1/runs/{run}"
        raise NoReply(run, 409, "answer_changed", f"{why}; {where}")
    return answer[len(streamed) :]


class LiveText:
    """The text streamed in the first call of a task, as far as it has no gap."""

    def __init__(self, task: str) -> None:
        self._task, self._step = task, ""
        self._held = not task
        self._room = MAX_STREAMED_BYTES_PER_S
        self.text = ""

    def read_new(self, deltas: DeltaQueue) -> Iterator[str]:
        """Yield the text that can be passed on."""
        for piece in deltas.drain():
            self._step = self._step or (piece.step if piece.task == self._task else "")
            # Up to this size the engine never truncates
            # the text of a call, however fast it arrives.
            self._room -= len(piece.text.encode()) if piece.step == self._step else 0
            self._held = self._held or deltas.has_gap or self._room < 0
            if not self._held and (piece.task, piece.step) == (self._task, self._step):
                self.text += piece.text
                yield piece.text


async def _poll_run(started: StartedRun) -> AnsweredRun | NoReply | None:
    try:
        ended = await asyncio.to_thread(_read_run_end, started.tenant.forum, started.run)
    except StoreFailed:  # the database restarts; the next poll reads it
        ended = None
    if ended is None and started.tenant.log_follower.closed:
        return still_running_error(started.run, "this server is shutting down")
    if started.replayed and isinstance(ended, AnsweredRun):
        return replace(ended, usage=CompletionUsage())  # a replay uses no tokens
    return ended


def _read_run_end(forum: Forum, run: str) -> AnsweredRun | NoReply | None:
    """Return the end of a run, or None while it continues without needing a human."""
    last = forum.store.last_entry(run, MAIN_STRAND)
    gated = any(strand.startswith(gate_strand("")) for strand in forum.store.strands(run))
    if not gated and (last is None or peek_kind(last) != RUN_CLOSE_KIND):
        return None
    view = forum.reads.view_run(run)
    state = view.state
    if state.outcome is Outcome.OK and view.answer is not None:
        # A client of this API sees nothing but the text, so the headline is part of it.
        answer = (formatting.answer_with_headline(view) or b"").decode(errors="replace")
        return AnsweredRun(answer, sum_usage(state), deliberation_form(view))
    if state.outcome is Outcome.OK:
        return NoReply(run, 410, "answer_erased", "the answer was erased")
    if state.outcome is not None:
        return _failure_error(view)
    return _approval_error(view) if state.state is RunState.WAITING else None


def _approval_error(view: RunView) -> NoReply:
    run, subject = view.gates[0][0], view.gates[0][1].opened.subject
    how = f"forum gate approve {run} {subject}, or POST /api/v1/runs/{run}/gate"
    why = f"{formatting.explain_run_state(view)}; approve it with {how}"
    return NoReply(view.run, 409, "waiting_for_approval", why)


def _failure_error(view: RunView) -> NoReply:
    state, closed = view.state, formatting.session_end(view)
    stop = stop_reason(state)
    status, code = _ERROR_BY_STOP_REASON.get(stop, _FAILED) if stop else _FAILED
    if closed is not None and state.stopped is None:
        # The session ended with a question to the person at the client.  It is returned as the text
        # of an error: given as an answer, a program would take it for one.
        question = (view.answer or b"").decode(errors="replace")
        return NoReply(
            view.run, status, closed.reason.value, question or formatting.explain_run_state(view)
        )
    reasons = [formatting.explain_run_state(view)] + [
        f"{name}: {reason}"
        for name in formatting.work_tasks(state)
        if state.stopped is None
        and (reason := formatting.explain_task_state(view, state.task(name)))
    ]
    return NoReply(view.run, status, code, "; ".join(filter(None, reasons)) or "it has failed")


def sum_usage(state: Run) -> CompletionUsage:
    """Return the tokens of all calls of a run."""
    replies = [c.replied for task in state.tasks.values() for c in task.calls if c.replied]
    read = sum(reply.input_tokens for reply in replies)
    return CompletionUsage(read, sum(reply.tokens for reply in replies) - read)
