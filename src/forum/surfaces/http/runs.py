"""Endpoints for runs and gates: submit, list, show, cancel, resume and fork runs; decide gates."""

from typing import Annotated

from msgspec import Meta, Struct, json
from starlette.responses import Response

from forum import __version__
from forum.app import MAX_SCANNED_RUNS
from forum.app.planner import CallerAuthority, check_client_rights
from forum.engine import RunRequest
from forum.errors import Malformed
from forum.ledger.kinds import Scope
from forum.limits.off_loop import MAX_INLINE_BYTES
from forum.runs.plan import read_new_plan
from forum.runs.policy import Answer
from forum.surfaces import requests
from forum.surfaces.cpu_limits import run_cpu_bounded
from forum.surfaces.http.endpoints import READERS, Endpoint, RequestContext
from forum.surfaces.http.events import RUN_EVENTS
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.schemas import gates, runs
from forum.surfaces.schemas.comparison import DiffForm, compare_runs
from forum.surfaces.schemas.transcripts import TranscriptPage, transcript_page

_MAX_INLINE_TASKS = 5
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
    worker: Annotated[
        bool,
        Meta(
            description="Whether a worker was seen that carries out runs of this ledger. If not, "
            "the run waits until one is started: `forum worker`. A worker of many ledgers is seen "
            "only while it has work in this one."
        ),
    ]


class RunsPageAsk(runs.RunsFilter, frozen=True, forbid_unknown_fields=True):
    """Which runs, and which part of the list."""

    cursor: Annotated[
        str,
        Meta(
            max_length=64, pattern="^[!-~]*$", description="The cursor that the previous page gave."
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class ForkAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """From where another run is begun."""

    at: Annotated[int, Meta(ge=0, lt=2**53, description="The last entry that the new run copies.")]


class Subject(Struct, frozen=True, forbid_unknown_fields=True):
    """Which gate of a run."""

    subject: GateSubject


class DecisionAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision at a gate. It names the digest of the content that was decided on."""

    subject: GateSubject
    answer: Answer
    digest: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}$", description="The digest of the content that was decided on."
        ),
    ]
    reason: gates.DecisionReason = ""


class EditAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be approved instead of what has this digest."""

    subject: GateSubject
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    shown: str


async def create_run(context: RequestContext) -> Response:
    """Take a request on; the answer comes after it is durable, and before it is carried out."""
    tenant, form = context.tenant, context.body
    actor = context.principal.name
    requests.check_gate_authority(form.gates, context.principal.scopes)
    principal = context.principal

    def build() -> RunRequest:
        subject = requests.read_subject(tenant.forum, form, principal.scopes)
        return requests.run_request_from_form(form, tenant.registry, principal.authority, subject)

    if not _is_small(context):
        request = await tenant.build_run_request(build)
        return _accepted_run(
            tenant, await tenant.submit(request, actor, lambda: context.idempotency_key)
        )
    if _is_planned_in_thread(context):
        request = await tenant.build_run_request(build)
    else:
        await tenant.admission.wait_for_slot()
        request = build()
    # On the event loop: for a small request this is cheaper than a change of threads, and none of
    # the few threads waits until the commit is durable.
    past = tenant.log_follower.latest_checkpoint
    return _accepted_run(
        tenant, await tenant.forum.runs.submit_async(request, actor, past, context.idempotency_key)
    )


def _is_small(context: RequestContext) -> bool:
    """Return whether a request is recorded in less than a millisecond, whatever its content.

    `tests/surfaces/test_limits.py` measures the most expensive one.
    """
    form: requests.AskForm = context.body
    if (
        len(context.raw) > MAX_INLINE_BYTES
        or context.tenant.registry.team_settings.servers
        or form.panel
        or form.panels
        or form.about
    ):
        return False
    is_plain = not any(task.done_when or task.tasks or task.panel for task in form.tasks)
    return is_plain and len(form.tasks) <= _MAX_INLINE_TASKS


def _is_planned_in_thread(context: RequestContext) -> bool:
    """Return whether deciding the plan of a small request may take longer than a millisecond."""
    form: requests.AskForm = context.body
    registry = context.tenant.registry
    if form.tasks or not registry.is_routed(
        registry.base_policy, lane=form.lane, team=form.team, route=form.route
    ):
        return False
    return not registry.can_route_inline(form.request, lane=form.lane, team=form.team)


def _accepted_run(tenant: Tenant, run: str) -> Response:
    href = f"/api/v1/runs/{run}"
    content = json.encode(Taken(run, href, f"{href}/events", tenant.has_worker))
    return Response(content, 202, {"Location": href}, "application/json")


def list_runs(context: RequestContext) -> runs.RunsPage:
    """List runs, the newest first."""
    ask: RunsPageAsk = context.query
    reads = context.tenant.forum.reads
    query = runs.run_query(ask)
    return runs.runs_page(
        reads.list_runs(query, ask.cursor or None, ask.limit, max_scanned=MAX_SCANNED_RUNS)
    )


class UntilAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """The point in the run up to which it is shown."""

    until: Annotated[
        Annotated[int, Meta(ge=0, lt=2**53)] | None,
        Meta(description="The index of the last entry that is taken into account."),
    ] = None


def get_run(context: RequestContext) -> runs.RunForm:
    """Return a run as it stands, or as it stood when an entry was the last."""
    ask: UntilAsk = context.query
    forum = context.tenant.forum
    last = None if ask.until is None else forum.ledger.find_entry(str(ask.until))
    return runs.run_form(forum.reads.view_run(context.path_param("run"), last))


class TranscriptAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a transcript."""

    after: Annotated[
        int, Meta(ge=0, lt=2**53, description="How many steps are left out; as `next` says.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


def get_transcript(context: RequestContext) -> TranscriptPage:
    """Return the calls of models and tools of a run, decoded into messages."""
    ask: TranscriptAsk = context.query
    record = context.tenant.forum.reads.read_run_record(context.path_param("run"))
    return transcript_page(record, ask.after, ask.limit)


def diff_runs(context: RequestContext) -> DiffForm:
    """Compare two runs by the rules of `forum diff`."""
    names = context.path_param("run"), context.path_param("other")
    return compare_runs(context.tenant.forum.reads, *names)


class MeForm(Struct, frozen=True):
    """Who a client is to this server, and which ledger it uses."""

    name: Annotated[str, Meta(description="The actor of the entries that the client records.")]
    scopes: tuple[Scope, ...]
    ledger: Annotated[str, Meta(description="The origin of the log.")]
    version: Annotated[str, Meta(description="The version of Forum.")]


def get_me(context: RequestContext) -> MeForm:
    """Return the name and the scopes of the client."""
    who = context.principal
    return MeForm(who.name, tuple(sorted(who.scopes)), context.tenant.forum.origin, __version__)


def cancel_run(context: RequestContext) -> Response:
    """Ask a run to end.  Nothing of it is told: who may only submit must not read by stopping."""
    run = context.path_param("run")
    context.tenant.forum.runs.cancel(run, context.principal.name)
    return _accepted_run(context.tenant, run)


def resume_run(context: RequestContext) -> Response:
    """Have an interrupted run carried out again; any other goes on as it does."""
    run = context.path_param("run")
    context.tenant.forum.runs.resume(run, context.principal.name)
    return _accepted_run(context.tenant, run)


def fork_run(context: RequestContext) -> Response:
    """Begin a run that takes over another one's replies up to an entry."""
    form: ForkAsk = context.body
    forum, run = context.tenant.forum, context.path_param("run")
    principal = context.principal
    requests.check_fork(forum, run, form.at, principal.authority, scopes=principal.scopes)
    actor, ceiling = principal.name, context.tenant.registry.ceiling_for(principal.authority)
    return _accepted_run(
        context.tenant,
        forum.runs.fork(
            run, form.at, actor=actor, idempotency_key=context.idempotency_key, ceiling=ceiling
        ),
    )


def list_gates(context: RequestContext) -> gates.GatesForm:
    """List everything that waits for a person."""
    reads = context.tenant.forum.reads
    return gates.gates_form(reads.locate_gates(reads.waiting_gates()))


def show_gate(context: RequestContext) -> gates.ShownGateForm:
    """Show what waits for approval."""
    run, subject = context.path_param("run"), context.query.subject
    reads = context.tenant.forum.reads
    return gates.shown_gate_form(reads.explain_gate(run, subject))


def decide_gate(context: RequestContext) -> gates.DecisionForm:
    """Approve or reject what has the digest of what was looked at."""
    form, run = context.body, context.path_param("run")
    by = context.principal.approver
    context.tenant.forum.runs.decide_gate(
        run, form.subject, form.answer, form.digest, by=by, reason=form.reason
    )
    return gates.DecisionForm(run, form.subject, form.answer, form.digest)


async def edit_gate(context: RequestContext) -> gates.GateEditForm:
    """Replace what waits for approval."""
    return await run_cpu_bounded(lambda: _replace_gated_content(context))


def _replace_gated_content(context: RequestContext) -> gates.GateEditForm:
    form, run = context.body, context.path_param("run")
    try:
        shown = form.shown.encode()
    except UnicodeEncodeError as error:
        raise Malformed("text", f"a lone surrogate at {error.start}") from None
    actor = context.principal.name
    if form.subject == "plan" and context.principal.authority is CallerAuthority.CLIENT:
        # Otherwise an edited plan could get around the tool permissions.
        check_client_rights(
            read_new_plan(shown).all_tasks, context.tenant.forum.reads.read_run_context(run).policy
        )
    digest = context.tenant.forum.runs.edit_gate(run, form.subject, form.digest, shown, actor=actor)
    return gates.GateEditForm(run, form.subject, digest)


RUNS = (
    Endpoint(
        "POST", path="/api/v1/runs", name="create_run", scopes=_SUBMIT,
        summary="Have a request carried out", handle=create_run,
        reply=Taken, body=requests.AskForm, status=202, idempotent=True, tag="runs",
        problems=(ProblemType.CAPPED,),
        example={"request": "Name three rivers.", "budget": {"usd": "0.50", "seconds": "600"}},
    ),
    Endpoint(
        "GET", path="/api/v1/runs", name="list_runs", scopes=READERS,
        summary="List runs, the newest first", handle=list_runs,
        reply=runs.RunsPage, query=RunsPageAsk, problems=(ProblemType.UNFIT,), tag="runs",
    ),
    Endpoint(
        "GET", path="/api/v1/runs/{run}", name="get_run", scopes=READERS,
        summary="Look at a run, as it stands or as it stood", handle=get_run,
        reply=runs.RunForm, query=UntilAsk, tag="runs",
    ),
    Endpoint(
        "GET", path="/api/v1/runs/{run}/transcript", name="get_transcript", scopes=READERS,
        summary="Read the calls of a run as messages", handle=get_transcript,
        reply=TranscriptPage, query=TranscriptAsk, tag="runs",
    ),
    Endpoint(
        "GET", path="/api/v1/runs/{run}/diff/{other}", name="diff_runs", scopes=READERS,
        summary="Compare two runs, step by step", handle=diff_runs, reply=DiffForm, tag="runs",
    ),
    Endpoint(
        "GET", path="/api/v1/me", name="get_me", scopes=frozenset(Scope),
        summary="Who the client is: name, scopes, ledger", handle=get_me, reply=MeForm, tag="keys",
    ),
    RUN_EVENTS,
    Endpoint(
        "POST", path="/api/v1/runs/{run}/cancel", name="cancel_run", scopes=_SUBMIT,
        summary="Ask a run to end", handle=cancel_run,
        reply=Taken, status=202, problems=(ProblemType.ENDED,), tag="runs",
    ),
    Endpoint(
        "POST", path="/api/v1/runs/{run}/resume", name="resume_run", scopes=_SUBMIT,
        summary="Have an interrupted run carried out again", handle=resume_run,
        reply=Taken, status=202, problems=(ProblemType.ENDED,), tag="runs",
    ),
    Endpoint(
        "POST", path="/api/v1/runs/{run}/fork", name="fork_run", scopes=_SUBMIT,
        summary="Begin a run from the middle of another one", handle=fork_run,
        reply=Taken, body=ForkAsk, status=202, idempotent=True, tag="runs",
        problems=(ProblemType.GONE, ProblemType.CAPPED), example={"at": 12},
    ),
    Endpoint(
        "GET", path="/api/v1/gates", name="list_gates", scopes=READERS | _APPROVE,
        summary="List everything that waits for a person", handle=list_gates, reply=gates.GatesForm,
        tag="gates",
    ),
    Endpoint(
        "GET", path="/api/v1/runs/{run}/gate", name="show_gate", scopes=READERS | _APPROVE,
        summary="Show what waits for approval", handle=show_gate, reply=gates.ShownGateForm,
        query=Subject,
        problems=(ProblemType.GONE,), tag="gates",
    ),
    Endpoint(
        "POST", path="/api/v1/runs/{run}/gate", name="decide_gate", scopes=_APPROVE,
        summary="Approve or reject what waits", handle=decide_gate, reply=gates.DecisionForm,
        body=DecisionAsk,
        problems=(ProblemType.DECIDED, ProblemType.MOVED), tag="gates",
        example={"subject": "plan", "answer": "approve", "digest": "0" * 64},
    ),
    Endpoint(
        "PUT", path="/api/v1/runs/{run}/gate", name="edit_gate", scopes=_APPROVE,
        summary="Replace what waits for approval", handle=edit_gate, reply=gates.GateEditForm,
        body=EditAsk,
        problems=(ProblemType.DECIDED, ProblemType.MOVED, ProblemType.GONE), tag="gates",
        example={"subject": "task/rivers", "digest": "0" * 64, "shown": "Name two rivers."},
    ),
)  # fmt: skip
