"""Write to a file of the project that programs may not change, or outside of it."""

import os
import sys

from _tools import succeed, target

for path in ("notes/plain", target()["outside"], "target.json"):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        print(error)
    else:
        succeed(path)
sys.exit("nothing")
