"""A small edition of `python -m benchmarks dashboard`: a long run in a real browser."""

from pathlib import Path

from benchmarks.dashboard import measure
from benchmarks.many_runs import LONG_RUN, open_project, write_runs
from tests.web.test_browser import pytestmark as needs_browser

pytestmark = needs_browser


def test_a_long_run_is_scrolled_to_its_end_in_little_memory(tmp_path: Path) -> None:
    """Only what is visible exists: a tab with thousands of entries stays small."""
    with open_project(tmp_path) as forum:
        write_runs(forum, 120, 1200)
        write_runs(forum, 1, LONG_RUN // 2)
        forum.log.publish()

    figures = measure(tmp_path, 1)

    assert figures["faults"] == []
    assert figures["list_rows"] == 100
    assert figures["scrolled_to"] == figures["entries"] - 1
    assert figures["memory_mb"] < 200
    assert figures["list_cpu_ms"] < 5000
