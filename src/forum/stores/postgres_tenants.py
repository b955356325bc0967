"""A Postgres role for each tenant, which sees and changes the rows of its own log alone.

Every table with a column `log` has the same policy: a role that `forum.tenant` lists has the rows
of its log, and any other role has what it was granted.  The owner of the tables and superusers pass
policies over: they are the operator.  Policies are made after each upgrade for every table that
lacks one, so a later migration need not name them.
"""

import secrets
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

from forum import errors
from forum.stores.postgres_connections import Connection, translate_errors
from forum.stores.postgres_sessions import QUERIES, Purpose, check_database_url, connect

_SCHEMA = "forum"
_MAX_ROLE_BYTES = 63
_POLICY = sql.SQL(
    "CREATE POLICY tenant ON {} USING (log = coalesce("
    "(SELECT own.log FROM forum.tenant AS own WHERE own.role = current_user), log))"
)
_ADD_TENANT = sql.SQL(
    "INSERT INTO forum.tenant (log, role) VALUES ({}, {}) ON CONFLICT (log) DO NOTHING"
)
_OWN_PARAMETERS = frozenset(
    {"user", "password", "host", "port", "dbname", "passfile", "service", "options"}
    | {"sslcert", "sslkey", "sslpassword"}
)
"""Parameters of a connection that are not handed on to a tenant: another's identity, or given
anew."""


class TenantRole(NamedTuple):
    """The role of a tenant."""

    name: str
    url: str
    """The address of the database for processes of the tenant, with a password."""
    statements: str
    """The SQL that makes the role, for somebody who may; empty if it was made."""


def separate_logs(db: Connection) -> None:
    """Make the policies that tables with a column `log` lack, and give tenants their rights."""
    for table in list_unseparated(db):
        separate_log(db, table)
    grant_to_tenants(db)


def list_unseparated(db: Connection) -> list[str]:
    """Return the tables with a column `log` that lack their policy."""
    return [table for (table,) in db.execute(QUERIES["unseparated"]).fetchall()]


def separate_log(db: Connection, table: str) -> None:
    """Make the policy of a table, in the transaction of the caller."""
    name = sql.Identifier(_SCHEMA, table)
    db.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name))
    db.execute(_POLICY.format(name))


def grant_to_tenants(db: Connection) -> None:
    """Give tenants their rights on all tables."""
    for (role,) in db.execute(QUERIES["tenant_roles"]).fetchall():
        for statement in _list_grants(db, role):
            db.execute(statement)


def make_tenant_role(url: str, origin: str) -> TenantRole:
    """Make the role of a log, or give it a new password; return the tenant's address.

    If this user may not make roles, nothing is changed, and the statements are returned.  Raises
    `NoSuchLog`, and `StoreFailed` if another role has the name.
    """
    check_database_url(url)
    password = secrets.token_urlsafe(24)
    with translate_errors("making a role"), connect(url, Purpose.LONG) as db:
        rows = db.execute(QUERIES["tenant"], {"origin": origin}).fetchall()
        if not rows:
            raise errors.NoSuchLog(origin)
        log, role, database, taken = rows[0]
        name = role or f"forum_{log}_{database}"[:_MAX_ROLE_BYTES]
        if taken and role is None:
            why = f"there is a role {name} that is not of this log"
            raise errors.StoreFailed("making a role", why, f"DROP ROLE {name}, if nobody uses it")
        verb = "ALTER" if role else "CREATE"
        make = (
            f"{verb} ROLE {{}} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD {{}}"
        )
        statements = [
            sql.SQL(make).format(sql.Identifier(name), sql.Literal(password)).as_bytes(db),
            _ADD_TENANT.format(sql.Literal(log), sql.Literal(name)).as_bytes(db),
            *_list_grants(db, name),
        ]
        statements_to_run = ""
        try:
            with db.transaction():
                for statement in statements:
                    db.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            statements_to_run = b"".join(statement + b";\n" for statement in statements).decode()
    return TenantRole(name, _tenant_url(url, name, password), statements_to_run)


def is_same_database(first: str, second: str) -> bool:
    """Return whether two addresses name the same database, whoever connects."""
    return _read_place(first) == _read_place(second)


def _read_place(url: str) -> tuple[str, ...]:
    check_database_url(url)
    given = conninfo_to_dict(url) | {}
    defaults = {
        option.keyword.decode(): (option.val or option.compiled or b"").decode()
        for option in pq.Conninfo.get_defaults()
    }
    place = [str(given.get(key) or defaults.get(key) or "") for key in ("host", "port", "dbname")]
    return (*place, str(given.get("hostaddr") or ""))


def _tenant_url(url: str, role: str, password: str) -> str:
    """Return the address of the same database for a role."""
    host, port, database, _ = _read_place(url)
    given: Mapping[str, object] = conninfo_to_dict(url)
    extra = {key: str(value) for key, value in given.items() if key not in _OWN_PARAMETERS}
    if not host or "/" in host or "," in host or ":" in host:
        extra |= {"host": host, "port": port} if host else {"port": port}
        place = ""
    else:
        place = f"{host}:{port}"
    query = f"?{urlencode(extra)}" if extra else ""
    user = f"{quote(role, safe='')}:{quote(password, safe='')}"
    return f"postgresql://{user}@{place}/{quote(database, safe='')}{query}"


def _list_grants(db: Connection, role: str) -> Iterator[bytes]:
    """Yield the statements that give a role its rights on each table of the schema."""
    name, schema = sql.Identifier(role), sql.Identifier(_SCHEMA)
    # What an earlier release granted may have been more.
    for text in ("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}", "GRANT USAGE ON SCHEMA {} TO {}"):
        yield sql.SQL(text).format(schema, name).as_bytes(db)
    for table, rights in db.execute(QUERIES["tenant_rights"]).fetchall():
        grant = sql.SQL("GRANT {} ON {} TO {}")
        parts = (sql.SQL(rights), sql.Identifier(_SCHEMA, table), name)
        yield grant.format(*parts).as_bytes(db)
