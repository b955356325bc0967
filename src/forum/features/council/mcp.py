"""The tools for deliberation: run a panel, and generate its personas."""

from functools import partial
from itertools import cycle, islice
from time import monotonic

import msgspec
from msgspec import Struct

from forum.app import RunView, new_run_id
from forum.app.formatting import run_duration
from forum.engine import RunRequest
from forum.errors import BadPlan, Malformed
from forum.features.symposium.decoders import read_script
from forum.features.symposium.persona_generation import (
    PersonaClass,
    build_persona_task,
    parse_personas,
)
from forum.features.symposium.personas import PERSONAS
from forum.features.symposium.schemas import Persona
from forum.features.symposium.seating import DEFAULT_BUDGET, DEFAULT_PERSONAS, draft_symposium
from forum.features.symposium.service import build_scripted_panel
from forum.ledger.kinds import Outcome, Scope
from forum.ledger.ports import NO_LIMIT
from forum.runs.panel import Protocol, Symposium
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import Policy
from forum.surfaces.mcp import arguments, results, tool_calls
from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.requests import (
    AskForm,
    PanelAsk,
    budget_from_form,
    read_subject,
    run_request_from_form,
    symposium_from_form,
)


async def deliberate(
    call: tool_calls.McpCallContext, ask: arguments.DeliberateAsk
) -> results.ToolReply:
    """Have a panel deliberate; whoever then goes away does not stop it."""
    caller, form = call.caller, ask.form

    def submit() -> str:
        if ask.script is not None or ask.provider is not None:
            order = _scripted_request(caller, ask, form)
            played = msgspec.structs.replace(ask, wait=True)
            return tool_calls.submit_request(caller, order, arguments.without_wait(played), ask.key)
        subject = read_subject(caller.forum, form, caller.scopes)
        order = run_request_from_form(form, caller.staff, caller.authority, subject)
        return tool_calls.submit_request(caller, order, form, ask.key)

    run = await tool_calls.run_prepared(call, submit)
    if ask.wait:
        await tool_calls.wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.reads.view_run, run)
    return _deliberation_reply(view, results.deliberated_form(view, ask.key))


async def deliberate_adaptive(
    call: tool_calls.McpCallContext, ask: arguments.AdaptiveAsk
) -> results.ToolReply:
    """Have personas made up for a question, and then a panel of them deliberate.

    These are two runs.  Whoever asks again under the same key goes on with those that there are.
    """
    caller, key, deadline = call.caller, ask.key or new_run_id(), monotonic() + ask.seconds
    question = arguments.asked_question(ask)
    model, budget = ask.models[0] if ask.models else "", _total_budget(caller, ask)
    task = build_persona_task(question, ask.kind, ask.seats, model)
    await tool_calls.run_prepared(call, lambda: _check_adaptive(caller, ask, budget))
    # The key of the first run is derived from that of the call, so that a repeated call with the
    # same key finds both runs again instead of starting new ones.
    invent = partial(
        _submit_persona_run, caller, task, budget, arguments.without_wait(ask), f"{key}/personas"
    )
    run = await tool_calls.run_prepared(call, invent)
    reported = await tool_calls.wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.reads.view_run, run)
    if view.state.outcome is not Outcome.OK:
        goes_on = view.state.outcome is None
        again = "Then ask this again, with the same `key`." if goes_on else "Nobody deliberates."
        return results.ToolReply(
            results.deliberated_form(view, key),
            f"Of the personas: {results.describe_run(view)} {again}",
        )
    personas = _read_generated_personas(view, ask.kind)
    left = _remaining_budget(budget, view)
    panel = draft_symposium(new_run_id(), question, personas, ask.models, ask.rounds, left)
    # Minutes may have passed: a key that was revoked meanwhile must not start another run.
    await caller.require_scopes("deliberate_adaptive", frozenset({Scope.SUBMIT}))

    def submit() -> str:
        order = _panel_request(caller, question, panel, left)
        return tool_calls.submit_request(caller, order, arguments.without_wait(ask), key)

    run = await tool_calls.run_prepared(call, submit)
    await tool_calls.wait_for_run(call, run, max(0.0, deadline - monotonic()), reported + 1)
    view = await call.run_in_thread(caller.forum.reads.view_run, run)
    return _deliberation_reply(view, results.deliberated_form(view, key, personas))


async def generate_persona(
    call: tool_calls.McpCallContext, ask: arguments.PersonaAsk
) -> results.ToolReply:
    """Have one persona made up."""
    caller, task = call.caller, build_persona_task(ask.about, ask.kind, 1, ask.model)
    invent = partial(
        _submit_persona_run,
        caller,
        task,
        arguments.budget_from_arguments(ask),
        arguments.without_wait(ask),
        ask.key,
    )
    run = await tool_calls.run_prepared(call, invent)
    await tool_calls.wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.reads.view_run, run)
    if view.state.outcome is not Outcome.OK:
        return results.ToolReply(results.invented_form(view, None), results.describe_run(view))
    (persona,) = _read_generated_personas(view, ask.kind)
    text = msgspec.json.encode(persona).decode()
    return results.ToolReply(results.invented_form(view, persona), results.describe_run(view), text)


@tool_calls.threaded_tool
def list_personas(_caller: McpCaller, _: arguments.Nothing) -> results.ToolReply:
    """List the personas that there are."""
    lines = [
        f"{persona.id}: {persona.reasoning_scope}; {persona.reasoning_style}"
        for persona in PERSONAS.values()
    ]
    return results.ToolReply(results.PersonasForm(tuple(PERSONAS.values())), "\n".join(lines))


def _scripted_request(caller: McpCaller, ask: arguments.DeliberateAsk, form: AskForm) -> RunRequest:
    """Return a request for a symposium that is played by a script.  Raises `Malformed`, `BadPlan`.

    The script is content: a path would be read with the rights of the server, not of its caller.
    """
    if ask.script is None:
        raise Malformed("arguments", '`provider` is "fake": pass its script as `script`')
    if ask.about is not None:
        raise BadPlan("about: a script knows no answer of a run; leave it out")
    if ask.models:
        raise BadPlan("models: a script answers, and no model is called; leave them out")
    panel_ask = msgspec.structs.replace(form.panel or PanelAsk(), protocol=Protocol.SYMPOSIUM)
    budget = budget_from_form(form.budget)
    drafted = symposium_from_form(panel_ask, form.request, budget)
    selector = read_script(ask.selector_script) if ask.selector_script is not None else None
    panel, agents = build_scripted_panel(
        drafted.config, form.request, read_script(ask.script), selector
    )
    order = RunRequest(form.request, None, Policy(agents=agents), budget)
    return caller.staff.decide(order, caller.authority, panel=panel)


def _check_adaptive(caller: McpCaller, ask: arguments.AdaptiveAsk, budget: RunBudget) -> None:
    """Raise now what would otherwise be raised after the personas were generated and paid for."""
    sitting = list(islice(cycle(DEFAULT_PERSONAS), ask.seats))
    question = arguments.asked_question(ask)
    panel = draft_symposium(new_run_id(), question, sitting, ask.models, ask.rounds, budget)
    _panel_request(caller, question, panel, budget)


def _panel_request(
    caller: McpCaller, question: str, panel: Symposium, budget: RunBudget
) -> RunRequest:
    order = RunRequest(question, None, caller.staff.current_policy(), budget)
    return caller.staff.decide(order, caller.authority, panel=panel)


def _submit_persona_run(
    caller: McpCaller, task: Task, budget: RunBudget, form: Struct, key: str | None
) -> str:
    """Submit the run that generates personas, and return it."""
    if not caller.staff.team_settings.agents:
        raise BadPlan("no model can generate personas: add [models.NAME] to forum.toml")
    policy = caller.staff.current_policy()
    order = RunRequest("Make up who sits on a panel.", Plan((task,)), policy, budget)
    order = caller.staff.decide(order, caller.authority, team=False)
    return tool_calls.submit_request(caller, order, form, key)


def _read_generated_personas(view: RunView, kind: PersonaClass) -> tuple[Persona, ...]:
    return parse_personas(view.answer or b"", kind)


def _deliberation_reply(view: RunView, form: results.DeliberatedForm) -> results.ToolReply:
    """Return the result of a panel, or the information that it needs first."""
    return results.ToolReply(
        form,
        results.describe_panel(view, form),
        form.question or form.research or form.answer or "",
    )


def _total_budget(caller: McpCaller, ask: arguments.AdaptiveAsk) -> RunBudget:
    """Return the budget for both runs: the client's, completed with the defaults of a session.

    Both runs are one request of the client, so the operator's ceiling applies to their sum.
    """
    budget = arguments.budget_from_arguments(ask)
    wished = ((name, getattr(budget, name)) for name in RunBudget.__struct_fields__)
    whole = {n: getattr(DEFAULT_BUDGET, n) if value == NO_LIMIT else value for n, value in wished}
    ceiling = caller.staff.ceiling_for(caller.authority)
    return RunBudget(**whole).capped_by(ceiling) if ceiling else RunBudget(**whole)


def _remaining_budget(budget: RunBudget, view: RunView) -> RunBudget:
    """Return the part of a budget that a run has left."""
    spent = view.state.spent
    used = {**spent._asdict(), "milliseconds": -(-run_duration(view) // 1000)}
    wholes = ((name, getattr(budget, name)) for name in used)
    left = {n: max(0, most - used[n]) for n, most in wholes if most != NO_LIMIT}
    return msgspec.structs.replace(budget, **left)
