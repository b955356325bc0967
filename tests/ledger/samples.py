"""Entries of every kind, as many as one likes, and one of which every byte is known."""

from enum import Enum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from forum.ledger.entry import Commitment, Entry, Facts
from forum.ledger.kinds import LEDGER_KINDS, Kind

# What it looks like on disk: the vector from which others can write a reader.
SAMPLE = (
    b'{"v":"forum/entry/1","log":"example.com/log","run":"r","strand":"main","n":1,'
    b'"prev":"' + b"ab" * 32 + b'","step":"run/close","ts":1700000000000000,"actor":"system",'
    b'"kind":"run.close/1","parents":["' + b"cd" * 32 + b'"],'
    b'"facts":{"outcome":"ok","strands":1},'
    b'"bodies":{"strands":{"h":"' + b"ef" * 32 + b'","size":99,"type":"application/json"}}}'
)
SAMPLE_LEAF = "a721109a7beea2a7fb955cd9e4b8ba2948048fdee6542c620ce4ff7bcbfdbb64"

# Free text in facts: anything but control characters and lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=40)
counts = st.integers(0, 2**53 - 1)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
labels = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"\\'),
    min_size=1,
    max_size=128,
)
commitments = st.builds(
    Commitment, h=digests, size=counts, type=labels.map(lambda label: label[:64])
)


def members_of(facts: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of the members of facts, or of a struct within them."""
    return get_type_hints(facts, include_extras=True)


def values_of(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401  a type of any form
    """Draw values of a type that facts may have."""
    if get_origin(hint) is Annotated:
        return counts
    if get_origin(hint) is list:
        return st.lists(values_of(get_args(hint)[0]), max_size=3)
    if get_origin(hint) is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=3).map(tuple)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    return texts


def facts_of(kind: Kind[Any]) -> st.SearchStrategy[Facts]:
    """Draw the facts of a kind; a member that has a default may take it."""
    drawn = {name: values_of(hint) for name, hint in members_of(kind.facts).items()}
    return st.builds(kind.facts, **drawn)


@st.composite
def entries(draw: st.DrawFn) -> Entry[Any]:
    """Draw an entry of any registered kind."""
    kind = draw(st.sampled_from(list(LEDGER_KINDS)))
    n = draw(counts)
    names = draw(st.sets(st.sampled_from(sorted(kind.bodies)))) if kind.bodies else set()
    return Entry(
        v="forum/entry/1",
        log=draw(labels),
        run=draw(labels),
        strand=draw(labels),
        n=n,
        prev=draw(digests) if n else "",
        step=draw(labels),
        ts=draw(counts),
        actor=draw(labels),
        kind=kind.name,
        parents=tuple(draw(st.lists(digests, max_size=16, unique=True))),
        facts=draw(facts_of(kind)),
        bodies={name: draw(commitments) for name in sorted(names)},
    )
