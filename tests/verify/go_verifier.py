"""The verifier in Go, built once for all tests of a process."""

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.verify.page import vkey

SOURCE = Path(__file__).parents[2] / "clients/go"


@cache
def go_verifier() -> Path | None:
    """Return the built program, or None where there is no Go."""
    go = shutil.which("go")
    if go is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="forum-go-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # It has no dependencies, so that nothing is fetched.
    settings = {"GOFLAGS": "-buildvcs=false -mod=mod", "GOPROXY": "off"}
    subprocess.run(
        [go, "build", "-o", folder / "forum-verify", "."],
        cwd=SOURCE,
        env=os.environ | settings,
        check=True,
    )
    return folder / "forum-verify"


def verify_by_go(data: bytes, trust: Any) -> dict[str, Any]:  # noqa: ANN401  of the stand-alone module
    """Verify a bundle with the trust of the stand-alone verifier, and return the report.

    The exit status must be the one that belongs to the report.
    """
    program = go_verifier()
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "--json", *(f"--key={vkey(key)}" for key in trust.keys)]
        command.append(f"--max-bytes={trust.max_bytes}")
        files = {"--policy": [trust.policy.text] if trust.policy else [], "--seen": trust.seen}
        for option, contents in files.items():
            for number, content in enumerate(contents):
                path = Path(folder, f"{option}{number}")
                path.write_bytes(content)
                command += [option, str(path)]
        path = Path(folder, "bundle.zip")
        path.write_bytes(data)
        done = subprocess.run([*command, str(path)], capture_output=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout or "null")
    assert report is not None, done.stderr
    assert done.returncode == (0 if report["ok"] else 3), done.stderr
    return report
