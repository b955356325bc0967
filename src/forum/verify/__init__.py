"""Verification by an outside party: from entries, proofs and signatures to a report.

It uses no engine, no store and no network.  `verify_ledger` reads a whole log through a `Reader`,
`verify_bundle` reads one file; both report on the claims Intact, Complete and Independent, each
with a reason.
"""

from forum.verify.bundle_audit import verify_bundle
from forum.verify.entry_checker import RunSnapshot, StrandHead
from forum.verify.epoch_audit import EarlierLogs, verify_epochs
from forum.verify.growth_audit import AuditReport, GrowthReport, audit_growth
from forum.verify.incremental_audit import verify_since
from forum.verify.ledger_audit import (
    SaveRunProgress,
    SegmentRunner,
    check_segment,
    check_session,
    verify_ledger,
)
from forum.verify.report import (
    Bodies,
    Claim,
    ClaimResult,
    Coverage,
    EpochSummary,
    ExplainedTimes,
    Finding,
    GapCount,
    Interval,
    Problem,
    Report,
    Sighting,
    State,
    WitnessState,
)
from forum.verify.run_list_audit import MAX_LISTED_ENTRIES, ProvenRuns, check_run_list
from forum.verify.run_tally import tally_run
from forum.verify.segment_checker import StoredRunProgress
from forum.verify.segment_summary import Segment, SegmentSummary, VerifiedCheckpoint
from forum.verify.session_checker import SessionSummary
from forum.verify.trust import NO_KEY, NO_TRUST_FILE, Trust
