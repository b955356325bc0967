"""JSON schemas in the form that MCP requires: an object at the root, the rest in `$defs`."""

from typing import Any

import msgspec

_REF = "#/$defs/{name}"


def schema_of(form: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a struct."""
    (root,), schemas = msgspec.json.schema_components([form], ref_template=_REF)
    name = root["$ref"].removeprefix("#/$defs/")
    used = {other: schema for other, schema in schemas.items() if other != name}
    return {**schemas[name], "$defs": used} if used else schemas[name]
