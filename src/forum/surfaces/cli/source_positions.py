"""Positions of the values in a TOML or JSON file, which the standard parsers do not report.

The text was parsed before, so it is well-formed. A value that this scanner does not understand has
no position of its own, and takes that of its nearest parent.
"""

import re

Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'  # a multi-line string may end in up to five quotes
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
_WORD = re.compile(r"[^,\]}\n#]+")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")


class SourcePositions:
    """The line and column of every key and every element of an array."""

    def __init__(self, text: str, *, is_json: bool) -> None:
        self._text, self._separator = text, ":" if is_json else "="
        self._blank = _BLANK
        self._positions: dict[Path, int] = {(): 0}
        self._last: dict[Path, int] = {}
        """Index of the last element of each array of tables."""
        if is_json:
            self._blank = re.compile(r"\s*")
            self._value(self._skip(0), ())
        else:
            self._document()

    def find(self, path: Path) -> tuple[int, int]:
        """Return line and column of a value, or of its nearest parent that has a position."""
        while path not in self._positions:
            path = path[:-1]
        at = self._positions[path]
        return self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)

    def _skip(self, at: int) -> int:
        """Return the next offset after whitespace and comments."""
        match = self._blank.match(self._text, at)
        return match.end() if match else at

    def _document(self) -> None:
        """Scan a TOML file: tables, arrays of tables, and their pairs."""
        at = self._skip(0)
        table: Path = ()
        while at < len(self._text):
            if self._text[at] == "[":
                at, table = self._header(at)
            else:
                at = self._pair(at, table)
            at = self._skip(at)

    def _header(self, at: int) -> tuple[int, Path]:
        many = self._text.startswith("[[", at)
        end, keys = self._keys(at + 2 if many else at + 1)
        *parents, last = keys
        for number in range(1, len(keys)):
            self._positions.setdefault(self._resolve(keys[:number]), at)
        table = self._resolve(parents)
        if many:
            number = self._last.get((*table, last), -1) + 1
            self._last[*table, last] = number
            self._positions.setdefault((*table, last), at)
            table = (*table, last, number)
        else:
            table = (*table, last)
        self._positions.setdefault(table, at)
        return end + (2 if many else 1), table

    def _resolve(self, keys: list[str]) -> Path:
        """Return the path of a table; within an array of tables, that of its last element."""
        table: Path = ()
        for key in keys:
            table = (*table, key)
            if table in self._last:
                table = (*table, self._last[table])
        return table

    def _keys(self, at: int) -> tuple[int, list[str]]:
        """Scan dotted keys; return the offset after them, and the keys."""
        keys: list[str] = []
        while True:
            at = self._skip(at)
            string = _STRING.match(self._text, at)
            match = string or _BARE.match(self._text, at)
            if match is None:
                return at, keys or [""]
            keys.append(match[0][1:-1] if string else match[0])
            at = self._skip(match.end())
            if self._text[at : at + 1] != ".":
                return at, keys
            at += 1

    def _pair(self, at: int, table: Path) -> int:
        """Scan a key and its value; return the offset after them."""
        end, keys = self._keys(at)
        path = table
        for key in keys:
            path = (*path, key)
            self._positions.setdefault(path, at)
        if self._text[end : end + 1] != self._separator:
            # Always advance, so that text that is not understood cannot stop the scan.
            return max(end, at + 1)
        return self._value(self._skip(end + 1), path)

    def _value(self, at: int, path: Path) -> int:
        opening = self._text[at : at + 1]
        if opening == "[":
            return self._elements(at + 1, path, "]")
        if opening == "{":
            return self._elements(at + 1, path, "}")
        match = _STRING.match(self._text, at) or _WORD.match(self._text, at)
        return match.end() if match else at + 1

    def _elements(self, at: int, path: Path, closing: str) -> int:
        """Scan the elements of an array or the pairs of an object; return the offset after it."""
        number, at = 0, self._skip(at)
        while at < len(self._text) and self._text[at] != closing:
            if closing == "]":
                self._positions.setdefault((*path, number), at)
                at = self._value(at, (*path, number))
            else:
                at = self._pair(at, path)
            number, at = number + 1, self._skip(at)
            if self._text[at : at + 1] == ",":
                at = self._skip(at + 1)
        return at + 1


def format_path(path: Path) -> str:
    """Return a path in dotted notation."""
    dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return dotted.removeprefix(".")
