"""Caps over many runs: never passed, by however many processes, whichever of them die."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from forum.engine import SharedBudgets
from forum.errors import BudgetSliceExhausted, CapReached
from forum.ledger.kinds import Period
from forum.ledger.ports import NO_LIMIT, BudgetSlice, BudgetSliceCharge, Spend, Store
from forum.runs.shared_caps import (
    Caller,
    SharedCap,
)
from forum.stores.group_commit import GroupCommitter
from tests.stores.spender import MOST, amounts, spend_all
from tests.support import Chain, StoreFactory, wait_until

UNCAPPED = Spend(NO_LIMIT, NO_LIMIT, NO_LIMIT)


@pytest.fixture
def factory(store_factory: StoreFactory) -> StoreFactory:
    """Return one log, in each database."""
    return store_factory


def cap_of(**amounts: int) -> Spend:
    """Return a cap of these, and of nothing else."""
    return UNCAPPED._replace(**amounts)


def charge(
    store: Store, chain: Chain, taken: BudgetSlice, *, guarded: bool = True, **more: int
) -> None:
    """Commit an entry with a charge."""
    record = chain.next(effects=(BudgetSliceCharge(taken, Spend(**more), guarded),))
    try:
        store.append([record])
    except BudgetSliceExhausted:
        chain.records.pop()
        raise


def used(store: Store) -> Spend:
    """Return what was used in the only scope, this day."""
    (found,) = store.budget_use()
    return found.used


def recorded(store: Store, names: list[str]) -> int:
    """Return what processes have charged, as their entries tell."""
    return sum(sum(amounts(name, sum(store.strand_lengths(name).values()))) for name in names)


def test_processes_together_never_pass_a_cap_and_can_use_all_of_it(factory: StoreFactory) -> None:
    """What a killed process held and had not spent is taken back by those who need it."""
    store, cap = factory(), 1500
    names = [f"process-{n}" for n in range(4)]
    arguments = [str(factory.place), factory.origin]
    spenders = [
        subprocess.Popen([sys.executable, "-m", "tests.stores.spender", *arguments, name, str(cap)])
        for name in names
    ]
    try:
        wait_until(lambda: any(sum(store.strand_lengths(name).values()) > 5 for name in names))
        # One that has spent something, and goes on: whoever starts late may find nothing left.
        killed = next(
            n for n, name in enumerate(names) if sum(store.strand_lengths(name).values()) > 5
        )
        spenders[killed].send_signal(signal.SIGKILL)
        codes = [spender.wait(timeout=60) for spender in spenders]
    finally:
        for spender in spenders:
            spender.kill()
            spender.wait()

    assert codes.pop(killed) == -signal.SIGKILL
    assert codes == [0] * 3
    total = recorded(store, names)
    assert used(store).usd == total
    assert cap - MOST < total <= cap


def test_threads_that_commit_together_never_pass_a_cap(factory: StoreFactory) -> None:
    """One that is refused does not cost the others of its commit."""
    store, cap = factory(), 200
    caps = (SharedCap("all", Period.DAY, cap=cap_of(runs=cap)),)
    budgets = [SharedBudgets(store, caps, f"process-{n}") for n in range(3)]
    committer = GroupCommitter(store)

    def spend(number: int) -> int:
        own, chain = budgets[number % 3], Chain(factory.origin, f"run-{number}")
        done = 0
        while True:
            record = chain.next()
            try:
                own.spend(
                    Caller("tester"),
                    Spend(runs=1),
                    lambda charges, r=record: committer.append([r._replace(effects=charges)]),  # type: ignore[misc]
                )
            except CapReached:
                return done
            done += 1

    with ThreadPoolExecutor(12) as pool:
        spent = sum(pool.map(spend, range(12)))
    committer.close()

    assert spent == used(store).runs == cap


def test_a_slice_counts_as_spent_until_it_is_needed(factory: StoreFactory) -> None:
    """Whoever holds it may be alive or not: nothing tells, and nothing has to."""
    store, cap = factory(), cap_of(usd=100)
    mine, other = Chain(factory.origin, "mine"), Chain(factory.origin, "other")
    held = store.take_slice("ledger", "day", "dead", Spend(usd=40), cap=cap)
    charge(store, mine, held, usd=30)
    assert used(store) == Spend(usd=30)

    taken = store.take_slice("ledger", "day", "alive", Spend(usd=70), cap=cap)
    charge(store, other, taken, usd=70)
    with pytest.raises(BudgetSliceExhausted):
        charge(store, mine, held, usd=1)
    with pytest.raises(CapReached) as refused:
        store.take_slice("ledger", "day", "alive", Spend(usd=1), cap=cap)
    assert (refused.value.asked, refused.value.used, refused.value.cap) == (1, 100, 100)
    assert 0 < refused.value.seconds <= 86_400


@pytest.mark.postgres
def test_a_charge_waits_for_no_row_that_processes_share(postgres_url: str) -> None:
    """Somebody takes a slice, and takes his time: the calls of others go on."""
    factory = StoreFactory(postgres_url)
    store, chain = factory(), Chain(factory.origin)
    taken = store.take_slice("ledger", "day", "a", Spend(usd=50), cap=cap_of(usd=100))
    with ThreadPoolExecutor(2) as pool, psycopg.connect(postgres_url) as db:
        lock = (
            "SELECT 1 FROM forum.budget JOIN forum.log ON log.id = budget.log"
            " WHERE log.origin = %s AND owner = '' FOR UPDATE OF budget"
        )
        assert db.execute(lock, (factory.origin,)).rowcount == 1
        charged = pool.submit(charge, store, chain, taken, usd=50)
        waits = pool.submit(store.take_slice, "ledger", "day", "b", Spend(usd=50), cap_of(usd=100))

        charged.result(timeout=10)
        assert not waits.done()
        db.rollback()
        waits.result(timeout=10)
    factory.close()


def test_what_is_given_back_and_what_is_overrun_is_counted(factory: StoreFactory) -> None:
    """A bill above the reservation is spent; the next one is refused."""
    store, chain = factory(), Chain(factory.origin)
    cap = cap_of(usd=100)
    taken = store.take_slice("ledger", "month", "a", Spend(usd=100), cap=cap)
    charge(store, chain, taken, usd=100)
    charge(store, chain, taken, guarded=False, usd=-60)
    charge(store, chain, taken, usd=60)
    charge(store, chain, taken, guarded=False, usd=25)
    assert used(store).usd == 125

    with pytest.raises(CapReached):
        store.take_slice("ledger", "month", "b", Spend(usd=1), cap=cap)
    store.return_slice(taken)
    charge(store, chain, taken, guarded=False, usd=-5)
    assert used(store).usd == 120
    with pytest.raises(CapReached):
        store.take_slice("ledger", "month", "b", Spend(usd=1), cap=cap)


def test_a_slice_of_yesterday_pays_for_nothing(factory: StoreFactory) -> None:
    """The day is that of the database, and is looked at in the commit."""
    store, chain = factory(), Chain(factory.origin)
    cap = cap_of(usd=100)
    taken = store.take_slice("ledger", "day", "a", Spend(usd=100), cap=cap)

    over = taken._replace(period="2020-01-01")
    with store._write_transaction("going back in time") as execute:  # type: ignore[attr-defined]  # noqa: SLF001
        place = {"log": store._log, "period": over.period, "scope": over.scope}  # type: ignore[attr-defined]  # noqa: SLF001
        execute("add_slice", **place, owner="a", until=1)
        execute("hold_slice", **place, owner="a", usd=100, tokens=100, runs=100)
    with pytest.raises(BudgetSliceExhausted):
        charge(store, chain, over, usd=1)
    charge(store, chain, over, guarded=False, usd=-1)
    charge(store, chain, taken, usd=1)


def test_logs_of_one_database_do_not_share_their_caps(factory: StoreFactory) -> None:
    """Each tenant has its own."""
    for store in (factory(), factory.beside()()):
        taken = store.take_slice("ledger", "day", "a", Spend(runs=1), cap=cap_of(runs=1))
        charge(store, Chain(store.origin), taken, runs=1)


def test_one_process_can_use_all_of_a_cap_alone(factory: StoreFactory) -> None:
    """Slices get smaller towards the end, and nothing is left over."""
    spend_all(factory, "alone", 500)
    total = recorded(factory(), ["alone"])

    assert 500 - MOST < total <= 500
