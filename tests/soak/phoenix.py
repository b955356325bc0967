"""Send runs to a real Phoenix, and look at what it shows.

`just phoenix` installs it into an environment of its own.  A run that Forum drove and one that was
reported are sent twice; Phoenix has to show each span once, below its parent, with its entry.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from forum.app import Forum
from forum.config import load_settings
from forum.features.telemetry.intake import TelemetryIntake
from forum.features.telemetry.receiver import price_call
from forum.features.telemetry.spans import read_spans
from forum.runs.report_closing import ReportPatience, close_if_quiet
from tests.e2e.project import eventually
from tests.features.telemetry.batches import TRACE, span, traces
from tests.support import free_port
from tests.surfaces.terminal import Terminal

START_SECONDS = 120.0
_SPANS = """{projects{edges{node{spans(first:100){edges{node{
    name spanKind spanId parentId statusCode tokenCountTotal trace{traceId} attributes
}}}}}}}"""


@contextmanager
def phoenix(program: Path, folder: Path) -> Iterator[str]:
    """Run Phoenix with a database of its own, and return its address."""
    port, other = free_port(), free_port()
    environ = os.environ | {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(other),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    url = f"http://127.0.0.1:{port}"
    with (folder / "phoenix.log").open("wb") as log:
        process = subprocess.Popen([program, "serve"], env=environ, stdout=log, stderr=log)
    try:
        eventually(lambda: _is_up(url), START_SECONDS)
        yield url
    finally:
        process.terminate()
        process.wait()


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def report(terminal: Terminal) -> None:
    """Report a trace to the ledger, and close its run."""
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 100,
    }
    request = traces(
        span(3, "chat", chat, parent=2),
        span(2, "find", {"gen_ai.tool.name": "find"}, parent=1, error="not found"),
        span(1, "keeper", {"gen_ai.operation.name": "invoke_agent"}),
    )
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        TelemetryIntake(forum.ledger).record(read_spans(request, price_call), "key/soak")
        close_if_quiet(forum.ledger, f"otel-{TRACE}", ReportPatience(), at_once=True)
        forum.log.publish()


def shown(url: str) -> list[dict[str, Any]]:
    """Return the spans that Phoenix shows."""
    answer = httpx2.post(f"{url}/graphql", json={"query": _SPANS}).raise_for_status().json()
    projects = answer["data"]["projects"]["edges"]
    return [edge["node"] for p in projects for edge in p["node"]["spans"]["edges"]]


def check(spans: list[dict[str, Any]]) -> None:
    """See that Phoenix shows what was recorded."""
    ids = {document["spanId"] for document in spans}
    by_name = {document["name"]: document for document in spans}
    assert len(spans) == len(ids) == 7, spans
    assert all(document["parentId"] is None or document["parentId"] in ids for document in spans)
    assert by_name["chat gpt-4o"]["tokenCountTotal"] == 1100
    assert by_name["chat gpt-4o"]["spanKind"] == "llm"
    assert by_name["execute_tool find"]["statusCode"] == "ERROR"
    assert all(json.loads(document["attributes"])["forum"]["entry"] for document in spans)


def main() -> None:
    """Send two runs twice, and print what Phoenix shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="the program `phoenix`")
    program = parser.parse_args().program
    with tempfile.TemporaryDirectory() as folder, phoenix(program, Path(folder)) as url:
        terminal = Terminal(Path(folder) / "home")
        (terminal.folder / "forum.toml").write_text('[models.default]\nkind = "scripted"\n')
        for words in (("init",), ("submit", "Name three rivers.")):
            result = terminal.type(*words)
            assert result.returncode == 0, result.stderr
        report(terminal)
        for run in ((), (f"otel-{TRACE}",)):
            result = terminal.type("otel", "push", *run, "--endpoint", url)
            assert result.returncode == 0, result.stderr
            print(result.stdout, end="")
        eventually(lambda: len(shown(url)) >= 7)
        spans = shown(url)
        check(spans)
    for document in spans:
        place = json.loads(document["attributes"])["forum"]
        print(
            document["trace"]["traceId"][:8],
            document["spanKind"],
            document["name"],
            document["statusCode"],
            place["index"],
        )


if __name__ == "__main__":
    main()
