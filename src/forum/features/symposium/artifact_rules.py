"""Invariants of an artifact beyond its schema, to tell a forged artifact from an honest one.

A digest only shows that a transcript is the one that was hashed, and a forger can hash again. Hence
everything that the protocol promises is checked: the order of speakers (see `schedule`), what
follows from the messages, and the sums.

Two things are not checked. Times are compared with each other but not with the cap on time, because
a call that is running when time is up may still be answered. And a panel that was chosen instead of
declared is known only from the first round.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain, pairwise
from typing import cast

from msgspec import UNSET

from forum.errors import Malformed
from forum.features.symposium import schemas, transcript
from forum.features.symposium.canonical_json import read_json, transcript_digest
from forum.features.symposium.decoders import read_artifact
from forum.features.symposium.kinds import NextAction, Reason, SelectionStrategy
from forum.features.symposium.schedule import check_schedule
from forum.features.symposium.violations import Invariant, Violation, message_path

SUPPORTED_MAJOR = "1."
"""Prefix of the versions that this code understands."""
COST_TOLERANCE_USD = 1e-6
"""Tolerated difference between costs, which are sums of doubles."""


_Faults = Iterator[tuple[str, str]]
"""The JSON path of each violation of one invariant, and what is wrong there."""


def check_artifact(data: bytes) -> tuple[Violation, ...]:
    """Return all violations of an artifact; empty if it is consistent."""
    try:
        stored = read_json(data, "artifact")
        artifact = read_artifact(stored)
    except Malformed as error:
        why, _, path = error.why.partition(" - at `")
        return (Violation(Invariant.FORM, path.rstrip("`") or "$", why),)
    # Hash the stored JSON, not the decoded struct: encoding omits defaults that the digest covers.
    digest = transcript_digest(cast("dict[str, object]", stored)["canonical_transcript"])
    return tuple(
        chain(_check_digests(artifact, digest), *(law(artifact) for law in _INVARIANT_CHECKS))
    )


def _check_digests(artifact: schemas.Artifact, digest: str) -> Iterator[Violation]:
    if artifact.transcript_digest != digest:
        yield Violation(Invariant.DIGEST, "$.transcript_digest", f"the transcript has {digest}")
    ending = _termination(artifact)
    if ending is not None and ending.transcript_digest != digest:
        where = "$.outcome.termination_artifact.transcript_digest"
        yield Violation(Invariant.DIGEST, where, f"the transcript has {digest}")


def _check_versions(artifact: schemas.Artifact) -> _Faults:
    versions = {"$": artifact.schema_version, "$.config": artifact.config.schema_version}
    if (ending := _termination(artifact)) is not None:
        versions["$.outcome.termination_artifact"] = ending.schema_version
    for where, version in versions.items():
        if not version.startswith(SUPPORTED_MAJOR):
            yield f"{where}.schema_version", f"{version} is unknown"


def _check_session(artifact: schemas.Artifact) -> _Faults:
    if artifact.session_id != artifact.config.session_id:
        yield "$.session_id", f"the config is of {artifact.config.session_id!r}"


def _check_panel(artifact: schemas.Artifact) -> _Faults:
    """Check that the config can be carried out, unless the session ended at once."""
    config, selector = artifact.config, artifact.config.selector
    if len(artifact.canonical_transcript) == 1:
        return
    names = [agent.id for agent in config.agents]
    panel = (
        selector.default_deliberation_panel if selector.strategy is SelectionStrategy.FIXED else ()
    )
    for name, times in Counter([*names, config.coordinator.id]).items():
        if times > 1:
            yield "$.config.agents", f"{name} is there {times} times"
    for name, times in Counter(panel).items():
        if times > 1 or name not in names:
            why = f"{name} is there twice" if times > 1 else f"{name} is none of the agents"
            yield "$.config.selector.default_deliberation_panel", why
    if selector.coordinator_agent != config.coordinator.id:
        yield "$.config.selector.coordinator_agent", f"the coordinator is {config.coordinator.id}"


def _check_opening(artifact: schemas.Artifact) -> _Faults:
    first, *others = artifact.canonical_transcript
    if not isinstance(first, schemas.ProblemStatement):
        yield message_path(0), "it does not state the problem"
    elif first.content != artifact.config.problem_statement:
        yield message_path(0), "it is not the problem of the config"
    for index, message in enumerate(others, 1):
        if isinstance(message, schemas.ProblemStatement):
            yield message_path(index), "the problem is stated again"


def _check_positions(artifact: schemas.Artifact) -> _Faults:
    places = [(m.round, m.turn_index) for m in artifact.canonical_transcript]
    for index, (before, after) in enumerate(pairwise(places), 1):
        if after <= before:
            why = "turn {1} of round {0} comes after turn {3} of round {2}".format(*after, *before)
            yield message_path(index), why


def _check_ids(artifact: schemas.Artifact) -> _Faults:
    seen: set[str] = set()
    for index, message in enumerate(artifact.canonical_transcript):
        if message.id in seen:
            yield message_path(index), f"{message.id!r} was taken"
        seen.add(message.id)


def _check_times(artifact: schemas.Artifact) -> _Faults:
    texts = {"$.started_at": artifact.started_at}
    for index, message in enumerate(artifact.canonical_transcript):
        texts[f"{message_path(index)}.timestamp"] = message.timestamp
    texts["$.ended_at"] = artifact.ended_at
    last: datetime | None = None
    for where, text in texts.items():
        time = transcript.parse_time(text)
        if time is None:
            yield where, f"{text[:40]!r} is no time"
        elif last is not None and time < last:
            yield where, f"{text} is before {last.isoformat()}"
        last = time or last


def _check_speakers(artifact: schemas.Artifact) -> _Faults:
    config = artifact.config
    agents = {agent.id for agent in config.agents}
    for index, message in enumerate(artifact.canonical_transcript):
        match message:
            case schemas.ProblemStatement():
                fits = message.speaker == config.originator
            case schemas.CoordinationTurn() | schemas.Synthesis():
                fits = message.speaker == config.coordinator.id
            case schemas.PanelContraction():
                fits = message.content.agent_id in agents
            case _:
                fits = message.speaker in agents
        if not fits:
            yield message_path(index), f"{message.speaker!r} has no such part in this session"


def _check_notes(artifact: schemas.Artifact) -> _Faults:
    """Check which messages have notes; `check_schedule` checks the content of notes."""
    for index, message in enumerate(artifact.canonical_transcript):
        on_branch, on_primary = message.branch_depth == 1, isinstance(message, schemas.PrimaryTurn)
        if message.suggested_followups and not on_branch:
            yield message_path(index), "only an answer suggests what might follow"
        if message.dropped_deferred and not on_primary:
            yield message_path(index), "only a turn of the panel puts requests"
        if message.schema_failure and not (on_primary or on_branch):
            yield message_path(index), "only an agent puts requests"


def _check_caps(artifact: schemas.Artifact) -> _Faults:
    """Yield the messages that were sent after a cap was exceeded."""
    budget, passed = artifact.config.budget, ""
    tokens: Counter[str] = Counter()
    cost = 0.0
    for index, message in enumerate(artifact.canonical_transcript):
        salvage = artifact.config.runtime.synthesize_on_terminate and isinstance(
            message, schemas.Synthesis
        )
        if passed and not salvage:
            yield message_path(index), f"{passed} had been passed"
        tokens[message.speaker] += message.usage.total_tokens
        cost += message.usage.cost_usd
        if tokens.total() > budget.max_total_tokens:
            passed = "max_total_tokens"
        elif cost > budget.max_total_cost_usd + COST_TOLERANCE_USD:
            passed = "max_total_cost_usd"
        for agent, cap in budget.per_agent_token_budget.items():
            passed = f"the budget of {agent}" if tokens[agent] > cap else passed


def _check_usage(artifact: schemas.Artifact) -> _Faults:
    spent = [message.usage for message in artifact.canonical_transcript]
    for index, usage in enumerate(spent):
        if not index and not _is_same_usage(usage, transcript.ZERO_USAGE):
            yield f"{message_path(index)}.usage", "to pose a problem is free"
        if usage.total_tokens < usage.prompt_tokens + usage.completion_tokens:
            yield f"{message_path(index)}.usage.total_tokens", "the total is less than its parts"
    whole = transcript.total_usage(artifact.canonical_transcript)
    stated = {"$.cumulative_usage": artifact.cumulative_usage}
    if (ending := _termination(artifact)) is not None:
        stated["$.outcome.termination_artifact.cumulative_usage"] = ending.cumulative_usage
    for where, usage in stated.items():
        if not _is_same_usage(usage, whole):
            yield where, f"the messages come to {whole}"


def _is_same_usage(first: schemas.MessageUsage, other: schemas.MessageUsage) -> bool:
    counts, others = (
        (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, usage.estimated)
        for usage in (first, other)
    )
    return counts == others and abs(first.cost_usd - other.cost_usd) <= COST_TOLERANCE_USD


def _check_outcome(artifact: schemas.Artifact) -> _Faults:
    last = len(artifact.canonical_transcript) - 1
    answers = [
        index
        for index, message in enumerate(artifact.canonical_transcript)
        if isinstance(message, schemas.Synthesis)
    ]
    for index in answers:
        if index != last or not isinstance(artifact.outcome, schemas.SynthesisOutcome):
            yield message_path(index), "a session with an answer goes on"
    if isinstance(artifact.outcome, schemas.SynthesisOutcome):
        named = artifact.outcome.synthesis_message_id
        if answers != [last] or artifact.canonical_transcript[last].id != named:
            why = "it does not name the synthesis that ends the transcript"
            yield "$.outcome.synthesis_message_id", why


def _check_termination(artifact: schemas.Artifact) -> _Faults:
    """Yield what a termination states that the transcript contradicts."""
    ending, where = _termination(artifact), "$.outcome.termination_artifact"
    if ending is None:
        return
    if ending.most_recent_verdict != transcript.last_verdict(artifact.canonical_transcript):
        yield f"{where}.most_recent_verdict", "it is not the last verdict"
    last = artifact.canonical_transcript[-1]
    # A round that was opened, and in which no agent answered, leaves no message.
    opens = last.round == 0 or (
        isinstance(last, schemas.CoordinationTurn)
        and last.content.next_action is NextAction.CONTINUE
    )
    rounds = {last.round, last.round + 1} if opens else {last.round}
    if ending.final_round not in rounds or ending.final_round > artifact.config.budget.max_rounds:
        yield f"{where}.final_round", f"the last message is of {last.round}"
    waits = ending.pending_user_input_request or ending.pending_external_research_request
    if waits:
        request = isinstance(last, schemas.CoordinationTurn) and (
            last.content.user_input_request or last.content.external_research_request
        )
        if waits != request:
            yield where, "the last verdict asks for something else"
    yield from _check_failure(artifact, ending)


def _check_failure(artifact: schemas.Artifact, ending: schemas.TerminationArtifact) -> _Faults:
    failure, where = ending.last_provider_failure, "$.outcome.termination_artifact"
    if failure is UNSET:
        return
    if ending.reason not in (Reason.PROVIDER_UNRECOVERABLE, Reason.SCHEMA_ERROR):
        yield f"{where}.reason", "it does not go with the last failure"
    agents = (*artifact.config.agents, artifact.config.coordinator)
    identities = {
        (agent.id, agent.provider, model) for agent in agents for model in (agent.model, None)
    }
    if (failure.agent_id, failure.provider, failure.model) not in identities:
        yield f"{where}.last_provider_failure", "the config has no such agent"


def _check_unresolved(artifact: schemas.Artifact) -> _Faults:
    """Yield unresolved disagreements that do not match the messages.

    The artifact lists those of the last verdict or the synthesis. The protocol's reference package
    lists those of all verdicts, one after the other; both are accepted.
    """
    verdicts = [
        m.content for m in artifact.canonical_transcript if isinstance(m, schemas.CoordinationTurn)
    ]
    unresolved = tuple(
        chain.from_iterable(verdict.unresolved_disagreements for verdict in verdicts)
    )
    stated: tuple[schemas.UnresolvedDisagreement, ...] = ()
    if (ending := _termination(artifact)) is not None:
        stated = ending.unresolved_disagreements
        latest = verdicts[-1].unresolved_disagreements if verdicts else ()
        if not set(latest) <= set(stated) <= set(unresolved):
            where = "$.outcome.termination_artifact.unresolved_disagreements"
            yield where, "the verdicts say otherwise"
    elif isinstance(last := artifact.canonical_transcript[-1], schemas.Synthesis):
        stated = last.content.unresolved_disagreements
    if artifact.cumulative_unresolved not in (stated, unresolved):
        yield "$.cumulative_unresolved", "it is not what the session left open"


def _termination(artifact: schemas.Artifact) -> schemas.TerminationArtifact | None:
    outcome = artifact.outcome
    return None if isinstance(outcome, schemas.SynthesisOutcome) else outcome.termination_artifact


def _violations_of(
    law: Invariant, check: Callable[[schemas.Artifact], _Faults]
) -> Callable[[schemas.Artifact], Iterator[Violation]]:
    return lambda artifact: (Violation(law, where, why) for where, why in check(artifact))


_INVARIANT_CHECKS: tuple[Callable[[schemas.Artifact], Iterator[Violation]], ...] = (
    _violations_of(Invariant.VERSION, _check_versions),
    _violations_of(Invariant.SESSION, _check_session),
    _violations_of(Invariant.PANEL, _check_panel),
    _violations_of(Invariant.OPENING, _check_opening),
    _violations_of(Invariant.ORDER, _check_positions),
    _violations_of(Invariant.IDS, _check_ids),
    _violations_of(Invariant.TIME, _check_times),
    _violations_of(Invariant.SPEAKER, _check_speakers),
    _violations_of(Invariant.NOTES, _check_notes),
    check_schedule,
    _violations_of(Invariant.CAPS, _check_caps),
    _violations_of(Invariant.USAGE, _check_usage),
    _violations_of(Invariant.OUTCOME, _check_outcome),
    _violations_of(Invariant.OUTCOME, _check_termination),
    _violations_of(Invariant.UNRESOLVED, _check_unresolved),
)
