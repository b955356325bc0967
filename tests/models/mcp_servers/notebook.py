"""A server with state: it numbers the notes that it is given, and writes each to a file.

Usage: python notebook.py FILE
"""

import os
import sys
import time
from pathlib import Path

from mcp.server import MCPServer

server, notes = MCPServer("notebook", log_level="ERROR"), list[str]()


@server.tool(structured_output=False)
def note(text: str) -> str:
    """Keep a note, and return its number; be slow about the note `wait`."""
    notes.append(text)
    with Path(sys.argv[1]).open("a") as file:
        file.write(f"{os.getpid()} {text}\n")
    if text == "wait":
        time.sleep(60)
    return f"note {len(notes)}"


if __name__ == "__main__":
    server.run("stdio")
