"""Loss is counted: what is recorded and what is lost add up to what was handed in, always."""

import random
import signal
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread
from time import sleep

import pytest

import forum
from forum.errors import RecorderQueueFull
from forum.features.recorder.public import Recorder
from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import GapReason
from tests.features.recorder.flood import COUNTER_BYTES, THREADS
from tests.features.recorder.recording import assert_verified, make_project, read_runs, same
from tests.support import wait_until

ROOT = Path(__file__).parent.parent.parent.parent


def flood(folder: Path, seed: int, steps: int, most: int = 100) -> Recorder:
    """Make steps in several threads, into a short queue, as fast as can be."""
    recorder = forum.open(folder, most=most)
    chance = random.Random(seed)
    threads = chance.randrange(1, 5)
    shares = [steps // threads] * threads
    shares[0] += steps - sum(shares)
    barrier = Barrier(threads)

    def work(share: int, runs: int) -> None:
        barrier.wait()
        left = share
        for number in range(runs):
            part = left if number == runs - 1 else left // 2
            with recorder.run(f"flood {number}"):
                for _ in range(part):
                    step(number)
            left -= part

    @recorder.step
    def step(number: int) -> int:
        return number

    workers = [Thread(target=work, args=(share, chance.randrange(1, 4))) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert recorder.close(60)
    return recorder


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_flood_of_steps_is_recorded_or_counted(project: Path, seed: int) -> None:
    """Into a queue of 100 steps, 100,000 steps are either entries or in a gap; none is neither."""
    recorder = flood(project, seed, 100_000)

    runs = read_runs(project)
    recorded, lost = sum(len(run.steps) for run in runs), sum(run.lost for run in runs)
    assert recorded + lost == 100_000
    assert lost == recorder.lost > 0
    assert recorded > 0
    assert {gap.why for run in runs for gap in run.gaps} == {GapReason.OVERFLOW}
    assert all(run.closed and run.closed.outcome is Outcome.OK for run in runs)


def kill_a_flood(folder: Path, seed: int, seconds: float) -> tuple[int, int, int, int]:
    """Kill a program while it records; return what it began, ended, and what the ledger has."""
    environment = make_project(folder)
    counters = folder / "counters"
    counters.write_bytes(bytes(COUNTER_BYTES))
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.features.recorder.flood",
            str(folder),
            str(counters),
            str(seed),
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    words = memoryview(counters.read_bytes()).cast("Q")
    begun, ended = sum(words[0::2]), sum(words[1::2])
    with forum.open(folder):
        pass  # the next process: it records what the killed one has not
    runs = read_runs(folder)
    return begun, ended, sum(len(run.steps) for run in runs), sum(run.lost for run in runs)


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_step_or_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count in the spool makes up the difference, whatever was under way."""
    chance = random.Random(16)
    lost_somewhere = 0
    for number in range(8):
        folder = tmp_path / str(number)
        monkeypatch.setenv("FORUM_STATE_DIR", str(folder / "state"))
        begun, ended, recorded, lost = kill_a_flood(folder, number, chance.random() * 0.6)
        lost_somewhere += lost

        # A thread may have been killed between its own count and ours: at most one step each.
        assert ended <= recorded + lost <= begun <= ended + THREADS, (number, begun, recorded, lost)
        assert not list((folder / ".forum/recorder").iterdir())
        assert all(run.closed is not None for run in read_runs(folder))
    assert_verified(folder)
    assert lost_somewhere > 0


def test_the_same_spool_is_recovered_once(project: Path) -> None:
    """Two processes that find the spool of a dead one at the same time record its gap once."""
    counters = project / "counters"
    kill_a_flood(project, 1, 0.2)
    before = [(run.run, run.lost, len(run.entries)) for run in read_runs(project)]
    for _ in range(2):
        with forum.open(project):
            pass

    assert counters.exists()
    assert [(run.run, run.lost, len(run.entries)) for run in read_runs(project)] == before


def test_an_effect_under_way_at_a_kill_is_indeterminate(project: Path) -> None:
    """Its intent was on record before it began, and the next process records that it was lost."""
    program = (
        "import forum, os, signal\n"
        "rec = forum.open()\n"
        "@rec.effect\n"
        "def pay(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "with rec.run('shop'): pay()\n"
    )
    environment = make_project(project)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, env=environment, check=False
    )
    with forum.open(project):
        pass

    (run,) = read_runs(project)
    assert done.returncode == -signal.SIGKILL
    assert run.step("pay").outcome is Outcome.INDETERMINATE
    assert run.step("pay").code == "lost"
    assert run.lost == 0
    assert run.closed is not None
    assert run.closed.outcome is Outcome.INDETERMINATE


def test_blocking_loses_nothing(project: Path) -> None:
    """A program that asked to wait has all of its steps recorded."""
    with forum.open(project, loss="block", most=3) as recorder:
        step = recorder.step(same)
        with recorder.run("slow"):
            for number in range(500):
                step(number)

    (run,) = read_runs(project)
    assert (len(run.steps), run.gaps, recorder.lost) == (500, [], 0)


def test_raising_refuses_before_the_step(project: Path) -> None:
    """A step that would not be recorded is not made: its caller is told first."""
    made: list[int] = []
    with forum.open(project, loss="raise", most=1) as recorder:
        step = recorder.step(made.append)
        with recorder.run("full"):
            refused = 0
            for number in range(2000):
                try:
                    step(number)
                except RecorderQueueFull:
                    refused += 1
            wait_until(lambda: recorder.flush(1))

    (run,) = read_runs(project)
    assert refused
    assert len(run.steps) == len(made) == 2000 - refused
    assert run.gaps == []


def test_a_terminated_program_flushes_first(project: Path) -> None:
    """SIGTERM ends a program with the status of the signal, and its steps are recorded."""
    program = (
        "import forum, time\n"
        "rec = forum.open()\n"
        "step = rec.step(lambda n: n)\n"
        "with rec.run('service'):\n"
        "    for n in range(50): step(n)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=project,
        env=make_project(project),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()

    assert process.wait(20) == -signal.SIGTERM
    process.stdout.close()
    with forum.open(project):
        pass
    (run,) = read_runs(project)
    assert (len(run.steps), run.lost) == (50, 0)
