"""Whether a transcript follows the schedule, walked along message by message.

The schedule leaves no choice: from the config, and from what was said so far, it follows whose
turn it is, which request is answered next, and what becomes of the others.  After a fault the
walk goes on as if the message had been in its place, so that one fault is not told ten times.

A runtime uses up a turn for a call that failed: turns rise, and may leave numbers out.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, assert_never

import msgspec

from forum.deliberation.symposium.faults import Fault, Law, message_at
from forum.deliberation.symposium.forms import (
    Artifact,
    BranchTurn,
    Config,
    CoordinationTurn,
    DirectRequest,
    Message,
    PanelContraction,
    PrimaryTurn,
    ProblemStatement,
    Synthesis,
    Verdict,
)
from forum.deliberation.symposium.kinds import NextAction, OnFailure, Strategy


class _Asked(NamedTuple):
    """A request that can be put to its target."""

    by: PrimaryTurn
    request: DirectRequest

    def answered_by(self, turn: BranchTurn) -> bool:
        """Tell whether a turn is the answer to it."""
        return (turn.parent_id, turn.speaker) == (self.by.id, self.request.target)


def check_order(artifact: Artifact) -> Iterator[Fault]:
    """Yield where a transcript leaves the schedule."""
    panel = _panel(artifact)
    if panel is None:
        return
    walk = _Walk(artifact.config, panel)
    for index, message in enumerate(artifact.canonical_transcript):
        for law, why in walk.step(message):
            yield Fault(law, message_at(index), why)
    for index, message in enumerate(artifact.canonical_transcript):
        if isinstance(message, PrimaryTurn):
            for why in walk.wrong_notes(message):
                yield Fault(Law.NOTES, message_at(index), why)


def _panel(artifact: Artifact) -> list[str] | None:
    """Return who sits on the panel; None if that cannot be known.

    A panel that was chosen is not part of the artifact.  It is all that were heard, or had to
    leave, in the first round, if that came to its end.
    """
    selector = artifact.config.selector
    if selector.strategy is Strategy.FIXED:
        return list(selector.default_deliberation_panel)
    first = [message for message in artifact.canonical_transcript if message.round == 1]
    if not any(isinstance(message, CoordinationTurn) for message in first):
        return None
    return list(dict.fromkeys(name for message in first for name in _turn_of(message)))


def _turn_of(message: Message) -> Iterator[str]:
    """Yield whose turn a message stands for, if it is one of the panel's."""
    if isinstance(message, PrimaryTurn):
        yield message.speaker
    elif isinstance(message, PanelContraction):
        yield message.content.agent_id


_Wrong = Iterator[tuple[Law, str]]


class _Walk:
    """How far a session has come."""

    def __init__(self, config: Config, panel: list[str]) -> None:
        self._config = config
        self._panel = panel
        self._round = 0
        self._due: list[str] = []
        """Who has still to speak in this round."""
        self._verdict: Verdict | None = None
        """How this round has ended."""
        self._turns: dict[str, PrimaryTurn] = {}
        self._inline: _Asked | None = None
        """What has to be answered before anything else is said."""
        self._waiting: deque[_Asked] = deque()
        self._drains = 0
        """How many of those that wait may be answered before the next turn of the panel."""
        self._lost: list[_Asked] = []
        """Requests whose target had left when their time had come."""
        self._failed: dict[str, list[DirectRequest]] = {}
        self._dropped: dict[str, list[DirectRequest]] = {}

    def step(self, message: Message) -> _Wrong:
        """Go on by a message, and yield what is wrong with its place."""
        if message.round > self._round:
            yield from self._open(message.round)
        match message:
            case ProblemStatement():
                pass
            case PrimaryTurn():
                yield from self._primary(message)
            case BranchTurn():
                yield from self._branch(message)
            case PanelContraction():
                yield from self._contraction(message.content.agent_id)
            case CoordinationTurn():
                yield from self._coordination(message)
            case Synthesis():
                yield from self._synthesis()
            case _:
                assert_never(message)

    def wrong_notes(self, turn: PrimaryTurn) -> Iterator[str]:
        """Yield which notes of a turn are not what became of its requests."""
        failed = self._failed.get(turn.id, [])
        noted = [failure.offending_request for failure in turn.schema_failure]
        first, others = noted[: len(failed)], noted[len(failed) :]
        if first != [msgspec.to_builtins(request) for request in failed]:
            yield f"{len(failed)} requests could not be put, which is not what is noted"
        # What follows was no request at all, or could not be put any more when its time had come:
        # a transcript that only grows has no place for a note of that, so none is missed.
        late = [w.request for w in (*self._lost, *self._waiting) if not self._routable(w)]
        put = [r for r in turn.content.direct_requests if r not in failed and r not in late]
        if any(msgspec.to_builtins(request) in others for request in put):
            yield "a request was put, and is noted as one that could not be"
        dropped = self._dropped.get(turn.id, [])
        if list(turn.dropped_deferred) != dropped:
            yield f"{len(dropped)} requests had to be dropped, which is not what is noted"

    def _open(self, number: int) -> _Wrong:
        yield from self._close_branch()
        if number != self._round + 1:
            yield Law.ORDER, f"round {number} follows round {self._round}"
        if self._round and (
            self._verdict is None or self._verdict.next_action is not NextAction.CONTINUE
        ):
            yield Law.COORDINATOR_LAST, f"no verdict says that round {self._round} is not the last"
        if number > self._config.budget.max_rounds:
            yield Law.CAPS, f"round {number} of {self._config.budget.max_rounds}"
        self._round, self._verdict, self._due = number, None, list(self._panel)
        self._drains = self._config.runtime.max_deferred_drains_per_round

    def _primary(self, turn: PrimaryTurn) -> _Wrong:
        yield from self._close_branch()
        yield from self._close_drains()
        yield from self._still_open()
        yield from self._take_turn(turn.speaker, Law.DECLARED_ORDER)
        self._turns[turn.id] = turn
        self._sort_requests(turn)

    def _branch(self, turn: BranchTurn) -> _Wrong:
        yield from self._still_open()
        if turn.content.direct_requests not in ((), turn.suggested_followups):
            yield Law.BRANCH, "an answer puts requests of its own"
        if turn.parent_id not in self._turns:
            yield Law.BRANCH, "it answers no turn before it"
        elif self._inline is not None and self._inline.answered_by(turn):
            self._inline = None
        elif (asked := self._next_waiting()) is not None and asked.answered_by(turn):
            self._drain()
        else:
            yield Law.BRANCH, "it does not answer the request whose turn it is"

    def _contraction(self, agent: str) -> _Wrong:
        yield from self._still_open()
        if self._config.runtime.on_agent_failure is OnFailure.TERMINATE:
            yield Law.CONTRACTION, "this session was to end with the first failure"
        if agent not in self._panel:
            yield Law.CONTRACTION, f"{agent} is not on the panel"
        elif self._inline is not None and self._inline.request.target == agent:
            self._inline = None
        elif (asked := self._next_waiting()) is not None and asked.request.target == agent:
            self._drain()
        else:
            yield from self._close_branch()
            yield from self._close_drains()
            yield from self._take_turn(agent, Law.CONTRACTION)
        self._panel = [name for name in self._panel if name != agent]
        self._due = [name for name in self._due if name != agent]

    def _coordination(self, turn: CoordinationTurn) -> _Wrong:
        yield from self._close_branch()
        yield from self._still_open()
        if self._due:
            yield Law.COORDINATOR_LAST, f"{self._due[0]} has not spoken in round {self._round}"
        if not self._panel:
            yield Law.CONTRACTION, "nobody is left on the panel"
        self._due, self._verdict = [], turn.content

    def _synthesis(self) -> _Wrong:
        asked = self._verdict is not None and self._verdict.next_action is NextAction.FINALIZE
        if not asked and not self._config.runtime.synthesize_on_terminate:
            yield Law.OUTCOME, "no verdict asks for a synthesis"

    def _still_open(self) -> _Wrong:
        if self._verdict is not None:
            yield Law.COORDINATOR_LAST, f"round {self._round} was over"

    def _take_turn(self, agent: str, law: Law) -> _Wrong:
        """Let an agent speak, or fail to.  Who was passed over has lost their turn."""
        if agent not in self._due:
            yield law, f"it is not {agent}'s turn"
            return
        while (first := self._due.pop(0)) != agent:
            yield law, f"{first} comes before {agent}"

    def _sort_requests(self, turn: PrimaryTurn) -> None:
        """Find out what becomes of the requests of a turn."""
        for request in turn.content.direct_requests:
            asked = _Asked(turn, request)
            if not self._routable(asked):
                self._failed.setdefault(turn.id, []).append(request)
            elif self._inline is None:
                self._inline = asked
            elif len(self._waiting) < self._config.runtime.max_deferred_queue_length:
                self._waiting.append(asked)
            else:
                self._dropped.setdefault(turn.id, []).append(request)

    def _routable(self, asked: _Asked) -> bool:
        target = asked.request.target
        return target in self._panel and target not in (
            asked.by.speaker,
            self._config.coordinator.id,
        )

    def _close_branch(self) -> _Wrong:
        if self._inline is not None:
            yield Law.BRANCH, f"the request to {self._inline.request.target} was not answered"
        self._inline = None

    def _close_drains(self) -> _Wrong:
        if (asked := self._next_waiting()) is not None:
            yield Law.BRANCH, f"the request to {asked.request.target} was passed over"
        self._drains = 0

    def _next_waiting(self) -> _Asked | None:
        """Return the request that is answered next; those whose target has left fall out."""
        while self._waiting and self._drains:
            if self._routable(self._waiting[0]):
                return self._waiting[0]
            self._lost.append(self._waiting.popleft())
        return None

    def _drain(self) -> None:
        self._waiting.popleft()
        self._drains -= 1
