"""Nouns that are read by many threads at once."""

import subprocess
import sys

SCRIPT = """
import sys
from threading import Barrier, Thread
from forum.work import Policy, one_task, read_plan, read_policy, write_plan, write_policy

sys.setswitchinterval(1e-6)
policy, plan, barrier = write_policy(Policy()), write_plan(one_task("Go.")), Barrier(8)

def read():
    barrier.wait()
    read_policy(policy)
    read_plan(plan)

threads = [Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_many_threads_may_be_the_first_to_read_a_policy() -> None:
    """A worker that has just begun reads many runs at once, and must not crash over it.

    It did, in half of all tries: msgspec takes a type in at its first use, one thread at a time.
    """
    ended = [subprocess.run([sys.executable, "-c", SCRIPT], check=False) for _ in range(4)]

    assert [process.returncode for process in ended] == [0, 0, 0, 0]
