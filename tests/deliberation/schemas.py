"""The protocol's own schemas and cases; they are not part of the repository."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]
SYMPOSIUM = Path(os.environ.get("FORUM_SHARED", ROOT.parent / "shared")) / "symposium"
SCHEMAS = SYMPOSIUM / "v1.0.0"


@cache
def validator(schema: str) -> Draft202012Validator:
    """Return what the protocol itself would check a form with."""
    registry: Registry[Any] = Registry()
    for path in SCHEMAS.glob("*.schema.json"):
        read = json.loads(path.read_bytes())
        registry = Resource.from_contents(read) @ registry
        registry = registry.with_resource(path.name, Resource.from_contents(read))
    described = json.loads((SCHEMAS / f"{schema}.schema.json").read_bytes())
    return Draft202012Validator(described, registry=registry)
