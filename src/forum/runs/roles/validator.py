"""The Validator judges the result of one task, where code cannot.

Its prompt holds the request, the task with its criteria, the inputs that the worker had, the
outcomes of the worker's tools, and the result. It prefers to be another model than the worker.
"""

from collections.abc import Sequence

from forum.runs.panel import ACCEPTED, REJECTED
from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import prompt_parts

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


_PANEL_TASK = f"""\
## Your task
Decide whether the result is right and complete: {ACCEPTED} or {REJECTED}. State as claims what \
you compared and what you found. If it has to be rejected, say what has to be added or mended."""


def build_prompt(  # noqa: PLR0913  the last have defaults
    request: Quotation,
    instruction: Quotation,
    criteria: Sequence[Quotation],
    *,
    inputs: Sequence[Quotation],
    outcomes: Sequence[Quotation],
    result: Quotation,
    for_panel: bool = False,
    is_shared: bool = False,
) -> Prompt:
    """Return a prompt that asks an agent, or a panel, whether a result does its task.

    With `is_shared`, results of other tasks of the same request are judged too.
    """
    sections = [
        prompt_parts.section("The request", [request]),
        prompt_parts.section("The task", [instruction]),
        prompt_parts.section("It is done when", criteria),
        prompt_parts.section("Inputs of the task", inputs),
        prompt_parts.section("Outcomes of tools", outcomes),
        prompt_parts.section("The result to judge", [result]),
    ]
    task = _PANEL_TASK if for_panel else _TASK
    return prompt_parts.compose_prompt(SYSTEM, sections, task, is_shared=is_shared)
