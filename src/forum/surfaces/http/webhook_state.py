"""What somebody outside was told: one strand of the log's own run for each endpoint.

It begins where the log ended when the endpoint was first heard of.  Then each attempt is two
entries: before it, that it is made; after it, what came of it.  The first of these is a claim: of
all processes that serve a ledger, the one that takes the position makes the attempt.  One that is
stopped in between leaves an attempt of which nothing is known; after a while it is made again, with
the same id.  So nothing is lost, and what is told twice can be recognised.
"""

from dataclasses import dataclass, field
from typing import Any

from forum.ledger import Draft, Entry, NoticeFacts, Outcome
from forum.surfaces.http.webhooks import Webhook
from forum.tlog import Hash

BEGIN = "begin"
_ACTOR = "server"
_AFTER = " after "
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """An entry that somebody is to be told of."""

    entry: str
    event: str
    attempts: int = 0
    code: str = ""
    """What came of the last attempt; nothing while it is being made."""
    at: int = 0
    """When that was recorded."""

    def is_due(self, webhook: Webhook, now: int) -> bool:
        """Tell whether somebody has to make the next attempt."""
        return now >= self.at + _SECOND * self._retry_delay(webhook)

    def _retry_delay(self, webhook: Webhook) -> int:
        if not self.code:
            # An attempt ends within the time for it.  Whoever has not told by twice that is gone.
            return 2 * webhook.timeout_seconds
        delays = webhook.retry_seconds
        usual = delays[min(self.attempts, len(delays)) - 1] if delays else 0
        return max(usual, int(self.code.partition(_AFTER)[2] or 0))


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """What came of an attempt."""

    outcome: Outcome
    """Indeterminate, if it is worth another one."""
    code: str
    pause: int = 0
    """For how many seconds the receiver wants to be left alone."""


@dataclass(slots=True)
class DeliveryState:
    """What the entries of one strand tell."""

    length: int = 0
    """How many they are."""
    newest: str = ""
    """The entry up to which everything was taken up."""
    stopped: bool = False
    """The endpoint wants to hear nothing any more."""
    open: dict[str, PendingDelivery] = field(default_factory=dict)
    """What was taken up and not yet settled, by entry."""

    def apply_entry(self, entry: Entry[Any]) -> None:
        """Take in the next entry."""
        self.length = entry.n + 1
        facts = entry.facts
        assert isinstance(facts, NoticeFacts)  # noqa: S101  nothing else is written there
        if facts.event == BEGIN:
            self.newest = facts.entry
            return
        self.stopped |= facts.outcome is Outcome.DENIED
        if facts.outcome is Outcome.INDETERMINATE:
            errand = PendingDelivery(facts.entry, facts.event, facts.attempts, facts.code, entry.ts)
            self._add_pending(errand)
        elif facts.outcome is Outcome.OK or not self._is_late(facts):
            self.open.pop(facts.entry, None)

    def _add_pending(self, errand: PendingDelivery) -> None:
        if errand.attempts == 1 and not errand.code:
            self.newest = errand.entry
            self.open[errand.entry] = errand
        elif not self._is_late(errand):
            self.open[errand.entry] = errand

    def _is_late(self, said: PendingDelivery | NoticeFacts) -> bool:
        """Tell whether somebody was so slow that others have gone on."""
        known = self.open.get(said.entry)
        return known is None or said.attempts < known.attempts


def webhook_strand(webhook: Webhook) -> str:
    """Return the strand of an endpoint."""
    return f"notices/{webhook.name}"


def draft_begin(webhook: Webhook, newest: Hash | None) -> Draft:
    """Return what is recorded when an endpoint is first heard of."""
    entry = newest.hex() if newest else ""
    facts = NoticeFacts(webhook.name, entry, BEGIN, Outcome.OK, attempts=0)
    return Draft(BEGIN, _ACTOR, facts)


def draft_attempt(webhook: Webhook, errand: PendingDelivery) -> Draft:
    """Return what is recorded before an attempt."""
    facts = _notified_facts(webhook, errand, Outcome.INDETERMINATE, "")
    return _draft_entry("attempt", errand, facts)


def draft_outcome(webhook: Webhook, errand: PendingDelivery, answer: DeliveryResult) -> Draft:
    """Return what is recorded after an attempt; one too many is the last."""
    result = answer.outcome
    if result is Outcome.INDETERMINATE and errand.attempts > len(webhook.retry_seconds):
        result = Outcome.FAILED
    code = f"{answer.code}{_AFTER}{answer.pause}" if answer.pause else answer.code
    return _draft_entry("outcome", errand, _notified_facts(webhook, errand, result, code))


def _notified_facts(
    webhook: Webhook, errand: PendingDelivery, result: Outcome, code: str
) -> NoticeFacts:
    return NoticeFacts(webhook.name, errand.entry, errand.event, result, errand.attempts, code)


def _draft_entry(step: str, errand: PendingDelivery, facts: NoticeFacts) -> Draft:
    cause = Hash.from_hex(errand.entry)
    return Draft(f"{step}/{errand.entry[:32]}/{errand.attempts}", _ACTOR, facts, (cause,))
