"""What happens in a run, as values that `match` can tell apart.

`async for event in run` and `for event in run` yield them.
"""

import msgspec

from forum.features.recorder.run_results import RunResult, TaskOutcome
from forum.ledger.kinds import Outcome


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of text that a model has just written.  Pieces may get lost; results do not."""

    task: str
    text: str


class ToolUse(msgspec.Struct, frozen=True):
    """A tool is about to be used; this is on record already."""

    task: str
    tool: str
    arguments: str
    """As the agent wrote them: JSON, if the tool has a schema."""


class ToolDone(msgspec.Struct, frozen=True):
    """A tool was used."""

    task: str
    tool: str
    outcome: Outcome
    output: str


class TaskEnded(msgspec.Struct, frozen=True):
    """A task has passed, failed, or was skipped or stopped."""

    task: TaskOutcome


class GateOpened(msgspec.Struct, frozen=True):
    """Something waits for a decision: `run.decide(event.subject, "approve")`."""

    subject: str
    shown: str


class RunEnded(msgspec.Struct, frozen=True):
    """The run has ended, or was interrupted; no event follows."""

    result: RunResult  # type: ignore[type-arg]  # of whatever type the answer is


RunEvent = TextDelta | ToolUse | ToolDone | TaskEnded | GateOpened | RunEnded
