"""The Summarizer shortens a result that does not fit into the prompt of its reader.

Its prompt holds what the reader has to do, and the result or a part of it. The reply is plain text,
and stands in the reader's prompt in place of the result.
"""

from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import prompt_parts

SYSTEM = """\
You shorten a text for a colleague who cannot read all of it.
- Keep everything that the colleague's purpose needs: facts, numbers, names, conditions, \
decisions, errors and open questions, in the words of the text.
- Leave out repetition, introductions and what has nothing to do with the purpose. Say at the end \
in one line what was left out.
- Add nothing. Write in the language of the text."""


def build_prompt(purpose: str, text: Quotation, max_words: int) -> Prompt:
    """Return a prompt that asks for a summary of at most this many words."""
    sections = [
        prompt_parts.section(
            "The purpose of the reader", prompt_parts.quote_text("purpose", purpose)
        ),
        prompt_parts.section("The text to shorten", [text]),
    ]
    task = f"## Your task\nShorten the text to at most {max_words} words. Reply with the text only."
    return prompt_parts.compose_prompt(SYSTEM, sections, task)
