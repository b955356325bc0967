"""Runs: taken on, listed, looked at, stopped, forked; and what waits for a person in them."""

from typing import Annotated

from msgspec import Meta, Struct, json
from starlette.responses import Response

from forum.errors import Malformed, NoSuchEntry
from forum.ledger import Scope
from forum.staff import check_means
from forum.surfaces.asking import AskForm, ask_of, check_gates
from forum.surfaces.forms.gates import (
    DecisionForm,
    GateEditForm,
    GatesForm,
    ShownGateForm,
    gates_form,
    shown_gate_form,
)
from forum.surfaces.forms.runs import RunForm, RunsPage, run_form, runs_page
from forum.surfaces.http.endpoints import READERS, Endpoint, Visit
from forum.surfaces.http.events import EVENTS
from forum.surfaces.http.problems import Problem, Refusal
from forum.surfaces.http.serving import QUICK_BYTES
from forum.surfaces.preparing import prepare
from forum.work import Answer, read_new_plan

_QUICK_TASKS = 5
_SUBMIT = frozenset({Scope.SUBMIT})
_APPROVE = frozenset({Scope.APPROVE})


GateSubject = Annotated[
    str, Meta(min_length=1, max_length=128, pattern="^[!-~]*$", examples=["plan", "task/rivers"])
]


class Taken(Struct, frozen=True):
    """A request that was taken on: it will be carried out, whatever happens now."""

    run: str
    href: str
    events: str


class Page(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a list."""

    cursor: Annotated[
        str, Meta(max_length=64, pattern="^[!-~]*$", description="As the page before says.")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class ForkAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """From where another run is begun."""

    at: Annotated[int, Meta(ge=0, lt=2**53, description="The last entry that is taken over.")]


class Subject(Struct, frozen=True, forbid_unknown_fields=True):
    """Which gate of a run."""

    subject: GateSubject


class DecisionAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """What was decided, about what has this digest."""

    subject: GateSubject
    answer: Answer
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="Of what was looked at.")]


class EditAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be approved instead of what has this digest."""

    subject: GateSubject
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    shown: str


async def create(visit: Visit) -> Response:
    """Take a request on; the answer comes after it is durable, and before it is carried out."""
    desk, form, actor = visit.desk, visit.body, visit.principal.name
    check_gates(form.gates, visit.principal.scopes)
    if _is_small(visit) and desk.staff.needs_nobody(ask := ask_of(form)):
        # On the loop, where it takes less than to change threads: very many come in at once.
        await desk.turnstile.enter()
        order, past = desk.staff.order(ask), desk.tail.past
        return _taken(await desk.forum.submit_async(order, actor, past, visit.ticket))
    order = await desk.order(lambda: ask_of(form))
    return _taken(await desk.submit(order, actor, lambda: visit.ticket))


def _is_small(visit: Visit) -> bool:
    """Tell whether a request is taken on in less than a millisecond, whatever it says.

    `tests/surfaces/test_limits.py` measures the most expensive one.
    """
    form: AskForm = visit.body
    if visit.size > QUICK_BYTES or len(form.tasks) > _QUICK_TASKS or form.panel:
        return False
    return not any(task.done_when or task.tasks or task.panel for task in form.tasks)


def _taken(run: str) -> Response:
    href = f"/api/v1/runs/{run}"
    content = json.encode(Taken(run, href, f"{href}/events"))
    return Response(content, 202, {"Location": href}, "application/json")


def list_runs(visit: Visit) -> RunsPage:
    """List runs, the newest first."""
    page: Page = visit.query
    found = visit.desk.forum.recent_runs(page.cursor or None, page.limit)
    requests = {run: visit.desk.forum.request_of(run) for run, _ in found}
    return runs_page(found, requests, page.limit)


def get(visit: Visit) -> RunForm:
    """Return a run as it stands."""
    return run_form(visit.desk.forum.view(visit.path("run")))


def cancel(visit: Visit) -> Response:
    """Ask a run to end.  Nothing of it is told: who may only submit must not read by stopping."""
    run = visit.path("run")
    visit.desk.forum.cancel(run, visit.principal.name)
    return _taken(run)


def resume(visit: Visit) -> Response:
    """Have an interrupted run carried out again; any other goes on as it does."""
    run = visit.path("run")
    visit.desk.forum.resume(run, visit.principal.name)
    return _taken(run)


def fork(visit: Visit) -> Response:
    """Begin a run that takes over another one's replies up to an entry."""
    form: ForkAsk = visit.body
    forum, run = visit.desk.forum, visit.path("run")
    try:
        inside = forum.ledger.find(str(form.at)).entry.run == run
    except NoSuchEntry:
        inside = False
    if not inside:
        raise Refusal(Problem.UNFIT, f"entry {form.at} is none of run {run}")
    actor, ceiling = visit.principal.name, visit.desk.staff.known.ceiling
    return _taken(forum.fork(run, form.at, actor=actor, ticket=visit.ticket, ceiling=ceiling))


def list_gates(visit: Visit) -> GatesForm:
    """List everything that waits for a person."""
    return gates_form(visit.desk.forum.waiting_gates())


def show_gate(visit: Visit) -> ShownGateForm:
    """Show what waits for approval."""
    run, subject = visit.path("run"), visit.query.subject
    gate, shown = visit.desk.forum.gate(run, subject)
    return shown_gate_form(run, gate, shown)


def decide(visit: Visit) -> DecisionForm:
    """Approve or reject what has the digest of what was looked at."""
    form, run = visit.body, visit.path("run")
    by = visit.principal.approver
    visit.desk.forum.decide(run, form.subject, form.answer, form.digest, by)
    return DecisionForm(run, form.subject, form.answer, form.digest)


async def edit(visit: Visit) -> GateEditForm:
    """Replace what waits for approval."""
    return await prepare(lambda: _edit(visit))


def _edit(visit: Visit) -> GateEditForm:
    form, run = visit.body, visit.path("run")
    try:
        shown = form.shown.encode()
    except UnicodeEncodeError as error:
        raise Malformed("text", f"a lone surrogate at {error.start}") from None
    actor = visit.principal.name
    if form.subject == "plan":
        check_means(read_new_plan(shown).all_tasks, visit.desk.forum.read_case(run).policy)
    digest = visit.desk.forum.edit_gate(run, form.subject, form.digest, shown, actor)
    return GateEditForm(run, form.subject, digest)


RUNS = (
    Endpoint(
        "POST", "/api/v1/runs", "create_run", _SUBMIT,
        "Have a request carried out", create,
        reply=Taken, body=AskForm, status=202, idempotent=True, tag="runs",
        problems=(Problem.CAPPED,),
        example={"request": "Name three rivers.", "budget": {"usd": "0.50", "seconds": "600"}},
    ),
    Endpoint(
        "GET", "/api/v1/runs", "list_runs", READERS,
        "List runs, the newest first", list_runs, reply=RunsPage, query=Page, tag="runs",
    ),
    Endpoint(
        "GET", "/api/v1/runs/{run}", "get_run", READERS,
        "Look at a run", get, reply=RunForm, tag="runs",
    ),
    EVENTS,
    Endpoint(
        "POST", "/api/v1/runs/{run}/cancel", "cancel_run", _SUBMIT,
        "Ask a run to end", cancel,
        reply=Taken, status=202, problems=(Problem.ENDED,), tag="runs",
    ),
    Endpoint(
        "POST", "/api/v1/runs/{run}/resume", "resume_run", _SUBMIT,
        "Have an interrupted run carried out again", resume,
        reply=Taken, status=202, problems=(Problem.ENDED,), tag="runs",
    ),
    Endpoint(
        "POST", "/api/v1/runs/{run}/fork", "fork_run", _SUBMIT,
        "Begin a run from the middle of another one", fork,
        reply=Taken, body=ForkAsk, status=202, idempotent=True, tag="runs",
        problems=(Problem.GONE, Problem.CAPPED), example={"at": 12},
    ),
    Endpoint(
        "GET", "/api/v1/gates", "list_gates", READERS | _APPROVE,
        "List everything that waits for a person", list_gates, reply=GatesForm, tag="gates",
    ),
    Endpoint(
        "GET", "/api/v1/runs/{run}/gate", "show_gate", READERS | _APPROVE,
        "Show what waits for approval", show_gate, reply=ShownGateForm, query=Subject,
        problems=(Problem.GONE,), tag="gates",
    ),
    Endpoint(
        "POST", "/api/v1/runs/{run}/gate", "decide_gate", _APPROVE,
        "Approve or reject what waits", decide, reply=DecisionForm, body=DecisionAsk,
        problems=(Problem.DECIDED, Problem.MOVED), tag="gates",
        example={"subject": "plan", "answer": "approve", "digest": "0" * 64},
    ),
    Endpoint(
        "PUT", "/api/v1/runs/{run}/gate", "edit_gate", _APPROVE,
        "Replace what waits for approval", edit, reply=GateEditForm, body=EditAsk,
        problems=(Problem.DECIDED, Problem.MOVED, Problem.GONE), tag="gates",
        example={"subject": "task/rivers", "digest": "0" * 64, "shown": "Name two rivers."},
    ),
)  # fmt: skip
