"""From a request to the words of its answer: a run is begun, and followed until it has ended.

What a client puts together from the pieces is the recorded answer, to the letter.  Pieces come
while the model still speaks only where its words are the answer: one task, one agent, no tools, and
nobody who could want it otherwise.  What was heard may have gaps, or be taken back by a retry; the
record decides.  Where a gap can be told, nothing more is passed on, and the rest comes from the
record.  Where only the end shows that other words were passed on, the stream ends with an error
that names the run: a client cannot be made to forget, and must not keep what is on no record.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from forum.app import Forum, RunView, now
from forum.engine import MOST_A_SECOND
from forum.errors import BodyGone, ReplayMiss, StoreFailed
from forum.ledger import MAIN, Outcome, opens, peek_kind
from forum.staff import Ask
from forum.surfaces.asking import PanelAsk, budget_of, check_gates, panel_of
from forum.surfaces.forms.deliberations import DeliberationForm, deliberation_form
from forum.surfaces.http.deltas import Ear
from forum.surfaces.http.desk import Desk
from forum.surfaces.http.endpoints import READERS, Visit
from forum.surfaces.http.events import CLOSE
from forum.surfaces.http.openai.catalogue import PANEL, Choice
from forum.surfaces.http.openai.conversation import Terms
from forum.surfaces.http.openai.errors import NoAnswer, Wrong
from forum.surfaces.http.problems import Problem, Refusal
from forum.surfaces.http.tail import heard
from forum.surfaces.telling import run_reason, session_end, task_reason, tasks_of
from forum.work import (
    Budget,
    Panel,
    Run,
    RunState,
    StopReason,
    gate_strand,
    stop_reason,
    task_strand,
)

if TYPE_CHECKING:
    from forum.engine import Order

WAIT_SECONDS = 570.0
"""How long an answer in one piece is waited for: clients give up after 600 s, and ask again."""
ENDPOINT_SECONDS = WAIT_SECONDS + 25

_STOPS = {
    StopReason.BUDGET: (429, "budget_exceeded"),
    StopReason.DEADLINE: (429, "deadline_exceeded"),
    StopReason.CANCELLED: (422, "run_cancelled"),
    StopReason.REJECTED: (422, "run_rejected"),
}
_FAILED = (422, "run_failed")
_REPLAYS = asyncio.Semaphore(1)
"""How many records a process plays at once: each keeps a core busy."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the models have reported them."""

    read: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that a client waits for."""

    desk: Desk
    run: str
    model: str
    created: int
    """In seconds since 1970."""
    speaker: str = ""
    """The task whose words are the answer, if they are."""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has answered."""

    answer: str
    usage: Usage
    deliberation: DeliberationForm | None = None
    """How a panel has come to it."""


# Beginning


async def begin(visit: Visit, choice: Choice, request: Callable[[], str], terms: Terms) -> Begun:
    """Have a request taken on; or a record played again.  A long conversation takes its time."""
    desk, created = visit.desk, now() // 1_000_000
    if choice.replay is not None:
        await _play_again(visit, choice.replay)
        return Begun(desk, choice.replay, choice.model, created, replayed=True)
    gates, budget = terms.gates, budget_of(terms.budget)
    check_gates(gates, visit.principal.scopes)

    def ask() -> Ask:
        words = request()
        return Ask(
            words,
            lane=choice.lane,
            team=choice.team,
            budget=budget,
            gates=gates.what if gates else (),
            gate_milliseconds=1000 * gates.seconds if gates and gates.seconds else None,
            gate_default=gates.default if gates else None,
            panel=_panel(choice, terms, words, budget),
        )

    order = await desk.order(ask)
    run = await desk.submit(order, visit.principal.name, lambda: visit.ticket)
    return Begun(desk, run, choice.model, created, _speaker(order) if terms.live else "")


def _panel(choice: Choice, terms: Terms, request: str, budget: Budget) -> Panel | None:
    if choice.panel:
        return panel_of(terms.panel or PanelAsk(), request, budget)
    if terms.panel is not None:
        why = f"who deliberates is said to the model {PANEL!r}, and not to {choice.model[:64]!r}"
        raise Wrong(Problem.BAD_REQUEST, why, param="forum.panel")
    return None


def _speaker(order: "Order") -> str:
    """Return the task whose words are the answer, where nobody has to look at them first."""
    plan, policy = order.plan, order.policy
    if plan is None or len(plan.tasks) > 1 or policy.roles or policy.tools or policy.verifiers:
        return ""
    return plan.tasks[0].id


async def _play_again(visit: Visit, run: str) -> None:
    """Play a record, and refuse to answer from it unless it says the same again."""
    # Who may only submit must not read what others have asked.
    if not opens(visit.principal.scopes, READERS):
        raise Refusal(Problem.FORBIDDEN, "to replay a run needs the scope read or audit")
    forum = visit.desk.forum
    if (await run_in_threadpool(forum.read_run, run)).outcome is None:
        raise NoAnswer(run, 409, "run_not_ended", "only a run that has ended can be replayed")
    try:
        async with _REPLAYS:
            found = await run_in_threadpool(forum.replay, run)
    except (ReplayMiss, BodyGone) as error:
        raise NoAnswer(run, 409, "replay_diverged", f"it cannot be replayed: {error}") from None
    if found:
        where = f"{found[0].strand} {found[0].step}: {found[0].parting}"
        raise NoAnswer(run, 409, "replay_diverged", f"the replay says something else at {where}")


# Following


async def whole(visit: Visit, begun: Begun) -> Ended:
    """Return the answer once it is there.  Raises `NoAnswer`."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            async with aclosing(tell(replace(begun, speaker=""))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Ended):
                        return piece
                    if not piece and await visit.request.is_disconnected():
                        raise ClientDisconnect  # nobody waits; the run goes on
    except TimeoutError:
        pass
    raise still_running(begun.run, f"not ended after {WAIT_SECONDS:.0f} s")


def still_running(run: str, why: str) -> NoAnswer:
    """Return what is told of a run that goes on without the client."""
    where = f"it goes on, and its answer will be at /api/v1/runs/{run}"
    return NoAnswer(run, 503, "still_running", f"{why}; {where}")


async def tell(begun: Begun) -> AsyncGenerator[str | Ended, None]:
    """Yield the answer in pieces, and its end; an empty piece where nothing is said for a while.

    Raises `NoAnswer`.
    """
    desk, ended = begun.desk, None
    with desk.tail.listening(begun.run) as news, desk.deltas.listening(begun.run, news) as ear:
        words = await asyncio.to_thread(_words, begun)
        while ended is None:
            news.clear()
            for text in words.take(ear):
                yield text
            ended = await _look(begun)
            if ended is None and not await heard(news):
                yield ""
    if isinstance(ended, NoAnswer):
        raise ended
    if rest := _rest(begun.run, ended.answer, words.said):
        yield rest
    yield ended


def _words(begun: Begun) -> "Words":
    """Listen from the beginning, or not at all.  Called once what is said is kept."""
    # A call is recorded before it is made: without it, nothing was said before anybody listened.
    try:
        begun_before = task_strand(begun.speaker) in begun.desk.forum.store.strands(begun.run)
    except StoreFailed:
        begun_before = True
    return Words("" if begun_before else begun.speaker)


def _rest(run: str, answer: str, said: str) -> str:
    """Return what is left to say of the answer."""
    if not answer.startswith(said):
        why = "what was said while it ran is not the answer that was recorded"
        where = f"read it at /api/v1/runs/{run}"
        raise NoAnswer(run, 409, "answer_changed", f"{why}; {where}")
    return answer[len(said) :]


class Words:
    """What is said in the first call of a task that is heard, as far as it is without a gap."""

    def __init__(self, task: str) -> None:
        self._task, self._step, self._held = task, "", not task
        self._room = MOST_A_SECOND
        self.said = ""

    def take(self, ear: Ear) -> Iterator[str]:
        """Yield what can be passed on."""
        for piece in ear.take():
            self._step = self._step or (piece.step if piece.task == self._task else "")
            # So much of a call is never cut on its way here, however fast it comes.
            self._room -= len(piece.text.encode()) if piece.step == self._step else 0
            self._held = self._held or ear.missed or self._room < 0
            if not self._held and (piece.task, piece.step) == (self._task, self._step):
                self.said += piece.text
                yield piece.text


async def _look(begun: Begun) -> Ended | NoAnswer | None:
    try:
        ended = await asyncio.to_thread(_ending, begun.desk.forum, begun.run)
    except StoreFailed:  # the database restarts; the client need not notice
        ended = None
    if ended is None and begun.desk.tail.closed:
        return still_running(begun.run, "this server is about to end")
    if begun.replayed and isinstance(ended, Ended):
        return replace(ended, usage=Usage())  # nobody was asked
    return ended


def _ending(forum: Forum, run: str) -> Ended | NoAnswer | None:
    """Tell what a run has come to; nothing while it goes on."""
    last = forum.store.last(run, MAIN)
    gated = any(strand.startswith(gate_strand("")) for strand in forum.store.strands(run))
    if not gated and (last is None or peek_kind(last) != CLOSE):
        return None
    view = forum.view(run)
    state = view.state
    if state.outcome is Outcome.OK and view.answer is not None:
        answer = view.answer.decode(errors="replace")
        return Ended(answer, usage_of(state), deliberation_form(view))
    if state.outcome is Outcome.OK:
        return NoAnswer(run, 410, "answer_erased", "the answer was erased")
    if state.outcome is not None:
        return _failure(view)
    return _waiting(view) if state.state is RunState.WAITING else None


def _waiting(view: RunView) -> NoAnswer:
    run, subject = view.gates[0][0], view.gates[0][1].opened.subject
    how = f"forum gate approve {run} {subject}, or POST /api/v1/runs/{run}/gate"
    why = f"{run_reason(view)}; approve it with {how}"
    return NoAnswer(view.run, 409, "waiting_for_approval", why)


def _failure(view: RunView) -> NoAnswer:
    state, closed = view.state, session_end(view)
    stop = stop_reason(state)
    status, code = _STOPS.get(stop, _FAILED) if stop else _FAILED
    if closed is not None and state.stopped is None:
        # What a panel has to know first is for the person at the client: nobody else may answer it.
        said = (view.answer or b"").decode(errors="replace")
        return NoAnswer(view.run, status, closed.reason.value, said or run_reason(view))
    reasons = [run_reason(view)] + [
        f"{name}: {reason}"
        for name in tasks_of(state)
        if state.stopped is None and (reason := task_reason(view, state.task(name)))
    ]
    return NoAnswer(view.run, status, code, "; ".join(filter(None, reasons)) or "it has failed")


def usage_of(state: Run) -> Usage:
    """Return the tokens of all calls of a run, whoever made them."""
    replies = [c.replied for task in state.tasks.values() for c in task.calls if c.replied]
    read = sum(reply.input_tokens for reply in replies)
    return Usage(read, sum(reply.tokens for reply in replies) - read)
