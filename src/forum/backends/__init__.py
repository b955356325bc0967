"""Where a deployment keeps its memory: a ledger file on a laptop, Postgres on servers.

Adapters for the ports of `forum.ledger`.  `sqlite` and `postgres` do not know each other; an
installation without Postgres never loads its driver, so each is imported by its own name.
"""

__all__: list[str] = []
