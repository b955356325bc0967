"""Forum over HTTP: a REST API for platforms, OpenAI's API for chat clients, the log for auditors.

Every operation is declared once, as an `Endpoint`: its scopes, its schemas and its problems.
Routes, the OpenAPI document and the access matrix are generated from these declarations.  A process
keeps no state that another one needs, so any number of processes can serve one ledger.
"""
