"""The plans that are carried out for measuring, in the form that every engine can be given."""

from typing import TypeAlias

Needs: TypeAlias = dict[str, list[str]]
"""The tasks of a plan, each with those whose output it is given."""


def fan(tasks: int) -> Needs:
    """Return tasks that wait for nothing: as much as possible is done at once."""
    return {f"t{number}": [] for number in range(tasks)}


def layers(depth: int, width: int) -> Needs:
    """Return layers of tasks, each of which needs two of the layer before."""
    return {
        f"t{layer}-{place}": sorted({f"t{layer - 1}-{(place + n) % width}" for n in (0, 1)})
        if layer
        else []
        for layer in range(depth)
        for place in range(width)
    }


def diamond() -> Needs:
    """Return a small plan as people write them: one task, three beside each other, one more."""
    return {"begin": [], "a": ["begin"], "b": ["begin"], "c": ["begin"], "end": ["a", "b", "c"]}
