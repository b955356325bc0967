"""A provider that is busy, late, broken or wrong, and a run that ends all the same.

The adapter is the real one, the provider a server on this machine; each request that it sees is a
call on record, with its outcome, its price and its pause.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, overload

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.kinds import CallFacts, ReplyFacts, StopFacts, StopReason, Why
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import Policy, Role
from forum.runs.run_fold import Run, TaskState
from tests.engine.office import Office, plan, quick
from tests.models.asking import spec_of
from tests.models.provider import (
    EVENTS,
    FOREVER,
    Answer,
    Provider,
    event,
    refuse,
    say,
    serving,
)
from tests.support import StoreFactory

ONE = plan(Task("a", "How long is the Elbe?"))
GOOD = say("1094 km")
HALF = (EVENTS, event({"model": "tiny-1", "choices": [{"delta": {"content": "10"}}]}))
BUSY = (Why.THROTTLED, "http 429")
FINE = (Why.NONE, "")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """Return a process that works on a ledger file."""
    factory = StoreFactory(tmp_path / "ledger.db")
    yield Office(factory())
    factory.close()


def carry_out(office: Office, provider: Provider, budget: RunBudget, **members: Any) -> Run:  # noqa: ANN401
    """Have the provider asked; what must hold of every run is checked."""
    policy = quick(**{"agents": {"": spec_of(provider)}, **members})
    tasks = None if policy.roles else ONE
    # Two asks, so that a Coordinator plans where there is one.
    request = (
        "How long is the Elbe? Where does it end?" if policy.roles else "How long is the Elbe?"
    )
    run = office.do(RunRequest(request, tasks, policy, budget))

    entries = office.entries()
    called = [entry for entry in entries if isinstance(entry.facts, CallFacts)]
    replied = replies(office)
    assert len(called) == len(replied) == office.account().used.calls
    assert len(provider.seen) == sum(1 for reply in replied if reply.code != "gate")
    assert office.account().used.usd == sum(reply.usd for reply in replied) == run.spent.usd
    assert office.account().used.tokens == sum(reply.tokens for reply in replied)
    assert office.alarms() == []
    assert office.findings() == ()
    return run


def replies(office: Office) -> list[ReplyFacts]:
    """Return what came of the calls, in their order."""
    return [entry.facts for entry in office.entries() if isinstance(entry.facts, ReplyFacts)]


NO_EVENTS = (b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\nhello",)
AWAY = (Why.THROTTLED, "http 503")
RECOVERS: dict[str, tuple[Sequence[Answer], list[tuple[Why, str]]]] = {
    "429 with Retry-After": ((refuse(429, Retry_After="1"), GOOD), [BUSY, FINE]),
    "429 without": ((refuse(429), GOOD), [BUSY, FINE]),
    "503 twice": ((*[refuse(503, Retry_After_Ms="9")] * 2, GOOD), [AWAY, AWAY, FINE]),
    "500 once": ((refuse(500), GOOD), [(Why.ERROR, "http 500"), FINE]),
    "half a stream": ((HALF, GOOD), [(Why.CUT, ""), FINE]),
    "no events": ((NO_EVENTS, GOOD), [(Why.ERROR, "malformed"), FINE]),
    "hangs up": (((b"",), GOOD), [(Why.CUT, ""), FINE]),
    "hangs once": (((FOREVER,), GOOD), [(Why.DEADLINE, ""), FINE]),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", RECOVERS)
def test_a_provider_that_comes_back_costs_no_run(office: Office, fault: str) -> None:
    """Each attempt is an entry with its reason; the pause that was asked for is made."""
    answers, reasons = RECOVERS[fault]
    began = monotonic()
    with serving(*answers) as provider:
        run = carry_out(office, provider, RunBudget(), call_milliseconds=2000)

    assert (run.outcome, office.answer()) == (Outcome.OK, b"1094 km")
    assert [(reply.why, reply.code) for reply in replies(office)] == reasons
    if "Retry-After" in fault:
        assert replies(office)[0].pause == 1000
        assert monotonic() - began >= 1
    if reasons[0][0] in (Why.THROTTLED, Why.ERROR) and reasons[0][1] != "malformed":
        assert replies(office)[0].usd == 0, "a refusal is free"
    else:
        assert replies(office)[0].usd > 0, "what may have been billed is paid"


STAYS: dict[str, tuple[Answer, int, Outcome, tuple[Why, str]]] = {
    "429": (refuse(429, Retry_After_Ms="5"), 50, Outcome.FAILED, BUSY),
    "500": (refuse(500), 2, Outcome.FAILED, (Why.ERROR, "http 500")),
    "401": (refuse(401), 1, Outcome.FAILED, (Why.ERROR, "http 401")),
    "404": (refuse(404), 1, Outcome.FAILED, (Why.ERROR, "http 404")),
    "half": (HALF, 2, Outcome.FAILED, (Why.CUT, "")),
    "hangs": ((FOREVER,), 2, Outcome.FAILED, (Why.DEADLINE, "")),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", STAYS)
def test_a_provider_that_stays_away_fails_the_task_after_so_many_requests(
    office: Office, fault: str
) -> None:
    """It is asked again as often as the policy says, and not once more."""
    answer, most, outcome, reason = STAYS[fault]
    with serving(answer) as provider:
        run = carry_out(office, provider, RunBudget(), call_milliseconds=400, retries=1)

    assert (run.outcome, run.task("a").state) == (outcome, TaskState.FAILED)
    assert {(reply.why, reply.code) for reply in replies(office)} == {reason}
    assert len(provider.seen) <= most
    assert office.answer() == b""


@pytest.mark.slow
def test_a_provider_that_is_busy_for_ever_is_left_when_time_is_up(office: Office) -> None:
    """Pauses grow, and a deadline ends them."""
    began = monotonic()
    with serving(refuse(429)) as provider:
        run = carry_out(office, provider, RunBudget(milliseconds=2500))

    assert monotonic() - began < 10
    assert run.outcome is Outcome.TIMEOUT
    assert run.stopped is not None
    assert run.stopped.reason is StopReason.DEADLINE
    assert len(provider.seen) <= 3
    assert office.account().used.usd == 0


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 2**60, "completion_tokens": 2**60},
        {"prompt_tokens": 2**52, "completion_tokens": 2**51},
        {"prompt_tokens": -5, "completion_tokens": -5},
        {"prompt_tokens": "many", "completion_tokens": 1.5},
        {"prompt_tokens": 10**40, "completion_tokens": 0},
        [],
        "",
    ],
)
def test_a_bill_that_cannot_be_true_is_the_bound(office: Office, usage: Any) -> None:  # noqa: ANN401
    """It neither breaks the record nor makes the run free."""
    with serving(say("1094 km", usage=usage)) as provider:
        run = carry_out(office, provider, RunBudget(usd=10**12), retries=0)

    assert run.outcome in (Outcome.OK, Outcome.FAILED)
    (call,) = run.task("a").calls
    assert call.replied is not None
    assert (call.replied.usd, call.replied.tokens) == (call.called.usd, call.called.tokens)
    assert call.replied.usd > 0


def test_a_bill_above_the_bound_stops_the_run_it_is_charged_to(office: Office) -> None:
    """It is charged as it is, and said to be more than was agreed; nothing is spent on top."""
    large = say("1094 km", usage={"prompt_tokens": 10**6, "completion_tokens": 10**6})
    tasks = plan(Task("a", "How long?"), Task("b", "Again.", needs=("a",)))
    with serving(large) as provider:
        policy = quick(agents={"": spec_of(provider)})
        run = office.do(RunRequest("x", tasks, policy, RunBudget(usd=10**9)))

    assert run.outcome is Outcome.DENIED
    assert run.stopped is not None
    assert run.stopped.reason is StopReason.BUDGET
    assert len(provider.seen) == 1
    (reply,) = replies(office)
    assert reply.usd == office.account().used.usd == 6 * 10**9
    assert reply.overrun_usd > 0


def test_a_role_that_answers_in_another_form_is_asked_twice(office: Office) -> None:
    """The provider was told the form, and did not keep to it."""
    with serving(say("First I would look at the Elbe.")) as provider:
        run = carry_out(office, provider, RunBudget(), roles={Role.COORDINATOR: ""})

    assert run.stopped == StopFacts(StopReason.ROLE, by="@coordinator")
    assert [seen.body["response_format"]["type"] for seen in provider.seen] == ["json_schema"] * 2


def test_a_role_that_answers_in_its_form_is_heard(office: Office) -> None:
    """The same with a plan: the way to the task is the same real one."""
    planned = json.dumps({"tasks": [{"id": "elbe", "instruction": "How long is the Elbe?"}]})
    with serving(say(planned), GOOD) as provider:
        run = carry_out(office, provider, RunBudget(), roles={Role.COORDINATOR: ""})

    assert (run.outcome, office.answer()) == (Outcome.OK, b"1094 km")


# A burst

CLOSED_SECONDS = 2.0
AT_ONCE = 4
CROWD = 64


class Crowded(Sequence[bytes | float]):
    """An answer that is a refusal for two seconds, and then whenever four are being answered."""

    def __init__(self) -> None:
        self._opens: float | None = None
        self._answering = 0
        self.answered = 0

    def __iter__(self) -> Iterator[bytes | float]:
        """Decide when it is asked."""
        self._opens = self._opens or time.monotonic() + CLOSED_SECONDS
        if time.monotonic() < self._opens:
            yield from refuse(429, Retry_After="1")
        elif self._answering == AT_ONCE:
            yield from refuse(429)
        else:
            self._answering += 1
            try:
                yield 0.05
                yield from GOOD
                self.answered += 1
            finally:
                self._answering -= 1

    def __len__(self) -> int:
        """Refuse to be counted."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> bytes | float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes | float]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Refuse to be looked at piece by piece."""
        raise NotImplementedError


@pytest.mark.slow
def test_a_burst_of_refusals_loses_no_parallel_run(office: Office) -> None:
    """64 tasks at once meet a provider that lets in nobody, and then four: all end well.

    No finished work is lost or done again, and the gate keeps the refused from coming back as a
    crowd: after the first burst there are few refusals for each answer.
    """
    crowded, tasks = Crowded(), Plan(tuple(Task(f"t{n}", "Say it.") for n in range(CROWD)))
    with serving(crowded) as provider:
        policy = Policy(agents={"": spec_of(provider)}, parallel=CROWD)
        run = office.do(RunRequest("x", tasks, policy))

    assert run.outcome is Outcome.OK
    assert {task.state for task in run.tasks.values()} == {TaskState.PASSED}
    assert crowded.answered == CROWD, "nothing is answered twice"
    calls = [call for task in run.tasks.values() for call in task.calls]
    assert len(provider.seen) == len(calls) == office.account().used.calls
    assert len(provider.seen) <= 3 * CROWD
    for task in run.tasks.values():
        *refused, last = [call.replied for call in task.calls]
        assert last is not None
        assert (last.outcome, last.why) == (Outcome.OK, Why.NONE)
        assert {(r.why, r.code) for r in refused if r} <= {BUSY}
        assert len(task.verdicts) == 1, "a refusal is no failed attempt"
    first = [call.replied.pause for call in calls if call.replied and call.replied.pause]
    assert len(first) >= CROWD // 2
    assert set(first) == {1000}
    assert office.findings() == ()
