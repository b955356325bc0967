"""Run `forum hook` with a fault at each step in turn, and print what became of each, as JSON.

Called as `python -m tests.features.recorder.hook_faults STEPS EVENT FIRST EVERY` in the folder of a
project, where STEPS is `imports` or `calls`.
`imports`: each import fails.  `calls`: each function of Forum fails when it is first called.
The fault is at step FIRST, and at every EVERY-th after it.
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults import Fault


def _redirect(event: str) -> Path:
    """Give this process a standard input with an event, and files as outputs."""
    folder = Path(tempfile.mkdtemp())
    (folder / "event").write_text(event)
    for number, name in enumerate(("event", "stdout", "stderr")):
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  as long as the process lives
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["forum", "hook"]
    return folder


def _report(out: int, place: str, folder: Path, status: int) -> None:
    text = (folder / "stdout").read_text()
    document = {"place": place, "status": os.waitstatus_to_exitcode(status), "stdout": text}
    document["stderr"] = (folder / "stderr").read_text()
    os.write(out, f"{json.dumps(document)}\n".encode())
    rmtree(folder)


class _FailingImports:
    """Forks at each import: the child fails there, and the parent goes on."""

    def __init__(self, out: int, first: int, every: int) -> None:
        self._out, self._ended = out, False
        self._left, self._every = first, every

    def find_spec(self, name: str, _path: object, _target: object = None) -> ModuleSpec | None:
        if self._ended:
            return None
        self._left -= 1
        if self._left >= 0:
            return None
        self._left = self._every - 1
        guard = sys.modules.get("forum.hook_guard")
        if guard is not None and hasattr(guard, "_deadline"):
            guard._deadline[0] = float("inf")  # noqa: SLF001  all children run within it
        folder = Path(tempfile.mkdtemp())
        child = os.fork()
        if child == 0:
            self._ended = True
            for number, file in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(folder / file, os.O_RDWR | os.O_CREAT), number)
            raise ImportError(f"fault: {name}")
        _report(self._out, name, folder, os.waitpid(child, 0)[1])
        return None


def _fail_imports(out: int, event: str, first: int, every: int) -> None:
    _redirect(event)
    sys.meta_path.insert(0, _FailingImports(out, first, every))
    from forum.__main__ import main  # noqa: PLC0415

    main()


def _fail_calls(out: int, event: str, first: int, every: int) -> None:
    from forum.__main__ import main  # noqa: PLC0415
    from forum.surfaces.cli import cli  # noqa: PLC0415
    from tests.faults import Fault  # noqa: PLC0415

    # Once without a fork, so that the children need not import anything.
    members: dict[str, Any] = json.loads(event)
    _redirect(json.dumps(members | {"session_id": "first"}))
    cli.main(["hook"], standalone_mode=False)
    # The first call is that of `main`, before which nothing can guard.
    number, place = 2 + first - every, "main"
    while place:
        number += every
        folder = _redirect(json.dumps(members | {"session_id": f"session-{number}"}))
        child = os.fork()
        if child == 0:
            _run_with_fault(main, Fault(number, ("forum",), once_each=True), folder / "place")
        status = os.waitpid(child, 0)[1]
        place = (folder / "place").read_text()
        _report(out, place, folder, status)


def _run_with_fault(main: Callable[[], None], fault: "Fault", place: Path) -> None:
    end_process = os._exit

    def note_place(status: int) -> None:
        place.write_text(fault.place)
        end_process(status)

    os._exit = note_place  # type: ignore[assignment]
    with fault:
        main()


if __name__ == "__main__":
    signal.alarm(600)
    _out = os.dup(1)
    _cause = {"imports": _fail_imports, "calls": _fail_calls}[sys.argv[1]]
    _cause(_out, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
