"""The endpoint for evidence packs."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from forum.app.evidence import EvidenceRequest, choose_maps
from forum.app.formatting import parse_moment
from forum.ledger.kinds import Scope
from forum.surfaces.http import endpoints
from forum.surfaces.http.entries import SIGNER_TIMEOUT_S, hold_check_lock
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.verify_page import build_page

_ZIP = "application/zip"
_Moment = Annotated[str, Meta(max_length=40, description="A day or a moment, ISO 8601, UTC.")]
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
        since=_read_moment(ask.since),
        until=_read_moment(ask.until),
        maps=choose_maps(ask.maps, unreviewed=ask.unreviewed),
        sample=ask.sample,
        seed=ask.seed,
        incident=ask.incident,
    )
    page = build_page().encode()
    with hold_check_lock():
        evidence = context.desk.forum.evidence
        pack = evidence.make_pack(request, page, context.principal.name, SIGNER_TIMEOUT_S)
    name = f"evidence-{pack.report.since[:10]}-{pack.report.until[:10]}.zip"
    headers = {**endpoints.NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(pack.data, 200, headers, _ZIP)


def _read_moment(text: str) -> int | None:
    try:
        return parse_moment(text) if text else None
    except ValueError as error:
        raise ProblemError(ProblemType.UNFIT, str(error)) from None


EVIDENCE = (
    endpoints.Endpoint(
        "POST", "/api/v1/evidence", "create_evidence", frozenset({Scope.AUDIT}),
        "Take the evidence of a period or an incident along; that is recorded", create_evidence,
        reply=_ZIP, body=EvidenceAsk, tag="ledger", seconds=300.0,
        problems=(ProblemType.NOT_FOUND, ProblemType.NOT_SIGNED),
        example={"since": "2026-10-01", "until": "2026-11-01", "sample": 25},
    ),
)  # fmt: skip
