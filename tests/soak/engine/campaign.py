"""One soak of the engine: runs of every shape, while their workers die at every boundary."""

import signal
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random

from forum.app import Forum
from tests.soak.engine.bench import Bench
from tests.soak.engine.evidence import Evidence
from tests.soak.engine.fleet import Fleet, Life
from tests.soak.engine.orders import ELSEWHERE, IF_FOUND, Moment, Plan, Point, Word
from tests.soak.engine.requests import Requests
from tests.soak.engine.takeover import Death, Storm

WORKERS = 3
TICK_SECONDS = 0.02
REPORT_SECONDS = 10.0
IN_FLIGHT = 16
"""How many runs there are at once, at least, as long as there are runs to begin."""
TRAP_SECONDS = 5.0
"""How long a trap may wait for its boundary; then another one is set."""
GRACE_SECONDS = 0.5
"""How long workers live in peace after one of them died."""
ZOMBIE_SECONDS = 4.5
"""How long a worker is stopped: longer than its lease."""
HAUNT_SECONDS = 1.5
"""How long it lives on afterwards, at least."""
SPARE_SECONDS = 12.0
"""For how long one and the same worker is left alive."""
SETTLED_SECONDS = 3.0
"""How long after a storm it may still be felt."""
STALL_SECONDS = 90.0
"""After how long without any news the rest is given up."""
MAX_SECONDS = 900.0

ZOMBIE_POINTS = (
    Point.MODEL,
    Point.CALL,
    Point.VERDICT,
    Point.DRIVE_TASK,
    Point.DRIVE_RUN,
    Point.CHECKPOINT,
    Point.HOLD_LEASE,
    Point.ENQUEUE_TASKS,
)
PLACES = tuple(
    Plan(point, moment)
    for point in Point
    for moment in (Moment.BEFORE, Moment.AFTER)
    if moment is Moment.AFTER or point not in IF_FOUND
)
HEIR_POINTS = frozenset({Point.LOST_WORKERS, Point.TAKE_OVER})
CHANCE = 0.05
"""How often a worker is killed wherever it is."""
BY_CHANCE = "anywhere"


@dataclass(frozen=True)
class Goals:
    """What has to be reached before a soak may end: all of these."""

    runs: int
    kills: int
    zombies: int
    server_faults: int
    """How often something happens to the server of the database, each of its faults in turn."""
    amnesias: int = 1
    """How often DBOS forgets everything."""
    first: tuple[Plan, ...] = ()
    """Where workers die first."""
    everywhere: bool = True
    """Whether a worker has to die at every place."""
    runner: str = "claims"
    """How workers find runs."""


class Zombie:
    """A worker that is stopped, and continued when others have taken over."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.stopped = time.monotonic_ns()
        self.resumed: int | None = None
        # By a thread of its own: whoever is stopped may hold the lock that its parent waits for.
        threading.Timer(ZOMBIE_SECONDS, self._resume).start()

    def _resume(self) -> None:
        self.life.signal(signal.SIGCONT)
        self.resumed = time.monotonic_ns()


@dataclass
class SetTrap:
    """A trap that waits for somebody."""

    plan: Plan
    spared: Life | None
    told: set[str] = field(default_factory=set)
    since: float = field(default_factory=time.monotonic)


@dataclass
class Tally:
    """What was done to the workers."""

    kills: Counter[str] = field(default_factory=Counter)
    zombies: int = 0
    server_faults: Counter[str] = field(default_factory=Counter)
    amnesias: int = 0


class Campaign:
    """Crashes workers until the goals are reached, then lets the living finish."""

    def __init__(self, bench: Bench, forum: Forum, goals: Goals, seed: int) -> None:
        self._bench, self._goals = bench, goals
        self._random = Random(f"{bench.name}/{seed}")
        self.requests = Requests(forum, f"{bench.name}/{seed}")
        self.evidence = Evidence(bench.folder / "evidence")
        self.tally = Tally()
        self.deaths: list[Death] = []
        self.violations = self.requests.violations
        self._fleet = Fleet(bench.folder, bench.database, goals.runner)
        elsewhere = ELSEWHERE[goals.runner]
        self._places = [plan for plan in PLACES if plan.point not in elsewhere]
        self._zombie_points = [point for point in ZOMBIE_POINTS if point not in elsewhere]
        self._serving: list[Life] = []
        self._zombies: list[Zombie] = []
        self._killed: set[str] = set()
        self._plans = deque(goals.first)
        self._token = bench.folder / "token"
        self._trap: SetTrap | None = None
        self._begun = self._reported = time.monotonic()
        self._peace_until = self._spared_until = 0.0
        self._spared: Life | None = None
        self.storms: list[Storm] = []

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._begun

    @property
    def kills(self) -> int:
        """How many workers were killed."""
        return self.tally.kills.total()

    @property
    def missed(self) -> list[str]:
        """The places at which nobody has died."""
        return sorted({str(plan) for plan in self._places} - self.tally.kills.keys())

    @property
    def troubles(self) -> dict[str, int]:
        """What workers met with and tried again, by kind."""
        return dict(Counter(event.details[0] for event in self.evidence.all("trouble")))

    def run(self) -> None:
        """Crash workers until the goals are reached, then let the living finish."""
        try:
            self._serving = [self._fleet.start() for _ in range(WORKERS)]
            while not self._reached() and not self.violations:
                self._tick()
            self._disarm()
            while self.requests.left and not self.violations:
                self._tick()
            self._finish()
        finally:
            self._fleet.kill()
        self.evidence.read()

    # One look around

    def _tick(self) -> None:
        time.sleep(TICK_SECONDS)
        self.evidence.read()
        for life in list(self._serving):
            self._look_after(life)
        for zombie in list(self._zombies):
            self._haunt(zombie)
        self.requests.look()
        if not self._reached():
            self._begin_runs()
            self._plot()
        self._watch()

    def _reached(self) -> bool:
        goals, tally = self._goals, self.tally
        return (
            self.kills >= goals.kills
            and len(self.requests.asked) >= goals.runs
            and tally.zombies >= goals.zombies
            and tally.server_faults.total() >= self._wanted_faults
            and tally.amnesias >= goals.amnesias
            and not self._zombies
            and not (goals.everywhere and self.missed)
        )

    def _look_after(self, life: Life) -> None:
        if life.status is not None:
            self._bury(life)
            self._replace(life)
        elif life.stopped and not any(zombie.life is life for zombie in self._zombies):
            self._zombies.append(Zombie(life))
            self._note_death(life, "stops")
            self._spread_peace()

    def _bury(self, life: Life) -> None:
        self.evidence.read()
        died = self.evidence.last(life.name, "dies")
        if life.status == -signal.SIGKILL and died is not None:
            self.tally.kills[died.details[0]] += 1
            self._note_death(life, "dies")
            self._spread_peace()
        elif life.name not in self._killed and not self._is_stillborn(life):
            self.violations.append(
                f"worker {life.name} ended by itself with status {life.status}: {life.last_words}"
            )

    def _is_stillborn(self, life: Life) -> bool:
        """Tell whether it could not begin, because there was no server just then."""
        recently = self.storms and time.monotonic_ns() - self.storms[-1][1] < 7e9
        return bool(recently) and not self.evidence.is_up(life.name)

    def _replace(self, life: Life) -> None:
        life.kill()
        self._serving.remove(life)
        self._zombies = [zombie for zombie in self._zombies if zombie.life is not life]
        self._serving.append(self._fleet.start())

    def _kill(self, life: Life, how: str) -> None:
        life.kill()
        self._killed.add(life.name)
        self.tally.kills[how] += 1
        self.deaths.append(Death(life.name, time.monotonic_ns(), how))

    def _note_death(self, life: Life, what: str) -> None:
        event = self.evidence.last(life.name, what)
        if event is not None:
            self.deaths.append(Death(life.name, event.at, event.details[0]))

    def _up(self) -> list[Life]:
        """Return the workers that are at work."""
        away = {zombie.life.name for zombie in self._zombies}
        return [
            life
            for life in self._serving
            if life.status is None and life.name not in away and self.evidence.is_up(life.name)
        ]

    def _haunt(self, zombie: Zombie) -> None:
        """Forget about a zombie some time after it was continued."""
        if zombie.resumed is None or time.monotonic_ns() - zombie.resumed < HAUNT_SECONDS * 1e9:
            return
        self._zombies.remove(zombie)
        self.tally.zombies += 1
        if self._bench.one_writer:
            self.storms.append((zombie.stopped, zombie.resumed))

    # What is done to workers

    def _plot(self) -> None:
        """Set traps one after the other; one disaster at a time."""
        if self._trap is not None:
            if not self._token.exists():
                self._trap = None  # somebody took it; whoever looks after them will see
            elif time.monotonic() - self._trap.since > TRAP_SECONDS:
                self._plans.append(self._trap.plan)
                self._disarm()
            else:
                self._arm(self._trap)
        elif time.monotonic() > self._peace_until and len(self._up()) > 1:
            self._strike()

    def _strike(self) -> None:
        if self._due_for_disaster():
            return
        plan, lives = self._next_plan(), self._up()
        if plan is None:
            self._kill_any(lives)
            self._spread_peace()
        elif plan.point in HEIR_POINTS and len(lives) < WORKERS:
            self._plans.append(plan)  # there must be somebody to inherit from, and a second heir
        else:
            self._set_trap(plan, lives)

    def _set_trap(self, plan: Plan, lives: list[Life]) -> None:
        """Let the next one who comes to a place end there; the token sees to it that one does."""
        self._token.touch()
        inherits = plan.point in HEIR_POINTS
        self._trap = SetTrap(plan, None if inherits else self._spare(lives))
        self._arm(self._trap)
        if inherits:
            self._kill_any(lives)

    def _arm(self, trap: SetTrap) -> None:
        """Tell everybody who does not know it yet."""
        for life in self._up():
            if life is not trap.spared and life.name not in trap.told:
                trap.told.add(life.name)
                life.say(Word(trap.plan, str(self._token)))

    def _kill_any(self, lives: list[Life]) -> None:
        spared = self._spare(lives)
        self._kill(self._random.choice([life for life in lives if life is not spared]), BY_CHANCE)

    def _spare(self, lives: list[Life]) -> Life:
        """Return who must not die now, in turn: somebody has to be there to take over."""
        if self._spared not in lives or time.monotonic() > self._spared_until:
            others = [life for life in lives if life is not self._spared]
            self._spared, self._spared_until = others[0], time.monotonic() + SPARE_SECONDS
        return self._spared

    def _disarm(self) -> None:
        self._token.unlink(missing_ok=True)
        self._trap = None

    def _spread_peace(self) -> None:
        self._disarm()
        self._peace_until = time.monotonic() + GRACE_SECONDS

    def _next_plan(self) -> Plan | None:
        """Return the next place to die at; now and then none: to be killed from outside."""
        if not self._plans:
            self._plans.extend(self._wanted())
        if not self._plans or self._random.random() < CHANCE:
            return None
        return self._plans.popleft()

    def _wanted(self) -> list[Plan]:
        """Return every boundary at which nobody has died, and the places to be stopped at."""
        plans = [plan for plan in self._places if str(plan) not in self.tally.kills]
        self._random.shuffle(plans)
        missing = range(self.tally.zombies, self._goals.zombies)
        distance = 1 + len(plans) // (1 + len(missing))
        for place, number in enumerate(missing, 1):
            point = self._zombie_points[number % len(self._zombie_points)]
            stop = Plan(point, Moment.STOP)
            plans.insert(place * distance - 1, stop)
        return plans

    def _due_for_disaster(self) -> bool:
        """Let something happen to the server, or let DBOS forget everything, at even distances."""
        goals, tally = self._goals, self.tally
        share = self.kills / goals.kills
        wanted, number = self._wanted_faults, tally.server_faults.total()
        if number < wanted and share >= (number + 1) / (wanted + 1):
            self._strike_server()
            return True
        if tally.amnesias < goals.amnesias and share >= 0.6:
            self._forget()
            return True
        return False

    @property
    def _wanted_faults(self) -> int:
        return self._goals.server_faults if self._bench.can_crash else 0

    def _strike_server(self) -> None:
        begun = time.monotonic_ns()
        fault = self._bench.strike()
        self._storm_since(begun)
        self.tally.server_faults[fault] += 1
        say(f"{self._bench.name}: the server was {fault}")
        self._spread_peace()

    def _forget(self) -> None:
        """Kill everybody, and delete all that DBOS remembers: the ledger knows enough."""
        begun = time.monotonic_ns()
        for life in self._serving:
            self._kill(life, BY_CHANCE)
        self._bench.forget()
        self._zombies.clear()
        self._serving = [self._fleet.start() for _ in range(WORKERS)]
        self.tally.amnesias += 1
        self._storm_since(begun)
        say(f"{self._bench.name}: all workers were killed, and the queues deleted")

    def _storm_since(self, begun: int) -> None:
        self.storms.append((begun, time.monotonic_ns() + int(1e9 * SETTLED_SECONDS)))

    # Runs, and their end

    def _begin_runs(self) -> None:
        """Begin runs in step with the deaths of workers, and never let them have nothing to do."""
        due = self._goals.runs * min(1.0, self.kills / self._goals.kills)
        asked = len(self.requests.asked)
        for _ in range(max(IN_FLIGHT - len(self.requests.left), round(due) - asked)):
            self.requests.begin()

    def _watch(self) -> None:
        """Tell how it goes; where it does not go on any more, that is a violation too."""
        now, left = time.monotonic(), self.requests.left
        if now - self.requests.news > STALL_SECONDS:
            self.violations.append(f"no run has ended for {STALL_SECONDS} s; left: {left}")
        if self.seconds > MAX_SECONDS:
            self.violations.append(f"not done after {MAX_SECONDS} s; missed: {self.missed}")
        if now - self._reported > REPORT_SECONDS:
            self._reported = now
            say(
                f"{self._bench.name} {self.seconds:.0f} s: {self.kills} killed, "
                f"{self.tally.zombies} zombies, {len(self.requests.asked)} runs begun, "
                f"{len(left)} going on, {len(self._up())} workers up, {len(self.missed)} places "
                f"to go: {', '.join(self.missed[:5])}"
            )

    def _finish(self) -> None:
        for life in self._serving:
            status = life.end()
            if status != 0:
                self.violations.append(
                    f"worker {life.name} ended with status {status}: {life.last_words}"
                )


def say(what: str) -> None:
    """Tell on the standard error how it goes."""
    print(what, file=sys.stderr, flush=True)
