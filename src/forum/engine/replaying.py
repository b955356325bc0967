"""Playing a run again from its record alone, to see whether it says the same.

The replay is a run in a ledger of its own.  Every reply and every outcome comes from the record,
every decision too; nobody is asked, nothing is paid, nothing happens.  What the engine then records
must be what was recorded: the same facts and bodies under the same strands and steps.
"""

from msgspec.structs import replace

from forum.engine.accepting import accept
from forum.engine.case import read_body, read_run
from forum.engine.engine import Engine
from forum.engine.gates import decide, edit
from forum.engine.local import LocalRunner
from forum.engine.past import Replay, order_of, steps_of
from forum.engine.ports import Models, Tools
from forum.errors import NoSuchRun
from forum.ledger import MAIN, Ledger, Position, entries_of
from forum.work import (
    Accepted,
    Decider,
    Divergence,
    GateDecision,
    GateEdited,
    compare,
)


async def replay(
    record: Ledger, run: str, scratch: Ledger, models: Models, tools: Tools
) -> list[Divergence]:
    """Play a run again into an empty ledger, and return where it says something else."""
    origin, actor = _origin(record, run)
    accept(scratch, run, order_of(record, run), actor, origin)
    prior = Replay(record, run)
    runner = LocalRunner(Engine(scratch, models, tools, lambda _: prior, unhurried=False))
    while not prior.over:
        await runner.enqueue_run(run)
        await runner.finish()
        prior.over = not _decide_again(record, run, scratch)
    await runner.enqueue_run(run)
    await runner.finish()
    return list(compare(steps_of(record, run), steps_of(scratch, run)))


def _origin(record: Ledger, run: str) -> tuple[Accepted, str]:
    for _, entry in entries_of(record, run, MAIN):
        if isinstance(entry.facts, Accepted):
            return entry.facts, entry.actor
    raise NoSuchRun(run)


def _decide_again(record: Ledger, run: str, scratch: Ledger) -> bool:
    """Do at the gates what was done there; tell whether anything was decided."""
    decided = False
    for gate in read_run(scratch, run).open_gates:
        digest = gate.digest
        for _, entry in entries_of(record, run, gate.strand):
            at, subject = Position(run, gate.strand, entry.n), gate.opened.subject
            if isinstance(entry.facts, GateEdited):
                shown = read_body(record, at, "shown")
                digest = edit(scratch, run, subject, digest, shown, entry.actor)
            elif isinstance(entry.facts, GateDecision) and entry.facts.by is not Decider.END:
                again = replace(entry.facts, digest=digest)
                decide(scratch, run, subject, again, entry.actor)
                decided = True
    return decided
