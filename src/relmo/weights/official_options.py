"""options.json of bilm-tf and AllenNLP <-> ElmoConfig. FORMATS: docs/formats.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, TokenizerName, WordTableConfig
from relmo.errors import ConfigError, WeightError

LSTM_KEYS = ("dim", "projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections")
CNN_KEYS = (
    "activation",
    "filters",
    "n_highway",
    "embedding",
    "n_characters",
    "max_characters_per_token",
)
TOKENIZER: TokenizerName = "treebank"
"""Close to how the text was split that official models were trained on."""
RAW_CHARACTERS = 261
"""Rows of char_embed; options.json counts 261 in training files and 262 (with padding) else."""


def to_config(
    options: Mapping[str, Any],
    path: Path,
    num_words: int | None,
    has_cell_projection: bool,
    has_cnn_projection: bool,
) -> ElmoConfig:
    """Settings of an official model.

    Args:
        options: what options.json holds.
        path: of options.json, for messages.
        num_words: rows of the word table, or None for a character model.
        has_cell_projection: whether the weights hold W_P_0; bilm-tf leaves it out where dim and
            projection_dim agree, AllenNLP does not.
        has_cnn_projection: whether the weights hold CNN_proj, for the same reason.
    """
    lstm = _section(options, "lstm", path)
    try:
        width = _whole(lstm, "projection_dim", path)
        return ElmoConfig(
            tokens=_cnn_config(_section(options, "char_cnn", path), width, has_cnn_projection, path)
            if num_words is None
            else WordTableConfig(width=width, num_words=num_words),
            lstm=LstmConfig(
                num_layers=lstm.get("n_layers", 1),
                cell_width=_whole(lstm, "dim", path),
                output_width=width,
                has_projection=has_cell_projection,
                cell_clip=lstm.get("cell_clip") or None,  # 0 means no clip, as in AllenNLP
                output_clip=lstm.get("proj_clip") or None,
                has_skips=lstm.get("use_skip_connections") or False,
            ),
            tokenizer=TOKENIZER,
            official=_leftover(options),
        )
    except (ConfigError, TypeError, ValueError) as error:
        if isinstance(error, WeightError):
            raise
        raise WeightError(f"{path}: {error}; is it the options.json of an ELMo?") from error


def _cnn_config(
    cnn: Mapping[str, Any], width: int, has_projection: bool, path: Path
) -> CharCnnConfig:
    count = cnn.get("n_characters", RAW_CHARACTERS + 1)
    if count not in (RAW_CHARACTERS, RAW_CHARACTERS + 1):
        raise WeightError(
            f"{path}: n_characters is {count}; the byte scheme has 261 (262 with padding)"
        )
    embedding = _section(cnn, "embedding", path)
    return CharCnnConfig(
        width=width,
        max_characters=cnn.get("max_characters_per_token", 50),
        character_width=_whole(embedding, "dim", path),
        filters=tuple((int(size), int(number)) for size, number in _value(cnn, "filters", path)),
        activation=cnn.get("activation", "relu"),
        num_highways=cnn.get("n_highway") or 0,
        has_projection=has_projection,
    )


def to_options(config: ElmoConfig) -> dict[str, Any]:
    """What options.json holds for these settings; keys kept from an earlier one come back."""
    official = dict(config.official)
    lstm = {
        "use_skip_connections": config.lstm.has_skips,
        "projection_dim": config.lstm.output_width,
        "cell_clip": config.lstm.cell_clip,
        "proj_clip": config.lstm.output_clip,
        "dim": config.lstm.cell_width,
        "n_layers": config.lstm.num_layers,
    }
    options = {**official, "lstm": {**official.get("lstm", {}), **lstm}}
    if isinstance(config.tokens, WordTableConfig):
        return options
    if config.tokens.scheme != "bytes":
        raise WeightError(
            "the official format spells words in bytes; a code-point model can only be stored "
            "in the native format"
        )
    cnn = {
        "activation": config.tokens.activation,
        "filters": [list(pair) for pair in config.tokens.filters],
        "n_highway": config.tokens.num_highways,
        "embedding": {"dim": config.tokens.character_width},
        "n_characters": RAW_CHARACTERS + 1,
        "max_characters_per_token": config.tokens.max_characters,
    }
    return {**options, "char_cnn": {**official.get("char_cnn", {}), **cnn}}


def _leftover(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that shape nothing here; training files carry many."""
    rest = {key: value for key, value in options.items() if key not in ("lstm", "char_cnn")}
    for section, used in (("lstm", LSTM_KEYS), ("char_cnn", CNN_KEYS)):
        values = options.get(section, {})
        unused = {key: value for key, value in values.items() if key not in used}
        if unused:
            rest[section] = unused
    return rest


def _value(values: Mapping[str, Any], key: str, path: Path) -> Any:  # noqa: ANN401 - any JSON
    if key not in values:
        raise WeightError(f"{path}: lacks {key!r}; is it the options.json of an ELMo?")
    return values[key]


def _section(values: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    section = _value(values, key, path)
    if not isinstance(section, Mapping):
        raise WeightError(f"{path}: {key!r} is {section!r}, an object is needed")
    return section


def _whole(values: Mapping[str, Any], key: str, path: Path) -> int:
    number = _value(values, key, path)
    if not isinstance(number, int) or isinstance(number, bool):
        raise WeightError(f"{path}: {key!r} is {number!r}, a whole number is needed")
    return number
