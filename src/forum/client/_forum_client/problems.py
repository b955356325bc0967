"""The names of `forum_client.problems`, for a checkout."""

from forum_client.problems import *  # noqa: F403
