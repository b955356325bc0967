"""Backup: a copy of the ledger while writers work, and its restoration without a fork."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "backup",
    commands=(
        FeatureCommand(
            "backup",
            function="backup.cli:backup",
            group="Serve",
            after="db",
            summary="Copy the ledger",
        ),
        FeatureCommand(
            "restore",
            function="backup.cli:restore",
            group="Serve",
            after="db",
            summary="Restore a backup",
        ),
    ),
)
