"""Agents of pydantic-ai, with both APIs of OpenAI."""

from pydantic_ai import Agent

for model in ("openai-chat:gpt-4o-mini", "openai-responses:gpt-4o-mini"):
    Agent(model).run_sync("Name a river.")
