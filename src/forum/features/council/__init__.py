"""Deliberation protocols as pure state machines: turn results go in, the next step comes out.

The package decides which seat speaks, what it may see and when the question is settled, and it
declares the entry kinds that a council records.  `panel_protocol` is what the kernel loads of it.
The protocol calls no model and reads no clock, so replaying a transcript from the ledger yields the
same turns.

    protocol       sealed ballots, an anonymous exchange, a vote: the default protocol
    tally          counts the ballots of a council
    report         the report that a council leaves to its readers
"""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "council",
    kinds="council.kinds:COUNCIL_KINDS",
    protocol="council.panel_protocol:PROTOCOL",
    panel_view="council.panel_view:VIEW",
    panel_outcome="council.panel_outcome:read_outcome",
    panel_lines="council.panel_lines:LINES",
    words="council.words:WORDS",
    tools="council.mcp:TOOLS",
    commands=(
        FeatureCommand(
            "deliberate",
            function="council.cli:deliberate",
            group="Work",
            after="submit",
            summary="Ask a panel of agents",
        ),
    ),
)
