"""CrewAI: its interception points around crews, tasks, model calls and tools.

A hook refuses a call by `HookAborted`; any other error of a hook is swallowed by the framework.
"""

from importlib import import_module
from typing import Any

from forum.features.recorder.adapters.common import REFUSALS, SpanTracker
from forum.features.recorder.recorder import Recorder
from forum.features.recorder.run_scope import SpanContext
from forum.runs.report_kinds import Operation


class CrewAiHooks:
    """Records crews and flows; under a limit, a model call that could pass it is refused."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.tracker = SpanTracker("crewai", recorder)

    def begin_execution(self, context: Any) -> None:
        """Open a run for a crew or a flow, unless the program is within one."""
        owner = context.crew or context.flow
        name = getattr(owner, "name", None) or type(owner).__name__
        self.tracker.open_run(("run", id(owner)), name)
        parent = self.tracker.context_of(("run", id(owner)))
        self._begin(
            ("crew", id(owner)), Operation.AGENT, name, parent, input=context.inputs or None
        )

    def end_execution(self, context: Any) -> None:
        """End the run."""
        owner = context.crew or context.flow
        self._end(("crew", id(owner)), context.output, context.error)
        self.tracker.close_run(("run", id(owner)), context.error)

    def begin_step(self, context: Any) -> None:
        """Record that a task or a method of a flow begins."""
        parent = self._owner_span(context)
        name = context.step_name or context.kind or "task"
        key = ("step", id(context.task or context.step_name))
        self._begin(key, Operation.STEP, name, parent, input=context.payload)

    def end_step(self, context: Any) -> None:
        """Record that it has ended."""
        self._end(("step", id(context.task or context.step_name)), context.output)

    def begin_model(self, context: Any) -> None:
        """Record that a model is about to be called, with its highest cost reserved."""
        llm = context.llm
        model = str(getattr(llm, "model", None) or llm or "model")
        limit = getattr(llm, "max_tokens", None) or getattr(llm, "max_completion_tokens", None)
        self._begin(
            ("model", id(context.executor or context.messages)),
            Operation.MODEL,
            model,
            self._task_span(context),
            input=list(context.messages),
            model=model.rpartition("/")[2],
            agent=_role_of(context.agent),
            max_tokens=limit,
        )

    def end_model(self, context: Any) -> None:
        """Record the reply.  The framework tells no tokens of a single call."""
        self._end(("model", id(context.executor or context.messages)), context.response)

    def begin_tool(self, context: Any) -> None:
        """Record that a tool is about to be used."""
        self._begin(
            ("tool", id(context.tool_input)),
            Operation.TOOL,
            context.tool_name,
            self._task_span(context),
            input=dict(context.tool_input or {}),
            agent=_role_of(context.agent),
        )

    def end_tool(self, context: Any) -> None:
        """Record the result of a tool."""
        self._end(("tool", id(context.tool_input)), context.tool_result)

    def _owner_span(self, context: Any) -> SpanContext | None:
        owner = _owner_of(context)
        return self.tracker.context_of(("crew", id(owner)), ("run", id(owner)))

    def _task_span(self, context: Any) -> SpanContext | None:
        crew = _owner_of(context)
        return self.tracker.context_of(
            ("step", id(context.task)), ("crew", id(crew)), ("run", id(crew))
        )

    def _begin(
        self,
        key: object,
        op: Operation,
        name: str,
        parent: SpanContext | None,
        **facts: Any,
    ) -> None:
        step = self.tracker.make_step(key, op, name, parent, **facts)
        try:
            step.prepare()
        except BaseException:
            self.tracker.take_step(key)
            raise

    def _end(self, key: object, output: object, error: BaseException | None = None) -> None:
        step = self.tracker.take_step(key)
        if step is not None:
            step.output = output
            step.hand_in(error)


def install(recorder: Recorder | None = None) -> None:
    """Record every crew and flow from now on."""
    dispatch: Any = import_module("crewai.hooks")
    points, aborted = dispatch.InterceptionPoint, dispatch.HookAborted
    hooks = CrewAiHooks(recorder)

    def register(point: Any, method: Any) -> None:
        def hook(context: Any) -> None:
            try:
                method(context)
            except REFUSALS as error:
                raise aborted(str(error), source="forum") from error
            except Exception as error:  # noqa: BLE001  counted: the program goes on
                hooks.tracker.count_fault(error)

        dispatch.register_hook(point, hook)

    for point, method in (
        (points.EXECUTION_START, hooks.begin_execution),
        (points.EXECUTION_END, hooks.end_execution),
        (points.PRE_STEP, hooks.begin_step),
        (points.POST_STEP, hooks.end_step),
        (points.PRE_MODEL_CALL, hooks.begin_model),
        (points.POST_MODEL_CALL, hooks.end_model),
        (points.PRE_TOOL_CALL, hooks.begin_tool),
        (points.POST_TOOL_CALL, hooks.end_tool),
    ):
        register(point, method)


def _role_of(agent: Any) -> str:
    return str(getattr(agent, "role", "") or "").strip()


def _owner_of(context: Any) -> Any:
    """Return the crew or the flow that something belongs to; not every context names it."""
    task = getattr(context, "task", None)
    return (
        getattr(context, "crew", None)
        or getattr(context, "flow", None)
        or getattr(context.agent, "crew", None)
        or getattr(getattr(task, "agent", None), "crew", None)
    )
