"""Clients that are broken, hostile or gone: the server outlives them, and others do not notice."""

import re
import resource
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from urllib.parse import urlsplit

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.e2e.project import eventually, project
from tests.surfaces import hasty
from tests.surfaces.serving import Served, serving

pytestmark = pytest.mark.slow

SETTINGS = '[models.default]\nkind = "scripted"\n'
FRESH_SECONDS = 20.0
"""How long everything may take to be as before, on a machine with much to do."""
PROMPT_SECONDS = 6.0
MOST_GROWTH = 64 << 20
MOST = 2000
"""How many connections a server keeps."""
OPENED = ("--open-loopback", "--rate", "1000000")
"""What lets clients be rude without a key."""
HOST = b"Host: 127.0.0.1\r\n"
LAST = b"Connection: close\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LIVE = b"GET /livez HTTP/1.1\r\n" + HOST
RUNS = b"POST /api/v1/runs HTTP/1.1\r\n" + HOST + JSON
EXPOSING = re.compile(rb'Traceback|File "|site-packages|\.py\b|/state|forum_[0-9a-f]{8}_')


def get(path: bytes, headers: bytes = b"") -> bytes:
    """Return a request for something."""
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + LAST + headers + b"\r\n"


def post(body: bytes, path: bytes = b"/api/v1/runs") -> bytes:
    """Return a request with a body."""
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + JSON + LAST + length + body


def chat(members: bytes) -> bytes:
    """Return a request of a chat client."""
    message = b'{"model":"forum","messages":[{"role":"user","content":"Hi."}],'
    return post(message + members + b"}", b"/v1/chat/completions")


def deep(levels: int) -> bytes:
    """Return a plan of plans of plans."""
    opened = b'[{"id":"a","instruction":"b","tasks":'
    return post(b'{"request":"a","tasks":' + opened * levels + b"[]" + b"}]" * levels + b"}")


@dataclass(frozen=True, slots=True)
class Abused:
    """A server, and what may not get worse about it."""

    served: Served
    waiting: str
    """A run that waits for a person."""

    @property
    def follow(self) -> bytes:
        """Ask for the events of a run that has no end."""
        return f"GET /api/v1/runs/{self.waiting}/events HTTP/1.1\r\n".encode() + HOST + b"\r\n"

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """Connect without any manners."""
        address = urlsplit(self.served.url)
        where = (str(address.hostname), int(address.port or 0))
        with socket.create_connection(where, FRESH_SECONDS) as connection:
            yield connection

    def say(self, data: bytes) -> bytes:
        """Send something, and return all that is answered until the server hangs up."""
        with self.connected() as client:
            with suppress(OSError):  # it has heard enough
                client.sendall(data)
            return rest_of(client)

    @property
    def log(self) -> str:
        """What the server has said to its operator."""
        return (self.served.project.home / "serve.log").read_text()

    @property
    def connections(self) -> int:
        """How many sockets the server holds."""
        with suppress(FileNotFoundError):  # it was closed while they were counted
            files = Path(f"/proc/{self.served.server.pid}/fd").iterdir()
            return sum(str(file.readlink()).startswith("socket:") for file in files)
        return self.connections

    @property
    def memory(self) -> int:
        """How many bytes of memory it has."""
        status = Path(f"/proc/{self.served.server.pid}/status").read_text()
        match = re.search(r"VmRSS:\s*(\d+) kB", status)
        assert match is not None
        return 1024 * int(match[1])

    @contextmanager
    def unharmed(self) -> "Iterator[Neighbour]":
        """See to it that nobody else notices what is done meanwhile, and that nothing is left."""
        run = self.served.begin()
        log, connections = self.log, self.connections
        memory = self.memory
        with Neighbour(self.served.url).watching() as neighbour:
            yield neighbour

        assert self.served.project.end(run).outcome == "ok"
        assert max(neighbour.took) < PROMPT_SECONDS
        assert self.log == log
        eventually(lambda: self.connections <= connections, FRESH_SECONDS)
        assert self.memory < memory + MOST_GROWTH


@dataclass(slots=True)
class Neighbour:
    """A client that behaves, and takes the time."""

    url: str
    took: list[float] = field(default_factory=list)

    @contextmanager
    def watching(self) -> "Iterator[Neighbour]":
        """Ask again and again whether the server lives, by a new connection each time."""
        over = Event()
        thread = Thread(target=self._watch, args=(over,))
        thread.start()
        try:
            eventually(lambda: len(self.took) > 2)
            yield self
            asked = len(self.took)
            eventually(lambda: len(self.took) > asked + 2)
        finally:
            over.set()
            thread.join()

    def _watch(self, over: Event) -> None:
        while not over.wait(0.02):
            begun = monotonic()
            assert httpx2.get(f"{self.url}/livez", timeout=FRESH_SECONDS).text == "ok\n"
            self.took.append(monotonic() - begun)


def rest_of(client: socket.socket) -> bytes:
    """Return what is read until the server hangs up."""
    heard = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(65536):
            heard += piece
    return heard


def trickle(client: socket.socket, data: bytes) -> None:
    """Send one byte after the other."""
    for byte in data:
        client.sendall(bytes([byte]))
        sleep(0.1)


@pytest.fixture(scope="module")
def abused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abused]:
    """Serve a project by a server that loses patience soon."""
    with project(tmp_path_factory.mktemp("abuse"), None, SETTINGS) as made, ExitStack() as stack:
        stack.enter_context(made.worker())
        served = stack.enter_context(serving(made, OPENED, (hasty.__file__,)))
        gated = {"request": "Name a river.", "gates": {"what": ["plan"]}}
        waiting = served.client.post("/api/v1/runs", json=gated).json()["run"]
        made.wait(waiting)
        made.end(served.begin())
        yield Abused(served, waiting)


NO_HTTP = {
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    "HTTP/0.9": b"GET /livez\r\n\r\n",
    "a raw byte in the path": b"GET /livez\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in a header": LIVE + b"X-A: a\0b\r\n\r\n",
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "two hosts": LIVE + HOST + b"\r\n",
    "two lengths": RUNS + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "a negative length": RUNS + b"Content-Length: -5\r\n\r\n",
    "a length with a sign": RUNS + b"Content-Length: +5\r\n\r\nabcde",
    "an endless length": RUNS + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "another coding": RUNS + b"Transfer-Encoding: gzip\r\n\r\n",
    "a megabyte of header": LIVE + b"X-A: " + b"a" * (1 << 20) + b"\r\n\r\n",
    "200 headers": LIVE + b"a:\r\n" * 200 + b"\r\n",
    "a chunk without a size": RUNS + CHUNKED + b"\r\nzz\r\n",
    "a chunk that is longer than it says": RUNS + CHUNKED + b"\r\n2\r\nabcdef\r\n0\r\n\r\n",
}
UNREADABLE = {
    "UTF-8 that is none": post(b'{"request":"\xff\xfe"}'),
    "half a surrogate pair": post(b'{"request":"a\\ud800b"}'),
    "half a pair in a name": post(b'{"request":"a","\\udfff":1}'),
    "half a pair for a chat": chat(b'"user":"\\ud800"'),
    "not a number": post(b'{"request":"a","budget":{"tokens":NaN}}'),
    "a number that no float holds": post(b'{"request":"a","budget":{"tokens":1e400}}'),
    "a number beyond 2^53": post(b'{"request":"a","budget":{"tokens":%d}}' % 2**60),
    "a number of many digits": post(b'{"request":"a","budget":{"tokens":' + b"9" * 99999 + b"}}"),
    "100,000 levels": post(b"[" * 100_000),
    "levels within an object": deep(5000),
    "levels in what is ignored": chat(b'"x":' + b"[" * 100_000 + b"]" * 100_000),
    "an index of many digits": get(b"/api/v1/entries?after=" + b"9" * 5000),
    "5,000 parameters": get(b"/api/v1/runs?" + b"&".join(b"a%d=1" % n for n in range(5000))),
    "NUL in a path": get(b"/api/v1/runs/%00"),
    "a line break in a path": get(b"/api/v1/runs/x%0d%0aSet-Cookie:a"),
    "an escaped slash in a path": get(b"/api/v1/entries/0/bodies/..%2f..%2fforum.toml"),
}
UNFIT = {
    "more than a decimal holds": post(b'{"request":"a","budget":{"usd":9e999999}}'),
    "less than nothing": post(b'{"request":"a","budget":{"usd":"-1"}}'),
    "no number at all": post(b'{"request":"a","budget":{"usd":"sNaN"}}'),
    "a megabyte of digits": post(b'{"request":"a","budget":{"usd":' + b"9" * 1_000_000 + b"}}"),
    "NUL in a name": post(b'{"request":"a","tasks":[{"id":"\\u0000","instruction":"b"}]}'),
    "plans within plans": deep(200),
}
NOWHERE = {
    "UTF-8 that is none": get(b"/api/v1/runs/%ff%fe"),
    "a path out of here": get(b"/tlog/tile/entries/%2e%2e/%2e%2e/%2e%2e/etc/passwd"),
    "a plain path out of here": get(b"/tlog/tile/0/../../../etc/passwd"),
    "a tile of a huge index": get(b"/tlog/tile/0/" + b"x999/" * 200 + b"999"),
    "somebody else's address": get(b"http://evil.example/livez"),
    "a slash at the end": get(b"/api/v1/runs/"),
    "a proxy": b"CONNECT evil.example:80 HTTP/1.1\r\n" + HOST + LAST + b"\r\n",
    "the server itself": b"OPTIONS * HTTP/1.1\r\n" + HOST + LAST + b"\r\n",
}
JUNK = [
    *(pytest.param(data, 400, id=f"no HTTP: {name}") for name, data in NO_HTTP.items()),
    *(pytest.param(data, 400, id=f"unreadable: {name}") for name, data in UNREADABLE.items()),
    *(pytest.param(data, 422, id=f"unfit: {name}") for name, data in UNFIT.items()),
    *(pytest.param(data, 404, id=f"nowhere: {name}") for name, data in NOWHERE.items()),
]


def test_headers_of_a_request_that_came_early_are_counted(abused: Abused) -> None:
    """What waits behind another request is read on the event loop like everything else."""
    early = LIVE + b"\r\n" + LIVE + b"a:\r\n" * 200 + b"\r\n"

    answer = abused.say(early)

    assert answer.count(b"HTTP/1.1 200 ") == 1


@pytest.mark.parametrize(("data", "status"), JUNK)
def test_junk_is_refused_without_a_word_too_many(abused: Abused, data: bytes, status: int) -> None:
    """Whatever comes is refused as what it is, tells nothing of the machine, and is no trouble."""
    log = abused.log

    answer = abused.say(data)

    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert not EXPOSING.search(answer)
    assert b"\r\nlocation:" not in answer.partition(b"\r\n\r\n")[0].lower()
    assert b"\r\nset-cookie:" not in answer.lower()
    assert abused.log == log
    assert abused.served.client.get("/livez").text == "ok\n"


HERE = ["127.0.0.1", "localhost", "LOCALHOST:8080", "[::1]", "[::1]:80"]
ELSEWHERE = [
    "evil.example",
    "127.0.0.1@evil.example",
    "evil.example@127.0.0.1",
    "localhost.evil.example",
    "127.0.0.1:8080:80",
    "127.0.0.1:evil",
    "localhost.",
    "[::1",
    "::1",
    "[::ffff:127.0.0.1]",
    "127.1",
    "2130706433",
    "127.0.0.1, evil.example",
    "127.0.0.1/evil",
    "\xe2\x84\xaa",
    "",
]


@pytest.mark.parametrize(
    ("host", "status"), [*((host, 200) for host in HERE), *((host, 403) for host in ELSEWHERE)]
)
def test_only_who_names_this_machine_is_let_in(abused: Abused, host: str, status: int) -> None:
    """A page whose name was made to point here asks under that name (DNS rebinding)."""
    named = b"Host: " + host.encode("latin-1") + b"\r\n" + LAST

    answer = abused.say(b"GET /api/v1/runs HTTP/1.1\r\n" + named + b"\r\n")

    assert answer.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "http://127.0.0.1:1", "http://127.0.0.1@evil.example", "*"],
)
def test_a_page_of_somebody_else_is_turned_away(abused: Abused, origin: str) -> None:
    """A browser says which page asks; it must be one of this server, which has none."""
    origin_line = f"Origin: {origin}\r\n".encode()

    answer = abused.say(get(b"/api/v1/runs", origin_line))

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"access-control" not in answer.lower()


def test_what_follows_an_ambiguous_request_is_not_heard(abused: Abused) -> None:
    """Who says twice how long a request is may have had another one smuggled past a proxy."""
    both = RUNS + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n"

    answer = abused.say(both + LIVE + b"\r\n")

    assert answer.count(b"HTTP/1.1 ") == 1


def test_junk_behind_an_answer_that_has_begun_ends_it(abused: Abused) -> None:
    """There is no place for a refusal in the middle of an answer: the server hangs up, quietly."""
    log, follow = abused.log, abused.follow.removesuffix(b"\r\n") + CHUNKED + b"\r\n"

    with abused.connected() as client:
        client.sendall(follow)
        begun = client.recv(65536)
        client.sendall(b"zz\r\n")
        rest = rest_of(client)

    assert begun.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1" not in rest
    assert abused.log == log


def test_a_stream_behind_another_request_is_not_cut_off(abused: Abused) -> None:
    """A client that sent two requests at once has said what it wants: nobody waits for it."""
    with abused.connected() as client:
        client.sendall(LIVE + b"\r\n" + abused.follow)
        sleep(2 * hasty.SECONDS)
        client.settimeout(0.1)

        with pytest.raises(TimeoutError):  # had it ended, there would be an end to read
            rest_of(client)


def test_a_short_answer_comes_in_one_piece(abused: Abused) -> None:
    """Its head and its body are written together: two pieces would wake a client up twice."""
    with abused.connected() as client:
        for _ in range(20):
            client.sendall(LIVE + b"\r\n")
            answer = client.recv(65536)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"content-length: %d" % len(body) in head.lower()
            assert body


def test_the_head_of_a_stream_comes_alone(abused: Abused) -> None:
    """Who asks for a head waits for nothing more, and the stream would never end."""
    head = abused.follow.replace(b"GET", b"HEAD").replace(HOST, HOST + LAST)

    answer = abused.say(head)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"text/event-stream" in answer
    assert answer.endswith(b"\r\n\r\n")


HALVES = {
    "nothing": (b"", b""),
    "half a line": (b"GET /liv", b""),
    "half the headers": (LIVE + b"X-A: a", b""),
    "half a body": (RUNS + b"Content-Length: 99\r\n\r\n{", b"HTTP/1.1 400 "),
    "a body that was only announced": (
        RUNS + b"Content-Length: 99\r\nExpect: 100-continue\r\n\r\n",
        b"HTTP/1.1 100 ",
    ),
    "a chunk without an end": (RUNS + CHUNKED + b"\r\nff\r\nab", b"HTTP/1.1 400 "),
    "no last chunk": (RUNS + CHUNKED + b"\r\n2\r\n{}\r\n", b"HTTP/1.1 400 "),
    "a chunk of 2^63": (RUNS + CHUNKED + b"\r\n8000000000000000\r\n", b"HTTP/1.1 400 "),
    "a body that nobody wants": (LIVE + b"Content-Length: 99\r\n\r\n", b"HTTP/1.1 200 "),
}


def test_who_stops_in_the_middle_is_let_go(abused: Abused) -> None:
    """Half a request would hold a connection for ever, and a few thousand of them the server."""
    with abused.unharmed(), ExitStack() as stack:
        clients = {name: stack.enter_context(abused.connected()) for name in HALVES}
        for name, client in clients.items():
            client.sendall(HALVES[name][0])
        answers = {name: rest_of(client) for name, client in clients.items()}

    for name, (_, begins) in HALVES.items():
        assert answers[name].startswith(begins), name
        assert begins or not answers[name], name


def test_a_byte_now_and_then_buys_no_time(abused: Abused) -> None:
    """What counts is when the request is whole, not when something was last heard (Slowloris)."""
    with (
        abused.unharmed(),
        abused.connected() as client,
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        trickle(client, LIVE)


def test_more_than_is_taken_is_not_even_read(abused: Abused) -> None:
    """A body of 64 MB must cost its sender more than the server, said or unsaid."""
    size = 64 << 20
    data = RUNS + b"Content-Length: %d\r\n\r\n" % size
    unsaid = RUNS + CHUNKED + b"\r\n%x\r\n" % size
    with abused.unharmed():
        answers = [abused.say(head + b"a" * size) for head in (data, unsaid)]

    # The end of the connection may overtake the answer, where the client does not stop to listen.
    assert all(answer[:13] in (b"HTTP/1.1 413 ", b"") for answer in answers)


def test_who_does_not_read_is_let_go(abused: Abused) -> None:
    """Answers for clients that take none must not fill the memory, nor wait for ever."""
    asked = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
    with abused.unharmed(), ExitStack() as stack:
        before = abused.connections
        followers = [stack.enter_context(abused.connected()) for _ in range(100)]
        for client in followers:
            client.sendall(abused.follow)
        greedy = [stack.enter_context(abused.connected()) for _ in range(20)]
        for client in greedy:
            client.settimeout(0)
            client.send(asked * 800)
        eventually(lambda: abused.connections > before + 110)
        eventually(lambda: abused.connections < before + 110, FRESH_SECONDS)


def test_followers_leave_room_for_others(abused: Abused) -> None:
    """Whoever follows may do so for days: were all places theirs, nobody else could come in."""
    share = hasty.FOLLOWERS // 10
    with abused.unharmed(), ExitStack() as stack:
        answers = []
        for _ in range(share + 10):
            client = stack.enter_context(abused.connected())
            client.sendall(abused.follow)
            answers.append(client.recv(13))

    assert answers.count(b"HTTP/1.1 200 ") in range(share - 2, share + 1)
    assert answers[-1] == b"HTTP/1.1 429 "


def test_two_thousand_who_say_nothing_keep_nobody_out(abused: Abused) -> None:
    """Whoever has waited longest without a word gives way to somebody who has something to say."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2 * MOST, hard)), hard))
    try:
        with serving(abused.served.project, OPENED) as patient, ExitStack() as stack:
            crowded = Abused(patient, abused.waiting)
            with crowded.unharmed() as neighbour:
                for _ in range(MOST + 100):
                    stack.enter_context(crowded.connected())
                asked = len(neighbour.took)
                eventually(lambda: len(neighbour.took) > asked + 5)
                held = crowded.connections
                stack.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert held > MOST - 50
    assert held < MOST + 50


def test_who_comes_and_goes_leaves_nothing_behind(abused: Abused) -> None:
    """A client may vanish at any point, politely or not."""
    words = [b"", b"GET /liv", LIVE + b"\r\n", abused.follow, RUNS + CHUNKED + b"\r\n"]
    with abused.unharmed():
        for number in range(500):
            with abused.connected() as client:
                client.sendall(words[number % len(words)])
                if number % 2:  # with a reset
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def own_certificate(folder: Path) -> tuple[str, ...]:
    """Return the options of a server that speaks TLS, as far as nobody looks closely."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    signed = made.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, SHA256())
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(signed.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return ("--tls-cert", str(cert), "--tls-key", str(secret))


def test_tls_hides_no_junk(abused: Abused, tmp_path: Path) -> None:
    """Behind TLS the same clients come, and some that do not speak it."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    project, options = abused.served.project, own_certificate(tmp_path)
    with serving(project, (*OPENED, *options), (hasty.__file__,)) as served:
        safe = Abused(served, abused.waiting)
        log = safe.log
        for data in (LIVE + LAST + b"\r\n", LIVE + CHUNKED + b"\r\nzz\r\n", b"GET /liv"):
            with safe.connected() as plain, trusting.wrap_socket(plain) as client:
                client.sendall(data)
                rest_of(client)
        with safe.connected() as client:
            client.sendall(LIVE + b"\r\n")
            unspoken = rest_of(client)
        lives = served.client.get("/livez").text

    assert unspoken == b""
    assert lives == "ok\n"
    assert safe.log == log


MCP_JUNK = {
    "nothing": b"",
    "a list": b"[]",
    "a number": b"1e400",
    "a list of lists": b"[[[]]]",
    "deep nesting": b"[" * 100_000,
    "wrong types": b'{"jsonrpc":2,"id":{},"method":[],"params":7}',
    "no such method": b'{"jsonrpc":"2.0","id":1,"method":"nothing/there"}',
    "half a surrogate pair": b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/list"}',
    "a tool of no name": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":null}}',
}


@pytest.mark.parametrize("body", MCP_JUNK.values(), ids=MCP_JUNK)
def test_junk_for_mcp_is_no_trouble(abused: Abused, body: bytes) -> None:
    """The protocol within the protocol is refused in its own words, and the server lives."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    log = abused.log

    answer = abused.served.client.post("/mcp", content=body, headers=headers)

    assert answer.status_code < 500
    assert not EXPOSING.search(answer.content)
    assert abused.log == log
