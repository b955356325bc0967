"""Which bodies hold a text: also where it is quoted, cut, or part of a longer conversation."""

import json

from hypothesis import given
from hypothesis import strategies as st

from forum.runs.conversation.text_copies import TextFinder, find_new_text, read_texts

QUOTED = 'Her name is "Ada",\nand she lives in the house behind the old mill, by the river Tyne.'


def prompt(*messages: str) -> bytes:
    """Return a conversation as an agent sends it."""
    return json.dumps({"model": "m", "messages": [{"content": text} for text in messages]}).encode()


def test_a_text_is_found_where_it_is_quoted() -> None:
    """A reply is a text, and the next prompt has it in a string of JSON."""
    finder = TextFinder(QUOTED.encode())

    assert finder.is_in(QUOTED.encode())
    assert finder.is_in(prompt("hello", QUOTED, "and then?"))
    assert not finder.is_in(prompt("hello", "and then?"))


def test_what_a_prompt_is_the_first_to_say_is_what_is_looked_for() -> None:
    """Not the words of the system, which every prompt has."""
    first, second = prompt("You are careful.", "hello"), prompt("You are careful.", "hello", QUOTED)
    third = prompt("You are careful.", "hello", QUOTED, "thanks")
    new = find_new_text(second, [first])
    finder = TextFinder(new)

    assert new.decode() == QUOTED
    assert [finder.is_in(body) for body in (first, second, third)] == [False, True, True]
    assert find_new_text(second, [first, third]) == b""


@given(
    text=st.binary(min_size=16, max_size=400),
    around=st.tuples(st.binary(max_size=200), st.binary(max_size=200)),
    cut=st.integers(0, 400),
)
def test_a_part_of_a_text_is_found_wherever_it_stands(
    text: bytes, around: tuple[bytes, bytes], cut: int
) -> None:
    """A history that was cut has only the end of it."""
    part = text[cut:]
    body = around[0] + part + around[1]
    says = read_texts(body)
    lines = [line for line in part.split(b"\n") if line in says]
    whole = {line for line in text.split(b"\n") if len(line) >= 16}
    if any(len(line) >= 60 or line in whole for line in lines):
        assert TextFinder(text).is_in(body)


def test_a_short_line_is_found_beside_others() -> None:
    """A prompt has ids and keys of its own, and quotes a reply of one line."""
    reply = "The door code is 4711-0815, alice"
    finder = TextFinder(find_new_text(reply.encode(), [prompt("hello")]))

    assert finder.is_in(prompt("hello", reply, "and then?"))
    assert not finder.is_in(prompt("hello", "The door is open"))


def test_a_long_text_is_looked_for_by_a_bounded_number_of_parts() -> None:
    """A megabyte that was pasted costs no gigabyte to look for."""
    text = b"".join(f"line {number} of a very long text; ".encode() for number in range(40_000))
    text += b"\n" + b"\n".join(f"row {number} of a table".encode() for number in range(40_000))
    finder = TextFinder(text)

    assert sum(map(len, finder._needles)) < 8 * len(text)  # noqa: SLF001  the memory is the subject
    assert len(finder._needles) <= 6000  # noqa: SLF001
    assert finder.is_in(b"before " + text[500_000:510_000] + b" after")
