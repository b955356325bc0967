"""Retention: rules that erase the bodies of old runs, and holds that keep them."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "retention",
    commands=(
        FeatureCommand(
            "retention",
            function="retention.cli:retention",
            group="Prove",
            after="verify",
            summary="Erase old texts by rule",
        ),
        FeatureCommand(
            "hold",
            function="retention.cli:hold",
            group="Prove",
            after="verify",
            summary="Keep runs from erasure",
        ),
    ),
    subcommands=(("ledger", "retention.cli:requests"),),
)
