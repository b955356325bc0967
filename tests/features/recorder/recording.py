"""Recorders on a ledger in a folder of a test, and what they have left there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from forum.app import KINDS, Forum
from forum.config import load_settings
from forum.ledger.entry import LOG_RUN, Entry
from forum.ledger.kinds import RunCloseFacts
from forum.ledger.log import locate_run, read_body
from forum.ledger.ports import Reader
from forum.runs.report_kinds import ReportGapFacts, ReportSourceFacts, ReportStepFacts


def make_project(folder: Path) -> dict[str, str]:
    """Make a project in a folder, and return the environment that keeps its state there too."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "forum.toml").touch()
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FORUM_")}
    return kept | {"FORUM_STATE_DIR": str(folder / "state")}


class ReportedRun(NamedTuple):
    """A run as its entries tell it."""

    run: str
    source: ReportSourceFacts
    steps: list[ReportStepFacts]
    gaps: list[ReportGapFacts]
    closed: RunCloseFacts | None
    bodies: dict[str, dict[str, bytes]]
    """By span: the bodies of its entries."""
    entries: list[Entry[Any]]

    @property
    def lost(self) -> int:
        """The number of steps in gaps."""
        return sum(gap.steps for gap in self.gaps)

    def step(self, name: str) -> ReportStepFacts:
        """Return the only step of a name."""
        (facts,) = [step for step in self.steps if step.name == name]
        return facts


@contextmanager
def open_forum(folder: Path) -> Iterator[Forum]:
    """Open the project of a folder."""
    settings = load_settings(folder, {"FORUM_STATE_DIR": str(folder / "state")})
    with Forum(settings) as forum:
        yield forum


def read_runs(folder: Path) -> list[ReportedRun]:
    """Return all runs in a ledger that programs have recorded."""
    with open_forum(folder) as forum, forum.open_reader() as reader:
        return [_read_run(reader, run) for run in reader.runs("", 10_000) if run != LOG_RUN]


def _read_run(reader: Reader, run: str) -> ReportedRun:
    entries = [located.entry for located in locate_run(reader, KINDS, run)]
    bodies: dict[str, dict[str, bytes]] = {}
    for entry in entries:
        for name in entry.bodies:
            content = read_body(reader, entry, name)
            assert content is not None
            bodies.setdefault(entry.strand.removeprefix("span/"), {})[name] = content
    facts = [entry.facts for entry in entries]
    (source,) = [fact for fact in facts if isinstance(fact, ReportSourceFacts)]
    closed = [fact for fact in facts if isinstance(fact, RunCloseFacts)]
    return ReportedRun(
        run=run,
        source=source,
        steps=[fact for fact in facts if isinstance(fact, ReportStepFacts)],
        gaps=[fact for fact in facts if isinstance(fact, ReportGapFacts)],
        closed=closed[0] if closed else None,
        bodies=bodies,
        entries=entries,
    )


def assert_verified(folder: Path) -> None:
    """Check that the ledger of a folder is intact and complete."""
    with open_forum(folder) as forum:
        forum.log.publish()
        report = forum.log.verify(forum.log.read_trust())
    assert report.ok, report


def same(value: Any = None) -> Any:  # noqa: ANN401  whatever it is given
    """Return a value as it is: a function to be recorded."""
    return value
