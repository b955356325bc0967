"""Retention: rules that erase the bodies of old runs, and holds that keep them."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "retention",
    commands=(
        FeatureCommand(
            "retention", "retention.cli:retention", "Prove", "verify", "Erase old texts by rule"
        ),
        FeatureCommand("hold", "retention.cli:hold", "Prove", "verify", "Keep runs from erasure"),
    ),
    subcommands=(("ledger", "retention.cli:requests"),),
)
