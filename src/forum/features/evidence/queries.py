"""The queries of a report.  Each figure is one query over the entries of a period, as data.

A query says what is counted (`over`), which of it (`kinds`, `where`), how it becomes a number
(`measure`, `of`) and how the number is split (`by`).  To count a kind of entry that is new, add a
`Query` to `QUERIES`; a map refers to it by its id.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Over(StrEnum):
    """What a query counts."""

    ENTRIES = "entries"
    """Entries.  Members: the facts, and `kind`, `actor`, `day`, `opened_by`; of a redaction,
    `held`: whether a hold was in force for a run of its entries; of a stop, `cause`: its reason,
    or `overrun` if a call cost more than its bound."""
    RUNS = "runs"
    """Runs that were open in the period.  Members: `began`, `outcome`, `provenance`, `actor`,
    `day`."""
    GATES = "gates"
    """Gates that were open in the period.  Members: `answer`, `authority`, `actor`, `seconds`,
    `day`."""
    STEPS = "steps"
    """Calls of models and uses of tools, driven or reported.  Members: `op`, `name`, `agent`,
    `model`, `provider`, `outcome`, `usd`, `tokens`, `day`, `opened_by`."""
    KEYS = "keys"
    """API keys that were valid in the period.  Members: `name`, `scopes`, `state`, `actor`."""


MEMBERS = {
    Over.ENTRIES: frozenset({"kind", "actor", "day", "opened_by", "held", "cause"}),
    Over.RUNS: frozenset({"began", "outcome", "provenance", "actor", "day"}),
    Over.GATES: frozenset({"answer", "authority", "actor", "seconds", "day"}),
    Over.STEPS: frozenset(
        ("op", "name", "agent", "model", "provider", "outcome", "usd", "tokens", "day", "opened_by")
    ),
    Over.KEYS: frozenset({"name", "scopes", "state", "actor"}),
}
"""The members of what is counted; an entry has its facts as well."""


class Measure(StrEnum):
    """How items become a number."""

    COUNT = "count"
    SUM = "sum"
    """The sum of the member `of`; `default` where an item does not have it."""
    MEDIAN = "median"
    MAX = "max"


class Unit(StrEnum):
    """What a figure counts."""

    NUMBER = "number"
    NANO_USD = "nano-usd"
    SECONDS = "seconds"


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on a member of an item, whose value is one of these; an absent one is empty."""

    member: str
    values: tuple[str, ...]
    negated: bool = False


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one figure is computed."""

    id: str
    title: str
    section: str
    over: Over = Over.ENTRIES
    kinds: tuple[str, ...] = ()
    """The kinds of entries that are counted; none for all.  Only for `entries`."""
    where: tuple[Condition, ...] = ()
    measure: Measure = Measure.COUNT
    of: str = ""
    default: int = 0
    by: tuple[str, ...] = ()
    """The members by which the figure is split."""
    unit: Unit = Unit.NUMBER
    concern: str = ""
    """Why somebody should look at the runs that are counted; empty if there is no reason to."""


def count_terms(query: Query) -> int:
    """Return how many kinds, members and values are compared with each item."""
    where = sum(1 + len(condition.values) for condition in query.where)
    return len(query.kinds) + len(query.by) + where


IN_PERIOD, BEFORE = "in the period", "before it"
STILL_OPEN = "open"
UNDECIDED = "undecided"
NO_END = "no end recorded"

_OPEN = (STILL_OPEN,)
_ENDED = Condition("outcome", _OPEN, negated=True)
_TOOLS = Condition("op", ("tool",))
_CALLS = Condition("op", ("model",))
# The engine records the answer of an inner run as the reply to a call.  The inner run has its own
# calls, so that counting both would count their cost twice.
_PAID = Condition("op", ("run",), negated=True)
_DOUBT = Condition("outcome", ("indeterminate", NO_END))
_BY_BUDGET = Condition("reason", ("budget",))
_BY_SOMEBODY = Condition("authority", ("person", "key", "operator"))

RUNS, DECISIONS = "runs", "decisions"
EFFECTS, MODELS = "effects", "models"
MONEY = "money"
ACCESS, ERASURE = "access", "erasure"
REVIEW, RECORD = "review", "record"

SECTIONS = {
    RUNS: "What ran, and what failed",
    DECISIONS: "Who decided",
    EFFECTS: "Tools and effects",
    MODELS: "Models and configuration",
    MONEY: "Cost and caps",
    ACCESS: "Access and keys",
    ERASURE: "Erasure, retention and exports",
    REVIEW: "Reviews and incidents",
    RECORD: "The record itself",
}
"""The sections of a report, in their order, with their titles."""

QUERIES: tuple[Query, ...] = (
    Query("runs.all", "Runs that were open in the period", RUNS, Over.RUNS, by=("provenance",)),
    Query(
        "runs.opened",
        "Runs begun in the period",
        RUNS,
        Over.RUNS,
        where=(Condition("began", (IN_PERIOD,)),),
        by=("actor",),
    ),
    Query(
        "runs.carried",
        "Runs begun before the period, and still open when it began",
        RUNS,
        Over.RUNS,
        where=(Condition("began", (BEFORE,)),),
    ),
    Query("runs.ended", "Runs that ended", RUNS, Over.RUNS, where=(_ENDED,), by=("outcome",)),
    Query(
        "runs.not-ok",
        "Runs that ended, and not well",
        RUNS,
        Over.RUNS,
        where=(Condition("outcome", ("ok", STILL_OPEN), negated=True),),
        concern="did not end well",
    ),
    Query(
        "runs.open",
        "Runs that were open at the end of the period",
        RUNS,
        Over.RUNS,
        where=(Condition("outcome", _OPEN),),
    ),
    Query(
        "runs.daily",
        "Runs by the day on which they began, and their outcome",
        RUNS,
        Over.RUNS,
        where=(Condition("began", (IN_PERIOD,)),),
        by=("day", "outcome"),
    ),
    Query(
        "stops.all",
        "Stops of runs and tasks, by reason",
        RUNS,
        kinds=("stop/1",),
        by=("cause",),
        concern="was stopped",
    ),
    Query("stops.daily", "Stops by day", RUNS, kinds=("stop/1",), by=("day", "cause")),
    Query("runs.cancelled", "Requests to cancel a run", RUNS, kinds=("cancel/1",), by=("actor",)),
    Query("runs.interrupted", "Interruptions of runs", RUNS, kinds=("run.interrupted/1",)),
    Query("verdicts.all", "Verdicts on results", RUNS, kinds=("verdict/1",), by=("outcome",)),
    Query(
        "escalations.all",
        "Results escalated to another agent",
        RUNS,
        kinds=("verdict/1",),
        where=(Condition("next", ("escalate",)),),
    ),
    Query("checks.all", "Checks of answers", RUNS, kinds=("check/1",), by=("outcome",)),
    # A council that is split or blocked ends its run with the outcome ok, and decided nothing.
    Query(
        "councils.all",
        "Councils, by how far they agreed",
        RUNS,
        kinds=("council.close/1",),
        by=("accord",),
    ),
    Query(
        "councils.undecided",
        "Councils that decided nothing: split or blocked",
        RUNS,
        kinds=("council.close/1",),
        where=(Condition("accord", ("split", "blocked")),),
        by=("accord",),
    ),
    Query(
        "claims.unverified",
        "Actions that answers claim and no entry supports",
        RUNS,
        kinds=("answer/1",),
        measure=Measure.SUM,
        of="unverified",
    ),
    Query("gates.all", "Approvals asked for", DECISIONS, Over.GATES, by=("answer",)),
    Query(
        "gates.deciders",
        "Decisions, by who decided, by what authority, and how",
        DECISIONS,
        Over.GATES,
        where=(Condition("answer", (UNDECIDED,), negated=True),),
        by=("actor", "authority", "answer"),
    ),
    Query(
        "gates.unattended",
        "Decided without a person: by a deadline, or by the end of the run",
        DECISIONS,
        Over.GATES,
        where=(Condition("authority", ("deadline", "end")),),
        by=("authority", "answer"),
        concern="was decided without a person",
    ),
    Query(
        "gates.median",
        "Time to decide, median",
        DECISIONS,
        Over.GATES,
        where=(_BY_SOMEBODY,),
        measure=Measure.MEDIAN,
        of="seconds",
        unit=Unit.SECONDS,
    ),
    Query(
        "gates.longest",
        "Time to decide, longest",
        DECISIONS,
        Over.GATES,
        where=(_BY_SOMEBODY,),
        measure=Measure.MAX,
        of="seconds",
        unit=Unit.SECONDS,
    ),
    Query("gates.daily", "Approvals by day", DECISIONS, Over.GATES, by=("day", "answer")),
    Query(
        "gates.daily-median",
        "Time to decide by day, median",
        DECISIONS,
        Over.GATES,
        where=(_BY_SOMEBODY,),
        measure=Measure.MEDIAN,
        of="seconds",
        by=("day",),
        unit=Unit.SECONDS,
    ),
    Query("gates.edited", "Changes to what was to be approved", DECISIONS, kinds=("gate.edit/1",)),
    Query("tools.used", "Uses of tools", EFFECTS, Over.STEPS, where=(_TOOLS,), by=("name",)),
    Query(
        "tools.outcomes",
        "Uses of tools, by outcome",
        EFFECTS,
        Over.STEPS,
        where=(_TOOLS,),
        by=("outcome",),
    ),
    Query(
        "tools.doubt",
        "Effects in doubt: begun, and no certain outcome recorded",
        EFFECTS,
        Over.STEPS,
        where=(_TOOLS, _DOUBT),
        by=("name",),
        concern="has an effect in doubt",
    ),
    Query(
        "models.calls",
        "Calls of models",
        MODELS,
        Over.STEPS,
        where=(_CALLS,),
        by=("model", "provider"),
    ),
    Query(
        "models.failed",
        "Calls of models that did not end well",
        MODELS,
        Over.STEPS,
        where=(_CALLS, Condition("outcome", ("ok",), negated=True)),
        by=("outcome",),
    ),
    Query(
        "routes.rosters", "Rosters in use, by digest", MODELS, kinds=("route/1",), by=("roster",)
    ),
    Query(
        "config.seen", "Configurations recorded", MODELS, kinds=("config.seen/1", "config.seen/2")
    ),
    Query(
        "cost.total",
        "Cost of calls and steps, by who began the run",
        MONEY,
        Over.STEPS,
        where=(_PAID,),
        measure=Measure.SUM,
        of="usd",
        by=("opened_by",),
        unit=Unit.NANO_USD,
    ),
    Query(
        "cost.models",
        "Cost by model",
        MONEY,
        Over.STEPS,
        where=(_CALLS,),
        measure=Measure.SUM,
        of="usd",
        by=("model",),
        unit=Unit.NANO_USD,
    ),
    Query(
        "cost.daily",
        "Cost by day",
        MONEY,
        Over.STEPS,
        where=(_PAID,),
        measure=Measure.SUM,
        of="usd",
        by=("day",),
        unit=Unit.NANO_USD,
    ),
    Query(
        "tokens.total",
        "Tokens",
        MONEY,
        Over.STEPS,
        where=(_PAID,),
        measure=Measure.SUM,
        of="tokens",
    ),
    Query(
        "caps.reached",
        "Stops because a budget was used up",
        MONEY,
        kinds=("stop/1",),
        # Only the engine stops a run at its budget.  A gateway and a recorder refuse calls, and
        # stop a run only if a provider billed more than it was bound to.
        where=(_BY_BUDGET, Condition("actor", ("engine",))),
        by=("limit",),
    ),
    Query(
        "caps.refused",
        "Calls that a cap refused, by who began the run",
        MONEY,
        kinds=("report.step/1",),
        where=(
            Condition("outcome", ("denied",)),
            Condition("code", ("budget", "stopped", "unpriced")),
        ),
        by=("opened_by",),
    ),
    Query(
        "caps.overrun",
        "Calls that a provider billed above their bound, by model",
        MONEY,
        kinds=("report.step/1",),
        where=(Condition("code", ("overrun",)),),
        by=("model",),
    ),
    Query(
        "access.keys",
        "API keys that were valid in the period",
        ACCESS,
        Over.KEYS,
        by=("name", "scopes", "state"),
    ),
    Query(
        "access.granted",
        "API keys granted",
        ACCESS,
        kinds=("access.grant/1", "access.grant/2"),
        by=("name",),
    ),
    Query("access.revoked", "API keys revoked", ACCESS, kinds=("access.revoke/1",), by=("actor",)),
    Query(
        "access.denied",
        "Requests denied, by who asked, and why",
        ACCESS,
        kinds=("access.deny/1",),
        measure=Measure.SUM,
        of="times",
        default=1,
        by=("who", "why"),
    ),
    Query(
        "access.denied-doors",
        "Requests denied, by operation",
        ACCESS,
        kinds=("access.deny/1",),
        measure=Measure.SUM,
        of="times",
        default=1,
        by=("door",),
    ),
    Query(
        "keys.changes",
        "Keys published or replaced",
        ACCESS,
        kinds=("key.add/1", "key.add/2", "key.rotate/1", "key.rotate/2"),
        by=("kind",),
    ),
    Query(
        "redactions.all",
        "Entries that order the erasure of bodies, by reason",
        ERASURE,
        kinds=("redact/1", "redact/2", "redact/3"),
        by=("reason",),
    ),
    Query(
        "redactions.by",
        "Erasures, by who ordered them",
        ERASURE,
        kinds=("redact/1", "redact/2", "redact/3"),
        by=("actor",),
    ),
    Query(
        "redactions.held",
        "Erasures ordered while a hold was in force for the run",
        ERASURE,
        kinds=("redact/1", "redact/2", "redact/3"),
        where=(Condition("held", ("yes",)),),
        by=("actor",),
    ),
    Query(
        "retention.set",
        "Periods of retention set",
        ERASURE,
        kinds=("retention/1",),
        by=("subject",),
    ),
    Query("holds.all", "Holds placed or released", ERASURE, kinds=("hold/1",), by=("act", "hold")),
    Query(
        "archives.all",
        "Copies of runs put into an archive",
        ERASURE,
        kinds=("archive/1",),
        by=("place",),
    ),
    Query("exports.all", "Exports of runs", ERASURE, kinds=("export/1",), by=("actor",)),
    Query("reviews.done", "Reviews recorded", REVIEW, kinds=("review.done/1",), by=("actor",)),
    Query(
        "incidents.opened",
        "Incidents opened",
        REVIEW,
        kinds=("incident.open/1",),
        by=("severity",),
    ),
    Query("incidents.closed", "Incidents closed", REVIEW, kinds=("incident.close/1",)),
    Query("notices.sent", "Messages to webhooks", REVIEW, kinds=("notice/1",), by=("outcome",)),
    Query("scores.given", "Scores of runs and answers", REVIEW, kinds=("score/1",), by=("by",)),
    Query(
        "gaps.steps",
        "Steps known to be missing from the record",
        RECORD,
        kinds=("report.gap/1",),
        measure=Measure.SUM,
        of="steps",
        by=("why",),
        concern="has a gap in its record",
    ),
    Query("gaps.all", "Gaps recorded", RECORD, kinds=("report.gap/1",), by=("why",)),
    Query(
        "quarantine.all",
        "Forged rows set aside and deleted",
        RECORD,
        kinds=("quarantine.discard/1",),
        measure=Measure.SUM,
        of="rows",
    ),
    Query(
        "log.epochs",
        "Times that the log was continued under a new name",
        RECORD,
        kinds=("log.epoch/1",),
    ),
    Query("entries.all", "Entries", RECORD, by=("kind",)),
)
"""All figures of a report, in their order."""

_SINCE_SECOND = frozenset({"caps.refused", "caps.overrun"})
_SINCE_THIRD = frozenset({"councils.all", "councils.undecided"})
_FIRST_FORMS = {
    "keys.changes": Query(
        "keys.changes",
        "Keys published or replaced",
        ACCESS,
        kinds=("key.add/1", "key.rotate/1"),
        by=("kind",),
    ),
    "caps.reached": Query(
        "caps.reached",
        "Stops because a budget was used up",
        MONEY,
        kinds=("stop/1",),
        where=(_BY_BUDGET,),
        by=("limit",),
    ),
    "stops.all": Query(
        "stops.all",
        "Stops of runs and tasks, by reason",
        RUNS,
        kinds=("stop/1",),
        by=("reason",),
        concern="was stopped",
    ),
    "stops.daily": Query(
        "stops.daily", "Stops by day", RUNS, kinds=("stop/1",), by=("day", "reason")
    ),
} | {
    query.id: msgspec.structs.replace(query, kinds=("redact/1", "redact/2"))
    for query in QUERIES
    if query.id.startswith("redactions.")
}
_FIRST_FORMS["config.seen"] = msgspec.structs.replace(
    next(query for query in QUERIES if query.id == "config.seen"), kinds=("config.seen/1",)
)

QUERY_SETS: tuple[tuple[Query, ...], ...] = (
    QUERIES,
    tuple(q for q in QUERIES if q.id not in _SINCE_THIRD),
    tuple(_FIRST_FORMS.get(q.id, q) for q in QUERIES if q.id not in _SINCE_SECOND | _SINCE_THIRD),
)
"""The queries of this release and of earlier ones, the newest first: packs of all are checked.

The second set counts no councils. The third one is that of release 0.2, which counted overruns as
caps that were reached.
"""


def find_query_set(ids: Sequence[str]) -> tuple[Query, ...]:
    """Return the queries by which figures with these ids were computed, or those of today."""
    for queries in QUERY_SETS:
        own = [query.id for query in queries]
        if list(ids[: len(own)]) == own:
            return queries
    return QUERIES


CONCERNS = (
    "tools.doubt",
    "gates.unattended",
    "gaps.steps",
    "stops.all",
    "runs.not-ok",
)
"""The queries whose runs are named, the most important first."""
