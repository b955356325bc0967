"""Playing a run again from its record alone, to see whether it says the same.

The replay is a run in a ledger of its own.  Every reply and every outcome comes from the record,
every decision too; nobody is asked, nothing is paid, nothing happens.  What the engine then records
must be what was recorded: the same facts and bodies under the same strands and steps.
"""

from msgspec.structs import replace

from forum.engine.accept import accept_run
from forum.engine.context import read_body, read_run
from forum.engine.engine import Engine
from forum.engine.gates import decide_gate, edit_gate
from forum.engine.local_runner import LocalRunner
from forum.engine.ports import ModelFactory, ToolFactory
from forum.engine.recorded_runs import ReplaySource, read_run_request, read_steps
from forum.errors import NoSuchRun
from forum.ledger import MAIN_STRAND, Ledger, Position, read_strand_entries
from forum.work import (
    AcceptedFacts,
    Decider,
    Divergence,
    GateDecision,
    GateEditFacts,
    compare_steps,
)


async def replay_run(
    record: Ledger, run: str, scratch: Ledger, models: ModelFactory, tools: ToolFactory
) -> list[Divergence]:
    """Play a run again into an empty ledger, and return where it says something else."""
    origin, actor = _origin(record, run)
    accept_run(scratch, run, read_run_request(record, run), actor, origin)
    prior = ReplaySource(record, run)
    runner = LocalRunner(Engine(scratch, models, tools, lambda _: prior, unhurried=False))
    while not prior.is_played_out:
        await runner.enqueue_run(run)
        await runner.wait_until_idle()
        prior.is_played_out = not _replay_decisions(record, run, scratch)
    await runner.enqueue_run(run)
    await runner.wait_until_idle()
    return list(compare_steps(read_steps(record, run), read_steps(scratch, run)))


def _origin(record: Ledger, run: str) -> tuple[AcceptedFacts, str]:
    for _, entry in read_strand_entries(record, run, MAIN_STRAND):
        if isinstance(entry.facts, AcceptedFacts):
            return entry.facts, entry.actor
    raise NoSuchRun(run)


def _replay_decisions(record: Ledger, run: str, scratch: Ledger) -> bool:
    """Do at the gates what was done there; tell whether anything was decided."""
    decided = False
    for gate in read_run(scratch, run).open_gates:
        digest = gate.digest
        for _, entry in read_strand_entries(record, run, gate.strand):
            at, subject = Position(run, gate.strand, entry.n), gate.opened.subject
            if isinstance(entry.facts, GateEditFacts):
                shown = read_body(record, at, "shown")
                digest = edit_gate(scratch, run, subject, digest, shown, entry.actor)
            elif isinstance(entry.facts, GateDecision) and entry.facts.by is not Decider.END:
                again = replace(entry.facts, digest=digest)
                decide_gate(scratch, run, subject, again, entry.actor)
                decided = True
    return decided
