"""Figures: what each query counts, by entries that are written by hand."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from forum.features.evidence import queries
from forum.features.evidence.events import describe_event
from forum.features.evidence.figures import MAX_GROUPS, OTHERS, Figure
from forum.features.evidence.log_part import PartEntry
from forum.features.evidence.queries import QUERIES, Condition, Measure, Over, Query
from forum.features.evidence.report import draw_sample
from forum.features.evidence.tally import PeriodTally, ReportPeriod
from forum.runs.report_kinds import ReportSourceFacts
from forum.verify import standalone

SECOND = 1_000_000
DAY = 86_400 * SECOND
RELAYED = "01a1f698-9590-791c-b9fc-9c84500e3f31"
PERIOD = ReportPeriod(10 * DAY, 20 * DAY)


class Written:
    """Entries in the order of a log."""

    def __init__(self, *asked: Query) -> None:
        self.tally = PeriodTally(PERIOD, asked or QUERIES)
        self.size = 0

    def add(self, at: float, run: str, kind: str, strand: str = "main", **facts: Any) -> None:  # noqa: ANN401
        """Add an entry at a time in days."""
        entry = PartEntry(
            run,
            strand,
            n=0,
            ts=int(at * DAY),
            actor=facts.pop("actor", "x"),
            kind=kind,
            facts=facts,
        )
        self.tally.add(self.size, entry)
        self.size += 1

    def figures(self) -> dict[str, Figure]:
        """Return the figures by their ids."""
        return {figure.id: figure for figure in self.tally.finish()}


def groups(figure: Figure) -> dict[tuple[str, ...], int]:
    """Return the groups of a figure."""
    return {group.key: group.value for group in figure.groups}


def test_councils_that_decided_nothing_are_counted_as_such() -> None:
    """Their runs end with the outcome `ok`."""
    log = Written()
    for run, accord in enumerate(("agreed", "majority", "split", "blocked", "blocked")):
        log.add(11, str(run), "run.open/1", actor="ann")
        log.add(12, str(run), "council.close/1", accord=accord)
        log.add(12, str(run), "run.close/1", outcome="ok")

    figures = log.figures()

    assert figures["councils.all"].value == 5
    assert groups(figures["councils.undecided"]) == {("split",): 1, ("blocked",): 2}


def test_a_run_counts_while_it_is_open() -> None:
    """One that ended before, or began after, is none of the period; one that goes on is open."""
    log = Written()
    for run, begun, ended in (
        ("a", 1, 5),
        ("b", 1, 12),
        ("c", 11, 30),
        ("d", 11, 12),
        ("e", 25, 0),
    ):
        log.add(begun, run, "run.open/1", actor="ann")
        log.add(begun, run, "accepted/1")
        if ended:
            log.add(ended, run, "run.close/1", outcome="failed" if run == "d" else "ok")

    figures = log.figures()

    assert figures["runs.all"].value == 3
    assert groups(figures["runs.all"]) == {("driven",): 3}
    assert figures["runs.carried"].value == 1
    assert groups(figures["runs.opened"]) == {("ann",): 2}
    assert groups(figures["runs.ended"]) == {("ok",): 1, ("failed",): 1}
    assert figures["runs.open"].value == 1
    assert figures["runs.not-ok"].examples == (figures["runs.not-ok"].examples[0],)
    assert groups(figures["runs.daily"]) == {
        ("1970-01-12", "open"): 1,
        ("1970-01-12", "failed"): 1,
    }
    assert list(log.tally.concerns()) == ["d"]


def test_a_gate_counts_with_the_time_that_somebody_took() -> None:
    """A deadline decides too, and is not counted as somebody."""
    log = Written()
    log.add(9, "a", "run.open/1")
    log.add(9, "a", "gate.open/1", "gate/plan")
    log.add(9 + 1.5, "a", "gate.decision/2", "gate/plan", answer="approve", by="key", actor="carol")
    log.add(11, "a", "gate.open/1", "gate/tool")
    log.add(12, "a", "gate.decision/1", "gate/tool", answer="reject", by="deadline")
    log.add(13, "a", "gate.open/1", "gate/third")

    figures = log.figures()

    assert groups(figures["gates.all"]) == {("approve",): 1, ("reject",): 1, ("undecided",): 1}
    assert groups(figures["gates.deciders"])["carol", "key", "approve"] == 1
    assert figures["gates.unattended"].value == 1
    assert figures["gates.median"].value == figures["gates.longest"].value == 129_600
    assert figures["gates.median"].items == 1


def test_a_step_counts_once_by_its_end_and_an_inner_run_is_not_paid_twice() -> None:
    """A call without a reply counts with its reservation, and an effect without an end is doubt."""
    log = Written()
    log.add(9, "a", "run.open/1", actor="ann")
    log.add(9.9, "a", "call/1", "task/x", agent="g", model="m", usd=900, tokens=9)
    log.add(10.1, "a", "reply/1", "task/x", outcome="ok", usd=5, tokens=3, model="m-1")
    log.add(11, "a", "call/1", "task/x", agent="g", model="m", usd=700, tokens=7)
    log.add(12, "a", "call/1", "task/y", agent="run", model="run", usd=50)
    log.add(12, "a", "reply/1", "task/y", outcome="ok", usd=40)
    log.add(12, "a", "intent/1", "task/z", tool="pay")
    log.add(13, "a", "outcome/1", "task/z", outcome="indeterminate")
    log.add(13, "a", "intent/1", "task/z", tool="pay")
    log.add(14, "b", "run.open/1", actor="bea")
    log.add(14, "b", "report.begin/1", "span/1", op="model", usd=80, calls=1)
    log.add(14, "b", "report.step/1", "span/1", op="model", outcome="ok", usd=60, model="z",
            input_tokens=2, output_tokens=1, provider="p")  # fmt: skip

    figures = log.figures()

    assert figures["cost.total"].value == 5 + 700 + 60
    assert groups(figures["cost.total"]) == {("ann",): 705, ("bea",): 60}
    assert figures["tokens.total"].value == 3 + 7 + 3
    assert groups(figures["models.calls"]) == {("m-1", ""): 1, ("m", ""): 1, ("z", "p"): 1}
    assert groups(figures["tools.outcomes"]) == {("indeterminate",): 1, (queries.NO_END,): 1}
    assert figures["tools.doubt"].value == 2
    assert list(log.tally.concerns()) == ["a"]


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ({"told": "relayed", "by": "forum-run", "trace": RELAYED}, True),
        ({"told": "wrapped", "by": "process-7", "trace": RELAYED.replace("-", "")}, True),
        ({"told": "wrapped", "by": "process-7", "trace": RELAYED}, False),
        ({"told": "reported", "by": "forum-run", "trace": "0" * 32}, False),
    ],
)
def test_what_a_gateway_has_recorded_is_not_paid_twice(
    source: dict[str, str],
    *,
    counts: bool,
) -> None:
    """Figures, a summary and the fold of a run agree on which sources count."""
    log = Written()
    log.add(11, "a", "run.open/1", actor="ann")
    log.add(11, "a", "report.source/1", **source)
    log.add(12, "a", "report.begin/1", "span/1", op="model", usd=80, tokens=9, calls=1)
    log.add(12, "a", "report.step/1", "span/1", op="model", outcome="ok", usd=60, model="z",
            input_tokens=2, output_tokens=1, provider="p")  # fmt: skip
    log.add(12, "a", "report.begin/1", "span/2", op="model", usd=80, tokens=9, calls=1)
    log.add(12, "a", "report.step/1", "span/3", op="tool", name="mail", outcome="ok", usd=7)
    figures = log.figures()

    assert figures["cost.total"].value == (60 + 80 + 7 if counts else 0)
    assert figures["tokens.total"].value == (3 + 9 if counts else 0)
    assert bool(groups(figures["models.calls"])) == counts
    assert groups(figures["tools.used"]) == {("mail",): 1}
    facts = msgspec.convert(source, ReportSourceFacts)
    assert facts.is_counted_elsewhere != counts
    assert standalone.is_counted_elsewhere(source) != counts


def test_only_entries_of_the_period_count() -> None:
    """The first moment counts, the moment after the last does not."""
    log = Written()
    for at in (9.99, 10, 19.99, 20):
        log.add(at, "log", "access.deny/1", "access", who="w", why="unknown", door="d", times=3)
    log.add(15, "log", "access.deny/1", "access", who="w", why="scope", door="d")

    figures = log.figures()

    assert figures["access.denied"].value == 7
    assert groups(figures["access.denied"]) == {("w", "unknown"): 6, ("w", "scope"): 1}
    assert figures["entries.all"].value == log.tally.counted == 3
    assert figures["access.denied"].examples == (1, 2, 4)


def test_many_groups_are_joined_and_nothing_is_lost() -> None:
    """Programs name models as they like; the sum of the groups is the figure."""
    query = Query(
        "q",
        title="q",
        section="s",
        over=Over.ENTRIES,
        kinds=("k/1",),
        measure=Measure.SUM,
        of="n",
        by=("m",),
    )
    log = Written(*QUERIES, query)
    for number in range(MAX_GROUPS + 10):
        log.add(11, "log", "k/1", n=number, m=f"m{number}")

    figure = log.figures()["q"]

    assert len(figure.groups) == MAX_GROUPS + 1
    assert figure.groups[-1].key == (OTHERS,)
    assert sum(group.value for group in figure.groups) == figure.value


@pytest.mark.parametrize(("negated", "expected"), [(False, 1), (True, 2)])
def test_an_absent_member_is_empty(negated: bool, expected: int) -> None:  # noqa: FBT001
    """Facts with their default are not written."""
    where = (Condition("next", ("",), negated=negated),)
    log = Written(
        *QUERIES, Query("q", title="q", section="s", over=Over.ENTRIES, kinds=("v/1",), where=where)
    )
    log.add(11, "log", "v/1")
    log.add(11, "log", "v/1", next="retry")
    log.add(11, "log", "v/1", next="accept")

    assert log.figures()["q"].value == expected


def test_every_query_has_an_id_of_its_own_and_a_known_section() -> None:
    """A map refers to queries by their ids."""
    ids = [query.id for query in QUERIES]

    assert len(ids) == len(set(ids))
    assert {query.section for query in QUERIES} == queries.SECTIONS.keys()
    assert {q.id for q in QUERIES if q.concern} == set(queries.CONCERNS)
    assert all(query.of for query in QUERIES if query.measure is not Measure.COUNT)


def test_a_sample_depends_on_the_seed_and_not_on_the_order() -> None:
    """Whoever knows the seed draws the same runs; a larger sample holds the smaller one."""
    runs = [f"run-{number}" for number in range(50)]

    few, more = draw_sample(runs, "seed", 5), draw_sample(runs[::-1], "seed", 20)

    assert set(few) < set(more)
    assert len(few) == 5
    assert draw_sample(runs, "other", 5) != few
    assert draw_sample(runs, "seed", 99) == tuple(sorted(runs))


@pytest.mark.parametrize("describe", [describe_event, standalone.describe_event])
def test_retention_is_told_in_plain_words(describe: Callable[[str, dict[str, Any]], str]) -> None:
    """By both verifiers alike."""
    words = {
        ("*", 3600): "keeps bodies of all runs for 1 hour",
        ("call/prompt", 7200): "keeps bodies of call/prompt for 2 hours",
        ("call", 0): "keeps bodies of call for ever",
    }
    for (subject, seconds), text in words.items():
        assert describe("retention/1", {"subject": subject, "seconds": seconds}) == text
