"""The tool of the team benchmark: `python team_lookup.py TABLE NOTES`, with a name as its input.

It prints `NAME is VALUE.` from the table, which is a JSON object, and so many characters of notes.
"""

import json
import sys
from pathlib import Path


def look_up(table: dict[str, str], name: str, notes: int) -> str:
    """Return what the table says of a name."""
    wanted = _normalize(name)
    keys = next((key for key in table if _normalize(key) == wanted), None)
    if keys is None:
        return f"The table has no entry {name}"
    note = "The clerk copied this line by hand from the sheet of the week before.\n"
    return f"{keys} is {table[keys]}.\n" + (note * (notes // len(note) + 1))[:notes]


def _normalize(name: str) -> str:
    return " ".join(word for word in name.casefold().strip(" .?").split() if word != "the")


def main() -> None:
    """Answer one call."""
    text = sys.stdin.read()
    try:
        name = str(json.loads(text)["name"])
    except (ValueError, KeyError, TypeError):
        name = text
    print(look_up(json.loads(Path(sys.argv[1]).read_text()), name, int(sys.argv[2])))


if __name__ == "__main__":
    main()
