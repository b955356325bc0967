"""The protocol's own schemas and cases; they are not part of the repository."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.foreign_data import FOREIGN, foreign

SYMPOSIUM = FOREIGN / "symposium"
SCHEMAS = SYMPOSIUM / "v1.0.0"


@cache
def validator(schema: str) -> Draft202012Validator:
    """Return what the protocol itself would check a form with; without it, leave the test out."""
    foreign("symposium")
    registry: Registry[Any] = Registry()
    for path in SCHEMAS.glob("*.schema.json"):
        read = json.loads(path.read_bytes())
        registry = Resource.from_contents(read) @ registry
        registry = registry.with_resource(path.name, Resource.from_contents(read))
    described = json.loads((SCHEMAS / f"{schema}.schema.json").read_bytes())
    return Draft202012Validator(described, registry=registry)


def check_by_schema(schema: str, *forms: object) -> None:
    """Check forms as the protocol itself would: the last step of a test, which may be left out."""
    for form in forms:
        validator(schema).validate(form)
