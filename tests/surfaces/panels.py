"""Projects whose scripted agents sit on panels, and what they say there."""

import json
from collections.abc import Mapping
from typing import Any

from tests.spoken import ballot

QUESTION = "Is the bridge safe?"
TOKENS = 100
"""What each turn uses."""


def persona(name: str, **members: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a persona as a model makes it up."""
    return {
        "id": name,
        "reasoning_scope": f"what a {name} looks at",
        "reasoning_style": "by hand",
        "behavioral_constraints": ["look twice"],
        "failure_modes": ["sees rust everywhere"],
        "output_requirements": [],
        "domain_scope": ["bridges"],
        "forbidden_domains": ["the law"],
        "must_delegate": [{"subject": "costs", "to": "the treasurer"}],
        **members,
    }


def personas(*names: str) -> str:
    """Return what a model says that was asked for so many."""
    return json.dumps({"personas": [persona(name) for name in names]})


COUNCIL = {
    "~ballot.0.1": ballot("no", claims=[{"text": "it is old"}]),
    "~ballot.0.2": ballot("yes", claims=[{"text": "it was tested"}]),
    "~ballot.0.3": ballot("yes"),
    "~ballot.1.1": ballot("no", decides="another test"),
    "~ballot.1.2": ballot("yes"),
    "~ballot.1.3": ballot("yes"),
}
"""Three seats, of which the first stays alone."""
TURNS = 6
"""How many they take."""

MUTE = {f"~ballot.0.{seat}": "I had rather not." for seat in (1, 2)}
"""Two seats that say nothing which could be counted."""


def project(*moves: Mapping[str, str], usd: str = "0", terms: str = "") -> str:
    """Return a project file in which two agents say this, whoever of them is asked."""
    document = {name: words for move in moves for name, words in move.items()}
    return terms + "".join(
        f'[models.{agent}]\nkind = "scripted"\ntokens = {TOKENS}\nusd = {usd}\n'
        + "".join(_move(name, words) for name, words in document.items())
        for agent in ("ann", "bob")
    )


def _move(name: str, words: str) -> str:
    assert "'" not in words
    return f"moves.\"{name}\" = [{{ say = '{words}', tokens = {TOKENS} }}]\n"
