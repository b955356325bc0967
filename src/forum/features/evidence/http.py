"""The endpoint for evidence packs."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from forum.features.evidence.service import EvidenceOperations, EvidenceRequest, choose_maps
from forum.features.evidence.verify_page import build_page
from forum.ledger.kinds import Scope
from forum.surfaces.http import endpoints
from forum.surfaces.http.entries import SIGNER_TIMEOUT_S, hold_check_lock
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.schemas import fields

_ZIP = "application/zip"
_Moment = Annotated[str, Meta(max_length=40)]
# A path would name a file of the server.
_MapName = Annotated[str, Meta(pattern="^[a-z0-9-]{1,64}$")]


class EvidenceAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """What a pack is to be about."""

    since: Annotated[_Moment, Meta(description="Empty for the beginning of the log.")] = ""
    until: Annotated[_Moment, Meta(description="The first moment after it; empty for now.")] = ""
    incident: Annotated[str, Meta(max_length=64, description="A run; empty for a period.")] = ""
    maps: Annotated[tuple[_MapName, ...], Meta(max_length=20)] = ()
    unreviewed: Annotated[
        bool, Meta(description="Whether maps that nobody has reviewed may be used, with a mark.")
    ] = False
    sample: Annotated[int, Meta(ge=0, le=200, description="How many runs are drawn.")] = 0
    seed: Annotated[
        str, Meta(max_length=200, description="The auditor's; empty for that of the witnesses.")
    ] = ""


def create_evidence(context: endpoints.RequestContext) -> Response:
    """Return an evidence pack; who took it is recorded and signed before."""
    ask: EvidenceAsk = context.body
    request = EvidenceRequest(
        since=fields.read_moment(ask.since) if ask.since else None,
        until=fields.read_moment(ask.until) if ask.until else None,
        maps=choose_maps(ask.maps, unreviewed=ask.unreviewed),
        sample=ask.sample,
        seed=ask.seed,
        incident=ask.incident,
    )
    page = build_page().encode()
    with hold_check_lock():
        evidence = EvidenceOperations(context.tenant.forum)
        pack = evidence.make_pack(request, page, context.principal.name, SIGNER_TIMEOUT_S)
    name = f"evidence-{pack.report.since[:10]}-{pack.report.until[:10]}.zip"
    headers = {**endpoints.NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(pack.data, 200, headers, _ZIP)


EVIDENCE = (
    endpoints.Endpoint(
        "POST", path="/api/v1/evidence", name="create_evidence", scopes=frozenset({Scope.AUDIT}),
        summary="Take the evidence of a period or an incident along; that is recorded",
        handle=create_evidence,
        reply=_ZIP, body=EvidenceAsk, tag="ledger", seconds=300.0,
        problems=(ProblemType.NOT_FOUND, ProblemType.NOT_SIGNED),
        example={"since": "2026-10-01", "until": "2026-11-01", "sample": 25},
    ),
)  # fmt: skip
