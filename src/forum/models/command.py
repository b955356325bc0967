"""Agents and tools that are programs; the prompt or the arguments are their standard input."""

from pathlib import PurePath

from forum.engine import CallReply, ModelCall, ToolInvocation
from forum.ledger.ports import Amount
from forum.models.names import plain_name
from forum.models.process_environment import (
    environment_without_secrets,
    tool_variables,
    trusted_environment,
)
from forum.models.program import Program, run_program
from forum.models.sandbox import Sandbox
from forum.work.policy import Command, ToolSpec

MAX_TOOL_OUTPUT_BYTES = 1 << 30
"""Maximum size of a tool's output that is kept."""


class CommandModel:
    """A model that is a program."""

    def __init__(self, spec: Command, sandbox: Sandbox | None = None) -> None:
        self._spec, self._sandbox = spec, sandbox
        self._price = Amount(spec.usd, spec.tokens, 1)

    @property
    def name(self) -> str:
        """The program's name, reduced to the characters that names in the ledger may have."""
        program = PurePath(*self._spec.argv[:1]).name
        return plain_name(program) or "command"

    def bound(self, call: ModelCall) -> Amount:  # noqa: ARG002  # as in `Model`
        """Return the declared price: a program does not report its cost."""
        return self._price

    async def reply(self, call: ModelCall) -> CallReply:
        """Run the program.  FORUM_RUN and FORUM_TASK identify its process to an operator."""
        names = {"FORUM_RUN": call.run, "FORUM_TASK": call.task}
        sandbox = self._sandbox
        program = Program(
            argv=self._spec.argv,
            environment=sandbox.environment((), **names)
            if sandbox
            else trusted_environment(**names),
            seconds=call.seconds,
            output_bytes=self._spec.output_bytes,
            price=self._price,
            sandbox=sandbox,
        )
        return await run_program(program, call.prompt, call.hear)


class CommandTool:
    """A tool that is a program."""

    def __init__(self, spec: ToolSpec, sandbox: Sandbox | None = None) -> None:
        self._spec, self._sandbox = spec, sandbox

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Run the program.

        Its idempotency key is in FORUM_KEY, so that it can detect a repetition.
        """
        # Agents choose the arguments, and the tool may execute
        # code written by an agent: it must not inherit secrets.
        environment = self._sandbox.environment if self._sandbox else environment_without_secrets
        program = Program(
            self._spec.argv,
            environment(self._spec.env, **tool_variables(invocation)),
            self._spec.seconds,
            MAX_TOOL_OUTPUT_BYTES,
            sandbox=self._sandbox,
        )
        return await run_program(program, invocation.arguments)
