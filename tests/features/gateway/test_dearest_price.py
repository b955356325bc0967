"""What a call costs: the dearest of what its address, its name, its reply and its bill say."""

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any
from unicodedata import decomposition, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.gateway.call_plan import PriceBook
from forum.features.gateway.refusals import CallRefused
from forum.features.gateway.relayed_run import RunLimits
from forum.features.gateway.reply_reader import ReplyReader, SecretHider, read_dollars
from forum.features.gateway.request_reader import read_request
from forum.features.gateway.routes import ApiOperation
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT, Amount
from forum.models.prices import BilledTokens, price_by_name, price_of
from forum.models.token_bounds import count_normalized_bytes
from forum.runs.coverage import find_terms
from forum.runs.policy import Chat
from forum.runs.routing import split_words
from forum.runs.strict_json import fold_name
from tests.features.gateway.harness import PROVIDER_KEY, harness
from tests.support import wait_until
from tests.test_repository import package_sources

CENT = 10_000_000
TOKENS = BilledTokens(1000, 1000)


def dollars(nano: int) -> RunLimits:
    """Return limits of money alone."""
    return RunLimits(cap=Amount(nano, NO_LIMIT, NO_LIMIT))


def test_no_model_is_charged_below_its_price_at_its_address() -> None:
    """For every provider of the table, whose address it can tell, and every model of it."""
    snapshot = import_module("genai_prices.data_snapshot").get_snapshot()
    addresses = {
        "fireworks": "https://api.fireworks.ai/inference/v1",
        "cerebras": "https://api.cerebras.ai/v1",
        "groq": "https://api.groq.com/openai/v1",
        "together": "https://api.together.xyz/v1",
        "deepseek": "https://api.deepseek.com/v1",
        "openai": "https://api.openai.com/v1",
        "anthropic": "https://api.anthropic.com",
    }
    checked = dearer = 0
    for provider in snapshot.providers:
        if (url := addresses.get(provider.id)) is None:
            continue
        for model in provider.models:
            price = PriceBook({}).find(model.id, url=url)
            try:
                _, found = snapshot.find_provider_model(model.id, None, None, url)
                own = price_of(Chat(model=model.id, url=url))
            except Exception:  # noqa: BLE001, S112  the table has no price of it there
                continue
            assert found is not None
            assert price is not None, model.id
            assert price.cost(TOKENS) >= own.cost(TOKENS), (provider.id, model.id)
            checked += 1
            dearer += price.cost(TOKENS) > price_by_name(model.id).cost(TOKENS)
    assert checked > 100
    assert dearer > 0


def test_a_reply_of_another_family_of_models_is_an_overrun(tmp_path: Path) -> None:
    """Asked for gpt-4o-mini, billed as o1-pro: the price of the dear one counts, and it stops."""
    with harness(tmp_path, dollars(100 * CENT)) as gateway:
        gateway.provider.answering_model = "o1-pro"
        gateway.chat(max_tokens=5)
        (step,) = gateway.entries("report.step/1")
        bill = gateway.bills()[0]
        dear = price_by_name("o1-pro").cost(BilledTokens(bill["in"], bill["out"]))

        assert step.facts.code == "overrun"
        assert step.facts.usd >= dear
        assert gateway.chat("again", max_tokens=5).status_code == 402
        assert json.loads(gateway.body(step, "attributes"))["model"] == "o1-pro"


def test_a_dated_name_of_the_same_model_is_none(tmp_path: Path) -> None:
    """Providers answer with the name of the version."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        gateway.provider.answering_model = "gpt-4o-mini-2024-07-18"
        assert gateway.chat(max_tokens=5).status_code == 200
        assert gateway.chat("again", max_tokens=5).status_code == 200
        assert not gateway.run.has_overrun


@pytest.mark.parametrize("where", ["usage", "header"])
def test_a_higher_cost_that_the_reply_states_is_believed(tmp_path: Path, where: str) -> None:
    """A proxy knows what its provider bills; a lower one is not believed."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        gateway.provider.stated_cost[where] = "0.5"
        gateway.chat(max_tokens=5)
        (step,) = gateway.entries("report.step/1")

        assert (step.facts.usd, step.facts.code) == (50 * CENT, "overrun")
    odd: list[object] = [True, "none", "NaN", "Infinity", "-1", float("inf"), {}, []]
    assert {read_dollars(stated) for stated in odd} == {None}
    assert (read_dollars(None), read_dollars(""), read_dollars(1e300)) == (0, 0, (1 << 53) - 1)


@pytest.mark.parametrize("stated", ["Infinity", "NaN", [], -1, True])
def test_a_cost_that_cannot_be_read_is_the_highest_one(tmp_path: Path, stated: object) -> None:
    """Nobody knows what was billed."""
    with harness(tmp_path, dollars(100 * CENT)) as gateway:
        usage: Any = {"prompt_tokens": 1, "completion_tokens": 1, "cost": stated}
        gateway.provider.forced_usage = usage
        gateway.chat(max_tokens=5)
        (begun,), (step,) = gateway.entries("report.begin/1"), gateway.entries("report.step/1")

        assert step.facts.usd == begun.facts.usd > 0


def test_the_cost_of_the_provider_behind_a_router_counts() -> None:
    """The router itself may bill nothing."""
    details = {"upstream_inference_cost": 9.0}
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "cost": 0.0, "cost_details": details}
    reader = ReplyReader(ApiOperation.CHAT, streams=False)
    reader.feed(json.dumps({"model": "m", "choices": [], "usage": usage}).encode())
    reader.finish()

    assert reader.stated_usd == 9 * 10**9


@pytest.mark.parametrize(("replied", "is_other"), [
    ("gpt-4o-mini", False), ("gpt-4o-mini-2024-07-18", False), ("openai/gpt-4o-mini", False),
    ("GPT-4o-mini@some-version", False), ("", False), ("o9-ultra-unknown", True),
    ("gpt-4o-minimax", True), ("gpt-9-unknown", True), ("o1-pro", True), ("x" * 300, True),
])  # fmt: skip
def test_a_model_that_nobody_asked_for_is_another_one(
    replied: str,
    *,
    is_other: bool,
) -> None:
    """Its price is not known, so the bound of the call may not hold."""
    prices = PriceBook({})
    price = prices.find("gpt-4o-mini")
    assert prices.judge_reply(price, "gpt-4o-mini", replied, "")[1] is is_other


LOCAL = "http://127.0.0.1:9801/v1"


def test_a_priced_name_on_this_machine_is_priced_by_the_engine() -> None:
    """A proxy or a tunnel on this machine is a paid provider; a local model has its own name."""
    assert price_of(Chat(model="o1-pro", url=LOCAL)).cost(TOKENS) > 0
    for name in ("llama3.2", "qwen3:8b", "deepseek-r1:7b", "SmolLM2-360M-Instruct"):
        assert price_of(Chat(model=name, url=LOCAL)).cost(TOKENS) == 0, name
    assert price_of(Chat(model="o1-pro", url=LOCAL, input_usd=0, output_usd=0)).cost(TOKENS) == 0


WIDE = "\ufdfa" * 2000


def test_a_text_that_grows_when_it_is_normalized_is_bounded_so() -> None:
    """U+FDFA has 3 bytes and may be 15 tokens, written as it is or as an escape."""
    for ascii_only in (False, True):
        text = json.dumps(
            {"model": "m", "messages": [{"role": "user", "content": WIDE}]}, ensure_ascii=ascii_only
        )
        assert read_request(ApiOperation.CHAT, text.encode()).input_tokens > 15 * len(WIDE)


MARKED = st.text(
    st.sampled_from(
        "ae\xe9\u1ec7 \u0301\u0323\u0344\u0345\u3099\uff9e\u304b\u304c"
        "\xb4\xa8\u1100\u1161\u11a8\uac00\uac01"
    )
    | st.characters(categories=["Mn", "Mc"]),
    max_size=12,
)
PAIRS = [
    "".join(chr(int(part, 16)) for part in taken.split())
    for taken in map(decomposition, map(chr, range(sys.maxunicode + 1)))
    if taken and taken[0] != "<"
]


def check_bound(text: str) -> None:
    """Compare the bound of a text with all that it bounds."""
    bound = count_normalized_bytes(text)
    for form in (text, normalize("NFC", text), normalize("NFKC", text)):
        assert bound >= len(form.encode(errors="surrogatepass")), ascii(text)


@given(st.text() | MARKED)
def test_the_bound_of_a_text_is_that_of_each_of_its_forms(text: str) -> None:
    """Whatever a tokenizer does with it first."""
    check_bound(text)


def test_the_bound_holds_for_all_that_is_put_together() -> None:
    """Each pair that has one character, each character, and each before marks."""
    assert len(PAIRS) > 1000
    letters = [chr(n) for n in range(sys.maxunicode + 1) if decomposition(chr(n))]
    for text in (
        *PAIRS,
        *letters,
        *(letter + mark for letter in letters for mark in "\u0301\u0323"),
    ):
        check_bound(text)


def test_plain_text_is_bounded_by_its_own_bytes() -> None:
    """A normal form that a text already has does not make it longer."""
    for text in (
        "na\xefve caf\xe9",
        "\ud55c\uad6d\uc5b4",
        "\u65e5\u672c\u8a9e\u304c",
        "\u0440\u0443\u0441\u0441\u043a\u0438\u0439",
        "ok \U0001f44d",
    ):
        assert count_normalized_bytes(text) == len(text.encode()), text


def test_a_text_of_marks_is_read_in_linear_time() -> None:
    """Sorting its marks would take seconds, and hold up all other clients."""
    marks = "a" + "\u0301" * 30_000 + "\u0323" * 30_000
    for read in (count_normalized_bytes, fold_name, split_words, find_terms):
        began = process_time()
        read(marks)
        assert process_time() - began < 0.1, read


def test_one_module_normalizes_text() -> None:
    """It is the one whose time is linear."""
    call = re.compile(r"unicodedata(\.| import .*)normalize")
    direct = {path for path, text in package_sources().items() if call.search(text)}
    assert direct == {"runs/unicode_forms.py"}


@pytest.mark.parametrize("name", ["model", "member"])
def test_long_names_are_refused(name: str) -> None:
    """They are compared, and remembered with their prices."""
    request: dict[str, object] = {"model": "gpt-4o-mini", "messages": []}
    request |= {"model": "m" * 257} if name == "model" else {"x" * 257: 1}
    with pytest.raises(CallRefused, match="longer than 256"):
        read_request(ApiOperation.CHAT, json.dumps(request).encode())


KEY_TEXT = "sk-01/23_Ab"


@given(st.data(), st.integers(1, 9), st.integers(0, 2), st.booleans())
def test_an_escaped_key_is_hidden_wherever_chunks_are_cut(
    data: st.DataObject, size: int, depth: int, streams: object
) -> None:
    """In JSON, and in JSON within a string of JSON; other escapes stay as they are."""
    spelled = "".join(
        data.draw(st.sampled_from([f"\\u{ord(c):04x}", f"\\u{ord(c):04X}", json.dumps(c)[1:-1]]))
        for c in KEY_TEXT
    ).replace("/", data.draw(st.sampled_from(["/", "\\/"])))
    kept = '"\\u0073k-\\n\\\\ \\u00e9 s\\u006"'
    text = f'{{"a":"{spelled}","b":"{spelled}x"}}'
    for _ in range(depth):
        text = json.dumps({"inner": text})
    hider = SecretHider([KEY_TEXT.encode()])
    sent = (text + kept).encode()
    chunks = [sent[at : at + size] for at in range(0, len(sent), size)] if streams else [sent]
    passed = b"".join(map(hider.pass_on, chunks)) + hider.finish()

    assert len(passed) == len(sent)
    assert passed.endswith(kept.encode())
    inner: Any = json.loads(passed[: -len(kept)])
    for _ in range(depth):
        inner = json.loads(inner["inner"])
    assert set(inner["a"]) == {"*"}
    assert set(inner["b"]) == {"*", "x"}


def test_calls_under_way_are_cancelled_after_an_overrun(tmp_path: Path) -> None:
    """Their bounds cannot hold either; each is recorded as cancelled, at its full price."""
    with harness(tmp_path, dollars(100 * CENT)) as gateway, ThreadPoolExecutor(3) as pool:
        gateway.provider.delay = 60.0
        slow = [pool.submit(gateway.chat, f"slow {n}", max_tokens=5) for n in range(2)]
        wait_until(lambda: len(gateway.provider.requests) == 2)
        gateway.provider.delay = 0.0
        gateway.provider.forced_usage = {"prompt_tokens": 9, "completion_tokens": 9999}
        gateway.chat("fast", max_tokens=5)
        replies = [call.result(20) for call in slow]
        steps = [s.facts for s in gateway.entries("report.step/1")]
        cancelled = [facts for facts in steps if facts.outcome is Outcome.CANCELLED]

        assert [reply.status_code for reply in replies] == [402, 402]
        assert [facts.code for facts in cancelled] == ["stopped", "stopped"]
        assert all(facts.usd > 0 for facts in cancelled)


def test_the_key_of_forum_is_in_no_reply(tmp_path: Path) -> None:
    """A provider that echoes what it was sent must not tell the program its key."""
    with harness(tmp_path) as gateway:
        gateway.provider.echoes = True
        whole = gateway.chat(max_tokens=20)
        streamed = gateway.chat(max_tokens=20, stream=True)

        for reply in (whole, streamed):
            assert "authorization" in str(reply.headers)
            assert PROVIDER_KEY not in str(reply.headers.raw)
            assert PROVIDER_KEY.encode() not in reply.content
            assert b"*" * len(PROVIDER_KEY) in reply.content
        assert int(whole.headers["content-length"]) == len(whole.content)


@given(st.lists(st.sampled_from([b"sk-0123456789", b"sk-01", b"23456789", b"s", b"\n", b"x"])),
       st.integers(1, 7))  # fmt: skip
def test_a_key_is_hidden_wherever_chunks_are_cut(parts: list[bytes], size: int) -> None:
    """Nothing else changes, and nothing is held back in the end."""
    secret: Any = b"sk-0123456789"
    data, hider = b"".join(parts), SecretHider([secret, b"", b"short"])
    shown = [hider.pass_on(data[at : at + size]) for at in range(0, len(data), size)]
    passed = b"".join(shown) + hider.finish()

    assert passed == data.replace(secret, b"*" * len(secret))
