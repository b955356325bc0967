"""Sentence embeddings: all-MiniLM-L6-v2 in numpy, without torch, onnxruntime or a network.

The weights are files that `forum models pull minilm` installs, and are used only if their digests
are the pinned ones.  The forward pass is that of BERT with six layers: the mean of the last layer
over all tokens, normalized to length one, so that the dot product of two vectors is their
similarity.  Results agree with the reference to about 1e-6; the last digits depend on the machine.
"""

import json
import mmap
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from forum.models.numpy_arrays import NDArray, np
from forum.models.weights import find_weights, verify_weights
from forum.runs.model_weights import MINILM, MINILM_TENSORS, MINILM_VOCABULARY
from forum.runs.unicode_forms import normalize_text

Floats = NDArray[np.float32]

DIMENSIONS: Final = 384
_LAYERS, _HEADS = 6, 12
_MAX_TOKENS = 256
_MAX_WORD_CHARS = 100
_BATCH_SIZE = 32


class MiniLM:
    """Encodes texts as vectors of length one."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or find_weights(MINILM)
        self._weights = _read_tensors(folder / MINILM_TENSORS.name)
        self._tokens = WordPiece(_read_vocabulary(folder / MINILM_VOCABULARY.name))

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one row per text."""
        rows_of_texts = np.empty((len(texts), DIMENSIONS), np.float32)
        ids = [self._tokens.encode(text) for text in texts]
        # Texts of equal length form a batch, so that no padding and no mask is needed.
        by_length = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        for rows in _batches(by_length, ids):
            rows_of_texts[rows] = self._forward(np.array([ids[row] for row in rows]))
        return rows_of_texts

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
    """BERT's uncased WordPiece tokenizer."""

    def __init__(self, vocabulary: str) -> None:
        self._ids = {piece: n for n, piece in enumerate(vocabulary.split("\n"))}
        self._unknown, self._begin, self._end = (
            self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]")
        )
        self._pieces = lru_cache(maxsize=50_000)(self._split_word)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the tokens, truncated to the length that the model was trained for."""
        room = _MAX_TOKENS - 2
        ids: list[int] = []
        # Limits the work on a long text.  Tokens are far shorter than 40 characters on average, so
        # that the limit of tokens is met first; only long white space could shorten the result.
        for word in _words(text[: 40 * _MAX_TOKENS]):
            ids += self._pieces(word)
            if len(ids) >= room:
                break
        return [self._begin, *ids[:room], self._end]

    def _split_word(self, word: str) -> tuple[int, ...]:
        """Split a word greedily into the longest known prefix and continuations."""
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


def _read_vocabulary(file: Path) -> str:
    with file.open("rb") as opened:
        verify_weights(opened, MINILM, MINILM_VOCABULARY)
        opened.seek(0)
        return opened.read().decode()


def _read_tensors(file: Path) -> dict[str, Floats]:
    """Read the safetensors format: the length of a JSON header, the header, and the numbers."""
    with file.open("rb") as opened:
        verify_weights(opened, MINILM, MINILM_TENSORS)
        # Memory-mapped: once the digest is verified, most of the 90 MB is not read, because a text
        # uses only a few rows of the table of words.
        data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    size = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:size])
    tensors: dict[str, Floats] = {}
    for name, tensor in header.items():
        if tensor.get("dtype") == "F32":
            start, end = tensor["data_offsets"]
            numbers = np.frombuffer(data, "<f4", (end - start) // 4, size + start)
            tensors[name] = numbers.reshape(tensor["shape"])
    return tensors


def _batches(rows: list[int], ids: list[list[int]]) -> list[list[int]]:
    """Group rows, sorted by length, into batches of equal length."""
    groups: list[list[int]] = []
    for row in rows:
        last = groups[-1] if groups else []
        if last and len(last) < _BATCH_SIZE and len(ids[last[0]]) == len(ids[row]):
            last.append(row)
        else:
            groups.append([row])
    return groups


def _words(text: str) -> list[str]:
    """Return lower-case words without accents; punctuation and ideographs are separate words."""
    plain = "".join(map(_clean_character, text)).lower()
    plain = normalize_text("NFD", plain)
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


_IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def _is_ideograph(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in _IDEOGRAPHS)


def _softmax(x: Floats) -> Floats:
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return _as_floats(x / x.sum(axis=-1, keepdims=True))


def _gelu(x: Floats) -> Floats:
    """Return x times the normal cumulative distribution at x (Abramowitz and Stegun 7.1.26)."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    poly = np.float32(1.061405429) * t
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        poly = (poly + np.float32(factor)) * t
    tail = poly * np.exp(-z * z)
    return _as_floats(x * np.where(x > 0, 1 - tail / 2, tail / 2))


def _as_floats(x: NDArray[np.floating]) -> Floats:
    return x.astype(np.float32, copy=False)
