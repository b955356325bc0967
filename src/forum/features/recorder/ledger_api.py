"""The ledger for Python programs: verify it, list, replay and compare its runs, explain entries.

Nothing here writes to the ledger, and no server is needed.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from forum import tlog
from forum.app import KINDS, Forum, ListedRun, RunQuery, RunView, now
from forum.app.formatting import RUN_LABELS
from forum.app.planner import AgentRegistry
from forum.config import load_settings
from forum.features.recorder.run_results import RunResult, build_result
from forum.ledger.kinds import Outcome
from forum.ledger.log import LocatedEntry, find_entry, walk_causes
from forum.ledger.ports import Amount
from forum.runs.record_figures import RecordFigures
from forum.runs.report_causes import within_finder
from forum.runs.roster import Lane, Tier
from forum.runs.run_summary import tally_entries
from forum.runs.run_words import describe_run_word
from forum.units import NANO_USD

if TYPE_CHECKING:
    from forum.verify import Report  # programs that only record do not need it

_MAX_TITLE_CHARS = 60
_SHORT_ID_CHARS = 18


class RunListing(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the list of a ledger."""

    id: str
    state: str
    """One word: the state of a run that goes on, or how it ended."""
    outcome: Outcome | None
    """None if the run has not ended."""
    began: datetime
    seconds: float
    """The time that it took; for a run that goes on, until now."""
    passed: int
    tasks: int
    calls: int
    tokens: int
    usd: float
    models: tuple[str, ...]
    """The models that were called, the one with the highest cost first."""
    title: str
    """The request, or the title of a run that Forum does not drive; empty if it was erased."""

    def __repr__(self) -> str:
        title = self.title.split("\n")[0][:_MAX_TITLE_CHARS]
        return f"<run {self.id} {self.state}, {self.calls} calls, ${_format(self.usd)}: {title!r}>"


class ReplayedRun(RunResult[object], frozen=True, kw_only=True):
    """A run as it stands, or as it stood when an entry was the last one.

    It has the members of `RunResult` too.
    """

    state: str
    until: int | None
    """The index of that entry; None if all entries count."""
    request: str | None
    """None if it was erased, or if Forum does not drive the run."""
    entries: int
    """The number of entries that count."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that led to another one."""

    depth: int
    """The number of causes in between and one; 0 for the entry that was asked about."""
    index: int | None
    """None until the entry has one."""
    id: str
    run: str
    strand: str
    step: str
    kind: str
    actor: str
    at: datetime
    facts: Mapping[str, Any]
    judge: str
    """What the judge wrote, for a verdict or a check; else empty."""

    def __repr__(self) -> str:
        facts = " ".join(f"{name}={value}" for name, value in self.facts.items() if value)
        return f"<{self.depth} entry {self.index} {self.kind} {self.strand} {facts}>"


class LogCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a log has committed to: its size and its root, in a signed note."""

    origin: str
    size: int
    root: str
    note: str
    """The note with its signature and cosignatures, for those who keep it."""
    is_witnessed: bool
    """Whether the witnesses that the trust file requires have cosigned it."""
    witnessing: str
    """How far it is witnessed, in words."""

    def __repr__(self) -> str:
        return f"<checkpoint {self.origin} size {self.size} {self.root[:16]}, {self.witnessing}>"


class ModelCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one model, and what they have cost."""

    model: str
    calls: int
    tokens: int
    usd: float
    unpriced: int
    """The number of calls whose price is not known, and which count as free of charge."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a record holds, in numbers."""

    entries: int
    bodies: int
    body_bytes: int
    calls: int
    tokens: int
    usd: float
    models: tuple[ModelCalls, ...]
    verdicts: Mapping[str, int]
    """By what followed: accept, retry, escalate, give-up."""
    checks: Mapping[str, int]
    """Checks of answers, by outcome."""
    escalations: int
    stops: Mapping[str, int]
    """By reason."""

    @property
    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("calls", f"{self.calls:,}, {self.tokens:,} tokens, ${_format(self.usd)}"),
            *(
                (f"  {use.model}", f"{use.calls:,}, {use.tokens:,} tokens, ${_format(use.usd)}")
                for use in self.models
            ),
            ("verdicts", _join_counts(self.verdicts)),
            ("checks", _join_counts(self.checks)),
            ("escalations", f"{self.escalations:,}"),
            ("stops", _join_counts(self.stops)),
            ("bodies", f"{self.bodies:,}, {self.body_bytes:,} bytes"),
            ("entries", f"{self.entries:,}"),
        ]


class LedgerSummary(Figures, frozen=True, kw_only=True):
    """What a ledger holds, or with a run what that run and the runs within it hold."""

    origin: str
    size: int
    root: str
    waiting: int
    """The number of entries that have no index yet."""
    signed: int
    """The size of the newest checkpoint."""
    verified: int
    """The size that this machine last verified; 0 if it never did."""
    run: str | None
    runs: int
    outcomes: Mapping[str, int]
    """The number of closed runs by the word for how they ended, as in `runs`."""
    kinds: Mapping[str, int]

    def __repr__(self) -> str:
        size = f"size {self.size}, signed {self.signed}, last verified here {self.verified}"
        rows = [
            *([("run", self.run)] if self.run else []),
            ("runs", f"{self.runs:,}: {_join_counts(self.outcomes)}"),
            *self._rows,
        ]
        return "\n".join([f"{self.origin}  {size}", *_format_table(rows)])


class RunFigures(Figures, frozen=True, kw_only=True):
    """A run and the runs within it, in numbers."""

    run: str
    state: str
    """The word for its state, as in `runs`."""
    outcome: Outcome | None
    passed: int
    tasks: int
    seconds: float

    def __repr__(self) -> str:
        rows = [
            ("run", self.run),
            ("state", self.state),
            ("tasks passed", f"{self.passed} of {self.tasks}"),
            *self._rows,
            ("seconds", f"{self.seconds:.1f}"),
        ]
        return "\n".join(_format_table(rows))


class FigureDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What the second of two runs has more than the first; less is negative."""

    passed: int
    calls: int
    tokens: int
    usd: float
    verdicts: int
    checks: int
    escalations: int
    stops: int
    entries: int
    bodies: int
    body_bytes: int
    seconds: float


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs in numbers, and their difference."""

    a: RunFigures
    b: RunFigures
    difference: FigureDifference

    def __repr__(self) -> str:
        rows = [("", self.a.run[:_SHORT_ID_CHARS], self.b.run[:_SHORT_ID_CHARS], "difference")]
        for name in FigureDifference.__struct_fields__:
            first, second = _figure(self.a, name), _figure(self.b, name)
            change = getattr(self.difference, name)
            shown = f"{'+' if change > 0 else '-'}{_format(abs(change))}" if change else "="
            rows.append((name, _format(first), _format(second), shown))
        return "\n".join(_format_table(rows))


class LaneInfo(msgspec.Struct, frozen=True):
    """A specialist of the roster."""

    name: str
    group: str
    does: str
    tier: Tier
    tools: tuple[str, ...]


class LedgerReader:
    """Reads the ledger of one project.

    Each method opens the database and closes it again, so there is nothing to close, and each
    answer is about the ledger as it is then.  A run is named by its id, the beginning of one, or
    one of its entries; an entry by its index, its id or the beginning of one, or its position
    `run/strand/n`.
    """

    def __init__(self, folder: str | Path = ".") -> None:
        self._settings = load_settings(Path(folder), os.environ)
        with self._open() as forum, forum.open_reader() as reader:
            self.origin = reader.origin
            """The name of the log."""

    def __repr__(self) -> str:
        return f"<forum.ledger {self.origin} in {self._settings.data}>"

    def verify(self) -> "Report":
        """Check the whole ledger with the trust file and the memories of this machine.

        `ok` tells whether it is intact, complete and witnessed; `findings` lists what is not.  If
        it is, this machine remembers its checkpoint, as after `forum ledger verify`.
        """
        with self._open() as forum:
            return forum.log.verify(forum.log.read_trust())

    def runs(
        self, *, limit: int = 50, state: str = "", text: str = "", before: str | None = None
    ) -> tuple[RunListing, ...]:
        """Return runs, the newest first; runs within runs are left out.

        `state` is a state, an outcome or the reason of a stop, `text` a part of the request, of the
        name or of what was said.  `before` is a run: only those that were begun before it.  Raises
        `ValueError` for a state that no run can have, and for a negative limit.
        """
        if limit < 0:
            raise ValueError(f"limit is {limit}; give 0 or more")
        if state and state not in RUN_LABELS:
            raise ValueError(f"no run is ever {state!r}; known: {', '.join(RUN_LABELS)}")
        query = RunQuery(labels=frozenset({state} if state else ()), text=text)
        with self._open() as forum:
            page = forum.reads.list_runs(query, before and forum.reads.find_run(before), limit)
            return tuple(map(_recorded_run, page.runs))

    def replay(self, run: str, until: int | str | None = None) -> ReplayedRun:
        """Return a run as its entries tell it, or as it stood when the entry `until` was the last.

        Raises `NoSuchEntry`, and `NoSuchRun` if the run had no request at that time.
        """
        with self._open() as forum:
            entry = None if until is None else forum.ledger.find_entry(str(until))
            return _replayed_run(forum, forum.reads.view_run(forum.reads.find_run(run), entry))

    def why(self, entry: int | str, limit: int = 50) -> tuple[Cause, ...]:
        """Return an entry and its causes, the nearest first.  Raises `NoSuchEntry`."""
        with self._open() as forum, forum.open_reader() as reader:
            named = find_entry(reader, KINDS, str(entry))
            chain = walk_causes(
                reader, KINDS, named, limit, find_further=within_finder(reader, KINDS)
            )
            return tuple(
                _cause(depth, located, forum.reads.explain_entry(located))
                for depth, located in chain
            )

    def checkpoint(self) -> LogCheckpoint | None:
        """Return the newest signed checkpoint, or None if nothing is signed yet."""
        with self._open() as forum, forum.open_reader() as reader:
            data = reader.checkpoint()
            if data is None:
                return None
            note = tlog.Note.parse(data)
            signed = tlog.Checkpoint.parse(note.text)
            return LogCheckpoint(
                origin=signed.origin,
                size=signed.size,
                root=signed.root.hex(),
                note=data.decode(),
                is_witnessed=tlog.is_witnessed(note, forum.policy),
                witnessing=tlog.describe_witnessing(note, forum.policy),
            )

    def summary(self, run: str | None = None) -> LedgerSummary:
        """Count what the ledger holds, or with a run what it and the runs within it hold."""
        with self._open() as forum:
            run_id = None if run is None else forum.reads.find_run(run)
            log = forum.reads.measure_log(run_id)
        return LedgerSummary(
            origin=log.origin,
            size=log.size,
            root=log.root,
            waiting=log.waiting,
            signed=log.signed,
            verified=log.verified,
            run=run_id,
            runs=log.record.runs,
            outcomes=log.record.outcomes,
            kinds=log.record.kinds,
            **_members(log.record),
        )

    def compare(self, a: str, b: str) -> RunComparison:
        """Measure two runs, with the runs within them, and return their difference, B minus A."""
        with self._open() as forum:
            first, second = (_measure(forum, forum.reads.find_run(run)) for run in (a, b))
        names = FigureDifference.__struct_fields__
        change = {name: _figure(second, name) - _figure(first, name) for name in names}
        return RunComparison(a=first, b=second, difference=FigureDifference(**change))

    def lanes(self) -> tuple[LaneInfo, ...]:
        """Return the lanes of the project's roster: the specialists to whom work is given."""
        return tuple(map(_lane_info, AgentRegistry(self._settings).roster.lanes))

    @contextmanager
    def _open(self) -> Iterator[Forum]:
        # Not registered: a program that reads does not say which project a log belongs to.
        with Forum(self._settings, register=False) as forum:
            yield forum


def ledger(folder: str | Path = ".") -> LedgerReader:
    """Open the ledger of a project for reading: to verify, list, replay, explain and compare.

    The project is found as the command line finds it, from a folder upwards.  Raises `NoLedger`.
    """
    return LedgerReader(folder)


def _recorded_run(listed: ListedRun) -> RunListing:
    summary = listed.summary
    spent = summary.spent
    return RunListing(
        id=listed.run,
        state=listed.word,
        outcome=summary.outcome,
        began=_moment(summary.begun),
        seconds=((listed.ended or now()) - summary.begun) / 1e6,
        passed=summary.passed,
        tasks=summary.tasks,
        calls=spent.calls,
        tokens=spent.tokens,
        usd=spent.usd / NANO_USD,
        models=summary.models,
        title=listed.request or listed.title,
    )


def _replayed_run(forum: Forum, view: RunView) -> ReplayedRun:
    result: RunResult[object] = build_result(forum, view)
    return ReplayedRun(
        **{name: getattr(result, name) for name in RunResult.__struct_fields__},
        state=view.state.state.value,
        until=view.until,
        request=view.request,
        entries=sum(view.state.lengths.values()),
    )


def _cause(depth: int, located: LocatedEntry, judge: str) -> Cause:
    entry = located.entry
    return Cause(
        depth=depth,
        index=located.index,
        id=located.leaf.hex(),
        run=entry.run,
        strand=entry.strand,
        step=entry.step,
        kind=entry.kind,
        actor=entry.actor,
        at=_moment(entry.ts),
        facts=msgspec.to_builtins(entry.facts),
        judge=judge,
    )


def _measure(forum: Forum, run: str) -> RunFigures:
    record = forum.reads.read_run_record(run)
    tally = tally_entries(located.entry for located in record.entries)
    summary = tally.result()
    return RunFigures(
        run=run,
        state=describe_run_word(forum.reads.read_run(run)),
        outcome=summary.outcome,
        passed=summary.passed,
        tasks=summary.tasks,
        seconds=((tally.ended or now()) - tally.begun) / 1e6,
        **_members(forum.reads.measure_run(run)),
    )


def _members(record: RecordFigures) -> dict[str, Any]:
    """Return the members of `Figures`."""
    spent: Amount = record.spent
    return {
        "entries": record.entries,
        "bodies": record.bodies,
        "body_bytes": record.body_bytes,
        "calls": spent.calls,
        "tokens": spent.tokens,
        "usd": spent.usd / NANO_USD,
        "models": tuple(
            ModelCalls(
                model=model.model,
                calls=model.spent.calls,
                tokens=model.spent.tokens,
                usd=model.spent.usd / NANO_USD,
                unpriced=model.unpriced,
            )
            for model in record.models
        ),
        "verdicts": record.verdicts,
        "checks": record.checks,
        "escalations": record.escalations,
        "stops": record.stops,
    }


def _lane_info(lane: Lane) -> LaneInfo:
    return LaneInfo(lane.name, lane.group, lane.does, lane.tier, tools=lane.tools)


def _figure(figures: RunFigures, name: str) -> Any:  # noqa: ANN401  a number
    """Return a figure as one number; of counts by name their sum."""
    value = getattr(figures, name)
    return sum(value.values()) if isinstance(value, Mapping) else value


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)


def _format(number: float) -> str:
    """Return a number with at most six decimals."""
    return f"{number:,.6f}".rstrip("0").rstrip(".")


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) or "0"


def _format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
