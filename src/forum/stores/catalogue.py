"""Comparison of the catalogue of a database with the one that the migrations make.

A catalogue is what a database consists of: objects (tables, indexes, triggers, policies), each with
properties that are lines of text.  What is expected follows from the migrations alone.  For SQLite
they are applied to an empty database in memory; for Postgres, `sql/postgres/catalogue.json` lists
what they made of an empty database, in each state that an upgrade leaves.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec

from forum.ledger.ports import CatalogueCheck
from forum.stores.sql_migrations import Migration

Catalogue = Mapping[str, frozenset[str]]
"""The properties of each object."""
Forms = Mapping[str, Sequence[frozenset[str]]]
"""The forms that each object may have; an empty form is that of an object that may be missing."""


@cache
def load_postgres_forms() -> Forms:
    """Return the recorded forms of the objects of a Postgres schema."""
    data = (files("forum.stores") / "sql/postgres/catalogue.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, list[frozenset[str]]])


def collect_objects(rows: Iterable[tuple[str, str]]) -> Catalogue:
    """Return a catalogue from pairs of an object and one of its properties."""
    objects: dict[str, set[str]] = {}
    for name, line in rows:
        objects.setdefault(name, set()).add(line)
    return {name: frozenset(lines) for name, lines in objects.items()}


def compare_catalogue(stored: Catalogue, forms: Forms) -> CatalogueCheck:
    """Return a sentence for each object of which the stored form is none of its forms."""
    names = sorted({*stored, *forms})
    nothing: frozenset[str] = frozenset()
    sentences = (
        _describe_difference(name, stored.get(name, nothing), forms.get(name, (nothing,)))
        for name in names
    )
    return CatalogueCheck(tuple(filter(None, sentences)))


def describe_unknown_state(
    migrations: Collection[Migration], applied: Collection[int], *, missing: bool
) -> str:
    """Return why a catalogue cannot be compared; empty if its migrations are those of this release.

    `missing` tells whether migrations are missing that this release needs.
    """
    if newer := sorted({*applied} - {migration.number for migration in migrations}):
        return f"it has migration {newer[-1]} of a newer release; verify it with that release"
    if missing:
        return "it lacks migrations of this release; apply them first: forum db upgrade"
    return ""


def _describe_difference(name: str, stored: frozenset[str], forms: Sequence[frozenset[str]]) -> str:
    if stored in forms:
        return ""
    if not stored:
        return f"{name} is missing"
    form = min(forms, key=lambda form: len(form ^ stored))
    if not form:
        return f"{name} is there, and no migration makes it: {'; '.join(sorted(stored))}"
    parts = [f"has {line}" for line in sorted(stored - form)]
    parts += [f"lacks {line}" for line in sorted(form - stored)]
    return f"{name} {'; '.join(parts)}"
