"""Verify an evidence bundle or pack of Forum with Python alone: one file, standard library only.

    python3 verify.py FILE --policy TRUSTFILE [--key VKEY ...] [--seen CHECKPOINT ...] [--json]
                      [--max-bytes N]

A bundle is one run of a transparency log: its entries, a proof for each, the log's signed
checkpoint with the cosignatures of witnesses, and the disclosed bodies.  The result is not a plain
yes or no.  Each of three claims holds, fails, or was not checked:

    intact       the content of the bundle is what was recorded
    complete     nothing of the run is missing
    independent  witnesses have seen it: another organization's, if your trust file marks one so;
                 otherwise they count as the writer's own, and the claim reads self-witnessed

A pack is a report about a period, with every entry between two checkpoints and bundles of some
runs.  The claims are about these entries, and there are two more:

    figures      report.json and entries.csv follow from the entries
    attested     a key that the log published has signed the list of files

You choose the keys to trust: the log's key (--key, or a `log` line of your trust file) and the
witnesses (--policy, your trust file: C2SP tlog-policy).  Get them from the people who run the log.
If you know that another organization runs the witness NAME, add the line `independent NAME`.  Keys,
trust file and verifier inside the bundle, a copy of this file included, are not trusted: a forger
would enclose forged ones.  --seen names a checkpoint that you, or somebody you trust, saw before.

This program does not replay deliberations, and does not draw the page of a pack again;
`forum verify` does.  The report lists what was not checked.

Exit status: 0 if all claims hold, 3 if one does not, 2 for wrong usage.

Each part of this file uses only the parts above it.  The formats are specified in
docs/spec/entry.md, bundle.md and evidence.md of Forum's source.  Needs Python 3.9 or newer.
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
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn


class BundleRejected(Exception):
    """Raised for input that is malformed, not in canonical form, or fails a check."""


def require(condition: object, why: str) -> None:
    """Raise `BundleRejected` with this reason unless a condition holds."""
    if not condition:
        raise BundleRejected(why)


# == Encodings: others than the canonical form are refused, so that each value has one hash ====


def read_base64(text: str) -> bytes:
    """Decode standard base64; refuse missing padding and stray bits."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise BundleRejected("not base64") from None
    require(base64.b64encode(raw).decode() == text, "not canonical base64")
    return raw


def read_hash(text: str) -> bytes:
    """Decode a SHA-256 hash in the base64 form of notes and proofs."""
    raw = read_base64(text)
    require(len(raw) == 32, f"a hash has {len(raw)} bytes, not 32")
    return raw


def read_decimal(text: str) -> int:
    """Parse a decimal number without sign or leading zeros."""
    formed = re.fullmatch(r"0|[1-9][0-9]{0,18}", text) and int(text) < 2**63
    require(formed, f"{text[:20]!r} is not a decimal number below 2^63")
    return int(text)


def read_utf8(data: bytes) -> str:
    """Decode UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BundleRejected("not UTF-8") from None


def refuse_float(text: str) -> NoReturn:
    """Refuse JSON numbers that are not integers, such as 1.5, 1e3 and NaN."""
    raise BundleRejected(f"{text[:20]} is not an integer")


def write_json(value: object) -> str:
    """Return JSON in canonical form: no white space, no unnecessary escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_json(data: bytes) -> Any:  # noqa: ANN401  any JSON value
    """Parse JSON in canonical form."""
    text = read_utf8(data)
    try:
        value = json.loads(text, parse_float=refuse_float, parse_constant=refuse_float)
        canonical = write_json(value) == text
    except (ValueError, RecursionError):
        raise BundleRejected("not JSON") from None
    require(canonical, "JSON that is not in canonical form")
    return value


# == Ed25519: RFC 8032 section 5.1, strict, verified without the cofactor ======================

P = 2**255 - 19
"""The prime of the field."""
L = 2**252 + 27742317777372353535851937790883648493
"""The order of the base point."""
D = -121665 * pow(121666, -1, P) % P

Point = tuple[int, int, int, int]
"""X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z."""
ZERO: Point = (0, 1, 1, 0)


def point_add(p: Point, q: Point) -> Point:
    """Return the sum of two points, which may be equal."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] * D, 2 * p[2] * q[2]
    e, f = (b - a) % P, (d - c) % P
    g, h = (d + c) % P, (b + a) % P
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_encode(p: Point) -> bytes:
    """Return the encoding of a point: y, with the lowest bit of x as bit 255."""
    inverse = pow(p[2], -1, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def point_decode(data: bytes) -> Point:
    """Decode a point; refuse any encoding that is not canonical."""
    number = int.from_bytes(data, "little")
    y, sign = number & (2**255 - 1), number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    on_curve = y < P and (x * x - square) % P == 0
    require(on_curve and (x or not sign), "not a point on the curve")
    x = x if x & 1 == sign else P - x
    return (x, y, 1, x * y % P)


BASE = point_decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def check_public_key(public: bytes) -> None:
    """Refuse bytes that are not a point, and points of small order.

    Under a key of small order, one signature can be valid for many messages.
    """
    require(len(public) == 32, f"a public key has {len(public)} bytes, not 32")
    multiple = point_decode(public)
    for _ in range(3):
        multiple = point_add(multiple, multiple)
    require(point_encode(multiple) != point_encode(ZERO), "a public key of small order")


@lru_cache(maxsize=1024)
def signature_holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether R = sB - hA for a signature (R, s) by the key A, with h = H(R, A, message)."""
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % L
    x, y, z, t = point_decode(public)
    minus_a = (P - x, y, z, P - t)
    # Computing both products in one pass halves the point additions, which are slow in Python.
    choices, total = (ZERO, BASE, minus_a, point_add(BASE, minus_a)), ZERO
    for bit in range(252, -1, -1):
        total = point_add(total, total)
        total = point_add(total, choices[(s >> bit & 1) + 2 * (h >> bit & 1)])
    return point_encode(total) == r


# == The Merkle tree: RFC 6962 and RFC 9162 ====================================================

EMPTY_ROOT = hashlib.sha256(b"").digest()


class BundleCheckpoint(NamedTuple):
    """The tree that a log commits to: the log's name, the number of entries, and the root."""

    origin: str
    size: int
    root: bytes


def hash_leaf(data: bytes) -> bytes:
    """Return the leaf hash of an entry, which is also its id."""
    return hashlib.sha256(b"\x00" + data).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above two neighbours."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def climb_to_roots(
    nodes: list[bytes], old: bytes, new: bytes, fn: int, sn: int
) -> tuple[bytes, bytes]:
    """Return the roots of the old and the new tree that a proof leads to.

    This loop is common to both algorithms of RFC 9162.
    """
    for node in nodes:
        require(sn, "the proof is too long")
        if fn & 1 or fn == sn:
            old, new = hash_node(node, old), hash_node(node, new)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = hash_node(new, node)
        fn, sn = fn >> 1, sn >> 1
    require(sn == 0, "the proof is too short")
    return old, new


def check_inclusion(nodes: list[bytes], leaf: bytes, index: int, tree: BundleCheckpoint) -> None:
    """Check that a tree has this leaf at this index (RFC 9162 section 2.1.3.2)."""
    require(index < tree.size, f"entry {index} is beyond the tree of size {tree.size}")
    _, root = climb_to_roots(nodes, leaf, leaf, index, sn=tree.size - 1)
    require(root == tree.root, f"entry {index} is not in the tree of size {tree.size}")


def check_consistency(nodes: list[bytes], old: BundleCheckpoint, new: BundleCheckpoint) -> None:
    """Check that the new tree begins with the old one (RFC 9162 section 2.1.4.2)."""
    why = f"the tree of size {new.size} does not begin with that of {old.size}"
    require(old.size <= new.size, why)
    if old.size in (0, new.size):
        # Every tree begins with the empty tree and with itself, so the proof is empty.
        require(not nodes and old.root == (EMPTY_ROOT if new.size != old.size else new.root), why)
        return
    fn, sn = old.size - 1, new.size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    # A tree of 2^k entries is a node of every larger one, and the proof begins above it.
    path = nodes if fn else [old.root, *nodes]
    require(path, why)
    require(climb_to_roots(path[1:], path[0], path[0], fn, sn=sn) == (old.root, new.root), why)


# == Keys and signed notes: C2SP signed-note ===================================================

LOG_KEY, WITNESS_KEY = 0x01, 0x04
"""Signature types: Ed25519 over the text of a note, and Ed25519 timestamped cosignature."""


class BundleKey(NamedTuple):
    """A public key with its name and the type of signature that it is trusted for."""

    name: str
    algorithm: int
    public: bytes

    @property
    def id(self) -> bytes:
        """Four bytes by which a key is looked up.  They can be forged, so they prove nothing."""
        material = bytes([self.algorithm]) + self.public
        return hashlib.sha256(self.name.encode() + b"\n" + material).digest()[:4]


BundleSignature = tuple[str, bytes, bytes]
"""Name, key id and signature."""


class BundleNote(NamedTuple):
    """A text, and its signatures."""

    text: str
    signatures: list[BundleSignature]

    def signatures_by(self, keys: list[BundleKey]) -> list[tuple[BundleKey, bytes]]:
        """Return the first signature that names each of these keys; it is not verified here.

        Whoever has a key can make as many valid signatures of one text as fit into a note.
        """
        first: dict[BundleKey, bytes] = {}
        known_keys = [(key, (key.name, key.id)) for key in keys]
        for name, key_id, blob in self.signatures:
            for key, claimed in known_keys:
                if (name, key_id) == claimed:
                    first.setdefault(key, blob)
        return list(first.items())


def check_line(text: str) -> None:
    """Refuse characters that a line of a note cannot hold."""
    require(not re.search("[\x00-\x1f\ud800-\udfff]", text), "contains a control character")


def check_name(name: str) -> None:
    """Refuse a name that is not valid for a key."""
    check_line(name)
    formed = name and "+" not in name and not any(character.isspace() for character in name)
    require(formed, f"{name!r} is not a valid key name")


def read_key(text: str) -> BundleKey:
    """Parse a vkey: name+id+key."""
    require(text.count("+") >= 2, f"{text!r} does not have the form name+id+key")
    name, key_id, encoded = text.split("+", 2)
    material = read_base64(encoded)
    check_name(name)
    require(material[:1] in (b"\x01", b"\x04"), f"{name}: unsupported signature type")
    key = BundleKey(name, material[0], material[1:])
    check_public_key(key.public)
    require(key.id.hex() == key_id, f"{name}: the id of this key is {key.id.hex()}")
    return key


def write_key(key: BundleKey) -> str:
    """Return the vkey of a key."""
    material = base64.b64encode(bytes([key.algorithm]) + key.public).decode()
    return f"{key.name}+{key.id.hex()}+{material}"


def read_note(data: bytes) -> BundleNote:
    """Parse a note without verifying its signatures."""
    require(len(data) <= 1 << 20, "a note is longer than 1 MiB")
    text, blank, below = read_utf8(data).rpartition("\n\n")
    *lines, rest = below.split("\n")
    require(
        blank and not rest and 1 <= len(lines) <= 64,
        "a note needs 1 to 64 signatures below an empty line",
    )
    check_line(text.replace("\n", ""))
    return BundleNote(text + "\n", [read_signature(line) for line in lines])


def read_signature(line: str) -> tuple[str, bytes, bytes]:
    """Parse a signature line: dash, name, base64 of key id and signature."""
    dash, name, encoded = line.split(" ") if line.count(" ") == 2 else ("", "", "")
    raw = read_base64(encoded)
    require(dash == "\u2014" and len(raw) > 4, "malformed signature line")
    check_name(name)
    return name, raw[:4], raw[4:]


# == Checkpoints: C2SP tlog-checkpoint and tlog-cosignature ====================================


class BundleCosignature(NamedTuple):
    """A witness, and the time in seconds since 1970 at which it cosigned, by its own clock."""

    key: BundleKey
    time: int


def read_checkpoint(text: str) -> BundleCheckpoint:
    """Parse the text of a checkpoint: origin, size and root; extension lines are refused."""
    require(text.count("\n") == 3 and text[0] != "\n", "a checkpoint must have three lines")
    origin, size, root, _ = text.split("\n")
    checkpoint = BundleCheckpoint(origin, read_decimal(size), read_hash(root))
    require(checkpoint.size or checkpoint.root == EMPTY_ROOT, "wrong root of the empty tree")
    return checkpoint


def open_checkpoint(data: bytes, keys: list[BundleKey]) -> BundleCheckpoint:
    """Return a checkpoint that a trusted key of its own log has signed."""
    note, signers = read_note(data), set()
    for key, blob in note.signatures_by([key for key in keys if key.algorithm == LOG_KEY]):
        # An invalid one by a trusted key rejects the note, because the note was altered.
        holds = signature_holds(key.public, note.text.encode(), blob)
        require(holds, f"{key.name}: invalid signature")
        signers.add(key.name)
    checkpoint = read_checkpoint(note.text)
    require(checkpoint.origin in signers, "not signed by a trusted key of its log")
    return checkpoint


def read_cosignatures(data: bytes, witnesses: list[BundleKey]) -> list[BundleCosignature]:
    """Return the first cosignature of each known witness; refuse the note if one is invalid."""
    note = read_note(data)
    return [check_cosignature(note.text, blob, key) for key, blob in note.signatures_by(witnesses)]


def check_cosignature(text: str, blob: bytes, key: BundleKey) -> BundleCosignature:
    """Verify a cosignature: eight bytes of time, and a signature over time and text."""
    time = int.from_bytes(blob[:8], "big")
    message = f"cosignature/v1\ntime {time}\n{text}".encode()
    holds = time < 2**63 and signature_holds(key.public, message, blob[8:])
    require(holds, f"{key.name}: invalid cosignature")
    return BundleCosignature(key, time)


# == The reader's trust file: C2SP tlog-policy, and our line `independent NAME` =================


MAX_POLICY, MAX_POLICY_LINES = 1 << 20, 1000
"""A pack encloses a trust file that anybody can have written."""


class BundlePolicy:
    """The logs and witnesses that the reader trusts, and the quorum that must have cosigned."""

    def __init__(self, data: bytes) -> None:
        self.logs: list[BundleKey] = []
        self.witnesses: dict[str, BundleKey] = {}
        self.groups: list[tuple[str, int, list[str]]] = []
        self.quorums: list[str] = []
        self.independent: list[str] = []
        self._names: set[str] = set()
        require(len(data) <= MAX_POLICY, f"the trust file is longer than {MAX_POLICY} bytes")
        control = re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", data)
        require(not control, "the trust file contains a control character")
        require(data.endswith(b"\n"), "the trust file does not end in a newline")
        count = 0
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            words = [word for word in line.replace("\t", " ").split(" ") if word]
            if words and not words[0].startswith("#"):
                count += 1
                few = count <= MAX_POLICY_LINES
                require(few, f"the trust file has more than {MAX_POLICY_LINES} lines")
                self._read(words)
        require(len(self.quorums) == 1, f"the trust file has {len(self.quorums)} quorum lines")
        # A key with two names, or a member of two groups, would count twice.
        for keys in (self.logs, self.witnesses.values()):
            require(len({key.public for key in keys}) == len(keys), "a key is listed twice")
        marks = self.independent
        require(len(set(marks)) == len(marks), "a witness is marked twice")
        for key in (self.witnesses[name] for name in marks):
            own = key.public in {log.public for log in self.logs}
            require(not own, f"{key.name} has the key of the log")
        self._names_by_key = {key: name for name, key in self.witnesses.items()}
        members = [member for group in self.groups for member in group[2]]
        require(len(set(members)) == len(members), "a group member is listed twice")

    def _read(self, words: list[str]) -> None:
        names = self._names
        first, count = words[0], len(words)
        if first == "log" and count in (2, 3):
            self.logs.append(self._key(words[1], LOG_KEY))
        elif first == "witness" and count in (3, 4) and self._is_free(words[1]):
            self.witnesses[words[1]] = self._key(words[2], WITNESS_KEY)
            names.add(words[1])
        elif first == "group" and count > 3 and self._is_free(words[1]):
            self._add_group(words[1], words[2], words[3:])
            names.add(words[1])
        elif first == "quorum" and count == 2 and (words[1] == "none" or words[1] in names):
            self.quorums.append(words[1])
        elif first == "independent" and count == 2 and words[1] in self.witnesses:
            # Whoever chose this name says that the witness is on the machine of its log.
            name = self.witnesses[words[1]].name
            require(not is_local_witness(name), f"{name} is on the machine of its log")
            self.independent.append(words[1])
        else:
            raise BundleRejected(
                f"invalid line, or a name that is taken or undefined: {' '.join(words)!r}"
            )

    def _is_free(self, name: str) -> bool:
        return name != "none" and name not in self._names

    def _add_group(self, name: str, least: str, members: list[str]) -> None:
        number = {"any": 1, "all": len(members)}.get(least) or read_decimal(least)
        require(1 <= number <= len(members), f"invalid threshold {least} of group {name}")
        require(
            self._names.issuperset(members), f"a member of group {name} is not defined above it"
        )
        self.groups.append((name, number, members))

    @staticmethod
    def _key(text: str, algorithm: int) -> BundleKey:
        key = read_key(text)
        require(key.algorithm == algorithm, f"{key.name}: wrong signature type for this line")
        return key

    def is_satisfied_by(self, cosignatures: list[BundleCosignature]) -> bool:
        """Return whether these cosignatures reach the quorum; there must be at least one."""
        # By the keys that there are: a pack asks for thousands of records, of a policy of hundreds.
        keys = {cosignature.key for cosignature in cosignatures}
        names = {"none", *(self._names_by_key[key] for key in keys if key in self._names_by_key)}
        for name, number, members in self.groups:
            if len(names.intersection(members)) >= number:
                names.add(name)
        return bool(cosignatures) and self.quorums[0] in names

    def is_independent(self, key: BundleKey, named: list[BundleKey]) -> bool:
        """Return whether the reader marks a witness as run by another organization.

        A mark does not say of which log, so it counts only if the file and the other keys that the
        reader has `named` are of one.
        """
        logs = [*named, *self.logs]
        if len({log.name for log in logs}) > 1 or key.public in {log.public for log in logs}:
            return False
        return any(self.witnesses[name] == key for name in self.independent)

    def quorum_time(self, cosignatures: list[BundleCosignature]) -> int:
        """Return the earliest time, in seconds, by which the quorum had cosigned; 0 if unknown.

        A cosignature with time 0 states no time: it counts for the quorum, but not here.
        """
        timed = sorted((c for c in cosignatures if c.time), key=lambda c: c.time)
        quorums = (i for i in range(1, len(timed) + 1) if self.is_satisfied_by(timed[:i]))
        count = next(quorums, 0)
        return timed[count - 1].time if count else 0

    def min_witnesses(self) -> int:
        """Return the smallest number of witnesses that can reach the quorum, and at least one."""
        needed = dict.fromkeys(self.witnesses, 1)
        for name, number, members in self.groups:
            needed[name] = sum(sorted(needed[member] for member in members)[:number])
        return needed.get(self.quorums[0], 1)


KeysByClaim = dict[str, BundleKey]
"""Keys by what their lines have behind the dash: the name, and the first characters of the id."""
CLAIM = slice(2, -99)
"""Where that is in a line: a cosignature and its id have 104 characters, of which five are that."""


def keys_by_claim(policy: BundlePolicy | None) -> KeysByClaim:
    """Return the keys of witnesses for `read_lines`."""
    witnesses = policy.witnesses.values() if policy else ()
    return {f"{key.name} {base64.b64encode(key.id).decode()[:5]}": key for key in witnesses}


def read_lines(
    lines: list[str], witnesses: KeysByClaim
) -> Iterator[tuple[BundleKey, BundleSignature]]:
    """Yield the recorded lines that name one of these witnesses, unverified.

    Whoever may write to the log can have other lines recorded, as many as he likes: they are left
    aside before they count.
    """
    for line in lines:
        # Parsing is dear: a log can have a million lines of strangers.
        key = witnesses.get(line[CLAIM])
        if key is None:
            continue
        try:
            signature = read_signature(line)
        except BundleRejected:
            continue  # no witness has cosigned that
        if signature[:2] == (key.name, key.id):
            yield key, signature


@lru_cache(maxsize=1)
def read_policy(data: bytes) -> BundlePolicy:
    """Return the policy that a pack encloses; it is asked for several times."""
    return BundlePolicy(data)


def is_local_witness(witness: str) -> bool:
    """Return whether the name of a witness says that it is on the writer's own machine."""
    return witness.lower().startswith("forum.local/witness/")


def consistent_times(times: list[int]) -> list[int]:
    """Return the times of checkpoints in the order of their sizes, inconsistent ones set to 0.

    A larger tree is cosigned later.  The largest set of times that agrees with this order is kept;
    of several such sets, the one with the latest checkpoints.  Times that are 0 are ignored.
    """
    tails: list[int] = []  # the smallest time that ends a chain of each length
    ends: list[int] = []  # the index of the checkpoint with that time
    before: dict[int, int] = {}
    for i, time in enumerate(times):
        length = len(tails)
        while length and tails[length - 1] > time:
            length -= 1
        if time:
            before[i] = ends[length - 1] if length else -1
            tails[length : length + 1], ends[length : length + 1] = [time], [i]
    selected, i = [0] * len(times), ends[-1] if ends else -1
    while i >= 0:
        selected[i], i = times[i], before[i]
    return selected


# == Entries: docs/spec/entry.md ===============================================================

MAX_ENTRY, MAX_PARENTS = 4096, 16
MAX_NESTING, MAX_COUNT = 16, 2**53 - 1

HASH = r"[0-9a-f]{64}"
LABEL = r"[!#-\[\]-~]{1,128}"  # visible ASCII without quote and backslash
MEDIA_TYPE = r"[!#-\[\]-~]{1,64}"
BODY_NAME = r"[a-z][a-z0-9._-]{0,31}"
KIND = r"[a-z][a-z.]*/[1-9][0-9]*"

TEXT, COUNT = "text", "count"
LIMIT = "limit"

# The two tables below are generated from the kinds that Forum declares.
#
# CHOICE_TABLE lists the values that a fact of an enumerated type can have.  KIND_TABLE lists the
# released kinds.  The words behind the name of a kind are its facts in their order, each as
# NAME:TYPE, with =DEFAULT (JSON) if the fact is left out when it has that value; TYPE[] is an
# array, and a limit is a count that may be written with its default.  +NAME is a body that an entry
# of this kind may have.  An indented line continues the line above it, and "" stands for the empty
# string.

# <kinds>
CHOICE_TABLE = """
Accord agreed majority split blocked
Answer approve reject
Authority person key operator
BaselineDecision agreed deliberate open
Basis given lexical semantic classifier
CapChange set remove
CapSubject ledger key person team lane agent
CapUnit usd tokens runs
Check outcome contains matches json command tests file form model coverage kept
CompactionMethod summary excerpt
ControlAct hold-place hold-release retention
Decider person deadline end
DenialReason unknown expired revoked scope elsewhere
End gate unanimous stable exhausted rounds stopped silent
EpochKey kept new
FreezeAct freeze unfreeze
GapReason overflow shutdown refused unreachable sequence parent-unseen sampled filtered limit
GrantScope submit read approve audit admin
Ground gate vote check judge none
HoldAct place release
IncidentSeverity low medium high critical
Independence "" independent not-independent
MessageType problem_statement primary_turn coordination_turn branch_turn synthesis panel_contraction
Next accept retry escalate give-up
Operation model tool agent retrieval guardrail handoff step
Outcome ok failed denied timeout cancelled indeterminate
OutcomeKind synthesis termination
Period hour day week month ever
Reason budget_exceeded schema_error provider_unrecoverable user_cancel timeout user_input_required
    external_research_required ""
RedactionReason request retention secret legal
ReplyOrigin live recorded
ReportProvenance relayed wrapped reported
Scope submit read approve audit admin metrics report
ScoreSubject run task answer
Scorer person program judge
SelectionStrategy fixed rules llm
StopReason budget deadline depth repeat ping-pong turns lost cancelled rejected error role
Why "" error lost deadline cancelled oversize throttled cut
"""
KIND_TABLE = """
log.open/1 program:text left_origin:text="" left_size:count=0 left_root:text=""
key.add/1 vkey:text
log.seal/1 reason:text
redact/1 entry:text body:text reason:RedactionReason
export/1 run:text entries:count size:count
run.open/1 after_size:count=0 after_root:text=""
run.close/1 outcome:Outcome strands:count +strands
runs.open/1 first:count runs:text[] since:count=0
join/1
note/1 +text
access.grant/1 key:text name:text scopes:GrantScope[] digest:text expires:count=0
access.grant/2 key:text name:text scopes:Scope[] digest:text expires:count=0
access.revoke/1 key:text
access.deny/1 who:text why:DenialReason door:text times:count=1
notice/1 endpoint:text entry:text event:text outcome:Outcome attempts:count=1 code:text=""
tags.enforce/1 last_untagged:count
quarantine.discard/1 rows:count digest:text
log.epoch/1 key:EpochKey held_size:count=0 held_root:text="" +reason
key.rotate/1 old:text vkey:text
redact/2 bodies:text[] reason:RedactionReason rule:text=""
redact/3 bodies:text[] runs:text[] reason:RedactionReason rule:text=""
retention/1 subject:text seconds:count
hold/1 hold:text act:HoldAct runs:text[]=[] +reason
control.request/1 act:ControlAct hold:text="" runs:text[]=[] subject:text="" seconds:count=0 +reason
control.refuse/1
archive/1 run:text entries:count first:count last:count digest:text place:text
budget.cap/1 subject:CapSubject per:Period unit:CapUnit act:CapChange name:text="" most:count=0
budget.team/1 team:text members:text[]=[] within:text=""
budget.freeze/1 act:FreezeAct +reason
budget.alert/1 scope:text period:text unit:CapUnit percent:count used:count cap:count
key.add/2 vkey:text by:text since:count signed:text proof:text
key.rotate/2 old:text vkey:text since:count signed:text proof:text
witnessed/1 size:count root:text cosignatures:text[]=[]
log.carry/1 run:text strand:text entries:count=0 head:text=""
review.done/1 by:Authority since:count until:count run:text="" stops:count=0 budget_stops:count=0
    denials:count=0 gaps:count=0 indeterminate:count=0 gates:count=0 +identity +remark
incident.open/1 incident:text severity:IncidentSeverity by:Authority known:count runs:text[]=[]
    +identity +text
incident.close/1 incident:text by:Authority +identity +text
config.seen/1 engine:text roster:text policies:text models:text tools:text
config.seen/2 engine:text changed:text[]=[] erased:text[]=[] +models +policies +roster +tools
accepted/1 usd:limit=9007199254740991 tokens:limit=9007199254740991 calls:limit=9007199254740991
    milliseconds:limit=9007199254740991 depth:count=0 parent_run:text="" parent_task:text=""
    fork_run:text="" fork_index:count=0 +policy +request
route/1 lane:text basis:Basis confidence:count=0 runner_up:text="" margin:count=0 roster:text=""
    +evidence
about/1 run:text entry:text +answer +request
plan/1 tasks:count +plan
call/1 agent:text model:text attempt:count turn:count usd:count=0 tokens:count=0
    milliseconds:count=0 role:text="" calls:count=1 +offers +prompt +schema
reply/1 outcome:Outcome why:Why="" usd:count=0 tokens:count=0 milliseconds:count=0 code:text=""
    overrun_usd:count=0 overrun_tokens:count=0 source:ReplyOrigin="live" input_tokens:count=0
    model:text="" prices:text="" pause:count=0 calls:count=1 +error +output +uses
intent/1 tool:text again:text="" +arguments
outcome/1 outcome:Outcome why:Why="" code:text="" known:text="" +error +result
compaction/1 attempt:count rounds:count first:text last:text method:CompactionMethod
    tokens_before:count tokens_after:count +summary
verdict/1 attempt:count outcome:Outcome check:Check next:Next reason:text="" pause:count=0
    judge:text="" independence:Independence="" claims:count=0 unverified:count=0 +claims
skip/1 cause:text
stop/1 reason:StopReason limit:text="" asked:count=0 used:count=0 cap:count=0 by:text="" +spent
gate.open/1 subject:text milliseconds:count default:Answer +shown
gate.edit/1 replaces:text +shown
gate.reason/1 digest:text +reason
gate.decision/1 answer:Answer digest:text by:Decider
gate.decision/2 answer:Answer digest:text by:Authority +identity
cancel/1
control.close/1
run.interrupted/1
run.resumed/1
delegate/1 run:text usd:limit=9007199254740991 tokens:limit=9007199254740991
    calls:limit=9007199254740991
accord/1 run:text accord:Accord blockers:count=0 role:text="" +findings
check/1 subject:text outcome:Outcome check:Check reason:text="" judge:text=""
    independence:Independence="" +detail
answer/1 outcome:Outcome parts:count claims:count=0 unverified:count=0 +answer +claims
score/1 run:text subject:ScoreSubject name:text value:count by:Scorer task:text="" judge:text=""
    independence:Independence="" +comment
eval.open/1 cases:count repeat:count configurations:text[] +cases
eval.play/1 case:count configuration:text repeat:count run:text quality:count
eval.report/1 plays:count unplayed:count=0 +report
report.source/1 told:ReportProvenance by:text framework:text="" trace:text="" continues:text=""
    usd:limit=9007199254740991 tokens:limit=9007199254740991 calls:limit=9007199254740991 +names
report.begin/1 op:Operation name:text span:text within:text="" agent:text="" model:text=""
    provider:text="" usd:count=0 tokens:count=0 calls:count=0 prices:text="" altered:text[]=[]
    cut:count=0 +attributes +input +names
report.step/1 op:Operation name:text outcome:Outcome span:text within:text="" began:count=0
    micros:count=0 agent:text="" model:text="" provider:text="" input_tokens:count=0
    output_tokens:count=0 usd:count=0 prices:text="" code:text="" cut:count=0 +attributes +error
    +input +names +output
report.batch/1 by:text spans:count
report.gap/1 why:GapReason steps:count since:count=0 until:count=0 +spans
council/1 seats:count models:count baseline:count rounds:count
ballot/1 seat:count round:count +ballot
baseline/1 answers:count agreement:count passage:BaselineDecision usd:count tokens:count +answer
reveal/1 round:count ballots:count seed:text
reveal/2 round:count ballots:count seed:text
council.close/1 end:End ground:Ground accord:Accord rounds:count ballots:count changed:count
    conformed:count blockers:count usd:count tokens:count +report
council.similarity/1 answers:count pairs:count model:text digest:text +scores
council.equivalence/1 answers:count positions:count text:count encoder:count judge:count +pairs
panel/1 strategy:SelectionStrategy agents:count usd:count=0 tokens:count=0 +panel
message/1 round:count turn:count type:MessageType +message
request.void/1 message:text +request
symposium.close/1 outcome:OutcomeKind rounds:count messages:count digest:text ended:count usd:count
    tokens:count reason:Reason="" +termination
symposium.close/2 outcome:OutcomeKind rounds:count messages:count ended:count usd:count tokens:count
    reason:Reason="" +termination
"""
# </kinds>


def read_table(table: str) -> dict[str, list[str]]:
    """Return the words of each line of a table, by its first word."""
    lines = table.replace("\n    ", " ").strip().split("\n")
    return {first: words for first, *words in map(str.split, lines)}


CHOICES: dict[str, object] = {
    name: tuple(word.strip('"') for word in words)
    for name, words in read_table(CHOICE_TABLE).items()
}


class BundleKind(NamedTuple):
    """The facts of a kind in their order, each with its type and default, and its bodies."""

    facts: dict[str, tuple[object, ...]]
    bodies: set[str]


def read_kind(words: list[str]) -> BundleKind:
    """Read a line of KIND_TABLE; an array type becomes a list of its item type."""
    kind = BundleKind({}, {word[1:] for word in words if word[0] == "+"})
    for name, _, form in (word.partition(":") for word in words if word[0] != "+"):
        type_name, *default = form.split("=", 1)
        item_name = type_name.replace("[]", "")
        item = CHOICES.get(item_name, item_name)
        kind.facts[name] = ([item] if "[]" in type_name else item, *map(json.loads, default))
    return kind


KINDS = {name: read_kind(words) for name, words in read_table(KIND_TABLE).items()}


class BundleEntry(NamedTuple):
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
    parents: list[str]
    facts: dict[str, Any]
    bodies: dict[str, dict[str, Any]]


def matches(pattern: str, value: object) -> bool:
    """Return whether a value is a string that matches a pattern as a whole."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def is_count(value: object) -> bool:
    """Return whether a value is a non-negative integer that a double holds exactly."""
    return type(value) is int and 0 <= value <= MAX_COUNT


def is_plain(value: object, nesting: int) -> bool:
    """Return whether a value consists of strings, exact integers, arrays and objects only."""
    level = [value]
    while level:
        within: list[object] = []
        for item in level:
            if isinstance(item, (list, dict)):
                if nesting > MAX_NESTING:
                    return False
                within += item.values() if isinstance(item, dict) else item
            elif type(item) is not str and (type(item) is not int or abs(item) > MAX_COUNT):
                return False
        level, nesting = within, nesting + 1
    return True


def is_fact(value: object, form: object, *default: object) -> bool:
    """Return whether a fact has its type and is not equal to its default, which is omitted.

    A limit may be written with its default: releases up to 0.2 did that.
    """
    if form == LIMIT:
        return is_count(value)
    if form == [TEXT]:
        # Item by item, a million short ones would be dear.
        return (
            isinstance(value, list) and {str}.issuperset(map(type, value)) and value not in default
        )
    if isinstance(form, list):
        items = isinstance(value, list) and all(is_fact(item, *form) for item in value)
        return items and value not in default
    choices = form if isinstance(form, tuple) else [value]
    typed = is_count(value) if form == COUNT else isinstance(value, str)
    return typed and value in choices and value not in default


def read_entry(data: bytes) -> BundleEntry:
    """Parse an entry in canonical form."""
    require(len(data) <= MAX_ENTRY, f"an entry of {len(data)} bytes; the maximum is {MAX_ENTRY}")
    value = read_json(data)
    # In canonical JSON, the only escapes besides those of \ and " are of control characters.
    bare = read_utf8(data).replace("\\\\", "").replace('\\"', "")
    require(not re.search("[\\\\\x7f-\x9f]", bare), "a string contains a control character")
    formed = type(value) is dict and tuple(value) == BundleEntry._fields
    require(formed, "the members are not those of an entry in their order")
    entry = BundleEntry(**value)
    check_members(entry)
    check_bodies(entry)
    check_facts(entry)
    return entry


def check_members(entry: BundleEntry) -> None:
    """Check the labels, numbers and links of an entry."""
    require(entry.v == "forum/entry/1", "unsupported entry format")
    for label in (entry.log, entry.run, entry.strand, entry.step, entry.actor):
        require(matches(LABEL, label), "a label is empty, too long, or not plain ASCII")
    require(matches(KIND, entry.kind), "malformed kind")
    require(is_count(entry.n) and is_count(entry.ts), "n and ts must be integers below 2^53")
    linked = matches(HASH, entry.prev) if entry.n else entry.prev == ""
    require(linked, "prev must be a leaf hash, or empty at n = 0")
    listed = type(entry.parents) is list and all(matches(HASH, p) for p in entry.parents)
    require(listed, "parents must be leaf hashes")
    few = len(set(entry.parents)) == len(entry.parents) <= MAX_PARENTS
    require(few, "too many parents, or a parent is listed twice")


def check_bodies(entry: BundleEntry) -> None:
    """Check the commitments of an entry to its bodies: hash, size and type of each."""
    bodies = entry.bodies
    ordered = type(bodies) is dict and list(bodies) == sorted(bodies)
    require(ordered, "bodies must be in the order of their names")
    for name, body in bodies.items():
        formed = type(body) is dict and tuple(body) == ("h", "size", "type")
        require(formed and matches(BODY_NAME, name), f"body {name!r}: invalid name or members")
        formed = matches(HASH, body["h"]) and is_count(body["size"])
        require(
            formed and matches(MEDIA_TYPE, body["type"]),
            f"body {name!r}: invalid hash, size or type",
        )
    allowed = KINDS[entry.kind].bodies if entry.kind in KINDS else bodies
    require(set(bodies).issubset(allowed), f"{entry.kind} has no body {', '.join(bodies)}")


def check_facts(entry: BundleEntry) -> None:
    """Check the facts against their kind; those of an unknown kind by the general rules only."""
    facts = entry.facts
    plain = type(facts) is dict and is_plain(facts, 1)
    require(plain, "facts must be an object of strings, integers, arrays and objects")
    if entry.kind in KINDS:
        members = KINDS[entry.kind].facts
        present = [name for name in members if name in facts]
        require(list(facts) == present, "a fact that the kind does not have, or facts out of order")
        for name, form in members.items():
            fits = is_fact(facts[name], *form) if name in facts else len(form) == 2
            require(fits, f"the fact {name} is missing, invalid, or equal to its default")


# == The bundle: docs/spec/bundle.md ===========================================================


class BundleProof(NamedTuple):
    """A C2SP tlog-proof file: an index, an inclusion proof, and the checkpoint that it leads to."""

    at: int
    nodes: list[bytes]
    note: bytes


class BundlePastCheckpoint(NamedTuple):
    """An earlier checkpoint, and the proof that the checkpoint of the bundle continues it."""

    note: bytes
    nodes: list[bytes]


class LazyFile:
    """A file whose slices are read on demand, as if it were `bytes`."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115  open until the process ends
        self._size = self._file.seek(0, 2)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> bytes:
        start, stop, _ = piece.indices(self._size)
        self._file.seek(start)
        return self._file.read(max(0, stop - start))


class BundleMember(NamedTuple):
    """A file of an archive: offset, size, CRC-32 and SHA-256 of its content."""

    start: int
    size: int
    crc: int
    digest: str


SHARED_BUNDLE = "forum/bundle/3"
"""The version of a bundle whose bodies share bytes."""
MAX_FILES, MAX_BYTES = 0xFFFF, 0xFFFFFFFF
PIECE = 1 << 20
"""The limits of an archive without ZIP64 records, and the number of bytes read at once."""
MAX_ROTATIONS = 64
MAX_PAST = MAX_ROTATIONS + 5
"""More hand-overs and earlier checkpoints are not read: each may cost a signature."""


NOT_A_ZIP = "not-a-zip: it does not begin as a zip file does, so it is no evidence bundle"
TRUNCATED = "truncated: it ends before its directory does; copy or download it again"
REZIPPED = (
    "re-zipped: another program has packed its files again; ask for the file as Forum wrote it"
)
NOT_A_BUNDLE = (
    "not-a-bundle: it is a zip file, but none that forum ledger export or forum evidence wrote"
)
ALTERED = "altered: its bytes are not those that were packed"
END_SIZE = 22
LISTED = re.compile(
    rb"PK\x01\x02.{42}(?:[^\x00]{0,255}/)?(?:(?:entries|proofs)/[0-9]{16}\.|log/end\.note)",
    re.DOTALL,
).search
"""Finds a directory header that every bundle (an entry, a proof) or every evidence pack has."""


class BundleArchive:
    """A zip archive in canonical form: files stored without compression, sorted, undated."""

    def __init__(self, source: bytes | LazyFile) -> None:
        self._source = source
        self.members: dict[str, BundleMember] = {}
        at = self._read_members()
        lengths = [76 + 2 * len(name.encode()) + m.size for name, m in self.members.items()]
        self.wide = len(lengths) > MAX_FILES or sum(lengths) + 22 > MAX_BYTES
        for piece in self._directory(at):
            self._require(source[at : at + len(piece)] == piece, ALTERED)
            at += len(piece)
        self._require(at == len(source), ALTERED)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        require(name in self.members, f"{name} is missing")
        start, size = self.members[name][:2]
        return self._source[start : start + size]

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Return a range of a file."""
        start = self.members[name].start + offset
        return self._source[start : start + length]

    def pieces(self, start: int, size: int) -> Iterator[bytes]:
        """Yield a range of the archive in pieces."""
        for at in range(start, start + size, PIECE):
            yield self._source[at : min(at + PIECE, start + size)]

    def _read_members(self) -> int:
        """Read every file, compare its header with the canonical one, and return the end offset."""
        at, before = 0, ""
        while self._source[at : at + 4] == b"PK\3\4" and at + 30 <= len(self._source):
            header = self._source[at : at + 30]
            size, _, length = struct.unpack_from("<IIH", header, 18)
            start = at + 30 + length
            name = read_utf8(self._source[at + 30 : start])
            self._require(start + size <= len(self._source), ALTERED)
            self._require(not self.members or name > before, REZIPPED)
            crc, digest = 0, hashlib.sha256()
            for piece in self.pieces(start, size):
                crc = zlib.crc32(piece, crc)
                digest.update(piece)
            member = self.members[name] = BundleMember(start, size, crc, digest.hexdigest())
            common = self._common(20, name, member)
            ours = struct.pack("<4s5H3I2H", b"PK\3\4", *common, 0)
            # If only the checksum differs, the content was altered in place.
            in_place = header[:14] + header[18:] == ours[:14] + ours[18:]
            self._require(ours == header, f"{ALTERED} ({name[:80]!r})" if in_place else REZIPPED)
            at, before = start + size, name
        return at

    def _require(self, condition: bool, otherwise: str) -> None:  # noqa: FBT001  as `require`
        """Reject the archive with the most likely reason unless a condition holds."""
        if condition:
            return
        source = self._source
        require(source[:4] in (b"PK\3\4", b"PK\5\6"), NOT_A_ZIP)
        tail = source[max(0, len(source) - PIECE) : len(source)]
        end = tail.rfind(b"PK\5\6")
        require(end >= 0 and END_SIZE <= len(tail) - end <= END_SIZE + 0xFFFF, TRUNCATED)
        require(LISTED(tail), NOT_A_BUNDLE)
        require(False, otherwise)  # noqa: FBT003

    @staticmethod
    def _common(version: int, name: str, member: BundleMember) -> tuple[int, ...]:
        sizes = (member.crc, member.size, member.size, len(name.encode()))
        return (version, 1 << 11, 0, 0, 33, *sizes)

    def _directory(self, start: int) -> Iterator[bytes]:
        """Yield the central directory and the end records that these files must have."""
        size, count = 0, len(self.members)
        for name, member in self.members.items():
            offset, version = member.start - 30 - len(name.encode()), 20
            extra = b""
            if offset >= 0xFFFFFFFF:
                version, extra = 45, struct.pack("<2HQ", 1, 8, offset)
                offset = 0xFFFFFFFF
            fields = (version, *self._common(version, name, member), len(extra), 0, 0, 0, 0, offset)
            line = struct.pack("<4s6H3I5H2I", b"PK\1\2", *fields) + name.encode() + extra
            size += len(line)
            yield line
        if self.wide:
            record = (44, 45, 45, 0, 0, count, count, size, start)
            yield struct.pack("<4sQ2H2I4Q", b"PK\6\6", *record)
            yield struct.pack("<4sIQI", b"PK\6\7", 0, start + size, 1)
        few, most = min(count, 0xFFFF), 0xFFFFFFFF
        end = (0, 0, few, few, min(size, most), min(start, most), 0)
        yield struct.pack("<4s4H2IH", b"PK\5\6", *end)


def read_manifest(archive: BundleArchive) -> tuple[str, str, str]:
    """Return version, origin and run; the manifest must list exactly the other files."""
    data = archive.read("manifest.json")
    value = read_json(data)
    members = value if type(value) is dict else {}
    origin, run = members.get("origin"), members.get("run")
    files = [(n, m) for n, m in archive.members.items() if n != "manifest.json"]
    lines = [[name, member.size, member.digest] for name, member in files]
    version = f"forum/bundle/{2 if archive.wide else 1}"
    if members.get("v") == SHARED_BUNDLE:
        version = SHARED_BUNDLE  # in an archive of either form
    expected = {"v": version, "origin": origin, "run": run, "files": lines}
    require(type(origin) is str and type(run) is str, "the manifest has no origin or no run")
    labels = matches(LABEL, str(origin)) and matches(LABEL, str(run))
    require(labels, "the origin or the run in the manifest is no label")
    require(
        write_json(expected).encode() == data, "the files are not those that the manifest lists"
    )
    return version, str(origin), str(run)


def read_proof(data: bytes) -> BundleProof:
    """Parse a proof file.  No signature covers the optional extra line, which is ignored."""
    head, _, note = data.partition(b"\n\n")
    header, *lines = read_utf8(head).split("\n")
    require(header == "c2sp.org/tlog-proof@v1", "not a proof file")
    if lines and lines[0].startswith("extra "):
        read_base64(lines.pop(0)[6:])
    require(lines and lines[0].startswith("index "), "the proof file has no index")
    require(len(lines) <= 64, "the proof file has more than 63 hashes")
    read_note(note)
    return BundleProof(read_decimal(lines[0][6:]), [read_hash(line) for line in lines[1:]], note)


def read_hash_lines(data: bytes, what: str) -> list[bytes]:
    """Parse the hashes of a proof, one in each line."""
    *lines, rest = read_utf8(data).split("\n")
    require(not rest, f"the {what} proof ends within a line")
    return [read_hash(line) for line in lines]


def read_past(size: int, note: bytes, proof: bytes) -> BundlePastCheckpoint:
    """Parse an earlier checkpoint, whose file is named by its size, and its consistency proof."""
    nodes = read_hash_lines(proof, "consistency")
    require(
        read_checkpoint(read_note(note).text).size == size,
        "an earlier checkpoint has another size than its file name",
    )
    return BundlePastCheckpoint(note, nodes)


PAST_NOTE = re.compile(r"past/[0-9]{16}\.note").fullmatch

WitnessRecords = dict[tuple[int, str], list[tuple[BundleKey, BundleSignature, int, BundleEntry]]]
"""The lines of witnesses that entries of the strand `witnessed` record, with index and entry."""


def check_past_count(count: int) -> None:
    """Refuse more earlier checkpoints than any log needs."""
    require(count <= MAX_PAST, f"{count} earlier checkpoints; at most {MAX_PAST} are read")


MAX_BODY_BYTES, BYTES_PER_SPAN = 2 << 30, 512
"""How many bytes all bodies of a bundle may have, unless the reader raises it, and for how many of
them there may be one span: a short list can describe a long body."""
MAX_LISTED = 16 << 20
MAX_CHAIN, MAX_SPANS = 64, 1 << 16
MAX_LIST_BYTES = 4 << 20
"""The greatest size of a body in spans and of a piece; of a chain of lists; the most spans of a
body, and the greatest length of a list."""
MAX_KEPT, MAX_RECENT = 64 << 20, 8
"""How many bytes of pieces are kept in memory, and how many bodies."""

BodyPlace = tuple[int, str]


class BundleSpans(NamedTuple):
    """The list of a body: the first `kept` spans of its base, and the spans that it adds."""

    place: BodyPlace
    base: Any  # a `BundleSpans`, or None
    kept: int
    start: int
    """Where the spans that it adds begin, among all that are written."""
    length: int
    """How many spans the body has, with those that are kept."""
    depth: int
    size: int

    def parts(self, length: int) -> Iterator[tuple[int, int]]:
        """Yield where its first spans are written, from their end to their beginning."""
        row = self
        while length:
            if length > row.kept:
                yield row.start, row.start + length - row.kept
                length = row.kept
            row = row.base


def read_spans(data: bytes) -> tuple[int, list[Any] | None, int, list[list[int]]]:
    """Parse a list of spans: the size of the body, the base, how much it keeps, what it adds."""
    try:
        value = read_json(data)
    except BundleRejected:
        value = None
    formed = type(value) is dict and tuple(value) == ("size", "base", "kept", "spans")
    require(formed, NO_SPANS)
    size, base, kept, spans = value.values()
    named = base is None or (
        type(base) is list and len(base) == 2 and is_count(base[0]) and matches(BODY_NAME, base[1])
    )
    require(is_count(size) and named and is_count(kept) and type(spans) is list, NO_SPANS)
    require({list}.issuperset(map(type, spans)) and {3}.issuperset(map(len, spans)), NO_SPANS)
    # All at once: a hostile list has very many.
    numbers = [number for span in spans for number in span]
    counts = {int}.issuperset(map(type, numbers)) and min(numbers, default=0) >= 0
    require(counts and max(numbers, default=0) <= MAX_COUNT, NO_SPANS)
    return size, base, kept, spans


NO_SPANS = "a list of spans is not in canonical form"


class BundleBodies:
    """The bodies that have a list.  Each list is checked before any body is put together."""

    def __init__(self, archive: BundleArchive, pieces: list[str]) -> None:
        self._archive, self._names = archive, pieces
        self._sizes = [archive.members[name].size for name in pieces]
        require(max(self._sizes, default=0) <= MAX_LISTED, "a piece is too large")
        self.rows: dict[BodyPlace, BundleSpans] = {}
        self._used, self._begun = [0] * len(pieces), 0
        # What lists add, packed; what they keep is never written out.
        self._numbers, self._offsets = array("Q"), array("Q")
        self._lengths, self._ends = array("Q"), array("Q")
        self._bytes = self._spans = 0
        self._pieces: dict[int, bytes] = {}
        self._room = MAX_KEPT
        self._recent: dict[BodyPlace, bytes] = {}

    def add(self, place: BodyPlace, data: bytes) -> None:
        """Check the list of a body, which may build on one that was added before."""
        require(len(data) <= MAX_LIST_BYTES, "a list of spans is too long")
        size, named, kept, spans = read_spans(data)
        require(0 < size <= MAX_LISTED, "a body in spans is empty or too large")
        base = self.rows.get((named[0], named[1])) if named else None
        require(base or not named, "a list of spans refers to one that is not before it")
        depth = base.depth + 1 if base else 1
        require(depth <= MAX_CHAIN, f"a chain of more than {MAX_CHAIN} lists of spans")
        fits = 1 <= kept <= base.length if base else kept == 0
        require(fits, "a list of spans keeps other spans than its base has")
        length = kept + len(spans)
        require(length <= MAX_SPANS, f"a body has more than {MAX_SPANS} spans")
        row = BundleSpans(
            place, base, kept, start=len(self._numbers), length=length, depth=depth, size=size
        )
        self._write(row, spans)
        self.rows[place] = row
        self._bytes += size
        self._spans += length

    def finish(self, inline: int, max_bytes: int) -> int:
        """Refuse what no list uses, and more than the reader wants; return the sum of bytes."""
        require(self._used == self._sizes, "a piece has bytes that no body uses")
        total = self._bytes + inline
        limits = [(total, max_bytes, "bytes"), (self._spans, max_bytes // BYTES_PER_SPAN, "spans")]
        for count, most, unit in limits:
            require(
                count <= most,
                f"its bodies have {count} {unit} together, and at most {most} are read; "
                "the limit can be raised (--max-bytes)",
            )
        return total

    def _write(self, row: BundleSpans, spans: list[list[int]]) -> None:
        done, last = self._end_of_kept(row)
        for piece, offset, length in spans:
            # In this order no byte of a piece can be left out, and each list has one form.
            has_begun = piece <= self._begun and piece < len(self._sizes)
            require(has_begun and offset <= self._used[piece], "a span out of order")
            stop = offset + length
            inside = length and stop <= self._sizes[piece]
            require(inside, "a span is empty or lies outside its piece")
            require((piece, offset) != last, "two spans that continue each other")
            if stop > self._used[piece]:
                self._begun += piece == self._begun
                self._used[piece] = stop
            last = piece, stop
            done += length
            self._numbers.append(piece)
            self._offsets.append(offset)
            self._lengths.append(length)
            self._ends.append(done)
        require(done == row.size, "the spans of a body have another length than the body")

    def _end_of_kept(self, row: BundleSpans) -> tuple[int, tuple[int, int] | None]:
        """Return how many bytes a list keeps, and where in a piece they end."""
        if row.base is None:
            return 0, None
        at = next(row.base.parts(row.kept))[1] - 1
        # What is kept lies at the same places in both bodies.
        return self._ends[at], (self._numbers[at], self._offsets[at] + self._lengths[at])

    def read(self, place: BodyPlace) -> bytes:
        """Return a body, put together from its spans."""
        if place in self._recent:
            return self._recent[place]
        row = self.rows[place]
        base_body = self._recent.get(row.base.place) if row.base else None
        parts = list(row.parts(row.length))
        joined: list[bytes] = []
        if base_body is not None:
            # Mostly a body is the one before it, and something new.
            joined.append(base_body[: self._end_of_kept(row)[0]])
            parts = parts[: int(row.length > row.kept)]
        for start, stop in reversed(parts):
            numbers, offsets = self._numbers[start:stop], self._offsets[start:stop]
            for number, offset, length in zip(numbers, offsets, self._lengths[start:stop]):
                piece = self._pieces.get(number)
                if piece is None:
                    joined.append(self._read_span(number, offset, length))
                else:
                    joined.append(piece[offset : offset + length])
        content = self._recent[place] = b"".join(joined)
        while len(self._recent) > MAX_RECENT or sum(map(len, self._recent.values())) > MAX_KEPT:
            del self._recent[next(iter(self._recent))]
        return content

    def _read_span(self, number: int, offset: int, length: int) -> bytes:
        name = self._names[number]
        if self._sizes[number] > self._room:
            # Nothing is dropped for it: a hostile file would have it read again and again.
            return self._archive.read_range(name, offset, length)
        self._room -= self._sizes[number]
        piece = self._pieces[number] = self._archive.read(name)
        return piece[offset : offset + length]


class BundleContents:
    """The contents of a well-formed bundle, not yet verified, read on demand."""

    def __init__(self, source: bytes | LazyFile, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._archive = BundleArchive(source)
        version, self.origin, self.run = read_manifest(self._archive)
        self._shares = version == SHARED_BUNDLE
        self._proofs = "inclusion" if self._shares else "tlog-proof"
        self.checkpoint = self._archive.read("checkpoint")
        self.entries: list[int] = []
        self.bodies: dict[BodyPlace, tuple[str, str]] = {}
        """The names of the salt and of the content or list, by entry index and body name."""
        self._lists: list[BodyPlace] = []
        self._pieces: list[str] = []
        self.past: list[BundlePastCheckpoint] = []
        names = {"checkpoint", "manifest.json"}
        check_past_count(sum(bool(PAST_NOTE(name)) for name in self._archive.members))
        for name in self._archive.members:
            for needed in self._take(name):
                require(needed in self._archive.members, f"{needed} is missing")
                names.add(needed)
        for name in self._archive.members:
            # Other files are enclosed for convenience and are not evidence.
            extra = matches(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)
            require(name in names or extra, "a file with an unknown name")
        self.bodies = dict(sorted(self.bodies.items()))
        self._shared = BundleBodies(self._archive, self._pieces)
        self.body_bytes = self._check_lists(max_bytes) if self._shares else 0
        """How many bytes all bodies have, if they share some."""

    def _take(self, name: str) -> list[str]:
        """Register an entry, a body or an earlier checkpoint, and return the names of its files."""
        if matches(r"entries/[0-9]{16}\.json", name):
            self.entries.append(int(name[8:24]))
            return [name, f"proofs/{name[8:24]}.{self._proofs}"]
        if matches(rf"(bodies|spans)/[0-9]{{16}}/{BODY_NAME}", name):
            return self._take_body(name)
        if self._shares and matches(r"pieces/[0-9]{16}", name):
            self._pieces.append(name)
            # They are numbered without a gap.
            return [name, f"pieces/{len(self._pieces) - 1:016}"]
        if PAST_NOTE(name):
            note, proof = name, f"{name[:21]}.consistency"
            files = (self._archive.read(note), self._archive.read(proof))
            self.past.append(read_past(int(name[5:21]), *files))
            return [note, proof]
        return []

    def _take_body(self, name: str) -> list[str]:
        folder, index, body = name.split("/")
        place, salt = (int(index), body), f"salts/{index}/{body}"
        if folder == "spans":
            if not self._shares:
                return []
            require(place not in self.bodies, f"body {body!r} of entry {place[0]} is there twice")
            self._lists.append(place)
        self.bodies[place] = (salt, name)
        return [name, salt]

    def _check_lists(self, max_bytes: int) -> int:
        """Check every list before any body is put together, and return the sum of all bodies."""
        for place in self._lists:
            self._shared.add(place, self._archive.read(self.bodies[place][1]))
        whole = [name for place, (_, name) in self.bodies.items() if place not in self._shared.rows]
        inline = sum(self._archive.members[name].size for name in whole)
        total = self._shared.finish(inline, max_bytes)
        read_note(self.checkpoint)
        return total

    def entry(self, index: int) -> tuple[bytes, BundleProof]:
        """Return an entry with its proof."""
        proof = self._archive.read(f"proofs/{index:016}.{self._proofs}")
        if not self._shares:
            return self.data(index), read_proof(proof)
        nodes = read_hash_lines(proof, "inclusion")
        require(len(nodes) <= 63, "the proof file has more than 63 hashes")
        return self.data(index), BundleProof(index, nodes, self.checkpoint)

    def data(self, index: int) -> bytes:
        """Return the bytes of an entry."""
        return self._archive.read(f"entries/{index:016}.json")

    def is_proven(self, index: int, tree: BundleCheckpoint) -> bool:
        """Return whether an entry is in the tree, which is checked before it costs more."""
        data, proof = self.entry(index)
        try:
            check_inclusion(proof.nodes, hash_leaf(data), index, tree)
        except BundleRejected:
            return False
        return proof.at == index

    def witness_records(
        self, tree: BundleCheckpoint, policy: BundlePolicy | None
    ) -> WitnessRecords:
        """Return the lines of witnesses that proven entries record, by size and root."""
        records, witnesses = WitnessRecords(), keys_by_claim(policy)
        for index in sorted(self.entries):
            data = self.data(index)
            if b'"witnessed/1"' not in data or not self.is_proven(index, tree):
                continue
            try:
                entry = read_entry(data)
            except BundleRejected:
                continue  # reported when the entry is checked
            place = (entry.log, entry.run, entry.strand, entry.kind)
            if place == (self.origin, "log", "witnessed", "witnessed/1"):
                lines = records.setdefault((entry.facts["size"], entry.facts["root"]), [])
                recorded = entry.facts.get("cosignatures", [])
                lines += [(*line, index, entry) for line in read_lines(recorded, witnesses)]
        return records

    def without_spans(self, index: int, entry: BundleEntry) -> BundleEntry:
        """Return an entry without its bodies in spans, which are then not put together.

        A short list describes a long body: whoever made up the entry must not have it hashed.
        """
        rows = self._shared.rows
        return entry._replace(
            bodies={n: body for n, body in entry.bodies.items() if (index, n) not in rows}
        )

    def body(self, index: int, name: str) -> bytes:
        """Return the content of a body."""
        if (index, name) in self._shared.rows:
            return self._shared.read((index, name))
        return self._archive.read(self.bodies[index, name][1])

    def has_matching_body(self, index: int, name: str, commitment: dict[str, Any]) -> bool:
        """Return whether a body matches the commitment in its entry."""
        salt_file, content = self.bodies[index, name]
        salt, row = self._archive.read(salt_file), self._shared.rows.get((index, name))
        start, size = self._archive.members[content][:2]
        size = row.size if row else size
        if len(salt) != 32 or size != commitment["size"]:
            return False
        digest = hashlib.sha256(b"forum/body/1\0" + salt + size.to_bytes(8, "big"))
        if row:
            digest.update(self._shared.read((index, name)))
        else:
            for piece in self._archive.pieces(start, size):
                digest.update(piece)
        return digest.hexdigest() == str(commitment["h"])


# == Problems, and the claim that each refutes: docs/spec/bundle.md, Findings ==================

INTACT, COMPLETE = "intact", "complete"
INDEPENDENT = "independent"
CLAIMS = (INTACT, COMPLETE, INDEPENDENT)
HOLDS, FAILS = "holds", "fails"
NOT_CHECKED = "not checked"
ACCORDS = (
    "the accords in run {}: `forum verify` compares them with the runs of the panels, if these are "
    "there"
)
NOTHING_CHECKED = {"state": NOT_CHECKED, "reason": "nothing was checked"}
NO_KEY = {"state": NOT_CHECKED, "reason": "you named no key of the log: nothing was checked"}
NO_TRUST_FILE = {
    "state": NOT_CHECKED,
    "reason": "you named no trust file: whether witnesses have seen it was not checked",
}

INTACT_REFUTED = (
    "bundle-altered entry-malformed foreign-entry proof-rejected signature-rejected "
    "link-broken parent-unknown body-mismatch report-invalid"
)
COMPLETE_REFUTED = (
    "position-missing position-doubled cause-missing run-unopened after-close strand-unclosed "
    "body-missing hold-broken"
)
INDEPENDENT_REFUTED = (
    "history-replaced not-witnessed time-impossible past-unknown cosignature-missing"
)
REFUTED = {
    **dict.fromkeys(INTACT_REFUTED.split(), INTACT),
    **dict.fromkeys(COMPLETE_REFUTED.split(), COMPLETE),
    **dict.fromkeys(INDEPENDENT_REFUTED.split(), INDEPENDENT),
}
PACK_REFUTED = {
    **REFUTED,
    "root-mismatch": INTACT,
    **dict.fromkeys(["entry-missing", "tail-cut"], COMPLETE),
}
"""With the problems that only the log part of a pack can have."""


class BundleFindings:
    """A collector of findings; beyond a thousand, it only counts them."""

    def __init__(self, refuted: dict[str, str] = REFUTED) -> None:
        self._refuted = refuted
        self.listed: list[dict[str, Any]] = []
        self.count = 0
        self._first: dict[str, str] = {}

    def add(
        self, problem: str, detail: str, index: int | None = None, entry: BundleEntry | None = None
    ) -> None:
        """Add a finding."""
        claim = self._refuted[problem]
        finding = {"problem": problem, "claim": claim, "detail": detail, "index": index}
        finding["entry"] = f"{entry.run}/{entry.strand}/{entry.n}" if entry else None
        self.count += 1
        self._first.setdefault(claim, describe(finding))
        self.listed += [finding] if self.count <= 1000 else []

    def judge_claim(self, claim: str, reason: str, unknown: str = "") -> dict[str, str]:
        """Return the result of a claim: it holds unless there is a finding or an unknown."""
        if claim in self._first:
            return {"state": FAILS, "reason": self._first[claim]}
        return {"state": NOT_CHECKED if unknown else HOLDS, "reason": unknown or reason}


def describe(finding: dict[str, Any]) -> str:
    """Return a finding as one line of text."""
    index = [] if finding["index"] is None else [f"entry {finding['index']}"]
    place = ", ".join(index + ([finding["entry"]] if finding["entry"] else []))
    return f"{finding['problem']}{place and ' at '}{place}: {finding['detail']}"


# == The run: strands, causes, bodies and times ================================================

MAX_CLOCK_SKEW_US = 300 * 1_000_000
"""The clock error of a writer, in microseconds, up to which its times are accepted."""


def read_ends(data: bytes) -> dict[str, tuple[int, str]]:
    """Parse the body `strands` of a run close: a list of [name, last n, last leaf hash]."""
    ends = read_json(data)
    require(type(ends) is list and all(type(end) is list for end in ends), "not a list of lists")
    for end in ends:
        require(
            [type(part) for part in end] == [str, int, str] and is_count(end[1]),
            "a line that is not name, n and leaf hash",
        )
    listed = {name: (n, head) for name, n, head in ends}
    require([end[0] for end in ends] == sorted(listed), "not in the order of the names")
    return listed


def redacted_bodies(entry: BundleEntry) -> Iterator[tuple[str, str]]:
    """Yield entry id and name of each body that an entry redacts, if it is a redaction in force.

    Elsewhere it has no effect: the writer of a run must not be able to explain away its gaps.
    """
    place, facts = (entry.run, entry.strand, entry.kind), entry.facts
    if place == ("log", "main", "redact/1"):
        if list(entry.parents[:1]) == [facts["entry"]]:
            yield facts["entry"], facts["body"]
    elif place in {("log", "retention", "redact/2"), ("log", "retention", "redact/3")}:
        targets = entry.parents[: len(facts["runs"])] if "runs" in facts else entry.parents
        for text in facts["bodies"]:
            parent, _, name = text.partition("/")
            formed = matches("0|[1-9][0-9]?", parent) and matches(BODY_NAME, name)
            if formed and int(parent) < len(targets):
                yield targets[int(parent)], name


class RecordedHolds:
    """The holds in force at a place of the log; fed with its entries in their order."""

    def __init__(self) -> None:
        self._holds: dict[str, list[str]] = {}

    def add(self, entry: BundleEntry) -> None:
        """Follow an entry, if it places or releases a hold."""
        if (entry.run, entry.strand, entry.kind) != ("log", "retention", "hold/1"):
            return
        if entry.facts["act"] == "place":
            self._holds[entry.facts["hold"]] = entry.facts.get("runs", [])
        else:
            self._holds.pop(entry.facts["hold"], None)

    def find_hold(self, run: str) -> str | None:
        """Return the name of a hold that keeps what a run has recorded, or None."""
        names = (name for name, runs in self._holds.items() if not runs or run in runs)
        return min(names, default=None)


class BundleRunChecker:
    """A checker that receives entries in index order and follows those of the bundle's run."""

    def __init__(self, bundle: BundleContents, findings: BundleFindings) -> None:
        self._bundle, self._find = bundle, findings.add
        self._ids: set[str] = set()
        self._strands: dict[str, tuple[int, str]] = {}
        self._absent: dict[tuple[str, str], tuple[int, BundleEntry]] = {}
        self._redacted: set[tuple[str, str]] = set()
        self._holds = RecordedHolds()
        self._own: set[str] = set()
        """The ids of the entries of the run that have bodies."""
        self.signed: dict[tuple[int, str], int] = {}
        """The cosignature time of each signed tree, by size and root; 0 if it is unknown."""
        self.cosigned: dict[int, int] = {}
        self._floor = self.openings = 0
        self._first = self._last = -1
        """The indexes of the first and of the last entry of the run."""
        self.open = self.closed = self.unlisted = False
        self.bodies = {"ok": 0, "redacted": 0, "missing": 0, "mismatch": 0}

    def check_entry(self, index: int, leaf: str, entry: BundleEntry) -> None:
        """Check one entry against all entries before it."""
        if entry.log != self._bundle.origin:
            self._find("foreign-entry", f"it belongs to {entry.log}", index, entry)
        if entry.run == self._bundle.run:
            self._first, self._last = self._first if self._last >= 0 else index, index
            self._check_successor(index, leaf, entry)
            self._check_parents(index, entry)
            self._check_bodies(index, leaf, entry)
            if entry.bodies:
                self._own.add(leaf)
        self._holds.add(entry)
        self._check_redaction(index, entry)
        self._redacted.update(redacted_bodies(entry))
        self._ids.add(leaf)

    def _check_redaction(self, index: int, entry: BundleEntry) -> None:
        """Report a redaction of the run that stands behind a hold, or under another run's name."""
        named = entry.facts.get("runs", []) if entry.kind == "redact/3" else []
        run = self._bundle.run
        for target, name in redacted_bodies(entry):
            if target not in self._own:
                continue
            place = entry.parents.index(target)
            if named and named[place] != run:
                detail = f"its parent {place} is an entry of run {run}, not of {named[place]}"
                self._find("parent-unknown", detail, index, entry)
                return
            hold = self._holds.find_hold(run)
            if hold is not None:
                detail = f"it erases body {name!r} of run {run}, which hold {hold} keeps"
                self._find("hold-broken", detail, index, entry)
                return

    def finish(self) -> None:
        """Report an empty run and missing bodies; call this after all entries."""
        if not self.openings:
            self._find("run-unopened", f"there is no entry of run {self._bundle.run}")
        for (leaf, name), (index, entry) in self._absent.items():
            if (leaf, name) in self._redacted:
                self.bodies["redacted"] += 1
            else:
                self.bodies["missing"] += 1
                detail = f"body {name!r} is missing, and no redaction explains it"
                self._find("body-missing", detail, index, entry)

    def _check_successor(self, index: int, leaf: str, entry: BundleEntry) -> None:
        """Check that the entry is the next of its strand, in position, link and time."""
        if entry.strand not in self._strands:
            self._begin_strand(index, entry)
        n, head = self._strands[entry.strand]
        if entry.n < n:
            self._find("position-doubled", f"an earlier entry has position {entry.n}", index, entry)
        elif entry.n > n:
            detail = f"positions {n} to {entry.n - 1} of the strand are missing"
            self._find("position-missing", detail, index, entry)
        elif entry.prev != head:
            self._find("link-broken", "prev is not the id of the entry before it", index, entry)
        self._strands[entry.strand] = (max(n, entry.n + 1), leaf)
        self._check_time(index, entry)
        if entry.strand == "main" and entry.kind == "run.close/1":
            self._check_close(index, entry)

    def _check_time(self, index: int, entry: BundleEntry) -> None:
        """Check that the time of the entry is between those of the cosigned trees around it."""
        floor, ceiling = self.time_bounds(index)
        if (
            not max(floor, self._floor) - MAX_CLOCK_SKEW_US
            <= entry.ts
            <= ceiling + MAX_CLOCK_SKEW_US
        ):
            late = "ahead" if entry.ts > ceiling else "behind"
            detail = (
                f"the times of witnesses contradict its time {entry.ts // 1_000_000}. "
                f"The clock of the machine that wrote it was probably {late}"
            )
            self._find("time-impossible", detail, index, entry)

    def interval(self) -> dict[str, int | None]:
        """Return when the run was written, as far as witnessed checkpoints prove it."""
        if self._last < 0:
            return {"after": None, "before": None}
        before = [time for size, time in self.cosigned.items() if size <= self._first]
        behind = [time for size, time in self.cosigned.items() if size > self._last]
        # The root that the opening names cannot be known before its tree is there.
        after, until = max([self._floor, *before]), min(behind, default=0)
        return {"after": after // 1_000_000 or None, "before": until // 1_000_000 or None}

    def time_bounds(self, index: int) -> tuple[int, int]:
        """Return the times after which and before which an entry got its index."""
        before = [time for size, time in self.cosigned.items() if size <= index]
        behind = [time for size, time in self.cosigned.items() if size > index]
        return max([0, *before]), min([MAX_COUNT - MAX_CLOCK_SKEW_US, *behind])

    def _begin_strand(self, index: int, entry: BundleEntry) -> None:
        """Register the first entry of a strand, which may also be the first of the run."""
        if self.closed:
            self._find("after-close", "the run was closed before this entry", index, entry)
        if not self.open:
            self.open = True
            self.openings += 1
            self._check_opening(index, entry)
        if entry.strand != "main" and not entry.parents:
            self._find("cause-missing", "the first entry of a strand has no parent", index, entry)
        self._strands[entry.strand] = (0, "")

    def _check_opening(self, index: int, entry: BundleEntry) -> None:
        """Check that a run begins with run.open after a signed tree, and a log with log.open."""
        past = (entry.facts.get("after_size", 0), entry.facts.get("after_root", ""))
        if entry.kind != ("log.open/1" if entry.run == "log" else "run.open/1"):
            self._find("run-unopened", "the first entry is not log.open or run.open", index, entry)
        elif past[0] and past in self.signed:
            self._floor = self.signed[past]
        elif past[0] and self.signed:
            detail = f"it names a checkpoint of size {past[0]} that is not in the bundle"
            self._find("past-unknown", detail, index, entry)

    def _check_close(self, index: int, entry: BundleEntry) -> None:
        """Compare the list of strands in a run close with the strands that were seen."""
        del self._strands["main"]
        strands = {name: (n - 1, head) for name, (n, head) in self._strands.items()}
        listed = self._read_ends(index, entry)
        if listed is None:
            self.unlisted, listed = True, strands
        wrong = {name for name, _ in listed.items() ^ strands.items()}
        if wrong or entry.facts["strands"] != len(strands):
            detail = f"the close does not match the strands {', '.join(sorted(wrong))}"
            self._find("strand-unclosed", detail, index, entry)
        self._strands.clear()
        self.open, self.closed = False, True

    def _read_ends(self, index: int, entry: BundleEntry) -> dict[str, tuple[int, str]] | None:
        """Return the strands that a close lists; None if the list is missing or altered.

        The check of the body reports why it is missing.
        """
        commitment, bundle = entry.bodies.get("strands"), self._bundle
        there = (index, "strands") in bundle.bodies
        if commitment and not (there and bundle.has_matching_body(index, "strands", commitment)):
            return None
        try:
            return read_ends(bundle.body(index, "strands") if commitment else b"")
        except BundleRejected:
            return {"": (0, "")}  # a malformed list matches no strands

    def _check_parents(self, index: int, entry: BundleEntry) -> None:
        for parent in entry.parents:
            if parent not in self._ids:
                self._find("parent-unknown", f"no earlier entry has the id {parent}", index, entry)

    def _check_bodies(self, index: int, leaf: str, entry: BundleEntry) -> None:
        for name, commitment in entry.bodies.items():
            if (index, name) not in self._bundle.bodies:
                self._absent[leaf, name] = (index, entry)
            elif self._bundle.has_matching_body(index, name, commitment):
                self.bodies["ok"] += 1
            else:
                self.bodies["mismatch"] += 1
                detail = f"body {name!r} does not match its commitment"
                self._find("body-mismatch", detail, index, entry)


# == Reported runs: docs/spec/report.md ========================================================

NO_LIMIT = MAX_COUNT
"""The cap that stands for none."""


class BundleReportChecker:
    """A checker of a run that Forum does not drive: its source, spans, cap and gaps."""

    def __init__(self, findings: BundleFindings) -> None:
        self._find = findings.add
        self._words: list[str] = []
        """`driven` for a request, and what each source says."""
        self._opened = 0
        self._gaps: dict[str, list[int]] = {}
        self._begun: dict[str, dict[str, Any]] = {}
        """The facts of the beginnings of spans without an end, by strand."""
        self._cap: list[int] = []
        self._used, self._overrun = [0, 0, 0], [0, 0, 0]

    def check_entry(self, index: int, entry: BundleEntry) -> None:
        """Check one entry of the run, and count what it says about coverage."""
        facts, fault = entry.facts, ""
        if entry.kind == "run.open/1" and entry.strand == "main":
            self._opened += 1
        elif entry.kind == "accepted/1" and entry.strand == "main":
            self._words.append("driven")
        elif entry.kind == "report.source/1":
            fault = self._check_source(entry)
        elif entry.kind == "report.gap/1":
            count = self._gaps.setdefault(facts["why"], [0, 0])
            count[0], count[1] = count[0] + 1, count[1] + facts["steps"]
        elif entry.kind in ("report.begin/1", "report.step/1"):
            fault = self._check_span(entry)
        if fault:
            self._find("report-invalid", fault, index, entry)

    def _check_source(self, entry: BundleEntry) -> str:
        facts = entry.facts
        if entry.strand == "main":
            cap = [facts.get(unit, NO_LIMIT) for unit in ("usd", "tokens", "calls")]
            self._cap = cap if cap != [NO_LIMIT] * 3 else []
        if (entry.strand, entry.n) != ("main", 1):
            return "the source of a run does not follow its opening"
        self._words.append(facts["told"])
        return ""

    def _check_span(self, entry: BundleEntry) -> str:
        """Check that a span has at most one beginning and one end, and that they agree."""
        facts, begins = entry.facts, entry.kind == "report.begin/1"
        begun = None if begins else self._begun.pop(entry.strand, None)
        self._count(facts, begun, begins=begins, settles=bool(entry.n))
        if begins:
            self._begun[entry.strand] = facts
        if entry.strand != f"span/{facts['span']}":
            return f"it names the span {facts['span']}, which is not that of its strand"
        if begins:
            return "the beginning of a span is not its first entry" if entry.n else ""
        if entry.n > 1:
            return "a span has more than one beginning and one end"
        if entry.n and begun is None:
            return "a span has two ends"
        if begun and any(begun[name] != facts[name] for name in ("op", "name")):
            what, other = (f"{f['op']} {f['name']}" for f in (facts, begun))
            return f"it ends {what}, and {other} was begun"
        return ""

    def _count(
        self, facts: dict[str, Any], begun: dict[str, Any] | None, *, begins: bool, settles: bool
    ) -> None:
        """Add a reservation, or replace it by what the step cost; a first entry settles nothing."""
        if begins:
            spent = [facts.get(unit, 0) for unit in ("usd", "tokens", "calls")]
            self._used = [used + more for used, more in zip(self._used, spent)]
        elif settles:
            tokens = facts.get("input_tokens", 0) + facts.get("output_tokens", 0)
            reserved = [(begun or {}).get(unit, 0) for unit in ("usd", "tokens")]
            # A call that was not made is given back; all others were counted when they began.
            not_made = facts["outcome"] == "cancelled" and facts.get("code") == "not-made"
            calls = -(begun or {}).get("calls", 0) if not_made else 0
            more = [facts.get("usd", 0) - reserved[0], tokens - reserved[1], calls]
            self._used = [used + change for used, change in zip(self._used, more)]
            if begun:
                self._overrun = [o + max(0, change) for o, change in zip(self._overrun, more)]

    def finish(self, run: str, *, closed: bool) -> None:
        """Compare what a closed run has spent with its cap.

        While a run is open, a settlement may be missing in the bundle.
        """
        units = ("nano-dollars", "tokens", "calls")
        for unit, used, cap, over in zip(units, self._used, self._cap, self._overrun):
            if closed and used > cap + over:
                detail = f"run {run} has used {used} {unit}, and may use {cap}"
                self._find("report-invalid", detail)
                return

    def coverage(self) -> dict[str, Any]:
        """Return how the run is known, and which steps are known to be missing."""
        words = {word: self._words.count(word) for word in PROVENANCES}
        # A run without a request and without a source is reported: nobody says how it came about.
        words["reported"] += max(0, self._opened - len(self._words))
        gaps = [
            {"why": why, "gaps": count, "steps": steps}
            for why, (count, steps) in sorted(self._gaps.items())
        ]
        return {**words, "gaps": gaps}


PROVENANCES = ("driven", "relayed", "wrapped", "reported")


def describe_coverage(coverage: dict[str, Any]) -> str:
    """Return how runs are known as text.  It is no claim: what was not told cannot be checked."""
    counts = [f"{coverage[word]} {word}" for word in PROVENANCES if coverage[word]]
    parts = [f"runs: {', '.join(counts) or 'none'}"]
    if coverage["gaps"]:
        listed = ", ".join(f"{gap['why']} {gap['steps'] or '?'}" for gap in coverage["gaps"])
        parts.append(f"steps known to be missing: {listed}")
    if any(coverage[word] for word in PROVENANCES[1:]):
        parts.append("what was not told to Forum is not in the log")
    return "; ".join(parts)


# == The keys of a log: docs/spec/entry.md, Keys of a log ======================================


class BundleKeyRotation(NamedTuple):
    """A rotation from one log key to the next, recorded by the entry at this index."""

    at: int
    old: BundleKey
    new: BundleKey
    signatures: Members | None
    """The facts that both keys have signed; None in an entry of release 0.2."""

    def is_signed(self, origin: str) -> bool:
        """Return whether the signatures of both keys hold."""
        facts = self.signatures
        return facts is not None and keys_have_signed(
            "key.rotate/2", origin, facts, (facts["old"], facts["vkey"])
        )


def keys_have_signed(kind: str, origin: str, facts: Members, keys: tuple[str, str]) -> bool:
    """Return whether both keys have signed the statement of an entry."""
    message = f"forum/{kind}\n{origin}\n{facts['since']}\n{keys[0]}\n{keys[1]}\n".encode()
    try:
        pairs = zip(map(read_key, keys), map(read_base64, (facts["signed"], facts["proof"])))
        return all(signature_holds(key.public, message, blob) for key, blob in pairs)
    except BundleRejected:
        return False


class BundleSignedTree(NamedTuple):
    """The size of a checkpoint, and its note, whose signatures are verified when they decide."""

    size: int
    note: BundleNote

    def is_signed_by(self, key: BundleKey) -> bool:
        """Return whether the first signature that names a key holds."""
        blobs = [blob for _, blob in self.note.signatures_by([key])]
        text = self.note.text.encode()
        return bool(blobs) and signature_holds(key.public, text, blobs[0])


def read_key_rotation(origin: str, index: int, data: bytes) -> BundleKeyRotation | None:
    """Return the key rotation that an entry records, if it records one of this log."""
    try:
        entry = read_entry(data)
        kinds = ("key.rotate/1", "key.rotate/2")
        if entry.kind not in kinds or (entry.run, entry.strand) != ("log", "keys"):
            return None
        old, new = read_key(entry.facts["old"]), read_key(entry.facts["vkey"])
        ours = {(key.name, key.algorithm) for key in (old, new)} == {(origin, LOG_KEY)}
        require(ours and old != new and entry.log == origin, "not a rotation of this log")
        require(index >= entry.facts.get("since", 0), "not a rotation at this index")
    except BundleRejected:
        return None  # reported when the entry is checked
    return BundleKeyRotation(index, old, new, entry.facts if entry.kind == kinds[1] else None)


def read_signed_tree(data: bytes) -> BundleSignedTree | None:
    """Return a checkpoint with its signatures, or None if it is malformed."""
    try:
        note = read_note(data)
        return BundleSignedTree(read_checkpoint(note.text).size, note)
    except BundleRejected:
        return None


def check_rotation_count(count: int) -> None:
    """Refuse more hand-overs of a log than any log needs."""
    require(count <= MAX_ROTATIONS, f"more than {MAX_ROTATIONS} hand-overs of the log")


def read_rotations(bundle: BundleContents, tree: BundleCheckpoint) -> list[BundleKeyRotation]:
    """Return the key rotations of a bundle that are proven to be in the tree."""
    rotations, count = [], 0
    for index in sorted(bundle.entries):
        data = bundle.data(index)
        if b'"key.rotate/' not in data:
            continue
        count += 1
        check_rotation_count(count)
        if not bundle.is_proven(index, tree):
            continue  # reported when the entry is checked
        rotation = read_key_rotation(bundle.origin, index, data)
        rotations += [rotation] if rotation else []
    return rotations


def continued_notes(
    newest: bytes, past: list[BundlePastCheckpoint], tree: BundleCheckpoint
) -> list[bytes]:
    """Return the checkpoint and the earlier ones that it continues, whoever signed them."""
    notes = [newest]
    for earlier in past:
        try:
            check_consistency(earlier.nodes, read_checkpoint(read_note(earlier.note).text), tree)
        except BundleRejected:
            continue
        notes.append(earlier.note)
    return notes


def bundle_keys(bundle: BundleContents, pinned: list[BundleKey]) -> BundleLogKeys:
    """Return the keys of the log that follow from the rotations in a bundle."""
    try:
        tree = read_checkpoint(read_note(bundle.checkpoint).text)
    except BundleRejected:
        return BundleLogKeys(bundle.origin, pinned, [], [])
    notes = continued_notes(bundle.checkpoint, bundle.past, tree)
    return BundleLogKeys(bundle.origin, pinned, read_rotations(bundle, tree), notes)


class BundleLogKeys:
    """The keys of the log that follow from the reader's keys by key rotations."""

    def __init__(
        self,
        origin: str,
        pinned: list[BundleKey],
        rotations: list[BundleKeyRotation],
        notes: list[bytes],
    ) -> None:
        """Read `notes`, the checkpoints of one history, as far as rotations need them."""
        self._origin = origin
        self._pinned = [key for key in pinned if key[:2] == (origin, LOG_KEY)]
        self.accepted = list(self._pinned)
        self._since: dict[BundleKey, int] = {}
        self._until: dict[BundleKey, int] = {}
        self._followed: list[int] = []
        """The indexes of the rotations that were followed."""
        self._retired: set[BundleKey] = set()
        rotations = sorted(rotations, key=lambda h: h.at) if self._pinned else []
        if rotations:
            opened = [read_signed_tree(note) for note in notes]
            self._follow(rotations, [signed for signed in opened if signed])
        self.notices = [self._describe(rotation) for rotation in rotations]
        """One sentence for each hand-over, followed or not."""

    def _follow(self, rotations: list[BundleKeyRotation], trees: list[BundleSignedTree]) -> None:
        """Accept the keys after the pinned ones in log order, then those before them in reverse."""
        for rotation in rotations:
            if rotation.old in self.accepted and rotation.is_signed(self._origin):
                self._accept_rotation(rotation, rotation.old, trees)
        for rotation in reversed(rotations):
            if rotation.new in self.accepted and (
                self._leads_back(rotation)
                if rotation.signatures is None
                else rotation.at in self._followed or rotation.is_signed(self._origin)
            ):
                self._accept_rotation(rotation, rotation.new, trees)

    def _leads_back(self, rotation: BundleKeyRotation) -> bool:
        """Return whether an unsigned rotation may lead from an accepted key to an earlier one.

        Of two keys that the reader pins, the first is the newer: a writer must not turn them round.
        """
        old, new = rotation.old, rotation.new
        pinned = self._pinned
        return old not in pinned or (new in pinned and pinned.index(new) < pinned.index(old))

    def _accept_rotation(
        self, rotation: BundleKeyRotation, signer: BundleKey, trees: list[BundleSignedTree]
    ) -> None:
        """Accept both keys of a rotation if a tree that the accepted one signed contains it.

        The old key is valid only up to the first tree that the new key has signed.
        """
        index, old, new, signatures = rotation
        if not any(t.size > index and self._has_signed(signer, t) for t in trees):
            return
        self._followed.append(index)
        self._retired.add(old)
        self.accepted = list(dict.fromkeys([*self.accepted, old, new]))
        if signatures is not None:
            self._since[new] = index + 1
        first = [t.size for t in trees if t.size > index and self._has_signed(new, t)]
        # A reader who pins the new key knows that it is in use: then the old one ends in any case.
        if first or new in self._pinned:
            self._until[old] = min([*first, self._until.get(old, min(first, default=index))])

    def may_sign(self, key: BundleKey, size: int) -> bool:
        """Return whether a key may sign a tree of this size."""
        since, until = self._since.get(key, 0), self._until.get(key, size)
        return key in self.accepted and since <= size <= until

    def _has_signed(self, key: BundleKey, tree: BundleSignedTree) -> bool:
        return self.may_sign(key, tree.size) and tree.is_signed_by(key)

    def _describe(self, rotation: BundleKeyRotation) -> str:
        old, new = rotation.old.id.hex(), rotation.new.id.hex()
        text = f"entry {rotation.at} hands the log over from key {old} to key {new}"
        is_followed = rotation.at in self._followed
        if rotation.signatures is not None:
            refused = "it was not followed, because a signature does not hold, or nothing leads "
            return f"{text}: {'both have signed that' if is_followed else refused + 'to it'}"
        back = "it was read back from the key that you pin"
        refused = "it was not followed; ask the owner for the newest key, and pin that one"
        text = f"{text} without their signatures, as release 0.2 wrote it"
        return f"{text}: {back if is_followed else refused}"

    def check_signer(self, note: bytes) -> None:
        """Refuse a checkpoint that is not signed by a key that was valid at its size."""
        several = len([key for key in self._pinned if key not in self._retired]) > 1
        require(
            not several,
            "you pin several keys of this log, and no hand-over between them is here; pin the "
            "newest one only; if this was exported before the hand-over, ask for a new export",
        )
        tree = read_signed_tree(note) if self._followed else None
        allowed = not self._followed or (
            tree and any(self._has_signed(key, tree) for key in self.accepted)
        )
        require(allowed, "signed by a key that was not valid at this size")


# == The verification ==========================================================================


class BundleTrust(NamedTuple):
    """The keys, trust file and remembered checkpoints of the reader; none come from a bundle."""

    keys: list[BundleKey]
    policy: BundlePolicy | None
    seen: list[bytes]
    max_bytes: int = MAX_BODY_BYTES
    """How many bytes the bodies of a file may have together."""

    def describe_foreign(self, origin: str, what: str) -> str:
        """Return one sentence if all trusted keys are of other logs than `origin`, or nothing."""
        keys = self.keys + (self.policy.logs if self.policy else [])
        names = sorted({key.name for key in keys})
        if not names or origin in names:
            return ""
        ends = [n if len(n) <= 20 else f"\u2026{n[-8:]}" for n in [*names, origin]]
        if len(set(ends)) < len(ends):
            ends = [*names, origin]
        yours = "trust file is for" if self.policy else "key is of"
        logs = "log" if len(names) == 1 else "logs"
        return f"Your {yours} the {logs} {' and '.join(ends[:-1])}; this {what} is of {ends[-1]}."

    def judge_witnessing(self, claim: dict[str, str], seen: list[BundleCosignature]) -> str:
        """Return who has seen it: only the reader's own mark makes a witness independent."""
        if claim["state"] != HOLDS or not self.policy:
            return "none"
        marked = any(self.policy.is_independent(key, self.keys) for key, _ in seen)
        return "independent" if marked else "self-witnessed"


UNBOUNDED = {
    "after": "when the run began: it is not bounded below, because no tree before it is cosigned "
    "as your trust file asks; it may be newer than its times say",
    "before": "when the run was there: it is not bounded above, because no tree with all of it is "
    "cosigned as your trust file asks",
}


class BundleVerifier:
    """The state of one verification of a bundle."""

    def __init__(
        self, bundle: BundleContents, trust: BundleTrust, findings: BundleFindings
    ) -> None:
        self._bundle, self._findings = bundle, findings
        self._trust = trust
        self._policy, self._memories = trust.policy, trust.seen
        pinned = list(dict.fromkeys(trust.keys + (trust.policy.logs if trust.policy else [])))
        self._log_keys = bundle_keys(bundle, pinned)
        self._keys = list(dict.fromkeys(pinned + self._log_keys.accepted))
        self._run = BundleRunChecker(bundle, findings)
        self._reports = BundleReportChecker(findings)
        self._notices = list(self._log_keys.notices)
        self._committed: set[tuple[int, str]] = set()
        """The entry index and name of each body that entries of the run commit to."""
        self._unknown: list[str] = []
        """The kind of each entry of an unknown kind."""
        self._has_turns = self._has_request = self._has_accord = False
        self._subjects: list[str] = []
        self._tree = self._open(bundle.checkpoint) if self._keys else None
        self._seen = self._verify_cosignatures(bundle.checkpoint)

    def run(self) -> dict[str, Any]:
        """Check the checkpoints, then each entry with its proof, then gaps; return the report."""
        if self._tree is not None:
            if self._tree.origin != self._bundle.origin:
                self._findings.add("bundle-altered", "the checkpoint is of another log")
            self._check_past(self._tree)
            self._check_memories(self._tree)
        for index in self._bundle.entries:
            self._check_entry(index)
        if self._policy and not self._policy.is_satisfied_by(self._seen):
            self._findings.add(
                "not-witnessed", "the witnesses of your trust file have not cosigned it"
            )
        self._run.finish()
        self._check_strays()
        self._reports.finish(self._bundle.run, closed=self._run.closed)
        return self._report()

    def _open(self, note: bytes, *, own: bool = True) -> BundleCheckpoint | None:
        """Return a checkpoint that a trusted key has signed, or add a finding and return None.

        For a checkpoint of the bundle itself, the key must have been valid at its size.
        """
        try:
            checkpoint = open_checkpoint(note, self._keys)
            if own:
                self._log_keys.check_signer(note)
        except BundleRejected as error:
            self._findings.add("signature-rejected", f"checkpoint: {error}")
            return None
        return checkpoint

    def _verify_cosignatures(self, note: bytes) -> list[BundleCosignature]:
        """Return the valid cosignatures of trusted witnesses on a checkpoint."""
        try:
            keys = list(self._policy.witnesses.values()) if self._policy else []
            return read_cosignatures(note, keys) if self._policy else []
        except BundleRejected as error:
            self._findings.add("signature-rejected", f"cosignature: {error}")
            return []

    def _check_past(self, newest: BundleCheckpoint) -> None:
        """Check that this tree continues the earlier ones, whose times bound those of the run."""
        checkpoints, times = [newest], dict[int, int]()
        records = self._bundle.witness_records(newest, self._policy)
        self._take_time(times, newest, self._seen)
        for past in self._bundle.past:
            checkpoint = self._open(past.note)
            if checkpoint is None:
                continue
            try:
                check_consistency(past.nodes, checkpoint, newest)
            except BundleRejected as error:
                self._findings.add("history-replaced", f"an earlier checkpoint: {error}")
                continue
            checkpoints.append(checkpoint)
            cosigned = self._verify_cosignatures(past.note)
            cosigned += self._restore_cosignatures(records, checkpoint, read_note(past.note))
            self._take_time(times, checkpoint, cosigned)
        sizes = sorted(times)
        # A witness may state a time beyond the largest that an entry can have.  It limits the time
        # of no entry, so it is ignored.
        selected = consistent_times([t if (t := times[s]) <= MAX_COUNT else 0 for s in sizes])
        self._run.cosigned = {size: time for size, time in zip(sizes, selected) if time}
        self._notice_wrong_clocks(times)
        for checkpoint in checkpoints:
            time = self._run.cosigned.get(checkpoint.size, 0)
            self._run.signed[checkpoint.size, checkpoint.root.hex()] = time

    def _restore_cosignatures(
        self, records: WitnessRecords, checkpoint: BundleCheckpoint, note: BundleNote
    ) -> list[BundleCosignature]:
        """Return the cosignatures that the log recorded and that are not below the note."""
        restored, seen = [], set(note.signatures)
        witnessed = set[BundleKey]()
        named = {signature[:2] for signature in note.signatures}
        lines = records.get((checkpoint.size, checkpoint.root.hex()), [])
        for key, signature, index, entry in lines:
            if key in witnessed or signature in seen:
                continue
            witnessed.add(key)
            name = signature[0]
            try:
                restored.append(check_cosignature(note.text, signature[2], key))
            except BundleRejected:
                detail = f"the recorded cosignature of {name} does not hold"
                self._findings.add("signature-rejected", detail, index, entry)
                continue
            # A witness that was asked twice has two cosignatures, and the note one of them.
            if signature[:2] not in named:
                detail = f"the checkpoint of size {checkpoint.size} lacks the cosignature of {name}"
                detail += " that the log recorded"
                self._findings.add("cosignature-missing", detail, index, entry)
        return restored

    def _take_time(
        self,
        times: dict[int, int],
        checkpoint: BundleCheckpoint,
        cosignatures: list[BundleCosignature],
    ) -> None:
        """Record the time at which the quorum had cosigned a tree, if it had."""
        time = self._policy.quorum_time(cosignatures) * 1_000_000 if self._policy else 0
        if time:
            times[checkpoint.size] = min(time, times.get(checkpoint.size, time))

    def _notice_wrong_clocks(self, times: dict[int, int]) -> None:
        """Add a notice about ignored times that are off by more than the tolerance."""
        wrong = []
        for size in sorted(times.keys() - self._run.cosigned.keys()):
            floor, ceiling = self._run.time_bounds(size - 1)[0], self._run.time_bounds(size)[1]
            if not floor - MAX_CLOCK_SKEW_US <= times[size] <= ceiling + MAX_CLOCK_SKEW_US:
                wrong.append(size)
        if wrong:
            sizes = ", ".join(map(str, wrong[:5])) + (", ..." if len(wrong) > 5 else "")
            self._notices.append(
                f"the times of {len(wrong)} checkpoints (of size {sizes}) contradict the others "
                "and were not used: the clock of a witness was wrong"
            )

    def _check_memories(self, newest: BundleCheckpoint) -> None:
        """Compare with remembered checkpoints of the same size.

        For other sizes, a bundle has no consistency proof.
        """
        for old in dict.fromkeys([self._open(note, own=False) for note in self._memories]):
            if old and (old.origin, old.size) == newest[:2] and old.root != newest.root:
                detail = f"another tree of size {old.size} was seen before"
                self._findings.add("history-replaced", detail)

    def _check_entry(self, index: int) -> None:
        data, proof = self._bundle.entry(index)
        is_proven = False
        try:
            own = proof.at == index and proof.note == self._bundle.checkpoint
            require(own, "the proof is for another entry or checkpoint")
            if self._tree is not None:
                check_inclusion(proof.nodes, hash_leaf(data), index, self._tree)
                is_proven = True
        except BundleRejected as error:
            self._findings.add("proof-rejected", str(error), index)
        try:
            entry = read_entry(data)
        except BundleRejected as error:
            self._findings.add("entry-malformed", str(error), index)
            return
        checked = entry if is_proven else self._bundle.without_spans(index, entry)
        self._run.check_entry(index, hash_leaf(data).hex(), checked)
        if entry.kind not in KINDS:
            self._unknown.append(entry.kind)
        if entry.run == self._bundle.run:
            self._committed.update((index, name) for name in entry.bodies)
            self._has_turns = self._has_turns or entry.strand.startswith("turn/")
            self._has_request = self._has_request or entry.kind == "accepted/1"
            self._has_accord = self._has_accord or entry.kind == "accord/1"
            if entry.kind == "about/1" and entry.strand == "main":
                self._subjects.append(entry.facts["run"])
            self._reports.check_entry(index, entry)

    def _check_strays(self) -> None:
        """Add a finding for each body that no entry of the run commits to."""
        for index, name in self._bundle.bodies:
            if (index, name) not in self._committed:
                self._findings.add("bundle-altered", f"no entry commits to body {name!r}", index)

    def _judge_claims(self) -> dict[str, dict[str, str]]:
        """Return the results of the three claims, each with a reason."""
        answer, run = self._findings.judge_claim, self._run
        names = {c.key.name for c in self._seen}
        no_key, no_policy = NO_KEY, NO_TRUST_FILE
        proven = f"{len(self._bundle.entries)} entries, each proven in the signed tree"
        # Only a reader of the whole log can detect a run that was recorded twice.
        closed = "the run is closed, and no strand has a gap; "
        closed += "whether the log holds another version of this run was not checked"
        if any(self._reports.coverage()[word] for word in PROVENANCES[1:]):
            closed += "; what was not recorded cannot be missing here, see coverage"
        listed = run.closed and not run.unlisted
        unknown = "the run was open, or its list of strands redacted, when this was exported"
        cosigned = describe_witnesses(names, self._policy)
        return {
            INTACT: answer(INTACT, proven) if self._keys else no_key,
            COMPLETE: answer(COMPLETE, closed, "" if listed else unknown) if self._keys else no_key,
            INDEPENDENT: answer(INDEPENDENT, cosigned) if self._policy else no_policy,
        }

    def _report(self) -> dict[str, Any]:
        bundle, run = self._bundle, self._run
        kinds = self._unknown
        unknown = "the facts of {} entries of kind {}, unknown to this release"
        not_checked = [unknown.format(kinds.count(kind), kind) for kind in sorted(set(kinds))]
        if self._has_turns:
            not_checked.append(f"the deliberation of run {bundle.run}: `forum verify` plays it")
            not_checked += [
                f"the deliberation of run {bundle.run}: whether what it is about is the answer of "
                f"run {other}, which is not there"
                for other in self._subjects
            ]
        elif self._has_request:
            not_checked.append(f"the calls of run {bundle.run}: `forum verify` replays them")
            if self._has_accord:
                not_checked.append(ACCORDS.format(bundle.run))
        interval = run.interval()
        if self._policy and run.openings:
            not_checked += [UNBOUNDED[side] for side, time in interval.items() if time is None]
        claims = self._judge_claims()
        return {
            **unreadable_report(self._findings),
            "origin": bundle.origin,
            "size": self._tree.size if self._tree else 0,
            "root": self._tree.root.hex() if self._tree else "",
            **claims,
            "not_checked": not_checked,
            "entries": len(bundle.entries),
            "runs": run.openings,
            "open_runs": [bundle.run] if run.open and bundle.run != "log" else [],
            "bodies": run.bodies,
            "sightings": [self._describe_sighting(*sighting) for sighting in self._seen],
            "notices": self._notices,
            "coverage": self._reports.coverage(),
            "witnessing": self._trust.judge_witnessing(claims[INDEPENDENT], self._seen),
            "interval": interval,
        }

    def _describe_sighting(self, key: BundleKey, time: int) -> dict[str, Any]:
        marked = bool(self._policy and self._policy.is_independent(key, self._trust.keys))
        local = is_local_witness(key.name)
        return {"witness": key.name, "time": time, "same_machine": local, "independent": marked}


def describe_witnesses(names: set[str], policy: BundlePolicy | None) -> str:
    """Return who has cosigned, and how much that is worth."""
    cosigned = f"cosigned by {', '.join(sorted(names))}"
    if names and all(is_local_witness(name) for name in names):
        cosigned += ", a witness on the writer's own machine: as strong as that machine's owner"
    if policy and policy.min_witnesses() == 1:
        cosigned += "; one witness decides the time"
    return cosigned


def unreadable_report(findings: BundleFindings) -> dict[str, Any]:
    """Return the report of a bundle that is malformed."""
    unknown = {"state": NOT_CHECKED, "reason": "the bundle could not be read"}
    return {
        "schema": "forum.report/1",
        "ok": False,
        "origin": "",
        "size": 0,
        "root": "",
        INTACT: findings.judge_claim(INTACT, ""),
        COMPLETE: unknown,
        INDEPENDENT: unknown,
        "findings": findings.listed,
        "found": findings.count,
        "not_checked": ["everything in it"],
        "entries": 0,
        "runs": 0,
        "open_runs": [],
        "bodies": {"ok": 0, "redacted": 0, "missing": 0, "mismatch": 0},
        "pending": 0,
        "sightings": [],
        "epochs": [],
        "notices": [],
        "coverage": {**dict.fromkeys(PROVENANCES, 0), "gaps": []},
        "witnessing": "none",
        "interval": None,
    }


def foreign_report(origin: str, sentence: str) -> dict[str, Any]:
    """Return the report on a bundle of another log than those whose keys the reader trusts."""
    findings = BundleFindings()
    findings.add("signature-rejected", sentence)
    report = {**unreadable_report(findings), "origin": origin}
    report[INTACT] = {"state": FAILS, "reason": sentence}
    report[COMPLETE] = report[INDEPENDENT] = NOTHING_CHECKED
    return report


def verify(source: bytes | LazyFile, trust: BundleTrust) -> dict[str, Any]:
    """Verify one bundle and return the report; malformed content is a finding, not an error."""
    try:
        bundle = BundleContents(source, trust.max_bytes)
        if foreign := trust.describe_foreign(bundle.origin, "bundle"):
            return foreign_report(bundle.origin, foreign)
        report = BundleVerifier(bundle, trust, BundleFindings()).run()
    except BundleRejected as error:
        findings = BundleFindings()
        findings.add("bundle-altered", str(error))
        report = unreadable_report(findings)
    report["ok"] = all(report[claim]["state"] == HOLDS for claim in CLAIMS)
    return report


# == Evidence packs: docs/spec/evidence.md =====================================================

# <packs>
KNOWN_QUERIES = (
    (62, "e343ab82ee5dc0929a37e9f78ca3908171127ea28dc8294c1d66ae51182cb77a"),
    (60, "dfef25dddbbf58f47423bf68e86e080c1f56db51d26a1e20548304199d522cb9"),
    (58, "6fee9ca08cbc19a04d159cf549403c0daf0c4cc991f6f8b8a29bf7a1b18844ea"),
)
KNOWN_LIMITS = "5c4cda2111be40db657a6f4771f838f51cfd58034945e1edf5fc8d88452c4ebb"
KNOWN_MAPS = """
ai-act 2026-11 3c5d1b2eed42a7a157e629eb5f86d2096283d7b07a113fec242b19bfaf12878e
dora 2026-11 b0f6384e2b17b94746024daa683d0f37ea8ad6fd1b9bc8f30fe1aa8733991df6
gdpr 2026-11 5550a22b9352c4c06522d48bf7b16e29ec46079705e8d6a22677af619615572c
iso-42001 2026-11 919855802b728460497fd1d47e6ebd3c561230887e003501f93a0201c3962e12
nist-ai-rmf 2026-11 fa9fa90e5e3a463224d00d31be9f042df7e43f126535c5171977c1cd60ef6e9d
pci-dss 2026-11 0b52e5178319c567bfd1ac4f18e50833394723e5f77f1b60d60fa117586dffd4
soc2 2026-11 907804150476c4392b180e77a0d2f8064c9ae23c5055ea425f3ee6d0a328612e
"""
MAP_TITLES = """
ai-act EU AI Act (Regulation (EU) 2024/1689)
dora DORA (Regulation (EU) 2022/2554) and RTS (EU) 2024/1774
gdpr GDPR (Regulation (EU) 2016/679)
iso-42001 ISO/IEC 42001 (AI management systems)
nist-ai-rmf NIST AI Risk Management Framework 1.0
pci-dss PCI DSS 10.3, and NIST SP 800-53 AU-9
soc2 SOC 2 (Trust Services Criteria)
"""
EVENT_TABLE = """
access.grant/1 access; grants key {key} to {name}; scopes {scopes}; until {expires}
access.grant/2 access; grants key {key} to {name}; scopes {scopes}; until {expires}
access.revoke/1 access; revokes key {key}
key.add/1 access; publishes key {vkey}
key.add/2 access; publishes key {vkey}
key.rotate/1 access; replaces key {old}; new key {vkey}
key.rotate/2 access; replaces key {old}; new key {vkey}
config.seen/1 models; release {engine}; {changed}
config.seen/2 models; release {engine}; changed: {changed}; erased before it, not compared: {erased}
redact/1 erasure; erases {body} of entry {entry}; reason {reason}
redact/2 erasure; erases bodies {bodies} of its parents; reason {reason}; rule {rule}
redact/3 erasure; erases bodies {bodies} of its parents; runs {runs}; reason {reason}; rule {rule}
retention/1 erasure; keeps bodies of {subject} for {seconds}
hold/1 erasure; {act}s hold {hold}; runs {runs}
archive/1 erasure; archives run {run}; {entries} entries; copy at {place}
review.done/1 review; entries {since} to {until}; run {run}; stops {stops}; budget stops
    {budget_stops}; denials {denials}; gaps {gaps}; effects in doubt {indeterminate}; open gates
    {gates}
incident.open/1 review; opens incident {incident}; severity {severity}; known {known}; runs {runs}
incident.close/1 review; closes incident {incident}
log.carry/1 record; entries carried over; strand {run}/{strand}; entries {entries}
log.epoch/1 record; continues the log; key {key}; size before {held_size}
quarantine.discard/1 record; deletes {rows} forged rows
"""
# </packs>
"""What every report has in common: the number and the SHA-256 of its queries, the SHA-256 of its
limits, name, version and SHA-256 of each map of this release, and the words of events."""

NAMED_FIRST = ("tools.doubt", "gates.unattended", "gaps.steps", "stops.all", "runs.not-ok")
"""The figures whose runs are named, the most important first."""
MAX_NAMED, MAX_EXAMPLES = 10, 3
MAX_GROUPS, MAX_DAYS = 40, 400
MAX_TIMELINE, MAX_DECISIONS = 400, 50
MAX_EVENTS = 50
MAX_QUERIES = 32
"""How many queries the maps of a pack may have together: each is asked of each entry."""
MAX_TERMS = 128
"""How many terms these queries may have together: kinds, members, and values of conditions."""
WHOLE_STRANDS = ("access", "config", "incidents", "retention")
LASTING = ("config.seen/1", "config.seen/2", "hold/1", "retention/1")
RELATED = {
    "accepted/1": ("parent_run", "fork_run"),
    "report.source/1": ("continues",),
    "delegate/1": ("run",),
}
NO_END, STILL_OPEN = "no end recorded", "open"
UNDECIDED = "undecided"
PACK_CLAIMS = (*CLAIMS, "figures", "attested")
OLD_PACK = "forum/evidence/1"
"""A pack of release 0.2, in which the root of the tree draws the sample.  It holds a page, and
claims of its maker; a pack of today says nothing about itself.
"""
MAX_OUTSIDE_RUNS, MAX_SEEN = 50, 3
PACK_VERSIONS = (OLD_PACK, "forum/evidence/2")
SEED_OF_MAKER = (
    "whether the maker of the log influenced the draw of the sample: the seed is the root of the "
    "tree, which he can choose; bring a seed of your own"
)
SEED_OF_UNKNOWN_WITNESSES = (
    "whether the maker of the log influenced the draw of the sample: the seed comes from witnesses "
    "that you do not mark as independent"
)
SEED_OF_OTHERS = (
    "whether the maker of the log influenced the draw of the sample: by your trust file, other "
    "cosignatures draw it; bring a seed of your own (--seed)"
)
SEED_OF_WITNESSES = (
    "whether the maker of the log chose among later trees and cosignatures: the log part has no "
    "record of those that draw the sample; bring a seed of your own (--seed), which excludes that"
)
SEED_OF_RECORD = (
    "how often the maker of the log asked the witnesses before he recorded what they cosigned, and "
    "whether he recorded all of it: bring a seed of your own (--seed), which excludes that"
)
PAGE_OF_MAKER = (
    "report.html was not checked: this program does not draw it. Read the page that forum verify "
    "--page draws with your keys"
)
COUNTED_BY_WITNESSES = (
    "whether the maker left out a checkpoint that witnesses saw near an end of the period: that "
    "moves an entry only between the times at which they saw the enclosed ones"
)
COUNTED_BY_WRITERS = (
    "when entries were written: at an end of the period, no witness decides which of them are in "
    "it, but the time that the writer of each says"
)
CLAIMS_OF_MAKER = "what the enclosed report.html and report.json say that their maker found (check)"
NOT_EVIDENCE = (
    "README.txt, policy, report.schema.json, sbom.cdx.json, verify.html and verify.py, whatever "
    "they say: they are not evidence; take such files from a release, and the policy from people"
)
PACK_FILES = {
    *("manifest.json", "attestation.dsse.json", "report.json", "entries.csv"),
    *("report.schema.json", "policy", "log/end.note", "log/edge", "log/consistency"),
    *("log/entries.jsonl", "log/earlier.jsonl", "log/attestation-key.json"),
    *("log/attestation-key.tlog-proof", "README.txt", "sbom.cdx.json", "verify.html", "verify.py"),
}
SEEN_NOTE = r"log/seen/[0-9]{16}\.note"
OTHER_PACK_FILES = (
    r"log/start\.note|log/past/[0-9]{16}\.(note|consistency)"
    r"|maps/[a-z0-9][a-z0-9-]{0,63}\.json|runs/[^/]{1,400}\.zip"
)

Members = dict[str, Any]
Check = Callable[[], None]


def read_loose_json(data: bytes) -> Any:  # noqa: ANN401  any JSON value
    """Parse JSON whose form is compared elsewhere."""
    try:
        return json.loads(read_utf8(data), parse_float=refuse_float, parse_constant=refuse_float)
    except (ValueError, RecursionError):
        raise BundleRejected("not JSON") from None


def format_moment(micros: int) -> str:
    """Return a time in ISO 8601, in UTC."""
    moment = datetime.fromtimestamp(micros // 1_000_000, timezone.utc)
    rest = f".{micros % 1_000_000:06}" if micros % 1_000_000 else ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + rest + "Z"


def text_of(value: object) -> str:
    """Return a member as the text by which it is compared and grouped."""
    if isinstance(value, list):
        return " ".join(map(text_of, value))
    return "" if value is None else str(value)


class UnknownMember(str):
    """The value of a member that does not follow from the log part."""

    __slots__ = ()


class FigureCounter:
    """Computes one figure: counts the items of a query."""

    def __init__(self, query: Members) -> None:
        self.query, self.runs = query, dict[str, int]()
        self._is_unknown = False
        self._conditions = [
            (condition["member"], frozenset(condition["values"]), condition.get("negated", False))
            for condition in query.get("where", [])
        ]
        self._examples: list[int] = []
        self._values: list[int] = []
        self._groups: dict[tuple[str, ...], list[int]] = {}

    def add(self, index: int, members: Members) -> None:
        """Count an item, if the conditions of the query are met."""
        query, unknown = self.query, False
        for member, values, negated in self._conditions:
            value_of_member = members.get(member)
            if isinstance(value_of_member, UnknownMember):
                unknown = True
            elif (
                (value_of_member if type(value_of_member) is str else text_of(value_of_member))
                in values
            ) == negated:
                return
        self._is_unknown = self._is_unknown or unknown
        value: object = 1
        if query.get("measure", "count") != "count":
            value = members.get(query.get("of", ""), query.get("default", 0))
        number = value if isinstance(value, int) else query.get("default", 0)
        self._values.append(number)
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append(index)
        if query.get("concern"):
            self.runs.setdefault(members["run"], index)
        if query.get("by"):
            key = tuple(text_of(members.get(name)) for name in query["by"])
            self._groups.setdefault(key, []).append(number)

    def result(self) -> Members:
        """Return the figure, as report.json has it."""
        query = self.query
        return {
            **{name: query[name] for name in ("id", "title", "section")},
            "unit": query.get("unit", "number"),
            "value": None if self._is_unknown else self._measure(self._values),
            "items": None if self._is_unknown else len(self._values),
            "groups": [
                {"key": list(key), "value": value}
                for key, value in ([] if self._is_unknown else self._sorted_groups())
            ],
            "examples": self._examples,
            "query": query,
        }

    def _measure(self, values: list[int]) -> int:
        measure = self.query.get("measure", "count")
        if measure == "median":
            # The lower of the two in the middle: a figure is an integer that was recorded.
            return sorted(values)[(len(values) - 1) // 2] if values else 0
        return max(values, default=0) if measure == "max" else sum(values)

    def _sorted_groups(self) -> list[tuple[tuple[str, ...], int]]:
        """Return the groups: days in their order, others by falling value; the rest is joined."""
        groups = [(key, self._measure(values)) for key, values in self._groups.items()]
        if "day" in self.query.get("by", []):
            return sorted(groups)[: MAX_DAYS * MAX_GROUPS]
        groups.sort(key=lambda group: (-group[1], group[0]))
        rest = [value for key, _ in groups[MAX_GROUPS:] for value in self._groups[key]]
        joined = [(("(others)",) * len(self.query.get("by", [])), self._measure(rest))]
        return groups[:MAX_GROUPS] + (joined if len(groups) > MAX_GROUPS else [])


class PeriodCounter:
    """Counts the entries of a log part, in the order of the log."""

    def __init__(
        self,
        span: tuple[int, int],
        incident: str,
        queries: list[Members],
        *,
        is_old: bool,
    ) -> None:
        self._since, self._until = span
        self._incident, self._is_old = incident, is_old
        self._outside_entries = 0
        self._outside: dict[str, int] = {}
        self.figures = [FigureCounter(query) for query in queries]
        self._figures_of: dict[str, list[FigureCounter]] = {}
        self._runs: dict[str, Members] = {}
        self._gates: dict[tuple[str, str], tuple[int, int, Members]] = {}
        self._steps: dict[tuple[str, str], tuple[int, int, Members]] = {}
        self._grants: dict[str, tuple[int, Members]] = {}
        self._lengths = dict.fromkeys(WHOLE_STRANDS, 0)
        self._configuration: Members | None = None
        self._run_of: dict[str, str] = {}
        self._holds: dict[str, list[str]] = {}
        self._events: dict[str, list[Members]] = {}
        self.counted = self.timeline_length = 0
        self.active: set[str] = set()
        self._related: set[str] = set()
        self.timeline: list[Members] = []
        self.decisions: list[Members] = []

    @property
    def outside(self) -> Members:
        """The entries that are counted in the period, and are dated outside of it."""
        listed = list(self._outside.items())[:MAX_OUTSIDE_RUNS]
        return {
            "entries": self._outside_entries,
            "runs": [run for run, _ in listed],
            "indexes": [at for _, at in listed],
            "runs_of": len(self._outside),
        }

    @property
    def related(self) -> list[str]:
        """The runs that entries of the run of the incident name."""
        return sorted(self._related - {self._incident, ""})

    @property
    def events(self) -> list[Members]:
        """The first events of each section, in the order of the log."""
        listed = (event for events in self._events.values() for event in events)
        return sorted(listed, key=lambda event: int(event["index"]))

    def add(self, index: int, entry: BundleEntry, entry_id: str, at: int) -> None:
        """Count one entry, by the time `at`."""
        self._run_of[entry_id] = entry.run
        if self._since <= at < self._until and not self._since <= entry.ts < self._until:
            self._outside_entries += 1
            self._outside.setdefault(entry.run, index)
        entry = entry._replace(ts=at)
        if entry.ts >= self._until:
            return
        if entry.run == "log":
            self._add_to_log_run(index, entry)
        else:
            self._add_to_run(index, entry)
        if entry.ts >= self._since:
            self.counted += 1
            self._count_entry(index, entry)
        if entry.kind.startswith("gate."):
            self._add_to_gate(index, entry)
        else:
            self._add_to_step(index, entry)
        if entry.run == self._incident:
            self._add_to_timeline(index, entry)

    def _count_entry(self, index: int, entry: BundleEntry) -> None:
        own = {"kind": entry.kind, "actor": entry.actor}
        if entry.kind.startswith("redact/"):
            own["held"] = self._judge_hold(entry)
        if entry.kind == "stop/1":
            reason = entry.facts.get("reason", "")
            is_overrun = reason == "budget" and entry.actor in ("gateway", "recorder")
            own["cause"] = "overrun" if is_overrun else reason
        members = {**entry.facts, **self._common(entry), **own}
        if entry.kind not in self._figures_of:
            self._figures_of[entry.kind] = self._find_figures(entry.kind)
        for figure in self._figures_of[entry.kind]:
            figure.add(index, members)

    def _find_figures(self, kind: str) -> list[FigureCounter]:
        """Return the figures that count entries of a kind."""
        asked = [f for f in self.figures if f.query.get("over", "entries") == "entries"]
        return [f for f in asked if not f.query.get("kinds") or kind in f.query["kinds"]]

    def finish(self) -> None:
        """Count what is open at the end."""
        for index, ts, members in self._steps.values():
            if ts >= self._since:
                self._emit("steps", index, {**members, "outcome": NO_END})
        for index, _, members in self._gates.values():
            self._emit("gates", index, {**members, "answer": UNDECIDED})
        for index, members in self._grants.values():
            self._count_key(index, members)
        for run, state in self._runs.items():
            require(state["is_opened"], f"the first entry of run {run} is missing")
            if not state["closed"] or state["closed"] >= self._since:
                began = "in the period" if state["opened"] >= self._since else "before it"
                day = format_moment(state["opened"])[:10]
                described = {**state, "run": run, "began": began, "day": day}
                self._emit("runs", state["index"], described)

    def concerns(self) -> dict[str, dict[str, int]]:
        """Return, for each run that somebody should look at, the reasons with an entry each."""
        named: dict[str, dict[str, int]] = {}
        by_id = {figure.query["id"]: figure for figure in self.figures}
        for query_id in NAMED_FIRST:
            figure = by_id[query_id]
            for run, index in sorted(figure.runs.items(), key=lambda place: place[1]):
                if run != "log":
                    named.setdefault(run, {})[figure.query["concern"]] = index
        return named

    def _emit(self, over: str, index: int, members: Members) -> None:
        for figure in self.figures:
            if figure.query.get("over", "entries") == over:
                figure.add(index, members)

    def _common(self, entry: BundleEntry) -> Members:
        opened_by = self._runs.get(entry.run, {}).get("actor", entry.actor)
        return {"run": entry.run, "day": format_moment(entry.ts)[:10], "opened_by": opened_by}

    def _add_to_run(self, index: int, entry: BundleEntry) -> None:
        new = {"index": index, "opened": entry.ts, "actor": entry.actor, "provenance": "other"}
        new.update(outcome=STILL_OPEN, closed=0, is_opened=False, elsewhere=False)
        state = self._runs.setdefault(entry.run, new)
        if entry.ts >= self._since:
            self.active.add(entry.run)
        if entry.kind == "run.open/1":
            state["is_opened"] = True
        elif entry.kind == "accepted/1":
            state["provenance"] = "driven"
        elif entry.kind == "report.source/1":
            state["provenance"] = str(entry.facts.get("told", ""))
            state["elsewhere"] = not self._is_old and is_counted_elsewhere(entry.facts)
        elif entry.kind == "run.close/1":
            state.update(outcome=str(entry.facts.get("outcome", "")), closed=entry.ts)

    def _add_to_log_run(self, index: int, entry: BundleEntry) -> None:
        if entry.strand in self._lengths:
            # The positions of a strand have no gap, so that an entry which is left out is noticed.
            whole = entry.n == self._lengths[entry.strand]
            require(whole, f"an entry of log/{entry.strand} is missing")
            self._lengths[entry.strand] = entry.n + 1
        if entry.strand == "access":
            self._add_to_access(index, entry)
        if entry.kind == "hold/1":
            self._add_hold(entry)
        if entry.kind in EVENTS:
            self._add_event(index, entry)

    def _add_hold(self, entry: BundleEntry) -> None:
        if entry.facts["act"] == "place":
            self._holds[entry.facts["hold"]] = entry.facts.get("runs", [])
        else:
            self._holds.pop(entry.facts["hold"], None)

    def _judge_hold(self, entry: BundleEntry) -> str:
        """Return whether a redaction names an entry of a run that a hold keeps."""
        if entry.kind == "redact/1":
            targets = [entry.facts["entry"]]
        else:
            places = {body.partition("/")[0] for body in entry.facts["bodies"]}
            targets = [p for number, p in enumerate(entry.parents) if str(number) in places]
        runs = {self._run_of[target] for target in targets if target in self._run_of}
        runs.update(entry.facts.get("runs", []))
        if any(not held or runs.intersection(held) for held in self._holds.values()):
            return "yes"
        is_known = not self._holds or all(target in self._run_of for target in targets)
        # Release 0.2 called a target that it did not have one of no run.
        return "no" if is_known or self._is_old else UnknownMember("unknown")

    def _add_event(self, index: int, entry: BundleEntry) -> None:
        facts, section = entry.facts, EVENTS[entry.kind][0]
        if entry.kind == "config.seen/1":
            facts = {**facts, "changed": describe_changes(facts, self._configuration)}
            self._configuration = entry.facts
        events = self._events.setdefault(section, [])
        listed = entry.ts >= self._since or entry.kind in LASTING
        if listed and len(events) < MAX_EVENTS:
            event = {"index": index, "ts": entry.ts, "section": section, "kind": entry.kind}
            words = describe_event(entry.kind, facts)
            events.append({**event, "actor": entry.actor, "words": words})

    def _add_to_access(self, index: int, entry: BundleEntry) -> None:
        facts, key = entry.facts, str(entry.facts.get("key", ""))
        if entry.kind.startswith("access.grant/"):
            members = {"run": "log", "actor": entry.actor, "revoked": 0, "name": facts["name"]}
            expires = facts.get("expires", 0)
            members.update(scopes=facts.get("scopes", []), expires=expires)
            self._grants[key] = (index, members)
        elif key in self._grants:
            self._grants[key][1]["revoked"] = entry.ts

    def _count_key(self, index: int, members: Members) -> None:
        """Count an API key, if it was valid in the period."""
        ends = {"revoked": members["revoked"], "expired": members["expires"]}
        if not any(0 < end <= self._since for end in ends.values()):
            states = [word for word, end in ends.items() if 0 < end < self._until]
            self._emit("keys", index, {**members, "state": (*states, "valid")[0]})

    def _add_to_gate(self, index: int, entry: BundleEntry) -> None:
        place, facts = (entry.run, entry.strand), entry.facts
        if entry.kind == "gate.open/1":
            members = {**self._common(entry), "subject": facts["subject"]}
            self._gates[place] = (index, entry.ts, members)
        begun = self._gates.pop(place, None) if entry.kind.startswith("gate.decision/") else None
        if begun is None or entry.ts < self._since:
            return
        seconds = max(0, entry.ts - begun[1]) // 1_000_000
        decided = {"answer": facts["answer"], "authority": facts["by"], "actor": entry.actor}
        self._emit("gates", index, {**begun[2], **decided, "seconds": seconds})
        if len(self.decisions) < MAX_DECISIONS:
            what = {"run": entry.run, "subject": begun[2]["subject"], "answer": facts["answer"]}
            who = {"actor": entry.actor, "authority": facts["by"], "seconds": seconds}
            start = {"index": index, "ts": entry.ts}
            self.decisions.append({**start, **what, **who, "digest": facts["digest"]})

    def _add_to_step(self, index: int, entry: BundleEntry) -> None:
        place, facts = (entry.run, entry.strand), entry.facts
        counts = entry.ts >= self._since
        if entry.kind in ("call/1", "intent/1", "report.begin/1"):
            begun = self._steps.pop(place, None)
            if begun and begun[1] >= self._since:  # no end of the step before will come any more
                self._emit("steps", begun[0], {**begun[2], "outcome": NO_END})
            members = self._count_once({**self._common(entry), **describe_begin(entry)})
            self._steps[place] = (index, entry.ts, members)
        elif entry.kind in ("reply/1", "outcome/1"):
            begun = self._steps.pop(place, None)
            if begun and counts:
                ended = {"day": format_moment(entry.ts)[:10], "outcome": facts.get("outcome")}
                if entry.kind == "reply/1":
                    ended.update(usd=facts.get("usd", 0), tokens=facts.get("tokens", 0))
                    ended["model"] = facts.get("model") or begun[2].get("model")
                self._emit("steps", index, {**begun[2], **ended})
        elif entry.kind == "report.step/1":
            self._steps.pop(place, None)
            if counts:
                names = ("op", "name", "agent", "model", "provider", "outcome")
                tokens = facts.get("input_tokens", 0) + facts.get("output_tokens", 0)
                spent = {"usd": facts.get("usd", 0), "tokens": tokens}
                members = {name: facts.get(name, "") for name in names}
                once = self._count_once({**self._common(entry), **members, **spent})
                self._emit("steps", index, once)

    def _count_once(self, members: Members) -> Members:
        """Return the members of a step, without a cost if a gateway records it as well."""
        if not self._runs.get(members["run"], {}).get("elsewhere"):
            return members
        op = "run" if members["op"] == "model" else members["op"]
        return {**members, "op": op, "usd": 0, "tokens": 0}

    def _add_to_timeline(self, index: int, entry: BundleEntry) -> None:
        facts = entry.facts
        self._related.update(str(facts.get(name, "")) for name in RELATED.get(entry.kind, ()))
        self.timeline_length += 1
        if len(self.timeline) < MAX_TIMELINE:
            outcome = next((facts[n] for n in ("outcome", "answer", "reason") if n in facts), "")
            line = {"index": index, "ts": entry.ts, "strand": entry.strand, "kind": entry.kind}
            self.timeline.append({**line, "actor": entry.actor, "outcome": str(outcome)})


RUN_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def is_counted_elsewhere(facts: dict[str, Any]) -> bool:
    """Return whether a program under `forum run` reports: the gateway records what it costs."""
    if facts.get("told") == "relayed":
        return False
    return facts.get("by") == "forum-run" or matches(RUN_ID, facts.get("trace"))


def describe_begin(entry: BundleEntry) -> Members:
    """Return what the beginning of a step says; one without an end counts what it reserved."""
    facts = entry.facts
    if entry.kind == "intent/1":
        return {"op": "tool", "name": facts.get("tool"), "usd": 0, "tokens": 0}
    members = {name: facts.get(name, "") for name in ("agent", "model", "provider")}
    members.update(usd=facts.get("usd", 0), tokens=facts.get("tokens", 0))
    if entry.kind == "report.begin/1":
        return {**members, "op": facts.get("op", ""), "name": facts.get("name", "")}
    inner = facts.get("agent") == facts.get("model") == "run"
    return {**members, "op": "run" if inner else "model", "name": facts.get("agent")}


EVENTS = {
    kind: phrases.split("; ")
    for kind, _, phrases in (
        line.partition(" ") for line in EVENT_TABLE.replace("\n    ", " ").strip().split("\n")
    )
}
"""For each kind of event: its section, and the phrases of its facts."""


def describe_event(kind: str, facts: Members) -> str:
    """Return the facts of an event in words, without those that it leaves out."""
    phrases = []
    for form in EVENTS[kind][1:]:
        names = re.findall(r"\{(\w+)\}", form)
        given = [facts.get(n) not in (None, "", [], 0) or n in ("since", "seconds") for n in names]
        if all(given):
            phrases.append(form.format(**{n: describe_fact(n, facts.get(n, 0)) for n in names}))
    return ", ".join(phrases)


def describe_fact(name: str, value: object) -> str:
    """Return a fact in words."""
    if isinstance(value, list):
        more = [f"and {len(value) - 3} more"] if len(value) > 3 else []
        return " ".join([*map(str, value[:3]), *more])
    if name in ("expires", "known") and isinstance(value, int):
        return format_moment(value)[:19].replace("T", " ") + " UTC"
    if name == "seconds" and isinstance(value, int):
        hours = value // 3600
        return f"{hours} {'hour' if hours == 1 else 'hours'}" if value else "ever"
    if name == "subject" and value == "*":
        return "all runs"
    return str(value)[:16] if matches(HASH, str(value)) else str(value)


def describe_changes(facts: Members, before: Members | None) -> str:
    """Return which parts of a configuration differ from the one before."""
    if before is None:
        return "the first on record"
    names = [name for name in sorted({*facts, *before}) if facts.get(name) != before.get(name)]
    return f"changed: {' '.join(names)}" if names else "not changed"


class PackLog:
    """The log part of a pack: its entries by index, and the trees that they lead to."""

    def __init__(self, archive: BundleArchive, origin: str) -> None:
        self.origin = origin
        self.end_note = archive.read("log/end.note")
        self.end = read_checkpoint(read_note(self.end_note).text)
        has_start = "log/start.note" in archive.members
        self.start_note = archive.read("log/start.note") if has_start else b""
        self.start = BundleCheckpoint(origin, 0, EMPTY_ROOT)
        if has_start:
            self.start = read_checkpoint(read_note(self.start_note).text)
        self.edge = [read_base64(line) for line in self._lines(archive, "log/edge")]
        self.nodes = [read_hash(line) for line in self._lines(archive, "log/consistency")]
        self.entries = [line.encode() for line in self._lines(archive, "log/entries.jsonl")]
        earlier = [read_json(x.encode()) for x in self._lines(archive, "log/earlier.jsonl")]
        for line in earlier:
            formed = type(line) is dict and list(line) == ["index", "entry", "proof"]
            require(formed and is_count(line["index"]), "log/earlier.jsonl: not an earlier entry")
            texts = [line["entry"], *(line["proof"] if type(line["proof"]) is list else [0])]
            require(all(type(x) is str for x in texts), "log/earlier.jsonl: not an earlier entry")
        self.earlier = [(line["index"], line["entry"].encode(), line["proof"]) for line in earlier]
        names = [name for name in archive.members if matches(r"log/past/.*\.note", name)]
        check_past_count(len(names))
        self.past = [
            read_past(int(n[9:25]), archive.read(n), archive.read(f"{n[:25]}.consistency"))
            for n in names
        ]
        names = sorted(name for name in archive.members if matches(SEEN_NOTE, name))
        require(len(names) <= MAX_SEEN, f"log/seen has {len(names)} checkpoints")
        self.seen = [(int(name[9:25]), archive.read(name)) for name in names]
        for size, note in self.seen:
            checkpoint = read_checkpoint(read_note(note).text)
            require(checkpoint.size == size, "log/seen: a checkpoint of another size")

    @staticmethod
    def _lines(archive: BundleArchive, name: str) -> list[str]:
        *lines, rest = read_utf8(archive.read(name)).split("\n")
        require(not rest, f"{name} ends within a line")
        return lines

    def indexed_entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield all entries with their indexes, in the order of the log."""
        yield from ((index, data) for index, data, _ in self.earlier)
        yield from enumerate(self.entries, self.start.size)

    def compute_roots(self) -> tuple[bytes, bytes, list[int]]:
        """Return the root that the edge leads to, and the one after the entries.

        Return as well the sizes in log/seen of which the entries lead to another root.  A tree is a
        list of perfect trees of falling height; equal neighbours become one.
        """
        size, widths = self.start.size, []
        while size:
            size, width = divmod(size, 256)
            widths.append(width)
        # Tiles of another width could have the same root: a node is the hash of joined children.
        formed = [len(tile) for tile in self.edge] == [width * 32 for width in widths]
        require(formed, "log/edge does not have the form of a tree of this size")
        trees: list[tuple[int, bytes]] = []
        for level in range(len(self.edge) - 1, -1, -1):
            tile = self.edge[level]
            for at in range(0, len(tile), 32):
                add_tree(trees, 8 * level, tile[at : at + 32])
        start = join_trees(trees)
        roots = {size: read_checkpoint(read_note(note).text).root for size, note in self.seen}
        met = set()
        for at, data in enumerate(self.entries, self.start.size + 1):
            add_tree(trees, 0, hash_leaf(data))
            if at in roots and roots[at] == join_trees(trees):
                met.add(at)
        return start, join_trees(trees), [size for size in roots if size not in met]


class EntryTimes:
    """The times by which entries count: those of their writers, as far as witnesses agree."""

    def __init__(self, log: PackLog, policy: BundlePolicy | None) -> None:
        """Without a policy, every entry counts by the time of its writer."""
        self.start = seen_time(log.start_note, policy) if log.start_note else None
        self.end = seen_time(log.end_note, policy)
        self.seen = [seen_time(note, policy) for _, note in log.seen]
        sizes = [log.start.size, *(size for size, _ in log.seen), log.end.size]
        self.all = [self.start or 0, *self.seen, self.end]
        times = zip(sizes, self.all)
        self._trees = [(size, time) for size, time in times if time]

    def time_of(self, index: int, ts: int) -> int:
        """Return the time by which an entry counts whose writer says `ts`."""
        behind = [time + 999_999 for size, time in self._trees if size > index]
        # A witness whose clock was wrong for a while cannot date an entry before what it follows.
        return max([min([ts, *behind[:1]]), *(t for size, t in self._trees if size <= index)])

    def decide(self, since: int, until: int) -> str:
        """Return what decides which entries are in a period."""
        is_begun = self.start is None or 0 < self.start <= since - 1_000_000
        return "witnessed" if is_begun and is_seen_since(self.end, until) else "writer"


def seen_time(note: bytes, policy: BundlePolicy | None) -> int:
    """Return when the witnesses of a policy saw a checkpoint, in microseconds; 0 if unknown."""
    try:
        cosigned = read_cosignatures(note, list(policy.witnesses.values())) if policy else []
    except BundleRejected:
        return 0
    return policy.quorum_time(cosigned) * 1_000_000 if policy else 0


def is_seen_since(seen: int, moment: int) -> bool:
    """Return whether witnesses saw a checkpoint at a moment or later; never if `seen` is 0.

    They state whole seconds, and may have cosigned up to a second later.
    """
    return seen > 0 and moment < seen + 1_000_000


class SampleSeed(NamedTuple):
    """A seed that follows from cosignatures, and the witnesses that they are of."""

    seed: str
    source: str
    keys: list[BundleKey]


FirstLines = dict[BundleKey, BundleSignature]
"""The first recorded line of each witness as a signature, unverified."""
MAX_RECORDED_LINES = 64
"""How many of them count: as many as a note may have."""


def add_first_lines(first: FirstLines, lines: list[str], witnesses: KeysByClaim) -> None:
    """Add the first line of each of these witnesses."""
    for key, signature in read_lines(lines, witnesses):
        if len(first) < MAX_RECORDED_LINES:
            first.setdefault(key, signature)


def names_quorum(first: FirstLines, policy: BundlePolicy) -> bool:
    """Return whether these lines, unverified, name a quorum of witnesses."""
    return policy.is_satisfied_by([BundleCosignature(key, 0) for key in first])


def check_record_lines(
    note: BundleNote, size: int, keys: list[BundleKey]
) -> list[BundleCosignature]:
    """Return the recorded cosignatures by these keys; refuse one that does not hold."""
    try:
        return [check_cosignature(note.text, blob, k) for k, blob in note.signatures_by(keys)]
    except BundleRejected:
        what = f"the log recorded a cosignature of a checkpoint of size {size} that does not hold"
        raise BundleRejected(what) from None


def add_tree(trees: list[tuple[int, bytes]], height: int, node: bytes) -> None:
    """Append a perfect tree to a list of them."""
    while trees and trees[-1][0] == height:
        node = hash_node(trees.pop()[1], node)
        height += 1
    trees.append((height, node))


def join_trees(trees: list[tuple[int, bytes]]) -> bytes:
    """Return the root above a list of perfect trees."""
    if not trees:
        return EMPTY_ROOT
    root = trees[-1][1]
    for _, node in reversed(trees[:-1]):
        root = hash_node(node, root)
    return root


def differences(row: str, there: Any, here: Any) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401
    """Yield each place where two JSON values differ, with both values; rows go by their ids."""
    absent = "(absent)"
    if isinstance(there, dict) and isinstance(here, dict):
        for name in dict.fromkeys([*here, *there]):
            values = there.get(name, absent), here.get(name, absent)
            yield from differences(f"{row} {name}".strip(), *values)
    elif isinstance(there, list) and isinstance(here, list):
        for at in range(max(len(there), len(here))):
            a = there[at] if at < len(there) else absent
            b = here[at] if at < len(here) else absent
            yield from differences(f"{row} {name_item(b, a, at + 1)}", a, b)
    elif there != here or type(there) is not type(here):
        yield row, shorten(there), shorten(here)


def name_item(here: object, there: object, number: int) -> str:
    """Return the id of a row, or its number where it has none."""
    for item in (here, there):
        if isinstance(item, dict):
            for member in ("id", "run", "name", "index"):
                if member in item:
                    return str(item[member])
            if isinstance(item.get("key"), list):
                return " / ".join(map(str, item["key"]))
            if isinstance(item.get("map"), dict):
                return str(item["map"].get("name", number))
    return str(number)


def shorten(value: object) -> str:
    """Return a value as a text of limited length."""
    text = value if isinstance(value, str) else write_json(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def name_bundle(run: str) -> str:
    """Return the name of the bundle of a run in a pack."""
    safe = "".join(c if c.isalnum() or c in "._-" else f"%{ord(c):02X}" for c in run)
    return f"runs/{safe}.zip"


def quote_cell(value: str) -> str:
    """Return a cell of entries.csv; a text that a spreadsheet takes for a formula is marked."""
    text = f"'{value}" if value.startswith(("=", "+", "-", "@", "\t")) else value
    return '"' + text.replace('"', '""') + '"' if re.search('[,"\r\n]', text) else text


class ForeignPack(Exception):
    """Raised for a pack of another log than those whose keys the reader trusts."""


class PackVerifier:
    """The state of one verification of a pack."""

    def __init__(self, source: bytes | LazyFile, trust: BundleTrust) -> None:
        self._archive, self._trust = BundleArchive(source), trust
        self._policy = trust.policy
        self._findings = BundleFindings(PACK_REFUTED)
        self._listed: list[dict[str, str]] = []
        self._not_checked: list[str] = []
        self._seen: list[BundleCosignature] = []
        self.origin = self._check_manifest()
        foreign = trust.describe_foreign(self.origin, "pack")
        if foreign:
            raise ForeignPack(self.origin, foreign)
        self._log = PackLog(self._archive, self.origin)
        self._report = read_loose_json(self._archive.read("report.json"))
        self._arguments = self._read_arguments()
        self._entries = self._read_entries()
        pinned = list(dict.fromkeys(trust.keys + (self._policy.logs if self._policy else [])))
        is_proven = self._check_trees()
        named = [(i, d) for i, d in self._log.indexed_entries() if b'"key.rotate/' in d]
        check_rotation_count(len(named))
        read = [read_key_rotation(self.origin, index, data) for index, data in named]
        rotations = [rotation for rotation in read if rotation] if is_proven else []
        notes = continued_notes(self._log.end_note, self._log.past, self._log.end)
        notes += [self._log.start_note] if self._log.start_note else []
        notes += [note for _, note in self._log.seen]
        self._log_keys = BundleLogKeys(self.origin, pinned, rotations, notes)
        self._keys = list(dict.fromkeys(pinned + self._log_keys.accepted))
        self._is_signed, self._counted_by = False, ""

    def run(self) -> dict[str, Any]:
        """Check the log part, the figures, the bundles and the attestation; return the report."""
        claims = self._judge_log()
        computed = self._compute_report()
        claims["figures"] = self._judge_figures(computed, claims)
        if computed is not None:
            self._check_bundles(computed)
        claims["attested"] = self._judge_attestation(computed)
        if computed is not None:
            self._not_checked.append(self._judge_seed(computed["sample"]["seed_from"]))
            self._counted_by = computed.get("counted_by", "writer")
            by_witnesses = self._counted_by == "witnessed"
            self._not_checked += [COUNTED_BY_WITNESSES if by_witnesses else COUNTED_BY_WRITERS]
            self._not_checked += [
                f"figure {figure['id']}: entries that it follows from are not in the pack"
                for figure in computed["figures"]
                if figure["value"] is None
            ]
        if self._log.start_note:
            self._not_checked += [
                "whether other runs were open when the period began and recorded nothing in it",
                (
                    "whether entries from before the period are missing: only a pack from the "
                    "beginning of the log shows that none is"
                ),
            ]
        self._not_checked += [
            *([PAGE_OF_MAKER, CLAIMS_OF_MAKER] if self._is_old else []),
            "bodies, and the rules between entries, of runs that have no bundle here",
            f"the enclosed {NOT_EVIDENCE}",
        ]
        ok = not self._listed and all(claim["state"] == HOLDS for claim in claims.values())
        finding_count = len(self._listed)
        span = [self._arguments[name] for name in ("since", "until")]
        return {
            "schema": "forum.pack-report/1",
            "ok": ok,
            "origin": self.origin,
            "size": self._log.end.size,
            "root": self._log.end.root.hex(),
            "since": format_moment(span[0]),
            "until": format_moment(span[1]),
            **claims,
            "findings": self._listed[:100],
            "found": finding_count,
            "not_checked": self._not_checked,
            "witnessing": self._trust.judge_witnessing(claims[INDEPENDENT], self._seen),
            "counted_by": self._counted_by,
        }

    def _add(self, problem: str, row: str, detail: str) -> None:
        self._listed.append({"problem": problem, "row": row, "detail": detail})

    def _check_manifest(self) -> str:
        """Return the origin in the manifest, which must list exactly the other files."""
        members = self._archive.members
        require(PACK_FILES.issubset(members), "a file of the pack is missing")
        data = self._archive.read("manifest.json")
        require(data.endswith(b"\n"), "the manifest does not end in a newline")
        value = read_json(data[:-1])
        origin = value.get("origin") if type(value) is dict else None
        require(type(origin) is str, "the manifest has no origin")
        require(matches(LABEL, str(origin)), "the origin in the manifest is no label")
        apart = ("manifest.json", "attestation.dsse.json")
        files = [[n, m.size, m.digest] for n, m in members.items() if n not in apart]
        self._version = value.get("v")
        require(self._version in PACK_VERSIONS, "the pack is of an unknown version")
        self._is_old = self._version == OLD_PACK
        fixed = PACK_FILES | {"report.html"} if self._is_old else PACK_FILES
        require(fixed.issubset(members), "a file of the pack is missing")
        for name in members:
            is_known = name in fixed or matches(OTHER_PACK_FILES, name)
            is_known = is_known or (not self._is_old and matches(SEEN_NOTE, name))
            require(is_known, f"{name[:80]!r} is a file of no known kind")
        expected = {"v": self._version, "origin": origin, "files": files}
        require(value == expected, "the files are not those that the manifest lists")
        return str(origin)

    def _read_arguments(self) -> Members:
        report = self._report
        require(type(report) is dict and report.get("v") == self._version, "no report")
        value = report.get("arguments")
        names = ["since", "until", "sample", "seed", "incident", "maps"]
        require(type(value) is dict and list(value) == names, "report.json: no arguments")
        counts = all(is_count(value[name]) for name in names[:3])
        maps = value["maps"] if type(value["maps"]) is list else [None]
        texts = all(type(text) is str for text in (value["seed"], value["incident"], *maps))
        require(counts and texts, "report.json: arguments of another type")
        require(value["until"] % 1_000_000 == 0, "report.json: until is not a whole second")
        return dict(value)

    def _read_entries(self) -> list[tuple[int, BundleEntry]] | None:
        """Return the entries, or add findings and return None if one is malformed."""
        entries, malformed = list[tuple[int, BundleEntry]](), 0
        last = -1
        for index, data in self._log.indexed_entries():
            if index <= last:
                detail = "log/earlier.jsonl is not in the order of the log"
                self._findings.add("proof-rejected", detail, index)
            last = index
            try:
                entry = read_entry(data)
            except BundleRejected as error:
                self._findings.add("entry-malformed", str(error), index)
                malformed += 1
                continue
            if entry.log != self.origin:
                self._findings.add("foreign-entry", f"it belongs to the log {entry.log}", index)
            entries.append((index, entry))
        return None if malformed else entries

    def _check_trees(self) -> bool:
        """Compare the entries with the roots of both trees, and return whether they agree."""
        log, before = self._log, self._findings.count
        add = self._findings.add
        try:
            start, end, others = log.compute_roots()
        except BundleRejected as error:
            add("root-mismatch", str(error))
            return False
        if start != log.start.root:
            add("root-mismatch", "log/edge does not lead to the root of log/start.note")
        count = log.end.size - log.start.size
        if len(log.entries) != count:
            detail = f"log/entries.jsonl has {len(log.entries)} entries, and not {count}"
            add("entry-missing", detail)
        if end != log.end.root:
            add("root-mismatch", "log/entries.jsonl does not lead to the root of log/end.note")
        for size in others:
            detail = f"the checkpoint of size {size} in log/seen is not of this log part"
            add("root-mismatch", detail)
        self._expect("proof-rejected", "log/consistency", None, self._check_consistency)
        for index, data, proof in log.earlier:
            place = ("proof-rejected", "log/earlier.jsonl", index)
            self._expect(*place, partial(self._check_earlier, index, data, proof))
        for past in log.past:
            self._expect("history-replaced", "log/past", None, partial(self._check_past, past))
        return self._findings.count == before

    def _expect(self, problem: str, what: str, index: int | None, check: Check) -> None:
        """Add a finding if a check fails."""
        try:
            check()
        except BundleRejected as error:
            self._findings.add(problem, f"{what}: {error}", index)

    def _check_consistency(self) -> None:
        check_consistency(self._log.nodes, self._log.start, self._log.end)

    def _check_earlier(self, index: int, data: bytes, proof: list[str]) -> None:
        require(index < self._log.start.size, "it is not an earlier entry")
        nodes = [read_hash(line) for line in proof]
        check_inclusion(nodes, hash_leaf(data), index, self._log.end)

    def _check_past(self, past: BundlePastCheckpoint) -> None:
        old = read_checkpoint(read_note(past.note).text)
        check_consistency(past.nodes, old, self._log.end)

    def _open(self, note: bytes) -> bool:
        """Return whether a trusted key has signed a checkpoint of this log."""
        try:
            origin = open_checkpoint(note, self._keys).origin
            self._log_keys.check_signer(note)
            require(origin == self.origin, "it is of another log")
        except BundleRejected as error:
            self._findings.add("signature-rejected", f"checkpoint: {error}")
            return False
        return True

    def _cosignatures(self, note: bytes, name: str) -> list[BundleCosignature]:
        """Return the cosignatures on a checkpoint; too few are a finding."""
        policy, seen = self._policy, list[BundleCosignature]()
        if policy is None:
            return seen
        try:
            seen = read_cosignatures(note, list(policy.witnesses.values()))
        except BundleRejected as error:
            self._findings.add("signature-rejected", f"cosignature: {error}")
        if not policy.is_satisfied_by(seen):
            detail = f"{name}: the witnesses of your trust file have not cosigned it"
            self._findings.add("not-witnessed", detail)
        return seen

    def _judge_log(self) -> dict[str, dict[str, str]]:
        """Check signatures and times of the log part, and return the three claims about it."""
        log, findings = self._log, self._findings
        notes = [log.end_note, log.start_note, *(note for _, note in log.seen)]
        signed = [bool(self._keys) and self._open(note) for note in notes if note]
        self._seen = seen = self._cosignatures(log.end_note, "log/end.note")
        for note in self._trust.seen:
            try:
                old = open_checkpoint(note, self._keys)
            except BundleRejected as error:
                findings.add("signature-rejected", f"checkpoint: {error}")
                continue
            if old[:2] == log.end[:2] and old.root != log.end.root:
                findings.add("history-replaced", f"another tree of size {old.size} was seen before")
        bounded = self._check_times(seen)
        for finding in findings.listed:
            index = finding["index"]
            row = "log part" if index is None else f"log entry {index}"
            self._add("log-part", row, f"{finding['problem']}: {finding['detail']}")
        unknown = "" if bounded else "no witness that you trust says when the two trees were made"
        self._is_signed = all(signed)
        if not self._is_signed:
            unknown = "no key that you trust has signed both trees"
        whole = "every entry between the two trees is here"
        if not log.start_note:
            whole = "every entry from the beginning of the log is here"
        no_key, no_policy = NO_KEY, NO_TRUST_FILE
        proven = f"{len(log.entries)} entries lead to the root that the log signed"
        cosigned = describe_witnesses({c.key.name for c in seen}, self._policy)
        answer = findings.judge_claim
        return {
            INTACT: answer(INTACT, proven) if self._keys else no_key,
            COMPLETE: answer(COMPLETE, whole, unknown) if self._keys else no_key,
            INDEPENDENT: answer(INDEPENDENT, cosigned) if self._policy else no_policy,
        }

    def _check_times(self, cosignatures: list[BundleCosignature]) -> bool:
        """Compare the times of the witnesses with the period; return whether they bound it."""
        policy, log = self._policy, self._log
        add = self._findings.add
        seen = policy.quorum_time(cosignatures) * 1_000_000 if policy else 0
        if not policy or not seen:
            return False
        cut = "witnesses saw {} {} the period {}: entries of the period may be missing"
        if seen < self._arguments["until"]:
            add("tail-cut", cut.format("the last tree", "before", "ends"))
        first = 0
        if log.start_note:
            earlier = self._cosignatures(log.start_note, "log/start.note")
            first = policy.quorum_time(earlier) * 1_000_000
            if first and first + 1_000_000 > self._arguments["since"]:
                add("tail-cut", cut.format("the first tree", "after", "begins"))
        self._check_entry_times(first, seen)
        return bool(first or not log.start_note)

    def _check_entry_times(self, first: int, last: int) -> None:
        """Check that entries are dated between the times at which the two trees were seen."""
        for index, entry in self._entries or []:
            if index < self._log.start.size:
                continue
            if entry.ts > last + MAX_CLOCK_SKEW_US:
                detail = "its time is later than the tree that holds it was seen"
                self._findings.add("time-impossible", detail, index)
            if entry.ts < first - MAX_CLOCK_SKEW_US:
                detail = "its time is earlier than a tree without it was seen"
                self._findings.add("time-impossible", detail, index)

    def _compute_report(self) -> Members | None:
        """Return the report that follows from the log part, or None if none does.

        Nothing is computed from trees that nobody whom the reader trusts has signed: a forger could
        make that expensive.
        """
        if self._entries is None or not self._is_signed:
            return None
        try:
            return self._make_report(self._entries)
        except BundleRejected as error:
            self._add("pack-altered", "log part", str(error))
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            # A map that names no query, or a time that is none: no maker writes that.
            self._add("pack-altered", "report.json", f"cannot be computed: {error!r}")
        return None

    def _why_not_computed(self) -> str:
        if self._is_signed:
            return "no report follows from the log part"
        return "no key that you trust has signed both trees, so that no figure was computed"

    def _find_queries(self, figures: list[Members]) -> list[Members]:
        """Return the queries of the report, which must be those of a known release."""
        for count, expected in KNOWN_QUERIES:
            query_ids = [figure["query"] for figure in figures[:count]]
            if hashlib.sha256(write_json(query_ids).encode()).hexdigest() == expected:
                return query_ids
        self._add("figure-changed", "figures", "the queries are not those of a known release")
        unknown = [figure["query"] for figure in figures[: KNOWN_QUERIES[0][0]]]
        check_terms(unknown)
        return unknown

    def _make_report(self, entries: list[tuple[int, BundleEntry]]) -> Members:
        given, log = self._arguments, self._log
        report = self._report
        maps = self._read_maps()
        query_ids = self._find_queries(report["figures"])
        added = [query for _, used, _ in maps for query in used.get("queries", [])]
        count = len(added)
        require(count <= MAX_QUERIES, f"{count} queries in maps; the most is {MAX_QUERIES}")
        check_terms(added)
        queries = query_ids + added
        ids = [query["id"] for query in queries]
        doubled = [query_id for query_id in ids if ids.count(query_id) > 1]
        require(not doubled, f"two queries have the id {doubled[0] if doubled else ''}")
        if hashlib.sha256(write_json(report["limits"]).encode()).hexdigest() != KNOWN_LIMITS:
            self._add("figure-changed", "limits", "the limits are not those of this release")
        span = (given["since"], given["until"])
        counter = PeriodCounter(span, given["incident"], queries, is_old=self._is_old)
        enclosed = None if self._is_old else self._read_policy()
        times = self._times = EntryTimes(log, enclosed)
        leaves = (hash_leaf(data).hex() for _, data in log.indexed_entries())
        for (index, entry), leaf in zip(entries, leaves):
            counter.add(index, entry, leaf, times.time_of(index, entry.ts))
        counter.finish()
        figures = [figure.result() for figure in counter.figures]
        concerns = counter.concerns()
        named = [
            {"run": run, "reasons": list(reasons), "entries": list(reasons.values())}
            for run, reasons in list(concerns.items())[:MAX_NAMED]
        ]
        incident = None
        if given["incident"]:
            require(counter.timeline, f"it has no entry of run {given['incident']}")
            incident = {"run": given["incident"], "entries": counter.timeline_length}
            incident.update(timeline=counter.timeline, related=counter.related)
        root = log.end.root.hex()
        seed, seed_from = self._find_seed(root)

        def rank(run: str) -> str:
            return hashlib.sha256(f"{seed}\n{run}".encode()).hexdigest()

        drawn = sorted(sorted(counter.active, key=rank)[: given["sample"]])
        started = log.start.root.hex() if log.start_note else ""
        # What the maker found is not checked here.
        stated = {"check": report["check"]} if self._is_old else {}
        return {
            "v": self._version,
            "origin": self.origin,
            "since": format_moment(given["since"]),
            "until": format_moment(given["until"]),
            "arguments": given,
            "start": {"size": log.start.size, "root": started},
            "end": {"size": log.end.size, "root": root},
            **stated,
            "entries": len(log.entries),
            "counted": counter.counted,
            **({} if self._is_old else {"counted_by": times.decide(*span)}),
            **({} if self._is_old else {"outside": counter.outside}),
            "figures": figures,
            "decisions": counter.decisions,
            "events": counter.events,
            "named": named,
            "named_of": len(concerns),
            "sample": {
                "seed": seed,
                "seed_from": seed_from,
                "population": len(counter.active),
                "runs": drawn,
            },
            "bundles": list_bundles(drawn, named, incident),
            "maps": [apply_map(used, digest, figures) for _, used, digest in maps],
            "limits": report["limits"],
            "incident": incident,
        }

    def _find_seed(self, root: str) -> tuple[str, str]:
        """Return the seed of the sample, and where it comes from."""
        if self._arguments["seed"]:
            return self._arguments["seed"], "auditor"
        if self._is_old:
            return root, "checkpoint"
        policy = self._read_policy()
        drawn = self._find_witness_seed(policy, self._times)
        behind = self._find_behind(self._times)
        if drawn:
            return drawn.seed, drawn.source
        return read_checkpoint(behind.text).root.hex() if behind else root, "checkpoint"

    def _read_policy(self) -> BundlePolicy:
        """Return the enclosed policy, which nobody need believe."""
        return read_policy(self._archive.read("policy"))

    def _find_witness_seed(self, policy: BundlePolicy, times: EntryTimes) -> SampleSeed | None:
        """Return the seed that follows from cosignatures by the witnesses of a policy, if any does.

        A witness on the machine of the log does not count: its owner can have as many cosignatures
        as he likes.  `times` are those of the policy.
        """
        witnesses = list(policy.witnesses.values())
        note, source = self._find_seed_note(policy, times)
        try:
            named = note.signatures_by(witnesses)
            seen = [check_cosignature(note.text, blob, key) for key, blob in named]
        except BundleRejected:
            return None
        keys = [key for key in {c.key for c in seen} if not is_local_witness(key.name)]
        if not keys or not policy.is_satisfied_by(seen):
            return None
        lines = ["forum/sample/1\n"]
        for key in sorted(keys, key=write_key):
            [(_, blob)] = note.signatures_by([key])
            lines.append(f"{write_key(key)} {base64.b64encode(blob).decode()}\n")
        return SampleSeed(hashlib.sha256("".join(lines).encode()).hexdigest(), source, keys)

    def _find_behind(self, times: EntryTimes) -> BundleNote | None:
        """Return the first checkpoint in log/seen that witnesses saw behind the period, if any is.

        Whether an earlier one decides is checked only where they saw the end behind it, too.
        """
        until = self._arguments["until"]
        seen = zip(self._log.seen, times.seen) if is_seen_since(times.end, until) else ()
        return next((read_note(note) for (_, note), at in seen if is_seen_since(at, until)), None)

    def _find_seed_note(self, policy: BundlePolicy, times: EntryTimes) -> tuple[BundleNote, str]:
        """Return the checkpoint whose signatures give the seed, and where that comes from."""
        note, first = self._find_behind(times), FirstLines()
        if note is None:
            return read_note(self._log.end_note), "witnesses"
        checkpoint, witnesses = read_checkpoint(note.text), keys_by_claim(policy)
        for size, root, recorded in self._records():
            if (size, root) != (checkpoint.size, checkpoint.root.hex()):
                continue
            before = len(first)
            add_first_lines(first, recorded, witnesses)
            # What was recorded later does not count: nobody chooses by where a log part ends.
            if len(first) > before and names_quorum(first, policy):
                return BundleNote(note.text, list(first.values())), "recorded"
        return note, "witnesses"

    def _records(self) -> Iterator[tuple[int, str, list[str]]]:
        """Yield size and root of each checkpoint that the log part records, with the lines."""
        for index, entry in self._entries or []:
            place = (entry.run, entry.strand, entry.kind)
            if index >= self._log.start.size and place == ("log", "witnessed", "witnessed/1"):
                facts = entry.facts
                yield facts["size"], facts["root"], facts.get("cosignatures", [])

    def _judge_seed(self, source: str) -> str:
        """Return what cannot be said about the seed of the sample."""
        if source == "auditor":
            return f"who brought the seed {self._arguments['seed']!r}: compare it with yours"
        if source == "checkpoint":
            return SEED_OF_MAKER
        drawn = self._find_witness_seed(self._read_policy(), self._times)
        policy = self._policy
        keys = drawn.keys if drawn else []
        # His own witness gives the maker as many cosignatures as he likes.
        if not policy or not all(policy.is_independent(key, self._trust.keys) for key in keys):
            return SEED_OF_UNKNOWN_WITNESSES
        # The maker chooses the enclosed policy: one that leaves out a witness draws another sample.
        theirs = self._find_witness_seed(policy, EntryTimes(self._log, policy))
        if not drawn or not theirs or drawn.seed != theirs.seed:
            return SEED_OF_OTHERS
        return SEED_OF_RECORD if theirs.source == "recorded" else SEED_OF_WITNESSES

    def _read_maps(self) -> list[tuple[str, Members, str]]:
        """Return name, content and digest of each map, compared with those of this release."""
        maps = []
        for name in sorted(self._archive.members):
            if not name.startswith("maps/"):
                continue
            used, digest = read_loose_json(self._archive.read(name)), ""
            digest = self._archive.members[name].digest
            require(type(used) is dict and f"maps/{used.get('name')}.json" == name, f"{name}: name")
            row = f"map {used['name']}"
            known_digest = KNOWN_MAP_DIGESTS.get(f"{used['name']} {used.get('version')}")
            if used["name"] not in KNOWN_MAP_NAMES:
                namesake = find_namesake(used.get("title"))
                if namesake:
                    detail = f"it has the title or a number of the source of map {namesake}"
                    self._add("map-changed", row, detail)
                self._not_checked.append(f"the text of {row}, unknown to this program")
            elif known_digest is None:
                # Otherwise its maker could soften a text, and call that another version.
                self._add("map-changed", row, "this program knows no such version of this map")
            elif known_digest != digest:
                self._add("map-changed", row, "it is not the map of this version")
            maps.append((used["name"], used, digest))
        names = [name for name, _, _ in maps]
        if names != self._arguments["maps"]:
            self._add("map-changed", "maps", f"the pack holds {', '.join(names)}")
        return maps

    def _judge_figures(
        self, computed: Members | None, claims: dict[str, dict[str, str]]
    ) -> dict[str, str]:
        """Compare report.json and entries.csv with what the entries give."""
        if computed is None:
            return {"state": NOT_CHECKED, "reason": self._why_not_computed()}
        self._compare_report(computed)
        self._check_period()
        self._compare_list()
        changed = [f for f in self._listed if f["problem"] not in ("log-part", "bundle-rejected")]
        if changed:
            first = "{problem} at {row}: {detail}".format(**changed[0])
            return {"state": FAILS, "reason": first}
        if claims[INTACT]["state"] != HOLDS or claims[COMPLETE]["state"] == FAILS:
            reason = "they follow from the log part of this pack, which is not proven"
            return {"state": NOT_CHECKED, "reason": reason}
        if self._is_old:
            # It is what people read, so that nothing else makes up for it.
            return {"state": NOT_CHECKED, "reason": PAGE_OF_MAKER}
        doubt = self._doubt_period()
        if doubt:
            return {"state": NOT_CHECKED, "reason": doubt}
        count = len(computed["figures"])
        reason = f"{count} figures of report.json and the list of entries follow from the entries"
        return {"state": HOLDS, "reason": reason}

    def _compare_report(self, computed: Members) -> None:
        """Add a finding for each member of report.json that the entries do not give."""
        for row, there, here in differences("", self._report, computed):
            problem = "figure-changed"
            if row.startswith(("sample", "bundles")):
                problem = "sample-changed"
            elif row.startswith("maps"):
                problem = "map-changed"
            self._add(problem, row, f"report.json says {there}; the entries give {here}")
        form = json.dumps(self._report, indent=1, ensure_ascii=False) + "\n"
        if form.encode() != self._archive.read("report.json"):
            self._add("figure-changed", "report.json", "it is not in its canonical form")

    def _check_period(self) -> None:
        """Add a finding if other checkpoints than the enclosed ones decide about the period."""
        try:
            if not self._is_old:
                self._check_choice(self._times, self._read_policy())
        except BundleRejected as error:
            self._add("period-changed", "log/seen", str(error))

    def _doubt_period(self) -> str:
        """Return why the witnesses of the reader do not show what is in the period, or nothing."""
        if self._policy is None:
            return "you named no trust file, so that nothing shows which entries are in the period"
        theirs = EntryTimes(self._log, self._policy)
        try:
            self._check_choice(theirs, self._policy)
        except BundleRejected as error:
            return f"by your trust file, other checkpoints decide what is in the period: {error}"
        if any(a and abs(a - b) > MAX_CLOCK_SKEW_US for a, b in zip(self._times.all, theirs.all)):
            return "the witnesses of your trust file saw the checkpoints at other times"
        return ""

    def _check_choice(self, times: EntryTimes, policy: BundlePolicy) -> None:
        """Refuse checkpoints that do not decide what is in the period, by these witnesses."""
        log, seen = self._log, times.seen
        start = times.start
        since, until = self._arguments["since"], self._arguments["until"]
        inner = [time for time in seen if not is_seen_since(time, until)]
        is_before = start is None or 0 < start <= since - 1_000_000
        require(is_before, "witnesses did not see log/start.note before the period")
        require(all(seen), "witnesses have not cosigned a checkpoint in log/seen")
        require(
            seen[: len(inner)] == inner and len(inner) <= 2 and len(seen) <= len(inner) + 1,
            "log/seen has others than the first and the last checkpoint of the period",
        )
        require(
            not inner or is_seen_since(inner[0], since),
            "witnesses saw the first checkpoint in log/seen before the period",
        )
        # Between these, witnesses saw no checkpoint: it would have been the one that decides.
        sizes = [log.start.size, *(size for size, _ in log.seen), log.end.size]
        is_cut = times.end > 0 and not is_seen_since(times.end, until)
        places = (0,) if is_cut else (0, len(inner))
        gaps = [range(sizes[at] + 1, sizes[at + 1]) for at in places]
        recorded: dict[tuple[int, str], FirstLines] = {}
        witnesses = keys_by_claim(policy)
        for size, root, lines in self._records():
            add_first_lines(recorded.setdefault((size, root), {}), lines, witnesses)
        notes = [log.end_note, *(note for _, note in log.seen)]
        notes += [log.start_note] if log.start_note else []
        enclosed = {note.text: note for note in map(read_note, notes)}
        for size, root in sorted(recorded):
            first = recorded[size, root]
            if not (first and matches(HASH, root)):
                continue  # no witness has cosigned what is no checkpoint
            text = f"{self.origin}\n{size}\n{base64.b64encode(bytes.fromhex(root)).decode()}\n"
            note = BundleNote(text, list(first.values()))
            if text in enclosed:
                self._check_missing(policy, size, note, enclosed[text])
            elif any(size in gap for gap in gaps) and names_quorum(first, policy):
                self._check_record(policy, size, note, list(first))

    def _check_missing(
        self, policy: BundlePolicy, size: int, recorded: BundleNote, enclosed: BundleNote
    ) -> None:
        """Refuse an enclosed checkpoint without a cosignature that the log recorded."""
        for key in policy.witnesses.values():
            # A witness that was asked twice has two cosignatures, and the note one of them.
            if not enclosed.signatures_by([key]):
                seen = check_record_lines(recorded, size, [key])
                what = f"the checkpoint of size {size} lacks a cosignature that the log recorded"
                require(not seen, what)

    def _check_record(
        self, policy: BundlePolicy, size: int, note: BundleNote, named: list[BundleKey]
    ) -> None:
        """Refuse a pack without a checkpoint of which the log recorded that witnesses saw it.

        Signatures are checked only if they are of a quorum: an honest pack has no such record, and
        any other is refused with the first one.
        """
        seen = check_record_lines(note, size, named)
        what = f"the log recorded that witnesses saw a checkpoint of size {size}: it is missing"
        require(not policy.quorum_time(seen), what)

    def _compare_list(self) -> None:
        """Add a finding for the first line of entries.csv that the entries do not give."""
        lines = self._archive.read("entries.csv").split(b"\r\n")
        expected = list(self._list_entries())
        for at in range(max(len(lines), len(expected))):
            if lines[at : at + 1] != expected[at : at + 1]:
                row = f"entries.csv line {at + 1}"
                self._add("list-changed", row, "not what the entries say")
                return

    def _list_entries(self) -> Iterator[bytes]:
        """Yield the lines that entries.csv must have."""
        yield b"index,id,time,run,strand,n,kind,actor,outcome"
        for index, entry in self._entries or []:
            at = index - self._log.start.size
            counted = self._times.time_of(index, entry.ts)
            if at < 0 or not self._arguments["since"] <= counted < self._arguments["until"]:
                continue
            place = [str(index), hash_leaf(self._log.entries[at]).hex(), format_moment(entry.ts)]
            rest = [entry.run, entry.strand, str(entry.n), entry.kind, entry.actor]
            outcome = str(entry.facts.get("outcome", ""))
            yield ",".join(map(quote_cell, [*place, *rest, outcome])).encode()
        yield b""

    def _check_bundles(self, computed: Members) -> None:
        """Check each bundle, and that it holds what the log part holds of its run."""
        expected = {bundle["file"]: bundle["run"] for bundle in computed["bundles"]}
        enclosed = {name for name in self._archive.members if name.startswith("runs/")}
        for file in sorted(enclosed - expected.keys()):
            self._add("sample-changed", file, "this run was neither drawn nor named")
        first, left = self._log.start.size, self._trust.max_bytes
        for file, run in expected.items():
            if file not in enclosed:
                self._add("bundle-missing", file, f"the bundle of run {run} is missing")
                continue
            data = self._archive.read(file)
            checked = verify(data, self._trust._replace(max_bytes=left))
            for finding in checked["findings"][:3]:
                self._add("bundle-rejected", file, describe(finding))
            self._not_checked += [f"{file}: {missing}" for missing in checked["not_checked"]]
            try:
                bundle = BundleContents(data, left)
                left -= bundle.body_bytes  # the limit is one for the whole file
                own = {i: e for i in bundle.entries if (e := bundle.entry(i)[0]) and i >= first}
            except BundleRejected:
                continue  # reported by `verify`
            whole = {
                index: self._log.entries[index - first]
                for index, entry in self._entries or []
                if index >= first and entry.run == run
            }
            mine = {i: e for i, e in own.items() if i in whole or is_of_run(e, run)}
            size = self._log.end.size
            if bundle.run != run or {i: e for i, e in mine.items() if i < size} != whole:
                self._add("bundle-rejected", file, "its entries are not those of the log part")

    def _judge_attestation(self, computed: Members | None) -> dict[str, str]:
        """Check the signature about the manifest, by a key that the log published."""
        try:
            key, index, is_signed = self._read_attestation_key()
            statement = self._open_statement(key)
            if computed:
                self._compare_claims(statement, computed.get("check", {}))
        except (BundleRejected, LookupError, TypeError, AttributeError) as error:
            detail = str(error) if isinstance(error, BundleRejected) else "malformed"
            self._add("attestation-rejected", "attestation.dsse.json", detail)
            return {"state": FAILS, "reason": detail}
        if not computed:
            # What the statement claims could not be compared with anything.
            return {"state": NOT_CHECKED, "reason": self._why_not_computed()}
        if not self._keys:
            return {"state": NOT_CHECKED, "reason": "no key of the log was given"}
        if not is_signed:
            # Release 0.2 wrote it; but any writer of the log can write the same.
            reason = f"no key of the log has signed entry {index}, which publishes {key.name}"
            return {"state": NOT_CHECKED, "reason": reason}
        reason = f"signed by {key.name}, a key that the log published as entry {index}"
        return {"state": HOLDS, "reason": reason}

    def _read_attestation_key(self) -> tuple[BundleKey, int, bool]:
        """Return the key that signs attestations, and the index of the entry that publishes it.

        Return as well whether a key of the log has signed that.
        """
        data = self._archive.read("log/attestation-key.json")
        entry = read_entry(data)
        place = (entry.log, entry.run, entry.strand)
        ours = entry.kind in ("key.add/1", "key.add/2") and place == (
            self.origin,
            "log",
            "evidence",
        )
        require(ours, "the entry publishes no key for attestations")
        key = read_key(entry.facts["vkey"])
        require(key[:2] == (f"{self.origin}/evidence", LOG_KEY), "not the key of attestations")
        proof = read_proof(self._archive.read("log/attestation-key.tlog-proof"))
        tree = read_checkpoint(read_note(proof.note).text)
        require(tree.origin == self.origin, "the key is published by another log")
        if self._keys:
            open_checkpoint(proof.note, self._keys)
            self._log_keys.check_signer(proof.note)
        if self._policy:
            seen = read_cosignatures(proof.note, list(self._policy.witnesses.values()))
            require(self._policy.is_satisfied_by(seen), "no witness has cosigned the key")
        check_inclusion(proof.nodes, hash_leaf(data), proof.at, tree)
        if entry.kind == "key.add/2":
            self._check_key_signature(entry.facts, proof.at)
        return key, proof.at, entry.kind == "key.add/2"

    def _check_key_signature(self, facts: Members, index: int) -> None:
        """Check that a key of the log, in use then, signed the key of attestations."""
        by = (facts["by"], facts["vkey"])
        holds = index >= facts["since"] and keys_have_signed("key.add/2", self.origin, facts, by)
        require(holds, "the signatures of the key of attestations do not hold")
        allowed = not self._keys or self._log_keys.may_sign(read_key(facts["by"]), index + 1)
        require(allowed, "the key that signed it was not the log's key then")

    def _open_statement(self, key: BundleKey) -> Members:
        """Return the statement about this manifest, after checking that the key signed it."""
        envelope = read_loose_json(self._archive.read("attestation.dsse.json"))
        kind = "application/vnd.in-toto+json"
        payload = read_base64(envelope["payload"])
        signed = len(envelope["signatures"]) == 1 and envelope["payloadType"] == kind
        require(signed, "it is no in-toto statement with one signature")
        message = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
        signature = read_base64(envelope["signatures"][0]["sig"])
        require(signature_holds(key.public, message, signature), f"{key.name}: invalid signature")
        statement = read_loose_json(payload)
        digest = self._archive.members["manifest.json"].digest
        about = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "manifest.json", "digest": {"sha256": digest}}],
            "predicateType": "https://in-toto.io/attestation/svr/v0.1",
            "predicate": statement["predicate"],
        }
        require(statement == about, "the statement is not about the manifest of this pack")
        return dict(statement)

    def _compare_claims(self, statement: Members, check: Members) -> None:
        """Check that a statement claims what a report of release 0.2 does, or else nothing."""
        claims = [f"FORUM_{n}_{c['state']}".upper().replace(" ", "_") for n, c in check.items()]
        expected = {
            "verifier": {"id": self.origin},
            "timeCreated": format_moment(self._arguments["until"]),
            "properties": claims,
        }
        same = statement["predicate"] == expected
        require(same, "the statement claims something else than the report")


def is_of_run(data: bytes, run: str) -> bool:
    """Return whether an entry of a bundle is one of its run, and not a redaction."""
    try:
        return read_entry(data).run == run
    except BundleRejected:
        return False


def list_bundles(drawn: list[str], named: list[Members], incident: Members | None) -> list[Members]:
    """Return the bundles that a pack must have, with the reasons."""
    why: dict[str, list[str]] = {}
    if incident:
        why[incident["run"]] = ["incident"]
        for run in incident["related"]:
            why.setdefault(run, []).append("named by the incident's run")
    for run in drawn:
        why.setdefault(run, []).append("sample")
    for item in named:
        why.setdefault(item["run"], []).append("named in the report")
    return [{"run": run, "file": name_bundle(run), "why": why[run]} for run in sorted(why)]


def check_terms(queries: list[Members]) -> None:
    """Refuse queries that compare many terms with each item."""
    lists = [query.get(name, []) for query in queries for name in ("kinds", "by")]
    where = [condition for query in queries for condition in query.get("where", [])]
    lists += [condition["values"] for condition in where]
    terms = len(where) + sum(map(len, lists))
    require(terms <= MAX_TERMS, f"the queries of maps have {terms} terms; the most is {MAX_TERMS}")


def apply_map(used: Members, digest: str, figures: list[Members]) -> Members:
    """Return a map with what the period shows for each of its rows."""
    by_id, rows = {figure["id"]: figure for figure in figures}, []
    for row in used["rows"]:
        named = [by_id[name] for name in row["figures"]]
        state = "no entries in this period" if named else "not from a ledger"
        if any(figure["items"] is None for figure in named):
            state = "cannot be computed from this pack"
        if any(figure["items"] for figure in named):
            state = "entries found"
        short = [{name: f[name] for name in ("id", "value", "items")} for f in named]
        examples = sorted({index for f in named for index in f["examples"][:2]})[:6]
        rows.append({"id": row["id"], "state": state, "figures": short, "examples": examples})
    return {"map": used, "digest": digest, "rows": rows}


KNOWN_MAP_DIGESTS = {
    name: digest for name, _, digest in (x.rpartition(" ") for x in KNOWN_MAPS.strip().split("\n"))
}
KNOWN_MAP_NAMES = {name.partition(" ")[0] for name in KNOWN_MAP_DIGESTS}


def title_marks(title: str) -> set[str]:
    """Return what tells of which source a title is: its letters and digits, and its numbers."""
    words = re.findall("[a-z0-9]+", title.lower())
    return {"".join(words), *re.findall("[0-9]{4}/[0-9]+", title)}


def find_namesake(title: object) -> str:
    """Return the name of a map of this release that is of the same source, or nothing."""
    lines = (line.partition(" ") for line in MAP_TITLES.strip().split("\n"))
    marks = title_marks(title) if isinstance(title, str) else set[str]()
    return next((name for name, _, theirs in lines if marks & title_marks(theirs)), "")


def is_pack(source: bytes | LazyFile) -> bool:
    """Return whether a file is an evidence pack, and not the bundle of one run."""
    try:
        return "log/end.note" in BundleArchive(source).members
    except BundleRejected:
        return False


def verify_pack(source: bytes | LazyFile, trust: BundleTrust) -> dict[str, Any]:
    """Verify one pack and return the report; malformed content is a finding, not an error."""
    try:
        return PackVerifier(source, trust).run()
    except ForeignPack as error:
        origin, sentence = error.args
        finding = {"problem": "log-part", "row": "log part"}
        finding["detail"] = sentence
        return unread_pack_report(origin, sentence, NOTHING_CHECKED, finding)
    except (BundleRejected, RecursionError) as error:
        detail = str(error) if isinstance(error, BundleRejected) else "JSON is nested too deeply"
        finding = {"problem": "pack-altered", "row": "pack", "detail": detail}
    unread = {"state": NOT_CHECKED, "reason": "the pack could not be read"}
    return unread_pack_report("", f"pack-altered at pack: {detail}", unread, finding)


def unread_pack_report(
    origin: str, why: str, others: dict[str, str], finding: dict[str, str]
) -> dict[str, Any]:
    """Return the report on a pack of which nothing was checked."""
    report: dict[str, Any] = {"schema": "forum.pack-report/1", "ok": False}
    report.update(origin=origin, size=0, root="", since="", until="")
    report.update(dict.fromkeys(PACK_CLAIMS, others))
    report[INTACT] = {"state": FAILS, "reason": why}
    report.update(findings=[finding], found=1, not_checked=["everything in it"])
    report.update(witnessing="none", counted_by="")
    return report


# == The command line ==========================================================================


def escape_text(text: str) -> str:
    """Escape characters that could change what a terminal shows."""
    shown = "".join(c if c.isprintable() else c.encode("unicode-escape").decode() for c in text)
    return shown.encode("ascii", "backslashreplace").decode()


def claim_lines(report: dict[str, Any], claims: tuple[str, ...]) -> Iterator[str]:
    """Yield a line for each claim; only a mark of the reader makes a witness independent."""
    for claim in claims:
        state, reason = report[claim]["state"], report[claim]["reason"]
        if claim == INDEPENDENT and report["witnessing"] == "self-witnessed":
            # The writer may run every witness that is not marked.
            state, reason = "self-witnessed", f"{reason}. {ADD_WITNESS}"
        yield f"{claim:<12} {state:<14} {reason}"


def unread_lines(report: dict[str, Any]) -> list[str]:
    """Return why nothing of a file was checked, or nothing if it was."""
    if report["not_checked"] != ["everything in it"]:
        return []
    lines = [f"nothing was checked: {report[INTACT]['reason']}"]
    # A file that could not be read has no origin; otherwise it is of another log.
    return [report["origin"], *lines, GET_TRUST_FILE] if report["origin"] else lines


GET_TRUST_FILE = (
    "You need the trust file of that log. Whoever keeps the log writes one with: "
    "forum ledger policy > trust"
)
ADD_WITNESS = (
    "To let another organization see it, ask it to run a witness. Then mark its witness in "
    "your trust file, which must name this log alone, with the line: independent NAME"
)


def print_report(report: dict[str, Any]) -> None:
    """Print a report as text."""
    lines = [f"{report['origin']}  size {report['size']}  root {report['root']}"]
    lines += claim_lines(report, CLAIMS)
    lines += [f"found        {describe(finding)}" for finding in report["findings"]]
    lines += [f"seen         by {s['witness']} at {s['time']}" for s in report["sightings"]]
    if report["interval"] and None not in report["interval"].values():
        times = [format_moment(time * 1_000_000) for time in report["interval"].values()]
        lines.append(f"written      between {times[0]} and {times[1]}, witnessed")
    lines.append(f"coverage     {describe_coverage(report['coverage'])}")
    lines += [f"not checked  {what}" for what in report["not_checked"]]
    lines += [f"note         {notice}" for notice in report["notices"]]
    print("\n".join(map(escape_text, lines)))


def print_pack_report(report: dict[str, Any]) -> None:
    """Print a report about a pack as text."""
    lines = [f"{report['origin']}  size {report['size']}  root {report['root']}"]
    lines += [f"an evidence pack, from {report['since']} until {report['until']}"]
    lines += [f"counted by: {report['counted_by']}"] if report["counted_by"] else []
    lines += claim_lines(report, PACK_CLAIMS)
    lines += ["found        {problem} at {row}: {detail}".format(**f) for f in report["findings"]]
    lines += [f"not checked  {what}" for what in report["not_checked"]]
    print("\n".join(map(escape_text, lines)))


def read_file(path: str) -> bytes:
    """Return the content of a file.  Raises `BundleRejected` if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BundleRejected(f"{path}: {error.strerror}") from None


EXIT_STATUSES = (
    "Exit status: 0 if every claim holds, and nothing that people read as evidence is left "
    "unchecked; 3 if something was found, or something was not checked that a claim or such a file "
    "rests on (a page in a pack of release 0.2, for example); 2 for wrong usage."
)


def read_max_bytes(text: str) -> int:
    """Parse the option.  Raises `ArgumentTypeError`."""
    try:
        return read_decimal(text)
    except BundleRejected as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        description="Verify an evidence bundle or pack of Forum.", epilog=EXIT_STATUSES
    )
    parser.add_argument("bundle", metavar="FILE", help="a bundle or a pack")
    parser.add_argument("--key", action="append", default=[], help="a log's public key (a vkey)")
    parser.add_argument("--policy", help="your trust file: the logs and witnesses that you trust")
    parser.add_argument("--seen", action="append", default=[], help="a checkpoint seen before")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--max-bytes",
        type=read_max_bytes,
        default=MAX_BODY_BYTES,
        metavar="N",
        help="how many bytes the bodies of the file may have together (default: 2 GiB)",
    )
    args = parser.parse_args()
    try:
        policy = BundlePolicy(read_file(args.policy)) if args.policy is not None else None
        notes = [read_file(path) for path in args.seen]
        trust = BundleTrust([read_key(key) for key in args.key], policy, notes, args.max_bytes)
        bundle = LazyFile(args.bundle)
    except BundleRejected as error:
        parser.error(escape_text(str(error)))
    except OSError as error:
        parser.error(escape_text(f"{args.bundle}: {error.strerror}"))
    pack = is_pack(bundle)
    report = verify_pack(bundle, trust) if pack else verify(bundle, trust)
    if args.json:
        print(json.dumps(report))
    elif unread := unread_lines(report):
        print("\n".join(map(escape_text, unread)))
    elif pack:
        print_pack_report(report)
    else:
        print_report(report)
    return 0 if report["ok"] else 3


if __name__ == "__main__":
    sys.exit(main())
