"""Facts of new entries hold no character that nobody sees; older entries may."""

from pathlib import Path
from typing import Any

import pytest

from forum.app.clock_ids_and_kinds import KINDS
from forum.features.recorder.report_items import RunStart, StepReport
from forum.features.recorder.report_writer import ReportWriter
from forum.ledger import strand
from forum.ledger.kinds import Kind, Outcome
from forum.ledger.log import Ledger
from forum.ledger.strand import Draft
from forum.runs.report_kinds import Operation, ReportProvenance, span_strand
from forum.stores.sqlite import SqliteStore
from forum.untrusted_text import HIDDEN_RANGES
from tests.surfaces.hostile_project import SEEN, facts_of


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger of all kinds."""
    store = SqliteStore(tmp_path / "ledger", "example.com/ledger")
    return Ledger(store, KINDS, iter(range(1, 1000)).__next__, lambda: bytes(32))


def _is_hidden(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in HIDDEN_RANGES)


@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: kind.name)
def test_a_writer_makes_hidden_characters_of_facts_visible(ledger: Ledger, kind: Kind[Any]) -> None:
    """In every kind, also one that is declared later; what 0.2 wrote stays readable."""
    lane = ledger.open_strand("run-1", "strand")
    lane.append(Draft("step", "actor", facts_of(kind.facts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strand, "replace_hidden", str)
        lane.append(Draft("step", "actor", facts_of(kind.facts)))
    new, old = (ledger.find_entry(f"run-1/strand/{n}") for n in (0, 1))

    assert not any(map(_is_hidden, new.data.decode()))
    assert (old.entry.facts == new.entry.facts) == (SEEN not in old.data.decode())


def test_a_step_of_a_model_that_turns_figures_around_is_kept(ledger: Ledger) -> None:
    """The name of the model is another program's: the run is not lost, and its name is visible."""
    writer = ReportWriter(ledger, "ci")
    start = RunStart(run="reported-1", name="ci", told=ReportProvenance.REPORTED)
    step = StepReport(
        run="reported-1",
        span="s1",
        op=Operation.MODEL,
        name="chat",
        outcome=Outcome.OK,
        model="gpt-5\u202e",
    )
    first, again = writer.write([start, step]), writer.write([start, step])

    assert not first.refused
    assert (again.known, again.refused) == (1, ())
    located = ledger.find_entry(f"reported-1/{span_strand('s1')}/0")
    assert located.entry.facts.model == "model"  # it is no label: the name is in a body
