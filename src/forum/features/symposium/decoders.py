"""Decoders for the protocol's objects, from bytes or from parsed JSON.

They raise `Malformed`, with the path of the error, for every invalid value.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from forum.errors import Malformed
from forum.features.symposium import provider_calls, schemas
from forum.features.symposium.canonical_json import normalize_json, read_json
from forum.runs.personas import Persona

FormT = TypeVar("FormT")


def make_decoder(form: type[FormT], what: str) -> Callable[[object], FormT]:
    """Return the decoder of a type; `what` names the object in errors."""
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


read_artifact = make_decoder(schemas.Artifact, "artifact")
read_config = make_decoder(schemas.SymposiumConfig, "config")
read_direct_request = make_decoder(schemas.DirectRequest, "direct request")
read_manifest = make_decoder(schemas.RunManifest, "run manifest")
read_message = make_decoder(cast("type[schemas.Message]", schemas.Message), "message")
read_persona = make_decoder(Persona, "persona")
read_script = make_decoder(provider_calls.FakeScript, "script")
read_selection = make_decoder(schemas.SelectorOutput, "selection")
read_synthesis = make_decoder(schemas.SynthesisContent, "synthesis")
read_termination = make_decoder(schemas.TerminationArtifact, "termination")
read_turn = make_decoder(schemas.TurnOutput, "turn")
read_verdict = make_decoder(schemas.CoordinatorVerdict, "verdict")
