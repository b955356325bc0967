"""Fork handling for objects that own connections, threads or locks.

A forked child has only the thread that forked.  In the child, a lock that another thread held stays
locked for ever, a thread that is joined never ends, and a connection would be shared with the
parent.  So objects that own such resources are called before the fork, to let running operations
end, and after it: in the parent to continue, in the child to start with new resources.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from weakref import WeakSet


class ForkAware(ABC):
    """An object that must prepare for a fork and recover after it."""

    def before_fork(self) -> None:
        """Wait for operations that must not be interrupted by a fork, and block new ones."""
        return

    def after_fork_in_parent(self) -> None:
        """Allow operations again in the parent."""
        return

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Drop the resources of the parent in the child, without sending anything."""


class _ForkRegistry:
    """The fork-aware objects of this process, held by weak references."""

    def __init__(self) -> None:
        self.lock = RLock()
        """Held while a fork-aware object is created and registered, so that no fork can occur."""
        self._members: WeakSet[ForkAware] = WeakSet()
        self._prepared: list[ForkAware] = []

    def add(self, member: ForkAware) -> None:
        with self.lock:
            self._members.add(member)

    def before_fork(self) -> None:
        self.lock.acquire()
        # Keep strong references: a member whose lock is taken here must be called again after the
        # fork, even if its last user drops it meanwhile.
        self._prepared = sorted(self._members, key=id)
        for member in self._prepared:
            member.before_fork()

    def after_fork_in_parent(self) -> None:
        prepared, self._prepared = self._prepared, []
        for member in reversed(prepared):
            member.after_fork_in_parent()
        self.lock.release()

    def after_fork_in_child(self) -> None:
        prepared, self._prepared = self._prepared, []
        self.lock = RLock()
        for member in prepared:
            with suppress(Exception):  # a failure must not prevent the cleanup of the others
                member.after_fork_in_child()


_registry = _ForkRegistry()
os.register_at_fork(
    before=_registry.before_fork,
    after_in_parent=_registry.after_fork_in_parent,
    after_in_child=_registry.after_fork_in_child,
)


def register_fork_aware(member: ForkAware) -> None:
    """Register an object, to be called before and after each fork of this process."""
    _registry.add(member)


@contextmanager
def block_forks() -> Iterator[None]:
    """Block forks by other threads until the end of the block."""
    with _registry.lock:
        yield
