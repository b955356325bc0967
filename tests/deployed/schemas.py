"""The schemas of the Kubernetes API for the kinds that `deploy/kubernetes` uses.

    python -m tests.deployed.schemas kubernetes_validate-1.37.0-py3-none-any.whl

writes `kubernetes.json` from the package `kubernetes-validate` of PyPI, which has the schemas that
the OpenAPI document of each release of Kubernetes gives.  They are kept here without descriptions:
a test needs a hundredth of the package.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

RELEASES = ("1.30", "1.37")
"""The oldest and the newest release whose schemas are compared."""
_KINDS = {
    ("apps/v1", "Deployment"): "io.k8s.api.apps.v1.Deployment",
    ("apps/v1", "StatefulSet"): "io.k8s.api.apps.v1.StatefulSet",
    ("batch/v1", "Job"): "io.k8s.api.batch.v1.Job",
    ("policy/v1", "PodDisruptionBudget"): "io.k8s.api.policy.v1.PodDisruptionBudget",
    ("v1", "Namespace"): "io.k8s.api.core.v1.Namespace",
    ("v1", "Service"): "io.k8s.api.core.v1.Service",
}
_FILE = Path(__file__).with_name("kubernetes.json")
_PREFIX = "#/$defs/"
_DOCUMENT = "urn:kubernetes"


def list_faults(release: str, manifest: dict[str, Any]) -> list[str]:
    """Return what the schema of a release says against a manifest: unknown members, too."""
    name = _KINDS.get((manifest["apiVersion"], manifest["kind"]))
    if name is None:
        return [f"no schema of {manifest['kind']} is kept: add it to _KINDS"]
    definitions = json.loads(_FILE.read_text())[release]
    resource = Resource.from_contents(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions}
    )
    registry: Registry[Any] = Registry().with_resource(_DOCUMENT, resource)
    schema = {"$ref": f"{_DOCUMENT}#/$defs/{name}"}
    validator = Draft202012Validator(schema, registry=registry)
    return [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(manifest)]


def main(wheel: str) -> None:
    """Write the file from a wheel."""
    with ZipFile(wheel) as archive:
        document = {release: _read(archive, release) for release in RELEASES}
    _FILE.write_text(json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n")


def _read(archive: ZipFile, release: str) -> dict[str, Any]:
    folder = "kubernetes_validate/kubernetes-json-schema"
    path = f"{folder}/v{release}.0-local-strict/_definitions.json"
    everything = json.loads(archive.read(path))["$defs"]
    needed: dict[str, Any] = {}
    waiting = list(_KINDS.values())
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = _strip(everything[name])
            waiting += _references(everything[name])
    return needed


def _references(schema: Any) -> Iterator[str]:  # noqa: ANN401  any JSON value
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_PREFIX)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _strip(schema: Any) -> Any:  # noqa: ANN401  any JSON value
    """Return a schema without descriptions."""
    if isinstance(schema, list):
        return [_strip(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _strip(value)
        for name, value in schema.items()
        # A property may have that name: then it is a schema, and no text.
        if not (name == "description" and isinstance(value, str))
        and not name.startswith("x-kubernetes-")
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
