"""The tools: what each is for, who may use it, what it takes and gives, and what it may change."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any

import anyio
from msgspec import Struct

from forum.app import KINDS, Forum
from forum.errors import NotYetSigned
from forum.ledger import Scope, causes, find, prove
from forum.surfaces.asking import RouteAsk, ask_of, check_gates
from forum.surfaces.forms.gates import (
    DecisionForm,
    GatesForm,
    ShownGateForm,
    gates_form,
    shown_gate_form,
)
from forum.surfaces.forms.lanes import RouteForm, route_form
from forum.surfaces.forms.ledger import ProofForm, WhyForm, proof_form, why_form
from forum.surfaces.forms.plans import PlanForm, plan_form
from forum.surfaces.forms.reports import ReportForm, report_form
from forum.surfaces.forms.runs import RunForm, RunsPage, run_form, runs_page
from forum.surfaces.mcp.asks import (
    AdaptiveAsk,
    CancelAsk,
    DecideAsk,
    DeliberateAsk,
    EntryAsk,
    Nothing,
    PersonaAsk,
    PlanAsk,
    RunAsk,
    RunsAsk,
    StatusAsk,
    SubjectAsk,
    SubmitAsk,
    WhyAsk,
)
from forum.surfaces.mcp.callers import Caller
from forum.surfaces.mcp.calls import Call, in_thread, prepared, take_on, wait_for
from forum.surfaces.mcp.panels import (
    deliberate,
    deliberate_adaptive,
    generate_persona,
    list_personas,
)
from forum.surfaces.mcp.replies import (
    Attached,
    BundleForm,
    CancelForm,
    DeliberatedForm,
    InventedForm,
    PersonasForm,
    Reply,
    StatusForm,
    run_words,
    status_form,
)
from forum.surfaces.preparing import prepare
from forum.surfaces.telling import plural

MOST_ATTACHED = 1 << 20
"""How large a bundle may be to be part of an answer."""
SIGNED_SECONDS = 20.0
"""How long a signature is waited for that is made on another machine."""

_TELL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Hints:
    """What a client should know before it lets a model call a tool."""

    reads_only: bool = False
    destroys: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: everything that is true of it is said here."""

    name: str
    title: str
    about: str
    scopes: frozenset[Scope]
    takes: type[Struct]
    gives: type[Struct]
    do: Callable[[Call, Any], Awaitable[Reply]]
    hints: Hints
    alone: bool = False
    """Whether a process does it for one caller at a time: it reads whole ledgers."""


# Having something done


async def submit(call: Call, ask: SubmitAsk) -> Reply:
    """Take a request on; whoever then goes away does not stop it."""
    run = await prepared(call, partial(_take_on, call.caller, ask))
    if ask.wait:
        await wait_for(call, run, ask.seconds)
    return await call.thread(_status, call.caller.forum, run)


def _take_on(caller: Caller, ask: SubmitAsk) -> str:
    check_gates(ask.form.gates, caller.scopes)
    return take_on(caller, ask_of(ask.form), ask.form, ask.key)


async def status(call: Call, ask: StatusAsk) -> Reply:
    """Tell how far a run has come, after waiting for it if that is wanted."""
    run = await call.thread(call.caller.forum.run_of, ask.run)
    if ask.seconds:
        await wait_for(call, run, ask.seconds)
    return await call.thread(_status, call.caller.forum, run)


def _status(forum: Forum, run: str) -> Reply:
    view = forum.view(run)
    form = status_form(view)
    return Reply(form, run_words(view), form.answer or "")


async def route(call: Call, ask: RouteAsk) -> Reply:
    """Say where a request belongs."""
    form = route_form(await prepare(lambda: call.caller.staff.router.route(ask.text)))
    sure = f"{form.confidence:.0%} sure"
    if form.lane:
        return Reply(form, f"It belongs to the lane {form.lane}, {sure}.")
    return Reply(form, f"No lane is sure enough; the nearest is {form.nearest}, {sure}.")


async def plan(call: Call, ask: PlanAsk) -> Reply:
    """Say what would be done."""
    staff = call.caller.staff
    form = await prepared(call, lambda: plan_form(staff.order(ask_of(ask.form))))
    if form.team:
        return Reply(form, "A team would make the plan. Nothing was recorded.")
    who = f" in the lane {form.lane}" if form.lane else ""
    return Reply(form, f"{plural(len(form.tasks), 'task')}{who}. Nothing was recorded.")


@in_thread
def cancel(caller: Caller, ask: CancelAsk) -> Reply:
    """Ask a run to end."""
    # By its whole name, which only those know who were told: an index would be anybody's run.
    caller.forum.cancel(ask.run, caller.name)
    return Reply(CancelForm(ask.run), "It was asked to end.")


# Looking


@in_thread
def runs(caller: Caller, ask: RunsAsk) -> Reply:
    """List runs."""
    forum = caller.forum
    found = forum.recent_runs(ask.cursor or None, ask.limit)
    requests = {run: forum.request_of(run) for run, _ in found}
    form = runs_page(found, requests, ask.limit)
    words = [f"{line.run}  {line.outcome or line.state}" for line in form.runs]
    return Reply(form, "\n".join(words) or "There are no more runs.")


@in_thread
def show(caller: Caller, ask: RunAsk) -> Reply:
    """Tell everything of a run."""
    view = caller.forum.view(caller.forum.run_of(ask.run))
    form = run_form(view)
    return Reply(form, run_words(view), form.answer or "")


@in_thread
def why(caller: Caller, ask: WhyAsk) -> Reply:
    """Tell what led to an entry."""
    with caller.forum.reading() as reader:
        chain = list(causes(reader, KINDS, find(reader, KINDS, ask.entry), ask.limit))
    lines = [
        f"{'because ' if depth else ''}#{'?' if cause.index is None else cause.index} "
        f"{cause.entry.kind} by {cause.entry.actor}, {cause.position}"
        for depth, cause in chain
    ]
    return Reply(why_form(chain), "\n".join(lines))


# Deciding


@in_thread
def gates(caller: Caller, _: Nothing) -> Reply:
    """List what waits for a person."""
    form = gates_form(caller.forum.waiting_gates())
    lines = [f"{one.run}  {one.subject}  {one.digest}" for one in form.gates]
    return Reply(form, "\n".join(lines) or "Nothing waits for approval.")


@in_thread
def gate(caller: Caller, ask: SubjectAsk) -> Reply:
    """Show what waits at a gate."""
    run = caller.forum.run_of(ask.run)
    form = shown_gate_form(run, *caller.forum.gate(run, ask.subject))
    decided = f"It was decided: {form.decided}." if form.decided else "It waits."
    words = f"{form.subject} of run {run}. {decided} Its digest is {form.digest}."
    return Reply(form, words, form.shown)


@in_thread
def decide(caller: Caller, ask: DecideAsk) -> Reply:
    """Approve or reject what waits."""
    run = caller.forum.run_of(ask.run)
    caller.forum.decide(run, ask.subject, ask.answer, ask.digest, caller.approver)
    form = DecisionForm(run, ask.subject, ask.answer, ask.digest)
    return Reply(form, f"{ask.subject} of run {run}: {ask.answer.value}. It is on record.")


# Proving


async def verify(call: Call, _: Nothing) -> Reply:
    """Check the whole ledger."""
    forum = call.caller.forum
    trust = await call.thread(forum.trust)
    form = report_form(await call.thread(forum.verify, trust, _teller(call)))
    answers = {
        "intact": form.intact,
        "complete": form.complete,
        "independent": form.independent,
    }
    lines = [f"{name}: {one.state.value}, {one.reason}" for name, one in answers.items()]
    return Reply(form, "\n".join((f"{form.entries} entries of {form.origin}", *lines)))


def _teller(call: Call) -> Callable[[int, int], None]:
    """Return what tells, now and then, how much of a ledger is checked."""
    last, told = monotonic(), 0

    def tell(done: int, total: int) -> None:
        nonlocal last, told
        if done > told and monotonic() - last > _TELL_SECONDS:
            last, told = monotonic(), done
            words = f"{done} of {total} entries"
            anyio.from_thread.run(partial(call.tell, done, total, words))

    return tell


@in_thread
def proof(caller: Caller, ask: EntryAsk) -> Reply:
    """Give what it takes to believe an entry offline."""
    with caller.forum.reading() as reader:
        found = find(reader, KINDS, ask.entry)
        if found.index is None:
            raise NotYetSigned(str(found.position))
        proven = prove(reader, found.index)
    form = proof_form(found, proven)
    return Reply(form, form.proof)


@in_thread
def bundle(caller: Caller, ask: RunAsk) -> Reply:
    """Hand over the evidence of a run."""
    run = caller.forum.run_of(ask.run)
    data = caller.forum.export(run, caller.name, SIGNED_SECONDS)
    fits = len(data) <= MOST_ATTACHED
    form = BundleForm(run, len(data), sha256(data).hexdigest(), fits)
    if not fits:
        words = (
            f"The bundle of run {run} has {len(data):,} bytes, which is too much for an answer: "
            f"`forum ledger export {run}` writes it, and POST /api/v1/runs/{run}/bundle sends it."
        )
        return Reply(form, words)
    words = (
        f"The bundle of run {run} is attached. Anybody can check it offline: `forum verify FILE "
        "--policy POLICY`, with the policy that `forum ledger policy` prints."
    )
    attached = Attached(f"forum://runs/{run}/bundle.zip", "application/zip", data)
    return Reply(form, words, attached=attached)


_READ = frozenset({Scope.READ, Scope.AUDIT})
_SUBMIT = frozenset({Scope.SUBMIT})
_APPROVE = frozenset({Scope.APPROVE})
_AUDIT = frozenset({Scope.AUDIT})
_LOOKS = Hints(reads_only=True, idempotent=True)

TOOLS: Sequence[Tool] = (
    Tool(
        "submit", "Have a request carried out",
        "Give a request, or a plan of tasks, to the agents of this project. Every step is "
        "recorded. Waits for the answer up to `seconds`; a run that takes longer goes on, and "
        "its `status` is asked for by its name. Without a budget there is no limit.",
        _SUBMIT, SubmitAsk, StatusForm, submit,
        Hints(destroys=True, open_world=True),
    ),
    Tool(
        "deliberate", "Have a panel deliberate",
        "Put a question to a panel of agents: they answer independently and sealed, exchange "
        "anonymously where they differ, and code counts the votes (`council`); or personas take "
        "turns by the open protocol `symposium`. Tells the answer, the minority and its best "
        "argument. Without limits of yours, a symposium has $5 and 30 minutes. Waits and goes on "
        "as `submit` does.",
        _SUBMIT, DeliberateAsk, DeliberatedForm, deliberate,
        Hints(destroys=True, open_world=True),
    ),
    Tool(
        "deliberate_adaptive", "Have a panel made up for a question deliberate",
        "Have personas made up for a question first, and then a symposium of them deliberate on "
        "it. If the panel needs to know something from the person who asks, its `question` is "
        "returned: ask them, and answer nothing in their place. After a call that was too short, "
        "ask again with the `key` that it gave.",
        _SUBMIT, AdaptiveAsk, DeliberatedForm, deliberate_adaptive,
        Hints(destroys=True, open_world=True),
    ),
    Tool(
        "generate_persona", "Make up a persona",
        "Have a model make up a persona for a question: one that knows a subject, or a way of "
        "thinking. It can be given to `deliberate`. The call is a recorded run.",
        _SUBMIT, PersonaAsk, InventedForm, generate_persona,
        Hints(destroys=True, open_world=True),
    ),
    Tool(
        "list_personas", "List personas",
        "List the personas that come with Forum, by the names that `deliberate` takes.",
        _READ | _SUBMIT, Nothing, PersonasForm, list_personas, _LOOKS,
    ),
    Tool(
        "status", "How far a run has come",
        "Tell the state of a run, and its answer as soon as there is one. With `seconds` it "
        "waits so long for the run to end, or to need a person.",
        _READ, StatusAsk, StatusForm, status, _LOOKS,
    ),
    Tool(
        "runs", "List runs",
        "List runs, the newest first, a page at a time.",
        _READ, RunsAsk, RunsPage, runs, _LOOKS,
    ),
    Tool(
        "show", "Show a run",
        "Tell everything of a run: its route, tasks, verdicts, checks, claims, effects, costs.",
        _READ, RunAsk, RunForm, show, _LOOKS,
    ),
    Tool(
        "why", "What led to an entry",
        "Tell the causes of an entry of the ledger, and theirs.",
        _READ, WhyAsk, WhyForm, why, _LOOKS,
    ),
    Tool(
        "route", "Which specialist a request belongs to",
        "Tell the lane of the roster that a request belongs to, how sure that is, and why. "
        "Nobody is asked, and nothing is recorded.",
        _READ | _SUBMIT, RouteAsk, RouteForm, route, _LOOKS,
    ),
    Tool(
        "plan", "What would be done",
        "Tell what `submit` would have done with the same arguments: lane, tasks, agents, "
        "limits. Nobody is asked, and nothing is recorded.",
        _READ | _SUBMIT, PlanAsk, PlanForm, plan, _LOOKS,
    ),
    Tool(
        "cancel", "Have a run end",
        "Ask a run to end: its calls are stopped wherever they are made, what is done stays.",
        _SUBMIT, CancelAsk, CancelForm, cancel, Hints(destroys=True, idempotent=True),
    ),
    Tool(
        "gates", "What waits for approval",
        "List everything that waits for a person.",
        _READ | _APPROVE, Nothing, GatesForm, gates, _LOOKS,
    ),
    Tool(
        "gate", "Show what waits for approval",
        "Show what waits at a gate of a run, with the digest that a decision has to name.",
        _READ | _APPROVE, SubjectAsk, ShownGateForm, gate, _LOOKS,
    ),
    Tool(
        "decide", "Approve or reject what waits",
        "Put on record what a person has decided about what has this digest. Ask the person "
        "first: an approval may not be given in their place.",
        _APPROVE, DecideAsk, DecisionForm, decide, Hints(destroys=True, open_world=True),
    ),
    Tool(
        "verify", "Verify the ledger",
        "Check the whole ledger from its bytes: whether it is intact, complete, and seen by "
        "others. Lists what was found, and what was not checked.",
        _AUDIT, Nothing, ReportForm, verify, _LOOKS, alone=True,
    ),
    Tool(
        "proof", "Prove an entry",
        "Give the inclusion proof of an entry with the signed checkpoint that it leads to "
        "(C2SP tlog-proof): what it takes to believe the entry offline.",
        _READ, EntryAsk, ProofForm, proof, _LOOKS,
    ),
    Tool(
        "bundle", "Export the evidence of a run",
        "Hand over a run as one archive that a stranger can check offline. That it was exported "
        "is recorded.",
        _AUDIT, RunAsk, BundleForm, bundle, Hints(), alone=True,
    ),
)  # fmt: skip
