"""What a run has spent: every view of one history says the same."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forum.app import KINDS
from forum.features.evidence.log_part import read_part_entry
from forum.features.evidence.tally import PeriodTally, ReportPeriod
from forum.features.telemetry.trace_export import export_run
from forum.ledger.entry import FORMAT, Entry, Facts, leaf_of
from forum.ledger.kinds import Outcome, RunCloseFacts, RunOpenFacts
from forum.ledger.log import LocatedEntry
from forum.ledger.ports import Amount, EntryWrite, Position
from forum.metrics import DOLLARS, TOKENS, EntryCounters
from forum.runs.kinds import CHILD_RUN, AcceptedFacts, CallFacts, ReplyFacts, ReplyOrigin, Why
from forum.runs.record_figures import RecordTally
from forum.runs.report_kinds import (
    NOT_MADE,
    Operation,
    ReportBeginFacts,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.run_fold import Run, fold
from forum.runs.run_summary import tally_entries
from forum.verify.run_tally import RunTallies, RunTally, tally_run

RUN = "run"
AGENTS = st.sampled_from(["big", "small", CHILD_RUN])
SMALL = st.integers(0, 1000)
History = tuple[Entry[Any], ...]


@st.composite
def calls(draw: st.DrawFn, *, is_forked: bool) -> list[Facts]:
    """Draw a call of the engine: answered, taken from another run, lost or still open."""
    agent = draw(AGENTS)
    called = CallFacts(agent, model=agent, attempt=1, turn=1, usd=draw(SMALL), tokens=draw(SMALL))
    if agent == CHILD_RUN:
        called = CallFacts(
            agent,
            model=agent,
            attempt=1,
            turn=1,
            usd=draw(SMALL),
            tokens=draw(SMALL),
            calls=draw(SMALL),
        )
    outcome = draw(st.sampled_from(["answered", "recorded", "lost"] if is_forked else ["answered"]))
    if outcome == "recorded":
        # The run that was forked has paid for it.
        return [called, ReplyFacts(Outcome.OK, source=ReplyOrigin.RECORDED)]
    if outcome == "lost":
        lost = ReplyFacts(Outcome.INDETERMINATE, Why.LOST, called.usd, called.tokens)
        return [called, lost]
    made = draw(SMALL) if agent == CHILD_RUN else 1
    reply = ReplyFacts(
        outcome=draw(st.sampled_from(Outcome)),
        usd=draw(SMALL),
        tokens=draw(SMALL),
        model=draw(st.sampled_from(["", "other"])),
        prices=draw(st.sampled_from(["", "free"])),
        calls=made,
    )
    return [called, reply]


@st.composite
def driven_strands(draw: st.DrawFn) -> dict[str, list[Facts]]:
    """Draw the strands of a run that the engine drives."""
    is_forked = draw(st.booleans())
    strands: dict[str, list[Facts]] = {"main": [RunOpenFacts(), AcceptedFacts()]}
    for name in ("task/a", "role/judge", "turn/1"):
        made = draw(st.lists(calls(is_forked=is_forked), max_size=3))
        strands[name] = [facts for pair in made for facts in pair]
        is_open = draw(st.booleans())
        if strands[name] and is_open:
            strands[name].pop()  # the reply to the last call
    return strands


@st.composite
def spans(draw: st.DrawFn, span: str) -> list[Facts]:
    """Draw a step that a program reports: whole, open, or told afterwards."""
    op, agent = draw(st.sampled_from(Operation)), draw(AGENTS)
    shape = draw(st.sampled_from(["whole", "open", "told"]))
    is_made = draw(st.booleans())
    step = ReportStepFacts(
        op=op,
        name="step",
        outcome=Outcome.OK if is_made else Outcome.CANCELLED,
        code="" if is_made else NOT_MADE,
        span=span,
        agent=agent,
        model=agent,
        input_tokens=draw(SMALL) if is_made else 0,
        output_tokens=draw(SMALL) if is_made else 0,
        usd=draw(SMALL) if is_made else 0,
        prices="table",
    )
    begun = ReportBeginFacts(
        op=op,
        name="step",
        span=span,
        agent=agent,
        model=agent,
        usd=draw(SMALL),
        tokens=draw(SMALL),
        calls=draw(st.integers(0, 1)),
    )
    shapes: dict[str, list[Facts]] = {"whole": [begun, step], "open": [begun], "told": [step]}
    return shapes[shape]


@st.composite
def reported_strands(draw: st.DrawFn) -> dict[str, list[Facts]]:
    """Draw the strands of a run that a program reports."""
    source = ReportSourceFacts(ReportProvenance.WRAPPED, by="process:1", usd=10**6)
    main: list[Facts] = [RunOpenFacts(), source]
    names = [f"span{n}" for n in range(draw(st.integers(0, 4)))]
    return {"main": main} | {f"span/{name}": draw(spans(name)) for name in names}


@st.composite
def histories(
    draw: st.DrawFn, strands: st.SearchStrategy[dict[str, list[Facts]]], *, closed: bool
) -> History:
    """Draw a run whose strands were written at once, so that their entries are mixed."""
    left = {name: list(enumerate(facts)) for name, facts in draw(strands).items() if facts}
    order = [("main", *left["main"].pop(0)), ("main", *left["main"].pop(0))]
    while any(left.values()):
        name = draw(st.sampled_from(sorted(name for name in left if left[name])))
        order.append((name, *left[name].pop(0)))
    if closed:
        order.append(("main", 2, RunCloseFacts(Outcome.OK, 1)))
    return tuple(
        Entry(
            v=FORMAT,
            log="example.com/log",
            run=RUN,
            strand=strand,
            n=n,
            prev="ab" * 32 if n else "",
            step=f"step/{n}",
            ts=ts,
            actor="tester",
            kind=KINDS.kind_of(facts).name,
            parents=(),
            facts=facts,
            bodies={},
        )
        for ts, (strand, n, facts) in enumerate(order)
    )


drawn = st.one_of(
    histories(driven_strands(), closed=True), histories(reported_strands(), closed=True)
)


def fold_run(history: History) -> Run:
    """Return the state of the run."""
    return fold((leaf_of(KINDS.write(entry)), entry) for entry in history)


def own_cost(run: Run) -> Amount:
    """Return the cost of a run without that of the runs within it, which is counted there."""
    inner = [call for task in run.tasks.values() for call in task.calls if call.is_child_run]
    return reduce(Amount.minus, (call.spent for call in inner), run.spent)


@given(drawn)
def test_a_list_and_a_record_say_what_the_run_has_spent(history: History) -> None:
    """An open call counts with its reservation, and a run within is counted once."""
    run, tally = fold_run(history), tally_entries(history)
    record = RecordTally()
    for entry in history:
        record.add_entry(entry)

    assert tally.result().spent == run.spent
    assert record.result().spent == own_cost(run)
    own = [cost.amount for cost in tally.result().own_costs]
    assert reduce(Amount.plus, own, Amount()) == own_cost(run)


@given(drawn)
def test_a_pack_says_what_the_run_has_spent(history: History) -> None:
    """Its figures are recomputed from the entries by whoever gets it."""
    tally, cost = PeriodTally(ReportPeriod(0, 10**6)), own_cost(fold_run(history))
    for index, entry in enumerate(history):
        tally.add(index, read_part_entry(KINDS.write(entry)))

    figures = {figure.id: figure.value for figure in tally.finish()}
    assert (figures["cost.total"], figures["tokens.total"]) == cost[:2]


@given(drawn, st.data())
def test_an_account_is_charged_what_the_run_has_spent(
    history: History, data: st.DataObject
) -> None:
    """The verifier adds it up from parts of the log, which may cut a call from its reply."""
    run, whole = fold_run(history), tally_run(history)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=3)))
    merged = RunTallies()
    for start, stop in zip([0, *cuts], [*cuts, len(history)], strict=True):
        merged.merge({RUN: tally_run(history[start:stop])})

    # Nothing is charged for a step that was told afterwards, nor for what another run has paid.
    costs = [span.spent for span in run.report.spans.values() if span.begun is None]
    replies = [c.replied for task in run.tasks.values() for c in task.calls if c.replied]
    paid = sum(reply.calls for reply in replies if reply.source is ReplyOrigin.RECORDED)
    charged = reduce(Amount.minus, costs, run.spent).minus(Amount(calls=paid))
    assert Amount(whole.usd, whole.tokens, whole.calls) == charged
    assert _describe(merged.as_dict()[RUN]) == _describe(whole)


def _describe(tally: RunTally) -> Sequence[object]:
    names = ("usd", "tokens", "calls", "overrun", "delegates", "open_calls", "open_steps")
    return [getattr(tally, name) for name in names]


@given(histories(driven_strands(), closed=True))
def test_metrics_and_traces_say_what_ended_calls_have_cost(history: History) -> None:
    """A dashboard adds up all runs: the cost of a run within must not be there twice."""
    counters = EntryCounters(KINDS)
    for entry in history:
        data = KINDS.write(entry)
        position = Position(RUN, entry.strand, entry.n)
        counters.count([EntryWrite(position, data, leaf=leaf_of(data), bodies=(), effects=())])

    calls = [call for task in fold_run(history).tasks.values() for call in task.calls]
    ended = [call for call in calls if call.replied and not call.is_child_run]
    usd, tokens, _ = reduce(Amount.plus, (call.spent for call in ended), Amount())
    counted = {
        metric: sum(sample.value for sample in counters.samples() if sample.metric == metric)
        for metric in (DOLLARS, TOKENS)
    }
    assert round(counted[DOLLARS] * 1e9) == usd
    assert counted[TOKENS] == tokens

    located = [LocatedEntry(n, KINDS.write(e), e) for n, e in enumerate(history)]
    attributes = [a for exported in export_run(RUN, located) for a in exported.span.attributes]
    told = sum(a.value.double_value for a in attributes if a.key == "forum.cost_usd")
    assert round(told * 1e9) == usd
