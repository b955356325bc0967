"""The worked examples of the specification, made by the code that they describe.

    python -m tests.docs.examples      writes them into the pages of docs/spec

A page marks an example with `<!-- example: NAME -->` above a fenced block; the block holds what
`examples()` says of that name, and tests/docs/test_spec_examples.py sees to it.
"""

import re
import tempfile
from pathlib import Path

from forum.ledger.zip_archive import unpack_archive
from forum.tlog import hash_leaf
from tests.docs.deliberated import deliberation_examples
from tests.verify.conversations import conversation
from tests.verify.samples import (
    LOG,
    POLICY,
    TRUST,
    make_bundle,
    standalone,
    stranger,
)

SPEC = Path(__file__).parents[2] / "docs/spec"
BLOCK = re.compile(r"(<!-- example: ([a-z-]+) -->\n```[a-z]*\n)(.*?)(?=```)", re.DOTALL)
"""A marked block: its opening lines, its name, and what it holds."""

ANSWER, CLOSE, REDACTION = (f"{index:016}" for index in (5, 7, 9))


def examples() -> dict[str, str]:
    """Return the content of every example by its name."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = make_bundle(Path(folder))
    files = unpack_archive(bundle)
    report = standalone.verify(bundle, stranger(TRUST))
    shared = unpack_archive(conversation(4, 600))
    first = min(files)
    directory = sum(30 + len(name) + len(data) for name, data in files.items())
    made = {
        "log-key": str(LOG.verifier()),
        "policy": POLICY.encode().decode(),
        "run-open": _entry(files, f"{2:016}"),
        "answer": _entry(files, ANSWER),
        "answer-id": hash_leaf(files[f"entries/{ANSWER}.json"]).hex(),
        "answer-salt": files[f"salts/{ANSWER}/text"].hex(),
        "close": _entry(files, CLOSE),
        "strands": files[f"bodies/{CLOSE}/strands"].decode(),
        "redaction": _entry(files, REDACTION),
        "names": "\n".join(f"{len(files[name]):>5}  {name}" for name in sorted(files)),
        "first-header": _hex(bundle[: 30 + len(first)]),
        "first-directory": _hex(bundle[directory : directory + 46 + len(first)]),
        "end": _hex(bundle[-22:]),
        "manifest-begin": files["manifest.json"][:230].decode() + "...",
        "checkpoint": files["checkpoint"].decode(),
        "proof": files[f"proofs/{ANSWER}.inclusion"].decode(),
        "pieces": "\n".join(
            f"{len(data):>5}  {name}" for name, data in shared.items() if name.startswith("pieces/")
        ),
        "lists": "\n".join(
            f"{name}\n{data.decode()}" for name, data in shared.items() if name.startswith("spans/")
        ),
        "consistency": files[f"past/{8:016}.consistency"].decode(),
        "answers": "\n".join(
            f"{claim:<12} {report[claim]['state']:<6} {report[claim]['reason']}"
            for claim in standalone.CLAIMS
        ),
        **deliberation_examples(),
    }
    return {name: f"{text.rstrip()}\n" for name, text in made.items()}


def _entry(files: dict[str, bytes], index: str) -> str:
    return files[f"entries/{index}.json"].decode()


def _hex(data: bytes) -> str:
    """Write bytes as lines of sixteen, with the text that is in them."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        shown = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in row)
        lines.append(f"{row.hex(' '):<47}  {shown}")
    return "\n".join(lines)


def main() -> None:
    """Write every example into its page."""
    made = examples()
    for page in sorted(SPEC.glob("*.md")):
        text = page.read_text()
        page.write_text(BLOCK.sub(lambda block: block[1] + made[block[2]], text))


if __name__ == "__main__":
    main()
