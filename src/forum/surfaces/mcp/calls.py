"""What tools have in common: who calls, how a request is taken on, and how a run is waited for."""

from collections.abc import Awaitable, Callable
from functools import wraps
from hashlib import sha256
from time import monotonic
from typing import Any, Protocol, TypeVar

import anyio
import msgspec
from msgspec import Struct

from forum.app import Forum
from forum.engine import Ticket
from forum.staff import Ask
from forum.surfaces.mcp.callers import Caller
from forum.surfaces.mcp.replies import Reply
from forum.surfaces.preparing import prepare
from forum.surfaces.telling import passed_tasks, plural, taken_turns, tasks_of, turns_of
from forum.work import TURN, Run, TaskState

_LOOK_SECONDS = 0.1
_SLOWEST_LOOK_SECONDS = 1.0
_MOST_NAMED = 5

A = TypeVar("A", bound=Struct)
T = TypeVar("T")


class Call(Protocol):
    """What a tool knows of the call that it answers."""

    @property
    def caller(self) -> Caller:
        """Who calls."""
        ...

    async def thread(self, work: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401
        """Do something that takes its time, beside everything else."""
        ...

    async def tell(self, done: float, total: float | None, words: str) -> None:
        """Say how far it is, to those who want to hear it; more each time."""
        ...


def in_thread(work: Callable[[Caller, A], Reply]) -> Callable[[Call, A], Awaitable[Reply]]:
    """Make a tool of what only takes its time."""

    @wraps(work)
    async def do(call: Call, ask: A) -> Reply:
        return await call.thread(work, call.caller, ask)

    return do


async def prepared(call: Call, work: Callable[[], T]) -> T:
    """Do what a client could make expensive, in one of a few threads.  Raises `TooCostly`."""
    # A server that does not answer must not keep the threads that others wait for.
    await call.thread(call.caller.staff.ask_servers)
    return await prepare(work)


def take_on(caller: Caller, ask: Ask, form: Struct, key: str | None) -> str:
    """Have a request carried out, once for each key; the form tells what it is asked for with."""
    order = caller.staff.order(ask)
    ticket = None
    if key:
        digest = sha256(msgspec.json.encode(form)).hexdigest()
        ticket = Ticket(f"{caller.name}/{key}", digest)
    return caller.forum.submit(order, actor=caller.name, ticket=ticket)


async def wait_for(call: Call, run: str, seconds: float, begin: float = 0.0) -> float:
    """Wait until a run has ended or waits for a person, telling meanwhile how far it has come.

    What is told begins after a number that was told before; the last one is returned.
    """
    deadline, told, pause = monotonic() + seconds, begin - 1.0, _LOOK_SECONDS
    while True:
        state, over = await call.thread(_look, call.caller.forum, run)
        done = begin + _done(state)
        if done > told:
            await call.tell(done, begin + state.planned if state.planned else None, _words(state))
            told = done
        left = deadline - monotonic()
        if over or left <= 0 or call.caller.leaving:
            return told
        await anyio.sleep(min(pause, left))
        pause = min(1.2 * pause, _SLOWEST_LOOK_SECONDS)


def _look(forum: Forum, run: str) -> tuple[Run, bool]:
    """Return a run, and whether nothing happens in it before somebody else does something."""
    state = forum.read_run(run)
    works = any(state.task(name).state is TaskState.RUNNING for name in state.tasks)
    waits = not works and bool(forum.open_gates(run, state))
    return state, state.accepted is None or state.outcome is not None or waits


def _done(state: Run) -> float:
    """Return how many tasks or turns are done; one that is begun counts half."""
    tasks = [state.task(name) for name in tasks_of(state)] + turns_of(state)
    ended = sum(task.state.is_end for task in tasks)
    return ended + (len(tasks) - ended) / 2


def _words(state: Run) -> str:
    if turns := turns_of(state):
        running = [turn.id for turn in turns if not turn.state.is_end]
        return f"{plural(taken_turns(turns), 'turn')} taken{_now(running)}"
    if not state.planned:
        return "no plan yet"
    running = [n for n in tasks_of(state) if state.task(n).state is TaskState.RUNNING]
    return f"{passed_tasks(state)} of {plural(state.planned, 'task')}{_now(running)}"


def _now(running: list[str]) -> str:
    names = ", ".join(name.removeprefix(TURN) for name in running[:_MOST_NAMED])
    return f"; now {names}" if names else ""
