"""A run that a program has submitted: follow it, wait for it, decide at its gates."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from forum.app import Forum
from forum.features.recorder import events
from forum.features.recorder.run_results import RunResult, read_result
from forum.features.recorder.typed_values import AnswerType
from forum.runs.policy import Answer
from forum.runs.run_fold import Run, TaskRun

ValueT = TypeVar("ValueT")
_POLL_INTERVAL_S = 0.05


class SubmittedRun(Generic[ValueT]):
    """A run that was accepted; it goes on after the program ends, where a worker can drive it.

    `await run` and `run.wait()` return its result; `async for event in run` and `for event in run`
    yield what happens in it, as one of `forum.events`, until it ends.
    """

    def __init__(self, forum: Forum, run: str, into: AnswerType[ValueT] | None = None) -> None:
        self._forum, self.id = forum, run
        self._type = into

    def __repr__(self) -> str:
        state = self._forum.reads.read_run(self.id)
        return f"<run {self.id}: {state.outcome or state.state}>"

    def follow(self) -> Iterator[Run]:
        """Yield the state of the run after each change, until it ends or waits for a person."""
        seen: dict[str, int] = {}
        while True:
            state = self._forum.reads.follow_run(self.id, patience=_POLL_INTERVAL_S)
            if dict(state.lengths) != seen:
                seen = dict(state.lengths)
                yield state
            if state.outcome is not None or state.interrupted or state.open_gates:
                return

    async def follow_async(self) -> AsyncIterator[Run]:
        """Follow the run without blocking other tasks."""
        states = self.follow()
        while (state := await asyncio.to_thread(next, states, None)) is not None:
            yield state

    def __iter__(self) -> Iterator[events.RunEvent]:
        pieces: SimpleQueue[events.TextDelta] = SimpleQueue()

        def receive(run: str, task: str, _step: str, text: str) -> None:
            if run == self.id:
                pieces.put(events.TextDelta(task, text))

        seen = Run()
        with self._forum.delta_bus.subscribe(receive):
            while True:
                state = self._forum.reads.follow_run(self.id, patience=_POLL_INTERVAL_S)
                # The text first: it was written before the reply was recorded.
                while (piece := _take(pieces)) is not None:
                    yield piece
                yield from self._changes(seen, state)
                if state.outcome is not None or state.interrupted:
                    yield events.RunEnded(self.result())
                    return
                seen = state

    async def __aiter__(self) -> AsyncIterator[events.RunEvent]:
        happened = iter(self)
        while (event := await asyncio.to_thread(next, happened, None)) is not None:
            yield event

    def __await__(self) -> Generator[Any, None, RunResult[ValueT]]:
        return self.wait_async().__await__()

    def wait(self, seconds: float | None = None) -> RunResult[ValueT]:
        """Wait until the run ends or waits for a person, or so many seconds."""
        self._forum.reads.follow_run(self.id, patience=seconds)
        return self.result()

    async def wait_async(self, seconds: float | None = None) -> RunResult[ValueT]:
        """Wait without blocking other tasks."""
        return await asyncio.to_thread(self.wait, seconds)

    def result(self) -> RunResult[ValueT]:
        """Return what is known of the run now."""
        return read_result(self._forum, self.id, self._type)

    def shown_at(self, subject: str) -> str:
        """Return the content that waits at a gate."""
        return self._forum.reads.read_gate(self.id, subject)[1].decode(errors="replace")

    def decide(self, subject: str, answer: Answer | str) -> None:
        """Approve or reject what waits at a gate; the decision names the content shown now."""
        gate, _ = self._forum.reads.read_gate(self.id, subject)
        self._forum.runs.decide_gate(self.id, subject, Answer(answer), gate.digest)

    def cancel(self) -> None:
        """Request that the run be cancelled."""
        self._forum.runs.cancel(self.id)

    def _changes(self, before: Run, now: Run) -> Iterator[events.RunEvent]:
        for name, task in now.tasks.items():
            yield from self._tool_events(before.tasks.get(name) or TaskRun(name), task)
        ended = [
            name
            for name, task in now.tasks.items()
            if task.state.is_end and not before.task(name).state.is_end
        ]
        tasks = self.result().tasks if ended else {}
        yield from (events.TaskEnded(tasks[name]) for name in ended if name in tasks)
        for strand, gate in now.gates.items():
            if gate.decided is None and strand not in before.gates:
                subject = gate.opened.subject
                yield events.GateOpened(subject, self.shown_at(subject))

    def _tool_events(self, before: TaskRun, now: TaskRun) -> Iterator[events.RunEvent]:
        text = self._forum.reads.read_text
        for number, use in enumerate(now.uses):
            earlier = before.uses[number] if number < len(before.uses) else None
            tool = use.intended.tool
            if earlier is None:
                yield events.ToolUse(now.id, tool, text(use.at, "arguments") or "")
            if use.happened is not None and (earlier is None or earlier.happened is None):
                output = text(use.outcome_at, "result") or ""
                yield events.ToolDone(now.id, tool, use.happened.outcome, output)


def _take(pieces: "SimpleQueue[events.TextDelta]") -> events.TextDelta | None:
    try:
        return pieces.get_nowait()
    except Empty:
        return None
