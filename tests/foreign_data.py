"""Data that others have made: used where their folder is, and reported as left out elsewhere.

A clone has data of its own for every test that needs some.  Vectors, schemas and sessions of other
projects lie beside the repository, or where FORUM_SHARED says, and check us against others.
"""

import os
from pathlib import Path

import pytest

FOREIGN = Path(os.environ.get("FORUM_SHARED", Path(__file__).parents[2] / "shared"))
LEFT_OUT = "left out: foreign data are not here"
IS_HERE = all((FOREIGN / name).is_dir() for name in ("vectors", "symposium", "routing"))

needs_foreign_data = pytest.mark.skipif(not IS_HERE, reason=LEFT_OUT)


def foreign(path: str) -> Path:
    """Return a file or folder of foreign data; without them, leave the test out."""
    if not IS_HERE:
        pytest.skip(LEFT_OUT)
    return FOREIGN / path
