"""The "models" that chat clients can select: a mode of working, or a lane of the roster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from forum.features.chat_api.errors import ParameterError, openai_error_response
from forum.ledger.kinds import Scope
from forum.runs.roster import Roster
from forum.surfaces.http.endpoints import READERS, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType

FORUM, TEAM = "forum", "team"
REPLAY, PANEL = "replay", "panel"
_LANE = "lane/"
_MODES = {
    FORUM: "One agent, in the lane that the request belongs to.",
    TEAM: "The whole team: planned, carried out, judged, and put together.",
    REPLAY: "A recorded run, played again: replay:RUN, or the run in metadata.run.",
    PANEL: "A panel of agents that deliberates; who sits on it can be said in forum.panel.",
}
_RESERVED = frozenset(_MODES)
"""Names that are modes; a lane with such a name is called `lane/NAME`."""


class ChoiceForm(Struct, frozen=True):
    """Something that can be chosen as a model."""

    id: str
    object: str
    created: int
    owned_by: str
    description: Annotated[str, Meta(description="The purpose of the model.")]


class ChoicesForm(Struct, frozen=True):
    """Everything that can be chosen as a model."""

    object: str
    data: tuple[ChoiceForm, ...]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The selected model."""

    model: str
    """As the client wrote it."""
    lane: str = ""
    team: bool = False
    panel: bool = False
    replay: str | None = None
    """The run to be replayed, if any."""


def resolve_model(model: str, metadata: Mapping[str, Any], roster: Roster) -> ModelChoice:
    """Return the choice for a model name.  Raises `ParameterError`."""
    way, _, rest = model.partition(":")
    if way == REPLAY:
        return ModelChoice(model, replay=_parse_replay_run(rest or metadata.get("run")))
    if model in _MODES:
        return ModelChoice(model, team=model == TEAM, panel=model == PANEL)
    lane = model.removeprefix(_LANE)
    if lane not in roster.by_name or model in _RESERVED:
        raise _model_not_found(model)
    return ModelChoice(model, lane=lane)


async def resolve_requested_model(
    context: RequestContext, model: str, metadata: Mapping[str, Any]
) -> ModelChoice:
    """Return the choice for a model name, in a thread because the roster may have to be loaded."""
    return await run_in_threadpool(
        lambda: resolve_model(model, metadata, context.tenant.registry.roster)
    )


def _parse_replay_run(run: object) -> str:
    if not isinstance(run, str) or not run:
        why = 'say which run: the model "replay:RUN", or metadata {"run": "RUN"}'
        raise ParameterError(ProblemType.BAD_REQUEST, why, param="model", code="run_missing")
    if not (run.isascii() and run.isprintable()):  # some databases reject such strings
        raise ParameterError(
            ProblemType.NOT_FOUND, "no run has such a name", param="model", code="not_found"
        )
    return run


def _model_not_found(model: str) -> ParameterError:
    why = f"there is no model {model[:64]!r}; GET /v1/models lists them"
    return ParameterError(ProblemType.NOT_FOUND, why, param="model", code="model_not_found")


def list_models(context: RequestContext) -> ChoicesForm:
    """List what can be chosen as a model."""
    lanes = context.tenant.registry.roster.lanes
    ways = [_model_form(name, what) for name, what in _MODES.items() if _is_offered(context, name)]
    names = [_LANE + lane.name if lane.name in _RESERVED else lane.name for lane in lanes]
    working = [_model_form(name, lane.does) for name, lane in zip(names, lanes, strict=True)]
    return ChoicesForm("list", (*ways, *working))


def get_model(context: RequestContext) -> ChoiceForm:
    """Return one of them, under the name that the client has for it."""
    model, roster = context.path_param("model"), context.tenant.registry.roster
    way = model.partition(":")[0]
    if way == REPLAY:
        return _model_form(model, _MODES[REPLAY])
    if not _is_offered(context, model):
        raise _model_not_found(model)
    lane = resolve_model(model, {}, roster).lane
    return _model_form(model, roster.by_name[lane].does if lane else _MODES[way])


def _is_offered(context: RequestContext, way: str) -> bool:
    """Return whether a mode is usable: a panel needs at least one configured agent."""
    return way != PANEL or bool(context.tenant.registry.team_settings.agents)


def _model_form(name: str, description: str) -> ChoiceForm:
    return ChoiceForm(id=name, object="model", created=0, owned_by="forum", description=description)


_MODEL_SCOPES = READERS | {Scope.SUBMIT}

MODELS = (
    Endpoint(
        "GET", path="/v1/models", name="openai_models", scopes=_MODEL_SCOPES,
        summary="List what chat clients can choose as a model", handle=list_models,
        reply=ChoicesForm, tag="openai", voice=openai_error_response,
    ),
    Endpoint(
        "GET", path="/v1/models/{model:path}", name="openai_model", scopes=_MODEL_SCOPES,
        summary="Tell what a model is", handle=get_model,
        reply=ChoiceForm, tag="openai", voice=openai_error_response,
    ),
)  # fmt: skip
