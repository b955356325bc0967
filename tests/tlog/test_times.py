"""The time of a checkpoint: what a quorum of clocks says, and what the order of a log allows."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.tlog import (
    ED25519_COSIGNATURE,
    Cosignature,
    KnownWitness,
    SigningKey,
    WitnessGroup,
    WitnessPolicy,
    quorum_time,
    select_consistent_times,
)

KEYS = tuple(
    SigningKey(bytes([n]) * 32, f"witness.example/{n}", ED25519_COSIGNATURE).verifier()
    for n in range(1, 6)
)
WITNESSES = tuple(KnownWitness(f"w{n}", key) for n, key in enumerate(KEYS))
NAMES = tuple(witness.name for witness in WITNESSES)
TIMES = st.integers(0, 20)


def quorum_of(count: int) -> WitnessPolicy:
    """Return the policy that asks for so many of five witnesses."""
    return WitnessPolicy((), WITNESSES, (WitnessGroup("quorum", count, NAMES),), "quorum")


def cosigned(times: list[int]) -> list[Cosignature]:
    """Return the cosignatures of the witnesses at these times."""
    return [Cosignature(key, time) for key, time in zip(KEYS, times, strict=False)]


@given(st.lists(TIMES, max_size=5), st.integers(1, 5))
def test_the_time_of_a_quorum_is_the_kth_smallest(times: list[int], k: int) -> None:
    """Fewer than k wrong clocks cannot make it earlier than every right one; time 0 is none."""
    told = sorted(time for time in times if time)

    expected = told[k - 1] if len(told) >= k else 0
    assert quorum_time(cosigned(times), quorum_of(k)) == expected


NESTED = WitnessPolicy(
    (),
    WITNESSES,
    (WitnessGroup("pair", 2, NAMES[:2]), WitnessGroup("all", 2, ("pair", *NAMES[2:]))),
    "all",
)


@given(st.lists(TIMES, min_size=5, max_size=5))
def test_the_time_of_nested_groups_is_the_first_that_satisfies_the_policy(times: list[int]) -> None:
    """The k-th smallest is the special case of one group."""
    seen = cosigned(times)
    enough = [
        t
        for t in sorted(set(times) - {0})
        if NESTED.is_satisfied_by([c.key for c in seen if 0 < c.time <= t])
    ]

    assert quorum_time(seen, NESTED) == (enough[0] if enough else 0)


def test_one_witness_that_answers_time_1_decides_nothing_in_a_quorum_of_two() -> None:
    """The minimum of all times would let it refute every entry for ever."""
    assert quorum_time(cosigned([1, 1_700_000_000, 1_700_000_001]), quorum_of(2)) == 1_700_000_000


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (quorum_of(1), 1),
        (quorum_of(3), 3),
        (NESTED, 2),
        (WitnessPolicy((), WITNESSES, (), "w0"), 1),
        (WitnessPolicy((), WITNESSES, (), "none"), 1),
    ],
)
def test_the_fewest_witnesses_of_a_quorum_are_counted(policy: WitnessPolicy, expected: int) -> None:
    """A report has to say when one of them decides alone."""
    assert policy.min_witnesses == expected


@given(st.lists(TIMES, max_size=9))
def test_the_largest_set_of_times_that_agree_is_kept(times: list[int]) -> None:
    """Kept times rise with the log, and no larger set of them does."""
    kept = select_consistent_times(times)
    chain = [time for time in kept if time]

    assert chain == sorted(chain)
    assert all(mine in (0, given) for mine, given in zip(kept, times, strict=True))
    told = [time for time in times if time]
    larger = combinations(told, len(chain) + 1)
    assert not any(list(some) == sorted(some) for some in larger)


@given(st.lists(TIMES).map(sorted))
def test_clocks_that_were_right_lose_nothing(times: list[int]) -> None:
    """A rule for wrong clocks must not be a way to get rid of what right ones say."""
    assert select_consistent_times(times) == times


def test_of_two_times_that_contradict_each_other_the_later_checkpoint_is_believed() -> None:
    """A clock that was set right is the usual case, and it is the second of the two."""
    assert select_consistent_times([100, 86_500, 110]) == [100, 0, 110]
