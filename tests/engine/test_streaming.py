"""Models are heard while they speak; the record is made of what they have said."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.engine import (
    MAX_STREAMED_BYTES_PER_S,
    Engine,
    RedactingStream,
    RunRequest,
    accept_run,
    read_run_request,
    read_steps,
)
from forum.engine.streaming import ThrottledStream
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.secret_mask import SecretMask
from forum.runs.kinds import AcceptedFacts, task_strand
from forum.runs.policy import Api, Chat, Scripted, ScriptStep
from forum.runs.run_comparison import compare_steps
from tests.engine.office import KINDS, PERSON, RUN, Office, chain, now, quick
from tests.engine.team import order
from tests.models.provider import say, serving
from tests.support import StoreFactory

CANARY = "sk-canary-5f0c93d1e7b24a68"
SECRETS = {"KEY": CANARY, "OTHER": "pässword", "LONG": f"{CANARY}-and-more"}
MASK = SecretMask.from_secrets({name: secret.encode() for name, secret in SECRETS.items()})


class Ear:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.heard: dict[tuple[str, str], list[str]] = {}

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Be told something."""
        del run
        self.heard.setdefault((task_strand(task), step), []).append(text)

    def texts(self) -> dict[tuple[str, str], str]:
        """Return all that was said, by strand and step."""
        return {step: "".join(texts) for step, texts in self.heard.items()}


def listened_to(store: StoreFactory, ear: Ear | None = None) -> Office:
    """Return an office in which somebody may listen."""
    office = Office(store())
    office.ledger = Ledger(office.store, KINDS, now, lambda: b"s" * 32, mask=MASK)
    office.engine = Engine(
        office.ledger, office.hands.model, office.hands.open_tools, delta_sink=ear
    )
    return office


def outputs(office: Office) -> dict[tuple[str, str], str]:
    """Return what is on record of what was said, by strand and step."""
    replies = [entry for entry in office.entries() if entry.kind == "reply/1"]
    return {(e.strand, e.step): office.body(e, "output").decode() for e in replies}


def test_who_listens_hears_what_will_be_recorded_and_changes_nothing(folder: Path) -> None:
    """Every task and every role is heard under the step of its reply; the record is the same."""
    ear, origin = Ear(), "test.example/aloud"
    heard = listened_to(StoreFactory(folder / "heard.db", origin), ear)
    alone = listened_to(StoreFactory(folder / "alone.db", origin))
    ended = heard.do(order()), alone.do(order())

    assert [run.outcome for run in ended] == [Outcome.OK, Outcome.OK]
    assert ear.texts() == outputs(heard)
    assert {strand.partition("/")[0] for strand, _ in ear.heard} == {"task", "role"}
    assert list(compare_steps(*(read_steps(office.ledger, RUN) for office in (heard, alone)))) == []


def test_what_a_fork_takes_from_the_record_is_not_said_again(factory: StoreFactory) -> None:
    """Nobody speaks: the reply is known."""
    ear = Ear()
    office = listened_to(factory, ear)
    office.do(RunRequest("x", chain("a"), quick()))
    origin = AcceptedFacts(fork_run=RUN, fork_index=len(office.entries()))
    ear.heard.clear()
    accept_run(office.ledger, "run-2", read_run_request(office.ledger, RUN), PERSON, origin=origin)
    run = office.work("run-2")

    assert run.outcome is Outcome.OK
    assert ear.heard == {}


@pytest.mark.parametrize("api", Api)
def test_a_secret_that_a_provider_repeats_in_pieces_is_not_heard(
    factory: StoreFactory, api: Api
) -> None:
    """It comes four letters at a time; what is heard is what is recorded, where it is masked."""
    ear = Ear()
    office = listened_to(factory, ear)
    with serving(say(f"Your key is {CANARY}, and {CANARY[:-1]} is none.", api=api)) as provider:
        agent = Chat(provider.url, "tiny", api, input_usd=1, output_usd=1)
        office.do(RunRequest("x", chain("a"), quick(agents={"": agent})))

    assert list(ear.texts().values()) == [f"Your key is [secret KEY], and {CANARY[:-1]} is none."]
    assert ear.texts() == outputs(office)


def test_a_slow_agent_is_heard_before_it_has_ended(factory: StoreFactory) -> None:
    """Word by word, as if it were thinking."""
    ear = Ear()
    office = listened_to(factory, ear)
    words = Scripted({"*": (ScriptStep("one two three " * 40, milliseconds=200),)})
    office.do(RunRequest("x", chain("a"), quick(agents={"": words})))
    (pieces,) = ear.heard.values()

    assert len(pieces) > 2
    assert "".join(pieces) == "one two three " * 40


@given(
    st.lists(st.sampled_from([*SECRETS.values(), CANARY[:9], CANARY[9:], "ä", "p", "🐍 ", "\n"])),
    st.data(),
)
def test_a_veil_does_not_depend_on_where_a_text_is_cut(
    parts: list[str], data: st.DataObject
) -> None:
    """What passes it, piece by piece, is what the mask makes of the whole; and never too early."""
    whole, passed = "".join(parts), list[str]()
    cuts = data.draw(st.lists(st.integers(0, len(whole))).map(sorted))
    veiled = RedactingStream(MASK, passed.append)
    for start, end in pairwise([0, *cuts, len(whole)]):
        veiled(whole[start:end])
        assert not any(secret in "".join(passed) for secret in SECRETS.values())
    veiled.flush()
    veiled("late")

    assert "".join(passed) == MASK.mask_text(whole)


def test_a_flood_is_passed_on_in_measure() -> None:
    """Fifty megabytes in three seconds would drown whoever reads along; letters stay whole."""
    passed, seconds = list[str](), iter(range(50))
    measured = ThrottledStream(passed.append, lambda: next(seconds) // 20)
    for _ in range(50):
        measured("x" + "\N{SNOWMAN}" * 333_333)
    heard = "".join(passed)

    assert 3 * MAX_STREAMED_BYTES_PER_S - 12 <= len(heard.encode()) <= 3 * MAX_STREAMED_BYTES_PER_S
    assert set(heard) == {"x", "\N{SNOWMAN}"}
