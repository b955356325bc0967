"""The schemas of requests and replies."""

from forum.client._forum_client.forms import *  # noqa: F403
