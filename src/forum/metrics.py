"""Metrics of a process and a ledger; `forum.surfaces.exposition` writes them for Prometheus.

Counters start at zero with the process and count the entries that it appended. Every entry is
appended by one process, so the sum over all processes is the total. Gauges are read from the store
on request, with statements whose cost does not grow with the log.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from threading import Lock
from typing import Any, Final

from msgspec import MsgspecError, Struct, json

from forum import tlog
from forum.errors import Malformed, SignatureRejected
from forum.ledger.entry import MAIN_STRAND, Entry, peek_kind
from forum.ledger.kinds import Kinds, Outcome, RunCloseFacts, Scope
from forum.ledger.ports import EntryWrite, Store, TreeReader, decode_due_time
from forum.runs.council_end import Accord, CouncilCloseFacts
from forum.runs.kinds import (
    CallFacts,
    CheckFacts,
    ReplyFacts,
    StopFacts,
    VerdictFacts,
)
from forum.runs.report_kinds import (
    Operation,
    ReportSourceFacts,
    ReportStepFacts,
    model_family,
)
from forum.runs.run_fold import vetoed_accord
from forum.runs.run_summary import SummaryTally
from forum.runs.spending import CallCost, fold_cost
from forum.units import NANO_USD

METRICS_SCOPES: Final = frozenset({Scope.METRICS, Scope.READ, Scope.AUDIT, Scope.ADMIN})
"""Scopes of which any one allows a key to read metrics."""
MAX_COUNTED_GATES: Final = 10_000
"""Counting limit for open gates."""
_MAX_LABEL_VALUES: Final = 100
"""Limit of distinct values of a label: each is a time series in every metrics database."""
_MAX_OPEN_CALLS: Final = 10_000
_OTHER_VALUE: Final = "other"
_MICRO: Final = 1e6


class Metric(Struct, frozen=True):
    """The name and help text of a metric; the name of a counter ends in `_total`."""

    name: str
    help: str


class Sample(Struct, frozen=True):
    """One value of a metric."""

    metric: Metric
    value: float
    labels: "Labels" = ()


Labels = tuple[tuple[str, str], ...]
_Series = tuple[Metric, Labels]

_ledger_metrics: list[Metric] = []


def _metric(name: str, description: str) -> Metric:
    _ledger_metrics.append(Metric(name, description))
    return _ledger_metrics[-1]


RUNS_ACCEPTED = _metric("forum_runs_accepted_total", "Runs that were accepted.")
RUNS_ENDED = _metric(
    "forum_runs_ended_total", "Runs that ended, by outcome; split or blocked if a council was."
)
RUN_STOPS = _metric("forum_run_stops_total", "Runs that were stopped, by reason.")
CALLS = _metric("forum_calls_total", "Calls that ended, by model and outcome.")
TOKENS = _metric("forum_tokens_total", "Tokens that calls used, by model.")
DOLLARS = _metric("forum_dollars_total", "Dollars that calls cost, by model.")
STEP_CALLS = _metric(
    "forum_step_calls_total",
    "Model calls of runs that Forum does not drive, as through the gateway: by provider, family of "
    "models and outcome.",
)
STEP_DOLLARS = _metric(
    "forum_step_dollars_total", "Dollars that these calls cost, by provider and family of models."
)
STEP_SECONDS = _metric("forum_step_seconds_total", "How long these calls took, by provider.")
STEP_REFUSALS = _metric(
    "forum_step_refusals_total", "Model calls that were refused before they were made, by reason."
)
TAKEOVERS = _metric("forum_takeovers_total", "Runs and tasks taken over from workers that died.")
QUEUE_AGE = _metric(
    "forum_queue_age_seconds",
    "How long the oldest due run has waited for a worker.",
)
GATES_WAITING = _metric(
    "forum_gates_waiting",
    f"Gates that wait for a decision; at most {MAX_COUNTED_GATES} are counted.",
)
SEQUENCING_LAG = _metric(
    "forum_sequencing_lag_seconds", "How long the oldest entry without an index has waited for it."
)
WITNESS_AGE = _metric(
    "forum_witness_age_seconds", "How long ago a witness last cosigned a checkpoint."
)
UNWITNESSED = _metric(
    "forum_unwitnessed_entries",
    "Entries that no checkpoint covers which enough witnesses cosigned.",
)
ENTRIES = _metric("forum_ledger_entries", "Entries with an index.")
BACKLOG = _metric("forum_ledger_backlog", "Entries that wait for an index.")
QUARANTINED = _metric(
    "forum_ledger_quarantined", "Rows that no writer of the log wrote, set aside."
)
WORKERS = _metric("forum_workers", "Workers that hold a lease.")
QUOTA = _metric("forum_tenant_quota", "What the operator lets a tenant have, by what it limits.")
QUOTA_USED = _metric("forum_tenant_quota_used", "What a tenant has of its quota.")
CONDITION = _metric(
    "forum_condition", "Whether a condition is there that stops reading, writing or signing: 1, 0."
)
READY = _metric("forum_ready", "Whether this process can read, write, and have signed: 1 or 0.")

LEDGER_METRICS: Final = tuple(_ledger_metrics)
"""The metrics of a ledger, exposed by servers and by workers."""


class EntryCounters:
    """Counts runs, calls and costs in the entries that this process appended."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds, self._lock = kinds, Lock()
        self._counts: defaultdict[_Series, float] = defaultdict(float)
        self._open_calls: OrderedDict[tuple[str, str], CallCost] = OrderedDict()
        """The calls without a reply, by run and strand."""
        self._counted_elsewhere: OrderedDict[str, None] = OrderedDict()
        """The last runs of programs whose calls a gateway records."""
        self._labels: defaultdict[str, set[str]] = defaultdict(set)
        """The values that each label has had."""
        self._undecided: OrderedDict[str, SummaryTally] = OrderedDict()
        """What is known of open runs with a council, or with a veto of one."""

    def count(self, records: Sequence[EntryWrite]) -> None:
        """Count entries that have become durable."""
        for record in records:
            # Peeking at the kind avoids decoding the entries that are not counted, or that count
            # whatever they say.
            kind = peek_kind(record.data)
            if kind == _ACCEPTED_KIND:
                with self._lock:
                    self._add(RUNS_ACCEPTED)
            elif kind in _COUNTED_KINDS:
                self._count(record)

    def samples(self) -> list[Sample]:
        """Return all counters."""
        with self._lock:
            return [
                Sample(metric, value, labels) for (metric, labels), value in self._counts.items()
            ]

    def _count(self, record: EntryWrite) -> None:
        entry = self._kinds.read(record.data)
        facts, place = entry.facts, (record.position.run, record.position.strand)
        with self._lock:
            accord = self._find_accord(entry)
            match facts:
                case RunCloseFacts():
                    self._add(RUNS_ENDED, outcome=accord or facts.outcome)
                case StopFacts() if place[1] == MAIN_STRAND:
                    self._add(RUN_STOPS, reason=facts.reason)
                case CallFacts():
                    fold_cost(self._open_calls, place, entry.ts, facts)
                    # Forget the oldest call: its reply may never be appended by this process.
                    if len(self._open_calls) > _MAX_OPEN_CALLS:
                        self._open_calls.popitem(last=False)
                case ReplyFacts():
                    self._count_reply(facts, fold_cost(self._open_calls, place, entry.ts, facts))
                case ReportSourceFacts() | ReportStepFacts():
                    self._count_reported(entry.run, facts)
                case _:
                    pass

    def _find_accord(self, entry: Entry[Any]) -> Accord | None:
        """Return the accord of the council that left a run undecided, if this entry closes it.

        The label is then that of lists. A run that another process goes on with has the outcome of
        its last entry.
        """
        run, facts = entry.run, entry.facts
        is_judged = isinstance(facts, (VerdictFacts, CheckFacts))  # quicker than a union
        is_veto = is_judged and vetoed_accord(facts) is not None
        if is_veto or isinstance(facts, CouncilCloseFacts):
            self._undecided.setdefault(run, SummaryTally())
            if len(self._undecided) > _MAX_OPEN_CALLS:
                self._undecided.popitem(last=False)
        tally = self._undecided.get(run)
        if tally is not None:
            tally.add_entry(entry)
        if not isinstance(facts, RunCloseFacts):
            return None
        self._undecided.pop(run, None)
        return tally.undecided_accord() if tally else None

    def _count_reply(self, reply: ReplyFacts, call: CallCost | None) -> None:
        if call is None or call.is_recorded or call.is_inner_run:
            return  # another run made the call and paid for it
        model = self._bound_label("model", call.model)
        self._add(CALLS, model=model, outcome=reply.outcome)
        self._add(TOKENS, reply.tokens, model=model)
        self._add(DOLLARS, reply.usd / NANO_USD, model=model)

    def _count_reported(self, run: str, facts: ReportSourceFacts | ReportStepFacts) -> None:
        """Count a step, unless the gateway counts it: a source tells it of the steps behind it."""
        if isinstance(facts, ReportStepFacts):
            if run not in self._counted_elsewhere:
                self._count_step(facts)
        elif facts.is_counted_elsewhere:
            self._counted_elsewhere[run] = None
            if len(self._counted_elsewhere) > _MAX_OPEN_CALLS:
                self._counted_elsewhere.popitem(last=False)

    def _count_step(self, step: ReportStepFacts) -> None:
        if step.op is not Operation.MODEL or step.is_taken_back:
            return
        if step.outcome is Outcome.DENIED:
            self._add(STEP_REFUSALS, reason=self._bound_label("reason", step.code))
            return
        provider = self._bound_label("provider", step.provider)
        family = self._bound_label("family", model_family(step.model))
        self._add(STEP_CALLS, provider=provider, family=family, outcome=step.outcome)
        self._add(STEP_DOLLARS, step.usd / NANO_USD, provider=provider, family=family)
        self._add(STEP_SECONDS, step.micros / _MICRO, provider=provider)

    def _bound_label(self, label: str, value: str) -> str:
        """Return a value of a label; one word for all beyond a number of them."""
        values = self._labels[label]
        if value not in values and len(values) >= _MAX_LABEL_VALUES:
            return _OTHER_VALUE
        values.add(value)
        return value

    def _add(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        self._counts[metric, tuple((name, str(value)) for name, value in labels.items())] += amount


_ACCEPTED_KIND: Final = b"accepted/1"
_COUNTED_KINDS: Final = frozenset(
    b"run.close/1 stop/1 call/1 reply/1 council.close/1 verdict/1 check/1"
    b" report.source/1 report.step/1".split()
)


class _EntryTime(Struct):
    """The timestamp of an entry; the other members are not decoded."""

    ts: int


class LedgerGauges:
    """Measures a store, and remembers results that cannot change any more."""

    def __init__(self, store: Store, policy: tlog.WitnessPolicy | None) -> None:
        self._store, self._policy = store, policy
        self._witnessed: dict[str, bytes] = {}
        """The newest checkpoint cosigned by each witness; under "" the newest one with a quorum."""

    def samples(self) -> Iterator[Sample]:
        """Measure everything. Raises `StoreFailed`."""
        store = self._store
        now, size = store.now(), store.head().size
        yield Sample(ENTRIES, size)
        yield Sample(BACKLOG, store.backlog())
        yield Sample(QUARANTINED, store.count_quarantined())
        yield Sample(WORKERS, len(store.live_workers()))
        yield Sample(GATES_WAITING, store.count_pending_gates(MAX_COUNTED_GATES))
        yield Sample(QUEUE_AGE, self._due_age(now), (("queue", "due"),))
        yield Sample(SEQUENCING_LAG, self._sequencing_lag(now))
        if self._policy is not None:
            yield from self._witness_samples(self._policy, now, size)

    def _due_age(self, now: int) -> float:
        """Return how long the oldest due timer has been due, in seconds."""
        due = self._store.timers(None, 1, due=True)
        if not due or due[0].at is None:
            return 0.0
        return max(0.0, (now - decode_due_time(due[0].at, now)) / _MICRO)

    def _sequencing_lag(self, now: int) -> float:
        rows = self._store.pending_entries(1).rows
        if not rows:
            return 0.0
        try:
            written = json.decode(rows[0].data, type=_EntryTime).ts
        except MsgspecError:
            return 0.0  # not written by a writer of this log; the sequencer will quarantine it
        return max(0.0, (now - written) / _MICRO)

    def _witness_samples(self, policy: tlog.WitnessPolicy, now: int, size: int) -> Iterator[Sample]:
        for key in policy.witness_keys:
            note = self._newest(key.name, partial(_is_cosigned, key=key))
            age = inf if note is None else max(0.0, now / _MICRO - _cosigned_time(note, key))
            yield Sample(WITNESS_AGE, age, (("witness", key.name),))
        note = self._newest("", lambda note: _is_witnessed(note, policy))
        yield Sample(UNWITNESSED, max(0, size - (0 if note is None else _size_of(note))))

    def _newest(self, whose: str, holds: Callable[[bytes], bool]) -> bytes | None:
        earlier = self._witnessed.get(whose)
        newest = find_newest_checkpoint(self._store, holds, earlier)
        if newest is not None:
            self._witnessed[whose] = newest
        return newest


def find_newest_checkpoint(
    store: TreeReader, holds: Callable[[bytes], bool], earlier: bytes | None = None
) -> bytes | None:
    """Return the newest checkpoint that satisfies a predicate, or None.

    The search goes back in doubling steps, then bisects the last one: about forty lookups in the
    longest log. If the predicate holds for isolated checkpoints only, an older one may be returned,
    never a newer one. `earlier` is a checkpoint that satisfied it before.
    """
    newest = store.checkpoint()
    if newest is None or holds(newest):
        return newest
    above, below = _size_of(newest), 0 if earlier is None else _size_of(earlier)
    step = 1
    while above - step > below:
        note = store.checkpoint(above - step)
        if note is None or holds(note):
            earlier, below = note, above - step
            break
        above, step = _size_of(note), 2 * step
    return _search_between(store, holds, earlier, below, above=above)


def _search_between(
    store: TreeReader, holds: Callable[[bytes], bool], best: bytes | None, below: int, above: int
) -> bytes | None:
    """Return the newest checkpoint between two sizes that satisfies a predicate.

    `best` is the newest one up to the lower size; the checkpoint at the upper size does not
    satisfy the predicate.
    """
    while above - below > 1:
        middle = (above + below) // 2
        note = store.checkpoint(middle)
        if note is None or holds(note):
            best, below = note, middle
        else:
            above = _size_of(note)
    return best


def _size_of(note: bytes) -> int:
    return tlog.Checkpoint.parse(tlog.Note.parse(note).text).size


def _cosigned_time(note: bytes, key: tlog.VerifierKey) -> int:
    """Return when a witness cosigned a checkpoint, in seconds; 0 if it did not."""
    try:
        return max(
            (c.time for c in tlog.verify_cosignatures(tlog.Note.parse(note), [key])), default=0
        )
    except (Malformed, SignatureRejected):
        return 0


def _is_cosigned(note: bytes, key: tlog.VerifierKey) -> bool:
    return _cosigned_time(note, key) > 0


def _is_witnessed(note: bytes, policy: tlog.WitnessPolicy) -> bool:
    try:
        return tlog.is_witnessed(tlog.Note.parse(note), policy)
    except (Malformed, SignatureRejected):
        return False


def with_labels(samples: Iterable[Sample], **labels: str) -> list[Sample]:
    """Return samples with further labels before their own."""
    added = tuple(labels.items())
    return [Sample(sample.metric, sample.value, added + sample.labels) for sample in samples]
