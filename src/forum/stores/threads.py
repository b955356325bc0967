"""Start threads, also while the interpreter shuts down."""

from threading import Thread


def start_thread(thread: Thread) -> bool:
    """Start a thread; return False if the interpreter is shutting down.

    From Python 3.12 no thread starts from then on.  A recorder that flushes at exit may be the
    first to open its ledger, and so what the thread would do has to be done by the caller.
    """
    try:
        thread.start()
    except RuntimeError as error:
        if "interpreter shutdown" in str(error):
            return False
        raise  # for example, too many threads
    return True
