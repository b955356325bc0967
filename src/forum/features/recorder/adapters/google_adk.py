"""Google's Agent Development Kit: a plugin around runs, agents, models and tools."""

from importlib import import_module
from typing import Any

from forum.features.recorder.adapters.common import SpanTracker, guard_async, mix
from forum.features.recorder.recorder import Recorder
from forum.runs.report_kinds import Operation


class GoogleAdkPlugin:
    """Records invocations; under a limit, a model call that could pass it is refused."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        super().__init__(name="forum")  # type: ignore[call-arg]  # of the class it is mixed with
        self.tracker = SpanTracker("google-adk", recorder)

    @guard_async
    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Open a run for an invocation, unless the program is within one."""
        name = invocation_context.agent.name
        self.tracker.open_run(("run", invocation_context.invocation_id), name)

    @guard_async
    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """End the run."""
        self.tracker.close_run(("run", invocation_context.invocation_id))

    @guard_async
    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """End the run as failed."""
        self.tracker.close_run(("run", invocation_context.invocation_id), error)

    @guard_async
    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Record that an agent begins."""
        invocation = callback_context.invocation_id
        step = self.tracker.make_step(
            ("agent", invocation, agent.name),
            Operation.AGENT,
            agent.name,
            self.tracker.context_of(("run", invocation)),
            input=getattr(callback_context, "user_content", None),
            agent=agent.name,
        )
        await step.prepare_async()

    @guard_async
    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Record that an agent has ended."""
        await self._end(("agent", callback_context.invocation_id, agent.name))

    @guard_async
    async def on_agent_error_callback(
        self,
        *,
        agent: Any,
        callback_context: Any,
        error: Exception,
    ) -> None:
        """Record that an agent has failed."""
        await self._end(("agent", callback_context.invocation_id, agent.name), error=error)

    @guard_async
    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Record that a model is about to be called, with its highest cost reserved."""
        invocation, agent = callback_context.invocation_id, callback_context.agent_name
        model = llm_request.model or "model"
        key = ("model", invocation, agent)
        step = self.tracker.make_step(
            key,
            Operation.MODEL,
            model,
            self.tracker.context_of(("agent", invocation, agent), ("run", invocation)),
            input=llm_request.contents,
            agent=agent,
            model=model,
            max_tokens=getattr(llm_request.config, "max_output_tokens", None),
        )
        try:
            await step.prepare_async()
        except BaseException as error:
            self.tracker.take_step(key)
            # The kit ends the invocation without telling its plugins.
            await self._end(("agent", invocation, agent), error=error)
            self.tracker.close_run(("run", invocation), error)
            raise

    @guard_async
    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Record the reply; of a stream, the last part."""
        if llm_response.partial:
            return
        key = ("model", callback_context.invocation_id, callback_context.agent_name)
        step = self.tracker.take_step(key)
        if step is not None:
            usage = llm_response.usage_metadata
            if usage is not None:
                read, written = usage.prompt_token_count, usage.candidates_token_count
                step.tokens(read or 0, (written or 0) + (usage.thoughts_token_count or 0))
            step.output = llm_response.content
            step.model = llm_response.model_version or step.model
            await step.finish_async()

    @guard_async
    async def on_model_error_callback(
        self,
        *,
        callback_context: Any,
        llm_request: Any,  # noqa: ARG002  as the kit calls it
        error: Exception,
    ) -> None:
        """Record that a call failed."""
        key = ("model", callback_context.invocation_id, callback_context.agent_name)
        await self._end(key, error=error)

    @guard_async
    async def before_tool_callback(
        self,
        *,
        tool: Any,
        tool_args: dict[str, Any],
        tool_context: Any,
    ) -> None:
        """Record that a tool is about to be used."""
        invocation, agent = tool_context.invocation_id, tool_context.agent_name
        step = self.tracker.make_step(
            ("tool", tool_context.function_call_id),
            Operation.TOOL,
            tool.name,
            self.tracker.context_of(("agent", invocation, agent), ("run", invocation)),
            input=tool_args,
            agent=agent,
        )
        await step.prepare_async()

    @guard_async
    async def after_tool_callback(
        self,
        *,
        tool: Any,  # noqa: ARG002  as the kit calls it
        tool_args: dict[str, Any],  # noqa: ARG002
        tool_context: Any,
        result: Any,
    ) -> None:
        """Record the result of a tool."""
        await self._end(("tool", tool_context.function_call_id), result)

    @guard_async
    async def on_tool_error_callback(
        self,
        *,
        tool: Any,  # noqa: ARG002  as the kit calls it
        tool_args: dict[str, Any],  # noqa: ARG002
        tool_context: Any,
        error: Exception,
    ) -> None:
        """Record that a tool failed."""
        await self._end(("tool", tool_context.function_call_id), error=error)

    async def _end(
        self, key: object, output: object = None, error: BaseException | None = None
    ) -> None:
        step = self.tracker.take_step(key)
        if step is not None:
            step.output = output
            await step.finish_async(error)


def make_plugin(recorder: Recorder | None = None) -> Any:
    """Return a plugin: `App(..., plugins=[forum.google_adk()])`."""
    base = import_module("google.adk.plugins.base_plugin").BasePlugin
    return mix("ForumPlugin", GoogleAdkPlugin, base)(recorder)


def install(recorder: Recorder | None = None) -> None:
    """Give the plugin to every runner that is made from now on."""
    manager = import_module("google.adk.plugins.plugin_manager").PluginManager
    make = manager.__init__

    def init(self: Any, plugins: Any = None, *args: Any, **kwargs: Any) -> None:
        given = [*(plugins or ())]
        if not any(isinstance(plugin, GoogleAdkPlugin) for plugin in given):
            given.append(make_plugin(recorder))
        make(self, given, *args, **kwargs)

    manager.__init__ = init
