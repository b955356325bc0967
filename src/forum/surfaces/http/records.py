"""The ledger as its readers see it: entries, bodies, causes, proofs, verification, bundles."""

import re
from threading import Lock
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from forum.app import KINDS
from forum.errors import NoSuchEntry, NoSuchRun, NotYetSigned
from forum.ledger import Located, Scope, Sequenced, causes, leaf_of, read_page, stored_body
from forum.surfaces.forms.fields import Index
from forum.surfaces.forms.ledger import (
    CheckpointForm,
    EntryForm,
    ProofForm,
    WhyForm,
    checkpoint_form,
    entry_form,
    proof_form,
    why_form,
)
from forum.surfaces.forms.reports import ReportForm, report_form
from forum.surfaces.http.endpoints import (
    FOREVER,
    JSON,
    NEVER,
    READERS,
    UNCHANGED,
    Endpoint,
    Visit,
)
from forum.surfaces.http.problems import Problem, Refusal
from forum.tlog import Checkpoint, Note, is_witnessed

SIGNER_SECONDS = 20.0
"""How long the machine that signs is waited for, if it is another one."""
_AUDIT = frozenset({Scope.AUDIT})
_ASK_FIRST = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
_BYTES, _TEXT, _ZIP = "application/octet-stream", "text/plain", "application/zip"
_HARMLESS = frozenset({_TEXT, JSON})
"""What no browser takes for a page or a program; all else is only bytes."""
_MOST_RUN = 64

_ENTRY = re.compile(r"[0-9]{1,15}|[0-9a-f]{4,64}").fullmatch
_verifying = Lock()
"""A verification reads everything and keeps a core busy: one at a time is enough for a process."""


class EntriesAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries, from where on."""

    run: Annotated[str, Meta(max_length=_MOST_RUN, pattern="^[!-~]*$")] = ""
    after: Annotated[int, Meta(ge=-1, lt=2**53, description="As `next` of the page before.")] = -1
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class EntriesPage(Struct, frozen=True):
    """Some entries, in the order of the log."""

    entries: tuple[EntryForm, ...]
    next: Annotated[
        Index | None, Meta(description="Where the next page begins; null at the end of the log.")
    ]


class CausesAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """How many causes."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


def list_entries(visit: Visit) -> EntriesPage:
    """List entries by rising index: of the log, or of one run."""
    ask: EntriesAsk = visit.query
    return _of_run(visit, ask) if ask.run else _of_log(visit, ask)


def _of_log(visit: Visit, ask: EntriesAsk) -> EntriesPage:
    store = visit.desk.forum.store
    start, size = ask.after + 1, store.head().size
    stop = min(start + ask.limit, size)
    numbered = enumerate(store.entries(start, stop), start)
    found = [Sequenced(index, data) for index, data in numbered if data is not None]
    return _page(found, stop - 1 if stop < size else None)


def _of_run(visit: Visit, ask: EntriesAsk) -> EntriesPage:
    store = visit.desk.forum.store
    found, more = read_page(store, ask.run, ask.after, ask.limit)
    if not found and not store.strands(ask.run):
        raise NoSuchRun(ask.run)
    return _page(found, found[-1].index if more else None)


def _page(found: list[Sequenced], following: int | None) -> EntriesPage:
    forms = (EntryForm(leaf_of(one.data).hex(), one.index, Raw(one.data)) for one in found)
    return EntriesPage(tuple(forms), following)


def get_entry(visit: Visit) -> Response:
    """Return one entry, byte for byte as it is hashed."""
    located = _located(visit)
    tag, named = located.leaf.hex(), visit.path("entry")
    # The first digits of an id may fit another entry too, some day.
    kept = FOREVER if named in (tag, str(located.index)) else _ASK_FIRST
    headers = {"ETag": f'"{tag}"', **kept}
    if visit.has(tag):
        return Response(None, 304, headers)
    return Response(msgspec.json.encode(entry_form(located)), 200, headers, JSON)


def get_body(visit: Visit) -> Response:
    """Return a body, piece by piece.

    It is compared with its commitment before anything is sent, and the salt comes along, so that
    the client can do the same.  It may be erased at any time: nobody is to keep it without asking.
    """
    located, name = _located(visit), visit.path("name")
    commitment = located.entry.bodies.get(name)
    if commitment is None:
        raise NoSuchEntry(f"entry {located.index} has no body {name!r}")
    stored = stored_body(visit.desk.forum.store, located.entry, name)
    if stored is None:
        why = f"body {name!r} of entry {located.index} was erased, or is missing"
        raise Refusal(Problem.GONE, why)
    headers = {"ETag": f'"{commitment.h}"', **_ASK_FIRST}
    if visit.has(commitment.h):
        return Response(None, 304, headers)
    headers["Content-Length"] = str(commitment.size)
    headers["Content-Disposition"] = "attachment"
    headers["Forum-Salt"] = stored.salt.hex()
    kind = commitment.type.partition(";")[0].strip().lower()
    media = kind if kind in _HARMLESS else _BYTES
    return StreamingResponse(stored.read(), 200, headers, media)


def get_proof(visit: Visit) -> ProofForm | Response:
    """Return what it takes to believe an entry offline, as JSON or as a C2SP tlog-proof."""
    located = _located(visit)
    if located.index is None:
        raise NotYetSigned(located.leaf.hex())
    proof = visit.desk.forum.ledger.prove(located.index)
    if _wants_text(visit):
        return PlainTextResponse(proof.encode(), headers={**NEVER, "Vary": "Accept"})
    return proof_form(located, proof)


def _wants_text(visit: Visit) -> bool:
    """Tell whether a client names plain text before anything else that it could get."""
    accepted = visit.request.headers.get("accept", "").lower().split(",")
    types = (one.partition(";")[0].strip() for one in accepted)
    return next((one for one in types if one in (_TEXT, JSON, "*/*")), JSON) == _TEXT


def get_causes(visit: Visit) -> WhyForm:
    """Return what led to an entry."""
    ask: CausesAsk = visit.query
    located = _located(visit)
    return why_form(causes(visit.desk.forum.store, KINDS, located, ask.limit))


def get_checkpoint(visit: Visit) -> CheckpointForm:
    """Return the newest signed checkpoint."""
    forum = visit.desk.forum
    data = forum.store.checkpoint()
    if data is None:
        raise Refusal(Problem.NOT_SIGNED, "no checkpoint was signed yet")
    note = Note.parse(data)
    witnessed = is_witnessed(note, forum.policy)
    return checkpoint_form(Checkpoint.parse(note.text), data, witnessed=witnessed)


def verify(visit: Visit) -> ReportForm:
    """Check the whole ledger with the keys and memories of the server."""
    if not _verifying.acquire(blocking=False):
        raise Refusal(Problem.UNAVAILABLE, "a verification is going on", {"Retry-After": "5"})
    try:
        forum = visit.desk.forum
        return report_form(forum.verify(forum.trust()))
    finally:
        _verifying.release()


def export(visit: Visit) -> Response:
    """Return the evidence bundle of a run; who took it is recorded and signed before."""
    run = visit.path("run")
    bundle = visit.desk.forum.export(run, visit.principal.name, SIGNER_SECONDS)
    headers = {**NEVER, "Content-Disposition": f'attachment; filename="{run}.zip"'}
    return Response(bundle, 200, headers, _ZIP)


def _located(visit: Visit) -> Located:
    """Return the entry that is meant: by its index, its id, or the first digits of that."""
    named = visit.path("entry")
    if not _ENTRY(named):
        raise NoSuchEntry(f"{named} (an entry is named by its index or its id)")
    return visit.desk.forum.ledger.find(named)


RECORDS = (
    Endpoint(
        "GET", "/api/v1/entries", "list_entries", READERS,
        "List entries, of the log or of one run, in the order of the log", list_entries,
        reply=EntriesPage, query=EntriesAsk, problems=(Problem.NOT_FOUND,), tag="ledger",
    ),
    Endpoint(
        "GET", "/api/v1/entries/{entry}", "get_entry", READERS,
        "Look at an entry, by its index, its id, or the first digits of that", get_entry,
        reply=EntryForm, also=UNCHANGED, tag="ledger",
    ),
    Endpoint(
        "GET", "/api/v1/entries/{entry}/bodies/{name}", "get_body", READERS,
        "Get a body as it is; `Forum-Salt` is what it takes to check it against the commitment",
        get_body, reply=_BYTES, other_types=(_TEXT, JSON), also=UNCHANGED,
        problems=(Problem.GONE,), tag="ledger",
    ),
    Endpoint(
        "GET", "/api/v1/entries/{entry}/proof", "get_proof", READERS,
        "Get the proof that an entry is in the log (with `Accept: text/plain` a C2SP tlog-proof)",
        get_proof, reply=ProofForm, other_types=(_TEXT,), problems=(Problem.NOT_SIGNED,),
        tag="ledger",
    ),
    Endpoint(
        "GET", "/api/v1/entries/{entry}/causes", "get_causes", READERS,
        "Look at what led to an entry", get_causes,
        reply=WhyForm, query=CausesAsk, tag="ledger",
    ),
    Endpoint(
        "GET", "/api/v1/checkpoint", "get_checkpoint", READERS,
        "Look at what the log has committed to", get_checkpoint,
        reply=CheckpointForm, problems=(Problem.NOT_SIGNED,), tag="ledger",
    ),
    Endpoint(
        "POST", "/api/v1/verification", "verify", _AUDIT,
        "Check the whole ledger, with the keys and memories of the server", verify,
        reply=ReportForm, seconds=600.0, tag="ledger",
    ),
    Endpoint(
        "POST", "/api/v1/runs/{run}/bundle", "export_run", _AUDIT,
        "Take the evidence of a run along; that is recorded", export,
        reply=_ZIP, problems=(Problem.NOT_SIGNED,), seconds=600.0, tag="ledger",
    ),
)  # fmt: skip
