"""What the parent asks of the ledger: runs of every shape, begun, cancelled and followed."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

from forum.app import Forum, new_run_id
from forum.engine import accept_run, cancel_run
from forum.errors import RunAlreadyEnded, StoreBlocked, StoreConnectionLost
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import RunCloseFacts
from tests.soak.engine.shapes import Shape, Shapes

T = TypeVar("T")

LOOK_SECONDS = 0.3
PAUSE_SECONDS = 0.05


@dataclass
class Asked:
    """A run that was begun."""

    shape: Shape
    ended: bool = False
    cancel_at: float | None = None


class Requests:
    """Begins runs, cancels those that are to be cancelled, and sees them end."""

    def __init__(self, forum: Forum, seed: str) -> None:
        self._forum = forum
        self._random, self._shapes = Random(seed), Shapes(seed)
        self._looked = 0.0
        self.asked: dict[str, Asked] = {}
        self.violations: list[str] = []
        self.news = time.monotonic()
        """When a run was last seen to end."""

    @property
    def shapes(self) -> dict[str, Shape]:
        """What was asked for, by run."""
        return {run: asked.shape for run, asked in self.asked.items()}

    @property
    def left(self) -> list[str]:
        """The runs that have not ended."""
        return [run for run, asked in self.asked.items() if not asked.ended]

    def begin(self) -> None:
        """Have one more run accepted."""
        run, shape = new_run_id(), self._shapes.next()
        _insist(lambda: accept_run(self._forum.ledger, run, shape.order, "soak"))
        asked = self.asked[run] = Asked(shape)
        if shape.cancelled:
            asked.cancel_at = time.monotonic() + self._random.uniform(0.2, 2.5)

    def look(self) -> None:
        """Look at what has not ended, now and then."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        for run in self.left:
            self._look_at(run, self.asked[run])
        self._looked = time.monotonic()

    def _look_at(self, run: str, asked: Asked) -> None:
        now = time.monotonic()
        if asked.cancel_at is not None and now > asked.cancel_at:
            asked.cancel_at = None
            with suppress(RunAlreadyEnded):
                _insist(partial(cancel_run, self._forum.ledger, run, "soak"))
        asked.ended = _insist(partial(self._has_ended, run))
        if asked.ended:
            self.news = now
        # What is reserved and what is spent never pass the cap, whoever dies.
        account = _insist(partial(self._forum.store.account, run))
        if account is not None and account.used.exceeds(account.cap):
            self.violations.append(f"{run} has used {account.used} of {account.cap}")

    def _has_ended(self, run: str) -> bool:
        last = self._forum.store.last_entry(run, MAIN_STRAND)
        return last is not None and isinstance(
            self._forum.ledger.kinds.read(last).facts, RunCloseFacts
        )


def _insist(what: Callable[[], T]) -> T:
    """Do something, again where something has just happened to the server."""
    while True:
        try:
            return what()
        except (StoreConnectionLost, StoreBlocked):
            time.sleep(PAUSE_SECONDS)
