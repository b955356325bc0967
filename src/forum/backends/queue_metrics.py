"""Metrics of the DBOS queues: the waiting time of work for a worker with a free slot."""

from collections.abc import Iterator

from dbos import DBOS
from sqlalchemy.exc import SQLAlchemyError

from forum.backends.queue_errors import translate_queue_error
from forum.metrics import QUEUE_AGE, Sample

_MILLI = 1e3
_MICRO = 1e6


def queue_ages(name: str, now: int) -> Iterator[Sample]:
    """Yield the age of the oldest waiting item of each queue of a ledger.

    Raises `StoreFailed`.
    """
    for queue in ("runs", "tasks"):
        try:
            # This query is cheap: DBOS has an index of unfinished workflows by queue and time.
            oldest = DBOS.list_workflows(
                status="ENQUEUED",
                queue_name=f"{name}-{queue}",
                limit=1,
                load_input=False,
                load_output=False,
            )
        except SQLAlchemyError as error:
            raise translate_queue_error("reading the queues", error) from error
        created = oldest[0].created_at if oldest else None
        age = 0.0 if created is None else max(0.0, now / _MICRO - created / _MILLI)
        yield Sample(QUEUE_AGE, age, (("queue", queue),))
