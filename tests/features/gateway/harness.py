"""A gateway and a local provider in this process, each behind a real socket."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from forum.app import Forum, new_run_id, now
from forum.config import load_settings
from forum.features.gateway.attempts import ModelRoute
from forum.features.gateway.call_plan import PriceBook
from forum.features.gateway.relay import Relay
from forum.features.gateway.relayed_run import RelayedRun, RunLimits
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.run_app import RunGateway
from forum.features.gateway.upstream import ProviderAddress
from forum.ledger.entry import Entry
from forum.ledger.log import Ledger, stored_body
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts
from forum.runs.reported_run import open_reported_run
from tests.features.gateway.provider import LocalProvider

TOKEN = "forum-run-0123456789abcdef"  # noqa: S105  # of the tests
UNLIMITED_RUN = RunLimits()
PROVIDER_KEY = "sk-of-the-provider"


@contextmanager
def serve(app: Any) -> Iterator[tuple[str, asyncio.AbstractEventLoop]]:  # noqa: ANN401  # ASGI
    """Serve an application from a thread, and yield its address and its event loop."""
    config = uvicorn.Config(app, port=0, log_level="error", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        threading.Event().wait(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", loop
    finally:
        server.should_exit = True
        thread.join()
        loop.close()


@dataclass(slots=True)
class Harness:
    """A run with its gateway, its provider and its ledger."""

    client: httpx2.Client
    provider: LocalProvider
    run: RelayedRun
    ledger: Ledger
    loop: asyncio.AbstractEventLoop
    log: Path

    def post(self, path: str, body: dict[str, Any] | bytes, **headers: str) -> httpx2.Response:
        """Send a request as the run's program would."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        shown = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}", **headers}
        return self.client.post(path, content=data, headers=shown)

    def chat(self, text: str = "hi", **members: Any) -> httpx2.Response:  # noqa: ANN401
        """Send a chat request."""
        body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}], **members}
        return self.post("/openai/v1/chat/completions", body)

    def entries(self, kind: str) -> list[Entry[Any]]:
        """Return the run's entries of a kind, once all calls are settled."""
        asyncio.run_coroutine_threadsafe(self.run.drain(5.0), self.loop).result()
        entries = [
            self.ledger.kinds.read(d) for _, d in self.ledger.store.entries_of_run(self.run.run)
        ]
        return [entry for entry in entries if entry.kind == kind]

    def body(self, entry: Entry[Any], name: str) -> bytes:
        """Return the content of a body."""
        stored = stored_body(self.ledger.store, entry, name)
        assert stored is not None
        return b"".join(stored.read())

    def bills(self) -> list[dict[str, Any]]:
        """Return what the provider billed."""
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line for line in lines if line["event"] == "bill"]


@contextmanager
def harness(
    home: Path,
    limits: RunLimits = UNLIMITED_RUN,
    *,
    seed: int | None = None,
    with_key: bool = True,
    free: bool = False,
    routes: Callable[[str], Mapping[str, ModelRoute]] = lambda _: {},
) -> Iterator[Harness]:
    """Open a ledger in a folder, and a gateway to a local provider for one run."""
    home.mkdir(exist_ok=True)
    (home / "forum.toml").touch()
    settings = replace(load_settings(home, {"FORUM_STATE_DIR": str(home / "state")}))
    provider = LocalProvider(home / "provider.log", seed)
    with ExitStack() as stack:
        forum = stack.enter_context(Forum(settings))
        forum.keys.initialise()
        ledger = stack.enter_context(forum.log.open_writer())
        upstream, _ = stack.enter_context(serve(provider))
        addresses = (
            ProviderAddress(
                ApiProvider.OPENAI, f"{upstream}/v1",
                (b"authorization", f"Bearer {PROVIDER_KEY}".encode()) if with_key else None,
                is_free=free,
            ),
            ProviderAddress(
                ApiProvider.ANTHROPIC, upstream,
                (b"x-api-key", PROVIDER_KEY.encode()) if with_key else None,
            ),
            ProviderAddress(
                ApiProvider.GEMINI, upstream,
                (b"x-goog-api-key", PROVIDER_KEY.encode()) if with_key else None,
            ),
            ProviderAddress(
                ApiProvider.AZURE, upstream,
                (b"api-key", PROVIDER_KEY.encode()) if with_key else None,
            ),
        )  # fmt: skip
        relay = Relay(
            addresses, PriceBook({}, {"my-deployment": "gpt-4o-mini"}), now, routes(upstream)
        )
        file = forum.log.open_calls_file()
        stack.callback(file.close)
        name, cap = new_run_id(), limits.cap
        source = ReportSourceFacts(
            told=ReportProvenance.RELAYED, by="test", usd=cap.usd, tokens=cap.tokens,
            calls=cap.calls,
        )  # fmt: skip
        writer = open_reported_run(ledger, name, "test", source)
        run = RelayedRun(writer, limits, file.new_span)
        url, loop = stack.enter_context(serve(RunGateway(relay, run, TOKEN)))
        opened = relay.open()
        asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result()
        stack.callback(
            lambda: asyncio.run_coroutine_threadsafe(
                opened.__aexit__(None, None, None), loop
            ).result()
        )
        client = stack.enter_context(httpx2.Client(base_url=url, timeout=90.0))
        yield Harness(
            client=client, provider=provider, run=run, ledger=ledger, loop=loop,
            log=home / "provider.log",
        )  # fmt: skip
