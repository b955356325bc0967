"""The crash table: wherever a process dies, the next one goes on as if nothing had happened.

A whole run is played without a crash.  Then it is played again with a crash before and after each
of its commits, and a new process takes over.  What is recorded in the end is what an unbroken run
records, apart from calls that were lost and effects that nobody can vouch for; and every ledger
verifies.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from forum.engine import ModelCall, RunRequest, cancel_run, edit_gate, read_run
from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs.kinds import (
    CallFacts,
    DelegationFacts,
    OutcomeFacts,
    ReplyFacts,
    StopReason,
    Why,
    task_strand,
)
from forum.runs.plan import RunBudget, Task, write_plan
from forum.runs.policy import Answer, Scripted, ScriptStep, ToolCall, ToolSpec
from forum.runs.run_fold import TaskState
from tests.engine.office import PERSON, RUN, Cut, Hands, Office, Power, chain, plan, quick, until
from tests.engine.team import WHOLE
from tests.support import StoreFactory

ASK = ToolCall("ask", '{"agent":"b","text":"how?"}')
PAY = ToolCall("pay", "1")

FAILING = RunRequest(
    "fails, is tried again, handed up and skipped",
    plan(
        Task("a", "x", "contains good"),
        Task("b", "x", needs=("a",)),
        Task("c", "x", needs=("b",)),
        Task("d", "x", after=("a",)),
    ),
    quick(
        agents={
            "": Scripted(
                {
                    "a": (ScriptStep(fail="503"), ScriptStep("bad")),
                    "b": (ScriptStep(fail="503"),),
                    "d": (ScriptStep("fine"),),
                },
                usd=5,
            ),
            "big": Scripted({"a": (ScriptStep("good"),), "b": (ScriptStep(fail="503"),)}, usd=7),
        },
        ladder=("big",),
        retries=1,
        gates=("task:c",),
    ),
    RunBudget(usd=1000),
)

pytestmark = pytest.mark.usefixtures("ownership")

USING = RunRequest(
    "asks, pays, tries again and waits for approval",
    plan(Task("a", "x"), Task("b", "x", needs=("a",))),
    quick(
        agents={
            "": Scripted(
                {
                    "a": (
                        ScriptStep("hm", use=(ASK, PAY)),
                        ScriptStep(fail="503"),
                        ScriptStep("once more", use=(PAY,)),
                        ScriptStep("ok"),
                    ),
                    "b": (ScriptStep("done"),),
                }
            ),
            "b": Scripted({"*": (ScriptStep("so"),)}),
        },
        tools={"pay": ToolSpec(("pay",))},
        gates=("task:b",),
    ),
)

NESTED = RunRequest(
    "a plan within a plan",
    plan(
        Task("a", "x"),
        Task(
            "n",
            "x",
            needs=("a",),
            tasks=(Task("a", "x"), Task("z", "x", needs=("a",))),
            budget=RunBudget(usd=50),
        ),
        Task("c", "x", needs=("n",)),
    ),
    quick(agents={"": Scripted(usd=10)}),
    RunBudget(usd=100),
)

EDITED = RunRequest(
    "a plan that is edited, and then costs too much",
    plan(Task("a", "x")),
    quick(agents={"": Scripted(usd=10), "dear": Scripted(usd=1000)}, gates=("plan",)),
    RunBudget(usd=500),
)
OTHER = plan(
    Task("a", "another"),
    Task("b", "x", needs=("a",), agent="dear"),
    Task("c", "x", needs=("b",)),
)

ORDERS = {
    "failing": FAILING,
    "using": USING,
    "nested": NESTED,
    "edited": EDITED,
    "team": WHOLE,
}


def live(office: Office, request: RunRequest) -> None:
    """Do what is left to be done of a run, as its workers and its people would."""
    if not office.store.strands(RUN):
        office.accept(request)
    while office.work().outcome is None:
        gates = read_run(office.ledger, RUN).open_gates
        assert gates, "somebody must have the word"
        for gate in gates:
            subject, digest = gate.opened.subject, gate.digest
            if subject == "plan" and gate.shown_at.n == 0:
                digest = edit_gate(
                    office.ledger, RUN, subject, digest, shown=write_plan(OTHER), actor=PERSON
                )
            office.decide(subject, Answer.APPROVE, digest=digest)


def outline(office: Office, run: str = RUN) -> dict[str, list[str]]:
    """Return what a run says, strand by strand, apart from what only a crash brings about."""
    strands: dict[str, list[str]] = {}
    inner: dict[str, list[str]] = {}
    for entry in office.entries(run):
        if entry.strand.startswith("gate/effect/") or entry.step.endswith("/settled"):
            continue
        texts = strands.setdefault(entry.strand, [])
        if _was_lost(entry):
            texts.pop()  # the call that was lost, or the look
        else:
            texts.append(_summary(office, entry))
        if isinstance(entry.facts, DelegationFacts):
            within = outline(office, entry.facts.run)
            inner = {f"{entry.facts.run}/{name}": texts for name, texts in within.items()}
    return strands | inner


def _was_lost(entry: Entry[Any]) -> bool:
    """Tell whether this closes a call, or a look at something, whose worker died."""
    call = isinstance(entry.facts, ReplyFacts)
    look = isinstance(entry.facts, OutcomeFacts) and entry.step.startswith(("context/", "check"))
    return (call or look) and entry.facts.why is Why.LOST


def _summary(office: Office, entry: Entry[Any]) -> str:
    facts = entry.facts
    told = [getattr(facts, name, "") for name in ("agent", "attempt", "next", "cause", "reason")]
    outcome = "" if isinstance(facts, OutcomeFacts) else getattr(facts, "outcome", "")
    names = [n for n in ("output", "plan", "answer", "request") if n in entry.bodies]
    texts = [office.body(entry, name).decode() for name in names]
    return " ".join(map(str, [entry.kind, outcome, *told, *texts]))


class Table:
    """Plays one order again and again, each time in a new ledger."""

    def __init__(self, folder: Path, request: RunRequest) -> None:
        self._folder, self._order = folder, request
        self._played = 0

    def play(self, commits: int = -1, *, persisted: bool = False) -> tuple[Office, bool]:
        """Play a run that may be broken at a commit, and tell whether it was."""
        self._played += 1
        factory = StoreFactory(self._folder / f"{self._played}.db")
        power = Power(factory(), commits, persisted=persisted)
        first = Hands()
        try:
            live(Office(factory(), first, append=power.append), self._order)
        except Cut:
            # The hands are those of the next process, too: what they did is done.
            live(Office(factory(), first), self._order)
        return Office(factory(), first), power.failed


@pytest.mark.slow
@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", ORDERS)
def test_a_run_survives_a_crash_at_every_commit(
    folder: Path, name: str, *, persisted: bool
) -> None:
    """Before or after any commit the same things are done, and nobody notices but the bill."""
    table = Table(folder, ORDERS[name])
    whole, broken = table.play()
    expected, commits = outline(whole), 0
    while True:
        office, broken = table.play(commits, persisted=persisted)
        if not broken:
            break
        assert outline(office) == expected, f"after a crash at commit {commits}"
        assert office.findings() == ()
        assert office.alarms() == []
        check_hands(office)
        commits += 1

    assert commits > 10


def check_hands(office: Office) -> None:
    """Check that no call was made again whose reply was recorded, and no effect had twice."""
    runs = [run for run in office.store.runs("", 10) if run != "log"]
    entries = [entry for run in runs for entry in office.entries(run)]
    answered = [(e.run, e.strand, e.step) for e in entries if _is_live_reply(e)]
    made = [(call.run, task_strand(call.task), call.step) for call in office.hands.calls]
    assert all(made.count(place) == 1 for place in answered)
    assert len(made) == len(set(made)), "each call was made under a reservation of its own"
    assert len({invocation.key for invocation in office.hands.deeds}) == len(office.hands.deeds)
    for run in runs:
        account = office.account(run)
        assert account.used.calls == office.model_calls(run)
        assert not account.used.exceeds(account.cap)


def _is_live_reply(entry: Entry[Any]) -> bool:
    child = entry.actor == "run"
    return isinstance(entry.facts, ReplyFacts) and entry.facts.why is not Why.LOST and not child


# Calls that were lost


def test_a_lost_call_is_closed_at_its_full_price_and_made_again(factory: StoreFactory) -> None:
    """Nobody knows whether it was billed: what was reserved for it is gone."""

    def die(call: ModelCall) -> None:
        if call.step == "attempt/1/call/1/reply":
            raise asyncio.CancelledError

    request = RunRequest(
        "x", chain("a"), quick(agents={"": Scripted(usd=10, tokens=7)}), RunBudget(usd=25)
    )
    first = Office(factory(), Hands(at_call=die))
    first.accept(request)
    with pytest.raises(asyncio.CancelledError):
        first.work()
    second = Office(factory())
    run = second.work()

    lost, made = run.task("a").calls
    assert (lost.replied, made.called.turn) == (
        ReplyFacts(Outcome.INDETERMINATE, Why.LOST, 10, 7),
        2,
    )
    assert lost.spent == Amount(10, 7, 1)
    assert second.account().used == Amount(20, 7, 2)
    assert [call.number for call in second.hands.calls] == [1], "for its agent it is the first"
    assert run.outcome is Outcome.OK
    assert second.findings() == ()


def test_a_call_that_kills_its_workers_is_blamed_for_it_in_the_end(factory: StoreFactory) -> None:
    """Else it would be paid for again and again, and never be answered."""

    def die(call: ModelCall) -> None:
        raise asyncio.CancelledError

    Office(factory()).accept(RunRequest("x", chain("a", "b"), quick()))
    workers = 0
    while workers < 20:
        try:
            run = Office(factory(), Hands(at_call=die)).work()
            break
        except asyncio.CancelledError:
            workers += 1

    assert workers == 9
    assert run.outcome is Outcome.FAILED
    stopped = run.task("a").stopped
    assert stopped is not None
    assert (stopped.reason, stopped.used, stopped.cap) == (StopReason.LOST, 9, 8)
    assert run.task("b").state is TaskState.SKIPPED


def test_two_engines_at_once_do_no_harm(factory: StoreFactory) -> None:
    """One was thought dead too early: the record is that of one writer all the same."""
    moves = (ScriptStep("fine", milliseconds=30),)
    tasks = [Task(f"t{n}", "x") for n in range(4)] + [Task("z", "x", needs=("t0", "t3"))]
    agents = {"": Scripted({"*": moves}, usd=1)}
    offices = [Office(factory()) for _ in range(2)]
    offices[0].accept(RunRequest("x", plan(*tasks), quick(agents=agents), RunBudget(usd=1000)))

    async def other(_: Office) -> None:
        await asyncio.to_thread(offices[1].work)

    run = offices[0].work(meanwhile=other)
    if run.outcome is None:
        run = offices[0].work()

    assert run.outcome is Outcome.OK
    lost = [
        c for t in run.tasks.values() for c in t.calls if c.replied and c.replied.why is Why.LOST
    ]
    made = sum(len(office.hands.calls) for office in offices)
    assert made <= offices[0].model_calls() == 5 + len(lost)
    assert offices[0].account().used == Amount(5 + len(lost), 0, 5 + len(lost))
    assert offices[0].findings() == ()
    steps = [(e.strand, e.step) for e in offices[0].entries()]
    assert len(steps) == len(set(steps))


@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
def test_a_cancelled_run_survives_a_crash_at_every_commit(folder: Path, *, persisted: bool) -> None:
    """Whoever takes over ends it: what is stopped stays stopped, runs within too."""
    agents = {
        "": Scripted(
            {"*": (ScriptStep("x"),), "slow": (ScriptStep("x", milliseconds=5000),)}, usd=10
        )
    }
    tasks = plan(
        Task("slow", "x"),
        Task("n", "x", tasks=(*chain("slow", "z").tasks,), budget=RunBudget(usd=100)),
        Task("z", "x", needs=("slow", "n")),
    )
    request = RunRequest("x", tasks, quick(agents=agents), RunBudget(usd=1000))
    commits = 0
    while True:
        factory = StoreFactory(folder / f"{commits}.db")
        power = Power(factory(), commits, persisted=persisted)
        first = Office(factory(), append=power.append)
        try:
            first.accept(request)
            first.work(meanwhile=_cancel_in_time)
        except Cut:
            second = Office(factory(), first.hands)
            if not second.store.strands(RUN):
                second.accept(request)
            if "control" not in second.store.strands(RUN):
                cancel_run(second.ledger, RUN, PERSON)
            second.work()
        _check_cancelled(Office(factory(), first.hands), f"after a crash at commit {commits}")
        if not power.failed:
            break
        commits += 1

    assert commits > 15


async def _cancel_in_time(office: Office) -> None:
    await until(lambda: len(office.hands.calls) > 1)
    cancel_run(office.ledger, RUN, PERSON)


def _check_cancelled(office: Office, when: str) -> None:
    entries = office.entries()
    children = [e.facts.run for e in entries if isinstance(e.facts, DelegationFacts)]
    states = [read_run(office.ledger, run) for run in (RUN, *children)]
    made = [entry for entry in entries if isinstance(entry.facts, CallFacts)]
    answered = [entry for entry in entries if isinstance(entry.facts, ReplyFacts)]

    begun = [state for state in states if state.accepted is not None]
    assert {state.outcome for state in begun} == {Outcome.CANCELLED}, when
    assert states[0].task("z").state is TaskState.SKIPPED
    assert len(made) == len(answered), "what was reserved is settled"
    assert office.findings() == ()
    assert office.alarms() == []
