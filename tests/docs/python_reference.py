"""Writes docs/reference/python.md from the docstrings of `import forum`; `just docs` runs it."""

import ast
import inspect
from collections.abc import Iterator
from textwrap import dedent
from typing import Any, get_args

import forum
from forum import errors
from forum.features.recorder import events
from forum.features.recorder.public import (
    Cause,
    CouncilOutcome,
    DeliberateArguments,
    Dissent,
    EngineSession,
    FigureDifference,
    Figures,
    LaneInfo,
    LedgerReader,
    LedgerSummary,
    LogCheckpoint,
    ModelCalls,
    Plan,
    Recorder,
    ReplayedRun,
    Reply,
    RunBudgetLeft,
    RunComparison,
    RunFigures,
    RunListing,
    RunResult,
    RunScope,
    SpanContext,
    StepScope,
    SubmitArguments,
    SubmittedRun,
    Task,
    TaskOutcome,
    TaskVerdict,
    ledger,
)
from forum.features.symposium import sdk as symposium
from forum.verify import Report
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/python.md"
CLASSES = (
    Recorder, RunScope, StepScope, SpanContext, EngineSession, SubmittedRun, LedgerReader
)  # fmt: skip
VALUES = (
    SubmitArguments, DeliberateArguments, Task, Plan, RunResult, TaskOutcome, TaskVerdict,
    CouncilOutcome, Dissent, Reply, RunBudgetLeft, events.TextDelta, events.ToolUse,
    events.ToolDone,
    events.TaskEnded, events.GateOpened, events.RunEnded, RunListing, ReplayedRun, Cause,
    LogCheckpoint, Figures, ModelCalls, LedgerSummary, RunFigures, RunComparison,
    FigureDifference, LaneInfo, Report,
    symposium.SymposiumArguments, symposium.SymposiumResult, symposium.SymposiumReplay,
    symposium.SymposiumMessage,
)  # fmt: skip
"""What is described by its members."""
_NAMES = {Reply: "Reply"} | {kind: f"events.{kind.__name__}" for kind in get_args(events.RunEvent)}
INTERNAL = {
    "after_fork_in_child", "take_back", "check_deadline", "check_process", "count_fault", "end_run",
    "ensure_recorded", "hand_in", "make_continuation", "open_run", "own_run", "pause", "prepare",
    "prepare_async", "resume", "count", "index", "charge", "settle", "refuse", "bound_price",
}  # fmt: skip
"""Methods that the parts of the SDK call on each other."""

ERRORS = (
    errors.BudgetExceeded, errors.RunDeadlinePassed, errors.RecorderQueueFull,
    errors.RecorderUnusable, errors.UnknownPrice, errors.UnboundedCall, errors.ReservationOverrun,
    errors.ForkedFromCappedRun, errors.Malformed, errors.PinningViolation,
)  # fmt: skip
"""What a program may have to catch."""
_ERRORS = (
    "Recording raises these, and only where you ask for it. All are a `forum.errors.ForumError`."
)
_HEAD = """\
# Python

This page lists the names of `import forum`. It is generated from their docstrings by `just docs`; \
do not edit it. [Record a Python program](../guides/record-python.md) and \
[Read the ledger in Python](../guides/read-the-ledger-in-python.md) explain them.

Loading `forum` costs a few milliseconds; a name is loaded when it is first used.
"""


def render() -> str:
    """Return the whole page."""
    # `forum.ledger` is a package that can be called; the function is what it calls.
    values = {name: getattr(forum, name) for name in forum.__all__} | {"ledger": ledger}
    functions = [
        (f"forum.{name}", value)
        for name, value in sorted(values.items())
        if inspect.isfunction(value)
    ]
    functions += [
        (f"forum.symposium.{name}", getattr(symposium, name))
        for name in symposium.__all__
        if inspect.isfunction(getattr(symposium, name))
    ]
    parts = [_HEAD, "## Functions\n", *(_describe(name, value) for name, value in functions)]
    parts += ["## Errors\n", f"{_ERRORS}\n"]
    parts += [f"- `forum.errors.{kind.__name__}`: {_text(kind)}" for kind in ERRORS]
    parts.append("")
    for kind in CLASSES:
        parts += [f"## {kind.__name__}\n", f"{_text(kind)}\n"]
        parts += [_describe(name, value) for name, value in _methods(kind)]
    for value in VALUES:
        parts += [f"## {_NAMES.get(value, value.__name__)}\n", f"{_text(value)}\n"]
        parts += [*_members(value), ""]
    return "\n".join(parts)


def _members(kind: type) -> Iterator[str]:
    """Yield the members of a class, with the texts below them in its source."""
    (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for member, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(member, ast.AnnAssign):
            text = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = f": {' '.join(str(below.value.value).split())}"
            yield f"- `{ast.unparse(member.target)}: {ast.unparse(member.annotation)}`{text}"


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(kind).items()):
        if name.startswith("_") or name in INTERNAL:
            continue
        if isinstance(value, property):
            yield f"{kind.__name__}.{name}", value.fget
        elif inspect.isfunction(value):
            yield f"{kind.__name__}.{name}", value


def _describe(name: str, value: Any) -> str:  # noqa: ANN401  a function
    parameters = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in inspect.signature(value).parameters.values()
        if p.name != "self"
    ]
    shown = str(inspect.Signature(parameters)).replace("<LossPolicy.DROP: 'drop'>", "'drop'")
    shown = shown.replace("<Operation.STEP: 'step'>", "'step'")
    return f"### `{name}{shown}`\n\n{_text(value)}\n"


def _text(value: Any) -> str:  # noqa: ANN401  a function or a class
    """Return a docstring, one line for each paragraph."""
    paragraphs = (inspect.getdoc(value) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(render())
