"""What everybody who works on a run has to know of it: read once, the same for all."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forum.errors import BodyGone, NoSuchEntry
from forum.ledger import (
    MAIN_STRAND,
    MAX_PARENTS,
    BytesContent,
    Content,
    Draft,
    Facts,
    JoinFacts,
    Ledger,
    Position,
    RecordedEntry,
    StoredBody,
    Strand,
    read_strand_entries,
    stored_body,
)
from forum.tlog import Hash
from forum.work import (
    AcceptedFacts,
    Plan,
    PlanFacts,
    Policy,
    RouteFacts,
    Run,
    fold,
    read_plan,
    read_policy,
)

ENGINE = "engine"
"""Who writes what nobody else has said."""


@dataclass(frozen=True, slots=True)
class RunInput:
    """What was taken on: a request, and how it may be answered."""

    run: str
    accepted: AcceptedFacts
    accepted_entry: Hash
    begun: int
    policy: Policy
    routed: RouteFacts | None
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

    def with_plan(self, plan: Plan, entry: Hash) -> "RunContext":
        """Return the case with this plan."""
        return RunContext(
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
class RunContext(RunInput):
    """One run: what was asked for, how it may be done, and the plan."""

    plan: Plan
    plan_entry: Hash


def read_run_input(ledger: Ledger, run: str) -> RunInput | RunContext:
    """Read what was recorded when a run was accepted, and the plan that holds now, if any."""
    accepted = route = plan = None
    for leaf, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        match entry.facts:
            case AcceptedFacts():
                accepted = RecordedEntry(leaf, entry)
            case RouteFacts():
                route = RecordedEntry(leaf, entry)
            case PlanFacts():
                plan = RecordedEntry(
                    leaf, entry
                )  # the last one: an approved plan may have been edited
            case _:
                pass
    if accepted is None:
        raise NoSuchEntry(f"run {run} has no request")
    policy = read_policy(read_body(ledger, position_of(accepted), "policy"))
    intake = RunInput(
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


def read_run_context(ledger: Ledger, run: str) -> RunContext:
    """Read what was recorded when a run was accepted, and the plan that holds now."""
    case = read_run_input(ledger, run)
    if not isinstance(case, RunContext):
        raise NoSuchEntry(f"run {run} has no plan yet")
    return case


def submitter_of(ledger: Ledger, run: str) -> str:
    """Return who has submitted a run; of a run within a run, who has submitted the outermost."""
    for _, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if isinstance(entry.facts, AcceptedFacts):
            parent = entry.facts.parent_run
            return submitter_of(ledger, parent) if parent else entry.actor
    raise NoSuchEntry(f"run {run} has no request")


def read_request(ledger: Ledger, run: str, most: int | None = None) -> bytes:
    """Return what was asked for, or its beginning."""
    for _, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if isinstance(entry.facts, AcceptedFacts):
            return read_body(ledger, Position(run, MAIN_STRAND, entry.n), "request", most)
    raise NoSuchEntry(f"run {run} has no request")


def read_run(ledger: Ledger, run: str) -> Run:
    """Fold all that is recorded of a run."""
    return fold_new_entries(ledger, run, Run(), sorted(ledger.store.strands(run)))


def read_last_facts(ledger: Ledger, run: str) -> Facts | None:
    """Return what was said last of a run, if anything."""
    last = ledger.store.last_entry(run, MAIN_STRAND)
    return ledger.kinds.read(last).facts if last else None


def fold_new_entries(ledger: Ledger, run: str, state: Run, strands: Iterable[str]) -> Run:
    """Take in what was added to some strands of a run."""
    fresh = [
        told
        for strand in strands
        for told in read_strand_entries(ledger, run, strand, state.lengths.get(strand, 0))
    ]
    return fold(fresh, state) if fresh else state


def read_body(ledger: Ledger, position: Position, name: str, most: int | None = None) -> bytes:
    """Return a body, or its beginning.  Raises `BodyGone` when it was erased."""
    body = open_body(ledger, position, name).body
    if most is None:
        return b"".join(body.read())
    return read_prefix(body.read(), most)


def read_prefix(chunks: Iterable[bytes], most: int) -> bytes:
    """Return the beginning of a content, reading no more of it than that."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= most:
            break
    return head[:most]


@dataclass(frozen=True, slots=True)
class StoredContent:
    """A body of the ledger as content."""

    size: int
    body: StoredBody

    def chunks(self) -> Iterator[bytes]:
        """Read it piece by piece."""
        return iter(self.body.read())


@dataclass(frozen=True, slots=True)
class JoinedContent:
    """Contents one after another; none at all is one empty piece, like all that is empty."""

    parts: tuple[Content, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(part.size for part in self.parts)

    def chunks(self) -> Iterator[bytes]:
        """Read them piece by piece."""
        for part in self.parts or (BytesContent(b""),):
            yield from part.chunks()


def open_body(ledger: Ledger, position: Position, name: str) -> StoredContent:
    """Return a body that its entry commits to.  Raises `BodyGone` when it was erased."""
    _, entry = next(read_strand_entries(ledger, position.run, position.strand, position.n))
    body = stored_body(ledger.store, entry, name) if name in entry.bodies else None
    if body is None:
        raise BodyGone(str(position), name)
    return StoredContent(entry.bodies[name].size, body)


async def join_causes(
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
            found = strand.replay_step(step)
            if found is None:
                (found,) = await strand.append_exclusive_async(
                    Draft(step, ENGINE, JoinFacts(), named)
                )
            joint = found.leaf
        left = [*left[MAX_PARENTS:], joint]
    return tuple(left)


def leaves_by_step(ledger: Ledger, run: str, strand: str) -> dict[str, Hash]:
    """Return what is recorded in a strand, by its steps."""
    return {entry.step: leaf for leaf, entry in read_strand_entries(ledger, run, strand)}


def position_of(recorded: RecordedEntry) -> Position:
    """Return where an entry stands."""
    return Position(recorded.entry.run, recorded.entry.strand, recorded.entry.n)
