"""Models are heard while they speak: what will be their output, and nothing else."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from forum.ledger.kinds import Outcome
from forum.models import make_model
from forum.runs.policy import Agent, Api, Chat, Command, Scripted, ScriptStep, ToolCall
from tests.models.asking import CANARY, FORM, MAIL, ask, call_of, output_of, spec_of
from tests.models.provider import EVENTS, FOREVER, event, events, say, serving

WISH = ToolCall("mail", '{"to":"all"}')


def listen(agent: Agent, seconds: float = 10) -> tuple[list[str], bytes]:
    """Return what is heard of one call, and what is its output."""
    heard: list[str] = []
    reply = asyncio.run(make_model(agent).reply(call_of(seconds=seconds, hear=heard.append)))
    return heard, output_of(reply)


@pytest.mark.parametrize("api", Api)
def test_a_text_is_heard_as_it_comes_and_the_arguments_of_tools_are_not(api: Api) -> None:
    """The pieces are the provider's, letter for letter."""
    heard: list[str] = []
    with serving(say("Good day, \N{SNOWMAN}!", WISH, api=api)) as provider:
        reply = ask(spec_of(provider, api), call_of(offers=(MAIL,), hear=heard.append))

    assert heard == ["Good", " day", ", \N{SNOWMAN}!"]
    assert (output_of(reply).decode(), reply.uses) == ("".join(heard), (WISH,))


def test_a_piece_is_heard_before_the_next_one_is_said() -> None:
    """A provider that then falls silent was heard all the same; its thoughts were not."""
    piece = event({"choices": [{"delta": {"content": "half", "reasoning_content": "hm"}}]})

    async def hear_one(spec: Chat) -> str:
        heard = asyncio.Queue[str]()
        call = call_of(seconds=60, hear=heard.put_nowait)
        going = asyncio.ensure_future(make_model(spec).reply(call))
        async with asyncio.timeout(30):
            first = await heard.get()
        going.cancel()
        await asyncio.wait([going])
        return first

    with serving((EVENTS, piece, FOREVER)) as provider:
        assert asyncio.run(hear_one(spec_of(provider))) == "half"


def test_of_a_form_that_is_given_to_a_tool_only_the_form_is_heard() -> None:
    """It is the output; what was said before it is not."""
    heard: list[str] = []
    form = '{"name": "Ann", "age": 7}'
    with serving(say("Let me see.", ToolCall("answer", form), api=Api.ANTHROPIC)) as provider:
        spec = spec_of(provider, Api.ANTHROPIC)
        reply = ask(spec, call_of(schema=FORM, hear=heard.append))

    assert "".join(heard) == form == output_of(reply).decode()


def test_a_refusal_is_heard_like_any_other_text() -> None:
    """It is what is recorded as the output."""
    heard: list[str] = []
    refused = {"choices": [{"delta": {"refusal": "I must not."}, "finish_reason": "stop"}]}
    with serving(events(refused, b"[DONE]")) as provider:
        reply = ask(spec_of(provider), call_of(hear=heard.append))

    assert (reply.outcome, heard) == (Outcome.DENIED, ["I must not."])


def test_a_key_that_only_the_model_knows_is_not_heard(tmp_path: Path) -> None:
    """It is read from a file, and comes back four letters at a time."""
    heard: list[str] = []
    file = tmp_path / "key"
    file.write_text(CANARY)
    with serving(say(f"Your key is {CANARY}, I think.")) as provider:
        ask(spec_of(provider, key_file=str(file)), call_of(hear=heard.append))

    assert "".join(heard) == "Your key is [secret key], I think."


def test_a_program_is_heard_letter_by_whole_letter(tmp_path: Path) -> None:
    """While it runs, and wherever a pipe cuts; what is no text is heard as a mark of that."""
    sign, heard = tmp_path / "heard", list[str]()
    wait = f"until [ -e '{sign}' ]; do sleep 0.01; done"
    script = rf"printf 'caf\303'; {wait}; printf '\251 \377'; printf x >&2"

    def hear(text: str) -> None:
        heard.append(text)
        sign.touch()

    model = make_model(Command(("sh", "-c", script)))
    reply = asyncio.run(model.reply(call_of(seconds=30, hear=hear)))

    assert heard[0] == "caf"
    assert "".join(heard) == "café \N{REPLACEMENT CHARACTER}"
    assert output_of(reply) == b"caf\xc3\xa9 \xff"


@pytest.mark.parametrize("text", ["one two  three\n", " \n", "", "x"])
@pytest.mark.parametrize("milliseconds", [0, 100])
def test_a_script_is_heard_word_by_word_if_it_takes_its_time(text: str, milliseconds: int) -> None:
    """All of it, in the time that the script says."""
    began = monotonic()
    heard, output = listen(Scripted({"*": (ScriptStep(text, milliseconds=milliseconds),)}))

    assert milliseconds <= 1000 * (monotonic() - began)
    assert "".join(heard) == text == output.decode()
    assert len(heard) == (len(text.split()) if milliseconds and text.strip() else bool(text))


def test_a_script_that_is_out_of_time_says_nothing() -> None:
    """Nor is anything recorded of it."""
    late = Scripted({"*": (ScriptStep("too late", milliseconds=60_000),)})

    assert listen(late, seconds=0.05) == ([], b"")
