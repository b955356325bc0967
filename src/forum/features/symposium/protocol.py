"""A session of the open protocol: the order of turns, the routing of requests, and the end.

Code alone decides these. The prose of agents has no effect on them; a coordinator's verdict is
advice, and the caps of the config override it. One agent speaks at a time, and its reply is a
message of the transcript before the next agent is asked.
"""

from dataclasses import dataclass
from typing import TypedDict, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from forum.errors import Malformed
from forum.features.symposium import (
    failure_codes,
    kinds,
    panel_selection,
    replies,
    schemas,
    termination,
)
from forum.features.symposium.budget import BudgetMeter
from forum.features.symposium.decoders import read_config
from forum.features.symposium.prompts import DeferredRequest, PromptContext
from forum.features.symposium.transcript import (
    ZERO_USAGE,
    canonical_bytes,
    digest_messages,
    format_time,
    message_type,
    turn_usage,
)
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs import session_steps as steps
from forum.runs.kinds import StopReason
from forum.runs.panel import Symposium
from forum.runs.personas import build_briefing, resolve_persona_ref
from forum.tlog import Hash

_SCHEMA_AND_PARSER = {
    kinds.ExpectedOutput.TURN: (replies.turn_schema, replies.parse_turn),
    kinds.ExpectedOutput.VERDICT: (replies.verdict_schema, replies.parse_verdict),
    kinds.ExpectedOutput.SYNTHESIS: (replies.synthesis_schema, replies.parse_synthesis),
}
"""Schema and parser of each reply. The schema lists the other agents on the panel."""


@dataclass(frozen=True, slots=True)
class SymposiumTurn(steps.AgentTurn):
    """A turn with its position in the session."""

    speaker: str = ""
    """The agent's id in the config."""
    wanted: kinds.ExpectedOutput = kinds.ExpectedOutput.TURN
    round: int = 0
    turn_index: int = 0


class _MessageFields(TypedDict):
    """Position and usage, which every message of a round has."""

    id: str
    round: int
    turn_index: int
    timestamp: str
    usage: schemas.MessageUsage


def read_session_config(session: steps.Session) -> schemas.SymposiumConfig:
    """Return the config of a session, with the problem that the session was given.

    Raises `Malformed` if the panel is not a symposium or an id has no agent.
    """
    panel = session.policy.panel
    if not isinstance(panel, Symposium):
        raise Malformed("panel", "it does not sit by this protocol")
    config = read_config({**panel.config, "problem_statement": session.problem})
    for agent in (*config.agents, config.coordinator):
        if panel.agents.get(agent.id) not in session.policy.agents:
            raise Malformed("panel", f"no agent speaks for {agent.id!r}")
    return config


def run_symposium(session: steps.Session) -> steps.ProtocolSteps:
    """Run the open protocol."""
    config = read_session_config(session)
    meter = BudgetMeter(config, session.begun, session.begun)
    sitting = _SymposiumState(session, config, meter=meter)
    yield from sitting.state_problem()
    try:
        yield from sitting.choose_panel()
        yield from sitting.deliberate()
    except termination.SessionTerminated as ended:
        if not (yield from sitting.salvage(ended)):
            return (yield from sitting.terminate(ended))
    return (yield from sitting.conclude())


class _SymposiumState(PromptContext, kw_only=True):
    """The state of a session."""

    meter: BudgetMeter
    turn: int = 0
    asked: int = 0
    """Number of turns so far, over all rounds."""
    voided: int = 0
    entry: Hash | None = None
    """The last entry of the last turn: the cause of the next note."""

    def state_problem(self) -> steps.ProtocolPart[None]:
        yield self._note(
            schemas.ProblemStatement(
                id=self._id(),
                speaker=self.config.originator,
                content=self.config.problem_statement,
                round=0,
                turn_index=0,
                branch_depth=0,
                timestamp=format_time(self.meter.now),
                usage=ZERO_USAGE,
            )
        )

    def choose_panel(self) -> steps.ProtocolPart[None]:
        if panel_selection.find_ambiguity(self.config):
            raise termination.SessionTerminated(kinds.Reason.SCHEMA_ERROR)
        spent = steps.ZERO_AMOUNT
        match self.config.selector.strategy:
            case kinds.SelectionStrategy.FIXED:
                panel = panel_selection.select_fixed(self.config)
            case kinds.SelectionStrategy.RULES:
                panel = panel_selection.select_by_rules(self.config)
            case kinds.SelectionStrategy.LLM:
                panel, spent = yield from self._ask_selector()
            case never:
                assert_never(never)
        if panel_selection.find_panel_error(self.config, panel):
            raise termination.SessionTerminated(kinds.Reason.SCHEMA_ERROR)
        self.panel = list(panel.selected_agents)
        facts = kinds.PanelFacts(panel.strategy, len(self.panel), spent.usd, spent.tokens)
        yield steps.SessionNote(
            "panel", facts, (steps.NoteBody("panel", canonical_bytes(panel)),), self._causes()
        )

    def _ask_selector(self) -> steps.ProtocolPart[tuple[schemas.SelectorOutput, Amount]]:
        agent = self._agent_of(self.config.coordinator)
        result = yield from self._take_turn(
            panel_selection.build_selector_turn(self.session, self.config, agent)
        )
        if result.spent.exceeds(panel_selection.selector_allowance(self.config)):
            raise termination.SessionTerminated(kinds.Reason.BUDGET_EXCEEDED)
        if result.fate is steps.TurnStatus.FAILED:
            raise termination.SessionTerminated(kinds.Reason.SCHEMA_ERROR)
        return panel_selection.parse_panel_choice(result.output, self.config), result.spent

    def deliberate(self) -> steps.ProtocolPart[None]:
        while True:
            verdict = yield from self._hold_round()
            match verdict.next_action:
                case kinds.NextAction.CONTINUE:
                    pass
                case kinds.NextAction.FINALIZE:
                    yield from self._synthesize()
                    return
                case kinds.NextAction.REQUEST_USER_INPUT:
                    raise termination.SessionTerminated(kinds.Reason.USER_INPUT_REQUIRED)
                case kinds.NextAction.REQUEST_EXTERNAL_RESEARCH:
                    raise termination.SessionTerminated(kinds.Reason.EXTERNAL_RESEARCH_REQUIRED)
                case never:
                    assert_never(never)

    def _hold_round(self) -> steps.ProtocolPart[schemas.CoordinatorVerdict]:
        self._raise_if_exceeded(self.meter.exceeded_cap())
        if self.round == self.config.budget.max_rounds:
            raise termination.SessionTerminated(kinds.Reason.BUDGET_EXCEEDED)
        self.round, self.turn = self.round + 1, 0
        yield from self._drain_deferred()
        for agent in tuple(self.panel):
            # The agent may have left the panel as the target of an earlier request in this loop.
            if agent in self.panel:
                yield from self._take_primary_turn(agent)
        return (yield from self._take_verdict())

    def _drain_deferred(self) -> steps.ProtocolPart[None]:
        """Have deferred requests answered; void those whose target has left the panel."""
        drained = 0
        while self.waiting and drained < self.config.runtime.max_deferred_drains_per_round:
            waiting = self.waiting.popleft()
            if waiting.request.target in self.panel:
                drained += 1
                yield from self._take_branch_turn(waiting)
            else:
                yield self._void_request(waiting)

    def _take_primary_turn(self, agent: str) -> steps.ProtocolPart[None]:
        result = yield from self._ask_for_turn(agent, self.primary_prompt(agent))
        if result.fate is steps.TurnStatus.FAILED:
            yield from self._remove_agent(agent, result)
            return
        turned = replies.parse_turn(result.output)
        room = self.config.runtime.max_deferred_queue_length - len(self.waiting)
        coordinator = self.config.coordinator.id
        routed = replies.route_requests(turned, agent, self.panel, coordinator, room=max(0, room))
        message = schemas.PrimaryTurn(
            **self._message_fields(turn_usage(result)),
            speaker=agent,
            content=turned.content,
            branch_depth=0,
            dropped_deferred=routed.dropped,
            schema_failure=routed.failures,
        )
        self.waiting.extend(DeferredRequest(request, message) for request in routed.deferred)
        yield self._note(message)
        if routed.first is not None:
            yield from self._take_branch_turn(DeferredRequest(routed.first, message))

    def _take_branch_turn(self, waiting: DeferredRequest) -> steps.ProtocolPart[None]:
        """Have one request answered.

        Requests in the answer are recorded as suggestions and not routed, so branches stay one
        level deep.
        """
        agent = waiting.request.target
        result = yield from self._ask_for_turn(agent, self.branch_prompt(agent, waiting))
        if result.fate is steps.TurnStatus.FAILED:
            yield from self._remove_agent(agent, result)
            return
        turned = replies.parse_turn(result.output)
        yield self._note(
            schemas.BranchTurn(
                **self._message_fields(turn_usage(result)),
                speaker=agent,
                content=schemas.TurnOutput(turned.content.text),
                parent_id=waiting.parent.id,
                branch_depth=1,
                suggested_followups=turned.content.direct_requests,
                schema_failure=turned.failures,
            )
        )

    def _take_verdict(self) -> steps.ProtocolPart[schemas.CoordinatorVerdict]:
        self._raise_if_exceeded(self.meter.exceeded_before_turn())
        coordinator = self.config.coordinator
        prompt = self.verdict_prompt()
        result = yield from self._ask(coordinator, kinds.ExpectedOutput.VERDICT, prompt)
        if result.fate is steps.TurnStatus.FAILED:
            raise self._make_termination(coordinator, result)
        verdict = replies.parse_verdict(result.output)
        yield self._note(
            schemas.CoordinationTurn(
                **self._message_fields(turn_usage(result)),
                speaker=coordinator.id,
                content=verdict,
                branch_depth=0,
            )
        )
        # Check before acting on the verdict: a verdict cannot override a cap.
        self._raise_if_exceeded(self.meter.exceeded_cap())
        return verdict

    def _synthesize(self, retries: int | None = None) -> steps.ProtocolPart[None]:
        """Ask for the answer. Nothing follows it, so its cost is not checked against the caps."""
        coordinator = self.config.coordinator
        prompt = self.synthesis_prompt()
        result = yield from self._ask(coordinator, kinds.ExpectedOutput.SYNTHESIS, prompt, retries)
        if result.fate is steps.TurnStatus.FAILED:
            raise self._make_termination(coordinator, result, for_good=True)
        yield self._note(
            schemas.Synthesis(
                **self._message_fields(turn_usage(result)),
                speaker=coordinator.id,
                content=replies.parse_synthesis(result.output),
                branch_depth=0,
            )
        )

    def _ask_for_turn(self, agent: str, prompt: bytes) -> steps.ProtocolPart[steps.TurnResult]:
        self._raise_if_exceeded(self.meter.exceeded_before_turn())
        return (yield from self._ask(self._agent_config(agent), kinds.ExpectedOutput.TURN, prompt))

    def _ask(
        self,
        agent: schemas.AgentConfig,
        wanted: kinds.ExpectedOutput,
        prompt: bytes,
        retries: int | None = None,
    ) -> steps.ProtocolPart[steps.TurnResult]:
        """Ask an agent. A failed turn also takes up its turn index in the round."""
        self.turn += 1
        self.asked += 1
        speaking = self._agent_of(agent)
        peers = [name for name in self.panel if name != agent.id]
        form, read = _SCHEMA_AND_PARSER[wanted]
        if retries is None:
            own = agent.retry_budget
            retries = self.config.runtime.per_agent_retry_budget if own is UNSET else own
        cue = SymposiumTurn(
            name=f"turn.{self.asked}",
            agent=speaking,
            prompt=prompt,
            schema=form(peers, self.session.policy.max_reply_chars(speaking)),
            read=read,
            briefing=build_briefing(
                resolve_persona_ref(agent.persona_ref), agent.output_requirements
            ),
            retries=retries,
            hopeless=failure_codes.is_permanent_failure,
            allowance=self.meter.remaining_allowance(agent.id),
            speaker=agent.id,
            wanted=wanted,
            round=self.round,
            turn_index=self.turn,
        )
        result = yield from self._take_turn(cue)
        self.meter.tokens[agent.id] += result.spent.tokens
        return result

    def _take_turn(self, turn: steps.AgentTurn) -> steps.ProtocolPart[steps.TurnResult]:
        batch = yield steps.TurnBatch((turn,))
        (result,) = batch.said
        self.meter.add_turn(result)
        self.entry = result.entry or self.entry
        if result.fate is steps.TurnStatus.CUT:
            stopped = batch.stopped or StopReason.CANCELLED
            raise termination.SessionTerminated(
                failure_codes.termination_reason_of_stop(stopped), for_good=True
            )
        return result

    def _agent_config(self, agent: str) -> schemas.AgentConfig:
        return next(config for config in self.config.agents if config.id == agent)

    def _agent_of(self, agent: schemas.AgentConfig) -> str:
        panel = self.session.policy.panel
        assert isinstance(panel, Symposium)  # noqa: S101  read_session_config checked the type
        return panel.agents[agent.id]

    def _raise_if_exceeded(self, passed: kinds.Reason | None) -> None:
        """Raise `SessionTerminated` if a cap was exceeded."""
        if passed is not None:
            raise termination.SessionTerminated(passed)

    def _remove_agent(self, agent: str, result: steps.TurnResult) -> steps.ProtocolPart[None]:
        """Continue without an agent whose turn failed, or end the session if the config says so.

        Raises `SessionTerminated` also if the panel is empty now.
        """
        given_up = self._make_termination(self._agent_config(agent), result)
        if self.config.runtime.on_agent_failure is kinds.AgentFailurePolicy.TERMINATE:
            raise given_up
        self.turn += 1
        malformed = (
            failure_codes.termination_reason(failure_codes.classify_error(result))
            is kinds.Reason.SCHEMA_ERROR
        )
        why = schemas.Contraction(agent, "schema_error" if malformed else "provider_unrecoverable")
        yield self._note(
            schemas.PanelContraction(
                **self._message_fields(ZERO_USAGE),
                speaker=schemas.RUNTIME,
                content=why,
                branch_depth=0,
            )
        )
        self.panel.remove(agent)
        if not self.panel:
            raise given_up

    def _make_termination(
        self, agent: schemas.AgentConfig, result: steps.TurnResult, *, for_good: bool = False
    ) -> termination.SessionTerminated:
        # A call that failed after a cap was exceeded failed because of the cap.
        if (passed := self.meter.exceeded_cap()) is not None:
            return termination.SessionTerminated(passed, for_good=for_good)
        return termination.SessionTerminated(
            failure_codes.termination_reason(failure_codes.classify_error(result)),
            failure_codes.build_provider_failure(agent, result),
            for_good=for_good,
        )

    def _void_request(self, waiting: DeferredRequest) -> steps.SessionNote:
        body = steps.NoteBody("request", canonical_bytes(waiting.request))
        self.voided += 1
        return steps.SessionNote(
            f"void/{self.voided}", kinds.RequestVoidFacts(waiting.parent.id), (body,)
        )

    def _id(self) -> str:
        return f"msg-{len(self.transcript):03d}"

    def _message_fields(self, usage: schemas.MessageUsage) -> _MessageFields:
        return {
            "id": self._id(),
            "round": self.round,
            "turn_index": self.turn,
            "timestamp": format_time(self.meter.now),
            "usage": usage,
        }

    def _note(self, message: schemas.Message) -> steps.SessionNote:
        """Append a message to the transcript and return its note."""
        step = f"message/{len(self.transcript)}"
        self.transcript.append(message)
        facts = kinds.MessageFacts(message.round, message.turn_index, message_type(message))
        return steps.SessionNote(
            step, facts, (steps.NoteBody("message", canonical_bytes(message)),), self._causes()
        )

    def _causes(self) -> tuple[Hash, ...]:
        return (self.entry,) if self.entry else ()

    def salvage(self, ended: termination.SessionTerminated) -> steps.ProtocolPart[bool]:
        """Try once to synthesize an answer from the transcript; return whether there is one.

        Only if the config wants it, an agent has spoken and the reason leaves a chance of success.
        """
        spoken = any(
            isinstance(message, schemas.PrimaryTurn | schemas.BranchTurn)
            for message in self.transcript
        )
        wanted = self.config.runtime.synthesize_on_terminate and not ended.is_final
        if not (spoken and wanted and ended.reason in termination.SALVAGEABLE_REASONS):
            return False
        try:
            yield from self._synthesize(retries=0)
        except termination.SessionTerminated:
            return False
        return True

    def conclude(self) -> steps.ProtocolPart[steps.SessionResult]:
        synthesis = self.transcript[-1]
        assert isinstance(synthesis, schemas.Synthesis)  # noqa: S101  only a synthesis leads here
        yield steps.SessionNote(
            "close", self._closed(kinds.OutcomeKind.SYNTHESIS), causes=self._causes()
        )
        return steps.SessionResult(Outcome.OK, synthesis.content.integrated_answer, self._causes())

    def terminate(
        self, ended: termination.SessionTerminated
    ) -> steps.ProtocolPart[steps.SessionResult]:
        artifact = termination.build_termination(ended, self.round, self.transcript)
        if not self._has_digest():
            artifact = replace(artifact, transcript_digest=kinds.NO_DIGEST)
        body = steps.NoteBody("termination", canonical_bytes(artifact))
        facts = self._closed(kinds.OutcomeKind.TERMINATION, ended.reason)
        yield steps.SessionNote("close", facts, (body,), self._causes())
        return steps.SessionResult(
            termination.OUTCOME_BY_REASON.get(ended.reason, Outcome.FAILED),
            termination.describe_termination(artifact),
            self._causes(),
        )

    def _has_digest(self) -> bool:
        """Return whether the record of this session has a digest of its transcript."""
        panel = self.session.policy.panel
        assert isinstance(panel, Symposium)  # noqa: S101  read_session_config checked the type
        return panel.version == 1

    def _closed(
        self, outcome: kinds.OutcomeKind, reason: kinds.Reason = kinds.Reason.NONE
    ) -> kinds.SymposiumClose:
        if not self._has_digest():
            return kinds.SymposiumCloseV2Facts(
                outcome,
                rounds=self.round,
                messages=len(self.transcript),
                ended=self.meter.now,
                usd=self.meter.spent.usd,
                tokens=self.meter.spent.tokens,
                reason=reason,
            )
        return kinds.SymposiumCloseFacts(
            outcome,
            rounds=self.round,
            messages=len(self.transcript),
            digest=digest_messages(self.transcript),
            ended=self.meter.now,
            usd=self.meter.spent.usd,
            tokens=self.meter.spent.tokens,
            reason=reason,
        )
