"""Prompts for the agents of a session.

An agent is shown the problem, the other agents on the panel, the last verdict, the messages of this
round, its own last primary turn and the answers to its requests since; never the whole transcript.
Every message is in a quotation that its author cannot end, so that no agent can speak in the name
of another.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from forum.features.symposium import schemas
from forum.runs.kinds import sanitize_name
from forum.runs.personas import resolve_persona_ref
from forum.runs.prompt import Quotation
from forum.runs.reply_schemas import compose_prompt
from forum.runs.session_steps import Session

_TURN = (
    'Reply with JSON: {"text": "what you have to say", "direct_requests": [{"target": "NAME", '
    '"type": "question", "content": "..."}]}.'
)
_REQUESTS = (
    "To ask something of one of your peers, put it into `direct_requests`: the first one is "
    "answered at once, others in a later round. Nobody is asked because of what is in the text."
)
_VERDICT = (
    'Reply with JSON: {"next_action": "continue", "finalize", "request_user_input" or '
    '"request_external_research", "rationale": "...", "confidence": 0 to 1, "focus": "what the '
    'next round should turn to", "next_agents": [...], "resolved_disagreements": [{"topic": '
    '"...", "resolution": "..."}], "unresolved_disagreements": [{"topic": "...", "positions": '
    '[{"agent": "NAME", "claim": "..."}], "blocker": true or false}], "user_input_request": '
    'null or {"question": "..."}, "external_research_request": null or {"query": "..."}}. The '
    "last two are null unless they are your next action."
)
_SYNTHESIS = (
    'Reply with JSON: {"integrated_answer": "...", "resolved_disagreements": [{"topic": "...", '
    '"resolution": "..."}], "unresolved_disagreements": [{"topic": "...", "positions": '
    '[{"agent": "NAME", "claim": "..."}], "blocker": true or false}], "confidence": 0 to 1, '
    '"open_questions": [...]}.'
)


class DeferredRequest(msgspec.Struct, frozen=True):
    """A deferred request and the turn that made it."""

    request: schemas.DirectRequest
    parent: schemas.PrimaryTurn


class PromptContext(msgspec.Struct):
    """The state of a session when an agent is asked; its methods select what the agent is shown."""

    session: Session
    config: schemas.SymposiumConfig
    panel: list[str] = []
    """The agents that are still on the panel."""
    round: int = 0
    transcript: list[schemas.Message] = []
    waiting: deque[DeferredRequest] = msgspec.field(default_factory=deque)
    """Requests that are answered in a later round."""

    def primary_prompt(self, agent: str) -> bytes:
        """Return the prompt for an agent's primary turn."""
        return compose_prompt(
            f"You are {agent}. A panel deliberates on the problem below; this is round "
            f"{self.round}, and it is your turn. Say what brings the panel closer to an answer, "
            "and do not repeat what was said.",
            self._peers(agent),
            _REQUESTS if len(self.panel) > 1 else "",
            _TURN,
            quoted=[*self._common(), *self._own(agent), *self._now()],
        )

    def branch_prompt(self, agent: str, waiting: DeferredRequest) -> bytes:
        """Return the prompt for an agent to answer another agent's request."""
        request, parent = waiting.request, waiting.parent
        # The messages of this round are shown anyway; the request may come from an earlier one.
        earlier = [] if parent.round == self.round else [self._quoted_message(parent)]
        return compose_prompt(
            f"You are {agent}. A panel deliberates on the problem below; this is round "
            f"{self.round}. {parent.speaker} asks something of you: it is quoted last. Answer "
            "that, and nothing else.",
            self._peers(agent),
            _TURN,
            quoted=[
                *self._common(),
                *self._own(agent),
                *earlier,
                *self._now(),
                self._quoted(f"what {parent.speaker} asks you", _request_text(request)),
            ],
        )

    def verdict_prompt(self) -> bytes:
        """Return the prompt for the coordinator's verdict on the round."""
        queue = "\n".join(
            f"- {item.parent.speaker} asks {item.request.target}" for item in self.waiting
        )
        return compose_prompt(
            f"You coordinate a panel that deliberates on the problem below. Round {self.round} of "
            f"at most {self.config.budget.max_rounds} is over. Say whether the panel should go on "
            "or has come to an answer, what is settled, and what is not.",
            self._peers(""),
            f"Not answered yet:\n{queue}" if queue else "",
            _VERDICT,
            quoted=[*self._common(), *self._now()],
        )

    def synthesis_prompt(self) -> bytes:
        """Return the prompt for the coordinator's synthesis."""
        resolved, unresolved = self._disagreements()
        return compose_prompt(
            "A panel has deliberated on the problem below. Write its answer, from what was said "
            "and from nothing else. List what was settled and what was not.",
            self._peers(""),
            _SYNTHESIS,
            quoted=[
                *self._common(),
                *self._listed("what was settled so far", resolved),
                *self._listed("what was not settled", unresolved),
                *self._now(),
            ],
        )

    def _peers(self, agent: str) -> str:
        agents = {peer.id: peer for peer in self.config.agents}
        peers = [agents[name] for name in self.panel if name != agent]
        listed = "\n".join(f"- {peer.id}: {role_summary(peer)}" for peer in peers)
        return f"On the panel:\n{listed}" if peers else ""

    def _common(self) -> Iterator[Quotation]:
        yield self._quoted("the problem", self.config.problem_statement)
        for message in reversed(self.transcript):
            if isinstance(message, schemas.CoordinationTurn):
                yield self._quoted_message(message)
                return

    def _own(self, agent: str) -> Iterator[Quotation]:
        """Yield an agent's last primary turn before this round, and the answers since."""
        before = [message for message in self.transcript if message.round < self.round]
        own = [m for m in before if isinstance(m, schemas.PrimaryTurn) and m.speaker == agent]
        if not own:
            return
        yield self._quoted_message(own[-1], "you")
        own_ids = {message.id for message in own}
        for message in before[before.index(own[-1]) :]:
            if isinstance(message, schemas.BranchTurn) and message.parent_id in own_ids:
                yield self._quoted_message(message)

    def _now(self) -> Iterator[Quotation]:
        """Yield the messages of this round."""
        for message in self.transcript:
            if message.round == self.round and not isinstance(message, schemas.CoordinationTurn):
                yield self._quoted_message(message)

    def _disagreements(
        self,
    ) -> tuple[list[schemas.ResolvedDisagreement], list[schemas.UnresolvedDisagreement]]:
        verdicts = [m.content for m in self.transcript if isinstance(m, schemas.CoordinationTurn)]
        settled = [item for verdict in verdicts for item in verdict.resolved_disagreements]
        return settled, list(verdicts[-1].unresolved_disagreements) if verdicts else []

    def _listed(
        self,
        source: str,
        what: Iterable[schemas.ResolvedDisagreement | schemas.UnresolvedDisagreement],
    ) -> Iterator[Quotation]:
        if lines := [msgspec.json.encode(item).decode() for item in what]:
            yield self._quoted(source, "\n".join(lines))

    def _quoted_message(self, message: schemas.Message, speaker: str = "") -> Quotation:
        name = speaker or message.speaker
        place = f"{name}, round {message.round}, turn {message.turn_index}"
        return self._quoted(
            f"{place}{_addressee(message, self.transcript)}", _message_text(message)
        )

    def _quoted(self, source: str, words: str) -> Quotation:
        return quote_text(self.session, source, words)


def _addressee(message: schemas.Message, transcript: Sequence[schemas.Message]) -> str:
    if not isinstance(message, schemas.BranchTurn):
        return ""
    speakers = {earlier.id: earlier.speaker for earlier in transcript}
    return f", answering {speakers[message.parent_id]}"


def _message_text(message: schemas.Message) -> str:
    """Return the text of a message, to be quoted as its author's words."""
    match message:
        case schemas.ProblemStatement():
            return message.content
        case schemas.PrimaryTurn() | schemas.BranchTurn():
            requests = message.content.direct_requests
            lines = (f"To {request.target}: {_request_text(request)}" for request in requests)
            return "\n\n".join([message.content.text, *lines])
        case schemas.CoordinationTurn() | schemas.Synthesis():
            return msgspec.json.encode(message.content).decode()
        case schemas.PanelContraction():
            return f"{message.content.agent_id} has left the panel: {message.content.reason}"


def _request_text(request: schemas.DirectRequest) -> str:
    """Return the text of a request, including its type, which is also chosen by its author."""
    content = request.content
    words = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    return f"({request.type}) {words}"


def quote_text(session: Session, source: str, words: str) -> Quotation:
    """Return a quotation of a text, cut to the input limit of the policy."""
    data = words.encode()
    return Quotation(source, data[: session.policy.input_bytes], len(data))


def role_summary(agent: schemas.AgentConfig) -> str:
    """Return the description of an agent for others.

    It is reduced to one line, because a persona may come from a client and must not add lines of
    its own to the prompt.
    """
    persona = resolve_persona_ref(agent.persona_ref)
    return sanitize_name(f"{persona.reasoning_scope}; {persona.reasoning_style}")
