"""A small log over a few days, packs of it, and changes to packs by somebody who has every key."""

import secrets
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from forum.app import KINDS
from forum.features.evidence import pack_file
from forum.features.evidence.attestation import (
    EVIDENCE_STRAND,
    attestation_key_name,
    make_statement,
    sign_statement,
)
from forum.features.evidence.audit import MAX_LISTED, PackResult, record_check, verify_pack
from forum.features.evidence.control_maps import ControlMap
from forum.features.evidence.gathering import PackContents, collect_files, gather_part
from forum.features.evidence.log_part_audit import check_log_part
from forum.features.evidence.page import draw_old_page
from forum.features.evidence.report import Arguments, PackReport, make_report
from forum.features.evidence.service import shipped_maps
from forum.features.evidence.verified_page import draw_pack_page
from forum.features.oversight.kinds import (
    CONFIGURATION_PARTS,
    ConfigurationChangeFacts,
    ConfigurationFacts,
    IncidentCloseFacts,
    IncidentOpenFacts,
    IncidentSeverity,
    ReviewFacts,
)
from forum.ledger import kinds
from forum.ledger.body import text_content
from forum.ledger.entry import Facts
from forum.ledger.key_rotation import sign_key_addition
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Cosigner
from forum.ledger.sequencer import Publication, Sequencer
from forum.ledger.strand import Attachment, Draft, Strand
from forum.ledger.witness_records import WitnessRecorder
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.runs.kinds import (
    Authority,
    GateDecisionByFacts,
    GateOpenFacts,
    StopFacts,
    StopReason,
)
from forum.runs.policy import Answer
from forum.runs.report_kinds import (
    GapReason,
    Operation,
    ReportGapFacts,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
    span_strand,
)
from forum.tlog import Hash, SigningKey, WitnessPolicy
from forum.verify import Trust, standalone
from tests.features.evidence.drawn_pages import check_pages_agree
from tests.verify.page import page_verifier
from tests.verify.world import LOCAL, SECOND, START, World

DAY = 86_400 * SECOND
FIRST_DAY = START // DAY * DAY + DAY
"""The first midnight after the log began."""
EXTRAS = {name: f"{name}\n".encode() for name in pack_file.EXTRAS}

Files = dict[str, bytes]


class Audited(World):
    """A log with a key for attestations."""

    def __init__(self, folder: Path, *witnesses: str) -> None:
        super().__init__(folder, *(witnesses or (LOCAL,)), kinds=KINDS)
        self.attestation_key = SigningKey(b"e" * 32, attestation_key_name(self.key.name))
        facts = sign_key_addition(self.key.name, 0, self.key, self.attestation_key)
        self.ledger.append_log_entry(Draft("add/key", "operator", facts), EVIDENCE_STRAND)
        self.settle()

    def at(self, day: int, second: int = 0) -> None:
        """Set the clock to a moment of a day of the log."""
        self.now = FIRST_DAY + day * DAY + second * SECOND

    def report_run(
        self,
        run: str,
        outcome: Outcome = Outcome.OK,
        *,
        close: bool = True,
        model: str = "swan-2",
        relayed_by: str = "",
    ) -> None:
        """Record a run that another program told of, with a call of a model and a tool."""
        source = ReportSourceFacts(ReportProvenance.WRAPPED, "key-1", trace=relayed_by)
        main = self.ledger.open_run(run, "alice", Draft("source", "alice", source))
        call = ReportStepFacts(
            op=Operation.MODEL,
            name="chat",
            outcome=Outcome.OK,
            span="a1",
            model=model,
            provider="lake",
            input_tokens=40,
            output_tokens=2,
            usd=1_500_000,
            prices="2026-11",
        )
        tool = ReportStepFacts(op=Operation.TOOL, name="mail", outcome=outcome, span="a2")
        for step in (call, tool):
            strand = self.ledger.open_strand(run, span_strand(step.span))
            strand.append(Draft("step", "alice", step, _head(main)))
        if close:
            self.ledger.close_run(main, "alice", outcome)

    def settle_at(self, day: int, second: int = 0) -> Publication:
        """Sign and cosign at a moment."""
        self.at(day, second)
        return self.settle()


class Recorded(Audited):
    """A log that records the cosignatures of its checkpoints."""

    def settle(self, *asked: Cosigner) -> Publication:
        """Sequence with records, sign, and ask the witnesses."""
        self.sequence()
        return self.publish(*asked)

    def sequence(self) -> None:
        """Sequence with records, which the clock of the log dates."""
        recorder = WitnessRecorder(self.store, self.policy.witness_keys)
        Sequencer(self.store, writer=self.ledger.writer, composers=(recorder,)).drain()


def make_log(folder: Path) -> Audited:
    """Return a log of five days with runs that end well, fail, wait, are stopped and have gaps."""
    world = Audited(folder)
    world.at(0, 10)
    world.report_run("early", close=False)
    world.report_run("before")
    for key in ("k1", "k2"):
        scopes = (kinds.GrantScope.READ,)
        granted = kinds.AccessGrantFacts(key, f"name of {key}", scopes, "0" * 64)
        world.ledger.append_log_entry(Draft(f"grant/{key}", "operator", granted), "access")
    _record(world, "config", CONFIGURATION)
    _record_configuration(world, ConfigurationChangeFacts("0.3.0", ("engine",)))
    world.settle_at(0, 60)
    for day in (1, 2, 3):
        world.at(day, 100)
        for number in range(3):
            failed = (day, number) == (2, 1)
            world.report_run(f"run-{day}{number}", Outcome.FAILED if failed else Outcome.OK)
        world.settle_at(day, 200)
    world.at(3, 300)
    _add_gate(world, "run-gate")
    world.ledger.close_run(world.ledger.open_strand_at_end("early", "main"), "alice", Outcome.OK)
    main = world.ledger.open_run("run-gap", "alice")
    main.append(Draft("source", "alice", ReportSourceFacts(ReportProvenance.REPORTED, "key-1")))
    main.append(Draft("gap", "alice", ReportGapFacts(GapReason.OVERFLOW, 7)))
    main.append(Draft("stop", "gateway", StopFacts(StopReason.BUDGET, "usd")))  # an overrun
    denial = kinds.AccessDenialFacts("mallory", kinds.DenialReason.UNKNOWN, "runs.create", 4)
    world.ledger.append_log_entry(Draft("deny", "server", denial), "denials")
    revoked = kinds.AccessRevocationFacts("k1")
    world.ledger.append_log_entry(Draft("revoke/k1", "operator", revoked), "access")
    world.settle_at(3, 400)
    _add_oversight(world)
    world.settle_at(3, 500)
    world.settle_at(5, 0)
    world.run("late")
    world.settle_at(5, 60)
    return world


def _add_gate(world: Audited, run: str) -> None:
    main = world.ledger.open_run(run, "bob")
    gate = world.ledger.open_strand(run, "gate/plan")
    shown = Attachment("shown", text_content("the plan"))
    opened = GateOpenFacts("plan", 60_000, Answer.REJECT)
    gate.append(Draft("open", actor="engine", facts=opened, parents=_head(main), bodies=(shown,)))
    world.now += 90 * SECOND
    decision = GateDecisionByFacts(Answer.APPROVE, sha256(b"the plan").hexdigest(), Authority.KEY)
    gate.append(Draft("decide", "carol", decision))
    main.append(Draft("stop", "engine", StopFacts(StopReason.BUDGET, "usd")))
    world.ledger.close_run(main, "engine", Outcome.FAILED)


CONFIGURATION = ConfigurationFacts(
    engine="0.2.0", roster="a" * 64, policies="b" * 64, models="c" * 64, tools="d" * 64
)


def _record(world: Audited, strand: str, facts: Facts, actor: str = "operator") -> None:
    world.ledger.append_log_entry(Draft(secrets.token_hex(8), actor, facts), strand)


def _record_configuration(world: Audited, facts: ConfigurationChangeFacts) -> None:
    bodies = tuple(Attachment(part, text_content(part)) for part in CONFIGURATION_PARTS)
    draft = Draft(secrets.token_hex(8), "system", facts, bodies=bodies)
    world.ledger.append_log_entry(draft, "config")


def _add_oversight(world: Audited) -> None:
    """Record what people do about a log: change it, look at it, hold and erase contents."""
    changed = ConfigurationChangeFacts("0.3.0", ("models",), ("tools",))
    _record_configuration(world, changed)
    review = ReviewFacts(Authority.OPERATOR, since=0, until=40, stops=1, denials=4)
    _record(world, "reviews", review)
    known = world.now - 60 * SECOND
    severity = IncidentSeverity.HIGH
    opened = IncidentOpenFacts(
        "1f2e3d4c", severity, by=Authority.OPERATOR, known=known, runs=("run-gate",)
    )
    _record(world, "incidents", opened)
    _record(world, "incidents", IncidentCloseFacts("1f2e3d4c", Authority.OPERATOR))
    _record(world, "retention", kinds.RetentionFacts("call/prompt", 90 * 86_400))
    for act in (kinds.HoldAct.PLACE, kinds.HoldAct.RELEASE):
        _record(world, "retention", kinds.HoldFacts("case-7", act, ("run-10",)))
    gate = world.ledger.find_entry("run-gate/gate/plan/0")
    world.ledger.request_redaction(gate, "shown", "operator", kinds.RedactionReason.REQUEST)


def _head(strand: Strand) -> tuple[Hash, ...]:
    """Return the last entry of a strand, as a cause."""
    assert strand.head is not None
    return (strand.head,)


def period(first: int, last: int, **changes: object) -> Arguments:
    """Return the arguments for the days from the first until the last."""
    arguments = Arguments(
        since=FIRST_DAY + first * DAY,
        until=FIRST_DAY + last * DAY,
        sample=3,
        seed="",
        incident="",
        maps=("ai-act", "soc2"),
    )
    return msgspec.structs.replace(arguments, **changes)


def compute(world: Audited, arguments: Arguments) -> tuple[Files, PackReport]:
    """Return the files of a pack, and its report."""
    maps = [shipped_maps()[name] for name in arguments.maps]
    with world.store.snapshot() as reader:
        part = gather_part(reader, KINDS, world.policy, arguments)
        report = make_report(part, arguments, maps, world.policy)
        key = world.attestation_key.verifier()
        contents = PackContents(part, report, world.policy, key, extras=EXTRAS)
        return collect_files(reader, KINDS, contents), report


def make_old(
    world: Audited, arguments: Arguments, policy: WitnessPolicy | None = None
) -> "PackBytes":
    """Return a pack as release 0.2 made it: with a page, and with what its maker found."""
    policy = policy or world.policy
    maps = [shipped_maps()[name] for name in arguments.maps]
    with world.store.snapshot() as reader:
        # That release held no checkpoints between the two trees.
        gathered = gather_part(reader, KINDS, world.policy, arguments)
        part = msgspec.structs.replace(gathered, seen=())
        check = check_log_part(part, KINDS, Trust(policy=policy), arguments)
        report = make_report(part, arguments, maps, record_check(check))
        key = world.attestation_key.verifier()
        files = collect_files(
            reader, KINDS, PackContents(part, report, world.policy, key, extras=EXTRAS)
        )
    files[pack_file.POLICY] = policy.encode()
    files[pack_file.PAGE] = draw_old_page(report).encode()
    return PackBytes(seal_old(world, files, report))


def seal_old(world: Audited, files: Files, report: PackReport) -> bytes:
    """Return the archive of a pack as release 0.2 made it."""
    manifest = pack_file.encode_manifest(world.key.name, files, is_old=True)
    statement = make_statement(sha256(manifest).hexdigest(), report)
    attestation = sign_statement(statement, world.attestation_key)
    sealed = {pack_file.MANIFEST: manifest, pack_file.ATTESTATION: attestation}
    return pack_archive({**files, **sealed})


class PackBytes(bytes):
    """A pack that a failing test does not print."""

    def __repr__(self) -> str:
        return f"<pack of {len(self)} bytes>"


def make(world: Audited, arguments: Arguments) -> PackBytes:
    """Return a pack."""
    files, report = compute(world, arguments)
    data = pack_file.seal_pack(world.key.name, files, report, world.attestation_key)
    return PackBytes(data)


def verify(data: bytes, trust: Trust, maps: Mapping[str, ControlMap] | None = None) -> PackResult:
    """Verify a pack, as a reader does who has this release, or these maps."""
    return verify_pack(data, KINDS, trust, shipped_maps() if maps is None else maps)


def draw(data: bytes, trust: Trust) -> str:
    """Return the page of a pack, as the verifier of this reader draws it.

    `verify.html` must draw the same one of every pack that it can read.
    """
    result = verify(data, trust)
    drawn = draw_pack_page(result, trust, sha256(data).hexdigest(), "forum")
    page = page_verifier()
    if page is not None and not result.is_unread:
        is_old = result.report is not None and bool(result.report.check)
        check_pages_agree(drawn, page.draw(data, _trust_alone(trust)), is_old=is_old)
    return drawn


def verify_twice(data: bytes, trust: Trust) -> PackResult:
    """Verify a pack with both verifiers.

    The stand-alone one must agree, except about what it says that it does not check.  The page
    must say the very same as that one.
    """
    result = verify(data, trust)
    _check_agreement(result, verify_alone(data, trust))
    return result


def verify_alone(data: bytes, trust: Trust) -> dict[str, Any]:
    """Verify a pack with the stand-alone verifier."""
    alone = _trust_alone(trust)
    report = standalone.verify_pack(data, alone)
    page = page_verifier()
    if page is not None:
        _check_page_agrees(report, page.verify(data, alone))
    return report


def _trust_alone(trust: Trust) -> standalone.BundleTrust:
    """Return the trust of a reader for the stand-alone verifier, and for the page."""
    policy = standalone.BundlePolicy(trust.policy.encode()) if trust.policy else None
    if policy is not None:
        policy.text = trust.policy.encode()  # type: ignore[attr-defined, union-attr]
    keys = [standalone.read_key(str(key)) for key in trust.keys]
    return standalone.BundleTrust(keys, policy, list(trust.remembered))


def _check_page_agrees(alone: dict[str, Any], page: dict[str, Any]) -> None:
    """Compare the page with the stand-alone verifier: all but why something cannot be computed."""
    for report in (alone, page):
        for finding in report["findings"]:
            if finding["detail"].startswith("cannot be computed"):
                finding["detail"] = "cannot be computed"
        for claim in standalone.PACK_CLAIMS:
            cut = report[claim]["reason"].partition("cannot be computed")
            report[claim] = {**report[claim], "reason": "".join(cut[:2])}
    assert page == alone


def _check_agreement(result: PackResult, alone: dict[str, Any]) -> None:
    ours = {(str(f.problem), f.row) for f in result.findings if f.problem != "page-changed"}
    ours = {(problem, row) for problem, row in ours if not row.startswith("check ")}
    theirs = {(f["problem"], f["row"]) for f in alone["findings"]}
    problems = {problem for problem, _ in ours | theirs}
    claims = ["intact", "complete", "independent"]
    if problems & {"pack-altered", "log-part"}:
        # What is wrong with the log part, or cannot be read, is told in other words.
        assert bool(ours) == bool(theirs), (ours, theirs)
    else:
        claims.append("attested")
        assert ours == theirs or result.found >= MAX_LISTED
    for claim in claims:
        assert alone[claim]["state"] == str(getattr(result, claim).state), (claim, alone)


def forge(data: bytes, world: Audited, change: Callable[[Files], None]) -> bytes:
    """Change files of a pack, and make manifest and attestation anew, with the right key."""
    files = unpack_archive(data)
    report = msgspec.json.decode(files["report.json"], type=PackReport)
    del files[pack_file.MANIFEST], files[pack_file.ATTESTATION]
    change(files)
    if report.check:
        return seal_old(world, files, report)
    return pack_file.seal_pack(world.key.name, files, report, world.attestation_key)


def replace(name: str, *changes: tuple[bytes, bytes]) -> Callable[[Files], None]:
    """Return a change of the text of one file."""

    def change(files: Files) -> None:
        for old, new in changes:
            assert old in files[name], old
            files[name] = files[name].replace(old, new, 1)

    return change


def rows(result: PackResult) -> Mapping[str, str]:
    """Return the problem of each row that was found."""
    return {finding.row: str(finding.problem) for finding in result.findings}
