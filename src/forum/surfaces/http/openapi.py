"""Generate the OpenAPI 3.1 document from the declarations of the endpoints."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from forum import __version__
from forum.surfaces.http.endpoints import JSON, Endpoint
from forum.surfaces.http.problems import MEDIA_TYPE, Details, ProblemType

_REF = "#/components/schemas/{name}"
_DESCRIPTION = """\
Every step of every run is an entry in a transparency log. `scopes` of an operation
(`x-forum-scopes`) tell which keys open it; `admin` opens everything. Problems are those of
RFC 9457, and their `type` stays.
"""


def build_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the document for these endpoints."""
    forms = (form for e in endpoints for form in (e.body, e.query, e.reply))
    # A reply given as a string is only a media type, and has no schema.
    types = [form for form in forms if form is not None and not isinstance(form, str)]
    unique = list(dict.fromkeys([Details, *types]))
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    _allow_decimal_numbers(components)
    refs = dict(zip(unique, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, refs, components)
        # `{path:path}` has a converter of Starlette's, which OpenAPI does not know.
        path = re.sub(r"{(\w+):\w+}", r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Forum",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(e.tag for e in endpoints if e.tag)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of `forum keys create`, or a token of the OIDC issuer.",
                }
            },
        },
    }


def _allow_decimal_numbers(schema: Any) -> None:  # noqa: ANN401  a schema, or a part of one
    """Declare that a decimal may also be written as a number, as the decoder accepts it."""
    if isinstance(schema, dict):
        if schema.get("format") == "decimal":
            schema["type"] = ["string", "number"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            _allow_decimal_numbers(part)


def _operation(
    endpoint: Endpoint, refs: dict[Any, dict[str, Any]], components: dict[str, Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "x-forum-scopes": sorted(endpoint.scopes),
        "parameters": [*_in_path(endpoint), *_in_query(endpoint, refs, components)],
        "responses": {
            str(endpoint.status): _reply(endpoint, refs),
            **{str(status): {"description": why} for status, why in endpoint.also.items()},
            **_problems(endpoint, refs),
        },
        "security": [{"bearer": []}] if endpoint.scopes else [],
    }
    if endpoint.tag:
        operation["tags"] = [endpoint.tag]
    if endpoint.idempotent:
        operation["parameters"].append(_IDEMPOTENCY)
    if endpoint.body is not None:
        content: dict[str, Any] = {"schema": refs[endpoint.body]}
        if endpoint.example is not None:
            content["example"] = endpoint.example
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    return operation


_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "Asking again under the same key gives the same run, and begins no other, until seven days "
        "after its end; the operator may set another number of days, at least one."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}


_IN_PATH = {"type": "string", "pattern": r"^[^\x00-\x1f\x7f/\\]+$"}
"""Control characters and escaped slashes are refused before a path is read."""


def _in_path(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)(?::\w+)?}", endpoint.path)
    return [{"name": name, "in": "path", "required": True, "schema": _IN_PATH} for name in names]


def _in_query(
    endpoint: Endpoint, refs: dict[Any, dict[str, Any]], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    name = refs[endpoint.query]["$ref"].rpartition("/")[2]
    schema = components[name]
    required = schema.get("required", ())
    return [
        {"name": field, "in": "query", "required": field in required, "schema": form}
        for field, form in schema["properties"].items()
    ]


def _reply(endpoint: Endpoint, refs: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": endpoint.summary}
    if isinstance(endpoint.reply, str):
        response["content"] = {endpoint.reply: {}}
    elif endpoint.reply is not None:
        response["content"] = {JSON: {"schema": refs[endpoint.reply]}}
    for other in endpoint.other_types:
        response["content"][other] = {}
    return response


def _problems(endpoint: Endpoint, refs: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    by_status: dict[int, list[ProblemType]] = {}
    for problem in endpoint.possible_problems:
        by_status.setdefault(problem.status, []).append(problem)
    media = MEDIA_TYPE if endpoint.voice is None else JSON
    schema = refs[Details] if endpoint.voice is None else {"type": "object"}
    return {
        str(status): {
            "description": "; ".join(f"`{p.type}`: {p.title}" for p in problems),
            "content": {media: {"schema": schema}},
        }
        for status, problems in sorted(by_status.items())
    }
