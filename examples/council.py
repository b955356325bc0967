"""A council: three agents vote in secret, and the one who disagrees is heard.

python council.py
forum show
"""

import json

import forum


def ballot(answer: str, reason: str) -> str:
    """Return a vote in the form that a council asks for."""
    return json.dumps({"reason": reason, "answer": answer, "confidence": 80})


@forum.agent
def engineer(prompt: str) -> str:
    """Vote for yes."""
    return ballot("yes", "The migration takes no lock.")


@forum.agent
def operator(prompt: str) -> str:
    """Vote for yes."""
    return ballot("yes", "It was rehearsed on a copy.")


@forum.agent
def critic(prompt: str) -> str:
    """Vote for no."""
    return ballot("no", "Nobody has tried to roll it back.")


def main() -> None:
    """Ask the council, and print what it decided."""
    agents = [engineer, operator, critic]
    with forum.engine_of(".") as engine:
        question = "Do we migrate tonight?"
        result = engine.deliberate(question, agents=agents, options=["yes", "no"]).wait(60)
    print(result.outcome, result.answer)


if __name__ == "__main__":
    main()
