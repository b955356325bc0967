"""The section `[otel]` of the project file: what is taken in, and where runs are sent."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from forum.errors import BadSettings
from forum.work.report_closing import ReportPatience

Seconds = Annotated[int, msgspec.Meta(ge=1, le=7 * 86_400)]


class TelemetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of telemetry."""

    endpoint: str = ""
    """Where runs are sent as traces: the address before `/v1/traces`."""
    headers_env: str = ""
    """The variable that holds headers for the endpoint, like `Authorization=Bearer abc`."""
    content: bool = False
    """Whether prompts, replies, arguments and results are sent as well."""
    trace_forum: bool = False
    """Whether spans of Forum itself are sent: requests, runs, tasks and uses of the database."""
    all_spans: bool = False
    """Whether spans without a meaning for agents are recorded."""
    quiet_seconds: Seconds = 30
    idle_seconds: Seconds = 600

    @property
    def patience(self) -> ReportPatience:
        """How long a reported run stays open when nothing comes."""
        return ReportPatience(self.quiet_seconds, self.idle_seconds)


def read_telemetry_settings(sections: Mapping[str, Mapping[str, Any]]) -> TelemetrySettings:
    """Return the section `[otel]` among the sections of a project.  Raises `BadSettings`."""
    try:
        return msgspec.convert(sections.get("otel", {}), TelemetrySettings)
    except msgspec.ValidationError as error:
        raise BadSettings("forum.toml", f"[otel] {error}") from None
