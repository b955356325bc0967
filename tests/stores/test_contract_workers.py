"""The promise of a store about timers, leases and claims, kept by every database."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from forum.ledger import ports
from forum.ledger.ports import (
    RunClaim,
    Store,
    Timer,
    TimerClaim,
)
from forum.stores.postgres import PostgresStore
from tests.support import (
    Chain,
    StoreFactory,
    wait_until,
)


def claim_of(worker: str, limit: int = 9) -> RunClaim:
    """Return what a worker asks for when it claims runs."""
    return RunClaim(
        worker=worker, limit=limit, own_limit=9, anew=1000, shortest=60.0, longest=100.0
    )


def claim_runs(store: Store, worker: str, limit: int = 9) -> list[str]:
    """Have a worker claim runs, and return them."""
    return [timer.run for timer in store.claim_runs(claim_of(worker, limit))]


def test_alarms_are_read_in_pages_and_by_their_time(store_factory: StoreFactory) -> None:
    """Nobody holds a million of them at once, and only the store's clock says which ring."""
    store, chain = store_factory(), Chain(store_factory.origin)
    places = [(run, strand) for run in ("A", "a", "b") for strand in ("Z", "main", "~")]
    past, future = 1, store.now() + 3_600_000_000
    alarms = [Timer(*place, future if n % 3 else past) for n, place in enumerate(places)]
    store.append([chain.next(effects=tuple(alarms[::-1]))])
    pages = [store.timers(None, 4, due=False)]
    while pages[-1]:
        pages.append(store.timers(pages[-1][-1], 4, due=False))
    due = store.timers(None, 2, due=True)

    assert pages == [alarms[:4], alarms[4:8], alarms[8:], []]
    assert due == [alarms[0], alarms[3]]
    assert store.timers(due[-1], 2, due=True) == [alarms[6]]
    longest = Timer("z", "main", past - 1)
    store.append([chain.next(effects=(longest,))])
    assert store.timers(None, 2, due=True) == [longest, alarms[0]]
    store.append([chain.next(effects=(Timer("z", "main", None),))])
    store.append([chain.next(effects=(Timer("A", "Z", None), Timer("b", "Z", future)))])
    assert store.timers(None, 9, due=True) == [alarms[3]]
    assert len(store.timers(None, 9, due=False)) == 8


def test_a_due_timer_is_claimed_by_one_worker_and_put_off(store_factory: StoreFactory) -> None:
    """Workers that claim the same timers hand on the same runs, and cost more the more they are."""
    store, other = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    future = store.now() + 3_600_000_000
    due = [Timer(f"run-{n}", "main", 100 - n) for n in range(7)]
    store.append([chain.next(effects=(*due, Timer("later", "main", future)))])
    claim = TimerClaim(
        worker="me", limit=3, anew=1000, own=("run-5",), shortest=60.0, longest=100.0
    )
    begun = store.now()
    pages = [
        store.claim_due_timers(claim),
        other.claim_due_timers(claim),
        store.claim_due_timers(claim),
    ]

    assert pages == [due[:3:-1], due[3:0:-1], due[:1]]  # the longest due first
    assert store.claim_due_timers(claim) == []
    assert store.timer("later", "main") == Timer("later", "main", future)
    for run, seconds in (("run-6", 60), ("run-5", 100)):
        alarm = store.timer(run, "main")
        assert alarm is not None
        assert begun <= (alarm.at or 0) - seconds * 1_000_000 <= store.now()


def test_a_timer_is_put_off_twice_as_long_each_time_that_it_rings_unchanged(
    store_factory: StoreFactory,
) -> None:
    """A run may wait in a queue for long; one that was told something new is looked at soon."""
    store, chain = store_factory(), Chain(store_factory.origin)
    claim = TimerClaim(worker="me", limit=9, anew=1000, own=(), shortest=40.0, longest=100.0)

    def pause() -> int:
        begun = store.now()
        assert len(store.claim_due_timers(claim)) == 1
        [alarm] = store.timers(None, 9, due=False)
        store.reschedule([alarm], 0)
        return ((alarm.at or 0) - begun) // 1_000_000

    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    unchanged = [pause() for _ in range(4)]
    store.append([chain.next(effects=(Timer("run", "main", 2),))])

    assert unchanged == [40, 80, 100, 100]
    assert pause() == 40


def test_the_timer_of_a_driven_run_is_claimed_by_its_driver_while_that_one_lives(
    store_factory: StoreFactory,
) -> None:
    """Nobody else can tell the driver; once it is gone, anybody goes on with the run."""
    store, chain = store_factory(), Chain(store_factory.origin)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    store.renew_lease("driver", 60.0)
    assert store.claim_run("run", "driver")
    store.append([chain.next(effects=(Timer("run", "main", 2),))])

    def claimed(worker: str) -> list[Timer]:
        claim = TimerClaim(worker=worker, limit=9, anew=1000, own=(), shortest=0.0, longest=0.0)
        return store.claim_due_timers(claim)

    assert claimed("other") == []
    assert claimed("driver") == [Timer("run", "main", 2)]
    assert claimed("other") == []
    store.renew_lease("driver", 0)
    assert len(claimed("other")) == 1


def test_one_worker_has_a_run_that_a_queue_hands_to_several(store_factory: StoreFactory) -> None:
    """Until it releases the run or its lease expires; a worker without a lease gets nothing."""
    store = store_factory()
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)

    assert store.claim_run("run", "me")
    assert store.claim_run("run", "me")
    assert not store.claim_run("run", "other")
    store.renew_lease("me", 0)
    assert not store.claim_run("free", "me")
    assert store.claim_run("run", "other")
    store.release_runs("other", ["run"])
    store.renew_lease("me", 60.0)
    assert store.claim_run("run", "me")


def test_workers_that_claim_at_the_same_time_get_different_timers(
    store_factory: StoreFactory,
) -> None:
    """In both databases, with processes that do not know of each other."""
    stores = [store_factory() for _ in range(4)]
    chain = Chain(store_factory.origin)
    due = [Timer(f"run-{n:03}", "main", n) for n in range(120)]
    stores[0].append([chain.next(effects=tuple(due))])
    claim = TimerClaim(worker="me", limit=7, anew=1000, own=(), shortest=600.0, longest=600.0)

    def claim_all(store: Store) -> list[Timer]:
        found = []
        while store.timers(None, 1, due=True):
            found += store.claim_due_timers(claim)
        return found

    with ThreadPoolExecutor(4) as pool:
        claimed = [alarm for some in pool.map(claim_all, stores) for alarm in some]

    assert sorted(claimed) == due


def test_due_runs_are_claimed_in_their_order_and_not_more_than_asked_for(
    store_factory: StoreFactory,
) -> None:
    """The longest due come first; what one worker has no room for is left to the others."""
    store, other = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)
    due = [Timer(f"run-{n}", "main", 100 - n) for n in range(7)]
    later = Timer("later", "main", store.now() + 3_600_000_000)
    store.append([chain.next(effects=(*due, later))])
    begun = store.now()
    claimed = [
        store.claim_runs(claim_of("me", 3)),
        other.claim_runs(claim_of("other", 0)),
        other.claim_runs(claim_of("other", 3)),
        store.claim_runs(claim_of("me", 9)),
    ]
    put_off = store.timer("run-6", "main")

    assert claimed == [due[:3:-1], [], due[3:0:-1], due[:1]]
    assert put_off is not None
    assert begun <= (put_off.at or 0) - 60_000_000 <= store.now()
    assert store.claim_runs(claim_of("me")) == []
    assert store.timer("later", "main") == later


def test_a_claimed_run_rings_for_the_worker_that_has_it(store_factory: StoreFactory) -> None:
    """Only that worker can tell the driver; it hears of it even if it has no room for more."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)
    gate = Timer("run", "gate/plan", 3)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    first = store.claim_runs(claim_of("me"))
    store.append([chain.next(effects=(Timer("run", "main", 2), gate, Timer("new", "main", 4)))])

    assert first == [Timer("run", "main", 1)]
    assert claim_runs(store, "other") == ["new"]
    assert store.claim_runs(claim_of("me", 0)) == [Timer("run", "main", 2), gate]
    assert store.claim_runs(claim_of("me", 0)) == []


def test_a_run_that_was_released_may_be_claimed_by_others(store_factory: StoreFactory) -> None:
    """Whoever comes first; and nobody releases what another worker has."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)
    store.append([chain.next(effects=(Timer("a", "main", 1), Timer("b", "main", 1)))])
    assert claim_runs(store, "me") == ["a", "b"]
    store.append([chain.next(effects=(Timer("a", "main", 2), Timer("b", "main", 2)))])

    store.release_runs("other", ["a", "b"])
    assert claim_runs(store, "other") == []
    store.release_runs("me", ["a"])
    assert claim_runs(store, "other") == ["a"]
    assert claim_runs(store, "me") == ["b"]


def test_the_runs_of_a_lost_worker_are_due_at_once_and_free(store_factory: StoreFactory) -> None:
    """Their timers are put off, and nobody waits for that when the driver is dead."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("lost", "heir"):
        store.renew_lease(worker, 60.0)
    store.append([chain.next(effects=(Timer("a", "main", 1), Timer("b", "main", 1)))])
    assert claim_runs(store, "lost") == ["a", "b"]

    assert store.take_over("lost") == 0  # it lives
    assert claim_runs(store, "heir") == []
    store.renew_lease("lost", 0.0)
    assert claim_runs(store, "heir") == []  # not due yet
    assert store.take_over("lost") == 2
    assert store.take_over("lost") == 0
    assert store.workers() == ["heir"]
    assert claim_runs(store, "heir") == ["a", "b"]
    store.renew_lease("lost", 60.0)
    assert claim_runs(store, "lost") == []


def test_a_worker_without_a_lease_claims_nothing(store_factory: StoreFactory) -> None:
    """A worker that wakes up late may die before it beats, and nobody would look for its claims."""
    store, chain = store_factory(), Chain(store_factory.origin)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])

    assert claim_runs(store, "me") == []
    store.renew_lease("me", 0.0)
    assert claim_runs(store, "me") == []
    store.renew_lease("me", 60.0)
    assert claim_runs(store, "me") == ["run"]


def test_a_signal_tells_of_timers_that_are_due(store_factory: StoreFactory) -> None:
    """A worker that waits is woken by the commit of another process."""
    store, other = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    signal = store.open_signal("me")
    try:
        quiet = signal.wait(0.2)
        other.append([chain.next(effects=(Timer("run", "main", 1),))])
        assert (quiet, signal.wait(10.0)) == (False, True)
        other.add_timers([Timer("run", "main", 2), Timer("run/task", "main", 1)])
        assert signal.wait(10.0)
        assert store.timer("run", "main") == Timer("run", "main", 1), "it was set"
        other.set_timers([Timer("run/task", "main", 2)])
        assert signal.wait(10.0)
    finally:
        signal.close()
    store.renew_lease("me", 60.0)
    assert claim_runs(store, "me") == ["run", "run/task"]


def test_a_beat_finds_lost_workers(store_factory: StoreFactory) -> None:
    """By their leases; with a database that can tell also by their sessions, if they have runs."""
    store, chain = store_factory(), Chain(store_factory.origin)
    names = ("gone", "listening", "without runs")
    for worker in names:
        store.renew_lease(worker, 60.0)
    signal = store.open_signal("listening")
    for worker in names[:2]:
        store.append([chain.next(effects=(Timer(worker, "main", 1),))])
        assert claim_runs(store, worker) == [worker]

    try:
        assert store.beat("me", 60.0, 0.0) == []
        early = store.beat("me", 60.0, 60.0)
        assert early == (["gone"] if isinstance(store, PostgresStore) else [])
        assert [store.take_over(worker, 60.0) for worker in names[1:]] == [0, 0]
        assert store.take_over("gone", 60.0) == len(early)
        store.renew_lease("without runs", 0.0)
        store.renew_lease("me", 0.0)
        assert sorted(store.beat("me", 60.0, 0.0)) == ["me", "without runs"]
        assert "me" not in store.beat("me", 60.0, 0.0)
    finally:
        signal.close()


def test_a_lease_that_never_ends_is_cut(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write to the database could keep a run from all workers for ever."""
    store = store_factory()
    store.renew_lease("forger", 6e9)
    assert store.beat("me", 60.0, 0.0) == []
    monkeypatch.setattr(ports, "MAX_LEASE_S", 0)
    assert store.beat("me", 60.0, 0.0) == []
    assert store.beat("me", 60.0, 0.0) == ["forger"]


def test_a_claim_without_a_valid_lease_keeps_nobody_away(store_factory: StoreFactory) -> None:
    """Its run may be claimed by others as soon as it is due."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("heir", "lost"):
        store.renew_lease(worker, 60.0)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    assert claim_runs(store, "lost") == ["run"]
    store.renew_lease("lost", 0.0)
    store.append([chain.next(effects=(Timer("run", "main", 2),))])
    assert claim_runs(store, "heir") == ["run"]
    store.append([chain.next(effects=(Timer("run", "main", 3),))])

    assert claim_runs(store, "lost") == []
    assert claim_runs(store, "heir") == ["run"]


def test_workers_that_claim_at_the_same_time_get_different_runs(
    store_factory: StoreFactory,
) -> None:
    """Also where a run has several timers, of which each worker sees another one first."""
    stores = {f"worker-{n}": store_factory() for n in range(4)}
    store, chain = stores["worker-0"], Chain(store_factory.origin)
    for worker in stores:
        store.renew_lease(worker, 600.0)
    due = [Timer(f"run-{n:03}", strand, n) for n in range(60) for strand in ("gate/a", "main")]
    store.append([chain.next(effects=tuple(due))])

    def claim_all(worker: str) -> list[str]:
        runs: list[str] = []
        while stores[worker].timers(None, 1, due=True):
            runs += claim_runs(stores[worker], worker, 7)
        return runs

    with ThreadPoolExecutor(4) as pool:
        claimed = dict(zip(stores, pool.map(claim_all, stores), strict=True))
    owners = [(run, worker) for worker, runs in claimed.items() for run in set(runs)]

    assert sorted(run for run, _ in owners) == sorted({timer.run for timer in due})
    assert sum(map(len, claimed.values())) == len(due)


def test_an_alarm_is_snoozed_unless_it_was_changed(store_factory: StoreFactory) -> None:
    """Whoever looked at a run puts off its own alarm only, never the one of what came after."""
    store, worker = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    store.append([chain.next(effects=tuple(Timer("run", name, 1) for name in "abc"))])
    read = worker.timers(None, 9, due=True)
    store.append([chain.next(effects=(Timer("run", "b", 2), Timer("run", "c", None)))])
    begun = store.now()
    worker.reschedule(read, 3600.0)
    found = [store.timer("run", name) for name in "abc"]
    ringing = store.timers(None, 9, due=True)
    [put_off] = [alarm for alarm in found if alarm and alarm.strand == "a"]

    assert found == [put_off, Timer("run", "b", 2), None]
    assert ringing == [Timer("run", "b", 2)]
    assert begun <= (put_off.at or 0) - 3_600_000_000 <= store.now()
    worker.reschedule([put_off], 0.05)
    wait_until(lambda: len(store.timers(None, 9, due=True)) == 2)
    worker.reschedule([*read, *ringing], None)
    assert [store.timer("run", name) is None for name in "abc"] == [False, True, True]


def test_a_worker_is_lost_when_its_lease_runs_out(store_factory: StoreFactory) -> None:
    """One that is killed says nothing any more; the work that it held must not wait for it."""
    store, other = store_factory(), store_factory()
    for worker in ("killed", "stopped", "working"):
        store.renew_lease(worker, 60.0)
    lost = other.expired_workers()
    store.renew_lease("stopped", 0.0)
    store.release_lease("stopped")
    store.renew_lease("killed", 0.05)

    assert lost == []
    wait_until(lambda: other.expired_workers() == ["killed"])
    assert sorted(other.workers()) == ["killed", "working"]
    store.renew_lease("killed", 60.0)
    assert other.expired_workers() == []
