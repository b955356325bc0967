"""What drives a run: each step is recorded before the next one begins.

The engine reaches the world through ports that it declares itself (model, runner, clock,
store), so that it can be driven in a test without any of them.  The room may import
`forum.deliberation`, `forum.work`, `forum.ledger` and what lies beneath them, but never
`forum.verify`: the judged is not the judge.  The adapters (`forum.models`, `forum.backends`,
`forum.witness`), `forum.app` and the surfaces may import it.
"""

__all__: list[str] = []
