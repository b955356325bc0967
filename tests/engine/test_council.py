"""Councils that the engine drives: whatever happens, they end with an answer that is recorded."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forum.engine import (
    CallReply,
    Engine,
    ModelCall,
    RunRequest,
    ToolInvocation,
    accept_run,
    cancel_run,
    read_run,
)
from forum.engine.context import RunInput
from forum.engine.session import PendingTurn, TurnRegistry
from forum.errors import BadPlan, ConcurrentUpdate, ReplayMiss, StoreFailed
from forum.features.council.kinds import RevealV2Facts
from forum.features.council.report import NO_CHECKED_ANSWER_WARNING, SINGLE_AGENT_WARNING
from forum.features.symposium.artifact import build_artifact, format_file
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.kinds import Reason
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome, RedactionReason
from forum.ledger.log import Ledger
from forum.ledger.ports import NO_LIMIT, Amount, EntryWrite
from forum.ledger.secret_mask import SecretMask
from forum.runs.kinds import (
    TURN_PREFIX,
    AcceptedFacts,
    CallFacts,
    DelegationFacts,
    ReplyFacts,
    ReplyOrigin,
    StopReason,
    Why,
)
from forum.runs.panel import COUNCIL_VERSION, Council, Seat
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import Policy, Scripted, ScriptStep, ToolSpec
from forum.runs.run_fold import Run, TaskState
from forum.runs.session_flags import flag_session
from forum.runs.session_steps import Session, SessionResult, ToolProbe
from forum.tlog import Hash
from tests.engine.office import (
    KINDS,
    PERSON,
    RUN,
    Cut,
    Office,
    chain,
    now,
    plan,
    quick,
    spending,
    until,
)
from tests.engine.panel import (
    DIVIDED,
    PRICE,
    QUESTION,
    Way,
    asked,
    checked,
    judged,
    panel,
    report_of,
    split,
    symposiast,
    symposium,
    was_asked,
)
from tests.engine.symposium import kept, seated
from tests.engine.test_replay import play
from tests.features.council.sitting import CHAIR, config
from tests.spoken import ballot, claiming, synthesis, turn, verdict
from tests.support import StoreFactory

YES, NO = ballot("yes"), ballot("no")
ALIKE = ((YES,),) * 5

# How it goes


def test_a_council_whose_first_seats_agree_asks_nobody_else(office: Office) -> None:
    """Three who agree independently of each other are enough, and cost less than five."""
    run = office.do(RunRequest(QUESTION, None, panel(*ALIKE)))
    report = report_of(office)

    assert run.outcome is Outcome.OK
    assert office.answer() == b"yes"
    assert sorted(asked(office)) == ["ballot.0.1", "ballot.0.2", "ballot.0.3"]
    assert (report.end, report.ground, report.accord) == ("gate", "gate", "agreed")
    assert report.absent == ()
    assert office.findings() == ()


@pytest.mark.parametrize("is_left_out", [False, True])
def test_the_answer_of_a_session_is_flagged_like_every_other(
    office: Office, monkeypatch: pytest.MonkeyPatch, *, is_left_out: bool
) -> None:
    """By its words, on record, without a change of the outcome; an option is never flagged."""
    wide = (
        (ballot("the sea is wide, blue and full of small and large fish, as anglers say"),),
    ) * 5
    if is_left_out:
        monkeypatch.setattr("forum.engine.run_driver.flag_session", lambda *_, **__: [])
    run = office.do(RunRequest("How long is the Danube?", None, panel(*wide, version=2)))
    chosen = Session("How long is it?", panel(*ALIKE, options=("fish",), version=2), 0)

    assert run.outcome is Outcome.OK
    assert not flag_session(chosen, SessionResult(Outcome.OK, "fish"))
    flags = [(check.subject, check.outcome, check.reason) for _, check in run.checks]
    expected = [("coverage", Outcome.INDETERMINATE, "off-topic")]
    assert flags == ([] if is_left_out else expected)
    assert bool(office.findings()) == is_left_out


def test_a_divided_council_exchanges_its_ballots_and_votes(office: Office) -> None:
    """A change with a reason counts, one without is shown and does not, and dissent is told."""
    run = office.do(split())
    report = report_of(office)
    kinds = [entry.kind for entry in office.entries() if entry.strand == "main"]

    assert run.outcome is Outcome.OK
    assert office.answer() == b"yes"
    assert kinds == [
        "run.open/1", "accepted/1", "council/1", "baseline/1", "reveal/1", "reveal/1",
        "council.close/1", "answer/1", "run.close/1",
    ]  # fmt: skip
    assert (report.end, report.ground, report.accord) == ("rounds", "vote", "majority")
    changes = [(change.seat, change.conformity) for change in report.changes]
    assert changes == [(1, False), (3, True)]
    assert [
        (minority_position.answer, minority_position.seats) for minority_position in report.minority
    ] == [("no", (3, 5))]
    assert (report.baseline.answer, report.baseline.changed) == ("no", True)
    assert report.warnings == ()
    assert office.findings() == ()


def test_an_answer_of_a_council_claims_what_every_verifier_can_read(office: Office) -> None:
    """Release 0.1.0 knows no claims of looks, and reports a session with one as forged."""
    text = ballot("I checked the logs. All tests passed.")
    office.do(RunRequest(QUESTION, None, panel(*((text,),) * 3)))
    (answered,) = [entry for entry in office.entries() if entry.kind == "answer/1"]

    assert [claim["deed"] for claim in json.loads(office.body(answered, "claims"))] == ["tests"]
    assert office.findings() == ()


def test_every_ballot_is_sealed_before_anybody_sees_one(office: Office) -> None:
    """Each entry that shows one rests on the reveal, and that on every ballot of the round."""
    office.do(split())
    told = office.told()
    places = {leaf.hex(): n for n, (leaf, _) in enumerate(told)}
    (reveal,) = [leaf for leaf, entry in told if entry.step == "reveal/0"]
    sealed = [leaf for leaf, entry in told if entry.kind == "ballot/1" and entry.facts.round == 0]
    shown = [e for _, e in told if was_asked(e) and e.strand.startswith("turn/ballot.1.")]
    ends = [e for _, e in told if e.kind == "verdict/1" and e.strand.startswith("turn/ballot.0.")]
    revealed = dict(told)[reveal]

    assert len(sealed) == len(ends) == len(shown) == 5
    assert {e.strand for e in ends} == {_strand_of(told, parent) for parent in revealed.parents}
    assert all(entry.parents == (reveal.hex(),) for entry in shown)
    assert max(places[leaf.hex()] for leaf in sealed) < places[reveal.hex()]
    assert all(b"rusty" not in office.body(e, "prompt") for _, e in told if _is_first_call(e))


def _strand_of(told: Any, leaf: str) -> str:  # noqa: ANN401
    return str(next(entry.strand for one, entry in told if one.hex() == leaf))


def _is_first_call(entry: Any) -> bool:  # noqa: ANN401
    return was_asked(entry) and entry.strand.startswith("turn/ballot.0.")


@pytest.mark.parametrize(
    ("preferred", "answer", "ground"),
    [
        (("second", "first"), b"Paint it.", "judge"),
        (("first", "second"), b"Keep it.", "judge"),
        (("first", "first"), b"Keep it.", "judge"),
    ],
)
def test_a_judge_reads_each_pair_in_both_orders(
    office: Office, preferred: tuple[str, str], answer: bytes, ground: str
) -> None:
    """Who prefers whatever comes first has preferred nothing: the vote stays as it is."""
    run = office.do(judged(*preferred))
    prompts = [
        office.body(entry, "prompt")
        for entry in office.entries()
        if was_asked(entry) and entry.strand.startswith("turn/judge.1.")
    ]

    assert run.outcome is Outcome.OK
    assert office.answer() == answer
    assert report_of(office).ground == ground
    assert sorted(asked(office))[-4:] == ["judge.1.1", "judge.1.2", "judge.2.1", "judge.2.2"]
    first, second = (sorted((p.find(b"Keep"), p.find(b"Paint"))) for p in prompts)
    assert -1 not in (*first, *second)
    assert {p.find(b"Keep") < p.find(b"Paint") for p in prompts} == {True, False}


def test_a_check_outweighs_the_vote(office: Office) -> None:
    """What a tool finds to hold is the answer, however few have given it."""
    office.hands.at_deed = lambda invocation: _holds(invocation, "no")
    run = office.do(checked())

    assert run.outcome is Outcome.OK
    assert office.answer() == b"no"
    assert report_of(office).ground == "check"
    given = [
        json.loads(b"".join(invocation.arguments.chunks())) for invocation in office.hands.deeds
    ]
    assert {one["answer"] for one in given} == {"yes", "no"}
    assert {one["request"] for one in given} == {QUESTION}
    assert office.findings() == ()


def test_first_answers_that_agree_are_checked_too(office: Office) -> None:
    """Three may be wrong alike: then the others are asked after all."""
    office.hands.at_deed = lambda invocation: _holds(invocation, "no")
    tools = {"test": ToolSpec(("test",))}
    ways = ((YES,), (YES,), (YES,), (NO, NO), (YES, YES))
    run = office.do(RunRequest(QUESTION, None, panel(*ways, check="test", policy={"tools": tools})))

    assert run.outcome is Outcome.OK
    assert office.answer() == b"no"
    assert "ballot.0.5" in asked(office)


def _holds(invocation: ToolInvocation, answer: str) -> CallReply:
    said = json.loads(b"".join(invocation.arguments.chunks()))["answer"]
    return CallReply(Outcome.OK if said == answer else Outcome.FAILED, text_content("looked"))


def test_a_task_with_a_panel_is_deliberated_on_in_a_run_of_its_own(office: Office) -> None:
    """What it comes to is the result of the task; what it costs is paid by the run."""
    policy = panel(*DIVIDED)
    council = policy.panel
    assert isinstance(council, Council)
    tasks = plan(
        Task("look", "Look at the bridge."),
        Task("decide", QUESTION, needs=("look",), panel=council, budget=RunBudget(usd=50 * PRICE)),
        Task("act", "Act on it.", needs=("decide",)),
    )
    request = RunRequest(
        "See to it.", tasks, quick(agents=policy.agents), RunBudget(usd=100 * PRICE)
    )
    run = office.do(request)
    (child,) = [e.facts.run for e in office.entries() if isinstance(e.facts, DelegationFacts)]

    assert run.outcome is Outcome.OK
    assert office.answer(child) == b"yes"
    assert {task.state for task in run.tasks.values()} == {TaskState.PASSED}
    assert report_of(office, child).accord == "majority"
    assert b"yes" in office.prompt("act")
    assert office.account().used.usd == 10 * PRICE
    assert office.findings() == ()


def test_a_panel_within_a_plan_is_shown_all_that_its_task_is(office: Office) -> None:
    """Two inputs of which each is short enough are together longer than what is quoted of one."""
    council = Council((Seat("one"),))
    agents = {"": Scripted(), "one": Scripted({"~ballot.0.1": (ScriptStep(YES),)})}
    tasks = plan(
        Task("first", "a" * 30_000),
        Task("second", "b" * 30_000),
        Task("decide", QUESTION, needs=("first", "second"), panel=council),
    )
    office.do(RunRequest("See to it.", tasks, quick(agents=agents)))
    (child,) = [e.facts.run for e in office.entries() if isinstance(e.facts, DelegationFacts)]
    (called,) = [entry for entry in office.entries(child) if entry.kind == "call/1"]

    assert b"b" * 30_000 in office.body(called, "prompt")
    assert office.findings() == ()


def test_fifty_seats_are_more_than_one_entry_can_name(office: Office) -> None:
    """What follows from fifty ballots names all of them, sixteen at a time."""
    ways = tuple((NO if seat % 3 == 0 else YES,) * 2 for seat in range(1, 51))
    run = office.do(RunRequest(QUESTION, None, panel(*ways, baseline=0, policy={"parallel": 16})))
    document = dict(office.told())
    report = report_of(office)

    assert run.outcome is Outcome.OK
    assert office.answer() == b"yes"
    assert len(report.seats) == 50
    assert sum(len(minority_position.seats) for minority_position in report.minority) == 16
    for step in ("reveal/0", "reveal/1", "council.close"):
        (noted,) = [entry for entry in document.values() if entry.step == step]
        assert len(_ballots_behind(document, noted)) == 50, step
    assert office.hands.most <= 16
    assert office.findings() == ()


def _ballots_behind(document: dict[Any, Any], entry: Any) -> set[str]:  # noqa: ANN401
    """Return the turns that an entry follows from, through those that only join others."""
    by_id = {leaf.hex(): one for leaf, one in document.items()}
    texts: set[str] = set()
    for parent in entry.parents:
        one = by_id[parent]
        texts |= _ballots_behind(document, one) if one.kind == "join/1" else {one.strand}
    return texts


def test_no_more_seats_speak_at_once_than_may(office: Office) -> None:
    """A provider's patience is one for all seats."""
    office.do(split(milliseconds=20, policy={"parallel": 2}))

    assert office.hands.most == 2
    assert len(office.hands.calls) == 10


def test_seats_that_are_one_agent_are_told_of(office: Office) -> None:
    """It agrees with itself more than others would: whoever reads the report must know."""
    agents = {"": Scripted({"*": (ScriptStep(YES),)})}
    run = office.do(RunRequest(QUESTION, None, quick(agents=agents, panel=Council((Seat(),) * 5))))

    assert run.outcome is Outcome.OK
    assert report_of(office).warnings == (SINGLE_AGENT_WARNING,)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (quick(panel=Council(), gates=("plan",)), "gates"),
        (quick(panel=Council(), gates=("tasks",)), "gates"),
        (quick(panel=Council(check="test")), "no tool is called 'test'"),
        (quick(panel=Council((Seat("nobody"),))), "nobody"),
        (quick(panel=Council(judge="nobody")), "nobody"),
        (quick(panel=Council(())), "0 seats"),
        (quick(panel=Council((Seat(),) * 101)), "101 seats"),
        (quick(panel=Council(rounds=11)), "11 rounds"),
    ],
)
def test_a_panel_that_cannot_sit_is_refused(office: Office, policy: Policy, why: str) -> None:
    """At once, and not when it comes to that seat."""
    with pytest.raises(BadPlan, match=why):
        office.accept(RunRequest(QUESTION, None, policy))
    assert office.entries() == []


def test_a_task_has_a_panel_or_a_plan_of_its_own() -> None:
    """Who of them should do it would be anybody's guess."""
    with pytest.raises(BadPlan, match="both"):
        plan(Task("a", "x", tasks=chain("b").tasks, panel=Council()))


# Seats that fail


def test_a_seat_that_fails_is_absent(office: Office) -> None:
    """The others decide, and the report says who was not heard."""
    ways: tuple[Way, ...] = (*DIVIDED[:4], (ScriptStep(fail="503"),))
    run = office.do(RunRequest(QUESTION, None, panel(*ways)))
    report = report_of(office)

    assert run.outcome is Outcome.OK
    assert report.absent == (5,)
    assert [seat.seat for seat in report.seats] == [1, 2, 3, 4]
    assert asked(office).count("ballot.0.5") == 3, "it was asked again, twice"
    assert "ballot.1.5" not in asked(office)
    assert run.task("~ballot.0.5").state is TaskState.FAILED
    assert office.findings() == ()


def test_a_council_in_which_nobody_says_anything_has_no_answer(office: Office) -> None:
    """Silence is not agreement."""
    run = office.do(RunRequest(QUESTION, None, panel(*((ScriptStep("hm"),),) * 5)))
    report = report_of(office)

    assert run.outcome is Outcome.FAILED
    assert office.answer() == b""
    assert (report.end, report.ground, report.absent) == ("silent", "none", (1, 2, 3, 4, 5))
    assert office.findings() == ()


def test_a_malformed_reply_is_repaired(office: Office) -> None:
    """Its author is told what was wrong, with its own words, and its price counts."""
    agent = Scripted({"*": (ScriptStep('{"answer": 7}'), ScriptStep(YES))}, usd=PRICE)
    policy = quick(agents={"": agent}, panel=Council((Seat(),), baseline=0))
    run = office.do(RunRequest(QUESTION, None, policy))
    again = office.body([e for e in office.entries() if was_asked(e)][1], "prompt")

    assert run.outcome is Outcome.OK
    assert len(run.task("~ballot.0.1").calls) == 2
    assert b'{"answer": 7}' in again
    assert b"Expected `str`" in again
    assert report_of(office).spent.usd == 2 * PRICE
    assert office.findings() == ()


def test_secrets_are_masked_in_all_that_is_said(office: Office) -> None:
    """In replies, ballots, what others are shown, the report and the answer."""
    canary = "sk-canary-7731-xylophone"
    mask = SecretMask.from_secrets({"KEY": canary.encode()})
    office.ledger = Ledger(office.store, KINDS, now, lambda: b"s" * 32, mask=mask)
    office.engine = Engine(office.ledger, office.hands.model, office.hands.open_tools)
    ways = (
        (claiming(f"use {canary}", f"{canary} opens it"),) * 2,
        (ballot("no", question=f"is it {canary}?", blocker=canary), NO),
        (ballot(f"use {canary}"),) * 2,
    )
    run = office.do(RunRequest(f"Is it {canary}?", None, panel(*ways)))
    bodies = [office.body(entry, name) for entry in office.entries() for name in entry.bodies]

    assert run.outcome is Outcome.OK
    assert b"KEY" in office.answer()
    assert not [body for body in bodies if canary.encode() in body]
    assert all(canary not in str(entry) for entry in office.entries())
    assert office.findings() == ()


@pytest.mark.parametrize("ending", [verdict("finalize"), "so be it"], ids=["ends", "terminates"])
def test_an_artifact_has_the_digest_of_what_masks_have_left(office: Office, ending: str) -> None:
    """A secret that was escaped in a reply is masked only when its message is recorded."""
    mask = SecretMask.from_secrets({"KEY": b"hunter2-canary"})
    office.ledger = Ledger(office.store, KINDS, now, lambda: b"s" * 32, mask=mask)
    office.engine = Engine(office.ledger, office.hands.model, office.hands.open_tools)
    escaped = turn("it opens with hunter2-canary").replace("hunter2", r"hunt\u0065r2")
    office.do(held(escaped, ending, synthesis("Yes."), panel=("ada",)))
    artifact = format_file(build_artifact(kept(office)))

    assert b"opens with [secret KEY]" in artifact
    assert check_artifact(artifact) == ()
    assert office.findings() == ()


# Limits


@pytest.mark.parametrize(
    ("budget", "reason", "calls"),
    [
        ({"per_agent_token_budget": {"ada": 100}}, Reason.BUDGET_EXCEEDED, 2),
        ({"max_total_tokens": 100}, Reason.BUDGET_EXCEEDED, 2),
        ({"max_total_cost_usd": 1e-6}, Reason.BUDGET_EXCEEDED, 2),
        ({}, Reason.SCHEMA_ERROR, 3),
    ],
    ids=["an agent's tokens", "tokens", "dollars", "no cap"],
)
def test_who_has_used_more_than_is_left_is_not_asked_again(
    office: Office, budget: dict[str, object], reason: Reason, calls: int
) -> None:
    """The caps of a symposium are asked about between the calls of one turn, too."""
    agent = Scripted({"*": (ScriptStep("hm", tokens=60, usd=600),)})
    request = seated(config(panel=("ada",), budget=budget), agent)
    office.do(replace(request, budget=RunBudget()))  # the run's own budget would end it
    closed = kept(office).closed

    assert closed is not None
    assert (closed.reason, len(office.hands.calls)) == (reason, calls)
    assert office.findings() == ()


CAPPED: dict[str, dict[str, Any]] = {
    "an agent": {"budget": {"per_agent_token_budget": {"ada": 99}}},
    "the selector": {"selector": {"strategy": "llm", "selector_budget": {"max_tokens": 99}}},
}


@pytest.mark.parametrize("capped", CAPPED.values(), ids=CAPPED)
def test_who_is_turned_away_is_not_asked_again_once_a_cap_is_passed(
    office: Office, capped: dict[str, Any]
) -> None:
    """A provider may say in the middle of an answer that it is too busy, and bill what it likes."""

    class Busy:
        """Turns everybody away, at the full price."""

        def __init__(self, agent: Any) -> None:  # noqa: ANN401
            model = office.hands.model(agent)
            self.name, self.bound = model.name, model.bound

        async def reply(self, call: ModelCall) -> CallReply:
            spent = self.bound(call)
            return CallReply(Outcome.FAILED, spent=spent, why=Why.THROTTLED, retry_milliseconds=1)

    office.engine = Engine(office.ledger, Busy, office.hands.open_tools)
    run = office.do(seated(config(panel=("ada",), **capped), Scripted(tokens=100)))
    closed = kept(office).closed

    assert run.spent == office.account().used == Amount(0, 100, 1)
    assert closed is not None
    assert (closed.reason, closed.tokens) == (Reason.BUDGET_EXCEEDED, 100)
    assert office.findings() == ()


@pytest.mark.parametrize("capped", CAPPED.values(), ids=CAPPED)
def test_a_call_that_was_lost_is_not_made_again_once_a_cap_is_passed(
    factory: StoreFactory, capped: dict[str, Any]
) -> None:
    """It may have been billed: what was reserved for it is used."""
    dying = Office(factory())

    def die(_: ModelCall) -> None:
        raise asyncio.CancelledError

    dying.hands.at_call = die
    dying.accept(seated(config(panel=("ada",), **capped), Scripted(tokens=100)))
    with pytest.raises(asyncio.CancelledError):
        dying.work()
    office = Office(factory())
    office.work()
    closed = kept(office).closed

    assert office.hands.calls == []
    assert office.account().used == Amount(0, 100, 1)
    assert closed is not None
    assert (closed.reason, closed.tokens) == (Reason.BUDGET_EXCEEDED, 100)
    assert office.findings() == ()


def test_a_last_answer_that_is_turned_away_for_nothing_is_asked_for_again(office: Office) -> None:
    """The coordinator has passed its cap before; in the turn that is left it has used nothing."""

    class Busy:
        """Turns away the first who asks for the answer, and bills nothing."""

        def __init__(self, agent: Any) -> None:  # noqa: ANN401
            self._model = office.hands.model(agent)
            self.name, self.bound = self._model.name, self._model.bound

        async def reply(self, call: ModelCall) -> CallReply:
            if call.task == "~turn.3" and call.step.endswith("call/1/reply"):
                return CallReply(Outcome.FAILED, why=Why.THROTTLED, retry_milliseconds=1)
            return await self._model.reply(call)

    said = (turn("It is old."), verdict("continue"), synthesis("Yes."))
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"~turn.{n}": (ScriptStep(words, tokens=60),) for n, words in enumerate(said, 1)
    }
    given = config(
        panel=("ada",),
        budget={"per_agent_token_budget": {CHAIR: 59}},
        runtime={"synthesize_on_terminate": True},
    )
    office.engine = Engine(office.ledger, Busy, office.hands.open_tools)
    run = office.do(seated(given, Scripted(moves, tokens=100)))

    assert run.outcome is Outcome.OK
    assert office.answer() == b"Yes."
    assert len(run.task("~turn.3").calls) == 2
    assert office.findings() == ()


def _dear(*texts: str) -> tuple[ScriptStep, ...]:
    """Return what is said, and billed at nearly all that an entry can say."""
    return tuple(ScriptStep(words, usd=0, tokens=NO_LIMIT - 1) for words in texts)


_DEAR = {"": Scripted({"*": _dear("x")}, tokens=1)}


@pytest.mark.parametrize(
    "run_request",
    [
        RunRequest(QUESTION, None, panel(*[_dear(YES), _dear(NO)] * 2)),
        RunRequest("x", chain("a", "b", "c"), quick(agents=_DEAR)),
    ],
    ids=["a council", "a plan"],
)
def test_bills_that_no_entry_can_say_end_a_run_like_others(
    office: Office, run_request: RunRequest
) -> None:
    """A provider may bill whatever it likes: more is counted as the most that can be said."""
    run = office.do(run_request)

    assert run.outcome is Outcome.DENIED
    assert office.findings() == ()


def test_bills_that_no_entry_can_say_are_the_most_that_an_artifact_can(office: Office) -> None:
    """Those of one turn, of which one was in vain, and those of all turns."""
    said = (("hm", turn("one")), (verdict("finalize"),), (synthesis("Yes."),))
    moves = {f"~turn.{number}": _dear(*words) for number, words in enumerate(said, 1)}
    given = config(panel=("ada",), budget={"max_total_tokens": NO_LIMIT})
    run = office.do(seated(given, Scripted(moves)))

    assert run.outcome is Outcome.OK
    assert build_artifact(kept(office)).cumulative_usage.total_tokens == NO_LIMIT
    assert office.findings() == ()


def test_a_budget_that_is_used_up_ends_a_council_with_what_it_has(office: Office) -> None:
    """Spent and reserved together never exceed it, and the report says that it was stopped."""
    cap = 7 * PRICE + PRICE // 2
    request = split(milliseconds=20)
    run = office.do(RunRequest(QUESTION, None, request.policy, RunBudget(usd=cap)))
    report = report_of(office)

    assert run.outcome is Outcome.DENIED
    assert run.stopped is not None
    assert run.stopped.reason is StopReason.BUDGET
    assert max(amount.usd for amount in spending(office.entries())) <= cap
    assert office.account().used == Amount(7 * PRICE, 420, 7)
    assert report.end == "stopped"
    assert office.answer() == report.answer.encode() != b""
    assert office.alarms() == []
    assert office.findings() == ()


def test_a_budget_for_nothing_ends_a_council_without_an_answer(office: Office) -> None:
    """Nobody was asked, and that is what is recorded."""
    run = office.do(RunRequest(QUESTION, None, split().policy, RunBudget(usd=1)))

    assert run.outcome is Outcome.DENIED
    assert office.hands.calls == []
    assert (report_of(office).end, report_of(office).absent) == ("stopped", (1, 2, 3, 4, 5))
    assert office.findings() == ()


def test_a_turn_that_ends_before_it_begins_names_the_note_before_it(office: Office) -> None:
    """Every turn does, whatever its first entry is: by that others find what it was for."""
    office.do(RunRequest(QUESTION, None, split().policy, RunBudget(usd=1)))
    (note,) = [leaf.hex() for leaf, entry in office.told() if entry.step == "council"]
    first = [e for e in office.entries() if e.strand.startswith("turn/") and e.n == 0]

    assert {entry.step for entry in first} <= {"stop", "skip"}
    assert {entry.parents for entry in first} == {(note,)}


def test_a_council_ends_when_its_time_is_over(office: Office) -> None:
    """A call of forty seconds does not make a second longer."""
    request = RunRequest(
        QUESTION, None, split(milliseconds=40_000).policy, RunBudget(milliseconds=1000)
    )
    began = time.monotonic()
    run = office.do(request)
    took = time.monotonic() - began

    assert 1.0 <= took < 20
    assert run.outcome is Outcome.TIMEOUT
    assert run.stopped is not None
    assert run.stopped.reason is StopReason.DEADLINE
    assert report_of(office).end == "stopped"
    assert office.alarms() == []
    assert office.findings() == ()


def test_an_engine_asks_no_more_seats_at_once_than_it_has_places(office: Office) -> None:
    """Those of all sessions together: whoever runs it has promised somebody not to."""
    office.engine.limit_tasks(2)
    request = split(milliseconds=20)
    office.accept(RunRequest(QUESTION, None, request.policy), "run-2")
    office.accept(RunRequest(QUESTION, None, request.policy))
    office.work()

    assert office.hands.most == 2
    assert {read_run(office.ledger, run).outcome for run in (RUN, "run-2")} == {Outcome.OK}


def test_who_waits_for_money_keeps_no_place_from_those_who_give_it_back(office: Office) -> None:
    """A panel within a plan needs one to come to its end; a task waits for what it leaves."""
    office.engine.limit_tasks(1)
    policy = panel(*DIVIDED, milliseconds=10)
    assert isinstance(policy.panel, Council)
    tasks = plan(
        Task("first", "x"),
        Task("decide", QUESTION, panel=policy.panel, budget=RunBudget(usd=12 * PRICE)),
        Task("dear", "x", needs=("first",), agent="dear"),
    )
    agents = {
        **policy.agents,
        "": Scripted({"*": (ScriptStep("x", milliseconds=50),)}),
        "dear": Scripted(usd=9 * PRICE),
    }
    budget = RunBudget(usd=20 * PRICE, milliseconds=5000)
    run = office.do(RunRequest("See to it.", tasks, quick(agents=agents), budget))

    assert run.outcome is Outcome.OK
    assert office.hands.most == 1
    assert office.findings() == ()


def test_who_has_waited_for_money_has_no_more_time_than_is_left(office: Office) -> None:
    """A call that begins late ends with the council, and not as late as it begins."""
    first, second = (ScriptStep(YES, usd=0, milliseconds=ms) for ms in (1500, 40_000))
    budget = RunBudget(usd=PRICE, milliseconds=3000)
    began = time.monotonic()
    request = RunRequest(QUESTION, None, panel((first,), (second,), baseline=0), budget)
    run = office.do(request)

    assert time.monotonic() - began < 20
    assert [call.seconds <= 1.5 for call in office.hands.calls] == [False, True]
    assert run.outcome is Outcome.TIMEOUT
    assert office.findings() == ()


def test_who_waits_for_a_place_is_stopped_like_everybody(office: Office) -> None:
    """A second is not made longer by seats that could not even begin."""
    office.engine.limit_tasks(1)
    request = RunRequest(
        QUESTION, None, split(milliseconds=40_000).policy, RunBudget(milliseconds=1000)
    )
    began = time.monotonic()
    run = office.do(request)

    assert time.monotonic() - began < 20
    assert run.outcome is Outcome.TIMEOUT
    assert len(office.hands.calls) == 1
    assert office.findings() == ()


def test_an_engine_that_rests_begins_no_more_turns(office: Office, factory: StoreFactory) -> None:
    """What is going on comes to its end; who waited for a place is left to the next engine."""
    office.engine.limit_tasks(1)
    office.accept(split(milliseconds=20))

    async def rest(_: Office) -> None:
        await until(lambda: office.hands.going == 1)
        office.engine.stop_starting_tasks()
        await until(lambda: not office.engine.is_working)
        await asyncio.sleep(0.1)
        raise Cut

    with pytest.raises(Cut):
        office.work(meanwhile=rest)
    assert len(office.hands.calls) == 1

    other = Office(factory(), office.hands)
    assert other.work().outcome is Outcome.OK
    assert len(office.hands.calls) == 10
    assert other.findings() == ()


def test_a_model_that_knows_no_time_does_not_hold_a_council_up(office: Office) -> None:
    """It is cut off shortly after its time, which was the time of the council."""
    model = office.hands.model

    class Stubborn:
        """Takes forty seconds, whatever it is told."""

        def __init__(self, agent: Any) -> None:  # noqa: ANN401
            self._model = model(agent)
            self.name, self.bound = self._model.name, self._model.bound

        async def reply(self, call: ModelCall) -> CallReply:
            await asyncio.sleep(40)
            return await self._model.reply(call)

    office.engine = Engine(office.ledger, Stubborn, office.hands.open_tools)
    began = time.monotonic()
    run = office.do(RunRequest(QUESTION, None, split().policy, RunBudget(milliseconds=1000)))

    assert time.monotonic() - began < 20
    assert run.outcome is Outcome.TIMEOUT


def test_a_council_that_is_cancelled_ends_at_once(office: Office) -> None:
    """Calls are cut off, who has not begun is not asked, what was said is kept."""
    ways = ((claiming("no", "it is old"),), *(((ScriptStep(YES, milliseconds=20_000)),),) * 4)
    office.accept(RunRequest(QUESTION, None, panel(*ways)))

    async def stop(office: Office) -> None:
        def going_on() -> bool:
            run = read_run(office.ledger, RUN)
            others = (run.task(f"~ballot.0.{seat}").calls for seat in (2, 3))
            return run.task("~ballot.0.1").state.is_end and all(others)

        await until(going_on)
        cancel_run(office.ledger, RUN, PERSON)

    began = time.monotonic()
    run = office.work(meanwhile=stop)

    assert time.monotonic() - began < 15
    assert run.outcome is Outcome.CANCELLED
    assert office.answer() == b"no"
    assert report_of(office).end == "stopped"
    cut = [run.task(f"~ballot.0.{seat}").calls[0].replied for seat in (2, 3)]
    assert cut == [ReplyFacts(Outcome.CANCELLED, Why.CANCELLED, PRICE, 100)] * 2
    assert sorted(asked(office)) == ["ballot.0.1", "ballot.0.2", "ballot.0.3"]
    assert office.alarms() == []
    assert office.findings() == ()


def test_a_check_that_a_cancel_cuts_off_finds_nothing_against_the_answer(office: Office) -> None:
    """Nobody has looked at it: the report must not say that it does not hold."""

    class Slow:
        """A tool that takes its time."""

        async def invoke(self, invocation: ToolInvocation) -> CallReply:
            """Cancel the run, and never end."""
            office.hands.deeds.append(invocation)
            cancel_run(office.ledger, RUN, PERSON)
            await asyncio.Event().wait()
            raise AssertionError

    office.engine = Engine(office.ledger, office.hands.model, lambda: nullcontext(lambda _: Slow()))
    run = office.do(checked())

    assert run.outcome is Outcome.CANCELLED
    assert report_of(office).end == "stopped"
    assert NO_CHECKED_ANSWER_WARNING not in report_of(office).warnings
    assert office.findings() == ()


def test_a_council_that_is_cancelled_in_its_last_moment_says_so(office: Office) -> None:
    """The answer is there, and the wish was heard."""
    office.accept(split())
    commit = office.store.append

    def append(records: Any) -> None:  # noqa: ANN401
        commit(records)
        if any(record.position.strand == "main" and b"council.close" in record.data
               for record in records):  # fmt: skip
            cancel_run(office.ledger, RUN, PERSON)

    late = Office(office.store, office.hands, append=append)
    run = late.work()

    assert run.outcome is Outcome.CANCELLED
    assert late.answer() == b"yes"
    assert late.findings() == ()


def test_a_turn_whose_commit_fails_does_not_cut_the_others_off(factory: StoreFactory) -> None:
    """What they have paid for is kept; the turn is taken again, and nothing is silent."""
    store = factory()
    refused: list[str] = []

    def append(records: list[EntryWrite]) -> None:
        strand = records[0].position.strand
        if strand == "turn/ballot.0.2" and not refused:
            refused.append(strand)
            raise StoreFailed("appending", "the disk is full")
        store.append(records)

    office = Office(store, append=append)  # type: ignore[arg-type]
    with pytest.raises(StoreFailed):
        office.do(split(milliseconds=200))
    kept = sorted(e.strand for e in office.entries() if e.kind == "ballot/1")
    run = office.work()

    assert kept == ["turn/ballot.0.1", "turn/ballot.0.3"]
    assert run.outcome is Outcome.OK
    assert len(office.hands.calls) == 10
    assert office.account().used.calls == 10


def held(*texts: str, slow: int = 0, **changes: Any) -> RunRequest:  # noqa: ANN401
    """Ask a symposium in which this is said, turn by turn, in one of them after a long time."""
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"~turn.{number}": (ScriptStep(words, milliseconds=20_000 if number == slow else 0),)
        for number, words in enumerate(texts, 1)
    }
    moves["~selector"] = (ScriptStep(json.dumps({"selected_agents": ["ada"]})),)
    return seated(config(**changes), Scripted(moves, usd=PRICE, tokens=100))


@pytest.mark.parametrize("attended", [True, False], ids=["by its driver", "in its turn"])
@pytest.mark.parametrize("failing", ["terminate", "continue_without"])
def test_a_symposium_that_is_cancelled_says_so_whoever_hears_of_it_first(
    office: Office, monkeypatch: pytest.MonkeyPatch, failing: str, *, attended: bool
) -> None:
    """Whoever was cut off has not failed: nobody leaves the panel, and no agent is to blame."""
    runtime = {"on_agent_failure": failing}
    office.accept(held(turn("one"), turn("two"), slow=2, runtime=runtime))

    async def stop(office: Office) -> None:
        await until(lambda: len(office.hands.calls) == 2)
        if attended:
            cancel_run(office.ledger, RUN, PERSON)
            return
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(office, "dispatch_due_runs", _attend_to_nothing)
            cancel_run(office.ledger, RUN, PERSON)
            office.engine.check_for_stops()
            await until(lambda: read_run(office.ledger, RUN).task("~turn.2").state.is_end)

    run = office.work(meanwhile=stop)
    closed = kept(office).closed

    assert run.outcome is Outcome.CANCELLED
    assert closed is not None
    assert (closed.reason, closed.messages) == (Reason.USER_CANCEL, 2)
    assert closed.usd == office.account().used.usd == 2 * PRICE, "who was cut off is paid"
    assert office.findings() == ()


async def _attend_to_nothing(_: object) -> bool:
    return False


def test_a_turn_that_was_cut_off_is_cut_off_for_whoever_goes_on(factory: StoreFactory) -> None:
    """Its last reply is on record, and its worker died before it could say why it ends."""
    store = factory()

    def append(records: list[EntryWrite]) -> None:
        if any(r.position.strand == "turn/turn.2" and b'"stop"' in r.data for r in records):
            raise Cut
        store.append(records)

    dying = Office(store, append=append)  # type: ignore[arg-type]
    runtime = {"per_agent_retry_budget": 0, "on_agent_failure": "continue_without"}
    dying.accept(held(turn("one"), turn("two"), turn("three"), slow=2, runtime=runtime))

    async def stop(office: Office) -> None:
        await until(lambda: len(office.hands.calls) == 2)
        cancel_run(office.ledger, RUN, PERSON)

    with pytest.raises(Cut):
        dying.work(meanwhile=stop)
    cut = read_run(dying.ledger, RUN).task("~turn.2")
    office = Office(store)
    run = office.work()
    closed = kept(office).closed

    assert cut.calls[-1].replied is not None
    assert not cut.state.is_end
    assert run.outcome is Outcome.CANCELLED
    assert closed is not None
    assert closed.reason is Reason.USER_CANCEL
    assert office.hands.calls == []
    assert office.findings() == ()


def test_a_symposium_has_cost_what_choosing_its_panel_has_cost_too(office: Office) -> None:
    """The account of the run and the close of the session tell of the same calls."""
    selector = {"strategy": "llm", "selector_budget": {"max_tokens": 1000, "max_cost_usd": 1.0}}
    said = (turn("one"), verdict("finalize"), synthesis("Yes."))
    run = office.do(held(*said, selector=selector))
    closed = kept(office).closed

    assert run.outcome is Outcome.OK
    assert closed is not None
    assert closed.usd == office.account().used.usd == 4 * PRICE
    assert closed.tokens == office.account().used.tokens
    assert office.findings() == ()


def test_who_was_overtaken_takes_nothing_off_the_agenda_of_the_other() -> None:
    """Both drive the same session in one process, until the first one notices."""
    cause = Hash(bytes(32))
    intake = RunInput(
        RUN,
        accepted=AcceptedFacts(),
        accepted_entry=cause,
        begun=0,
        policy=Policy(),
        routed=None,
        cause=cause,
    )
    turn_registry, due = (
        TurnRegistry(),
        [PendingTurn(ToolProbe("x", "test", b""), intake, cause) for _ in range(2)],
    )
    first, second = (turn_registry.register([pending_turn]) for pending_turn in due)
    first.__enter__()
    with second:
        first.__exit__(None, None, None)
        pending_turn = turn_registry.find(RUN, "~x")

    assert pending_turn is due[1]
    with pytest.raises(ConcurrentUpdate):
        turn_registry.find(RUN, "~x")


# Playing it again


def divided(office: Office) -> None:
    """Leave a council that deliberated."""
    office.do(split())


def agreed(office: Office) -> None:
    """Leave a council that agreed at once."""
    office.do(RunRequest(QUESTION, None, panel(*ALIKE)))


def compared(office: Office) -> None:
    """Leave a council with a judge."""
    office.do(judged())


def tested(office: Office) -> None:
    """Leave a council with a check."""
    office.do(checked())


def tested_in_vain(office: Office) -> None:
    """Leave a council with a check that says what is wrong."""
    wrong = CallReply(
        Outcome.FAILED, text_content("no"), why=Why.ERROR, code="1", error=text_content("not so")
    )
    office.hands.at_deed = lambda _: wrong
    office.do(checked())


def repaired(office: Office) -> None:
    """Leave a council in which one failed and one could not be understood."""
    ways: tuple[Way, ...] = (*DIVIDED[:3], (ScriptStep("hm"),), (ScriptStep(fail="503"),))
    office.do(RunRequest(QUESTION, None, panel(*ways)))


def too_dear(office: Office) -> None:
    """Leave a council that its budget has stopped beside calls in flight."""
    office.do(RunRequest(QUESTION, None, split(milliseconds=20).policy, RunBudget(usd=7500)))


def too_dear_to_begin(office: Office) -> None:
    """Leave a council that could ask nobody."""
    office.do(RunRequest(QUESTION, None, split().policy, RunBudget(usd=1)))


def too_dear_to_judge(office: Office) -> None:
    """Leave a council that its budget has stopped when it came to the judge."""
    office.do(RunRequest(QUESTION, None, judged().policy, RunBudget(usd=3 * PRICE)))


def too_late(office: Office) -> None:
    """Leave a council whose time was over in the middle of its ballots."""
    office.do(
        RunRequest(QUESTION, None, split(milliseconds=5000).policy, RunBudget(milliseconds=300))
    )


def cancelled(office: Office) -> None:
    """Leave a council that somebody ended between two rounds."""

    def stop(call: ModelCall) -> None:
        if call.task == "~ballot.1.1":
            cancel_run(office.ledger, RUN, PERSON)

    office.hands.at_call = stop
    office.do(split(milliseconds=20))


def cancelled_at_once(office: Office) -> None:
    """Leave a council that somebody ended before it began."""
    office.accept(split())
    cancel_run(office.ledger, RUN, PERSON)
    office.work()


def seated_in_a_task(office: Office) -> None:
    """Leave a plan with a council in it."""
    policy = panel(*DIVIDED)
    assert isinstance(policy.panel, Council)
    tasks = plan(Task("a", "x"), Task("b", QUESTION, needs=("a",), panel=policy.panel))
    office.do(RunRequest("x", tasks, quick(agents=policy.agents), RunBudget(usd=100 * PRICE)))


def by_the_open_protocol(office: Office) -> None:
    """Leave a symposium: its messages tell when they came."""
    office.do(symposiast())


def by_the_open_protocol_too_long(office: Office) -> None:
    """Leave a symposium that took longer than its config lets it."""
    slow = (ScriptStep(turn("It is old."), milliseconds=700),)
    run = office.do(RunRequest(QUESTION, None, symposium(*[slow] * 5, seconds=1)))
    assert run.outcome is Outcome.TIMEOUT
    assert run.stopped is None


def by_the_open_protocol_cancelled(office: Office) -> None:
    """Leave a symposium that somebody ended."""

    def stop(call: ModelCall) -> None:
        if call.task == "~turn.4":
            cancel_run(office.ledger, RUN, PERSON)

    office.hands.at_call = stop
    assert office.do(symposiast(milliseconds=20)).outcome is Outcome.CANCELLED


def by_the_open_protocol_too_late(office: Office) -> None:
    """Leave a symposium that the deadline of its run has cut off in its last try."""
    said = (turn("one"), turn("two"), turn("three"))
    request = held(*said, slow=2, runtime={"per_agent_retry_budget": 0})
    run = office.do(replace(request, budget=RunBudget(milliseconds=500)))
    closed = kept(office).closed
    assert run.outcome is Outcome.TIMEOUT
    assert closed is not None
    assert closed.reason is Reason.TIMEOUT


STORIES = [
    divided,
    agreed,
    compared,
    tested,
    tested_in_vain,
    repaired,
    too_dear,
    too_dear_to_begin,
    too_dear_to_judge,
    too_late,
    cancelled,
    cancelled_at_once,
    seated_in_a_task,
    by_the_open_protocol,
    by_the_open_protocol_too_long,
    by_the_open_protocol_cancelled,
    by_the_open_protocol_too_late,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_replay_of_a_council_says_what_the_record_says(
    office: Office, tmp_path: Path, story: Callable[[Office], None]
) -> None:
    """Prompts, ballots, notes and the report, whatever ended it, and nobody is asked."""
    story(office)

    assert read_run(office.ledger, RUN).outcome is not None
    assert play(office, tmp_path) == []


def test_a_council_is_forked_at_any_of_its_ballots(office: Office) -> None:
    """What was said before is taken from there, and what comes after is asked for anew."""
    office.do(split())
    at = next(
        office.ledger.find_entry(leaf.hex()).index or 0
        for leaf, entry in office.told()
        if entry.step == "reveal/0"
    )
    before = len(office.hands.calls)
    origin = AcceptedFacts(fork_run=RUN, fork_index=at)
    accept_run(office.ledger, "fork", split(), PERSON, origin=origin)
    run = office.work("fork")

    assert run.outcome is Outcome.OK
    assert office.answer("fork") == b"yes"
    assert len(office.hands.calls) - before == 5
    assert _sources(run, 0) == {ReplyOrigin.RECORDED}
    assert _sources(run, 1) == {ReplyOrigin.LIVE}
    assert office.account("fork").used.usd == 5 * PRICE
    assert office.findings() == ()


def test_a_fork_with_another_seat_asks_whoever_is_told_something_else(office: Office) -> None:
    """A reply to another prompt is another reply."""
    office.do(split())
    before = len(office.hands.calls)
    ways = ((claiming("no", "it is ancient"), NO), *DIVIDED[1:])
    origin = AcceptedFacts(fork_run=RUN, fork_index=1 << 40)
    accept_run(
        office.ledger,
        "fork",
        RunRequest(f"{QUESTION} Really?", None, panel(*ways)),
        PERSON,
        origin=origin,
    )
    run = office.work("fork")

    assert run.outcome is Outcome.OK
    assert len(office.hands.calls) - before == 10
    assert _sources(run, 0) == {ReplyOrigin.LIVE}


def test_a_session_that_was_cancelled_goes_on_in_its_fork(office: Office) -> None:
    """Nobody has cancelled the fork: whoever was cut off speaks there."""
    said = (turn("one"), turn("two"), turn("three"), verdict("finalize"), synthesis("Yes."))
    office.accept(held(*said, slow=2))

    async def stop(office: Office) -> None:
        await until(lambda: len(office.hands.calls) == 2)
        cancel_run(office.ledger, RUN, PERSON)

    office.work(meanwhile=stop)
    office.told()
    origin = AcceptedFacts(fork_run=RUN, fork_index=1 << 40)
    accept_run(office.ledger, "fork", held(*said), PERSON, origin=origin)
    run = office.work("fork")

    assert run.outcome is Outcome.OK
    assert office.answer("fork") == b"Yes."
    assert len(office.hands.calls) == 2 + 4, "what was said before is not asked for again"
    assert office.findings() == ()


@pytest.mark.parametrize("at", [5, 12, 20, 1 << 40])
def test_a_fork_follows_from_its_record_wherever_it_begins(office: Office, at: int) -> None:
    """Where replies came from makes no difference to what follows from them."""
    office.do(split())
    office.told()
    accept_run(
        office.ledger, "fork", split(), PERSON, origin=AcceptedFacts(fork_run=RUN, fork_index=at)
    )
    run = office.work("fork")

    assert run.outcome is Outcome.OK
    assert office.findings() == ()


def test_a_fork_shows_the_same_ballots_in_the_same_order(office: Office) -> None:
    """Seeds are computed from commitments: replies that are taken over keep theirs."""
    office.do(split(version=COUNCIL_VERSION))
    office.told()
    origin = AcceptedFacts(fork_run=RUN, fork_index=1 << 40)
    accept_run(office.ledger, "fork", split(version=COUNCIL_VERSION), PERSON, origin=origin)
    run = office.work("fork")

    seeds = [
        [e.facts.seed for e in office.entries(name) if isinstance(e.facts, RevealV2Facts)]
        for name in (RUN, "fork")
    ]
    assert seeds[0] == seeds[1] != []
    assert _sources(run, 1) == {ReplyOrigin.RECORDED}
    assert office.findings() == ()


def _sources(run: Run, number: int) -> set[ReplyOrigin]:
    turns = [
        task
        for name, task in run.tasks.items()
        if name.startswith(f"{TURN_PREFIX}ballot.{number}.")
    ]
    return {call.replied.source for task in turns for call in task.calls if call.replied}


# Erasure


def _erase(office: Office, strand: str, kind: str, body: str) -> None:
    (leaf,) = [leaf for leaf, e in office.told() if (e.strand, e.kind) == (strand, kind)]
    office.findings()
    target = office.ledger.find_entry(leaf.hex())
    office.ledger.request_redaction(target, body, PERSON, RedactionReason.REQUEST)
    office.findings()
    assert office.ledger.erase_redacted()


def test_a_ballot_can_be_erased_and_the_council_still_be_verified(office: Office) -> None:
    """Its digest stays in the tree: that it was sealed in time can be proven, not what it said."""
    office.do(split())
    before = report_of(office)
    _erase(office, "turn/ballot.0.3", "ballot/1", "ballot")

    assert office.findings() == ()
    assert report_of(office) == before
    assert read_run(office.ledger, RUN).outcome is Outcome.OK


def test_a_replay_of_a_council_whose_reply_was_erased_is_a_miss(
    office: Office, tmp_path: Path
) -> None:
    """It is not asked for again, and not made up."""
    office.do(split())
    _erase(office, "turn/ballot.0.3", "reply/1", "output")

    with pytest.raises(ReplayMiss, match="erased"):
        play(office, tmp_path)


def test_a_reply_that_is_erased_meanwhile_leaves_its_seat_silent(factory: StoreFactory) -> None:
    """The right to be forgotten does not wait for a council to end, and does not break it."""
    office = Office(factory())

    def die(call: ModelCall) -> None:
        if call.task == "~ballot.1.2":
            raise asyncio.CancelledError

    office.hands.at_call = die
    office.accept(split(milliseconds=10))
    with pytest.raises(asyncio.CancelledError):
        office.work()
    _erase(office, "turn/ballot.0.2", "reply/1", "output")
    second = Office(factory())
    run = second.work()

    assert run.outcome is Outcome.OK
    assert report_of(second).absent == (2,)
    assert second.alarms() == []


def test_nobody_waits_for_money_that_an_ended_turn_has_reserved(factory: StoreFactory) -> None:
    """It was stopped with an open call, since what it had said before was erased meanwhile."""
    store = factory()

    def append(records: list[EntryWrite]) -> None:
        if len(dying.hands.calls) == 2:
            raise Cut
        store.append(records)

    dying = Office(store, append=append)  # type: ignore[arg-type]
    dying.engine.limit_tasks(1)
    budget = RunBudget(usd=2 * PRICE, milliseconds=5000)
    dying.accept(RunRequest(QUESTION, None, panel(("what?",), ("what?",), baseline=0), budget))
    with pytest.raises(Cut):
        dying.work()
    office = Office(store)
    (strand,) = [entry.strand for entry in office.entries() if entry.kind == "reply/1"]
    _erase(office, strand, "reply/1", "output")
    run = office.work()

    assert run.stopped is not None
    assert run.stopped.reason is StopReason.BUDGET
    assert run.outcome is Outcome.DENIED


def test_no_call_is_on_record_that_nobody_made(office: Office) -> None:
    """Each call of each turn was made once, for that turn."""
    office.do(split())
    recorded = [(e.strand, e.step) for e in office.entries() if isinstance(e.facts, CallFacts)]
    made = [(f"turn/{c.task[1:]}", c.step.removesuffix("/reply")) for c in office.hands.calls]

    assert sorted(recorded) == sorted(made)
