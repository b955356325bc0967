"""Oversight: what is worth a look, the fold of incidents, and the digests of configurations."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.oversight.configuration import (
    Configuration,
    ConfigurationTexts,
    compare_configuration,
    encode_configuration,
)
from forum.features.oversight.kinds import (
    OVERSIGHT_KINDS,
    ConfigurationChangeFacts,
    ConfigurationFacts,
    IncidentCloseFacts,
    IncidentOpenFacts,
    IncidentSeverity,
)
from forum.features.oversight.rules import REVIEWED_KINDS, Concern, find_concern, fold_incidents
from forum.ledger.entry import Entry, Facts
from forum.ledger.kinds import AccessDenialFacts, DenialReason, Outcome
from forum.runs import kinds
from forum.runs.kinds import Authority
from forum.runs.policy import Chat, Command, McpServer, ToolSpec
from forum.runs.report_kinds import (
    REPORT_KINDS,
    GapReason,
    Operation,
    ReportGapFacts,
    ReportStepFacts,
)
from forum.runs.team_settings import TeamSettings
from tests.ledger.samples import facts_of
from tests.runs.samples import KINDS

ALL_KINDS = KINDS | REPORT_KINDS | OVERSIGHT_KINDS


def entry_of(facts: Facts, ts: int = 1, actor: str = "operator") -> Entry[Any]:
    """Return an entry with these facts."""
    kind = ALL_KINDS.kind_of(facts).name
    return Entry(
        v="forum/entry/1",
        log="example.com/log",
        run="r",
        strand="main",
        n=1,
        prev="ab" * 32,
        step="s",
        ts=ts,
        actor=actor,
        kind=kind,
        parents=(),
        facts=facts,
        bodies={},
    )


def step_of(outcome: Outcome, code: str = "") -> ReportStepFacts:
    """Return a reported step that ended so."""
    return ReportStepFacts(op=Operation.TOOL, name="pay", outcome=outcome, span="1", code=code)


@pytest.mark.parametrize(
    ("facts", "concern"),
    [
        (kinds.StopFacts(kinds.StopReason.BUDGET), Concern.BUDGET_STOP),
        (kinds.StopFacts(kinds.StopReason.REPEAT), Concern.STOP),
        (kinds.OutcomeFacts(Outcome.INDETERMINATE), Concern.INDETERMINATE),
        (kinds.OutcomeFacts(Outcome.DENIED), Concern.DENIAL),
        (kinds.OutcomeFacts(Outcome.FAILED), None),
        (kinds.OutcomeFacts(Outcome.OK), None),
        (AccessDenialFacts("x", DenialReason.SCOPE, "submit"), Concern.DENIAL),
        (ReportGapFacts(GapReason.OVERFLOW, 3), Concern.GAP),
        (step_of(Outcome.OK), None),
        (step_of(Outcome.INDETERMINATE), Concern.INDETERMINATE),
        (step_of(Outcome.DENIED, "budget"), Concern.BUDGET_STOP),
        (step_of(Outcome.DENIED, "loop"), Concern.DENIAL),
        (kinds.CancelFacts(), None),
    ],
)
def test_what_is_worth_a_look(facts: Facts, concern: Concern | None) -> None:
    """By its facts alone."""
    assert find_concern(entry_of(facts)) is concern


@given(st.sampled_from(list(ALL_KINDS)).flatmap(facts_of))
def test_no_other_kind_is_ever_worth_a_look(facts: Facts) -> None:
    """A reader skips the other kinds without decoding them."""
    entry = entry_of(facts)
    assert find_concern(entry) is None or entry.kind.encode() in REVIEWED_KINDS


def test_incidents_open_once_and_close_once() -> None:
    """The first entry of each counts, and a close without an opening opens nothing."""
    low, high = (
        IncidentOpenFacts("a", severity, by=Authority.OPERATOR, known=5, runs=("r",))
        for severity in (IncidentSeverity.LOW, IncidentSeverity.HIGH)
    )
    close = IncidentCloseFacts("a", Authority.OPERATOR)
    entries = [
        ("0", entry_of(IncidentCloseFacts("b", Authority.OPERATOR))),
        ("1", entry_of(low, ts=10, actor="ann")),
        ("2", entry_of(high, ts=20)),
        ("3", entry_of(close, ts=30, actor="bob")),
        ("4", entry_of(close, ts=40)),
    ]

    assert fold_incidents(entries[:3])["a"].closed is None
    (incident,) = fold_incidents(entries).values()
    assert (incident.severity, incident.known, incident.runs) == (IncidentSeverity.LOW, 5, ("r",))
    assert (incident.opened, incident.opened_by, incident.entry) == (10, "ann", "1")
    assert (incident.closed, incident.closed_by, incident.close_entry) == (30, "bob", "3")


def configuration_of(**team: Any) -> ConfigurationTexts:  # noqa: ANN401  settings of any type
    """Return the texts of a configuration with these settings of its team."""
    configuration = Configuration(
        engine="1", team=TeamSettings(**team), roster="r", gate_rules=(), shared_caps=(), teams={}
    )
    return encode_configuration(configuration, lambda text: text.replace("s3cret", "[KEY]"))


def test_a_configuration_has_the_same_texts_wherever_its_files_are() -> None:
    """And whatever the secrets are: two machines do not take turns in recording theirs."""

    def configure(folder: str, secret: str, tool: str = "pay") -> ConfigurationTexts:
        return configuration_of(
            agents={
                "": Chat("http://x/v1", "m", key_file=f"{folder}/key"),
                "own": Command((f"{folder}/agent", "-v", secret)),
            },
            tools={tool: ToolSpec((f"{folder}/pay", secret))},
            servers={"files": McpServer((f"{folder}/serve",))},
        )

    configuration_texts, other = configure("/opt/one", "s3cret"), configure("/srv", "[KEY]")
    assert configuration_texts == other
    assert configure("/srv", "another") != configuration_texts
    renamed = configure("/srv", "s3cret", tool="refund")
    assert (renamed.models, renamed.policies) == (
        configuration_texts.models,
        configuration_texts.policies,
    )
    assert renamed.tools != configuration_texts.tools
    assert configuration_of(team=True).policies != configuration_of().policies


def test_a_configuration_is_compared_with_the_last_one_on_record() -> None:
    """Text by text; with what release 0.2 recorded, by its digests; and not with erased texts."""
    now = ConfigurationTexts(b"r", b"p", b"m", b"t")
    last = ConfigurationChangeFacts("1")

    def compare(**held: bytes | None) -> ConfigurationChangeFacts:
        texts = msgspec.structs.asdict(now) | held
        return compare_configuration("1", now, last, texts.__getitem__)

    assert compare() == last
    assert compare(models=b"n") == ConfigurationChangeFacts("1", ("models",))
    assert compare(models=None) == ConfigurationChangeFacts("1", (), ("models",))
    digests = {part: sha256(part[:1].encode()).hexdigest() for part in ("policies", "models")}
    old = ConfigurationFacts("0.2.0", "r", **digests, tools="another")
    changed = compare_configuration("1", now, old, lambda _: None)
    assert changed == ConfigurationChangeFacts("1", ("engine", "tools"))
