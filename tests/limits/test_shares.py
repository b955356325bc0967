"""What clients hold of a process is divided by ledger and by key."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import ProcessFull, ShareExceeded
from forum.limits.shares import (
    ANONYMOUS,
    FairSlots,
    Meter,
    Requester,
    Shares,
    current_client,
    divide,
)


@given(st.integers(10, 10_000), st.integers(1, 9))
def test_the_shares_of_all_ledgers_leave_room(total: int, ledgers: int) -> None:
    """Whatever the others hold, a ledger gets its share."""
    shares = divide(total, ledgers)

    assert shares.key <= shares.ledger
    assert (ledgers - 1) * shares.ledger + shares.key <= total


def test_a_sole_ledger_has_nearly_everything() -> None:
    """There is nobody to leave it to."""
    assert divide(2000, 1) == Shares(2000, 1800, 200)
    assert divide(2000, 2) == Shares(2000, 900, 200)
    assert divide(2000, 500) == Shares(2000, 200, 200)


def test_a_key_a_ledger_and_a_process_have_limits() -> None:
    """A refusal says whose limit it is, and holds nothing."""
    meter = Meter("things", Shares(total=5, ledger=4, key=2))
    meter.take(Requester("a", "1"), 2)
    with pytest.raises(ShareExceeded, match="this key may have at most 2 things"):
        meter.take(Requester("a", "1"))
    meter.take(Requester("a", "2"), 2)
    with pytest.raises(ShareExceeded, match="this ledger may have at most 4 things"):
        meter.take(Requester("a", "3"))
    meter.take(Requester("b", "1"))
    with pytest.raises(ProcessFull, match="this process may have at most 5 things"):
        meter.take(Requester("b", "1"))
    assert meter.held == 5
    assert meter.refused == {"key": 1, "ledger": 1, "process": 1}

    meter.give_back(Requester("a", "1"), 2)
    meter.take(Requester("a", "3"), 2)
    assert meter.held_by("a") == 4


def test_keys_of_the_same_name_in_two_ledgers_are_two_keys() -> None:
    """A name is unique within its ledger only."""
    meter = Meter("things", Shares(9, 9, 1))
    meter.take(Requester("a", "1"))
    meter.take(Requester("b", "1"))

    assert meter.held == 2


def _play(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 10))


def test_a_ledger_waits_for_no_queue_of_another() -> None:
    """The queue of one client is as long as it likes; whoever comes next has the next turn."""
    texts: list[str] = []

    async def hold(slots: FairSlots, client: Requester, end: asyncio.Event) -> None:
        current_client.set(client)
        async with slots.hold():
            texts.append(f"{client.ledger}{client.key}")
            await end.wait()

    async def play() -> None:
        slots, first = FairSlots(2), asyncio.Event()
        rest = asyncio.Event()
        rest.set()
        busy = asyncio.create_task(hold(slots, Requester("a", "1"), first))
        await asyncio.sleep(0)
        crowd = [asyncio.create_task(hold(slots, Requester("a", "1"), rest)) for _ in range(50)]
        crowd.append(asyncio.create_task(hold(slots, Requester("a", "2"), rest)))
        await asyncio.sleep(0)
        assert texts == ["a1"], "one slot is left for other ledgers"
        await asyncio.create_task(hold(slots, Requester("b", "1"), rest))
        assert texts == ["a1", "b1"]
        first.set()
        await asyncio.gather(busy, *crowd)

    _play(play)
    assert texts.index("a2") <= 4, "a key waits for no queue of another key"
    assert len(texts) == 53


def test_whoever_gives_up_waiting_leaves_no_slot_behind() -> None:
    """Clients disconnect at any moment, also when their turn has just come."""

    async def play() -> None:
        slots = FairSlots(1)

        async def hold() -> None:
            async with slots.hold():
                await asyncio.sleep(0.001)

        tasks = [asyncio.create_task(hold()) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with slots.hold():
            pass

    _play(play)


def test_who_has_shown_no_key_is_one_client() -> None:
    """Strangers share one share."""
    assert current_client.get() == ANONYMOUS
