"""How a run may be carried out: by whom, how much at once, how often again, and who is asked.

It is recorded with the request, so that whoever takes the run over carries it out the same way.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from forum.errors import BadPlan, Malformed
from forum.ledger import Count
from forum.work.acceptance_criteria import Check, Criterion, parse_criteria
from forum.work.gate_rules import GateRule
from forum.work.panel import MAX_ROUNDS, MAX_SEATS, MAX_SHARE, Council, Panel, normalize_answer
from forum.work.plan import Plan, Task

MAX_ROLE_CHARS = 20_000
"""How much a role is asked to say at most, where nothing else bounds it."""

ASK_TOOL = "ask"
"""The tool by which an agent asks another one: a call like every other, paid by the same run."""

_LABEL = re.compile(r"[!#-\[\]-~]{1,128}").fullmatch
"""What an entry can say of who wrote it: agents write entries under their names."""


class _PolicyPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a policy, in the form in which it is recorded."""


class ToolCall(_PolicyPart, frozen=True):
    """An agent wants a tool to be used."""

    tool: str
    arguments: str = ""


class ScriptStep(_PolicyPart, frozen=True):
    """What a scripted agent does in one call."""

    say: str = ""
    use: tuple[ToolCall, ...] = ()
    fail: str = ""
    """Why the call fails; it succeeds without."""
    milliseconds: Count = 0
    usd: Count | None = None
    """What is billed, if not the price: a provider may bill more than its bound."""
    tokens: Count = 0
    input_tokens: Count = 0
    """Of the tokens, those that it has read."""


class Scripted(_PolicyPart, frozen=True, tag="scripted", tag_field="kind"):
    """An agent that does what its script says, task by task and call by call.

    Of the moves of a task (or those of `*`) the n-th belongs to the n-th call that was answered;
    the last one is repeated.  Without moves it repeats what it was told to do.
    """

    moves: dict[str, tuple[ScriptStep, ...]] = {}
    usd: Count = 0
    """The price of a call."""
    tokens: Count = 0
    """The most tokens of a call."""


class Command(_PolicyPart, frozen=True, tag="command", tag_field="kind"):
    """An agent that is a program: the prompt on its standard input, the reply on its output."""

    argv: tuple[str, ...]
    usd: Count = 0
    """What a call costs, as declared by whoever configured it."""
    tokens: Count = 0
    output_bytes: Count = 1 << 30
    """The most that is kept of what it prints."""


class Api(StrEnum):
    """What a server of models understands."""

    CHAT = "chat"
    """OpenAI's chat completions, which most servers speak."""
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


class Chat(_PolicyPart, frozen=True, tag="chat", tag_field="kind"):
    """A model behind an HTTP API.

    Its key is read when it is called, from where this says; the key itself is never recorded.
    """

    url: str
    """What `/chat/completions`, `/responses` or `/messages` is appended to."""
    model: str
    api: Api = Api.CHAT
    key_env: str = ""
    key_file: str = ""
    max_tokens: Count = 1024
    """The most that it may say in one call: what is reserved depends on it."""
    input_usd: Count | None = None
    """The price of a thousand tokens that it reads, if not that of the price table."""
    output_usd: Count | None = None
    """The price of a thousand tokens that it says."""
    at_once: Count = 0
    """How many calls may be under way with this key in one process; 0: any number."""
    options: dict[str, Any] = {}
    """What else every request says, such as a temperature."""


class Library(_PolicyPart, frozen=True, tag="pydantic-ai", tag_field="kind"):
    """A model that is reached through pydantic-ai, for providers which speak neither API."""

    model: str
    """As pydantic-ai names it: `provider:model`."""
    max_tokens: Count = 1024
    input_usd: Count | None = None
    output_usd: Count | None = None
    options: dict[str, Any] = {}


Agent = Scripted | Command | Chat | Library


class McpServer(_PolicyPart, frozen=True):
    """An MCP server: a program that is spoken to through pipes, or an address."""

    argv: tuple[str, ...] = ()
    url: str = ""
    env: tuple[str, ...] = ()
    """Variables of the worker's environment that the program is given."""
    key_env: str = ""
    """The variable that holds the bearer token for the address."""


class ToolSpec(_PolicyPart, frozen=True):
    """Something with an effect on the world: a program, or a tool of an MCP server.

    A program finds its arguments on its input and says the result on its output.  The key of the
    effect is in its environment as FORUM_KEY: the same for every attempt.
    """

    argv: tuple[str, ...] = ()
    server: McpServer | None = None
    name: str = ""
    """How the server calls it."""
    seconds: Count = 60
    description: str = ""
    schema: dict[str, Any] = {}
    """The form of its arguments, as a JSON schema; without one it takes any text."""
    env: tuple[str, ...] = ()
    """Variables that look like secrets, and that a program is given all the same."""


class Role(StrEnum):
    """What a model does for a run beside the work itself."""

    CLASSIFIER = "classifier"
    """Chooses the lane, where the router could not."""
    COORDINATOR = "coordinator"
    """Divides a request into tasks."""
    VALIDATOR = "validator"
    """Judges a result by what its task demands, where code cannot."""
    SYNTHESIZER = "synthesizer"
    """Makes one answer of several results."""
    INTENT = "intent"
    """Judges whether the answer answers, where code has doubts."""
    REVISER = "reviser"
    """Shortens an answer that is too long."""


class LaneBrief(_PolicyPart, frozen=True):
    """A lane as far as a run needs to know it."""

    does: str = ""
    instructions: str = ""
    agent: str = ""
    """Who works for it."""
    tools: tuple[str, ...] = ()
    """What its agents may use."""


class Answer(StrEnum):
    """What is decided at a gate."""

    APPROVE = "approve"
    REJECT = "reject"


class Policy(_PolicyPart, frozen=True):
    """What may run, how much at once, how often again, and what has to be approved."""

    agents: dict[str, Agent] = msgspec.field(default_factory=lambda: {"": Scripted()})
    """By name; the one without a name works for tasks that name none."""
    tools: dict[str, ToolSpec] = {}
    servers: dict[str, McpServer] = {}
    """MCP servers; what they offer becomes tools when a request is taken on."""
    lanes: dict[str, LaneBrief] = {}
    roles: dict[Role, str] = {}
    """Which agent has which role; a role that nobody has is not played."""
    context: tuple[str, ...] = ()
    """Tools that are asked for background before planning, and before each task."""
    verifiers: tuple[str, ...] = ()
    """Tools that check the answer from outside."""
    parallel: Count = 8
    retries: Count = 2
    """How often a task is tried again by the same agent."""
    ladder: tuple[str, ...] = ()
    """Stronger agents, weakest first: who is asked when the one before did not satisfy."""
    backoff_milliseconds: Count = 500
    """The pause before the first retry; each further one is twice as long, up to a minute."""
    call_milliseconds: Count = 600_000
    """The longest that one call may take."""
    turns: Count = 100
    """The most calls of one attempt."""
    input_bytes: Count = 32_768
    """How much of an upstream's output a task is given."""
    repeats: Count = 3
    """How often the same call may give the same reply before it is called a loop; 0: for ever."""
    gates: tuple[str, ...] = ()
    """What has to be approved: `plan`, `tasks` (every one), or `task:NAME`."""
    gate_milliseconds: Count = 86_400_000
    gate_default: Answer = Answer.REJECT
    """What holds when nobody decides in time."""
    gate_rules: tuple[GateRule, ...] = ()
    """What the operator wants approved; set when the run is accepted, whatever was asked for."""
    panel: Panel | None = None
    """Who deliberates on the request; without one it is planned and carried out."""

    def check(self, plan: Plan | None) -> None:
        """Refuse a plan that names what this policy does not have; or to have one made by nobody.

        Without a plan somebody has to make one.
        """
        tasks = plan.all_tasks if plan else ()
        if self.parallel == 0:
            raise BadPlan("nothing may run at once: parallel is 0")
        for lane in sorted({task.lane for task in tasks} - {"", *self.lanes}):
            raise BadPlan(f"no lane is called {lane!r}; known: {_list_names(self.lanes)}")
        workers = {self.worker_of(task) for task in tasks}
        panels = [self.panel, *(task.panel for task in tasks)]
        for panel in panels:
            self._check_panel(panel)
        seated = {name for panel in panels if panel for name in panel.speakers}
        self._check_agents({*workers, *seated, *self.ladder, *self.roles.values()})
        self._check_tools(tasks)
        known = {"plan", "tasks", *(f"task:{name}" for name in (plan.names if plan else ()))}
        for gate in self.gates:
            if gate not in known and (plan or not gate.startswith("task:")):
                raise BadPlan(f"a gate before {gate!r}, which is not in the plan")

    def _check_panel(self, panel: Panel | None) -> None:
        """Refuse a panel that cannot sit."""
        if self.gates and panel is not None and panel is self.panel:
            raise BadPlan("a deliberation has no plan or tasks to approve: leave out the gates")
        if not isinstance(panel, Council):
            return
        if not 1 <= len(panel.seats) <= MAX_SEATS:
            raise BadPlan(f"{len(panel.seats)} seats; from 1 to {MAX_SEATS} can deliberate")
        if panel.rounds > MAX_ROUNDS:
            raise BadPlan(f"{panel.rounds} rounds; the most is {MAX_ROUNDS}")
        if len({normalize_answer(option) for option in panel.options} - {""}) < len(panel.options):
            raise BadPlan("options: an empty one, or two that differ in nothing but their writing")
        if not 1 <= panel.threshold <= MAX_SHARE:
            raise BadPlan(f"a threshold of {panel.threshold} thousandths; from 1 to {MAX_SHARE}")
        if panel.check:
            self._check_panel_tool(panel.check)

    def _check_panel_tool(self, tool: str) -> None:
        """Refuse a tool that a panel cannot have its answer checked by."""
        if tool not in self.tools:
            raise BadPlan(f"no tool is called {tool!r}; known: {_list_names(self.tools)}")
        for rule in self.gate_rules:
            if rule.holds_for_tool(tool, ""):
                raise BadPlan(
                    f"the tool {tool!r} needs approval ([gates.{rule.name}]), and a panel "
                    "cannot wait for one: name another check, or leave it out"
                )

    def _check_agents(self, wanted: set[str]) -> None:
        for name in sorted(wanted):
            if name not in self.agents:
                raise BadPlan(f"no agent is called {name!r}; known: {_list_names(self.agents)}")
        for name in self.agents:
            if name and not _LABEL(name):
                raise BadPlan(
                    f"{name!r} is no name for an agent: no spaces, no quotes, up to 128 letters"
                )

    def _check_tools(self, tasks: tuple[Task, ...]) -> None:
        demanded = {demand.what for task in tasks for demand in _tool_criteria(task)}
        for name in sorted({*self.context, *self.verifiers, *demanded}):
            if name not in self.tools:
                raise BadPlan(f"no tool is called {name!r}; known: {_list_names(self.tools)}")

    def worker_of(self, task: Task) -> str:
        """Return the agent that a task is done by."""
        return task.agent or (self.lanes[task.lane].agent if task.lane in self.lanes else "")

    def max_reply_chars(self, agent: str) -> int:
        """Return how many characters an agent can surely say in one reply."""
        spec = self.agents[agent]
        return 2 * spec.max_tokens if isinstance(spec, Chat | Library) else MAX_ROLE_CHARS

    def tools_of(self, task: Task) -> tuple[str, ...]:
        """Return the tools that the agent of a task may use.

        Where there are lanes, tools belong to them: a task without a lane has none.
        """
        if not self.lanes:
            return tuple(self.tools)
        lane = self.lanes.get(task.lane, LaneBrief())
        return tuple(name for name in lane.tools if name in self.tools)

    def is_gated(self, task: Task) -> bool:
        """Tell whether a task has to be approved."""
        asked = "tasks" in self.gates or f"task:{task.id}" in self.gates
        return asked or any(rule.holds_for_task(task.lane) for rule in self.gate_rules)

    def with_gate_rules(self, rules: Iterable[GateRule]) -> "Policy":
        """Return the policy under these rules of the operator, and no others."""
        return msgspec.structs.replace(self, gate_rules=tuple(rules))

    def with_reject_default(self) -> "Policy":
        """Return the policy for a gate of the operator: silence approves nothing there."""
        return msgspec.structs.replace(self, gate_default=Answer.REJECT)

    def ladder_of(self, name: str) -> tuple[str, ...]:
        """Return all who may work on a task, weakest first; nobody comes after himself."""
        known = self.agents.get(name)
        alike = [n for n, rung in enumerate(self.ladder) if self._is_same(rung, name, known)]
        return (name, *self.ladder[alike[-1] + 1 if alike else 0 :])

    def _is_same(self, rung: str, name: str, known: Agent | None) -> bool:
        return rung == name or (known is not None and self.agents.get(rung) == known)

    def for_child_run(self, gates: tuple[str, ...]) -> "Policy":
        """Return the policy of a run within: its results are judged, its answer by the outer."""
        roles = {role: who for role, who in self.roles.items() if role is Role.VALIDATOR}
        return msgspec.structs.replace(self, gates=gates, roles=roles, verifiers=())

    def for_panel(self, panel: Panel, question: str) -> "Policy":
        """Return the policy of a panel; nobody would notice if seats read half of the question."""
        most = max(self.input_bytes, len(question.encode(errors="replace")))
        return msgspec.structs.replace(self, panel=panel, input_bytes=most)

    def without_retries(self) -> "Policy":
        """Return the same policy for a task that is not tried again."""
        return msgspec.structs.replace(self, retries=0, ladder=())

    def retry_delay_ms(self, retry: int) -> int:
        """Return for how many milliseconds to wait before a retry, the first being 1."""
        return min(self.backoff_milliseconds << min(retry - 1, 20), 60_000)


def write_policy(policy: Policy) -> bytes:
    """Return the recorded form of a policy."""
    try:
        return msgspec.json.encode(policy, order="sorted")
    except UnicodeError as error:
        raise Malformed("policy", str(error)) from None


def read_policy(data: bytes) -> Policy:
    """Return the policy with this recorded form."""
    try:
        return _policy.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("policy", str(error)) from None


# Made once, here: two threads that let msgspec take in a type at the same time crash the process.
_policy = msgspec.json.Decoder(Policy)


def _tool_criteria(task: Task) -> Iterator[Criterion]:
    """Yield the demands of a task that a tool of the policy checks."""
    demands = parse_criteria(task.done_when)
    return (demand for demand in demands if demand.check in (Check.COMMAND, Check.TESTS))


def _list_names(known: Iterable[str]) -> str:
    return ", ".join(sorted(repr(name) for name in known)) or "none"
