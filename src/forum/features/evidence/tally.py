"""Counting a period: from entries to runs, gates and steps, and from those to figures.

Entries are counted by the time that witnesses leave them (`counted_times`).  Entries before the
period open runs, gates and steps that go on in it; entries after it are not read, so that a run
which ended later was open.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from forum.features.evidence import queries
from forum.features.evidence.events import (
    EVENT_FORMS,
    LASTING,
    MAX_EVENTS,
    LogEvent,
    describe_changes,
    describe_event,
)
from forum.features.evidence.figures import CountedItem, Figure, FigureTally, Unknown
from forum.features.evidence.log_part import PartEntry
from forum.features.evidence.queries import Over, Query
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.entry import LOG_RUN
from forum.runs.kinds import is_inner_run
from forum.runs.report_drafts import OVERRUN
from forum.runs.report_kinds import counts_elsewhere
from forum.runs.run_words import OVERRUN_ACTORS
from forum.units import format_day

MAX_TIMELINE = 400
"""How many entries of the run of an incident are listed."""

MAX_OUTSIDE_RUNS = 50
"""How many runs with entries that are dated outside the period are listed."""

MAX_DECISIONS = 50
"""How many decisions at gates are listed."""

WHOLE_STRANDS = (ACCESS_STRAND, "config", "incidents", "retention")
"""The strands of the log's own run of which a log part holds every entry."""

_RELATED_FACTS = {
    "accepted/1": ("parent_run", "fork_run"),
    "report.source/1": ("continues",),
    "delegate/1": ("run",),
}
"""The facts that name another run, by kind."""
_NO_OUTCOME = {"outcome": queries.NO_END}


class ReportPeriod(msgspec.Struct, frozen=True):
    """The times between which entries are counted, in microseconds since 1970."""

    since: int
    until: int

    def includes(self, time: int) -> bool:
        """Return whether a time is in the period."""
        return self.since <= time < self.until


class OutsideEntries(msgspec.Struct, frozen=True):
    """Entries that are counted in the period, and that their writers date outside of it."""

    entries: int
    runs: tuple[str, ...]
    """The first of their runs, in the order of the log."""
    indexes: tuple[int, ...]
    """The first such entry of each."""
    runs_of: int
    """How many runs there are."""


class TimelineEntry(msgspec.Struct, frozen=True):
    """One entry of the run of an incident."""

    index: int
    ts: int
    strand: str
    kind: str
    actor: str
    outcome: str


class GateAnswer(msgspec.Struct, frozen=True):
    """One decision at a gate."""

    index: int
    ts: int
    run: str
    subject: str
    answer: str
    actor: str
    authority: str
    seconds: int
    """The time from the opening of the gate to the decision."""
    digest: str
    """SHA-256 of what was shown; the bundle of the run holds its text."""


class _RunState:
    """What is known of one run."""

    def __init__(self, index: int, entry: PartEntry) -> None:
        self.index, self.opened = index, entry.ts
        self.actor = entry.actor
        self.provenance, self.outcome = "other", queries.STILL_OPEN
        self.closed = 0
        self.is_opened = False
        self.is_counted_elsewhere = False


class _OpenItem(msgspec.Struct, frozen=True):
    """A gate, a step or a key whose end was not read yet."""

    index: int
    ts: int
    members: dict[str, Any]


class PeriodTally:
    """Counts the entries of a log part, in the order of the log."""

    def __init__(
        self,
        period: ReportPeriod,
        asked: Iterable[Query] = queries.QUERIES,
        incident: str = "",
        *,
        is_old: bool = False,
    ) -> None:
        self._period, self._incident = period, incident
        self._is_old = is_old
        self._outside: dict[str, int] = {}
        self._outside_entries = 0
        self._tallies = [FigureTally(query) for query in asked]
        self._by_over = {over: [t for t in self._tallies if t.query.over is over] for over in Over}
        self._by_kind: dict[str, list[FigureTally]] = {}
        self._runs: dict[str, _RunState] = {}
        self._gates: dict[tuple[str, str], _OpenItem] = {}
        self._steps: dict[tuple[str, str], _OpenItem] = {}
        self._grants: dict[str, _OpenItem] = {}
        self._lengths = dict.fromkeys(WHOLE_STRANDS, 0)
        self._configuration: dict[str, Any] | None = None
        self._run_of: dict[str, str] = {}
        """The run of each entry, by the id of the entry."""
        self._holds: dict[str, tuple[str, ...]] = {}
        """The runs of each hold in force; none for all."""
        self._events: dict[str, list[LogEvent]] = {}
        self._related: set[str] = set()
        self.timeline: list[TimelineEntry] = []
        """The first entries of the run of the incident."""
        self.timeline_length = 0
        self.decisions: list[GateAnswer] = []
        """The first decisions at gates in the period."""
        self.broken_strand = ""
        """A strand of `WHOLE_STRANDS` of which an entry was not read."""
        self.counted = 0
        """How many entries are in the period."""
        self.active: set[str] = set()
        """The runs with an entry in the period."""

    @property
    def unopened(self) -> list[str]:
        """The runs with entries, of which the first entry was not read."""
        return sorted(run for run, state in self._runs.items() if not state.is_opened)

    @property
    def related(self) -> tuple[str, ...]:
        """The runs that entries of the run of the incident name."""
        return tuple(sorted(self._related - {self._incident, ""}))

    @property
    def events(self) -> tuple[LogEvent, ...]:
        """The first events of the log's own life of each section, in the order of the log."""
        listed = (event for events in self._events.values() for event in events)
        return tuple(sorted(listed, key=lambda event: event.index))

    def add(
        self, index: int, entry: PartEntry, entry_id: str = "", *, at: int | None = None
    ) -> None:
        """Count one entry, by another time than its own if `at` says so."""
        self._run_of[entry_id] = entry.run
        if at is not None and at != entry.ts:
            if self._period.includes(at) and not self._period.includes(entry.ts):
                self._outside_entries += 1
                self._outside.setdefault(entry.run, index)
            entry = msgspec.structs.replace(entry, ts=at)
        if entry.ts >= self._period.until:
            return
        if entry.run == LOG_RUN:
            self._add_to_log_run(index, entry)
        else:
            self._add_to_run(index, entry)
        if entry.ts >= self._period.since:
            self.counted += 1
            self._count_entry(index, entry)
        if entry.kind.startswith("gate."):
            self._add_to_gate(index, entry)
        else:
            self._add_to_step(index, entry)
        if entry.run == self._incident:
            self._add_to_timeline(index, entry)

    @property
    def outside(self) -> OutsideEntries:
        """The entries that are counted in the period, and are dated outside of it."""
        listed = list(self._outside.items())[:MAX_OUTSIDE_RUNS]
        return OutsideEntries(
            entries=self._outside_entries,
            runs=tuple(run for run, _ in listed),
            indexes=tuple(at for _, at in listed),
            runs_of=len(self._outside),
        )

    def finish(self) -> tuple[Figure, ...]:
        """Count what is open at the end, and return the figures."""
        for begun in self._steps.values():
            if begun.ts >= self._period.since:
                self._emit(Over.STEPS, begun.index, begun.members | _NO_OUTCOME)
        for begun in self._gates.values():
            self._emit(Over.GATES, begun.index, begun.members | {"answer": queries.UNDECIDED})
        for begun in self._grants.values():
            self._count_key(begun)
        for run, state in self._runs.items():
            if not state.closed or state.closed >= self._period.since:
                self._emit(Over.RUNS, state.index, self._describe_run(run, state))
        return tuple(tally.result() for tally in self._tallies)

    def concerns(self) -> dict[str, dict[str, int]]:
        """Return, for each run that somebody should look at, the reasons with an entry each."""
        named: dict[str, dict[str, int]] = {}
        by_id = {tally.query.id: tally for tally in self._tallies}
        for query_id in queries.CONCERNS:
            tally = by_id[query_id]
            for run, index in sorted(tally.runs.items(), key=lambda place: place[1]):
                if run != LOG_RUN:
                    named.setdefault(run, {})[tally.query.concern] = index
        return named

    def _describe_run(self, run: str, state: _RunState) -> dict[str, Any]:
        is_new = state.opened >= self._period.since
        return {
            "run": run,
            "began": queries.IN_PERIOD if is_new else queries.BEFORE,
            "outcome": state.outcome,
            "provenance": state.provenance,
            "actor": state.actor,
            "day": format_day(state.opened),
        }

    def _emit(self, over: Over, index: int, members: Mapping[str, Any]) -> None:
        item = CountedItem(index, members["run"], members)
        for tally in self._by_over[over]:
            tally.add(item)

    def _count_entry(self, index: int, entry: PartEntry) -> None:
        wanted = self._by_kind.get(entry.kind)
        if wanted is None:
            wanted = self._by_kind[entry.kind] = [
                tally
                for tally in self._by_over[Over.ENTRIES]
                if not tally.query.kinds or entry.kind in tally.query.kinds
            ]
        members = entry.facts | self._common_members(entry)
        members |= {"kind": entry.kind, "actor": entry.actor}
        if entry.kind.startswith("redact/"):
            members["held"] = self._judge_hold(entry)
        if entry.kind == "stop/1":
            is_overrun = members.get("reason") == "budget" and entry.actor in OVERRUN_ACTORS
            members["cause"] = OVERRUN if is_overrun else members.get("reason", "")
        item = CountedItem(index, entry.run, members)
        for tally in wanted:
            tally.add(item)

    def _common_members(self, entry: PartEntry) -> dict[str, Any]:
        state = self._runs.get(entry.run)
        return {
            "run": entry.run,
            "day": format_day(entry.ts),
            "opened_by": state.actor if state else entry.actor,
        }

    def _add_to_run(self, index: int, entry: PartEntry) -> None:
        state = self._runs.get(entry.run)
        if state is None:
            state = self._runs[entry.run] = _RunState(index, entry)
        if entry.ts >= self._period.since:
            self.active.add(entry.run)
        match entry.kind:
            case "run.open/1":
                state.is_opened = True
            case "accepted/1":
                state.provenance = "driven"
            case "report.source/1":
                state.provenance = str(entry.facts.get("told", ""))
                state.is_counted_elsewhere = not self._is_old and _is_counted_elsewhere(entry.facts)
            case "run.close/1":
                state.outcome, state.closed = str(entry.facts.get("outcome", "")), entry.ts
            case _:
                pass

    def _add_to_log_run(self, index: int, entry: PartEntry) -> None:
        if entry.strand in self._lengths:
            # The positions of a strand have no gap, so that an entry which is left out is noticed.
            if entry.n != self._lengths[entry.strand]:
                self.broken_strand = self.broken_strand or entry.strand
            self._lengths[entry.strand] = entry.n + 1
        if entry.strand == ACCESS_STRAND:
            self._add_to_access(index, entry)
        if entry.kind == "hold/1":
            self._add_hold(entry)
        if entry.kind in EVENT_FORMS:
            self._add_event(index, entry)

    def _add_hold(self, entry: PartEntry) -> None:
        name = str(entry.facts.get("hold", ""))
        if entry.facts.get("act") == "place":
            self._holds[name] = tuple(entry.facts.get("runs", ()))
        else:
            self._holds.pop(name, None)

    def _judge_hold(self, entry: PartEntry) -> str:
        """Return whether a redaction names an entry of a run that a hold keeps."""
        if entry.kind == "redact/1":
            targets = [str(entry.facts.get("entry", ""))]
        else:
            places = {str(body).partition("/")[0] for body in entry.facts.get("bodies", ())}
            targets = [p for number, p in enumerate(entry.parents) if str(number) in places]
        runs = {self._run_of[target] for target in targets if target in self._run_of}
        runs.update(map(str, entry.facts.get("runs", ())))
        if any(not held or runs.intersection(held) for held in self._holds.values()):
            return "yes"
        is_known = not self._holds or all(target in self._run_of for target in targets)
        # Release 0.2 called a target that it did not have one of no run.
        return "no" if is_known or self._is_old else Unknown.UNKNOWN

    def _add_event(self, index: int, entry: PartEntry) -> None:
        """List an event of the period, or one before it that still has an effect."""
        facts = entry.facts
        if entry.kind == "config.seen/1":
            facts = facts | {"changed": describe_changes(facts, self._configuration)}
            self._configuration = entry.facts
        section = EVENT_FORMS[entry.kind][0]
        events = self._events.setdefault(section, [])
        is_listed = entry.ts >= self._period.since or entry.kind in LASTING
        if is_listed and len(events) < MAX_EVENTS:
            words = describe_event(entry.kind, facts)
            events.append(
                LogEvent(index, entry.ts, section, entry.kind, actor=entry.actor, words=words)
            )

    def _add_to_access(self, index: int, entry: PartEntry) -> None:
        facts, key = entry.facts, str(entry.facts.get("key", ""))
        if entry.kind.startswith("access.grant/"):
            members = {"run": LOG_RUN, "actor": entry.actor, "revoked": 0} | _pick(facts, "name")
            members |= {"scopes": facts.get("scopes", []), "expires": facts.get("expires", 0)}
            self._grants[key] = _OpenItem(index, entry.ts, members)
        elif key in self._grants:
            self._grants[key].members["revoked"] = entry.ts

    def _count_key(self, begun: _OpenItem) -> None:
        """Count an API key, if it was valid in the period."""
        ends = {
            "revoked": begun.members["revoked"],
            "expired": begun.members["expires"],
        }
        if any(0 < end <= self._period.since for end in ends.values()):
            return
        state = next((word for word, end in ends.items() if 0 < end < self._period.until), "valid")
        self._emit(Over.KEYS, begun.index, begun.members | {"state": state})

    def _add_to_gate(self, index: int, entry: PartEntry) -> None:
        place = (entry.run, entry.strand)
        if entry.kind == "gate.open/1":
            members = self._common_members(entry) | _pick(entry.facts, "subject")
            self._gates[place] = _OpenItem(index, entry.ts, members)
            return
        if not entry.kind.startswith("gate.decision/"):
            return
        begun = self._gates.pop(place, None)
        if begun is None or entry.ts < self._period.since:
            return
        decision = {
            "answer": entry.facts.get("answer"),
            "authority": entry.facts.get("by"),
            "actor": entry.actor,
            "seconds": max(0, entry.ts - begun.ts) // 1_000_000,
        }
        self._emit(Over.GATES, index, begun.members | decision)
        if len(self.decisions) < MAX_DECISIONS:
            texts = {name: str(value or "") for name, value in decision.items()}
            self.decisions.append(
                GateAnswer(
                    index=index,
                    ts=entry.ts,
                    run=entry.run,
                    subject=str(begun.members["subject"]),
                    answer=texts["answer"],
                    actor=entry.actor,
                    authority=texts["authority"],
                    seconds=max(0, entry.ts - begun.ts) // 1_000_000,
                    digest=str(entry.facts.get("digest", "")),
                )
            )

    def _add_to_step(self, index: int, entry: PartEntry) -> None:
        place = (entry.run, entry.strand)
        if entry.kind in ("call/1", "intent/1", "report.begin/1"):
            self._give_up_step(place)  # no end of the step before will come any more
            members = self._common_members(entry) | _describe_begin(entry)
            members = self._count_once(entry, members)
            self._steps[place] = _OpenItem(index, entry.ts, members)
        elif entry.kind in ("reply/1", "outcome/1"):
            begun = self._steps.pop(place, None)
            if begun is not None and entry.ts >= self._period.since:
                day = {"day": format_day(entry.ts)}
                members = begun.members | day | _describe_end(entry, begun.members)
                self._emit(Over.STEPS, index, members)
        elif entry.kind == "report.step/1":
            self._steps.pop(place, None)
            if entry.ts >= self._period.since:
                members = self._common_members(entry) | _describe_span(entry)
                self._emit(Over.STEPS, index, self._count_once(entry, members))

    def _count_once(self, entry: PartEntry, members: dict[str, Any]) -> dict[str, Any]:
        """Return the members of a step, without a cost if a gateway records it as well.

        A call of a model is then none of a model: another run is counted for it.
        """
        state = self._runs.get(entry.run)
        if state is None or not state.is_counted_elsewhere:
            return members
        op = "run" if members["op"] == "model" else members["op"]
        return members | {"op": op, "usd": 0, "tokens": 0}

    def _give_up_step(self, place: tuple[str, str]) -> None:
        begun = self._steps.pop(place, None)
        if begun is not None and begun.ts >= self._period.since:
            self._emit(Over.STEPS, begun.index, begun.members | _NO_OUTCOME)

    def _add_to_timeline(self, index: int, entry: PartEntry) -> None:
        names = _RELATED_FACTS.get(entry.kind, ())
        self._related.update(str(entry.facts.get(name, "")) for name in names)
        self.timeline_length += 1
        if len(self.timeline) < MAX_TIMELINE:
            facts = entry.facts
            outcome = next((facts[n] for n in ("outcome", "answer", "reason") if n in facts), "")
            place = (index, entry.ts, entry.strand)
            self.timeline.append(TimelineEntry(*place, entry.kind, entry.actor, str(outcome)))


def _is_counted_elsewhere(facts: Mapping[str, Any]) -> bool:
    """Return whether a program under `forum run` reports, so that a gateway records its calls."""
    provenance, by, trace = (str(facts.get(name, "")) for name in ("told", "by", "trace"))
    return counts_elsewhere(provenance, by, trace)


def _describe_begin(entry: PartEntry) -> dict[str, Any]:
    facts = entry.facts
    if entry.kind == "intent/1":
        return {"op": "tool", "name": facts.get("tool"), "usd": 0, "tokens": 0}
    members = _pick(facts, "agent", "model", "provider")
    # A call without an end counts with what was reserved for it, as in the costs of runs.
    members |= {"usd": facts.get("usd", 0), "tokens": facts.get("tokens", 0)}
    if entry.kind == "report.begin/1":
        return members | _pick(facts, "op", "name")
    is_inner = is_inner_run(facts.get("agent", ""), facts.get("model", ""))
    return members | {"op": "run" if is_inner else "model", "name": facts.get("agent")}


def _describe_end(entry: PartEntry, begun: Mapping[str, Any]) -> dict[str, Any]:
    facts = entry.facts
    members = {"outcome": facts.get("outcome")}
    if entry.kind == "reply/1":
        members |= {"usd": facts.get("usd", 0), "tokens": facts.get("tokens", 0)}
        members["model"] = facts.get("model") or begun.get("model")
    return members


def _describe_span(entry: PartEntry) -> dict[str, Any]:
    facts = entry.facts
    tokens = facts.get("input_tokens", 0) + facts.get("output_tokens", 0)
    members = _pick(facts, "op", "name", "agent", "model", "provider", "outcome")
    return members | {"usd": facts.get("usd", 0), "tokens": tokens}


def _pick(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: facts.get(name, "") for name in names}
