"""Imports: record the ledgers of other programs."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "imports",
    commands=(
        FeatureCommand(
            "import",
            function="imports.cli:import_",
            group="Start",
            after="doctor",
            summary="Record another's ledger",
        ),
    ),
)
