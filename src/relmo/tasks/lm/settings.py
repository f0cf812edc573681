"""A pretraining recipe: TOML with changes from the command line -> checked settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from relmo.config import (
    CharCnnConfig,
    Count,
    DropoutRate,
    ElmoConfig,
    LstmConfig,
    NonNegative,
    Range,
    Settings,
    TokenizerName,
    build,
)
from relmo.errors import ConfigError
from relmo.tasks.lm.token_cache import CacheSettings
from relmo.training.optim import OptimSettings
from relmo.training.recipe import make_sections, read_recipe
from relmo.training.trainer import TrainSettings


@dataclass(frozen=True, kw_only=True)
class LmSettings(Settings):
    """What a training step of the language model is."""

    vocabulary: Annotated[int, Range(least=4)] = 100_000
    """Words of the softmax, sentence boundaries and `<UNK>` included."""
    rows: Count | None = None
    """Streams of text read in parallel, over all processes; left out: what fits the device and the
    text (`tasks/lm/fit.py`)."""
    window: Count | None = None
    """Tokens of each stream per step, through which gradients flow; left out: by the device."""
    negatives: Count | None = None
    """Words of the sampled softmax; a vocabulary of at most twice that is scored in full; left out:
    by the device."""
    dropout: DropoutRate = 0.1
    word_dropout: DropoutRate = 0.0
    """Fraction of the words read as zero vectors, so that the model must rely on the others."""
    ahead: NonNegative = 0.0
    """Weight of a second loss: each position also predicts a word soon after the next one, with
    more weight on rare words, by a linear map that is discarded after training. So vectors keep
    the topic."""
    reach: Annotated[int, Range(least=2)] = 10
    """Largest distance of that word."""
    keep_vocabulary: bool | None = None
    """Keep the vocabulary of the initial model, so that perplexities before and after are
    comparable, or build one from the new text; left out: keep it where there is one."""
    train_softmax: bool = True
    """Whether to train the softmax, too, or to keep that of the initial model."""
    train_tokens: bool | None = None
    """Whether to train the character CNN, too, or to keep that of the initial model: a word's token
    vector is then computed once in the whole run, and a step on a CPU takes half the time. Left
    out: kept where a model is fine-tuned on a CPU."""
    teacher_weight: Annotated[float, Range(least=0, most=1)] = 0.5
    """Share of the loss that is the teacher's prediction instead of the next word, where there is a
    teacher."""
    spans: tuple[Count, ...] = (32, 4, 2, 1)
    """Windows after which a stream's state is reset and it restarts at a sentence; streams take
    them in turn. So the model learns single sentences and running text. Empty: never."""

    def __post_init__(self) -> None:
        spans: Any = self.spans
        if isinstance(spans, int):  # a recipe may give one number
            object.__setattr__(self, "spans", (spans,))
        super().__post_init__()
        if self.ahead and self.window is not None and self.reach > self.window:
            raise ConfigError(f"reach must be at most window {self.window}, got {self.reach}")

    @property
    def sizes(self) -> Sizes:
        """The sizes of a step, once they are chosen."""
        if self.rows is None or self.window is None or self.negatives is None:
            raise ConfigError("give rows, window and negatives, or let relmo.tasks.lm.fit choose")
        return Sizes(self.rows, self.window, self.negatives)


class Sizes(NamedTuple):
    """The sizes of a step."""

    rows: int
    window: int
    negatives: int


@dataclass(frozen=True, kw_only=True)
class ModelSection(Settings):
    """The section `model` of a recipe, from which an ElmoConfig is built."""

    name: str = ""
    tokenizer: TokenizerName = "relmo"
    char_cnn: Mapping[str, Any] = field(default_factory=dict)
    lstm: Mapping[str, Any] = field(default_factory=dict)
    """TOML has no null: a clip that is left out is off."""

    def config(self, tokenizer: str, where: str) -> ElmoConfig:
        """The settings of the model; errors name `where`."""
        cnn = build(CharCnnConfig, self.char_cnn, f"{where}.char_cnn")
        clips = {"cell_clip": None, "output_clip": None}
        lstm = build(LstmConfig, {**clips, **self.lstm}, f"{where}.lstm")
        values = {"name": self.name, "tokenizer": tokenizer, "tokens": cnn, "lstm": lstm}
        return build(ElmoConfig, values, where)


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe(Settings):
    """Everything that determines a pretraining run, except the text."""

    model: ElmoConfig = field(default_factory=ElmoConfig)
    lm: LmSettings = field(default_factory=LmSettings)
    data: CacheSettings = field(default_factory=CacheSettings)
    training: TrainSettings = field(default_factory=lambda: TrainSettings(epochs=1))
    optimizer: OptimSettings = field(default_factory=OptimSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer.bilm_rate != 1:
            raise ConfigError("bilm_rate is for tasks; pretraining has one rate for all weights")

    def to_dict(self) -> dict[str, Any]:
        """The recipe as run.json holds it."""
        return {**dataclasses.asdict(self), "model": self.model.to_dict()}


def load_recipe(
    name: str | Path, changes: Sequence[str] = (), minutes: float | None = None
) -> PretrainRecipe:
    """Load a recipe by its name in the package or by its path.

    Args:
        name: "small", "base" … or a TOML file.
        changes: "section.key=value" each, the value in TOML.
        minutes: length of the run, which replaces the recipe's.
    """
    length = [] if minutes is None else [f"training.minutes={minutes}"]
    return make_recipe(read_recipe("pretrain", name, [*changes, *length]), str(name))


def make_recipe(values: Mapping[str, Any], where: str) -> PretrainRecipe:
    """Check the values of a recipe; text is split as the model will split it later."""
    kinds = {**get_type_hints(PretrainRecipe), "model": ModelSection}
    sections = make_sections(values, kinds, where)
    model, data = sections.pop("model"), sections.pop("data")
    both = {"model": model, "data": data}.items()
    named = [each.tokenizer for name, each in both if "tokenizer" in values.get(name, {})]
    if len(set(named)) > 1:
        raise ConfigError(
            f"{where}: model.tokenizer is {named[0]!r} and data.tokenizer {named[1]!r}; give one"
        )
    tokenizer = named[0] if named else model.tokenizer
    return PretrainRecipe(
        model=model.config(tokenizer, f"{where}: model"),
        data=dataclasses.replace(data, tokenizer=tokenizer),
        **sections,
    )
