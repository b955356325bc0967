"""The files of SQL: numbered migrations, and named queries.

Each database has numbered migrations, applied once and never edited after their release, and one
file of named queries.
"""

import re
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import NamedTuple

from forum import errors

BASE_SCHEMA_VERSION = 3
"""The schema of release 0.1.0.  Later additive migrations are recorded in a separate table."""


TAGS_MIGRATION = 6
"""The migration that requires a tag on every entry."""

SHARING_MIGRATION: Mapping[str, int] = {"sqlite": 15, "postgres": 18}
"""The migration behind which bodies share bytes; a new database has it from its beginning."""


class Migration(NamedTuple):
    """A numbered SQL script that brings a schema one version forward."""

    number: int
    sql: str
    is_additive: bool
    """Whether processes of the previous release keep working after this migration."""


def load_queries(
    database: str, name: str = "queries", package: str = "forum.stores"
) -> dict[str, str]:
    """Return the SQL text of each query of a database, keyed by query name."""
    text = (files(package) / "sql" / database / f"{name}.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def load_migrations(database: str) -> list[Migration]:
    """Return all migrations of a database in numerical order."""
    folder = files("forum.stores") / "sql" / database / "migrations"
    names = sorted(f.name for f in folder.iterdir() if f.name[:4].isdecimal())
    return [Migration(int(n[:4]), (folder / n).read_text(), "_post_" not in n) for n in names]


def missing_migrations(
    database: str, version: int, applied: Collection[int] = (), *, post: bool = False
) -> list[Migration]:
    """Return the migrations after a version that were not applied.

    With `post`, include those with which processes of the previous release cannot work.  A new
    database, which has version 0, lacks one of those too: no such process has ever used it.  Raises
    `SchemaTooNew` if the version is newer than this release knows.
    """
    migrations = load_migrations(database)
    if version > migrations[-1].number:
        raise errors.SchemaTooNew(version, migrations[-1].number)
    base = min(version, BASE_SCHEMA_VERSION)
    behind = [m for m in migrations if m.number > base and m.number not in applied]
    of_new = set() if version else {SHARING_MIGRATION[database]}
    return [m for m in behind if m.is_additive or post or m.number in of_new]
