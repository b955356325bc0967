"""Functions that read bytes, in a module of their own, because processes of the tests import it."""

import os
import threading

import msgspec


class Place(msgspec.Struct, frozen=True):
    """Where a function ran."""

    process: int
    thread: str
    size: int
    variables: tuple[str, ...] = ()


def find_place(data: bytes, options: str) -> Place:
    """Tell where this runs."""
    assert options == "é"
    return Place(os.getpid(), threading.current_thread().name, len(data), tuple(os.environ))


def misbehave(data: bytes, how: str) -> int:
    """Do what a bug, or a body that nobody thought of, could make a reader do."""
    if how == "compute":
        while True:
            pass
    if how == "allocate":
        return len([bytearray(1 << 20) for _ in range(10_000)])
    if how == "recurse":
        return misbehave(data, how)
    if how == "crash":
        os.abort()
    if how == "raise":
        raise ValueError(data)
    return os.getpid()
