"""What a process remembers of a database, bound to the identity of that database.

After a failover a server may answer that lacks commits, or has others under the same ids.  What was
read before is then worth nothing, so what a process remembers between two calls is held in a
`DatabaseMemory`; `tests/test_database_memory.py` finds what is not.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lineage:
    """The identity of the database that a process works with, and how often it has changed."""

    def __init__(self) -> None:
        self.generation = 0
        """How often the database has become another one."""
        self.identity: Hashable = None
        """The identity of the database; None until one was met."""
        self._left: set[Hashable] = set()

    def meet(self, identity: Hashable) -> None:
        """Take this as the database from now on; forget what was remembered of another one."""
        if self.identity is not None and identity != self.identity:
            self._left.add(self.identity)
            self.generation += 1
        self.identity = identity

    def move(self) -> None:
        """Forget what was remembered: the log is in another database, to which it was moved.

        That is no failover, and the log may come back later.
        """
        self._left.clear()
        self.generation += 1
        self.identity = None

    def has_left(self, identity: Hashable) -> bool:
        """Return whether this database was left for another one."""
        return identity in self._left


class DatabaseMemory(Generic[T]):
    """A value that is made anew when the database has become another one."""

    def __init__(self, lineage: Lineage, make: Callable[[], T]) -> None:
        self._lineage, self._make = lineage, make
        self._held = (lineage.generation, make())

    @property
    def value(self) -> T:
        """The value, as remembered of the database in use."""
        generation, value = self._held
        if generation != self._lineage.generation:
            # Read before the value is made: a change in between makes the next call forget again.
            generation = self._lineage.generation
            value = self._make()
            self._held = (generation, value)
        return value

    @value.setter
    def value(self, value: T) -> None:
        self._held = (self._lineage.generation, value)
