"""`forum worker --metrics-port`: metrics and health probes of a worker over HTTP.

A minimal server, so that a worker does not need the extra `server`. It answers one request at a
time: `GET /metrics` with a key of scope `metrics`, and the probes of a server without one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from time import monotonic
from typing import Any

import click

from forum.app import Forum, bind_sockets, now
from forum.app.background_reader import BackgroundReader
from forum.errors import ForumError, StoreFailed
from forum.ledger.access import AccessState, ApiKey, has_scope
from forum.ledger.conditions import Ability, StoreCondition
from forum.ledger.kinds import DenialReason
from forum.metrics import LEDGER_METRICS, METRICS_SCOPES
from forum.surfaces.cli import common_options
from forum.surfaces.cli.logging_options import log_line
from forum.surfaces.logs import LOG, format_error_line

_TEXT = "text/plain; charset=utf-8"
_TIMEOUT_S = 5.0
"""How long a client may take to send its request."""
_ACCESS_FRESH_S = 1.0
"""How long the state of keys is cached, and so how late a revocation may take effect."""
_ACCESS_TIMEOUT_S = 0.5
"""How long a scrape waits for the state of keys."""


metrics_port_option = click.option(
    "--metrics-port",
    type=common_options.PORT,
    help="Serve metrics for Prometheus on this port, to keys of scope metrics.",
)
metrics_host_option = click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, help="The address of the metrics."
)


@contextmanager
def serving_metrics(forum: Forum, host: str, port: int | None) -> Iterator[None]:
    """Serve metrics until the end of the block, if a port is configured."""
    if port is None:
        yield
        return
    listener, *others = bind_sockets(host, port, "--metrics-port")
    # `HTTPServer` serves one socket; a host may have several addresses.
    for other in others:
        other.close()
    server = HTTPServer(listener.getsockname()[:2], _make_handler(forum), bind_and_activate=False)
    # `HTTPServer` opens a socket of its own. The bound one replaces it, because `bind_sockets`
    # reports an unusable port with a remedy.
    server.socket.close()
    server.socket = listener
    server.server_activate()
    host, port = listener.getsockname()[:2]
    log_line(f"metrics at http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
    thread = Thread(target=server.serve_forever, name="forum-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _make_handler(forum: Forum) -> Callable[..., BaseHTTPRequestHandler]:
    keys = _MetricsAccess(forum)

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        timeout = _TIMEOUT_S
        server_version = "forum"
        # The version of Python in the `Server` header would tell attackers which flaws to try.
        sys_version = ""

        def do_GET(self) -> None:
            status, body, media_type = _answer(forum, keys, self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            if status == HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", 'Bearer realm="forum"')
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002, ANN401
            """Log nothing: clients could fill the disk with log lines."""

    return Handler


class _MetricsAccess:
    """The API keys of a ledger, cached for a moment."""

    def __init__(self, forum: Forum) -> None:
        self._forum, self._access = forum, AccessState()
        self._at = -_ACCESS_FRESH_S
        self._reader = BackgroundReader(lambda: [forum.access.read_access(self._access)])

    def check_key(self, shown: str) -> HTTPStatus | None:
        """Return the status that denies this key access to metrics, or None if it has access.

        A known key is good as it was last read if the database does not answer at once: the metrics
        tell of that very outage.  Raises `StoreFailed` for an unknown key then.
        """
        key = ApiKey.parse(shown)
        # The same answer as for an unknown key: it must not reveal which ledger is served here.
        if key is None or key.ledger not in self._forum.access.tenants:
            return HTTPStatus.UNAUTHORIZED
        if monotonic() - self._at >= _ACCESS_FRESH_S:
            # Take the time before reading: a revocation during the read must not count as seen.
            read_at = monotonic()
            access = self._reader.read(_ACCESS_TIMEOUT_S)
            if access:
                self._access, self._at = access[0], read_at
            elif key.id not in self._access.granted:
                raise StoreFailed("reading keys", StoreCondition.DATABASE_AWAY.text)
        grant = self._access.check_key(key, now())
        if isinstance(grant, DenialReason):
            return HTTPStatus.UNAUTHORIZED
        return None if has_scope(grant.scopes, METRICS_SCOPES) else HTTPStatus.FORBIDDEN


def _answer(
    forum: Forum, keys: _MetricsAccess, path: str, headers: Message
) -> tuple[HTTPStatus, bytes, str]:
    """Return the status, the body and the media type of the response."""
    from forum.surfaces.exposition import write_exposition

    if path in _PROBES:
        return *_answer_probe(forum, _PROBES[path]), _TEXT
    if path != "/metrics":
        return HTTPStatus.NOT_FOUND, b"only /metrics and probes are here\n", _TEXT
    scheme, _, shown = headers.get("Authorization", "").partition(" ")
    try:
        refused = keys.check_key(shown.strip() if scheme.lower() == "bearer" else "")
        if refused is HTTPStatus.FORBIDDEN:
            return refused, b"this needs the scope metrics\n", _TEXT
        if refused is not None:
            return refused, b"show a key: Authorization: Bearer forum_...\n", _TEXT
        samples, accept = forum.runs.metric_samples(), headers.get("Accept", "")
        return HTTPStatus.OK, *write_exposition(LEDGER_METRICS, samples, accept)
    except ForumError as error:
        # While the database is known to be away, the monitor has logged it, and each scrape would
        # add a line.
        if forum.monitor.is_available:
            LOG.warning("metrics could not be read: %s", format_error_line(error))
        return HTTPStatus.SERVICE_UNAVAILABLE, b"the database does not answer\n", _TEXT


_PROBES = {
    "/livez": None,
    "/readyz": Ability.WRITE,
    "/readyz/read": Ability.READ,
    "/readyz/sign": Ability.SIGN,
}


def _answer_probe(forum: Forum, ability: Ability | None) -> tuple[HTTPStatus, bytes]:
    """Return whether this process has an ability, from what the monitor knows; None: it lives."""
    if ability is None:
        return HTTPStatus.OK, b"ok\n"
    if trouble := forum.monitor.find_trouble(ability):
        return HTTPStatus.SERVICE_UNAVAILABLE, f"{trouble.condition.sentence}\n".encode()
    return HTTPStatus.OK, b"ready\n"
