"""Strands: what is recorded is played, what is new is recorded, and what is taken is adopted."""

import asyncio
from collections.abc import Sequence
from itertools import count

import pytest

from forum.errors import ConcurrentUpdate, Malformed, StepMismatch
from forum.ledger.body import text_content
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts
from forum.ledger.log import Ledger
from forum.ledger.ports import EntryWrite, Store
from forum.ledger.strand import Attachment, Draft, RecordedEntry, Strand
from tests.support import StoreFactory, ledger_on


def draft(step: str, actor: str = "tester") -> Draft:
    """Return a draft of a step."""
    return Draft(step, actor, NoteFacts(), bodies=(Attachment("text", text_content(step)),))


def append(strand: Strand, way: str, *drafts: Draft) -> tuple[RecordedEntry, ...]:
    """Append as a thread does, or as a task does."""
    if way == "thread":
        return strand.append(*drafts)
    return asyncio.run(strand.append_async(*drafts))


def claim(strand: Strand, way: str, *drafts: Draft) -> tuple[RecordedEntry, ...]:
    """Claim as a thread does, or as a task does."""
    if way == "thread":
        return strand.append_exclusive(*drafts)
    return asyncio.run(strand.append_exclusive_async(*drafts))


def racing_ledger(store: Store) -> Ledger:
    """Return a ledger whose tasks commit in threads: the database decides who is first."""

    async def append(records: Sequence[EntryWrite]) -> None:
        await asyncio.to_thread(store.append, records)

    return Ledger(
        store,
        kinds=LEDGER_KINDS,
        clock=count(1).__next__,
        salts=lambda: bytes(32),
        append=None,
        append_async=append,
    )


ways = pytest.mark.parametrize("way", ["thread", "task"])


@ways
def test_a_strand_is_played_and_then_goes_on(store_factory: StoreFactory, way: str) -> None:
    """A process that starts again does nothing twice, and everything that was not done."""
    first = ledger_on(store_factory()).open_strand("run")
    written = append(first, way, draft("a"), draft("b"))
    second = ledger_on(store_factory()).open_strand("run")
    played = [second.replay_step("a"), second.replay_step("b"), second.replay_step("c")]
    (third,) = append(second, way, draft("c"))

    assert played == [*written, None]
    assert (third.entry.n, third.entry.prev) == (2, written[1].leaf.hex())
    assert (second.head, second.length) == (third.leaf, 3)


@ways
def test_a_step_that_somebody_else_recorded_is_adopted(
    store_factory: StoreFactory, way: str
) -> None:
    """Whoever took the position did this very work: what it found is what counts."""
    slow, fast = (ledger_on(store_factory()).open_strand("run") for _ in range(2))
    theirs = append(fast, way, draft("a", "fast"), draft("b", "fast"))
    adopted = append(slow, way, draft("a", "slow"))

    assert adopted == theirs[:1]
    assert slow.replay_step("b") == theirs[1]
    assert [r.entry.actor for r in append(slow, way, draft("c", "slow"))] == ["slow"]


@ways
def test_a_writer_that_was_overtaken_stops(store_factory: StoreFactory, way: str) -> None:
    """Another step in its place, or half of its batch: it does not know what has happened."""
    slow, late, fast = (ledger_on(store_factory()).open_strand("run") for _ in range(3))
    append(fast, way, draft("a"))

    with pytest.raises(StepMismatch, match="'a', not 'b'"):
        append(slow, way, draft("b"))
    with pytest.raises(ConcurrentUpdate, match="run/main"):
        append(late, way, draft("a"), draft("b"))
    assert fast.length == 1


@ways
def test_nothing_is_recorded_before_the_record_is_played(
    store_factory: StoreFactory, way: str
) -> None:
    """A program that forgets to look would do its work again."""
    append(ledger_on(store_factory()).open_strand("run"), way, draft("a"))
    again = ledger_on(store_factory()).open_strand("run")

    with pytest.raises(StepMismatch):
        append(again, way, draft("a"))
    with pytest.raises(StepMismatch, match="does not follow its own record"):
        again.replay_step("b")


@ways
def test_an_entry_cannot_have_two_bodies_of_one_name(store_factory: StoreFactory, way: str) -> None:
    """It would commit to one of them only, and the database would take the other for a rival."""
    strand = ledger_on(store_factory()).open_strand("run")
    twice = (Attachment("text", text_content("one")), Attachment("text", text_content("two")))

    with pytest.raises(Malformed, match="text"):
        append(strand, way, Draft("a", "tester", NoteFacts(), bodies=twice))
    assert strand.length == 0


@ways
def test_of_two_writers_that_claim_a_step_one_is_refused(
    store_factory: StoreFactory, way: str
) -> None:
    """Whoever acts upon a claim that another writer holds has the same effect a second time."""
    first, second = (ledger_on(store_factory()).open_strand("run") for _ in range(2))
    held = claim(first, way, draft("intent"))

    with pytest.raises(ConcurrentUpdate, match="run/main"):
        claim(second, way, draft("intent"))
    assert second.length == 0
    assert ledger_on(store_factory()).open_strand("run").loaded_entries == held


def test_of_many_tasks_that_race_for_a_claim_one_wins(store_factory: StoreFactory) -> None:
    """The position is the fence however the writers are interleaved: one effect, one claim."""
    strands = [racing_ledger(store_factory()).open_strand("run") for _ in range(4)]

    async def race() -> list[tuple[RecordedEntry, ...] | BaseException]:
        claims = (
            strand.append_exclusive_async(draft("intent", f"task{i}"))
            for i, strand in enumerate(strands)
        )
        return await asyncio.gather(*claims, return_exceptions=True)

    results = asyncio.run(race())
    winners = [result for result in results if not isinstance(result, BaseException)]

    assert [type(result) for result in results if isinstance(result, BaseException)] == (
        [ConcurrentUpdate] * 3
    )
    assert winners == [ledger_on(store_factory()).open_strand("run").loaded_entries]


@ways
def test_a_claim_whose_commit_was_acknowledged_too_late_is_ours(
    store_factory: StoreFactory, way: str
) -> None:
    """A commit whose answer was lost is sent again, and finds its own entries in its place."""
    store = store_factory()

    def append_twice(records: Sequence[EntryWrite]) -> None:
        store.append(records)
        store.append(records)

    strand = ledger_on(store, append_twice).open_strand("run")
    held = claim(strand, way, draft("intent"), draft("detail"))

    assert ledger_on(store_factory()).open_strand("run").loaded_entries == held
    assert (strand.head, strand.length) == (held[1].leaf, 2)
