"""What programs ordinarily do still works in the sandbox: as root and as a user."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.users import USER, as_user, is_root

# ruff: noqa: E501
CHECKS = {
    "threads": "python -c 'import threading; t = threading.Thread(target=int); t.start(); t.join()'",
    "subprocess": "python -c 'import subprocess; subprocess.run([\"true\"], check=True)'",
    "processes": "python -c 'import multiprocessing as m; m.Pool(2).map(abs, [1, 2])'",
    "temporary files": "python -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\")'",
    "event loop": "python -c 'import asyncio; asyncio.run(asyncio.sleep(0))'",
    "sqlite": 'python -c \'import sqlite3; sqlite3.connect("work/db").execute("create table t(a)")\'',
    "sockets": "python -c 'import socket; socket.socketpair(); socket.create_server((\"127.0.0.1\", 0))'",
    "own terminal": "python -c 'import os; a, b = os.openpty(); os.write(a, b\"x\\n\"); os.read(b, 2)'",
    "git": "cd work && git init -q r && cd r && touch a && git add a && "
    "git -c user.name=a -c user.email=a@example.com commit -qm a && git log -1 --format=%s",
    "node": 'node -e \'require("fs").readFile("notes", e => process.exit(e ? 1 : 0))\'',
    "streams by name": "cat < /dev/null > /dev/stdout && echo x | cat /dev/stdin",
    "pipes": "seq 100000 | sort -n | tail -1",
    "names of processors": "nproc && cat /proc/cpuinfo /proc/meminfo /proc/self/status",
    "certificates": "python -c 'import ssl; ssl.create_default_context()'",
    "job control": "set -m; sleep 9 & kill -STOP %1; kill -CONT %1; kill %1",
}
"""Commands that end with status 0."""
RUN = """
import json, os, subprocess, sys
from pathlib import Path
os.environ["PATH"] = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
found = {}
for name, script in json.loads(Path("checks").read_text()).items():
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    found[name] = (done.returncode, done.stdout[-500:] + done.stderr[-1500:])
Path("work/found").write_text(json.dumps(found))
"""
CONFINED = """
import os, sys
from pathlib import Path
from forum.models.sandbox import Sandbox
folder = Path.cwd()
sandbox = Sandbox(folder, hidden=(folder / "secret",), write=(folder / "work",))
argv = sandbox.command([sys.executable, "run.py"])
os.execvpe(argv[0], argv, sandbox.environment(()))
"""
Found = dict[str, tuple[int, str]]


@pytest.fixture(scope="module", params=["root", "user"] if is_root() else ["user"])
def ended_programs(request: pytest.FixtureRequest) -> Iterator[Found]:
    """Run all commands in one sandbox, and return how they ended."""
    place = Path(tempfile.mkdtemp(prefix="forum-ordinary-"))
    try:
        place.chmod(0o755)
        (place / "work").mkdir()
        for name, text in (
            ("checks", json.dumps(CHECKS)), ("run.py", RUN), ("start.py", CONFINED),
            ("notes", "plain"), ("secret", "hidden"),
        ):  # fmt: skip
            (place / name).write_text(text)
        owner = USER if is_root() else os.geteuid()
        for path in (place, *place.iterdir()):
            os.chown(path, owner, owner)
        prefix = as_user() if request.param == "user" and is_root() else []
        variables = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}
        done = subprocess.run(
            [*prefix, sys.executable, "start.py"],
            cwd=place, env=variables, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        yield json.loads((place / "work/found").read_text())
    finally:
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CHECKS))
def test_ordinary_programs_work(ended_programs: Found, name: str) -> None:
    """A sandbox in which nothing works would be left."""
    status, output = ended_programs[name]

    assert status == 0, output
