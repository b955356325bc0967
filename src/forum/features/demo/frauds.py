"""The frauds of `forum demo cheat`, each committed against a ledger of its own.

The attacker controls the database and, where a fraud says so, the log's key. The guard, the witness
and the reader's memory are in the state directory, which the attacker does not control.
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from forum import app, errors, tlog
from forum.app.run_list import RunQuery
from forum.config import Settings
from forum.engine import IdempotencyKey, RunRequest
from forum.features.demo.tampering import DatabaseTamperer, open_again, open_tamperer, own_database
from forum.ledger import kinds
from forum.ledger.access import ACCESS_STRAND, DENIALS_STRAND
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Facts, leaf_of
from forum.ledger.key_rotation import KEYS_STRAND
from forum.ledger.log import Ledger
from forum.ledger.own_entries import WITNESSED_STRAND
from forum.ledger.ports import Position, PublisherStore
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.ledger.run_directory import RunDirectory
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import RUNS_STRAND, Attachment, Draft
from forum.ledger.witness_records import WitnessRecorder
from forum.runs.plan import RunBudget
from forum.verify import Problem

CLERK, AGENT = "agent:clerk", "agent:payments"
_ADMIN_GRANT = kinds.AccessGrantFacts("0badc0de0bad", "me", (kinds.GrantScope.ADMIN,), "0" * 64)
_MONTH = 30 * 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class TamperScene:
    """A ledger to tamper with: two runs, the first with the payment that the frauds target."""

    forum: app.Forum
    run: str
    payment: Position
    """The entry whose body says what was paid."""

    @property
    def tamperer(self) -> DatabaseTamperer:
        """The attacker's access to the database."""
        return open_tamperer(self.forum)

    def entries(self) -> list[bytes]:
        """Return all entries, in order."""
        size = self.forum.store.head().size
        return [row.data for row in self.forum.store.rows(0, size) if row is not None]

    def index_of(self, position: Position) -> int:
        """Return the index of an entry."""
        return self.forum.ledger.find_entry(str(position)).index or 0


@dataclass(frozen=True, slots=True)
class TamperCase:
    """A fraud, and the findings that must detect it."""

    name: str
    does: str
    play: Callable[[TamperScene], None]
    by: frozenset[str]
    changes_schema: bool = False
    """Whether it changes the database for all logs, so that it needs one of its own."""


@dataclass(frozen=True, slots=True)
class TamperResult:
    """The outcome of a fraud."""

    fraud: TamperCase
    caught: bool
    by: str
    """The expected findings that detected it."""


def create_scene(settings: Settings) -> TamperScene:
    """Write a small honest ledger, with a checkpoint after each run."""
    forum = app.Forum(settings)
    forum.keys.initialise()
    run = _write_run(forum.ledger, "Pay the invoice of ACME.", "paid 40.00 EUR to ACME")
    forum.log.publish()
    _write_run(forum.ledger, "Pay the rent.", "paid 900.00 EUR to the landlord")
    forum.log.publish()
    return TamperScene(forum, run, Position(run, "task/pay", 1))


def _write_run(ledger: Ledger, request: str, result: str) -> str:
    main = ledger.open_run(app.new_run_id(), CLERK)
    (recorded,) = main.append(_draft_note("request", CLERK, request))
    task = ledger.open_strand(main.run, "task/pay")
    task.append(_draft_note("attempt/1", AGENT, "I will pay now.", recorded.leaf))
    task.append(_draft_note("attempt/1/result", AGENT, result))
    ledger.close_run(main, CLERK, kinds.Outcome.OK)
    return main.run


def _draft_note(step: str, actor: str, words: str, *parents: tlog.Hash) -> Draft:
    return Draft(
        step=step,
        actor=actor,
        facts=kinds.NoteFacts(),
        parents=parents,
        bodies=(Attachment("text", text_content(words)),),
    )


def _change_actor(scene: TamperScene) -> list[bytes]:
    """Return the history with another actor of the payment, and every hash that depends on it."""
    target, renamed = scene.index_of(scene.payment), dict[object, str]()
    changed = []
    for index, data in enumerate(scene.entries()):
        entry = msgspec.json.decode(data)
        entry["prev"] = renamed.get(entry["prev"], entry["prev"])
        entry["parents"] = [renamed.get(parent, parent) for parent in entry["parents"]]
        if index == target:
            entry["actor"] = "agent:nobody"
        again = msgspec.json.encode(entry)
        renamed[leaf_of(data).hex()] = leaf_of(again).hex()
        changed.append(again)
    return changed


def _sign(store: PublisherStore, key: tlog.SigningKey) -> None:
    """Sign the current tree of the database, bypassing guard and witness."""
    head = store.head()
    checkpoint = tlog.Checkpoint(store.origin, head.size, head.root)
    store.save_checkpoint(head.size, tlog.sign_checkpoint(checkpoint, key).encode())


def _checkpoints(scene: TamperScene) -> dict[int, bytes]:
    """Return the signed notes in the database, by tree size."""
    notes = scene.forum.store.checkpoints()
    return {tlog.parse_checkpoint(note).size: note for note in notes}


def _replace_history(scene: TamperScene, entries: list[bytes]) -> None:
    """Replace the history under the checkpoints that were signed for the old one."""
    newest = max(_checkpoints(scene))
    scene.tamperer.replace_history(entries, keep_checkpoints=newest)


def _tag(scene: TamperScene, data: bytes) -> bytes:
    """Return the tag of an entry, as made by an attacker who also has the write key."""
    keys = scene.forum.write_keys
    return keys.tag_entry(data) if keys else b""


_cases: list[TamperCase] = []


def _fraud(
    name: str, does: str, *by: Problem | str, changes_schema: bool = False
) -> Callable[[Callable[[TamperScene], None]], Callable[[TamperScene], None]]:
    """Return a decorator that registers a fraud, with the findings that must detect it."""

    def register(play: Callable[[TamperScene], None]) -> Callable[[TamperScene], None]:
        _cases.append(
            TamperCase(name, does, play, by=frozenset(map(str, by)), changes_schema=changes_schema)
        )
        return play

    return register


@_fraud("edit", "change who paid", Problem.LEAF_MISMATCH)
def _edit(scene: TamperScene) -> None:
    index = scene.index_of(scene.payment)
    data = scene.entries()[index].replace(AGENT.encode(), b"agent:innocent")
    scene.tamperer.overwrite(index, data)


@_fraud("delete", "remove the payment", Problem.ENTRY_MISSING)
def _delete(scene: TamperScene) -> None:
    scene.tamperer.delete(scene.index_of(scene.payment))


@_fraud("insert", "add a run into the past", Problem.ROOT_MISMATCH)
def _insert(scene: TamperScene) -> None:
    entries = scene.entries()
    forged = msgspec.json.decode(entries[2])
    forged.update(run=app.new_run_id(), actor="agent:friend")
    _replace_history(scene, [*entries[:3], msgspec.json.encode(forged), *entries[3:]])


@_fraud("reorder", "let result and attempt change places", Problem.LEAF_MISMATCH)
def _reorder(scene: TamperScene) -> None:
    index = scene.index_of(scene.payment)
    scene.tamperer.swap_entries(index - 1, index)


@_fraud("swap-body", "change what was paid", Problem.BODY_MISMATCH)
def _swap_body(scene: TamperScene) -> None:
    scene.tamperer.set_body(scene.payment, "text", b"paid 40.00 EUR to my cousin")


@_fraud("remove-body", "lose the damning text", Problem.BODY_MISSING)
def _remove_body(scene: TamperScene) -> None:
    scene.tamperer.remove_body(scene.payment, "text")


@_fraud("cut-tail", "drop the last run and its checkpoint", Problem.TAIL_CUT)
def _roll_back(scene: TamperScene) -> None:
    """Roll the database back to the checkpoint before the last."""
    before = sorted(_checkpoints(scene))[-2]
    scene.tamperer.replace_history(scene.entries()[:before], keep_checkpoints=before)


@_fraud("rewrite", "rewrite all history, every hash right", Problem.ROOT_MISMATCH)
def _rewrite(scene: TamperScene) -> None:
    _replace_history(scene, _change_actor(scene))


@_fraud(
    "re-sign",
    "rewrite it, and sign it with the stolen key",
    Problem.HISTORY_REPLACED,
    Problem.NOT_WITNESSED,
)
def _resign(scene: TamperScene) -> None:
    scene.tamperer.replace_history(_change_actor(scene))
    _sign(scene.forum.store, scene.forum.key)


@_fraud("swap-key", "rewrite it, and sign it with another key", Problem.SIGNATURE_REJECTED)
def _swap_key(scene: TamperScene) -> None:
    scene.tamperer.replace_history(_change_actor(scene))
    _sign(scene.forum.store, tlog.SigningKey(secrets.token_bytes(32), scene.forum.origin))


@_fraud(
    "split-view",
    "show two readers two histories, both signed",
    Problem.HISTORY_REPLACED,
    Problem.NOT_WITNESSED,
)
def _split_view(scene: TamperScene) -> None:
    """Show this reader a different second run than the witness saw."""
    _roll_back(scene)
    keys, witnesses = scene.forum.write_keys, scene.forum.policy.witness_keys
    # Publishing would ask the guard and the witness, so the log is sequenced and signed by hand, in
    # a process that remembers nothing.
    with closing(open_again(scene.forum)) as store:
        ledger = Ledger(store, app.KINDS, app.now, app.new_salt, tags=keys)
        _write_run(ledger, "Pay the rent.", "paid 1.00 EUR to the landlord")
        composers = (RunDirectory(store), WitnessRecorder(store, witnesses))
        Sequencer(store, keys, writer=ledger.writer, composers=composers).drain()
        _sign(store, scene.forum.key)


@_fraud("backdate", "write an approval into last month", Problem.TIME_IMPOSSIBLE)
def _backdate(scene: TamperScene) -> None:
    keys = scene.forum.write_keys
    # The writer's clock is under the attacker's control.
    past = Ledger(scene.forum.store, app.KINDS, lambda: app.now() - _MONTH, app.new_salt, tags=keys)
    _write_run(past, "Approve the payment.", "approved, long before anybody asked")
    scene.forum.log.publish()


def _write_control(scene: TamperScene, strand: str, facts: Facts) -> None:
    """Write an entry of the log's own life with the write key, without the signer's second key."""
    keys = scene.forum.write_keys
    writer = Ledger(scene.forum.store, app.KINDS, app.now, app.new_salt, tags=keys)
    writer.append_log_entry(Draft(f"control/{secrets.token_hex(4)}", CLERK, facts), strand)
    scene.forum.log.publish()


@_fraud("forged-heir", "hand the log over with the write key", Problem.ROW_QUARANTINED)
def _hand_over(scene: TamperScene) -> None:
    heir = tlog.SigningKey(secrets.token_bytes(32), scene.forum.origin).verifier()
    own = scene.forum.key.verifier()
    _write_control(scene, KEYS_STRAND, kinds.KeyRotationFacts(str(own), str(heir)))


@_fraud("forged-release", "release all holds with the write key", Problem.ROW_QUARANTINED)
def _release_holds(scene: TamperScene) -> None:
    _write_control(scene, RETENTION_STRAND, kinds.HoldFacts("case-1", kinds.HoldAct.RELEASE))


@_fraud("forged-erasure", "erase the payment with the write key", Problem.ROW_QUARANTINED)
def _order_erasure(scene: TamperScene) -> None:
    target = scene.forum.ledger.find_entry(str(scene.payment))
    reason = kinds.RedactionReason.REQUEST
    facts = kinds.RedactionFacts(target.leaf.hex(), "text", reason)
    _write_control(scene, MAIN_STRAND, facts)


@_fraud("forged-seal", "end the log with the write key", Problem.ROW_QUARANTINED)
def _seal(scene: TamperScene) -> None:
    _write_control(scene, MAIN_STRAND, kinds.LogSealFacts("nobody needs it"))


def _strip(scene: TamperScene) -> None:
    """Take the cosignatures off all checkpoints in the database but the newest."""
    notes = _checkpoints(scene)
    for size in sorted(notes)[:-1]:
        note = tlog.Note.parse(notes[size])
        own = tuple(line for line in note.signatures if line.name == scene.forum.origin)
        notes[size] = tlog.Note(note.text, own).encode()
    scene.tamperer.replace_checkpoints(notes)


@_fraud("strip", "take witnesses off checkpoints", Problem.COSIGNATURE_MISSING)
def _strip_witnesses(scene: TamperScene) -> None:
    _strip(scene)


@_fraud(
    "backdate-strip",
    "backdate, then remove the proof",
    Problem.TIME_IMPOSSIBLE,
    Problem.COSIGNATURE_MISSING,
)
def _backdate_stripped(scene: TamperScene) -> None:
    _backdate(scene)
    _strip(scene)


@_fraud("bogus-parent", "cite a decision that never was", Problem.PARENT_UNKNOWN)
def _bogus_parent(scene: TamperScene) -> None:
    main = scene.forum.ledger.open_run(app.new_run_id(), CLERK)
    main.append(
        _draft_note("request", CLERK, "As the board decided.", tlog.Hash(secrets.token_bytes(32)))
    )
    scene.forum.ledger.close_run(main, CLERK, kinds.Outcome.OK)
    scene.forum.log.publish()


@_fraud("double", "record one position twice", Problem.ROW_QUARANTINED)
def _duplicate(scene: TamperScene) -> None:
    main = scene.forum.ledger.open_run(app.new_run_id(), CLERK)
    (recorded,) = main.append(Draft("request", CLERK, kinds.NoteFacts()))
    forged = msgspec.structs.replace(recorded.entry, actor="agent:friend")
    scene.tamperer.insert(app.KINDS.write(forged), _tag(scene, app.KINDS.write(forged)))
    scene.forum.log.publish()
    scene.forum.ledger.close_run(main, CLERK, kinds.Outcome.OK)
    scene.forum.log.publish()


@_fraud("omit", "lose a refusal before it is sequenced", Problem.POSITION_MISSING)
def _omit_entry(scene: TamperScene) -> None:
    main = scene.forum.ledger.open_run(app.new_run_id(), CLERK)
    main.append(_draft_note("request", CLERK, "Delete the customer's data."))
    main.append(_draft_note("refusal", AGENT, "I must not do that."))
    main.append(_draft_note("override", CLERK, "Do it anyway."))
    scene.tamperer.delete_pending(Position(main.run, "main", 2))
    scene.forum.log.publish()


@_fraud("restore", "restore an old database and go on", "signer-refuses")
def _restore_backup(scene: TamperScene) -> None:
    """Restore an older database, append to it, and have it signed."""
    _roll_back(scene)
    _write_run(scene.forum.ledger, "Pay the rent.", "the rent was never paid")
    _write_run(scene.forum.ledger, "Pay the rent.", "no, really not")
    scene.forum.log.publish()


def _grant_and_revoke(scene: TamperScene) -> None:
    """Grant a key and revoke it, both signed."""
    key = scene.forum.access.grant("intern", [kinds.Scope.SUBMIT])
    scene.forum.access.grant("auditor", [kinds.Scope.AUDIT])
    scene.forum.access.revoke(key.id)
    scene.forum.access.read_access()
    scene.forum.log.publish()


def _use_access(scene: TamperScene) -> None:
    """Read the access rights, as a newly started server does."""
    app.Forum(scene.forum.settings).access.read_access()


@_fraud("un-revoke", "move a revocation to another strand", "reader-refuses")
def _un_revoke(scene: TamperScene) -> None:
    _grant_and_revoke(scene)
    scene.forum.access.record_denial(
        kinds.AccessDenialFacts("intern", kinds.DenialReason.REVOKED, "submit"), CLERK
    )
    scene.tamperer.move(Position(LOG_RUN, ACCESS_STRAND, 2), DENIALS_STRAND)
    _use_access(scene)


@_fraud("drop-revoke", "delete a revocation", "reader-refuses")
def _drop_revocation(scene: TamperScene) -> None:
    _grant_and_revoke(scene)
    scene.tamperer.delete(scene.index_of(Position(LOG_RUN, ACCESS_STRAND, 2)))
    _use_access(scene)


def _append_forged(scene: TamperScene, strand: str, facts: Facts) -> bytes:
    """Append an entry to one of the log's own strands, in the name of the last entry's actor."""
    last = scene.forum.store.last_entry(LOG_RUN, strand) or b""
    entry = app.KINDS.read(last)
    forged = msgspec.structs.replace(
        entry,
        n=entry.n + 1,
        prev=leaf_of(last).hex(),
        step=f"forged/{entry.n + 1}",
        kind=app.KINDS.kind_of(facts).name,
        facts=facts,
        parents=(),
        ts=app.now(),
    )
    data = app.KINDS.write(forged)
    scene.tamperer.insert(data)
    return data


@_fraud("hidden-key", "add a key that is in no tree", "reader-refuses")
def _hidden_grant(scene: TamperScene) -> None:
    """Add an admin key that is in no tree, and let a server read it."""
    _grant_and_revoke(scene)
    entry = app.KINDS.read(_append_forged(scene, ACCESS_STRAND, _ADMIN_GRANT))
    scene.tamperer.hide_row(Position(LOG_RUN, ACCESS_STRAND, entry.n))
    _use_access(scene)


@_fraud("forged-key", "have a forged key signed", Problem.ROW_QUARANTINED)
def _forged_grant(scene: TamperScene) -> None:
    _grant_and_revoke(scene)
    _append_forged(scene, ACCESS_STRAND, _ADMIN_GRANT)
    scene.forum.log.publish()


@_fraud(
    "forged-redaction",
    "erase the payment under a forged redaction",
    Problem.ROW_QUARANTINED,
    Problem.BODY_MISSING,
)
def _forged_redaction(scene: TamperScene) -> None:
    """Erase the payment under a forged redaction."""
    target = scene.forum.ledger.find_entry(str(scene.payment))
    _append_forged(
        scene,
        MAIN_STRAND,
        kinds.RedactionFacts(target.leaf.hex(), "text", kinds.RedactionReason.REQUEST),
    )
    scene.forum.log.publish()
    scene.tamperer.remove_body(scene.payment, "text")


@_fraud("swap-runs", "show one run as the other", Problem.COLUMN_MISMATCH)
def _swap_runs(scene: TamperScene) -> None:
    """Exchange the names of two runs, so that readers find one under the name of the other."""
    other = next(run for run in scene.forum.store.runs("", 9) if run not in (scene.run, LOG_RUN))
    for run, name in ((scene.run, "kept"), (other, scene.run), ("kept", other)):
        scene.tamperer.rename_run(run, name)


@_fraud("hide-run", "let nobody find the run", Problem.COLUMN_MISMATCH)
def _hide_run(scene: TamperScene) -> None:
    scene.tamperer.rename_run(scene.run, "~")


@_fraud("look-up", "let nobody find the entry", Problem.COLUMN_MISMATCH)
def _break_look_up(scene: TamperScene) -> None:
    """Break the lookup of an entry by its id, so that an export ends before it."""
    index = scene.index_of(scene.payment)
    scene.tamperer.set_prefix(leaf_of(scene.entries()[index]), 1)


def _accept(scene: TamperScene, request: str) -> str:
    """Submit a request that no worker drives."""
    run_request = RunRequest(request, budget=RunBudget(usd=1_000_000))
    run = scene.forum.runs.submit(run_request, idempotency_key=IdempotencyKey(request, "0" * 64))
    scene.forum.log.publish()
    return run


@_fraud("raise-budget", "let a run spend more", Problem.TABLE_MISMATCH)
def _raise_budget(scene: TamperScene) -> None:
    scene.tamperer.set_cap(_accept(scene, "Buy a book."), 10**12)


@_fraud("drop-timer", "let nobody go on with a run", Problem.TABLE_MISMATCH)
def _drop_timer(scene: TamperScene) -> None:
    scene.tamperer.clear_timers(_accept(scene, "Buy a book."))


@_fraud("redirect", "answer with another run", Problem.TABLE_MISMATCH)
def _redirect_key(scene: TamperScene) -> None:
    run, other = _accept(scene, "Buy a book."), _accept(scene, "Buy a house.")
    scene.tamperer.redirect_idempotency_key(run, other)


@_fraud("lose-folder", "delete key and ledger, begin anew", "key-missing")
def _lose_folder(scene: TamperScene) -> None:
    """Delete key and database; the next command would create an empty log in their place."""
    scene.forum.store.head()  # an honest use of this machine, so that it remembers the log
    shutil.rmtree(scene.forum.settings.data)
    _write_elsewhere(scene.forum.settings)


@_fraud("swap-folder", "exchange ledger, key and policy", "key-changed")
def _swap_folder(scene: TamperScene) -> None:
    """Replace the ledger, and have forum.toml name a policy under which the new one verifies."""
    scene.forum.store.head()
    mine = scene.forum.settings
    data = mine.data.with_name("another")
    origin = f"forum.local/demo-{secrets.token_hex(4)}"
    other = Settings(
        data=data,
        state=data / "state",
        key_file=data / "log.key",
        origin=origin,
        database=mine.database,
    )
    policy = _write_elsewhere(other)
    shutil.rmtree(mine.data)
    shutil.copytree(data, mine.data)
    scene.forum.settings = replace(mine, policy=policy)


def _write_elsewhere(settings: Settings) -> Path:
    """Append to a ledger as any command would, and return the path of its policy."""
    with app.Forum(settings) as forum:
        forum.keys.initialise()
        forum.log.record_note(text_content("nothing was ever paid"))
        return forum.policy_file


@_fraud("drop-epoch", "begin an epoch, delete the log before it", Problem.EPOCH_MISSING)
def _drop_epoch(scene: TamperScene) -> None:
    """Start a new epoch, which is allowed, and delete the log before it."""
    scene.forum.store.head()  # opened with the write key that the epoch replaces
    scene.forum.keys.new_epoch("we had a fire")
    scene.tamperer.replace_history([])


@_fraud("retired-key", "sign with a stolen key after its rotation", Problem.SIGNATURE_REJECTED)
def _sign_retired(scene: TamperScene) -> None:
    """Sign with a key that was stolen before its rotation."""
    stolen = scene.forum.key
    scene.forum.keys.rotate_key()
    # Publishing would sign with the new key, so the log is sequenced and signed by hand.
    _write_run(scene.forum.ledger, "Pay me.", "paid 10,000.00 EUR to a friend")
    Sequencer(scene.forum.store).drain()
    _sign(scene.forum.store, stolen)


@_fraud(
    "view", "put a view in the place of a table", Problem.CATALOGUE_MISMATCH, changes_schema=True
)
def _put_view(scene: TamperScene) -> None:
    scene.tamperer.change_schema("put_view", scene.run)


@_fraud("trigger", "swallow rows by a trigger", Problem.CATALOGUE_MISMATCH, changes_schema=True)
def _put_trigger(scene: TamperScene) -> None:
    scene.tamperer.change_schema("put_trigger", scene.run)


@_fraud("index", "leave a run out of an index", Problem.CATALOGUE_MISMATCH, changes_schema=True)
def _put_index(scene: TamperScene) -> None:
    scene.tamperer.change_schema("put_index", scene.run)


@_fraud("column", "add a column that decides", Problem.CATALOGUE_MISMATCH, changes_schema=True)
def _put_column(scene: TamperScene) -> None:
    scene.tamperer.change_schema("put_column", scene.run)


def _list_runs(scene: TamperScene) -> None:
    """List all runs, as a newly started server does."""
    with app.Forum(scene.forum.settings) as forum:
        forum.reads.list_runs(RunQuery(), None, 100)


@_fraud("unlist", "remove a run from the directory", "reader-refuses")
def _unlist_run(scene: TamperScene) -> None:
    scene.tamperer.delete(scene.index_of(Position(LOG_RUN, RUNS_STRAND, 0)))
    _list_runs(scene)


@_fraud("cut-list", "let the newest run be unknown to all lists", "reader-refuses")
def _cut_directory(scene: TamperScene) -> None:
    """Delete the end of the directory, and put back the tagged row that was its end before."""
    before = scene.forum.store.strand_head(RUNS_STRAND)
    _write_run(scene.forum.ledger, "Pay me.", "paid 10,000.00 EUR to a friend")
    scene.forum.log.publish()
    _list_runs(scene)
    last = app.KINDS.read(scene.forum.store.last_entry(LOG_RUN, RUNS_STRAND) or b"")
    scene.tamperer.delete(scene.index_of(Position(LOG_RUN, RUNS_STRAND, last.n)))
    if before is not None:
        scene.forum.store.save_strand_head(before)
    _list_runs(scene)


@_fraud("lose-run", "delete a whole run, and let the lists go on", "reader-refuses")
def _lose_run(scene: TamperScene) -> None:
    first, last = (scene.index_of(Position(scene.run, MAIN_STRAND, n)) for n in (0, 2))
    for index in range(first, last + 1):
        scene.tamperer.delete(index)
    _list_runs(scene)


@_fraud("unnamed", "sequence a run without naming it", Problem.DIRECTORY_BROKEN)
def _sequence_unnamed(scene: TamperScene) -> None:
    """Give a run its indexes by other means than the sequencer's, which names it."""
    _write_run(scene.forum.ledger, "Pay me.", "paid 10,000.00 EUR to a friend")
    Sequencer(scene.forum.store, scene.forum.write_keys).drain()
    scene.forum.log.publish()


@_fraud("name-nothing", "write to the directory with the write key", Problem.ROW_QUARANTINED)
def _forge_directory(scene: TamperScene) -> None:
    """Name a run that never was, so that nobody trusts the lists any more."""
    _write_run(scene.forum.ledger, "Pay the rent.", "the rent was never paid")
    facts = kinds.RunsOpenedFacts(2, (app.new_run_id(),))
    scene.forum.ledger.append_log_entry(Draft("runs/2", CLERK, facts), RUNS_STRAND)
    scene.forum.log.publish()


def _sign_own(scene: TamperScene, strand: str, facts: Facts) -> None:
    """Write as only sequencers do, with the write key, and give the entry an index."""
    scene.forum.ledger.append_log_entry(Draft(f"{strand}/2", CLERK, facts), strand)
    Sequencer(scene.forum.store, scene.forum.write_keys).drain()
    scene.forum.log.publish()


@_fraud("name-twice", "have a forged directory signed", "signer-refuses")
def _sign_forged_directory(scene: TamperScene) -> None:
    _sign_own(scene, RUNS_STRAND, kinds.RunsOpenedFacts(2, (scene.run,)))


@_fraud("false-record", "record a witness that never signed", "signer-refuses")
def _sign_false_record(scene: TamperScene) -> None:
    """Have honest checkpoints refuted for ever, by a cosignature that does not hold."""
    notes = _checkpoints(scene)
    smaller, newest = sorted(notes)[-2:]
    lines = [str(s) for s in tlog.Note.parse(notes[smaller]).signatures]
    named = tlog.parse_checkpoint(notes[newest])
    facts = kinds.WitnessedFacts(named.size, named.root.hex(), tuple(lines[1:]))
    _sign_own(scene, WITNESSED_STRAND, facts)


TAMPER_CASES = tuple(_cases)
"""The frauds, in the order in which they are committed."""


def run_tampering_demo(folder: Path, database: str | None = None) -> Iterator[TamperResult]:
    """Commit every fraud against a copy of an honest ledger, and yield whether it was detected.

    Frauds that change the schema are left out of Postgres if this user may not make a database.
    """
    honest = _settings(folder / "honest", None)
    original = create_scene(honest)
    with original.forum:
        # A control: findings on the honest ledger would make the results below worthless.
        if detect_tampering(original, TamperCase("none", "nothing", lambda _: None, frozenset())):
            raise errors.ForumError(
                "the honest ledger was not believed; nothing is shown by frauds"
            )
    for fraud in TAMPER_CASES:
        with ExitStack() as stack:
            place = folder / fraud.name
            if database is None:
                shutil.copytree(folder / "honest", place)
                scene = replace(original, forum=app.Forum(_settings(place, None)))
            else:
                own = own_database(database) if fraud.changes_schema else nullcontext(database)
                url = stack.enter_context(own)
                if url is None:
                    continue
                scene = create_scene(_settings(place, url))
            stack.enter_context(scene.forum)
            by = detect_tampering(scene, fraud)
        yield TamperResult(fraud, fraud.by <= by, ", ".join(sorted(fraud.by & by)))


def detect_tampering(scene: TamperScene, fraud: TamperCase) -> set[str]:
    """Commit one fraud and return the findings that detect it."""
    try:
        fraud.play(scene)
        # The auditor is another process that opens the ledger as it is, a minute later: by then,
        # entries that no witness has seen are overdue.
        with app.Forum(scene.forum.settings) as auditor:
            report = auditor.log.verify(auditor.log.read_trust(), at=app.now() + 60_000_000)
    except (errors.RollbackDetected, errors.CommitsLost, errors.SigningRefused):
        return {"signer-refuses"}
    except errors.TamperDetected:
        return {"reader-refuses"}
    except errors.LogKeyMissing:
        return {"key-missing"}
    except errors.LogKeyChanged:
        return {"key-changed"}
    return {str(finding.problem) for finding in report.findings}


def _settings(folder: Path, database: str | None) -> Settings:
    data = folder / "ledger"
    origin = f"forum.local/demo-{secrets.token_hex(4)}"
    return Settings(
        data=data,
        state=folder / "state",
        key_file=data / "log.key",
        origin=origin,
        database=database,
    )
