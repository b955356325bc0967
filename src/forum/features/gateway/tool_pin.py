"""The list of tools that a server behind the MCP gateway had when it was first used.

A server can change what its tools are said to do after somebody has looked at them, and models obey
descriptions.  So the whole definition of each tool is pinned by its digest.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from forum.errors import Malformed, ToolsChanged
from forum.stores.state_files import make_private_folder, write_durably

_MAX_NAMED = 5
_FOLDER = "mcp-tools"


class ToolList(msgspec.Struct, frozen=True):
    """The tools of a server: the digest of each definition, by name."""

    tools: dict[str, str]

    @property
    def digest(self) -> str:
        """The digest of the whole list."""
        return f"sha256:{_digest(sorted(self.tools.items()))}"

    def describe_change(self, later: "ToolList") -> str:
        """Return how a later list differs; empty if it does not."""
        changed = [n for n, d in later.tools.items() if n in self.tools and d != self.tools[n]]
        parts = {
            "changed": changed,
            "new": sorted(later.tools.keys() - self.tools.keys()),
            "gone": sorted(self.tools.keys() - later.tools.keys()),
        }
        return "; ".join(f"{word}: {_name(names)}" for word, names in parts.items() if names)


def read_tool_list(tools: Iterable[object]) -> ToolList:
    """Return the list of definitions of tools.  Raises `ValueError` if one has no name."""
    digests: dict[str, str] = {}
    for tool in tools:
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str):
            raise ValueError("a tool has no name")  # noqa: TRY004  the form of a message
        if name in digests:
            raise ValueError(f"the tool {name!r} is there twice")
        digests[name] = _digest(tool)
    return ToolList(digests)


class ToolPin:
    """What the list must be: the digest that the user names, or the list of the first use."""

    def __init__(self, path: Path, server: str, wanted: str = "") -> None:
        """Take the file that remembers the list, the server's name, and a digest or nothing."""
        self._path, self._server = path, server
        self._wanted = wanted

    def check(self, tools: ToolList) -> None:
        """Remember the list of a first use.  Raises `ToolsChanged` if it is another one."""
        before = self._read()
        if self._wanted and tools.digest != self._wanted:
            raise ToolsChanged(self._server, f"--pin names {self._wanted}", tools.digest)
        if not self._wanted and before is not None and (how := before.describe_change(tools)):
            raise ToolsChanged(self._server, how, tools.digest)
        if before != tools:
            make_private_folder(self._path.parent)
            write_durably(self._path, msgspec.json.encode(tools))

    def check_part(self, whole: ToolList, part: ToolList) -> None:
        """Raise `ToolsChanged` if a page of the list has tools that the whole list has not."""
        same = ToolList({name: whole.tools[name] for name in part.tools if name in whole.tools})
        if how := same.describe_change(part):
            raise ToolsChanged(self._server, how, part.digest)

    def _read(self) -> ToolList | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ToolList)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, ValueError) as error:
            raise Malformed(str(self._path), f"{error}; remove it to pin the tools anew") from None


def open_tool_pin(state: Path, command: Sequence[str], name: str, wanted: str) -> ToolPin:
    """Return the pin of the tools of the MCP server that a command starts."""
    key = sha256("\0".join(command).encode(errors="replace")).hexdigest()[:32]
    return ToolPin(state / _FOLDER / f"{key}.json", name, wanted)


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _name(names: list[str]) -> str:
    shown = ", ".join(json.dumps(name) for name in names[:_MAX_NAMED])
    return shown if len(names) <= _MAX_NAMED else f"{shown} and {len(names) - _MAX_NAMED} more"
