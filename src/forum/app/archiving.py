"""The port through which ended runs are archived; the feature for archives is behind it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from forum.app.clock_ids_and_kinds import KINDS
from forum.app.project import ProjectContext
from forum.errors import ArchiveUnreachable, FeatureMissing
from forum.feature import load_only_part
from forum.features import FEATURES
from forum.ledger.archive import read_archive_record
from forum.ledger.body_eraser import ArchiveEraser
from forum.ledger.ports import Position
from forum.ledger.sequencer import Publication

if TYPE_CHECKING:
    from forum.verify import Trust


class RejectedRun(Struct, frozen=True):
    """A run that was not archived, and why."""

    run: str
    why: str


class ArchiveResult(Struct, frozen=True):
    """What `archive_runs` did."""

    archived: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    """Runs that ended early enough, but that an open run still needs."""
    rejected: tuple[RejectedRun, ...] = ()


class RunArchiver(ArchiveEraser, Protocol):
    """Archives the runs of one log, and erases redacted bodies there."""

    @property
    def unreachable(self) -> Mapping[str, ArchiveUnreachable]:
        """The archives that could not be reached during an erasure, by run or place."""

    def archive_runs(self, before: int, place: str) -> ArchiveResult:
        """Archive the runs that ended before a time (microseconds since 1970), and return them."""


class NoArchiver:
    """Stands where no feature reaches archives: a body that is in one cannot be erased."""

    def __init__(self, project: ProjectContext, *_: object) -> None:
        self._project = project
        self.unreachable: dict[str, ArchiveUnreachable] = {}

    def archive_runs(self, before: int, place: str) -> ArchiveResult:  # noqa: ARG002  the port's
        """Raise `FeatureMissing`."""
        raise FeatureMissing("archives", "archive")

    def erase_body(self, position: Position, name: str) -> bool:  # noqa: ARG002  the port's
        """Return False.  Raises `FeatureMissing` for a body of an archived run."""
        if read_archive_record(self._project.store, KINDS, position.run) is not None:
            raise FeatureMissing("archives", "archive")
        return False

    def skip(self, error: ArchiveUnreachable) -> None:
        """Raise the error: nothing here could repeat the erasure."""
        raise error


def make_archiver(
    project: ProjectContext, publish: Callable[[], Publication], read_trust: "Callable[[], Trust]"
) -> RunArchiver:
    """Return what archives the runs of a project's log."""
    make: Callable[..., RunArchiver] = NoArchiver
    return load_only_part(FEATURES, "archiver", make)(project, publish, read_trust)
