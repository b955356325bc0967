"""Arrays of parameters have the bytes that the driver gives them."""

from hypothesis import given
from hypothesis import strategies as st
from psycopg import adapters
from psycopg.adapt import PyFormat, Transformer

from forum.stores.postgres_arrays import (
    BigintArray,
    BooleanArray,
    ByteaArray,
    IntegerArray,
    TextArray,
    TypedArray,
)

ARRAYS = (
    st.builds(BigintArray, st.lists(st.none() | st.integers(2**40, 2**63 - 1)))
    | st.builds(IntegerArray, st.lists(st.integers(2**16, 2**31 - 1)))
    | st.builds(BooleanArray, st.lists(st.booleans()))
    | st.builds(ByteaArray, st.lists(st.none() | st.binary()))
    | st.builds(TextArray, st.lists(st.text(st.characters(exclude_characters="\0"))))
)


@given(ARRAYS)
def test_an_array_is_encoded_as_the_driver_does(array: TypedArray) -> None:
    """The server decides by the types whether it takes them."""
    transformer = Transformer.from_context(None)
    ours = adapters.get_dumper(type(array), PyFormat.AUTO)(type(array), None)
    theirs = transformer.get_dumper(list(array), PyFormat.BINARY)
    assert ours.oid == type(array).array_oid
    if any(value is not None for value in array):  # of others the driver does not know the type
        assert ours.dump(array) == theirs.dump(list(array))
        assert ours.oid == theirs.oid or isinstance(array, TextArray)
