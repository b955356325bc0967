"""The ten questions of an auditor, answered with the page and the report of a pack alone."""

import re
from html import unescape

import msgspec
import pytest

from forum.features.evidence.figures import Figure
from forum.features.evidence.report import PackReport
from forum.ledger.zip_archive import unpack_archive
from forum.verify import Trust
from tests.features.evidence.packs import draw, make, make_log, period

_TAG = re.compile(r"<[^>]+>")


class AuditedPack:
    """What an auditor has in hand: the page as text by rows, and the report."""

    def __init__(self, pack: bytes, trust: Trust) -> None:
        files = unpack_archive(pack)
        self.page = draw(pack, trust)
        self.report = msgspec.json.decode(files["report.json"], type=PackReport)
        self.figures = {figure.id: figure for figure in self.report.figures}

    def row(self, name: str) -> str:
        """Return the text of all rows of this name."""
        lines = [line for line in self.page.split("\n") if f'data-row="{name}"' in line]
        assert lines, name
        return " ".join(unescape(_TAG.sub(" ", " ".join(lines))).split())

    def groups(self, figure: str) -> dict[tuple[str, ...], int]:
        """Return the groups of a figure."""
        found: Figure = self.figures[figure]
        return {group.key: group.value for group in found.groups}

    def events(self, kind: str) -> list[str]:
        """Return the words of the events of a kind; each is a row of the page too."""
        events = [event for event in self.report.events if event.kind == kind]
        for event in events:
            assert event.words in self.row(f"event {event.index}")
            assert event.actor in self.row(f"event {event.index}")
        return [event.words for event in events]


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> AuditedPack:
    """Return a pack of three days."""
    world = make_log(tmp_path_factory.mktemp("questions"))
    return AuditedPack(make(world, period(1, 4)), world.trust)


def test_1_how_many_runs_failed_were_stopped_or_are_open(pack: AuditedPack) -> None:
    """In one line of the first table; the runs that did not end well have a bundle."""
    short = "runs: 12, did not end well: 2, stops: 2, open at the end: 1"
    assert short in pack.row("question 1")
    assert pack.groups("runs.ended") == {("ok",): 9, ("failed",): 2}
    enclosed = {bundle.run for bundle in pack.report.bundles}
    assert {"run-21", "run-gate"} <= enclosed


def test_2_is_a_run_missing(pack: AuditedPack) -> None:
    """The page says between which trees every entry is, and what the reader's verifier found."""
    assert "every entry between the two trees is here" in pack.row("check Complete")
    assert "Complete: holds" in pack.row("question 2")
    assert pack.report.end.root in pack.row("checkpoints")


def test_3_who_approved_what_when_after_seeing_what(pack: AuditedPack) -> None:
    """One row for each decision: what, who, when, how long, and where the text is."""
    (decision,) = pack.report.decisions
    row = pack.row(f"decision {decision.index}")
    for text in ("approve: plan", "run-gate", "carol (key)", "1 min 30 s", decision.digest[:16]):
        assert text in row
    assert "in the bundle of the run" in row


def test_4_which_tools_and_which_effects_are_in_doubt(pack: AuditedPack) -> None:
    """By name and by outcome."""
    assert pack.groups("tools.used") == {("mail",): 9}
    assert pack.groups("tools.outcomes") == {("ok",): 8, ("failed",): 1}
    assert "effects in doubt: 0" in pack.row("question 4")


def test_5_which_models_and_when_did_the_configuration_change(pack: AuditedPack) -> None:
    """The configuration in use at the beginning is listed, and what changed in the period."""
    assert pack.groups("models.calls") == {("swan-2", "lake"): 9}
    assert pack.events("config.seen/1") == [
        "release 0.2.0, the first on record",
    ]
    assert pack.events("config.seen/2") == [
        "release 0.3.0, changed: engine",
        "release 0.3.0, changed: models, erased before it, not compared: tools",
    ]


def test_6_what_was_spent_by_whom_and_which_caps(pack: AuditedPack) -> None:
    """By who began the run."""
    assert pack.groups("cost.total") == {("alice",): 9 * 1_500_000}
    assert pack.groups("caps.reached") == {("usd",): 1}
    assert pack.groups("stops.all") == {("budget",): 1, ("overrun",): 1}
    assert "spent: $0.0135, stops because of a cap: 1" in pack.row("question 6")


def test_7_who_had_access_who_was_denied_who_was_revoked(pack: AuditedPack) -> None:
    """With names and scopes, also of keys that were granted before the period."""
    assert ("name of k1", "read", "revoked") in pack.groups("access.keys")
    assert pack.groups("access.denied") == {("mallory", "unknown"): 4}
    assert pack.events("access.revoke/1") == ["revokes key k1"]


def test_8_what_was_erased_by_whom_and_why(pack: AuditedPack) -> None:
    """And which periods and holds there were; the claims say that the rest is intact."""
    (erased,) = pack.events("redact/3")
    assert erased == "erases bodies 0/shown of its parents, runs run-gate, reason request"
    assert pack.events("retention/1") == ["keeps bodies of call/prompt for 2160 hours"]
    assert pack.events("hold/1") == [
        "places hold case-7, runs run-10",
        "releases hold case-7, runs run-10",
    ]
    assert pack.groups("redactions.by") == {("operator",): 1}
    assert "holds" in pack.row("check Intact")


def test_9_who_reviewed_this_and_what_did_they_see(pack: AuditedPack) -> None:
    """And which incidents there were."""
    assert pack.events("review.done/1") == ["entries 0 to 40, stops 1, denials 4"]
    (opened,) = pack.events("incident.open/1")
    assert opened.startswith("opens incident 1f2e3d4c, severity high, known 2023-11-")
    assert pack.events("incident.close/1") == ["closes incident 1f2e3d4c"]


def test_10_what_is_not_shown_and_what_to_ask_for(pack: AuditedPack) -> None:
    """Each limit is a row of the page, and says what to ask for where something can be."""
    for number, limit in enumerate(pack.report.limits, 1):
        assert " ".join(limit.split()) in pack.row(f"limit {number}")
    asked = [limit for limit in pack.report.limits if "Ask for" in limit]
    assert len(asked) >= 3
