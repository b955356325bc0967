"""Adapters for the ports of `forum.ledger`: stores, queues, files and sockets.

`sqlite` and `postgres` are independent of each other, and each is imported by its own module name:
an installation without Postgres never loads the driver of Postgres.
"""

__all__: list[str] = []
