"""A council as a stranger would write it who has docs/spec/deliberation.md and nothing else.

It knows no code of ours.  It is told what was said in a session, and says what follows from it.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

Ballot = dict[str, Any]

_NOTHING = {"", "-", "n/a", "none", "null"}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class NoBallot(Exception):
    """What was said has not the form of a ballot."""


def position(text: str) -> str:
    """Return what two texts share that say the same."""
    words = " ".join(text.casefold().split()).rstrip(" .")
    while len(words) > 1 and words[0] == words[-1] and words[0] in "\"'`":
        words = words[1:-1].strip().rstrip(" .")
    return words


def encode(ballot: Ballot) -> bytes:
    """Return a ballot as it is recorded."""
    return json.dumps(ballot, separators=(",", ":"), ensure_ascii=False).encode()


def _cut(text: str, most: int = 300) -> str:
    return text.strip()[:most].rstrip()


def _line(text: str) -> str:
    return "" if position(text) in _NOTHING else _cut(text)


def read_ballot(
    text: str,
    options: Sequence[str],
    claims: Sequence[str],
    letters: Sequence[str],
    version: int = 1,
) -> Ballot:
    """Return the ballot that is made of what a seat said."""
    value = json.loads(text)
    if version > 1:
        value = _gather_objections(value)
    attacks = {document["claim"]: _line(document["why"]) for document in value.get("attacks", ())}
    replies = {document["to"]: _cut(document["text"]) for document in value.get("replies", ())}
    made = [
        {"text": _line(document["text"]), "evidence": _line(document.get("evidence", ""))}
        for document in value.get("claims", ())
    ]

    def known(member: str) -> list[str]:
        return list(dict.fromkeys(one for one in value.get(member, ()) if one in claims))[:3]

    members = {
        "claims": [_filled(document) for document in made if document["text"]][:3],
        "because": known("because"),
        "evidence": _line(value.get("evidence", "")),
        "supports": known("supports"),
        "attacks": [{"claim": c, "why": w} for c, w in attacks.items() if c in claims and w][:3],
        "question": _line(value.get("question", "")),
        "replies": [{"to": to, "text": t} for to, t in replies.items() if to in letters and t],
        "decides": _line(value.get("decides", "")),
        "blocker": _line(value.get("blocker", "")),
    }
    answer = _answer(value["answer"], options)
    return {"answer": answer, "confidence": _confidence(value["confidence"]), **_filled(members)}


def _gather_objections(value: dict[str, Any]) -> dict[str, Any]:
    """Return a reply in which all objections are one text."""
    named = {name: one for name, one in value.items() if _folded(name) in ("blocker", "blockers")}
    if list(named) == ["blocker"] and isinstance(named["blocker"], str):
        return value
    texts = [text for one in named.values() for text in _texts(one)]
    rest = {name: one for name, one in value.items() if name not in named}
    return {**rest, "blocker": "; ".join(texts)}


def _folded(name: str) -> str:
    return name.strip().casefold()


def _texts(value: object) -> list[str]:
    if isinstance(value, list | dict):
        within = value.values() if isinstance(value, dict) else value
        return [text for one in within for text in _texts(one)]
    if value is True:
        return ["an objection without words"]
    return [str(value)] if value and (not isinstance(value, str) or _line(value)) else []


def _filled(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def _answer(text: str, options: Sequence[str]) -> str:
    meant = [option for option in options if position(option) == position(text)]
    if not position(text) or (options and not meant):
        raise NoBallot
    return meant[-1] if meant else _cut(text, 4000)


def _confidence(said: float) -> int:
    percent = round(100 * said if type(said) is float and said <= 1 else said)
    if not 0 <= percent <= 100:
        raise NoBallot
    return percent


@dataclass
class Claim:
    """A claim."""

    name: str
    text: str
    evidence: str
    held_for: str
    first: int
    authors: set[int]
    support: set[int] = field(default_factory=set)
    attacks: dict[int, str] = field(default_factory=dict)

    def back(self, seat: int) -> None:
        """Let a seat support it."""
        if seat != self.first:
            self.support.add(seat)
            self.attacks.pop(seat, None)

    def attack(self, seat: int, why: str) -> None:
        """Let a seat attack it."""
        if seat != self.first:
            self.support.discard(seat)
            self.attacks.pop(seat, None)
            self.attacks[seat] = why

    def shown(self) -> dict[str, Any]:
        """Return it as seats are shown it."""
        status = "contested" if self.attacks else "supported" if self.support else "open"
        shown = {"id": self.name, "claim": self.text, "status": status}
        more = {"evidence": self.evidence, "attacks": list(self.attacks.values())[-3:]}
        return {**shown, "support": len(self.support), **_filled(more)}


@dataclass
class Stranger:
    """A council, played from what was said in it."""

    question: str
    rules: Mapping[str, Any]
    """The recorded form of the panel, with all its members."""
    said: Mapping[str, str | None]
    """What came of each turn; nothing of one that failed."""
    notes: list[tuple[Any, ...]] = field(default_factory=list)
    prompts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """What each seat is shown in an exchange, besides the question: of whom, and what."""
    casts: list[tuple[int, int, Ballot]] = field(default_factory=list)
    weighed: dict[int, Ballot] = field(default_factory=dict)
    last: dict[int, Ballot] = field(default_factory=dict)
    changes: list[tuple[int, bool]] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    """By the position of what they say."""
    letters: dict[int, dict[str, int]] = field(default_factory=dict)
    replies: dict[int, list[str]] = field(default_factory=dict)
    asked: dict[int, str] = field(default_factory=dict)
    baseline: str = ""
    seed: str = ""
    round: int = 0
    news: int = 0

    def play(self) -> str:
        """Play all of it, and return the answer."""
        agents, first = self.rules["seats"], self.rules["baseline"]
        seats = list(range(1, len(agents) + 1))
        self.notes.append(("council", len(seats), len({agent["agent"] for agent in agents})))
        self._cast(seats[: first or None])
        if self._gate(len(seats[: first or None])):
            self.weighed = {seat: ballot for seat, _, ballot in self.casts}
            return self._close("gate", position(self.baseline), "gate", min(first, len(seats)))
        self._cast(seats[first:] if first else [])
        self._reveal()
        while not (end := self._end()):
            self.round += 1
            self._cast([seat for seat in seats if seat in self.weighed])
            self._reveal()
        return self._close(end, *self._choose(), len(seats))

    def _cast(self, seats: Sequence[int]) -> None:
        for seat in seats:
            turn = f"ballot.{self.round}.{seat}"
            claims = self._look(seat, turn) if self.round else []
            asking = [
                a for a, s in self.letters.get(seat, {}).items() if "question" in self.last[s]
            ]
            text = self.said[turn]
            if text is not None:
                ballot = read_ballot(
                    text, self.rules["options"], claims, asking, version=self.rules["version"]
                )
                self.casts.append((seat, self.round, ballot))

    def _gate(self, asked: int) -> bool:
        held = Counter(position(ballot["answer"]) for _, _, ballot in self.casts)
        agreement = 0
        if held:
            most = max(held.values())
            ballots = (ballot for _, _, ballot in self.casts)
            words = (b["answer"] for b in ballots if held[position(b["answer"])] == most)
            self.baseline, agreement = next(words), 1000 * most // asked
        blocked = any("blocker" in ballot for _, _, ballot in self.casts)
        agreed = bool(held) and agreement >= self.rules["threshold"] and not blocked
        passage = ("agreed" if agreed else "deliberate") if self.rules["baseline"] else "open"
        self.notes.append(("baseline", len(self.casts), agreement, passage, self.baseline))
        return passage == "agreed"

    def _reveal(self) -> None:
        now = {seat: ballot for seat, round_, ballot in self.casts if round_ == self.round}
        sealed = [self.question.encode(), *(encode(now[seat]) for seat in sorted(now))]
        self.seed = sha256(b"".join(sha256(data).digest() for data in sealed)).hexdigest()
        self.notes.append(("reveal", self.round, len(now), self.seed))
        self._pass_on(now)
        for seat in sorted(now):
            self._weigh(seat, now[seat])
        self._collect(now)
        self.last |= now

    def _shuffled(self, seats: Iterable[int], word: str) -> list[int]:
        return sorted(seats, key=lambda s: sha256(f"{self.seed}/{word}/{s}".encode()).digest())

    def _pass_on(self, now: Mapping[int, Ballot]) -> None:
        found = defaultdict(list)
        for seat in self._shuffled(now, "replies"):
            for reply in now[seat].get("replies", ()):
                found[self.letters[seat][reply["to"]]].append(reply["text"])
        self.replies = {asker: texts[: self.rules["peers"]] for asker, texts in found.items()}
        self.asked = {asker: self.last[asker]["question"] for asker in found}

    def _weigh(self, seat: int, ballot: Ballot) -> None:
        if seat in self.weighed:
            named = {claim.name: claim for claim in self.claims.values()}
            because = ballot.get("because", ())
            reasons = [name for name in because if seat not in named[name].authors]
            reasoned = bool(reasons or ballot.get("evidence"))
            held = position(ballot["answer"])
            if held != position(self.last[seat]["answer"]):
                self.changes.append((self.round, reasoned))
            if not reasoned and held != position(self.weighed[seat]["answer"]):
                return
        self.weighed[seat] = ballot

    def _collect(self, now: Mapping[int, Ballot]) -> None:
        before, order = len(self.claims), self._shuffled(now, "claims")
        for seat in order:
            for made in now[seat].get("claims", ()):
                self._claim(seat, made, position(now[seat]["answer"]))
        named = {claim.name: claim for claim in self.claims.values()}
        for seat in order:
            for name in now[seat].get("supports", ()):
                named[name].back(seat)
            for attack in now[seat].get("attacks", ()):
                named[attack["claim"]].attack(seat, attack["why"])
        self.news = len(self.claims) - before

    def _claim(self, seat: int, made: Mapping[str, str], held_for: str) -> None:
        says, evidence = position(made["text"]), made.get("evidence", "")
        if says in self.claims:
            claim = self.claims[says]
            claim.evidence = claim.evidence or evidence
            claim.authors.add(seat)
            claim.back(seat)
        else:
            name = f"c{len(self.claims) + 1}"
            self.claims[says] = Claim(
                name,
                text=made["text"],
                evidence=evidence,
                held_for=held_for,
                first=seat,
                authors={seat},
            )

    def _end(self) -> str:
        ends = {
            "silent": not self.last,
            "unanimous": self._are_one() and not self._blockers(),
            "stable": self.round > 0 and self.round not in [round_ for round_, _ in self.changes],
            "exhausted": self.round > 0 and not self.news,
            "rounds": self.round >= self.rules["rounds"],
        }
        return next((end for end, holds in ends.items() if holds), "")

    def _are_one(self) -> bool:
        ballots = [*self.weighed.values(), *self.last.values()]
        return len({position(ballot["answer"]) for ballot in ballots}) == 1

    def _blockers(self) -> list[int]:
        return [seat for seat, b in (self.last or self.weighed).items() if "blocker" in b]

    def _look(self, reader: int, turn: str) -> list[str]:
        """Show a seat what it may see, and return the names of the claims among that."""
        held = {seat: position(ballot["answer"]) for seat, ballot in self.last.items()}
        counts, heard = Counter(held.values()), Counter[str]()
        marks: dict[int, tuple[int, int, int]] = {}
        for seat in self._shuffled((s for s in held if s != reader), str(reader)):
            own = int(held[seat] == held[reader])
            marks[seat] = heard[held[seat]], own, counts[held[seat]]
            heard[held[seat]] += 1
        chosen = sorted(marks, key=marks.__getitem__)[: min(self.rules["peers"], 26)]
        self.letters[reader] = dict(zip(_LETTERS, chosen, strict=False))
        claims = self._listed(counts)
        shown = [("your last ballot", encode(self.last[reader]).decode())]
        shown += [(f"ballot of {a}", _seen(self.last[s])) for a, s in self.letters[reader].items()]
        if claims:
            lines = [json.dumps(claim.shown(), sort_keys=True) for claim in claims]
            shown.append(("claims so far", "\n".join(lines)))
        if reader in self.replies:
            document = {"question": self.asked[reader], "replies": self.replies[reader]}
            shown.append(("replies to your question", encode(document).decode()))
        self.prompts[turn] = shown
        return [claim.name for claim in claims]

    def _listed(self, counts: Mapping[str, int]) -> list[Claim]:
        ages, age = Counter[str](), {}
        for claim in reversed(self.claims.values()):
            age[claim.name] = ages[claim.held_for]
            ages[claim.held_for] += 1

        def size(claim: Claim) -> int:
            return counts.get(claim.held_for, 1_000_000)

        first = sorted(self.claims.values(), key=lambda claim: (age[claim.name], size(claim)))[:24]
        return sorted((claim for claim in self.claims.values() if claim in first), key=size)

    def _choose(self) -> tuple[str, str]:
        weights, seats = Counter[str](), Counter[str]()
        for ballot in self.weighed.values():
            weights[position(ballot["answer"])] += max(1, ballot["confidence"])
            seats[position(ballot["answer"])] += 1
        base = position(self.baseline)
        ranking = sorted(weights, key=lambda p: (-weights[p], -seats[p], p != base, p))
        if not ranking:
            return "", "none"
        majority = 2 * weights[ranking[0]] > weights.total()
        judged = self.rules["judge"] is not None and not self.rules["options"]
        if majority or not judged or len(ranking) == 1:
            return ranking[0], "vote"
        best, ground = ranking[0], "vote"
        for number, rival in enumerate(ranking[1:4], 1):
            texts = [self.said[f"judge.{number}.{order}"] for order in (1, 2)]
            better = [json.loads(text)["better"] for text in texts if text]
            if better == ["second", "first"]:
                best = rival
            if better in (["first", "second"], ["second", "first"]):
                ground = "judge"
        return best, ground

    def _close(self, end: str, held: str, ground: str, asked: int) -> str:
        holders = [one for one in self.casts if position(one[2]["answer"]) == held]
        surest = min(holders, key=lambda one: (-one[2]["confidence"], one[1], one[0]), default=None)
        answer: str = surest[2]["answer"] if surest else ""
        counted = sum(position(ballot["answer"]) == held for ballot in self.weighed.values())
        if self._blockers():
            accord = "blocked"
        elif self._are_one() and len(self.weighed) == asked:
            accord = "agreed"
        else:
            accord = "majority" if 2 * counted > asked else "split"
        conformed = sum(not reasoned for _, reasoned in self.changes)
        counts = (len(self.casts), len(self.changes), conformed, len(self._blockers()))
        told = (ground, accord) if answer else ("none", "split")
        self.notes.append(("close", end, *told, self.round, *counts))
        return answer


def _seen(ballot: Ballot) -> str:
    """Return a ballot as others are shown it."""
    whole = ballot["answer"]
    answer = whole if len(whole) <= 2000 else f"{whole[:2000]}…"
    members = ("confidence", "question", "decides", "blocker")
    return encode({"answer": answer, **{m: ballot[m] for m in members if m in ballot}}).decode()
