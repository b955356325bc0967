"""What the tests of the engine may ask for."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forum.engine import context
from tests.engine.office import Office
from tests.support import StoreFactory

MEMORY = Path("/dev/shm")  # noqa: S108


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory: here nothing is about disks, and there are very many commits."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def factory(folder: Path) -> Iterator[StoreFactory]:
    """Return what opens one ledger file again and again, as other processes would."""
    factory = StoreFactory(folder / "ledger.db")
    yield factory
    factory.close()


@pytest.fixture(params=["owned", "shared"])
def ownership(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drive runs with all of their tasks, and as one worker of many that share the tasks."""
    monkeypatch.setattr(context, "MAX_OWN_TASKS", 100 if request.param == "owned" else 0)


@pytest.fixture
def office(factory: StoreFactory) -> Office:
    """Return a process that works on a ledger file."""
    return Office(factory())
