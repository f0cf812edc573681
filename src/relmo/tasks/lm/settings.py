"""A pretraining recipe: TOML -> frozen settings, with changes from the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, build, check_keys
from relmo.errors import ConfigError
from relmo.tasks.lm.token_cache import CacheSettings
from relmo.train.optim import OptimSettings
from relmo.train.recipe import read_recipe, section
from relmo.train.trainer import TrainSettings, check_whole


@dataclass(frozen=True, kw_only=True)
class LmSettings:
    """What a step is."""

    vocabulary: int = 100_000
    """Words of the softmax, boundaries and `<UNK>` among them."""
    rows: int = 1024
    """Streams of text read side by side, over all processes."""
    window: int = 32
    """Tokens of each stream per step, through which gradients flow."""
    negatives: int = 8192
    """Words of the sampled softmax; a vocabulary of at most twice that is scored in full."""
    dropout: float = 0.1
    word_dropout: float = 0.0
    """Share of the words that are read as nothing, so that the model must lean on the others."""
    ahead: float = 0.0
    """Weight of a second loss: each position also foretells a word soon after the next one, rare
    words above all, by a map of its own that is thrown away. So vectors keep the topic."""
    reach: int = 10
    """How far that word is away at most."""
    keep_vocabulary: bool = False
    """Keep the words of the model to start from, all of them, instead of the new text's own: what
    is measured before and after is then comparable."""
    train_softmax: bool = True
    """Whether the softmax is trained, too, or stays that of the model to start from."""
    spans: tuple[int, ...] = (32, 4, 2, 1)
    """Windows after which a stream's memory is wiped and it begins anew at a sentence; streams take
    them in turn. So the model learns single sentences and running text. Empty: never."""

    def __post_init__(self) -> None:
        least = {"vocabulary": 4, "rows": 1, "window": 1, "negatives": 1, "reach": 2}
        check_whole(self, least)
        if not self.ahead >= 0:
            raise ConfigError(f"ahead is {self.ahead}; a weight from 0 on is needed")
        if self.ahead and self.reach > self.window:
            raise ConfigError(
                f"reach is {self.reach}, beyond the {self.window} words of a window; lower it"
            )
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; a share below 1 is needed")
        spans = self.spans if isinstance(self.spans, list | tuple) else [self.spans]
        if not all(type(span) is int and span > 0 for span in spans):
            raise ConfigError(f"spans is {self.spans}; a list of whole numbers from 1 on is needed")
        object.__setattr__(self, "spans", tuple(spans))  # TOML has lists


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a pretraining run, besides the text."""

    model: ElmoConfig = field(default_factory=ElmoConfig)
    lm: LmSettings = field(default_factory=LmSettings)
    data: CacheSettings = field(default_factory=CacheSettings)
    training: TrainSettings = field(default_factory=lambda: TrainSettings(epochs=1))
    optimizer: OptimSettings = field(default_factory=OptimSettings)

    def __post_init__(self) -> None:
        if self.optimizer.bilm_rate != 1:
            raise ConfigError("bilm_rate is for tasks; in pretraining all weights have one rate")

    def to_dict(self) -> dict[str, Any]:
        """As TOML and run.json hold it."""
        rest = {name: dataclasses.asdict(getattr(self, name)) for name in SECTIONS}
        return {"model": self.model.to_dict(), **rest}


SECTIONS = {
    "lm": LmSettings,
    "data": CacheSettings,
    "training": TrainSettings,
    "optimizer": OptimSettings,
}


def load_recipe(
    name: str | Path, changes: Sequence[str] = (), minutes: float | None = None
) -> Recipe:
    """Read a recipe by the name of one in the package, or by its path.

    Args:
        name: "small", "base" … or a TOML file.
        changes: "section.key=value" each, the value as TOML writes it.
        minutes: bounds the run by time instead of what the recipe says.
    """
    bound = [] if minutes is None else [f"training.minutes={minutes}"]
    return make_recipe(read_recipe("pretrain", name, [*changes, *bound]), str(name))


def make_recipe(values: Mapping[str, Any], where: str) -> Recipe:
    """Check and freeze what a TOML file holds."""
    check_keys(values, {"model", *SECTIONS}, where)
    sections = {name: section(values, name, where) for name in ("model", *SECTIONS)}
    model = sections.pop("model")
    _share_tokenizer(model, sections["data"], where)
    check_keys(model, {"name", "tokenizer", "char_cnn", "lstm"}, f"{where}: model")
    lstm = _without_clips(section(model, "lstm", where))
    return Recipe(
        model=ElmoConfig(
            tokens=build(CharCnnConfig, section(model, "char_cnn", where), "char_cnn"),
            lstm=build(LstmConfig, lstm, "lstm"),
            **{key: model[key] for key in ("name", "tokenizer") if key in model},
        ),
        **{
            name: build(kind, sections[name], f"{where}: {name}") for name, kind in SECTIONS.items()
        },
    )


def _share_tokenizer(model: dict[str, Any], data: dict[str, Any], where: str) -> None:
    """Text is split as the model will split it: what one section names holds for both."""
    named = [section["tokenizer"] for section in (model, data) if "tokenizer" in section]
    if len(named) == 2 and named[0] != named[1]:
        raise ConfigError(
            f"{where}: tokenizers {named[0]!r} of model, {named[1]!r} of data; name one"
        )
    for tokenizer in named:
        model["tokenizer"] = data["tokenizer"] = tokenizer


def _without_clips(lstm: Mapping[str, Any]) -> dict[str, Any]:
    """TOML has no null: a clip that a recipe leaves out is off, one that it names is on."""
    return {"cell_clip": None, "output_clip": None, **lstm}
