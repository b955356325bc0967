"""Record a program of your own: two agents at work at the same time.

Run it in a folder of its own, then look at what it left:

    python record_from_python.py
    forum ledger show
    forum ledger verify
"""

import asyncio

import forum


@forum.step(op="agent")
async def compare(supplier: str) -> int:
    """Let one agent work; its arguments, its result and its time are recorded."""
    await asyncio.sleep(0.01)  # the agent thinks; others go on
    return len(supplier)


@forum.effect
def order(supplier: str) -> str:
    """Do something that matters: it is on record before it happens."""
    return f"ordered from {supplier}"


async def main() -> None:
    """Record one run, and verify the ledger that holds it."""
    async with forum.run("Compare two suppliers") as run:
        await asyncio.gather(compare("acme"), compare("bolt & co"))
        order("acme")
    print(run.id, run.verify())


if __name__ == "__main__":
    asyncio.run(main())
