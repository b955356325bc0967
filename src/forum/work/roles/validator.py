"""The Validator judges the result of one task, where code cannot.

Its prompt holds the request, the task with its criteria, the inputs that the worker had, the
outcomes of the worker's tools, and the result. It prefers to be another model than the worker.
"""

from collections.abc import Sequence

from forum.work.prompt import Prompt, Quotation
from forum.work.roles import prompt_parts

SYSTEM = """\
You check the work of another specialist. You did not write it and you do not mend it.
- Compare every statement of the result with the request, the inputs and the outcomes of tools. A \
number, name or conclusion that differs from them, or that they contradict, is an error.
- The result must do the whole task and meet every criterion. Style does not matter.
- A statement that a program was run or a file was changed needs the outcome of a tool.
- Accept a result that is right and complete, however short. Do not ask for more than the task."""

_TASK = """\
## Your task
Judge the result. Reply with JSON only:
{"reason": "...", "evidence": "...", "passed": true or false, "missing": ["..."]}
- reason: what you compared, and what you found, in one to three sentences
- evidence: the words of the result that decide, quoted exactly
- passed: true only if the result is right and complete
- missing: what has to be added or mended; empty if passed"""


def build_prompt(
    request: Quotation,
    instruction: Quotation,
    criteria: Sequence[Quotation],
    *,
    inputs: Sequence[Quotation],
    outcomes: Sequence[Quotation],
    result: Quotation,
) -> Prompt:
    """Return a prompt that asks whether a result does its task."""
    sections = [
        prompt_parts.section("The request", [request]),
        prompt_parts.section("The task", [instruction]),
        prompt_parts.section("It is done when", criteria),
        prompt_parts.section("Inputs of the task", inputs),
        prompt_parts.section("Outcomes of tools", outcomes),
        prompt_parts.section("The result to judge", [result]),
    ]
    return prompt_parts.compose_prompt(SYSTEM, sections, _TASK)
