"""The verifier of `verify.html` under Node, which must say what verify.py says, word by word."""

import atexit
import json
import shutil
import subprocess
import tempfile
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

from forum.features.evidence.verify_page import build_page

_DRIVER = Path(__file__).with_name("page_verifier.mjs")


class PageRejected(Exception):
    """The page refused a key or a policy, with these words."""


class PageVerifier:
    """A process that verifies with the script of the page."""

    def __init__(self, node: str) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as page:
            page.write(build_page())
            page.flush()
            self._process = subprocess.Popen(
                [node, _DRIVER, page.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
            self.problems: dict[str, str] = self.ask("problems")  # it has read the page by then
        atexit.register(self._stop)

    def ask(self, action: str, **question: object) -> Any:  # noqa: ANN401  any JSON value
        """Have the page do something, and return what it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"action": action, **question}) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline(), object_hook=_read_integer)
        if "answer" in reply:
            return reply["answer"]
        if not reply["rejected"]:
            raise AssertionError(reply["message"])
        raise PageRejected(reply["why"])

    def verify(self, data: bytes, trust: Any, max_files: int = 0xFFFF) -> dict[str, Any]:  # noqa: ANN401  of the stand-alone module
        """Verify a bundle with the trust of the stand-alone verifier, and return the report."""
        report: dict[str, Any] = self.measure(data, trust, max_files)["report"]
        return report

    def draw(self, data: bytes, trust: Any) -> dict[str, Any]:  # noqa: ANN401  of the stand-alone module
        """Verify a pack, and return its page as a tree of elements and texts."""
        drawn: dict[str, Any] = self.measure(data, trust, draws=True)["page"]
        return drawn

    def measure(
        self,
        data: bytes,
        trust: Any,  # noqa: ANN401  of the stand-alone module
        max_files: int = 0xFFFF,
        *,
        draws: bool = False,
    ) -> dict[str, Any]:
        """Verify a bundle, and return the report and the seconds of CPU that it took."""
        document: dict[str, Any] = self.ask(
            "verify",
            bundle=encode(data),
            keys=[vkey(key) for key in trust.keys],
            policy=encode(trust.policy.text) if trust.policy else None,
            seen=[encode(note) for note in trust.seen],
            maxFiles=max_files,
            maxBytes=trust.max_bytes,
            draws=draws,
        )
        return document

    def _stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@cache
def page_verifier() -> PageVerifier | None:
    """Return the page of this process, or None where there is no Node."""
    node = shutil.which("node")
    return PageVerifier(node) if node else None


def encode(data: bytes) -> str:
    """Return bytes as base64."""
    return b64encode(data).decode()


def vkey(key: Any) -> str:  # noqa: ANN401  of the stand-alone module
    """Return a key of the stand-alone verifier in its text form."""
    return f"{key.name}+{key.id.hex()}+{encode(bytes([key.algorithm]) + key.public)}"


def _read_integer(value: dict[str, Any]) -> Any:  # noqa: ANN401  any JSON value
    return int(value["integer"]) if value.keys() == {"integer"} else value
