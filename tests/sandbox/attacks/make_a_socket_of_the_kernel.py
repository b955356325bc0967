"""Make a socket of a family that programs do not need, such as the kernel's ciphers (AF_ALG)."""

import sys

from _tools import NOT_HERE, call, succeed

SOCK_RAW, SOCK_SEQPACKET = 3, 5
EAFNOSUPPORT = 97
NEEDED = {0, 1, 2, 10, 16}
refused = 0
for family in set(range(46)) - NEEDED:
    for kind in (1, 2, SOCK_RAW, SOCK_SEQPACKET):
        try:
            call("socket", family, kind, 0)
        except OSError as error:
            refused += error.errno == EAFNOSUPPORT
        else:
            succeed(f"a socket of family {family}")
sys.exit(NOT_HERE if refused else "none")
