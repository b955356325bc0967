"""What a process does about its connections, threads and locks when it forks.

A child has only the thread that forked.  A lock that another thread held stays locked there for
ever, a thread that is waited for never answers, and a connection would be used by two processes.
So whoever holds such things is told: before the fork, so that it can let what is under way come to
an end, and after it, in the parent to go on, in the child to begin anew.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from weakref import WeakSet


class ForkAware(ABC):
    """Something that does not survive a fork as it is."""

    def before_fork(self) -> None:
        """Wait until nothing is under way that a child could not do without."""
        return

    def after_fork_in_parent(self) -> None:
        """Go on."""
        return

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Let go of what belongs to the parent, without a word to anybody."""


class _ForkRegistry:
    """All that has to be told of forks, for as long as anybody uses it."""

    def __init__(self) -> None:
        self.lock = RLock()
        """Held while something is made that must be told: no fork comes in between."""
        self._members: WeakSet[ForkAware] = WeakSet()
        self._told: list[ForkAware] = []

    def add(self, member: ForkAware) -> None:
        with self.lock:
            self._members.add(member)

    def before_fork(self) -> None:
        self.lock.acquire()
        # In one order: two threads that fork at the same time do not wait for each other.
        self._told = sorted(self._members, key=id)
        for member in self._told:
            member.before_fork()

    def after_fork_in_parent(self) -> None:
        told, self._told = self._told, []
        for member in reversed(told):
            member.after_fork_in_parent()
        self.lock.release()

    def after_fork_in_child(self) -> None:
        told, self._told = self._told, []
        self.lock = RLock()
        for member in told:
            with suppress(Exception):  # one that cannot be tidied up must not keep the others
                member.after_fork_in_child()


_registry = _ForkRegistry()
os.register_at_fork(
    before=_registry.before_fork,
    after_in_parent=_registry.after_fork_in_parent,
    after_in_child=_registry.after_fork_in_child,
)


def register_fork_aware(member: ForkAware) -> None:
    """Have something told whenever this process forks."""
    _registry.add(member)


@contextmanager
def block_forks() -> Iterator[None]:
    """Let no fork come in between, within the block."""
    with _registry.lock:
        yield
