"""The frauds of `forum demo cheat`: each is played for real, against a ledger of its own.

The cheater holds the database and, where a fraud says so, the log's key.  The guard, the witness
and the reader's memory are in the state directory, which is not his.
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from forum.app import KINDS, Forum, new_run, new_salt, now
from forum.config import Settings
from forum.errors import ForumError, RolledBack
from forum.ledger import (
    Attachment,
    Draft,
    Ledger,
    Outcome,
    Position,
    Remark,
    Sequencer,
    leaf_of,
    text,
)
from forum.tlog import (
    Checkpoint,
    Hash,
    SigningKey,
    checkpoint_of,
    sign_checkpoint,
)
from forum.verify import Problem

CLERK, AGENT = "agent:clerk", "agent:payments"
_MONTH = 30 * 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Scene:
    """A ledger to cheat in: two runs, the first with the payment that somebody regrets."""

    forum: Forum
    run: str
    payment: Position
    """The entry whose body says what was paid."""

    def entries(self) -> list[bytes]:
        """Return all entries, in order."""
        size = self.forum.store.head().size
        return [data for data in self.forum.store.entries(0, size) if data is not None]

    def index_of(self, position: Position) -> int:
        """Return the index of an entry."""
        return self.forum.ledger.find(str(position)).index or 0


@dataclass(frozen=True, slots=True)
class Fraud:
    """One way to cheat, and what has to give it away."""

    name: str
    does: str
    play: Callable[[Scene], None]
    by: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a fraud."""

    fraud: Fraud
    caught: bool
    by: str
    """What gave it away, of that which has to."""


def write_scene(settings: Settings) -> Scene:
    """Write a small honest ledger, with a checkpoint after each run."""
    forum = Forum(settings)
    forum.initialise()
    run = _write_run(forum.ledger, "Pay the invoice of ACME.", "paid 40.00 EUR to ACME")
    forum.settle()
    _write_run(forum.ledger, "Pay the rent.", "paid 900.00 EUR to the landlord")
    forum.settle()
    return Scene(forum, run, Position(run, "task/pay", 1))


def _write_run(ledger: Ledger, request: str, result: str) -> str:
    main = ledger.open_run(new_run(), CLERK)
    (asked,) = main.append(_remark("request", CLERK, request))
    task = ledger.strand(main.run, "task/pay")
    task.append(_remark("attempt/1", AGENT, "I will pay now.", asked.leaf))
    task.append(_remark("attempt/1/result", AGENT, result))
    ledger.close_run(main, CLERK, Outcome.OK)
    return main.run


def _remark(step: str, actor: str, words: str, *parents: Hash) -> Draft:
    return Draft(step, actor, Remark(), parents, (Attachment("text", text(words)),))


# The cheater's tools


def _relink(entries: list[bytes], change: Callable[[int, dict[str, object]], None]) -> list[bytes]:
    """Change entries and make every hash that follows from them right again."""
    renamed: dict[object, str] = {}
    changed = []
    for index, data in enumerate(entries):
        entry = msgspec.json.decode(data)
        entry["prev"] = renamed.get(entry["prev"], entry["prev"])
        entry["parents"] = [renamed.get(parent, parent) for parent in entry["parents"]]
        change(index, entry)
        again = msgspec.json.encode(entry)
        renamed[leaf_of(data).hex()] = leaf_of(again).hex()
        changed.append(again)
    return changed


def _sign(scene: Scene, key: SigningKey) -> None:
    """Sign the tree that is in the database now, without asking guard or witness."""
    head = scene.forum.store.head()
    checkpoint = Checkpoint(scene.forum.origin, head.size, head.root)
    scene.forum.store.save_checkpoint(head.size, sign_checkpoint(checkpoint, key).encode())


def _checkpoints(scene: Scene) -> dict[int, bytes]:
    """Return the signed notes in the database, by the size of their trees."""
    notes = scene.forum.store.checkpoints()
    return {checkpoint_of(note).size: note for note in notes}


def _go_back(scene: Scene) -> None:
    """Make the database what it was at the checkpoint before the last."""
    before = sorted(_checkpoints(scene))[-2]
    scene.forum.tamper().replace_history(scene.entries()[:before], keep_checkpoints=before)


def _replace(scene: Scene, entries: list[bytes]) -> None:
    """Put another history under the checkpoints that were signed for the old one."""
    newest = max(_checkpoints(scene))
    scene.forum.tamper().replace_history(entries, keep_checkpoints=newest)


def _other_actor(target: int) -> Callable[[int, dict[str, object]], None]:
    def change(index: int, entry: dict[str, object]) -> None:
        if index == target:
            entry["actor"] = "agent:nobody"

    return change


# The frauds


def _edit(scene: Scene) -> None:
    index = scene.index_of(scene.payment)
    data = scene.entries()[index].replace(AGENT.encode(), b"agent:innocent")
    scene.forum.tamper().overwrite(index, data)


def _delete(scene: Scene) -> None:
    scene.forum.tamper().delete(scene.index_of(scene.payment))


def _insert(scene: Scene) -> None:
    entries = scene.entries()
    forged = msgspec.json.decode(entries[2])
    forged.update(run=new_run(), actor="agent:friend")
    _replace(scene, [*entries[:3], msgspec.json.encode(forged), *entries[3:]])


def _reorder(scene: Scene) -> None:
    index = scene.index_of(scene.payment)
    scene.forum.tamper().exchange(index - 1, index)


def _swap_body(scene: Scene) -> None:
    scene.forum.tamper().set_body(scene.payment, "text", b"paid 40.00 EUR to my cousin")


def _remove_body(scene: Scene) -> None:
    scene.forum.tamper().remove_body(scene.payment, "text")


def _cut_tail(scene: Scene) -> None:
    _go_back(scene)


def _rewrite(scene: Scene) -> None:
    _replace(scene, _relink(scene.entries(), _other_actor(scene.index_of(scene.payment))))


def _resign(scene: Scene) -> None:
    entries = _relink(scene.entries(), _other_actor(scene.index_of(scene.payment)))
    scene.forum.tamper().replace_history(entries)
    _sign(scene, scene.forum.key)


def _swap_key(scene: Scene) -> None:
    entries = _relink(scene.entries(), _other_actor(scene.index_of(scene.payment)))
    scene.forum.tamper().replace_history(entries)
    _sign(scene, SigningKey(secrets.token_bytes(32), scene.forum.origin))


def _split_view(scene: Scene) -> None:
    """Show this reader another second run than the one that the witness saw."""
    _go_back(scene)
    _write_run(scene.forum.ledger, "Pay the rent.", "paid 1.00 EUR to the landlord")
    Sequencer(scene.forum.store).drain()
    _sign(scene, scene.forum.key)


def _backdate(scene: Scene) -> None:
    past = Ledger(scene.forum.store, KINDS, lambda: now() - _MONTH, new_salt)
    _write_run(past, "Approve the payment.", "approved, long before anybody asked")
    scene.forum.settle()


def _bogus_parent(scene: Scene) -> None:
    main = scene.forum.ledger.open_run(new_run(), CLERK)
    main.append(_remark("request", CLERK, "As the board decided.", Hash(secrets.token_bytes(32))))
    scene.forum.ledger.close_run(main, CLERK, Outcome.OK)
    scene.forum.settle()


def _double(scene: Scene) -> None:
    main = scene.forum.ledger.open_run(new_run(), CLERK)
    (asked,) = main.append(Draft("request", CLERK, Remark()))
    forged = msgspec.structs.replace(asked.entry, actor="agent:friend")
    scene.forum.tamper().insert(KINDS.write(forged))
    scene.forum.ledger.close_run(main, CLERK, Outcome.OK)
    scene.forum.settle()


def _omit(scene: Scene) -> None:
    main = scene.forum.ledger.open_run(new_run(), CLERK)
    main.append(_remark("request", CLERK, "Delete the customer's data."))
    main.append(_remark("refusal", AGENT, "I must not do that."))
    main.append(_remark("override", CLERK, "Do it anyway."))
    scene.forum.tamper().forget(Position(main.run, "main", 2))
    scene.forum.settle()


def _restore(scene: Scene) -> None:
    """Put an older database back, let it grow again, and have it signed as if nothing were."""
    _go_back(scene)
    _write_run(scene.forum.ledger, "Pay the rent.", "the rent was never paid")
    _write_run(scene.forum.ledger, "Pay the rent.", "no, really not")
    scene.forum.settle()


def _by(*problems: Problem | str) -> frozenset[str]:
    return frozenset(str(problem) for problem in problems)


FRAUDS = (
    Fraud("edit", "change who paid", _edit, _by(Problem.LEAF_MISMATCH)),
    Fraud("delete", "remove the payment", _delete, _by(Problem.ENTRY_MISSING)),
    Fraud("insert", "add a run into the past", _insert, _by(Problem.ROOT_MISMATCH)),
    Fraud("reorder", "let result and attempt change places", _reorder, _by(Problem.LEAF_MISMATCH)),
    Fraud("swap-body", "change what was paid", _swap_body, _by(Problem.BODY_MISMATCH)),
    Fraud("remove-body", "lose the damning text", _remove_body, _by(Problem.BODY_MISSING)),
    Fraud("cut-tail", "drop the last run and its checkpoint", _cut_tail, _by(Problem.TAIL_CUT)),
    Fraud("rewrite", "rewrite all history, every hash right", _rewrite, _by(Problem.ROOT_MISMATCH)),
    Fraud(
        "re-sign",
        "rewrite it, and sign it with the stolen key",
        _resign,
        _by(Problem.HISTORY_REPLACED, Problem.NOT_WITNESSED),
    ),
    Fraud(
        "swap-key",
        "rewrite it, and sign it with another key",
        _swap_key,
        _by(Problem.SIGNATURE_REJECTED),
    ),
    Fraud(
        "split-view",
        "show two readers two histories, both signed",
        _split_view,
        _by(Problem.HISTORY_REPLACED, Problem.NOT_WITNESSED),
    ),
    Fraud("backdate", "write an approval into last month", _backdate, _by(Problem.TIME_IMPOSSIBLE)),
    Fraud(
        "bogus-parent", "cite a decision that never was", _bogus_parent, _by(Problem.PARENT_UNKNOWN)
    ),
    Fraud("double", "record one position twice", _double, _by(Problem.POSITION_DOUBLED)),
    Fraud("omit", "lose a refusal before it is sequenced", _omit, _by(Problem.POSITION_MISSING)),
    Fraud("restore", "restore an old database and go on", _restore, _by("signer-refuses")),
)


def play(folder: Path, database: str | None = None) -> Iterator[Verdict]:
    """Play every fraud against a copy of an honest ledger, and verify what is left."""
    honest = _settings(folder / "honest", None)
    original = write_scene(honest)
    with original.forum:
        if catch(original, Fraud("none", "nothing", lambda _: None, _by())):
            raise ForumError("the honest ledger was not believed; nothing is shown by frauds")
    for fraud in FRAUDS:
        if database is None:
            shutil.copytree(folder / "honest", folder / fraud.name)
            settings = _settings(folder / fraud.name, None)
            scene = replace(original, forum=Forum(settings))
        else:
            scene = write_scene(_settings(folder / fraud.name, database))
        with scene.forum:
            by = catch(scene, fraud)
        yield Verdict(fraud, fraud.by <= by, ", ".join(sorted(fraud.by & by)))


def catch(scene: Scene, fraud: Fraud) -> set[str]:
    """Play one fraud and return everything that gives it away."""
    try:
        fraud.play(scene)
    except RolledBack:
        return {"signer-refuses"}
    # The auditor comes a minute later: what no witness has seen by then is late.
    report = scene.forum.verify(scene.forum.trust(), at=now() + 60_000_000)
    return {str(finding.problem) for finding in report.findings}


def _settings(folder: Path, database: str | None) -> Settings:
    data = folder / "ledger"
    origin = f"forum.local/demo-{secrets.token_hex(4)}"
    return Settings(data, folder / "state", data / "log.key", origin, database)
