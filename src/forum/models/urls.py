"""Parts of a model's URL.  A URL that cannot be parsed has only empty parts."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def server_of(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = _split(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def address_of(url: str) -> str:
    """Return scheme, host and port of a URL, without a user and a password."""
    parts = _split(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def host_of(url: str) -> str:
    """Return the host name of a URL."""
    return _split(url).hostname or ""


def path_of(url: str) -> str:
    """Return the path of a URL."""
    return _split(url).path


def is_loopback(url: str) -> bool:
    """Return whether a URL refers to this machine."""
    host = host_of(url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
