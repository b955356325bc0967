"""What everybody who works on a run has to know of it: read once, the same for all."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forum.errors import BodyGone, NoSuchEntry
from forum.ledger import (
    MAIN,
    MAX_PARENTS,
    Bytes,
    Content,
    Draft,
    Facts,
    Join,
    Ledger,
    Position,
    Recorded,
    StoredBody,
    Strand,
    entries_of,
    stored_body,
)
from forum.tlog import Hash
from forum.work import (
    Accepted,
    Plan,
    Planned,
    Policy,
    Routed,
    Run,
    fold,
    read_plan,
    read_policy,
)

ENGINE = "engine"
"""Who writes what nobody else has said."""


@dataclass(frozen=True, slots=True)
class Intake:
    """What was taken on: a request, and how it may be answered."""

    run: str
    accepted: Accepted
    accepted_entry: Hash
    begun: int
    policy: Policy
    routed: Routed | None
    cause: Hash
    """The last entry before the plan: the request, or its route."""

    @property
    def deadline(self) -> int | None:
        """When its time is over, in microseconds since 1970."""
        return Run(self.accepted, self.begun).deadline

    @property
    def lane(self) -> str:
        """The lane that the request belongs to, as far as it is known."""
        return self.routed.lane if self.routed else ""

    def with_plan(self, plan: Plan, entry: Hash) -> "Case":
        """Return the case with this plan."""
        return Case(
            self.run,
            self.accepted,
            self.accepted_entry,
            self.begun,
            self.policy,
            self.routed,
            self.cause,
            plan,
            entry,
        )


@dataclass(frozen=True, slots=True)
class Case(Intake):
    """One run: what was asked for, how it may be done, and the plan."""

    plan: Plan
    plan_entry: Hash


def read_intake(ledger: Ledger, run: str) -> Intake | Case:
    """Read what was recorded when a run was accepted, and the plan that holds now, if any."""
    accepted = route = plan = None
    for leaf, entry in entries_of(ledger, run, MAIN):
        match entry.facts:
            case Accepted():
                accepted = Recorded(leaf, entry)
            case Routed():
                route = Recorded(leaf, entry)
            case Planned():
                plan = Recorded(leaf, entry)  # the last one: an approved plan may have been edited
            case _:
                pass
    if accepted is None:
        raise NoSuchEntry(f"run {run} has no request")
    policy = read_policy(read_body(ledger, position_of(accepted), "policy"))
    intake = Intake(
        run,
        accepted.entry.facts,
        accepted.leaf,
        accepted.entry.ts,
        policy,
        route.entry.facts if route else None,
        (route or accepted).leaf,
    )
    if plan is None:
        return intake
    return intake.with_plan(read_plan(read_body(ledger, position_of(plan), "plan")), plan.leaf)


def read_case(ledger: Ledger, run: str) -> Case:
    """Read what was recorded when a run was accepted, and the plan that holds now."""
    case = read_intake(ledger, run)
    if not isinstance(case, Case):
        raise NoSuchEntry(f"run {run} has no plan yet")
    return case


def submitter_of(ledger: Ledger, run: str) -> str:
    """Return who has submitted a run; of a run within a run, who has submitted the outermost."""
    for _, entry in entries_of(ledger, run, MAIN):
        if isinstance(entry.facts, Accepted):
            parent = entry.facts.parent_run
            return submitter_of(ledger, parent) if parent else entry.actor
    raise NoSuchEntry(f"run {run} has no request")


def read_request(ledger: Ledger, run: str, most: int | None = None) -> bytes:
    """Return what was asked for, or its beginning."""
    for _, entry in entries_of(ledger, run, MAIN):
        if isinstance(entry.facts, Accepted):
            return read_body(ledger, Position(run, MAIN, entry.n), "request", most)
    raise NoSuchEntry(f"run {run} has no request")


def read_run(ledger: Ledger, run: str) -> Run:
    """Fold all that is recorded of a run."""
    return refresh(ledger, run, Run(), sorted(ledger.store.strands(run)))


def last_of(ledger: Ledger, run: str) -> Facts | None:
    """Return what was said last of a run, if anything."""
    last = ledger.store.last(run, MAIN)
    return ledger.kinds.read(last).facts if last else None


def refresh(ledger: Ledger, run: str, state: Run, strands: Iterable[str]) -> Run:
    """Take in what was added to some strands of a run."""
    fresh = [
        told
        for strand in strands
        for told in entries_of(ledger, run, strand, state.lengths.get(strand, 0))
    ]
    return fold(fresh, state) if fresh else state


def read_body(ledger: Ledger, position: Position, name: str, most: int | None = None) -> bytes:
    """Return a body, or its beginning.  Raises `BodyGone` when it was erased."""
    body = stored(ledger, position, name).body
    if most is None:
        return b"".join(body.read())
    return beginning(body.read(), most)


def beginning(chunks: Iterable[bytes], most: int) -> bytes:
    """Return the beginning of a content, reading no more of it than that."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= most:
            break
    return head[:most]


@dataclass(frozen=True, slots=True)
class Stored:
    """A body of the ledger as content."""

    size: int
    body: StoredBody

    def chunks(self) -> Iterator[bytes]:
        """Read it piece by piece."""
        return iter(self.body.read())


@dataclass(frozen=True, slots=True)
class Joined:
    """Contents one after another; none at all is one empty piece, like all that is empty."""

    parts: tuple[Content, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(part.size for part in self.parts)

    def chunks(self) -> Iterator[bytes]:
        """Read them piece by piece."""
        for part in self.parts or (Bytes(b""),):
            yield from part.chunks()


def stored(ledger: Ledger, position: Position, name: str) -> Stored:
    """Return a body that its entry commits to.  Raises `BodyGone` when it was erased."""
    _, entry = next(entries_of(ledger, position.run, position.strand, position.n))
    body = stored_body(ledger.store, entry, name) if name in entry.bodies else None
    if body is None:
        raise BodyGone(str(position), name)
    return Stored(entry.bodies[name].size, body)


async def join(
    strand: Strand,
    causes: Sequence[Hash],
    place: str = "join",
    known: Mapping[str, Hash] | None = None,
) -> tuple[Hash, ...]:
    """Return what stands for these causes: one entry can name sixteen of them.

    Whoever holds no more than the end of the strand tells what it knows of it, by steps.
    """
    left, number = list(dict.fromkeys(causes)), 0
    while len(left) > MAX_PARENTS:
        number += 1
        step, named = f"{place}/{number}", tuple(left[:MAX_PARENTS])
        joint = (known or {}).get(step)
        if joint is None:
            found = strand.recorded(step)
            if found is None:
                (found,) = await strand.claim_async(Draft(step, ENGINE, Join(), named))
            joint = found.leaf
        left = [*left[MAX_PARENTS:], joint]
    return tuple(left)


def steps_in(ledger: Ledger, run: str, strand: str) -> dict[str, Hash]:
    """Return what is recorded in a strand, by its steps."""
    return {entry.step: leaf for leaf, entry in entries_of(ledger, run, strand)}


def position_of(recorded: Recorded) -> Position:
    """Return where an entry stands."""
    return Position(recorded.entry.run, recorded.entry.strand, recorded.entry.n)
