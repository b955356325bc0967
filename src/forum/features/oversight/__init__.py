"""Oversight: reviews, incidents, and the record of the configuration in use."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "oversight",
    kinds="oversight.kinds:OVERSIGHT_KINDS",
    words="oversight.words:WORDS",
    commands=(
        FeatureCommand("review", "oversight.cli:review", "Look", "budgets", "Review what happened"),
        FeatureCommand("incident", "oversight.cli:incident", "Look", "budgets", "Record incidents"),
    ),
    endpoints="oversight.http:OVERSIGHT",
    tools="oversight.mcp:TOOLS",
    record_configuration="oversight.service:record_configuration",
)
