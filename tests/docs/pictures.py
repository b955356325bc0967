"""Take the pictures of the documentation, in docs/images: `just pictures`.

    python -m tests.docs.pictures

A new ledger gets the sample runs of `forum demo --open` and the run of the five-minute page, and is
served; the browser signs in and pins its keys.  It needs Chromium, and Node with the tools of web/.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from time import monotonic, sleep

from forum.app import Forum
from forum.config import load_settings
from forum.features.demo.sample_runs import build_sample_requests
from tests.docs.pages import ROOT
from tests.support import free_port
from tests.surfaces.terminal import FORUM, Terminal

IMAGES = ROOT / "docs/images"
_SCRIPT = ROOT / "web/test/browser/pictures.mjs"
_MAX_SECONDS = 120


def take_pictures(folder: Path) -> None:
    """Make the runs, serve them, and take a picture of some."""
    terminal = Terminal(folder)
    terminal.type("init")
    # As the page has it: the run is named by its command, which is to name no path of a machine.
    terminal.environment["PATH"] = f"{FORUM.parent}:{terminal.environment['PATH']}"
    agent = ["forum", "run", "--max-usd", "0.02", "--", "forum", "demo", "agent"]
    ended = terminal.type("demo", "provider", *agent)
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        recorded = forum.reads.find_run(re.findall(r"^run (\S+)$", ended.stderr, re.MULTILINE)[0])
        requests = build_sample_requests()
        submitted = {name: forum.runs.submit(requests[name]) for name in ("council", "gate")}
    policy = folder / "policy"
    policy.write_text(terminal.type("ledger", "policy").stdout)
    port = free_port()
    environment = terminal.environment | {"FORUM_URL": f"http://127.0.0.1:{port}"}
    argv = [str(FORUM), "up", "--port", str(port)]
    with subprocess.Popen(argv, cwd=terminal.folder, env=environment) as server:
        try:
            deadline = monotonic() + _MAX_SECONDS
            while "waiting" not in terminal.type("runs").stdout:
                assert monotonic() < deadline
                sleep(1)
            key = terminal.type("token").stdout.strip()
            pictures = [
                f"dashboard-run={submitted['gate']}=1060",
                f"dashboard-council={submitted['council']}=1060",
                f"dashboard-recorded={recorded}=1640",
            ]
            subprocess.run(
                ["node", _SCRIPT, IMAGES, policy, *pictures],
                env=os.environ | environment | {"FORUM_KEY": key},
                check=True,
            )
        finally:
            server.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        take_pictures(Path(scratch))
