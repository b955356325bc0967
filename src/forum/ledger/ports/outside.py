"""Ports beside the store: clock, salts, checkpoint store, and cosigner."""

from collections.abc import Callable, Sequence
from typing import Protocol

from forum.tlog import Hash

Clock = Callable[[], int]
"""Returns the time in microseconds since 1970, by the clock of this machine."""

Salts = Callable[[], bytes]
"""Returns a fresh random salt on each call."""


class CheckpointStore(Protocol):
    """Durable storage of one signed note, outside the database, replaced by compare-and-swap.

    Used for the signer's guard, the last note that a witness cosigned, and the last checkpoint
    that a reader saw.
    """

    def latest(self) -> bytes | None:
        """Return the stored note, or None if there never was one."""

    def advance(self, old: bytes | None, new: bytes) -> None:
        """Replace `old` by `new` durably.  Raises `ConcurrentUpdate` when `old` is not stored."""


class Cosigner(Protocol):
    """A witness that cosigns checkpoints consistent with those that it cosigned before."""

    @property
    def name(self) -> str:
        """The name of the witness's key."""

    def cosign(self, note: bytes, prove: Callable[[int, int], Sequence[Hash]]) -> str:
        """Return the cosignature lines for a checkpoint.

        Raises `WitnessRefused`, `WitnessUnreachable`.

        `prove(old, new)` returns the consistency proof that the witness asks for.
        """
