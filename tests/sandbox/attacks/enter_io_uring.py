"""Submit calls to a ring."""

from _tools import reaches

reaches("io_uring_enter", -1, 0, 0, 0, None, 0)
