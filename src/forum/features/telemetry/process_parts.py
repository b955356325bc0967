"""What telemetry adds to servers and workers; nothing without the extra `otel`, if none asks."""

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from forum.app import Forum
from forum.errors import MissingExtra
from forum.features.telemetry.section import TelemetrySection
from forum.installation import require_extra

if TYPE_CHECKING:  # a worker does not need what a server needs
    from forum.app.run_extensions import RunExtension
    from forum.surfaces.http.auth import ServerConfig
    from forum.surfaces.http.extensions import ServerExtension


def make_server_extension(config: "ServerConfig") -> "ServerExtension | None":
    """Return the endpoints of OTLP, if the extra is installed."""
    with suppress(MissingExtra), require_extra("otel"):
        from forum.features.telemetry.http import OtlpExtension

        return OtlpExtension([tenant.forum for tenant in config.desks], config.most_bytes)
    return None


def make_run_extension(forum: Forum) -> "RunExtension | None":
    """Return the endpoints of OTLP for one program, if the extra is installed."""
    with suppress(MissingExtra), require_extra("otel"):
        from forum.features.telemetry.run_telemetry import RunTelemetry

        return RunTelemetry(forum)
    return None


def sending_own_spans(forum: Forum) -> AbstractContextManager[None]:
    """Send what this process does, if the project asks for it; only then the extra is needed."""
    if not forum.settings.sections.read("otel", TelemetrySection).trace_forum:
        return nullcontext()
    with require_extra("otel"):
        from forum.features.telemetry import own_spans

    return own_spans.sending_own_spans(forum)
