"""Asking a witness: what may come back, and what is made of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from forum.errors import Malformed, WitnessRefused, WitnessUnreachable
from forum.features.witness.client import WitnessClient, http_sender
from forum.features.witness.witness import parse_request
from forum.ledger.sequencer import Publisher, Sequencer
from forum.stores.publisher_loop import PublisherLoop
from forum.tlog import SigningKey, cosign
from tests.features.witness.serving import HOST, Log, Misbehaving, Silent, response
from tests.support import free_port, key_of
from tests.verify.world import REMOTE, START, World, remark, witness_key

LOG = Log(key_of("example.com/log"))
KEY = witness_key(REMOTE)


def line(size: int, key: SigningKey = KEY) -> bytes:
    """Return an honest answer."""
    return f"{cosign(LOG.note(size).text, key, START // 1_000_000)}\n".encode()


def ask(server: Misbehaving, size: int = 8) -> str:
    """Ask a server for its cosignature."""
    client = WitnessClient(REMOTE, http_sender(REMOTE, server.url))
    return client.cosign(LOG.note(size).encode(), LOG.prove)


def test_a_size_that_is_told_is_proven_from() -> None:
    """409 with a size: the second request has the proof from there, and is the last."""
    with Misbehaving(response(409, b"3\n"), response(200, line(8))) as server:
        answer = ask(server)

    (first, second) = map(parse_request, server.requests)
    assert answer.encode() == line(8)
    assert (first[:2], second[:2]) == ((0, ()), (3, tuple(LOG.prove(3, 8))))


def test_what_a_witness_has_cosigned_is_remembered() -> None:
    """The next request begins where the last one ended."""
    with Misbehaving(response(200, line(3)), response(200, line(8))) as server:
        client = WitnessClient(REMOTE, http_sender(REMOTE, server.url))
        client.cosign(LOG.note(3).encode(), LOG.prove)
        client.cosign(LOG.note(8).encode(), LOG.prove)

    assert [parse_request(request)[0] for request in server.requests] == [0, 3]


@pytest.mark.parametrize(
    ("answers", "asked", "why"),
    [
        ([response(409)], 1, "already seen another tree"),
        ([response(409, b"many\n")], 1, "already seen another tree"),
        ([response(409, b"9" * 30)], 1, "already seen another tree"),
        ([response(409, b"9\n")], 1, "already seen a tree of size 9"),
        ([response(409, b"3\n"), response(409, b"3\n")], 2, "409 3"),
        ([response(409, b"3\n"), response(422, b"no\n")], 2, "422 no"),
        ([response(403, b"who are you?\n")], 1, "403 who are you?"),
        ([response(404)], 1, "404"),
        ([response(204)], 1, "204"),
    ],
)
def test_a_refusal_is_not_tried_again(answers: list[bytes], asked: int, why: str) -> None:
    """Not every 409 is an invitation: a fork is answered so too, and by some without a size."""
    with Misbehaving(*answers) as server, pytest.raises(WitnessRefused, match=why):
        ask(server)

    assert len(server.requests) == asked


def test_a_redirect_is_not_followed() -> None:
    """A witness has one address; whoever answers from another is not the one that was asked."""
    with Misbehaving() as elsewhere:
        sent_away = response(307, b"", f"Location: {elsewhere.url}/add-checkpoint")
        with Misbehaving(sent_away) as server, pytest.raises(WitnessRefused, match="307"):
            ask(server)

    assert elsewhere.requests == []


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\nthis is no length\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        response(500, b"wrong key, says one witness in this way"),
        response(503),
        b"",
        b"\x00\xff garbage\r\n\r\n",
        b"HTTP/1.1 200 Fine\r\n" + CHUNKED,
        b"HTTP/1.1 500 Broken\r\n" + CHUNKED,
        b"HTTP/1.1 409 Broken\r\n" + CHUNKED,
        b"HTTP/1.1 200 " + b"x" * 100_000,
    ],
)
def test_what_is_not_in_the_protocol_is_unreachable(answer: bytes) -> None:
    """It may be better tomorrow: nothing was said about the checkpoint."""
    with Misbehaving(answer) as server, pytest.raises(WitnessUnreachable):
        ask(server)


def test_a_dead_port_is_unreachable() -> None:
    """The most ordinary failure of all."""
    client = WitnessClient(REMOTE, http_sender(REMOTE, f"http://{HOST}:{free_port()}"))

    with pytest.raises(WitnessUnreachable, match="Connection refused"):
        client.cosign(LOG.note(8).encode(), LOG.prove)


def test_an_address_is_one_of_the_web() -> None:
    """A policy that names a file or a program is not run."""
    with pytest.raises(Malformed):
        http_sender(REMOTE, "file:///etc/passwd")


# What the publisher makes of an answer that came in the right form


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a log whose policy wants the witness that the tests answer for."""
    return World(tmp_path, REMOTE)


def cosigned(text: str, key: SigningKey) -> bytes:
    """Return a cosignature line."""
    return f"{cosign(text, key, START // 1_000_000)}\n".encode()


STRANGER = cosigned(LOG.note(2).text, witness_key("stranger.example"))
LIES = {
    "another checkpoint": cosigned(LOG.note(2).text, KEY),
    "a stranger": STRANGER,
    "an empty line": b"\n" + STRANGER,
    "not a line": b"fine with me\n",
    "no newline": STRANGER.strip(),
    "not UTF-8": b"\xe2\x80\x94 stranger.example \xff\n",
    "too many": STRANGER * 100,
    "endless": b"x" * 1_000_000,
    "nothing": b"",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_leaves_the_checkpoint_as_it_was(world: World, lie: bytes) -> None:
    """A witness may keep silent; it must not be able to spoil what the log has signed."""
    with Misbehaving(response(200, lie)) as server:
        publication = world.settle(WitnessClient(REMOTE, http_sender(REMOTE, server.url)))

    assert not publication.witnessed
    assert publication.note == world.guard.note == world.store.checkpoint()


# Who waits for whom


@contextmanager
def keeping(world: World, url: str) -> Iterator[None]:
    """Keep a log with a witness at this address."""
    client = WitnessClient(REMOTE, http_sender(REMOTE, url))
    publisher = Publisher(world.store, world.key, world.guard, world.policy, cosigners=[client])
    keeper = PublisherLoop(world.store, Sequencer(world.store), publisher)
    try:
        yield
    finally:
        keeper.close()


def write_until_signed(world: World) -> list[float]:
    """Write some entries one by one, and return how long each of them was not signed."""
    main, waits = world.open(), []
    for n in range(2):
        started = monotonic()
        main.append(remark(f"step/{n}"))
        while f"\n{n + 4}\n".encode() not in (world.guard.note or b""):
            assert monotonic() - started < 30
            sleep(0.01)
        waits.append(monotonic() - started)
    return waits


@pytest.mark.slow
def test_a_dead_witness_delays_nothing(world: World) -> None:
    """Entries are sequenced and signed within about a second, whoever is missing."""
    with keeping(world, f"http://{HOST}:{free_port()}"):
        waits = write_until_signed(world)

    assert max(waits) < 10


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    """Return a witness that keeps silent for longer than anybody should wait."""
    monkeypatch.setattr("forum.features.witness.client._TIMEOUT_S", 20.0)
    server = Silent()
    yield server
    server.hang_up()


@pytest.mark.slow
def test_a_silent_witness_delays_nothing(world: World, silent: Silent) -> None:
    """The same must hold for one that takes the question and never answers."""
    with keeping(world, silent.url):
        waits = write_until_signed(world)
        silent.hang_up()

    assert max(waits) < 10


@pytest.mark.slow
def test_appends_wait_for_no_witness(world: World, silent: Silent) -> None:
    """An entry is durable, and has its index, while the publisher still waits for an answer."""
    with keeping(world, silent.url):
        main, started = world.open(), monotonic()
        for n in range(50):
            main.append(remark(f"step/{n}"))
        while world.store.head().size < 53:
            sleep(0.01)
        seconds = monotonic() - started
        silent.hang_up()

    assert seconds < 10
