"""What a stranger runs: from entries, proofs and signatures to a report.

No engine, no store, no network.  `verify_ledger` reads a whole log through a `Reader`,
`verify_bundle` one file; both answer Intact, Complete and Independent with a reason each.
"""

from forum.verify.live import verify_ledger
from forum.verify.offline import verify_bundle
from forum.verify.report import Answer, Bodies, Claim, Finding, Problem, Report, Sighting, State
from forum.verify.trust import LOCAL_WITNESS, Trust

__all__ = [
    "LOCAL_WITNESS",
    "Answer",
    "Bodies",
    "Claim",
    "Finding",
    "Problem",
    "Report",
    "Sighting",
    "State",
    "Trust",
    "verify_bundle",
    "verify_ledger",
]
