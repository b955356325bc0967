"""Find the folders for private keys among the certificates of the system."""

import sys
from pathlib import Path

from _tools import NOT_HERE, succeed, target

if not target()["private folders"]:
    sys.exit(NOT_HERE)
for path, identity in target()["private folders"].items():
    # An empty folder of the sandbox may have the name.
    if Path(path).exists() and [Path(path).stat().st_dev, Path(path).stat().st_ino] == identity:
        succeed(f"{path} is there")
sys.exit("none is there")
