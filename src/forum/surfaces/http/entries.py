"""Endpoints for the ledger: entries, bodies, causes, proofs, verification and bundles."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from forum.app import KINDS
from forum.errors import NoSuchEntry, NoSuchRun, NotYetSigned
from forum.ledger.access import has_scope
from forum.ledger.entry import leaf_of
from forum.ledger.kinds import Scope
from forum.ledger.log import LocatedEntry, stored_body, walk_causes
from forum.ledger.run_directory import prove_run_list
from forum.ledger.run_events import SequencedEntry, read_page
from forum.runs.report_causes import within_finder
from forum.surfaces.http import endpoints
from forum.surfaces.http.events import LOG_EVENTS
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.schemas import ledger
from forum.surfaces.schemas.comparison import ReplayForm, replay_and_compare
from forum.surfaces.schemas.fields import Index
from forum.surfaces.schemas.reports import ReportForm, report_form
from forum.tlog import Checkpoint, Note, is_witnessed

SIGNER_TIMEOUT_S = 20.0
"""How long to wait for the signing machine, if it is another one."""
_AUDIT = frozenset({Scope.AUDIT})
_APPROVE = frozenset({Scope.APPROVE})
_BYTES, _TEXT = "application/octet-stream", "text/plain"
_ZIP = "application/zip"
_HARMLESS = frozenset({_TEXT, endpoints.JSON})
"""Media types that no browser executes or renders as a page; everything else is sent as bytes."""
_MAX_RUN_NAME_LENGTH = 64

_ENTRY = re.compile(r"[0-9]{1,15}|[0-9a-f]{4,64}").fullmatch
_check_lock = Lock()
"""A verification or a replay keeps a core busy, so a process does one at a time."""


class EntriesAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries, from where on."""

    run: Annotated[str, Meta(max_length=_MAX_RUN_NAME_LENGTH, pattern="^[!-~]*$")] = ""
    after: Annotated[
        int, Meta(ge=-1, lt=2**53, description="The value of `next` of the previous page.")
    ] = -1
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class EntriesPage(Struct, frozen=True):
    """Some entries, in the order of the log."""

    entries: tuple[ledger.EntryForm, ...]
    next: Annotated[
        Index | None, Meta(description="Where the next page begins; null at the end of the log.")
    ]


class CausesAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """How many causes."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class DirectoryAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries of the directory."""

    first: Annotated[
        int,
        Meta(
            ge=1 - 2**53,
            lt=2**53,
            description=(
                "The position of the first entry, from 0 on. A negative one is counted from the "
                "end of what was signed: -64 begins with the last 64."
            ),
        ),
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 64


def list_entries(context: endpoints.RequestContext) -> EntriesPage:
    """List entries by rising index: of the log, or of one run."""
    ask: EntriesAsk = context.query
    return _list_run_entries(context, ask) if ask.run else _list_log_entries(context, ask)


def _list_log_entries(context: endpoints.RequestContext, ask: EntriesAsk) -> EntriesPage:
    store = context.tenant.forum.store
    start, size = ask.after + 1, store.head().size
    stop = min(start + ask.limit, size)
    numbered = enumerate(store.entries(start, stop), start)
    entries = [SequencedEntry(index, data) for index, data in numbered if data is not None]
    return _page(entries, stop - 1 if stop < size else None)


def _list_run_entries(context: endpoints.RequestContext, ask: EntriesAsk) -> EntriesPage:
    store = context.tenant.forum.store
    entries, more = read_page(store, ask.run, ask.after, ask.limit)
    if not entries and not store.strands(ask.run):
        raise NoSuchRun(ask.run)
    return _page(entries, entries[-1].index if more else None)


def _page(entries: list[SequencedEntry], following: int | None) -> EntriesPage:
    forms = (
        ledger.EntryForm(leaf_of(entry.data).hex(), entry.index, Raw(entry.data))
        for entry in entries
    )
    return EntriesPage(tuple(forms), following)


def get_entry(context: endpoints.RequestContext) -> Response:
    """Return one entry, byte for byte as it is hashed."""
    located = _find_entry(context)
    tag = located.leaf.hex()
    # Not stored: what a browser writes to its disk stays there after its user has signed out.
    headers = {"ETag": f'"{tag}"', **endpoints.NO_STORE}
    if context.has_etag(tag):
        return Response(None, 304, headers)
    return Response(msgspec.json.encode(ledger.entry_form(located)), 200, headers, endpoints.JSON)


def get_body(context: endpoints.RequestContext) -> Response:
    """Return a body, piece by piece.

    It is compared with its commitment before anything is sent, and the salt comes along, so that
    the client can do the same.  It may be erased at any time: nobody is to keep it without asking.
    """
    located, name = _find_entry(context), context.path_param("name")
    _check_may_read(context, located, name)
    commitment = located.entry.bodies.get(name)
    if commitment is None:
        raise NoSuchEntry(f"entry {located.index} has no body {name!r}")
    stored = stored_body(context.tenant.forum.store, located.entry, name)
    if stored is None:
        why = f"body {name!r} of entry {located.index} was erased, or is missing"
        raise ProblemError(ProblemType.GONE, why)
    headers = {"ETag": f'"{commitment.h}"', **endpoints.NO_STORE}
    if context.has_etag(commitment.h):
        return Response(None, 304, headers)
    headers["Content-Length"] = str(commitment.size)
    # The content is untrusted: a browser must save it, not display it.
    headers["Content-Disposition"] = "attachment"
    headers["Forum-Salt"] = stored.salt.hex()
    kind = commitment.type.partition(";")[0].strip().lower()
    media = kind if kind in _HARMLESS else _BYTES
    return StreamingResponse(stored.read(), 200, headers, media)


def _check_may_read(context: endpoints.RequestContext, located: LocatedEntry, name: str) -> None:
    """Raise `ProblemError` (403) unless a client may read all bodies, or decides about this one."""
    if has_scope(context.principal.scopes, endpoints.READERS):
        return
    if not context.tenant.forum.reads.is_shown_at_gate(located, name):
        why = "the scope approve opens only what is shown at a gate; all else needs the scope read"
        raise ProblemError(ProblemType.FORBIDDEN, why)


def get_proof(context: endpoints.RequestContext) -> ledger.ProofForm | Response:
    """Return what it takes to believe an entry offline, as JSON or as a C2SP tlog-proof."""
    located = _find_entry(context)
    if located.index is None:
        raise NotYetSigned(located.leaf.hex())
    proof = context.tenant.forum.ledger.prove_entry(located.index)
    if _wants_text(context):
        return PlainTextResponse(proof.encode(), headers={**endpoints.NO_STORE, "Vary": "Accept"})
    return ledger.proof_form(located, proof)


def get_directory(context: endpoints.RequestContext) -> ledger.DirectoryForm:
    """Return entries that name the runs of the log, and the proof that none is left out."""
    ask: DirectoryAsk = context.query
    return ledger.directory_form(prove_run_list(context.tenant.forum.store, ask.first, ask.limit))


def _wants_text(context: endpoints.RequestContext) -> bool:
    """Return whether the client's Accept header lists plain text before JSON."""
    accepted = context.request.headers.get("accept", "").lower().split(",")
    types = (item.partition(";")[0].strip() for item in accepted)
    return (
        next((kind for kind in types if kind in (_TEXT, endpoints.JSON, "*/*")), endpoints.JSON)
        == _TEXT
    )


def get_causes(context: endpoints.RequestContext) -> ledger.WhyForm:
    """Return what led to an entry."""
    ask: CausesAsk = context.query
    located = _find_entry(context)
    forum = context.tenant.forum
    chain = walk_causes(
        forum.store, KINDS, located, ask.limit, find_further=within_finder(forum.store, KINDS)
    )
    return ledger.why_form(chain, forum.reads.explain_entry)


def get_checkpoint(context: endpoints.RequestContext) -> ledger.CheckpointForm:
    """Return the newest signed checkpoint."""
    forum = context.tenant.forum
    data = forum.store.checkpoint()
    if data is None:
        raise ProblemError(ProblemType.NOT_SIGNED, "no checkpoint was signed yet")
    note = Note.parse(data)
    witnessed = is_witnessed(note, forum.policy)
    return ledger.checkpoint_form(Checkpoint.parse(note.text), data, witnessed=witnessed)


def verify_log(context: endpoints.RequestContext) -> ReportForm:
    """Check the whole ledger with the keys and memories of the server, not its marks."""
    forum = context.tenant.forum
    with hold_check_lock():
        return report_form(forum.log.verify(forum.log.read_trust_for_others()))


def replay_run(context: endpoints.RequestContext) -> ReplayForm:
    """Replay a run from its record alone, and say where the two differ."""
    forum, run = context.tenant.forum, context.path_param("run")
    if forum.reads.read_run(run).outcome is None:
        raise ProblemError(ProblemType.CONFLICT, f"run {run} has not ended; replay it after that")
    with hold_check_lock():
        return replay_and_compare(forum, run)


@contextmanager
def hold_check_lock() -> Iterator[None]:
    """Raise `ProblemError` (503) if this process is busy with such a check."""
    if not _check_lock.acquire(blocking=False):
        why = "a verification or a replay is going on"
        raise ProblemError(ProblemType.UNAVAILABLE, why, {"Retry-After": "5"})
    try:
        yield
    finally:
        _check_lock.release()


def export_bundle(context: endpoints.RequestContext) -> Response:
    """Return the evidence bundle of a run; who took it is recorded and signed before."""
    run = context.path_param("run")
    bundle = context.tenant.forum.log.export(run, context.principal.name, SIGNER_TIMEOUT_S)
    headers = {**endpoints.NO_STORE, "Content-Disposition": f'attachment; filename="{run}.zip"'}
    return Response(bundle, 200, headers, _ZIP)


def _find_entry(context: endpoints.RequestContext) -> LocatedEntry:
    """Return the entry with this index, id or id prefix.  Raises `NoSuchEntry`."""
    named = context.path_param("entry")
    if not _ENTRY(named):
        raise NoSuchEntry(f"{named} (an entry is named by its index or its id)")
    return context.tenant.forum.ledger.find_entry(named)


ENTRIES = (
    endpoints.Endpoint(
        "GET", path="/api/v1/entries", name="list_entries", scopes=endpoints.READERS,
        summary="List entries, of the log or of one run, in the order of the log",
        handle=list_entries,
        reply=EntriesPage, query=EntriesAsk, problems=(ProblemType.NOT_FOUND,), tag="ledger",
    ),
    LOG_EVENTS,
    endpoints.Endpoint(
        "GET", path="/api/v1/entries/{entry}", name="get_entry", scopes=endpoints.READERS,
        summary="Look at an entry, by its index, its id, or the first digits of that",
        handle=get_entry,
        reply=ledger.EntryForm, also=endpoints.NOT_MODIFIED, tag="ledger",
    ),
    endpoints.Endpoint(
        "GET", path="/api/v1/entries/{entry}/bodies/{name}", name="get_body",
        scopes=endpoints.READERS | _APPROVE,
        summary="Get a body as it is, with `Forum-Salt` to check it; `approve` opens only what "
            "gates show",
        handle=get_body, reply=_BYTES, other_types=(_TEXT, endpoints.JSON),
        also=endpoints.NOT_MODIFIED,
        problems=(ProblemType.GONE,), tag="ledger",
    ),
    endpoints.Endpoint(
        "GET", path="/api/v1/entries/{entry}/proof", name="get_proof", scopes=endpoints.READERS,
        summary="Get the proof that an entry is in the log (with `Accept: text/plain` a C2SP "
            "tlog-proof)",
        handle=get_proof, reply=ledger.ProofForm, other_types=(_TEXT,),
        problems=(ProblemType.NOT_SIGNED,),
        tag="ledger",
    ),
    endpoints.Endpoint(
        "GET", path="/api/v1/directory", name="get_directory", scopes=endpoints.READERS,
        summary="Get the names of all runs, in the order of their openings, with a proof",
        handle=get_directory,
        reply=ledger.DirectoryForm, query=DirectoryAsk,
        problems=(ProblemType.NOT_FOUND, ProblemType.NOT_SIGNED), tag="ledger",
    ),
    endpoints.Endpoint(
        "GET", path="/api/v1/entries/{entry}/causes", name="get_causes", scopes=endpoints.READERS,
        summary="Look at what led to an entry", handle=get_causes,
        reply=ledger.WhyForm, query=CausesAsk, tag="ledger",
    ),
    endpoints.Endpoint(
        "GET", path="/api/v1/checkpoint", name="get_checkpoint", scopes=endpoints.READERS,
        summary="Look at what the log has committed to", handle=get_checkpoint,
        reply=ledger.CheckpointForm, problems=(ProblemType.NOT_SIGNED,), tag="ledger",
    ),
    endpoints.Endpoint(
        "POST", path="/api/v1/verification", name="verify", scopes=_AUDIT,
        summary="Check the whole ledger, with the keys and memories of the server",
        handle=verify_log,
        reply=ReportForm, seconds=600.0, tag="ledger",
    ),
    endpoints.Endpoint(
        "POST", path="/api/v1/runs/{run}/replay", name="replay_run", scopes=_AUDIT,
        summary="Replay a run from its record alone, and compare the two", handle=replay_run,
        reply=ReplayForm, problems=(ProblemType.CONFLICT, ProblemType.GONE), seconds=600.0,
        tag="ledger",
    ),
    endpoints.Endpoint(
        "POST", path="/api/v1/runs/{run}/bundle", name="export_run", scopes=_AUDIT,
        summary="Take the evidence of a run along; that is recorded", handle=export_bundle,
        reply=_ZIP, problems=(ProblemType.NOT_SIGNED,), seconds=600.0, tag="ledger",
    ),
)  # fmt: skip
