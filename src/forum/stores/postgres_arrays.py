"""Arrays as parameters of statements, encoded in one step.

The driver looks at each element of a list, in Python, to find out its type.  In the statements that
append entries, that took as long as all the rest.  The columns of these statements have fixed
types, so a class says which.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, ClassVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER = Struct("!iiI").pack
"""Dimensions, whether there are nulls, type of the elements."""
_SIZE = Struct("!ii").pack
"""Number of elements, the first index."""
_LENGTH = Struct("!i").pack
_NULL = _LENGTH(-1)


class TypedArray(tuple[Any, ...]):
    """Values of one type of the database; None is null."""

    __slots__ = ()
    element_oid: ClassVar[int]
    array_oid: ClassVar[int]
    encode: ClassVar[Callable[..., bytes]]
    """Returns the binary form of an element."""


class BigintArray(TypedArray):
    """Whole numbers: `bigint[]`."""

    __slots__ = ()
    element_oid, array_oid = 20, 1016
    encode = Struct("!q").pack


class IntegerArray(TypedArray):
    """Whole numbers of 32 bits: `integer[]`."""

    __slots__ = ()
    element_oid, array_oid = 23, 1007
    encode = Struct("!i").pack


class BooleanArray(TypedArray):
    """Truth values: `boolean[]`."""

    __slots__ = ()
    element_oid, array_oid = 16, 1000
    encode = Struct("!?").pack


class ByteaArray(TypedArray):
    """Bytes: `bytea[]`."""

    __slots__ = ()
    element_oid, array_oid = 17, 1001
    encode = bytes


class TextArray(TypedArray):
    """Texts: `text[]`."""

    __slots__ = ()
    element_oid, array_oid = 25, 1009
    encode = str.encode


class _ArrayDumper(Dumper):
    """Encodes an array in the binary format of the server."""

    format = Format.BINARY

    def __init__(self, cls: type[TypedArray], context: psycopg.abc.AdaptContext | None) -> None:
        super().__init__(cls, context)
        self.oid = cls.array_oid
        self._element, self._encode = cls.element_oid, cls.encode

    def dump(self, obj: TypedArray) -> bytes:
        """Return the binary form of an array."""
        if not obj:
            return _HEADER(0, 0, self._element)
        parts = [_HEADER(1, None in obj, self._element), _SIZE(len(obj), 1)]
        for value in obj:
            if value is None:
                parts.append(_NULL)
            else:
                data = self._encode(value)
                parts += (_LENGTH(len(data)), data)
        return b"".join(parts)


for _array in (BigintArray, IntegerArray, BooleanArray, ByteaArray, TextArray):
    psycopg.adapters.register_dumper(_array, _ArrayDumper)
