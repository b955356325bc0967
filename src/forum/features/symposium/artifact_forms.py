"""The results of checks of artifacts, as the command line prints them."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.features.symposium import kinds
from forum.surfaces.schemas.fields import RunId


class FaultForm(Struct, frozen=True):
    """An invariant that an artifact violates, and where."""

    law: str
    where: str
    why: str


class ArtifactForm(Struct, frozen=True):
    """The result of a check of the artifact of a session."""

    session: str | None
    holds: bool
    faults: tuple[FaultForm, ...]
    digest: Annotated[str | None, Meta(description="What its transcript comes to now.")] = None
    stored: Annotated[str | None, Meta(description="What the artifact says of it.")] = None
    messages: Annotated[int | None, Meta(description="How many were read again.")] = None
    parted: Annotated[str | None, Meta(description="The first message that is another.")] = None
    run: Annotated[RunId | None, Meta(description="The run that it was compared with.")] = None
    pin: Annotated[
        kinds.ReplayPin | None, Meta(description="The first pin that could not be held.")
    ] = None
    conditions_checked: Annotated[
        tuple[kinds.ReplayPin, ...] | None,
        Meta(description="Pins of an execution replay that are stated twice, and the same."),
    ] = None
    conditions_assumed: Annotated[
        tuple[kinds.ReplayPin, ...] | None,
        Meta(description="Pins of an execution replay that were taken over, not compared."),
    ] = None
