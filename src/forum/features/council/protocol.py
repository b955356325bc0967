"""The council protocol: sealed ballots, an anonymous exchange, and a vote counted by code.

No seat sees anything of another seat before all ballots of a round are sealed. A change of answer
must name its reason, or it does not count. The turns, the prompts, the end and the answer follow
from the ballots alone.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from hashlib import sha256

from forum.features.council import answer_groups, tally
from forum.features.council import kinds as council_kinds
from forum.features.council import prompts as council_prompts
from forum.features.council.ballots import (
    Ballot,
    BallotRules,
    ballot_schema,
    encode_ballot,
    read_ballot,
)
from forum.features.council.claims import shuffle_by_seed
from forum.features.council.council_state import CouncilState, SessionStopped, parse_result
from forum.features.council.decision import check_answers, choose_answer, find_end, measure_accord
from forum.features.council.report import ReportedChange, encode_report
from forum.ledger.kinds import Outcome
from forum.runs import session_steps as steps
from forum.runs.answer_similarity import (
    AnswerSource,
    EquivalenceStep,
    SimilarityReading,
    SimilarityRequest,
)
from forum.runs.panel import TurnId
from forum.tlog import Hash

PER_MILLE = 1000

_LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def run_council(session: steps.Session) -> steps.ProtocolSteps:
    """Start a council for a session."""
    return _CouncilSession(session=session).run()


class _CouncilSession(CouncilState, kw_only=True):
    """The course of a council from its first ballots to its close."""

    def run(self) -> steps.ProtocolSteps:
        """Run the council from the first ballots to the close."""
        try:
            end = yield from self._deliberate()
            answer, ground = yield from choose_answer(self, end)
        except SessionStopped:
            # The votes that are already in still yield an answer, and the close is still recorded.
            end, answer = council_kinds.End.STOPPED, self._leader()
            ground = council_kinds.Ground.VOTE
        return (yield from self._close(end, answer, ground))

    def _deliberate(self) -> steps.ProtocolPart[council_kinds.End]:
        council = self.council
        agents = {seat.agent for seat in council.seats}
        yield steps.SessionNote(
            "council",
            council_kinds.CouncilFacts(
                len(council.seats), len(agents), council.baseline, council.rounds
            ),
        )
        seats = range(1, len(council.seats) + 1)
        # The other seats wait for the baseline, because its agreement saves their cost.  Without a
        # baseline there is nothing to wait for, so all seats are asked at once.
        first = council.baseline or len(seats)
        yield from self._collect_ballots(seats[:first])
        if (yield from self._check_baseline(len(seats[:first]))):
            return council_kinds.End.GATE
        yield from self._collect_ballots(seats[first:])
        yield from self._reveal()
        while True:
            end = find_end(self)
            if end is not None:
                return end
            self.round += 1
            # The prompt of an exchange shows a seat its earlier ballot, so seats without one are
            # left out.
            yield from self._collect_ballots([seat for seat in seats if seat in self.weighed])
            yield from self._reveal()

    def _collect_ballots(self, seats: Collection[int]) -> steps.ProtocolPart[None]:
        """Ask seats for their ballots, all concurrently."""
        turns = tuple(self._ballot_turn(seat) for seat in seats)
        if not turns:
            return
        batch = yield from self.ask(turns)
        for seat, turn, result in zip(seats, turns, batch.said, strict=True):
            ballot = parse_result(turn, result)
            if isinstance(ballot, Ballot):
                self.casts.append(tally.CastBallot(seat, self.round, ballot, result))
        if batch.stopped:
            raise SessionStopped
        if self.council.version > 1 and not self.council.options:
            yield from self._group_answers([cast for cast in self.casts if cast.seat in seats])

    def _group_answers(self, casts: Sequence[tally.CastBallot]) -> steps.ProtocolPart[None]:
        """Find out which new answers mean the same as others, and record what decided that.

        The verdicts of the encoder are recorded before a judge is asked, so that a driver without
        the encoder asks the same questions.
        """
        new = [cast for cast in casts if cast.round == self.round]
        answers = [(AnswerSource(cast.seat, cast.round), cast.ballot.answer) for cast in new]
        request = self.groups.request(answers, _entries(new))
        if request is None:
            return
        batch = yield request
        reading = batch.similarity or SimilarityReading()
        self.groups.model = reading.model
        judged, entries = yield from self._judge_pairs(request, reading)
        pairs = answer_groups.decide_pairs(request, reading, judged)
        self.groups.add(request, pairs)
        counts = Counter(pair.step for pair in pairs)
        facts = council_kinds.EquivalenceFacts(
            answers=len(self.groups.first_of),
            positions=len(self.groups.wordings),
            text=counts[EquivalenceStep.TEXT],
            encoder=counts[EquivalenceStep.ENCODER],
            judge=counts[EquivalenceStep.JUDGE],
        )
        body = steps.NoteBody("pairs", answer_groups.encode_decisions(request, pairs))
        step = f"equivalence/{self.groups.requests}"
        yield steps.SessionNote(step, facts, (body,), entries or request.causes)

    def _judge_pairs(
        self, request: SimilarityRequest, reading: SimilarityReading
    ) -> steps.ProtocolPart[tuple[dict[int, tuple[str, bool]], tuple[Hash, ...]]]:
        """Ask the judge about undecided pairs; return its verdicts and the ends of its turns.

        A judge that does not answer leaves the pair as it was.
        """
        places = answer_groups.select_judged_pairs(request, reading)
        if self.council.judge is None or not places:
            return {}, ()
        turns = tuple(
            steps.AgentTurn(
                name=f"same.{self.groups.requests}.{number}",
                agent=self.council.judge,
                prompt=council_prompts.equivalence_prompt(
                    self.question, *(request.texts[at] for at in request.pairs[place])
                ),
                schema=council_prompts.equivalence_schema(),
                read=council_prompts.read_equivalence,
            )
            for number, place in enumerate(places, 1)
        )
        batch = yield from self.ask(turns)
        if batch.stopped:
            raise SessionStopped
        judged = {}
        for place, turn, result in zip(places, turns, batch.said, strict=True):
            reply = parse_result(turn, result)
            if isinstance(reply, council_prompts.Equivalence):
                judged[place] = turn.name, reply.same
        ends = tuple(result.entry for result in batch.said if result.entry is not None)
        return judged, ends

    def _register_unrevealed_claims(self) -> None:
        """Register the claims of a council that closed before its first reveal."""
        if self.council.version > 1 and not self.stated:
            self.claims.add_ballots(self.weighed, "", self.position)

    def _ballot_turn(self, seat: int) -> steps.AgentTurn:
        """Return the turn in which a seat casts its ballot of this round."""
        chair, options = self.council.seats[seat - 1], self.council.options
        room = self.session.policy.max_reply_chars(chair.agent)
        any_blocker = self.council.version > 1
        if self.round == 0:
            rules = BallotRules(options, room=room, any_blocker=any_blocker)
            prompt = council_prompts.ballot_prompt(self.question, options)
        else:
            view = self._seat_view(seat)
            claims = tuple(claim.id for claim in view.claims)
            askers = tuple(label for label, ballot in view.peers.items() if ballot.question)
            rules = BallotRules(options, claims, peers=askers, room=room, any_blocker=any_blocker)
            prompt = council_prompts.exchange_prompt(self.question, options, view)
        facts = council_kinds.BallotFacts(seat, self.round)
        return steps.AgentTurn(
            name=TurnId(self.round, seat).turn,
            agent=chair.agent,
            prompt=prompt,
            schema=ballot_schema(rules, first=self.round == 0),
            read=partial(read_ballot, rules=rules),
            briefing=chair.briefing,
            note=lambda reply: steps.SessionNote(
                "ballot",
                facts,
                (steps.NoteBody("ballot", encode_ballot(read_ballot(reply, rules))),),
            ),
        )

    def _check_baseline(self, seats: int) -> steps.ProtocolPart[bool]:
        """Record the answer of the first seats and return whether it ends the council."""
        council = self.council
        self.baseline_answer, votes = tally.most_frequent_answer(self.casts, self.position)
        agreement = PER_MILLE * votes // seats
        blocked = any(cast.ballot.blocker for cast in self.casts)
        agreed = bool(council.baseline and votes) and agreement >= council.threshold and not blocked
        # Agreement alone is not enough if a tool can check the answer.
        if agreed and council.check:
            agreed = bool((yield from check_answers(self, [self.position(self.baseline_answer)])))
        decision = council_kinds.BaselineDecision
        undecided = decision.DELIBERATE if council.baseline else decision.OPEN
        passage = decision.AGREED if agreed else undecided
        usd, tokens, _ = self.spent
        self.baseline = council_kinds.BaselineFacts(
            answers=len(self.casts), agreement=agreement, passage=passage, usd=usd, tokens=tokens
        )
        body = steps.NoteBody("answer", self.baseline_answer.encode(errors="replace"), "text/plain")
        yield steps.SessionNote("baseline", self.baseline, (body,), _entries(self.casts))
        if agreed:
            self.weighed = {cast.seat: cast.ballot for cast in self.casts}
        return agreed

    def _reveal(self) -> steps.ProtocolPart[None]:
        """Process the ballots of a round, which are all sealed by now."""
        casts = [cast for cast in self.casts if cast.round == self.round]
        ballots = {cast.seat: cast.ballot for cast in casts}
        # The seed depends on every ballot, so no seat can choose the order in which readers see the
        # others.
        facts: council_kinds.RevealFacts | council_kinds.RevealV2Facts
        if self.council.version < council_kinds.COMMITTED_SEED_VERSION:
            sealed = [self.session.problem.encode(errors="replace")]
            sealed += [encode_ballot(ballots[seat]) for seat in sorted(ballots)]
            self.seed = sha256(b"".join(sha256(part).digest() for part in sealed)).hexdigest()
            facts = council_kinds.RevealFacts(self.round, len(ballots), self.seed)
        else:
            replies = [c.said.commitment for c in sorted(casts, key=lambda cast: cast.seat)]
            self.seed = sha256(bytes.fromhex("".join(replies))).hexdigest()
            facts = council_kinds.RevealV2Facts(self.round, len(ballots), self.seed)
        yield steps.SessionNote(f"reveal/{self.round}", facts, (), _entries(casts))
        self.answered = self._collect_peer_answers(ballots)
        for seat, ballot in sorted(ballots.items()):
            self._weigh(seat, ballot)
        self.news = self.claims.add_ballots(ballots, self.seed, self.position)
        self.stated |= ballots
        self.stands |= {seat: self.position(ballot.answer) for seat, ballot in ballots.items()}

    def _weigh(self, seat: int, ballot: Ballot) -> None:
        """Count a ballot, unless it changes the counted answer without a reason."""
        counted, stated = self.weighed.get(seat), self.stated.get(seat)
        if counted is None or stated is None:
            self.weighed[seat] = ballot
            return
        claims, stand = self.claims.claims, self.position(ballot.answer)
        # A seat's own claim is no reason: it was no news to that seat.
        reasons = tuple(
            claims[name].text for name in ballot.because if seat not in claims[name].authors
        )
        reasoned = bool(reasons or ballot.evidence)
        if self.stands[seat] != stand:
            self.changes.append(
                ReportedChange(
                    seat=seat,
                    round=self.round,
                    before=stated.answer,
                    after=ballot.answer,
                    conformity=not reasoned,
                    because=reasons,
                    evidence=ballot.evidence,
                )
            )
        # Compare with the counted answer, not with the last one: repeating an unreasoned change is
        # not a reason for it.
        if reasoned or self.position(counted.answer) == stand:
            self.weighed[seat] = ballot

    def _collect_peer_answers(
        self, ballots: dict[int, Ballot]
    ) -> dict[int, council_prompts.AnsweredQuestion]:
        """Return the replies to each seat's question.

        A seat can only reply to the peers it was shown: a reply is addressed by their labels.
        """
        by_asker: dict[int, list[str]] = {}
        for seat in shuffle_by_seed(ballots, self.seed, "replies"):
            for reply in ballots[seat].replies:
                by_asker.setdefault(self.labels[seat][reply.to], []).append(reply.text)
        most = self.council.peers
        return {
            asker: council_prompts.AnsweredQuestion(
                self.stated[asker].question, tuple(replies[:most])
            )
            for asker, replies in by_asker.items()
        }

    def _seat_view(self, reader: int) -> council_prompts.SeatView:
        """Return the view of one seat: a few peers, differing and rare opinions first.

        Peers are named by letters, assigned anew for every reader and round, so a seat cannot be
        tracked.
        """
        counts, shown = Counter(self.stands.values()), Counter[str]()
        others = shuffle_by_seed((s for s in self.stated if s != reader), self.seed, f"{reader}")
        strangeness: dict[int, tuple[int, bool, int]] = {}
        for seat in others:  # one seat of each opinion first, then their second seats
            stand = self.stands[seat]
            strangeness[seat] = shown[stand], stand == self.stands[reader], counts[stand]
            shown[stand] += 1
        most = min(self.council.peers, len(_LABELS))
        chosen = sorted(others, key=strangeness.__getitem__)[:most]
        self.labels[reader] = dict(zip(_LABELS, chosen, strict=False))
        peers = {label: self.stated[s] for label, s in self.labels[reader].items()}
        claims = self.claims.select_shown(counts, council_prompts.MAX_SHOWN_CLAIMS)
        return council_prompts.SeatView(
            self.stated[reader], peers, claims, self.answered.get(reader)
        )

    def _leader(self) -> str:
        if not self.weighed:  # stopped before the first reveal: count the ballots that are in
            self.weighed = {cast.seat: cast.ballot for cast in self.casts}
        return next(iter(self.rank_positions()), "")

    def _close(
        self, end: council_kinds.End, stand: str, ground: council_kinds.Ground
    ) -> steps.ProtocolSteps:
        """Record the close with its report and return the result of the session."""
        answer = self.wording(stand) if self.casts else ""
        self._register_unrevealed_claims()
        conformed = sum(change.conformity for change in self.changes)
        usd, tokens, _ = self.spent
        facts = council_kinds.CouncilCloseFacts(
            end=end,
            ground=ground if answer else council_kinds.Ground.NONE,
            accord=measure_accord(self, end, stand) if answer else council_kinds.Accord.SPLIT,
            rounds=self.round,
            ballots=len(self.casts),
            changed=len(self.changes),
            conformed=conformed,
            blockers=len(self.blockers()),
            usd=usd,
            tokens=tokens,
        )
        body = steps.NoteBody("report", encode_report(self, facts, answer, self.council))
        latest = [cast for cast in self.casts if cast.round == self.round]
        yield steps.SessionNote("council.close", facts, (body,), _entries(latest))
        # With a tool that checks answers, a vote or a judge decides only if no answer passed the
        # check; the outcome must then not read as a success.
        unheld = self.council.check and ground in (
            council_kinds.Ground.VOTE,
            council_kinds.Ground.JUDGE,
        )
        good = answer and end is not council_kinds.End.STOPPED and not unheld
        ended = Outcome.OK if good else Outcome.FAILED
        return steps.SessionResult(ended, answer, _entries(latest))


def _entries(casts: Iterable[tally.CastBallot]) -> tuple[Hash, ...]:
    return tuple(cast.said.entry for cast in casts if cast.said.entry is not None)
