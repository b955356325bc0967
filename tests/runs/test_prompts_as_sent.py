"""The prompts of all roles as they are sent: compared with files, and complete at any size.

After a wanted change, raise `policy.PROMPT_VERSION`, write the files anew with
`python -m tests.runs.test_prompts_as_sent`, and review them in the change.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.engine.prompt_fit import SourceText, excerpt, share_tokens
from forum.runs import text_fit
from forum.runs.plan import Plan, Task
from forum.runs.policy import LaneBrief
from forum.runs.prompt import Prompt, Quotation, quote_whole
from forum.runs.roles import (
    classifier,
    coordinator,
    intent,
    opinions,
    reviser,
    summarizer,
    synthesizer,
    validator,
    worker,
)

FOLDER = Path(__file__).parent / "prompts_as_sent"

REQUEST = "Which of the two pumps should we buy, and what does it cost a year?\n\nPump A: 120 EUR."
LANES = {
    "hydraulics": LaneBrief("Pumps, valves and pipes.", "Give units.", confidence=810),
    "accounting": LaneBrief("Costs and prices.", "Round to cents.", confidence=120),
}
PLAN = Plan(
    (
        Task("compare", "Compare the pumps.", lane="hydraulics"),
        Task(
            "cost",
            "Compute the cost of a year of the better pump.",
            "contains EUR\nnames the pump",
            needs=("compare",),
            after=(),
            lane="accounting",
        ),
    )
)
ROOM = 4000
ORDERED = coordinator.offered_lanes(LANES, ROOM, "accounting")


def prompt_of_each_role(request: str, texts: Sequence[str]) -> dict[str, tuple[Prompt, bytes]]:
    """Return the prompt and the schema of each role, with these texts as its material."""
    asked = quote_whole("the request", request)
    quoted = [quote_whole(f"task t{number}", text) for number, text in enumerate(texts)]
    result = quote_whole("the result", texts[0])
    answer = quote_whole("the answer", texts[0])
    material = worker.TaskMaterial(asked, quoted[:1], quoted[1:])
    tools = [worker.ToolName("price-list", "Looks up the price of a pump.")]
    task = PLAN.by_id["cost"]
    return {
        "classifier": (classifier.build_prompt(asked, LANES), classifier.build_schema(LANES)),
        "coordinator": (
            coordinator.build_prompt(asked, LANES, quoted),
            coordinator.build_schema(LANES, ROOM),
        ),
        "coordinator-ordered-lane": (
            coordinator.build_prompt(asked, ORDERED, (), "accounting"),
            coordinator.build_schema(ORDERED, ROOM, "accounting"),
        ),
        "worker": (
            worker.build_prompt(
                task,
                task.instruction,
                PLAN,
                material,
                lane_instructions=LANES["accounting"].instructions,
                tools=tools,
            ),
            b"",
        ),
        "validator": (
            validator.build_prompt(
                asked,
                quote_whole("the instruction", task.instruction),
                [quote_whole("criteria", "names the pump")],
                inputs=quoted[:1],
                outcomes=quoted[1:],
                result=result,
            ),
            opinions.build_schema(ROOM),
        ),
        "synthesizer": (
            synthesizer.build_prompt(
                asked, quoted, absent=["check (failed): Check the price."], missing="the price"
            ),
            synthesizer.build_schema(["compare", "cost"], ROOM),
        ),
        "intent": (intent.build_prompt(asked, answer), intent.build_schema(ROOM)),
        "reviser": (reviser.build_prompt(asked, answer), reviser.build_schema(ROOM)),
        "summarizer": (summarizer.build_prompt(request, result, 120), b""),
    }


PROMISED = {
    "classifier": ("hydraulics", "accounting", "none"),
    "coordinator": ("hydraulics (router's confidence 0.81)", "Costs and prices.", "none"),
    "coordinator-ordered-lane": ("accounting", "The submitter chose this specialist"),
    "worker": (
        "Round to cents.",
        "- compare: Compare the pumps.",
        ">> cost (uses compare): Compute the cost",
        "price-list: Looks up",
        "## Your task (cost)\nCompute the cost of a year of the better pump.",
        "contains EUR\nnames the pump",
    ),
    "validator": ("Compute the cost of a year of the better pump.", "names the pump"),
    "synthesizer": ("check (failed): Check the price.", "the price"),
    "intent": (),
    "reviser": (),
    "summarizer": ("at most 120 words",),
}
"""Beside the request and the texts, what the description of each role promises."""
_WITHOUT_TEXTS = {"classifier", "coordinator-ordered-lane"}
_WITH_ONE_TEXT = {"intent", "reviser", "summarizer"}


def as_sent(prompt: Prompt, schema: bytes) -> str:
    """Return a prompt for people: its messages, and its schema with the members in their order."""
    turns = [f"=== {turn.who.value}\n{turn.text.decode()}" for turn in prompt.turns]
    if schema:
        turns.append(f"=== schema\n{json.dumps(json.loads(schema), indent=1)}")
    return "\n".join(turns) + "\n"


@pytest.mark.parametrize("role", PROMISED)
def test_the_prompt_is_the_reviewed_one(role: str) -> None:
    """A prompt is a contract with a model: no change of it goes unseen."""
    prompt, schema = prompt_of_each_role(REQUEST, ["A is better.", "A costs 120 EUR."])[role]

    assert as_sent(prompt, schema) == (FOLDER / f"{role}.txt").read_text()


texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=400)


@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_no_prompt_lacks_a_part_that_its_role_promises(request: str, material: list[str]) -> None:
    """Whatever the texts say and however long they are, all parts stand in the prompt whole."""
    for role, (prompt, _) in prompt_of_each_role(request, material).items():
        shown = material
        if role in _WITH_ONE_TEXT:
            shown = material[:1]
        if role in _WITHOUT_TEXTS:
            shown = []
        for part in (*PROMISED[role], request, *shown):
            assert part.encode() in prompt.text, (role, part)
        system, *others = prompt.turns
        assert system.who.value == "system"
        assert b"\n\n".join(turn.text for turn in (system, *others)) == prompt.text


passages = st.lists(
    st.text(alphabet="abcdefgh .\n", min_size=1, max_size=300), min_size=1, max_size=40
)


@given(passages, st.text(alphabet="abcdefgh ", max_size=60), st.integers(40, 2000), st.booleans())
def test_what_does_not_fit_is_named_and_nothing_else_is_lost(
    parts: list[str],
    query: str,
    most: int,
    by_section: bool,  # noqa: FBT001  given by position
) -> None:
    """An excerpt is the text, or it fits and says how many bytes are left out at which place."""
    text = "\n\n".join(parts).encode()
    shown = text_fit.excerpt_by_relevance(text, query, most, by_section=by_section)

    if text_fit.estimate_tokens(text) <= most:
        assert (shown.text, shown.left_out) == (text, 0)
        return
    assert text_fit.estimate_tokens(shown.text) <= most + 60
    assert shown.left_out > 0
    assert b"bytes left out here, beginning" in shown.text
    source = SourceText("the request", text, len(text))
    quotation = excerpt(source, query, most, by_section=by_section)
    assert f"{shown.left_out} of {len(text)} bytes are left out" in quotation.note or most < 64


@given(passages, st.integers(1, 300))
def test_chunks_are_the_text_in_order(parts: list[str], most: int) -> None:
    """The Summarizer reads all of a text, each part once."""
    text = "\n".join(parts).encode()
    chunks = text_fit.split_chunks(text, most)

    assert b"".join(chunks) == text
    assert all(text_fit.estimate_tokens(chunk) <= most for chunk in chunks)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=12), st.integers(0, 20_000))
def test_tokens_are_shared_so_that_short_texts_stay_whole(sizes: list[int], room: int) -> None:
    """No text is shortened while a longer one has more than its equal part."""
    shares = share_tokens(sizes, room)

    assert sum(shares) <= max(room, 64 * len(sizes))
    for size, share in zip(sizes, shares, strict=True):
        assert share <= size
        if share < size:
            assert share >= max(shares) - 1


def test_a_note_says_that_a_text_is_a_summary() -> None:
    """The reader must not take a summary for the text."""
    prompt = reviser.build_prompt(
        Quotation("the request", b"short", 900, "a summary; the whole text has 900 bytes"),
        quote_whole("the answer", "x"),
    )

    assert b"begin: the request (a summary; the whole text has 900 bytes)" in prompt.text


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, (sent, form) in prompt_of_each_role(
        REQUEST, ["A is better.", "A costs 120 EUR."]
    ).items():
        (FOLDER / f"{name}.txt").write_text(as_sent(sent, form))
