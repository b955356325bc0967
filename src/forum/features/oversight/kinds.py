"""The kinds of entries about oversight: reviews, incidents, and the configuration in use.

They are entries of the log's own run, each family in a strand of its own, because they are about
many runs and come after these have closed.
"""

from enum import StrEnum

from forum.ledger.entry import Count, Facts
from forum.ledger.kinds import Kind, Kinds
from forum.runs.kinds import IDENTITY, Authority

REVIEWS_STRAND = "reviews"
INCIDENTS_STRAND = "incidents"
CONFIGURATION_STRAND = "config"

REMARK = "remark"
"""The body of a review: what the reviewer remarked."""
TEXT = "text"
"""The body of an entry about an incident: what happened, or how it ended."""

CONFIGURATION_PARTS = ("roster", "policies", "models", "tools")
"""The bodies of the record of a configuration."""


class ReviewFacts(Facts, frozen=True):
    """Somebody looked at the entries from index `since` up to `until`, which is not included.

    With a run, at its entries only.  The counts are of what was shown as worth a look; the rules of
    `forum.features.oversight.rules` find the same again in the entries.
    """

    by: Authority
    since: Count
    until: Count
    run: str = ""
    stops: Count = 0
    budget_stops: Count = 0
    denials: Count = 0
    gaps: Count = 0
    indeterminate: Count = 0
    gates: Count = 0
    """Gates that were open at `until`, whenever they were opened."""


class IncidentSeverity(StrEnum):
    """How bad an incident is, by the judgement of the person who opened it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class IncidentOpenFacts(Facts, frozen=True):
    """An incident became known.  The parents are the first entries of its runs."""

    incident: str
    severity: IncidentSeverity
    by: Authority
    known: Count
    """When somebody became aware of it, in microseconds since 1970: periods for reports begin."""
    runs: tuple[str, ...] = ()


class IncidentCloseFacts(Facts, frozen=True):
    """An incident is dealt with.  The parent is the entry that opened it."""

    incident: str
    by: Authority


class ConfigurationFacts(Facts, frozen=True):
    """The configuration that a worker or a server of release 0.2 began to use.

    Each part is a SHA-256 in hexadecimal, without a salt: short texts of it can be guessed.
    """

    engine: str
    """The release of Forum."""
    roster: str
    policies: str
    models: str
    tools: str


class ConfigurationChangeFacts(Facts, frozen=True):
    """A worker or a server began to use a configuration; its parts are bodies."""

    engine: str
    """The release of Forum."""
    changed: tuple[str, ...] = ()
    """What differs from the entry before: `engine`, or a part.  Empty in the first one."""
    erased: tuple[str, ...] = ()
    """The parts of the entry before that were erased, so that nobody can compare them."""


OVERSIGHT_KINDS = Kinds(
    [
        Kind("review.done/1", ReviewFacts, frozenset({REMARK, IDENTITY})),
        Kind("incident.open/1", IncidentOpenFacts, frozenset({TEXT, IDENTITY})),
        Kind("incident.close/1", IncidentCloseFacts, frozenset({TEXT, IDENTITY})),
        Kind("config.seen/1", ConfigurationFacts),
        Kind("config.seen/2", ConfigurationChangeFacts, frozenset(CONFIGURATION_PARTS)),
    ]
)
