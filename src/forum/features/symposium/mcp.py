"""Tools that have personas made up: one, or a panel that then deliberates."""

from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from time import monotonic
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from forum.app import RunView, new_run_id
from forum.app.formatting import run_duration
from forum.engine import RunRequest
from forum.errors import BadPlan
from forum.features.symposium.persona_generation import (
    MAX_PERSONAS,
    PersonaClass,
    build_persona_task,
    parse_personas,
)
from forum.features.symposium.seating import DEFAULT_BUDGET, DEFAULT_ROUNDS, draft_symposium
from forum.ledger.kinds import Outcome, Scope
from forum.ledger.ports import NO_LIMIT
from forum.runs.panel import MAX_ROUNDS, Symposium
from forum.runs.personas import DEFAULT_PERSONAS, Persona
from forum.runs.plan import Plan, RunBudget, Task
from forum.surfaces import requests
from forum.surfaces.mcp import arguments, results, tool_calls
from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.tools import ToolDeclaration, ToolHints


class PersonaAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """The request for a persona."""

    about: Annotated[
        str,
        Meta(
            min_length=1,
            pattern=r"\S",
            description="The question, or the subject, that it is for.",
        ),
    ]
    kind: Annotated[
        PersonaClass,
        Meta(description="`domain`: knows a subject, and keeps to it; `horizontal`: any subject."),
    ] = PersonaClass.DOMAIN
    model: Annotated[
        requests.AgentName,
        Meta(description="The agent that generates it. Default: the default agent."),
    ] = ""
    budget_usd: arguments.Usd = None
    max_seconds: arguments.Seconds = None
    key: arguments.Key = None
    seconds: arguments.Wait = 50.0


class AdaptiveAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A question for a panel whose personas are generated for it."""

    question: arguments.Question = None
    seats: Annotated[
        int, Meta(ge=1, le=MAX_PERSONAS, description="The number of personas to generate.")
    ] = 3
    kind: Annotated[PersonaClass, Meta(description="Which personas.")] = PersonaClass.DOMAIN
    models: arguments.Models = ()
    rounds: Annotated[int, Meta(ge=1, le=MAX_ROUNDS, description="How many at most.")] = (
        DEFAULT_ROUNDS
    )
    budget_usd: arguments.Usd = None
    max_seconds: arguments.Seconds = None
    key: arguments.Key = None
    seconds: arguments.Wait = 50.0
    problem: arguments.Problem = None


class InventedForm(results.StatusForm, frozen=True):
    """How far making up a persona has come, and the persona."""

    persona: Annotated[Persona | None, Meta(description="Null before it is there.")]


def invented_form(view: RunView, persona: Persona | None) -> InventedForm:
    """Return the progress of generating a persona as structured content."""
    return InventedForm(**results.status_members(view), persona=persona)


async def deliberate_adaptive(
    call: tool_calls.McpCallContext, ask: AdaptiveAsk
) -> results.ToolReply:
    """Have personas made up for a question, and then a panel of them deliberate.

    These are two runs.  Whoever asks again under the same key goes on with those that there are.
    """
    caller, key = call.caller, ask.key or new_run_id()
    deadline = monotonic() + ask.seconds
    question = arguments.asked_question(ask.question, ask.problem)
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
    panel = draft_symposium(
        new_run_id(), question, personas, ask.models, rounds=ask.rounds, budget=left
    )
    # Minutes may have passed: a key that was revoked meanwhile must not start another run.
    await caller.require_scopes("deliberate_adaptive", frozenset({Scope.SUBMIT}))

    def submit() -> str:
        request = _panel_request(caller, question, panel, left)
        return tool_calls.submit_request(caller, request, arguments.without_wait(ask), key)

    run = await tool_calls.run_prepared(call, submit)
    await tool_calls.wait_for_run(call, run, max(0.0, deadline - monotonic()), reported + 1)
    view = await call.run_in_thread(caller.forum.reads.view_run, run)
    return results.deliberation_reply(view, results.deliberated_form(view, key, personas))


async def generate_persona(call: tool_calls.McpCallContext, ask: PersonaAsk) -> results.ToolReply:
    """Have one persona made up."""
    caller, task = call.caller, build_persona_task(ask.about, ask.kind, 1, ask.model)
    invent = partial(
        _submit_persona_run,
        caller,
        task,
        _read_budget(ask),
        arguments.without_wait(ask),
        ask.key,
    )
    run = await tool_calls.run_prepared(call, invent)
    await tool_calls.wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.reads.view_run, run)
    if view.state.outcome is not Outcome.OK:
        return results.ToolReply(invented_form(view, None), results.describe_run(view))
    (persona,) = _read_generated_personas(view, ask.kind)
    text = msgspec.json.encode(persona).decode()
    return results.ToolReply(invented_form(view, persona), results.describe_run(view), text)


def _check_adaptive(caller: McpCaller, ask: AdaptiveAsk, budget: RunBudget) -> None:
    """Raise now what would otherwise be raised after the personas were generated and paid for."""
    sitting = list(islice(cycle(DEFAULT_PERSONAS), ask.seats))
    question = arguments.asked_question(ask.question, ask.problem)
    panel = draft_symposium(
        new_run_id(), question, sitting, ask.models, rounds=ask.rounds, budget=budget
    )
    _panel_request(caller, question, panel, budget)


def _panel_request(
    caller: McpCaller, question: str, panel: Symposium, budget: RunBudget
) -> RunRequest:
    request = RunRequest(question, None, caller.registry.current_policy(), budget)
    return caller.registry.decide(request, caller.authority, panel=panel)


def _submit_persona_run(
    caller: McpCaller, task: Task, budget: RunBudget, form: Struct, key: str | None
) -> str:
    """Submit the run that generates personas, and return it."""
    if not caller.registry.team_settings.agents:
        raise BadPlan("no model can generate personas: add [models.NAME] to forum.toml")
    policy = caller.registry.current_policy()
    request = RunRequest("Make up who sits on a panel.", Plan((task,)), policy, budget)
    request = caller.registry.decide(request, caller.authority, team=False)
    return tool_calls.submit_request(caller, request, form, key)


def _read_generated_personas(view: RunView, kind: PersonaClass) -> tuple[Persona, ...]:
    return parse_personas(view.answer or b"", kind)


def _total_budget(caller: McpCaller, ask: AdaptiveAsk) -> RunBudget:
    """Return the budget for both runs: the client's, completed with the defaults of a session.

    Both runs are one request of the client, so the operator's ceiling applies to their sum.
    """
    budget = _read_budget(ask)
    wished = ((name, getattr(budget, name)) for name in RunBudget.__struct_fields__)
    whole = {n: getattr(DEFAULT_BUDGET, n) if value == NO_LIMIT else value for n, value in wished}
    ceiling = caller.registry.ceiling_for(caller.authority)
    return RunBudget(**whole).capped_by(ceiling) if ceiling else RunBudget(**whole)


def _remaining_budget(budget: RunBudget, view: RunView) -> RunBudget:
    """Return the part of a budget that a run has left."""
    spent = view.state.spent
    used = {**spent._asdict(), "milliseconds": -(-run_duration(view) // 1000)}
    wholes = ((name, getattr(budget, name)) for name in used)
    left = {n: max(0, most - used[n]) for n, most in wholes if most != NO_LIMIT}
    return msgspec.structs.replace(budget, **left)


def _read_budget(ask: PersonaAsk | AdaptiveAsk) -> RunBudget:
    return requests.budget_from_form(arguments.make_budget(ask.budget_usd, ask.max_seconds))


TOOLS: Sequence[ToolDeclaration] = (
    ToolDeclaration(
        "deliberate_adaptive", title="Have a panel made up for a question deliberate",
        about="Have personas made up for a question first, and then a symposium of them "
            "deliberate on "
        "it. If the panel needs to know something from the person who asks, its `question` is "
        "returned: ask them, and answer nothing in their place. After a call that was too short, "
        "ask again with the `key` that it gave.",
        scopes=frozenset({Scope.SUBMIT}), takes=AdaptiveAsk, gives=results.DeliberatedForm,
        do=deliberate_adaptive,
        hints=ToolHints(destroys=True, open_world=True), after="deliberate",
    ),
    ToolDeclaration(
        "generate_persona", title="Make up a persona",
        about="Have a model make up a persona for a question: one that knows a subject, or a way "
            "of "
        "thinking. It can be given to `deliberate`. The call is a recorded run.",
        scopes=frozenset({Scope.SUBMIT}), takes=PersonaAsk, gives=InventedForm, do=generate_persona,
        hints=ToolHints(destroys=True, open_world=True), after="deliberate_adaptive",
    ),
)  # fmt: skip
