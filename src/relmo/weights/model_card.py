"""The model card, README.md of a model folder, generated from what is known about the model.

Every card has the model's settings and training record. The card of a released model has more:
where its text comes from, how well it predicts, what its storage costs (`CardExtras`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relmo.config import CharCnnConfig, ElmoConfig
from relmo.weights.tensors import Storage, expected_shapes

TAGS = "elmo", "word-embeddings", "language-model"
LIMITS = (
    "Its vectors reflect the text it was trained on, including that text's biases and errors.",
    "It computes vectors of words in context. It is not made to generate text.",
)
STORED_START = (
    "A sentence starts from a state that is stored with the weights; "
    '`start="zero"` starts from zero, as the official ELMos do.'
)
ZERO_START = (
    "A sentence starts from zero, as in the official ELMos: on held-out text this was better than "
    'the mean state after a sentence, which is stored with the weights (`start="stored"`).'
)


@dataclass(frozen=True, kw_only=True)
class CardExtras:
    """What a card says beyond the model's own files; by default nothing."""

    front_matter: Sequence[str] = ()
    name: str = "path/to/this/folder"
    """How the example names the model."""
    install: str = ""
    before_training: Sequence[str] = ()
    """Headings and paragraphs before the training record, and after it."""
    after_training: Sequence[str] = ()
    limits: Sequence[str] = ()
    start_cost: str = ""
    """What the start state that is not the model's default costs, as the end of a paragraph."""


def model_card(
    config: ElmoConfig,
    num_words: int | None,
    storage: Storage = "float32",
    num_bytes: int | None = None,
    extras: CardExtras | None = None,
) -> str:
    """The text of the card.

    Args:
        config: The model's settings and training record.
        num_words: Size of the softmax, None for a model without one.
        storage: How the weights are stored.
        num_bytes: Total size of the model's files.
        extras: More information about a released model.
    """
    extras = extras or CardExtras()
    parts = [
        front_matter(config.licence, extras.front_matter, "feature-extraction", TAGS),
        f"# {config.name or 'ELMo'}",
        *_summary(config, extras),
        "## Sizes",
        table(("", ""), _sizes(config, num_words, storage, num_bytes)),
        *extras.before_training,
        "## Training",
        *_training(config),
        *extras.after_training,
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(config, extras)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def front_matter(licence: str, more: Sequence[str], pipeline: str, tags: Sequence[str]) -> str:
    """YAML for the Hugging Face hub."""
    lines = ["---"]
    if licence:
        is_id = re.fullmatch(r"[A-Za-z0-9.-]+", licence)
        lines.append(f"license: {licence.lower() if is_id else 'other'}")
    lines += [*more, "library_name: relmo"]
    lines += [f"pipeline_tag: {pipeline}"] if pipeline else []
    return "\n".join([*lines, "tags:", *(f"- {tag}" for tag in tags), "---"])


def _summary(config: ElmoConfig, extras: CardExtras) -> list[str]:
    by_letters = isinstance(config.tokens, CharCnnConfig)
    shape = f"{config.num_layers} layers of width {config.width}"
    example = f"({config.num_layers}, 4, {config.width})"
    return [
        f"An ELMo model: {shape} for every word of a sentence, from a forward and a backward "
        f"language model. Words are {'spelled' if by_letters else 'looked up in a vocabulary'}.",
        f"    from relmo import Elmo\n"
        f'    elmo = Elmo.from_pretrained("{extras.name}")\n'
        f'    elmo.embed([["The", "bank", "raised", "rates"]])[0].shape    # {example}',
        extras.install,
    ]


def _sizes(
    config: ElmoConfig, num_words: int | None, storage: Storage, num_bytes: int | None
) -> list[tuple[str, str]]:
    tokens, lstm = config.tokens, config.lstm
    parameters = sum(shape.numel() for shape in expected_shapes(config).values())
    words = f"vocabulary of {getattr(tokens, 'num_words', 0):,} words"
    if isinstance(tokens, CharCnnConfig):
        words = f"{tokens.num_filters:,} filters over {tokens.scheme.replace('_', ' ')}, "
        words += f"{tokens.num_highways} highway{'' if tokens.num_highways == 1 else 's'}"
    lstms = f"{lstm.num_layers} per direction, {lstm.cell_width:,} cells, "
    lstms += f"output width {lstm.output_width:,}"
    stored = storage if num_bytes is None else f"{storage}, {num_bytes / 1e6:,.1f} MB"
    return [
        ("layers and width", f"{config.num_layers}, {config.width:,}"),
        ("parameters", f"{parameters:,} without the softmax"),
        ("words", words),
        ("LSTMs", lstms),
        ("softmax", "none" if num_words is None else f"{num_words:,} words"),
        ("tokenizer", config.tokenizer),
        ("state before a sentence", "stored" if config.start == "stored" else "zero"),
        ("storage", stored),
        ("licence", config.licence or "not stated"),
    ]


def _training(config: ElmoConfig) -> list[str]:
    record = config.training
    if not record:
        return ["Not recorded."]
    if not (rows := list(training_rows(record))):
        return [f"```json\n{json.dumps(dict(record), indent=2, ensure_ascii=False)}\n```"]
    recipe = record.get("recipe")
    block = toml_block(recipe) if isinstance(recipe, Mapping) else ""
    return [table(("", ""), rows), block, "config.json contains the full record."]


def training_rows(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The rows for what our trainer recorded."""
    for key, label in (("tokens_seen", "tokens seen"), ("steps", "steps")):
        if isinstance(record.get(key), int):
            yield label, f"{record[key]:,}"
    if isinstance(record.get("seconds"), int | float):
        yield "training time", f"{record['seconds'] / 60:,.1f} minutes"
    if record.get("taught_by"):
        yield "teacher", str(record["taught_by"])
    for key in ("hardware", "seed", "commit"):
        if record.get(key) not in (None, ""):
            yield key, str(record[key])
    if isinstance(record.get("versions"), Mapping):
        yield "versions", ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    results = record.get("results")
    if isinstance(results, Mapping) and isinstance(results.get("held_out_mean"), float):
        yield "held-out perplexity at the end", f"{results['held_out_mean']:.2f}"


def _limits(config: ElmoConfig, extras: CardExtras) -> list[str]:
    limits = [*extras.limits, *LIMITS]
    if config.has_start_state:
        limits.append(
            (STORED_START if config.start == "stored" else ZERO_START) + extras.start_cost
        )
    tokens = config.tokens
    if isinstance(tokens, CharCnnConfig):
        unit = "bytes" if tokens.scheme == "bytes" else "characters"
        limits.append(f"Words are cut after {tokens.max_characters - 2} {unit}.")
    return limits


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def toml_block(recipe: Mapping[str, Mapping[str, Any]]) -> str:
    """A recipe in Markdown; None, which TOML lacks, is omitted."""
    lines = []
    for name, section in recipe.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {json.dumps(v)}" for key, v in section.items() if v is not None]
    return "\n".join(["```toml", *lines[1:], "```"])
