"""Caps over many runs: whichever run meets one is stopped, and says by which."""

from pathlib import Path

import msgspec

from forum.engine import RunRequest, accept_run, read_body, read_run
from forum.ledger.kinds import Outcome, Period
from forum.ledger.ports import NO_LIMIT, Spend
from forum.runs.kinds import StopFacts, StopReason, Why
from forum.runs.panel import Council, Seat
from forum.runs.plan import Task
from forum.runs.policy import LaneBrief, Scripted, ScriptStep
from forum.runs.run_fold import stop_reason
from forum.runs.shared_caps import (
    Caller,
    SharedCap,
    limits_for,
)
from tests.engine.office import RUN, Cut, Office, Power, chain, plan, quick
from tests.engine.test_replay import play
from tests.support import StoreFactory


def cap(usd: int, **members: str) -> tuple[SharedCap, ...]:
    """Return one cap of dollars for a day."""
    return (SharedCap("x", Period.DAY, cap=Spend(usd, NO_LIMIT, NO_LIMIT), **members),)


def costing(usd: int, *tasks: Task, billed: int | None = None) -> RunRequest:
    """Return an order of calls that cost so much."""
    agents = {"": Scripted({"*": (ScriptStep("x", usd=billed),)}, usd=usd)}
    return RunRequest("x", plan(*tasks) if tasks else chain("a"), quick(agents=agents))


def used(office: Office) -> dict[str, int]:
    """Return what was used this day, in dollars and by account."""
    return {use.scope: use.used.usd for use in office.store.budget_use() if len(use.period) == 10}


def test_a_run_that_meets_the_cap_is_stopped_and_says_so(
    factory: StoreFactory, tmp_path: Path
) -> None:
    """Like the budget of its own, and it is played again like that."""
    office = Office(factory(), caps=cap(25))
    runs = [office.do(costing(10), run) for run in ("run-0", RUN, "run-2")]

    assert [run.outcome for run in runs] == [Outcome.OK, Outcome.OK, Outcome.DENIED]
    assert runs[2].stopped == StopFacts(
        StopReason.BUDGET, limit="usd/day/ledger", asked=10, used=20, cap=25, by="a"
    )
    assert len(office.hands.calls) == 2
    assert used(office) == {"ledger": 20}
    assert office.findings() == ()
    office.do(costing(10), "run-3")
    assert play(office, tmp_path) == []


def test_what_a_call_did_not_cost_is_given_back(factory: StoreFactory) -> None:
    """What was reserved is settled with what was spent: more or less."""
    office = Office(factory(), caps=cap(100))
    office.do(costing(60, billed=5), "run-0")
    assert used(office) == {"ledger": 5}
    office.do(costing(60, billed=120), "run-1")
    assert used(office) == {"ledger": 125}

    assert office.do(costing(1), "run-2").outcome is Outcome.DENIED


def test_keys_and_lanes_have_accounts_of_their_own(factory: StoreFactory) -> None:
    """A run within a run is paid by whoever has submitted the outer one."""
    caps = (*cap(25, key="*"), *cap(12, lane="law"))
    office = Office(factory(), caps=caps)
    lanes = {"law": LaneBrief()}
    request = costing(10, Task("n", "x", tasks=(Task("a", "x"), Task("b", "x"))))
    accept_run(office.ledger, "run-0", request, "key/ci/1")
    office.work("run-0")
    assert used(office) == {"key:key/ci/1": 20}

    accept_run(office.ledger, "run-1", costing(10), "key/ci/1")
    accept_run(office.ledger, "run-2", costing(10), "key/ci/2")
    assert office.work("run-1").outcome is Outcome.DENIED
    assert office.work("run-2").outcome is Outcome.OK
    policy = quick(agents={"": Scripted(usd=10)}, lanes=lanes)
    lawyers = plan(Task("a", "x", lane="law"), Task("b", "x", lane="law", after=("a",)))
    office.accept(RunRequest("x", lawyers, policy), "run-3")
    stopped = office.work("run-3").stopped
    assert stopped is not None
    assert (stopped.limit, stopped.by) == ("usd/day/lane:law", "b")


def test_a_cap_that_is_met_within_is_told_outside(factory: StoreFactory, tmp_path: Path) -> None:
    """However deep within: each reply of a run within has the reason and the facts of the stop."""
    office = Office(factory(), caps=cap(25))
    deep = Task("x", "x", tasks=(Task("deep", "x"),))
    run = office.do(costing(30, Task("n", "x", tasks=(deep, Task("y", "x", after=("x",))))))
    call = run.task("n").result
    assert call is not None
    assert call.replied is not None
    assert call.reply_at is not None
    body = read_body(office.ledger, call.reply_at, "error")

    assert run.stopped is None
    assert stop_reason(run) is StopReason.BUDGET
    assert (call.replied.why, call.replied.code) == (Why.ERROR, "budget")
    stopped = msgspec.json.decode(body, type=StopFacts)
    assert stopped == StopFacts(
        StopReason.BUDGET, limit="usd/day/ledger", asked=30, used=0, cap=25, by="deep"
    )
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_a_call_that_was_lost_stays_paid(factory: StoreFactory) -> None:
    """Its process is gone with what it had reserved; the rest of its slice can be used."""
    request = costing(10)
    for commits in range(3, 7):
        made = factory.beside()
        power = Power(made(), commits, persisted=True)
        office = Office(made(), append=power.append, caps=cap(1000))
        try:
            office.do(request)
        except Cut:
            Office(made(), caps=cap(1000)).work()
        office = Office(made(), caps=cap(1000))
        run = read_run(office.ledger, RUN)
        assert run.outcome is Outcome.OK
        lost = [
            c
            for t in run.tasks.values()
            for c in t.calls
            if c.replied and c.replied.why is Why.LOST
        ]
        assert used(office)["ledger"] == 10 + 10 * len(lost) == run.spent.usd
        assert office.findings() == ()


def test_many_tasks_at_once_pass_no_cap(factory: StoreFactory) -> None:
    """What is reserved counts: also that of calls which are under way."""
    office = Office(factory(), caps=cap(200))
    tasks = [Task(f"t{n}", "x") for n in range(40)]
    agents = {"": Scripted({"*": (ScriptStep("x", milliseconds=5),)}, usd=10)}
    run = office.do(RunRequest("x", plan(*tasks), quick(agents=agents, parallel=16)))

    assert run.outcome is Outcome.DENIED
    assert len(office.hands.calls) == 20
    assert used(office) == {"ledger": 200}


def test_a_session_that_meets_the_cap_verifies(factory: StoreFactory) -> None:
    """A reader cannot know what other runs have used, and does not call it a breach."""
    office = Office(factory(), caps=cap(25))
    panel = Council(tuple(Seat(name) for name in ("a", "b", "c")), baseline=0)
    agents = {name: Scripted(usd=10) for name in ("", "a", "b", "c")}
    run = office.do(RunRequest("Which?", None, quick(agents=agents, panel=panel)))

    assert run.stopped is not None
    assert run.stopped.limit == "usd/day/ledger"
    assert office.findings() == ()


def test_the_lowest_of_several_caps_holds() -> None:
    """Two sections about the same account are one."""
    caps = (
        SharedCap("a", Period.DAY, cap=Spend(5, 9, NO_LIMIT)),
        SharedCap("b", Period.DAY, cap=Spend(7, 3, 1)),
        SharedCap("c", Period.MONTH, lane="l*", cap=Spend(1, 1, 1)),
        SharedCap("d", Period.MONTH, key="ci", cap=Spend(2, 2, 2)),
    )
    document = {
        (f.scope, f.per.value): f.cap for f in limits_for(caps, Caller("key/ci/1", ("law", "")), {})
    }

    assert document == {
        ("ledger", "day"): (5, 3, 1),
        ("lane:law", "month"): (1, 1, 1),
        ("key:key/ci/1", "month"): (2, 2, 2),
    }
    assert [f.scope for f in limits_for(caps, Caller("operator"), {})] == ["ledger"]
