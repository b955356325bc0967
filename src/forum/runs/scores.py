"""Scores: how good a run, a task or an answer is, by a person, a program or a judge.

A score is an entry of the log's own run, because a closed run takes no further entries. Its first
parent is the entry that is scored.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec

from forum.errors import Malformed
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry
from forum.ledger.kinds import RunCloseFacts
from forum.runs import kinds

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}").fullmatch


class Score(msgspec.Struct, frozen=True):
    """A score to be recorded."""

    name: str
    value: int
    """In thousandths, from 0 to 1000."""
    subject: kinds.ScoreSubject = kinds.ScoreSubject.RUN
    task: str = ""
    by: kinds.Scorer = kinds.Scorer.PERSON
    comment: str = ""
    judge: str = ""
    independence: kinds.Independence = kinds.Independence.NONE


class RecordedScore(msgspec.Struct, frozen=True):
    """A recorded score, with its comment if that was not erased."""

    entry: str
    """The id of its entry, in hexadecimal."""
    at: int
    """When it was recorded, in microseconds since 1970."""
    actor: str
    facts: kinds.ScoreFacts
    comment: str | None = None
    is_latest: bool = True
    """Whether no later score of the same actor is about the same subject and name."""


def check_score(score: Score) -> None:
    """Raise `Malformed` for a score that could not be recorded or read."""
    if not _NAME(score.name):
        raise Malformed(
            "score", f"its name {score.name!r} is not of a-z, 0-9, dot, dash and underscore"
        )
    if not 0 <= score.value <= kinds.MAX_SCORE:
        raise Malformed("score", "its value is not from 0 to 1")
    if (score.subject is kinds.ScoreSubject.TASK) != bool(score.task):
        raise Malformed("score", "the subject `task`, and no other, names a task")


def parse_score_value(text: str) -> int:
    """Return a value from 0 to 1, written as a decimal number, in thousandths.

    Raises `ValueError` for anything else, and for more than three decimal places.
    """
    if not re.fullmatch(r"0(\.[0-9]{1,3})?|1(\.0{1,3})?", text):
        raise ValueError("a score is a number from 0 to 1 with at most three decimal places")
    return int(Decimal(text) * kinds.MAX_SCORE)


def mark_latest(scores: Iterable[RecordedScore]) -> tuple[RecordedScore, ...]:
    """Return scores in their order, each with whether it is the latest of its actor and subject."""
    listed = list(scores)
    last = {_identity(score): number for number, score in enumerate(listed)}
    return tuple(
        msgspec.structs.replace(score, is_latest=last[_identity(score)] == number)
        for number, score in enumerate(listed)
    )


def _identity(score: RecordedScore) -> tuple[str, ...]:
    facts = score.facts
    return score.actor, facts.subject, facts.task, facts.name


def find_score_fault(score: Entry[Any], subject: Entry[Any] | None) -> str:
    """Return what is wrong with the entry of a score, given its first parent; "" if nothing is.

    The parent is None if the log has no such entry.
    """
    facts: kinds.ScoreFacts = score.facts
    if (score.run, score.strand) != (LOG_RUN, kinds.score_strand(facts.run)):
        return f"it is not in the strand of the scores of run {facts.run}"
    if facts.value > kinds.MAX_SCORE:
        return f"its value {facts.value} is above {kinds.MAX_SCORE}"
    if subject is None:
        return "the entry that it scores is not in the log"
    if subject.run != facts.run or not _is_subject(facts, subject):
        place = f"{subject.run}/{subject.strand}/{subject.n}"
        return f"it claims to score {describe_subject(facts)} of run {facts.run}, not {place}"
    return ""


def _is_subject(facts: kinds.ScoreFacts, subject: Entry[Any]) -> bool:
    if facts.subject is kinds.ScoreSubject.TASK:
        return subject.strand == kinds.task_strand(facts.task)
    wanted = RunCloseFacts if facts.subject is kinds.ScoreSubject.RUN else kinds.AnswerFacts
    return subject.strand == MAIN_STRAND and isinstance(subject.facts, wanted)


def describe_subject(facts: kinds.ScoreFacts) -> str:
    """Return what a score is about, in words."""
    return f"task {facts.task}" if facts.task else f"the {facts.subject.value}"
