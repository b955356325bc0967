"""The demo `forum demo panel`: a majority that is wrong, a minority that is right, two forgers.

The seats are scripted, so that the outcome is always the same; everything else is real. The ballots
are sealed in a ledger, code counts them, and verification replays the session from its replies.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from forum.app import Forum, RunView, now
from forum.engine import RunRequest
from forum.errors import ForumError
from forum.features.demo.project import create_project
from forum.features.demo.tampering import open_tamperer
from forum.ledger.body import compute_commitment
from forum.ledger.entry import leaf_of
from forum.ledger.ports import Position
from forum.runs import policy
from forum.runs.kinds import TURN_PREFIX, task_strand
from forum.runs.panel import Council, Seat, TurnId
from forum.tlog import Checkpoint, sign_checkpoint
from forum.verify import Trust

QUESTION = (
    "A bat and a ball cost $1.10 together. The bat costs $1.00 more than the ball. "
    "What does the ball cost?"
)
RIGHT, WRONG = "5 cents", "10 cents"
_PRICE = 2_000_000
_PAUSE = 150
_SEAT = 5
"""The seat whose ballot the forgers change."""
_FORGED = b'{"answer":"10 cents","confidence":95}'


@dataclass(frozen=True, slots=True)
class ForgeryResult:
    """A forgery of the record, and the findings that detect it."""

    name: str
    does: str
    caught: bool
    by: tuple[str, ...]
    meaning: str
    """What the findings mean."""


@dataclass(frozen=True, slots=True)
class PanelDemoResult:
    """The outcome of the demo."""

    view: RunView
    verified: bool
    forgeries: tuple[ForgeryResult, ...]
    plain_vote: str
    """The answer by a count of the last ballots, including changes without a reason."""
    minority: int
    """Number of seats with the right answer at first."""
    seconds: float


def run_panel_demo(home: Path, tell: Callable[[str], None]) -> PanelDemoResult:
    """Run the demo in an empty folder and return the outcome."""
    started = monotonic()
    with Forum(create_project(home / "honest")[0]) as forum:
        forum.keys.initialise()
        tell(f"asked: {QUESTION}")
        run = forum.runs.submit(build_run_request())
        with forum.runs.run_worker():
            forum.reads.follow_run(run)
        forum.log.publish()
        verified = forum.log.verify(forum.log.read_trust()).ok
        view = forum.reads.view_run(run)
    tell("the ballots are sealed, the answer is recorded; now two forgers come")
    forgeries = tuple(_forge(home, fraud, run) for fraud in _FORGERY_CASES)
    vote, right = _most_frequent(_answers(-1)), _answers(0).count(RIGHT)
    return PanelDemoResult(
        view=view,
        verified=verified,
        forgeries=forgeries,
        plain_vote=vote,
        minority=right,
        seconds=monotonic() - started,
    )


def _ballot(answer: str, confidence: int, **more: Any) -> str:  # noqa: ANN401
    return msgspec.json.encode({"answer": answer, "confidence": confidence, **more}).decode()


_SUM = {"text": "5 and 105 make 110, and 105 is 100 more than 5", "evidence": "add it up"}
_SCRIPTED_BALLOTS: Mapping[str, tuple[str, str]] = {
    "ash": (
        _ballot(WRONG, 70, claims=[{"text": "110 less 100 leaves 10"}]),
        # All that others have said: the order of the claims is drawn anew in each run.
        _ballot(RIGHT, 90, because=["c1", "c2", "c3"], evidence="10 and 110 would make 120"),
    ),
    "birch": (
        _ballot(WRONG, 80, claims=[{"text": "The bat is the dollar, the ball is the rest"}]),
        _ballot(WRONG, 75),
    ),
    "cedar": (_ballot(RIGHT, 60), _ballot(WRONG, 60)),
    "elm": (_ballot(WRONG, 75), _ballot(WRONG, 75)),
    "fir": (
        _ballot(RIGHT, 95, claims=[_SUM], decides="adding up both prices"),
        _ballot(RIGHT, 95, decides="adding up both prices"),
    ),
}
"""One seat is convinced by a claim; one that was right yields to the majority without a reason."""


def build_run_request() -> RunRequest:
    """Return the question with its council of scripted seats."""
    agents: dict[str, policy.Agent] = {
        name: policy.Scripted(
            {
                TURN_PREFIX + TurnId(number, seat).turn: (
                    policy.ScriptStep(reply, tokens=120, input_tokens=80, milliseconds=_PAUSE),
                )
                for number, reply in enumerate(way)
            },
            usd=_PRICE,
            tokens=200,
        )
        for seat, (name, way) in enumerate(_SCRIPTED_BALLOTS.items(), 1)
    }
    council = Council(tuple(Seat(name) for name in _SCRIPTED_BALLOTS), (RIGHT, WRONG), rounds=1)
    return RunRequest(QUESTION, None, policy.Policy(agents=agents, panel=council))


def _answers(turn: int) -> list[str]:
    return [msgspec.json.decode(way[turn])["answer"] for way in _SCRIPTED_BALLOTS.values()]


def _most_frequent(answers: list[str]) -> str:
    return max(set(answers), key=answers.count)


def _forge(home: Path, fraud: "_ForgeryCase", run: str) -> ForgeryResult:
    """Forge a ballot in a copy of the ledger, and verify the copy."""
    shutil.copytree(home / "honest", home / fraud.name)
    with Forum(create_project(home / fraud.name)[0]) as forum:
        trust = fraud.forge(forum, run)
        # Verify as if a minute later: by then, entries that no witness has seen are overdue.
        report = forum.log.verify(trust, at=now() + 60_000_000)
    problems = tuple(dict.fromkeys(str(finding.problem) for finding in report.findings))
    caught = any(problem.startswith(fraud.by) for problem in problems)
    return ForgeryResult(
        name=fraud.name, does=fraud.does, caught=caught, by=problems, meaning=fraud.meaning
    )


def _change_ballot(forum: Forum, run: str) -> Trust:
    """Replace the body of the sealed ballot."""
    open_tamperer(forum).set_body(_find(forum, run, "ballot"), "ballot", _FORGED)
    return forum.log.read_trust()


def _rewrite_all(forum: Forum, run: str) -> Trust:
    """Change the reply and the ballot, recompute every hash, and sign with the log's key.

    The returned trust is that of a reader who has the key and has never seen this log before.
    """
    forged = {(_find(forum, run, body), body): _FORGED for body in ("ballot", "output")}
    history, unchanged = _rewrite(forum, forged)
    tamper = open_tamperer(forum)
    tamper.replace_history(history, keep_checkpoints=unchanged)
    for (at, name), data in forged.items():
        tamper.set_body(at, name, data)
    head = forum.store.head()
    note = sign_checkpoint(Checkpoint(forum.origin, head.size, head.root), forum.key)
    forum.store.save_checkpoint(head.size, note.encode())
    return Trust(keys=(forum.key.verifier(),))


def _rewrite(forum: Forum, forged: dict[tuple[Position, str], bytes]) -> tuple[list[bytes], int]:
    """Return a history with other bodies, and the number of leading entries that are unchanged.

    Ids of changed entries are replaced wherever they occur. Bodies that contain one are added to
    `forged`.
    """
    renamed: dict[bytes, bytes] = {}
    history: list[bytes] = []
    unchanged = size = forum.store.head().size
    for index, data in enumerate(forum.store.entries(0, size)):
        entry = msgspec.json.decode(_rename(data or b"{}", renamed))
        at = Position(entry["run"], entry["strand"], entry["n"])
        for name, commitment in entry["bodies"].items():
            stored = forum.store.body(at, name)
            body = b"".join(stored.read()) if stored else b""
            again = forged.get((at, name)) or _rename(body, renamed)
            if stored and again != body:
                forged[at, name] = again
                commitment["h"] = compute_commitment(stored.salt, len(again), [again]).hex()
                commitment["size"] = len(again)
        history.append(msgspec.json.encode(entry))
        if history[-1] != data:
            unchanged = min(unchanged, index)
            renamed[leaf_of(data or b"").hex().encode()] = leaf_of(history[-1]).hex().encode()
    return history, unchanged


def _rename(data: bytes, renamed: Mapping[bytes, bytes]) -> bytes:
    for old, new in renamed.items():
        data = data.replace(old, new)
    return data


def _find(forum: Forum, run: str, body: str) -> Position:
    """Return the position of the turn's entry that has this body."""
    strand = task_strand(TURN_PREFIX + TurnId(0, _SEAT).turn)
    for number, data in enumerate(forum.store.read_strand(run, strand)):
        if body in msgspec.json.decode(data).get("bodies", {}):
            return Position(run, strand, number)
    raise ForumError("there is no ballot to forge")


@dataclass(frozen=True, slots=True)
class _ForgeryCase:
    """One way to forge a ballot."""

    name: str
    does: str
    forge: Callable[[Forum, str], Trust]
    by: str
    """Prefix of the findings that must detect it."""
    meaning: str


_FORGERY_CASES = (
    _ForgeryCase(
        name="change",
        does="somebody changes a sealed ballot in the database",
        forge=_change_ballot,
        by="body",
        meaning="the ballot is not the one that was sealed",
    ),
    _ForgeryCase(
        name="rewrite",
        does="the operator rewrites reply and ballot, all hashes right, and signs again",
        forge=_rewrite_all,
        by="session",
        meaning="every hash is right, but the vote does not follow from the ballots",
    ),
)
