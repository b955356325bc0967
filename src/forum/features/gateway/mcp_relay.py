"""An MCP gateway: relays the messages of one client and one server, and records the tool calls.

Messages are JSON, one for each line.  Whatever this program does not know passes with the same
content: resources, prompts, progress, structured results, and methods of later versions.  Only
tools are looked at:

- before a call goes to the server it is on record (`report.begin/1`), and that is durable;
- before its result goes to the client the result is on record (`report.step/1`);
- a call that is denied never reaches the server, and a gated one only after its approval;
- a call of a tool that the server does not list is denied, and the list is pinned: when it is
  another one than at its first use, the gateway stops.

What either side sends is parsed strictly and written anew: the other gets the message that was
checked, in a form with one reading, and the whole `params` of a call are shown and recorded.  A
message that another parser could read in another way is refused, and that is on record; so is an
answer to no open request, because a client could take it for the answer to one.

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
from forum.errors import RunAlreadyEnded, ToolsChanged
from forum.features.gateway.tool_pin import ToolList, ToolPin, read_tool_list
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment
from forum.runs import report_kinds, strict_json
from forum.runs.policy import Answer
from forum.runs.report_drafts import MAX_BODY_BYTES, cut_body, names_body

_MAX_WAITING_LINES = 1000
"""Lines of one direction that wait for the record; then the sender has to wait."""

_LIST_SECONDS = 60.0
"""How long the server may take to list its tools."""
_MAX_LIST_PAGES = 100

_CALL_METHOD, _LIST_METHOD = "tools/call", "tools/list"
_LIST_CHANGED = "notifications/tools/list_changed"
_OWN_ID = "forum-tools-"
"""The beginning of the ids of requests that the gateway makes itself."""
_MESSAGE_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_CALL_MEMBERS = frozenset({"name", "arguments"})
_RESULT_MEMBERS = frozenset(
    {"tools", "nextCursor", "content", "structuredContent", "isError", "resultType", "_meta"}
)
_TOOL_MEMBERS = frozenset(
    {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"}
)
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_SERVER_ERROR = -32000
"""Codes of JSON-RPC."""

Line = bytes
Message = dict[str, Any]
Write = Callable[[Line], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToolRules:
    """Which tools are denied, and which wait for approval; patterns as in a shell.

    Names are compared without regard to case, width, blanks and characters that nobody sees.
    """

    denied: tuple[str, ...] = ()
    gated: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """If there are any, all other tools are denied."""

    def is_denied(self, tool: str) -> bool:
        """Return whether a tool must not be called."""
        return _matches(tool, self.denied) or (bool(self.only) and not _matches(tool, self.only))

    def is_gated(self, tool: str) -> bool:
        """Return whether a call of a tool waits for approval."""
        return _matches(tool, self.gated)


def _matches(tool: str, patterns: tuple[str, ...]) -> bool:
    return any(
        fnmatchcase(strict_json.fold_tool_name(tool), strict_json.fold_tool_name(pattern))
        for pattern in patterns
    )


@dataclass(slots=True)
class _ToolCall:
    """A call on its way: its id in the protocol, its tool, and its record."""

    id: object
    tool: str
    span: str
    params: bytes
    """The parameters as they are sent, with letters in place of escapes."""
    began: float = field(default_factory=monotonic)
    begun: BegunStep | None = None

    @property
    def key(self) -> str:
        """The id as text."""
        return _key(self.id)


class McpGateway:
    """Relays and records one conversation."""

    def __init__(
        self,
        session: ReportSession,
        rules: ToolRules,
        server_name: str,
        pin: ToolPin,
        notify: Callable[[str], None],
    ) -> None:
        self._session, self._rules = session, rules
        self._pin, self._notify = pin, notify
        self._server = server_name
        self._provider = report_kinds.derive_name(server_name, report_kinds.A_PROVIDER)
        self._calls: dict[str, _ToolCall] = {}
        """The calls that the server has and has not answered, by key."""
        self._gated: dict[str, asyncio.Task[None]] = {}
        """The last call of each key that waits for approval."""
        self._waiting: set[asyncio.Task[None]] = set()
        """All calls that wait for approval: a client may use a key twice."""
        self._tools: ToolList | None = None
        """The tools of the server; None before they are listed."""
        self._listing: asyncio.Task[ToolList] | None = None
        self._own_answers: dict[str, asyncio.Future[Message]] = {}
        """The answers that the gateway itself waits for, by key."""
        self._list_requests: dict[str, Message] = {}
        """The client's own requests for the list, by key."""
        self._requests: set[str] = set()
        """The keys of the client's other requests without an answer."""
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
            if self._listing is not None:
                tasks.append(self._listing)  # type: ignore[arg-type]  # also a task
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end_open_calls()

    async def _pump(
        self,
        lines: asyncio.StreamReader,
        prepare: Callable[[Line, asyncio.Event], Awaitable[Line | None]],
        send: Write,
    ) -> None:
        """Prepare the lines of one direction at the same time, and send them in their order."""
        queue: asyncio.Queue[tuple[asyncio.Task[Line | None], asyncio.Event] | None]
        queue = asyncio.Queue(_MAX_WAITING_LINES)

        async def read() -> None:
            earlier_sent = asyncio.Event()
            earlier_sent.set()
            while line := await lines.readline():
                sent = asyncio.Event()
                # `create_task` runs in order up to the first wait, so calls get spans in order.
                await queue.put((asyncio.create_task(prepare(line, earlier_sent)), sent))  # type: ignore[arg-type]  # a coroutine
                earlier_sent = sent
            await queue.put(None)

        reading = asyncio.create_task(read())
        try:
            while (prepared := await queue.get()) is not None:
                task, sent = prepared
                line = await task
                if line is not None:
                    await send(line)
                sent.set()
            await reading
            await send(b"")
        finally:
            reading.cancel()
            left = [queue.get_nowait() for _ in range(queue.qsize())]
            tasks = [prepared[0] for prepared in left if prepared is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_server(self, line: Line) -> None:
        async with self._server_lock:
            await self._to_server(line)

    async def _send_client(self, line: Line) -> None:
        async with self._client_lock:
            await self._to_client(line)

    async def _prepare_request(self, line: Line, earlier_sent: asyncio.Event) -> Line | None:
        """Return what goes to the server in place of a line of the client; None for nothing."""
        if not line.strip():
            return None
        try:
            parts = _read_line(line)
        except (ValueError, RecursionError) as error:
            await self._refuse_message(line, _PARSE_ERROR, str(error))
            return None
        prepared = [await self._prepare_message(*part, earlier_sent) for part in parts]
        return b"".join(filter(None, prepared)) or None

    async def _prepare_message(
        self, line: Line, part: object, earlier_sent: asyncio.Event
    ) -> Line | None:
        try:
            message = _check_message(part)
            self._check_unused(message)
        except ValueError as error:
            await self._refuse_message(line, _INVALID_REQUEST, str(error))
            return None
        match message.get("method"):
            case "tools/call":
                return await self._prepare_call(line, message, earlier_sent)
            case "tools/list" if "id" in message:
                self._list_requests[_key(message["id"])] = message
                return line
            case "notifications/cancelled":
                return await self._cancel(line, message)
            case method:
                if method is not None and "id" in message:
                    self._requests.add(_key(message["id"]))
                return line

    def _check_unused(self, message: Message) -> None:
        """Raise `ValueError` for the id of an open request: its answer would count for both."""
        if "method" not in message or "id" not in message:
            return
        key = _key(message["id"])
        # Two calls of one id are recorded, the first as indeterminate.
        is_call = message["method"] == _CALL_METHOD
        if (
            key in self._requests
            or key in self._list_requests
            or (not is_call and (key in self._calls or key in self._gated))
        ):
            raise ValueError("its id is that of a request without an answer")

    async def _prepare_call(
        self, line: Line, message: Message, earlier_sent: asyncio.Event
    ) -> Line | None:
        call = self._read_call(line, message)
        if "id" not in message:
            # Nobody would get its result, and a refusal could not be told to anybody.
            await self._record_unmade(call, Outcome.DENIED, "no-id")
            return None
        if self._rules.is_denied(call.tool):
            await self._refuse(call, f"The tool {call.tool} is denied by the rules of the gateway.")
            return None
        # The server must have got what came before: it answers nothing before its greeting.
        await earlier_sent.wait()
        if not await self._is_listed(call, message):
            return None
        if self._rules.is_gated(call.tool):
            if len(call.params) > MAX_BODY_BYTES:
                words = f"The call of {call.tool} is too long to be shown to a person."
                await self._refuse(call, words)
                return None
            task = asyncio.create_task(self._pass_gate(call, message, line))
            self._gated[call.key] = task
            self._waiting.add(task)
            task.add_done_callback(partial(self._forget_gate, call.key))
            return None
        return line if await self._begin(call) else None

    async def _is_listed(self, call: _ToolCall, message: Message) -> bool:
        """Return whether the server lists the tool of a call; if not, refuse the call.

        Raises `ToolsChanged` if its list is another one than before, which ends the gateway.
        """
        try:
            tools = await self._list_tools(message)
        except ToolsChanged as error:
            await self._refuse(call, str(error), "tools-changed")
            raise
        except asyncio.CancelledError:
            words = "The server ended before it listed its tools."
            await asyncio.shield(self._refuse(call, words, "no-list"))
            raise
        except (ValueError, TimeoutError) as error:
            words = f"The tools of the server cannot be listed: {str(error) or 'no answer'}."
            await self._refuse(call, words, "no-list")
            return False
        if call.tool in tools.tools:
            return True
        name = strict_json.show_name(call.tool)
        words = f"The server lists no tool {name!r}. Write its name as it is listed."
        await self._refuse(call, words, "unknown-tool")
        return False

    async def _list_tools(self, message: Message) -> ToolList:
        """Return the tools of the server, which are asked for once, and after each change."""
        if self._tools is not None:
            return self._tools
        if self._listing is None:
            # Later versions of the protocol have no greeting: each request says who asks.
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            members = {} if not isinstance(meta, dict) else meta
            self._listing = asyncio.create_task(
                self._ask_tools({n: v for n, v in members.items() if n != "progressToken"})
            )
        listing = self._listing
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                return await asyncio.shield(listing)
        finally:
            if listing.done() and self._listing is listing:
                self._listing = None

    async def _ask_tools(self, meta: Message) -> ToolList:
        tools: list[object] = []
        params: Message = {"_meta": meta} if meta else {}
        for page in range(1, _MAX_LIST_PAGES + 1):
            id_ = f"{_OWN_ID}{self._session.new_span()}-{page}"
            answer = self._own_answers[_key(id_)] = asyncio.get_running_loop().create_future()
            request = {"jsonrpc": "2.0", "id": id_, "method": _LIST_METHOD, "params": params}
            await self._send_server(_encode(request))
            result = (await answer).get("result")
            if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
                raise ValueError("its answer has no list")  # noqa: TRY004
            tools += result["tools"]
            cursor = result.get("nextCursor")
            if cursor is None:
                break
            params = {**params, "cursor": cursor}
        else:
            raise ValueError(f"it has more than {_MAX_LIST_PAGES} pages")
        tool_list = read_tool_list(tools)
        await self._record_tools(tool_list, tools)
        self._pin.check(tool_list)
        self._tools = tool_list
        return tool_list

    async def _record_tools(self, tool_list: ToolList, tools: list[object]) -> None:
        """Record the list with its digest, before it is compared with the pinned one."""
        data = json.dumps({"digest": tool_list.digest, "tools": tools}).encode()
        body, cut = cut_body("output", data, "application/json")
        facts = report_kinds.ReportStepFacts(
            op=report_kinds.Operation.STEP,
            name=_LIST_METHOD,
            outcome=Outcome.OK,
            span=self._session.new_span(),
            provider=self._provider,
            cut=cut,
        )
        await self._session.record(facts, (body,))

    async def _refuse_message(self, line: Line, code: int, why: str) -> None:
        """Record a message that has no single reading, and tell the client that it is refused."""
        await self._record_message("input", line, "malformed")
        words = f"Forum refuses this message: {why}. Write each member once, in its own form."
        error = {"code": code, "message": words}
        await self._send_client(_encode({"jsonrpc": "2.0", "id": _find_id(line), "error": error}))

    async def _leave_out(self, line: Line, why: str, code: str = "malformed") -> None:
        """Record a message of the server that the client does not get."""
        await self._record_message("output", line, code)
        self._notify(f"the server wrote a line that is left out: {why}")

    async def _record_message(self, body_name: str, line: Line, code: str) -> None:
        body, cut = cut_body(body_name, line, "text/plain")
        facts = report_kinds.ReportStepFacts(
            op=report_kinds.Operation.STEP,
            name="message",
            outcome=Outcome.DENIED,
            span=self._session.new_span(),
            provider=self._provider,
            code=code,
            cut=cut,
        )
        with suppress(RunAlreadyEnded):
            await self._session.record(facts, (body,))

    def _forget_gate(self, key: str, task: "asyncio.Task[None]") -> None:
        self._waiting.discard(task)
        if self._gated.get(key) is task:
            del self._gated[key]

    def _read_call(self, line: Line, message: Message) -> _ToolCall:
        return _ToolCall(
            id=message.get("id"),
            tool=message["params"]["name"],
            span=self._session.new_span(),
            params=strict_json.write_readably(
                strict_json.split_members(line.decode())["params"]
            ).encode(),
        )

    async def _begin(self, call: _ToolCall) -> bool:
        """Record that a call is about to be made; return whether it may be made."""
        body, cut = cut_body("input", call.params, "application/json")
        facts = report_kinds.ReportBeginFacts(
            op=report_kinds.Operation.TOOL,
            name=report_kinds.label_name(call.tool, report_kinds.Operation.TOOL),
            span=call.span,
            provider=self._provider,
            cut=cut,
        )
        try:
            call.begun = await self._session.begin(facts, (body, *self._names(call)))
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

    async def _pass_gate(self, call: _ToolCall, message: Message, line: Line) -> None:
        """Wait for the approval of a call, then relay it."""
        subject = (
            f"tool/{report_kinds.label_name(call.tool, report_kinds.Operation.TOOL)}/{call.span}"
        )
        run = self._session.run
        self._notify(f"{call.tool} waits for approval: forum gate approve {run} {subject}")
        try:
            answer = await self._session.ask_approval(subject, call.params)
        except asyncio.CancelledError:
            await asyncio.shield(self._record_unmade(call, Outcome.CANCELLED, "cancelled"))
            raise
        if answer is Answer.REJECT:
            await self._refuse(call, f"The call of {call.tool} was not approved.")
            return
        try:
            # The server may have said meanwhile that its tools have changed: the person approved a
            # call of the tool as it was.
            if await self._is_listed(call, message) and await self._begin(call):
                await self._send_server(line)
        except ToolsChanged as error:
            # The call is refused; the next one, or the next list, ends the gateway.
            self._notify(str(error))

    async def _refuse(self, call: _ToolCall, words: str, code: str = "denied") -> None:
        """Record that a call was denied, and tell the client as a tool does."""
        await self._record_unmade(call, Outcome.DENIED, code)
        await self._send_client(_tool_error(call.id, words))

    async def _record_unmade(self, call: _ToolCall, outcome: Outcome, code: str) -> None:
        body, cut = cut_body("input", call.params, "application/json")
        facts = self._step_facts(call, outcome, code, cut)
        with suppress(RunAlreadyEnded):
            await self._session.record(facts, (body, *self._names(call)))

    def _names(self, call: _ToolCall) -> tuple[Attachment, ...]:
        return names_body(report_kinds.Names(call.tool, provider=self._server))

    def _step_facts(
        self, call: _ToolCall, outcome: Outcome, code: str, cut: int
    ) -> report_kinds.ReportStepFacts:
        return report_kinds.ReportStepFacts(
            op=report_kinds.Operation.TOOL,
            name=report_kinds.label_name(call.tool, report_kinds.Operation.TOOL),
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
        key = _key(params.get("requestId")) if isinstance(params, dict) else ""
        if (task := self._gated.get(key)) is not None:
            task.cancel()
            return None  # the server has not heard of the call
        # The server need not answer a cancelled call, so this is the last that is known of it.
        if (call := self._calls.pop(key, None)) is not None:
            await self._end(call, Outcome.CANCELLED, "cancelled")
        return line

    async def _prepare_response(self, line: Line, _: asyncio.Event) -> Line | None:
        """Record the results in a line of the server; return what goes to the client."""
        if not line.strip():
            return None
        try:
            parts = _read_line(line)
        except (ValueError, RecursionError) as error:
            await self._leave_out(line, str(error))
            return None
        prepared = [await self._prepare_answer(*part) for part in parts]
        return b"".join(filter(None, prepared)) or None

    async def _prepare_answer(self, line: Line, part: object) -> Line | None:
        try:
            message = _check_answer(part)
        except ValueError as error:
            await self._leave_out(line, str(error))
            return None
        if "method" in message:
            if strict_json.fold_tool_name(message["method"]) == _LIST_CHANGED:
                self._tools = None
            return line
        return await self._match_answer(message, line)

    async def _match_answer(self, message: Message, line: Line) -> Line | None:
        """Return what goes to the client for an answer, by the request that it is for."""
        key = _key(message["id"])
        if (answer := self._own_answers.pop(key, None)) is not None:
            if not answer.done():
                answer.set_result(message)
            return None
        if (request := self._list_requests.pop(key, None)) is not None:
            return await self._compare_list(request, message, line)
        if (call := self._calls.pop(key, None)) is not None:
            return await self._record_result(call, message, line)
        if key in self._requests:
            self._requests.remove(key)
            return line
        await self._leave_out(line, "it answers no open request", "unasked")
        return None

    async def _compare_list(self, request: Message, message: Message, line: Line) -> Line:
        """Return an answer with tools if they are the pinned ones; before a client reads them.

        Raises `ToolsChanged`, which ends the gateway.
        """
        if "result" not in message:
            return line
        result = message["result"]
        listed = result.get("tools") if isinstance(result, dict) else None
        try:
            part = read_tool_list(listed if isinstance(listed, list) else [None])
            whole = await self._list_tools(request)
            self._pin.check_part(whole, part)
        except ToolsChanged as error:
            await self._send_client(_protocol_error(request["id"], str(error)))
            raise
        except (ValueError, TimeoutError) as error:
            words = f"The tools of the server cannot be listed: {str(error) or 'no answer'}."
            return _protocol_error(request["id"], words)
        return line

    async def _record_result(self, call: _ToolCall, message: Message, line: Line) -> Line:
        """Record the result of a call; return what goes to the client."""
        result, error = message.get("result"), message.get("error")
        texts = strict_json.split_members(line.decode())
        if error is not None and "result" in message:
            # One reader would take the result, and another the error.
            await self._end(call, Outcome.FAILED, "malformed", "error", content=line.decode())
            return _protocol_error(call.id, "Forum: the answer has a result and an error.")
        if error is not None:
            code = str(error.get("code", "")) if isinstance(error, dict) else ""
            code = report_kinds.label_name(code, report_kinds.AN_ERROR) if code else ""
            await self._end(call, Outcome.FAILED, code, "error", content=texts["error"])
        elif isinstance(result, dict) and result.get("isError"):
            await self._end(call, Outcome.FAILED, "tool-error", "error", content=texts["result"])
        else:
            kind = result.get("resultType") if isinstance(result, dict) else None
            # The server wants to know more first; the client then makes another call.
            code = "input-required" if kind == "input_required" else ""
            await self._end(call, Outcome.OK, code, "output", content=texts.get("result", "null"))
        return line

    async def _end(
        self, call: _ToolCall, outcome: Outcome, code: str, body: str = "", content: str = ""
    ) -> None:
        bodies: Sequence[Attachment] = self._names(call)
        cut = 0
        if body:
            attached, cut = cut_body(
                body, strict_json.write_readably(content).encode(), "application/json"
            )
            bodies = (attached, *bodies)
        if call.begun is not None:
            await call.begun.end(self._step_facts(call, outcome, code, cut), bodies)

    async def _end_open_calls(self) -> None:
        """Record and answer the calls that the server has left open: nobody knows what they did."""
        for call in list(self._calls.values()):
            await self._end(call, Outcome.INDETERMINATE, "no-answer")
            words = "Forum: the server ended without an answer."
            await self._send_client(_protocol_error(call.id, words))
        self._calls.clear()


def _read_line(line: Line) -> list[tuple[Line, object]]:
    """Return the messages in a line, each with the line that is sent for it.  Raises `ValueError`.

    Batches are of an early version of the protocol.  Each part is treated alone, and relayed as a
    line of its own: no batch can hide a call.
    """
    message, text = strict_json.parse_strictly(line), line.decode()
    is_batch = isinstance(message, list) and bool(message)
    parts, texts = (message, strict_json.split_items(text)) if is_batch else ([message], [text])
    lines = [strict_json.write_compactly(each).encode() + b"\n" for each in texts]
    return list(zip(lines, parts, strict=True))


def _key(id_: object) -> str:
    """Return an id as text: clients take 1, 1.0 and "1" for one id."""
    return str(int(id_) if isinstance(id_, float) and id_.is_integer() else id_)


async def _drop(_line: Line) -> None:
    """Drop a line: the relay has not begun."""


def _check_message(message: object) -> Message:
    """Return a message of the client.  Raises `ValueError` if a server could read another one."""
    if not isinstance(message, dict):
        raise ValueError("it is no object")  # noqa: TRY004  # the form of a message, as below
    strict_json.reject_folded_twins([*message.items()])
    strict_json.check_names(message, _MESSAGE_MEMBERS)
    method, params = message.get("method", ""), message.get("params")
    if not isinstance(method, str):
        raise ValueError("its method is no text")  # noqa: TRY004
    folded = strict_json.fold_tool_name(method)
    if method != folded and folded in (_CALL_METHOD, _LIST_METHOD):
        raise ValueError(f"its method is {strict_json.show_name(method)!r}; write {folded!r}")
    _check_id(message, method)
    if isinstance(params, dict):
        strict_json.reject_folded_twins([*params.items()])
    if method == _CALL_METHOD:
        if not isinstance(params, dict) or not isinstance(params.get("name"), str):
            raise ValueError("it names no tool")
        strict_json.check_names(params, _CALL_MEMBERS)
    return message


def _check_answer(message: object) -> Message:
    """Return a message of the server.  Raises `ValueError` if a client could read another one."""
    if not isinstance(message, dict):
        raise ValueError("it is no object")  # noqa: TRY004  # the form of a message, as below
    strict_json.reject_folded_twins([*message.items()])
    strict_json.check_names(message, _MESSAGE_MEMBERS)
    if "method" in message:
        if not isinstance(message["method"], str) or {"result", "error"} & message.keys():
            raise ValueError("it is a request and an answer")
        return message
    if "id" not in message:
        raise ValueError("it has neither a method nor an id")
    result = message.get("result")
    if isinstance(result, dict):
        strict_json.reject_folded_twins([*result.items()])
        strict_json.check_names(result, _RESULT_MEMBERS)
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                strict_json.reject_folded_twins([*tool.items()])
                strict_json.check_names(tool, _TOOL_MEMBERS)
    return message


def _check_id(message: Message, method: str) -> None:
    # Only an error about a message without a readable id may have none.
    has_id = "id" in message and (method or message["id"] is not None)
    if has_id and not _is_id(message["id"]):
        raise ValueError("its id is neither a text nor an integer")
    if method and str(message.get("id", "")).startswith(_OWN_ID):
        raise ValueError(f"its id begins with {_OWN_ID!r}, as those of Forum do")


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _find_id(line: Line) -> object:
    """Return the id of a refused message, as far as it can be read; None otherwise."""
    message = _parse(line)
    id_ = message.get("id") if isinstance(message, dict) else None
    return id_ if _is_id(id_) else None


def _parse(line: Line) -> object:
    """Return the JSON in a line; None if it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _encode(message: object) -> Line:
    # In ASCII: some readers take U+2028 and the like in a string for the end of a line.
    return json.dumps(message).encode() + b"\n"


def _protocol_error(request: object, words: str) -> Line:
    error = {"code": _SERVER_ERROR, "message": words}
    return _encode({"jsonrpc": "2.0", "id": request, "error": error})


def _tool_error(call: object, words: str) -> Line:
    """Return the result of a tool that failed: models read it, unlike errors of the protocol."""
    content = [{"type": "text", "text": words}]
    # Versions since 2026 demand `resultType`; earlier ones let results have members of any name.
    result = {"resultType": "complete", "content": content, "isError": True}
    return _encode({"jsonrpc": "2.0", "id": call, "result": result})
