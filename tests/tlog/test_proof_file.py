"""The proof file, from an entry to a verdict without a network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.tlog import (
    Checkpoint,
    Hash,
    Note,
    TlogProof,
    check_inclusion,
    hash_leaf,
    open_checkpoint,
    prove_inclusion,
    sign_checkpoint,
)
from tests.tlog.samples import LOG, SIGNED, hashes, notes, numbers
from tests.tlog.trees import view_in_memory

HEAD = b"c2sp.org/tlog-proof@v1\n"
NOTE = SIGNED.encode()
HASH = Hash(b"a" * 32).base64().encode()


def test_a_stranger_can_check_an_entry_with_the_file_and_the_key_alone() -> None:
    """The steps of tlog-proof, section Verifying a tlog proof."""
    leaves = [hash_leaf(b"entry %d" % n) for n in range(7)]
    view = view_in_memory(leaves)
    note = sign_checkpoint(Checkpoint(LOG.name, 7, view.root()), LOG)
    data = TlogProof(3, tuple(prove_inclusion(view, 3)), note).encode()

    read = TlogProof.parse(data)
    checkpoint, _ = open_checkpoint(read.note, [LOG.verifier()])
    check_inclusion(
        read.hashes, hash_leaf(b"entry 3"), read.index, checkpoint.size, root=checkpoint.root
    )


@given(
    numbers,
    st.lists(hashes, max_size=63).map(tuple),
    notes,
    st.one_of(st.none(), st.binary(max_size=30)),
)
def test_a_proof_file_is_read_back(
    index: int, path: tuple[Hash, ...], note: Note, extra: bytes | None
) -> None:
    """With extra data, with empty extra data, and without."""
    proof = TlogProof(index, path, note, extra)

    assert TlogProof.parse(proof.encode()) == proof


def test_the_parts_stand_in_the_order_of_the_specification() -> None:
    """Header, extra data, index, hashes, an empty line, the checkpoint."""
    proof = TlogProof(73894, (Hash(b"a" * 32),), SIGNED, b"data")

    assert proof.encode() == HEAD + b"extra ZGF0YQ==\nindex 73894\n" + HASH + b"\n\n" + NOTE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        NOTE,
        HEAD,
        HEAD + b"\n" + NOTE,
        HEAD + b"index 1\n",
        HEAD + b"index 1\n" + NOTE,
        HEAD + b"index 01\n\n" + NOTE,
        HEAD + b"index -1\n\n" + NOTE,
        HEAD + b"index\n\n" + NOTE,
        HEAD + b"index 1\n" + HASH[:-4] + b"\n\n" + NOTE,
        HEAD + b"index 1\n" + b"\xc3\xa9" + HASH + b"\n\n" + NOTE,
        HEAD + b"index 1\nextra ZGF0YQ==\n\n" + NOTE,
        HEAD + b"extra ZGF0YQ\nindex 1\n\n" + NOTE,
        HEAD + b"extra ZGF0YQ==\nextra ZGF0YQ==\nindex 1\n\n" + NOTE,
        HEAD + b"index 1\n" + (HASH + b"\n") * 64 + b"\n" + NOTE,
        HEAD.replace(b"v1", b"v2") + b"index 1\n\n" + NOTE,
        HEAD.replace(b"\n", b"\r\n") + b"index 1\r\n\r\n" + NOTE,
    ],
)
def test_a_proof_file_in_another_form_is_refused(data: bytes) -> None:
    """Before anything in it is verified."""
    with pytest.raises(Malformed):
        TlogProof.parse(data)
