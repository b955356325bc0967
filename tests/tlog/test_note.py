"""Signed notes: what others signed is accepted, and what nobody signed is not."""

import pytest
from hypothesis import given

from forum.errors import Malformed, SignatureRejected
from forum.tlog import Note, Signature, VerifierKey, sign_note, verify_note
from tests.tlog.samples import LOG, OTHER_LOG, SIGNED, WITNESSES, notes, signatures

# The example of signed-note, section Verifier keys.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = """\
This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""  # noqa: E501

# Its opening example, for which it gives no key: the text holds an empty line.
POEM = """\
Ognuno sta solo sul cuor della terra
trafitto da un raggio di sole:

ed è subito sera.

— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=
"""  # noqa: E501


def test_the_example_of_the_specification_verifies() -> None:
    """A note and a key that we did not make."""
    note, key = Note.parse(EXAMPLE.encode()), VerifierKey.parse(EXAMPLE_KEY)

    assert note.text == "This is an example message.\n"
    assert verify_note(note, [key]) == (key,)
    assert note.encode() == EXAMPLE.encode()


def test_the_last_empty_line_divides_a_note() -> None:
    """Text above it may hold empty lines; a reader who took the first would sign half a poem."""
    note = Note.parse(POEM.encode())

    assert note.text.endswith("sole:\n\ned è subito sera.\n")
    assert [(s.name, len(s.blob)) for s in note.signatures] == [("quasimodo.example/salvatore", 64)]


@given(notes)
def test_a_note_is_read_back(note: Note) -> None:
    """Whatever text was signed comes out as it went in."""
    assert Note.parse(note.encode()) == note


@given(signatures)
def test_a_signature_line_is_read_back(signature: Signature) -> None:
    """Witnesses answer with such lines alone."""
    assert Signature.parse(str(signature)) == signature


def test_signatures_by_others_are_passed_over() -> None:
    """A name or an id alone is no match: either can be had for free."""
    mine = SIGNED.signatures[0]
    foreign = (
        Signature(mine.name, b"\x00" * 4, b"garbage"),
        Signature("example.com/elsewhere", mine.key_id, b"garbage"),
        sign_note(SIGNED.text, OTHER_LOG),
    )
    note = Note(SIGNED.text, (*foreign, mine, mine))

    assert verify_note(note, [LOG.verifier()]) == (LOG.verifier(),)
    assert verify_note(note, [LOG.verifier(), OTHER_LOG.verifier()]) == (
        OTHER_LOG.verifier(),
        LOG.verifier(),
    )


def test_a_bad_signature_by_a_known_key_spoils_the_note() -> None:
    """Even before a good one: somebody has altered this note."""
    mine = SIGNED.signatures[0]
    bad = Signature(mine.name, mine.key_id, bytes(64))

    with pytest.raises(SignatureRejected, match=r"example\.com/log"):
        verify_note(Note(SIGNED.text, (bad, mine)), [LOG.verifier()])


def test_only_the_first_signature_by_a_key_counts() -> None:
    """A key can sign one text in many ways; each further one would only cost time."""
    mine = SIGNED.signatures[0]
    bad = Signature(mine.name, mine.key_id, bytes(64))

    assert verify_note(Note(SIGNED.text, (mine, bad)), [LOG.verifier()]) == (LOG.verifier(),)


def test_a_note_by_nobody_that_the_reader_trusts_is_rejected() -> None:
    """Also when the reader trusts nobody."""
    for keys in ([OTHER_LOG.verifier()], [WITNESSES[0].verifier()], []):
        with pytest.raises(SignatureRejected, match="trusts"):
            verify_note(SIGNED, keys)


def test_a_key_for_cosignatures_signs_no_notes() -> None:
    """Text of the right form would be a cosignature that the witness never gave."""
    with pytest.raises(Malformed):
        sign_note("cosignature/v1\ntime 1\nexample.com/log\n0\n\n", WITNESSES[0])


LINE = EXAMPLE.split("\n")[2].encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text\n",
        b"text\n\n",
        LINE + b"\n",
        b"\n" + LINE + b"\n",
        b"text\n" + LINE + b"\n",
        b"text\n\n" + LINE,
        b"text\n\n" + LINE + b"\n\n",
        b"text\n\n" + LINE + b" \n",
        b"text\r\n\r\n" + LINE + b"\r\n",
        b"te\x00xt\n\n" + LINE + b"\n",
        b"te\xffxt\n\n" + LINE + b"\n",
        b"text\n\n" + LINE.replace("—".encode(), b"-") + b"\n",
        "text\n\n— example.com/foo UAAAAA==\n".encode(),
        "text\n\n— example.com/foo\n".encode(),
        "text\n\n—  UAAAAAA=\n".encode(),
        b"text\n\n" + (LINE + b"\n") * 65,
        b"x" * (1 << 20) + b"\n\n" + LINE + b"\n",
    ],
)
def test_what_is_not_a_note_is_refused(data: bytes) -> None:
    """A note has one form; whatever else is refused before any key is looked at."""
    with pytest.raises(Malformed):
        Note.parse(data)


def test_a_note_of_64_large_signatures_is_read() -> None:
    """Post-quantum signatures have up to 5 kB; the specification asks for 16 at least."""
    line = Signature("example.com/pq", b"id..", bytes(5000))
    note = Note("text\n", (line,) * 64)

    assert Note.parse(note.encode()) == note


@pytest.mark.parametrize(
    ("text", "count"), [("", 1), ("text", 1), ("a\tb\n", 1), ("\ud800\n", 1), ("text\n", 0)]
)
def test_a_note_that_could_not_be_read_cannot_be_made(text: str, count: int) -> None:
    """Nothing is written that our own parser refuses."""
    with pytest.raises(Malformed):
        Note(text, SIGNED.signatures * count)
