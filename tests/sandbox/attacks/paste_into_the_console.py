"""Paste the selection of a Linux console into its input (CVE-2023-28100)."""

import os

from _tools import reaches

TIOCLINUX = 0x541C
reaches("ioctl", os.open("/dev/null", os.O_RDWR), TIOCLINUX, b"\x03")
