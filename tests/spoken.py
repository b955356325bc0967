"""What those who sit on a panel say, in the form in which they are asked for it."""

import json
from typing import Any


def ballot(answer: str, confidence: int = 80, **members: Any) -> str:  # noqa: ANN401
    """Return what a seat of a council says."""
    return json.dumps({"answer": answer, "confidence": confidence, **members})


def claiming(answer: str, claim: str, confidence: int = 80) -> str:
    """Return what a seat says that has a reason."""
    return ballot(answer, confidence, claims=[{"text": claim}])


def turn(text: str, *requests: tuple[str, str]) -> str:
    """Return what a speaker of a symposium says, and whom it asks what."""
    asked = [{"target": to, "type": "question", "content": what} for to, what in requests]
    return json.dumps({"text": text, "direct_requests": asked})


def verdict(action: str = "continue", **members: object) -> str:
    """Return what its coordinator makes of a round."""
    plain = {
        "next_action": action,
        "rationale": "so far",
        "confidence": 0.5,
        "focus": "the rust",
        "next_agents": [],
        "resolved_disagreements": [],
        "unresolved_disagreements": [],
    }
    return json.dumps({**plain, **members})


def synthesis(answer: str = "The older one.", *unsettled: str) -> str:
    """Return the answer, and what was not settled."""
    held = [{"agent": "critic", "claim": "it is deep"}]
    left = [{"topic": topic, "positions": held} for topic in unsettled]
    plain: dict[str, Any] = {"resolved_disagreements": [], "unresolved_disagreements": left}
    return json.dumps({"integrated_answer": answer, **plain})
