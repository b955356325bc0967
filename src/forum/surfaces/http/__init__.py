"""Forum over HTTP: an API for platforms, OpenAI's for chat clients, the log itself for auditors.

Every operation is declared once, as an `Endpoint`: its scope, its forms and its problems.  The
routes, the OpenAPI document and the matrix of who may do what are made from these declarations.
Nothing is kept in this process that another one needs: any number of them serve one ledger.
"""
