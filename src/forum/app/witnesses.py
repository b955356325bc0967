"""The port through which a log is cosigned; the feature for witnesses is behind it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from forum import tlog
from forum.app.project import ProjectContext
from forum.errors import FeatureMissing
from forum.feature import load_only_part
from forum.features import FEATURES
from forum.ledger.ports import Cosigner


class Witnesses(Protocol):
    """The witness of this machine, and how the others that the policy names are reached."""

    @property
    def own_key(self) -> tlog.VerifierKey | None:
        """The key of the witness of this machine; None if it has none."""

    def trust_locally(self) -> None:
        """Register this log with the local witness, and write a default policy if there is none."""

    def trust_key(
        self, key: tlog.VerifierKey, follows: tlog.VerifierKey, *, alone: bool = False
    ) -> None:
        """Let the local witness cosign this log by a further key, or with `alone` by it alone."""

    def cosigners(self) -> Sequence[Cosigner]:
        """Return those of the policy that can be reached from here."""


class NoWitnesses:
    """Stands where no feature reaches witnesses: a policy that names some cannot be met."""

    own_key = None

    def __init__(self, project: ProjectContext) -> None:
        self._project = project

    def trust_locally(self) -> None:
        """Write a policy without witnesses if there is none."""
        from forum.stores.state_files import make_private_folder, write_durably

        if not self._project.policy_file.exists():
            policy = tlog.WitnessPolicy((tlog.KnownLog(self._project.verifier),), (), (), "none")
            make_private_folder(self._project.policy_file.parent)
            write_durably(self._project.policy_file, policy.encode())

    def trust_key(
        self, key: tlog.VerifierKey, follows: tlog.VerifierKey, *, alone: bool = False
    ) -> None:
        """Do nothing."""

    def cosigners(self) -> Sequence[Cosigner]:
        """Return none.  Raises `FeatureMissing` if the policy names witnesses."""
        if self._project.policy.witnesses:
            raise FeatureMissing(f"the witnesses in {self._project.policy_file}", "witness")
        return ()


def find_witnesses(project: ProjectContext) -> Witnesses:
    """Return the witnesses of a project."""
    make: Callable[[ProjectContext], Witnesses] = NoWitnesses
    return load_only_part(FEATURES, "witnesses", make)(project)
