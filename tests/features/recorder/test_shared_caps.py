"""`[budgets]` count what programs record by the SDK, and keep it from passing them."""

import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import forum
from forum.errors import BudgetExceeded
from forum.features.recorder.report_charges import ReportCharges
from forum.features.recorder.report_items import RunStart, StepBegin, StepReport
from forum.features.recorder.report_writer import ReportWriter
from forum.ledger.kinds import Outcome
from forum.ledger.ports import BudgetUse
from forum.runs.report_kinds import Operation
from tests.features.recorder.recording import open_forum, read_runs

CAP = '[budgets.daily]\nper = "day"\nusd = 0.001\n'
CAP_NANO = 1_000_000

SPEND = """
import forum
from forum.errors import BudgetExceeded
made = 0
with forum.run("spender"):
    for _ in range(200):
        try:
            with forum.budget("gpt-4o-mini", input="hello", max_tokens=100) as call:
                made += 1
                call.tokens(5, 90)
        except BudgetExceeded:
            break
print(made)
"""


def uses(folder: Path) -> list[BudgetUse]:
    """Return what caps count as used."""
    with open_forum(folder) as opened:
        return list(opened.store.budget_use())


def spent(folder: Path) -> int:
    """Return what the cap of the day counts as used."""
    return sum(use.used.usd for use in uses(folder))


@pytest.mark.parametrize("usd", [1, None])
def test_a_cap_of_the_day_refuses_calls_of_the_sdk(project: Path, usd: int | None) -> None:
    """With a cap of the run and without; a refusal is recorded, and nothing is left reserved."""
    (project / "forum.toml").write_text(CAP)
    with forum.open(project) as recorder, recorder.run("x", usd=usd):
        for _ in range(2):
            with recorder.budget("gpt-4o-mini", input="hello", max_tokens=100) as call:
                call.tokens(5, 100)
        with (
            pytest.raises(BudgetExceeded, match="per day for ledger") as refused,
            recorder.budget("gpt-4o-mini", input="hello", max_tokens=10_000),
        ):
            pass
    (run,) = read_runs(project)

    assert refused.value.cap == CAP_NANO
    assert sorted(step.outcome for step in run.steps) == ["denied", "ok", "ok"]
    assert spent(project) == sum(step.usd for step in run.steps) > 0


def test_a_cap_of_an_agent_holds_for_a_program_of_that_name(project: Path) -> None:
    """The agent is the one that a step names, or else the run; others go on."""
    (project / "forum.toml").write_text(f'{CAP}agent = "spender"\n')
    made: Counter[str] = Counter()
    with forum.open(project) as recorder:
        for name in ("spender", "other"):
            with recorder.run(name), suppress(BudgetExceeded):
                for _ in range(3):
                    with recorder.budget("gpt-4o-mini", input="hello", max_tokens=400) as call:
                        call.tokens(5, 400)
                    made[name] += 1

    assert made == {"spender": 2, "other": 3}
    assert {use.scope for use in uses(project)} == {"agent:spender"}


def test_processes_share_the_cap(project: Path) -> None:
    """Each holds a part of it; together they use it up, and no more."""
    (project / "forum.toml").write_text(CAP.replace("0.001", "0.01"))
    programs = [
        subprocess.Popen([sys.executable, "-c", SPEND], cwd=project, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    made = sum(int(program.communicate(timeout=120)[0]) for program in programs)
    cost = sum(step.usd for run in read_runs(project) for step in run.steps)

    assert 0 < cost <= 10 * CAP_NANO
    assert spent(project) == cost
    assert made == sum(step.outcome == "ok" for run in read_runs(project) for step in run.steps)
    assert 10 * CAP_NANO - cost < 3 * 370_000  # the bound of a call of each process


def test_what_is_recorded_afterwards_is_counted_too(project: Path) -> None:
    """Nobody can refuse a call that was made, but the next one has to wait for it."""
    (project / "forum.toml").write_text(CAP)
    with forum.open(project) as recorder, recorder.run("x"):
        with recorder.span("model", "gpt-4o-mini", provider="openai") as call:
            call.tokens(1_000_000, 0)
        recorder.flush()
        with (
            pytest.raises(BudgetExceeded),
            recorder.budget("gpt-4o-mini", input="hello", max_tokens=1),
        ):
            pass

    assert spent(project) == 150_000_000


def test_a_gateway_counts_the_calls_of_its_program_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program under `forum run` that records its calls as well would pay for them twice."""
    (project / "forum.toml").write_text(CAP)
    monkeypatch.setenv("FORUM_RUN", "01a1f698-9590-791c-b9fc-9c84500e3f31")
    with (
        forum.open(project) as recorder,
        recorder.run("x", usd=1),
        recorder.budget("gpt-4o-mini", input="hello", max_tokens=100) as call,
    ):
        call.tokens(5, 100)

    assert spent(project) == 0


@pytest.mark.parametrize("is_same_process", [True, False])
def test_a_writer_of_another_request_settles_a_call(
    project: Path, *, is_same_process: bool
) -> None:
    """A server has a writer for each request; a process that did not begin it gives nothing back.

    It does not know which day has paid.
    """
    (project / "forum.toml").write_text(CAP)
    begin = StepBegin(run="r", span="a1", op=Operation.MODEL, name="m", usd=500_000, calls=1)
    end = StepReport(run="r", span="a1", op=Operation.MODEL, name="m", outcome=Outcome.OK,
                     usd=100_000, begun=True)  # fmt: skip
    with open_forum(project) as made:
        made.keys.initialise()
    with (
        open_forum(project) as first,
        open_forum(project) as other,
        first.log.open_writer() as ledger,
    ):
        second = first if is_same_process else other
        writers = [
            ReportWriter(ledger, "key-1", charges=ReportCharges(each.runs.budgets, "key-1"))
            for each in (first, second)
        ]
        assert not writers[0].write([RunStart(run="r", name="r"), begin]).refused
        reserved = spent(project)
        assert not writers[1].write([end, end]).refused
        settled = spent(project)

    assert (reserved, settled) == (500_000, 100_000 if is_same_process else 500_000)
