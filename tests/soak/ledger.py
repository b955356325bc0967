"""Kill and restart the writers of one ledger, again and again: nothing acknowledged may be lost.

    python -m tests.soak.ledger [--database sqlite|postgres|both] [--crashes N] [--entries N]
                                [--seconds S] [--json]

Several processes write one log, and several sequence and sign it, all at once.  They are killed
before and after each effect of each port, and at random; the database server is stopped under
them; a writer is stopped in the middle of an append, overtaken, and continued.  At the end the
parent holds what it was told against what is stored (tests/soak/audit.py), then puts an older
copy of the database back and sees that nothing is signed over it (tests/soak/restore.py).
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from forum.ledger.sequencer import Sequencer
from tests.soak.audit import Audit, Evidence, leaf_of, parse_position
from tests.soak.bench import Bench, open_bench
from tests.soak.fleet import Fleet, Life
from tests.soak.orders import SLOTS, Moment, Orders, Plan, Point, Role
from tests.soak.restore import restore_an_older_database
from tests.soak.traps import Traps
from tests.soak.worker import open_store, publisher

DATABASES = ("sqlite", "postgres")
# One for each slot.
ROLES = (Role.KEEPER, Role.ROGUE, Role.KEEPER, Role.ROGUE, Role.WRITER)
LANES = {Role.KEEPER: 4, Role.ROGUE: 1, Role.WRITER: 4}
TICK_SECONDS = 0.03
STALL_SECONDS = 60.0
REPORT_SECONDS = 5.0
SAMPLE_CRASHES = 10
SERVER_CRASHES = 6
TRAP_SECONDS = 10.0
REST_SECONDS = 8.0
ZOMBIE_SECONDS = 0.7

# How many calls of an effect a life may live to see.
CALLS = {
    Point.APPEND: 40,
    Point.WAITING: 8,
    Point.SWAP: 6,
    Point.SAVE_CHECKPOINT: 4,
    Point.ADVANCE: 3,
    Point.COSIGN: 3,
}


@dataclass(frozen=True)
class Goals:
    """What has to be reached before a soak may end: all of these."""

    crashes: int
    entries: int
    seconds: float = 0.0


@dataclass
class Zombie:
    """A stopped writer, and what its successor has to write before it is continued."""

    life: Life
    wanted: dict[tuple[str, str], int]
    resumed: float | None = None


@dataclass
class Tally:
    """Crashes by kind, and by the effect before or after which they came."""

    kinds: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, point: Point | None = None) -> None:
        """Count one crash."""
        self.kinds[kind] += 1
        if point is not None:
            self.points[f"{point}: {kind}"] += 1


class Campaign:
    """One soak of one database."""

    def __init__(self, bench: Bench, folder: Path, goals: Goals, seed: int) -> None:
        self._bench, self._goals = bench, goals
        self._random = Random(f"{bench.name}/{seed}")
        state, evidence = folder / "state", folder / "evidence"
        for made in (state, evidence):
            made.mkdir()
        self.evidence = Evidence(evidence, state)
        self.tally = Tally()
        self._fleet = Fleet(bench.address, state, evidence)
        self._keepers, self._writers = self._keeper_plans(), self._writer_plans()
        self._slots: dict[int, Life] = {}
        self._killed_at: dict[int, float] = {}
        self._zombies: list[Zombie] = []
        self._begun = time.monotonic()
        self._heard = self._reported = self._begun
        self._acks = self._served = 0

    def run(self) -> None:
        """Crash until the goals are reached, then let the living finish."""
        try:
            for slot in range(SLOTS):
                self._start(slot)
            while not self._reached() and not self.evidence.violations:
                time.sleep(TICK_SECONDS)
                self._tick()
            self._finish()
        finally:
            self._fleet.kill()
        self.evidence.read()
        self._close_log()

    @property
    def crashes(self) -> int:
        """How many crashes there were."""
        return self.tally.kinds.total()

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._begun

    def _reached(self) -> bool:
        goals = self._goals
        return (
            self.crashes >= goals.crashes
            and len(self.evidence.acks) >= goals.entries
            and self.seconds >= goals.seconds
            and not self._zombies
        )

    def _tick(self) -> None:
        self.evidence.read()
        for slot in range(SLOTS):
            self._look_after(slot)
        for zombie in self._zombies:
            self._haunt(zombie)
        self._zombies = [zombie for zombie in self._zombies if zombie.life.status is None]
        if self._bench.can_crash and self.crashes >= SERVER_CRASHES * (self._served + 1):
            self._served += 1
            self._bench.crash()
            self._crashed("server stopped at once")
        self._watch()

    def _look_after(self, slot: int) -> None:
        life = self._slots[slot]
        plan = life.orders.plan
        if life.status is not None:
            self._bury(life)
            self._start(slot)
        elif plan is not None and plan.moment is Moment.STOP and life.stopped:
            self._overtake(life)
        elif life.age > self._killed_at[slot]:
            life.kill()
            self._crashed("killed from outside")
            self._start(slot)

    def _bury(self, life: Life) -> None:
        plan = life.orders.plan
        if life.status == -signal.SIGKILL and plan is not None and not life.hung:
            self._crashed(plan.moment, plan.point)
        else:
            self._blame(life)

    def _blame(self, life: Life) -> None:
        self.evidence.violations.append(
            f"worker {life.orders.name} ({life.orders.role}) ended by itself "
            f"with status {life.status}: {life.last_words}"
        )

    def _start(self, slot: int) -> None:
        role = ROLES[slot]
        plan = next(self._writers if role is Role.WRITER else self._keepers)
        haunted = any(zombie.life.orders.slot == slot for zombie in self._zombies)
        if haunted:
            plan = None
        life = self._fleet.start(slot, role, plan, lanes=LANES[role])
        self._slots[slot] = life
        # One without a plan is killed at a random moment, perhaps before it has begun.
        rest = plan.rest + TRAP_SECONDS if plan else self._rest() + self._random.uniform(0.2, 3.0)
        self._killed_at[slot] = rest
        if haunted:
            self._killed_at[slot] = STALL_SECONDS

    def _overtake(self, life: Life) -> None:
        """Let a successor take up the strands of a writer that is stopped, not dead."""
        path = self.evidence.folder / f"{life.orders.name}.stopped"
        wanted: dict[tuple[str, str], int] = {}
        with self._bench.reader() as reader:
            for line in path.read_text().splitlines():
                position, leaf = parse_position(line)
                strand = next(iter(reader.read_strand(*position)), None)
                # It may have been about to repeat a commit that it does not know to have happened.
                if strand is None or leaf_of(strand) != leaf:
                    self.evidence.refused[leaf] = position
                    wanted.setdefault((position.run, position.strand), position.n)
        self._zombies.append(Zombie(life, wanted))
        self._start(life.orders.slot)

    def _haunt(self, zombie: Zombie) -> None:
        """Continue a zombie when its successor is past it, and kill it a little later."""
        heads = self.evidence.heads
        if zombie.resumed is None:
            if all(heads.get(strand, -1) >= n for strand, n in zombie.wanted.items()):
                zombie.life.resume()
                zombie.resumed = time.monotonic()
            elif zombie.life.age > STALL_SECONDS:
                self.evidence.violations.append(f"{zombie.life.orders.name} was not overtaken")
        elif zombie.life.status is not None:
            self._blame(zombie.life)
        elif time.monotonic() - zombie.resumed > ZOMBIE_SECONDS:
            zombie.life.kill()
            self._crashed("stopped, overtaken, continued, killed", Point.APPEND)
            self._killed_at[zombie.life.orders.slot] = 0.0

    def _crashed(self, kind: str, point: Point | None = None) -> None:
        self.tally.add(kind, point)
        if not self.evidence.acks:
            return  # perhaps there is no ledger yet
        with self._bench.reader() as reader:
            self.evidence.collect(reader)
            if self.crashes % SAMPLE_CRASHES == 0:
                self.evidence.sample(reader)

    def _watch(self) -> None:
        """Tell how it goes; where nothing goes any more, that is a violation too."""
        now, acks = time.monotonic(), len(self.evidence.acks)
        if acks > self._acks:
            self._acks, self._heard = acks, now
        elif now - self._heard > STALL_SECONDS:
            self.evidence.violations.append(f"nothing was acknowledged for {STALL_SECONDS} s")
        if now - self._reported > REPORT_SECONDS:
            self._reported = now
            say(f"{self._bench.name} {self.seconds:.0f} s: {self.crashes} crashes, {acks} entries")

    def _finish(self) -> None:
        for life in self._slots.values():
            life.process.terminate()
        for life in self._slots.values():
            # One that was just being born does not know the signal yet; and a plan may still be
            # carried out on the way.
            if life.wait() not in (0, -signal.SIGTERM):
                self._bury(life)

    def _close_log(self) -> None:
        """Sequence and sign what the last of them left."""
        folder = self.evidence.folder
        traps = Traps(
            Orders(
                self._bench.address,
                state=str(self.evidence.state),
                evidence=str(folder),
                slot=0,
                life=0,
                role=Role.WRITER,
            )
        )
        store = traps.store(open_store(self._bench.address))
        Sequencer(store).drain()
        publisher(store, self.evidence.state, traps).publish()
        store.close()
        self.evidence.read()

    def _plan(self, point: Point, moment: Moment) -> Plan:
        return Plan(point, moment, self._random.randint(1, CALLS[point]), self._rest())

    def _rest(self) -> float:
        """Return for how long a worker may work first: crashes and entries keep step."""
        each = self._goals.entries / self._goals.crashes
        if self.crashes * each < len(self.evidence.acks):
            return 0.0
        return self._random.uniform(0.2, 1.0) * min(REST_SECONDS, each / 1000)

    def _keeper_plans(self) -> Iterator[Plan | None]:
        """Go through every effect, before and after it; between them nothing is planned."""
        moments = (Moment.BEFORE, Moment.AFTER)
        while True:
            places: list[tuple[Point, Moment] | None]
            places = [*((point, moment) for point in Point for moment in moments), None, None]
            self._random.shuffle(places)
            for place in places:
                yield self._plan(*place) if place else None

    def _writer_plans(self) -> Iterator[Plan | None]:
        while True:
            yield self._plan(Point.APPEND, Moment.STOP)
            yield self._plan(Point.APPEND, Moment.BEFORE)
            yield None
            yield self._plan(Point.APPEND, Moment.AFTER)


def soak(database: str, goals: Goals, seed: int = 0) -> dict[str, Any]:
    """Soak one database, and return what happened."""
    with (
        tempfile.TemporaryDirectory(prefix="forum-soak-") as name,
        open_bench(database, Path(name)) as bench,
    ):
        campaign = Campaign(bench, Path(name), goals, seed)
        campaign.run()
        ran = campaign.seconds
        say(f"{database}: {campaign.crashes} crashes, checking {len(campaign.evidence.acks)}")
        with bench.reader() as reader:
            audit = Audit(reader, campaign.evidence)
            audit.run()
        return {
            "ok": not audit.violations,
            "crashes": campaign.crashes,
            "crashes by kind": dict(sorted(campaign.tally.kinds.items())),
            "crashes by point": dict(sorted(campaign.tally.points.items())),
            "acknowledged": len(campaign.evidence.acks),
            "lost": audit.lost,
            "doubled": audit.doubled,
            "entries": audit.size,
            "strands": audit.strands,
            "bodies": audit.bodies,
            "zombie entries refused": len(campaign.evidence.refused),
            "checkpoints signed": audit.checkpoints,
            "seconds": round(ran, 1),
            "seconds with the audit": round(campaign.seconds, 1),
            "acknowledged per second": round(len(campaign.evidence.acks) / ran),
            "violations": audit.violations,
        }


def say(what: str) -> None:
    """Tell on the standard error how it goes."""
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Soak, print the summary, and exit with 0 only if everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.ledger", description=__doc__)
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument("--crashes", type=int, default=100, help="at least, over all databases")
    parser.add_argument("--entries", type=int, default=1_000_000, help="acknowledged, likewise")
    parser.add_argument("--seconds", type=float, default=0.0, help="go on for at least as long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one object as the last line")
    asked = parser.parse_args()
    chosen = DATABASES if asked.database == "both" else (asked.database,)
    share = len(chosen)
    goals = Goals(-(-asked.crashes // share), -(-asked.entries // share), asked.seconds / share)
    begun = time.monotonic()
    results = {database: soak(database, goals, asked.seed) for database in chosen}
    restores = {database: restore_an_older_database(database) for database in chosen}
    summary = {
        "ok": all(result["ok"] for result in (*results.values(), *restores.values())),
        **{key: sum(result[key] for result in results.values()) for key in TOTALS},
        "seconds": round(time.monotonic() - begun, 1),
        "databases": results,
        "restored": restores,
    }
    print("\n".join(lines_of(summary)))
    if asked.json:
        print(json.dumps(summary))
    sys.exit(0 if summary["ok"] else 1)


def lines_of(what: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Write a summary for people, one figure to a line."""
    for name, value in what.items():
        if isinstance(value, dict):
            yield f"{indent}{name}"
            yield from lines_of(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{name}: {len(value)}"
            yield from (f"{indent}  {line}" for line in value)
        else:
            yield f"{indent}{name}: {value}"


TOTALS = ("crashes", "acknowledged", "lost", "doubled", "checkpoints signed")

if __name__ == "__main__":
    main()
