"""Gates that an operator forces: before the effect, whoever wrote the plan and whatever it says."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from forum.app import Forum
from forum.config import Settings
from forum.engine import RunRequest, accept_run, edit_gate, find_gate, read_run, read_run_context
from forum.engine.local_runner import LocalRunner
from forum.errors import Malformed
from forum.ledger.kinds import Outcome
from forum.runs.gate_rules import GateRule
from forum.runs.kinds import AcceptedFacts, IntentFacts, OutcomeFacts
from forum.runs.plan import Task, write_plan
from forum.runs.policy import (
    Answer,
    LaneBrief,
    Policy,
    Role,
    Scripted,
    ScriptStep,
    ToolCall,
    ToolSpec,
)
from forum.runs.run_fold import RunState
from forum.runs.shared_caps import GatePeriod
from forum.section_reader import SectionTables
from tests.engine.office import PERSON, RUN, Cut, Hands, Office, Power, chain, plan, quick
from tests.engine.team import said
from tests.engine.test_replay import play
from tests.support import StoreFactory

RULE = GateRule("payments", "pay", argument="amount", above="100")
MUCH, LITTLE = ToolCall("pay", '{"amount": 1200}'), ToolCall("pay", '{"amount": 12}')
GATE = "use/a/1"


def paying(*uses: ToolCall, **members: Any) -> RunRequest:  # noqa: ANN401
    """Return an order of one agent that pays, under the rule."""
    moves: dict[str, tuple[ScriptStep, ...]] = {
        "*": (ScriptStep("", use=uses or (MUCH,)), ScriptStep("done"))
    }
    usual = {
        "agents": {"": Scripted(moves)},
        "tools": {"pay": ToolSpec(("pay",))},
        "gate_rules": (RULE,),
    }
    return RunRequest("x", chain("a"), quick(**{**usual, **members}))


def outcomes(office: Office) -> list[OutcomeFacts]:
    """Return what became of effects."""
    return [e.facts for e in office.entries() if isinstance(e.facts, OutcomeFacts)]


def test_an_effect_waits_for_approval_before_it_is_even_intended(office: Office) -> None:
    """The decision is the cause of the intent, so a stranger can see that it came first."""
    assert office.do(paying()).state is RunState.WAITING
    assert not office.hands.deeds
    assert not [e for e in office.entries() if isinstance(e.facts, IntentFacts)]
    shown = office.body(next(e for e in office.entries() if e.kind == "gate.open/1"), "shown")
    assert shown == b'{"tool":"pay","arguments":"{\\"amount\\": 1200}"}'

    office.decide(GATE, Answer.APPROVE)
    assert office.work().outcome is Outcome.OK

    assert [invocation.task for invocation in office.hands.deeds] == ["a"]
    decision = find_gate(office.ledger, RUN, GATE).entry.hex()
    (intent,) = [e for e in office.entries() if isinstance(e.facts, IntentFacts)]
    assert intent.parents == (decision,)
    assert read_run_context(office.ledger, RUN).policy.gate_rules == (RULE,)
    assert office.findings() == ()


def test_an_effect_that_is_rejected_is_not_had_and_its_agent_is_told(office: Office) -> None:
    """The run goes on: what to do without it is for the agent to say."""
    office.do(paying())
    office.decide(GATE, Answer.REJECT)

    assert office.work().outcome is Outcome.OK
    assert not office.hands.deeds
    assert [(f.outcome, f.code) for f in outcomes(office)] == [(Outcome.DENIED, "rejected")]
    assert b"begin: pay, denied" in office.prompt("a", 1)
    assert office.findings() == ()


def test_nobody_is_asked_about_little(office: Office) -> None:
    """Only what is above the amount of the rule waits."""
    assert office.do(paying(LITTLE)).outcome is Outcome.OK
    assert len(office.hands.deeds) == 1


def test_silence_approves_nothing_that_an_operator_wants_approved(office: Office) -> None:
    """Whoever submits could otherwise have the deadline decide."""
    office.do(paying(gate_default=Answer.APPROVE, gate_milliseconds=1))

    assert office.work().outcome is Outcome.OK
    assert not office.hands.deeds
    assert [f.code for f in outcomes(office)] == ["rejected"]


def test_arguments_at_a_gate_cannot_be_edited(office: Office) -> None:
    """What is done is what the agent wanted, or nothing."""
    office.do(paying())
    gate = find_gate(office.ledger, RUN, GATE)

    with pytest.raises(Malformed, match="reject them"):
        edit_gate(office.ledger, RUN, GATE, gate.digest, shown=b'{"amount": 1}', actor=PERSON)


def test_a_check_and_background_are_uses_too(office: Office) -> None:
    """A demand runs its tool with whatever an agent has said."""
    request = paying(LITTLE, context=("pay",))
    tasks = plan(Task("a", "x", "command pay"))
    run = office.do(replace(request, plan=tasks))
    assert run.state is RunState.WAITING
    assert not office.hands.deeds

    office.decide("use/a/1", Answer.APPROVE)
    office.work()
    assert [invocation.step for invocation in office.hands.deeds] == [
        "context/1/outcome",
        "attempt/1/use/1/outcome",
    ]
    office.decide("use/a/3", Answer.APPROVE)
    assert office.work().outcome is Outcome.OK
    assert office.hands.deeds[-1].step == "attempt/1/check/1/outcome"


def test_a_plan_of_a_model_and_an_edited_plan_are_under_the_rules(office: Office) -> None:
    """What is matched is the plan as it is carried out, not as it was accepted."""
    drafted = {
        "tasks": [{"id": "t", "instruction": "x", "lane": "shop", "needs": [], "done_when": ""}]
    }
    chief = Scripted({"@coordinator": (said(drafted),)})
    payer = Scripted({"*": (ScriptStep("", use=(LITTLE,)), ScriptStep("done"))})
    policy = quick(
        agents={"": payer, "chief": chief},
        roles={Role.COORDINATOR: "chief"},
        lanes={"shop": LaneBrief(tools=("pay",)), "law": LaneBrief(tools=("pay",))},
        tools={"pay": ToolSpec(("pay",))},
        gates=("plan",),
        gate_rules=(GateRule("x", "pay", "law"), GateRule("y", lane="law")),
    )
    office.do(RunRequest("x", None, policy))
    gate = find_gate(office.ledger, RUN, "plan")
    edited = write_plan(plan(Task("t", "x", lane="law")))
    digest = edit_gate(office.ledger, RUN, "plan", gate.digest, shown=edited, actor=PERSON)
    office.decide("plan", Answer.APPROVE, digest=digest)

    office.work()
    office.decide("task/t", Answer.APPROVE)
    office.work()
    assert not office.hands.deeds
    office.decide("use/t/1", Answer.APPROVE)
    assert office.work().outcome is Outcome.OK
    assert len(office.hands.deeds) == 1


def test_a_run_within_is_under_the_rules_of_the_outer(office: Office) -> None:
    """A plan within a plan is no way out."""
    request = paying()
    run = office.do(replace(request, plan=plan(Task("n", "x", tasks=(Task("a", "x"),)))))
    (within,) = [task.delegated.run for task in run.tasks.values() if task.delegated]

    assert not office.hands.deeds
    assert read_run(office.ledger, within).open_gates[0].opened.subject == GATE


def test_a_rule_that_is_added_later_holds_for_runs_under_way(
    factory: StoreFactory, tmp_path: Path
) -> None:
    """The worker applies its own rules before the effect; and a replay finds the same gate."""
    office = Office(factory(), gate_rules=(RULE,))
    assert office.do(paying(gate_rules=())).state is RunState.WAITING
    office.decide(GATE, Answer.APPROVE)

    assert office.work().outcome is Outcome.OK
    assert play(office, tmp_path) == []


@pytest.mark.parametrize("answer", Answer)
def test_a_replay_passes_the_gate_as_it_was_passed(
    office: Office, tmp_path: Path, answer: Answer
) -> None:
    """Approved or rejected, and nothing is done in the world."""
    office.do(paying())
    office.decide(GATE, answer)
    office.work()

    assert play(office, tmp_path) == []


def test_a_fork_has_its_own_gate(office: Office) -> None:
    """What was approved for one run is not approved for another."""
    office.do(paying())
    office.decide(GATE, Answer.APPROVE)
    office.work()
    before = len(office.hands.deeds)
    accept_run(
        office.ledger,
        "run-2",
        paying(),
        PERSON,
        origin=AcceptedFacts(fork_run=RUN, fork_index=10**6),
    )

    assert office.work("run-2").state is RunState.WAITING
    assert len(office.hands.deeds) == before


PART = ToolCall("pay", '{"amount": 40}')
SUMS = [msgspec.structs.replace(RULE, per=per) for per in (GatePeriod.RUN, GatePeriod.DAY)]


@pytest.mark.parametrize("rule", SUMS, ids=["run", "day"])
def test_many_small_amounts_meet_the_gate_when_their_sum_passes_the_limit(
    office: Office, tmp_path: Path, rule: GateRule
) -> None:
    """What was approved does not count: up to the limit, nobody has to be asked."""
    parts = [ToolCall("pay", f'{{"amount": "{amount}"}}') for amount in ("40", "60.0000001", "60")]
    assert office.do(paying(*parts, gate_rules=(rule,))).state is RunState.WAITING
    assert len(office.hands.deeds) == 1
    office.decide("use/a/2", Answer.APPROVE)

    assert office.work().outcome is Outcome.OK
    assert len(office.hands.deeds) == 3
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_a_person_who_was_asked_decides_although_the_sum_has_room_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rejected use is not made because the day is over."""
    office.do(paying(*[PART] * 3, gate_rules=(SUMS[1],)))
    office.decide("use/a/3", Answer.REJECT)
    monkeypatch.setattr("forum.engine.tools.sums_for_use", lambda *_, **__: ())

    assert office.work().outcome is Outcome.OK
    assert len(office.hands.deeds) == 2
    assert outcomes(office)[-1].code == "rejected"


def test_a_plan_within_a_plan_adds_to_the_sum_of_the_outermost_run(office: Office) -> None:
    """Else each part of a plan would have the whole limit."""
    request = paying(PART, PART, gate_rules=(SUMS[0],))
    within = tuple(Task(name, "x", tasks=(Task("a", "x"),)) for name in ("m", "n"))
    run = office.do(replace(request, plan=plan(*within)))

    assert len(office.hands.deeds) == 2
    assert run.state is not RunState.ENDED


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_the_end_of_a_run_removes_its_sums_and_no_others(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    """In one commit with the end: a table that only grows would slow every use down."""
    place = tmp_path / "l.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    office = Office(StoreFactory(place)())

    def sums() -> list[str]:
        query = "SELECT DISTINCT scope FROM {}budget WHERE period = 'run'"
        if isinstance(place, Path):
            with closing(sqlite3.connect(place)) as db:
                return sorted(scope for (scope,) in db.execute(query.format("")))
        with psycopg.connect(place) as db:
            return sorted(scope for (scope,) in db.execute(query.format("forum.").encode()))

    for run in ("a-run", "run"):  # the name of one is the end of the other's
        office.accept(paying(PART, PART, PART, gate_rules=(SUMS[0],)), run)
        assert office.work(run).state is RunState.WAITING
    assert len(sums()) == 2
    office.decide("use/a/3", Answer.APPROVE, run="run")
    assert office.work("run").outcome is Outcome.OK
    assert [scope[-5:] for scope in sums()] == ["a-run"]
    office.decide("use/a/3", Answer.REJECT, run="a-run")
    office.work("a-run")
    assert sums() == []


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_workers_at_once_pay_no_more_than_the_sum_of_a_day(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    """Each run is small, none knows of the others, and the last that fits is paid."""
    place = tmp_path / "l.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    factory, hands = StoreFactory(place), Hands()
    for number in range(8):
        Office(factory()).accept(paying(PART, gate_rules=(SUMS[1],)), f"run-{number}")

    async def drive(office: Office, run: str) -> None:
        runner = LocalRunner(office.engine)
        runner.enqueue_run(run)
        await runner.wait_until_idle()

    def work(number: int) -> None:
        office = Office(factory(), hands)
        for run in range(number, 8, 2):
            asyncio.run(drive(office, f"run-{run}"))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))
    factory.close()
    assert len(hands.deeds) == 2


@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
def test_a_crash_at_any_commit_opens_no_way_past_the_gate(folder: Path, *, persisted: bool) -> None:
    """Nothing is paid that was not approved, and a rejection is never a question."""
    for commits in range(12):
        factory, hands = StoreFactory(folder / f"{persisted}-{commits}.db"), Hands()
        power = Power(factory(), commits, persisted=persisted)
        try:
            _live(Office(factory(), hands, append=power.append))
        except Cut:
            _live(Office(factory(), hands))
        office = Office(factory(), hands)
        assert not hands.deeds
        assert [f.code for f in outcomes(office)] == ["rejected"]


@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
def test_a_crash_at_any_commit_reserves_each_use_once(folder: Path, *, persisted: bool) -> None:
    """A worker that is killed has paid what it reserved, and the next one pays no more."""
    for commits in range(14):
        factory, hands = StoreFactory(folder / f"{persisted}-{commits}.db"), Hands()
        power = Power(factory(), commits, persisted=persisted)
        request = paying(PART, PART, PART, gate_rules=(SUMS[1],))
        for office in (Office(factory(), hands, append=power.append), Office(factory(), hands)):
            try:
                if not office.store.strands(RUN):
                    office.accept(request)
                office.work()
            except Cut:
                continue
        intents = [e for e in office.entries() if isinstance(e.facts, IntentFacts)]
        (use,) = office.store.budget_use()
        assert len(hands.deeds) <= len(intents) <= 2
        assert use.used.usd == 40_000_000 * len(intents)


def _live(office: Office) -> None:
    if not office.store.strands(RUN):
        office.accept(paying())
    while office.work().outcome is None:
        assert not office.hands.deeds
        office.decide(GATE, Answer.REJECT)


def test_whoever_submits_cannot_leave_the_rules_out(tmp_path: Path) -> None:
    """Neither in a plan of one's own, nor in a fork of a run that was accepted without them."""
    here = (tmp_path / "data", tmp_path / "state", tmp_path / "data" / "log.key")
    table = {"pay": {"tool": "pay"}}
    with Forum(Settings(*here)) as forum:
        forum.keys.initialise()
        free = forum.runs.submit(RunRequest("x", chain("a"), Policy(gate_rules=(RULE,))))
        assert forum.reads.read_run_context(free).policy.gate_rules == ()
    with Forum(Settings(*here, sections=SectionTables({"gates": table}))) as forum:
        runs = [forum.runs.submit(RunRequest("x", chain("a"), Policy())), forum.runs.fork(free, 0)]
        rules = [forum.reads.read_run_context(run).policy.gate_rules for run in runs]

    assert rules == [(GateRule("pay", "pay"),)] * 2
