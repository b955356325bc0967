"""The witness of this machine, and the other witnesses that cosign the log."""

from functools import cached_property
from typing import TYPE_CHECKING

from forum import tlog
from forum.app.project import ProjectContext
from forum.app.witness_server import open_witness, trust_log
from forum.errors import (
    StoreFailed,
    WitnessUnreachable,
)

if TYPE_CHECKING:
    from forum.witness import Witness, WitnessClient, WitnessReply


class LocalWitness:
    """Holds the witness of this machine, and reaches the other witnesses of the log."""

    def __init__(self, project: ProjectContext) -> None:
        self._project = project

    @cached_property
    def local(self) -> "Witness":
        """The witness of this machine; its key and memory are outside every ledger."""
        return open_witness(self._project.settings.state / "witness")

    def trust_locally(self) -> None:
        """Register this log with the local witness, and write a default policy if there is none."""
        from forum.backends.state_files import make_private_folder, write_durably

        trust_log(self._project.settings.state / "witness", self._project.verifier)
        if not self._project.policy_file.exists():
            witness = tlog.KnownWitness("local", self.local.verifier)
            policy = tlog.WitnessPolicy(
                (tlog.KnownLog(self._project.verifier),), (witness,), (), "local"
            )
            make_private_folder(self._project.policy_file.parent)
            write_durably(self._project.policy_file, policy.encode())

    def cosigners(self) -> "list[WitnessClient]":
        """Return a client for each witness of the policy that can be reached from here."""
        from forum.witness import WitnessClient, http_sender

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
