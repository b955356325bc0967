"""Moving ended runs to an archive, and replacing their copies after a redaction.

Each step leaves a state from which the next call goes on:

1. The copy of a run is written, read back, and verified as a stranger would verify it.
2. An `archive/1` entry records its place and digest, and is signed.
3. The copy is read once more, as readers will, and compared with what is stored.
4. The entries and bodies are removed from the database.

A crash before step 2 leaves a copy that nothing refers to; the next call deletes it.  A crash after
it leaves a run that is in both places, or partly removed; the next call begins with step 3.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from forum import errors
from forum.app.archiving import ArchiveResult, RejectedRun
from forum.app.clock_ids_and_kinds import KINDS, OPERATOR
from forum.app.project import ProjectContext
from forum.app.run_list import RunLister
from forum.ledger import archive as archived_runs
from forum.ledger import ports
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry, leaf_of
from forum.ledger.kinds import ArchiveFacts, RunCloseFacts
from forum.ledger.sequencer import Publication
from forum.ledger.strand import Draft
from forum.runs.kinds import AcceptedFacts
from forum.runs.report_kinds import ReportSourceFacts

if TYPE_CHECKING:
    from forum.stores.archive_stores import ArchiveStore
    from forum.verify import Trust

_PAGE_RUNS = 500
_BATCH_RUNS = 50
"""The number of runs that are copied before their records are signed together."""


class _RunOutline(Struct, frozen=True):
    """What decides whether a run can be archived."""

    ended: int | None
    """When it was closed, in microseconds since 1970; None if it is open."""
    sources: tuple[str, ...]
    """The runs that it reads while it goes on: its parent, and the one that it continues."""


class ArchiveService:
    """Archives the runs of one log."""

    def __init__(
        self,
        project: ProjectContext,
        publish: Callable[[], Publication],
        read_trust: "Callable[[], Trust]",
    ) -> None:
        self._project, self._publish = project, publish
        self._read_trust = read_trust
        self.unreachable: dict[str, errors.ArchiveUnreachable] = {}
        """The archives that could not be reached during an erasure, by run or place."""

    def archive_runs(self, before: int, place: str) -> ArchiveResult:
        """Archive the runs that ended before a time (microseconds since 1970), and return them.

        Raises `ArchiveUnreachable`, `BadSettings`, `NotYetSigned`.
        """
        from forum.stores.archive_stores import normalize_place, open_archive

        base = normalize_place(place)
        store = open_archive(base)
        self._publish()
        runs, needed = self._find_ended(before)
        archived: list[str] = []
        rejected: list[RejectedRun] = []
        for low in range(0, len(runs), _BATCH_RUNS):
            batch = runs[low : low + _BATCH_RUNS]
            # From these, lists and costs are read without the archive.
            RunLister(self._project).save_summaries(batch)
            copied = []
            for run in batch:
                try:
                    self._record_copy(run, store, base)
                    copied.append(run)
                except errors.Untrusted as error:
                    rejected.append(RejectedRun(run, str(error)))
            self._publish()
            for run in copied:
                try:
                    self._remove(run)
                    archived.append(run)
                except errors.Untrusted as error:
                    rejected.append(RejectedRun(run, str(error)))
        # A body may have been erased from the database after its run was copied.
        self._project.ledger.erase_redacted(self)
        return ArchiveResult(tuple(archived), tuple(needed), tuple(rejected))

    def _find_ended(self, before: int) -> tuple[list[str], list[str]]:
        """Return the runs that ended before a time: those to archive, and those still needed."""
        ended: list[str] = []
        open_runs: set[str] = set()
        sources: dict[str, tuple[str, ...]] = {}
        for run, outline in self._outline_runs():
            if outline.ended is None:
                open_runs.add(run)
            elif outline.ended < before:
                ended.append(run)
            if outline.sources:
                sources[run] = outline.sources
        needed: set[str] = set()
        waiting = list(open_runs)
        while waiting:
            # What an open run reads may in turn have been forked from another one.
            new = set(sources.get(waiting.pop(), ())) - needed
            needed |= new
            waiting += new
        # A child is read by its parent, which does not name it in its first entries.  A fork of an
        # open run stays as well, though that run does not need it.
        needed |= {run for run in ended if not open_runs.isdisjoint(sources.get(run, ()))}
        kept = [run for run in ended if run in needed]
        return [run for run in ended if run not in needed], kept

    def _outline_runs(self) -> Iterator[tuple[str, _RunOutline]]:
        """Yield the runs whose entries are in the database."""
        store, last = self._project.store, ""
        while page := store.unarchived_runs(last, _PAGE_RUNS):
            last = page[-1]
            for run in page:
                if run != LOG_RUN:
                    yield run, self._outline(run)

    def _outline(self, run: str) -> _RunOutline:
        store = self._project.store
        first = [KINDS.read(data) for data in store.entries_at(run, [(MAIN_STRAND, 1)]) if data]
        data = store.last_entry(run, MAIN_STRAND)
        last = KINDS.read(data) if data else None
        is_closed = last is not None and isinstance(last.facts, RunCloseFacts)
        return _RunOutline(
            ended=last.ts if last is not None and is_closed else None,
            sources=tuple(source for entry in first for source in _sources_of(entry)),
        )

    def _record_copy(
        self, run: str, store: "ArchiveStore", base: str, *, anew: bool = False
    ) -> None:
        """Write a verified copy of a run and record it, unless one is on record already.

        With `anew`, replace the one on record.  Raises `Untrusted` if the copy does not verify.
        """
        from forum.stores.archive_stores import copy_name, join_place

        ledger = self._project.ledger
        # Opened first: if another process records a copy meanwhile, this one is not recorded.
        strand = ledger.open_log_strand(archived_runs.archive_strand(run))
        if strand.length and not anew:
            return
        with self._project.open_reader() as reader:
            bundle = archived_runs.make_copy(reader, KINDS, run, self._project.policy)
            lengths = reader.strand_lengths(run)
        data = bundle.encode()
        name = copy_name(run, strand.length, data)
        store.write(name, data)
        # From here on only what the archive has counts, not what was sent to it.
        copy = store.read(name)
        self._check_copy(run, copy, lengths)
        facts = archived_runs.describe_copy(bundle, copy, join_place(base, name), KINDS)
        with suppress(errors.ConcurrentUpdate):
            strand.append_exclusive(self._draft(run, strand.length, facts))

    def _draft(self, run: str, number: int, facts: ArchiveFacts) -> Draft:
        last = self._project.store.last_entry(run, MAIN_STRAND) or b""
        return Draft(f"archive/{run}/{number}", OPERATOR, facts, (leaf_of(last),))

    def _check_copy(self, run: str, copy: bytes, lengths: dict[str, int]) -> None:
        """Raise `TamperDetected` unless a copy verifies and holds every entry of the run."""
        from forum.ledger.bundle import BundleReader
        from forum.ledger.span_files import NO_LIMIT
        from forum.verify import State, verify_bundle

        # This process has just written it: no stranger describes long bodies with it.
        trust = replace(self._read_trust(), max_bytes=NO_LIMIT)
        report = verify_bundle(copy, KINDS, trust)
        for claim in (report.intact, report.complete):
            if claim.state is not State.HOLDS:
                raise errors.TamperDetected(f"run {run}", claim.reason)
        reader = BundleReader(copy, max_bytes=NO_LIMIT)
        if archived_runs.BundledRun(reader, KINDS).lengths != lengths:
            raise errors.TamperDetected(f"run {run}", "not all of its entries are signed")

    def _remove(self, run: str) -> None:
        """Remove a run from the database that is in the archive on record.

        Raises `NotYetSigned`, `ArchiveUnreachable`, `TamperDetected`.
        """
        copy = self._read_signed_copy(run)
        if not self._covers(run, copy):
            # A body was erased since the copy was made.
            self._replace_copy(run)
            copy = self._read_signed_copy(run)
            if not self._covers(run, copy):
                raise errors.TamperDetected(f"run {run}", "the archive has something else")
        self._delete_other_copies(run)
        self._project.store.remove_archived(run, copy.lengths)

    def _replace_copy(self, run: str) -> None:
        """Record and sign a new copy of a run, in the archive that has the copy on record."""
        from forum.stores.archive_stores import open_archive, split_place

        record = archived_runs.read_archive_record(self._project.store, KINDS, run)
        if record is not None:
            base, _ = split_place(record.facts.place)
            self._record_copy(run, open_archive(base), base, anew=True)
            self._publish()

    def _read_signed_copy(self, run: str) -> archived_runs.BundledRun:
        """Return the copy on record, read anew.  Raises `NotYetSigned` if its entry is not."""
        store = self._project.store
        if not archived_runs.is_record_signed(store, run):
            raise errors.NotYetSigned(f"archive/{run}")
        copy = self._project.make_archive(store).find(run)
        if copy is None:
            raise errors.TamperDetected(f"run {run}", "its archive is not on record")
        return copy

    def _covers(self, run: str, copy: archived_runs.BundledRun) -> bool:
        """Return whether a copy holds exactly the entries and bodies of a run."""
        # One snapshot: another process may be removing the run at this moment.
        with self._project.open_reader() as reader:
            if copy.lengths != reader.strand_lengths(run):
                return False
            for position, data in reader.entries_of_run(run):
                if copy.entry(position.strand, position.n) != data:
                    return False
            return _list_bodies(reader.bodies_of_run(run)) == _list_bodies(copy.bodies())

    def _delete_other_copies(self, run: str) -> None:
        """Delete the copies of a run that are not the one on record, and never will be.

        A crash leaves such a copy, and a redaction has the one before it replaced.  A copy with a
        later number may be one that another process is about to record: it stays.
        """
        from forum.stores.archive_stores import (
            copy_folder,
            copy_number,
            open_archive,
            split_place,
        )

        store = self._project.store
        record = archived_runs.read_archive_record(store, KINDS, run)
        if record is None or not archived_runs.is_record_signed(store, run):
            return
        base, name = split_place(record.facts.place)
        archive = open_archive(base)
        for other in archive.list_folder(copy_folder(run)):
            number = copy_number(other)
            if other != name and number is not None and number <= record.n:
                archive.delete(other)

    def erase_body(self, position: ports.Position, name: str) -> bool:
        """Replace the copy of a run by one without this body; return whether it had the body.

        If the archive cannot be reached, this is noted in `unreachable`.
        """
        run = position.run
        try:
            copy = self._project.make_archive(self._project.store).find(run)
            if copy is None:
                return False
            held = copy.body(position.strand, position.n, name) is not None
            if held:
                # The old copy is deleted only after the new one is on record and signed: a crash
                # in between leaves both, and the next erasure deletes the old one.
                self._replace_copy(run)
                self._read_signed_copy(run)
            self._delete_other_copies(run)
        except errors.ArchiveUnreachable as error:
            self.unreachable[run] = error
            return False
        return held

    def skip(self, error: errors.ArchiveUnreachable) -> None:
        """Note that a redacted entry could not be looked up."""
        self.unreachable[error.place] = error


def _sources_of(entry: Entry[Any]) -> Iterator[str]:
    """Yield the runs that a run reads while it goes on."""
    match entry.facts:
        case AcceptedFacts() as facts:
            yield from filter(None, (facts.parent_run, facts.fork_run))
        case ReportSourceFacts() as facts:
            yield from filter(None, (facts.continues,))
        case _:
            return


def _list_bodies(
    bodies: Iterator[tuple[ports.Position, str, Any]],
) -> dict[tuple[ports.Position, str], str]:
    """Return the digest of each body with its salt."""
    return {
        (position, name): sha256(body.salt + b"".join(body.read())).hexdigest()
        for position, name, body in bodies
    }
