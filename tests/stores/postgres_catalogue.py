"""Writes what the migrations make of a Postgres database, in each state that an upgrade leaves.

Run `python -m tests.stores.postgres_catalogue URL` after a migration was added; the database of
the address is only used to make others beside it.
"""

import sys
from pathlib import Path
from unittest.mock import patch

import msgspec

from forum.stores import catalogue, postgres_schema, sql_migrations
from forum.stores.postgres_sessions import Purpose, connect
from tests.soak.cluster import scratch_database

PATH = Path(catalogue.__file__).parent / "sql/postgres/catalogue.json"


def generate_catalogue(url: str) -> bytes:
    """Return the recorded catalogue, made anew: each object with the forms that it may have."""
    posts = [m.number for m in sql_migrations.load_migrations("postgres") if not m.is_additive]
    states = [
        _read_state(url, partitioned=partitioned, last_post=last)
        for partitioned in (False, True)
        for last in (0, *posts)
    ]
    names = sorted({name for state in states for name in state})
    forms = {name: {tuple(sorted(state.get(name, ()))) for state in states} for name in names}
    text = msgspec.json.encode({name: sorted(lines) for name, lines in forms.items()})
    return msgspec.json.format(text, indent=1) + b"\n"


def _read_state(url: str, *, partitioned: bool, last_post: int) -> catalogue.Catalogue:
    """Return the catalogue of a new database, with the later migrations up to one of them."""
    first = postgres_schema._PARTITION_MIGRATION if partitioned else 0  # noqa: SLF001  as an old release
    migrations = [
        migration
        for migration in sql_migrations.load_migrations("postgres")
        if migration.is_additive or migration.number <= last_post
    ]
    with (
        scratch_database(url) as place,
        patch.object(postgres_schema, "_PARTITION_MIGRATION", first),
        patch.object(sql_migrations, "load_migrations", lambda _: migrations),
    ):
        postgres_schema.upgrade_schema(place, post=True)
        with connect(place, Purpose.LONG) as db:
            return postgres_schema.read_catalogue(db)


if __name__ == "__main__":
    PATH.write_bytes(generate_catalogue(sys.argv[1]))
