"""Make a ring through which the kernel takes calls that no filter sees."""

from _tools import reaches

reaches("io_uring_setup", 0, None)
