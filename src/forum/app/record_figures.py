"""The figures of one run, and of the whole log."""

from collections.abc import Callable

from msgspec import Struct

from forum import tlog
from forum.app.clock_ids_and_kinds import KINDS
from forum.app.project import ProjectContext
from forum.errors import NoSuchRun, TamperDetected
from forum.ledger.kinds import RunCloseFacts
from forum.ledger.ports import EntryReader
from forum.runs.kinds import DelegationFacts
from forum.runs.record_figures import RecordFigures, RecordTally


class LogFigures(Struct, frozen=True):
    """What a log holds, and how much of it is signed and was verified."""

    origin: str
    size: int
    """The number of entries with an index."""
    root: str
    waiting: int
    """The number of entries that have no index yet."""
    signed: int
    """The size of the newest checkpoint; 0 if there is none."""
    verified: int
    """The size at which this machine last found the log intact and complete; 0 if it never did."""
    record: RecordFigures


def measure_run(project: ProjectContext, run: str) -> RecordFigures:
    """Return the figures of a run and of the runs within it.  Raises `NoSuchRun`."""
    tally, waiting = RecordTally(), [run]
    seen = {run}
    while waiting:
        name, count = waiting.pop(), 0
        for count, (_, data) in enumerate(project.store.entries_of_run(name), 1):  # noqa: B007
            entry = KINDS.read(data)
            tally.add_entry(entry)
            if isinstance(entry.facts, DelegationFacts) and entry.facts.run not in seen:
                seen.add(entry.facts.run)
                waiting.append(entry.facts.run)
        if name == run and not count:
            raise NoSuchRun(run)
    return tally.result()


def measure_log(
    project: ProjectContext,
    run: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> LogFigures:
    """Return the figures of the log, or with a run those of its record only.

    `progress` is called after each entry.  Raises `NoSuchRun`, `TamperDetected`.
    """
    trees = project.remembered_trees()
    with project.open_reader() as reader:
        project.check_continues(reader, trees)
        head, note = reader.head(), reader.checkpoint()
        seen = project.seen.latest()
        record = measure_run(project, run) if run else _measure_entries(reader, head.size, progress)
        return LogFigures(
            origin=reader.origin,
            size=head.size,
            root=head.root.hex(),
            waiting=sum(1 for _ in reader.unsequenced_entries()),
            signed=tlog.parse_checkpoint(note).size if note else 0,
            verified=tlog.parse_checkpoint(seen).size if seen else 0,
            record=record,
        )


def _measure_entries(
    reader: EntryReader, size: int, progress: Callable[[int, int], None]
) -> RecordFigures:
    tally = RecordTally()
    for index, data in enumerate(reader.entries(0, size), 1):
        if data is None:
            raise TamperDetected(f"entry {index - 1}", "it is missing")
        entry = KINDS.read(data)
        tally.add_entry(entry)
        if isinstance(entry.facts, RunCloseFacts):
            tally.finish_run(entry.run)
        progress(index, size)
    return tally.result()
