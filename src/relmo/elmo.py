"""READ FIRST: text in, contextual vectors out.

    elmo = Elmo.from_pretrained(folder)
    elmo.embed([["The", "bank"]])      list of (L + 1, T, D): every layer of every token
    elmo.encode(["The bank."])         (1, D): one vector per text

The way of a sentence: words -> `WordMemo` (each distinct word through the char CNN once)
-> `BiLM.read` (two language models) -> layers without the boundaries. A sentence's vectors depend
on that sentence and the model alone: state starts afresh for each, unless one is handed in.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, Start
from relmo.errors import ConfigError, TextError, TextWarning
from relmo.nn.bilm import BiLM, initialize
from relmo.nn.pooling import Pooling, normalize, pool
from relmo.nn.word_memo import WordMemo
from relmo.progress import progress
from relmo.text.batches import in_windows, index_words, map_batches, plan_batches
from relmo.text.characters import make_characters
from relmo.text.lexicon import Lexicon
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import make_tokenizer
from relmo.types import Batch, BiLmState, Layers, Token
from relmo.weights.find import find_model
from relmo.weights.layouts import detect
from relmo.weights.native import Native
from relmo.weights.tensors import ModelFiles, build_bilm, tensors_of

Vectors = NDArray[np.float32]
Sentence = str | Sequence[str]
"""One sequence: a string, which the model's tokenizer splits, or a list of tokens."""
LayerChoice = Literal["all", "mean", "top"] | int

UNTRAINED = "relmo-untrained"
"""Name of a model with the official small shapes and random weights, made on the spot."""
BATCH_TOKENS = 2048
"""Padded tokens per batch: bounds memory."""
WINDOW_TOKENS = 4 * BATCH_TOKENS
"""Tokens of a stream that are sorted by length together: bounds memory, fills batches."""
MEMO_BYTES = 64 * 2**20
"""Memory for the vectors of recently used words."""


class Elmo:
    """A pretrained biLM with everything around it that turns text into vectors."""

    def __init__(self, bilm: BiLM, lexicon: Lexicon | None = None) -> None:
        self.config: ElmoConfig = bilm.config
        self.bilm = bilm.eval()
        self.lexicon = lexicon
        self.tokenizer = make_tokenizer(self.config.tokenizer)
        tokens = self.config.tokens
        self.characters = make_characters(tokens) if isinstance(tokens, CharCnnConfig) else None
        if self.characters is None and lexicon is None:
            raise ConfigError("a model with a word table needs its word list, vocab.txt")
        self.memo = WordMemo(bilm.token_layer, self.spell, MEMO_BYTES // (4 * tokens.width))

    # ── making and keeping ──────────────────────────────────────────────────────────────────

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        precision: Literal["float32"] = "float32",
        device: str | torch.device | None = None,
        start: Start | None = None,
    ) -> Self:
        """Load a model by the name of an installed one or by its folder, in any known layout.

        Args:
            name: a folder, an installed model's name, or "relmo-untrained".
            precision: of the arithmetic.
            device: where to run; a CUDA device if there is one, else the CPU, unless given.
            start: "zero" ignores a start state that the model carries.
        """
        if precision != "float32":
            raise ConfigError(f"precision {precision!r} is not known; this release has 'float32'")
        if name == UNTRAINED:
            elmo = cls.untrained()
        else:
            folder = find_model(name)
            files = detect(folder).read(folder)
            elmo = cls(build_bilm(files), files.lexicon)
        if start is not None:
            elmo.use_start(start)
        return elmo.to(device if device is not None else _best_device())

    @classmethod
    def untrained(cls, config: ElmoConfig | None = None, seed: int = 0) -> Self:
        """A model with random weights: to try things out, to test, to start training from."""
        if config is None:
            config = ElmoConfig(
                name=UNTRAINED,
                tokens=CharCnnConfig(width=128, num_highways=1),
                lstm=LstmConfig(cell_width=1024, output_width=128),
            )
        return cls(initialize(BiLM(config), seed))

    def save_pretrained(self, folder: str | Path, *, shard_bytes: int | None = None) -> None:
        """Write the model in relmo's native layout."""
        Native().write(Path(folder), self.files(), shard_bytes)

    def files(self) -> ModelFiles:
        """The model as formats take it."""
        return ModelFiles(self.config, dict(tensors_of(self.bilm)), self.lexicon)

    def fingerprint(self) -> str:
        """A checksum of all weights: equal for equal models, whatever file they came from."""
        digest = hashlib.sha256()
        for name, tensor in sorted(tensors_of(self.bilm)):
            digest.update(name.encode())
            digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()

    def to(self, device: str | torch.device) -> Self:
        """Move the model; gives itself back."""
        self.bilm.to(device)
        return self

    def use_start(self, start: Start) -> None:
        """Choose the state before a sentence."""
        if start == "stored" and self.config.start == "zero":
            raise ConfigError("this model carries no start state; use start='zero'")
        self.bilm.start = start

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.bilm.parameters()).device

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.bilm.parameters())
        name = self.config.name or "unnamed"
        shape = f"{self.config.num_layers} layers of width {self.config.width}"
        note = ", random weights" if self.config.name == UNTRAINED else ""
        return f"Elmo({name}, {shape}, {count / 1e6:.1f} M parameters, {self.device}{note})"

    # ── text ────────────────────────────────────────────────────────────────────────────────

    def tokens(self, text: str) -> list[Token]:
        """Tokens of a text with their character offsets, by the model's own tokenizer."""
        return self.tokenizer.tokens(text)

    def words(self, sentence: Sentence, number: int = 0) -> list[str]:
        """The words of one sequence; `number` is its place in the input, for messages."""
        if isinstance(sentence, str):
            return [token.text for token in self.tokens(sentence)]
        words = list(sentence)
        for position, word in enumerate(words):
            if not isinstance(word, str):
                raise TextError(
                    f"sentence {number}, token {position} is {type(word).__name__} {word!r}; "
                    f"a sentence is a string or a list of strings"
                )
        spaced = next((word for word in words if len(word.split()) > 1), None)
        if spaced is not None:
            warnings.warn(
                f"sentence {number}: {spaced!r} holds a space and counts as one token; pass the "
                f"text as a string to have it split, or split it yourself",
                TextWarning,
                stacklevel=4,
            )
        return words

    def spell(self, words: Sequence[str]) -> Tensor:
        """Ids of words on the model's device: (U, C) characters, or (U,) rows of the table."""
        if self.characters is not None:
            ids = self.characters.spell(words)
        else:
            assert self.lexicon is not None
            ids = self.lexicon.rows(words)
        return torch.from_numpy(ids).to(self.device)

    def is_cut(self, word: str) -> bool:
        """Whether the word is longer than the model's character limit, so that its end is lost."""
        return self.characters is not None and self.characters.is_cut(word)

    def batch(self, sentences: Sequence[Sequence[str]]) -> Batch:
        """Tokenised sentences as the biLM takes them, boundaries added."""
        found = index_words(sentences)
        return Batch(
            words=self.spell(found.words),
            index=torch.from_numpy(found.index).to(self.device),
            lengths=torch.from_numpy(found.lengths),
        )

    # ── vectors ─────────────────────────────────────────────────────────────────────────────

    def embed(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayerChoice = "all",
        batch_tokens: int = BATCH_TOKENS,
        show_progress_bar: bool = False,
    ) -> list[Vectors]:
        """Vectors of each token of each sentence, in order.

        Args:
            sentences: token lists, or strings: one sequence each.
            layers: "all" gives (L + 1, T, D) per sentence; "mean", "top" or a number give (T, D).
            batch_tokens: padded tokens per batch.
            show_progress_bar: on standard error.
        """
        if isinstance(sentences, str):
            raise TextError(
                "embed takes a list of sentences and got one string; write embed([text])"
            )
        items = list(sentences)
        stream = self.embed_stream(items, layers=layers, batch_tokens=batch_tokens)
        return list(progress(stream, len(items), "sentences", show_progress_bar))

    def embed_stream(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayerChoice = "all",
        batch_tokens: int = BATCH_TOKENS,
        batch_sentences: int | None = None,
    ) -> Iterator[Vectors]:
        """Like embed, lazily and in bounded memory: a window of sentences at a time, in order."""
        choose = _chooser(layers, self.config.num_layers)
        words = (self.words(sentence, number) for number, sentence in enumerate(sentences))
        window_tokens = max(WINDOW_TOKENS, batch_tokens)
        for window in in_windows(words, lambda sentence: len(sentence) + 2, window_tokens):
            lengths = [len(sentence) + 2 for sentence in window]
            plan = plan_batches(lengths, batch_tokens, batch_sentences)
            yield from map_batches(
                window, plan, lambda batch: [choose(v) for v in self.read(batch)[0]]
            )

    @torch.no_grad()
    def read(
        self, sentences: Sequence[Sequence[str]], state: BiLmState | None = None
    ) -> tuple[list[Vectors], BiLmState]:
        """Vectors (L + 1, T, D) of one batch of token lists, and the state after it.

        For running text: hand the state in again, and each row reads on where it stopped. Without
        a state every sentence starts afresh.
        """
        found, state = self.layers(sentences, state)
        values = found.values.float().cpu().numpy()  # (L + 1, B, T, D)
        each = [values[:, b, 1 : len(s) + 1].copy() for b, s in enumerate(sentences)]
        return each, state

    def layers(
        self, sentences: Sequence[Sequence[str]], state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """All layers of one batch of token lists as tensors, boundaries and padding included."""
        found = index_words(sentences)
        vectors = self.memo.vectors(found.words)  # (U, P)
        x = vectors[torch.from_numpy(found.index).to(vectors.device)]  # (B, T, P)
        result: tuple[Layers, BiLmState] = self.bilm.read(x, torch.from_numpy(found.lengths), state)
        return result

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
        many = [texts] if isinstance(texts, str) else list(texts)
        for number, text in enumerate(many):
            if not isinstance(text, str):
                raise TextError(
                    f"text {number} is {type(text).__name__}; encode takes strings (for token "
                    f"lists use embed)"
                )
        parts = [[text[a:b] for a, b in split_sentences(text)] for text in many]
        stream = self.embed_stream(
            (sentence for text in parts for sentence in text),
            layers=layer,
            batch_sentences=batch_size,
        )
        result = np.zeros((len(many), self.config.width), dtype=np.float32)  # (N, D)
        pairs = progress(
            zip(result, parts, strict=True), len(many), "texts", bool(show_progress_bar)
        )
        for row, sentences in pairs:
            tokens = [next(stream) for _ in sentences]  # each (T, D)
            row[:] = pool(np.concatenate(tokens) if tokens else result[:0], pooling)
        if normalize_embeddings:
            result = normalize(result)
        result = result[0] if isinstance(texts, str) else result
        return torch.from_numpy(result).to(self.device) if convert_to_tensor else result


def _chooser(layers: LayerChoice, num_layers: int) -> Callable[[Vectors], Vectors]:
    """A function from all layers (L + 1, T, D) to those asked for."""
    if layers == "all":
        return lambda values: values
    if layers == "mean":
        return lambda values: values.mean(0, dtype=np.float32)
    index = num_layers - 1 if layers == "top" else layers
    if not isinstance(index, int) or not 0 <= index < num_layers:
        raise ConfigError(
            f"layer {layers!r} is not there; choose 0 to {num_layers - 1}, 'mean', 'top' or 'all'"
        )
    return lambda values: values[index]


def _best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
