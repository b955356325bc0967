"""The end of a session without an answer: its reason, its artifact and its message."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from forum.features.symposium import schemas
from forum.features.symposium.kinds import Reason
from forum.features.symposium.transcript import digest_messages, last_verdict, total_usage
from forum.ledger.kinds import Outcome

OUTCOME_BY_REASON = {Reason.TIMEOUT: Outcome.TIMEOUT, Reason.USER_CANCEL: Outcome.CANCELLED}
"""Outcome of the run by reason; for every other reason the run has failed."""
SALVAGEABLE_REASONS = frozenset(
    {Reason.TIMEOUT, Reason.BUDGET_EXCEEDED, Reason.PROVIDER_UNRECOVERABLE}
)
"""Reasons after which the transcript may suffice for an answer."""


class SessionTerminated(Exception):
    """Raised to end the session without an answer.

    `is_final` rules out an attempt to salvage an answer.
    """

    def __init__(
        self,
        reason: Reason,
        failure: schemas.ProviderFailure | None = None,
        *,
        for_good: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason, self.failure = reason, failure
        self.is_final = for_good


def build_termination(
    ended: SessionTerminated, final_round: int, transcript: Sequence[schemas.Message]
) -> schemas.TerminationArtifact:
    """Return the artifact that is recorded in place of an answer."""
    verdict = last_verdict(transcript)
    question: schemas.UserInputRequest | UnsetType = UNSET
    research: schemas.ResearchRequest | UnsetType = UNSET
    if verdict is not None and ended.reason is Reason.USER_INPUT_REQUIRED:
        question = verdict.user_input_request
    if verdict is not None and ended.reason is Reason.EXTERNAL_RESEARCH_REQUIRED:
        research = verdict.external_research_request
    return schemas.TerminationArtifact(
        schema_version=schemas.VERSION,
        reason=ended.reason,
        final_round=final_round,
        cumulative_usage=total_usage(transcript),
        unresolved_disagreements=verdict.unresolved_disagreements if verdict else (),
        transcript_digest=digest_messages(transcript),
        most_recent_verdict=verdict,
        pending_user_input_request=question,
        pending_external_research_request=research,
        last_provider_failure=ended.failure or UNSET,
    )


def describe_termination(artifact: schemas.TerminationArtifact) -> str:
    """Return the message to the client in place of an answer."""
    if artifact.pending_user_input_request is not UNSET:
        return f"The panel asks: {artifact.pending_user_input_request.question}"
    if artifact.pending_external_research_request is not UNSET:
        query = artifact.pending_external_research_request.query
        return f"The panel wants somebody to find out: {query}"
    failure = artifact.last_provider_failure
    why = f" ({failure.agent_id}: {failure.message})" if failure is not UNSET else ""
    return f"The panel came to no answer: {artifact.reason.value}{why}"
