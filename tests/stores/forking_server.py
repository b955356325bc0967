"""A server that forks while it writes: python -m tests.stores.forking_server MODE FOLDER [URL].

crowd      threads append while many children are forked, each of which appends ten entries
slow       a child is forked while a thread of its parent is in the middle of a long commit
outlived   a child goes on when its parent has closed the ledger and ended
spawn      children are started anew, and open the ledger themselves
leader     a child lives on while its parent, which leads, waits to be killed
"""

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

from forum.app import Forum
from forum.config import Settings
from forum.ledger.kinds import NoteFacts, Outcome
from forum.ledger.log import Ledger
from forum.ledger.strand import Attachment, Draft, Strand

CHILDREN, AT_ONCE = int(os.environ.get("FORKED_CHILDREN", "0")), 10
ENTRIES, THREADS = 10, 4
PATIENCE_SECONDS = 90.0


def settings_of(folder: Path, url: str | None) -> Settings:
    """Return the settings of an installation in a folder."""
    return Settings(folder / "data", folder / "state", folder / "data" / "log.key", database=url)


def write(strand: Strand, entries: int) -> None:
    """Append one entry after the other, each of them durable before the next."""
    for _ in range(entries):
        strand.append(Draft(f"note/{strand.length}", "tester", NoteFacts()))


def write_run(ledger: Ledger, run: str, entries: int = ENTRIES) -> None:
    """Write a run from its beginning to its end."""
    strand = ledger.open_run(run, "tester")
    write(strand, entries)
    ledger.close_run(strand, "tester", Outcome.OK)


def fork(work: Callable[[], None]) -> int:
    """Fork a child that does some work, and exits without tidying up."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  it must not go on as if it were the parent
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)


def wait_for(children: list[int]) -> list[int]:
    """Return how children ended; one that hangs is killed, and counts as such."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    codes = []
    for child in children:
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        codes.append(os.waitstatus_to_exitcode(ended[1]))
    return codes


class Writers:
    """Threads that append until they are told to stop."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._stop = ledger, Event()
        self.written = [0] * THREADS
        self._threads = [Thread(target=self._append, args=(nth,)) for nth in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Have them close their runs."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _append(self, nth: int) -> None:
        strand = self._ledger.open_run(f"parent-{nth}", "tester")
        while not self._stop.is_set():
            write(strand, 1)
            self.written[nth] += 1
            time.sleep(0.01)  # the machine has to get round to the children too
        self._ledger.close_run(strand, "tester", Outcome.OK)


def crowd(forum: Forum) -> dict[str, object]:
    """Fork children while threads append."""
    codes: list[int] = []
    with forum.log.open_writer() as ledger:
        writers = Writers(ledger)
        for first in range(0, CHILDREN, AT_ONCE):
            children = []
            for nth in range(first, first + AT_ONCE):
                child = os.fork()
                if not child:
                    write_run(ledger, f"child-{nth}")
                    if nth % 2:
                        os._exit(0)
                    sys.exit(0)  # which closes all that the parent has opened
                children.append(child)
            codes += wait_for(children)
        before = list(writers.written)
        time.sleep(0.5)
        writers.stop()
        write_run(ledger, "afterwards")
    went_on = all(a < b for a, b in zip(before, writers.written, strict=True))
    return {"codes": codes, "went_on": went_on}


class Slow:
    """Content that takes its time, in the middle of a commit."""

    def __init__(self, begun: Event) -> None:
        self._begun, self._reads = begun, 0
        self.size = 4

    def chunks(self) -> Iterator[bytes]:
        """Read it; the second time it is being stored."""
        self._reads += 1
        if self._reads > 1:
            self._begun.set()
            time.sleep(1.0)
        yield b"slow"


def slow(forum: Forum) -> dict[str, object]:
    """Fork while somebody holds whatever a commit holds."""
    begun = Event()

    def append(ledger: Ledger) -> None:
        strand = ledger.open_run("parent", "tester")
        body = Attachment("text", Slow(begun), "text/plain")
        strand.append(Draft("note", actor="tester", facts=NoteFacts(), parents=(), bodies=(body,)))
        ledger.close_run(strand, "tester", Outcome.OK)

    with forum.log.open_writer() as ledger:
        thread = Thread(target=append, args=(ledger,))
        thread.start()
        begun.wait(30)
        codes = wait_for([fork(lambda: write_run(ledger, "child"))])
        thread.join()
    return {"codes": codes}


def outlived(forum: Forum) -> dict[str, object]:
    """Let a child append before and after the end of its parent."""
    reached, tell = os.pipe()

    def work() -> None:
        parent = os.getppid()
        with forum.log.open_writer() as ledger:
            strand = ledger.open_run("child", "tester")
            write(strand, ENTRIES // 2)
            os.write(tell, b".")
            while os.getppid() == parent:
                time.sleep(0.01)
            write(strand, ENTRIES - ENTRIES // 2)
            ledger.close_run(strand, "tester", Outcome.OK)
        forum.close()

    forum.ledger.open_run("parent", "tester")
    child = fork(work)
    os.read(reached, 1)
    return {"child": child}


def write_alone(settings: Settings, run: str) -> None:
    """Open the ledger and write a run."""
    with Forum(settings) as forum, forum.log.open_writer() as ledger:
        write_run(ledger, run)


def spawn(forum: Forum) -> dict[str, object]:
    """Start children that share nothing with their parent."""
    context = multiprocessing.get_context("spawn")
    with forum.log.open_writer() as ledger:
        write_run(ledger, "parent")
        children = [
            context.Process(target=write_alone, args=(forum.settings, f"child-{nth}"))
            for nth in range(3)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join(PATIENCE_SECONDS)
    return {"codes": [child.exitcode for child in children]}


def leader(forum: Forum) -> dict[str, object]:
    """Lead, and wait for the end."""
    assert forum.store.try_lead()
    fork(signal.pause)
    sys.stdout.write("leads\n")
    sys.stdout.flush()
    signal.pause()
    return {}


MODES = {"crowd": crowd, "slow": slow, "outlived": outlived, "spawn": spawn, "leader": leader}


def main(mode: str, folder: str, url: str = "") -> None:
    """Do one of these and print what came of it."""
    with Forum(settings_of(Path(folder), url or None)) as forum:
        forum.keys.initialise()
        document = MODES[mode](forum)
    sys.stdout.write(json.dumps(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
