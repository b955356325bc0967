"""Decoders for the protocol's objects, from bytes or from parsed JSON.

They raise `Malformed`, with the path of the error, for every invalid value.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from forum.deliberation.symposium.canonical_json import normalize_json, read_json
from forum.deliberation.symposium.provider_calls import (
    ContextPacket,
    FakeScript,
    GoldenCase,
    ProviderRequest,
    ProviderResult,
)
from forum.deliberation.symposium.schemas import (
    Artifact,
    CoordinatorVerdict,
    DirectRequest,
    Message,
    MessageUsage,
    Persona,
    RunManifest,
    SelectorOutput,
    SymposiumConfig,
    SynthesisContent,
    TerminationArtifact,
    TurnOutput,
)
from forum.errors import Malformed

FormT = TypeVar("FormT")


def _make_decoder(form: type[FormT], what: str) -> Callable[[object], FormT]:
    # Let msgspec inspect the type here, once: two threads that do so concurrently crash the
    # process.
    msgspec.json.Decoder(form)

    def read(data: object) -> FormT:
        value = read_json(data, what) if isinstance(data, bytes) else normalize_json(data, what)
        try:
            return msgspec.convert(value, form)
        except msgspec.ValidationError as error:
            raise Malformed(what, str(error)) from None

    return read


read_artifact = _make_decoder(Artifact, "artifact")
read_config = _make_decoder(SymposiumConfig, "config")
read_direct_request = _make_decoder(DirectRequest, "direct request")
read_golden_case = _make_decoder(GoldenCase, "golden case")
read_manifest = _make_decoder(RunManifest, "run manifest")
read_message = _make_decoder(cast("type[Message]", Message), "message")
read_packet = _make_decoder(ContextPacket, "context packet")
read_persona = _make_decoder(Persona, "persona")
read_provider_request = _make_decoder(ProviderRequest, "provider request")
read_provider_result = _make_decoder(ProviderResult, "provider result")
read_script = _make_decoder(FakeScript, "script")
read_selection = _make_decoder(SelectorOutput, "selection")
read_synthesis = _make_decoder(SynthesisContent, "synthesis")
read_termination = _make_decoder(TerminationArtifact, "termination")
read_turn = _make_decoder(TurnOutput, "turn")
read_usage = _make_decoder(MessageUsage, "usage")
read_verdict = _make_decoder(CoordinatorVerdict, "verdict")
