"""The checks of witnesses and their quorum in `forum doctor`."""

import shlex
from collections.abc import Iterator

from forum import errors, tlog
from forum.features.witness.client import http_sender
from forum.surfaces.cli.doctor import (
    DoctorCheck,
    DoctorFinding,
    DoctorState,
    Installation,
    MachineRole,
    short_path,
)


def _check_witnesses(context: Installation) -> Iterator[DoctorFinding]:
    if not context.origin or (context.store is None and not context.forum.policy_file.exists()):
        return
    policy, reached = context.forum.policy, []
    for witness in policy.witnesses:
        finding = _check_witness(context, witness)
        reached += [witness.key] if finding.state is DoctorState.OK else []
        yield finding
    note = context.store.checkpoint() if context.store else None
    witnessed = note is None or tlog.is_witnessed(tlog.Note.parse(note), policy)
    file = short_path(context.forum.policy_file)
    if not policy.is_satisfied_by(reached):
        text = f"the quorum {policy.quorum!r} of {file} cannot be met"
        step = "bring the witnesses above back, or edit the trust file"
        yield DoctorFinding("quorum", DoctorState.PROBLEM, text, step)
    elif not witnessed:
        text = f"{policy.quorum!r} can be met, but the newest checkpoint was not cosigned so"
        step = "forum worker, on the machine that signs"
        yield DoctorFinding("quorum", DoctorState.WARNING, text, step)
    else:
        yield DoctorFinding("quorum", DoctorState.OK, f"{policy.quorum!r} can be met ({file})")


def _check_witness(context: Installation, witness: tlog.KnownWitness) -> DoctorFinding:
    folder, name = context.settings.state / "witness", witness.name
    if (folder / "witness.key").is_file() and context.forum.witnesses.own_key == witness.key:
        return DoctorFinding("witness", DoctorState.OK, f"{name}: on this machine")
    if not witness.url:
        text = f"{name}: neither on this machine nor with an address"
        step = f"add its address to its line in {shlex.quote(str(context.forum.policy_file))}"
        return DoctorFinding("witness", DoctorState.WARNING, text, step)
    try:
        # An empty request is malformed: it shows that a witness answers, and changes nothing there.
        status = http_sender(witness.key.name, witness.url)(b"").status
    except errors.WitnessUnreachable as error:
        step = f"on its machine: forum witness serve ({witness.url})"
        return DoctorFinding("witness", DoctorState.WARNING, str(error), step)
    if status != 400:  # C2SP tlog-witness: the response to a malformed request
        text = f"{name}: {witness.url} answers with status {status}, not as a witness does"
        step = "correct its address in the trust file"
        return DoctorFinding("witness", DoctorState.WARNING, text, step)
    return DoctorFinding("witness", DoctorState.OK, f"{name}: {witness.url} answers")


CHECKS = (
    DoctorCheck("witness", _check_witnesses, frozenset({MachineRole.SIGNER}), after="strands"),
)
