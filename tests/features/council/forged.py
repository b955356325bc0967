"""Sessions of the open protocol that were never held, and what can be done to them."""

import copy
from typing import Any

from hypothesis import strategies as st

from forum.features.symposium.canonical_json import transcript_digest

OPEN = {"topic": "the price", "positions": [{"agent": "a", "claim": "it is too high"}]}
ANSWER = {
    "integrated_answer": "the older bridge first",
    "resolved_disagreements": [],
    "unresolved_disagreements": [OPEN],
}


def request(target: str) -> dict[str, Any]:
    """Return a question to somebody."""
    return {"target": target, "type": "question", "content": f"what does {target} think?"}


def verdict(action: str, **more: object) -> dict[str, Any]:
    """Return what a coordinator might say."""
    return {
        "next_action": action,
        "rationale": "two of three agree",
        "confidence": 0.5,
        "focus": "the older bridge",
        "next_agents": [],
        "resolved_disagreements": [],
        "unresolved_disagreements": [OPEN],
    } | more


def said(place: tuple[int, int], kind: str, speaker: str, words: object, **notes: object) -> Any:  # noqa: ANN401
    """Return a message without a name and a time: round and turn, what it is, and whose."""
    tokens = 0 if speaker in ("user", "runtime") else 10
    return {
        "type": kind,
        "round": place[0],
        "turn_index": place[1],
        "speaker": speaker,
        "content": words,
        "branch_depth": int(kind == "branch_turn"),
        "usage": {
            "prompt_tokens": tokens,
            "completion_tokens": tokens,
            "total_tokens": 2 * tokens,
            "cost_usd": tokens / 100,
            "estimated": False,
        },
    } | notes


def session(outcome: dict[str, Any], *messages: dict[str, Any]) -> dict[str, Any]:
    """Return a session in which this was said; its sums and digests have to be added."""
    agents = [
        {"id": name, "persona_ref": name, "provider": "scripted", "model": "one"} for name in "abck"
    ]
    transcript = [
        {"id": f"m{number}", "timestamp": f"2031-05-01T10:00:{number:02}Z"} | message
        for number, message in enumerate(messages)
    ]
    return {
        "schema_version": "1.0.0",
        "session_id": "bridges",
        "config": {
            "schema_version": "1.0.0",
            "session_id": "bridges",
            "originator": "user",
            "problem_statement": "which bridge first?",
            "selector": {
                "strategy": "fixed",
                "default_deliberation_panel": ["a", "b", "c"],
                "coordinator_agent": "k",
            },
            "agents": agents[:3],
            "coordinator": agents[3],
            "budget": {
                "max_total_tokens": 1000,
                "max_total_cost_usd": 5,
                "max_rounds": 3,
                "max_wallclock_seconds": 60,
            },
            "runtime": {"on_agent_failure": "continue_without", "max_deferred_queue_length": 1},
        },
        "canonical_transcript": transcript,
        "outcome": outcome,
        "cumulative_unresolved": [OPEN],
        "started_at": "2031-05-01T10:00:00Z",
        "ended_at": "2031-05-01T10:01:00Z",
    }


def honest() -> dict[str, Any]:
    """Return a session with an answer; all that a session can go through happens in it."""
    asks = [request("a"), request("b"), request("c"), request("b"), request("nobody")]
    notes = {
        "schema_failure": [
            {"offending_request": asks[0], "reason": "nobody asks themselves"},
            {"offending_request": asks[4], "reason": "there is no such agent"},
        ],
        "dropped_deferred": [asks[3]],
    }
    suggests = {"parent_id": "m1", "suggested_followups": [request("c")]}
    left = {"agent_id": "b", "reason": "provider_unrecoverable"}
    held = session(
        {"kind": "synthesis", "synthesis_message_id": "m11"},
        said((0, 0), "problem_statement", "user", "which bridge first?"),
        said((1, 1), "primary_turn", "a", {"text": "one", "direct_requests": asks}, **notes),
        said((1, 2), "branch_turn", "b", {"text": "two"}, **suggests),
        said((1, 3), "primary_turn", "b", {"text": "three"}),
        said((1, 4), "primary_turn", "c", {"text": "four"}),
        said((1, 5), "coordination_turn", "k", verdict("continue")),
        said((2, 1), "branch_turn", "c", {"text": "five"}, parent_id="m1"),
        said((2, 2), "primary_turn", "a", {"text": "six"}),
        said((2, 4), "panel_contraction", "runtime", left),
        said((2, 5), "primary_turn", "c", {"text": "seven"}),
        said((2, 6), "coordination_turn", "k", verdict("finalize")),
        said((2, 7), "synthesis", "k", ANSWER),
    )
    return repaired(copy.deepcopy(held))


def cut_short() -> dict[str, Any]:
    """Return a session that waits for its originator."""
    asked = verdict("request_user_input", user_input_request={"question": "what may it cost?"})
    ending = {
        "schema_version": "1.0.0",
        "reason": "user_input_required",
        "final_round": 1,
        "most_recent_verdict": asked,
        "unresolved_disagreements": [OPEN],
        "pending_user_input_request": {"question": "what may it cost?"},
    }
    held = session(
        {"kind": "termination", "termination_artifact": ending},
        said((0, 0), "problem_statement", "user", "which bridge first?"),
        said((1, 1), "primary_turn", "a", {"text": "one"}),
        said((1, 2), "primary_turn", "b", {"text": "two"}),
        said((1, 3), "primary_turn", "c", {"text": "three"}),
        said((1, 4), "coordination_turn", "k", asked),
    )
    return repaired(copy.deepcopy(held))


def repaired(artifact: dict[str, Any]) -> dict[str, Any]:
    """Give an artifact the sums and digests that go with what it says, and return it."""
    spent = [message["usage"] for message in artifact["canonical_transcript"]]
    names = ("prompt_tokens", "completion_tokens", "total_tokens", "cost_usd")
    sums: dict[str, Any] = {name: sum(usage[name] for usage in spent) for name in names}
    sums["estimated"] = any(usage["estimated"] for usage in spent)
    places = [artifact]
    if artifact["outcome"]["kind"] == "termination":
        places.append(artifact["outcome"]["termination_artifact"])
    for place in places:
        place["cumulative_usage"] = dict(sums)
        place["transcript_digest"] = transcript_digest(artifact["canonical_transcript"])
    return artifact


WORDS = (
    "", "x", "null", "domain", "horizontal", "llm", "fixed", "tool", "runtime", "branch_turn",
    "primary_turn", "panel_contraction", "problem_statement", "synthesis", "termination",
    "finalize", "request_user_input", "request_external_research", "user_input_required",
    "complete", "crashed", "terminated", "error", "1.0.0", "1.0.0-rc.1", "0" * 64, "../x",
)  # fmt: skip
MEMBERS = (
    "parent_id", "target", "content", "user_input_request", "external_research_request",
    "pending_user_input_request", "most_recent_verdict", "selector_budget", "domain_scope",
    "forbidden_domains", "must_delegate", "schema_failure", "estimated", "updated_at",
    "outcome_kind", "transcript_digest", "tool_call_id", "details", "result", "unheard_of",
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from([None, True, False, 0, 1, 2, -1, 1.0, 0.0, -0.0, 0.5, 1.5, 1e15, [], {}]),
    st.sampled_from([[""], ["x"], [{}], {"x": "y"}, {"question": "?"}, {"query": "?"}]),
)


def mutate(form: object, data: st.DataObject) -> None:
    """Change something somewhere in a form."""
    place = data.draw(st.sampled_from(_containers(form)))
    names = list(place) if isinstance(place, dict) else list(range(len(place)))
    value = copy.deepcopy(data.draw(VALUES))
    action = data.draw(st.sampled_from(["replace", "remove", "add"])) if names else "add"
    if action == "remove":
        del place[data.draw(st.sampled_from(names))]
    elif action == "replace":
        place[data.draw(st.sampled_from(names))] = value
    elif isinstance(place, dict):
        place[data.draw(st.sampled_from(MEMBERS))] = value
    else:
        place.append(value)


def _containers(value: object) -> list[Any]:
    """Return every object and array in a value, itself included."""
    if not isinstance(value, dict | list):
        return []
    inside = value.values() if isinstance(value, dict) else value
    return [value, *(found for one in inside for found in _containers(one))]
