"""Runs of other programs: how they are listed, searched and read, and that erasure reaches all."""

import json
from pathlib import Path

import msgspec
import psycopg
import pytest

from forum.app import Forum, RunPage, RunQuery, new_run_id, open_bundle, run_list, run_search
from forum.config import Settings, load_settings
from forum.errors import TextNotFound
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome, RedactionReason
from forum.ledger.log import Ledger
from forum.ledger.ports import Position
from forum.ledger.strand import Attachment
from forum.runs.conversation.messages import ChatMessage, ChatRole, ModelExchange
from forum.runs.conversation.run_exchanges import read_exchanges
from forum.runs.conversation.run_steps import find_steps
from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import (
    Operation,
    ReportBeginFacts,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.reported_run import ReportedRunWriter
from forum.runs.run_summary import SUMMARY_VERSION
from forum.surfaces.schemas.transcripts import transcript_page
from tests.long_conversation import write_conversation
from tests.support import fresh_origin, upgraded
from tests.surfaces.terminal import Terminal

PROMPT, REPLY = "Where is the zanzibar vault?", "Below the quetzalcoatl fountain."
RELAYED = ReportSourceFacts(ReportProvenance.RELAYED, by="forum-run")


class RecordedLog:
    """One log in one of the databases, with an archive beside it."""

    def __init__(self, folder: Path, database: str | None) -> None:
        self.folder, self.database = folder, database
        self.archive = folder / "archive"
        data = folder / "data"
        self.settings = Settings(
            data, folder / "state", data / "log.key", origin=fresh_origin(), database=database
        )
        with self.open() as forum:
            forum.keys.initialise()

    def open(self) -> Forum:
        """Open the log as another process would."""
        return Forum(self.settings)

    def stored_bytes(self) -> bytes:
        """Return all that the database has, in files or in rows."""
        if self.database is None:
            return b"".join(p.read_bytes() for p in self.folder.rglob("*") if p.is_file())
        with psycopg.connect(self.database) as db:
            names = db.execute(
                "SELECT schemaname, tablename FROM pg_tables "
                "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            rows = b""
            for schema, table in names:
                # Binary, so that bytes are not shown in hexadecimal.
                with (
                    db.cursor() as cursor,
                    cursor.copy(
                        psycopg.sql.SQL(
                            "COPY (SELECT * FROM {}.{}) TO STDOUT (FORMAT binary)"
                        ).format(psycopg.sql.Identifier(schema), psycopg.sql.Identifier(table))
                    ) as copy,
                ):
                    rows += b"".join(bytes(part) for part in copy)
            return rows


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> RecordedLog:
    """Return a new log, in each database that we have."""
    url = upgraded(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None
    return RecordedLog(tmp_path, url)


def encode(name: str, value: object) -> Attachment:
    """Return a body as JSON."""
    return Attachment(name, BytesContent(json.dumps(value).encode()), "application/json")


def streamed(text: str) -> Attachment:
    """Return a reply of chat completions, streamed in pieces of three characters."""
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    chunks: list[object] = [{"choices": [{"index": 0, "delta": {"content": p}}]} for p in pieces]
    chunks.append({"model": "gpt-5", "choices": [{"delta": {}, "finish_reason": "stop"}]})
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return Attachment("output", BytesContent(stream.encode()), "text/event-stream")


def record(
    ledger: Ledger,
    prompt: str = PROMPT,
    reply: str = REPLY,
    option: str = "xylophone",
    *,
    closed: bool = True,
) -> str:
    """Record a run as `forum run` does: a program that calls a model once."""
    run = new_run_id()
    main = ledger.open_run(run, "operator", source_draft(run, "python", RELAYED), new=True)
    writer = ReportedRunWriter(ledger, run, main.head)
    root = writer.new_strand("program")
    program = ReportBeginFacts(Operation.STEP, "python", "program")
    command = encode("input", ["python", "agent.py", "--tune", option])
    root.append(writer.begin_draft(program, [command]))
    request = {"model": "gpt-5", "messages": [{"role": "user", "content": prompt}], "stream": True}
    call = ReportBeginFacts(
        Operation.MODEL, "gpt-5", "call", within="program", model="gpt-5", calls=1
    )
    strand, writer.cause = writer.new_strand("call"), root.head
    strand.append(writer.begin_draft(call, [encode("input", request)]))
    if closed:
        step = ReportStepFacts(
            op=Operation.MODEL,
            name="gpt-5",
            outcome=Outcome.OK,
            span="call",
            within="program",
            micros=250_000,
            model="gpt-5",
            input_tokens=41,
            output_tokens=12,
            usd=5000,
        )
        strand.append(writer.step_draft(step, [streamed(reply)], call))
        ended = ReportStepFacts(Operation.STEP, "python", Outcome.OK, "program")
        root.append(writer.step_draft(ended, (), program))
        ledger.close_run(main, "operator", Outcome.OK)
    return run


def search(forum: Forum, text: str) -> list[str]:
    """Return the runs that a search finds."""
    return [run.run for run in forum.reads.list_runs(RunQuery(text=text), None, 20).runs]


def test_a_recorded_run_is_listed_searched_and_read(recorded: RecordedLog) -> None:
    """By its command and first message, with its model and time; also while it goes on."""
    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            done, goes_on = record(ledger), record(ledger, "Name a river.", closed=False)
        forum.log.publish()
        newest, oldest = forum.reads.list_runs(RunQuery(), None, 20).runs
        page = transcript_page(forum.reads.read_run_record(done), 0, 50)
        rest = transcript_page(forum.reads.read_run_record(done), 1, 50)
        open_page = transcript_page(forum.reads.read_run_record(goes_on), 0, 1)
        view = forum.reads.view_run(done)

        assert (oldest.run, newest.run) == (done, goes_on)
        assert oldest.title == view.title == f"agent.py: {PROMPT}"
        assert newest.title == "agent.py: Name a river."
        assert (oldest.summary.models, newest.summary.models) == (("gpt-5",), ("gpt-5",))
        assert oldest.ended > oldest.summary.begun
        # Words of prompts, of streamed replies and of commands, in any case; no names of members.
        assert search(forum, "ZANZIBAR") == search(forum, "quetzalcoatl fountain") == [done]
        assert search(forum, "xylophone") == [goes_on, done]
        assert search(forum, "messages") == search(forum, "finish_reason") == []

    command, call = page.exchanges
    assert command.request == (ChatMessage(ChatRole.COMMAND, "python agent.py --tune xylophone"),)
    assert call.request == (ChatMessage(ChatRole.USER, PROMPT),)
    assert call.reply == (ChatMessage(ChatRole.ASSISTANT, REPLY),)
    assert (call.model, call.spent.usd, call.seconds) == ("gpt-5", "0.000005", 0.25)
    assert (page.next, rest.exchanges, open_page.next) == (None, (call,), 1)


def test_erasure_reaches_title_search_and_every_byte(recorded: RecordedLog) -> None:
    """Nothing that a list or a search has kept says what was erased."""
    # Other tests use the same database.
    secrets = [f"{word}-{fresh_origin()}" for word in ("prompt", "reply", "option")]
    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            run = record(ledger, *secrets)
        forum.log.publish()
        forum.reads.list_runs(RunQuery(text=secrets[0]), None, 20)  # which stores summaries
        assert secrets[0].encode() in recorded.stored_bytes()
        forum.log.redact(f"{run}/span/call/0", "input", RedactionReason.REQUEST)
        assert forum.reads.list_runs(RunQuery(), None, 1).runs[0].title == "agent.py"
        forum.log.redact(f"{run}/span/call/1", "output", RedactionReason.REQUEST)
        forum.log.redact(f"{run}/span/program/0", "input", RedactionReason.REQUEST)
        (listed,) = forum.reads.list_runs(RunQuery(), None, 1).runs
        page = transcript_page(forum.reads.read_run_record(run), 0, 50)

        assert (listed.title, listed.is_altered) == ("python", False)
        assert forum.reads.view_run(run).title == "python"
        assert [search(forum, word) for word in secrets] == [[], [], []]
        assert [(step.request, step.reply) for step in page.exchanges] == [((), ()), ((), ())]
    assert [word for word in secrets if word.encode() in recorded.stored_bytes()] == []


def record_talk(ledger: Ledger, said: list[str]) -> str:
    """Record a run whose program sends all that was said with every call; return the run.

    Calls and replies take turns in `said`.
    """
    run = new_run_id()
    main = ledger.open_run(run, "operator", source_draft(run, "python", RELAYED), new=True)
    writer = ReportedRunWriter(ledger, run, main.head)
    messages: list[dict[str, str]] = [{"role": "system", "content": "You are careful. " * 300}]
    for number, (asked, reply) in enumerate(zip(said[::2], said[1::2], strict=True)):
        messages.append({"role": "user", "content": asked})
        span = f"call-{number}"
        call = ReportBeginFacts(Operation.MODEL, "gpt-5", span, model="gpt-5", calls=1)
        strand = writer.new_strand(span)
        request = {"model": "gpt-5", "messages": messages, "tools": ["t" * 3000]}
        strand.append(writer.begin_draft(call, [encode("input", request)]))
        step = ReportStepFacts(
            op=Operation.MODEL, name="gpt-5", outcome=Outcome.OK, span=span, micros=1, model="gpt-5"
        )
        strand.append(writer.step_draft(step, [streamed(reply)], call))
        messages.append({"role": "assistant", "content": reply})
    ledger.close_run(main, "operator", Outcome.OK)
    return run


def rewritten_files(url: str) -> bytes:
    """Return the files of all tables and indexes of the schema, after VACUUM FULL."""
    with psycopg.connect(url, autocommit=True) as db:
        names = db.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'forum'::regnamespace"
        ).fetchall()
        for (name,) in names:
            db.execute(f"VACUUM FULL {name}".encode())
        db.execute("CHECKPOINT")
        rows = db.execute(
            "SELECT pg_read_binary_file(pg_relation_filepath(c.oid)) FROM pg_class c"
            " WHERE relkind IN ('r', 'i', 't') AND pg_relation_filepath(c.oid) IS NOT NULL"
            " AND (relnamespace = 'forum'::regnamespace OR relname LIKE 'pg_toast_%')"
        ).fetchall()
    return b"".join(bytes(row[0]) for row in rows)


def test_a_text_is_erased_wherever_its_run_has_it(recorded: RecordedLog) -> None:
    """In the prompt that said it first, in all later ones, and in the reply that repeated it."""
    kept = [f"kept-{number}-{fresh_origin()} " * 60 for number in range(8)]
    gone = f"gone-{fresh_origin()} her address is 7 Mill Lane"
    said = [*kept[:4], f"Remember this: {gone}", f"I shall: {gone}", *kept[4:]]
    if recorded.database is not None:
        # Compressed rows would hide a text from the search below.
        with psycopg.connect(recorded.database, autocommit=True) as db:
            for table, column in (("body", "data"), ("piece", "data"), ("entry", "bytes")):
                names = db.execute(
                    "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace ="
                    " 'forum'::regnamespace AND relname ~ %s",
                    (f"^{table}(_[0-9]+|_default)?$",),
                ).fetchall()
                for (name,) in names:
                    alter = f"ALTER TABLE forum.{name} ALTER {column} SET STORAGE EXTERNAL"
                    db.execute(alter.encode())
    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            run = record_talk(ledger, said)
        forum.log.publish()
        before = recorded.stored_bytes()
        result = forum.log.redact_text(f"{run}/span/call-2/0", "input", RedactionReason.REQUEST)
        report = forum.log.verify(forum.log.read_trust())
        texts = [
            forum.store.body(Position(run, f"span/call-{number}", 0), "input") is not None
            for number in range(5)
        ]

    assert gone.encode() in before
    assert {f"{at.strand}/{name}" for at, name in result.bodies} == {
        *(f"span/call-{number}/input" for number in (2, 3, 4)),
        "span/call-2/output",
    }
    assert result.erased == 4
    assert texts == [True, True, False, False, False]
    assert gone.encode() not in recorded.stored_bytes()
    if recorded.database is not None:
        files = rewritten_files(recorded.database)
        assert kept[1][:40].encode() in files
        assert gone.encode() not in files
    # What only the erased prompts repeated is kept where it was said.
    assert kept[0][:40].encode() in recorded.stored_bytes()
    assert report.ok
    assert not report.found


def test_a_text_that_stands_in_an_archive_is_erased_there(recorded: RecordedLog) -> None:
    """The copy is replaced by one without the bodies."""
    gone = f"gone-{fresh_origin()} her address is 7 Mill Lane"
    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            run = record_talk(ledger, ["hello " * 500, "yes", gone, "I see", "more " * 500, "yes"])
        forum.log.publish()
        forum.log.archive_runs(2**60, str(recorded.archive))
        copies = [p.read_bytes() for p in recorded.archive.rglob("*") if p.is_file()]
        result = forum.log.redact_text(f"{run}/span/call-1/0", "input", RedactionReason.REQUEST)

    assert any(gone.encode() in copy for copy in copies)
    assert len(result.bodies) == 2
    assert not any(
        gone.encode() in path.read_bytes() for path in recorded.folder.rglob("*") if path.is_file()
    )
    assert gone.encode() not in recorded.stored_bytes()


def test_a_text_that_an_earlier_body_said_is_not_looked_for(recorded: RecordedLog) -> None:
    """The command would erase everything that repeats it, without having been asked."""
    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            run = record_talk(ledger, ["hello " * 500, "yes", "hello " * 500, "yes"])
        forum.log.publish()
        with pytest.raises(TextNotFound, match="says all of it"):
            forum.log.redact_text(f"{run}/span/call-1/0", "input", RedactionReason.REQUEST)
        forum.log.redact(f"{run}/span/call-0/0", "input", RedactionReason.REQUEST)
        with pytest.raises(TextNotFound, match="not stored"):
            forum.log.redact_text(f"{run}/span/call-0/0", "input", RedactionReason.REQUEST)


def test_an_archived_run_is_listed_and_searched_as_before(recorded: RecordedLog) -> None:
    """Out of reach, it is listed by its name, and a search says that it was not searched."""
    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            run = record(ledger)
        forum.log.publish()
        forum.log.archive_runs(2**60, str(recorded.archive))
        (listed,) = forum.reads.list_runs(RunQuery(), None, 1).runs
        match = search(forum, "zanzibar")
    recorded.archive.rename(recorded.folder / "elsewhere")
    with recorded.open() as forum:
        (unreachable,) = forum.reads.list_runs(RunQuery(), None, 1).runs
        page = forum.reads.list_runs(RunQuery(text="zanzibar"), None, 1)

    assert (listed.title, match) == (f"agent.py: {PROMPT}", [run])
    assert unreachable.run == run
    assert (page.runs, page.unsearched) == ((), 1)


def test_a_search_says_what_it_has_not_searched(
    recorded: RecordedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that ends at the limit has a next one; a run that is too large is counted."""
    monkeypatch.setattr(run_list, "_SEARCHED_PAGE_SIZE", 2)
    monkeypatch.setattr(run_search, "MAX_SEARCHED_BYTES", 100)

    def read_page(forum: Forum, before: str | None) -> RunPage:
        return forum.reads.list_runs(RunQuery(text="zanzibar"), before, 20, max_scanned=1000)

    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            names = [record(ledger, PROMPT if n == 0 else f"River {n}?") for n in range(5)]
        forum.log.publish()
        pages = [read_page(forum, None)]
        while pages[-1].next is not None:
            pages.append(read_page(forum, pages[-1].next))
        monkeypatch.setattr(run_search, "MAX_RUN_BYTES", 50)
        # What is compared with its commitment and not searched costs, too.
        monkeypatch.setattr(run_search, "MAX_SEARCHED_BYTES", 150)
        large = read_page(forum, None)

    assert len(pages) > 2
    assert [run.run for page in pages for run in page.runs] == [names[0]]
    assert sum(page.unsearched for page in pages) == 0
    assert (large.runs, large.unsearched) == ((), 4)


def test_a_summary_of_an_older_release_is_replaced(recorded: RecordedLog) -> None:
    """Runs that were listed before an upgrade get their titles, too, and the log verifies."""
    with recorded.open() as forum:
        with forum.log.open_writer() as ledger:
            run = record(ledger)
        forum.log.publish()
        forum.reads.list_runs(RunQuery(), None, 1)
        row = forum.store.summaries([run])[run]
        old = msgspec.json.encode(msgspec.json.decode(row.data)[:17])
        keys = forum.write_keys
        assert keys is not None
        older = row._replace(version=1, data=old)
        forum.store.save_summaries([older._replace(tag=keys.tag_summary(*older[:4]))])
        (listed,) = forum.reads.list_runs(RunQuery(), None, 1).runs
        stored = forum.store.summaries([run])[run]
        report = forum.log.verify(forum.log.read_trust())

    assert (listed.title, listed.is_altered) == (f"agent.py: {PROMPT}", False)
    assert (stored, stored.version) == (row, SUMMARY_VERSION)
    assert not report.found


def test_a_long_conversation_reads_the_same_from_everywhere(
    recorded: RecordedLog, tmp_path: Path
) -> None:
    """From the database, page by page, from a bundle and from an archive; also without a part."""
    calls, erased = 30, 11
    with recorded.open() as forum:
        run = write_conversation(forum, calls)

        def read() -> list[ModelExchange]:
            record = forum.reads.read_run_record(run)
            return [read for _, read in read_exchanges(record, find_steps(record.entries))]

        whole = read()
        texts = [message.text for exchange in whole for message in exchange.messages]
        assert len(texts) == len(set(texts)) == 2 * calls
        assert [exchange.repeated for exchange in whole] == [2 * n for n in range(calls)]

        record = forum.reads.read_run_record(run)
        pages = [transcript_page(record, n, 7).exchanges for n in range(0, calls, 7)]
        paged = [exchange for page in pages for exchange in page]
        assert [(e.request, e.reply) for e in paged] == [(e.request, e.reply) for e in whole]
        bundle = tmp_path / "run.zip"
        bundle.write_bytes(forum.log.export(run))
        with open_bundle(bundle) as bundled:
            steps = find_steps(bundled.entries)
            assert [read for _, read in read_exchanges(bundled, steps)] == whole

        forum.log.redact(f"{run}/span/c{erased}/0", "input", RedactionReason.REQUEST)
        rest = read()
        assert rest[erased].request == ()
        assert rest[erased].reply == whole[erased].reply
        assert rest[erased + 2 :] == whole[erased + 2 :]
        shown = {message.text for exchange in rest for message in exchange.messages}
        assert shown == set(texts)  # what the next request still has is shown there
        assert search(forum, f"question {calls - 1}") == [run]
        assert search(forum, "question 999") == []

        forum.log.publish()
        forum.log.archive_runs(2**60, str(recorded.archive))
        assert read() == rest


def test_two_conversations_are_compared_by_message(tmp_path: Path) -> None:
    """The first message that is not the same, and not a line of JSON with all of them."""
    user = Terminal(tmp_path / "home")
    with Forum(load_settings(user.folder, user.environment)) as forum:
        forum.keys.initialise()
        first, second = write_conversation(forum, 4), write_conversation(forum, 4, changed=2)
    lines = user.call("diff", first, second).stdout.splitlines()
    at = lines.index("  input, message 5:")
    assert lines[at + 1].startswith("    - user: Question 2. word")
    assert lines[at + 2].startswith("    + user: Something 2. word")
    assert user.call("diff", first, first).exit_code == 0
