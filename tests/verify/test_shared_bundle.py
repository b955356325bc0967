"""Bundles in which bodies share bytes: forum/bundle/3."""

import pytest

from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.zip_archive import unpack_archive
from forum.verify import Report, verify_bundle
from tests.verify.conversations import conversation, prompts
from tests.verify.go_verifier import go_verifier, verify_by_go
from tests.verify.samples import TRUST, as_json, problems, stranger, verify_alone, without_wording
from tests.verify.span_frauds import FRAUDS, forge


def verify_both(data: bytes) -> Report:
    """Verify with Forum and with the stand-alone file, which must say the same."""
    report = verify_bundle(data, LEDGER_KINDS, TRUST)
    stated = verify_alone(data, stranger(TRUST))
    assert without_wording(stated) == without_wording(as_json(report))
    if go_verifier():
        assert without_wording(verify_by_go(data, stranger(TRUST))) == without_wording(stated)
    return report


def test_a_conversation_holds_and_is_stored_once() -> None:
    """Each prompt repeats the one before it: the pieces have what was said, and little more."""
    data = conversation(50, 900)
    report = verify_both(data)
    assert report.ok
    files = unpack_archive(data)
    said = len(list(prompts(50, 900))[-1])
    stored = sum(
        len(content) for name, content in files.items() if name.startswith(("pieces/", "spans/"))
    )
    assert stored < 1.3 * said


@pytest.mark.parametrize("name", FRAUDS)
def test_every_fraud_against_spans_is_found(name: str) -> None:
    """Nothing but the bodies that were recorded can be read out of a bundle."""
    fraud, expected = FRAUDS[name]
    found = problems(verify_both(forge(fraud)))
    assert found
    assert found <= expected
