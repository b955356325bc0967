"""Prompts, reply schemas and parsers for the roles that models play beside the work.

A role is asked only where code cannot decide, and its reply counts only after code has validated
its form. All texts of others, including the request, are quoted so that their author cannot end the
quotation.
"""

from collections.abc import Mapping, Sequence

import msgspec

from forum.errors import BadPlan
from forum.work import reply_schemas
from forum.work.acceptance_criteria import TOOL_CHECKS, parse_criteria
from forum.work.kinds import ROLE_PREFIX
from forum.work.plan import Plan, Task
from forum.work.plan_limits import check_plan_size
from forum.work.policy import LaneBrief, Policy, Role
from forum.work.prompt import Quotation, quote

MAX_PLANNED_TASKS = 12
"""Limit of tasks in a Coordinator's plan."""
NO_LANE = "none"
MAX_REPAIRS = 1
"""How often a role gets another chance after a reply of the wrong form."""

_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,30}$"}
_MAX_LINE_CHARS, _MAX_TEXT_CHARS = 200, 1000
_TASK_CHARS = 320
"""The estimated number of characters that describe a task."""


class LaneChoice(msgspec.Struct, frozen=True):
    """The reply of a Classifier."""

    lane: str


class DraftedTask(msgspec.Struct, frozen=True):
    """A task as a Coordinator writes it: it can name a lane, never an agent or a budget."""

    id: str
    instruction: str
    lane: str = NO_LANE
    needs: tuple[str, ...] = ()
    done_when: str = ""


class DraftedPlan(msgspec.Struct, frozen=True):
    """The reply of a Coordinator."""

    tasks: tuple[DraftedTask, ...]


class Opinion(msgspec.Struct, frozen=True):
    """The reply of a Validator or an Intent judge."""

    passed: bool
    reason: str = ""


class AnswerPart(msgspec.Struct, frozen=True):
    """A part of an answer, and the task whose result it comes from."""

    source: str = msgspec.field(name="from")
    text: str


class AnswerParts(msgspec.Struct, frozen=True):
    """The reply of a Synthesizer."""

    parts: tuple[AnswerPart, ...]


class Revision(msgspec.Struct, frozen=True):
    """The reply of a Reviser."""

    text: str


def task_of_role(role: Role, number: int = 1) -> str:
    """Return the name of the task in which a role is called for the n-th time."""
    return f"{ROLE_PREFIX}{role.value}" if number == 1 else f"{ROLE_PREFIX}{role.value}.{number}"


def classifier_prompt(request: Quotation, lanes: Mapping[str, LaneBrief]) -> bytes:
    """Return a prompt that asks which lane a request belongs to."""
    listed = "\n".join(f"- {name}: {brief.does}" for name, brief in lanes.items())
    return reply_schemas.compose_prompt(
        "Choose the specialist who should handle the request below.",
        f"Specialists:\n{listed}\n- {NO_LANE}: no specialist fits",
        'Reply with JSON: {"lane": "NAME"}',
        quoted=[request],
    )


def coordinator_prompt(
    request: Quotation, lanes: Mapping[str, LaneBrief], context: Sequence[Quotation]
) -> bytes:
    """Return a prompt that asks for a plan."""
    listed = "\n".join(f"- {name}: {brief.does}" for name, brief in lanes.items())
    return reply_schemas.compose_prompt(
        "Divide the request below into as few tasks as it needs, often just one. Each task is one "
        "clear instruction to one specialist, who sees the results of the tasks named in `needs` "
        "and nothing else. In `done_when` say in a few words how to tell that it was done.",
        f"Specialists:\n{listed}\n- {NO_LANE}: a generalist",
        'Reply with JSON: {"tasks": [...]}, where each task has "id" (a short name), "lane" (a '
        'specialist), "instruction", "needs" (the ids of tasks whose results it needs) and '
        '"done_when".',
        quoted=[request, *context],
    )


def validator_prompt(instruction: Quotation, demand: str, result: Quotation) -> bytes:
    """Return a prompt that asks whether a result meets the criteria of its task."""
    return reply_schemas.compose_prompt(
        "Judge whether the result below does what the instruction asks. You did not write it. "
        "Be strict, and judge only what is there.",
        "It is done when what is demanded below holds." if demand else "",
        'Reply with JSON: {"passed": true or false, "reason": "..."}',
        quoted=[instruction, *_quote_words("what is demanded", demand), result],
    )


def synthesizer_prompt(
    request: Quotation, results: Sequence[Quotation], missing: str = ""
) -> bytes:
    """Return a prompt that asks for one answer from several results."""
    return reply_schemas.compose_prompt(
        "Write one answer to the request from the results below, and from nothing else. For each "
        "part name the task that it comes from.",
        "An earlier answer was found wanting: the reason is quoted last." if missing else "",
        'Reply with JSON: {"parts": [...]}, where each part has "from" (a task) and "text".',
        quoted=[request, *results, *_quote_words("what was wanting", missing)],
    )


def intent_prompt(request: Quotation, answer: Quotation) -> bytes:
    """Return a prompt that asks whether an answer answers the request."""
    return reply_schemas.compose_prompt(
        "Judge whether the answer below answers the request: the question that was asked, all of "
        "it, and not another one.",
        'Reply with JSON: {"passed": true or false, "reason": "..."}',
        quoted=[request, answer],
    )


def reviser_prompt(request: Quotation, answer: Quotation) -> bytes:
    """Return a prompt that asks for a shorter answer."""
    return reply_schemas.compose_prompt(
        "Shorten the answer below. Keep every number, name, reference in [brackets], piece of "
        "code and condition; drop what is said twice and what nobody asked for.",
        'Reply with JSON: {"text": "..."}',
        quoted=[request, answer],
    )


def repair_prompt(before: bytes, said: Quotation, why: str) -> bytes:
    """Return a prompt that explains what was wrong with a reply, and asks for another."""
    told_wrong = why.encode(errors="replace")
    wrong = quote(Quotation("what is wrong with it", told_wrong, len(told_wrong)))
    told = b"Your reply was not usable. Reply again, with nothing but the JSON."
    return b"\n\n".join([before, quote(said), wrong, told])


def _quote_words(source: str, words: str) -> list[Quotation]:
    """Return the text of another role as a quotation: it must not act as an instruction either."""
    return [Quotation(source, words.encode(), len(words.encode()))] if words else []


def classifier_schema(lanes: Mapping[str, LaneBrief]) -> bytes:
    """Return the schema of a Classifier's reply."""
    return reply_schemas.build_schema({"lane": {"enum": [*lanes, NO_LANE]}})


def coordinator_schema(lanes: Mapping[str, LaneBrief], room: int) -> bytes:
    """Return the schema of a plan, with at most as many tasks as `room` characters can describe."""
    most = max(1, min(MAX_PLANNED_TASKS, room // _TASK_CHARS))
    task = reply_schemas.object_schema(
        {
            "id": _NAME,
            "instruction": reply_schemas.text_schema(
                max(80, min(_MAX_TEXT_CHARS, room // most - _TASK_CHARS // 2))
            ),
            "lane": {"enum": [*lanes, NO_LANE]},
            "needs": {"type": "array", "items": _NAME, "maxItems": most - 1},
            "done_when": reply_schemas.text_schema(min(_MAX_LINE_CHARS, _TASK_CHARS // 4)),
        }
    )
    return reply_schemas.build_schema({"tasks": reply_schemas.array_schema(task, most, least=1)})


def opinion_schema() -> bytes:
    """Return the schema of a judgement."""
    return reply_schemas.build_schema(
        {"passed": {"type": "boolean"}, "reason": reply_schemas.text_schema(_MAX_LINE_CHARS)}
    )


def synthesizer_schema(tasks: Sequence[str], room: int) -> bytes:
    """Return the schema of an answer in parts, which share `room` characters."""
    text = reply_schemas.text_schema(max(80, room // len(tasks)))
    part = reply_schemas.object_schema({"from": {"enum": list(tasks)}, "text": text})
    return reply_schemas.build_schema(
        {"parts": reply_schemas.array_schema(part, len(tasks), least=1)}
    )


def reviser_schema(room: int) -> bytes:
    """Return the schema of a shorter answer."""
    return reply_schemas.build_schema({"text": reply_schemas.text_schema(room)})


# The text of each `ValueError` raised below is sent back to the model for another try, so it must
# say what is wrong with the reply.


def read_lane_choice(said: bytes, lanes: Mapping[str, LaneBrief]) -> str:
    """Return the chosen lane; an empty string if none fits."""
    choice = reply_schemas.parse_structured(said, _choice)
    if choice.lane not in (*lanes, NO_LANE):
        raise ValueError("lane is none of those that were listed")
    return "" if choice.lane == NO_LANE else choice.lane


def read_drafted_plan(said: bytes, policy: Policy) -> Plan:
    """Return the plan of a Coordinator, if it can be executed under this policy."""
    drafted = reply_schemas.parse_structured(said, _plan).tasks
    if len(drafted) > MAX_PLANNED_TASKS:
        raise ValueError(f"{len(drafted)} tasks; the most is {MAX_PLANNED_TASKS}")
    try:
        tasks = tuple(_read_task(task) for task in drafted)
        # The limits for clients apply to models too: a plan must not take long to check.
        check_plan_size(tasks)
        plan = Plan(tasks)
        policy.check(plan)
    except BadPlan as error:
        raise ValueError(str(error)) from None
    return plan


def _read_task(drafted: DraftedTask) -> Task:
    if len(drafted.done_when) > _MAX_TEXT_CHARS:
        raise BadPlan(f"task {drafted.id!r}: its done_when has more than {_MAX_TEXT_CHARS} letters")
    # Only people may request checks by tools: otherwise a planning model could run any tool by
    # naming it in a criterion.
    if any(demand.check in TOOL_CHECKS for demand in parse_criteria(drafted.done_when)):
        raise BadPlan(f"task {drafted.id!r}: its done_when names a tool")
    lane = "" if drafted.lane == NO_LANE else drafted.lane
    return Task(drafted.id, drafted.instruction, drafted.done_when, drafted.needs, lane=lane)


def read_opinion(said: bytes) -> Opinion:
    """Return a judgement; its reason goes into other prompts and is truncated."""
    opinion = reply_schemas.parse_structured(said, _opinion)
    return Opinion(opinion.passed, opinion.reason[:_MAX_TEXT_CHARS])


def read_parts(said: bytes, tasks: Sequence[str]) -> str:
    """Return the answer from its parts, each followed by the task that it comes from."""
    parts = [
        part for part in reply_schemas.parse_structured(said, _parts).parts if part.text.strip()
    ]
    if not parts:
        raise ValueError("there is no text in it")
    for part in parts:
        if part.source not in tasks:
            raise ValueError(f"from: {part.source[:40]!r} is none of the tasks")
    return "\n\n".join(f"{part.text.strip()} [{part.source}]" for part in parts)


def read_revision(said: bytes) -> str:
    """Return a shorter answer."""
    text = reply_schemas.parse_structured(said, _revision).text.strip()
    if not text:
        raise ValueError("there is no text in it")
    return text


# Created at import: two threads in which msgspec inspects a type at the same time crash the
# process.
_choice = msgspec.json.Decoder(LaneChoice)
_plan = msgspec.json.Decoder(DraftedPlan)
_opinion = msgspec.json.Decoder(Opinion)
_parts = msgspec.json.Decoder(AnswerParts)
_revision = msgspec.json.Decoder(Revision)
