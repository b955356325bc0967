"""The messages of a conversation with a model, whatever format they were recorded in."""

from enum import StrEnum

from msgspec import Struct


class ChatRole(StrEnum):
    """Who says a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    INPUT = "input"
    """What another step than a call of a model was given."""
    OUTPUT = "output"
    """What such a step has returned."""
    COMMAND = "command"
    """The command line by which a program was started."""
    ERROR = "error"
    """A provider or a program reports that a call failed."""
    RAW = "raw"
    """Bytes that could not be decoded, as text; the note says why."""


class ChatToolCall(Struct, frozen=True):
    """A model asks for a tool."""

    name: str
    arguments: str
    """As JSON, or as the text that the model wrote."""
    id: str = ""


class ChatToolResult(Struct, frozen=True):
    """What a tool has returned."""

    text: str
    id: str = ""
    """The id of the call."""
    name: str = ""


class ChatAttachment(Struct, frozen=True):
    """An image, a sound or a file in a message; its content stays in the recorded body."""

    kind: str
    media_type: str = ""
    size: int = 0
    """In bytes; 0 if the message has only a reference."""
    name: str = ""


class ChatMessage(Struct, frozen=True):
    """One message."""

    role: ChatRole
    text: str = ""
    reasoning: str = ""
    calls: tuple[ChatToolCall, ...] = ()
    results: tuple[ChatToolResult, ...] = ()
    attachments: tuple[ChatAttachment, ...] = ()
    note: str = ""
    """Why the text is raw, or how much of it is left out."""

    @property
    def size(self) -> int:
        """The number of characters of its texts."""
        texts = [self.text, self.reasoning, self.note]
        texts += [call.arguments for call in self.calls]
        texts += [result.text for result in self.results]
        return sum(map(len, texts))

    @property
    def parts(self) -> int:
        """The number of its calls, results and attachments."""
        return len(self.calls) + len(self.results) + len(self.attachments)


class ExchangeUsage(Struct, frozen=True):
    """The tokens of a call, as its reply states them."""

    input_tokens: int
    output_tokens: int


class DecodedBody(Struct, frozen=True):
    """What one recorded body says."""

    messages: tuple[ChatMessage, ...] = ()
    model: str = ""
    stop_reason: str = ""
    usage: ExchangeUsage | None = None


class ModelExchange(Struct, frozen=True):
    """A request to a model, and its reply."""

    request: tuple[ChatMessage, ...] = ()
    reply: tuple[ChatMessage, ...] = ()
    model: str = ""
    stop_reason: str = ""
    usage: ExchangeUsage | None = None
    repeated: int = 0
    """How many messages at the beginning of the request an earlier exchange of the run has too."""
    repeated_later: int = 0
    """How many messages behind a part that was rewritten an earlier exchange has too."""
    dropped: int = 0
    """How many messages of the earlier exchange the request has no more: it was rewritten."""
    follows: int | None = None
    """The index of the entry of that exchange, if it has one yet."""

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The messages of the request and of the reply."""
        return (*self.request, *self.reply)

    @property
    def size(self) -> int:
        """The number of characters of its messages."""
        return sum(message.size for message in self.messages)
