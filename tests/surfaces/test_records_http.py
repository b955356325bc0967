"""The ledger over HTTP: read page by page, proven, verified and taken along by strangers."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from forum.app import KINDS, Forum, new_run_id
from forum.errors import GuardMissing
from forum.features.evidence.audit import verify_pack
from forum.features.evidence.service import shipped_maps
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN, leaf_of
from forum.ledger.kinds import NoteFacts, Outcome, RedactionReason, Scope
from forum.ledger.log import read_strand_entries
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Draft
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from forum.tlog import (
    TILE_WIDTH,
    Hash,
    TlogProof,
    TreeView,
    check_inclusion,
    entries_path,
    hash_leaf,
    open_checkpoint,
)
from forum.verify import Trust, verify_bundle
from tests.e2e.project import eventually, project
from tests.surfaces.halls import showing
from tests.surfaces.serving import Served, served
from tests.tlog.trees import compute_root, decode_entry_bundle, list_tiles

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a project that has carried something out."""
    with served(tmp_path_factory.mktemp("served") / "project") as made:
        made.submit()
        yield made


def is_signed(there: Served) -> bool:
    """Tell whether witnesses have seen everything that was recorded."""
    store = there.project.forum.store
    if any(True for _ in store.unsequenced_entries()):
        return False
    newest = there.client.get("/api/v1/checkpoint").json()
    return bool(newest["witnessed"]) and newest["size"] == store.head().size


def test_long_json_is_compressed_and_nothing_else(there: Served) -> None:
    """A page of entries shrinks; a stream must not wait, and tiles stay their bytes."""
    eventually(lambda: is_signed(there))
    run = there.client.get("/api/v1/runs").json()["runs"][0]["run"]
    page = f"/api/v1/entries?run={run}"

    plain = there.client.get(page, headers={"Accept-Encoding": "identity"})
    packed = there.client.get(page, headers={"Accept-Encoding": "br, gzip"})
    refused = there.client.get(page, headers={"Accept-Encoding": "gzip;q=0"})
    others = [
        there.client.get(path, headers={"Accept-Encoding": "gzip"})
        for path in (
            f"/api/v1/runs/{run}/events",
            "/tlog/checkpoint",
            "/api/v1/me",
        )
    ]

    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert packed.json() == plain.json()
    assert packed.headers["cache-control"] == plain.headers["cache-control"]
    assert {"content-encoding"}.isdisjoint(plain.headers.keys() | refused.headers.keys())
    assert [reply.status_code for reply in others] == [200] * 3
    assert [reply.headers.get("content-encoding") for reply in others] == [None] * 3
    assert [reply.headers["vary"] for reply in (plain, packed)] == ["Accept-Encoding"] * 2


def body_at(there: Served, run: str, name: str) -> tuple[str, dict[str, Any]]:
    """Return the address of a body of a run, and the entry that commits to it."""

    def find() -> list[dict[str, Any]]:
        page = there.client.get("/api/v1/entries", params={"run": run, "limit": 1000}).json()
        return [one for one in page["entries"] if name in one["entry"]["bodies"]]

    eventually(lambda: bool(find()))  # an entry gets its index a moment after it was accepted
    entry = find()[0]
    return f"/api/v1/entries/{entry['index']}/bodies/{name}", entry


def read_pages(
    there: Served, run: str, goes_on: Callable[[], bool] = lambda: False
) -> list[tuple[int, str, str]]:
    """Return index, id and run of every entry, page by page, as long as there is more."""
    found: list[tuple[int, str, str]] = []
    after, more = -1, True
    while more or goes_on():
        asked = f"/api/v1/entries?run={run}&after={after}&limit=3"
        page = there.client.get(asked).json()
        found += [(one["index"], one["id"], one["entry"]["run"]) for one in page["entries"]]
        more = page["next"] is not None
        after = page["next"] if more else found[-1][0] if found else -1
    return found


@pytest.mark.parametrize("of_run", [False, True])
def test_pages_neither_miss_nor_repeat_what_is_added_meanwhile(
    there: Served, *, of_run: bool
) -> None:
    """A reader who goes from page to page must come to hold the log, however busy it is."""
    with ThreadPoolExecutor(1) as others:
        run = there.begin() if of_run else ""
        busy = others.submit(lambda: [there.submit() for _ in range(3)])
        meanwhile = read_pages(there, run, lambda: not busy.done())
        busy.result()
    afterwards = read_pages(there, run)

    last = afterwards[-1][0]
    whole = [
        (index, leaf_of(data).hex(), KINDS.read(data).run)
        for index, data in enumerate(there.project.forum.store.entries(0, last + 1))
        if data
    ]
    assert afterwards == [one for one in whole if not of_run or one[2] == run]
    assert meanwhile == afterwards[: len(meanwhile)]


def test_an_entry_is_fetched_once(there: Served) -> None:
    """It never changes: whoever has it under its index or id need not be sent it again."""
    entry = there.client.get("/api/v1/entries/2")
    tag = entry.headers["etag"]
    by_id = there.client.get(f"/api/v1/entries/{entry.json()['id']}")
    by_digits = there.client.get(f"/api/v1/entries/{entry.json()['id'][:16]}")
    again = there.client.get("/api/v1/entries/2", headers={"If-None-Match": f'"x", W/{tag}'})

    assert tag == f'"{entry.json()["id"]}"'
    assert entry.content == by_id.content == by_digits.content
    # What a browser writes to its disk stays there after its user has signed out.
    for answer in (entry, by_id, by_digits):
        assert answer.headers["cache-control"] == "no-store"
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)


def test_a_body_comes_as_bytes_until_it_is_erased(there: Served) -> None:
    """It is somebody's text: no browser may run it, and an erased one is told from a lost page."""
    run = there.submit("<script>alert(1)</script>")
    request, entry = body_at(there, run, "request")
    shown = there.client.get(request)
    eventually(lambda: is_signed(there))
    there.project.forum.log.redact(entry["id"], "request", RedactionReason.REQUEST)
    erased = there.client.get(request, headers={"If-None-Match": shown.headers["etag"]})

    assert shown.content == b"<script>alert(1)</script>"
    assert shown.headers["etag"] == f'"{entry["entry"]["bodies"]["request"]["h"]}"'
    assert shown.headers["content-disposition"] == "attachment"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert erased.status_code == 410
    assert erased.json()["type"] == "urn:forum:problem:body-gone"


def test_a_proof_holds_for_the_entry_that_it_was_asked_for(there: Served) -> None:
    """Both forms are the same proof, and it leads from the served bytes to the signed root."""
    eventually(lambda: is_signed(there))
    document = there.client.get("/api/v1/entries/3").json()
    as_text = there.client.get("/api/v1/entries/3/proof", headers={"Accept": "text/plain"})
    as_json = there.client.get("/api/v1/entries/3/proof").json()

    proof = TlogProof.parse(as_text.content)
    signed, _ = open_checkpoint(proof.note, [there.project.forum.key.verifier()])
    check_inclusion(
        list(proof.hashes), hash_leaf(_raw(there, 3)), proof.index, signed.size, root=signed.root
    )
    assert (as_json["id"], as_json["index"]) == (document["id"], 3)
    assert TlogProof.parse(as_json["proof"].encode()).hashes == proof.hashes


def _raw(there: Served, index: int) -> bytes:
    """Return the bytes of an entry as they stand in the answer."""
    content = there.client.get(f"/api/v1/entries/{index}").content
    return content[content.index(b'"entry":') + len(b'"entry":') : -1]


def test_the_served_tiles_make_the_signed_root(there: Served) -> None:
    """Whoever knows the log's key needs nothing of the server but its checkpoint and its tiles."""
    fill_a_tile(there.project.forum)
    eventually(lambda: is_signed(there))
    note = there.client.get("/tlog/checkpoint").content
    signed, _ = open_checkpoint(note, [there.project.forum.key.verifier()])
    view = TreeView(signed.size, lambda tile, width: served_file(there, tile.path(width)))
    entries = [
        entry
        for tile, width in list_tiles(signed.size)
        if tile.level == 0
        for entry in decode_entry_bundle(served_file(there, entries_path(tile.index, width)))
    ]

    assert signed.size > TILE_WIDTH
    assert view.root() == compute_root([hash_leaf(entry) for entry in entries]) == signed.root


def fill_a_tile(forum: Forum) -> None:
    """Add so many entries that the log has a full tile and a partial one."""
    run = forum.ledger.open_run(new_run_id(), "tester")
    run.append(*(Draft(f"say/{n}", "tester", NoteFacts()) for n in range(TILE_WIDTH)))
    forum.ledger.close_run(run, "tester", Outcome.OK)


def served_file(there: Served, path: str) -> bytes:
    """Return a file of the log; a cache may keep hashes for ever, and no entries."""
    response = there.client.get(f"/tlog/{path}")
    assert response.status_code == 200, path
    caching = "no-store" if path.startswith("tile/entries/") else "immutable"
    assert caching in response.headers["cache-control"]
    return response.content


def test_no_hash_is_served_that_nobody_has_signed(tmp_path: Path) -> None:
    """Caches keep tiles for ever: one of a tree that is never signed would stay in them."""
    with project(tmp_path / "project", None) as made:
        fill_a_tile(made.forum)
        Sequencer(made.forum.store).drain()
        # Without its lifespan the application does not sign.
        app = make_app(ServerConfig([Tenant(made.forum)]))
        client = TestClient(app, "http://localhost", client=("127.0.0.1", 1))
        client.headers.update(showing(made.forum.access.operator_token()))
        paths = ["tile/0/000", "tile/1/000.p/1", "tile/entries/000", "tile/0/000.p/3"]
        unsigned = [client.get(f"/tlog/{path}") for path in paths]
        made.forum.log.publish()
        signed = [client.get(f"/tlog/{path}") for path in paths]

    assert [answer.status_code for answer in unsigned] == [404] * 4
    assert {answer.headers["cache-control"] for answer in unsigned} == {"no-store"}
    assert [answer.status_code for answer in signed] == [200] * 4


def test_a_bundle_verifies_offline_and_whoever_took_it_is_recorded(there: Served) -> None:
    """What leaves the ledger can be checked without it, and does not leave unseen."""
    forum, run = there.project.forum, there.submit()
    key = forum.access.grant("auditor", [Scope.AUDIT])
    bearer = {"Authorization": f"Bearer {key}"}
    taken = there.client.post(f"/api/v1/runs/{run}/bundle", headers=bearer)

    assert taken.headers["content-type"] == "application/zip"
    report = verify_bundle(taken.content, KINDS, Trust(policy=forum.policy))
    assert report.ok, report.findings
    log = there.client.get("/api/v1/entries", params={"run": "log", "limit": 1000}).json()
    (export,) = [e for e in log["entries"] if e["entry"]["facts"].get("run") == run]
    assert export["entry"]["kind"] == "export/1"
    assert export["entry"]["actor"] == f"key/auditor/{key.id}"
    newest = there.client.get("/api/v1/checkpoint").json()
    assert export["index"] < newest["size"]


def test_a_pack_verifies_offline_and_whoever_took_it_is_recorded(there: Served) -> None:
    """An auditor takes it with a key of his own; a file of the server is no map."""
    forum, run = there.project.forum, there.submit()
    key = forum.access.grant("auditor", [Scope.AUDIT])
    bearer = {"Authorization": f"Bearer {key}"}
    ask = {"sample": 200, "maps": ["soc2"], "unreviewed": True}
    taken = there.client.post("/api/v1/evidence", json=ask, headers=bearer)

    assert taken.headers["content-type"] == "application/zip"
    result = verify_pack(taken.content, KINDS, Trust(policy=forum.policy), shipped_maps())
    assert result.ok, result.findings
    log = there.client.get("/api/v1/entries", params={"run": "log", "limit": 1000}).json()
    exports = [e["entry"] for e in log["entries"] if e["entry"]["kind"] == "export/1"]
    mine = [export for export in exports if export["actor"] == f"key/auditor/{key.id}"]
    assert {export["facts"]["run"] for export in mine} >= {run, "log"}
    for wrong in ({"maps": ["/etc/hosts.toml"]}, {"maps": ["soc2"]}, {"since": "never"}):
        refused = there.client.post("/api/v1/evidence", json=wrong, headers=bearer)
        assert refused.status_code in (400, 422), refused.text


def test_an_honest_ledger_is_verified(there: Served) -> None:
    """Auditors have the server check everything, and hear the three words."""
    eventually(lambda: is_signed(there))
    report = there.client.post("/api/v1/verification").json()

    words = [report[name]["state"] for name in ("intact", "complete", "independent")]
    assert (report["ok"], words, report["findings"]) == (True, ["holds"] * 3, [])
    assert report["entries"] == there.project.forum.store.head().size


def _entries_of_runs(there: Served) -> list[tuple[str, str, Hash]]:
    """Return every entry but those of the log's own run, where cosignatures are recorded later."""
    ledger = there.project.forum.ledger
    return [
        (run, strand, leaf)
        for run in ledger.store.runs("", 1000)
        if run != LOG_RUN
        for strand in ledger.store.strands(run)
        for leaf, _ in read_strand_entries(ledger, run, strand)
    ]


def test_a_run_is_replayed_over_http_as_on_the_command_line(there: Served) -> None:
    """An auditor without a shell on the machine sees whether the answer follows from the record."""
    run = there.submit()
    before = _entries_of_runs(there)
    same = there.client.post(f"/api/v1/runs/{run}/replay")
    after = _entries_of_runs(there)
    waiting = there.client.post(
        "/api/v1/runs", json={"request": "Wait.", "gates": {"what": ["plan"]}}
    ).json()["run"]
    early = there.client.post(f"/api/v1/runs/{waiting}/replay")
    unknown = there.client.post("/api/v1/runs/nothing/replay")
    reader = there.project.forum.access.grant("reader", [Scope.READ, Scope.SUBMIT])
    shown = {"Authorization": f"Bearer {reader}"}
    refused = there.client.post(f"/api/v1/runs/{run}/replay", headers=shown)

    document = same.json()
    assert (document["run"], document["equal"], document["count"], document["missing"]) == (
        run,
        True,
        0,
        "",
    )
    assert after == before
    assert [r.status_code for r in (same, early, unknown, refused)] == [200, 409, 404, 403]


def test_a_plan_is_told_and_not_recorded(there: Served) -> None:
    """Whoever asks first what would be done must not have had it done."""
    before = _entries_of_runs(there)
    asked = {
        "request": "Describe a river.",
        "tasks": [
            {"id": "find", "instruction": "Name a river."},
            {"id": "tell", "instruction": "Describe it.", "needs": ["find"]},
        ],
        "gates": {"what": ["task:tell"]},
        "budget": {"usd": "0.25", "seconds": "60"},
    }
    document = there.client.post("/api/v1/plan", json=asked).json()

    assert [(task["id"], task["needs"], task["agent"]) for task in document["tasks"]] == [
        ("find", [], ""),
        ("tell", ["find"], ""),
    ]
    assert (document["team"], document["lane"], document["gates"]) == (False, None, ["task:tell"])
    assert document["cap"] == {"usd": "0.25", "tokens": None, "calls": None, "seconds": 60.0}
    assert _entries_of_runs(there) == before


def test_a_machine_that_does_not_sign_waits_for_the_one_that_does(tmp_path: Path) -> None:
    """Any server can hand out bundles; only the one that remembers what it signed signs."""
    with project(tmp_path / "project", None) as made:
        signer = made.forum
        remark, _ = signer.log.record_note(text_content("hello"))
        elsewhere = replace(
            signer.settings, state=tmp_path / "elsewhere", policy=signer.policy_file
        )
        with Forum(elsewhere) as other:
            with signer.log.open_writer():
                bundle = other.log.export(remark.entry.run, "somebody", patience=30.0)
            with pytest.raises(GuardMissing):
                other.log.export(remark.entry.run, "somebody")

    report = verify_bundle(bundle, KINDS, Trust(policy=signer.policy))
    assert report.ok, report.findings
