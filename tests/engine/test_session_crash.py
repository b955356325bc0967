"""The crash table of sessions: wherever a process dies, the next one hears what was said.

As in `test_crash`, each story is played once without a crash, and then with one before and after
its commits.  Prompts, ballots, notes and the report are those of an unbroken session.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forum.engine import ModelCall, RunRequest, cancel_run, read_run
from forum.ledger.kinds import JoinFacts, Outcome
from forum.runs.kinds import CONTROL, CallFacts, DelegationFacts, ReplyFacts
from forum.runs.panel import Council
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import ScriptStep
from tests.engine.office import PERSON, RUN, Cut, Office, Power, plan, quick
from tests.engine.panel import (
    DIVIDED,
    PRICE,
    QUESTION,
    Way,
    checked,
    judged,
    panel,
    report_of,
    split,
    symposiast,
    transcript,
)
from tests.engine.test_crash import Table, check_hands
from tests.spoken import ballot
from tests.support import StoreFactory


def failing() -> RunRequest:
    """Ask a council in which one seat has to be asked again, and one fails."""
    ways: tuple[Way, ...] = (*DIVIDED[:4], (ScriptStep(fail="503"),))
    return RunRequest(QUESTION, None, panel(*ways))


def seated_in_a_task() -> RunRequest:
    """Ask for a plan with a council in it."""
    policy = panel(*DIVIDED)
    assert isinstance(policy.panel, Council)
    decide = Task("decide", QUESTION, panel=policy.panel, budget=RunBudget(usd=50 * PRICE))
    tasks = plan(decide, Task("act", "Act on it.", needs=("decide",)))
    return RunRequest("See to it.", tasks, quick(agents=policy.agents), RunBudget(usd=1000 * PRICE))


STORIES: dict[str, Callable[[], RunRequest]] = {
    "exchange": split,
    "judge": judged,
    "check": checked,
    "failing": failing,
    "task": seated_in_a_task,
    "symposium": symposiast,
}
"""Each is an order whose session says the same whenever it is played."""
EVERY = ("exchange", "symposium")
"""Those that are cut at each of their commits; the others, which are like them, at every third."""


def said(office: Office) -> dict[str, Any]:
    """Return the transcripts of a run, and of the runs within it."""
    within = [e.facts.run for e in office.entries() if isinstance(e.facts, DelegationFacts)]
    return {run: transcript(office, run) for run in (RUN, *within)}


@pytest.mark.slow
@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", STORIES)
def test_a_session_survives_a_crash_wherever_it_comes(
    folder: Path, story: str, *, persisted: bool
) -> None:
    """Whoever takes over comes to the same prompts and the same end; no reply is paid twice."""
    table = Table(folder, STORIES[story]())
    whole, _ = table.play()
    stride = 1 if story in EVERY else 3
    expected, commits = said(whole), 0
    while True:
        office, broken = table.play(commits, persisted=persisted)
        if not broken:
            break
        assert said(office) == expected, f"after a crash at commit {commits}"
        assert office.findings() == ()
        assert office.alarms() == []
        check_hands(office)
        commits += stride

    assert commits > 15


def too_dear(office: Office) -> None:
    """Carry out a council that cannot pay for all of its turns."""
    request = RunRequest(QUESTION, None, split(milliseconds=5).policy, RunBudget(usd=7 * PRICE))
    if not office.store.strands(RUN):
        office.accept(request)
    office.work()


def cancelled(office: Office) -> None:
    """Carry out a council that somebody ends, whoever carries it out then."""
    if not office.store.strands(RUN):
        ways = ((first, ScriptStep("late", milliseconds=20_000)) for first, _ in DIVIDED)
        office.accept(RunRequest(QUESTION, None, panel(*ways)))

    def stop(call: ModelCall) -> None:
        if call.task.startswith("~ballot.1.") and not office.store.last_entry(RUN, CONTROL):
            cancel_run(office.ledger, RUN, PERSON)

    office.hands.at_call = stop
    office.work()


@pytest.mark.slow
@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("story", "outcome"), [(too_dear, Outcome.DENIED), (cancelled, Outcome.CANCELLED)]
)
def test_a_session_that_is_stopped_survives_a_crash_wherever_it_comes(
    folder: Path, story: Callable[[Office], None], outcome: Outcome, *, persisted: bool
) -> None:
    """Whoever takes over ends it: what was stopped stays stopped, and is told as it was."""
    commits, broken = 0, True
    while broken:
        factory = StoreFactory(folder / f"{commits}.db")
        power = Power(factory(), commits, persisted=persisted)
        first = Office(factory(), append=power.append)
        try:
            story(first)
        except Cut:
            story(Office(factory(), first.hands))
        _check_stopped(Office(factory(), first.hands), outcome, f"a crash at commit {commits}")
        factory.close()
        broken, commits = power.failed, commits + 2

    assert commits > 15


def _check_stopped(office: Office, outcome: Outcome, when: str) -> None:
    run, entries = read_run(office.ledger, RUN), office.entries()
    made = [entry for entry in entries if isinstance(entry.facts, CallFacts)]
    answered = [entry for entry in entries if isinstance(entry.facts, ReplyFacts)]
    account = office.account()

    assert run.outcome is outcome, when
    assert report_of(office).end == "stopped", when
    assert all(task.state.is_end for task in run.tasks.values()), when
    assert len(made) == len(answered), "what was reserved is settled"
    assert not account.used.exceeds(account.cap), when
    assert office.findings() == ()
    assert office.alarms() == []


def test_a_crash_between_what_joins_ballots_and_what_follows_from_them(folder: Path) -> None:
    """Twenty ballots need a join: whoever comes next finds it, and does not join them again."""
    ways = tuple((ballot("yes" if seat % 3 else "no"),) for seat in range(20))
    request = RunRequest(QUESTION, None, panel(*ways, baseline=0, rounds=0))
    factory = StoreFactory(folder / "ledger.db")
    power, store = Power(factory(), 0, persisted=True), factory()

    def append(records: Any) -> None:  # noqa: ANN401
        joins = any(b'"kind":"join/1"' in record.data for record in records)
        (power.append if joins or power.failed else store.append)(records)

    first = Office(factory(), append=append)
    with pytest.raises(Cut):
        first.do(request)
    second = Office(factory(), first.hands)
    run = second.work()
    main = [entry for entry in second.entries() if entry.strand == "main"]
    joins = [entry.step for entry in main if isinstance(entry.facts, JoinFacts)]

    assert power.failed
    assert run.outcome is Outcome.OK
    assert len(report_of(second).seats) == 20
    assert len({entry.step for entry in main}) == len(main)
    assert joins == ["baseline/join/1", "reveal/0/join/1", "council.close/join/1", "join/1"]
    assert second.findings() == ()
    factory.close()
