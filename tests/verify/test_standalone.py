"""The verifier for strangers: one file that agrees with Forum on every form and every key."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from hashlib import sha512
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.app import KINDS
from forum.errors import Malformed, ProofRejected, SignatureRejected
from forum.ledger.entry import MAX_ENTRY_SIZE, MAX_NESTING, MAX_PARENTS, Entry, Facts, Limit
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.zip_archive import unpack_archive
from forum.tlog import (
    ED25519,
    SigningKey,
    TlogProof,
    VerifierKey,
    WitnessPolicy,
    check_consistency,
    check_inclusion,
    hash_leaf,
    open_checkpoint,
    prove_consistency,
    prove_inclusion,
)
from forum.verify import Problem
from tests.ledger.samples import SAMPLE, entries, members_of
from tests.tlog.samples import LOG, SIGNED, WITNESSED, WITNESSES, notes
from tests.tlog.trees import view_in_memory
from tests.verify.samples import (
    POLICY,
    STANDALONE,
    TRUST,
    make_bundle,
    standalone,
    stranger,
    without,
)

ALLOWED = {
    "array",
    *("__future__", "argparse", "base64", "collections.abc", "datetime", "functools", "hashlib"),
    *("json", "re", "struct", "sys", "typing", "zlib"),
}
# What only a whole ledger can show.
LIVE_ONLY = {
    Problem.STRAY_ENTRY,
    Problem.COLUMN_MISMATCH,
    Problem.TABLE_MISMATCH,
    Problem.TAG_REJECTED,
    Problem.ROW_QUARANTINED,
    Problem.SCORE_INVALID,
    Problem.LEAF_MISMATCH,
    Problem.ROOT_MISMATCH,
    Problem.ENTRY_MISSING,
    Problem.TAIL_CUT,
    Problem.EPOCH_MISSING,
    Problem.LEFT_UNSEQUENCED,
    Problem.NOTHING_SIGNED,
    Problem.CATALOGUE_MISMATCH,
    Problem.DIRECTORY_BROKEN,
    Problem.RULE_MISSING,
}
# What shows only where a deliberation is played, or calls are replayed: it does neither.
PLAYED_ONLY = {
    problem for problem in Problem if problem.startswith(("session-", "run-course", "child-"))
}
P, L = standalone.P, standalone.L


def accepts(read: Callable[[], object]) -> bool:
    """Tell whether something is accepted, whichever of the two reads it."""
    try:
        read()
    except (Malformed, SignatureRejected, ProofRejected, standalone.BundleRejected):
        return False
    return True


# One file, on any Python


def test_it_imports_little_and_nothing_of_forum() -> None:
    """A stranger has Python, and nothing of ours."""
    nodes = list(ast.walk(ast.parse(STANDALONE.read_bytes())))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}

    assert imported == ALLOWED


def test_its_grammar_is_that_of_python_3_9() -> None:
    """It runs on what the stranger has, which may be older than what we develop with."""
    ast.parse(STANDALONE.read_bytes(), feature_version=(3, 9))


# What it knows


def form_of(hint: Any) -> object:  # noqa: ANN401  a type of any form
    """Return the type of a fact as the table of the stand-alone verifier writes it."""
    if get_origin(hint) is Annotated:
        return standalone.LIMIT if hint == Limit else standalone.COUNT
    if hint is str:
        return standalone.TEXT
    if get_origin(hint) is tuple:
        return [form_of(get_args(hint)[0])]
    assert issubclass(hint, Enum), f"the stand-alone verifier has no facts of type {hint}"
    return tuple(member.value for member in hint)


def test_it_knows_the_released_kinds() -> None:
    """A kind that only one of the two knows would be held to different rules."""
    table = {
        kind.name: (
            {
                field.name: (form_of(members_of(kind.facts)[field.name]),)
                if field.default is msgspec.NODEFAULT
                else (
                    form_of(members_of(kind.facts)[field.name]),
                    # JSON has arrays only.
                    list(field.default) if isinstance(field.default, tuple) else field.default,
                )
                for field in msgspec.structs.fields(kind.facts)
            },
            set(kind.bodies),
        )
        for kind in KINDS
    }

    assert table == standalone.KINDS
    assert [list(table[k][0]) for k in table] == [list(standalone.KINDS[k][0]) for k in table]


def test_it_knows_every_problem_that_a_bundle_can_have() -> None:
    """Under the same name, and against the same claim."""
    ours = {str(p): str(p.claim) for p in Problem if p not in LIVE_ONLY | PLAYED_ONLY}

    assert ours == standalone.REFUTED


def test_it_has_the_same_limits() -> None:
    """One entry more, or one byte, would be one disagreement."""
    limits = (standalone.MAX_ENTRY, standalone.MAX_PARENTS, standalone.MAX_NESTING)

    assert limits == (MAX_ENTRY_SIZE, MAX_PARENTS, MAX_NESTING)
    assert standalone.BundleEntry._fields == Entry.__struct_fields__


# Ed25519


def both_verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Verify a signature with the cryptography library and in plain Python, which must agree."""
    key = VerifierKey("x", ED25519, public)
    library = accepts(lambda: key.verify(message, signature))
    assert standalone.signature_holds(public, message, signature) == library
    return library


# RFC 8032 section 7.1, tests 1 to 3: public key, message, both halves of the signature.
RFC_8032 = """
d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a

e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155
5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b
3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c
72
92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da
085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00
fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025
af82
6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac
18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a
""".strip().split("\n")


@pytest.mark.parametrize("test", [0, 1, 2])
def test_the_vectors_of_rfc_8032_hold(test: int) -> None:
    """What others made, and not only what we made ourselves."""
    public, message, r, s = map(bytes.fromhex, RFC_8032[4 * test : 4 * test + 4])

    assert both_verify(public, message, r + s)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=40), st.integers(0, 511))
def test_a_signature_holds_and_with_any_bit_turned_does_not(
    seed: bytes, message: bytes, bit: int
) -> None:
    """For every key and message, in both implementations."""
    key = SigningKey(seed, "x")
    public, signature = key.verifier().public, key.sign(message)
    turned = (int.from_bytes(signature, "little") ^ 1 << bit).to_bytes(64, "little")

    assert both_verify(public, message, signature)
    assert not both_verify(public, message, turned)
    assert not both_verify(public, message + b"!", signature)
    assert not both_verify(public, message, signature[:-1])


def test_a_second_form_of_a_signature_is_refused() -> None:
    """S and s + L are the same number to the curve; only the smaller is a signature."""
    signature = LOG.sign(b"message")
    s = int.from_bytes(signature[32:], "little")

    for multiple in range(1, 8):
        other = signature[:32] + (s + multiple * L).to_bytes(32, "little")
        assert not both_verify(LOG.verifier().public, b"message", other)


def test_the_equation_has_no_cofactor() -> None:
    """With a key that has a part of small order the two equations differ; ours is OpenSSL's."""
    torsion = standalone.point_decode(
        bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    )
    secret = 12345
    public = standalone.point_encode(standalone.point_add(times(secret), torsion))
    held = []
    for nonce in range(1, 40):
        r = standalone.point_encode(times(nonce))
        h = int.from_bytes(sha512(r + public + b"message").digest(), "little") % L
        signature = r + ((nonce + h * secret) % L).to_bytes(32, "little")
        held.append(both_verify(public, b"message", signature))

        assert held[-1] == (h % 8 == 0)
    assert {*held} == {True, False}


VECTORS = json.loads(
    (Path(__file__).parents[2] / "docs/spec/ed25519.md")
    .read_text()
    .split("ed25519 -->\n```json\n")[1]
    .split("```")[0]
)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["what"]))
def test_the_vectors_of_the_specification_hold(vector: dict[str, Any]) -> None:
    """RFC 8032 leaves verifiers a choice; two that choose differently would divide readers."""
    public, message, signature = (
        bytes.fromhex(vector[name]) for name in ("public", "message", "signature")
    )

    assert (both_take(public) and both_verify(public, message, signature)) == vector["holds"]


def times(number: int) -> Any:  # noqa: ANN401  a point of the module
    """Multiply the base point."""
    total = standalone.ZERO
    for bit in f"{number:b}":
        total = standalone.point_add(total, total)
        total = standalone.point_add(total, standalone.BASE) if bit == "1" else total
    return total


ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)


def both_take(public: bytes) -> bool:
    """Take a public key with both, which must agree."""
    ours = accepts(lambda: VerifierKey("x", ED25519, public))
    assert accepts(lambda: standalone.check_public_key(public)) == ours
    return ours


@given(st.one_of(st.binary(min_size=32, max_size=32), st.binary(max_size=34)))
def test_both_accept_the_same_public_keys(public: bytes) -> None:
    """A key that one of them takes and the other does not would divide their readers."""
    both_take(public)


@pytest.mark.parametrize("y", [0, 1, P - 1, P, P + 1, P + 3, ORDER_8, P - ORDER_8])
@pytest.mark.parametrize("sign", [0, 1])
def test_both_refuse_the_same_odd_public_keys(y: int, sign: int) -> None:
    """Points of small order, numbers beyond the field, and x = 0 with a sign."""
    assert not both_take((y | sign << 255).to_bytes(32, "little"))


# Proofs


def both_include(proof: list[bytes], leaf: bytes, index: int, size: int, root: bytes) -> bool:
    """Check an inclusion proof with both, which must agree."""
    tree = standalone.BundleCheckpoint("", size, root)
    ours = accepts(lambda: check_inclusion(proof, leaf, index, size, root=root))
    assert accepts(lambda: standalone.check_inclusion(proof, leaf, index, tree)) == ours
    return ours


def both_continue(proof: list[bytes], old: tuple[int, bytes], new: tuple[int, bytes]) -> bool:
    """Check a consistency proof with both, which must agree."""
    trees = [standalone.BundleCheckpoint("", *tree) for tree in (old, new)]
    ours = accepts(lambda: check_consistency(proof, *old, *new))
    assert accepts(lambda: standalone.check_consistency(proof, *trees)) == ours
    return ours


def mutations(proof: list[bytes]) -> list[list[bytes]]:
    """Return what a proof could be taken for."""
    other = [b"x" * 32]
    changed = [[*proof[:at], *other, *proof[at + 1 :]] for at in range(len(proof))]
    return [*changed, proof[:-1], proof[1:], proof + other, other + proof, proof[::-1], []]


LEAVES = [hash_leaf(b"%d" % n) for n in range(20)]


@pytest.mark.parametrize("size", range(1, 14))
def test_both_accept_the_same_inclusion_proofs(size: int) -> None:
    """Every proof of every small tree, each mutation of it, and each other index."""
    view = view_in_memory(LEAVES[:size])
    root = view.root()
    for index in range(size):
        proof: list[bytes] = [*prove_inclusion(view, index)]

        assert both_include(proof, LEAVES[index], index, size, root=root)
        for other in range(size + 2):
            both_include(proof, LEAVES[index], other, size, root=root)
            both_include(proof, LEAVES[index], index, other, root=root)
        for mutated in mutations(proof):
            if mutated != proof:
                assert not both_include(mutated, LEAVES[index], index, size, root=root)


@pytest.mark.parametrize("size", range(14))
def test_both_accept_the_same_consistency_proofs(size: int) -> None:
    """Every pair of small trees, each mutation of its proof, and each other pair of sizes."""
    view = view_in_memory(LEAVES[:size])
    new = (size, view.root())
    for old_size in range(size + 1):
        old = (old_size, view.root(old_size))
        proof: list[bytes] = [*prove_consistency(view, old_size)]

        assert both_continue(proof, old, new)
        assert not both_continue(proof, (size + 1, old[1]), new)
        for mutated in mutations(proof):
            if mutated != proof:
                assert not both_continue(mutated, old, new)
        for other in range(size + 1):
            both_continue(proof, (other, old[1]), new)
            both_continue(proof, old, (other, new[1]))


# Keys, notes, policies


def with_edits(text: st.SearchStrategy[bytes], *pieces: bytes) -> st.SearchStrategy[bytes]:
    """Draw bytes in which some were taken out, or replaced by something else."""

    @st.composite
    def edited(draw: st.DrawFn) -> bytes:
        data = draw(text)
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(data)))
            end = min(len(data), at + draw(st.integers(0, 3)))
            piece = draw(st.one_of(st.sampled_from(pieces), st.binary(max_size=2)))
            data = data[:at] + piece + data[end:]
        return data

    return edited()


signed_notes = st.one_of(
    st.sampled_from([SIGNED.encode(), WITNESSED.encode()]), notes.map(lambda note: note.encode())
)


@given(with_edits(signed_notes, b"\n", b"\n\n", b" ", b"0", b"=", b"\x7f", "\u2014".encode()))
def test_both_open_the_same_checkpoints(data: bytes) -> None:
    """Whatever was done to a note."""
    keys = [LOG.verifier(), WITNESSES[0].verifier()]
    theirs = [standalone.read_key(str(key)) for key in keys]

    ours = accepts(lambda: open_checkpoint(data, keys))

    assert accepts(lambda: standalone.open_checkpoint(data, theirs)) == ours


@given(with_edits(st.just(str(LOG.verifier()).encode()), b"+", b" ", b"A", b"=", b"\x00"))
def test_both_read_the_same_keys(data: bytes) -> None:
    """Whatever a reader pastes."""
    text = data.decode(errors="surrogateescape")

    ours = accepts(lambda: VerifierKey.parse(text))

    assert accepts(lambda: standalone.read_key(text)) == ours


POLICIES = [
    POLICY.encode(),
    "\n".join(
        [
            "# whom we believe",
            f"log {LOG.verifier()} https://log.example",
            *(f"witness w{n} {key.verifier()}" for n, key in enumerate(WITNESSES[:4])),
            "independent w1",
            "group inner any w0 w1",
            "group all-others all w2 w3",
            "group outer 1 inner all-others",
            "quorum outer\n",
        ]
    ).encode(),
]
POLICY_PIECES = [b"\n", b"\t", b"none", b"w0", b"w1", b"inner", b"any", b"2", b"0", b"\xff", b"\r"]
POLICY_PIECES += [b"\nquorum none\n", b"\ngroup g 1 none\n", b"\ngroup w0 1 w3\n", b"#", b" "]
POLICY_PIECES += [b"\nindependent w0\n", b"\nindependent inner\n", b"\nindependent w0 w1\n"]


@given(with_edits(st.sampled_from(POLICIES), *POLICY_PIECES), st.sets(st.integers(0, 3)))
def test_both_read_the_same_policies(data: bytes, seen: set[int]) -> None:
    """And the same witnesses satisfy them."""
    ours = accepts(lambda: WitnessPolicy.parse(data))

    assert accepts(lambda: standalone.BundlePolicy(data)) == ours
    if ours:
        keys = [WITNESSES[n].verifier() for n in seen]
        cosigned = [standalone.BundleCosignature(standalone.read_key(str(key)), 0) for key in keys]
        satisfied = WitnessPolicy.parse(data).is_satisfied_by(keys) and bool(keys)
        assert standalone.BundlePolicy(data).is_satisfied_by(cosigned) == satisfied


# Entries


def both_read(data: bytes) -> bool:
    """Read an entry with both, which must agree."""
    ours = accepts(lambda: LEDGER_KINDS.read(data))
    assert accepts(lambda: standalone.read_entry(data)) == ours, data
    return ours


@given(entries())
def test_both_read_every_entry_that_can_be_written(entry: Entry[Facts]) -> None:
    """Of any kind, with whatever text in its facts."""
    data = LEDGER_KINDS.write(entry)

    assert both_read(data)
    assert standalone.read_entry(data).n == entry.n


PIECES = [b'"', b"\\", b"\\n", b"\\u0041", b"{}", b"[]", b"null", b"true", b"1.0", b"-0", b" "]
PIECES += [
    b"\x7f",
    b"\xc2\x80",
    b"\xed\xa0\x80",
    b'"n":0,',
    b"1e3",
    b"0",
    b"",
    b'"",',
    b"\xe2\x80\xa8",
]


@given(with_edits(entries().map(LEDGER_KINDS.write), *PIECES))
def test_both_refuse_the_same_altered_entries(data: bytes) -> None:
    """Whatever was put into the bytes of an entry, or taken out of them."""
    both_read(data)


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.floats(),
        st.integers(-(2**70), 2**70),
        st.sampled_from([0, 1, 2**53 - 1, 2**53, -(2**53) + 1, -(2**53)]),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def with_member(name: str, value: str, kind: str = "unknown/1") -> bytes:
    """Return an entry of some kind, with the JSON of one member replaced."""
    members = json.loads(SAMPLE)
    members |= {"kind": kind, "bodies": {}, "facts": {}}
    written = {
        n: json.dumps(v, ensure_ascii=False, separators=(",", ":")) for n, v in members.items()
    }
    written[name] = value
    return ("{" + ",".join(f'"{n}":{v}' for n, v in written.items()) + "}").encode(
        errors="surrogatepass"
    )


@given(values, st.sampled_from(["facts", "parents", "bodies", "n", "ts", "run", "v", "prev"]))
def test_both_hold_unknown_kinds_to_the_same_general_rules(value: object, member: str) -> None:
    """What a later release records must be read alike by both, or refused by both."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    both_read(with_member(member, written))


@pytest.mark.parametrize("depth", [1, 14, 15, 16, 17, 900, 1100])
def test_both_follow_facts_equally_deep(depth: int) -> None:
    """What can be read must not depend on a reader's stack."""
    facts = '{"a":' + "[" * depth + "]" * depth + "}"

    assert both_read(with_member("facts", facts)) == (depth < MAX_NESTING)


FACTS = [
    ("note/1", "{}", True),
    ("note/1", '{"a":1}', False),
    ("run.open/1", "{}", True),
    ("run.open/1", '{"after_size":0}', False),
    ("run.open/1", '{"after_root":""}', False),
    ("run.open/1", '{"after_size":true}', False),
    ("run.open/1", '{"after_size":1.0}', False),
    ("run.open/1", '{"after_size":1,"after_root":"x"}', True),
    ("run.open/1", '{"after_root":"x","after_size":1}', False),
    ("run.open/1", '{"after_size":9007199254740992}', False),
    ("run.open/1", '{"after_size":1,"after_size":1}', False),
    ("run.close/1", '{"outcome":"ok"}', False),
    ("run.close/1", '{"outcome":"fine","strands":0}', False),
    ("run.close/1", '{"outcome":"ok","strands":0}', True),
    ("redact/1", '{"entry":"e","body":"b","reason":"secret"}', True),
    ("redact/1", '{"entry":"e","body":"b","reason":null}', False),
    ("redact/1", '{"entry":"e","body":"b","reason":"secret","more":"x"}', False),
    ("redact/2", '{"bodies":["0/text","x"],"reason":"retention","rule":"*"}', True),
    ("redact/2", '{"bodies":[],"reason":"legal"}', True),
    ("redact/2", '{"bodies":"0/text","reason":"legal"}', False),
    ("redact/2", '{"bodies":["0/text"],"reason":"legal","rule":""}', False),
    ("retention/1", '{"subject":"*","seconds":0}', True),
    ("retention/1", '{"subject":"*"}', False),
    ("hold/1", '{"hold":"a","act":"place","runs":["r"]}', True),
    ("hold/1", '{"hold":"a","act":"place","runs":[]}', False),
    ("hold/1", '{"hold":"a","act":"keep"}', False),
    ("key.add/1", '{"vkey":"\\u0000"}', False),
    ("key.add/1", '{"vkey":"\\ud800"}', False),
    ("key.add/1", '{"vkey":"\u2028"}', True),
    ("key.add/1", '{"vkey":"\\"\\\\"}', True),
    ("key.add/1", '{"vkey":["x"]}', False),
    ("log.open/1", '{"program":"p","left_size":3}', True),
    ("log.open/1", '{"left_size":3}', False),
]


@pytest.mark.parametrize(("kind", "facts", "good"), FACTS)
def test_both_hold_known_kinds_to_their_facts(kind: str, facts: str, good: bool) -> None:  # noqa: FBT001
    """A released kind has these members, in this order, without those that have their default."""
    assert both_read(with_member("facts", facts, kind)) == good


@pytest.mark.parametrize(
    ("kind", "name", "good"),
    [("note/1", "text", True), ("note/1", "other", False), ("unknown/1", "other", True)],
)
def test_both_know_the_bodies_of_a_kind(kind: str, name: str, good: bool) -> None:  # noqa: FBT001
    """A body of a name that its kind does not have has no meaning."""
    bodies = f'{{"{name}":{{"h":"{"0" * 64}","size":0,"type":"text/plain"}}}}'

    assert both_read(with_member("bodies", bodies, kind)) == good


# Proof files


@given(st.data())
def test_both_read_the_same_proof_files(data: st.DataObject) -> None:
    """Whatever was done to one."""
    proof = TlogProof(5, tuple(LEAVES[:3]), SIGNED, data.draw(st.sampled_from([None, b"", b"x"])))
    pieces = (b"\n", b"\n\n", b"extra ", b"index ", b"0", b"=", b" ", "\u0661".encode())
    altered = data.draw(with_edits(st.just(proof.encode()), *pieces))

    ours = accepts(lambda: TlogProof.parse(altered))

    assert accepts(lambda: standalone.read_proof(altered)) == ours


# The command line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a bundle, a policy and a key, as a stranger would have them."""
    folder = tmp_path_factory.mktemp("stranger")
    bundle = make_bundle(folder, STANDALONE.read_bytes())
    (folder / "run.zip").write_bytes(bundle)
    (folder / "cut.zip").write_bytes(
        without(bundle, "bodies/0000000000000005", "salts/0000000000000005")
    )
    (folder / "policy").write_bytes(POLICY.encode())
    (folder / "bad-policy").write_bytes(b"quorum nobody\n")
    (folder / "checkpoint").write_bytes(unpack_archive(bundle)["checkpoint"])
    (folder / "verify.py").write_bytes(unpack_archive(bundle)["verify.py"])
    return folder


def run_alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the file that the bundle encloses, without any package in reach."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "verify.py", *arguments],
        cwd=folder,
        env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("run.zip --policy policy", 0),
        ("run.zip --policy policy --seen checkpoint --json", 0),
        ("run.zip", 3),
        (f"run.zip --key {LOG.verifier()}", 3),
        ("cut.zip --policy policy", 3),
        ("policy --policy policy", 3),
        ("run.zip --policy policy --seen policy", 3),
        ("", 2),
        ("nowhere.zip --policy policy", 2),
        ("run.zip --policy nowhere", 2),
        ("run.zip --policy bad-policy", 2),
        ("run.zip --policy policy --key nonsense", 2),
        ("run.zip --policy policy --seen nowhere", 2),
        ("run.zip --policy policy --unknown", 2),
    ],
)
def test_the_exit_status_tells_the_verdict(folder: Path, arguments: str, status: int) -> None:
    """0 only with the reader's own key and policy, 3 for anything less, 2 for wrong usage."""
    ran = run_alone(folder, *arguments.split())

    assert ran.returncode == status, ran.stderr
    assert bool(ran.stderr) == (status == 2)


def test_json_is_the_whole_report(folder: Path) -> None:
    """What a program reads is what the functions return."""
    printed = json.loads(run_alone(folder, "run.zip", "--policy", "policy", "--json").stdout)

    assert printed == standalone.verify((folder / "run.zip").read_bytes(), stranger(TRUST))
    assert printed["schema"] == "forum.report/1"


def test_text_names_claims_and_findings(folder: Path) -> None:
    """A person reads three words, and what speaks against them."""
    lines = run_alone(folder, "cut.zip", "--policy", "policy").stdout.splitlines()

    assert [line.split()[:2] for line in lines[1:4]] == [
        ["intact", "holds"],
        ["complete", "fails"],
        ["independent", "self-witnessed"],
    ]
    assert lines[4].startswith("found        body-missing at entry 5, ")


def test_a_bundle_cannot_write_to_the_terminal(folder: Path) -> None:
    """Its name could otherwise erase the verdict and print another one."""
    forged = standalone.escape_text("\x1b[2Jintact holds \u202e\ud800 \u2713")

    assert forged.isascii()
    assert forged.isprintable()
    assert standalone.escape_text("intact  holds") == "intact  holds"
