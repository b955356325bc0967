"""A scripted model for CrewAI: asks for the stock once, then answers."""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from crewai import BaseLLM


class ScriptedModel(BaseLLM):
    def call(self, messages, tools=None, callbacks=None, available_functions=None, **kwargs):
        if any("12" in str(message.get("content")) for message in messages):
            return "Thought: I now know the answer\nFinal Answer: There are 12 bolts."
        return 'Thought: look\nAction: stock\nAction Input: {"item": "bolts"}'

    def supports_function_calling(self):
        return False


model = ScriptedModel(model="scripted-1")
