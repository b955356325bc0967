"""Names of models, paths and the like in facts: what is free text leaves nothing there."""

import ast
from pathlib import Path

import pytest

from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import (
    A_MODEL,
    OWN_ACTORS,
    Names,
    ReportProvenance,
    ReportSourceFacts,
    decode_names,
    derive_name,
    encode_names,
    program_label,
)
from tests.docs.pages import ROOT

DERIVED = {
    "runs/report_kinds.py": "the law itself",
    "features/gateway/relay.py": "a path of an operation that the gateway knows",
    "features/recorder/recorder.py": "the name of a file of this machine",
    "features/recorder/report_writer.py": "compared with a name that release 0.2 recorded",
}
"""Where a label is made of any text, and why it is no text of others in a fact."""


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("gpt-4o", "gpt-4o"),
        ("anthropic/claude-x", "anthropic-claude-x"),
        ("llama3:8b", "llama3:8b"),
        ("claude-3-5-sonnet@20240620", "claude-3-5-sonnet-20240620"),
        ("@cf/meta/llama-3-8b-instruct", "cf-meta-llama-3-8b-instruct"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5-1m"),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/x", None),
        ("my PIN is 4711", "model"),
        ("Ann~Smith,4711", "model"),
        ("ann@example.com", "model"),
        ("4711\n", "model"),
        ("", ""),
    ],
)
def test_a_model_keeps_its_label_and_a_free_text_has_a_stand_in(
    name: str, label: str | None
) -> None:
    """Costs are counted by the labels of models."""
    expected = name.replace("/", "-") if label is None else label
    assert derive_name(name, A_MODEL) == expected
    body = decode_names(encode_names(Names(model=name)))
    assert body.model == (name if expected == "model" else "")


def uses(path: Path) -> bool:
    """Return whether a file names the function that makes a label of any text."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return any(
        getattr(node, "id", getattr(node, "attr", "")) == "derive_label"
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )


def test_labels_are_made_of_any_text_only_where_a_reason_says_why() -> None:
    """Whoever adds a use reads here what it may not be: text of others in a fact."""
    source = ROOT / "src/forum"
    assert {str(p.relative_to(source)) for p in source.rglob("*.py") if uses(p)} == set(DERIVED)


@pytest.mark.parametrize("name", sorted(OWN_ACTORS))
def test_no_reported_program_is_an_actor_of_forum(name: str) -> None:
    """Packs count the runs that an actor began, and whoever may report names the program."""
    draft = source_draft("run", name, ReportSourceFacts(ReportProvenance.REPORTED, "key/ci/1"))
    (body,) = draft.bodies
    assert draft.actor == program_label(name) == "run"
    assert decode_names(b"".join(body.content.chunks())).name == name
