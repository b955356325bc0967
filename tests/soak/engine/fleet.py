"""The workers of one soak, as processes: kept ready, set to work, stopped, continued, killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from tests.soak.engine.orders import Orders, Word

ROOT = Path(__file__).parents[3]
END_SECONDS = 60.0


class Life:
    """One process."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.born = time.monotonic()
        command = [sys.executable, "-m", "tests.soak.engine.worker"]
        with orders.words.open("ab") as writer:
            self.process = subprocess.Popen(
                [*command, msgspec.json.encode(orders).decode()],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=writer,
                stderr=writer,
            )

    @property
    def name(self) -> str:
        """Its name in files."""
        return self.orders.name

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
        return self.orders.words.read_text(errors="replace")[-3000:]

    def say(self, word: Word) -> None:
        """Let it take part in the work, and tell it where to end its life."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has just died: whoever looks after it will see
            self.process.stdin.write(msgspec.json.encode(word) + b"\n")
            self.process.stdin.flush()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it, stopped or not, and let go of it."""
        self.process.kill()
        self._let_go()
        self.process.wait()

    def end(self) -> int:
        """Let it finish; one that does not end shows its stacks, and is killed."""
        self._let_go()
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGUSR1)
            time.sleep(0.5)
            self.kill()
            return -signal.SIGKILL

    def _let_go(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()


class Fleet:
    """Keeps one life in reserve, and leaves none behind."""

    def __init__(self, folder: Path, database: str | None, runner: str) -> None:
        self._folder, self._database = folder, database
        self._runner = runner
        self._lives: list[Life] = []
        self._count = 0
        self._reserve = self._bear()

    def start(self) -> Life:
        """Set a worker to work that has everything loaded, or soon will have."""
        life, self._reserve = self._reserve, self._bear()
        life.say(Word())
        return life

    def kill(self) -> None:
        """Kill whoever lives."""
        for life in self._lives:
            life.kill()

    def _bear(self) -> Life:
        self._count += 1
        life = Life(Orders(str(self._folder), self._database, f"{self._count:03}", self._runner))
        self._lives = [life for life in self._lives if life.status is None] + [life]
        return life
