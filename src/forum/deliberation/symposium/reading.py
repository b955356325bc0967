"""How the forms are read: from bytes, or from JSON that was parsed already.

What has not the right form is `Malformed`, whatever is wrong with it, and the error says where.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from forum.deliberation.symposium.calls import (
    ContextPacket,
    FakeScript,
    GoldenCase,
    ProviderRequest,
    ProviderResult,
)
from forum.deliberation.symposium.forms import (
    Artifact,
    Config,
    DirectRequest,
    Message,
    Persona,
    RunManifest,
    SelectorOutput,
    SynthesisContent,
    TerminationArtifact,
    TurnOutput,
    Usage,
    Verdict,
)
from forum.deliberation.symposium.ijson import plain, read_json
from forum.errors import Malformed

FormT = TypeVar("FormT")


def _reader(form: type[FormT], what: str) -> Callable[[object], FormT]:
    # Taken in once, here: two threads that do it at the same time crash the process.
    msgspec.json.Decoder(form)

    def read(data: object) -> FormT:
        value = read_json(data, what) if isinstance(data, bytes) else plain(data, what)
        try:
            return msgspec.convert(value, form)
        except msgspec.ValidationError as error:
            raise Malformed(what, str(error)) from None

    return read


read_artifact = _reader(Artifact, "artifact")
read_config = _reader(Config, "config")
read_direct_request = _reader(DirectRequest, "direct request")
read_golden_case = _reader(GoldenCase, "golden case")
read_manifest = _reader(RunManifest, "run manifest")
read_message = _reader(cast("type[Message]", Message), "message")
read_packet = _reader(ContextPacket, "context packet")
read_persona = _reader(Persona, "persona")
read_provider_request = _reader(ProviderRequest, "provider request")
read_provider_result = _reader(ProviderResult, "provider result")
read_script = _reader(FakeScript, "script")
read_selection = _reader(SelectorOutput, "selection")
read_synthesis = _reader(SynthesisContent, "synthesis")
read_termination = _reader(TerminationArtifact, "termination")
read_turn = _reader(TurnOutput, "turn")
read_usage = _reader(Usage, "usage")
read_verdict = _reader(Verdict, "verdict")
