"""One entry of the ledger: its members and its canonical encoding.

An entry is one leaf of the tree.  Its bytes are UTF-8 JSON with the members in the order below
and no white space; they hold strings, integers, arrays and objects, and nothing else.  Every entry
has exactly one encoding, and other bytes are refused.  The stored bytes are the hashed bytes:
verification never hashes a re-encoded entry.  See docs/spec/entry.md.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from forum.errors import Malformed
from forum.tlog import Hash, hash_leaf

FORMAT: Literal["forum/entry/1"] = "forum/entry/1"
MAX_ENTRY_SIZE = 4096
MAX_PARENTS = 16
MAX_NESTING = 16
"""Nesting depth of arrays and objects: validity must not depend on the stack size of a reader."""

MAX_CLOCK_SKEW_S = 300
"""The largest difference between two clocks, in seconds, that is not reported as an error."""
MAX_CLOCK_SKEW_US = MAX_CLOCK_SKEW_S * 1_000_000
LOG_RUN = "log"
"""The run that records events of the log itself: keys, access, redactions, exports."""
MAIN_STRAND = "main"
"""The strand that every run has."""

_MAX_EXACT_INT = 2**53

Count = Annotated[int, msgspec.Meta(ge=0, lt=_MAX_EXACT_INT)]
"""A non-negative integer that every JSON parser reads exactly, also as a double."""

Limit = Annotated[
    int, msgspec.Meta(ge=0, lt=_MAX_EXACT_INT, description="a count with the default: no limit")
]
"""A count that readers accept also where it is written out with its default value.

Releases up to 0.2 wrote it so if a client had named that value.  Such entries stay in their logs,
so they stay valid; a writer leaves the default out.  No kind after 0.2 may have such a member.
"""


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The small typed facts of one kind of entry.  They outlive the redaction of its bodies.

    Members are `str`, `Count`, string enums, and lists of those; a member with its default value is
    not written.
    """


F_co = TypeVar("F_co", covariant=True)

_LABEL = r"[!#-\[\]-~]{1,128}+"
_LABELS = re.compile(rf"{_LABEL}(?: {_LABEL}){{4}} [a-z][a-z.]*/[1-9][0-9]*").fullmatch
_ONE_LABEL = re.compile(_LABEL).fullmatch
_MAX_SHOWN = 160
"""The number of characters of an invalid label that an error repeats."""
_HASH = re.compile(r"[0-9a-f]{64}").fullmatch
_BODY = re.compile(r"[a-z][a-z0-9._-]{0,31} [0-9a-f]{64} [!#-\[\]-~]{1,64}").fullmatch

# The grammar of an entry, except for the contents of facts and bodies.  The quantifiers are
# possessive, which avoids backtracking: where one of them fails, no shorter match could succeed.
_SHAPE = re.compile(
    rb'\{"v":"forum/entry/1","log":"LABEL","run":"LABEL","strand":"LABEL"'
    rb',"n":(?:0,"prev":""|[1-9][0-9]{0,15}+,"prev":"[0-9a-f]{64}")'
    rb',"step":"LABEL","ts":(?:0|[1-9][0-9]{0,15}+),"actor":"LABEL"'
    rb',"kind":"[a-z][a-z.]*+/[1-9][0-9]*+","parents":\[(?:"[0-9a-f]{64}"(?:,"[0-9a-f]{64}")*+)?\]'
    rb',"facts":(\{.*\}),"bodies":\{.*\}\}'.replace(b"LABEL", _LABEL.encode()),
    re.DOTALL,
).fullmatch


_NUMBER = r"(?:[1-8][0-9]{15}|[1-9][0-9]{0,14}+)"
match_plain_entry = re.compile(
    rb'\{"v":"forum/entry/1","log":"LABEL","run":"LABEL","strand":"LABEL"'
    rb',"n":NUMBER,"prev":"[0-9a-f]{64}","step":"LABEL","ts":NUMBER,"actor":"LABEL"'
    rb',"kind":"([a-z][a-z.]*+/[1-9][0-9]*+)","parents":\[(?:"[0-9a-f]{64}")?+\]'
    rb',"facts":(\{.*\}),"bodies":\{\}\}'.replace(b"LABEL", _LABEL.encode()).replace(
        b"NUMBER", _NUMBER.encode()
    ),
).fullmatch
"""Match an entry without bodies, with at most one parent, that is not the first one of its strand.

The groups are kind and facts: whoever needs to know that very many entries can be read checks these
two and the size.  All else is valid in what matches.
"""


class Commitment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The commitment of an entry to a body stored elsewhere: hash, length and media type."""

    h: str
    size: Count
    type: str


def change_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401  of any form
    """Return facts, or a member of them, with each free text changed; the same if none is."""
    match value:
        case msgspec.Struct():
            members = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = {name: change_texts(member, change) for name, member in members.items()}
            return type(value)(**changed) if changed != members else value
        case list() | tuple():
            return type(value)(change_texts(member, change) for member in value)
        case str() if type(value) is str:  # not a string enum, whose values are fixed
            return change(value)
        case _:
            return value


class Entry(msgspec.Struct, Generic[F_co], frozen=True, forbid_unknown_fields=True, gc=False):
    """One recorded step.  The order of the members is their order in the encoding."""

    v: Literal["forum/entry/1"]
    log: str
    run: str
    strand: str
    n: Count
    prev: str
    step: str
    ts: Count
    actor: str
    kind: str
    parents: tuple[str, ...]
    facts: F_co
    bodies: dict[str, Commitment]


def is_label(text: str) -> bool:
    """Return whether a text is a label, such as the name of a log or of a run."""
    return _ONE_LABEL(text) is not None


def _check_entry(entry: Entry[Any]) -> None:
    """Raise `Malformed` with the rule that an entry breaks."""
    # One match over all labels is faster than six.  A label cannot contain a space, so joining
    # with spaces is unambiguous.
    labels = f"{entry.log} {entry.run} {entry.strand} {entry.step} {entry.actor} {entry.kind}"
    if not _LABELS(labels):
        raise Malformed("entry", _describe_bad_label(entry))
    if not (_HASH(entry.prev) if entry.n else entry.prev == ""):
        raise Malformed("entry", "prev is a leaf hash, and empty at n = 0 only")
    if not (0 <= entry.n < _MAX_EXACT_INT and 0 <= entry.ts < _MAX_EXACT_INT):
        raise Malformed("entry", "n and ts are integers from 0 to 2^53 - 1")
    _check_parents(entry.parents)
    _check_bodies(entry.bodies)


def _describe_bad_label(entry: Entry[Any]) -> str:
    """Return which label of an entry is not valid, and what it is instead."""
    for member in ("log", "run", "strand", "step", "actor"):
        value = getattr(entry, member)
        if not _ONE_LABEL(value):
            shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
            return (
                f"the {member} {shown!r} is not a label: use 1 to 128 characters of plain ASCII, "
                "without spaces, quotes and backslashes"
            )
    return f"the kind {entry.kind[:_MAX_SHOWN]!r} is not a name in lower case and a version"


def _check_parents(parents: tuple[str, ...]) -> None:
    if len(parents) > MAX_PARENTS:
        raise Malformed("entry", f"{len(parents)} parents; more than {MAX_PARENTS} need a join/1")
    if not all(map(_HASH, parents)):
        raise Malformed("entry", "a parent is a leaf hash in lower-case hexadecimal")
    if len(set(parents)) != len(parents):
        raise Malformed("entry", "a parent is named twice")


def _check_bodies(bodies: dict[str, Commitment]) -> None:
    if list(bodies) != sorted(bodies):
        raise Malformed("entry", "bodies are not in the order of their names")
    for name, body in bodies.items():
        if not _BODY(f"{name} {body.h} {body.type}"):
            raise Malformed("entry", f"body {name!r} has a malformed name, hash or type")


_encoder = msgspec.json.Encoder()
_raw_decoder = msgspec.json.Decoder(Entry[msgspec.Raw])


def write_entry(entry: Entry[Any]) -> tuple[bytes, bytes]:
    """Return the bytes of an entry, and the part that holds its facts, which is not checked."""
    try:
        data = _encoder.encode(entry)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("entry", str(error)) from None
    return data, _facts_of(data, entry)


def _facts_of(data: bytes, entry: Entry[Any]) -> bytes:
    """Return the bytes of an entry's facts, after checking everything else in the entry."""
    shape = _SHAPE(data)
    # Fast path: for a small entry without bodies and with at most one parent, a match of the
    # grammar implies that the checks below would pass for everything outside the facts.
    small = max(entry.n, entry.ts) < _MAX_EXACT_INT and len(data) <= MAX_ENTRY_SIZE
    if shape is None or not small or entry.bodies or len(entry.parents) > 1:
        check_bytes(data)
        _check_entry(entry)
    if shape is None:
        raise Malformed("entry", "not of the shape that every entry has")
    return shape[1]


def read_entry(data: bytes, read_facts: Callable[[bytes], Facts] | None = None) -> Entry[Any]:
    """Return the entry with exactly these bytes; `read_facts` checks the facts by their kind.

    Without it, for an unknown kind, the facts stay raw and must only obey the rules for all facts.
    Raises `Malformed`.
    """
    check_bytes(data)
    try:
        entry = _raw_decoder.decode(data)
        # No member of an entry or of a commitment has a default, and the facts are copied as they
        # are: this compares white space, order, names and escapes of everything else.
        again = _encoder.encode(entry)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("entry", str(error)) from None
    if again != data:
        raise Malformed("entry", "not in canonical form")
    _facts_of(data, entry)
    if read_facts is None:
        _check_raw(entry.facts)
        return entry
    return replace(entry, facts=read_facts(bytes(entry.facts)))


@lru_cache(maxsize=4096)
def strand_prefix(log: str, run: str, strand: str) -> bytes:
    """Return the common prefix of all entries of a strand, up to the value of `n`."""
    place = f'"log":"{log}","run":"{run}","strand":"{strand}"'
    return b'{"v":"forum/entry/1",' + place.encode() + b',"n":'


_PLAIN_REST = re.compile(
    rb'LABEL","ts":([1-9][0-9]{0,15}+),"actor":"LABEL","kind":"([^"]++)"'
    rb',"parents":\[(?:"([^"]*+(?:","[^"]*+)*+)")?+\]'
    rb',"facts":(\{.*\}),"bodies":\{\}\}'.replace(b"LABEL", _LABEL.encode())
)

match_plain_entry_tail = _PLAIN_REST.fullmatch
"""Match the tail of a plain entry, from the value of `step` on: ts, kind, parents, facts.

Plain means without bodies.  This is for readers of very many entries.  The order of the members is
checked, but the four values are not: the caller must compare each with one known to be valid.
The value of parents has no first and no last quote, and is None if there are none.
"""


def peek_run(data: bytes) -> str:
    """Return the run named in the bytes of an entry, without parsing the rest."""
    start = data.find(b'","run":"') + 9
    return data[start : data.find(b'"', start)].decode(errors="replace")


def peek_kind(data: bytes) -> bytes:
    """Return the kind named in the bytes of an entry, without parsing the rest.

    A quote inside a JSON string is escaped, so only the member itself can match.  In bytes that are
    not an entry the result is arbitrary, and the decoder then refuses them.
    """
    start = data.find(b'","kind":"') + 10
    return data[start : data.find(b'"', start)]


NO_BODIES = b',"bodies":{}}'
"""The end of an entry without bodies."""

_BODY_NAMES = re.compile(rb'"([a-z][a-z0-9._-]{0,31})":\{"h"').findall


def peek_body_names(data: bytes) -> list[str]:
    """Return the names of the bodies of an entry, without parsing the rest.

    In bytes that are not an entry the result is arbitrary.
    """
    if len(data) > MAX_ENTRY_SIZE:
        return []
    return [name.decode() for name in _BODY_NAMES(data, data.rfind(b',"bodies":{') + 10)]


def check_bytes(data: bytes) -> None:
    """Raise `Malformed` for more than `MAX_ENTRY_SIZE` bytes or a control character.

    Control characters are refused raw and escaped.
    """
    if len(data) > MAX_ENTRY_SIZE:
        raise Malformed("entry", f"{len(data)} bytes; the most is {MAX_ENTRY_SIZE}")
    # Strings of entries hold no control characters.  JSON demands an escape for those below U+0020,
    # so only the escapes of the quote and the backslash are allowed.
    if b"\\" in data and b"\\" in data.replace(b"\\\\", b"").replace(b'\\"', b""):
        raise Malformed("entry", "a string holds a control character")
    # JSON needs no escape for U+007F and for U+0080 to U+009F, so the search for escapes does not
    # find these control characters.
    if b"\x7f" in data or (not data.isascii() and re.search(rb"\xc2[\x80-\x9f]", data)):
        raise Malformed("entry", "a string holds a control character")


def _check_raw(facts: msgspec.Raw) -> None:
    """Raise `Malformed` if the facts of an unknown kind break a rule for all facts."""
    try:
        value = msgspec.json.decode(facts)
        again = _encoder.encode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("entry", str(error)) from None
    if type(value) is not dict or again != bytes(facts) or not _is_plain(value):
        raise Malformed("entry", "facts are an object of strings, integers, arrays and objects")


def _is_plain(value: object, nesting: int = 1) -> bool:
    # A level at a time: a call for each value would make hostile entries costly.
    level = [value]
    while level:
        within: list[object] = []
        for item in level:
            if isinstance(item, list | dict):
                if nesting > MAX_NESTING:
                    return False
                within += item if isinstance(item, list) else item.values()
            elif type(item) is int:
                if not -_MAX_EXACT_INT < item < _MAX_EXACT_INT:
                    return False
            elif type(item) is not str:
                return False
        level, nesting = within, nesting + 1
    return True


def leaf_of(data: bytes) -> Hash:
    """Return the id of the entry with these bytes, which is its leaf hash."""
    return hash_leaf(data)
