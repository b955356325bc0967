"""Gateway: pass calls of any program on to a provider, under a cap, and record them."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "gateway",
    commands=(
        FeatureCommand(
            "run",
            function="gateway.cli:run",
            group="Work",
            after="",
            summary="Cap and record an agent",
        ),
    ),
    sections=(
        ("gateway", "gateway.section:GatewaySection"),
        ("upstreams", "gateway.section:UpstreamSection"),
    ),
    server="gateway.http:GatewayExtension",
    serves_alone=True,
    subcommands=(
        ("mcp", "gateway.mcp_relay_cli:gateway"),
        ("ledger", "gateway.reconcile_cli:reconcile"),
    ),
    doctor="gateway.doctor:CHECKS",
)
