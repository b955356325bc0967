"""The bill of materials of the running engine: CycloneDX 1.6 as JSON.

It lists what is installed, without dates and random numbers, so that the same installation gives
the same bytes.  The bill of a release, with hashes, is made from the lock by `deploy/sbom.py`.
"""

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

import msgspec

_NAME = "forumd"
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def list_installed_parts() -> bytes:
    """Return the bill of materials of what is installed with Forum."""
    parts: dict[str, Distribution] = {}
    wanted = [_NAME]
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in parts:
            continue
        try:
            parts[name] = part = distribution(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed
        matches = map(_REQUIREMENT.match, part.requires or ())
        wanted += [match[0] for match in matches if match]
    components = [_component(name, part.version) for name, part in sorted(parts.items())]
    root = next((c for c in components if c["name"] == _NAME), None)
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**root, "type": "application"}} if root else {},
        "components": [part for part in components if part is not root],
    }
    return msgspec.json.format(msgspec.json.encode(bill), indent=1) + b"\n"


def _component(name: str, version: str) -> dict[str, str]:
    purl = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
