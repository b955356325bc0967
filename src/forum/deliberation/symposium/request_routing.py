"""Routing of the requests of a turn: one is answered at once, the others wait, drop or fail."""

from collections.abc import Collection

import msgspec

from forum.deliberation.symposium.replies import ParsedTurn
from forum.deliberation.symposium.schemas import DirectRequest, SchemaFailure
from forum.deliberation.symposium.transcript import to_json_object


class RoutedRequests(msgspec.Struct, frozen=True):
    """The fate of each request of a primary turn."""

    first: DirectRequest | None
    """Answered at once."""
    deferred: tuple[DirectRequest, ...]
    dropped: tuple[DirectRequest, ...]
    failures: tuple[SchemaFailure, ...]


def route_requests(
    turned: ParsedTurn, speaker: str, panel: Collection[str], coordinator: str, room: int
) -> RoutedRequests:
    """Route the requests of a turn; `room` is the number of free places in the deferred queue."""
    failures: list[SchemaFailure] = []
    routable: list[DirectRequest] = []
    for request in turned.content.direct_requests:
        if why := _find_routing_error(request.target, speaker, panel, coordinator):
            failures.append(SchemaFailure(to_json_object(request), why))
        else:
            routable.append(request)
    rest = routable[1:]
    return RoutedRequests(
        routable[0] if routable else None,
        tuple(rest[:room]),
        tuple(rest[room:]),
        (*failures, *turned.failures),
    )


def _find_routing_error(target: str, speaker: str, panel: Collection[str], coordinator: str) -> str:
    if target == speaker:
        return "target: nobody asks himself"
    if target == coordinator:
        return "target: the coordinator answers no requests"
    return "" if target in panel else "target: nobody on the panel has this id"
