"""Checks that a transcript follows the schedule, message by message.

The schedule leaves no choice: the config and the messages so far determine the next speaker, the
next request to be answered, and the fate of the others. After a violation the check continues as if
the message had been in its place, so that one fault is not reported many times.

A runtime uses up a turn index for a failed call, so turn indexes rise but may have gaps.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, assert_never

import msgspec

from forum.features.symposium import schemas
from forum.features.symposium.kinds import AgentFailurePolicy, NextAction, SelectionStrategy
from forum.features.symposium.violations import Invariant, Violation, message_path


class _RoutableRequest(NamedTuple):
    """A request and the turn that made it."""

    by: schemas.PrimaryTurn
    request: schemas.DirectRequest

    def is_answered_by(self, turn: schemas.BranchTurn) -> bool:
        """Return whether a turn answers this request."""
        return (turn.parent_id, turn.speaker) == (self.by.id, self.request.target)


def check_schedule(artifact: schemas.Artifact) -> Iterator[Violation]:
    """Yield the violations of the schedule in a transcript."""
    panel = _find_panel(artifact)
    if panel is None:
        return
    walk = _ScheduleChecker(artifact.config, panel)
    for index, message in enumerate(artifact.canonical_transcript):
        for law, why in walk.check_message(message):
            yield Violation(law, message_path(index), why)
    for index, message in enumerate(artifact.canonical_transcript):
        if isinstance(message, schemas.PrimaryTurn):
            for why in walk.check_notes(message):
                yield Violation(Invariant.NOTES, message_path(index), why)


def _find_panel(artifact: schemas.Artifact) -> list[str] | None:
    """Return the panel, or None if it is unknown.

    An artifact does not contain a panel that was chosen by rules or by a model. Then the panel is
    every agent that spoke or left in the first round, provided that round was completed.
    """
    selector = artifact.config.selector
    if selector.strategy is SelectionStrategy.FIXED:
        return list(selector.default_deliberation_panel)
    first = [message for message in artifact.canonical_transcript if message.round == 1]
    if not any(isinstance(message, schemas.CoordinationTurn) for message in first):
        return None
    return list(dict.fromkeys(name for message in first for name in _turn_of(message)))


def _turn_of(message: schemas.Message) -> Iterator[str]:
    """Yield the agent whose primary turn a message stands for, if any."""
    if isinstance(message, schemas.PrimaryTurn):
        yield message.speaker
    elif isinstance(message, schemas.PanelContraction):
        yield message.content.agent_id


_Violations = Iterator[tuple[Invariant, str]]


class _ScheduleChecker:
    """The state of the session after the messages checked so far."""

    def __init__(self, config: schemas.SymposiumConfig, panel: list[str]) -> None:
        self._config = config
        self._panel = panel
        self._round = 0
        self._due: list[str] = []
        """Agents that have not yet spoken in this round."""
        self._verdict: schemas.CoordinatorVerdict | None = None
        """The verdict of this round, once it has ended."""
        self._turns: dict[str, schemas.PrimaryTurn] = {}
        self._inline: _RoutableRequest | None = None
        """The request that must be answered before any other message."""
        self._waiting: deque[_RoutableRequest] = deque()
        self._drains = 0
        """How many deferred requests may still be answered before the next primary turn."""
        self._lost: list[_RoutableRequest] = []
        """Requests whose target had left when they were due."""
        self._failed: dict[str, list[schemas.DirectRequest]] = {}
        self._dropped: dict[str, list[schemas.DirectRequest]] = {}

    def check_message(self, message: schemas.Message) -> _Violations:
        """Advance by one message and yield what is wrong with its position."""
        if message.round > self._round:
            yield from self._open_round(message.round)
        match message:
            case schemas.ProblemStatement():
                pass
            case schemas.PrimaryTurn():
                yield from self._check_primary(message)
            case schemas.BranchTurn():
                yield from self._check_branch(message)
            case schemas.PanelContraction():
                yield from self._check_contraction(message.content.agent_id)
            case schemas.CoordinationTurn():
                yield from self._check_coordination(message)
            case schemas.Synthesis():
                yield from self._check_synthesis()
            case _:
                assert_never(message)

    def check_notes(self, turn: schemas.PrimaryTurn) -> Iterator[str]:
        """Yield the notes of a turn that do not match the fate of its requests."""
        failed = self._failed.get(turn.id, [])
        noted = [failure.offending_request for failure in turn.schema_failure]
        first, others = noted[: len(failed)], noted[len(failed) :]
        if first != [msgspec.to_builtins(request) for request in failed]:
            yield f"{len(failed)} requests could not be put, which is not what is noted"
        # The remaining notes are invalid requests, or requests that could no longer be routed when
        # they were due. A transcript is append-only and has no place to note the latter, so their
        # absence is no fault.
        late = [w.request for w in (*self._lost, *self._waiting) if not self._is_routable(w)]
        put = [r for r in turn.content.direct_requests if r not in failed and r not in late]
        if any(msgspec.to_builtins(request) in others for request in put):
            yield "a request was put, and is noted as one that could not be"
        dropped = self._dropped.get(turn.id, [])
        if list(turn.dropped_deferred) != dropped:
            yield f"{len(dropped)} requests had to be dropped, which is not what is noted"

    def _open_round(self, number: int) -> _Violations:
        yield from self._close_branch()
        if number != self._round + 1:
            yield Invariant.ORDER, f"round {number} follows round {self._round}"
        if self._round and (
            self._verdict is None or self._verdict.next_action is not NextAction.CONTINUE
        ):
            yield (
                Invariant.COORDINATOR_LAST,
                f"no verdict says that round {self._round} is not the last",
            )
        if number > self._config.budget.max_rounds:
            yield Invariant.CAPS, f"round {number} of {self._config.budget.max_rounds}"
        self._round, self._verdict = number, None
        self._due = list(self._panel)
        self._drains = self._config.runtime.max_deferred_drains_per_round

    def _check_primary(self, turn: schemas.PrimaryTurn) -> _Violations:
        yield from self._close_branch()
        yield from self._close_drains()
        yield from self._check_round_open()
        yield from self._take_turn(turn.speaker, Invariant.DECLARED_ORDER)
        self._turns[turn.id] = turn
        self._sort_requests(turn)

    def _check_branch(self, turn: schemas.BranchTurn) -> _Violations:
        yield from self._check_round_open()
        if turn.content.direct_requests not in ((), turn.suggested_followups):
            yield Invariant.BRANCH, "an answer puts requests of its own"
        if turn.parent_id not in self._turns:
            yield Invariant.BRANCH, "it answers no turn before it"
        elif self._inline is not None and self._inline.is_answered_by(turn):
            self._inline = None
        elif (waiting := self._next_waiting()) is not None and waiting.is_answered_by(turn):
            self._drain()
        else:
            yield Invariant.BRANCH, "it does not answer the request whose turn it is"

    def _check_contraction(self, agent: str) -> _Violations:
        yield from self._check_round_open()
        if self._config.runtime.on_agent_failure is AgentFailurePolicy.TERMINATE:
            yield Invariant.CONTRACTION, "this session was to end with the first failure"
        if agent not in self._panel:
            yield Invariant.CONTRACTION, f"{agent} is not on the panel"
        elif self._inline is not None and self._inline.request.target == agent:
            self._inline = None
        elif (waiting := self._next_waiting()) is not None and waiting.request.target == agent:
            self._drain()
        else:
            yield from self._close_branch()
            yield from self._close_drains()
            yield from self._take_turn(agent, Invariant.CONTRACTION)
        self._panel = [name for name in self._panel if name != agent]
        self._due = [name for name in self._due if name != agent]

    def _check_coordination(self, turn: schemas.CoordinationTurn) -> _Violations:
        yield from self._close_branch()
        yield from self._check_round_open()
        if self._due:
            yield (
                Invariant.COORDINATOR_LAST,
                f"{self._due[0]} has not spoken in round {self._round}",
            )
        if not self._panel:
            yield Invariant.CONTRACTION, "nobody is left on the panel"
        self._due, self._verdict = [], turn.content

    def _check_synthesis(self) -> _Violations:
        wanted = self._verdict is not None and self._verdict.next_action is NextAction.FINALIZE
        if not wanted and not self._config.runtime.synthesize_on_terminate:
            yield Invariant.OUTCOME, "no verdict asks for a synthesis"

    def _check_round_open(self) -> _Violations:
        if self._verdict is not None:
            yield Invariant.COORDINATOR_LAST, f"round {self._round} was over"

    def _take_turn(self, agent: str, law: Invariant) -> _Violations:
        """Let an agent speak or fail; an agent that was skipped loses its turn."""
        if agent not in self._due:
            yield law, f"it is not {agent}'s turn"
            return
        while (first := self._due.pop(0)) != agent:
            yield law, f"{first} comes before {agent}"

    def _sort_requests(self, turn: schemas.PrimaryTurn) -> None:
        """Determine the fate of each request of a turn."""
        for request in turn.content.direct_requests:
            candidate = _RoutableRequest(turn, request)
            if not self._is_routable(candidate):
                self._failed.setdefault(turn.id, []).append(request)
            elif self._inline is None:
                self._inline = candidate
            elif len(self._waiting) < self._config.runtime.max_deferred_queue_length:
                self._waiting.append(candidate)
            else:
                self._dropped.setdefault(turn.id, []).append(request)

    def _is_routable(self, candidate: _RoutableRequest) -> bool:
        target = candidate.request.target
        return target in self._panel and target not in (
            candidate.by.speaker,
            self._config.coordinator.id,
        )

    def _close_branch(self) -> _Violations:
        if self._inline is not None:
            yield Invariant.BRANCH, f"the request to {self._inline.request.target} was not answered"
        self._inline = None

    def _close_drains(self) -> _Violations:
        if (waiting := self._next_waiting()) is not None:
            yield Invariant.BRANCH, f"the request to {waiting.request.target} was passed over"
        self._drains = 0

    def _next_waiting(self) -> _RoutableRequest | None:
        """Return the deferred request that is due, removing those whose target has left."""
        while self._waiting and self._drains:
            if self._is_routable(self._waiting[0]):
                return self._waiting[0]
            self._lost.append(self._waiting.popleft())
        return None

    def _drain(self) -> None:
        self._waiting.popleft()
        self._drains -= 1
