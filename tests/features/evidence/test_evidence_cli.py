"""`forum evidence` and `forum verify PACK`, as somebody types them."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from forum.features.evidence import pack_file
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.verify import standalone
from tests.surfaces.terminal import Terminal

WORDS = ("evidence", "--map", "ai-act", "--unreviewed", "--sample", "5")


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user with a ledger, a run and the policy of the ledger in a file."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    assert terminal.call("submit", "Say hello.", "--cmd", "echo hello").exit_code == 0
    return terminal


def make_pack(user: Terminal, *words: str) -> Path:
    """Write a pack, and return its path."""
    result = user.call(*WORDS, *words, "--output", "pack.zip")
    assert result.exit_code == 0, result.output
    return user.folder / "pack.zip"


def test_a_pack_verifies_and_a_second_one_is_equal(user: Terminal) -> None:
    """Although making the first one has recorded exports."""
    first = make_pack(user).read_bytes()
    until = json.loads(unpack_archive(first)["report.json"])["until"]

    checked = user.call("verify", "pack.zip", "--policy", str(user.policy))
    assert checked.exit_code == 0, checked.output
    assert "✓ Figures" in checked.stdout
    assert make_pack(user, "--until", until).read_bytes() == first
    assert user.ask("ledger", "verify")["ok"]
    exports = user.ask("ledger", "summary")["kinds"]["export/1"]
    assert exports == 4  # of the run and of the log, by each pack


def test_the_page_is_drawn_with_what_was_found(user: Terminal) -> None:
    """With the keys of the reader; with findings too, and never in place of the pack."""
    pack = make_pack(user)
    words = ("verify", "pack.zip", "--policy", str(user.policy), "--page")

    drawn = user.call(*words, "page.html")
    assert drawn.exit_code == 0, drawn.output
    page = (user.folder / "page.html").read_text()
    assert sha256(pack.read_bytes()).hexdigest() in page
    assert "Only the writer's own witnesses have seen it." in page

    assert user.call(*words, "./pack.zip").exit_code == 2
    (user.folder / "note.txt").write_text("no pack")
    assert user.call("verify", "note.txt", "--page", "page.html").exit_code == 2
    files = unpack_archive(pack.read_bytes())
    files["report.json"] = files["report.json"].replace(b'"value": 1,', b'"value": 0,', 1)
    pack.write_bytes(pack_archive(files))
    assert user.call(*words, "page.html").exit_code == 3
    page = (user.folder / "page.html").read_text()
    assert "Not verified: 1 problem was found." in page
    assert "report.json is not as the manifest lists it" in page


def test_a_changed_figure_is_named_and_the_status_is_3(user: Terminal) -> None:
    """Without the key of the attestation, that is refused as well."""
    pack = make_pack(user)
    files = unpack_archive(pack.read_bytes())
    files["report.json"] = files["report.json"].replace(b'"value": 1,', b'"value": 0,', 1)
    pack.write_bytes(pack_archive(files))

    damaged = user.call("verify", "pack.zip", "--policy", str(user.policy))
    assert damaged.exit_code == 3
    assert "report.json is not as the manifest lists it" in " ".join(damaged.stdout.split())

    digest = sha256(files["report.json"]).hexdigest()
    manifest = json.loads(files["manifest.json"])
    for line in manifest["files"]:
        if line[0] == "report.json":
            line[2] = digest
    files["manifest.json"] = json.dumps(manifest, separators=(",", ":")).encode() + b"\n"
    pack.write_bytes(pack_archive(files))

    document = user.ask("verify", "pack.zip", "--policy", str(user.policy))
    rows = {finding["row"]: finding["problem"] for finding in document["findings"]}
    assert not document["ok"]
    assert rows.pop("attestation.dsse.json") == "attestation-rejected"
    ((row, problem),) = rows.items()
    assert (row, problem) == ("figures runs.all value", "figure-changed")


def test_python_alone_checks_a_pack(user: Terminal) -> None:
    """With the verifier of the pack, without any package in reach, and it names the row too."""
    pack = make_pack(user)
    files = unpack_archive(pack.read_bytes())
    (user.folder / "verify.py").write_bytes(files["verify.py"])

    def run_alone() -> tuple[int, str]:
        argv = [sys.executable, "-I", "-S", "verify.py", "pack.zip", "--policy", str(user.policy)]
        done = subprocess.run(argv, cwd=user.folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    status, text = run_alone()
    assert status == 0, text
    assert "figures      holds" in text
    assert "they are not evidence" in text

    files["report.json"] = files["report.json"].replace(b'"value": 1,', b'"value": 0,', 1)
    manifest = pack_file.encode_manifest(
        json.loads(files["manifest.json"])["origin"],
        {n: d for n, d in files.items() if n not in (pack_file.MANIFEST, pack_file.ATTESTATION)},
    )
    pack.write_bytes(pack_archive(files | {pack_file.MANIFEST: manifest}))

    status, text = run_alone()
    assert status == 3
    assert "figure-changed at figures runs.all value: report.json says 0" in text
    assert "attestation-rejected" in text


def test_a_reader_who_pinned_an_earlier_key_follows_its_rotation(user: Terminal) -> None:
    """The pack holds the checkpoint by which the old key signed the new one."""
    old = user.folder / "old"
    old.write_bytes(user.policy.read_bytes())
    assert user.call("keys", "rotate-log", given=b"y\n").exit_code == 0
    user.note("more")
    pack = make_pack(user)
    policies = (str(user.policy), str(old))

    for policy in policies:
        checked = user.call("verify", "pack.zip", "--policy", policy)
        assert checked.exit_code == 0, checked.output
        trusted = standalone.BundlePolicy(Path(policy).read_bytes())
        alone = standalone.verify_pack(pack.read_bytes(), standalone.BundleTrust([], trusted, []))
        assert alone["ok"], alone
    files = unpack_archive(pack.read_bytes())
    assert any(name.startswith("log/past/") for name in files)


def test_an_incident_is_about_one_run(user: Terminal) -> None:
    """Any entry of the run names it."""
    run = user.ask("runs")["runs"][0]["run"]
    result = user.call("evidence", "--incident", run[:13], "--output", "incident.zip")
    assert result.exit_code == 0, result.output
    report = json.loads(unpack_archive((user.folder / "incident.zip").read_bytes())["report.json"])

    assert report["incident"]["run"] == run
    assert report["incident"]["timeline"][-1]["kind"] == "run.close/1"
    assert user.call("verify", "incident.zip", "--policy", str(user.policy)).exit_code == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--map", "ai-act"), "--unreviewed"),
        (("--map", "hipaa"), "there is no map hipaa"),
        (("--from", "2030-01-01"), "ends before it begins"),
        (("--until", "2130-01-01"), "in the future"),
        (("--from", "2020-11-18", "--until", "2021-11-01"), "ends before the log begins"),
        (("--incident", "nothing"), "nothing"),
    ],
)
def test_what_cannot_be_made_is_refused(user: Terminal, words: tuple[str, ...], why: str) -> None:
    """With the reason, and without a file."""
    result = user.call("evidence", *words, "--output", "pack.zip")

    assert result.exit_code != 0
    assert why in str(result.exception)
    assert not (user.folder / "pack.zip").exists()


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_recorded(
    user: Terminal,
) -> None:
    """And what is no pack is not replaced."""
    thesis = user.folder / "thesis.txt"
    thesis.write_text("Years of work.")

    for path, why in (("nowhere/pack.zip", "cannot be written"), (str(thesis), "is no evidence")):
        result = user.call("evidence", "--output", path)
        assert result.exit_code == 2
        assert why in " ".join(result.stderr.split())

    assert thesis.read_text() == "Years of work."
    assert "export/1" not in user.ask("ledger", "summary")["kinds"]


def test_a_bundle_is_still_a_bundle(user: Terminal) -> None:
    """A pack is told from a bundle by what is in it; a bundle of the pack verifies alone."""
    pack = make_pack(user)
    name, data = next(
        (name, data)
        for name, data in unpack_archive(pack.read_bytes()).items()
        if name.startswith("runs/")
    )
    (user.folder / "run.zip").write_bytes(data)

    checked = user.call("verify", "run.zip", "--policy", str(user.policy))

    assert checked.exit_code == 0, (name, checked.output)
    assert "✓ Intact" in checked.stdout
    assert "Figures" not in checked.stdout
