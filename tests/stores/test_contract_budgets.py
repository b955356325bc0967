"""The promise of a store about accounts, kept by every database."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from forum.errors import BudgetExceeded, BudgetSliceExhausted, PositionTaken
from forum.ledger.body import text_content
from forum.ledger.ports import (
    NO_LIMIT,
    Amount,
    BudgetAccount,
    BudgetCharge,
    BudgetSliceCharge,
    OpenBudgetAccount,
    Spend,
    Store,
    Timer,
)
from forum.stores import postgres_appending
from forum.stores.group_commit import GroupCommitter
from tests.stores.store_states import CALL, beside
from tests.support import (
    Chain,
    StoreFactory,
    data_of,
)


def test_effects_are_committed_with_their_entries_or_not_at_all(
    store_factory: StoreFactory,
) -> None:
    """A charge without its entry is for nothing, and an entry without its charge is for free."""
    store, origin = store_factory(), store_factory.origin
    chain, late = Chain(origin), Chain(origin)
    poor = Chain(origin, strand="poor")
    opened, too_much = (
        OpenBudgetAccount("run", Amount(calls=3)),
        BudgetCharge("run", Amount(calls=3)),
    )
    store.append([chain.next(effects=(CALL, Timer("run", "main", 7), opened))])
    before = beside(store_factory(), "run", "other")
    others = (
        OpenBudgetAccount("other", Amount()),
        Timer("run", "main", None),
        Timer("run", "poor", 8),
    )

    # Who comes too late is told so, rather than how little is left: it may find its own entries.
    with pytest.raises(PositionTaken):
        store.append([late.next(effects=(*others, too_much))])
    with pytest.raises(BudgetExceeded):
        store.append(
            [poor.next(text=text_content("!"), effects=(*others, CALL, CALL, CALL)), poor.next()]
        )
    assert beside(store, "run", "other") == before
    assert before == (
        BudgetAccount(Amount(calls=3), Amount(calls=1)),
        None,
        Timer("run", "main", 7),
    )
    assert list(store.unsequenced_entries()) == data_of(chain.records)
    assert store.strands("run") == ["main"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Amount(6, 6, 6), ("usd", 6, 5, 10)),
        (Amount(5, 6, 6), ("tokens", 6, 5, 10)),
        (Amount(5, -9, 6), ("calls", 6, 5, 10)),
    ],
)
def test_a_refusal_names_the_first_limit_that_would_be_passed(
    store_factory: StoreFactory, asked: Amount, told: tuple[object, ...]
) -> None:
    """It ends up in the record as the reason why a run stopped, so it has to be exact."""
    store, chain = store_factory(), Chain(store_factory.origin)
    opened = OpenBudgetAccount("run", Amount(10, 10, 10))
    store.append([chain.next(effects=(opened, BudgetCharge("run", Amount(5, 5, 5))))])
    opened_again = OpenBudgetAccount("run", Amount(99, 99, 99))
    refused = chain.next(effects=(opened_again, BudgetCharge("run", asked)))

    with pytest.raises(BudgetExceeded) as caught:
        store.append([refused])
    assert caught.value.args == ("run", *told)
    store.append([refused._replace(effects=(opened_again, BudgetCharge("run", Amount(5, 5, 5))))])
    assert store.account("run") == BudgetAccount(Amount(10, 10, 10), Amount(10, 10, 10))


@pytest.mark.parametrize("guarded", [True, False])
def test_a_run_without_an_account_spends_nothing(
    store_factory: StoreFactory, *, guarded: bool
) -> None:
    """Whoever forgot to open one would spend without limit, and nobody would count it."""
    store, chain = store_factory(), Chain(store_factory.origin)

    with pytest.raises(BudgetExceeded) as caught:
        store.append([chain.next(effects=(BudgetCharge("run", Amount(usd=1, calls=2), guarded),))])
    assert caught.value.args == ("run", "calls", 2, 0, 0)
    assert store.account("run") is None
    assert list(store.unsequenced_entries()) == []


def test_an_overrun_is_counted_and_stops_only_what_would_add_to_it(
    store_factory: StoreFactory,
) -> None:
    """Money that is gone is counted, whatever the cap says; giving back is never refused."""
    store, chain = store_factory(), Chain(store_factory.origin)
    cap = Amount(10, 10, NO_LIMIT)
    used = []
    for effect in (
        OpenBudgetAccount("run", cap),
        BudgetCharge("run", Amount(usd=10, calls=NO_LIMIT)),
        BudgetCharge("run", Amount(usd=5), guarded=False),
        BudgetCharge("run", Amount(usd=0, tokens=10)),
        BudgetCharge("run", Amount(usd=-8, tokens=-9, calls=-1)),
        BudgetCharge("run", Amount(usd=3, tokens=9, calls=1)),
    ):
        store.append([chain.next(effects=(effect,))])
        account = store.account("run")
        assert account is not None
        used.append(account.used)
        if account.used.usd > cap.usd:
            with pytest.raises(BudgetExceeded):
                store.append(
                    [Chain(store.origin, "more").next(effects=(BudgetCharge("run", Amount(1)),))]
                )

    assert used == [
        Amount(),
        Amount(10, 0, NO_LIMIT),
        Amount(15, 0, NO_LIMIT),
        Amount(15, 10, NO_LIMIT),
        Amount(7, 1, NO_LIMIT - 1),
        Amount(10, 10, NO_LIMIT),
    ]


def test_a_cap_is_never_passed_whoever_races_for_the_rest(store_factory: StoreFactory) -> None:
    """Two processes with many agents each: what they were granted is what was counted."""
    stores = [store_factory() for _ in range(2)]
    committers = [GroupCommitter(store) for store in stores]
    cap, refusals = Amount(usd=200), []
    stores[0].append([Chain(store_factory.origin).next(effects=(OpenBudgetAccount("run", cap),))])

    def spend(agent: int) -> tuple[int, int]:
        """Reserve, and give some of it back; return what was spent, and the most that was seen."""
        committer, store = committers[agent % 2], stores[agent % 2]
        chance = Random(agent)
        chain, spent = Chain(store.origin, strand=f"{agent}"), 0
        seen = 0
        for _ in range(8):
            reserved = chance.randint(1, 9)
            unused = chance.randint(0, reserved)
            record = chain.next(effects=(BudgetCharge("run", Amount(usd=reserved)),))
            try:
                committer.append([record])
            except BudgetExceeded as error:
                refusals.append(error)
                chain.records.pop()
                continue
            settled = BudgetCharge("run", Amount(usd=-unused), guarded=False)
            committer.append([chain.next(effects=(settled,))])
            spent += reserved - unused
            account = store.account("run")
            seen = max(seen, account.used.usd if account else 0)
        assert list(store.read_strand("run", chain.strand)) == data_of(chain.records)
        return spent, seen

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(spend, range(32)))
    for committer in committers:
        committer.close()

    assert stores[0].account("run") == BudgetAccount(
        cap, Amount(usd=sum(spent for spent, _ in results))
    )
    assert 0 < max(seen for _, seen in results) <= cap.usd
    assert refusals
    assert all(error.used + error.asked > error.cap for error in refusals)


def test_groups_that_charge_the_same_runs_do_not_stand_in_each_others_way(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes come to the same runs in opposite orders; locked as they come: a deadlock."""
    monkeypatch.setattr(postgres_appending, "_MAX_ATTEMPTS", 1)
    stores, runs = [store_factory() for _ in range(2)], [f"{n}" for n in range(8)]
    opened = tuple(OpenBudgetAccount(run, Amount(calls=NO_LIMIT)) for run in runs)
    stores[0].append([Chain(store_factory.origin).next(effects=opened)])

    def work(store: Store, order: int) -> None:
        chains = [Chain(store.origin, run, f"{order}") for run in runs[::order]]
        for n in range(25):
            store.append(
                [
                    chain.next(
                        effects=(Timer(chain.run, "", n), BudgetCharge(chain.run, CALL.amount))
                    )
                    for chain in chains
                ]
            )
            store.reschedule([Timer(run, "", n) for run in runs[::order]], 60.0)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, stores, [1, -1]))

    for run in runs:
        assert stores[0].account(run) == BudgetAccount(Amount(calls=NO_LIMIT), Amount(calls=50))


def test_a_commit_never_passes_a_slice_whatever_else_it_settles(
    store_factory: StoreFactory,
) -> None:
    """Many calls share a commit: what one gives back, another may have, and no more than that."""
    store, random = store_factory(), Random(7)
    held = 100
    slices = [
        store.take_slice(scope, "day", "me", need=Spend(held, held), cap=Spend(held, held))
        for scope in ("key:a", "key:b", "ledger")
    ]
    used = dict.fromkeys(slices, Spend())
    for number in range(60):
        charges: list[BudgetSliceCharge] = []
        after, fits = dict(used), True
        for part in random.sample(slices, random.randint(1, 3)):
            asked = [Spend(random.randint(0, 30), random.randint(0, 30))] * random.randint(0, 2)
            settled = [Spend(random.randint(-40, 10), random.randint(-40, 10))]
            charges += [BudgetSliceCharge(part, each) for each in asked]
            charges += [BudgetSliceCharge(part, each, guarded=False) for each in settled]
            after[part] = Spend(*map(sum, zip(used[part], *asked, *settled, strict=True)))
            more = Spend(*map(sum, zip(*asked, strict=True))) if asked else Spend()
            fits &= all(
                not n or total <= held for n, total in zip(more[:2], after[part][:2], strict=True)
            )
        random.shuffle(charges)
        chain = Chain(store_factory.origin, strand=f"call/{number}")
        if fits:
            store.append([chain.next(effects=tuple(charges))])
            used = after
        else:
            with pytest.raises(BudgetSliceExhausted):
                store.append([chain.next(effects=tuple(charges))])
        counted = {use.scope: use.used for use in store.budget_use()}
        assert counted == {part.scope: used[part] for part in slices}
