"""Kill and restart two servers while exporters report to them, and audit what they leave.

Each exporter repeats a request until one of the servers answers 200, as those of OpenTelemetry do.
In the end every span that was acknowledged is recorded once, and the ledger verifies.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import httpx2
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from forum.features.telemetry.decoding import PROTOBUF
from forum.ledger.kinds import Scope
from forum.verify import State
from tests.e2e.project import Project, eventually, project
from tests.features.telemetry.batches import span, traces
from tests.features.telemetry.desks import steps
from tests.support import free_port
from tests.surfaces.halls import showing

CHAT = {"gen_ai.operation.name": "chat"}
SETTINGS = "[otel]\nquiet_seconds = 1\nidle_seconds = 3\n"
_SPANS = 12


class Server:
    """A server that is killed and started again, at one address."""

    def __init__(self, made: Project) -> None:
        self._made, self.port = made, free_port()
        self.kills = 0
        self._start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def _start(self) -> None:
        argv = [sys.executable, "-m", "forum", "serve", "--port", str(self.port), "--rate", "9999"]
        with (self._made.home / "serve.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv, cwd=self._made.home, env=self._made.environ, stderr=log
            )

    def kill(self) -> None:
        """End it at this very moment, and start it again."""
        self.stop()
        self.kills += 1
        self._start()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class Exporter:
    """Reports traces until it is told to stop; counts what was acknowledged."""

    def __init__(self, number: int, urls: list[str], headers: dict[str, str]) -> None:
        self._number, self._urls = number, urls
        self._headers = headers
        self._random = random.Random(number)
        self.acknowledged: list[tuple[str, int]] = []
        """Trace and number of each span."""
        self.answers: Counter[str] = Counter()

    def run(self, stop: threading.Event) -> None:
        """Report one trace after the other, in requests that overlap."""
        made = 0
        with httpx2.Client(headers=self._headers, timeout=10) as client:
            while not stop.is_set():
                made += 1
                trace = f"{self._number:016x}{made:016x}"
                # The root comes last, and every span is in two requests.
                parts = [list(range(at, at + 6)) for at in range(1, _SPANS - 4, 3)]
                for part in [*parts, [*range(1, _SPANS + 1), 99]]:
                    self._send(client, trace, part)
                    self.acknowledged += [(trace, number) for number in part]

    def _send(self, client: httpx2.Client, trace: str, numbers: list[int]) -> None:
        body = traces(*(_span(trace, number) for number in numbers)).SerializeToString()
        while True:
            url = self._random.choice(self._urls)
            try:
                answer = client.post(f"{url}/v1/traces", content=body)
            except httpx2.HTTPError as error:
                self.answers[type(error).__name__] += 1
            else:
                self.answers[str(answer.status_code)] += 1
                if answer.status_code == 200:
                    return
                assert answer.status_code in (429, 503), answer
            sleep(0.05)


def _span(trace: str, number: int) -> Span:
    return span(number, "chat", CHAT, parent=0 if number == 99 else 99, trace=trace)


@contextmanager
def servers(made: Project) -> Iterator[list[Server]]:
    """Run two servers."""
    running = [Server(made), Server(made)]
    try:
        for server in running:
            eventually(partial(_is_up, server.url), 60)
        yield running
    finally:
        for server in running:
            server.stop()


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz").status_code == 200
    except httpx2.HTTPError:
        return False


def audit(made: Project, exporters: list[Exporter]) -> tuple[int, int]:
    """See that each acknowledged span is recorded once; return spans and runs."""
    expected = {pair for exporter in exporters for pair in exporter.acknowledged}
    recorded: Counter[tuple[str, int]] = Counter()
    runs, after = 0, ""
    while page := made.forum.store.runs(after, 500):
        after = page[-1]
        for run in page:
            if run.startswith("otel-"):
                runs += 1
                trace = run.removeprefix("otel-").partition(".")[0]
                recorded.update((trace, int(i, 16)) for i in steps(made.forum.ledger, run))
    twice = [pair for pair, times in recorded.items() if times > 1]
    lost = expected - recorded.keys()
    assert not twice, twice[:5]
    assert not lost, sorted(lost)[:5]
    made.forum.log.publish()
    report = made.forum.log.verify(made.forum.log.read_trust())
    assert report.intact.state is report.complete.state is State.HOLDS, report.findings
    return len(recorded), runs


def main() -> None:
    """Report for a while, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--exporters", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, project(Path(folder), None, SETTINGS) as made:
        key = made.forum.access.grant("agent", {Scope.REPORT})
        made.forum.log.publish()
        headers = {"Content-Type": PROTOBUF, **showing(key)}
        with servers(made) as running:
            urls = [server.url for server in running]
            exporters = [Exporter(n, urls, headers) for n in range(1, options.exporters + 1)]
            stop = threading.Event()
            threads = [threading.Thread(target=e.run, args=(stop,)) for e in exporters]
            for thread in threads:
                thread.start()
            deadline = monotonic() + options.seconds
            while monotonic() < deadline:
                sleep(random.uniform(0.5, 4))
                random.choice(running).kill()
            stop.set()
            for thread in threads:
                thread.join()
            kills = sum(server.kills for server in running)
        answers = sum((exporter.answers for exporter in exporters), Counter[str]())
        spans, runs = audit(made, exporters)
    print(f"{kills} kills, {spans} spans in {runs} runs, each once; answers: {dict(answers)}")


if __name__ == "__main__":
    main()
