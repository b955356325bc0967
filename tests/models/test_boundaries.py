"""Where Forum meets the world: keys, prices and files that are not what they seem."""

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Self

import genai_prices.types
import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.engine import ModelCall
from forum.errors import BadRoster, BadSettings, UnknownPrice
from forum.ledger.body import text_content
from forum.models import prices
from forum.models.agent_inspection import describe_agent
from forum.models.prices import BilledTokens, bound_of, price_of
from forum.runs.policy import Chat, Library, ToolCall
from forum.runs.prompt import MessageRole, PromptMessage
from forum.runs.roster import read_roster
from forum.runs.server_sent_events import SseParser
from forum.runs.team_settings import chat_agent


@pytest.mark.parametrize("url", ["https://api.anthropic.com/v1", "http://api.openai.com/v1"])
def test_a_key_that_nobody_named_goes_to_its_own_provider_and_never_without_tls(url: str) -> None:
    """What is in the environment of somebody with two accounts must not go to the wrong one."""
    assert chat_agent({"url": url, "model": "c"}).key_env != "OPENAI_API_KEY"


@pytest.mark.parametrize("key", ["sk-proj-abcdefghijklmnop", "gsk_abcdefghijklmnop"])
def test_a_key_in_the_place_of_its_name_is_refused_and_not_quoted(key: str) -> None:
    """It would be recorded with the policy."""
    with pytest.raises(ValueError, match="key_env") as caught:
        chat_agent({"model": "c", "key_env": key})

    assert key not in str(caught.value)


class Night(datetime):
    """A clock that stands just before a price changes, and then just behind."""

    at = datetime(2026, 11, 15, 0, 29, tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """Return the time at which this clock stands."""
        del tz
        return cls.fromtimestamp(cls.at.timestamp(), UTC)


def test_a_dearer_time_of_day_is_reserved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is reserved at the night's price may be billed at the day's."""
    monkeypatch.setattr(genai_prices.types, "datetime", Night)
    monkeypatch.setattr(prices, "datetime", Night, raising=False)
    price = price_of(Chat("https://api.deepseek.com/v1", "deepseek-chat"))
    reserved = bound_of(
        price,
        ModelCall(
            "r", task="t", step="m", number=1, prompt=text_content("x" * 100_000), seconds=600.0
        ),
        1024,
    )
    monkeypatch.setattr(Night, "at", datetime(2026, 11, 15, 0, 31, tzinfo=UTC))

    assert price.cost(BilledTokens(100_000, 1024)) <= reserved.usd


@pytest.mark.parametrize(
    "spec",
    [
        *(
            Chat("https://api.openai.com/v1", "gpt-5-mini", options={option: 1})
            for option in ("speed", "inference_geo", "web_search_options", "plugins", "models")
        ),
        *(
            Library("openai:gpt-5-mini", options={option: 1})
            for option in ("openai_service_tier", "extra_body")
        ),
    ],
    ids=lambda spec: next(iter(spec.options)),
)
def test_what_the_table_does_not_price_is_refused(spec: Chat | Library) -> None:
    """An option that changes the bill needs a declared price."""
    with pytest.raises(UnknownPrice):
        price_of(spec)


def test_arguments_are_reserved_for_as_they_are_sent() -> None:
    """A control character is one byte here, and six in JSON."""
    turns = (
        PromptMessage(MessageRole.USER, b"x"),
        PromptMessage(MessageRole.AGENT, b"", (ToolCall("t", "\x01" * 1000),)),
    )
    call = ModelCall(
        "r", task="t", step="m", number=1, prompt=text_content("x"), seconds=1.0, turns=turns
    )

    assert bound_of(prices.FREE_PRICE, call, 0).tokens >= 6000


def test_a_key_is_masked_whatever_its_variable_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project file says that it is a key."""
    monkeypatch.setenv("GATEWAY_KEY_PROD", "sk-verysecret-0001")
    (tmp_path / "forum.toml").write_text(
        '[models.default]\nmodel="m"\nkey_env="GATEWAY_KEY_PROD"\n'
    )
    forum = Forum(load_settings(tmp_path, {"FORUM_STATE_DIR": str(tmp_path / "s")}))

    assert "verysecret" not in forum.mask.mask_text("it is sk-verysecret-0001")


@pytest.mark.parametrize("broken", ["x = " + "[" * 3000, "x = " + "1" * 5000], ids=["deep", "big"])
def test_a_hostile_file_is_told_of(tmp_path: Path, broken: str) -> None:
    """What makes a parser give up is an error with a name like every other."""
    (tmp_path / "forum.toml").write_text(broken)

    with pytest.raises(BadSettings):
        load_settings(tmp_path, {"FORUM_STATE_DIR": "s"})
    with pytest.raises(BadRoster):
        read_roster(broken.encode())


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    """Not even when it comes in two pieces."""
    events = SseParser()
    pieces = (b"\xef\xbb", b"\xbfdata: x\n\n")

    assert [event.data for piece in pieces for event in events.feed(piece)] == [b"x"]


def test_an_option_that_would_be_dropped_is_refused() -> None:
    """Whoever writes it would believe in it."""
    with pytest.raises(ValueError, match="max_tokens"):
        chat_agent({"model": "m", "options": {"max_tokens": 9}})


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://models.example:8000/v1", True),
        ("https://models.example/v1", False),
        ("http://127.0.0.1:8000/v1", False),
    ],
)
def test_whoever_sends_a_key_without_tls_is_told(url: str, *, told: bool) -> None:
    """It is allowed, for a network may be somebody's own; but nobody does it unawares."""
    agent_inspection = describe_agent(Chat(url, "m", key_env="SOME_KEY", input_usd=0, output_usd=0))

    assert ("without TLS" in agent_inspection.warning) == told
