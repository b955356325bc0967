"""Have the free-text answers of a council compared, and record the encoder's verdicts."""

from forum.engine import context, ports
from forum.errors import BodyGone
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.ports import Position
from forum.runs.answer_similarity import (
    SimilarityFacts,
    SimilarityReading,
    SimilarityRequest,
    read_similarity,
)


def compare_answers(
    request: SimilarityRequest, open_encoder: ports.OpenEncoder
) -> SimilarityReading:
    """Return the verdicts of the encoder, or an empty reading without one."""
    encoder = open_encoder()
    if encoder is None:
        return SimilarityReading()
    verdicts = encoder.compare(request.texts, request.pairs)
    return SimilarityReading(encoder.name, encoder.digest, verdicts)


def read_recorded_similarity(
    ledger: Ledger, run: str, request: SimilarityRequest
) -> SimilarityReading | None:
    """Return the recorded reading of a run, or None if there is none."""
    for _, entry in read_strand_entries(ledger, run, MAIN_STRAND):
        if entry.step == request.step and isinstance(entry.facts, SimilarityFacts):
            if not entry.bodies:
                return SimilarityReading()
            try:
                body = context.read_body(ledger, Position(run, MAIN_STRAND, entry.n), "scores")
            except BodyGone:  # erased meanwhile: the texts alone decide
                return SimilarityReading()
            return read_similarity(request, entry.facts, body)
    return None
