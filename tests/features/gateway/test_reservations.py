"""Reservations in memory: nothing that was granted is forgotten, and nothing is granted twice."""

import asyncio
import time

import pytest

from forum.features.gateway.reservations import Reservations
from forum.ledger.ports import UNLIMITED, Amount

LARGE, SMALL = Amount(80, 0, 1), Amount(60, 0, 1)


def waiting_call(seconds: float) -> "tuple[Reservations, asyncio.Task[bool]]":
    """Return reservations of a cap of 100, and a call that waits for a call in flight."""
    reservations = Reservations(UNLIMITED._replace(usd=100), Amount())
    loop = asyncio.get_running_loop()
    return reservations, loop.create_task(reservations.reserve(SMALL, seconds))


def test_a_call_that_is_granted_and_cancelled_in_one_turn_gives_back() -> None:
    """Otherwise the run could never spend that amount."""

    async def main() -> None:
        reservations, call = waiting_call(60)
        assert await reservations.reserve(LARGE)
        await asyncio.sleep(0)
        reservations.settle(LARGE, Amount(10, 0, 1))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert reservations.used == Amount(10, 0, 1)
        assert await reservations.reserve(SMALL, 0)

    asyncio.run(main())


def test_a_call_that_is_granted_when_its_time_is_over_is_made() -> None:
    """The timer and the settling of another call may be due in one turn of a busy loop."""

    async def main() -> None:
        reservations, call = waiting_call(0.02)
        assert await reservations.reserve(LARGE)
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, reservations.settle, LARGE, Amount(10, 0, 1))
        time.sleep(0.1)  # noqa: ASYNC251  # the loop is busy until both timers are due
        assert await call
        assert reservations.used == Amount(70, 0, 2)

    asyncio.run(main())
