"""The OpenAI Agents SDK: hooks around model calls and tools, and a runner that opens runs.

The hooks can refuse a call.  Its own trace exporter is not touched: unless the program turns it
off, it goes on sending traces to the vendor.
"""

from importlib import import_module
from typing import Any

from forum.features.recorder.adapters.common import SpanTracker, guard_async, mix
from forum.features.recorder.recorder import Recorder
from forum.features.recorder.run_scope import StepScope
from forum.runs.report_kinds import Operation


class OpenAiAgentsHooks:
    """Records the model calls, tools and handoffs of one run of the SDK."""

    def __init__(self, tracker: SpanTracker, inner: Any = None) -> None:
        """Take the hooks of the program, which are called too."""
        self.tracker, self._inner = tracker, inner

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, items: Any) -> None:
        """Record that a model is about to be called, with its highest cost reserved."""
        await self._begin_model(context, agent, system_prompt, items)
        await self._forward("on_llm_start", context, agent, system_prompt, items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Record the reply of a model."""
        await self._end_model(context, response)
        await self._forward("on_llm_end", context, agent, response)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Record that a tool is about to be used."""
        await self._begin_tool(context, agent, tool)
        await self._forward("on_tool_start", context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Record the result of a tool."""
        await self._end_tool(context, tool, result)
        await self._forward("on_tool_end", context, agent, tool, result)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Record that one agent hands over to another."""
        await self._record_handoff(from_agent, to_agent)
        await self._forward("on_handoff", context, from_agent, to_agent)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Tell the hooks of the program."""
        await self._forward("on_agent_start", context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Tell the hooks of the program."""
        await self._forward("on_agent_end", context, agent, output)

    @guard_async
    async def _begin_model(self, context: Any, agent: Any, system: Any, items: Any) -> None:
        name = _model_name(agent.model)
        step = self.tracker.make_step(
            ("llm", id(context)),
            Operation.MODEL,
            name,
            None,
            input={"instructions": system, "input": items},
            model=name,
            agent=agent.name,
            max_tokens=agent.model_settings.max_tokens,
        )
        await self._prepare(("llm", id(context)), step)

    @guard_async
    async def _end_model(self, context: Any, response: Any) -> None:
        step = self.tracker.take_step(("llm", id(context)))
        if step is not None:
            step.output = response.output
            step.tokens(response.usage.input_tokens, response.usage.output_tokens)
            await step.finish_async()

    @guard_async
    async def _begin_tool(self, context: Any, agent: Any, tool: Any) -> None:
        key = ("tool", getattr(context, "tool_call_id", id(context)))
        arguments = getattr(context, "tool_arguments", None)
        step = self.tracker.make_step(
            key, Operation.TOOL, tool.name, None, input=arguments, agent=agent.name
        )
        await self._prepare(key, step)

    @guard_async
    async def _end_tool(self, context: Any, _tool: Any, result: object) -> None:
        step = self.tracker.take_step(("tool", getattr(context, "tool_call_id", id(context))))
        if step is not None:
            step.output = result
            await step.finish_async()

    @guard_async
    async def _record_handoff(self, from_agent: Any, to_agent: Any) -> None:
        name = f"{from_agent.name} to {to_agent.name}"
        async with StepScope(self.tracker.recorder, Operation.HANDOFF, name, agent=from_agent.name):
            pass

    async def _prepare(self, key: object, step: StepScope) -> None:
        try:
            await step.prepare_async()
        except BaseException:
            self.tracker.take_step(key)
            raise

    async def _forward(self, name: str, *args: Any) -> None:
        if self._inner is not None:
            await getattr(self._inner, name)(*args)


class OpenAiAgentsRunner:
    """A runner that gives each run of the SDK the hooks, and a run of the ledger."""

    tracker: SpanTracker

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        """Run an agent, recorded."""
        base: Any = super()
        async with self._scope(starting_agent, input) as step:
            result = await base.run(starting_agent, input, **self._with_hooks(options))
            step.output = result.final_output
            return result

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        """Run an agent, recorded, outside of an event loop; the SDK calls `run`."""
        base: Any = super()
        return base.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        """Stream a run.  Its calls are recorded, in the current run or a run for each of them."""
        base: Any = super()
        return base.run_streamed(starting_agent, input, **self._with_hooks(options))

    def _scope(self, agent: Any, value: Any) -> StepScope:
        step = self.tracker.recorder.span(Operation.AGENT, agent.name, input=value)
        step.agent = agent.name
        return step

    def _with_hooks(self, options: dict[str, Any]) -> dict[str, Any]:
        inner = options.get("hooks")
        base = import_module("agents").RunHooks
        hooks = mix("ForumRunHooks", OpenAiAgentsHooks, base)(self.tracker, inner)
        return {**options, "hooks": hooks}


def install(recorder: Recorder | None = None) -> None:
    """Record every run of the SDK from now on."""
    runs = import_module("agents.run")
    runner = mix("ForumAgentRunner", OpenAiAgentsRunner, runs.AgentRunner)()
    runner.tracker = SpanTracker("openai-agents", recorder)
    runs.set_default_agent_runner(runner)


def _model_name(model: Any) -> str:
    if isinstance(model, str):
        return model
    return str(getattr(model, "model", None) or type(model).__name__ if model else "default")
