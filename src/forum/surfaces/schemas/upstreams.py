"""How providers have answered lately."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.app import UpstreamFigures
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.runs import Since, Until
from forum.units import format_usd


class UpstreamsAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """The time whose calls are counted."""

    since: Since = None
    until: Until = None


class UpstreamForm(Struct, frozen=True):
    """The calls that one provider got."""

    name: Annotated[str, Meta(description="The provider, or the upstream of a route.")]
    calls: int
    failed: Annotated[int, Meta(description="How many of them did not end well.")]
    usd: fields.Usd
    p50_ms: Annotated[
        int, Meta(description="Half of the calls that ended well took at most so long.")
    ]
    p95_ms: Annotated[
        int, Meta(description="Of the calls that ended well, 95 % took at most so long.")
    ]


class RefusalsForm(Struct, frozen=True):
    """The calls that were refused for one reason before they were made."""

    reason: str
    calls: int


class UpstreamsForm(Struct, frozen=True):
    """How providers have answered model calls of runs that Forum does not drive."""

    upstreams: tuple[UpstreamForm, ...]
    refused: tuple[RefusalsForm, ...]
    since: Annotated[
        fields.Moment | None,
        Meta(
            description="If not null, older calls of the time that was asked for are not counted: "
            "a request reads the newest ten thousand entries of the log at most."
        ),
    ]


def upstreams_form(figures: UpstreamFigures) -> UpstreamsForm:
    """Return how providers have answered in its form, the one with the most calls first."""
    ordered = sorted(figures.by_provider.items(), key=lambda item: (-item[1].calls, item[0]))
    return fields.fill(
        UpstreamsForm,
        figures,
        upstreams=(
            UpstreamForm(
                name=name,
                calls=upstream.calls,
                failed=upstream.failed,
                usd=format_usd(upstream.usd),
                p50_ms=upstream.percentile(50) // 1000,
                p95_ms=upstream.percentile(95) // 1000,
            )
            for name, upstream in ordered
        ),
        refused=(RefusalsForm(reason, calls) for reason, calls in figures.refused.most_common()),
    )
