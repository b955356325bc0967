"""Replays and forks: what is on record is taken from there, and nobody is asked."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from forum.engine import (
    ModelCall,
    RunRequest,
    ToolInvocation,
    accept_run,
    cancel_run,
    read_run,
    replay_run,
)
from forum.errors import GateAlreadyDecided, ReplayMiss, StoreFailed
from forum.features.claims.service import find_claims
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import EntryStore, EntryWrite, Position
from forum.runs.kinds import AcceptedFacts, Basis, ReplyOrigin, RouteFacts, Why
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import Answer, Role, Scripted, ScriptStep, ToolCall, ToolSpec
from forum.runs.run_comparison import Divergence
from forum.stores.sqlite import SqliteStore
from tests.engine.office import (
    KINDS,
    PERSON,
    RUN,
    Cut,
    Hands,
    Office,
    Power,
    chain,
    now,
    plan,
    quick,
    until,
)
from tests.engine.team import CHIEF, WHOLE, order, team
from tests.support import StoreFactory

PAY = ToolCall("pay", "1200 to ACME")
TOOLS = {"pay": ToolSpec(("pay",))}


def test_a_run_is_played_again_after_the_clean_up(office: Office, tmp_path: Path) -> None:
    """What stands beside a run is of no use to a replay."""
    agents = {"": Scripted(usd=10)}
    office.do(RunRequest("x", chain("a", "b"), quick(agents=agents), RunBudget(usd=70)))
    cleaned = office.store.clean_up(0, 100)

    assert (cleaned, office.store.account(RUN)) == (1, None)
    assert play(office, tmp_path) == []


def play(office: Office, folder: Path, clock: Callable[[], int] = now) -> list[Divergence]:
    """Play a run again, with agents and tools that must not be asked."""
    store = SqliteStore(folder / "replay.db", office.store.origin)
    try:
        scratch = Ledger(store, KINDS, clock, lambda: b"s" * 32)
        idle = Hands()
        divergences = asyncio.run(
            replay_run(
                office.ledger,
                RUN,
                scratch,
                idle.model,
                open_tools=idle.open_tools,
                find_claims=find_claims,
            )
        )
        assert not idle.calls
        assert not idle.deeds
        return divergences
    finally:
        store.close()


def retried(office: Office) -> None:
    """Leave a run that failed, was tried again, and went up the ladder."""
    agents = {
        "": Scripted({"*": (ScriptStep(fail="503"), ScriptStep("no"))}),
        "strong": Scripted({"*": (ScriptStep("good"),)}),
    }
    policy = quick(agents=agents, ladder=("strong",))
    office.do(
        RunRequest("x", plan(Task("a", "x", "contains good"), Task("b", "y", needs=("a",))), policy)
    )


def paid(office: Office) -> None:
    """Leave a run with an effect."""
    agents = {"": Scripted({"*": (ScriptStep("", use=(PAY,)), ScriptStep("paid"))})}
    office.do(RunRequest("x", chain("a"), quick(agents=agents, tools=TOOLS)))


def approved(office: Office) -> None:
    """Leave a run that was approved."""
    office.do(RunRequest("x", chain("a", "b"), quick(gates=("plan", "task:b"))))
    office.decide("plan", Answer.APPROVE)
    office.work()
    office.decide("task/b", Answer.APPROVE)
    office.work()


def rejected(office: Office) -> None:
    """Leave a run that was rejected."""
    office.do(RunRequest("x", chain("a", "b"), quick(gates=("task:a",))))
    office.decide("task/a", Answer.REJECT)
    office.work()


def cancelled(office: Office) -> None:
    """Leave a run that somebody ended in the middle of a call."""
    agents = {"": Scripted({"*": (ScriptStep("slow", milliseconds=20_000),)})}
    office.accept(RunRequest("x", chain("a", "b"), quick(agents=agents)))

    async def stop(_: Office) -> None:
        await until(lambda: bool(office.hands.calls))
        await asyncio.to_thread(cancel_run, office.ledger, RUN, PERSON)

    office.work(meanwhile=stop)


def too_dear(office: Office) -> None:
    """Leave a run that was stopped by its budget, beside calls in flight."""
    agents = {"": Scripted({"*": (ScriptStep("x", milliseconds=30),)}, usd=10)}
    tasks = plan(*(Task(f"t{i}", "x") for i in range(12)), Task("last", "x", needs=("t0",)))
    office.do(RunRequest("x", tasks, quick(agents=agents, parallel=6), RunBudget(usd=75)))


def too_late(office: Office) -> None:
    """Leave a run whose time was over while it waited at a gate."""
    request = RunRequest(
        "x", chain("a", "b"), quick(gates=("task:b",)), RunBudget(milliseconds=400)
    )
    office.do(request)
    asyncio.run(asyncio.sleep(0.5))
    office.work()


def nested(office: Office) -> None:
    """Leave a run with a plan within its plan, and siblings that spend meanwhile."""
    within = Task("n", "x", tasks=(Task("x", "x"), Task("y", "x", needs=("x",))))
    agents = {"": Scripted(usd=10)}
    office.do(
        RunRequest("x", plan(Task("a", "x"), within), quick(agents=agents), RunBudget(usd=1000))
    )


def by_a_team(office: Office) -> None:
    """Leave a run that a whole team has answered."""
    office.do(WHOLE)


def misplanned(office: Office) -> None:
    """Leave a run for which there was no plan."""
    chief = Scripted({**CHIEF.moves, "@coordinator": (ScriptStep("no plan"),)})
    office.do(replace(WHOLE, policy=team(agents={"": Scripted(), "chief": chief}, roles=PLANNING)))


def too_dear_to_sum_up(office: Office) -> None:
    """Leave a run whose budget was used up when it came to the answer."""
    office.do(replace(WHOLE, budget=RunBudget(usd=19)))


def too_dear_to_plan(office: Office) -> None:
    """Leave a run whose budget was used up before there was a plan."""
    office.do(replace(WHOLE, budget=RunBudget(usd=4)))


def too_dear_without_a_lane(office: Office) -> None:
    """Leave a run whose Classifier gave up, and which the budget stopped much later."""
    moves = {**CHIEF.moves, "@classifier": (ScriptStep("hm"),)}
    agents = {**WHOLE.policy.agents, "chief": Scripted(moves, CHIEF.usd)}
    office.do(RunRequest(WHOLE.request, None, team(agents=agents), RunBudget(usd=14)))
    run = read_run(office.ledger, RUN)
    assert run.routed == RouteFacts("", Basis.CLASSIFIER)
    assert "elbe" in run.tasks


def told_of(office: Office) -> None:
    """Leave a run that says what it did, with a receipt."""
    agents = {"": Scripted({"*": (ScriptStep("", use=(PAY,)), ScriptStep("I sent 1200 to ACME."))})}
    office.do(RunRequest("x", chain("a"), quick(agents=agents, tools=TOOLS)))
    run = read_run(office.ledger, RUN)
    assert run.answered is not None
    assert (run.answered.claims, run.answered.unverified) == (1, 0)


PLANNING = {Role.CLASSIFIER: "chief", Role.COORDINATOR: "chief"}
STORIES = [
    retried,
    paid,
    approved,
    rejected,
    cancelled,
    too_dear,
    too_late,
    nested,
    by_a_team,
    misplanned,
    too_dear_to_sum_up,
    too_dear_to_plan,
    too_dear_without_a_lane,
    told_of,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_replay_says_what_the_record_says(
    office: Office, tmp_path: Path, story: Callable[[Office], None]
) -> None:
    """Step by step and byte by byte, whatever ended the run, and without asking anybody."""
    story(office)

    assert read_run(office.ledger, RUN).outcome is not None
    assert play(office, tmp_path) == []


def test_a_replay_may_take_longer_than_its_run(office: Office, tmp_path: Path) -> None:
    """It is over when its record is: no clock of today ends it."""
    policy = quick(
        agents={"": Scripted({"*": (ScriptStep("", use=(PAY,)), ScriptStep("paid"))})}, tools=TOOLS
    )
    run = office.do(RunRequest("x", chain("a"), policy, RunBudget(milliseconds=60_000)))
    minutes = count(now(), 60_000_000)

    assert run.outcome is Outcome.OK
    assert play(office, tmp_path, lambda: next(minutes)) == []


LOOKS = ("look", "look again", "outside", "outside again")
TWICE = order(
    tools={name: ToolSpec((name,)) for name in LOOKS}, context=LOOKS[:2], verifiers=LOOKS[2:]
)
"""A request for which everything is looked at twice."""


@pytest.mark.slow
def test_a_run_that_was_cancelled_anywhere_is_played_to_the_same_end(folder: Path) -> None:
    """In every call and every look of a team: what came after it in the record comes nowhere."""
    begun, last = 0, ""
    while last != LOOKS[-1]:
        begun += 1
        place = folder / str(begun)
        place.mkdir()
        factory = StoreFactory(place / "ledger.db")
        office = Office(factory())
        last = _cancel_at(office, begun)

        assert read_run(office.ledger, RUN).outcome is Outcome.CANCELLED, last
        assert play(office, place) == [], last
        assert office.findings() == (), last
        factory.close()
    assert begun == 15


def _cancel_at(office: Office, nth: int) -> str:
    """Cancel a run in the n-th thing that it has done, and say what that was."""
    done: list[str] = []

    def note(what: ModelCall | ToolInvocation) -> None:
        done.append(what.tool if isinstance(what, ToolInvocation) else what.task)
        if len(done) == nth:
            cancel_run(office.ledger, RUN, PERSON)

    office.hands.at_call = office.hands.at_deed = note
    office.do(TWICE)
    return done[nth - 1]


def test_a_call_and_an_effect_that_died_are_played_as_they_died(
    factory: StoreFactory, tmp_path: Path
) -> None:
    """What was lost is on record as lost; a replay neither makes up for it nor does it again."""
    agents = {"": Scripted({"*": (ScriptStep("", use=(PAY,)), ScriptStep("paid"))})}
    request = RunRequest("x", chain("a"), quick(agents=agents, tools=TOOLS))
    first = Office(factory(), append=(power := Power(factory(), 4, persisted=False)).append)
    with pytest.raises(Cut):
        first.do(request)
    second = Office(factory())
    second.work()
    second.decide("effect/a/1", Answer.APPROVE)
    run = second.work()

    assert power.failed
    assert run.outcome is Outcome.OK
    assert [use.happened.why for use in run.task("a").uses if use.happened] == [Why.LOST]
    assert play(second, tmp_path) == []


def test_a_record_with_a_hole_is_not_played(office: Office, tmp_path: Path) -> None:
    """A miss is an error: a reply that was erased is not asked for again."""
    paid(office)
    reply = next(e for e in office.entries() if e.kind == "reply/1")
    office.store.erase_bodies([(Position(reply.run, reply.strand, reply.n), "output")])

    with pytest.raises(ReplayMiss, match="erased"):
        play(office, tmp_path)


def test_a_fork_takes_replies_and_pays_for_none_of_them(office: Office) -> None:
    """They were paid by the run that it forks."""
    agents = {"": Scripted({"*": (ScriptStep("said"),)}, usd=10)}
    office.do(RunRequest("x", chain("a", "b"), quick(agents=agents)))
    at = next(
        office.ledger.find_entry(leaf.hex()).index or 0
        for leaf, entry in office.told()
        if (entry.strand, entry.kind) == ("task/a", "verdict/1")
    )
    accept_run(
        office.ledger,
        "fork",
        RunRequest("x", chain("a", "b"), quick(agents=agents)),
        PERSON,
        origin=AcceptedFacts(fork_run=RUN, fork_index=at),
    )
    run = office.work("fork")
    sources = [run.task(name).calls[0].replied for name in ("a", "b")]

    assert run.outcome is Outcome.OK
    assert [reply.source for reply in sources if reply] == [ReplyOrigin.RECORDED, ReplyOrigin.LIVE]
    assert office.account("fork").used.usd == 10
    assert len(office.hands.calls) == 3


def test_a_fork_does_not_take_the_outcome_of_another_effect(office: Office) -> None:
    """The place in the script is the same, but what is wanted is not."""
    agents = {"": Scripted({"*": (ScriptStep("", use=(PAY,)), ScriptStep("paid"))})}
    office.do(RunRequest("x", chain("a"), quick(agents=agents, tools=TOOLS)))
    other = {
        "": Scripted(
            {"*": (ScriptStep("", use=(ToolCall("pay", "5 to BOB"),)), ScriptStep("paid"))}
        )
    }
    tasks = plan(Task("a", "Pay somebody else."))
    origin = AcceptedFacts(fork_run=RUN, fork_index=1_000_000)
    accept_run(
        office.ledger,
        "fork",
        RunRequest("x", tasks, quick(agents=other, tools=TOOLS)),
        PERSON,
        origin=origin,
    )
    run = office.work("fork")

    assert run.outcome is Outcome.OK
    assert [b"".join(invocation.arguments.chunks()) for invocation in office.hands.deeds] == [
        b"1200 to ACME",
        b"5 to BOB",
    ]


def test_an_approval_that_comes_too_late_is_refused(office: Office) -> None:
    """Nobody was there to record the default, but the time was over all the same."""
    policy = quick(gates=("task:a",), gate_milliseconds=200)
    office.do(RunRequest("x", chain("a"), policy))
    asyncio.run(asyncio.sleep(0.3))

    with pytest.raises(GateAlreadyDecided, match="reject"):
        office.decide("task/a", Answer.APPROVE)
    assert office.work().outcome is Outcome.FAILED


def test_a_paid_reply_outlives_a_database_that_is_away(factory: StoreFactory) -> None:
    """Retry the commit, never the call."""
    store = factory()
    office = Office(store, append=(outage := Outage(store)).append)
    office.hands.at_call = lambda _: outage.begin(3)
    run = office.do(RunRequest("x", chain("a"), quick(agents={"": Scripted(usd=10)})))

    assert run.outcome is Outcome.OK
    assert outage.refused == 3
    assert len(run.task("a").calls) == 1
    assert office.account().used.usd == 10


class Outage:
    """A database that refuses some commits."""

    def __init__(self, store: EntryStore) -> None:
        self._store, self._left = store, 0
        self.refused = 0

    def begin(self, commits: int) -> None:
        """Refuse so many commits from now on."""
        self._left = commits

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit, or refuse."""
        if self._left:
            self._left -= 1
            self.refused += 1
            raise StoreFailed("appending", "the disk is full")
        self._store.append(records)
