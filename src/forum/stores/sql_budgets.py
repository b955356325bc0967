"""Accounts of runs, and slices of caps that runs share, in SQL."""

from abc import abstractmethod
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from forum import errors
from forum.ledger import ports
from forum.ledger.cap_orders import BUDGETS_STRAND
from forum.ledger.entry import LOG_RUN
from forum.stores.sql_queries import QueryExecutor, SqlQueries, SqlTransactions

_SLICE_DIVISOR = 8
"""A process takes what it needs of a shared cap, plus the remainder divided by this number."""


_MAX_CHARGE_ATTEMPTS = 5
"""The number of attempts of a guarded charge while concurrent refunds change the account."""


_OVERRUNS = "overrun"
"""The period under which overruns are counted: one row for each cap, whatever its period."""


EVER = "ever"
"""The period of what is never counted from the beginning again."""


_RUN_PERIOD = "run"
"""The period of what counts as long as a run lasts, which the scope names."""


_SHORT_PERIODS = frozenset({"minute", "hour"})
"""Periods that are too many to keep when they are over; their names begin with these words."""


class _Periods(NamedTuple):
    """The current periods in UTC, and their ends, by the clock of the database."""

    day: str
    month: str
    day_until: int
    month_until: int
    now: int
    minute: str
    minute_until: int
    hour: str
    hour_until: int
    week: str
    week_until: int

    @property
    def names(self) -> list[str]:
        """The names of all current periods."""
        return [self.minute, self.hour, self.day, self.week, self.month, EVER]

    def find(self, per: str) -> tuple[str, int]:
        """Return the name of the current period, and the time at which it ends."""
        named = {
            "minute": (self.minute, self.minute_until),
            "hour": (self.hour, self.hour_until),
            "day": (self.day, self.day_until),
            "week": (self.week, self.week_until),
            "month": (self.month, self.month_until),
        }
        return named.get(per, (per, ports.NO_LIMIT))  # `ever`, and `run`


class _SliceRow(NamedTuple):
    """A budget slice as stored: its owner, the amount it holds and the amount used of it."""

    owner: str
    held: ports.Spend
    used: ports.Spend


class SqlBudgetReader(SqlQueries, ports.BudgetReader):
    """Reads accounts, and the usage of shared caps."""

    def accounts(self, runs: Sequence[str]) -> dict[str, ports.BudgetAccount]:
        rows = self._fetch_rows("accounts", runs=self._list(list(runs)))
        return {row[0]: _account(row[1:]) for row in rows}

    def account_runs(self, after: str, limit: int) -> list[str]:
        return self._fetch_column("account_runs", run=after, limit=limit)

    def budget_use(self) -> list[ports.BudgetUse]:
        clock = _Periods(*self._fetch_rows("periods")[0])
        return [
            ports.BudgetUse(scope, name, until, ports.Spend(*used))
            for scope, name, until, *used in self._fetch_rows(
                "budget_use", periods=self._list(clock.names)
            )
        ]

    def run_budget_use(self, runs: Container[str]) -> list[ports.BudgetUse]:
        rows = self._fetch_rows("budget_use", periods=self._list([_RUN_PERIOD]))
        uses = (
            ports.BudgetUse(scope, name, until, ports.Spend(*used))
            for scope, name, until, *used in rows
        )
        # The sums of a run are named by it.
        return [use for use in uses if use.scope.rpartition("/")[2] in runs]


class SqlBudgetStore(SqlBudgetReader, SqlTransactions, ports.BudgetStore):
    """Charges accounts and slices, in the transactions of its callers, and hands out slices."""

    def account(self, run: str) -> ports.BudgetAccount | None:
        return _first_account(self._fetch_rows("account", run=run))

    def take_slice(
        self,
        scope: str,
        per: str,
        owner: str,
        need: ports.Spend,
        cap: ports.Spend,
        known_orders: int | None = None,
    ) -> ports.BudgetSlice:
        with self._write_transaction("taking a slice") as execute:
            clock = _Periods(*execute("periods").fetchall()[0])
            period, until = clock.find(per)
            place = {"period": period, "scope": scope}
            if per in _SHORT_PERIODS:
                execute("drop_past_slices", **place, first=per)
            for name in ("", owner):
                execute("add_slice", **place, owner=name, until=until)
            # From here on, slices of this scope and period are allocated one at a time: two
            # processes cannot both be given the same remainder of the cap.
            execute("lock_budget", **place)
            # Behind the lock: who sets a cap takes slices back after that, and needs the lock too.
            orders = {"run": LOG_RUN, "name": BUDGETS_STRAND, "n": known_orders}
            if known_orders is not None and execute("has_entries_from", **orders).fetchall():
                raise errors.ConcurrentUpdate(f"the caps of {self._origin}")
            held = _allocate_slice(_read_slices(execute, place), owner, need, cap)
            if held is None:
                # The cap is fully allocated.  Reclaim the unused part of all other slices: a
                # crashed process cannot return its own, and a live one takes another slice.
                execute("take_back", **place, owner=owner)
                rows = _read_slices(execute, place)
                held = _allocate_slice(rows, owner, need, cap)
                if held is None:
                    raise _cap_reached(scope, per, need, cap, rows=rows, micros=until - clock.now)
            execute("hold_slice", **place, owner=owner, **held._asdict())
        return ports.BudgetSlice(scope, period, owner)

    def return_slice(self, budget_slice: ports.BudgetSlice) -> None:
        with self._write_transaction("returning a slice") as execute:
            place = {"period": budget_slice.period, "scope": budget_slice.scope}
            execute("lock_budget", **place)
            for row in execute("remove_slice", **place, owner=budget_slice.owner).fetchall():
                # The row with the empty owner counts the use of slices that were returned.
                used = ports.Spend(*row)._asdict()
                execute("charge_slice", **place, owner="", guarded=False, **used)

    def restore_budget_use(self, uses: Sequence[ports.BudgetUse]) -> None:
        with self._write_transaction("restoring the use of caps") as execute:
            for use in uses:
                place = {"period": use.period, "scope": use.scope, "owner": ""}
                execute("add_slice", **place, until=use.until)
                execute("charge_slice", **place, guarded=False, **use.used._asdict())

    def recall_slices(self) -> None:
        for period, scope in self._fetch_rows("held_slices"):
            with self._write_transaction("taking slices back") as execute:
                execute("lock_budget", period=period, scope=scope)
                # None of the processes that charge has the empty name.
                execute("take_back", period=period, scope=scope, owner="")

    def report_overrun(self, slices: Sequence[ports.BudgetSlice]) -> None:
        for scope, period, owner in sorted(slices):
            # Not in the commit of a charge: that holds the row of a slice, for which a process may
            # wait that has locked the cap.
            with self._write_transaction("reporting an overrun") as execute:
                execute("lock_budget", period=period, scope=scope)
                execute("take_back", period=period, scope=scope, owner=owner)
                facts = {"period": _OVERRUNS, "scope": scope, "owner": ""}
                execute("add_slice", **facts, until=ports.NO_LIMIT)
                count = ports.Spend(runs=1)._asdict()
                execute("charge_slice", **facts, **count, guarded=False)

    def overruns(self) -> dict[str, int]:
        return dict(self._fetch_rows("overruns"))

    @abstractmethod
    def _open_accounts(
        self, execute: QueryExecutor, accounts: Sequence[ports.OpenBudgetAccount]
    ) -> None:
        """Open accounts for runs; an account that exists stays unchanged."""

    def _charge(self, execute: QueryExecutor, charge: ports.BudgetCharge) -> None:
        account = {"run": charge.run}
        amount = charge.amount._asdict()
        for _ in range(_MAX_CHARGE_ATTEMPTS):
            if execute("charge", **account, **amount, guarded=charge.guarded).rowcount == 1:
                return
            # On Postgres a refused update holds no row lock.  A concurrent refund may have made
            # room since then: if the account now has enough, try again.
            _check_within_cap(_first_account(execute("account", **account).fetchall()), charge)
        raise errors.StoreFailed("charging", f"the account of run {charge.run} does not hold still")

    def _charge_slices(
        self, execute: QueryExecutor, charges: Sequence[ports.BudgetSliceCharge]
    ) -> None:
        """Charge slices.  Raises `BudgetSliceExhausted` if one does not cover a guarded charge."""
        for charge in charges:
            self._charge_slice(execute, charge)

    def _charge_slice(self, execute: QueryExecutor, charge: ports.BudgetSliceCharge) -> None:
        parameters = {**charge.slice._asdict(), **charge.amount._asdict()}
        if execute("charge_slice", **parameters, guarded=charge.guarded).rowcount == 1:
            return
        if charge.guarded:
            raise errors.BudgetSliceExhausted(charge.slice.scope, charge.slice.period)
        # The slice was returned in the meantime.  Count the amount in the row with the empty
        # owner, where the use of returned slices is counted.
        execute("charge_slice", **(parameters | {"owner": ""}), guarded=False)


def _read_slices(execute: QueryExecutor, place: Mapping[str, object]) -> list[_SliceRow]:
    rows = execute("slices", **place).fetchall()
    return [_SliceRow(row[0], ports.Spend(*row[1:4]), ports.Spend(*row[4:])) for row in rows]


def _allocate_slice(
    rows: list[_SliceRow], owner: str, need: ports.Spend, cap: ports.Spend
) -> ports.Spend | None:
    """Return the new amount held by a process, or None if the cap has too little left.

    All slices together never hold more than the cap.  A slice that has used more than it holds
    counts with what it has used.
    """
    own = next(row for row in rows if row.owner == owner)
    held = []
    for at, (wanted, most) in enumerate(zip(need, cap, strict=True)):
        mine, least = own.held[at], own.used[at] + wanted
        left = most - sum(max(row.held[at], row.used[at]) for row in rows if row is not own)
        if most == ports.NO_LIMIT:
            held.append(ports.NO_LIMIT)
        elif not wanted or least <= mine <= left:
            held.append(mine)
        elif least <= left:
            # More than requested, so that the next charges need no new allocation.
            held.append(least + (left - least) // _SLICE_DIVISOR)
        else:
            return None
    return ports.Spend(*held)


def _cap_reached(
    scope: str, per: str, need: ports.Spend, cap: ports.Spend, rows: list[_SliceRow], micros: int
) -> errors.CapReached:
    """Return the error that names the first limit that the request would exceed."""
    seconds = max(1, -(-micros // 1_000_000))
    totals = [sum(row.used[at] for row in rows) for at in range(len(need))]
    parts = [part for part in zip(ports.Spend._fields, need, totals, cap, strict=True) if part[1]]
    # A concurrent refund lowers what is used, but not what is held.  Then the use alone may exceed
    # no limit, and the first limit that was requested is named.
    limit, more, used, most = next((a for a in parts if a[1] + a[2] > a[3]), parts[0])
    return errors.CapReached(scope, per, limit, amounts=(more, used, most), seconds=seconds)


def _first_account(rows: list[Any]) -> ports.BudgetAccount | None:
    return _account(rows[0]) if rows else None


def _account(columns: Sequence[int]) -> ports.BudgetAccount:
    return ports.BudgetAccount(ports.Amount(*columns[:3]), ports.Amount(*columns[3:]))


def _check_within_cap(account: ports.BudgetAccount | None, charge: ports.BudgetCharge) -> None:
    """Raise `BudgetExceeded` for the first limit that a charge would exceed.

    Returns if no limit would be exceeded: then the refused charge can be tried again.
    """
    if account is None:
        raise errors.BudgetExceeded(charge.run, "calls", charge.amount.calls, 0, 0)
    limits = zip(ports.Amount._fields, charge.amount, account.used, account.cap, strict=True)
    for limit, more, used, cap in limits:
        # A refund (zero or less) must not be refused because the account is overdrawn.
        if more > 0 and used + more > cap:
            raise errors.BudgetExceeded(charge.run, limit, more, used, cap)
