"""The provider gets a request that the gateway composed: what was checked, and nothing else."""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forum.features.gateway.composed_body import check_media, compose_body, set_member
from forum.features.gateway.refusals import CallRefused
from forum.features.gateway.relayed_run import RunLimits
from forum.features.gateway.routes import ApiOperation, ApiProvider, find_route, own_path
from forum.features.gateway.sent_parts import (
    AllowedNames,
    check_path,
    compose_headers,
    compose_query,
    encode_query,
)
from forum.features.gateway.upstream import reply_headers
from forum.ledger.ports import NO_LIMIT, Amount
from tests.features.gateway.harness import TOKEN, harness

CAPPED = RunLimits(cap=Amount(10_000_000, NO_LIMIT, NO_LIMIT))
CHAT = "/openai/v1/chat/completions"
BODY = {"model": "gpt-4o-mini", "messages": [], "max_tokens": 5}
# What proxies before providers obey: the address, the model, the key, the price.
STEERING_HEADERS = [
    "x-portkey-provider", "x-portkey-custom-host", "x-portkey-config", "X-Portkey-Config",
    "x_portkey_config", "x-litellm-tags", "x-model", "helicone-target-url", "x-goog-user-project",
    "x-http-method-override", "x-original-url", "x-rewrite-url", "openrouter-provider",
    "anthropic-fallback", "openai-beta-x", "x-stainless", "content-location",
]  # fmt: skip
STEERING_QUERIES = [
    "model=o1-pro", "Beta=true", "api%2Dversion=1&model=x", "key=1", "stream=true",
    "beta=true&beta=false", "beta=%00", "api-version=1%26model%3Do1-pro",
]  # fmt: skip


def refusal_of(work: Callable[[], object]) -> str:
    """Return the message of the refusal; empty if the work was not refused."""
    try:
        work()
    except CallRefused as refusal:
        return refusal.message
    return ""


@pytest.mark.parametrize("limits", [RunLimits(), CAPPED], ids=["free", "capped"])
def test_headers_and_queries_that_steer_a_proxy_are_refused(
    tmp_path: Path, limits: RunLimits
) -> None:
    """They would take the call, with Forum's key, to another address or model."""
    with harness(tmp_path, limits) as gateway:
        for name in STEERING_HEADERS:
            refused = gateway.post(CHAT, BODY, **{name: "http://127.0.0.1:9"})
            assert refused.status_code == 403, name
            assert refused.json()["error"]["code"] == "forum_not-listed"
            assert f"--allow header:{name.lower()}" in refused.json()["error"]["message"]
        for query in STEERING_QUERIES:
            assert gateway.post(f"{CHAT}?{query}", BODY).status_code in (400, 403), query
        assert gateway.provider.requests == []
        codes = {step.facts.code for step in gateway.entries("report.step/1")}
        assert codes == {"not-listed", "malformed"}


CHARSETS = ["application/json; charset=utf-7", "application/json;charset=utf-16le",
            "application/json; charset=utf-8; charset=utf-7", "text/plain;Charset='utf-7'",
            "application/json; charset", "application/json; charset*=utf-7"]  # fmt: skip


def test_another_charset_is_refused_and_none_is_sent(tmp_path: Path) -> None:
    """A body that is gpt-4o-mini in UTF-8 may be another model in UTF-7."""
    body = b'{"model":"gpt-4o-mini","max_tokens":1,"messages":[],"user":"+ACI-,+ACI-model+ACI-"}'
    with harness(tmp_path) as gateway:
        for kind in CHARSETS:
            assert gateway.post(CHAT, body, **{"content-type": kind}).status_code == 400, kind
        assert gateway.provider.requests == []
        for kind in ("application/json; charset=UTF-8", 'text/plain; charset="utf8"', ""):
            assert gateway.post(CHAT, body, **{"content-type": kind}).status_code == 200, kind
        types = {sent["headers"]["content-type"] for sent in gateway.provider.requests}
        assert types == {"application/json"}


OPERATIONS = [
    ("GET", "/openai/v1/files"), ("GET", "/openai/v1/files/f-1/content"),
    ("GET", "/openai/v1/responses/r-1"), ("DELETE", "/openai/v1/models/ft:gpt-4o:a"),
    ("POST", "/openai/v1/fine_tuning/jobs"), ("GET", "/openai/v1/organization/admin_api_keys"),
    ("POST", "/openai/v1/organization/admin_api_keys"), ("POST", "/openai/v1/responses/r-1/cancel"),
    ("GET", "/anthropic/v1/organizations/api_keys"), ("PUT", "/openai/v1/chat/completions"),
    ("PATCH", "/openai/v1/models"), ("OPTIONS", "/openai/v1/files"),
]  # fmt: skip


def test_only_listed_operations_reach_the_provider_without_a_cap(tmp_path: Path) -> None:
    """Forum's key may read files, make keys and delete models; a program that calls may not."""
    shown = {"authorization": f"Bearer {TOKEN}"}
    with harness(tmp_path) as gateway:
        for method, path in OPERATIONS:
            reply = gateway.client.request(method, path, headers=shown)
            assert reply.status_code == 403, path
        assert gateway.provider.requests == []


def test_what_the_operator_allows_by_name_is_sent_and_recorded(tmp_path: Path) -> None:
    """A path with all below it, a header and a member of the query; nothing beside them."""
    names = frozenset({"path:/files", "header:X-Model", "query:purpose"})
    with harness(tmp_path, RunLimits(allowed=names)) as gateway:
        shown = {"authorization": f"Bearer {TOKEN}", "x-model": "a"}
        listed = gateway.client.get("/openai/v1/files/f-1?purpose=batch", headers=shown)
        upload = gateway.client.post(
            "/openai/v1/files", headers=shown, files={"file": b"\xff\x00"}, data={"purpose": "x"}
        )
        other = gateway.client.get("/openai/v1/filesystem", headers=shown)
        (got, put) = gateway.provider.requests
        begun = gateway.entries("report.begin/1")
        documents = [json.loads(gateway.body(entry, "attributes")) for entry in begun]
        (recorded,) = (each for each in documents if each["method"] == "GET")

        assert (listed.status_code, upload.status_code, other.status_code) == (200, 404, 403)
        assert (got["headers"]["x-model"], got["scope"]["query_string"]) == ("a", b"purpose=batch")
        assert b"\xff\x00" in put["body"]
        assert put["headers"]["content-type"].startswith("multipart/form-data; boundary=")
        assert recorded["headers"]["x-model"] == "a"
        assert recorded["query"] == {"purpose": "batch"}


@pytest.mark.parametrize("name", ["files", "/files", "v1/files", "model:files", "header:files"])
def test_only_a_path_allows_a_path(name: str) -> None:
    """`files` allows parts that are files, and not to read or delete all files of the key."""
    assert not AllowedNames(frozenset({name})).allows_path("/files")
    assert AllowedNames(frozenset({"path:files"})).allows_path("/v1/files/f-1")


# The lists of the guide, written here a second time: a name that is added there is added here.
SENT_HEADERS = {
    "accept", "anthropic-beta", "anthropic-dangerous-direct-browser-access", "anthropic-version",
    "conversation_id", "http-referer", "openai-beta", "openai-organization", "openai-project",
    "originator", "session_id", "user-agent", "version", "x-app", "x-client-request-id", "x-title",
}  # fmt: skip
SENT_FAMILIES = ("x-stainless-", "x-claude-code-", "x-codex-")
LEFT_OUT = re.compile(
    r"accept-(charset|encoding|language)|(proxy-)?authorization|(x-)?api-key|b3|baggage"
    r"|cache-control|cdn-loop|cf-.*|connection|content-(encoding|length|type)|cookie|dnt|expect"
    r"|forum-run|forwarded|host|keep-alive|max-forwards|origin|pragma|priority"
    r"|proxy-(authenticate|connection)|referer|sec-.*|sentry-trace|te|traceparent|tracestate"
    r"|trailer|transfer-encoding|true-client-ip|upgrade(-insecure-requests)?|via"
    r"|x-amzn-trace-id|x-b3-.*|x-cloud-trace-context|x-correlation-id|x-datadog-.*|x-envoy-.*"
    r"|x-forwarded-.*|x-real-ip|x-request-id"
)
TOKEN_CHARS = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # noqa: S105
a_header_name = (
    st.text(TOKEN_CHARS, min_size=1, max_size=20)
    | st.sampled_from(sorted(SENT_HEADERS) + STEERING_HEADERS)
    | st.builds(str.__add__, st.sampled_from(["x-", "anthropic-", "openai-", "sec-", "x-codex-"]),
                st.text(TOKEN_CHARS, min_size=1, max_size=8))
    | st.builds(lambda name, char: name + char, st.sampled_from(sorted(SENT_HEADERS)),
                st.sampled_from(TOKEN_CHARS))
)  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(a_header_name, st.booleans())
def test_a_header_is_listed_left_out_or_refused_by_name(name: str, upper: bool) -> None:  # noqa: FBT001
    """There is no fourth way: nothing passes because nobody thought of it."""
    shown, plain = (name.upper() if upper else name), name.lower()
    received = [(shown.encode(), b"2023-06-01")]
    is_beta = plain in ("anthropic-beta", "openai-beta")
    is_sent = plain in SENT_HEADERS or plain.startswith(SENT_FAMILIES)
    if message := refusal_of(lambda: compose_headers(received, AllowedNames(), b"")):
        assert is_beta or not (is_sent or LEFT_OUT.fullmatch(plain))
        assert f"--allow header:{plain}" in message
        allowed = AllowedNames(frozenset({f"header:{plain}"}))
        assert compose_headers(received, allowed, b"") == {plain: "2023-06-01"}
    else:
        sent = compose_headers(received, AllowedNames(), b"")
        assert sent == ({plain: "2023-06-01"} if is_sent else {})
        assert is_sent or LEFT_OUT.fullmatch(plain)


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=12) | st.sampled_from(["beta", "api-version", "model", "limit"]))
def test_a_member_of_the_query_is_listed_or_refused_by_name(name: str) -> None:
    """Also with escapes: the name is compared as the provider will read it."""
    query = encode_query({name: "1"})[1:].encode()
    route = find_route(ApiProvider.OPENAI, "POST", "/chat/completions")
    listed = name in ("beta", "api-version")
    if refusal_of(lambda: compose_query(query, route, "POST", AllowedNames(), token=b"")):
        assert not listed
        allowed = AllowedNames(frozenset({f"query:{name}"}))
        assert compose_query(query, route, "POST", allowed, token=b"") == {name: "1"}
    else:
        assert listed


KNOWN_CALLS = {
    ("openai", "POST", "/chat/completions"), ("openai", "POST", "/responses"),
    ("openai", "POST", "/embeddings"), ("openai", "POST", "/responses/input_tokens"),
    ("anthropic", "POST", "/v1/messages"), ("anthropic", "POST", "/v1/messages/count_tokens"),
    ("gemini", "POST", "/v1beta/models/gemini-2.5-pro:generateContent"),
    ("gemini", "POST", "/v1/models/gemini-2.5-pro:streamGenerateContent"),
    ("gemini", "POST", "/v1alpha/models/gemini-2.5-pro:countTokens"),
    ("gemini", "POST", "/v1beta/models/m:embedContent"),
    ("azure", "POST", "/openai/deployments/my-deployment/chat/completions"),
    ("azure", "POST", "/openai/deployments/my-deployment/embeddings"),
    ("azure", "POST", "/openai/v1/chat/completions"), ("azure", "POST", "/openai/v1/responses"),
    ("azure", "POST", "/openai/responses"), ("azure", "POST", "/openai/v1/embeddings"),
    ("gemini", "POST", "/v1beta/models/m:batchEmbedContents"),
}  # fmt: skip
A_SEGMENT = st.sampled_from(
    ["v1", "chat", "completions", "models", "files", "responses", "messages", "batches", "gpt-4o"]
) | st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=8)


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(list(ApiProvider)),
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]),
    st.lists(A_SEGMENT, min_size=1, max_size=4)
    | st.sampled_from([path.strip("/").split("/") for _, _, path in sorted(KNOWN_CALLS)]),
)
def test_a_path_is_listed_or_refused_by_name(
    provider: ApiProvider, method: str, segments: list[str]
) -> None:
    """Whatever a provider will serve one day under another path needs the operator's word."""
    path = "/" + "/".join(segments)
    models = {"openai": ("",), "anthropic": ("/v1",), "gemini": ("/v1", "/v1alpha", "/v1beta"),
              "azure": ("/openai", "/openai/v1")}  # fmt: skip
    begun = {f"{version}/models" for version in models[provider]}
    is_model = path in begun or path.rpartition("/")[0] in begun
    is_model &= provider != "gemini" or ":" not in path
    listed = (provider.value, method, path) in KNOWN_CALLS or (
        method in ("GET", "HEAD") and is_model
    )
    route = find_route(provider, method, path)
    message = refusal_of(lambda: check_path(route, method, AllowedNames()))
    assert ("--allow path:" in message) is not listed
    assert (route.operation is ApiOperation.UNKNOWN) is not listed


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(list(ApiProvider)),
    st.sampled_from(["GET", "POST"]),
    st.lists(A_SEGMENT, min_size=1, max_size=4)
    | st.sampled_from([path.strip("/").split("/") for _, _, path in sorted(KNOWN_CALLS)]),
)
def test_only_v1_before_a_known_path_is_added_or_left_out(
    provider: ApiProvider, method: str, segments: list[str]
) -> None:
    """A path that means something else at the provider is never made of the one that was asked."""
    path = "/" + "/".join(segments)
    own = own_path(provider, path)
    assert own_path(provider, own) == own
    if own != path:
        assert own in (f"/v1{path}", path.removeprefix("/v1"))
        assert find_route(provider, method, path).operation is ApiOperation.UNKNOWN
        routes = [find_route(provider, each, own) for each in ("GET", "POST")]
        assert {route.operation for route in routes} > {ApiOperation.UNKNOWN}


BETAS = ["", "claude-code-20250219", "interleaved-thinking-2025-05-14,oauth-2025-04-20"]
UNKNOWN_BETAS = ["free-money-2026-01-01", "claude-code", "claude-code-20250219, x", "*", "a b"]


def test_betas_are_known_by_name() -> None:
    """A beta may change what a request means; the date in its name may be any."""
    for beta in BETAS:
        compose_headers([(b"anthropic-beta", beta.encode())], AllowedNames(), b"")
    for beta in UNKNOWN_BETAS:
        with pytest.raises(CallRefused, match="--allow header:anthropic-beta"):
            compose_headers([(b"anthropic-beta", beta.encode())], AllowedNames(), b"")
    twice = [(b"anthropic-beta", b"oauth-2025-04-20"), (b"Anthropic-Beta", b"pdfs-2024-09-25")]
    joined = {"anthropic-beta": "oauth-2025-04-20, pdfs-2024-09-25"}
    assert compose_headers(twice, AllowedNames(), b"") == joined
    with pytest.raises(CallRefused, match="twice"):
        compose_headers([(b"user-agent", b"a"), (b"User-Agent", b"b")], AllowedNames(), b"")


A_NUMBER = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
                         fullmatch=True)  # fmt: skip
A_STRING = st.lists(
    st.from_regex(r'[^"\\\x00-\x1f]', fullmatch=True)
    | st.from_regex(r'\\["\\/bfnrt]', fullmatch=True)
    | st.from_regex(r"\\u(00[0-9a-fA-F]{2}|fdfa|d83d\\ude00|2028)", fullmatch=True),
    max_size=8,
).map(lambda parts: '"' + "".join(parts) + '"')
A_SPACE = st.text(" \t\r\n", max_size=2)


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 3) -> str:
    """Return JSON with any spelling of numbers, strings and spaces; members may be twins."""
    kind = draw(
        st.sampled_from(["number", "string", "word", "list", "object"][: 3 + 2 * (depth > 0)])
    )
    before, after = draw(A_SPACE), draw(A_SPACE)
    match kind:
        case "number":
            text = draw(A_NUMBER)
        case "string":
            text = draw(A_STRING)
        case "word":
            text = draw(st.sampled_from(["true", "false", "null"]))
        case "list":
            items = draw(st.lists(json_texts(depth - 1), max_size=3))
            text = f"[{draw(A_SPACE)}{','.join(items)}]"
        case _:
            values = draw(st.lists(json_texts(depth - 1), max_size=3))
            names = [draw(A_STRING) for _ in values]
            members = (f"{n}{draw(A_SPACE)}:{v}" for n, v in zip(names, values, strict=True))
            text = f"{{{draw(A_SPACE)}{','.join(members)}}}"
    return before + text + after


TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s",:\[\]{}]+|[,:\[\]{}]')


def compose_or_refuse(text: str) -> bytes | None:
    """Return JSON as it is sent; None if it is refused for a member that is there twice."""
    message = refusal_of(lambda: compose_body(text.encode()))
    if message:
        assert "twice" in message or "NUL" in message
        return None
    return compose_body(text.encode()).data


@settings(max_examples=500, deadline=None)
@given(json_texts())
def test_order_numbers_and_strings_keep_their_spelling(text: str) -> None:
    """Only spaces between tokens go."""
    composed = compose_or_refuse(text)
    assert composed is None or composed.decode() == "".join(TOKENS.findall(text))


NODE = """
const out = [];
const view = new DataView(new ArrayBuffer(8));
const hex = (n) => { view.setFloat64(0, n + 0); return view.getBigUint64(0).toString(16); };
const units = (s) => Array.from({length: s.length}, (_, i) => s.charCodeAt(i));
const tell = (v) => v === null || typeof v === "boolean" ? v
  : typeof v === "number" ? {n: hex(v)}
  : typeof v === "string" ? {s: units(v)}
  : Array.isArray(v) ? {a: v.map(tell)}
  : {o: Object.entries(v).map(([k, x]) => [units(k), tell(x)])
        .sort((a, b) => a[0].join() < b[0].join() ? -1 : 1)};
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter(Boolean);
for (const line of lines) out.push(tell(JSON.parse(Buffer.from(line, "hex").toString("utf8"))));
console.log(JSON.stringify(out));
"""


def tell(value: Any) -> Any:  # noqa: ANN401  any JSON
    """Return a value in the form in which the program in Node tells it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        try:
            number = float(value) + 0.0  # a zero has no sign as a whole number
        except OverflowError:
            number = float("inf") if value > 0 else float("-inf")
        return {"n": f"{int.from_bytes(struct.pack('>d', number)):x}"}
    if isinstance(value, str):
        return {"s": units(value)}
    if isinstance(value, list):
        return {"a": [tell(item) for item in value]}
    members = [[units(name), tell(item)] for name, item in value.items()]
    return {"o": sorted(members, key=lambda pair: ",".join(map(str, pair[0])))}


def units(text: str) -> list[int]:
    """Return the UTF-16 code units of a text."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]


EDGES = [
    rb'{"a":1.0,"b":1,"c":1e400,"d":-1e-400,"e":123456789012345678901234567890,"f":-0.0,"__proto":1}',
    rb'{"10":1,"9":2,"":3,"\u0041":"\ud83d\ude00\u2028\u0000\/"}',
    '{"\u00e9":"\ufdfa\u2028","x":[[],{},[{}]]}'.encode(),
]


def test_another_parser_reads_what_was_checked() -> None:
    """Node's parser sees in what is sent the very values that the gateway has decided about."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    sent = [compose_body(body).data for body in EDGES]

    @settings(max_examples=500, deadline=None, database=None)
    @given(json_texts())
    def collect(text: str) -> None:
        if (composed := compose_or_refuse(text)) is not None:
            sent.append(composed)

    collect()
    assert len(sent) > 200
    completed = subprocess.run(
        [node, "-e", NODE], input="\n".join(body.hex() for body in sent), text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(completed.stdout) == [tell(compose_body(body).value) for body in sent]


def refused_bodies() -> Iterator[bytes]:
    """Yield bodies that two programs could read in two ways, or not at all."""
    yield from (b"", b"{", b"{} {}", b"\xef\xbb\xbf{}", b'{"a":NaN}', b"[1,]", b"[01]", b"nul")
    yield from (b'{"a":1,"a":1}', b'{"a":{"b":1,"\\u0062":2}}', b'[[{"x":[],"x":[]}]]')
    yield from (b'["\xff"]', '["\u00e9"]'.encode("latin-1"), '{"a":1}'.encode("utf-16"))
    yield from (b'["\\ud83d"]', b'["\\ude00"]', b'["\\ud83d\\\\\\ude00"]', b'{"\\ud800":1}')
    yield from (b'{"model\\u0000":1}', b"[" * 100_000, b'["\x00"]', b"[1" + b"0" * 5000 + b"]")


@pytest.mark.parametrize("body", list(refused_bodies()))
def test_what_two_parsers_read_differently_is_refused(body: bytes) -> None:
    """With a cap or without one; the message says why."""
    with pytest.raises(CallRefused, match=r"this request is refused: [^E]"):
        compose_body(body)


def test_a_compressed_body_is_refused() -> None:
    """Its bytes are not those that the provider would read."""
    for encoding in ("gzip", "zstd", "identity, gzip", "GZIP"):
        with pytest.raises(CallRefused, match="Content-Encoding"):
            check_media("application/json", encoding)
    assert check_media("Application/JSON", "Identity") == "application/json"


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4),
       st.text(max_size=5))  # fmt: skip
def test_a_member_that_is_set_changes_no_other(members: dict[str, Any], name: str) -> None:
    """Whether it was there or not, and whatever looks like it inside of texts."""
    try:
        composed = compose_body(json.dumps({**members, "deep": {name: '"x":1'}}).encode())
    except CallRefused:
        return
    changed = compose_body(set_member(composed.data, name, {"n": 7}))

    assert changed.value == {**composed.value, name: {"n": 7}}


@pytest.mark.parametrize(
    "name", [b"Forum-Left-Usd", b"forum-budget-alert", b"FORUM-RUN", b"forum-x"]
)
def test_no_provider_speaks_for_the_caps(name: bytes) -> None:
    """An agent would go by what it read first; another gateway may be the provider."""
    passed = reply_headers([(name, b"1000000"), (b"X-Request-Id", b"r1")], altered=False)

    assert passed == [(b"x-request-id", b"r1")]
