"""What a run needs and what the device has: sizes of a step chosen, memory estimated beforehand.

Rows, window and negatives that a recipe leaves out are chosen here: as on the GPU that relmo's own
models were trained on where there is one, small enough for a step of about a second on a CPU, and
fewer rows wherever memory or text is short. Values that a recipe gives are obeyed, and a run that
would not fit is refused before its first step.

The estimate counts the tensors of the largest moment, from the architecture alone. Measured peaks
are between 0.5 and 1.0 of it (`tests/unit/tasks/lm/test_fit.py`, `docs/pretraining.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from relmo.config import CharCnnConfig, ElmoConfig
from relmo.errors import ConfigError
from relmo.kernels.full_softmax import ROWS, WORDS
from relmo.lm.scorer import BATCH_TOKENS, MAX_ROWS, WINDOW
from relmo.progress import tell
from relmo.runtime.host import available_memory
from relmo.tasks.lm.settings import LmSettings, PretrainRecipe, Sizes
from relmo.tasks.lm.task import can_keep_vocabulary
from relmo.tasks.lm.token_cache import TokenCache
from relmo.training.distributed import World
from relmo.weights.tensors import ModelFiles

ON_GPU = Sizes(rows=2048, window=32, negatives=8192)
ON_CPU = Sizes(rows=256, window=16, negatives=2048)
ROWS_PER_THREAD = 32
"""On a CPU; at least two threads' and at most ON_CPU's rows."""
LEAST_STEPS = 20
"""Steps that an epoch should have: a short text is read in fewer rows."""
BUFFERS = 200e6
"""Bytes of libraries' buffers and of what is small."""
SLOW = 8
"""Times the usual tokens of a step on a CPU that are warned of."""
SHARE = 0.85
"""Of the free memory that a run may plan with: it is not the only program."""


@dataclass(frozen=True)
class Need:
    """Bytes that a run needs, estimated."""

    weights: float
    """Weights, their gradients, the optimizer's state."""
    corpus: float
    """Words of the corpus and their spelling."""
    lstms: float
    softmax: float
    tokens: float
    """The character CNN."""
    evaluation: float
    """Not at the same time as a step's LSTMs, softmax and CNN."""
    teacher: float = 0.0
    """Another model that teaches this one: its weights, vectors of all words, what it says."""

    @property
    def total(self) -> float:
        """Bytes of the largest moment."""
        step = self.lstms + self.softmax + self.tokens
        always = BUFFERS + self.weights + self.corpus + self.teacher
        return always + max(step, self.evaluation)


def fit_recipe(
    recipe: PretrainRecipe,
    cache: TokenCache,
    world: World,
    init: ModelFiles | None = None,
    stored: Mapping[str, Any] | None = None,
    teacher: ModelFiles | None = None,
) -> tuple[PretrainRecipe, Need]:
    """The recipe with all sizes chosen, and what it needs; ConfigError if that does not fit.

    Args:
        recipe: with the shapes of the initial model, if there is one.
        cache: the corpus.
        world: the processes and their device.
        init: the initial model.
        stored: the section `lm` of a run that is resumed: its choices are kept.
        teacher: the model that teaches this one, if there is one.
    """
    lm, is_cpu = recipe.lm, world.device.type == "cpu"
    chosen = {
        "keep_vocabulary": can_keep_vocabulary(init),
        "train_tokens": init is None or not is_cpu,
        **target_sizes(world)._asdict(),
        **{name: value for name, value in (stored or {}).items() if value is not None},
    }
    open_names = {f.name for f in fields(lm) if getattr(lm, f.name) is None}
    lm = replace(lm, **{name: chosen[name] for name in open_names})
    free = available_memory(world.device)
    room = float("inf") if free is None else SHARE * free / (world.size if is_cpu else 1)

    def need_of(lm: LmSettings) -> Need:
        return estimate(replace(recipe, lm=lm), cache, world, init, teacher)

    if "rows" in open_names and not (stored or {}).get("rows"):
        while lm.sizes.rows // 2 >= world.size and (
            _steps(lm, cache) < LEAST_STEPS or need_of(lm).total > room
        ):
            lm = replace(lm, rows=lm.sizes.rows // 2)
    need = need_of(lm)
    if need.total > room:
        if world.is_main:
            tell(f"relmo: the tokenized text is kept for the next try, in {cache.folder}")
        raise ConfigError(_refusal(lm, need, need_of, room, world))
    usual = target_sizes(world)
    times = lm.sizes.rows * lm.sizes.window / (usual.rows * usual.window)
    if is_cpu and world.is_main and times > SLOW:
        what = f"about {times:.0f} times as long as one of {usual.rows} rows"
        tell(f"relmo: on this CPU a step of {lm.sizes.rows:,} rows takes {what}; lower lm.rows")
    return replace(recipe, lm=lm), need


def target_sizes(world: World) -> Sizes:
    """Sizes of a step where memory and text are plenty."""
    if world.device.type != "cpu":
        return ON_GPU
    rows = ROWS_PER_THREAD * max(2, torch.get_num_threads())
    power = 2 ** (rows.bit_length() - 1)
    return ON_CPU._replace(rows=world.size * min(power, ON_CPU.rows))


def estimate(
    recipe: PretrainRecipe,
    cache: TokenCache,
    world: World,
    init: ModelFiles | None,
    teacher: ModelFiles | None = None,
) -> Need:
    """What a run of a recipe, all sizes chosen, needs in one process."""
    config, lm = recipe.model, recipe.lm
    assert isinstance(config.tokens, CharCnnConfig)
    rows, window, negatives = lm.sizes
    is_cpu = world.device.type == "cpu"
    size = 4 if is_cpu else 2  # bytes of a number in a step: float32, or bfloat16 on a GPU
    V = min(lm.vocabulary, len(cache.words))
    if lm.keep_vocabulary and init is not None and init.lexicon is not None:
        V = len(init.lexicon)
    if teacher is not None and teacher.lexicon is not None:
        V = len(teacher.lexicon)
    N = 2 * window * rows // world.size  # tokens of a step, both directions
    L, P, H = config.lstm.num_layers, config.lstm.output_width, config.lstm.cell_width
    lstm, cnn, head = num_weights(config, V)
    trained = lstm + cnn * (lm.train_tokens is not False) + head * lm.train_softmax
    copies = 2 * lstm + (lstm + cnn) * (init is not None)  # both directions stacked; the initial
    scored = N * V if 2 * negatives >= V else min(N * negatives, 1 << (22 if is_cpu else 27))
    losses = 2 if lm.ahead else 1
    softmax = size * (3 * scored + 4 * N * P + 4 * negatives * P)
    kind = "cpu" if is_cpu else "cuda"
    spoken = 2 * min(MAX_ROWS[kind] * WINDOW, BATCH_TOKENS) * (L + 3) * P
    scores = 3 * ROWS[kind] * min(WORDS[kind], V)
    return Need(
        weights=4 * (lstm + cnn + head + copies) + 12 * trained,
        corpus=len(cache.words) * (12 * config.tokens.max_characters + 150),
        lstms=size * N * L * (6 * H + 8 * P) + 4 * N * P,
        softmax=losses * (softmax + 4 * head),
        tokens=_cnn_bytes(config.tokens, lm, cache.counts, N, size),
        evaluation=4 * (scores + spoken + lstm),
        teacher=0.0 if teacher is None else _teacher_bytes(teacher, lm, cache, V, N, size),
    )


def _teacher_bytes(
    teacher: ModelFiles, lm: LmSettings, cache: TokenCache, V: int, N: int, size: int
) -> float:
    tokens, lstm = teacher.config.tokens, teacher.config.lstm
    assert isinstance(tokens, CharCnnConfig)
    P, H, negatives = lstm.output_width, lstm.cell_width, lm.sizes.negatives
    scored = N * V if 2 * negatives >= V else N * negatives if size == 4 else 1 << 27
    kept = len(cache.words) * (4 * P + 4 * tokens.max_characters)
    said = size * N * (lstm.num_layers * 2 * P + 5 * H + 2 * P)
    return 8.0 * sum(num_weights(teacher.config, V)) + kept + said + 3 * size * scored


def num_weights(config: ElmoConfig, num_words: int) -> tuple[int, int, int]:
    """Number of weights of the LSTMs, the character CNN and the softmax."""
    tokens, lstm = config.tokens, config.lstm
    assert isinstance(tokens, CharCnnConfig)
    P, H, E, F = lstm.output_width, lstm.cell_width, tokens.character_width, tokens.num_filters
    of_layer = 4 * H * (2 * P + 1) + P * H
    convolutions = sum(count * (width * E + 1) for width, count in tokens.filters)
    cnn = tokens.num_ids * E + convolutions + tokens.num_highways * 2 * F * (F + 1) + F * P + P
    return 2 * lstm.num_layers * of_layer, cnn, num_words * (P + 1)


def distinct_words(counts: NDArray[np.uint64], tokens: int) -> float:
    """How many distinct words so many tokens of a corpus have on average."""
    chances = counts / max(int(counts.sum()), 1)
    return float(-np.expm1(tokens * np.log1p(-chances.clip(max=1 - 1e-9))).sum())


def _cnn_bytes(
    tokens: CharCnnConfig, lm: LmSettings, counts: NDArray[np.uint64], N: int, size: int
) -> float:
    places = 10  # windows of a word, whose filters' responses are all held: about its letters
    F, per_word = tokens.num_filters, 2 * places + 4 + 10 * tokens.num_highways
    if lm.train_tokens is False:
        return 4 * (len(counts) * tokens.width + 512 * 2 * places * F)
    return size * distinct_words(counts, N) * per_word * F


def _steps(lm: LmSettings, cache: TokenCache) -> int:
    """Steps of an epoch."""
    return (len(cache.train.tokens) // lm.sizes.rows - 1) // lm.sizes.window


def _refusal(
    lm: LmSettings, need: Need, need_of: Callable[[LmSettings], Need], room: float, world: World
) -> str:
    """Why a run does not fit, and which settings would."""
    rows, window, negatives = lm.sizes
    said = (
        f"this run needs about {need.total / 1e9:.1f} GB ({need.weights / 1e9:.1f} for weights and "
        f"optimizer, {(need.lstms + need.softmax + need.tokens) / 1e9:.1f} for a step of {rows:,} "
        f"rows of {window} tokens with {negatives:,} negatives) and {room / 1e9:.1f} GB may be used"
    )
    fewer = lm
    while fewer.sizes.rows // 2 >= world.size and need_of(fewer).total > room:
        fewer = replace(fewer, rows=fewer.sizes.rows // 2)
    if need_of(fewer).total <= room:
        return f"{said}; lower lm.rows to {fewer.rows} (--set lm.rows={fewer.rows})"
    small = replace(
        fewer, window=min(window, 8), negatives=min(negatives, 1024), train_tokens=False
    )
    if need_of(small).total <= room:
        return (
            f"{said}; lower lm.rows to {small.rows}, lm.window to {small.window}, lm.negatives to "
            f"{small.negatives} and set lm.train_tokens=false"
        )
    return f"{said}; take a smaller model or vocabulary, or a machine with more memory"
