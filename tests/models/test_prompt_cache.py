"""What providers store of a prompt is marked, and costs what they bill."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from forum.models import make_model
from forum.models.prices import find_price
from forum.runs.policy import Api, ToolCall
from forum.runs.prompt import MessageRole, PromptMessage
from tests.models.asking import CONVERSATION, NOTE, ask, call_of, spec_of
from tests.models.provider import Answer, Seen, say, serving
from tests.surfaces.terminal import Terminal

MODEL = "claude-sonnet-4-5"
LISTED: dict[str, Any] = {"model": MODEL, "input_usd": None, "output_usd": None}
INPUT, WRITE = 3000, 3750
READ, OUTPUT = 300, 15000
"""Nano-dollars for a token, as the provider lists them."""
MIN_STORED = 1024
REQUEST = "Name the soup. Describe the stew. " + "The kitchen has a large stove. " * 300


class Biller:
    """Bills like Anthropic: dearer what it stores, and a tenth for what it has stored before."""

    def __init__(self) -> None:
        self.nano_usd = self.calls = self.read = 0
        self._stored: set[str] = set()

    def answer(self, seen: Seen) -> Answer:
        """Answer as the role that is asked, and add to the bill."""
        text = _reply(seen.body)
        usage = self._bill(seen.body, len(text))
        if "tool_choice" in seen.body:
            return say("", ToolCall("answer", text), api=Api.ANTHROPIC, usage=usage)
        return say(text, api=Api.ANTHROPIC, usage=usage)

    def _bill(self, body: dict[str, Any], written: int) -> dict[str, int]:
        whole, known = 0, 0
        marked, prefix = 0, sha256()
        ends = []
        for block in _blocks(body):
            text = block.get("text") or json.dumps(block.get("input_schema", ""))
            prefix.update(text.encode())
            whole += len(text.encode()) // 2
            if "cache_control" in block and whole >= MIN_STORED:
                ends.append(prefix.hexdigest())
                marked = whole
                known = whole if prefix.hexdigest() in self._stored else known
        self._stored.update(ends)
        counts = (whole - marked, marked - known, known, written)
        self.nano_usd += sum(
            n * price for n, price in zip(counts, (INPUT, WRITE, READ, OUTPUT), strict=True)
        )
        self.calls, self.read = self.calls + 1, self.read + known
        names = ("input", "cache_creation_input", "cache_read_input", "output")
        return {f"{name}_tokens": count for name, count in zip(names, counts, strict=True)}


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    system = body.get("system", "")
    blocks = system if isinstance(system, list) else [{"text": system}]
    messages = [block for message in body["messages"] for block in message["content"]]
    return [*body.get("tools", []), *blocks, *messages]


def _reply(body: dict[str, Any]) -> str:
    role = json.dumps(body["system"])
    if "You plan the work" in role:
        tasks = [
            {"id": name, "instruction": f"Name the {name}."} for name in ("soup", "stew", "pie")
        ]
        return json.dumps({"asks": ["soup"], "tasks": tasks})
    if "You check the work" in role:
        return '{"passed": true, "reason": "it does"}'
    if "You write the one answer" in role:
        return json.dumps({"parts": [{"from": "soup", "text": "Soup, and the stew. " * 5}]})
    return "The soup and the stew of the kitchen are hot. " * 5


@pytest.mark.parametrize("cap", ["5", "0.15", "0.1"])
def test_a_team_pays_what_its_provider_bills(tmp_path: Path, cap: str) -> None:
    """Tasks of one request begin alike, and what is stored once is read after that."""
    terminal, biller = Terminal(tmp_path), Biller()
    with serving(biller.answer) as provider:
        settings = (
            f'[models.capable]\nurl = "{provider.url}"\napi = "anthropic"\nmodel = "{MODEL}"\n'
            "max_tokens = 2000\n[roles]\nteam = true\n"
        )
        (terminal.folder / "forum.toml").write_text(settings)
        done = terminal.call("submit", REQUEST, "--json", "--parallel", "1", "--max-usd", cap)
    run = json.loads(done.stdout)

    assert round(float(run["spent"]["usd"]) * 10**9) == biller.nano_usd <= float(cap) * 10**9
    assert run["spent"]["calls"] == biller.calls == len(provider.seen)
    assert (run["outcome"] == "ok") == (cap == "5"), done.output
    if cap == "5":
        shared = len(REQUEST) // 2
        # Two of three tasks, and two of three judges, find the request stored.
        assert biller.read > 4 * shared


def test_only_what_is_sent_again_is_marked_and_only_at_a_known_price() -> None:
    """A mark on the rest would make a call dearer for nothing."""
    shared = PromptMessage(MessageRole.USER, "## The request\n\nübrig".encode(), shared=14)
    turns = (CONVERSATION[0], shared)
    with serving(say("ok", api=Api.ANTHROPIC)) as provider:
        listed = spec_of(provider, Api.ANTHROPIC, **LISTED)
        ask(listed, call_of(turns=turns))
        ask(listed, call_of(turns=CONVERSATION, offers=(NOTE,)))
        ask(listed, call_of(turns=CONVERSATION))
        ask(spec_of(provider, Api.ANTHROPIC), call_of(turns=turns, offers=(NOTE,)))
    bodies = [seen.body for seen in provider.seen]
    marked = [[b for b in _blocks(body) if "cache_control" in b] for body in bodies]

    mark = {"cache_control": {"type": "ephemeral"}}
    system = {"type": "text", "text": "Be brief."} | mark
    assert marked[0] == [system, {"type": "text", "text": "## The request"} | mark]
    assert [block.get("text") for block in bodies[0]["messages"][0]["content"]] == [
        "## The request", "\n\nübrig",
    ]  # fmt: skip
    assert [block.get("content", block.get("text")) for block in marked[1]] == [
        "Be brief.",
        "noted",
    ]
    assert marked[2:] == [[], []]


def test_what_is_reserved_is_no_less_than_what_storing_everything_costs() -> None:
    """Each byte may be a token, and each token may be stored."""
    call = call_of(b"x" * 5000, turns=(PromptMessage(MessageRole.USER, b"x" * 5000, shared=4000),))
    bound = make_model(spec_of("http://127.0.0.1:1/v1", Api.ANTHROPIC, **LISTED)).bound(call)
    assert bound.usd >= 5000 * WRITE
    rates = find_price(MODEL).find_rates(0)
    assert (rates.input, rates.cache_write, rates.cache_read, rates.output) == tuple(
        1000 * price for price in (INPUT, WRITE, READ, OUTPUT)
    )


@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES])
def test_what_openai_has_stored_is_billed_as_that(api: Api) -> None:
    """OpenAI stores prefixes without being asked, and tells how much it has read of them."""
    names = ("prompt", "completion") if api is Api.CHAT else ("input", "output")
    usage = {f"{names[0]}_tokens": 2000, f"{names[1]}_tokens": 10, "total_tokens": 2010}
    usage |= {f"{names[0]}_tokens_details": {"cached_tokens": 1500}}  # type: ignore[dict-item]
    with serving(say("ok", api=api, usage=usage)) as provider:
        spec = spec_of(provider, api, model="gpt-5-mini", input_usd=None, output_usd=None)
        reply = ask(spec)
    assert reply.spent.usd == 500 * 250 + 1500 * 25 + 10 * 2000
