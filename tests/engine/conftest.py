"""What the tests of the engine may ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.office import Office
from tests.support import StoreFactory


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[StoreFactory]:
    """Return what opens one ledger file again and again, as other processes would."""
    factory = StoreFactory(tmp_path / "ledger.db")
    yield factory
    factory.close()


@pytest.fixture
def office(factory: StoreFactory) -> Office:
    """Return a process that works on a ledger file."""
    return Office(factory())
