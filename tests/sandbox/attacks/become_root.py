"""Become root, or any other user of the namespace."""

import os
import sys
from pathlib import Path

from _tools import succeed

assert sys.platform == "linux"

mine = os.geteuid()
numbers = [line.split()[0] for line in Path("/proc/self/uid_map").read_text().splitlines()]
for number in {0, *map(int, numbers)} - ({mine} if mine else set()):
    try:
        os.setresuid(number, number, number)
    except OSError as error:
        print(error)
    else:
        succeed(f"user {number}")
sys.exit("no other")
