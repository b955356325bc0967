"""The log for auditors: checkpoint, tiles and entry bundles (C2SP tlog-tiles).

Only data covered by the newest signed checkpoint is served: an unsigned hash could still change,
and caches would keep the old one.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from starlette.responses import Response

from forum import tlog
from forum.errors import EntryLost, Malformed
from forum.ledger.kinds import Scope
from forum.ledger.ports import TreeReader
from forum.surfaces.http import endpoints
from forum.surfaces.http.problems import ProblemError, ProblemType

T = TypeVar("T")

_BYTES, _TEXT = "application/octet-stream", "text/plain"
_CACHE_BRIEFLY = {"Cache-Control": "private, max-age=2", "Vary": "Authorization"}
_HASH_SIZE = 32
_READERS = endpoints.READERS | {Scope.APPROVE}
"""Who decides at a gate can check that what is decided is in the log; tiles hold no bodies."""


def get_checkpoint(context: endpoints.RequestContext) -> Response:
    """Return the newest signed checkpoint, with the cosignatures that it has."""
    note = context.tenant.forum.store.checkpoint()
    if note is None:
        raise _not_found("no checkpoint was signed yet")
    return _tile_response(context, note, _TEXT, _CACHE_BRIEFLY)


def get_tile(context: endpoints.RequestContext) -> Response:
    """Return the hashes of a tile, full or partial."""
    store = context.tenant.forum.store
    path = f"tile/{context.path_param('level')}/{context.path_param('path')}"
    tile, width = _read_path(tlog.parse_tile_path, path)
    _require_signed(store, (tile.index * tlog.TILE_WIDTH + width) * tlog.TILE_WIDTH**tile.level)
    hashes = store.read_tile(tile, width)
    if len(hashes) != _HASH_SIZE * width:
        raise EntryLost(store.origin, f"{path} is not whole")
    return _tile_response(context, hashes, _BYTES, endpoints.CACHE_FOREVER)


def get_entries(context: endpoints.RequestContext) -> Response:
    """Return the entries under a tile of level 0, each behind its length."""
    store = context.tenant.forum.store
    path = f"tile/entries/{context.path_param('path')}"
    index, width = _read_path(tlog.parse_entries_path, path)
    start = index * tlog.TILE_WIDTH
    _require_signed(store, start + width)
    entries = [entry for entry in store.entries(start, start + width) if entry is not None]
    if len(entries) != width:
        raise EntryLost(store.origin, f"{path} is not whole")
    # Not stored, as an entry is not; the tiles above hold hashes only.
    return _tile_response(context, tlog.encode_entry_bundle(entries), _BYTES, endpoints.NO_STORE)


def _read_path(read: Callable[[str], T], path: str) -> T:
    try:
        return read(path)
    except Malformed as error:
        raise _not_found(str(error)) from None


def _require_signed(reader: TreeReader, size: int) -> None:
    """Raise `ProblemError` (404) unless this many entries are covered by the signed checkpoint."""
    note = reader.checkpoint()
    signed = tlog.parse_checkpoint(note).size if note else 0
    if size > signed:
        raise _not_found(f"the signed tree has {signed} entries")


def _not_found(why: str) -> ProblemError:
    # The tile may exist a second later, so no cache may keep this response.
    return ProblemError(ProblemType.NOT_FOUND, why, dict(endpoints.NO_STORE))


def _tile_response(
    context: endpoints.RequestContext, data: bytes, media: str, caching: dict[str, str]
) -> Response:
    tag = sha256(data).hexdigest()
    headers = {"ETag": f'"{tag}"', **caching}
    return (
        Response(None, 304, headers)
        if context.has_etag(tag)
        else Response(data, 200, headers, media)
    )


TLOG = (
    endpoints.Endpoint(
        "GET", path="/tlog/checkpoint", name="tlog_checkpoint", scopes=_READERS,
        summary="The newest signed checkpoint (C2SP tlog-checkpoint)", handle=get_checkpoint,
        reply=_TEXT, also=endpoints.NOT_MODIFIED, problems=(ProblemType.NOT_FOUND,), tag="tlog",
    ),
    # Before the tiles, because `entries` would match as a level.
    endpoints.Endpoint(
        "GET", path="/tlog/tile/entries/{path:path}", name="tlog_entries", scopes=_READERS,
        summary="An entry bundle, such as `x001/067` or `000.p/8` (C2SP tlog-tiles)",
        handle=get_entries,
        reply=_BYTES, also=endpoints.NOT_MODIFIED, tag="tlog",
    ),
    endpoints.Endpoint(
        "GET", path="/tlog/tile/{level}/{path:path}", name="tlog_tile", scopes=_READERS,
        summary="A tile, such as `0/x001/067` or `1/000.p/8` (C2SP tlog-tiles)", handle=get_tile,
        reply=_BYTES, also=endpoints.NOT_MODIFIED, tag="tlog",
    ),
)  # fmt: skip
