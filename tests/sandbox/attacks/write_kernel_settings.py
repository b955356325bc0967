"""Open a setting of the kernel for writing: `core_pattern` names a program that the host runs."""

import os
import sys
from pathlib import Path

from _tools import succeed

opened = []
for top in Path("/proc").iterdir():
    if top.name.isdigit() or top.name in ("self", "thread-self", "net", "mounts"):
        continue
    walk = os.walk(top) if top.is_dir() else [("/proc", [], [top.name])]
    for folder, _, files in walk:
        for name in files:
            path = f"{folder}/{name}"
            if path.startswith("/proc/sys/net/"):  # of the program's own network
                continue
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                opened.append(path)
            except OSError:
                continue
if opened:
    succeed(f"{len(opened)} files, such as {opened[:5]}")
sys.exit("none can be opened")
