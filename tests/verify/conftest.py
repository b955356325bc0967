"""What the tests of verification may ask for: ledgers on which an engine has worked."""

from tests.engine.conftest import factory, folder, office

__all__ = ["factory", "folder", "office"]
