"""How a run may be carried out: by whom, how much at once, how often again, and who is asked.

It is recorded with the request, so that whoever takes the run over carries it out the same way.
"""

import re
from enum import StrEnum

import msgspec

from forum.errors import BadPlan, Malformed
from forum.ledger import Count
from forum.work.plan import Plan

ASK = "ask"
"""The tool by which an agent asks another one: a call like every other, paid by the same run."""

_LABEL = re.compile(r"[!#-\[\]-~]{1,128}").fullmatch
"""What an entry can say of who wrote it: agents write entries under their names."""


class _Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a policy, in the form in which it is recorded."""


class Use(_Recorded, frozen=True):
    """An agent wants a tool to be used."""

    tool: str
    arguments: str = ""


class Move(_Recorded, frozen=True):
    """What a scripted agent does in one call."""

    say: str = ""
    use: tuple[Use, ...] = ()
    fail: str = ""
    """Why the call fails; it succeeds without."""
    milliseconds: Count = 0
    usd: Count | None = None
    """What is billed, if not the price: a provider may bill more than its bound."""
    tokens: Count = 0


class Scripted(_Recorded, frozen=True, tag="scripted", tag_field="kind"):
    """An agent that does what its script says, task by task and call by call.

    Of the moves of a task (or those of `*`) the n-th belongs to the n-th call that was answered;
    the last one is repeated.  Without moves it repeats what it was told to do.
    """

    moves: dict[str, tuple[Move, ...]] = {}
    usd: Count = 0
    """The price of a call."""
    tokens: Count = 0
    """The most tokens of a call."""


class Command(_Recorded, frozen=True, tag="command", tag_field="kind"):
    """An agent that is a program: the prompt on its standard input, the reply on its output."""

    argv: tuple[str, ...]
    usd: Count = 0
    """What a call costs, as declared by whoever configured it."""
    tokens: Count = 0
    output_bytes: Count = 1 << 30
    """The most that is kept of what it prints."""


Agent = Scripted | Command


class Tool(_Recorded, frozen=True):
    """A program with an effect on the world: arguments on its input, the result on its output.

    The key of the effect is in its environment as FORUM_KEY: the same for every attempt.
    """

    argv: tuple[str, ...]
    seconds: Count = 60


class Answer(StrEnum):
    """What is decided at a gate."""

    APPROVE = "approve"
    REJECT = "reject"


class Policy(_Recorded, frozen=True):
    """What may run, how much at once, how often again, and what has to be approved."""

    agents: dict[str, Agent] = msgspec.field(default_factory=lambda: {"": Scripted()})
    """By name; the one without a name works for tasks that name none."""
    tools: dict[str, Tool] = {}
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

    def check(self, plan: Plan) -> None:
        """Refuse a plan that names what this policy does not have."""
        self._check_agents({*plan.agents, *self.ladder})
        if self.parallel == 0:
            raise BadPlan("nothing may run at once: parallel is 0")
        known = {"plan", "tasks", *(f"task:{name}" for name in plan.names)}
        for gate in self.gates:
            if gate not in known:
                raise BadPlan(f"a gate before {gate!r}, which is not in the plan")

    def _check_agents(self, wanted: set[str]) -> None:
        for name in sorted(wanted):
            if name not in self.agents:
                raise BadPlan(f"no agent is called {name!r}; known: {_names(self.agents)}")
        for name in self.agents:
            if name and not _LABEL(name):
                raise BadPlan(
                    f"{name!r} is no name for an agent: no spaces, no quotes, up to 128 letters"
                )

    def guards(self, task: str) -> bool:
        """Tell whether a task has to be approved."""
        return "tasks" in self.gates or f"task:{task}" in self.gates

    def agent_of(self, name: str, rung: int) -> str:
        """Return who works on a task of this agent after it was handed up so many times."""
        return self.ladder_of(name)[rung]

    def ladder_of(self, name: str) -> tuple[str, ...]:
        """Return all who may work on a task, weakest first."""
        above = self.ladder
        return (name, *(above[above.index(name) + 1 :] if name in above else above))

    def with_gates(self, gates: tuple[str, ...]) -> "Policy":
        """Return the same policy with other gates."""
        return msgspec.structs.replace(self, gates=gates)

    def once(self) -> "Policy":
        """Return the same policy for a task that is not tried again."""
        return msgspec.structs.replace(self, retries=0, ladder=())

    def pause(self, retry: int) -> int:
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


def _names(agents: dict[str, Agent]) -> str:
    return ", ".join(sorted(repr(name) for name in agents))
