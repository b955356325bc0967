"""The tools of deliberation: having a panel deliberate, and making up who sits on it."""

from functools import partial
from itertools import cycle, islice
from time import monotonic

import msgspec
from msgspec import Struct

from forum.app import RunView, new_run
from forum.deliberation import (
    CAPS,
    PANELISTS,
    PERSONAS,
    Persona,
    PersonaClass,
    draft_symposium,
    persona_task,
    read_personas,
)
from forum.errors import BadPlan
from forum.ledger import NO_LIMIT, Outcome, Scope
from forum.staff import Ask
from forum.surfaces.asking import ask_of
from forum.surfaces.mcp.asks import (
    AdaptiveAsk,
    DeliberateAsk,
    Nothing,
    PersonaAsk,
    asked_in,
    budget_in,
)
from forum.surfaces.mcp.callers import Caller
from forum.surfaces.mcp.calls import Call, in_thread, prepared, take_on, wait_for
from forum.surfaces.mcp.replies import (
    DeliberatedForm,
    PersonasForm,
    Reply,
    deliberated_form,
    invented_form,
    panel_words,
    run_words,
)
from forum.surfaces.telling import run_time
from forum.work import Budget, Task


async def deliberate(call: Call, ask: DeliberateAsk) -> Reply:
    """Have a panel deliberate; whoever then goes away does not stop it."""
    caller, form = call.caller, ask.form
    run = await prepared(call, lambda: take_on(caller, ask_of(form), form, ask.key))
    if ask.wait:
        await wait_for(call, run, ask.seconds)
    view = await call.thread(caller.forum.view, run)
    return _told(view, deliberated_form(view, ask.key))


async def deliberate_adaptive(call: Call, ask: AdaptiveAsk) -> Reply:
    """Have personas made up for a question, and then a panel of them deliberate.

    These are two runs.  Whoever asks again under the same key goes on with those that there are.
    """
    caller, key, deadline = call.caller, ask.key or new_run(), monotonic() + ask.seconds
    model, budget = ask.models[0] if ask.models else "", _whole(caller, ask)
    task = persona_task(ask.question, ask.kind, ask.seats, model)
    await prepared(call, lambda: _rehearse(caller, ask, budget))
    invent = partial(_invent, caller, task, budget, asked_in(ask), f"{key}/personas")
    run = await prepared(call, invent)
    told = await wait_for(call, run, ask.seconds)
    view = await call.thread(caller.forum.view, run)
    if view.state.outcome is not Outcome.OK:
        goes_on = view.state.outcome is None
        again = "Then ask this again, with the same `key`." if goes_on else "Nobody deliberates."
        return Reply(deliberated_form(view, key), f"Of the personas: {run_words(view)} {again}")
    personas = _personas(view, ask.kind)
    left = _left(budget, view)
    panel = draft_symposium(new_run(), ask.question, personas, ask.models, ask.rounds, left)
    order = Ask(ask.question, budget=left, panel=panel)
    # Minutes may have passed: a key that was revoked meanwhile has nothing more begun.
    await caller.require("deliberate_adaptive", frozenset({Scope.SUBMIT}))
    run = await prepared(call, lambda: take_on(caller, order, asked_in(ask), key))
    await wait_for(call, run, max(0.0, deadline - monotonic()), told + 1)
    view = await call.thread(caller.forum.view, run)
    return _told(view, deliberated_form(view, key, personas))


async def generate_persona(call: Call, ask: PersonaAsk) -> Reply:
    """Have one persona made up."""
    caller, task = call.caller, persona_task(ask.about, ask.kind, 1, ask.model)
    invent = partial(_invent, caller, task, budget_in(ask), asked_in(ask), ask.key)
    run = await prepared(call, invent)
    await wait_for(call, run, ask.seconds)
    view = await call.thread(caller.forum.view, run)
    if view.state.outcome is not Outcome.OK:
        return Reply(invented_form(view, None), run_words(view))
    (persona,) = _personas(view, ask.kind)
    said = msgspec.json.encode(persona).decode()
    return Reply(invented_form(view, persona), run_words(view), said)


@in_thread
def list_personas(_caller: Caller, _: Nothing) -> Reply:
    """List the personas that there are."""
    lines = [f"{one.id}: {one.reasoning_scope}; {one.reasoning_style}" for one in PERSONAS.values()]
    return Reply(PersonasForm(tuple(PERSONAS.values())), "\n".join(lines))


def _rehearse(caller: Caller, ask: AdaptiveAsk, budget: Budget) -> None:
    """Refuse what would be refused once the personas are there, and paid for."""
    sitting = list(islice(cycle(PANELISTS), ask.seats))
    panel = draft_symposium(new_run(), ask.question, sitting, ask.models, ask.rounds, budget)
    caller.staff.order(Ask(ask.question, budget=budget, panel=panel))


def _invent(caller: Caller, task: Task, budget: Budget, form: Struct, key: str | None) -> str:
    """Have personas made up by a run like every other, and return it."""
    if not caller.staff.known.agents:
        raise BadPlan("nobody can make up a persona: name a model in forum.toml ([models.NAME])")
    order = Ask("Make up who sits on a panel.", (task,), team=False, route=False, budget=budget)
    return take_on(caller, order, form, key)


def _personas(view: RunView, kind: PersonaClass) -> tuple[Persona, ...]:
    return read_personas(view.answer or b"", kind)


def _told(view: RunView, form: DeliberatedForm) -> Reply:
    """Answer with what a panel has come to, or with what it has to know first."""
    return Reply(form, panel_words(view, form), form.question or form.research or form.answer or "")


def _whole(caller: Caller, ask: AdaptiveAsk) -> Budget:
    """Return what may be used for both: what was asked for, else what a session may use.

    It is one wish of a client, so what the operator allows is for both as well.
    """
    budget = budget_in(ask)
    wished = ((name, getattr(budget, name)) for name in Budget.__struct_fields__)
    whole = {n: getattr(CAPS, n) if value == NO_LIMIT else value for n, value in wished}
    return Budget(**whole).under(caller.staff.known.ceiling)


def _left(budget: Budget, view: RunView) -> Budget:
    """Return what a run has left of a budget."""
    spent = view.state.spent
    used = {**spent._asdict(), "milliseconds": -(-run_time(view) // 1000)}
    wholes = ((name, getattr(budget, name)) for name in used)
    left = {n: max(0, most - used[n]) for n, most in wholes if most != NO_LIMIT}
    return msgspec.structs.replace(budget, **left)
