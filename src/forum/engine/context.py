"""Read a run from the ledger: its request, policy, plan, state and bodies.

Everything here follows from recorded entries, so every worker reads the same.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from forum.errors import BodyGone, NoSuchEntry, NoSuchRun, RunNotDriven
from forum.ledger.body import BytesContent, Content, StoredBody
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, MAX_PARENTS, Entry, Facts
from forum.ledger.kinds import JoinFacts
from forum.ledger.log import Ledger, check_body, read_strand_entries, stored_body
from forum.ledger.ports import Position
from forum.ledger.strand import Draft, RecordedEntry, Strand
from forum.runs.kinds import AboutFacts, AcceptedFacts, Basis, PlanFacts, RouteFacts
from forum.runs.plan import Plan, RolePlan, read_plan
from forum.runs.policy import Policy, read_policy
from forum.runs.run_fold import Run, fold
from forum.tlog import Hash

T = TypeVar("T")

ENGINE = "engine"
"""The actor of entries that the engine itself writes."""

_MANY_STRANDS = 4
"""From so many strands on, their ends are looked at before those with news are read."""

MAX_OWN_TASKS = 100
"""The size of a plan up to which the worker that drives the run drives all of its tasks.

A shared task costs some statements more, and the driver reads what its workers have written.
"""


@dataclass(frozen=True, slots=True)
class RunInput:
    """An accepted run before it has a plan: its limits, policy and route."""

    run: str
    accepted: AcceptedFacts
    accepted_entry: Hash
    begun: int
    policy: Policy
    routed: RouteFacts | None
    cause: Hash
    """The entry that causes the plan or the session: the last one of those that open the run."""

    @property
    def deadline(self) -> int | None:
        """The deadline in microseconds since 1970, or None."""
        return Run(self.accepted, self.begun).deadline

    @property
    def lane(self) -> str:
        """The lane of the request, or an empty string if it was not routed."""
        return self.routed.lane if self.routed else ""

    @property
    def ordered_lane(self) -> str:
        """The lane that the submitter chose, or an empty string."""
        is_ordered = self.routed is not None and self.routed.basis is Basis.GIVEN
        return self.lane if is_ordered and self.lane in self.policy.lanes else ""

    def with_plan(self, plan: Plan, entry: Hash) -> "RunContext":
        """Return the context of the run with this plan, which `entry` records."""
        return RunContext(
            run=self.run,
            accepted=self.accepted,
            accepted_entry=self.accepted_entry,
            begun=self.begun,
            policy=self.policy,
            routed=self.routed,
            cause=self.cause,
            plan=plan,
            plan_entry=entry,
        )


@dataclass(frozen=True, slots=True)
class RunContext(RunInput):
    """An accepted run with its plan."""

    plan: Plan
    plan_entry: Hash

    @property
    def has_shared_tasks(self) -> bool:
        """Whether the plan is so large that all workers share its tasks."""
        return not isinstance(self.plan, RolePlan) and len(self.plan.tasks) > MAX_OWN_TASKS


def read_run_input(ledger: Ledger, run: str) -> RunInput | RunContext:
    """Read an accepted run: a `RunContext` with the current plan if there is one.

    Raises `NoSuchEntry` if no run was accepted under this id.
    """
    accepted = route = about = plan = None
    for recorded in ledger.writer.read_entries(run, MAIN_STRAND):
        match recorded.entry.facts:
            case AcceptedFacts():
                accepted = recorded
            case RouteFacts():
                route = recorded
            case AboutFacts():
                about = recorded
            case PlanFacts():
                plan = recorded  # the last plan counts: approval may have edited the first
            case _:
                pass
    if accepted is None:
        raise NoSuchEntry(f"run {run} has no request")
    bodies = _open_once(ledger, [(accepted, "policy"), *([(plan, "plan")] if plan else [])])
    policy = ledger.writer.derive(accepted, "policy", lambda: read_policy(bodies(0)))
    run_input = RunInput(
        run=run,
        accepted=accepted.entry.facts,
        accepted_entry=accepted.leaf,
        begun=accepted.entry.ts,
        policy=policy,
        routed=route.entry.facts if route else None,
        cause=(about or route or accepted).leaf,
    )
    if plan is None:
        return run_input
    return run_input.with_plan(
        ledger.writer.derive(plan, "plan", lambda: read_plan(bodies(1))), plan.leaf
    )


def _open_once(
    ledger: Ledger, sources: Sequence[tuple[RecordedEntry, str]]
) -> Callable[[int], bytes]:
    """Return a reader of bodies by number, which reads all of them at the first call."""

    @cache
    def bodies() -> list[StoredBody | None]:
        return ledger.store.bodies_at([(position_of(source), name) for source, name in sources])

    def read(number: int) -> bytes:
        source, name = sources[number]
        body = bodies()[number]
        if body is None or name not in source.entry.bodies:
            raise BodyGone(str(position_of(source)), name)
        check_body(source.entry, name, body)
        return b"".join(body.read())

    return read


async def read_remembered(ledger: Ledger, run: str, read: Callable[[], T]) -> T:
    """Read what the entries of a run say: in a thread, unless the run is remembered.

    Only for strands that are remembered with their run, and not for bodies: reading from the store
    would block the event loop.
    """
    if ledger.writer.remembers(run):
        return read()
    return await asyncio.to_thread(read)


def read_run_context(ledger: Ledger, run: str) -> RunContext:
    """Read an accepted run with its current plan.  Raises `NoSuchEntry` if it has none."""
    case = read_run_input(ledger, run)
    if not isinstance(case, RunContext):
        raise NoSuchEntry(f"run {run} has no plan yet")
    return case


def submitter_of(ledger: Ledger, run: str) -> str:
    """Return the actor that submitted a run.

    For a child run, that is the actor that submitted the outermost parent.
    """
    return _outermost(ledger, run).actor


def outermost_run(ledger: Ledger, run: str) -> str:
    """Return the run that was submitted: the outermost parent of a child run."""
    return _outermost(ledger, run).run


def _outermost(ledger: Ledger, run: str) -> Entry[Any]:
    """Return the entry by which the outermost parent of a run was accepted."""
    for _, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if isinstance(entry.facts, AcceptedFacts):
            parent = entry.facts.parent_run
            return _outermost(ledger, parent) if parent else entry
    raise NoSuchEntry(f"run {run} has no request")


def read_request(ledger: Ledger, run: str, most: int | None = None) -> bytes:
    """Return the request, or its first `most` bytes."""
    for _, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if isinstance(entry.facts, AcceptedFacts):
            return read_body(ledger, Position(run, MAIN_STRAND, entry.n), "request", most)
    raise NoSuchEntry(f"run {run} has no request")


def read_run(ledger: Ledger, run: str) -> Run:
    """Return the state of a run, folded from all its strands."""
    # Sorted, so that the order of tasks in the state does not depend on the store.
    return fold_new_entries(ledger, run, Run(), sorted(ledger.writer.strands(run)))


def is_driven(ledger: Ledger, run: str) -> bool:
    """Return whether the engine drives a run; others are recorded by programs outside of it."""
    (data,) = ledger.store.entries_at(run, [(MAIN_STRAND, 1)])
    return data is not None and isinstance(ledger.kinds.read(data).facts, AcceptedFacts)


def missing_request_error(ledger: Ledger, run: str) -> NoSuchRun | RunNotDriven:
    """Return the error for a run without a request: it is not there, or not driven by Forum."""
    is_run = run != LOG_RUN and ledger.store.strands(run)
    return RunNotDriven(run) if is_run else NoSuchRun(run)


def read_last_facts(ledger: Ledger, run: str) -> Facts | None:
    """Return the facts of the last entry of `main`, or None if the run does not exist."""
    last = ledger.writer.last_entry(run, MAIN_STRAND)
    return last.entry.facts if last else None


def fold_new_entries(ledger: Ledger, run: str, state: Run, strands: Iterable[str]) -> Run:
    """Return the state with the new entries of some strands folded into it."""
    fresh = [
        pair
        for strand in _with_new_entries(ledger, run, state, tuple(strands))
        for pair in read_strand_entries(ledger, run, strand, state.lengths.get(strand, 0))
    ]
    return fold(fresh, state) if fresh else state


def _with_new_entries(
    ledger: Ledger, run: str, state: Run, strands: Sequence[str]
) -> Sequence[str]:
    """Return the strands that have new entries, where looking costs less than reading them all."""
    if len(strands) < _MANY_STRANDS or ledger.writer.remembers(run):
        return strands
    ends = ledger.writer.last_entries(run, strands)
    return [
        strand
        for strand, last in zip(strands, ends, strict=True)
        if last is not None and last.entry.n >= state.lengths.get(strand, 0)
    ]


def read_body(ledger: Ledger, position: Position, name: str, most: int | None = None) -> bytes:
    """Return a body, or its first `most` bytes.  Raises `BodyGone` when it was erased."""
    body = open_body(ledger, position, name).body
    if most is None:
        return b"".join(body.read())
    return read_prefix(body.read(), most)


def read_prefix(chunks: Iterable[bytes], most: int) -> bytes:
    """Return the first `most` bytes, reading no more chunks than needed."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= most:
            break
    return head[:most]


@dataclass(frozen=True, slots=True)
class StoredContent:
    """A body that is stored in the ledger, as content that is read in chunks."""

    size: int
    body: StoredBody

    def chunks(self) -> Iterator[bytes]:
        """Read the body in chunks."""
        return iter(self.body.read())


@dataclass(frozen=True, slots=True)
class JoinedContent:
    """The concatenation of several contents; without any, one empty chunk."""

    parts: tuple[Content, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(part.size for part in self.parts)

    def chunks(self) -> Iterator[bytes]:
        """Read all parts in chunks, one part after another."""
        for part in self.parts or (BytesContent(b""),):
            yield from part.chunks()


def open_body(ledger: Ledger, position: Position, name: str) -> StoredContent:
    """Return a body that its entry commits to.  Raises `BodyGone` if it is absent or erased."""
    _, entry = next(read_strand_entries(ledger, position.run, position.strand, position.n))
    body = stored_body(ledger.store, entry, name) if name in entry.bodies else None
    if body is None:
        raise BodyGone(str(position), name)
    return StoredContent(entry.bodies[name].size, body)


async def join_causes(
    strand: Strand,
    causes: Sequence[Hash],
    place: str = "join",
    recorded: Mapping[str, Hash] | None = None,
) -> tuple[Hash, ...]:
    """Return at most `MAX_PARENTS` entries that stand for these causes, recording joins if needed.

    A join is an entry that names sixteen causes and takes their place.  A caller whose strand was
    opened at its end cannot replay earlier joins, and passes them as `recorded`, by step.
    """
    left, number = list(dict.fromkeys(causes)), 0
    while len(left) > MAX_PARENTS:
        number += 1
        step, named = f"{place}/{number}", tuple(left[:MAX_PARENTS])
        joint = (recorded or {}).get(step)
        if joint is None:
            entry = strand.replay_step(step)
            if entry is None:
                (entry,) = await strand.append_exclusive_async(
                    Draft(step, ENGINE, JoinFacts(), named)
                )
            joint = entry.leaf
        left = [*left[MAX_PARENTS:], joint]
    return tuple(left)


def leaves_by_step(ledger: Ledger, run: str, strand: str) -> dict[str, Hash]:
    """Return the leaf hashes of a strand's entries, by step."""
    return {entry.step: leaf for leaf, entry in read_strand_entries(ledger, run, strand)}


def position_of(recorded: RecordedEntry) -> Position:
    """Return the position of an entry."""
    return Position(recorded.entry.run, recorded.entry.strand, recorded.entry.n)
