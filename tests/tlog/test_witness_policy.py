"""Policies: what the specification allows, what it forbids, and who makes a quorum."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.tlog import (
    ED25519,
    ED25519_COSIGNATURE,
    KnownLog,
    KnownWitness,
    SigningKey,
    VerifierKey,
    WitnessGroup,
    WitnessPolicy,
)
from tests.tlog.samples import LOG, OTHER_LOG, WITNESSES

KEYS = [key.verifier() for key in WITNESSES]
LOG_LINE = f"log {LOG.verifier()}\n"
W = [f"witness w{n} {key}\n" for n, key in enumerate(KEYS)]

# The example of tlog-policy, with keys.
EXAMPLE = f"""\
log {LOG.verifier()}

witness X1 {KEYS[0]}
witness X2 {KEYS[1]}
witness X3 {KEYS[2]}
group X-witnesses 2 X1 X2 X3

witness Y1 {KEYS[3]}
witness Y2 {KEYS[4]}
witness Y3 {KEYS[5]}
group Y-witnesses any Y1 Y2 Y3

group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
"""

words = st.text(
    st.characters(min_codepoint=0x21, exclude_characters="\x7f", exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
)


@st.composite
def policies(draw: st.DrawFn) -> WitnessPolicy:
    """Draw a policy with witnesses in nested groups."""
    logs = tuple(
        KnownLog(key.verifier(), draw(st.none() | words))
        for key in draw(st.lists(st.sampled_from([LOG, OTHER_LOG]), unique=True))
    )
    count = draw(st.integers(0, 5))
    names = draw(st.lists(words.filter(lambda w: w != "none"), min_size=9, max_size=9, unique=True))
    witnesses = tuple(
        KnownWitness(names[n], KEYS[n], draw(st.none() | words)) for n in range(count)
    )
    free, groups = [w.name for w in witnesses], list[WitnessGroup]()
    for name in names[count : count + 3]:
        members = draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        if members:
            groups.append(WitnessGroup(name, draw(st.integers(1, len(members))), tuple(members)))
            free = [n for n in free if n not in members] + [name]
    texts = ["none", *(w.name for w in witnesses), *(g.name for g in groups)]
    return WitnessPolicy(logs, witnesses, tuple(groups), draw(st.sampled_from(texts)))


def test_the_example_of_the_specification_means_what_it_says() -> None:
    """Two of the X and one of the Y, for each of the 64 sets of witnesses."""
    policy = WitnessPolicy.parse(EXAMPLE.encode())

    assert policy.log_keys == (LOG.verifier(),)
    assert policy.witness_keys == tuple(KEYS)
    for count in range(7):
        for some in combinations(KEYS, count):
            enough = sum(k in KEYS[:3] for k in some) >= 2 and any(k in KEYS[3:] for k in some)
            assert policy.is_satisfied_by(some) == enough


@given(policies())
def test_a_policy_is_read_back(policy: WitnessPolicy) -> None:
    """What we write is a policy file, and the same policy."""
    assert WitnessPolicy.parse(policy.encode()) == policy
    assert WitnessPolicy.parse(str(policy).encode(errors="surrogateescape")) == policy


@given(policies(), st.sets(st.sampled_from(KEYS)), st.sampled_from(KEYS))
def test_a_further_witness_never_spoils_a_quorum(
    policy: WitnessPolicy, some: set[VerifierKey], more: VerifierKey
) -> None:
    """Otherwise somebody could unmake a checkpoint by cosigning it."""
    assert policy.is_satisfied_by(some) <= policy.is_satisfied_by(some | {more})


def test_quorum_none_asks_for_nobody_and_a_single_witness_for_itself() -> None:
    """The two policies without a group; strangers count for nothing."""
    assert WitnessPolicy.parse(b"quorum none\n").is_satisfied_by([])
    witness_policy = WitnessPolicy.parse(f"{W[0]}{W[1]}quorum w0\n".encode())
    assert not witness_policy.is_satisfied_by([KEYS[1], LOG.verifier()])
    assert witness_policy.is_satisfied_by([KEYS[0]])


def test_a_key_under_another_name_is_not_the_witness() -> None:
    """The reader trusts a name together with its key."""
    policy = WitnessPolicy.parse(f"{W[0]}quorum w0\n".encode())
    renamed = VerifierKey("evil.example", ED25519_COSIGNATURE, KEYS[0].public)

    assert not policy.is_satisfied_by([renamed])


def test_layout_and_comments_mean_nothing() -> None:
    """Tabs, spaces, empty lines and comments, in any octets but control characters."""
    plain = f"{LOG_LINE}{W[0]}quorum w0\n"
    spread = "# \xff\n\n" + plain.replace(" ", " \t ").replace("\n", "\t \n \n\t# x\n")

    assert WitnessPolicy.parse(spread.encode("latin-1")) == WitnessPolicy.parse(plain.encode())


def test_names_are_octets() -> None:
    """A Kelvin sign is not a K, and what is not UTF-8 is still a name."""
    named = [b"K", "\N{KELVIN SIGN}".encode(), b"\xff\xc2"]
    lines = [b"witness %b %b\n" % (n, str(k).encode()) for n, k in zip(named, KEYS, strict=False)]
    data = b"".join(lines) + b"quorum \xff\xc2\n"
    policy = WitnessPolicy.parse(data)

    assert policy.encode() == data
    assert policy.is_satisfied_by([KEYS[2]])
    assert not policy.is_satisfied_by(KEYS[:2])


def test_a_policy_of_a_hundred_of_each_is_read() -> None:
    """The specification asks for 32."""
    seeds = [n.to_bytes(32) for n in range(200)]
    logs = [SigningKey(seed, "log", ED25519).verifier() for seed in seeds[:100]]
    keys = [SigningKey(seed, "w", ED25519_COSIGNATURE).verifier() for seed in seeds[100:]]
    policy = WitnessPolicy(
        tuple(KnownLog(key) for key in logs),
        tuple(KnownWitness(f"w{n}", key) for n, key in enumerate(keys)),
        tuple(WitnessGroup(f"g{n}", 1, (f"g{n - 1}" if n else "w0",)) for n in range(100)),
        "g99",
    )

    assert WitnessPolicy.parse(policy.encode()) == policy
    assert policy.is_satisfied_by(keys[:1])
    assert not policy.is_satisfied_by(keys[1:])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no quorum"),
        pytest.param("quorum none\nquorum none\n", id="two quorums"),
        pytest.param("quorum none", id="no newline at the end"),
        pytest.param("quorum\n", id="quorum of nothing"),
        pytest.param("quorum none none\n", id="quorum of two"),
        pytest.param("Quorum none\n", id="capitals"),
        pytest.param("quorum w0\n", id="undefined quorum"),
        pytest.param(f"quorum w0\n{W[0]}", id="quorum before its witness"),
        pytest.param("quorum none\r\n", id="carriage return"),
        pytest.param("quorum none\n#\x7f\n", id="control character in a comment"),
        pytest.param("quorum\u00a0none\n", id="a space that is none"),
        pytest.param(f"{LOG_LINE}{LOG_LINE}quorum none\n", id="log twice"),
        pytest.param(
            f"{LOG_LINE}log {SigningKey(LOG.seed, 'renamed').verifier()}\nquorum none\n",
            id="log key twice",
        ),
        pytest.param(f"log {KEYS[0]}\nquorum none\n", id="witness key for a log"),
        pytest.param("log x\nquorum none\n", id="no key"),
        pytest.param(f"log {LOG.verifier()} a b\nquorum none\n", id="two urls"),
        pytest.param("log\nquorum none\n", id="log without a key"),
        pytest.param(f"witness w {LOG.verifier()}\nquorum none\n", id="log key for a witness"),
        pytest.param(f"witness {KEYS[0]}\nquorum none\n", id="witness without a name"),
        pytest.param(f"{W[0]}{W[0].replace('w0', 'v0', 1)}quorum none\n", id="witness key twice"),
        pytest.param(f"{W[0]}{W[1].replace('w1', 'w0', 1)}quorum none\n", id="name twice"),
        pytest.param(f"witness none {KEYS[0]}\nquorum none\n", id="witness named none"),
        pytest.param(f"{W[0]}group w0 any w0\nquorum none\n", id="group named as a witness"),
        pytest.param(f"{W[0]}group none any w0\nquorum none\n", id="group named none"),
        pytest.param("group g any none\nquorum g\n", id="none as a member"),
        pytest.param("group g any\nquorum none\n", id="group of nobody"),
        pytest.param("group g all\nquorum none\n", id="all of nobody"),
        pytest.param("group g any g\nquorum g\n", id="group of itself"),
        pytest.param(f"group g any w0\n{W[0]}quorum g\n", id="group before its member"),
        pytest.param(f"{W[0]}group g 0 w0\nquorum g\n", id="threshold 0"),
        pytest.param("quorum none\n" * 1001, id="too many lines"),
        pytest.param("quorum none\n" + "#\n" * 600_000, id="too long"),
        pytest.param(f"{W[0]}group g 2 w0\nquorum g\n", id="threshold above the members"),
        pytest.param(f"{W[0]}group g 01 w0\nquorum g\n", id="threshold with a zero"),
        pytest.param(f"{W[0]}group g some w0\nquorum g\n", id="threshold in words"),
        pytest.param(f"{W[0]}{W[1]}group g 2 w0 w0\nquorum g\n", id="member twice"),
        pytest.param(
            f"{W[0]}group g any w0\ngroup h any w0\nquorum g\n", id="member of two groups"
        ),
    ],
)
def test_what_the_specification_forbids_is_refused(text: str) -> None:
    """A policy that is misread lets a forger in: in doubt there is no policy."""
    with pytest.raises(Malformed):
        WitnessPolicy.parse(text.encode())


@pytest.mark.parametrize(
    "name", ["", "a b", "a\tb", "a\nquorum none", "\x7f", "\ud800", "\udcc3\udca9"]
)
def test_a_name_that_would_be_read_differently_cannot_be_used(name: str) -> None:
    """Neither of a witness nor in an address."""
    with pytest.raises(Malformed):
        KnownWitness(name, KEYS[0])
    with pytest.raises(Malformed):
        KnownLog(LOG.verifier(), name)
    with pytest.raises(Malformed):
        WitnessGroup("g", 1, (name,))
