"""A model that follows a script, for tests, demonstrations and replay."""

import asyncio
import re
from dataclasses import replace

from forum import engine
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs.kinds import Why
from forum.runs.policy import Scripted, ScriptStep

EVERY_TASK = "*"
"""Key of the steps for tasks that have none of their own."""

_DELTA_INTERVAL_S = 0.02
"""Seconds between two streamed deltas."""
_WORDS = re.compile(r"\s*\S+\s*|\s+")


class ScriptedModel:
    """A model whose reply depends only on its script and the call."""

    def __init__(self, spec: Scripted) -> None:
        self._spec = spec

    @property
    def name(self) -> str:
        """The name under which its calls are recorded."""
        return "scripted"

    def bound(self, call: engine.ModelCall) -> Amount:  # noqa: ARG002  # as in `Model`
        """Return the price that the script declares; a step may bill more."""
        return Amount(self._spec.usd, self._spec.tokens, 1)

    async def reply(self, call: engine.ModelCall) -> engine.CallReply:
        """Return the reply of the next step.

        The recorded duration is the one in the script, so it is the same on every machine.
        """
        steps = self._spec.moves.get(call.task) or self._spec.moves.get(EVERY_TASK)
        step = steps[min(call.number, len(steps)) - 1] if steps else ScriptStep()
        usd = self._spec.usd if step.usd is None else step.usd
        spent = Amount(usd, step.tokens, 1)
        seconds = step.milliseconds / 1000
        if seconds > call.seconds:
            await asyncio.sleep(call.seconds)
            return engine.CallReply(
                Outcome.TIMEOUT, spent=spent, milliseconds=step.milliseconds, why=Why.DEADLINE
            )
        output = (
            text_content(step.say) if steps else BytesContent(b"Done: " + _first_line(call.prompt))
        )
        await _stream_words(output, seconds, call.hear)
        reply = engine.CallReply(
            Outcome.OK,
            output=output,
            spent=spent,
            milliseconds=step.milliseconds,
            uses=step.use,
            input_tokens=step.input_tokens,
        )
        if step.fail:
            return replace(reply, outcome=Outcome.FAILED, uses=(), why=Why.ERROR, code=step.fail)
        return reply


async def _stream_words(output: BytesContent, seconds: float, hear: engine.DeltaCallback) -> None:
    """Wait for the given time, streaming a few words at a time."""
    words = (
        _WORDS.findall(output.data.decode(errors="replace"))
        if hear is not engine.ignore_delta
        else []
    )
    parts = max(1, min(len(words), int(seconds / _DELTA_INTERVAL_S)))
    clock = asyncio.get_running_loop().time
    began = clock()
    for part in range(parts):
        # Sleep until a point in time instead of adding
        # pauses, each of which takes slightly too long.
        await asyncio.sleep(began + seconds * (part + 1) / parts - clock())
        text = words[part * len(words) // parts : (part + 1) * len(words) // parts]
        if text:
            hear("".join(text))


def _first_line(prompt: Content) -> bytes:
    line = b""
    for chunk in prompt.chunks():
        line, end, _ = (line + chunk).partition(b"\n")
        if end:
            break
    return line
