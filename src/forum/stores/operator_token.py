"""The operator token of a project: a secret in a file that only its owner can read.

A user who can read the file has full access to the project over HTTP, just as with its keys and its
database.  The token is the only proof: no client address, network or proxy counts as the operator.
"""

import os
import stat
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path

from forum.errors import KeyUnreadable
from forum.ledger.access import OPERATOR_TOKEN_PREFIX, is_operator_token
from forum.stores.state_files import lock_file, write_durably


class OperatorToken:
    """The token in a file, read on every use, so that a rotation takes effect immediately."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str | None:
        """Return the token, or None if there is no file.

        Raises `KeyUnreadable` if the file is unreadable, not private or malformed.
        """
        try:
            with self.path.open("rb") as file:
                mode, data = os.fstat(file.fileno()).st_mode, file.read(1024)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KeyUnreadable(str(self.path), error.strerror or str(error)) from None
        token = data.decode("ascii", errors="replace").strip()
        # A token that other users could read may be known to them.  Changing the mode of the file
        # is not enough: the token must be replaced.
        if stat.S_IMODE(mode) & 0o077:
            why = "other users can read this token; replace it: forum token --rotate"
            raise KeyUnreadable(str(self.path), why)
        if not is_operator_token(token):
            raise KeyUnreadable(str(self.path), "it holds no token; forum token --rotate makes one")
        return token

    def get_or_create(self) -> str:
        """Return the token, and create it if there is none."""
        token = self.read()
        if token is not None:
            return token
        with lock_file(self.path):
            return self.read() or self._write()

    def rotate(self) -> str:
        """Replace the token and return the new one; the old one is invalid immediately."""
        with lock_file(self.path):
            return self._write()

    def matches(self, shown: str) -> bool:
        """Return whether this is the token; False if the file is missing or not trustworthy."""
        with suppress(KeyUnreadable):
            token = self.read()
            return token is not None and compare_digest(token, shown)
        return False

    def _write(self) -> str:
        token = f"{OPERATOR_TOKEN_PREFIX}{os.urandom(32).hex()}"
        write_durably(self.path, f"{token}\n".encode())
        return token
