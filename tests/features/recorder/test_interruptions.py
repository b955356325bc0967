"""The garbage collector and signal handlers, which run code of the program at any point."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import forum
from forum.features.recorder.report_items import ReportItem, StepReport
from forum.features.recorder.step_queue import LossPolicy, RunCounter, StepQueue
from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import Operation
from tests.features.recorder.recording import make_project, read_runs, same

_COLLECTED = """
import gc, forum

@forum.step
def items():
    yield 1
    yield 2

@forum.step
def same(value):
    return value

with forum.run("outer"):
    gc.set_threshold(1)
    for number in range(300):
        begun = items()
        next(begun)
        cell = [begun]
        cell.append(cell)  # only the collector finds it
        del begun, cell
        same(number)
        if number % 10 == 0:
            with forum.run("short"):
                pass
    gc.collect()
forum.close()
"""

_SIGNALLED = """
import signal, forum

@forum.step
def tick():
    signal.setitimer(signal.ITIMER_REAL, 0.001)

@forum.step
def same(value):
    return value

signal.signal(signal.SIGALRM, lambda *_, **__: tick())
with forum.run("outer"):
    same(0)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    for number in range(2000):
        same(number)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
forum.close()
"""


def test_an_effect_that_ends_while_its_thread_writes_is_recorded(project: Path) -> None:
    """Stores are not re-entrant: the end of the effect is left to the writer."""
    depth, depths = 0, []
    with forum.open(project) as recorder:

        @recorder.effect
        def items() -> Iterator[int]:
            yield 1
            yield 2

        with recorder.run("effects"):
            begun = [items()]
            next(begun[0])
            writer = recorder.sink._writer  # type: ignore[attr-defined]  # noqa: SLF001
            write = writer.write

            def write_interrupted(batch: Any) -> Any:  # noqa: ANN401  as the writer
                nonlocal depth
                depth += 1
                depths.append(depth)
                for abandoned in begun[:]:
                    begun.remove(abandoned)
                    abandoned.close()  # type: ignore[attr-defined]  # a generator
                result = write(batch)
                depth -= 1
                return result

            recorder.flush()
            writer.write = write_interrupted
            recorder.effect(same, name="same")(1)
            recorder.flush()
            assert begun == []
            assert set(depths) == {1}

    (run,) = read_runs(project)
    assert [(step.outcome, step.code) for step in run.steps if "items" in step.name] == [
        (Outcome.CANCELLED, "GeneratorExit")
    ]
    assert (len(run.steps), run.lost) == (2, 0)


class _InterruptedSlot:
    """A slot of the spool that something interrupts, in the critical section of the queue."""

    def __init__(self, interrupt: "list[bool]", queue: StepQueue, counter: RunCounter) -> None:
        self.interrupt, self.queue = interrupt, queue
        self.counter = counter
        self.stored: list[int] = []

    def store_handed_in(self, handed_in: int) -> None:
        """Store a count, and have a step handed in meanwhile."""
        self.stored.append(handed_in)
        if self.interrupt:
            self.interrupt.pop()
            assert self.queue.put_step(self.counter, _step("b"))
            assert self.queue.count_direct(self.counter)
            assert not self.queue.wait_until_done(10)


def _step(span: str) -> ReportItem:
    return StepReport(
        run="run-00000000", span=span, op=Operation.STEP, name="step", outcome=Outcome.OK
    )


def test_what_interrupts_the_queue_is_counted_after_it() -> None:
    """The thread that holds the lock does not wait for it, and each step has its own number."""
    queue, counter = StepQueue(10, LossPolicy.BLOCK), RunCounter()
    slot = _InterruptedSlot([True], queue, counter)
    counter.slot = slot  # type: ignore[assignment]  # it has what the queue calls
    thread = Thread(target=queue.put_step, args=(counter, _step("a")), daemon=True)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()
    assert slot.stored == [1, 2, 3]
    assert [item.span for _, item in queue.take_batch() if isinstance(item, StepReport)] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize("program", [_COLLECTED, _SIGNALLED], ids=["collector", "signal"])
def test_a_program_is_never_stopped_by_its_recorder(tmp_path: Path, program: str) -> None:
    """Steps that end in the collector or in a handler are recorded, or counted as lost."""
    environment = make_project(tmp_path)
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, timeout=50
    )

    runs = read_runs(tmp_path)
    outer = next(run for run in runs if run.entries[0].actor == "outer")
    assert all(run.closed is not None for run in runs)
    if program is _COLLECTED:
        names = [step.name for run in runs for step in run.steps]
        assert (names.count("items"), names.count("same")) == (300, 300)
        assert len(runs) >= 31
    else:
        assert len(outer.steps) + outer.lost > 2001
