"""Writes the SHA-256 of `verify.html` into its guide; `just docs` runs it."""

import re
from hashlib import sha256

from forum.features.evidence.verify_page import build_page
from tests.docs.pages import ROOT

GUIDE = ROOT / "docs/guides/verify-in-a-browser.md"
_DIGEST = re.compile(
    r"(?<=<!-- sha256 of verify.html -->\n```text\n)[0-9a-f]{64}(?=  verify.html\n)"
)


def render() -> str:
    """Return the guide with the digest of the page as it is built."""
    digest = sha256(build_page().encode()).hexdigest()
    text, count = _DIGEST.subn(digest, GUIDE.read_text())
    if count != 1:
        raise ValueError(f"{GUIDE} has {count} digests of the page, not one")
    return text


def main() -> None:
    """Write the digest."""
    GUIDE.write_text(render())


if __name__ == "__main__":
    main()
