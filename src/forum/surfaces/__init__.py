"""The entry points: each parses a request, makes one call, and formats the result.

The command line starts the others; HTTP and MCP do not depend on each other.
"""

__all__: list[str] = []
