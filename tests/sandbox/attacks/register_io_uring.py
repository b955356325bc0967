"""Register buffers with a ring."""

from _tools import reaches

reaches("io_uring_register", -1, 0, None, 0)
