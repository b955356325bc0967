"""Deliberation as a state machine: the transcript so far goes in, the next turn comes out.

It decides who speaks, what they may see and when the question is settled, and it declares the
kinds of entry that a deliberation leaves behind.  The room may import `forum.work`,
`forum.ledger` and what lies beneath them; `forum.verify`, `forum.engine` and the rooms above them
may import it.  It is pure: it calls no model, and a transcript read back from the ledger leads to
the same turns.

    steps      what every protocol consists of
    council    sealed ballots, an anonymous exchange, a vote: ours, the default
    counting   what its ballots come to
    report     what a council leaves to its readers
    symposium  the open protocol of that name, with its forms and laws
    seating    who sits on a panel
    auditing   whether a recorded session follows from what was said in it
"""

from forum.deliberation.auditing import audit, is_minuted, is_turn, may_seat
from forum.deliberation.ballots import Place, ballot_place
from forum.deliberation.comparing import Breach, Indexed, Minutes
from forum.deliberation.inventing import (
    MOST_PERSONAS,
    PersonaClass,
    persona_task,
    read_personas,
)
from forum.deliberation.kinds import (
    COUNCIL_KINDS,
    Accord,
    Balloted,
    Baselined,
    Concluded,
    End,
    Ground,
    Opened,
    Revealed,
)
from forum.deliberation.record import fate_of, said_of
from forum.deliberation.report import Minority, Report, Sat, Turned, read_report
from forum.deliberation.seating import (
    CAPS,
    PANELISTS,
    ROUNDS,
    caps_of,
    draft_symposium,
    known_persona,
    seat_symposium,
)
from forum.deliberation.session import deliberate
from forum.deliberation.steps import (
    CUTS,
    Asked,
    Body,
    Closing,
    Fate,
    Heard,
    Note,
    Probe,
    Said,
    Session,
    Steps,
    Turns,
    advance,
    hear,
)
from forum.deliberation.symposium.artifact import (
    ARTIFACT,
    JOURNAL,
    MANIFEST,
    files_of,
    record_of,
)
from forum.deliberation.symposium.calls import FakeScript
from forum.deliberation.symposium.faults import Fault
from forum.deliberation.symposium.forms import (
    CoordinationTurn,
    Message,
    PanelContraction,
    Persona,
    ProblemStatement,
    Synthesis,
    TerminationArtifact,
)
from forum.deliberation.symposium.ijson import read_json
from forum.deliberation.symposium.kinds import (
    SYMPOSIUM_KINDS,
    MessageType,
    OutcomeKind,
    Pin,
    Reason,
    Selected,
    SessionClosed,
    Spoken,
    Voided,
)
from forum.deliberation.symposium.laws import check_artifact
from forum.deliberation.symposium.metrics import Metrics, metrics_of
from forum.deliberation.symposium.personas import PERSONAS
from forum.deliberation.symposium.prompting import briefing_of
from forum.deliberation.symposium.reading import (
    read_artifact,
    read_config,
    read_manifest,
    read_message,
    read_script,
    read_selection,
    read_termination,
)
from forum.deliberation.symposium.rehearsal import rehearse
from forum.deliberation.symposium.replaying import (
    Replayed,
    pins_of,
    replay_execution,
    replay_transcript,
    unheld_pin,
)
from forum.deliberation.symposium.transcript import members, type_of

__all__ = [
    "ARTIFACT",
    "CAPS",
    "COUNCIL_KINDS",
    "CUTS",
    "JOURNAL",
    "MANIFEST",
    "MOST_PERSONAS",
    "PANELISTS",
    "PERSONAS",
    "ROUNDS",
    "SYMPOSIUM_KINDS",
    "Accord",
    "Asked",
    "Balloted",
    "Baselined",
    "Body",
    "Breach",
    "Closing",
    "Concluded",
    "CoordinationTurn",
    "End",
    "FakeScript",
    "Fate",
    "Fault",
    "Ground",
    "Heard",
    "Indexed",
    "Message",
    "MessageType",
    "Metrics",
    "Minority",
    "Minutes",
    "Note",
    "Opened",
    "OutcomeKind",
    "PanelContraction",
    "Persona",
    "PersonaClass",
    "Pin",
    "Place",
    "Probe",
    "ProblemStatement",
    "Reason",
    "Replayed",
    "Report",
    "Revealed",
    "Said",
    "Sat",
    "Selected",
    "Session",
    "SessionClosed",
    "Spoken",
    "Steps",
    "Synthesis",
    "TerminationArtifact",
    "Turned",
    "Turns",
    "Voided",
    "advance",
    "audit",
    "ballot_place",
    "briefing_of",
    "caps_of",
    "check_artifact",
    "deliberate",
    "draft_symposium",
    "fate_of",
    "files_of",
    "hear",
    "is_minuted",
    "is_turn",
    "known_persona",
    "may_seat",
    "members",
    "metrics_of",
    "persona_task",
    "pins_of",
    "read_artifact",
    "read_config",
    "read_json",
    "read_manifest",
    "read_message",
    "read_personas",
    "read_report",
    "read_script",
    "read_selection",
    "read_termination",
    "record_of",
    "rehearse",
    "replay_execution",
    "replay_transcript",
    "said_of",
    "seat_symposium",
    "type_of",
    "unheld_pin",
]
