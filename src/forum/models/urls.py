"""Where a model is, as far as an address tells.  One that cannot be read leads nowhere."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def server_of(url: str) -> str:
    """Return the part of an address that names the server."""
    parts = _split(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def host_of(url: str) -> str:
    """Return the name of the machine."""
    return _split(url).hostname or ""


def path_of(url: str) -> str:
    """Return what follows the server."""
    return _split(url).path


def is_loopback(url: str) -> bool:
    """Tell whether an address is on this machine."""
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
