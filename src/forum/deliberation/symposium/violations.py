"""What can be wrong with an artifact."""

from enum import StrEnum

import msgspec


class Invariant(StrEnum):
    """What has to hold of an artifact."""

    FORM = "form"
    """It is what the protocol calls an artifact."""
    VERSION = "version"
    """It is of a version that we know."""
    SESSION = "session"
    """It is of the session that its config is of."""
    PANEL = "panel"
    """Its agents can be told apart, and those that sit on the panel are among them."""
    OPENING = "opening"
    """It opens with the problem that was posed, and poses no other."""
    ORDER = "order"
    """Rounds and turns rise, and no round is left out."""
    IDS = "ids"
    """No two messages have the same id."""
    TIME = "time"
    """Times are times, and do not fall."""
    SPEAKER = "speaker"
    """Everybody speaks in their own part."""
    DECLARED_ORDER = "declared_order"
    """In each round each agent of the panel speaks once, in the order of the panel."""
    COORDINATOR_LAST = "coordinator_last"
    """A round ends with the verdict, and the next one opens only if that says so."""
    BRANCH = "branch"
    """A request is answered when it is its turn, by whom it was put to, and by nobody else."""
    NOTES = "notes"
    """Requests that were dropped, or could not be put, are noted where they were made."""
    CONTRACTION = "contraction"
    """Who leaves the panel was on it, and had been asked."""
    CAPS = "caps"
    """Nothing is said once a cap has been passed."""
    USAGE = "usage"
    """What was spent is the sum of what the messages say."""
    DIGEST = "digest"
    """The digests are those of the transcript."""
    OUTCOME = "outcome"
    """The session ended like its transcript, and for a reason that this shows."""
    UNRESOLVED = "unresolved"
    """What is left open is what was last said to be."""


class Violation(msgspec.Struct, frozen=True):
    """A law that an artifact breaks."""

    law: Invariant
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.law}: {self.why} - at `{self.where}`"


def message_path(index: int) -> str:
    """Return the path of a message."""
    return f"$.canonical_transcript[{index}]"
