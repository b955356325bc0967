"""The forms of the protocol are read strictly, written in one way, and its laws tell forgeries."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from forum.errors import Malformed
from forum.features.symposium import decoders
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.canonical_json import MAX_NESTING, transcript_digest
from forum.features.symposium.kinds import SelectionStrategy
from forum.features.symposium.schemas import (
    Artifact,
    MessageUsage,
    PrimaryTurn,
    SelectorOutput,
    TurnOutput,
)
from forum.features.symposium.violations import Invariant
from tests.features.council.forged import honest
from tests.features.symposium import protocol_forms

READERS: dict[str, Callable[[object], object]] = {
    "artifact": decoders.read_artifact,
    "config": decoders.read_config,
    "context_packet": protocol_forms.read_packet,
    "direct_request": decoders.read_direct_request,
    "fake_provider_script": decoders.read_script,
    "golden_test_case": protocol_forms.read_golden_case,
    "message": decoders.read_message,
    "persona": decoders.read_persona,
    "provider_request": protocol_forms.read_provider_request,
    "provider_result": protocol_forms.read_provider_result,
    "run_manifest": decoders.read_manifest,
    "selector_output": decoders.read_selection,
    "synthesis": decoders.read_synthesis,
    "termination_artifact": decoders.read_termination,
    "turn_structured_output": decoders.read_turn,
    "verdict": decoders.read_verdict,
}


def accepted(schema: str, form: object) -> bool:
    """Tell whether we read a form."""
    try:
        READERS[schema](form)
    except Malformed:
        return False
    return True


def test_a_member_that_may_be_null_may_be_left_out_and_one_that_may_not_is_refused() -> None:
    """Left out and null are the same for some members, and for others they are not."""
    message = honest()["canonical_transcript"][1]
    config = honest()["config"]

    assert accepted("message", message | {"parent_id": None, "target": None})
    assert not accepted("message", message | {"schema_failure": None})
    assert not accepted("config", config | {"runtime": {"max_branch_depth": None}})


def usage(prompt_tokens: str) -> bytes:
    """Return what was spent, with this for a count."""
    rest = '"completion_tokens":0,"total_tokens":0,"cost_usd":0'
    return f'{{"prompt_tokens":{prompt_tokens},{rest}}}'.encode()


@pytest.mark.parametrize("count", ["1", "1.0", "1e2", "-0.0", "9007199254740991"])
def test_an_integer_is_a_number_without_a_fraction(count: str) -> None:
    """1.0 is an integer to a JSON schema, and to us."""
    read = protocol_forms.read_usage(usage(count))

    assert isinstance(read.prompt_tokens, int)
    assert read.prompt_tokens == float(count)


@pytest.mark.parametrize(
    "count", ["1.5", "true", '"1"', "-1", "null", "[1]", "9007199254740992", "1e16"]
)
def test_what_is_no_integer_is_no_count(count: str) -> None:
    """Nor is what a double cannot count with: it could not be hashed."""
    with pytest.raises(Malformed):
        protocol_forms.read_usage(usage(count))


# What would break a reader.

ASKING = b'{"text":"x","direct_requests":[{"target":"b","type":"q","content":{"n":%s}}]}'
HOSTILE: dict[str, bytes] = {
    "an integer above 2^53": ASKING % b"9007199254740993",
    "an integer of 5,000 digits": b'{"text":' + b"9" * 5000 + b"}",
    "a lone surrogate": rb'{"text":"\ud800"}',
    "a lone surrogate in a name": rb'{"text":"x","\udfff":[9e999]}',
    "2,000 levels of nesting": b'{"text":' + b"[" * 2000 + b"]" * 2000 + b"}",
    "200,000 levels of nesting": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "one level too many": b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1),
    "a member twice": b'{"text":"one","text":"two"}',
    "not a number": ASKING % b"NaN",
    "infinity": b'{"text":"x","n":-Infinity}',
    "a number beyond every double": b'{"text":"x","n":1e999}',
    "bytes that are no text": b'{"text":"\xff"}',
    "another encoding": '{"text":"x"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"text":"x"}',
    "two values": b'{"text":"x"} {"text":"y"}',
    "nothing": b"",
    "half of it": b'{"text":"x',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_not_every_reader_reads_alike_is_refused(data: bytes) -> None:
    """A model can reply with any of these: it has to be an error that somebody can handle."""
    with pytest.raises(Malformed, match="malformed turn: ") as caught:
        decoders.read_turn(data)

    assert str(caught.value).encode()
    assert check_artifact(data)[0].law is Invariant.FORM


def test_parsed_json_is_held_to_the_same() -> None:
    """What comes from YAML may hold dates, names that are numbers, and itself."""
    within = {"text": "x"}
    endless: list[Any] = []
    endless.append(endless)
    for wrong in (datetime(2031, 5, 1, tzinfo=UTC), {1: "x"}, endless, {"x"}, b"x", float("nan")):
        with pytest.raises(Malformed):
            decoders.read_turn(within | {"direct_requests": wrong})


def test_an_error_says_where() -> None:
    """A config is long."""
    config = honest()["config"]
    config["agents"][1]["retry_budget"] = -1

    with pytest.raises(Malformed, match=r"at `\$\.agents\[1\]\.retry_budget`"):
        decoders.read_config(config)


# What we write.


def test_a_message_is_written_without_nulls_and_with_all_of_its_usage() -> None:
    """Then whoever hashes the stored JSON, and whoever hashes it filled up, agree."""
    turn = PrimaryTurn(
        id="m1",
        speaker="a",
        turn_index=1,
        timestamp="2031-05-01T10:00:00Z",
        usage=MessageUsage(1, 2, 3, 0.5),
        content=TurnOutput("it holds"),
        round=1,
        branch_depth=0,
    )
    written = json.loads(msgspec.json.encode(turn))

    assert written["type"] == "primary_turn"
    assert written["usage"]["estimated"] is False
    assert written.keys().isdisjoint({"parent_id", "target", "schema_failure"})
    assert decoders.read_message(written) == turn


def test_a_selection_is_written_as_the_protocol_has_it() -> None:
    """What is empty is left out."""
    written = msgspec.json.encode(SelectorOutput(SelectionStrategy.FIXED, ("a",), "k"))

    assert json.loads(written) == {
        "strategy": "fixed",
        "selected_agents": ["a"],
        "coordinator_agent": "k",
    }


def test_a_digest_does_not_depend_on_how_the_transcript_is_laid_out() -> None:
    """White space, the order of members, and 1.0 for 1 are nobody's forgery."""
    transcript = honest()["canonical_transcript"]
    turned = [dict(reversed(message.items())) for message in transcript]
    turned[0]["round"] = 0.0

    assert transcript_digest(turned) == transcript_digest(transcript)
    with pytest.raises(Malformed):
        transcript_digest([2**53])


def test_an_artifact_is_read_as_what_it_says() -> None:
    """The types are for those who go on working with it."""
    artifact = decoders.read_artifact(json.dumps(honest()).encode())

    assert isinstance(artifact, Artifact)
    assert [type(message).__name__ for message in artifact.canonical_transcript][:3] == [
        "ProblemStatement",
        "PrimaryTurn",
        "BranchTurn",
    ]
    assert artifact.config.runtime.max_tool_iterations == 8
