"""Check the URLs in sections of the project file."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_confidential_url(url: str) -> bool:
    """Return whether a URL is protected against eavesdropping and spoofing: TLS or loopback."""
    try:
        parts = urlsplit(url)
        in_range = parts.port is None or parts.port > 0
    except ValueError:
        return False
    named = bool(parts.hostname) and "@" not in parts.netloc
    guarded = parts.scheme == "https" or (parts.scheme == "http" and is_loopback_url(url))
    plain = url.isascii() and url.isprintable() and " " not in url
    return in_range and named and guarded and plain


def is_loopback_url(url: str) -> bool:
    """Return whether a URL refers to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
