"""Rules of an operator: what has to be approved, and that nothing unreadable passes for little."""

import tomllib
from decimal import Decimal

import pytest

from forum.errors import BadPlan, BadSettings
from forum.runs.gate_rules import GateRule, rule_for_use
from forum.runs.panel import Council, Seat
from forum.runs.policy import Policy, ToolSpec
from forum.runs.team_settings import read_gate_rules
from forum.section_reader import SectionTables

PAY = GateRule("payments", "pay*", argument="amount", above="100")


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ('{"amount": 100}', False),
        ('{"amount": 0}', False),
        ('{"amount": "99.99"}', False),
        ('{"amount": 100.000001}', True),
        ('{"amount": 1e9}', True),
        ('{"amount": -1}', True),
        ('{"amount": "NaN"}', True),
        ('{"amount": Infinity}', True),
        ('{"amount": true}', True),
        ('{"amount": null}', True),
        ('{"amount": [1]}', True),
        ('{"Amount": 1}', True),
        ('{"amount": 1, "amount": 1000}', True),
        ('{"amount": 1, "to": {"a": 1, "a": 2}}', True),
        # Many tools read names without their case, and fold letters that look alike.
        ('{"amount": 5, "Amount": 500}', True),
        ('{"AMOUNT": 500, "amount": 5}', True),
        ('{"amount": 5, "\uff41mount": 500}', True),
        ('{"amount": 5, "to": {"A": 1, "a": 2}}', True),
        ('{"Amount": 5}', True),
        ('{"amount": 99e-1}', False),
        ('{"amount": "99e-1"}', True),
        ('{"amount": "+50"}', True),
        ('{"amount": "1_0"}', True),
        ('{"amount": " 50"}', True),
        ('{"amount": "50\\n"}', True),
        ('{"amount": ".5"}', True),
        ('{"amount": "5."}', True),
        ('{"amount": "\u0665\u0660"}', True),
        ('{"amount": \u0665\u0660}', True),
        ('{"to": {"amount": 1}}', True),
        ("1", True),
        ("[1]", True),
        ("pay 1 to ACME", True),
        ("", True),
        ("[" * 100_000, True),
        ('{"amount": ' + "9" * 10_000 + "}", True),
    ],
)
def test_an_amount_that_cannot_be_read_counts_as_too_much(arguments: str, asked: bool) -> None:  # noqa: FBT001
    """A tool may read what this parser does not: whatever is in doubt is asked."""
    assert PAY.holds_for_use("payout", "", arguments) is asked


@pytest.mark.parametrize(
    ("rule", "tool", "lane", "asked"),
    [
        (GateRule("x", "pay"), "pay", "", True),
        (GateRule("x", "pay"), "Pay", "", False),
        (GateRule("x", "bank.*"), "bank.pay", "law", True),
        (GateRule("x", "pay", "finance"), "pay", "finance", True),
        (GateRule("x", "pay", "finance"), "pay", "law", False),
        (GateRule("x", "pay", "finance"), "pay", "", True),
        (GateRule("x", lane="finance"), "pay", "finance", False),
    ],
)
def test_a_rule_names_tools_and_lanes(rule: GateRule, tool: str, lane: str, *, asked: bool) -> None:
    """To leave the lane out opens no way around a rule; and a rule for tasks is none for tools."""
    assert (rule_for_use([rule], tool, lane, "{}") is rule) is asked


def test_a_panel_does_not_get_a_check_that_needs_approval() -> None:
    """Nobody approves in the middle of a round: it would be denied every time."""
    panel = Council((Seat("x"),), check="pay")
    policy = Policy(
        tools={"pay": ToolSpec(("pay",))}, panel=panel, agents={"x": Policy().agents[""]}
    )

    policy.check(None)
    with pytest.raises(BadPlan, match=r"\[gates.payments\]"):
        policy.with_gate_rules([PAY]).check(None)


def test_rules_are_read_from_the_project_file() -> None:
    """An amount keeps its digits: it may be of any unit."""
    text = """
        [gates.b]
        tool = "pay*"
        lane = "finance"
        argument = "amount"
        above = 0.10
        [gates.a]
        lane = "law"
    """
    rules = read_gate_rules(SectionTables(tomllib.loads(text, parse_float=Decimal)))

    assert rules == (
        GateRule("a", lane="law"),
        GateRule("b", tool="pay*", lane="finance", argument="amount", above="0.10"),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("argument = 'amount'\nabove = 1", "neither tool nor lane"),
        ("lane = 'law'\nargument = 'amount'\nabove = 1", "an amount needs three settings"),
        ("tool = 'pay'\nabove = 1", "an amount needs three settings"),
        ("tool = 'pay'\nargument = 'amount'", "an amount needs three settings"),
        ("tool = 'pay'\nper = 'day'", "per is about an amount"),
        (
            "tool = 'pay'\nargument = 'a'\nabove = 1\nper = 'week'",
            "per: 'week' is unknown; write one of use, run, day",
        ),
        ("tool = 'pay'\nargument = 'a'\nabove = 1e10\nper = 'day'", "too much to be added up"),
        ("tool = 'pay'\nargument = 'amount'\nabove = -1", "out of range"),
        ("tool = 'pay'\nargument = 'amount'\nabove = 'much'", "above: write a number"),
        ("tool = 1", "tool: write a text"),
        ("tools = 'pay'", "no setting 'tools'"),
    ],
)
def test_a_rule_that_guards_nothing_is_refused(text: str, why: str) -> None:
    """It would be believed to guard."""
    tables = tomllib.loads(f"[gates.x]\n{text}", parse_float=Decimal)

    with pytest.raises(BadSettings, match=why) as refused:
        read_gate_rules(SectionTables(tables))
    assert str(refused.value).startswith("forum.toml: [gates.x] ")
