"""A council: sealed ballots, an anonymous exchange, and code that counts the votes.

Nobody sees anything of another seat before all ballots of a round are sealed.  A change of answer
has to name its reason, or it is not weighed.  Who is asked, what they are told, when it ends and
what the answer is follow from the ballots alone.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from hashlib import sha256

import msgspec

from forum.deliberation.ballots import (
    Ballot,
    Place,
    Rules,
    ballot_schema,
    read_ballot,
    write_ballot,
)
from forum.deliberation.briefing import (
    FIRST,
    MOST_SHOWN,
    SECOND,
    Peer,
    Preference,
    Question,
    View,
    ballot_prompt,
    exchange_prompt,
    judge_prompt,
    judge_schema,
    read_preference,
)
from forum.deliberation.claims import ClaimLedger, shuffled
from forum.deliberation.counting import Cast, Tally, most_frequent, words_for
from forum.deliberation.kinds import (
    Accord,
    Balloted,
    Baselined,
    Concluded,
    End,
    Ground,
    Opened,
    Passage,
    Revealed,
)
from forum.deliberation.report import Change, Outline, report_on
from forum.deliberation.steps import (
    NOTHING,
    Asked,
    Body,
    Closing,
    Fate,
    Heard,
    Note,
    Part,
    Probe,
    Said,
    Session,
    Steps,
    Turns,
)
from forum.ledger import Amount, Outcome
from forum.tlog import Hash
from forum.work import Council, Quoted, position

MOST_COMPARED = 4
"""How many answers a judge, or a tool, is shown."""
WHOLE = 1000

_LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def council(session: Session) -> Steps:
    """Deliberate."""
    return _Sitting(session).steps()


class _Stop(Exception):
    """The session was stopped."""


class _Sitting(msgspec.Struct):
    """A council as far as it has come."""

    session: Session
    casts: list[Cast] = []
    changes: list[Change] = []
    claims: ClaimLedger = msgspec.field(default_factory=ClaimLedger)
    weighed: dict[int, Ballot] = {}
    """The ballot of each seat that counts: the last one that it had a reason for."""
    stated: dict[int, Ballot] = {}
    """What each seat has said last."""
    stands: dict[int, str] = {}
    """Its position."""
    answered: dict[int, Question] = {}
    """What seats have asked that others have answered in this round."""
    labels: dict[int, dict[str, int]] = {}
    """How each reader has called the others in this round."""
    baseline: Baselined | None = None
    baseline_answer: str = ""
    spent: Amount = NOTHING
    seed: str = ""
    round: int = 0
    news: int = 0
    """How many claims were new in this round."""

    @property
    def council(self) -> Council:
        """Its rules."""
        panel = self.session.policy.panel
        assert isinstance(panel, Council)  # noqa: S101  `deliberate` has looked
        return panel

    @property
    def question(self) -> Quoted:
        """What is deliberated on."""
        whole = self.session.problem.encode(errors="replace")
        return Quoted("the question", whole[: self.session.policy.input_bytes], len(whole))

    # The course of it

    def steps(self) -> Steps:
        """Go through all of it."""
        try:
            end = yield from self._deliberate()
            answer, ground = yield from self._choose(end)
        except _Stop:
            end, answer, ground = End.STOPPED, self._leader(), Ground.VOTE
        return (yield from self._close(end, answer, ground))

    def _deliberate(self) -> Part[End]:
        council = self.council
        agents = {seat.agent for seat in council.seats}
        yield Note(
            "council",
            Opened(len(council.seats), len(agents), council.baseline, council.rounds),
        )
        seats = range(1, len(council.seats) + 1)
        first = council.baseline or len(seats)
        yield from self._cast(seats[:first])
        if (yield from self._gate(len(seats[:first]))):
            return End.GATE
        yield from self._cast(seats[first:])
        yield from self._reveal()
        while True:
            end = self._end()
            if end is not None:
                return end
            self.round += 1
            yield from self._cast([seat for seat in seats if seat in self.weighed])
            yield from self._reveal()

    def _cast(self, seats: Iterable[int]) -> Part[None]:
        """Have seats cast their ballots, all at the same time."""
        turns = tuple(self._ballot(seat) for seat in seats)
        if not turns:
            return
        heard = yield from self._ask(turns)
        for seat, turn, said in zip(seats, turns, heard.said, strict=True):
            ballot = _read(turn, said)
            if isinstance(ballot, Ballot):
                self.casts.append(Cast(seat, self.round, ballot, said))
        if heard.stopped:
            raise _Stop

    def _ask(self, turns: tuple[Asked | Probe, ...]) -> Part[Heard]:
        heard = yield Turns(turns)
        for said in heard.said:
            self.spent = self.spent.plus(said.spent)
        return heard

    def _ballot(self, seat: int) -> Asked:
        """Return what a seat is asked."""
        chair, options = self.council.seats[seat - 1], self.council.options
        room = self.session.policy.room_of(chair.agent)
        if self.round == 0:
            rules = Rules(options, room=room)
            prompt = ballot_prompt(self.question, options)
        else:
            view = self._view(seat)
            claims = tuple(claim.id for claim in view.claims)
            askers = tuple(peer.label for peer in view.peers if peer.ballot.question)
            rules = Rules(options, claims, askers, room)
            prompt = exchange_prompt(self.question, options, view)
        facts = Balloted(seat, self.round)
        return Asked(
            Place(self.round, seat).turn,
            chair.agent,
            prompt,
            ballot_schema(rules, first=self.round == 0),
            partial(read_ballot, rules=rules),
            chair.briefing,
            note=lambda said: Note(
                "ballot", facts, (Body("ballot", write_ballot(read_ballot(said, rules))),)
            ),
        )

    # The gate

    def _gate(self, asked: int) -> Part[bool]:
        """Record what the first seats have answered, and tell whether that is all."""
        council = self.council
        self.baseline_answer, votes = most_frequent(self.casts)
        passage, agreement = Passage.OPEN, WHOLE * votes // asked
        if council.baseline:
            agreed = votes and agreement >= council.threshold
            blocked = any(cast.ballot.blocker for cast in self.casts)
            passage = Passage.AGREED if agreed and not blocked else Passage.DELIBERATE
        if passage is Passage.AGREED and council.check:
            holds = yield from self._check([position(self.baseline_answer)])
            passage = Passage.AGREED if holds else Passage.DELIBERATE
        usd, tokens, _ = self.spent
        self.baseline = Baselined(len(self.casts), agreement, passage, usd, tokens)
        body = Body("answer", self.baseline_answer.encode(errors="replace"), "text/plain")
        yield Note("baseline", self.baseline, (body,), _entries(self.casts))
        if passage is Passage.AGREED:
            self.weighed = {cast.seat: cast.ballot for cast in self.casts}
        return passage is Passage.AGREED

    # The exchange

    def _reveal(self) -> Part[None]:
        """Take in the ballots of a round, now that all are sealed."""
        casts = [cast for cast in self.casts if cast.round == self.round]
        ballots = {cast.seat: cast.ballot for cast in casts}
        sealed = [self.session.problem.encode(errors="replace")]
        sealed += [write_ballot(ballots[seat]) for seat in sorted(ballots)]
        self.seed = sha256(b"".join(sha256(one).digest() for one in sealed)).hexdigest()
        facts = Revealed(self.round, len(ballots), self.seed)
        yield Note(f"reveal/{self.round}", facts, (), _entries(casts))
        self.answered = self._answered(ballots)
        for seat, ballot in sorted(ballots.items()):
            self._weigh(seat, ballot)
        self.news = self.claims.take(ballots, self.seed)
        self.stated |= ballots
        self.stands |= {seat: position(ballot.answer) for seat, ballot in ballots.items()}

    def _weigh(self, seat: int, ballot: Ballot) -> None:
        """Let a ballot count, unless it leaves what counts so far without a reason."""
        counted, stated = self.weighed.get(seat), self.stated.get(seat)
        if counted is None or stated is None:
            self.weighed[seat] = ballot
            return
        claims, stand = self.claims.claims, position(ballot.answer)
        reasons = tuple(name for name in ballot.because if seat not in claims[name].authors)
        change = Change(seat, self.round, stated.answer, ballot.answer, reasons, ballot.evidence)
        if self.stands[seat] != stand:
            self.changes.append(change)
        # Against what counts, not against what was said last: to say it twice is no reason.
        if change.reasoned or position(counted.answer) == stand:
            self.weighed[seat] = ballot

    def _answered(self, ballots: dict[int, Ballot]) -> dict[int, Question]:
        """Return what seats have answered to those who asked; nobody can write to anybody else."""
        found: dict[int, list[str]] = {}
        for seat in shuffled(ballots, self.seed, "replies"):
            for reply in ballots[seat].replies:
                found.setdefault(self.labels[seat][reply.to], []).append(reply.text)
        most = self.council.peers
        return {
            asker: Question(self.stated[asker].question, tuple(replies[:most]))
            for asker, replies in found.items()
        }

    def _view(self, reader: int) -> View:
        """Return what a seat may see: a few others, those of other opinions and the fewest first.

        Names are letters, given anew for every reader and round.
        """
        counts, heard = Counter(self.stands.values()), Counter[str]()
        others = shuffled((s for s in self.stated if s != reader), self.seed, f"{reader}")
        strangeness: dict[int, tuple[int, bool, int]] = {}
        for seat in others:  # one voice of each opinion first, then their second voices
            stand = self.stands[seat]
            strangeness[seat] = heard[stand], stand == self.stands[reader], counts[stand]
            heard[stand] += 1
        most = min(self.council.peers, len(_LABELS))
        chosen = sorted(others, key=strangeness.__getitem__)[:most]
        self.labels[reader] = dict(zip(_LABELS, chosen, strict=False))
        peers = tuple(Peer(label, self.stated[s]) for label, s in self.labels[reader].items())
        claims = self.claims.shown(counts, MOST_SHOWN)
        return View(self.stated[reader], peers, claims, self.answered.get(reader))

    def _end(self) -> End | None:
        """Tell whether nobody is to be asked again, and why."""
        if not self.stated:
            return End.SILENT
        if self._are_one() and not self._blockers():
            return End.UNANIMOUS
        if self.round > 0 and not any(change.round == self.round for change in self.changes):
            return End.STABLE
        if self.round > 0 and self.news == 0:
            return End.EXHAUSTED
        return End.ROUNDS if self.round >= self.council.rounds else None

    # The answer

    def _tally(self) -> Tally:
        return Tally(self.weighed.values())

    def _ranking(self) -> list[str]:
        return self._tally().ranking(position(self.baseline_answer))

    def _leader(self) -> str:
        if not self.weighed:  # stopped before the first reveal: what is in is counted
            self.weighed = {cast.seat: cast.ballot for cast in self.casts}
        return next(iter(self._ranking()), "")

    def _choose(self, end: End) -> Part[tuple[str, Ground]]:
        """Return the answer: by a tool where there is one, by vote, by a judge as a last resort."""
        if end is End.GATE:
            return position(self.baseline_answer), Ground.GATE
        ranking = self._ranking()
        if not ranking:
            return "", Ground.NONE
        if self.council.check:
            holding = yield from self._check(ranking[:MOST_COMPARED])
            if holding:
                return holding[0], Ground.CHECK
        open_texts = not self.council.options and self.council.judge is not None
        if open_texts and not self._tally().outweighs(ranking[0]) and len(ranking) > 1:
            return (yield from self._judge(ranking[:MOST_COMPARED]))
        return ranking[0], Ground.VOTE

    def _check(self, stands: list[str]) -> Part[list[str]]:
        """Return the positions that a tool finds to hold."""
        given = (_Given(self.session.problem, words_for(self.casts, stand)) for stand in stands)
        place = "gate" if self.baseline is None else "end"
        probes = tuple(
            Probe(f"check.{place}.{n}", self.council.check, msgspec.json.encode(one))
            for n, one in enumerate(given, 1)
        )
        heard = yield from self._ask(probes)
        if heard.stopped:
            raise _Stop
        results = zip(stands, heard.said, strict=True)
        return [stand for stand, said in results if said.fate is Fate.SAID]

    def _judge(self, ranking: list[str]) -> Part[tuple[str, Ground]]:
        """Compare answers, each pair in both orders: who prefers whatever comes first is found."""
        best, ground = ranking[0], Ground.VOTE
        for number, rival in enumerate(ranking[1:], 1):
            pair = (words_for(self.casts, best), words_for(self.casts, rival))
            turns = (
                self._comparison(f"judge.{number}.1", *pair),
                self._comparison(f"judge.{number}.2", *reversed(pair)),
            )
            heard = yield from self._ask(turns)
            if heard.stopped:
                raise _Stop
            read = [_read(turn, said) for turn, said in zip(turns, heard.said, strict=True)]
            said = [one.better for one in read if isinstance(one, Preference)]
            if said == [FIRST, SECOND]:
                ground = Ground.JUDGE
            elif said == [SECOND, FIRST]:
                best, ground = rival, Ground.JUDGE
        return best, ground

    def _comparison(self, name: str, first: str, second: str) -> Asked:
        prompt = judge_prompt(self.question, first, second)
        agent = self.council.judge or ""
        return Asked(name, agent, prompt, judge_schema(), read_preference)

    # The end

    def _blockers(self) -> list[tuple[int, str]]:
        stated = self.stated or self.weighed
        return [(seat, b.blocker) for seat, b in sorted(stated.items()) if b.blocker]

    def _are_one(self) -> bool:
        """Tell whether all say the same, also those whose last word is not weighed."""
        return len({*self._tally().seats, *self.stands.values()}) == 1

    def _accord(self, end: End, stand: str) -> Accord:
        if self._blockers():
            return Accord.BLOCKED
        # Who was asked and has said nothing agrees with nobody.
        asked = len(self.council.seats)
        if end is End.GATE:
            asked = min(asked, self.council.baseline)
        if self._are_one() and len(self.weighed) == asked:
            return Accord.AGREED
        return Accord.MAJORITY if 2 * self._tally().seats[stand] > asked else Accord.SPLIT

    def _close(self, end: End, stand: str, ground: Ground) -> Steps:
        """Record how it ended, with the report, and return the answer."""
        answer = words_for(self.casts, stand) if self.casts else ""
        conformed = sum(1 for change in self.changes if not change.reasoned)
        usd, tokens, _ = self.spent
        facts = Concluded(
            end,
            ground if answer else Ground.NONE,
            self._accord(end, stand) if answer else Accord.SPLIT,
            self.round,
            len(self.casts),
            len(self.changes),
            conformed,
            len(self._blockers()),
            usd,
            tokens,
        )
        outline = Outline(
            answer,
            facts,
            self.baseline,
            self.baseline_answer,
            tuple(self.casts),
            tuple(self.changes),
            tuple(self.claims.claims.values()),
            tuple(self._blockers()),
            self.weighed,
        )
        body = Body("report", report_on(outline, self.council))
        latest = [cast for cast in self.casts if cast.round == self.round]
        yield Note("council.close", facts, (body,), _entries(latest))
        # Where a tool tells what holds, an answer that does not is none.
        unheld = self.council.check and ground in (Ground.VOTE, Ground.JUDGE)
        good = answer and end is not End.STOPPED and not unheld
        ended = Outcome.OK if good else Outcome.FAILED
        return Closing(ended, answer, _entries(latest))


class _Given(msgspec.Struct, frozen=True):
    """What a tool is given that checks an answer."""

    request: str
    answer: str


def _read(turn: Asked, said: Said) -> object:
    """Return what was said, in its form; nothing where it failed, or was erased since."""
    if said.fate is Fate.SAID:
        with suppress(ValueError):
            return turn.read(said.output)
    return None


def _entries(casts: Iterable[Cast]) -> tuple[Hash, ...]:
    return tuple(cast.said.entry for cast in casts if cast.said.entry is not None)
