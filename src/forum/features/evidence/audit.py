"""Verification of an evidence pack: every figure is computed again from the log part.

The report and the list of entries are functions of the log part, the maps and the arguments.  They
are made again and compared, so that one changed figure is found and named.  Nothing in a pack says
that anything holds: the page for people is drawn from the result of this verification.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from hashlib import sha256
from itertools import zip_longest
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from forum import tlog
from forum.errors import Malformed, ProofRejected, SignatureRejected
from forum.features.evidence import attestation, pack_file
from forum.features.evidence.control_maps import ControlMap, encode_map, find_namesake
from forum.features.evidence.counted_times import CountedBy, CountedTimes
from forum.features.evidence.entry_list import list_entries
from forum.features.evidence.log_part import LogPart, read_part_entry
from forum.features.evidence.log_part_audit import LogPartCheck, check_log_part
from forum.features.evidence.pack_file import PackReader
from forum.features.evidence.page import draw_old_page
from forum.features.evidence.period_audit import find_period_problem
from forum.features.evidence.queries import find_query_set
from forum.features.evidence.report import (
    Arguments,
    PackReport,
    RecordCheck,
    RecordClaim,
    encode_report,
    make_report,
)
from forum.features.evidence.sample_seed import SeedSource, find_witness_seed
from forum.ledger.bundle import BundleReader
from forum.ledger.entry import LOG_RUN, MAX_CLOCK_SKEW_US
from forum.ledger.key_rotation import read_key_addition
from forum.ledger.kinds import KeyAddFacts, KeyAddV2Facts, Kinds
from forum.ledger.zip_archive import ByteSource
from forum.verify.bundle_audit import verify_bundle
from forum.verify.log_keys import LogKeys
from forum.verify.report import NOTHING_CHECKED, ClaimResult, Findings, State, WitnessState
from forum.verify.trust import Trust

Progress = Callable[[int, int], None]

MAX_LISTED = 100
_ROW = re.compile(r'data-row="([^"]*)"').search
_ABSENT = "(absent)"
_EVERYTHING = ("everything in it",)
SEED_OF_MAKER = (
    "whether the maker of the log influenced the draw of the sample: the seed is the root of the "
    "tree, which he can choose; bring a seed of your own"
)
SEED_OF_UNKNOWN_WITNESSES = (
    "whether the maker of the log influenced the draw of the sample: the seed comes from witnesses "
    "that you do not mark as independent"
)
SEED_OF_OTHERS = (
    "whether the maker of the log influenced the draw of the sample: by your trust file, other "
    "cosignatures draw it; bring a seed of your own (--seed)"
)
SEED_OF_WITNESSES = (
    "whether the maker of the log chose among later trees and cosignatures: the log part has no "
    "record of those that draw the sample; bring a seed of your own (--seed), which excludes that"
)
SEED_OF_RECORD = (
    "how often the maker of the log asked the witnesses before he recorded what they cosigned, and "
    "whether he recorded all of it: bring a seed of your own (--seed), which excludes that"
)
CLAIMS_OF_MAKER = (
    "what the enclosed report.html and report.json say that their maker found (check): read the "
    "page that forum verify --page draws with your keys"
)
COUNTED_BY_WITNESSES = (
    "whether the maker left out a checkpoint that witnesses saw near an end of the period: that "
    "moves an entry only between the times at which they saw the enclosed ones"
)
COUNTED_BY_WRITERS = (
    "when entries were written: at an end of the period, no witness decides which of them are in "
    "it, but the time that the writer of each says"
)
_NO_REPORT = "no report follows from the log part"
_NOT_SIGNED = "no key that you trust has signed both trees, so that no figure was computed"


class _FigureId(msgspec.Struct, frozen=True):
    id: str


class _FigureIds(msgspec.Struct, frozen=True):
    """The part of a report by which the release is found that made it."""

    figures: tuple[_FigureId, ...]


class SeedWitness(msgspec.Struct, frozen=True):
    """A witness whose cosignature draws the sample, and whether the reader calls it independent."""

    name: str
    independent: bool


class PackProblem(StrEnum):
    """What can be found wrong with a pack, beyond what is wrong with its log part."""

    PACK_ALTERED = "pack-altered"
    LOG_PART = "log-part"
    """A finding about the log part; the detail begins with its problem."""
    PERIOD_CHANGED = "period-changed"
    """Other checkpoints than those that decide which entries are in the period."""
    FIGURE_CHANGED = "figure-changed"
    PAGE_CHANGED = "page-changed"
    LIST_CHANGED = "list-changed"
    SAMPLE_CHANGED = "sample-changed"
    MAP_CHANGED = "map-changed"
    BUNDLE_MISSING = "bundle-missing"
    BUNDLE_REJECTED = "bundle-rejected"
    ATTESTATION_REJECTED = "attestation-rejected"


class PackFinding(msgspec.Struct, frozen=True):
    """One thing that is wrong with a pack, and the row or file that it is about."""

    problem: PackProblem
    row: str
    detail: str

    def __str__(self) -> str:
        return f"{self.problem} at {self.row}: {self.detail}"


class PackResult(msgspec.Struct, frozen=True):
    """What was checked of a pack, what was found, and what was not checked."""

    origin: str
    size: int
    root: str
    since: str
    until: str
    intact: ClaimResult
    complete: ClaimResult
    independent: ClaimResult
    figures: ClaimResult
    """Whether every figure follows from the entries of the log part."""
    attested: ClaimResult
    """Whether a key that the log published has signed the manifest."""
    findings: tuple[PackFinding, ...]
    found: int
    not_checked: tuple[str, ...]
    witnessing: WitnessState = WitnessState.NONE
    report: PackReport | None = None
    """The report that follows from the entries; None if none does, or nobody has signed them."""
    compared_maps: tuple[str, ...] = ()
    """The maps that are equal to the reader's own of the same name."""
    seed_witnesses: tuple[SeedWitness, ...] = ()
    counted_by: str = ""
    """What decides which entries are in the period; empty if no report was computed."""

    @property
    def is_unread(self) -> bool:
        """Whether nothing was checked: it could not be read, or it is of another log."""
        return self.not_checked == _EVERYTHING

    @property
    def ok(self) -> bool:
        """Whether all claims hold."""
        claims = (self.intact, self.complete, self.independent, self.figures, self.attested)
        return not self.found and {claim.state for claim in claims} == {State.HOLDS}


def record_check(check: LogPartCheck) -> RecordCheck:
    """Return a check of a log part as a report of release 0.2 states it."""

    def state(claim: ClaimResult) -> RecordClaim:
        return RecordClaim(str(claim.state), claim.reason)

    return RecordCheck(state(check.intact), state(check.complete), state(check.independent))


def verify_pack(
    source: ByteSource,
    kinds: Kinds,
    trust: Trust,
    known_maps: Mapping[str, ControlMap],
    progress: Progress = lambda _done, _all: None,
) -> PackResult:
    """Check one pack, and return the result; unreadable content is a finding, not an exception.

    `known_maps` are the maps that the reader has: a map of the same name and version must be equal.
    """
    try:
        pack = PackReader(source)
        if foreign := trust.describe_foreign(pack.origin, "pack"):
            finding = PackFinding(PackProblem.LOG_PART, "log part", foreign)
            return _unread_result(pack.origin, foreign, NOTHING_CHECKED, finding)
        audit = _PackAudit(pack, kinds, trust, pack.read_arguments())
        return audit.run(known_maps, progress)
    except Malformed as error:
        return _refuse_pack(error.what, error.why)
    except RecursionError:
        return _refuse_pack("pack", "JSON is nested too deeply")


def _refuse_pack(row: str, detail: str) -> PackResult:
    """Return the result of a pack that could not be read."""
    finding = PackFinding(PackProblem.PACK_ALTERED, row, detail)
    return _unread_result("", str(finding), "the pack could not be read", finding)


def _unread_result(origin: str, intact: str, others: str, finding: PackFinding) -> PackResult:
    """Return the result of a pack of which nothing was checked."""
    unread = ClaimResult(State.NOT_CHECKED, others)
    return PackResult(
        origin=origin,
        size=0,
        root="",
        since="",
        until="",
        intact=ClaimResult(State.FAILS, intact),
        complete=unread,
        independent=unread,
        figures=unread,
        attested=unread,
        findings=(finding,),
        found=1,
        not_checked=_EVERYTHING,
    )


class _PackAudit:
    """The state of one verification of a pack."""

    def __init__(self, pack: PackReader, kinds: Kinds, trust: Trust, arguments: Arguments) -> None:
        self._pack, self._kinds = pack, kinds
        self._trust = trust
        self._arguments = arguments
        self._part: LogPart = pack.read_part()
        self._end = tlog.parse_checkpoint(self._part.end)
        self._findings: list[PackFinding] = []
        self._not_checked: list[str] = []
        self._compared_maps: list[str] = []
        self._seed_witnesses: tuple[SeedWitness, ...] = ()
        self._bundle_files: dict[str, str] = {}
        self._is_signed = False
        self._bytes_left = trust.max_bytes
        """How many bytes the bodies of the bundles to come may have: the limit is the file's."""

    def run(self, known_maps: Mapping[str, ControlMap], progress: Progress) -> PackResult:
        """Check the log part, the figures, the maps, the bundles and the attestation."""
        check = check_log_part(self._part, self._kinds, self._trust, self._arguments)
        for finding in check.findings:
            row = "log part" if finding.index is None else f"log entry {finding.index}"
            self._add(PackProblem.LOG_PART, row, f"{finding.problem}: {finding.detail}")
        # Nothing is computed from trees that nobody whom the reader trusts has signed: a forger
        # could make that expensive.
        computes = check.is_readable and check.is_signed
        self._is_signed = check.is_signed
        report = self._compute_report() if computes else None
        self._check_maps(known_maps)
        figures = self._check_figures(report, check)
        if report is not None:
            self._check_bundles(report, progress)
        self._trust = check.trust  # with the keys that follow from the log's own key rotations
        attested = self._check_attestation(report, check.keys)
        self._list_not_checked(report)
        return PackResult(
            origin=self._pack.origin,
            size=self._end.size,
            root=self._end.root.hex(),
            since=report.since if report else "",
            until=report.until if report else "",
            intact=check.intact,
            complete=check.complete,
            independent=check.independent,
            figures=figures,
            attested=attested,
            findings=tuple(self._findings[:MAX_LISTED]),
            found=len(self._findings),
            not_checked=tuple(self._not_checked),
            witnessing=check.witnessing,
            report=report,
            compared_maps=tuple(self._compared_maps),
            seed_witnesses=self._seed_witnesses,
            counted_by=(report.counted_by or CountedBy.WRITER) if report else "",
        )

    def _add(self, problem: PackProblem, row: str, detail: str) -> None:
        self._findings.append(PackFinding(problem, row, detail))

    def _compute_report(self) -> PackReport | None:
        """Return the report that follows from the log part, or None if none does."""
        try:
            policy = self._read_policy()
            maps = self._pack.read_maps()
            named = tuple(control_map.name for control_map in maps)
            if named != self._arguments.maps:
                self._add(PackProblem.MAP_CHANGED, "maps", f"the pack holds {', '.join(named)}")
            queries = find_query_set(self._read_figure_ids())
            basis = self._check_as_maker(policy) if self._pack.is_old else policy
            return make_report(self._part, self._arguments, maps, basis, queries=queries)
        except Malformed as error:
            self._add(PackProblem.PACK_ALTERED, error.what, error.why)
            return None
        except (KeyError, OverflowError, ValueError) as error:
            # A map that names no query, or a time that is none: no maker writes that.
            self._add(PackProblem.PACK_ALTERED, "report.json", f"cannot be computed: {error!r}")
            return None

    def _read_policy(self) -> tlog.WitnessPolicy:
        """Return the enclosed policy, which nobody need believe.  Raises `Malformed`."""
        return tlog.WitnessPolicy.parse(self._pack.read(pack_file.POLICY))

    def _check_as_maker(self, policy: tlog.WitnessPolicy) -> RecordCheck:
        """Return what release 0.2 stated: what its maker found with the enclosed policy."""
        maker = Trust(policy=policy)
        return record_check(check_log_part(self._part, self._kinds, maker, self._arguments))

    def _read_figure_ids(self) -> list[str]:
        """Return the ids of the figures in report.json; none if it is malformed."""
        try:
            report = msgspec.json.decode(self._pack.read(pack_file.REPORT), type=_FigureIds)
        except (msgspec.MsgspecError, UnicodeError):
            return []  # the comparison reports it
        return [figure.id for figure in report.figures]

    def _check_figures(self, report: PackReport | None, check: LogPartCheck) -> ClaimResult:
        if report is None:
            return ClaimResult(State.NOT_CHECKED, _NO_REPORT if check.is_signed else _NOT_SIGNED)
        before = len(self._findings)
        self._compare_report(report)
        policy = None if self._pack.is_old else self._read_policy()
        if self._pack.is_old:
            self._compare_page(report)
        times = CountedTimes(self._part, policy)
        if policy and (detail := self._find_period_problem(times, policy)):
            self._add(PackProblem.PERIOD_CHANGED, "log/seen", detail)
        listed = list_entries(self._part, self._arguments, times)
        if self._pack.read(pack_file.ENTRY_LIST) != listed:
            row = self._first_changed_line(listed)
            self._add(PackProblem.LIST_CHANGED, f"entries.csv {row}", "not what the entries say")
        if len(self._findings) > before:
            return ClaimResult(State.FAILS, str(self._findings[before]))
        if reason := self._find_doubt(check, times):
            return ClaimResult(State.NOT_CHECKED, reason)
        files = "figures, the page and the list" if self._pack.is_old else "figures and the list"
        return ClaimResult(State.HOLDS, f"{len(report.figures)} {files} follow from the entries")

    def _find_doubt(self, check: LogPartCheck, times: CountedTimes) -> str:
        """Return why figures that follow from the entries do not hold, or nothing."""
        if check.intact.state is not State.HOLDS or check.complete.state is State.FAILS:
            return "they follow from the log part of this pack, which is not proven"
        if strangers := self._find_strangers():
            # The page of release 0.2 says that they cosigned: its maker may have invented them.
            return f"report.html names a witness that your trust file does not: {strangers[0]}"
        return "" if self._pack.is_old else self._doubt_period(times)

    def _doubt_period(self, times: CountedTimes) -> str:
        """Return why the witnesses of the reader do not show what is in the period, or nothing."""
        policy = self._trust.policy
        if policy is None:
            return "you named no trust file, so that nothing shows which entries are in the period"
        theirs = CountedTimes(self._part, policy)
        if problem := self._find_period_problem(theirs, policy):
            return f"by your trust file, other checkpoints decide what is in the period: {problem}"
        pairs = zip(times.all, theirs.all, strict=True)
        if any(abs(a - b) > MAX_CLOCK_SKEW_US for a, b in pairs if a):
            return "the witnesses of your trust file saw the checkpoints at other times"
        return ""

    def _find_period_problem(self, times: CountedTimes, policy: tlog.WitnessPolicy) -> str:
        return find_period_problem(self._part, times, policy, self._arguments)

    def _find_strangers(self) -> list[str]:
        """Return the witnesses that the page in a pack may name and the reader does not know."""
        if not self._pack.is_old or self._trust.policy is None:
            return []
        keys = set(self._trust.policy.witness_keys)
        return [key.name for key in self._read_policy().witness_keys if key not in keys]

    def _first_changed_line(self, computed: bytes) -> str:
        packed = self._pack.read(pack_file.ENTRY_LIST).split(b"\r\n")
        for line, (a, b) in enumerate(zip_longest(packed, computed.split(b"\r\n")), 1):
            if a != b:
                return f"line {line}"
        return "line ends"

    def _compare_report(self, report: PackReport) -> None:
        """Add a finding for each member of report.json that does not follow from the log part."""
        data, computed = self._pack.read(pack_file.REPORT), encode_report(report)
        if data == computed:
            return
        try:
            packed = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeError) as error:
            self._add(PackProblem.FIGURE_CHANGED, "report.json", str(error))
            return
        before = len(self._findings)
        for row, there, here in _differences("", packed, msgspec.json.decode(computed)):
            problem = PackProblem.FIGURE_CHANGED
            if row.startswith(("sample", "bundles")):
                problem = PackProblem.SAMPLE_CHANGED
            elif row.startswith("maps"):
                problem = PackProblem.MAP_CHANGED
            self._add(problem, row, f"report.json says {there}; the entries give {here}")
        if len(self._findings) == before:
            self._add(PackProblem.FIGURE_CHANGED, "report.json", "it is not in its canonical form")

    def _compare_page(self, report: PackReport) -> None:
        packed = self._pack.read(pack_file.PAGE)
        computed = draw_old_page(report).encode()
        if packed == computed:
            return
        row = "report.html"
        theirs = packed.decode(errors="replace").split("\n")
        for number, (there, here) in enumerate(
            zip_longest(theirs, computed.decode().split("\n"), fillvalue=""), 1
        ):
            if there != here:
                match = _ROW(here) or _ROW(there)
                row = f"report.html {match[1]}" if match else f"report.html line {number}"
                break
        self._add(PackProblem.PAGE_CHANGED, row, "the page is not the one of this report")

    def _check_maps(self, known_maps: Mapping[str, ControlMap]) -> None:
        """Compare the maps with those that the reader has."""
        try:
            maps = self._pack.read_maps()
        except Malformed as error:
            self._add(PackProblem.MAP_CHANGED, error.what, error.why)
            return
        for control_map in maps:
            name, own_map = control_map.name, known_maps.get(control_map.name)
            if own_map is None:
                if namesake := find_namesake(control_map, known_maps.values()):
                    detail = f"it has the title or a number of the source of map {namesake}"
                    self._add(PackProblem.MAP_CHANGED, f"map {name}", detail)
                self._not_checked.append(f"the text of map {name}, unknown to this program")
                continue
            if own_map.version != control_map.version:
                # Otherwise its maker could soften a text, and call that another version.
                detail = "this program knows no such version of this map"
                self._add(PackProblem.MAP_CHANGED, f"map {name}", detail)
                continue
            if control_map == own_map:
                self._compared_maps.append(name)
            pairs = [msgspec.json.decode(encode_map(m)) for m in (control_map, own_map)]
            for row, there, here in _differences(f"map {name}", *pairs):
                detail = f"the pack says {there}; the map of this version says {here}"
                self._add(PackProblem.MAP_CHANGED, row, detail)

    def _check_bundles(self, report: PackReport, progress: Progress) -> None:
        expected = {bundle.file: bundle.run for bundle in report.bundles}
        self._bundle_files = {run: file for file, run in expected.items()}
        for file in sorted(self._pack.bundles - expected.keys()):
            self._add(PackProblem.SAMPLE_CHANGED, file, "this run was neither drawn nor named")
        entries = self._entries_of(set(expected.values()))
        for number, (file, run) in enumerate(expected.items(), 1):
            if file in self._pack.bundles:
                self._check_bundle(file, run, entries.get(run, {}))
            else:
                self._add(PackProblem.BUNDLE_MISSING, file, f"the bundle of run {run} is missing")
            progress(number, len(expected))

    def _entries_of(self, runs: set[str]) -> dict[str, dict[int, bytes]]:
        """Return the entries of these runs between the two trees, by index."""
        entries: dict[str, dict[int, bytes]] = {}
        for index, data in enumerate(self._part.entries, self._part.first):
            run = read_part_entry(data).run
            if run in runs:
                entries.setdefault(run, {})[index] = data
        return entries

    def _check_bundle(self, file: str, run: str, entries: dict[int, bytes]) -> None:
        """Check a bundle, and that it holds what the log part holds of its run."""
        data = self._pack.read(file)
        trust = replace(self._trust, max_bytes=self._bytes_left)
        result = verify_bundle(data, self._kinds, trust, find_bundle=self._find_bundle)
        for finding in result.findings[:3]:
            self._add(PackProblem.BUNDLE_REJECTED, file, str(finding))
        self._not_checked += [f"{file}: {missing}" for missing in result.not_checked]
        try:
            bundle = BundleReader(data, max_bytes=self._bytes_left)
            self._bytes_left -= bundle.body_bytes
            own = {index: bundle.entry(index) for index in bundle.indexes}
        except Malformed:
            return  # reported by `verify_bundle`
        between = range(self._part.first, self._end.size)
        same = {
            index: entry
            for index, entry in own.items()
            if index in between and read_part_entry(entry).run == run
        }
        if bundle.run != run or same != entries:
            self._add(
                PackProblem.BUNDLE_REJECTED, file, "its entries are not those of the log part"
            )

    def _find_bundle(self, run: str) -> BundleReader | None:
        """Return the bundle of a run in this pack.  Raises `Malformed`."""
        file = self._bundle_files.get(run, "")
        if file not in self._pack.bundles:
            return None
        return BundleReader(self._pack.read(file), max_bytes=self._trust.max_bytes)

    def _check_attestation(self, report: PackReport | None, keys: LogKeys) -> ClaimResult:
        """Check the signature about the manifest, by a key that a key of the log has signed."""
        try:
            key, index, is_signed = self._read_attestation_key(keys)
            statement = attestation.open_envelope(self._pack.read(pack_file.ATTESTATION), key)
        except (Malformed, ProofRejected, SignatureRejected) as error:
            self._add(PackProblem.ATTESTATION_REJECTED, pack_file.ATTESTATION, str(error))
            return ClaimResult(State.FAILS, str(error))
        digest = sha256(self._pack.manifest).hexdigest()
        subjects = [subject.digest.get("sha256") for subject in statement.subject]
        types = (statement.type, statement.predicate_type)
        if types != (attestation.STATEMENT_TYPE, attestation.PREDICATE_TYPE) or subjects != [
            digest
        ]:
            detail = "the statement is not about the manifest of this pack"
            self._add(PackProblem.ATTESTATION_REJECTED, pack_file.ATTESTATION, detail)
            return ClaimResult(State.FAILS, detail)
        if report is None:
            # What the statement claims could not be compared with anything.
            reason = _NO_REPORT if self._is_signed else _NOT_SIGNED
            return ClaimResult(State.NOT_CHECKED, reason)
        if statement != attestation.make_statement(digest, report):
            detail = "the statement claims something else than the report"
            self._add(PackProblem.ATTESTATION_REJECTED, pack_file.ATTESTATION, detail)
            return ClaimResult(State.FAILS, detail)
        unchecked = "" if self._trust.log_keys else "no key of the log was given"
        if not unchecked and not is_signed:
            # Release 0.2 wrote it; but any writer of the log can write the same.
            unchecked = f"no key of the log has signed entry {index}, which publishes {key.name}"
        if unchecked:
            return ClaimResult(State.NOT_CHECKED, unchecked)
        return ClaimResult(
            State.HOLDS, f"signed by {key.name}, a key that the log published as entry {index}"
        )

    def _read_attestation_key(self, keys: LogKeys) -> tuple[tlog.VerifierKey, int, bool]:
        """Return the key that signs attestations, and the index of the entry that publishes it.

        Return as well whether a key of the log has signed that.  Raises `Malformed`,
        `ProofRejected`, `SignatureRejected`.
        """
        published = self._pack.read_attestation_key()
        entry = self._kinds.read(published.entry)
        facts = entry.facts
        place = (entry.log, entry.run, entry.strand)
        if not isinstance(facts, KeyAddFacts | KeyAddV2Facts) or place != (
            self._pack.origin,
            LOG_RUN,
            attestation.EVIDENCE_STRAND,
        ):
            raise Malformed(pack_file.KEY_ENTRY, "it publishes no key for attestations")
        key = tlog.VerifierKey.parse(facts.vkey)
        if key.name != attestation.attestation_key_name(self._pack.origin):
            raise Malformed(pack_file.KEY_ENTRY, f"{key.name} is not the key of attestations")
        checkpoint = tlog.Checkpoint.parse(published.proof.note.text)
        self._open_note(published.proof.note, keys)
        if checkpoint.origin != self._pack.origin:
            raise Malformed(pack_file.KEY_PROOF, "it is of another log")
        leaf, index = tlog.hash_leaf(published.entry), published.proof.index
        tlog.check_inclusion(
            published.proof.hashes, leaf, index, checkpoint.size, root=checkpoint.root
        )
        if isinstance(facts, KeyAddV2Facts):
            self._check_key_signature(facts, index, keys)
        return key, index, isinstance(facts, KeyAddV2Facts)

    def _check_key_signature(self, facts: KeyAddV2Facts, index: int, keys: LogKeys) -> None:
        """Raise `SignatureRejected` unless a key of the log, in use then, signed this key."""
        addition = read_key_addition(facts)
        if index < facts.since or not addition.is_signed(self._pack.origin):
            raise SignatureRejected(pack_file.KEY_ENTRY, "its signatures do not hold")
        if self._trust.log_keys and not keys.may_sign(addition.signer, index + 1):
            raise SignatureRejected(
                pack_file.KEY_ENTRY, "the key that signed it was not the log's key then"
            )

    def _open_note(self, note: tlog.Note, keys: LogKeys) -> None:
        """Check the signatures of the checkpoint that covers the key, as far as keys are known.

        Without witnesses, the log could show another key to another reader.
        """
        trust = self._trust
        if trust.log_keys:
            tlog.open_checkpoint(note, trust.log_keys)
            if not keys.check_signer(note.encode(), Findings()):
                raise SignatureRejected(
                    pack_file.KEY_PROOF, "signed by a key that was not valid at this size"
                )
        if trust.policy is not None:
            cosignatures = tlog.verify_cosignatures(note, trust.policy.witness_keys)
            if not trust.is_satisfied_by(cosignatures):
                raise SignatureRejected(
                    pack_file.KEY_PROOF, "the witnesses of your trust file have not cosigned it"
                )

    def _judge_seed(self, source: SeedSource) -> str:
        """Return what cannot be said about the seed of the sample."""
        match source:
            case SeedSource.AUDITOR:
                return f"who brought the seed {self._arguments.seed!r}: compare it with yours"
            case SeedSource.RECORDED | SeedSource.WITNESSES:
                return self._judge_witness_seed()
            case SeedSource.CHECKPOINT:
                return SEED_OF_MAKER
            case _:
                assert_never(source)

    def _judge_witness_seed(self) -> str:
        """Return what cannot be said about a seed that follows from cosignatures."""
        policy, until = self._trust.policy, self._arguments.until
        drawn = find_witness_seed(self._part, until, self._read_policy())
        marked = policy.independent_keys(self._trust.keys) if policy else ()
        keys = drawn.keys if drawn else ()
        self._seed_witnesses = tuple(SeedWitness(key.name, key in marked) for key in keys)
        # His own witness gives the maker as many cosignatures as he likes.
        if policy is None or not all(witness.independent for witness in self._seed_witnesses):
            return SEED_OF_UNKNOWN_WITNESSES
        # The maker chooses the enclosed policy: one that leaves out a witness draws another sample.
        theirs = find_witness_seed(self._part, until, policy)
        if drawn is None or theirs is None or drawn.seed != theirs.seed:
            return SEED_OF_OTHERS
        return SEED_OF_RECORD if theirs.source is SeedSource.RECORDED else SEED_OF_WITNESSES

    def _list_not_checked(self, report: PackReport | None) -> None:
        if report is not None:
            self._not_checked.append(self._judge_seed(report.sample.seed_from))
            is_witnessed = report.counted_by is CountedBy.WITNESSED
            words = COUNTED_BY_WITNESSES if is_witnessed else COUNTED_BY_WRITERS
            self._not_checked.append(words)
            self._not_checked += [
                f"figure {figure.id}: entries that it follows from are not in the pack"
                for figure in report.figures
                if figure.value is None
            ]
        if self._part.start is not None:
            self._not_checked.append(
                "whether other runs were open when the period began and recorded nothing in it"
            )
            self._not_checked.append(
                "whether entries from before the period are missing: only a pack from the "
                "beginning of the log shows that none is"
            )
        self._not_checked.append(
            "bodies, and the rules between entries, of runs that have no bundle here: "
            "forum ledger verify checks the whole log"
        )
        if self._pack.is_old:
            self._not_checked.append(CLAIMS_OF_MAKER)
        self._not_checked.append(f"the enclosed {pack_file.NOT_EVIDENCE}")


def _differences(row: str, there: Any, here: Any) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401
    """Yield each place where two JSON values differ, with both values; rows go by their ids."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in dict.fromkeys([*here, *there]):
            values = there.get(name, _ABSENT), here.get(name, _ABSENT)
            yield from _differences(f"{row} {name}".strip(), *values)
    elif isinstance(there, list) and isinstance(here, list):
        for number, (a, b) in enumerate(zip_longest(there, here, fillvalue=_ABSENT), 1):
            yield from _differences(f"{row} {_name_item(b, a, number)}", a, b)
    elif there != here or type(there) is not type(here):
        yield row, _shorten(there), _shorten(here)


def _name_item(here: Any, there: Any, number: int) -> str:  # noqa: ANN401
    """Return the id of a row, or its number where it has none."""
    for item in (here, there):
        if isinstance(item, dict):
            for member in ("id", "run", "name", "index"):
                if member in item:
                    return str(item[member])
            if isinstance(item.get("key"), list):
                return " / ".join(map(str, item["key"]))
            if isinstance(item.get("map"), dict):
                return str(item["map"].get("name", number))
    return str(number)


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:80]}…"
