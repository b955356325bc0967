"""Interrupting a run and resuming it: between the two nobody goes on with it.

Both are entries of `main`, at the position that the driver of the run would take next.  So a driver
that does not know yet is overtaken at its next step, and one that comes later finds the entry.
"""

from collections.abc import Iterator
from contextlib import suppress

from forum.engine.context import ENGINE, read_last_facts, read_run
from forum.errors import ConcurrentUpdate, NoSuchRun, RunAlreadyEnded
from forum.ledger import MAIN_STRAND, Draft, Effect, InterruptedRun, Ledger, Timer, due_now
from forum.work import InterruptionFacts, ResumptionFacts, Run


def interrupt_run(ledger: Ledger, run: str, actor: str) -> bool:
    """Record that nobody is to go on with a run; return False where it has ended.

    The entry and the end of the run's timers are one commit.  The runs within it follow: each has
    a timer of its own.
    """
    while True:
        # The end first: whatever is recorded after it takes our position.
        main = ledger.open_strand_at_end(run, MAIN_STRAND)
        state = read_run(ledger, run)
        if state.outcome is not None:
            return False
        if not state.interrupted:
            step = f"interrupt/{state.interruptions + 1}"
            timers = [Timer(run, gate.strand, None) for gate in state.open_gates]
            effects: list[Effect] = [Timer(run, MAIN_STRAND, None), *timers]
            if _is_outermost(state):
                effects.append(InterruptedRun(run, listed=True))
            try:
                main.append_exclusive(
                    Draft(step, actor, InterruptionFacts(), effects=tuple(effects))
                )
            except ConcurrentUpdate:
                continue
        # Read again: a run that was opened before the entry is found here, and one that is opened
        # later finds the entry (`follow_parent`).
        for child in _open_children(ledger, read_run(ledger, run)):
            interrupt_run(ledger, child, actor)
        return True


def resume_run(ledger: Ledger, run: str, actor: str) -> bool:
    """Have an interrupted run carried out again; return False where it is not interrupted.

    Raises `RunAlreadyEnded`, and `NoSuchRun` for what nobody has asked for.
    """
    while True:
        main = ledger.open_strand_at_end(run, MAIN_STRAND)
        state = read_run(ledger, run)
        if state.accepted is None:
            raise NoSuchRun(run)
        if state.outcome is not None:
            raise RunAlreadyEnded(run)
        if not state.interrupted:
            return False
        # The runs within first: stopped in between, this one is still listed as interrupted.
        for child in _open_children(ledger, state):
            with suppress(RunAlreadyEnded):
                resume_run(ledger, child, actor)
        timers = [Timer(run, gate.strand, gate.deadline) for gate in state.open_gates]
        effects: list[Effect] = [due_now(run, MAIN_STRAND, ledger.now()), *timers]
        if _is_outermost(state):
            effects.append(InterruptedRun(run, listed=False))
        step = f"resume/{state.interruptions}"
        with suppress(ConcurrentUpdate):
            main.append_exclusive(Draft(step, actor, ResumptionFacts(), effects=tuple(effects)))
            return True


def follow_parent(ledger: Ledger, parent: str, child: str) -> None:
    """Interrupt a run within a run if its parent was interrupted while it was opened."""
    if isinstance(read_last_facts(ledger, parent), InterruptionFacts):
        interrupt_run(ledger, child, ENGINE)
        # The parent may have been resumed before this run was interrupted, and not seen it.
        if not isinstance(read_last_facts(ledger, parent), InterruptionFacts):
            resume_run(ledger, child, ENGINE)


def _is_outermost(state: Run) -> bool:
    return state.accepted is None or not state.accepted.parent_run


def _open_children(ledger: Ledger, state: Run) -> Iterator[str]:
    for task in state.tasks.values():
        if task.delegated and not task.state.is_end and ledger.store.strands(task.delegated.run):
            yield task.delegated.run
