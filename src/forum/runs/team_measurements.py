"""Models for which a team was measured to be of no use, with the figures.

`python -m benchmarks real-team` plays requests with checkable answers alone and as a team, and
reports the difference of the scores. A model is listed if the mean difference is not above 0 on
requests that were not used while teams were built: `--half held_out --count 15 --model smollm2`.
"""

import re
from typing import Final

import msgspec

from forum.runs.policy import Policy, Scripted, model_of


class TeamMeasurement(msgspec.Struct, frozen=True):
    """How much better the answers of a team are than those of the model alone."""

    difference: float
    """The mean difference of the scores, each from 0 to 1."""
    low: float
    high: float
    """The ends of the 95 % interval of the difference."""
    requests: int
    tokens_ratio: float
    """Tokens of the team for each token of the model alone."""


TOO_SMALL: Final = {
    "smollm2-135m": TeamMeasurement(
        difference=0.0, low=0.0, high=0.0, requests=15, tokens_ratio=2.3
    ),
}
"""By the beginning of the model's name."""


def find_measurement(model: str) -> TeamMeasurement | None:
    """Return the figures of a model that gains nothing from a team; None for every other one."""
    name = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].casefold())
    listed = (model for model in TOO_SMALL if f"{name}-".startswith(f"{model}-"))
    return next((TOO_SMALL[model] for model in listed), None)


def decline_team(policy: Policy) -> tuple[str, ...]:
    """Return the models of a policy if none of them gains from a team, else nothing."""
    agents = [agent for agent in policy.agents.values() if not isinstance(agent, Scripted)]
    models = tuple(sorted({model_of(agent) for agent in agents}))
    return models if all(find_measurement(model) for model in models) else ()


def explain_declined_team(models: tuple[str, ...]) -> str:
    """Say why a team was declined, with the figures of the first model."""
    figures = find_measurement(models[0]) if models else None
    if figures is None:
        return ""
    return (
        f"{models[0]} is too small for a team, and answers alone. Measured on {figures.requests} "
        f"requests, the scores of a team differed by {figures.difference:+.2f} (95 % interval "
        f"{figures.low:+.2f} to {figures.high:+.2f}), for {figures.tokens_ratio:.1f} times the "
        "tokens. Connect a larger model to have a team work."
    )
