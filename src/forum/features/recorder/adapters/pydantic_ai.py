"""Pydantic AI: a capability that stands around runs, model requests and tools."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from forum.features.recorder.adapters.common import SpanTracker, mix
from forum.features.recorder.recorder import Recorder
from forum.features.recorder.run_scope import current_context
from forum.runs.report_kinds import Operation


class PydanticAiCapability:
    """Records the runs of an agent; under a limit, a model request that could pass it is refused.

    The framework awaits these methods around its own work, so the context of the program is the
    context of the steps.
    """

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.tracker = SpanTracker("pydantic-ai", recorder)

    async def wrap_run(self, ctx: Any, *, handler: Callable[[], Awaitable[Any]]) -> Any:
        """Record a run of an agent, as a run of its own unless the program is within one."""
        name = getattr(ctx.agent, "name", None) or "agent"
        recorder = self.tracker.recorder
        if current_context() is not None:
            return await self._record_agent(name, ctx, handler)
        async with recorder.run(name, framework=self.tracker.framework):
            return await self._record_agent(name, ctx, handler)

    async def _record_agent(
        self,
        name: str,
        ctx: Any,
        handler: Callable[[], Awaitable[Any]],
    ) -> Any:
        async with self.tracker.recorder.span(Operation.AGENT, name, input=ctx.prompt) as step:
            step.agent = name
            result = await handler()
            step.output = getattr(result, "output", None)
            return result

    async def wrap_model_request(
        self,
        ctx: Any,
        *,
        request_context: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Record a model request; its highest cost is reserved before it is made."""
        model = request_context.model or ctx.model
        settings = request_context.model_settings or {}
        async with self.tracker.recorder.span(
            Operation.MODEL,
            model.model_name,
            input=request_context.messages,
            model=model.model_name,
            provider=getattr(model, "system", "") or "",
            max_tokens=settings.get("max_tokens"),
        ) as step:
            response = await handler(request_context)
            step.output = response.parts
            step.model = response.model_name or model.model_name
            step.tokens(response.usage.input_tokens, response.usage.output_tokens)
            return response

    async def wrap_tool_execute(
        self,
        ctx: Any,  # noqa: ARG002  as the framework calls it
        *,
        call: Any,
        tool_def: Any,  # noqa: ARG002
        args: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Record a use of a tool."""
        async with self.tracker.recorder.span(Operation.TOOL, call.tool_name, input=args) as step:
            result = await handler(args)
            step.output = result
            return result


def make_capability(recorder: Recorder | None = None) -> Any:
    """Return a capability: `Agent(..., capabilities=[forum.pydantic_ai()])`."""
    base = import_module("pydantic_ai.capabilities").AbstractCapability
    return mix("ForumCapability", PydanticAiCapability, base)(recorder)


def install(recorder: Recorder | None = None) -> None:
    """Give the capability to every agent that is made from now on."""
    agent = import_module("pydantic_ai").Agent
    make = agent.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [*(kwargs.pop("capabilities", None) or ())]
        if not any(isinstance(capability, PydanticAiCapability) for capability in given):
            given.append(make_capability(recorder))
        make(self, *args, capabilities=given, **kwargs)

    agent.__init__ = init
