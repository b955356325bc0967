"""The laws of a council, over the protocol alone: who sees what, when it ends, what is counted.

What a council concludes is reckoned here a second time, from nothing but what was recorded.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forum.app.clock_ids_and_kinds import KINDS
from forum.features.council.ballots import (
    Attack,
    Ballot,
    BallotRules,
    PeerAnswer,
    StatedClaim,
    encode_ballot,
    read_ballot,
)
from forum.features.council.claims import MAX_ATTACKS, ClaimRegister
from forum.features.council.findings import describe_findings
from forum.features.council.kinds import (
    Accord,
    BaselineDecision,
    BaselineFacts,
    CouncilCloseFacts,
    End,
    Ground,
    RevealFacts,
)
from forum.features.council.prompts import MAX_SHOWN_CLAIMS, ballot_prompt
from forum.features.council.report import NO_CHECKED_ANSWER_WARNING, CouncilReport, read_report
from forum.ledger.kinds import Outcome
from forum.runs.panel import COUNCIL_VERSION, Council, Seat, normalize_answer
from forum.runs.panel_protocol import start_protocol
from forum.runs.policy import Policy, Scripted
from forum.runs.prompt import Quotation
from forum.runs.session_steps import SessionNote, ToolProbe, TurnBatch, TurnStatus
from tests.features.council.sessions import COST, Held, Turn, hold, replay, seats_of, session_of
from tests.runs.test_prompt import read as quoted_in

OPTIONS = ("yes", "no", "maybe")

Said = Mapping[str, Any]


def said(answer: str, confidence: int = 80, **members: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what a seat says."""
    return {"answer": answer, "confidence": confidence, **members}


def claim(*texts: str) -> list[dict[str, str]]:
    """Return claims with these texts."""
    return [{"text": text} for text in texts]


def hold_by_seat(council: Council, *ways: Sequence[Said | TurnStatus]) -> Held:
    """Hold a session in which each seat goes its way, from round to round, and then stays."""

    def answer(turn: Turn) -> bytes | TurnStatus:
        _, number, seat = turn.name.split(".")
        way = ways[int(seat) - 1]
        document = way[min(int(number), len(way) - 1)]
        return document if isinstance(document, TurnStatus) else json.dumps(document).encode()

    return hold(session_of(council), answer)


def open_council(number: int, **rules: Any) -> Council:  # noqa: ANN401
    """Return a council without a gate."""
    return Council(seats_of(number), **{"baseline": 0, **rules})


def facts_of(held: Held) -> CouncilCloseFacts:
    """Return how a session was concluded."""
    facts = held.note("council.close").facts
    assert isinstance(facts, CouncilCloseFacts)
    return facts


def report_of(held: Held) -> CouncilReport:
    """Return what a session left to its readers."""
    return read_report(held.note("council.close").bodies[0].data)


def around(prompt: bytes) -> bytes:
    """Return what stands outside of all quotations."""
    for _, text in quoted_in(prompt):
        mark = sha256(text).hexdigest()[:32].encode()
        head = prompt.index(b"--- " + mark)
        end = b"\n--- " + mark + b" end\n"
        prompt = prompt[:head] + prompt[prompt.index(end, head) + len(end) :]
    return re.sub(rb"\n+", b"\n", prompt)


def ballots_shown(prompt: bytes) -> dict[str, dict[str, Any]]:
    """Return the ballots of others in a prompt, by the names that they have there."""
    named = (one for one in quoted_in(prompt) if one[0].startswith("ballot of "))
    return {source.removeprefix("ballot of "): json.loads(text) for source, text in named}


def claims_shown(prompt: bytes) -> list[dict[str, Any]]:
    """Return the claims in a prompt."""
    texts = [text for source, text in quoted_in(prompt) if source == "claims so far"]
    return [json.loads(line) for text in texts for line in text.splitlines()]


# What seats say: few words, so that they agree, repeat and contradict each other often.

words = st.sampled_from(["it is dear", "It is dear.", "it is safe", "it is slow", "it is new"])
names = st.sampled_from([f"c{n}" for n in range(1, 7)])
ballots = st.fixed_dictionaries(
    {
        "answer": st.sampled_from(["yes", "Yes.", "no", "no", "maybe"]),
        "confidence": st.integers(0, 100),
    },
    optional={
        "claims": st.lists(words, max_size=2).map(lambda texts: claim(*texts)),
        "because": st.lists(names, max_size=2),
        "evidence": st.sampled_from(["", "", "page 3", "none"]),
        "supports": st.lists(names, max_size=2),
        "attacks": st.lists(st.fixed_dictionaries({"claim": names, "why": words}), max_size=2),
        "question": st.sampled_from(["", "how slow?"]),
        "replies": st.lists(
            st.fixed_dictionaries({"to": st.sampled_from("ABC"), "text": words}), max_size=2
        ),
        "decides": st.sampled_from(["", "a test"]),
        "blocker": st.sampled_from(["", "", "", "N/A", "the law"]),
    },
)
spoken = ballots.map(lambda document: json.dumps(document).encode())
failures: st.SearchStrategy[bytes | TurnStatus] = st.sampled_from(
    [TurnStatus.FAILED, b"I do not know."]
)
replies: st.SearchStrategy[bytes | TurnStatus] = spoken | spoken | spoken | failures
councils = st.builds(
    Council,
    st.integers(1, 5).map(seats_of),
    options=st.sampled_from([(), OPTIONS]),
    baseline=st.integers(0, 6),
    threshold=st.sampled_from([1000, 667, 666, 500]),
    rounds=st.integers(0, 3),
    peers=st.integers(0, 3),
)


def in_turn(pool: Sequence[bytes | TurnStatus], cut_at: int | None = None) -> Callable[[Turn], Any]:
    """Return who gives one reply after the other; from some turn on, all are cut off."""
    given_so_far = iter(range(10_000))

    def answer(_: Turn) -> bytes | TurnStatus:
        turn = next(given_so_far)
        cut = cut_at is not None and turn >= cut_at
        return TurnStatus.CUT if cut else pool[turn % len(pool)]

    return answer


pools = st.lists(replies, min_size=1, max_size=14)
sessions = st.builds(
    lambda council, pool: hold(session_of(council), in_turn(pool)), councils, pools
)
few = settings(max_examples=40)


# A second reckoning


def same(answer: str) -> str:
    """Return what the answers here have in common that say the same."""
    return answer.casefold().rstrip(".")


def by_seed(items: Sequence[int], seed: str, reader: str) -> list[int]:
    """Return the order that a seed gives to seats."""
    return sorted(items, key=lambda one: sha256(f"{seed}/{reader}/{one}".encode()).digest())


@dataclass
class Reckoning:
    """What follows from the ballots that were recorded, and from the seeds."""

    held: Held
    counted: dict[int, Said] = field(default_factory=dict)
    last: dict[int, Said] = field(default_factory=dict)
    changes: list[tuple[int, int, bool]] = field(default_factory=list)
    """Seat, round, and whether without a reason."""
    authors: dict[str, set[int]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    ends: list[End | None] = field(default_factory=list)
    """What followed from each round."""

    @property
    def council(self) -> Council:
        """The rules."""
        panel = self.held.session.policy.panel
        assert isinstance(panel, Council)
        return panel

    def reckon(self) -> "Reckoning":
        """Go through all rounds that were revealed."""
        for note in self.held.notes:
            if isinstance(note.facts, RevealFacts):
                self._round(note.facts)
        if not self.ends:  # nothing was revealed: all that is in is counted
            self.counted = {seat: ballot for _, seat, ballot in self.held.ballots()}
        return self

    def _round(self, revealed: RevealFacts) -> None:
        document = {s: b for number, s, b in self.held.ballots() if number == revealed.round}
        assert revealed.ballots == len(document)
        changed = 0
        for seat, ballot in sorted(document.items()):
            news = [n for n in ballot.get("because", ()) if seat not in self.authors[n]]
            reason = bool(news or ballot.get("evidence"))
            if seat in self.last and same(self.last[seat]["answer"]) != same(ballot["answer"]):
                self.changes.append((seat, revealed.round, not reason))
                changed += 1
            counted = self.counted.get(seat, ballot)
            if reason or same(counted["answer"]) == same(ballot["answer"]):
                self.counted[seat] = ballot
        known = len(self.authors)
        for seat in by_seed([*document], revealed.seed, "claims"):
            for stated in document[seat].get("claims", ()):
                name = self.names.setdefault(same(stated["text"]), f"c{len(self.names) + 1}")
                self.authors.setdefault(name, set()).add(seat)
        self.last |= document
        self.ends.append(self._end(revealed.round, changed, len(self.authors) - known))

    def _end(self, number: int, changed: int, new: int) -> End | None:
        if not self.last:
            return End.SILENT
        if self.are_one and not self.blocked:
            return End.UNANIMOUS
        if number and not changed:
            return End.STABLE
        if number and not new:
            return End.EXHAUSTED
        return End.ROUNDS if number == self.council.rounds else None

    @property
    def are_one(self) -> bool:
        """Whether all say the same, and are counted for it."""
        every = (*self.counted.values(), *self.last.values())
        return len({same(ballot["answer"]) for ballot in every}) == 1

    @property
    def blocked(self) -> list[int]:
        """Who has an objection."""
        source = self.last or self.counted
        return [seat for seat, ballot in sorted(source.items()) if ballot.get("blocker")]

    @property
    def weights(self) -> dict[str, tuple[int, list[int]]]:
        """The weight of each position, and who holds it."""
        document: dict[str, tuple[int, list[int]]] = {}
        for seat, ballot in sorted(self.counted.items()):
            weight, seats = document.get(same(ballot["answer"]), (0, []))
            weight += max(1, ballot["confidence"])
            document[same(ballot["answer"])] = weight, [*seats, seat]
        return document

    @property
    def winner(self) -> str:
        """The heaviest position; of two alike: of more seats, of the baseline, by its letters."""
        (baseline,) = [note for note in self.held.notes if note.step == "baseline"]
        first = same(baseline.bodies[0].data.decode())
        ranks = {
            stand: (-weight, -len(seats), stand != first, stand)
            for stand, (weight, seats) in self.weights.items()
        }
        return min(ranks, key=ranks.__getitem__, default="")


# Who sees what


@few
@given(councils, pools, st.integers(0, 5))
def test_a_first_ballot_is_asked_for_with_nothing_but_the_question(
    council: Council, pool: list[bytes | TurnStatus], cut: int
) -> None:
    """Whatever others have said: so its author has seen nothing of it."""
    held = hold(session_of(council), in_turn(pool, cut_at=cut or None))
    firsts = [turn for turn in held.asked if turn.name.startswith("ballot.0.")]

    expected = ballot_prompt(Quotation("the question", b"Is it?", 6), council.options)
    assert {turn.prompt for turn in firsts} == {expected}
    assert len({(turn.schema, turn.retries) for turn in firsts}) == 1


@few
@given(sessions)
def test_nobody_is_told_who_the_others_are(held: Held) -> None:
    """Not by names, numbers or an order; an own number follows from nothing either."""
    sources = {"the question", "your last ballot", "claims so far", "replies to your question"}
    for turn in held.asked:
        assert b"agent-" not in turn.prompt
        for source, _ in quoted_in(turn.prompt):
            assert source in sources or re.fullmatch(r"ballot of [ABC]", source)
        for ballot in ballots_shown(turn.prompt).values():
            assert {*ballot} <= {"answer", "confidence", "question", "decides", "blocker"}
        for document in claims_shown(turn.prompt):
            assert {*document} <= {"id", "claim", "status", "support", "evidence", "attacks"}
            assert isinstance(document["support"], int)
    exchanges = {around(t.prompt) for t in held.asked if not t.name.startswith("ballot.0.")}
    assert len(exchanges) <= 1, "what we say ourselves is the same for everybody"


@few
@given(councils, pools)
def test_names_and_briefings_change_nothing_that_others_are_told(
    council: Council, pool: list[bytes | TurnStatus]
) -> None:
    """Who is asked by which name shows nowhere else."""
    held = hold(session_of(council), in_turn(pool))
    others = tuple(Seat(f"other-{n}", f"You are {n}.") for n, _ in enumerate(council.seats))
    renamed = replace(council, seats=others)
    again = hold(session_of(renamed), in_turn(pool))

    assert [turn.prompt for turn in again.asked] == [turn.prompt for turn in held.asked]
    assert again.closing == held.closing


@few
@given(sessions)
def test_the_order_of_reading_follows_from_the_recorded_seed(held: Held) -> None:
    """Other opinions before one's own, the rarest first, one voice of each; then by the seed."""
    panel = held.session.policy.panel
    assert isinstance(panel, Council)
    stated: dict[int, Said] = {}
    reveals = [note.facts for note in held.notes if isinstance(note.facts, RevealFacts)]
    for revealed in reveals:
        stated |= {seat: b for number, seat, b in held.ballots() if number == revealed.round}
        counts = Counter(same(ballot["answer"]) for ballot in stated.values())
        for reader in stated:
            name = f"ballot.{revealed.round + 1}.{reader}"
            if name not in held.said:
                continue
            shown = ballots_shown(held.prompt(name))
            order = by_seed([s for s in stated if s != reader], revealed.seed, f"{reader}")
            stands = [same(stated[seat]["answer"]) for seat in order]
            ranks = {
                seat: (stands[:n].count(stand), stand == same(stated[reader]["answer"]),
                       counts[stand])
                for n, (seat, stand) in enumerate(zip(order, stands, strict=True))
            }  # fmt: skip
            expected = sorted(order, key=ranks.__getitem__)[: panel.peers]

            assert "".join(shown) == "ABC"[: len(expected)]
            heard = [(b["answer"], b["confidence"]) for b in shown.values()]
            assert heard == [(stated[s]["answer"], stated[s]["confidence"]) for s in expected]


def test_each_reader_has_another_order_and_it_follows_from_all_ballots() -> None:
    """So nobody can place himself first, and no place says who sits there."""

    def orders(last: int) -> list[tuple[int, ...]]:
        ways = [[said("yes" if n % 2 else "no", n)] for n in range(1, 8)] + [[said("no", last)]]
        held = hold_by_seat(open_council(8, peers=7), *ways)
        prompts = [held.prompt(f"ballot.1.{seat}") for seat in range(1, 9)]
        shown = [ballots_shown(prompt).values() for prompt in prompts]
        return [tuple(ballot["confidence"] for ballot in some) for some in shown]

    assert len({order[:2] for order in orders(8)}) > 3
    assert all(one != other for one, other in zip(orders(8), orders(9), strict=True))


def test_a_minority_is_read_first() -> None:
    """By everybody, and its claims before those of the many."""
    ways = [[said("yes", claims=claim(f"it is {n}"))] for n in "abcdefg"]
    held = hold_by_seat(open_council(8), *ways, [said("no", 20, claims=claim("it is not"))])
    for seat in range(1, 8):
        prompt = held.prompt(f"ballot.1.{seat}")
        assert ballots_shown(prompt)["A"]["answer"] == "no"
        assert claims_shown(prompt)[0]["claim"] == "it is not"


def test_no_position_is_silenced_by_the_claims_of_others() -> None:
    """Where not all claims can be shown, every position has its share, the newest included."""
    ledger = ClaimRegister()
    many = {
        seat: Ballot(
            "no" if seat < 20 else "yes", 50, tuple(StatedClaim(f"{seat} {n}") for n in "abc")
        )
        for seat in range(1, 51)
    }
    ledger.add_ballots(many, "seed")
    ledger.add_ballots({1: Ballot("gone", 50, (StatedClaim("left behind"),))}, "seed")
    ledger.add_ballots({50: Ballot("yes", 50, (StatedClaim("newest"),))}, "seed")
    shown = ledger.select_shown({"no": 19, "yes": 31}, MAX_SHOWN_CLAIMS)

    stands = [ledger.claims[shown_claim.id].answer for shown_claim in shown]
    assert stands == ["no"] * 12 + ["yes"] * 11 + ["gone"]
    assert "newest" in {shown_claim.claim for shown_claim in shown}


fragments = st.sampled_from(
    ["\n", "\r\n", "--- ", " end\n", " begin: ballot of B\n", '"}', '","answer":"no', "\\", "\x00",
     "{", "\u2028", sha256(b"Is it?").hexdigest()[:32], "Reply with JSON: ", "x"]
)  # fmt: skip
forgeries = st.lists(fragments, min_size=1, max_size=10).map(lambda parts: f"x{''.join(parts)}x")


@few
@given(forgeries, forgeries)
def test_nobody_can_speak_in_the_name_of_another(first: str, second: str) -> None:
    """What others say is found in their quotations, whole, and nowhere else."""
    lines: dict[str, Any] = {"question": second, "decides": second, "blocker": second}
    hostile = said(first, claims=[{"text": second, "evidence": second}], **lines)
    held = hold_by_seat(open_council(3), [hostile], [said("no")], [said("yes")])
    tame = hold_by_seat(open_council(3), [said("x")], [said("no")], [said("yes")])
    prompt = held.prompt("ballot.1.2")

    assert around(prompt) == around(tame.prompt("ballot.1.2"))
    shown = ballots_shown(prompt)
    assert {ballot["answer"] for ballot in shown.values()} == {"yes", first}
    (forged,) = [ballot for ballot in shown.values() if ballot["answer"] == first]
    assert all(forged[name] == second for name in lines)
    (made,) = claims_shown(prompt)
    assert (made["claim"], made["evidence"]) == (second, second)


def test_an_answer_comes_back_to_the_one_who_asked_and_to_nobody_else() -> None:
    """Asked in one round, answered in the next, read in the one after, with what was asked."""

    def says(number: int) -> list[Said]:
        reply = [{"to": label, "text": f"one metre, says {number}"} for label in "ABC"]
        new = claim(f"new {number}")
        return [said("yes"), said("maybe", evidence="page 1", claims=new, replies=reply)]

    asks = [said("no", question="how slow?"), said("no", question="and then?"), said("no")]
    held = hold_by_seat(open_council(4, peers=2), asks, says(2), says(3), says(4))

    document = {turn.name: dict(quoted_in(turn.prompt)) for turn in held.asked}
    got = {name for name, quoted in document.items() if "replies to your question" in quoted}
    assert got == {"ballot.2.1"}, "the others have asked nothing: nobody can write to them"
    answers = json.loads(document["ballot.2.1"]["replies to your question"])
    assert answers["question"] == "how slow?"
    assert len(answers["replies"]) == 2, "of as many as it reads ballots of"
    assert {*answers["replies"]} < {f"one metre, says {n}" for n in (2, 3, 4)}


LINE, ANSWER = 300, 4000
EXCERPT, ESCAPED = 2001, 6
FRAME = 4000


def most_bytes(policy: Policy, peers: int) -> int:
    """Return how long a prompt can be: it does not depend on how many sit there."""
    own = ANSWER + (3 * 2 + 3 + peers + 4) * LINE
    read = peers * (EXCERPT + 3 * LINE)
    claims = MAX_SHOWN_CLAIMS * (2 + MAX_ATTACKS) * LINE
    replied = (1 + peers) * LINE
    return policy.input_bytes + ESCAPED * (own + read + claims + replied) + FRAME


def test_fifty_seats_that_say_as_much_as_they_can_make_no_prompt_too_long() -> None:
    """Also where each of them says everything many times over."""
    peers = 3

    def answer(turn: Turn) -> bytes:
        _, number, seat = turn.name.split(".")
        letter = ("\x01", "\U0001f5f3", "w")[int(seat) % 3]
        own = f"{seat}.{number} {letter * 310}"
        on = [f"c{n}" for n in range(1, 7)] * 2
        return json.dumps(
            said(
                f"{own} {letter * 4000}",
                claims=[{"text": f"{n} {own}", "evidence": own} for n in range(5)],
                supports=on,
                because=on,
                attacks=[{"claim": name, "why": own} for name in on],
                replies=[{"to": label, "text": own} for label in "ABCABC"],
                evidence=own,
                question=own,
                decides=own,
                blocker=own,
            )
        ).encode()

    session = session_of(open_council(50, peers=peers), "w" * 100_000)
    held = hold(session, answer)

    assert len(held.asked) == 150
    assert max(len(t.prompt) for t in held.asked) <= most_bytes(session.policy, peers)
    assert len(claims_shown(held.prompt("ballot.2.1"))) == MAX_SHOWN_CLAIMS


# When it ends, and what is counted


@settings(max_examples=150)
@given(sessions)
def test_what_a_council_concludes_follows_from_its_entries(held: Held) -> None:
    """Its end, its answer, who has changed and why, and who was outvoted."""
    reckoned, facts = Reckoning(held).reckon(), facts_of(held)
    report = report_of(held)
    council, closing = reckoned.council, held.closing
    assert closing is not None

    if facts.end is End.GATE:
        assert reckoned.ends == []
    else:
        assert reckoned.ends == [None] * facts.rounds + [facts.end]
        assert same(closing.answer) == reckoned.winner
    assert facts.rounds <= council.rounds
    assert closing.outcome is (Outcome.OK if reckoned.counted else Outcome.FAILED)
    assert (facts.changed, facts.conformed) == (
        len(reckoned.changes),
        sum(1 for _, _, conformed in reckoned.changes if conformed),
    )
    assert [(c.seat, c.round, c.conformity) for c in report.changes] == reckoned.changes
    assert report.conformity == 1000 * facts.conformed // max(1, facts.changed)
    outvoted = {s: w for s, w in reckoned.weights.items() if s != same(closing.answer)}
    assert {same(m.answer): (m.weight, [*m.seats]) for m in report.minority} == outvoted
    assert [m.weight for m in report.minority] == sorted(
        (weight for weight, _ in outvoted.values()), reverse=True
    )
    assert [block.seat for block in report.blockers] == reckoned.blocked
    assert facts.blockers == len(reckoned.blocked)
    assert (facts.usd, facts.tokens) == (COST.usd * len(held.said), COST.tokens * len(held.said))
    weighed = {sat.seat: sat.weighed for sat in report.seats}
    assert weighed == {seat: ballot["answer"] for seat, ballot in reckoned.counted.items()}


@settings(max_examples=80)
@given(sessions)
def test_agreed_is_said_only_where_everybody_says_it(held: Held) -> None:
    """A blocker, a seat that said nothing, or a last word that is not weighed prevents it."""
    reckoned, facts = Reckoning(held).reckon(), facts_of(held)
    asked = len({turn.name.split(".")[2] for turn in held.asked})
    every = reckoned.are_one and len(reckoned.counted) == asked
    holders = len(reckoned.weights.get(same(report_of(held).answer), (0, []))[1])
    expected = (
        Accord.SPLIT if not reckoned.counted
        else Accord.BLOCKED if reckoned.blocked
        else Accord.AGREED if every
        else Accord.MAJORITY if 2 * holders > asked
        else Accord.SPLIT
    )  # fmt: skip

    assert facts.accord is expected


@settings(max_examples=80)
@given(sessions)
def test_the_gate_opens_for_enough_who_agree_and_the_baseline_is_always_recorded(
    held: Held,
) -> None:
    """Enough of all that were asked, not only of those who answered; a blocker keeps it shut."""
    council = Reckoning(held).council
    note = held.note("baseline")
    facts = note.facts
    assert isinstance(facts, BaselineFacts)
    asked = min(council.baseline or len(council.seats), len(council.seats))
    first = [b for number, seat, b in held.ballots() if number == 0 and seat <= asked]
    counts = Counter(same(ballot["answer"]) for ballot in first)
    share = 1000 * max(counts.values(), default=0) / asked
    opens = bool(council.baseline and first) and share >= council.threshold
    opens = opens and not any(ballot.get("blocker") for ballot in first)

    assert facts.answers == len(first)
    assert facts.agreement == int(share)
    assert counts[same(note.bodies[0].data.decode())] == max(counts.values(), default=0)
    assert (facts.passage is BaselineDecision.AGREED) == opens == (facts_of(held).end is End.GATE)
    assert (facts.passage is BaselineDecision.OPEN) == (council.baseline == 0)
    assert (facts.usd, facts.tokens) == (COST.usd * asked, COST.tokens * asked)
    base = report_of(held).baseline
    assert base.changed == (same(base.answer) != same(report_of(held).answer))
    if opens:
        assert len(held.said) == asked


def test_a_change_without_a_reason_is_conformity_and_is_not_weighed() -> None:
    """However often it is repeated; it is shown all the same."""
    new = [said("no", claims=claim(f"new {n}")) for n in range(3)]
    swinging = [said("yes", 90), said("no", 90, evidence="it is raining")]
    held = hold_by_seat(
        open_council(3, rounds=2), [said("yes", 90), said("no", 100)], new, [*swinging, swinging[0]]
    )
    report = report_of(held)

    assert report.seats[0].weighed == "yes"
    assert [vote.answer for vote in report.seats[0].votes] == ["yes", "no", "no"]
    turned = [(change.seat, change.round, change.conformity) for change in report.changes]
    assert turned == [(1, 1, True), (3, 1, False), (3, 2, True)]
    assert report.seats[2].weighed == "no", "also the way back needs a reason"
    assert (report.conformity, facts_of(held).conformed) == (666, 2)


def test_a_reason_that_comes_later_lets_a_change_count() -> None:
    """What is missing is a reason, not a time for it."""
    late = [said("yes"), said("no"), said("no", evidence="page 7")]
    moving = [said("yes"), said("no", evidence="page 3"), said("no")]
    new = [said("no", claims=claim(f"new {n}")) for n in range(3)]
    held = hold_by_seat(open_council(3, rounds=2), late, moving, new)

    assert report_of(held).seats[0].weighed == "no"
    assert facts_of(held).end is End.UNANIMOUS


@pytest.mark.parametrize(
    ("own", "others", "counts"),
    [
        ("it is dear", "it is safe", True),
        ("it is dear", "it is dear", False),  # made by both, in whatever order
        ("It is dear.", "it is  dear", False),
    ],
)
def test_a_claim_of_ones_own_is_no_reason(own: str, others: str, *, counts: bool) -> None:
    """Nor is it one where another seat has made the same claim."""
    for turned in range(3):  # whoever's claim comes first
        because = [f"c{n}" for n in range(1, 4)] if counts else ["c1"]
        ways: list[list[Said]] = [[said("yes", n, claims=claim(others))] for n in range(3)]
        ways[turned] = [said("no", claims=claim(own)), said("yes", because=because)]
        report = report_of(hold_by_seat(open_council(3, rounds=1), *ways))

        (change,) = report.changes
        assert change.conformity is not counts
        assert change.because == ((others,) if counts else ())


def test_what_was_not_shown_is_nothing_to_refer_to() -> None:
    """A seat that makes up a claim has no reason, supports nothing and attacks nothing."""
    made_up = said("yes", because=["c2", "c999", "ballot of A"], supports=["c2"],
                   attacks=[{"claim": "c2", "why": "so"}])  # fmt: skip
    stays = [said("yes", claims=claim("it is safe")), said("yes", claims=claim("it is new"))]
    held = hold_by_seat(open_council(2, rounds=1), [said("no"), made_up], stays)

    assert [change.conformity for change in report_of(held).changes] == [True]
    (ballot,) = [b for number, seat, b in held.ballots() if (number, seat) == (1, 1)]
    assert {*ballot} == {"answer", "confidence"}


def test_who_repeats_himself_is_heard_once() -> None:
    """A claim is attacked once by each seat, and the last word of a seat on it holds."""
    ledger = ClaimRegister()
    ledger.add_ballots({1: Ballot("a", 50, (StatedClaim("it is safe"),))}, "")
    for why in ("one", "two"):
        ledger.add_ballots({2: Ballot("b", 50, attacks=(Attack("c1", why),))}, "")
    ledger.add_ballots(
        {3: Ballot("b", 50, supports=("c1",)), 1: Ballot("a", 50, supports=("c1",))}, ""
    )
    (first,) = ledger.select_shown({}, 9)
    ledger.add_ballots({2: Ballot("b", 50, claims=(StatedClaim("It is safe."),))}, "")
    (second,) = ledger.select_shown({}, 9)

    assert (first.attacks, first.support, first.status.value) == (("two",), 1, "contested")
    assert (second.attacks, second.support, second.status.value) == ((), 2, "supported")


def test_of_many_attacks_on_a_claim_the_newest_are_shown() -> None:
    """So a crowd cannot drown a claim, or what else is to be read."""
    ledger = ClaimRegister()
    ledger.add_ballots({1: Ballot("a", 50, (StatedClaim("it is safe"),))}, "")
    for seat in range(2, 40):
        ledger.add_ballots({seat: Ballot("b", 50, attacks=(Attack("c1", f"{seat}"),))}, "")
    (shown,) = ledger.select_shown({}, 9)

    assert shown.attacks == tuple(f"{seat}" for seat in range(40 - MAX_ATTACKS, 40))


@given(st.lists(st.sampled_from(OPTIONS), min_size=1, max_size=5), st.integers(0, 100))
@settings(max_examples=30)
def test_where_one_sits_decides_nothing_but_a_tie(answers: list[str], confidence: int) -> None:
    """Seats that are equally sure count alike, wherever they sit."""
    best = Counter(answers).most_common()
    winners = {stand for stand, votes in best if votes == best[0][1]}
    texts = set()
    for order in {*permutations(answers)}:
        ways = [[said(answer, confidence)] for answer in order]
        held = hold_by_seat(open_council(len(ways), options=OPTIONS, rounds=0), *ways)
        assert held.closing is not None
        texts.add(held.closing.answer)
        if len(winners) > 1:  # the answer of more seats, then of the first of them
            assert held.closing.answer == next(text for text in order if text in winners)

    assert texts == winners


def test_who_is_sure_of_nothing_still_counts() -> None:
    """An answer with no confidence weighs as little as one can, but not nothing."""
    ways = [[said("yes", 0)]] * 3
    held = hold_by_seat(open_council(4, rounds=0), *ways, [said("no", 2)])

    assert report_of(held).answer == "yes"
    assert [minority_position.weight for minority_position in report_of(held).minority] == [2]


def test_an_objection_keeps_the_gate_shut_and_agreement_from_being_called() -> None:
    """All say the same, and one of them that something must be answered first."""
    ways = [[said("yes")]] * 4
    held = hold_by_seat(Council(seats_of(5)), [said("yes", blocker="the law")], *ways)
    lifted = hold_by_seat(Council(seats_of(5)), [said("yes", blocker="the law"), ways[0][0]], *ways)

    assert len(held.said) == 10, "all others are asked, and then everybody again"
    assert (facts_of(held).end, facts_of(held).accord) == (End.STABLE, Accord.BLOCKED)
    assert [block.text for block in report_of(held).blockers] == ["the law"]
    assert (facts_of(lifted).end, facts_of(lifted).accord) == (End.UNANIMOUS, Accord.AGREED)


WRITTEN: list[tuple[dict[str, Any], str]] = [
    ({"blocker": True}, "an objection without words"),
    ({"blocker": ["the law", "none", "the cost"]}, "the law; the cost"),
    ({"blocker": {"what": "the law", "page": 3, "checked": False}}, "the law; 3"),
    ({"Blocker": "the law"}, "the law"),
    ({"blockers": ["the law"], "blocker": ""}, "the law"),
    ({"blocker": False}, ""),
    ({"blocker": None}, ""),
    ({"blocker": ["N/A", {}, 0]}, ""),
]


@pytest.mark.parametrize("version", [1, COUNCIL_VERSION])
@pytest.mark.parametrize(("members", "text"), WRITTEN)
def test_an_objection_counts_in_any_form(members: dict[str, Any], text: str, version: int) -> None:
    """Nobody loses one to the form of a ballot; what earlier councils counted does not change."""
    council = Council(seats_of(3), OPTIONS, rounds=1, version=version)
    held = hold_by_seat(council, [said("yes")], [said("yes")], [said("yes", **members)])
    report = report_of(held)

    if version == COUNCIL_VERSION:
        assert [each.text for each in report.blockers] == [text][: bool(text)]
        assert report.accord is (Accord.BLOCKED if text else Accord.AGREED)
        assert report.absent == ()
    else:
        assert report.blockers == ()


def test_the_findings_name_the_seats_that_cast_no_ballot() -> None:
    """Two of three are not all."""
    council = Council(seats_of(3), OPTIONS, rounds=1, version=COUNCIL_VERSION)
    silent: list[Said | TurnStatus] = [TurnStatus.FAILED]
    report = report_of(hold_by_seat(council, [said("yes")], [said("yes")], silent))

    text = describe_findings(report)
    assert "(2 of 3 seats)" in text
    assert "Cast no ballot:\n- seat 3" in text


def test_none_is_not_taken_for_an_objection() -> None:
    """Models fill in what they were asked to leave empty."""
    filled: dict[str, Any] = dict.fromkeys(("evidence", "question", "decides", "blocker"), "None")
    held = hold_by_seat(Council(seats_of(3)), *[[said("yes", **filled)]] * 3)

    assert (facts_of(held).end, facts_of(held).accord) == (End.GATE, Accord.AGREED)


def test_a_last_word_that_does_not_count_still_prevents_unanimity() -> None:
    """Who has changed without a reason is not weighed, but he does not agree either."""
    won = [said("no"), said("yes", evidence="page 1", claims=claim("it is new"))]
    held = hold_by_seat(open_council(2, rounds=1), won, [said("yes"), said("no")])

    assert held.closing is not None
    assert held.closing.answer == "yes"
    assert (facts_of(held).end, facts_of(held).accord) == (End.ROUNDS, Accord.MAJORITY)


# Checks and judges


def judged(pick: Callable[[str, str], str], *answers: str) -> Held:
    """Hold a session over open answers that a judge compares."""
    council = open_council(len(answers), rounds=0, judge="judge")

    def answer(turn: Turn) -> bytes:
        kind, *_, number = turn.name.split(".")
        if kind == "ballot":
            return json.dumps(said(answers[int(number) - 1])).encode()
        assert not isinstance(turn, ToolProbe)
        _, (_, first), (_, second) = quoted_in(turn.prompt)
        return json.dumps({"better": pick(first.decode(), second.decode())}).encode()

    return hold(session_of(council), answer)


@pytest.mark.parametrize("place", ["first", "second"])
def test_a_judge_who_prefers_a_place_decides_nothing(place: str) -> None:
    """Each pair is shown in both orders; only who keeps to his choice has made one."""
    biased = judged(lambda _a, _b: place, "aa", "bbb", "c")
    fair = judged(lambda a, b: "first" if len(a) > len(b) else "second", "aa", "bbb", "c")

    assert (facts_of(biased).ground, report_of(biased).answer) == (Ground.VOTE, "aa")
    assert (facts_of(fair).ground, report_of(fair).answer) == (Ground.JUDGE, "bbb")


def test_a_judge_reads_whole_answers() -> None:
    """One that is right at its end is not judged by its beginning."""
    tail = "w" * 3900
    held = judged(lambda a, _: "first" if a.endswith("good") else "second", f"{tail} good", tail)
    assert report_of(held).answer.endswith("good")


@pytest.mark.parametrize("holds", ["yes", "no", ""])
def test_a_tool_decides_where_there_is_one(holds: str) -> None:
    """What it finds to hold is the answer, however few said so; otherwise a reader is warned."""
    council = open_council(3, rounds=0, check="tool")

    def answer(turn: Turn) -> bytes | TurnStatus:
        if isinstance(turn, ToolProbe):
            return b"" if json.loads(turn.given)["answer"] == holds else TurnStatus.FAILED
        return json.dumps(said("no" if turn.name.endswith("3") else "yes")).encode()

    report = report_of(hold(session_of(council), answer))

    assert report.answer == (holds or "yes")
    assert report.ground is (Ground.CHECK if holds else Ground.VOTE)
    assert (NO_CHECKED_ANSWER_WARNING in report.warnings) is not bool(holds)


# Failures, stops and going on


@few
@given(councils, pools, st.sets(st.integers(0, 20)))
def test_who_fails_never_ends_the_session(
    council: Council, pool: list[bytes | TurnStatus], failing: set[int]
) -> None:
    """Unless nobody is left; and who never spoke is not asked again, but named."""
    turns = iter(range(1000))
    spoken = in_turn(pool)
    held = hold(
        session_of(council), lambda t: TurnStatus.FAILED if next(turns) in failing else spoken(t)
    )
    closing, present = held.closing, {seat for _, seat, _ in held.ballots()}
    assert closing is not None

    assert (closing.outcome is Outcome.OK) == bool(present)
    assert (facts_of(held).end is End.SILENT) == (not present)
    first = {s for number, s, _ in held.ballots() if number == 0}
    asked_again = {int(t.name.split(".")[2]) for t in held.asked if ".0." not in t.name}
    assert asked_again <= first
    asked = {int(turn.name.split(".")[2]) for turn in held.asked}
    assert {*report_of(held).absent} == asked - first


@few
@given(councils, pools, st.integers(0, 20))
def test_a_stop_at_any_turn_leads_to_a_closing(
    council: Council, pool: list[bytes | TurnStatus], turn: int
) -> None:
    """Nobody is asked again; what is in is counted, and told."""
    whole = hold(session_of(council), in_turn(pool))
    held = hold(session_of(council), in_turn(pool, cut_at=turn))
    closing = held.closing
    assert closing is not None

    if turn >= len(whole.said):
        assert closing == whole.closing
        return
    *before, stopped, close = held.steps
    assert before == whole.steps[: len(before)]
    assert isinstance(stopped, TurnBatch)
    assert isinstance(close, SessionNote)
    assert closing.outcome is Outcome.FAILED
    assert facts_of(held).end is End.STOPPED
    assert bool(closing.answer) == bool([*held.ballots()])
    asked = {turn.name.split(".")[2] for turn in held.asked}
    if len({seat for _, seat, _ in held.ballots()}) < len(asked):
        assert facts_of(held).accord is not Accord.AGREED


@few
@given(sessions)
def test_a_record_leads_to_the_next_step_from_wherever_it_ends(held: Held) -> None:
    """Whoever goes on with it asks the same, with the same words; also after half a round."""
    turns = notes = 0
    for step in held.steps:
        assert replay(held, turns, notes) == step
        if isinstance(step, TurnBatch):
            assert replay(held, turns + len(step.turns) - 1, notes) == step
            turns += len(step.turns)
        else:
            notes += 1

    assert replay(held, turns, notes) == held.closing
    assert len({note.step for note in held.notes}) == len(held.notes)


@few
@given(sessions, st.data())
def test_a_reply_that_was_erased_says_nothing(held: Held, data: st.DataObject) -> None:
    """Its words are gone, and a session that is played again goes on without them."""
    gone = data.draw(st.sampled_from([*held.said]))
    held.said[gone] = replace(held.said[gone], output=b"")

    replay(held, len(held.said), len(held.notes))


def test_a_session_needs_a_panel() -> None:
    """Without one nobody could be asked."""
    session = replace(session_of(open_council(1)), policy=Policy({"": Scripted()}))
    with pytest.raises(ValueError, match="nobody sits"):
        start_protocol(KINDS, session)


# Ballots

lines = st.text(max_size=20).map(str.strip)
full = lines.filter(lambda text: normalize_answer(text) not in ("", "-", "none", "n/a", "null"))
ballot_rules = BallotRules(claims=("c1", "c2"), peers=("A", "B"))
written = st.builds(
    Ballot,
    full,
    st.integers(0, 100),
    st.lists(st.builds(StatedClaim, full, full), max_size=3).map(tuple),
    because=st.lists(st.sampled_from(ballot_rules.claims), unique=True).map(tuple),
    evidence=full,
    supports=st.lists(st.sampled_from(ballot_rules.claims), unique=True).map(tuple),
    attacks=st.lists(
        st.builds(Attack, st.sampled_from(ballot_rules.claims), full), unique_by=lambda a: a.claim
    ).map(tuple),
    question=full,
    replies=st.lists(
        st.builds(PeerAnswer, st.sampled_from(ballot_rules.peers), full), unique_by=lambda a: a.to
    ).map(tuple),
    decides=full,
    blocker=full,
)


@given(written)
def test_a_ballot_is_read_as_it_was_written(ballot: Ballot) -> None:
    """What is recorded is what was cast."""
    assert read_ballot(encode_ballot(ballot), ballot_rules) == ballot


hostile_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from([2**53 + 1, 10**400, -1, 1e308, "\ud800", "x" * 100_000, "c1", "A"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "claim", "why", "to", "evidence"]), inner)
    ),
    max_leaves=6,
)
members = st.sampled_from([*Ballot.__struct_fields__, "other"])


@settings(max_examples=100)
@given(
    st.dictionaries(members, hostile_values),
    st.booleans(),
    st.sampled_from([(), OPTIONS]),
)
def test_a_hostile_ballot_is_read_or_refused(
    values: dict[str, Any],
    fair: bool,  # noqa: FBT001
    options: tuple[str, ...],
) -> None:
    """And one that is read is within its bounds, and stays as it is when it is read again."""
    rules = replace(ballot_rules, options=options)
    if fair:
        values = values | said("yes")
    try:
        ballot = read_ballot(json.dumps(values).encode(errors="surrogatepass"), rules)
    except ValueError:
        return

    assert read_ballot(encode_ballot(ballot), rules) == ballot
    assert 0 <= ballot.confidence <= 100
    assert len(ballot.answer) <= ANSWER
    texts = [
        *(stated_claim.text for stated_claim in ballot.claims),
        *(stated_claim.text for stated_claim in ballot.replies),
    ]
    assert max(map(len, [*texts, ballot.evidence, ballot.blocker])) <= LINE
    assert {*ballot.because, *ballot.supports} <= {*rules.claims}


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"``````",
        b"[" * 2000 + b"]" * 2000,
        b'{"answer": "yes", "confidence": 5, "x": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"answer": "yes", "confidence": NaN}',
        b'{"answer": "yes", "confidence": 1e999}',
        b'{"answer": "yes", "confidence": ' + b"9" * 9000 + b"}",
        b'{"answer": "yes", "confidence": 9007199254740993}',
        b'{"answer": "yes", "confidence": "80"}',
        b'{"answer": "yes", "confidence": true}',
        b'{"answer": "\\ud800", "confidence": 5}',
        b'{"answer": " . ", "confidence": 5}',
        b'{"answer": "' + b"." * 4000 + b'x", "confidence": 5}',
        b'{"confidence": 5}',
    ],
)
def test_what_is_no_ballot_is_refused(reply: bytes) -> None:
    """With words for its author, who is asked again."""
    with pytest.raises(ValueError, match=r"."):
        read_ballot(reply, BallotRules())


@pytest.mark.parametrize(
    ("text", "other", "alike"),
    [
        ("Yes.", "yes", True),
        (' "Yes" ', "YES", True),
        ('"Yes".', "`yes.`", True),
        ("a  b\nc", "A b c", True),
        ("5!", "5", False),
        (".5", "5", False),
        ("!x", "x", False),
        ("-1", "1", False),
        ('5"', "5", False),
    ],
)
def test_answers_are_alike_that_differ_in_nothing_but_their_writing(
    text: str, other: str, *, alike: bool
) -> None:
    """What could be another answer is one: to split votes is better than to merge opinions."""
    assert (normalize_answer(text) == normalize_answer(other)) is alike


@given(st.text("\"'`. \t\u2003ab", max_size=14))
def test_a_position_is_what_is_left_when_marks_are_taken_away_in_pairs(answer: str) -> None:
    """Step by step, as the specification has it."""
    words = " ".join(answer.casefold().split()).rstrip(" .")
    while len(words) > 1 and words[0] == words[-1] and words[0] in "\"'`":
        words = words[1:-1].strip().rstrip(" .")

    assert normalize_answer(answer) == words


@pytest.mark.parametrize(("written", "read"), [("0.8", 80), ("80", 80), ("1", 1), ("79.6", 80)])
def test_a_confidence_may_be_a_share_or_a_percentage(written: str, read: int) -> None:
    """Models say 0.8 where they were asked for 80."""
    reply = f'{{"answer": "yes", "confidence": {written}}}'.encode()
    assert read_ballot(reply, BallotRules()).confidence == read
