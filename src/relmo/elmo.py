"""READ FIRST: text in, contextual vectors out.

    elmo = Elmo.from_pretrained(folder)
    elmo.embed([["The", "bank"]])      list of (L + 1, T, D): every layer of every token
    elmo.encode(["The bank."])         (1, D): one vector per text
    elmo.sense_vectors([["The", "bank"]])    list of (T, P + L D): to compare a word's senses

The way of a sentence: words -> `WordMemo` (each distinct word through the char CNN once)
-> `BiLM.read` (two language models) -> layers without the boundaries. A sentence's vectors depend
on that sentence and the model alone: state starts afresh for each, unless one is handed in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from relmo.config import CharCnnConfig, ElmoConfig, Start
from relmo.errors import ConfigError, TextError
from relmo.kernels.cpu_products import Precision
from relmo.kernels.device import to_device
from relmo.language_model import LanguageModel
from relmo.layers import LayerChoice, check_layers, check_one_layer, choose_layers
from relmo.nn.bilm import BiLM, initialize
from relmo.nn.lm_head import LmHead
from relmo.progress import progress
from relmo.runtime.choice import check_dtype, split_layers
from relmo.runtime.pooling import Pooling, check_pooling, normalize, pool
from relmo.runtime.reader import PrecisionChoice, Reader, check_precision
from relmo.runtime.senses import sense_vectors
from relmo.runtime.stream import BATCH_TOKENS, WINDOW_TOKENS, Stream
from relmo.runtime.word_memo import WordMemo, words_that_fit
from relmo.text.batches import index_words
from relmo.text.characters import make_characters
from relmo.text.lexicon import Lexicon
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import Sentence, check_sentences, make_tokenizer, words_of
from relmo.types import Batch, BiLmState, Layers, Token, VectorDtype, Vectors
from relmo.weights.find import UNTRAINED, read_model, small_config
from relmo.weights.native import Native
from relmo.weights.tensors import ModelFiles, Storage, build_bilm, tensors_of

NOT_SHAPING = ("name", "licence", "training", "official")
"""Settings that change no vector."""


class Elmo:
    """A pretrained biLM with everything around it that turns text into vectors."""

    def __init__(
        self,
        bilm: BiLM,
        lexicon: Lexicon | None = None,
        lm_head: Callable[[], dict[str, Tensor]] | None = None,
    ) -> None:
        self.config: ElmoConfig = bilm.config
        self._lm_head = lm_head
        self._lm: LanguageModel | None = None
        self.bilm = bilm.eval().requires_grad_(False)  # ElmoLayer(finetune=True) thaws it
        self.lexicon = lexicon
        self.tokenizer = make_tokenizer(self.config.tokenizer)
        tokens = self.config.tokens
        self.characters = make_characters(tokens) if isinstance(tokens, CharCnnConfig) else None
        if self.characters is None and lexicon is None:
            raise ConfigError("a model with a word table needs its word list, vocab.txt")
        self.reader = Reader(self.bilm)
        known = words_that_fit(self.device, tokens.width)
        self.memo = WordMemo(bilm.token_layer, self.spell, known, self.reader.token_vectors)

    # ── making and keeping ──────────────────────────────────────────────────────────────────

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        precision: PrecisionChoice = "float32",
        device: str | torch.device | None = None,
        start: Start | None = None,
    ) -> Self:
        """Load a model by the name of an installed one or by its folder, in any known layout.

        Args:
            name: a folder, an installed model's name, or "relmo-untrained".
            precision: of the LSTMs' products, on a CPU: "float32" is exact, "bfloat16" and "int8"
                are faster; "auto" is bfloat16 where the CPU has it, else float32.
            device: where to run; a CUDA device if there is one, else the CPU, unless given.
            start: "zero" or "stored", for a model that carries a start state; its own choice
                unless given.
        """
        check_precision(precision)
        files = read_model(name)
        elmo = cls(build_bilm(files), files.lexicon, files.lm_head)
        if start is not None:
            elmo.use_start(start)
        elmo.to(device if device is not None else _best_device())
        elmo.reader.use(precision)
        return elmo

    @classmethod
    def untrained(cls, config: ElmoConfig | None = None, seed: int = 0) -> Self:
        """A model with random weights: to try things out, to test, to start training from."""
        return cls(initialize(BiLM(config or small_config()), seed))

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        storage: Storage = "float32",
        shard_bytes: int | None = None,
    ) -> None:
        """Write the model in relmo's native layout, with its softmax where it carries one.

        Args:
            folder: made if it is not there; a model that is there is replaced.
            storage: "int8" takes a quarter of the room; matrices are rounded to 8 bits per row.
            shard_bytes: a file of weights has this many bytes at most; None sets no bound.
        """
        Native().write(Path(folder), self.files(), shard_bytes, storage)

    def files(self) -> ModelFiles:
        """The model as formats take it."""
        return ModelFiles(self.config, dict(tensors_of(self.bilm)), self.lexicon, self._lm_head)

    def fingerprint(self) -> str:
        """A checksum of all that decides a vector: equal for equal models, whatever their files."""
        settings = self.config.to_dict()
        shaping = {k: v for k, v in settings.items() if k not in NOT_SHAPING}
        choices = [self.bilm.start, *([] if self.precision == "float32" else [self.precision])]
        digest = hashlib.sha256(json.dumps([shaping, *choices], sort_keys=True).encode())
        for name, tensor in sorted(tensors_of(self.bilm)):
            digest.update(name.encode())
            digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()

    def to(self, device: str | torch.device) -> Self:
        """Move the model; gives itself back."""
        self.bilm.to(device)
        self._lm = None
        self.memo.hold(words_that_fit(self.device, self.config.tokens.width))
        return self

    def use_start(self, start: Start) -> None:
        """Choose the state before a sentence."""
        known = ("zero", "stored") if self.config.has_start_state else ("zero",)
        if start not in known:
            has = "'zero' and 'stored'" if len(known) == 2 else "'zero' alone"
            raise ConfigError(f"start is {start!r}; this model has {has}")
        self.bilm.start = start

    @property
    def has_lm(self) -> bool:
        """Whether the model carries its softmax, so that `lm` can be asked."""
        return self._lm_head is not None and self.lexicon is not None

    @property
    def lm(self) -> LanguageModel:
        """The two language models with their softmax, where the model carries it."""
        if self._lm_head is None or self.lexicon is None:
            raise ConfigError(
                "this model carries no softmax (lm_head.safetensors, vocab.txt): it embeds, but "
                "cannot score or fill in words"
            )
        if self._lm is None:
            tensors = self._lm_head()
            with torch.device("meta"):
                head = LmHead(*tensors["weight"].shape)
            head.load_state_dict(tensors, assign=True)
            head = head.to(self.device).requires_grad_(False)
            self._lm = LanguageModel(self.bilm, head, self.lexicon, self.memo.vectors)
        return self._lm

    @property
    def precision(self) -> Precision:
        """Of the LSTMs' products."""
        return self.reader.precision

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.bilm.parameters()).device

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.bilm.parameters())
        name = self.config.name or "unnamed"
        shape = f"{self.config.num_layers} layers of width {self.config.width}"
        note = ", random weights" if self.config.name == UNTRAINED else ""
        where = f"{self.device} in {self.precision}"
        return f"Elmo({name}, {shape}, {count / 1e6:.1f} M parameters, {where}{note})"

    # ── text ────────────────────────────────────────────────────────────────────────────────

    def tokens(self, text: str) -> list[Token]:
        """Tokens of a text with their character offsets, by the model's own tokenizer."""
        return self.tokenizer.tokens(text)

    def words(self, sentences: Iterable[Sentence]) -> Iterator[list[str]]:
        """The words of each sequence: strings split by the tokenizer, token lists checked."""
        check_sentences(sentences)
        return (words_of(each, i, self.tokenizer) for i, each in enumerate(sentences))

    def sentences(self, lines: Iterable[str]) -> list[list[str]]:
        """The sentences of a document's lines, each as the words of the model's own tokenizer."""
        return [
            [token.text for token in self.tokens(line[start:end])]
            for line in lines
            for start, end in split_sentences(line)
        ]

    def spell(self, words: Sequence[str]) -> Tensor:
        """Ids of words on the model's device: (U, C) characters, or (U,) rows of the table."""
        if self.characters is not None:
            ids = self.characters.spell(words)
        else:
            assert self.lexicon is not None
            ids = self.lexicon.rows(words)
        return to_device(ids, self.device)

    def is_cut(self, word: str) -> bool:
        """Whether the word is longer than the model's character limit, so that its end is lost."""
        return self.characters is not None and self.characters.is_cut(word)

    def batch(self, sentences: Sequence[Sequence[str]]) -> Batch:
        """Tokenised sentences as `bilm` takes them, boundaries added: the way to gradients."""
        found = index_words(sentences)
        return Batch(
            words=self.spell(found.words),
            index=to_device(found.index, self.device),
            lengths=torch.from_numpy(found.lengths),
        )

    # ── vectors ─────────────────────────────────────────────────────────────────────────────

    def embed(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayerChoice = "all",
        dtype: VectorDtype = "float32",
        batch_tokens: int | None = None,
        show_progress_bar: bool = False,
    ) -> list[Vectors]:
        """Vectors of each token of each sentence, in order.

        Args:
            sentences: token lists, or strings: one sequence each.
            layers: "all" gives (L + 1, T, D) per sentence; "mean", "top" or a number give (T, D).
            dtype: of the vectors; "float16" halves their room and what leaves a GPU.
            batch_tokens: padded tokens per batch; what suits the device unless given.
            show_progress_bar: on standard error.
        """
        check_sentences(sentences)
        items = list(sentences)
        stream = self.embed_stream(items, layers=layers, dtype=dtype, batch_tokens=batch_tokens)
        return list(progress(stream, len(items), "sentences", show_progress_bar))

    def embed_stream(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayerChoice = "all",
        dtype: VectorDtype = "float32",
        batch_tokens: int | None = None,
        batch_sentences: int | None = None,
    ) -> Iterator[Vectors]:
        """Like embed, lazily: a window of sentences at a time is held, and results keep order."""
        check_layers(layers, self.config.num_layers)
        check_dtype(dtype)
        choose = partial(choose_layers, layers=layers)
        return self._stream(sentences, choose, dtype, batch_tokens, batch_sentences)

    def sense_vectors(
        self,
        sentences: Iterable[Sentence],
        *,
        dtype: VectorDtype = "float32",
        batch_tokens: int | None = None,
        show_progress_bar: bool = False,
    ) -> list[Vectors]:
        """Vectors (T, P + L D) whose cosines tell the senses of a word apart: see nn/senses.py.

        For comparing places where one word stands. Arguments are those of `embed`.
        """
        check_sentences(sentences)
        check_dtype(dtype)
        items = list(sentences)
        stream = self._stream(items, sense_vectors, dtype, batch_tokens)
        return list(progress(stream, len(items), "sentences", show_progress_bar))

    def _stream(
        self,
        sentences: Iterable[Sentence],
        choose: Callable[[Tensor], Tensor],
        dtype: VectorDtype,
        batch_tokens: int | None,
        batch_sentences: int | None = None,
    ) -> Iterator[Vectors]:
        """What `choose` makes of the layers (L + 1, B, T, D) of batches, sentence by sentence."""
        kind = "cpu" if self.device.type == "cpu" else "cuda"
        tokens = BATCH_TOKENS[kind] if batch_tokens is None else batch_tokens
        stream = Stream(lambda batch: self.layers(batch)[0].values, choose, dtype)
        window = max(WINDOW_TOKENS[kind], tokens)
        return stream.vectors(self.words(sentences), tokens, window, batch_sentences)

    def read(
        self, sentences: Sequence[Sentence], state: BiLmState | None = None
    ) -> tuple[list[Vectors], BiLmState]:
        """Vectors (L + 1, T, D) of one batch, and the state after it.

        For running text: hand the state in again, and each row reads on where it stopped. Without
        a state every sentence starts afresh.
        """
        words = list(self.words(sentences))
        found, state = self.layers(words, state)
        return split_layers(found.values, words), state

    @torch.no_grad()
    def layers(
        self, sentences: Sequence[Sequence[str]], state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """All layers of one batch of token lists as tensors, boundaries and padding included."""
        found = index_words(sentences)
        vectors = self.memo.vectors(found.words)  # (U, P)
        x = vectors[to_device(found.index, vectors.device)]  # (B, T, P)
        return self.reader.read(x, torch.from_numpy(found.lengths), state)

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        layer: Literal["mean", "top"] | int = "mean",
        pooling: Pooling = "mean",
        batch_size: int = 32,
        normalize_embeddings: bool = False,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
    ) -> Vectors | Tensor:
        """One vector per text, (N, D); (D,) for a single string.

        A text of several sentences is split, each sentence is embedded alone, and all their tokens
        are pooled. A text without words gives zeros.

        Args:
            texts: one string or many.
            layer: "mean" of all layers, "top", or a layer's number.
            pooling: how the tokens of a text become one vector.
            batch_size: sentences per batch at most.
            normalize_embeddings: scale each vector to length one.
            show_progress_bar: on standard error; None shows none.
            convert_to_tensor: give a torch tensor on the model's device instead of numpy.
        """
        check_one_layer(layer, self.config.num_layers)
        check_pooling(pooling)
        many = [texts] if isinstance(texts, str) else list(texts)
        parts = [_sentences_of(text, number) for number, text in enumerate(many)]
        stream = self.embed_stream(
            (sentence for text in parts for sentence in text),
            layers=layer,
            batch_sentences=batch_size,
        )
        result = np.zeros((len(many), self.config.width), dtype=np.float32)  # (N, D)
        pairs = zip(result, parts, strict=True)
        for row, sentences in progress(pairs, len(many), "texts", bool(show_progress_bar)):
            tokens = [next(stream) for _ in sentences]  # each (T, D)
            row[:] = pool(np.concatenate(tokens) if tokens else result[:0], pooling)
        if normalize_embeddings:
            result = normalize(result)
        result = result[0] if isinstance(texts, str) else result
        return torch.from_numpy(result).to(self.device) if convert_to_tensor else result


def _sentences_of(text: str, number: int) -> list[str]:
    if not isinstance(text, str):
        raise TextError(
            f"text {number} is {type(text).__name__}; encode takes strings (for token lists use "
            f"embed)"
        )
    return [text[start:end] for start, end in split_sentences(text)]


def _best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
