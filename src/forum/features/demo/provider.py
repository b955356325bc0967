"""A stand-in for OpenAI on this machine, so that a capped agent can be tried without an account.

It speaks chat completions, answers by a script and bills by the bytes that it reads and writes, so
that the same agent costs the same each time.  It is a model that is never content: each reply asks
for one more tool call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgspec

STAND_IN = "forum-demo"
"""Who owns the models of the stand-in, by its list of models."""

_TOPICS = ("opening hours", "ferries", "museums", "weather", "prices", "restaurants")
_BYTES_PER_TOKEN = 4


@contextmanager
def serve_provider() -> Iterator[str]:
    """Serve the stand-in on a free port of the loopback address; yield its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _ProviderHandler)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _ProviderHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the list of models."""
        model = {"id": "gpt-4o", "object": "model", "owned_by": STAND_IN}
        self._send({"object": "list", "data": [model]})

    def do_POST(self) -> None:
        """Answer one request for a completion."""
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        self._send(_complete(msgspec.json.decode(body), len(body)))

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal belongs to the agent."""

    def _send(self, reply: dict[str, Any]) -> None:
        data = msgspec.json.encode(reply)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _complete(request: dict[str, Any], size: int) -> dict[str, Any]:
    """Return a completion that asks for the next topic, and its usage."""
    turn = sum(message["role"] == "tool" for message in request["messages"])
    arguments = msgspec.json.encode({"topic": f"{_TOPICS[turn % len(_TOPICS)]} in Oslo"}).decode()
    call = {"name": "look_up", "arguments": arguments}
    message = {
        "role": "assistant",
        "content": "I am not done yet.",
        "tool_calls": [{"id": f"call_{turn + 1}", "type": "function", "function": call}],
    }
    read = size // _BYTES_PER_TOKEN
    written = len(msgspec.json.encode(message)) // _BYTES_PER_TOKEN
    return {
        "id": f"chatcmpl-{turn + 1}",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        },
    }
