"""A stub of a model that knows the right answers, for `python -m benchmarks real-team --quick`.

A call with a form of the reply gets the smallest reply of that form. Every other call gets the
right answer to the request that stands in its prompt.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from benchmarks.real_requests import RealRequest

STUB = "stub"


@contextmanager
def serve_stub(requests: Sequence[RealRequest]) -> Iterator[str]:
    """Serve the stub from a thread, and yield its base URL."""

    class StubHandler(BaseHTTPRequestHandler):
        """Answers chat completions."""

        def do_POST(self) -> None:
            """Answer a call."""
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            prompt = "\n".join(str(message["content"]) for message in body["messages"])
            form = body.get("response_format", {}).get("json_schema", {}).get("schema")
            text = json.dumps(smallest(form, form)) if form else right_answer(requests, prompt)
            reply = {
                "model": body["model"],
                "choices": [
                    {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                ],
                "usage": {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4},
            }
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), StubHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def right_answer(requests: Sequence[RealRequest], prompt: str) -> str:
    """Return the right answer to the request whose text has most of its lines in a prompt."""
    best = max(requests, key=lambda request: _shared_lines(request.text, prompt))
    return best.right if _shared_lines(best.text, prompt) else "I do not know."


def _shared_lines(text: str, prompt: str) -> float:
    lines = [line for line in text.splitlines() if line.strip()]
    return sum(line in prompt for line in lines) / len(lines)


def smallest(form: dict[str, Any], root: dict[str, Any]) -> Any:  # noqa: ANN401  any JSON
    """Return a small value that a JSON schema of a role allows."""
    if "$ref" in form:
        return smallest(root["$defs"][form["$ref"].rpartition("/")[2]], root)
    choices = form.get("enum") or form.get("anyOf")
    if choices:
        return smallest(choices[0], root) if "anyOf" in form else choices[0]
    if form.get("type") == "object":
        return {name: smallest(each, root) for name, each in form["properties"].items()}
    if form.get("type") == "array":
        return [smallest(form["items"], root)] * form.get("minItems", 0)
    values = {"boolean": True, "integer": form.get("minimum", 1), "number": 1}
    return values.get(form.get("type", ""), form.get("const", "stub"))
