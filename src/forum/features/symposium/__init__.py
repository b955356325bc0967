"""The open protocol `symposium` 1.0.0: its schemas, its invariants, and sessions that follow it.

* `schemas`, `decoders`, `canonical_json`: the objects of the protocol, and how they are read
* `protocol`: the course of a session; with `panel_selection`, `budget`, `termination` and
  `failure_codes`
* `prompts`, `replies`: what agents are shown, and how their replies are parsed and routed
* `artifact`, `metrics`: the output of a session for other programs
* `artifact_rules`, `schedule`, `violations`: the rules that an artifact must satisfy
* `simulator`, `replay`: sessions repeated from a script or a record
"""

from forum.feature import Feature

FEATURE = Feature(
    "symposium",
    kinds="symposium.kinds:SYMPOSIUM_KINDS",
    protocol="symposium.panel_protocol:PROTOCOL",
    panel_view="symposium.panel_view:VIEW",
    panel_outcome="symposium.panel_outcome:read_outcome",
    panel_lines="symposium.panel_lines:LINES",
    words="symposium.words:WORDS",
    tools="symposium.mcp:TOOLS",
    session_files="symposium.session_folders:FILES",
    subcommands=(
        ("deliberate", "symposium.cli:export"),
        ("deliberate", "symposium.cli:validate"),
        ("deliberate", "symposium.cli:replay"),
        ("deliberate", "symposium.cli:execution_replay"),
        ("deliberate", "symposium.cli:metrics"),
    ),
)
