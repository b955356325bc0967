"""Add a key to a keyring."""

from _tools import reaches

SESSION = -3
reaches("add_key", b"user\0", b"forum-attack\0", b"x", 1, SESSION)
