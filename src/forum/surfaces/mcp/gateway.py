"""An MCP gateway: relays the messages of one client and one server, and records the tool calls.

Messages are JSON, one for each line.  Whatever this program does not know passes with the same
content: resources, prompts, progress, changed lists, structured results, and methods of later
versions.  Only calls of tools are looked at:

- before a call goes to the server it is on record (`report.begin/1`), and that is durable;
- before its result goes to the client the result is on record (`report.step/1`);
- a call that is denied never reaches the server, and a gated one only after its approval.

What the client sends is parsed strictly and written anew: the server gets the message that was
checked, in a form with one reading.  A message that another parser could read in another way is
refused, and that is on record.  Lines of the server pass as they are.

Lines keep their order, but for gated calls, which nothing waits for.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from time import monotonic
from typing import Any

from forum.app.reports import BegunStep, ReportSession
from forum.errors import RunAlreadyEnded
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment
from forum.work.policy import Answer
from forum.work.report_drafts import cut_body, names_body
from forum.work.report_kinds import (
    Operation,
    ReportBeginFacts,
    ReportStepFacts,
    derive_label,
)
from forum.work.strict_json import (
    check_names,
    fold_name,
    parse_strictly,
    reject_folded_twins,
    show_name,
)

_MAX_WAITING_LINES = 1000
"""Lines of one direction that wait for the record; then the sender has to wait."""

_CALL_METHOD = "tools/call"
_MESSAGE_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_CALL_MEMBERS = frozenset({"name", "arguments"})
_PARSE_ERROR, _INVALID_REQUEST, _SERVER_ERROR = -32700, -32600, -32000
"""Codes of JSON-RPC."""

Line = bytes
Message = dict[str, Any]
Write = Callable[[Line], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToolRules:
    """Which tools are denied, and which wait for approval; patterns as in a shell."""

    denied: tuple[str, ...] = ()
    gated: tuple[str, ...] = ()

    def is_denied(self, tool: str) -> bool:
        """Return whether a tool must not be called."""
        return any(fnmatchcase(tool, pattern) for pattern in self.denied)

    def is_gated(self, tool: str) -> bool:
        """Return whether a call of a tool waits for approval."""
        return any(fnmatchcase(tool, pattern) for pattern in self.gated)


@dataclass(slots=True)
class _ToolCall:
    """A call on its way: its id in the protocol, its tool, and its record."""

    id: object
    tool: str
    span: str
    arguments: bytes
    began: float = field(default_factory=monotonic)
    begun: BegunStep | None = None

    @property
    def key(self) -> str:
        """The id as text: 1 and "1" are two ids."""
        return json.dumps(self.id)


class McpGateway:
    """Relays and records one conversation."""

    def __init__(
        self,
        session: ReportSession,
        rules: ToolRules,
        server_name: str,
        notify: Callable[[str], None],
    ) -> None:
        self._session, self._rules, self._notify = session, rules, notify
        self._provider = derive_label(server_name)
        self._calls: dict[str, _ToolCall] = {}
        """The calls that the server has and has not answered, by key."""
        self._gated: dict[str, asyncio.Task[None]] = {}
        """The last call of each key that waits for approval."""
        self._waiting: set[asyncio.Task[None]] = set()
        """All calls that wait for approval: a client may use a key twice."""
        self._to_server: Write = _drop
        self._to_client: Write = _drop
        self._server_lock, self._client_lock = asyncio.Lock(), asyncio.Lock()

    async def relay(
        self,
        client: asyncio.StreamReader,
        server: asyncio.StreamReader,
        to_server: Write,
        to_client: Write,
    ) -> None:
        """Relay until the server ends its output; `to_server(b"")` means that the client left."""
        self._to_server, self._to_client = to_server, to_client
        outward = asyncio.create_task(self._pump(client, self._prepare_request, self._send_server))
        inward = asyncio.create_task(self._pump(server, self._prepare_response, self._send_client))
        try:
            # When the client has left, the server may still answer.  An error of either direction,
            # such as a full disk, ends both: what cannot be recorded is not relayed.
            await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_COMPLETED)
            if not inward.done():
                await outward
            await inward
        finally:
            tasks = [outward, inward, *self._waiting]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end_open_calls()

    async def _pump(
        self,
        lines: asyncio.StreamReader,
        prepare: Callable[[Line], Awaitable[Line | None]],
        send: Write,
    ) -> None:
        """Prepare the lines of one direction at the same time, and send them in their order."""
        queue: asyncio.Queue[asyncio.Task[Line | None] | None] = asyncio.Queue(_MAX_WAITING_LINES)

        async def read() -> None:
            while line := await lines.readline():
                # `create_task` runs in order up to the first wait, so calls get spans in order.
                await queue.put(asyncio.ensure_future(prepare(line)))
            await queue.put(None)

        reading = asyncio.create_task(read())
        try:
            while (prepared := await queue.get()) is not None:
                line = await prepared
                if line is not None:
                    await send(line)
            await reading
            await send(b"")
        finally:
            reading.cancel()

    async def _send_server(self, line: Line) -> None:
        async with self._server_lock:
            await self._to_server(line)

    async def _send_client(self, line: Line) -> None:
        async with self._client_lock:
            await self._to_client(line)

    async def _prepare_request(self, line: Line) -> Line | None:
        """Return what goes to the server in place of a line of the client; None for nothing."""
        if not line.strip():
            return None
        try:
            message = parse_strictly(line)
            # Batches are of an early version of the protocol.  Each part is treated alone, and
            # relayed as a line of its own: no batch can hide a call.
            parts = message if isinstance(message, list) and message else [message]
            lines = [_encode(part) for part in parts]
        except (ValueError, RecursionError) as error:
            await self._refuse_message(line, _PARSE_ERROR, str(error))
            return None
        prepared = [await self._prepare_message(*pair) for pair in zip(lines, parts, strict=True)]
        return b"".join(filter(None, prepared)) or None

    async def _prepare_message(self, line: Line, part: object) -> Line | None:
        try:
            message = _check_message(part)
        except ValueError as error:
            await self._refuse_message(line, _INVALID_REQUEST, str(error))
            return None
        match message.get("method"):
            case "tools/call":
                return await self._prepare_call(line, message)
            case "notifications/cancelled":
                return await self._cancel(line, message)
            case _:
                return line

    async def _prepare_call(self, line: Line, message: Message) -> Line | None:
        call = self._read_call(message)
        if "id" not in message:
            # Nobody would get its result, and a refusal could not be told to anybody.
            await self._record_unmade(call, Outcome.DENIED, "no-id")
            return None
        if self._rules.is_denied(call.tool):
            await self._refuse(call, f"The tool {call.tool} is denied by the rules of the gateway.")
            return None
        if self._rules.is_gated(call.tool):
            task = asyncio.create_task(self._pass_gate(call, line))
            self._gated[call.key] = task
            self._waiting.add(task)
            task.add_done_callback(partial(self._forget_gate, call.key))
            return None
        return line if await self._begin(call) else None

    async def _refuse_message(self, line: Line, code: int, why: str) -> None:
        """Record a message that has no single reading, and tell the client that it is refused."""
        body, cut = cut_body("input", line, "text/plain")
        facts = ReportStepFacts(
            op=Operation.STEP,
            name="message",
            outcome=Outcome.DENIED,
            span=self._session.new_span(),
            provider=self._provider,
            code="malformed",
            cut=cut,
        )
        with suppress(RunAlreadyEnded):
            await self._session.record(facts, (body,))
        words = f"Forum refuses this message: {why}. Write each member once, in its own form."
        error = {"code": code, "message": words}
        await self._send_client(_encode({"jsonrpc": "2.0", "id": _find_id(line), "error": error}))

    def _forget_gate(self, key: str, task: "asyncio.Task[None]") -> None:
        self._waiting.discard(task)
        if self._gated.get(key) is task:
            del self._gated[key]

    def _read_call(self, message: Message) -> _ToolCall:
        params = message.get("params")
        members = params if isinstance(params, dict) else {}
        return _ToolCall(
            id=message.get("id"),
            tool=members.get("name", ""),
            span=self._session.new_span(),
            arguments=json.dumps(members.get("arguments", {}), ensure_ascii=False).encode(
                errors="replace"
            ),
        )

    async def _begin(self, call: _ToolCall) -> bool:
        """Record that a call is about to be made; return whether it may be made."""
        body, cut = cut_body("input", call.arguments, "application/json")
        facts = ReportBeginFacts(
            op=Operation.TOOL,
            name=derive_label(call.tool),
            span=call.span,
            provider=self._provider,
            cut=cut,
        )
        try:
            call.begun = await self._session.begin(facts, (body, *names_body(call.tool)))
        except RunAlreadyEnded as error:
            # A call that cannot be recorded is not made: the record must not be silent about it.
            await self._send_client(_tool_error(call.id, f"Forum cannot record this call: {error}"))
            return False
        call.began = monotonic()
        # The id of a request must not be used twice.  Answers cannot be told apart now, so nobody
        # knows what became of the first call.
        earlier = self._calls.pop(call.key, None)
        self._calls[call.key] = call
        if earlier is not None:
            await self._end(earlier, Outcome.INDETERMINATE, "id-reused")
        return True

    async def _pass_gate(self, call: _ToolCall, line: Line) -> None:
        """Wait for the approval of a call, then relay it."""
        subject = f"tool/{derive_label(call.tool)}/{call.span}"
        shown = json.dumps({"tool": call.tool, "arguments": json.loads(call.arguments)}, indent=1)
        run = self._session.run
        self._notify(f"{call.tool} waits for approval: forum gate approve {run} {subject}")
        try:
            answer = await self._session.ask_approval(subject, shown.encode())
        except asyncio.CancelledError:
            await asyncio.shield(self._record_unmade(call, Outcome.CANCELLED, "cancelled"))
            raise
        if answer is Answer.REJECT:
            await self._refuse(call, f"The call of {call.tool} was not approved.")
        elif await self._begin(call):
            await self._send_server(line)

    async def _refuse(self, call: _ToolCall, words: str) -> None:
        """Record that a call was denied, and tell the client as a tool does."""
        await self._record_unmade(call, Outcome.DENIED, "denied")
        await self._send_client(_tool_error(call.id, words))

    async def _record_unmade(self, call: _ToolCall, outcome: Outcome, code: str) -> None:
        body, cut = cut_body("input", call.arguments, "application/json")
        facts = self._step_facts(call, outcome, code, cut)
        with suppress(RunAlreadyEnded):
            await self._session.record(facts, (body, *names_body(call.tool)))

    def _step_facts(
        self, call: _ToolCall, outcome: Outcome, code: str, cut: int
    ) -> ReportStepFacts:
        return ReportStepFacts(
            op=Operation.TOOL,
            name=derive_label(call.tool),
            outcome=outcome,
            span=call.span,
            micros=max(0, round(1e6 * (monotonic() - call.began))),
            provider=self._provider,
            code=code,
            cut=cut,
        )

    async def _cancel(self, line: Line, message: Message) -> Line | None:
        """Record that the client cancelled a call, and relay that."""
        params = message.get("params")
        key = json.dumps(params.get("requestId")) if isinstance(params, dict) else ""
        if (task := self._gated.get(key)) is not None:
            task.cancel()
            return None  # the server has not heard of the call
        # The server need not answer a cancelled call, so this is the last that is known of it.
        if (call := self._calls.pop(key, None)) is not None:
            await self._end(call, Outcome.CANCELLED, "cancelled")
        return line

    async def _prepare_response(self, line: Line) -> Line | None:
        """Record the results in a line of the server, and return the line."""
        message = _parse(line)
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and "method" not in part and "id" in part:
                call = self._calls.pop(json.dumps(part["id"]), None)
                if call is not None:
                    await self._record_result(call, part)
        return line

    async def _record_result(self, call: _ToolCall, message: Message) -> None:
        result, error = message.get("result"), message.get("error")
        if error is not None:
            code = str(error.get("code", "")) if isinstance(error, dict) else ""
            await self._end(call, Outcome.FAILED, code, "error", error)
        elif isinstance(result, dict) and result.get("isError"):
            await self._end(call, Outcome.FAILED, "tool-error", "error", result)
        else:
            kind = result.get("resultType") if isinstance(result, dict) else None
            # The server wants to know more first; the client then makes another call.
            code = "input-required" if kind == "input_required" else ""
            await self._end(call, Outcome.OK, code, "output", result)

    async def _end(
        self,
        call: _ToolCall,
        outcome: Outcome,
        code: str,
        body: str = "",
        content: object = None,
    ) -> None:
        bodies: Sequence[Attachment] = names_body(call.tool)
        cut = 0
        if body:
            data = json.dumps(content, ensure_ascii=False).encode(errors="replace")
            attached, cut = cut_body(body, data, "application/json")
            bodies = (attached, *bodies)
        if call.begun is not None:
            await call.begun.end(self._step_facts(call, outcome, code, cut), bodies)

    async def _end_open_calls(self) -> None:
        """Record and answer the calls that the server has left open: nobody knows what they did."""
        for call in list(self._calls.values()):
            await self._end(call, Outcome.INDETERMINATE, "no-answer")
            error = {"code": _SERVER_ERROR, "message": "Forum: the server ended without an answer."}
            await self._send_client(_encode({"jsonrpc": "2.0", "id": call.id, "error": error}))
        self._calls.clear()


async def _drop(_line: Line) -> None:
    """Drop a line: the relay has not begun."""


def _check_message(message: object) -> Message:
    """Return a message of the client.  Raises `ValueError` if a server could read another one."""
    if not isinstance(message, dict):
        raise ValueError("it is no object")  # noqa: TRY004  # the form of a message, as below
    reject_folded_twins([*message.items()])
    check_names(message, _MESSAGE_MEMBERS)
    method, params = message.get("method", ""), message.get("params")
    if not isinstance(method, str):
        raise ValueError("its method is no text")  # noqa: TRY004
    if method != _CALL_METHOD and fold_name(method.strip()) == _CALL_METHOD:
        raise ValueError(f"its method is {show_name(method)!r}; write {_CALL_METHOD!r}")
    # Only an error about a message without a readable id may have none.
    has_id = "id" in message and (method or message["id"] is not None)
    if has_id and not _is_id(message["id"]):
        raise ValueError("its id is neither a text nor an integer")
    if isinstance(params, dict):
        reject_folded_twins([*params.items()])
    if method == _CALL_METHOD:
        if not isinstance(params, dict) or not isinstance(params.get("name"), str):
            raise ValueError("it names no tool")
        check_names(params, _CALL_MEMBERS)
    return message


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _find_id(line: Line) -> object:
    """Return the id of a refused message, as far as it can be read; None otherwise."""
    message = _parse(line)
    found = message.get("id") if isinstance(message, dict) else None
    return found if _is_id(found) else None


def _parse(line: Line) -> object:
    """Return the JSON in a line; None if it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _encode(message: object) -> Line:
    # In ASCII: some readers take U+2028 and the like in a string for the end of a line.
    return json.dumps(message).encode() + b"\n"


def _tool_error(call: object, words: str) -> Line:
    """Return the result of a tool that failed: models read it, unlike errors of the protocol."""
    content = [{"type": "text", "text": words}]
    # Versions since 2026 demand `resultType`; earlier ones let results have members of any name.
    result = {"resultType": "complete", "content": content, "isError": True}
    return _encode({"jsonrpc": "2.0", "id": call, "result": result})
