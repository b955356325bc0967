"""What the panel of a run came to, by either protocol: its accord, and its findings in words.

The engine reads them for the task that the panel worked on, and a verifier reads them again.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from forum.deliberation.council_findings import describe_findings
from forum.deliberation.council_report import read_report
from forum.deliberation.symposium.decoders import read_message
from forum.deliberation.symposium.findings import (
    DECISIVE_MESSAGES,
    SessionFindings,
    read_session_findings,
)
from forum.deliberation.symposium.kinds import MessageFacts, SymposiumClose
from forum.ledger.entry import Entry
from forum.work.council_end import CouncilCloseFacts
from forum.work.kinds import AccordFacts


class _Recorded(Protocol):
    """A recorded entry, as the engine or a verifier holds it."""

    @property
    def entry(self) -> Entry[Any]:
        """The entry."""


RecordedT = TypeVar("RecordedT", bound=_Recorded)


class PanelRecord(Generic[RecordedT]):
    """The entries of a panel's run, with a function that reads their bodies."""

    def __init__(
        self, run: str, entries: Iterable[RecordedT], read: Callable[[RecordedT, str], bytes]
    ) -> None:
        self._run, self._read = run, read
        self._messages: list[RecordedT] = []
        self._close: RecordedT | None = None
        for item in entries:
            facts = item.entry.facts
            if isinstance(facts, CouncilCloseFacts | SymposiumClose):
                self._close = item
                break
            if isinstance(facts, MessageFacts) and facts.type in DECISIVE_MESSAGES:
                self._messages.append(item)

    @property
    def has_closed(self) -> bool:
        """Whether the deliberation has ended."""
        return self._close is not None

    def read_accord(self) -> AccordFacts | None:
        """Return how far the panel agreed; None if it has no answer.

        That of a council is a fact. That of a symposium follows from its messages: raises what the
        function raises that reads them, and `Malformed`.
        """
        if self._close is None:
            return None
        closed = self._close.entry.facts
        if isinstance(closed, CouncilCloseFacts):
            return AccordFacts(self._run, closed.accord, closed.blockers)
        findings = self._read_session()
        if findings is None:
            return None
        return AccordFacts(self._run, findings.accord, len(findings.blockers))

    def read_text(self) -> str:
        """Return what the panel found; empty without an answer. Raises like `read_accord`."""
        if self._close is None:
            return ""
        if isinstance(self._close.entry.facts, CouncilCloseFacts):
            return describe_findings(read_report(self._read(self._close, "report")))
        findings = self._read_session()
        return findings.text if findings else ""

    def _read_session(self) -> SessionFindings | None:
        return read_session_findings(
            [read_message(self._read(item, "message")) for item in self._messages]
        )
