"""Tenants: projects with a log of their own, served by one process."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "tenants",
    commands=(
        FeatureCommand(
            "tenant",
            function="tenants.cli:tenant",
            group="Serve",
            after="keys",
            summary="Add and list tenants",
        ),
    ),
)
