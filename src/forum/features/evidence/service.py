"""Making evidence packs: what a log shows about a period or an incident, in one file."""

import os
import time
from collections.abc import Sequence
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from forum import __version__, tlog
from forum.app import Forum
from forum.app.bill_of_materials import list_installed_parts
from forum.app.clock_ids_and_kinds import KINDS, OPERATOR, now
from forum.errors import EvidenceRefused
from forum.features.evidence import gathering, pack_file
from forum.features.evidence.attestation import EVIDENCE_STRAND, attestation_key_name
from forum.features.evidence.audit import PackResult, verify_pack
from forum.features.evidence.control_maps import ControlMap, ReviewStatus, read_map
from forum.features.evidence.log_part import LogPart
from forum.features.evidence.report import Arguments, PackReport, make_report
from forum.features.evidence.verified_page import draw_pack_page
from forum.ledger.entry import LOG_RUN, leaf_of
from forum.ledger.key_rotation import sign_key_addition
from forum.ledger.kinds import KeyAddV2Facts, RunCloseFacts
from forum.ledger.log import find_entry, read_opening, read_strand_entries
from forum.ledger.strand import Draft
from forum.verify import Trust

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_MAX_WAIT = 2 * _SECOND
"""How far the end of a period may be ahead of the clock: up to there, making the pack waits."""


class EvidenceRequest(Struct, frozen=True):
    """What a pack is to be about."""

    since: int | None = None
    """In microseconds since 1970; None for the beginning of the log, or of the incident's day."""
    until: int | None = None
    """None for now, or for the end of the incident's run."""
    maps: tuple[ControlMap, ...] = ()
    sample: int = 0
    seed: str = ""
    incident: str = ""
    """A run; empty for a period."""


class EvidencePack(Struct, frozen=True):
    """A pack, and its report."""

    data: bytes
    report: PackReport


def shipped_maps() -> dict[str, ControlMap]:
    """Return the maps that come with Forum, by name."""
    folder = files("forum.features.evidence") / "maps"
    texts = {
        item.name: item.read_bytes() for item in folder.iterdir() if item.name.endswith(".toml")
    }
    maps = [read_map(data, name, KINDS) for name, data in sorted(texts.items())]
    return {control_map.name: control_map for control_map in maps}


def choose_maps(names: Sequence[str], *, unreviewed: bool) -> tuple[ControlMap, ...]:
    """Return the maps of these names; a name that ends with `.toml` is a file of the user's.

    Raises `EvidenceRefused` for an unknown map, and for one that nobody has reviewed unless
    `unreviewed` says that it may be used.
    """
    shipped = shipped_maps()
    chosen: dict[str, ControlMap] = {}
    for name in names:
        if name.endswith(".toml"):
            control_map = read_map(Path(name).read_bytes(), name, KINDS)
            if control_map.name in shipped:
                why = f"{name} has the name of a map of Forum, {control_map.name}: choose another"
                raise EvidenceRefused(why)
        elif name in shipped:
            control_map = shipped[name]
        else:
            raise EvidenceRefused(f"there is no map {name}; there are {', '.join(shipped)}")
        if chosen.setdefault(control_map.name, control_map) != control_map:
            raise EvidenceRefused(f"two maps have the name {control_map.name}: choose another")
    unread = [m.name for m in chosen.values() if m.review.status is ReviewStatus.UNREVIEWED]
    if unread and not unreviewed:
        raise EvidenceRefused(
            f"nobody has compared the map {unread[0]} with the original texts; to use it with a "
            "mark on every page: --unreviewed"
        )
    ids = [query.id for control_map in chosen.values() for query in control_map.queries]
    if doubled := [query_id for query_id in ids if ids.count(query_id) > 1]:
        raise EvidenceRefused(f"two maps have a query {doubled[0]}: choose another id")
    return tuple(chosen[name] for name in sorted(chosen))


def verify_pack_file(path: Path, trust: Trust) -> PackResult:
    """Verify the evidence pack in a file."""
    from forum.stores.state_files import FileByteSource

    with path.open("rb") as file:
        return verify_pack(FileByteSource(file.fileno()), KINDS, trust, shipped_maps())


def draw_verified_page(path: Path, result: PackResult, trust: Trust) -> str:
    """Return the page for people about the pack in a file, as it was verified."""
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return draw_pack_page(result, trust, digest, f"forum {__version__}")


class EvidenceOperations:
    """Makes evidence packs."""

    def __init__(self, forum: Forum) -> None:
        self._project, self._log = forum, forum.log
        self._reads = forum.reads

    def make_pack(
        self,
        request: EvidenceRequest,
        verify_page: bytes,
        actor: str = OPERATOR,
        patience: float = 0.0,
    ) -> EvidencePack:
        """Return a pack, after recording the export of every run in it in signed entries.

        `verify_page` is the page that verifies bundles in a browser.  If another machine signs,
        wait for its checkpoint for at most `patience` seconds.  Raises `EvidenceRefused`.
        """
        key = self._publish_key()
        arguments = self._read_arguments(request, patience)
        self._log.publish(patience)
        policy = self._project.policy.without_marks()
        with self._project.open_reader() as reader:
            is_covered = gathering.find_edge(reader, policy, arguments.until).behind is not None
        if not is_covered:
            # Nothing was signed since the end of the period.  The export of the log itself is
            # recorded in any case; recorded now, it gives a checkpoint that covers the period.
            self._record_export(LOG_RUN, actor)
            self._log.publish(patience)
        part, report = self._gather(arguments, request, policy)
        # Recorded and signed before anything leaves the ledger.
        exported = {bundle.run for bundle in report.bundles}
        self._publish_exports(
            [*sorted(exported), *([LOG_RUN] if is_covered else [])], actor, patience
        )
        if self._find_end(arguments.until, policy) != part.end:
            # With these entries, the log recorded who cosigned the tree behind the period.
            part, report = self._gather(arguments, request, policy)
            # A cosignature that was too late for the record draws nothing: another sample.
            added = {bundle.run for bundle in report.bundles} - exported
            self._publish_exports(sorted(added), actor, patience)
        verifier = (files("forum.verify") / "standalone.py").read_bytes()
        extras = {
            "README.txt": pack_file.README.encode(),
            "sbom.cdx.json": list_installed_parts(),
            "verify.html": verify_page,
            "verify.py": verifier,
        }
        with self._project.open_reader() as reader:
            contents = gathering.collect_files(
                reader,
                KINDS,
                gathering.PackContents(part, report, policy, key=key.verifier(), extras=extras),
            )
        return EvidencePack(pack_file.seal_pack(part.origin, contents, report, key), report)

    def _gather(
        self, arguments: Arguments, request: EvidenceRequest, policy: tlog.WitnessPolicy
    ) -> tuple[LogPart, PackReport]:
        """Return the log part of a pack, and the report that follows from it."""
        with self._project.open_reader() as reader:
            part = gathering.gather_part(reader, KINDS, policy, arguments)
            return part, make_report(part, arguments, request.maps, policy)

    def _find_end(self, until: int, policy: tlog.WitnessPolicy) -> bytes | None:
        with self._project.open_reader() as reader:
            return gathering.find_end(
                reader, KINDS, policy, until, edge=gathering.find_edge(reader, policy, until)
            )

    def _publish_exports(self, runs: Sequence[str], actor: str, patience: float) -> None:
        for run in runs:
            self._record_export(run, actor)
        if runs:
            self._log.publish(patience)

    def _publish_key(self) -> tlog.SigningKey:
        """Return the key of attestations, and publish it in the log unless it is there.

        The key of the log signs that: otherwise every writer could publish a key of its own.
        Raises `EvidenceRefused` on a machine that does not sign the log.
        """
        from forum.stores.state_files import lock_file, read_key, write_key

        path = self._project.settings.data / "evidence.key"
        name = attestation_key_name(self._project.origin)
        with lock_file(path):
            key = read_key(path) if path.exists() else None
            if key is None or key.name != name:  # none yet, or that of an earlier epoch of the log
                key = tlog.SigningKey(os.urandom(32), name)
                write_key(path, key)
            # After a crash before this line the key is in its file, and published by the next pack.
            vkey, ledger = str(key.verifier()), self._project.ledger
            published = read_strand_entries(ledger, LOG_RUN, EVIDENCE_STRAND)
            if any(
                isinstance(entry.facts, KeyAddV2Facts) and entry.facts.vkey == vkey
                for _, entry in published
            ):
                return key
            if not self._project.is_signer:
                raise EvidenceRefused(
                    "the machine that signs the log has not signed the key of attestations here; "
                    f"make the first pack there, and copy its {path.name} to {path.parent}"
                )
            size = self._project.store.head().size
            facts = sign_key_addition(self._project.origin, size, self._project.key, key)
            draft = Draft(f"add/{key.verifier().key_id.hex()}/signed", OPERATOR, facts)
            ledger.append_log_entry(draft, EVIDENCE_STRAND)
        return key

    def _record_export(self, run: str, actor: str) -> None:
        store = self._project.store
        # The log's own run may be long; what leaves of it are the entries, which have no bodies.
        count = 0 if run == LOG_RUN else sum(1 for _ in store.entries_of_run(run))
        self._project.ledger.record_export(run, count, store.head().size, actor)

    def _read_arguments(self, request: EvidenceRequest, patience: float) -> Arguments:
        since, until = request.since, request.until
        run = self._reads.find_run(request.incident) if request.incident else ""
        if run:
            first, last = self._find_times(run, patience)
            since = first - _DAY if since is None else since
            until = last if until is None else until
        beginning = self._find_beginning()
        until = now() if until is None else until
        # Witnesses state whole seconds: only a whole second can be compared with theirs.
        until = -(-until // _SECOND) * _SECOND
        if since is not None and since >= until:
            raise EvidenceRefused("the period ends before it begins")
        if until <= beginning:
            raise EvidenceRefused("the period ends before the log begins")
        # A period before the log would only add empty days to the charts.
        since = beginning if since is None else max(since, beginning)
        ahead = until - now()
        if ahead > _MAX_WAIT:
            raise EvidenceRefused("the period ends in the future; choose an end that has passed")
        time.sleep(max(0, ahead) / _SECOND)
        return Arguments(
            since=since,
            until=until,
            sample=request.sample,
            seed=request.seed,
            incident=run,
            maps=tuple(control_map.name for control_map in request.maps),
        )

    def _find_beginning(self) -> int:
        """Return the first moment of the day on which the log begins."""
        return KINDS.read(read_opening(self._project.store)).ts // _DAY * _DAY

    def _find_times(self, run: str, patience: float) -> tuple[int, int]:
        """Return when a run began, and the moment after its end, or now.

        It has ended when witnesses have seen its end: they decide what is in the period.
        """
        self._log.publish(patience)
        read = [(data, KINDS.read(data)) for _, data in self._project.store.entries_of_run(run)]
        begun = min(entry.ts for _, entry in read)
        closes = [data for data, entry in read if isinstance(entry.facts, RunCloseFacts)]
        if not closes:
            return begun, now()
        with self._project.open_reader() as reader:
            index = find_entry(reader, KINDS, leaf_of(closes[0]).hex()).index
            seen = (
                gathering.find_first_seen(reader, self._project.policy, index)
                if index is not None
                else 0
            )
        return begun, seen + _SECOND if seen else max(entry.ts for _, entry in read) + 1
