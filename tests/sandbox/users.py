"""Commands as another user of this machine."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

USER = 61234
"""A user that the machine does not know."""
REPOSITORY = Path(__file__).parents[2]


def as_user(*words: str | Path) -> list[str]:
    """Return the command that root runs as an ordinary user."""
    return [
        "bwrap", "--dev-bind", "/", "/", *_open_the_way((sys.prefix, sys.base_prefix, REPOSITORY)),
        "--", "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all",
        "--bounding-set=-all", "--", *map(str, words),
    ]  # fmt: skip


def _open_the_way(paths: Iterable[str | Path]) -> Iterator[str]:
    """Yield mounts that show a user what lies in a folder of root, such as a Python in /root."""
    hidden: set[Path] = set()
    for path in map(Path, paths):
        ways = list(reversed(path.parents))
        closed = next((n for n, folder in enumerate(ways) if not folder.stat().st_mode & 1), None)
        if closed is None:
            continue
        for folder in ways[closed:]:
            if folder not in hidden:
                option = "--tmpfs" if folder == ways[closed] else "--dir"
                yield from ("--perms", "0755", option, str(folder))
                hidden.add(folder)
        yield from ("--ro-bind", str(path), str(path))


def is_root() -> bool:
    """Return whether the tests can run commands as other users."""
    return os.geteuid() == 0
