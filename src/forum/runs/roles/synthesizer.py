"""The Synthesizer writes the one answer of a run from the results of its tasks.

Its prompt holds the request, every accepted result, and the names of the tasks that failed or were
skipped; for a second answer, also what the first one lacked.

An answer that is a single result is corrected in a conversation: the request, the answer, and what
is wrong with it. Small models follow that, and quote the frames of longer prompts.
"""

from collections.abc import Sequence

import msgspec

from forum.runs import reply_schemas
from forum.runs.answer_form import FormFault, FormFinding, describe_faults
from forum.runs.prompt import MessageRole, Prompt, PromptMessage, Quotation, quote
from forum.runs.prompt import build_prompt as build_task_prompt
from forum.runs.roles import prompt_parts

SYSTEM = f"""\
You write the one answer to a request from the results of a team.
- Answer everything that the request asks for, in its order, and nothing else.
- Use only the results. Keep every fact that the answer needs; keep numbers, names, code and \
conditions exactly as they are. Leave out what is said twice.
- If results contradict each other, say so and name both.
- If a task failed or was skipped, say plainly which part of the answer is therefore missing.
- Write for the person who asked: do not mention tasks, the plan or the team.
- {prompt_parts.LANGUAGE_RULE}"""

_TASK = """\
## Your task
Write the answer. Reply with JSON only:
{"parts": [{"from": "...", "text": "..."}]}
- parts: the answer in the order in which it is to be read
- from: the task whose result the part is made from
- text: the part of the answer"""


class AnswerPart(msgspec.Struct, frozen=True):
    """A part of an answer, and the task whose result it comes from."""

    source: str = msgspec.field(name="from")
    text: str


class AnswerParts(msgspec.Struct, frozen=True):
    """The reply of a Synthesizer."""

    parts: tuple[AnswerPart, ...]


def build_prompt(
    request: Quotation,
    results: Sequence[Quotation],
    *,
    absent: Sequence[str] = (),
    missing: str = "",
) -> Prompt:
    """Return a prompt that asks for one answer; `absent` are the tasks without a result."""
    sections = [
        prompt_parts.section("The request", [request]),
        prompt_parts.section("Results", results),
        prompt_parts.section(
            "Tasks without a result", prompt_parts.quote_text("tasks", "\n".join(absent))
        ),
        prompt_parts.section(
            "What an earlier answer lacked",
            prompt_parts.quote_text("the judge", missing),
            "The new answer must contain it, if the results do." if missing else "",
        ),
    ]
    return prompt_parts.compose_prompt(SYSTEM, sections, _TASK)


MAX_CORRECTION_CHARS = 2000
"""A limit on what is said about an answer, in characters."""
_MAX_TOLD_WORDS = 300


def find_short_asks(faults: Sequence[FormFault], missing: str) -> tuple[FormFault, ...]:
    """Return the faults that a short reply mends; none if the whole answer has to be mended.

    These are all missing lines, or the first question that is not answered.
    """
    if missing or not faults or not all(fault.ask for fault in faults):
        return ()
    if faults[0].finding is FormFinding.QUESTION:
        return (faults[0],)
    return tuple(fault for fault in faults if fault.finding is not FormFinding.QUESTION)


def build_correction(
    lane_instructions: str,
    request: bytes,
    answer: Quotation,
    *,
    faults: Sequence[FormFault],
    missing: str,
    room: int,
) -> Prompt:
    """Return a prompt that asks the author of an answer to mend it.

    `faults` were found by code. `missing` was said by a judge, so it is quoted. `room` is the
    number of characters that surely fit into the reply.
    """
    asked = find_short_asks(faults, missing)
    if asked and asked[0].finding is FormFinding.QUESTION:
        task = f"Answer only this question now, in one sentence: {asked[0].ask}"
        text = b"\n\n".join([request, task.encode(errors="replace")])
        return build_task_prompt(lane_instructions, text)
    words = room // 6
    limit = f" Use at most {words} words." if words < _MAX_TOLD_WORDS else ""
    if asked and all(fault.finding is FormFinding.LINE for fault in asked):
        # A model that sees the lines that are missing guesses their values. It must calculate
        # first, so it is only asked to go on; the request says how to end.
        task = "Your reply was cut off. Go on where it stopped, briefly, and end as asked."
    elif asked:
        lines = "\n".join(fault.ask for fault in asked)
        task = (
            "Your answer is not finished. Go on where it stopped, briefly, and end with this, with "
            f"the values filled in:\n{lines}"
        )
    elif faults:
        task = (
            f"Your answer has faults:\n{describe_faults(faults)}\n\nWrite the whole answer again, "
            f"mended. Say only what the request asks for.{limit}"
        )
    else:
        task = f"Your answer does not meet the request. Write a whole answer that does.{limit}"
    judged = prompt_parts.quote_text("what a judge says", missing[:MAX_CORRECTION_CHARS])
    note = b"\n\n".join([*(quote(each) for each in judged), task.encode(errors="replace")])
    first = build_task_prompt(lane_instructions, request)
    turns = (PromptMessage(MessageRole.AGENT, answer.text), PromptMessage(MessageRole.USER, note))
    text = b"\n\n".join([first.text, quote(answer), note])
    return Prompt(text, (*first.turns, *turns))


def parse_correction(reply: bytes) -> str:
    """Return the text of a corrected answer.  Raises `ValueError`."""
    text = reply.decode(errors="replace").strip()
    if not text:
        raise ValueError("there is no text in it")
    return text


def build_schema(tasks: Sequence[str], room: int, longest: int = 0) -> bytes:
    """Return the schema of an answer in parts.

    A part may have most of the `room` of a reply, and at least the characters of the `longest`
    result: a shorter limit would cut it in mid-sentence.
    """
    text = reply_schemas.text_schema(max(200, room * 3 // 4, longest))
    part = reply_schemas.object_schema({"from": {"enum": list(tasks)}, "text": text})
    most = max(len(tasks), 4)
    return reply_schemas.build_schema({"parts": reply_schemas.array_schema(part, most, least=1)})


def parse_parts(reply: bytes, tasks: Sequence[str]) -> str:
    """Return the answer from its parts, each followed by the task that it comes from.

    The only task of a plan is not named.  Raises `ValueError`.
    """
    parts = [
        part for part in reply_schemas.parse_structured(reply, _decoder).parts if part.text.strip()
    ]
    if not parts:
        raise ValueError("there is no text in it")
    for part in parts:
        if part.source not in tasks:
            raise ValueError(f"from: {part.source[:40]!r} is none of the tasks")
    if len(tasks) == 1:
        return "\n\n".join(part.text.strip() for part in parts)
    return "\n\n".join(f"{part.text.strip()} [{part.source}]" for part in parts)


_decoder = msgspec.json.Decoder(AnswerParts)
