"""The report of a pack: its members, and how it is computed from the log part and the arguments."""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Annotated, Literal

import msgspec

from forum.errors import Malformed
from forum.features.evidence.control_maps import ControlMap, MapResult, apply_map, encode_map
from forum.features.evidence.counted_times import CountedBy, CountedTimes
from forum.features.evidence.events import LogEvent
from forum.features.evidence.figures import Figure
from forum.features.evidence.log_part import LogPart, read_part_entry
from forum.features.evidence.queries import QUERIES, Query, count_terms
from forum.features.evidence.sample_seed import SeedSource, find_root_seed, find_witness_seed
from forum.features.evidence.tally import (
    GateAnswer,
    OutsideEntries,
    PeriodTally,
    ReportPeriod,
    TimelineEntry,
)
from forum.tlog import WitnessPolicy, hash_leaf, parse_checkpoint
from forum.units import format_rfc3339

FORMAT: Literal["forum/evidence/2"] = "forum/evidence/2"
OLD_FORMAT: Literal["forum/evidence/1"] = "forum/evidence/1"
"""The format of release 0.2, whose sample is drawn by the root of the tree."""
MAX_NAMED_RUNS = 10
"""How many runs that somebody should look at are named, with a bundle each."""

LIMITS = (
    (
        "What agents did outside of Forum.  Only driven runs were recorded by the engine before "
        "each step; of all others the log holds what it was told."
    ),
    (
        "The content of prompts, replies, plans and answers, and the texts of reviews, incidents "
        "and holds.  Entries commit to it; the bundles in runs/ disclose it for their runs, as far "
        "as it was not erased.  Ask for the bundle of any other run: forum ledger export RUN."
    ),
    "Whether an answer was right, and whether a decision was a good one.",
    (
        "The settings behind the digests of a configuration.  Ask for the files of that day, and "
        "for backups and copies of erased contents elsewhere."
    ),
    (
        "Which person stands behind an API key or an operator.  Ask for the list of people, and "
        "for who may use the machine."
    ),
    (
        "Runs that were open when the period began and recorded nothing in it, beyond those "
        "listed: that no other was open is shown only by a pack from the beginning of the log."
    ),
    (
        "Entries from before the period that the maker of a pack left out.  Those that are in it "
        "are proven; that no grant, revocation, retention, hold, configuration, incident or step "
        "of an open run is missing is shown only by a pack from the beginning of the log."
    ),
    (
        "Whether any law or standard is met.  Maps say which figures bear on a duty, and what "
        "stays yours.  This is no legal advice."
    ),
)
"""What no pack shows."""


MAX_QUERIES = 32
"""How many queries the maps of a pack may have together: each is asked of each entry."""
MAX_TERMS = 128
"""How many terms these queries may have together: kinds, members, and values of conditions."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was asked for when the pack was made."""

    since: Annotated[int, msgspec.Meta(ge=0)]
    """In microseconds since 1970."""
    until: Annotated[int, msgspec.Meta(ge=0, multiple_of=1_000_000)]
    sample: Annotated[int, msgspec.Meta(ge=0)]
    seed: str
    """The seed that an auditor brought; empty for that of cosignatures."""
    incident: str
    """The run that an incident pack is about; empty for a period."""
    maps: tuple[str, ...]


class RecordClaim(msgspec.Struct, frozen=True):
    """One claim about the log part, as its maker found it with the enclosed policy."""

    state: str
    reason: str


class RecordCheck(msgspec.Struct, frozen=True):
    """What the maker of a pack of release 0.2 found with the enclosed policy."""

    intact: RecordClaim
    complete: RecordClaim
    independent: RecordClaim


class TreeSize(msgspec.Struct, frozen=True):
    """A tree that the log has signed."""

    size: int
    root: str


class RunSample(msgspec.Struct, frozen=True):
    """Runs that were drawn: their order follows from the seed."""

    seed: str
    seed_from: SeedSource
    population: int
    """How many runs have an entry in the period."""
    runs: tuple[str, ...]


class NamedRun(msgspec.Struct, frozen=True):
    """A run that somebody should look at, with the reasons and an entry for each."""

    run: str
    reasons: tuple[str, ...]
    entries: tuple[int, ...]


class EnclosedBundle(msgspec.Struct, frozen=True):
    """A bundle in the pack, and why it is there."""

    run: str
    file: str
    why: tuple[str, ...]


class IncidentTimeline(msgspec.Struct, frozen=True):
    """The run of an incident: its entries in the order of the log, and the runs that they name."""

    run: str
    entries: int
    timeline: tuple[TimelineEntry, ...]
    related: tuple[str, ...]


class PackReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `report.json`.  It holds no verdict: its maker may be the suspect."""

    v: Literal["forum/evidence/1", "forum/evidence/2"]
    origin: str
    since: str
    until: str
    arguments: Arguments
    start: TreeSize
    end: TreeSize
    check: RecordCheck | msgspec.UnsetType = msgspec.UNSET
    """Only in packs of release 0.2; nothing that it says is believed."""
    entries: int
    """How many entries are between the two checkpoints."""
    counted: int
    """How many entries are in the period."""
    counted_by: CountedBy | msgspec.UnsetType = msgspec.UNSET
    """What decides which entries are in the period.  Not in packs of release 0.2."""
    outside: OutsideEntries | msgspec.UnsetType = msgspec.UNSET
    """Not in packs of release 0.2."""
    figures: tuple[Figure, ...]
    decisions: tuple[GateAnswer, ...]
    """The first decisions at gates in the period."""
    events: tuple[LogEvent, ...]
    """The first events of the log's own life, by section of the report."""
    named: tuple[NamedRun, ...]
    named_of: int
    """How many runs there are to look at; only the first of them are named."""
    sample: RunSample
    bundles: tuple[EnclosedBundle, ...]
    maps: tuple[MapResult, ...]
    limits: tuple[str, ...]
    incident: IncidentTimeline | None = None

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """The maps that nobody has compared with the original texts."""
        return tuple(m.map.name for m in self.maps if m.map.review.status == "unreviewed")


def draw_sample(runs: Iterable[str], seed: str, count: int) -> tuple[str, ...]:
    """Return the first runs by the SHA-256 of the seed and their name; sorted by name."""

    def rank(run: str) -> str:
        return sha256(f"{seed}\n{run}".encode()).hexdigest()

    return tuple(sorted(sorted(runs, key=rank)[:count]))


def bundle_name(run: str) -> str:
    """Return the name of the bundle of a run in the pack, whatever the run is called."""
    safe = "".join(c if c.isalnum() or c in "._-" else f"%{ord(c):02X}" for c in run)
    return f"runs/{safe}.zip"


def _add_queries(queries: Iterable[Query], added: Sequence[Query]) -> tuple[Query, ...]:
    """Return queries with those of maps behind them.  Raises `Malformed`."""
    if len(added) > MAX_QUERIES:
        raise Malformed("maps", f"{len(added)} queries in maps; the most is {MAX_QUERIES}")
    terms = sum(map(count_terms, added))
    if terms > MAX_TERMS:
        raise Malformed("maps", f"the queries of maps have {terms} terms; the most is {MAX_TERMS}")
    asked = (*queries, *added)
    ids = Counter(query.id for query in asked)
    if doubled := [query_id for query_id, count in ids.items() if count > 1]:
        # The page looks figures up by their id, so that the query of a map could replace one.
        raise Malformed("maps", f"two queries have the id {doubled[0]}")
    return asked


def make_report(
    part: LogPart,
    arguments: Arguments,
    maps: Iterable[ControlMap],
    basis: WitnessPolicy | RecordCheck,
    queries: Iterable[Query] = QUERIES,
) -> PackReport:
    """Return the report of a period.  Raises `Malformed` for a log part that has none.

    `basis` is the enclosed policy: cosignatures of its witnesses draw the sample, and bound the
    times of entries.  With what a maker found, the report is one of release 0.2, which states that.
    """
    policy = basis if isinstance(basis, WitnessPolicy) else None
    used = tuple(maps)
    asked = _add_queries(queries, [query for each in used for query in each.queries])
    period = ReportPeriod(arguments.since, arguments.until)
    is_old = policy is None
    tally = PeriodTally(period, asked, arguments.incident, is_old=is_old)
    times = CountedTimes(part, policy)
    for index, data in part.indexed_entries():
        entry = read_part_entry(data)
        tally.add(index, entry, hash_leaf(data).hex(), at=times.time_of(index, entry.ts))
    if tally.unopened:
        raise Malformed("log part", f"the first entry of run {tally.unopened[0]} is missing")
    if tally.broken_strand:
        raise Malformed("log part", f"an entry of log/{tally.broken_strand} is missing")
    figures = tally.finish()
    end = parse_checkpoint(part.end)
    sample = _sample(tally, arguments, part, policy)
    concerns = tally.concerns()
    named = tuple(
        NamedRun(run, tuple(reasons), tuple(reasons.values()))
        for run, reasons in list(concerns.items())[:MAX_NAMED_RUNS]
    )
    incident = None
    if arguments.incident:
        if not tally.timeline:
            raise Malformed("log part", f"it has no entry of run {arguments.incident}")
        listed = tuple(tally.timeline)
        incident = IncidentTimeline(
            arguments.incident, tally.timeline_length, listed, tally.related
        )
    start = parse_checkpoint(part.start) if part.start else None
    return PackReport(
        v=OLD_FORMAT if isinstance(basis, RecordCheck) else FORMAT,
        origin=part.origin,
        since=format_rfc3339(arguments.since),
        until=format_rfc3339(arguments.until),
        arguments=arguments,
        start=TreeSize(start.size, start.root.hex()) if start else TreeSize(0, ""),
        end=TreeSize(end.size, end.root.hex()),
        check=basis if isinstance(basis, RecordCheck) else msgspec.UNSET,
        entries=len(part.entries),
        counted=tally.counted,
        counted_by=msgspec.UNSET if is_old else times.decide(period.since, period.until),
        outside=msgspec.UNSET if is_old else tally.outside,
        figures=figures,
        decisions=tuple(tally.decisions),
        events=tally.events,
        named=named,
        named_of=len(concerns),
        sample=sample,
        bundles=_list_bundles(sample, named, incident),
        maps=_apply_maps(used, figures),
        limits=LIMITS,
        incident=incident,
    )


def _sample(
    tally: PeriodTally, arguments: Arguments, part: LogPart, policy: WitnessPolicy | None
) -> RunSample:
    seed, seed_from = arguments.seed, SeedSource.AUDITOR
    if not seed and policy and (drawn := find_witness_seed(part, arguments.until, policy)):
        seed, seed_from = drawn.seed, drawn.source
    if not seed:
        seed = find_root_seed(part, arguments.until, policy)
        seed_from = SeedSource.CHECKPOINT
    runs = draw_sample(tally.active, seed, arguments.sample)
    return RunSample(seed, seed_from, len(tally.active), runs)


def _list_bundles(
    sample: RunSample, named: Iterable[NamedRun], incident: IncidentTimeline | None
) -> tuple[EnclosedBundle, ...]:
    why: dict[str, list[str]] = {}
    if incident:
        why[incident.run] = ["incident"]
        for run in incident.related:
            why.setdefault(run, []).append("named by the incident's run")
    for run in sample.runs:
        why.setdefault(run, []).append("sample")
    for named_run in named:
        why.setdefault(named_run.run, []).append("named in the report")
    return tuple(EnclosedBundle(run, bundle_name(run), tuple(why[run])) for run in sorted(why))


def _apply_maps(maps: Iterable[ControlMap], figures: Iterable[Figure]) -> tuple[MapResult, ...]:
    by_id = {figure.id: figure for figure in figures}
    return tuple(
        MapResult(
            control_map,
            sha256(encode_map(control_map)).hexdigest(),
            tuple(apply_map(row, by_id) for row in control_map.rows),
        )
        for control_map in maps
    )


def encode_report(report: PackReport) -> bytes:
    """Return the bytes of `report.json`."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
