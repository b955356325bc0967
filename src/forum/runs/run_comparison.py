"""Compare two runs step by step, and report the differences."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from forum.ledger.entry import Facts
from forum.runs import kinds, report_kinds

_RUN_SPECIFIC_FACTS: Mapping[type[Facts], frozenset[str]] = {
    kinds.AcceptedFacts: frozenset({"parent_run", "parent_task", "fork_run", "fork_index"}),
    kinds.DelegationFacts: frozenset({"run"}),
    kinds.CallFacts: frozenset({"calls"}),  # its delegation says the same; older calls have none
    kinds.GateDecisionFacts: frozenset({"digest"}),
    kinds.GateDecisionByFacts: frozenset({"digest"}),
    kinds.GateEditFacts: frozenset({"replaces"}),
    kinds.OutcomeFacts: frozenset({"known"}),
    kinds.IntentFacts: frozenset({"again"}),
    report_kinds.ReportSourceFacts: frozenset({"by", "trace", "continues"}),
    report_kinds.ReportBeginFacts: frozenset({"span", "within"}),
    report_kinds.ReportStepFacts: frozenset({"span", "within", "began"}),
    report_kinds.ReportGapFacts: frozenset({"since", "until"}),
}
"""Facts that name other entries or runs, and therefore differ between any two runs."""


class RunStep(msgspec.Struct, frozen=True):
    """What one entry says, apart from when, where and under which hashes it says it."""

    strand: str
    step: str
    kind: str
    facts: bytes
    bodies: tuple[tuple[str, str], ...]
    """Names and digests of the contents."""


class DivergenceKind(StrEnum):
    """How two runs differ at a step."""

    MISSING = "missing"
    """Only the first run has it."""
    ADDED = "added"
    """Only the second run has it."""
    FACTS = "facts"
    BODIES = "bodies"


class Divergence(msgspec.Struct, frozen=True):
    """One step that two runs do not share."""

    parting: DivergenceKind
    strand: str
    step: str
    first: RunStep | None
    second: RunStep | None


def comparable_facts(facts: Facts, *, ignoring: frozenset[str] = frozenset()) -> bytes:
    """Return the facts of an entry as bytes, without facts that differ between any two runs."""
    members = msgspec.to_builtins(facts)
    left_out = _RUN_SPECIFIC_FACTS.get(type(facts), frozenset()) | ignoring
    return msgspec.json.encode({name: members[name] for name in members if name not in left_out})


def compare_steps(first: Sequence[RunStep], second: Sequence[RunStep]) -> Iterable[Divergence]:
    """Yield the differences in the order of the first run, then steps that only the second has."""
    # Steps are matched by name, not by position: strands are interleaved differently in each run.
    there = {(step.strand, step.step): step for step in second}
    for step in first:
        other = there.pop((step.strand, step.step), None)
        if other is None:
            yield _divergence(DivergenceKind.MISSING, step, step, None)
        elif (step.kind, step.facts) != (other.kind, other.facts):
            yield _divergence(DivergenceKind.FACTS, step, step, other)
        elif step.bodies != other.bodies:
            yield _divergence(DivergenceKind.BODIES, step, step, other)
    for step in there.values():
        yield _divergence(DivergenceKind.ADDED, step, None, step)


def align_steps(steps: Iterable[RunStep], spans: Mapping[str, str]) -> list[RunStep]:
    """Return the steps of a reported run under names that do not depend on random ids.

    `spans` has the name of each span by its strand, see `report_fold.align_spans`; gaps are
    numbered in their order.
    """
    aligned, gaps = [], 0
    for step in steps:
        if step.kind == "report.gap/1":
            gaps += 1
            step = msgspec.structs.replace(step, step=f"gap/{gaps}")  # noqa: PLW2901
        strand = spans.get(step.strand, step.strand)
        aligned.append(msgspec.structs.replace(step, strand=strand))
    return aligned


def _divergence(
    kind: DivergenceKind, at: RunStep, first: RunStep | None, second: RunStep | None
) -> Divergence:
    return Divergence(parting=kind, strand=at.strand, step=at.step, first=first, second=second)
