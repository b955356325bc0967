"""The recorded state of webhook deliveries: one strand of the log's own run for each endpoint.

The strand begins with the end of the log at the time when the endpoint was first configured.  Then
each attempt is two entries: one before it, and one after it with the outcome.  The first of these
is a claim: of all processes that serve a ledger, the one whose append succeeds makes the attempt.
If a process stops between the two entries, the outcome is unknown, and after a while the attempt is
repeated with the same id.  So no event is lost, and receivers can recognize duplicates.
"""

from dataclasses import dataclass, field
from typing import Any

from forum.features.webhooks.messages import Webhook
from forum.ledger.entry import Entry
from forum.ledger.kinds import NoticeFacts, Outcome
from forum.ledger.strand import Draft
from forum.tlog import Hash

BEGIN = "begin"
_ACTOR = "server"
_AFTER = " after "
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """An event that is to be delivered, and the state of its last attempt."""

    entry: str
    event: str
    attempts: int = 0
    code: str = ""
    """The result of the last attempt; empty while it is in progress."""
    at: int = 0
    """When that was recorded, in microseconds."""

    def is_due(self, webhook: Webhook, now: int) -> bool:
        """Return whether the next attempt is due."""
        return now >= self.at + _SECOND * self._retry_delay(webhook)

    def _retry_delay(self, webhook: Webhook) -> int:
        if not self.code:
            # An attempt ends within its timeout.  After twice that time without an outcome, the
            # process that made it is considered dead.
            return 2 * webhook.timeout_seconds
        delays = webhook.retry_seconds
        usual = delays[min(self.attempts, len(delays)) - 1] if delays else 0
        return max(usual, int(self.code.partition(_AFTER)[2] or 0))


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of an attempt."""

    outcome: Outcome
    """Indeterminate if the attempt should be repeated."""
    code: str
    pause: int = 0
    """Requested delay before the next attempt, in seconds (Retry-After)."""


@dataclass(slots=True)
class DeliveryState:
    """The state of an endpoint, folded from the entries of its strand."""

    length: int = 0
    """Number of entries applied."""
    newest: str = ""
    """The newest entry that was claimed; all earlier events were claimed too."""
    stopped: bool = False
    """Whether the endpoint asked for no more messages (410)."""
    open: dict[str, PendingDelivery] = field(default_factory=dict)
    """Unfinished deliveries, by entry."""

    def apply_entry(self, entry: Entry[Any]) -> None:
        """Apply the next entry of the strand."""
        self.length = entry.n + 1
        facts = entry.facts
        assert isinstance(facts, NoticeFacts)  # noqa: S101  nothing else is written there
        if facts.event == BEGIN:
            self.newest = facts.entry
            return
        self.stopped |= facts.outcome is Outcome.DENIED
        if facts.outcome is Outcome.INDETERMINATE:
            delivery = PendingDelivery(
                entry=facts.entry,
                event=facts.event,
                attempts=facts.attempts,
                code=facts.code,
                at=entry.ts,
            )
            self._add_pending(delivery)
        elif facts.outcome is Outcome.OK or not self._is_late(facts):
            self.open.pop(facts.entry, None)

    def _add_pending(self, delivery: PendingDelivery) -> None:
        if delivery.attempts == 1 and not delivery.code:
            self.newest = delivery.entry
            self.open[delivery.entry] = delivery
        elif not self._is_late(delivery):
            self.open[delivery.entry] = delivery

    def _is_late(self, result: PendingDelivery | NoticeFacts) -> bool:
        """Return whether a result came so late that another attempt has begun or succeeded."""
        pending = self.open.get(result.entry)
        return pending is None or result.attempts < pending.attempts


def webhook_strand(webhook: Webhook) -> str:
    """Return the strand of an endpoint."""
    return f"notices/{webhook.name}"


def draft_begin(webhook: Webhook, newest: Hash | None) -> Draft:
    """Return the entry that records the starting point of a new endpoint."""
    entry = newest.hex() if newest else ""
    facts = NoticeFacts(webhook.name, entry, BEGIN, Outcome.OK, attempts=0)
    return Draft(BEGIN, _ACTOR, facts)


def draft_attempt(webhook: Webhook, delivery: PendingDelivery) -> Draft:
    """Return the entry that claims an attempt."""
    facts = _notified_facts(webhook, delivery, Outcome.INDETERMINATE, "")
    return _draft_entry("attempt", delivery, facts)


def draft_outcome(webhook: Webhook, delivery: PendingDelivery, answer: DeliveryResult) -> Draft:
    """Return the entry that records an outcome; the last allowed attempt fails for good."""
    result = answer.outcome
    if result is Outcome.INDETERMINATE and delivery.attempts > len(webhook.retry_seconds):
        result = Outcome.FAILED
    code = f"{answer.code}{_AFTER}{answer.pause}" if answer.pause else answer.code
    return _draft_entry("outcome", delivery, _notified_facts(webhook, delivery, result, code))


def _notified_facts(
    webhook: Webhook, delivery: PendingDelivery, result: Outcome, code: str
) -> NoticeFacts:
    return NoticeFacts(
        endpoint=webhook.name,
        entry=delivery.entry,
        event=delivery.event,
        outcome=result,
        attempts=delivery.attempts,
        code=code,
    )


def _draft_entry(step: str, delivery: PendingDelivery, facts: NoticeFacts) -> Draft:
    cause = Hash.from_hex(delivery.entry)
    return Draft(f"{step}/{delivery.entry[:32]}/{delivery.attempts}", _ACTOR, facts, (cause,))
