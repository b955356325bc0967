"""What a stranger runs: from entries, proofs and signatures to a report.

No engine, no store, no network.  `verify_ledger` reads a whole log through a `Reader`,
`verify_bundle` one file; both answer Intact, Complete and Independent with a reason each.
"""

from forum.verify.auditing import AuditReport, GrowthReport, audit_growth
from forum.verify.chronicle import KnownRun, StrandHead
from forum.verify.epochs import EarlierLogs, verify_epochs
from forum.verify.incremental import KeptState, verify_since
from forum.verify.live import KeepState, SegmentRunner, check_segment, check_session, verify_ledger
from forum.verify.offline import verify_bundle
from forum.verify.report import (
    Answer,
    Bodies,
    Claim,
    EpochSummary,
    Finding,
    Problem,
    Report,
    Sighting,
    State,
)
from forum.verify.sessions import SessionSummary
from forum.verify.summary import LastVerified, Segment, SegmentSummary
from forum.verify.trust import LOCAL_WITNESS, Trust

__all__ = [
    "LOCAL_WITNESS",
    "Answer",
    "AuditReport",
    "Bodies",
    "Claim",
    "EarlierLogs",
    "EpochSummary",
    "Finding",
    "GrowthReport",
    "KeepState",
    "KeptState",
    "KnownRun",
    "LastVerified",
    "Problem",
    "Report",
    "Segment",
    "SegmentRunner",
    "SegmentSummary",
    "SessionSummary",
    "Sighting",
    "State",
    "StrandHead",
    "Trust",
    "audit_growth",
    "check_segment",
    "check_session",
    "verify_bundle",
    "verify_epochs",
    "verify_ledger",
    "verify_since",
]
