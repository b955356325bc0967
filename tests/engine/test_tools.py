"""Effects on the world: meant before they happen, told after, and never had twice by accident."""

import asyncio
from collections.abc import Callable

import pytest

from forum.engine import CallReply, RunRequest, ToolInvocation, cancel_run, edit_gate, read_run
from forum.errors import Malformed
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.runs.kinds import (
    Decider,
    GateDecisionFacts,
    IntentFacts,
    OutcomeFacts,
    StopFacts,
    StopReason,
    Why,
)
from forum.runs.plan import RunBudget
from forum.runs.policy import Answer, Scripted, ScriptStep, ToolCall, ToolSpec
from forum.runs.run_fold import RunState, TaskState
from tests.engine.office import PERSON, RUN, Cut, Hands, Office, Power, chain, quick, until
from tests.support import StoreFactory

PAY = ToolCall("pay", "1")


def paying(*moves: ScriptStep, **members: object) -> RunRequest:
    """Return an order of one agent that makes these moves, and may pay."""
    agents = {"": Scripted({"*": moves or (ScriptStep("", use=(PAY,)), ScriptStep("paid"))})}
    tools = {"pay": ToolSpec(("pay",))}
    return RunRequest("x", chain("a"), quick(agents=agents, tools=tools, **members))


def outcomes(office: Office) -> list[OutcomeFacts]:
    """Return what became of effects, in the order in which it was recorded."""
    return [e.facts for e in office.entries() if isinstance(e.facts, OutcomeFacts)]


def test_an_effect_is_meant_before_it_happens_and_told_after(factory: StoreFactory) -> None:
    """In between there is nothing but the effect."""
    office = Office(factory())
    seen: list[list[str]] = []

    def look(_: ToolInvocation) -> CallReply | None:
        seen.append(Office(factory()).steps("a"))
        return None

    office.hands.at_deed = look
    run = office.do(paying())

    assert seen == [["attempt/1/call/1", "attempt/1/call/1/reply", "attempt/1/use/1"]]
    (intent,) = [(leaf, e) for leaf, e in office.told() if isinstance(e.facts, IntentFacts)]
    (invocation,) = office.hands.deeds
    assert office.body(intent[1], "arguments") == b"1"
    assert (invocation.key, invocation.task, invocation.run) == (intent[0].hex(), "a", RUN)
    assert outcomes(office) == [OutcomeFacts(Outcome.OK)]
    assert b"begin: pay, ok\neffect 1\n---" in office.prompt("a", 1)
    assert run.outcome is Outcome.OK
    assert office.findings() == ()


def test_what_a_tool_says_of_its_failure_is_kept(factory: StoreFactory) -> None:
    """It is told to the agent that it failed, and a reader can find out why."""
    failed = CallReply(
        Outcome.FAILED,
        text_content("half"),
        why=Why.ERROR,
        code="exit\n1",
        error=text_content("no"),
    )
    office = Office(factory(), Hands(at_deed=lambda _: failed))
    run = office.do(paying())
    (entry,) = [e for e in office.entries() if isinstance(e.facts, OutcomeFacts)]

    assert entry.facts == OutcomeFacts(Outcome.FAILED, Why.ERROR, "exit 1")
    assert (office.body(entry, "result"), office.body(entry, "error")) == (b"half", b"no")
    assert b"begin: pay, failed\nhalf\n---" in office.prompt("a", 1)
    assert run.outcome is Outcome.OK


@pytest.mark.parametrize("name", ["steal", "no\nsuch\ntool", "x" * 5000, ""])
def test_a_tool_that_nobody_allowed_is_denied(office: Office, name: str) -> None:
    """Whatever the agent calls it: nothing happens, and the agent is told, on one line."""
    run = office.do(paying(ScriptStep("", use=(ToolCall(name, "all"),)), ScriptStep("well")))

    assert run.outcome is Outcome.OK
    assert office.hands.deeds == []
    assert outcomes(office) == [OutcomeFacts(Outcome.DENIED, Why.ERROR, "no-such-tool")]
    heads = [line for line in office.prompt("a", 1).splitlines() if b"begin: " in line]
    assert len(heads) == 2
    assert heads[1].endswith(b", denied") or len(name) > 100
    assert office.findings() == ()


# Once


def test_the_same_effect_in_a_later_attempt_is_not_had_again(office: Office) -> None:
    """The agent is given what came of it the first time, and the record says which that was."""
    request = paying(
        ScriptStep("", use=(PAY, PAY, ToolCall("pay", "2"))),
        ScriptStep("bad", fail="503"),
        ScriptStep("", use=(ToolCall("pay", "2"), PAY)),
        ScriptStep("ok"),
    )
    run = office.do(request)
    intents = [(leaf.hex(), e) for leaf, e in office.told() if isinstance(e.facts, IntentFacts)]
    told = [(leaf.hex(), e.facts) for leaf, e in office.told() if isinstance(e.facts, OutcomeFacts)]

    assert run.outcome is Outcome.OK
    assert len(office.hands.deeds) == 3, "wanted twice in one attempt, it is two effects"
    assert [e.facts.again for _, e in intents] == ["", "", "", intents[2][0], intents[0][0]]
    assert [facts.known for _, facts in told] == ["", "", "", told[2][0], told[0][0]]
    assert b"begin: pay, ok\neffect 3\n---" in office.prompt("a", 3)
    assert b"begin: pay, ok\neffect 1\n---" in office.prompt("a", 3)
    assert office.findings() == ()


def test_an_effect_that_failed_may_be_tried_again(factory: StoreFactory) -> None:
    """By a later attempt, under the key of the first: a tool that heeds it can tell."""
    replies = iter([CallReply(Outcome.FAILED), CallReply(Outcome.OK)])
    office = Office(factory(), Hands(at_deed=lambda _: next(replies)))
    request = paying(
        ScriptStep("", use=(PAY,)),
        ScriptStep(fail="503"),
        ScriptStep("", use=(PAY,)),
        ScriptStep("ok"),
    )
    run = office.do(request)

    assert run.outcome is Outcome.OK
    assert [facts.outcome for facts in outcomes(office)] == [Outcome.FAILED, Outcome.OK]
    assert len({invocation.key for invocation in office.hands.deeds}) == 1


# Nobody knows


def die(_: ToolInvocation) -> CallReply | None:
    """Die in the middle of an effect."""
    raise asyncio.CancelledError


def broken(factory: StoreFactory, request: RunRequest) -> Office:
    """Return the process that takes over from one that died in the middle of an effect."""
    first = Office(factory(), Hands(at_deed=die))
    first.accept(request)
    with pytest.raises(asyncio.CancelledError):
        first.work()
    return Office(factory())


@pytest.mark.parametrize(
    ("answer", "data"), [(Answer.APPROVE, b"pay, ok"), (Answer.REJECT, b"pay, failed")]
)
def test_an_effect_in_doubt_asks_a_person(
    factory: StoreFactory, answer: Answer, data: bytes
) -> None:
    """Approve: it happened.  Reject: it did not, and the agent may try again.  Never on our own."""
    office = broken(factory, paying())
    waiting = office.work()
    alarms, alarm = office.alarms(), office.alarm()
    office.decide("effect/a/1", answer)
    run = office.work()

    assert (waiting.state, waiting.task("a").state) == (RunState.WAITING, TaskState.WAITING)
    assert (alarms, alarm) == ([(RUN, "gate/effect/a/1")], None)
    assert office.hands.deeds == [], "it was not had again"
    happened = Outcome.OK if answer is Answer.APPROVE else Outcome.FAILED
    assert outcomes(office) == [
        OutcomeFacts(Outcome.INDETERMINATE, Why.LOST),
        OutcomeFacts(happened, Why.LOST, "by-decision"),
    ]
    assert b"begin: " + data + b"\n\n---" in office.prompt("a", 1)
    gate = next(e for e in office.entries() if e.kind == "gate.open/1")
    assert office.body(gate, "shown") == b"1", "the person sees what was about to be done"
    assert run.outcome is Outcome.OK
    assert office.findings() == ()


def test_what_a_person_vouches_for_is_not_had_in_a_later_attempt(factory: StoreFactory) -> None:
    """A decision counts as much as an outcome."""
    request = paying(
        ScriptStep("", use=(PAY,)),
        ScriptStep(fail="503"),
        ScriptStep("", use=(PAY,)),
        ScriptStep("ok"),
    )
    office = broken(factory, request)
    office.work()
    office.decide("effect/a/1", Answer.APPROVE)
    run = office.work()

    assert run.outcome is Outcome.OK
    assert office.hands.deeds == []
    settled = next(leaf.hex() for leaf, e in office.told() if e.step == "attempt/1/use/1/settled")
    assert outcomes(office)[-1] == OutcomeFacts(Outcome.OK, known=settled)


def test_what_a_person_denies_may_be_had_in_a_later_attempt(factory: StoreFactory) -> None:
    """It did not happen, so it can."""
    request = paying(
        ScriptStep("", use=(PAY,)),
        ScriptStep(fail="503"),
        ScriptStep("", use=(PAY,)),
        ScriptStep("ok"),
    )
    office = broken(factory, request)
    office.work()
    office.decide("effect/a/1", Answer.REJECT)
    run = office.work()

    assert run.outcome is Outcome.OK
    assert len(office.hands.deeds) == 1


def test_nobody_can_edit_what_was_done(factory: StoreFactory) -> None:
    """The question is whether it happened, not what should happen."""
    office = broken(factory, paying())
    digest = office.work().gates["gate/effect/a/1"].digest

    with pytest.raises(Malformed, match="cannot be edited"):
        edit_gate(office.ledger, RUN, "effect/a/1", digest, shown=b"2", actor=PERSON)


def test_a_question_that_nobody_answers_has_its_default(factory: StoreFactory) -> None:
    """As at every gate."""
    office = broken(factory, paying(gate_milliseconds=50, gate_default=Answer.REJECT))
    run = office.work()
    while run.outcome is None:
        run = office.work()

    assert run.gates["gate/effect/a/1"].decided == GateDecisionFacts(
        Answer.REJECT, run.gates["gate/effect/a/1"].digest, Decider.DEADLINE
    )
    assert outcomes(office)[-1] == OutcomeFacts(Outcome.FAILED, Why.LOST, "by-decision")


def explode(_: ToolInvocation) -> CallReply:
    """Break a promise."""
    raise RuntimeError("the tool is gone")


@pytest.mark.parametrize(
    ("tool", "facts"),
    [
        (lambda _: CallReply(Outcome.TIMEOUT, why=Why.DEADLINE), (Why.DEADLINE, "")),
        (lambda _: CallReply(Outcome.CANCELLED, why=Why.CANCELLED), (Why.CANCELLED, "")),
        (explode, (Why.ERROR, "RuntimeError")),
    ],
    ids=["too late", "cancelled", "raises"],
)
def test_an_effect_that_was_cut_off_is_in_doubt_too(
    factory: StoreFactory, tool: Callable[[ToolInvocation], CallReply], facts: tuple[Why, str]
) -> None:
    """Whoever kills a payment after a minute does not know whether it was made."""
    office = Office(factory(), Hands(at_deed=tool))
    waiting = office.do(paying())
    office.decide("effect/a/1", Answer.APPROVE)
    run = office.work()

    assert waiting.state is RunState.WAITING
    assert outcomes(office)[0] == OutcomeFacts(Outcome.INDETERMINATE, *facts)
    assert run.outcome is Outcome.OK
    assert len(office.hands.deeds) == 1


# Stops


class Slow(Hands):
    """Tools that take very long, and notice that they are ended."""

    ended = False

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Take very long."""
        self.deeds.append(invocation)
        try:
            await asyncio.sleep(30)
        finally:
            self.ended = True
        return CallReply(Outcome.OK)


def test_a_stop_ends_a_tool_and_leaves_the_question(factory: StoreFactory) -> None:
    """The run is stopped and nothing more is done; whether it happened stays to be answered."""
    office = Office(factory(), hands := Slow())
    office.accept(paying())

    async def stop(office: Office) -> None:
        await until(lambda: bool(office.hands.deeds))
        cancel_run(office.ledger, RUN, PERSON)

    waiting = office.work(meanwhile=stop)
    ended = hands.ended
    office.decide("effect/a/1", Answer.APPROVE)
    run = office.work()

    assert ended
    assert (waiting.state, waiting.outcome) == (RunState.STOPPED, None)
    assert outcomes(office)[0] == OutcomeFacts(Outcome.INDETERMINATE, Why.CANCELLED)
    assert run.outcome is Outcome.CANCELLED
    assert run.task("a").state is TaskState.STOPPED
    assert office.alarms() == []
    assert office.findings() == ()


def test_a_deadline_ends_a_tool(factory: StoreFactory) -> None:
    """Time is up for tools as it is for calls."""
    office = Office(factory(), hands := Slow())
    request = paying()
    limited = RunRequest(request.request, request.plan, request.policy, RunBudget(milliseconds=300))
    run = office.do(limited)

    assert hands.ended
    assert (run.state, run.outcome) == (RunState.STOPPED, None)
    assert run.stopped is not None
    assert run.stopped.reason is StopReason.DEADLINE
    office.decide("effect/a/1", Answer.REJECT)
    assert office.work().outcome is Outcome.TIMEOUT
    assert office.alarms() == []
    assert office.findings() == ()


class Telltale(Hands):
    """Tools in the middle of which somebody stops the run."""

    office: Office

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Return only when the stop is on record."""
        reply = await super().invoke(invocation)
        cancel_run(self.office.ledger, RUN, PERSON)
        await until(lambda: read_run(self.office.ledger, RUN).stopped is not None)
        return reply


def test_no_effect_is_begun_once_the_run_is_stopped(factory: StoreFactory) -> None:
    """An agent may have wanted two, and the stop come between them."""
    hands = Telltale()
    hands.office = office = Office(factory(), hands)
    run = office.do(paying(ScriptStep("", use=(PAY, ToolCall("pay", "2"))), ScriptStep("paid")))
    if run.outcome is None:  # the first was cut off before it could return
        office.decide("effect/a/1", Answer.APPROVE)
        run = office.work()

    assert len(hands.deeds) == len(run.task("a").uses) == 1
    assert run.outcome is Outcome.CANCELLED
    assert run.task("a").stopped == StopFacts(StopReason.CANCELLED, by="a")


# Crashes around an effect


@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("commit", [3, 4])
def test_an_effect_is_had_at_most_once_whatever_dies(
    factory: StoreFactory, commit: int, *, persisted: bool
) -> None:
    """Dead before the intent, it is had by the next; dead after, a person is asked."""
    power = Power(factory(), commit, persisted=persisted)
    first = Office(factory(), append=power.append)
    with pytest.raises(Cut):
        first.do(paying())
    office = Office(factory(), first.hands)
    run = office.work()
    asked = bool(run.open_gates)
    if asked:
        office.decide("effect/a/1", Answer.APPROVE)
        run = office.work()

    is_known = commit == 4 and persisted
    assert run.outcome is Outcome.OK
    assert len(office.hands.deeds) == (0 if (commit, persisted) == (3, True) else 1)
    assert asked == ((commit, persisted) in {(3, True), (4, False)})
    assert outcomes(office)[0].outcome is (
        Outcome.OK if is_known or (commit, persisted) == (3, False) else Outcome.INDETERMINATE
    )
