"""The evidence pack: what a report about a period is, and how it follows from entries.

Everything here is a pure function of the log part of a pack and its arguments, so that the program
that makes a pack and the program that verifies one use the same code.  See docs/spec/evidence.md.
"""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "evidence",
    commands=(
        FeatureCommand(
            "evidence",
            function="evidence.cli:evidence",
            group="Prove",
            after="verify",
            summary="Write an evidence pack",
        ),
    ),
    endpoints="evidence.http:EVIDENCE",
    verify_pack="evidence.verify_cli:verify_pack",
    write_verify_page="evidence.verify_cli:write_verify_page",
)
