"""Runs that were moved to an archive: they read as before, and no crash loses or doubles any."""

import dataclasses
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from forum.app import Forum, RunQuery, log, new_salt, now
from forum.config import Settings
from forum.errors import (
    ArchiveUnreachable,
    BadSettings,
    NotYetSigned,
    PositionTaken,
    TamperDetected,
)
from forum.features.backup.service import create_backup, restore_backup
from forum.features.retention.service import RetentionOperations
from forum.ledger.archive import archive_strand, read_archive_record
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import NoteFacts, Outcome, RedactionReason
from forum.ledger.log import Ledger, locate_run
from forum.ledger.ports import EntryWrite, Position
from forum.ledger.strand import Attachment, Draft
from forum.runs.kinds import AcceptedFacts
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts
from forum.stores import archive_stores
from forum.stores.postgres import PostgresStore
from forum.tlog import Hash
from forum.verify import Report, State, Trust, verify_bundle
from tests.support import Stopped, fresh_origin, upgraded
from tests.surfaces.terminal import Terminal

NEVER = 2**60
"""A time after the end of every run."""
SECRET = "the launch code is 0000"  # noqa: S105  not one


class Installation:
    """One log, opened as often as processes would open it, and an archive beside it."""

    def __init__(self, folder: Path, database: str | None) -> None:
        data = folder / "data"
        self.archive = folder / "archive"
        self.settings = Settings(
            data, folder / "state", data / "log.key", origin=fresh_origin(), database=database
        )
        with self.open() as forum:
            forum.keys.initialise()

    def open(self) -> Forum:
        """Open the log as another process would."""
        return Forum(self.settings)

    def copies(self) -> list[Path]:
        """Return the files in the archive."""
        return sorted(path for path in self.archive.rglob("*") if path.is_file())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Installation]:
    """Return what makes a new log, in each database that we have."""
    numbers = count()
    url = upgraded(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None
    return lambda: Installation(tmp_path / str(next(numbers)), url)


def record(
    forum: Forum, run: str, *first: Draft, text: str = "text of", closed: bool = True
) -> str:
    """Record a run of three strands with bodies, and return its name."""
    ledger = forum.ledger

    def note(step: str, *parents: Hash) -> Draft:
        body = Attachment("text", text_content(f"{text} {run} {step}"), "text/plain")
        return Draft(step, actor="tester", facts=NoteFacts(), parents=parents, bodies=(body,))

    main = ledger.open_run(run, "tester", *first)
    (entry,) = main.append(note("begin"))
    for name in ("task/a", "task/b"):
        ledger.new_strand(run, name).append(note("one", entry.leaf), note("two"))
    if closed:
        ledger.close_run(main, "tester", Outcome.OK)
    return run


def content(forum: Forum, run: str) -> dict[object, object]:
    """Return all that can be read of a run."""
    store = forum.store
    bodies = {
        (position, name): (body.salt, b"".join(body.read()))
        for position, name, body in store.bodies_of_run(run)
    }
    for (position, name), (salt, data) in bodies.items():
        stored = store.body(position, name)
        assert stored is not None
        assert (stored.salt, b"".join(stored.read())) == (salt, data)
    with forum.open_reader() as reader:
        located = [(e.index, e.data) for e in locate_run(reader, forum.ledger.kinds, run)]
        by_index = [next(reader.entries(i, i + 1)) for i, _ in located if i is not None]
        by_id = [
            forum.ledger.find_entry(e.leaf.hex()).data
            for e in locate_run(reader, forum.ledger.kinds, run)
        ]
    assert by_index == by_id == [data for _, data in located]
    return {
        "entries": list(store.entries_of_run(run)),
        "located": located,
        "strands": {name: list(store.read_strand(run, name)) for name in store.strands(run)},
        "tails": {name: list(store.read_strand(run, name, 1)) for name in store.strands(run)},
        "last": {name: store.last_entry(run, name) for name in store.strands(run)},
        "at": store.entries_at(run, [("main", 0), ("task/a", 1), ("main", 99)]),
        "bodies": bodies,
    }


def verify(forum: Forum, jobs: int = 1) -> Report:
    """Verify the whole log."""
    return forum.log.verify(forum.log.read_trust(), jobs=jobs)


def stored_bytes(settings: Settings) -> tuple[int, int]:
    """Return the bytes of the entries of runs in the database, and the number of their bodies."""
    prefix, mark = ("forum.", "%s") if settings.database else ("", "?")
    queries = [
        f"SELECT {what} FROM {prefix}{table} AS row JOIN {prefix}strand ON strand.id = row.strand "  # noqa: S608
        f"JOIN {prefix}log ON log.id = strand.log WHERE log.origin = {mark} AND strand.run <> 'log'"
        for what, table in (("coalesce(sum(length(bytes)), 0)", "entry"), ("count(*)", "body"))
    ]
    if settings.database:
        with psycopg.connect(settings.database) as db:
            counts = [db.execute(query.encode(), (settings.origin,)) for query in queries]
            return int(counts[0].fetchall()[0][0]), int(counts[1].fetchall()[0][0])
    with closing(sqlite3.connect(settings.ledger_file)) as lite:
        first, second = [lite.execute(query, (settings.origin,)).fetchone()[0] for query in queries]
        return int(first), int(second)


def records_of(forum: Forum, run: str) -> int:
    """Count the entries that say where a run is archived."""
    return len(list(forum.store.read_strand(LOG_RUN, archive_strand(run))))


def test_an_archived_run_reads_as_before(make: Callable[[], Installation]) -> None:
    """By position, index and id, with its bodies; and nothing of it is left in the database."""
    home = make()
    with home.open() as forum:
        for run in ("one", "two"):
            record(forum, run)
        forum.log.publish()
        before = {run: content(forum, run) for run in ("one", "two")}
        result = forum.log.archive_runs(NEVER, str(home.archive))
        same = {run: content(forum, run) for run in ("one", "two")}
    with home.open() as forum:
        listed = {run.run for run in forum.reads.list_runs(RunQuery(), None, 10).runs}
        after = {run: content(forum, run) for run in ("one", "two")}
        reports = verify(forum), verify(forum)
        since = forum.log.verify_since_seen(forum.log.read_trust())
        bundle = forum.log.export("one")
        again = forum.log.archive_runs(NEVER, str(home.archive))
        checked = verify_bundle(bundle, forum.ledger.kinds, forum.log.read_trust())

    assert (set(result.archived), result.needed, result.rejected) == ({"one", "two"}, (), ())
    assert before == same == after
    assert listed >= {"one", "two"}
    assert [report.findings for report in (*reports, since[0])] == [()] * 3
    assert all(report.ok for report in reports)
    assert checked.ok
    assert again.archived == ()
    assert stored_bytes(home.settings) == (0, 0)
    assert len(home.copies()) == 2


def test_a_copy_alone_convinces_a_stranger(make: Callable[[], Installation]) -> None:
    """It is a bundle like any other, so it is of use when Forum and its database are gone."""
    home = make()
    with home.open() as forum:
        record(forum, "one")
        forum.log.archive_runs(NEVER, str(home.archive))
        policy, kinds = forum.policy, forum.ledger.kinds
    (copy,) = home.copies()

    assert verify_bundle(copy.read_bytes(), kinds, Trust(policy=policy)).ok


def test_only_what_ended_before_the_date_is_archived(make: Callable[[], Installation]) -> None:
    """And never the log's own run, which says where the others are."""
    home = make()
    with home.open() as forum:
        record(forum, "early")
        ended = forum.ledger.kinds.read(forum.store.last_entry("early", "main") or b"").ts
        record(forum, "late")
        record(forum, "open", closed=False)
        none = forum.log.archive_runs(ended, str(home.archive))
        archive_result = forum.log.archive_runs(ended + 1, str(home.archive))
        rest = forum.log.archive_runs(NEVER, str(home.archive))

    assert [result.archived for result in (none, archive_result, rest)] == [
        (),
        ("early",),
        ("late",),
    ]


@pytest.mark.parametrize(
    ("needed", "by"),
    [
        ("forked", AcceptedFacts(fork_run="forked")),
        ("continued", ReportSourceFacts(ReportProvenance.WRAPPED, "me", continues="continued")),
    ],
)
def test_what_an_open_run_reads_stays(
    make: Callable[[], Installation], needed: str, by: AcceptedFacts | ReportSourceFacts
) -> None:
    """An archive may be away when a worker needs it."""
    home = make()
    with home.open() as forum:
        record(forum, needed)
        record(forum, "reader", Draft("accepted", "tester", by), closed=False)
        kept = forum.log.archive_runs(NEVER, str(home.archive))
        forum.ledger.close_run(
            forum.ledger.open_strand_at_end("reader", "main"), "tester", Outcome.OK
        )
        after = forum.log.archive_runs(NEVER, str(home.archive))

    assert (kept.archived, kept.needed) == ((), (needed,))
    assert set(after.archived) == {needed, "reader"}


def test_a_child_stays_as_long_as_its_parent_is_open(make: Callable[[], Installation]) -> None:
    """Its parent reads its answer, and the run that its parent was forked from."""
    home = make()
    with home.open() as forum:
        accepted = Draft("accepted", "tester", AcceptedFacts(fork_run="origin"))
        record(forum, "origin")
        record(forum, "parent", accepted, closed=False)
        record(forum, "child", Draft("accepted", "tester", AcceptedFacts(parent_run="parent")))
        result = forum.log.archive_runs(NEVER, str(home.archive))

    assert (result.archived, set(result.needed)) == ((), {"child", "origin"})


def test_a_position_stays_taken(make: Callable[[], Installation]) -> None:
    """A worker that was asleep all the while must not add to a run that is long closed."""
    home = make()
    with home.open() as forum:
        record(forum, "one")
        rows = [(p, data) for p, data in forum.store.entries_of_run("one")]
        forum.log.archive_runs(NEVER, str(home.archive))
        for position, data in rows:
            late = EntryWrite(position, data, sha256(data).digest(), tag=b"late")  # type: ignore[arg-type]
            with pytest.raises(PositionTaken):
                forum.store.append([late])


def test_an_archive_that_is_away_is_named(make: Callable[[], Installation]) -> None:
    """What is not in it is read as before, lists too; and nothing is said to be complete."""
    home = make()
    with home.open() as forum:
        record(forum, "gone")
        forum.log.archive_runs(NEVER, str(home.archive))
        record(forum, "here")
        forum.log.publish()
        home.archive.rename(home.archive.with_name("elsewhere"))
    with home.open() as forum:
        (copy,) = home.archive.with_name("elsewhere").rglob("*.zip")
        for read in (
            lambda: list(forum.store.read_strand("gone", "main")),
            lambda: forum.store.last_entry("gone", "main"),
            lambda: forum.store.body(Position("gone", "main", 1), "text"),
            lambda: forum.log.export("gone"),
            lambda: forum.reads.read_run("gone"),
        ):
            with pytest.raises(ArchiveUnreachable, match=copy.name) as raised:
                read()
            assert "Make it available at this place" in str(raised.value)
        report = verify(forum)
        listed = [run.run for run in forum.reads.list_runs(RunQuery(), None, 10).runs]
        here = content(forum, "here")
        home.archive.with_name("elsewhere").rename(home.archive)
        back = verify(forum)

    assert (report.complete.state, report.intact.state) == (State.NOT_CHECKED, State.HOLDS)
    assert (report.findings, report.ok) == ((), False)
    assert any("run gone" in line for line in report.not_checked)
    assert {"gone", "here"} <= set(listed)
    assert here["entries"]
    assert back.ok


def test_a_copy_that_was_altered_is_not_used(make: Callable[[], Installation]) -> None:
    """Whoever owns the archive can lose a run, and cannot change it."""
    home = make()
    with home.open() as forum:
        record(forum, "one")
        forum.log.archive_runs(NEVER, str(home.archive))
        (copy,) = home.copies()
        copy.write_bytes(copy.read_bytes().replace(b"text of one", b"TEXT OF ONE"))
    with home.open() as forum:
        with pytest.raises(TamperDetected, match="digest"):
            list(forum.store.read_strand("one", "main"))
        report = verify(forum)

    assert {finding.problem.value for finding in report.findings} >= {"entry-missing"}


def test_entries_that_were_emptied_without_a_record_are_missing(
    make: Callable[[], Installation],
) -> None:
    """Whoever owns the database cannot call a theft an archive."""
    home = make()
    with home.open() as forum:
        record(forum, "one")
        forum.log.publish()
        forum.store.remove_archived("one", forum.store.strand_lengths("one"))
        with pytest.raises(TamperDetected):
            list(forum.store.read_strand("one", "main"))
        report = verify(forum)

    assert "entry-missing" in {finding.problem.value for finding in report.findings}


def test_segments_with_archived_runs_are_checked_with_their_archive(
    make: Callable[[], Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that check segments do not reach archives, so the first one does it."""
    monkeypatch.setattr(log, "_MIN_PARALLEL_ENTRIES", 1)
    home = make()
    with home.open() as forum:
        record(forum, "one")
        forum.log.archive_runs(NEVER, str(home.archive))
        record(forum, "two")
        forum.log.publish()
        report = verify(forum, jobs=2)

    assert (report.ok, report.findings) == (True, ())


class Points:
    """The places at which a process can be killed: after each of its effects."""

    def __init__(self, stop_at: int) -> None:
        self.left = stop_at

    def reach(self) -> None:
        """Pass a place, or be killed there."""
        self.left -= 1
        if self.left == -1:
            raise Stopped


@contextmanager
def killed_at(forum: Forum, points: Points) -> Iterator[None]:
    """Have a process killed at one of the effects that it has on database and archive."""
    transaction, append = forum.store._write_transaction, forum.store.append  # type: ignore[attr-defined]  # noqa: SLF001
    opened = archive_stores.open_archive

    @contextmanager
    def surrounded(doing: str) -> Iterator[Any]:
        with transaction(doing) as execute:
            yield execute
        points.reach()

    def append_and_reach(records: Sequence[EntryWrite]) -> None:
        append(records)
        if isinstance(forum.store, PostgresStore):  # the other one appends in a transaction
            points.reach()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_stores, "open_archive", lambda base: Surrounded(opened(base), points))
        patch.setattr(forum.store, "_write_transaction", surrounded)
        writer_context = replace(forum.ledger.writer, append=append_and_reach)
        patch.setattr(forum.ledger, "writer", writer_context)
        yield


class Surrounded:
    """An archive with places to be killed at."""

    def __init__(self, archive: archive_stores.ArchiveStore, points: Points) -> None:
        self._archive, self._points = archive, points

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any call of an archive
        effect = getattr(self._archive, name)

        def surrounded(*arguments: object, **named: object) -> object:
            result = effect(*arguments, **named)
            self._points.reach()
            return result

        return surrounded


PARTS = 4
"""The crash tables are divided, so that their parts can be checked at the same time."""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_any_step_loses_and_doubles_nothing(
    make: Callable[[], Installation], part: int
) -> None:
    """What was killed is run again; before and after that, everything is there, once."""
    killed = 0
    for stop_at in count(part, PARTS):
        home = make()
        with home.open() as forum:
            for run in ("one", "two"):
                record(forum, run)
            forum.log.publish()
            before = {run: content(forum, run) for run in ("one", "two")}
            points = Points(stop_at)
            try:
                with killed_at(forum, points):
                    forum.log.archive_runs(NEVER, str(home.archive))
            except Stopped:
                killed += 1
        with home.open() as forum:
            torn = {run: content(forum, run) for run in ("one", "two")}
            torn_report = verify(forum)
            forum.log.archive_runs(NEVER, str(home.archive))
            healed = {run: content(forum, run) for run in ("one", "two")}
            report = verify(forum)
            counts = [records_of(forum, run) for run in ("one", "two")]

        assert torn == healed == before, stop_at
        assert (torn_report.findings, report.findings) == ((), ()), stop_at
        assert counts == [1, 1], stop_at
        assert len(home.copies()) == 2, stop_at
        assert stored_bytes(home.settings) == (0, 0), stop_at
        if points.left >= 0:
            break
    assert killed > 3


def redact(forum: Forum, run: str) -> None:
    """Erase the text of a run."""
    forum.log.redact(f"{run}/main/1", "text", RedactionReason.REQUEST)


def holds_secret(home: Installation) -> bool:
    """Return whether any copy has the text that was erased."""
    return any(f"{SECRET} one begin".encode() in copy.read_bytes() for copy in home.copies())


def test_a_redaction_replaces_the_copy(make: Callable[[], Installation]) -> None:
    """The text is in no file of the archive any more, and the rest of the run is."""
    home = make()
    with home.open() as forum:
        record(forum, "one", text=SECRET)
        record(forum, "two")
        forum.log.archive_runs(NEVER, str(home.archive))
        held, other = holds_secret(home), content(forum, "two")
        redact(forum, "one")
        after = holds_secret(home)
        report = verify(forum)
        erased = forum.store.body(Position("one", "main", 1), "text")
        kept = forum.store.body(Position("one", "task/a", 0), "text")
        entries = len(list(forum.store.entries_of_run("one")))
        again = forum.log.archive_runs(NEVER, str(home.archive))

        assert (held, after, erased) == (True, False, None)
        assert kept is not None
        assert (report.ok, report.bodies.redacted, entries) == (True, 1, 7)
        assert (records_of(forum, "one"), records_of(forum, "two")) == (2, 1)
        assert content(forum, "two") == other
        assert again.archived == ()
    assert len(home.copies()) == 2


@pytest.mark.parametrize("part", range(PARTS))
def test_a_redaction_that_is_killed_is_completed(
    make: Callable[[], Installation], part: int
) -> None:
    """The next redaction or archive erases the text, wherever the first one was killed."""
    killed = 0
    for stop_at in count(part, PARTS):
        home = make()
        with home.open() as forum:
            record(forum, "one", text=SECRET)
            forum.log.archive_runs(NEVER, str(home.archive))
            points = Points(stop_at)
            try:
                with killed_at(forum, points):
                    redact(forum, "one")
            except Stopped:
                killed += 1
        with home.open() as forum:
            torn = verify(forum)
            redact(forum, "one")
            report = verify(forum)

        assert (torn.findings, report.findings) == ((), ()), stop_at
        assert not holds_secret(home), stop_at
        assert len(home.copies()) == 1, stop_at
        if points.left >= 0:
            break
    assert killed > 1


def test_a_redaction_between_copy_and_removal_reaches_the_copy(
    make: Callable[[], Installation],
) -> None:
    """The run is in both places then, and the text is erased from both."""
    home = make()
    with home.open() as forum:
        record(forum, "one", text=SECRET)
        forum.log.publish()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forum.store, "remove_archived", lambda *_, **__: Points(0).reach())
            with pytest.raises(Stopped):
                forum.log.archive_runs(NEVER, str(home.archive))
        held = holds_secret(home)
        redact(forum, "one")
        erased = not holds_secret(home)
        result = forum.log.archive_runs(NEVER, str(home.archive))
        report = verify(forum)

    assert (held, erased, result.archived) == (True, True, ("one",))
    assert report.ok


def test_retention_reaches_the_copies(make: Callable[[], Installation]) -> None:
    """A rule erases the text from the archive, too; while that is away, the log goes on."""
    home = make()
    with home.open() as forum:
        record(forum, "one", text=SECRET)
        forum.log.archive_runs(NEVER, str(home.archive))
        RetentionOperations(forum).set_rule("*", 1)
        time.sleep(1.1)
        away = home.archive.rename(home.archive.with_name("away"))
        step = forum.log._make_retention_step()  # noqa: SLF001  what the publisher does
        with pytest.raises(ArchiveUnreachable):
            RetentionOperations(forum).apply_rules()
        with pytest.warns(RuntimeWarning, match="cannot be reached"):
            is_done = step()
        away.rename(home.archive)
        held = holds_secret(home)
        result = RetentionOperations(forum).apply_rules()
        report = verify(forum)

        assert (is_done, held, holds_secret(home)) == (True, True, False)
        assert result.erased == result.redacted > 0
        assert (report.ok, report.bodies.redacted) == (True, result.redacted)


def test_a_hold_keeps_the_text_in_the_copy(make: Callable[[], Installation]) -> None:
    """Also if the redaction is on record before the hold, and the run is archived after it."""
    home = make()
    with home.open() as forum:
        record(forum, "one", text=SECRET)
        forum.log.publish()
        RetentionOperations(forum).set_rule("*", 1)
        time.sleep(1.1)
        recorded = forum.log.make_retention_scan().step().redacted
        RetentionOperations(forum).place_hold("suit", ("one",))
        forum.log.archive_runs(NEVER, str(home.archive))
        first = (RetentionOperations(forum).apply_rules().erased, holds_secret(home))
        RetentionOperations(forum).release_hold("suit")
        second = (RetentionOperations(forum).apply_rules().erased, holds_secret(home))

        assert first == (0, True)
        assert second == (recorded, False)
        assert verify(forum).ok


def test_a_redaction_of_another_run_does_not_need_the_archive(
    make: Callable[[], Installation],
) -> None:
    """An archive that is away for good must not stand in the way of an erasure elsewhere."""
    home = make()
    with home.open() as forum:
        record(forum, "one")
        record(forum, "two", closed=True)
        redact(forum, "one")
        forum.log.archive_runs(1 << 52, str(home.archive))
        record(forum, "here")
    home.archive.rename(home.archive.with_name("elsewhere"))
    warned: list[str] = []
    with Forum(home.settings, warned.append) as forum:
        redact(forum, "here")
        gone = forum.store.body(Position("here", "main", 1), "text")

    assert gone is None
    assert any("cannot be reached" in line for line in warned)


def test_a_record_names_what_it_is_about(make: Callable[[], Installation]) -> None:
    """Whoever finds a copy can tell from the log alone whether it is the one."""
    home = make()
    with home.open() as forum:
        record(forum, "one")
        forum.log.archive_runs(NEVER, str(home.archive))
        entry = read_archive_record(forum.store, forum.ledger.kinds, "one")
        indexes = [e.index for e in locate_run(forum.store, forum.ledger.kinds, "one")]
    (copy,) = home.copies()
    assert entry is not None
    facts = entry.facts

    assert (facts.run, facts.place) == ("one", str(copy))
    assert (facts.entries, facts.first, facts.last) == (
        len(indexes),
        min(i for i in indexes if i is not None),
        max(i for i in indexes if i is not None),
    )
    assert facts.digest == sha256(copy.read_bytes()).hexdigest()


def test_a_writer_cannot_move_a_copy(make: Callable[[], Installation]) -> None:
    """With the write key and the database it could name a copy of its own, of a held run too."""
    home = make()
    with home.open() as forum:
        record(forum, "one")
        forum.log.archive_runs(NEVER, str(home.archive))
        before = read_archive_record(forum.store, forum.ledger.kinds, "one")
        assert before is not None
        writer = Ledger(forum.store, forum.ledger.kinds, now, new_salt, tags=forum.write_keys)
        moved = replace(before.facts, place="s3://elsewhere/1-0.zip", digest="0" * 64)
        writer.append_log_entry(Draft("archive/one/1", "operator", moved), archive_strand("one"))
        forum.log.publish()

        assert forum.store.count_quarantined() == 1
        assert read_archive_record(forum.store, forum.ledger.kinds, "one") == before
        assert list(forum.store.bodies_of_run("one"))


@pytest.mark.parametrize(
    "place", ["s3://key:secret@bucket/x", "ftp://host/x", "s3://bucket/x?token=1", "http://host/x"]
)
def test_a_place_with_credentials_or_of_no_known_kind_is_refused(place: str) -> None:
    """It is recorded for ever, for everybody to read."""
    with pytest.raises(BadSettings):
        archive_stores.normalize_place(place)


def test_two_archivers_at_once_archive_each_run_once(make: Callable[[], Installation]) -> None:
    """The position in the log decides whose copy counts, and the other one is deleted."""
    home = make()
    runs = [f"run-{number}" for number in range(4)]
    with home.open() as forum:
        for run in runs:
            record(forum, run)
        forum.log.publish()
        before = {run: content(forum, run) for run in runs}

    def archive(_: int) -> None:
        # Whoever is overtaken may find that the other one has deleted its copy.
        overtaken = suppress(ArchiveUnreachable, NotYetSigned, TamperDetected)
        with home.open() as own, overtaken:
            own.log.archive_runs(NEVER, str(home.archive))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(archive, range(2)))
    with home.open() as forum:
        forum.log.archive_runs(NEVER, str(home.archive))
        report = verify(forum)
        counts = [records_of(forum, run) for run in runs]
        after = {run: content(forum, run) for run in runs}

    assert after == before
    assert counts == [1] * 4
    assert report.findings == ()
    assert len(home.copies()) == 4
    assert stored_bytes(home.settings) == (0, 0)


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    """And an archive that is away is an error with a remedy, not a run without a text."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    run = str(terminal.note("paid 40 EUR")["run"])
    place = tmp_path / "archive"
    early = terminal.ask("ledger", "archive", "--before", "1d", "--to", str(place))
    done = terminal.ask("ledger", "archive", "--before", "2199-01-01", "--to", str(place))
    shown = terminal.call("ledger", "get", f"{run}/main/1", "--body", "text")
    verified = terminal.call("ledger", "verify")
    place.rename(tmp_path / "elsewhere")
    missing = terminal.type("ledger", "get", f"{run}/main/1", "--body", "text")
    listed = terminal.call("runs")
    wrong = terminal.call("ledger", "archive", "--before", "soon", "--to", str(place))

    assert (early["archived"], done["archived"], done["rejected"]) == ([], [run], [])
    assert (shown.stdout, verified.exit_code) == ("paid 40 EUR", 0)
    assert missing.returncode == 1
    assert "Make it available at this place" in missing.stderr
    assert run[:13] in listed.stdout
    assert (wrong.exit_code, "--before" in wrong.stderr) == (2, True)


def test_a_backup_of_a_log_with_archived_runs_is_restored(tmp_path: Path) -> None:
    """The archive is not part of it, and is asked when the copy is verified."""
    home = Installation(tmp_path / "old", None)
    with home.open() as forum:
        record(forum, "one")
        forum.log.publish()
        before = content(forum, "one")
        forum.log.archive_runs(NEVER, str(home.archive))
        create_backup(forum, tmp_path / "backup")
    folder = tmp_path / "new"
    new = dataclasses.replace(home.settings, data=folder, key_file=folder / "log.key")
    restore_backup(new, tmp_path / "backup")
    with Forum(new) as forum:
        after, report = content(forum, "one"), verify(forum)

    assert after == before
    assert report.findings == ()


@pytest.mark.slow
def test_a_driven_run_is_shown_replayed_forked_and_exported_from_the_archive(
    tmp_path: Path,
) -> None:
    """Whatever is done with ended runs does not ask where their entries are."""
    terminal = Terminal(tmp_path)
    assert terminal.type("init").returncode == 0
    assert terminal.type("submit", "Say hi", "--cmd", "cat").stdout == "Say hi\n"
    (listed,) = terminal.ask("runs")["runs"]
    run = listed["run"]
    before = terminal.ask("show", run)
    costs = terminal.ask("runs")["runs"][0]
    terminal.ask("ledger", "archive", "--before", "2199-01-01", "--to", str(tmp_path / "archive"))
    entries = terminal.ask("ledger", "show", run)["entries"]
    bundle = tmp_path / "run.zip"
    exported = terminal.type("ledger", "export", run, "--output", str(bundle))
    commands = {
        "replay": terminal.type("replay", run),
        "fork": terminal.type("fork", run, "--at", str(entries[-1]["index"])),
        "cancel": terminal.type("cancel", run),
        "verify bundle": terminal.type("verify", str(bundle), "--policy", str(terminal.policy)),
        "verify": terminal.type("ledger", "verify"),
    }

    assert exported.returncode == 0
    assert len(entries) == 9
    assert {name: done.returncode for name, done in commands.items()} == {
        "replay": 0,
        "fork": 0,
        "cancel": 1,  # it has ended
        "verify bundle": 0,
        "verify": 0,
    }, {name: done.stderr for name, done in commands.items()}
    assert terminal.ask("show", run) == before
    assert [r for r in terminal.ask("runs")["runs"] if r["run"] == run] == [costs]
