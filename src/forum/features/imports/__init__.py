"""Imports: record the ledgers of other programs."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "imports",
    commands=(
        FeatureCommand(
            "import", "imports.cli:import_", "Start", "doctor", "Record another's ledger"
        ),
    ),
)
