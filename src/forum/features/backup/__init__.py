"""Backup: a copy of the ledger while writers work, and its restoration without a fork."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "backup",
    commands=(
        FeatureCommand("backup", "backup.cli:backup", "Serve", "db", "Copy the ledger"),
        FeatureCommand("restore", "backup.cli:restore", "Serve", "db", "Restore a backup"),
    ),
)
