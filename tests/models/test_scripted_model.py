"""Scripted agents: the same call has the same reply, on every machine and on every day."""

import asyncio
from time import monotonic

import pytest

from forum.engine import EMPTY_CONTENT, CallReply, ModelCall
from forum.ledger.body import CHUNK_SIZE, BytesContent
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models import make_model
from forum.models.command import CommandModel
from forum.models.scripted_model import ScriptedModel
from forum.runs.kinds import Why
from forum.runs.policy import Command, Scripted, ScriptStep, ToolCall


def reply(spec: Scripted, number: int = 1, task: str = "a", prompt: bytes = b"") -> CallReply:
    """Return what comes of one call, for which there is a tenth of a second."""
    call = ModelCall(
        "run-1",
        task,
        step=f"reply/{number}",
        number=number,
        prompt=BytesContent(prompt),
        seconds=0.1,
    )
    return asyncio.run(ScriptedModel(spec).reply(call))


def test_the_nth_call_has_the_nth_move_and_the_last_one_is_repeated() -> None:
    """A script says what matters, and not how often it will be asked."""
    spec = Scripted({"a": (ScriptStep("1"), ScriptStep("2")), "*": (ScriptStep("any"),)})

    contents = [reply(spec, number).output for number in (1, 2, 3, 9)]
    assert contents == [
        BytesContent(b"1"),
        BytesContent(b"2"),
        BytesContent(b"2"),
        BytesContent(b"2"),
    ]
    assert reply(spec, 5, task="b").output == BytesContent(b"any")


@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        (b"Add the numbers.\nThen go.", b"Add the numbers."),
        (b"", b""),
        (b"x" * CHUNK_SIZE + b"y\nz", b"x" * CHUNK_SIZE + b"y"),
    ],
    ids=["two lines", "nothing", "longer than a piece"],
)
def test_without_moves_an_agent_repeats_what_it_was_told(prompt: bytes, line: bytes) -> None:
    """A plan can be tried before anybody has written a script for it."""
    spec = Scripted({"b": (ScriptStep("of another task"),)}, usd=7, tokens=9)

    assert reply(spec, prompt=prompt) == CallReply(
        Outcome.OK, output=BytesContent(b"Done: " + line), spent=Amount(7, 0, 1)
    )


def test_a_move_that_fails_is_recorded_as_it_is_written() -> None:
    """What is billed, and how long it took, are those of the script: a replay is equal to it."""
    use = ToolCall("mail", "--to all")
    moves = (
        ScriptStep("half", fail="503", milliseconds=3, usd=0, tokens=4),
        ScriptStep("all", use=(use,), usd=11),
    )
    spec = Scripted({"a": moves}, usd=7)

    assert reply(spec, 1) == CallReply(
        Outcome.FAILED, BytesContent(b"half"), Amount(0, 4, 1), 3, why=Why.ERROR, code="503"
    )
    assert reply(spec, 2) == CallReply(
        Outcome.OK, BytesContent(b"all"), Amount(11, 0, 1), uses=(use,)
    )


def test_a_move_takes_its_time_but_not_more_than_its_call_has() -> None:
    """A deadline holds for those who only play, too."""
    spec = Scripted(
        {"a": (ScriptStep("late", milliseconds=60_000), ScriptStep("ok", milliseconds=50))}, usd=7
    )
    began = monotonic()
    late, slow = reply(spec, 1), reply(spec, 2)

    assert 0.15 <= monotonic() - began < 10
    assert late == CallReply(
        Outcome.TIMEOUT, EMPTY_CONTENT, Amount(7, 0, 1), 60_000, why=Why.DEADLINE
    )
    assert (slow.outcome, slow.milliseconds) == (Outcome.OK, 50)


def test_the_price_of_a_scripted_call_is_known_before() -> None:
    """It is what is reserved, even where a move will bill more."""
    model = ScriptedModel(Scripted({"*": (ScriptStep(usd=1000),)}, usd=7, tokens=9))
    call = ModelCall("run-1", task="a", step="reply/1", number=1, prompt=EMPTY_CONTENT, seconds=1)

    assert (model.name, model.bound(call)) == ("scripted", Amount(7, 9, 1))


def test_every_kind_of_agent_has_its_model() -> None:
    """Whoever reads a policy need not know which kinds there are."""
    made = [make_model(Scripted()), make_model(Command(("cat",)))]

    assert [type(model) for model in made] == [ScriptedModel, CommandModel]
