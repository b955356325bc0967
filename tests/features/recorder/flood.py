"""A program that makes steps as fast as it can, and counts them where a kill cannot reach.

    python -m tests.features.recorder.flood FOLDER COUNTERS SEED

Each thread stores in COUNTERS how many steps it has begun and how many it has ended.  It goes on
until it is killed.
"""

import mmap
import random
import sys
from itertools import count
from pathlib import Path
from threading import Thread

import forum

THREADS = 3
COUNTER_BYTES = THREADS * 16


def main(folder: str, counters: str, seed: str) -> None:
    """Make steps in several threads and many runs, until this process is killed."""
    with Path(counters).open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), COUNTER_BYTES)
    words = memoryview(mapped).cast("Q")
    recorder = forum.open(folder, most=100)

    @recorder.step
    def work(number: int) -> int:
        return number + 1

    @recorder.effect
    def pay(number: int) -> int:
        return number

    def flood(thread: int) -> None:
        chance = random.Random(f"{seed}/{thread}")
        begun = 0
        for _ in count():
            with recorder.run("flood"):
                for number in range(chance.randrange(1, 3000)):
                    words[2 * thread] = begun = begun + 1
                    (pay if chance.random() < 0.002 else work)(number)
                    words[2 * thread + 1] = begun

    threads = [Thread(target=flood, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)  # noqa: T201  the test waits for it
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
