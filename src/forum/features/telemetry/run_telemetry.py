"""OpenTelemetry of a program under `forum run`: its exporters find the gateway by themselves."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from forum.app import Forum
from forum.features.telemetry.receiver import Signal
from forum.features.telemetry.routes import make_otlp_routes
from forum.features.telemetry.trace_state import read_trace_state
from forum.runs.report_closing import DEFAULT_PATIENCE, close_if_quiet
from forum.runs.report_kinds import FORUM_RUN_REPORTER

_PATHS = frozenset(signal.value for signal in Signal)


class RunTelemetry:
    """Receives the spans and events of one program, which has shown the token of its run."""

    def __init__(self, forum: Forum) -> None:
        self._forum = forum
        self._app = Starlette(routes=make_otlp_routes(forum, _authenticate))

    def variables(self, base_url: str, token: str) -> Mapping[str, str]:
        """Return the variables that exporters read; values of headers are percent-encoded."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": base_url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{token}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }

    def serves(self, path: str) -> bool:
        """Return whether a path is one of OTLP's."""
        return path in _PATHS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has shown the run's token."""
        await self._app(scope, receive, send)

    def end(self, run: str, step: str) -> None:
        """Close the trace of a run at once: its program, a step, has ended, so no span follows."""
        ledger = self._forum.ledger
        state = read_trace_state(ledger, run.replace("-", ""), FORUM_RUN_REPORTER)
        if state.main is not None:
            close_if_quiet(ledger, state.run, DEFAULT_PATIENCE, at_once=True, started_by=step)


async def _authenticate(_: Request) -> str:
    # The gateway hands on only requests that have shown the run's token.
    return FORUM_RUN_REPORTER
