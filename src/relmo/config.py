"""Settings: the base class of all of them, and the settings of a model.

    ElmoConfig
    ├── tokens: CharCnnConfig | WordTableConfig    a word becomes a vector
    ├── lstm:   LstmConfig                         vectors become contextual, per direction
    └── tokenizer, start, name, licence, training, official

`Settings` checks every field against its annotation when an object is created, so an object that
exists is valid. `ElmoConfig.to_dict` and `from_dict` are exact inverses; an unknown key is an error
that suggests the nearest known one. docs/adr/0007-settings.md says why this is our own code.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, partial
from reprlib import Repr
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from relmo.errors import ConfigError

Start = Literal["zero", "stored"]
TokenizerName = Literal["relmo", "treebank", "whitespace"]

FORMAT_VERSION = 1
BYTE_IDS = 262
"""Number of ids in the official byte scheme: padding, 256 bytes, five markers."""
NUM_MARKERS = 5
"""Begin and end of sentence, begin and end of word, padding inside a word."""

MAX_NAME = 100
"""Characters of a name for which a similar one is suggested."""

Config = TypeVar("Config")


@dataclass(frozen=True)
class Range:
    """Bounds of a number, used in an annotation: `Annotated[int, Range(least=1)]`."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        signs = {"≥": self.least, ">": self.above, "≤": self.most, "<": self.below}
        return " and ".join(
            f"{sign} {bound:,}" if isinstance(bound, int) else f"{sign} {bound:g}"
            for sign, bound in signs.items()
            if bound is not None
        )


@dataclass(frozen=True)
class Length:
    """The largest number of items of a list, used in an annotation; checked before its items."""

    most: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, list | tuple) and len(value) <= self.most

    def __str__(self) -> str:
        return f"(at most {self.most:,} items)"


Count = Annotated[int, Range(least=1)]
CountOrZero = Annotated[int, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(least=0)]
Fraction = Annotated[float, Range(least=0, below=1)]
DropoutRate = Fraction
Width = Annotated[int, Range(least=1, most=2**20)]
Depth = Annotated[int, Range(least=1, most=100)]
"""A number of modules in a row. As for a width, no model comes near the bound; a file may say
anything, and modules are built before its tensors are read."""
DepthOrZero = Annotated[int, Range(least=0, most=100)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that check their types, choices and ranges, as the annotations say.

        @dataclass(frozen=True, kw_only=True)
        class Optimizer(Settings):
            size: Count = 128
            dropout: DropoutRate = 0.5
            kind: Literal["adam", "sgd"] = "adam"

        Optimizer(size=0)  # ConfigError: size must be an integer ≥ 1, got 0

    A subclass is a frozen dataclass. If fields must agree with each other, it defines a
    `__post_init__` that calls this one first. Lists, as in TOML and JSON, become tuples.
    """

    def __post_init__(self) -> None:
        hints = _hints(type(self))  # type: ignore[arg-type]
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            checked = _checked(value, hints[each.name])
            if checked is _WRONG:
                wanted = _describe(hints[each.name])
                raise ConfigError(f"{each.name} must be {wanted}, got {shown(value)}")
            object.__setattr__(self, each.name, checked)


_WRONG = object()
_hints = cache(partial(get_type_hints, include_extras=True))


def _checked(value: Any, hint: Any) -> Any:  # noqa: ANN401 - any setting
    """The value, lists as tuples; `_WRONG` if the annotation does not allow it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if any(isinstance(each, Length) and value not in each for each in args[1:]):
            return _WRONG
        found = _checked(value, args[0])
        return found if found is not _WRONG and all(found in each for each in args[1:]) else _WRONG
    if origin is Literal:
        is_known = any(value == each and type(value) is type(each) for each in args)
        return value if is_known else _WRONG
    if origin in (Union, types.UnionType):
        found = (_checked(value, each) for each in args)
        return next((each for each in found if each is not _WRONG), _WRONG)
    if origin is tuple and isinstance(value, list | tuple):
        hints = args[:1] * len(value) if args[-1:] == (...,) else args
        items = tuple(map(_checked, value, hints))
        return items if len(value) == len(hints) and _WRONG not in items else _WRONG
    if hint is Any:
        return value
    kind = int | float if hint is float else origin or hint
    is_wrong_bool = isinstance(value, bool) and hint in (int, float)
    if is_wrong_bool or not isinstance(value, kind):
        return _WRONG
    is_too_large = hint is float and isinstance(value, int) and abs(value) > sys.float_info.max
    return _WRONG if is_too_large else value


def _describe(hint: Any) -> str:  # noqa: ANN401 - an annotation
    """What an annotation allows, in words: "an integer ≥ 1"."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return " ".join([_describe(args[0]), *map(str, args[1:])])
    if origin is Literal:
        return "one of " + ", ".join(map(str, args))
    if origin in (Union, types.UnionType):
        return " or ".join("unset" if each is type(None) else _describe(each) for each in args)
    if origin is tuple:
        size = ", each item" if args[-1:] == (...,) else f" of {len(args)} items, each"
        return f"a list{size} {_describe(args[0])}"
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    kinds = {Mapping: "an object", dict: "an object", list: "a list"}
    other = kinds.get(origin or hint) or str(getattr(hint, "__name__", hint))
    return words.get(hint, other)


@dataclass(frozen=True, kw_only=True)
class CharCnnConfig(Settings):
    """A word is spelled: characters -> convolutions -> highways -> one vector."""

    width: Width = 512
    """P: width of the word vector, equal to the output width of the LSTM."""
    scheme: Literal["bytes", "code_points"] = "bytes"
    """`bytes` is the official UTF-8 scheme; `code_points` spells a word with whole characters."""
    alphabet: str = ""
    """For `code_points`: the characters with an id of their own; all others share one."""
    max_characters: Annotated[int, Range(least=3, most=10_000)] = 50
    """Characters per word, including the begin- and end-of-word markers; longer words are cut."""
    character_width: Width = 16
    filters: Annotated[tuple[tuple[Width, Width], ...], Length(most=100)] = (
        (1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024),
    )  # fmt: skip
    """(width in characters, number of filters) of each convolution."""
    activation: Literal["relu", "tanh"] = "relu"
    num_highways: DepthOrZero = 2
    has_projection: bool = True
    """Whether a linear map follows the highways. bilm-tf omits it between equal widths."""

    @property
    def num_filters(self) -> int:
        """F: the total number of filters."""
        return sum(count for _, count in self.filters)

    @property
    def num_ids(self) -> int:
        """The number of character ids: padding, characters, (unknown,) markers."""
        if self.scheme == "bytes":
            return BYTE_IDS
        return 1 + len(self.alphabet) + 1 + NUM_MARKERS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.filters:
            raise ConfigError("filters is empty; give at least one (width, count) pair")
        for size, count in self.filters:
            if size > self.max_characters:
                raise ConfigError(
                    f"filter ({size}, {count}) is wider than max_characters {self.max_characters}"
                )
        if not self.has_projection and self.num_filters != self.width:
            raise ConfigError(
                f"without a projection width must equal the number of filters, got width "
                f"{self.width} and {self.num_filters} filters"
            )
        if self.scheme == "bytes" and self.alphabet:
            raise ConfigError("the byte scheme has no alphabet; remove it or use code_points")
        if len(set(self.alphabet)) != len(self.alphabet):
            raise ConfigError("alphabet contains a character twice")


@dataclass(frozen=True, kw_only=True)
class WordTableConfig(Settings):
    """A word is looked up: one vector per word of a fixed vocabulary, `<UNK>` for all others."""

    width: Width
    """P: width of the word vector."""
    num_words: Annotated[int, Range(least=1, most=2**31)]
    """Rows of the table, including the boundaries and `<UNK>`, in the order of vocab.txt."""


@dataclass(frozen=True, kw_only=True)
class LstmConfig(Settings):
    """One direction of the biLM; the other one has the same shape and its own weights."""

    num_layers: Depth = 2
    cell_width: Width = 4096
    output_width: Width = 512
    """P: width of a layer's output, which is also its recurrent input."""
    has_projection: bool = True
    """Whether a linear map projects the cell to the output; without it the widths are equal."""
    cell_clip: Positive | None = 3.0
    """Limit of |cell state|; None means no limit. The official weights were trained with 3."""
    output_clip: Positive | None = 3.0
    """Limit of |projected output|; None means no limit, as in a model without projection."""
    has_skips: bool = True
    """Whether each layer after the first adds its input to its output."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_width > self.cell_width:
            raise ConfigError(
                f"output_width {self.output_width} exceeds cell_width {self.cell_width}; "
                f"the projection of an ELMo must not widen"
            )
        if not self.has_projection and self.output_width != self.cell_width:
            raise ConfigError(
                f"without a projection output_width {self.output_width} must equal "
                f"cell_width {self.cell_width}"
            )


TokenConfig = CharCnnConfig | WordTableConfig
TOKEN_KINDS: dict[str, type[TokenConfig]] = {
    "char_cnn": CharCnnConfig,
    "word_table": WordTableConfig,
}


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(Settings):
    """The settings of a whole model."""

    tokens: TokenConfig = field(default_factory=CharCnnConfig)
    lstm: LstmConfig = field(default_factory=LstmConfig)
    tokenizer: TokenizerName = "relmo"
    """How strings are split into words; token lists are used as they are."""
    start: Start = "zero"
    """State before a sentence: zero, as in the official models, or stored with the weights."""
    has_start_state: bool = False
    """Whether a start state is stored; a model that starts from zero may have one too."""
    name: str = ""
    licence: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    """How the model was trained, as the trainer recorded it."""
    official: Mapping[str, Any] = field(default_factory=dict)
    """Unused keys of an official options.json, kept for converting back."""

    @property
    def num_layers(self) -> int:
        """The number of layers of a token: the token layer and L LSTM layers."""
        return self.lstm.num_layers + 1

    @property
    def width(self) -> int:
        """D: width of a token, both directions together."""
        return 2 * self.lstm.output_width

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start == "stored":
            object.__setattr__(self, "has_start_state", True)
        if self.tokens.width != self.lstm.output_width:
            raise ConfigError(
                f"tokens.width {self.tokens.width} must equal lstm.output_width "
                f"{self.lstm.output_width}, because layers are mixed"
            )

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON values."""
        [kind] = (name for name, kind in TOKEN_KINDS.items() if isinstance(self.tokens, kind))
        rest = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {
            "format": "relmo",
            "format_version": FORMAT_VERSION,
            kind: dataclasses.asdict(rest.pop("tokens")),
            "lstm": dataclasses.asdict(rest.pop("lstm")),
            **rest,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ElmoConfig:
        """The settings from what `to_dict` returned, checked."""
        values = dict(values)
        version = values.pop("format_version", None)
        if values.pop("format", None) != "relmo" or version != FORMAT_VERSION:
            raise ConfigError(
                f"format_version is {version!r}, this relmo reads version {FORMAT_VERSION} of "
                f"format 'relmo'; was it written by another program, or by a newer release?"
            )
        kinds = TOKEN_KINDS.keys() & values.keys()
        if len(kinds) != 1:
            raise ConfigError("expected exactly one of 'char_cnn' and 'word_table'")
        kind = kinds.pop()
        tokens = build(TOKEN_KINDS[kind], values.pop(kind), kind)
        lstm = build(LstmConfig, values.pop("lstm", {}), "lstm")
        check_keys(values, {f.name for f in dataclasses.fields(cls)}, "settings")
        return cls(tokens=tokens, lstm=lstm, **values)


def build(kind: type[Config], values: Any, where: str) -> Config:  # noqa: ANN401 - any JSON
    """Create a settings object from plain values; unknown keys and wrong types are errors."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected an object with settings, got {shown(values)}")
    check_keys(values, {f.name for f in dataclasses.fields(kind)}, where)  # type: ignore[arg-type]
    try:
        return kind(**values)
    except (ConfigError, TypeError) as error:  # TypeError: a required setting is missing
        raise ConfigError(f"{where}: {error}") from error


def check_keys(values: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise ConfigError for an unknown key, and suggest the nearest known one."""
    for key in values.keys() - known:
        near = nearest(key, known)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"
        raise ConfigError(f"{where}: unknown key {shown(key)}{hint}")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known name most like this one, if any is; the search takes memory for each character."""
    return get_close_matches(name, list(known), 1) if len(name) <= MAX_NAME else []


def check_choice(what: str, value: object, choices: Iterable[str]) -> None:
    """Raise ConfigError unless the value is one of the choices."""
    known = tuple(choices)
    if value not in known:
        raise ConfigError(f"unknown {what} {shown(value)}; choose {', '.join(known)}")


_shortened = Repr()
_shortened.maxstring = _shortened.maxother = _shortened.maxlong = 80


def shown(value: object) -> str:
    """A value as an error message quotes it: its middle is left out if it is long."""
    return _shortened.repr(value)
