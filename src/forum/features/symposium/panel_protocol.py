"""The symposium as a protocol of panels."""

from collections.abc import Mapping
from typing import Any

from forum.features.symposium import seating
from forum.features.symposium.decoders import read_message, read_script
from forum.features.symposium.findings import (
    DECISIVE_MESSAGES,
    SessionFindings,
    read_session_findings,
)
from forum.features.symposium.kinds import MessageFacts
from forum.features.symposium.protocol import run_symposium
from forum.features.symposium.simulator import build_scripted_panel
from forum.runs.kinds import AccordFacts
from forum.runs.panel import Symposium
from forum.runs.panel_protocol import PanelDraft, PanelProtocol, PanelRecord, UnservedModel
from forum.runs.plan import RunBudget
from forum.runs.policy import Agent
from forum.runs.session_steps import ProtocolSteps, Session
from forum.runs.symposium_end import SymposiumCloseFacts, SymposiumCloseV2Facts


class SymposiumProtocol(PanelProtocol[Symposium]):
    """The open protocol of that name."""

    closes = (SymposiumCloseFacts, SymposiumCloseV2Facts)

    def start(self, session: Session) -> ProtocolSteps:
        """Start a symposium for a session."""
        return run_symposium(session)

    def seat(self, panel: Symposium, agents: Mapping[str, Agent]) -> Symposium:
        """Return a panel in which every id of the config has an agent."""
        return seating.seat_symposium(panel, agents)

    def draft(self, draft: PanelDraft) -> Symposium:
        """Return a session on a problem."""
        return seating.draft_symposium(
            draft.session,
            draft.problem,
            draft.personas,
            draft.agents,
            rounds=seating.DEFAULT_ROUNDS if draft.rounds is None else draft.rounds,
            budget=draft.budget,
        )

    def play_script(
        self, panel: Symposium, problem: str, script: object, selector: object = None
    ) -> tuple[Symposium, dict[str, Agent]]:
        """Return a panel and the one agent that follows a `fake_provider_script`."""
        chosen = None if selector is None else read_script(selector)
        return build_scripted_panel(panel.config, problem, read_script(script), chosen)

    def find_unserved(
        self, panel: Symposium, agents: Mapping[str, Agent]
    ) -> tuple[UnservedModel, ...]:
        """Return the entries of the config whose model no agent serves."""
        unserved = seating.find_unserved(panel, agents)
        return tuple(UnservedModel(entry.id, entry.provider, entry.model) for entry in unserved)

    def budget_of(self, panel: Symposium) -> RunBudget:
        """Return the hard caps of the config."""
        return seating.budget_from_panel(panel)

    def read_accord(self, record: PanelRecord[Any]) -> AccordFacts | None:
        """Return the accord that follows from the messages."""
        findings = _read_findings(record)
        if findings is None:
            return None
        return AccordFacts(record.run, findings.accord, len(findings.blockers))

    def read_text(self, record: PanelRecord[Any]) -> str:
        """Return what the messages come to."""
        findings = _read_findings(record)
        return findings.text if findings else ""


def _read_findings(record: PanelRecord[Any]) -> SessionFindings | None:
    return read_session_findings(
        [
            read_message(record.read(item, "message"))
            for item in record.entries
            if isinstance(item.entry.facts, MessageFacts)
            and item.entry.facts.type in DECISIVE_MESSAGES
        ]
    )


PROTOCOL = SymposiumProtocol()
