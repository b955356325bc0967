"""Writes the published schema of the report of an evidence pack."""

from forum.features.evidence.pack_file import report_schema
from tests.docs.pages import ROOT

if __name__ == "__main__":
    (ROOT / "docs/spec/evidence.schema.json").write_bytes(report_schema())
