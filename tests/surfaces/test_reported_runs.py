"""Runs that Forum does not drive: in every view, with how they are known, and never as whole."""

import re
from pathlib import Path

import pytest

from forum.app import Forum, new_run_id
from forum.config import load_settings
from forum.errors import Malformed, ReportRefused
from forum.features.recorder.public import ReportWriter
from forum.features.recorder.report_items import RunStart
from forum.ledger.body import text_content
from forum.ledger.kinds import NoteFacts, Outcome, RedactionReason
from forum.ledger.strand import Attachment, Draft
from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts, derive_reporter_label
from forum.runs.scores import Score
from tests.conftest import ROOT
from tests.runs.reported import write_sample
from tests.surfaces.halls import lone_hall, open_forum
from tests.surfaces.terminal import Terminal

FIRST, SECOND = "otel-ffff0000ffff0000ffff0000ffff0000", "0af76519-run"
CLAIMS = re.compile(r"complete", re.IGNORECASE)


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user with two reported runs, of which the second failed, and one of notes."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    with forum_of(made) as forum, forum.log.open_writer() as ledger:
        write_sample(ledger, FIRST, "1")
        write_sample(ledger, SECOND, "2", fails=True)
        main = ledger.open_run("notes", "agent:lead")
        main.append(Draft("request", "agent:lead", NoteFacts()))
    return made


def forum_of(user: Terminal) -> Forum:
    """Open the ledger of a user."""
    return Forum(load_settings(user.folder, user.environment))


def test_the_list_names_them_in_the_order_of_their_creation(user: Terminal) -> None:
    """Ids of traces do not sort by time; the newest run must come first all the same."""
    listed = user.ask("runs")["runs"]
    page = user.ask("runs", "--before", SECOND)["runs"]
    user.environment["COLUMNS"] = "120"
    table = user.call("runs").stdout.splitlines()

    assert [run["run"] for run in listed] == ["notes", SECOND, FIRST]
    assert [run["run"] for run in page] == [FIRST]
    assert [run["provenance"] for run in listed] == ["reported", "wrapped", "wrapped"]
    assert [(run["name"], run["spans"], run["gaps"]) for run in listed] == [
        ("agent:lead", 0, 0),
        ("Stock Keeper", 5, 1),
        ("Stock Keeper", 5, 1),
    ]
    assert [run["state"] for run in listed] == ["running", "ended", "ended"]
    assert re.search(r"5 steps +gpt-5 +\$0.11", table[2])
    assert table[2].endswith("Stock Keeper")
    assert "1 note" in table[1]


def test_a_run_is_shown_as_a_tree_with_costs_gaps_and_coverage(user: Terminal) -> None:
    """One screen: who did what within what, what it cost, and what may be missing."""
    shown = user.call("show", SECOND).stdout
    form = user.ask("show", SECOND)

    assert "title    Stock Keeper" in shown
    assert "known    wrapped: calls of the program that were not wrapped are not in it" in shown
    assert "✓ Ann Größe" in shown
    assert re.search(r"├─ ✓ chat +model +gpt-5 +100 +\$0.01", shown)
    assert re.search(r"└─ ✗ search +tool", shown)
    assert "ValueError: bad query" in shown
    assert "part of gone2, which is not recorded" in shown
    assert "12 steps not recorded (overflow)" in shown
    assert "$0.11 of $1.00" in shown
    assert "It failed: tool search ended failed (ValueError): bad query." in shown
    assert [span["name"] for span in form["spans"]].count("Ann Größe") == 1
    assert form["gaps"][0]["steps"] == 12
    assert form["cap"]["usd"] == "1.00"
    assert form["source"] == {
        "by": "process:1",
        "framework": "plain",
        "trace": None,
        "continues": None,
    }


def test_a_continued_trace_is_found_by_what_commands_print(user: Terminal) -> None:
    """Runs that continue a trace begin like it, so its id is printed whole."""
    with forum_of(user) as forum, forum.log.open_writer() as ledger:
        write_sample(ledger, f"{FIRST}.2", "3")
    table = user.call("runs").stdout
    printed = [line.split()[0] for line in table.splitlines() if line.startswith("otel-")]

    assert sorted(printed) == [FIRST, f"{FIRST}.2"]
    assert [user.ask("show", run)["run"] for run in sorted(printed)] == sorted(printed)


def test_no_key_takes_what_forum_prints_for_a_run(tmp_path: Path) -> None:
    """A name that may be taken for the id of a run is refused; a whole id is a name like others."""
    driven = new_run_id()
    forged = [driven[:18], driven[:8], driven[:-1], driven.upper(), f"{driven}-x", "20261118-1200"]
    with lone_hall(tmp_path, operator=True) as (forum, client):
        with forum.log.open_writer() as ledger:
            write_sample(ledger, driven)
        names = [*forged, new_run_id(), "nightly-20261118"]
        starts = [{"type": "start", "run": name, "name": "x"} for name in names]
        answer = client.post("/api/v1/reports", json={"items": starts}).json()
        read = client.get(f"/api/v1/runs/{driven[:18]}")
        run = forum.reads.find_run(driven[:18])

    assert [refusal["item"] for refusal in answer["refused"]] == list(range(len(forged)))
    assert "may be taken for the id of another run" in answer["refused"][0]["why"]
    assert answer["recorded"] == 2
    assert read.status_code == 404
    assert run == driven


def test_no_key_takes_the_id_of_a_child_run(tmp_path: Path) -> None:
    """It follows from parent and task, so that it can be foreseen; the engine alone gives it."""
    foreseen = "0199c0de-1234-8abc-a000-0123456789ab"
    with lone_hall(tmp_path, operator=True) as (_, client):
        starts = [{"type": "start", "run": foreseen, "name": "x"}]
        answer = client.post("/api/v1/reports", json={"items": starts}).json()

    assert answer.get("recorded", 0) == 0
    assert "those of child runs" in answer["refused"][0]["why"]


@pytest.mark.parametrize(
    ("text", "other"),
    [("key/a/b", "key/a-b"), ("key/a/b", "key/a/-b"), ("key/a@b", "key/a-b"), ("key/-a", "key/a")],
)
def test_two_reporters_have_two_names(text: str, other: str) -> None:
    """Otherwise each could add to the runs of the other."""
    assert derive_reporter_label(text) != derive_reporter_label(other)


def test_nobody_adds_to_what_a_gateway_has_relayed(user: Terminal) -> None:
    """Not even the key for which it was relayed: it would say of itself what a gateway says."""
    source = ReportSourceFacts(ReportProvenance.RELAYED, by="ci")
    with forum_of(user) as forum, forum.log.open_writer() as ledger:
        ledger.open_run("relayed-1", "ci", source_draft("relayed-1", "ci", source), new=True)
        with pytest.raises(ReportRefused, match="belongs to another reporter"):
            ReportWriter(ledger, "ci").find_run("relayed-1")


def test_a_name_that_is_also_a_reference_to_a_run_of_another_is_ambiguous(user: Terminal) -> None:
    """The beginning of its name, or an entry of it: neither shows the run of who took it."""
    with forum_of(user) as forum, forum.log.open_writer() as ledger:
        entry = forum.ledger.find_entry(f"{FIRST}/main/0").leaf.hex()[:16]
        mine = ReportWriter(ledger, "mine")
        mine.write([RunStart(run=name, name="x") for name in ("support-0001", "support-0001-b")])
        theirs = [RunStart(run=name, name="x") for name in ("support-00", entry)]
        ReportWriter(ledger, "theirs", is_only_writer=True).write(theirs)

    for name, others in {"support-00": "support-0001, support-0001-b", entry: FIRST}.items():
        assert f"{name} fits" in str(user.call("show", name).exception)
        assert others in str(user.call("gate", "show", name, "plan").exception)
    assert user.ask("show", "support-0001")["run"] == "support-0001"


def test_an_erased_name_leaves_its_label(user: Terminal) -> None:
    """Names may be personal: after their erasure every view shows what stands in for them."""
    with forum_of(user) as forum:
        forum.log.redact(f"{FIRST}/main/1", "names", RedactionReason.REQUEST)
        forum.log.redact(f"{FIRST}/span/agent1/0", "names", RedactionReason.REQUEST)
    form = user.ask("show", FIRST)

    assert form["name"] == "run"
    assert "agent" in {span["name"] for span in form["spans"]}


def test_why_follows_the_span_around_a_span_to_the_source(user: Terminal) -> None:
    """`within` is a cause: without it, all spans would hang on the source side by side."""
    lines = user.call("why", f"{SECOND}/span/call2/1").stdout.splitlines()

    assert lines[0].endswith("100 tokens, $0.01")
    assert "span call2: model chat was about to begin" in lines[1]
    assert "span agent2: agent agent ended: ok" in lines[2]
    assert "the run run is wrapped by process:1 (plain)" in lines[3]


def test_two_runs_are_compared_by_operation_name_and_order(user: Terminal) -> None:
    """Ids of spans are random; the one difference is the search that failed."""
    result = user.call("diff", FIRST, SECOND, "--json")
    shown = user.call("diff", FIRST, SECOND).stdout

    assert result.exit_code == 1
    assert '"count": 1' in result.stdout
    assert "span/agent:agent.1>tool:search.1, end" in shown
    assert "A is wrapped, B is wrapped" in shown
    assert user.call("diff", FIRST, FIRST).exit_code == 0


def test_transcript_watch_scores_and_bundles_show_how_a_run_is_known(user: Terminal) -> None:
    """Whatever shows a run says it, so that nobody has to remember which view does."""
    transcript = user.call("show", FIRST, "--transcript").stdout
    watched = user.call("watch", FIRST)
    with forum_of(user) as forum:
        forum.scores.record(FIRST, Score("good", 900))
        (user.folder / "run.zip").write_bytes(forum.log.export(FIRST))
    bundle = user.call("show", "run.zip").stdout
    verified = user.call("verify", "run.zip", "--policy", str(user.policy))
    ledger = user.call("ledger", "verify")

    assert "known as wrapped" in transcript
    assert "gpt-5: ok, 0.0 s, $0.01, 100 + 0 tokens" in transcript
    assert watched.exit_code == 0
    assert "wrapped, 5 steps" in watched.stderr
    assert "good 0.900" in user.call("show", FIRST).stdout
    assert "known    wrapped" in bundle
    assert verified.exit_code == ledger.exit_code == 0, verified.output + ledger.output
    coverage = "Coverage runs: 1 wrapped; steps known to be missing: overflow 12"
    assert coverage in " ".join(verified.stdout.split())
    assert "runs: 2 wrapped, 1 reported" in ledger.stdout


@pytest.mark.parametrize("command", ["cancel", "replay"])
def test_commands_that_steer_say_that_forum_does_not_drive_it(user: Terminal, command: str) -> None:
    """The list has the run, so "no such run" would be a riddle."""
    refused = user.type(command, FIRST)

    assert refused.returncode != 0
    assert f"Forum does not drive run {FIRST}" in refused.stderr


def test_the_api_tells_the_same(tmp_path: Path) -> None:
    """The members are added to those of driven runs; entries and events need nothing new."""
    with lone_hall(tmp_path, operator=True) as (forum, client):
        with forum.log.open_writer() as ledger:
            write_sample(ledger, FIRST)
        listed = client.get("/api/v1/runs").json()["runs"]
        run = client.get(f"/api/v1/runs/{FIRST}").json()
        events = client.get(f"/api/v1/runs/{FIRST}/events").text
        index = next(span["entry"] for span in run["spans"] if span["op"] == "model")
        why = client.get(f"/api/v1/entries/{index}/causes")

    assert [(line["run"], line["provenance"], line["name"]) for line in listed] == [
        (FIRST, "wrapped", "Stock Keeper")
    ]
    assert (run["provenance"], len(run["spans"]), run["gaps"][0]["why"]) == (
        "wrapped",
        5,
        "overflow",
    )
    assert "event: report.step/1" in events
    assert [cause["entry"]["strand"] for cause in why.json()["causes"]][:3] == [
        "span/call",
        "span/call",
        "span/agent",
    ]


def test_a_run_of_notes_appears(user: Terminal) -> None:
    """Programs of release 0.1 record notes only, and nobody says who told them."""
    with forum_of(user) as forum, forum.log.open_writer() as ledger:
        main = ledger.open_run(new_run_id(), "agent:lead")
        acme = ledger.open_strand(main.run, "task/acme")
        for strand, step, words in ((acme, "result", "Done."), (main, "answer", "Take ACME.")):
            text = Attachment("text", text_content(words))
            strand.append(Draft(step, f"agent:{step}", NoteFacts(), bodies=(text,)))
        ledger.close_run(main, "agent:lead", Outcome.OK)
    run = next(listed for listed in user.ask("runs")["runs"] if listed["run"] == main.run)
    shown = user.call("show", main.run).stdout

    assert (run["provenance"], run["name"], run["outcome"]) == ("reported", "agent:lead", "ok")
    assert "known    reported: what the program did not tell is not in it" in shown
    assert "task/acme: result, by agent:result" in shown
    assert "Take ACME." in user.call("show", main.run, "--transcript").stdout


def test_no_view_calls_a_reported_run_complete(user: Terminal) -> None:
    """Forum knows only what it was told; the one claim of that name is about the record."""
    with forum_of(user) as forum:
        (user.folder / "run.zip").write_bytes(forum.log.export(FIRST))
    views = [
        user.call(*words).output
        for words in (
            ("runs",),
            ("runs", "--json"),
            ("show", FIRST),
            ("show", FIRST, "--json"),
            ("show", FIRST, "--transcript"),
            ("show", "run.zip"),
            ("why", f"{FIRST}/span/call1/1"),
            ("diff", FIRST, SECOND),
            ("bench", FIRST, SECOND),
            ("watch", FIRST),
        )
    ]
    verified = user.call("verify", "run.zip", "--policy", str(user.policy)).output
    claims = [line for line in verified.splitlines() if CLAIMS.search(line)]

    assert [view for view in views if CLAIMS.search(view)] == []
    # The claim is about the record, and its reason says so.
    assert len(claims) == 1
    assert "what was not recorded cannot be missing here" in " ".join(verified.split())


def test_documents_about_reported_runs_never_call_them_complete() -> None:
    """Of a reported run, only the record can be complete; pages must not promise more."""
    pages = [
        page
        for page in (ROOT / "docs").rglob("*.md")
        if re.search(r"report\.(source|step)/1|`(relayed|wrapped|reported)`", page.read_text())
    ]
    words = r"\b(relayed|wrapped|reported|told|gateway|recorder)\b.*\bcomplete\b"
    about = re.compile(words, re.IGNORECASE)
    wrong = [
        (page.name, line)
        for page in pages
        for line in page.read_text().splitlines()
        if about.search(line) and not re.search(r"\b(never|not|no|nothing)\b", line)
    ]

    assert pages
    assert wrong == []


@pytest.mark.parametrize(
    ("member", "run", "step", "actor"),
    [
        ("run", "Größe", "s", "a"),
        ("step", "r", "two words", "a"),
        ("actor", "r", "s", "Stock Keeper"),
    ],
)
def test_an_invalid_label_is_named_by_its_field(
    tmp_path: Path, member: str, run: str, step: str, actor: str
) -> None:
    """A program that derives no labels must learn which of its names was refused."""
    with open_forum(tmp_path) as forum, pytest.raises(Malformed, match=f"the {member} ") as refused:
        forum.ledger.record_run(run, "somebody", Draft(step, actor, NoteFacts()))

    assert "plain ASCII" in str(refused.value)


def test_no_key_ends_the_run_of_another(tmp_path: Path) -> None:
    """Not even one that is closed already: nothing is written, and the reporter learns it."""
    driven = new_run_id()
    with lone_hall(tmp_path, operator=True) as (forum, client):
        with forum.log.open_writer() as ledger:
            write_sample(ledger, driven)
        end = {"type": "end", "name": "x", "outcome": "ok", "handed_in": 0}
        start = {"type": "start", "run": "mine-0001", "name": "x"}
        others = client.post("/api/v1/reports", json={"items": [{**end, "run": driven}]}).json()
        mine = [{**end, "run": "mine-0001"}] * 2
        twice = client.post("/api/v1/reports", json={"items": [start, *mine]}).json()

    assert others.get("recorded", 0) == 0
    assert "it is closed" in others["refused"][0]["why"]
    assert (twice["recorded"], twice["known"]) == (2, 1)
