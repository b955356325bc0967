"""A witness that really serves, in a process of its own."""

from collections.abc import Iterator

import pytest

from tests.features.witness.serving import Served


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a running `forum witness serve` that all tests of the room share."""
    with Served(tmp_path_factory.mktemp("witness")) as server:
        yield server
