"""Routes for an ASGI application that receives telemetry and has an authentication of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from forum.app import Forum
from forum.errors import ForumError
from forum.features.telemetry import receiver
from forum.features.telemetry.decoding import JSON, MAX_BODY_BYTES
from forum.features.telemetry.intake import IntakeRules, TelemetryIntake
from forum.features.telemetry.section import TelemetrySection
from forum.limits.off_loop import read_by_size, run_in_body_thread

_JSON_WEIGHT: Final = 4
_BODY_TIMEOUT_S: Final = 20.0
_UNAUTHORIZED: Final = {"WWW-Authenticate": 'Bearer realm="forum"'}

Authenticate = Callable[[Request], Awaitable[str | None]]
"""Returns the name of the reporter that a request authenticates, or None to refuse it."""


class IntakeHolder:
    """Makes the intake of a ledger on first use, and again after the ledger was reopened."""

    def __init__(self, forum: Forum) -> None:
        self._forum = forum
        self._intake: TelemetryIntake | None = None
        settings = forum.settings.sections.read("otel", TelemetrySection)
        self.rules = IntakeRules(settings.all_spans, settings.patience)

    def get(self) -> TelemetryIntake:
        """Return the intake over the ledger as it is open now."""
        ledger = self._forum.ledger
        if self._intake is None or self._intake.ledger is not ledger:
            self._intake = TelemetryIntake(ledger, self.rules)
        return self._intake


def make_otlp_routes(forum: Forum, authenticate: Authenticate) -> list[Route]:
    """Return the routes `/v1/traces` and `/v1/logs` over a ledger that is open for writing."""
    holder = IntakeHolder(forum)

    def route(signal: receiver.Signal) -> Route:
        async def handle(request: Request) -> Response:
            by = await authenticate(request)
            if by is None:
                refused = receiver.refuse_export(401, "show a key", _content_type(request))
                return to_response(refused, _UNAUTHORIZED)
            try:
                body = await _read_body(request)
            except TimeoutError:
                why = f"the body did not come within {_BODY_TIMEOUT_S:.0f} s"
                return to_response(receiver.refuse_export(408, why, _content_type(request)))
            if body is None:
                why = f"at most {MAX_BODY_BYTES} bytes"
                return to_response(receiver.refuse_export(413, why, _content_type(request)))
            export = read_request(request, signal, body)
            return to_response(await answer_by_size(holder.get(), export, by))

        return Route(signal.value, handle, methods=["POST"])

    return [route(signal) for signal in receiver.Signal]


async def answer_by_size(
    intake: TelemetryIntake,
    request: receiver.ExportRequest,
    by: str,
    unpacked: Callable[[int], None] = lambda _: None,
) -> receiver.ExportAnswer:
    """Record what an exporter sends, whatever its size.

    `unpacked` is told the size of a body that was packed, and may raise an error.  Raises
    `BodyTooExpensive`, `WorkerLost`.
    """
    try:
        form, body = await run_in_body_thread(lambda: receiver.unpack_export(request))
    except ForumError as error:
        return receiver.refusal_of(error, request.content_type)
    if body is not request.body:
        unpacked(len(body))
    # Reading JSON into messages is slow: it counts as a larger body.
    size = len(body) * (_JSON_WEIGHT if form.media_type == JSON else 1)
    export = await read_by_size(receiver.read_export, body, form, size=size)
    return await run_in_threadpool(receiver.record_export, intake, request, export, by)


def read_request(request: Request, signal: receiver.Signal, body: bytes) -> receiver.ExportRequest:
    """Return a request of an exporter from one of Starlette's."""
    encoding = request.headers.get("content-encoding", "")
    return receiver.ExportRequest(signal, _content_type(request), encoding, body)


def to_response(answer: receiver.ExportAnswer, headers: dict[str, str] | None = None) -> Response:
    """Return an answer as a response of Starlette's."""
    both = {**answer.headers, **(headers or {})}
    return Response(answer.body, answer.status, both, answer.media_type)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "")


async def _read_body(request: Request) -> bytes | None:
    """Return the body of a request, or None as soon as it is too large.

    Raises `TimeoutError` if it does not come.
    """
    data = bytearray()
    async with asyncio.timeout(_BODY_TIMEOUT_S):
        async for chunk in request.stream():
            data += chunk
            if len(data) > MAX_BODY_BYTES:
                return None
    return bytes(data)
