"""A scripted chat model for LangChain: asks for the stock once, then answers."""

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

USAGE = {"input_tokens": 40, "output_tokens": 7, "total_tokens": 47}


class ScriptedModel(BaseChatModel):
    model: str = "scripted-1"

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if any(message.type == "tool" for message in messages):
            message = AIMessage("There are 12 bolts.", usage_metadata=USAGE)
        else:
            call = {"name": "stock", "args": {"item": "bolts"}, "id": "call-1"}
            message = AIMessage("", tool_calls=[call], usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])


model = ScriptedModel()
