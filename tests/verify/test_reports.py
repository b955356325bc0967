"""Runs that Forum does not drive: both verifiers find what breaks their rules, and count them."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from msgspec.structs import replace

from forum.app import KINDS, now
from forum.ledger.bundle import Bundle, gather_bundle
from forum.ledger.entry import Entry, Facts, leaf_of
from forum.ledger.kinds import NoteFacts, Outcome, RunOpenFacts
from forum.ledger.log import Ledger
from forum.ledger.ports import BudgetCharge
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Draft
from forum.runs.report_kinds import (
    NOT_MADE,
    GapReason,
    Operation,
    ReportBeginFacts,
    ReportGapFacts,
    ReportProvenance,
    ReportStepFacts,
)
from forum.stores.sqlite import SqliteStore
from forum.surfaces.schemas.reports import report_form
from forum.tlog import Checkpoint, TlogProof, prove_inclusion, sign_checkpoint
from forum.verify import Problem, Report, State, Trust, verify_bundle, verify_ledger
from forum.verify.report import Findings
from tests.runs.reported import DOLLAR, TOLD, ReportedRun, write_sample
from tests.support import fresh_origin, key_of
from tests.tlog.trees import view_in_memory
from tests.verify.samples import LOG, ORIGIN, standalone, stranger
from tests.verify.world import Kept, SegmentsHere, policy_of

RUN = "otel-0af7651916cd43dd8448eb211c80319c"
CAPPED = replace(TOLD, usd=DOLLAR)
BEGIN = ReportBeginFacts(Operation.MODEL, "chat", "a", usd=DOLLAR, calls=1)
STEP = ReportStepFacts(Operation.MODEL, "chat", Outcome.OK, "a", usd=DOLLAR // 2)


class Reporting:
    """A log into which programs report."""

    def __init__(self, folder: Path) -> None:
        origin = fresh_origin()
        self.store, self._key = SqliteStore(folder / "ledger", origin), key_of(origin)
        self.ledger = Ledger(self.store, KINDS, now, lambda: b"s" * 32)
        self.ledger.initialize("tests/1", self._key.verifier())
        self._guard = Kept()

    def verify(self) -> Report:
        """Verify the whole log, in one piece and in small segments, which must say the same."""
        Sequencer(self.store).drain()
        Publisher(self.store, self._key, self._guard, policy_of(self._key)).sign()
        trust, moment = Trust((self._key.verifier(),)), now()
        with self.store.snapshot() as reader:
            whole = verify_ledger(reader, KINDS, trust, moment)
            with (
                patch("forum.verify.ledger_audit._CHUNK_ENTRIES", 2),
                patch("forum.verify.ledger_audit.SEGMENT_ENTRIES", 2),
            ):
                cut = verify_ledger(
                    reader, KINDS, trust, moment, runner=SegmentsHere(reader, KINDS)
                )
        assert cut == whole
        return whole

    def verify_bundle(self, run: str = RUN) -> Report:
        """Verify the bundle of a run with both verifiers, which must find the same."""
        trust = Trust((self._key.verifier(),))
        with self.store.snapshot() as reader:
            data = gather_bundle(
                reader, KINDS, run, policy_of(self._key), verifier=b"# verify.py\n"
            )
        ours = verify_bundle(data.encode(), KINDS, trust)
        theirs = standalone.verify(data.encode(), stranger(trust))
        assert _compared(json.loads(json.dumps(theirs))) == _compared(_members(ours))
        return ours


def _members(report: Report) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(report_form(report)))  # type: ignore[no-any-return]


def _compared(report: dict[str, Any]) -> object:
    findings = [(f["problem"], f["index"], f["detail"]) for f in report["findings"]]
    states = [report[claim]["state"] for claim in ("intact", "complete", "independent")]
    return findings, states, report["coverage"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Reporting]:
    """Return a new log."""
    reporting = Reporting(tmp_path)
    yield reporting
    reporting.store.close()


def test_honest_reports_hold_and_are_counted_by_how_they_are_known(log: Reporting) -> None:
    """A reader must see how much of a log was only told, and what is known to be missing."""
    write_sample(log.ledger, RUN)
    for word in ReportProvenance:
        reported_run = ReportedRun(log.ledger, f"other-{word}", source=replace(TOLD, told=word))
        reported_run.lose(3, GapReason.SAMPLED)
        reported_run.close()
    log.ledger.record_run("notes", "somebody")
    whole, bundle = log.verify(), log.verify_bundle()

    assert (whole.intact.state, whole.complete.state) == (State.HOLDS, State.HOLDS), whole
    assert (bundle.intact.state, bundle.complete.state) == (State.HOLDS, State.HOLDS), bundle
    assert str(whole.coverage) == (
        "runs: 1 relayed, 2 wrapped, 2 reported; steps known to be missing: overflow 12, "
        "sampled 9; what was not told to Forum is not in the log"
    )
    assert str(bundle.coverage).startswith("runs: 1 wrapped; steps known to be missing: overflow")
    assert "what was not recorded cannot be missing here" in whole.complete.reason
    assert "what was not recorded cannot be missing here" in bundle.complete.reason


def test_a_call_that_was_not_made_is_given_back(log: Reporting) -> None:
    """The run may make another one in its place; all verifiers count it, and a claim is enough."""
    run = ReportedRun(log.ledger, RUN, source=replace(TOLD, calls=1))
    not_made = replace(STEP, outcome=Outcome.CANCELLED, code=NOT_MADE, usd=0)
    run.begin(replace(BEGIN, usd=0))
    run.end(not_made)
    run.begin(replace(BEGIN, usd=0, span="b"))
    run.end(replace(STEP, usd=0, span="b"))
    run.close()
    whole, bundle = log.verify(), log.verify_bundle()

    account = log.store.account(RUN)
    assert account is not None
    assert account.used == (0, 0, 1)
    assert (whole.findings, bundle.findings) == ((), ())


def _other_span(run: ReportedRun) -> None:
    run.add("span/b", Draft("end", "chat", STEP))


def _begun_elsewhere(run: ReportedRun) -> None:
    run.add("span/b", Draft("begin", "chat", BEGIN))


def _end_of_what_began_elsewhere(run: ReportedRun) -> None:
    _begun_elsewhere(run)
    run.add("span/b", Draft("end", "chat", replace(STEP, span="b")))


def _second_end(run: ReportedRun) -> None:
    run.add("span/a", Draft("end", "chat", STEP))
    run.add("span/a", Draft("end2", "chat", STEP))


def _second_begin(run: ReportedRun) -> None:
    run.begin(replace(BEGIN, usd=0))
    run.add("span/a", Draft("begin2", "chat", replace(BEGIN, usd=0)))


def _another_name(run: ReportedRun) -> None:
    run.begin(BEGIN)
    run.end(replace(STEP, name="embed"))


def _another_op(run: ReportedRun) -> None:
    run.begin(BEGIN)
    run.end(replace(STEP, op=Operation.TOOL))


def _late_source(run: ReportedRun) -> None:
    run.main.append(Draft("source2", "Stock-Keeper", TOLD))


FRAUDS: dict[str, tuple[Callable[[ReportedRun], None], str]] = {
    "the end of another span": (_other_span, "not that of its strand"),
    "the beginning of another span": (_begun_elsewhere, "not that of its strand"),
    "the end of what began as another span": (
        _end_of_what_began_elsewhere,
        "not that of its strand",
    ),
    "two ends": (_second_end, "two ends"),
    "two beginnings": (_second_begin, "not its first entry"),
    "another name": (_another_name, "and model chat was begun"),
    "another operation": (_another_op, "it ends tool chat"),
    "a second source": (_late_source, "does not follow its opening"),
}


@pytest.mark.parametrize("fraud", FRAUDS)
def test_both_verifiers_find_a_span_that_breaks_a_rule(log: Reporting, fraud: str) -> None:
    """In the whole log, in segments of it, and in a bundle, with the same words."""
    commit, words = FRAUDS[fraud]
    run = ReportedRun(log.ledger, RUN)
    commit(run)
    run.close()
    whole, bundle = log.verify(), log.verify_bundle()

    for report in (whole, bundle):
        assert [finding.problem for finding in report.findings] == [Problem.REPORT_INVALID], report
        assert words in report.findings[0].detail


FORMS: tuple[Facts, ...] = (
    BEGIN,
    replace(BEGIN, span="another"),
    replace(BEGIN, op=Operation.TOOL),
    STEP,
    replace(STEP, span="another"),
    NoteFacts(),
)


@pytest.mark.parametrize("places", [(0, 1, 2), (1, 1, 2), (0, 0, 1)])
def test_all_verifiers_find_the_same_in_every_course_of_a_span(places: tuple[int, ...]) -> None:
    """Whatever three entries a forger signs in its strand, also in places of others."""
    entries = [_forge("main", 0, RunOpenFacts(), b"")]
    for number, course in enumerate(product(FORMS, repeat=3)):
        before = entries[0]
        for n, facts in zip(places, course, strict=True):
            is_own = isinstance(facts, ReportBeginFacts | ReportStepFacts) and facts.span == "a"
            own = replace(facts, span=f"{number}") if is_own else facts
            before = _forge(f"span/{number}", n, own, before)
            entries.append(before)
    view = view_in_memory([leaf_of(data) for data in entries])
    note = sign_checkpoint(Checkpoint(ORIGIN, view.size, view.root()), LOG)
    proofs = {i: TlogProof(i, tuple(prove_inclusion(view, i)), note) for i in range(view.size)}
    data = Bundle(
        ORIGIN,
        run=RUN,
        checkpoint=note.encode(),
        entries=dict(enumerate(entries)),
        proofs=proofs,
        bodies={},
        past=(),
        extras={},
    ).encode()
    trust = Trust((LOG.verifier(),))
    ours = verify_bundle(data, KINDS, trust)

    theirs = standalone.verify(data, stranger(trust))
    assert _compared(json.loads(json.dumps(theirs))) == _compared(_members(ours))
    assert ours.found < Findings.MAX_LISTED
    assert Problem.REPORT_INVALID in {finding.problem for finding in ours.findings}


def _forge(strand: str, n: int, facts: Facts, before: bytes) -> bytes:
    """Return an entry of a run at any place of a strand, behind any other entry."""
    behind = leaf_of(before).hex()
    entry: Entry[Any] = Entry(
        v="forum/entry/1",
        log=ORIGIN,
        run=RUN,
        strand=strand,
        n=n,
        prev=behind if n else "",
        step="step",
        ts=1_700_000_000_000_000,
        actor="forger",
        kind=KINDS.kind_of(facts).name,
        parents=(behind,) if before else (),
        facts=facts,
        bodies={},
    )
    return KINDS.write(entry)


def test_a_run_that_spent_more_than_its_cap_is_found(log: Reporting) -> None:
    """A writer that leaves its charges out cannot hide what it records."""
    run = ReportedRun(log.ledger, RUN, source=CAPPED)
    # The second call is one too many.
    for span in ("a", "b"):
        run.add(f"span/{span}", Draft("begin", "chat", replace(BEGIN, span=span)))
        run.add(f"span/{span}", Draft("end", "chat", replace(STEP, span=span, usd=DOLLAR)))
    run.close()
    whole, bundle = log.verify(), log.verify_bundle()

    problems = {finding.problem for finding in whole.findings}
    assert problems == {Problem.REPORT_INVALID, Problem.TABLE_MISMATCH}, whole
    assert [finding.problem for finding in bundle.findings] == [Problem.REPORT_INVALID], bundle
    assert "has used 2000000000 nano-dollars, and may use 1000000000" in bundle.findings[0].detail


def test_a_bill_above_its_reservation_is_an_overrun_and_no_fraud(log: Reporting) -> None:
    """The money is spent: the record says so, and only later calls are refused."""
    run = ReportedRun(log.ledger, RUN, source=CAPPED)
    run.begin(replace(BEGIN, usd=DOLLAR))
    run.end(replace(STEP, usd=3 * DOLLAR))
    run.close()

    assert log.verify().findings == ()
    assert log.verify_bundle().findings == ()


def test_an_altered_account_of_an_open_run_is_found(log: Reporting) -> None:
    """The account decides whether a call may be made, so it must follow from the entries."""
    run = ReportedRun(log.ledger, RUN, source=CAPPED)
    run.begin(BEGIN)
    assert log.verify().findings == ()
    effects = (BudgetCharge(RUN, BEGIN.reserved._replace(usd=-DOLLAR, calls=0), guarded=False),)
    run.main.append(
        replace(Draft("gap/1", "x", ReportGapFacts(GapReason.OVERFLOW, 1)), effects=effects)
    )

    assert {finding.problem for finding in log.verify().findings} == {Problem.TABLE_MISMATCH}
