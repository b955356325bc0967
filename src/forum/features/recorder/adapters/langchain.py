"""LangChain and LangGraph: a callback handler for models, tools, retrievers, nodes and graphs.

Internal runnables are noise: what is recorded are models, tools, retrievers, the nodes of graphs,
and the outermost runnable.  The others are counted in a gap `filtered`.
"""

from contextvars import ContextVar
from importlib import import_module
from typing import Any
from uuid import UUID

from forum.features.recorder.adapters.common import SpanTracker, guard, mix
from forum.features.recorder.recorder import Recorder
from forum.runs.report_kinds import Operation


class LangChainHandler:
    """Records what runs under it; under a limit, a model call that could pass it is refused."""

    run_inline = True
    # Refusals must reach the program; everything else is caught by `guard`.
    raise_error = True

    def __init__(self, recorder: Recorder | None = None) -> None:
        super().__init__()
        self.tracker = SpanTracker("langchain", recorder)

    @guard
    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        """Record the outermost runnable and the nodes of graphs."""
        name = _name_of(serialized, more)
        if parent_run_id is None:
            self.tracker.open_run(("run", run_id), name)
            self._begin(run_id, None, Operation.AGENT, name, value=inputs)
        elif (more.get("metadata") or {}).get("langgraph_node") == name:
            self._begin(run_id, parent_run_id, Operation.STEP, name, value=inputs)
        else:
            self.tracker.skip_step(run_id, self.tracker.context_of(parent_run_id))

    @guard
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the result."""
        self._end(run_id, outputs)

    @guard
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the error."""
        self._end(run_id, None, error)

    @guard
    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        """Record that a chat model is about to be called, with its highest cost reserved."""
        self._begin_model(serialized, messages, run_id, parent_run_id, more=more)

    @guard
    def on_llm_start(
        self,
        serialized: Any,
        prompts: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        """Record that a model is about to be called, with its highest cost reserved."""
        self._begin_model(serialized, prompts, run_id, parent_run_id, more=more)

    @guard
    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the reply."""
        step = self.tracker.take_step(run_id)
        if step is None:
            return
        generation = response.generations[0][0]
        message = getattr(generation, "message", None)
        usage = getattr(message, "usage_metadata", None)
        if usage:
            step.tokens(usage.get("input_tokens", 0), usage.get("output_tokens", 0))
        model = (getattr(message, "response_metadata", None) or {}).get("model_name")
        step.model = model or step.model
        step.output = message if message is not None else generation.text
        step.hand_in()
        self.tracker.close_run(("run", run_id))

    @guard
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the error."""
        self._end(run_id, None, error)

    @guard
    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: Any = None,
        **more: Any,
    ) -> None:
        """Record that a tool is about to be used."""
        name = _name_of(serialized, more)
        self._begin(run_id, parent_run_id, Operation.TOOL, name, value=inputs or input_str)

    @guard
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the result."""
        self._end(run_id, output)

    @guard
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the error."""
        self._end(run_id, None, error)

    @guard
    def on_retriever_start(
        self,
        serialized: Any,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        """Record that documents are about to be looked up."""
        name = _name_of(serialized, more)
        self._begin(run_id, parent_run_id, Operation.RETRIEVAL, name, value=query)

    @guard
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the documents."""
        self._end(run_id, documents)

    @guard
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the error."""
        self._end(run_id, None, error)

    def _begin_model(
        self,
        serialized: Any,
        messages: Any,
        run_id: UUID,
        parent_run_id: UUID | None,
        more: dict[str, Any],
    ) -> None:
        metadata = more.get("metadata") or {}
        asked = more.get("invocation_params") or {}
        name = str(
            asked.get("model") or metadata.get("ls_model_name") or _name_of(serialized, more)
        )
        limit = asked.get("max_tokens") or metadata.get("ls_max_tokens")
        self._begin(
            run_id,
            parent_run_id,
            Operation.MODEL,
            name,
            value=messages,
            model=name,
            provider=str(metadata.get("ls_provider") or ""),
            max_tokens=limit,
        )

    def _begin(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        op: Operation,
        name: str,
        value: object,
        **facts: Any,
    ) -> None:
        parent = self.tracker.context_of(parent_run_id, ("run", run_id))
        if parent is None:
            parent = self.tracker.open_run(("run", run_id), name)
        step = self.tracker.make_step(run_id, op, name, parent, input=value, **facts)
        try:
            step.prepare()
        except BaseException as error:
            self.tracker.take_step(run_id)
            self.tracker.close_run(("run", run_id), error)
            raise

    def _end(self, run_id: UUID, output: Any, error: BaseException | None = None) -> None:
        step = self.tracker.take_step(run_id)
        self.tracker.forget(run_id)
        if step is not None:
            step.output = output
            step.hand_in(error)
        self.tracker.close_run(("run", run_id), error)


def make_handler(recorder: Recorder | None = None) -> Any:
    """Return a handler: `graph.invoke(..., config={"callbacks": [forum.langchain()]})`."""
    base = import_module("langchain_core.callbacks").BaseCallbackHandler
    return mix("ForumCallbackHandler", LangChainHandler, base)(recorder)


def install(recorder: Recorder | None = None) -> None:
    """Give the handler to everything that runs from now on."""
    register = import_module("langchain_core.tracers.context").register_configure_hook
    handler = make_handler(recorder)
    register(ContextVar("forum_langchain", default=handler), inheritable=True)


def _name_of(serialized: Any, more: dict[str, Any]) -> str:
    named = serialized or {}
    return str(more.get("name") or named.get("name") or (named.get("id") or ["runnable"])[-1])
