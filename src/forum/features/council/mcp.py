"""The tools for deliberation: put a question to a panel, and list the personas for its seats."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from forum.app import KINDS
from forum.engine import RunRequest
from forum.errors import BadPlan, Malformed
from forum.ledger.kinds import Scope
from forum.runs.panel import MAX_ROUNDS, MAX_SEATS, Protocol
from forum.runs.panel_protocol import load_protocol
from forum.runs.personas import PERSONAS, Persona
from forum.runs.policy import Policy
from forum.surfaces import requests
from forum.surfaces.mcp import arguments, results, tool_calls
from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.tools import ToolDeclaration, ToolHints

Script = Annotated[
    dict[str, Any] | None,
    Meta(
        description="A `fake_provider_script` of the protocol symposium, as an object: the session "
        "is played as it says, and no model is called."
    ),
]


class DeliberateAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A question for a panel, with options for its seats, rules and limits."""

    question: arguments.Question = None
    protocol: Annotated[
        Protocol,
        Meta(
            description="`council`: sealed ballots and a vote, the default; `symposium`: personas "
            "take turns, and a coordinator puts it together."
        ),
    ] = Protocol.COUNCIL
    seats: requests.Seats = None
    models: arguments.Models = ()
    personas: Annotated[
        tuple[str | Persona, ...],
        Meta(
            max_length=MAX_SEATS,
            description="The personas of the seats, in turn: names from `list_personas`, or "
            "what `generate_persona` gave.",
        ),
    ] = ()
    options: requests.Options = ()
    rounds: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_ROUNDS)] | None, Meta(description="How many at most.")
    ] = None
    baseline: Annotated[
        int,
        Meta(ge=0, le=MAX_SEATS, description="The number of seats of a council that answer first."),
    ] = 3
    threshold: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The share of these seats that must agree for the council to end early.",
        ),
    ] = 1.0
    judge: Annotated[
        requests.AgentName | None, Meta(description="The agent that compares free-text answers.")
    ] = None
    budget_usd: arguments.Usd = None
    max_seconds: arguments.Seconds = None
    key: arguments.Key = None
    wait: Annotated[bool, Meta(description="Whether to wait for the answer.")] = True
    seconds: arguments.Wait = 50.0
    problem: arguments.Problem = None
    about: requests.About = None
    provider: Annotated[
        Literal["fake"] | None, Meta(description="`fake`: play `script`; else models answer.")
    ] = None
    script: Script = None
    selector_script: Script = None

    @property
    def form(self) -> requests.AskForm:
        """The request in the form that all surfaces share.  Raises `Malformed`."""
        # The other members are about a panel that works on a task of a plan.
        members = set(requests.PanelAsk.__struct_fields__) & set(self.__struct_fields__)
        panel = requests.PanelAsk(**{name: getattr(self, name) for name in members})
        budget = arguments.make_budget(self.budget_usd, self.max_seconds)
        asks_nothing = self.question is None and self.problem is None
        question = (
            ""
            if self.about and asks_nothing
            else arguments.asked_question(self.question, self.problem)
        )
        return requests.AskForm(question, budget=budget, panel=panel, about=self.about)


class PersonasForm(Struct, frozen=True):
    """Personas that come with Forum."""

    personas: tuple[Persona, ...]


async def deliberate(call: tool_calls.McpCallContext, ask: DeliberateAsk) -> results.ToolReply:
    """Have a panel deliberate; whoever then goes away does not stop it."""
    caller, form = call.caller, ask.form

    def submit() -> str:
        if ask.script is not None or ask.provider is not None:
            request = _scripted_request(caller, ask, form)
            played = msgspec.structs.replace(ask, wait=True)
            return tool_calls.submit_request(
                caller, request, arguments.without_wait(played), ask.key
            )
        subject = requests.read_subject(caller.forum, form, caller.scopes)
        request = requests.run_request_from_form(form, caller.registry, caller.authority, subject)
        return tool_calls.submit_request(caller, request, form, ask.key)

    run = await tool_calls.run_prepared(call, submit)
    if ask.wait:
        await tool_calls.wait_for_run(call, run, ask.seconds)
    view = await call.run_in_thread(caller.forum.reads.view_run, run)
    return results.deliberation_reply(view, results.deliberated_form(view, ask.key))


@tool_calls.threaded_tool
def list_personas(_caller: McpCaller, _: arguments.Nothing) -> results.ToolReply:
    """List the personas that there are."""
    lines = [
        f"{persona.id}: {persona.reasoning_scope}; {persona.reasoning_style}"
        for persona in PERSONAS.values()
    ]
    return results.ToolReply(PersonasForm(tuple(PERSONAS.values())), "\n".join(lines))


def _scripted_request(caller: McpCaller, ask: DeliberateAsk, form: requests.AskForm) -> RunRequest:
    """Return a request for a symposium that is played by a script.  Raises `Malformed`, `BadPlan`.

    The script is content: a path would be read with the rights of the server, not of its caller.
    """
    if ask.script is None:
        raise Malformed("arguments", '`provider` is "fake": pass its script as `script`')
    if ask.about is not None:
        raise BadPlan("about: a script knows no answer of a run; leave it out")
    if ask.models:
        raise BadPlan("models: a script answers, and no model is called; leave them out")
    panel_ask = msgspec.structs.replace(
        form.panel or requests.PanelAsk(), protocol=Protocol.SYMPOSIUM
    )
    budget = requests.budget_from_form(form.budget)
    drafted = requests.symposium_from_form(panel_ask, form.request, budget)
    panel, agents = load_protocol(KINDS, Protocol.SYMPOSIUM).play_script(
        drafted, form.request, ask.script, ask.selector_script
    )
    request = RunRequest(form.request, None, Policy(agents=agents), budget)
    return caller.registry.decide(request, caller.authority, panel=panel)


TOOLS: Sequence[ToolDeclaration] = (
    ToolDeclaration(
        "deliberate", title="Have a panel deliberate",
        about="Put a question to a panel of agents: they answer independently and sealed, exchange "
        "anonymously where they differ, and code counts the votes (`council`); or personas take "
        "turns by the open protocol `symposium`. Tells the answer, the minority and its best "
        "argument. Without limits of yours, a symposium has $5 and 30 minutes. Waits and goes on "
        "as `submit` does.",
        scopes=frozenset({Scope.SUBMIT}), takes=DeliberateAsk, gives=results.DeliberatedForm,
        do=deliberate,
        hints=ToolHints(destroys=True, open_world=True), after="submit",
    ),
    ToolDeclaration(
        "list_personas", title="List personas",
        about="List the personas that come with Forum, by the names that `deliberate` takes.",
        scopes=frozenset({Scope.READ, Scope.AUDIT, Scope.SUBMIT}), takes=arguments.Nothing,
        gives=PersonasForm,
        do=list_personas,
        hints=ToolHints(reads_only=True, idempotent=True), after="generate_persona",
    ),
)  # fmt: skip
