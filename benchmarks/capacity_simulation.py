"""A simulation of runs that queue for processes, cores and the disk: without a database.

Runs arrive at random.  Each is accepted by one of some servers, and driven by one of some workers;
each of these has one thread.  All of them and the sessions of Postgres share the cores.  A commit
waits for the disk, and one sync serves all commits that wait when it begins.  What each step costs
is a measured coefficient; everything else follows.  The same seed gives the same result.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

SLICES = 8
"""Steps of a run in its worker; between them it waits for Postgres."""
ENOUGH = 0.9
"""Of the offered runs, so many must end in time: below this, the load is beyond the knee."""
STEP = 1.05
"""How much more is offered in each try that looks for the knee."""


@dataclass(frozen=True)
class ServiceTimes:
    """What a run costs: CPU in milliseconds, the time of a sync, and its commits in the worker."""

    accept: float
    worker: float
    postgres: float
    sync: float
    commits: int


@dataclass(frozen=True)
class Machine:
    """Processes that accept runs, workers, and the cores that they share with Postgres."""

    servers: int
    workers: int
    cores: int
    speed: float = 1.0
    """The share of each core that other programs leave."""


@dataclass(frozen=True)
class SimulatedLoad:
    """What became of the runs that were offered."""

    achieved: float
    """Runs per second that ended, as a share of those that were offered."""
    start_p50_ms: float
    start_p99_ms: float
    longest_queue: int
    """The most runs that were accepted and had not ended."""


def arrivals(load: float, seconds: float, seed: int) -> list[float]:
    """Return the times at which runs come, in seconds: at random, so many each second."""
    source, times = random.Random(seed), list[float]()
    now = 0.0
    while (now := now + source.expovariate(load)) < seconds:
        times.append(now)
    return times


def simulate(
    times: ServiceTimes, machine: Machine, load: float, *, seconds: float = 5.0, seed: int = 18
) -> SimulatedLoad:
    """Offer runs for some seconds, and let all of them end."""
    simulation = _Simulation(times, machine)
    offered = arrivals(load, seconds, seed)
    for moment in offered:
        simulation.at(moment, simulation.accept)
    simulation.work()
    starts = sorted(simulation.starts)
    return SimulatedLoad(
        achieved=min(1.0, seconds / simulation.now),
        start_p50_ms=1000 * starts[len(starts) // 2],
        start_p99_ms=1000 * starts[int(0.99 * len(starts))],
        longest_queue=simulation.longest_queue,
    )


def find_knee(times: ServiceTimes, machine: Machine, *, seconds: float = 5.0) -> float:
    """Return the load, in runs per second, beyond which fewer runs end than are offered."""
    # No more can be done than by the cores, or by the threads of servers or workers alone.
    busiest = max(
        times.accept / machine.servers,
        times.worker / machine.workers,
        (times.accept + times.worker + times.postgres) / machine.cores,
    )
    load = 0.8 * machine.speed * 1000 / busiest
    while simulate(times, machine, load, seconds=seconds).achieved >= ENOUGH:
        load *= STEP
    return load / STEP


Step = Callable[[], None]


class _Process:
    """A process with one thread: it does one thing at a time, if a core is free."""

    def __init__(self) -> None:
        self.tasks: deque[tuple[float, Step]] = deque()
        self.is_busy = False
        self.runs = 0


class _Simulation:
    """What happens on a machine, in the order of time."""

    def __init__(self, times: ServiceTimes, machine: Machine) -> None:
        self._times, self._speed = times, machine.speed
        self._free_cores = machine.cores
        self._ready: deque[tuple[float, Step]] = deque()
        self._servers = [_Process() for _ in range(machine.servers)]
        self._workers = [_Process() for _ in range(machine.workers)]
        self._events: list[tuple[float, int, Step]] = []
        self._numbers = count()
        self._unsynced: list[Step] = []
        self._is_syncing = False
        self._open_runs = 0
        self.now = 0.0
        self.longest_queue = 0
        self.starts: list[float] = []

    def at(self, moment: float, step: Step) -> None:
        """Let something happen later."""
        heappush(self._events, (moment, next(self._numbers), step))

    def work(self) -> None:
        """Let everything happen."""
        while self._events:
            self.now, _, step = heappop(self._events)
            step()

    def accept(self) -> None:
        """Take one run in, commit it, and hand it to the worker that has the fewest."""
        arrived = self.now
        database = self._times.postgres / (SLICES + 1)
        server = min(self._servers, key=lambda process: len(process.tasks))

        def hand_over() -> None:
            worker = min(self._workers, key=lambda process: process.runs)
            worker.runs += 1
            self._drive(worker, SLICES, arrived)

        self._open_runs += 1
        self.longest_queue = max(self.longest_queue, self._open_runs)
        commit = lambda: self._sync(hand_over)  # noqa: E731  a step in a chain of steps
        query = lambda: self._take_core(database, commit)  # noqa: E731
        self._run_in(server, self._times.accept, query)

    def _drive(self, worker: _Process, left: int, arrived: float) -> None:
        """Do the remaining steps of a run: each in the worker, then in Postgres."""
        if not left:
            worker.runs -= 1
            self._open_runs -= 1
            return
        is_commit = left <= self._times.commits
        database = self._times.postgres / (SLICES + 1)

        def go_on() -> None:
            self._drive(worker, left - 1, arrived)

        def query() -> None:
            if left == SLICES:
                self.starts.append(self.now - arrived)
            self._take_core(database, lambda: self._sync(go_on) if is_commit else go_on())

        self._run_in(worker, self._times.worker / SLICES, query)

    def _run_in(self, process: _Process, milliseconds: float, then: Step) -> None:
        process.tasks.append((milliseconds, then))
        if not process.is_busy:
            self._next_of(process)

    def _next_of(self, process: _Process) -> None:
        process.is_busy = bool(process.tasks)
        if process.is_busy:
            milliseconds, then = process.tasks.popleft()

            def done() -> None:
                self._next_of(process)
                then()

            self._take_core(milliseconds, done)

    def _take_core(self, milliseconds: float, then: Step) -> None:
        self._ready.append((milliseconds, then))
        self._start_ready()

    def _start_ready(self) -> None:
        while self._free_cores and self._ready:
            milliseconds, then = self._ready.popleft()
            self._free_cores -= 1

            def done(then: Step = then) -> None:
                self._free_cores += 1
                then()
                self._start_ready()

            self.at(self.now + milliseconds / 1000 / self._speed, done)

    def _sync(self, then: Step) -> None:
        self._unsynced.append(then)
        if not self._is_syncing:
            self._begin_sync()

    def _begin_sync(self) -> None:
        self._is_syncing = bool(self._unsynced)
        if self._is_syncing:
            group, self._unsynced = self._unsynced, []

            def done() -> None:
                for then in group:
                    then()
                self._begin_sync()

            self.at(self.now + self._times.sync / 1000, done)
