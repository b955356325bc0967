"""The council as a protocol of panels."""

from collections.abc import Mapping
from typing import Any

from forum.features.council.findings import describe_findings
from forum.features.council.protocol import run_council
from forum.features.council.report import read_report
from forum.runs.council_end import CouncilCloseFacts
from forum.runs.kinds import AccordFacts
from forum.runs.panel import Council, fill_seats
from forum.runs.panel_protocol import PanelProtocol, PanelRecord
from forum.runs.policy import Agent
from forum.runs.session_steps import ProtocolSteps, Session


class CouncilProtocol(PanelProtocol[Council]):
    """Sealed ballots, an anonymous exchange, and a vote counted by code."""

    closes = (CouncilCloseFacts,)

    def start(self, session: Session) -> ProtocolSteps:
        """Start a council for a session."""
        return run_council(session)

    def seat(self, panel: Council, agents: Mapping[str, Agent]) -> Council:
        """Return a council whose empty seats are filled with the named agents in turn."""
        return fill_seats(panel, sorted(name for name in agents if name))

    def read_accord(self, record: PanelRecord[Any]) -> AccordFacts:
        """Return the accord that the close states."""
        closed: CouncilCloseFacts = record.close.entry.facts
        return AccordFacts(record.run, closed.accord, closed.blockers)

    def read_text(self, record: PanelRecord[Any]) -> str:
        """Return what the report says."""
        return describe_findings(read_report(record.read(record.close, "report")))


PROTOCOL = CouncilProtocol()
