"""Send runs as traces to any endpoint of OTLP over HTTP, and continue where the last send ended.

The log is the queue: a cursor says up to which index everything was sent.  It is stored after the
endpoint has acknowledged, so a crash repeats spans, and never skips one; repeated spans have the
same ids.
"""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx2
import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from forum.app import Forum
from forum.errors import BadSettings, ConcurrentUpdate, NoSuchRun, Unavailable
from forum.features.telemetry.decoding import PROTOBUF
from forum.features.telemetry.trace_export import ExportedSpan, build_request, export_run
from forum.ledger.entry import LOG_RUN, peek_run
from forum.ledger.log import LocatedEntry, locate_run
from forum.runs.run_record import RunRecord

MAX_WINDOW_ENTRIES: Final = 5_000
"""Entries that are looked at before the cursor moves."""
_MAX_REQUEST_SPANS: Final = 500
_TIMEOUT_S: Final = 20.0
_PATH: Final = "/v1/traces"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class TracesNotSent(Unavailable):
    """An endpoint did not accept traces; they are sent again later."""

    endpoint: str
    why: str

    text = "traces were not sent to {endpoint}: {why}"


class PushTarget(msgspec.Struct, frozen=True):
    """Where traces are sent, and what of them."""

    endpoint: str
    headers: Mapping[str, str] = {}
    content: bool = False

    @property
    def url(self) -> str:
        """The address of the endpoint for traces."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(_PATH) else base + _PATH


class PushResult(msgspec.Struct, frozen=True):
    """What was sent."""

    runs: int = 0
    spans: int = 0
    rejected: int = 0
    """The spans among them that the endpoint says it has dropped."""

    def plus(self, other: "PushResult") -> "PushResult":
        """Return the sum."""
        return PushResult(
            self.runs + other.runs, self.spans + other.spans, self.rejected + other.rejected
        )


def make_target(
    endpoint: str, headers_env: str, environ: Mapping[str, str], *, content: bool
) -> PushTarget:
    """Return a target.  Raises `BadSettings` for an address that would reveal the headers."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise BadSettings("otel endpoint", f"{endpoint!r} is not an address like https://HOST:PORT")
    if headers_env and headers_env not in environ:
        raise BadSettings("otel headers_env", f"the variable {headers_env} is not set")
    headers = read_headers(environ[headers_env]) if headers_env else {}
    if headers and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise BadSettings("otel endpoint", "headers are sent over https, or on this machine only")
    return PushTarget(endpoint, headers, content)


def read_headers(text: str) -> dict[str, str]:
    """Parse headers as `OTEL_EXPORTER_OTLP_HEADERS` has them.  Raises `BadSettings`."""
    headers = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            # The text holds credentials, so it is not quoted.
            raise BadSettings("otel headers_env", "write NAME=VALUE, separated by commas")
        headers[name.strip()] = unquote(value.strip())
    return headers


class TracePusher:
    """Sends the runs of one ledger to one endpoint."""

    def __init__(self, forum: Forum, target: PushTarget, client: httpx2.Client) -> None:
        self._forum, self._target = forum, target
        self._client = client
        digest = sha256(target.url.encode()).hexdigest()[:16]
        self._memory = forum.memory(forum.origin, f"otel-{digest}.cursor", "the cursor of traces")

    def push_run(self, run: str) -> PushResult:
        """Send everything of a run, whether it was sent before or not.  Raises `NoSuchRun`."""
        entries = self._entries(run)
        if not entries:
            raise NoSuchRun(run)
        spans = export_run(run, entries, self._content(run, entries))
        rejected = self._send([exported.span for exported in spans])
        return PushResult(1, len(spans), rejected)

    def push_new(self) -> PushResult:
        """Send what was completed since the last call, by this process or an earlier one."""
        total = PushResult()
        while True:
            stored = self._memory.latest()
            start = int(stored) if stored else 0
            stop = min(self._forum.store.head().size, start + MAX_WINDOW_ENTRIES)
            if stop <= start:
                return total
            sent = self._push_window(start, stop)
            try:
                # Only now: a crash before this repeats the window, with the same ids.
                self._memory.advance(stored, str(stop).encode())
            except ConcurrentUpdate:
                continue  # another process sends, too; continue where it is
            total = total.plus(sent)

    def _push_window(self, start: int, stop: int) -> PushResult:
        """Send the spans that entries between two indexes complete."""
        window = self._forum.store.entries(start, stop)
        runs = dict.fromkeys(peek_run(data) for data in window if data is not None)
        spans: list[Span] = []
        touched = 0
        for run in runs:
            completed = [
                exported.span for exported in self._export(run) if start <= exported.index < stop
            ]
            spans += completed
            touched += bool(completed)
        return PushResult(touched, len(spans), self._send(spans))

    def _export(self, run: str) -> list[ExportedSpan]:
        if run == LOG_RUN:
            return []
        entries = self._entries(run)
        return export_run(run, entries, self._content(run, entries))

    def _entries(self, run: str) -> list[LocatedEntry]:
        located = locate_run(self._forum.store, self._forum.ledger.kinds, run)
        return [entry for entry in located if entry.index is not None]

    def _content(self, run: str, entries: Sequence[LocatedEntry]) -> RunRecord | None:
        """Return what reads the bodies of a run, if they are sent."""
        if not self._target.content:
            return None
        return self._forum.reads.make_record(run, entries)

    def _send(self, spans: list[Span]) -> int:
        return post_spans(self._client, self._target, self._forum.origin, spans)


def post_spans(
    client: httpx2.Client, target: PushTarget, origin: str, spans: Iterable[Span]
) -> int:
    """Send spans of a log, and return how many the endpoint dropped.  Raises `TracesNotSent`."""
    remaining, rejected = iter(spans), 0
    while part := list(islice(remaining, _MAX_REQUEST_SPANS)):
        rejected += _post(client, target, build_request(origin, part).SerializeToString())
    return rejected


def _post(client: httpx2.Client, target: PushTarget, message: bytes) -> int:
    headers = {
        **target.headers,
        "Content-Type": PROTOBUF,
        "Content-Encoding": "gzip",
        "User-Agent": "forum-otel",
    }
    try:
        response = client.post(
            target.url, content=gzip.compress(message, 6, mtime=0), headers=headers
        )
    except httpx2.HTTPError as error:
        raise TracesNotSent(target.endpoint, type(error).__name__) from None
    if response.status_code != 200:
        raise TracesNotSent(target.endpoint, f"it answers {response.status_code}")
    # A partial success must not be repeated (OTLP, section "Partial Success"), so it is no
    # error: the endpoint would drop the same spans again.
    answer = ExportTraceServiceResponse()
    try:
        answer.ParseFromString(response.content)
    except DecodeError:
        return 0  # some endpoints answer with a text of their own
    return int(answer.partial_success.rejected_spans)


def open_client(target: PushTarget) -> httpx2.Client:
    """Return an HTTP client for a target."""
    host = urlsplit(target.endpoint).hostname
    # A proxy of the environment is for other hosts; a redirect could lead the headers elsewhere.
    return httpx2.Client(
        timeout=_TIMEOUT_S, trust_env=host not in _LOOPBACK, follow_redirects=False
    )
