"""Chromium without a window, driven over pipes by its DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


class BrowserTab:
    """One tab: opens a page, evaluates JavaScript in it, gives it files."""

    def __init__(self, commands: BinaryIO, events: BinaryIO) -> None:
        self._commands, self._events = commands, events
        self._sent = 0
        self._session = ""
        self.console: list[str] = []
        """What the page has written to the console, refusals by its policy included."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._sent += 1
        message: dict[str, object] = {"id": self._sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            reply = self._receive()
            if reply.get("id") == self._sent:
                assert "error" not in reply, reply["error"]
                result: dict[str, Any] = reply["result"]
                return result
            self._note(reply)

    def open(self, path: Path, width: int = 1440, height: int = 900, scheme: str = "light") -> None:
        """Open a file in a window of some size, in the light or the dark scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        preference = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[preference])
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401  any JSON value
        """Return the value of an expression, which may be a promise."""
        done = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait in the page until an expression is true."""
        self.evaluate(
            "new Promise((done) => { const look = () => "
            f"({condition}) ? done() : setTimeout(look, 20); look(); }})"
        )

    def choose_files(self, selector: str, *paths: Path) -> None:
        """Choose files in a field, as a person does."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key."""
        common: dict[str, object] = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def take_picture(self, path: Path) -> None:
        """Save a picture of the whole page."""
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(done["data"]))

    def _receive(self) -> dict[str, Any]:
        message = bytearray()
        while (byte := self._events.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what was written to the console."""
        params = event.get("params", {})
        if event.get("method") == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(params["exceptionDetails"]))


@contextmanager
def chromium(profile: Path) -> Iterator[BrowserTab]:
    """Start the browser with a profile of its own, and end it."""
    program = shutil.which("chromium")
    assert program is not None
    from_us, to_us = os.pipe(), os.pipe()
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    quiet = ["--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"]
    # The browser reads commands from descriptor 3 and writes to 4; only a shell can place them.
    place = f'exec "$0" "$@" 3<&{from_us[0]} 4>&{to_us[1]}'
    process = subprocess.Popen(
        ["bash", "-c", place, program, *options, *quiet, f"--user-data-dir={profile}"],
        pass_fds=(from_us[0], to_us[1]),
        stderr=subprocess.DEVNULL,
    )
    os.close(from_us[0])
    os.close(to_us[1])
    with open(from_us[1], "wb") as commands, open(to_us[0], "rb") as events:  # noqa: PTH123
        try:
            yield BrowserTab(commands, events)
        finally:
            process.terminate()
            process.wait()
