"""The bill of materials of a release: CycloneDX 1.6 as JSON, made of the lock and pinned weights.

It has no date and no random number, so that equal locks give equal bytes; and it names no host:
where packages come from is the installer's choice, what they are is fixed by hashes.

    python -m deploy.sbom > forumd.cdx.json
"""

import json
import sys
from collections.abc import Iterable
from typing import Any

from deploy.locked import LOCK, Locked, needed_by, read_lock
from forum import __version__
from forum.runs.model_weights import MODEL_WEIGHTS, ModelWeights

NAME = "forumd"
PRODUCTION = f"{NAME}[all]"

_Json = dict[str, Any]


def bill_of_materials() -> _Json:
    """Return what a production installation may hold, and what needs what."""
    production = needed_by(PRODUCTION, read_lock(LOCK))
    weights = list(MODEL_WEIGHTS.values())
    parts = [_component(one) for one in production]
    parts += [_model_component(model) for model in weights]
    root = _purl(NAME, __version__)
    direct = [_ref(one) for one in production if NAME in one.wanted_by]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": NAME,
                "version": __version__,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
        "dependencies": [
            {"ref": root, "dependsOn": [*direct, *map(_model_purl, weights)]},
            *({"ref": _ref(one), "dependsOn": _wants(one, production)} for one in production),
        ],
    }


def _component(one: Locked) -> _Json:
    # A package has one hash for each of its files; `hashes` of a component would say that one file
    # has them all.  An external reference may be any IRI, so it is the package's own name.
    files = {
        "type": "distribution",
        "url": _purl(one.name, one.version),
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in one.hashes],
    }
    marker = [{"name": "forum:marker", "value": one.marker}] if one.marker else []
    return {
        "type": "library",
        "bom-ref": _ref(one),
        "name": one.name,
        "version": one.version,
        "purl": _purl(one.name, one.version),
        "externalReferences": [files],
        "properties": marker,
    }


def _model_component(model: ModelWeights) -> _Json:
    """Return the weights of a model: `forum models pull` installs them where they are wanted."""
    return {
        "type": "machine-learning-model",
        "bom-ref": _model_purl(model),
        "name": model.title,
        "version": model.revision,
        "purl": _model_purl(model),
        "scope": "optional",
        "licenses": [{"license": {"id": model.licence}}],
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"{_model_purl(model)}#{file.name}",
                "hashes": [{"alg": "SHA-256", "content": file.sha256}],
            }
            for file in model.files
        ],
    }


def _wants(one: Locked, among: Iterable[Locked]) -> list[str]:
    return [_ref(other) for other in among if one.name in other.wanted_by]


def _ref(one: Locked) -> str:
    return _purl(one.name, one.version)


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _model_purl(model: ModelWeights) -> str:
    return f"pkg:huggingface/{model.repository}@{model.revision}"


if __name__ == "__main__":
    json.dump(bill_of_materials(), sys.stdout, indent=2)
    sys.stdout.write("\n")
