"""The vectors of forum/bundle/3: a bundle, and what each fraud against its spans changes.

python -m tests.docs.bundle_vectors      writes docs/spec/bundle.vectors.json
"""

import json
from base64 import b64encode

from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.zip_archive import unpack_archive
from forum.verify import verify_bundle
from tests.docs.examples import SPEC
from tests.verify.conversations import conversation
from tests.verify.samples import POLICY, TRUST, problems
from tests.verify.span_frauds import FRAUDS, forge

VECTORS = SPEC / "bundle.vectors.json"
_MANIFEST = "manifest.json"
_MAX_CHANGED_BYTES = 20_000
"""What changes more, such as a list of too many spans, is left to the tests."""


def render() -> str:
    """Return the vectors as they stand in the file."""
    genuine = unpack_archive(conversation())
    frauds = []
    for name, (fraud, _) in FRAUDS.items():
        data = forge(fraud)
        files = unpack_archive(data)
        changed = {n: d for n, d in files.items() if n != _MANIFEST and d != genuine.get(n)}
        if sum(map(len, changed.values())) > _MAX_CHANGED_BYTES:
            continue
        found = sorted(problems(verify_bundle(data, LEDGER_KINDS, TRUST)))
        removed = sorted(genuine.keys() - files.keys())
        frauds.append(
            {"name": name, "changed": _encode(changed), "removed": removed, "findings": found}
        )
    document = {
        "policy": POLICY.encode().decode(),
        "genuine": _encode({n: d for n, d in genuine.items() if n != _MANIFEST}),
        "manifest": genuine[_MANIFEST].decode(),
        "frauds": frauds,
    }
    return f"{json.dumps(document, indent=1)}\n"


def _encode(files: dict[str, bytes]) -> dict[str, str]:
    return {name: b64encode(data).decode() for name, data in files.items()}


if __name__ == "__main__":
    VECTORS.write_text(render())
