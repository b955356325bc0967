"""The policy of a run: agents, tools, lanes, roles, limits, retries and gates.

It is recorded with the request, so that any worker that takes the run over executes it the same
way. Keys of models and servers are never part of it, only where to find them.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, assert_never

import msgspec

from forum.errors import BadPlan, Malformed
from forum.ledger.entry import Count
from forum.runs.acceptance_criteria import Check, Criterion, parse_criteria
from forum.runs.council_end import Requirement
from forum.runs.gate_rules import GateRule
from forum.runs.judging import MAX_READ_BYTES
from forum.runs.panel import (
    COUNCIL_VERSION,
    MAX_ROUNDS,
    MAX_SEATS,
    MAX_SHARE,
    SYMPOSIUM_VERSION,
    Council,
    Panel,
    Symposium,
    normalize_answer,
)
from forum.runs.plan import Plan, Task

MAX_ROLE_CHARS = 20_000
"""Length limit of a role's reply, for agents without a limit of their own."""

DEFAULT_CONTEXT_TOKENS = 32_768
"""The assumed context length of an agent for which none is configured or listed."""
MIN_PROMPT_TOKENS = 256

TEAM_RULES = 2
"""The version of the call rules since which every role of a team sees the request and the plan."""

ACCORD_RULES = 3
"""The version of the call rules since which a task with a panel passes only if its seats agree."""

COMPACTION_RULES = 4
"""The version of the call rules since which a conversation that passes its context is compacted."""

DISSENT_GATE = "dissent"
"""The gate that asks a person where a panel does not agree as far as it has to."""

COVERAGE_RULES = 3
"""The version since which code compares the words of every answer with those of its request.

A finding is recorded as a flag, and fails a run only together with a judge of the intent.
"""

PROMPT_VERSION = 5
"""The version of the role prompts. A change of any of them is a new version.

A run that was recorded with another version is replayed with its recorded prompts.
"""

SHORT_MARK_PROMPTS = 3
"""The version of the prompts since which their marks are short, and derived under a secret."""

GIVEN_TEXT_PROMPTS = 4
"""The version of the prompts since which code demands only texts of the request in a result.

A text that the Coordinator invented is left to the judge.
"""

EXCERPT_PROMPTS = 5
"""The version of the prompts since which a long request is shown by relevance to each task.

The Coordinator still sees the whole of it, and so does the only task of a plan.
"""

ASK_TOOL = "ask"
"""The tool by which an agent asks another one; the call is paid by the same run."""

_LABEL = re.compile(r"[!#-\[\]-~]{1,128}").fullmatch
"""The form of an actor in an entry: agents append entries under their names."""


# Unknown members are refused: a misspelled limit must not become no limit.
class _PolicyPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base class of the recorded parts of a policy."""


class ToolCall(_PolicyPart, frozen=True):
    """An agent's request to use a tool."""

    tool: str
    arguments: str = ""


class ScriptStep(_PolicyPart, frozen=True):
    """The behaviour of a scripted agent in one call."""

    say: str = ""
    use: tuple[ToolCall, ...] = ()
    fail: str = ""
    """Why the call fails; it succeeds if this is empty."""
    milliseconds: Count = 0
    usd: Count | None = None
    """The billed amount, if it differs from the price: a provider may bill more than its bound."""
    tokens: Count = 0
    input_tokens: Count = 0
    """The part of the tokens that was input."""


class Scripted(_PolicyPart, frozen=True, tag="scripted", tag_field="kind"):
    """An agent that follows a script, task by task and call by call.

    Of the steps for a task (or for `*`), the n-th belongs to the n-th call that was answered; the
    last one is repeated. Without steps it repeats the first line of its prompt.
    """

    moves: dict[str, tuple[ScriptStep, ...]] = {}
    usd: Count = 0
    """The price of a call."""
    tokens: Count = 0
    """The token limit of a call."""


class ReportFormat(StrEnum):
    """The form in which a coding agent's program prints its reply, its tokens and its cost."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"


class Command(_PolicyPart, frozen=True, tag="command", tag_field="kind"):
    """An agent that is a program: it reads the prompt from stdin and writes the reply to stdout."""

    argv: tuple[str, ...]
    usd: Count = 0
    """The price of a call, as declared by the operator."""
    tokens: Count = 0
    output_bytes: Count = 1 << 30
    """How much of the output is read at most."""
    context_tokens: Count = 0
    """How many tokens a prompt and its reply may have together; 0: not known."""
    report: ReportFormat | None = None
    """How the output is read; None: it is the reply."""
    fallback: tuple["Command", ...] = ()
    """Programs that are tried in this order, in the same call, if this one does not answer."""

    @property
    def programs(self) -> tuple["Command", ...]:
        """All programs that may answer, in the order in which they are tried."""
        return (self, *self.fallback)


class Api(StrEnum):
    """What a server of models understands."""

    CHAT = "chat"
    """OpenAI's chat completions, which most servers speak."""
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


class ApiEndpoint(NamedTuple):
    """Where an API is called, if the settings do not say otherwise."""

    path: str
    """The path of a call, which is appended to the base URL."""
    url: str
    key_variable: str


API_ENDPOINTS = {
    Api.CHAT: ApiEndpoint("/chat/completions", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Api.RESPONSES: ApiEndpoint("/responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Api.ANTHROPIC: ApiEndpoint("/messages", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
}

RESERVED_OPTIONS = frozenset(
    # The prompt sent must be the recorded one, and the reservation must bound the cost. An option
    # with one of these names could change either.
    {
        "model", "messages", "input", "instructions", "system", "prompt", "stream",
        "stream_options", "tools", "tool_choice", "functions", "response_format", "text",
        "output_config", "output_format", "max_tokens", "max_completion_tokens",
        "max_output_tokens", "n", "best_of", "background", "previous_response_id", "conversation",
    }
)  # fmt: skip
"""Names that `options` must not contain."""


class Chat(_PolicyPart, frozen=True, tag="chat", tag_field="kind"):
    """A model behind an HTTP API.

    Its key is read from a variable or a file when it is called; the key itself is never recorded.
    """

    url: str
    """The base URL, to which the path of the API's operation is appended."""
    model: str
    api: Api = Api.CHAT
    key_env: str = ""
    key_file: str = ""
    max_tokens: Count = 1024
    """Limit of output tokens in one call; the reservation is computed from it."""
    input_usd: Count | None = None
    """The price of a thousand input tokens in nano-dollars; None: from the price table."""
    output_usd: Count | None = None
    """The price of a thousand output tokens."""
    at_once: Count = 0
    """How many calls one process may have in flight with this key; 0: any number."""
    options: dict[str, Any] = {}
    """Further members of every request, such as a temperature."""
    context_tokens: Count = 0
    """The context length: tokens of prompt and reply together; 0: not known."""


class Library(_PolicyPart, frozen=True, tag="pydantic-ai", tag_field="kind"):
    """A model that is called through pydantic-ai, for providers without a supported HTTP API."""

    model: str
    """The name in pydantic-ai: `provider:model`."""
    max_tokens: Count = 1024
    input_usd: Count | None = None
    output_usd: Count | None = None
    options: dict[str, Any] = {}
    context_tokens: Count = 0
    """The context length: tokens of prompt and reply together; 0: not known."""


class PythonEntry(_PolicyPart, frozen=True):
    """Python code that a policy names: an entry point of a distribution, or a function.

    Whoever reads a record can tell which release of which distribution was used.
    """

    name: str
    """The name of the entry point, or of the function."""
    distribution: str = ""
    """The distribution that registers it; empty for a function of the program that submitted."""
    version: str = ""
    """The version of the distribution."""

    def __str__(self) -> str:
        return f"{self.distribution}=={self.version}:{self.name}" if self.version else self.name


class Extension(_PolicyPart, frozen=True, tag="extension", tag_field="kind"):
    """An agent that is Python code."""

    entry: PythonEntry
    options: dict[str, Any] = {}
    """What the code is given beside the prompt."""
    usd: Count = 0
    """The highest price of a call, as declared."""
    tokens: Count = 0
    context_tokens: Count = 0
    """How many tokens a prompt and its reply may have together; 0: not known."""


Agent = Scripted | Command | Chat | Library | Extension


class McpServer(_PolicyPart, frozen=True):
    """An MCP server: a program that is connected by pipes, or a URL."""

    argv: tuple[str, ...] = ()
    url: str = ""
    env: tuple[str, ...] = ()
    """Variables of the worker's environment that are passed to the program."""
    key_env: str = ""
    """The variable that holds the bearer token for the URL."""


class ToolSpec(_PolicyPart, frozen=True):
    """A tool with side effects: a program, or a tool of an MCP server.

    A program reads its arguments from stdin and writes its result to stdout. The environment
    variable FORUM_KEY holds an idempotency key, which is the same for every attempt.
    """

    argv: tuple[str, ...] = ()
    server: McpServer | None = None
    name: str = ""
    """The name of the tool on its server."""
    seconds: Count = 60
    description: str = ""
    schema: dict[str, Any] = {}
    """The JSON schema of the arguments; without one the tool takes any text."""
    env: tuple[str, ...] = ()
    """Variables that are passed to the program although their names look like secrets."""
    entry: PythonEntry | None = None
    """The Python code, if it is neither a program nor a tool of a server."""


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
    SUMMARIZER = "summarizer"
    """Shortens a result that does not fit into the prompt of another role or task."""


PANEL_ROLES = frozenset({Role.VALIDATOR, Role.INTENT})
"""The roles that a panel can play: those that judge the work of others."""


class LaneBrief(_PolicyPart, frozen=True):
    """The part of a lane that a run needs."""

    does: str = ""
    instructions: str = ""
    agent: str = ""
    """The agent that works in this lane."""
    tools: tuple[str, ...] = ()
    """The tools that the lane's agents may use."""
    confidence: Count = 0
    """How well the router thinks that the lane fits the request, in thousandths."""


class Answer(StrEnum):
    """What is decided at a gate."""

    APPROVE = "approve"
    REJECT = "reject"


class Policy(_PolicyPart, frozen=True):
    """What may run, how much at once, how often again, and what has to be approved."""

    agents: dict[str, Agent] = msgspec.field(default_factory=lambda: {"": Scripted()})
    """By name; the agent with an empty name works on tasks that name none."""
    tools: dict[str, ToolSpec] = {}
    servers: dict[str, McpServer] = {}
    """MCP servers; their tools are added to `tools` when a request is accepted."""
    lanes: dict[str, LaneBrief] = {}
    roles: dict[Role, str] = {}
    """The agent of each role; a role without one is skipped. Panels can play the `PANEL_ROLES`."""
    context: tuple[str, ...] = ()
    """Tools that are called for background before planning and before each task."""
    verifiers: tuple[str, ...] = ()
    """Tools that check the answer."""
    parallel: Count = 8
    retries: Count = 2
    """How often the same agent retries a task."""
    ladder: tuple[str, ...] = ()
    """Agents for escalation, the weakest first."""
    backoff_milliseconds: Count = 500
    """The delay before the first retry; each further one is twice as long, up to a minute."""
    call_milliseconds: Count = 600_000
    """The time limit of one call."""
    turns: Count = 100
    """Limit of calls in one attempt."""
    input_bytes: Count = 32_768
    """How much of an upstream task's output is put into a prompt."""
    repeats: Count = 3
    """Identical replies to a call before the task is stopped as a loop; 0: no limit."""
    gates: tuple[str, ...] = ()
    """What needs approval: `plan`, `tasks` (every one), `task:NAME`, or `dissent` (the answer of a
    panel that does not agree as far as it has to)."""
    gate_milliseconds: Count = 86_400_000
    gate_default: Answer = Answer.REJECT
    """The answer that applies when nobody decides in time."""
    gate_rules: tuple[GateRule, ...] = ()
    """The operator's rules, set when the run is accepted; a submitter cannot change them."""
    panel: Panel | None = None
    """The panel that deliberates on the request; None: the request is planned and executed."""
    panels: dict[str, Panel] = {}
    """Panels by name; the ladder can end with them, and councils can judge in a role."""
    rules: Count = 0
    """The version of the call rules, set when the run is accepted; 0: none was recorded."""
    prompts: Count = 0
    """The version of the role prompts, set when the run is accepted; 0: before versions."""
    marks: str = ""
    """The secret from which the marks of prompts are derived, drawn when the run is accepted."""
    doubted: bool = False
    """Whether the intent of an answer is judged only where the check of its words flags it."""
    declined_team: tuple[str, ...] = ()
    """The models for which a team is of no use: one was asked for, and a single agent works."""

    def check(self, plan: Plan | None) -> None:
        """Check that a plan uses only agents, lanes, tools and gates that exist.

        Raises `BadPlan`. Without a plan, only the rest of the policy is checked.
        """
        tasks = plan.all_tasks if plan else ()
        if self.parallel == 0:
            raise BadPlan("nothing may run at once: parallel is 0")
        for lane in sorted({task.lane for task in tasks} - {"", *self.lanes}):
            raise BadPlan(f"no lane is called {lane!r}; known: {_list_names(self.lanes)}")
        workers = {self.worker_of(task) for task in tasks}
        panels = [self.panel, *(task.panel for task in tasks), *self.panels.values()]
        for panel in panels:
            self._check_panel(panel)
        seated = {name for panel in panels if panel for name in panel.speakers}
        self._check_named_panels()
        self._check_panel_roles()
        named = {name for name in (*self.ladder, *self.roles.values()) if name not in self.panels}
        self._check_agents({*workers, *seated, *named})
        self._check_tools(tasks)
        # A gate before a task that does not exist would guard nothing, and its submitter would rely
        # on it. Without a plan the names are not known yet.
        subjects = {"plan", "tasks", *(f"task:{name}" for name in (plan.names if plan else ()))}
        if plan is None or self.has_panel(tasks):
            subjects.add(DISSENT_GATE)
        for gate in self.gates:
            if gate == DISSENT_GATE not in subjects:
                raise BadPlan(
                    "a gate before 'dissent', and no task has a panel: give one a panel, or leave "
                    "out the gate"
                )
            if gate not in subjects and (plan or not gate.startswith("task:")):
                raise BadPlan(f"a gate before {gate!r}, which is not in the plan")

    def _check_panel(self, panel: Panel | None) -> None:
        """Refuse a panel with invalid seats, rounds, options or threshold."""
        _check_version(panel)
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

    def _check_named_panels(self) -> None:
        """Refuse panels whose names are taken, and a ladder that goes back from one to an agent."""
        for name in sorted(self.panels):
            if name in self.agents or not _LABEL(name):
                raise BadPlan(
                    f"{name!r} cannot be the name of a panel: an agent has it, or no name"
                )
        fault = ""
        for name in self.ladder:
            if name in self.panels:
                fault = name
            elif fault:
                raise BadPlan(
                    f"ladder: the agent {name!r} comes after the panel {fault!r}; no agent alone "
                    "overrules a panel, so panels come last"
                )

    def _check_panel_roles(self) -> None:
        """Refuse a panel in a role that it cannot play."""
        for role, name in self.roles.items():
            can_judge = role in PANEL_ROLES and isinstance(self.panels.get(name), Council)
            if name in self.panels and not can_judge:
                raise BadPlan(
                    f"roles: the panel {name!r} cannot be the {role.value}; a panel that is a "
                    f"council can judge, as {' or '.join(sorted(PANEL_ROLES))}"
                )

    def _check_panel_tool(self, tool: str) -> None:
        """Refuse a tool that a panel cannot use to check its answer."""
        if tool not in self.tools:
            raise BadPlan(f"no tool is called {tool!r}; known: {_list_names(self.tools)}")
        # A panel cannot wait for approval in the middle of a round: the tool would be denied each
        # time.
        for rule in self.gate_rules:
            if rule.holds_for_tool(tool, ""):
                raise BadPlan(
                    f"the tool {tool!r} needs approval ([gates.{rule.name}]), and a panel "
                    "cannot wait for one: name another check, or leave it out"
                )

    def _check_agents(self, wanted: set[str]) -> None:
        for name in sorted(wanted):
            if not name and name not in self.agents:
                raise BadPlan(
                    "a task names no agent, and there is no default one; give the task an agent, "
                    "or connect a default one: --cmd PROGRAM, --model, or [models.capable] in "
                    "forum.toml"
                )
            if name not in self.agents:
                names = [each for each in sorted(self.agents) if each]
                listed = f", or use one of: {', '.join(names)}" if names else ""
                raise BadPlan(
                    f"no agent is called {name!r}; name it with --agent {name}=PROGRAM, or as "
                    f"[models.{name}] in forum.toml{listed}"
                )
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

    def has_panel(self, tasks: Iterable[Task]) -> bool:
        """Return whether a panel may work on one of these tasks."""
        return any(name in self.panels for name in self.ladder) or any(task.panel for task in tasks)

    def seat_panels(self, names: Iterable[str]) -> frozenset[str]:
        """Return the agents among these names, and those that sit on the panels among them."""
        agents = set[str]()
        for name in names:
            agents |= self.panels[name].speakers if name in self.panels else {name}
        return frozenset(agents)

    @property
    def can_decide(self) -> bool:
        """Whether there is a council that can choose between the options of a task."""
        return any(isinstance(panel, Council) for panel in self.panels.values())

    @property
    def counts_accord(self) -> bool:
        """Whether a task with a panel passes only if its seats agree as far as they have to."""
        return self.rules >= ACCORD_RULES

    @property
    def compacts(self) -> bool:
        """Whether a conversation with tools is compacted before it passes the context."""
        return self.rules >= COMPACTION_RULES

    def worker_of(self, task: Task) -> str:
        """Return the name of the agent that works on a task."""
        return task.agent or (self.lanes[task.lane].agent if task.lane in self.lanes else "")

    def max_reply_chars(self, agent: str) -> int:
        """Return a number of characters that an agent can surely write in one reply."""
        spec = self.agents[agent]
        # Assumes at least two characters per token, so that a schema never asks for more than fits.
        return 2 * spec.max_tokens if isinstance(spec, Chat | Library) else MAX_ROLE_CHARS

    @property
    def is_team(self) -> bool:
        """Whether the run follows the rules of a team: every role sees the request and the plan.

        Runs of the first version of the rules, and those without roles, have tasks that see their
        instruction and inputs only.
        """
        return self.rules >= TEAM_RULES and bool(self.roles)

    @property
    def checks_coverage(self) -> bool:
        """Whether code compares the words of the answer with those of the request."""
        return self.rules >= COVERAGE_RULES and self.panel is None

    @property
    def splits_questions(self) -> bool:
        """Whether a list of questions becomes a task for each: a team that nobody plans for."""
        return self.is_team and self.checks_coverage and Role.COORDINATOR not in self.roles

    @property
    def refuses_marks(self) -> bool:
        """Whether a result that repeats the marks of its prompt is rejected."""
        return self.is_team and self.checks_coverage

    @property
    def demands_given_texts(self) -> bool:
        """Whether code checks a text that a Coordinator demands only if the request has it."""
        return self.prompts >= GIVEN_TEXT_PROMPTS

    @property
    def shows_excerpts(self) -> bool:
        """Whether the tasks of a plan see the parts of a long request that matter for them."""
        return self.prompts >= EXCERPT_PROMPTS

    @property
    def read_bytes(self) -> int:
        """How much of a text is read for a prompt; in a team, the prompt's tokens limit it then."""
        return MAX_READ_BYTES if self.is_team else self.input_bytes

    def prompt_tokens(self, agent: str) -> int:
        """Return how many tokens the prompt of an agent, or of each seat of a panel, may have.

        The reply needs its part of the context, and a margin covers what a provider adds.
        """
        if agent in self.panels:
            return min(self.prompt_tokens(name) for name in self.panels[agent].speakers)
        spec = self.agents[agent]
        context = (
            0 if isinstance(spec, Scripted) else spec.context_tokens
        ) or DEFAULT_CONTEXT_TOKENS
        reply = spec.max_tokens if isinstance(spec, Chat | Library) else context // 4
        return max(MIN_PROMPT_TOKENS, context // 4, context - reply - context // 20)

    def ranked_lanes(self) -> dict[str, LaneBrief]:
        """Return the lanes in the order of the router's confidence, the best first."""
        ranked = sorted(self.lanes.items(), key=lambda lane: (-lane[1].confidence, lane[0]))
        return dict(ranked)

    def judge_of(self, role: Role, producers: Iterable[str]) -> str | None:
        """Return the agent or panel that judges the work of some agents; None if nobody does.

        Another model than those of the producers is preferred. If there is none, the agent of the
        role judges, and its verdict records that it is not independent. A panel that was given the
        role is replaced by nobody.
        """
        judge = self.roles.get(role)
        if judge is None or self.rules < TEAM_RULES or judge in self.panels:
            return judge
        models = {
            model
            for name in producers
            if name in self.agents
            for model in models_of(self.agents[name])
        }
        # Only agents that the run uses anyway: their keys and prices were checked. A scripted agent
        # says the same whatever it is shown, and judges only where it was chosen to.
        assigned = {*self.roles.values(), *(lane.agent for lane in self.lanes.values())}
        others = [
            name for name in (*reversed(self.ladder), *sorted(assigned)) if name in self.agents
        ]
        candidates = [
            judge,
            *(name for name in others if not isinstance(self.agents[name], Scripted)),
        ]
        independent = (
            name for name in candidates if models_of(self.agents[name]).isdisjoint(models)
        )
        return next(independent, judge)

    def judging_panel(self, name: str) -> Council:
        """Return the panel that has a role. Raises `BadPlan` for one that cannot judge."""
        panel = self.panels[name]
        if not isinstance(panel, Council):
            raise BadPlan(f"the panel {name!r} is no council, and cannot judge")
        return panel

    def summarizer_of(self, reader: str) -> str:
        """Return the agent that shortens texts for an agent or a panel."""
        first = min(self.panels[reader].speakers) if reader in self.panels else reader
        return self.roles.get(Role.SUMMARIZER, first)

    def tools_of(self, task: Task) -> tuple[str, ...]:
        """Return the tools that the agent of a task may use.

        If the policy has lanes, tools belong to them, and a task without a lane has none.
        """
        if not self.lanes:
            return tuple(self.tools)
        lane = self.lanes.get(task.lane, LaneBrief())
        return tuple(name for name in lane.tools if name in self.tools)

    def is_gated(self, task: Task) -> bool:
        """Tell whether a task needs approval before it begins."""
        listed = "tasks" in self.gates or f"task:{task.id}" in self.gates
        return listed or any(rule.holds_for_task(task.lane) for rule in self.gate_rules)

    def with_gate_rules(self, rules: Iterable[GateRule]) -> "Policy":
        """Return the policy with exactly these rules of the operator."""
        return msgspec.structs.replace(self, gate_rules=tuple(rules))

    def with_rules(self, version: int) -> "Policy":
        """Return the policy of a new run that follows this version of the call rules.

        A session names no version, because both versions have the same rules for sessions:
        verifiers of earlier releases read the policy of a session, and refuse members that they do
        not know.
        """
        if self.panel is not None or version == 0:
            return self._without_versions()
        return msgspec.structs.replace(self, rules=version, prompts=PROMPT_VERSION)

    @property
    def needs_secret(self) -> bool:
        """Whether the prompts of the run have marks for which no secret was drawn yet."""
        return self.prompts >= SHORT_MARK_PROMPTS and not self.marks and self.panel is None

    def with_secret(self, marks: bytes) -> "Policy":
        """Return the policy with the secret of a new run; empty: it has to be drawn."""
        return msgspec.structs.replace(self, marks=marks.hex())

    def _without_versions(self) -> "Policy":
        """Return the policy without the members that an earlier release does not know."""
        lanes = {
            name: msgspec.structs.replace(brief, confidence=0) for name, brief in self.lanes.items()
        }
        agents = {
            name: agent
            if isinstance(agent, Scripted)
            else msgspec.structs.replace(agent, context_tokens=0)
            for name, agent in self.agents.items()
        }
        roles = {
            role: agent
            for role, agent in self.roles.items()
            if role is not Role.SUMMARIZER and agent not in self.panels
        }
        ladder = tuple(name for name in self.ladder if name not in self.panels)
        return msgspec.structs.replace(
            self,
            lanes=lanes,
            agents=agents,
            roles=roles,
            ladder=ladder,
            panels={},
            rules=0,
            prompts=0,
            marks="",
            doubted=False,
            declined_team=(),
        )

    def with_reject_default(self) -> "Policy":
        """Return the policy for a gate of the operator, where a timeout must never approve."""
        return msgspec.structs.replace(self, gate_default=Answer.REJECT)

    def rungs_of(self, task: Task) -> tuple[str, ...]:
        """Return the names of those who may work on a task, one after the other.

        A task with a panel of its own begins with that (the first name is empty or an agent's),
        and can come to another panel above it only: no agent alone overrules a panel.
        """
        if task.tasks:
            return (self.worker_of(task),)
        if task.panel is None:
            return self.ladder_of(self.worker_of(task))
        panels = [name for name in self.ladder if name in self.panels]
        alike = [n for n, name in enumerate(panels) if self._is_panel_of(name, task.panel)]
        return (self.worker_of(task), *panels[alike[-1] + 1 if alike else 0 :])

    def panel_of(self, task: Task, level: int) -> Panel | None:
        """Return the panel that works on a task at this level of its rungs, or None."""
        if level == 0 and task.panel is not None:
            return task.panel
        return self.panels.get(self.rungs_of(task)[level])

    def _is_panel_of(self, name: str, panel: Panel) -> bool:
        """Return whether a named panel is that of a task, which may decide on its own options."""
        named = self.panels[name]
        if isinstance(named, Council) and isinstance(panel, Council):
            named = msgspec.structs.replace(named, options=panel.options)
        return named == panel

    def ladder_of(self, name: str) -> tuple[str, ...]:
        """Return the agents that may work on a task, weakest first, without repeating one."""
        agent = self.agents.get(name)
        # The starting agent may be on the ladder under its own or another name; only the agents
        # above it come next.
        alike = [n for n, other in enumerate(self.ladder) if self._is_same(other, name, agent)]
        return (name, *self.ladder[alike[-1] + 1 if alike else 0 :])

    def _is_same(self, other: str, name: str, agent: Agent | None) -> bool:
        return other == name or (agent is not None and self.agents.get(other) == agent)

    def for_child_run(self, gates: tuple[str, ...]) -> "Policy":
        """Return the policy of an inner run, whose results are validated within it.

        Its answer is checked by the outer run.
        """
        # Planning, synthesis and checks of the answer belong to the outer run.
        roles = {role: agent for role, agent in self.roles.items() if role is Role.VALIDATOR}
        return msgspec.structs.replace(self, gates=gates, roles=roles, verifiers=())

    def for_panel(self, panel: Panel, question: str) -> "Policy":
        """Return the policy of a panel, with room for the whole question in every prompt.

        Otherwise seats would deliberate on a truncated question without notice.
        """
        most = max(self.input_bytes, len(question.encode(errors="replace")))
        # What the accord is worth is decided by the task, and not within the session.
        panel = msgspec.structs.replace(panel, require=Requirement.MAJORITY)
        policy = msgspec.structs.replace(self, panel=panel, input_bytes=most)
        return policy.with_rules(policy.rules)

    def without_retries(self, ladder: tuple[str, ...] = ()) -> "Policy":
        """Return the same policy without retries, and with no escalation but to these."""
        return msgspec.structs.replace(self, retries=0, ladder=ladder)

    def retry_delay_ms(self, retry: int) -> int:
        """Return the delay before a retry in milliseconds; the first retry is 1."""
        # The exponent is limited as well, so that a huge retry number cannot create a huge integer.
        return min(self.backoff_milliseconds << min(retry - 1, 20), 60_000)


def model_of(agent: Agent) -> str:
    """Return the name by which the record tells whether two agents are the same model."""
    match agent:
        case Chat() | Library():
            return agent.model
        case Command():
            # Without its folder: a copy of the program at another path is the same model, and so
            # not an independent judge.
            return agent.argv[0].rpartition("/")[2] if agent.argv else ""
        case Scripted():
            return "scripted"
        case Extension():
            return str(agent.entry)
        case _:
            assert_never(agent)


def models_of(agent: Agent) -> frozenset[str]:
    """Return the names of all models that may answer for an agent."""
    programs = agent.programs if isinstance(agent, Command) else (agent,)
    return frozenset(map(model_of, programs))


def write_policy(policy: Policy) -> bytes:
    """Return the recorded form of a policy. Raises `Malformed`."""
    try:
        return msgspec.json.encode(policy, order="sorted")
    except UnicodeError as error:
        raise Malformed("policy", str(error)) from None


def read_policy(data: bytes) -> Policy:
    """Return the policy with this recorded form. Raises `Malformed`."""
    try:
        return _policy.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("policy", str(error)) from None


# Created at import: two threads in which msgspec inspects a type at the same time crash the
# process.
_policy = msgspec.json.Decoder(Policy)


def _tool_criteria(task: Task) -> Iterator[Criterion]:
    """Return the criteria of a task that a tool of the policy checks."""
    demands = parse_criteria(task.done_when)
    return (demand for demand in demands if demand.check in (Check.COMMAND, Check.TESTS))


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(repr(name) for name in names)) or "none"


def _check_version(panel: Panel | None) -> None:
    """Refuse a panel that follows rules of a later release."""
    if panel is None:
        return
    kind, newest = "council", COUNCIL_VERSION
    if isinstance(panel, Symposium):
        kind, newest = "symposium", SYMPOSIUM_VERSION
    if not 1 <= panel.version <= newest:
        raise BadPlan(
            f"version {panel.version} of the rules of a {kind}; this release has 1 to "
            f"{newest}: upgrade Forum"
        )
