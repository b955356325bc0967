"""The document of the API, taken at its word.  `just fuzz-http` goes on for longer."""

from collections.abc import Iterator

import pytest

from tests.soak.fuzz import OPEN, OPERATOR, STRANGER, Effort, House, Visitor, house

pytestmark = pytest.mark.slow

FEW = Effort(3, "examples,fuzzing")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Serve a ledger."""
    with house(tmp_path_factory.mktemp("fuzz")) as found:
        yield found


@pytest.mark.parametrize(
    "visitor",
    # Who comes to an open server reaches what the operator reaches.
    [OPERATOR, pytest.param(OPEN, marks=pytest.mark.nightly), STRANGER],
    ids=lambda document: document.name,
)
def test_every_request_is_answered_as_the_document_says(made: House, visitor: Visitor) -> None:
    """What a client cannot expect it cannot handle; a 5xx is a place where nobody has looked."""
    found = made.fuzz(visitor, FEW)

    assert found.failures == ()
    assert found.trouble == ()
    assert found.cases > 90
