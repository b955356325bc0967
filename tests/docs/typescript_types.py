"""Writes the types of the TypeScript client from the OpenAPI document; `just client` runs it.

    python -m tests.docs.typescript_types

The document uses few words of JSON Schema, and each is handled here.  A word that is not known is
an error, so that no type is wrong in silence.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from forum import __version__
from forum.surfaces.http.application import all_endpoints
from forum.surfaces.http.endpoints import Endpoint
from forum.surfaces.http.openapi import build_document
from tests.docs.pages import ROOT

PACKAGE = ROOT / "clients/typescript"
TYPES = PACKAGE / "src/api.ts"
# Annotations and limits, which TypeScript has no types for.
_IGNORED = frozenset(
    {
        "$ref", "additionalProperties", "anyOf", "default", "description", "discriminator", "enum",
        "examples", "exclusiveMaximum", "format", "items", "maxItems", "maxLength", "maximum",
        "minItems", "minLength", "minimum", "pattern", "properties", "required", "title", "type",
    }
)  # fmt: skip
_SIMPLE = {
    "string": "string", "integer": "number", "number": "number", "boolean": "boolean",
    "null": "null",
}  # fmt: skip


def render() -> str:
    """Return the module of types."""
    document = build_document(all_endpoints())
    parts = [
        "// The types of the HTTP API of Forum, and a table of its operations.",
        "// Generated from the OpenAPI document by `just client`; do not edit.",
        "",
        f'export const VERSION = "{__version__}";',
    ]
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += ["", *_declaration(name, schema)]
    parts += ["", "/** Every operation: its parameters, its body and its reply. */"]
    parts += ["export interface Operations {"]
    for route, operation in _operations(document):
        parts += _operation(route, operation)
    parts += ["}", "", "/** How each reply is read, and whether a request can be repeated. */"]
    parts += ["export const OPERATIONS: {"]
    parts += ['  [name in keyof Operations]: { reply: "json" | "text" | "bytes"; keyed: boolean };']
    parts += ["} = {"]
    keyed = {_route(endpoint): endpoint.idempotent for endpoint in all_endpoints()}
    for route, operation in _operations(document):
        reply = _reply(operation)[0]
        parts.append(f'  "{route}": {{ reply: "{reply}", keyed: {str(keyed[route]).lower()} }},')
    deep = sorted({n for e in all_endpoints() for n in re.findall(r"{(\w+):path}", e.path)})
    parts += ["};", "", "/** Parameters that may have several segments of a path. */"]
    parts += [f"export const DEEP_PARAMETERS: ReadonlySet<string> = new Set({json.dumps(deep)});"]
    return "\n".join([*parts, ""])


def _route(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path.replace(':path}', '}')}"


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, by_method in document["paths"].items():
        for method, operation in by_method.items():
            yield f"{method.upper()} {path}", operation


def _declaration(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from _comment(schema, "")
    if "properties" not in schema:
        yield f"export type {name} = {_type(schema)};"
        return
    yield f"export interface {name} {{"
    required = schema.get("required", ())
    for member, inner in schema["properties"].items():
        yield from _comment(inner, "  ")
        mark = "" if member in required else "?"
        yield f"  {member}{mark}: {_type(inner)};"
    yield "}"


def _comment(schema: dict[str, Any], pad: str) -> Iterator[str]:
    if words := schema.get("description"):
        lines = textwrap.wrap(words, 92)
        if len(lines) == 1:
            yield f"{pad}/** {lines[0]} */"
        else:
            yield f"{pad}/**"
            yield from (f"{pad} * {line}" for line in lines)
            yield f"{pad} */"


def _type(schema: dict[str, Any]) -> str:  # noqa: PLR0911  one for each form of a schema
    unknown = schema.keys() - _IGNORED
    assert not unknown, f"words that have no type yet: {unknown}"
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_SIMPLE[each] for each in kind)
    if kind == "array":
        items = schema.get("items")
        # Always empty today (`items: false`), and open for more.
        return f"Array<{_type(items) if isinstance(items, dict) else 'unknown'}>"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    return _SIMPLE[kind] if kind else "unknown"


def _operation(route: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"  /** {operation['summary']} */"
    yield f'  "{route}": {{'
    for place in ("path", "query"):
        found = [p for p in operation["parameters"] if p["in"] == place]
        members = "; ".join(
            f"{p['name']}{'' if p['required'] else '?'}: {_type(p['schema'])}" for p in found
        )
        yield f"    {place}: {{ {members} }};" if found else f"    {place}: undefined;"
    body = operation.get("requestBody")
    form = _type(body["content"]["application/json"]["schema"]) if body else "undefined"
    yield f"    body: {form};"
    yield f"    reply: {_reply(operation)[1]};"
    yield "  };"


def _reply(operation: dict[str, Any]) -> tuple[str, str]:
    """Return how a reply is read, and its type."""
    success = next(reply for status, reply in operation["responses"].items() if status < "300")
    ((media, content), *_) = success.get("content", {"": {}}).items()
    if media == "application/json":
        return "json", _type(content["schema"]) if "schema" in content else "unknown"
    return ("text", "string") if media.startswith("text/") else ("bytes", "Uint8Array")


def main() -> None:
    """Write the module."""
    TYPES.write_text(render())


if __name__ == "__main__":
    main()
