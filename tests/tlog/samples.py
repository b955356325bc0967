"""Keys, names and texts that several tests of the room draw from."""

from hypothesis import strategies as st

from forum.tlog import (
    ED25519,
    ED25519_COSIGNATURE,
    Checkpoint,
    Hash,
    Note,
    Signature,
    SigningKey,
    cosign,
    sign_checkpoint,
)

LOG = SigningKey(bytes(range(32)), "example.com/log")
OTHER_LOG = SigningKey(bytes(range(1, 33)), "example.com/other")
WITNESSES = [
    SigningKey(bytes([n]) * 32, f"witness.example/w{n}", ED25519_COSIGNATURE) for n in range(6)
]
CHECKPOINT = Checkpoint("example.com/log", 7, Hash(b"r" * 32))
SIGNED = sign_checkpoint(CHECKPOINT, LOG)
WITNESSED = Note(
    SIGNED.text,
    (*SIGNED.signatures, *(cosign(SIGNED.text, key, 1_700_000_000) for key in WITNESSES[:2])),
)

# No control characters, no lone surrogates.
_text = st.characters(exclude_categories=["Cc", "Cs"])
lines = st.text(_text, max_size=20)
names = st.text(_text, min_size=1, max_size=20).filter(
    lambda name: "+" not in name and not any(map(str.isspace, name))
)
hashes = st.binary(min_size=32, max_size=32).map(Hash)
numbers = st.integers(0, 2**63 - 1)
seeds = st.binary(min_size=32, max_size=32)
algorithms = st.sampled_from([ED25519, ED25519_COSIGNATURE])
signatures = st.builds(
    Signature, names, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80)
)
notes = st.builds(
    Note,
    st.lists(lines, min_size=1, max_size=6).map(lambda parts: "".join(f"{p}\n" for p in parts)),
    st.lists(signatures, min_size=1, max_size=4).map(tuple),
)
