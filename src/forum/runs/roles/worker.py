"""The worker does one task of a team's plan.

Its prompt holds the lane's instructions and the role as system message; then the request, the
outline of the plan with its own task marked, background from tools, the results that it depends on,
the names of its tools, and at the end its task with the criteria.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forum.runs.plan import Plan, Task
from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import prompt_parts

SYSTEM = f"""\
You are a specialist in a team that answers one request. You do one task of the team's plan; \
others do the other tasks, and a writer combines all results.
- Do your whole task, and only your task.
- Work from the request, the results and the tools that you are given. Keep names, numbers, code \
and quotations exactly as they are.
- If something that you need is missing, say what is missing. Do not invent it.
- Say that you ran, tested, read or changed something only if a tool call of yours did it.
- {prompt_parts.LANGUAGE_RULE}"""


@dataclass(frozen=True, slots=True)
class ToolName:
    """A tool as a worker is told of it."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class TaskMaterial:
    """The texts that a worker sees."""

    request: Quotation
    background: Sequence[Quotation] = ()
    inputs: Sequence[Quotation] = ()
    outline_chars: int = prompt_parts.MAX_LINE_CHARS
    """How much of each instruction the outline of the plan shows."""
    is_shared: bool = True
    """Whether the other tasks of the plan are shown the same text of the request."""


def build_prompt(
    task: Task,
    instruction: str,
    plan: Plan,
    material: TaskMaterial,
    *,
    lane_instructions: str = "",
    tools: Sequence[ToolName] = (),
) -> Prompt:
    """Return the prompt of a task; `instruction` is that of the task or what was approved."""
    sections = [
        prompt_parts.section("The request", [material.request]),
        _outline_section(plan, task, material.outline_chars),
        prompt_parts.section("Background from tools", material.background),
        prompt_parts.section("Results that your task depends on", material.inputs),
    ]
    system = f"{lane_instructions.strip()}\n\n{SYSTEM}".strip()
    return prompt_parts.compose_prompt(
        system,
        sections,
        _task_text(task, instruction, tools),
        is_shared=material.is_shared and len(plan.tasks) > 1,
    )


def _outline_section(plan: Plan, task: Task, max_chars: int) -> bytes:
    if len(plan.tasks) == 1:
        return b""
    return prompt_parts.section(
        "The plan",
        [prompt_parts.plan_outline(plan, task.id, max_chars)],
        "Your task is marked with >>.",
    )


def _task_text(task: Task, instruction: str, tools: Sequence[ToolName]) -> str:
    parts = []
    if tools:
        listed = "\n".join(f"- {tool.name}: {' '.join(tool.description.split())}" for tool in tools)
        parts.append(f"## Tools that you can call\n{listed}")
    parts.append(f"## Your task ({task.id})\n{instruction}")
    if task.done_when:
        parts.append(f"It is done when:\n{task.done_when}")
    parts.append("Reply with the result of your task only.")
    return "\n\n".join(parts)
