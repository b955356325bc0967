"""Deliberations whose workers are killed: real processes, and no word to them."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.kinds import TURN_PREFIX, Why
from forum.runs.policy import ScriptStep
from forum.runs.run_fold import Run
from tests.e2e.project import Project, eventually, project
from tests.engine.office import Office
from tests.engine.panel import (
    QUESTION,
    panel,
    symposium,
    transcript,
)
from tests.spoken import ballot, claiming, synthesis, turn, verdict
from tests.support import StoreFactory

WAYS = (
    (claiming("no", "it is old"), ballot("yes", because=["c1", "c2"])),
    (claiming("yes", "it was tested"), ballot("yes")),
    (ballot("no"), ballot("no")),
)
TURNS = tuple(f"{TURN_PREFIX}ballot.{number}.{seat}" for number in (0, 1) for seat in (1, 2, 3))
WORDS = (
    turn("It is old.", ("ben", "How old?")),
    turn("Forty years."),
    turn("It is rusty."),
    turn("It was tested."),
    turn("I agree."),
    verdict("finalize"),
    synthesis("yes"),
)
SPOKEN = tuple(f"{TURN_PREFIX}turn.{number}" for number in range(1, len(WORDS) + 1))


def in_turns(milliseconds: int) -> RunRequest:
    """Ask three seats who speak one after another."""
    policy = {"parallel": 1}
    return RunRequest(QUESTION, None, panel(*WAYS, milliseconds=milliseconds, policy=policy))


def by_the_open_protocol(milliseconds: int) -> RunRequest:
    """Ask a symposium with a branch."""
    said = ((ScriptStep(words, milliseconds=milliseconds),) for words in WORDS)
    return RunRequest(QUESTION, None, symposium(*said))


Ask = Callable[[int], RunRequest]
"""Returns what is asked, of those who take so many milliseconds for an answer."""


def said(office: Office, run: str) -> dict[str, list[object]]:
    """Return all that was said and noted after the request was taken on."""
    document = transcript(office, run)
    return {**document, "main": document["main"][2:]}


def unbroken(ask: Ask, folder: Path) -> dict[str, list[object]]:
    """Return what a session says that nobody breaks."""
    factory = StoreFactory(folder / "unbroken.db")
    office = Office(factory())
    office.do(ask(0), "run")
    document = said(office, "run")
    factory.close()
    return document


def is_called(home: Project, run: str, turn: str) -> bool:
    """Tell whether a turn's call is being made."""
    calls = home.forum.reads.read_run(run).task(turn).calls
    return bool(calls) and calls[-1].replied is None


def kill_in(home: Project, run: str, turn: str) -> None:
    """Have a worker go on with a session, and kill it in a turn."""
    with home.worker() as worker:
        eventually(lambda: is_called(home, run, turn), 60)
        worker.kill()
        worker.wait()


def check_broken(
    home: Project, run: str, state: Run, turns: dict[str, bool], ask: Ask, folder: Path
) -> None:
    """Check that a session is what it would have been, but for the calls that were lost."""
    assert state.outcome is Outcome.OK
    assert home.answer(run) == b"yes"
    assert said(Office(home.forum.store), run) == unbroken(ask, folder)
    for name, lost in turns.items():
        whys = [call.replied.why for call in state.task(name).calls if call.replied]
        assert whys == ([Why.LOST, Why.NONE] if lost else [Why.NONE]), name
    home.forum.log.publish()
    assert home.forum.log.verify(home.forum.log.read_trust()).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "turns"),
    [(in_turns, TURNS), (by_the_open_protocol, SPOKEN)],
    ids=["council", "symposium"],
)
def test_a_session_goes_on_whichever_turn_its_worker_is_killed_in(
    tmp_path: Path, ask: Ask, turns: tuple[str, ...]
) -> None:
    """In every turn once: what was recorded is not asked again, and nobody hears of the rest."""
    with project(tmp_path / "project", None) as home:
        run = home.submit(ask(1500))
        for name in turns:
            kill_in(home, run, name)
        with home.worker():
            state = home.end(run, 60)

        check_broken(home, run, state, dict.fromkeys(turns, True), ask=ask, folder=tmp_path)


@pytest.mark.postgres
def test_a_session_goes_on_elsewhere_when_its_worker_is_killed(
    tmp_path: Path, postgres_url: str
) -> None:
    """Between the ballots and the exchange: the other worker has nothing but the ledger."""
    with project(tmp_path / "project", postgres_url) as home:
        run = home.submit(in_turns(1500))
        kill_in(home, run, TURNS[3])
        with home.worker():
            state = home.end(run, 60)

        turns = {name: name == TURNS[3] for name in TURNS}
        check_broken(home, run, state, turns, ask=in_turns, folder=tmp_path)


def test_a_worker_that_is_stopped_politely_lets_its_seats_finish(tmp_path: Path) -> None:
    """Others must not think it dead meanwhile: every deploy would pay for its turns again."""
    with project(tmp_path / "project", None) as home, home.worker() as first:
        run = home.submit(in_turns(3000))
        eventually(lambda: is_called(home, run, TURNS[0]))
        first.send_signal(signal.SIGTERM)
        status = first.wait()
        state = home.forum.reads.read_run(run)

    assert status == 0
    assert list(state.tasks) == [TURNS[0]], "nobody else was asked any more"
    assert [call.replied.why for call in state.task(TURNS[0]).calls if call.replied] == [Why.NONE]
