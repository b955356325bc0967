"""Opinions of judges: the reason first, then the evidence, the verdict, and what is missing.

A model that has to write its reason before the verdict judges by the reason; the other way round it
defends the verdict. Replies of earlier releases, with `passed` and `reason` only, are still read.
"""

from typing import Any

import msgspec

from forum.runs import reply_schemas
from forum.runs.roles.prompt_parts import MAX_TEXT_CHARS

MAX_MISSING = 5
_MAX_EVIDENCE_CHARS, _MAX_MISSING_CHARS = 500, 300


class Opinion(msgspec.Struct, frozen=True):
    """The reply of a Validator."""

    passed: bool
    reason: str = ""
    evidence: str = ""
    """The part of the result that shows the reason, quoted."""
    missing: tuple[str, ...] = ()
    """What the result lacks."""

    @property
    def feedback(self) -> str:
        """What the author of a rejected result is told."""
        parts = [self.reason]
        if self.evidence:
            parts.append(f"Evidence in the result: {self.evidence}")
        parts += [f"Missing: {part}" for part in self.missing]
        return "\n".join(part for part in parts if part)


def opinion_members(room: int) -> dict[str, Any]:
    """Return the schema members of an opinion that has at most `room` characters."""
    return {
        "reason": reply_schemas.text_schema(min(MAX_TEXT_CHARS, max(120, room // 3))),
        "evidence": reply_schemas.text_schema(min(_MAX_EVIDENCE_CHARS, max(80, room // 6))),
        "passed": {"type": "boolean"},
        "missing": reply_schemas.array_schema(
            reply_schemas.text_schema(min(200, max(60, room // 16))), MAX_MISSING
        ),
    }


def build_schema(room: int) -> bytes:
    """Return the schema of an opinion."""
    return reply_schemas.build_schema(opinion_members(room))


class OpinionReply(msgspec.Struct, frozen=True):
    """An opinion as models write it: with null, or one text in place of a list."""

    passed: bool
    reason: str | None = ""
    evidence: str | None = ""
    missing: tuple[str, ...] | str | None = ()

    def normalize(self) -> Opinion:
        """Return the opinion; its texts go into other prompts and are truncated."""
        missing = (self.missing,) if isinstance(self.missing, str) else self.missing or ()
        return Opinion(
            self.passed,
            (self.reason or "")[:MAX_TEXT_CHARS],
            (self.evidence or "")[:_MAX_EVIDENCE_CHARS],
            tuple(part[:_MAX_MISSING_CHARS] for part in missing[:MAX_MISSING] if part),
        )


def parse_opinion(reply: bytes) -> Opinion:
    """Return an opinion. Raises `ValueError`."""
    return reply_schemas.parse_structured(reply, _decoder).normalize()


_decoder = msgspec.json.Decoder(OpinionReply)
