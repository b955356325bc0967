"""Nouns that are read by many threads at once."""

import subprocess
import sys

import pytest

READ = {
    "a policy": ("read_policy(policy)", "read_plan(plan)"),
    "what a role says": (
        """coordinator.parse_plan(b'{"tasks":[{"id":"a","instruction":"x"}]}', Policy(), "", "")""",
        """synthesizer.parse_parts(b'{"parts":[{"from":"a","text":"x"}]}', ["a"])""",
        """opinions.parse_opinion(b'{"passed":true}')""",
        """intent.parse_opinion(b'{"passed":true}')""",
        """reviser.parse_revision(b'{"text":"x"}')""",
    ),
}
SCRIPT = """
import sys
from threading import Barrier, Thread
from forum.runs.plan import read_plan, single_task_plan, write_plan
from forum.runs.policy import Policy, read_policy, write_policy
from forum.runs.roles import coordinator, intent, opinions, reviser, synthesizer

sys.setswitchinterval(1e-6)
policy, plan, barrier = write_policy(Policy()), write_plan(single_task_plan("Go.")), Barrier(8)

def read():
    barrier.wait()
    %s

threads = [Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("what", READ)
def test_many_threads_may_be_the_first_to_read(what: str) -> None:
    """A worker that has just begun reads many runs at once, and must not crash over it.

    It did, in half of all tries: msgspec takes a type in at its first use, one thread at a time.
    """
    script = SCRIPT % "\n    ".join(READ[what])
    ended = [subprocess.run([sys.executable, "-c", script], check=False) for _ in range(4)]

    assert [process.returncode for process in ended] == [0, 0, 0, 0]
