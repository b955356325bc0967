"""Claims: which sentences say that something was done, in each language, and what supports them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.claims.service import find_claims
from forum.runs.claims import ActionClaim, ClaimedAction, Receipt, read_claims
from tests.features.claims import claim_sentences

EXAMPLES = {
    sentence: action
    for sentences in claim_sentences.EXAMPLES.values()
    for sentence, action in sentences.items()
}
UNSEEN = [
    (sentence, action)
    for table in (claim_sentences.EXTENSIONS, claim_sentences.HELD_OUT)
    for sentences in table.values()
    for sentence, action in sentences.items()
]
CLAIMS = {sentence: action for sentence, action in EXAMPLES.items() if action is not None}


def actions_in(text: str) -> list[ClaimedAction]:
    """Return the actions that a text claims."""
    return [claim.deed for claim in find_claims(text.encode(), ())]


@pytest.mark.parametrize(("sentence", "action"), EXAMPLES.items())
def test_a_sentence_claims_what_it_says_was_done(
    sentence: str, action: ClaimedAction | None
) -> None:
    """Negations, plans, conditions, requests and deeds of others are no claims."""
    claims = () if action is None else (ActionClaim(action, sentence),)

    assert find_claims(f"{sentence}.".encode(), ()) == claims


@pytest.mark.parametrize(("sentence", "action"), UNSEEN)
def test_a_sentence_that_made_no_rule_is_read_unless_it_is_a_known_limit(
    sentence: str, action: ClaimedAction | None
) -> None:
    """Remove a sentence from the limits when it is read: the list says how good the reader is.

    Of `HELD_OUT`, 14 of 20 claims are found, one of them as another action, and 2 of 20 other
    sentences are taken for claims.
    """
    is_read = actions_in(f"{sentence}.") == ([] if action is None else [action])

    assert is_read is (sentence not in claim_sentences.KNOWN_LIMITS)


@given(st.lists(st.sampled_from(tuple(EXAMPLES)), max_size=8), st.sampled_from((". ", "!\n")))
def test_a_sentence_means_the_same_among_others(sentences: list[str], end: str) -> None:
    """A negation in one sentence, or in one language, has no effect on the next."""
    text = "".join(sentence + end for sentence in sentences)

    assert actions_in(text) == [CLAIMS[sentence] for sentence in sentences if sentence in CLAIMS]


@given(st.sampled_from(tuple(CLAIMS)))
def test_a_question_is_no_claim(sentence: str) -> None:
    """Who asks whether something was done does not say so."""
    assert actions_in(f"{sentence}?") == []
    assert actions_in(f"{sentence} ?") == []


@pytest.mark.parametrize(
    ("sentence", "tool", "arguments", "is_supported"),
    [
        ("I checked the logs", "read", "/var/log/app.log", False),
        ("I checked app.log", "read", "/var/log/app.log", True),
        ("I read the contract", "read", "notes.md", False),
        ("Ich habe die Datei geprüft", "write", "die Datei notes.md", False),
        ("Ich habe notes.md geprüft", "write", "die Datei notes.md", True),
        ("J'ai lu tous les fichiers", "list", "tous les fichiers", False),
        ("J'ai consulté contrat.pdf", "open", '{"path": "docs/contrat.pdf"}', True),
        ("He revisado los archivos de las pruebas", "list", "los archivos de las pruebas", False),
        ("He revisado el informe de ventas", "search", '{"words": "ventas"}', True),
    ],
)
def test_a_look_is_supported_by_a_tool_call_that_shares_a_name(
    sentence: str, tool: str, arguments: str, *, is_supported: bool
) -> None:
    """Articles, verbs and words such as "file" are in every call, and name nothing."""
    (claim,) = find_claims(sentence.encode(), [Receipt("entry", tool, arguments, "")])

    assert claim == ActionClaim(ClaimedAction.CHECKED, sentence, "entry" if is_supported else "")


@pytest.mark.parametrize(
    ("result", "receipt"), [("12 passed", "entry"), ("11 passed, 1 failed", ""), ("ok", "")]
)
def test_tests_are_supported_by_counts_in_every_language(result: str, receipt: str) -> None:
    """A name is not enough: the tool must have counted tests that passed, and none that failed."""
    text = b"All tests pass. Alle Tests laufen durch. Tous les tests passent. Pasan los tests."
    claims = find_claims(text, [Receipt("entry", "tests", "tests", result)])

    assert [(claim.deed, claim.receipt) for claim in claims] == [("tests", receipt)] * 4


def test_recorded_claims_are_read() -> None:
    """Release 0.1.0 wrote the first form; a claim that no reader knows is none."""
    recorded = b'[{"deed":"file","text":"I wrote notes.md","receipt":"ab"}]'
    looked = b'[{"deed":"checked","text":"I checked the logs","receipt":""}]'

    assert read_claims(recorded) == (ActionClaim(ClaimedAction.FILE, "I wrote notes.md", "ab"),)
    assert read_claims(looked) == (ActionClaim(ClaimedAction.CHECKED, "I checked the logs"),)
    assert read_claims(b'[{"deed":"dreamt","text":"","receipt":""}]') == ()
