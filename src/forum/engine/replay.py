"""Replay a run from its record alone, to find out whether the engine records the same again.

The replay is a run in a ledger of its own.  Every reply, outcome and decision comes from the
record: no model or tool is called, and nothing is spent.  The engine must then record the same
facts and bodies under the same strands and steps.
"""

from msgspec.structs import replace

from forum.engine.accept import accept_run
from forum.engine.context import missing_request_error, read_body, read_run, read_run_input
from forum.engine.engine import Engine
from forum.engine.gates import decide_gate, edit_gate
from forum.engine.local_runner import LocalRunner
from forum.engine.ports import ModelFactory, ToolOpener
from forum.engine.recorded_runs import ReplaySource, read_run_request, read_steps
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.ports import Position
from forum.runs import kinds
from forum.runs.claims import ClaimFinder
from forum.runs.policy import PROMPT_VERSION
from forum.runs.run_comparison import Divergence, compare_steps


async def replay_run(
    record: Ledger,
    run: str,
    scratch: Ledger,
    models: ModelFactory,
    open_tools: ToolOpener,
    find_claims: ClaimFinder,
) -> list[Divergence]:
    """Replay a run into an empty ledger, and return where the two records differ."""
    origin, actor = _origin(record, run)
    accept_run(scratch, run, read_run_request(record, run), actor, origin=origin)
    reply_source = ReplaySource(record, run)
    # Alternate between driving the run until it waits and replaying decisions at its gates.  When
    # no decision is left, drive it once more, now to its recorded stop.
    engine = Engine(
        scratch,
        models,
        open_tools,
        lambda _: reply_source,
        real_time=False,
        find_claims=find_claims,
    )
    runner = LocalRunner(engine)
    while not reply_source.is_played_out:
        runner.enqueue_run(run)
        await runner.wait_until_idle()
        reply_source.is_played_out = not _replay_decisions(record, run, scratch)
    runner.enqueue_run(run)
    await runner.wait_until_idle()
    ignoring = _incomparable_members(record, run)
    steps = (read_steps(ledger, run, ignoring=ignoring) for ledger in (record, scratch))
    return list(compare_steps(*steps))


def _incomparable_members(record: Ledger, run: str) -> frozenset[str]:
    """Return what is not compared: an earlier release took other sentences for claims."""
    is_current = read_run_input(record, run).policy.prompts == PROMPT_VERSION
    return frozenset() if is_current else frozenset({"claims", "unverified"})


def _origin(record: Ledger, run: str) -> tuple[kinds.AcceptedFacts, str]:
    for _, entry in read_strand_entries(record, run, MAIN_STRAND):
        if isinstance(entry.facts, kinds.AcceptedFacts):
            return entry.facts, entry.actor
    raise missing_request_error(record, run)


def _replay_decisions(record: Ledger, run: str, scratch: Ledger) -> bool:
    """Repeat the recorded edits and decisions at open gates; return whether one was decided.

    Decisions by the end of the run are left out: the engine makes them when it closes the run.
    """
    decided = False
    for gate in read_run(scratch, run).open_gates:
        digest = gate.digest
        for _, entry in read_strand_entries(record, run, gate.strand):
            at, subject = Position(run, gate.strand, entry.n), gate.opened.subject
            if isinstance(entry.facts, kinds.GateEditFacts):
                shown = read_body(record, at, "shown")
                digest = edit_gate(scratch, run, subject, digest, shown=shown, actor=entry.actor)
            elif (
                isinstance(entry.facts, kinds.GateDecision)
                and entry.facts.by is not kinds.Decider.END
            ):
                again = replace(entry.facts, digest=digest)
                decide_gate(scratch, run, subject, again, actor=entry.actor)
                decided = True
    return decided
