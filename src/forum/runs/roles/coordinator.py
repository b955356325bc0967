"""The Coordinator divides a request into tasks.

Its prompt holds the request, the lanes ranked by the router (only the ordered one if the submitter
chose it), background from tools, and the form of a plan. Code checks the plan, and the Coordinator
revises it once if a part of the request is not covered or a criterion cannot be met.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from forum.errors import BadPlan
from forum.runs import answer_checks, reply_schemas
from forum.runs.acceptance_criteria import TOOL_CHECKS, Check, parse_criteria
from forum.runs.asks import find_questions
from forum.runs.panel import draft_decision
from forum.runs.plan import Plan, Task, seat_decision_task
from forum.runs.plan_limits import check_plan_size
from forum.runs.policy import LaneBrief, Policy
from forum.runs.prompt import Prompt, Quotation
from forum.runs.role_assignment import MIN_PLAN_CHARS
from forum.runs.roles import prompt_parts
from forum.runs.roles.prompt_parts import MAX_TEXT_CHARS, NO_LANE

MAX_PLANNED_TASKS = 12
"""Limit of tasks in a Coordinator's plan."""
_TASK_CHARS = 320
"""The estimated number of characters that describe a task."""
_SHORT_REPLY_LANES = 2
_MIN_ASK_COVERAGE = 0.5
"""The share of a question's terms that the tasks together have to mention."""

SYSTEM = """\
You plan the work of a team. You do not answer the request yourself.
Divide the request into as few tasks as it needs. One task is best if one specialist can do all of \
it well; divide only where parts are independent, need different specialists, or build on each \
other.
Every specialist sees the whole request, the outline of your plan, and the results of the tasks \
that are named in `needs`. A writer then combines all results into one answer, so plan no task \
that only repeats or combines."""

_TASK = """\
## Your task
First list in `asks` everything that the request asks for, each in the words of the request. Then \
write the tasks. Reply with JSON only:
{"asks": ["..."], "tasks": [{"id": "...", "instruction": "...", "lane": "...", "needs": [], \
"after": [], "covers": [], "done_when": "..."}]}
- id: a short name
- instruction: what to do, complete and exact; name the parts of the request to work on
- lane: one of the specialists above
- needs: ids of tasks whose results this task has to read
- after: ids of tasks that must be finished first, without reading their results
- covers: the numbers of the asks that this task answers, the first being 1; each ask must be \
covered
- done_when: how to tell that the task is done, one criterion on a line. Code checks the lines \
"contains TEXT", "matches REGEX" and "json"; a judge checks lines in plain words. Ask only for \
what the task can deliver."""

_DECISIONS = """\
## Decisions
A panel of several models can choose one of the options that a task lists in `decide`. Plan such a \
task only where the request leaves open a choice on which other tasks depend; they get the chosen \
option and what was said against it by naming the task in `needs`. Each task has another member:
- decide: two or more options, each a few words; empty for all other tasks"""
_MAX_DECIDED_OPTIONS = 8

_QUOTED = re.compile(r"""(['"`])([^'"`]+)\1""")
_MIN_ECHOED_WORDS = 4
_WHOLE_REQUEST = "Do everything that the request asks for."

_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,30}$"}


class DraftedTask(msgspec.Struct, frozen=True):
    """A task as a Coordinator writes it: it can name a lane, never an agent or a budget."""

    id: str
    instruction: str
    lane: str = NO_LANE
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    covers: tuple[int, ...] = ()
    done_when: str = ""
    decide: tuple[str, ...] = ()
    """Options, of which a panel chooses one."""


class DraftedPlan(msgspec.Struct, frozen=True):
    """The reply of a Coordinator."""

    tasks: tuple[DraftedTask, ...]
    asks: tuple[str, ...] = ()


def build_prompt(
    request: Quotation,
    lanes: dict[str, LaneBrief],
    background: Sequence[Quotation],
    ordered: str = "",
    *,
    decides: bool = False,
) -> Prompt:
    """Return a prompt that asks for a plan; `ordered` is the lane that the submitter chose.

    `decides`: there is a panel that can choose between options.
    """
    listed = prompt_parts.list_lanes(lanes)
    others = "" if ordered else f"\n- {NO_LANE}: a generalist"
    note = "\nThe submitter chose this specialist: give it every task." if ordered else ""
    task = f"## Specialists\n{listed}{others}{note}\n\n{_TASK}"
    if decides:
        task = f"{task}\n\n{_DECISIONS}"
    sections = [
        prompt_parts.section("The request", [request]),
        prompt_parts.section("Background from tools", background),
    ]
    return prompt_parts.compose_prompt(SYSTEM, sections, task)


def offered_lanes(
    lanes: dict[str, LaneBrief], room: int, ordered: str, routed: str = ""
) -> dict[str, LaneBrief]:
    """Return the lanes that a plan may use: only the ordered one, if there is one.

    The lane that the request was routed to comes first. A model that can write one task only gets
    the nearest lanes: a long list confuses it.
    """
    if ordered in lanes:
        return {ordered: lanes[ordered]}
    most = _SHORT_REPLY_LANES if room < MIN_PLAN_CHARS else len(lanes)
    ranked = sorted(lanes, key=lambda name: name != routed)  # stable: the others keep their order
    return {name: lanes[name] for name in ranked[:most]}


def build_schema(
    lanes: Mapping[str, LaneBrief], room: int, ordered: str = "", *, decides: bool = False
) -> bytes:
    """Return the schema of a plan that has at most `room` characters."""
    names = [*lanes] if ordered else [*lanes, NO_LANE]
    # A model with a short reply gets one short task: a reply that is cut off is no plan. Any other
    # may write an instruction as long as half of its reply.
    is_short = room < MIN_PLAN_CHARS
    most = 1 if is_short else min(MAX_PLANNED_TASKS, room // _TASK_CHARS)
    references = {"type": "array", "items": _NAME, "maxItems": most - 1}
    option = reply_schemas.text_schema(max(40, min(_TASK_CHARS, room // 16)))
    options = {"decide": reply_schemas.array_schema(option, _MAX_DECIDED_OPTIONS)}
    task = reply_schemas.object_schema(
        {
            "id": _NAME,
            "instruction": reply_schemas.text_schema(max(80, room // 3) if is_short else room // 2),
            "lane": {"enum": names},
            "needs": references,
            "after": references,
            "covers": {"type": "array", "items": {"type": "integer"}, "maxItems": most},
            "done_when": reply_schemas.text_schema(max(40, min(_TASK_CHARS, room // 8))),
            **(options if decides else {}),
        }
    )
    ask = reply_schemas.text_schema(max(40, min(MAX_TEXT_CHARS, room // 8)))
    return reply_schemas.build_schema(
        {
            "asks": reply_schemas.array_schema(ask, most),
            "tasks": reply_schemas.array_schema(task, most, least=1),
        }
    )


# The text of each `ValueError` raised below is sent back to the model for another try, so it must
# say what is wrong with the reply.


def parse_plan(reply: bytes, policy: Policy, ordered: str, request: str) -> Plan:
    """Return the plan of a Coordinator, if it can be executed under this policy.

    All tasks get the lane that the submitter ordered. Code demands only texts of the request: what
    the Coordinator invented is left to the judge. Raises `ValueError`.
    """
    drafted = reply_schemas.parse_structured(reply, _decoder).tasks
    if len(drafted) > MAX_PLANNED_TASKS:
        raise ValueError(f"{len(drafted)} tasks; the most is {MAX_PLANNED_TASKS}")
    try:
        given = request if policy.demands_given_texts else None
        tasks = tuple(_read_task(task, ordered, policy, given) for task in drafted)
        if len(tasks) == 1 and policy.is_team and tasks[0].panel is None:
            # The result is the answer: an instruction that names a part would lose the others.
            whole = f"{_WHOLE_REQUEST} {tasks[0].instruction}"
            tasks = (msgspec.structs.replace(tasks[0], instruction=whole),)
        # The limits for clients apply to models too: a plan must not take long to check.
        check_plan_size(tasks)
        plan = Plan(tasks)
        policy.check(plan)
    except BadPlan as error:
        raise ValueError(str(error)) from None
    return plan


def _read_task(drafted: DraftedTask, ordered: str, policy: Policy, given: str | None) -> Task:
    if len(drafted.done_when) > MAX_TEXT_CHARS:
        raise BadPlan(f"task {drafted.id!r}: its done_when has more than {MAX_TEXT_CHARS} letters")
    # Only people may request checks by tools: otherwise a planning model could run any tool by
    # naming it in a criterion.
    if any(criterion.check in TOOL_CHECKS for criterion in parse_criteria(drafted.done_when)):
        raise BadPlan(f"task {drafted.id!r}: its done_when names a tool")
    lane = "" if drafted.lane == NO_LANE else drafted.lane
    if drafted.decide:
        decision = Task(
            id=drafted.id,
            instruction=drafted.instruction,
            needs=drafted.needs,
            after=drafted.after,
            panel=draft_decision(drafted.decide),
        )
        return seat_decision_task(decision, policy.panels)
    return Task(
        id=drafted.id,
        instruction=drafted.instruction,
        done_when=_mend_criteria(drafted, given),
        needs=drafted.needs,
        after=drafted.after,
        lane=ordered or lane,
    )


def _mend_criteria(drafted: DraftedTask, given: str | None = None) -> str:
    """Return the criteria of a task without those that good work would fail.

    Small models put the text of "contains" into quotes, write whole sentences after it, or demand
    the instruction itself, which only an echo contains. A text that is not in `given` is the
    Coordinator's guess of the result, and only a judge can tell whether the result is wrong.
    """
    lines = []
    for line in drafted.done_when.splitlines():
        word, _, what = line.strip().partition(" ")
        if word != Check.CONTAINS.value:
            lines.append(line)
            continue
        quoted = _QUOTED.fullmatch(what.strip())
        if quoted is None and _QUOTED.search(what):
            lines.append(f"The result {line.strip()}")  # for the judge: code cannot read it
            continue
        text = quoted.group(2) if quoted else what.strip()
        is_instruction = text.casefold() in drafted.instruction.casefold()
        if is_instruction and len(text.split()) >= _MIN_ECHOED_WORDS:
            continue
        is_invented = given is not None and _plain(text) not in _plain(given)
        lines.append(f'The result contains "{text}"' if is_invented else f"{word} {text}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def find_holes(reply: bytes, request: str) -> tuple[str, ...]:
    """Return what a plan leaves out or cannot reach; empty if the check finds nothing.

    Found are asks that no task covers, questions of the request that no instruction mentions, and
    texts that a result must contain although neither request nor plan mentions them.
    """
    drafted = reply_schemas.parse_structured(reply, _decoder)
    covered = {number for task in drafted.tasks for number in task.covers}
    holes = [
        f"no task covers ask {number}: {ask[:MAX_TEXT_CHARS]}"
        for number, ask in enumerate(drafted.asks, 1)
        if covered and number not in covered
    ]
    words = "\n".join((*drafted.asks, *(task.instruction for task in drafted.tasks)))
    if len(drafted.tasks) > 1:
        holes += [
            f"no task mentions this question of the request: {question}"
            for question in find_questions(request)
            if answer_checks.term_coverage(question, words) < _MIN_ASK_COVERAGE
        ]
    return (*holes, *_find_unreachable_criteria(drafted.tasks, f"{request}\n{words}"))


def _find_unreachable_criteria(tasks: Sequence[DraftedTask], words: str) -> list[str]:
    """Return the criteria that only a lucky guess could meet: nobody is told their text."""
    return [
        f'task {task.id!r} must contain "{criterion.what}", which neither the request nor an '
        "instruction mentions"
        for task in tasks
        for criterion in parse_criteria(_mend_criteria(task))
        if criterion.check is Check.CONTAINS and criterion.what.casefold() not in words.casefold()
    ]


_decoder = msgspec.json.Decoder(DraftedPlan)
