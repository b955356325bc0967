"""Bodies that repeat each other: what every store promises of them, in each database.

Each body comes back as it was, whatever it shares with others of its run, whichever process wrote
those, and whatever was erased meanwhile; and what is erased is gone unless another body has it.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, cast

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forum.errors import BackupRejected
from forum.ledger.body import BytesContent
from forum.ledger.ports import EntryWrite, Position, Store
from forum.ledger.sequencer import Sequencer
from forum.ledger.span_files import MAX_LISTED_BYTES
from forum.ledger.spans import ByteSpan, encode_spans
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_backup import copy_rows, restore_rows
from forum.stores.postgres_move import LogMover
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.sql_pieces import MIN_BODY_BYTES
from tests.soak.cluster import scratch_database
from tests.support import Chain, StoreFactory, upgraded

SYSTEM = b"You are a careful assistant. " * 200
TOOLS = b'],"tools":["' + b"a tool with a long description, " * 100 + b'"]}'


def text(random: Random, size: int) -> bytes:
    """Return words that no other text has."""
    return random.randbytes(size // 2).hex().encode()


def conversation(random: Random, calls: int, size: int) -> Iterator[bytes]:
    """Yield the prompts of an agent that sends its whole conversation with every call."""
    said = SYSTEM
    for _ in range(calls):
        said += b',{"role":"tool","content":"' + text(random, size) + b'"}'
        yield said + TOOLS


def write(store: Store, chain: Chain, *contents: bytes) -> list[EntryWrite]:
    """Append an entry for each content, each in a commit of its own."""
    records = [chain.next(text=BytesContent(content)) for content in contents]
    for record in records:
        store.append([record])
    return records


def read(store: Store, position: Position) -> bytes | None:
    """Return a body, or None if it is not stored."""
    body = store.body(position, "text")
    return None if body is None else b"".join(body.read())


def assert_stored(store: Store, records: Sequence[EntryWrite]) -> None:
    """Check that the bodies of these entries, and no others, are there, by every way to read."""
    contents = [b"".join(record.bodies[0].content.chunks()) for record in records]
    places = [(record.position, "text") for record in records]
    at_once = store.bodies_at(places)
    of_run = {
        position: b"".join(body.read())
        for position, _, body in store.bodies_of_run(records[0].position.run)
    }

    assert [read(store, record.position) for record in records] == contents
    assert [body and b"".join(body.read()) for body in at_once] == contents
    assert [
        body and body.matches(record.bodies[0].commitment())
        for body, record in zip(at_once, records, strict=True)
    ] == [True] * len(records)
    assert of_run == {
        record.position: content for record, content in zip(records, contents, strict=True)
    }


@contextmanager
def rows_of(factory: StoreFactory) -> Iterator[Callable[..., Any]]:
    """Yield what runs SQL on the rows of one log.

    In a query, `{s}` is the schema, `{mine}` selects the rows, and `{value}` is a parameter.
    """
    log = f"SELECT id FROM {{s}}log WHERE origin = '{factory.origin}'"  # noqa: S608  a test's own
    if isinstance(factory.place, Path):
        names = {"s": "", "value": "?", "log": ""}
        connection = cast("Any", sqlite3.connect(factory.place))
    else:
        names = {"s": "forum.", "value": "%s", "log": ", log"}
        connection = psycopg.connect(factory.place)
    mine = f"strand IN (SELECT id FROM {{s}}strand WHERE log = ({log}))".format(**names)  # noqa: S608
    with closing(connection) as db:
        yield lambda query, *values: db.execute(query.format(mine=mine, **names), values)
        db.commit()


def stored_pieces(factory: StoreFactory) -> bytes:
    """Return all bytes of pieces of the log."""
    with rows_of(factory) as run:
        return b"".join(row[0] for row in run("SELECT data FROM {s}piece WHERE {mine}").fetchall())


def stored_list_bytes(factory: StoreFactory) -> int:
    """Return the number of bytes of the lists of spans of the log."""
    with rows_of(factory) as run:
        return sum(
            len(row[0]) + 24
            for row in run("SELECT spans FROM {s}span_list WHERE {mine}").fetchall()
        )


@pytest.mark.parametrize("calls", [100])
def test_what_is_said_once_is_stored_once(store_factory: StoreFactory, calls: int) -> None:
    """A hundred prompts of a growing conversation cost what was said, and little more."""
    random, store = Random(1), store_factory()
    chain = Chain(store_factory.origin)
    prompts = list(conversation(random, calls, 3000))
    records = write(store, chain, *prompts)
    said = len(prompts[-1])
    stored = len(stored_pieces(store_factory)) + stored_list_bytes(store_factory)

    assert_stored(store_factory(), records)
    assert stored <= 1.1 * said
    assert sum(map(len, prompts)) > 40 * said


def test_conversations_that_take_turns_do_not_spoil_each_other(store_factory: StoreFactory) -> None:
    """Sub-agents begin with the same words and answer in turns, in strands of their own."""
    random, store = Random(2), store_factory()
    chains = [Chain(store_factory.origin, strand=name) for name in ("main", "task/a", "task/b")]
    talks = [list(conversation(random, 20, 2000)) for _ in chains]
    records = [
        write(store, chain, talk[turn])[0]
        for turn in range(20)
        for chain, talk in zip(chains, talks, strict=True)
    ]
    stored = len(stored_pieces(store_factory)) + stored_list_bytes(store_factory)

    assert_stored(store_factory(), records)
    assert stored <= 1.15 * sum(len(talk[-1]) for talk in talks)


def test_results_of_many_tools_displace_no_prompt(store_factory: StoreFactory) -> None:
    """A turn with a dozen results costs what they are, and the prompt repeats most of them."""
    random, store = Random(12), store_factory()
    chain, prompt = Chain(store_factory.origin), SYSTEM

    for _ in range(10):
        results = [text(random, 3000) for _ in range(12)]
        for result in results:
            write_named(store, chain, result=result)
        prompt += b"".join(results)
        write_named(store, chain, prompt=prompt + TOOLS)

    assert len(stored_pieces(store_factory)) <= 1.4 * len(prompt)


@pytest.mark.parametrize("size", [600, 3000])
def test_a_result_and_the_prompt_that_repeats_it_are_stored_once(
    store_factory: StoreFactory, size: int
) -> None:
    """Whichever is erased, the other is whole; and what neither has is gone."""
    random, store = Random(13), store_factory()
    chain, prompt = Chain(store_factory.origin), SYSTEM
    offers = b"an offer of a tool, " * 30
    results, prompts = [], []
    for turn in range(20):
        content = text(random, size)
        results.append(write_named(store, chain, result=content))
        write_named(store, chain, offers=offers)
        prompt += b"--- begin %d" % turn + content + b"--- end"
        prompts.append(write_named(store, chain, prompt=prompt))
    last = prompts.pop()

    assert len(stored_pieces(store_factory)) <= 1.02 * len(prompt + offers)
    store.erase_bodies([(record.position, "result") for record in results])
    store.erase_bodies([(record.position, "prompt") for record in prompts])
    body = store_factory().body(last.position, "prompt")
    assert body
    assert b"".join(body.read()) == prompt
    store.erase_bodies([(last.position, "prompt")])
    assert stored_pieces(store_factory) == offers


def write_named(store: Store, chain: Chain, **bodies: bytes) -> EntryWrite:
    """Append an entry with one body of this name."""
    ((name, content),) = bodies.items()
    record = chain.next(text=BytesContent(content))
    record = record._replace(bodies=(replace(record.bodies[0], name=name),))
    store.append([record])
    return record


@pytest.mark.parametrize("each_anew", [False, True], ids=["one process", "a process for each"])
def test_a_process_that_takes_over_shares_with_what_another_wrote(
    store_factory: StoreFactory, *, each_anew: bool
) -> None:
    """It reads the last bodies of the run before it writes its first."""
    random, chain = Random(3), Chain(store_factory.origin)
    prompts = list(conversation(random, 8, 4000))
    store = store_factory()
    records: list[EntryWrite] = []
    for prompt in prompts:
        store = store_factory() if each_anew else store
        records += write(store, chain, prompt)

    assert_stored(store_factory(), records)
    assert len(stored_pieces(store_factory)) <= 1.02 * len(prompts[-1])


def test_a_run_without_a_frame_and_bodies_beyond_the_limits_are_stored_whole(
    store_factory: StoreFactory,
) -> None:
    """Nothing, one byte, the least and the greatest that is compared, more, and 64 MB."""
    random, store = Random(4), store_factory()
    chain, other = Chain(store_factory.origin), Chain(store_factory.origin, "x", "task/a")
    large = text(random, MAX_LISTED_BYTES)
    sizes = [0, 1, MIN_BODY_BYTES - 1, MIN_BODY_BYTES, MAX_LISTED_BYTES]
    records = write(store, chain, *(large[:size] for size in sizes), large + b"!", large * 4)

    assert_stored(store_factory(), records)
    assert len(stored_pieces(store_factory)) <= MAX_LISTED_BYTES
    assert_stored(store, write(store, other, large[:5000], large[:5000]))


def edits(random: Random, content: bytes) -> bytes:
    """Return a body that shares something with another: or nothing."""
    at = random.randrange(len(content) + 1)
    return random.choice(
        [
            content,
            content + text(random, 3000),
            text(random, 2500) + content,
            content[:at] + text(random, 700) + content[at:],
            content[:at] + text(random, 4000),
            content[at:] + content[:at],
            text(random, 4000),
        ]
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_bodies_come_back_whatever_is_written_and_erased(
    store_factory: StoreFactory, seed: int
) -> None:
    """By processes in turns, in strands of one run; and what only the erased had is gone."""
    random, factory = Random(seed), store_factory.beside()
    stores = [factory(), factory()]
    chains = [Chain(factory.origin, strand=name) for name in ("main", "task/a")]
    records: list[EntryWrite] = []
    contents: list[bytes] = [SYSTEM]
    for _ in range(20):
        if records and random.random() < 0.25:
            gone = random.sample(range(len(records)), min(len(records), random.randrange(1, 3)))
            random.choice(stores).erase_bodies([(records[at].position, "text") for at in gone])
            records = [record for at, record in enumerate(records) if at not in gone]
        content = edits(random, random.choice(contents[-4:]))[:60_000]
        contents.append(content)
        records += write(random.choice(stores), random.choice(chains), content)

    assert_stored(factory(), records)
    kept = b"\0".join(b"".join(record.bodies[0].content.chunks()) for record in records)
    pieces = stored_pieces(factory)
    # Trimmed parts meet each other: a window over such a place is in no body.
    windows = range(0, len(pieces) - 32, 16)
    strange = [at for at in windows if pieces[at : at + 32] not in kept]
    with rows_of(factory) as run:
        (parts,) = run("SELECT count(*) FROM {s}piece WHERE {mine}").fetchone()
    assert len(strange) <= 3 * parts
    stores[0].erase_bodies([(record.position, "text") for record in records])
    assert stored_pieces(factory) == b""
    assert stored_list_bytes(factory) == 0
    factory.close()


def test_a_writer_that_remembers_an_erased_body_does_not_build_on_it(
    store_factory: StoreFactory,
) -> None:
    """Another process has erased what it would have named."""
    random = Random(5)
    ours, theirs = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    first, second, third = conversation(random, 3, 4000)
    before = write(ours, chain, first, second)
    theirs.erase_bodies([(record.position, "text") for record in before])

    assert stored_pieces(store_factory) == b""
    assert_stored(store_factory(), write(ours, chain, third))


def test_writers_of_one_run_at_the_same_time_store_what_they_were_given(
    store_factory: StoreFactory,
) -> None:
    """Each in a strand of its own, with erasures in between."""
    names = ["main", "task/a", "task/b", "task/c"]
    chains = [Chain(store_factory.origin, strand=name) for name in names]
    stores = [store_factory() for _ in names]
    write(stores[0], chains[0], SYSTEM)

    def work(number: int) -> list[EntryWrite]:
        random, left = Random(number), []
        for turn, prompt in enumerate(conversation(random, 12, 2500)):
            left += write(stores[number], chains[number], prompt)
            if turn % 4 == 3:
                stores[number].erase_bodies([(left.pop(1).position, "text")])
        return left

    with ThreadPoolExecutor() as pool:
        records = [record for part in pool.map(work, range(len(names))) for record in part]

    assert_stored(store_factory(), [chains[0].records[0], *records])


def test_a_row_that_is_set_aside_keeps_its_bodies_and_those_of_others_stay(
    store_factory: StoreFactory,
) -> None:
    """A forged entry may share bytes with genuine ones: an operator still reads all of it."""
    random, store = Random(9), store_factory()
    chain = Chain(store_factory.origin)
    first, forged, third = conversation(random, 3, 4000)
    records = write(store, chain, first, forged)
    store.move_to_quarantine(store.pending_entries(10).select([1]))
    chain.records.pop()
    records = [records[0], *write(store_factory(), chain, third)]
    with rows_of(store_factory) as run:
        (kept,) = run("SELECT data FROM {s}quarantine_body ORDER BY quarantine DESC").fetchone()

    assert bytes(kept) == forged
    assert_stored(store_factory(), records)


@pytest.mark.postgres
@pytest.mark.parametrize("is_old", [False, True])
def test_bodies_that_share_bytes_are_restored_where_all_can_read_them(
    postgres_url: str, tmp_path: Path, *, is_old: bool
) -> None:
    """With other ids; and not beside a release that would take them for altered ones."""
    factory = StoreFactory(upgraded(postgres_url))
    records = write(factory(), Chain(factory.origin), *conversation(Random(10), 6, 3000))
    factory.close()
    with copy_rows(postgres_url, factory.origin, factory.origin, tmp_path) as (_, columns):
        pass
    with scratch_database(postgres_url) as target:
        upgrade_schema(target)
        other = StoreFactory(target)
        write(other(), Chain(other.origin), *conversation(Random(11), 3, 3000))
        other.close()
        if is_old:
            with psycopg.connect(target) as db:
                db.execute("DELETE FROM forum.migration WHERE number = 18")
        restoring = restore_rows(target, factory.origin, tmp_path, columns)
        if is_old:
            with pytest.raises(BackupRejected, match="db upgrade --post"), restoring:
                pass
            return
        with restoring:
            pass
        restored = StoreFactory(target, factory.origin)
        store = restored()
        assert_stored(store, records)
        chain = Chain(factory.origin)
        chain.records = list(records)
        more = write(store, chain, *conversation(Random(10), 7, 3000))
        assert_stored(restored(), [*records, *more])
        restored.close()


SPOILS = {
    "a list that leads to itself": "UPDATE {s}span_list SET base = number, kept = 2 WHERE {mine}",
    "a list that keeps too much": "UPDATE {s}span_list SET kept = kept + 9 WHERE {mine}",
    "a base that is not there": "UPDATE {s}span_list SET base = 99 WHERE {mine} AND number > 0",
    "no list": "DELETE FROM {s}span_list WHERE {mine}",
    "no piece": "DELETE FROM {s}piece WHERE {mine}",
    "a piece elsewhere": "UPDATE {s}piece SET start = start + 1 WHERE {mine}",
    "the bytes of another piece": "UPDATE {s}piece SET data = (SELECT data FROM {s}piece AS other"
    " WHERE other.strand = piece.strand AND number = 2) WHERE {mine}",
    "the spans of another list": "UPDATE {s}span_list SET spans = (SELECT spans FROM {s}span_list"
    " AS other WHERE other.strand = span_list.strand AND number = 1) WHERE {mine}",
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_body_of_altered_spans_is_not_what_its_entry_committed_to(
    store_factory: StoreFactory, spoil: str
) -> None:
    """And it ends: whoever can write to the database cannot make a reader run for ever."""
    chain = Chain(store_factory.origin)
    records = write(store_factory(), chain, *conversation(Random(6), 4, 3000))
    with rows_of(store_factory) as run:
        run(SPOILS[spoil])
    store = store_factory()
    bodies = [store.body(record.position, "text") for record in records]
    matches = [
        body is not None and body.matches(record.bodies[0].commitment())
        for body, record in zip(bodies, records, strict=True)
    ]

    assert not all(matches)
    assert read(store, records[-1].position) != b"".join(records[-1].bodies[0].content.chunks())
    # What is broken harms nobody who comes after it.
    assert_after = write(store, chain, *conversation(Random(7), 1, 5000))
    assert read(store, assert_after[0].position) == b"".join(
        assert_after[0].bodies[0].content.chunks()
    )


def test_lists_that_somebody_has_added_are_not_built_on(store_factory: StoreFactory) -> None:
    """An erasure removes them, and what a writer had built on one would be lost with it."""
    chain = Chain(store_factory.origin)
    talk = list(conversation(Random(12), 5, 3000))
    records = write(store_factory(), chain, *talk[:3])
    with rows_of(store_factory) as run:
        run(
            "INSERT INTO {s}span_list (number, strand, base, kept, spans{log})"
            " SELECT 1000000, strand, base, kept, spans{log} FROM {s}span_list"
            " WHERE {mine} AND number = 2"
        )
    store = store_factory()
    records += write(store, chain, *talk[3:])
    store.erase_bodies([(records[0].position, "text")])

    assert_stored(store_factory(), records[1:])


def test_a_run_whose_numbers_were_removed_is_erased_and_goes_on(
    store_factory: StoreFactory,
) -> None:
    """An erasure that says it is done is done, and no number is given twice."""
    chain = Chain(store_factory.origin)
    talk = list(conversation(Random(13), 5, 3000))
    records = write(store_factory(), chain, *talk[:3])
    with rows_of(store_factory) as run:
        run("DELETE FROM {s}piece_head WHERE {mine}")
    records += write(store_factory(), chain, talk[3])
    with rows_of(store_factory) as run:
        run("UPDATE {s}piece_head SET next = 0 WHERE {mine}")
    records += write(store_factory(), chain, talk[4])
    with rows_of(store_factory) as run:
        run("DELETE FROM {s}piece_head WHERE {mine}")
    assert_stored(store_factory(), records)
    store_factory().erase_bodies([(record.position, "text") for record in records])

    assert stored_pieces(store_factory) == b""


def test_a_piece_longer_than_any_body_is_not_read(store_factory: StoreFactory) -> None:
    """Rows that somebody has added cost a reader no memory."""
    chain = Chain(store_factory.origin)
    records = write(store_factory(), chain, *conversation(Random(14), 2, 3000))
    store = store_factory()
    with rows_of(store_factory) as run:
        for number in range(1, 18):
            run(
                "INSERT INTO {s}piece (strand, number, start, data{log})"
                " SELECT strand, number, {value}, {value}{log} FROM {s}piece"
                " WHERE {mine} AND number = 0 AND start = 0",
                number << 20,
                bytes(1 << 20),
            )
    body = store.body(records[0].position, "text")

    assert body is not None
    assert sum(map(len, body.read())) == 0


@pytest.mark.postgres
def test_a_log_is_moved_with_the_pieces_of_runs_that_go_on(postgres_url: str) -> None:
    """Also of one that has only got bodies in another strand than `main` meanwhile."""
    with scratch_database(postgres_url) as source, scratch_database(postgres_url) as target:
        for url in (source, target):
            upgrade_schema(url)
        factory = StoreFactory(source)
        other = StoreFactory(target)
        write(other(), Chain(other.origin), *conversation(Random(15), 3, 3000))
        store = PostgresStore(source, factory.origin, databases={"target": target})
        chain = Chain(factory.origin)
        task = Chain(factory.origin, strand="task/a")
        quiet = Chain(factory.origin, run="quiet")
        talk = list(conversation(Random(16), 8, 3000))
        records = write(store, chain, *talk[:3])
        still = write(store, quiet, *talk[:2])
        Sequencer(store).drain()

        def write_more(step: str) -> None:
            if step == "pause":
                records.extend(write(store, task, *talk[3:6]))
                Sequencer(store).drain()

        LogMover(
            factory.origin, source, target=target, place="target", verify=verify_nothing,
            on_step=write_more,
        ).move()  # fmt: skip
        records += write(store, task, *talk[6:])
        moved = StoreFactory(target, factory.origin)()

        assert_stored(moved, records)
        assert_stored(moved, still)
        for opened in (store, moved):
            opened.close()
        factory.close()
        other.close()


def verify_nothing(_reader: object) -> None:
    """Believe a copy: the bodies are compared by the test."""


def test_garbage_instead_of_spans_is_no_body(store_factory: StoreFactory) -> None:
    """Also spans that say very much of little: the content is no longer than bodies may be."""
    chain = Chain(store_factory.origin)
    records = write(store_factory(), chain, *conversation(Random(8), 1, 9000))
    huge = encode_spans([ByteSpan(0, 0, 9000)] * 60_000)
    for spans in (b"\xff", b"\x80" * 40, b"\x00\x00", huge):
        with rows_of(store_factory) as run:
            run("UPDATE {s}span_list SET spans = {value} WHERE {mine}", spans)
        body = store_factory().body(records[0].position, "text")
        assert body is not None
        assert sum(map(len, body.read())) == 0
