"""The token of a project's operator: a secret in a file that only its owner can read.

Whoever can read the file may do everything with the project over HTTP, as they may with its keys
and its database.  Nobody else can: no address, no network and no proxy stands for the operator.
"""

import os
import stat
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path

from forum.backends.state_files import lock_file, write_durably
from forum.errors import KeyUnreadable
from forum.ledger import OPERATOR_TOKEN_PREFIX, is_operator_token


class OperatorToken:
    """The token in a file.  It is read each time, so that a new one holds at once everywhere."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str | None:
        """Return the token, or nothing when none was made.  Raises `KeyUnreadable`."""
        try:
            with self.path.open("rb") as file:
                mode, data = os.fstat(file.fileno()).st_mode, file.read(1024)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KeyUnreadable(str(self.path), error.strerror or str(error)) from None
        token = data.decode("ascii", errors="replace").strip()
        # A secret that others could read is none: it must be replaced, not only hidden.
        if stat.S_IMODE(mode) & 0o077:
            why = "other users can read this token; replace it: forum token --rotate"
            raise KeyUnreadable(str(self.path), why)
        if not is_operator_token(token):
            raise KeyUnreadable(str(self.path), "it holds no token; forum token --rotate makes one")
        return token

    def get_or_create(self) -> str:
        """Return the token; make one where there is none."""
        token = self.read()
        if token is not None:
            return token
        with lock_file(self.path):
            return self.read() or self._write()

    def rotate(self) -> str:
        """Replace the token.  The old one opens nothing from now on."""
        with lock_file(self.path):
            return self._write()

    def matches(self, shown: str) -> bool:
        """Tell whether this is the token.  A file that cannot be trusted opens nothing."""
        with suppress(KeyUnreadable):
            token = self.read()
            return token is not None and compare_digest(token, shown)
        return False

    def _write(self) -> str:
        token = f"{OPERATOR_TOKEN_PREFIX}{os.urandom(32).hex()}"
        write_durably(self.path, f"{token}\n".encode())
        return token
