"""What requests hold of a process: their place, their body, and the stream they follow.

A server has these limits for all of its clients, and the gateway of `forum run` for its program.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from forum.errors import BodyTooLarge, BodyTooSlow
from forum.limits.shares import ANONYMOUS, Meter, Requester, Shares, current_client, divide

MAX_CONNECTIONS = 2000
MAX_STREAMS = 1500
"""Clients that follow events.  They may do so for days, so they leave room for requests."""
MAX_MEMORY_BODY_BYTES = 128 << 20
"""Bodies in memory, from their first byte until their response has been sent."""
MAX_CALL_BYTES = 32 << 20
"""The largest body of a model call through a gateway: pictures are in it."""
BODY_TIMEOUT_S = 20.0
"""Time limit for receiving a body."""
_SLOW_BODY_BYTES_PER_S = 1 << 20
"""A body may take longer, if it is large: as long as it would take at this rate."""


class Admission:
    """The meters of one process."""

    def __init__(self, ledgers: int) -> None:
        self.requests = Meter("open requests", divide(MAX_CONNECTIONS, ledgers))
        self.streams = Meter("event streams", divide(MAX_STREAMS, ledgers))
        bodies = divide(MAX_MEMORY_BODY_BYTES, ledgers, least=MAX_CALL_BYTES + (8 << 20))
        self.bodies = Meter("bytes of bodies", bodies)

    @property
    def meters(self) -> tuple[Meter, ...]:
        """All meters, for the metrics."""
        return self.requests, self.streams, self.bodies


class SoleAdmission(Admission):
    """The meters of a process with one client, which shares with nobody."""

    def __init__(self) -> None:
        super().__init__(1)
        for meter in self.meters:
            meter.shares = Shares(*3 * (meter.shares.total,))


class HeldShares:
    """What one request has taken."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._client = ANONYMOUS
        self._taken: list[tuple[Meter, int]] = []

    def admit(self, client: Requester) -> None:
        """Take a place among the open requests.  Raises `ShareExceeded`, `ProcessFull`."""
        self._client = client
        current_client.set(client)
        self._take(self._admission.requests)

    def follow(self) -> None:
        """Take a place among the event streams.  Raises `ShareExceeded`, `ProcessFull`."""
        self._take(self._admission.streams)

    def take_bytes(self, count: int) -> None:
        """Count bytes of the body.  Raises `ShareExceeded`, `ProcessFull`."""
        self._take(self._admission.bodies, count)

    def give_back(self) -> None:
        """Give everything back."""
        taken, self._taken = self._taken, []
        for meter, amount in taken:
            meter.give_back(self._client, amount)

    def _take(self, meter: Meter, amount: int = 1) -> None:
        meter.take(self._client, amount)
        self._taken.append((meter, amount))


async def collect_body(
    chunks: AsyncIterator[bytes], announced: int, most: int, take_bytes: Callable[[int], None]
) -> bytes:
    """Return a body, counting its bytes.

    Raises `BodyTooLarge`, `BodyTooSlow`, and the errors of `take_bytes`.
    """
    if announced > most:
        raise BodyTooLarge(most)
    # Before the first byte: a client is refused at once, and not in the middle of its body.
    take_bytes(announced)
    counted = announced
    # Content-Length may be absent (chunked) or false, so the received bytes are counted as well.
    data = bytearray()
    seconds = max(BODY_TIMEOUT_S, announced / _SLOW_BODY_BYTES_PER_S)
    try:
        async with asyncio.timeout(seconds):
            async for chunk in chunks:
                data += chunk
                if len(data) > most:
                    raise BodyTooLarge(most)
                if len(data) > counted:
                    take_bytes(len(data) - counted)
                    counted = len(data)
    except TimeoutError:
        raise BodyTooSlow(seconds) from None
    return bytes(data)
