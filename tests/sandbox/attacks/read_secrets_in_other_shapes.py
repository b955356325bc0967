"""Read secrets that are large, linked, called otherwise, or inside of other text."""

from pathlib import Path

from _tools import read_any

read_any((path for path in Path("shapes").rglob("*") if path.is_file()), "")
