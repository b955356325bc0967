"""Tenants: projects with a log of their own, served by one process."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "tenants",
    commands=(
        FeatureCommand("tenant", "tenants.cli:tenant", "Serve", "keys", "Add and list tenants"),
    ),
)
