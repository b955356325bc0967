"""Decode recorded bodies into messages and tool calls.

Programs record what they send and receive in the formats of providers and frameworks.  This package
is the one decoder of them, for every surface: `decode_body` for one body, `decode_exchange` for a
request and its reply, `decode_request` for one that begins as an earlier one does.  It never
raises: bytes that it cannot decode become a raw text with the reason.  `read_exchanges` reads the
steps of a run as messages, each message once.  Import its modules; the package itself exports
nothing.
"""
