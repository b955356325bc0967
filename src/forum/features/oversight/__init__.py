"""Oversight: reviews, incidents, and the record of the configuration in use."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "oversight",
    kinds="oversight.kinds:OVERSIGHT_KINDS",
    words="oversight.words:WORDS",
    commands=(
        FeatureCommand(
            "review",
            function="oversight.cli:review",
            group="Look",
            after="budgets",
            summary="Review what happened",
        ),
        FeatureCommand(
            "incident",
            function="oversight.cli:incident",
            group="Look",
            after="budgets",
            summary="Record incidents",
        ),
    ),
    endpoints="oversight.http:OVERSIGHT",
    tools="oversight.mcp:TOOLS",
    record_configuration="oversight.service:record_configuration",
)
