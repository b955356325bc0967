"""The workers of one soak, as processes: started, watched, stopped and killed."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.soak.orders import Orders, Plan, Role

ROOT = Path(__file__).parents[2]
END_SECONDS = 60.0


@dataclass
class Life:
    """One process of one slot."""

    orders: Orders
    process: subprocess.Popen[bytes]
    born: float = field(default_factory=time.monotonic)
    hung: bool = False
    """Whether it did not end when it was told to."""

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.born

    @property
    def status(self) -> int | None:
        """Its exit status, or nothing while it lives."""
        return self.process.poll()

    @property
    def stopped(self) -> bool:
        """Whether it is stopped, and could be continued."""
        stopped = False
        if sys.platform == "linux" and self.process.poll() is None:
            flags = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            stopped = bool(os.waitid(os.P_PID, self.process.pid, flags))
        return stopped

    @property
    def last_words(self) -> str:
        """What it wrote to its standard error, the end of it."""
        return self._said.read_text(errors="replace")[-2000:]

    @property
    def _said(self) -> Path:
        return Path(self.orders.evidence) / f"{self.orders.name}.err"

    def kill(self) -> None:
        """Kill it, stopped or not."""
        self.process.kill()
        self.process.wait()

    def resume(self) -> None:
        """Continue it."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """Tell it to finish, and return its exit status."""
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Return its exit status; one that does not end shows its stacks, and is killed."""
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            try:
                return self.process.wait(0.5)
            except subprocess.TimeoutExpired:
                if self.stopped:  # it had its orders: nobody is left to overtake it
                    self.resume()
        self.hung = True
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        self.kill()
        return -signal.SIGKILL


class Fleet:
    """Starts lives, and leaves none behind."""

    def __init__(self, database: str, state: Path, evidence: Path) -> None:
        self._database, self._state = database, state
        self._evidence = evidence
        self._lives: list[Life] = []
        self._count = 0

    def start(self, slot: int, role: Role, plan: Plan | None = None, *, lanes: int = 4) -> Life:
        """Start a worker."""
        self._count += 1
        orders = Orders(
            database=self._database,
            state=str(self._state),
            evidence=str(self._evidence),
            slot=slot,
            life=self._count,
            role=role,
            lanes=lanes,
            plan=plan,
        )
        command = [sys.executable, "-m", "tests.soak.worker", msgspec.json.encode(orders).decode()]
        with (self._evidence / f"{orders.name}.err").open("ab") as writer:
            life = Life(orders, subprocess.Popen(command, cwd=ROOT, stdout=writer, stderr=writer))
        self._lives = [life for life in self._lives if life.status is None] + [life]
        return life

    def kill(self) -> None:
        """Kill whoever lives."""
        for life in self._lives:
            life.kill()
