"""The glossary, and links to it from where a page first uses one of its terms.

The links are made when the site is built: a page that is written later has them, too, and the
Markdown stays readable.
"""

import html
import re
from typing import NamedTuple

from tests.docs.pages import ROOT

GLOSSARY = ROOT / "docs/glossary.md"
MAX_TERMS = 60
LINKING = ("docs/guides/", "docs/concepts/")

_TERM = re.compile(r"^\*\*(.+?)\.\*\* (.+)$", re.MULTILINE)
_BUILT_TERM = re.compile(r"<p><strong>(.+?)\.</strong>")
# Words that are verbs or adjectives as well: only "a run" and "the run" are the noun.
_AMBIGUOUS = frozenset(
    {"budget", "cap", "claim", "fork", "gate", "hold", "kind", "log",
     "plan", "position", "replay", "run", "score", "seat", "witness"}
)  # fmt: skip
_CLAIMS = frozenset({"Intact", "Complete", "Independent"})
"""Adjectives that are terms where they are written with a capital letter."""
_DETERMINER = r"\b(?:[Aa]n?|[Tt]he|[Tt]his|[Ee]ach|[Ee]very|[Ii]ts|[Yy]our|[Aa]nother|[Oo]ne) "
_ARTICLE = re.compile(r"(<article\b.*?</article>)", re.DOTALL)
_TOKEN = re.compile(r"(<[^>]*>)")
_TAG_NAME = re.compile(r"</?([a-z0-9]+)")
# Cells are dense, and their words are often those of others.
_LITERAL = frozenset({"a", "code", "pre", "button", "td", "th", *(f"h{n}" for n in range(1, 7))})


class Term(NamedTuple):
    """A term and its definition, as plain text."""

    name: str
    definition: str

    @property
    def anchor(self) -> str:
        """The id of the term in the built page."""
        return self.name.lower().replace(" ", "-")

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of its uses, singular or plural; the group is what is linked."""
        if self.name in _CLAIMS:
            return re.compile(rf"\b({self.name})\b")
        word = self.name.lower()
        plural = re.sub("y$", "ie", word) + ("e?s" if not word.endswith("s") else "")
        forms = rf"(?i:{re.escape(word)}|{plural})"
        before = _DETERMINER if word in _AMBIGUOUS else r"\b"
        return re.compile(rf"{before}({forms})\b(?!-)")


def read_terms() -> list[Term]:
    """Return the terms of the glossary."""
    plain = re.compile(r"[*`]|\[|\]\([^)]*\)")
    return [Term(name, plain.sub("", text)) for name, text in _TERM.findall(GLOSSARY.read_text())]


def add_anchors(page: str) -> str:
    """Return the built glossary, in which each term can be linked to."""
    return _BUILT_TERM.sub(
        lambda match: f'<p id="{Term(match[1], "").anchor}"><strong>{match[1]}.</strong>', page
    )


def link_terms(page: str, address: str) -> str:
    """Return a built page in which the first use of each term leads to the glossary."""
    before, article, after = _ARTICLE.split(page, maxsplit=1)
    open_terms = read_terms()
    literal = 0
    tokens = _TOKEN.split(article)
    for number, token in enumerate(tokens):
        if token.startswith("<"):
            name = _TAG_NAME.match(token)
            if name and name[1] in _LITERAL:
                literal += -1 if token.startswith("</") else 1
        elif not literal:
            tokens[number] = _link_in_text(token, open_terms, address)
    return before + "".join(tokens) + after


def _link_in_text(text: str, open_terms: list[Term], address: str) -> str:
    """Return a text with links, and remove what is linked from the open terms."""
    found = [(match, term) for term in open_terms if (match := term.pattern.search(text))]
    # Of terms that overlap, as "checkpoint" and "log", the first and the longer one is linked.
    found.sort(key=lambda item: (item[0].start(1), -len(item[1].name)))
    parts, end = [], 0
    for match, term in found:
        if match.start(1) < end:
            continue
        title = html.escape(term.definition)
        parts.append(text[end : match.start(1)])
        parts.append(
            f'<a class="term" href="{address}#{term.anchor}" title="{title}">{match[1]}</a>'
        )
        end = match.end(1)
        open_terms.remove(term)
    return "".join(parts) + text[end:]
