"""The invariants of an artifact, and violations of them."""

from enum import StrEnum

import msgspec


class Invariant(StrEnum):
    """What has to hold of an artifact."""

    FORM = "form"
    """It matches the schema of an artifact."""
    VERSION = "version"
    """Its version is supported."""
    SESSION = "session"
    """Its session id is that of its config."""
    PANEL = "panel"
    """Agent ids are unique, and the panel consists of declared agents."""
    OPENING = "opening"
    """It opens with the config's problem and states no other."""
    ORDER = "order"
    """Rounds and turn indexes rise, and no round is skipped."""
    IDS = "ids"
    """Message ids are unique."""
    TIME = "time"
    """Times are valid and do not decrease."""
    SPEAKER = "speaker"
    """Each message has a speaker that may send it."""
    DECLARED_ORDER = "declared_order"
    """In each round each agent of the panel speaks once, in the order of the panel."""
    COORDINATOR_LAST = "coordinator_last"
    """A round ends with the verdict, and only the verdict `continue` opens the next one."""
    BRANCH = "branch"
    """A request is answered when it is due, by its target and by no other agent."""
    NOTES = "notes"
    """Dropped and unroutable requests are noted on the turn that made them."""
    CONTRACTION = "contraction"
    """An agent that leaves the panel was on it, and had been asked."""
    CAPS = "caps"
    """No message follows once a cap is exceeded."""
    USAGE = "usage"
    """The stated usage is the sum of the messages' usage."""
    DIGEST = "digest"
    """The digests are those of the transcript."""
    OUTCOME = "outcome"
    """The outcome and its reason agree with the transcript."""
    UNRESOLVED = "unresolved"
    """The unresolved disagreements are those stated last."""


class Violation(msgspec.Struct, frozen=True):
    """A violated invariant of an artifact."""

    law: Invariant
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.law}: {self.why} - at `{self.where}`"


def message_path(index: int) -> str:
    """Return the JSON path of a message."""
    return f"$.canonical_transcript[{index}]"
