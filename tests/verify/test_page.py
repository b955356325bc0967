"""The verifier in `verify.html` agrees with verify.py; all tests of bundles compare them."""

import gzip
import re
from collections.abc import Iterator
from hashlib import sha256, sha512
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.evidence.verify_page import build_page
from forum.ledger.kinds import NoteFacts, Outcome
from forum.ledger.strand import Draft
from tests.docs.verify_page import GUIDE, render
from tests.verify.page import PageRejected, PageVerifier, encode, page_verifier
from tests.verify.samples import POLICY, RUN, TRUST, World, standalone, stranger
from tests.verify.test_standalone import RFC_8032, VECTORS

MAX_GZIP_SIZE = 73_000


@pytest.fixture(scope="module")
def page() -> PageVerifier:
    """Return the page under Node."""
    verifier = page_verifier()
    if verifier is None:
        pytest.skip("needs Node")
    return verifier


# The file


def test_the_page_is_the_same_each_time_and_its_digest_is_published() -> None:
    """Readers compare it with what they got; `python -m tests.docs.verify_page` writes it."""
    assert build_page() == build_page()
    assert GUIDE.read_text() == render()


def test_the_page_names_its_scripts_and_forbids_everything_else() -> None:
    """It loads nothing and sends nothing: its own policy says so, and nothing in it asks for it."""
    built = build_page()
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', built)

    # The second is that of a file which the page writes; Forum writes the same.
    assert policy[1:] == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert policy[0].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[0]
    assert not re.search(r"\b(?:src|href|url|innerHTML|eval|import)\b *[=(]", built)
    # The names of formats, which nobody asks for.
    named = (
        "https://in-toto.io/Statement/v1",
        "https://in-toto.io/attestation/svr/v0.1",
        "http://www.w3.org/2000/svg",
    )
    assert "://" not in re.sub("|".join(map(re.escape, named)), "", built)


def test_the_page_is_small() -> None:
    """Somebody is to read it."""
    assert len(gzip.compress(build_page().encode(), 9)) < MAX_GZIP_SIZE


def test_the_page_knows_every_problem_of_the_stand_alone_verifier(page: PageVerifier) -> None:
    """Under the same name, and against the same claim."""
    assert page.problems == standalone.REFUTED


# Hashes, signatures and words


@given(st.binary(max_size=300))
def test_hashes_are_those_of_the_standard(data: bytes) -> None:
    """Every length around the borders of blocks is drawn."""
    verifier = page_verifier()
    if verifier is None:
        pytest.skip("needs Node")
    assert verifier.ask("hashes", data=encode(data)) == [
        sha256(data).hexdigest(),
        sha512(data).hexdigest(),
    ]


def signatures() -> Iterator[tuple[bytes, bytes, bytes, bool]]:
    """Yield the vectors of RFC 8032 and of the specification."""
    for test in range(3):
        public, message, r, s = map(bytes.fromhex, RFC_8032[4 * test : 4 * test + 4])
        yield public, message, r + s, True
    for vector in VECTORS:
        public, message, signature = (
            bytes.fromhex(vector[name]) for name in ("public", "message", "signature")
        )
        yield public, message, signature, vector["holds"]


def test_signatures_hold_as_the_specification_says(page: PageVerifier) -> None:
    """RFC 8032 leaves verifiers a choice, and browsers choose otherwise."""
    for public, message, signature, holds in signatures():
        try:
            said = page.ask(
                "signature",
                key=encode(public),
                message=encode(message),
                signature=encode(signature),
            )
        except PageRejected:
            said = False
        assert said == holds


@given(
    st.text(max_size=20) | st.sampled_from(["'", '"', "'\"", "\\", "\u202e", "\x85\ufeff", "a b"])
)
def test_words_are_written_as_python_writes_them(text: str) -> None:
    """What a forger puts into a name must not change what a reader sees."""
    verifier = page_verifier()
    if verifier is None:
        pytest.skip("needs Node")
    said = verifier.ask("words", text=text)

    assert said["escaped"] == standalone.escape_text(text)
    assert re.fullmatch(r"[ -~]*", said["escaped"])
    assert not re.search(
        "[\u202a-\u202e\u2066-\u2069]", "".join(p["text"] for p in said["revealed"])
    )


LINES = POLICY.encode()


@pytest.mark.parametrize(
    "policy",
    [
        LINES,
        LINES.rstrip(b"\n"),
        LINES.replace(b"\n", b"\r\n"),
        b"# \xff\xfe a comment\n\n" + LINES,
        LINES.replace(b"quorum local", b"quorum none"),
        LINES.replace(b"quorum local", b"quorum other"),
        LINES + b"quorum local\n",
        LINES.replace(b"witness local", b"witness \xff").replace(b"quorum local", b"quorum \xff"),
        LINES.replace(b"forum.local/", b"forum\xff.local/"),
        LINES.replace(b"+93727de6+", b"+93727de7+"),
        LINES.replace(b"log example", b"log\texample"),
        LINES.replace(b"quorum local", b"group g 1 local\nquorum g"),
        LINES.replace(b"quorum local", b"group g 2 local\nquorum g"),
        LINES.replace(b"quorum local", b"group g all local nobody\nquorum g"),
        LINES.replace(b"quorum local", b"group g any local\ngroup h any local\nquorum g"),
        b"quorum none\n",
        b"",
    ],
)
def test_policies_are_accepted_or_refused_alike(page: PageVerifier, policy: bytes) -> None:
    """Whom a reader trusts must not depend on the program that reads it; nor the reason."""
    why = ""
    try:
        standalone.BundlePolicy(policy)
    except standalone.BundleRejected as error:
        why = str(error)
    text = ""
    try:
        page.ask("policy", policy=encode(policy))
    except PageRejected as error:
        text = str(error)

    # Bytes that are no UTF-8 are the same characters to both, which JSON cannot carry.
    assert re.sub("[^ -~]", "?", text) == re.sub("[^ -~]", "?", why)


# Speed


@pytest.mark.slow
def test_a_bundle_of_many_entries_takes_seconds(page: PageVerifier, tmp_path: Path) -> None:
    """16,384 entries take four to five seconds of processor time where nothing else runs."""
    world = World(tmp_path)
    main = world.ledger.open_run(RUN, "operator")
    drafts = [Draft(f"step-{n}", "agent", NoteFacts()) for n in range(16_381)]
    for start in range(0, len(drafts), 500):
        main.append(*drafts[start : start + 500])
    world.ledger.close_run(main, "operator", Outcome.OK)
    world.settle()
    bundle = world.bundle().encode()
    world.close()

    document = page.measure(bundle, stranger(TRUST))

    assert document["report"]["ok"]
    assert document["report"]["entries"] >= 16_383
    assert document["seconds"] < 15
