"""Make a socket to the host of a virtual machine (AF_VSOCK), which no network namespace holds."""

import sys

from _tools import NOT_HERE, call, succeed

AF_VSOCK, SOCK_STREAM = 40, 1
EAFNOSUPPORT = 97
try:
    call("socket", AF_VSOCK, SOCK_STREAM, 0)
except OSError as error:
    sys.exit(NOT_HERE if error.errno == EAFNOSUPPORT else str(error))
succeed("a socket")
