"""What the provider has billed, and what is left of the caps after that."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx2

from benchmarks.caps.workload import PICO
from benchmarks.gateway import free_port

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Account:
    """What one account owes to the provider, in pico-dollars."""

    owed: int
    excess: int
    """The part that was billed above the published bound."""
    calls: int


@dataclass(frozen=True, slots=True)
class Provider:
    """The provider, which runs in a process of its own."""

    url: str
    client: httpx2.AsyncClient

    async def quote(self, path: str, body: bytes) -> dict[str, Any]:
        """Return what a call would cost, and what its accounts owe."""
        reply = await self.client.post(f"{self.url}/quote{path}", content=body)
        quote: dict[str, Any] = reply.json()
        return quote

    @staticmethod
    def read_bills(url: str) -> dict[str, Account]:
        """Return all accounts."""
        rows = httpx2.get(f"{url}/bills", timeout=60, trust_env=False).json()
        return {name: Account(*row) for name, row in rows.items()}


@contextmanager
def start_provider() -> Iterator[str]:
    """Start the provider, and yield its address."""
    port = free_port()
    argv = [sys.executable, "-m", "benchmarks.caps.provider", str(port)]
    with subprocess.Popen(argv, cwd=ROOT, env=os.environ) as process:
        try:
            url, deadline = f"http://127.0.0.1:{port}", monotonic() + 60
            while True:
                try:
                    httpx2.get(f"{url}/bills")
                    break
                except httpx2.TransportError:
                    assert monotonic() < deadline
                    sleep(0.05)
            yield url
        finally:
            process.kill()


def find_overshoot(caps: Mapping[str, int], bills: Mapping[str, Account]) -> dict[str, int]:
    """Return by how many nano-dollars caps were passed, without what is above the bound."""
    over = {}
    for name, cap in caps.items():
        if (account := bills.get(name)) is not None:
            nano = -(-(account.owed - account.excess) // PICO) - cap
            if nano > 0:
                over[name] = nano
    return over
