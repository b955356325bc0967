"""Values of a program as JSON: whatever they are, and without running their code needlessly."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest

from forum.features.recorder.values import encode_value


def _encode(value: object) -> Any:  # noqa: ANN401  any JSON value
    return json.loads(encode_value(value).raw)


def test_code_that_changes_a_container_does_not_disturb_its_encoding() -> None:
    """An encoder that is reading the list or the dict would crash the process."""
    items: list[object] = []
    table: dict[str, object] = {}

    class Changing:
        def __repr__(self) -> str:
            items.clear()
            table.clear()
            items.extend([object()] * 3)
            return "changing"

    items.extend(Changing() for _ in range(1000))
    assert _encode(items) == ["changing"] * 1000
    table.update({str(n): Changing() for n in range(1000)})
    assert _encode(table) == {str(n): "changing" for n in range(1000)}


def test_proxies_are_not_called() -> None:
    """A proxy has every attribute, and a call of one may go over the network."""
    calls = []

    class Proxy:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  as a proxy
            return lambda *_, **__: calls.append(name)

    mock = MagicMock()
    assert "Proxy" in _encode([Proxy()])[0]
    assert "MagicMock" in _encode({"m": mock})["m"]
    assert (calls, mock.method_calls) == ([], [])


def test_known_classes_are_recorded_by_their_fields() -> None:
    """One object without a JSON form does not cost the rest of the value its form."""

    @dataclass
    class Ticket:
        id: int
        owner: object

    class Model:
        __pydantic_fields__: ClassVar[dict[str, object]] = {}

        def model_dump(self) -> dict[str, object]:
            return {"size": 2**200, "of": {1, 2}}

    ticket = Ticket(7, Model())
    assert _encode({"t": ticket, 1: "\ud800"}) == {
        "t": {"id": 7, "owner": {"size": hex(2**200), "of": [1, 2]}},
        "1": "?",
    }


def test_the_copy_of_a_value_is_bounded() -> None:
    """Values within themselves, very deep and very large ones end."""
    circle: list[object] = [object]
    circle.extend([circle, circle])
    assert _encode(circle)[1:] == ["(list)", "(list)"]
    wide: list[object] = [object]
    for _ in range(100):
        wide = [wide, wide]
    assert encode_value(wide).raw
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert encode_value(deep).raw
    assert _encode([object, *range(200_000)])[-1].endswith("more)")


class _Exiting:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


def test_only_the_user_ends_a_program_in_the_midst_of_a_repr() -> None:
    """What `repr` raises stays here, except for the interrupt of the user."""
    assert _encode(_Exiting(SystemExit(3))) == "(_Exiting)"
    with pytest.raises(KeyboardInterrupt):
        encode_value(_Exiting(KeyboardInterrupt()))
