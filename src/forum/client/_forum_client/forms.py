"""The names of `forum_client.forms`, for a checkout."""

from forum_client.forms import *  # noqa: F403
