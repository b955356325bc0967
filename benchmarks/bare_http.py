"""The least that a durable service can do: `python -m benchmarks.bare_http DATABASE PORT BYTES`.

A handler of bare starlette reads a request, inserts one row into a table like that of our entries,
through a pool of connections, and answers 202 when the row is durable.  The row has as many bytes
as everything that Forum writes for a request.  Without Forum there is no ledger: nothing routes the
request, hashes, signs, or carries it out.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import psycopg
import uvicorn
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

_CONNECTIONS = 8
"""As many as Forum's own store has."""

_TABLE = """
CREATE TABLE IF NOT EXISTS bare_entry (
    log integer, strand bigint, n bigint, bytes bytea, PRIMARY KEY (log, strand, n)
)
"""
_STORED_AS_IT_IS = "ALTER TABLE bare_entry ALTER COLUMN bytes SET STORAGE EXTERNAL"
_INSERT = "INSERT INTO bare_entry VALUES (1, %s, 0, %b)"


def bare_app(database: str, size: int) -> Starlette:
    """Return the service; each process has strands of its own."""
    strands = count(os.getpid() << 32)
    row = os.urandom(size)
    pool = AsyncConnectionPool(
        database,
        min_size=_CONNECTIONS,
        max_size=_CONNECTIONS,
        kwargs={"autocommit": True},
        open=False,
    )

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield

    async def accept(request: Request) -> Response:
        body = await request.json()
        strand = next(strands)
        async with pool.connection() as db:
            await db.execute(_INSERT, (strand, row))
        return JSONResponse({"run": str(strand), "length": len(body["request"])}, 202)

    async def live(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    routes = [Route("/runs", accept, methods=["POST"]), Route("/livez", live)]
    return Starlette(routes=routes, lifespan=life)


def main(database: str, port: str, size: str) -> None:
    """Serve until stopped."""
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(_TABLE)
        db.execute(_STORED_AS_IT_IS)
    uvicorn.run(
        bare_app(database, int(size)),
        host="127.0.0.1",
        port=int(port),
        http="h11",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
