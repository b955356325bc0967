"""Witness: ask witnesses for cosignatures, and cosign the logs of others (C2SP tlog-witness)."""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "witness",
    commands=(
        FeatureCommand(
            "witness",
            function="witness.cli:witness",
            group="Prove",
            after="verify",
            summary="Cosign other logs",
        ),
    ),
    doctor="witness.doctor:CHECKS",
    witnesses="witness.local:LocalWitness",
)
