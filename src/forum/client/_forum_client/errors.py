"""The names of `forum_client.errors`, for a checkout."""

from forum_client.errors import *  # noqa: F403
