"""Inputs that go on with an earlier one: sent as what is new, recorded whole, or sent whole."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forum import errors
from forum.app import KINDS, new_salt, now
from forum.errors import EarlierInputRefused
from forum.features.recorder.earlier_inputs import MAX_JOINED_BYTES, SentInputs
from forum.features.recorder.http import ReportBatch
from forum.features.recorder.public import ReportWriter
from forum.features.recorder.report_items import (
    EarlierInput,
    RunEnd,
    RunStart,
    StepReport,
)
from forum.features.recorder.sinks import ServerSink
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Position
from forum.runs.report_kinds import Operation
from forum.stores.sqlite import SqliteStore
from tests.support import fresh_origin

RUN, OTHER = "conversation-1", "conversation-2"
WORDS = "What was said before, and is said again with every call. "


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Return a ledger with a store of its own."""
    store = SqliteStore(tmp_path / "ledger.db", fresh_origin())
    yield Ledger(store, KINDS, now, new_salt)
    store.close()


def step(span: str, messages: list[str], run: str = RUN) -> StepReport:
    """Return a call with this input."""
    return StepReport(
        run=run,
        span=span,
        op=Operation.MODEL,
        name="call",
        outcome=Outcome.OK,
        input=msgspec.Raw(msgspec.json.encode(messages)),
    )


def input_of(item: StepReport) -> bytes:
    """Return the input of a call as it is sent."""
    assert isinstance(item.input, msgspec.Raw)
    return bytes(item.input)


def inputs(ledger: Ledger, run: str = RUN) -> dict[str, bytes]:
    """Return the recorded inputs by span."""
    return {
        position.strand.removeprefix("span/"): b"".join(body.read())
        for position, name, body in ledger.store.bodies_of_run(run)
        if name == "input"
    }


class Server:
    """A server in this process, which can lose answers and be of an older release."""

    def __init__(self, ledger: Ledger) -> None:
        self.writer = ReportWriter(ledger, "key")
        self.received: list[int] = []
        self.loses_answer = self.is_older = False

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Write a batch, as the endpoint does."""
        self.received.append(len(request.content))
        if self.is_older and b'"input_after"' in request.content:
            return httpx2.Response(422)
        batch = msgspec.json.decode(request.content, type=ReportBatch)
        try:
            result = self.writer.write(batch.items)
        except EarlierInputRefused as refused:
            return httpx2.Response(409, text=str(refused))
        if self.loses_answer:
            self.loses_answer = False
            raise httpx2.ConnectError("lost")
        return httpx2.Response(200, content=msgspec.json.encode(result))


def make_sink(server: Server, folder: Path) -> ServerSink:
    """Return a sink that talks to this server."""
    sink = ServerSink("http://forum.invalid", "key", folder)
    sink._client = httpx2.Client(  # noqa: SLF001
        base_url="http://forum.invalid", transport=httpx2.MockTransport(server.answer)
    )
    return sink


def test_a_conversation_is_sent_once_and_recorded_whole(ledger: Ledger, tmp_path: Path) -> None:
    """Also of two agents that take turns, with a rewritten history, and after a lost answer."""
    server = Server(ledger)
    sink, expected = make_sink(server, tmp_path), dict[str, bytes]()
    sink.write([RunStart(run=RUN, name="agent")])
    talks = {"a": ["System of a. " * 100], "b": ["System of b. " * 100]}
    for number in range(40):
        agent = "ab"[number % 2]
        talks[agent] = [*talks[agent], f"{number} ü {WORDS * 10}"]
        if number == 20:
            talks[agent] = [talks[agent][0], "A summary."]
        item = step(f"{agent}{number}", talks[agent])
        expected[item.span] = input_of(item)
        server.loses_answer = number == 10
        if server.loses_answer:
            with pytest.raises(errors.Unavailable):
                sink.write([item])
        sink.write([item])
    sink.write([RunEnd(run=RUN, name="agent", outcome=Outcome.OK, handed_in=40)])

    assert inputs(ledger) == expected
    said = 40 * 10 * len(WORDS)
    assert sum(server.received) < 2 * said < sum(map(len, expected.values())) / 3


def test_what_is_erased_or_not_understood_is_sent_whole(ledger: Ledger, tmp_path: Path) -> None:
    """A refused reference costs one more request and loses nothing, also with the run's end."""
    server = Server(ledger)
    sink, talk = make_sink(server, tmp_path), [WORDS * 50]
    sink.write([RunStart(run=RUN, name="agent"), step("a1", talk)])
    ledger.store.erase_bodies([(Position(RUN, "span/a1", 0), "input")])
    end = RunEnd(run=RUN, name="agent", outcome=Outcome.OK, handed_in=2)
    before = len(server.received)
    assert sink.write([step("a2", [*talk, "more"]), end]).refused == ()
    assert len(server.received) == before + 2
    assert msgspec.json.decode(inputs(ledger)["a2"]) == [*talk, "more"]

    server.is_older = True
    sink.write([RunStart(run=OTHER, name="agent"), step("b1", talk, OTHER)])
    for number in (2, 3):
        sink.write([step(f"b{number}", [*talk, str(number)], OTHER)])
    assert inputs(ledger, OTHER).keys() == {"b1", "b2", "b3"}
    assert server.received[-1] > len(WORDS * 50)


FIRST = msgspec.json.encode([WORDS * 20])


def refer(span: str = "a1", size: int = len(FIRST) - 1, **changes: object) -> StepReport:
    """Return a call whose input goes on with that of another one."""
    rest = b',"more"]'
    digest = sha256(FIRST[:size] + rest).hexdigest()
    item = replace(
        step("a2", []),
        input=msgspec.Raw(msgspec.json.encode(rest.decode())),
        input_after=EarlierInput(span, size, digest),
    )
    return replace(item, **changes)


@pytest.mark.parametrize(
    "item",
    [
        refer(span="a9"),
        refer(span="a2"),
        refer(size=len(FIRST) + 1),
        refer(size=len(FIRST)),
        refer(input=msgspec.Raw(b'",0]"')),
        refer(input=msgspec.Raw(b"[1]")),
        refer(input=msgspec.Raw(b'"\\ud800"')),
        refer(input=msgspec.UNSET),
        refer(run=OTHER),
        refer(run="nobodys-run"),
    ],
)
def test_a_reference_that_does_not_hold_records_nothing(ledger: Ledger, item: StepReport) -> None:
    """To a span that is not there, its own, of another run or reporter; to more; to another."""
    writer = ReportWriter(ledger, "key")
    writer.write([RunStart(run=RUN, name="agent"), step("a1", [WORDS * 20])])
    other = ReportWriter(ledger, "other key")
    other.write([RunStart(run=OTHER, name="agent"), step("a1", [WORDS * 20], OTHER)])

    with pytest.raises(EarlierInputRefused):
        writer.write([step("new", ["new"]), item])
    assert inputs(ledger).keys() == {"a1"}
    assert writer.write([refer()]).recorded == 1
    assert writer.write([refer()]).known == 1


def test_a_small_request_cannot_be_put_together_to_a_large_one(ledger: Ledger) -> None:
    """What is read and joined is bounded for a batch, before it is hashed."""
    writer, long = ReportWriter(ledger, "key"), "x" * 900_000
    writer.write([RunStart(run=RUN, name="agent"), step("a1", [long])])
    content = msgspec.json.encode([long])
    after = EarlierInput("a1", len(content), sha256(content).hexdigest())
    item = replace(step("b", []), input=msgspec.Raw(b'""'), input_after=after)
    batch = [replace(item, span=f"b{n}") for n in range(MAX_JOINED_BYTES // len(content) + 1)]
    with pytest.raises(EarlierInputRefused, match="batch"):
        writer.write(batch)
    assert writer.write(batch[:5]).recorded == 5


@given(st.lists(st.tuples(st.integers(0, 30), st.text(max_size=40)), max_size=20))
def test_what_is_sent_and_what_was_sent_make_the_input(turns: list[tuple[int, str]]) -> None:
    """Whatever an agent keeps of its history; characters are not cut."""
    sent, known = SentInputs(), dict[str, bytes]()
    talk = ["ü" * 300]
    for number, (kept, text) in enumerate(turns):
        talk = [*talk[: kept + 1], text, "é" * 100]
        item = step(f"s{number}", talk)
        short = sent.shorten(item)
        assert isinstance(short, StepReport)
        if short.input_after is not None:
            rest = msgspec.json.decode(input_of(short), type=str).encode()
            begin = known[short.input_after.span][: short.input_after.size]
            assert begin + rest == input_of(item)
        sent.remember([item])
        known[item.span] = input_of(item)
