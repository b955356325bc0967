"""Figures of a record: calls by model, verdicts, checks, escalations, stops, bytes and cost.

One fold computes them, for one run with the runs within it, or for a whole log.  Costs are those of
`run_summary`, so that a summary, a comparison and a list of runs state the same.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from forum.ledger.entry import LOG_RUN, Entry
from forum.ledger.ports import Amount
from forum.runs import kinds
from forum.runs.run_fold import RunState
from forum.runs.run_summary import SummaryTally


class ModelFigures(msgspec.Struct, frozen=True):
    """The calls of one model, and what they have cost."""

    model: str
    """The name of the model; empty for calls whose model is not recorded."""
    spent: Amount = Amount()
    """A call without a reply counts with its reservation."""
    unpriced: int = 0
    """The number of calls whose price is not known, and which count as free of charge."""


class RecordFigures(msgspec.Struct, frozen=True):
    """What a record holds, in numbers."""

    runs: int
    """The number of runs with an entry, without the run of the log itself."""
    entries: int
    bodies: int
    """The number of bodies that the entries commit to, whether or not they were erased."""
    body_bytes: int
    """The size of these bodies."""
    kinds: Mapping[str, int]
    """The number of entries of each kind."""
    outcomes: Mapping[str, int]
    """The number of closed runs by the word for how they ended."""
    models: tuple[ModelFigures, ...]
    """The calls by model, the one with the highest cost first."""
    verdicts: Mapping[str, int]
    """The number of verdicts by what followed: accept, retry, escalate, give-up."""
    checks: Mapping[str, int]
    """The number of checks of answers by their outcome."""
    stops: Mapping[str, int]
    """The number of stops by their reason; a task that stops its run counts once."""

    @property
    def escalations(self) -> int:
        """The number of verdicts that led to the next agent of a ladder."""
        return self.verdicts.get(kinds.Next.ESCALATE.value, 0)

    @property
    def spent(self) -> Amount:
        """The cost of all calls."""
        total = Amount()
        for model in self.models:
            total = total.plus(model.spent)
        return total


class RecordTally:
    """Counts the entries of runs; the entries of one strand come in their order."""

    def __init__(self) -> None:
        self._bodies = self._body_bytes = 0
        self._kinds: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._verdicts: Counter[str] = Counter()
        self._checks: Counter[str] = Counter()
        self._stops: Counter[str] = Counter()
        self._models: dict[str, ModelFigures] = {}
        self._runs: set[str] = set()
        self._summaries: dict[str, SummaryTally] = {}
        self._run_stops: dict[str, set[tuple[kinds.StopReason, str]]] = {}

    def add_entry(self, entry: Entry[Any]) -> None:
        """Count an entry."""
        self._kinds[entry.kind] += 1
        self._bodies += len(entry.bodies)
        self._body_bytes += sum(body.size for body in entry.bodies.values())
        if entry.run == LOG_RUN:
            return
        self._runs.add(entry.run)
        if entry.run not in self._summaries:
            self._summaries[entry.run] = SummaryTally()
        self._summaries[entry.run].add_entry(entry)
        match entry.facts:
            case kinds.VerdictFacts() as facts:
                self._verdicts[facts.next.value] += 1
            case kinds.CheckFacts() as facts:
                self._checks[facts.outcome.value] += 1
            case kinds.StopFacts() as facts:
                # A run that is stopped by a task records the stop of the task again.
                self._run_stops.setdefault(entry.run, set()).add((facts.reason, facts.by))
            case _:
                pass

    def finish_run(self, run: str) -> None:
        """Add up a run whose entries are all counted, and keep no more than its name.

        A log may have more runs than fit into memory otherwise.
        """
        summary = self._summaries.pop(run, None) or SummaryTally()
        if summary.outcome is not None:
            self._outcomes[summary.result().choose_word(RunState.ENDED)] += 1
        for cost in summary.own_costs():
            sofar = self._models.get(cost.model) or ModelFigures(cost.model)
            self._models[cost.model] = ModelFigures(
                cost.model, sofar.spent.plus(cost.amount), sofar.unpriced + cost.unpriced
            )
        self._stops.update(reason.value for reason, _ in self._run_stops.pop(run, ()))

    def result(self) -> RecordFigures:
        """Finish all runs, and return the figures."""
        for run in list(self._summaries):
            self.finish_run(run)
        models = sorted(self._models.values(), key=lambda model: (model.spent, model.model))
        return RecordFigures(
            runs=len(self._runs),
            entries=self._kinds.total(),
            bodies=self._bodies,
            body_bytes=self._body_bytes,
            kinds=_sort(self._kinds),
            outcomes=_sort(self._outcomes),
            models=tuple(reversed(models)),
            verdicts=_sort(self._verdicts),
            checks=_sort(self._checks),
            stops=_sort(self._stops),
        )


def _sort(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
