"""Carry entries of an earlier epoch into the next one.

An entry names its log, so it cannot be copied: it is recorded again at the same place of the new
log, with the same step, actor, facts and bodies.  Ids of other carried entries are replaced by
their new ones; a cause that is not carried is replaced by the entry that begins the epoch.  An
entry of `log.carry/1` names the end of each strand that was carried, as it was in the earlier log.
The maker and the verifier use these same functions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from forum.errors import Malformed
from forum.ledger import ports
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.cap_orders import BUDGETS_STRAND
from forum.ledger.entry import LOG_RUN, Entry, Facts, change_texts, leaf_of
from forum.ledger.kinds import (
    AccessGrantFacts,
    AccessGrantV2Facts,
    AccessRevocationFacts,
    CapFacts,
    FreezeFacts,
    HoldFacts,
    Kinds,
    RetentionFacts,
    RunOpenFacts,
    TeamFacts,
)
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.ledger.strand import RecordedEntry

CARRIED_STRAND = "carried"
"""The strand of the log's own run that says what was carried from the earlier epoch."""

CARRIED_LOG_STRANDS = (ACCESS_STRAND, RETENTION_STRAND, BUDGETS_STRAND)
"""The strands of the log's own run that are carried: access, what is kept, and caps."""

_CARRIED_LOG_FACTS = (
    AccessGrantFacts,
    AccessGrantV2Facts,
    AccessRevocationFacts,
    RetentionFacts,
    HoldFacts,
    CapFacts,
    TeamFacts,
    FreezeFacts,
)
"""What is carried of these strands; a redaction is about bodies of the earlier log."""


def is_carried(entry: Entry[Any]) -> bool:
    """Return whether an entry of a carried strand is carried itself."""
    return entry.run != LOG_RUN or isinstance(entry.facts, _CARRIED_LOG_FACTS)


def carry_facts(facts: Facts, ids: Mapping[str, str]) -> Facts:
    """Return the facts as they are recorded again; `ids` are the new ids by the earlier ones."""
    if isinstance(facts, RunOpenFacts):
        # The new log has no checkpoint of the earlier one.
        return RunOpenFacts()
    changed: Facts = change_texts(facts, lambda text: ids.get(text, text))
    return changed


def carry_parents(entry: Entry[Any], ids: Mapping[str, str], epoch: str) -> tuple[str, ...]:
    """Return the causes as they are recorded again; `epoch` is the entry that begins the epoch."""
    return tuple(dict.fromkeys(ids.get(parent, epoch) for parent in entry.parents))


def read_source(
    reader: ports.EntryReader, kinds: Kinds, run: str, strand: str
) -> Iterator[RecordedEntry]:
    """Yield the entries of a strand that are carried, in their order."""
    for data in reader.read_strand(run, strand):
        entry = kinds.read(data)
        if is_carried(entry):
            yield RecordedEntry(leaf_of(data), entry)


def find_difference(
    earlier: Entry[Any], later: Entry[Any], ids: Mapping[str, str], epoch: str
) -> str:
    """Return the member in which a carried entry differs from its source; empty if in none."""
    expected: dict[str, object] = {
        "step": earlier.step,
        "actor": earlier.actor,
        "kind": earlier.kind,
        "bodies": earlier.bodies,
        "parents": carry_parents(earlier, ids, epoch),
    }
    for member, value in expected.items():
        if getattr(later, member) != value:
            return member
    try:
        facts = carry_facts(earlier.facts, ids)
    except (Malformed, TypeError):
        return "facts"
    return "" if facts == later.facts else "facts"
