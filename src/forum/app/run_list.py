"""Lists of runs, from the summaries beside the entries.

A summary counts if a writer of this log has tagged it.  Where there is none, or it does not hold,
the entries of the run are read: an altered summary changes no answer, and is shown as altered.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forum.app.project import ProjectContext
from forum.errors import ArchiveUnreachable, Malformed, StoreFailed, TamperDetected, WrongWriteKey
from forum.ledger.body import StoredBody
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Commitment, leaf_of
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Position, RunSummaryRow
from forum.runs import run_fold, run_summary
from forum.runs.conversation.titles import make_title
from forum.runs.plan import read_plan
from forum.runs.report_kinds import Provenance, decode_names
from forum.runs.run_words import RunOutcome

if TYPE_CHECKING:
    from forum.app.run_search import RunSearch

MAX_SCANNED_RUNS = 10_000
"""How many runs one request of a client may pass over in search of those that match."""
MAX_FOLDED_RUNS = 1000
"""How many runs without a summary such a request may read from their entries."""
_FILTERED_PAGE_SIZE = 500
"""Page size for reading runs where a filter may drop most of them."""
_SEARCHED_PAGE_SIZE = 50
_MAX_CLOCK_SKEW_US = 60_000_000
"""Tolerated difference between the clocks of two writers, in microseconds."""


class RunQuery(Struct, frozen=True):
    """Which runs are listed; an empty value selects all of them."""

    labels: frozenset[str] = frozenset()
    """States, outcomes and reasons of stops, of which a run must have one."""
    state: run_fold.RunState | None = None
    outcome: RunOutcome | None = None
    since: int = 0
    """The earliest beginning, in microseconds since 1970."""
    until: int = 2**63
    """Only runs that began before this time."""
    text: str = ""
    """A part of the request, of the name, or of what was said in the run, in any case."""
    lane: str = ""
    """The lane of the route, or of a task of the plan."""
    provenance: Provenance | None = None
    within: bool = False
    """Whether runs are listed that other runs have started."""
    evaluations: bool = False
    """Whether evaluations are listed, and nothing else."""

    @property
    def is_filter(self) -> bool:
        """Whether runs may be dropped, apart from those that other runs have started."""
        return self != RunQuery(within=self.within)


class ListedRun(Struct, frozen=True):
    """A run in a list."""

    run: str
    state: run_fold.RunState
    summary: run_summary.RunSummary
    ended: int
    """When it was closed; 0 while it goes on."""
    waits: bool = False
    """Whether one of its gates waits for a decision."""
    is_altered: bool = False
    """Whether its summary or its request is not the one that a writer of this log stored."""
    request: str | None = None
    """None if the request was erased, or if Forum does not drive the run."""
    name: str = ""
    """The name of a run that Forum does not drive."""
    title: str = ""
    """The title of such a run: its command or name, and the first message, as far as they are
    not erased.
    """

    @property
    def word(self) -> str:
        """The one word for its state."""
        return self.summary.choose_word(self.state, waits=self.waits)

    @property
    def labels(self) -> frozenset[str]:
        """The labels by which the run can be found."""
        labels = (self.state, self.summary.outcome, self.summary.stopped, self.word)
        # A council that left its run undecided ends with the outcome ok, and is not ok.
        hidden = (None,) if self.word == Outcome.OK else (None, Outcome.OK)
        return frozenset(str(label) for label in labels if label not in hidden)


class RunPage(Struct, frozen=True):
    """Some runs, the newest first, and the run after which the next page begins, if there is one.

    A page may hold fewer runs than it could, and still have a next one.
    """

    runs: tuple[ListedRun, ...]
    next: str | None
    unsearched: int = 0
    """How many runs were passed over although not all of their texts were searched: they are too
    large, or in an archive that cannot be reached.
    """


class RunLister:
    """Lists the runs of one log."""

    def __init__(self, project: ProjectContext) -> None:
        self._project = project
        self._folded = 0
        self._search: RunSearch | None = None

    def list_runs(
        self, query: RunQuery, before: str | None, limit: int, max_scanned: int | None = None
    ) -> RunPage:
        """Return runs that match, the newest first, from before a run or from the last.

        With `max_scanned` the page ends after so many runs, whether they match or not.
        """
        size = max(limit, _FILTERED_PAGE_SIZE) if query.is_filter else limit
        # Texts are searched in small steps, so that a search ends soon after its limit.
        size = _SEARCHED_PAGE_SIZE if query.text else size
        runs: list[ListedRun] = []
        following = None
        for page in self.scan_runs(query, before, size, max_scanned):
            runs += page.runs
            following = page.next
            if len(runs) >= limit:
                runs, following = runs[:limit], runs[limit - 1].run
                break
        return RunPage(self._with_texts(runs), following, self._unsearched)

    @property
    def _unsearched(self) -> int:
        return self._search.unsearched if self._search else 0

    def scan_runs(
        self,
        query: RunQuery,
        before: str | None,
        size: int,
        max_scanned: int | None = None,
    ) -> Iterator[RunPage]:
        """Yield those of each `size` runs that match, without their texts, the newest first.

        With `max_scanned` this ends after so many runs, whether they match or not.
        """
        scanned = self._folded = 0
        self._search = None
        if query.text:
            from forum.app import run_search

            max_bytes = (
                run_search.MAX_SEARCHED_BYTES
                if max_scanned
                else run_search.MAX_SEARCHED_BYTES_LOCALLY
            )
            self._search = run_search.RunSearch(self._project, query.text, max_bytes)
        directory = self._project.open_directory()
        while page := directory.runs_before(before, size):
            listed = self._read_page(page, query)
            before, scanned = page[-1], scanned + len(page)
            is_last = len(page) < size or _began_before(listed, query.since)
            yield RunPage(tuple(self._select(listed, query)), None if is_last else before)
            is_enough = max_scanned and (scanned >= max_scanned or self._folded >= MAX_FOLDED_RUNS)
            if is_last or is_enough or (self._search and self._search.is_exhausted):
                return

    def _read_page(self, runs: Sequence[str], query: RunQuery) -> list[ListedRun]:
        """Return the runs, or the evaluations, among these, from their summaries or entries."""
        rows = self._project.store.summaries(runs)
        listed, missing = [], []
        for run in runs:
            if run == LOG_RUN:
                continue  # its entries grow with the log, and it is none of the runs
            item, row = self._read_summary(run, rows.get(run))
            listed.append(item)
            missing += [row] if row is not None else []
        self._save(missing)
        return [item for item in listed if item.summary.is_listed is not query.evaluations]

    def save_summaries(self, runs: Sequence[str]) -> None:
        """Store the summaries of closed runs among these that have none yet."""
        self._read_page(runs, RunQuery())

    def _read_summary(
        self, run: str, row: RunSummaryRow | None
    ) -> tuple[ListedRun, RunSummaryRow | None]:
        """Return a run, and its summary if it is closed and has none yet, or an older one."""
        keys = self._project.write_keys
        stored = None
        if row is not None and keys is not None and keys.accepts_summary(*row):
            stored = _read_row(row)
            if stored is not None and row.version == run_summary.SUMMARY_VERSION:
                return stored, None
        self._folded += 1
        # Asked before the entries are read: a run that is closed meanwhile may have more of them.
        is_missing = row is None or stored is not None
        is_closed = is_missing and self._is_closed(run)
        try:
            item, tally = self._fold(run)
        except ArchiveUnreachable:
            if stored is None:
                raise
            return stored, None  # an older summary says less, and nothing that is wrong
        if row is None or stored is not None:
            is_whole = is_closed and not item.is_altered
            return item, run_summary.summary_row(run, tally) if is_whole else None
        # A machine without the write key cannot tell an altered summary from a good one.
        return replace(item, is_altered=keys is not None and not keys.accepts_summary(*row)), None

    def _is_closed(self, run: str) -> bool:
        with suppress(Malformed):
            return self._project.ledger.is_closed(run)
        return False

    def _fold(self, run: str) -> tuple[ListedRun, run_summary.SummaryTally]:
        entries, malformed = [], 0
        for _, data in self._project.store.entries_of_run(run):
            try:
                entries.append((leaf_of(data), self._project.ledger.kinds.read(data)))
            except Malformed:  # by a writer of this log: it spoils this run, and no list
                malformed += 1
        if not entries and not malformed:
            raise TamperDetected(f"run {run}", "the log has opened it, and its entries are gone")
        state = run_fold.fold(entries)
        tally = run_summary.tally_entries(entry for _, entry in entries)
        waits = bool(state.open_gates)
        item = ListedRun(
            run,
            state.state,
            summary=tally.result(),
            ended=tally.ended,
            waits=waits,
            is_altered=malformed > 0,
        )
        return item, tally

    def _save(self, rows: Sequence[RunSummaryRow]) -> None:
        """Store the summaries of closed runs that have none, so that they are read only once."""
        keys = self._project.write_keys
        if not rows or keys is None:
            return
        # Best effort: without them the next list reads the entries again.
        with suppress(StoreFailed, WrongWriteKey):
            self._project.ledger.check_write_key()
            tagged = [row._replace(tag=keys.tag_summary(*row[:4])) for row in rows]
            self._project.store.save_summaries(tagged)

    def _select(self, runs: Sequence[ListedRun], query: RunQuery) -> list[ListedRun]:
        matching = [run for run in runs if _matches(run, query)]
        if query.lane:
            lanes = self._plan_lanes([run for run in matching if run.summary.lane != query.lane])
            matching = [
                run
                for run in matching
                if query.lane == run.summary.lane or query.lane in lanes.get(run.run, ())
            ]
        return self._search_texts(matching, query.text) if query.text else matching

    def _search_texts(self, runs: Sequence[ListedRun], text: str) -> list[ListedRun]:
        """Return the runs whose request, name or messages have a text."""
        wanted = text.casefold()
        return [
            run
            for run in self._with_texts(runs, titles=False)
            if wanted in (run.request or "").casefold()
            or wanted in run.name.casefold()
            or (self._search is not None and self._search.matches(run.run))
        ]

    def _with_texts(
        self, runs: Sequence[ListedRun], *, titles: bool = True
    ) -> tuple[ListedRun, ...]:
        """Return these runs with their requests, names and titles, read with few statements."""
        texts = [_texts_of(run, titles=titles) for run in runs]
        places = [(text.position, text.body) for each in texts for text in each]
        try:
            stored = iter(self._project.store.bodies_at(places))
        except ArchiveUnreachable:
            # A list without the texts of archived runs is of more use than none.
            return tuple(map(self._with_text, runs, texts))
        return tuple(
            _add_texts(run, each, [next(stored) for _ in each])
            for run, each in zip(runs, texts, strict=True)
        )

    def _with_text(self, run: ListedRun, texts: Sequence["_ListedText"]) -> ListedRun:
        """Return a run with its texts, or without them if they cannot be reached."""
        with suppress(ArchiveUnreachable):
            bodies = self._project.store.bodies_at([(text.position, text.body) for text in texts])
            return _add_texts(run, texts, bodies)
        return run

    def _plan_lanes(self, runs: Sequence[ListedRun]) -> dict[str, set[str]]:
        """Return the lanes of the tasks in the plans of these runs, by run."""
        planned = [(run.run, run.summary.plan) for run in runs if run.summary.plan]
        places = [(Position(run, MAIN_STRAND, body.n), "plan") for run, body in planned]
        bodies = self._project.store.bodies_at(places)
        return {
            run: {task.lane for task in read_plan(b"".join(stored.read())).all_tasks}
            for (run, body), stored in zip(planned, bodies, strict=True)
            if stored is not None and stored.matches(body.commitment)
        }


def _began_before(runs: Sequence[ListedRun], since: int) -> bool:
    """Return whether no run before these can have begun since a time."""
    # Runs come in the order of their creation, but the clocks of their writers may differ.
    return bool(runs) and runs[-1].summary.begun < since - _MAX_CLOCK_SKEW_US


def _matches(run: ListedRun, query: RunQuery) -> bool:
    """Return whether what the summary says of a run matches."""
    summary = run.summary
    return (
        (query.within or not summary.parent_run)
        and query.since <= summary.begun < query.until
        and (not query.labels or not query.labels.isdisjoint(run.labels))
        and query.state in (None, run.state)
        and (query.outcome is None or query.outcome in _ends_of(run))
        and query.provenance in (None, summary.provenance)
    )


def _ends_of(run: ListedRun) -> set[str]:
    """Return the ends by which a run is found: its outcome, and what a council left of it.

    A council that decided nothing ends its run with the outcome ok, and is not ok.
    """
    summary = run.summary
    if summary.outcome is None:
        return set()
    if summary.accord is None:
        return {summary.outcome.value}
    return {summary.outcome.value, summary.accord.value} - {Outcome.OK.value}


class _ListedText(Struct, frozen=True):
    """A body that a list shows something of."""

    name: str
    position: Position
    body: str
    commitment: Commitment


def _texts_of(run: ListedRun, *, titles: bool) -> list[_ListedText]:
    summary = run.summary
    main = {"request": summary.request, "names": summary.names}
    texts = [
        _ListedText(name, Position(run.run, MAIN_STRAND, body.n), name, body.commitment)
        for name, body in main.items()
        if body is not None
    ]
    spans = {"command": summary.command, "prompt": summary.prompt} if titles else {}
    texts += [
        _ListedText(name, Position(run.run, body.strand, body.n), "input", body.commitment)
        for name, body in spans.items()
        if body is not None
    ]
    return texts


def _add_texts(
    run: ListedRun, texts: Sequence[_ListedText], stored: Sequence[StoredBody | None]
) -> ListedRun:
    """Return a run with its texts, compared with the commitments to them."""
    contents, is_altered = {}, run.is_altered
    for text, body in zip(texts, stored, strict=True):
        if body is not None and body.matches(text.commitment):
            contents[text.name] = b"".join(body.read())
        else:
            is_altered = is_altered or body is not None
    request = contents.get("request")
    is_driven = run.summary.provenance is Provenance.DRIVEN
    name = "" if is_driven else decode_names(contents.get("names")).name or run.summary.label
    return replace(
        run,
        request=None if request is None else request.decode(errors="replace"),
        name=name,
        title=make_title(name, contents.get("command"), contents.get("prompt")) if name else "",
        is_altered=is_altered,
    )


def _read_row(row: RunSummaryRow) -> ListedRun | None:
    """Return the run of a summary that a writer of this log has tagged; None if it is unknown."""
    if row.version > run_summary.SUMMARY_VERSION:
        return None
    with suppress(msgspec.MsgspecError):
        summary = run_summary.read_summary_row(row)
        return ListedRun(row.run, run_fold.RunState.ENDED, summary, row.ended)
    return None
