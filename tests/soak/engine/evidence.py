"""What the workers noted down while they lived: outside the ledger, by their own clocks.

All of them are on one machine, whose monotonic clock is the same for every process.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec


class Event(NamedTuple):
    """One line of a diary."""

    at: int
    """Nanoseconds."""
    life: str
    what: str
    details: tuple[Any, ...]


Drive = tuple[str, ...]
"""What is being driven: a run, or a task of one."""


@dataclass
class Evidence:
    """All diaries, read as they grow."""

    folder: Path
    events: list[Event] = field(default_factory=list)
    of: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """The same by life."""
    _read: dict[Path, int] = field(default_factory=dict)

    def read(self) -> None:
        """Take in what was written since the last time."""
        for path in sorted(self.folder.glob("*.log")):
            size = path.stat().st_size
            if size > self._read.get(path, 0):
                for line in self._lines(path):
                    at, what, *details = msgspec.json.decode(line)
                    event = Event(at, path.stem, what, tuple(details))
                    self.events.append(event)
                    self.of[path.stem].append(event)

    def is_up(self, life: str) -> bool:
        """Tell whether a life has begun to work."""
        return any(event.what == "up" for event in self.of[life])

    def last(self, life: str, what: str) -> Event | None:
        """Return the last event of a kind in a life."""
        return next((e for e in reversed(self.of[life]) if e.what == what), None)

    def all(self, what: str) -> Iterator[Event]:
        """Yield every event of a kind."""
        return (event for event in self.events if event.what == what)

    def in_flight(self, life: str, at: int) -> set[Drive]:
        """Return what a life had taken from the queues at a moment, and not brought to an end."""
        taken: set[Drive] = set()
        for event in self.of[life]:
            if event.at <= at and event.what in ("took", "run+", "task+"):
                taken.add(event.details)
            elif event.at <= at and event.what in ("run-", "task-"):
                taken.discard(event.details)
        return taken

    def _lines(self, path: Path) -> list[bytes]:
        """Return whole new lines; the last one of a killed worker may be torn."""
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(whole)
        return whole.splitlines()
