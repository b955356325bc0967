"""The paths of the providers' APIs that the gateway knows.

Paths are compared as a whole.  A path that differs in a slash, a dot or an escape is an unknown
one, so that no path is priced as one operation here and served as another by the provider.
"""

import re
from enum import Enum, StrEnum
from typing import NamedTuple


class ApiProvider(StrEnum):
    """A provider whose API the gateway speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    AZURE = "azure"
    """OpenAI's API, with the paths of Azure."""


class ApiOperation(Enum):
    """What a request asks the provider for."""

    CHAT = "chat"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    GENERATE = "generate"
    """Gemini's contents, as a whole or as a stream."""
    EMBED_CONTENT = "embed-content"
    FREE = "free"
    """Costs nothing: lists of models, and counts of tokens."""
    UNKNOWN = "unknown"
    """Any other path, whose price is not known."""

    @property
    def embeds(self) -> bool:
        """Whether the reply has vectors, and no text that could be limited."""
        return self in (ApiOperation.EMBEDDINGS, ApiOperation.EMBED_CONTENT)


class ApiRoute(NamedTuple):
    """The operation of a request, and its path after the provider's base URL."""

    provider: ApiProvider
    operation: ApiOperation
    path: str
    model: str = ""
    """The model that the path names; empty where the body names it."""

    @property
    def is_priced(self) -> bool:
        """Whether the request's highest cost can be computed from its body."""
        return self.operation not in (ApiOperation.FREE, ApiOperation.UNKNOWN)


_POST_PATHS = {
    (ApiProvider.OPENAI, "/chat/completions"): ApiOperation.CHAT,
    (ApiProvider.OPENAI, "/responses"): ApiOperation.RESPONSES,
    (ApiProvider.OPENAI, "/embeddings"): ApiOperation.EMBEDDINGS,
    (ApiProvider.OPENAI, "/responses/input_tokens"): ApiOperation.FREE,
    (ApiProvider.ANTHROPIC, "/v1/messages"): ApiOperation.MESSAGES,
    (ApiProvider.ANTHROPIC, "/v1/messages/count_tokens"): ApiOperation.FREE,
}
_MODEL_PATHS = {
    ApiProvider.OPENAI: re.compile(r"/models(/[A-Za-z0-9._:-]+)?"),
    ApiProvider.ANTHROPIC: re.compile(r"/v1/models(/[A-Za-z0-9._:-]+)?"),
    ApiProvider.GEMINI: re.compile(r"/v1(alpha|beta)?/models(/[A-Za-z0-9._-]+)?"),
    ApiProvider.AZURE: re.compile(r"/openai(/v1)?/models(/[A-Za-z0-9._:-]+)?"),
}
_AZURE_CALL = re.compile(r"/openai/deployments/([A-Za-z0-9._-]+)(/chat/completions|/embeddings)")
_AZURE_PREFIXES = ("/openai/v1", "/openai")
_GEMINI_CALL = re.compile(r"/v1(?:alpha|beta)?/models/([A-Za-z0-9._-]+):([A-Za-z]+)")
_GEMINI_METHODS = {
    "generateContent": ApiOperation.GENERATE,
    "streamGenerateContent": ApiOperation.GENERATE,
    "embedContent": ApiOperation.EMBED_CONTENT,
    "batchEmbedContents": ApiOperation.EMBED_CONTENT,
    "countTokens": ApiOperation.FREE,
}
# Each segment has a name.  Dots, doubled slashes, escapes and `@` could lead to another path, or to
# another host, than the one that was checked.
_PLAIN_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~:,-]+)+")


def is_plain_path(path: str) -> bool:
    """Return whether every program reads a path in the same way."""
    return _PLAIN_PATH.fullmatch(path) is not None


def own_path(provider: ApiProvider, path: str) -> str:
    """Return a known path as its provider has it, whether a client writes `/v1` before it or not.

    Some clients take the base URL with `/v1`, and some without.  Any other path is left as it is.
    """
    bare = path.removeprefix("/v1") if path.startswith("/v1/") else path
    own = bare if provider is ApiProvider.OPENAI else f"/v1{bare}"
    is_known = (provider, own) in _POST_PATHS or _MODEL_PATHS[provider].fullmatch(own)
    return own if is_known else path


def find_route(provider: ApiProvider, method: str, path: str) -> ApiRoute:
    """Return the route of a request; `path` is what follows the provider's base URL, undecoded."""
    operation = ApiOperation.UNKNOWN
    if provider is ApiProvider.GEMINI and method == "POST":
        call = _GEMINI_CALL.fullmatch(path)
        if call is None or call[2] not in _GEMINI_METHODS:
            return ApiRoute(provider, operation, path)
        return ApiRoute(provider, _GEMINI_METHODS[call[2]], path, call[1])
    if provider is ApiProvider.AZURE and method == "POST":
        return _find_azure_route(path)
    if method == "POST":
        operation = _POST_PATHS.get((provider, path), operation)
    elif method in ("GET", "HEAD") and _MODEL_PATHS[provider].fullmatch(path):
        operation = ApiOperation.FREE
    return ApiRoute(provider, operation, path)


def _find_azure_route(path: str) -> ApiRoute:
    """Return the route of a request to Azure: of a deployment in the path, or in the body."""
    if call := _AZURE_CALL.fullmatch(path):
        operation = _POST_PATHS[ApiProvider.OPENAI, call[2]]
        return ApiRoute(ApiProvider.AZURE, operation, path, call[1])
    prefix = next((each for each in _AZURE_PREFIXES if path.startswith(f"{each}/")), "")
    operation = ApiOperation.UNKNOWN
    if prefix:
        openai_path = (ApiProvider.OPENAI, path.removeprefix(prefix))
        operation = _POST_PATHS.get(openai_path, operation)
    return ApiRoute(ApiProvider.AZURE, operation, path)
