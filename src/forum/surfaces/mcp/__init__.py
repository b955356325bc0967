"""Forum as a server of the Model Context Protocol: runs, gates and proofs for agents and editors.

Every tool is declared once, as a `Tool`: its scopes, its forms and its hints.  The same server is
spoken to over pipes (`stdio`) and over HTTP (`web`); who asks is told by a `Caller`, so that this
room knows neither keys nor doors.  What a run has said is handed on as data, and said to be that.
"""
