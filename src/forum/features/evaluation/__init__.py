"""Evaluation: compare agents on cases by quality, cost and time."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "evaluation",
    commands=(
        FeatureCommand("eval", "evaluation.cli:eval", "Work", "submit", "Compare agents on cases"),
    ),
    endpoints="evaluation.http:EVALUATIONS",
)
