"""Import numpy with its linear algebra limited to one thread.

One sentence is too little work to divide: with a thread per core, the overhead is several times the
work.  The libraries read the limit only when they are loaded; it is removed from the environment
afterwards, so that programs started later do not inherit it.
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
