"""The forms of the protocol agree with its JSON Schemas, and its laws tell forgeries."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forum.deliberation.symposium import decoders
from forum.deliberation.symposium.canonical_json import MAX_NESTING, transcript_digest
from forum.deliberation.symposium.invariants import check_artifact
from forum.deliberation.symposium.kinds import SelectionStrategy
from forum.deliberation.symposium.schemas import (
    Artifact,
    MessageUsage,
    PrimaryTurn,
    RuntimeConfig,
    SelectorOutput,
    TurnOutput,
)
from forum.deliberation.symposium.violations import Invariant
from forum.errors import Malformed
from tests.deliberation import protocol_forms
from tests.deliberation.forged import cut_short, honest, mutate, request
from tests.deliberation.schemas import SCHEMAS, SYMPOSIUM, validator

EXAMPLES = SCHEMAS / "examples"
CASES: dict[str, Any] = json.loads((SYMPOSIUM / "conformance_cases.json").read_bytes())

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


def reader(schema: str) -> Callable[[object], object]:
    """Return what reads the form that a schema describes."""
    return READERS[schema.removesuffix(".schema.json")]


def example(name: str) -> dict[str, Any]:
    """Return an example of the protocol."""
    read: dict[str, Any] = json.loads((EXAMPLES / name).read_bytes())
    return read


# Conformance.


def test_every_form_of_the_protocol_is_read_and_every_case_counted() -> None:
    """A case that nobody looks at would be agreed with by accident."""
    semantic = CASES["semantic_artifacts"] + CASES["semantic_golden"]

    assert {path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("*.json")} == set(
        READERS
    )
    assert [len(CASES[k]) for k in ("positive", "nested", "negative")] == [20, 4, 36]
    assert len(semantic) == 3


@pytest.mark.parametrize("case", CASES["positive"], ids=lambda case: case["file"])
def test_what_the_protocol_accepts_is_read(case: dict[str, str]) -> None:
    """From its bytes, and when it was parsed already."""
    data = (EXAMPLES / case["file"]).read_bytes()

    assert reader(case["schema"])(data) == reader(case["schema"])(json.loads(data))


@pytest.mark.parametrize("case", CASES["nested"], ids=lambda case: case["file"])
def test_what_a_model_replies_in_an_example_is_read(case: dict[str, str]) -> None:
    """A result says nothing about the form of the reply in it, which has one nonetheless."""
    assert reader(case["schema"])(example(case["file"])["structured_output"])


@pytest.mark.parametrize("case", CASES["negative"], ids=lambda case: case["label"])
def test_what_the_protocol_refuses_is_refused(case: dict[str, Any]) -> None:
    """With an error of ours."""
    with pytest.raises(Malformed):
        reader(case["schema"])(case["instance"])


@pytest.mark.parametrize("name", CASES["semantic_artifacts"])
def test_an_example_of_a_session_keeps_every_law(name: str) -> None:
    """The publisher's own sessions are honest."""
    assert check_artifact((EXAMPLES / name).read_bytes()) == ()


@pytest.mark.parametrize("name", CASES["semantic_golden"])
def test_the_session_of_a_golden_case_keeps_every_law(name: str) -> None:
    """What others have to arrive at is honest, too."""
    golden = example(name)

    assert check_artifact(json.dumps(golden["expected_artifact"]).encode()) == ()
    assert golden["expected_artifact"]["config"] == golden["config"]


# The same language.


def packet() -> dict[str, Any]:
    """Return what an agent might be shown."""
    artifact = example("worked_example_artifact.json")
    transcript = artifact["canonical_transcript"]
    return {
        "problem_statement": "which of the two bridges should go first?",
        "round": 2,
        "persona": example("persona_domain.json"),
        "panel_disclosure": [{"id": "critic", "role_summary": "looks for what breaks"}],
        "most_recent_verdict": transcript[5]["content"],
        "current_round_messages": transcript[6:9],
        "branch_origin": {
            "direct_request": example("direct_request.json"),
            "parent_message": transcript[1],
        },
        "deferred_queue_summary": [{"target": "critic", "originator": "a", "type": "question"}],
        "cumulative_disagreements": {"resolved": [], "unresolved": []},
        "compression_note": "",
    }


@cache
def seeds() -> list[tuple[str, str]]:
    """Return a form of each kind and more, with its schema, as text that nobody can change."""
    found = [(case["schema"], example(case["file"])) for case in CASES["positive"]]
    found += [(case["schema"], case["instance"]) for case in CASES["negative"]]
    for name in CASES["semantic_artifacts"]:
        artifact = example(name)
        found += [("config", artifact["config"])]
        found += [("message", message) for message in artifact["canonical_transcript"]]
        found += [
            ("termination_artifact", artifact["outcome"]["termination_artifact"])
            for _ in range(artifact["outcome"]["kind"] == "termination")
        ]
    found += [("message", message) for message in honest()["canonical_transcript"]]
    found += [("message", message) for message in cut_short()["canonical_transcript"]]
    found += [
        ("context_packet", packet()),
        ("synthesis", honest()["canonical_transcript"][-1]["content"]),
        ("turn_structured_output", {"text": "x", "direct_requests": [request("b")]}),
        (
            "selector_output",
            {
                "strategy": "rules",
                "selected_agents": ["a"],
                "coordinator_agent": "k",
                "excluded_agents": [{"id": "b", "reason": "not needed"}],
                "missing_capabilities": [{"capability": "law", "reason": "it is about law"}],
                "reasoning": "",
            },
        ),
    ]
    return [(schema.removesuffix(".schema.json"), json.dumps(form)) for schema, form in found]


def accepted(schema: str, form: object) -> bool:
    """Tell whether we read a form."""
    try:
        READERS[schema](form)
    except Malformed:
        return False
    return True


@settings(max_examples=600)
@given(st.data())
def test_a_form_is_read_exactly_if_its_schema_accepts_it(data: st.DataObject) -> None:
    """However it was changed: whoever has the schemas only must not be surprised by us."""
    schema, text = data.draw(st.sampled_from(seeds()))
    form = json.loads(text)
    for _ in range(data.draw(st.integers(0, 3))):
        mutate(form, data)

    assert accepted(schema, form) == validator(schema).is_valid(form)


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
    assert validator("message").is_valid(written)
    assert decoders.read_message(written) == turn


def test_defaults_are_those_of_the_schema() -> None:
    """Whoever leaves something out gets what the protocol promises."""
    described = json.loads((SCHEMAS / "config.schema.json").read_bytes())
    properties = described["properties"]["runtime"]["properties"]

    assert {name: about["default"] for name, about in properties.items()} == {
        name: getattr(RuntimeConfig(), name) for name in RuntimeConfig.__struct_fields__
    }


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
