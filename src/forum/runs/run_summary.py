"""Summaries of runs: what a list of runs says of each, and what each has cost.

A summary follows from the entries of a run alone, and holds no content of a body: a body can be
erased.  The tally is the one definition of it: a list counts the entries of a closed run with it
once, and the verifier counts them again.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from forum.ledger.entry import MAIN_STRAND, Commitment, Entry
from forum.ledger.kinds import NoteFacts, Outcome, RunCloseFacts, RunOpenFacts
from forum.ledger.ports import NO_LIMIT, Amount, RunSummaryRow
from forum.runs import kinds
from forum.runs.council_end import Accord, CouncilCloseFacts, as_undecided
from forum.runs.report_drafts import OVERRUN
from forum.runs.report_fold import span_of_strand
from forum.runs.report_kinds import (
    Operation,
    Provenance,
    ReportBeginFacts,
    ReportGapFacts,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.run_fold import RunState, vetoed_accord
from forum.runs.run_words import choose_run_word, is_cap_refusal
from forum.runs.spending import CallCost, fold_cost

SUMMARY_VERSION = 4
"""The version of the rules in this module; another summary of the same entries needs another.

Version 1 lacks the references of the title, and the calls that a cap refused; version 2 lacks the
accord of a council; version 3 counts what programs under `forum run` report beside the gateway.
"""

DAY_US = 86_400 * 1_000_000
MAX_COSTS = 100
"""The maximum number of costs in a summary; the smallest ones are added up in the last."""
OTHER_AGENTS = "(others)"
"""The name of the agent under which the smallest costs of a run are added up."""


SUMMARY_FACTS = (
    *(NoteFacts, RunOpenFacts, RunCloseFacts),
    *(kinds.AcceptedFacts, kinds.RouteFacts, kinds.PlanFacts, kinds.EvalOpenFacts),
    *(kinds.CallFacts, kinds.ReplyFacts),
    *(kinds.VerdictFacts, kinds.SkipFacts, kinds.StopFacts, kinds.CheckFacts, CouncilCloseFacts),
    *(ReportSourceFacts, ReportGapFacts, ReportBeginFacts, ReportStepFacts),
)
"""The facts that a summary follows from; all other entries leave it unchanged."""


class BodyReference(msgspec.Struct, frozen=True, array_like=True):
    """A body of the strand main: the position of its entry, and the commitment to it."""

    n: int
    h: str
    size: int
    type: str

    @property
    def commitment(self) -> Commitment:
        """The commitment of the entry to the body."""
        return Commitment(self.h, self.size, self.type)


class SpanBodyReference(msgspec.Struct, frozen=True, array_like=True):
    """The body `input` of a span: the position of its entry, and the commitment to it."""

    strand: str
    n: int
    h: str
    size: int
    type: str

    @property
    def commitment(self) -> Commitment:
        """The commitment of the entry to the body."""
        return Commitment(self.h, self.size, self.type)


class RunCost(msgspec.Struct, frozen=True, array_like=True):
    """What the calls of one agent to one model have cost in a run on one day."""

    day: int
    """The number of days since 1970 (UTC), by the clock of the writer."""
    agent: str
    model: str
    usd: int
    tokens: int
    calls: int
    unpriced: int
    """The number of calls whose price is not known, and which count as free of charge."""

    @property
    def amount(self) -> Amount:
        """The cost as an amount."""
        return Amount(self.usd, self.tokens, self.calls)

    @property
    def is_inner_run(self) -> bool:
        """Whether the engine had another run answer these calls; for a reporter, just names."""
        return kinds.is_inner_run(self.agent, self.model)

    def plus(self, other: "RunCost") -> "RunCost":
        """Return the sum, under the names of this one."""
        usd, tokens, calls = self.amount.plus(other.amount)
        return RunCost(
            day=self.day,
            agent=self.agent,
            model=self.model,
            usd=usd,
            tokens=tokens,
            calls=calls,
            unpriced=self.unpriced + other.unpriced,
        )


class RunSummary(msgspec.Struct, frozen=True, array_like=True):
    """What a list says of a run, apart from its state while it goes on."""

    begun: int
    provenance: Provenance
    outcome: Outcome | None
    stopped: kinds.StopReason | None
    is_listed: bool
    """Whether this is a run, and not the log's own or an evaluation."""
    parent_run: str
    """The run that has this one done; empty for a run that somebody asked for."""
    label: str
    """The label of a run that Forum does not drive."""
    lane: str
    """The lane of its route."""
    passed: int
    tasks: int
    spans: int
    gaps: int
    notes: int
    costs: tuple[RunCost, ...]
    """The costs that are not zero, sorted."""
    request: BodyReference | None
    plan: BodyReference | None
    names: BodyReference | None
    """The body with the name of a run that Forum does not drive."""
    command: SpanBodyReference | None = None
    """The body with the command line of a program that was started for the run."""
    prompt: SpanBodyReference | None = None
    """The body with the first request to a model, or the first words of a user."""
    refused: int = 0
    """The number of calls that a cap refused, as far as they are recorded."""
    overruns: int = 0
    """The number of calls that were billed above their bound."""
    accord: Accord | None = None
    """The accord of the council that left the run undecided: split or blocked."""
    is_counted_elsewhere: bool = False
    """Whether a gateway records what the calls of the program cost: then no cost here counts."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that were called, the one with the highest cost first."""
        spent: dict[str, tuple[int, int]] = {}
        for cost in self.costs if self.is_counted_elsewhere else self.own_costs:
            usd, tokens = spent.get(cost.model, (0, 0))
            spent[cost.model] = (usd + cost.usd, tokens + cost.tokens)
        return tuple(
            sorted(filter(None, spent), key=lambda name: (spent[name], name), reverse=True)
        )

    @property
    def spent(self) -> Amount:
        """The cost of all calls; a call without a reply counts with its reservation."""
        total = Amount()
        for cost in () if self.is_counted_elsewhere else self.costs:
            total = total.plus(cost.amount)
        return total

    @property
    def own_costs(self) -> tuple[RunCost, ...]:
        """The costs without those that the summary of another run has as well."""
        if self.is_counted_elsewhere:
            return ()
        # Only the engine has runs within runs; a reporter names agents and models as it likes.
        if self.provenance is not Provenance.DRIVEN:
            return self.costs
        return tuple(cost for cost in self.costs if not cost.is_inner_run)

    @property
    def unpriced(self) -> int:
        """The number of calls whose price is not known."""
        return sum(cost.unpriced for cost in self.own_costs)

    def choose_word(self, state: RunState, *, waits: bool = False) -> str:
        """Return the one word for the run in this state."""
        return choose_run_word(
            state,
            self.outcome,
            self.stopped,
            waits=waits,
            has_overrun=self.overruns > 0,
            accord=self.accord,
        )


class SummaryTally(msgspec.Struct):
    """The summary of a run, counted from some of its entries."""

    opened: bool = False
    """Whether the opening of the run is among the entries."""
    begun: int = 0
    ended: int = 0
    told: str = ""
    is_counted_elsewhere: bool = False
    outcome: Outcome | None = None
    stopped: kinds.StopReason | None = None
    accepted: bool = False
    evaluates: bool = False
    parent_run: str = ""
    label: str = ""
    lane: str = ""
    planned: int = 0
    spans: int = 0
    gaps: int = 0
    notes: int = 0
    refused: int = 0
    overruns: int = 0
    accord: Accord | None = None
    """How far the council agreed that deliberated on the request."""
    vetoes: dict[str, Accord] = {}
    """The strands of tasks that failed because a panel is split or blocked, and `_LAST_VETO`."""
    request: BodyReference | None = None
    plan: BodyReference | None = None
    names: BodyReference | None = None
    command: tuple[int, SpanBodyReference] | None = None
    """The first step that was announced and is part of no other, with its time."""
    prompt: tuple[int, int, SpanBodyReference] | None = None
    """The first request to a model, with its rank and time."""
    passed: dict[str, bool | None] = {}
    """For each strand of a task or turn, whether it has passed; None if no entry here says so."""
    costs: dict[str, RunCost] = {}
    open_calls: dict[str, CallCost] = {}
    """The last call of each strand, or the span, if no end of it is recorded."""

    def add_entry(self, entry: Entry[Any]) -> None:
        """Count an entry of the run; the entries of one strand come in their order."""
        if not isinstance(entry.facts, SUMMARY_FACTS):
            return
        if isinstance(entry.facts, NoteFacts):
            self.notes += 1
        elif entry.strand == MAIN_STRAND:
            self._add_main_entry(entry)
        elif span_of_strand(entry.strand) is not None:
            self._add_span_entry(entry)
        elif (task := kinds.task_of_strand(entry.strand)) is not None:
            if not task.startswith(kinds.ROLE_PREFIX):
                self._add_progress(entry)
            self._add_call_entry(entry)

    def _add_main_entry(self, entry: Entry[Any]) -> None:
        match entry.facts:
            case RunOpenFacts():
                self.opened, self.begun = True, entry.ts
                self.label = entry.actor
            case kinds.AcceptedFacts() as facts:
                self.accepted, self.begun = True, entry.ts
                self.parent_run, self.request = facts.parent_run, _refer(entry, "request")
            case kinds.RouteFacts() as facts:
                self.lane = facts.lane
            case kinds.PlanFacts() as facts:
                self.planned, self.plan = facts.tasks, _refer(entry, "plan")
            case kinds.StopFacts() as facts:
                self.stopped = facts.reason
            case RunCloseFacts() as facts:
                self.outcome, self.ended = facts.outcome, entry.ts
            case _:
                self._add_reported(entry)

    def _add_reported(self, entry: Entry[Any]) -> None:
        """Count an entry of the strand main that few runs have."""
        match entry.facts:
            # Behind the opening only: a later one must not take a run out of the lists.
            case kinds.EvalOpenFacts() if entry.n == 1:
                self.evaluates = True
            case CouncilCloseFacts() as facts:
                self.accord = facts.accord
            case kinds.CheckFacts() as facts:
                if (accord := vetoed_accord(facts)) is not None:
                    self.vetoes[_LAST_VETO] = accord
            case ReportSourceFacts() as facts if not self.told:
                self.told, self.label = facts.told.value, entry.actor
                self.is_counted_elsewhere = facts.is_counted_elsewhere
                self.names = _refer(entry, "names")
            case ReportGapFacts():
                self.gaps += 1
            case _:
                pass

    def _add_progress(self, entry: Entry[Any]) -> None:
        has_passed: bool | None = None
        match entry.facts:
            case kinds.VerdictFacts(next=kinds.Next.ACCEPT):
                has_passed = True
            case kinds.VerdictFacts(next=kinds.Next.GIVE_UP) as facts:
                has_passed = False
                if (accord := vetoed_accord(facts)) is not None:
                    self.vetoes[entry.strand] = accord
            case kinds.SkipFacts() | kinds.StopFacts():
                has_passed = False
            case _:
                pass
        self._set_progress(entry.strand, has_passed)

    def _set_progress(self, strand: str, has_passed: bool | None) -> None:  # noqa: FBT001
        if has_passed is not None or strand not in self.passed:
            self.passed[strand] = has_passed

    def _add_call_entry(self, entry: Entry[Any]) -> None:
        strand, facts = entry.strand, entry.facts
        is_call = isinstance(facts, kinds.CallFacts)
        if is_call or (isinstance(facts, kinds.ReplyFacts) and strand in self.open_calls):
            _add_cost(self.costs, fold_cost(self.open_calls, strand, entry.ts, facts))

    def _add_span_entry(self, entry: Entry[Any]) -> None:
        strand, facts = entry.strand, entry.facts
        self.spans += entry.n == 0
        self.refused += is_cap_refusal(facts)
        self.overruns += isinstance(facts, ReportStepFacts) and facts.code == OVERRUN
        self._refer_title(entry)
        # A span begins with its first entry and ends at most once; more counts for nothing.
        is_end = entry.n == 1 and isinstance(facts, ReportStepFacts) and strand in self.open_calls
        if is_end or (entry.n == 0 and isinstance(facts, ReportBeginFacts | ReportStepFacts)):
            _add_cost(self.costs, fold_cost(self.open_calls, strand, entry.ts, facts))

    def _refer_title(self, entry: Entry[Any]) -> None:
        """Remember the bodies that a title is made of.

        Strands come in any order, so the earliest one counts: by time, and then by name.
        """
        facts, body = entry.facts, entry.bodies.get("input")
        if body is None or not isinstance(facts, ReportBeginFacts | ReportStepFacts):
            return
        reference = SpanBodyReference(entry.strand, entry.n, body.h, body.size, type=body.type)
        began = facts.began if isinstance(facts, ReportStepFacts) and facts.began else entry.ts
        if isinstance(facts, ReportBeginFacts) and facts.op is Operation.STEP and not facts.within:
            self.command = min(filter(None, (self.command, (began, reference))), key=_title_order)
        rank = _PROMPT_RANKS.get(facts.op)
        if facts.op is Operation.STEP and facts.name in PROMPT_STEPS:
            rank = 0
        if rank is not None:
            prompt = (rank, began, reference)
            self.prompt = min(filter(None, (self.prompt, prompt)), key=_title_order)

    def all_costs(self) -> list[RunCost]:
        """Return the costs; calls without a reply count with their reservations."""
        costs = dict(self.costs)
        for call in self.open_calls.values():
            _add_cost(costs, call)
        return list(costs.values())

    def own_costs(self) -> list[RunCost]:
        """Return the costs without those that the tally of another run has as well."""
        if self.is_counted_elsewhere:
            return []
        return [cost for cost in self.all_costs() if not (self.accepted and cost.is_inner_run)]

    def result(self) -> RunSummary:
        """Return the summary; calls without a reply count with their reservations."""
        turns = [s for s in self.passed if (kinds.task_of_strand(s) or "")[0] == kinds.TURN_PREFIX]
        counted = turns or list(self.passed)
        provenance = Provenance(self.told) if self.told else Provenance.REPORTED
        return RunSummary(
            begun=self.begun,
            provenance=Provenance.DRIVEN if self.accepted else provenance,
            outcome=self.outcome,
            stopped=self.stopped,
            is_listed=self.accepted or (self.opened and not self.evaluates),
            parent_run=self.parent_run,
            label="" if self.accepted else self.label,
            lane=self.lane,
            passed=sum(self.passed[strand] is True for strand in counted),
            tasks=len(turns) if turns else self.planned,
            spans=self.spans,
            gaps=self.gaps,
            notes=self.notes,
            costs=_limit_costs(self.all_costs()),
            request=self.request,
            plan=self.plan,
            names=self.names,
            # A program records steps of its own; only `forum run` records a command line.
            command=self.command[-1] if self.command and provenance is Provenance.RELAYED else None,
            prompt=self.prompt[-1] if self.prompt and not self.accepted else None,
            refused=self.refused,
            overruns=self.overruns,
            accord=self.undecided_accord(),
            is_counted_elsewhere=self.is_counted_elsewhere,
        )

    def undecided_accord(self) -> Accord | None:
        """Return the accord of the council that left a closed run undecided, or None."""
        if self.stopped is not None:
            return None
        if self.outcome is Outcome.OK:
            return as_undecided(self.accord)
        return self.vetoes[min(self.vetoes)] if self.outcome and self.vetoes else None


_LAST_VETO = "~"
"""Where a panel stands that judges the answer: after all strands of tasks."""


def tally_entries(entries: Iterable[Entry[Any]]) -> SummaryTally:
    """Return the tally of all entries of a run."""
    tally = SummaryTally()
    for entry in entries:
        tally.add_entry(entry)
    return tally


def summary_row(run: str, tally: SummaryTally) -> RunSummaryRow:
    """Return the summary of a closed run as it is stored, without a tag."""
    data = msgspec.json.encode(tally.result())
    return RunSummaryRow(run=run, version=SUMMARY_VERSION, ended=tally.ended, data=data)


def read_summary_row(row: RunSummaryRow) -> RunSummary:
    """Return a stored summary.  Raises `msgspec.MsgspecError`."""
    return _DECODER.decode(row.data)


_DECODER = msgspec.json.Decoder(RunSummary)


_PROMPT_RANKS = {Operation.MODEL: 0, Operation.AGENT: 1}
"""What a request to a model is taken from; an agent may have no recorded call."""
PROMPT_STEPS = frozenset({"prompt", "claude_code.user_prompt"})
"""Steps by which hooks and events of coding agents report what a user wrote."""


def _title_order(title: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*title[:-1], title[-1].strand, title[-1].n)


def _refer(entry: Entry[Any], name: str) -> BodyReference | None:
    body = entry.bodies.get(name)
    return BodyReference(entry.n, body.h, body.size, body.type) if body else None


def _add_cost(costs: dict[str, RunCost], call: CallCost | None) -> None:
    if call is None or not any(spent := call.spent):
        return
    day, (usd, tokens, calls) = call.ts // DAY_US, spent
    key = msgspec.json.encode((day, call.agent, call.model)).decode()
    cost = RunCost(
        day=day,
        agent=call.agent,
        model=call.model,
        usd=min(usd, NO_LIMIT),
        tokens=min(tokens, NO_LIMIT),
        calls=calls,
        unpriced=0 if call.is_priced else calls,
    )
    costs[key] = costs[key].plus(cost) if key in costs else cost


def _limit_costs(costs: Iterable[RunCost]) -> tuple[RunCost, ...]:
    """Return the costs in a fixed order; the smallest of very many are added up.

    A reporter names the agents, so without a limit a summary could become as large as the run.
    The costs of inner runs come first: they must not be added up with others.
    """
    dearest = sorted(
        costs, key=lambda c: (not c.is_inner_run, -c.usd, -c.tokens, c.day, c.agent, c.model)
    )
    kept, rest = dearest[:MAX_COSTS], dearest[MAX_COSTS:]
    if rest:
        other = RunCost(
            day=rest[0].day, agent=OTHER_AGENTS, model="", usd=0, tokens=0, calls=0, unpriced=0
        )
        for cost in rest:
            other = other.plus(cost)
        kept.append(other)
    return tuple(sorted(kept, key=lambda c: (c.day, c.agent, c.model)))
