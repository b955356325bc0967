"""Read the tables of words, and find claims with them."""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from forum.features.claims import rules
from forum.features.claims.grammar import Grammar, build_grammar
from forum.features.claims.words import WordTable
from forum.runs.claims import ActionClaim, Receipt


def find_claims(text: bytes, receipts: Sequence[Receipt]) -> tuple[ActionClaim, ...]:
    """Return the claims in a text, each with the entry that supports it, if there is one."""
    return rules.find_claims(text, receipts, load_grammar())


@cache
def load_grammar() -> Grammar:
    """Read the tables that are shipped with Forum, at first use: few commands search for claims."""
    text = (files("forum.features.claims") / "words.toml").read_text("utf-8")
    # Not by msgspec: it must not inspect a type for the first time in two threads at once.
    tables = tomllib.loads(text)
    return build_grammar({code: WordTable(**table) for code, table in tables.items()})
