"""What features add to a list of the kernel stands where its feature says."""

from typing import NamedTuple

from forum.feature import Feature, load_only_part, place_items


class Item(NamedTuple):
    """An item of a list."""

    name: str
    after: str = ""


def test_items_stand_behind_those_that_they_follow() -> None:
    """In the order of the features, and one may follow that of another feature."""
    own = [Item("a"), Item("b")]
    added = [Item("x", "a"), Item("y", "a"), Item("first"), Item("z", "x"), Item("last", "gone")]

    names = [item.name for item in place_items(own, added)]

    assert names == ["first", "a", "x", "z", "y", "b", "last"]


def test_items_may_have_the_name_of_the_one_that_they_follow() -> None:
    """The checks of features about servers continue one of the kernel."""
    placed = place_items([Item("doors"), Item("end")], [Item("doors", "doors")])

    assert placed == [Item("doors"), Item("doors", "doors"), Item("end")]


def test_without_its_feature_a_part_is_the_default() -> None:
    """The kernel goes on without what no feature adds."""
    assert load_only_part((Feature("empty"),), "run_page", None) is None
