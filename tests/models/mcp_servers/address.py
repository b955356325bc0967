"""A server at an address that goes wrong when a tool is called, in the way that it is told."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep
from typing import Any

MB = 1_000_000


class Address(ThreadingHTTPServer):
    """Answers in the oldest way; keeps the headers of all that it was sent."""

    daemon_threads = True

    def __init__(self, how: str, elsewhere: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.how, self.elsewhere = how, elsewhere
        self.seen: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}/mcp"


@contextmanager
def serving(how: str, elsewhere: str = "") -> Iterator[Address]:
    """Serve from a thread."""
    with Address(how, elsewhere) as address:
        thread = Thread(target=address.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield address
        finally:
            address.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Address

    def log_message(self, *_: object, **__: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        sleep(3)

    def do_POST(self) -> None:
        self.server.seen.append({name.lower(): value for name, value in self.headers.items()})
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match message["method"]:
            case "initialize":
                document = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
                self._answer(
                    message, document | {"serverInfo": {"name": "address", "version": "0"}}
                )
            case "tools/call":
                self._call(message)
            case _ if "id" in message:
                error = {"code": -32601, "message": "what?"}
                body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
                self._send(404, json.dumps(body).encode())
            case _:
                self._send(202, b"")

    def _call(self, message: dict[str, Any]) -> None:  # noqa: C901  # one way after the other
        match self.server.how:
            case "gateway":
                self._send(502, b"<h1>Bad gateway</h1>", kind="text/html")
            case "drop":
                self.close_connection = True
            case "flood":
                self._send(200, b" " * 100 * MB)
            case "bomb":
                self._send(200, gzip.compress(bytes(100 * MB)), encoding="gzip")
            case "nonsense":
                self._send(200, b"{]")
            case "elsewhere":
                self._send(307, b"", location=self.server.elsewhere)
            case "refuse":
                error = {"code": -32602, "message": "no such tool"}
                body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
                self._send(200, json.dumps(body).encode())
            case "hang":
                sleep(3)
            case _:
                self._answer(message, {"content": [{"type": "text", "text": "done"}]})

    def _answer(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self._send(200, json.dumps(body).encode(), session="one")

    def _send(
        self,
        status: int,
        body: bytes,
        *,
        kind: str = "application/json",
        encoding: str = "",
        location: str = "",
        session: str = "",
    ) -> None:
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Encoding": encoding,
            "Location": location,
            "Mcp-Session-Id": session,
        }
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True
