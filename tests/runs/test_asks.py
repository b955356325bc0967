"""What code can tell of the asks of a request, whatever a judge says."""

import pytest

from forum.runs.asks import find_ignored_questions, is_quoted_from, split_questions
from forum.runs.roles.intent import AskedPart, IntentOpinion

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


NOTES = "\n\nNotes:\nThe keeper of Birka is Ida Krag. Birka was built in 1822."
LISTED = "Answer these questions from the notes below.\n{}Say nothing about other places." + NOTES


def test_a_list_of_questions_is_split_into_the_request_with_each_of_them() -> None:
    """What stands around the list belongs to every question."""
    request = LISTED.format("1. Who is the keeper of Birka?\n2. When was Birka built? ")

    assert split_questions(request) == (
        LISTED.format("Who is the keeper of Birka? "),
        LISTED.format("When was Birka built? "),
    )


@pytest.mark.parametrize(
    "request_text",
    [
        pytest.param("1. Who is the keeper of Birka?", id="one question"),
        pytest.param("1. Who keeps Birka?\n2. When was it built?", id="refers to another one"),
        pytest.param("1. Who keeps Birka?\n3. When was Elsby built?", id="not counted"),
        pytest.param("1. Who keeps Birka?\n- Why?\n2. Who keeps Elsby?", id="two lists"),
        pytest.param("Write a poem.\n1. Who keeps A?\n2. Who keeps B?", id="asks before"),
        pytest.param("1. Who keeps A?\n2. Who keeps B?\n\nThen compare both.", id="asks after"),
        pytest.param("1. Who keeps A?\nMind the gap.\n2. Who keeps B?", id="words between"),
        pytest.param("\n".join(f"{n}. Who keeps {n}?" for n in range(1, 10)), id="too many"),
        pytest.param("1. Who keeps A?\n2. Who keeps B?" + " " * 4_000, id="a long request"),
        pytest.param("How long is the Danube?", id="no list"),
    ],
)
def test_what_code_cannot_take_apart_stays_whole(request_text: str) -> None:
    """A task that lacks what its question refers to answers something else."""
    assert split_questions(request_text) == ()
