"""`verify.html`: one page that verifies evidence bundles in the reader's browser."""

from forum.features.evidence.verify_page.build import build_page

__all__ = ["build_page"]
