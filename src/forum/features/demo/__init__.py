"""Demonstrations of Forum: scripted fleets, attacks on a ledger, and a real but very small model.

Nothing here is used by a command other than `forum demo`. It is above `app`, because a demo uses
Forum as a command does, and below `surfaces`, which print what a demo returns.
"""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "demo",
    commands=(
        FeatureCommand(
            "demo", function="demo.cli:demo", group="Start", after="", summary="See what Forum does"
        ),
    ),
)
