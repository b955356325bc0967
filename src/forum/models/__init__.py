"""Agents and models behind the engine's `Model` port, one module for each kind.

An adapter turns a prompt into one call of one provider, command or script, and its reply into
an outcome with tokens, cost and latency; what to do with that outcome is not its business.
The room may import `forum.engine`, `forum.work` and what lies beneath them, and its modules do
not know each other.  Only `forum.app` may import it, and it names the one module that it needs.
"""

__all__: list[str] = []
