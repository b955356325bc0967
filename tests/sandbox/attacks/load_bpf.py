"""Load a program into the kernel."""

from _tools import reaches

reaches("bpf", 5, None, 0)
