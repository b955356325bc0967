"""Runs whose prompts repeat the whole conversation, and their bundles."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from forum.ledger.kinds import Outcome
from forum.ledger.strand import Strand
from tests.verify.samples import RUN, World

LETTERS = "abcdefghijklmnopqrstuvwxyz ,."


def prompts(calls: int, added: int, seed: int = 7) -> Iterator[str]:
    """Yield the prompts of a conversation, to which each call adds so many letters."""
    rng = random.Random(seed)
    messages: list[str] = []
    for _ in range(calls):
        text = "".join(rng.choices(LETTERS, k=added))
        messages.append('{"role":"user","content":"' + text + '"}')
        yield '{"messages":[' + ",".join(messages) + "]}"


def converse(world: World, calls: int, added: int) -> Strand:
    """Record a run of such calls, and close it."""
    main = world.ledger.open_run(RUN, "operator")
    for number, prompt in enumerate(prompts(calls, added)):
        world.remark(main, f"call/{number}", prompt)
    world.ledger.close_run(main, "operator", Outcome.OK)
    world.settle()
    return main


@cache
def conversation(calls: int = 6, added: int = 900) -> bytes:
    """Return the bundle of such a run, in which bodies share bytes."""
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        try:
            converse(world, calls, added)
            return world.bundle().encode()
        finally:
            world.close()
