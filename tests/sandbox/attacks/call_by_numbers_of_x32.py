"""Call the kernel by the numbers of x32, for which a filter could mean other calls."""

import errno
import os
import sys

from _tools import NOT_HERE, call, succeed

X32_BIT, GETPID = 0x40000000, 39
if os.uname().machine != "x86_64":
    sys.exit(NOT_HERE)
try:
    call(X32_BIT | GETPID)
except OSError as error:
    sys.exit(NOT_HERE if error.errno == errno.ENOSYS else str(error))
succeed("the kernel answers")
