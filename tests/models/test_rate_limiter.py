"""The gate before a provider: a burst that was refused once is not sent again as a burst."""

import asyncio
import threading
from contextlib import suppress
from time import monotonic

import pytest

from forum.engine import NO_COST, CallReply
from forum.ledger.kinds import Outcome
from forum.models import make_model
from forum.models.rate_limiter import MAX_PAUSE_S, MIN_PAUSE_S, QueueTicket, RateLimiter
from forum.runs.kinds import Why
from forum.runs.policy import Chat
from tests.models.asking import ask, call_of, spec_of
from tests.models.provider import refuse, say, serving


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Crowd:
    """Many who want to call, seen from outside."""

    def __init__(self, size: int, at_once: int = 0) -> None:
        self.clock = Clock()
        self.gate = RateLimiter(self.clock)
        self.places: list[QueueTicket] = []
        self.come(size, at_once)

    def come(self, size: int, at_once: int = 0) -> None:
        """Let more of them come."""
        for place in [QueueTicket(at_once, lambda: None) for _ in range(size)]:
            self.gate.enqueue(place)
            self.places.append(place)

    def calling(self) -> list[QueueTicket]:
        """Let in who may come in, and return who is inside."""
        for place in self.places:
            self.gate.wait_time(place)
        return [place for place in self.places if place.is_admitted]

    def end(self, place: QueueTicket, *, refused: int | None = None) -> None:
        """End a call, well or not."""
        if refused is None:
            self.gate.report_success(place)
        else:
            self.gate.report_throttled(place, refused)
        self.gate.release(place)
        self.places.remove(place)


def test_so_many_at_once_and_no_more() -> None:
    """First come, first served."""
    crowd = Crowd(5, at_once=2)

    assert crowd.calling() == crowd.places[:2]
    crowd.end(crowd.places[1])
    assert crowd.calling() == crowd.places[:2]


def test_after_a_refusal_calls_are_let_in_few_at_a_time() -> None:
    """One, two, four, eight: as long as they are answered."""
    crowd = Crowd(40)
    burst = crowd.calling()
    assert len(burst) == 40
    for place in burst[:8]:
        crowd.end(place, refused=500)
    for place in burst[8:]:
        crowd.end(place, refused=0)
    crowd.come(40)

    assert crowd.calling() == []
    crowd.clock.now = 0.5
    sizes = []
    while crowd.places:
        inside = crowd.calling()
        sizes.append(len(inside))
        for place in inside:
            crowd.end(place)
    assert sizes == [1, 2, 4, 8, 16, 9]


def test_without_a_pause_of_the_provider_it_doubles() -> None:
    """From a second to a minute, and a burst that is refused as a whole counts once."""
    crowd = Crowd(30)
    pauses = []
    for _ in range(9):
        before = crowd.clock.now
        inside = crowd.calling()
        for place in inside:
            crowd.end(place, refused=0)
        crowd.come(len(inside))
        wait = crowd.gate.wait_time(crowd.places[0])
        assert wait is not None
        pauses.append(wait)
        crowd.clock.now = before + wait
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (MIN_PAUSE_S, MAX_PAUSE_S) == (1, 60)

    (place,) = crowd.calling()
    crowd.end(place)
    inside = crowd.calling()
    crowd.end(inside[0], refused=0)
    crowd.end(inside[1])
    assert crowd.gate.wait_time(crowd.places[0]) == MIN_PAUSE_S


def test_who_gives_up_frees_the_place() -> None:
    """A call that is cancelled, or runs out of time, holds nobody up."""

    async def scene() -> None:
        gate = RateLimiter()
        async with gate.admit(1, 1):
            waiting = [asyncio.create_task(wait(gate, 60)) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            with pytest.raises(TimeoutError):
                await wait(gate, 0.05)
            with suppress(asyncio.CancelledError):
                await waiting[0]
        await asyncio.wait_for(asyncio.gather(*waiting[1:]), 5)

    async def wait(gate: RateLimiter, seconds: float) -> None:
        async with gate.admit(1, seconds):
            pass

    asyncio.run(scene())


def test_a_refusal_ends_the_wait_of_those_who_wait_for_others() -> None:
    """They wait for the clock then: nobody is left to wake them."""

    async def scene() -> float:
        gate = RateLimiter()

        async def wait() -> None:
            async with gate.admit(1, 30):
                pass

        async with gate.admit(1, 1) as place:
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0.01)
            gate.report_throttled(place, 200)
            began = monotonic()
        await asyncio.wait_for(waiting, 5)
        return monotonic() - began

    assert 0.19 <= asyncio.run(scene()) < 2


def test_a_loop_that_is_gone_holds_nobody_up() -> None:
    """A thread may end while it waits."""
    gate, lost = RateLimiter(), asyncio.new_event_loop()
    holder = QueueTicket(1, lambda: None)
    gate.enqueue(holder)
    gate.wait_time(holder)
    gate.enqueue(QueueTicket(1, lambda: lost.call_soon_threadsafe(print)))
    lost.close()
    after = QueueTicket(1, lambda: None)
    gate.enqueue(after)

    gate.release(holder)
    assert after.is_admitted


def test_a_limit_holds_for_all_threads_of_a_process() -> None:
    """They have one key."""
    replies: list[CallReply] = []

    def work(spec: Chat) -> None:
        async def many() -> None:
            model = make_model(spec)
            replies.extend(await asyncio.gather(*(model.reply(call_of()) for _ in range(5))))

        asyncio.run(many())

    with serving((0.02, *say("hello"))) as provider:
        spec = spec_of(provider, at_once=3)
        threads = [threading.Thread(target=work, args=(spec,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [reply.outcome for reply in replies] == [Outcome.OK] * 20
    assert provider.most_open <= 3


def test_nobody_calls_before_the_pause_is_over() -> None:
    """Not even another model with the same key; and who cannot wait has spent nothing."""
    with serving(refuse(429, Retry_After_Ms="1000"), say("hello")) as provider:
        refused = ask(spec_of(provider))
        began = monotonic()
        hasty = ask(spec_of(provider), call_of(seconds=0.1))
        patient = ask(spec_of(provider, max_tokens=7))
        took = monotonic() - began

    assert (refused.why, refused.retry_milliseconds) == (Why.THROTTLED, 1000)
    assert (hasty.outcome, hasty.why, hasty.code) == (Outcome.TIMEOUT, Why.DEADLINE, "gate")
    assert (hasty.spent, patient.outcome) == (NO_COST, Outcome.OK)
    assert len(provider.seen) == 2
    assert 0.9 <= took < 5
