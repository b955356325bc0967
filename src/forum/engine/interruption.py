"""Interrupt and resume runs; no worker drives an interrupted run.

Both are entries of `main`, at the position that the driver of the run would take next.  So a driver
that has not seen the interruption is refused at its next append, and a later one finds the entry.
"""

from collections.abc import Iterator
from contextlib import suppress

from forum.engine.context import ENGINE, missing_request_error, read_run
from forum.errors import ConcurrentUpdate, RunAlreadyEnded
from forum.ledger import ports
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import Ledger
from forum.ledger.strand import Draft
from forum.runs.kinds import InterruptionFacts, ResumptionFacts
from forum.runs.run_fold import Run


def interrupt_run(ledger: Ledger, run: str, actor: str) -> bool:
    """Record the interruption of a run; return False if the run has ended.

    The entry and the clearing of the run's timers are one commit.  Child runs are interrupted after
    it, each with a commit of its own, because each has its own timers.
    """
    while True:
        # Open the end before reading the state: an entry that is recorded after this takes our
        # position, and the append is refused.
        main = ledger.open_strand_at_end(run, MAIN_STRAND)
        state = read_run(ledger, run)
        if state.outcome is not None:
            return False
        if not state.interrupted:
            step = f"interrupt/{state.interruptions + 1}"
            timers = [ports.Timer(run, gate.strand, None) for gate in state.open_gates]
            effects: list[ports.Effect] = [ports.Timer(run, MAIN_STRAND, None), *timers]
            if _is_outermost(state):
                effects.append(ports.InterruptedRun(run, listed=True))
            try:
                main.append_exclusive(
                    Draft(step, actor, InterruptionFacts(), effects=tuple(effects))
                )
            except ConcurrentUpdate:
                continue  # another writer appended first: read the run again
        # Read the state again: a child run opened before the interruption is found here, and one
        # opened after it finds the entry (`follow_parent`).
        for child in _open_children(ledger, read_run(ledger, run)):
            interrupt_run(ledger, child, actor)
        return True


def resume_run(ledger: Ledger, run: str, actor: str) -> bool:
    """Record the resumption of a run and set its timers; return False if it is not interrupted.

    Raises `RunAlreadyEnded` if it has ended, and `NoSuchRun` if it was never accepted.
    """
    while True:
        main = ledger.open_strand_at_end(run, MAIN_STRAND)
        state = read_run(ledger, run)
        if state.accepted is None:
            raise missing_request_error(ledger, run)
        if state.outcome is not None:
            raise RunAlreadyEnded(run)
        if not state.interrupted:
            return False
        # Child runs first: after a crash in between, this run is still listed as interrupted, and
        # resuming it again completes the work.
        for child in _open_children(ledger, state):
            with suppress(RunAlreadyEnded):
                resume_run(ledger, child, actor)
        timers = [ports.Timer(run, gate.strand, gate.deadline) for gate in state.open_gates]
        effects: list[ports.Effect] = [ports.due_now(run, MAIN_STRAND, ledger.now()), *timers]
        if _is_outermost(state):
            effects.append(ports.InterruptedRun(run, listed=False))
        step = f"resume/{state.interruptions}"
        # If another resumption was first, the next round finds the run no longer interrupted.
        with suppress(ConcurrentUpdate):
            main.append_exclusive(Draft(step, actor, ResumptionFacts(), effects=tuple(effects)))
            return True


def follow_parent(ledger: Ledger, parent: str, child: str) -> None:
    """Interrupt a child run if its parent was interrupted while the child was opened."""
    if _is_interrupted(ledger, parent):
        interrupt_run(ledger, child, ENGINE)
        # The parent may have been resumed just before, when this child was not yet interrupted.
        # Without this check the child would stay interrupted under a running parent.
        if not _is_interrupted(ledger, parent):
            resume_run(ledger, child, ENGINE)


def _is_interrupted(ledger: Ledger, run: str) -> bool:
    # From the store, and never remembered: another process may have interrupted the run just now.
    last = ledger.store.last_entry(run, MAIN_STRAND)
    return last is not None and isinstance(ledger.kinds.read(last).facts, InterruptionFacts)


def _is_outermost(state: Run) -> bool:
    return state.accepted is None or not state.accepted.parent_run


def _open_children(ledger: Ledger, state: Run) -> Iterator[str]:
    for task in state.tasks.values():
        if task.open_run and not task.state.is_end and ledger.store.strands(task.open_run):
            yield task.open_run
