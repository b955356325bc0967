"""Compares the page of a pack that Forum draws with the one that `verify.html` draws."""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

_COMPARED = ("class", "id", "data-row", "href", "scope", "role", "aria-label", "text-anchor")
_NUMBERS = ("x", "y", "width", "height", "x1", "x2", "y1", "y2")
_VOID = {"br", "meta"}
_CAVEAT = ("The figures below were computed from the entries in the file.", "No figure is shown:")

Token = tuple[str, ...]


class _Tokens(HTMLParser):
    """Reads what stands in the main element: tags with their attributes, and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tokens: list[Token] = []
        self.numbers: list[float] = []
        self.feed(page.partition("<main>")[2].rpartition("</main>")[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.numbers += _read_numbers(given)
        self.tokens.append(_make_tag(tag, given))

    def handle_endtag(self, tag: str) -> None:
        self.tokens.append(("end", tag))

    def handle_data(self, data: str) -> None:
        self.tokens.append(("text", data))


def _read_numbers(attributes: dict[str, str]) -> Iterator[float]:
    return (float(attributes[name]) for name in _NUMBERS if name in attributes)


def _make_tag(tag: str, attributes: dict[str, str]) -> Token:
    compared = [attributes.get(name, "") for name in _COMPARED]
    if tag in ("text", "section"):  # a style of their own, and the color of a verdict
        compared[0] = ""
    return ("begin", tag, *compared)


def _read_tree(node: Any, tokens: list[Token], numbers: list[float]) -> None:  # noqa: ANN401  JSON
    if isinstance(node, str):
        tokens.append(("text", node))
        return
    numbers += _read_numbers(node["attributes"])
    tokens.append(_make_tag(node["tag"], node["attributes"]))
    for child in node["children"]:
        _read_tree(child, tokens, numbers)
    if node["tag"] not in _VOID:
        tokens.append(("end", node["tag"]))


def _join_texts(tokens: list[Token]) -> list[Token]:
    """Return tokens with each run of texts as one, without those that only lay out the source."""
    joined: list[Token] = []
    for token in tokens:
        is_more = token[0] == "text" and joined and joined[-1][0] == "text"
        joined.append(("text", joined.pop()[1] + token[1]) if is_more else token)
    return [token for token in joined if token[0] != "text" or token[1].strip()]


def _split(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """Return the verdict, and the rest."""
    begin = next(at for at, token in enumerate(tokens) if token[:2] == ("begin", "section"))
    end = tokens.index(("end", "section"))
    return tokens[begin:end], tokens[:begin] + tokens[end:]


def _list_cells(verdict: list[Token]) -> dict[str, list[str]]:
    """Return the texts of each row of a verdict."""
    document: dict[str, list[str]] = {}
    row = ""
    for token in verdict:
        if token[:2] == ("begin", "tr"):
            row = token[4]
        elif token == ("end", "tr"):
            row = ""
        elif token[0] == "text" and row:
            document.setdefault(row, []).append(token[1])
    return document


def _list_items(verdict: list[Token]) -> list[str]:
    items, texts = False, []
    for token in verdict:
        if token[1] == "ul":
            items = token[0] == "begin"
        elif token[0] == "text" and items:
            texts.append(token[1])
    return texts


def _compare_row(row: str, cells: list[str]) -> list[str]:
    """Return what both programs say in a row of the verdict."""
    if row == "check Figures":
        return cells[:1]  # `verify.html` lists a changed map under this claim, too
    return cells[:2] if row.startswith("check ") else cells


def check_pages_agree(ours: str, tree: dict[str, Any], *, is_old: bool) -> None:
    """Compare two pages of one pack.

    Outside of the verdict they are the same, element by element.  The verdict is that of each
    program: sentence, states and keys are the same, reasons and what was not checked are its own.
    Of a pack of release 0.2, only Forum checks the enclosed page, so that its sentence is its own.
    """
    page = _Tokens(ours)
    theirs: list[Token] = []
    numbers: list[float] = []
    for child in tree["children"]:
        _read_tree(child, theirs, numbers)
    (our_verdict, our_body), (their_verdict, their_body) = (
        _split(_join_texts(tokens)) for tokens in (page.tokens, theirs)
    )
    assert their_body == our_body
    assert numbers == pytest.approx(page.numbers, abs=0.2)
    texts = [[t[1] for t in verdict if t[0] == "text"] for verdict in (our_verdict, their_verdict)]
    if not is_old:
        assert texts[0][0] == texts[1][0]
        for caveat in _CAVEAT:
            assert len({any(text.startswith(caveat) for text in texts) for texts in texts}) == 1
    cells = [_list_cells(verdict) for verdict in (our_verdict, their_verdict)]
    assert cells[0].keys() == cells[1].keys()
    for row in cells[0]:
        assert _compare_row(row, cells[0][row]) == _compare_row(row, cells[1][row])
    keys = [
        [item for item in _list_items(verdict) if item.startswith(("log ", "witness "))]
        for verdict in (our_verdict, their_verdict)
    ]
    assert keys[0] == keys[1]
    digests = [text[-2] for text in texts]
    assert digests[0] == digests[1]
