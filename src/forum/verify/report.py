"""The result of a verification: three claims, each with a reason, and findings that name entries.

The result is never a plain true or false.  **Intact**: the stored data is what was recorded.
**Complete**: nothing that was recorded is missing.  **Independent**: witnesses have seen it.  Who
they are only the reader can say: `WitnessState` tells whether one of them is marked in the reader's
trust file as run by another organization.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec


class Claim(StrEnum):
    """The three things that can be claimed of a ledger."""

    INTACT = "intact"
    COMPLETE = "complete"
    INDEPENDENT = "independent"


class State(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_CHECKED = "not checked"


class WitnessState(StrEnum):
    """Who has seen what is verified, as far as the reader knows.

    The claim Independent holds in the first two cases, as it always did; only the first may be
    called independent.
    """

    INDEPENDENT = "independent"
    """A witness that the reader's trust file marks as run by another organization."""
    SELF_WITNESSED = "self-witnessed"
    """Witnesses that are not marked so: as far as the reader knows, they are the writer's own."""
    NONE = "none"
    """Nobody, or it was not checked."""


class Problem(StrEnum):
    """Everything that can be found wrong.  The name is what `--json` prints."""

    BUNDLE_ALTERED = "bundle-altered"
    ENTRY_MALFORMED = "entry-malformed"
    FOREIGN_ENTRY = "foreign-entry"
    STRAY_ENTRY = "stray-entry"
    LEAF_MISMATCH = "leaf-mismatch"
    ROOT_MISMATCH = "root-mismatch"
    PROOF_REJECTED = "proof-rejected"
    SIGNATURE_REJECTED = "signature-rejected"
    LINK_BROKEN = "link-broken"
    PARENT_UNKNOWN = "parent-unknown"
    BODY_MISMATCH = "body-mismatch"
    COLUMN_MISMATCH = "column-mismatch"
    TABLE_MISMATCH = "table-mismatch"
    TAG_REJECTED = "tag-rejected"
    ROW_QUARANTINED = "row-quarantined"
    SESSION_ASKED = "session-asked"
    SESSION_RECORDED = "session-recorded"
    SESSION_COUNTED = "session-counted"
    SESSION_ORDER = "session-order"
    SESSION_COURSE = "session-course"
    SESSION_SURPLUS = "session-surplus"
    SESSION_ANSWER = "session-answer"
    RUN_COURSE = "run-course"
    CHILD_FOREIGN = "child-foreign"
    SCORE_INVALID = "score-invalid"
    REPORT_INVALID = "report-invalid"

    ENTRY_MISSING = "entry-missing"
    POSITION_MISSING = "position-missing"
    POSITION_DOUBLED = "position-doubled"
    CAUSE_MISSING = "cause-missing"
    RUN_UNOPENED = "run-unopened"
    AFTER_CLOSE = "after-close"
    STRAND_UNCLOSED = "strand-unclosed"
    BODY_MISSING = "body-missing"
    HOLD_BROKEN = "hold-broken"
    RULE_MISSING = "rule-missing"
    SESSION_MISSING = "session-missing"
    DIRECTORY_BROKEN = "directory-broken"
    TAIL_CUT = "tail-cut"
    EPOCH_MISSING = "epoch-missing"
    LEFT_UNSEQUENCED = "left-unsequenced"
    CATALOGUE_MISMATCH = "catalogue-mismatch"
    NOTHING_SIGNED = "nothing-signed"

    HISTORY_REPLACED = "history-replaced"
    NOT_WITNESSED = "not-witnessed"
    TIME_IMPOSSIBLE = "time-impossible"
    PAST_UNKNOWN = "past-unknown"
    COSIGNATURE_MISSING = "cosignature-missing"

    @property
    def claim(self) -> Claim:
        """The claim that a finding of this problem refutes."""
        # The members above are grouped by claim, in the order of the claims.
        problems = list(Problem)
        if problems.index(self) < problems.index(Problem.ENTRY_MISSING):
            return Claim.INTACT
        if problems.index(self) < problems.index(Problem.HISTORY_REPLACED):
            return Claim.COMPLETE
        return Claim.INDEPENDENT


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong, and where."""

    problem: Problem
    detail: str
    index: int | None = None
    entry: str | None = None
    """The position of the entry: run/strand/n."""

    def __str__(self) -> str:
        place = [f"entry {self.index}"] if self.index is not None else []
        if self.entry is not None:
            place.append(self.entry)
        where = f" at {', '.join(place)}" if place else ""
        return f"{self.problem}{where}: {self.detail}"


class ClaimResult(msgspec.Struct, frozen=True):
    """The result of one claim, with the reason."""

    state: State
    reason: str


class Sighting(msgspec.Struct, frozen=True):
    """A witness that has cosigned the newest checkpoint, and when it says it did."""

    witness: str
    time: int
    same_machine: bool
    independent: bool = False
    """Whether the reader's trust file marks it as run by another organization."""


class Interval(msgspec.Struct, frozen=True):
    """The proven interval of a run, in seconds since 1970 by the clocks of the reader's witnesses.

    A side is None if no witnessed checkpoint bounds the run there: then it was not checked.
    """

    after: int | None = None
    """The run was recorded after this moment: a tree without it was witnessed then."""
    before: int | None = None
    """The run was recorded before this moment: a tree with all of it was witnessed then."""

    def list_not_checked(self) -> tuple[str, ...]:
        """Return a line for each side on which nothing bounds the run."""
        sides = ((self.after, UNBOUNDED_BELOW), (self.before, UNBOUNDED_ABOVE))
        return tuple(line for time, line in sides if time is None)


class Bodies(msgspec.Struct, frozen=True):
    """How the bodies that were committed to are found now."""

    ok: int = 0
    redacted: int = 0
    missing: int = 0
    mismatch: int = 0


class EpochSummary(msgspec.Struct, frozen=True):
    """What came of an earlier log that the verified one continues."""

    origin: str
    size: int
    root: str
    intact: State
    complete: State
    independent: State
    witnessing: WitnessState = WitnessState.NONE


class GapCount(msgspec.Struct, frozen=True):
    """Gaps for one reason, and the steps that are missing by them, as far as these are counted."""

    why: str
    gaps: int
    steps: int


UNBOUNDED_BELOW = (
    "when the run began: it is not bounded below, because no tree before it is cosigned as your "
    "trust file asks; it may be newer than its times say"
)
UNBOUNDED_ABOVE = (
    "when the run was there: it is not bounded above, because no tree with all of it is cosigned "
    "as your trust file asks"
)
_EVERYTHING = ("everything in it",)
NOTHING_CHECKED = "nothing was checked"
ONLY_RECORDED = "; what was not recorded cannot be missing here, see coverage"
"""Ends the reason of the claim Complete where programs outside of Forum have told of runs."""


class Coverage(msgspec.Struct, frozen=True):
    """How the runs are known: the number of runs by provenance, and what is known to be missing.

    It is no claim: that a program told everything cannot be checked.
    """

    driven: int = 0
    relayed: int = 0
    wrapped: int = 0
    reported: int = 0
    gaps: tuple[GapCount, ...] = ()

    @property
    def is_told(self) -> bool:
        """Whether a program outside of Forum's engine has told of a run."""
        return bool(self.relayed or self.wrapped or self.reported)

    def __str__(self) -> str:
        words = ("driven", "relayed", "wrapped", "reported")
        counts = [f"{count} {word}" for word in words if (count := getattr(self, word))]
        parts = [f"runs: {', '.join(counts) or 'none'}"]
        if self.gaps:
            listed = ", ".join(f"{gap.why} {gap.steps or '?'}" for gap in self.gaps)
            parts.append(f"steps known to be missing: {listed}")
        if self.is_told:
            parts.append("what was not told to Forum is not in the log")
        return "; ".join(parts)


_MAX_SHOWN_FINDINGS = 10
"""The number of findings in the short form of a report."""


class Report(msgspec.Struct, frozen=True):
    """What was checked, what was found, and what was not checked."""

    origin: str
    size: int
    root: str
    intact: ClaimResult
    complete: ClaimResult
    independent: ClaimResult
    findings: tuple[Finding, ...]
    found: int
    """The number of findings; only the first thousand are listed."""
    not_checked: tuple[str, ...]
    entries: int = 0
    runs: int = 0
    open_runs: tuple[str, ...] = ()
    bodies: Bodies = Bodies()
    pending: int = 0
    sightings: tuple[Sighting, ...] = ()
    epochs: tuple[EpochSummary, ...] = ()
    """The earlier logs that this one continues, newest first; `findings` includes theirs."""
    notices: tuple[str, ...] = ()
    """Observations that are not findings: work that a crash left undone, a wrong clock."""
    coverage: Coverage = Coverage()
    witnessing: WitnessState = WitnessState.NONE
    interval: Interval | None = None
    """When the run of a bundle was written, as witnesses prove it; None for a whole ledger."""

    def __repr__(self) -> str:
        listed = "".join(f"; {finding}" for finding in self.findings[:_MAX_SHOWN_FINDINGS])
        more = f"; {self.found} findings in all" if self.found > _MAX_SHOWN_FINDINGS else ""
        counts = f"{self.entries} entries, {self.runs} runs"
        return f"<Report: {self.summary}; {counts}{listed}{more}>"

    @property
    def is_unread(self) -> bool:
        """Whether nothing was checked: it could not be read, or it is of another log."""
        return self.not_checked == _EVERYTHING and bool(self.findings)

    @property
    def summary(self) -> str:
        """The three claims in one line, such as "intact, complete, self-witnessed"."""
        words = [
            _CLAIM_WORDS[name][claim.state]
            for name, claim in (("intact", self.intact), ("complete", self.complete))
        ]
        if self.independent.state is State.HOLDS:
            return ", ".join([*words, self.witnessing])
        return ", ".join([*words, _CLAIM_WORDS["witnessed"][self.independent.state]])

    @property
    def ok(self) -> bool:
        """Whether all three claims hold."""
        return {a.state for a in (self.intact, self.complete, self.independent)} == {State.HOLDS}


_CLAIM_WORDS = {
    word: {
        State.HOLDS: word,
        State.FAILS: f"not {word}",
        State.NOT_CHECKED: f"{word}: not checked",
    }
    for word in ("intact", "complete", "witnessed")
}


class ExplainedTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Entries of a log whose times the reader knows to be wrong, because a clock was off."""

    log: str
    first: int
    last: int
    reason: str


class Findings:
    """A collector of findings; beyond a thousand, it only counts them.

    An impossible time that the reader has explained is no finding.  The reader decides, and never
    the log: its owner could explain what he has dated back.  It is listed all the same.
    """

    MAX_LISTED = 1000
    _MAX_NAMED = 20

    def __init__(self, explained: Sequence[ExplainedTimes] = ()) -> None:
        self.listed: list[Finding] = []
        self.count = 0
        self._explained = {explanation: list[int]() for explanation in explained}
        self._failed: dict[Claim, Finding] = {}

    def add(
        self, problem: Problem, detail: str, index: int | None = None, entry: str | None = None
    ) -> None:
        """Add a finding."""
        if problem is Problem.TIME_IMPOSSIBLE and index is not None and self._explain(index):
            return
        finding = Finding(problem, detail, index, entry)
        self.count += 1
        self._failed.setdefault(problem.claim, finding)
        if len(self.listed) < self.MAX_LISTED:
            self.listed.append(finding)

    def _explain(self, index: int) -> bool:
        """Return whether the reader has explained the time of an entry, and note the entry."""
        for explanation, indexes in self._explained.items():
            if explanation.first <= index <= explanation.last:
                indexes.append(index)
                return True
        return False

    @property
    def has_explained(self) -> bool:
        """Whether an impossible time was explained."""
        return any(self._explained.values())

    def list_explained(self) -> Iterator[str]:
        """Yield a notice for each explanation that was needed."""
        for explanation, indexes in self._explained.items():
            if indexes:
                named = ", ".join(map(str, indexes[: self._MAX_NAMED]))
                more = len(indexes) - self._MAX_NAMED
                named += f" and {more} more" if more > 0 else ""
                yield (
                    f"explained by you: the times of {len(indexes)} entries are wrong and prove "
                    f"nothing ({explanation.reason}): {named}"
                )

    def judge_claim(self, claim: Claim, holds: str) -> ClaimResult:
        """Return the result of a claim: it fails with the first finding, or holds as reasoned."""
        finding = self._failed.get(claim)
        if finding is not None:
            return ClaimResult(State.FAILS, str(finding))
        return ClaimResult(State.HOLDS, holds)


def foreign_report(origin: str, sentence: str) -> Report:
    """Return the report on data of another log than those whose keys the reader trusts."""
    findings = Findings()
    findings.add(Problem.SIGNATURE_REJECTED, sentence)
    unknown = ClaimResult(State.NOT_CHECKED, NOTHING_CHECKED)
    return empty_report(origin, ClaimResult(State.FAILS, sentence), unknown, findings)


def empty_report(
    origin: str, intact: ClaimResult, others: ClaimResult, findings: Findings
) -> Report:
    """Return a report for data of which nothing could be checked."""
    return Report(
        origin=origin,
        size=0,
        root="",
        intact=intact,
        complete=others,
        independent=others,
        findings=tuple(findings.listed),
        found=findings.count,
        not_checked=_EVERYTHING,
    )
