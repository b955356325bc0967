"""The server process: its socket, its timeouts and its shutdown."""

import asyncio
import logging
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from forum.app import bind_sockets
from forum.errors import ProcessFull
from forum.limits.admission import MAX_CONNECTIONS
from forum.surfaces.cpu_limits import shorten_thread_switches
from forum.surfaces.http.admission import PROBE_CONNECTIONS
from forum.surfaces.http.application import make_app, startup_error_of
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.http.grpc_refusal import PREFACE, GrpcRefusal
from forum.surfaces.http.health import health_endpoints
from forum.surfaces.http.metrics import HttpMetrics
from forum.surfaces.http.problems import ProblemError, problem_from_exception, problem_response
from forum.surfaces.http.request_pipeline import SECURITY_HEADERS

HEADER_TIMEOUT_S = 10.0
"""Time limit for receiving the head of a request."""
STALL_TIMEOUT_S = 60.0
"""How long a client may accept no data while data is pending."""
DRAIN_TIMEOUT_S = 10
STRICT_TRANSPORT, STRICT_TRANSPORT_S = "Strict-Transport-Security", 365 * 86_400
"""Tells browsers, where Forum ends TLS, not to ask this host without TLS for a year."""
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_MAX_HEADER_BYTES = 64 << 10
_MAX_HEADER_LINES = 100
"""Maximum number of header lines: parsing 16,000 of them takes 70 ms on the event loop."""
_RESERVED_FILES = 256
"""Files that a process needs besides its connections: databases, their logs, its own pipes."""
_CROWDED = "forum.crowded"
"""Marks the requests of a connection beyond the limit."""

# asyncio warns about every write to a closed connection: clients could fill the disk with it.
logging.getLogger("asyncio").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address that clients connect to."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None
    more_ports: tuple[int, ...] = ()
    """Further ports at which everything is served."""


class _JoiningConnection(h11.Connection):
    """Writes the head of a response together with its body, if that is there at once.

    So it is if its length is known.  A second system call for each response would wake up the
    client twice.
    """

    _head: tuple[bytes, ...] = ()

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        """Return the bytes of an event, behind those that were held back."""
        parts = super().send_with_data_passthrough(event)
        if isinstance(event, h11.Response) and any(
            name == b"content-length" for name, _ in event.headers
        ):
            self._head, parts = tuple(parts or ()), []
        elif self._head:
            parts, self._head = [*self._head, *(parts or ())], ()
        return parts


class TimeoutH11Protocol(H11Protocol):
    """HTTP/1.1 with timeouts for slow senders (slowloris) and slow readers."""

    max_connections: int | None = None
    """The number of connections of a process, beyond which only health probes are answered."""
    waiting: asyncio.TimerHandle | None = None
    """Timer that closes the connection unless a request arrives."""
    _header_lines = 0
    """Header lines received of the next request."""
    _refusal: GrpcRefusal | None = None
    """The answers to a client of gRPC, if this is one."""
    _watching: asyncio.TimerHandle | None = None
    """Timer that aborts the connection unless the client reads."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  as uvicorn has it
        """Start the header timer."""
        self.conn = _JoiningConnection(h11.SERVER, _MAX_HEADER_BYTES)
        super().connection_made(transport)
        if self.max_connections is not None:
            self._limit_connections(self.max_connections)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self._cancel_header_timer()
        self._cancel_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received data; only a complete request head stops the header timer."""
        if self._refusal is not None or self._is_grpc(data):
            self._refuse_grpc(data)
            return
        if self.conn.their_state is h11.IDLE and self._has_too_many_headers(data):
            self.send_400_response("Too many headers.")
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._header_lines = 0
        self._update_timers()

    def _is_grpc(self, data: bytes) -> bool:
        """Return whether a connection begins like one of HTTP/2, as those of gRPC do."""
        cycle: RequestResponseCycle | None = self.cycle
        is_first = cycle is None and self.conn.their_state is h11.IDLE
        return is_first and not self._header_lines and data.startswith(PREFACE[:16])

    def _refuse_grpc(self, data: bytes) -> None:
        """Answer a client of gRPC; the header timer ends a connection on which no call comes."""
        self._refusal = self._refusal or GrpcRefusal()
        self.transport.write(self._refusal.receive(data))
        if self._refusal.is_over:
            self.close_gracefully()

    def _has_too_many_headers(self, data: bytes) -> bool:
        """Count the header lines of the next request in this data, before they are parsed."""
        self._header_lines += data.partition(b"\r\n\r\n")[0].count(b"\n")
        return self._header_lines > _MAX_HEADER_LINES

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it was pipelined."""
        self._header_lines = 0
        if self._has_too_many_headers(self.conn.trailing_data[0]):
            self.transport.close()
        super().on_response_complete()
        self._update_timers()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP; if a response has begun, only close the connection."""
        # The response in progress has no recipient any
        # more, and must not be sent after the refusal.
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """Watch a client that reads more slowly than we write."""
        super().pause_writing()
        self._start_stall_timer()

    def resume_writing(self) -> None:
        """Stop watching; a connection that is closing is watched until it is closed."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._cancel_stall_timer()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection whose client sends no further request."""
        self.close_gracefully()

    def _update_timers(self) -> None:
        """Start or stop the timers according to the state of the connection."""
        if self.transport.is_closing():
            self._cancel_header_timer()
            self._start_stall_timer()
        elif self._is_busy():
            self._cancel_header_timer()
            self._close_if_ambiguous_length()
        elif self.waiting is None:
            self._start_header_timer()

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _close_if_ambiguous_length(self) -> None:
        """Close the connection after a request with two contradicting lengths."""
        # RFC 9112, section 6.1: the bytes that follow may be a smuggled request.
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in self.headers}:
            self.cycle.keep_alive = False

    def _limit_connections(self, most: int) -> None:
        """Close the connection that has been idle for longest, if there are too many.

        If none is idle, this one gets answers to health probes only, and if there are many such, it
        is closed.
        """
        if len(self.connections) <= most:
            return
        idle = {
            connection: connection.waiting.when()
            for connection in self.connections
            if isinstance(connection, TimeoutH11Protocol) and connection.waiting is not None
        }
        if idle:
            longest = min(idle, key=idle.__getitem__)
            longest.close_gracefully()
            # The connection is lost only a moment later;
            # until then it must not count against the limit.
            self.connections.discard(longest)
        elif len(self.connections) > most + PROBE_CONNECTIONS:
            self.transport.abort()
        else:
            self.app_state = {**self.app_state, _CROWDED: True}

    def _start_header_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self.waiting = loop.call_later(HEADER_TIMEOUT_S, self.close_gracefully)

    def _cancel_header_timer(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def close_gracefully(self) -> None:
        """Close the connection after pending data was sent."""
        self._cancel_header_timer()
        if not self.transport.is_closing():
            self.transport.close()
        self._start_stall_timer()

    def _start_stall_timer(self) -> None:
        """Start the timer that checks whether pending data decreases."""
        left = self._unsent_bytes()
        if left and self._watching is None:
            loop = asyncio.get_running_loop()
            self._watching = loop.call_later(STALL_TIMEOUT_S, self._check_stall, left)

    def _unsent_bytes(self) -> int:
        """Return the pending bytes; 0 while TLS closes, for which asyncio has its own timeout."""
        ending = self.scheme == "https" and self.transport.is_closing()
        return 0 if ending else self.transport.get_write_buffer_size()

    def _check_stall(self, left: int) -> None:
        self._watching = None
        if self._unsent_bytes() < left:
            self._start_stall_timer()
        else:
            self.transport.abort()  # close() would wait until all pending data is read

    def _cancel_stall_timer(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None


@contextmanager
def _muted_uvicorn_log() -> Iterator[None]:
    """Suppress uvicorn's traceback of an error that is raised again."""
    logger = logging.getLogger("uvicorn.error")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


class _UvicornServer(uvicorn.Server):
    """A server that ends event streams before it waits for open connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_config: ServerConfig,
        app: Starlette,
        on_start: Callable[[str, int], None],
    ) -> None:
        super().__init__(config)
        self._config, self._app = server_config, app
        self._begun = on_start

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGTERM and Ctrl-C as a normal shutdown with exit status 0."""
        # The event loop's own handler is used: it wakes the loop in whichever thread the signal is
        # delivered, and does not interrupt it at an arbitrary point.
        loop = asyncio.get_running_loop()
        handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    async def startup(self, sockets: Any = None) -> None:  # noqa: ANN401  as uvicorn has it
        """Report the address once the server listens."""
        try:
            with _muted_uvicorn_log():
                await super().startup(sockets)
        except SystemExit:
            raise startup_error_of(self._app) from None
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._begun(host, port)

    async def shutdown(self, sockets: Any = None) -> None:  # noqa: ANN401  as uvicorn has it
        """End event streams, then wait for the remaining connections."""
        for tenant in self._config.desks:
            tenant.log_follower.close()
        await super().shutdown(sockets)


def _raise_connection_limit() -> int:
    """Raise the limit for open files, and return the number of connections that it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = _RESERVED_FILES + PROBE_CONNECTIONS
    wanted = MAX_CONNECTIONS + others
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, granted), hard))
    return max(1, granted - others)


def _answer_probes(app: Starlette) -> ASGIApp:
    """Return an application that answers only health probes on connections beyond the limit."""
    probes = {
        endpoint.path for endpoint in health_endpoints(HttpMetrics(), ()) if endpoint.is_probe
    }

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_crowded = scope["type"] == "http" and scope["state"].get(_CROWDED)
        if is_crowded and scope["path"] not in probes:
            error = ProcessFull("connections", MAX_CONNECTIONS)
            refusal = problem_from_exception(error)
            headers = {**refusal.headers, **SECURITY_HEADERS, "Connection": "close"}
            refusal = ProblemError(refusal.problem, refusal.detail, headers)
            await problem_response(refusal, scope["path"])(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer


def _announce(
    server_config: ServerConfig,
    at: ListenAddress,
    url: str,
    say: Callable[[str], None],
    *,
    home: str,
    is_person_told: bool,
) -> None:
    """Say where the server listens, and what clients have to show."""
    origins = ", ".join(tenant.forum.origin for tenant in server_config.desks)
    say(f"serving {origins} at {url}")
    if home and not is_person_told:
        say(f"dashboard: {url}{home}")
    for other in at.more_ports:
        say(f"the same at {url.partition(':')[0]}://{at.host}:{other}")
    for tenant in server_config.desks:
        if not tenant.forum.is_signer:
            wait = "entries get their indexes on the machine that signs them"
            say(f"{tenant.forum.origin}: {wait}")
    if server_config.open_loopback:
        say(
            "--open-loopback: every program of every user of this machine, and whoever a proxy "
            "or a tunnel lets in, may submit requests and read everything; nobody may approve"
        )
    elif not is_person_told:
        say("clients show a key, or on this machine the token of `forum token`")


def _tell_nobody(_address: str) -> bool:
    """Do nothing once the server listens."""
    return False


def run_server(
    server_config: ServerConfig,
    at: ListenAddress,
    say: Callable[[str], None],
    extensions: Sequence[ServerExtension] = (),
    on_start: Callable[[str], bool] = _tell_nobody,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    `on_start` gets the address of the dashboard, before anything is logged, and returns whether it
    has told a person how to sign in.
    """
    shorten_thread_switches()
    app = make_app(server_config, extensions)
    TimeoutH11Protocol.max_connections = _raise_connection_limit()
    config = uvicorn.Config(
        _answer_probes(app),
        http=TimeoutH11Protocol,
        ws="none",
        log_config=None,  # uses the log of this process
        log_level="error",  # its warnings are caused by clients, who could fill the disk
        access_log=False,
        server_header=False,
        date_header=True,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        backlog=2048,
        timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
        proxy_headers=False,
        headers=[(STRICT_TRANSPORT, f"max-age={STRICT_TRANSPORT_S}")] if at.tls_cert else [],
        ssl_certfile=str(at.tls_cert) if at.tls_cert else None,
        ssl_keyfile=str(at.tls_key) if at.tls_key else None,
    )

    def announce(host: str, port: int) -> None:
        scheme = "https" if at.tls_cert else "http"
        url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        home = next((annex.home for annex in extensions if annex.home), "")
        is_person_told = on_start(url + home)
        _announce(server_config, at, url, say, home=home, is_person_told=is_person_told)

    # Bound before the ledgers are opened, so that a port in use is reported immediately.
    sockets = [
        listener for port in (at.port, *at.more_ports) for listener in bind_sockets(at.host, port)
    ]
    server = _UvicornServer(config, server_config, app, announce)
    server.run(sockets)
    for tenant in server_config.desks:
        tenant.forum.close()
