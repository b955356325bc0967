"""Arguments for bubblewrap that show folders without the secrets in them.

A mount that covers a secret does not last: when the host renames another file onto the path, the
kernel detaches the mount in every other mount namespace, and the program inside sees the new file.
The same holds for a folder that is moved away and made again.  So nothing is covered.  A folder
that leads to a secret is rebuilt: an empty file system of the sandbox's own, into which the other
entries of the folder are bound one by one.  What appears under the name of the secret on the host,
or beside it, never appears inside.

A rebuilt folder is read-only, also where programs may write.  A program can change the entries that
are bound there, but it cannot rename, replace or add one: what leads to a secret stays in place.

Secrets that are not of Forum, such as a file with variables, are covered nevertheless where their
folder need not be rebuilt: a program that works beside one must be able to make files there.  The
folders that lead to a covered file are pinned: a program that renamed one while another program is
started could keep that one from covering the file.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from forum.errors import NotConfined
from forum.models.secret_paths import FoundSecret

MAX_ENTRIES = 1000
"""Maximum number of entries in rebuilt folders: each is a mount, and each mount takes time."""
_MAX_LINKS = 40  # the kernel's own limit


class SecretFilter:
    """Knows which paths are secret, and binds folders without them."""

    def __init__(
        self, secrets: Iterable[Path], empty: Path, covered: Iterable[FoundSecret] = ()
    ) -> None:
        """Take the paths of secrets, an empty file that replaces them, and files to be covered."""
        self._empty, self._covered = empty, {secret.path: secret for secret in covered}
        self._hidden: set[Path] = set()
        self._rebuilt: set[Path] = set()
        self._entries = 0
        for secret in secrets:
            places = trace(secret)
            self._hidden.add(places[-1])
            # Folders of symbolic links on the path as well: a program that replaced a link would
            # lead Forum to another file, and the old one would no longer be known as a secret.
            self._rebuilt.update(parent for place in places for parent in place.parents)

    def hides(self, path: Path) -> bool:
        """Return whether a path without symbolic links is a secret or inside one."""
        places = (path, *path.parents)
        return any(place in self._hidden or self._is_copy(place) for place in places)

    def holds(self, path: Path) -> bool:
        """Return whether no program can rename or replace the entries of a folder."""
        return path in self._rebuilt

    def cover(self, writable: Collection[Path]) -> Iterator[str]:
        """Yield the arguments of `sandbox_start` that cover files, before anything is bound.

        No program can move what leads to one: folders below those of `writable` are pinned.
        """
        paths = [p for p in self._covered if p.parent not in self._rebuilt and not self.hides(p)]
        if not paths:
            return
        pinned = {
            folder
            for path in paths
            for folder in path.parents
            if any(folder != top and folder.is_relative_to(top) for top in writable)
        }
        for folder in sorted(pinned - self._rebuilt):
            yield from ("--pin", str(folder))
        yield from ("--empty", str(self._empty))
        for path in sorted(paths):
            secret = self._covered[path]
            yield from ("--cover", f"{secret.device},{secret.number},{path}")

    def bind(self, how: str, source: Path, target: Path) -> Iterator[str]:
        """Yield the arguments that show a file or folder, bound with `--bind` or `--ro-bind`.

        Raises `NotConfined` if a folder that must be rebuilt has too many entries.
        """
        if self.hides(source):
            return
        if source in self._rebuilt and source.is_dir():
            yield from ("--tmpfs", str(target))
            yield from self._rebuild(how, source, target)
            yield from ("--remount-ro", str(target))
        else:
            yield from (how, str(source), str(target))

    def _rebuild(self, how: str, source: Path, target: Path) -> Iterator[str]:
        with os.scandir(source) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
        self._entries += len(entries)
        if self._entries > MAX_ENTRIES:
            why = f"{source} leads to a secret, and has too many entries to show them one by one"
            raise NotConfined(why, f"leave at most {MAX_ENTRIES} there, or move the secret away")
        for entry in entries:
            path, place = source / entry.name, str(target / entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if path in self._hidden or path in self._covered or self._is_copy(path):
                # Only the name stays visible, so that programs
                # that search for a project find this one.
                yield from ("--dir", place) if is_folder else ("--ro-bind", str(self._empty), place)
            elif entry.is_symlink():
                # Binding a link would show its target, wherever that is.
                yield from ("--symlink", str(path.readlink()), place)
            elif path in self._rebuilt and is_folder:
                yield from ("--dir", place)
                yield from self._rebuild(how, path, target / entry.name)
            else:
                # The file may vanish before bubblewrap binds it, like an editor's temporary file.
                yield from (f"{how}-try", str(path), place)

    def _is_copy(self, path: Path) -> bool:
        """Return whether a file is named like a draft or an old version of a secret beside it.

        `log.key` is kept as `log.key.rotated-…` and `log.1`, editors write `.forum.toml.swp`.
        """
        names = (path.name, path.name.lstrip(".#"))
        return any(
            _is_version(name, secret)
            for secret in self._hidden
            if secret.parent == path.parent
            for name in names
        )


def _is_version(name: str, secret: Path) -> bool:
    rest = name.removeprefix(secret.name)
    stem, _, number = name.rpartition(".")
    is_longer = rest != name and not rest[:1].isalnum()
    return is_longer or (stem == secret.stem and number.isdecimal())


def trace(path: Path) -> tuple[Path, ...]:
    """Return the paths of the symbolic links on the way to a file, then the file's own path."""
    links: list[Path] = []
    here, pending = Path("/"), list(reversed(Path(os.path.abspath(path)).parts[1:]))  # noqa: PTH100  `resolve` would follow links
    while pending:
        part = pending.pop()
        if part == "..":
            here = here.parent
            continue
        place = here / part
        if not place.is_symlink() or len(links) == _MAX_LINKS:
            here = place
            continue
        links.append(place)
        target = place.readlink()
        here = Path("/") if target.is_absolute() else here
        pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return (*links, here)
