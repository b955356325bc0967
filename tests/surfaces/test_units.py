"""Amounts and times mean the same by every way in, and nothing is lost on the way to integers."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forum
from forum.errors import BadPlan, Malformed
from forum.features.evidence import cli as evidence
from forum.features.evidence.http import EvidenceAsk
from forum.features.gateway import cli as run_module
from forum.features.oversight import cli as oversight
from forum.features.recorder.plan_values import read_budget
from forum.ledger.ports import NO_LIMIT
from forum.surfaces import requests
from forum.surfaces.cli import common_options, costs, ledger, runs, submit
from forum.surfaces.mcp.arguments import RunsAsk, SubmitAsk, parse_arguments
from forum.surfaces.schemas import costs as costs_schemas
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.runs import RunsFilter, run_query
from forum.units import (
    NANO_USD,
    format_age,
    format_count,
    format_duration,
    format_moment,
    format_price,
    format_rfc3339,
    format_usd,
    parse_moment,
    parse_period,
    to_cost,
    to_exact_units,
    to_limit_units,
)

REFUSED = "refused"
NOW = 1_795_000_000_000_000
DAY = 86_400_000_000
TIME_FORM = str(msgspec.json.schema(fields.TimeBound)["pattern"])


def by_command(command: click.Command, *words: str) -> dict[str, Any]:
    """Return what a command understands; it is not run."""
    return command.make_context("forum", list(words)).params


def by_http(member: str, text: str) -> object:
    """Return a limit that is sent over HTTP: as a number if it is one in JSON."""
    form = msgspec.json.decode(_json(member, text), type=requests.BudgetAsk)
    return requests.budget_from_form(form)


def by_mcp(member: str, text: str) -> object:
    """Return a limit that is an argument of a tool."""
    name = {"usd": "budget_usd", "seconds": "max_seconds"}[member]
    ask = parse_arguments(_json(name, text, request="x"), SubmitAsk)
    assert ask.form.budget is not None
    return requests.budget_from_form(ask.form.budget)


def _json(member: str, text: str, **others: str) -> bytes:
    try:
        number = json.loads(text, parse_constant=str)
    except ValueError:
        number = text
    written = text if isinstance(number, int | float) else json.dumps(text)
    return (json.dumps(others)[:-1] + ", " * bool(others) + f'"{member}": {written}}}').encode()


def attempt(read: Callable[[], object]) -> object:
    """Return what was understood, or that it was refused as the caller's mistake."""
    try:
        return read()
    except (click.UsageError, BadPlan, Malformed, msgspec.ValidationError):
        return REFUSED


def dollars(text: str) -> Mapping[str, object]:
    """Return what each way in makes of a cap in dollars."""
    number = _number(text)
    ways: dict[str, Callable[[], object]] = {
        "submit": lambda: by_command(submit.submit, "x", "--max-usd", text)["max_usd"],
        "run": lambda: by_command(run_module.run, "--max-usd", text, "true")["max_usd"],
        "http": lambda: by_http("usd", text),
        "mcp": lambda: by_mcp("usd", text),
        "sdk submit": lambda: read_budget({"usd": text}),
        "sdk submit, number": lambda: read_budget({"usd": number}),
        "sdk run": lambda: forum.run("x", usd=text).start.usd,
        "sdk run, number": lambda: forum.run("x", usd=number).start.usd,
    }
    read = {name: attempt(way) for name, way in ways.items()}
    return {name: getattr(value, "usd", value) for name, value in read.items()}


def _number(text: str) -> Any:  # noqa: ANN401  what a program may pass
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("5", 5 * NANO_USD),
        ("0.05", NANO_USD // 20),
        ("1e3", 1000 * NANO_USD),
        ("0", 0),
        ("0.000000001", 1),
        (str(0.1 + 0.2), 300_000_000),
        (str(0.7 + 0.1), 800_000_000),
        (str(1 / 3), 333_333_333),
        (str(2 / 3), 666_666_666),
        ("0.0000000001", REFUSED),
        ("-1", REFUSED),
        ("5 USD", REFUSED),
        ("five", REFUSED),
        ("", REFUSED),
        ("nan", REFUSED),
        ("Infinity", REFUSED),
        ("1e300", REFUSED),
        ("9007200", REFUSED),
    ],
)
def test_a_cap_in_dollars_is_the_same_by_every_way_in(text: str, nano: object) -> None:
    """What one command takes another one took for 0, or refused."""
    assert dollars(text) == dict.fromkeys(dollars(text), nano)


def test_a_dollar_sign_may_stand_before_an_amount_that_is_a_text() -> None:
    """It is how people write it; members of JSON are numbers, as their schemas say."""
    assert dollars("$5") == {
        name: REFUSED if name in ("http", "mcp") else 5 * NANO_USD for name in dollars("$5")
    }
    assert attempt(lambda: by_command(submit.submit, "x", "--max-seconds", "$5")) == REFUSED


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("90", 90_000), ("1.5", 1500), ("1.0005", 1000), ("0.0001", REFUSED), ("-1", REFUSED)],
)
def test_a_time_limit_is_the_same_by_every_way_in(text: str, milliseconds: object) -> None:
    """Seconds are read as dollars are: rounded down, and never to nothing."""
    ways: tuple[Callable[[], object], ...] = (
        lambda: by_command(submit.submit, "x", "--max-seconds", text)["max_seconds"],
        lambda: by_http("seconds", text),
        lambda: by_mcp("seconds", text),
        lambda: read_budget({"seconds": float(text)}),
    )
    read = [attempt(way) for way in ways]
    assert [getattr(v, "milliseconds", v) for v in read] == [milliseconds] * len(ways)


def moments(text: str) -> Mapping[str, object]:
    """Return what each way in makes of a point in time."""

    def form(kind: type, **members: str) -> Any:  # noqa: ANN401  one of the forms
        return msgspec.convert(members, kind, strict=False)

    ways: dict[str, Callable[[], object]] = {
        "runs": lambda: by_command(runs.runs, "--since", text)["since"],
        "costs": lambda: by_command(costs.costs, "--since", text)["since"],
        "costs, until": lambda: by_command(costs.costs, "--until", text)["until"],
        "evidence": lambda: by_command(evidence.evidence, "--from", text, "--output", "x")["since"],
        "archive": lambda: by_command(ledger.archive, "--before", text, "--to", "x")["before"],
        "incident": lambda: by_command(
            oversight.open_, "text", "--severity", "low", "--known", text
        )["known"],
        "http runs": lambda: run_query(form(RunsFilter, since=text)).since,
        "http costs": lambda: (
            costs_schemas.costs_query(form(costs_schemas.CostsFilter, until=text)).until
        ),
        "http evidence": lambda: fields.read_moment(form(EvidenceAsk, since=text).since),
        "mcp": lambda: run_query(parse_arguments({"since": text}, RunsAsk)).since,
    }
    return {name: attempt(way) for name, way in ways.items()}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90m", NOW - 90 * 60_000_000),
        ("12h", NOW - DAY // 2),
        ("2d", NOW - 2 * DAY),
        ("1w", NOW - 7 * DAY),
        ("1y", NOW - 366 * DAY),
        ("999999y", 0),
        ("2026-11-16", "2026-11-16T00:00:00+00:00"),
        ("2026-11-16T08:00", "2026-11-16T08:00:00+00:00"),
        ("2026-11-16 08:00", "2026-11-16T08:00:00+00:00"),
        ("2026-11-16T08:00:00.25Z", "2026-11-16T08:00:00.250000+00:00"),
        ("2026-11-16T08:00:00.000001", "2026-11-16T08:00:00.000001+00:00"),
        ("2026-11-16T08:00+02:00", "2026-11-16T06:00:00+00:00"),
        ("2024-02-29", "2024-02-29T00:00:00+00:00"),
        ("2026-02-30", REFUSED),
        ("2026-13-01", REFUSED),
        ("1h30m", REFUSED),
        ("-5m", REFUSED),
        ("12", REFUSED),
        ("yesterday", REFUSED),
    ],
)
def test_a_time_is_the_same_by_every_way_in(
    monkeypatch: pytest.MonkeyPatch, text: str, moment: object
) -> None:
    """30 February was 2 March over HTTP, and an age was no time for evidence."""
    for module in (common_options, fields):
        monkeypatch.setattr(module, "now", lambda: NOW)
    if isinstance(moment, str) and moment != REFUSED:
        exact = datetime.fromisoformat(moment)
        moment = int(exact.replace(microsecond=0).timestamp()) * 1_000_000 + exact.microsecond
    assert moments(text) == dict.fromkeys(moments(text), moment)


@given(st.integers(0, NO_LIMIT - 1))
def test_dollars_that_were_printed_are_read_as_the_same(nano: int) -> None:
    """Whoever copies a sum from one run into the cap of another gets that very sum."""
    assert to_exact_units(format_usd(nano), NANO_USD) == nano
    assert to_limit_units(f"${format_usd(nano)}", NANO_USD) == nano


@given(st.decimals(0, 1_000_000, places=9))
def test_decimal_fractions_stay_exact(amount: Decimal) -> None:
    """A tenth of a cent is a whole number of nano-dollars, however it would be as a float."""
    assert Decimal(to_exact_units(amount, NANO_USD)) == amount * NANO_USD


@given(st.floats(0, 1_000_000))
def test_a_limit_is_rounded_down_and_a_cost_up(usd: float) -> None:
    """A limit allows no more than was said, and no cost is too small to count."""
    exact, noise = Decimal(str(usd)) * NANO_USD, Decimal("1e-14")
    cost = to_cost(usd)
    assert exact * (1 - noise) <= cost <= exact * (1 + noise) + 1
    if usd == 0 or exact >= 1:
        assert exact * (1 - noise) - 1 <= to_limit_units(usd, NANO_USD) <= exact * (1 + noise)


@given(st.integers(0, NO_LIMIT))
def test_times_that_were_printed_are_read_as_the_same(micros: int) -> None:
    """To the microsecond: no way leads through a float."""
    text = format_rfc3339(micros)
    assert parse_moment(text, NOW) == micros
    assert parse_moment(format_moment(micros).removesuffix(" UTC"), NOW) == micros - micros % 10**6


@given(st.from_regex(TIME_FORM))
def test_every_text_that_the_schema_allows_is_a_time(text: str) -> None:
    """A client that checks the schema first is not refused."""
    assert fields.read_moment(text.rstrip("\n")) < 2**53


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)))
def test_the_schema_allows_every_day(day: date) -> None:
    """The last of February, too."""
    assert re.search(TIME_FORM, day.isoformat())


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("abc", "'abc' is not a number"),
        (True, "True is not a number"),
        (None, "None is not a number"),
        ("-1", "-1 is out of range"),
        ("nan", "nan is out of range"),
        (Decimal("inf"), "Infinity is out of range"),
        ("9007199254740993", "9007199254740993 is out of range"),
        ("0.0000000001", "0.0000000001 is more exact than one 1,000,000,000th"),
    ],
)
def test_what_is_no_amount_is_refused(value: object, why: str) -> None:
    """A cap that was rounded to nothing or misread would be believed."""
    for read in (to_exact_units, to_limit_units):
        with pytest.raises(ValueError, match=f"^{why}$"):
            read(value, NANO_USD)


def test_a_price_is_exact_and_a_count_is_whole() -> None:
    """A price that was rounded would be no bound of a cost."""
    with pytest.raises(ValueError, match="more exact"):
        to_exact_units("1.0000000001", NANO_USD)
    with pytest.raises(ValueError, match="not a whole number"):
        to_limit_units("1.5", 1)


def test_a_period_is_a_number_with_a_unit() -> None:
    """A rule that keeps bodies for no time would erase them at once."""
    assert [parse_period(text) for text in ("12h", "1y")] == [43_200, 31_622_400]
    for text in ("0d", "1m", "12", "d", "-1d", "1.5h", "٣d", "1000000d"):
        with pytest.raises(ValueError, match="is no period"):
            parse_period(text)


def test_what_is_shown_fits_into_a_column() -> None:
    """A column grows with the number of digits, not with the exactness of a price."""
    assert [format_price(n) for n in (0, 1, NANO_USD // 100, 123_456_789)] == [
        "-",
        "<$0.0001",
        "$0.01",
        "$0.1235",
    ]
    assert [format_count(n) for n in (0, 1234, 12_345_678)] == ["-", "1,234", "12M"]
    assert [format_duration(n * 1_000_000) for n in (0, 99, 100, 6000, 200_000, -5)] == [
        "0.0 s",
        "99.0 s",
        "1m40s",
        "1h40m",
        "2d07h",
        "0.0 s",
    ]
    assert [format_age(n * 1_000_000) for n in (5, 600, 7200, 999_999)] == [
        "5s",
        "10m",
        "2h",
        "11d",
    ]
