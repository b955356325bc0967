"""What a program sets, cancels or decorates: it runs as without the recorder."""

import asyncio
import warnings
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

import forum
from forum.errors import Malformed, RecorderUnusable, RunDeadlinePassed, UnknownPrice
from forum.features.recorder.recorder import Recorder
from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import GapReason
from tests.features.recorder.recording import open_forum, read_runs, same


def test_many_threads_enter_one_context(project: Path) -> None:
    """Each thread restores its own span, in whatever order they leave."""
    failures: list[BaseException] = []
    with forum.open(project) as recorder:
        step = recorder.step(same)
        with recorder.run("threads"):
            context, barrier = recorder.context(), Barrier(8)

            def work(number: int) -> None:
                try:
                    assert context is not None
                    with context:
                        barrier.wait(20)
                        step(number)
                        with context:
                            step(number)
                        barrier.wait(20)
                    assert recorder.context() is None
                except BaseException as error:  # noqa: BLE001  shown below
                    failures.append(error)

            threads = [Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert failures == []
    (run,) = read_runs(project)
    assert (len(run.steps), run.lost) == (16, 0)


def test_a_call_that_is_cancelled_while_it_is_prepared_costs_nothing(project: Path) -> None:
    """Its reservation is given back, with its call, and its end is recorded."""
    made: list[int] = []

    async def call(recorder: Recorder) -> None:
        async with recorder.budget("gpt-4o-mini", input="x", max_tokens=5) as scope:
            made.append(1)
            await asyncio.sleep(1)
            scope.tokens(1, 1)

    async def work(recorder: Recorder) -> str:
        write = recorder.sink.write

        def write_slowly(items: Any) -> Any:  # noqa: ANN401  as the sink
            result = write(items)
            if started is not None:
                loop.call_soon_threadsafe(started.set)
            return result

        loop, started = asyncio.get_running_loop(), asyncio.Event()
        async with recorder.run("capped", usd=1) as run:
            recorder.sink.write = write_slowly  # type: ignore[method-assign]
            task = asyncio.create_task(call(recorder))
            # The entry is written, and the task has not seen it yet.
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return run.id

    with forum.open(project) as recorder:
        run_id = asyncio.run(work(recorder))

    (run,) = read_runs(project)
    assert [(step.outcome, step.usd, step.input_tokens) for step in run.steps] == [
        (Outcome.CANCELLED, 0, 0)
    ]
    assert run.lost == 0
    assert made == []
    with open_forum(project) as opened:
        account = opened.store.account(run_id)
        assert account is not None
        assert account.used == (0, 0, 0)


def test_one_item_that_cannot_be_written_costs_no_other(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a gap of its run, `flush` says so, and the warning says what happened."""
    monkeypatch.setattr(Recorder, "_has_warned", False)
    with forum.open(project) as recorder:
        write = recorder.sink.write

        def fail(items: Any) -> Any:  # noqa: ANN401  as the sink
            if any(getattr(item, "name", "") == "bad" for item in items):
                raise UnicodeError("cannot be written")
            return write(items)

        recorder.sink.write = fail  # type: ignore[method-assign]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with recorder.run("batch"):
                for name in ("a", "bad", "b", "\ud800 c"):
                    with recorder.span("step", name):
                        pass
            assert not recorder.flush()
        assert recorder.flush()
        assert recorder.lost == 1

    (run,) = read_runs(project)
    assert sorted(step.name for step in run.steps) == ["a", "b", "step"]
    assert [(gap.why, gap.steps) for gap in run.gaps] == [(GapReason.REFUSED, 1)]
    assert run.closed is not None
    (warning,) = [str(w.message) for w in caught if "forum" in str(w.message)]
    assert "cannot be written" in warning
    assert "not made" not in warning


def test_a_warning_does_not_say_that_a_step_was_not_made(project: Path) -> None:
    """A plain step is made whether or not it is recorded."""
    error = RecorderUnusable("the server cannot be reached")
    with (
        forum.open(project) as recorder,
        recorder.run("warned") as run,
        pytest.warns(RuntimeWarning) as caught,
    ):
        recorder.count_fault(run, error)
    assert "the server cannot be reached" in str(caught[0].message)
    assert "not made" not in str(caught[0].message)


class _Loud:
    def __repr__(self) -> str:
        raise SystemExit(3)


def test_odd_values_never_reach_the_program(project: Path) -> None:
    """Whatever is set in a block, the block ends as it would."""
    with forum.open(project) as recorder:
        odd: Any = None
        with recorder.run(odd, framework=odd):
            for value in (None, -5, 10**30, "many", 1.5, _Loud(), "a\nb", "\ud800"):
                odd = value
                with recorder.span("model", "gpt-4o-mini") as span:
                    span.tokens(odd, odd)
                    span.model = span.provider = span.agent = span.name = odd
                    span.outcome = span.code = span.output = span.attributes = odd
            with recorder.span("step", odd):
                pass

            class Broken(Exception):
                def __str__(self) -> str:
                    raise SystemExit(4)

            with pytest.raises(Broken), recorder.span("step", "broken"):
                raise Broken
            assert isinstance(recorder.step(same)(_Loud()), _Loud)
        assert recorder.flush()

    (run,) = read_runs(project)
    assert (len(run.steps), run.lost) == (11, 0)


def test_decorated_methods_stay_methods(project: Path) -> None:
    """The order of the decorators does not matter."""
    with forum.open(project) as recorder:

        class Agent:
            @recorder.step
            @staticmethod
            def add(first: int, second: int) -> int:
                return first + second

            @recorder.step
            @classmethod
            def name(cls, suffix: str) -> str:
                return cls.__name__ + suffix

            @recorder.step  # type: ignore[prop-decorator]  # it works, but has no type
            @property
            def size(self) -> int:
                return 7

        with recorder.run("methods"):
            assert (Agent().add(1, 2), Agent.add(1, 2)) == (3, 3)
            assert (Agent.name("!"), Agent().name("!")) == ("Agent!", "Agent!")
            assert Agent().size == 7

            @recorder.step(redact="password")
            def login(password: str, p: str) -> None: ...

            login("hidden-word", "shown")

    (run,) = read_runs(project)
    names = [step.name for step in run.steps]
    assert (names.count("Agent.add"), names.count("Agent.name"), names.count("Agent.size")) == (
        2,
        2,
        1,
    )
    body = run.bodies[run.step("login").span]["input"]
    assert b"hidden-word" not in body
    assert b"shown" in body


def test_limits_are_numbers(project: Path) -> None:
    """A limit is rounded down, and what is no limit is refused with a word on what to do."""
    odd: Any
    with forum.open(project) as recorder:
        assert recorder.run("sum", usd=0.1 + 0.2).start.usd == 300_000_000
        assert recorder.run("third", usd=1 / 3).start.usd == 333_333_333
        for odd in (float("nan"), float("inf"), -1, "abc", True, "1e99"):
            with pytest.raises(Malformed, match="Give a number"):
                recorder.run("odd", usd=odd)
        for odd in (-5, 1.5, "three", True):
            with pytest.raises(Malformed, match=r"limit calls: .* Give a number, or None"):
                recorder.run("odd", calls=odd)
        with pytest.raises(Malformed, match="seconds"):
            recorder.run("odd", seconds=float("nan"))
        with recorder.run("capped", usd=0.1):
            for odd in (-1_000_000, "5", 1.5):
                with pytest.raises(UnknownPrice), recorder.budget("x", input="", max_tokens=odd):
                    pass


def test_the_time_limit_holds_for_model_calls_without_another_limit(project: Path) -> None:
    """The error is one that a program can name after `import forum`."""
    with forum.open(project) as recorder, recorder.run("late", seconds=0):
        assert forum.errors.RunDeadlinePassed is RunDeadlinePassed
        with pytest.raises(forum.errors.RunDeadlinePassed), recorder.span("model", "mine"):
            pytest.fail("the call was made")
