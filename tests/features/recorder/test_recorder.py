"""The recorder: what it records, and that it changes nothing about the program."""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from contextvars import copy_context
from pathlib import Path
from threading import Event, Thread, current_thread
from time import sleep
from typing import Any

import pytest

import forum
from forum.errors import (
    BudgetExceeded,
    ForkedFromCappedRun,
    RunDeadlinePassed,
    UnboundedCall,
    UnknownPrice,
)
from forum.features.recorder.report_items import StepReport
from forum.features.recorder.report_writer import ReportWriter
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.strand import Draft, Strand
from forum.runs.policy import Answer
from forum.runs.report_drafts import MAX_BODY_BYTES
from forum.runs.report_kinds import Operation, ReportBeginFacts, ReportProvenance
from forum.runs.reported_run import ReportedRunWriter
from tests.features.recorder.recording import (
    assert_verified,
    make_project,
    open_forum,
    read_runs,
    same,
)
from tests.support import wait_until


def test_importing_costs_little() -> None:
    """`import forum` stays under 30 ms of CPU: everything is loaded on first use."""
    program = "import time; c = time.process_time(); import forum; print(time.process_time() - c)"
    costs = [
        float(
            subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
        )
        for _ in range(3)
    ]

    assert min(costs) < 0.030


def test_every_public_name_can_be_loaded() -> None:
    """A name that `import forum` promises and cannot load would fail in the user's program."""
    for name in forum.__all__:
        assert getattr(forum, name) is not None
    with pytest.raises(AttributeError):
        forum.nothing  # type: ignore[attr-defined]  # noqa: B018  on purpose


def test_a_step_is_recorded_with_its_arguments_and_its_result(project: Path) -> None:
    """Free text stands in a body, and a stand-in in the facts."""
    with forum.open(project) as recorder:

        @recorder.step(redact=("password",))
        def triage(document: dict[str, Any], password: str) -> dict[str, Any]:
            document["seen"] = True
            return {"lane": "billing"}

        with recorder.run("Größe & Stock Keeper") as run:
            assert triage({"id": 7}, password="x" * 9) == {"lane": "billing"}

    (recorded,) = read_runs(project)
    step = recorded.step("triage")
    assert recorded.run == run.id
    assert recorded.source.told is ReportProvenance.WRAPPED
    assert recorded.source.trace == run.id.replace("-", "")
    assert json.loads(recorded.bodies["main"]["names"])["name"] == "Größe & Stock Keeper"
    assert recorded.entries[0].actor == "run"
    # Encoded before the call: the change that the function makes is not in it.
    assert json.loads(recorded.bodies[step.span]["input"]) == {
        "document": {"id": 7},
        "password": "(redacted)",
    }
    assert json.loads(recorded.bodies[step.span]["output"]) == {"lane": "billing"}
    assert_verified(project)


@pytest.mark.parametrize("loss", ["drop", "block"])
def test_a_step_belongs_to_the_recorder_of_its_run(
    project: Path, tmp_path: Path, loss: str
) -> None:
    """A library may have opened another recorder, for another folder even: nothing is lost."""
    make_project(tmp_path / "other")
    with (
        forum.open(project) as recorder,
        forum.open(tmp_path / "other", loss=loss, most=10) as other,
    ):
        step, effect = other.step(abs, name="step"), other.effect(abs, name="effect")
        with recorder.run("mixed"):
            for number in range(20):
                step(number)
            effect(-1)
            with other.span("tool", "span") as span:
                span.output = 1
        lost = recorder.lost + other.lost

    (recorded,) = read_runs(project)
    assert lost == recorded.lost == 0
    assert [step.name for step in recorded.steps].count("step") == 20
    assert recorded.step("effect").outcome is recorded.step("span").outcome is Outcome.OK
    assert read_runs(tmp_path / "other") == []


def test_an_error_passes_and_the_run_is_failed(project: Path) -> None:
    """The program sees its own exception; the run closes itself."""
    with forum.open(project) as recorder:

        @recorder.step(name="broken")
        def broken() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError), recorder.run("shop"):
            broken()

    (run,) = read_runs(project)
    assert (run.step("broken").outcome, run.step("broken").code) == (Outcome.FAILED, "KeyError")
    assert run.closed is not None
    assert run.closed.outcome is Outcome.FAILED


class Hostile:
    """An object that fails at everything that an encoder may try."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def model_dump(self) -> None:
        """Fail."""
        raise RuntimeError("no")


def test_no_value_breaks_a_program(project: Path) -> None:
    """Whatever a function takes and returns, it is called and its result passes."""
    circle: list[Any] = []
    circle.append(circle)
    values = [
        circle,
        Hostile(),
        2**200,
        "\ud800",
        {1: {2}},
        float("nan"),
        b"\xff",
        object,
        "a" * 10**6 * 2,
    ]
    with forum.open(project) as recorder:
        echo = recorder.step(same, name="echo")
        with recorder.run("odd"):
            for value in values:
                assert echo(value) is value

    (run,) = read_runs(project)
    assert len(run.steps) == len(values)
    assert run.steps[-1].cut + run.steps[-2].cut >= 0
    assert max(step.cut for step in run.steps) > 1_000_000
    assert run.lost == 0


def test_spans_know_what_they_are_within(project: Path) -> None:
    """Context travels with tasks and copied contexts, and `context` carries it by hand."""
    with forum.open(project) as recorder:
        inner = recorder.step(same, name="inner")

        @recorder.step(name="outer")
        async def outer() -> None:
            await asyncio.gather(asyncio.to_thread(inner), asyncio.to_thread(inner))
            here = recorder.context()
            assert here is not None
            bare, copied = Thread(target=inner), Thread(target=copy_context().run, args=(inner,))

            def attached() -> None:
                with here:
                    inner()

            by_hand = Thread(target=attached)
            for thread in (bare, copied, by_hand):
                thread.start()
                await asyncio.to_thread(thread.join)

        async def main() -> None:
            async with recorder.run("async"):
                await outer()

        asyncio.run(main())

    runs = sorted(read_runs(project), key=lambda run: len(run.steps))
    span = runs[1].step("outer").span
    assert [step.name for step in runs[0].steps] == ["inner"]  # the bare thread has no run
    assert [step.within for step in runs[1].steps if step.name == "inner"] == [span] * 4


def test_generators_are_steps_of_their_own(project: Path) -> None:
    """A step of a generator lasts to its end; what its caller does in between is not within it."""
    with forum.open(project) as recorder:
        mark = recorder.step(same, name="mark")

        @recorder.step(name="numbers")
        def numbers() -> Generator[int, str | None, str]:
            for number in range(3):
                mark()
                got = yield number
                assert got in (None, "hello")
            return "end"

        @recorder.step(name="letters")
        async def letters() -> AsyncIterator[str]:
            for letter in "ab":
                yield letter

        async def spell() -> list[str]:
            return [letter async for letter in letters()]

        with recorder.run("generators"):
            series: Any = numbers()
            items = [next(series), series.send("hello")]
            mark()
            items.append(next(series))
            with pytest.raises(StopIteration, match="end"):
                next(series)
            half: Any = numbers()
            next(half)
            half.close()
            assert asyncio.run(spell()) == ["a", "b"]

    (run,) = read_runs(project)
    whole, left = sorted(
        (step for step in run.steps if step.name == "numbers"), key=lambda step: step.outcome
    )[::-1]
    assert items == [0, 1, 2]
    assert (whole.outcome, left.outcome) == (Outcome.OK, Outcome.CANCELLED)
    assert json.loads(run.bodies[whole.span]["output"]) == [0, 1, 2]
    assert json.loads(run.bodies[run.step("letters").span]["output"]) == ["a", "b"]
    within = [step.within for step in run.steps if step.name == "mark"]
    assert sorted(within) == sorted(["", left.span, *[whole.span] * 3])


def test_a_call_that_could_pass_the_cap_is_not_made(project: Path) -> None:
    """The highest cost is reserved before a call and settled after it, by the price table."""
    made = []
    with forum.open(project) as recorder:
        with recorder.run("capped", usd=0.01) as run:
            for _ in range(1000):
                try:
                    with recorder.budget("gpt-4o-mini", input="hello", max_tokens=500) as call:
                        made.append(1)
                        call.tokens(1000, 500)
                except BudgetExceeded:
                    break
            with (
                pytest.raises(UnboundedCall, match="input="),
                recorder.span("model", "gpt-4o-mini", max_tokens=5),
            ):
                pass
            with (
                pytest.raises(UnboundedCall, match="max_tokens="),
                recorder.span("model", "nobody-1", input="x"),
            ):
                made.append(1)
            with (
                pytest.raises(UnknownPrice, match="tokens= or calls= instead of usd=") as refused,
                recorder.budget("nobody-1", input="", max_tokens=1),
            ):
                made.append(1)
            # The traceback is the program's own, and few frames of the recorder.
            assert len(
                [f for f in refused.traceback if "forum/features/recorder" in str(f.path)]
            ) in (1, 2, 3)
        with recorder.run("one call", calls=1):
            with recorder.span("model", "mine"):
                pass
            with pytest.raises(BudgetExceeded), recorder.span("model", "mine"):
                made.append(1)
        with recorder.run("no time", seconds=0), pytest.raises(RunDeadlinePassed):
            recorder.effect(made.append)(1)

    capped = next(recorded for recorded in read_runs(project) if recorded.run == run.id)
    spent = sum(step.usd for step in capped.steps)
    begun = [entry.facts for entry in capped.entries if isinstance(entry.facts, ReportBeginFacts)]
    assert 15 < len(made) == len(begun)
    assert spent <= 10_000_000
    assert all(facts.usd > 0 and facts.calls == 1 for facts in begun)
    assert [step.code for step in capped.steps if step.outcome is Outcome.DENIED] == ["budget"]
    with open_forum(project) as opened:
        account = opened.store.account(run.id)
        assert account is not None
        assert account.used.usd == spent


def test_a_gate_waits_for_a_decision(project: Path) -> None:
    """`forum gate approve` decides, or the default after the time."""
    answers = []
    with forum.open(project) as recorder, recorder.run("refunds") as run:
        asked = Thread(target=lambda: answers.append(run.gate("refund 40.00 EUR to Ann?")))
        asked.start()
        with open_forum(project) as opened:
            wait_until(lambda: len(opened.reads.waiting_gates()) == 1)
            ((_, gate),) = opened.reads.waiting_gates()
            shown = opened.reads.read_gate(run.id, gate.opened.subject)[1]
            opened.runs.decide_gate(run.id, gate.opened.subject, Answer.APPROVE, gate.digest)
        asked.join(20)
        answers.append(asyncio.run(run.gate_async("and Bob?", seconds=0.01)))

    assert answers == [True, False]
    assert shown == b"refund 40.00 EUR to Ann?"
    with open_forum(project) as opened:
        assert opened.reads.waiting_gates() == []
        assert opened.store.timers(None, 10, due=False) == []
    assert_verified(project)


@pytest.mark.slow
def test_a_worker_decides_overdue_gates_and_leaves_the_run_alone(project: Path) -> None:
    """Timers of gates wake workers, which must not drive a run that a program makes itself."""
    troubles: list[Exception] = []
    with forum.open(project) as recorder, recorder.run("refunds") as run:
        question = run._question("go on?", "approve", 0.01)  # noqa: SLF001  asked, and not waited
        recorder.sink.ask_gate(question)
        with open_forum(project) as opened, opened.runs.run_worker(report=troubles.append):
            wait_until(lambda: opened.store.timers(None, 10, due=False) == [])
        assert recorder.sink.ask_gate(question) is Answer.APPROVE

    (recorded,) = read_runs(project)
    assert troubles == []
    assert [entry.kind for entry in recorded.entries if entry.strand == "main"] == [
        "run.open/1",
        "report.source/1",
        "run.close/1",
    ]


def test_a_forked_child_continues_in_a_run_of_its_own(project: Path) -> None:
    """Nothing of the child is lost, nothing of the parent is written twice, and nothing hangs."""
    with forum.open(project) as recorder:
        step = recorder.step(same, name="step")
        with recorder.run("parent") as run:
            step("parent")

            def work(who: str) -> None:
                for _ in range(20):
                    step(who)

            context = multiprocessing.get_context("fork")
            children = [context.Process(target=work, args=(f"child {n}",)) for n in range(2)]
            for child in children:
                child.start()
            step("parent")
            for child in children:
                child.join(30)
                assert child.exitcode == 0

    runs = {recorded.source.continues or "parent": recorded for recorded in read_runs(project)}
    everything = read_runs(project)
    assert len(runs["parent"].steps) == 2
    assert [len(r.steps) for r in everything if r.source.continues == run.id] == [20, 20]
    assert {r.source.trace for r in everything} == {run.id.replace("-", "")}
    assert len({r.source.by for r in everything}) == 3
    assert all(r.closed and r.lost == 0 for r in everything)
    assert_verified(project)


def test_a_text_that_grows_when_it_is_normalized_is_bounded_so(project: Path) -> None:
    """U+FDFA has 3 bytes and may be 15 tokens; also where the record keeps a part of the input."""
    with forum.open(project) as recorder, recorder.run("capped", tokens=10**9) as run:
        for length in (1000, 2 * MAX_BODY_BYTES):
            before = run.left.tokens
            with recorder.budget("gpt-4o-mini", input=["\ufdfa" * length], max_tokens=5) as call:
                assert before is not None
                assert run.left.tokens is not None
                assert before - run.left.tokens >= 33 * length
                call.tokens(1, 1)


def test_a_fork_cannot_spend_from_its_parents_budget(project: Path) -> None:
    """The account belongs to the parent's run; the child is told to open its own."""
    with forum.open(project) as recorder, recorder.run("capped", usd=1):
        child = os.fork()
        if child == 0:
            try:
                with recorder.budget("gpt-4o-mini", input="", max_tokens=1):
                    os._exit(1)
            except ForkedFromCappedRun:
                os._exit(0)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


def test_a_step_that_ends_after_its_run_is_recorded_in_another(project: Path) -> None:
    """A closed run takes no entries, so the step continues it."""
    with forum.open(project) as recorder:
        with recorder.run("short") as run:
            late = recorder.span(Operation.TOOL, "late")
            late.start()
        late.finish()

    first, second = sorted(read_runs(project), key=lambda recorded: recorded.source.continues)
    assert (first.steps, second.source.continues) == ([], run.id)
    assert second.step("late").outcome is Outcome.OK


def test_a_run_can_be_part_of_a_span_elsewhere(project: Path) -> None:
    """A `traceparent` of another service makes the run part of its trace."""
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with forum.open(project) as recorder, recorder.run("part", within=header) as run:
        run.note("here")
        assert forum.traceparent().startswith("00-0af7651916cd43dd8448eb211c80319c-")
    (recorded,) = read_runs(project)
    assert recorded.source.trace == header.split("-")[1]
    assert recorded.step("note").within == header.split("-")[2]


def test_the_module_records_by_itself(project: Path) -> None:
    """Without `open`, the recorder of the folder is opened on first use and closed at exit."""
    program = (
        "import forum\n"
        "@forum.step\n"
        "def add(a, b): return a + b\n"
        "with forum.run('sum'):\n"
        "    assert add(2, 3) == 5\n"
    )
    environment = make_project(project)
    subprocess.run([sys.executable, "-c", program], cwd=project, env=environment, check=True)

    (run,) = read_runs(project)
    assert run.step("add").outcome is Outcome.OK
    assert run.closed is not None


def test_what_is_recorded_while_the_interpreter_shuts_down_is_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.12 no thread starts then, and a short program opens its ledger only then."""
    start = Thread.start

    def refuse(thread: Thread) -> None:
        if thread.name != "forum-recorder":
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    monkeypatch.setattr(Thread, "start", refuse)
    with forum.open(project) as recorder, recorder.run("late") as run:
        run.note("here")
    monkeypatch.undo()

    (recorded,) = read_runs(project)
    assert recorded.step("note").outcome is Outcome.OK
    assert recorded.closed is not None
    assert_verified(project)


def test_a_run_that_two_threads_open_closes_with_all_its_steps(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An effect opens its run at once; the writer opens it again, and forgets nothing by that."""
    entered, recorded = Event(), Event()
    open_run = Ledger.open_run

    def open_late(ledger: Ledger, run: str, actor: str, *first: Draft, new: bool) -> Strand:
        if current_thread().name == "forum-recorder":
            entered.set()
            assert recorded.wait(10)
        return open_run(ledger, run, actor, *first, new=new)

    monkeypatch.setattr(Ledger, "open_run", open_late)
    with forum.open(project) as recorder:
        with recorder.run("two openings"):
            assert entered.wait(10)
            recorder.effect(same)(1)
            recorded.set()
        assert recorder.flush()
    (run,) = read_runs(project)

    assert run.closed is not None
    assert run.closed.strands == 1
    assert_verified(project)


def test_a_program_in_a_folder_of_a_project_records_in_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like the command line, which would not find its runs elsewhere."""
    (project / "scripts").mkdir()
    monkeypatch.chdir(project / "scripts")
    with forum.open() as recorder, recorder.run("from below"):
        recorder.step(same)(1)

    assert [run.source.told for run in read_runs(project)] == [ReportProvenance.WRAPPED]


def test_a_run_closes_after_the_steps_that_are_being_recorded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread may record the end of its effect just when the run is closed."""
    finishing, run_ended = Event(), Event()
    finish_step = ReportWriter.finish_step

    def finish_late(writer: ReportWriter, run: ReportedRunWriter, step: StepReport) -> bool:
        finishing.set()
        assert run_ended.wait(10)
        sleep(0.3)  # in which the writer would close the run
        return finish_step(writer, run, step)

    monkeypatch.setattr(ReportWriter, "finish_step", finish_late)
    with forum.open(project) as recorder:
        with recorder.run("closes late") as run:
            context = run.context

            def work() -> None:
                with context:
                    recorder.effect(same)(1)

            thread = Thread(target=work)
            thread.start()
            assert finishing.wait(10)
        run_ended.set()
        thread.join()
        assert recorder.flush()
    (recorded,) = read_runs(project)

    assert (len(recorded.steps), recorded.gaps) == (1, [])
    assert_verified(project)
