"""The calls of a run without a panel follow from its record, by the rules that its policy names."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from forum.engine import CallReply, Model, ModelCall, RunRequest, cancel_run
from forum.errors import RunAlreadyEnded
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.runs.call_rules import CURRENT_RULES, RULES
from forum.runs.kinds import (
    AcceptedFacts,
    CallFacts,
    Next,
    ReplyFacts,
    StopFacts,
    StopReason,
    VerdictFacts,
    Why,
)
from forum.runs.panel import Council, Seat
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import Agent, Answer, Policy, Role, Scripted, ScriptStep, ToolCall, ToolSpec
from forum.runs.record_comparison import SessionEntries
from forum.verify import Problem, verify_bundle
from forum.verify.task_audit import RunAudit, audit_calls
from tests.engine.office import KINDS, PERSON, RUN, Cut, Hands, Office, Power, plan, quick
from tests.support import StoreFactory
from tests.verify.forging import Forgery, Line, Story, forged, minutes_of, story_of
from tests.verify.samples import standalone, stranger

YES, NO = '{"passed": true, "reason": ""}', '{"passed": false, "reason": "too short"}'
WORDS = ("good", "bad", "", '{"a": 1}', "good again")
ASK = ToolCall("ask", '{"agent":"big","text":"how?"}')


class Moody(Hands):
    """Agents that fail in every way that a provider can."""

    def __init__(self, draw: Random) -> None:
        super().__init__()
        self.draw = draw

    def model(self, agent: Agent) -> Model:
        """Return a model that does not always answer."""
        calm, draw = super().model(agent), self.draw

        class Mood:
            name, bound = calm.name, staticmethod(calm.bound)

            @staticmethod
            async def reply(call: ModelCall) -> CallReply:
                match draw.randrange(12):
                    case 0:
                        return CallReply(
                            Outcome.FAILED, why=Why.THROTTLED, code="429", retry_milliseconds=1
                        )
                    case 1:
                        return CallReply(Outcome.DENIED, why=Why.ERROR, code="401")
                    case 2:
                        raise RuntimeError("broken")
                    case 3:
                        return CallReply(Outcome.OK, text_content("good"), why=Why.CUT)
                    case _:
                        return await calm.reply(call)

        return Mood()


def drawn(draw: Random) -> RunRequest:
    """Return a request in which much goes wrong."""

    def moves() -> tuple[ScriptStep, ...]:
        steps = [
            ScriptStep(draw.choice(WORDS)),
            ScriptStep(draw.choice(WORDS)),
            ScriptStep("hm", use=draw.choice([(ASK,), (ToolCall("pay", "1"), ASK)])),
            ScriptStep(fail="503"),
            ScriptStep("late", milliseconds=60),
            ScriptStep("dear", usd=30),
        ]
        return tuple(draw.choices(steps, k=draw.randint(1, 5)))

    judged = tuple(ScriptStep(word) for word in draw.choices([YES, NO, "well", ""], k=3))
    demands = ("", "contains good", "json", "command look", "be kind", "contains good\nbe kind")
    tasks = [
        Task(name, "x", draw.choice(demands), needs=("a",) if name == "c" else ())
        for name in "abc"[: draw.randint(1, 3)]
    ]
    if draw.random() < 0.3:
        tasks.append(Task("n", "x", draw.choice(demands), tasks=(Task("a", "x", "contains good"),)))
    agents: dict[str, Agent] = {
        "": Scripted({"*": moves()}, usd=5),
        "big": Scripted({"*": moves()}, usd=7),
        "judge": Scripted({"*": judged}, usd=1),
    }
    policy = quick(
        agents=agents,
        tools={"pay": ToolSpec(("pay",)), "look": ToolSpec(("look",))},
        ladder=draw.choice([(), ("big",)]),
        roles=draw.choice([{}, {Role.VALIDATOR: "judge"}]),
        retries=draw.randint(0, 2),
        turns=draw.choice([2, 5, 100]),
        repeats=draw.choice([0, 2, 3]),
        call_milliseconds=draw.choice([20, 600_000]),
        parallel=draw.randint(1, 3),
    )
    budget = draw.choice([RunBudget(), RunBudget(usd=60), RunBudget(calls=6), RunBudget(depth=0)])
    return RunRequest("do it", plan(*tasks), policy, budget)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_in_a_run_follows_from_its_record(
    factory: StoreFactory, seed: int
) -> None:
    """Agents fail, time out, talk nonsense and are rejected; workers die; caps are reached."""
    draw = Random(seed)
    office = Office(factory(), Moody(draw))
    office.accept(drawn(draw))
    for _ in range(draw.randrange(3)):
        power = Power(office.store, draw.randint(1, 12), persisted=draw.random() < 0.5)
        dying = Office(office.store, office.hands, append=power.append)
        with suppress(Cut, asyncio.CancelledError):
            dying.work()
    if draw.random() < 0.2:
        with suppress(RunAlreadyEnded):
            cancel_run(office.ledger, RUN, PERSON)
    state = office.work()
    while state.outcome is None:  # somebody must say whether an effect happened
        for gate in state.open_gates:
            office.decide(gate.opened.subject, draw.choice(list(Answer)))
        state = office.work()

    assert office.findings() == ()


# Forged runs


def _story(folder: Path, request: RunRequest) -> Story:
    store = StoreFactory(folder / "ledger.db")
    office = Office(store())
    state = office.do(request)
    assert state.outcome is not None
    story = story_of(office)
    store.close()
    return story


def _order(*steps: ScriptStep, done_when: str = "contains good", **members: Any) -> RunRequest:  # noqa: ANN401
    agents = {
        "": Scripted({"*": steps}),
        "big": Scripted({"*": (ScriptStep("good"),)}),
        "other": Scripted({"*": (ScriptStep("good"),)}),
        "judge": Scripted({"*": (ScriptStep(YES),)}),
    }
    policy = quick(**{"agents": agents, "retries": 1, **members})
    return RunRequest("do it", plan(Task("a", "x", done_when)), policy)


FAIL, BAD = ScriptStep(fail="503"), ScriptStep("bad")
GOOD = ScriptStep("good")
ORDERS = {
    "failed": _order(FAIL),
    "escalated": _order(FAIL, BAD, ladder=("big",)),
    "good": _order(GOOD),
    "judged": _order(GOOD, done_when="be kind", roles={Role.VALIDATOR: "judge"}),
    "turns": _order(ScriptStep("hm", use=(ASK,)), turns=3, repeats=0),
    "repeats": _order(ScriptStep("hm", use=(ToolCall("none", "1"),)), repeats=2),
}
TASK = "task/a"


def _again(story: Story, attempt: int, **changes: str) -> None:
    """Write the last attempt once more, as another attempt."""
    lines = [line for line in story.of(TASK) if line.step.startswith(f"attempt/{attempt}/")]
    at = story.lines.index(lines[-1]) + 1
    step = f"attempt/{attempt}/", f"attempt/{attempt + 1}/"
    copies = [
        replace(
            line,
            id=f"{line.id}/again",
            step=line.step.replace(*step),
            facts=line.facts
            if isinstance(line.facts, ReplyFacts)
            else msgspec.structs.replace(line.facts, attempt=attempt + 1, **changes),
            parents=[],
        )
        for line in lines
    ]
    story.lines[at:at] = copies
    for line in story.lines:
        if line.strand != TASK:
            line.parents = [
                copies[-1].id if parent == lines[-1].id else parent for parent in line.parents
            ]


def _one_retry_too_many(story: Story) -> None:
    """Add an attempt to the last one, though `retries` is 1."""
    story.of(TASK, VerdictFacts)[-1].alter(next=Next.RETRY, pause=2)
    _again(story, 2)
    story.of(TASK, VerdictFacts)[-1].alter(next=Next.GIVE_UP, pause=0)


def _retry_after_success(story: Story) -> None:
    """Throw a result away that passed, and make another one."""
    story.one(TASK, VerdictFacts).alter(next=Next.RETRY, outcome=Outcome.FAILED, pause=1)
    _again(story, 1)
    story.of(TASK, VerdictFacts)[-1].alter(next=Next.ACCEPT, outcome=Outcome.OK, pause=0)


def _more_after_the_end(story: Story) -> None:
    """Add an attempt behind the accepted result."""
    _again(story, 1)


def _repair_without_fault(story: Story) -> None:
    """Ask the judge once more, who has given a verdict."""
    call, reply = (story.of(TASK, kind)[-1] for kind in (CallFacts, ReplyFacts))
    at = story.lines.index(reply) + 1
    facts = msgspec.structs.replace(call.facts, turn=3)
    step = "attempt/1/call/3"
    story.lines[at:at] = [
        replace(call, id="c", step=step, facts=facts, parents=[]),
        replace(reply, id="r", step=f"{step}/reply", parents=[]),
    ]


def _other_agent(story: Story) -> None:
    """Have somebody make the attempt after an escalation who is not on the ladder."""
    story.of(TASK, CallFacts)[-1].alter(agent="other")


def _other_reason(reason: StopReason, **members: object) -> Callable[[Story], None]:
    def forge(story: Story) -> None:
        story.one(TASK, StopFacts).alter(reason=reason, **members)

    return forge


def _stop_too_early(story: Story) -> None:
    """Stop before the most calls that the policy allows."""
    _with_policy(turns=4)(story)
    story.one(TASK, StopFacts).alter(used=4, cap=4)


def _with_policy(**members: object) -> Callable[[Story], None]:
    def forge(story: Story) -> None:
        accepted = story.one("main", AcceptedFacts)
        accepted.rewrite(
            "policy", lambda data: json.dumps({**json.loads(data), **members}).encode()
        )

    return forge


def _verdict(number: int, **members: object) -> Callable[[Story], None]:
    def forge(story: Story) -> None:
        story.of(TASK, VerdictFacts)[number].alter(**members)

    return forge


def _other_output(story: Story) -> None:
    """Replace what was rejected by what would have passed."""
    story.of(TASK, ReplyFacts)[1].rewrite("output", lambda _: b"good")


FORGED: dict[str, tuple[str, Callable[[Story], None]]] = {
    "one retry too many": ("failed", _one_retry_too_many),
    "given up too early": ("failed", _with_policy(retries=2)),
    "a retry after success": ("good", _retry_after_success),
    "more after the end": ("good", _more_after_the_end),
    "a repair without a fault": ("judged", _repair_without_fault),
    "a judge who was not asked": ("good", _verdict(0, judge="judge")),
    "an escalation to somebody else": ("escalated", _other_agent),
    "no escalation where there is a ladder": ("escalated", _verdict(1, next=Next.RETRY)),
    "an escalation without a ladder": ("escalated", _with_policy(ladder=[])),
    "a result that was good": ("escalated", _other_output),
    "no pause": ("failed", _verdict(0, pause=0)),
    "a stop for a loop that is none": ("turns", _other_reason(StopReason.REPEAT)),
    "a stop for lost calls that were not": ("turns", _other_reason(StopReason.LOST)),
    "a stop by nobody": ("turns", _other_reason(StopReason.CANCELLED, limit="", asked=0)),
    "a stop by a gate that is not there": ("turns", _other_reason(StopReason.REJECTED)),
    "a stop by a deadline that is not there": ("turns", _other_reason(StopReason.DEADLINE)),
    "a stop by a cap that is not there": ("turns", _other_reason(StopReason.BUDGET, limit="usd")),
    "a stop too early": ("turns", _stop_too_early),
    "a loop that is let go on": ("repeats", _with_policy(repeats=3)),
    "calls beyond the limit": ("escalated", _with_policy(turns=0)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_a_run_that_is_written_anew_is_as_good(folder: Path, name: str) -> None:
    """The forger changes nothing here, so that what is found below is what he has changed."""
    with forged(folder, _story(folder, ORDERS[name])) as forgery:
        for report in (forgery.verify(), forgery.verify_bundle()):
            assert report.findings == ()
            assert report.not_checked == ()
            assert report.intact.reason.endswith(", the calls of 1 run replayed")


@pytest.mark.parametrize("name", FORGED)
def test_what_does_not_follow_from_the_record_is_found(folder: Path, name: str) -> None:
    """Every link, proof and signature holds, and yet no engine has done this."""
    text, forge = FORGED[name]
    story = _story(folder, ORDERS[text])
    forge(story)
    with forged(folder, story) as forgery:
        assert _problems(forgery) == {Problem.RUN_COURSE}


def _problems(forgery: Forgery) -> set[Problem]:
    whole, part = forgery.verify(), forgery.verify_bundle()
    findings = [f for f in whole.findings if f.problem is not Problem.TABLE_MISMATCH]
    assert [str(f) for f in findings] == [str(f) for f in part.findings]
    return {finding.problem for finding in findings}


# What is not checked


def _audit(story: Story, *, gone: Callable[[Line, str], bool]) -> RunAudit:
    minutes = minutes_of(story)
    lines = story.lines
    return audit_calls(
        SessionEntries(
            minutes.run,
            minutes.entries,
            lambda where, name: (
                None if gone(lines[where.index], name) else minutes.body(where, name)
            ),
        )
    )


@pytest.mark.parametrize("body", ["policy", "plan", "output", "uses"])
def test_what_was_erased_is_not_checked_and_no_finding(folder: Path, body: str) -> None:
    """Without a body it cannot be said what had to follow."""
    story = _story(folder, ORDERS["turns"])
    run_audit = _audit(story, gone=lambda _, name: name == body)

    assert run_audit.faults == ()
    assert len(run_audit.not_checked) == 1
    assert f"body {body!r}" in run_audit.not_checked[0]


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        (0, "the calls of 1 run: its policy names no version of the rules, or cannot be read"),
        (7, f"the calls of run {RUN}: "),
    ],
)
def test_rules_that_are_unknown_are_not_replayed(folder: Path, version: int, missing: str) -> None:
    """Runs of earlier and of later releases are not held to the rules of this one."""
    story = _story(folder, ORDERS["failed"])
    _one_retry_too_many(story)
    _with_policy(rules=version)(story)
    with forged(folder, story) as forgery:
        for report in (forgery.verify(), forgery.verify_bundle()):
            assert [f for f in report.findings if f.problem is Problem.RUN_COURSE] == []
            assert len(report.not_checked) == 1
            assert report.not_checked[0].startswith(missing)


def test_the_file_that_strangers_run_says_that_it_replays_no_rules(folder: Path) -> None:
    """All that it checks is right; what it does not check it names."""
    story = _story(folder, ORDERS["failed"])
    _one_retry_too_many(story)
    with forged(folder, story) as forgery:
        data, trust = forgery.bundle(), forgery.trust
    stated = standalone.verify(data, stranger(trust))

    assert stated["findings"] == []
    assert stated["not_checked"] == [f"the calls of run {RUN}: `forum verify` replays them"]
    assert {f.problem for f in verify_bundle(data, KINDS, trust).findings} == {Problem.RUN_COURSE}


def test_every_released_version_can_be_replayed() -> None:
    """A version is never taken away, and the newest is the one of new runs."""
    assert list(RULES) == list(range(1, CURRENT_RULES + 1))


def test_a_session_names_no_version() -> None:
    """Verifiers of earlier releases read the policies of sessions, and know no such member."""
    council = Policy(panel=Council((Seat("a"),)))

    assert Policy().with_rules(1).rules == 1
    assert council.with_rules(1) == council
    assert council.with_rules(2) == council
