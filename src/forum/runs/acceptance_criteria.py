"""Acceptance criteria of a task: the lines of `done_when`, most of which code can check.

    contains TEXT          the result contains this text
    matches REGEX          it matches this RE2 pattern
    json [SCHEMA]          it is JSON, and valid under this JSON schema
    json-value SCHEMA      the same, also as one fenced block of Markdown: what a program parses
    command TOOL           the tool succeeds when it is given the result
    tests TOOL             the tool reports tests for the result: some passed, and none failed
    file PATH sha256:HEX   the file has this digest

Every other line is text for a model that judges the result.

Patterns use RE2, which matches in time linear in the text for every pattern. A plan may come from
an untrusted client, and a pattern with exponential backtracking would block its worker.
"""

import json
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache, lru_cache
from itertools import chain
from math import isfinite
from typing import Any

import msgspec
import re2

from forum.runs.step_limit import count_step


class Check(StrEnum):
    """By what a result was judged."""

    OUTCOME = "outcome"
    """Only that the call succeeded with output: there was no criterion for code to check."""
    CONTAINS = "contains"
    MATCHES = "matches"
    JSON = "json"
    COMMAND = "command"
    """A program was run with the result, and its exit status counted."""
    TESTS = "tests"
    """A program was run that counts tests: some passed, and none failed."""
    FILE = "file"
    """A file has the required digest."""
    FORM = "form"
    """The reply of a role fits its schema: a plan, a choice, a judgement."""
    MODEL = "model"
    """A model judged the result."""
    COVERAGE = "coverage"
    """The words of the request occur in the answer."""
    KEPT = "kept"
    """A shorter answer has lost no fact of the longer one."""


_CHECKS = {
    "contains": Check.CONTAINS,
    "matches": Check.MATCHES,
    "json": Check.JSON,
    "command": Check.COMMAND,
    "tests": Check.TESTS,
    "file": Check.FILE,
}
JSON_VALUE = "json-value"
"""The first word of a criterion for a value that a program parses."""
TOOL_CHECKS = frozenset({Check.COMMAND, Check.TESTS, Check.FILE})
"""Criteria that are checked by running something, which is recorded like every tool use."""

MAX_JSON_DEPTH = 64
"""Nesting limit of JSON written by others."""
MAX_SCHEMA_CHARS = 16_384
"""Limit for all JSON schemas of a plan together; checking so many takes about a second."""
MAX_PATTERN_CHARS = 1_000
"""Length limit of a new pattern."""
_MAX_PATTERN_BYTES = 1 << 17
"""Memory limit of a new pattern. The library then compiles it in about 3 ms, during which no other
thread of the process runs.
"""
_MAX_CACHED_SCHEMAS = 256
"""How many validated schemas are cached, because each is used many times."""
_MAX_STEPS = 100_000
"""Step limit for comparing a value with a schema: references can double the work at every level."""

_QUIET = re2.Options()
_QUIET.log_errors = False
_SMALL = re2.Options()
_SMALL.log_errors = False
_SMALL.max_mem = _MAX_PATTERN_BYTES
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}").fullmatch


class Criterion(msgspec.Struct, frozen=True):
    """One line of `done_when`: its check and the argument; free text is judged by a model."""

    check: Check
    what: str
    fenced: bool = False
    """Whether the JSON may stand in one fenced block."""


def parse_criteria(done_when: str) -> tuple[Criterion, ...]:
    """Return the criteria of `done_when`, line by line."""
    return tuple(_parse_criterion(line.strip()) for line in done_when.splitlines() if line.strip())


def _parse_criterion(line: str) -> Criterion:
    word, _, what = line.partition(" ")
    # Earlier releases read such a line as words; with a schema after it, it never was one.
    if word == JSON_VALUE and what.lstrip().startswith("{"):
        return Criterion(Check.JSON, what.strip(), fenced=True)
    check = _CHECKS.get(word)
    return Criterion(Check.MODEL, line) if check is None else Criterion(check, what.strip())


def result_schema(done_when: str) -> bytes:
    """Return the first JSON schema that a result must fit, or an empty value."""
    wanted = (d.what for d in parse_criteria(done_when) if d.check is Check.JSON and d.what)
    return next(wanted, "").encode()


def check_criterion(demand: Criterion) -> None:
    """Refuse a criterion that code could never check. Raises `ValueError`."""
    check, what = demand.check, demand.what
    if check not in (Check.MODEL, Check.JSON) and not what:
        raise ValueError(f"done when it {check.value} something: say what")
    if check is Check.MATCHES:
        compile_pattern(what)
    elif check is Check.JSON and what:
        read_schema(what)
    elif check is Check.FILE:
        parse_file_criterion(what)


def compile_pattern(pattern: str) -> Any:  # noqa: ANN401  the library has no name for it
    """Return a compiled pattern. Raises `ValueError`."""
    return _compile(pattern, _QUIET)


def check_pattern_size(pattern: str) -> None:
    """Refuse a pattern that takes long to compile. Raises `ValueError`."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern of {len(pattern)} letters; the most is {MAX_PATTERN_CHARS}")
    _compile(pattern, _SMALL)


def _compile(pattern: str, options: Any) -> Any:  # noqa: ANN401
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace")
        raise ValueError(f"it cannot match {pattern[:MAX_PATTERN_CHARS]!r}: {why}") from None


def parse_file_criterion(what: str) -> tuple[str, str]:
    """Return the path and the required digest of a file criterion. Raises `ValueError`."""
    path, _, digest = what.rpartition(" ")
    if not path or not _DIGEST(digest):
        raise ValueError(f"file {what!r}: write file PATH sha256:HEX")
    return path.strip(), digest


@lru_cache(_MAX_CACHED_SCHEMAS)
def read_schema(words: str) -> Any:  # noqa: ANN401  what a schema is
    """Return a validated JSON schema; it is cached, so do not change it. Raises `ValueError`."""
    if len(words) > MAX_SCHEMA_CHARS:
        raise ValueError(f"a JSON schema of {len(words)} letters; the most is {MAX_SCHEMA_CHARS}")
    schema = read_json(words)
    if not isinstance(schema, dict):
        raise ValueError("a JSON schema is an object")  # noqa: TRY004  it is what was written
    for part in _objects_in(schema):
        _check_subschema(part)
    try:
        wrong = next(_schema_checker().iter_errors(schema), None)
    except RecursionError:
        raise ValueError("too many levels within each other") from None
    if wrong is not None:
        raise ValueError(f"this is no JSON schema: {wrong.message[:200]}")
    return schema


def patterns_in(words: str) -> Iterator[str]:
    """Yield the patterns in a JSON schema; none if the text is not JSON."""
    try:
        schema = read_json(words)
    except ValueError:  # reported when the schema itself is read
        return
    for part in _objects_in(schema):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]


@cache
def _schema_checker() -> Any:  # noqa: ANN401  a class that the library makes
    """Return a validator of JSON schemas that counts its steps, because large ones take long."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415  it is slow to import
    from jsonschema.validators import extend  # noqa: PLC0415

    def counted(check: Callable[..., Any]) -> Callable[..., Any]:
        def check_rule(checker: Any, rule: Any, value: Any, schema: Any) -> Any:  # noqa: ANN401
            count_step()
            return check(checker, rule, value, schema)

        return check_rule

    rules = {name: counted(rule) for name, rule in Draft202012Validator.VALIDATORS.items()}
    checker = extend(Draft202012Validator, rules)  # type: ignore[no-untyped-call]
    return checker(Draft202012Validator.META_SCHEMA)


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _objects_in(part)


def _check_subschema(part: dict[str, Any]) -> None:
    """Refuse references to other documents, and patterns that RE2 does not match.

    Raises `ValueError`. Removes `$schema`.
    """
    if isinstance(part.get("$schema"), str):
        # The library would select a validator by this name, and bypass the one with the step limit.
        del part["$schema"]
    for name in ("$ref", "$dynamicRef"):
        target = part.get(name)
        if isinstance(target, str) and not target.startswith("#"):
            raise ValueError("a JSON schema may refer only to its own parts")
    if "patternProperties" in part:
        raise ValueError("a JSON schema with patternProperties is not supported")
    if isinstance(part.get("pattern"), str):
        compile_pattern(part["pattern"])


def find_schema_mismatch(schema: Any, value: Any) -> str:  # noqa: ANN401
    """Return why a value does not fit a schema; an empty string if it does.

    Both may come from an attacker who wants the check never to end, or to raise, so steps are
    limited and errors are returned.
    """
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    try:
        # An empty registry: no reference is fetched from the network.
        for error in _bounded_checker()(schema, registry=Registry()).iter_errors(value):
            return f"{error.json_path}: {error.message}"[:500]
    except Unresolvable:
        return "the schema refers to a part that it does not have"
    except (_StepLimitExceeded, RecursionError):
        return f"it cannot be compared with the schema in {_MAX_STEPS} steps"
    except (ArithmeticError, ValueError) as error:
        return f"it cannot be compared with the schema: {error}"[:500]
    return ""


class _StepLimitExceeded(Exception):
    """Comparing a value with a schema takes too many steps."""


def _bounded_checker() -> Any:  # noqa: ANN401  a class that the library makes
    """Return a validator of values with a step limit, RE2 patterns and a fast uniqueness check."""
    from jsonschema import Draft202012Validator, ValidationError  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415

    left = _MAX_STEPS

    def counted(check: Callable[..., Any]) -> Callable[..., Any]:
        def step(checker: Any, rule: Any, value: Any, schema: Any) -> Any:  # noqa: ANN401
            nonlocal left
            # One rule may have many members, such as a list of subschemas: each counts as a step.
            left -= 1 + (len(rule) if isinstance(rule, dict | list) else 0)
            if left < 0:
                raise _StepLimitExceeded
            return check(checker, rule, value, schema)

        return step

    def matches(_: Any, pattern: str, text: Any, __: Any) -> Iterator[Any]:  # noqa: ANN401
        if isinstance(text, str) and not compile_pattern(pattern).search(text):
            yield ValidationError(f"it does not match {pattern!r}")

    def is_unique(_: Any, wanted: Any, items: Any, __: Any) -> Iterator[Any]:  # noqa: ANN401
        if (
            wanted
            and isinstance(items, list)
            and len(set(map(_canonical_text, items))) < len(items)
        ):
            yield ValidationError("its items are not unique")

    rules = {**Draft202012Validator.VALIDATORS, "pattern": matches, "uniqueItems": is_unique}
    counting = {name: counted(rule) for name, rule in rules.items()}
    return extend(Draft202012Validator, counting)  # type: ignore[no-untyped-call]


def _canonical_text(value: Any) -> str:  # noqa: ANN401
    """Return the same text for all values that JSON treats as equal, and only for those."""
    match value:
        case dict():
            members = sorted((repr(name), _canonical_text(part)) for name, part in value.items())
            return "{" + ",".join(chain.from_iterable(members)) + "}"
        case list():
            return "[" + ",".join(map(_canonical_text, value)) + "]"
        # To JSON Schema 1 and 1.0 are the same number.
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return repr(value)


def read_json(words: str) -> Any:  # noqa: ANN401
    """Return the value of a JSON text with limited depth. Raises `ValueError`."""
    # The depth is measured before parsing, because the parser is recursive.
    depth = deepest = 0
    # An unterminated string matches too. If the closing quote were required, the scan would restart
    # at each of its escaped quotes.
    for mark in re.finditer(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', words, re.DOTALL):
        if mark.group() in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark.group() in "]}":
            depth -= 1
    if deepest > MAX_JSON_DEPTH:
        raise ValueError(f"{deepest} levels within each other; the most is {MAX_JSON_DEPTH}")
    try:
        return json.loads(words, parse_constant=_reject_constant, parse_float=_parse_finite_float)
    except RecursionError:
        raise ValueError("too many levels within each other") from None


def strip_code_fence(reply: bytes) -> str:
    """Return JSON without a Markdown fence, which many models add. Raises `ValueError`."""
    try:
        words = reply.decode().strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    fenced = words.startswith("```") and words.endswith("```")
    return words.strip("`").removeprefix("json") if fenced else words


def _reject_constant(name: str) -> float:
    # Python's parser accepts NaN and Infinity, which are not JSON (RFC 8259 section 6).
    raise ValueError(f"{name} is not JSON")


def _parse_finite_float(words: str) -> float:
    number = float(words)
    # A literal such as 1e999 becomes infinity, which cannot be written as JSON.
    if not isfinite(number):
        raise ValueError("a number is too large")
    return number
