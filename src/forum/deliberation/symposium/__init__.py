"""The open protocol `symposium` 1.0.0: its forms, its laws, and sessions that follow it.

* `forms`, `reading`, `ijson`: what others write, and how it is read
* `protocol`: the course of a session; with `selecting`, `routing`, `metering`, `ending`, `failing`
* `prompting`, `replies`: what agents are told, and what they say
* `artifact`, `metrics`: what a session leaves to other programs
* `laws`, `order`, `faults`: what an artifact has to keep to
* `rehearsal`, `replaying`: sessions held again, from a script or a record
"""

__all__: list[str] = []
