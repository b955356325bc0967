"""Keys: their text, their signatures, and the points that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed, SignatureRejected
from forum.tlog import ED25519, ED25519_COSIGNATURE, SigningKey, VerifierKey
from tests.tlog.samples import LOG, algorithms, names, seeds

P = 2**255 - 19
ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)


def test_the_first_vector_of_rfc_8032_holds() -> None:
    """Section 7.1, test 1: seed, public key, and the signature of nothing."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    key = SigningKey(seed, "rfc8032.example")

    assert key.verifier().public == public
    assert key.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
        "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )


@given(seeds, names, algorithms)
def test_every_key_is_read_back_and_accepts_its_own_signatures(
    seed: bytes, name: str, algorithm: int
) -> None:
    """No seed leads to a key that our own checks of the curve would refuse."""
    key = SigningKey(seed, name, algorithm)
    verifier = key.verifier()

    assert VerifierKey.parse(str(verifier)) == verifier
    verifier.verify(b"message", key.sign(b"message"))


@given(st.binary(max_size=80))
def test_a_signature_by_nobody_is_rejected(signature: bytes) -> None:
    """Whatever its length."""
    with pytest.raises(SignatureRejected, match=r"example\.com/log"):
        LOG.verifier().verify(b"message", signature)


def test_the_seed_is_never_shown() -> None:
    """A key may end up in a log line or in an error."""
    key = SigningKey(b"s" * 32, "example.com/log")

    assert "ssss" not in f"{key!r} {key} {key.verifier()!r}"
    assert b"s".hex() * 4 not in repr(key)


def test_one_key_has_an_id_for_each_use() -> None:
    """So a cosignature cannot be mistaken for the log's own signature."""
    ids = {SigningKey(LOG.seed, LOG.name, a).verifier().key_id for a in (1, 4)}

    assert len(ids) == 2


@pytest.mark.parametrize(
    "name", ["", "a b", "a+b", "a\tb", "a\nb", "a\x00", "\u2003", "\x85", "\ud800"]
)
def test_a_name_that_no_note_can_hold_is_refused(name: str) -> None:
    """The name ends at a space, and a vkey is divided at plus."""
    with pytest.raises(Malformed):
        SigningKey(bytes(32), name)
    with pytest.raises(Malformed):
        VerifierKey(name, ED25519, LOG.verifier().public)


@pytest.mark.parametrize("y", [0, 1, P - 1, ORDER_8, P - ORDER_8, P, P + 1])
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_a_key_of_small_order_is_refused(y: int, sign: int) -> None:
    """Its holder could later claim to have signed another message."""
    with pytest.raises(Malformed, match="small order"):
        VerifierKey("x", ED25519, (y | sign).to_bytes(32, "little"))


@pytest.mark.parametrize("y", [2, 7, P + 3, P + 18])
def test_bytes_that_are_no_point_are_refused(y: int) -> None:
    """No x belongs to the y of 2 and of 7; the others are written in a second way."""
    with pytest.raises(Malformed, match="not a point"):
        VerifierKey("x", ED25519, y.to_bytes(32, "little"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/foo",
        "example.com/foo+530d903a",
        "example.com/foo+530d903a+",
        "example.com/foo+530D903A+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/bar+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U0=",
        " example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k\n",
    ],
)
def test_a_vkey_in_another_form_is_refused(text: str) -> None:
    """The example of signed-note, cut short or altered."""
    with pytest.raises(Malformed):
        VerifierKey.parse(text)


def test_an_algorithm_that_we_do_not_have_is_refused() -> None:
    """Better than a key that is known but never verifies (0x06 is ML-DSA-44)."""
    for algorithm in (0, 2, 3, 5, 6, 255, 256):
        with pytest.raises(Malformed, match="not supported"):
            SigningKey(bytes(32), "x", algorithm)
    with pytest.raises(Malformed):
        SigningKey(bytes(31), "x", ED25519_COSIGNATURE)
