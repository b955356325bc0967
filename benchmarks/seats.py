"""Simulated models that sit on panels: how often they err, boast, conform and learn is known.

A seat reads the prompt that a protocol has made for it, finds in it what others hold and claim,
and replies in the form that it is asked for.  Whatever it does by chance depends on the question,
its place and the round alone: all protocols meet the same seats, with the same first answers.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Any, assert_never

import msgspec

CLAIMS = 2
"""How many claims a seat makes with its first answer."""
REASONS = 8
"""How many different claims can be made for an answer: whoever makes the same supports it."""
ANOTHER_CLAIM = 0.3
"""The chance that a seat has one more claim when it is asked again."""
LEAST_SURE, OVERSURE = 0.5, 4
COORDINATOR = "coordinator"

_CLAIM_BYTES, _EVIDENCE_BYTES = 120, 60
_DECIDES_BYTES = 60


class Honesty(StrEnum):
    """What a confidence says."""

    CALIBRATED = "calibrated"
    """Of the answers that are said to be right with 70 per cent, 70 of 100 are."""
    OVERCONFIDENT = "overconfident"
    """A quarter of the doubt is admitted."""
    UNINFORMATIVE = "uninformative"
    """Between a half and all, whatever the answer."""


@dataclass(frozen=True, slots=True)
class Nature:
    """What kind of model sits on a seat."""

    error: float
    """The share of questions that it answers wrong when it is alone."""
    alike: float
    """The share of questions in which all seats of one model are wrong, and in the same way."""
    honesty: Honesty = Honesty.CALIBRATED
    conformity: float = 0.1
    """How often it adopts an answer because most of those it is shown hold it."""
    excuse: float = 0.3
    """How often it then names a claim that has not convinced it."""
    truth: float = 0.4
    """The chance that claims for the right answer convince a seat; drawn once for each."""
    lure: float = 0.1
    """The chance that claims for a wrong one do."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question whose answer is known."""

    number: int
    options: tuple[str, ...]
    size: int = 800
    """How long it is, in bytes."""

    @property
    def right(self) -> str:
        """The answer."""
        return self.options[int(chance(self.number, "right") * len(self.options))]

    @property
    def wrong(self) -> tuple[str, ...]:
        """All other options."""
        return tuple(option for option in self.options if option != self.right)

    @property
    def text(self) -> str:
        """How it is asked."""
        return f"Question {self.number}?".ljust(self.size, ".")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a prompt shows of others, and of what its reader said before."""

    own: str = ""
    peers: tuple[str, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    """Their names, each with the answer that it speaks for."""

    def named(self, answer: str) -> tuple[str, ...]:
        """Return the claims for an answer."""
        return tuple(name for name, held in self.claims if held == answer)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a seat makes of what it was shown."""

    answer: str
    exposed: bool = False
    """Whether most of those it was shown hold another answer."""
    because: tuple[str, ...] = ()
    yielded: bool = False
    """Whether it follows them without being convinced."""


@dataclass
class Seat:
    """A model at its place, with one question before it."""

    question: Question
    nature: Nature
    number: int
    model: int = 0
    """Seats with the same one err alike."""
    decisions: list[Decision] = field(default_factory=list)

    @cached_property
    def skill(self) -> float:
        """How probable it is that its first answer is right, unless its whole model errs.

        A power of a uniform number, between guessing and certainty, with the mean that makes the
        rate of errors come out.
        """
        guess, nature = 1 / len(self.question.options), self.nature
        mean = ((1 - nature.error) / (1 - nature.alike) - guess) / (1 - guess)
        return float(guess + (1 - guess) * self._chance("skill") ** (1 / mean - 1))

    @cached_property
    def first(self) -> str:
        """What it answers on its own."""
        question = self.question
        if chance(question.number, "alike", self.model) < self.nature.alike:
            return _pick(question.wrong, chance(question.number, "error", self.model))
        if self._chance("right") < self.skill:
            return question.right
        return _pick(question.wrong, self._chance("wrong"))

    @cached_property
    def confidence(self) -> int:
        """How sure it says to be, in per cent; a change of answer does not change that."""
        sure = self.skill * (1 - self.nature.alike)
        match self.nature.honesty:
            case Honesty.CALIBRATED:
                pass
            case Honesty.OVERCONFIDENT:
                sure = 1 - (1 - sure) / OVERSURE
            case Honesty.UNINFORMATIVE:
                sure = LEAST_SURE + (1 - LEAST_SURE) * self._chance("sure")
            case never:
                assert_never(never)
        return round(100 * sure)

    def ballot(self, prompt: bytes) -> bytes:
        """Cast a ballot in a council."""
        view = read_exchange(prompt)
        if not view.own:
            claims = [_claim(self.first, n) for n in self._reasons(CLAIMS)]
            return _ballot(self.first, self.confidence, claims=claims)
        decision = self._decide(view)
        against = next((name for name, held in view.claims if held != decision.answer), "")
        return _ballot(
            decision.answer,
            self.confidence,
            claims=self._more(decision),
            because=decision.because,
            supports=view.named(decision.answer)[:1],
            attacks=[{"claim": against, "why": _padded("It does not follow")}] if against else [],
        )

    def turn(self, prompt: bytes) -> bytes:
        """Take a turn in a symposium, where who speaks first is heard by all others."""
        view = read_turns(prompt)
        decision = self._decide(view)
        claims = self._more(decision)
        if not self.decisions[:-1]:
            claims = [_claim(decision.answer, n) for n in self._reasons(CLAIMS)]
        elif not claims:
            claims = [_claim(decision.answer, self._reasons(1)[0])]
        words = " ".join(f"{claim['text']} ({claim['evidence']})" for claim in claims)
        head = f"Answer: {decision.answer}. I am sure by {self.confidence} %. "
        return msgspec.json.encode({"text": head + words, "direct_requests": []})

    def _decide(self, view: Seen) -> Decision:
        """Be convinced, conform, or stay."""
        held = view.own or self.first
        most = plurality(view.peers)
        exposed = bool(most) and most != held and 2 * view.peers.count(most) > len(view.peers)
        decision = Decision(held, exposed)
        convincing = [o for o in dict(view.claims).values() if o != held and self._heeds(o)]
        count = len(self.decisions)
        if convincing:
            answer = convincing[0]
            decision = Decision(answer, exposed, view.named(answer)[:3])
        elif exposed and self._chance("conform", count) < self.nature.conformity:
            excused = self._chance("excuse", count) < self.nature.excuse
            named = view.named(most)[:1] if excused else ()
            decision = Decision(most, exposed, named, yielded=True)
        self.decisions.append(decision)
        return decision

    def _heeds(self, answer: str) -> bool:
        nature = self.nature
        rate = nature.truth if answer == self.question.right else nature.lure
        return self._chance("heeds", answer) < rate

    def _more(self, decision: Decision) -> list[dict[str, str]]:
        count = len(self.decisions)
        if self._chance("another", count) >= ANOTHER_CLAIM:
            return []
        return [_claim(decision.answer, int(self._chance("reason", count) * REASONS))]

    def _reasons(self, count: int) -> list[int]:
        start = int(self._chance("reasons") * REASONS)
        return [(start + n) % REASONS for n in range(count)]

    def _chance(self, *what: object) -> float:
        return chance(self.question.number, self.number, *what)


def coordinate(prompt: bytes, schema: bytes, last: int) -> bytes:
    """Coordinate a symposium: end it when all agree, or by a round, with what most have said."""
    turns = [turn for turn in _turns(prompt) if turn.speaker != "you"]
    answers = [turn.answer for turn in turns]
    settled: dict[str, Any] = {"resolved_disagreements": [], "unresolved_disagreements": []}
    if b"integrated_answer" in schema:
        synthesis = {
            "integrated_answer": plurality(answers),
            "confidence": 0.8,
            "open_questions": [],
        }
        return msgspec.json.encode(synthesis | settled)
    over = len(set(answers)) == 1 or max(turn.round for turn in turns) >= last
    verdict: dict[str, Any] = {
        "next_action": "finalize" if over else "continue",
        "rationale": _padded("They agree" if over else "They do not agree yet"),
        "confidence": 0.8,
        "focus": _padded("Where they differ"),
        "next_agents": [],
        "user_input_request": None,
        "external_research_request": None,
    }
    return msgspec.json.encode(verdict | settled)


def plurality(answers: Iterable[str]) -> str:
    """Return the most frequent answer; of several, the one that was given first."""
    counts = Counter(answers)
    return max(counts, key=counts.__getitem__) if counts else ""


def chance(*what: object) -> float:
    """Return a number from 0 to 1 that depends on this alone."""
    digest = blake2b("/".join(map(str, what)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


# Reading prompts

_QUOTED = re.compile(rb"(?ms)^--- ([0-9a-f]{32}) begin: ([^\n]*)\n(.*?)\n--- \1 end$")
_PLACE = re.compile(r"(\S+), round (\d+), turn \d+").match
_ANSWER = re.compile(r"Answer: (\w+)\.").match
_SPEAKS_FOR = re.compile(r"For (\w+), ").match
_SAID_FOR = re.compile(r"For (\w+), ").findall


class _Ballot(msgspec.Struct):
    answer: str


class _Claim(msgspec.Struct):
    id: str
    claim: str


@dataclass(frozen=True, slots=True)
class _Turn:
    speaker: str
    round: int
    answer: str
    speaks_for: tuple[str, ...]


_ballots = msgspec.json.Decoder(_Ballot)
_claims = msgspec.json.Decoder(_Claim)


def read_exchange(prompt: bytes) -> Seen:
    """Return what a seat of a council is shown."""
    own, peers = "", []
    claims = []
    for _, source, words in _QUOTED.findall(prompt):
        match source.split():
            case [b"your", b"last", b"ballot"]:
                own = _ballots.decode(words).answer
            case [b"ballot", b"of", _]:
                peers.append(_ballots.decode(words).answer)
            case [*_, b"claims", b"so", b"far"]:
                decoded = map(_claims.decode, words.split(b"\n"))
                claims = [(claim.id, _spoken_for(claim.claim)) for claim in decoded]
            case _:
                # A seat that overlooks what it is shown would be measured, and mean nothing.
                assert source in (b"the question", b"replies to your question"), source
    return Seen(own, tuple(peers), tuple(claims))


def read_turns(prompt: bytes) -> Seen:
    """Return what an agent of a symposium is shown; a claim is called by its speaker."""
    turns = _turns(prompt)
    own = next((turn.answer for turn in turns if turn.speaker == "you"), "")
    others = [turn for turn in turns if turn.speaker != "you"]
    claims = ((turn.speaker, answer) for turn in others for answer in turn.speaks_for)
    return Seen(own, tuple(turn.answer for turn in others), tuple(claims))


def _turns(prompt: bytes) -> list[_Turn]:
    turns = []
    for _, source, words in _QUOTED.findall(prompt):
        place, answer = _PLACE(source.decode()), _ANSWER(words.decode())
        if place and answer:
            speaks_for = tuple(dict.fromkeys(_SAID_FOR(words.decode())))
            turns.append(_Turn(place[1], int(place[2]), answer[1], speaks_for))
    return turns


def _spoken_for(claim: str) -> str:
    spoken = _SPEAKS_FOR(claim)
    assert spoken, claim
    return spoken[1]


# Writing replies


def _ballot(answer: str, confidence: int, **members: object) -> bytes:
    decides = "What was measured says otherwise".ljust(_DECIDES_BYTES, ".")
    ballot = {"answer": answer, "confidence": confidence, "decides": decides}
    return msgspec.json.encode({**members, **ballot})


def _claim(answer: str, reason: int) -> dict[str, str]:
    return {
        "text": f"For {answer}, reason {reason}".ljust(_CLAIM_BYTES, "."),
        "evidence": "It can be looked up".ljust(_EVIDENCE_BYTES, "."),
    }


def _padded(words: str) -> str:
    return words.ljust(_EVIDENCE_BYTES, ".")


def _pick(options: tuple[str, ...], at: float) -> str:
    return options[int(at * len(options))]
