"""Dashboard: the pages of `forum up` and `forum serve`, for people."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "dashboard",
    commands=(
        FeatureCommand(
            "up",
            function="dashboard.cli:up",
            group="Serve",
            after="",
            summary="Serve the dashboard",
        ),
    ),
    server="dashboard.http:DashboardExtension",
)
