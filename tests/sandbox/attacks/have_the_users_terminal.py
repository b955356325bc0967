"""Hold the terminal of the user: change its modes, or read what is typed after the program."""

import array
import fcntl
import os
import sys

from _tools import NOT_HERE, succeed, target, terminals

TIOCGDEV = 0x80045432
users = target()["terminal"]
if not users:
    sys.exit(NOT_HERE)
for terminal in terminals():
    device = array.array("I", [0])
    fcntl.ioctl(terminal, TIOCGDEV, device)
    number = (device[0] & 0xFF) | (device[0] >> 12 & 0xFFF00)
    if os.major(users) == device[0] >> 8 & 0xFFF and os.minor(users) == number:
        succeed("the terminal of the user")
sys.exit("other terminals")
