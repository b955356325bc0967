"""The part of the lock that one requirement needs, still with its hashes.

`requirements/ci.txt` locks everything, tools of developers too, and says of each package which
others wanted it.  So the part that a server needs can be told from that file alone: no index is
asked, and there is no second lock that could say something else.

    python -m deploy.locked 'forumd[all]' > production.txt
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements/ci.txt"

_PIN = re.compile(r"([\w.-]+)==([^\s;]+)(?: ; (.+?))?(?: \\)?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_WANTED_BY = re.compile(r"^ +#(?: via)?(?: +([\w.-]+))?", flags=re.MULTILINE)
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,.-]+)\])?")


@dataclass(frozen=True, slots=True)
class Locked:
    """One package in the one version that the lock allows on some machines, or on all."""

    name: str
    version: str
    marker: str
    """Where it is needed, as PEP 508 says it; nothing means everywhere."""
    hashes: tuple[str, ...]
    wanted_by: frozenset[str]
    text: str
    """The lines of the lock."""


def read_lock(path: Path) -> list[Locked]:
    """Read what a lock holds, in its order."""
    blocks = re.split(r"^(?=[\w-])", path.read_text(), flags=re.MULTILINE)
    return [_read(block) for block in blocks if block and not block.startswith("#")]


def _read(block: str) -> Locked:
    pin = _PIN.fullmatch(block.split("\n", 1)[0])
    if pin is None:
        raise ValueError(f"not a pinned requirement: {block}")
    wanted_by = frozenset(filter(None, _WANTED_BY.findall(block)))
    return Locked(
        pin[1],
        version=pin[2],
        marker=pin[3] or "",
        hashes=tuple(_HASH.findall(block)),
        wanted_by=wanted_by,
        text=block,
    )


def needed_by(requirement: str, lock: Iterable[Locked]) -> list[Locked]:
    """Return what has to be installed for a requirement: Forum, perhaps with extras, or a tool."""
    lock = list(lock)
    names = set(_beginnings(requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())))
    while more := {one.name for one in lock if one.wanted_by & names} - names:
        names |= more
    return [one for one in lock if one.name in names]


def _beginnings(requirement: str, pyproject: dict[str, Any]) -> Iterator[str]:
    """Name the packages that a requirement names; for Forum, those that its project file names."""
    parsed = _REQUIREMENT.match(requirement)
    if parsed is None:
        raise ValueError(f"not a requirement: {requirement}")
    project = pyproject["project"]
    if parsed[1] != project["name"]:
        yield parsed[1]
        return
    wanted = list(project["dependencies"])
    for extra in filter(None, (parsed[2] or "").split(",")):
        wanted += project["optional-dependencies"][extra]
    for one in wanted:
        yield from _beginnings(one, pyproject)


if __name__ == "__main__":
    sys.stdout.writelines(one.text for one in needed_by(sys.argv[1], read_lock(LOCK)))
