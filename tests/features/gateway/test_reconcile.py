"""The comparison of a provider's bill with the record."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.gateway import rules
from tests.features.gateway.running import HERE, local_provider, provider_variables
from tests.surfaces.terminal import Terminal

START = 1_763_000_000 * 10**6
USAGE = st.builds(
    rules.Usage, st.just(1), st.integers(1, 3), st.integers(1, 2), st.integers(0, 10**6)
)
CALLS = st.lists(
    st.builds(
        rules.RecordedCall,
        run=st.just("run"),
        began=st.integers(START, START + 4 * rules.MAX_SHIFT_US),
        model=st.sampled_from(["gpt-4o", "gpt-4o-2024-08-06", "claude-opus-4-8"]),
        provider=st.just("openai"),
        usage=USAGE,
    ),
    max_size=12,
)
HOUR = 3_600 * 10**6


def make_call(run: str, began: int, model: str, usage: rules.Usage) -> rules.RecordedCall:
    """Return a recorded call."""
    return rules.RecordedCall(run=run, began=began, model=model, provider="", usage=usage)


def row_of(call: rules.RecordedCall) -> rules.UsageRow:
    """Return the row of a bill for a single call."""
    return rules.UsageRow(call.began, call.began, rules.model_of(call.model), call.usage)


def bill_of(calls: Sequence[rules.RecordedCall]) -> rules.Bill:
    """Return a bill with a row for each call."""
    return rules.Bill(tuple(map(row_of, calls)), has_requests=False, has_costs=True)


@given(CALLS, st.integers(-rules.MAX_SHIFT_US, rules.MAX_SHIFT_US))
def test_a_bill_of_the_recorded_calls_agrees_however_the_clocks_differ(
    calls: list[rules.RecordedCall], shift: int
) -> None:
    """The same for all rows, as of a clock that is off."""
    rows = [
        msgspec.structs.replace(row_of(c), begin=c.began + shift, end=c.began + shift)
        for c in calls
    ]
    found = rules.reconcile(rules.Bill(tuple(rows), has_requests=False, has_costs=True), calls)
    assert not found.not_recorded
    assert found.agrees
    assert found.billed == found.recorded


@given(CALLS, st.data())
def test_what_is_missing_on_either_side_is_named_and_nothing_else(
    calls: list[rules.RecordedCall], data: st.DataObject
) -> None:
    """Calls that nobody else resembles, so that no other can stand for them."""
    alone = msgspec.structs.replace(calls[0], usage=rules.Usage(1, 77, 88, 99)) if calls else None
    if alone is None:
        return
    side = data.draw(st.sampled_from(["bill", "record"]))
    others = calls[1:]
    edges = [
        make_call("edge", at, "gpt-4o", rules.Usage(1, 9, 9, 9))
        for at in (START - 1, START + 5 * rules.MAX_SHIFT_US)
    ]
    both = [*others, *edges]
    billed, recorded = ([*both, alone], both) if side == "bill" else (both, [*both, alone])
    found = rules.reconcile(bill_of(billed), recorded)
    named = [found.not_recorded, found.not_billed][side == "record"]
    assert [(each.model, each.begin) for each in named] == [
        (rules.model_of(alone.model) if side == "bill" else alone.model, alone.began)
    ]
    assert len(found.not_recorded) + len(found.not_billed) + len(found.differing) == 1


@given(CALLS, CALLS)
def test_sums_of_sides_differ_by_what_is_named(
    billed: list[rules.RecordedCall], recorded: list[rules.RecordedCall]
) -> None:
    """Whatever is on the sides: no token is lost between the lists and the sums."""
    found = rules.reconcile(bill_of(billed), recorded)
    for at in (1, 2):
        more = sum(each.billed[at] for each in found.not_recorded)
        less = sum(each.recorded[at] for each in found.not_billed)
        assert found.billed[at] - found.recorded[at] == more - less


@given(CALLS)
def test_hours_of_a_bill_are_compared_by_their_sums(calls: list[rules.RecordedCall]) -> None:
    """An hour and a model with one token less differs, and only that one."""
    text = ["start_time,end_time,model,num_model_requests,input_tokens,output_tokens"]
    for call in calls:
        begin = call.began // HOUR * HOUR // 10**6
        text.append(f"{begin},{begin + 3600},{call.model},1,{call.usage[1]},{call.usage[2]}")
    if calls:
        assert rules.reconcile(rules.read_bill(text), calls).agrees
        short = [msgspec.structs.replace(calls[0], usage=calls[0].usage._replace(input_tokens=0))]
        found = rules.reconcile(rules.read_bill(text), [*short, *calls[1:]])
        assert len(found.differing) == 1
        assert found.billed.input_tokens - found.recorded.input_tokens == calls[0].usage[1]


def test_costs_may_be_rounded_as_the_file_shows_them() -> None:
    """By half of the last digit of each row, and no more."""
    call = make_call("run", START, "gpt-4o", rules.Usage(1, 10, 5, 12_345_678))
    head = "time,end_time,model,input_tokens,output_tokens,cost_usd"
    when = "2025-11-13T02:00:00Z,2025-11-13T03:00:00Z"
    for cost, agrees in (("0.01", True), ("0.0123", True), ("0.0124", False), ("$0.02", False)):
        bill = rules.read_bill([head, f"{when},gpt-4o,10,5,{cost}"])
        assert rules.reconcile(bill, [call]).agrees is agrees, cost


def test_a_call_that_is_billed_higher_than_recorded_differs() -> None:
    """The tokens of a row may be right, and its price may not be."""
    calls = [
        make_call(run, START + 10**6 * n, "gpt-4o", rules.Usage(1, 10, 5, usd))
        for n, (run, usd) in enumerate([("a", 1_000_000), ("b", 3_000_000)])
    ]
    head = "time,model,input_tokens,output_tokens,cost_usd"

    def find(*costs: str) -> rules.Reconciliation:
        rows = [f"{START // 10**6},gpt-4o,10,5,{cost}" for cost in costs]
        return rules.reconcile(rules.read_bill([head, *rows]), calls)

    assert find("0.001", "0.003").agrees
    # Which of the two is which is not known.
    assert find("0.003", "0.001").agrees
    doubled = find("0.002", "0.006").differing
    assert [(each.billed.usd, each.recorded.usd, each.runs) for each in doubled] == [
        (8_000_000, 4_000_000, ("a", "b"))
    ]


def test_an_export_of_anthropic_is_read() -> None:
    """One row for each day, model and kind of input; it names no number of calls."""
    head = (
        "usage_date_utc,model_version,usage_input_tokens_no_cache,"
        "usage_input_tokens_cache_write_5m,usage_input_tokens_cache_read,usage_output_tokens"
    )
    bill = rules.read_bill([head, "2025-11-13,claude-opus-4-8,10,20,30,5"])
    call = make_call("run", START, "claude-opus-4-8", rules.Usage(1, 60, 5, 7))
    assert rules.reconcile(bill, [call]).agrees
    assert not rules.reconcile(bill, []).agrees


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("yesterday,gpt-4o,1,1", "'yesterday' is no time"),
        ("2026-11-16T08:00:00Z,gpt-4o,-1,1", "'-1' is no number"),
        ("2026-11-16T08:00:00Z,gpt-4o,1,", "'' is no number"),
        (f"{10**15},gpt-4o,1,1", "'1000000000000000' is no time"),
        (f"2026-11-16T08:00:00Z,gpt-4o,{10**15},1", "'1000000000000000' is no number"),
        ("2026-11-16T08:00:00Z,gpt-4o,1,000,1", "it has other cells than the first line"),
        ("2026-11-16T08:00:00Z,gpt-4o,1", "it has other cells than the first line"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(row: str, why: str) -> None:
    """A row that was passed over would be money that nobody compares."""
    with pytest.raises(ValueError, match=f"line 2: {why}"):
        rules.read_bill(["time,model,input_tokens,output_tokens", row])
    with pytest.raises(ValueError, match="no column model"):
        rules.read_bill(["time,input_tokens,output_tokens"])
    head = "time,model,input_tokens,output_tokens"
    with pytest.raises(ValueError, match="two columns have one name"):
        rules.read_bill([f"{head},Input_Tokens", "2026-11-16,gpt-4o,1,1,2"])
    with pytest.raises(ValueError, match="no row"):
        rules.read_bill([head])


def test_the_bill_of_a_provider_is_compared_with_what_the_gateway_relayed(tmp_path: Path) -> None:
    """The provider keeps its own; a row that is taken from it or added to it is found."""
    terminal, log = Terminal(tmp_path), tmp_path / "provider.log"
    assert terminal.call("init").exit_code == 0
    begun = int(time())
    with local_provider(log) as url:
        agent = [sys.executable, str(HERE / "plain_agent.py"), "2", "3"]
        done = terminal.type("run", "--max-usd", "1", "--", *agent, **provider_variables(url))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    bills = [line for line in lines if line["event"] == "bill"]
    rows = [f"{begun},{each['model']},{each['in']},{each['out']}" for each in bills]
    file = terminal.folder / "usage.csv"

    def compare(*some: str) -> dict[str, Any]:
        file.write_text("\n".join(["time,model,input_tokens,output_tokens", *some]))
        result = terminal.call("ledger", "reconcile", "usage.csv", "--json")
        document: dict[str, Any] = json.loads(result.stdout)
        assert result.exit_code == (0 if document["agrees"] else 3)
        return document

    whole = compare(*rows)
    assert len(rows) == whole["recorded"]["requests"] == 6
    assert whole["agrees"], whole
    more = compare(*rows, f"{begun},gpt-4o-mini,7,7")
    assert [each["billed"]["input_tokens"] for each in more["not_recorded"]] == [7]
    # With a row at each end, so that the time of the bill has the call that lacks.
    edges = [f"{begun + shift},gpt-4o-mini,1,1" for shift in (-60, 600)]
    less = compare(*rows[1:], *edges)
    assert len(less["not_billed"]) == 1
    assert less["not_billed"][0]["runs"]
    shown = terminal.call("ledger", "reconcile", "usage.csv")
    assert "1 row recorded, and not billed" in shown.output.splitlines()
    file.write_text("a,b")
    refused = terminal.call("ledger", "reconcile", "usage.csv")
    assert refused.exit_code == 2
    assert "no column time" in refused.output
