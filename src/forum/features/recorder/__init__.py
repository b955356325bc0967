"""Recorder: record programs that Forum does not run, and use the engine from Python."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "recorder",
    commands=(
        FeatureCommand(
            "hook",
            function="recorder.cli:hook",
            group="Serve",
            after="mcp",
            summary="Record Claude Code",
        ),
    ),
    endpoints="recorder.http:REPORTS",
)
