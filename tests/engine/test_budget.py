"""Budgets: what was reserved and what was spent never pass a cap, at no entry and by nobody."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from time import monotonic

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forum.engine import Engine, RunRequest, read_run
from forum.engine.child_runs import Delegation, allot_budget
from forum.ledger.kinds import NoteFacts, Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import NO_LIMIT, Amount, BudgetAccount, BudgetCharge
from forum.ledger.strand import Draft
from forum.runs.kinds import CallFacts, DelegationFacts, ReplyFacts, StopFacts, StopReason, Why
from forum.runs.panel import Council, Seat
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import Command, Scripted, ScriptStep
from forum.runs.run_fold import Run, TaskState
from forum.stores.group_commit import GroupCommitter
from forum.verify import Problem
from tests.engine.office import (
    KINDS,
    RUN,
    Hands,
    Office,
    chain,
    kinds_of,
    now,
    plan,
    quick,
    spending,
    until,
)
from tests.support import Chain, StoreFactory, Wrapped


def many(count: int) -> RunRequest:
    """Return an order of independent tasks, each of which costs 10 and asks for 10."""
    tasks = plan(*(Task(f"t{n}", "x") for n in range(count)))
    policy = quick(
        agents={"": Scripted({"*": (ScriptStep("x", milliseconds=5),)}, usd=10)}, parallel=64
    )
    return RunRequest("x", tasks, policy, RunBudget(usd=305))


def check_spending(office: Office, cap: Amount) -> None:
    """Check what is used and reserved after each entry, in the order of their commits."""
    entries = office.entries()
    after = list(spending(entries))
    overrun = Amount()
    for entry, used in zip(entries, after, strict=True):
        if isinstance(entry.facts, ReplyFacts):
            facts = entry.facts
            overrun = overrun.plus(Amount(facts.overrun_usd, facts.overrun_tokens))
        assert not used.minus(overrun).exceeds(cap), f"at {entry.strand}/{entry.step}"
    assert after[-1] == office.account().used, "the account says what the entries say"


@pytest.mark.parametrize("way", ["alone", "committer"])
def test_a_cap_holds_under_sixty_four_tasks(store_factory: StoreFactory, way: str) -> None:
    """All of them want the last of it at the same moment."""
    store = store_factory()
    with closing(GroupCommitter(store)) as committer:
        alone = way == "alone"
        append = (None, None) if alone else (committer.append, committer.append_async)
        run = Office(store, hands := Hands(), *append).do(many(64))
    office = Office(store, hands)

    assert run.outcome is Outcome.DENIED
    check_spending(office, Amount(305, NO_LIMIT, NO_LIMIT))
    assert office.account().used == Amount(300, 0, 30)
    assert len(office.hands.calls) == office.model_calls() == 30
    assert office.findings() == ()


def test_a_cap_holds_for_many_workers(store_factory: StoreFactory) -> None:
    """Eight processes with a connection each: the database compares, not they."""
    first = Office(store_factory())
    first.accept(many(64))
    workers = [Office(store_factory()) for _ in range(8)]

    async def drive(worker: Office, tasks: list[str]) -> None:
        await asyncio.gather(*(worker.engine.drive_task(RUN, task) for task in tasks))

    with ThreadPoolExecutor(8) as pool:
        shares = [[f"t{n}" for n in range(i, 64, 8)] for i in range(8)]
        list(pool.map(lambda w, s: asyncio.run(drive(w, s)), workers, shares))
    run = first.work()

    assert run.outcome is Outcome.DENIED
    check_spending(first, Amount(305, NO_LIMIT, NO_LIMIT))
    assert first.account().used == Amount(300, 0, 30)
    assert sum(len(worker.hands.calls) for worker in workers) == 30
    assert kinds_of(first.entries())["stop/1"] == 35, "all others were refused, and say so"
    assert first.findings() == ()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 60),
    st.integers(0, 40),
    st.integers(0, 8),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12)), min_size=1, max_size=6),
    st.booleans(),
)
def test_no_bill_is_forgotten(
    factory: StoreFactory,
    usd: int,
    tokens: int,
    calls: int,
    bills: list[tuple[int, int]],
    fails: bool,  # noqa: FBT001
) -> None:
    """Whatever calls cost, more or less than their bound: account, entries and fold agree."""
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"t{n}": (ScriptStep("x", usd=bill, tokens=used, fail="503" if fails and n % 2 else ""),)
        for n, (bill, used) in enumerate(bills)
    }
    policy = quick(agents={"": Scripted(moves, usd=10, tokens=6)}, retries=1)
    tasks = plan(*(Task(name, "x") for name in moves))
    office = Office(factory.beside()())
    run = office.do(RunRequest("x", tasks, policy, RunBudget(usd, tokens, calls)))

    cap = Amount(usd, tokens, calls)
    check_spending(office, cap)
    assert run.spent == office.account().used
    assert len(office.hands.calls) == office.model_calls() == run.spent.calls <= calls
    assert run.outcome is not None
    if run.stopped is not None:
        stop = run.stopped
        assert stop.reason is StopReason.BUDGET
        assert stop.used + stop.asked > stop.cap == cap._asdict()[stop.limit]


# Stops


@pytest.mark.parametrize(
    ("budget", "limit", "asked", "used", "cap"),
    [
        (RunBudget(usd=25), "usd", 10, 20, 25),
        (RunBudget(tokens=13), "tokens", 6, 8, 13),
        (RunBudget(calls=2), "calls", 1, 2, 2),
    ],
    ids=["usd", "tokens", "calls"],
)
def test_a_stop_names_what_was_spent_and_by_whom(
    office: Office, budget: RunBudget, limit: str, asked: int, used: int, cap: int
) -> None:
    """Dollars, tokens and calls alike: and what was worked out before is kept."""
    agents = {
        "": Scripted({"*": (ScriptStep("x", tokens=4),)}, usd=10, tokens=6),
        "b": Scripted({"*": (ScriptStep("y", tokens=4),)}, usd=10, tokens=6),
    }
    tasks = plan(
        Task("a", "x"),
        Task("b", "x", agent="b", needs=("a",)),
        Task("c", "x", needs=("b",)),
        Task("d", "x", needs=("c",)),
    )
    run = office.do(RunRequest("x", tasks, quick(agents=agents), budget))
    (stop,) = [e for e in office.entries() if e.strand == "main" and e.kind == "stop/1"]

    assert stop.facts == StopFacts(StopReason.BUDGET, limit, asked, used, cap=cap, by="c")
    spent = msgspec.json.decode(office.body(stop, "spent"))
    assert spent == {"agent": [10, 4, 1], "b": [10, 4, 1]}
    by_id = {leaf.hex(): entry for leaf, entry in office.told()}
    assert [by_id[parent].strand for parent in stop.parents] == ["task/c"]
    assert run.outcome is Outcome.DENIED
    assert (run.task("c").state, run.task("d").state) == (TaskState.STOPPED, TaskState.SKIPPED)
    assert office.answer() == b"y"
    assert office.findings() == ()


@pytest.mark.parametrize("name", ["", "run"])
def test_an_overrun_is_recorded_with_its_call(office: Office, name: str) -> None:
    """A provider may bill more than its bound: the money is gone, and the next call is refused.

    Only for a run within nobody can know before what it may cost, and no agent is one.
    """
    agents = {"": Scripted(), name: Scripted({"*": (ScriptStep("x", usd=40, tokens=9),)}, 10, 5)}
    tasks = plan(Task("a", "x", agent=name), Task("b", "x", needs=("a",), agent=name))
    run = office.do(RunRequest("x", tasks, quick(agents=agents), RunBudget(usd=30)))
    (replied,) = [e.facts for e in office.entries() if isinstance(e.facts, ReplyFacts)]

    assert (replied.usd, replied.overrun_usd, replied.overrun_tokens) == (40, 30, 4)
    assert office.account() == BudgetAccount(Amount(30, NO_LIMIT, NO_LIMIT), Amount(40, 9, 1))
    assert run.stopped is not None
    assert (run.stopped.used, run.stopped.cap) == (40, 30)
    assert run.task("a").state is TaskState.PASSED


def test_a_program_that_could_not_be_started_is_a_call_all_the_same(office: Office) -> None:
    """It was made, and is on record; a program that is not there is not tried again."""
    policy = quick(agents={"": Command(("/no/such/program",), usd=10)}, retries=2)
    run = office.do(RunRequest("x", chain("a"), policy, RunBudget(usd=100)))

    assert run.task("a").state is TaskState.FAILED
    assert office.account().used == Amount(0, 0, 1)
    assert office.model_calls() == run.spent.calls == 1


# Time


def test_a_run_ends_when_its_time_is_over(office: Office) -> None:
    """Calls are cut, what has not begun is skipped, and nobody waits for the rest."""
    agents = {"": Scripted({"a": (ScriptStep("x"),), "*": (ScriptStep("x", milliseconds=20_000),)})}
    tasks = plan(Task("a", "x"), Task("b", "x", needs=("a",)), Task("c", "x", needs=("b",)))
    began = monotonic()
    run = office.do(RunRequest("x", tasks, quick(agents=agents), RunBudget(milliseconds=400)))

    assert monotonic() - began < 10
    assert run.outcome is Outcome.TIMEOUT
    assert run.stopped is not None
    assert (run.stopped.reason, run.stopped.limit) == (StopReason.DEADLINE, "milliseconds")
    (cut,) = [call.replied for call in run.task("b").calls]
    assert cut is not None
    assert (cut.outcome, cut.why) == (Outcome.TIMEOUT, Why.DEADLINE)
    assert run.task("c").state is TaskState.SKIPPED
    assert office.answer() == b"x"
    assert office.findings() == ()


def test_a_pause_before_a_retry_is_not_longer_than_the_time_left(office: Office) -> None:
    """A run that only waits is out of time all the same."""
    policy = quick(
        agents={"": Scripted({"*": (ScriptStep(fail="503"),)})}, backoff_milliseconds=30_000
    )
    began = monotonic()
    run = office.do(RunRequest("x", chain("a"), policy, RunBudget(milliseconds=200)))

    assert monotonic() - began < 15
    assert run.outcome is Outcome.TIMEOUT


@pytest.mark.parametrize(
    ("tasks", "panel"), [(chain("a"), None), (None, Council((Seat(),)))], ids=["a task", "a seat"]
)
def test_a_pause_before_a_retry_is_no_longer_where_the_clock_is_set_back(
    office: Office, tasks: Plan | None, panel: Council | None
) -> None:
    """By an hour each time that somebody looks at it: nobody waits for an hour."""
    hours = count(now(), -3_600_000_000)
    office.ledger = Ledger(office.store, KINDS, lambda: next(hours), lambda: b"s" * 32)
    office.engine = Engine(office.ledger, office.hands.model, office.hands.open_tools)
    moves = (ScriptStep(fail="503"), ScriptStep('{"answer": "yes", "confidence": 80}'))
    office.accept(RunRequest("x", tasks, quick(agents={"": Scripted({"*": moves})}, panel=panel)))

    async def watch(_: Office) -> None:
        await until(lambda: read_run(office.ledger, RUN).outcome is not None)

    run = office.work(meanwhile=watch)

    assert run.outcome is Outcome.OK
    assert len(office.hands.calls) == 2


def test_a_run_at_a_gate_ends_when_its_time_is_over(office: Office) -> None:
    """Before its plan, or before a task: nobody has decided, and nobody needs to any more."""
    for gate in ("plan", "tasks"):
        policy = quick(gates=(gate,))
        run = office.do(RunRequest("x", chain("a"), policy, RunBudget(milliseconds=60)), gate)
        for _ in range(100):
            if run.outcome is not None:
                break
            run = office.work(gate)

        assert run.outcome is Outcome.TIMEOUT
        assert [g.decided.by.value for g in run.gates.values() if g.decided] == ["end"]
        assert run.task("a").state is TaskState.SKIPPED
    assert office.alarms() == []
    assert office.findings() == ()


def test_a_call_may_take_no_longer_than_the_policy_says(office: Office) -> None:
    """One call that hangs is tried again, and does not take the run along."""
    agents = {"": Scripted({"*": (ScriptStep("x", milliseconds=20_000), ScriptStep("ok"))}, usd=10)}
    run = office.do(RunRequest("x", chain("a"), quick(agents=agents, call_milliseconds=50)))

    assert run.outcome is Outcome.OK
    assert [v.reason for v in run.task("a").verdicts] == ["timeout", ""]


# Runs within runs

WITHIN = Task(
    "n", "x", needs=("a",), tasks=chain("x", "y").tasks, budget=RunBudget(usd=50, calls=5)
)


def child_of(office: Office) -> str:
    """Return the run within."""
    (delegated,) = [e.facts for e in office.entries() if isinstance(e.facts, DelegationFacts)]
    return delegated.run


def test_a_run_within_gets_an_allotment_and_returns_the_rest(office: Office) -> None:
    """While it runs its parent cannot spend what it was given; afterwards it can."""
    agents = {"": Scripted(usd=10, tokens=3)}
    request = RunRequest(
        "x",
        plan(Task("a", "x"), WITHIN, Task("c", "x", needs=("n",))),
        quick(agents=agents),
        RunBudget(usd=70, tokens=100),
    )
    run = office.do(request)
    child = child_of(office)
    called = [e.facts for e in office.entries() if isinstance(e.facts, CallFacts)]

    assert run.outcome is Outcome.OK
    # Of the tokens, for which it has no limit of its own, half: another task has yet to come.
    assert office.account(child) == BudgetAccount(Amount(50, 50, 5), Amount(20, 0, 2))
    assert [call.usd for call in called] == [10, 50, 10]
    assert office.account().used == Amount(40, 0, 4)
    assert office.model_calls() == 4
    assert office.findings() == ()
    inner = office.entries(child)[1].facts
    assert (inner.parent_run, inner.parent_task, inner.depth) == (RUN, "n", 2)


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "ended"])
def test_a_run_that_took_the_id_of_a_child_run_answers_nothing(
    office: Office,
    is_open: bool,  # noqa: FBT001  a case
) -> None:
    """The id follows from parent and task, so that anybody can foresee it."""
    delegation = Delegation(WITHIN, None, "delegate", "call")
    foreseen = allot_budget(RUN, delegation, None, 1).run
    main = office.ledger.open_run(foreseen, "stranger", Draft("note", "stranger", NoteFacts()))
    if not is_open:
        office.ledger.close_run(main, "stranger", Outcome.OK)
    agents = {"": Scripted(usd=10, tokens=3)}
    run = office.do(RunRequest("x", plan(Task("a", "x"), WITHIN), quick(agents=agents, retries=0)))
    replies = [e.facts for e in office.entries() if isinstance(e.facts, ReplyFacts)]

    assert child_of(office) == foreseen
    assert run.outcome is Outcome.FAILED
    assert replies[-1].code == "id-taken"
    # Only a writer of the log can do this, and it shows.
    assert [finding.problem for finding in office.findings()] == [Problem.CHILD_FOREIGN]


def test_a_clean_up_at_any_time_changes_no_account(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent that looks for its child very late pays the same, and costs are still told."""
    cleaned = []

    def clean_and_read(ledger: Ledger, run: str) -> Run:
        cleaned.append(office.store.clean_up(0, 100))
        return read_run(ledger, run)

    monkeypatch.setattr("forum.engine.child_runs.read_run", clean_and_read)
    agents = {"": Scripted(usd=10, tokens=3)}
    tasks = plan(Task("a", "x"), WITHIN, Task("c", "x", needs=("n",)))
    run = office.do(RunRequest("x", tasks, quick(agents=agents), RunBudget(usd=70, tokens=100)))
    used = office.account().used
    spent = run.spent, read_run(office.ledger, child_of(office)).spent
    while office.store.clean_up(0, 100):
        pass

    assert max(cleaned) > 0  # the child was looked at, and kept
    assert (run.outcome, used) == (Outcome.OK, Amount(40, 0, 4))
    assert office.store.account_runs("", 10) == []
    assert spent == tuple(read_run(office.ledger, r).spent for r in (RUN, child_of(office)))
    assert office.findings() == ()


def test_a_run_within_cannot_spend_more_than_it_was_given(office: Office) -> None:
    """Its stop is its own: the parent learns of it as of any other failed task."""
    agents = {"": Scripted(usd=30)}
    tasks = plan(Task("a", "x"), WITHIN, Task("c", "x", needs=("n",)), Task("d", "x", after=("a",)))
    run = office.do(RunRequest("x", tasks, quick(agents=agents), RunBudget(usd=1000)))
    within = read_run(office.ledger, child_of(office))

    assert (within.outcome, within.task("x").state.value) == (Outcome.DENIED, "passed")
    assert within.stopped is not None
    assert within.stopped.reason is StopReason.BUDGET
    states = {name: run.task(name).state.value for name in "ancd"}
    assert states == {"a": "passed", "n": "failed", "c": "skipped", "d": "passed"}
    assert run.outcome is Outcome.FAILED
    assert office.account().used == Amount(90, 0, 3)
    assert office.findings() == ()


def test_a_run_within_is_given_no_more_than_there_is(factory: StoreFactory) -> None:
    """Others spend at the same time: what was left a moment ago may not be left any more."""
    store = factory()
    other = Chain(store.origin, "other")

    def look(run: str) -> BudgetAccount | None:
        account = store.account(run)
        if not other.records:
            store.append([other.next(effects=(BudgetCharge(RUN, Amount(usd=5)),))])
        return account

    office = Office(Wrapped(store, account=look))
    run = office.do(
        RunRequest("x", plan(Task("n", "x", tasks=chain("x").tasks)), quick(), RunBudget(usd=25))
    )

    assert run.outcome is Outcome.OK
    assert office.account(child_of(office)).cap == Amount(20, NO_LIMIT, NO_LIMIT)


def test_the_depth_of_runs_within_runs_is_a_recorded_stop(office: Office) -> None:
    """A plan that unfolds itself for ever would never be too deep for its own entries."""
    deep = Task("c", "x", tasks=(Task("d", "x"),))
    tasks = plan(Task("a", "x", tasks=(Task("b", "x", tasks=(deep,)),)))
    run = office.do(RunRequest("x", tasks, quick(), RunBudget(depth=2)))
    runs = [name for name in office.store.runs("", 10) if name != "log"]
    stops = [e for name in runs for e in office.entries(name) if isinstance(e.facts, StopFacts)]

    assert run.outcome is Outcome.FAILED
    assert len(runs) == 3
    (stop,) = stops
    assert (stop.facts.reason, stop.facts.limit, stop.facts.by) == (StopReason.DEPTH, "depth", "c")
    assert office.findings() == ()


def test_what_a_run_within_is_told_may_be_no_text(office: Office) -> None:
    """An upstream's output is bytes, and may be cut in the middle of a character."""
    agents = {"": Scripted({"*": (ScriptStep("ä" * 20),)})}
    tasks = plan(Task("a", "x"), WITHIN)
    run = office.do(RunRequest("x", tasks, quick(agents=agents, input_bytes=5)))

    assert run.outcome is Outcome.OK


def test_what_others_have_only_reserved_is_waited_for(office: Office) -> None:
    """Twenty cheap calls fit under a cap that the bounds of twenty calls would pass."""
    agents = {"": Scripted({"*": (ScriptStep("x", milliseconds=20, usd=1),)}, usd=10)}
    tasks = plan(*(Task(f"t{i}", "x") for i in range(20)))
    run = office.do(RunRequest("x", tasks, quick(agents=agents, parallel=20), RunBudget(usd=100)))

    assert run.outcome is Outcome.OK
    assert office.account().used == Amount(20, 0, 20)
    assert max(amount.usd for amount in spending(office.entries())) <= 100
