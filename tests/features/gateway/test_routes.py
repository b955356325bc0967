"""Routes: a model with several upstreams, each attempt bounded, reserved and recorded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forum.config import load_settings
from forum.errors import BadSettings
from forum.features.gateway.attempts import (
    MAX_FAILURES,
    REST_SECONDS,
    CallTarget,
    ModelRoute,
    UpstreamHealth,
)
from forum.features.gateway.call_plan import PriceBook
from forum.features.gateway.relayed_run import RunLimits
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.settings import GatewaySettings, read_gateway_settings
from forum.features.gateway.upstream import ProviderAddress
from tests.features.gateway.harness import TOKEN, Harness, harness
from tests.features.gateway.running import local_provider, read_log
from tests.features.gateway.test_relay import CENT, dollars
from tests.features.gateway.test_server import serve
from tests.surfaces.terminal import Terminal

MODELS = ("gpt-4o-mini", "gpt-4.1-mini", "gpt-4.1-nano")


def make_routes(url: str, models: tuple[str, ...] = MODELS[:2]) -> Mapping[str, ModelRoute]:
    """Return a route by the name `fast`, with an upstream for each model."""
    targets = tuple(
        CallTarget(
            ProviderAddress(
                ApiProvider.OPENAI, f"{url}/v1",
                (b"authorization", f"Bearer sk-of-upstream-{number}".encode()),
                upstream=f"upstream-{number}",
            ),
            PriceBook({}),
            model,
        )
        for number, model in enumerate(models)
    )  # fmt: skip
    return {"fast": ModelRoute(ApiProvider.OPENAI, targets, first_byte_s=0.5)}


def ask(gateway: Harness, **members: Any) -> Any:  # noqa: ANN401
    """Send a request to the route."""
    return gateway.chat(**{"model": "fast", "max_tokens": 50, **members})


def steps_of(gateway: Harness) -> list[Any]:
    """Return the outcomes of the attempts, in their order."""
    return [entry.facts for entry in in_order(gateway.entries("report.step/1"))]


def in_order(entries: list[Any]) -> list[Any]:
    """Return the entries of attempts, in their order; a refused one is the last."""
    return sorted(entries, key=lambda entry: [*MODELS, "fast"].index(entry.facts.model))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fate", "outcome", "code", "is_charged"),
    [
        ("429", "failed", "http-429", False),
        ("500", "failed", "http-500", False),
        ("529", "failed", "http-529", False),
        ("502", "failed", "http-502", True),
        ("hang", "timeout", "timeout", True),
        ("cut", "failed", "cut", True),
    ],
)
def test_the_next_upstream_answers(
    tmp_path: Path, fate: str, outcome: str, code: str, *, is_charged: bool, stream: bool
) -> None:
    """The client sees one reply; the record has two calls, each with its own reservation."""
    with harness(tmp_path, dollars(CENT), routes=make_routes) as gateway:
        gateway.provider.fates = {MODELS[0]: fate}
        reply = ask(gateway, stream=stream)

        assert reply.status_code == 200, reply.text
        assert MODELS[1] in reply.text
        first, second = in_order(gateway.entries("report.begin/1"))
        assert [first.facts.model, second.facts.model] == list(MODELS[:2])
        assert [first.facts.provider, second.facts.provider] == ["upstream-0", "upstream-1"]
        assert first.facts.span != second.facts.span
        assert "model" in first.facts.altered
        failed, ended = steps_of(gateway)
        assert (failed.outcome, failed.code) == (outcome, code)
        assert failed.usd == (first.facts.usd if is_charged else 0)
        assert ended.outcome == "ok"
        assert 0 < ended.usd < second.facts.usd
        sent = gateway.provider.requests
        assert [json.loads(each["body"])["model"] for each in sent] == list(MODELS[:2])
        assert [each["headers"]["authorization"] for each in sent] == [
            "Bearer sk-of-upstream-0", "Bearer sk-of-upstream-1"
        ]  # fmt: skip


def test_the_last_failure_is_passed_on(tmp_path: Path) -> None:
    """As the upstream has it."""
    with harness(tmp_path, routes=make_routes) as gateway:
        gateway.provider.fates = {MODELS[0]: "cut", MODELS[1]: "429"}
        reply = ask(gateway)
        assert reply.status_code == 429
        assert [step.code for step in steps_of(gateway)] == ["cut", "http-429"]


def test_a_fallback_does_not_pass_the_cap(tmp_path: Path) -> None:
    """What the first attempt may have cost stays reserved, and the second one does not fit."""
    with harness(tmp_path / "probe", dollars(CENT), routes=make_routes) as gateway:
        ask(gateway)
        bound = gateway.entries("report.begin/1")[0].facts.usd
    with harness(tmp_path / "capped", dollars(2 * bound), routes=make_routes) as gateway:
        gateway.provider.fates = {MODELS[0]: "cut"}
        reply = ask(gateway)
        assert reply.status_code == 402
        assert len(gateway.provider.requests) == 1
        lost, refused = steps_of(gateway)
        assert (lost.usd, refused.outcome) == (bound, "denied")
        assert gateway.run.counters.usd == bound


@pytest.mark.parametrize("fate", ["400", "401", "404"])
def test_an_error_of_the_request_is_passed_on(tmp_path: Path, fate: str) -> None:
    """Another upstream would say the same."""
    with harness(tmp_path, routes=make_routes) as gateway:
        gateway.provider.fates = {MODELS[0]: fate}
        assert ask(gateway).status_code == int(fate)
        assert len(gateway.provider.requests) == 1


def test_a_stream_that_has_begun_is_not_tried_again(tmp_path: Path) -> None:
    """The client has a part of it."""
    with harness(tmp_path, routes=make_routes) as gateway:
        gateway.provider.always_cut = True
        with pytest.raises(Exception, match=r"peer closed|incomplete"):
            ask(gateway, stream=True)
        (step,) = steps_of(gateway)
        assert step.code == "cut"


def test_other_models_go_where_they_went(tmp_path: Path) -> None:
    """A route is for its name only, and for its API only."""
    with harness(tmp_path, routes=make_routes) as gateway:
        gateway.provider.fates = {MODELS[0]: "429"}
        assert gateway.chat(model=MODELS[0]).status_code == 429
        body = {"model": "fast", "max_tokens": 5, "messages": []}
        gateway.post("/anthropic/v1/messages", body, **{"x-api-key": TOKEN})
        providers = [entry.facts.provider for entry in gateway.entries("report.step/1")]
        assert sorted(providers) == ["anthropic", "openai"]


def test_tokens_are_counted_where_the_calls_are_made(tmp_path: Path) -> None:
    """A prompt for a route is seen by no other provider."""
    with harness(tmp_path, dollars(CENT), routes=make_routes) as gateway:
        body = {"model": "fast", "input": "a secret"}
        gateway.post("/openai/v1/responses/input_tokens", body)
        (sent,) = gateway.provider.requests
        (step,) = gateway.entries("report.step/1")
    assert sent["headers"]["authorization"] == "Bearer sk-of-upstream-0"
    assert json.loads(sent["body"])["model"] == MODELS[0]
    assert step.facts.provider == "upstream-0"


def test_an_upstream_that_fails_is_passed_over(tmp_path: Path) -> None:
    """Its failures cost no further attempts, until it has rested."""
    with harness(tmp_path, routes=make_routes) as gateway:
        gateway.provider.fates = {MODELS[0]: "500"}
        for _ in range(MAX_FAILURES + 2):
            assert ask(gateway).status_code == 200
        sent = [json.loads(each["body"])["model"] for each in gateway.provider.requests]
        assert sent.count(MODELS[0]) == MAX_FAILURES
        assert sent.count(MODELS[1]) == MAX_FAILURES + 2


def test_one_call_tries_an_upstream_that_has_rested() -> None:
    """The others wait for what becomes of it."""
    now = [0.0]
    health = UpstreamHealth(lambda: now[0])
    (route,) = make_routes("http://x").values()
    both, second = route.targets, route.targets[1:]
    for _ in range(MAX_FAILURES):
        assert health.order(both) == both
        health.begin("upstream-0")
        health.end("upstream-0", failed=True)
    assert health.order(both) == second
    assert health.order(both[:1]) == both[:1], "the only one is called all the same"
    for failed in (True, None, False):
        now[0] += REST_SECONDS
        assert health.order(both) == both
        health.begin("upstream-0")
        assert health.order(both) == second
        health.end("upstream-0", failed=failed)
        assert (health.order(both) == both) is (failed is not True)


def read(tmp_path: Path, text: str, **environ: str) -> GatewaySettings:
    """Read the settings of a project."""
    (tmp_path / "forum.toml").write_text(text)
    settings = load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "state")})
    return read_gateway_settings(settings, environ)


UPSTREAM = '[upstreams.groq]\nurl = "https://api.groq.com/openai/v1/"\nkey_env = "MY_KEY"\n'


def test_routes_are_read_from_the_settings(tmp_path: Path) -> None:
    """With prices of each upstream, and the addresses of the gateway by the names of the APIs."""
    text = (
        '[gateway.routes]\nfast = ["groq/openai/gpt-oss-120b", "openai/gpt-4o-mini"]\n'
        '[gateway.prices]\n"gpt-4o-mini" = {input = 1, output = 2}\n'
        + UPSTREAM
        + 'prices = { "openai/gpt-oss-120b" = {input = 3, output = 4} }\n'
    )
    found = read(tmp_path, text, MY_KEY="sk-groq", OPENAI_API_KEY="sk-openai")
    first, second = found.routes["fast"].targets
    assert (first.model, first.address.name) == ("openai/gpt-oss-120b", "groq")
    assert first.address.key_header == (b"authorization", b"Bearer sk-groq")
    assert first.address.url == "https://api.groq.com/openai/v1"
    price = first.prices.find("openai/gpt-oss-120b")
    assert price is not None
    assert price.find_rates(0).input == 3_000_000
    assert (second.model, second.address.secret) == ("gpt-4o-mini", b"sk-openai")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[gateway.routes]\nfast = ["other/x"]\n', "write UPSTREAM/MODEL"),
        ('[gateway.routes]\nfast = ["groq"]\n' + UPSTREAM, "write UPSTREAM/MODEL"),
        ('[gateway.routes]\nfast = []\n', "speak one API"),
        ('[gateway.routes]\nfast = ["openai/x", "anthropic/y"]\n', "speak one API"),
        ('[gateway.routes]\nfast = ["gemini/x"]\n', "speak one API"),
        ('[upstreams.openai]\nurl = "https://x"\n', "write another name: a-z"),
        ('[upstreams.x]\nurl = "ftp://x"\n', "https://HOST"),
        ('[upstreams.x]\nurl = "https://x"\nkey_env = "MISSING"\n', "MISSING is not set"),
    ],
)  # fmt: skip
def test_a_route_that_cannot_work_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    """Before a call is made."""
    with pytest.raises(BadSettings, match=why):
        read(tmp_path, text, MY_KEY="sk-groq")


def test_a_call_that_hangs_keeps_its_reservation_when_its_client_leaves(tmp_path: Path) -> None:
    """No other upstream is tried for nobody."""
    with harness(tmp_path, RunLimits(), routes=make_routes) as gateway:
        gateway.provider.fates = {MODELS[0]: "hang"}
        gateway.client.timeout = 0.2
        with pytest.raises(Exception, match="timed out"):
            ask(gateway)
        (begun,), (step,) = gateway.entries("report.begin/1"), steps_of(gateway)
        assert step.usd == begun.facts.usd


def test_a_route_needs_no_key_of_the_provider_itself(tmp_path: Path) -> None:
    """A server with keys of other upstreams only makes no call at the provider."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    log = tmp_path / "provider.log"
    with local_provider(log) as url:
        (terminal.folder / "forum.toml").write_text(
            '[gateway]\nopenai_url = "https://provider.invalid/v1"\n'
            'routes = { fast = ["mine/gpt-4o-mini", "mine/some-model"] }\n'
            f'[upstreams.mine]\nurl = "{url}/v1"\nkey_env = "MY_KEY"\n'
        )
        variables = {"MY_KEY": "sk-of-mine-0123456789"}
        key = terminal.ask("keys", "create", "--name", "ci", "--scope", "report")["secret"]
        with serve(terminal, url, variables=variables) as root:
            replies = [
                httpx2.post(
                    f"{root}/gateway/openai/v1/chat/completions",
                    json={"model": model, "max_tokens": 5, "messages": []},
                    headers={"authorization": f"Bearer {key}"},
                    timeout=60,
                )
                for model in ("fast", "gpt-4o-mini")
            ]
        findings = terminal.type("doctor", **variables).stdout
    assert [reply.status_code for reply in replies] == [200, 403]
    assert "no key for openai" in replies[1].text
    assert read_log(log)[0] == 1
    assert "no price is known for mine/some-model" in findings
