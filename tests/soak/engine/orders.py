"""What the parent tells a worker, and the names that both have for the places of a crash."""

from enum import StrEnum
from pathlib import Path

import msgspec

from forum.config import Settings

CANARY = "canary-5f0e8e1bd24c"
"""Stands in every request, instruction, reply and argument: where it is found, content is."""


class Point(StrEnum):
    """A boundary of a step: what a crash can come before or after."""

    # The commit of an entry to the ledger, by its kind.
    ACCEPTED = "accepted/1"
    CALL = "call/1"
    REPLY = "reply/1"
    INTENT = "intent/1"
    OUTCOME = "outcome/1"
    VERDICT = "verdict/1"
    SKIP = "skip/1"
    STOP = "stop/1"
    GATE = "gate.open/1"
    DECISION = "gate.decision/1"
    DELEGATE = "delegate/1"
    CONTROL = "control.close/1"
    ANSWER = "answer/1"
    CLOSE = "run.close/1"
    # What is done in the world between two entries.
    MODEL = "model call"
    TOOL = "tool use"
    # The durable queues: the end of a drive is the moment between the last commit to the ledger
    # and the engine's checkpoint.
    ENQUEUE_RUN = "enqueue run"
    ENQUEUE_TASKS = "enqueue tasks"
    DEQUEUE = "dequeue"
    DRIVE_RUN = "drive run"
    DRIVE_TASK = "drive task"
    CHECKPOINT = "engine checkpoint"
    # Looking after runs, and after each other.
    CLAIM_DUE = "claim_due_timers"
    SNOOZE = "reschedule"
    HOLD_LEASE = "renew_lease"
    LOST_WORKERS = "expired_workers"
    # What workers do that claim runs in the ledger.
    CLAIM_RUNS = "claim_runs"
    # What workers do to whom a queue assigns runs.
    CLAIM_RUN = "claim_run"
    RELEASE_RUNS = "release_runs"
    TAKE_OVER = "take_over"


IF_FOUND = frozenset(
    {Point.DEQUEUE, Point.CLAIM_DUE, Point.LOST_WORKERS, Point.CLAIM_RUNS, Point.TAKE_OVER}
)
"""What is asked for all the time: it counts only where something was found."""


ELSEWHERE = {
    "dbos": frozenset({Point.CLAIM_RUNS}),
    "claims": frozenset({Point.DEQUEUE, Point.CHECKPOINT, Point.CLAIM_DUE, Point.CLAIM_RUN}),
}
"""The boundaries that a kind of worker never comes to."""


class Moment(StrEnum):
    """When the trap springs."""

    BEFORE = "before"
    AFTER = "after"
    STOP = "stopped"
    """Before the effect, which takes place after all when the process is continued."""


class Plan(msgspec.Struct, frozen=True):
    """Where a worker ends its own life: the next time that one comes to a boundary."""

    point: Point
    moment: Moment

    def __str__(self) -> str:
        return f"{self.point}: {self.moment}"


class Word(msgspec.Struct, frozen=True):
    """What the parent says to a worker: one line on its standard input."""

    plan: Plan | None = None
    """Take part in the work, until this; without one, live on."""
    token: str = ""
    """A file: of several workers with one plan, the one ends that is the first to remove it."""


class Orders(msgspec.Struct, frozen=True):
    """One life of one worker."""

    folder: str
    """Where the ledger, or at least its key, and all memories are."""
    database: str | None
    """An address of Postgres, unless the ledger is a file."""
    name: str
    runner: str = "claims"

    @property
    def settings(self) -> Settings:
        """Where everything is."""
        folder = Path(self.folder)
        data = folder / "data"
        return Settings(
            data, folder / "state", data / "log.key", database=self.database, runner=self.runner
        )

    @property
    def evidence(self) -> Path:
        """Where this life notes down what it does."""
        return Path(self.folder) / "evidence" / f"{self.name}.log"

    @property
    def words(self) -> Path:
        """Where it says what it has no words for."""
        return self.evidence.with_suffix(".err")
