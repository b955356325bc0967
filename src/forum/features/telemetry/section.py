"""The section `[otel]` of the project file: what is taken in, and where runs are sent."""

from typing import Annotated

from msgspec import Meta

from forum.runs.report_closing import ReportPatience
from forum.section_reader import SecretVariable, Section, SectionTables

_Seconds = Annotated[int, Meta(ge=1, le=7 * 86_400)]


class TelemetrySection(Section, frozen=True):
    """What telemetry takes in, and where runs are sent."""

    endpoint: str = ""
    """Where runs are sent as traces: the address before `/v1/traces`."""
    headers_env: SecretVariable = ""
    """The variable that holds headers for the endpoint, like `Authorization=Bearer abc`."""
    content: bool = False
    """Whether prompts, replies, arguments and results are sent as well."""
    trace_forum: bool = False
    """Whether spans of Forum itself are sent: requests, runs, tasks and uses of the database."""
    all_spans: bool = False
    """Whether spans without a meaning for agents are recorded."""
    quiet_seconds: _Seconds = 30
    idle_seconds: _Seconds = 600

    @property
    def patience(self) -> ReportPatience:
        """How long a reported run stays open when nothing comes."""
        return ReportPatience(self.quiet_seconds, self.idle_seconds)


def read_report_patience(sections: SectionTables) -> ReportPatience:
    """Return how long a reported run stays open, as these sections say.  Raises `BadSettings`."""
    return sections.read("otel", TelemetrySection).patience
