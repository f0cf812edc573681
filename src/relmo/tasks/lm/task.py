"""Pretraining as a task: biLM and softmax, windows of text, perplexity of held-out text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.config import CharCnnConfig, ElmoConfig, Start
from relmo.errors import ConfigError
from relmo.kernels.device import has_triton
from relmo.kernels.full_softmax import FullSoftmax
from relmo.lm.scorer import Scorer, WordSizes
from relmo.nn import lm_head
from relmo.nn.bilm import BiLM, initialize, map_state, zero_state
from relmo.nn.lm_head import LmHead, Sampler
from relmo.nn.token_layers import CharCnn
from relmo.runtime.runtime import FastBiLM
from relmo.tasks.lm.data import LmBatches, Speller
from relmo.tasks.lm.model import LmModel
from relmo.tasks.lm.settings import LmSettings
from relmo.tasks.lm.teacher import Teacher, check_teacher
from relmo.tasks.lm.token_cache import TokenCache
from relmo.tasks.lm.windows import Windows
from relmo.text.lexicon import Lexicon
from relmo.training.distributed import World
from relmo.types import BiLmState, LstmState
from relmo.weights.native import Native
from relmo.weights.tensors import START_NAMES, ModelFiles, Storage, build_bilm, tensors_of

HELD_OUT_TOKENS = {"cpu": 20_000, "cuda": 200_000}
"""Held-out tokens that are scored during training: some seconds on a CPU, less on a GPU."""
START_TOKENS = {"cpu": 5_000, "cuda": 20_000}
"""Held-out tokens by which the start of a sentence, zero or stored, is chosen."""
START_LENGTH = 150
"""Tokens read before the start state is taken."""
START_DOCUMENTS = 400
"""Documents over which it is averaged, at most."""
STATE_NAMES = ("forward.h", "forward.c", "backward.h", "backward.c")
SUMS = "sums"
"""What a checkpoint calls the tensors that are carried from step to step."""

Text = NDArray[np.int64]


class LmTask:
    """Trains a biLM on a corpus.

    Args:
        config: the model's settings.
        settings: of a step.
        cache: the corpus.
        seed: of weights, shuffle and negatives.
        world: the processes that take part.
        init: the initial model; random weights if None.
        graphs: on a GPU, run the LSTMs as a CUDA graph; not if gradients are accumulated.
        teacher: a model to learn from, too, whose vocabulary this one takes.
    """

    score: str | None = None  # keep the last weights: the learning rate ends near zero

    def __init__(
        self,
        config: ElmoConfig,
        settings: LmSettings,
        cache: TokenCache,
        seed: int = 0,
        world: World | None = None,
        init: ModelFiles | None = None,
        graphs: bool = True,
        teacher: ModelFiles | None = None,
    ) -> None:
        self.world = world or World()
        self.device = self.world.device
        self._kind = "cuda" if self.device.type == "cuda" else "cpu"
        self.config, self.settings, self.cache = config, settings, cache
        if not isinstance(config.tokens, CharCnnConfig):
            raise ConfigError("pretraining needs a model of characters; give char_cnn settings")
        taught = None if teacher is None else check_teacher(teacher, config.tokenizer, init)
        self.lexicon = taught or _lexicon(cache, settings, init)
        self.softmax_rows = self.lexicon.rows(cache.words)  # (words,) of the corpus
        self.speller = Speller(cache.words, config.tokens, self.device)
        self.sampler: Sampler | None = None  # a small vocabulary is scored in full
        rows, window, negatives = settings.sizes
        if len(self.lexicon) > 2 * negatives:
            self.sampler = Sampler(len(self.lexicon), negatives, seed)
        self.model = self._make_model(seed, init)
        share = self.world.rank, self.world.size
        windows = Windows(cache.train, rows, window, seed, *share, settings.spans)
        self.steps_per_epoch = windows.steps_per_epoch
        self.batches = LmBatches(windows, self.speller, self.softmax_rows, self.sampler)
        self.rows = rows // self.world.size
        self._state = zero_state(config.lstm, self.rows, like=self.model.head.weight.detach())
        self._sum = torch.zeros(2, device=self.device)  # loss and targets since the last log
        self.teacher = teacher and Teacher(
            teacher, cache.words, self.rows, settings.teacher_weight, self.device
        )
        if graphs and has_triton(self.device):
            self.model.capture(window, self.rows)

    def loss(self, step: int) -> Tensor:
        """The loss per token of one window; the state is carried to the next."""
        batch = self.batches[step]
        total: Tensor
        ahead: Tensor
        lesson = self.teacher and self.teacher.read(batch)
        total, ahead, state = self.model(batch, self._state, lesson)
        self._state = map_state(Tensor.detach, state)  # gradients stay within the window
        self._sum += torch.stack([total.detach(), batch.counts.sum()])
        return (total + self.settings.ahead * ahead) / batch.counts.numel()

    def measures(self) -> dict[str, float]:
        """The loss per target since the last call; its name tells which softmax."""
        total, count = self.world.mean(self._sum).tolist()
        self._sum.zero_()
        name = "full_softmax_loss" if self.sampler is None else "sampled_softmax_loss"
        return {f"taught_{name}" if self.teacher else name: total / max(count, 1.0)}

    def evaluate(self, init: ModelFiles | None = None) -> dict[str, float]:
        """Full-softmax perplexity of held-out documents; of the initial model before training."""
        documents = self.held_out()
        if not documents:
            return {}
        characters = self.cache.held_out.characters
        total = None if characters is None else int(characters[self._drawn()].sum())
        scorer = self.scorer_of(self.model.bilm, init)
        found = asdict(scorer.perplexity(documents, characters=total))
        if total is None:  # a cache of an earlier version does not tell
            del found["bits_per_character"]
        return {f"held_out_{name}": value for name, value in found.items()}

    def held_out(self, max_tokens: int | None = None) -> list[Text]:
        """A random sample of the held-out documents, up to a number of tokens."""
        part = self.cache.held_out
        found = [part.document(i).astype(np.int64) for i in self._drawn(max_tokens)]
        return [document for document in found if len(document)]

    def _drawn(self, max_tokens: int | None = None) -> NDArray[np.int64]:
        """Numbers of these documents."""
        part, most = self.cache.held_out, max_tokens or HELD_OUT_TOKENS[self._kind]
        order = np.random.default_rng(0).permutation(len(part.documents) - 1)
        ends = np.cumsum(np.diff(part.documents)[order])
        return np.sort(order[: 1 + int(np.searchsorted(ends, most))])

    def scorer_of(self, bilm: BiLM, init: ModelFiles | None = None) -> Scorer:
        """A scorer of the corpus's word ids by this biLM and our softmax, or that of `init`."""
        fast = FastBiLM(bilm, is_frozen=True)  # while it is scored
        fast.use_precision("bfloat16" if self.device.type == "cuda" else "float32")
        head, lexicon, rows = self.model.head, self.lexicon, self.softmax_rows
        if init is not None and init.lexicon is not None and init.lexicon is not lexicon:
            lexicon, rows = init.lexicon, init.lexicon.rows(self.cache.words)
            head = LmHead(len(lexicon), self.config.lstm.output_width).to(self.device)
            _copy_softmax(head, lexicon.words, init)
        sizes = WordSizes(self.cache.words, rows, lexicon)
        softmax = FullSoftmax(head.weight, head.bias, fast.precision)
        return Scorer(fast, softmax, self._token_vectors, rows, sizes)

    def state(self) -> dict[str, Tensor]:
        """The state of all rows, the teacher's too, and the sums of the next log line."""
        sums = self._sum.new_zeros(1, self.rows, 2)  # rows along dimension 1
        sums[0, 0] = self._sum
        found = {**_tensors(self._state), SUMS: sums}
        if self.teacher:
            found |= {f"teacher.{name}": t for name, t in _tensors(self.teacher.state).items()}
        return found

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the state of a checkpoint."""
        state = {name: tensor.to(self.device) for name, tensor in state.items()}
        found = state[SUMS].shape[1] * self.world.size
        if found != self.settings.sizes.rows:
            raise ConfigError(
                f"the checkpoint has {found} rows, lm.rows is {self.settings.sizes.rows}; "
                f"resume with the recipe it started with"
            )
        self._sum = state[SUMS].sum((0, 1))
        self._state = _state_of(state)
        if self.teacher:
            self.teacher.load_state(_state_of(state, "teacher."))

    def save_model(
        self,
        folder: Path,
        training: dict[str, Any],
        storage: Storage = "float32",
    ) -> None:
        """Write the model with its softmax, its start state and the facts of its training."""
        start = mean_state(self.model.bilm, self._token_vectors, self.held_out())
        tensors = dict(tensors_of(self.model.bilm))
        config = replace(self.config, training=training)
        if start is not None:
            tensors |= start
            config = replace(config, has_start_state=True)
            config = replace(config, start=self._better_start(config, tensors))
        head = {n: t.detach().cpu() for n, t in self.model.head.state_dict().items()}
        files = ModelFiles(config, tensors, self.lexicon, lambda: head)
        Native().write(folder, files, None, storage)

    def _better_start(self, config: ElmoConfig, tensors: dict[str, Tensor]) -> Start:
        """The start, zero or stored, from which single held-out sentences are predicted better."""
        scorer = self.scorer_of(build_bilm(ModelFiles(config, tensors)).to(self.device))
        documents = self.held_out(START_TOKENS[self._kind])
        starts: tuple[Start, ...] = ("zero", "stored")
        means = {start: scorer.perplexity(documents, start).mean for start in starts}
        return min(starts, key=means.__getitem__)

    def _make_model(self, seed: int, init: ModelFiles | None) -> LmModel:
        head = LmHead(len(self.lexicon), self.config.lstm.output_width)
        lm_head.initialize(head, torch.Generator().manual_seed(seed + 1))
        if init is None:
            bilm = initialize(BiLM(self.config), seed)
        else:
            # A copy of the weights, which training changes; the start state is computed anew.
            tensors = {n: t.clone() for n, t in init.tensors.items() if n not in START_NAMES}
            config = replace(self.config, start="zero", has_start_state=False)
            bilm = build_bilm(ModelFiles(config, tensors)).requires_grad_(True)
            _copy_softmax(head, self.lexicon.words, init)
        head.requires_grad_(self.settings.train_softmax)
        bilm.token_layer.requires_grad_(self.settings.train_tokens is not False)
        chances = None
        if self.sampler is not None:
            chances = torch.from_numpy(np.log(self.sampler.chances)).float()
        model = LmModel(bilm, head, self.speller.table, chances, self.settings)
        return model.to(self.device)

    def _token_vectors(self, words: NDArray[np.int64]) -> Tensor:
        cnn = self.model.bilm.token_layer
        assert isinstance(cnn, CharCnn)
        rows = torch.from_numpy(words).to(self.device)
        if self.settings.train_tokens is False:
            return self.model.kept_vectors(rows)
        ids = self.speller.table[rows]
        with self.model.arithmetic():
            return torch.cat([cnn(part) for part in torch.split(ids, 2048)])


def _tensors(state: BiLmState) -> dict[str, Tensor]:
    parts = (state.forward.h, state.forward.c, state.backward.h, state.backward.c)
    return dict(zip(STATE_NAMES, parts, strict=True))


def _state_of(tensors: dict[str, Tensor], prefix: str = "") -> BiLmState:
    fh, fc, bh, bc = (tensors[f"{prefix}{name}"] for name in STATE_NAMES)
    return BiLmState(LstmState(fh, fc), LstmState(bh, bc))


def _lexicon(cache: TokenCache, settings: LmSettings, init: ModelFiles | None) -> Lexicon:
    """Words of the softmax: the most frequent of the corpus, or those of the initial model."""
    keep = settings.keep_vocabulary
    if not (can_keep_vocabulary(init) if keep is None else keep):
        return cache.lexicon(settings.vocabulary)
    if init is None or init.lexicon is None or init.lm_head is None:
        raise ConfigError(
            "lm.keep_vocabulary needs an initial model with a softmax; give one with --init"
        )
    return init.lexicon


def can_keep_vocabulary(init: ModelFiles | None) -> bool:
    """Whether there is an initial model with a softmax."""
    return init is not None and init.lexicon is not None and init.lm_head is not None


def _copy_softmax(head: LmHead, words: Sequence[str], init: ModelFiles) -> None:
    """Copy the rows of words that the initial model knows; the others stay random."""
    if init.lm_head is None or init.lexicon is None:
        return
    tensors = init.lm_head()
    known = [i for i, word in enumerate(words) if word in init.lexicon]
    theirs = init.lexicon.rows([words[i] for i in known])
    with torch.no_grad():
        head.weight[known] = tensors["weight"][theirs].to(head.weight)
        head.bias[known] = tensors["bias"][theirs].to(head.bias)


# ── the start state ───────────────────────────────────────────────────────────────────────────────


@torch.no_grad()
def mean_state(
    bilm: BiLM, token_vectors: Callable[[Text], Tensor], documents: Sequence[Text]
) -> dict[str, Tensor] | None:
    """The mean state after earlier sentences, from which a sentence is best begun.

    Forward after `</S>`, backward after `<S>`, by their names in the module; None if no document
    ends a sentence soon enough.
    """
    texts = [text for text in documents if len(text) > 2][:START_DOCUMENTS]
    directions = (("forward", bilm.forward_lstm, 1, 1), ("backward", bilm.backward_lstm, -1, 0))
    found = {}
    for direction, stack, step, boundary in directions:
        begun = (text[::step][:START_LENGTH] for text in texts)
        rows = [row for text in begun if len(row := _up_to_last(text, boundary))]
        if not rows:
            return None
        lengths = torch.tensor([len(row) for row in rows])
        padded = np.zeros((len(rows), int(lengths.max())), dtype=np.int64)  # (B, T)
        for place, row in zip(padded, rows, strict=True):
            place[: len(row)] = row
        words, index = np.unique(padded, return_inverse=True)
        vectors = token_vectors(words).float()  # (U, P)
        x = vectors[torch.from_numpy(index.reshape(padded.shape)).to(vectors.device)]  # (B, T, P)
        zero = zero_state(bilm.config.lstm, len(rows), like=vectors).forward
        after: LstmState = stack(x, lengths, zero)[1]
        found[f"start_{direction}_h"] = after.h.mean(1).cpu()  # (L, P)
        found[f"start_{direction}_c"] = after.c.mean(1).cpu()  # (L, H)
    return found


def _up_to_last(text: Text, boundary: int) -> Text:
    """The text up to its last boundary of this kind; empty if it has none."""
    places = np.flatnonzero(text == boundary)
    return text[: places[-1] + 1] if len(places) else text[:0]
