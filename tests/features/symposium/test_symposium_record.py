"""What is left of a session of the open protocol: scripts, artifacts, replays, metrics."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from msgspec.structs import replace

from forum.errors import Malformed
from forum.features.symposium.artifact import (
    build_artifact,
    build_manifest,
    build_session_files,
)
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.decoders import read_script
from forum.features.symposium.kinds import (
    SYMPOSIUM_KINDS,
    Reason,
    ReplayPin,
    RunDirectoryStatus,
)
from forum.features.symposium.metrics import compute_metrics
from forum.features.symposium.protocol import run_symposium
from forum.features.symposium.provider_calls import FakeScript
from forum.features.symposium.replay import (
    compute_pins,
    find_unheld_pin,
    replay_execution,
    replay_transcript,
)
from forum.features.symposium.simulator import ScriptedPanel, run_protocol, simulate_session
from forum.features.symposium.transcript import to_json_object
from forum.ledger.kinds import Outcome
from forum.runs.policy import Chat, Policy, ScriptStep
from forum.runs.session_steps import TurnResult, TurnStatus
from tests.features.council.sitting import (
    CHAIR,
    COST,
    Answer,
    Sat,
    as_scripted,
    asking,
    config,
    courses,
    entry,
    script,
    session_of,
    sit,
    synthesis,
    turn,
    verdict,
)
from tests.features.symposium import own_examples
from tests.features.symposium.protocol_forms import read_golden_case
from tests.features.symposium.schemas import check_by_schema
from tests.foreign_data import foreign

# Scripts


ONE = config(panel=("ada",))


def rehearsed(
    given: dict[str, Any], script: FakeScript
) -> tuple[Sat, dict[str, tuple[ScriptStep, ...]]]:
    """Return a session as a script has it, and the moves for it."""
    session = session_of(given)
    rehearsal = ScriptedPanel(session, script)
    sat = Sat(session, run_protocol(run_symposium(session), rehearsal.answer), [])
    return sat, rehearsal.moves


def test_what_is_tried_again_is_paid_in_the_message() -> None:
    """All attempts of a turn are in its usage, and the sum of messages is the total."""
    sat, moves = rehearsed(
        ONE,
        script(
            entry(None, "timeout"),
            entry(None),
            entry(turn("at last")),
            entry(verdict("finalize")),
            entry(synthesis()),
        ),
    )

    assert [move.fail for move in moves["turn.1"]] == ["timeout", "", ""]
    assert sat.messages[1].usage.total_tokens == 30
    assert sat.messages[1].usage.prompt_tokens == 21
    assert json.loads(sat.artifact)["cumulative_usage"]["total_tokens"] == 50
    assert check_artifact(sat.artifact) == ()


def test_a_script_tries_nothing_again_that_is_too_dear() -> None:
    """Its moves are those that an engine would ask for: caps end a turn between two attempts."""
    given = config(panel=("ada",), budget={"per_agent_token_budget": {"ada": 5}})
    sat, moves = rehearsed(given, script(*[entry(None, "timeout")] * 3))

    assert sat.termination.reason is Reason.BUDGET_EXCEEDED
    assert len(moves["turn.1"]) == 1


@pytest.mark.parametrize(
    ("entries", "more", "reason", "attempts"),
    [
        ([entry(None, "timeout")] * 3, {}, Reason.PROVIDER_UNRECOVERABLE, 3),
        ([entry(None, "timeout")], {"on_exhaustion": "loop"}, Reason.PROVIDER_UNRECOVERABLE, 3),
        ([entry(None, "malformed_response")] * 3, {}, Reason.SCHEMA_ERROR, 3),
        ([entry(None, "auth_failure", again=False)], {}, Reason.PROVIDER_UNRECOVERABLE, 1),
        ([entry(None, "tool_failure", again=True)], {}, Reason.PROVIDER_UNRECOVERABLE, 2),
        ([entry(turn("x"), agent_id="ben")], {}, Reason.PROVIDER_UNRECOVERABLE, 1),
        ([entry(turn("x"), turn_index=2)], {}, Reason.PROVIDER_UNRECOVERABLE, 1),
        (
            [entry(turn("x"), expected_output_schema="verdict")],
            {},
            Reason.PROVIDER_UNRECOVERABLE,
            1,
        ),
    ],
)
def test_a_script_that_goes_wrong_ends_the_session(
    entries: list[dict[str, Any]], more: dict[str, Any], reason: Reason, attempts: int
) -> None:
    """Loudly, and after as many attempts as it may take."""
    sat, moves = rehearsed(ONE, script(*entries, **more))

    assert sat.termination.reason is reason
    assert len(moves["turn.1"]) == attempts
    assert check_artifact(sat.artifact) == ()


@pytest.mark.parametrize("name", own_examples.CONFIGS)
def test_our_own_examples_run_to_their_end(tmp_path: Path, name: str) -> None:
    """By the script, and again by agents that were given its moves."""
    check_example(own_examples.write_examples(tmp_path), name, own_examples.SCRIPT)


@pytest.mark.parametrize("name", ["walking-skeleton", "rules-selector", "llm-selector"])
def test_the_examples_of_the_protocol_run_to_their_end(name: str) -> None:
    """As ours do: the configs and scripts of others are read as they are."""
    check_example(foreign("symposium/run-examples"), name, "scripts/walking-skeleton.json")


def check_example(examples: Path, name: str, script: str) -> None:
    """Hold the session of a config by its script, and look at all that comes of it."""
    given = yaml.safe_load((examples / f"configs/{name}.yaml").read_bytes())
    skeleton = read_script((examples / script).read_bytes())
    choice = read_script((examples / own_examples.SELECTOR_SCRIPT).read_bytes())
    selector = choice if name == "llm-selector" else None
    session = session_of(given)
    moves = simulate_session(session, skeleton, selector)
    sat = Sat(session, run_protocol(run_symposium(session), as_scripted(moves)), [])

    assert len(sat.messages) == own_examples.MESSAGES
    assert json.loads(sat.record.panel)["selected_agents"] == [a["id"] for a in given["agents"]]
    assert sat.played.closing.outcome is Outcome.OK
    assert ("selector" in moves) == (name == "llm-selector")
    assert check_artifact(sat.artifact) == ()
    assert replay_execution(session, sat.artifact, skeleton, selector).holds
    check_by_schema("artifact", json.loads(sat.artifact))


def test_the_golden_case_comes_out_as_it_says() -> None:
    """Its transcript is met message by message, but for what we leave out because it is nothing."""
    path = foreign("symposium/v1.0.0/examples/golden_test_case_example.json")
    golden = read_golden_case(path.read_bytes())
    case = json.loads(path.read_bytes())
    session = session_of(case["config"])
    artifact = json.dumps(case["expected_artifact"]).encode()

    assert replay_execution(session, artifact, golden.fake_script).holds


@given(courses())
@settings(max_examples=30)
def test_a_session_played_by_its_moves_is_the_session_of_its_script(
    course: tuple[dict[str, Any], Answer],
) -> None:
    """Whatever the script says: who is given the moves of each turn says the same."""
    given, answer = course
    sat = sit(given, answer)
    entries = [_entry_of(answer(cue)) for cue in sat.cues]
    session = session_of(given)
    played = script(*entries) if entries else script(entry(turn("x")))
    rehearsal = ScriptedPanel(session, played)
    first = run_protocol(run_symposium(session), rehearsal.answer)

    assert run_protocol(run_symposium(session), as_scripted(rehearsal.moves)) == first


def _entry_of(result: TurnResult | bytes) -> dict[str, Any]:
    if isinstance(result, TurnResult):
        return entry(
            None, "internal" if result.fate is TurnStatus.CUT else result.code, again=False
        )
    try:
        value = json.loads(result)
    except ValueError:
        return entry(None)
    carried = isinstance(value, dict) and not any(c in result for c in (b"\\u", b"900719", b"NaN"))
    return entry(result if carried else None)


# What is kept, and reading it again


def test_an_artifact_that_was_altered_does_not_replay() -> None:
    """Neither against the record nor against the script, even when its digest was repaired."""
    entries = (entry(turn("the older")), entry(verdict("finalize")), entry(synthesis()))
    sat, _ = rehearsed(ONE, script(*entries))
    forged = json.loads(sat.artifact)
    forged["canonical_transcript"][1]["content"]["text"] = "the newer"
    unrepaired = json.dumps(forged).encode()
    forged["transcript_digest"] = replay_transcript(unrepaired).digest
    repaired = json.dumps(forged).encode()

    assert not replay_transcript(unrepaired).holds
    assert replay_transcript(repaired).holds
    assert replay_transcript(repaired, sat.record.messages).parted == "msg-001"
    again = replay_execution(sat.session, repaired, script(*entries))
    assert (again.parted, again.holds) == ("msg-001", False)
    assert replay_execution(sat.session, sat.artifact, script(*entries)).holds


def test_an_artifact_that_was_cut_short_does_not_replay() -> None:
    """Nor one to which something was added."""
    sat = sit(config())
    record = sat.record.messages

    assert replay_transcript(sat.artifact, record[:-1]).parted == "msg-005"
    assert replay_transcript(sat.artifact, (*record, record[-1])).parted == "msg-005"


def test_the_first_pin_that_cannot_be_held_is_named() -> None:
    """A script can be played again; a model that lives elsewhere cannot be held to its word."""
    scripted = session_of(config())
    panel = scripted.policy.panel
    live = replace(
        scripted,
        policy=Policy(agents={"model": Chat(url="http://x", model="m")}, panel=panel),
    )
    other = session_of(config(originator="user:mallory"))

    was = compute_pins(scripted, "1.0")
    assert list(was) == list(ReplayPin)
    assert find_unheld_pin(was, compute_pins(scripted, "1.0")) is None
    assert find_unheld_pin(was, compute_pins(scripted, "1.1")) is ReplayPin.RUNTIME
    assert find_unheld_pin(was, compute_pins(live, "1.0")) is ReplayPin.ADAPTER
    assert find_unheld_pin(compute_pins(live, "1.0"), compute_pins(live, "1.0")) is ReplayPin.MODEL
    assert find_unheld_pin(was, compute_pins(other, "1.0")) is ReplayPin.TRANSCRIPT_PREFIX


def test_a_session_under_way_has_a_manifest_and_no_artifact() -> None:
    """A reader sees that it is not over."""
    sat = sit(config())
    record = replace(sat.record, closed=None)

    manifest = build_manifest(record, "1.2.3")
    assert manifest.status is RunDirectoryStatus.IN_PROGRESS
    assert "artifact.json" not in build_session_files(record, "1.2.3")
    with pytest.raises(Malformed):
        build_artifact(record)
    check_by_schema("run_manifest", to_json_object(manifest))


def test_the_metrics_of_a_session() -> None:
    """What each agent used, how long it took, who spoke, and how long the queue was."""
    asked = asking(("ben", "b1"), ("nobody", "n"), ("cleo", "c1"), ("cleo", "c2"))
    sat = sit(config(), asked)
    metrics = compute_metrics(sat.artifact)

    assert metrics.tokens_cumulative.total_tokens == len(sat.asked) * COST.tokens
    assert metrics.tokens_per_agent[CHAIR].total_tokens == 4 * COST.tokens
    assert metrics.cost_per_provider_model["p/m"].cost_usd == pytest.approx(0.002 * len(sat.asked))
    assert {
        latency_metrics.latency_seconds for latency_metrics in metrics.latency_per_invocation
    } == {1.0}
    assert metrics.deferred_queue_length_max == 2
    assert metrics.schema_failure_count_per_agent == {"ada": 1}
    assert metrics.branch_depth_max == 1
    assert [p.count for p in metrics.participation_per_round if p.round == 1] == [1, 2, 1]
    assert metrics.termination_reason is None


def retimed(artifact: bytes, change: Callable[[str], str]) -> bytes:
    """Return an artifact whose messages have other times."""
    held = json.loads(artifact)
    for message in held["canonical_transcript"]:
        message["timestamp"] = change(message["timestamp"])
    return json.dumps(held).encode()


def test_a_price_that_cannot_be_added_up_is_none() -> None:
    """A double holds it, and no sum of two."""
    held = json.loads(sit(config(), asking()).artifact)
    held["canonical_transcript"][1]["usage"]["cost_usd"] = 1e305

    with pytest.raises(Malformed, match="cost_usd"):
        compute_metrics(json.dumps(held).encode())


@pytest.mark.parametrize("time", ["not a time", "2031-05-01T09:00:00", "2031-05-01", ""])
def test_what_is_no_time_is_not_counted_with(time: str) -> None:
    """Also one without an offset: whoever wrote it was somewhere else."""
    with pytest.raises(Malformed, match="is no time"):
        compute_metrics(retimed(sit(config(), asking()).artifact, lambda _: time))


def test_every_time_of_the_standard_is_counted_with() -> None:
    """RFC 3339 has small letters, too, and a space in the middle."""
    held = sit(config(), asking()).artifact
    written = retimed(held, lambda time: time.lower().replace("t", " "))

    assert compute_metrics(written) == compute_metrics(held)


@given(courses())
def test_every_note_can_be_recorded(course: tuple[dict[str, Any], Answer]) -> None:
    """Its facts are of a declared kind, its bodies have declared names, its step is its own."""
    notes = sit(*course).played.notes

    assert len({note.step for note in notes}) == len(notes)
    for note in notes:
        kind = SYMPOSIUM_KINDS.kind_of(note.facts)
        facts = msgspec.json.encode(note.facts)
        assert SYMPOSIUM_KINDS.has_valid_facts(kind.name.encode(), facts)
        assert kind.bodies.issuperset(body.name for body in note.bodies)
