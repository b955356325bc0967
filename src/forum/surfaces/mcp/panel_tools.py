"""The tools for deliberation: run a panel, and generate its personas."""

from functools import partial
from itertools import cycle, islice
from time import monotonic

import msgspec
from msgspec import Struct

from forum.app import RunView, new_run_id
from forum.deliberation import (
    DEFAULT_BUDGET,
    DEFAULT_PERSONAS,
    PERSONAS,
    Persona,
    PersonaClass,
    build_persona_task,
    draft_symposium,
    parse_personas,
)
from forum.errors import BadPlan
from forum.ledger import NO_LIMIT, Outcome, Scope
from forum.planning import ClientRequest
from forum.surfaces.formatting import run_duration
from forum.surfaces.mcp.arguments import (
    AdaptiveAsk,
    DeliberateAsk,
    Nothing,
    PersonaAsk,
    budget_from_arguments,
    without_wait,
)
from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.results import (
    DeliberatedForm,
    PersonasForm,
    ToolReply,
    deliberated_form,
    describe_panel,
    describe_run,
    invented_form,
)
from forum.surfaces.mcp.tool_calls import (
    McpCallContext,
    run_prepared,
    submit_request,
    threaded_tool,
    wait_for_run,
)
from forum.surfaces.requests import request_from_form
from forum.work import RunBudget, Task


async def deliberate(call: McpCallContext, ask: DeliberateAsk) -> ToolReply:
    """Have a panel deliberate; whoever then goes away does not stop it."""
    caller, form = call.caller, ask.form
    run = await run_prepared(
        call, lambda: submit_request(caller, request_from_form(form), form, ask.key)
    )
    if ask.wait:
        await wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.view_run, run)
    return _deliberation_reply(view, deliberated_form(view, ask.key))


async def deliberate_adaptive(call: McpCallContext, ask: AdaptiveAsk) -> ToolReply:
    """Have personas made up for a question, and then a panel of them deliberate.

    These are two runs.  Whoever asks again under the same key goes on with those that there are.
    """
    caller, key, deadline = call.caller, ask.key or new_run_id(), monotonic() + ask.seconds
    model, budget = ask.models[0] if ask.models else "", _total_budget(caller, ask)
    task = build_persona_task(ask.question, ask.kind, ask.seats, model)
    await run_prepared(call, lambda: _check_adaptive(caller, ask, budget))
    # The key of the first run is derived from that of the call, so that a repeated call with the
    # same key finds both runs again instead of starting new ones.
    invent = partial(
        _submit_persona_run, caller, task, budget, without_wait(ask), f"{key}/personas"
    )
    run = await run_prepared(call, invent)
    told = await wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.view_run, run)
    if view.state.outcome is not Outcome.OK:
        goes_on = view.state.outcome is None
        again = "Then ask this again, with the same `key`." if goes_on else "Nobody deliberates."
        return ToolReply(
            deliberated_form(view, key), f"Of the personas: {describe_run(view)} {again}"
        )
    personas = _read_generated_personas(view, ask.kind)
    left = _remaining_budget(budget, view)
    panel = draft_symposium(new_run_id(), ask.question, personas, ask.models, ask.rounds, left)
    order = ClientRequest(ask.question, budget=left, panel=panel)
    # Minutes may have passed: a key that was revoked meanwhile must not start another run.
    await caller.require_scopes("deliberate_adaptive", frozenset({Scope.SUBMIT}))
    run = await run_prepared(call, lambda: submit_request(caller, order, without_wait(ask), key))
    await wait_for_run(call, run, max(0.0, deadline - monotonic()), told + 1)
    view = await call.run_in_thread(caller.forum.view_run, run)
    return _deliberation_reply(view, deliberated_form(view, key, personas))


async def generate_persona(call: McpCallContext, ask: PersonaAsk) -> ToolReply:
    """Have one persona made up."""
    caller, task = call.caller, build_persona_task(ask.about, ask.kind, 1, ask.model)
    invent = partial(
        _submit_persona_run, caller, task, budget_from_arguments(ask), without_wait(ask), ask.key
    )
    run = await run_prepared(call, invent)
    await wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.view_run, run)
    if view.state.outcome is not Outcome.OK:
        return ToolReply(invented_form(view, None), describe_run(view))
    (persona,) = _read_generated_personas(view, ask.kind)
    said = msgspec.json.encode(persona).decode()
    return ToolReply(invented_form(view, persona), describe_run(view), said)


@threaded_tool
def list_personas(_caller: McpCaller, _: Nothing) -> ToolReply:
    """List the personas that there are."""
    lines = [f"{one.id}: {one.reasoning_scope}; {one.reasoning_style}" for one in PERSONAS.values()]
    return ToolReply(PersonasForm(tuple(PERSONAS.values())), "\n".join(lines))


def _check_adaptive(caller: McpCaller, ask: AdaptiveAsk, budget: RunBudget) -> None:
    """Raise now what would otherwise be raised after the personas were generated and paid for."""
    sitting = list(islice(cycle(DEFAULT_PERSONAS), ask.seats))
    panel = draft_symposium(new_run_id(), ask.question, sitting, ask.models, ask.rounds, budget)
    caller.staff.make_run_request(ClientRequest(ask.question, budget=budget, panel=panel))


def _submit_persona_run(
    caller: McpCaller, task: Task, budget: RunBudget, form: Struct, key: str | None
) -> str:
    """Submit the run that generates personas, and return it."""
    if not caller.staff.team_settings.agents:
        raise BadPlan("nobody can make up a persona: name a model in forum.toml ([models.NAME])")
    order = ClientRequest(
        "Make up who sits on a panel.", (task,), team=False, route=False, budget=budget
    )
    return submit_request(caller, order, form, key)


def _read_generated_personas(view: RunView, kind: PersonaClass) -> tuple[Persona, ...]:
    return parse_personas(view.answer or b"", kind)


def _deliberation_reply(view: RunView, form: DeliberatedForm) -> ToolReply:
    """Return the result of a panel, or the information that it needs first."""
    return ToolReply(
        form, describe_panel(view, form), form.question or form.research or form.answer or ""
    )


def _total_budget(caller: McpCaller, ask: AdaptiveAsk) -> RunBudget:
    """Return the budget for both runs: the client's, completed with the defaults of a session.

    Both runs are one request of the client, so the operator's ceiling applies to their sum.
    """
    budget = budget_from_arguments(ask)
    wished = ((name, getattr(budget, name)) for name in RunBudget.__struct_fields__)
    whole = {n: getattr(DEFAULT_BUDGET, n) if value == NO_LIMIT else value for n, value in wished}
    return RunBudget(**whole).capped_by(caller.staff.team_settings.ceiling)


def _remaining_budget(budget: RunBudget, view: RunView) -> RunBudget:
    """Return the part of a budget that a run has left."""
    spent = view.state.spent
    used = {**spent._asdict(), "milliseconds": -(-run_duration(view) // 1000)}
    wholes = ((name, getattr(budget, name)) for name in used)
    left = {n: max(0, most - used[n]) for n, most in wholes if most != NO_LIMIT}
    return msgspec.structs.replace(budget, **left)
