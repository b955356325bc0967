"""The process that serves: its socket, its time limits, and how it ends."""

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
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from forum.app import bind_sockets
from forum.surfaces.cpu_limits import shorten_thread_switches
from forum.surfaces.http.application import ServerExtension, make_app, startup_error_of
from forum.surfaces.http.auth import ServerConfig

HEADER_TIMEOUT_S = 10.0
"""How long a client may take to say what it wants."""
STALL_TIMEOUT_S = 60.0
"""How long it may read nothing of what waits for it."""
DRAIN_TIMEOUT_S = 10
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_MAX_HEADER_BYTES = 64 << 10
_MAX_HEADER_LINES = 100
"""How many headers a request may have: reading 16,000 of them takes 70 ms on the event loop."""
_MAX_CONNECTIONS = 2000
_RESERVED_FILES = 256
"""How many files a process needs besides its connections: databases, their logs, its own pipes."""

# A line for each piece that a client does not take any more: clients could fill a disk with them.
logging.getLogger("asyncio").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where clients come in."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None


class TimeoutH11Protocol(H11Protocol):
    """HTTP/1.1 with a client that has to say in time what it wants, and to take what it gets."""

    waiting: asyncio.TimerHandle | None = None
    """Until when the client may say something."""
    _header_lines = 0
    """How many lines of the next request's head have come."""
    _watching: asyncio.TimerHandle | None = None
    """Until when it may read something."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  as uvicorn has it
        """Begin to wait."""
        super().connection_made(transport)
        self._evict_idle_connection()
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._cancel_header_timer()
        self._cancel_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait no longer once a request is whole; what has come of it does not count."""
        if self.conn.their_state is h11.IDLE and self._has_too_many_headers(data):
            self.send_400_response("Too many headers.")
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._header_lines = 0
        self._update_timers()

    def _has_too_many_headers(self, data: bytes) -> bool:
        """Count the headers of the next request that come with this, before they are read."""
        self._header_lines += data.partition(b"\r\n\r\n")[0].count(b"\n")
        return self._header_lines > _MAX_HEADER_LINES

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is here already."""
        self._header_lines = 0
        if self._has_too_many_headers(self.conn.trailing_data[0]):
            self.transport.close()
        super().on_response_complete()
        self._update_timers()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; where an answer has begun, only by hanging up."""
        # What is still being made has nobody to go to, and must not be sent behind a refusal.
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """Watch a client for which more waits than it reads."""
        super().pause_writing()
        self._start_stall_timer()

    def resume_writing(self) -> None:
        """Trust it again; one that is to go is watched until it is gone."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._cancel_stall_timer()

    def timeout_keep_alive_handler(self) -> None:
        """Let a client go that does not come back."""
        self.close_gracefully()

    def _update_timers(self) -> None:
        """See whose turn it is."""
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
        """Take nothing more from whoever says in two ways how long a request is."""
        # RFC 9112 section 6.1: what follows may be a request that somebody else has smuggled in.
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in self.headers}:
            self.cycle.keep_alive = False

    def _evict_idle_connection(self) -> None:
        """Let the one go that has said nothing for the longest time, where too many are here."""
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        idle = {
            one: one.waiting.when()
            for one in self.connections
            if isinstance(one, TimeoutH11Protocol) and one.waiting is not None
        }
        if idle:
            longest = min(idle, key=idle.__getitem__)
            longest.close_gracefully()
            # It is lost a moment later: until then, nobody is to be turned away because of it.
            self.connections.discard(longest)

    def _start_header_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self.waiting = loop.call_later(HEADER_TIMEOUT_S, self.close_gracefully)

    def _cancel_header_timer(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def close_gracefully(self) -> None:
        """Let the client go, as soon as it has what was said to it."""
        self._cancel_header_timer()
        if not self.transport.is_closing():
            self.transport.close()
        self._start_stall_timer()

    def _start_stall_timer(self) -> None:
        """See to it that what waits for the client becomes less."""
        left = self._unsent_bytes()
        if left and self._watching is None:
            loop = asyncio.get_running_loop()
            self._watching = loop.call_later(STALL_TIMEOUT_S, self._check_stall, left)

    def _unsent_bytes(self) -> int:
        """Return how much waits; of TLS that is about to end, nothing, for asyncio ends that."""
        ending = self.scheme == "https" and self.transport.is_closing()
        return 0 if ending else self.transport.get_write_buffer_size()

    def _check_stall(self, left: int) -> None:
        self._watching = None
        if self._unsent_bytes() < left:
            self._start_stall_timer()
        else:
            self.transport.abort()  # to close would be to wait until it has read everything

    def _cancel_stall_timer(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None


@contextmanager
def _muted_uvicorn_log() -> Iterator[None]:
    """Keep uvicorn from logging the traceback of an error that is raised again."""
    logger = logging.getLogger("uvicorn.error")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


class _UvicornServer(uvicorn.Server):
    """A server that lets its followers go before it waits for them."""

    def __init__(
        self,
        config: uvicorn.Config,
        house: ServerConfig,
        app: Starlette,
        begun: Callable[[str, int], None],
    ) -> None:
        super().__init__(config)
        self._house, self._app, self._begun = house, app, begun

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGTERM and Ctrl-C for the wish to end: who ends as wished has not failed."""
        # By the loop, which is woken in whichever thread the system delivers the signal, and not
        # in a handler that interrupts the loop anywhere.
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
        """Say where it listens once it does."""
        try:
            with _muted_uvicorn_log():
                await super().startup(sockets)
        except SystemExit:
            raise startup_error_of(self._app) from None
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._begun(host, port)

    async def shutdown(self, sockets: Any = None) -> None:  # noqa: ANN401  as uvicorn has it
        """End event streams, then wait for what is left."""
        for desk in self._house.desks:
            desk.log_follower.close()
        await super().shutdown(sockets)


def _raise_connection_limit() -> int:
    """Return how many connections there may be, after asking the system for as many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS + _RESERVED_FILES
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, granted), hard))
    return max(1, granted - _RESERVED_FILES)


def run_server(
    house: ServerConfig,
    at: ListenAddress,
    say: Callable[[str], None],
    annexes: Sequence[ServerExtension] = (),
) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    shorten_thread_switches()
    app = make_app(house, annexes)
    config = uvicorn.Config(
        app,
        http=TimeoutH11Protocol,
        ws="none",
        log_config=None,  # it logs to where everything of this process does
        log_level="error",  # its warnings are about clients, who could fill a disk with them
        access_log=False,
        server_header=False,
        date_header=True,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        limit_concurrency=_raise_connection_limit(),
        backlog=2048,
        timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
        proxy_headers=False,
        ssl_certfile=str(at.tls_cert) if at.tls_cert else None,
        ssl_keyfile=str(at.tls_key) if at.tls_key else None,
    )

    def begun(host: str, port: int) -> None:
        scheme = "https" if at.tls_cert else "http"
        origins = ", ".join(desk.forum.origin for desk in house.desks)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        say(f"serving {origins} at {scheme}://{place}")
        for desk in house.desks:
            if not desk.forum.is_signer:
                wait = "entries get their indexes on the machine that signs them"
                say(f"{desk.forum.origin}: {wait}")
        if house.open_loopback:
            say(
                "--open-loopback: every program of every user of this machine, and whoever a proxy "
                "or a tunnel lets in, may submit requests and read everything; nobody may approve"
            )
        else:
            say("clients show a key, or on this machine: Authorization: Bearer $(forum token)")

    # Before the ledgers are opened: a port that cannot be had is found out at once.
    sockets = bind_sockets(at.host, at.port)
    server = _UvicornServer(config, house, app, begun)
    server.run(sockets)
    for desk in house.desks:
        desk.forum.close()
