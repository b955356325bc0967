"""numpy, loaded so that its linear algebra uses one thread.

One sentence is too little to divide: with a thread for each core, the threads cost several times
the work.  The libraries read how many they may start when they are loaded, and at no other time;
programs that are started later must not inherit it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def _limit_to_one_thread() -> Iterator[None]:
    ours = [name for name in _LIMITS if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, "1"))
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


with _limit_to_one_thread():
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NDArray", "np"]
