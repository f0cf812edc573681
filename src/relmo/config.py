"""What a model is made of: frozen, checked, complete.

    ElmoConfig
    ├── tokens: CharCnnConfig | WordTableConfig    a word becomes a vector
    ├── lstm:   LstmConfig                         vectors become contextual, per direction
    └── tokenizer, start, name, licence, training, official

`to_dict` and `from_dict` are exact mirrors; an unknown key is an error that names the nearest one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args

from relmo.errors import ConfigError

Activation = Literal["relu", "tanh"]
CharacterScheme = Literal["bytes", "code_points"]
Start = Literal["zero", "stored"]
TokenizerName = Literal["relmo", "treebank", "whitespace"]

FORMAT_VERSION = 1
BYTE_IDS = 262
"""Ids of the official byte scheme: padding, 256 bytes, five markers."""
NUM_MARKERS = 5
"""Begin and end of sentence, begin and end of word, padding inside a word."""

Config = TypeVar("Config")


@dataclass(frozen=True, kw_only=True)
class CharCnnConfig:
    """Words are spelled: characters -> convolutions -> highways -> one vector."""

    width: int = 512
    """P: width of the word vector, which is also the output width of the LSTM."""
    scheme: CharacterScheme = "bytes"
    """`bytes` is the official UTF-8 scheme; `code_points` spells a word with whole characters."""
    alphabet: str = ""
    """For `code_points`: the characters that have an id of their own; all others share one."""
    max_characters: int = 50
    """Characters per word, begin- and end-of-word markers included; a longer word is cut."""
    character_width: int = 16
    filters: tuple[tuple[int, int], ...] = (
        (1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024),
    )  # fmt: skip
    """(characters seen at once, number of filters) of each convolution."""
    activation: Activation = "relu"
    num_highways: int = 2
    has_projection: bool = True
    """Whether a linear map follows the highways. bilm-tf leaves it out where widths agree."""

    @property
    def num_filters(self) -> int:
        """F: filters of all convolutions together."""
        return sum(count for _, count in self.filters)

    @property
    def num_ids(self) -> int:
        """Character ids the model knows: padding, characters, (unknown,) markers."""
        if self.scheme == "bytes":
            return BYTE_IDS
        return 1 + len(self.alphabet) + 1 + NUM_MARKERS

    def __post_init__(self) -> None:
        _check_types(self)
        _check_choice("scheme", self.scheme, CharacterScheme)
        _check_choice("activation", self.activation, Activation)
        _check_positive(
            width=self.width,
            character_width=self.character_width,
            max_characters=self.max_characters,
        )
        if self.max_characters < 3:
            raise ConfigError(
                f"max_characters is {self.max_characters}; a word needs 3 at least: "
                f"begin, one character, end"
            )
        if type(self.num_highways) is not int or self.num_highways < 0:
            raise ConfigError(f"num_highways is {self.num_highways!r}; 0 or more is needed")
        if not self.filters:
            raise ConfigError("filters is empty; give at least one (width, count) pair")
        for size, count in self.filters:
            if not (1 <= size <= self.max_characters and count >= 1):
                raise ConfigError(
                    f"filter ({size}, {count}): its width must lie between 1 and max_characters "
                    f"{self.max_characters}, its count must be at least 1"
                )
        if not self.has_projection and self.num_filters != self.width:
            raise ConfigError(
                f"without a projection the {self.num_filters} filters must equal width {self.width}"
            )
        if self.scheme == "bytes" and self.alphabet:
            raise ConfigError("the byte scheme has no alphabet; drop it or use code_points")
        if len(set(self.alphabet)) != len(self.alphabet):
            raise ConfigError("alphabet holds a character twice")


@dataclass(frozen=True, kw_only=True)
class WordTableConfig:
    """Words are looked up: one stored vector for each word of a fixed list, `<UNK>` for others."""

    width: int
    """P: width of the word vector."""
    num_words: int
    """Rows of the table, boundaries and `<UNK>` included, in the order of vocab.txt."""

    def __post_init__(self) -> None:
        _check_positive(width=self.width, num_words=self.num_words)


@dataclass(frozen=True, kw_only=True)
class LstmConfig:
    """One direction of the biLM; the other has the same shape and its own weights."""

    num_layers: int = 2
    cell_width: int = 4096
    output_width: int = 512
    """P: width that a layer hands on and feeds back."""
    has_projection: bool = True
    """Whether a linear map leads from the cell to the output; without it the widths agree."""
    cell_clip: float | None = 3.0
    """Bound on |cell state|; None leaves it free. The official weights were trained with 3."""
    output_clip: float | None = 3.0
    """Bound on |projected output|; None leaves it free, and so does a model without projection."""
    has_skips: bool = True
    """Whether each layer from the second on adds its input to its output."""

    def __post_init__(self) -> None:
        _check_types(self)
        _check_positive(
            num_layers=self.num_layers, cell_width=self.cell_width, output_width=self.output_width
        )
        if self.output_width > self.cell_width:
            raise ConfigError(
                f"output_width {self.output_width} exceeds cell_width {self.cell_width}; "
                f"the projection of an ELMo narrows"
            )
        if not self.has_projection and self.output_width != self.cell_width:
            raise ConfigError(
                f"without a projection output_width {self.output_width} must equal "
                f"cell_width {self.cell_width}"
            )
        for name, clip in (("cell_clip", self.cell_clip), ("output_clip", self.output_clip)):
            if clip is not None and not clip > 0:
                raise ConfigError(f"{name} is {clip}; it must be positive, or None for no clip")


TokenConfig = CharCnnConfig | WordTableConfig


@dataclass(frozen=True, kw_only=True)
class ElmoConfig:
    """A whole model."""

    tokens: TokenConfig = field(default_factory=CharCnnConfig)
    lstm: LstmConfig = field(default_factory=LstmConfig)
    tokenizer: TokenizerName = "relmo"
    """How a string becomes words; token lists are always taken as they are."""
    start: Start = "zero"
    """State before a sentence: zero as the official models, or the one stored with the weights."""
    has_start_state: bool = False
    """Whether one is stored: a model that begins from zero may still carry one."""
    name: str = ""
    licence: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    """How the weights came to be, as the trainer recorded it."""
    official: Mapping[str, Any] = field(default_factory=dict)
    """Keys of an official options.json that shape nothing here; kept for the way back."""

    @property
    def num_layers(self) -> int:
        """Layers handed out: the token layer and L LSTM layers."""
        return self.lstm.num_layers + 1

    @property
    def width(self) -> int:
        """D: width of a token, both directions together."""
        return 2 * self.lstm.output_width

    def __post_init__(self) -> None:
        _check_types(self)
        _check_choice("tokenizer", self.tokenizer, TokenizerName)
        _check_choice("start", self.start, Start)
        if self.start == "stored":
            object.__setattr__(self, "has_start_state", True)
        if self.tokens.width != self.lstm.output_width:
            raise ConfigError(
                f"word vectors are {self.tokens.width} wide, the LSTM's output "
                f"{self.lstm.output_width}; ELMo needs them equal, as layers are mixed"
            )

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON holds them."""
        kind = "char_cnn" if isinstance(self.tokens, CharCnnConfig) else "word_table"
        rest = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del rest["tokens"], rest["lstm"]
        return {
            "format": "relmo",
            "format_version": FORMAT_VERSION,
            kind: dataclasses.asdict(self.tokens),
            "lstm": dataclasses.asdict(self.lstm),
            **rest,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ElmoConfig:
        """Check and freeze settings that `to_dict` wrote."""
        values = dict(values)
        version = values.pop("format_version", None)
        if values.pop("format", None) != "relmo" or version != FORMAT_VERSION:
            raise ConfigError(
                f"format_version is {version!r}, this relmo reads version {FORMAT_VERSION} of "
                f"format 'relmo'; is it a config.json of relmo, or one of a newer release?"
            )
        kinds = {"char_cnn", "word_table"} & values.keys()
        if len(kinds) != 1:
            raise ConfigError("settings need exactly one of 'char_cnn' and 'word_table'")
        kind = kinds.pop()
        section = values.pop(kind)
        tokens: TokenConfig = (
            build(WordTableConfig, section, kind)
            if kind == "word_table"
            else build(CharCnnConfig, section, kind)
        )
        lstm = build(LstmConfig, values.pop("lstm", {}), "lstm")
        known = {f.name for f in dataclasses.fields(cls)}
        check_keys(values, known, "settings")
        return cls(tokens=tokens, lstm=lstm, **values)


def build(kind: type[Config], values: Any, where: str) -> Config:  # noqa: ANN401 - any JSON
    """Make a settings object from plain values; unknown keys and wrong types are errors."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} is {values!r}; an object with its settings is needed")
    check_keys(values, {f.name for f in dataclasses.fields(kind)}, where)  # type: ignore[arg-type]
    values = dict(values)
    try:
        if "filters" in values:
            values["filters"] = tuple((int(size), int(n)) for size, n in values["filters"])
        made = kind(**values)
    except (TypeError, ValueError) as error:
        if not isinstance(error, ConfigError):
            _check_numbers(kind, values, where)  # which says more than Python does
        raise ConfigError(f"{where}: {error}") from error
    _check_numbers(kind, values, where)
    return made


def check_keys(values: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise ConfigError for an unknown key, with the nearest known one."""
    for key in values.keys() - known:
        near = get_close_matches(key, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"
        raise ConfigError(f"{where}: unknown key {key!r}{hint}")


def _check_types(config: object) -> None:
    """Raise ConfigError for a setting whose value is of another kind than its annotation."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "bool": bool, "str": str, "Mapping[str, Any]": Mapping, "float | None": (int, float),
    }  # fmt: skip
    for field_ in dataclasses.fields(config):  # type: ignore[arg-type]
        value, kind = getattr(config, field_.name), kinds.get(str(field_.type))
        is_none = value is None and "None" in str(field_.type)
        is_wrong_bool = isinstance(value, bool) and kind is not bool
        if kind is not None and not is_none and (is_wrong_bool or not isinstance(value, kind)):
            raise ConfigError(f"{field_.name} is {value!r}; {field_.type} is needed")


def _check_numbers(kind: type, values: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError for a word or the like where a number is wanted."""
    for field_ in dataclasses.fields(kind):
        wanted, value = str(field_.type), values.get(field_.name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and wanted.startswith(("int", "float")) and not is_number:
            what = "a whole number" if wanted.startswith("int") else "a number"
            raise ConfigError(f"{where}: {field_.name} is {value!r}; {what} is needed")


def _check_choice(name: str, value: str, choices: Any) -> None:  # noqa: ANN401 - a Literal
    if not isinstance(value, str) or value not in get_args(choices):
        raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(get_args(choices))}")


def _check_positive(**values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} is {value!r}; a positive whole number is needed")
