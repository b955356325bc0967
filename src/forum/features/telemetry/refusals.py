"""The error by which a request of OTLP/HTTP is refused as a whole."""

from forum.errors import Invalid


class RefusedExport(Invalid):
    """A request of an exporter cannot be accepted; nothing of it was recorded."""

    status: int
    why: str

    text = "{why}"
