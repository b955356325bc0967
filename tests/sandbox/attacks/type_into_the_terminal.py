"""Type a command into the terminal, for the shell that reads from it next (CVE-2017-5226)."""

import fcntl
import sys

from _tools import succeed, terminals

TIOCSTI = 0x5412
for terminal in terminals():
    try:
        fcntl.ioctl(terminal, TIOCSTI, b" ")
    except OSError as error:
        print(error)
    else:
        succeed("typed")
sys.exit("typed nothing")
