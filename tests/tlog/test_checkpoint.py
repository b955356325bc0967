"""Checkpoints and cosignatures, also some that others made."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed, SignatureRejected
from forum.tlog import (
    EMPTY_ROOT,
    Checkpoint,
    Cosignature,
    Hash,
    Note,
    Signature,
    SigningKey,
    VerifierKey,
    cosign,
    open_checkpoint,
    sign_checkpoint,
    sign_note,
    verify_cosignatures,
    verify_note,
)
from tests.tlog.samples import (
    CHECKPOINT,
    LOG,
    OTHER_LOG,
    SIGNED,
    WITNESSED,
    WITNESSES,
    hashes,
    names,
    numbers,
)

ROOT = Hash(b"r" * 32).base64()

# A note and the key that it verifies under.  The example of tlog-checkpoint has the same size, root
# and signature, under other names.
GO_KEY = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
GO = """\
go.sum database tree
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— sum.golang.org Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
"""  # noqa: E501

# A checkpoint with three signatures, and the key that the last of them verifies under.
ARMORED_KEY = "ArmoredWitness-floral-sky+c7cf0b6d+BOkCmTmKTTnQMNqIigkj7PFnhogawSJD23PJ8M8qLYDm"
ARMORED = """\
transparency.dev/armored-witness/firmware_transparency/ci/3
59
kOFMkeamIdrYFLx5zbWFhflak6dlEEDOU++fxYEZMBw=

— transparency.dev-aw-ftlog-ci-3 P2iVIt3Jsaha3E2i0MHdKZ6fgYJTgXO86nUsxKPVq6uTwRSclTSh/ELnDGbNL+XDyD3EkWIdL2AGGNmbN7IN2rB/7gE=
— ArmoredWitness-weathered-rain CnjfIAAAAABnGRrHjQi7IZQqVea4YnU/ADsv844r1ezGjvubUy1MMJm4as9bRiT70xNWQ67RCA76LMy7SdX4qJNIzL3eSS1BGFWqCw==
— ArmoredWitness-floral-sky x88LbQAAAABnGRrDEq4Tfy7IIVPqkdXbcufUkCzRRbE3fABZ/jvtg5aFHVMuMR8cV6dVqECDBiH1zRxhNaCQOXSwNLSeJs+NzWt1BA==
"""  # noqa: E501


@given(names, numbers.filter(bool), hashes)
def test_a_checkpoint_is_read_back(origin: str, size: int, root: Hash) -> None:
    """Its text is what is signed, so there is one text for one checkpoint."""
    checkpoint = Checkpoint(origin, size, root)

    assert Checkpoint.parse(str(checkpoint)) == checkpoint


def test_a_signed_checkpoint_is_opened() -> None:
    """As bytes, or as a note that was parsed before."""
    keys = [OTHER_LOG.verifier(), LOG.verifier()]

    assert open_checkpoint(SIGNED.encode(), keys) == (CHECKPOINT, SIGNED)
    assert open_checkpoint(SIGNED, keys) == (CHECKPOINT, SIGNED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "o\n7\n",
        f"o\n7\n{ROOT}",
        f"o\n7\n{ROOT}\nextension\n",
        f"o\n7\n{ROOT}\n\n",
        f"\n7\n{ROOT}\n",
        f"o\n07\n{ROOT}\n",
        f"o\n-7\n{ROOT}\n",
        f"o\n+7\n{ROOT}\n",
        f"o\n7 \n{ROOT}\n",
        f"o\n٧\n{ROOT}\n",
        f"o\n\n{ROOT}\n",
        f"o\n{2**63}\n{ROOT}\n",
        f"o\n{'9' * 5000}\n{ROOT}\n",
        f"o\n7\n{ROOT[:-1]}\n",
        "o\n7\nAAAA\n",
        f"o\n0\n{ROOT}\n",
        f"o\r\n7\r\n{ROOT}\r\n",
    ],
)
def test_a_checkpoint_in_another_form_is_refused(text: str) -> None:
    """Extension lines among them: nobody audits what stands there."""
    with pytest.raises(Malformed):
        Checkpoint.parse(text)


def test_the_empty_tree_has_one_root() -> None:
    """A log that starts from another root has something before its first entry."""
    assert Checkpoint.parse(str(Checkpoint("o", 0, EMPTY_ROOT))).size == 0
    with pytest.raises(Malformed):
        Checkpoint("o", 0, CHECKPOINT.root)


def test_no_log_speaks_for_another() -> None:
    """A reader who trusts two logs does not let one of them sign for the other."""
    note = Note(SIGNED.text, (sign_note(SIGNED.text, OTHER_LOG),))

    with pytest.raises(SignatureRejected, match="another log"):
        open_checkpoint(note, [LOG.verifier(), OTHER_LOG.verifier()])
    with pytest.raises(Malformed):
        sign_checkpoint(CHECKPOINT, OTHER_LOG)


def test_a_note_signed_with_the_key_of_sum_golang_org_verifies() -> None:
    """As a note; it is no checkpoint to us, since its key has not the name of its origin."""
    note, key = Note.parse(GO.encode()), VerifierKey.parse(GO_KEY)

    assert verify_note(note, [key]) == (key,)
    assert Checkpoint.parse(note.text).size == 20_852_163
    with pytest.raises(SignatureRejected):
        open_checkpoint(note, [key])


def test_a_checkpoint_that_others_cosigned_verifies() -> None:
    """A cosignature that we did not make, over a checkpoint that we did not make."""
    note, key = Note.parse(ARMORED.encode()), VerifierKey.parse(ARMORED_KEY)

    assert verify_cosignatures(note, [key]) == (Cosignature(key, 1_729_698_499),)
    assert note.encode() == ARMORED.encode()


@given(st.sampled_from(WITNESSES), numbers)
def test_a_cosignature_holds_for_its_time_and_text_only(witness: SigningKey, time: int) -> None:
    """The witness says what it saw and when; neither can be exchanged."""
    line = cosign(SIGNED.text, witness, time)
    later = Signature(line.name, line.key_id, struct.pack(">Q", time ^ 1) + line.blob[8:])
    grown = str(Checkpoint("example.com/log", 8, CHECKPOINT.root))

    assert verify_cosignatures(Note(SIGNED.text, (line,)), [witness.verifier()]) == (
        Cosignature(witness.verifier(), time),
    )
    for text, forged in ((SIGNED.text, later), (grown, line)):
        with pytest.raises(SignatureRejected, match=witness.name):
            verify_cosignatures(Note(text, (forged,)), [witness.verifier()])


def test_unknown_witnesses_and_other_signatures_are_passed_over() -> None:
    """A note without cosignatures is no error here: the policy judges how many there must be."""
    keys = [WITNESSES[1].verifier(), WITNESSES[5].verifier(), LOG.verifier()]

    assert verify_cosignatures(WITNESSED, keys) == (Cosignature(keys[0], 1_700_000_000),)
    assert verify_cosignatures(SIGNED, keys) == ()
    assert verify_note(WITNESSED, [LOG.verifier()]) == (LOG.verifier(),)


@pytest.mark.parametrize("blob", [b"x", bytes(64), bytes(71), bytes(73), b"\xff" * 72])
def test_a_cosignature_of_another_form_is_rejected(blob: bytes) -> None:
    """Of another length, or from a time that not every reader can hold."""
    key = WITNESSES[0].verifier()

    with pytest.raises(SignatureRejected, match=key.name):
        verify_cosignatures(Note(SIGNED.text, (Signature(key.name, key.key_id, blob),)), [key])


def test_a_witness_cosigns_checkpoints_only() -> None:
    """Whatever else it could be brought to sign would be its word too."""
    with pytest.raises(Malformed):
        cosign("any text\n", WITNESSES[0], 1)
    with pytest.raises(Malformed):
        cosign(SIGNED.text, LOG, 1)
    for time in (-1, 2**63):
        with pytest.raises(Malformed):
            cosign(SIGNED.text, WITNESSES[0], time)
