"""Signing keys and verifier keys of notes (C2SP signed-note).

This is the only module that uses a cryptographic library.  It generates no secrets: the seed of a
key comes from the caller.
"""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from forum.errors import Malformed, SignatureRejected
from forum.tlog.canonical_encoding import check_text, format_base64, parse_base64

# The supported signature types, by the byte that signed-note assigns to each.
# 0x06, cosignatures with ML-DSA-44, is not supported yet.
ED25519 = 0x01
ED25519_COSIGNATURE = 0x04

KEY_SIZE = 32

# The field prime and the curve constant d of Ed25519 (RFC 8032 section 5.1).
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


@dataclass(frozen=True)
class VerifierKey:
    """A public key with the name and the signature type that it is trusted for."""

    name: str
    algorithm: int
    public: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name)
        _check_algorithm(self.algorithm)
        _check_point(self.public)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a vkey: name, key id and key, separated by plus signs.  Raises `Malformed`."""
        try:
            # Split twice only: the key is base64, which may contain a plus.
            name, _, encoded = text.split("+", 2)
        except ValueError as error:
            raise Malformed("verifier key", "not of the form name+id+key") from error
        material = parse_base64(encoded, "verifier key")
        key = cls(name, material[0] if material else 0, material[1:])
        if str(key) != text:
            raise Malformed("verifier key", f"the id of this key is {key.key_id.hex()}")
        return key

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{format_base64(self._material)}"

    @property
    def key_id(self) -> bytes:
        """Four bytes by which a key is found.  They can be forged: trust only `verify`."""
        return sha256(self.name.encode() + b"\n" + self._material).digest()[:4]

    @property
    def _material(self) -> bytes:
        return bytes([self.algorithm]) + self.public

    def verify(self, message: bytes, signature: bytes) -> None:
        """Verify a signature by this key.  Raises `SignatureRejected`."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature as error:
            raise SignatureRejected(self.name, "the signature does not hold") from error


@dataclass(frozen=True)
class SigningKey:
    """A private key.  Its seed is excluded from the repr."""

    seed: bytes = field(repr=False)
    name: str
    algorithm: int = ED25519

    def __post_init__(self) -> None:
        if len(self.seed) != KEY_SIZE:
            raise Malformed("seed", f"{len(self.seed)} bytes, not {KEY_SIZE}")
        check_key_name(self.name)
        _check_algorithm(self.algorithm)

    def verifier(self) -> VerifierKey:
        """Return the public key."""
        return self._verifier

    @cached_property
    def _verifier(self) -> VerifierKey:
        # Kept: deriving and checking it takes half a millisecond, and a server asks for the name
        # of its log with every request.
        public = Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()
        return VerifierKey(self.name, self.algorithm, public)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of raw bytes; `sign_note` and `cosign` define the messages."""
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)


def check_key_name(name: str) -> None:
    """Raise `Malformed` for a name that a signature line or a vkey cannot hold."""
    if not name:
        raise Malformed("key name", "empty")
    if "+" in name or any(character.isspace() for character in name):
        raise Malformed("key name", f"{name!r} holds a space or a plus")
    check_text(name, "key name")


def _check_algorithm(algorithm: int) -> None:
    if algorithm not in (ED25519, ED25519_COSIGNATURE):
        raise Malformed("key", f"signature type {algorithm:#04x} is not supported")


def _check_point(public: bytes) -> None:
    """Raise `Malformed` for bytes that are not a curve point, or a point of small order.

    Under a key of small order one signature can be valid for many messages, so the owner of such a
    key could repudiate or replace a signed message.
    """
    if len(public) != KEY_SIZE:
        raise Malformed("public key", f"{len(public)} bytes, not {KEY_SIZE}")
    # The 32 bytes encode y and the sign of x.  A point has order 1 or 2 if y = 1 or -1, order 4 if
    # y = 0, and order 8 if its double has y = 0, that is, if d y^4 + 2 y^2 = 1.
    y = int.from_bytes(public, "little") & ~(1 << 255)
    square = y * y % P
    if y * (square - 1) * (D * square * square + 2 * square - 1) % P == 0:
        raise Malformed("public key", "a point of small order")
    # On the curve x^2 = (y^2 - 1) / (d y^2 + 1).  The quotient is a square exactly if the product
    # of the two terms is one, which Euler's criterion decides.
    if y >= P or pow((square - 1) * (D * square + 1), (P - 1) // 2, P) != 1:
        raise Malformed("public key", "not a point of the curve")
