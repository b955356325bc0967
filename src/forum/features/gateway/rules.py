"""Compare the usage that a provider bills with the calls that the gateway has recorded.

A row of a bill stands for one call, or for all calls of a model in a time.  Rows of single calls
are paired with recorded calls of the same model and the same tokens, near each other in time; what
remains is missing on the other side, and what a pair costs is compared.  Rows of times are compared
by their sums.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from forum.units import NANO_USD

MAX_SHIFT_US = 600 * 10**6
"""How far apart the times of one call may be: clocks differ, and a bill may name its end."""
_TIMES = ("time", "timestamp", "start_time_iso", "start_time", "usage_date_utc", "date")
_ENDS = ("end_time_iso", "end_time")
_MODELS = ("model", "model_version")
_INPUTS = ("input_tokens", "prompt_tokens")
_INPUT_PARTS = "usage_input_tokens"
"""How the columns begin of which Anthropic's export has one for each kind of input."""
_OUTPUTS = ("output_tokens", "completion_tokens", "usage_output_tokens")
_REQUESTS = ("requests", "num_model_requests")
_COSTS = ("cost_usd", "usd")
_AMOUNT = re.compile(r"\$?[0-9]{1,12}(\.[0-9]{1,18})?", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,11}", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,15}", re.ASCII)
_VERSION = re.compile(r"[-@](?:\d{4}-\d{2}-\d{2}|\d{8})$")


class Usage(NamedTuple):
    """What some calls have used: their number, tokens, and nano-dollars."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum."""
        return Usage(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Usage") -> "Usage":
        """Return the difference."""
        return Usage(*(a - b for a, b in zip(self, other, strict=True)))


class UsageRow(Struct, frozen=True):
    """What a bill says of one call, or of the calls of a model in a time."""

    begin: int
    end: int
    """Microseconds since 1970; the beginning of a single call is its end."""
    model: str
    usage: Usage
    slack: int = 0
    """The nano-dollars by which the cost may be rounded."""

    @property
    def is_call(self) -> bool:
        """Whether the row stands for a single call."""
        return self.begin == self.end


class Bill(Struct, frozen=True):
    """The rows of a bill, and which of the optional columns it has."""

    rows: tuple[UsageRow, ...]
    has_requests: bool
    has_costs: bool

    @property
    def begin(self) -> int:
        """The beginning of its time; of single calls, the first one."""
        return min((row.begin for row in self.rows), default=0)

    @property
    def end(self) -> int:
        """The end of its time, which is no part of it."""
        return max((row.end + row.is_call for row in self.rows), default=0)


class RecordedCall(Struct, frozen=True):
    """A call that the gateway has recorded."""

    run: str
    began: int
    model: str
    provider: str
    usage: Usage


class UsageDifference(Struct, frozen=True):
    """Where a bill and the record differ, for a model in a time."""

    begin: int
    end: int
    model: str
    billed: Usage
    recorded: Usage
    runs: tuple[str, ...] = ()
    """Runs with calls of these."""


class Reconciliation(Struct, frozen=True):
    """How a bill and the record differ."""

    billed: Usage
    recorded: Usage
    not_recorded: tuple[UsageDifference, ...]
    """What is billed, and was not recorded at all."""
    not_billed: tuple[UsageDifference, ...]
    """What was recorded, and is not billed at all."""
    differing: tuple[UsageDifference, ...]
    """What is on both sides, with other sums."""

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not (self.not_recorded or self.not_billed or self.differing)


def read_bill(lines: Iterable[str]) -> Bill:
    """Read the CSV of a provider's usage.  Raises `ValueError`, which names the line.

    A file without a row says nothing, so that nothing can agree with it.
    """
    reader = csv.DictReader(lines, strict=True)
    try:
        columns = _Columns.find(reader.fieldnames or ())
        rows = []
        for cells in reader:
            try:
                rows.append(columns.read_row(cells))
            except ValueError as error:
                raise ValueError(f"line {reader.line_num}: {error}") from None
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    if not rows:
        raise ValueError("the file has no row, so there is nothing to compare")
    return Bill(tuple(rows), bool(columns.requests), bool(columns.cost))


def reconcile(bill: Bill, calls: Sequence[RecordedCall]) -> Reconciliation:
    """Return how a bill differs from the calls in its time."""
    lone = [row for row in bill.rows if row.is_call]
    pairs, rows_left, unpaired = _pair_calls(lone, calls)
    # Of calls near the ends of the time, some have a partner; the others are none of this bill.
    calls_left = [call for call in unpaired if bill.begin <= call.began < bill.end]
    paired = _sum(call.usage for call in calls).minus(_sum(call.usage for call in unpaired))
    not_recorded = [_difference_of(row, Usage()) for row in rows_left]
    buckets = _add_up([row for row in bill.rows if not row.is_call])
    by_bucket: dict[UsageRow, list[RecordedCall]] = {bucket: [] for bucket in buckets}
    not_billed = []
    for call in calls_left:
        bucket = next((b for b in buckets if _holds(b, call)), None)
        if bucket is not None:
            by_bucket[bucket].append(call)
        else:
            moment = UsageRow(call.began, call.began, call.model, Usage())
            not_billed.append(_difference_of(moment, call.usage, (call.run,)))
    differing = list(_find_other_costs(bill, pairs))
    for bucket, held in by_bucket.items():
        recorded = _sum(call.usage for call in held)
        runs = tuple(dict.fromkeys(call.run for call in held))
        difference = _difference_of(bucket, recorded, runs)
        if not held and any(bucket.usage):
            not_recorded.append(difference)
        elif _differs(bill, bucket, recorded):
            differing.append(difference)
    return Reconciliation(
        billed=_sum(row.usage for row in bill.rows),
        recorded=paired.plus(_sum(call.usage for call in calls_left)),
        not_recorded=tuple(not_recorded),
        not_billed=tuple(not_billed),
        differing=tuple(differing),
    )


def _find_other_costs(
    bill: Bill, pairs: Iterable[tuple[UsageRow, RecordedCall]]
) -> Iterator[UsageDifference]:
    """Yield the pairs that cost something else; of pairs with equal tokens, their sums.

    Which of some equal calls a row stands for is not known, and some may have been cheaper.
    """
    alike: dict[tuple[str, int, int], list[tuple[UsageRow, RecordedCall]]] = defaultdict(list)
    for row, call in pairs:
        alike[row.model, row.usage.input_tokens, row.usage.output_tokens].append((row, call))
    for some in alike.values():
        rows, calls = [row for row, _ in some], [call for _, call in some]
        whole = UsageRow(
            rows[0].begin, rows[-1].end, rows[0].model, _sum(row.usage for row in rows),
            slack=sum(row.slack for row in rows),
        )  # fmt: skip
        recorded = _sum(call.usage for call in calls)
        if _differs(bill, whole, recorded):
            runs = tuple(dict.fromkeys(call.run for call in calls))
            yield _difference_of(whole, recorded, runs)


def _difference_of(row: UsageRow, recorded: Usage, runs: tuple[str, ...] = ()) -> UsageDifference:
    return UsageDifference(
        begin=row.begin,
        end=row.end,
        model=row.model,
        billed=row.usage,
        recorded=recorded,
        runs=runs,
    )


def model_of(name: str) -> str:
    """Return the name of a model without the date of its version."""
    return _VERSION.sub("", name.strip().lower())


def _pair_calls(
    rows: Iterable[UsageRow], calls: Iterable[RecordedCall]
) -> tuple[list[tuple[UsageRow, RecordedCall]], list[UsageRow], list[RecordedCall]]:
    """Return the pairs, and the rows and calls without a partner; as many as possible have one."""
    alike: dict[tuple[str, int, int], tuple[list[UsageRow], list[RecordedCall]]]
    alike = defaultdict(lambda: ([], []))
    for row in sorted(rows, key=lambda row: row.begin):
        alike[row.model, row.usage.input_tokens, row.usage.output_tokens][0].append(row)
    for call in sorted(calls, key=lambda call: call.began):
        key = (model_of(call.model), call.usage.input_tokens, call.usage.output_tokens)
        alike[key][1].append(call)
    pairs = []
    rows_left, calls_left = [], []
    for some_rows, some_calls in alike.values():
        # Both in the order of time: the earlier of two that are too far apart has no partner.
        while some_rows and some_calls:
            shift = some_rows[-1].begin - some_calls[-1].began
            if shift > MAX_SHIFT_US:
                rows_left.append(some_rows.pop())
            elif shift < -MAX_SHIFT_US:
                calls_left.append(some_calls.pop())
            else:
                pairs.append((some_rows.pop(), some_calls.pop()))
        rows_left += some_rows
        calls_left += some_calls
    by_begin = sorted(rows_left, key=lambda row: row.begin)
    pairs.sort(key=lambda pair: (pair[0].begin, pair[1].began))
    return pairs, by_begin, sorted(calls_left, key=lambda call: call.began)


def _add_up(rows: Iterable[UsageRow]) -> list[UsageRow]:
    """Return one row for each time and model."""
    sums: dict[tuple[int, int, str], UsageRow] = {}
    for row in rows:
        key = (row.begin, row.end, row.model)
        before = sums.get(key, UsageRow(*key, Usage()))
        sums[key] = UsageRow(*key, before.usage.plus(row.usage), before.slack + row.slack)
    return [sums[key] for key in sorted(sums)]


def _holds(bucket: UsageRow, call: RecordedCall) -> bool:
    return bucket.begin <= call.began < bucket.end and bucket.model == model_of(call.model)


def _differs(bill: Bill, bucket: UsageRow, recorded: Usage) -> bool:
    billed = bucket.usage
    if bill.has_requests and billed.requests != recorded.requests:
        return True
    if bill.has_costs and abs(billed.usd - recorded.usd) > bucket.slack:
        return True
    return billed[1:3] != recorded[1:3]


def _sum(usages: Iterable[Usage]) -> Usage:
    total = Usage()
    for usage in usages:
        total = total.plus(usage)
    return total


class _Columns(Struct, frozen=True):
    """The columns of a bill, by what they mean; empty if it has none."""

    time: str
    end: str
    model: str
    inputs: tuple[str, ...]
    output: str
    requests: str
    cost: str

    @classmethod
    def find(cls, names: Sequence[str]) -> "_Columns":
        """Find the columns by their names.  Raises `ValueError` if one is missing."""
        by_name = {name.strip().lower(): name for name in names}
        if len(by_name) != len(names):
            raise ValueError("two columns have one name")

        def find_one(wanted: Sequence[str]) -> str:
            return next((by_name[name] for name in wanted if name in by_name), "")

        whole = find_one(_INPUTS)
        parts = tuple(name for key, name in by_name.items() if key.startswith(_INPUT_PARTS))
        columns = cls(
            time=find_one(_TIMES),
            end=find_one(_ENDS),
            model=find_one(_MODELS),
            inputs=(whole,) if whole else parts,
            output=find_one(_OUTPUTS),
            requests=find_one(_REQUESTS),
            cost=find_one(_COSTS),
        )
        for what, column in (
            ("time", columns.time), ("model", columns.model),
            ("input_tokens", columns.inputs), ("output_tokens", columns.output),
        ):  # fmt: skip
            if not column:
                raise ValueError(f"the file has no column {what}")
        return columns

    def read_row(self, cells: Mapping[str, str]) -> UsageRow:
        """Read one row.  Raises `ValueError`."""
        # The reader puts surplus cells under None, and None for those that are missing.
        if None in cells or None in cells.values():
            raise ValueError("it has other cells than the first line")
        begin, length = _read_time(_cell(cells, self.time))
        end = begin + length
        if self.end and _cell(cells, self.end):
            end, _ = _read_time(_cell(cells, self.end))
        if end < begin:
            raise ValueError("its end is before its beginning")
        requests = _read_count(_cell(cells, self.requests)) if self.requests else 1
        if requests != 1 and begin == end:
            raise ValueError("several calls at one moment; a column end_time is missing")
        usd, slack = _read_cost(_cell(cells, self.cost)) if self.cost else (0, 0)
        return UsageRow(
            begin=begin,
            end=end,
            model=model_of(_cell(cells, self.model)),
            usage=Usage(
                requests=requests,
                input_tokens=sum(_read_count(_cell(cells, name)) for name in self.inputs),
                output_tokens=_read_count(_cell(cells, self.output)),
                usd=usd,
            ),
            slack=slack,
        )


def _cell(cells: Mapping[str, str], name: str) -> str:
    return cells[name].strip()


def _read_time(text: str) -> tuple[int, int]:
    """Return a time in microseconds, and how long it lasts: a date is a day."""
    if _SECONDS.fullmatch(text):
        return int(text) * 10**6, 0
    try:
        if len(text) == len("2026-11-16"):
            day = date.fromisoformat(text)
            return _micros(datetime(day.year, day.month, day.day, tzinfo=UTC)), 86_400 * 10**6
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time; write 2026-11-16T08:30:00Z") from None
    return _micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC)), 0


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _read_count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError(f"{text!r} is no number of tokens or calls")
    return int(text)


def _read_cost(text: str) -> tuple[int, int]:
    """Return nano-dollars, and by how many of them the text may be rounded."""
    if not _AMOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is no amount of dollars")
    cost = Decimal(text.removeprefix("$"))
    # Half of the last digit: the amounts of an export are rounded.
    digits = len(text.partition(".")[2])
    return round(cost * NANO_USD), NANO_USD // (2 * 10**digits)
