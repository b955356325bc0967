"""A session of the open protocol: who speaks when, who answers whom, and when it is over.

Code alone decides that.  What agents say in prose moves nothing; a coordinator gives advice, and
the caps of the config beat it.  One agent speaks at a time, and whatever is said is a message of
the transcript before anybody else is asked.
"""

from collections import deque
from dataclasses import dataclass
from typing import TypedDict, assert_never

import msgspec
from msgspec import UNSET

from forum.deliberation.steps import (
    NOTHING,
    Asked,
    Body,
    Closing,
    Fate,
    Note,
    Part,
    Said,
    Session,
    Steps,
    Turns,
)
from forum.deliberation.symposium.ending import (
    OUTCOMES,
    SALVAGED,
    Ended,
    termination_of,
    told,
)
from forum.deliberation.symposium.failing import (
    failure_of,
    is_hopeless,
    kind_of,
    reason_of,
    reason_of_stop,
)
from forum.deliberation.symposium.forms import (
    RUNTIME,
    AgentConfig,
    BranchTurn,
    Config,
    Contraction,
    CoordinationTurn,
    Message,
    PanelContraction,
    PrimaryTurn,
    ProblemStatement,
    SelectorOutput,
    Synthesis,
    TurnOutput,
    Usage,
    Verdict,
)
from forum.deliberation.symposium.kinds import (
    NextAction,
    OnFailure,
    OutcomeKind,
    Reason,
    Selected,
    SessionClosed,
    Spoken,
    Strategy,
    Voided,
    Wanted,
)
from forum.deliberation.symposium.metering import Meter
from forum.deliberation.symposium.personas import persona_of
from forum.deliberation.symposium.prompting import Scene, Waiting, briefing_of
from forum.deliberation.symposium.reading import read_config
from forum.deliberation.symposium.replies import (
    read_synthesis,
    read_turn,
    read_verdict,
    synthesis_form,
    turn_form,
    verdict_form,
)
from forum.deliberation.symposium.routing import route
from forum.deliberation.symposium.selecting import (
    read_chosen,
    select_by_rules,
    select_fixed,
    selector_allowance,
    selector_turn,
    why_ambiguous,
    why_malformed,
)
from forum.deliberation.symposium.transcript import (
    FREE,
    canonical,
    digest_of,
    stamp,
    type_of,
    usage_of,
)
from forum.errors import Malformed
from forum.ledger import Amount, Outcome
from forum.tlog import Hash
from forum.work import StopReason, Symposium

_REPLIES = {
    Wanted.TURN: (turn_form, read_turn),
    Wanted.VERDICT: (verdict_form, read_verdict),
    Wanted.SYNTHESIS: (synthesis_form, read_synthesis),
}
"""The form of each reply, for those on the panel beside its author, and how it is read."""


@dataclass(frozen=True, slots=True)
class Cue(Asked):
    """A turn, and where it stands in the session."""

    speaker: str = ""
    """As the config calls the agent."""
    wanted: Wanted = Wanted.TURN
    round: int = 0
    turn_index: int = 0


class _Place(TypedDict):
    """Where a message of a round stands, and what it has used."""

    id: str
    round: int
    turn_index: int
    timestamp: str
    usage: Usage


def config_of(session: Session) -> Config:
    """Return what a session starts from; the problem is the one that it was given."""
    panel = session.policy.panel
    if not isinstance(panel, Symposium):
        raise Malformed("panel", "it does not sit by this protocol")
    config = read_config({**panel.config, "problem_statement": session.problem})
    for one in (*config.agents, config.coordinator):
        if panel.agents.get(one.id) not in session.policy.agents:
            raise Malformed("panel", f"no agent speaks for {one.id!r}")
    return config


def symposium(session: Session) -> Steps:
    """Deliberate by the open protocol."""
    config = config_of(session)
    sitting = _Sitting(session, config, Meter(config, session.begun, session.begun))
    yield from sitting.state_problem()
    try:
        yield from sitting.choose_panel()
        yield from sitting.deliberate()
    except Ended as ended:
        if not (yield from sitting.salvage(ended)):
            return (yield from sitting.terminate(ended))
    return (yield from sitting.conclude())


class _Sitting(msgspec.Struct):
    """A session as it stands."""

    session: Session
    config: Config
    meter: Meter
    panel: list[str] = []
    transcript: list[Message] = []
    waiting: deque[Waiting] = msgspec.field(default_factory=deque)
    round: int = 0
    turn: int = 0
    asked: int = 0
    """How many turns there were so far, over all rounds."""
    voided: int = 0
    entry: Hash | None = None
    """The last entry that was heard of."""

    # How it begins

    def state_problem(self) -> Part[None]:
        yield self._note(
            ProblemStatement(
                id=self._id(),
                speaker=self.config.originator,
                content=self.config.problem_statement,
                round=0,
                turn_index=0,
                branch_depth=0,
                timestamp=stamp(self.meter.now),
                usage=FREE,
            )
        )

    def choose_panel(self) -> Part[None]:
        if why_ambiguous(self.config):
            raise Ended(Reason.SCHEMA_ERROR)
        spent = NOTHING
        match self.config.selector.strategy:
            case Strategy.FIXED:
                panel = select_fixed(self.config)
            case Strategy.RULES:
                panel = select_by_rules(self.config)
            case Strategy.LLM:
                panel, spent = yield from self._ask_selector()
            case never:
                assert_never(never)
        if why_malformed(self.config, panel):
            raise Ended(Reason.SCHEMA_ERROR)
        self.panel = list(panel.selected_agents)
        facts = Selected(panel.strategy, len(self.panel), spent.usd, spent.tokens)
        yield Note("panel", facts, (Body("panel", canonical(panel)),), self._causes())

    def _ask_selector(self) -> Part[tuple[SelectorOutput, Amount]]:
        agent = self._agent_of(self.config.coordinator)
        said = yield from self._hear(selector_turn(self.session, self.config, agent))
        if said.spent.exceeds(selector_allowance(self.config)):
            raise Ended(Reason.BUDGET_EXCEEDED)
        if said.fate is Fate.FAILED:
            raise Ended(Reason.SCHEMA_ERROR)
        return read_chosen(said.output, self.config), said.spent

    # Its rounds

    def deliberate(self) -> Part[None]:
        while True:
            verdict = yield from self._hold_round()
            match verdict.next_action:
                case NextAction.CONTINUE:
                    pass
                case NextAction.FINALIZE:
                    yield from self._synthesize()
                    return
                case NextAction.REQUEST_USER_INPUT:
                    raise Ended(Reason.USER_INPUT_REQUIRED)
                case NextAction.REQUEST_EXTERNAL_RESEARCH:
                    raise Ended(Reason.EXTERNAL_RESEARCH_REQUIRED)
                case never:
                    assert_never(never)

    def _hold_round(self) -> Part[Verdict]:
        self._check(self.meter.passed_cap())
        if self.round == self.config.budget.max_rounds:
            raise Ended(Reason.BUDGET_EXCEEDED)
        self.round, self.turn = self.round + 1, 0
        yield from self._drain()
        for agent in tuple(self.panel):
            # Whoever has left in the meantime, as the target of a request, has no turn either.
            if agent in self.panel:
                yield from self._hear_primary(agent)
        return (yield from self._hear_verdict())

    def _drain(self) -> Part[None]:
        """Have requests answered that were put off; one whose target has left cannot be."""
        drained = 0
        while self.waiting and drained < self.config.runtime.max_deferred_drains_per_round:
            waiting = self.waiting.popleft()
            if waiting.request.target in self.panel:
                drained += 1
                yield from self._hear_branch(waiting)
            else:
                yield self._void(waiting)

    def _hear_primary(self, agent: str) -> Part[None]:
        said = yield from self._ask_for_turn(agent, self._scene().primary_prompt(agent))
        if said.fate is Fate.FAILED:
            yield from self._contract(agent, said)
            return
        turned = read_turn(said.output)
        room = self.config.runtime.max_deferred_queue_length - len(self.waiting)
        coordinator = self.config.coordinator.id
        routed = route(turned, agent, self.panel, coordinator, max(0, room))
        message = PrimaryTurn(
            **self._place(usage_of(said)),
            speaker=agent,
            content=turned.content,
            branch_depth=0,
            dropped_deferred=routed.dropped,
            schema_failure=routed.failures,
        )
        self.waiting.extend(Waiting(request, message) for request in routed.deferred)
        yield self._note(message)
        if routed.first is not None:
            yield from self._hear_branch(Waiting(routed.first, message))

    def _hear_branch(self, waiting: Waiting) -> Part[None]:
        """Have one request answered; whom that agent would ask in turn is noted, and not asked."""
        agent = waiting.request.target
        said = yield from self._ask_for_turn(agent, self._scene().branch_prompt(agent, waiting))
        if said.fate is Fate.FAILED:
            yield from self._contract(agent, said)
            return
        turned = read_turn(said.output)
        yield self._note(
            BranchTurn(
                **self._place(usage_of(said)),
                speaker=agent,
                content=TurnOutput(turned.content.text),
                parent_id=waiting.parent.id,
                branch_depth=1,
                suggested_followups=turned.content.direct_requests,
                schema_failure=turned.failures,
            )
        )

    def _hear_verdict(self) -> Part[Verdict]:
        self._check(self.meter.passed_before_turn())
        coordinator = self.config.coordinator
        prompt = self._scene().verdict_prompt()
        said = yield from self._ask(coordinator, Wanted.VERDICT, prompt)
        if said.fate is Fate.FAILED:
            raise self._given_up(coordinator, said)
        verdict = read_verdict(said.output)
        yield self._note(
            CoordinationTurn(
                **self._place(usage_of(said)),
                speaker=coordinator.id,
                content=verdict,
                branch_depth=0,
            )
        )
        # Before anything follows from it: no verdict beats a cap.
        self._check(self.meter.passed_cap())
        return verdict

    def _synthesize(self, retries: int | None = None) -> Part[None]:
        """Ask for the answer.  Nothing follows it, so no cap is asked about what it has cost."""
        coordinator = self.config.coordinator
        prompt = self._scene().synthesis_prompt()
        said = yield from self._ask(coordinator, Wanted.SYNTHESIS, prompt, retries)
        if said.fate is Fate.FAILED:
            raise self._given_up(coordinator, said, for_good=True)
        yield self._note(
            Synthesis(
                **self._place(usage_of(said)),
                speaker=coordinator.id,
                content=read_synthesis(said.output),
                branch_depth=0,
            )
        )

    # Asking

    def _ask_for_turn(self, agent: str, prompt: bytes) -> Part[Said]:
        self._check(self.meter.passed_before_turn())
        return (yield from self._ask(self._known(agent), Wanted.TURN, prompt))

    def _ask(
        self, agent: AgentConfig, wanted: Wanted, prompt: bytes, retries: int | None = None
    ) -> Part[Said]:
        """Ask an agent; a turn of which nothing comes has its place in the round all the same."""
        self.turn += 1
        self.asked += 1
        speaking = self._agent_of(agent)
        peers = [name for name in self.panel if name != agent.id]
        form, read = _REPLIES[wanted]
        cue = Cue(
            name=f"turn.{self.asked}",
            agent=speaking,
            prompt=prompt,
            schema=form(peers, self.session.policy.room_of(speaking)),
            read=read,
            briefing=briefing_of(persona_of(agent.persona_ref), agent.output_requirements),
            retries=self._retries(agent) if retries is None else retries,
            hopeless=is_hopeless,
            allowance=self.meter.allowance(agent.id),
            speaker=agent.id,
            wanted=wanted,
            round=self.round,
            turn_index=self.turn,
        )
        said = yield from self._hear(cue)
        self.meter.tokens[agent.id] += said.spent.tokens
        return said

    def _hear(self, asked: Asked) -> Part[Said]:
        heard = yield Turns((asked,))
        (said,) = heard.said
        self.meter.take(said)
        self.entry = said.entry or self.entry
        if said.fate is Fate.CUT:
            stopped = heard.stopped or StopReason.CANCELLED
            raise Ended(reason_of_stop(stopped), for_good=True)
        return said

    def _known(self, agent: str) -> AgentConfig:
        return next(one for one in self.config.agents if one.id == agent)

    def _agent_of(self, agent: AgentConfig) -> str:
        panel = self.session.policy.panel
        assert isinstance(panel, Symposium)  # noqa: S101  config_of has seen to that
        return panel.agents[agent.id]

    def _retries(self, agent: AgentConfig) -> int:
        own = agent.retry_budget
        return self.config.runtime.per_agent_retry_budget if own is UNSET else own

    def _scene(self) -> Scene:
        return Scene(
            self.session,
            self.config,
            tuple(self.panel),
            self.round,
            tuple(self.transcript),
            tuple(self.waiting),
        )

    # Caps and failures

    def _check(self, passed: Reason | None) -> None:
        """End the session if a cap was passed."""
        if passed is not None:
            raise Ended(passed)

    def _contract(self, agent: str, said: Said) -> Part[None]:
        """Go on without an agent that could not be heard, or not at all."""
        given_up = self._given_up(self._known(agent), said)
        if self.config.runtime.on_agent_failure is OnFailure.TERMINATE:
            raise given_up
        self.turn += 1
        malformed = reason_of(kind_of(said)) is Reason.SCHEMA_ERROR
        why = Contraction(agent, "schema_error" if malformed else "provider_unrecoverable")
        yield self._note(
            PanelContraction(**self._place(FREE), speaker=RUNTIME, content=why, branch_depth=0)
        )
        self.panel.remove(agent)
        if not self.panel:
            raise given_up

    def _given_up(self, agent: AgentConfig, said: Said, *, for_good: bool = False) -> Ended:
        # A call that ran into a cap has failed because of the cap.
        if (passed := self.meter.passed_cap()) is not None:
            return Ended(passed, for_good=for_good)
        return Ended(reason_of(kind_of(said)), failure_of(agent, said), for_good=for_good)

    def _void(self, waiting: Waiting) -> Note:
        body = Body("request", canonical(waiting.request))
        self.voided += 1
        return Note(f"void/{self.voided}", Voided(waiting.parent.id), (body,))

    # The transcript

    def _id(self) -> str:
        return f"msg-{len(self.transcript):03d}"

    def _place(self, usage: Usage) -> _Place:
        return {
            "id": self._id(),
            "round": self.round,
            "turn_index": self.turn,
            "timestamp": stamp(self.meter.now),
            "usage": usage,
        }

    def _note(self, message: Message) -> Note:
        """Put a message at the end of the transcript."""
        step = f"message/{len(self.transcript)}"
        self.transcript.append(message)
        facts = Spoken(message.round, message.turn_index, type_of(message))
        return Note(step, facts, (Body("message", canonical(message)),), self._causes())

    def _causes(self) -> tuple[Hash, ...]:
        return (self.entry,) if self.entry else ()

    # How it ends

    def salvage(self, ended: Ended) -> Part[bool]:
        """Ask for an answer from what there is, once, where that is wanted and of use."""
        spoken = any(isinstance(one, PrimaryTurn | BranchTurn) for one in self.transcript)
        wanted = self.config.runtime.synthesize_on_terminate and not ended.for_good
        if not (spoken and wanted and ended.reason in SALVAGED):
            return False
        try:
            yield from self._synthesize(retries=0)
        except Ended:
            return False
        return True

    def conclude(self) -> Part[Closing]:
        synthesis = self.transcript[-1]
        assert isinstance(synthesis, Synthesis)  # noqa: S101  nothing else leads here
        yield Note("close", self._closed(OutcomeKind.SYNTHESIS), causes=self._causes())
        return Closing(Outcome.OK, synthesis.content.integrated_answer, self._causes())

    def terminate(self, ended: Ended) -> Part[Closing]:
        artifact = termination_of(ended, self.round, self.transcript)
        body = Body("termination", canonical(artifact))
        facts = self._closed(OutcomeKind.TERMINATION, ended.reason)
        yield Note("close", facts, (body,), self._causes())
        return Closing(OUTCOMES.get(ended.reason, Outcome.FAILED), told(artifact), self._causes())

    def _closed(self, outcome: OutcomeKind, reason: Reason = Reason.NONE) -> SessionClosed:
        return SessionClosed(
            outcome,
            rounds=self.round,
            messages=len(self.transcript),
            digest=digest_of(self.transcript),
            ended=self.meter.now,
            usd=self.meter.spent.usd,
            tokens=self.meter.spent.tokens,
            reason=reason,
        )
