"""The forms of the open protocol agree with the JSON Schemas and the cases of its publisher."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.features.symposium.artifact import build_session_files
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.schemas import (
    RuntimeConfig,
)
from tests.features.council.forged import cut_short, honest, mutate, request
from tests.features.council.sitting import Answer, courses, sit
from tests.features.symposium.schemas import SCHEMAS, SYMPOSIUM, validator
from tests.features.symposium.test_symposium_forms import READERS, accepted
from tests.foreign_data import IS_HERE, LEFT_OUT

if not IS_HERE:
    pytest.skip(LEFT_OUT, allow_module_level=True)

EXAMPLES = SCHEMAS / "examples"
WRITTEN = {
    "artifact.json": "artifact",
    "manifest.json": "run_manifest",
    "config.json": "config",
    "selector_output.json": "selector_output",
    "termination.json": "termination_artifact",
}
CASES: dict[str, Any] = json.loads((SYMPOSIUM / "conformance_cases.json").read_bytes())


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


@settings(max_examples=600)
@given(st.data())
def test_a_form_is_read_exactly_if_its_schema_accepts_it(data: st.DataObject) -> None:
    """However it was changed: whoever has the schemas only must not be surprised by us."""
    schema, text = data.draw(st.sampled_from(seeds()))
    form = json.loads(text)
    for _ in range(data.draw(st.integers(0, 3))):
        mutate(form, data)

    assert accepted(schema, form) == validator(schema).is_valid(form)


def test_defaults_are_those_of_the_schema() -> None:
    """Whoever leaves something out gets what the protocol promises."""
    described = json.loads((SCHEMAS / "config.schema.json").read_bytes())
    properties = described["properties"]["runtime"]["properties"]

    assert {name: about["default"] for name, about in properties.items()} == {
        name: getattr(RuntimeConfig(), name) for name in RuntimeConfig.__struct_fields__
    }


@given(courses())
def test_the_files_of_a_session_fit_the_schemas(course: tuple[dict[str, Any], Answer]) -> None:
    """However it went and ended."""
    files = build_session_files(sit(*course).record, "1.2.3")

    for file, schema in WRITTEN.items():
        if file in files:
            validator(schema).validate(json.loads(files[file]))
    assert {*WRITTEN} - {*files} <= {"termination.json"}
