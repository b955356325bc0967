"""Writes the generated modules of `forum_client`, and their reference; `just client` runs it.

    python -m tests.docs.client_code

The source is what the OpenAPI document is made of: the declared endpoints of the server.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from forum.errors import ProblemType
from forum.surfaces.http.application import all_endpoints
from forum.surfaces.http.endpoints import Endpoint
from tests.docs.pages import ROOT

PACKAGE = ROOT / "clients/python/src/forum_client"
REFERENCE = ROOT / "docs/reference/client.md"

_EVENT_STREAM, _JSON = "text/event-stream", "application/json"
_TEXT = "text/plain"
# Operations that users look for elsewhere than under the tag and the name of their endpoint.
_PLACES = {
    "export_run": ("runs", "bundle"),
    "replay_run": ("runs", "replay"),
}
_GROUPS = {
    "runs": "Submit, read, follow and control runs.",
    "gates": "Read and decide what waits for a person.",
    "keys": "Create, list and revoke keys.",
    "ledger": "Read entries, bodies and proofs, and verify the log.",
    "work": "Ask what would be done, by whom, what runs have cost, and what budgets are left.",
    "tlog": "Read the log as C2SP tlog-tiles.",
    "openai": "Ask as chat clients do, without streams.",
    "health": "Watch the server.",
}
# Streams in the form of OpenAI are for OpenAI's own clients.
_STREAMED = frozenset({"stream", "stream_options"})
_GENERATED = "Generated from the declared endpoints by `just client`; do not edit."


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a method."""

    name: str
    hint: str
    required: bool
    about: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.hint}" + ("" if self.required else " = None")


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the client, for one operation."""

    endpoint: Endpoint
    group: str
    name: str
    path: tuple[str, ...]
    query: tuple[Parameter, ...]
    body: tuple[Parameter, ...] | None

    @property
    def signature(self) -> str:
        """The arguments, as they are written in a definition."""
        # An entry is named by its index, or by its id.
        free = [f"{name}: {'int | str' if name == 'entry' else 'str'}" for name in self.path]
        given = [*(self.query if self.reply != "follow" else ()), *(self.body or ())]
        required = [parameter for parameter in given if parameter.required]
        # One required member needs no name: `create("Name three rivers.")`.
        positional = required if len(required) == 1 else []
        named = [str(parameter) for parameter in given if parameter not in positional]
        if self.reply == "follow":
            named.append("after: int = -1")
        if self.endpoint.idempotent:
            named.append("idempotency_key: str | None = None")
        return ", ".join(["self", *free, *map(str, positional), *(["*", *named] if named else [])])

    @property
    def reply(self) -> str:
        """How the reply is read: the name of a method of the connection."""
        match self.endpoint.reply:
            case str() as media if media == _EVENT_STREAM:
                return "follow"
            case str() as media if media.startswith(_TEXT):
                return "call_text"
            case str() as media if media == _JSON:
                return "call"
            case None:
                return "call_bytes"
            case str():
                return "call_body" if self.endpoint.other_types else "call_bytes"
            case _:
                return "call"

    @property
    def result(self) -> str:
        """The type of what is returned."""
        if self.reply == "call":
            return "dict[str, Any]" if self.endpoint.reply == _JSON else form_hint(self)
        return {"call_text": "str", "call_bytes": "bytes", "call_body": "BodyContent"}[self.reply]

    @property
    def about(self) -> list[str]:
        """The paragraphs of the docstring."""
        route = f"`{self.endpoint.method} {self.endpoint.path}`"
        scopes = " or ".join(f"`{scope}`" for scope in sorted(self.endpoint.scopes))
        needs = f"needs the scope {scopes}" if scopes else "needs no key"
        lines = [sentence(self.endpoint.summary), f"{route}; {needs}."]
        if self.endpoint.idempotent:
            lines.append(
                "The client makes an idempotency key and keeps it for its retries; give one of "
                "your own where another process may ask again."
            )
        if self.reply == "follow":
            lines.append(
                "After a lost connection it goes on with the entry after the last one that you "
                "got. Pass the index of that entry as `after` to go on in another process."
            )
        given = [*self.query, *(self.body or ())] if self.reply != "follow" else []
        lines += [f"`{found.name}`: {found.about}" for found in given if found.about]
        return lines


def form_hint(method: Method) -> str:
    """Return the hint of the form of a reply."""
    return _Hints("forms.").of(inspect.type_info(method.endpoint.reply))


def sentence(summary: str) -> str:
    """Return a summary as the first sentence of a docstring."""
    summary = re.sub(r" \(with `Accept: .*\)", "", summary)  # the client chooses the type
    if summary.split(maxsplit=1)[0] in {"The", "A", "An", "This", "Whether", "What"}:
        summary = f"Return {summary[0].lower()}{summary[1:]}"
    return summary.rstrip(".") + "."


class _Hints:
    """Writes types as text; structs and enums by their names, with a prefix."""

    def __init__(self, prefix: str, *, asked: bool = False) -> None:
        self._prefix, self._asked = prefix, asked

    def of(self, kind: inspect.Type) -> str:  # noqa: C901, PLR0911  one case for each type
        match kind:
            case inspect.Metadata():
                return self.of(kind.type)
            case inspect.StructType() | inspect.EnumType():
                return self._prefix + kind.cls.__name__.lstrip("_")
            case inspect.UnionType():
                return " | ".join(dict.fromkeys(map(self.of, kind.types)))
            case inspect.VarTupleType() | inspect.ListType():
                item = self.of(kind.item_type)
                return f"Sequence[{item}]" if self._asked else f"tuple[{item}, ...]"
            case inspect.TupleType():
                items = ", ".join(map(self.of, kind.item_types))
                return f"tuple[{items or 'Any, ...'}]"  # always empty today: open for more
            case inspect.DictType():
                made = f"{self.of(kind.key_type)}, {self.of(kind.value_type)}"
                return f"Mapping[{made}]" if self._asked else f"dict[{made}]"
            case inspect.LiteralType():
                return f"Literal[{', '.join(map(repr, kind.values))}]"
            case inspect.DecimalType():
                return "Decimal | str | int" if self._asked else "Decimal"
            case inspect.NoneType():
                return "None"
            case inspect.RawType():
                return "msgspec.Raw"
            case inspect.AnyType():
                return "Any"
            case _:
                return _SIMPLE[type(kind)]


_SIMPLE: dict[type[inspect.Type], str] = {
    inspect.StrType: "str",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.BoolType: "bool",
    inspect.BytesType: "bytes",
}


def about(kind: inspect.Type) -> str:
    """Return the description of a type."""
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", "")) or about(kind.type)
    return ""


def _parameters(struct: type[msgspec.Struct] | None) -> tuple[Parameter, ...]:
    if struct is None:
        return ()
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return tuple(
        Parameter(
            field.name,
            _optional(_Hints("forms.", asked=True).of(field.type), required=field.required),
            field.required,
            about(field.type),
        )
        for field in info.fields
        if field.name not in _STREAMED
    )


def _optional(hint: str, *, required: bool) -> str:
    return hint if required or "None" in hint.split(" | ") or hint == "Any" else f"{hint} | None"


def methods() -> list[Method]:
    """Return the methods of the client, for all operations of the server."""
    found = [_method(endpoint) for endpoint in all_endpoints()]
    places = [(method.group, method.name) for method in found]
    # A second method of a name would replace the first without a word.
    wrong = {place for place in places if places.count(place) > 1}
    wrong |= {place for place in places if not all(map(str.isidentifier, place))}
    assert not wrong, f"give these endpoints another tag or name, or a line in _PLACES: {wrong}"
    return found


def _method(endpoint: Endpoint) -> Method:
    group, name = _PLACES.get(endpoint.name) or (endpoint.tag, _short_name(endpoint))
    return Method(
        endpoint,
        group,
        name,
        path=tuple(re.findall(r"{(\w+)", endpoint.path)),
        query=_parameters(endpoint.query),
        body=None if endpoint.body is None else _parameters(endpoint.body),
    )


def _short_name(endpoint: Endpoint) -> str:
    """Return the name of an operation without that of its group: `create_run` is `runs.create`."""
    group = {endpoint.tag, endpoint.tag.removesuffix("s")}
    return "_".join(word for word in endpoint.name.split("_") if word not in group)


def by_group() -> dict[str, list[Method]]:
    """Return the methods of each group."""
    groups: dict[str, list[Method]] = {}
    for method in methods():
        groups.setdefault(method.group, []).append(method)
    return groups


def render_operations(*, is_async: bool) -> str:
    """Return the module of operations."""
    groups, prefix = by_group(), "Async" if is_async else ""
    wait = "awaited" if is_async else "blocking"
    lines = [
        f'"""The operations of the server as {wait} methods.',
        "",
        _GENERATED,
        '"""',
        "",
        "from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence",
        "from typing import Any, Literal",
        "",
        "from . import forms",
        "from .api_request import ApiRequest, fill_path",
        f"from .connection import {prefix}Connection, BodyContent, new_idempotency_key",
        "from .run_events import RunEvent",
        "",
    ]
    for group, found in groups.items():
        lines += ["", *_group_class(group, found, prefix)]
    lines += ["", f"class {prefix}OperationGroups:"]
    lines += ['    """All operations, by their groups."""', ""]
    lines += [f"    def __init__(self, connection: {prefix}Connection) -> None:"]
    for group in groups:
        lines += [f"        self.{group} = {_class_name(group, prefix)}(connection)"]
        lines += [f'        """{_GROUPS.get(group, "")}"""'] if group in _GROUPS else []
    return "\n".join([*lines, ""])


def _class_name(group: str, prefix: str) -> str:
    return f"{prefix}{group.title().replace('_', '')}Api"


def _group_class(group: str, found: list[Method], prefix: str) -> Iterator[str]:
    yield f"class {_class_name(group, prefix)}:"
    yield _docstring([_GROUPS.get(group, f"Operations of `client.{group}`.")], 4)
    yield ""
    yield f"    def __init__(self, connection: {prefix}Connection) -> None:"
    yield "        self._connection = connection"
    for method in found:
        yield ""
        yield from _definition(method, is_async=bool(prefix))
        if is_paged(method):
            yield ""
            yield from _pages(method, is_async=bool(prefix))


def _docstring(paragraphs: list[str], indent: int) -> str:
    """Return a docstring of one line, or of a summary and paragraphs."""
    pad = " " * indent
    wrapped = [textwrap.fill(text, 94 - indent, break_on_hyphens=False) for text in paragraphs]
    text = "\n\n".join(wrapped)
    return textwrap.indent(f'"""{text}\n"""' if "\n" in text else f'"""{text}"""', pad)


def _definition(method: Method, *, is_async: bool) -> Iterator[str]:
    if method.reply == "follow":
        # The generator is returned, not awaited.
        result = "AsyncGenerator[RunEvent]" if is_async else "Iterator[RunEvent]"
        yield f"    def {method.name}({method.signature}) -> {result}:"
        yield _docstring(method.about, 8)
        ends = "run" in method.path
        yield f"        return self._connection.follow({_request(method)}, after, ends={ends})"
        return
    word, wait = ("async ", "await ") if is_async else ("", "")
    yield f"    {word}def {method.name}({method.signature}) -> {method.result}:"
    yield _docstring(method.about, 8)
    form = f", {method.result}" if method.reply == "call" else ""
    yield f"        return {wait}self._connection.{method.reply}({_request(method)}{form})"


def _request(method: Method) -> str:
    """Return the expression for the request of a method."""
    endpoint = method.endpoint
    parts = [f'method="{endpoint.method}"', f"path={_path(method)}"]
    if method.query and method.reply != "follow":
        parts.append(f"query={_members(method.query)}")
    if method.body is not None:
        parts.append(f"body={_members(method.body)}")
    if endpoint.idempotent:
        parts.append("idempotency_key=idempotency_key or new_idempotency_key()")
    if method.reply == "call":
        parts.append(f'accept="{_JSON}"')
    if endpoint.seconds != Endpoint.__dataclass_fields__["seconds"].default:
        parts.append(f"seconds={endpoint.seconds}")
    return f"ApiRequest({', '.join(parts)})"


def _path(method: Method) -> str:
    template = f'"{method.endpoint.path}"'
    values = "".join(f", {name}={name}" for name in method.path)
    return f"fill_path({template}{values})" if values else template


def _members(parameters: Iterable[Parameter]) -> str:
    return "{" + ", ".join(f'"{found.name}": {found.name}' for found in parameters) + "}"


def is_paged(method: Method) -> bool:
    """Return whether an operation lists things page by page."""
    members = getattr(method.endpoint.reply, "__struct_fields__", ())
    is_list = method.name.startswith("list")
    return is_list and "next" in members and cursor_of(method) is not None


def cursor_of(method: Method) -> str | None:
    """Return the parameter that says where a page begins."""
    names = {parameter.name for parameter in method.query}
    return next((name for name in ("cursor", "after") if name in names), None)


def _items(method: Method) -> tuple[str, str]:
    """Return the member of a page that holds its items, and their type."""
    info = inspect.type_info(method.endpoint.reply)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        if isinstance(field.type, inspect.VarTupleType):
            return field.name, _Hints("forms.").of(field.type.item_type)
    raise AssertionError(method.endpoint.name)


def page_name(method: Method) -> str:
    """Return the name of the method that goes through all pages."""
    return method.name.replace("list", "list_all", 1)


def _pages(method: Method, *, is_async: bool) -> Iterator[str]:
    member, item = _items(method)
    cursor = cursor_of(method)
    kept = [found for found in method.query if found.name not in (cursor, "limit")]
    free = "".join(f", {found}" for found in kept)
    word, wait = ("async ", "await ") if is_async else ("", "")
    result = f"AsyncIterator[{item}]" if is_async else f"Iterator[{item}]"
    signature = f"self, *{free}" if kept else "self"
    yield f"    {word}def {page_name(method)}({signature}) -> {result}:"
    yield _docstring([f"Yield all that `{method.name}` lists, page by page."], 8)
    yield f"        page = {wait}self.{method.name}({_passed(kept)})"
    yield "        while True:"
    yield f"            for item in page.{member}:"
    yield "                yield item"
    yield "            if page.next is None:"
    yield "                return"
    yield f"            page = {wait}self.{method.name}({cursor}=page.next, {_passed(kept)})"


def _passed(parameters: Iterable[Parameter]) -> str:
    return ", ".join(f"{found.name}={found.name}" for found in parameters)


def render_forms() -> str:
    """Return the module of forms."""
    kinds = _collect_forms()
    lines = [
        '"""The forms of requests and replies of the server.',
        "",
        _GENERATED,
        "",
        "They have the names and the members of the server's own forms.  A type checker knows",
        "the values that a text can have; at run time every text is accepted, so that a value",
        "that only a newer server knows does not make a reply unreadable.",
        '"""',
        "",
        "from collections.abc import Mapping, Sequence",
        "from decimal import Decimal",
        "from typing import TYPE_CHECKING, Any, Literal",
        "",
        "import msgspec",
        "",
        "if TYPE_CHECKING:",
    ]
    enums = [kind.cls for kind in kinds if isinstance(kind, inspect.EnumType)]
    for enum in sorted(enums, key=lambda enum: enum.__name__):
        values = ", ".join(repr(member.value) for member in enum)
        lines.append(f"    {enum.__name__.lstrip('_')} = Literal[{values}]")
    lines.append("else:")
    for enum in sorted(enums, key=lambda enum: enum.__name__):
        plain = "int" if isinstance(next(iter(enum)).value, int) else "str"
        lines.append(f"    {enum.__name__.lstrip('_')} = {plain}")
    asked = _asked_forms()
    for kind in kinds:
        if isinstance(kind, inspect.StructType):
            lines += ["", *_struct(kind, asked=kind.cls in asked)]
    return "\n".join([*lines, ""])


def render_problem_types() -> str:
    """Return the module of problem types."""
    lines = [
        '"""The problems of the HTTP API.',
        "",
        _GENERATED,
        '"""',
        "",
        "from enum import Enum",
        "",
        "class ProblemType(Enum):",
        '    """A problem: the name of its type, the status, the title."""',
        "",
        *(f"    {problem.name} = {problem.value!r}" for problem in ProblemType),
        "",
        "    def __init__(self, slug: str, status: int, title: str) -> None:",
        '        self.type = f"urn:forum:problem:{slug}"',
        "        self.status, self.title = status, title",
    ]
    return "\n".join([*lines, ""])


def _roots() -> tuple[list[Any], list[Any]]:
    """Return the types of replies, and those of what is asked."""
    endpoints = all_endpoints()
    replies = [
        endpoint.reply for endpoint in endpoints if not isinstance(endpoint.reply, str | None)
    ]
    bodies = [endpoint for e in endpoints for endpoint in (e.body, e.query) if endpoint is not None]
    return replies, bodies


def _asked_forms() -> set[type]:
    """Return the structs within bodies: they are only written, and take more types."""
    _, bodies = _roots()
    kinds = [kind for body in bodies for kind in _walk(inspect.type_info(body), set())]
    return {kind.cls for kind in kinds if isinstance(kind, inspect.StructType)}


def _collect_forms() -> list[inspect.StructType | inspect.EnumType]:
    """Return all forms, those first that others need."""
    replies, bodies = _roots()
    seen: set[type] = set()
    kinds = [kind for reply in replies for kind in _walk(inspect.type_info(reply), seen)]
    # The members of a body or a query are arguments of methods: only what is within is a form.
    for body in bodies:
        info = inspect.type_info(body)
        assert isinstance(info, inspect.StructType)
        for field in info.fields:
            if field.name not in _STREAMED:
                kinds += _walk(field.type, seen)
    return kinds


def _walk(kind: inspect.Type, seen: set[type]) -> Iterator[inspect.StructType | inspect.EnumType]:
    """Yield the forms that a type consists of, the innermost first."""
    if isinstance(kind, inspect.StructType | inspect.EnumType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
    for inner in _inner_types(kind):
        yield from _walk(inner, seen)
    if isinstance(kind, inspect.StructType | inspect.EnumType):
        yield kind


def _inner_types(kind: inspect.Type) -> Iterable[inspect.Type]:  # noqa: PLR0911  one for each type
    match kind:
        case inspect.StructType():
            return [field.type for field in kind.fields]
        case inspect.UnionType():
            return kind.types
        case inspect.TupleType():
            return kind.item_types
        case inspect.VarTupleType() | inspect.ListType():
            return [kind.item_type]
        case inspect.DictType():
            return [kind.value_type]
        case inspect.Metadata():
            return [kind.type]
        case _:
            return []


def _struct(kind: inspect.StructType, *, asked: bool) -> Iterator[str]:
    options = ["frozen=True", "kw_only=True"]
    if asked:
        options.append("omit_defaults=True")
    if kind.tag is not None:
        options += [f"tag_field={kind.tag_field!r}", f"tag={kind.tag!r}"]
    name = kind.cls.__name__.lstrip("_")
    yield f"class {name}(msgspec.Struct, {', '.join(options)}):"
    yield _docstring([(kind.cls.__doc__ or name).strip().split("\n\n")[0].replace("\n", " ")], 4)
    yield ""
    for field in kind.fields:
        hint = _optional(
            _Hints("", asked=asked).of(field.type), required=field.required or _has_default(field)
        )
        # A struct within itself has no name yet.
        hint = f'"{hint}"' if re.search(rf"\b{name}\b", hint) else hint
        default = "" if field.required else f" = {_default(field)}"
        yield f"    {field.encode_name}: {hint}{default}"
        if words := about(field.type):
            yield _docstring([words], 4)


def _has_default(field: inspect.Field) -> bool:
    return msgspec.NODEFAULT is not field.default or msgspec.NODEFAULT is not field.default_factory


def _default(field: inspect.Field) -> str:
    if not _has_default(field):
        return "None"  # the server leaves it out, and so does the client
    if field.default is msgspec.NODEFAULT:
        made = field.default_factory()
        assert isinstance(made, dict), field
        return "msgspec.field(default_factory=dict)"
    if isinstance(field.default, msgspec.Struct):
        return f"{type(field.default).__name__}()"
    return repr(field.default.value if isinstance(field.default, Enum) else field.default)


_HEAD = f"""\
# The Python client

This page lists every method of `forum.Client`; `forum_client.Client` has the same.
`AsyncClient` has the same methods: await them, and use `async for` for those that yield.
[Use the Python client](../guides/use-the-python-client.md) shows how to begin.
The forms are in `forum.client.forms`, the errors in `forum.client.problems`; where only
`forumd-client` is installed, in `forum_client.forms` and `forum_client.problems`.

{_GENERATED}
"""


def render_reference() -> str:
    """Return the page of all methods."""
    parts = [_HEAD]
    for group, found in by_group().items():
        parts += [f"## client.{group}\n", _GROUPS.get(group, "") + "\n"]
        for method in found:
            parts += [f"### {group}.{method.name}\n", _entry(method)]
            if is_paged(method):
                about = f"`client.{group}.{page_name(method)}` yields all of them, page by page.\n"
                parts.append(about)
    return "\n".join(parts)


def _entry(method: Method) -> str:
    result = "Iterator[RunEvent]" if method.reply == "follow" else method.result
    shown = method.signature.removeprefix("self, ").removeprefix("self")
    code = f"client.{method.group}.{method.name}({shown}) -> {result}"
    if len(code) > 88:
        arguments = ",\n    ".join(_split(shown))
        code = f"client.{method.group}.{method.name}(\n    {arguments},\n) -> {result}"
    code = code.replace("forms.", "")
    return "\n\n".join([f"```python\n{code}\n```", *method.about]) + "\n"


def _split(signature: str) -> list[str]:
    """Split a signature at the commas that are in no bracket."""
    return re.split(r", (?![^\[]*\])", signature)


def formatted(code: str) -> str:
    """Return code as the formatter writes it, without imports that it does not use."""
    for command in (
        ["check", "--fix", "--exit-zero", "--select", "F401,I,UP"],
        ["format", "--quiet"],
    ):
        ruff = [str(Path(sys.executable).with_name("ruff")), *command]
        done = subprocess.run(
            [*ruff, "--stdin-filename", str(PACKAGE / "generated.py"), "-"],
            input=code, capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        assert done.stdout, done.stderr
        code = done.stdout
    return code


def modules() -> dict[Path, str]:
    """Return the content of every generated file."""
    return {
        PACKAGE / "forms.py": formatted(render_forms()),
        PACKAGE / "problem_types.py": formatted(render_problem_types()),
        PACKAGE / "operations.py": formatted(render_operations(is_async=False)),
        PACKAGE / "async_operations.py": formatted(render_operations(is_async=True)),
        REFERENCE: render_reference(),
    }


def main() -> None:
    """Write the generated files."""
    for path, text in modules().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
