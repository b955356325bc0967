"""Evaluation: compare agents on cases by quality, cost and time."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "evaluation",
    commands=(
        FeatureCommand(
            "eval",
            function="evaluation.cli:eval",
            group="Work",
            after="submit",
            summary="Compare agents on cases",
        ),
    ),
    endpoints="evaluation.http:EVALUATIONS",
)
