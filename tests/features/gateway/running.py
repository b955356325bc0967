"""`forum run` in processes of its own, against a local provider, and what must hold afterwards."""

import http.client
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from forum.app import Forum
from forum.config import load_settings
from forum.ledger.log import stored_body
from forum.models.prices import BilledTokens, price_by_name
from tests.support import free_port
from tests.surfaces.command_server import start_command
from tests.surfaces.terminal import Terminal

HERE = Path(__file__).parent
MODEL_SPAN = "report.begin/1"


@contextmanager
def local_provider(log: Path, seed: int | None = None) -> Iterator[str]:
    """Serve the local provider in a process of its own, and yield its address."""
    port = free_port()
    argv = [sys.executable, "-m", "tests.features.gateway.provider", str(port), str(log)]
    root = HERE.parents[2]
    with subprocess.Popen([*argv, *([] if seed is None else [str(seed)])], cwd=root) as process:
        try:
            deadline = monotonic() + 30
            while not _answers(port):
                assert process.poll() is None
                assert monotonic() < deadline
                sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with closing(connection), suppress(OSError):
        connection.request("HEAD", "/")
        return connection.getresponse().status > 0
    return False


def provider_variables(url: str) -> dict[str, str]:
    """Return the variables of a user who has keys, and whose provider is the local one."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "sk-local-openai",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-local-anthropic",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "sk-local-gemini",
        "AZURE_OPENAI_ENDPOINT": url,
        "AZURE_OPENAI_API_KEY": "sk-local-azure",
    }


def read_log(log: Path) -> tuple[int, int]:
    """Return how many calls reached the provider, and what it billed, in nano-dollars."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    calls = [line for line in lines if line["event"] == "request" and line["model"]]
    bills = [line for line in lines if line["event"] == "bill"]
    cost = sum(price_by_name(b["model"]).cost(BilledTokens(b["in"], b["out"])) for b in bills)
    return len(calls), cost


class RecordedCalls:
    """The calls in a ledger, as its entries tell of them."""

    def __init__(self, terminal: Terminal) -> None:
        self._settings = settings = load_settings(terminal.folder, terminal.environment)
        self.begun: dict[str, Any] = {}
        self.steps: dict[str, Any] = {}
        self.kinds: list[str] = []
        with Forum(settings) as forum, forum.open_reader() as reader:
            self.runs = reader.runs("", 1000)
            for run in self.runs:
                for _, data in reader.entries_of_run(run):
                    entry = forum.ledger.kinds.read(data)
                    self.kinds.append(entry.kind)
                    if getattr(entry.facts, "op", "") == "model":
                        document = self.begun if entry.kind == MODEL_SPAN else self.steps
                        assert entry.facts.span not in document
                        document[entry.facts.span] = entry.facts

    def read_bodies(self, kind: str, name: str) -> list[bytes]:
        """Return the contents of a body of the entries of a kind, in the order of the record."""
        found = []
        with Forum(self._settings) as forum, forum.open_reader() as reader:
            for run in self.runs:
                for _, data in reader.entries_of_run(run):
                    entry = forum.ledger.kinds.read(data)
                    stored = stored_body(reader, entry, name) if entry.kind == kind else None
                    if stored is not None:
                        found.append(b"".join(stored.read()))
        return found

    @property
    def made(self) -> dict[str, Any]:
        """The outcomes of the calls that were not refused."""
        return {span: step for span, step in self.steps.items() if step.outcome != "denied"}

    @property
    def lost(self) -> dict[str, Any]:
        """The outcomes of the calls that a killed gateway had in flight."""
        return {span: step for span, step in self.steps.items() if step.code == "lost"}

    @property
    def cost(self) -> int:
        """The cost of all calls, in nano-dollars."""
        return sum(step.usd for step in self.steps.values())


def kill_at_random(
    terminal: Terminal, url: str, chance: random.Random, cap: str, log: Path
) -> None:
    """Start `forum run`, and kill its process at a random moment after its first call."""
    words = ["run", "--max-usd", cap, "--", sys.executable]
    words += [str(HERE / "plain_agent.py"), "8", "1000"]
    before = log.stat().st_size
    environment = terminal.environment | provider_variables(url)
    quiet = subprocess.DEVNULL
    process = start_command(words, terminal.folder, environment, stdout=quiet, stderr=quiet)
    deadline = monotonic() + 60
    while log.stat().st_size == before and process.poll() is None:
        assert monotonic() < deadline
        sleep(0.01)
    sleep(chance.random() * 0.5)
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
