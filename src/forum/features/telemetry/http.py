"""OTLP over HTTP: spans and events that other programs report become runs of the ledger."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.responses import Response

from forum.app import Forum
from forum.errors import BacklogFull, StoreFailed
from forum.features.telemetry import trace_push
from forum.features.telemetry.decoding import PROTOBUF
from forum.features.telemetry.own_spans import sending_own_spans
from forum.features.telemetry.receiver import RETRY_AFTER_S, Signal, refuse_export
from forum.features.telemetry.routes import IntakeHolder, answer_by_size, read_request, to_response
from forum.features.telemetry.section import TelemetrySection
from forum.ledger.kinds import Scope
from forum.limits.shares import FairSlots
from forum.runs.report_closing import close_quiet_runs
from forum.surfaces.http.admission import held_shares
from forum.surfaces.http.auth import DEFAULT_MAX_BODY_BYTES, Authenticator
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.http.problems import ProblemType, problem_from_exception
from forum.surfaces.logs import LOG, format_error_line

POLL_INTERVAL_S: Final = 5.0
"""How often quiet runs are closed: they are quiet for half a minute, unless it is set."""
PUSH_INTERVAL_S: Final = 2.0
MAX_CONCURRENT_REQUESTS: Final = 4
"""Requests that are read and recorded at once: each may hold several times its size."""


class OtlpExtension(ServerExtension):
    """The endpoints of OTLP over HTTP, for all ledgers of a server."""

    def __init__(self, forums: Sequence[Forum], most_bytes: int = DEFAULT_MAX_BODY_BYTES) -> None:
        self._forums, self._most_bytes = forums, most_bytes
        self._holders = {forum.origin: IntakeHolder(forum) for forum in forums}
        self._slots = FairSlots(MAX_CONCURRENT_REQUESTS)

    def endpoints(self, authenticator: Authenticator) -> Sequence[Endpoint]:  # noqa: ARG002  as the others
        """Return one operation for each signal."""
        summaries = {
            Signal.TRACES: "Report spans of OpenTelemetry",
            Signal.LOGS: "Report events of OpenTelemetry",
        }
        return [self._endpoint(signal, summary) for signal, summary in summaries.items()]

    def _endpoint(self, signal: Signal, summary: str) -> Endpoint:
        async def handle(context: RequestContext) -> Response:
            export = read_request(context.request, signal, context.raw)
            intake = self._holders[context.tenant.forum.origin].get()
            held = held_shares(context.request)
            # The body is here: nobody waits for a client that sends slowly.
            async with self._slots.hold():
                return to_response(
                    await answer_by_size(intake, export, context.principal.name, held.take_bytes)
                )

        return Endpoint(
            "POST",
            path=signal.value,
            name=f"otlp.{signal.name.lower()}",
            # On loopback too: an address grants nothing, and such a key can read nothing.
            scopes=frozenset({Scope.REPORT}),
            summary=summary,
            handle=handle,
            reply=PROTOBUF,
            max_bytes=self._most_bytes,
            problems=(ProblemType.TOO_LARGE, ProblemType.WRONG_TYPE),
            tag="telemetry",
            voice=_refuse,
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Close runs of which nothing more is heard, while the server runs."""
        tasks = [asyncio.create_task(self._close_quiet_runs(), name="otlp.close")]
        tasks += [
            asyncio.create_task(_push_traces(forum, target), name="otlp.push")
            for forum in self._forums
            # One machine of those that share a database sends: the one that signs the log.
            if (target := _configured_target(forum)) is not None and forum.is_signer
        ]
        for task in tasks:
            task.add_done_callback(_log_failure)
        try:
            with sending_own_spans(self._forums[0]):
                yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _close_quiet_runs(self) -> None:
        while True:
            for forum in self._forums:
                patience = self._holders[forum.origin].rules.patience
                # A run that cannot be closed now keeps its timer; the next look tries again.
                with suppress(StoreFailed, BacklogFull):
                    await asyncio.to_thread(close_quiet_runs, forum.ledger, patience)
            await asyncio.sleep(POLL_INTERVAL_S)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Log why a background task ended: without it, runs stay open or are not sent."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        LOG.error("%s ended: %s", task.get_name(), format_error_line(error))


def _configured_target(forum: Forum) -> trace_push.PushTarget | None:
    """Return where `[otel]` says that runs are sent.  Raises `BadSettings`."""
    settings = forum.settings.sections.read("otel", TelemetrySection)
    if not settings.endpoint:
        return None
    return trace_push.make_target(
        settings.endpoint, settings.headers_env, os.environ, content=settings.content
    )


async def _push_traces(forum: Forum, target: trace_push.PushTarget) -> None:
    """Send what was completed, again and again; a failure is logged once until it is over."""
    has_failed = False
    with trace_push.open_client(target) as client:
        pusher = trace_push.TracePusher(forum, target, client)
        while True:
            try:
                await asyncio.to_thread(pusher.push_new)
                has_failed = False
            except (trace_push.TracesNotSent, StoreFailed) as error:
                if not has_failed:
                    LOG.warning("%s; trying again", error)
                has_failed = True
            await asyncio.sleep(PUSH_INTERVAL_S)


def _refuse(error: Exception, _path: str) -> Response:
    """Return an error in the form that exporters read.

    Every 429 and 503 says when to try again: repeating a request is harmless, because known spans
    are recognised.
    """
    problem = problem_from_exception(error)
    status, why = problem.problem.status, problem.detail or problem.problem.title
    retry_after = RETRY_AFTER_S if status in (429, 503) else 0
    answer = refuse_export(status, why, PROTOBUF, retry_after)
    return to_response(answer, dict(problem.headers))
