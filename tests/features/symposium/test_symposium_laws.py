"""The laws of the protocol: what gives a forged session away when its digests are good."""

import copy
import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.canonical_json import transcript_digest
from forum.features.symposium.decoders import read_artifact
from forum.features.symposium.violations import Invariant
from tests.features.council.forged import ANSWER, cut_short, honest, mutate, repaired, request

Session: TypeAlias = dict[str, Any]
Forge: TypeAlias = Callable[[Session], object]
Forgeries: TypeAlias = dict[str, tuple[Forge, Invariant]]


def faults_of(session: Session) -> tuple[str, ...]:
    """Return all that is wrong with a session, in words."""
    return tuple(str(fault) for fault in check_artifact(json.dumps(session).encode()))


def laws_broken(session: Session) -> set[Invariant]:
    """Return which laws a session breaks."""
    return {fault.law for fault in check_artifact(json.dumps(session).encode())}


@pytest.mark.parametrize("make", [honest, cut_short])
def test_an_honest_session_breaks_no_law(make: Callable[[], Session]) -> None:
    """Otherwise nothing that is found in a forgery would mean anything."""
    assert faults_of(make()) == ()


def said(session: Session, index: int) -> dict[str, Any]:
    """Return a message of a session."""
    message: dict[str, Any] = session["canonical_transcript"][index]
    return message


def top(**members: object) -> Forge:
    """Change members of the artifact itself."""
    return lambda session: session.update(members)


def config(part: str, **members: object) -> Forge:
    """Change members of a part of the config."""
    return lambda session: session["config"][part].update(members)


def message(index: int, **members: object) -> Forge:
    """Change members of a message."""
    return lambda session: said(session, index).update(members)


def content(index: int, **members: object) -> Forge:
    """Change members of what was said."""
    return lambda session: said(session, index)["content"].update(members)


def usage(index: int, **members: object) -> Forge:
    """Change what a message says that it cost."""
    return lambda session: said(session, index)["usage"].update(members)


def ending(**members: object) -> Forge:
    """Change members of the termination."""
    return lambda session: session["outcome"]["termination_artifact"].update(members)


def without(index: int) -> Forge:
    """Take a message out."""
    return lambda session: session["canonical_transcript"].pop(index)


def with_another(index: int, like: int, **members: object) -> Forge:
    """Put a message in that is like another one."""

    def forge(session: Session) -> None:
        new = copy.deepcopy(said(session, like)) | {"id": "forged"} | members
        session["canonical_transcript"].insert(index, new)
        for number, later in enumerate(session["canonical_transcript"][index + 1 :], 1):
            if later["round"] == new["round"]:
                later["turn_index"] = new["turn_index"] + number

    return forge


def swapped(one: int, other: int) -> Forge:
    """Put the words of one agent into another one's mouth, and the other way round."""

    def forge(session: Session) -> None:
        first, second = said(session, one), said(session, other)
        first["speaker"], second["speaker"] = second["speaker"], first["speaker"]

    return forge


def unsaid(index: int, note: str) -> Forge:
    """Take the last of some notes of a message away."""

    def forge(session: Session) -> None:
        said(session, index)[note].pop()
        if not said(session, index)[note]:
            del said(session, index)[note]

    return forge


def unasked(index: int) -> Forge:
    """Take the third request of a turn away."""
    return lambda session: said(session, index)["content"]["direct_requests"].pop(2)


def third_round(session: Session) -> None:
    """Call the second round the third."""
    for later in session["canonical_transcript"][6:]:
        later["round"] = 3


def twins(session: Session) -> None:
    """Give two agents the same name."""
    session["config"]["agents"][2]["id"] = "b"


NINE, STRANGERS = "2031-05-01T09:00:00Z", ["a", "b", "c", "x"]
FAILURE = {"agent_id": "z", "provider": "p", "kind": "internal", "message": "out of order"}

OF_AN_ANSWER: Forgeries = {
    "another session": (top(session_id="tunnels"), Invariant.SESSION),
    "a version to come": (top(schema_version="2.0.0"), Invariant.VERSION),
    "another problem": (message(0, content="which tunnel first?"), Invariant.OPENING),
    "no problem": (without(0), Invariant.OPENING),
    "the problem again": (with_another(4, 0), Invariant.OPENING),
    "a stranger's problem": (message(0, speaker="guest"), Invariant.SPEAKER),
    "a problem that cost something": (usage(0, total_tokens=5), Invariant.USAGE),
    "two speakers swapped": (swapped(3, 4), Invariant.DECLARED_ORDER),
    "a turn removed": (without(4), Invariant.COORDINATOR_LAST),
    "a turn at a place that is taken": (message(4, turn_index=3), Invariant.ORDER),
    "a second turn": (with_another(5, 4, turn_index=5), Invariant.DECLARED_ORDER),
    "a turn after the verdict": (with_another(6, 4, turn_index=6), Invariant.COORDINATOR_LAST),
    "a stranger's turn": (message(3, speaker="stranger"), Invariant.SPEAKER),
    "an agent's verdict": (message(5, speaker="a"), Invariant.SPEAKER),
    "an id used twice": (message(7, id="m4"), Invariant.IDS),
    "a round left out": (third_round, Invariant.ORDER),
    "a round too many": (config("budget", max_rounds=1), Invariant.CAPS),
    "tokens beyond the cap": (config("budget", max_total_tokens=50), Invariant.CAPS),
    "a price beyond the cap": (config("budget", max_total_cost_usd=0.25), Invariant.CAPS),
    "an agent's cap": (config("budget", per_agent_token_budget={"a": 10}), Invariant.CAPS),
    "a verdict removed": (without(5), Invariant.COORDINATOR_LAST),
    "a verdict that ended it": (content(5, next_action="finalize"), Invariant.COORDINATOR_LAST),
    "an answer that nobody wanted": (content(10, next_action="continue"), Invariant.OUTCOME),
    "somebody else's reply": (message(2, speaker="c"), Invariant.BRANCH),
    "a reply to the problem": (message(2, parent_id="m0"), Invariant.BRANCH),
    "a reply to a later turn": (message(2, parent_id="m4"), Invariant.BRANCH),
    "a reply removed": (without(2), Invariant.BRANCH),
    "a late reply removed": (without(6), Invariant.BRANCH),
    "a second reply": (with_another(3, 2, turn_index=3), Invariant.BRANCH),
    "a reply that asks": (content(2, direct_requests=[request("a")]), Invariant.BRANCH),
    "a request removed": (unasked(1), Invariant.BRANCH),
    "a request that was dropped": (unsaid(1, "dropped_deferred"), Invariant.NOTES),
    "a request that failed": (unsaid(1, "schema_failure"), Invariant.NOTES),
    "a note of the coordinator": (message(5, suggested_followups=[request("a")]), Invariant.NOTES),
    "a failure removed": (without(8), Invariant.DECLARED_ORDER),
    "somebody else's failure": (content(8, agent_id="c"), Invariant.CONTRACTION),
    "a failure that ends it": (
        config("runtime", on_agent_failure="terminate"),
        Invariant.CONTRACTION,
    ),
    "time that falls": (message(4, timestamp=NINE), Invariant.TIME),
    "time that is none": (message(4, timestamp="yesterday"), Invariant.TIME),
    "an end before the beginning": (top(ended_at=NINE), Invariant.TIME),
    "less than its parts": (usage(4, total_tokens=1), Invariant.USAGE),
    "another outcome": (
        top(outcome={"kind": "synthesis", "synthesis_message_id": "m10"}),
        Invariant.OUTCOME,
    ),
    "nothing left open": (top(cumulative_unresolved=[]), Invariant.UNRESOLVED),
    "another panel": (
        config("selector", default_deliberation_panel=["b", "a", "c"]),
        Invariant.DECLARED_ORDER,
    ),
    "a stranger on it": (config("selector", default_deliberation_panel=STRANGERS), Invariant.PANEL),
    "another coordinator": (config("selector", coordinator_agent="a"), Invariant.PANEL),
    "two agents of one name": (twins, Invariant.PANEL),
}

OF_A_TERMINATION: Forgeries = {
    "another last verdict": (ending(most_recent_verdict=None), Invariant.OUTCOME),
    "another question": (
        ending(pending_user_input_request={"question": "who?"}),
        Invariant.OUTCOME,
    ),
    "another last round": (ending(final_round=2), Invariant.OUTCOME),
    "a failure of nobody": (ending(last_provider_failure=FAILURE), Invariant.OUTCOME),
    "nothing left open": (ending(unresolved_disagreements=[]), Invariant.UNRESOLVED),
    "an answer": (
        with_another(5, 4, type="synthesis", turn_index=5, content=ANSWER),
        Invariant.OUTCOME,
    ),
}


@pytest.mark.parametrize(("forge", "law"), OF_AN_ANSWER.values(), ids=OF_AN_ANSWER)
def test_a_forged_answer_with_good_digests_and_sums_is_told(forge: Forge, law: Invariant) -> None:
    """Whoever can change a transcript can hash it: the rest of the protocol gives them away."""
    session = honest()
    forge(session)
    broken = laws_broken(repaired(session))

    assert law in broken
    assert broken.isdisjoint({Invariant.FORM, Invariant.DIGEST})


@pytest.mark.parametrize(("forge", "law"), OF_A_TERMINATION.values(), ids=OF_A_TERMINATION)
def test_a_forged_termination_with_good_digests_and_sums_is_told(
    forge: Forge, law: Invariant
) -> None:
    """So is the end of a session that has no answer."""
    session = cut_short()
    forge(session)
    broken = laws_broken(repaired(session))

    assert law in broken
    assert broken.isdisjoint({Invariant.FORM, Invariant.DIGEST})


def spent(**members: object) -> Forge:
    """Change what the session says that it cost."""
    return lambda session: session["cumulative_usage"].update(members)


NOT_COVERED_UP: Forgeries = {
    "a word": (content(3, text="no"), Invariant.DIGEST),
    "the digest": (top(transcript_digest="0" * 64), Invariant.DIGEST),
    "tokens": (spent(total_tokens=1), Invariant.USAGE),
    "the price": (spent(cost_usd=0.01), Invariant.USAGE),
    "whether it was estimated": (spent(estimated=True), Invariant.USAGE),
    "a member that no message has": (message(3, mood="good"), Invariant.FORM),
}


@pytest.mark.parametrize(("forge", "law"), NOT_COVERED_UP.values(), ids=NOT_COVERED_UP)
def test_a_change_that_was_not_covered_up_is_told(forge: Forge, law: Invariant) -> None:
    """The plainest kind of forgery."""
    session = honest()
    forge(session)

    assert laws_broken(session) == {law}


def test_the_digest_of_a_termination_is_that_of_the_transcript() -> None:
    """It is written twice, and has to be right twice."""
    session = cut_short()
    ending(transcript_digest="0" * 64)(session)

    (fault,) = check_artifact(json.dumps(session).encode())
    assert (fault.law, fault.where) == (
        Invariant.DIGEST,
        "$.outcome.termination_artifact.transcript_digest",
    )


@given(st.data())
def test_no_change_of_a_transcript_goes_unnoticed(data: st.DataObject) -> None:
    """Wherever it is, and whatever it is changed into, unless it says the same."""
    session = data.draw(st.sampled_from([honest, cut_short]))()
    before = transcript_digest(session["canonical_transcript"])
    mutate(session["canonical_transcript"], data)
    same = transcript_digest(session["canonical_transcript"]) == before

    assert same or laws_broken(session) & {Invariant.DIGEST, Invariant.FORM}


@given(st.data())
def test_every_artifact_gets_an_answer(data: st.DataObject) -> None:
    """A checker that can be made to stop is one that can be got around."""
    session = data.draw(st.sampled_from([honest, cut_short]))()
    for _ in range(data.draw(st.integers(1, 4))):
        mutate(session, data)

    assert all(faults_of(session))


def test_a_panel_that_was_chosen_is_known_from_the_first_round() -> None:
    """It is not in the artifact, yet whoever spoke once has to speak in the same order again."""
    chosen = honest()
    config("selector", strategy="rules", default_deliberation_panel=["c"])(chosen)
    forged = copy.deepcopy(chosen)
    swapped(7, 9)(forged)

    assert laws_broken(repaired(chosen)) == set()
    assert Invariant.DECLARED_ORDER in laws_broken(repaired(forged))


def test_a_chosen_panel_that_was_not_heard_out_is_not_guessed_at() -> None:
    """Somebody who was asked may have been on it, without having had a turn."""
    session = honest()
    config("selector", strategy="llm", selector_budget={})(session)
    del session["canonical_transcript"][3:]
    session["cumulative_unresolved"] = []
    session["outcome"] = {
        "kind": "termination",
        "termination_artifact": {
            "schema_version": "1.0.0",
            "reason": "user_cancel",
            "final_round": 1,
            "unresolved_disagreements": [],
        },
    }

    assert faults_of(repaired(session)) == ()


def test_a_synthesis_may_be_saved_from_a_session_that_ends_early() -> None:
    """Where the config says so, no verdict has to ask for it, and a cap does not forbid it."""
    session = honest()
    content(10, next_action="continue")(session)
    config("budget", max_total_tokens=170)(session)
    unsaved = laws_broken(repaired(session))
    config("runtime", synthesize_on_terminate=True)(session)

    assert unsaved == {Invariant.CAPS, Invariant.OUTCOME}
    assert faults_of(repaired(session)) == ()


def test_a_request_to_somebody_who_left_may_be_noted_where_it_was_made() -> None:
    """It was put off, and when its turn came its target was gone.

    The package that the protocol comes from adds to the earlier message; a transcript that only
    grows cannot.
    """
    session = honest()
    left = {"agent_id": "c", "reason": "schema_error"}
    transcript = session["canonical_transcript"]
    transcript[4] |= {"type": "panel_contraction", "speaker": "runtime", "content": left}
    transcript[4]["usage"] = dict(transcript[0]["usage"])
    del transcript[9], transcript[6]
    silent = laws_broken(repaired(session))
    lost = {"offending_request": request("c"), "reason": "its target has left"}
    said(session, 1)["schema_failure"].append(lost)

    assert silent == set()
    assert faults_of(repaired(session)) == ()


def test_what_is_left_open_may_be_listed_verdict_by_verdict() -> None:
    """The package that the protocol comes from does so."""
    session = honest()
    both = [
        one
        for index in (5, 10)
        for one in said(session, index)["content"]["unresolved_disagreements"]
    ]
    session["cumulative_unresolved"] = both

    assert len(both) == 2
    assert faults_of(session) == ()


def test_a_fault_says_what_and_where() -> None:
    """Whoever is accused wants to know of what."""
    session = honest()
    swapped(3, 4)(session)

    assert "declared_order: b comes before c - at `$.canonical_transcript[3]`" in faults_of(
        repaired(session)
    )


def test_a_session_of_which_nothing_came_may_have_had_an_impossible_panel() -> None:
    """That is why nothing came of it."""
    session = cut_short()
    del session["canonical_transcript"][1:]
    config("selector", default_deliberation_panel=STRANGERS)(session)
    session["cumulative_unresolved"] = []
    session["outcome"]["termination_artifact"] = {
        "schema_version": "1.0.0",
        "reason": "schema_error",
        "final_round": 0,
        "unresolved_disagreements": [],
    }

    assert faults_of(repaired(session)) == ()
    assert read_artifact(session).canonical_transcript[0].id == "m0"
