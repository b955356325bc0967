"""Webhooks: tell other servers of what happens in the log."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "webhooks",
    commands=(
        FeatureCommand(
            "webhooks", "webhooks.cli:webhooks", "Serve", "keys", "Test webhook receivers"
        ),
    ),
    sections=("webhooks",),
    server="webhooks.delivery:WebhookExtension",
    doctor="webhooks.doctor:CHECKS",
)
