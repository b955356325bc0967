"""Handle the page faults of the kernel, which makes races in it easy to win."""

from _tools import reaches

reaches("userfaultfd", 1)
