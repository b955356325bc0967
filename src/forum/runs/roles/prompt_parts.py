"""What the prompts of all roles share: sections, quotations and the names of role tasks."""

from collections.abc import Iterable, Sequence

from forum.runs.kinds import ROLE_PREFIX
from forum.runs.plan import Plan, Task
from forum.runs.policy import LaneBrief, Role
from forum.runs.prompt import MATERIAL_NOTICE, Prompt, Quotation, build_prompt, quote, quote_whole

MAX_REPAIRS = 1
"""How often a role gets another chance after a reply of the wrong form."""
NO_LANE = "none"
MAX_LINE_CHARS, MAX_TEXT_CHARS = 200, 1000

LANGUAGE_RULE = "Write in the language of the request."


def task_of_role(role: Role, number: int = 1) -> str:
    """Return the name of the task in which a role is called for the n-th time."""
    return f"{ROLE_PREFIX}{role.value}" if number == 1 else f"{ROLE_PREFIX}{role.value}.{number}"


def section(heading: str, quotations: Iterable[Quotation], note: str = "") -> bytes:
    """Return a part of a prompt: a heading, a note of ours, and the texts of others."""
    quoted = [quote(quotation) for quotation in quotations]
    if not quoted and not note:
        return b""
    head = f"## {heading}" + (f"\n{note}" if note else "")
    return b"\n\n".join([head.encode(), *quoted])


def compose_prompt(
    system: str, sections: Iterable[bytes], task: str, *, is_shared: bool = False
) -> Prompt:
    """Return a prompt: the role as system message, then the material, then what is to be done.

    The task stands last, because models follow the end of a long prompt best. With `is_shared`,
    the role gets the first section in several calls of the run.
    """
    parts = [*(part for part in sections if part), task.encode()]
    system = f"{system}\n\n{MATERIAL_NOTICE.decode()}"
    return build_prompt(system, b"\n\n".join(parts), len(parts[0]) if is_shared else 0)


def list_lanes(lanes: dict[str, LaneBrief]) -> str:
    """Return the lanes for a prompt, one on a line, with the router's confidence."""
    return "\n".join(
        f"- {name}{_confidence(brief)}: {' '.join(brief.does.split())}"
        for name, brief in lanes.items()
    )


def _confidence(brief: LaneBrief) -> str:
    return f" (router's confidence {brief.confidence / 1000:.2f})" if brief.confidence else ""


def plan_outline(plan: Plan, own: str = "", max_chars: int = MAX_LINE_CHARS) -> Quotation:
    """Return the tasks of a plan, one on a line; `>>` marks the reader's own task."""
    lines = [_outline_task(task, own, max_chars) for task in plan.tasks]
    return quote_whole("the plan", "\n".join(lines))


def _outline_task(task: Task, own: str, max_chars: int) -> str:
    words = " ".join(task.instruction.split())
    shown = words if len(words) <= max_chars else f"{words[:max_chars]} ..."
    uses = f" (uses {', '.join(task.needs)})" if task.needs else ""
    later = f" (after {', '.join(task.after)})" if task.after else ""
    return f"{'>>' if task.id == own else '-'} {task.id}{uses}{later}: {shown}"


def quote_text(source: str, text: str) -> Sequence[Quotation]:
    """Return a text of another role as a quotation, or nothing if it is empty."""
    return (quote_whole(source, text),) if text else ()
