"""The file of a pack: one archive in canonical form, with a manifest of everything in it.

The manifest detects damage.  What detects forgery are the checkpoints, the entries between them,
and the figures that follow from these.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal

import msgspec

from forum import tlog
from forum.errors import Malformed
from forum.features.evidence.attestation import make_statement, sign_statement
from forum.features.evidence.control_maps import ControlMap
from forum.features.evidence.log_part import EarlierEntry, LogPart, decode_lines, encode_lines
from forum.features.evidence.report import FORMAT, OLD_FORMAT, Arguments, PackReport
from forum.ledger.bundle import PACK_END, BundleFileLine, PastCheckpoint, check_past_count
from forum.ledger.entry import is_label
from forum.ledger.zip_archive import Archive, ByteSource, pack_archive

MANIFEST, ATTESTATION = "manifest.json", "attestation.dsse.json"
REPORT, ENTRY_LIST = "report.json", "entries.csv"
SCHEMA = "report.schema.json"
PAGE = "report.html"
"""Only in packs of release 0.2: today the verifier of the reader draws the page."""
POLICY = "policy"
START, END = "log/start.note", PACK_END
EDGE, CONSISTENCY = "log/edge", "log/consistency"
MAX_SEEN = 3
"""How many checkpoints between the two trees can decide which entries are in the period."""
ENTRIES, EARLIER = "log/entries.jsonl", "log/earlier.jsonl"
KEY_ENTRY, KEY_PROOF = "log/attestation-key.json", "log/attestation-key.tlog-proof"
NOT_EVIDENCE = (
    "README.txt, policy, report.schema.json, sbom.cdx.json, verify.html and verify.py, whatever "
    "they say: they are not evidence; take such files from a release, and the policy from people"
)
"""What every verifier lists as not checked of the files that are enclosed for convenience."""
EXTRAS = ("README.txt", "sbom.cdx.json", "verify.html", "verify.py")
_FIXED = frozenset(
    (
        *(MANIFEST, ATTESTATION, REPORT, ENTRY_LIST, SCHEMA, POLICY, END, EDGE, CONSISTENCY),
        *(ENTRIES, EARLIER, KEY_ENTRY, KEY_PROOF, *EXTRAS),
    )
)
_MAP = re.compile(r"maps/([a-z0-9][a-z0-9-]{0,63})\.json").fullmatch
_PAST = re.compile(r"(log/past/[0-9]{16})\.(?:note|consistency)").fullmatch
_SEEN = re.compile(r"log/seen/[0-9]{16}\.note").fullmatch
_BUNDLE = re.compile(r"runs/[^/]{1,400}\.zip").fullmatch

README = """\
An evidence pack of Forum: what a transparency log shows about a period, or about an incident.

Nothing in this file says that anything holds: whoever made it could write that too.  The page for
people is drawn by your own verifier, with your keys, and says what it found:

    forum verify THIS.zip --policy POLICY --page report.html

POLICY is your trust file, the keys that you trust.  Take it from the people who run the log, by
another way than this file, and the verifier from a release: a forger would enclose forged ones.

report.json    The figures, with the query of each; report.schema.json describes it.
entries.csv    Every entry of the period, one line each, without contents.
log/           The bytes of every entry between two signed checkpoints, and what proves them.
runs/          A bundle for each sampled and each named run: its entries, proofs and contents.
maps/          The maps of duties that were used.

To check it, with Python alone:       python3 verify.py THIS.zip --policy POLICY
To check one run, with Python alone:  python3 verify.py runs/RUN.zip --policy POLICY
To check it, or one run, in a browser: open verify.html

Each computes every figure of report.json again from log/.  A figure that was changed, a run that
was left out, another sample and another map are found, and named.

If there is a file log/start.note, the entries do not begin with the log.  Then nothing shows that
no entry from before the period is missing in log/earlier.jsonl: grants, retention, holds, steps of
runs that were open.  If that matters, ask for a pack from the beginning of the log.

Nothing here is legal advice.
"""


class PackManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of files in a pack, other than itself and the attestation about it."""

    v: Literal["forum/evidence/1", "forum/evidence/2"]
    origin: str
    files: tuple[BundleFileLine, ...]


class AttestationKey(msgspec.Struct, frozen=True):
    """The entry that publishes the key of the attestation, with its proof."""

    entry: bytes
    proof: tlog.TlogProof


def part_files(part: LogPart) -> dict[str, bytes]:
    """Return the files of the log part."""
    past = {
        f"log/past/{tlog.parse_checkpoint(earlier.note).size:016}": earlier for earlier in part.past
    }
    files = {START: part.start} if part.start else {}
    files |= {f"log/seen/{tlog.parse_checkpoint(note).size:016}.note": note for note in part.seen}
    files |= {f"{name}.note": earlier.note for name, earlier in past.items()}
    files |= {f"{name}.consistency": encode_lines(e.proof) for name, e in past.items()}
    return files | {
        END: part.end,
        EDGE: encode_lines(part.edge),
        CONSISTENCY: encode_lines(part.consistency),
        ENTRIES: b"".join(data + b"\n" for data in part.entries),
        EARLIER: b"".join(msgspec.json.encode(entry) + b"\n" for entry in part.earlier),
    }


def encode_manifest(origin: str, files: Mapping[str, bytes], *, is_old: bool = False) -> bytes:
    """Return the manifest of files; `is_old` gives the one of release 0.2."""
    lines = tuple(
        BundleFileLine(name, len(files[name]), sha256(files[name]).hexdigest())
        for name in sorted(files)
    )
    manifest = PackManifest(OLD_FORMAT if is_old else FORMAT, origin, lines)
    return msgspec.json.encode(manifest) + b"\n"


def seal_pack(
    origin: str, files: Mapping[str, bytes], report: PackReport, key: tlog.SigningKey
) -> bytes:
    """Return the archive of files, with their manifest and the attestation about it."""
    manifest = encode_manifest(origin, files)
    statement = make_statement(sha256(manifest).hexdigest(), report)
    attestation = sign_statement(statement, key)
    return pack_archive({**files, MANIFEST: manifest, ATTESTATION: attestation})


class PackReader:
    """A well-formed pack, not yet verified.  Raises `Malformed` for anything else."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self._archive = Archive(source)
        self.names = frozenset(self._archive.members)
        if END not in self.names or MANIFEST not in self.names:
            raise Malformed("pack", "it is no evidence pack, or its log part is missing")
        self.manifest = self.read(MANIFEST)
        manifest = self._check_manifest()
        self.origin, self.is_old = manifest.origin, manifest.v == OLD_FORMAT
        fixed = _FIXED | {PAGE} if self.is_old else _FIXED
        if missing := fixed - self.names:
            raise Malformed("pack", f"{min(missing)} is missing")
        names = (_MAP, _BUNDLE, _PAST) if self.is_old else (_MAP, _BUNDLE, _PAST, _SEEN)
        for name in sorted(self.names - fixed - {START}):
            if not any(matches(name) for matches in names):
                raise Malformed("pack", f"{name[:80]!r} is a file of no known kind")

    def read(self, name: str) -> bytes:
        """Return the content of a file.  Raises `KeyError`."""
        return self._archive.read(name)

    @property
    def bundles(self) -> frozenset[str]:
        """The names of the bundles."""
        return frozenset(name for name in self.names if _BUNDLE(name))

    def read_part(self) -> LogPart:
        """Return the log part.  Raises `Malformed`."""
        entries = self.read(ENTRIES).split(b"\n")
        earlier = self.read(EARLIER).split(b"\n")
        if entries.pop() or earlier.pop():
            raise Malformed("pack", "the last line of the log part does not end")
        past = sorted({match[1] for match in map(_PAST, self.names) if match})
        check_past_count(len(past))
        seen = sorted(filter(_SEEN, self.names))
        if len(seen) > MAX_SEEN:
            raise Malformed("log/seen", f"{len(seen)} checkpoints; the most is {MAX_SEEN}")
        for name in sorted(self.names & {START, END}):
            try:
                tlog.parse_checkpoint(self.read(name))
            except Malformed as error:
                raise Malformed(name, str(error)) from None
        try:
            decoder = msgspec.json.Decoder(EarlierEntry)
            return LogPart(
                origin=self.origin,
                start=self.read(START) if START in self.names else None,
                end=self.read(END),
                edge=decode_lines(self.read(EDGE)),
                consistency=tuple(map(tlog.Hash, decode_lines(self.read(CONSISTENCY)))),
                entries=tuple(entries),
                earlier=tuple(map(decoder.decode, earlier)),
                seen=tuple(map(self._read_seen, seen)),
                past=tuple(map(self._read_past, past)),
            )
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            raise Malformed("pack", f"the log part: {error}") from None

    def _read_seen(self, name: str) -> bytes:
        note = self.read(name)
        if not name.endswith(f"/{tlog.parse_checkpoint(note).size:016}.note"):
            raise Malformed(name, "it is a checkpoint of another size")
        return note

    def _read_past(self, name: str) -> PastCheckpoint:
        if not self.names.issuperset((f"{name}.note", f"{name}.consistency")):
            raise Malformed(name, "the checkpoint or its proof is missing")
        proof = decode_lines(self.read(f"{name}.consistency"))
        note = self.read(f"{name}.note")
        if not name.endswith(f"/{tlog.parse_checkpoint(note).size:016}"):
            raise Malformed(name, "it is a checkpoint of another size")
        return PastCheckpoint(note, tuple(map(tlog.Hash, proof)))

    def read_arguments(self) -> Arguments:
        """Return what was asked for.  Raises `Malformed`."""
        try:
            report = msgspec.json.decode(self.read(REPORT), type=_ReportHead)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise Malformed("report.json", str(error)) from None
        return report.arguments

    def read_maps(self) -> tuple[ControlMap, ...]:
        """Return the maps in the pack, by name.  Raises `Malformed`."""
        return tuple(self._read_map(name) for name in sorted(self.names) if _MAP(name))

    def read_attestation_key(self) -> AttestationKey:
        """Return the entry that publishes the key of the attestation.  Raises `Malformed`."""
        data = self.read(KEY_PROOF)
        proof = tlog.TlogProof.parse(data)
        if proof.encode() != data:
            raise Malformed(KEY_PROOF, "it is not in canonical form")
        return AttestationKey(self.read(KEY_ENTRY), proof)

    def _read_map(self, name: str) -> ControlMap:
        try:
            return msgspec.json.decode(self.read(name), type=ControlMap)
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            raise Malformed(name, str(error)) from None

    def _check_manifest(self) -> PackManifest:
        """Return the manifest.  Raises `Malformed` unless it lists exactly the other files."""
        try:
            manifest = msgspec.json.decode(self.manifest, type=PackManifest)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise Malformed("pack", f"no readable manifest: {error}") from None
        if not is_label(manifest.origin):
            raise Malformed("pack", "its origin is no label")
        members = self._archive.members
        there = tuple(
            BundleFileLine(name, member.size, member.digest.hex())
            for name, member in members.items()
            if name not in (MANIFEST, ATTESTATION)
        )
        if manifest.files != there:
            listed = {line.name: line for line in manifest.files}
            lines_by_name = {line.name: line for line in there}
            names = [
                n
                for n in sorted({*listed, *lines_by_name})
                if listed.get(n) != lines_by_name.get(n)
            ]
            raise Malformed("pack", f"{(names or ['a file'])[0]} is not as the manifest lists it")
        return manifest


class _ReportHead(msgspec.Struct, frozen=True):
    v: Literal["forum/evidence/1", "forum/evidence/2"]
    arguments: Arguments


def report_schema() -> bytes:
    """Return the JSON Schema of `report.json`."""
    return (
        msgspec.json.format(msgspec.json.encode(msgspec.json.schema(PackReport)), indent=1) + b"\n"
    )
