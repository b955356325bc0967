"""Secrets are hidden before anything is hashed, by whatever way they come into a record."""

import asyncio
import base64
import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forum.errors import Malformed, StepMismatch
from forum.ledger.body import CHUNK_SIZE, BytesContent, Content, text_content
from forum.ledger.entry import Facts
from forum.ledger.kinds import LEDGER_KINDS, Kind, Kinds, NoteFacts, Outcome, RedactionReason
from forum.ledger.log import Ledger, opening_draft
from forum.ledger.ports import Position
from forum.ledger.secret_mask import SecretMask
from forum.ledger.strand import Attachment, Draft, Strand, StrandStart
from forum.stores.sqlite import SqliteStore
from forum.tlog import Checkpoint, Hash
from tests.support import key_of
from tests.test_repository import package_sources

SECRET = "hunter2-hunter2"  # noqa: S105  it is none
MARK = "[secret DOOR_KEY]"

# Few letters, so that secrets meet, overlap and hold each other; no bracket, see the module.
letters = st.sampled_from([b"a", b"b", b'"', b"\n", b"\xe2\x82\xac", b"\xff", b"\x7f", b"\0"])
values = st.lists(letters, min_size=8, max_size=12).map(b"".join)
secrets_ = st.dictionaries(st.sampled_from(["A", "B_2", "C c#"]), values, max_size=3)


@dataclass(frozen=True)
class Cut:
    """Content that comes in these pieces."""

    pieces: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(map(len, self.pieces))

    def chunks(self) -> Iterator[bytes]:
        """Read it piece by piece."""
        yield from self.pieces


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, bytes], Cut]:
    """Draw secrets, and a content in pieces that holds some of them, whole or broken off."""
    secrets = draw(secrets_)
    forms = [form for value in secrets.values() for form in forms_of(value)]
    broken = st.sampled_from(forms).map(lambda form: form[:-1]) if forms else letters
    parts = st.one_of(letters, st.binary(max_size=3), st.sampled_from(forms or [b""]), broken)
    data = b"".join(draw(st.lists(parts, max_size=20)))
    cuts = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data))))})
    return secrets, Cut(tuple(data[a:b] for a, b in pairwise(cuts)) or (b"",))


def forms_of(value: bytes) -> set[bytes]:
    """Return how a secret may be written, by the libraries that programs use for it."""
    plain, safe = base64.b64encode(value), base64.urlsafe_b64encode(value)
    forms = {
        value,
        plain,
        plain.rstrip(b"="),
        safe,
        safe.rstrip(b"="),
        quote(value, safe="").encode(),
    }
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return forms
    for inner, outer in product((True, False), repeat=2):
        once = json.dumps(text, ensure_ascii=inner)[1:-1]
        forms |= {once.encode(), json.dumps(once, ensure_ascii=outer)[1:-1].encode()}
    return forms


def replaced(data: bytes, secrets: dict[str, bytes]) -> bytes:
    """Return what a mask makes of data that are in one piece, done in the simplest way."""
    marks = {form: name for name, value in secrets.items() for form in forms_of(value)}
    out, hidden = b"", 0
    for at in range(len(data)):
        here = max((f for f in marks if data.startswith(f, at)), key=len, default=b"")
        if here and at >= hidden:
            out += f"[secret {re.sub(r'[ #]', '_', marks[here])}]".encode()
        hidden = max(hidden, at + len(here))
        if at >= hidden:
            out += data[at : at + 1]
    return out


def read(content: Content) -> bytes:
    """Return a content in one piece."""
    return b"".join(content.chunks())


# What a mask makes of contents


@given(cases())
@example(({"A": b"aaaaaaaab", "B_2": b"aaaabaaaa"}, Cut((b"aaaaaaaabaaa", b"ab"))))
def test_every_secret_is_hidden_and_all_else_stays(case: tuple[dict[str, bytes], Cut]) -> None:
    """However the secrets lie, and wherever the content is cut: not a byte of one is left."""
    secrets, content = case
    data, mask = read(content), SecretMask.from_secrets(secrets)
    masked = mask.mask_content(content)
    hidden = read(masked)

    assert hidden == replaced(data, secrets)
    assert masked.size == len(hidden)
    assert not any(form in hidden for value in secrets.values() for form in forms_of(value))
    assert (masked is content) == (hidden == data)
    assert mask.mask_content(masked) is masked


@given(secrets_, st.text())
def test_a_text_is_masked_like_its_bytes(secrets: dict[str, bytes], text: str) -> None:
    """A text with a secret at its end says so, and one without is as it was."""
    mask = SecretMask.from_secrets(secrets)

    for value in secrets.values():
        whole = text + value.decode(errors="ignore")
        assert mask.mask_text(whole).encode() == replaced(whole.encode(), secrets)
    assert mask.mask_text("a lone \udc80") == "a lone \udc80"


def test_a_long_content_comes_in_full_pieces() -> None:
    """Those who want its beginning count pieces; and a mark is longer than a short secret."""
    mask = SecretMask.from_secrets({"A_LONG_NAME_OF_A_SHORT_SECRET": b"12345678"})
    pieces = tuple(b"12345678" * 1000 + b"x" * (CHUNK_SIZE - 8000) for _ in range(3))
    masked = mask.mask_content(Cut(pieces))
    lengths = [len(piece) for piece in masked.chunks()]

    assert set(lengths[:-1]) == {CHUNK_SIZE}
    assert lengths[-1] <= CHUNK_SIZE
    assert sum(lengths) == masked.size == 3 * CHUNK_SIZE + 3000 * (len("[secret ]") + 29 - 8)


def test_long_keys_can_be_hidden() -> None:
    """Twenty private keys of many lines are a large pattern, and still one that is found."""
    keys = {f"KEY_{n}": b"-----BEGIN KEY-----\n" + b"%064d\n" % n * 50 for n in range(20)}

    assert (
        read(SecretMask.from_secrets(keys).mask_content(BytesContent(b"[" + keys["KEY_7"] + b"]")))
        == b"[[secret KEY_7]]"
    )


def test_what_is_short_is_no_secret() -> None:
    """The word `test` as a password would otherwise be cut out of everything."""
    assert not SecretMask.from_secrets({"A_KEY": b"seven77"})
    assert SecretMask.from_secrets({"A_KEY": b"eight888"})
    assert not SecretMask()


def test_a_mask_tells_nobody_what_it_hides() -> None:
    """Neither in a traceback nor by the name of another secret."""
    mask = SecretMask.from_secrets({"A": b"hunter2hunter2", "for_hunter2hunter2_KEY": b"12345678"})

    assert "hunter2" not in repr(mask)
    assert mask.mask_text("12345678") == "[secret]"


# What passes the writer


class Inner(Facts, frozen=True):
    """Facts within facts."""

    words: list[str]


class Told(Facts, frozen=True):
    """Every form that a text in facts can have; an outcome is closed, and can say nothing else."""

    said: str
    inner: Inner
    outcome: Outcome = Outcome.CANCELLED


class World:
    """A log with a mask, and everything that its files hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = SqliteStore(folder / "ledger.db", "test.example/mask")
        kinds = LEDGER_KINDS | Kinds([Kind("told/1", Told)])
        mask = SecretMask.from_secrets({"DOOR_KEY": SECRET.encode(), "A_TOKEN": b"cancelled"})
        self.ledger = Ledger(self.store, kinds, lambda: 7, lambda: b"s" * 32, mask=mask)

    def holds(self, what: str) -> bool:
        """Tell whether a text is anywhere in the files."""
        return any(what.encode() in file.read_bytes() for file in self.folder.iterdir())

    def writers(self) -> dict[str, Callable[[], object]]:
        """Return every way of writing by its name, each with a secret wherever one can be."""
        ledger, key = self.ledger, key_of(self.store.origin).verifier()
        left = Checkpoint(f"left.example/{SECRET}", 1, Hash(bytes(32)))
        return {
            "append": lambda: ledger.open_strand("a").append(telling("a"), telling("b")),
            "append_async": lambda: asyncio.run(ledger.open_strand("b").append_async(telling("a"))),
            "append_exclusive": lambda: ledger.open_strand("c").append_exclusive(telling("a")),
            "append_exclusive_async": lambda: asyncio.run(
                ledger.open_strand_at_end("d", "x").append_exclusive_async(telling("a"))
            ),
            "initialize": lambda: ledger.initialize(f"forumd {SECRET}", key, left),
            "new_strand": lambda: asyncio.run(
                ledger.new_strand("h", "main").append_async(
                    opening_draft(SECRET, None), telling("a")
                )
            ),
            "open_run": lambda: ledger.open_run("e", SECRET, telling("a")),
            "close_run": lambda: ledger.close_run(ledger.open_run("f", "x"), SECRET, Outcome.OK),
            "append_log_entry": lambda: ledger.append_log_entry(telling("a")),
            "request_redaction": self._redact,
            "request_redactions": self._redact_many,
            "record_run": lambda: ledger.record_run("i", SECRET, telling("a")),
            "record_export": lambda: ledger.record_export(SECRET, 1, 1, SECRET),
            "start_strands": lambda: ledger.start_strands([StrandStart("j", "x", telling("a"))]),
            "join_appends": self._join,
        }

    def _join(self) -> None:
        append = self.ledger.join_appends()
        append.add(self.ledger.new_strand("k", "main"), telling("a"), telling("b"))
        append.add(self.ledger.new_strand("k", "x"), telling("a"))
        append.commit()

    def _redact(self) -> None:
        self.ledger.open_strand("g").append(telling("a"))
        target = self.ledger.find_entry("g/main/0")
        self.ledger.request_redaction(target, "text", SECRET, RedactionReason.SECRET)

    def _redact_many(self) -> None:
        self.ledger.open_strand("l").append(telling("a"), telling("b"))
        leaves = [self.ledger.find_entry(f"l/main/{n}").leaf for n in (0, 1)]
        bodies = [(leaf, "text") for leaf in leaves]
        self.ledger.request_redactions("l", bodies, SECRET, RedactionReason.SECRET)


def telling(step: str) -> Draft:
    """Return a draft that tells a secret wherever it can."""
    body = Attachment("text", text_content(f"so {SECRET}!"), f"text/{SECRET}")
    return Draft(f"{step}/{SECRET}", f"agent:{SECRET}", NoteFacts(), bodies=(body,))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a fresh log."""
    found = World(tmp_path)
    yield found
    found.store.close()


WRITERS = (
    "append",
    "append_async",
    "initialize",
    "append_exclusive",
    "append_exclusive_async",
    "close_run",
    "append_log_entry",
    "new_strand",
    "open_run",
    "record_export",
    "record_run",
    "request_redaction",
    "request_redactions",
    "start_strands",
    "join_appends",
)
FIXED_WRITERS = {"enforce_tags", "join_causes", "mark_write_key"}
"""They record an index, ids and a tag, and nothing that a caller says."""
READERS = {
    "is_closed",
    "check_idempotency_row",
    "check_clock",
    "check_write_key",
    "open_strand_at_end",
    "open_log_strand",
    "erase_redacted",
    "find_entry",
    "now",
    "prove_entry",
    "replay_step",
    "open_strand",
    "new_strand",
    "draft_opening",
    "prepare_next",
    "remember_run",
    "strand_ends",
    "with_memory",
}


@pytest.mark.parametrize("way", WRITERS)
def test_no_way_of_writing_lets_a_secret_through(world: World, way: str) -> None:
    """Neither the entry nor its body, nor what the database keeps beside them."""
    world.writers()[way]()

    assert not world.holds(SECRET)
    assert world.holds("DOOR_KEY]")


def test_no_other_way_of_writing_is_there() -> None:
    """A new method is either tried above, or does not write; and entries are made in one place."""
    methods = {
        name
        for owner in (Ledger, Strand)
        for name, _ in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
    }
    making = re.compile(r"(?<!class )\bEntryWrite\(")
    makers = {path for path, text in package_sources().items() if making.search(text)}

    assert methods == READERS.union(WRITERS, FIXED_WRITERS)
    # The latter plays the thief.
    assert makers == {"ledger/strand.py", "features/demo/tampering.py"}


def test_what_is_recorded_says_which_secret_was_there(world: World) -> None:
    """In every text of an entry, and in its body, to which the entry then commits."""
    facts = Told(f"so {SECRET}", Inner(["x", SECRET]))
    strand = world.ledger.open_strand("run")
    told, written = strand.append(Draft("told", "x", facts), telling("a"))
    body = world.store.body(Position("run", "main", 1), "text")

    assert told.entry.facts == Told(f"so {MARK}", Inner(["x", MARK]))
    assert (written.entry.step, written.entry.actor) == (
        "a/[secret:DOOR_KEY]",
        "agent:[secret:DOOR_KEY]",
    )
    assert written.entry.bodies["text"].type == "text/[secret:DOOR_KEY]"
    assert body is not None
    assert b"".join(body.read()) == f"so {MARK}!".encode()
    assert body.matches(written.entry.bodies["text"])


def test_a_step_with_a_secret_is_found_again(world: World) -> None:
    """Whoever plays the record names the step as it was meant, and errors do not tell it."""
    world.ledger.open_strand("run").append(telling("a"), telling("b"))
    again = world.ledger.open_strand("run")

    assert again.replay_step(f"a/{SECRET}") is not None
    with pytest.raises(StepMismatch) as wrong:
        again.replay_step(f"c/{SECRET}")
    assert SECRET not in str(wrong.value)


def test_a_strand_is_not_named_by_a_secret(world: World) -> None:
    """With a mark for a name nobody would find it; so it is refused, without saying why in full."""
    for run, name in ((SECRET, "main"), ("run", f"task/{SECRET}")):
        with pytest.raises(Malformed, match="a secret in its name") as refused:
            world.ledger.open_strand(run, name)
        assert SECRET not in str(refused.value)


@given(st.lists(st.text(), max_size=3))
def test_without_secrets_a_draft_is_passed_on(words: list[str]) -> None:
    """What is recorded then is the very thing that was handed in."""
    facts = Told("so", Inner(words))

    assert SecretMask().mask_facts(facts) is facts
    assert SecretMask.from_secrets({"DOOR_KEY": SECRET.encode()}).mask_facts(facts) is facts
