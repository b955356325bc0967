"""Run every attack in a process of its own, inside of the sandbox, and write down how it ended."""

import json
import subprocess
import sys
from pathlib import Path

results = {}
for file in sorted(Path("attacks").glob("[a-z]*.py")):
    done = subprocess.run(
        [sys.executable, str(file)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    results[file.stem] = (done.returncode, done.stdout[-2000:])
Path("work/results").write_text(json.dumps(results))
