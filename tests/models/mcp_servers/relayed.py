"""A server for the tests of the gateway: tools, progress, a resource, a prompt, a changing list."""

import sys
from asyncio import sleep, to_thread
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("relayed", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    """Add, with a structured result."""
    return {"sum": a + b}


@server.tool(structured_output=False)
def refuse() -> str:
    """Fail."""
    raise ValueError("not today")


@server.tool(structured_output=False)
async def count(context: Context) -> str:
    """Report progress."""
    for number in range(3):
        await context.report_progress(number, 3, f"step {number}")
    return "counted"


@server.tool(structured_output=False)
async def wait(file: str) -> str:
    """Write a file, and then take long."""
    await to_thread(Path(file).write_text, "begun")
    await sleep(600)
    return "late"


@server.tool(structured_output=False)
def erase(what: str) -> str:
    """Pretend to erase something."""
    Path(sys.argv[1]).write_text(what)
    return f"erased {what}"


@server.resource("note://one")
def note() -> str:
    """Return a text."""
    return "a note"


@server.prompt()
def greet() -> str:
    """Return a prompt."""
    return "Say hello."


if __name__ == "__main__":
    server.run("stdio")
