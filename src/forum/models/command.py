"""Agents and tools that are programs; the prompt or the arguments are their standard input."""

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from forum.config import SecretRules
from forum.engine import (
    EMPTY_CONTENT,
    CallReply,
    DeltaCallback,
    ModelCall,
    ToolInvocation,
    ignore_delta,
)
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models.names import plain_name
from forum.models.process_environment import (
    OPERATOR,
    coding_agent_environment,
    environment_without_secrets,
    tool_variables,
    trusted_environment,
)
from forum.models.program import Program, run_program
from forum.models.program_report import MAX_REPORT_BYTES, read_report, schema_arguments
from forum.models.sandbox import Sandbox
from forum.runs.cli_agents import cli_agent_of
from forum.runs.kinds import Why, sanitize_name
from forum.runs.policy import Command, ReportFormat, ToolSpec

MAX_TOOL_OUTPUT_BYTES = 1 << 30
"""Maximum size of a tool's output that is kept."""

_MAX_SCHEMA_BYTES: Final = 1 << 16
"""Maximum size of a schema that is passed as an argument; systems allow 128 KiB."""


class CommandModel:
    """A model that is a program."""

    def __init__(
        self, spec: Command, sandbox: Sandbox | None = None, rules: SecretRules = OPERATOR
    ) -> None:
        self._spec, self._sandbox = spec, sandbox
        self._rules = rules

    @property
    def name(self) -> str:
        """The program's name, reduced to the characters that names in the ledger may have."""
        return _program_name(self._spec)

    def bound(self, call: ModelCall) -> Amount:  # noqa: ARG002  # as in `Model`
        """Return the declared prices of all programs that this call may start."""
        programs = self._spec.programs
        return Amount(sum(p.usd for p in programs), sum(p.tokens for p in programs), 1)

    async def reply(self, call: ModelCall) -> CallReply:
        """Run the program; if it cannot answer, those of its fallback in their order.

        The reply names the program or the model that answered, and its error those that did not.
        """
        began, notes = time.monotonic(), list[str]()
        replies: list[CallReply] = []
        for program in self._spec.programs:
            left = replace(call, seconds=call.seconds - (time.monotonic() - began))
            reply = await _ProgramCall(program, left, self._sandbox, self._rules).make()
            replies.append(reply)
            # A program that ran out of time or said too much has worked; another would do so, too.
            if reply.outcome is Outcome.OK or reply.why is not Why.ERROR:
                break
            notes.append(_describe_failure(program, reply))
        if len(replies) == 1:
            return reply
        if reply.outcome is Outcome.OK:
            notes.append(f"{_program_name(program)} answered")
        return replace(
            reply,
            model=reply.model or _program_name(program),
            error=text_content("\n".join(notes)),
            spent=Amount(
                sum(each.spent.usd for each in replies),
                sum(each.spent.tokens for each in replies),
                max(each.spent.calls for each in replies),
            ),
            milliseconds=sum(each.milliseconds for each in replies),
        )


@dataclass(frozen=True, slots=True)
class _ProgramCall:
    """One call of one program."""

    spec: Command
    call: ModelCall
    sandbox: Sandbox | None
    rules: SecretRules

    async def make(self) -> CallReply:
        """Run the program, and read its report if it makes one."""
        if self.spec.report is None:
            return await self._run(self.spec.argv, self.call.hear)
        with _schema_option(self.spec.report, self._schema) as option:
            reply = await self._run((*self.spec.argv, *option), ignore_delta)
        reply = _apply_report(self.spec, self.spec.report, reply)
        if reply.outcome is Outcome.OK and self.call.hear is not ignore_delta:
            self.call.hear(b"".join(reply.output.chunks()).decode(errors="replace"))
        return reply

    async def _run(self, argv: tuple[str, ...], hear: DeltaCallback) -> CallReply:
        # FORUM_RUN and FORUM_TASK identify the process to an operator.
        names = {"FORUM_RUN": self.call.run, "FORUM_TASK": self.call.task}
        program = Program(
            argv=argv,
            environment=self._environment(names),
            seconds=self.call.seconds,
            output_bytes=self.spec.output_bytes,
            price=Amount(self.spec.usd, self.spec.tokens, 1),
            sandbox=self.sandbox,
        )
        return await run_program(program, self.call.prompt, hear)

    def _environment(self, names: dict[str, str]) -> dict[str, str]:
        if self.sandbox:
            return self.sandbox.environment((), **names)
        if cli_agent_of(self.spec) is not None:
            return coding_agent_environment(self.rules, **names)
        return trusted_environment(self.rules, **names)

    @property
    def _schema(self) -> bytes:
        """The schema of the reply, if the program can be told it; else the prompt says it."""
        schema = self.call.schema
        # The file of a schema is outside of a sandbox; an argument has a limit of its own.
        if not schema or self.sandbox or len(schema) > _MAX_SCHEMA_BYTES:
            return b""
        # Imported only when used: it loads the HTTP client.
        from forum.models.wire import is_strict, parse_tool_schema  # noqa: PLC0415

        form = parse_tool_schema(schema)
        return schema if form.get("type") == "object" and is_strict(form) else b""


@contextmanager
def _schema_option(report_format: ReportFormat, schema: bytes) -> Iterator[tuple[str, ...]]:
    """Yield the arguments that tell a program the schema of its reply, and their file."""
    if not schema:
        yield ()
        return
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(schema)
        file.flush()
        yield schema_arguments(report_format, schema, file.name)


def _apply_report(spec: Command, report_format: ReportFormat, reply: CallReply) -> CallReply:
    """Return a reply with what the program reports in place of its output."""
    if reply.outcome is Outcome.DENIED or reply.why in (Why.DEADLINE, Why.OVERSIZE):
        return reply
    errors = b"".join(reply.error.chunks())
    is_small = reply.output.size <= MAX_REPORT_BYTES
    output = b"".join(reply.output.chunks()) if is_small else b""
    report = read_report(report_format, output, errors)
    if report is None:
        if reply.outcome is not Outcome.OK:
            return _add_error(reply, _advise_update(spec, errors))
        text = f"the program did not report its reply as expected; {_UPDATE_ADVICE}"
        failed = replace(reply, outcome=Outcome.FAILED, why=Why.ERROR, code="malformed")
        return _add_error(failed, text)
    usd = spec.usd if report.usd is None else report.usd
    # Some programs report 0 where they did not count.
    spent = Amount(usd, report.tokens or spec.tokens, 1)
    reply = replace(
        reply,
        output=text_content(report.text),
        spent=spent,
        input_tokens=report.input_tokens,
        model=sanitize_name(report.model) or _program_name(spec),
    )
    if not report.error:
        return reply
    if reply.outcome is Outcome.OK:
        reply = replace(reply, outcome=Outcome.FAILED, why=Why.ERROR, code="provider")
    return _add_error(replace(reply, output=EMPTY_CONTENT), report.error)


_UPDATE_ADVICE: Final = "update it, or write the command that you use with cmd"


def _advise_update(spec: Command, errors: bytes) -> str:
    """Return what to do where a program does not know an option, or ""."""
    cli_agent = cli_agent_of(spec)
    if cli_agent is None or not re.search(
        rb"unknown (option|argument)|unexpected argument", errors
    ):
        return ""
    return f"this version lacks an option: npm install -g {cli_agent.package}"


def _add_error(reply: CallReply, line: str) -> CallReply:
    """Append one line to an error.  The last line of an error is the one that people are shown."""
    error = b"".join(reply.error.chunks()).decode(errors="replace").rstrip()
    return replace(reply, error=text_content("\n".join(filter(None, (error, line)))))


def _describe_failure(program: Command, reply: CallReply) -> str:
    """Return one line that says why a program did not answer."""
    lines = b"".join(reply.error.chunks()).decode(errors="replace").strip().splitlines()
    reason = sanitize_name(lines[-1].strip()) if lines else "it said nothing"
    return f"{_program_name(program)} did not answer ({reply.code}): {reason}"


def _program_name(spec: Command) -> str:
    return plain_name(PurePath(*spec.argv[:1]).name) or "command"


class CommandTool:
    """A tool that is a program."""

    def __init__(
        self, spec: ToolSpec, sandbox: Sandbox | None = None, rules: SecretRules = OPERATOR
    ) -> None:
        self._spec, self._sandbox = spec, sandbox
        self._rules = rules

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Run the program.

        Its idempotency key is in FORUM_KEY, so that it can detect a repetition.
        """
        # Agents choose the arguments, and the tool may execute
        # code written by an agent: it must not inherit secrets.
        names, added = self._spec.env, tool_variables(invocation)
        program = Program(
            self._spec.argv,
            self._sandbox.environment(names, **added)
            if self._sandbox
            else environment_without_secrets(names, self._rules, **added),
            self._spec.seconds,
            MAX_TOOL_OUTPUT_BYTES,
            sandbox=self._sandbox,
        )
        return await run_program(program, invocation.arguments)
