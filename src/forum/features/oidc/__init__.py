"""OIDC: people and programs of an identity provider as clients of a server."""

from forum.feature import Feature

FEATURE = Feature(
    "oidc",
    sections=(("oidc", "oidc.section:Issuer"),),
    verifier="oidc.tokens:make_token_verifier",
    doctor="oidc.doctor:CHECKS",
)
