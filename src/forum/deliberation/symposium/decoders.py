"""Decoders for the protocol's objects, from bytes or from parsed JSON.

They raise `Malformed`, with the path of the error, for every invalid value.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from forum.deliberation.symposium import provider_calls, schemas
from forum.deliberation.symposium.canonical_json import normalize_json, read_json
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


read_artifact = _make_decoder(schemas.Artifact, "artifact")
read_config = _make_decoder(schemas.SymposiumConfig, "config")
read_direct_request = _make_decoder(schemas.DirectRequest, "direct request")
read_golden_case = _make_decoder(provider_calls.GoldenCase, "golden case")
read_manifest = _make_decoder(schemas.RunManifest, "run manifest")
read_message = _make_decoder(cast("type[schemas.Message]", schemas.Message), "message")
read_packet = _make_decoder(provider_calls.ContextPacket, "context packet")
read_persona = _make_decoder(schemas.Persona, "persona")
read_provider_request = _make_decoder(provider_calls.ProviderRequest, "provider request")
read_provider_result = _make_decoder(provider_calls.ProviderResult, "provider result")
read_script = _make_decoder(provider_calls.FakeScript, "script")
read_selection = _make_decoder(schemas.SelectorOutput, "selection")
read_synthesis = _make_decoder(schemas.SynthesisContent, "synthesis")
read_termination = _make_decoder(schemas.TerminationArtifact, "termination")
read_turn = _make_decoder(schemas.TurnOutput, "turn")
read_usage = _make_decoder(schemas.MessageUsage, "usage")
read_verdict = _make_decoder(schemas.CoordinatorVerdict, "verdict")
