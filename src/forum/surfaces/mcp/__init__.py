"""Forum as an MCP server: runs, gates and proofs for agents and editors.

Every tool is declared once, as a `ToolDeclaration`: its scopes, its schemas and its hints.  The
same server runs over pipes (`stdio`) and over HTTP (`http_transport`).  A `McpCaller` represents
the client, so that this package depends neither on API keys nor on the HTTP surface.  Text from
runs is passed on as data, and is marked as such.
"""
