"""What code can tell of the asks of a request, whatever a judge says."""

import pytest

from forum.work.asks import find_ignored_questions, is_quoted_from
from forum.work.roles.intent import AskedPart, IntentOpinion

REQUEST = (
    "Answer three questions about HTTP. 1. What does status 429 mean? 2. Which response header "
    "tells a client how long to wait? 3. Why should a client add random jitter when it retries?"
)
ECHO = (
    "The status 429 means that the server is overloaded.\n\n"
    "Which response header tells a client how long to wait? <-\n\n"
    "Why should a client add random jitter when it retries? <-"
)


@pytest.mark.parametrize(
    ("span", "quoted"),
    [
        ("the status 429 means that the server is overloaded", True),
        ("The status 429 means ... is overloaded.", True),
        ("The status 429 means the server is overloaded", True),
        # Its words stand in the echoed question; the sentence does not.
        ("The header that tells a client how long to wait is the Retry-After header.", False),
        ("Retry-After", False),
        ("...", False),
    ],
)
def test_a_quotation_stands_in_its_order(span: str, *, quoted: bool) -> None:
    """A judge that quotes what it wishes to read has found nothing."""
    assert is_quoted_from(span, ECHO) is quoted


def test_a_question_that_nobody_mentions_is_not_met() -> None:
    """A judge that forgets a question cannot pass an answer that forgets it too."""
    met = AskedPart("What does status 429 mean?", "The status 429 means that the server", met=True)
    forgetful = IntentOpinion(passed=True, asks=(met,))

    assert forgetful.unmet_asks(REQUEST, ECHO) == [
        "Which response header tells a client how long to wait?",
        "Why should a client add random jitter when it retries?",
    ]
    answer = (
        "The status 429 means that the server is busy. The response header Retry-After tells the "
        "client how long to wait. With jitter, random pauses keep clients from retrying together."
    )
    assert forgetful.unmet_asks(REQUEST, answer) == []


def test_questions_of_a_document_are_not_asked() -> None:
    """Only a short request is sure to ask its questions itself."""
    letter = "Dear Sir, will you come to the harvest festival? " + "It rained all day. " * 200

    assert find_ignored_questions(f"Summarize: {letter}", "Summarize", "It rained.") == ()
