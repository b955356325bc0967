"""Entries of every kind in right and wrong encodings, and what each verifier says of their bytes.

The cases come from the registry of kinds, so that a new kind is covered when it is declared.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from random import Random
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from forum.app.clock_ids_and_kinds import KINDS
from forum.errors import Malformed
from forum.ledger.entry import Limit
from forum.ledger.kinds import Kind
from tests.ledger.samples import members_of
from tests.verify.go_verifier import go_verifier
from tests.verify.page import encode, page_verifier
from tests.verify.samples import standalone

HASH = "ab" * 32
COMMITMENT = f'{{"h":"{HASH}","size":1,"type":"text/plain"}}'

NUMBERS = {
    "0": True,
    "1": True,
    "9007199254740990": True,
    "9007199254740991": True,
    "9007199254740992": False,
    "-1": False,
    "9223372036854775808": False,
    "1" * 40: False,
    "1.0": False,
    "1e0": False,
    "1E2": False,
    "-0": False,
    "01": False,
    "+1": False,
    "0x1": False,
    "NaN": False,
    "true": False,
    "null": False,
    '"1"': False,
    "[]": False,
    "{}": False,
}
"""Spellings of a count, and whether each is one."""
STRINGS = {
    '""': True,
    '"a"': True,
    '"é"': True,
    '"e\u0301"': True,
    '"\u202e\u2066"': True,
    '"\ufeff"': True,
    '"\u2028\u2029"': True,
    '"\u00ad\u200b"': True,
    '"\ufffe\uffff"': True,
    '"\U0010ffff"': True,
    r'"\"\\"': True,
    '"/"': True,
    '"null"': True,
    r'"\/"': False,
    r'"\u0061"': False,
    r'"\u00e9"': False,
    r'"\n"': False,
    r'"\u0000"': False,
    r'"\u001f"': False,
    '"\x00"': False,
    '"\x1b"': False,
    '"\x7f"': False,
    '"\x80"': False,
    '"\x9f"': False,
    r'"\ud800"': False,
    r'"\ud83d\ude00"': False,
    '"\udcff"': False,  # a byte that is no UTF-8
    '"\udced\udca0\udc80"': False,  # a surrogate in three bytes
    '"\udcc0\udc80"': False,  # NUL in two bytes
    "'a'": False,
    "0": False,
    "null": False,
    "[]": False,
    "{}": False,
}
"""Spellings of a text; a lone surrogate U+DC80 to U+DCFF stands for a byte that is no UTF-8."""


class EncodingCase(NamedTuple):
    """The bytes of an entry, and whether they are canonical; None if only agreement is tested."""

    name: str
    data: bytes
    valid: bool | None


def write_bytes(text: str) -> bytes:
    """Return a text as UTF-8, with the bytes that stand for themselves."""
    return text.encode("utf-8", "surrogateescape")


def frame(kind: str, facts: str = "{}", bodies: str = "{}", /, **other: str) -> bytes:
    """Return an entry around facts and bodies; `other` replaces the JSON of members."""
    members = {
        "v": '"forum/entry/1"',
        "log": '"example.com/log"',
        "run": '"r"',
        "strand": '"main"',
        "n": "1",
        "prev": f'"{HASH}"',
        "step": '"s"',
        "ts": "1700000000000000",
        "actor": '"a"',
        "kind": f'"{kind}"',
        "parents": "[]",
        "facts": facts,
        "bodies": bodies,
    }
    members.update(other)
    return write_bytes("{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}")


def spellings(hint: Any) -> dict[str, bool]:  # noqa: ANN401  a type of any form
    """Return JSON for a member of a type, and whether it is a canonical value of that type."""
    if get_origin(hint) is Annotated:
        return NUMBERS
    if get_origin(hint) is tuple:
        items = spellings(get_args(hint)[0])
        good = [text for text, valid in items.items() if valid]
        lists = {f"[{text}]": valid for text, valid in items.items()}
        more = {f"[{good[0]},{good[-1]}]": True, f"[{good[0]},]": False, f"[ {good[0]}]": False}
        return {"[]": True, **lists, **more, '""': False, "{}": False, "null": False}
    if issubclass(hint, Enum):
        values = [json.dumps(member.value) for member in hint]
        wrong = {'"no such value"': False, '"OK"': False, "0": False, "null": False, "[]": False}
        return {'""': '""' in values, **wrong, **dict.fromkeys(values, True)}
    return STRINGS


def write_default(default: Any) -> str:  # noqa: ANN401  of any type
    """Return the JSON of a default, or nothing if there is none."""
    return "" if default is msgspec.NODEFAULT else msgspec.json.encode(default).decode()


class KindForm:
    """One kind, as its encodings are made: a good value of each member, and the defaults."""

    def __init__(self, kind: Kind[Any]) -> None:
        self.name, self.bodies = kind.name, sorted(kind.bodies)
        self.hints = members_of(kind.facts)
        fields = msgspec.structs.fields(kind.facts)
        self.defaults = {field.name: write_default(field.default) for field in fields}
        self.good = {name: self._good_value(name) for name in self.defaults}

    def _good_value(self, name: str) -> str:
        """Return a value of a member that is not its default."""
        allowed = spellings(self.hints[name]).items()
        return next(t for t, valid in reversed(allowed) if valid and t != self.defaults[name])

    def required(self) -> dict[str, str]:
        """Return the members without a default."""
        return {name: self.good[name] for name, default in self.defaults.items() if not default}

    def write(self, facts: dict[str, str], **other: str) -> bytes:
        """Return an entry with these facts, in the order of the kind."""
        return frame(self.name, self.join(facts), **other)

    def join(self, facts: dict[str, str]) -> str:
        """Return facts in the order of the kind; names that it does not have come last."""
        ordered = {name: facts[name] for name in self.defaults if name in facts}
        members = {**ordered, **facts}
        return "{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}"

    def cases(self) -> Iterator[EncodingCase]:
        """Yield right and wrong encodings of this kind."""
        required = self.required()
        yield EncodingCase("least", self.write(required), valid=True)
        yield EncodingCase("all members", self.write(self.good), valid=True)
        for name, hint in self.hints.items():
            yield from self._member_cases(name, hint, required)
        for other in ("zz", "", " ", f"{next(iter(self.good), 'a')} b"):
            data = self.write({**required, other: "1"})
            yield EncodingCase(f"unknown {other!r}", data, valid=False)
        yield EncodingCase("white space", self.write(required, parents="[ ]"), valid=False)
        if len(self.good) > 1:
            turned = dict(reversed(self.good.items()))
            facts = "{" + ",".join(f'"{name}":{text}' for name, text in turned.items()) + "}"
            yield EncodingCase("out of order", frame(self.name, facts), valid=False)
        yield from self._body_cases(required)

    def _member_cases(
        self, name: str, hint: object, required: dict[str, str]
    ) -> Iterator[EncodingCase]:
        default = self.defaults[name]
        for text, valid in spellings(hint).items():
            allowed = valid and (text != default or hint == Limit)
            yield EncodingCase(
                f"{name}={text[:20]!r}", self.write({**required, name: text}), allowed
            )
        if not default:
            absent = {other: text for other, text in required.items() if other != name}
            yield EncodingCase(f"without {name}", self.write(absent), valid=False)
        twice = self.join({**required, name: self.good[name]})
        doubled = twice.replace(f'"{name}":', f'"{name}":{self.good[name]},"{name}":', 1)
        yield EncodingCase(f"{name} twice", frame(self.name, doubled), valid=False)

    def _body_cases(self, required: dict[str, str]) -> Iterator[EncodingCase]:
        facts = self.join(required)
        listed = ",".join(f'"{body}":{COMMITMENT}' for body in self.bodies)
        yield EncodingCase("all bodies", frame(self.name, facts, f"{{{listed}}}"), valid=True)
        other = f'{{"nosuchbody":{COMMITMENT}}}'
        yield EncodingCase("a body too many", frame(self.name, facts, other), valid=False)
        if self.bodies:
            twice = f'{{"{self.bodies[0]}":{COMMITMENT},"{self.bodies[0]}":{COMMITMENT}}}'
            yield EncodingCase("a body twice", frame(self.name, facts, twice), valid=False)


def label_cases() -> Iterator[EncodingCase]:
    """Yield encodings that are right or wrong in a label or a number of the frame."""
    for name in ("n", "ts"):
        for text, valid in NUMBERS.items():
            # A position of 0 has no entry before it.
            allowed = valid and not (name == "n" and text == "0")
            yield EncodingCase(f"{name}={text[:20]}", frame("join/1", **{name: text}), allowed)
    yield EncodingCase("n=0 first", frame("join/1", n="0", prev='""'), valid=True)
    for name in ("log", "run", "strand", "step", "actor", "kind"):
        for text in (*STRINGS, f'"{"x" * 128}"', f'"{"x" * 129}"', '"a b"', '"note/01"', '"a/0"'):
            yield EncodingCase(f"{name}={text[:20]!r}", frame("join/1", **{name: text}), None)


def frame_cases() -> Iterator[EncodingCase]:
    """Yield encodings that are right or wrong in other places of the frame."""
    for text in (f'["{HASH}"]', f'["{HASH}","{HASH}"]', f'["{HASH.upper()}"]', '[""]', "[0]", "{}"):
        valid = text == f'["{HASH}"]'
        yield EncodingCase(f"parents={text[:20]}", frame("join/1", parents=text), valid)
    many = ",".join(f'"{n:064x}"' for n in range(17))
    yield EncodingCase("17 parents", frame("join/1", parents=f"[{many}]"), valid=False)
    for size, valid in (("0", True), ("-1", False), ("1.0", False), ("9007199254740992", False)):
        body = COMMITMENT.replace(":1,", f":{size},")
        data = frame("note/1", "{}", f'{{"text":{body}}}')
        yield EncodingCase(f"size={size}", data, valid)
    plain = frame("join/1")
    yield EncodingCase("byte order mark", b"\xef\xbb\xbf" + plain, valid=False)
    yield EncodingCase("newline", plain + b"\n", valid=False)
    yield EncodingCase("nothing", b"", valid=False)
    room = 4096 - len(frame("log.seal/1", '{"reason":""}'))
    for more, valid in ((0, True), (1, False)):
        facts = f'{{"reason":"{"x" * (room + more)}"}}'
        yield EncodingCase(f"{4096 + more} bytes", frame("log.seal/1", facts), valid)


def unknown_cases() -> Iterator[EncodingCase]:
    """Yield what the facts of a kind of a later release may and may not hold."""
    for text in (*NUMBERS, *STRINGS, '{"b":1,"a":2}', '{"a":1,"a":1}', "-9007199254740991"):
        yield EncodingCase(f"unknown={text[:20]!r}", frame("later/9", f'{{"x":{text}}}'), None)
    for depth in (14, 15, 16, 17, 500):
        nested = "[" * depth + "]" * depth
        data = frame("later/9", f'{{"x":{nested}}}')
        yield EncodingCase(f"{depth} deep", data, depth <= 15)


def all_cases() -> list[EncodingCase]:
    """Return the cases of the frame and of every declared kind."""
    framed = (*label_cases(), *frame_cases(), *unknown_cases())
    cases = [EncodingCase(f"entry {name}", data, valid) for name, data, valid in framed]
    for kind in KINDS:
        form = KindForm(kind)
        cases += [EncodingCase(f"{kind.name} {name}", d, v) for name, d, v in form.cases()]
    return cases


def random_cases(seed: int, count: int) -> list[EncodingCase]:
    """Return entries with several members that are drawn, and sometimes an altered byte."""
    draw = Random(seed)
    forms = [KindForm(kind) for kind in KINDS]
    cases = []
    for number in range(count):
        form = draw.choice(forms)
        facts = form.required()
        for name, hint in form.hints.items():
            if draw.random() < 0.4:
                allowed = spellings(hint)
                good = [text for text, valid in allowed.items() if valid]
                facts[name] = draw.choice(good if draw.random() < 0.8 else list(allowed))
            elif draw.random() < 0.1 and form.defaults[name]:
                facts[name] = form.defaults[name]
        data = bytearray(form.write(facts))
        if draw.random() < 0.3:
            at = draw.randrange(len(data))
            data[at : at + draw.randrange(2)] = draw.randbytes(draw.randrange(2))
        cases.append(EncodingCase(f"seed {seed} case {number}", bytes(data), None))
    return cases


# The four readers: each says of a list of entries which it accepts.


def read_by_library(entries: Sequence[bytes]) -> list[bool]:
    """Ask the library, whose fast path for facts must say the same."""
    return [_is_read(data) for data in entries]


def _is_read(data: bytes) -> bool:
    try:
        entry = KINDS.read(data)
    except Malformed:
        return False
    if entry.kind in KINDS and not entry.bodies:
        facts = data[data.index(b',"facts":') + 9 : -len(b',"bodies":{}}')]
        assert KINDS.has_valid_facts(entry.kind.encode(), facts)
    return True


def read_alone(entries: Sequence[bytes]) -> list[bool]:
    """Ask verify.py."""
    accepted = []
    for data in entries:
        try:
            standalone.read_entry(data)
        except standalone.BundleRejected:
            accepted.append(False)
        else:
            accepted.append(True)
    return accepted


def read_by_page(entries: Sequence[bytes]) -> list[bool]:
    """Ask verify.html."""
    page = page_verifier()
    assert page is not None
    said: list[bool] = page.ask("entries", entries=[encode(data) for data in entries])
    return said


def read_by_go(entries: Sequence[bytes]) -> list[bool]:
    """Ask the verifier in Go."""
    program = go_verifier()
    assert program is not None
    lines = "".join(f"{encode(data)}\n" for data in entries)
    completed = subprocess.run(
        [program, "-entries"], input=lines, capture_output=True, text=True, check=True
    )
    return [line == "ok" for line in completed.stdout.splitlines()]


@cache
def readers() -> dict[str, Any]:
    """Return the readers that this machine can run."""
    document = {"library": read_by_library, "verify.py": read_alone}
    if shutil.which("node"):
        document["verify.html"] = read_by_page
    if go_verifier():
        document["Go"] = read_by_go
    return document


def disagreements(cases: Sequence[EncodingCase]) -> list[str]:
    """Return each case that a reader takes for something else than another, or than it is."""
    entries = [case.data for case in cases]
    document = {name: read(entries) for name, read in readers().items()}
    wrong = []
    for number, case in enumerate(cases):
        verdicts = {name: accepted[number] for name, accepted in document.items()}
        expected = {case.valid} if case.valid is not None else set(verdicts.values())
        if set(verdicts.values()) != expected or len(expected) != 1:
            wrong.append(f"{case.name}: {verdicts}, and not {case.valid}: {case.data[-300:]!r}")
    return wrong
