"""The forms of requests and replies: those of `forum_client`."""

from forum_client.forms import *  # noqa: F403
