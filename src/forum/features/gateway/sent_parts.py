"""Which headers, query members and paths of a request reach the provider.

A provider, or a proxy before it, may take the model, the address or the price from a header or from
the query.  So only what is listed here is sent, with a cap or without one.  The operator may allow
more by name: `header:NAME`, `query:NAME` and `path:PATH`.  What only concerns the connection, or
traces it, is left out; everything else is refused by name, because a request without it would mean
something else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from forum.features.gateway.composed_body import refuse_body
from forum.features.gateway.refusals import CallRefused, RefusalReason
from forum.features.gateway.routes import ApiOperation, ApiProvider, ApiRoute
from forum.runs.strict_json import show_name

Headers = Sequence[tuple[bytes, bytes]]

# RFC 9110, section 7.6.1: these are about one connection, not about the message.
HOP_BY_HOP: Final = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_GEMINI_KEY: Final = "x-goog-api-key"
CREDENTIALS: Final = frozenset({"authorization", "x-api-key", "api-key", _GEMINI_KEY})
"""Replaced by Forum's key, if it has one.  They cannot be allowed by name."""
_OWN: Final = frozenset(
    # Composed anew, or answered here.  The gateway reads replies, so it asks for plain ones.
    {
        "accept-encoding", "content-encoding", "content-length", "content-type", "cookie", "expect",
        "forum-run", "host",
    }
)  # fmt: skip
# What browsers, proxies and tracers add.  No API of a model depends on it.
_LEFT_OUT: Final = frozenset(
    {
        "accept-charset", "accept-language", "b3", "baggage", "cache-control", "cdn-loop", "dnt",
        "forwarded", "max-forwards", "origin", "pragma", "priority", "referer", "sentry-trace",
        "traceparent", "tracestate", "true-client-ip", "upgrade-insecure-requests", "via",
        "x-amzn-trace-id", "x-cloud-trace-context", "x-correlation-id", "x-real-ip",
        "x-request-id",
    }
)  # fmt: skip
_LEFT_OUT_FAMILIES: Final = ("cf-", "sec-", "x-b3-", "x-datadog-", "x-envoy-", "x-forwarded-")
_SENT: Final = frozenset(
    {
        "accept", "anthropic-dangerous-direct-browser-access", "anthropic-version",
        "openai-organization", "openai-project", "user-agent", "x-app", "x-client-request-id",
        # The names by which Codex, aider and opencode tell their sessions and themselves.
        "conversation_id", "http-referer", "originator", "session-id", "session_id", "thread-id",
        "version", "x-session-affinity", "x-session-id", "x-title",
        # Says that Codex has put its tools into the input, where they are looked for as well.
        "x-openai-internal-codex-responses-lite",
        # What the SDKs of Gemini say of themselves, and Gemini CLI of its installation.
        "x-gemini-api-privileged-user-id", "x-goog-api-client",
    }
)  # fmt: skip
_SENT_FAMILIES: Final = ("x-stainless-", "x-claude-code-", "x-codex-")
_LISTED_VALUES: Final = frozenset({"accept", "anthropic-beta", "openai-beta"})
"""Headers that are lists, so that one that is there twice is one list."""
# Betas by their names without the date.  Those that bill something beside tokens do so by a tool or
# a member of the request, which is checked by itself.
_ANTHROPIC_BETAS: Final = frozenset(
    {
        "adaptive-thinking", "advanced-tool-use", "advisor-tool", "cache-diagnosis", "claude-code",
        "code-execution", "compact", "computer-use", "context-1m", "context-management",
        "dev-full-thinking", "effort", "extended-cache-ttl", "fallback-credit", "fast-mode",
        "files-api", "fine-grained-tool-streaming", "inline-tools", "interleaved-thinking",
        "mcp-client", "message-batches", "message-threads", "mid-conversation-output-config",
        "mid-conversation-system-clear-at", "mid-conversation-tool-changes",
        "model-context-window-exceeded", "oauth", "output-128k", "output-300k", "pdfs",
        "prompt-caching", "prompt-caching-scope", "redact-thinking", "server-side-fallback",
        "skills", "structured-outputs", "task-budgets", "thinking-binding-controls",
        "thinking-display-updates", "thinking-token-count", "token-counting",
        "token-efficient-tools", "tool-examples", "tool-search-tool", "user-profiles", "web-fetch",
        "web-search",
    }
)  # fmt: skip
_BETA: Final = re.compile(r"([a-z0-9-]+?)-(\d{4}-\d{2}-\d{2}|\d{8})")
_OPENAI_BETAS: Final = frozenset({"responses=experimental"})
_PLAIN_VALUE: Final = re.compile(rb"[\x20-\x7e\t]*")

_QUERY: Final = frozenset({"api-version", "beta"})
_LIST_QUERY: Final = frozenset(
    {"after", "after_id", "before_id", "client_version", "limit", "pageSize", "pageToken"}
)
"""Members of the query of lists."""
_REPLY_FORMATS: Final = ("json", "sse")
"""Values of `alt`, by which Gemini's clients ask for server-sent events."""
_KEY_MEMBER: Final = "key"
"""The member of the query in which Gemini's clients may show their key."""
_QUERY_VALUE: Final = re.compile(r"[A-Za-z0-9._:-]{0,128}")
PATH_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "POST"})


@dataclass(frozen=True, slots=True)
class AllowedNames:
    """What the operator allows beside the lists."""

    names: frozenset[str] = frozenset()
    """Names of models, tools and members, and `header:NAME`, `query:NAME`, `path:PATH`."""
    is_served: bool = False
    """Whether a server sets it by its `forum.toml`, and not the user by options."""

    def allows_header(self, name: str) -> bool:
        """Return whether a header is allowed by name; the case of its letters does not matter."""
        wanted = f"header:{name}"
        return any(each.lower() == wanted for each in self.names)

    def allows_query(self, name: str) -> bool:
        """Return whether a member of the query is allowed by name."""
        return f"query:{name}" in self.names

    def allows_path(self, path: str) -> bool:
        """Return whether `path:PATH` names a path, or the beginning of its segments."""
        plain = path.strip("/")
        short = plain.removeprefix("v1/")
        named = (n.removeprefix("path:").strip("/") for n in self.names if n.startswith("path:"))
        return any(
            each == begun or each.startswith(f"{begun}/")
            for begun in named
            if begun
            for each in (plain, short)
        )

    def describe(self, name: str) -> str:
        """Return how something is allowed by name."""
        if self.is_served:
            return (
                f"allow = ['{name}'] in [gateway] of the server's forum.toml, "
                "which its operator can set"
            )
        return f"--allow {name}"


def compose_headers(received: Headers, allowed: AllowedNames, token: bytes) -> dict[str, str]:
    """Return the headers that a request is sent with, beside credentials and the body's own.

    Raises `CallRefused` for a header that is not on the list.  `token` is the credential of the
    run, which no provider may see.
    """
    connection = _named_in_connection(received)
    sent: dict[str, str] = {}
    for raw_name, raw_value in received:
        name = raw_name.decode("latin-1").lower()
        if name in connection or not _check_header(name, allowed):
            continue
        if not _PLAIN_VALUE.fullmatch(raw_value):
            raise refuse_body(f"the header {name!r} has other characters than those of ASCII")
        if token and token in raw_value:
            continue
        value = raw_value.decode("ascii").strip()
        if name in sent:
            if name not in _LISTED_VALUES:
                raise refuse_body(f"the header {name!r} is there twice")
            value = f"{sent[name]}, {value}"
        sent[name] = value
    _check_betas(sent, allowed)
    return sent


def _check_header(name: str, allowed: AllowedNames) -> bool:
    """Return whether a header is sent, or left out.  Raises `CallRefused` if it is neither."""
    if name in CREDENTIALS or name in _OWN or name in HOP_BY_HOP:
        return False
    if allowed.allows_header(name) or _is_sent(name):
        return True
    if name in _LEFT_OUT or name.startswith(_LEFT_OUT_FAMILIES):
        return False
    shown = show_name(name)
    raise _not_listed(allowed, "header", shown, f"the header {shown!r}")


def find_credentials(
    provider: ApiProvider | None, received: Headers, query: bytes
) -> list[tuple[bytes, bytes]]:
    """Return the credentials that a client shows to a provider, as headers."""
    names = CREDENTIALS if provider is ApiProvider.GEMINI else CREDENTIALS - {_GEMINI_KEY}
    credentials = [pair for pair in received if pair[0].decode("latin-1").lower() in names]
    if provider is ApiProvider.GEMINI:
        pairs = (pair.partition(b"=") for pair in query.split(b"&"))
        credentials += [
            (_GEMINI_KEY.encode(), key)
            for name, _, value in pairs
            if unquote_to_bytes(name) == _KEY_MEMBER.encode()
            and _PLAIN_VALUE.fullmatch(key := unquote_to_bytes(value))
        ]
    return credentials


def bare_credential(value: bytes) -> bytes:
    """Return a credential without the name of its scheme."""
    return (value.split()[-1:] or [b""])[0]


def compose_query(
    query: bytes, route: ApiRoute, method: str, allowed: AllowedNames, token: bytes
) -> dict[str, str]:
    """Return the members of the query that a request is sent with.

    Raises `CallRefused` for one that is not on the list.
    """
    is_list = route.operation is ApiOperation.FREE and method in ("GET", "HEAD")
    sent: dict[str, str] = {}
    for name, value in _query_pairs(query):
        if route.provider is ApiProvider.GEMINI and name == _KEY_MEMBER:
            continue  # a credential, which is replaced like those in headers
        if name in sent:
            raise refuse_body(f"its query has {show_name(name)!r} twice")
        if token and token.decode("latin-1") in value:
            raise refuse_body("its query has the credential of the run")
        sent[name] = value
        if allowed.allows_query(name) or _asks_format(route.provider, name, value):
            continue
        shown = show_name(name)
        if name not in _QUERY and not (is_list and name in _LIST_QUERY):
            raise _not_listed(allowed, "query", shown, f"{shown!r} in the query")
        if not _QUERY_VALUE.fullmatch(value):
            raise _not_listed(allowed, "query", shown, f"the value of {shown!r} in the query")
    return sent


def check_path(route: ApiRoute, method: str, allowed: AllowedNames) -> None:
    """Refuse a path that the gateway does not know, unless it is allowed by name."""
    if route.operation is not ApiOperation.UNKNOWN:
        return
    if method in PATH_METHODS and allowed.allows_path(route.path):
        return
    first = route.path.strip("/").removeprefix("v1/").partition("/")[0]
    raise _not_listed(allowed, "path", first, f"{method} of the path {route.path!r}")


def encode_query(members: Mapping[str, str]) -> str:
    """Return a query with its question mark; empty without members."""
    if not members:
        return ""
    pairs = (f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in members.items())
    return "?" + "&".join(pairs)


def _is_sent(name: str) -> bool:
    listed = name in _SENT or name in ("anthropic-beta", "openai-beta")
    return listed or name.startswith(_SENT_FAMILIES)


def _check_betas(sent: Mapping[str, str], allowed: AllowedNames) -> None:
    for header, is_known in (("anthropic-beta", _is_known_beta), ("openai-beta", _is_openai_beta)):
        if allowed.allows_header(header):
            continue
        for value in sent.get(header, "").split(","):
            beta = value.strip()
            if beta and not is_known(beta):
                shown = show_name(beta)
                raise _not_listed(allowed, "header", header, f"{shown!r} in the header {header!r}")


def _is_known_beta(beta: str) -> bool:
    match = _BETA.fullmatch(beta)
    return match is not None and match[1] in _ANTHROPIC_BETAS


def _is_openai_beta(beta: str) -> bool:
    return beta in _OPENAI_BETAS


def _named_in_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[str]:
    """Return the headers that are about the connection because `Connection` says so.

    A header that is sent cannot be left out in this way: the request would mean something else.
    """
    named = [value for name, value in headers if name.lower() == b"connection"]
    parts = (part.strip().lower().decode("latin-1") for v in named for part in v.split(b","))
    return frozenset(part for part in parts if not _is_sent(part))


def _query_pairs(query: bytes) -> Iterator[tuple[str, str]]:
    for pair in filter(None, query.split(b"&")):
        name, _, value = pair.partition(b"=")
        yield _decode_part(name), _decode_part(value)


def _asks_format(provider: ApiProvider, name: str, value: str) -> bool:
    """Return whether a client of Gemini asks for a form of reply that can be read here."""
    return provider is ApiProvider.GEMINI and name == "alt" and value in _REPLY_FORMATS


def _decode_part(part: bytes) -> str:
    try:
        return unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise refuse_body("its query is no UTF-8") from None


def _not_listed(allowed: AllowedNames, kind: str, name: str, what: str) -> CallRefused:
    how = allowed.describe(f"{kind}:{name}")
    why = (
        f"{what} is not among what the gateway passes on, because a provider may take the model, "
        f"the address or the price from it. Leave it out, or allow it with {how}."
    )
    return CallRefused(RefusalReason.NOT_LISTED, why)
