"""Texts -> vectors with a trained encoder: what `relmo.load("relmo-en-search")` returns.

The arithmetic is that of `EncoderModel` in another order: word vectors are looked up once for each
distinct word, and ELMo's layers are mixed while a batch is read. So a token costs little more than
reading it, and next to nothing for an encoder that reads words without their sentence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.elmo import Elmo, list_texts
from relmo.errors import ConfigError
from relmo.nn.scalar_mix import ScalarMix
from relmo.progress import progress
from relmo.runtime.pooling import normalize
from relmo.runtime.runtime import Words
from relmo.tasks.encoder.data import Text, read_text
from relmo.tasks.encoder.task import EncoderTask
from relmo.tasks.predictor import Predictor
from relmo.text.batches import in_windows
from relmo.types import Vectors

WINDOW_WORDS = 16_384
"""Words whose token vectors are held at a time."""


class TextEncoder(Predictor):
    """A trained encoder: `encode(texts)` gives one vector per text.

    Called like other task models it gives lists of numbers.
    """

    task: EncoderTask

    @property
    def elmo(self) -> Elmo:
        """The model that it reads with."""
        layer = self.task.inputs.elmo
        assert layer is not None
        return layer.elmo

    @property
    def width(self) -> int:
        """D, the width of a vector."""
        return self.task.settings.width

    def fingerprint(self) -> str:
        """A checksum of everything that affects vectors."""
        own = self.elmo.fingerprint("float32" if self.reads_words_alone else None)
        digest = hashlib.sha256(own.encode())
        digest.update("\n".join(self.task.inputs.static.words).encode("utf-8", "surrogatepass"))
        for name, tensor in sorted(self.task.model.state_dict().items()):
            digest.update(name.encode() + tensor.float().cpu().numpy().tobytes())
        return digest.hexdigest()

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        width: int | None = None,
        show_progress_bar: bool = False,
    ) -> Vectors:
        """Unit-length vectors of texts, (N, D), or (D,) of one text; zeros without words.

        Args:
            texts: of any length, all of which is read.
            width: the first so many numbers of each vector alone, scaled to unit length; vectors
                are trained to be cut to a half or a quarter.
            show_progress_bar: on standard error.
        """
        is_one = isinstance(texts, str)
        items = list_texts(texts)
        wide = self.width if width is None else width
        if type(wide) is not int or not 1 <= wide <= self.width:
            raise ConfigError(f"width must be an integer from 1 to {self.width}, got {width!r}")
        stream = self._stream(items)
        shown = progress(stream, len(items), "texts", show_progress_bar)
        found = np.array(list(shown), np.float32).reshape(len(items), self.width)
        cut = normalize(found[:, :wide])
        return cut[0] if is_one else cut

    def encode_read(self, texts: Sequence[Text]) -> Vectors:
        """The same of texts that are already sentences of words: (N, D)."""
        found = list(self._pooled(texts))  # each (E,)
        width = self.task.net.pooled_width
        return self._finish(np.array(found, np.float32).reshape(len(texts), width))

    def encode_words(self, words: Sequence[str]) -> Vectors:
        """Unit-length vectors of single words, (U, D), from tables alone.

        What the letters say is left out, as computing it takes milliseconds; a word that no table
        has is zeros.
        """
        found = self._from_tables(words)
        projected = found.vectors @ self._weights.projection[: found.vectors.shape[1]]  # (U, D)
        return normalize(np.asarray(projected * found.is_known[:, None], dtype=np.float32))

    def _stream(self, texts: Sequence[str]) -> Iterator[Vectors]:
        read = map(read_text, texts)
        for window in in_windows(read, lambda text: sum(map(len, text)) + 1, WINDOW_WORDS):
            yield from self.encode_read(window)

    def _finish(self, pooled: Vectors) -> Vectors:
        """(N, E) -> unit-length (N, D)."""
        return normalize(np.asarray(pooled @ self._weights.projection, dtype=np.float32))

    def _pooled(self, texts: Sequence[Text]) -> Iterator[Vectors]:
        """The weighted sum of each text's tokens, (E,)."""
        own, scores = self._own([word for text in texts for words in text for word in words])
        layers = None if self.reads_words_alone else self._layers(chain.from_iterable(texts))
        first = 0
        for text in texts:
            rows = slice(first, first + sum(map(len, text)))
            first = rows.stop
            vectors, logits = own[rows], scores[rows]  # (T, ·), (T,)
            if layers is None:
                yield np.exp(logits) @ vectors
                continue
            mixed = [next(layers) for _ in text]  # each (·, D)
            read = np.concatenate(mixed) if mixed else np.zeros((0, self.elmo.width), np.float32)
            weights = np.exp(logits + read @ self._weights.attention[own.shape[1] :])  # (T,)
            yield np.concatenate([weights @ vectors, weights @ read])

    @property
    def reads_words_alone(self) -> bool:
        """Whether a token's vector is that of its word, in any sentence."""
        return self.task.inputs.elmo is not None and self.task.inputs.elmo.layers == "token"

    def _layers(self, sentences: Iterable[Words]) -> Iterator[Vectors]:
        """ELMo's mix of each sentence, (T, D)."""
        shares = self._weights.shares

        def mix(layers: Tensor) -> Tensor:
            mixed: Tensor = torch.tensordot(shares.to(layers.device), layers, 1)  # (B, T, D)
            return mixed

        return self.elmo.runtime.stream(map(list, sentences), mix)

    @torch.no_grad()
    def _own(self, words: Sequence[str]) -> tuple[Vectors, Vectors]:
        """What words have without their sentence: vectors (N, ·), and scores of attention (N,).

        Each distinct word is looked up once.
        """
        number_of: dict[str, int] = {}
        numbers = [number_of.setdefault(word, len(number_of)) for word in words]
        known = list(number_of)
        tables = self._from_tables(known)
        vectors = tables.vectors  # (U, ·)
        if self.reads_words_alone:
            memo = self.elmo.runtime.memo
            found = memo.vectors(known) if known else torch.zeros(0, self.elmo.width // 2)
            share = self._weights.shares[-1].item()
            vectors = np.concatenate([vectors, share * found.cpu().numpy()], 1)
        scores = tables.prior + vectors @ self._weights.attention[: vectors.shape[1]]  # (U,)
        return vectors[numbers], np.asarray(scores[numbers], np.float32)

    @torch.no_grad()
    def _from_tables(self, words: Sequence[str]) -> _Tables:
        """What is stored for U words."""
        tokens, device = self.task.net.tokens, self.task.device
        static = self.task.inputs.static.rows(words)
        is_known, prior = static > 1, np.zeros(len(words), np.float32)
        parts = [tokens.static(torch.from_numpy(static).to(device))]
        if tokens.output is not None:
            numbers = tokens.output.rows(words)
            is_known = is_known | (numbers != tokens.output.unknown_row)
            rows = torch.from_numpy(numbers).to(device)
            parts.append(tokens.output(rows))
            prior = self.task.net.prior[rows].cpu().numpy()
        return _Tables(torch.cat(parts, 1).float().cpu().numpy(), prior, is_known)

    @cached_property
    def _weights(self) -> _Weights:
        net, layer = self.task.net, self.task.inputs.elmo
        assert layer is not None
        mix = cast("ScalarMix", layer.mixes[0])
        shares = torch.zeros(layer.elmo.num_layers)
        shares[-len(mix.s) :] = (mix.gamma * mix.weights()).detach().float().cpu()
        return _Weights(
            shares,
            net.attention.weight[0].detach().float().cpu().numpy(),
            net.projection.weight.T.detach().float().contiguous().cpu().numpy(),
        )


class _Tables(NamedTuple):
    """What is stored for words."""

    vectors: Vectors
    """(U, ·) word vectors and rows of the softmax."""
    prior: Vectors
    """(U,) log of what words weigh before anything is learned."""
    is_known: NDArray[np.bool_]
    """(U,) whether a word has either."""


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of a trained encoder, as arrays."""

    shares: Tensor
    """(L + 1,) of the layers, gamma included."""
    attention: Vectors
    """(E,)."""
    projection: Vectors
    """(E, D)."""
