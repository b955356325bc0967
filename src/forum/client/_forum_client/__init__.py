"""The names of `forum_client`, for a checkout.  A wheel has the package itself in this place.

So `forumd` and `forumd-client` share no file: each can be installed, replaced and removed beside
the other.
"""

from forum_client import *  # noqa: F403
