"""C2SP tlog-witness, word by word, against `forum witness serve`."""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Barrier

import pytest

from forum.errors import StoreFailed
from forum.features.witness.witness import Witness, encode_request
from forum.tlog import (
    EMPTY_ROOT,
    Hash,
    Note,
    Signature,
    sign_note,
    verify_cosignatures,
    verify_note,
)
from tests.features.witness.serving import Answer, Log, Served
from tests.support import fresh_origin, key_of
from tests.verify.world import START, Kept

WRONG = Hash(b"?" * 32)


def test_a_log_is_cosigned_as_it_grows(served: Served) -> None:
    """200: each answer is one line, a cosignature with a time on the checkpoint that was sent."""
    log = served.log()

    for old, size in [(0, 0), (0, 3), (3, 8), (8, 8), (8, 61)]:
        answer = served.post(log.request(old, size))
        assert answer.status == 200
        note = Note.parse(log.note(size).encode() + answer.body)
        (seen,) = verify_cosignatures(note, [served.key.verifier()])
        assert seen.time > START // 1_000_000
        assert answer.body.count(b"\n") == 1


def test_an_unknown_log_is_not_found(served: Served) -> None:
    """404: a witness cosigns only logs that it was told of."""
    stranger = Log(key_of(fresh_origin()))

    assert served.post(stranger.request(0, 3)).status == 404


def test_a_checkpoint_needs_the_logs_own_signature(served: Served) -> None:
    """403: not signed by the log, or its signature altered; there is no other authentication."""
    log, other = served.log(), served.log()
    note = log.note(3)
    (own,) = note.signatures
    foreign = Note(note.text, (sign_note(note.text, other.key),))
    altered = Note(note.text, (Signature(own.name, own.key_id, own.blob[::-1]),))
    # The first signature of a key counts.
    spoilt = Note(note.text, (*altered.signatures, own))

    for wrong in (foreign, altered, spoilt):
        assert served.post(encode_request(0, (), wrong.encode())).status == 403


def test_signatures_by_strangers_are_passed_over(served: Served) -> None:
    """The checkpoint may come with the cosignatures of other witnesses."""
    log, other = served.log(), served.log()
    note = log.note(3)
    more = Note(note.text, (sign_note(note.text, other.key), *note.signatures))

    assert served.post(encode_request(0, (), more.encode())).status == 200


NOTE = Log(key_of("example.com/log")).note(3).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 0\n" + NOTE,
        b"old 0\n\n",
        b"new 0\n\n" + NOTE,
        b"old 00\n\n" + NOTE,
        b"old -1\n\n" + NOTE,
        b"old +1\n\n" + NOTE,
        b"old 0 \n\n" + NOTE,
        b"old \xd9\xa1\n\n" + NOTE,
        b"old 1\nnot base64\n\n" + NOTE,
        b"old 1\n" + WRONG.base64().encode()[:-4] + b"\n\n" + NOTE,
        b"old 1\n" + 64 * (WRONG.base64().encode() + b"\n") + b"\n" + NOTE,
        b"old 0\n\n" + NOTE.replace(b"\n3\n", b"\n03\n"),
        b"old 0\n\n" + NOTE.replace(b"\n\n", b"\nextension\n\n"),
        b"old " + b"9" * 5000 + b"\n\n" + NOTE,
    ],
    ids=range(15),
)
def test_a_malformed_request_is_bad(served: Served, body: bytes) -> None:
    """400: whatever is not in the only form that a client may write."""
    assert served.post(body).status == 400


def test_an_old_size_beyond_the_checkpoint_is_bad(served: Served) -> None:
    """400: a log does not shrink."""
    log = served.log()
    served.post(log.request(0, 8))

    assert served.post(encode_request(8, (), log.note(3).encode())).status == 400


def test_a_request_without_end_is_cut_off(served: Served) -> None:
    """A witness is asked by anybody; one request must not fill its memory."""
    assert served.post(b"old 0\n" + b"x" * 100_000).status == 413


def test_a_conflict_tells_the_size_that_the_witness_has(served: Served) -> None:
    """409: the client can prove from there; the size is all that it is told."""
    log = served.log()
    before = served.post(log.request(2, 8))
    served.post(log.request(0, 3))
    after = served.post(log.request(0, 8))

    assert before == Answer(409, b"0\n", "text/x.tlog.size")
    assert after == Answer(409, b"3\n", "text/x.tlog.size")


def test_a_tree_that_does_not_continue_the_last_is_refused(served: Served) -> None:
    """422: a proof that does not hold, one where none may be, and another root for a size."""
    log = served.log()
    too_much = served.post(encode_request(0, [WRONG], log.note(3).encode()))
    served.post(log.request(0, 3))
    proof = log.prove(3, 8)
    shortened = served.post(encode_request(3, proof[:-1], log.note(8).encode()))
    forked = served.post(encode_request(3, proof, log.fork().note(8).encode()))
    same_size = served.post(encode_request(3, (), log.fork().note(3).encode()))

    assert [too_much.status, shortened.status, forked.status, same_size.status] == [422] * 4
    assert served.post(log.request(3, 8)).status == 200


def test_the_empty_tree_has_one_root(served: Served) -> None:
    """422: any other would be a commitment to nothing that could become anything."""
    log = served.log()
    empty, wrong = EMPTY_ROOT.base64(), WRONG.base64()
    text = log.note(0).text.replace(empty, wrong)
    note = Note(text, (sign_note(text, log.key),))

    assert served.post(encode_request(0, (), note.encode())).status == 422


def test_of_two_requests_at_once_one_wins(served: Served) -> None:
    """Both are consistent with the past, but only one with the other: the record moves once."""
    log = served.log()
    served.post(log.request(0, 1))
    size = 1

    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            barrier = Barrier(2)
            wanted = (size + 1, size + 2)

            def ask(new: int, old: int = size, gate: Barrier = barrier) -> Answer:
                gate.wait()
                return served.post(log.request(old, new))

            answers = dict(zip(wanted, pool.map(ask, wanted), strict=True))
            assert sorted(answer.status for answer in answers.values()) == [200, 409]
            (size,) = (new for new, answer in answers.items() if answer.status == 200)
            (data,) = (answer.body for answer in answers.values() if answer.status == 409)
            assert data == f"{size}\n".encode()


def test_a_monitor_gets_what_was_cosigned(served: Served) -> None:
    """By the hash of the origin: the checkpoint with the log's signature and the witness's own."""
    log, other = served.log(), served.log()
    path = f"/{sha256(log.key.name.encode()).hexdigest()}/checkpoint"
    before = served.get(path)
    note = log.note(3)
    more = Note(note.text, (*note.signatures, sign_note(note.text, other.key)))
    answer = served.post(encode_request(0, (), more.encode()))
    after = served.get(path)

    kept = Note.parse(after.body)
    assert (before.status, after.status) == (404, 200)
    assert kept.encode() == note.encode() + answer.body
    assert verify_note(kept, [log.key.verifier()])
    assert served.get(f"/{'0' * 64}/checkpoint").status == 404


def test_a_witness_remembers_across_its_death(tmp_path: Path) -> None:
    """Killed after its answer, it comes back with what it has cosigned, and cosigns no fork."""
    with Served(tmp_path) as served:
        log = served.log()
        path = f"/{sha256(log.key.name.encode()).hexdigest()}/checkpoint"
        answer = served.post(log.request(0, 8))
        served.kill()
        served.start()

        assert served.get(path).body == log.note(8).encode() + answer.body
        assert served.post(log.fork().request(0, 8)) == Answer(409, b"8\n", "text/x.tlog.size")
        assert served.post(log.fork().request(8, 8)).status == 422


class Failing(Kept):
    """A memory whose disk fails, before or after the note has reached it."""

    def __init__(self, *, persists: bool) -> None:
        super().__init__()
        self.persists, self.fails = persists, True

    def advance(self, old: bytes | None, new: bytes) -> None:
        """Fail, having kept the note or not."""
        if self.persists or not self.fails:
            super().advance(old, new)
        if self.fails:
            raise StoreFailed("remembering", "the disk is full")


@pytest.mark.parametrize(("persists", "data"), [(False, b"0\n"), (True, b"3\n")])
def test_nothing_is_cosigned_that_is_not_remembered(*, persists: bool, data: bytes) -> None:
    """A cosignature that got out and was forgotten could be followed by one on a fork.

    Failed, or failed but persisted: in both cases no signature is given, and the witness goes
    on from what its memory then holds.
    """
    log, memory = Log(key_of("example.com/log")), Failing(persists=persists)
    logs = {log.key.name: (log.key.verifier(),)}
    witness = Witness(Served.key, lambda: logs, lambda _: memory, lambda: START)
    with pytest.raises(StoreFailed):
        witness.add_checkpoint(log.request(0, 3))
    memory.fails = False
    size = int(data)

    assert witness.add_checkpoint(log.request(5, 8)).body == data
    assert witness.add_checkpoint(log.request(size, 8)).status == 200
