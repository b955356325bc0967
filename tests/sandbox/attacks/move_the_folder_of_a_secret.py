"""Move a folder with a secret, so that programs that are started meanwhile cover another file."""

import sys
from pathlib import Path

from _tools import read_any

try:
    moved = Path("work/kept").rename("work/moved")
except OSError as error:
    sys.exit(str(error))
moved.rename("work/kept")
read_any(["work/kept/deep/.env"], "PASSWORD")
