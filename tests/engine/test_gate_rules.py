"""Gates that an operator forces: before the effect, whoever wrote the plan and whatever it says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forum.app import Forum
from forum.config import Settings
from forum.engine import RunRequest, accept_run, edit_gate, find_gate, read_run, read_run_context
from forum.errors import Malformed
from forum.ledger.kinds import Outcome
from forum.work.gate_rules import GateRule
from forum.work.kinds import AcceptedFacts, IntentFacts, OutcomeFacts
from forum.work.plan import Task, write_plan
from forum.work.policy import (
    Answer,
    LaneBrief,
    Policy,
    Role,
    Scripted,
    ScriptStep,
    ToolCall,
    ToolSpec,
)
from forum.work.run_fold import RunState
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

    assert [deed.task for deed in office.hands.deeds] == ["a"]
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
        edit_gate(office.ledger, RUN, GATE, gate.digest, b'{"amount": 1}', PERSON)


def test_a_check_and_background_are_uses_too(office: Office) -> None:
    """A demand runs its tool with whatever an agent has said."""
    order = paying(LITTLE, context=("pay",))
    tasks = plan(Task("a", "x", "command pay"))
    run = office.do(replace(order, plan=tasks))
    assert run.state is RunState.WAITING
    assert not office.hands.deeds

    office.decide("use/a/1", Answer.APPROVE)
    office.work()
    assert [deed.step for deed in office.hands.deeds] == [
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
    digest = edit_gate(office.ledger, RUN, "plan", gate.digest, edited, PERSON)
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
    order = paying()
    run = office.do(replace(order, plan=plan(Task("n", "x", tasks=(Task("a", "x"),)))))
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
        office.ledger, "run-2", paying(), PERSON, AcceptedFacts(fork_run=RUN, fork_index=10**6)
    )

    assert office.work("run-2").state is RunState.WAITING
    assert len(office.hands.deeds) == before


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
    with Forum(Settings(*here, team={"gates": table})) as forum:
        runs = [forum.runs.submit(RunRequest("x", chain("a"), Policy())), forum.runs.fork(free, 0)]
        rules = [forum.reads.read_run_context(run).policy.gate_rules for run in runs]

    assert rules == [(GateRule("pay", "pay"),)] * 2
