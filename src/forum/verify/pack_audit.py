"""Verification of an evidence pack: every figure is computed again from the log part.

The report, the page and the list of entries are functions of the log part, the maps and the
arguments.  They are made again and compared, so that one changed figure is found and named.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import msgspec

from forum import tlog
from forum.errors import Malformed, ProofRejected, SignatureRejected
from forum.evidence import pack_file
from forum.evidence.attestation import (
    EVIDENCE_STRAND,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    attestation_key_name,
    make_statement,
    open_envelope,
)
from forum.evidence.control_maps import ControlMap, encode_map
from forum.evidence.entry_list import list_entries
from forum.evidence.log_part import LogPart, read_part_entry
from forum.evidence.pack_file import PackReader
from forum.evidence.page import draw_page
from forum.evidence.queries import find_query_set
from forum.evidence.report import (
    Arguments,
    PackReport,
    RecordCheck,
    RecordClaim,
    encode_report,
    make_report,
)
from forum.ledger.bundle import BundleReader
from forum.ledger.entry import LOG_RUN
from forum.ledger.key_rotation import read_key_addition
from forum.ledger.kinds import KeyAddFacts, KeyAddV2Facts, Kinds
from forum.ledger.zip_archive import ByteSource
from forum.verify.bundle_audit import verify_bundle
from forum.verify.log_keys import LogKeys
from forum.verify.log_part_audit import LogPartCheck, check_log_part
from forum.verify.report import NOTHING_CHECKED, ClaimResult, Findings, State, WitnessState
from forum.verify.trust import Trust

Progress = Callable[[int, int], None]

MAX_LISTED = 100
_ROW = re.compile(r'data-row="([^"]*)"').search
_ABSENT = "(absent)"
_EVERYTHING = ("everything in it",)
_NO_REPORT = "no report follows from the log part"
_NOT_SIGNED = "no key that you trust has signed both trees, so that no figure was computed"


class _FigureId(msgspec.Struct, frozen=True):
    id: str


class _FigureIds(msgspec.Struct, frozen=True):
    """The part of a report by which the release is found that made it."""

    figures: tuple[_FigureId, ...]


class PackProblem(StrEnum):
    """What can be found wrong with a pack, beyond what is wrong with its log part."""

    PACK_ALTERED = "pack-altered"
    LOG_PART = "log-part"
    """A finding about the log part; the detail begins with its problem."""
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
    """Return a check of a log part as a report states it."""

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
        self._pack, self._kinds, self._trust = pack, kinds, trust
        self._arguments = arguments
        self._part: LogPart = pack.read_part()
        self._end = tlog.parse_checkpoint(self._part.end)
        self._findings: list[PackFinding] = []
        self._not_checked: list[str] = []
        self._bundle_files: dict[str, str] = {}
        self._is_signed = False

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
        self._list_not_checked()
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
        )

    def _add(self, problem: PackProblem, row: str, detail: str) -> None:
        self._findings.append(PackFinding(problem, row, detail))

    def _compute_report(self) -> PackReport | None:
        """Return the report that follows from the log part, or None if none does."""
        try:
            # The report states what its maker found with the enclosed policy.
            policy = tlog.WitnessPolicy.parse(self._pack.read(pack_file.POLICY))
            maker = Trust(policy=policy)
            check = check_log_part(self._part, self._kinds, maker, self._arguments)
            maps = self._pack.read_maps()
            named = tuple(control_map.name for control_map in maps)
            if named != self._arguments.maps:
                self._add(PackProblem.MAP_CHANGED, "maps", f"the pack holds {', '.join(named)}")
            queries = find_query_set(self._read_figure_ids())
            return make_report(self._part, self._arguments, maps, record_check(check), queries)
        except Malformed as error:
            self._add(PackProblem.PACK_ALTERED, error.what, error.why)
            return None
        except (KeyError, OverflowError, ValueError) as error:
            # A map that names no query, or a time that is none: no maker writes that.
            self._add(PackProblem.PACK_ALTERED, "report.json", f"cannot be computed: {error!r}")
            return None

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
        self._compare_page(report)
        if self._pack.read(pack_file.ENTRY_LIST) != list_entries(self._part, self._arguments):
            row = self._first_changed_line(list_entries(self._part, self._arguments))
            self._add(PackProblem.LIST_CHANGED, f"entries.csv {row}", "not what the entries say")
        if len(self._findings) > before:
            return ClaimResult(State.FAILS, str(self._findings[before]))
        if check.intact.state is not State.HOLDS or check.complete.state is State.FAILS:
            reason = "they follow from the log part of this pack, which is not proven"
            return ClaimResult(State.NOT_CHECKED, reason)
        words = f"{len(report.figures)} figures, the page and the list follow from the entries"
        return ClaimResult(State.HOLDS, words)

    def _first_changed_line(self, computed: bytes) -> str:
        found = self._pack.read(pack_file.ENTRY_LIST).split(b"\r\n")
        for line, (a, b) in enumerate(zip_longest(found, computed.split(b"\r\n")), 1):
            if a != b:
                return f"line {line}"
        return "line ends"

    def _compare_report(self, report: PackReport) -> None:
        """Add a finding for each member of report.json that does not follow from the log part."""
        data, computed = self._pack.read(pack_file.REPORT), encode_report(report)
        if data == computed:
            return
        try:
            found = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeError) as error:
            self._add(PackProblem.FIGURE_CHANGED, "report.json", str(error))
            return
        before = len(self._findings)
        for row, there, here in _differences("", found, msgspec.json.decode(computed)):
            problem = PackProblem.FIGURE_CHANGED
            if row.startswith(("sample", "bundles")):
                problem = PackProblem.SAMPLE_CHANGED
            elif row.startswith("maps"):
                problem = PackProblem.MAP_CHANGED
            self._add(problem, row, f"report.json says {there}; the entries give {here}")
        if len(self._findings) == before:
            self._add(PackProblem.FIGURE_CHANGED, "report.json", "it is not in its canonical form")

    def _compare_page(self, report: PackReport) -> None:
        found = self._pack.read(pack_file.PAGE)
        computed = draw_page(report).encode()
        if found == computed:
            return
        row = "report.html"
        theirs = found.decode(errors="replace").split("\n")
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
            known = known_maps.get(control_map.name)
            if known is None or known.version != control_map.version:
                self._not_checked.append(
                    f"the text of map {control_map.name}, version {control_map.version}: this "
                    "program has no such map"
                )
                continue
            pairs = [msgspec.json.decode(encode_map(m)) for m in (control_map, known)]
            for row, there, here in _differences(f"map {control_map.name}", *pairs):
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
        result = verify_bundle(data, self._kinds, self._trust, find_bundle=self._find_bundle)
        for finding in result.findings[:3]:
            self._add(PackProblem.BUNDLE_REJECTED, file, str(finding))
        self._not_checked += [f"{file}: {missing}" for missing in result.not_checked]
        try:
            bundle = BundleReader(data)
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
        return BundleReader(self._pack.read(file)) if file in self._pack.bundles else None

    def _check_attestation(self, report: PackReport | None, keys: LogKeys) -> ClaimResult:
        """Check the signature about the manifest, by a key that a key of the log has signed."""
        try:
            key, index, is_signed = self._read_attestation_key(keys)
            statement = open_envelope(self._pack.read(pack_file.ATTESTATION), key)
        except (Malformed, ProofRejected, SignatureRejected) as error:
            self._add(PackProblem.ATTESTATION_REJECTED, pack_file.ATTESTATION, str(error))
            return ClaimResult(State.FAILS, str(error))
        digest = sha256(self._pack.manifest).hexdigest()
        subjects = [subject.digest.get("sha256") for subject in statement.subject]
        types = (statement.type, statement.predicate_type)
        if types != (STATEMENT_TYPE, PREDICATE_TYPE) or subjects != [digest]:
            detail = "the statement is not about the manifest of this pack"
            self._add(PackProblem.ATTESTATION_REJECTED, pack_file.ATTESTATION, detail)
            return ClaimResult(State.FAILS, detail)
        if report is None:
            # What the statement claims could not be compared with anything.
            reason = _NO_REPORT if self._is_signed else _NOT_SIGNED
            return ClaimResult(State.NOT_CHECKED, reason)
        if statement != make_statement(digest, report):
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
            EVIDENCE_STRAND,
        ):
            raise Malformed(pack_file.KEY_ENTRY, "it publishes no key for attestations")
        key = tlog.VerifierKey.parse(facts.vkey)
        if key.name != attestation_key_name(self._pack.origin):
            raise Malformed(pack_file.KEY_ENTRY, f"{key.name} is not the key of attestations")
        checkpoint = tlog.Checkpoint.parse(published.proof.note.text)
        self._open_note(published.proof.note, keys)
        if checkpoint.origin != self._pack.origin:
            raise Malformed(pack_file.KEY_PROOF, "it is of another log")
        leaf, index = tlog.hash_leaf(published.entry), published.proof.index
        tlog.check_inclusion(published.proof.hashes, leaf, index, checkpoint.size, checkpoint.root)
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

    def _list_not_checked(self) -> None:
        if self._arguments.seed:
            self._not_checked.append(
                f"who brought the seed {self._arguments.seed!r}: compare it with yours"
            )
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
        self._not_checked.append(
            f"the enclosed {', '.join(pack_file.EXTRAS)} and {pack_file.SCHEMA}: take them "
            "from a release"
        )


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
