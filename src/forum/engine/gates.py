"""Gates: human approval of plans, tasks and tool calls, and questions about lost effects.

A gate is a strand of its own: the engine opens it, people edit it, and the first decision appended
to it counts.  A decision names the digest of the content that was shown; a decision about any other
content is refused.  A waiting gate is only rows in the database: no process waits with it.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from forum import errors
from forum.engine import context
from forum.ledger.body import BytesContent, text_content
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.ports import Timer, due_now
from forum.ledger.strand import Attachment, Draft, Strand
from forum.runs import kinds
from forum.runs.gate_rules import GateRule
from forum.runs.plan import read_new_plan, single_task_plan
from forum.runs.policy import Answer, Policy
from forum.runs.run_fold import Gate, fold
from forum.tlog import Hash

_DEADLINE_MARGIN_US = 10_000
"""Microseconds within which an entry is expected to be committed after its draft was made."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer at a gate, the content it is about, and the entry that records it."""

    answer: Answer
    shown: bytes
    entry: Hash


@dataclass(frozen=True, slots=True)
class DecisionTexts:
    """What is recorded with a decision in bodies, which can be erased."""

    identity: bytes | None = None
    """The person who decided, as JSON."""
    reason: str = ""


NO_TEXTS = DecisionTexts()


def with_operator_rules(policy: Policy, rules: Iterable[GateRule]) -> Policy:
    """Return a policy with the gate rules recorded at acceptance and the operator's current ones.

    A rule that an operator adds applies to runs under way, and a removed rule still applies to runs
    that were accepted under it.
    """
    return policy.with_gate_rules(dict.fromkeys((*policy.gate_rules, *rules)))


def find_gate(ledger: Ledger, run: str, subject: str) -> Gate:
    """Return the state of a gate.  Raises `NoSuchGate`."""
    strand = kinds.gate_strand(subject)
    gate = fold(read_strand_entries(ledger, run, strand)).gates.get(strand)
    if gate is None:
        raise errors.NoSuchGate(run, subject)
    return gate


def open_gate_draft(
    run: str, facts: kinds.GateOpenFacts, shown: Attachment, now: int, *, actor: str
) -> Draft:
    """Return the entry that opens a gate, with the timer that lists it for those who decide."""
    # The deadline counts from the entry's own time, slightly after `now`.  A timer that is due
    # before it would find the gate open, and the next look is much later.
    due = now + 1000 * facts.milliseconds + _DEADLINE_MARGIN_US
    timer = Timer(run, kinds.gate_strand(facts.subject), due)
    return Draft(step="open", actor=actor, facts=facts, bodies=(shown,), effects=(timer,))


async def pass_gate(
    ledger: Ledger,
    run: str,
    subject: str,
    shown: bytes,
    policy: Policy,
    *causes: Hash,
) -> Decision | None:
    """Return the decision at a gate, or None while it is pending.  Open the gate if it is new."""
    strand = await asyncio.to_thread(ledger.open_strand_at_end, run, kinds.gate_strand(subject))
    if strand.length == 0:
        now = ledger.now()
        facts = kinds.GateOpenFacts(subject, policy.gate_milliseconds, policy.gate_default)
        body = Attachment("shown", BytesContent(shown), "application/octet-stream")
        draft = open_gate_draft(run, facts, body, now, actor=context.ENGINE)
        alarms = (*draft.effects, due_now(run, MAIN_STRAND, now))
        await strand.append_exclusive_async(replace(draft, parents=causes, effects=alarms))
        return None
    return await asyncio.to_thread(_read_decision, ledger, run, subject)


def _read_decision(ledger: Ledger, run: str, subject: str) -> Decision | None:
    gate = find_gate(ledger, run, subject)
    if gate.decided is None:
        return None
    shown = context.read_body(ledger, gate.shown_at, "shown")
    return Decision(gate.decided.answer, shown, gate.entry)


def decide_gate(
    ledger: Ledger,
    run: str,
    subject: str,
    decided: kinds.GateDecision,
    actor: str,
    texts: DecisionTexts = NO_TEXTS,
) -> None:
    """Record a decision about the content with its digest, and wake the run.

    Raises `GateAlreadyDecided`, or `GateChanged` if the content has another digest.  A decision by
    a person is refused after the gate's deadline: the default is recorded first.
    """
    if decided.by not in (kinds.Decider.DEADLINE, kinds.Decider.END):
        expire_gate(ledger, run, find_gate(ledger, run, subject))
    strand = _open_undecided_gate(ledger, run, subject, decided.digest)
    effects = [Timer(run, strand.name, None)]
    # An interrupted run has no timers; its resumption sets them.  No worker continues a run that
    # another program records: that program looks for the decision itself.
    interrupted = isinstance(context.read_last_facts(ledger, run), kinds.InterruptionFacts)
    if not interrupted and context.is_driven(ledger, run):
        effects.append(due_now(run, MAIN_STRAND, ledger.now()))
    bodies = (
        [Attachment(kinds.IDENTITY, BytesContent(texts.identity), "application/json")]
        if texts.identity
        else []
    )
    drafts = [Draft("decision", actor, decided, bodies=tuple(bodies), effects=tuple(effects))]
    if texts.reason:
        # In the commit of the decision: a crash leaves neither a reason without a decision, nor a
        # decision whose reason is lost.
        body = Attachment(kinds.REASON, text_content(texts.reason), "text/plain")
        facts = kinds.GateReasonFacts(decided.digest)
        drafts.insert(0, Draft("reason", actor, facts, bodies=(body,)))
    _append_to_gate(ledger, strand, subject, decided.digest, *drafts)


def edit_gate(ledger: Ledger, run: str, subject: str, digest: str, shown: bytes, actor: str) -> str:
    """Replace the content that waits for approval, and return its new digest.

    Raises `GateAlreadyDecided`, `GateChanged`, and `BadPlan` or `Malformed` if the new content
    could not be carried out.
    """
    strand = _open_undecided_gate(ledger, run, subject, digest)
    # Mask before checking: a plan may be invalid once its secrets are masked.
    shown = b"".join(ledger.mask.mask_content(BytesContent(shown)).chunks())
    _check_edit(ledger, run, subject, shown)
    body = Attachment("shown", BytesContent(shown), "application/octet-stream")
    draft = Draft(f"edit/{strand.length}", actor, kinds.GateEditFacts(digest), bodies=(body,))
    _append_to_gate(ledger, strand, subject, digest, draft)
    return find_gate(ledger, run, subject).digest


def expire_gate(ledger: Ledger, run: str, gate: Gate) -> None:
    """Decide a gate by its default if its deadline has passed by the clock of the database."""
    if gate.decided is not None or ledger.store.now() < gate.deadline:
        return
    decided = kinds.GateDecisionFacts(gate.opened.default, gate.digest, kinds.Decider.DEADLINE)
    with suppress(
        errors.GateAlreadyDecided, errors.GateChanged
    ):  # another decision or an edit came first
        decide_gate(ledger, run, gate.opened.subject, decided, actor=context.ENGINE)


def end_gate(ledger: Ledger, run: str, subject: str, actor: str) -> None:
    """Reject at a gate for which nobody waits any more, unless it is decided."""
    gate = find_gate(ledger, run, subject)
    moot = kinds.GateDecisionFacts(Answer.REJECT, gate.digest, kinds.Decider.END)
    with suppress(errors.GateAlreadyDecided, errors.GateChanged):  # a decision came first
        decide_gate(ledger, run, subject, moot, actor=actor)


def _open_undecided_gate(ledger: Ledger, run: str, subject: str, digest: str) -> Strand:
    # Open the end before reading the gate: an entry that is recorded after this takes our position,
    # and the append is refused.
    strand = ledger.open_strand_at_end(run, kinds.gate_strand(subject))
    _check_undecided(find_gate(ledger, run, subject), run, digest)
    return strand


def _check_undecided(gate: Gate, run: str, digest: str) -> None:
    subject = gate.opened.subject
    if gate.decided is not None:
        raise errors.GateAlreadyDecided(
            run, subject, gate.decided.answer.value, gate.decided.by.value
        )
    if gate.digest != digest:
        raise errors.GateChanged(run, subject, gate.digest)


def _check_edit(ledger: Ledger, run: str, subject: str, shown: bytes) -> None:
    """Raise `BadPlan` or `Malformed` for content that could not be carried out once approved."""
    if subject == "plan":
        context.read_run_context(ledger, run).policy.check(read_new_plan(shown))
    elif subject.startswith("use/"):
        raise errors.Malformed(
            "edit", "the arguments of a tool cannot be edited; reject them, and the agent is told"
        )
    elif not subject.startswith("task/"):
        raise errors.Malformed("edit", "what was done, or not done, cannot be edited")
    else:
        try:
            single_task_plan(shown.decode())
        except UnicodeDecodeError as error:
            raise errors.Malformed("instruction", str(error)) from None


def _append_to_gate(
    ledger: Ledger, strand: Strand, subject: str, digest: str, *drafts: Draft
) -> None:
    try:
        strand.append_exclusive(*drafts)
    except errors.ConcurrentUpdate:
        # If the gate was decided or edited meanwhile, an error that says so helps a person more
        # than `ConcurrentUpdate` does.
        _check_undecided(find_gate(ledger, strand.run, subject), strand.run, digest)
        raise
