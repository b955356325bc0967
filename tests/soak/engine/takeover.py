"""How long it takes until somebody goes on with what a dead or stopped worker was doing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from forum.ledger.entry import MAIN_STRAND
from forum.ledger.ports import Reader
from forum.runs.kinds import task_strand
from tests.soak.engine.evidence import Drive, Event, Evidence
from tests.soak.engine.orders import Moment

GOAL_SECONDS = 5.0


@dataclass(frozen=True)
class Death:
    """A worker was killed, or stopped for longer than its lease lasts."""

    life: str
    at: int
    how: str

    @property
    def is_stop(self) -> bool:
        """Whether it was only stopped."""
        return self.how.endswith(Moment.STOP)


@dataclass(frozen=True)
class Takeover:
    """Somebody else went on after so many seconds; or nobody had to, or did."""

    death: Death
    drive: Drive
    seconds: float | None


class Takeovers:
    """Finds who went on, by the diaries of all."""

    def __init__(self, evidence: Evidence, reader: Reader) -> None:
        self._evidence, self._reader = evidence, reader
        self._taken: dict[Drive, list[Event]] = defaultdict(list)
        self._begun: dict[Drive, list[Event]] = defaultdict(list)
        self._commits: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in sorted(evidence.events):
            if event.what == "took":
                self._taken[event.details].append(event)
            elif event.what == "run+":
                self._begun[event.details].append(event)
            elif event.what == "commit":
                self._commits[event.details[:2]].append(event)

    def of(self, death: Death) -> list[Takeover]:
        """Return what became of everything that the dead was driving, and had not ended."""
        drives = sorted(self._evidence.in_flight(death.life, death.at))
        takeovers = [
            Takeover(death, drive, self._seconds(drive, death))
            for drive in drives
            if not self._was_over(drive, death) and not self._was_lost(drive, death)
        ]
        # Whoever was only stopped may have come back in time.
        return [
            takeover for takeover in takeovers if takeover.seconds is not None or not death.is_stop
        ]

    def _seconds(self, drive: Drive, death: Death) -> float | None:
        """Measure until the next entry of a task; until a run is driven, which may have none."""
        taken = _elsewhere(self._taken[drive], death)
        if not taken:
            return None
        goes_on = self._commits[_strand(drive)] if len(drive) > 1 else self._begun[drive]
        following = _elsewhere(goes_on, death)
        until = taken[0].at
        # Where the heir died too, or had to wait for a person, taking it up was all that it could.
        if following and (len(taken) == 1 or following[0].at < taken[1].at):
            until = max(until, following[0].at)
        return (until - death.at) / 1e9

    def _was_over(self, drive: Drive, death: Death) -> bool:
        """Tell whether the last entry was there; if nobody noted it, its writer died with it."""
        last = sum(1 for _ in self._reader.read_strand(*_strand(drive))) - 1
        commit = next((e for e in self._commits[_strand(drive)] if e.details[2] == last), None)
        return last >= 0 and (commit is None or commit.at <= death.at)

    def _was_lost(self, drive: Drive, death: Death) -> bool:
        """Tell whether others had it already: the dead was a zombie before."""
        before = [event for event in self._taken[drive] if event.at <= death.at]
        return not before or before[-1].life != death.life


Storm = tuple[int, int]
"""When the database, or all workers, were away, or had just come back."""


class Weather:
    """Tells whether there was anybody who could have gone on."""

    def __init__(
        self, evidence: Evidence, deaths: Sequence[Death], storms: Sequence[Storm]
    ) -> None:
        self._begun = [e for e in evidence.events if e.what in ("up", "continues")]
        self._deaths, self._storms = deaths, storms

    def is_calm(self, takeover: Takeover) -> bool:
        """Tell whether somebody else lived all the while, and the database was there."""
        at = takeover.death.at
        until = at + int(1e9 * min(GOAL_SECONDS, takeover.seconds or GOAL_SECONDS))
        if any(begun < until and at < ended for begun, ended in self._storms):
            return False
        return any(self._lived(event, at, until) for event in self._begun)

    def _lived(self, begun: Event, at: int, until: int) -> bool:
        return begun.at <= at and not any(
            death.life == begun.life and begun.at < death.at <= until for death in self._deaths
        )


def _strand(drive: Drive) -> tuple[str, str]:
    return (drive[0], task_strand(drive[1]) if len(drive) > 1 else MAIN_STRAND)


def _elsewhere(events: Sequence[Event], death: Death) -> list[Event]:
    return [event for event in events if event.at > death.at and event.life != death.life]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that so many of them do not pass."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
