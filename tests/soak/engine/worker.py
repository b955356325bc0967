"""One process that carries out runs until it is killed: `python -m tests.soak.engine.worker`.

It is put together as `Forum.working` does it, with traps around its ports.  It loads everything
first and begins when it is told to, so that the dead are replaced at once.
"""

import faulthandler
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from functools import partial

import msgspec

from forum.app import Forum
from forum.config import WorkerCapacity
from forum.errors import StoreConnectionLost
from forum.ledger.ports import Store
from forum.models import make_model, open_tools
from tests.soak.engine.orders import Orders, Word
from tests.soak.engine.traps import (
    Diary,
    Trap,
    TrappedClaimingWorker,
    TrappedDbosWorker,
    TrappedEngine,
    trap_dbos,
    trapped_store,
)

PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.1


def open_store(forum: Forum) -> Store:
    """Open the ledger, and wait for a server that is just being restarted."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return forum.store
        except StoreConnectionLost:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def serve(orders: Orders, trap: Trap) -> None:
    """Take part in the work until the parent has nothing more to say."""
    settings = orders.settings
    with Forum(settings) as forum:
        forum.store = trapped_store(open_store(forum), trap)
        with forum.log.open_writer() as ledger:
            is_claiming = settings.runner == "claims"
            worker = (TrappedClaimingWorker if is_claiming else TrappedDbosWorker)(
                TrappedEngine(ledger, make_model, open_tools, trap),
                forum.store,
                WorkerCapacity(),
                partial(complain, trap.diary),
            )
            worker.trap = trap
            worker.start(settings.database or "")
            trap.diary.write("up", worker.id)
            obey(trap)
            worker.close()


def complain(diary: Diary, error: Exception) -> None:
    """Note down what went wrong, and where."""
    diary.write("trouble", type(error).__name__, repr(error))
    traceback.print_exception(error)


def obey(trap: Trap) -> None:
    """Hear what the parent says, until it says no more."""
    for line in sys.stdin:
        trap.arm(msgspec.json.decode(line, type=Word))


def main() -> None:
    """Live as the orders say."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    trap = Trap(Diary(orders.evidence))
    trap_dbos(trap)
    trap.diary.write("born", os.getpid())
    if sys.stdin.readline():
        with suppress(KeyboardInterrupt):
            serve(orders, trap)
    trap.diary.write("ends")


if __name__ == "__main__":
    main()
