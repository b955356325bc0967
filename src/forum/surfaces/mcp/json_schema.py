"""JSON schemas of forms, as the protocol wants them: an object at the root, the rest below."""

from typing import Any

import msgspec

_REF = "#/$defs/{name}"


def schema_of(form: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a form."""
    (root,), found = msgspec.json.schema_components([form], ref_template=_REF)
    name = root["$ref"].removeprefix("#/$defs/")
    used = {other: schema for other, schema in found.items() if other != name}
    return {**found[name], "$defs": used} if used else found[name]
