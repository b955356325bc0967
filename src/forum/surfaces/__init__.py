"""The ways in: each parses, makes one call, and prints.  They do not know each other."""

__all__: list[str] = []
