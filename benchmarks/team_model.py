"""The simulated model of the team benchmark: `python -m benchmarks.team_model LOG`.

It speaks OpenAI's chat completions in a process of its own, and sees nothing but the messages, the
offered tools and the form of the reply.  It recognizes a role by its system message, and does what
`benchmarks.team_skills` describes with the texts that stand between the marked lines.

The name of the model decides its context: `sim-32k` has 32 * 1024 tokens.  A prompt that leaves no
room for the reply is refused with status 400 and `context_length_exceeded`.  A token is up to 6
letters of a word, up to 3 digits of a number, or one other character; a message has 4 more.

A model whose name ends with `-careless` plants an error into a share of its first results as a
worker: a changed value, two swapped values, an omitted line, or the result of another task.  Which
ones is decided by a hash of the prompt.  LOG gets a line for each result, which only the benchmark
reads, afterwards: the digest of task and reply, and the planted error.
"""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks import team_skills as skills
from benchmarks.team_skills import Ask, Material

MESSAGE_TOKENS = 4
ERROR_SHARE = 0.3
"""The share of first results that a careless model spoils."""
MAX_TASKS = 8
ASKS_PER_TASK = 2
ERRORS = ("altered", "swapped", "omitted", "another-task")

_BEGIN = re.compile(r"^--- ([0-9a-f]{8,32}) begin: ([^\n]*)\n", re.MULTILINE)
_MODEL = re.compile(r"sim-(\d+)k(-careless)?")


class ContextExceeded(Exception):
    """A prompt and its reply do not fit into the context."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: a text, or calls of tools."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Names of tools with their arguments as JSON."""


@dataclass(frozen=True, slots=True)
class Section:
    """A quoted text, and the heading and the name under which it stands."""

    heading: str
    source: str
    text: str

    @property
    def is_whole(self) -> bool:
        """Whether nothing says that a part of the text is missing."""
        return "(" not in self.source


@dataclass(frozen=True, slots=True)
class Chat:
    """One call: what the model is shown."""

    system: str
    prompt: str
    """The first message of the user."""
    results: tuple[str, ...]
    """The outcomes of tools, in later messages."""
    called: frozenset[str]
    """The arguments with which tools were called before."""
    tools: tuple[dict[str, Any], ...]
    schema: dict[str, Any]
    is_careless: bool

    def sections(self) -> list[Section]:
        """Return the quoted texts of the prompt."""
        return read_sections(self.prompt)

    @property
    def task(self) -> str:
        """What is to be done, which stands last."""
        return self.prompt.rpartition("## Your task")[2]


def read_sections(prompt: str) -> list[Section]:
    """Return the texts between marked lines, each with the heading before it."""
    sections, at = [], 0
    heading = ""
    while match := _BEGIN.search(prompt, at):
        between = prompt[at : match.start()]
        headings = re.findall(r"(?m)^## (.+)$", between)
        heading = headings[-1] if headings else heading
        end = prompt.find(f"\n--- {match[1]} end", match.end() - 1)
        end = len(prompt) if end < 0 else end
        sections.append(Section(heading, match[2], prompt[match.end() : end]))
        at = end + len(match[1]) + 9
    return sections


def material_of(sections: Sequence[Section], *headings: str) -> Material:
    """Return the texts under some headings as material."""
    chosen = [section for section in sections if section.heading in headings]
    return Material(
        tuple(section.text for section in chosen), all(section.is_whole for section in chosen)
    )


def reply_to(chat: Chat) -> Reply:
    """Return the reply of the model in the role that it is given."""
    for opening, play in _ROLES:
        if opening in chat.system:
            return play(chat)
    for opening, play in _REFERENCE_ROLES:
        if not chat.system and opening in chat.prompt[:_OPENING_CHARS]:
            return play(chat)
    return answer_directly(chat)


def is_worker(chat: Chat) -> bool:
    """Tell whether the model does a task: for Forum, or for forum-engine, which says no role."""
    if chat.system:
        return _WORKER in chat.system
    opening = chat.prompt[:_OPENING_CHARS]
    return chat.is_careless and not any(words in opening for words, _ in _REFERENCE_ROLES)


# Work


def answer_directly(chat: Chat) -> Reply:
    """Answer a request without a role."""
    # forum-engine lists earlier results as "- TASK: TEXT".
    prompt = re.sub(r"(?m)^- [\w-]+: ", "", chat.prompt) if is_worker(chat) else chat.prompt
    return _answer_or_call(chat, skills.asks_of(prompt), Material((prompt, *chat.results)))


def work(chat: Chat) -> Reply:
    """Do the task of a worker."""
    sections = chat.sections()
    asks = _own_asks(chat, sections)
    headings = ("The request", "Background from tools", "Results that your task depends on")
    material = material_of(sections, *headings)
    # What the judge says is missing, and then the earlier result, count only where neither the
    # request nor a tool says anything.
    remarks = [s for s in sections if s.heading.startswith("Your task")]
    words = "\n".join(s.text for s in remarks if s.source == "the judge")
    own = [s for s in remarks if s.source != "the judge"]
    stated, earlier = _lacking(words), [_accepted_rows(s.text, words) for s in own]
    material = Material((*material.texts, *chat.results), material.is_whole)
    return _answer_or_call(chat, asks, material, (stated, *earlier))


def _accepted_rows(result: str, remark: str) -> str:
    """Return the rows of an earlier result to which the judge does not object."""
    objections = re.findall(r"(?:not in the diff|not in the material|differs): (.{20,80})", remark)
    rows = result.split("\n")
    return "\n".join(row for row in rows if not any(words in row for words in objections))


def _lacking(remark: str) -> str:
    """Return the statements that a judge finds missing."""
    rows = (row.partition("lacks: ")[2] for row in remark.split("\n"))
    return "\n".join(row for row in rows if row)


def _own_asks(chat: Chat, sections: Sequence[Section]) -> list[Ask]:
    instruction = chat.task.partition("\n")[2].partition("\n\nIt is done when:")[0]
    instruction = instruction.partition("\n\nReply with the result")[0]
    if instruction.strip() != "Answer the request.":
        return skills.asks_of(instruction)
    return skills.asks_of("\n".join(material_of(sections, "The request").texts))


def _answer_or_call(
    chat: Chat, asks: Sequence[Ask], material: Material, remarks: Sequence[str] = ()
) -> Reply:
    """Return the answer, or calls of a tool for what the material does not say."""
    lines = skills.answer_asks(asks, material)
    absent = [line.wanted for line in lines if line.is_missing]
    calls = tuple(_call_tool(chat.tools[0], name) for name in absent) if chat.tools else ()
    fresh = tuple(call for call in calls if call[1] not in chat.called)
    if fresh:
        return Reply(calls=fresh[:16])
    lines = skills.answer_asks(asks, Material((*material.texts, *remarks), material.is_whole))
    return Reply("\n".join(line.text for line in lines) or "Nothing is asked.")


def _call_tool(tool: dict[str, Any], name: str) -> tuple[str, str]:
    function = tool["function"]
    members = function.get("parameters", {}).get("properties", {}) or {"input": {}}
    return function["name"], json.dumps({next(iter(members)): name})


# Planning


def plan(chat: Chat) -> Reply:
    """Divide a request into tasks, as a Coordinator."""
    sections = chat.sections()
    asks = skills.asks_of("\n".join(material_of(sections, "The request").texts))
    tasks = chat.schema["properties"]["tasks"]
    form = tasks["items"]["properties"]
    lane = form["lane"]["enum"][0]
    most = min(MAX_TASKS, tasks["maxItems"])
    groups = _group_asks(asks, most) or [_Group("answer", "Answer the request.", ())]
    drafted = [
        {
            "id": group.id,
            "instruction": group.instruction[: form["instruction"]["maxLength"]],
            "lane": lane,
            "needs": list(group.needs),
            "after": [],
            "covers": [number],
            "done_when": "gives everything that the instruction asks for, with exact values",
        }
        for number, group in enumerate(groups, 1)
    ]
    limit = chat.schema["properties"]["asks"]["items"]["maxLength"]
    listed = [group.instruction[:limit] for group in groups]
    return Reply(json.dumps({"asks": listed, "tasks": drafted}))


@dataclass(frozen=True, slots=True)
class _Group:
    """A task of a plan."""

    id: str
    instruction: str
    needs: tuple[str, ...] = ()


def _group_asks(asks: Sequence[Ask], most: int) -> list[_Group]:
    """Return tasks: one for every few questions, names or criteria, and one for each decision."""
    decisions = [ask for ask in asks if ask.verb == "Decide"]
    parts: list[str] = []
    questions = [ask.text for ask in asks if not ask.verb]
    parts += [f"Answer: {' '.join(group)}" for group in _chunks(questions, ASKS_PER_TASK)]
    for ask in asks:
        parts += _divide(ask)
    room = max(1, most - len(decisions))
    merged = [" ".join(group) for group in _chunks(parts, -(-len(parts) // room) or 1)]
    tasks = [_Group(f"part-{number}", text) for number, text in enumerate(merged, 1)]
    needs = tuple(task.id for task in tasks)
    return tasks + [
        _Group(f"decide-{number}" if number > 1 else "decide", ask.text, needs)
        for number, ask in enumerate(decisions, 1)
    ]


def _divide(ask: Ask) -> list[str]:
    """Return the instructions into which an order is divided."""
    if ask.verb == "List" and ask.names:
        groups = _chunks(ask.names, ASKS_PER_TASK)
        return [f"List every fact of the sections {', '.join(names)}." for names in groups]
    if ask.verb == "Review" and ask.names:
        groups = _chunks(ask.names, ASKS_PER_TASK)
        return [f"Review the diff of the files {', '.join(names)}." for names in groups]
    if ask.verb == "Compare":
        names = ", ".join(ask.names)
        return [f"Compare {names} by {criterion}." for criterion in ask.criteria]
    return [ask.text] if ask.verb in ("List", "Review") else []


def _chunks(items: Sequence[str], size: int) -> list[Sequence[str]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def classify(chat: Chat) -> Reply:
    """Choose the lane that the router ranked first."""
    return Reply(json.dumps({"lane": chat.schema["properties"]["lane"]["enum"][0]}))


# Judging


def judge(chat: Chat) -> Reply:
    """Compare a result with the request, the inputs and the outcomes of tools."""
    sections = chat.sections()
    material = material_of(
        sections, "The request", "Inputs of the task", "Outcomes of tools", "Background from tools"
    )
    instruction = "\n".join(material_of(sections, "The task").texts)
    asks = skills.asks_of(instruction)
    result = "\n".join(material_of(sections, "The result to judge").texts)
    faults = skills.find_faults(result, skills.answer_asks(asks, material), material)
    faults += _unanswered(asks, result, material)
    reason = f"{len(faults)} statements are wrong or absent." if faults else "All statements agree."
    evidence = next(iter(skills.sentences_of(result)), "")
    opinion = {
        "reason": reason,
        "evidence": evidence,
        "passed": not faults,
        "missing": list(dict.fromkeys(faults)),
    }
    return Reply(json.dumps(_fit(opinion, chat.schema)))


def _unanswered(asks: Sequence[Ask], result: str, material: Material) -> list[str]:
    """Return the questions for which neither the material nor the result has an answer."""
    stated = {fact.key for fact in skills.facts_of(result)}
    faults = []
    for ask in asks:
        name = skills.asked_name(ask.text)
        line = skills.answer_ask(ask, material)[0]
        is_open = not ask.verb and line.is_missing
        if is_open and skills.normalize_name(name) not in stated and name not in result:
            faults.append(f"lacks: {name}")
    return faults


def check_intent(chat: Chat) -> Reply:
    """Tell for each ask of the request whether the answer meets it, and by which words."""
    sections = chat.sections()
    request = material_of(sections, "The request")
    answer = "\n".join(material_of(sections, "The answer to judge").texts)
    parts = [_check_ask(ask, request, answer) for ask in skills.asks_of("\n".join(request.texts))]
    # Those that are not met come first: the form may have room for a part of them only.
    parts.sort(key=lambda part: part["met"])
    missing = [part["ask"] for part in parts if not part["met"]]
    opinion = {
        "asks": parts,
        "reason": f"{len(parts) - len(missing)} of {len(parts)} asks are met.",
        "evidence": parts[0]["met_by"] if parts else "",
        "passed": not missing,
        "missing": missing,
    }
    return Reply(json.dumps(_fit(opinion, chat.schema)))


def _check_ask(ask: Ask, request: Material, answer: str) -> dict[str, Any]:
    lines = skills.answer_ask(ask, request)
    wanted = [line for line in lines if not line.is_missing]
    stated = {fact.key: fact for fact in skills.facts_of(answer)}
    faults = skills.find_faults(answer, wanted, Material((), is_whole=False))
    lacking = [fault for fault in faults if fault.startswith("lacks")]
    if wanted:
        first = wanted[0]
        fact = stated.get(first.fact.key) if first.fact else None
        met_by = fact.sentence if fact else first.text
        is_met = not lacking
    else:
        # The request does not hold the answer: a statement about the name has to do.
        fact = stated.get(skills.normalize_name(skills.asked_name(ask.text)))
        met_by, is_met = (fact.sentence, True) if fact else ("", False)
        if not fact and (gap := f"{skills.MISSING}: {skills.asked_name(ask.text)}") in answer:
            met_by, is_met = gap, True
    return {"ask": ask.text, "met_by": met_by if is_met else "", "met": is_met}


# Writing


def synthesize(chat: Chat) -> Reply:
    """Combine the results: every fact of each of them once, in short."""
    sections = chat.sections()
    forms = chat.schema["properties"]["parts"]["items"]["properties"]
    seen, parts = set[str](), []
    for section in sections:
        if section.heading != "Results":
            continue
        lines = [line for line in skills.shorten_lines(section.text) if line not in seen]
        seen.update(lines)
        task = section.source.partition(" (")[0].removeprefix("task ")
        text = "\n".join(lines)[: forms["text"]["maxLength"]]
        if text:
            parts.append({"from": task, "text": text})
    if not parts:
        parts = [{"from": forms["from"]["enum"][0], "text": "There is no result."}]
    return Reply(json.dumps({"parts": parts}))


def summarize(chat: Chat) -> Reply:
    """Keep the facts of a text, those first that the purpose mentions."""
    sections = chat.sections()
    purpose = "\n".join(material_of(sections, "The purpose of the reader").texts).casefold()
    text = "\n".join(material_of(sections, "The text to shorten").texts)
    limit = re.search(r"at most (\d+) words", chat.task)
    room = int(limit[1]) if limit else 100
    lines = skills.shorten_lines(text)
    ranked = sorted(range(len(lines)), key=lambda n: (-_shared_words(lines[n], purpose), n))
    kept = set[int]()
    for number in ranked:
        size = len(lines[number].split())
        if size <= room:
            kept.add(number)
            room -= size
    shown = [line for number, line in enumerate(lines) if number in kept]
    return Reply("\n".join([*shown, "Left out: prose."]))


def _shared_words(line: str, purpose: str) -> int:
    return sum(word.casefold() in purpose for word in line.split() if len(word) > 3)


def revise(chat: Chat) -> Reply:
    """Shorten an answer: its facts without the rest of their sentences, with the references."""
    text = "\n".join(material_of(chat.sections(), "The answer to shorten").texts)
    paragraphs = []
    for paragraph in text.split("\n\n"):
        reference = re.search(r" (\[[\w.-]+\])$", paragraph.strip())
        lines = "\n".join(skills.shorten_lines(paragraph))
        paragraphs.append(f"{lines} {reference[1]}" if reference else lines)
    limit = chat.schema["properties"]["text"]["maxLength"]
    return Reply(json.dumps({"text": "\n\n".join(paragraphs)[:limit] or text[:limit]}))


def _fit(value: Any, form: dict[str, Any]) -> Any:  # noqa: ANN401  JSON
    """Return a value within the limits of its schema."""
    if isinstance(value, str):
        return value[: form.get("maxLength", len(value))]
    if isinstance(value, list):
        return [_fit(item, form["items"]) for item in value[: form.get("maxItems", len(value))]]
    if isinstance(value, dict):
        return {name: _fit(item, form["properties"][name]) for name, item in value.items()}
    return value


_ROLES = (
    ("You plan the work of a team.", plan),
    ("You assign requests to specialists.", classify),
    ("You check the work of another specialist.", judge),
    ("You check whether an answer answers a request.", check_intent),
    ("You write the one answer to a request", synthesize),
    ("You shorten a text for a colleague", summarize),
    ("You shorten answers without changing", revise),
    ("You do one task of the team's plan", work),
)
_WORKER = "You do one task of the team's plan"


# The roles of forum-engine, whose prompts are one message


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].rpartition(end)[0]


def plan_for_reference(chat: Chat) -> Reply:
    """Divide a request into tasks, in the form of forum-engine."""
    agent = chat.prompt.partition("Available agents: ")[2].partition(".\n")[0].partition(", ")[0]
    groups = _group_asks(skills.asks_of(chat.prompt.partition("\nRequest: ")[2]), MAX_TASKS)
    tasks = [
        {"id": g.id, "agent": agent, "instruction": g.instruction, "depends_on": list(g.needs)}
        for g in groups or [_Group("answer", "Answer the request.")]
    ]
    return Reply(json.dumps({"tasks": tasks}))


def judge_for_reference(chat: Chat) -> Reply:
    """Compare a result with its instruction, which is all that is shown."""
    instruction = _between(chat.prompt, "\nInstruction: ", "\nOutput: ")
    result = chat.prompt.rpartition("\nOutput: ")[2]
    asks, nothing = skills.asks_of(instruction), Material((), is_whole=False)
    lacking = _unanswered(asks, result, nothing)
    is_good = not lacking and f"{skills.MISSING}: " not in result
    return Reply(json.dumps({"ok": is_good, "score": float(is_good), "reason": "; ".join(lacking)}))


def check_intent_for_reference(chat: Chat) -> Reply:
    """Tell whether an answer meets the request."""
    request = Material((_between(chat.prompt, "\nRequest: ", "\nAnswer: "),))
    answer = chat.prompt.rpartition("\nAnswer: ")[2]
    parts = [_check_ask(ask, request, answer) for ask in skills.asks_of(request.texts[0])]
    is_good = all(part["met"] for part in parts)
    return Reply(json.dumps({"ok": is_good, "score": float(is_good), "reason": ""}))


def synthesize_for_reference(chat: Chat) -> Reply:
    """Combine the results; what they lack is taken from the request, which is shown too."""
    request = _between(chat.prompt, "Request: ", "\nResults:\n")
    results = chat.prompt.rpartition("\nResults:\n")[2].partition("\n\nDelivery contract:")[0]
    results = re.sub(r"(?m)^- [\w-]+: ", "", results)
    results = re.sub(rf"(?m)^{skills.MISSING}: .*$", "", results)
    lines = skills.answer_asks(skills.asks_of(request), Material((results, request)))
    return Reply("\n".join(line.fact.short if line.fact else line.text for line in lines))


_OPENING_CHARS = 4000
_REFERENCE_ROLES = (
    ("You are a planner. Break the request into a minimal task DAG.", plan_for_reference),
    ("Judge whether the output satisfies the instruction.", judge_for_reference),
    ("Judge whether the answer actually addresses the request.", check_intent_for_reference),
    ("Combine the task results into one clear answer to the request.", synthesize_for_reference),
)


# Errors on purpose


def spoil(chat: Chat, right: str) -> tuple[str, str]:
    """Return a worker's result with a planted error, and the error; or the result as it is."""
    chance = sha256(chat.prompt.encode()).digest()
    is_first = "was not accepted for the reason" not in chat.task
    if not chat.is_careless or not is_first or chance[0] >= 256 * ERROR_SHARE:
        return right, ""
    error = ERRORS[chance[1] % len(ERRORS)]
    lines = right.split("\n")
    wrong = _plant(chat, error, lines, chance[2])
    if wrong == lines:
        error, wrong = "omitted", _plant(chat, "omitted", lines, chance[2])
    return "\n".join(wrong), error


def _plant(chat: Chat, error: str, lines: list[str], seed: int) -> list[str]:
    at = seed % len(lines)
    match error:
        case "altered":
            return [_alter(line) if number == at else line for number, line in enumerate(lines)]
        case "swapped":
            return _swap(lines, at)
        case "omitted":
            return lines[:at] + lines[at + 1 :] or ["The work is done."]
        case _:
            return _do_another_task(chat) or lines


def _alter(line: str) -> str:
    """Return a line with another value: its last number changed."""
    fact = skills.read_fact(line)
    text = fact.value if fact else line
    numbers = list(re.finditer(r"\d+", text))
    if not numbers:
        return line
    last = numbers[-1]
    changed = f"{text[: last.start()]}{int(last.group()) + 7}{text[last.end() :]}"
    return line.replace(text, changed)


def _swap(lines: list[str], at: int) -> list[str]:
    """Return the lines with the values of two facts exchanged."""
    facts = [
        (number, fact) for number, line in enumerate(lines) if (fact := skills.read_fact(line))
    ]
    if len(facts) < 2:
        return lines
    (text, first), (other, second) = facts[at % len(facts)], facts[(at + 1) % len(facts)]
    changed = list(lines)
    changed[text] = lines[text].replace(first.value, second.value)
    changed[other] = lines[other].replace(second.value, first.value)
    return changed


def _do_another_task(chat: Chat) -> list[str]:
    """Return the result of the first other task of the plan that differs from the own one."""
    sections = chat.sections()
    outline = "\n".join(material_of(sections, "The plan").texts)
    material = material_of(sections, "The request")
    own = {ask.text for ask in _own_asks(chat, sections)}
    for row in outline.split("\n"):
        instruction = row.partition(": ")[2]
        asks = [ask for ask in skills.asks_of(instruction) if ask.text not in own]
        if row.startswith("- ") and asks:
            lines = skills.answer_asks(asks, material)
            return [line.text for line in lines if not line.is_missing]
    return []


# Serving


class Server:
    """Answers calls, and logs the results of workers."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("a", encoding="utf-8")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer every call of a connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(length))
                status, answer = self.answer(json.loads(body))
                data = json.dumps(answer).encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(data)}\r\n\r\n".encode()
                    + data
                )
                await writer.drain()
                if b"connection: close" in head:
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def answer(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the status and the body of the answer to a call."""
        try:
            return "200 OK", self._complete(body)
        except ContextExceeded as error:
            problem = {"message": str(error), "code": "context_length_exceeded"}
            return "400 Bad Request", {"error": problem | {"type": "invalid_request_error"}}

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        model = _MODEL.fullmatch(body["model"])
        if model is None:
            raise ContextExceeded(f"no model is called {body['model']}")
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        used = count_prompt(body)
        if used + limit > 1024 * int(model[1]):
            raise ContextExceeded(f"{used} tokens and {limit} of the reply exceed {model[1]}k")
        chat = read_chat(body, is_careless=bool(model[2]))
        reply, finish = reply_to(chat), "stop"
        if is_worker(chat) and not reply.calls:
            reply = self._spoil_and_log(chat, reply.text)
        text = reply.text
        while limit and skills.count_tokens(text) > limit:
            text, finish = text[: int(len(text) * 0.9)], "length"
        written = skills.count_tokens(text + "".join(part for call in reply.calls for part in call))
        message = {"role": "assistant", "content": text} | _tool_calls(reply)
        usage = {"prompt_tokens": used, "completion_tokens": written}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"model": body["model"], "choices": [choice], "usage": usage}

    def _spoil_and_log(self, chat: Chat, right: str) -> Reply:
        text, error = spoil(chat, right)
        task = chat.task.partition("(")[2].partition(")")[0] if chat.system else ""
        entry = {"reply": sha256(f"{task}\n{text}".encode()).hexdigest(), "error": error}
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()
        return Reply(text)


def _tool_calls(reply: Reply) -> dict[str, Any]:
    if not reply.calls:
        return {}
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(reply.calls)
    ]
    return {"tool_calls": calls}


def count_prompt(body: dict[str, Any]) -> int:
    """Return the tokens of all messages and of the offered tools."""
    tokens = sum(
        MESSAGE_TOKENS + skills.count_tokens(message.get("content") or "")
        for message in body["messages"]
    )
    return tokens + (skills.count_tokens(json.dumps(body["tools"])) if body.get("tools") else 0)


def read_chat(body: dict[str, Any], *, is_careless: bool) -> Chat:
    """Return what a call shows to the model."""
    messages = body["messages"]
    system = "\n".join(m["content"] for m in messages if m["role"] == "system")
    users = [m["content"] for m in messages if m["role"] == "user"]
    called = {call["function"]["arguments"] for m in messages for call in m.get("tool_calls") or ()}
    outcomes = [m["content"] for m in messages if m["role"] == "tool"]
    results = [section.text for text in (*users[1:], *outcomes) for section in read_sections(text)]
    # A program that calls without Forum sends plain outcomes.
    results += [text for text in outcomes if not read_sections(text)]
    form = body.get("response_format") or {}
    return Chat(
        system=system,
        prompt=users[0] if users else "",
        results=tuple(results),
        called=frozenset(json.dumps(json.loads(text)) for text in called),
        tools=tuple(body.get("tools") or ()),
        schema=form.get("json_schema", {}).get("schema", {}),
        is_careless=is_careless,
    )


async def main(log: str) -> None:
    """Print the address, and serve until the standard input ends."""
    server = await asyncio.start_server(Server(Path(log)).serve, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
