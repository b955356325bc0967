"""The roles that models play beside the work: what each is told, and the form of what it says.

Code comes first everywhere: a role is asked only where code has no answer, and what it says counts
only once code has found it to have the right form.  The words of others, the request included, are
quoted so that their author cannot end the quotation.
"""

from collections.abc import Mapping, Sequence

import msgspec

from forum.errors import BadPlan
from forum.work.demands import WITH_TOOLS, demands_of
from forum.work.kinds import ROLE
from forum.work.plan import Plan, Task
from forum.work.policy import Brief, Policy, Role
from forum.work.prompt import Quoted, quote
from forum.work.replies import a_text, an_array, an_object, form_of, instruct, read_formed
from forum.work.size import check_size

MOST_PLANNED = 12
"""How many tasks a Coordinator may plan."""
NO_LANE = "none"
REPAIRS = 1
"""How often a role is told what was wrong with the form of its reply."""

_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,30}$"}
_LINE, _WORDS = 200, 1000
_TASK = 320
"""About how many characters it takes to describe a task."""


class Choice(msgspec.Struct, frozen=True):
    """What a Classifier says."""

    lane: str


class Drafted(msgspec.Struct, frozen=True):
    """A task as a Coordinator writes it: it can name a lane, never an agent or a budget."""

    id: str
    instruction: str
    lane: str = NO_LANE
    needs: tuple[str, ...] = ()
    done_when: str = ""


class DraftedPlan(msgspec.Struct, frozen=True):
    """What a Coordinator says."""

    tasks: tuple[Drafted, ...]


class Opinion(msgspec.Struct, frozen=True):
    """What a Validator or an Intent judge says."""

    passed: bool
    reason: str = ""


class Part(msgspec.Struct, frozen=True):
    """A piece of an answer, and the result that it comes from."""

    source: str = msgspec.field(name="from")
    text: str


class Parts(msgspec.Struct, frozen=True):
    """What a Synthesizer says."""

    parts: tuple[Part, ...]


class Revision(msgspec.Struct, frozen=True):
    """What a Delivery reviser says."""

    text: str


def task_of_role(role: Role, number: int = 1) -> str:
    """Return the name of the task in which a role does its part, for the n-th time."""
    return f"{ROLE}{role.value}" if number == 1 else f"{ROLE}{role.value}.{number}"


# What each is told


def classifier_prompt(request: Quoted, lanes: Mapping[str, Brief]) -> bytes:
    """Ask which lane a request belongs to."""
    listed = "\n".join(f"- {name}: {brief.does}" for name, brief in lanes.items())
    return instruct(
        "Choose the specialist who should handle the request below.",
        f"Specialists:\n{listed}\n- {NO_LANE}: no specialist fits",
        'Reply with JSON: {"lane": "NAME"}',
        quoted=[request],
    )


def coordinator_prompt(
    request: Quoted, lanes: Mapping[str, Brief], context: Sequence[Quoted]
) -> bytes:
    """Ask for a plan."""
    listed = "\n".join(f"- {name}: {brief.does}" for name, brief in lanes.items())
    return instruct(
        "Divide the request below into as few tasks as it needs, often just one. Each task is one "
        "clear instruction to one specialist, who sees the results of the tasks named in `needs` "
        "and nothing else. In `done_when` say in a few words how to tell that it was done.",
        f"Specialists:\n{listed}\n- {NO_LANE}: a generalist",
        'Reply with JSON: {"tasks": [...]}, where each task has "id" (a short name), "lane" (a '
        'specialist), "instruction", "needs" (the ids of tasks whose results it needs) and '
        '"done_when".',
        quoted=[request, *context],
    )


def validator_prompt(instruction: Quoted, demand: str, result: Quoted) -> bytes:
    """Ask whether a result does what its task demands."""
    return instruct(
        "Judge whether the result below does what the instruction asks. You did not write it. "
        "Be strict, and judge only what is there.",
        "It is done when what is demanded below holds." if demand else "",
        'Reply with JSON: {"passed": true or false, "reason": "..."}',
        quoted=[instruction, *_quoted("what is demanded", demand), result],
    )


def synthesizer_prompt(request: Quoted, results: Sequence[Quoted], missing: str = "") -> bytes:
    """Ask for one answer."""
    return instruct(
        "Write one answer to the request from the results below, and from nothing else. For each "
        "part name the task that it comes from.",
        "An earlier answer was found wanting: the reason is quoted last." if missing else "",
        'Reply with JSON: {"parts": [...]}, where each part has "from" (a task) and "text".',
        quoted=[request, *results, *_quoted("what was wanting", missing)],
    )


def intent_prompt(request: Quoted, answer: Quoted) -> bytes:
    """Ask whether an answer answers."""
    return instruct(
        "Judge whether the answer below answers the request: the question that was asked, all of "
        "it, and not another one.",
        'Reply with JSON: {"passed": true or false, "reason": "..."}',
        quoted=[request, answer],
    )


def reviser_prompt(request: Quoted, answer: Quoted) -> bytes:
    """Ask for a shorter answer."""
    return instruct(
        "Shorten the answer below. Keep every number, name, reference in [brackets], piece of "
        "code and condition; drop what is said twice and what nobody asked for.",
        'Reply with JSON: {"text": "..."}',
        quoted=[request, answer],
    )


def repair_prompt(before: bytes, said: Quoted, why: str) -> bytes:
    """Say what was wrong with the form of a reply, and ask for another."""
    told_wrong = why.encode(errors="replace")
    wrong = quote(Quoted("what is wrong with it", told_wrong, len(told_wrong)))
    told = b"Your reply was not usable. Reply again, with nothing but the JSON."
    return b"\n\n".join([before, quote(said), wrong, told])


def _quoted(source: str, words: str) -> list[Quoted]:
    """Return what another role said, where it said something: it gives no instructions either."""
    return [Quoted(source, words.encode(), len(words.encode()))] if words else []


# The form of what each says


def classifier_schema(lanes: Mapping[str, Brief]) -> bytes:
    """Return the form of a choice."""
    return form_of({"lane": {"enum": [*lanes, NO_LANE]}})


def coordinator_schema(lanes: Mapping[str, Brief], room: int) -> bytes:
    """Return the form of a plan: of no more tasks than there is room to describe."""
    most = max(1, min(MOST_PLANNED, room // _TASK))
    task = an_object(
        {
            "id": _NAME,
            "instruction": a_text(max(80, min(_WORDS, room // most - _TASK // 2))),
            "lane": {"enum": [*lanes, NO_LANE]},
            "needs": {"type": "array", "items": _NAME, "maxItems": most - 1},
            "done_when": a_text(min(_LINE, _TASK // 4)),
        }
    )
    return form_of({"tasks": an_array(task, most, least=1)})


def opinion_schema() -> bytes:
    """Return the form of a judgement."""
    return form_of({"passed": {"type": "boolean"}, "reason": a_text(_LINE)})


def synthesizer_schema(tasks: Sequence[str], room: int) -> bytes:
    """Return the form of an answer in parts, which together have so much room."""
    text = a_text(max(80, room // len(tasks)))
    part = an_object({"from": {"enum": list(tasks)}, "text": text})
    return form_of({"parts": an_array(part, len(tasks), least=1)})


def reviser_schema(room: int) -> bytes:
    """Return the form of a shorter answer."""
    return form_of({"text": a_text(room)})


# What they said.  Each raises `ValueError`, whose words are for the one who said it.


def read_choice(said: bytes, lanes: Mapping[str, Brief]) -> str:
    """Return the lane that was chosen; nothing where none fits."""
    choice = read_formed(said, _choice)
    if choice.lane not in (*lanes, NO_LANE):
        raise ValueError("lane is none of those that were listed")
    return "" if choice.lane == NO_LANE else choice.lane


def read_drafted_plan(said: bytes, policy: Policy) -> Plan:
    """Return the plan that was made, if it can be run under this policy."""
    drafted = read_formed(said, _plan).tasks
    if len(drafted) > MOST_PLANNED:
        raise ValueError(f"{len(drafted)} tasks; the most is {MOST_PLANNED}")
    try:
        tasks = tuple(_task(task) for task in drafted)
        check_size(tasks)
        plan = Plan(tasks)
        policy.check(plan)
    except BadPlan as error:
        raise ValueError(str(error)) from None
    return plan


def _task(drafted: Drafted) -> Task:
    if len(drafted.done_when) > _WORDS:
        raise BadPlan(f"task {drafted.id!r}: its done_when has more than {_WORDS} letters")
    # Checks by tools are for people to order: a model that plans must not have things done.
    if any(demand.check in WITH_TOOLS for demand in demands_of(drafted.done_when)):
        raise BadPlan(f"task {drafted.id!r}: its done_when names a tool")
    lane = "" if drafted.lane == NO_LANE else drafted.lane
    return Task(drafted.id, drafted.instruction, drafted.done_when, drafted.needs, lane=lane)


def read_opinion(said: bytes) -> Opinion:
    """Return a judgement; its reason is told to others, and need not be a book."""
    opinion = read_formed(said, _opinion)
    return Opinion(opinion.passed, opinion.reason[:_WORDS])


def read_parts(said: bytes, tasks: Sequence[str]) -> str:
    """Return the answer that was put together, each part with the task that it comes from."""
    parts = [part for part in read_formed(said, _parts).parts if part.text.strip()]
    if not parts:
        raise ValueError("there is no text in it")
    for part in parts:
        if part.source not in tasks:
            raise ValueError(f"from: {part.source[:40]!r} is none of the tasks")
    return "\n\n".join(f"{part.text.strip()} [{part.source}]" for part in parts)


def read_revision(said: bytes) -> str:
    """Return a shorter answer."""
    text = read_formed(said, _revision).text.strip()
    if not text:
        raise ValueError("there is no text in it")
    return text


# Made once, here: two threads that let msgspec take in a type at the same time crash the process.
_choice = msgspec.json.Decoder(Choice)
_plan = msgspec.json.Decoder(DraftedPlan)
_opinion = msgspec.json.Decoder(Opinion)
_parts = msgspec.json.Decoder(Parts)
_revision = msgspec.json.Decoder(Revision)
