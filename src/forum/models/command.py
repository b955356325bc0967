"""Agents and tools that are programs: the prompt or the arguments come in on standard input."""

import re
from pathlib import PurePath

from forum.engine import Call, Deed, Reply
from forum.ledger import Amount
from forum.models.environment import most_of_it, without_secrets
from forum.models.program import Program, run_program
from forum.models.sandbox import Sandbox
from forum.work import Command, Tool

TOOL_BYTES = 1 << 30
"""The most that is kept of what a tool prints."""

_NOT_PLAIN = re.compile(r"[^!#-\[\]-~]+")


class CommandModel:
    """An agent that is a program."""

    def __init__(self, spec: Command, sandbox: Sandbox | None = None) -> None:
        self._spec, self._sandbox = spec, sandbox
        self._price = Amount(spec.usd, spec.tokens, 1)

    @property
    def name(self) -> str:
        """The program's name, as plain as the record wants names to be."""
        program = PurePath(*self._spec.argv[:1]).name
        return _NOT_PLAIN.sub("-", program)[:128] or "command"

    def bound(self, call: Call) -> Amount:  # noqa: ARG002
        """Return the declared price: a program is not asked for a bill."""
        return self._price

    async def reply(self, call: Call) -> Reply:
        """Run the program.  FORUM_RUN and FORUM_TASK tell whoever finds it whose it is."""
        told = {"FORUM_RUN": call.run, "FORUM_TASK": call.task}
        sandbox = self._sandbox
        return await run_program(
            Program(
                self._spec.argv,
                sandbox.environment((), **told) if sandbox else most_of_it(**told),
                call.seconds,
                self._spec.output_bytes,
                self._price,
                sandbox,
            ),
            call.prompt,
            call.hear,
        )


class CommandTool:
    """A tool that is a program."""

    def __init__(self, spec: Tool, sandbox: Sandbox | None = None) -> None:
        self._spec, self._sandbox = spec, sandbox

    async def use(self, deed: Deed) -> Reply:
        """Run the program.  It finds the key in FORUM_KEY, and can tell a repetition by it."""
        told = {"FORUM_RUN": deed.run, "FORUM_TASK": deed.task, "FORUM_KEY": deed.key}
        # Agents decide what a tool is given, and it may be a program of theirs that it runs.
        known = self._sandbox.environment if self._sandbox else without_secrets
        program = Program(
            self._spec.argv,
            known(self._spec.env, **told),
            self._spec.seconds,
            TOOL_BYTES,
            sandbox=self._sandbox,
        )
        return await run_program(program, deed.arguments)
