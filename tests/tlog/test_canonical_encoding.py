"""Everything that is read has one spelling: changed by a byte, it means something else or nothing.

Otherwise two files that differ could both pass for the one that was signed, hashed or pinned.
"""

from collections.abc import Callable, Iterator

import pytest

from forum.errors import Malformed
from forum.tlog import (
    Hash,
    KnownLog,
    KnownWitness,
    Note,
    TlogProof,
    VerifierKey,
    WitnessGroup,
    WitnessPolicy,
)
from tests.tlog.samples import LOG, WITNESSED, WITNESSES

VKEY = str(LOG.verifier()).encode()
PROOF = TlogProof(5, (Hash(b"a" * 32), Hash(b"b" * 32)), WITNESSED, b"extra data").encode()
POLICY = WitnessPolicy(
    (KnownLog(LOG.verifier(), "https://log"),),
    (KnownWitness("w0", WITNESSES[0].verifier()), KnownWitness("w1", WITNESSES[1].verifier())),
    (WitnessGroup("two", 2, ("w0", "w1")),),
    "two",
).encode()

# Beside each flip of a bit, what a careless parser could take for something else.
TEMPTING = b"\x00\t\n\r #=0\xff"


def mutations(data: bytes) -> Iterator[bytes]:
    """Change, drop or double one byte, at every position."""
    for at, byte in enumerate(data):
        flips = {byte ^ 1 << bit for bit in range(8)} | set(TEMPTING) - {byte}
        yield from (data[:at] + bytes([other]) + data[at + 1 :] for other in flips)
        yield data[:at] + data[at + 1 :]
        yield data[:at] + data[at : at + 1] + data[at:]
    yield data + b"\n"


def rewrite_vkey(data: bytes) -> bytes:
    """Read a key, and write it again."""
    return str(VerifierKey.parse(data.decode(errors="surrogateescape"))).encode()


def same(data: bytes) -> bytes:
    """Take bytes as they are."""
    return data


def without_layout(data: bytes) -> bytes:
    """Drop what tlog-policy ignores: comments, empty lines, and the width of white space."""
    lines = [line.replace(b"\t", b" ").split() for line in data.split(b"\n")]
    words = [b" ".join(line) for line in lines if line and not line[0].startswith(b"#")]
    return b"".join(line + b"\n" for line in words)


@pytest.mark.parametrize(
    ("sample", "rewrite", "meaning"),
    [
        pytest.param(VKEY, rewrite_vkey, same, id="vkey"),
        pytest.param(WITNESSED.encode(), lambda d: Note.parse(d).encode(), same, id="note"),
        pytest.param(PROOF, lambda d: TlogProof.parse(d).encode(), same, id="proof"),
        pytest.param(
            POLICY, lambda d: WitnessPolicy.parse(d).encode(), without_layout, id="policy"
        ),
    ],
)
def test_a_changed_byte_is_refused_or_kept(
    sample: bytes, rewrite: Callable[[bytes], bytes], meaning: Callable[[bytes], bytes]
) -> None:
    """What can be read at all is written again exactly as it was."""
    assert rewrite(sample) == sample

    for changed in mutations(sample):
        try:
            written = rewrite(changed)
        except Malformed:
            continue
        assert written == meaning(changed)


def test_a_line_of_a_note_may_hold_spaces_and_no_control_characters() -> None:
    """A space is the first character that is none: origins of other logs have it."""
    signatures = WITNESSED.encode().partition(b"\n\n")[2]

    assert Note.parse(b"a b\n\n" + signatures).text == "a b\n"
    with pytest.raises(Malformed, match="control character"):
        Note.parse(b"a\x1fb\n\n" + signatures)
