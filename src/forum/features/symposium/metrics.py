"""Metrics of an artifact: tokens, costs, turns, failures and the outcome."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from forum.errors import Malformed
from forum.features.symposium import schemas
from forum.features.symposium.decoders import read_artifact
from forum.features.symposium.kinds import OutcomeKind, Reason
from forum.features.symposium.transcript import parse_time, to_json_object, total_usage


class TokenMetrics(schemas.ProtocolStruct, frozen=True):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CostMetrics(schemas.ProtocolStruct, frozen=True):
    """A cost in US dollars."""

    cost_usd: float


class LatencyMetrics(schemas.ProtocolStruct, frozen=True):
    """Time since the previous message."""

    message_id: str
    speaker: str
    latency_seconds: float


class ParticipationCount(schemas.ProtocolStruct, frozen=True):
    """Number of turns of a speaker in a round."""

    round: int
    speaker: str
    count: int


class ContractionCount(schemas.ProtocolStruct, frozen=True):
    """Number of removals of an agent from the panel, by reason."""

    agent_id: str
    reason: str
    count: int


class SymposiumMetrics(schemas.ProtocolStruct, frozen=True, omit_defaults=False):
    """The metrics that the protocol defines for every session."""

    session_id: str
    schema_version: str
    transcript_digest: str
    tokens_per_agent: dict[str, TokenMetrics]
    tokens_cumulative: TokenMetrics
    tokens_per_provider_model: dict[str, TokenMetrics]
    cost_per_agent: dict[str, CostMetrics]
    cost_cumulative: CostMetrics
    cost_per_provider_model: dict[str, CostMetrics]
    latency_per_invocation: tuple[LatencyMetrics, ...]
    participation_per_round: tuple[ParticipationCount, ...]
    branch_depth_max: int
    deferred_queue_length_max: int
    schema_failure_count_per_agent: dict[str, int]
    panel_contraction_count: tuple[ContractionCount, ...]
    outcome_kind: OutcomeKind
    termination_reason: Reason | None
    usage_estimated: bool


def compute_metrics(data: bytes) -> SymposiumMetrics:
    """Compute the metrics of an artifact. Raises `Malformed`."""
    artifact = read_artifact(data)
    transcript = artifact.canonical_transcript
    models = {
        agent.id: f"{agent.provider}/{agent.model}"
        for agent in (*artifact.config.agents, artifact.config.coordinator)
    }
    spoken = [message for message in transcript if message.speaker in models]
    by_agent = _grouped((message.speaker, message) for message in spoken)
    by_model = _grouped((models[message.speaker], message) for message in spoken)
    whole = total_usage(transcript)
    outcome = artifact.outcome
    ending = (
        outcome.termination_artifact if isinstance(outcome, schemas.TerminationOutcome) else None
    )
    return SymposiumMetrics(
        session_id=artifact.session_id,
        schema_version=schemas.VERSION,
        transcript_digest=artifact.transcript_digest,
        tokens_per_agent={name: _tokens(used) for name, used in by_agent.items()},
        tokens_cumulative=_tokens(whole),
        tokens_per_provider_model={name: _tokens(used) for name, used in by_model.items()},
        cost_per_agent={name: _cost(used) for name, used in by_agent.items()},
        cost_cumulative=_cost(whole),
        cost_per_provider_model={name: _cost(used) for name, used in by_model.items()},
        latency_per_invocation=tuple(_latencies(transcript)),
        participation_per_round=_participation(transcript),
        branch_depth_max=max(message.branch_depth for message in transcript),
        deferred_queue_length_max=_longest_queue(artifact),
        schema_failure_count_per_agent=_failures(transcript),
        panel_contraction_count=_contractions(transcript),
        outcome_kind=OutcomeKind.TERMINATION if ending else OutcomeKind.SYNTHESIS,
        termination_reason=ending.reason if ending else None,
        usage_estimated=whole.estimated,
    )


def _grouped(messages: Iterable[tuple[str, schemas.Message]]) -> dict[str, schemas.MessageUsage]:
    groups: dict[str, list[schemas.Message]] = defaultdict(list)
    for name, message in messages:
        groups[name].append(message)
    return {name: total_usage(groups[name]) for name in sorted(groups)}


def _tokens(usage: schemas.MessageUsage) -> TokenMetrics:
    return TokenMetrics(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)


def _cost(usage: schemas.MessageUsage) -> CostMetrics:
    return CostMetrics(round(usage.cost_usd, 6))


def _latencies(transcript: Sequence[schemas.Message]) -> Iterable[LatencyMetrics]:
    for before, message in pairwise(transcript):
        passed = _time(message) - _time(before)
        yield LatencyMetrics(message.id, message.speaker, max(0.0, passed.total_seconds()))


def _time(message: schemas.Message) -> datetime:
    time = parse_time(message.timestamp)
    if time is None:
        raise Malformed("artifact", f"{message.timestamp[:40]!r} is no time ({message.id[:40]!r})")
    return time


def _participation(transcript: Sequence[schemas.Message]) -> tuple[ParticipationCount, ...]:
    turns = (m for m in transcript if isinstance(m, schemas.PrimaryTurn | schemas.BranchTurn))
    counted = Counter((message.round, message.speaker) for message in turns)
    return tuple(ParticipationCount(*place, count) for place, count in sorted(counted.items()))


def _failures(transcript: Sequence[schemas.Message]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for message in transcript:
        if message.schema_failure:
            counted[message.speaker] += len(message.schema_failure)
    return dict(sorted(counted.items()))


def _contractions(transcript: Sequence[schemas.Message]) -> tuple[ContractionCount, ...]:
    left = (
        message.content for message in transcript if isinstance(message, schemas.PanelContraction)
    )
    counted = Counter((contraction.agent_id, contraction.reason) for contraction in left)
    return tuple(ContractionCount(*key, count) for key, count in sorted(counted.items()))


def _longest_queue(artifact: schemas.Artifact) -> int:
    """Return the maximum length of the deferred queue."""
    transcript = artifact.canonical_transcript
    turns = {
        message.id: message for message in transcript if isinstance(message, schemas.PrimaryTurn)
    }
    queue = longest = 0
    for message in transcript:
        if isinstance(message, schemas.PrimaryTurn):
            queue += max(0, _count_deferred(message))
            longest = max(longest, queue)
        elif isinstance(message, schemas.BranchTurn):
            parent = turns.get(message.parent_id)
            queue -= parent is not None and parent.round < message.round
    return longest


def _count_deferred(turn: schemas.PrimaryTurn) -> int:
    """Return how many requests of a turn were neither answered at once, dropped nor invalid."""
    requests = [to_json_object(request) for request in turn.content.direct_requests]
    refused = [failure.offending_request for failure in turn.schema_failure]
    routed = [request for request in requests if request not in refused]
    return len(routed) - len(turn.dropped_deferred) - bool(routed)
