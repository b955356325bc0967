"""The application: endpoints become routes, ledgers are opened and followed, and let go of."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from forum.surfaces.http.budgets import BUDGETS
from forum.surfaces.http.catalogue import CATALOGUE
from forum.surfaces.http.courier import Courier, couriers_of, telling
from forum.surfaces.http.desk import Desk
from forum.surfaces.http.door import Door, House
from forum.surfaces.http.endpoints import ANYBODY, JSON, Endpoint, Visit
from forum.surfaces.http.health import health
from forum.surfaces.http.keys import KEYS
from forum.surfaces.http.metrics import Metrics
from forum.surfaces.http.openai import OPENAI
from forum.surfaces.http.openapi import document
from forum.surfaces.http.problems import Problem, Refusal, respond
from forum.surfaces.http.records import RECORDS
from forum.surfaces.http.runs import RUNS
from forum.surfaces.http.serving import GUARDED, Answer, serve
from forum.surfaces.http.tlog import TLOG


class Annex(Protocol):
    """What a server offers beside its own API, behind the same door."""

    def endpoints(self, door: Door) -> Sequence[Endpoint]:
        """Return its operations."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep it ready while the server runs."""
        ...


def make_app(house: House, annexes: Sequence[Annex] = ()) -> Starlette:
    """Return the application for a house, with what was built onto it."""
    door, metrics = Door(house), Metrics()
    couriers = [c for desk in house.desks for c in couriers_of(desk.forum, os.environ)]
    by_path: dict[str, dict[str, Answer]] = {}
    for endpoint in (
        *all_endpoints(metrics.exposition, house.desks),
        *(endpoint for annex in annexes for endpoint in annex.endpoints(door)),
    ):
        answer = serve(endpoint, door, metrics, house.most_bytes)
        by_path.setdefault(endpoint.path, {})[endpoint.method] = answer
    app = Starlette(
        routes=[_route(path, by_method) for path, by_method in by_path.items()],
        lifespan=_lifespan(house.desks, door, annexes, couriers),
        exception_handlers={HTTPException: _no_route},
    )
    # It would lead to whatever host the client says that it has asked.
    app.router.redirect_slashes = False
    return app


def all_endpoints(
    exposition: Callable[[Desk], str] = str, desks: Sequence[Desk] = ()
) -> tuple[Endpoint, ...]:
    """Return every operation of a server that has these ledgers."""
    watching = health(exposition, desks)
    declared = (*RUNS, *BUDGETS, *KEYS, *RECORDS, *CATALOGUE, *TLOG, *OPENAI, *watching)
    described = msgspec.json.encode(document(declared))

    async def describe(_visit: Visit) -> Response:
        return Response(described, media_type=JSON)

    return (
        *declared,
        Endpoint("GET", "/openapi.json", "openapi", ANYBODY, "This API as OpenAPI 3.1", describe,
                 reply=JSON, tag="health"),
    )  # fmt: skip


def _route(path: str, by_method: Mapping[str, Answer]) -> Route:
    """Return the one route of a path, so that a 405 names all of its methods."""

    async def answer(request: Request) -> Response:
        # Starlette takes a HEAD for a GET that says less.
        return await by_method["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, answer, methods=list(by_method))


def _lifespan(
    desks: Sequence[Desk], door: Door, annexes: Sequence[Annex], couriers: Sequence[Courier]
) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await _start(stack, desks, door, annexes, couriers)
            except Exception as error:
                app.state.startup_error = error
                raise
            yield

    return lifespan


async def _start(
    stack: AsyncExitStack,
    desks: Sequence[Desk],
    door: Door,
    annexes: Sequence[Annex],
    couriers: Sequence[Courier],
) -> None:
    """Open and follow all ledgers; what has to be ended with the server is put on the stack."""
    loop = asyncio.get_running_loop()
    for desk in desks:
        await asyncio.to_thread(stack.enter_context, desk.hold())
        desk.deltas.attach(loop)
        stack.enter_context(desk.forum.whispers.listen(desk.deltas.hear))
        stack.enter_context(desk.monitor.watching())
        warming = asyncio.to_thread(desk.make_ready)
        for task in (asyncio.create_task(desk.tail.watch()), asyncio.create_task(warming)):
            stack.callback(task.cancel)
        stack.callback(desk.tail.close)
    await stack.enter_async_context(door.denials.kept())
    await stack.enter_async_context(telling(couriers))
    for annex in annexes:
        await stack.enter_async_context(annex.running())


def startup_error_of(app: Starlette) -> Exception | SystemExit:
    """Return why an application did not start."""
    error: Exception | None = getattr(app.state, "startup_error", None)
    # uvicorn would exit with 3, which here is a verdict on a ledger.
    return SystemExit(1) if error is None else error


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    problem = Problem.NO_METHOD if error.status_code == 405 else Problem.NOT_FOUND
    headers = {**GUARDED, **(error.headers or {})}
    return respond(Refusal(problem, headers=headers), request.url.path)
