"""Dashboard: the pages of `forum up` and `forum serve`, for people."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "dashboard",
    commands=(FeatureCommand("up", "dashboard.cli:up", "Serve", "", "Serve the dashboard"),),
    server="dashboard.http:DashboardExtension",
)
