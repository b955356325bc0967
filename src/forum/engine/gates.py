"""Gates: what waits for a person, and what the person said.

A gate is a strand of its own: opened by the engine, edited by people, and decided once, by whoever
takes the position of the decision first.  A decision names the digest of what was shown; one about
anything else is refused.  What waits at a gate is rows: no process waits with it.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from forum.engine.context import ENGINE, read_body, read_last_facts, read_run_context
from forum.errors import ConcurrentUpdate, GateAlreadyDecided, GateChanged, Malformed, NoSuchGate
from forum.ledger import (
    MAIN_STRAND,
    Attachment,
    BytesContent,
    Draft,
    Ledger,
    Strand,
    Timer,
    due_now,
    read_strand_entries,
)
from forum.tlog import Hash
from forum.work import (
    IDENTITY,
    Answer,
    Decider,
    Gate,
    GateDecision,
    GateDecisionFacts,
    GateEditFacts,
    GateOpenFacts,
    GateRule,
    InterruptionFacts,
    Policy,
    fold,
    gate_strand,
    read_new_plan,
    single_task_plan,
)

_DEADLINE_MARGIN_US = 10_000
"""Microseconds in which an entry is surely made."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, about what."""

    answer: Answer
    shown: bytes
    entry: Hash


def with_operator_rules(policy: Policy, rules: Iterable[GateRule]) -> Policy:
    """Return a policy under all rules that hold: those of its acceptance, and those of today.

    A rule that an operator adds holds for runs that are under way, and one that was removed still
    holds for runs that were accepted under it.
    """
    return policy.with_gate_rules(dict.fromkeys((*policy.gate_rules, *rules)))


def find_gate(ledger: Ledger, run: str, subject: str) -> Gate:
    """Return a gate as it stands."""
    strand = gate_strand(subject)
    gate = fold(read_strand_entries(ledger, run, strand)).gates.get(strand)
    if gate is None:
        raise NoSuchGate(run, subject)
    return gate


async def pass_gate(
    ledger: Ledger,
    run: str,
    subject: str,
    shown: bytes,
    policy: Policy,
    *causes: Hash,
) -> Decision | None:
    """Return what was decided; nothing as long as nobody has.  Opens the gate if it is new."""
    strand = await asyncio.to_thread(ledger.open_strand_at_end, run, gate_strand(subject))
    if strand.length == 0:
        now = ledger.now()
        facts = GateOpenFacts(subject, policy.gate_milliseconds, policy.gate_default)
        body = Attachment("shown", BytesContent(shown), "application/octet-stream")
        alarms = (
            # The time runs from the entry, which is about to be made: whoever looks must not be
            # too early, for the next look is much later.
            Timer(run, strand.name, now + 1000 * policy.gate_milliseconds + _DEADLINE_MARGIN_US),
            due_now(run, MAIN_STRAND, now),
        )
        await strand.append_exclusive_async(Draft("open", ENGINE, facts, causes, (body,), alarms))
        return None
    return await asyncio.to_thread(_read_decision, ledger, run, subject)


def _read_decision(ledger: Ledger, run: str, subject: str) -> Decision | None:
    gate = find_gate(ledger, run, subject)
    if gate.decided is None:
        return None
    shown = read_body(ledger, gate.shown_at, "shown")
    return Decision(gate.decided.answer, shown, gate.entry)


def decide_gate(
    ledger: Ledger,
    run: str,
    subject: str,
    decided: GateDecision,
    actor: str,
    identity: bytes | None = None,
) -> None:
    """Record the first decision about what has its digest.

    What is not decided by the deadline, or by the end of the run, must come in time.
    """
    if decided.by not in (Decider.DEADLINE, Decider.END):
        expire_gate(ledger, run, find_gate(ledger, run, subject))
    strand = _open_undecided_gate(ledger, run, subject, decided.digest)
    effects = [Timer(run, strand.name, None)]
    if not isinstance(read_last_facts(ledger, run), InterruptionFacts):
        effects.append(due_now(run, MAIN_STRAND, ledger.now()))
    bodies = [Attachment(IDENTITY, BytesContent(identity), "application/json")] if identity else []
    draft = Draft("decision", actor, decided, bodies=tuple(bodies), effects=tuple(effects))
    _append_to_gate(ledger, strand, subject, decided.digest, draft)


def edit_gate(ledger: Ledger, run: str, subject: str, digest: str, shown: bytes, actor: str) -> str:
    """Replace what waits for approval, and return its new digest."""
    strand = _open_undecided_gate(ledger, run, subject, digest)
    # As it will be read again: a plan may be none once its secrets are masked.
    shown = b"".join(ledger.mask.mask_content(BytesContent(shown)).chunks())
    _check_edit(ledger, run, subject, shown)
    body = Attachment("shown", BytesContent(shown), "application/octet-stream")
    draft = Draft(f"edit/{strand.length}", actor, GateEditFacts(digest), bodies=(body,))
    _append_to_gate(ledger, strand, subject, digest, draft)
    return find_gate(ledger, run, subject).digest


def expire_gate(ledger: Ledger, run: str, gate: Gate) -> None:
    """Let the default hold if nobody has decided in time, by the clock of the database."""
    if gate.decided is not None or ledger.store.now() < gate.deadline:
        return
    decided = GateDecisionFacts(gate.opened.default, gate.digest, Decider.DEADLINE)
    with suppress(GateAlreadyDecided, GateChanged):  # somebody came first
        decide_gate(ledger, run, gate.opened.subject, decided, ENGINE)


def _open_undecided_gate(ledger: Ledger, run: str, subject: str, digest: str) -> Strand:
    # The position first, the gate second: what anybody adds after this takes our position.
    strand = ledger.open_strand_at_end(run, gate_strand(subject))
    _check_undecided(find_gate(ledger, run, subject), run, digest)
    return strand


def _check_undecided(gate: Gate, run: str, digest: str) -> None:
    subject = gate.opened.subject
    if gate.decided is not None:
        raise GateAlreadyDecided(run, subject, gate.decided.answer.value, gate.decided.by.value)
    if gate.digest != digest:
        raise GateChanged(run, subject, gate.digest)


def _check_edit(ledger: Ledger, run: str, subject: str, shown: bytes) -> None:
    """Refuse what nobody could carry out once it is approved."""
    if subject == "plan":
        read_run_context(ledger, run).policy.check(read_new_plan(shown))
    elif subject.startswith("use/"):
        raise Malformed(
            "edit", "the arguments of a tool cannot be edited; reject them, and the agent is told"
        )
    elif not subject.startswith("task/"):
        raise Malformed("edit", "what was done, or not done, cannot be edited")
    else:
        try:
            single_task_plan(shown.decode())
        except UnicodeDecodeError as error:
            raise Malformed("instruction", str(error)) from None


def _append_to_gate(
    ledger: Ledger, strand: Strand, subject: str, digest: str, draft: Draft
) -> None:
    try:
        strand.append_exclusive(draft)
    except ConcurrentUpdate:
        _check_undecided(find_gate(ledger, strand.run, subject), strand.run, digest)
        raise
