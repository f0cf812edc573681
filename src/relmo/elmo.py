"""READ FIRST: text in, contextual vectors out.

    elmo = Elmo.from_pretrained("relmo-en-small")
    elmo.embed([["The", "bank"]])            list of (L + 1, T, D): every layer of every token
    elmo.encode(["The bank."])               (1, D): one vector per text
    elmo.similarity("The bank.", "A loan.")  the cosine of their vectors
    elmo.compare("bank", sentences)          a word's places and the cosines of its senses there
    elmo.sense_vectors([["The", "bank"]])    list of (T, P + L D): the vectors that compares
    elmo.lm.score([["The", "bank"]])         log-probabilities, by models that include the softmax

Data flow: `text` splits a sentence into words, `runtime` looks up or computes their token vectors
and runs the two language models, and the layers come back without the boundaries. A sentence's
vectors depend on that sentence and the model alone: each starts anew unless a state is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypedDict, Unpack, cast, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.config import ElmoConfig, Start, check_choice
from relmo.errors import ConfigError, TextError
from relmo.kernels.cpu_products import Precision
from relmo.layers import (
    LayerChoice,
    OneLayer,
    check_layers,
    check_one_layer,
    choose_layers,
    name_layers,
    sense_vectors,
)
from relmo.lm.language_model import LanguageModel
from relmo.nn.bilm import BiLM, initialize
from relmo.nn.lm_head import LmHead
from relmo.progress import progress
from relmo.runtime.pooling import Pooling, normalize, pool
from relmo.runtime.runtime import (
    AnyVectors,
    PrecisionChoice,
    Runtime,
    check_precision,
    unpack_layers,
)
from relmo.text.lexicon import Lexicon
from relmo.text.places import WordComparison, find_places
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import (
    Sentence,
    check_sentences,
    how_to_list,
    is_missing,
    make_tokenizer,
    tokenized,
)
from relmo.types import BiLmState, Token, VectorDtype, Vectors
from relmo.weights.find import UNTRAINED, read_model, small_config
from relmo.weights.native import Native
from relmo.weights.tensors import ModelFiles, Storage, build_bilm, tensors_of

HalfVectors = NDArray[np.float16]


class EmbedOptions(TypedDict, total=False):
    """Arguments of `Elmo.embed`, except the dtype, which decides its return type."""

    layers: LayerChoice
    batch_tokens: int | None
    show_progress_bar: bool


class EncodeOptions(TypedDict, total=False):
    """Arguments of `Elmo.encode`, except those that decide its return type."""

    layers: OneLayer | None
    pooling: Pooling
    batch_size: int
    normalize_embeddings: bool
    show_progress_bar: bool | None
    layer: OneLayer | None


class Elmo:
    """A pretrained biLM with everything around it that turns text into vectors.

    `config` holds its settings; `num_layers` counts its layers, the token layer included; `width`
    is D, the width of a token, both directions together; `bilm` is the PyTorch module, `lexicon`
    its word list if it has one, `tokenizer` splits strings, and `runtime` batches and runs it.
    """

    def __init__(
        self,
        bilm: BiLM,
        lexicon: Lexicon | None = None,
        lm_head: Callable[[], dict[str, Tensor]] | None = None,
    ) -> None:
        if not isinstance(bilm, BiLM):
            raise ConfigError(
                f"Elmo(...) expects a BiLM, got {bilm!r:.80}; to load a model by its name or "
                f"folder, use Elmo.from_pretrained(...)"
            )
        self.config: ElmoConfig = bilm.config
        self.num_layers, self.width = self.config.num_layers, self.config.width
        self.bilm = bilm.eval().requires_grad_(False)  # ElmoLayer(finetune=True) changes that
        self.lexicon = lexicon
        self.tokenizer = make_tokenizer(self.config.tokenizer)
        self.runtime = Runtime(self.bilm, lexicon)
        self._lm_head = lm_head
        self._lm: LanguageModel | None = None

    # ── load and save ───────────────────────────────────────────────────────────────────────────

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        precision: PrecisionChoice = "float32",
        device: str | torch.device | None = None,
        start: Start | None = None,
        verify: bool = True,
    ) -> Self:
        """Load a model by the name of an installed one or by its folder, in any known layout.

        Args:
            name: a folder, an installed model's name, or "relmo-untrained".
            precision: of the LSTMs' matrix products: "float32" is exact, "bfloat16" and, on a CPU,
                "int8" are faster; "auto" is bfloat16 if the device supports it, else float32.
            device: where to run; by default a CUDA device if there is one, else the CPU.
            start: "zero" or "stored", the state before a sentence, for a model that stores one; the
                model's own choice by default.
            verify: compare the files with their recorded checksums. False loads a damaged or edited
                model nevertheless; what it then computes is not checked.
        """
        check_precision(precision)
        files = read_model(name, verify=verify)
        bilm = build_bilm(files)
        if start is not None:
            known = ("zero", "stored") if files.config.has_start_state else ("zero",)
            check_choice("start", start, known)
            bilm.start = start
        elmo = cls(bilm, files.lexicon, files.lm_head)
        elmo.to(device if device is not None else _best_device())
        elmo.runtime.fast.use_precision(precision)
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
        """Write the model in relmo's native layout, with its softmax if it has one.

        Args:
            folder: created if needed; a model in it is replaced.
            storage: "int8" takes a quarter of the space; matrices are rounded to 8 bits per row.
            shard_bytes: largest size of one file of weights; None sets no bound.
        """
        Native().write(Path(folder), self._files(), shard_bytes, storage)

    def _files(self) -> ModelFiles:
        """The model as the `ModelFiles` that formats write."""
        return ModelFiles(self.config, dict(tensors_of(self.bilm)), self.lexicon, self._lm_head)

    def fingerprint(self, precision: Precision | None = None) -> str:
        """A checksum of everything that affects vectors: equal for equal models in any layout.

        With `precision`, that of the same weights in this precision.
        """
        return self._files().fingerprint(self.bilm.start, precision or self.precision)

    def to(self, device: str | torch.device) -> Self:
        """Move the model to a device; returns itself."""
        before = self.device
        self.runtime.to(device)
        if self.device != before:
            self._lm = None  # its softmax is read anew, onto the device
        return self

    # ── properties ──────────────────────────────────────────────────────────────────────────────

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.runtime.device

    @property
    def precision(self) -> Precision:
        """Precision of the LSTMs' products."""
        return self.runtime.fast.precision

    @property
    def has_lm(self) -> bool:
        """Whether the model stores its softmax, so that `lm` can be used."""
        return self._lm_head is not None and self.lexicon is not None

    @property
    def lm(self) -> LanguageModel:
        """The two language models with their softmax, if the model stores it."""
        if self._lm_head is None or self.lexicon is None:
            raise ConfigError(
                "this model has no softmax (lm_head.safetensors, vocab.txt): it can embed, but not "
                "score or fill in words"
            )
        if self._lm is None:
            tensors = self._lm_head()
            with torch.device("meta"):
                head = LmHead(*tensors["weight"].shape)
            head.load_state_dict(tensors, assign=True)
            head = head.to(self.device).requires_grad_(False)
            self._lm = LanguageModel(self.runtime, head, self.lexicon, self.tokenizer)
        return self._lm

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.bilm.parameters())
        name = self.config.name or "unnamed"
        shape = f"{self.config.num_layers} layers of width {self.config.width}"
        note = ", random weights" if self.config.name == UNTRAINED else ""
        where = f"{self.device} in {self.precision}"
        return f"Elmo({name}, {shape}, {count / 1e6:.1f} M parameters, {where}{note})"

    # ── text ────────────────────────────────────────────────────────────────────────────────────

    def tokens(self, text: str) -> list[Token]:
        """Tokens of a text with their character offsets, by the model's own tokenizer."""
        return self.tokenizer.tokens(text)

    def sentences(self, lines: Iterable[str]) -> list[list[str]]:
        """The sentences of a document's lines, each as the words of the model's own tokenizer."""
        return [
            [token.text for token in self.tokens(line[start:end])]
            for line in lines
            for start, end in split_sentences(line)
        ]

    # ── vectors ─────────────────────────────────────────────────────────────────────────────────

    @overload
    def embed(
        self,
        sentences: Iterable[Sentence],
        *,
        dtype: Literal["float32"] = "float32",
        **options: Unpack[EmbedOptions],
    ) -> list[Vectors]: ...

    @overload
    def embed(
        self,
        sentences: Iterable[Sentence],
        *,
        dtype: Literal["float16"],
        **options: Unpack[EmbedOptions],
    ) -> list[HalfVectors]: ...

    def embed(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayerChoice = "all",
        dtype: VectorDtype = "float32",
        batch_tokens: int | None = None,
        show_progress_bar: bool = False,
    ) -> list[Vectors] | list[HalfVectors]:
        """Vectors of each token of each sentence, in order; an empty sentence gives (L + 1, 0, D).

        Args:
            sentences: token lists, or strings: one sequence each.
            layers: "all" gives (L + 1, T, D) per sentence; "mean", "top", "bottom" (the mean of
                layers 0 and 1) or a layer number give (T, D).
            dtype: of the vectors; "float16" halves memory and GPU-to-host traffic, and is refused
                where a value is beyond its range, ±65,504.
            batch_tokens: padded tokens per batch; by default what suits the device.
            show_progress_bar: on standard error.
        """
        check_sentences(sentences)
        items = list(sentences)
        stream = self.embed_stream(items, layers=layers, dtype=dtype, batch_tokens=batch_tokens)
        return _collect(stream, len(items), show_progress_bar)

    def embed_stream(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayerChoice = "all",
        dtype: VectorDtype = "float32",
        batch_tokens: int | None = None,
        batch_sentences: int | None = None,
    ) -> Iterator[AnyVectors]:
        """Lazy `embed`: holds one window of sentences in memory; yields results in input order."""
        check_layers(layers, self.num_layers)
        if dtype != "float32":
            check_choice("dtype", dtype, get_args(VectorDtype))
        choose = partial(choose_layers, layers=layers)
        words = self._watched(sentences)
        return self.runtime.stream(words, choose, dtype, batch_tokens, batch_sentences)

    def sense_vectors(
        self,
        sentences: Iterable[Sentence],
        *,
        dtype: VectorDtype = "float32",
        batch_tokens: int | None = None,
        show_progress_bar: bool = False,
    ) -> list[Vectors]:
        """Unit-length vectors (T, P + L D) whose cosines, `a @ b`, tell a word's senses apart.

        For comparing places where the same word stands: see `relmo.layers.sense_vectors`, and
        `compare`, which finds the word by itself. Arguments are those of `embed`.
        """
        check_sentences(sentences)
        if dtype != "float32":
            check_choice("dtype", dtype, get_args(VectorDtype))
        items = list(sentences)
        stream = self.runtime.stream(self._watched(items), sense_vectors, dtype, batch_tokens)
        return _collect(stream, len(items), show_progress_bar)

    def _watched(self, sentences: Iterable[Sentence]) -> Iterator[list[str]]:
        """The words of each sentence; warns, once, of a script that the model does not know."""
        words = tokenized(sentences, self.tokenizer)
        return words if self.lexicon is None else self.lexicon.watch(words)

    def read(
        self, sentences: Sequence[Sentence], state: BiLmState | None = None
    ) -> tuple[list[Vectors], BiLmState]:
        """Vectors (L + 1, T, D) of one batch, and the state after it.

        For running text: pass the state in again, and each row reads on where it stopped. Without a
        state every sentence starts anew.
        """
        words = list(tokenized(sentences, self.tokenizer))
        found, state = self.runtime.layers(words, state)
        return unpack_layers(found.values, words), state

    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        convert_to_numpy: Literal[True] = True,
        convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodeOptions],
    ) -> Vectors: ...

    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        convert_to_numpy: bool = True,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...

    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        convert_to_numpy: bool,
        convert_to_tensor: bool = False,
        **options: Unpack[EncodeOptions],
    ) -> Vectors | Tensor | list[Tensor]: ...

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        layers: OneLayer | None = None,
        pooling: Pooling = "mean",
        batch_size: int = 32,
        normalize_embeddings: bool = False,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        layer: OneLayer | None = None,
    ) -> Vectors | Tensor | list[Tensor]:
        """One vector per text, (N, D); (D,) for a single string.

        A text of several sentences is split, each sentence is embedded alone, and all their tokens
        are pooled. A text without words gives zeros.

        Args:
            texts: one string or many.
            layers: "mean" of all layers (the default), "top", "bottom", or a layer number.
            pooling: how the tokens of a text become one vector.
            batch_size: sentences per batch at most.
            normalize_embeddings: scale each vector to unit length.
            show_progress_bar: on standard error; None shows none.
            convert_to_numpy: return a numpy array; False returns a list of tensors.
            convert_to_tensor: return one torch tensor on the model's device instead.
            layer: another name for `layers`.
        """
        if layers is not None and layer is not None:
            raise ConfigError("give layers or layer, not both: they mean the same")
        choice: OneLayer = next((c for c in (layers, layer) if c is not None), "mean")
        check_one_layer(choice, self.num_layers)
        check_choice("pooling", pooling, get_args(Pooling))
        many = list_texts(texts)
        parts = [self.sentences([text]) for text in many]
        sentences = [sentence for text in parts for sentence in text]
        stream = self.embed_stream(sentences, layers=choice, batch_sentences=batch_size)
        result = np.zeros((len(many), self.width), dtype=np.float32)  # (N, D)
        pairs = zip(result, parts, strict=True)
        for row, own in progress(pairs, len(many), "texts", bool(show_progress_bar)):
            tokens = [next(stream) for _ in own]  # each (T, D)
            row[:] = pool(np.concatenate(tokens) if tokens else result[:0], pooling)
        if normalize_embeddings:
            result = normalize(result)
        found = result[0] if isinstance(texts, str) else result
        if convert_to_numpy and not convert_to_tensor:
            return found
        tensor = torch.from_numpy(found).to(self.device)
        return tensor if convert_to_tensor or isinstance(texts, str) else list(tensor)

    # ── comparing ───────────────────────────────────────────────────────────────────────────────

    def similarity(
        self,
        a: str | Sequence[str] | AnyVectors | Tensor,
        b: str | Sequence[str] | AnyVectors | Tensor,
        **options: Unpack[EncodeOptions],
    ) -> float | Vectors:
        """Cosines of texts, or of vectors that `encode` or another method returned.

        One text (or vector) with one gives a float, one with M gives (M,), N with M give (N, M).
        A text without words has the cosine 0 with any other. Cosines of whole texts are all high:
        use them to rank, and `SemanticIndex` to search, whose vectors are spread apart.

        Args:
            a: one string or many; or vectors (D,) or (N, D).
            b: the same, for the other side.
            **options: of `encode`, for texts.
        """
        one, other = (normalize(self._as_vectors(each, options)) for each in (a, b))
        if one.shape[-1] != other.shape[-1]:
            raise ConfigError(
                f"expected vectors of one width, got {one.shape[-1]} and {other.shape[-1]}"
            )
        found = one @ other.T  # () or (M,) or (N,) or (N, M)
        return float(found) if found.ndim == 0 else found

    def compare(
        self, word: str, sentences: Iterable[Sentence], *, layers: OneLayer | None = None
    ) -> WordComparison:
        """The places of a word in sentences, and the cosines between its vectors there.

        Each occurrence has its own row. A sentence that has the word in another case only counts,
        too; one without it is listed in `without`.

        Args:
            word: as the model's tokenizer or a token list writes it; the vectors of a word of
                several tokens are averaged.
            sentences: token lists, or strings: one sequence each.
            layers: compare by "mean", "top", "bottom" or a layer number instead of
                `sense_vectors`.
        """
        is_text = isinstance(word, str)
        if isinstance(sentences, str) and (not is_text or (" " in word and sentences in word)):
            raise TextError("the arguments are swapped; write compare(word, sentences)")
        if not is_text:
            raise TextError(f"expected a word, got {type(word).__name__}; pass a string")
        check_sentences(sentences)
        if layers is not None:
            check_one_layer(layers, self.num_layers)
        found = list(find_places(word, list(sentences), self.tokenizer))
        places = [place for _, own in found for place in own]
        if not places:
            raise TextError(f"{word!r} is in none of the {len(found)} sentences; check its form")
        words = [words for words, own in found if own]
        vectors = self.sense_vectors(words) if layers is None else self.embed(words, layers=layers)
        numbers = {number: i for i, number in enumerate(dict.fromkeys(p.sentence for p in places))}
        spans = (
            vectors[numbers[p.sentence]][p.position : p.position + p.tokens].mean(0) for p in places
        )
        rows = normalize(np.stack(list(spans)))  # (N, F)
        return WordComparison(
            word=word,
            places=tuple(places),
            cosines=rows @ rows.T,
            compared_by="sense vectors" if layers is None else name_layers(layers),
            without=tuple(number for number, (_, own) in enumerate(found) if not own),
        )

    def _as_vectors(
        self, given: str | Sequence[str] | AnyVectors | Tensor, options: EncodeOptions
    ) -> Vectors:
        """Vectors (D,) or (N, D) as they are, texts encoded."""
        if isinstance(given, str) or how_to_list(given) is not None:
            return self.encode(cast("str", given), **options)  # or an error that says what to do
        if isinstance(given, Tensor):
            given = given.detach().float().cpu().numpy()
        items = given if isinstance(given, np.ndarray) else list(given)
        if len(items) == 0 or isinstance(items[0], str) or is_missing(items[0]):
            return self.encode(cast("list[str]", items), **options)
        try:
            vectors = np.asarray(items, dtype=np.float32)
        except (TypeError, ValueError):
            vectors = np.empty((0, 0, 0), np.float32)
        if vectors.ndim not in (1, 2):
            raise ConfigError("expected texts, or vectors of shape (D,) or (N, D)")
        return vectors


def list_texts(texts: str | Sequence[str]) -> list[str]:
    """The texts as a list of strings; TextError says which is none."""
    if isinstance(texts, str):
        return [texts]
    if (advice := how_to_list(texts)) is not None:
        kind = type(texts).__name__
        raise TextError(f"expected a string or a list of strings, got {kind}; {advice}")
    many = list(texts)
    if missing := [number for number, text in enumerate(many) if is_missing(text)]:
        how = "drop them or replace them by ''"
        if hasattr(texts, "dropna"):  # a column of pandas
            how = "drop them (texts.dropna()) or fill them (texts.fillna(''))"
        raise TextError(
            f"row {missing[0]} (counted from 0) is a missing value ({many[missing[0]]}); "
            f"{len(missing):,} of {len(many):,} texts are missing; {how}"
        )
    for number, text in enumerate(many):
        if not isinstance(text, str):
            raise TextError(
                f"expected strings, got {type(text).__name__} as text {number}; "
                f"{_how_to_be_text(text)}"
            )
    return many


def _how_to_be_text(value: object) -> str:
    """Advice for a value that is no string."""
    if isinstance(value, list | tuple):
        return "for token lists use embed"
    is_bytes = isinstance(value, bytes)
    return "decode it: text.decode('utf-8')" if is_bytes else "convert it with str()"


def _collect(stream: Iterator[AnyVectors], total: int, show: bool) -> list[Vectors]:
    found = progress(stream, total, "sentences", show) if show else stream
    return cast("list[Vectors]", list(found))


def _best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
