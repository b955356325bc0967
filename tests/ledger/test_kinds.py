"""Kinds: a closed set whose facts any reader, in any language, reads alike."""

import re
from enum import Enum
from typing import Any, get_args, get_origin

import msgspec
import pytest

from forum.errors import Malformed
from forum.ledger.entry import Count, Facts
from forum.ledger.kinds import LEDGER_KINDS, KeyAddFacts, Kind, Kinds, NoteFacts
from tests.ledger.samples import members_of

each_kind = pytest.mark.parametrize("kind", list(LEDGER_KINDS), ids=lambda kind: kind.name)


def forbidden(hint: Any) -> list[Any]:  # noqa: ANN401  a type of any form
    """Return what is left of a type without text, counts, enums of text, lists and structs."""
    if hint is str or hint == Count:
        return []
    if get_origin(hint) in (list, tuple):
        return [bad for item in get_args(hint) if item is not ... for bad in forbidden(item)]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [bad for member in members_of(hint).values() for bad in forbidden(member)]
    if isinstance(hint, type) and issubclass(hint, Enum) and issubclass(hint, str):
        return []
    return [hint]


@each_kind
def test_facts_hold_only_what_every_reader_reads_alike(kind: Kind[Any]) -> None:
    """A float, a boolean, a null or an unbounded integer has several forms, or several meanings."""
    assert forbidden(kind.facts) == []


@pytest.mark.parametrize(
    "hint", [int, float, bool, bytes, str | None, dict[str, str], list[float], tuple[int, ...]]
)
def test_the_rule_for_facts_bites(hint: Any) -> None:  # noqa: ANN401  a type of any form
    """A rule that finds nothing wrong with anything would pass above as well."""
    facts = msgspec.defstruct("Bad", [("good", str), ("bad", hint)], bases=(Facts,), frozen=True)

    assert len(forbidden(facts)) == 1


@each_kind
def test_a_kind_is_versioned_and_strict(kind: Kind[Any]) -> None:
    """A released kind never changes: what it does not know is refused, not passed over."""
    config = kind.facts.__struct_config__

    assert re.fullmatch(r"[a-z][a-z.]*/[1-9][0-9]*", kind.name)
    assert config.frozen
    assert config.forbid_unknown_fields
    assert config.omit_defaults


def test_sets_of_kinds_are_put_together() -> None:
    """Each room declares its own, and a reader knows them all."""
    both = Kinds([Kind("a/1", KeyAddFacts)]) | Kinds([Kind("b/1", NoteFacts)])

    assert [kind.name for kind in both] == ["a/1", "b/1"]
    assert both.kind_of(NoteFacts()).name == "b/1"


def test_facts_of_no_kind_are_refused() -> None:
    """Whoever forgot to declare a kind hears of it before anything is written."""
    with pytest.raises(Malformed, match="NoteFacts"):
        Kinds([Kind("a/1", KeyAddFacts)]).kind_of(NoteFacts())
