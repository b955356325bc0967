"""One-line descriptions of the entries of a council."""

from collections.abc import Callable, Mapping
from typing import Any

from forum.app.formatting import pluralize
from forum.features.council import kinds
from forum.ledger.entry import Entry, Facts


def _baselined(entry: Entry[kinds.BaselineFacts]) -> str:
    facts = entry.facts
    share = f"{facts.agreement / 10:g} % of those asked agree"
    return f"{pluralize(facts.answers, 'first answer')}, {share}"


def _compared(entry: Entry[kinds.SimilarityFacts]) -> str:
    facts = entry.facts
    if not facts.model:
        return f"{facts.answers} answers could not be compared by meaning: there is no encoder"
    return f"{facts.model} compared {pluralize(facts.pairs, 'pair')} of answers"


def _grouped(entry: Entry[kinds.EquivalenceFacts]) -> str:
    facts = entry.facts
    steps = {"text": facts.text, "encoder": facts.encoder, "judge": facts.judge}
    by = ", ".join(f"{count} by {step}" for step, count in steps.items() if count)
    positions = pluralize(facts.positions, "position")
    return f"{facts.answers} wordings are {positions} (pairs decided: {by})"


def _revealed(
    entry: Entry[kinds.RevealFacts] | Entry[kinds.RevealV2Facts],
) -> str:
    return f"all ballots of round {entry.facts.round} are in, and may be shown"


def _concluded(entry: Entry[kinds.CouncilCloseFacts]) -> str:
    facts = entry.facts
    ballots = pluralize(facts.ballots, "ballot")
    return f"the council closed ({facts.end.value}): {facts.accord.value}, from {ballots}"


WORDS: Mapping[type[Facts], Callable[[Entry[Any]], str]] = {
    kinds.CouncilFacts: lambda e: f"a council of {pluralize(e.facts.seats, 'seat')} sat down",
    kinds.BallotFacts: lambda _: "its ballot was sealed",
    kinds.BaselineFacts: _baselined,
    kinds.RevealFacts: _revealed,
    kinds.RevealV2Facts: _revealed,
    kinds.SimilarityFacts: _compared,
    kinds.EquivalenceFacts: _grouped,
    kinds.CouncilCloseFacts: _concluded,
}
