"""Have the kernel look for a key."""

from _tools import reaches

reaches("request_key", b"user\0", b"forum-no-such-key\0", None, 0)
