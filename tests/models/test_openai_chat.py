"""Models behind HTTP, asked through chat completions: whatever a provider does has an outcome."""

import asyncio
import json
import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.engine import NO_COST, CallReply
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models import http_model, make_model
from forum.models.openai_chat import ChatWire
from forum.models.provider_http import MAX_ERROR_BYTES, parse_retry_after
from forum.runs.kinds import Why
from forum.runs.policy import Api, Chat, ToolCall
from forum.runs.server_sent_events import SseEvent, SseParser
from tests.models.asking import (
    CANARY,
    CONVERSATION,
    FORM,
    MAIL,
    NOTE,
    ask,
    call_of,
    error_of,
    output_of,
    spec_of,
)
from tests.models.provider import EVENTS, FOREVER, Answer, event, events, refuse, say, serving
from tests.support import wait_until

PIECE = {"choices": [{"delta": {"content": "half"}}]}
DEEP = b'{"choices":[{"delta":{"content":' + b"[" * 10_000 + b"]" * 10_000 + b"}}]}"


def test_a_good_answer_is_text_and_what_it_cost() -> None:
    """Seven tokens were read and three said, at one and five thousandths of a dollar a thousand."""
    with serving(say("Good day, \N{SNOWMAN}!")) as provider:
        reply = ask(spec_of(provider))

    assert output_of(reply) == "Good day, \N{SNOWMAN}!".encode()
    assert (reply.outcome, reply.why, reply.code) == (Outcome.OK, Why.NONE, "")
    assert (reply.spent, reply.input_tokens) == (Amount(7_000 + 15_000, 10, 1), 7)
    assert (reply.model, reply.prices) == ("tiny-1", "declared")
    assert len(provider.seen) == 1


def test_a_call_says_what_was_recorded_and_no_option_says_otherwise() -> None:
    """Who spoke, what may be used, which form: and options add to that, but change nothing."""
    options = {
        "temperature": 0,
        "model": "dear",
        "max_tokens": 10**6,
        "n": 9,
        "tools": [],
        "stop": "x",
    }
    with serving(say("ok")) as provider:
        spec = spec_of(provider, options=options, max_tokens=55)
        ask(spec, call_of(turns=CONVERSATION, offers=(MAIL, NOTE), schema=FORM))
        ask(spec_of(provider, options=options))

    full, plain = (seen.body for seen in provider.seen)
    *_, asked, mailed, noted = full["messages"]
    assert [message["role"] for message in full["messages"]] == [
        "system", "user", "assistant", "tool", "tool",
    ]  # fmt: skip
    assert full["messages"][1]["content"] == "Mail and note it. \N{REPLACEMENT CHARACTER}"
    ids = [made["id"] for made in asked["tool_calls"]]
    assert [mailed["tool_call_id"], noted["tool_call_id"]] == ids
    arguments = [json.loads(made["function"]["arguments"]) for made in asked["tool_calls"]]
    assert arguments == [{"to": "all"}, {"input": "sent"}]
    assert [tool["function"]["name"] for tool in full["tools"]] == ["mail", "note"]
    assert full["tools"][1]["function"]["parameters"]["required"] == ["input"]
    form = full["response_format"]["json_schema"]
    assert (form["schema"], form["strict"]) == (json.loads(FORM), True)
    assert (full["model"], full["max_tokens"], full["stream"]) == ("tiny", 55, True)
    assert (full["temperature"], full["stop"], "n" in full) == (0, "x", False)
    assert plain["messages"] == [{"role": "user", "content": "Hello."}]
    assert not {"tools", "response_format"} & plain.keys()


def test_tools_are_wanted_in_the_words_of_the_model() -> None:
    """Arguments with a form are as the model wrote them; for a tool without one, the text alone."""
    uses = (
        ToolCall("mail", '{"to": 1e2,}'),
        ToolCall("note", '{"input":"a \\n b"}'),
        ToolCall("note", "broken"),
    )
    with serving(say("", *uses, finish="tool_calls")) as provider:
        reply = ask(spec_of(provider), call_of(offers=(MAIL, NOTE)))

    assert reply.outcome is Outcome.OK
    assert reply.uses == (
        ToolCall("mail", '{"to": 1e2,}'),
        ToolCall("note", "a \n b"),
        ToolCall("note", "broken"),
    )


CODES: list[tuple[str, Answer, Outcome, Why, str, bool]] = [
    ("busy", refuse(429, Retry_After="2"), Outcome.FAILED, Why.THROTTLED, "http 429", True),
    ("overloaded", refuse(529), Outcome.FAILED, Why.THROTTLED, "http 529", True),
    ("no key", refuse(401), Outcome.DENIED, Why.ERROR, "http 401", True),
    ("forbidden", refuse(403), Outcome.DENIED, Why.ERROR, "http 403", True),
    ("wrong", refuse(400), Outcome.DENIED, Why.ERROR, "http 400", True),
    ("too long", refuse(400, b'{"error":{"code":"context_length_exceeded"}}'), Outcome.DENIED,
     Why.ERROR, "context-length", True),
    ("unknown", refuse(404), Outcome.DENIED, Why.ERROR, "http 404", True),
    ("unpaid", refuse(402), Outcome.DENIED, Why.ERROR, "http 402", True),
    ("slow", refuse(408), Outcome.FAILED, Why.ERROR, "http 408", True),
    ("broken", refuse(500), Outcome.FAILED, Why.ERROR, "http 500", True),
    ("elsewhere", refuse(302, Location="/x"), Outcome.DENIED, Why.ERROR, "http 302", True),
    ("half", events(PIECE), Outcome.FAILED, Why.CUT, "", False),
    ("nothing", (), Outcome.FAILED, Why.CUT, "", False),
    ("half a head", (b"HTTP/1.1 200",), Outcome.FAILED, Why.CUT, "", False),
    ("no HTTP", (b"220 mail ready\r\n\r\n",), Outcome.FAILED, Why.CUT, "", False),
    ("garbage", events(PIECE, b"{x"), Outcome.FAILED, Why.ERROR, "malformed", False),
    ("no JSON", events(PIECE, b'{"usage":NaN}'), Outcome.FAILED, Why.ERROR, "malformed", False),
    ("no text", events(PIECE, b'{"choices":[{"delta":{"content":"\\ud800"}}]}'), Outcome.FAILED,
     Why.ERROR, "malformed", False),
    ("deep", events(PIECE, DEEP), Outcome.FAILED, Why.ERROR, "malformed", False),
    ("deep beside", events(PIECE, b'{"x":' + b"[" * 10_000 + b"}"), Outcome.FAILED, Why.ERROR,
     "malformed", False),
    ("a page", (b"HTTP/1.1 200 x\r\nContent-Type: text/html\r\n\r\n<p>",), Outcome.FAILED,
     Why.ERROR, "malformed", False),
    ("packed", (EVENTS[:-2] + b"Content-Encoding: gzip\r\n\r\n", b"x"), Outcome.FAILED, Why.ERROR,
     "malformed", False),
    ("error inside", events(PIECE, {"error": {"code": 500}}), Outcome.FAILED, Why.ERROR,
     "provider", False),
    ("filtered", say("half", finish="content_filter", usage={}), Outcome.DENIED, Why.ERROR,
     "refused", False),
    ("long", say("", ToolCall("mail", "{"), finish="length", usage={}), Outcome.FAILED, Why.CUT,
     "length", False),
]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context size, try increasing it",
        "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
        "Requested tokens (2050) exceed context window of 2048",
    ],
)
def test_a_prompt_that_is_too_long_is_told_what_to_do(words: str) -> None:
    """Providers say it in words of their own; a user reads the same of all of them."""
    with serving(refuse(400, json.dumps({"error": {"message": words}}).encode())) as provider:
        reply = ask(spec_of(provider), call_of())

    assert (reply.outcome, reply.code) == (Outcome.DENIED, "context-length")
    error = b"".join(reply.error.chunks()).decode()
    assert "set context_tokens to what it has" in error.splitlines()[-1]


@pytest.mark.parametrize(
    ("answer", "outcome", "why", "code", "free"),
    [row[1:] for row in CODES],
    ids=[row[0] for row in CODES],
)
def test_whatever_goes_wrong_has_an_outcome_and_a_price(
    answer: Answer,
    outcome: Outcome,
    why: Why,
    code: str,
    free: bool,  # noqa: FBT001
) -> None:
    """What was refused costs nothing; where something may have been said, all that was reserved."""
    with serving(answer) as provider:
        model, call = make_model(spec_of(provider)), call_of()
        reply = asyncio.run(model.reply(call))

    assert (reply.outcome, reply.why, reply.code) == (outcome, why, code)
    assert reply.spent == (NO_COST if free else model.bound(call))
    assert output_of(reply) in (b"", b"half")
    assert reply.uses == ()
    assert len(provider.seen) == 1, "nothing is tried again, and nobody is followed"


def test_the_beginning_of_an_answer_is_kept() -> None:
    """Half an answer may be what somebody needs to see."""
    with serving(events(PIECE)) as provider:
        assert output_of(ask(spec_of(provider))) == b"half"


def test_an_answer_without_its_last_mark_is_complete_when_it_says_why_it_ends() -> None:
    """Some servers close the connection instead."""
    with serving(say("all")[:-1]) as provider:
        reply = ask(spec_of(provider))

    assert (reply.outcome, output_of(reply)) == (Outcome.OK, b"all")


def test_what_was_cut_by_its_length_is_text_but_no_form() -> None:
    """A long text may do; half an object does not."""
    with serving(say("once upon a", finish="length")) as provider:
        story, form = ask(spec_of(provider)), ask(spec_of(provider), call_of(schema=FORM))

    assert (story.outcome, story.code) == (Outcome.OK, "length")
    assert (form.outcome, form.why, form.code) == (Outcome.FAILED, Why.CUT, "length")
    assert story.spent == form.spent == Amount(22_000, 10, 1)


ABSURD: list[Any] = [
    {},
    [],
    "7",
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": -1, "completion_tokens": 3},
    {"prompt_tokens": 7, "completion_tokens": 2**60},
    {"prompt_tokens": 2**53, "completion_tokens": 2**53},
    {"prompt_tokens": 7.5, "completion_tokens": 3},
    {"prompt_tokens": True, "completion_tokens": 3},
    {"prompt_tokens": "7", "completion_tokens": 3},
]


@pytest.mark.parametrize("usage", ABSURD, ids=repr)
def test_a_bill_that_cannot_be_true_is_the_most_that_it_can_be(usage: Any) -> None:  # noqa: ANN401
    """Nobody saves money by miscounting."""
    with serving(say("fine", usage=usage)) as provider:
        model, call = make_model(spec_of(provider)), call_of()
        reply = asyncio.run(model.reply(call))

    assert (reply.outcome, reply.code, reply.spent) == (Outcome.OK, "no-usage", model.bound(call))


def test_a_bill_above_the_bound_is_reported_as_it_is() -> None:
    """The engine records by how much; the money is gone."""
    usage = {"prompt_tokens": 7, "completion_tokens": 10**9}
    with serving(say("fine", usage=usage)) as provider:
        reply = ask(spec_of(provider))

    assert reply.spent == Amount(7_000 + 5 * 10**12, 10**9 + 7, 1)


@pytest.mark.parametrize(
    "answer",
    [
        (EVENTS, *(b"data: " if n == 0 else b"x" * (1 << 20) for n in range(50))),
        (EVENTS, *[event({"choices": [{"delta": {"content": "x" * (1 << 20)}}]})] * 50),
        events(
            *(
                {"choices": [{"delta": {"tool_calls": [{"index": n, "function": {"name": "x"}}]}}]}
                for n in range(65)
            )
        ),
    ],
    ids=["one line", "much text", "many wishes"],
)  # fmt: skip
def test_what_is_too_large_is_not_kept(answer: Answer) -> None:
    """Fifty megabytes, or a wish for everything, do not fill the memory of a worker."""
    with serving(answer) as provider:
        reply = ask(spec_of(provider))

    assert (reply.outcome, reply.why) == (Outcome.FAILED, Why.OVERSIZE)
    assert reply.output.size <= 1 << 24


def test_a_long_error_is_kept_up_to_its_bound() -> None:
    """What is said of an error is for people, who read no megabytes."""
    with serving((*refuse(500, b"why "), *[b"x" * (1 << 20)] * 20)) as provider:
        reply = ask(spec_of(provider))

    assert error_of(reply).startswith(b"why xxx")
    assert reply.error.size == MAX_ERROR_BYTES


@pytest.mark.parametrize(
    "answer",
    [(FOREVER,), (EVENTS, FOREVER), (*events(PIECE), FOREVER), (EVENTS, *[b": \n", 0.05] * 100)],
    ids=["before the head", "after the head", "in the middle", "drop by drop"],
)
def test_a_deadline_holds_wherever_the_provider_hangs(answer: Answer) -> None:
    """It may have been billed, and the connection is closed."""
    with serving(answer) as provider:
        model, call = make_model(spec_of(provider)), call_of(seconds=0.3)
        began = monotonic()
        reply = asyncio.run(model.reply(call))
        took = monotonic() - began
        wait_until(lambda: provider.open == 0)

    assert (reply.outcome, reply.why, reply.spent) == (
        Outcome.TIMEOUT, Why.DEADLINE, model.bound(call),
    )  # fmt: skip
    assert 0.3 <= took < 5
    assert 300 <= reply.milliseconds < 5000


def test_a_cancelled_call_leaves_nothing_running() -> None:
    """A run that is stopped does not go on paying."""

    async def begin_and_stop(spec: Chat) -> None:
        task = asyncio.create_task(make_model(spec).reply(call_of()))
        await asyncio.to_thread(wait_until, lambda: bool(provider.seen))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with serving((*events(PIECE), FOREVER)) as provider:
        asyncio.run(begin_and_stop(spec_of(provider)))
        wait_until(lambda: provider.open == 0)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1:1/v1", "connect"),
        ("http://nobody.invalid/v1", "connect"),
        ("ftp://127.0.0.1/v1", "connect"),
        ("http://[::1/v1", "connect"),
        ("nonsense", "connect"),
    ],
)
def test_nobody_is_there(url: str, code: str) -> None:
    """Nothing was sent, and nothing is paid."""
    reply = ask(spec_of(url))

    assert (reply.outcome, reply.why, reply.code) == (Outcome.FAILED, Why.ERROR, code)
    assert reply.spent == NO_COST
    assert reply.error.size


def test_who_does_not_speak_tls_is_told_apart() -> None:
    """It is not the network that is broken."""
    with serving(refuse(400)) as provider:
        reply = ask(spec_of(provider.url.replace("http:", "https:")))

    assert (reply.outcome, reply.code, reply.spent) == (Outcome.FAILED, "tls", NO_COST)


def test_a_key_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new key needs no new start; what is missing is named."""
    file = tmp_path / "key"
    with serving(say("ok")) as provider:
        missing = ask(spec_of(provider, key_env="FORUM_TEST_KEY"))
        gone = ask(spec_of(provider, key_file=str(file)))
        monkeypatch.setenv("FORUM_TEST_KEY", CANARY)
        file.write_text("sk-of-the-file\n")
        ask(spec_of(provider, key_env="FORUM_TEST_KEY"))
        ask(spec_of(provider, key_file=str(file)))
        monkeypatch.setenv("FORUM_TEST_KEY", "two\r\nlines")
        broken = ask(spec_of(provider, key_env="FORUM_TEST_KEY"))

    for reply in (missing, gone, broken):
        assert (reply.outcome, reply.code, reply.spent) == (Outcome.DENIED, "no-key", NO_COST)
    assert b"set the variable FORUM_TEST_KEY" in error_of(missing)
    assert b"two" not in error_of(broken)
    authorizations = [seen.headers["authorization"] for seen in provider.seen]
    assert authorizations == [f"Bearer {CANARY}", "Bearer sk-of-the-file"]


@pytest.mark.parametrize(
    "answer",
    [
        say(f"you said {CANARY}", ToolCall("mail", f'{{"to":"{CANARY}"}}')),
        refuse(401, f"wrong key {CANARY}".encode()),
        events({"error": CANARY}),
        (CANARY.encode(), b"\r\n\r\n"),
        events(b"{" + CANARY.encode()),
        events({"choices": [], "model": CANARY}, b"[DONE]"),
        (FOREVER,),
    ],
)
def test_a_key_is_in_nothing_that_comes_of_a_call(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where the provider repeats it."""
    monkeypatch.setenv("FORUM_TEST_KEY", CANARY)
    caplog.set_level(logging.INFO)
    with serving(answer) as provider:
        model = make_model(spec_of(provider, key_env="FORUM_TEST_KEY"))
        reply = asyncio.run(model.reply(call_of(seconds=1)))

    assert CANARY in provider.seen[0].headers["authorization"]
    assert CANARY not in f"{reply!r} {model!r} {vars(model)!r} {caplog.text}"
    assert reply.spent is not None


def test_many_loops_and_threads_may_call_at_once() -> None:
    """A worker has a loop of its own, and a process may have several workers."""
    replies: list[CallReply] = []

    def work(spec: Chat) -> None:
        replies.extend(ask(spec) for _ in range(5))

    with serving(say("hello")) as provider:
        threads = [threading.Thread(target=work, args=(spec_of(provider),)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [output_of(reply) for reply in replies] == [b"hello"] * 30


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, 0),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "1.5"}, 1500),
        ({"retry-after": "2", "retry-after-ms": "40"}, 40),
        ({"retry-after": "99999"}, 600_000),
        ({"retry-after": "9" * 5000}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0),
        ({"retry-after": "Sun, 06 Nov 99999 08:49:37 GMT"}, 0),
    ],
    ids=repr,
)
def test_a_pause_is_read_in_all_its_forms(headers: dict[str, str], pause: int) -> None:
    """Seconds, milliseconds or a date; never more than ten minutes, never less than nothing."""
    assert parse_retry_after(headers) == pause


def test_a_date_is_a_pause_until_then() -> None:
    """The other form that RFC 9110 has."""
    then = datetime.now(UTC) + timedelta(seconds=90)

    assert 80_000 < parse_retry_after({"retry-after": format_datetime(then, usegmt=True)}) <= 90_000


@given(st.lists(st.binary(max_size=20).filter(lambda b: not set(b) & set(b"\r\n"))), st.data())
def test_events_do_not_depend_on_how_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    """TCP cuts where it likes."""
    ends = [data.draw(st.sampled_from([b"\n", b"\r\n"])) for _ in lines]
    told = [b" " + line for line in lines]
    stream = b"".join(
        b"event: e%sdata:%s%s%s" % (e, t, e, e) for t, e in zip(told, ends, strict=True)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    reader = SseParser()

    assert [one for piece in pieces for one in reader.feed(piece)] == [
        SseEvent("e", line) for line in lines
    ]


@pytest.mark.parametrize(
    ("url", "name", "other"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens", "max_tokens"),
        ("http://127.0.0.1/v1", "max_tokens", "max_completion_tokens"),
    ],
)
def test_the_limit_has_the_name_that_its_server_knows(url: str, name: str, other: str) -> None:
    """OpenAI's newer models refuse the old name; most others know no other."""
    body = ChatWire(Chat(url, "gpt", max_tokens=9), call_of()).body()

    assert (body[name], other in body) == (9, False)


def test_a_form_that_is_no_json_is_never_sent() -> None:
    """Nobody has to pay for being told so."""
    with serving(say("ok")) as provider:
        reply = ask(spec_of(provider), call_of(schema=b"{"))

    assert (reply.outcome, reply.code, reply.spent) == (Outcome.FAILED, "bad-request", NO_COST)
    assert provider.seen == []


def test_a_proxy_that_cannot_be_used_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the environment is for addresses elsewhere; its password is told to nobody."""
    monkeypatch.setenv("ALL_PROXY", f"socks9://me:{CANARY}@127.0.0.1:1")
    monkeypatch.setenv("all_proxy", f"socks9://me:{CANARY}@127.0.0.1:1")
    with serving(say("ok")) as provider:
        here, elsewhere = ask(spec_of(provider)), ask(spec_of("http://models.invalid/v1"))

    assert here.outcome is Outcome.OK
    assert (elsewhere.outcome, elsewhere.code) == (Outcome.FAILED, "connect")
    assert CANARY.encode() not in error_of(elsewhere)


def test_every_api_has_its_wire() -> None:
    """A new API without one would fail at the first call, and not before."""
    assert http_model._WIRES.keys() == set(Api)  # noqa: SLF001  the table that calls look into
