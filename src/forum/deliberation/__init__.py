"""Deliberation protocols as pure state machines: turn results go in, the next step comes out.

The package decides which seat speaks, what it may see and when the question is settled, and it
declares the entry kinds that a deliberation records. It may import `forum.work`, `forum.ledger` and
the packages below them; `forum.verify`, `forum.engine` and the packages above them may import it.
It calls no model and reads no clock, so replaying a transcript from the ledger yields the same
turns.

    steps          the types that every protocol is built from
    council        sealed ballots, an anonymous exchange, a vote: the default protocol
    tally          counts the ballots of a council
    council_report the report that a council leaves to its readers
    symposium      the open protocol of that name, with its schemas and invariants
    seating        assigns personas and agents to the seats of a panel
    session_audit  checks that a recorded session follows from its replies
"""

from forum.deliberation.ballots import TurnId, parse_ballot_turn
from forum.deliberation.council_kinds import (
    COUNCIL_KINDS,
    Accord,
    BallotFacts,
    BaselineFacts,
    CouncilCloseFacts,
    CouncilFacts,
    End,
    Ground,
    RevealFacts,
)
from forum.deliberation.council_report import (
    CouncilReport,
    MinorityPosition,
    ReportedChange,
    SeatReport,
    read_report,
)
from forum.deliberation.persona_generation import (
    MAX_PERSONAS,
    PersonaClass,
    build_persona_task,
    parse_personas,
)
from forum.deliberation.protocols import start_protocol
from forum.deliberation.record_comparison import Breach, IndexedEntry, SessionEntries
from forum.deliberation.seating import (
    DEFAULT_BUDGET,
    DEFAULT_PERSONAS,
    DEFAULT_ROUNDS,
    budget_from_panel,
    draft_symposium,
    resolve_persona,
    seat_symposium,
)
from forum.deliberation.session_audit import (
    audit_session,
    is_session_facts,
    is_turn_strand,
    may_have_panel,
)
from forum.deliberation.steps import (
    CUT_OFF_REASONS,
    AgentTurn,
    BatchResult,
    NoteBody,
    ProtocolSteps,
    Session,
    SessionNote,
    SessionResult,
    ToolProbe,
    TurnBatch,
    TurnResult,
    TurnStatus,
    advance_protocol,
    collect_results,
)
from forum.deliberation.symposium.artifact import (
    ARTIFACT,
    JOURNAL,
    MANIFEST,
    build_session_files,
    read_recorded_session,
)
from forum.deliberation.symposium.canonical_json import read_json
from forum.deliberation.symposium.decoders import (
    read_artifact,
    read_config,
    read_manifest,
    read_message,
    read_script,
    read_selection,
    read_termination,
)
from forum.deliberation.symposium.invariants import check_artifact
from forum.deliberation.symposium.kinds import (
    SYMPOSIUM_KINDS,
    MessageFacts,
    MessageType,
    OutcomeKind,
    PanelFacts,
    Reason,
    ReplayPin,
    RequestVoidFacts,
    SymposiumCloseFacts,
)
from forum.deliberation.symposium.metrics import SymposiumMetrics, compute_metrics
from forum.deliberation.symposium.personas import PERSONAS
from forum.deliberation.symposium.prompts import build_briefing
from forum.deliberation.symposium.provider_calls import FakeScript
from forum.deliberation.symposium.replay import (
    SessionReplay,
    compute_pins,
    find_unheld_pin,
    replay_execution,
    replay_transcript,
)
from forum.deliberation.symposium.schemas import (
    CoordinationTurn,
    Message,
    PanelContraction,
    Persona,
    ProblemStatement,
    Synthesis,
    TerminationArtifact,
)
from forum.deliberation.symposium.simulator import simulate_session
from forum.deliberation.symposium.transcript import message_type, to_json_object
from forum.deliberation.symposium.violations import Violation
from forum.deliberation.turn_results import build_turn_result, turn_status

__all__ = [
    "ARTIFACT",
    "COUNCIL_KINDS",
    "CUT_OFF_REASONS",
    "DEFAULT_BUDGET",
    "DEFAULT_PERSONAS",
    "DEFAULT_ROUNDS",
    "JOURNAL",
    "MANIFEST",
    "MAX_PERSONAS",
    "PERSONAS",
    "SYMPOSIUM_KINDS",
    "Accord",
    "AgentTurn",
    "BallotFacts",
    "BaselineFacts",
    "BatchResult",
    "Breach",
    "CoordinationTurn",
    "CouncilCloseFacts",
    "CouncilFacts",
    "CouncilReport",
    "End",
    "FakeScript",
    "Ground",
    "IndexedEntry",
    "Message",
    "MessageFacts",
    "MessageType",
    "MinorityPosition",
    "NoteBody",
    "OutcomeKind",
    "PanelContraction",
    "PanelFacts",
    "Persona",
    "PersonaClass",
    "ProblemStatement",
    "ProtocolSteps",
    "Reason",
    "ReplayPin",
    "ReportedChange",
    "RequestVoidFacts",
    "RevealFacts",
    "SeatReport",
    "Session",
    "SessionEntries",
    "SessionNote",
    "SessionReplay",
    "SessionResult",
    "SymposiumCloseFacts",
    "SymposiumMetrics",
    "Synthesis",
    "TerminationArtifact",
    "ToolProbe",
    "TurnBatch",
    "TurnId",
    "TurnResult",
    "TurnStatus",
    "Violation",
    "advance_protocol",
    "audit_session",
    "budget_from_panel",
    "build_briefing",
    "build_persona_task",
    "build_session_files",
    "build_turn_result",
    "check_artifact",
    "collect_results",
    "compute_metrics",
    "compute_pins",
    "draft_symposium",
    "find_unheld_pin",
    "is_session_facts",
    "is_turn_strand",
    "may_have_panel",
    "message_type",
    "parse_ballot_turn",
    "parse_personas",
    "read_artifact",
    "read_config",
    "read_json",
    "read_manifest",
    "read_message",
    "read_recorded_session",
    "read_report",
    "read_script",
    "read_selection",
    "read_termination",
    "replay_execution",
    "replay_transcript",
    "resolve_persona",
    "seat_symposium",
    "simulate_session",
    "start_protocol",
    "to_json_object",
    "turn_status",
]
