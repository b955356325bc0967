"""The witness of this machine, and the other witnesses that cosign the log."""

from functools import cached_property
from typing import TYPE_CHECKING

from forum import tlog
from forum.app.project import ProjectContext
from forum.errors import (
    StoreFailed,
    WitnessUnreachable,
)
from forum.features.witness.service import open_witness, trust_log

if TYPE_CHECKING:
    from forum.features.witness.client import WitnessClient
    from forum.features.witness.witness import Witness, WitnessReply


class LocalWitness:
    """Holds the witness of this machine, and reaches the other witnesses of the log."""

    def __init__(self, project: ProjectContext) -> None:
        self._project, self._folder = project, project.settings.state / "witness"

    @cached_property
    def local(self) -> "Witness":
        """The witness of this machine; its key and memory are outside every ledger."""
        return open_witness(self._folder)

    @property
    def own_key(self) -> tlog.VerifierKey:
        """The key of the witness of this machine."""
        return self.local.verifier

    def trust_key(
        self, key: tlog.VerifierKey, follows: tlog.VerifierKey, *, alone: bool = False
    ) -> None:
        """Let the local witness cosign this log by a further key, or with `alone` by it alone."""
        trust_log(self._folder, key, follows, alone=alone)

    def trust_locally(self) -> None:
        """Register this log with the local witness, and write a default policy if there is none."""
        from forum.stores.state_files import make_private_folder, write_durably

        trust_log(self._folder, self._project.verifier)
        if not self._project.policy_file.exists():
            witness = tlog.KnownWitness("local", self.local.verifier)
            policy = tlog.WitnessPolicy(
                (tlog.KnownLog(self._project.verifier),), (witness,), (), "local"
            )
            make_private_folder(self._project.policy_file.parent)
            write_durably(self._project.policy_file, policy.encode())

    def cosigners(self) -> "list[WitnessClient]":
        """Return a client for each witness of the policy that can be reached from here."""
        from forum.features.witness.client import WitnessClient, http_sender

        clients = []
        for witness in self._project.policy.witnesses:
            name = witness.key.name
            if witness.key == self.local.verifier:
                clients.append(WitnessClient(name, self._ask_own_witness))
            elif witness.url:
                clients.append(WitnessClient(name, http_sender(name, witness.url)))
        return clients

    def _ask_own_witness(self, body: bytes) -> "WitnessReply":
        """Ask the witness of this machine; report a fault of its files as `WitnessUnreachable`."""
        try:
            return self.local.add_checkpoint(body)
        except (StoreFailed, OSError) as error:
            raise WitnessUnreachable(self.local.verifier.name, str(error)) from error
