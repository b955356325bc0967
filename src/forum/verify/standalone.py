"""Verify an evidence bundle of Forum with Python alone: one file, standard library only.

    python3 verify.py BUNDLE --policy POLICY [--key VKEY ...] [--seen CHECKPOINT ...] [--json]

A bundle is one run of a transparency log: its entries, a proof for each, the log's signed
checkpoint with the cosignatures of witnesses, and the disclosed bodies.  The answer is never yes
or no, but three words, each of which holds, fails, or was not checked:

    intact       what is there is what was recorded
    complete     nothing of the run is missing
    independent  somebody other than the writer has seen it

Whom to trust comes from you: the log's key (--key, or a `log` line of the policy) and the
witnesses (--policy, a C2SP tlog-policy file).  Get them from the people who run the log.  What
the bundle encloses is not believed, this very file included: a forger would enclose his own.
--seen names a checkpoint that you, or somebody you trust, saw before.

Exit status: 0 all three hold, 3 something does not, 2 wrong usage.

Read it from top to bottom: each part uses only what stands above it.  The formats are described
in docs/spec/entry.md and docs/spec/bundle.md of Forum's source.  Needs Python 3.9 or newer.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
import zlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Tuple


class Rejected(Exception):
    """Something is not in the only form that it can have, or a proof or signature fails."""


# ------------------------------------------------------------------------- small encodings


def read_base64(text: str) -> bytes:
    """Read standard base64 in its canonical form only."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Rejected("not base64") from None
    if base64.b64encode(raw).decode() != text:
        raise Rejected("not canonical base64")
    return raw


def read_hash(text: str) -> bytes:
    """Read a SHA-256 hash as notes and proofs hold it."""
    raw = read_base64(text)
    if len(raw) != 32:
        raise Rejected(f"a hash of {len(raw)} bytes, not 32")
    return raw


def read_decimal(text: str) -> int:
    """Read a number below 2^63 without sign and leading zeros."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,18}", text) or int(text) >= 2**63:
        raise Rejected(f"{text[:20]!r} is not a decimal number below 2^63")
    return int(text)


def read_utf8(data: bytes) -> str:
    """Read text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected("not UTF-8") from None


def refuse_float(text: str) -> NoReturn:
    """Refuse what JSON has besides integers: 1.5, 1e3, NaN, Infinity."""
    raise Rejected(f"{text[:20]} is not an integer")


def write_json(value: object) -> str:
    """Write JSON in the only form that entries and manifests have: no white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_json(data: bytes) -> Any:  # noqa: ANN401  any JSON value
    """Read JSON whose bytes are the only form of what they say."""
    text = read_utf8(data)
    try:
        value = json.loads(text, parse_float=refuse_float, parse_constant=refuse_float)
        canonical = write_json(value) == text
    except (ValueError, RecursionError):
        raise Rejected("not JSON") from None
    if not canonical:
        raise Rejected("its bytes are not the only form of what they say")
    return value


# ----------------------------------------------------- Ed25519 (RFC 8032 section 5.1, strict)

P = 2**255 - 19
"""The field of the curve."""
L = 2**252 + 27742317777372353535851937790883648493
"""The order of the base point."""
D = -121665 * pow(121666, -1, P) % P

Point = Tuple[int, int, int, int]
"""X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z."""

IDENTITY: Point = (0, 1, 1, 0)


def point_add(p: Point, q: Point) -> Point:
    """Add two points, which may be the same (RFC 8032 section 5.1.4)."""
    a = (p[1] - p[0]) * (q[1] - q[0])
    b = (p[1] + p[0]) * (q[1] + q[0])
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2]
    e, f, g, h = (b - a) % P, (d - c) % P, (d + c) % P, (b + a) % P
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_encode(p: Point) -> bytes:
    """Write a point as 32 bytes: y, and the lowest bit of x on top."""
    inverse = pow(p[2], -1, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def point_decode(data: bytes) -> Point:
    """Read a point in its only form; RFC 8032 section 5.1.3."""
    number = int.from_bytes(data, "little")
    y, sign = number & (2**255 - 1), number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        raise Rejected("not a point of the curve")
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE = point_decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def check_public_key(public: bytes) -> None:
    """Refuse a key that is no point, or a point of small order: it signs anything."""
    if len(public) != 32:
        raise Rejected(f"a public key of {len(public)} bytes, not 32")
    eightfold = point_decode(public)
    for _ in range(3):
        eightfold = point_add(eightfold, eightfold)
    if point_encode(eightfold) == point_encode(IDENTITY):
        raise Rejected("a public key of small order")


def signature_holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether R = sB - hA, without a cofactor and with s in its only form."""
    if len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % L
    x, y, z, t = point_decode(public)
    minus_a = (P - x, y, z, P - t)
    # Both products at once, bit by bit from the top.
    choices = (IDENTITY, BASE, minus_a, point_add(BASE, minus_a))
    total = IDENTITY
    for bit in range(252, -1, -1):
        total = point_add(total, total)
        choice = (s >> bit & 1) | (h >> bit & 1) << 1
        if choice:
            total = point_add(total, choices[choice])
    return s < L and point_encode(total) == r


# -------------------------------------------------- the Merkle tree (RFC 6962 and RFC 9162)

EMPTY_ROOT = hashlib.sha256(b"").digest()


def hash_leaf(data: bytes) -> bytes:
    """Hash an entry: its leaf hash, which is its id too."""
    return hashlib.sha256(b"\x00" + data).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Hash two neighbours into the node above them."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def inclusion_holds(
    proof: Tuple[bytes, ...], leaf: bytes, index: int, size: int, root: bytes
) -> bool:
    """Tell whether a leaf is at an index of a tree (RFC 9162 section 2.1.3.2)."""
    if index >= size:
        return False
    fn, sn, node = index, size - 1, leaf
    for sibling in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            node = hash_node(sibling, node)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            node = hash_node(node, sibling)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and node == root


def consistency_holds(
    proof: Tuple[bytes, ...], old_size: int, old_root: bytes, new_size: int, new_root: bytes
) -> bool:
    """Tell whether a tree only grew from the old one to the new (RFC 9162 section 2.1.4.2)."""
    if old_size == 0 or old_size >= new_size:
        # Every tree begins with the empty one; a tree of the same size must be the same.
        same = old_size == new_size and old_root == new_root
        return not proof and (same or (old_size == 0 and old_root == EMPTY_ROOT))
    path = list(proof)
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    if not path:
        return False
    fn, sn = old_size - 1, new_size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = path[0]
    for node in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            old, new = hash_node(node, old), hash_node(node, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = hash_node(new, node)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and (old, new) == (old_root, new_root)


# ------------------------------------------------- keys and signed notes (C2SP signed-note)

LOG_KEY, WITNESS_KEY = 0x01, 0x04
"""Ed25519 over the text of a note, and over a timed cosignature of it."""


class Key(NamedTuple):
    """A public key with the name and the kind of signature that it is trusted for."""

    name: str
    algorithm: int
    public: bytes

    @property
    def id(self) -> bytes:
        """Four bytes to find a key by; they can be forged."""
        material = bytes([self.algorithm]) + self.public
        return hashlib.sha256(self.name.encode() + b"\n" + material).digest()[:4]


def check_line(text: str) -> None:
    """Refuse text that a line of a note cannot hold."""
    if re.search("[\x00-\x1f\ud800-\udfff]", text):
        raise Rejected("a control character or a lone surrogate")


def check_name(name: str) -> None:
    """Refuse a name that no key can have."""
    check_line(name)
    if not name or "+" in name or any(character.isspace() for character in name):
        raise Rejected(f"{name!r} is not the name of a key")


def read_key(text: str) -> Key:
    """Read a vkey: name+id+key."""
    parts = text.split("+", 2)
    if len(parts) != 3:
        raise Rejected(f"{text!r} is not a key of the form name+id+key")
    material = read_base64(parts[2])
    key = Key(parts[0], material[0] if material else 0, material[1:])
    check_name(key.name)
    if key.algorithm not in (LOG_KEY, WITNESS_KEY):
        raise Rejected(f"{key.name}: no key of a kind that is known here")
    check_public_key(key.public)
    if key.id.hex() != parts[1]:
        raise Rejected(f"{key.name}: the id of this key is {key.id.hex()}")
    return key


class Signature(NamedTuple):
    """One signature line: who is said to have signed, and the signature."""

    name: str
    id: bytes
    blob: bytes

    def names(self, key: Key) -> bool:
        """Tell whether it says that it is by a key: not whether it is."""
        return (self.name, self.id) == (key.name, key.id)


class Note(NamedTuple):
    """Text, and signatures below it."""

    text: str
    signatures: List[Signature]


def read_signature(line: str) -> Signature:
    """Read one signature line: dash, name, base64 of key id and signature."""
    found = re.fullmatch("\u2014 ([^ ]*) ([^ ]*)", line)
    if not found:
        raise Rejected("a signature line that is none")
    raw = read_base64(found[2])
    check_name(found[1])
    if len(raw) < 5:
        raise Rejected("a signature line without a signature")
    return Signature(found[1], raw[:4], raw[4:])


def read_note(data: bytes) -> Note:
    """Read a note.  Its signatures are not verified."""
    if len(data) > 1 << 20:
        raise Rejected("a note of more than 1 MiB")
    text, blank, below = read_utf8(data).rpartition("\n\n")
    lines = below.split("\n")
    if not blank or lines.pop() or not 1 <= len(lines) <= 64:
        raise Rejected("no note with 1 to 64 signatures below an empty line")
    check_line(text.replace("\n", ""))
    return Note(text + "\n", [read_signature(line) for line in lines])


# --------------------------------- checkpoints (C2SP tlog-checkpoint and tlog-cosignature)


class Checkpoint(NamedTuple):
    """What a log commits to."""

    origin: str
    size: int
    root: bytes


class Cosignature(NamedTuple):
    """A witness, and when it cosigned by its own clock, in seconds since 1970."""

    key: Key
    time: int


def read_checkpoint(text: str) -> Checkpoint:
    """Read the text of a note: origin, size and root, without extension lines."""
    lines = text.split("\n")
    if len(lines) != 4 or not lines[0]:
        raise Rejected("a checkpoint is three lines")
    checkpoint = Checkpoint(lines[0], read_decimal(lines[1]), read_hash(lines[2]))
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise Rejected("the empty tree has another root")
    return checkpoint


def open_checkpoint(data: bytes, keys: List[Key]) -> Checkpoint:
    """Read a checkpoint that its own log has signed with a key which the reader trusts."""
    note = read_note(data)
    signers = []
    for signature in note.signatures:
        for key in keys:
            if key.algorithm == LOG_KEY and signature.names(key):
                # One by a trusted key that does not hold spoils the note: it was altered.
                if not signature_holds(key.public, note.text.encode(), signature.blob):
                    raise Rejected(f"{key.name}: the signature does not hold")
                signers.append(key.name)
    checkpoint = read_checkpoint(note.text)
    if checkpoint.origin not in signers:
        raise Rejected("not signed by a key of its log that the reader trusts")
    return checkpoint


def read_cosignatures(data: bytes, witnesses: List[Key]) -> List[Cosignature]:
    """Return the cosignatures by known witnesses; one that does not hold is refused."""
    note = read_note(data)
    return [
        check_cosignature(note.text, signature.blob, key)
        for signature in note.signatures
        for key in witnesses
        if signature.names(key)
    ]


def check_cosignature(text: str, blob: bytes, key: Key) -> Cosignature:
    """Accept one cosignature: eight bytes of time, and a signature over both."""
    time = int.from_bytes(blob[:8], "big")
    message = f"cosignature/v1\ntime {time}\n{text}".encode()
    if len(blob) != 72 or time >= 2**63 or not signature_holds(key.public, message, blob[8:]):
        raise Rejected(f"{key.name}: the cosignature does not hold")
    return Cosignature(key, time)


# ------------------------------------------------------ whom to believe (C2SP tlog-policy)


class Policy:
    """The logs and witnesses that the reader trusts, and how many of these must have seen."""

    def __init__(self, data: bytes) -> None:
        self.logs: List[Key] = []
        self.witnesses: Dict[str, Key] = {}
        self.groups: List[Tuple[str, int, List[str]]] = []
        self.quorum: List[str] = []
        self._taken = {"none"}
        self._members: List[str] = []
        if re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", data) or not data.endswith(b"\n"):
            raise Rejected("a control character, or no newline at the end")
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            words = [word for word in line.replace("\t", " ").split(" ") if word]
            if words and not words[0].startswith("#"):
                self._read(words)
        if len(self.quorum) != 1:
            raise Rejected(f"{len(self.quorum)} quorum lines, not one")
        self._check_distinct(log.public for log in self.logs)
        self._check_distinct(key.public for key in self.witnesses.values())
        self._check_distinct(self._members)

    def _read(self, words: List[str]) -> None:
        first, count = words[0], len(words)
        if first == "log" and count in (2, 3):
            self.logs.append(self._key(words[1], LOG_KEY))
        elif first == "witness" and count in (3, 4):
            key = self._key(words[2], WITNESS_KEY)
            self.witnesses[self._name(words[1])] = key
        elif first == "group" and count > 3:
            self._read_group(words[1], words[2], words[3:])
        elif first == "quorum" and count == 2 and words[1] in self._taken:
            self.quorum.append(words[1])
        else:
            raise Rejected(f"no such line, or not defined above: {' '.join(words)!r}")

    def _read_group(self, name: str, threshold: str, members: List[str]) -> None:
        number = {"any": 1, "all": len(members)}.get(threshold)
        number = read_decimal(threshold) if number is None else number
        if not 1 <= number <= len(members) or not self._taken.issuperset(members):
            raise Rejected(f"group {name}: a member or a threshold that there is not")
        if "none" in members:
            raise Rejected(f"group {name}: none is no witness")
        self.groups.append((self._name(name), number, members))
        self._members += members

    def _name(self, name: str) -> str:
        if name in self._taken:
            raise Rejected(f"the name {name!r} twice")
        self._taken.add(name)
        return name

    @staticmethod
    def _key(text: str, algorithm: int) -> Key:
        key = read_key(text)
        if key.algorithm != algorithm:
            raise Rejected(f"{key.name} is a key of the other kind")
        return key

    @staticmethod
    def _check_distinct(values: Any) -> None:  # noqa: ANN401  of names or of keys
        # One key under two names, or one member of two groups, would count twice.
        listed = list(values)
        if len(set(listed)) != len(listed):
            raise Rejected("the same key or group member twice")

    def satisfied_by(self, seen: List[Cosignature]) -> bool:
        """Tell whether these cosignatures make the quorum; without any, nobody has seen."""
        keys = [cosignature.key for cosignature in seen]
        names = {"none", *(name for name, key in self.witnesses.items() if key in keys)}
        for name, threshold, members in self.groups:
            if sum(member in names for member in members) >= threshold:
                names.add(name)
        return bool(seen) and self.quorum[0] in names


# -------------------------------------------------------- entries (docs/spec/entry.md)

MAX_ENTRY, MAX_PARENTS, MAX_NESTING, MAX_COUNT = 4096, 16, 16, 2**53 - 1

TEXT, COUNT = "text", "count"
REASONS = ("request", "retention", "secret", "legal")
OUTCOMES = ("ok", "failed", "denied", "timeout", "cancelled", "indeterminate")

Members = Dict[str, Tuple[Any, Any]]
"""The members of facts in their order, each with its type and its default; None: it must be."""

KINDS: Dict[str, Tuple[Members, Tuple[str, ...]]] = {
    "log.open/1": (
        {
            "program": (TEXT, None),
            "left_origin": (TEXT, ""),
            "left_size": (COUNT, 0),
            "left_root": (TEXT, ""),
        },
        (),
    ),
    "key.add/1": ({"vkey": (TEXT, None)}, ()),
    "log.seal/1": ({"reason": (TEXT, None)}, ()),
    "redact/1": ({"entry": (TEXT, None), "body": (TEXT, None), "reason": (REASONS, None)}, ()),
    "export/1": ({"run": (TEXT, None), "entries": (COUNT, None), "size": (COUNT, None)}, ()),
    "run.open/1": ({"after_size": (COUNT, 0), "after_root": (TEXT, "")}, ()),
    "run.close/1": ({"outcome": (OUTCOMES, None), "strands": (COUNT, None)}, ("strands",)),
    "join/1": ({}, ()),
    "note/1": ({}, ("text",)),
}
"""The released kinds: the members of their facts, and the names that their bodies may have."""


class Entry(NamedTuple):
    """One recorded step.  The order of the members is the order of the bytes."""

    v: str
    log: str
    run: str
    strand: str
    n: int
    prev: str
    step: str
    ts: int
    actor: str
    kind: str
    parents: List[str]
    facts: Dict[str, Any]
    bodies: Dict[str, Dict[str, Any]]

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.run}/{self.strand}/{self.n}"


def matches(pattern: str, value: object) -> bool:
    """Tell whether a value is text of some form."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def is_count(value: object) -> bool:
    """Tell whether a value is an integer that every reader of JSON reads exactly."""
    return type(value) is int and 0 <= value <= MAX_COUNT


def is_leaf_hash(value: object) -> bool:
    """Tell whether a value is the id of an entry, or another hash in hexadecimal."""
    return matches(r"[0-9a-f]{64}", value)


def read_entry(data: bytes) -> Entry:
    """Read an entry from the only bytes that it can have."""
    if len(data) > MAX_ENTRY:
        raise Rejected(f"{len(data)} bytes; the most is {MAX_ENTRY}")
    value = read_json(data)
    # In this form only a control character needs an escape other than \" and \\.
    text = read_utf8(data).replace("\\\\", "").replace('\\"', "")
    if "\\" in text or re.search("[\x7f-\x9f]", text):
        raise Rejected("a string holds a control character")
    if type(value) is not dict or tuple(value) != Entry._fields:
        raise Rejected("its members are not those of an entry, in their order")
    entry = Entry(**value)
    check_labels(entry)
    check_links(entry)
    check_commitments(entry)
    check_facts(entry)
    return entry


def check_labels(entry: Entry) -> None:
    """Check format, names and numbers."""
    labels = (entry.log, entry.run, entry.strand, entry.step, entry.actor)
    if entry.v != "forum/entry/1" or not (is_count(entry.n) and is_count(entry.ts)):
        raise Rejected("another format, or a number out of range")
    # Visible ASCII without quote and backslash.
    if not all(matches(r"[!#-\[\]-~]{1,128}", label) for label in labels):
        raise Rejected("a label that is empty, too long or not plain")
    if not matches(r"[a-z][a-z.]*/[1-9][0-9]*", entry.kind):
        raise Rejected("a kind that is none")


def check_links(entry: Entry) -> None:
    """Check the form of what the entry says of those before it."""
    if not (is_leaf_hash(entry.prev) if entry.n else entry.prev == ""):
        raise Rejected("prev is a leaf hash, and empty at n = 0 only")
    parents = entry.parents
    if type(parents) is not list or not all(map(is_leaf_hash, parents)):
        raise Rejected("parents are leaf hashes")
    if len(parents) > MAX_PARENTS or len(set(parents)) != len(parents):
        raise Rejected("too many parents, or one of them twice")


def check_commitments(entry: Entry) -> None:
    """Check the form of what the entry says of its bodies."""
    bodies = entry.bodies
    if type(bodies) is not dict or list(bodies) != sorted(bodies):
        raise Rejected("bodies are not in the order of their names")
    for name, body in bodies.items():
        formed = type(body) is dict and tuple(body) == ("h", "size", "type")
        if not (formed and is_leaf_hash(body["h"]) and is_count(body["size"])):
            raise Rejected(f"body {name!r} is not hash, size and type")
        named = matches(r"[a-z][a-z0-9._-]{0,31}", name)
        if not named or not matches(r"[!#-\[\]-~]{1,64}", body["type"]):
            raise Rejected(f"body {name!r} has a malformed name or type")
    if entry.kind in KINDS and not set(KINDS[entry.kind][1]).issuperset(bodies):
        raise Rejected(f"{entry.kind} has no body {', '.join(bodies)}")


def check_facts(entry: Entry) -> None:
    """Check the facts: by their kind, or by the general rules when the kind is not known."""
    facts = entry.facts
    if type(facts) is not dict or not is_plain(facts, 1):
        raise Rejected("facts are an object of strings, integers, arrays and objects")
    if entry.kind not in KINDS:
        return
    members = KINDS[entry.kind][0]
    if list(facts) != [name for name in members if name in facts]:
        raise Rejected("a fact that its kind does not have, or not in order")
    for name, (form, default) in members.items():
        if name not in facts and default is None:
            raise Rejected(f"the fact {name} is missing")
        if name in facts and (not is_fact(facts[name], form) or facts[name] == default):
            raise Rejected(f"the fact {name} has a wrong value, or its default written out")


def is_fact(value: object, form: Any) -> bool:  # noqa: ANN401  TEXT, COUNT, or a choice of texts
    """Tell whether a fact has its type."""
    if form == COUNT:
        return is_count(value)
    return isinstance(value, str) and (form == TEXT or value in form)


def is_plain(value: object, nesting: int) -> bool:
    """Tell whether facts hold only what every reader of JSON reads alike."""
    if isinstance(value, (list, dict)):
        within = list(value.values()) if isinstance(value, dict) else value
        return nesting <= MAX_NESTING and all(is_plain(item, nesting + 1) for item in within)
    return type(value) is str or (type(value) is int and abs(value) <= MAX_COUNT)


def body_holds(commitment: Dict[str, Any], salt: bytes, content: bytes) -> bool:
    """Tell whether this is the very body that an entry committed to."""
    if len(salt) != 32 or len(content) != commitment["size"]:
        return False
    head = b"forum/body/1\0" + salt + len(content).to_bytes(8, "big")
    digest: str = hashlib.sha256(head + content).hexdigest()
    return digest == commitment["h"]


# -------------------------------------------------------- the bundle (docs/spec/bundle.md)


class Proof(NamedTuple):
    """A C2SP tlog-proof file: an index, an inclusion proof, and the checkpoint it leads to."""

    index: int
    hashes: Tuple[bytes, ...]
    note: bytes


class Past(NamedTuple):
    """An earlier checkpoint, and the proof that the bundle's own continues it."""

    note: bytes
    proof: Tuple[bytes, ...]


class Bundle(NamedTuple):
    """The contents of a bundle, in their form, not yet verified."""

    origin: str
    run: str
    checkpoint: bytes
    entries: Dict[int, bytes]
    proofs: Dict[int, Proof]
    bodies: Dict[Tuple[int, str], Tuple[bytes, bytes]]
    past: List[Past]


def pack(files: Dict[str, bytes]) -> bytes:
    """Return the only zip archive that these files can be: stored, sorted, undated."""
    body, directory = b"", b""
    for name in sorted(files):
        data, encoded = files[name], name.encode()
        fields = (20, 1 << 11, 0, 0, 33, zlib.crc32(data), len(data), len(data), len(encoded), 0)
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, *fields, 0, 0, 0, 0, len(body))
        directory += encoded
        body += struct.pack("<4s5H3I2H", b"PK\3\4", *fields) + encoded + data
    end = (0, 0, len(files), len(files), len(directory), len(body), 0)
    return body + directory + struct.pack("<4s4H2IH", b"PK\5\6", *end)


def unpack(data: bytes) -> Dict[str, bytes]:
    """Return the files of an archive: read each header, then compare with the only form."""
    files: Dict[str, bytes] = {}
    at = 0
    while data[at : at + 4] == b"PK\3\4" and at + 30 <= len(data):
        size, _, length = struct.unpack_from("<IIH", data, at + 18)
        name = read_utf8(data[at + 30 : at + 30 + length])
        files[name] = data[at + 30 + length : at + 30 + length + size]
        at += 30 + length + size
    if len(files) > 0xFFFF or len(data) > 0xFFFFFFFF or pack(files) != data:
        raise Rejected("not the only form of an archive of its files")
    return files


def read_proof(data: bytes) -> Proof:
    """Read a proof file.  The extra line that the format allows is covered by nothing."""
    head, _, note = data.partition(b"\n\n")
    lines = read_utf8(head).split("\n")
    if lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise Rejected("not a proof file")
    if lines and lines[0].startswith("extra "):
        read_base64(lines.pop(0)[6:])
    if not lines or not lines[0].startswith("index ") or len(lines) > 64:
        raise Rejected("a proof file without an index, or with too many hashes")
    index = read_decimal(lines.pop(0)[6:])
    read_note(note)
    return Proof(index, tuple(map(read_hash, lines)), note)


def read_past(size: int, note: bytes, proof: bytes) -> Past:
    """Read an earlier checkpoint, which stands under its size, and its consistency proof."""
    *lines, rest = read_utf8(proof).split("\n")
    if rest or read_checkpoint(read_note(note).text).size != size:
        raise Rejected("an earlier checkpoint under another size, or a proof without an end")
    return Past(note, tuple(map(read_hash, lines)))


def read_manifest(files: Dict[str, bytes]) -> Tuple[str, str]:
    """Return origin and run, if the manifest lists exactly the other files."""
    data = files.pop("manifest.json", b"")
    lines = [
        [name, len(files[name]), hashlib.sha256(files[name]).hexdigest()] for name in sorted(files)
    ]
    value = read_json(data)
    if type(value) is not dict or list(value) != ["v", "origin", "run", "files"]:
        raise Rejected("no manifest")
    if value["v"] != "forum/bundle/1" or value["files"] != lines:
        raise Rejected("its files are not those that its manifest lists")
    origin, run = value["origin"], value["run"]
    if not (isinstance(origin, str) and isinstance(run, str)):
        raise Rejected("a manifest without origin or run")
    return origin, run


def read_bundle(data: bytes) -> Bundle:
    """Read a bundle; every file must be listed, have its digest, and be of a known kind."""
    files = unpack(data)
    bundle = Bundle(*read_manifest(files), files.pop("checkpoint", b""), {}, {}, {}, [])
    names = list(files)
    try:
        for name in names:
            entry = re.fullmatch(r"entries/([0-9]{16})\.json", name)
            body = re.fullmatch(r"bodies/([0-9]{16})/([a-z][a-z0-9._-]{0,31})", name)
            past = re.fullmatch(r"past/([0-9]{16})\.note", name)
            if entry:
                index = int(entry[1])
                bundle.entries[index] = files.pop(name)
                bundle.proofs[index] = read_proof(files.pop(f"proofs/{entry[1]}.tlog-proof"))
            elif body:
                salt = files.pop(f"salts/{body[1]}/{body[2]}")
                bundle.bodies[int(body[1]), body[2]] = (salt, files.pop(name))
            elif past:
                proof = files.pop(f"past/{past[1]}.consistency")
                bundle.past.append(read_past(int(past[1]), files.pop(name), proof))
    except KeyError as error:
        raise Rejected(f"{error.args[0]} is missing") from None
    # What is left is enclosed for convenience, and not believed.
    if not all(matches(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) for name in files):
        raise Rejected("a file of no known kind")
    return bundle


# ------------------------------------------------------------------ what can be found wrong

INTACT, COMPLETE, INDEPENDENT = "intact", "complete", "independent"
HOLDS, FAILS, NOT_CHECKED = "holds", "fails", "not checked"

REFUTED = {
    "bundle-altered": INTACT,
    "entry-malformed": INTACT,
    "foreign-entry": INTACT,
    "proof-rejected": INTACT,
    "signature-rejected": INTACT,
    "link-broken": INTACT,
    "parent-unknown": INTACT,
    "body-mismatch": INTACT,
    "position-missing": COMPLETE,
    "position-doubled": COMPLETE,
    "cause-missing": COMPLETE,
    "run-unopened": COMPLETE,
    "after-close": COMPLETE,
    "strand-unclosed": COMPLETE,
    "body-missing": COMPLETE,
    "history-replaced": INDEPENDENT,
    "not-witnessed": INDEPENDENT,
    "time-impossible": INDEPENDENT,
    "past-unknown": INDEPENDENT,
}
"""Everything that can be found wrong with a bundle, and the claim that it refutes."""


class Findings:
    """Collects what is wrong; beyond a thousand it only counts."""

    def __init__(self) -> None:
        self.listed: List[Dict[str, Any]] = []
        self.count = 0
        self._failed: Dict[str, str] = {}

    def add(self, problem: str, detail: str, index: Optional[int] = None, place: str = "") -> None:
        """Take note of one thing."""
        claim = REFUTED[problem]
        entry = place or None
        self.count += 1
        self._failed.setdefault(claim, describe(problem, detail, index, entry))
        if len(self.listed) < 1000:
            self.listed.append(
                dict(problem=problem, claim=claim, detail=detail, index=index, entry=entry)
            )

    def answer(self, claim: str, reason: str) -> Dict[str, str]:
        """Answer one claim: it holds for this reason unless something was found against it."""
        if claim in self._failed:
            return {"state": FAILS, "reason": self._failed[claim]}
        return {"state": HOLDS, "reason": reason}


def describe(problem: str, detail: str, index: Optional[int], entry: Optional[str]) -> str:
    """Say in one line what is wrong, and where."""
    place = ([] if index is None else [f"entry {index}"]) + ([] if entry is None else [entry])
    return f"{problem}{' at ' if place else ''}{', '.join(place)}: {detail}"


# ------------------------------------------------------------------------- the reader's trust


class Trust(NamedTuple):
    """The reader's own keys, policy and memories; nothing of it comes from a bundle."""

    keys: List[Key]
    policy: Optional[Policy]
    seen: List[bytes]

    @property
    def log_keys(self) -> List[Key]:
        """The keys that may sign checkpoints."""
        return list(dict.fromkeys(self.keys + (self.policy.logs if self.policy else [])))

    def open(self, data: bytes, findings: Findings) -> Optional[Checkpoint]:
        """Return a checkpoint that a trusted key has signed, or take note of why not."""
        try:
            return open_checkpoint(data, self.log_keys)
        except Rejected as error:
            findings.add("signature-rejected", f"checkpoint: {error}")
            return None

    def seen_by(self, data: bytes, findings: Findings) -> List[Cosignature]:
        """Return the cosignatures of the policy's witnesses on a checkpoint."""
        if self.policy is None:
            return []
        try:
            return read_cosignatures(data, list(self.policy.witnesses.values()))
        except Rejected as error:
            findings.add("signature-rejected", f"cosignature: {error}")
            return []

    def satisfied_by(self, seen: List[Cosignature]) -> bool:
        """Tell whether these cosignatures are what the policy asks for."""
        return self.policy is not None and self.policy.satisfied_by(seen)


# ----------------------------------------- strands, causes, bodies and times of the entries

TOLERANCE = 300 * 1_000_000
"""How far, in microseconds, a writer's clock may be off before its times are called impossible."""
FOREVER = 2**62

Ends = Dict[str, Tuple[int, str]]
"""The name of each strand beside the main one, with its last position and entry."""


class Strand:
    """How far a strand has come."""

    def __init__(self) -> None:
        self.n, self.head = 0, ""


class Chronicle:
    """Takes in entries in the order of the log, and follows those of the one run."""

    def __init__(self, bundle: Bundle, findings: Findings) -> None:
        self._bundle, self._findings = bundle, findings
        self._strands: Dict[str, Strand] = {}
        self._listing = False
        self._ids: set[str] = set()
        self._absent: Dict[Tuple[str, str], Tuple[int, str]] = {}
        self._redacted: set[Tuple[str, str]] = set()
        self._floor = 0
        self.times: Dict[Tuple[int, str], int] = {}
        self.ceiling = FOREVER
        self.runs = self.ok = self.mismatch = 0
        self.open = self.closed = self.unlisted = False

    def take(self, index: int, leaf: str, entry: Entry) -> None:
        """Check one entry against all before it."""
        if entry.log != self._bundle.origin:
            self._find("foreign-entry", f"it belongs to {entry.log}", index, entry)
        if entry.run == self._bundle.run:
            self._follow(index, leaf, entry)
            self._check_parents(index, entry)
            for name, commitment in entry.bodies.items():
                self._check_body(index, leaf, entry, name, commitment)
        if entry.kind == "redact/1":
            self._redacted.add((entry.facts["entry"], entry.facts["body"]))
        self._ids.add(leaf)

    def finish(self) -> Dict[str, int]:
        """Settle what only the end can tell: which absent bodies were redacted."""
        missing = 0
        for key, (index, place) in self._absent.items():
            if key not in self._redacted:
                missing += 1
                detail = f"body {key[1]!r} is gone, and no redaction says so"
                self._findings.add("body-missing", detail, index, place)
        redacted = len(self._absent) - missing
        return dict(ok=self.ok, redacted=redacted, missing=missing, mismatch=self.mismatch)

    def _follow(self, index: int, leaf: str, entry: Entry) -> None:
        """Check that the entry is the next of its strand, and within its time."""
        if entry.strand not in self._strands:
            self._begin(index, entry)
        strand = self._strands[entry.strand]
        if entry.n < strand.n:
            detail = f"position {entry.n} was taken by an earlier entry"
            self._find("position-doubled", detail, index, entry)
        elif entry.n > strand.n:
            detail = f"positions {strand.n} to {entry.n - 1} of the strand are missing"
            self._find("position-missing", detail, index, entry)
        elif entry.prev != strand.head:
            self._find("link-broken", "prev is not the entry before it", index, entry)
        strand.n, strand.head = max(strand.n, entry.n + 1), leaf
        self._check_time(index, entry)
        if entry.strand == "main" and entry.kind == "run.close/1":
            self._close(index, entry)

    def _begin(self, index: int, entry: Entry) -> None:
        if self.closed:
            self._find("after-close", "its run was closed before it", index, entry)
        if not self.open:
            self.open = True
            self.runs += 1
            if entry.run != "log":
                self._check_opening(index, entry)
        if entry.strand != "main" and not entry.parents:
            self._find("cause-missing", "a strand begins without a cause", index, entry)
        self._strands[entry.strand] = Strand()

    def _check_opening(self, index: int, entry: Entry) -> None:
        """Check that a run begins by naming a checkpoint that a witness knows."""
        if entry.kind != "run.open/1":
            self._find("run-unopened", "a run does not begin with run.open", index, entry)
            return
        size, root = entry.facts.get("after_size", 0), entry.facts.get("after_root", "")
        if size and self.times:
            past = self.times.get((size, root))
            if past is None:
                detail = f"it names a checkpoint of size {size} that nobody has seen"
                self._find("past-unknown", detail, index, entry)
            else:
                self._floor = past

    def _check_time(self, index: int, entry: Entry) -> None:
        late = entry.ts > self.ceiling + TOLERANCE
        if late or entry.ts < self._floor - TOLERANCE:
            bound, relation = (self.ceiling, "before") if late else (self._floor, "after")
            seconds = abs(entry.ts - bound) // 1_000_000
            detail = (
                f"its time is {seconds} s off: a witness proves that it was written {relation} then"
            )
            self._find("time-impossible", detail, index, entry)

    def _close(self, index: int, entry: Entry) -> None:
        """Compare what a run says of its strands at its end with what was seen of them."""
        seen = {name: (s.n - 1, s.head) for name, s in self._strands.items() if name != "main"}
        listed = self._read_ends(index, entry)
        if listed is None:
            self.unlisted = True
        elif listed != seen:
            wrong = sorted(n for n in {*listed, *seen} if listed.get(n) != seen.get(n))
            detail = f"the close does not fit what is there of {', '.join(wrong)}"
            self._find("strand-unclosed", detail, index, entry)
        self._strands.clear()
        self.open, self.closed = False, True

    def _read_ends(self, index: int, entry: Entry) -> Optional[Ends]:
        """Return the strands that the close lists: [[name, last n, last entry], ...]."""
        commitment, body = entry.bodies.get("strands"), self._bundle.bodies.get((index, "strands"))
        if commitment is None or body is None or not body_holds(commitment, *body):
            return None
        try:
            ends = read_json(body[1])
        except Rejected:
            return None
        if type(ends) is not list or not all(is_end(end) for end in ends):
            return None
        return {name: (n, head) for name, n, head in ends}

    def _check_parents(self, index: int, entry: Entry) -> None:
        for parent in entry.parents:
            if parent not in self._ids:
                detail = f"no entry before it has the id {parent}"
                self._find("parent-unknown", detail, index, entry)

    def _check_body(
        self, index: int, leaf: str, entry: Entry, name: str, commitment: Dict[str, Any]
    ) -> None:
        body = self._bundle.bodies.get((index, name))
        if body is None:
            self._absent[leaf, name] = (index, entry.place)
        elif body_holds(commitment, *body):
            self.ok += 1
        else:
            self.mismatch += 1
            detail = f"body {name!r} is not the one that was recorded"
            self._find("body-mismatch", detail, index, entry)

    def _find(self, problem: str, detail: str, index: int, entry: Entry) -> None:
        self._findings.add(problem, detail, index, entry.place)


def is_end(end: object) -> bool:
    """Tell whether a value is the end of a strand: its name, last position and last entry."""
    if type(end) is not list or len(end) != 3:
        return False
    return type(end[0]) is str and type(end[1]) is int and type(end[2]) is str


# --------------------------------------------------------------------- the verification


class Verification:
    """One verification of a bundle under way."""

    def __init__(self, bundle: Bundle, trust: Trust, findings: Findings) -> None:
        self._bundle, self._trust, self._findings = bundle, trust, findings
        self._chronicle = Chronicle(bundle, findings)
        self._read: Dict[int, Entry] = {}
        self._checkpoint = trust.open(bundle.checkpoint, findings) if trust.log_keys else None
        self._seen = trust.seen_by(bundle.checkpoint, findings)

    def run(self) -> Dict[str, Any]:
        """Check the checkpoints, then each entry with its proof, then what is missing."""
        if self._checkpoint is not None:
            if self._checkpoint.origin != self._bundle.origin:
                self._findings.add("bundle-altered", "its checkpoint is of another log")
            self._check_times(self._checkpoint)
            self._check_memories(self._checkpoint)
        for index in sorted(self._bundle.entries):
            self._check_entry(index)
        if self._trust.policy is not None and not self._trust.satisfied_by(self._seen):
            self._findings.add("not-witnessed", "the policy's witnesses have not cosigned it")
        if not self._chronicle.runs:
            self._findings.add("run-unopened", f"there is no entry of run {self._bundle.run}")
        bodies = self._chronicle.finish()
        self._check_strays()
        return self._report(bodies)

    def _check_times(self, newest: Checkpoint) -> None:
        """Take from the checkpoints between which times the run can have taken place."""
        last = max(self._bundle.entries, default=0)
        for checkpoint, seen in [(newest, self._seen), *self._past(newest)]:
            if self._trust.satisfied_by(seen):
                time = min(cosignature.time for cosignature in seen) * 1_000_000
                self._chronicle.times[checkpoint.size, checkpoint.root.hex()] = time
                if checkpoint.size > last:
                    self._chronicle.ceiling = min(self._chronicle.ceiling, time)

    def _past(self, newest: Checkpoint) -> Iterator[Tuple[Checkpoint, List[Cosignature]]]:
        """Yield the earlier checkpoints that the newest continues."""
        for past in self._bundle.past:
            old = self._trust.open(past.note, self._findings)
            if old is None:
                continue
            if consistency_holds(past.proof, old.size, old.root, newest.size, newest.root):
                yield old, self._trust.seen_by(past.note, self._findings)
            else:
                detail = f"an earlier checkpoint, of size {old.size}, is not continued"
                self._findings.add("history-replaced", detail)

    def _check_memories(self, newest: Checkpoint) -> None:
        """Compare with what the reader saw before, where a bundle can tell: at the same size."""
        for data in self._trust.seen:
            memory = self._trust.open(data, self._findings)
            if memory is not None and memory[:2] == newest[:2] and memory.root != newest.root:
                detail = f"another tree of size {memory.size} was seen before"
                self._findings.add("history-replaced", detail)

    def _check_entry(self, index: int) -> None:
        data, proof = self._bundle.entries[index], self._bundle.proofs[index]
        leaf, tree = hash_leaf(data), self._checkpoint
        if proof.index != index or proof.note != self._bundle.checkpoint:
            self._findings.add("proof-rejected", "a proof of something else", index)
        elif tree and not inclusion_holds(proof.hashes, leaf, index, tree.size, tree.root):
            detail = f"entry {index} is not in the tree of size {tree.size}"
            self._findings.add("proof-rejected", detail, index)
        try:
            self._read[index] = entry = read_entry(data)
        except Rejected as error:
            self._findings.add("entry-malformed", str(error), index)
            return
        self._chronicle.take(index, leaf.hex(), entry)

    def _check_strays(self) -> None:
        """A body that no entry of the run commits to has no business here."""
        for index, name in self._bundle.bodies:
            entry = self._read.get(index)
            if entry is None or entry.run != self._bundle.run or name not in entry.bodies:
                self._findings.add("bundle-altered", f"body {name!r} of no entry", index)

    def _intact(self) -> Dict[str, str]:
        if not self._trust.log_keys:
            reason = "no key was given: name the log's key with --key"
            return {"state": NOT_CHECKED, "reason": reason}
        reason = f"{len(self._bundle.entries)} entries, each proven in the signed tree"
        return self._findings.answer(INTACT, reason)

    def _complete(self) -> Dict[str, str]:
        chronicle = self._chronicle
        answer = self._findings.answer(COMPLETE, "the run is closed, and no strand has a gap")
        if answer["state"] == HOLDS and (not chronicle.closed or chronicle.unlisted):
            reason = "the run was open, or its list of strands redacted, when this was exported"
            return {"state": NOT_CHECKED, "reason": reason}
        return answer

    def _independent(self) -> Dict[str, str]:
        if self._trust.policy is None:
            reason = "no policy was given: name witnesses with --policy"
            return {"state": NOT_CHECKED, "reason": reason}
        names = sorted({cosignature.key.name for cosignature in self._seen})
        reason = f"cosigned by {', '.join(names)}"
        if names and all(map(is_local, names)):
            reason += ", a witness on the writer's own machine: as strong as that machine's owner"
        return self._findings.answer(INDEPENDENT, reason)

    def _report(self, bodies: Dict[str, int]) -> Dict[str, Any]:
        bundle, checkpoint, opened = self._bundle, self._checkpoint, self._chronicle.open
        kinds = [entry.kind for entry in self._read.values() if entry.kind not in KINDS]
        report = empty_report(self._findings)
        report.update(
            origin=bundle.origin,
            size=checkpoint.size if checkpoint else 0,
            root=checkpoint.root.hex() if checkpoint else "",
            intact=self._intact(),
            complete=self._complete(),
            independent=self._independent(),
            not_checked=[
                f"the facts of {kinds.count(kind)} entries of kind {kind}, unknown to this release"
                for kind in sorted(set(kinds))
            ],
            entries=len(bundle.entries),
            runs=self._chronicle.runs,
            open_runs=[bundle.run] if opened and bundle.run != "log" else [],
            bodies=bodies,
            sightings=[
                dict(witness=key.name, time=time, same_machine=is_local(key.name))
                for key, time in self._seen
            ],
        )
        states = [report[claim]["state"] for claim in (INTACT, COMPLETE, INDEPENDENT)]
        report["ok"] = states == [HOLDS, HOLDS, HOLDS]
        return report


def is_local(witness: str) -> bool:
    """Tell whether a witness says by its name that it is on the writer's own machine."""
    return witness.startswith("forum.local/witness/")


def empty_report(findings: Findings) -> Dict[str, Any]:
    """Return the report of a bundle that could not be read."""
    unknown = {"state": NOT_CHECKED, "reason": "the bundle could not be read"}
    return dict(
        schema="forum.report/1",
        ok=False,
        origin="",
        size=0,
        root="",
        intact=findings.answer(INTACT, ""),
        complete=unknown,
        independent=unknown,
        findings=findings.listed,
        found=findings.count,
        not_checked=["everything in the bundle"],
        entries=0,
        runs=0,
        open_runs=[],
        bodies=dict(ok=0, redacted=0, missing=0, mismatch=0),
        pending=0,
        sightings=[],
    )


def verify(data: bytes, trust: Trust) -> Dict[str, Any]:
    """Check one bundle.  Whatever cannot be read is a finding, never an exception."""
    findings = Findings()
    try:
        bundle = read_bundle(data)
    except Rejected as error:
        findings.add("bundle-altered", str(error))
        return empty_report(findings)
    return Verification(bundle, trust, findings).run()


# ------------------------------------------------------------------------- the command line


def plain(text: str) -> str:
    """Escape whatever could make a terminal show something else than what is said."""
    shown = "".join(c if c.isprintable() else c.encode("unicode-escape").decode() for c in text)
    return shown.encode("ascii", "backslashreplace").decode()


def print_report(report: Dict[str, Any]) -> None:
    """Print a report for people."""
    print(plain(f"{report['origin']}  size {report['size']}  root {report['root']}"))
    for claim in (INTACT, COMPLETE, INDEPENDENT):
        answer = report[claim]
        print(plain(f"{claim:<12} {answer['state']:<12} {answer['reason']}"))
    for found in report["findings"]:
        line = describe(found["problem"], found["detail"], found["index"], found["entry"])
        print(plain(f"found        {line}"))
    for sighting in report["sightings"]:
        print(plain(f"seen         by {sighting['witness']} at {sighting['time']}"))
    for missing in report["not_checked"]:
        print(plain(f"not checked  {missing}"))


def read_file(path: str) -> bytes:
    """Read a whole file."""
    with open(path, "rb") as file:
        return file.read()


def argument(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Turn what cannot be read into an error of usage."""

    def parse(text: str) -> Any:  # noqa: ANN401  whatever the option holds
        try:
            return read(text)
        except (Rejected, OSError) as error:
            raise argparse.ArgumentTypeError(f"{plain(text)}: {plain(str(error))}") from None

    return parse


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(description="Verify an evidence bundle of Forum.")
    parser.add_argument("bundle", type=argument(read_file), metavar="BUNDLE")
    parser.add_argument("--key", type=argument(read_key), action="append", default=[])
    parser.add_argument("--policy", type=argument(lambda path: Policy(read_file(path))))
    parser.add_argument("--seen", type=argument(read_file), action="append", default=[])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    report = verify(given.bundle, Trust(given.key, given.policy, given.seen))
    if given.json:
        print(json.dumps(report))
    else:
        print_report(report)
    return 0 if report["ok"] else 3


if __name__ == "__main__":
    sys.exit(main())
