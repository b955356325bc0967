"""The ways in: each parses, makes one call, and prints.

The command line starts the others; HTTP and MCP do not know each other.
"""

__all__: list[str] = []
