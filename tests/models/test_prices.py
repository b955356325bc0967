"""What models cost: declared, listed, free, or refused; and never more than was reserved."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from forum.engine import ModelCall, ToolOffer
from forum.errors import UnknownPrice
from forum.ledger.body import BytesContent
from forum.models import make_model
from forum.models.prices import (
    BilledTokens,
    ListedRates,
    Price,
    bound_of,
    declared_price,
    find_price,
    price_by_name,
    price_of,
)
from forum.runs.policy import Chat, Library, ToolCall
from forum.runs.prompt import MessageRole, PromptMessage
from tests.models.asking import FORM, MAIL, NOTE, call_of

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
COUNTS = st.integers(0, 10**7)


def test_a_declared_price_is_rounded_up() -> None:
    """A part of a nano-dollar is one that is paid."""
    price = price_of(Chat(OPENAI, "gpt-4o", input_usd=1, output_usd=2000))

    assert price.id == "declared"
    assert [price.cost(BilledTokens(n, 0)) for n in (0, 1, 1000, 1001)] == [0, 1, 1, 2]
    assert price.cost(BilledTokens(1, 3)) == 7


def test_a_price_of_the_table_names_the_table() -> None:
    """2.50 dollars a million tokens read, 10 said, and half of it for what was kept."""
    price = price_of(Chat(OPENAI, "gpt-4o"))

    assert price.id.startswith("genai-prices/")
    assert price.cost(BilledTokens(1_000_000, 0)) == 2_500_000_000
    assert price.cost(BilledTokens(0, 1_000_000)) == 10_000_000_000
    assert price.cost(BilledTokens(1_000_000, 0, cache_read=1_000_000)) == 1_250_000_000
    assert price.cost(BilledTokens(1000, 0, cache_read=2000)) == price.cost(BilledTokens(1000, 0))
    assert price_of(Library("openai:gpt-4o")).cost(BilledTokens(1_000_000, 0)) == 2_500_000_000


def test_rates_that_are_computed_once_give_the_costs_of_the_table() -> None:
    """For every model, at every size of a request; rounded up to the pico-dollar per token."""
    random, models = Random(1), 0
    for provider in get_snapshot().providers:
        for model in provider.models:
            rates = ListedRates(model)
            if not (rates.find(0).input and rates.find(0).output):
                continue
            models += 1
            for largest in (100, 300_000, 2_000_000):
                read = random.randrange(largest)
                cached = random.randrange(read + 1)
                kept = random.randrange(read - cached + 1)
                usage = Usage(
                    input_tokens=read,
                    output_tokens=largest,
                    cache_read_tokens=cached,
                    cache_write_tokens=kept,
                )
                now = datetime.now(UTC)
                table = model.calc_price(usage, provider, genai_request_timestamp=now)
                listed = table.total_price * Decimal(10**9)
                cost = Price("x", rates.find).cost(BilledTokens(read, largest, cached, kept))
                assert listed <= cost < listed + 1 + Decimal(read + largest) / 1000, model.id
    assert models > 1000


def test_the_price_of_a_call_itself_is_paid() -> None:
    """Some models bill each request, beside its tokens; the bound has it as well."""
    fee = 12 * 10**9 // 1000

    price, named = find_price("sonar", "perplexity"), price_by_name("sonar")
    assert (price.cost(BilledTokens(0, 0)), named.cost(BilledTokens(0, 0))) == (fee, fee)
    assert named.highest_cost(10, 10, long_cache=False) >= price.cost(BilledTokens(10, 10)) > fee


@pytest.mark.parametrize(
    "spec",
    [
        Chat(OPENAI, "no-such-model"),
        Chat(OPENAI, "text-embedding-3-small"),  # in the table it says nothing, at no price
        Chat("https://models.example/v1", "gpt-4o"),
        Chat("http://192.168.1.7/v1", "gpt-4o"),
        Chat("http://127.0.0.1.models.example/v1", "gpt-4o"),
        Chat("http://[::1/v1", "gpt-4o"),
        Chat(OPENAI, "gpt-4o", input_usd=1),
        Chat(OPENAI, "gpt-4o", options={"service_tier": "priority"}),
        Library("openai:no-such-model"),
        Library("no-such-provider:gpt-4o"),
        Library("gpt-4o"),
    ],
    ids=str,
)
def test_what_nobody_knows_the_price_of_is_not_taken_for_free(spec: Chat | Library) -> None:
    """It is refused before anything is spent, and told what to do."""
    with pytest.raises(UnknownPrice, match=f"{spec.model}.*not known.*declare it"):
        price_of(spec)
    if isinstance(spec, Chat):
        with pytest.raises(UnknownPrice):
            make_model(spec)


@pytest.mark.parametrize("host", ["127.0.0.1:8801", "localhost", "[::1]:80", "x.localhost"])
def test_a_model_on_this_machine_is_free(host: str) -> None:
    """Unless somebody declares otherwise."""
    url = f"http://{host}/v1"

    assert (price_of(Chat(url, "x")).id, price_of(Chat(url, "x")).cost(BilledTokens(9, 9))) == (
        "free",
        0,
    )
    assert price_of(Chat(url, "x", input_usd=1, output_usd=1)).id == "declared"


@given(read=COUNTS, said=COUNTS, shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@pytest.mark.parametrize(("url", "model"), [(OPENAI, "gpt-4o"), (ANTHROPIC, "claude-sonnet-4-5")])
def test_no_way_to_count_costs_more_than_the_bound(
    url: str, model: str, read: int, said: int, shares: tuple[float, float]
) -> None:
    """Whatever of it was kept or is kept from now on, and in whichever tier of prices."""
    price, call = price_of(Chat(url, model)), call_of(b"x" * min(read, 300_000))
    cached = int(call.prompt.size * shares[0])
    kept = int((call.prompt.size - cached) * shares[1])

    cost = price.cost(BilledTokens(call.prompt.size, said, cached, kept))
    assert cost <= bound_of(price, call, said).usd


TEXTS = st.binary(max_size=300) | st.text(max_size=100).map(str.encode)


@given(prompt=TEXTS, turns=st.lists(TEXTS, max_size=4), arguments=st.text(max_size=50))
def test_the_bound_counts_every_byte_that_is_sent(
    prompt: bytes, turns: list[bytes], arguments: str
) -> None:
    """No tokenizer makes more tokens than there are bytes, and none of them is left out."""
    uses = (ToolCall("mail", arguments),)
    call = ModelCall(
        "r",
        task="t",
        step="s",
        number=1,
        prompt=BytesContent(prompt),
        seconds=1,
        turns=tuple(PromptMessage(MessageRole.AGENT, t, uses) for t in turns),
    )
    sent = sum(len(t.decode(errors="replace").encode()) + len(arguments.encode()) for t in turns)

    bound = bound_of(declared_price(1000, 0), call, 5)
    assert bound.tokens >= max(sent, len(prompt.decode(errors="replace").encode())) + 5
    assert (bound.usd, bound.calls) == (bound.tokens - 5, 1)


def test_tools_and_forms_are_part_of_the_bound() -> None:
    """They are read, too."""
    sizes = [
        bound_of(declared_price(0, 0), call, 0).tokens
        for call in (
            call_of(),
            call_of(schema=FORM),
            call_of(schema=FORM, offers=(MAIL,)),
            call_of(schema=FORM, offers=(MAIL, NOTE)),
            call_of(schema=FORM, offers=(MAIL, NOTE, ToolOffer("x", "y" * 99, b"{}"))),
        )
    ]  # fmt: skip

    assert sizes == sorted(set(sizes))


def test_the_table_is_not_fetched() -> None:
    """No thread, no socket: the same release computes the same cost, wherever it runs."""
    program = """
import socket, threading
def refuse(*_): raise AssertionError("it went to the network")
socket.socket.connect = socket.getaddrinfo = refuse
from forum.models.prices import BilledTokens, price_of
from forum.runs.policy import Chat
assert price_of(Chat("https://api.openai.com/v1", "gpt-4o")).cost(BilledTokens(5, 5))
assert threading.active_count() == 1, threading.enumerate()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_what_is_not_used_is_not_loaded() -> None:
    """Scripts and programs need no HTTP, and a declared price no table."""
    program = """
import sys
from forum.models import make_model
from forum.runs.policy import Chat, Scripted
make_model(Scripted())
assert not {"httpx2", "genai_prices", "pydantic_ai"} & sys.modules.keys()
make_model(Chat("http://127.0.0.1/v1", "x", input_usd=0, output_usd=0))
assert not {"genai_prices", "pydantic_ai"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
