"""One-line descriptions of reviews, incidents and configurations."""

from collections.abc import Callable, Mapping
from typing import Any

from forum.app.formatting import pluralize
from forum.features.oversight import kinds
from forum.ledger.entry import Entry, Facts


def describe_range(since: int, until: int) -> str:
    """Return in words which entries a review is about."""
    return f"the entries from index {since} up to log size {until}"


def _reviewed(entry: Entry[kinds.ReviewFacts]) -> str:
    facts = entry.facts
    run = f" of run {facts.run}" if facts.run else ""
    items = facts.stops + facts.budget_stops + facts.denials + facts.gaps + facts.indeterminate
    shown = f"{pluralize(items, 'item')}, {pluralize(facts.gates, 'open gate')}"
    entries = describe_range(facts.since, facts.until)
    return f"{entry.actor} reviewed {entries}{run}: {shown}"


def _configured(entry: Entry[kinds.ConfigurationChangeFacts]) -> str:
    facts = entry.facts
    changed = f": changed {', '.join(facts.changed)}" if facts.changed else ""
    erased = f"; erased before it, not compared: {', '.join(facts.erased)}" if facts.erased else ""
    return f"Forum {facts.engine} began to use a configuration{changed}{erased}"


WORDS: Mapping[type[Facts], Callable[[Entry[Any]], str]] = {
    kinds.ReviewFacts: _reviewed,
    kinds.IncidentOpenFacts: lambda e: (
        f"{e.actor} opened incident {e.facts.incident} ({e.facts.severity.value})"
        f"{', ' + pluralize(len(e.facts.runs), 'run') if e.facts.runs else ''}"
    ),
    kinds.IncidentCloseFacts: lambda e: f"{e.actor} closed incident {e.facts.incident}",
    kinds.ConfigurationFacts: lambda e: (
        f"Forum {e.facts.engine} began to use a configuration: roster {e.facts.roster[:8]}, "
        f"policies {e.facts.policies[:8]}, models {e.facts.models[:8]}, tools {e.facts.tools[:8]}"
    ),
    kinds.ConfigurationChangeFacts: _configured,
}
