"""Deliberations are played through their protocols: whatever was forged parts from what they say.

The forger holds the signing key and writes the whole ledger anew, so that every link, proof and
signature holds.  What he cannot do is make a prompt, a note or an answer follow from replies that
it does not follow from.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forum.engine import CallReply, Engine, Model, ModelCall, RunRequest, cancel_run, read_run
from forum.engine.context import ENGINE
from forum.errors import Malformed
from forum.features.council.kinds import (
    Accord,
    BallotFacts,
    BaselineDecision,
    BaselineFacts,
    CouncilCloseFacts,
    End,
    Ground,
    RevealFacts,
)
from forum.features.symposium.kinds import SymposiumCloseFacts, SymposiumCloseV2Facts
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import JoinFacts, Outcome, RedactionReason, RunCloseFacts
from forum.ledger.log import Ledger
from forum.ledger.secret_mask import SecretMask
from forum.runs.call_rules import MAX_LOST_CALLS, MAX_THROTTLED_CALLS
from forum.runs.kinds import (
    CONTROL,
    AcceptedFacts,
    AnswerFacts,
    CallFacts,
    IntentFacts,
    Next,
    OutcomeFacts,
    ReplyFacts,
    ReplyOrigin,
    StopFacts,
    StopReason,
    VerdictFacts,
    Why,
)
from forum.runs.policy import Agent, Scripted, ScriptStep
from forum.runs.record_comparison import WRITER, Breach
from forum.verify import Problem, Report, State, Trust, verify_bundle, verify_ledger
from forum.verify.session_audit import audit_session
from tests.engine.office import (
    KINDS,
    PERSON,
    RUN,
    Cut,
    Office,
    Power,
    kinds_without,
    now,
    quick,
    until,
)
from tests.engine.panel import PRICE, split
from tests.spoken import claiming
from tests.support import StoreFactory, key_of
from tests.verify.forging import Forgery, Line, Story, forged, minutes_of
from tests.verify.honest import ENDS, HONEST, NO, YES, ask, recorded
from tests.verify.samples import standalone, stranger


def found(forgery: Forgery) -> set[Problem]:
    """Return what is wrong with a session, which a ledger and a bundle must agree on."""
    whole, part = forgery.verify(), forgery.verify_bundle()
    # A forger who leaves a run open needs an account and a timer for it: rows beside the log, of
    # which a bundle has none.
    findings = [f for f in whole.findings if f.problem is not Problem.TABLE_MISMATCH]
    assert [f.detail for f in findings] == [f.detail for f in part.findings]
    assert [f.index for f in findings] == [f.index for f in part.findings]
    return {finding.problem for finding in findings}


# Honest sessions


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_session_follows_from_its_record(office: Office, name: str) -> None:
    """Whatever has happened in it, each step of it is the one that its protocol takes."""
    run = office.do(HONEST[name]())

    assert run.outcome is ENDS.get(name, Outcome.OK)
    assert office.findings() == ()


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_session_that_is_written_anew_is_as_good(folder: Path, name: str) -> None:
    """The forger changes nothing here, so that what is found below is what he has changed."""
    with forged(folder, recorded(name).copy()) as forgery:
        report, bundle = forgery.verify(), forgery.verify_bundle()

    for one in (report, bundle):
        assert one.findings == ()
        assert one.not_checked == ()
        assert one.intact.state is State.HOLDS
        assert one.intact.reason.endswith(", 1 deliberation played")


@pytest.mark.parametrize(
    ("name", "panel"),
    [("divided", "council"), ("no money", "council"), ("a symposium", "symposium")],
)
def test_a_session_without_its_protocol_is_not_checked(folder: Path, name: str, panel: str) -> None:
    """Without the feature a session is never reported as played, nor as wrong."""
    without = kinds_without(panel)
    with forged(folder, recorded(name).copy()) as forgery:
        reports = [forgery.verify(without), verify_bundle(forgery.bundle(), without, forgery.trust)]

    for report in reports:
        assert report.findings == ()
        assert f"no protocol {panel!r} for panels is installed" in " ".join(report.not_checked)
        assert "played" not in report.intact.reason


def test_a_session_that_was_cancelled_follows_from_its_record(office: Office) -> None:
    """Who was cut off, and who was never asked, is part of it."""
    office.accept(ask((NO,), *((ScriptStep(YES, milliseconds=20_000),),) * 4))

    async def stop(office: Office) -> None:
        await until(lambda: read_run(office.ledger, RUN).task("~ballot.0.1").state.is_end)
        cancel_run(office.ledger, RUN, PERSON)

    run = office.work(meanwhile=stop)

    assert run.outcome is Outcome.CANCELLED
    assert office.findings() == ()


@pytest.mark.parametrize("commits", range(1, 26, 6))
def test_a_session_that_outlived_its_process_follows_from_its_record(
    factory: StoreFactory, commits: int
) -> None:
    """Calls that were lost are made again, and nothing else is said for it."""
    office = Office(factory())
    power = Power(factory(), commits, persisted=True)
    dying = Office(office.store, append=power.append)
    office.accept(split())
    with pytest.raises((Cut, asyncio.CancelledError)):
        dying.work()
    run = office.work()

    assert run.outcome is Outcome.OK
    assert office.findings() == ()


def test_a_seat_that_is_always_turned_away_has_failed_thrice(office: Office) -> None:
    """Turned away too often a call has failed, and is made again like any other."""
    request = split()

    class Busy:
        """Turns everybody away."""

        def __init__(self, model: Model) -> None:
            self.name, self.bound = model.name, model.bound

        async def reply(self, _: ModelCall) -> CallReply:
            return CallReply(Outcome.FAILED, why=Why.THROTTLED, retry_milliseconds=1)

    def model(agent: Agent) -> Model:
        made = office.hands.model(agent)
        return Busy(made) if agent == request.policy.agents["seat-5"] else made

    office.engine = Engine(office.ledger, model, office.hands.open_tools, real_time=False)
    run = office.do(request)

    assert run.outcome is Outcome.OK
    assert len(run.task("~ballot.0.5").calls) == 3 * (MAX_THROTTLED_CALLS + 1)
    assert office.findings() == ()


def test_a_seat_whose_model_cannot_be_made_has_failed(office: Office) -> None:
    """The others decide, and that follows from the record as well."""
    request = split()

    def model(agent: Agent) -> Model:
        if agent == request.policy.agents["seat-5"]:
            raise Malformed("agent", "unknown here")
        return office.hands.model(agent)

    office.engine = Engine(office.ledger, model, office.hands.open_tools)
    run = office.do(request)

    assert run.outcome is Outcome.OK
    assert office.findings() == ()


# Forged sessions

LOST = ReplyFacts(Outcome.INDETERMINATE, Why.LOST, PRICE, 100)
"""A call that nobody heard the end of: all that was reserved for it is gone."""

Forge = Callable[[Story], object]


def _say(story: Story, turn: str, **members: Any) -> None:  # noqa: ANN401
    """Have a ballot say something else than the reply."""
    line = story.one(f"turn/{turn}", BallotFacts)
    line.rewrite("ballot", lambda data: json.dumps({**json.loads(data), **members}).encode())


def _reply(story: Story, turn: str, **members: Any) -> None:  # noqa: ANN401
    """Have a seat say something else, in its reply and in its ballot."""
    _say(story, turn, **members)
    line = story.one(f"turn/{turn}", BallotFacts)
    line.rewrite("ballot", lambda data: msgspec.json.encode(json.loads(data)))
    reply = story.one(f"turn/{turn}", ReplyFacts)
    reply.rewrite("output", lambda data: json.dumps({**json.loads(data), **members}).encode())


def _swap(story: Story, text: str, other: str, kind: type[Any], body: str) -> None:
    first, second = story.one(f"turn/{text}", kind), story.one(f"turn/{other}", kind)
    first.bodies[body], second.bodies[body] = second.bodies[body], first.bodies[body]


def _prompt(story: Story, turn: str, old: bytes, new: bytes) -> None:
    line = story.one(f"turn/{turn}", CallFacts)
    line.rewrite("prompt", lambda data: data.replace(old, new))


def _without_line(story: Story, turn: str, words: bytes) -> None:
    line = story.one(f"turn/{turn}", CallFacts)
    line.rewrite("prompt", lambda data: b"\n".join(x for x in data.split(b"\n") if words not in x))


def _report(story: Story, **members: Any) -> None:  # noqa: ANN401
    line = story.one(MAIN_STRAND, CouncilCloseFacts)
    line.rewrite("report", lambda data: json.dumps({**json.loads(data), **members}).encode())


def _vote_late(story: Story) -> None:
    """Let a seat cast its ballot when the others are revealed."""
    reveal = story.step("reveal/0")
    call, reply, cast, verdict = story.of("turn/ballot.0.5")
    reveal.parents = [call.id if parent == verdict.id else parent for parent in reveal.parents]
    for line in (verdict, cast, reply):
        story.move(line, after=reveal)


def _ask_early(story: Story) -> None:
    """Let a seat exchange ballots before all are in."""
    call = story.one("turn/ballot.1.1", CallFacts)
    call.parents = [story.step("baseline").id]
    story.move(call, before=story.step("reveal/0"))


def _skip_round(story: Story) -> None:
    """End before anybody has exchanged anything."""
    first = story.step("reveal/0").parents
    story.drop_turns(*(f"ballot.1.{seat}" for seat in range(1, 6)))
    story.drop(story.step("reveal/1"))
    for line in (story.one(MAIN_STRAND, CouncilCloseFacts), story.one(MAIN_STRAND, AnswerFacts)):
        line.parents = [*first]


def _add_round(story: Story) -> None:
    """Ask once more, after it was over."""
    close, reveal = story.one(MAIN_STRAND, CouncilCloseFacts), story.step("reveal/1")
    for seat in range(1, 6):
        story.repeat_turn(f"ballot.1.{seat}", f"ballot.2.{seat}", close)
        for call in story.of(f"turn/ballot.2.{seat}", CallFacts):
            call.parents = [reveal.id]
    facts = msgspec.structs.replace(reveal.facts, round=2)
    parents = [f"{parent}/ballot.2.{n}" for n, parent in enumerate(reveal.parents, 1)]
    again = Line(
        "again",
        strand=MAIN_STRAND,
        step="reveal/2",
        actor=reveal.actor,
        facts=facts,
        ts=close.ts,
        parents=parents,
    )
    story.lines.insert(story.lines.index(close), again)


def _pass_gate(story: Story) -> None:
    """Let the first answers be all, though they do not agree."""
    baseline = story.one(MAIN_STRAND, BaselineFacts)
    baseline.alter(passage=BaselineDecision.AGREED)
    later = [
        *(f"ballot.0.{seat}" for seat in (4, 5)),
        *(f"ballot.1.{seat}" for seat in range(1, 6)),
    ]
    story.drop_turns(*later)
    story.drop(story.step("reveal/0"), story.step("reveal/1"))
    story.one(MAIN_STRAND, CouncilCloseFacts).alter(
        end=End.GATE, ground=Ground.GATE, rounds=0, ballots=3
    )


def _add_seat(story: Story) -> None:
    story.repeat_turn("ballot.0.5", "ballot.0.6", story.step("reveal/0"))
    reveal = story.step("reveal/0")
    reveal.parents.append(f"{reveal.parents[-1]}/ballot.0.6")
    reveal.alter(ballots=6)


def _remove_seat(story: Story) -> None:
    story.drop_turns("ballot.0.5", "ballot.1.5")
    for name in ("reveal/0", "reveal/1"):
        story.step(name).alter(ballots=4)


def _silence(story: Story) -> None:
    """Give a seat up that has said something."""
    story.drop(story.one("turn/ballot.0.5", BallotFacts))
    story.one("turn/ballot.0.5", VerdictFacts).alter(
        outcome=Outcome.FAILED, next=Next.GIVE_UP, reason="form"
    )


def _cut_off(story: Story) -> None:
    """Say of a seat that has said something that it was stopped."""
    verdict = story.one("turn/ballot.0.5", VerdictFacts)
    story.drop(story.one("turn/ballot.0.5", BallotFacts))
    verdict.step, verdict.facts = "stop", StopFacts(StopReason.DEADLINE, by="~ballot.0.5")


def _give_up_early(story: Story) -> None:
    """Ask a seat that failed once less often than the others."""
    lines = story.of("turn/ballot.0.5")
    story.drop(*lines[2:6])


def _ask_again(story: Story) -> None:
    """Ask a seat once more than it may be asked."""
    call, reply = story.of("turn/ballot.0.5")[4:6]
    more = [
        replace(call, id="c", step="attempt/1/call/4", bodies={**call.bodies}),
        replace(reply, id="r", step="attempt/1/call/4/reply", bodies={**reply.bodies}),
    ]
    more[0].alter(turn=4)
    at = story.lines.index(reply) + 1
    story.lines[at:at] = more


def _other_agent(story: Story) -> None:
    for line in story.of("turn/ballot.0.2"):
        if line.actor == "seat-2":
            line.actor = "seat-1"
    story.one("turn/ballot.0.2", CallFacts).alter(agent="seat-1")


def _without_panel(story: Story) -> None:
    """Say that nobody was to deliberate."""
    accepted = story.one(MAIN_STRAND, AcceptedFacts)
    accepted.rewrite(
        "policy",
        lambda data: json.dumps(
            {name: value for name, value in json.loads(data).items() if name != "panel"}
        ).encode(),
    )


def _without_turns(story: Story) -> None:
    """Leave out all that was asked and said."""
    turns = {line.strand for line in story.lines if line.strand.startswith("turn/")}
    story.drop_turns(*(turn.removeprefix("turn/") for turn in turns))


def _without_anything(story: Story) -> None:
    """Make up an answer, and ask nobody."""
    _without_turns(story)
    story.drop(*(story.step(s) for s in ("council", "baseline", "reveal/0", "reveal/1")))
    story.drop(story.one(MAIN_STRAND, CouncilCloseFacts))


def _spell_otherwise(story: Story) -> None:
    """Make up an answer, and write the policy so that nobody looks for a panel."""
    _without_anything(story)
    accepted = story.one(MAIN_STRAND, AcceptedFacts)
    accepted.rewrite("policy", lambda data: data.replace(b'"panel"', b'"p\\u0061nel"'))


def _minutes_alone(story: Story) -> None:
    """Show a report where nobody was to deliberate."""
    _without_panel(story)
    _without_turns(story)


def _facts_alone(story: Story) -> None:
    """Show nothing but that there was a council: no strand of it, and no body."""
    _minutes_alone(story)
    story.drop(*(story.step(s) for s in ("baseline", "reveal/0", "reveal/1", "council.close")))


def _hide_stop(story: Story) -> None:
    """Say nothing of why a session was cut off."""
    story.drop(story.one(MAIN_STRAND, StopFacts))
    story.one(MAIN_STRAND, AnswerFacts).alter(outcome=Outcome.FAILED)
    story.one(MAIN_STRAND, RunCloseFacts).alter(outcome=Outcome.FAILED)


def _spend(story: Story, more: int, asked: int = PRICE) -> None:
    """Say that something else was used when there was no money left, wherever that is told."""
    for line in story.lines:
        if isinstance(line.facts, StopFacts) and line.facts.reason is StopReason.BUDGET:
            line.alter(used=line.facts.used + more, asked=asked)


def _call_cancelled(story: Story) -> None:
    """Say that somebody has wished for the end of a session that had no money left."""
    for line in story.lines:
        if isinstance(line.facts, StopFacts):
            line.alter(reason=StopReason.CANCELLED)
    for kind in (AnswerFacts, RunCloseFacts):
        story.one(MAIN_STRAND, kind).alter(outcome=Outcome.CANCELLED)


def _leave_open(story: Story) -> None:
    """Make up an answer, and never close the run."""
    _without_anything(story)
    story.one(MAIN_STRAND, AnswerFacts).alter(parts=0)
    story.drop(story.one(MAIN_STRAND, RunCloseFacts))


def _request_twice(story: Story) -> None:
    """Ask for an answer of nobody first: who reads the last request finds a panel."""
    _without_anything(story)
    request = story.one(MAIN_STRAND, AcceptedFacts)
    first = replace(request, id="first", step="accepted/0", bodies={**request.bodies})
    story.lines.insert(story.lines.index(request), first)
    _without_panel(story)


def _report_beside(story: Story) -> None:
    """Report once more, where others may wish for the end of a run."""
    report = story.one(MAIN_STRAND, CouncilCloseFacts)
    story.lines.insert(story.lines.index(report), replace(report, id="again", strand=CONTROL))


def _show_claim(story: Story, receipt: str) -> None:
    """Say that a claim of the answer is shown by something."""
    given = story.one(MAIN_STRAND, AnswerFacts)
    given.alter(unverified=0)
    shown = [{**claim, "receipt": receipt} for claim in json.loads(given.bodies["claims"][0])]
    given.rewrite("claims", lambda _: json.dumps(shown).encode())


def _set_aside(
    story: Story, reply: ReplyFacts, times: int = 1, output: bytes | None = None
) -> None:
    """Ask the first seat until its reply is liked, and say of the others that there were none."""
    call, liked = story.of("turn/ballot.0.1")[:2]
    causes, bodies = call.parents, {} if output is None else {"output": (output, "text/plain")}
    before = []
    for number in range(1, times + 1):
        call.alter(turn=number)
        call.step, call.parents = f"attempt/1/call/{number}", causes if _is_due(number) else []
        before += [
            replace(call, id=f"call {number}", bodies={**call.bodies}),
            replace(
                liked, id=f"reply {number}", step=f"{call.step}/reply", facts=reply, bodies=bodies
            ),
        ]
    call.alter(turn=times + 1)
    call.step, call.parents = f"attempt/1/call/{times + 1}", causes if _is_due(times + 1) else []
    liked.step = f"{call.step}/reply"
    at = story.lines.index(call)
    story.lines[at:at] = before


def _is_due(number: int) -> bool:
    """Tell whether a call names what it follows from: the first, and those after a failure."""
    return number % (MAX_THROTTLED_CALLS + 1) == 1


def _give_up_when_throttled(story: Story) -> None:
    """Give a seat up that was turned away once."""
    lines = story.of("turn/ballot.0.5")
    story.drop(*lines[2:-1])
    lines[1].alter(why=Why.THROTTLED)


def _look_again(story: Story) -> None:
    """Ask a tool until it says what is liked, and call the others lost."""
    intent, happened = story.of("turn/check.end.1")[:2]
    before = [
        replace(intent, id="look", bodies={**intent.bodies}),
        replace(happened, id="no", facts=OutcomeFacts(Outcome.FAILED, Why.LOST)),
    ]
    intent.step, intent.parents = "check/2", []
    happened.step = "check/2/outcome"
    at = story.lines.index(intent)
    story.lines[at:at] = before


def _report_success(story: Story) -> None:
    story.one(MAIN_STRAND, AnswerFacts).alter(outcome=Outcome.OK)
    story.one(MAIN_STRAND, RunCloseFacts).alter(outcome=Outcome.OK)


def _close_otherwise(story: Story) -> None:
    story.one(MAIN_STRAND, RunCloseFacts).alter(outcome=Outcome.FAILED)


def _weigh_conformity(story: Story) -> None:
    line = story.one(MAIN_STRAND, CouncilCloseFacts)
    line.alter(conformed=0, accord=Accord.MAJORITY)
    document = json.loads(line.bodies["report"][0])
    changes = [{**change, "conformity": False} for change in document["changes"]]
    _report(story, changes=changes, conformity=0)


def _rules(story: Story, **members: Any) -> None:  # noqa: ANN401
    """Have other rules recorded than the session went by."""
    panel = json.loads(story.one(MAIN_STRAND, AcceptedFacts).bodies["policy"][0])["panel"]
    _policy(story, panel={**panel, **members})


def _policy(story: Story, **members: Any) -> None:  # noqa: ANN401
    """Have another policy recorded than the session went by."""
    line = story.one(MAIN_STRAND, AcceptedFacts)
    line.rewrite("policy", lambda data: json.dumps({**json.loads(data), **members}).encode())


def _judge_otherwise(story: Story) -> None:
    line = story.one("turn/judge.1.1", ReplyFacts)
    line.rewrite("output", lambda _: b'{"better":"first"}')


def _swap_messages(story: Story) -> None:
    first, second = story.step("message/3"), story.step("message/4")
    first.bodies, second.bodies = second.bodies, first.bodies


def _go_on(story: Story) -> None:
    """Have the coordinator say something else, in its reply and in the transcript."""
    for line, body in (
        (story.one("turn/turn.5", ReplyFacts), "output"),
        (story.step("message/5"), "message"),
    ):
        line.rewrite(body, lambda data: data.replace(b"finalize", b"continue"))


FORGED: dict[str, tuple[str, Forge, set[Breach]]] = {
    # What was said
    "a ballot says something else than the reply": (
        "divided",
        lambda story: _say(story, "ballot.0.2", answer="no"),
        {Breach.RECORDED},
    ),
    "a ballot is surer than its author": (
        "divided",
        lambda story: _say(story, "ballot.0.2", confidence=99),
        {Breach.RECORDED},
    ),
    "two seats have each other's ballots": (
        "divided",
        lambda story: _swap(story, "ballot.0.1", "ballot.0.2", BallotFacts, body="ballot"),
        {Breach.RECORDED},
    ),
    "a ballot is that of another seat": (
        "divided",
        lambda story: story.one("turn/ballot.0.2", BallotFacts).alter(seat=3),
        {Breach.RECORDED},
    ),
    "nothing is recorded of a reply": (
        "divided",
        lambda story: story.drop(story.one("turn/ballot.0.2", BallotFacts)),
        {Breach.COURSE},
    ),
    "a reply and its ballot are altered": (
        "divided",
        lambda story: _reply(story, "ballot.1.5", answer="yes"),
        {Breach.COUNTED},
    ),
    "a first reply and its ballot are altered": (
        "divided",
        lambda story: _reply(story, "ballot.0.5", answer="yes"),
        {Breach.COUNTED, Breach.ASKED},
    ),
    "a seat is silenced": ("divided", _silence, {Breach.COURSE}),
    "a seat is cut off after it has spoken": ("divided", _cut_off, {Breach.COURSE}),
    "a seat is given up early": ("a seat fails", _give_up_early, {Breach.COURSE}),
    "a seat is asked more often than it may be": ("a seat fails", _ask_again, {Breach.COURSE}),
    "a good reply is called lost": (
        "divided",
        lambda story: _set_aside(story, ReplyFacts(Outcome.OK, Why.LOST), output=NO.encode()),
        {Breach.COURSE},
    ),
    "a good reply is called throttled": (
        "divided",
        lambda story: _set_aside(story, ReplyFacts(Outcome.OK, Why.THROTTLED), output=NO.encode()),
        {Breach.COURSE},
    ),
    "a lost reply has said something": (
        "divided",
        lambda story: _set_aside(story, LOST, output=NO.encode()),
        {Breach.COURSE, Breach.COUNTED},
    ),
    "a lost reply has cost nothing": (
        "divided",
        lambda story: _set_aside(story, ReplyFacts(Outcome.INDETERMINATE, Why.LOST)),
        {Breach.COURSE},
    ),
    "a failed reply is called lost": (
        "divided",
        lambda story: _set_aside(story, ReplyFacts(Outcome.FAILED, Why.LOST)),
        {Breach.COURSE},
    ),
    "what lost replies have cost is hidden": (
        "divided",
        lambda story: _set_aside(story, LOST, MAX_LOST_CALLS),
        {Breach.COUNTED},
    ),
    "a seat is lost too often": (
        "divided",
        lambda story: _set_aside(story, LOST, MAX_LOST_CALLS + 1),
        {Breach.COURSE},
    ),
    "a seat is turned away too often": (
        "divided",
        lambda story: _set_aside(
            story, ReplyFacts(Outcome.FAILED, Why.THROTTLED), 3 * (MAX_THROTTLED_CALLS + 1)
        ),
        {Breach.COURSE},
    ),
    "a seat is given up when it is turned away": (
        "a seat fails",
        _give_up_when_throttled,
        {Breach.COURSE, Breach.COUNTED},
    ),
    "a tool is asked until it says what is liked": ("a tool", _look_again, {Breach.COURSE}),
    "a seat is cut off, and nothing was stopped": (
        "no money left",
        _hide_stop,
        {Breach.COURSE},
    ),
    # Stops
    "a seat is stopped by a limit that it has not met": (
        "no more calls for a seat",
        lambda story: _policy(story, turns=2),
        {Breach.COURSE},
    ),
    "money is used up that nobody has used": (
        "no money left",
        lambda story: _spend(story, 1),
        {Breach.COURSE},
    ),
    "money that was used is not": (
        "no money left",
        lambda story: _spend(story, -3 * PRICE, asked=9 * PRICE),
        {Breach.COURSE},
    ),
    "a symposium has used what it has not": (
        "a symposium without money",
        lambda story: _spend(story, -1),
        {Breach.COURSE},
    ),
    "a run is stopped by what has stopped no turn": (
        "no money left",
        lambda story: story.one(MAIN_STRAND, StopFacts).alter(asked=9 * PRICE),
        {Breach.COURSE},
    ),
    "money that nobody has limited is used up": (
        "no money left",
        lambda story: story.one(MAIN_STRAND, AcceptedFacts).alter(usd=AcceptedFacts().usd),
        {Breach.COURSE},
    ),
    "time that nobody has limited is over": (
        "no time",
        lambda story: story.one(MAIN_STRAND, AcceptedFacts).alter(
            milliseconds=AcceptedFacts().milliseconds
        ),
        {Breach.COURSE},
    ),
    "a session ends before its time": (
        "no time",
        lambda story: story.one(MAIN_STRAND, AcceptedFacts).alter(milliseconds=3_600_000),
        {Breach.COURSE},
    ),
    "more is used than there was": (
        "divided",
        lambda story: story.one(MAIN_STRAND, AcceptedFacts).alter(calls=9),
        {Breach.COURSE},
    ),
    "a stop tells of nobody who has spent anything": (
        "no money left",
        lambda story: story.one(MAIN_STRAND, StopFacts).rewrite("spent", lambda _: b"{}"),
        {Breach.COURSE},
    ),
    "a stop tells of somebody who was never asked": (
        "no money left",
        lambda story: story.one(MAIN_STRAND, StopFacts).rewrite(
            "spent", lambda data: data.replace(b"seat-1", b"seat-9")
        ),
        {Breach.COURSE},
    ),
    "a reply was paid for by another run": (
        "divided",
        lambda story: story.one("turn/ballot.0.1", ReplyFacts).alter(source=ReplyOrigin.RECORDED),
        {Breach.COURSE},
    ),
    "a session is cancelled by nobody": ("no money left", _call_cancelled, {Breach.COURSE}),
    # What was asked
    "a first prompt shows another seat's ballot": (
        "divided",
        lambda story: story.one("turn/ballot.0.2", CallFacts).rewrite(
            "prompt",
            lambda data: data + story.one("turn/ballot.0.1", ReplyFacts).bodies["output"][0],
        ),
        {Breach.ASKED},
    ),
    "an exchange tells who has said what": (
        "divided",
        lambda story: _prompt(story, "ballot.1.1", b"begin: ", b"begin: seat-2, "),
        {Breach.ASKED},
    ),
    "an exchange quotes somebody wrongly": (
        "divided",
        lambda story: _prompt(story, "ballot.1.1", b"it was tested", b"it was not tested"),
        {Breach.ASKED},
    ),
    "an exchange leaves a claim out": (
        "divided",
        lambda story: _without_line(story, "ballot.1.5", b"it was tested"),
        {Breach.ASKED},
    ),
    "a prompt for a repair says something else": (
        "a malformed reply",
        lambda story: story.of("turn/ballot.0.1", CallFacts)[1].rewrite(
            "prompt", lambda data: data + b"Say yes."
        ),
        {Breach.ASKED},
    ),
    "a form leaves no choice": (
        "divided",
        lambda story: story.one("turn/ballot.0.1", CallFacts).rewrite(
            "schema", lambda data: data.replace(b'"maximum":100', b'"maximum":10')
        ),
        {Breach.ASKED},
    ),
    "another agent sits there": (
        "divided",
        _other_agent,
        {Breach.ASKED, Breach.COURSE, Breach.RECORDED},
    ),
    "a tool is given something else": (
        "a tool",
        lambda story: story.one("turn/check.end.1", IntentFacts).rewrite(
            "arguments", lambda data: data.replace(b"yes", b"no")
        ),
        {Breach.ASKED},
    ),
    "a tool is said to have found something else": (
        "a tool",
        lambda story: story.one("turn/check.end.2", VerdictFacts).alter(
            outcome=Outcome.FAILED, next=Next.GIVE_UP, reason="failed"
        ),
        {Breach.COURSE},
    ),
    "a judge has preferred something else": (
        "a judge",
        _judge_otherwise,
        {Breach.ASKED, Breach.COUNTED, Breach.ANSWER},
    ),
    # The order
    "a ballot is cast after the reveal": ("divided", _vote_late, {Breach.ORDER}),
    "a seat is asked before the reveal": ("divided", _ask_early, {Breach.ORDER}),
    "a reveal names fewer ballots": (
        "divided",
        lambda story: story.step("reveal/0").parents.pop(),
        {Breach.ORDER},
    ),
    "a join names fewer ballots": (
        "twenty seats",
        lambda story: story.one(MAIN_STRAND, JoinFacts).parents.pop(),
        {Breach.ORDER},
    ),
    "a join stands there twice": (
        "twenty seats",
        lambda story: story.lines.insert(
            story.lines.index(story.step("reveal/0")),
            replace(story.one(MAIN_STRAND, JoinFacts), id="again"),
        ),
        {Breach.SURPLUS},
    ),
    "a prompt was never recorded": (
        "divided",
        lambda story: story.one("turn/ballot.0.1", CallFacts).bodies.pop("prompt"),
        {Breach.ASKED},
    ),
    "a seat was offered tools": (
        "divided",
        lambda story: story.one("turn/ballot.0.1", CallFacts).bodies.update(
            offers=(b"[]", "application/json")
        ),
        {Breach.ASKED},
    ),
    "a note by somebody else": (
        "divided",
        lambda story: setattr(story.step("reveal/0"), "actor", "seat-1"),
        {Breach.COUNTED},
    ),
    "a reply names something as its cause": (
        "divided",
        lambda story: story.one("turn/ballot.1.1", ReplyFacts).parents.append(
            story.step("baseline").id
        ),
        {Breach.ORDER},
    ),
    # The course
    "a round is skipped": ("divided", _skip_round, {Breach.MISSING}),
    "there is a round too many": ("divided", _add_round, {Breach.SURPLUS}),
    "a seat is added": ("divided", _add_seat, {Breach.COUNTED, Breach.ORDER, Breach.SURPLUS}),
    "a seat is removed": ("divided", _remove_seat, {Breach.MISSING}),
    "the gate is passed below its threshold": (
        "divided",
        _pass_gate,
        {Breach.COUNTED, Breach.MISSING},
    ),
    "fewer rounds were allowed": (
        "divided",
        lambda story: _rules(story, rounds=0),
        {Breach.COUNTED, Breach.ORDER, Breach.SURPLUS, Breach.ANSWER},
    ),
    "a panel that cannot sit": (
        "divided",
        lambda story: _rules(story, seats=[]),
        {Breach.COURSE},
    ),
    "nobody was to deliberate": ("divided", _without_panel, {Breach.SURPLUS}),
    "nobody was to deliberate, or was asked": ("divided", _minutes_alone, {Breach.SURPLUS}),
    "nothing is left but a fact": ("divided", _facts_alone, {Breach.SURPLUS}),
    "nobody has deliberated": ("divided", _without_anything, {Breach.MISSING}),
    "nobody has deliberated, and the run stays open": ("divided", _leave_open, {Breach.MISSING}),
    "nobody was to deliberate, and then somebody": (
        "divided",
        _request_twice,
        {Breach.SURPLUS},
    ),
    "a report stands beside the session": ("divided", _report_beside, {Breach.SURPLUS}),
    "nobody finds that somebody was to": ("divided", _spell_otherwise, {Breach.MISSING}),
    "nobody knows how it was to be done": (
        "divided",
        lambda story: story.one(MAIN_STRAND, AcceptedFacts).bodies.pop("policy"),
        {Breach.MISSING},
    ),
    # What code has made of it
    "the baseline is altered": (
        "divided",
        lambda story: story.step("baseline").rewrite("answer", lambda _: b"yes"),
        {Breach.COUNTED},
    ),
    "the agreement is altered": (
        "divided",
        lambda story: story.one(MAIN_STRAND, BaselineFacts).alter(agreement=1000),
        {Breach.COUNTED},
    ),
    "the seed is chosen": (
        "divided",
        lambda story: story.one(MAIN_STRAND, RevealFacts).alter(seed="0" * 64),
        {Breach.COUNTED},
    ),
    "a seed from commitments is chosen": (
        "seeds from commitments",
        lambda story: story.step("reveal/0").alter(seed="0" * 64),
        {Breach.COUNTED},
    ),
    "the end of a symposium without a digest is altered": (
        "a symposium without a digest",
        lambda story: story.one(MAIN_STRAND, SymposiumCloseV2Facts).alter(messages=1),
        {Breach.COUNTED},
    ),
    "the vote is miscounted": (
        "divided",
        lambda story: story.one(MAIN_STRAND, CouncilCloseFacts).alter(accord=Accord.AGREED),
        {Breach.COUNTED},
    ),
    "a blocker is forgotten": (
        "blocked",
        lambda story: story.one(MAIN_STRAND, CouncilCloseFacts).alter(
            accord=Accord.AGREED, blockers=0
        ),
        {Breach.COUNTED},
    ),
    "a change without a reason is weighed": ("divided", _weigh_conformity, {Breach.COUNTED}),
    "the minority is dropped from the report": (
        "divided",
        lambda story: _report(story, minority=[]),
        {Breach.COUNTED},
    ),
    "what it cost is hidden": (
        "divided",
        lambda story: story.one(MAIN_STRAND, CouncilCloseFacts).alter(usd=0),
        {Breach.COUNTED},
    ),
    # The open protocol
    "a message is altered": (
        "a symposium",
        lambda story: story.step("message/3").rewrite(
            "message", lambda data: data.replace(b"The longer.", b"The shorter.")
        ),
        {Breach.COUNTED},
    ),
    "a message is dropped": (
        "a symposium",
        lambda story: story.drop(story.step("message/3"), instead=story.step("message/2")),
        {Breach.MISSING},
    ),
    "two messages change places": ("a symposium", _swap_messages, {Breach.COUNTED}),
    "a prompt of the open protocol is altered": (
        "a symposium",
        lambda story: _prompt(story, "turn.3", b"A hundred years.", b"A few years."),
        {Breach.ASKED},
    ),
    "a coordinator has wanted to go on": (
        "a symposium",
        _go_on,
        {Breach.ASKED, Breach.COURSE},
    ),
    "another digest": (
        "a symposium",
        lambda story: story.one(MAIN_STRAND, SymposiumCloseFacts).alter(digest="0" * 64),
        {Breach.COUNTED},
    ),
    "another answer than the synthesis": (
        "a symposium",
        lambda story: story.one(MAIN_STRAND, AnswerFacts).rewrite(
            "answer", lambda _: b"The longer one."
        ),
        {Breach.ANSWER},
    ),
    "a turn too many": (
        "a symposium",
        lambda story: story.repeat_turn(
            "turn.4", "turn.7", story.one(MAIN_STRAND, SymposiumCloseFacts)
        ),
        {Breach.SURPLUS},
    ),
    # The answer
    "the answer is another one": (
        "divided",
        lambda story: story.one(MAIN_STRAND, AnswerFacts).rewrite("answer", lambda _: b"no"),
        {Breach.ANSWER},
    ),
    "a claim of the answer is counted as shown": (
        "an answer that claims something",
        lambda story: story.one(MAIN_STRAND, AnswerFacts).alter(unverified=0),
        {Breach.ANSWER},
    ),
    "a claim of the answer is shown by what is not there": (
        "an answer that claims something",
        lambda story: _show_claim(story, "0" * 64),
        {Breach.ANSWER},
    ),
    "a claim of the answer is shown by no effect": (
        "an answer that claims something",
        lambda story: _show_claim(story, story.step("council").id),
        {Breach.ANSWER},
    ),
    "what the answer claims cannot be read": (
        "divided",
        lambda story: story.one(MAIN_STRAND, AnswerFacts).bodies.update(
            claims=(b"[", "application/json")
        ),
        {Breach.ANSWER},
    ),
    "what was stopped is called a success": ("no money left", _report_success, {Breach.ANSWER}),
    "the run ends otherwise": ("divided", _close_otherwise, {Breach.ANSWER}),
    "there is no answer": (
        "divided",
        lambda story: story.drop(story.one(MAIN_STRAND, AnswerFacts)),
        {Breach.MISSING},
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_a_key_holder_forges_is_found(folder: Path, name: str) -> None:
    """Under the word for it, and nothing else is found: all the rest is as it was."""
    shape, forge, breaches = FORGED[name]
    story = recorded(shape).copy()
    forge(story)
    with forged(folder, story) as forgery:
        problems = found(forgery)

    assert problems == {Problem(f"session-{breach}") for breach in breaches}


# Whatever is altered: see also `test_mutations`


LAWS = ("a tool", "a seat fails", "a second round")
CHECKED_ELSEWHERE = {(MAIN_STRAND, "run/open"), (MAIN_STRAND, "run/close"), ("control", "close")}
"""Every run has these, and they are looked for in every run."""


@pytest.mark.parametrize("name", LAWS)
def test_whatever_body_is_altered_is_found(name: str) -> None:
    """Each byte of what was asked, said, noted and answered follows, or leads to something."""
    missed = set()
    for at, line in enumerate(recorded(name).lines):
        for body in line.bodies:
            story = recorded(name).copy()
            story.lines[at].rewrite(body, lambda data: b"x" + data)
            if not audit_session(minutes_of(story), KINDS).faults:
                missed.add((type(line.facts), body, _came_to_nothing(line)))

    # The list of strands is held to the strands by others.
    assert missed <= {
        (RunCloseFacts, "strands", False),
        (ReplyFacts, "output", True),
        (OutcomeFacts, "result", False),
    }


def _came_to_nothing(line: Line) -> bool:
    return isinstance(line.facts, ReplyFacts) and line.facts.outcome is not Outcome.OK


@pytest.mark.parametrize("name", LAWS)
def test_whatever_entry_is_left_out_is_found(name: str) -> None:
    """Nothing of a session can be withheld."""
    missed = set()
    for at, line in enumerate(recorded(name).lines):
        story = recorded(name).copy()
        story.drop(story.lines[at])
        if not audit_session(minutes_of(story), KINDS).faults:
            missed.add((line.strand, line.step))

    assert missed <= CHECKED_ELSEWHERE


@pytest.mark.parametrize("name", LAWS)
def test_whatever_is_added_is_found(name: str) -> None:
    """Nothing can be slipped in, wherever it is put."""
    missed = set()
    for at, line in enumerate(recorded(name).lines):
        story = recorded(name).copy()
        story.lines.insert(at + 1, replace(line, id="again"))
        if not audit_session(minutes_of(story), KINDS).faults:
            missed.add((line.strand, line.step))

    assert missed <= CHECKED_ELSEWHERE


def test_every_breach_is_forged_above() -> None:
    """Each word has something that it is for, and each is a finding."""
    forged_here = {breach for _, _, breaches in FORGED.values() for breach in breaches}

    assert forged_here == set(Breach)
    assert {p for p in Problem if p.startswith("session-")} == {f"session-{b}" for b in Breach}


def test_a_finding_names_the_entry(folder: Path) -> None:
    """And says what it is, and what it should be."""
    story = recorded("divided").copy()
    story.one(MAIN_STRAND, CouncilCloseFacts).alter(accord=Accord.AGREED)
    with forged(folder, story) as forgery:
        (finding,) = forgery.verify().findings

    assert finding.entry is not None
    assert finding.entry.startswith(f"{RUN}/main/")
    assert finding.detail == "council.close: accord is 'agreed' and comes to 'majority'"


# What cannot be checked


def verified(office: Office) -> Report:
    """Return what a stranger says of all that an office has written."""
    office.findings()  # signs
    with office.store.snapshot() as reader:
        return verify_ledger(reader, KINDS, Trust((key_of(office.store.origin).verifier(),)), now())


def _erase(office: Office, strand: str, kind: str, body: str) -> None:
    (leaf, *_) = [leaf for leaf, e in office.told() if (e.strand, e.kind) == (strand, kind)]
    office.findings()
    target = office.ledger.find_entry(leaf.hex())
    office.ledger.request_redaction(target, body, PERSON, RedactionReason.REQUEST)
    office.findings()
    assert office.ledger.erase_redacted()


@pytest.mark.parametrize(
    ("strand", "kind", "body", "text"),
    [
        ("turn/ballot.0.3", "ballot/1", "ballot", "body 'ballot' of run-1/turn/ballot.0.3/2, "),
        ("turn/ballot.0.3", "call/1", "prompt", "body 'prompt' of run-1/turn/ballot.0.3/0, "),
        ("main", "council.close/1", "report", "body 'report' of run-1/main/"),
        (
            "turn/ballot.0.3",
            "reply/1",
            "output",
            "from body 'output' of run-1/turn/ballot.0.3/1 on, ",
        ),
        ("main", "accepted/1", "request", "from body 'request' of run-1/main/1 on, "),
        ("main", "accepted/1", "policy", "from body 'policy' of run-1/main/1 on, "),
    ],
)
def test_what_was_erased_is_not_called_verified(
    office: Office, strand: str, kind: str, body: str, text: str
) -> None:
    """The report says what could not be compared, and up to where."""
    office.do(split())
    _erase(office, strand, kind, body)
    report = verified(office)

    assert report.findings == ()
    # Without the policy it is not known either whether it names a version of the call rules.
    *unversioned, left_out = sorted(report.not_checked, key=lambda line: "deliberation" in line)
    assert len(unversioned) == (body == "policy")
    assert left_out.startswith(f"the deliberation of run {RUN}: {text}")
    assert left_out.endswith("which is not there")
    assert "played" not in report.intact.reason


def test_a_session_that_goes_on_is_checked_as_far_as_it_has_come(folder: Path) -> None:
    """Nothing is missing yet, and what is there has to be right."""
    story = recorded("divided").copy()
    story.lines = story.lines[: story.lines.index(story.step("reveal/0"))]
    with forged(folder, story) as forgery:
        before, report = found(forgery), forgery.verify()
    story.one("turn/ballot.0.1", BallotFacts).alter(seat=2)
    (folder / "again").mkdir()
    with forged(folder / "again", story) as forgery:
        problems = found(forgery)

    assert before == set()
    assert report.not_checked == (
        f"the deliberation of run {RUN}: how it goes on, for it is not over",
    )
    assert problems == {Problem.SESSION_RECORDED}


@pytest.mark.parametrize("name", ["twenty seats", "a second round", "no money left"])
def test_a_session_is_honest_at_every_moment(name: str) -> None:
    """Joins may be there before what they are for, and an answer before its run is closed."""
    lines = recorded(name).lines
    moments = range(2, len(lines))  # once it was asked for

    assert [
        at for at in moments if audit_session(minutes_of(Story(lines[:at])), KINDS).faults
    ] == []


def test_a_join_of_what_is_to_come_names_what_it_joins() -> None:
    """What it is for is not there, and it has to be right."""
    story = recorded("twenty seats").copy()
    join = story.one(MAIN_STRAND, JoinFacts)
    story.lines = story.lines[: story.lines.index(join) + 1]
    join.parents.pop()

    assert [fault.breach for fault in audit_session(minutes_of(story), KINDS).faults] == [
        Breach.ORDER
    ]


def test_secrets_that_were_spelled_out_are_left_out_and_nothing_else(office: Office) -> None:
    """One that is escaped in a reply is masked only where it stands in plain words."""
    canary = "sk-canary-7731-xylophone"
    escaped = "\\u0073" + canary[1:]
    mask = SecretMask.from_secrets({"KEY": canary.encode()})
    office.ledger = Ledger(office.store, KINDS, now, lambda: b"s" * 32, mask=mask)
    office.engine = Engine(office.ledger, office.hands.model, office.hands.open_tools)
    changed = claiming("no", "it opens with CANARY").replace("CANARY", escaped)
    office.do(ask((changed, NO), (YES, YES), (NO, NO)))
    report = verified(office)

    assert report.findings == ()
    assert report.not_checked
    assert all("what stands for secrets in body" in text for text in report.not_checked)


# Beside the verifier


def test_a_run_without_a_panel_is_no_session(office: Office) -> None:
    """Also where something else in its policy is called a panel."""
    policy = quick(agents={"": Scripted(), "panel": Scripted()})
    office.do(RunRequest("Do it.", None, policy))
    report = verified(office)

    assert report.findings == ()
    assert "deliberation" not in report.intact.reason


def test_the_file_that_strangers_run_says_that_it_plays_no_deliberation(folder: Path) -> None:
    """All that it checks is right; what it does not check it names."""
    story = recorded("divided").copy()
    _say(story, "ballot.0.2", answer="no")
    with forged(folder, story) as forgery:
        data, trust = forgery.bundle(), forgery.trust
    stated = standalone.verify(data, stranger(trust))

    assert stated["findings"] == []
    assert stated["not_checked"] == [f"the deliberation of run {RUN}: `forum verify` plays it"]
    assert [f.problem for f in verify_bundle(data, KINDS, trust).findings] == [
        Problem.SESSION_RECORDED
    ]


def test_the_writer_is_who_the_engine_signs_as() -> None:
    """Another name would be a finding in every session."""
    assert WRITER == ENGINE
