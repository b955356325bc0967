"""Webhooks: tell other servers of what happens in the log."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "webhooks",
    commands=(
        FeatureCommand(
            "webhooks",
            function="webhooks.cli:webhooks",
            group="Serve",
            after="otel",
            summary="Test webhook receivers",
        ),
    ),
    sections=(("webhooks", "webhooks.section:WebhookSection"),),
    server="webhooks.delivery:WebhookExtension",
    doctor="webhooks.doctor:CHECKS",
)
