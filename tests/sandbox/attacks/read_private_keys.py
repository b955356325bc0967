"""Read private keys of other programs."""

from _tools import read_any

read_any(["service/identity", "service/server.pem"], "PRIVATE KEY")
