"""Reviews and incidents: what they show, and what they record."""

from pathlib import Path
from typing import Any

import pytest

from forum.app import Forum
from forum.errors import IncidentAlreadyClosed, Malformed, NoSuchIncident
from forum.features.oversight.kinds import CONFIGURATION_STRAND, IncidentSeverity
from forum.features.oversight.rules import Concern
from forum.features.oversight.service import OversightOperations
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import AccessDenialFacts, DenialReason, Outcome, RedactionReason
from forum.ledger.log import read_strand_entries
from forum.ledger.strand import Draft
from forum.runs import kinds
from forum.runs.policy import Answer
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.surfaces.halls import PROJECT, hall, open_forum
from tests.surfaces.terminal import Terminal

DENIED = AccessDenialFacts("stranger", DenialReason.SCOPE, "submit", 3)


@pytest.fixture
def forum(tmp_path: Path) -> Any:  # noqa: ANN401  pytest closes it
    """Return a ledger with one run that was stopped at its budget, and a denial."""
    with open_forum(tmp_path) as opened:
        strand = opened.ledger.open_run("r", "operator")
        strand.append(
            Draft("stop", "engine", kinds.StopFacts(kinds.StopReason.BUDGET)),
            Draft("outcome", "engine", kinds.OutcomeFacts(Outcome.INDETERMINATE)),
        )
        opened.access.record_denial(DENIED, "server")
        opened.log.publish()
        yield opened


def shown(forum: Forum, run: str = "", until: int | None = None) -> list[Concern]:
    """Return the concerns that a review shows."""
    return [item.concern for item in OversightOperations(forum).view_review(run, until).items]


def test_a_review_begins_where_the_last_one_ended(forum: Forum) -> None:
    """What somebody has looked at is not shown again, and what came after it is."""
    first = OversightOperations(forum).view_review()
    assert sorted(item.concern for item in first.items) == [
        Concern.BUDGET_STOP,
        Concern.DENIAL,
        Concern.INDETERMINATE,
    ]
    assert first.last is None
    forum.access.record_denial(DENIED, "server")
    forum.log.publish()
    OversightOperations(forum).record_review(first, "All expected.")
    forum.log.publish()

    second = OversightOperations(forum).view_review()
    assert [item.concern for item in second.items] == [Concern.DENIAL]
    assert second.last is not None
    assert (second.last.remark, second.last.actor) == ("All expected.", "operator")
    facts = second.last.facts
    assert (facts.since, facts.until) == (0, first.scope.until)
    assert (facts.stops, facts.budget_stops, facts.denials) == (0, 1, 1)
    assert (facts.gaps, facts.indeterminate, facts.gates) == (0, 1, 0)
    with pytest.raises(Malformed, match="reviewed already"):
        OversightOperations(forum).view_review(until=1)
    with pytest.raises(Malformed, match="the log has"):
        OversightOperations(forum).view_review(until=10**6)


def test_the_review_of_one_run_leaves_the_others_to_review(forum: Forum) -> None:
    """And shows its entries, reviewed or not."""
    view = OversightOperations(forum).view_review("r")
    assert [item.concern for item in view.items] == [Concern.BUDGET_STOP, Concern.INDETERMINATE]
    OversightOperations(forum).record_review(view)
    forum.log.publish()

    assert len(shown(forum)) == 3
    assert len(shown(forum, "r")) == 2


def test_items_beyond_the_limit_are_counted(forum: Forum) -> None:
    """The newest are listed."""
    view = OversightOperations(forum).view_review(limit=1)
    assert (len(view.items), sum(view.counts.values())) == (1, 3)


def test_a_gate_is_open_as_of_the_entries_that_were_looked_at(forum: Forum) -> None:
    """One that was decided after them was open; one that was opened after them was not."""
    before = forum.store.head().size
    gate = forum.ledger.new_strand("r", kinds.gate_strand("plan"))
    opening = kinds.GateOpenFacts("plan", 1000, Answer.REJECT)
    parent = next(read_strand_entries(forum.ledger, "r", "main"))[0]
    gate.append(Draft("open", "engine", opening, (parent,)))
    forum.log.publish()
    opened = forum.store.head().size
    decided = kinds.GateDecisionByFacts(Answer.REJECT, "", kinds.Authority.OPERATOR)
    gate.append(Draft("decision", "operator", decided))
    for _ in range(2):  # while the decision waits for its index, and when it has one
        assert Concern.GATE not in shown(forum, until=before)
        assert Concern.GATE in shown(forum, until=opened)
        forum.log.publish()
    assert Concern.GATE not in shown(forum)


def test_incidents_are_opened_and_closed_once(forum: Forum) -> None:
    """And point to their runs."""
    opened = OversightOperations(forum).open_incident(IncidentSeverity.HIGH, "Paid twice.", ("r",))
    forum.log.publish()
    assert [i.id for i in OversightOperations(forum).view_review().incidents] == [opened.id]
    closed = OversightOperations(forum).close_incident(opened.id, "Refunded.")
    assert closed.closed is not None
    assert OversightOperations(forum).view_review().incidents == ()

    (record,) = OversightOperations(forum).read_incidents()
    assert (record.text, record.closing_text) == ("Paid twice.", "Refunded.")
    assert forum.ledger.find_entry("log/incidents/0").entry.parents == (
        next(read_strand_entries(forum.ledger, "r", "main"))[0].hex(),
    )
    with pytest.raises(IncidentAlreadyClosed):
        OversightOperations(forum).close_incident(opened.id, "Again.")
    with pytest.raises(NoSuchIncident):
        OversightOperations(forum).close_incident("nothing", "x")
    with pytest.raises(Malformed, match="in the future"):
        OversightOperations(forum).open_incident(IncidentSeverity.LOW, "x", known_at=2**52)
    with pytest.raises(Malformed, match="before 1970"):
        OversightOperations(forum).open_incident(IncidentSeverity.LOW, "x", known_at=-1)
    with pytest.raises(Malformed, match="say what happened"):
        OversightOperations(forum).open_incident(IncidentSeverity.LOW, " \n")
    with pytest.raises(Malformed, match="say how it was dealt with"):
        OversightOperations(forum).close_incident(opened.id, "")
    with pytest.raises(Malformed, match="17 runs"):
        OversightOperations(forum).open_incident(IncidentSeverity.LOW, "x", ("r",) * 17)


def test_a_configuration_is_recorded_once_in_a_row(tmp_path: Path) -> None:
    """However many servers start with it; and again when it has changed."""

    def serve(project: str) -> list[tuple[str, ...]]:
        with (
            open_forum(tmp_path, project) as forum,
            hall(ServerConfig([Tenant(forum)])),
        ):
            entries = read_strand_entries(forum.ledger, LOG_RUN, CONFIGURATION_STRAND)
            return [(*entry.facts.changed, *entry.facts.erased) for _, entry in entries]

    other = PROJECT + '[models.second]\nkind = "scripted"\n'
    assert serve(PROJECT) == [()]
    assert serve(PROJECT) == [()]
    assert serve(other) == [(), ("models",)]
    recorded = [(), ("models",), ("models",)]
    assert serve(PROJECT) == recorded
    with open_forum(tmp_path, PROJECT) as forum:
        *_, (last, _) = read_strand_entries(forum.ledger, LOG_RUN, CONFIGURATION_STRAND)
        forum.log.redact(last.hex(), "tools", RedactionReason.SECRET)
    assert serve(PROJECT) == [*recorded, ("tools",)]
    assert serve(PROJECT) == [*recorded, ("tools",)]


def test_the_commands_show_record_and_verify(tmp_path: Path) -> None:
    """From the first look to the close of an incident."""
    user = Terminal(tmp_path)
    assert user.call("init").exit_code == 0
    assert user.type("submit", "x", "--cmd", "cat", "--max-calls", "0").returncode == 5
    looked = user.ask("review")
    assert looked["counts"]["budget_stops"] == 2  # of the task, and of the run
    assert looked["recorded"] is None
    done = user.ask("review", "--done", "--remark", "Expected.", "--until", str(looked["until"]))
    assert "operator reviewed the entries" in user.call("why", done["recorded"]).stdout
    again = user.call("review").stdout
    assert "budget stops: 0" in again
    assert "Expected." in again
    assert user.call("review", "--remark", "x").exit_code == 2

    run = user.ask("runs")["runs"][0]["run"]
    opened = user.ask(
        "incident", "open", "Ran dry.", "--severity", "low", "--run", run, "--known", "1h"
    )
    assert (opened["runs"], opened["closed"]) == ([run], None)
    assert f"opened incident {opened['id']} (low)" in user.call("why", opened["entry"]).stdout
    assert "open incidents: 1" in user.call("review").stdout
    closed = user.ask("incident", "close", opened["id"], "More budget.")
    assert closed["closed_by"] == "operator"
    (listed,) = user.ask("incident", "list")["incidents"]
    assert (listed["text"], listed["closing_text"]) == ("Ran dry.", "More budget.")
    assert "closed" in user.call("incident", "list").stdout
    assert user.call("ledger", "verify").exit_code == 0
