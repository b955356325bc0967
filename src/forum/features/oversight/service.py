"""Reviews of the log, incidents, and the record of the configuration in use."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.json import encode as encode_json

from forum import __version__
from forum.app import Forum
from forum.app.access import LOCAL_OPERATOR, Approver
from forum.app.clock_ids_and_kinds import KINDS, new_salt, now
from forum.errors import (
    ConcurrentUpdate,
    IncidentAlreadyClosed,
    Malformed,
    NoSuchIncident,
    TamperDetected,
)
from forum.features.oversight import rules as oversight
from forum.features.oversight.configuration import (
    Configuration,
    ConfigurationTexts,
    compare_configuration,
    encode_configuration,
)
from forum.features.oversight.kinds import (
    CONFIGURATION_PARTS,
    CONFIGURATION_STRAND,
    INCIDENTS_STRAND,
    REMARK,
    REVIEWS_STRAND,
    TEXT,
    ConfigurationChangeFacts,
    ConfigurationFacts,
    IncidentCloseFacts,
    IncidentOpenFacts,
    IncidentSeverity,
    ReviewFacts,
)
from forum.ledger.body import BytesContent, text_content
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, MAX_PARENTS, Entry, leaf_of, peek_kind
from forum.ledger.log import (
    SYSTEM_ACTOR,
    LocatedEntry,
    locate_run,
    read_body,
    read_strand_entries,
)
from forum.ledger.strand import Attachment, Draft, RecordedEntry
from forum.runs.kinds import IDENTITY
from forum.runs.roster import Roster
from forum.runs.team_settings import TeamSettings
from forum.tlog import Hash

MAX_INCIDENT_RUNS = MAX_PARENTS
"""An entry names the first entry of each run of an incident as a parent."""
_GATE_DECISIONS = frozenset({b"gate.decision/1", b"gate.decision/2"})


class ReviewItem(Struct, frozen=True):
    """An entry that is worth a look, and why."""

    concern: oversight.Concern
    entry: LocatedEntry


class RecordedReview(Struct, frozen=True):
    """A review that somebody has done, with the remark if that was not erased."""

    entry: str
    """The id of its entry, in hexadecimal."""
    at: int
    actor: str
    facts: ReviewFacts
    remark: str | None


class ReviewView(Struct, frozen=True):
    """What there is to review, and the review before."""

    scope: oversight.ReviewScope
    items: tuple[ReviewItem, ...]
    """The newest items; those that are left out are counted."""
    counts: Mapping[oversight.Concern, int]
    last: RecordedReview | None
    incidents: tuple[oversight.Incident, ...]
    """The incidents that are open."""


class IncidentRecord(Struct, frozen=True):
    """An incident with its texts; None for one that does not exist or was erased."""

    incident: oversight.Incident
    text: str | None
    closing_text: str | None


class OversightOperations:
    """Shows what is worth a look, and records reviews, incidents and configurations."""

    def __init__(self, forum: Forum) -> None:
        self._project, self._reads = forum, forum.reads
        self._runs = forum.runs

    def view_review(self, run: str = "", until: int | None = None, limit: int = 100) -> ReviewView:
        """Return what is worth a look since the last review, or of one run.

        `until` ends the view before an index, by default at the end of the log.  At most `limit`
        items are returned; all are counted.  Raises `Malformed`.
        """
        reviews = self.read_reviews()
        whole = [review for review in reviews if not review.facts.run]
        reviewed = oversight.reviewed_until(review.facts for review in reviews)
        scope = self._scope(run, until, reviewed)
        items: deque[ReviewItem] = deque(maxlen=limit)
        counts = dict.fromkeys(oversight.Concern, 0)
        for item in chain(self._find_items(scope), self._find_open_gates(scope)):
            counts[item.concern] += 1
            items.append(item)
        return ReviewView(
            scope=scope,
            items=tuple(items),
            counts=counts,
            last=whole[-1] if whole else None,
            incidents=tuple(i for i in self._fold_incidents().values() if i.closed is None),
        )

    def record_review(
        self, view: ReviewView, remark: str = "", by: Approver = LOCAL_OPERATOR
    ) -> RecordedEntry:
        """Record that somebody has looked at what this view shows."""
        facts = oversight.review_facts(view.scope, view.counts, by.authority)
        # A random suffix makes each step unique: two people may review the same at once.
        step = f"review/{new_salt()[:8].hex()}"
        return self._append(step, facts, {REMARK: remark}, by, strand=REVIEWS_STRAND)

    def read_reviews(self) -> list[RecordedReview]:
        """Return all reviews, the oldest first."""
        ledger = self._project.ledger
        return [
            RecordedReview(
                entry=leaf.hex(),
                at=entry.ts,
                actor=entry.actor,
                facts=entry.facts,
                remark=self._read_text(entry, REMARK),
            )
            for leaf, entry in read_strand_entries(ledger, LOG_RUN, REVIEWS_STRAND)
            if isinstance(entry.facts, ReviewFacts)
        ]

    def open_incident(
        self,
        severity: IncidentSeverity,
        text: str,
        runs: tuple[str, ...] = (),
        known_at: int | None = None,
        by: Approver = LOCAL_OPERATOR,
    ) -> oversight.Incident:
        """Record an incident that became known at a time, by default now, and return it.

        Raises `Malformed`, `NoSuchRun`.
        """
        if len(runs) > MAX_INCIDENT_RUNS:
            raise Malformed("incident", f"it names {len(runs)} runs; at most {MAX_INCIDENT_RUNS}")
        _check_text(text, "what happened")
        at = now()
        if known_at is not None and known_at > at:
            raise Malformed("incident", "it cannot have become known in the future")
        if known_at is not None and known_at < 0:
            raise Malformed("incident", "it cannot have become known before 1970")
        incident = new_salt()[:4].hex()
        facts = IncidentOpenFacts(
            incident=incident,
            severity=severity,
            by=by.authority,
            known=at if known_at is None else known_at,
            runs=runs,
        )
        parents = tuple(self._first_entry(run) for run in runs)
        step = f"incident/{incident}/open"
        self._append(step, facts, {TEXT: text}, by, strand=INCIDENTS_STRAND, parents=parents)
        return self._fold_incidents()[incident]

    def close_incident(
        self, incident: str, text: str, by: Approver = LOCAL_OPERATOR
    ) -> oversight.Incident:
        """Record that an incident is dealt with.

        Raises `Malformed`, `NoSuchIncident`, `IncidentAlreadyClosed`.
        """
        _check_text(text, "how it was dealt with")
        opened = self._fold_incidents().get(incident)
        if opened is None:
            raise NoSuchIncident(incident)
        if opened.closed is not None:
            raise IncidentAlreadyClosed(incident)
        facts = IncidentCloseFacts(incident, by.authority)
        parents = (Hash.from_hex(opened.entry),)
        # A random suffix makes each step unique: if two people close it at once, both are recorded.
        step = f"incident/{incident}/close/{new_salt()[:8].hex()}"
        self._append(step, facts, {TEXT: text}, by, strand=INCIDENTS_STRAND, parents=parents)
        return self._fold_incidents()[incident]

    def read_incidents(self) -> list[IncidentRecord]:
        """Return all incidents with their texts, the oldest first."""
        texts = {
            leaf.hex(): self._read_text(entry, TEXT)
            for leaf, entry in read_strand_entries(self._project.ledger, LOG_RUN, INCIDENTS_STRAND)
        }
        return [
            IncidentRecord(incident, texts[incident.entry], texts.get(incident.close_entry))
            for incident in self._fold_incidents().values()
        ]

    def record_configuration(self, team: TeamSettings, roster: Roster) -> bool:
        """Record the configuration of this process, unless the last one on record is the same.

        One whose texts were erased since cannot be compared, and is recorded again.  Return whether
        it was recorded.
        """
        configuration = Configuration(
            engine=__version__,
            team=team,
            roster=roster.digest,
            gate_rules=self._runs.gate_rules,
            shared_caps=self._runs.shared_caps,
            teams=self._runs.teams,
        )
        texts = encode_configuration(configuration, self._project.mask.mask_text)
        if self._project.store.last_entry(LOG_RUN, MAIN_STRAND) is None:
            return False  # the signing machine has not begun the log yet
        if self._project.write_keys is None:
            return False  # without the write key this process serves readers only
        while True:
            # Opened first: an entry that another process adds after it has a place that is taken.
            strand = self._project.ledger.open_log_strand(CONFIGURATION_STRAND)
            facts = self._compare_configuration(texts)
            if facts is None:
                return False
            with suppress(ConcurrentUpdate):
                strand.append_exclusive(self._draft_configuration(facts, texts))
                return True

    def _compare_configuration(self, texts: ConfigurationTexts) -> ConfigurationChangeFacts | None:
        """Return what has changed since the last record, or None if nothing has."""
        store = self._project.store
        data = store.last_entry(LOG_RUN, CONFIGURATION_STRAND)
        if data is None:
            return ConfigurationChangeFacts(__version__)
        last = KINDS.read(data)
        if not isinstance(last.facts, ConfigurationFacts | ConfigurationChangeFacts):
            raise TamperDetected(f"log/{last.strand}/{last.n}", f"its kind is {last.kind}")
        facts = compare_configuration(
            __version__, texts, last.facts, lambda part: read_body(store, last, part)
        )
        return facts if facts.changed or facts.erased else None

    def _draft_configuration(
        self, facts: ConfigurationChangeFacts, texts: ConfigurationTexts
    ) -> Draft:
        bodies = tuple(
            Attachment(part, BytesContent(getattr(texts, part))) for part in CONFIGURATION_PARTS
        )
        # The step is random: a digest of the texts would stay when they are erased.
        step = f"config/{new_salt()[:8].hex()}"
        return Draft(
            step,
            actor=SYSTEM_ACTOR,
            facts=facts,
            parents=(self._first_entry(LOG_RUN),),
            bodies=bodies,
        )

    def _scope(self, run: str, until: int | None, reviewed: int) -> oversight.ReviewScope:
        size = self._project.store.head().size
        end = size if until is None else until
        since = 0 if run else min(reviewed, end)
        if end > size:
            raise Malformed("review", f"it ends at index {end}, and the log has {size} entries")
        if not run and end < reviewed:
            raise Malformed("review", f"everything before index {reviewed} was reviewed already")
        return oversight.ReviewScope(since, end, run)

    def _find_items(self, scope: oversight.ReviewScope) -> Iterator[ReviewItem]:
        for located in self._candidates(scope):
            concern = oversight.find_concern(located.entry)
            if concern is not None:
                yield ReviewItem(concern, located)

    def _candidates(self, scope: oversight.ReviewScope) -> Iterator[LocatedEntry]:
        """Yield the entries of a scope that may be worth a look."""
        store = self._project.store
        if scope.run:
            located = locate_run(store, KINDS, scope.run)
            yield from (e for e in located if e.index is not None and e.index < scope.until)
            return
        for index, data in enumerate(store.entries(scope.since, scope.until), scope.since):
            if data is not None and peek_kind(data) in oversight.REVIEWED_KINDS:
                yield LocatedEntry(index, data, KINDS.read(data))

    def _find_open_gates(self, scope: oversight.ReviewScope) -> Iterator[ReviewItem]:
        """Yield the openings of gates that were open when the log had `until` entries."""
        store = self._project.store
        gates = {(run, gate.strand) for run, gate in self._reads.waiting_gates()}
        gates |= set(self._gates_decided_since(scope.until))
        for run, strand in sorted(gates):
            if scope.run and run != scope.run:
                continue
            (data,) = store.entries_at(run, [(strand, 0)])
            index = store.indexes([leaf_of(data)])[0] if data else None
            if data is not None and index is not None and index < scope.until:
                yield ReviewItem(
                    oversight.Concern.GATE, LocatedEntry(index, data, KINDS.read(data))
                )

    def _gates_decided_since(self, until: int) -> Iterator[tuple[str, str]]:
        store = self._project.store
        recent = chain(store.entries(until, store.head().size), store.unsequenced_entries())
        for data in recent:
            if data is not None and peek_kind(data) in _GATE_DECISIONS:
                entry = KINDS.read(data)
                yield entry.run, entry.strand

    def _fold_incidents(self) -> Mapping[str, oversight.Incident]:
        entries = read_strand_entries(self._project.ledger, LOG_RUN, INCIDENTS_STRAND)
        return oversight.fold_incidents((leaf.hex(), entry) for leaf, entry in entries)

    def _first_entry(self, run: str) -> Hash:
        return leaf_of(next(self._project.store.read_strand(run, MAIN_STRAND)))

    def _read_text(self, entry: Entry[Any], name: str) -> str | None:
        body = read_body(self._project.store, entry, name)
        return None if body is None else body.decode(errors="replace")

    def _append(
        self,
        step: str,
        facts: ReviewFacts | IncidentOpenFacts | IncidentCloseFacts,
        texts: Mapping[str, str],
        by: Approver,
        strand: str,
        parents: tuple[Hash, ...] = (),
    ) -> RecordedEntry:
        """Append an entry in the name of a person, with the texts that are not empty."""
        bodies = [Attachment(name, text_content(text)) for name, text in texts.items() if text]
        actor = by.actor
        if by.identity is not None:
            # A person's identity is recorded in the body only, because a body can be erased.
            actor, identity = by.authority.value, encode_json(by.identity)
            bodies.append(Attachment(IDENTITY, BytesContent(identity), "application/json"))
        draft = Draft(step, actor, facts, parents, bodies=tuple(bodies))
        return self._project.ledger.append_log_entry(draft, strand)


def _check_text(text: str, what: str) -> None:
    """Raise `Malformed` for the text of an incident that says nothing."""
    if not text.strip():
        raise Malformed("incident", f"its text is empty; say {what}")


def record_configuration(forum: Forum, team: TeamSettings, roster: Roster) -> None:
    """Record the configuration of a process, unless the last one on record is the same."""
    OversightOperations(forum).record_configuration(team, roster)
