"""Entries: one meaning, one form of bytes, and nothing that two readers could read differently."""

import re
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.ledger.entry import MAX_ENTRY_SIZE, Entry, leaf_of
from forum.ledger.kinds import (
    LEDGER_KINDS,
    ExportFacts,
    LogSealFacts,
    NoteFacts,
    Outcome,
    RunCloseFacts,
)
from tests.ledger.samples import SAMPLE, SAMPLE_LEAF, entries

UNKNOWN = SAMPLE.replace(b"run.close/1", b"run.close/2")
# One whose facts are free text, and one whose facts nobody knows.
SEALED = re.sub(
    rb'"kind":.*',
    b'"kind":"log.seal/1","parents":[],"facts":{"reason":"TEXT"},"bodies":{}}',
    SAMPLE,
)
STRANGE = SEALED.replace(b"log.seal/1", b"log.seal/2")


def read(data: bytes) -> Entry[Any]:
    """Read an entry of any kind."""
    return LEDGER_KINDS.read(data)


def written(**members: object) -> bytes:
    """Write the sample with other members."""
    return LEDGER_KINDS.write(msgspec.structs.replace(read(SAMPLE), **members))


@given(entries())
def test_an_entry_is_read_back(entry: Entry[Any]) -> None:
    """What a writer means is what every reader finds."""
    assert read(LEDGER_KINDS.write(entry)) == entry


def test_the_bytes_of_an_entry_are_those_of_the_specification() -> None:
    """Verifiers that others wrote hash these bytes; a library that writes others breaks them."""
    entry = read(SAMPLE)

    assert entry.facts == RunCloseFacts(Outcome.OK, 1)
    assert LEDGER_KINDS.write(entry) == SAMPLE
    assert leaf_of(SAMPLE).hex() == SAMPLE_LEAF


@pytest.mark.parametrize("data", [SAMPLE, UNKNOWN], ids=["known", "unknown"])
def test_no_altered_byte_is_overlooked(data: bytes) -> None:
    """Each other byte at each place is refused, or makes another entry with just those bytes."""
    overlooked = []
    for at, byte in ((at, byte) for at in range(len(data)) for byte in range(256)):
        altered = data[:at] + bytes([byte]) + data[at + 1 :]
        try:
            entry = read(altered)
        except Malformed:
            continue
        if msgspec.json.encode(entry) != altered:
            overlooked.append(altered)

    assert overlooked == []


def test_no_byte_can_be_lost_or_doubled() -> None:
    """A torn write never passes for a shorter entry, nor a stutter for a longer one."""
    torn = [SAMPLE[:stop] for stop in range(len(SAMPLE))]
    doubled = [SAMPLE + SAMPLE, SAMPLE + b"\n", SAMPLE + b"}", b"\xef\xbb\xbf" + SAMPLE]

    for data in chain(torn, doubled):
        with pytest.raises(Malformed):
            read(data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b'"n":1', b'"n":1.0', id="a float"),
        pytest.param(b'"n":1', b'"n":1e0', id="an exponent"),
        pytest.param(b'"n":1', b'"n":01', id="a leading zero"),
        pytest.param(b'"n":1', b'"n":-1', id="a negative count"),
        pytest.param(b'"n":1', b'"n":true', id="a boolean"),
        pytest.param(b'"n":1', b'"n":null', id="null"),
        pytest.param(b'"n":1', b'"n":"1"', id="a number as text"),
        pytest.param(b'"n":1', b'"n":1,"n":1', id="a member twice"),
        pytest.param(b'"n":1', b'"n":9007199254740992', id="two to the 53rd"),
        pytest.param(b'"n":1', b'"n":18446744073709551617', id="one that wraps round to 1"),
        pytest.param(b'"n":1,"prev":', b'"prev":', id="a member that is missing"),
        pytest.param(b'"n":1', b'"m":1,"n":1', id="a member that nobody knows"),
        pytest.param(b'"run":"r","strand":"main"', b'"strand":"main","run":"r"', id="reordered"),
        pytest.param(b'"outcome":"ok","strands":1', b'"strands":1,"outcome":"ok"', id="facts too"),
        pytest.param(b'"size":99,"type"', b'"size":99, "type"', id="white space"),
        pytest.param(b'"ok"', b'"OK"', id="an outcome that is none"),
        pytest.param(b'"ok"', b'"\\u006fk"', id="an escape that is not needed"),
        pytest.param(b"run/close", b"run\\/close", id="an escaped slash"),
        pytest.param(b'"run":"r"', b'"run":""', id="an empty label"),
        pytest.param(b'"run":"r"', b'"run":"r r"', id="a label of two words"),
        pytest.param(b'"run":"r"', b'"run":"\xc3\xa9"', id="a label in another script"),
        pytest.param(b'"run":"r"', b'"run":"%s"' % (b"r" * 129), id="a long label"),
        pytest.param(b"run.close/1", b"run.close/01", id="a version with a leading zero"),
        pytest.param(b"run.close/1", b"run.close", id="a kind without a version"),
        pytest.param(b"forum/entry/1", b"forum/entry/2", id="another format"),
        pytest.param(b"abab", b"ABAB", id="a hash in capitals"),
        pytest.param(b'"prev":"ab', b'"prev":"', id="a hash of 31 bytes"),
        pytest.param(b'"prev":"%s"' % (b"ab" * 32), b'"prev":""', id="no prev behind the first"),
        pytest.param(b'"n":1', b'"n":0', id="a prev at the first"),
        pytest.param(b'["%s"]' % (b"cd" * 32), b'["cd"]', id="a parent that is no hash"),
        pytest.param(b'["cd', b'["%s","cd' % (b"cd" * 32), id="a parent twice"),
        pytest.param(b'{"strands":{"h', b'{"output":{"h', id="a body that the kind has not"),
        pytest.param(b'{"strands":{"h', b'{"../x":{"h', id="a body whose name is a path"),
        pytest.param(b"application/json", b"application json", id="a type of two words"),
    ],
)
def test_an_entry_in_another_form_is_refused(old: bytes, new: bytes) -> None:
    """Two forms of one meaning, or two meanings of one form, let a record be exchanged."""
    assert SAMPLE.count(old) >= 1
    with pytest.raises(Malformed):
        read(SAMPLE.replace(old, new, 1))


@pytest.mark.parametrize("data", [SEALED, STRANGE], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"\\n", id="a line feed"),
        pytest.param(b"\n", id="a raw line feed"),
        pytest.param(b"\\u0000", id="nul"),
        pytest.param(b"\x7f", id="delete, U+007F"),
        pytest.param("\u0085".encode(), id="next line, U+0085"),
        pytest.param("\u009b".encode(), id="the terminal's control sequence, U+009B"),
        pytest.param(b"\\ud800", id="a lone surrogate"),
        pytest.param(b"\xed\xa0\x80", id="a lone surrogate as bytes"),
        pytest.param(b"\\ud83d\\ude00", id="a pair of surrogates for one character"),
        pytest.param(b"\xc0\xaf", id="a slash in two bytes"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b"\\u2028", id="an escape that is not needed"),
    ],
)
def test_text_that_readers_show_differently_is_refused(data: bytes, text: bytes) -> None:
    """A terminal obeys control characters, and framing by lines breaks on some of them."""
    with pytest.raises(Malformed):
        read(data.replace(b"TEXT", text))


@pytest.mark.parametrize("text", ["\u2028", "\u2029", '"', "\\", "\\n", '\\"', "\U0001f600", "é"])
def test_text_that_is_only_unusual_survives(text: str) -> None:
    """Framing by lines broke on U+2028; entries are framed by their length."""
    data = written(kind="log.seal/1", facts=LogSealFacts(text), bodies={})

    assert read(data).facts.reason == text
    assert len(data.splitlines()) == 1


@pytest.mark.parametrize("text", ["\ud800", "\n", "\x7f", "\x85", "x" * MAX_ENTRY_SIZE])
def test_a_writer_cannot_record_what_a_reader_would_refuse(text: str) -> None:
    """Otherwise it would be found out at verification, when it is too late."""
    with pytest.raises(Malformed):
        written(kind="log.seal/1", facts=LogSealFacts(text), bodies={})


@pytest.mark.parametrize("number", [1.0, True, None, -1, 2**53, 2**64, "1"])
def test_a_writer_cannot_record_a_number_of_another_form(number: object) -> None:
    """Types are not checked when a value is made; a price that became a float is caught here."""
    with pytest.raises(Malformed):
        written(kind="export/1", facts=ExportFacts("r", number, 0), bodies={})  # type: ignore[arg-type]


def test_an_entry_has_room_for_4096_bytes() -> None:
    """The limit is a promise to readers: one more and it is refused, one less and it is not."""
    room = MAX_ENTRY_SIZE - len(SEALED) + len(b"TEXT")
    full, over = (SEALED.replace(b"TEXT", b"x" * length) for length in (room, room + 1))

    assert len(full) == MAX_ENTRY_SIZE == 4096
    assert len(read(full).facts.reason) == room
    with pytest.raises(Malformed, match="4097 bytes"):
        read(over)


def test_an_entry_names_at_most_16_parents() -> None:
    """More causes go through joins, so that an entry stays small whatever led to it."""
    parents = tuple(f"{n:064x}" for n in range(17))

    assert read(written(parents=parents[:16])).parents == parents[:16]
    with pytest.raises(Malformed, match="join/1"):
        written(parents=parents)


@pytest.mark.parametrize(
    "members",
    [
        {"n": 1, "prev": "AB" * 32},
        {"n": 1, "prev": ""},
        {"n": 0, "prev": "ab" * 32},
        {"parents": ("AB" * 32,)},
        {"parents": ("ab" * 31,)},
    ],
    ids=str,
)
def test_a_link_that_no_reader_would_take_is_not_written(members: dict[str, object]) -> None:
    """A writer that recorded it would have broken its strand for good."""
    with pytest.raises(Malformed, match="leaf hash"):
        written(**members)


def test_an_unknown_kind_is_read_but_not_written() -> None:
    """An older reader must not fail on a newer log, and must not add to it what it cannot check."""
    entry = read(UNKNOWN)

    assert bytes(entry.facts) == b'{"outcome":"ok","strands":1}'
    assert msgspec.json.encode(entry) == UNKNOWN
    with pytest.raises(Malformed, match=re.escape("no such kind: run.close/2")):
        LEDGER_KINDS.write(entry)


@pytest.mark.parametrize(
    "facts",
    [
        b"1",
        b"[]",
        b'""',
        b"null",
        b'{"a":1.5}',
        b'{"a":null}',
        b'{"a":[true]}',
        b'{"a":1,"a":1}',
        b'{"a":{"b":-0}}',
        b'{"a":9007199254740992}',
        b'{"a":-9007199254740992}',
        b'{"a": 1}',
        b'{"\\u0061":1}',
        b'{"a\\n":1}',
    ],
)
def test_the_facts_of_an_unknown_kind_obey_the_rules_of_all(facts: bytes) -> None:
    """What no reader of a later release could accept is refused by those of today."""
    with pytest.raises(Malformed):
        read(STRANGE.replace(b'{"reason":"TEXT"}', facts))


def test_deeply_nested_facts_are_refused() -> None:
    """Whether an entry can be read must not depend on how deep the reader's own stack is."""
    shallow, *deep = (
        STRANGE.replace(b'"TEXT"', b"[" * depth + b"]" * depth)
        for depth in (15, 16, 300, 700, 1900)
    )

    assert msgspec.json.encode(read(shallow)) == shallow
    for data in deep:
        with pytest.raises(Malformed):
            read(data)


@given(st.binary(max_size=200))
def test_bytes_from_anywhere_are_refused(data: bytes) -> None:
    """A reader meets whatever lies in a file; it answers with an error of its own."""
    with pytest.raises(Malformed):
        read(data)


def test_facts_belong_to_the_kind_that_an_entry_names() -> None:
    """A kind whose facts are those of another would be read as what it is not."""
    with pytest.raises(Malformed):
        written(facts=LogSealFacts("done"))
    with pytest.raises(Malformed):
        written(kind="log.seal/1", facts=NoteFacts(), bodies={})
