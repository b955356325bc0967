"""What the section `[otel]` of the project file says about reported runs."""

from forum.runs.report_closing import ReportPatience
from forum.section_reader import SectionTables
from forum.sections import TelemetrySection


def read_report_patience(sections: SectionTables) -> ReportPatience:
    """Return how long a reported run stays open, as these sections say.  Raises `BadSettings`."""
    return sections.read("otel", TelemetrySection).patience
