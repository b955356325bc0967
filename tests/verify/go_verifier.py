"""The verifier in Go, built once for all tests of a process."""

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "clients/go"


@cache
def go_verifier() -> Path | None:
    """Return the built program, or None where there is no Go."""
    go = shutil.which("go") if (SOURCE / "go.mod").exists() else None
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
