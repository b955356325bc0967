"""A transcript shows each message once, from whatever the bodies of a run are kept in."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import TamperDetected
from forum.ledger.body import Body, BytesContent, StoredBody
from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome
from forum.ledger.log import LocatedEntry
from forum.ledger.spans import ByteSpan, KnownBody, cut_spans, share_body
from forum.runs.conversation.messages import ModelExchange
from forum.runs.conversation.run_exchanges import MAX_HISTORIES, read_exchanges
from forum.runs.conversation.run_steps import find_steps
from forum.runs.report_kinds import REPORT_KINDS, Operation, ReportStepFacts
from forum.runs.run_record import RunRecord

Said = list[dict[str, Any]]
NOTHING: dict[str, Any] = {"choices": []}
PADDING = "word " * 200
"""So that requests are long enough to share bytes."""


class FakeShared(NamedTuple):
    """A body that is put together from the pieces of a run."""

    own: tuple[ByteSpan, ...]
    pieces: dict[int, bytes]

    def spans(self) -> Sequence[ByteSpan]:
        """Return its spans."""
        return self.own

    def read_from(self, start: int) -> Iterator[bytes]:
        """Yield its bytes from a place on."""
        starts = [sum(span.length for span in self.own[:n]) for n in range(len(self.own) + 1)]
        for piece, offset, length in cut_spans(self.own, starts, start, starts[-1]):
            yield self.pieces[piece][offset : offset + length]


class FakeRun:
    """A run of calls, with its bodies as they are or as spans."""

    def __init__(self, *, shares: bool) -> None:
        self._shares = shares
        self._entries: list[LocatedEntry] = []
        self.bodies: dict[tuple[int, str], StoredBody] = {}
        self._known: list[KnownBody] = []
        self.pieces: dict[int, bytes] = {}

    def call(self, request: object, reply: object) -> None:
        """Record a call of a model."""
        self.call_bytes(json.dumps(request).encode(), json.dumps(reply).encode())

    def call_bytes(self, request: bytes, reply: bytes = b"{}") -> None:
        """Record a call of a model with these bodies."""
        n = len(self._entries)
        contents = {"input": request, "output": reply}
        facts = ReportStepFacts(Operation.MODEL, "m", Outcome.OK, f"s{n}", began=n + 1)
        bodies = {
            name: Body(name, "application/json", BytesContent(data), bytes(32))
            for name, data in contents.items()
        }
        entry: Entry[Any] = Entry(
            v="forum/entry/1",
            log="test.local/log",
            run="run",
            strand=f"span/s{n}",
            n=0,
            prev="",
            step=f"step/{n}",
            ts=n + 1,
            actor="test",
            kind="report.step/1",
            parents=(),
            facts=facts,
            bodies={name: body.commitment() for name, body in bodies.items()},
        )
        self._entries.append(LocatedEntry(n, REPORT_KINDS.write(entry), entry))
        for name, data in contents.items():
            self.bodies[n, name] = StoredBody(bytes(32), BytesContent(data).chunks)
            if self._shares and name == "input":
                self.bodies[n, name] = self._share(n, data)

    def _share(self, n: int, content: bytes) -> StoredBody:
        shared = share_body(n, content, self._known[-8:])
        self.pieces[n] = shared.piece
        self._known = [body for body in self._known if body.number not in shared.contained]
        self._known.append(KnownBody(n, content, shared.spans, shared.depth))
        parts = FakeShared(shared.spans, self.pieces)
        return StoredBody(bytes(32), lambda: parts.read_from(0), shared=parts)

    def record(self) -> RunRecord:
        """Return the run as readers get it."""

        def bodies_at(places: Sequence[tuple[LocatedEntry, str]]) -> list[StoredBody | None]:
            return [self.bodies.get((located.index or 0, name)) for located, name in places]

        return RunRecord("run", tuple(self._entries), bodies_at)


def read_all(run: FakeRun, start: int = 0, stop: int | None = None) -> list[ModelExchange]:
    """Return the steps of a run as a transcript has them."""
    record = run.record()
    return [read for _, read in read_exchanges(record, find_steps(record.entries), start, stop)]


def shown_texts(exchanges: Sequence[ModelExchange]) -> list[str]:
    """Return all texts of a transcript."""
    return [message.text.strip() for read in exchanges for message in read.messages]


def talk(draw: st.DrawFn, run: FakeRun) -> list[str]:
    """Record agents that take turns, call tools and rewrite their histories; return what is said.

    Each text is said once.
    """
    numbers = count()

    def say(role: str) -> dict[str, Any]:
        text = f"m{next(numbers)} {PADDING}".strip()
        said.append(text)
        return {"role": role, "content": text}

    said: list[str] = []
    agents = draw(st.integers(1, 3))
    histories: list[Said] = [[say("system")] for _ in range(agents)]
    for _ in range(draw(st.integers(1, 12))):
        agent = draw(st.integers(0, agents - 1))
        history = histories[agent]
        if len(history) > 4 and draw(st.integers(0, 3)) == 0:
            # The newest messages stay, as a compaction leaves them.
            history = [history[0], say("user"), *history[-draw(st.integers(1, 3)) :]]
        history = [*history, *(say("user") for _ in range(draw(st.integers(1, 2))))]
        reply = say("assistant")
        run.call({"messages": history, "tools": [PADDING]}, {"choices": [{"message": reply}]})
        histories[agent] = [*history, reply]
    return said


@given(data=st.data(), shares=st.booleans())
def test_each_message_is_shown_once_on_every_page(data: st.DataObject, shares: bool) -> None:  # noqa: FBT001
    """Whoever reads a page gets what stands there in the whole transcript."""
    run = FakeRun(shares=shares)
    said = data.draw(st.composite(lambda draw: talk(draw, run))())
    exchanges = read_all(run)
    called = {text for read in exchanges for text in shown_texts([read])}
    assert sorted(shown_texts(exchanges)) == sorted(called)
    assert called <= set(said)
    assert all(read.follows is not None for read in exchanges if read.dropped or read.repeated)
    start = data.draw(st.integers(0, len(exchanges)))
    stop = data.draw(st.integers(start, len(exchanges)))
    assert read_all(run, start, stop) == exchanges[start:stop]
    erased = data.draw(st.integers(0, len(exchanges) - 1))
    del run.bodies[erased, "input"]
    rest = read_all(run)
    assert rest[erased].request == ()
    assert rest[erased].reply == exchanges[erased].reply
    texts = shown_texts(rest)
    # What another request still has is shown there.
    kept = {
        text for at, read in enumerate(exchanges) if at != erased for text in shown_texts([read])
    }
    assert kept <= set(texts)
    # Whether its reply came back can only be told from the request that was erased.
    twice = {text for text in texts if texts.count(text) > 1}
    assert twice <= set(shown_texts([rest[erased]]))


@pytest.mark.parametrize("shares", [False, True])
def test_an_agent_goes_on_after_many_calls_of_others(shares: bool) -> None:  # noqa: FBT001
    """A sub-agent makes many calls before the first agent is asked again."""
    run = FakeRun(shares=shares)
    first: Said = [{"role": "user", "content": f"begin {PADDING}"}]
    other: Said = [{"role": "user", "content": f"inner {PADDING}"}]
    run.call({"messages": first}, NOTHING)
    for n in range(MAX_HISTORIES * (3 if shares else 0) + 2):
        run.call({"messages": other}, NOTHING)
        other = [*other, {"role": "user", "content": f"{n} {PADDING}"}]
    run.call({"messages": [*first, {"role": "user", "content": "end"}]}, NOTHING)
    last = read_all(run)[-1]
    assert (shown_texts([last]), last.repeated, last.follows) == (["end"], 1, 0)


@pytest.mark.parametrize(("texts", "size"), [(5100, 1), (30, 50_000), (1, 1_200_000)])
def test_a_history_too_long_to_show_was_not_rewritten(texts: int, size: int) -> None:
    """What is left out of a page is stated once, and every page says the same of what follows."""
    run = FakeRun(shares=True)
    history: Said = [{"role": "user", "content": f"{n} {'x' * size}"} for n in range(texts)]
    for n in range(3):
        run.call({"messages": history}, NOTHING)
        history = [*history, {"role": "user", "content": f"new {n}"}]
    exchanges = read_all(run)
    assert "characters are left out here" in exchanges[0].request[-1].note
    assert sum(message.size for message in exchanges[0].request) < 1 << 21
    assert [(r.repeated, r.dropped, len(r.request)) for r in exchanges[1:]] == [
        (texts, 0, 1),
        (texts + 1, 0, 1),
    ]
    assert all(read_all(run, start) == exchanges[start:] for start in range(3))


def test_a_note_on_a_cut_body_is_not_a_message_that_an_agent_leaves_out() -> None:
    """The recorder cut the body, behind the last message; the next request goes on from it."""
    run = FakeRun(shares=True)
    history: Said = [{"role": "user", "content": f"m{n} {PADDING}"} for n in range(3)]
    run.call_bytes(json.dumps({"messages": history, "tools": [PADDING]}).encode()[:-200])
    run.call({"messages": [*history, {"role": "user", "content": "Go on"}]}, NOTHING)
    cut, following = read_all(run)
    assert cut.request[-1].note == "the recorded body is cut"
    assert (following.repeated, following.repeated_later, following.dropped) == (3, 0, 0)


def test_a_rewritten_history_is_marked() -> None:
    """A summary, and another system prompt; not where another agent begins."""
    run = FakeRun(shares=True)
    history: Said = [{"role": "system", "content": "Be terse."}]
    history += [{"role": "user", "content": f"m{n} {PADDING}"} for n in range(9)]
    run.call({"messages": history}, NOTHING)
    summary, after = ({"role": "user", "content": text} for text in ("In short", "Go on"))
    run.call({"messages": [history[0], summary, *history[-2:], after]}, NOTHING)
    system = {"role": "system", "content": "Be kind."}
    run.call({"messages": [system, *history[1:]]}, NOTHING)
    run.call({"messages": [history[0], {"role": "user", "content": "Something else"}]}, NOTHING)
    marks = [(r.repeated, r.repeated_later, r.dropped, r.follows) for r in read_all(run)]
    assert marks == [(0, 0, 0, None), (1, 2, 7, 0), (0, 9, 1, 0), (1, 0, 0, 1)]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_altered_bytes_are_found(at: int) -> None:
    """What a request shares with an altered one is altered too."""
    run = FakeRun(shares=True)
    history: Said = []
    for n in range(3):
        history = [*history, {"role": "user", "content": f"m{n} {PADDING}"}]
        run.call({"messages": history}, NOTHING)
    run.pieces[at] = run.pieces[at].replace(b"word", b"ward", 1)
    with pytest.raises(TamperDetected):
        read_all(run)
