"""Sections of the project file that only the server reads, and checks of the URLs in them."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from forum.config import PROJECT_FILE
from forum.errors import BadSettings

_Section = TypeVar("_Section", bound=msgspec.Struct)


def read_section(name: str, table: Mapping[str, Any], form: type[_Section]) -> _Section:
    """Decode a section.  Raises `BadSettings` with the place and the reason of an error."""
    try:
        return msgspec.convert(table, form)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        place = where.strip("`").removeprefix("$.")
        raise bad_section(name, f"{place}: {what}" if place else what) from None


def bad_section(name: str, why: str) -> BadSettings:
    """Return the error for an invalid section."""
    return BadSettings(PROJECT_FILE, f"[{name}] {why}")


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
