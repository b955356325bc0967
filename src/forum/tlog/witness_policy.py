"""Trust files: the logs a reader trusts and the required cosignatures (C2SP tlog-policy).

A trust file comes from the reader, never from the data being verified.  In the format names are
octets; here they are text, in which octets that are not UTF-8 are surrogate escapes.

One line is our own: `independent NAME` marks a witness as run by another organization than the
log's.  Only the reader can know that, so a file that Forum exports never has the line.  The line
does not say of which log, so it counts only in a file whose `log` lines name one log.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from forum.errors import Malformed
from forum.tlog.canonical_encoding import parse_decimal
from forum.tlog.keys import ED25519, ED25519_COSIGNATURE, VerifierKey

NONE = "none"
LOCAL_WITNESS = "forum.local/witness/"
"""The name prefix of witnesses on the writer's own machine."""

MAX_BYTES, MAX_LINES = 1 << 20, 1000
"""The size of a trust file, and its number of lines that are neither empty nor comments.

A pack encloses one, which anybody can have written.
"""

# tlog-policy, section Character set: tab, newline, and everything except control characters.
_OCTETS = bytes([0x09, 0x0A, *range(0x20, 0x7F), *range(0x80, 0x100)])


@dataclass(frozen=True)
class KnownLog:
    """A log whose checkpoints the reader accepts."""

    key: VerifierKey
    url: str | None = None

    def __post_init__(self) -> None:
        if self.key.algorithm != ED25519:
            raise Malformed("trust file", f"{self.key.name} is not the key of a log")
        _check_words(self._words)

    def __str__(self) -> str:
        return " ".join(self._words)

    @property
    def _words(self) -> list[str]:
        return ["log", str(self.key), *_url_words(self.url)]


@dataclass(frozen=True)
class KnownWitness:
    """A witness, with its name within the policy."""

    name: str
    key: VerifierKey
    url: str | None = None

    def __post_init__(self) -> None:
        if self.key.algorithm != ED25519_COSIGNATURE:
            raise Malformed("trust file", f"{self.key.name} is not the key of a witness")
        _check_words(self._words)

    def __str__(self) -> str:
        return " ".join(self._words)

    @property
    def _words(self) -> list[str]:
        return ["witness", self.name, str(self.key), *_url_words(self.url)]


@dataclass(frozen=True)
class WitnessGroup:
    """Witnesses and groups, of which a threshold must have cosigned a checkpoint."""

    name: str
    threshold: int
    members: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= len(self.members):
            raise Malformed("trust file", f"{self.threshold} of the members of group {self.name}")
        _check_words(self._words)

    def __str__(self) -> str:
        return " ".join(self._words)

    @property
    def _words(self) -> list[str]:
        return ["group", self.name, str(self.threshold), *self.members]


@dataclass(frozen=True)
class WitnessPolicy:
    """Known logs, known witnesses, and the name of the witness or group that must have cosigned.

    A group comes after the groups that are its members.
    """

    logs: tuple[KnownLog, ...]
    witnesses: tuple[KnownWitness, ...]
    groups: tuple[WitnessGroup, ...]
    quorum: str
    independent: tuple[str, ...] = ()
    """The names of the witnesses that the reader marks as run by another organization."""

    def __post_init__(self) -> None:
        # Compare the keys, not the names: one key under two names is still one log or one witness.
        _check_distinct("log key", [log.key.public for log in self.logs])
        _check_distinct("witness key", [witness.key.public for witness in self.witnesses])
        names = [NONE, *(w.name for w in self.witnesses), *(g.name for g in self.groups)]
        _check_distinct("name", names)
        # A member of two groups would count twice towards the quorum.
        _check_distinct("group member", [name for g in self.groups for name in g.members])
        defined = {witness.name for witness in self.witnesses}
        for group in self.groups:
            _check_defined(group.members, defined)
            defined.add(group.name)
        _check_defined([self.quorum], {NONE, *defined})
        _check_distinct("independent witness", list(self.independent))
        keys = {witness.name: witness.key for witness in self.witnesses}
        _check_defined(self.independent, keys)
        for name in self.independent:
            if is_local_witness(keys[name].name):
                raise Malformed("trust file", f"{keys[name].name} is on the machine of its log")
            if keys[name].public in {log.key.public for log in self.logs}:
                raise Malformed("trust file", f"{keys[name].name} has the key of the log")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a policy file.  Raises `Malformed`."""
        lines = [_parse_line(words) for words in _parse_lines(data)]
        # A name must be defined before it is used.  The parsed policy does not keep the order of
        # the lines, so this is checked here.
        defined: set[str] = set()
        for line in lines:
            if isinstance(line, WitnessGroup):
                _check_defined(line.members, defined)
            elif isinstance(line, _Mark):
                _check_defined([line.witness], defined)
            elif isinstance(line, str):
                _check_defined([line], {NONE, *defined})
            if isinstance(line, KnownWitness | WitnessGroup):
                defined.add(line.name)
        quorums = [line for line in lines if isinstance(line, str)]
        if len(quorums) != 1:
            raise Malformed("trust file", f"{len(quorums)} quorum lines, not one")
        return cls(
            tuple(line for line in lines if isinstance(line, KnownLog)),
            witnesses=tuple(line for line in lines if isinstance(line, KnownWitness)),
            groups=tuple(line for line in lines if isinstance(line, WitnessGroup)),
            quorum=quorums[0],
            independent=tuple(line.witness for line in lines if isinstance(line, _Mark)),
        )

    def __str__(self) -> str:
        marks = [f"independent {name}" for name in self.independent]
        lines = [*self.logs, *self.witnesses, *marks, *self.groups, f"quorum {self.quorum}"]
        return "".join(f"{line}\n" for line in lines)

    def encode(self) -> bytes:
        """Return the policy file in canonical form: thresholds as numbers, no comments."""
        return str(self).encode(errors="surrogateescape")

    def without_marks(self) -> Self:
        """Return the policy as it may be handed to others: whom to call independent is theirs."""
        return replace(self, independent=())

    def text_for_others(self) -> str:
        """Return the file as text that may be handed to others: without marks.

        Octets of names that are not UTF-8 are escaped.  No key holds such octets.
        """
        return self.without_marks().encode().decode(errors="backslashreplace")

    def independent_keys(self, named: Iterable[VerifierKey] = ()) -> tuple[VerifierKey, ...]:
        """Return the keys of the witnesses that the reader marks as another organization's.

        None if the file and the other log keys that the reader has `named` are of several logs: a
        witness that is foreign to one of them may be another one's own.
        """
        logs = (*named, *self.log_keys)
        if len({log.name for log in logs}) > 1:
            return ()
        own = {log.public for log in logs}
        marked = (w.key for w in self.witnesses if w.name in self.independent)
        return tuple(key for key in marked if key.public not in own)

    @property
    def log_keys(self) -> tuple[VerifierKey, ...]:
        """The keys of all known logs."""
        return tuple(log.key for log in self.logs)

    @property
    def witness_keys(self) -> tuple[VerifierKey, ...]:
        """The keys of all known witnesses, whether or not the quorum includes them."""
        return tuple(witness.key for witness in self.witnesses)

    def is_satisfied_by(self, witness_keys: Collection[VerifierKey]) -> bool:
        """Return whether cosignatures by these keys, verified by the caller, reach the quorum."""
        # By the keys that there are: a pack asks for thousands of records, of a policy of hundreds.
        names = {NONE, *(self._names[key] for key in witness_keys if key in self._names)}
        for group in self.groups:
            if sum(member in names for member in group.members) >= group.threshold:
                names.add(group.name)
        return self.quorum in names

    @cached_property
    def _names(self) -> dict[VerifierKey, str]:
        return {witness.key: witness.name for witness in self.witnesses}

    @property
    def min_witnesses(self) -> int:
        """The smallest number of witnesses that can reach the quorum, and at least one."""
        # A group comes after its members, so their numbers are known here.  No witness is in two
        # groups, so the numbers can be added.
        needed = {witness.name: 1 for witness in self.witnesses}
        for group in self.groups:
            cheapest = sorted(needed[member] for member in group.members)[: group.threshold]
            needed[group.name] = sum(cheapest)
        return needed.get(self.quorum, 1)


def is_local_witness(name: str) -> bool:
    """Return whether the name of a witness says that it is on the writer's own machine."""
    return name.lower().startswith(LOCAL_WITNESS)


def _url_words(url: str | None) -> list[str]:
    return [] if url is None else [url]


def _parse_lines(data: bytes) -> Iterator[list[str]]:
    """Yield the words of each line that is neither empty nor a comment."""
    if len(data) > MAX_BYTES:
        raise Malformed("trust file", f"longer than {MAX_BYTES} bytes")
    if data.translate(None, _OCTETS):
        raise Malformed("trust file", "holds a control character")
    *lines, rest = data.decode(errors="surrogateescape").split("\n")
    if rest:
        raise Malformed("trust file", "its last line does not end in a newline")
    count = 0
    for line in lines:
        # Not split(), which would also split at other Unicode spaces.
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        if words and not words[0].startswith("#"):
            count += 1
            if count > MAX_LINES:
                raise Malformed("trust file", f"more than {MAX_LINES} lines")
            yield words


@dataclass(frozen=True)
class _Mark:
    """A line that marks a witness as run by another organization."""

    witness: str


def _parse_line(words: list[str]) -> KnownLog | KnownWitness | WitnessGroup | _Mark | str:
    match words:
        case ["log", key, *url] if len(url) <= 1:
            return KnownLog(VerifierKey.parse(key), *url)
        case ["witness", name, key, *url] if len(url) <= 1:
            return KnownWitness(name, VerifierKey.parse(key), *url)
        case ["group", name, threshold, *members]:
            return WitnessGroup(name, _parse_threshold(threshold, len(members)), tuple(members))
        case ["independent", name]:
            return _Mark(name)
        case ["quorum", name]:
            return name
        case _:
            raise Malformed("trust file", f"no such line: {' '.join(words)!r}")


def _parse_threshold(text: str, members: int) -> int:
    match text:
        case "any":
            return 1
        case "all":
            return members
        case _:
            return parse_decimal(text, "threshold")


def _check_words(words: list[str]) -> None:
    """Raise `Malformed` for words that would not be parsed back as they were written."""
    try:
        line = f"{' '.join(words)}\n".encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise Malformed("trust file", "holds text that is not Unicode") from error
    if list(_parse_lines(line)) != [words]:
        raise Malformed("trust file", f"{words!r} would be read differently")


def _check_distinct(what: str, values: list[str] | list[bytes]) -> None:
    if len(set(values)) != len(values):
        raise Malformed("trust file", f"the same {what} twice")


def _check_defined(names: Collection[str], defined: Collection[str]) -> None:
    for name in names:
        if name not in defined:
            raise Malformed("trust file", f"{name!r} is not defined above")
