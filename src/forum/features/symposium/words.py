"""One-line descriptions of the entries of a symposium."""

from collections.abc import Callable, Mapping
from typing import Any

from forum.app.formatting import pluralize
from forum.features.symposium import kinds
from forum.ledger.entry import Entry, Facts


def _ended(entry: Entry[kinds.SymposiumClose]) -> str:
    facts = entry.facts
    reason = f" ({facts.reason.value})" if facts.reason else ""
    return f"the session closed: {facts.outcome.value}{reason}"


WORDS: Mapping[type[Facts], Callable[[Entry[Any]], str]] = {
    kinds.PanelFacts: lambda e: f"a panel of {pluralize(e.facts.agents, 'agent')} was chosen",
    kinds.MessageFacts: lambda e: (
        f"round {e.facts.round}, turn {e.facts.turn}: {e.facts.type.value}"
    ),
    kinds.RequestVoidFacts: lambda _: "a request was dropped: its target has left",
    kinds.SymposiumCloseFacts: _ended,
    kinds.SymposiumCloseV2Facts: _ended,
}
