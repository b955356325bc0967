"""One trace is one run, each span is recorded once, and whatever is not recorded is counted."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from forum.app import KINDS
from forum.errors import StoreFailed
from forum.features.telemetry.intake import IntakeRules
from forum.ledger.kinds import Outcome, RunCloseFacts
from forum.ledger.sequencer import Sequencer
from forum.runs.report_closing import ReportPatience, close_if_quiet, close_quiet_runs
from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import (
    GapReason,
    ReportBatchFacts,
    ReportProvenance,
    ReportSourceFacts,
)
from tests.features.telemetry.batches import TRACE, span, traces
from tests.features.telemetry.desks import MICRO, Desk, entries, gaps, main_kinds, steps
from tests.support import StoreFactory

RUN = f"otel-{TRACE}"
CHAT = {"gen_ai.operation.name": "chat"}
AT_ONCE = ReportPatience(0, 0)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    """Return one log that any number of processes can open."""
    is_file = request.param == "sqlite"
    place = tmp_path / "ledger.db" if is_file else request.getfixturevalue("postgres_url")
    factory = StoreFactory(place)
    yield factory
    factory.close()


def test_a_trace_becomes_a_run(logs: StoreFactory) -> None:
    """Its source says that it was told, and by whom; spans follow from the entry that says so."""
    desk = Desk(logs())
    counts = desk.take(traces(span(2, "chat", CHAT, parent=1), span(1, "root")), by="key/ci/1")

    source = next(e.facts for e in entries(desk.ledger, RUN) if e.kind == "report.source/1")
    assert isinstance(source, ReportSourceFacts)
    assert (source.told, source.by, source.trace) == ("reported", "key/ci/1", TRACE)
    assert counts.recorded == 2
    assert set(steps(desk.ledger, RUN)) == {f"{n:016x}" for n in (1, 2)}


def test_a_retried_request_adds_nothing(logs: StoreFactory) -> None:
    """An exporter that saw no answer sends everything again, perhaps to another server."""
    request = traces(span(2, "chat", CHAT, parent=1), span(3, "GET", parent=1), span(1))
    one, other = Desk(logs()), Desk(logs())
    one.take(request)
    before = main_kinds(one.ledger, RUN)
    again = [desk.take(request) for desk in (one, other, Desk(logs()))]

    assert [counts.duplicates for counts in again] == [3, 3, 3]
    assert main_kinds(one.ledger, RUN) == before
    assert gaps(one.ledger, RUN) == {GapReason.FILTERED: 1}


def test_another_content_under_a_known_id_is_refused_each_time_and_counted_once(
    logs: StoreFactory,
) -> None:
    """The first report stands, also if only a body differs, and at every server."""
    one, other = Desk(logs()), Desk(logs())
    one.take(traces(span(1, "chat", {**CHAT, "gen_ai.output.messages": "yes"})))
    changed = traces(span(1, "chat", {**CHAT, "gen_ai.output.messages": "no"}))
    refused = [desk.take(changed).refused for desk in (other, one, other)]

    assert refused == [1, 1, 1]
    assert gaps(one.ledger, RUN) == {GapReason.REFUSED: 1}


@pytest.mark.parametrize("provenance", [ReportProvenance.WRAPPED, ReportProvenance.RELAYED])
def test_spans_do_not_join_a_run_of_another_source(
    logs: StoreFactory, provenance: ReportProvenance
) -> None:
    """A run that has the name of a trace and was not reported is left alone."""
    desk = Desk(logs())
    source = ReportSourceFacts(told=provenance, by="key-1")
    desk.ledger.open_run(RUN, "x", source_draft(RUN, "x", source))
    before = main_kinds(desk.ledger, RUN)
    counts = [desk.take(traces(span(1, "chat", CHAT))) for _ in range(2)]

    assert [(count.recorded, count.duplicates) for count in counts] == [(1, 0), (0, 1)]
    assert main_kinds(desk.ledger, RUN) == before
    assert not steps(desk.ledger, RUN)
    assert len(steps(desk.ledger, f"{RUN}.2")) == 1
    opened = next(e.facts for e in entries(desk.ledger, f"{RUN}.2") if e.n == 1)
    assert isinstance(opened, ReportSourceFacts)
    assert not opened.continues


def test_spans_of_another_reporter_are_a_run_of_their_own(logs: StoreFactory) -> None:
    """The id of a trace is no secret: who knows it adds no span, no root and no end to its run."""
    mine, theirs = Desk(logs()), Desk(logs())
    mine.take(traces(span(2, "chat", CHAT, parent=1)), by="key/mine")
    mine.interrupt = lambda: theirs.take(traces(span(1, "forged root")), by="key/theirs")
    mine.take(traces(span(3, "chat", CHAT, parent=1)), by="key/mine")
    for desk in (mine, theirs):
        desk.take(traces(span(4, "chat", CHAT, parent=1)), by="key/theirs")
        desk.take(traces(span(5, "chat", CHAT, parent=1)), by="key/mine")

    ids = {run: {int(id_, 16) for id_ in steps(mine.ledger, run)} for run in (RUN, f"{RUN}.2")}
    assert ids == {RUN: {2, 3, 5}, f"{RUN}.2": {1, 4}}
    for run, by in ((RUN, "key/mine"), (f"{RUN}.2", "key/theirs")):
        facts = [entry.facts for entry in entries(mine.ledger, run)]
        named = {f.by for f in facts if isinstance(f, (ReportSourceFacts, ReportBatchFacts))}
        assert named == {by}
        assert not any(isinstance(f, ReportSourceFacts) and f.continues for f in facts)


def test_two_reporters_may_begin_one_trace_at_once(logs: StoreFactory) -> None:
    """The first one to be recorded keeps the name, and the other one loses nothing."""
    mine, theirs = Desk(logs()), Desk(logs())
    mine.interrupt = lambda: theirs.take(traces(span(1, "root")), by="key/theirs")
    counts = mine.take(traces(span(1, "root")), by="key/mine")

    assert counts.recorded == 1
    assert [len(steps(mine.ledger, run)) for run in (RUN, f"{RUN}.2")] == [1, 1]


def test_ancestors_of_a_recorded_span_are_recorded(logs: StoreFactory) -> None:
    """They come later, because a parent ends after its child; its siblings are left out."""
    desk = Desk(logs())
    desk.take(traces(span(4, "chat", CHAT, parent=3)))
    desk.take(traces(span(3, "handler", parent=2), span(5, "db", parent=2)))
    desk.take(traces(span(2, "server", parent=1)))

    assert set(steps(desk.ledger, RUN)) == {f"{n:016x}" for n in (2, 3, 4)}
    assert gaps(desk.ledger, RUN) == {GapReason.FILTERED: 1}


def test_all_spans_can_be_kept(logs: StoreFactory) -> None:
    """The rule is a setting."""
    desk = Desk(logs(), IntakeRules(all_spans=True))
    desk.take(traces(span(5, "db", parent=2)))

    assert set(steps(desk.ledger, RUN)) == {f"{5:016x}"}


def test_a_full_run_is_continued_by_another(logs: StoreFactory) -> None:
    """Also within one request: no run has more spans than it may have, and none is lost."""
    desk = Desk(logs(), IntakeRules(max_run_spans=4))
    desk.take(traces(*(span(n, "chat", CHAT, parent=99) for n in range(1, 11))))

    runs = [RUN, f"{RUN}.2", f"{RUN}.3"]
    assert [len(steps(desk.ledger, run)) for run in runs] == [4, 4, 2]
    assert [GapReason.LIMIT in gaps(desk.ledger, run) for run in runs] == [True, True, False]
    assert close_quiet_runs(desk.ledger, ReportPatience()) == 2  # at once, as their timers say


def test_a_late_span_opens_a_run_that_continues_the_closed_one(logs: StoreFactory) -> None:
    """A close is final.  A span of the closed run that is sent again is still known."""
    desk = Desk(logs())
    first = span(1, "chat", CHAT)
    desk.take(traces(first))
    assert close_if_quiet(desk.ledger, RUN, AT_ONCE)
    counts = desk.take(traces(first, span(2, "late", CHAT, parent=1)))

    source = next(e.facts for e in entries(desk.ledger, f"{RUN}.2") if e.kind == "report.source/1")
    assert source.continues == RUN
    assert (counts.recorded, counts.duplicates) == (1, 1)


@pytest.mark.parametrize(
    ("numbers", "seconds", "outcome"),
    [
        ((1, 2), 29, None),
        ((1, 2), 31, Outcome.OK),
        ((2,), 31, None),
        ((2,), 601, Outcome.INDETERMINATE),
    ],
)
def test_a_run_is_closed_by_its_timer(
    logs: StoreFactory, numbers: tuple[int, ...], seconds: int, outcome: Outcome | None
) -> None:
    """After 30 quiet seconds if the root has ended, after 10 minutes if it never came."""
    start = 1_790_000_000 * MICRO
    desk = Desk(logs())
    spans = {1: span(1, "root"), 2: span(2, "chat", CHAT, parent=1)}
    desk.take(traces(*(spans[number] for number in numbers)))
    later = Desk(logs(), clock=count(start + seconds * MICRO, 1))
    closed = close_if_quiet(later.ledger, RUN, ReportPatience())

    last = entries(desk.ledger, RUN)[len(main_kinds(desk.ledger, RUN)) - 1].facts
    assert closed is (outcome is not None)
    assert (last.outcome if isinstance(last, RunCloseFacts) else None) == outcome
    assert (desk.store.timer(RUN, "close") is None) is closed
    if outcome is Outcome.INDETERMINATE:
        assert gaps(desk.ledger, RUN) == {GapReason.PARENT_UNSEEN: 1}


def test_the_first_worker_that_comes_closes_what_is_due(logs: StoreFactory) -> None:
    """The timer is in the database: the process that took the spans in need not live."""
    desk = Desk(logs(), IntakeRules(patience=AT_ONCE), clock=count(1_000_000, 1))
    desk.take(traces(span(1, "chat", CHAT)))

    assert close_quiet_runs(Desk(logs()).ledger, AT_ONCE) == 1
    assert main_kinds(desk.ledger, RUN)[-1] == "run.close/1"


def test_a_span_cannot_slip_into_a_run_that_is_being_closed(logs: StoreFactory) -> None:
    """The close lists all strands; a span that is added meanwhile has to make it fail."""
    one, closer = Desk(logs()), Desk(logs())
    one.take(traces(span(1, "root")))
    closer.interrupt = lambda: _take(one, 2)
    overtaken = close_if_quiet(closer.ledger, RUN, AT_ONCE, at_once=True)

    assert not overtaken
    assert "run.close/1" not in main_kinds(one.ledger, RUN)
    assert close_if_quiet(closer.ledger, RUN, AT_ONCE, at_once=True)
    assert len(steps(one.ledger, RUN)) == 2


def test_a_close_cannot_slip_in_before_a_span(logs: StoreFactory) -> None:
    """A span whose run is closed while it is on its way belongs to the next run."""
    one, closer = Desk(logs()), Desk(logs())
    one.take(traces(span(1, "root")))

    def close() -> None:
        assert close_if_quiet(closer.ledger, RUN, AT_ONCE, at_once=True)

    one.interrupt = close
    _take(one, 2)

    assert main_kinds(one.ledger, RUN)[-1] == "run.close/1"
    assert len(steps(one.ledger, f"{RUN}.2")) == 1


def test_nothing_is_acknowledged_that_is_not_durable(logs: StoreFactory) -> None:
    """If the store fails, the request fails; sent again, it is recorded."""
    desk = Desk(logs())

    def fail() -> None:
        raise StoreFailed("appending", "the disk is full")

    desk.interrupt = fail
    with pytest.raises(StoreFailed):
        _take(desk, 1)

    assert not entries(desk.ledger, RUN)
    _take(desk, 1)
    assert len(steps(desk.ledger, RUN)) == 1


def _take(desk: Desk, number: int) -> None:
    desk.take(traces(span(number, "chat", CHAT, parent=number // 2)))


SPANS = st.integers(1, 8)
"""Numbers of spans; the span with number n is part of the one with half its number."""
ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.lists(SPANS, min_size=1, max_size=6)),
    st.tuples(st.just("race"), st.integers(0, 1), st.lists(SPANS, min_size=1, max_size=6)),
    st.tuples(st.just("forge"), st.integers(0, 1), SPANS),
    st.tuples(st.just("close"), st.integers(0, 1), st.none()),
    st.tuples(st.just("restart"), st.integers(0, 1), st.none()),
)


@contextmanager
def _two_servers() -> Iterator[tuple[StoreFactory, list[Desk]]]:
    with tempfile.TemporaryDirectory() as folder:
        factory = StoreFactory(Path(folder) / "ledger.db")
        rules = IntakeRules(max_run_spans=4)
        try:
            yield factory, [Desk(factory(), rules), Desk(factory(), rules)]
        finally:
            factory.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(ACTIONS, max_size=14))
def test_each_span_is_recorded_at_most_once_and_each_loss_is_counted(
    actions: list[tuple[str, int, object]],
) -> None:
    """Any order of retries, duplicates, two servers, restarts, closes, late and orphaned spans.

    Whatever was acknowledged is either one entry, or counted in one gap, over all runs of the
    trace.  The log of it verifies: no entry stands behind the close of its run.
    """
    with _two_servers() as (factory, desks):
        handed_in, forged = set[int](), set[tuple[int, str]]()
        for action, at, what in actions:
            desk = desks[at]
            match action, what:
                case ("send", list()):
                    desk.take(_request(what))
                    handed_in.update(what)
                case ("race", list()):
                    # The other server records the same request just before this one does.
                    desk.interrupt = partial(desks[1 - at].take, _request(what))
                    desk.take(_request(what))
                    # A request of which all is recorded commits nothing.  Left behind, it would
                    # begin within a later race, and two servers would wait for each other.
                    desk.interrupt = None
                    handed_in.update(what)
                case ("forge", int()):
                    desk.take(traces(_span(what, "forged")))
                    forged.add((what, "forged"))
                case ("close", _):
                    for run in _runs(desk):
                        close_if_quiet(desk.ledger, run, AT_ONCE, at_once=True)
                case _:
                    desks[at] = Desk(factory(), desk.rules)
        _check(desks[0], handed_in, forged)


def _check(desk: Desk, handed_in: set[int], forged: set[tuple[int, str]]) -> None:
    runs = _runs(desk)
    recorded = [number for run in runs for number in steps(desk.ledger, run)]
    lost: dict[GapReason, int] = {}
    for run in runs:
        for reason, number in gaps(desk.ledger, run).items():
            lost[reason] = lost.get(reason, 0) + number
    distinct = {f"{n:016x}" for n in handed_in} | {f"{n:016x}" for n, _ in forged}
    left_out = lost.get(GapReason.FILTERED, 0)
    # A forged span that came first is the recorded one, and then the true one is refused.
    both = {n for n in handed_in if (n, "forged") in forged}
    refused = lost.get(GapReason.REFUSED, 0)
    filtered_twins = {n for n in both if f"{n:016x}" not in recorded}

    assert len(recorded) == len(set(recorded))
    assert len(recorded) + left_out == len(distinct)
    assert refused == len(both - filtered_twins)
    assert all(len(steps(desk.ledger, run)) <= 4 for run in runs)
    for run in runs:
        kinds = main_kinds(desk.ledger, run)
        assert "run.close/1" not in kinds[:-1]
    _check_order(desk)


def _check_order(desk: Desk) -> None:
    """Sequence the log, and see that nothing follows the close of its run."""
    Sequencer(desk.store).drain()
    closed: dict[str, int] = {}
    for data in desk.store.entries(0, desk.store.head().size):
        assert data is not None
        entry = KINDS.read(data)
        assert entry.run not in closed
        if isinstance(entry.facts, RunCloseFacts):
            assert len(desk.store.strands(entry.run)) == entry.facts.strands + 1
            closed[entry.run] = entry.n


def _request(numbers: list[int]) -> ExportTraceServiceRequest:
    return traces(*(_span(number) for number in numbers))


def _span(number: int, name: str = "step") -> Span:
    meaning = CHAT if number % 2 else {}
    return span(number, name, meaning, parent=number // 2)


def _runs(desk: Desk) -> list[str]:
    return [run for run in desk.store.runs("", 100) if run.startswith("otel-")]
