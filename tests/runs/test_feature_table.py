"""Counts of features as bytes: what was counted is found again, and no part passes for a whole."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.runs.feature_table import FeatureTable, pack_features

COUNTS = st.lists(st.dictionaries(st.text(max_size=4), st.integers(1, 9), max_size=8), max_size=5)


@given(COUNTS, st.text(max_size=4))
def test_what_was_counted_is_found_again(counted: list[dict[str, int]], other: str) -> None:
    """For features that some classes have, that all have, and that none has."""
    counts = [Counter(document) for document in counted]
    table = FeatureTable(pack_features(counts))

    assert table.sizes == tuple(counter.total() for counter in counts)
    for feature in {other}.union(*counts):
        found = [
            (place, document[feature])
            for place, document in enumerate(counts)
            if feature in document
        ]
        assert table.find(feature) == found


def test_a_table_that_is_cut_off_is_none() -> None:
    """A disk that was full once must not change any route."""
    whole = pack_features([Counter("abc"), Counter("cde")])

    for size in range(len(whole)):
        with pytest.raises(Malformed):
            FeatureTable(whole[:size])
    with pytest.raises(Malformed):
        FeatureTable(whole + b"\0")
