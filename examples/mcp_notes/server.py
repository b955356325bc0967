"""A notebook for agents: an MCP server over one folder of text files.

    python server.py FOLDER

It lists, reads and writes notes.  A note is a file `NAME.md` in that folder; no name leads out of
it.  A note is written as a whole or not at all, and writing the same twice changes nothing.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

MOST_CHARACTERS = 100_000
# No dot comes first, and no slash at all: neither `..` nor a path is a name.
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class Notebook:
    """Notes in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list_notes(self) -> list[str]:
        """List the names of all notes."""
        paths = (path for path in self._folder.glob("*.md") if not path.is_symlink())
        return sorted(path.stem for path in paths if NAME.fullmatch(path.stem))

    def read_note(self, name: str) -> str:
        """Read the text of a note."""
        path = self._path(name)
        try:
            # A link could lead out of the folder.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, encoding="utf-8") as file:
                text = file.read(MOST_CHARACTERS + 1)
        except FileNotFoundError:
            raise ToolError(f"there is no note {name}; list_notes tells which there are") from None
        except (OSError, UnicodeError):
            raise ToolError(f"the note {name} is not a file with text") from None
        if len(text) > MOST_CHARACTERS:
            raise ToolError(f"the note {name} has more than {MOST_CHARACTERS} characters")
        return text

    def write_note(self, name: str, text: str) -> str:
        """Write a note; the text that it had before is replaced."""
        path = self._path(name)
        if len(text) > MOST_CHARACTERS:
            raise ToolError(f"a note has up to {MOST_CHARACTERS} characters; write two of them")
        descriptor, draft = tempfile.mkstemp(dir=self._folder, prefix=".draft-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return f"The note {name} has {len(text)} characters now."

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ToolError("a name has up to 64 letters, digits and any of _ . -")
        return self._folder / f"{name}.md"


def main() -> None:
    """Serve the notes of a folder over pipes."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python server.py FOLDER (of the notes; it has to be there)")
    notebook = Notebook(Path(sys.argv[1]))
    server = MCPServer("notes", log_level="ERROR")
    server.tool(annotations=READS, structured_output=False)(notebook.list_notes)
    server.tool(annotations=READS, structured_output=False)(notebook.read_note)
    server.tool(annotations=WRITES, structured_output=False)(notebook.write_note)
    server.run("stdio")


if __name__ == "__main__":
    main()
