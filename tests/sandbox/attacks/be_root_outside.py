"""Be user 0 of the host, whatever number that has inside: the owner of the system's files."""

import os
import sys
from pathlib import Path

from _tools import succeed

if Path("/usr").stat().st_uid == os.geteuid():
    succeed(f"user 0, as {os.geteuid()}")
sys.exit(f"user {os.geteuid()}")
