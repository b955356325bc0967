"""See, signal or trace a process of the host."""

import os
import sys
from pathlib import Path

from _tools import succeed, target

mark = target()["process mark"]
for folder in Path("/proc").glob("[0-9]*"):
    try:
        if mark.encode() in (folder / "cmdline").read_bytes():
            succeed(f"process {folder.name}")
    except OSError as error:
        print(error)
try:
    os.kill(target()["process"], 0)
except OSError as error:
    sys.exit(str(error))
succeed("signalled")
