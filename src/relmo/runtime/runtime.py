"""Reading with a trained model: words -> token vectors -> layers -> the vectors asked for.

`FastBiLM` runs a biLM with the fastest engine that reproduces its outputs; `Runtime` adds what
surrounds it: spelling, the memo of words, batches of like length, results in input order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relmo.config import CharCnnConfig, check_choice
from relmo.errors import ConfigError, TextError
from relmo.kernels.cpu_products import Precision, avoid_hidden_tiles, has_bfloat16
from relmo.kernels.device import begin_host_copy, to_device, usable_device, uses_fast_kernels
from relmo.kernels.packing import Packing
from relmo.nn.bilm import BiLM, Engine, Outputs, has_kernels, read_sentences
from relmo.nn.token_layers import CharCnn
from relmo.runtime.engines import CpuEngine, CpuTokenLayer, GpuEngine
from relmo.runtime.host import in_threads, survive_fork
from relmo.runtime.word_memo import WordMemo, weight_versions, words_that_fit
from relmo.text.batches import in_windows, index_words, map_batches, plan_batches
from relmo.text.characters import make_characters
from relmo.text.lexicon import Lexicon
from relmo.types import Batch, BiLmState, Layers, VectorDtype

PrecisionChoice = Precision | Literal["auto"]
BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Padded tokens per batch, by device: bounds memory. On a GPU a step of few rows costs as much as
one of many."""
WINDOW_TOKENS = {"cpu": 8192, "cuda": 262_144}
"""Tokens of a stream that are sorted by length together: bounds memory, fills batches."""

Words = Sequence[str]
AnyVectors = NDArray[Any]
"""float32 or float16, as asked for."""


def check_precision(precision: str) -> None:
    """Raise ConfigError for an unknown precision."""
    check_choice("precision", precision, (*get_args(Precision), "auto"))


class FastBiLM:
    """Runs a frozen biLM with a CPU or GPU engine, any other with its own modules.

    Weights are packed when they are first used, and again when they have changed. Changes by a
    fused optimizer go unnoticed, so weights that require gradients are not packed.

    Args:
        bilm: the model.
        is_frozen: whether weights that require gradients stay as they are while this object is
            used, as in an evaluation: they are packed then.
    """

    def __init__(self, bilm: BiLM, is_frozen: bool = False) -> None:
        avoid_hidden_tiles()
        survive_fork()
        self.bilm, self.is_frozen = bilm, is_frozen
        self.precision: Precision = "float32"
        self._engine: Engine | None = None
        self._engine_of: tuple[object, ...] = ()  # precision and weights that it was made for
        self._tokens: CpuTokenLayer | None = None
        self._tokens_of: tuple[object, ...] = ()

    def use_precision(self, precision: PrecisionChoice) -> None:
        """Choose the precision; "auto" is bfloat16 where the device has it, else float32."""
        check_precision(precision)
        on_cpu = self._is_on_cpu()
        if precision == "auto":
            precision = "bfloat16" if has_bfloat16() or not on_cpu else "float32"
        if precision == "int8" and not on_cpu:
            raise ConfigError("precision 'int8' is for CPUs; on a GPU choose float32 or bfloat16")
        self.precision = precision

    def read(
        self, x: Tensor, lengths: Tensor, state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """Read token vectors (B, T, P) whose row b is valid up to lengths[b]: see `BiLM.read`."""
        return read_sentences(self._engine_for(x), x, lengths, self.bilm.begin(state, len(x)))

    def read_packed(
        self, rows: Tensor, packing: Packing, state: BiLmState
    ) -> tuple[Outputs, BiLmState]:
        """Read token vectors (2, S, P), packed in each direction's reading order."""
        return self._engine_for(rows).read_packed(rows, packing, state)

    def token_vectors(self, words: Tensor) -> Tensor:
        """Context-free vectors of words, (U, C) or (U,) ids -> (U, P)."""
        layer = self.bilm.token_layer
        if isinstance(layer, CharCnn) and self._is_on_cpu() and self._may_pack(layer):
            wanted = weight_versions(layer)
            if self._tokens is None or self._tokens_of != wanted:
                self._tokens, self._tokens_of = CpuTokenLayer(layer), wanted
            return self._tokens(words)
        found: Tensor = layer(words)
        return found

    def _engine_for(self, x: Tensor) -> Engine:
        if x.requires_grad or not self._may_pack(self.bilm):
            return self.bilm
        wanted = self.precision, *weight_versions(self.bilm)
        if self._engine is None or self._engine_of != wanted:
            self._engine, self._engine_of = self._make_engine(), wanted
        return self._engine

    def _make_engine(self) -> Engine:
        if self._is_on_cpu():
            return CpuEngine(self.bilm, self.precision)
        dtype = torch.float32 if self.precision == "float32" else torch.bfloat16
        return GpuEngine(self.bilm, dtype)

    def _may_pack(self, module: nn.Module) -> bool:
        """Whether an engine may be used: it exists, is enabled, and the weights are frozen."""
        is_trained = not self.is_frozen and any(p.requires_grad for p in module.parameters())
        is_float32 = next(self.bilm.parameters()).dtype == torch.float32
        has_engine = (is_float32 and self._is_on_cpu()) or has_kernels(self.bilm)
        return has_engine and not is_trained and uses_fast_kernels()

    def _is_on_cpu(self) -> bool:
        return next(self.bilm.parameters()).device.type == "cpu"

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but the packed weights, which are made again."""
        return {**self.__dict__, "_engine": None, "_tokens": None}


class Runtime:
    """A biLM with everything that turns lists of words into its layers.

    Args:
        bilm: the model.
        lexicon: its word list, for a model with a word table.
    """

    def __init__(self, bilm: BiLM, lexicon: Lexicon | None) -> None:
        tokens = bilm.config.tokens
        self.bilm, self.lexicon, self.fast = bilm, lexicon, FastBiLM(bilm)
        self.characters = make_characters(tokens) if isinstance(tokens, CharCnnConfig) else None
        if self.characters is None and lexicon is None:
            raise ConfigError("a model with a word table needs its word list, vocab.txt")
        known = words_that_fit(self.device, tokens.width)
        self.memo = WordMemo(bilm.token_layer, self.spell, known, self.fast.token_vectors)

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.bilm.parameters()).device

    def to(self, device: str | torch.device) -> None:
        """Move the model; the memo keeps as many words as fit there."""
        self.bilm.to(usable_device(device))
        self.memo.hold(words_that_fit(self.device, self.bilm.config.tokens.width))

    def spell(self, words: Words) -> Tensor:
        """Ids of words on the model's device: (U, C) characters, or (U,) rows of the table."""
        if self.characters is not None:
            return to_device(self.characters.spell(words), self.device)
        assert self.lexicon is not None
        return to_device(self.lexicon.rows(words), self.device)

    def is_cut(self, word: str) -> bool:
        """Whether the word is longer than the model's character limit, so that its end is lost."""
        return self.characters is not None and self.characters.is_cut(word)

    def batch(self, sentences: Sequence[Words]) -> Batch:
        """Sentences as `BiLM.forward` takes them, boundaries added; use it to get gradients."""
        found = index_words(sentences)
        index = to_device(found.index, self.device)
        return Batch(self.spell(found.words), index, torch.from_numpy(found.lengths))

    @torch.no_grad()
    def layers(
        self, sentences: Sequence[Words], state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """All layers of one batch, boundaries and padding included, and the state after it."""
        x, lengths = self.token_vectors(sentences)  # (B, T, P)
        return self.fast.read(x, lengths, state)

    def token_vectors(self, sentences: Sequence[Words]) -> tuple[Tensor, Tensor]:
        """Vectors of words without their sentence, boundaries added, (B, T, P), and lengths (B,).

        Without gradients; past the end of a sentence they are any.
        """
        found = index_words(sentences)
        vectors = self.memo.vectors(found.words)  # (U, P)
        x = vectors[to_device(found.index, vectors.device)]  # (B, T, P)
        return x, torch.from_numpy(found.lengths)

    def stream(
        self,
        sentences: Iterable[list[str]],
        choose: Callable[[Tensor], Tensor],
        dtype: VectorDtype = "float32",
        batch_tokens: int | None = None,
        batch_sentences: int | None = None,
    ) -> Iterator[AnyVectors]:
        """(..., T, F) of each sentence, lazily: a window of sentences at a time is held.

        Args:
            sentences: as their words.
            choose: (L + 1, B, T, D) -> (..., B, T, F), what is wanted of a batch's layers.
            dtype: of the vectors.
            batch_tokens: padded tokens per batch, boundaries counted; by device unless given.
            batch_sentences: at most that many in a batch.
        """
        kind = "cpu" if self.device.type == "cpu" else "cuda"
        tokens = BATCH_TOKENS[kind] if batch_tokens is None else batch_tokens
        begin = partial(self._begin, choose=choose, dtype=dtype)
        window_tokens = max(WINDOW_TOKENS[kind], tokens)
        for window in in_windows(sentences, lambda words: len(words) + 2, window_tokens):
            lengths = [len(words) + 2 for words in window]
            yield from map_batches(window, plan_batches(lengths, tokens, batch_sentences), begin)

    def _begin(
        self, batch: Sequence[Words], choose: Callable[[Tensor], Tensor], dtype: VectorDtype
    ) -> Callable[[], list[AnyVectors]]:
        """Start a batch, halved where memory is short; the function returned waits for vectors."""
        try:
            return begin_unpacking(choose(self.layers(batch)[0].values), batch, dtype)
        except (MemoryError, RuntimeError) as error:  # torch has no other type for it on a CPU
            if "alloc" not in str(error) and not isinstance(error, MemoryError):
                raise
            if len(batch) == 1:
                raise TextError(
                    f"a sequence of {len(batch[0]):,} tokens does not fit into memory; "
                    f"split long lines"
                ) from error
        half = len(batch) // 2
        parts = [self._begin(part, choose, dtype)() for part in (batch[:half], batch[half:])]
        return lambda: [vectors for part in parts for vectors in part]


def unpack_layers(
    values: Tensor, sentences: Sequence[Words], dtype: VectorDtype = "float32"
) -> list[AnyVectors]:
    """(..., B, T, D) of a padded batch -> (..., T, D) of each sentence, without its boundaries."""
    return begin_unpacking(values, sentences, dtype)()


def begin_unpacking(
    values: Tensor, sentences: Sequence[Words], dtype: VectorDtype
) -> Callable[[], list[AnyVectors]]:
    """Start `unpack_layers`; the function returned waits for the vectors."""
    wait = begin_host_copy(values.to(torch.float16 if dtype == "float16" else torch.float32))
    lengths = [len(sentence) for sentence in sentences]

    def copies(array: NDArray[np.generic], rows: Iterable[int]) -> list[AnyVectors]:
        found = [array[..., b, 1 : lengths[b] + 1, :].copy() for b in rows]
        if dtype == "float16" and any(np.isinf(each).any() for each in found):
            raise ConfigError(
                "the model gives values beyond ±65,504, the range of float16; ask for float32, or "
                "check whether the model is damaged"
            )
        return found

    if values.is_cuda:  # a GPU makes vectors faster than one thread copies them
        return lambda: in_threads(partial(copies, wait()), len(lengths))
    found = copies(wait(), range(len(lengths)))
    return lambda: found  # already copied: the batch's tensors can be freed before the next
