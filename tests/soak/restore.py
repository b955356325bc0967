"""Putting an older copy of the database back: whatever grows on it, it is never signed.

A restored database has forgotten entries that a signed checkpoint covers.  It may grow again, and
past the size that was signed; the signer remembers what it signed outside the database, and
refuses.  With the newer database back in place it goes on.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.audit import Audit, Evidence, Signed, open_note
from tests.soak.bench import Bench, open_bench
from tests.soak.fleet import Fleet, Life
from tests.soak.orders import ROLLED_BACK, Role

WAIT_SECONDS = 60.0


class Unreached(Exception):
    """The workers did not come to where the history was to go on; their last words."""


@dataclass
class Restoration:
    """The history of one database, of which a part is taken back."""

    bench: Bench
    folder: Path
    violations: list[str] = field(default_factory=list)
    refusals: int = 0

    def __post_init__(self) -> None:
        self.state = self.folder / "state"
        self.state.mkdir()
        # What is written on the restored copy is another history: its evidence stands apart.
        self.evidence = self._evidence("evidence")
        self.branch = self._evidence("branch")

    def run(self) -> None:
        """Go through the history."""
        with_keepers = {0: Role.KEEPER, 1: Role.ROGUE}
        self._work(self.evidence, with_keepers, lambda: self._signed().size >= 500)
        copied = self._entries()
        older, newer = self.folder / "older", self.folder / "newer"
        self.bench.copy(older)
        self._work(self.evidence, with_keepers, lambda: self._signed().size >= copied + 1000)
        self.bench.copy(newer)
        signed, kept = self._signed(), self._guard()
        self.bench.put_back(older)
        # At once: even with all its entries sequenced, the tree is smaller than the signed one.
        self._refuse(lanes=0)
        # Grown again, past what was signed: larger, and another tree.
        self._work(self.branch, {0: Role.GROWER}, lambda: self._head() > signed.size + 500)
        self._refuse(lanes=1)
        self._expect(self._guard() == kept, "the signer's memory has changed")
        self.branch.read()
        self._expect(not self.branch.notes, "something was signed over a restored database")
        self.bench.put_back(newer)
        self._close(lambda: self._signed().size > signed.size + 500)

    def _evidence(self, name: str) -> Evidence:
        (self.folder / name).mkdir()
        return Evidence(self.folder / name, self.state)

    def _expect(self, holds: bool, what: str) -> None:  # noqa: FBT001  the verdict is the subject
        if not holds:
            self.violations.append(what)

    def _work(self, evidence: Evidence, roles: dict[int, Role], done: Callable[[], bool]) -> None:
        """Run workers until something is reached, then kill them all."""
        fleet = self._fleet(evidence)
        try:
            lives = [fleet.start(slot, role) for slot, role in roles.items()]
            self._wait(lives, done)
        finally:
            fleet.kill()
        evidence.read()

    def _wait(self, lives: list[Life], done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not done():
            ended = [life.last_words for life in lives if life.status is not None]
            if ended or time.monotonic() > deadline:
                raise Unreached(*ended)
            time.sleep(0.05)

    def _refuse(self, lanes: int) -> None:
        """Start signers of both sorts over the restored database: each must refuse and end."""
        fleet = self._fleet(self.branch)
        try:
            lives = [
                fleet.start(slot, role, lanes=lanes)
                for slot, role in ((2, Role.KEEPER), (3, Role.ROGUE))
            ]
            for life in lives:
                refused = life.wait() == ROLLED_BACK
                self.refusals += refused
                self._expect(refused, f"{life.orders.role} did not refuse: {life.last_words}")
        finally:
            fleet.kill()

    def _fleet(self, evidence: Evidence) -> Fleet:
        return Fleet(self.bench.address, self.state, evidence.folder)

    def _close(self, done: Callable[[], bool]) -> None:
        """Go on with the newer database, let a keeper bring the log to its end, and check it."""
        fleet = self._fleet(self.evidence)
        try:
            life = fleet.start(0, Role.KEEPER)
            self._wait([life], done)
            self._expect(life.end() == 0, f"the last keeper did not end well: {life.last_words}")
        finally:
            fleet.kill()
        self.evidence.read()
        with self.bench.reader() as reader:
            audit = Audit(reader, self.evidence)
            audit.run()
        self.violations += audit.violations

    def _guard(self) -> bytes:
        try:
            return (self.state / "guard").read_bytes()
        except FileNotFoundError:
            return b""

    def _signed(self) -> Signed:
        guard = self._guard()
        return open_note(guard) if guard else Signed(0, b"")

    def _head(self) -> int:
        with self.bench.reader() as reader:
            return reader.head().size

    def _entries(self) -> int:
        with self.bench.reader() as reader:
            return reader.head().size + sum(1 for _ in reader.unsequenced_entries())


def restore_an_older_database(database: str) -> dict[str, Any]:
    """Take a database back in time, and return what its signers did."""
    with (
        tempfile.TemporaryDirectory(prefix="forum-restore-") as name,
        open_bench(database, Path(name)) as bench,
    ):
        restoration = Restoration(bench, Path(name))
        try:
            restoration.run()
        except Unreached as error:
            restoration.violations.append(repr(error))
        return {
            "ok": not restoration.violations,
            "refusals": restoration.refusals,
            "violations": restoration.violations,
        }
